"""Filters on what is not in the database: the content of a draft.

The same filters that `filters` makes SQL of come in, checked by `grammar`, with a draft's content
as JSON; whether it meets them goes out. They mean the same, null included: a path is an EXISTS
over the children that are nested in the content. Texts are compared by code point, and `ilike` by
Python's letters. What would have to be looked up in the database is refused. Pure.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .arguments import AndGroup, Filter, FilterClause, NotGroup, OrGroup
from .clauses import COMPARISONS, checked
from .errors import InvalidFilterError, InvalidValueError
from .patterns import is_like
from .table import ROW_REF, ToolColumn, ToolTable, accepted

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    **COMPARISONS,
    "contains": lambda has, wanted: all(each in has for each in wanted),
    "ilike": is_like,
}


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
            InvalidValueError: the content does not fit the column, which was another once.
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
            raise InvalidValueError(path, "objects: values by column")
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


def meets(record: Record, filters: Iterable[Filter]) -> bool:
    """Tell whether a record meets all filters.

    Raises:
        ToolError: a filter cannot be decided.
    """
    # all are looked at: a mistake in the second is told though the first does not hold
    held = [_holds(each, record) for each in filters]
    return all(each is True for each in held)


def _holds(given: Filter, record: Record) -> bool | None:
    """Tell whether a filter holds, `None` where SQL would not know."""
    match given:
        case AndGroup():
            return _all([_holds(each, record) for each in given.all_of])
        case OrGroup():
            return _not(_all([_not(_holds(each, record)) for each in given.any_of]))
        case NotGroup():
            return _not(_holds(given.negated, record))
        case FilterClause():
            return _clause(given, given.field.split("."), record)


def _all(parts: Sequence[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def _not(part: bool | None) -> bool | None:
    return None if part is None else not part


def _clause(clause: FilterClause, path: Sequence[str], record: Record) -> bool | None:
    name, *rest = path
    if rest:
        return _related(clause, name, rest, record)
    if name == ROW_REF and record.table.own is None:
        return _is_row(clause, record)
    column = record.table.column(name)
    wanted = checked(clause, column)
    if column.key is not None:
        wanted = record.named(wanted)
    return _compared(clause, as_compared(wanted), as_compared(record.value(column)), column)


def _related(clause: FilterClause, name: str, rest: Sequence[str], record: Record) -> bool:
    """Tell whether there is something nested that meets the rest of the path."""
    records = record.related(name)
    nested = [each for each in records or () if isinstance(each, Record)]
    if records is None or len(nested) < len(records):
        raise InvalidFilterError(
            clause.field,
            f"asks for {name!r}, which is not all part of the draft {record.name!r}",
            "leave it out, or read the draft by its ref alone",
        )
    return True in [_clause(clause, rest, each) for each in nested]


def _is_row(clause: FilterClause, record: Record) -> bool:
    """Tell whether a draft whose row is to have several key columns is one of those named."""
    given = clause.value if isinstance(clause.value, list) else [clause.value]
    return (record.ref in given) is (clause.op in ("=", "in"))


def _compared(clause: FilterClause, wanted: Any, has: Any, column: ToolColumn) -> bool | None:
    if clause.op in ("is_null", "is_not_null"):
        return (has is None) is wanted
    if clause.op in ("in", "not_in"):
        found = _is_in(has, wanted)
        return found if clause.op == "in" else _not(found)
    if wanted is None:
        return (has is None) == (clause.op == "=")
    if has is None:
        return None
    if clause.op == "contains" and column.values.family == "json":
        return _has_part(has, wanted)
    return _COMPARISONS[clause.op](has, wanted)


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


def _has_part(document: Any, part: Any) -> bool:
    """Tell whether a JSON document contains another, as PostgreSQL's `@>` has it.

    At the top, and there only, a list contains an element that stands for itself.
    """
    if isinstance(document, list) and not isinstance(part, dict | list):
        return _contains(document, [part])
    return _contains(document, part)


def _contains(document: Any, part: Any) -> bool:
    """Tell whether a JSON value contains another of its kind."""
    if isinstance(document, dict) and isinstance(part, dict):
        return all(n in document and _contains(document[n], v) for n, v in part.items())
    if isinstance(document, list) and isinstance(part, list):
        return all(any(_contains(each, wanted) for each in document) for wanted in part)
    # to Python true is 1
    return isinstance(document, bool) is isinstance(part, bool) and bool(document == part)
