"""What kind of thing an expression is, and what its value shows once it is cast to another type.

    cast(Recipe.id, String)    text that is a key: it has a ref
    cast(Recipe.id, Integer)   raises: what would come out is no key any more
    cast(Recipe.data, JSON)    JSON stays JSON

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ARRAY,
    CHAR,
    JSON,
    NCHAR,
    BindParameter,
    Boolean,
    Case,
    Cast,
    ColumnClause,
    ColumnElement,
    Enum,
    FunctionElement,
    FunctionFilter,
    Label,
    Null,
    Over,
    String,
    TextClause,
    TypeCoerce,
    UnaryExpression,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ClauseList, Grouping

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError

from .functions import JSON_MAKERS, PASS_THROUGH
from .key_column import KeyColumn, is_text_uuid, key_type_of
from .shapes import (
    KeyShape,
    Listed,
    SpelledKey,
    Unknown,
    as_json,
    columns_in,
    is_array,
    item_of,
    spelled,
)

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
                return spelled(shape)
        case KeyColumn() | Listed() if isinstance(type_, ARRAY):
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


def retyped(shape: KeyShape, type_: Any) -> KeyShape:
    """Return what a key shows that a function gives a type of its own, or none."""
    if not isinstance(shape, KeyColumn) or shape.array:
        return shape
    same = key_type_of(type_) == shape.key_type and is_text_uuid(type_) == shape.as_text
    return shape if same else spelled(shape)


def untranslatable(columns: Iterable[KeyColumn]) -> UntranslatableError:
    """Return the error for a result that would show keys of these columns."""
    names = ", ".join(sorted({column.name for column in columns}))
    return UntranslatableError(f"a result shows keys of {names} inside an expression", ASK_RAW)
