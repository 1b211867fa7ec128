"""What one call creates, table by table, on its way from arguments to answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alfred_refs.conversation.draft_fields import Record as NewRow
from alfred_refs.errors import SetupError
from alfred_refs.tools.payload.payloads import deduplicated
from alfred_refs.tools.tables.hooks import Writing
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import NewRows

from .errors import invalid_arguments


@dataclass(slots=True)
class Batch:
    """Rows of one table that are made by one call.

    Attributes:
        table: whose rows.
        writing: what hooks are told; its records are the values of the rows.
        rows: what is made, those of drafts first.
        drafts: the refs of the drafts that the first rows are of.
        fixed: whether each row is one that is there in another place: a draft, inside of another
            row, or one with others inside.
        merged: which records became one, as `deduplicated` tells.
    """

    table: ToolTable
    writing: Writing
    rows: list[NewRow]
    drafts: Sequence[str] = ()
    fixed: bool = False
    merged: list[list[int]] = field(default_factory=list)

    def named(self) -> Iterator[tuple[str, NewRow]]:
        """Yield the rows, with what they are called: drafts by their refs."""
        names = [*self.drafts, *map(str, range(1, len(self.rows) + 1 - len(self.drafts)))]
        yield from zip(names, self.rows, strict=True)

    def merge(self, names: Sequence[str]) -> None:
        """Leave out rows that a later one repeats."""
        kept, self.merged = deduplicated([row.values for row in self.rows], names)
        chosen = {id(record): record for record in kept}
        by_values = {id(row.values): row for row in self.rows}
        self.rows = [by_values[each] for each in chosen]
        self.writing.records = kept

    def included(self) -> list[str]:
        """Return the paths of relationships by which rows of no draft have others inside."""
        rows = self.rows[len(self.drafts) :]
        return list(dict.fromkeys(path for row in rows for path in _paths(row, self.table)))

    def take_back(self) -> None:
        """Put what hooks have made of the records into the rows, wherever they have moved them.

        Raises:
            SetupError: they have added records, or taken some out.
        """
        # a record in place of another is of the same row; one that was moved is known by itself
        places = {id(row.values): place for place, row in enumerate(self.rows)}
        records = [(places.get(id(r), at), dict(r)) for at, r in enumerate(self.writing.records)]
        if sorted(place for place, _ in records) != [*range(len(self.rows))]:
            raise SetupError(
                f"a hook of {self.table.model.__qualname__!r} changed how many records there are, "
                "and some are drafts, inside of other rows, or have rows inside",
                "have it change the records, or refuse the call with a ToolError",
            )
        for place, record in records:
            self.rows[place].values.clear()
            self.rows[place].values.update(record)

    def make_anew(self, names: Sequence[str] | None) -> None:
        """Make rows of the records that hooks have left.

        Args:
            names: of the attributes that tell them apart, if those that are the same become one.
        """
        if names is not None:
            self.writing.records, self.merged = deduplicated(self.writing.records, names)
        self.rows = [NewRow(self.table.model, record) for record in self.writing.records]


def _paths(row: NewRow, table: ToolTable) -> Iterator[str]:
    for name, others in row.related.items():
        if others and name in table.included:
            yield name
            for other in others:
                inside = () if isinstance(other, str) else _paths(other, table.targets[name])
                yield from (f"{name}.{path}" for path in inside)


def check_said(given: NewRows, *, drafts: bool) -> None:
    """Check that it is said what is wanted: no schema that all clients take could say that.

    Args:
        given: what is to be created.
        drafts: whether there are drafts.
    """
    if given.data is None and given.from_draft is None:
        raise invalid_arguments("give data, or from_draft" if drafts else "it is missing", "data")
    if isinstance(given.data, list) and given.from_draft is not None:
        raise invalid_arguments("give the changes of a draft as one object", "data")
    if given.data is not None and isinstance(given.from_draft, list):
        raise invalid_arguments("give one draft where data changes it", "from_draft")


def together(
    answers: Sequence[dict[str, Any]], saved: Mapping[str, str], notes: Sequence[str]
) -> dict[str, Any]:
    """Return one answer of those to each table."""
    first, *others = answers
    answer = first | ({"saved": dict(saved)} if saved else {})
    answer |= {"also": others} if others else {}
    notes = [*notes, *first.get("notes", [])]
    return answer | ({"notes": notes} if notes else {})
