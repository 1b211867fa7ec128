"""What a model is told of the tools: a name, a description and a JSON schema of the arguments.

The argument models and the tables come in; definitions in the form of a client go out, as JSON
values. A schema says exactly what the argument models accept, and which tables there are. What
columns a table has, and what filters mean, stands once, in the descriptions of `db_read`'s
arguments, because a model reads all definitions with each of its turns. It is text, not one schema
for each table: clients refuse or ignore `oneOf` by table, and it takes three times the tokens
(`benchmarks.json_size`).

A description of a function is short, for OpenAI takes 1,024 characters there; that of a parameter
may be longer. OpenAI's strict mode is off: it has no place for data whose fields depend on a
table, nor for optional ones. There is one `$defs` entry, `Filter`, which refers to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from alfred_refs.errors import SetupError
from alfred_refs.tools.tables.describing import description_of
from alfred_refs.tools.tables.hooks import Hooks
from alfred_refs.tools.tables.lists import lists_of
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import DRAFTS, KINDS, SEMANTIC, TOOLS

from .call import Setting

Form = Literal["openai", "anthropic", "mcp", "json_schema"]

Schema = dict[str, Any]

_JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"

_FILTER = {"$ref": "#/$defs/Filter"}

_SIMILAR = (
    f"; 'similar', with field {SEMANTIC!r} and a text, finds rows by meaning: in filters only"
)

# what a tool is called -> what it does; `{}` are the setting's
_PURPOSES: Mapping[str, str] = {
    "db_read": "Read rows of a table: at most {rows} an answer. Rows are named by refs such as "
    "'{entity}_1', in all tools. If 'more' is true, call again with the 'cursor' of the answer.",
    "db_create": "Create one row of a table, or up to {written}: all of them or none.",
    "db_update": "Change the rows of a table that meet all filters, up to {written}: all of them "
    "or none.",
    "db_delete": "Delete the rows of a table that meet all filters, up to {written}: all of them "
    "or none.",
    "db_edit_list": "Edit a list of one row by position: all edits or none. Every position of an "
    "item is the one before the call, whatever other edits do: to drop items 3 and 5, remove [3] "
    "and remove [5]. Answers with each item under its position.",
}

# what a tool is called -> what it does to drafts, where there are some
_WITH_DRAFTS: Mapping[str, str] = {
    "db_read": " Filters that name rows by their refs may name drafts, such as 'gen_{entity}_1'.",
    "db_update": " Drafts are changed in calls of their own.",
    "db_delete": " Drafts are discarded in calls of their own.",
}

# what a tool is called -> what it does to rows, in the words of the Model Context Protocol
_HINTS: Mapping[str, dict[str, bool]] = {
    "db_read": {"readOnlyHint": True},
    "db_create": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False},
    "db_update": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
    "db_delete": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
    "db_edit_list": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
}


def hints_of(*, reads: bool) -> dict[str, bool]:
    """Return what a client is told that a tool of the application does to rows."""
    return {"readOnlyHint": reads} | ({} if reads else {"destructiveHint": True})


def schemas_of(
    setting: Setting,
    form: Form,
    own: Iterable[tuple[str, str, Schema, dict[str, bool]]] = (),
    *,
    describe: bool,
) -> list[Schema]:
    """Return the definitions of the tools that a model may use, in the form of a client.

    Args:
        setting: of the toolset.
        form: the client's.
        own: the application's tools: name, what it does, schema of the arguments, and hints.
        describe: whether the tables are described.

    Raises:
        SetupError: there is no such form.
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
    functions = ((name, told, _lean(schema), hints) for name, told, schema, hints in own)
    return [_in_form(form, *each) for each in (*tables, *functions)]


def _in_form(
    form: Form, name: str, description: str, parameters: Schema, hints: dict[str, bool]
) -> Schema:
    """Return the definition of a tool as a client takes it."""
    told: Schema = {"name": name, "description": description}
    match form:
        case "openai":
            function = {**told, "parameters": parameters, "strict": False}
            return {"type": "function", "function": function}
        case "anthropic":
            return {**told, "input_schema": parameters}
        case "mcp":
            return {**told, "inputSchema": parameters, "annotations": hints}
        case "json_schema":
            head = {"$schema": _JSON_SCHEMA, "title": name, "description": description}
            return {**head, **parameters}


def _definitions(setting: Setting, *, describe: bool) -> Iterator[tuple[str, str, Schema]]:
    """Yield what a model is told of each tool: its name, what it does, and its arguments."""
    listed = list(setting.tables)
    entity = listed[0].entity if listed else "row"
    sizes = {"rows": setting.limits.rows, "written": setting.max_written, "entity": entity}
    for name, purpose in _PURPOSES.items():
        reads = name == "db_read"
        tables = [each for each in listed if _is_for(name, each)]
        if not tables:
            continue
        parameters = _parameters(name, setting)
        table = parameters["properties"]["table"]
        table["enum"] = [each.name for each in tables]
        if describe:
            table["description"] = description_of(tables) if reads else "its columns: see db_read"
        told = purpose + (_WITH_DRAFTS.get(name, "") if setting.drafts else "")
        yield name, told.format(**sizes), parameters


def _is_for(tool: str, table: ToolTable) -> bool:
    """Tell whether a tool may be used on a table."""
    if tool == "db_edit_list":
        return bool(lists_of(table))
    return tool == "db_read" or tool.removeprefix("db_") in table.verbs


def _parameters(tool: str, setting: Setting) -> Schema:
    """Return the schema of a tool's arguments."""
    given = _told(TOOLS[tool].model_json_schema(), drafts=setting.drafts)
    kinds = given.pop("$defs")
    schema = _lean(given)
    if tool == "db_edit_list":
        schema["properties"]["edits"]["items"] = edit = _lean(kinds["ListEdit"])
        del edit["description"]
    # the tool itself is described beside the schema
    del schema["description"]
    if tool == "db_create":
        schema["properties"]["also"]["items"] = rows = _unexplained(_lean(kinds["NewRows"]))
        for each in (schema, rows) if not setting.drafts else ():
            each["required"].append("data")
            each["properties"]["data"]["anyOf"].remove({"type": "null"})
    elif tool != "db_edit_list":
        schema["$defs"] = {"Filter": {"anyOf": _filters(tool, setting, kinds)}}
        if tool != "db_read":
            schema["properties"]["filters"]["description"] += "; as in db_read"
    return schema


def _filters(tool: str, setting: Setting, kinds: Mapping[str, Schema]) -> list[Schema]:
    """Return the schemas of the kinds of filters that a tool takes: explained once, for reads."""
    filters = [_lean(kinds[kind]) for kind in KINDS]
    clause = filters[0]["properties"]
    if tool == "db_read" and _is_searched(setting):
        clause["op"]["description"] += _SIMILAR
    else:
        clause["op"]["enum"].remove("similar")
    if tool != "db_read":
        return [_unexplained(each) for each in filters]
    path = _path_among(setting.tables)
    clause["field"]["description"] += f", such as {path!r}" if path else ""
    return filters


def _is_searched(setting: Setting) -> bool:
    """Tell whether a search by meaning may be answered: a hook for it is one for reads."""
    hooks = (each for listed in setting.hooks.values() for each in listed)
    return any(type(each).before_read is not Hooks.before_read for each in hooks)


def _path_among(tables: Iterable[ToolTable]) -> str | None:
    """Return a path from one of the tables to a column of another, as an example."""
    paths = (
        f"{name}.{column.name}"
        for table in tables
        for name, target in table.targets.items()
        for column in target.columns.values()
        if column.key is None and column.shown
    )
    return next(paths, None)


def _unexplained(kind: Schema) -> Schema:
    """Return a kind of filter without what the schema of reads says of it already."""
    return {
        name: {field: _unexplained(each) for field, each in value.items()}
        if name == "properties"
        else value
        for name, value in kind.items()
        if name != "description"
    }


def _told(schema: Any, *, drafts: bool) -> Any:
    """Return a schema with what it says of drafts, or without."""
    if isinstance(schema, list):
        return [_told(each, drafts=drafts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    told = {
        name: _told(each, drafts=drafts)
        for name, each in schema.items()
        if name != DRAFTS and (drafts or not (isinstance(each, dict) and each.get(DRAFTS) is True))
    }
    more = schema.get(DRAFTS)
    if drafts and isinstance(more, str):
        told["description"] += more
    return told


def _lean(schema: Schema) -> Schema:
    """Return one of pydantic's schemas without what a model need not read."""
    if "oneOf" in schema:
        # the only one is that of the filters; its kinds exclude each other
        return dict(_FILTER)
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


def _union(choices: list[Schema]) -> Schema:
    """Return that one of several schemas holds; plain types are written as a list of types."""
    if all(choice.keys() == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}
