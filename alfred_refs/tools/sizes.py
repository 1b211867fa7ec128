"""How large a question may be: more than a model asks is refused before it costs anything.

Checked arguments come in; those that would make a statement of a size which no database answers
in a moment raise. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .arguments import (
    AndGroup,
    Arguments,
    DbCreate,
    DbRead,
    Filter,
    FilterClause,
    NotGroup,
    OrGroup,
)
from .errors import InvalidArgumentsError

MOST_CONDITIONS = 1_000
"""Conditions in all filters of a call, each value in a list counted."""

LONGEST_PATH = 5
"""Names in a path: each is a subquery, or one more statement."""


def check_size(arguments: Arguments) -> None:
    """Check that arguments ask for no more than can be answered.

    Raises:
        InvalidArgumentsError: there are too many filters, or one goes through too many tables.
    """
    if isinstance(arguments, DbCreate):
        return
    clauses = list(_clauses(arguments.filters))
    paths = [clause.field for clause in clauses]
    if isinstance(arguments, DbRead):
        clauses += _clauses(arguments.or_filters)
        paths = [*(clause.field for clause in clauses), *(arguments.columns or ())]
    if sum(map(_size, clauses)) > MOST_CONDITIONS:
        raise InvalidArgumentsError(
            f"the filters have more than {MOST_CONDITIONS:,} conditions and values in all"
        )
    for path in paths:
        if path.count(".") >= LONGEST_PATH:
            raise InvalidArgumentsError(f"a path has more than {LONGEST_PATH} names")


def _clauses(filters: Iterable[Filter]) -> Iterator[FilterClause]:
    for given in filters:
        match given:
            case AndGroup():
                yield from _clauses(given.all_of)
            case OrGroup():
                yield from _clauses(given.any_of)
            case NotGroup():
                yield from _clauses([given.negated])
            case FilterClause():
                yield given


def _size(clause: FilterClause) -> int:
    return 1 + (len(clause.value) if isinstance(clause.value, list) else 0)
