"""Drafts among the rows of an answer: what was generated, and is read though it is not saved.

Drafts of a conversation come in; records, of which filters are decided, and rows for the model go
out. A row of a draft has what its content has, and null where that says nothing; what is nested in
the content is shown inside. Refs of drafts that are saved by now are shown as those of their rows.
Content is a model's own text, or the application's: it is looked through for keys as rows are.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from alfred_refs.conversation.draft_fields import class_of
from alfred_refs.conversation.entries import Draft
from alfred_refs.errors import BadRefError
from alfred_refs.mapping.guard import HIDDEN
from alfred_refs.mapping.keys import spells_uuid
from alfred_refs.mapping.refs import draft_named, parse_ref
from alfred_refs.tools.answers.label_lookup import Foreign, bounded, key_in, places_of, referring
from alfred_refs.tools.answers.results import Rendering, Shape, shape_of, without_depth
from alfred_refs.tools.call import Call
from alfred_refs.tools.errors import invalid_content
from alfred_refs.tools.query.grammar import texts_in
from alfred_refs.tools.tables.hooks import Row
from alfred_refs.tools.tables.table import ROW_REF, ToolColumn, ToolTable
from alfred_refs.tools.tables.tables import ToolTables
from alfred_refs.tools.wire.arguments import Filter, clauses_of
from alfred_refs.tools.wire.documents import mapped
from alfred_refs.tools.wire.texts import key_number

from .matching import Record

STATE = "_draft"
"""The field of a row that tells that it is a draft, and which state that is in."""

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class DraftRecords:
    """Drafts that a call is about.

    Attributes:
        records: what they hold, in the order of their numbers.
        labels: of other drafts that they refer to, by ref.
    """

    records: Sequence[Record] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


def draft_records(
    call: Call, drafts: Iterable[Draft], table: ToolTable, filters: Iterable[Filter] = ()
) -> DraftRecords:
    """Return pending drafts as a call needs them: at most one round trip for all they refer to.

    Args:
        call: that is about them.
        drafts: of the entity of a table.
        table: the table; drafts of other classes of the entity are left out, as their rows are.
        filters: whose refs are to be compared with theirs.
    """
    of_table = (draft for draft in drafts if is_of(table, draft))
    listed = sorted(of_table, key=lambda draft: number_of(draft.ref))
    known = {draft.ref: draft for draft in listed}
    others = (each for each in clauses_of(filters) if each.field != table.ref_field)
    texts = [text for clause in others for text in texts_in(clause)]
    texts += (text for draft in listed for text in _refs_in(table, draft.content))
    more = [text for text in dict.fromkeys(texts) if draft_named(text) and text not in known]
    known |= _usable(call.conversation.read_drafts, more, lambda text: text)
    saved = {text: draft.saved for text, draft in known.items() if draft.saved is not None}
    records = [Record(table, each.content, each.ref, each.ref, saved) for each in listed]
    labels = {text: draft.label for text, draft in known.items() if draft.label is not None}
    return DraftRecords(records, labels)


def check_of(table: ToolTable, drafts: Iterable[Draft], tables: ToolTables) -> None:
    """Check that drafts of an entity become rows of a table: each is saved as what it is."""
    for draft in drafts:
        if not is_of(table, draft):
            own = tables.of_model(class_of(table.model, draft.content))
            raise invalid_content(
                f"{draft.ref!r} is no draft of a row of {table.name!r}; nothing was changed",
                "leave it as it is" if own is None else f"save it as a row of {own.name!r}",
            )


def is_of(table: ToolTable, draft: Draft) -> bool:
    """Tell whether a draft becomes a row of a table, and not of another class of its entity."""
    return issubclass(class_of(table.model, draft.content), table.model)


def number_of(ref: str) -> int:
    """Return the number of a ref."""
    parsed = parse_ref(ref)
    return 0 if parsed is None else parsed.number


def _refs_in(table: ToolTable, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that stand where refs do, in what is nested too."""
    for name, value in content.items():
        column, target = table.columns.get(name), table.targets.get(name)
        values = value if isinstance(value, list) else [value]
        if target is not None or (column is not None and column.key is not None):
            yield from (each for each in values if isinstance(each, str))
        if target is not None:
            for each in values:
                yield from _refs_in(target, each) if isinstance(each, dict) else ()


class DraftRows:
    """The rows of drafts in one answer.

    Args:
        rendering: of the rows in the same answer: they are limited together.
        labels: of other drafts that these refer to, by ref.
        whole: whether all is shown that is nested in the content, and not only what is named.
    """

    def __init__(
        self, call: Call, rendering: Rendering, labels: Mapping[str, str], *, whole: bool
    ) -> None:
        self._call = call
        self._rendering = rendering
        self._labels = labels
        self._whole = whole
        self.shown: list[tuple[Row, Shape]] = []

    def row(self, record: Record, shape: Shape) -> Row:
        """Return the row of a draft, or of what is nested in one."""
        row: Row = {} if shape.table.own is not None else {ROW_REF: record.ref}
        for column in shape.columns:
            row[column.name] = self._value(record, column)
        if record.ref is not None:
            row[STATE] = "pending"
        self.shown.append((row, shape))
        for name, child in self._children(record, shape).items():
            related = record.related(name)
            if related is not None:  # else it is a row, and not for a draft to show
                row[name] = self._related(record, name, related, child)
        return row

    def _value(self, record: Record, column: ToolColumn) -> Any:
        value = record.given(column)
        if column.key is not None:
            return self._refs(value)
        where = f"{record.name}.{column.name}"
        value = without_depth(value, where, self._rendering.cut)
        value = mapped(value, column.places, key_number) if column.places else value
        return self._rendering.fitting(value, column, where)

    def _refs(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._refs(each) for each in value]
        if isinstance(value, str):
            return uuid.UUID(value) if spells_uuid(value) else value or None
        return None if value is None else HIDDEN

    def _children(self, record: Record, shape: Shape) -> Mapping[str, Shape]:
        if not self._whole:
            return shape.children
        targets = shape.table.targets
        nested = (name for name in targets if name in record.content)
        return {**{name: shape_of(targets[name], None) for name in nested}, **shape.children}

    def _related(
        self, record: Record, name: str, related: Sequence[Record | str], shape: Shape
    ) -> Row | str | list[Row | str] | None:
        rendering, rows = self._rendering, list[Row | str]()
        for each in related[: rendering.limits.rows]:
            if rendering.related >= rendering.limits.related:
                break
            rendering.related += 1
            rows.append(self._refs(each) if isinstance(each, str) else self.row(each, shape))
        if not record.table.relationship(name).uselist:
            return next(iter(rows), None)
        if len(rows) < len(related):
            more = len(related) - len(rows)
            rendering.cut.append(f"{record.name}.{name}: {more} more rows")
        return rows

    def foreign(self) -> list[Foreign]:
        """Return what these rows refer to: at most one round trip, but for what is gone."""
        if self._call.setting.labels == "none":
            return []
        every = (each for entry in self.shown for each in self._foreign(*entry))
        found = list(bounded(every, self._rendering.limits.related))
        wanted = {(each.ref, each.target.entity) for each in found}
        rows = sorted(each for each in wanted if parse_ref(each[0]) and not draft_named(each[0]))
        keys = _usable(self._call.conversation.resolve_wanted, rows, lambda pair: pair[0])
        foreign = []
        for each in found:
            label, key = self._labels.get(each.ref), keys.get((each.ref, each.target.entity))
            if label is not None:
                foreign.append(replace(each, label=label))
            elif key is not None:
                foreign.append(replace(each, key=key_in(each.target, key)))
        return foreign

    def _foreign(self, row: Row, shape: Shape) -> Iterator[Foreign]:
        for column, _, target in referring(shape, self._call.setting.tables):
            shown = row[column.name]
            if isinstance(shown, str):
                yield Foreign(row, column.name, target)
            for place in places_of(shown) if isinstance(shown, list) else ():
                yield Foreign(row, column.name, target, place=place)


def _usable(
    ask: Callable[[list[P]], Sequence[T]], wanted: Sequence[P], text_of: Callable[[P], str]
) -> dict[P, T]:
    """Return what is asked for of refs, without those that cannot be used any more."""
    rest = list(wanted)
    while rest:
        try:
            return dict(zip(rest, ask(rest), strict=True))
        except BadRefError as error:
            usable = [each for each in rest if text_of(each) != error.ref]
            if len(usable) == len(rest):
                raise
            rest = usable
    return {}
