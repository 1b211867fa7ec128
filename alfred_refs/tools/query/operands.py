"""What one clause of a filter compares a column with, checked and as the column has it.

A clause and its column come in; a Python value goes out, which `filters` makes SQL of and
`matching` compares. A clause that cannot be decided of such a column is refused. Pure.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, cast

from sqlalchemy import Text

from alfred_refs.mapping.column_types import Values, values_of
from alfred_refs.tools.errors import invalid_filter
from alfred_refs.tools.tables.table import ToolColumn, accepted
from alfred_refs.tools.wire.arguments import FilterClause

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "neq": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
"""What a model writes -> what Python calls it, of values and of SQL's expressions alike."""

EQUALITIES = ("=", "!=", "neq")
"""The comparisons that null takes part in: it is, or is not, the same."""


_TEXT = values_of(Text(), None)

NULLS = ("is_null", "is_not_null")
"""The operators that need no value."""


def checked(clause: FilterClause, column: ToolColumn) -> Any:
    """Return what a clause compares a column with.

    Returns:
        for `is_null` and `is_not_null` whether null is wanted; for `in` and `not_in` a list, with
        `None` in it if null was; for `contains` a list, or a JSON document; for `ilike` a pattern;
        otherwise a value, `None` only for the equalities.

    Raises:
        ToolError: the clause cannot be decided of such values.
    """
    if clause.op not in column.values.operators:
        usable = ", ".join(map(repr, column.values.operators))
        raise invalid_filter(
            clause.field,
            f"cannot be {clause.op!r}: the column has {column.values.wanted}",
            f"use one of {usable}",
        )
    check_value(clause)
    value = _CHECKS.get(clause.op, _value)(clause, column)
    if column.values.family in ("list", "time") and clause.op not in NULLS:
        _check_room(clause, value, column.values)
    return value


def _check_room(clause: FilterClause, value: Any, values: Values) -> None:
    """Check that a value is none that its type would change, of which a statement makes it one."""
    for each in value if isinstance(value, list) and values.item is None else [value]:
        accepted(values.check_room, clause.field, each)


def check_value(clause: FilterClause) -> None:
    """Check that there is something to compare with, be it null, where an operator needs it."""
    if clause.op not in NULLS and "value" not in clause.model_fields_set:
        raise invalid_filter(
            clause.field, f"has no value for {clause.op!r}", "give one, or use 'is_null'"
        )


def texts_in(clause: FilterClause, *, empty: bool = False) -> list[str]:
    """Return the texts that a clause gives, as one value or in a list."""
    given = clause.value if isinstance(clause.value, list) else [clause.value]
    return [each for each in given if isinstance(each, str) and (each or empty)]


def _null(clause: FilterClause, _: ToolColumn) -> bool:
    if clause.value is not None and not isinstance(clause.value, bool):
        raise invalid_filter(
            clause.field,
            f"has a value beside {clause.op!r}",
            "leave it out, or give true or false",
        )
    return (clause.op == "is_null") == (clause.value is not False)


def _values(clause: FilterClause, column: ToolColumn) -> list[Any]:
    return _elements(clause, clause.value, column.values)


def _elements(clause: FilterClause, given: Any, values: Values) -> list[Any]:
    if not isinstance(given, list) or not given:
        raise invalid_filter(
            clause.field,
            f"needs a list with at least one value for {clause.op!r}",
            "give the values as a list",
        )
    return [accepted(values.accept, clause.field, each) for each in given]


def _part(clause: FilterClause, column: ToolColumn) -> Any:
    """Return what is to be contained: a document, or elements of a list."""
    if column.values.family == "json":
        if clause.value is None:
            raise invalid_filter(clause.field, "contains nothing", "give a value")
        return clause.value
    given = clause.value if isinstance(clause.value, list) else [clause.value]
    values = _elements(clause, given, cast(Values, column.values.item))
    if None in values:
        raise invalid_filter(clause.field, "contains null", "give values only")
    return values


def _pattern(clause: FilterClause, _: ToolColumn) -> str:
    # as it is: a column may pad its own
    pattern: str | None = accepted(_TEXT.accept, clause.field, clause.value)
    if pattern is None:
        raise invalid_filter(clause.field, "has no pattern", "give one: '%' is any text")
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise invalid_filter(
            clause.field,
            "has a pattern that ends in one backslash",
            "write two for a backslash itself",
        )
    return pattern


def _value(clause: FilterClause, column: ToolColumn) -> Any:
    value = accepted(column.values.accept, clause.field, clause.value)
    if value is None and clause.op not in EQUALITIES:
        raise invalid_filter(
            clause.field,
            f"compares by {clause.op!r} with nothing",
            "give a value, or use 'is_null'",
        )
    return value


# an operator -> what checks its value; all others compare with one
_CHECKS: dict[str, Callable[[FilterClause, ToolColumn], Any]] = {
    "is_null": _null,
    "is_not_null": _null,
    "in": _values,
    "not_in": _values,
    "contains": _part,
    "ilike": _pattern,
}
