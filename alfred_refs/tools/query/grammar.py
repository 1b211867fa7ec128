"""What a filter must say to be decided: where its path leads, and what it compares with.

Checked arguments come in; those raise of which one condition cannot be decided of the rows that it
is about. That is told before drafts, refs or rows are looked for, and before hooks are asked, so
that nothing is done on account of a filter that says less than it seems to. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from alfred_refs.tools.errors import ToolError, invalid_filter, unknown_column
from alfred_refs.tools.tables.table import ROW_REF, ToolTable
from alfred_refs.tools.wire.arguments import (
    SEMANTIC,
    Arguments,
    DbCreate,
    DbRead,
    Filter,
    FilterClause,
    signed_clauses,
)

from .operands import check_value, checked, texts_in

_NAMING = ("=", "!=", "neq", "in", "not_in")
"""What may be asked of the ref of a row with several key columns."""


def check_filters(arguments: Arguments, table: ToolTable) -> None:
    """Check every condition of a call on rows of a table."""
    if isinstance(arguments, DbCreate):
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


def _no_column(clause: FilterClause, table: ToolTable, name: str) -> Exception:
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
    check_value(clause)
    given = clause.value if clause.op in ("in", "not_in") else [clause.value]
    is_named = isinstance(given, list) and all(isinstance(e, str) and e for e in given)
    if not (given and is_named):
        raise invalid_filter(
            clause.field,
            "names something else than rows",
            f"give the _ref of a row, such as '{table.entity}_1', or a list of them for 'in'",
        )
