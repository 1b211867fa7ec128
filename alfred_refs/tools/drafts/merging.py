"""Rows and drafts in one order, which is that of the database.

What a statement has put in order comes in with drafts that are in no statement, and the columns of
the order; all of them go out. Numbers, times and booleans are compared here. How text and choices
are ordered is a matter of collations: their ranks are asked for. Pure but for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alfred_refs.tools.tables.table import ToolColumn

from .matching import Record, as_compared

Ranks = Callable[[ToolColumn, Sequence[Any]], Sequence[Any]]
"""Tells which places different values of a column have in its order."""


def in_order(
    entries: Sequence[Any], columns: Mapping[ToolColumn, bool], ranks: Ranks
) -> list[Any]:
    """Return rows and drafts in order; those without value come last, equal ones as they came.

    Args:
        entries: instances, and records of drafts.
        columns: the first of the order -> whether the greatest of it comes first.
        ranks: asks for places in the order of a column; not called for less than two values.

    Raises:
        ToolError: what a draft has does not fit its column.
    """
    found = list(entries)
    # sorting keeps what is equal as it is: the last column first
    for column, descending in reversed([*columns.items()]):
        values = [
            each.value(column) if isinstance(each, Record) else getattr(each, column.name)
            for each in found
        ]
        there = [n for n, value in enumerate(values) if value is not None]
        keys = dict(zip(there, _keys(column, [values[n] for n in there], ranks), strict=True))
        there.sort(key=keys.__getitem__, reverse=descending)
        places = [*there, *(n for n, value in enumerate(values) if value is None)]
        found = [found[n] for n in places]
    return found


def _keys(column: ToolColumn, values: Sequence[Any], ranks: Ranks) -> list[Any]:
    """Return what values are sorted by."""
    if column.values.family in ("text", "choice"):
        different = list(dict.fromkeys(values))
        known = ranks(column, different) if len(different) > 1 else [0 for _ in different]
        places = dict(zip(different, known, strict=True))
        return [places[value] for value in values]
    # not a number is greater than any, to PostgreSQL
    keys = map(as_compared, values)
    return [(True, 0) if key != key else (False, key) for key in keys]  # noqa: PLR0124
