"""`db_create`: new rows, with nested rows inside, and rows that are saved drafts.

    arguments ──check──▶ batches of new rows ──hooks──▶ instances ──flush──▶ rows, read back

A `Batch` has the new rows of one table. Hooks see and change its records before instances are
built of them; then all instances are related to each other and to existing rows, and flushed.

>>> data = {"name": "Stew", "lines": [{"position": 1, "text": "2 leeks"}]}
>>> given = {"table": "recipes", "data": data}
>>> [stew] = toolset.call(session, "db_create", given)["rows"]
>>> [line["text"] for line in stew["lines"]]
['2 leeks']
>>> draft = {"table": "recipes", "data": {"name": "Pie"}, "draft": True}
>>> toolset.call(session, "db_create", draft)["rows"][0]["id"]
'gen_recipe_1'
>>> saved = {"table": "recipes", "from_draft": "gen_recipe_1", "expect": "Pie"}
>>> toolset.call(session, "db_create", saved)["saved"]
{'gen_recipe_1': 'recipe_4'}

A draft is saved once: the same call again returns its row. Existing rows that new rows take from
other parents, and rows that the mapping orphans by that, need the model's permission like any
update or delete.

`check_new_rows` compares the arguments for new rows with the related instances before the flush.
The ORM would keep the last of two contradicting values without an error: a row cannot have two
parents by one foreign key, and a keyed collection holds one row per key.

Limits: labels of refs in new rows are verified before (`preconditions`). A draft and its nested
rows are saved together, or not at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field as dataclasses_field, replace
from typing import Any

from sqlalchemy import inspect, select
from sqlalchemy.orm import MANYTOONE, ONETOMANY, RelationshipProperty
from sqlalchemy.util import IdentitySet

from alfred_refs import sqla
from alfred_refs.conversation import Draft, NewRow, parse_content
from alfred_refs.errors import GoneRefError, SavedDraftError, SetupError
from alfred_refs.mapping import Entities, Key, KeyColumn
from alfred_refs.session import Builder, Link
from alfred_refs.tools.answers import combine_answers
from alfred_refs.tools.arguments import DbCreate, NewRows
from alfred_refs.tools.cascades import Changes, assign_changes, replaced_rows
from alfred_refs.tools.drafts import DraftMaker, apply_changes, check_draft_class, content_with_ref
from alfred_refs.tools.errors import (
    ToolError,
    foreign_row,
    gone_ref,
    invalid_arguments,
    invalid_content,
    too_many_rows,
)
from alfred_refs.tools.faults import refusing_values
from alfred_refs.tools.hooks import Writing
from alfred_refs.tools.links import LinkWriter
from alfred_refs.tools.payload import Record, check_complete, draft_changes, new_rows
from alfred_refs.tools.tables import ToolTable
from alfred_refs.tools.writing import Deleter, Writer

_DONE = "{} saved before: nothing was created now"


_MORE = "; to add more rows, name {} in another call"


_NOT_APPLIED = "'data' was not applied; to change the row, call db_update with {}"


class Creator(Writer):
    """Creates rows and saves drafts, for one call."""

    def create(self, arguments: DbCreate) -> dict[str, Any]:
        """Create rows, save drafts as rows, and return the answer."""
        requests = [arguments, *arguments.also]
        for each in requests:
            check_create_arguments(each, drafts=self._setting.drafts)
        tables = [self._setting.tables.by_name(each.table, "create") for each in requests]
        if arguments.draft:
            return DraftMaker(self._call).create(list(zip(requests, tables, strict=True)))
        drafts = self._drafts(requests, tables)
        if drafts and all(draft.saved is not None for draft in drafts.values()):
            return self._saved_answer(requests, tables, drafts)
        pairs = list(zip(requests, tables, strict=True))
        contents = self._contents(pairs, drafts)
        batches = [self._batch(arguments, *pair, contents) for pair in pairs]
        row_values = self._row_values(batches, drafts)
        nested = self._nested_batches(batches)
        for batch in batches:
            self._prepare(batch)
            check_complete(batch.table, batch.rows)
        for batch in nested:
            self._prepare(batch)
        changes = Changes(self._call, arguments)
        taken = self._move_rows(batches, drafts, changes)
        theirs, orphans_before = self._session.dirty, self._orphans()  # changes by hooks
        builder = self._build(batches, row_values)
        orphans = [each for each in self._orphans() if each not in orphans_before]
        others = self._check_related_rows(changes, theirs.union(taken), orphans, tables[0])
        links = self._new_links(batches, builder, changes)
        for writer, made in links:
            writer.check_once(made)
        self._session.flush()
        self._check_links(links, builder)
        answers = [self._answer(batch, builder) for batch in batches]
        for batch in nested:
            made = [builder.made_of(row) for row in batch.rows]
            changes.add(batch.table, batch.writing, made)
        notes = changes.finish_hooks()
        return combine_answers(answers, self._saved_refs(batches, builder), notes) | others

    @property
    def _entities(self) -> Entities:
        return self._call.conversation.entities

    # Arguments to rows

    def _drafts(self, given: Sequence[NewRows], tables: Sequence[ToolTable]) -> dict[str, Draft]:
        """Return the drafts to save, by ref."""
        refs = [ref for each in given for ref in each.drafts]
        if len(set(refs)) < len(refs):
            raise invalid_arguments("it names a draft twice", "from_draft")
        found: dict[str, Draft] = {}
        for each, table in zip(given, tables, strict=True):
            if each.drafts:
                read = self._call.read_drafts(each.drafts, table.entity)
                check_draft_class(table, read, self._setting.tables)
                found |= {draft.ref: draft for draft in read}
        return found

    def _contents(
        self, pairs: Iterable[tuple[NewRows, ToolTable]], drafts: Mapping[str, Draft]
    ) -> dict[str, Any]:
        """Return the contents of drafts, with the call's changes.

        Raises:
            SavedDraftError: a draft is a row already, and others of the call are not.
            ToolError: the model may not store its content.
        """
        contents: dict[str, Any] = {}
        for given, table in pairs:
            for draft in (drafts[ref] for ref in given.drafts):
                if draft.saved is not None:
                    raise SavedDraftError(draft.ref, draft.saved)
                data = given.data if isinstance(given.data, dict) else {}
                changed = apply_changes(draft, data, table)
                whole = content_with_ref(draft, changed, table)
                contents[draft.ref] = draft_changes(table, changed, stored=True, whole=whole)
        return contents

    def _batch(
        self,
        arguments: DbCreate,
        given: NewRows,
        table: ToolTable,
        contents: Mapping[str, Mapping[str, Any]],
    ) -> Batch:
        rows = [parse_content(table.model, contents[ref], self._entities) for ref in given.drafts]
        rows += new_rows(table, given.rows, self._entities)
        records = [row.values for row in rows]
        writing = Writing(self._session, table.model, "create", arguments, records)
        writing.drafts = contents
        fixed = bool(given.drafts) or any(row.related for row in rows)
        batch = Batch(table, writing, rows, given.drafts, is_fixed=fixed)
        names = self._setting.deduplicate.get(table.model)
        if fixed and not given.drafts and names is not None:  # others after hooks
            batch.merge(names)
        return batch

    def _row_values(self, batches: Sequence[Batch], drafts: Mapping[str, Draft]) -> RowValues:
        """Return the values of new rows; check that all refs name rows, or drafts of the call."""
        rows = [row for batch in batches for row in batch.rows]
        keys = self._call.resolve(
            (text, entity)
            for row in rows
            for text, entity in row.refs(self._entities)
            if text not in drafts or drafts[text].entity != entity
        )
        return row_values_of(rows, self._entities, keys)

    def _nested_batches(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return the nested rows of tables with hooks, by table.

        Drafts of a subclass are included: the hooks of both classes are called.
        """
        pairs = [(row, batch.table) for batch in batches for row in batch.rows]
        nested = [each for row, _ in pairs for each in row.inside()]
        extra = sum(len([*_moved_rows(row)]) + _links(row) for row, _ in pairs)
        if len(pairs) + len(nested) + extra > self._setting.max_written:
            raise too_many_rows("db_create", self._setting.max_written)
        by_table: dict[ToolTable, list[NewRow]] = {}
        for row, by in [*pairs, *((row, None) for row in nested)]:
            table = self._setting.tables.of_model(row.model)
            if table not in (None, by) and self._setting.hooks_of(table):
                by_table.setdefault(table, []).append(row)
        nested_batches = []
        for table, rows in by_table.items():
            records = [row.values for row in rows]
            first = batches[0].writing  # of the same call
            writing = replace(first, model=table.model, records=records, notes=[])
            nested_batches.append(Batch(table, writing, rows, is_fixed=True))
        return nested_batches

    # Rows to instances

    def _prepare(self, batch: Batch) -> None:
        """Call the hooks before a write.

        Raises:
            SetupError: a hook adds or removes records of drafts.
        """
        for hooks in self._setting.hooks_of(batch.table):
            hooks.before_write(batch.writing)
        if batch.is_fixed:
            batch.apply_records()
        else:
            names = self._setting.deduplicate.get(batch.table.model)
            batch.rebuild_rows(names)

    def _move_rows(
        self, batches: Sequence[Batch], drafts: Mapping[str, Draft], changes: Changes
    ) -> list[Any]:
        """Update the existing rows that drafts move to new parents, and return them.

        Raises:
            ToolError: the model may not update one of them.
        """
        parents = {
            id(row): ref
            for batch in batches
            for ref, row in zip(batch.drafts, batch.rows, strict=False)
        }
        instances = []
        for row in (row for batch in batches for row in batch.rows):
            for relationship, ref, parent in _moved_rows(row):
                if ref not in drafts:  # drafts become new rows
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
        assign_changes(
            [instance], {name: value for name, value in record.items() if name not in given}
        )

    def _check_related_rows(
        self, changes: Changes, known: IdentitySet, orphans: Sequence[Any], of: ToolTable
    ) -> dict[str, list[str]]:
        """Check existing rows that the mapping has changed because they were related to new ones.

        Args:
            changes: the changes of the call.
            known: rows that were changed before.
            orphans: rows that the flush deletes.
            of: the table in which rows are created.

        Returns:
            the refs of rows that change together with the orphans.

        Raises:
            ToolError: the model may not change them.
        """
        report = Deleter(self._call, of, changes).check_orphans(orphans) if orphans else {}
        displaced = [pair for each in self._session.dirty for pair in replaced_rows(each)]
        handled = known.union(orphans)
        for instance, columns in displaced:
            for table, rows in changes.by_table([] if instance in handled else [instance]):
                record = changes.update(table, rows, dict.fromkeys(columns), columns)
                assign_changes(
                    rows, {name: value for name, value in record.items() if name not in columns}
                )
        return report

    def _orphans(self) -> IdentitySet:
        """Return the rows that a flush would delete as orphans."""
        with self._session.no_autoflush:
            dirty = map(sqla.state_of, self._session.dirty)
            return IdentitySet(each for state in dirty for each in sqla.orphans_of(state))

    def _build(self, batches: Sequence[Batch], row_values: RowValues) -> Builder:
        """Make all instances, then relate them to each other.

        Raises:
            ToolError: the ORM would not save the rows as the arguments describe them.
        """
        of_drafts: dict[str, Any] = {}

        def named(class_: type[Any], ref: str) -> Any:
            return of_drafts[ref] if ref in of_drafts else self._row_named(class_, ref)

        builder = Builder(named)
        for batch in batches:
            with refusing_values(batch.table.name):
                for ref, row in zip(batch.drafts, batch.rows, strict=False):
                    of_drafts[ref] = builder.build(row, **{str(batch.table.own): ref})
                for row in batch.rows[len(batch.drafts) :]:
                    builder.build(row)
        for batch in batches:
            for row in batch.rows:
                with refusing_values(batch.table.name):  # nested rows are built here
                    builder.relate(builder.made_of(row), row)
                    self._session.add(builder.made_of(row))
        self._generate_keys(builder)
        check_new_rows(
            builder, (pair for batch in batches for pair in batch.labelled_rows()), row_values
        )
        return builder

    def _generate_keys(self, builder: Builder) -> None:
        """Generate the parts of keys that neither the model nor a default provides."""
        for record, instance in builder.made:
            table = self._call.setting.tables.of_model(record.model)
            for name in () if table is None else table.generated:
                if sqla.state_of(instance).dict.get(name) is None:
                    setattr(instance, name, uuid.uuid4())

    def _row_named(self, class_: type[Any], ref: str) -> Any:
        """Return an existing row that a new row refers to.

        Raises:
            BadRefError: it does not exist, or is a draft that the call does not save.
            ToolError: the session cannot see it.
        """
        entity = self._entities.name_of(class_)
        named = self._call.resolve([(ref, entity)])
        with self._session.no_autoflush:
            found = self._session.get(class_, ref)
        if found is None:
            self._call.check_existence(named)
            raise foreign_row(ref, None)
        return found

    def _new_links(
        self, batches: Sequence[Batch], builder: Builder, changes: Changes
    ) -> list[tuple[LinkWriter, list[Any]]]:
        """Return the new rows of association tables, each with the writer of its table."""
        return [
            (LinkWriter(self._call, changes, batch.table), [*map(builder.made_of, batch.rows)])
            for batch in batches
            if batch.table.ends and batch.rows
        ]

    def _check_links(
        self, links: Sequence[tuple[LinkWriter, list[Any]]], builder: Builder
    ) -> None:
        """Check new links, and call the hooks of the rows at their ends."""
        new = [instance for _, instance in builder.made]
        for writer, made in links:
            writer.check_created(made, new)
            self._session.flush()
            writer.expire()

    # Answers

    def _answer(self, batch: Batch, builder: Builder) -> dict[str, Any]:
        instances = [builder.made_of(row) for row in batch.rows]
        answer = self._read_back(
            batch.table, instances, batch.writing, include=batch.nested_paths()
        )
        return answer | ({"merged": batch.merged} if batch.merged else {})

    def _saved_refs(self, batches: Sequence[Batch], builder: Builder) -> dict[str, str]:
        """Return the refs of the saved rows, by the refs of their drafts."""
        return {
            ref: getattr(builder.made_of(row), str(batch.table.own))
            for batch in batches
            for ref, row in zip(batch.drafts, batch.rows, strict=False)
        }

    def _saved_answer(
        self,
        given: Sequence[NewRows],
        tables: Sequence[ToolTable],
        drafts: Mapping[str, Draft],
    ) -> dict[str, Any]:
        """Return the answer of a repeated call: the rows as they are now.

        Raises:
            SavedDraftError: the session does not find a row.
            ToolError: a row was deleted since.
        """
        answers = []
        for each, table in zip(given, tables, strict=True):
            saved = {ref: str(drafts[ref].saved) for ref in each.drafts}
            try:
                rows = self._rows_of(list(saved.values()), table)
            except GoneRefError as error:
                of = {row: ref for ref, row in saved.items()}
                raise gone_ref(of.get(str(error.ref), each.drafts[0]), str(error.ref)) from None
            for ref, row in saved.items():
                if row not in rows:
                    raise SavedDraftError(ref, row)
            answers.append(self._read_back(table, [rows[ref] for ref in saved.values()]))
        saved = {ref: str(draft.saved) for ref, draft in drafts.items()}
        were = f"{next(iter(saved))!r} was" if len(saved) == 1 else "all these drafts were"
        more = any(each.rows for each in given)
        note = _DONE.format(were) + (_MORE.format(", ".join(map(repr, saved.values()))) * more)
        unapplied = [drafts[ref].saved for each in given if each.data for ref in each.drafts]
        return combine_answers(
            answers, saved, [note, *map(_NOT_APPLIED.format, map(repr, unapplied))]
        )

    def _rows_of(self, refs: Sequence[str], table: ToolTable) -> dict[str, Any]:
        if not refs:
            return {}
        own = getattr(table.model, str(table.own))
        found = self._session.scalars(select(table.model).where(own.in_(refs))).unique()
        return {getattr(row, str(table.own)): row for row in found}


def _moved_rows(row: NewRow) -> Iterator[tuple[RelationshipProperty[Any], str, NewRow]]:
    """Yield the existing rows that a row and its nested rows take from other parents."""
    for each in (row, *row.inside()):
        relationships = inspect(each.model).mapper.relationships
        for name, others in each.related.items():
            if relationships[name].direction is ONETOMANY:
                refs = (other for other in others if isinstance(other, str))
                yield from ((relationships[name], ref, each) for ref in refs)


def _links(row: NewRow) -> int:
    """Return the number of secondary-table rows that a row and its nested rows create."""
    return sum(
        len(others)
        for each in (row, *row.inside())
        for name, others in each.related.items()
        if inspect(each.model).mapper.relationships[name].secondary is not None
    )


def deduplicate_records(
    records: Sequence[Record], names: Sequence[str]
) -> tuple[list[Record], list[list[int]]]:
    """Remove duplicate records; the last duplicate takes the place of the first.

    As in a unique constraint, null equals nothing, so records with null are kept.

    Args:
        records: the records of new rows.
        names: the attributes that identify a row.

    Returns:
        the records, and groups of the numbers (from 1) of merged records.
    """
    places: dict[str, list[int]] = {}
    for n, record in enumerate(records, start=1):
        values = [record.get(name) for name in names]
        places.setdefault(str(n) if None in values else repr(values), []).append(n)
    distinct = [records[numbers[-1] - 1] for numbers in places.values()]
    return distinct, [numbers for numbers in places.values() if len(numbers) > 1]


@dataclass(slots=True)
class Batch:
    """New rows of one table in one call.

    Attributes:
        table: the table.
        writing: the write that hooks receive; its records are the values of the rows.
        rows: the new rows; rows of drafts come first.
        drafts: the refs of the drafts of the first rows.
        is_fixed: whether each row belongs to a draft, an outer row, or nested rows. Hooks may then
            not add or remove records.
        merged: the numbers of merged records; see `deduplicate_records`.
    """

    table: ToolTable
    writing: Writing
    rows: list[NewRow]
    drafts: Sequence[str] = ()
    is_fixed: bool = False
    merged: list[list[int]] = dataclasses_field(default_factory=list)

    def labelled_rows(self) -> Iterator[tuple[str, NewRow]]:
        """Yield the rows with their names in errors: the ref of a draft, or a number."""
        names = [*self.drafts, *map(str, range(1, len(self.rows) + 1 - len(self.drafts)))]
        yield from zip(names, self.rows, strict=True)

    def merge(self, names: Sequence[str]) -> None:
        """Remove duplicate rows; see `deduplicate_records`."""
        kept, self.merged = deduplicate_records([row.values for row in self.rows], names)
        distinct = {id(record): record for record in kept}
        by_values = {id(row.values): row for row in self.rows}
        self.rows = [by_values[each] for each in distinct]
        self.writing.records = kept

    def nested_paths(self) -> list[str]:
        """Return the paths of relationships with nested rows, except in drafts."""
        rows = self.rows[len(self.drafts) :]
        return list(dict.fromkeys(path for row in rows for path in _paths(row, self.table)))

    def apply_records(self) -> None:
        """Copy the records into the rows, after hooks.

        Raises:
            SetupError: a hook has added or removed records.
        """
        # a replaced record belongs to the row at its position; id() identifies a moved record
        places = {id(row.values): place for place, row in enumerate(self.rows)}
        records = [(places.get(id(r), at), dict(r)) for at, r in enumerate(self.writing.records)]
        if sorted(place for place, _ in records) != [*range(len(self.rows))]:
            raise SetupError(
                f"a hook of {self.table.model.__qualname__!r} changed how many records there are, "
                "but some records are drafts, are nested, or have nested rows",
                "change the records only, or refuse the call with a ToolError",
            )
        for place, record in records:
            self.rows[place].values.clear()
            self.rows[place].values.update(record)

    def rebuild_rows(self, names: Sequence[str] | None) -> None:
        """Rebuild the rows from the records after hooks.

        Args:
            names: the attributes that identify rows; duplicates are merged.
        """
        if names is not None:
            self.writing.records, self.merged = deduplicate_records(self.writing.records, names)
        self.rows = [NewRow(self.table.model, record) for record in self.writing.records]


def _paths(row: NewRow, table: ToolTable) -> Iterator[str]:
    for name, others in row.related.items():
        if others and name in table.includable:
            yield name
            for other in others:
                inside = () if isinstance(other, str) else _paths(other, table.targets[name])
                yield from (f"{name}.{path}" for path in inside)


def check_create_arguments(new: NewRows, *, drafts: bool) -> None:
    """Check that a create has either data or drafts, which portable schemas cannot express.

    Args:
        new: the new rows.
        drafts: whether drafts are enabled.

    Raises:
        ToolError: both or neither are passed.
    """
    if new.data is None and new.from_draft is None:
        raise invalid_arguments("give data, or from_draft" if drafts else "it is missing", "data")
    if isinstance(new.data, list) and new.from_draft is not None:
        raise invalid_arguments("give the changes of a draft as one object", "data")
    if new.data is not None and isinstance(new.from_draft, list):
        raise invalid_arguments("give one draft where data changes it", "from_draft")


_UNCHANGED = "nothing was changed"

RowValues = Mapping[int, Mapping[str, Sequence[Any]]]
"""The passed values of each new row, by its `id()`: for each column, the ref and its key."""


def check_new_rows(
    builder: Builder, rows: Iterable[tuple[str, NewRow]], row_values: RowValues
) -> None:
    """Check that the ORM will save new rows as the arguments describe them.

    Args:
        builder: the builder of their related instances.
        rows: the new rows, each with its name in errors.
        row_values: the values from a model or a draft, before hooks.

    Raises:
        ToolError: two values contradict each other, or a value will not be saved.
    """
    places = {
        id(builder.made_of(record)): place
        for name, row in rows
        for place, record in _nested_places(name, row)
    }
    for link in builder.links:
        _check_class(link, places)
    _check_once(builder.links, places)
    _check_parents(builder.links, places)
    _check_columns(builder, places, row_values)
    for link in builder.links:
        if not any(each is link.other for each in _new_children(link)):
            raise _replaced_row_error(link, builder.links, places)
    for record, instance in builder.made:
        if sqla.state_of(instance).session is None:
            raise invalid_content(
                f"{places[id(instance)]!r} would not be saved with what it is in; {_UNCHANGED}",
                f"save it as a row of {record.model.__name__!r} by itself",
            )


def row_values_of(
    rows: Iterable[NewRow], entities: Entities, keys: Mapping[Any, Key]
) -> RowValues:
    """Return the values of new rows, including nested ones.

    Args:
        rows: the new rows.
        entities: the entities, which know the columns with refs.
        keys: the keys, by ref and required entity.
    """
    every = [each for row in rows for each in (row, *row.inside())]
    return {
        id(each): dict(_columns(each, entities.of_class(each.model).all, keys)) for each in every
    }


def _columns(
    record: NewRow, key_columns: Mapping[str, KeyColumn], keys: Mapping[Any, Key]
) -> Iterator[tuple[str, list[Any]]]:
    for name, value in record.values.items():
        column = key_columns.get(name)
        key = None if column is None or column.array else keys.get((value, column.entity))
        yield name, [value] if column is None or key is None else [value, column.from_key(key)]


def _nested_places(place: str, record: NewRow) -> Iterator[tuple[str, NewRow]]:
    """Yield a new row and its nested rows, with their paths."""
    yield place, record
    relationships = inspect(record.model).mapper.relationships
    for name, others in record.related.items():
        for at, other in enumerate(others, start=1):
            if isinstance(other, NewRow):
                number = f".{at}" if relationships[name].uselist else ""
                yield from _nested_places(f"{place}.{name}{number}", other)


def _check_class(link: Link, places: Mapping[int, str]) -> None:
    """Check that related rows have the relationship's class, not a sibling class."""
    relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
    if not isinstance(link.other, relationship.mapper.class_):
        raise invalid_content(
            f"{_place(link, places)} is a row of another kind than belongs there; {_UNCHANGED}",
            "leave it out there",
        )


def _check_once(links: Iterable[Link], places: Mapping[int, str]) -> None:
    """Check that no relationship contains the same row twice."""
    known = set[tuple[int, str, int]]()
    for link in links:
        pair = id(link.instance), link.name, id(link.other)
        if pair in known:
            raise invalid_content(
                f"{_place(link, places)} is given twice; {_UNCHANGED}",
                "leave one of the two out",
            )
        known.add(pair)


def _check_columns(builder: Builder, places: Mapping[int, str], row_values: RowValues) -> None:
    """Check that foreign key columns agree with the relationships, which the ORM saves."""
    records = {id(instance): record for record, instance in builder.made}
    for link in builder.links:
        columns = row_values.get(id(records[id(link.instance)]), {})
        for name, has in _reference_values(link):
            if has not in columns.get(name, [has]):
                raise invalid_content(
                    f"'{places[id(link.instance)]}.{name}' contradicts "
                    f"{_place(link, places)}; {_UNCHANGED}",
                    "leave one of the two out",
                )


def _reference_values(link: Link) -> Iterator[tuple[str, Any]]:
    """Yield the foreign key columns that a many-to-one link writes, and their values."""
    relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
    if relationship.direction is MANYTOONE:
        own = sqla.attributes_of(relationship.parent, relationship.local_columns)
        theirs = sqla.attributes_of(relationship.mapper, relationship.remote_side)
        there = sqla.state_of(link.other).dict
        for local, remote in relationship.local_remote_pairs or ():
            yield own.get(local, ""), there.get(theirs.get(remote, ""))


def _check_parents(links: Sequence[Link], places: Mapping[int, str]) -> None:
    """Check that no row has two parents by the same foreign key."""
    parents: dict[Any, tuple[Any, Link]] = {}
    for link in links:
        relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
        if relationship.direction is ONETOMANY:
            child, parent, columns = link.other, link.instance, relationship.remote_side
        elif relationship.direction is MANYTOONE:
            child, parent, columns = link.instance, link.other, relationship.local_columns
        else:
            continue
        known, first = parents.setdefault((id(child), frozenset(columns)), (parent, link))
        if known is not parent:
            raise invalid_content(
                f"{_place(first, places)} and {_place(link, places)} give one row two "
                f"parents, and it can have one; {_UNCHANGED}",
                "give it in one of the two places",
            )


def _new_children(link: Link) -> Sequence[Any]:
    """Return the rows in a relationship of a new row."""
    history = sqla.state_of(link.instance).attrs[link.name].history
    return [*(history.added or ()), *(history.unchanged or ())]


def _replaced_row_error(link: Link, links: Sequence[Link], places: Mapping[int, str]) -> ToolError:
    """Return the error for a row that was replaced in a collection or reference."""
    collection = sqla.state_of(link.instance).dict.get(link.name)
    same = getattr(collection, "keyfunc", None)
    holder = None if same is None or collection is None else collection.get(same(link.other))
    other = next((each for each in links if each.other is holder), None)
    if other is None:
        return invalid_content(
            f"a row would not be saved in {_place(link, places)}; {_UNCHANGED}",
            "leave it out there, or relate it in another way",
        )
    return invalid_content(
        f"{_place(link, places)} and {_place(other, places)} have the same key in "
        f"that collection, and one of them would be lost; {_UNCHANGED}",
        "give one of them another value, or leave it out",
    )


def _place(link: Link, places: Mapping[int, str]) -> str:
    """Return the path of a related row, with its ref if it has one."""
    where = f"'{places[id(link.instance)]}.{link.name}'"
    if link.ref is not None:
        return f"{link.ref!r} in {where}"
    return f"{places[id(link.other)]!r}"
