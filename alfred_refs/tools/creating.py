"""Create rows for a model, and save its drafts as rows: all that one call wants, or nothing.

New rows and the refs of drafts come in, of one table or of several; the rows go out as the
database has them then. A draft is saved once: a call whose drafts are saved already was done
before, and is answered with the rows that they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from alfred_refs.draft_fields import Record as NewRow, record_of
from alfred_refs.drafts import Builder
from alfred_refs.entries import Draft
from alfred_refs.errors import SavedDraftError
from alfred_refs.making import instance_of

from .arguments import DbCreate, NewRows
from .draft_writing import with_changes
from .errors import InvalidArgumentsError, TooManyRowsError
from .hooks import Writing
from .payloads import (
    check_complete,
    deduplicated,
    draft_changes,
    new_records,
    refs_of_records,
)
from .results import shape_of
from .tables import ToolTable
from .writing import Writer

_DONE = "{} saved before: nothing was created now; to add more rows, name {} in another call"


@dataclass(slots=True)
class Batch:
    """What one call makes of one table.

    Attributes:
        table: whose rows.
        writing: what hooks are told; its records are values of the new rows, those of drafts
            first.
        drafts: with what each draft's row is to be, by its ref.
        merged: which records became one, as `deduplicated` tells.
        instances: the new rows.
    """

    table: ToolTable
    writing: Writing
    drafts: Mapping[str, NewRow]
    merged: list[list[int]] = field(default_factory=list)
    instances: list[Any] = field(default_factory=list)


class Creator(Writer):
    """Creates for one call."""

    def create(self, arguments: DbCreate) -> dict[str, Any]:
        """Create rows, save drafts as rows, and return all of them.

        Raises:
            ToolError: they cannot be created.
            BadRefError: a ref in them cannot be used.
        """
        given = [arguments, *arguments.also]
        for each in given:
            _check(each)
        tables = [self._setting.tables.named(each.table, write=True) for each in given]
        if sum(len(each.rows) + len(each.drafts) for each in given) > self._setting.max_written:
            raise TooManyRowsError("db_create", self._setting.max_written)
        drafts = self._drafts(given, tables)
        if drafts and all(draft.saved is not None for draft in drafts.values()):
            return self._as_saved(given, tables, drafts)
        pairs = zip(given, tables, strict=True)
        batches = [self._batch(arguments, *pair, drafts) for pair in pairs]
        self._check_refs(batches, drafts)
        for batch in batches:
            self._prepare(batch)
        self._build(batches)
        self._session.flush()
        answers = [self._answer(batch) for batch in batches]
        return _together(answers, self._saved(batches))

    # What is wanted

    def _drafts(self, given: Sequence[NewRows], tables: Sequence[ToolTable]) -> dict[str, Draft]:
        """Return the drafts that are to be saved, by their refs.

        Raises:
            BadRefError: one cannot be.
        """
        refs = [ref for each in given for ref in each.drafts]
        if len(set(refs)) < len(refs):
            raise InvalidArgumentsError("it names a draft twice", "from_draft")
        found: dict[str, Draft] = {}
        for each, table in zip(given, tables, strict=True):
            if each.drafts:
                read = self._call.conversation.read_drafts(each.drafts, table.entity)
                found |= {draft.ref: draft for draft in read}
        return found

    def _batch(
        self,
        arguments: DbCreate,
        given: NewRows,
        table: ToolTable,
        drafts: Mapping[str, Draft],
    ) -> Batch:
        saved = {ref: self._new_row(drafts[ref], given.data, table) for ref in given.drafts}
        records = [*(row.values for row in saved.values()), *new_records(table, given.rows)]
        writing = Writing(self._session, table.model, "create", arguments, records)
        return Batch(table, writing, saved)

    def _new_row(self, draft: Draft, changes: Any, table: ToolTable) -> NewRow:
        """Return what a draft's row is to be, with what is to be changed in it.

        Raises:
            SavedDraftError: it is a row already, and others of the call are not.
            ToolError: its content is not for the model to store.
        """
        if draft.saved is not None:
            raise SavedDraftError(draft.ref, draft.saved)
        checked = draft_changes(table, changes or {})
        content = with_changes(draft.content, checked, table)
        draft_changes(table, content)
        return record_of(table.model, content, self._call.conversation.plans.entities)

    def _check_refs(self, batches: Sequence[Batch], drafts: Mapping[str, Draft]) -> None:
        """Check that all refs name rows, or drafts of the same call."""
        entities = self._call.conversation.plans.entities
        wanted = [
            want
            for batch in batches
            for want in (
                *refs_of_records(batch.table, batch.writing.records),
                *(want for row in batch.drafts.values() for want in row.refs(entities)),
            )
        ]
        self._call.resolved(
            (text, entity)
            for text, entity in wanted
            if text not in drafts or drafts[text].entity != entity
        )

    # Making it

    def _prepare(self, batch: Batch) -> None:
        """Have hooks enrich the records, and check that they are complete."""
        writing = batch.writing
        for hooks in self._setting.hooks_of(batch.table):
            hooks.before_write(writing)
        names = self._setting.deduplicate.get(batch.table.model)
        if names is not None and not batch.drafts:
            writing.records, batch.merged = deduplicated(writing.records, names)
        check_complete(batch.table, writing.records)

    def _build(self, batches: Sequence[Batch]) -> None:
        """Make the instances: all of them before they are related to each other."""
        built: dict[str, Any] = {}
        builder = Builder(lambda class_, ref: built.get(ref) or self._row_named(class_, ref))
        for batch in batches:
            records = iter(batch.writing.records)
            for (ref, row), record in zip(batch.drafts.items(), records, strict=False):
                row_now = NewRow(row.model, record)
                built[ref] = builder.build(row_now, **{str(batch.table.own): ref})
            model = batch.table.model
            batch.instances = [built[ref] for ref in batch.drafts]
            batch.instances += [instance_of(model, record) for record in records]
        for batch in batches:
            for ref, row in batch.drafts.items():
                builder.relate(built[ref], row)
            self._session.add_all(batch.instances)

    def _row_named(self, class_: type[Any], ref: str) -> Any:
        """Return a row that a draft is related to.

        Raises:
            BadRefError: there is none, as of a draft that the call does not save.
        """
        self._call.resolved([(ref, self._call.conversation.plans.entities.name_of(class_))])
        with self._session.no_autoflush:
            found = self._session.get(class_, ref)
        if found is None:
            entity = self._call.conversation.plans.entities.name_of(class_)
            raise self._call.conversation.gone(ref, entity)
        return found

    # Answers

    def _answer(self, batch: Batch) -> dict[str, Any]:
        answer = self._written(batch.writing, batch.table, batch.instances)
        if batch.merged:
            answer["merged"] = batch.merged
        return answer

    def _saved(self, batches: Sequence[Batch]) -> dict[str, str]:
        """Return the refs of rows that were drafts, by those of the drafts."""
        return {
            ref: getattr(instance, str(batch.table.own))
            for batch in batches
            for ref, instance in zip(batch.drafts, batch.instances, strict=False)
        }

    def _as_saved(
        self,
        given: Sequence[NewRows],
        tables: Sequence[ToolTable],
        drafts: Mapping[str, Draft],
    ) -> dict[str, Any]:
        """Return the answer of a call that was done before: the rows as they are now."""
        answers = []
        for each, table in zip(given, tables, strict=True):
            refs = [str(drafts[ref].saved) for ref in each.drafts]
            rows = self._rows_of(refs, table)
            for ref in each.drafts:
                if str(drafts[ref].saved) not in rows:
                    raise SavedDraftError(ref, str(drafts[ref].saved))
            answers.append(self._shown(table, [rows[ref] for ref in refs]))
        saved = {ref: str(draft.saved) for ref, draft in drafts.items()}
        were = "they were" if len(saved) > 1 else f"{next(iter(saved))!r} was"
        answer = _together(answers, saved)
        notes = [_DONE.format(were, ", ".join(map(repr, saved.values())))]
        answer["notes"] = [*notes, *answer.get("notes", [])]
        return answer

    def _rows_of(self, refs: Sequence[str], table: ToolTable) -> dict[str, Any]:
        if not refs:
            return {}
        own = getattr(table.model, str(table.own))
        found = self._session.scalars(select(table.model).where(own.in_(refs)))
        return {getattr(row, str(table.own)): row for row in found}

    def _shown(self, table: ToolTable, instances: Sequence[Any]) -> dict[str, Any]:
        shape = shape_of(table, None)
        saved = self._call.read_again(instances, shape)
        rendering = self._call.rendering(saved, shape)
        rows = [rendering.row(instance, shape) for instance in saved]
        answer: dict[str, Any] = {"table": table.name, "rows": rows, "count": len(rows)}
        return self._call.finished(answer, [], rendering)


def _check(given: NewRows) -> None:
    """Check that it is said what is wanted: no schema that all clients take could say that.

    Raises:
        InvalidArgumentsError: it is not.
    """
    if given.data is None and given.from_draft is None:
        raise InvalidArgumentsError("give data, or from_draft", "data")
    if isinstance(given.data, list) and given.from_draft is not None:
        raise InvalidArgumentsError("give the changes of a draft as one object", "data")
    if given.data is not None and isinstance(given.from_draft, list):
        raise InvalidArgumentsError("give one draft where data changes it", "from_draft")


def _together(answers: Sequence[dict[str, Any]], saved: Mapping[str, str]) -> dict[str, Any]:
    """Return one answer of those to each table."""
    first, *others = answers
    return first | ({"saved": dict(saved)} if saved else {}) | ({"also": others} if others else {})
