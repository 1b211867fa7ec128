"""Filters on what is not in the database: the content of a draft.

The same filters that `filters` makes SQL of come in, checked by `grammar`, with a draft's content
as JSON; whether it meets them goes out. They mean the same, null included: a path is an EXISTS
over the children that are nested in the content. Texts are compared by code point, and `ilike` by
Python's letters. What would have to be looked up in the database is refused, and so is what
takes long: no `statement_timeout` ends it here. Pure.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alfred_refs.tools.errors import invalid_filter, invalid_value
from alfred_refs.tools.query.grammar import COMPARISONS, checked
from alfred_refs.tools.query.patterns import Pattern
from alfred_refs.tools.tables.table import ROW_REF, ToolColumn, ToolTable, accepted
from alfred_refs.tools.wire.arguments import AndGroup, Filter, FilterClause, NotGroup, OrGroup

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    **COMPARISONS,
    "contains": lambda has, wanted: all(each in has for each in wanted),
    "ilike": lambda has, wanted: wanted.fits(has),
}
_UNKNOWN_APART = frozenset({"in", "not_in", "is_null", "is_not_null"})  # they decide of null
_MOST_WORK = 500_000  # comparisons of JSON values in one call: about half a second
_VALUES = 10  # of an array, or of a list whose values are looked for together
_LIST = 3  # what it takes to do so


class Work:
    """What a call decides of drafts: how much of it is left, and what was read of them."""

    def __init__(self) -> None:
        self._left = _MOST_WORK
        self._read: dict[tuple[str, str], Any] = {}
        self._wanted: dict[tuple[int, int], Any] = {}

    def spend(self, amount: int, field: str) -> None:
        """Count what is to be done for a filter."""
        self._left -= amount
        if self._left < 0:
            raise invalid_filter(
                field,
                "takes more comparisons in drafts than one call may make",
                "name fewer drafts, or give fewer values or patterns",
            )

    def value(self, record: Record, column: ToolColumn) -> Any:
        """Return what a record has in a column, as it is compared; it is read once."""
        place = record.name, column.name
        if place not in self._read:
            self._read[place] = as_compared(record.value(column))
        return self._read[place]

    def wanted(self, clause: FilterClause, column: ToolColumn) -> Any:
        """Return what a clause compares a column with, as it is compared; it is read once.

        Raises:
            ToolError: the clause cannot be decided of such values.
        """
        place = id(clause), id(column)  # both are there as long as the call is
        if place not in self._wanted:
            wanted = as_compared(checked(clause, column))
            if clause.op == "ilike":
                self.spend(len(wanted), clause.field)
                wanted = Pattern(wanted)
            self._wanted[place] = wanted
        return self._wanted[place]


@dataclass(frozen=True, slots=True)
class Record:
    """What a draft holds, or what is nested in it.

    Attributes:
        table: whose row it is to become.
        content: JSON values by attribute; by relationship, the objects inside, or refs of rows.
        name: what errors call it: the draft's ref, or a path from that.
        ref: the draft's; `None` for what is nested in it.
        saved: what were refs of drafts when it was written -> the refs of their rows.
    """

    table: ToolTable
    content: Mapping[str, Any]
    name: str
    ref: str | None = None
    saved: Mapping[str, str] = field(default_factory=dict)

    def given(self, column: ToolColumn) -> Any:
        """Return what the content has for a column, in JSON, with the refs of rows as they are."""
        if column.name == self.table.own and self.ref is not None:
            return self.ref
        value = self.content.get(column.name)
        if value is None and column.key is not None:
            value = self._related_ref(column.name)
        return self.named(value) if column.key is not None else value

    def value(self, column: ToolColumn) -> Any:
        """Return what a column has.

        Raises:
            ToolError: the content does not fit the column, which was another once.
        """
        given = self.given(column)
        if column.values.family == "opaque":
            return given
        return accepted(column.values.accept, f"{self.name}.{column.name}", given)

    def named(self, refs: Any) -> Any:
        """Return refs, or one, with those of rows in place of what were drafts'."""
        if isinstance(refs, list):
            return [self.named(each) for each in refs]
        return self.saved.get(refs, refs) if isinstance(refs, str) else refs

    def _related_ref(self, name: str) -> str | None:
        """Return the ref that a column will have, where a relationship says what that is."""
        leading = (n for n, columns in self.table.references().items() if columns == [name])
        held = (self.content.get(each) for each in leading)
        return next((each for each in held if isinstance(each, str)), None)

    def related(self, name: str) -> list[Record | str] | None:
        """Return what a relationship leads to, rows by their refs; `None` if nothing says it."""
        if name not in self.content:
            return None if self._refers(name) else []
        held = self.content[name]
        given = held if isinstance(held, list) else [] if held is None else [held]
        path, target = f"{self.name}.{name}", self.table.targets[name]
        if not all(isinstance(each, dict | str) for each in given):
            raise invalid_value(path, "objects: values by column")
        return [
            self.named(each)
            if isinstance(each, str)
            else Record(target, each, f"{path}[{n}]", saved=self.saved)
            for n, each in enumerate(given, start=1)
        ]

    def _refers(self, name: str) -> bool:
        """Tell whether a relationship leads to a row by a reference of this one.

        What is nested has a reference to what it is nested in, though the content does not say so.
        """
        names = self.table.references().get(name, ())
        nothing = None if self.ref is not None else ""
        return any(self.content.get(each, nothing) is not None for each in names)


def matching_records(records: Iterable[Record], filters: Sequence[Filter]) -> list[Record]:
    """Return the records that meet all filters."""
    work = Work()
    # all are looked at: a mistake in the second is told though the first does not hold
    held = [(record, [_holds(each, record, work) for each in filters]) for record in records]
    return [record for record, parts in held if all(parts)]


def _holds(given: Filter, record: Record, work: Work) -> bool | None:
    """Tell whether a filter holds, `None` where SQL would not know."""
    match given:
        case AndGroup():
            return _all([_holds(each, record, work) for each in given.all_of])
        case OrGroup():
            return _not(_all([_not(_holds(each, record, work)) for each in given.any_of]))
        case NotGroup():
            return _not(_holds(given.negated, record, work))
        case FilterClause():
            return _clause(given, given.field.split("."), record, work)


def _all(parts: Sequence[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def _not(part: bool | None) -> bool | None:
    return None if part is None else not part


def _clause(clause: FilterClause, path: Sequence[str], record: Record, work: Work) -> bool | None:
    work.spend(5, clause.field)
    name, *rest = path
    if rest:
        return _related(clause, path, record, work)
    if name == ROW_REF and record.table.own is None:
        return _is_row(clause, record)
    return _compared(clause, record.table.column(name), record, work)


def _compared(clause: FilterClause, column: ToolColumn, record: Record, work: Work) -> bool | None:
    """Tell whether a clause holds of what a record has in a column."""
    wanted, has = work.wanted(clause, column), work.value(record, column)
    if clause.op in ("in", "not_in"):
        work.spend(len(wanted) // _VALUES, clause.field)
    if column.key is not None:
        wanted = record.named(wanted)
    if has is None or wanted is None or clause.op in _UNKNOWN_APART:
        return _compared_with_null(clause, wanted, has)
    if clause.op == "contains" and column.values.family == "json":
        return _Parts(work, clause.field).has_part(has, wanted)
    work.spend(_cost(clause.op, has, wanted), clause.field)
    return _COMPARISONS[clause.op](has, wanted)


def _cost(op: str, has: Any, wanted: Any) -> int:
    """Return how many comparisons of values take as long as a longer one."""
    if op == "contains":
        return int(len(has) * len(wanted)) // _VALUES
    return int(wanted.cost(has)) if op == "ilike" else 0


def _related(clause: FilterClause, path: Sequence[str], record: Record, work: Work) -> bool:
    """Tell whether there is something nested that meets the rest of the path."""
    name, *rest = path
    records = record.related(name)
    nested = [each for each in records or () if isinstance(each, Record)]
    if records is None or len(nested) < len(records):
        raise invalid_filter(
            clause.field,
            f"asks for {name!r}, which is not all part of the draft {record.name!r}",
            "leave it out, or read the draft by its ref alone",
        )
    return True in [_clause(clause, rest, each, work) for each in nested]


def _is_row(clause: FilterClause, record: Record) -> bool:
    """Tell whether a draft whose row is to have several key columns is one of those named."""
    given = clause.value if isinstance(clause.value, list) else [clause.value]
    return (record.ref in given) is (clause.op in ("=", "in"))


def _compared_with_null(clause: FilterClause, wanted: Any, has: Any) -> bool | None:
    """Return what is decided of values that may be null."""
    if clause.op in ("is_null", "is_not_null"):
        return (has is None) is wanted
    if clause.op in ("in", "not_in"):
        found = _is_in(has, wanted)
        return found if clause.op == "in" else _not(found)
    if wanted is None:
        return (has is None) == (clause.op == "=")
    return None


def as_compared(value: Any) -> Any:
    """Return a value as PostgreSQL compares it: times of day are the same in one zone only."""
    if isinstance(value, list):
        return [as_compared(each) for each in value]
    if not isinstance(value, dt.time) or value.tzinfo is None:
        return value
    ahead = value.utcoffset() or dt.timedelta()
    since = dt.timedelta(
        0, 60 * (60 * value.hour + value.minute) + value.second, value.microsecond
    )
    return since - ahead, -ahead


def _is_in(has: Any, values: Sequence[Any]) -> bool | None:
    """Tell whether a value is in a list; null is, where the list has it, and is unknown else."""
    if has is None:
        return True if None in values else None
    return has in values


@dataclass(frozen=True, slots=True)
class _Parts:
    """Tells whether a JSON value contains another, as PostgreSQL's `@>` has it.

    Attributes:
        work: what it costs is counted there.
        field: of the filter.
    """

    work: Work
    field: str

    def has_part(self, document: Any, part: Any) -> bool:
        """Tell whether a document contains another.

        At the top, and there only, a list contains an element that stands for itself.
        """
        if isinstance(document, list) and not isinstance(part, dict | list):
            return self._contains(document, [part])
        return self._contains(document, part)

    def _contains(self, document: Any, part: Any) -> bool:
        """Tell whether a JSON value contains another of its kind."""
        self.work.spend(1, self.field)
        if isinstance(document, dict) and isinstance(part, dict):
            return all(n in document and self._contains(document[n], v) for n, v in part.items())
        if isinstance(document, list) and isinstance(part, list):
            return self._contains_all(document, part)
        return _alone(document) == _alone(part)

    def _contains_all(self, document: Sequence[Any], part: Sequence[Any]) -> bool:
        self.work.spend(_LIST + (len(document) + len(part)) // _VALUES, self.field)
        alone = {_alone(each) for each in document if not _is_nested(each)}
        nested = [each for each in document if _is_nested(each)]
        return all(_alone(each) in alone for each in part if not _is_nested(each)) and all(
            any(self._contains(each, wanted) for each in nested)
            for wanted in part
            if _is_nested(wanted)
        )


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _alone(value: Any) -> tuple[bool, Any]:
    """Return what a value is compared by: to Python true is 1."""
    return isinstance(value, bool), value
