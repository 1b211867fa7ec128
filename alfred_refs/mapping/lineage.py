"""Column lineage: which keys a SQL expression returns.

Where keys stand in a value of a result: it is one, or a list or JSON object with some in it.

    select(Recipe.id)                                   KeyColumn("recipes.id", ...)
    select(func.array_agg(Recipe.id))                   Listed(SpelledKey(...))
    select(func.json_build_object("id", Recipe.id))     JsonObject((("id", SpelledKey(...)),))
    select(Recipe.name)                                 None

`lineage` answers with these, and `statements.rendering` goes by them. Frozen values.

SQL functions that hand keys on: what the value of each is, given its arguments.

    coalesce(recipes.parent_id, recipes.id) one of the two keys
    array_agg(recipes.id)                   a list of keys
    json_build_object("id", recipes.id)     an object with a key in it
    array_length(recipes.ids, 1)            no key: it measures

A function is taught here, by its name in the database: what `PASS_THROUGH` and `ARRAY_ARGUMENTS`
say also decides which arguments a ref is resolved for, as those of one call are of one entity. For
a function that is not known the answer is `NotImplemented`: its value has no keys only if its
arguments have none. Pure.

What kind of thing an expression is, and what its value shows once it is cast to another type.

    cast(Recipe.id, String)    text that is a key: it has a ref
    cast(Recipe.id, Integer)   raises: what would come out is no key any more
    cast(Recipe.data, JSON)    JSON stays JSON

Pure.

Column lineage: the key columns from which the value of an expression comes.

    Recipe.id, coalesce(Recipe.id, x)    a key of recipes.id
    array_agg(Recipe.id)                 a list of them
    Recipe.name                          `None`: plain data
    Recipe.id.concat("!")                raises: no ref can stand for what comes out

An expression comes in, the shape of its values goes out, as `shapes` has it. Pure.
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


@dataclass(frozen=True, slots=True)
class SpelledKey:
    """A key that may be spelled otherwise than its column has it: as text, or as JSON has it.

    Attributes:
        column: where the key comes from; of an array it is one of the items.
    """

    column: KeyColumn


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of unknown origin: it may be a key of any entity.

    Attributes:
        key_types: the types of key that it may be.
        within: whether a key may also stand inside a text.
    """

    key_types: tuple[KeyType, ...]
    within: bool = False


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """A list of values of one kind; where they are keys, of any number of dimensions."""

    item: KeyShape


@dataclass(frozen=True, slots=True)
class Series:
    """A list in which each position has a kind of its own."""

    items: tuple[KeyShape, ...]


@dataclass(frozen=True, slots=True)
class ParameterName:
    """The name of a field that is a parameter of the statement, by its place in the shape."""

    place: int


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object whose fields have names.

    Attributes:
        fields: what each shows.
        rest: what fields of other names show.
    """

    fields: tuple[tuple[str | ParameterName, KeyShape], ...]
    rest: KeyShape = None


@dataclass(frozen=True, slots=True)
class JsonPairs:
    """A JSON object made from pairs: all its names are of one kind, and all its values."""

    name: KeyShape
    value: KeyShape


KeyShape = KeyColumn | SpelledKey | Unknown | ArrayShape | Series | JsonObject | JsonPairs | None

UNKNOWN: Final = Unknown(("uuid", "integer", "string"), within=True)
"""The statement does not tell where a value comes from."""

UNTYPED: Final = Unknown(("uuid",))
"""A function of plain data whose type is not known: it may look something up, such as a UUID."""


def columns_in(shape: KeyShape) -> Iterator[KeyColumn]:
    """Yield the columns whose keys a value shows."""
    match shape:
        case KeyColumn():
            yield shape
        case SpelledKey():
            yield shape.column
        case _:
            for part in _parts(shape):
                yield from columns_in(part)


def unknowns_in(shape: KeyShape) -> Iterator[Unknown]:
    """Yield what is of unknown origin in a value."""
    if isinstance(shape, Unknown):
        yield shape
    for part in _parts(shape):
        yield from unknowns_in(part)


def names_in(shape: KeyShape) -> Iterator[str | ParameterName]:
    """Yield the names of all fields in a value."""
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
    """Return the same list or record with other parts; what has no parts stays as it is."""
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
    """Return what an array of such items shows; one of arrays has another dimension."""
    if item is None or isinstance(item, Unknown):
        return item
    if isinstance(item, ArrayShape) and isinstance(item.item, SpelledKey):
        return item
    return ArrayShape(with_other_spelling(item))


def item_of(shape: KeyShape) -> KeyShape:
    """Return what the items of a list show."""
    if is_array(shape):
        return with_other_spelling(shape)
    return shape.item if isinstance(shape, ArrayShape) else shape


def with_other_spelling(shape: KeyShape) -> KeyShape:
    """Return what is shown once its keys may be spelled otherwise; of an array, its items."""
    return SpelledKey(shape) if isinstance(shape, KeyColumn) else shape


def as_json(shape: KeyShape) -> KeyShape:
    """Return what is shown once a value has become part of a JSON document."""
    return (
        ArrayShape(with_other_spelling(shape)) if is_array(shape) else with_other_spelling(shape)
    )


def is_array(shape: KeyShape) -> bool:
    """Tell whether a value is an array column's own."""
    return isinstance(shape, KeyColumn) and shape.array


def is_container(shape: KeyShape) -> bool:
    """Tell whether a value is a list or record in which keys stand."""
    return is_array(shape) or isinstance(shape, ArrayShape | Series | JsonObject | JsonPairs)


def alike(one: KeyShape, other: KeyShape) -> KeyShape:
    """Return what a value shows that is one or the other, `None` if they cannot be mixed."""
    if _anonymous(one) == _anonymous(other):
        return one
    if is_container(one) != is_container(other):
        return None
    one, other = as_json(one), as_json(other)
    return one if _anonymous(one) == _anonymous(other) else None


def _anonymous(shape: KeyShape) -> KeyShape:
    """Leave out where keys come from, and keep what they are keys of."""
    match shape:
        case KeyColumn():
            return replace(shape, name="")
        case SpelledKey():
            return SpelledKey(replace(shape.column, name="", as_text=False, array=False))
        case _:
            return with_parts(shape, _anonymous)


# Functions whose result is one of these arguments, unchanged; the others only choose.
_EVERY, _FIRST, _FIRST_AND_DEFAULT = slice(None), slice(1), slice(0, None, 2)
PASS_THROUGH = {
    **dict.fromkeys(("max", "min", "any_value", "coalesce", "greatest", "least"), _EVERY),
    **dict.fromkeys(("first_value", "last_value", "nth_value", "nullif"), _FIRST),
    **dict.fromkeys(("lag", "lead"), _FIRST_AND_DEFAULT),
}

# Functions that return an array of the same keys, from which of their arguments.
ARRAYS = {
    **dict.fromkeys(("array_remove", "trim_array", "array_reverse", "array_sort"), _FIRST),
    **dict.fromkeys(("array_append", "array_prepend", "array_cat"), _EVERY),
    **dict.fromkeys(("array_shuffle", "array_sample"), _FIRST),
    "array_replace": slice(0, None, 2),
}

# Functions of arrays: how many lists deeper each argument is than the elements; `None` has nothing
# to do with them.
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

# Functions that make a record: every other argument is a name, the rest are values.
RECORDS = ("json_build_object", "jsonb_build_object")

# Functions that count or measure: their result tells no key.
_MEASURING = (
    *("cardinality", "array_length", "array_ndims", "array_lower", "array_upper"),
    *("array_position", "array_positions", "json_array_length", "jsonb_array_length"),
    *("json_typeof", "jsonb_typeof", "pg_typeof"),
)


def is_taught(name: str) -> bool:
    """Tell whether `shape_by` knows a function: the shapes of arguments need not be made else."""
    return name in _MAKERS


def shape_by(name: str, arguments: Sequence[KeyShape]) -> Any:
    """Return what a function's value shows, or `NotImplemented`."""
    maker = _MAKERS.get(name)
    return NotImplemented if maker is None or not arguments else maker(arguments)


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
    """Tell whether a text stands alone as a JSON document: some drivers leave it in quotes."""
    return isinstance(shape, SpelledKey) and shape.column.key_type == "string"


def _same_json(arguments: Sequence[KeyShape]) -> Any:
    shape = arguments[0]
    is_json = shape is None or isinstance(
        shape, JsonObject | Series | ArrayShape | JsonPairs | SpelledKey
    )
    return shape if is_json else NotImplemented


def _nothing(_: Sequence[KeyShape]) -> KeyShape:
    return None


_MAKERS: dict[str, Callable[[Sequence[KeyShape]], Any]] = {
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
    **dict.fromkeys(_MEASURING, _nothing),
}

JSON_MAKERS = frozenset(
    name for name in _MAKERS if name.startswith(("json", "to_json", "row_to", "array_to"))
).union(RECORDS)
"""Functions that take a whole row as a record."""


# Operators whose result is no condition, whatever type the statement gives it.
_MAKING = (
    *(operators.add, operators.sub, operators.mul, operators.truediv, operators.floordiv),
    *(operators.mod, operators.neg, operators.concat_op, operators.getitem),
    *(operators.json_getitem_op, operators.json_path_getitem_op),
    *(operators.bitwise_and_op, operators.bitwise_or_op, operators.bitwise_xor_op),
    *(operators.bitwise_not_op, operators.bitwise_lshift_op, operators.bitwise_rshift_op),
)


def function_name(function: FunctionElement[Any]) -> str:
    """Return a function's name, empty for one of another package: it may do anything."""
    packages = tuple(getattr(function, "packagenames", ()))
    name = getattr(function, "name", "")
    return str(name).lower() if packages in ((), ("pg_catalog",)) else ""


def arguments_of(function: FunctionElement[Any]) -> list[Any]:
    """Return the arguments of a function: a sequence's next value has none."""
    return list(getattr(function, "clauses", ()))


def wrapped_in(element: Any) -> Any:
    """Return the expression whose value another one has, such as a label; `None`: it has its own.

    What is left out is which rows an aggregate or a window is over, and in which order.
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
    """Return the expressions of which one gives an expression its value, unchanged.

    case((x, Recipe.id), else_=None)     Recipe.id, None
    coalesce(Recipe.id, other.id)        Recipe.id, other.id
    max(Recipe.id).over()                max(Recipe.id)
    lower(Recipe.name)                   none: it makes another value
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


def is_document(element: Any) -> bool:
    """Tell whether a value is a JSON document, or one of several to choose from."""
    if isinstance(element, FunctionElement) and function_name(element) in JSON_MAKERS:
        return True
    inner = [element.clause] if isinstance(element, Cast) else choices_of(element)
    return any(map(is_document, inner))


def is_declared_boolean(element: Any) -> bool:
    """Tell what is called true or false by the type of its operands, from a condition."""
    operator = element.operator
    makes = operator in _MAKING or isinstance(operator, operators.custom_op)
    return makes and isinstance(element.type, Boolean)


def is_constant(element: Any) -> bool:
    """Tell whether a value is no column's: a parameter, or written out, or made from nothing."""
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
    """Return what an expression is made from."""
    is_made = isinstance(element, ColumnElement | ClauseList | FunctionElement)
    return element.get_children() if is_made else ()


def is_null(element: Any) -> bool:
    """Tell whether an expression is NULL, or left out."""
    inner = element.element if isinstance(element, Label) else element
    return inner is None or isinstance(inner, Null)


ASK_RAW = (
    "select the key column itself, or use session.raw_keys() or "
    "execution_options(raw_keys=True) in trusted code"
)

# The longest text of a key of each type; a shorter text column would cut it.
_LONGEST = {"uuid": 36, "integer": 20}


def cast_to(shape: KeyShape, type_: Any) -> KeyShape:
    """Return what a value shows after a cast: keys may become text, JSON stays JSON."""
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
            if isinstance(item, SpelledKey):  # as a column of such items would hold it
                item = replace(item.column, array=False)
            cast_to(item, type_.item_type)
            return as_json(shape)
        case _ if isinstance(type_, JSON) and not is_array(shape):
            return shape
    raise untranslatable(columns_in(shape))


def _holds_text_of(column: KeyColumn, type_: Any) -> bool:
    """Tell whether text of this type holds a whole key: a shorter one would cut it."""
    if not isinstance(type_, String) or isinstance(type_, CHAR | NCHAR | Enum):
        return False
    return type_.length is None or type_.length >= _LONGEST.get(column.key_type, type_.length + 1)


def shape_of_cast(shape: KeyShape, type_: Any) -> KeyShape:
    """Return what a key shows that a function gives a type of its own, or none."""
    if not isinstance(shape, KeyColumn) or shape.array:
        return shape
    same = key_type_of(type_) == shape.key_type and is_text_uuid(type_) == shape.as_text
    return shape if same else with_other_spelling(shape)


def untranslatable(columns: Iterable[KeyColumn]) -> UntranslatableError:
    """Return the error for a result that would show keys of these columns."""
    names = ", ".join(sorted({column.name for column in columns}))
    return UntranslatableError(f"a result shows keys of {names} inside an expression", ASK_RAW)


# A constant written out in SQL, with or without a cast.
_CONSTANT = re.compile(
    r"\s*('[^']*'|-?\d+(\.\d+)?|null|true|false)\s*(::\s*\w+\s*(\[\])?)?\s*", re.IGNORECASE
)


class Lineage:
    """From which key columns the values of expressions come.

    Args:
        key_column: tells what keys a column of a table holds.
        key_parameters: those that stand for keys, by name.
        parameters: the names of the statement's parameters, in the order of its shape.
        written: the table that a write is of, which a bare `column("id")` in it names.
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

    def of_any(self, elements: Sequence[Any]) -> KeyShape:
        """Return what a value shows that comes from one of several expressions.

        Raises:
            UntranslatableError: keys are mixed with other values, or are not shown as they are.
        """
        others = [element for element in elements if not is_null(element)]
        return _either([self.of(element) for element in others], others)

    def of(self, element: Any) -> KeyShape:  # noqa: C901, PLR0911, PLR0912  # one case a construct
        """Return what one expression shows."""
        match element:
            case _ if (bundle := sqla.bundle_of(element)) is not None:
                return self._of_bundle(bundle)
            case ColumnClause():
                return self._of_column(element)
            case BindParameter():
                return self._key_parameters.get(element.key)
            case TypeCoerce(type=Boolean()) | FunctionElement(type=Boolean()):
                return self._of_claim(element)
            case BinaryExpression() | UnaryExpression() if is_declared_boolean(element):
                return self._of_claim(element)
            case Cast(type=Boolean()):
                return None
            case Cast() | TypeCoerce():
                return cast_to(self.of(element.clause), element.type)
            case _ if choices := choices_of(element):
                shape = self.of_any(choices)
                is_function = isinstance(element, FunctionElement)
                return shape_of_cast(shape, element.type) if is_function else shape
            case FunctionElement():
                return self._of_function(element)
            case ScalarSelect():
                return self.of(element.element.selected_columns[0])
            case BinaryExpression(operator=operators.getitem | operators.concat_op):
                return self._of_operator(element)
            case postgresql.array():
                return array_shape(self.of_any(list(element.clauses)))
            case TableValuedColumn():
                return self._of_scalar_alias(element.scalar_alias)
            case FromClause():
                return self._of_whole_row(element)
            case ColumnElement(type=Boolean()):
                return None
            case TextClause():
                return None if _CONSTANT.fullmatch(element.text) else UNKNOWN
            case ColumnElement() if sqla.is_opaque(element):
                return UNKNOWN
            case _:
                return self._of_made(element)

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
        """Return what `column_valued()` shows; `table_valued()` of a table is a row of it."""
        if isinstance(table, TableValuedAlias) and len(table.c) == 1:
            return self._of_table_function(table, table.c[0])
        return self._of_whole_row(table)

    def _of_table_function(self, table: TableValuedAlias, column: Any) -> KeyShape:
        """Return what a column shows of the rows that a function makes, such as `unnest()`."""
        shape = self.of(table.element)
        is_first = column is list(table.c)[0]  # noqa: RUF015  # next() would not tell it is there
        return shape if is_first or isinstance(shape, Unknown) else None

    def _of_function(self, element: FunctionElement[Any]) -> KeyShape:
        if isinstance(element, next_value):  # a new number is nobody's key yet
            return None
        name, arguments = function_name(element), arguments_of(element)
        if name in ARRAYS:
            parts = arguments[ARRAYS[name]]
            return array_shape(_either([item_of(self.of(part)) for part in parts], parts))
        if name in RECORDS:
            return self._of_record(arguments)
        part = self._of_json_part if name in JSON_MAKERS else self.of
        if name == "count":
            return None
        if not is_taught(name):
            return self._of_made(element)
        known = shape_by(name, [part(argument) for argument in arguments])
        return self._of_made(element) if known is NotImplemented else known

    def _of_json_part(self, element: Any) -> KeyShape:
        """Return what a part of a JSON document shows; a whole row is a record in it."""
        match element:
            case TableValuedColumn() if not isinstance(element.scalar_alias, TableValuedAlias):
                return self._of_row(element.scalar_alias)
            case FromClause() if not isinstance(element, FunctionElement | ColumnElement):
                return self._of_row(element)
            case _:
                inner = wrapped_in(element)
                return self.of(element) if inner is None else self._of_json_part(inner)

    def _of_row(self, table: FromClause) -> KeyShape:
        """Return what a whole row shows as JSON: the database may have more columns of a table."""
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
            # a name that is computed may be a key itself
            shapes += [self.of(name) for name in names]
            columns = [column for part in shapes for column in columns_in(part)]
            if columns:
                raise untranslatable(columns)
            return _strongest(shapes)
        return JsonObject(tuple(zip(named, shapes, strict=True)))  # type: ignore[arg-type]

    def _name(self, element: Any) -> ParameterName | str | None:
        """Return a field's name: a parameter's value differs from execution to execution."""
        if isinstance(element, BindParameter) and element.key in self._parameters:
            return ParameterName(self._parameters.index(element.key))
        text = getattr(element, "text", None) or (
            element.name if isinstance(element, ColumnClause) and element.is_literal else ""
        )
        is_text = _CONSTANT.fullmatch(text) and text.strip()[0] == "'"
        return text.strip()[1:].partition("'")[0] if is_text else None

    def _of_claim(self, element: Any) -> KeyShape:
        """Return what is shown by what the program declares to be true or false.

        The database goes by the expression, and may return a key: the values are looked at.
        """
        try:
            shapes = [self.of(part) for part in parts_of(element)]
        except UntranslatableError:
            return UNKNOWN
        has_keys = UNKNOWN in shapes or any(True for part in shapes for _ in columns_in(part))
        return UNKNOWN if has_keys else None

    def _of_operator(self, element: BinaryExpression[Any]) -> KeyShape:
        """Return what an item or a slice of an array shows, or two arrays joined."""
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
            return array_shape(_either(parts, [element.left, element.right]))
        return self._of_made(element)

    def _of_bundle(self, bundle: Bundle[Any]) -> KeyShape:
        """Return what a bundle shows: it becomes a row inside the row."""
        items = tuple(map(self.of, bundle.exprs))
        if not any(items):
            return None
        if type(bundle).create_row_processor is not Bundle.create_row_processor:
            raise untranslatable([c for item in items for c in columns_in(item)])
        return Series(items)

    def _of_made(self, element: Any) -> KeyShape:
        """Refuse what is made from keys: only plain data can be computed with."""
        parts = [self.of(part) for part in parts_of(element)]
        columns = [column for part in parts for column in columns_in(part)]
        if columns:
            raise untranslatable(columns)
        untyped = isinstance(element, FunctionElement) and isinstance(
            element.type, NullType | Uuid
        )
        return _strongest(parts) or (UNTYPED if untyped else None)

    def _of_whole_row(self, table: FromClause) -> KeyShape:
        """Refuse a row as one value, which drivers return as text, if it has keys."""
        return self._of_made(ClauseList(*table.c))


def _either(shapes: Sequence[KeyShape], elements: Sequence[Any]) -> KeyShape:
    """Return what a value shows that is one of several; an empty JSON list may be one of them."""
    found = [part for part in shapes if not (part is None or isinstance(part, Unknown))]
    if UNKNOWN in shapes or not found:
        return _strongest(shapes)
    one: KeyShape = found[0]
    for other in found[1:]:
        one = alike(one, other)
    others = [e for part, e in zip(shapes, elements, strict=True) if part not in found]
    if one is None or (others and not (is_container(one) and all(map(is_constant, others)))):
        raise untranslatable([column for part in found for column in columns_in(part)])
    return one


def _strongest(parts: Iterable[KeyShape]) -> Unknown | None:
    """Return how little is known of a value that these are parts of."""
    unknown = {each for part in parts for each in unknowns_in(part)}
    return UNKNOWN if UNKNOWN in unknown else next(iter(unknown), None)
