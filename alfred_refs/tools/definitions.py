r"""Tool definitions for clients: prompt text and JSON schemas.

`description_of` writes a table's name and a line for each column. It lists only what a model may
use, and line breaks in names and comments are removed.

>>> print(description_of([toolset.tables.by_name("recipes")]).partition("\n")[2])
recipes
  id: recipe ref, read only
  name*: text
  servings?: integer
  related: lines (many lines)
  lists: lines

`schemas_of` combines the argument models and the tables into definitions in a client's format:

>>> [definition["name"] for definition in toolset.schemas("mcp")]
['db_read', 'db_create', 'db_update', 'db_delete', 'db_edit_list']

Columns and filters are described once, in the arguments of `db_read`, because a model reads all
definitions in each turn. They are text and not one schema for each table: clients refuse or ignore
`oneOf` by table, and it takes three times the tokens (`benchmarks.json_size`). A tool's
description is short, because OpenAI allows 1,024 characters there; a parameter's may be longer.
OpenAI's strict mode is off: it supports neither data whose fields depend on a table nor optional
fields. No definition has `$defs`, because not all clients follow references.

Limits: descriptions are not translated, and a client that changes a schema may hide what a model
needs to know. The definitions of the application's own tools are made by `functions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from sqlalchemy import inspect
from sqlalchemy.orm import MANYTOONE

from alfred_refs.errors import SetupError
from alfred_refs.mapping import clean_label
from alfred_refs.mapping.columns import Family, Values
from alfred_refs.tools.arguments import DRAFTS, FILTER_KINDS, SEMANTIC, arguments_schema
from alfred_refs.tools.call import Setting
from alfred_refs.tools.payload import nestable
from alfred_refs.tools.rules import Rule, quote_text, rules_of
from alfred_refs.tools.tables import VERBS, ToolColumn, ToolTable, lists_of

MAX_CHOICES = 50
"""The maximum number of listed choices of a column; more would crowd out other columns."""

# family of values -> its word, unless the JSON schema type is shorter
_FAMILY_WORDS: Mapping[Family, str] = {"text": "text", "json": "any JSON", "opaque": "raw data"}

_HOW_TO_READ = (
    "Under each table its columns. '*': a new row needs it. '?': may be null. '{entity} ref': a "
    "text such as '{entity}_1', as rows show it. 'related': where to find related rows, for "
    "'columns' and for paths in filters ('name.column')."
)
_HOW_TO_READ_LISTS = " 'lists': what db_edit_list edits by position."
_HOW_TO_DRAFT = (
    "Under each table the columns of a new row. '*': it needs this one. '?': may be null. "
    "'{entity} ref': a text such as '{entity}_1', as rows show it."
)
_HOW_TO_NEST = (
    " 'inside': new rows may be given inside the row, under this name; they need no ref of it."
    " Refs of existing rows may stand there too."
)


def description_of(
    tables: Iterable[ToolTable],
    filled: Callable[[ToolTable], Collection[str]] = lambda _: (),
) -> str:
    """Return the description of tables for a model; empty without tables.

    Args:
        tables: the tables.
        filled: a function that returns the columns of a table that hooks set in new rows.
    """
    listed = list(tables)
    if not listed:
        return ""
    entity = listed[0].entity or listed[0].ends[0].table.entity
    lines = [_HOW_TO_READ.format(entity=entity)]
    lines[0] += _HOW_TO_READ_LISTS if any(map(lists_of, listed)) else ""
    for table in listed:
        lines += _table_lines(table, filled(table))
    return "\n".join(lines)


def description_of_drafts(
    tables: Iterable[ToolTable], filled: Callable[[ToolTable], Collection[str]]
) -> str:
    """Return what drafts of tables may contain, with the tables of rows inside them.

    Args:
        tables: the tables.
        filled: as for `description_of`.
    """
    listed = list(tables)
    lines: list[str] = []
    for table in listed:  # grows by the tables of rows inside
        inside = [
            name
            for name in nestable(table)
            if table.relationship(name).direction is not MANYTOONE  # these rows come first
            and "create" in table.targets[name].verbs
        ]
        targets = dict.fromkeys(table.targets[name] for name in inside)
        listed += [each for each in targets if each not in listed]
        lines.append(_quote_name(table.name) + _table_comment(table))
        lines += _column_lines(table, filled(table), [*table.creatable.values()])
        lines += [f"  inside: {_related(table, inside)}"] if inside else []
    if not lines:
        return ""
    nest = _HOW_TO_NEST if any(line.startswith("  inside: ") for line in lines) else ""
    return "\n".join([_HOW_TO_DRAFT.format(entity=listed[0].entity) + nest, *lines])


def _table_lines(table: ToolTable, filled: Collection[str]) -> Iterator[str]:
    yield "".join(
        [
            _quote_name(table.name),
            _linked(table) if table.ends else _forbidden_verbs(table),
            _table_comment(table),
        ]
    )
    if table.row_ref is not None:
        yield f"  {table.row_ref}: {table.entity} ref, read only"
    yield from _column_lines(table, filled, table.columns.values())
    if table.targets:
        yield f"  related: {_related(table, table.targets)}"
    lists = lists_of(table)
    if lists:
        yield "  lists: " + ", ".join(map(_quote_name, lists))


def _table_comment(table: ToolTable) -> str:
    return _comment_suffix(getattr(inspect(table.model).local_table, "comment", None))


def _column_lines(
    table: ToolTable, filled: Collection[str], columns: Iterable[ToolColumn]
) -> Iterator[str]:
    """Yield a line for each column, and one for each rule about several of the table."""
    rules = rules_of(table)
    by_column: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.is_inline:
            by_column.setdefault(rule.columns[0], []).append(rule)
    for column in columns:
        is_needed = column.required and column.name not in filled and "create" in table.verbs
        line = _column_line(column, table, by_column.get(column.name, ()), is_needed=is_needed)
        yield f"  {line}"
    if not table.read_only:
        yield from (f"  {rule.line}" for rule in rules if not rule.is_inline)


def _related(table: ToolTable, names: Iterable[str]) -> str:
    return ", ".join(
        f"{_quote_name(name)} ({'many ' if table.relationship(name).uselist else ''}"
        f"{_quote_name(table.targets[name].name)})"
        for name in names
    )


def _linked(table: ToolTable) -> str:
    """Return a note that describes the rows of an association table."""
    one, other = (_quote_name(end.table.name) for end in table.ends)
    return f" (links {one} and {other}{', read only' if table.read_only else ''})"


def _forbidden_verbs(table: ToolTable) -> str:
    """Return a note on the verbs that are not allowed on a table."""
    missing = [verb for verb in VERBS if verb not in table.verbs]
    if table.read_only:
        return " (read only)"
    return f" ({', '.join(f'no {verb}' for verb in missing)})" if missing else ""


def _column_line(
    column: ToolColumn, table: ToolTable, rules: Sequence[Rule], *, is_needed: bool
) -> str:
    mark = "?" if column.nullable else "*" * is_needed
    choices = [_join_choices(rule.choices) for rule in rules if rule.choices]
    notes = choices or [_column_type(column)]
    if table.verbs - {"delete"}:
        notes += [rule.words for rule in rules if rule.words]
    if "update" in table.verbs and column.creatable and not column.updatable:
        notes.append("not changed later")
    elif table.verbs - {"delete"} and not (column.creatable or column.updatable):
        notes.append("read only")
    if not column.shown:
        notes.append("shown if named")
    return f"{_quote_name(column.name)}{mark}: {', '.join(notes)}{_comment_suffix(column.doc)}"


def _column_type(column: ToolColumn) -> str:
    if column.key is None:
        return _value_words(column.values)
    ref = f"{column.key.entity} ref"
    return f"[{ref}]" if column.key.array else ref


def _value_words(values: Values) -> str:
    """Return the values that a column accepts, in few words."""
    if values.item is not None:
        return f"[{_value_words(values.item)}]"
    if values.longest is not None:
        return f"text, at most {values.longest} characters"
    if values.digits is not None and values.digits.decimals >= 0:
        decimals = values.digits.decimals
        return f"{_type_words(values)}, {decimals} decimal{'' if decimals == 1 else 's'}"
    if values.family == "choice":
        choices = values.schema["enum"]
        return _join_choices([quote_text(choice) for choice in choices])
    known = _FAMILY_WORDS.get(values.family)
    return known or values.schema.get("format") or _type_words(values)


def _type_words(values: Values) -> str:
    """Return the JSON types of values; large numbers are texts."""
    types = values.schema["type"]
    return types if isinstance(types, str) else " or ".join(types)


def _join_choices(choices: Sequence[str]) -> str:
    shown = " | ".join(choices[:MAX_CHOICES])
    more = len(choices) - MAX_CHOICES
    return shown if more <= 0 else f"{shown} | {more} more"


def _quote_name(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _comment_suffix(text: str | None) -> str:
    line = None if text is None else clean_label(text)
    return "" if line is None else f" - {line}"


Form = Literal["openai", "anthropic", "mcp", "json_schema"]

Schema = dict[str, Any]

_JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"

# keywords that are left out of the schemas of our tools
_CHECKED_BY_TOOLS = ("additionalProperties", "minItems", "minProperties", "minimum")

# fields whose description names their types in fewer words than their schema
_OF_SEVERAL_TYPES = {"order_by", "order_dir", "from_draft", "expect"}

_FILTERS = ": each is a condition, or a group with 'and', 'or' or 'not'"
_CONTAINS = "; 'contains' takes a list"
_SIMILAR = (
    f"; 'similar', with field {SEMANTIC!r} and a text, finds rows by meaning: in filters only"
)

# tool -> its description; `{}` is filled from the setting
_PURPOSES: Mapping[str, str] = {
    "db_read": "Read rows of a table: at most {rows} an answer. Rows are named by refs such as "
    "'{entity}_1', in all tools. If 'more' is true, call again with the 'cursor' of the answer.",
    "db_create": "Create one row of a table, or up to {written}: all of them or none.",
    "db_update": "Change the rows of a table that meet all filters, up to {written}: all of them "
    "or none.",
    "db_delete": "Delete the rows of a table that meet all filters, up to {written}: all of them "
    "or none.",
    "db_edit_list": "Edit a list of one row by position: all edits or none. All positions are "
    "those before the call: to drop items 3 and 5, remove [3] and remove [5]. Answers "
    "with the items that changed and those next to them.",
}

# tool -> addition to its description if drafts are enabled
_WITH_DRAFTS: Mapping[str, str] = {
    "db_read": " Filters that name rows by their refs may name drafts, such as 'gen_{entity}_1'.",
    "db_update": " Do not mix drafts and rows in one call.",
    "db_delete": " Do not mix drafts and rows in one call.",
}

# field of a write -> addition to its description if labels are required
_LABEL_NOTES: Mapping[str, str] = {
    "data": "; beside each ref the label of its row, under '_<column>_label'",
    "expect": "; needed for rows named by refs",
}

# tool -> its hints in the Model Context Protocol
_HINTS: Mapping[str, dict[str, bool]] = {
    "db_read": {"readOnlyHint": True},
    "db_create": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False},
    "db_update": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
    "db_delete": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
    "db_edit_list": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
}


def hints_of(*, reads: bool) -> dict[str, bool]:
    """Return the MCP hints of a tool of the application."""
    return {"readOnlyHint": reads} | ({} if reads else {"destructiveHint": True})


def schemas_of(
    setting: Setting,
    form: Form,
    own: Iterable[tuple[str, str, Schema, dict[str, bool]]] = (),
    *,
    describe: bool,
) -> list[Schema]:
    """Return the definitions of the tools that a model may use, in a client's format.

    Args:
        setting: the setting of the toolset.
        form: the client's format.
        own: the application's tools: name, description, schema of the arguments, hints.
        describe: whether to include the description of the tables.

    Raises:
        SetupError: the format is unknown.
    """
    if form not in get_args(Form):
        raise SetupError(
            f"schemas were asked for in the form {form!r}",
            f"choose one of {', '.join(map(repr, get_args(Form)))}",
        )
    tables = (
        (*each, {**_HINTS[each[0]], "openWorldHint": False})
        for each in _definitions(setting, describe=describe)
    )
    functions = (
        (name, description, _lean(inline(schema)), hints)
        for name, description, schema, hints in own
    )
    return [_in_form(form, *each) for each in (*tables, *functions)]


def _in_form(
    form: Form, name: str, description: str, parameters: Schema, hints: dict[str, bool]
) -> Schema:
    """Return the definition of a tool in a client's format."""
    head: Schema = {"name": name, "description": description}
    match form:
        case "openai":
            function = {**head, "parameters": parameters, "strict": False}
            return {"type": "function", "function": function}
        case "anthropic":
            return {**head, "input_schema": parameters}
        case "mcp":
            return {**head, "inputSchema": parameters, "annotations": hints}
        case "json_schema":
            document = {"$schema": _JSON_SCHEMA, "title": name, "description": description}
            return {**document, **parameters}


def _definitions(setting: Setting, *, describe: bool) -> Iterator[tuple[str, str, Schema]]:
    """Yield the name, description and arguments schema of each tool on tables."""
    listed = list(setting.tables)
    entity = listed[0].entity if listed else "row"
    sizes = {"rows": setting.limits.rows, "written": setting.max_written, "entity": entity}
    for name, purpose in _PURPOSES.items():
        reads = name == "db_read"
        tables = [each for each in listed if _applies_to(name, each)]
        if not tables:
            continue
        parameters = _parameters(name, setting)
        table = parameters["properties"]["table"]
        table["enum"] = [each.name for each in tables]
        if describe and reads:
            table["description"] = description_of(tables, setting.filled_by_hooks)
        description = purpose + (_WITH_DRAFTS.get(name, "") if setting.drafts else "")
        yield name, description.format(**sizes), parameters


def names_of(tables: Iterable[ToolTable]) -> list[str]:
    """Return the names of the tools that apply to at least one table."""
    listed = [*tables]
    return [name for name in _PURPOSES if any(_applies_to(name, each) for each in listed)]


def _applies_to(tool: str, table: ToolTable) -> bool:
    """Return whether a tool applies to a table."""
    if tool == "db_edit_list":
        return bool(lists_of(table))
    return tool == "db_read" or tool.removeprefix("db_") in table.verbs


def _parameters(tool: str, setting: Setting) -> Schema:
    """Return the schema of a tool's arguments."""
    given = inline(_with_draft_notes(arguments_schema(tool), drafts=setting.drafts))
    schema = _small(_lean(given))
    fields = schema["properties"]
    # the description is in the definition, outside the schema
    del schema["description"]
    if tool == "db_delete" and "db_update" in names_of(setting.tables):
        fields["expect"]["description"] = "as in db_update"
    _add_label_notes(schema, setting)
    if tool == "db_edit_list":
        del fields["edits"]["items"]["description"]
    if "filters" in fields:
        fields["filters"]["items"] = _filter(tool, setting)
        fields["filters"]["description"] += _FILTERS if tool == "db_read" else "; as in db_read"
    if "or_filters" in fields:
        fields["or_filters"]["items"] = {"type": "object"}
    if "also" in fields:
        names = [*fields["also"]["items"]["properties"]]
        fields["also"]["items"] = {"type": "object"}
        fields["also"]["description"] += f": objects with {', '.join(names)}"
    for name in _OF_SEVERAL_TYPES & fields.keys():
        fields[name] = {"description": fields[name]["description"]}
    if "data" in fields and not setting.drafts and tool == "db_create":
        schema["required"].append("data")
    return schema


def filter_kinds(tool: str, setting: Setting) -> list[Schema]:
    """Return the schemas of all kinds of filters of a tool, for a prompt.

    Filters inside groups are `{"$ref": "#/$defs/Filter"}`.
    """
    kinds = arguments_schema("db_read")["$defs"]
    clause, *groups = (_lean(kinds[kind]) for kind in FILTER_KINDS)
    clause["properties"] = _clause_fields(tool, setting)
    inside = {"$ref": "#/$defs/Filter"}
    for group in groups:
        [(name, field)] = group["properties"].items()
        group["properties"] = {name: {**field, "items": inside} if "items" in field else inside}
    return [clause, *groups]


def _filter(tool: str, setting: Setting) -> Schema:
    """Return the schema of a filter: one object for all kinds, which is a tenth as long.

    Filters inside filters would need a `$ref`, which not all clients accept.
    """
    clause = _clause_fields(tool, setting)
    if tool != "db_read":  # models read all definitions together, so one explains filters
        return {"type": "object"}
    return {"type": "object", "properties": {**clause, "and": {}, "or": {}, "not": {}}}


def _clause_fields(tool: str, setting: Setting) -> Schema:
    """Return the schemas of the fields of a condition."""
    clause: Schema = _lean(arguments_schema("db_read")["$defs"]["FilterClause"])["properties"]
    clause["op"]["enum"] = operators = setting.operators(tool)
    for operator, note in (("contains", _CONTAINS), ("similar", _SIMILAR)):
        clause["op"]["description"] += note if operator in operators else ""
    path = _path_among(setting.tables)
    clause["field"]["description"] += f", such as {path!r}" if path else ""
    return clause


def _add_label_notes(schema: Schema, setting: Setting) -> None:
    """Note in a schema that labels are required, if they are."""
    for field in (
        _LABEL_NOTES.keys() & schema["properties"] if setting.expect == "required" else ()
    ):
        schema["properties"][field]["description"] += _LABEL_NOTES[field]


def _path_among(tables: Iterable[ToolTable]) -> str | None:
    """Return an example of a path from one of the tables to a column of another."""
    paths = (
        f"{name}.{column.name}"
        for table in tables
        for name, target in table.targets.items()
        for column in target.columns.values()
        if column.key is None and column.shown
    )
    return next(paths, None)


def _with_draft_notes(schema: Any, *, drafts: bool) -> Any:
    """Add notes on drafts to a schema if drafts are enabled; otherwise remove its draft fields."""
    if isinstance(schema, list):
        return [_with_draft_notes(each, drafts=drafts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: _with_draft_notes(each, drafts=drafts)
        for name, each in schema.items()
        if name != DRAFTS and (drafts or not (isinstance(each, dict) and each.get(DRAFTS) is True))
    }
    more = schema.get(DRAFTS)
    if drafts and isinstance(more, str):
        kept["description"] += more
    return kept


def _lean(schema: Schema) -> Schema:
    """Return a pydantic schema without keywords that a model does not need."""
    lean = {name: each for name, each in schema.items() if name not in ("title", "default")}
    if lean.get("additionalProperties") is True:
        del lean["additionalProperties"]
    if "description" in lean:
        lean["description"] = " ".join(lean["description"].split())
    if "enum" in lean:
        lean["enum"] = list(lean["enum"])
    if "properties" in lean:
        lean["properties"] = {name: _lean(each) for name, each in lean["properties"].items()}
    if "items" in lean:
        lean["items"] = _lean(lean["items"])
    if "anyOf" in lean:
        lean |= _union([_lean(each) for each in lean.pop("anyOf")])
    return lean


def _small(schema: Schema) -> Schema:
    """Return the schema of one of our tools without rules that the tool checks itself.

    These are limits, unknown fields, and null, which means that an argument is omitted.
    """
    small = {name: each for name, each in schema.items() if name not in _CHECKED_BY_TOOLS}
    if isinstance(small.get("type"), list):
        [small["type"], *others] = [each for each in small["type"] if each != "null"]
        if others:
            del small["type"]
    if "properties" in small:
        small["properties"] = {name: _small(each) for name, each in small["properties"].items()}
    if "items" in small:
        small["items"] = _small(small["items"])
    if "anyOf" in small:
        choices = [_small(each) for each in small.pop("anyOf") if each.get("type") != "null"]
        small |= choices[0] if len(choices) == 1 else {"anyOf": choices}
    return small


def inline(schema: Schema) -> Schema:
    """Return a schema with definitions in place of references to them.

    LangChain and some providers do not follow references. A reference of a definition to itself
    becomes any object.
    """
    definitions = schema.get("$defs", {})

    def replaced(value: Any, inside: frozenset[str]) -> Any:
        if isinstance(value, list):
            return [replaced(each, inside) for each in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            name = value["$ref"].rpartition("/")[2]
            others = {n: replaced(each, inside) for n, each in value.items() if n != "$ref"}
            if name in inside:
                return {"type": "object", **others}
            return {**replaced(definitions[name], inside | {name}), **others}
        return {n: replaced(each, inside) for n, each in value.items() if n != "$defs"}

    plain: Schema = replaced(schema, frozenset())
    return plain


def _union(choices: list[Schema]) -> Schema:
    """Return the union of schemas; plain types become a list of types."""
    if all(choice.keys() == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}
