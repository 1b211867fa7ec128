"""Create rows for a model, and save its drafts as rows: all that one call wants, or nothing.

New rows and the refs of drafts come in, of one table or of several; the rows go out as the
database has them then. A draft is saved once: a call whose drafts are saved already was done
before, and is answered with the rows that they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import inspect, select
from sqlalchemy.orm import ONETOMANY, RelationshipProperty
from sqlalchemy.util import IdentitySet

from alfred_refs import sqla
from alfred_refs.conversation.draft_fields import Record as NewRow, record_of
from alfred_refs.conversation.entries import Draft
from alfred_refs.errors import SavedDraftError
from alfred_refs.mapping.entities import Entities
from alfred_refs.session.drafts import Builder
from alfred_refs.tools.drafts.rows import check_of
from alfred_refs.tools.drafts.writing import DraftMaker, changed_content, whole_draft
from alfred_refs.tools.payload.claims import Claims, check_claims, claims_of
from alfred_refs.tools.payload.payloads import check_complete, draft_changes, new_rows
from alfred_refs.tools.tables.hooks import Writing
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import DbCreate, NewRows

from .batches import Batch, check_said, together
from .changes import Changes, put, replaced
from .deleting import Deleter
from .errors import foreign_row, invalid_arguments, too_many_rows
from .fates import check_there
from .writing import Writer

_DONE = "{} saved before: nothing was created now"
_MORE = "; to add more rows, name {} in another call"
_NOT_APPLIED = "'data' was not applied; to change the row, call db_update with {}"


class Creator(Writer):
    """Creates for one call."""

    def create(self, arguments: DbCreate) -> dict[str, Any]:
        """Create rows, save drafts as rows, and return all of them."""
        given = [arguments, *arguments.also]
        for each in given:
            check_said(each, drafts=self._setting.drafts)
        tables = [self._setting.tables.named(each.table, "create") for each in given]
        if arguments.draft:
            return DraftMaker(self._call).create(list(zip(given, tables, strict=True)))
        drafts = self._drafts(given, tables)
        if drafts and all(draft.saved is not None for draft in drafts.values()):
            return self._as_saved(given, tables, drafts)
        pairs = list(zip(given, tables, strict=True))
        contents = self._contents(pairs, drafts)
        batches = [self._batch(arguments, *pair, contents) for pair in pairs]
        claims = self._claims(batches, drafts)
        inside = self._inside(batches)
        for batch in batches:
            self._prepare(batch)
            check_complete(batch.table, batch.writing.records)
        for batch in inside:
            self._prepare(batch)
        changes = Changes(self._call, arguments)
        taken = self._take(batches, drafts, changes)
        theirs, let_go = self._session.dirty, self._orphans()  # what hooks have changed
        builder = self._build(batches, claims)
        orphans = [each for each in self._orphans() if each not in let_go]
        beside = self._hold(changes, theirs.union(taken), orphans, tables[0])
        self._session.flush()
        answers = [self._answer(batch, builder) for batch in batches]
        notes = [n for batch in inside for n in self._answer(batch, builder).get("notes", [])]
        notes += changes.end()
        return together(answers, self._saved(batches, builder), notes) | beside

    @property
    def _entities(self) -> Entities:
        return self._call.conversation.entities

    # What is wanted

    def _drafts(self, given: Sequence[NewRows], tables: Sequence[ToolTable]) -> dict[str, Draft]:
        """Return the drafts that are to be saved, by their refs."""
        refs = [ref for each in given for ref in each.drafts]
        if len(set(refs)) < len(refs):
            raise invalid_arguments("it names a draft twice", "from_draft")
        found: dict[str, Draft] = {}
        for each, table in zip(given, tables, strict=True):
            if each.drafts:
                read = self._call.conversation.read_drafts(each.drafts, table.entity)
                check_of(table, read, self._setting.tables)
                found |= {draft.ref: draft for draft in read}
        return found

    def _contents(
        self, pairs: Iterable[tuple[NewRows, ToolTable]], drafts: Mapping[str, Draft]
    ) -> dict[str, Any]:
        """Return what drafts hold, with what is to be changed in them.

        Raises:
            SavedDraftError: one is a row already, and others of the call are not.
            ToolError: its content is not for the model to store.
        """
        contents: dict[str, Any] = {}
        for given, table in pairs:
            for draft in (drafts[ref] for ref in given.drafts):
                if draft.saved is not None:
                    raise SavedDraftError(draft.ref, draft.saved)
                data = given.data if isinstance(given.data, dict) else {}
                changed = changed_content(draft, data, table)
                whole = whole_draft(draft, changed, table)
                contents[draft.ref] = draft_changes(table, changed, stored=True, whole=whole)
        return contents

    def _batch(
        self,
        arguments: DbCreate,
        given: NewRows,
        table: ToolTable,
        contents: Mapping[str, Mapping[str, Any]],
    ) -> Batch:
        rows = [record_of(table.model, contents[ref], self._entities) for ref in given.drafts]
        rows += new_rows(table, given.rows, self._entities)
        records = [row.values for row in rows]
        writing = Writing(self._session, table.model, "create", arguments, records)
        writing.drafts = contents
        fixed = bool(given.drafts) or any(row.related for row in rows)
        batch = Batch(table, writing, rows, given.drafts, fixed=fixed)
        names = self._setting.deduplicate.get(table.model)
        if fixed and not given.drafts and names is not None:  # others once hooks have seen them
            batch.merge(names)
        return batch

    def _claims(self, batches: Sequence[Batch], drafts: Mapping[str, Draft]) -> Claims:
        """Return what new rows have, once all refs name rows, or drafts of the same call."""
        rows = [row for batch in batches for row in batch.rows]
        keys = self._call.resolved(
            (text, entity)
            for row in rows
            for text, entity in row.refs(self._entities)
            if text not in drafts or drafts[text].entity != entity
        )
        return claims_of(rows, self._entities, keys)

    def _inside(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return the rows inside others, by their tables, as far as there are hooks for them.

        A draft of a subclass is among them, whose hooks are asked beside those of its base.
        """
        pairs = [(row, batch.table) for batch in batches for row in batch.rows]
        nested = [each for row, _ in pairs for each in row.inside()]
        beside = sum(len([*_taken(row)]) + _links(row) for row, _ in pairs)
        if len(pairs) + len(nested) + beside > self._setting.max_written:
            raise too_many_rows("db_create", self._setting.max_written)
        found: dict[ToolTable, list[NewRow]] = {}
        for row, by in [*pairs, *((row, None) for row in nested)]:
            table = self._setting.tables.of_model(row.model)
            if table not in (None, by) and self._setting.hooks_of(table):
                found.setdefault(table, []).append(row)
        inside = []
        for table, rows in found.items():
            records = [row.values for row in rows]
            like = batches[0].writing  # of the same call
            writing = replace(like, model=table.model, records=records, notes=[])
            inside.append(Batch(table, writing, rows, fixed=True))
        return inside

    # Making it

    def _prepare(self, batch: Batch) -> None:
        """Have hooks enrich the records.

        Raises:
            SetupError: a hook adds records to those of drafts, or takes some out.
        """
        for hooks in self._setting.hooks_of(batch.table):
            hooks.before_write(batch.writing)
        if batch.fixed:
            batch.take_back()
        else:
            names = self._setting.deduplicate.get(batch.table.model)
            batch.make_anew(names)

    def _take(
        self, batches: Sequence[Batch], drafts: Mapping[str, Draft], changes: Changes
    ) -> list[Any]:
        """Have the rows changed that drafts take from where they are, and return those.

        Raises:
            ToolError: that is not for the model to do.
        """
        parents = {
            id(row): ref
            for batch in batches
            for ref, row in zip(batch.drafts, batch.rows, strict=False)
        }
        instances = []
        for row in (row for batch in batches for row in batch.rows):
            for relationship, ref, parent in _taken(row):
                if ref not in drafts:  # those are new rows
                    instance = self._row_named(relationship.mapper.class_, ref)
                    self._move(instance, relationship, parents.get(id(parent)), changes)
                    instances.append(instance)
        return instances

    def _move(
        self,
        instance: Any,
        relationship: RelationshipProperty[Any],
        parent: str | None,
        changes: Changes,
    ) -> None:
        [(table, _)] = changes.by_table([instance])
        names = sqla.attributes_of(relationship.mapper, relationship.remote_side)
        given = {names.get(column, ""): parent for column in relationship.remote_side}
        record = changes.update(table, [instance], dict(given), given)
        put([instance], {name: value for name, value in record.items() if name not in given})

    def _hold(
        self, changes: Changes, known: IdentitySet, orphans: Sequence[Any], of: ToolTable
    ) -> dict[str, list[str]]:
        """Hold what the mapping has changed in rows that are there, as one was related to another.

        Args:
            changes: of the call.
            known: rows that were changed before.
            orphans: rows that the flush deletes, because others have let go of them.
            of: the table in which rows are created.

        Returns:
            the refs of what goes, and of what goes with it or loses its reference.

        Raises:
            ToolError: that is not for the model to do.
        """
        told = Deleter(self._call, of, changes).orphans(orphans) if orphans else {}
        others = [pair for each in self._session.dirty for pair in replaced(each)]
        held = known.union(orphans)
        for instance, columns in others:
            for table, rows in changes.by_table([] if instance in held else [instance]):
                record = changes.update(table, rows, dict.fromkeys(columns), columns)
                put(rows, {name: value for name, value in record.items() if name not in columns})
        return told

    def _orphans(self) -> IdentitySet:
        """Return the rows that a flush would delete because others have let go of them."""
        with self._session.no_autoflush:
            dirty = map(sqla.state_of, self._session.dirty)
            return IdentitySet(each for state in dirty for each in sqla.orphaned_by(state))

    def _build(self, batches: Sequence[Batch], claims: Claims) -> Builder:
        """Make the instances: all of them before they are related to each other.

        Raises:
            ToolError: something else would be saved than is said.
        """
        of_drafts: dict[str, Any] = {}

        def named(class_: type[Any], ref: str) -> Any:
            return of_drafts[ref] if ref in of_drafts else self._row_named(class_, ref)

        builder = Builder(named)
        for batch in batches:
            for ref, row in zip(batch.drafts, batch.rows, strict=False):
                of_drafts[ref] = builder.build(row, **{str(batch.table.own): ref})
            for row in batch.rows[len(batch.drafts) :]:
                builder.build(row)
        for batch in batches:
            for row in batch.rows:
                builder.relate(builder.made_of(row), row)
                self._session.add(builder.made_of(row))
        check_claims(builder, (pair for batch in batches for pair in batch.named()), claims)
        return builder

    def _row_named(self, class_: type[Any], ref: str) -> Any:
        """Return a row that a draft is related to.

        Raises:
            BadRefError: there is none, as of a draft that the call does not save.
            ToolError: it is not for the session to see.
        """
        entity = self._entities.name_of(class_)
        named = self._call.resolved([(ref, entity)])
        with self._session.no_autoflush:
            found = self._session.get(class_, ref)
        if found is None:
            check_there(self._call, named)
            raise foreign_row(ref, None)
        return found

    # Answers

    def _answer(self, batch: Batch, builder: Builder) -> dict[str, Any]:
        instances = [builder.made_of(row) for row in batch.rows]
        answer = self._shown(batch.table, instances, batch.writing, include=batch.included())
        return answer | ({"merged": batch.merged} if batch.merged else {})

    def _saved(self, batches: Sequence[Batch], builder: Builder) -> dict[str, str]:
        """Return the refs of rows that were drafts, by those of the drafts."""
        return {
            ref: getattr(builder.made_of(row), str(batch.table.own))
            for batch in batches
            for ref, row in zip(batch.drafts, batch.rows, strict=False)
        }

    def _as_saved(
        self,
        given: Sequence[NewRows],
        tables: Sequence[ToolTable],
        drafts: Mapping[str, Draft],
    ) -> dict[str, Any]:
        """Return the answer of a call that was done before: the rows as they are now.

        Raises:
            SavedDraftError: a row is not there, or not for this session to see.
        """
        answers = []
        for each, table in zip(given, tables, strict=True):
            saved = {ref: str(drafts[ref].saved) for ref in each.drafts}
            rows = self._rows_of(list(saved.values()), table)
            for ref, row in saved.items():
                if row not in rows:
                    raise SavedDraftError(ref, row)
            answers.append(self._shown(table, [rows[ref] for ref in saved.values()]))
        saved = {ref: str(draft.saved) for ref, draft in drafts.items()}
        were = f"{next(iter(saved))!r} was" if len(saved) == 1 else "all these drafts were"
        more = any(each.rows for each in given)
        note = _DONE.format(were) + (_MORE.format(", ".join(map(repr, saved.values()))) * more)
        unapplied = [drafts[ref].saved for each in given if each.data for ref in each.drafts]
        return together(answers, saved, [note, *map(_NOT_APPLIED.format, map(repr, unapplied))])

    def _rows_of(self, refs: Sequence[str], table: ToolTable) -> dict[str, Any]:
        if not refs:
            return {}
        own = getattr(table.model, str(table.own))
        found = self._session.scalars(select(table.model).where(own.in_(refs)))
        return {getattr(row, str(table.own)): row for row in found}


def _taken(row: NewRow) -> Iterator[tuple[RelationshipProperty[Any], str, NewRow]]:
    """Yield the rows that a row and those inside it take from where they are, by their refs."""
    for each in (row, *row.inside()):
        relationships = inspect(each.model).mapper.relationships
        for name, others in each.related.items():
            if relationships[name].direction is ONETOMANY:
                refs = (other for other in others if isinstance(other, str))
                yield from ((relationships[name], ref, each) for ref in refs)


def _links(row: NewRow) -> int:
    """Return how many rows are made between others, of a row and those inside it."""
    return sum(
        len(others)
        for each in (row, *row.inside())
        for name, others in each.related.items()
        if inspect(each.model).mapper.relationships[name].secondary is not None
    )
