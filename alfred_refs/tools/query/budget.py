"""How much one call may ask for: more is refused before it costs anything.

Checked arguments come in; those that ask for more than a database answers in a moment raise, and
the error says what there was too much of. What hooks add is the application's, and not counted,
unless it stands in arguments that a hook has put in place of the model's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from alfred_refs.mapping.refs import draft_named
from alfred_refs.tools.errors import too_many_rows
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import (
    AndGroup,
    Arguments,
    DbCreate,
    DbRead,
    Filter,
    FilterClause,
    NotGroup,
    OrGroup,
    clauses_of,
)
from alfred_refs.tools.wire.repair import over_budget

from .operands import texts_in


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that a call may have so much of.

    Attributes:
        most: how much.
        what: what it is, in words.
        remedy: how to do with less.
    """

    most: int
    what: str
    remedy: str


CONDITIONS = Kind(
    1_000, "conditions and values in its filters", "ask for less, in several calls if need be"
)
STEPS = Kind(
    32, "steps to related rows in its filters", "filter by columns of the table itself, or first "
    "read the related rows and filter by their refs",
)  # fmt: skip
"""A subquery each: PostgreSQL plans those of one call in a moment as long as they are few."""

PATH = Kind(5, "names in a path", "begin at a table that is nearer")
GROUPS = Kind(10, "groups of filters inside of each other", "nest them less")
RELATED = Kind(16, "relationships in its columns", "read their rows from their own tables")
"""A statement each, and as many related rows as `Limits` says."""

NAMES = Kind(200, "names in its columns", "name each column once, or leave columns out")
ORDER = Kind(16, "columns in its order", "order by the first few")
DRAFTS = Kind(100, "drafts that it names", "do it in several calls")
DECISIONS = Kind(
    20_000, "conditions, counted anew for each draft", "name fewer drafts, or filter less"
)
"""Drafts are compared by Python, one after the other."""


def check_budget(arguments: Arguments, table: ToolTable, most_written: int) -> None:
    """Check that a call asks for no more than can be done in a moment.

    Args:
        arguments: of the call.
        table: that it names.
        most_written: how many rows a call may write.
    """
    if isinstance(arguments, DbCreate):
        rows = [row for each in (arguments, *arguments.also) for row in (*each.rows, *each.drafts)]
        if len(rows) > most_written:
            raise too_many_rows("db_create", most_written)
        return
    filters = arguments.filters
    if isinstance(arguments, DbRead):
        filters = [*filters, *arguments.or_filters]
        _check_shown(arguments, table)
    _check_filters(filters)


def _check_shown(arguments: DbRead, table: ToolTable) -> None:
    columns, order = arguments.columns or [], arguments.order_by or []
    _check(NAMES, len(columns))
    _check(PATH, max((_names(name) for name in columns), default=0))
    _check(RELATED, len(set(_relationships(columns, table))))
    _check(ORDER, 1 if isinstance(order, str) else len(order))


def _check_filters(filters: Sequence[Filter]) -> None:
    clauses = list(clauses_of(filters))
    paths = [_names(clause.field) for clause in clauses]
    conditions = len(clauses) + sum(_values(clause.value) for clause in clauses)
    drafts = {text for clause in clauses for text in texts_in(clause) if draft_named(text)}
    _check(CONDITIONS, conditions)
    _check(PATH, max(paths, default=0))
    _check(STEPS, sum(paths) - len(paths))
    _check(GROUPS, max(map(_depth, filters), default=0))
    _check(DRAFTS, len(drafts))
    _check(DECISIONS, conditions * len(drafts))


def _check(kind: Kind, count: int) -> None:
    if count > kind.most:
        raise over_budget(kind.what, kind.most, kind.remedy)


def _names(path: str) -> int:
    return path.count(".") + 1


def _relationships(columns: Iterable[str], table: ToolTable) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the relationships that are shown."""
    for name in columns:
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
