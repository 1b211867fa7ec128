"""Column lineage: which keys the value of a SQL expression shows.

The input is an expression of a result: a column, a function, a CASE, a scalar subquery. The output
is a `KeyShape`, which describes where keys are in the value, or an error if the value depends on a
key in a way that no ref can replace.

>>> from alfred_refs.mapping.entities import Entities
>>> from alfred_refs.mapping.keys import RefPolicy
>>> from sqlalchemy import func
>>> lineage = Lineage(Entities(RefPolicy()).of_column)
>>> recipes = Recipe.__table__.c
>>> lineage.of(recipes.id)
KeyColumn(name='recipes.id', entity='recipe', ...)
>>> lineage.of(func.array_agg(recipes.id))
ArrayShape(item=SpelledKey(column=KeyColumn(name='recipes.id', ...)))
>>> lineage.of(recipes.name) is None
True
>>> lineage.of(func.md5(recipes.id))
Traceback (most recent call last):
    ...
alfred_refs.errors.UntranslatableError: a result shows keys of recipes.id inside an expression; ...

| expression | shape |
| --- | --- |
| `Recipe.id`, `coalesce(Recipe.id, x)`, `max(Recipe.id)` | `KeyColumn`: the value is a key |
| `cast(Recipe.id, String)` | `SpelledKey`: the value is the text of a key |
| `array_agg(Recipe.id)`, `json_agg(Recipe.id)` | `ArrayShape`: a list of keys |
| `json_build_object("id", Recipe.id)` | `JsonObject`: a document with keys in some fields |
| `Recipe.name`, `count(Recipe.id)`, `Recipe.id == x` | `None`: plain data |
| `text("..")`, `literal_column("..")` | `Unknown`: each value is examined when it is fetched |

To support another function of PostgreSQL, add it to one of the tables in the section "SQL
functions". `PASS_THROUGH` and `ARRAY_ARGUMENTS` also determine which arguments of a call may be
refs (`statements.dataflow`), because the arguments of one call are keys of one entity. A function
that is in no table shows no keys if its arguments show none, and is refused otherwise.

Limits: shapes are derived from the expression alone. A function of the application that looks up
keys and declares another return type is not detected. Nothing here emits SQL; the shapes are
applied to rows by `statements.results`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from sqlalchemy import (
    ARRAY,
    CHAR,
    JSON,
    NCHAR,
    BindParameter,
    Boolean,
    Case,
    Cast,
    Column,
    ColumnClause,
    ColumnElement,
    Enum,
    FunctionElement,
    FunctionFilter,
    Label,
    Null,
    Over,
    String,
    Table,
    TextClause,
    TypeCoerce,
    UnaryExpression,
    Uuid,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Bundle
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import (
    BinaryExpression,
    ClauseList,
    Grouping,
    Slice,
    TableValuedColumn,
)
from sqlalchemy.sql.functions import next_value
from sqlalchemy.sql.selectable import FromClause, ScalarSelect, TableValuedAlias
from sqlalchemy.types import NullType

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.key_columns import KeyColumn, is_text_uuid, key_type_of
from alfred_refs.mapping.keys import KeyType

# Shapes: where keys are in a value


@dataclass(frozen=True, slots=True)
class SpelledKey:
    """A key that may be spelled in another way than its column does: as text, or in JSON.

    Attributes:
        column: the column of the key; for an array column the key is one of the items.
    """

    column: KeyColumn


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of unknown origin: it may be a key of any entity.

    Attributes:
        key_types: the types of key that it may be.
        within: whether a key may also be part of a text.
    """

    key_types: tuple[KeyType, ...]
    within: bool = False


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """A list whose items have one shape; a list of keys has any number of dimensions."""

    item: KeyShape


@dataclass(frozen=True, slots=True)
class Series:
    """A list in which each position has its own shape."""

    items: tuple[KeyShape, ...]


@dataclass(frozen=True, slots=True)
class ParameterName:
    """A field name that is a bound parameter, by its index in the statement's parameters."""

    place: int


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object with named fields.

    Attributes:
        fields: the name and the shape of each field.
        rest: the shape of all other fields.
    """

    fields: tuple[tuple[str | ParameterName, KeyShape], ...]
    rest: KeyShape = None


@dataclass(frozen=True, slots=True)
class JsonPairs:
    """A JSON object aggregated from pairs: its names have one shape, and so have its values."""

    name: KeyShape
    value: KeyShape


KeyShape = KeyColumn | SpelledKey | Unknown | ArrayShape | Series | JsonObject | JsonPairs | None

UNKNOWN: Final = Unknown(("uuid", "integer", "string"), within=True)
"""The statement does not show where a value comes from."""

UNTYPED: Final = Unknown(("uuid",))
"""A function of plain data with an unknown return type: it may look up a UUID."""


def columns_in(shape: KeyShape) -> Iterator[KeyColumn]:
    """Yield the columns whose keys a shape contains."""
    match shape:
        case KeyColumn():
            yield shape
        case SpelledKey():
            yield shape.column
        case _:
            for part in _parts(shape):
                yield from columns_in(part)


def unknowns_in(shape: KeyShape) -> Iterator[Unknown]:
    """Yield the parts of a shape that are of unknown origin."""
    if isinstance(shape, Unknown):
        yield shape
    for part in _parts(shape):
        yield from unknowns_in(part)


def names_in(shape: KeyShape) -> Iterator[str | ParameterName]:
    """Yield the names of all fields in a shape."""
    if isinstance(shape, JsonObject):
        yield from (name for name, _ in shape.fields)
    for part in _parts(shape):
        yield from names_in(part)


def _parts(shape: KeyShape) -> Sequence[KeyShape]:
    match shape:
        case ArrayShape():
            return [shape.item]
        case Series():
            return shape.items
        case JsonObject():
            return [*(part for _, part in shape.fields), shape.rest]
        case JsonPairs():
            return [shape.name, shape.value]
        case _:
            return ()


def with_parts(shape: KeyShape, change: Callable[[KeyShape], KeyShape]) -> KeyShape:
    """Return a list or object with each part changed; return any other shape itself."""
    match shape:
        case ArrayShape():
            return ArrayShape(change(shape.item))
        case Series():
            return Series(tuple(map(change, shape.items)))
        case JsonObject():
            fields = tuple((name, change(part)) for name, part in shape.fields)
            return JsonObject(fields, change(shape.rest))
        case JsonPairs():
            return JsonPairs(change(shape.name), change(shape.value))
        case _:
            return shape


def array_shape(item: KeyShape) -> KeyShape:
    """Return the shape of an array; an array of arrays is one of more dimensions."""
    if item is None or isinstance(item, Unknown):
        return item
    if isinstance(item, ArrayShape) and isinstance(item.item, SpelledKey):
        return item
    return ArrayShape(with_other_spelling(item))


def item_of(shape: KeyShape) -> KeyShape:
    """Return the shape of the items of a list."""
    if is_array(shape):
        return with_other_spelling(shape)
    return shape.item if isinstance(shape, ArrayShape) else shape


def with_other_spelling(shape: KeyShape) -> KeyShape:
    """Return the shape after a change of type; for an array column, the shape of its items."""
    return SpelledKey(shape) if isinstance(shape, KeyColumn) else shape


def as_json(shape: KeyShape) -> KeyShape:
    """Return the shape of a value inside a JSON document."""
    return (
        ArrayShape(with_other_spelling(shape)) if is_array(shape) else with_other_spelling(shape)
    )


def is_array(shape: KeyShape) -> bool:
    """Return whether a shape is an array column."""
    return isinstance(shape, KeyColumn) and shape.array


def is_container(shape: KeyShape) -> bool:
    """Return whether a shape is a list or object that contains keys."""
    return is_array(shape) or isinstance(shape, ArrayShape | Series | JsonObject | JsonPairs)


def common_shape(one: KeyShape, other: KeyShape) -> KeyShape:
    """Return the shape of a value that has either shape, `None` if they cannot be mixed."""
    if _anonymous(one) == _anonymous(other):
        return one
    if is_container(one) != is_container(other):
        return None
    one, other = as_json(one), as_json(other)
    return one if _anonymous(one) == _anonymous(other) else None


def _anonymous(shape: KeyShape) -> KeyShape:
    """Remove the names of columns, which do not matter when shapes are compared."""
    match shape:
        case KeyColumn():
            return replace(shape, name="")
        case SpelledKey():
            return SpelledKey(replace(shape.column, name="", as_text=False, array=False))
        case _:
            return with_parts(shape, _anonymous)


# SQL functions

# Functions that return one of these arguments unchanged; the other arguments select which.
_EVERY, _FIRST, _FIRST_AND_DEFAULT = slice(None), slice(1), slice(0, None, 2)
PASS_THROUGH = {
    **dict.fromkeys(("max", "min", "any_value", "coalesce", "greatest", "least"), _EVERY),
    **dict.fromkeys(("first_value", "last_value", "nth_value", "nullif"), _FIRST),
    **dict.fromkeys(("lag", "lead"), _FIRST_AND_DEFAULT),
}

# Functions that return an array of the keys in these arguments.
ARRAYS = {
    **dict.fromkeys(("array_remove", "trim_array", "array_reverse", "array_sort"), _FIRST),
    **dict.fromkeys(("array_append", "array_prepend", "array_cat"), _EVERY),
    **dict.fromkeys(("array_shuffle", "array_sample"), _FIRST),
    "array_replace": slice(0, None, 2),
}

# Functions of arrays -> for each argument, how many dimensions it has more than the elements;
# `None` if it is unrelated to them.
ARRAY_ARGUMENTS: Mapping[str, tuple[int | None, ...]] = {
    **dict.fromkeys(ARRAYS, (1, None, None)),
    "array_append": (1, 0),
    "array_prepend": (0, 1),
    "array_cat": (1, 1),
    "array_remove": (1, 0),
    "array_replace": (1, 0, 0),
    "array_position": (1, 0, None),
    "array_positions": (1, 0),
}

# Functions that build a JSON object from alternating names and values.
RECORDS = ("json_build_object", "jsonb_build_object")

# Functions that count or measure: their result reveals no key.
_MEASURING = (
    *("cardinality", "array_length", "array_ndims", "array_lower", "array_upper"),
    *("array_position", "array_positions", "json_array_length", "jsonb_array_length"),
    *("json_typeof", "jsonb_typeof", "pg_typeof"),
)


# A rule returns the shape of a function's value from the shapes of its arguments, at least one. It
# returns `NotImplemented` for a call that it does not cover.


def _array(arguments: Sequence[KeyShape]) -> Any:
    return NotImplemented if any(arguments[1:]) else array_shape(arguments[0])


def _items(arguments: Sequence[KeyShape]) -> Any:
    shape = arguments[0]
    if len(arguments) > 1 or not (isinstance(shape, ArrayShape | KeyColumn) or shape is None):
        return NotImplemented
    return item_of(shape)


def _json_items(arguments: Sequence[KeyShape]) -> Any:
    item = _items(arguments)
    return NotImplemented if _may_be_quoted(item) else item


def _json_list(arguments: Sequence[KeyShape]) -> Any:
    if any(arguments[1:]):
        return NotImplemented
    item = as_json(arguments[0])
    return item if item is None or isinstance(item, Unknown) else ArrayShape(item)


def _json_series(arguments: Sequence[KeyShape]) -> KeyShape:
    items = tuple(map(as_json, arguments))
    return Series(items) if any(items) else None


def _json_pairs(arguments: Sequence[KeyShape]) -> Any:
    if len(arguments) != 2 or is_container(arguments[0]):  # noqa: PLR2004  # a name and a value
        return NotImplemented
    name, value = map(as_json, arguments)
    return JsonPairs(name, value) if name or value else None


def _json_value(arguments: Sequence[KeyShape]) -> Any:
    shape = as_json(arguments[0])
    return NotImplemented if any(arguments[1:]) or _may_be_quoted(shape) else shape


def _may_be_quoted(shape: Any) -> bool:
    """Return whether a value is a JSON document of one text: some drivers leave its quotes."""
    return isinstance(shape, SpelledKey) and shape.column.key_type == "string"


def _same_json(arguments: Sequence[KeyShape]) -> Any:
    shape = arguments[0]
    is_json = shape is None or isinstance(
        shape, JsonObject | Series | ArrayShape | JsonPairs | SpelledKey
    )
    return shape if is_json else NotImplemented


_RULES: dict[str, Callable[[Sequence[KeyShape]], Any]] = {
    "array_agg": _array,
    "unnest": _items,
    **dict.fromkeys(("json_array_elements", "jsonb_array_elements"), _json_items),
    **dict.fromkeys(("json_agg", "jsonb_agg", "json_agg_strict", "jsonb_agg_strict"), _json_list),
    **dict.fromkeys(("json_build_array", "jsonb_build_array"), _json_series),
    **{
        f"{kind}_object_agg{variant}": _json_pairs
        for kind in ("json", "jsonb")
        for variant in ("", "_strict", "_unique", "_unique_strict")
    },
    **dict.fromkeys(("to_json", "to_jsonb", "row_to_json", "array_to_json"), _json_value),
    **dict.fromkeys(("json_strip_nulls", "jsonb_strip_nulls"), _same_json),
    **dict.fromkeys(_MEASURING, lambda _: None),
}

JSON_MAKERS = frozenset(
    name for name in _RULES if name.startswith(("json", "to_json", "row_to", "array_to"))
).union(RECORDS)
"""Functions that convert a whole row to a JSON object."""


# Kinds of expression

# Operators whose result is not a condition, even if the statement declares it `Boolean`.
_COMPUTING = (
    *(operators.add, operators.sub, operators.mul, operators.truediv, operators.floordiv),
    *(operators.mod, operators.neg, operators.concat_op, operators.getitem),
    *(operators.json_getitem_op, operators.json_path_getitem_op),
    *(operators.bitwise_and_op, operators.bitwise_or_op, operators.bitwise_xor_op),
    *(operators.bitwise_not_op, operators.bitwise_lshift_op, operators.bitwise_rshift_op),
)


def function_name(function: FunctionElement[Any]) -> str:
    """Return the name of a built-in function, or an empty string: others may do anything."""
    packages = tuple(getattr(function, "packagenames", ()))
    name = getattr(function, "name", "")
    return str(name).lower() if packages in ((), ("pg_catalog",)) else ""


def arguments_of(function: FunctionElement[Any]) -> list[Any]:
    """Return the arguments of a function: none for `next_value()`."""
    return list(getattr(function, "clauses", ()))


def wrapped_in(element: Any) -> Any:
    """Return the expression inside a label, a window or another wrapper; `None` for others.

    The wrappers do not change the value; they name it, or select and order the rows that an
    aggregate or a window function reads.
    """
    match element:
        case Label() | Grouping() | Over() | UnaryExpression(operator=operators.distinct_op):
            return element.element
        case FunctionFilter():
            return element.func
        case aggregate_order_by():
            return element.target
        case _:
            return sqla.ordered_aggregate(element)


def choices_of(element: Any) -> Sequence[Any]:
    """Return expressions, if the value of an expression is the value of one of them, unchanged.

    | expression | choices |
    | --- | --- |
    | `case((x, Recipe.id), else_=None)` | `Recipe.id`, `None` |
    | `coalesce(Recipe.id, other.id)` | `Recipe.id`, `other.id` |
    | `max(Recipe.id).over()` | `max(Recipe.id)` |
    | `lower(Recipe.name)` | none: it computes another value |
    """
    match element:
        case Case():
            return [*(result for _, result in element.whens), element.else_]
        case FunctionElement():
            chosen = PASS_THROUGH.get(function_name(element))
            return [] if chosen is None else arguments_of(element)[chosen]
        case _:
            inner = wrapped_in(element)
            return [] if inner is None else [inner]


def is_declared_data(element: Any) -> bool:
    """Return whether an expression is a `column_property()` with `info={"ref": None}`."""
    info = sqla.info_of(element)
    return "ref" in info and info["ref"] is None


def is_document(element: Any) -> bool:
    """Return whether an expression is a JSON document, or chooses among such."""
    if isinstance(element, FunctionElement) and function_name(element) in JSON_MAKERS:
        return True
    inner = [element.clause] if isinstance(element, Cast) else choices_of(element)
    return any(map(is_document, inner))


def is_declared_boolean(element: Any) -> bool:
    """Return whether an expression is `Boolean` by declaration, not because it is a condition."""
    operator = element.operator
    computes = operator in _COMPUTING or isinstance(operator, operators.custom_op)
    return computes and isinstance(element.type, Boolean)


def is_constant(element: Any) -> bool:
    """Return whether a value depends on no column: a literal, or a call without arguments."""
    match element:
        case BindParameter() | TextClause():
            return True
        case Cast() | TypeCoerce():
            return is_constant(element.clause)
        case ColumnClause():
            return element.is_literal
        case FunctionElement():
            return not arguments_of(element)
        case _:
            return False


def parts_of(element: Any) -> Iterable[Any]:
    """Return the operands of an expression."""
    has_operands = isinstance(element, ColumnElement | ClauseList | FunctionElement)
    return element.get_children() if has_operands else ()


def is_null(element: Any) -> bool:
    """Return whether an expression is NULL, or missing as in a CASE without ELSE."""
    inner = element.element if isinstance(element, Label) else element
    return inner is None or isinstance(inner, Null)


# Casts

RAW_KEYS_REMEDY = (
    "select the key column itself, or use session.raw_keys() or "
    "execution_options(raw_keys=True) in trusted code"
)

# The length of the longest text of a key of each type: a shorter text type would truncate it.
_LONGEST = {"uuid": 36, "integer": 20}


def shape_of_cast(shape: KeyShape, type_: Any) -> KeyShape:
    """Return the shape after a cast: keys may become text, JSON stays JSON.

    Raises:
        UntranslatableError: the cast changes or truncates a key.
    """
    match shape:
        case None | Unknown():
            return shape
        case KeyColumn() if not shape.array and key_type_of(type_) == shape.key_type != "string":
            return replace(shape, as_text=is_text_uuid(type_))
        case KeyColumn() | SpelledKey() if not is_array(shape):
            column = next(columns_in(shape))
            if _holds_text_of(column, type_) or (
                key_type_of(type_) == column.key_type != "string"
            ):
                return with_other_spelling(shape)
        case KeyColumn() | ArrayShape() if isinstance(type_, ARRAY):
            item = item_of(shape)
            if isinstance(item, SpelledKey):  # check the items as a column of their own
                item = replace(item.column, array=False)
            shape_of_cast(item, type_.item_type)
            return as_json(shape)
        case _ if isinstance(type_, JSON) and not is_array(shape):
            return shape
    raise untranslatable(columns_in(shape))


def _holds_text_of(column: KeyColumn, type_: Any) -> bool:
    """Return whether a text type has room for each key of a column, and does not pad it."""
    if not isinstance(type_, String) or isinstance(type_, CHAR | NCHAR | Enum):
        return False
    return type_.length is None or type_.length >= _LONGEST.get(column.key_type, type_.length + 1)


def with_declared_type(shape: KeyShape, type_: Any) -> KeyShape:
    """Return the shape of a key that passes through a function with a declared return type."""
    if not isinstance(shape, KeyColumn) or shape.array:
        return shape
    same = key_type_of(type_) == shape.key_type and is_text_uuid(type_) == shape.as_text
    return shape if same else with_other_spelling(shape)


def untranslatable(columns: Iterable[KeyColumn]) -> UntranslatableError:
    """Build the error for a result that would show keys of these columns."""
    names = ", ".join(sorted({column.name for column in columns}))
    return UntranslatableError(
        f"a result shows keys of {names} inside an expression", RAW_KEYS_REMEDY
    )


# Lineage

# A literal in SQL text, with or without a cast.
_CONSTANT = re.compile(
    r"\s*('[^']*'|-?\d+(\.\d+)?|null|true|false)\s*(::\s*\w+\s*(\[\])?)?\s*", re.IGNORECASE
)


class Lineage:
    """Derives the shapes of the expressions of one statement from the columns in them.

    Args:
        key_column: returns the key column for a column of a table.
        key_parameters: the bound parameters that are keys, by name.
        parameters: the names of the statement's parameters, in order.
        written: the table of an INSERT, UPDATE or DELETE; a bare `column("id")` is one of its own.
    """

    def __init__(
        self,
        key_column: Callable[[Column[Any]], KeyColumn | None],
        key_parameters: Mapping[str, KeyColumn] | None = None,
        parameters: Sequence[str] = (),
        written: FromClause | None = None,
    ) -> None:
        self._key_column = key_column
        self._key_parameters = key_parameters or {}
        self._parameters = parameters
        self._bare = {} if written is None else {column.name: column for column in written.c}
        self._known: dict[int, tuple[Any, KeyShape]] = {}  # by id; elements are kept alive

    def of_any(self, elements: Sequence[Any]) -> KeyShape:
        """Return the shape of a value that is the result of one of several expressions.

        Raises:
            UntranslatableError: keys are mixed with other values, or used in a computation.
        """
        others = [element for element in elements if not is_null(element)]
        return _shape_of_any([self.of(element) for element in others], others)

    def of(self, element: Any) -> KeyShape:  # noqa: C901, PLR0912  # one case a construct
        """Return the shape of the value of an expression; derived once, not once for each use.

        Raises:
            UntranslatableError: it shows keys in a way that refs cannot replace.
        """
        if id(element) in self._known:
            return self._known[id(element)][1]
        shape: KeyShape
        match element:
            case _ if (bundle := sqla.bundle_of(element)) is not None:
                shape = self._of_bundle(bundle)
            case _ if is_declared_data(element):
                shape = None
            case ColumnClause():
                shape = self._of_column(element)
            case BindParameter():
                shape = self._key_parameters.get(element.key)
            case TypeCoerce(type=Boolean()) | FunctionElement(type=Boolean()):
                shape = self._of_declared_boolean(element)
            case BinaryExpression() | UnaryExpression() if is_declared_boolean(element):
                shape = self._of_declared_boolean(element)
            case Cast(type=Boolean()):
                shape = None
            case Cast() | TypeCoerce():
                shape = shape_of_cast(self.of(element.clause), element.type)
            case _ if choices := choices_of(element):
                shape = self.of_any(choices)
                is_function = isinstance(element, FunctionElement)
                shape = with_declared_type(shape, element.type) if is_function else shape
            case FunctionElement():
                shape = self._of_function(element)
            case ScalarSelect():
                shape = self.of(element.element.selected_columns[0])
            case BinaryExpression(operator=operators.getitem | operators.concat_op):
                shape = self._of_operator(element)
            case postgresql.array():
                shape = array_shape(self.of_any(list(element.clauses)))
            case TableValuedColumn():
                shape = self._of_scalar_alias(element.scalar_alias)
            case FromClause():
                shape = self._of_whole_row(element)
            case ColumnElement(type=Boolean()):
                shape = None
            case TextClause():
                shape = None if _CONSTANT.fullmatch(element.text) else UNKNOWN
            case ColumnElement() if sqla.is_opaque(element):
                shape = UNKNOWN
            case _:
                shape = self._of_computed(element)
        self._known[id(element)] = (element, shape)
        return shape

    def _of_column(self, element: ColumnClause[Any]) -> KeyShape:
        """Follow a column through subqueries and aliases to where its values come from."""
        if element.table is None and not element.is_literal:
            element = self._bare.get(element.name, cast(Any, element))
        meant = sqla.polymorphic_column(element)
        bases = [base for base in meant.base_columns if base is not meant]
        if isinstance(meant, Column) and isinstance(meant.table, Table):
            return self._key_column(meant)
        if isinstance(element.table, TableValuedAlias):
            return self._of_table_function(element.table, element)
        if bases:
            return self.of_any(bases)
        is_constant = element.is_literal and _CONSTANT.fullmatch(element.name)
        return None if is_constant else UNKNOWN  # literal_column(), a lightweight table()

    def _of_scalar_alias(self, table: FromClause) -> KeyShape:
        """Return the shape of `column_valued()`; `Table.table_valued()` is a whole row."""
        if isinstance(table, TableValuedAlias) and len(table.c) == 1:
            return self._of_table_function(table, table.c[0])
        return self._of_whole_row(table)

    def _of_table_function(self, table: TableValuedAlias, column: Any) -> KeyShape:
        """Return the shape of a column of a set-returning function, such as `unnest()`."""
        shape = self.of(table.element)
        is_first = column is list(table.c)[0]  # noqa: RUF015  # `c` may be empty
        return shape if is_first or isinstance(shape, Unknown) else None

    def _of_function(self, element: FunctionElement[Any]) -> KeyShape:
        if isinstance(element, next_value):  # no row has this number yet
            return None
        name, arguments = function_name(element), arguments_of(element)
        if name in ARRAYS:
            parts = arguments[ARRAYS[name]]
            return array_shape(_shape_of_any([item_of(self.of(part)) for part in parts], parts))
        if name in RECORDS:
            return self._of_record(arguments)
        if name == "count":
            return None
        rule = _RULES.get(name)
        if rule is None or not arguments:
            return self._of_computed(element)
        of_argument = self._of_json_part if name in JSON_MAKERS else self.of
        shape = rule([of_argument(argument) for argument in arguments])
        return self._of_computed(element) if shape is NotImplemented else shape

    def _of_json_part(self, element: Any) -> KeyShape:
        """Return the shape of a part of a JSON document, in which a whole row is an object."""
        match element:
            case TableValuedColumn() if not isinstance(element.scalar_alias, TableValuedAlias):
                return self._of_row(element.scalar_alias)
            case FromClause() if not isinstance(element, FunctionElement | ColumnElement):
                return self._of_row(element)
            case _:
                inner = wrapped_in(element)
                return self.of(element) if inner is None else self._of_json_part(inner)

    def _of_row(self, table: FromClause) -> KeyShape:
        """Return the shape of a whole row as JSON.

        Fields that the metadata does not have are unknown: the table may have more columns.
        """
        fields = [(column, as_json(self.of(column))) for column in table.c]
        rest = None if sqla.underlying_table(table) is None else UNKNOWN
        if rest is None and not any(shape for _, shape in fields):
            return None
        if any(shape and sqla.is_unnamed(column) for column, shape in fields):
            raise untranslatable(c for _, shape in fields for c in columns_in(shape))
        return JsonObject(tuple((str(column.name), shape) for column, shape in fields), rest)

    def _of_record(self, arguments: Sequence[Any]) -> KeyShape:
        names, values = arguments[::2], arguments[1::2]
        shapes = [as_json(self._of_json_part(value)) for value in values]
        named = [self._name(name) for name in names]
        if not any(shapes) and None not in named:
            return None
        if None in named or len(names) != len(values):
            # a computed field name may be a key
            shapes += [self.of(name) for name in names]
            columns = [column for part in shapes for column in columns_in(part)]
            if columns:
                raise untranslatable(columns)
            return _least_known(shapes)
        return JsonObject(tuple(zip(named, shapes, strict=True)))  # type: ignore[arg-type]

    def _name(self, element: Any) -> ParameterName | str | None:
        """Return a field's name; for a parameter its index, since its value differs each time."""
        if isinstance(element, BindParameter) and element.key in self._parameters:
            return ParameterName(self._parameters.index(element.key))
        text = getattr(element, "text", None) or (
            element.name if isinstance(element, ColumnClause) and element.is_literal else ""
        )
        is_text = _CONSTANT.fullmatch(text) and text.strip()[0] == "'"
        return text.strip()[1:].partition("'")[0] if is_text else None

    def _of_declared_boolean(self, element: Any) -> KeyShape:
        """Return the shape of an expression that the program declares to be `Boolean`.

        PostgreSQL ignores the declaration and may return a key, so its values are examined.
        """
        try:
            shapes = [self.of(part) for part in parts_of(element)]
        except UntranslatableError:
            return UNKNOWN
        has_keys = UNKNOWN in shapes or any(True for part in shapes for _ in columns_in(part))
        return UNKNOWN if has_keys else None

    def _of_operator(self, element: BinaryExpression[Any]) -> KeyShape:
        """Return the shape of an item or a slice of an array, or of two arrays joined."""
        left = self.of(element.left)
        is_list = (is_array(left) or isinstance(left, ArrayShape)) and not isinstance(
            element.left.type, JSON
        )
        if element.operator is operators.getitem and is_list:
            return (
                array_shape(item_of(left)) if isinstance(element.right, Slice) else item_of(left)
            )
        right = self.of(element.right)
        if element.operator is operators.concat_op and isinstance(element.type, ARRAY):
            parts = [item_of(part) for part in (left, right)]
            return array_shape(_shape_of_any(parts, [element.left, element.right]))
        return self._of_computed(element)

    def _of_bundle(self, bundle: Bundle[Any]) -> KeyShape:
        """Return the shape of a `Bundle`, which is a row inside the row."""
        items = tuple(map(self.of, bundle.exprs))
        if not any(items):
            return None
        # an overridden row processor sees keys and may return anything
        if type(bundle).create_row_processor is not Bundle.create_row_processor:
            raise untranslatable([c for item in items for c in columns_in(item)])
        return Series(items)

    def _of_computed(self, element: Any) -> KeyShape:
        """Refuse an expression that computes with keys; others are data, or unknown."""
        parts = [self.of(part) for part in parts_of(element)]
        columns = [column for part in parts for column in columns_in(part)]
        if columns:
            raise untranslatable(columns)
        untyped = isinstance(element, FunctionElement) and isinstance(
            element.type, NullType | Uuid
        )
        return _least_known(parts) or (UNTYPED if untyped else None)

    def _of_whole_row(self, table: FromClause) -> KeyShape:
        """Refuse a whole row with keys as one value: drivers return it as text."""
        return self._of_computed(ClauseList(*table.c))


def _shape_of_any(shapes: Sequence[KeyShape], elements: Sequence[Any]) -> KeyShape:
    """Return the shape of a value that is one of several expressions.

    Keys do not mix with data, except that a constant may replace a list or object: `coalesce` of
    an aggregate with an empty list.
    """
    keyed = [part for part in shapes if not (part is None or isinstance(part, Unknown))]
    if UNKNOWN in shapes or not keyed:
        return _least_known(shapes)
    shape: KeyShape = keyed[0]
    for other in keyed[1:]:
        shape = common_shape(shape, other)
    others = [e for part, e in zip(shapes, elements, strict=True) if part not in keyed]
    if shape is None or (others and not (is_container(shape) and all(map(is_constant, others)))):
        raise untranslatable([column for part in keyed for column in columns_in(part)])
    return shape


def _least_known(parts: Iterable[KeyShape]) -> Unknown | None:
    """Return the least known of the parts of a value, `None` if all are known to be data."""
    unknown = {each for part in parts for each in unknowns_in(part)}
    return UNKNOWN if UNKNOWN in unknown else next(iter(unknown), None)
