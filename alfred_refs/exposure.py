"""What an expression shows: the key columns whose values can stand in its result.

A result element of a statement comes in; the one `KeyColumn` that its values are keys of, `None`
for plain data, or `UNKNOWN` goes out. What would show keys in a way that cannot be rewritten, such
as a cast to text, raises. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from sqlalchemy import (
    BindParameter,
    Boolean,
    Case,
    Column,
    ColumnClause,
    ColumnElement,
    FunctionElement,
    Label,
    Over,
    Table,
)
from sqlalchemy.orm import Bundle
from sqlalchemy.sql.elements import ClauseList, Grouping
from sqlalchemy.sql.selectable import ScalarSelect

from .entities import Entities, KeyColumn, key_type_of
from .errors import UntranslatableError

UNKNOWN: Final = "unknown"
"""The statement does not tell where a value comes from."""

Shown = KeyColumn | Literal["unknown"]

ASK_RAW = (
    "select the key column itself, or use session.raw_keys() or "
    "execution_options(raw_keys=True) in trusted code"
)

# Functions whose result is one of their arguments, unchanged.
_CHOOSING = {
    *("max", "min", "coalesce", "any_value", "nullif", "greatest", "least"),
    *("first_value", "last_value", "nth_value", "lag", "lead"),
}


def key_column_of(elements: Iterable[Any], entities: Entities) -> Shown | None:
    """Return what keys stand at one position of the rows.

    Args:
        elements: the expression there; of a union, one for each of its selects.
        entities: which columns hold keys.

    Raises:
        UntranslatableError: the keys are of several entities, or are not shown as they are.
    """
    elements = list(elements)
    exposed = set().union(*(_exposed(element, entities) for element in elements))
    if not exposed:
        return None
    if UNKNOWN in exposed:
        return UNKNOWN
    columns = sorted((c for c in exposed if isinstance(c, KeyColumn)), key=lambda c: c.name)
    alike = {(c.entity, c.key_type, c.as_text, c.array) for c in columns}
    if len(alike) > 1 or not all(_is_plain(element, columns[0]) for element in elements):
        names = ", ".join(column.name for column in columns)
        raise UntranslatableError(f"a result shows keys of {names} inside an expression", ASK_RAW)
    return columns[0]


def _exposed(element: Any, entities: Entities) -> set[Shown]:
    if isinstance(element, Bundle):
        parts: Iterable[Any] = [column.__clause_element__() for column in element.c]
    elif isinstance(element, ColumnClause):
        return _exposed_by_column(element, entities)
    else:
        parts = _parts(element)
    return set().union(*(_exposed(part, entities) for part in parts))


def _parts(element: Any) -> Iterable[Any]:
    """Return the parts that an expression's value is made of: not a condition, not a count."""
    match element:
        case BindParameter() | ColumnElement(type=Boolean()) | FunctionElement(name="count"):
            return ()
        case Case():
            return [result for _, result in element.whens] + [element.else_]
        case Over():
            return [element.element]
        case ScalarSelect():
            return [element.element.selected_columns[0]]
        case ColumnElement() | ClauseList() | FunctionElement():
            return element.get_children()
        case _:
            return ()


def _exposed_by_column(element: ColumnClause[Any], entities: Entities) -> set[Shown]:
    exposed: set[Shown] = set()
    for base in element.base_columns:
        if isinstance(base, Column) and isinstance(base.table, Table):
            column = entities.of_column(base)
            exposed |= set() if column is None else {column}
        elif isinstance(base, ColumnClause):  # literal_column(), lightweight table() and the like
            exposed.add(UNKNOWN)
        else:
            exposed |= _exposed(base, entities)
    return exposed


def _is_plain(element: Any, column: KeyColumn) -> bool:
    """Tell whether an expression's values are keys just as the column has them."""
    match element:
        case Label() | Grouping():
            return _is_plain(element.element, column)
        case ColumnClause():
            return all(isinstance(b, Column) or _is_plain(b, column) for b in element.base_columns)
        case ColumnElement() | FunctionElement() if not column.array:
            same_type = key_type_of(element.type) == column.key_type
            return same_type and (column.key_type == "uuid" or _chooses(element, column))
        case _:
            return False


def _chooses(element: Any, column: KeyColumn) -> bool:
    """Tell whether a value is one of those in the column: an integer may be computed from them."""
    match element:
        case Over():
            return _chooses(element.element, column)
        case ScalarSelect():
            return _is_plain(element.element.selected_columns[0], column)
        case Case():
            return True
        case FunctionElement():
            return getattr(element, "name", "") in _CHOOSING
        case _:
            return False
