"""Make, change and discard drafts for a model: what it wants in, what was done out.

Drafts that are to be changed are found by the filters that a read has; then the registry is told,
once for all of them. No table is touched, and so no hook for writes is asked. What is changed is
checked as it is for rows, and kept as the model gave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, true

from alfred_refs import sqla
from alfred_refs.conversation.draft_fields import check_draftable, class_of
from alfred_refs.conversation.entries import Draft
from alfred_refs.errors import SetupError
from alfred_refs.mapping.labels import clean
from alfred_refs.tools.answers.results import Room, shape_of
from alfred_refs.tools.batches import together
from alfred_refs.tools.call import Call
from alfred_refs.tools.errors import (
    invalid_arguments,
    invalid_content,
    mixed_drafts,
    too_many_rows,
    unexpected_row,
)
from alfred_refs.tools.payload.expected import values_otherwise
from alfred_refs.tools.payload.payloads import draft_changes, new_contents, table_said
from alfred_refs.tools.query.filters import Conditions, refs_of
from alfred_refs.tools.tables.permits import Verb
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import DbDelete, DbUpdate, NewRows

from .matching import Record, matching_records
from .rows import DraftRows, draft_records

_NOTHING = "no draft matches the filters; nothing was changed"


class DraftMaker:
    """Keeps new rows as drafts for one call: all of them or none."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, given: Sequence[tuple[NewRows, ToolTable]]) -> dict[str, Any]:
        """Keep rows of some tables as drafts, and return them as they are then."""
        conversation, new = self._call.conversation, list[tuple[ToolTable, dict[str, Any]]]()
        for each, table in given:
            if each.from_draft is not None:
                raise invalid_arguments(
                    "it names drafts, and 'draft' keeps new rows as drafts",
                    "from_draft",
                    "give one of the two",
                )
            self._check(table)
            new += [(table, content) for content in new_contents(table, each.rows)]
        kept = iter(conversation.draft_all((table.model, content) for table, content in new))
        room = self._call.room()
        answers = [
            shown(self._call, table, [next(kept) for _ in each.rows], room)
            for each, table in given
        ]
        return together(answers, {}, [])

    def _check(self, table: ToolTable) -> None:
        try:
            check_draftable(table.model, self._call.conversation.entities)
        except SetupError:
            raise invalid_content(
                f"rows of {table.name!r} cannot be drafts of their own",
                "give them inside of what they belong to, or create them without 'draft'",
            ) from None


def shown(
    call: Call, table: ToolTable, drafts: Sequence[Draft], room: Room, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the answer of a write: drafts of a table as they are then."""
    found = draft_records(call, drafts, table)
    rendering = call.rendering([], shape := shape_of(table, None))
    rows = DraftRows(call, rendering, found.labels, whole=True)
    told = room.fill(
        found.records,
        lambda record: rows.row(record, shape),
        lambda record: {table.ref_field: record.ref},
        (rows.shown, rendering.cut),
    )
    answer = {"table": table.name, "rows": told, "count": len(told)}
    return call.finished(answer, notes, rendering, rows.foreign())


class DraftWriter:
    """Writes drafts for one call.

    Args:
        table: of whose rows the drafts are.
        named: the pending drafts that its filters name as rows of the table, by their refs.
    """

    def __init__(self, call: Call, table: ToolTable, named: Mapping[str, Draft]) -> None:
        self._call = call
        self._table = table
        self._named = named

    def update(self, arguments: DbUpdate) -> dict[str, Any]:
        """Change drafts, and return them as they are then."""
        hit = self._hit("db_update", arguments)
        check_own(self._call, self._table, hit, "update")
        if not hit:
            draft_changes(self._table, arguments.data)  # which is refused though nothing is done
        contents = {
            draft.ref: changed_content(draft, arguments.data, self._table) for draft in hit
        }
        versions = {draft.ref: draft.version for draft in hit}
        kept = self._call.conversation.edit_drafts(contents, versions=versions)
        return shown(self._call, self._table, kept, self._call.room(), [] if hit else [_NOTHING])

    def delete(self, arguments: DbDelete) -> dict[str, Any]:
        """Discard drafts, and return their refs."""
        hit = self._hit("db_delete", arguments)
        check_own(self._call, self._table, hit, "delete")
        refs = [draft.ref for draft in hit]
        self._call.conversation.discard_drafts(refs)
        answer = {"table": self._table.name, "deleted": refs, "count": len(refs)}
        return self._call.finished(answer, [] if refs else [_NOTHING])

    def _hit(self, tool: str, arguments: DbUpdate | DbDelete) -> list[Draft]:
        """Return the drafts that meet all filters, once they are what the model expects.

        Raises:
            ToolError: a row may meet them too, or they cannot be decided of drafts.
        """
        table, filters = self._table, arguments.filters
        keys = self._call.resolved(refs_of(filters, table, self._named))
        conditions = Conditions(keys, self._named).all_of(filters, table)
        if not sqla.is_false(and_(true(), *conditions)):
            raise mixed_drafts(tool, list(self._named))
        records = draft_records(self._call, self._named.values(), table, filters).records
        hit = matching_records(records, filters)
        most = self._call.setting.max_written
        if len(hit) > most:
            raise too_many_rows(tool, most)
        for record in hit:
            for column, expected, actual in self._differences(record, arguments.expect):
                raise unexpected_row(record.name, column, actual, expected)
        return [self._named[record.name] for record in hit]

    def _differences(
        self, record: Record, expect: str | dict[str, Any] | None
    ) -> Iterator[tuple[str, Any, Any]]:
        if isinstance(expect, dict):
            yield from values_otherwise(self._table, expect, record.value)
        elif expect is not None:
            label = self._named[record.name].label
            if label is None and self._table.keys.label is None:
                raise invalid_arguments(
                    f"{record.name!r} has no label: give values by column", "expect"
                )
            if label not in (expect, clean(expect)):  # kept without keys
                yield "label", expect, label


def check_own(call: Call, table: ToolTable, drafts: Iterable[Draft], verb: Verb) -> None:
    """Check that a model may do something to rows of the classes that drafts are of.

    Raises:
        ToolError: it may not, though to those of a class that one inherits from.
    """
    for draft in drafts:
        own = call.setting.tables.of_model(class_of(table.model, draft.content))
        if own is not None:
            own.check(verb)


def changed_content(draft: Draft, data: Mapping[str, Any], table: ToolTable) -> dict[str, Any]:
    """Return a draft's content with what a model changes in it, by the class that it is of then.

    Raises:
        ToolError: it is nothing that could be saved.
        DraftContentError: it is of a class that a model may not use.
    """
    table_said(
        table, draft.content, stored=True
    )  # what it was is not got round by what it is to be
    whole = {**draft.content, **data}
    said = table_said(table, whole)
    changes = draft_changes(said, data, whole=whole_draft(draft, whole, said))
    return _with_changes(draft.content, changes, said)


def whole_draft(draft: Draft, content: Mapping[str, Any], table: ToolTable) -> dict[str, Any]:
    """Return what a draft holds, and its ref as its key."""
    return {**content, str(table.own): draft.ref}


def _with_changes(
    content: Mapping[str, Any], changes: Mapping[str, Any], table: ToolTable
) -> dict[str, Any]:
    """Return content with changes; a reference is said once, in a column or a relationship."""
    outdated = set[str]()
    for name, columns in table.references().items():
        if name in changes:
            outdated |= {*columns} - changes.keys()
        elif changes.keys() & columns:
            outdated.add(name)
    return {**{n: value for n, value in content.items() if n not in outdated}, **changes}
