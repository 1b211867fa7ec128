"""The tools of a toolset as text for prompt templates, from the tool definitions.

A prompt describes exactly the features of its toolset. So the templates are rendered with
`Instructions`, which is made from the definitions for clients (`Toolset.schemas`), with names of
the toolset's own columns as examples:

>>> instructions = instructions_for(toolset, ("db_read",))
>>> [tool.name for tool in instructions.tools]
['db_read']
>>> print(instructions.tools[0].arguments[4])
- `limit?` (integer): at most this many rows

`write_type` writes a JSON schema in few words, for arguments of tools and for decisions:

>>> write_type({"type": "array", "items": {"enum": ["asc", "desc"]}})
'["asc" | "desc"]'

All functions here are pure. Descriptions are the application's own, so nothing is quoted here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any, NamedTuple

from alfred_refs.tools import TOOLS, Toolset

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolText:
    """One tool.

    Attributes:
        name: its name.
        description: its description.
        arguments: a line for each argument.
    """

    name: str
    description: str
    arguments: Sequence[str]


class Example(NamedTuple):
    """A column or relationship of a toolset.

    Attributes:
        table: its table.
        name: its name.
        entity: the prefix of the refs in it; empty for a column of data.
        midnight: the text after the date in its values; empty for a column of dates.
    """

    table: str
    name: str
    entity: str = ""
    midnight: str = ""


_ANY_TABLE = Example("table", "id", "row")


@dataclass(frozen=True, slots=True)
class Examples:
    """Columns and relationships of a toolset; `None` for kinds that it lacks.

    Attributes:
        own: the field with each row's own ref.
        text: a column of text.
        time: a column of dates or times.
        elements: a column that supports `contains`.
        related: a relationship to several rows.
        parent: a writable column of refs to labelled rows.
    """

    own: Example = _ANY_TABLE
    text: Example | None = None
    time: Example | None = None
    elements: Example | None = None
    related: Example | None = None
    parent: Example | None = None


@dataclass(frozen=True, slots=True)
class Instructions:
    """The variables of templates for a toolset; without a toolset, no tools.

    Attributes:
        tools: the tools that a step may call.
        filters: a line for each kind of filter.
        tables: whether the toolset has tables.
        drafts: whether drafts are enabled.
        new_drafts: whether generated content becomes drafts.
        labels: whether writes must repeat labels.
        search: whether semantic search is available.
        writes: whether one of the toolset's tools changes rows.
        examples: names of tables and columns.
    """

    tools: Sequence[ToolText] = ()
    filters: Sequence[str] = ()
    tables: bool = True
    drafts: bool = True
    new_drafts: bool = False
    labels: bool = False
    search: bool = False
    writes: bool = False
    examples: Examples = Examples()

    def values(self) -> dict[str, Any]:
        """Return the variables of templates, by name."""
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "has": self.has}

    def has(self, *names: str) -> bool:
        """Return whether one of these tools is available."""
        return any(tool.name in names for tool in self.tools)


def instructions_for(toolset: Toolset | None, tools: tuple[str, ...] = ()) -> Instructions:
    """Return the instructions for a toolset, cached per toolset.

    Args:
        toolset: the toolset; `None` without tools.
        tools: the names of the tools that a step may call.
    """
    if toolset is None:
        return Instructions()
    return toolset.memo(("instructions", tools), lambda: _instructions(toolset, tools))


def _instructions(toolset: Toolset, tools: Collection[str]) -> Instructions:
    every = toolset.schemas("mcp", describe=False)
    definitions = [each for each in every if each["name"] in tools]
    filtering = [e["name"] for e in definitions if "filters" in e["inputSchema"]["properties"]]
    # `db_read` comes first and explains the filters of all tools
    kinds = toolset.filter_kinds(filtering[0]) if filtering and filtering[0] in TOOLS else ()
    operators = kinds[0]["properties"]["op"]["enum"] if kinds else ()
    return Instructions(
        tools=[_tool(each) for each in definitions],
        filters=[_filter(kind) for kind in kinds],
        tables=bool(toolset.tables.names),
        drafts=toolset.drafts,
        new_drafts=bool(toolset.draft_tables),
        labels=toolset.expect == "required",
        search="similar" in operators,
        writes=any(not toolset.reads(each["name"]) for each in every),
        examples=_examples(toolset),
    )


def _tool(definition: Schema) -> ToolText:
    name, schema = definition["name"], definition["inputSchema"]
    lines = _arguments(schema, schema.get("$defs", {}), typed=name not in TOOLS)
    return ToolText(name, definition["description"], list(lines))


def _arguments(
    schema: Schema, kinds: Mapping[str, Schema], *, typed: bool, indent: str = ""
) -> Iterator[str]:
    """Yield a line for each argument, and lines for the fields of its items.

    Args:
        schema: the schema of an object.
        kinds: the schemas that it refers to.
        typed: whether to list the choices of a `table`; prompts list the tables elsewhere.
        indent: the indentation of the lines.
    """
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        items = field.get("items", {})
        is_filters = not typed and name in ("filters", "or_filters")
        is_explained = not is_filters and any(
            "description" in each for each in items.get("properties", {}).values()
        )
        shape = "list of objects" if is_explained else write_type(field, kinds)
        shape = "[filter]" if is_filters else shape
        is_table = name == "table" and not typed
        words = "" if is_table else f" ({shape})"
        said = (
            "a name from 'Tables'" if is_table else " ".join(field.get("description", "").split())
        )
        mark = "" if name in required else "?"
        yield f"{indent}- `{name}{mark}`{words}{': ' if said else ''}{said}"
        if is_explained:
            yield from _arguments(items, kinds, typed=True, indent=f"{indent}  ")


def _filter(kind: Schema) -> str:
    """Describe one kind of filter in a line, with the descriptions of its fields."""
    properties = kind["properties"]
    notes = [f"`{name}`: {each.get('description')}" for name, each in properties.items()]
    notes = notes if len(notes) > 1 else []
    said = " ".join([kind["description"], *(f"{note}." for note in notes)])
    return f"- `{write_type(kind)}`: {said}"


def write_type(schema: Schema, kinds: Mapping[str, Schema] | None = None) -> str:
    """Describe the values of a JSON schema in few words, without null.

    Args:
        schema: the schema.
        kinds: the schemas that it refers to; references to others stay names.
    """
    return _TypeWriter(kinds or {}).write(schema)


_WORDS = {"string": "text", "boolean": "true | false"}


@dataclass(frozen=True, slots=True)
class _TypeWriter:
    """Writes types.

    Args:
        kinds: the schemas that references name.
        inside: the names of the schemas that are being written.
    """

    kinds: Mapping[str, Schema]
    inside: frozenset[str] = frozenset()

    def write(self, schema: Schema) -> str:
        """Return a type."""
        if "$ref" in schema:
            return self._reference(schema["$ref"].rpartition("/")[2])
        if "const" in schema or "enum" in schema:
            return " | ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
        types = schema.get("type", "any")
        if isinstance(types, list):
            return self._join([{**schema, "type": each} for each in types])
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if choices:
            return self._join(choices)
        if types == "object":
            return self._object(schema)
        items = self.write(schema.get("items", {})) if types == "array" else ""
        return f"[{items}]" if items else str(schema.get("format") or _WORDS.get(types, types))

    def _reference(self, name: str) -> str:
        if name not in self.kinds or name in self.inside or name == "Filter":
            return name.lower()
        return _TypeWriter(self.kinds, self.inside | {name}).write(self.kinds[name])

    def _join(self, choices: Sequence[Schema]) -> str:
        found = (self.write(each) for each in choices if each.get("type") != "null")
        return " | ".join(dict.fromkeys(found))

    def _object(self, schema: Schema) -> str:
        required = schema.get("required", ())
        members = [
            f'"{name}"{"" if name in required else "?"}: {self.write(each)}'
            for name, each in schema.get("properties", {}).items()
        ]
        return f"{{{', '.join(members)}}}" if members else "object"


def _examples(toolset: Toolset) -> Examples:
    tables = list(toolset.tables)
    if not tables:
        return Examples()
    columns = [
        (Example(table.name, column.name, column.entity or "", _midnight(column)), column)
        for table in tables
        for column in table.columns.values()
        if column.shown and column.name.isidentifier()
    ]

    def first(is_such: Callable[[Any], bool]) -> Example | None:
        return next((example for example, column in columns if is_such(column)), None)

    parents = [
        (target is table, Example(table.name, column.name, column.entity))
        for table in tables
        for column in table.columns.values()
        if column.creatable and column.key is not None and not column.key.array and column.entity
        for target in (toolset.tables.of_entity(column.entity),)
        if target is not None and target.keys.label is not None
    ]
    related = [
        (target is table, Example(table.name, name))
        for table in tables
        for name, target in table.targets.items()
        if table.is_list(name) and name.isidentifier()
    ]
    return Examples(
        own=Example(tables[0].name, tables[0].ref_field, tables[0].entity),
        text=first(lambda column: column.key is None and column.values.family == "text"),
        time=first(lambda column: _format(column) == "date")
        or first(lambda column: _format(column) == "date-time"),
        elements=first(lambda column: column.values.family == "list" and _has_contains(column))
        or first(_has_contains),
        related=min(related, key=itemgetter(0))[1] if related else None,
        parent=min(parents, key=itemgetter(0))[1] if parents else None,
    )


def _format(column: Any) -> str:
    return str(column.values.schema.get("format"))


def _midnight(column: Any) -> str:
    return "T00:00:00Z" if _format(column) == "date-time" else ""


def _has_contains(column: Any) -> bool:
    return "contains" in column.values.operators
