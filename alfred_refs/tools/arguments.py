r"""Tool arguments: JSON repair, pydantic models, shape errors.

1. `parse_arguments` parses JSON text, if a client sends text; missing, blank and `null` arguments
   become an empty object. An object with a duplicate name is refused, because one of the values
   would be lost.
2. `Repair` converts common mistakes of clients and models to the types in the tool's schema
   (`ArgumentType`): an optional argument that is `null` is left out; a list, object, number or
   boolean may be its JSON text; one object where a list of objects is needed becomes a list.
3. `Repair` removes NUL characters, which PostgreSQL cannot store, from the data of new and changed
   rows, and counts them. Elsewhere, in a filter for example, a text without its NUL character may
   mean something else, so the call is refused. Half a surrogate pair, values nested too deep and
   texts that are too long are refused too.
4. `validate_arguments` validates against the pydantic model of the tool. Unknown fields are
   refused. Pydantic's messages name Python types, so `first_shape_error` rewrites the first error.

>>> repair = Repair()
>>> given = repair.value(parse_arguments('{"table": "recipes", "data": {"name": "Curry\\u0000"}}'))
>>> given, repair.removed.total()
({'table': 'recipes', 'data': {'name': 'Curry'}}, 1)
>>> given_as_text = {"table": "recipes", "columns": '["name"]', "limit": "3", "filters": None}
>>> Repair().arguments(given_as_text, arguments_type("db_read"))
{'table': 'recipes', 'columns': ['name'], 'limit': 3}
>>> validate_arguments("db_create", given).rows
[{'name': 'Curry'}]
>>> validate_arguments("db_read", {"table": "recipes", "limt": 3})
Traceback (most recent call last):
    ...
alfred_refs.tools.errors.ToolError: the arguments do not fit the tool at 'limt': there is no such
field; look at its schema and call again

The docstrings and field descriptions of the models here become the schemas that language models
read (`definitions`).

Limits: tables, columns and their values are checked later, by `tables`, `filters` and `payload`.
No function here sends SQL.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field as dataclasses_field
from functools import cache
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from alfred_refs.mapping.columns import spells_document
from alfred_refs.tools.errors import ToolError, invalid_arguments, missing_filter, unknown_tool

MAX_DEPTH = 50
"""Levels of lists and objects in arguments."""

MAX_INTEGER_BITS = 1_024
"""Bits of an integer: the range of floating-point numbers, for which JSON also has integers."""

MAX_DIGITS = 400
"""Digits of an integer in JSON text, checked before conversion."""

MAX_CHARACTERS = 1_000_000
"""Characters of all texts and names of a call."""

MAX_VALUES = 50_000
"""Values of a call at all depths."""

Path = tuple[str | int, ...]
"""The names and positions that lead to a value in arguments."""

_NUL = "\x00"
_MAX_JSON_CHARACTERS = 10 * MAX_CHARACTERS  # JSON may escape one character as six
_IN_SEVERAL_CALLS = "do it in several calls"
_DOCUMENT_STARTS = ("{", "[", '"')
_MAX_NAME = 100  # characters of a name that is quoted in an error
_DATA = "data"  # the field with values to store
_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)  # a JSON string, closed or not


def parse_arguments(arguments: Any) -> Any:
    """Parse arguments that are JSON text; return an empty object if they are missing.

    Raises:
        ToolError: the text is not JSON, is too long, has too many values, or has an object with a
            duplicate name.
    """
    if isinstance(arguments, str | bytes | bytearray):
        if len(arguments) > _MAX_JSON_CHARACTERS:
            raise over_budget("characters", _MAX_JSON_CHARACTERS, _IN_SEVERAL_CALLS)
        try:
            text = arguments if isinstance(arguments, str) else arguments.decode()
            arguments = _parse_json(text) if text.strip() else None
        except ValueError:
            raise invalid_arguments("they are not valid JSON") from None
    return {} if arguments is None else arguments


def _parse_json(text: str) -> Any:
    """Parse JSON text.

    Raises:
        ValueError: it is not JSON.
        ToolError: it has too many values, or an object with a duplicate name.
    """
    _check_count(text)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except RecursionError:
        raise _too_deep() from None


def parse_document(text: str) -> Any:
    """Parse text as a list, an object or a quoted text; return any other text unchanged.

    Args:
        text: the argument for a document. Some clients send a list or an object as JSON text, and
            put quotes round a text that looks like JSON.

    Raises:
        ToolError: the JSON is not allowed in arguments.
    """
    if not spells_document(text):
        return text
    return Repair().value(_parse_json(text))


def _check_count(text: str) -> None:
    """Check the number of values in JSON text before it is parsed."""
    marks = _STRING.sub("", text)
    if max(marks.count(",") + 1, marks.count("[") + marks.count("{")) > MAX_VALUES:
        raise over_budget("values", MAX_VALUES, _IN_SEVERAL_CALLS)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse duplicate names, because a value would be lost."""
    members = dict(pairs)
    if len(members) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        field = name if name.isprintable() and len(name) <= _MAX_NAME else None
        raise invalid_arguments("an object has a name twice", field, "give it once")
    return members


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _too_large()
    return int(digits)


def repair_arguments(arguments: Any) -> Any:
    """Return arguments as JSON, without NUL characters.

    Raises:
        ToolError: a text is not Unicode, or has a NUL character outside data; the values are
            nested too deep, too long or too many; or a value is not JSON.
    """
    return Repair().value(arguments)


@dataclass(slots=True)
class ArgumentType:
    """The JSON values that an argument may have, by its schema; any value by default.

    Attributes:
        types: names of types, as in JSON schema; empty for any value.
        fields: the types of an object's fields.
        others: the type of its other fields.
        items: the type of a list's elements.
        required: the names of fields that may not be left out.
    """

    types: set[str] = dataclasses_field(default_factory=set)
    fields: dict[str, ArgumentType] = dataclasses_field(default_factory=dict)
    others: ArgumentType | None = None
    items: ArgumentType | None = None
    required: set[str] = dataclasses_field(default_factory=set)

    @property
    def takes_null(self) -> bool:
        """Whether null is a value."""
        return not self.types or "null" in self.types


_ANY = ArgumentType()  # never changed


def argument_type_of(schema: Mapping[str, Any]) -> ArgumentType:
    """Return the type of arguments for their JSON schema."""
    return _argument_type([schema], schema.get("$defs", {}), {})


def _argument_type(
    choices: Sequence[Any], definitions: Mapping[str, Any], known: dict[str, ArgumentType]
) -> ArgumentType:
    """Return the type of values that match one of several schemas."""
    flat = [each for choice in choices for each in alternatives_of(choice, definitions)]
    name = json.dumps(flat, sort_keys=True)
    if name in known:  # filters contain filters
        return known[name]
    type_ = known[name] = ArgumentType()
    if not all("type" in each for each in flat):
        return type_
    type_.types = {each["type"] for each in flat}
    fields: dict[str, list[Any]] = {}
    for each in flat:
        type_.required |= {*each.get("required", ())}
        for field_name, schema in each.get("properties", {}).items():
            fields.setdefault(field_name, []).append(schema)
    type_.fields = {
        n: _argument_type(schemas, definitions, known) for n, schemas in fields.items()
    }
    others = [each["additionalProperties"] for each in flat if "additionalProperties" in each]
    type_.others = _argument_type(
        [each for each in others if isinstance(each, dict)], definitions, known
    )
    items = [each["items"] for each in flat if "items" in each]
    type_.items = _argument_type(items, definitions, known)
    return type_


def alternatives_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the alternatives of a schema."""
    if "$ref" in schema:
        yield from alternatives_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    elif choices := schema.get("anyOf", schema.get("oneOf")):
        for each in choices:
            yield from alternatives_of(each, definitions)
    else:
        yield schema


def _type_of(value: Any) -> str:
    """Return the type of a JSON value, as JSON schema names it."""
    return next((name for class_, name in _TYPES if isinstance(value, class_)), "null")


# Python type -> its name in JSON schema; subclasses first
_TYPES: Sequence[tuple[type[Any], str]] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


class Repair:
    """Repairs the arguments of one call.

    Attributes:
        removed: the number of NUL characters that were removed, by the path of the text; for names
            of an object, by the path of the object.
        may_have_documents: whether any text looks like a JSON document.
        may_have_marks: whether any text has a `<`.
    """

    def __init__(self) -> None:
        self.removed = Counter[Path]()
        self.may_have_documents = False
        self.may_have_marks = False
        self._values = 0
        self._characters = 0

    def arguments(self, arguments: Any, type_: ArgumentType) -> Any:
        """Return the arguments of a call as its tool takes them.

        Args:
            arguments: JSON values, JSON text, or none.
            type_: the type of the tool's arguments.

        Raises:
            ToolError: as for `parse_arguments` and `repair_arguments`.
        """
        given = parse_arguments(arguments)
        if isinstance(given, dict):
            optional = type_.fields.keys() - type_.required
            given = {n: v for n, v in given.items() if v is not None or n not in optional}
        return self.value(given, (), type_)

    def value(self, value: Any, path: Path = (), type_: ArgumentType = _ANY) -> Any:
        """Return a JSON value without NUL characters, as an argument takes it.

        Raises:
            ToolError: as for `repair_arguments`.
        """
        self._values += 1
        if self._values > MAX_VALUES:
            raise over_budget("values", MAX_VALUES, _IN_SEVERAL_CALLS)
        if len(path) > MAX_DEPTH:
            raise _too_deep()
        value = self._convert(value, type_) if type_.types else value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, dict):
            return self._object(value, path, type_)
        if isinstance(value, list | tuple):
            items = type_.items or _ANY
            return [self.value(each, (*path, n), items) for n, each in enumerate(value)]
        if value is None or isinstance(value, bool | int | float):
            if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
                raise _too_large()
            return value
        raise invalid_arguments(f"a value of type {type(value).__name__} is not JSON")

    def _convert(self, value: Any, type_: ArgumentType) -> Any:
        """Return the value of JSON text; a list for one object."""
        if isinstance(value, str):
            value = self._parsed(value, type_)
        is_list_needed = "array" in type_.types and "object" not in type_.types
        if isinstance(value, dict) and is_list_needed and type_.items is not None:
            return [value] if "object" in type_.items.types else value
        return value

    def _parsed(self, text: str, type_: ArgumentType) -> Any:
        """Return the value of JSON text if its type, and not text, is needed."""
        types = type_.types
        if "string" in types:  # a name, or a list of names
            types = types & {"array", "object"} if text.lstrip()[:1] in ("[", "{") else set()
        if not types or len(text) > MAX_CHARACTERS - self._characters:
            return text
        try:
            value = _parse_json(text)
        except ValueError:
            return text
        kind = _type_of(value)
        if kind not in types and not (kind == "integer" and "number" in types):
            return text
        self._characters += len(text)
        return value

    def _object(self, value: dict[Any, Any], path: Path, type_: ArgumentType) -> dict[str, Any]:
        fields, others = type_.fields, type_.others or _ANY
        if fields:
            value = {
                name: each
                for name, each in value.items()
                if each is not None or fields.get(name, _ANY).takes_null
            }
        names = {name: name if name in fields else self._text(name, path) for name in value}
        if len(set(names.values())) < len(names):
            raise invalid_arguments(
                "it has two names that are the same without NUL characters", field_at(path)
            )
        return {
            names[name]: self.value(each, (*path, names[name]), fields.get(names[name], others))
            for name, each in value.items()
        }

    def _text(self, text: Any, path: Path) -> str:
        if not isinstance(text, str):
            raise invalid_arguments("the name of a field is not a string")
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise over_budget("characters", MAX_CHARACTERS, _IN_SEVERAL_CALLS)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise invalid_arguments("a text has half of a surrogate pair") from None
        if text.lstrip()[:1] in _DOCUMENT_STARTS:
            self.may_have_documents = True
        if "<" in text:
            self.may_have_marks = True
        if _NUL not in text:
            return text
        if path[:1] != (_DATA,) and path[:1] + path[2:3] != ("also", _DATA):
            raise misplaced_nul(path)
        self.removed[path] += text.count(_NUL)
        return text.replace(_NUL, "")


def field_at(path: Path) -> str | None:
    """Return a path as errors show it."""
    return ".".join(map(str, path)) or None


def misplaced_nul(path: Path) -> ToolError:
    """Return the error for a NUL character that cannot be removed safely."""
    return invalid_arguments("it has a NUL character; write it without", field_at(path))


def over_budget(what: str, limit: int, remedy: str) -> ToolError:
    """Return the error for a call that exceeds a limit on its arguments."""
    return invalid_arguments(f"they have more than {limit:,} {what}", remedy=remedy)


def _too_deep() -> ToolError:
    return invalid_arguments(f"values are nested more than {MAX_DEPTH} levels deep")


def _too_large() -> ToolError:
    return invalid_arguments(f"a number has more than {MAX_INTEGER_BITS} bits")


Operator = Literal[
    "=",
    "!=",
    "neq",
    ">",
    "<",
    ">=",
    "<=",
    "in",
    "not_in",
    "ilike",
    "is_null",
    "is_not_null",
    "contains",
    "similar",
]

SEMANTIC = "_semantic"
"""The field of a semantic search, which a hook implements."""

DRAFTS = "x-drafts"
"""Keyword in a schema: the field only concerns drafts, or the text to add on drafts."""

NEGATIONS = ("!=", "neq", "not_in")
"""The operators that exclude values."""


def _without_example(schema: dict[str, Any]) -> None:
    """Remove the example from a schema's description: it is for programmers."""
    if "description" in schema:
        schema["description"] = schema["description"].partition("\n\nExample:")[0]


class _Arguments(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, json_schema_extra=_without_example
    )


class FilterClause(_Arguments):
    """One condition on a column, or on a column of related rows by a path.

    A path holds if at least one related row meets the condition. A column without value (null)
    meets no comparison but `is_null`, as in SQL.

    Example:
        >>> only = FilterClause(field="lines.text", op="ilike", value="%onion%")
        >>> asked = DbRead(table="recipes", filters=[only])
        >>> toolset.call(session, "db_read", asked.model_dump(exclude_unset=True))["rows"]
        [{'id': 'recipe_1', 'name': 'Soup', 'servings': 2}]
    """

    field: str = Field(description="column, or path to a column of related rows")
    op: Operator = Field(
        description="'in' and 'not_in' take a list; 'ilike' takes a pattern with % and _; "
        "'is_null' and 'is_not_null' no value"
    )
    value: Any = Field(default=None, description="as the column has it; refs in columns of refs")


class AndGroup(_Arguments):
    """Holds if all of its filters hold."""

    all_of: list[Filter] = Field(alias="and", min_length=1)


class OrGroup(_Arguments):
    """Holds if at least one of its filters holds."""

    any_of: list[Filter] = Field(alias="or", min_length=1)


class NotGroup(_Arguments):
    """Holds if its filter does not hold."""

    negated: Filter = Field(alias="not")


def _filter_kind(value: Any) -> str:
    """Return the kind of a filter, so that pydantic reports only the errors of that kind."""
    if isinstance(value, _Arguments):
        return type(value).__name__
    groups = {"and": "AndGroup", "or": "OrGroup", "not": "NotGroup"}
    kinds = [each for name, each in groups.items() if isinstance(value, dict) and name in value]
    return kinds[0] if kinds else "FilterClause"


Filter = Annotated[
    Annotated[FilterClause, Tag("FilterClause")]
    | Annotated[AndGroup, Tag("AndGroup")]
    | Annotated[OrGroup, Tag("OrGroup")]
    | Annotated[NotGroup, Tag("NotGroup")],
    Discriminator(_filter_kind),
]
"""A condition on a row."""

FILTER_KINDS = ("FilterClause", "AndGroup", "OrGroup", "NotGroup")
"""The names of the kinds of filters in the paths of pydantic's errors."""


def clauses_of(filters: Iterable[Filter]) -> Iterator[FilterClause]:
    """Yield the conditions of filters, including those inside groups."""
    return (clause for clause, _ in signed_clauses(filters))


def signed_clauses(
    filters: Iterable[Filter], *, negated: bool = False
) -> Iterator[tuple[FilterClause, bool]]:
    """Yield the conditions of filters, each with whether it excludes the rows that it names.

    `!=`, `not_in` and an odd number of `not` groups exclude rows.
    """
    for given in filters:
        match given:
            case AndGroup():
                yield from signed_clauses(given.all_of, negated=negated)
            case OrGroup():
                yield from signed_clauses(given.any_of, negated=negated)
            case NotGroup():
                yield from signed_clauses([given.negated], negated=not negated)
            case FilterClause():
                yield given, negated is not (given.op in NEGATIONS)


def _no_boolean(value: Any) -> Any:
    """Refuse booleans, which pydantic accepts as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


_EXPECT_DESCRIPTION = (
    "what every row that is hit must have now: its label, or values by column; a list for a list "
    "of refs; labels by ref where filters name rows in other columns; {'count': n}, their number, "
    "where filters do not name rows by refs; otherwise nothing is "
)

Labels = str | Annotated[list[str | dict[str, Any]], Field(min_length=1)]
"""The label of a row, or a list for several rows; values by column may replace a label."""


class DbRead(_Arguments):
    """Read rows of a table.

    Example:
        >>> asked = DbRead(table="recipes", columns=["name"], order_by="servings", limit=1)
        >>> toolset.call(session, "db_read", asked.model_dump(exclude_unset=True))["rows"]
        [{'id': 'recipe_2', 'name': 'Toast'}]
    """

    table: str
    filters: list[Filter] = Field(default=[], description="all of these must hold")
    or_filters: list[Filter] = Field(default=[], description="and at least one of these")
    columns: list[str] | None = Field(
        default=None,
        description="columns to show, and relationships whose rows to include; all columns by "
        "default; or totals: 'count(*)', 'sum(x)', 'avg(x)', 'min(x)', 'max(x)', grouped by the "
        "other columns",
    )
    limit: Annotated[int, Field(ge=0), BeforeValidator(_no_boolean)] | None = Field(
        default=None, description="at most this many rows"
    )
    order_by: str | list[str] | None = Field(
        default=None, description="a column to order by, or a list of them"
    )
    order_dir: Literal["asc", "desc"] | list[Literal["asc", "desc"]] = Field(
        default="asc", description="'asc' or 'desc', or a list with one for each of order_by"
    )
    cursor: str | None = Field(
        default=None, description="from the last answer, to go on with the same question"
    )
    drafts: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="the drafts that are pending, in place of rows",
        json_schema_extra={DRAFTS: True},
    )


class NewRows(_Arguments):
    """New rows of one table, or drafts of it that are to be rows."""

    table: str
    data: dict[str, Any] | Annotated[list[dict[str, Any]], Field(min_length=1)] | None = Field(
        default=None,
        description="a row, or a list of rows: values by column, new rows inside by relationship",
        json_schema_extra={DRAFTS: "; with from_draft, changes of the draft, if any"},
    )
    from_draft: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="the ref of a draft to save, or a list of refs",
        json_schema_extra={DRAFTS: True},
    )
    expect: Labels | dict[str, Any] | None = Field(
        default=None,
        description="the label of the draft, or of each in the list",
        json_schema_extra={DRAFTS: True},
    )

    @property
    def drafts(self) -> list[str]:
        """The refs of the drafts to save."""
        refs = self.from_draft or []
        return [refs] if isinstance(refs, str) else refs

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The new rows that are not drafts."""
        if self.from_draft is not None or self.data is None:
            return []
        return self.data if isinstance(self.data, list) else [self.data]


class DbCreate(NewRows):
    """Create one row or several, or save drafts as rows: all of them or none.

    Example:
        >>> row = {"recipe_id": "recipe_2", "position": 1, "text": "1 egg"}
        >>> asked = DbCreate(table="lines", data={**row, "_recipe_id_label": "Toast"})
        >>> toolset.call(session, "db_create", asked.model_dump(exclude_unset=True))["rows"]
        [{'id': 'line_3', 'recipe_id': 'recipe_2', 'position': 1, 'text': '1 egg',
        '_recipe_id_label': 'Toast'}]
    """

    also: list[NewRows] = Field(
        default=[],
        description="more rows in the same call, of any table",
        json_schema_extra={DRAFTS: ", and drafts that name each other"},
    )
    draft: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="keep the rows as drafts, to be saved later with from_draft",
        json_schema_extra={DRAFTS: True},
    )


class DbUpdate(_Arguments):
    """Change the rows that meet all filters.

    Example:
        >>> only = FilterClause(field="id", op="=", value="recipe_1")
        >>> asked = DbUpdate(table="recipes", filters=[only], data={"servings": 4}, expect="Soup")
        >>> toolset.call(session, "db_update", asked.model_dump(exclude_unset=True))["rows"]
        [{'id': 'recipe_1', 'name': 'Soup', 'servings': 4}]
    """

    table: str
    filters: list[Filter] = Field(description="all of these must hold; at least one", min_length=1)
    data: Annotated[dict[str, Any], Field(min_length=1)] = Field(
        description="new values by column"
    )
    expect: Labels | dict[str, Any] | None = Field(
        default=None, description=f"{_EXPECT_DESCRIPTION}changed"
    )


class DbDelete(_Arguments):
    """Delete the rows that meet all filters.

    Example:
        >>> only = FilterClause(field="id", op="=", value="recipe_2")
        >>> asked = DbDelete(table="recipes", filters=[only], expect="Toast")
        >>> toolset.call(session, "db_delete", asked.model_dump(exclude_unset=True))
        {'table': 'recipes', 'deleted': ['recipe_2'], 'count': 1, '_deleted_labels': ['Toast']}
    """

    table: str
    filters: list[Filter] = Field(description="all of these must hold; at least one", min_length=1)
    expect: Labels | dict[str, Any] | None = Field(
        default=None, description=f"{_EXPECT_DESCRIPTION}deleted"
    )


_Position = Annotated[int, Field(ge=1, strict=True)]

# action -> the field that it requires in addition to the item or position
_REQUIRED_FIELD: Mapping[str, str] = {"modify": "data", "add": "data", "move": "to"}


class ListEdit(_Arguments):
    """One edit of a list: of an item that is there, or a new one."""

    action: Literal["modify", "remove", "add", "move"]
    path: Annotated[list[_Position], Field(min_length=1)] | None = Field(
        default=None,
        description="positions, from 1, before the call; for 'add' the last one is the new place. "
        "[2, 3]: the third inside the second",
    )
    ref: str | None = Field(default=None, description="of an item that is a row, without path")
    to: _Position | Annotated[list[_Position], Field(min_length=1)] | None = Field(
        default=None,
        description="'move': the new position, or the path to it in another list",
    )
    data: Any = Field(
        default=None,
        description="'add': the item; 'modify': the fields that change, or the item",
    )
    expect: Any = Field(
        default=None,
        description="what the item must be now: its text or label, or values by field",
    )

    @model_validator(mode="after")
    def _check_fields(self) -> ListEdit:
        """Check the fields of an action, which portable JSON schemas cannot express."""
        required = _REQUIRED_FIELD.get(self.action)
        by_ref = self.ref is not None and self.action != "add"
        if (self.path is None) is not by_ref:
            expected_fields = "path" if self.action == "add" else "path, or ref"
            raise PydanticCustomError("edit", f"'{self.action}' takes {expected_fields}")
        has_required = required in self.model_fields_set and (
            required != "to" or self.to is not None
        )
        if required is not None and not has_required:
            raise PydanticCustomError("edit", f"'{self.action}' needs {required!r}")
        for name in ("to", "data", "expect"):
            is_allowed = name == required or (name == "expect" and self.action != "add")
            if getattr(self, name) is not None and not is_allowed:
                raise PydanticCustomError("edit", f"'{self.action}' takes no {name!r}")
        return self


class DbEditList(_Arguments):
    """Edit a list of one row by position.

    Example:
        >>> edits = [{"action": "move", "path": [2], "to": 1}]
        >>> asked = {"table": "recipes", "row": "recipe_1", "expect": "Soup", "list": "lines"}
        >>> asked = DbEditList(**asked, edits=edits).model_dump(by_alias=True, exclude_unset=True)
        >>> toolset.call(session, "db_edit_list", asked)["items"]
        {'1': {'id': 'line_2', 'text': '1 onion'}, '2': {'id': 'line_1', 'text': '4 tomatoes'}}
    """

    table: str
    row: str = Field(
        description="the ref of the row that has the list",
        json_schema_extra={DRAFTS: ", or draft"},
    )
    expect: str | dict[str, Any] | None = Field(
        default=None, description="its label, or values by column"
    )
    name: str = Field(
        alias="list",
        description="its name; with dots, lists inside its items",
    )
    edits: list[ListEdit] = Field(default=[], description="their order makes no difference")
    preview: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="only show what edits come to, or the list without edits"
    )
    token: str | None = Field(
        default=None,
        description="from the last answer: refused if the list has changed since",
    )


class DbQuery(_Arguments):
    """Answer a question with a SELECT of the model's own.

    Example:
        >>> asked = DbQuery(sql="SELECT name FROM recipes WHERE servings > 1")
        >>> toolset = Toolset([Recipe, Line], sql=True)
        >>> toolset.call(session, "db_query", asked.model_dump(exclude_unset=True))
        {'columns': ['name'], 'rows': [['Soup']], 'count': 1, 'more': False}
    """

    sql: str = Field(
        description="one SELECT in PostgreSQL's SQL; a ref is a text beside a column of refs"
    )
    limit: Annotated[int, Field(ge=0), BeforeValidator(_no_boolean)] | None = Field(
        default=None, description="at most this many rows"
    )


Arguments = DbRead | DbCreate | DbUpdate | DbDelete | DbEditList

TOOLS: Mapping[str, type[Arguments]] = {
    "db_read": DbRead,
    "db_create": DbCreate,
    "db_update": DbUpdate,
    "db_delete": DbDelete,
    "db_edit_list": DbEditList,
}
"""The argument models of the tools, by name."""

for _model in (AndGroup, OrGroup, NotGroup, *TOOLS.values()):
    _model.model_rebuild()


@cache
def arguments_schema(tool: str) -> Mapping[str, Any]:
    """Return the JSON schema of a tool's arguments; it is shared, so copy it before a change."""
    return TOOLS[tool].model_json_schema()


@cache
def arguments_type(tool: str) -> ArgumentType:
    """Return the type of a tool's arguments; it is shared, so do not change it."""
    return argument_type_of(arguments_schema(tool))


# pydantic's error type -> the expected JSON type, where its message names a Python type
_SHAPES: Mapping[str, str] = {
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
    "list_type": "a list",
    "string_type": "text",
}

_NO_FIELD = "there is no such field"

_FILTER_FIELDS = ("field", "op", "value", "and", "or", "not")


def validate_arguments(
    tool: Any,
    given: Any,
    tool_names: Iterable[str] = tuple(TOOLS),
    *,
    drafts: bool = True,
    operators: Sequence[str] = get_args(Operator),
) -> Arguments:
    """Validate the arguments of a call.

    Args:
        tool: the tool's name.
        given: the arguments, as JSON values.
        tool_names: the available tools, for the error.
        drafts: whether drafts are enabled; otherwise fields for drafts are unknown.
        operators: the operators of the tool's filters, for the error.

    Raises:
        ToolError: the tool does not exist, or the arguments do not match its schema.
    """
    model = TOOLS.get(tool) if isinstance(tool, str) else None
    if model is None:
        raise unknown_tool(str(tool), [*tool_names])
    if not isinstance(given, dict):
        raise invalid_arguments("they are not an object")
    for place in _draft_fields(given, model) if not drafts else ():
        raise invalid_arguments(_NO_FIELD, place)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise first_shape_error(tool, error, operators) from None


def _draft_fields(given: dict[str, Any], model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Yield the fields of arguments that only concern drafts."""
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and extra.get(DRAFTS) is True and name in given:
            yield f"{path}{name}"
    also = given.get("also") if model is DbCreate else None
    for n, each in enumerate(also if isinstance(also, list) else ()):
        yield from _draft_fields(each, NewRows, f"also.{n}.") if isinstance(each, dict) else ()


def first_shape_error(
    tool: str, error: ValidationError, operators: Sequence[str] = ()
) -> ToolError:
    """Return the first validation error, with a message for the model.

    Args:
        tool: the tool's name.
        error: pydantic's error.
        operators: the operators of the tool's filters.
    """
    errors = error.errors(include_url=False)
    first = next((each for each in errors if _matches_input(each)), errors[0])
    place = _path_of(first)
    field = ".".join(str(part) for part in place) or None
    is_of_filter = bool({*FILTER_KINDS} & {*first["loc"]})
    match first["type"]:
        case "missing" if is_of_filter and {*first["input"]} - {*_FILTER_FIELDS}:
            return invalid_arguments(
                "a filter has 'field', 'op' and 'value', or it has 'and', 'or' or 'not' with "
                "filters inside",
                ".".join(map(str, place[:-1])),
                "write it so",
            )
        case "literal_error" if is_of_filter and place[-1] == "op":
            fact = f"input should be one of {', '.join(map(repr, operators))}"
        case "missing" | "too_short" if place == ["filters"]:
            return missing_filter(tool)
        case "extra_forbidden" if is_of_filter and place[-1] in _FILTER_FIELDS:
            return invalid_arguments(
                "one object has two filters", field, "put each into one of its own"
            )
        case "missing":
            fact = "it is missing"
        case "extra_forbidden":
            fact = _NO_FIELD
        case "dict_type" | "list_type" if "data" in place:
            fact = "a row is an object: its values by column"
        case "too_short":
            fact = "it is empty"
        case type_:
            shape = _SHAPES.get(type_)
            fact = first["msg"] if shape is None else f"input should be {shape}"
    return invalid_arguments(fact[:1].lower() + fact[1:], field)


def _is_union_branch(part: int | str) -> bool:
    """Return whether a part of a path is the name that pydantic uses for a union branch."""
    return isinstance(part, str) and ("[" in part or part in FILTER_KINDS)


def _path_of(error: Any) -> list[int | str]:
    """Return the path of an error, in the names of the model's arguments."""
    *outer, last = error["loc"]
    tail = [last] if error["type"] == "extra_forbidden" or not _is_union_branch(last) else []
    path = [*(each for each in outer if not _is_union_branch(each)), *tail]
    # the name of a union branch: no field of text is called "str"
    return path[:-1] if error["type"] == "string_type" and path[-1] == "str" else path


def _matches_input(error: Any) -> bool:
    """Return whether an error belongs to the union branch that matches the type of the input."""
    branches = [p for p in error["loc"] if isinstance(p, str) and p.startswith(("dict[", "list["))]
    is_list = isinstance(error["input"], list)
    if len(error["loc"]) > len(branches) + 1:  # an error of an element
        return bool(branches) and "list" in branches[0]
    return not branches or (("list" in branches[0]) is is_list)
