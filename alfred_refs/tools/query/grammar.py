"""What a filter must say to be decided: where its path leads, and what it compares with.

Checked arguments come in; those raise of which one condition cannot be decided of the rows that it
is about. That is told before drafts, refs or rows are looked for, and before hooks are asked, so
that nothing is done on account of a filter that says less than it seems to. `checked` returns what
a column is compared with, of which `filters` makes SQL, and which drafts are compared with. Pure.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Text

from alfred_refs.mapping.column_types import Values, values_of
from alfred_refs.tools.errors import ToolError, invalid_filter, unknown_column
from alfred_refs.tools.tables.table import ROW_REF, ToolColumn, ToolTable, accepted
from alfred_refs.tools.wire.arguments import (
    SEMANTIC,
    Arguments,
    DbCreate,
    DbEditList,
    DbRead,
    Filter,
    FilterClause,
    signed_clauses,
)

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

NULLS = ("is_null", "is_not_null")
"""The operators that need no value."""

_EQUALITIES = ("=", "!=", "neq")  # in which null takes part: it is, or is not, the same
_NAMING = (*_EQUALITIES, "in", "not_in")  # of the ref of a row with several key columns
_TEXT = values_of(Text(), None)


def check_filters(arguments: Arguments, table: ToolTable) -> None:
    """Check every condition of a call on rows of a table."""
    if isinstance(arguments, DbCreate | DbEditList):
        return
    filters: Sequence[Filter] = arguments.filters
    if isinstance(arguments, DbRead):
        # what is searched by meaning is for hooks, and looked at by itself
        plain = (each for each in arguments.filters if not is_semantic(each))
        filters = [*plain, *arguments.or_filters]
    for clause, negated in signed_clauses(filters):
        check_clause(clause, table, negated=negated)


def is_semantic(given: object) -> bool:
    """Tell whether a filter is a search by meaning."""
    return isinstance(given, FilterClause) and given.field == SEMANTIC and given.op == "similar"


def check_clause(clause: FilterClause, table: ToolTable, *, negated: bool) -> None:
    """Check one condition on rows of a table.

    Args:
        clause: the condition.
        table: whose rows it is about.
        negated: whether rows are asked for that are not what it names.
    """
    *path, name = clause.field.split(".")
    for at, each in enumerate(path, start=1):
        table = _target(clause, table, each, path[:at])
    if name == SEMANTIC or clause.op == "similar":
        raise _misplaced(clause)
    if name == ROW_REF and table.own is None:
        _check_row_ref(clause, table)
        return
    column = table.columns.get(name)
    if column is None:
        raise _no_column(clause, table, name)
    checked(clause, column)
    is_ref = column.key is not None and not column.key.array
    # "" is taken for null, which is no row: what is not it would be every row that has a value
    if negated and is_ref and "" in texts_in(clause, empty=True):
        raise invalid_filter(
            clause.field, "says which row it is not by an empty text", "give a ref, or null"
        )


def _target(clause: FilterClause, table: ToolTable, name: str, path: Sequence[str]) -> ToolTable:
    """Return the table that a relationship leads to."""
    target = table.targets.get(name)
    if target is None and name in table.columns:
        raise invalid_filter(
            clause.field,
            f"goes on after {'.'.join(path)!r}, a column, which leads to no other rows",
            "end the path with it",
        )
    if target is None:
        raise unknown_column(table.name, name, table.fields)
    return target


def _no_column(clause: FilterClause, table: ToolTable, name: str) -> ToolError:
    target = table.targets.get(name)
    if target is None:
        return unknown_column(table.name, name, table.fields)
    plain = (each.name for each in target.columns.values() if each.key is None)
    column = next(plain, target.ref_field)
    return invalid_filter(
        clause.field,
        f"leads to rows of {target.name!r} and to none of their columns",
        f"name a column of theirs, such as '{clause.field}.{column}'",
    )


def _misplaced(clause: FilterClause) -> ToolError:
    if clause.op != "similar":
        return invalid_filter(
            clause.field, f"cannot be {clause.op!r}", "use 'similar' with a text"
        )
    if clause.field != SEMANTIC:
        return invalid_filter(
            clause.field,
            "cannot be 'similar'",
            f"use field {SEMANTIC!r}, or 'ilike' on a text column",
        )
    return invalid_filter(
        clause.field,
        "stands inside a group or a path, or in a write, where it cannot be answered",
        "give it once, directly in the filters of db_read",
    )


def _check_row_ref(clause: FilterClause, table: ToolTable) -> None:
    """Check a condition on the ref of a row with several key columns: it names rows, no less."""
    if clause.op not in _NAMING:
        raise invalid_filter(clause.field, f"cannot be {clause.op!r}", "use '=' or 'in'")
    _check_value(clause)
    given = clause.value if clause.op in ("in", "not_in") else [clause.value]
    is_named = isinstance(given, list) and all(isinstance(e, str) and e for e in given)
    if not (given and is_named):
        raise invalid_filter(
            clause.field,
            "names something else than rows",
            f"give the _ref of a row, such as '{table.entity}_1', or a list of them for 'in'",
        )


def checked(clause: FilterClause, column: ToolColumn) -> Any:
    """Return what a clause compares a column with.

    Returns:
        for `is_null` and `is_not_null` whether null is wanted; for `in` and `not_in` a list, with
        `None` in it if null was; for `contains` a list, or a JSON document; for `ilike` a pattern;
        otherwise a value, `None` only for the equalities.

    Raises:
        ToolError: the clause cannot be decided of such values.
    """
    values = column.values
    if clause.op not in values.operators:
        raise invalid_filter(
            clause.field,
            f"cannot be {clause.op!r}: the column has {values.wanted}",
            f"use one of {', '.join(map(repr, values.operators))}",
        )
    if clause.op in NULLS:
        return _is_null_wanted(clause)
    _check_value(clause)
    match clause.op:
        case "in" | "not_in":
            value: Any = _elements(clause, clause.value, values)
        case "contains":
            value = _part(clause, values)
        case "ilike":
            value = _pattern(clause)
        case _:
            value = _one(clause, values)
    if values.family in ("list", "time"):
        # none that its type would change, of which a statement makes it one
        for each in value if isinstance(value, list) and values.item is None else [value]:
            accepted(values.check_room, clause.field, each)
    return value


def texts_in(clause: FilterClause, *, empty: bool = False) -> list[str]:
    """Return the texts that a clause gives, as one value or in a list."""
    given = clause.value if isinstance(clause.value, list) else [clause.value]
    return [each for each in given if isinstance(each, str) and (each or empty)]


def _check_value(clause: FilterClause) -> None:
    """Check that there is something to compare with, be it null."""
    if "value" not in clause.model_fields_set:
        raise invalid_filter(
            clause.field, f"has no value for {clause.op!r}", "give one, or use 'is_null'"
        )


def _is_null_wanted(clause: FilterClause) -> bool:
    if clause.value is not None and not isinstance(clause.value, bool):
        raise invalid_filter(
            clause.field,
            f"has a value beside {clause.op!r}",
            "leave it out, or give true or false",
        )
    return (clause.op == "is_null") == (clause.value is not False)


def _elements(clause: FilterClause, given: Any, values: Values) -> list[Any]:
    if not isinstance(given, list) or not given:
        raise invalid_filter(
            clause.field,
            f"needs a list with at least one value for {clause.op!r}",
            "give the values as a list",
        )
    return [accepted(values.accept, clause.field, each) for each in given]


def _part(clause: FilterClause, values: Values) -> Any:
    """Return what is to be contained: a document, or elements of a list."""
    if values.family == "json":
        if clause.value is None:
            raise invalid_filter(clause.field, "contains nothing", "give a value")
        return clause.value
    given = clause.value if isinstance(clause.value, list) else [clause.value]
    found = _elements(clause, given, cast(Values, values.item))
    if None in found:
        raise invalid_filter(clause.field, "contains null", "give values only")
    return found


def _pattern(clause: FilterClause) -> str:
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


def _one(clause: FilterClause, values: Values) -> Any:
    value = accepted(values.accept, clause.field, clause.value)
    if value is None and clause.op not in _EQUALITIES:
        raise invalid_filter(
            clause.field,
            f"compares by {clause.op!r} with nothing",
            "give a value, or use 'is_null'",
        )
    return value
