"""What kind of thing an expression is, beyond what its class says. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    JSON,
    BindParameter,
    Boolean,
    Cast,
    ColumnClause,
    ColumnElement,
    FunctionElement,
    Null,
    Table,
    TextClause,
    TypeCoerce,
)
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ClauseList

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


def unaliased(table: Any) -> Any:
    """Return what an alias stands for."""
    while not isinstance(table, Table) and hasattr(table, "element"):
        table = table.element
    return table


def is_declared_boolean(element: Any) -> bool:
    """Tell what is called true or false by the type of its operands, from a condition."""
    operator = element.operator
    makes = operator in _MAKING or isinstance(operator, operators.custom_op)
    return makes and isinstance(element.type, Boolean)


def is_json(element: Any) -> bool:
    """Tell whether an expression has a JSON type."""
    return isinstance(element.type, JSON)


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
            return not list(getattr(element, "clauses", ()))
        case _:
            return False


def parts_of(element: Any) -> Iterable[Any]:
    """Return what an expression is made from."""
    is_made = isinstance(element, ColumnElement | ClauseList | FunctionElement)
    return element.get_children() if is_made else ()


def is_null(element: Any) -> bool:
    """Tell whether an expression is NULL, or left out."""
    return element is None or isinstance(element, Null)
