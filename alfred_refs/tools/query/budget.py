"""How much one call may ask for: more is refused before it costs anything.

Checked arguments come in; those that ask for more than a database answers in a moment raise, and
the error says what there was too much of. What hooks add is the application's, and not counted,
unless it stands in arguments that a hook has put in place of the model's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from alfred_refs.mapping.refs import draft_named
from alfred_refs.tools.errors import too_many_rows
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import (
    AndGroup,
    Arguments,
    DbCreate,
    DbDelete,
    DbEditList,
    DbRead,
    DbUpdate,
    Filter,
    FilterClause,
    NotGroup,
    OrGroup,
    clauses_of,
)
from alfred_refs.tools.wire.repair import over_budget

from .grammar import texts_in


class Budget(NamedTuple):
    """How much of something a call may have, what that is in words, and how to do with less."""

    what: str
    most: int
    remedy: str


_CONDITIONS = Budget(
    "conditions and values in its filters", 1_000, "ask for less, in several calls if need be"
)
# a subquery each: PostgreSQL plans those of one call in a moment as long as they are few
_STEPS = Budget(
    "steps to related rows in its filters",
    32,
    "filter by columns of the table itself, or first read the related rows and filter by their "
    "refs",
)
_PATH = Budget("names in a path", 5, "begin at a table that is nearer")
_GROUPS = Budget("groups of filters inside of each other", 10, "nest them less")
# a statement each, and as many related rows as `Limits` says
_RELATED = Budget("relationships in its columns", 16, "read their rows from their own tables")
_NAMES = Budget("names in its columns", 200, "name each column once, or leave columns out")
_ORDER = Budget("columns in its order", 16, "order by the first few")
_DRAFTS = Budget("drafts that it names", 100, "do it in several calls")
# drafts are compared by Python, one after the other
_DECISIONS = Budget(
    "conditions, counted anew for each draft", 20_000, "name fewer drafts, or filter less"
)


def check_budget(arguments: Arguments, table: ToolTable, most_written: int) -> None:
    """Check that a call asks for no more than can be done in a moment."""
    if isinstance(arguments, DbCreate):
        rows = [row for each in (arguments, *arguments.also) for row in (*each.rows, *each.drafts)]
        if len(rows) > most_written:
            raise too_many_rows("db_create", most_written)
        return
    if isinstance(arguments, DbEditList):
        if len(arguments.edits) > most_written:
            raise too_many_rows("db_edit_list", most_written)
        return
    for budget, count in _counts(arguments, table):
        if count > budget.most:
            raise over_budget(*budget)


def _counts(
    arguments: DbRead | DbUpdate | DbDelete, table: ToolTable
) -> Iterator[tuple[Budget, int]]:
    """Yield how much a call has of each; nothing is counted after what is too much."""
    filters = arguments.filters
    if isinstance(arguments, DbRead):
        filters = [*filters, *arguments.or_filters]
        yield from _counts_shown(arguments, table)
    yield from _counts_filtered(filters)


def _counts_shown(arguments: DbRead, table: ToolTable) -> Iterator[tuple[Budget, int]]:
    columns, order = arguments.columns or [], arguments.order_by or []
    yield _NAMES, len(columns)
    yield _PATH, max((name.count(".") + 1 for name in columns), default=0)
    yield _RELATED, len({path for name in columns for path in _relationships(name, table)})
    yield _ORDER, 1 if isinstance(order, str) else len(order)


def _counts_filtered(filters: Sequence[Filter]) -> Iterator[tuple[Budget, int]]:
    clauses = list(clauses_of(filters))
    steps = [clause.field.count(".") for clause in clauses]
    conditions = len(clauses) + sum(_values(clause.value) for clause in clauses)
    drafts = {text for clause in clauses for text in texts_in(clause) if draft_named(text)}
    yield _CONDITIONS, conditions
    yield _PATH, max(steps, default=-1) + 1
    yield _STEPS, sum(steps)
    yield _GROUPS, max(map(_depth, filters), default=0)
    yield _DRAFTS, len(drafts)
    yield _DECISIONS, conditions * len(drafts)


def _relationships(name: str, table: ToolTable) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the relationships that are shown by a name in the columns."""
    path = name.split(".")
    target: ToolTable | None = table
    for n, each in enumerate(path, start=1):
        target = None if target is None else target.targets.get(each)
        if target is not None:
            yield tuple(path[:n])


def _values(value: Any) -> int:
    """Return how many values are in a list or a document, at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(1 + _values(each) for each in value) if isinstance(value, list) else 0


def _depth(given: Filter) -> int:
    match given:
        case AndGroup(all_of=filters) | OrGroup(any_of=filters):
            return 1 + max(map(_depth, filters))
        case NotGroup():
            return 1 + _depth(given.negated)
        case FilterClause():
            return 0
