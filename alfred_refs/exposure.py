"""What an expression shows: the key column whose values stand in its result.

A result element of a statement comes in; the `KeyColumn` that its values are keys of, `None` for
plain data, or `UNKNOWN` goes out. What would show keys in a way that cannot be rewritten, such as
a cast to text or a mixture with other data, raises. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from sqlalchemy import (
    BindParameter,
    Boolean,
    Case,
    Cast,
    Column,
    ColumnClause,
    ColumnElement,
    FunctionElement,
    FunctionFilter,
    Label,
    Null,
    Over,
    Table,
    TextClause,
    TypeCoerce,
    UnaryExpression,
    Uuid,
)
from sqlalchemy.orm import Bundle
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ClauseList, Grouping, TableValuedColumn
from sqlalchemy.sql.selectable import FromClause, ScalarSelect
from sqlalchemy.types import NullType

from . import sqla
from .columns import KeyColumn, is_text_uuid, key_type_of
from .errors import UntranslatableError

UNKNOWN: Final = "unknown"
"""The statement does not tell where a value comes from: it may be a key of any type."""

UNTYPED: Final = "untyped"
"""A function of plain data whose type is not known: it may look something up, such as a UUID."""

Shown = KeyColumn | Literal["unknown", "untyped"] | None

ASK_RAW = (
    "select the key column itself, or use session.raw_keys() or "
    "execution_options(raw_keys=True) in trusted code"
)

# Functions whose result is one of these arguments, unchanged; the others only choose.
_EVERY, _FIRST, _FIRST_AND_DEFAULT = slice(None), slice(1), slice(0, None, 2)
_CHOOSING = {
    **dict.fromkeys(("max", "min", "any_value", "coalesce", "greatest", "least"), _EVERY),
    **dict.fromkeys(("first_value", "last_value", "nth_value", "nullif"), _FIRST),
    **dict.fromkeys(("lag", "lead"), _FIRST_AND_DEFAULT),
}


class Exposure:
    """What expressions show, given which columns hold keys.

    Args:
        key_column: tells what keys a column of a table holds.
        given: the parameters that stand for keys, by name.
    """

    def __init__(
        self,
        key_column: Callable[[Column[Any]], KeyColumn | None],
        given: Mapping[str, KeyColumn] | None = None,
    ) -> None:
        self._key_column = key_column
        self._given = given or {}

    def of_any(self, elements: Sequence[Any]) -> Shown:
        """Return what a value shows that comes from one of several expressions.

        Raises:
            UntranslatableError: keys are mixed with other values, or are not shown as they are.
        """
        shown = [self.of(element) for element in elements if not _is_null(element)]
        if UNKNOWN in shown:
            return UNKNOWN
        columns = [column for column in shown if isinstance(column, KeyColumn)]
        if not columns:
            return UNTYPED if UNTYPED in shown else None
        alike = {replace(column, name="") for column in columns}
        if len(alike) > 1 or len(columns) < len(shown):
            raise _untranslatable(columns)
        return columns[0]

    def of(self, element: Any) -> Shown:  # noqa: C901, PLR0911, PLR0912  # one case a construct
        """Return what one expression shows."""
        match element:
            case ColumnClause():
                return self._of_column(element)
            case BindParameter():
                return self._given.get(element.key)
            case ColumnElement(type=Boolean()) | FunctionElement(name="count"):
                return None
            case Cast() | TypeCoerce():
                return self._of_cast(element)
            case Case():
                return self.of_any([*(result for _, result in element.whens), element.else_])
            case FunctionElement(name=str(name)) if name in _CHOOSING:
                return self.of_any(list(element.clauses)[_CHOOSING[name]])
            case UnaryExpression(operator=operators.distinct_op):
                return self.of(element.element)
            case Label() | Grouping() | Over():
                return self.of(element.element)
            case FunctionFilter():
                return self.of(element.func)
            case ScalarSelect():
                return self.of(element.element.selected_columns[0])
            case TableValuedColumn():
                return self._of_whole_row(element.scalar_alias)
            case FromClause() if not isinstance(element, FunctionElement):
                return self._of_whole_row(element)
            case TextClause():
                return UNKNOWN
            case _:
                return self._of_made(element)

    def _of_column(self, element: ColumnClause[Any]) -> Shown:
        """Follow a column through subqueries and aliases to where its values come from."""
        meant = sqla.selected_from_union(element)
        bases = [base for base in meant.base_columns if base is not meant]
        if isinstance(meant, Column) and isinstance(meant.table, Table):
            return self._key_column(meant)
        if not bases:  # literal_column(), a lightweight table()
            return UNKNOWN
        return self.of_any(bases)

    def _of_cast(self, element: Any) -> Shown:
        shown = self.of(element.clause)
        if not isinstance(shown, KeyColumn):
            return shown
        if shown.array or key_type_of(element.type) != shown.key_type:
            raise _untranslatable([shown])
        return replace(shown, as_text=is_text_uuid(element.type))

    def _of_made(self, element: Any) -> Shown:
        """Refuse what is made from keys: only plain data can be computed with."""
        parts = [self.of(part) for part in _parts(element)]
        columns = [column for column in parts if isinstance(column, KeyColumn)]
        if columns:
            raise _untranslatable(columns)
        if UNKNOWN in parts:
            return UNKNOWN
        untyped = isinstance(element, FunctionElement) and isinstance(
            element.type, NullType | Uuid
        )
        return UNTYPED if untyped or UNTYPED in parts else None

    def _of_whole_row(self, table: FromClause) -> Shown:
        """Refuse a row as one value, such as `row_to_json(recipes)` has it, if it has keys."""
        return self._of_made(Bundle("row", *table.c))


def _parts(element: Any) -> Iterable[Any]:
    match element:
        case Bundle():
            return [getattr(c, "__clause_element__", lambda c=c: c)() for c in element.c]
        case ColumnElement() | ClauseList() | FunctionElement():
            return element.get_children()
        case _:
            return ()


def _is_null(element: Any) -> bool:
    return element is None or isinstance(element, Null)


def _untranslatable(columns: Iterable[KeyColumn]) -> UntranslatableError:
    names = ", ".join(sorted({column.name for column in columns}))
    return UntranslatableError(f"a result shows keys of {names} inside an expression", ASK_RAW)
