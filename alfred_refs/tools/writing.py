"""`db_create`, `db_update`, `db_delete`.

>>> only = {"field": "id", "op": "=", "value": "recipe_1"}
>>> given = {"table": "recipes", "filters": [only], "data": {"servings": 4}, "expect": "Soup"}
>>> toolset.call(session, "db_update", given)["rows"]
[{'id': 'recipe_1', 'name': 'Soup', 'servings': 4}]
>>> data = {"name": "Curry", "lines": [{"position": 1, "text": "1 egg"}]}
>>> given = {"table": "recipes", "data": data}
>>> toolset.call(session, "db_create", given)["rows"]
[{'id': 'recipe_3', 'name': 'Curry', 'servings': None, 'lines': [{'id': 'line_3', 'recipe_id':
'recipe_3', 'position': 1, 'text': '1 egg', '_recipe_id_label': 'Curry'}]}]

- `Writer` updates and deletes. The rows are selected by the filters of a read and locked (FOR
  UPDATE); then they are changed one by one through the unit of work, so that cascades, version
  counters and ORM events apply.
- `Deleter` finds the rows that the mapping and the schema delete or unlink with the others
  (`cascades`), before the delete. The call is refused, with refs, if a row blocks the delete or
  the model may not change a row.
- `Creator` creates rows of one table or of several, and saves drafts as rows: all of a call or
  nothing. It returns the rows as stored after the flush. A draft is saved once: if all drafts of a
  call are saved already, the call is a repetition, and the answer contains their rows.

Each write calls the hooks of its class: `before_write` before the flush, `after_write` after it,
in the same transaction.

Limits: one call changes at most `max_written` rows, including cascades. Rows of unlisted tables
are not named in the answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import inspect, select
from sqlalchemy.exc import CircularDependencyError
from sqlalchemy.orm import ONETOMANY, RelationshipProperty, defer, lazyload, undefer
from sqlalchemy.util import IdentitySet

from alfred_refs import sqla
from alfred_refs.conversation import Draft, NewRow, parse_content
from alfred_refs.errors import GoneRefError, SavedDraftError
from alfred_refs.mapping import Entities
from alfred_refs.session import Builder
from alfred_refs.tools.answers import shape_of
from alfred_refs.tools.arguments import DbCreate, DbDelete, DbUpdate, NewRows
from alfred_refs.tools.call import Call
from alfred_refs.tools.cascades import (
    AffectedRow,
    CascadeReport,
    CascadeResult,
    CascadeSearch,
    Changes,
    assign_changes,
    check_update,
    is_reference_writable,
    replaced_rows,
)
from alfred_refs.tools.drafts import (
    DraftMaker,
    DraftWriter,
    apply_changes,
    check_draft_class,
    content_with_ref,
)
from alfred_refs.tools.errors import (
    circular_reference,
    foreign_row,
    gone_ref,
    invalid_arguments,
    too_many_rows,
)
from alfred_refs.tools.exact import ExactTypes, exact_types, is_exact_on, select_exact
from alfred_refs.tools.faults import check_existence, refusing_values
from alfred_refs.tools.filters import BoundFilters, Condition, Keys
from alfred_refs.tools.hooks import Row, Writing
from alfred_refs.tools.labels import labelled_refs
from alfred_refs.tools.links import LinkWriter
from alfred_refs.tools.payload import (
    Batch,
    Record,
    check_complete,
    check_create_arguments,
    combine_answers,
    draft_changes,
    new_rows,
    refs_of_records,
    update_record,
)
from alfred_refs.tools.preconditions import (
    RowValues,
    check_new_rows,
    differences,
    expected_names,
    label_of,
    row_values_of,
    split_reach,
)
from alfred_refs.tools.tables import ToolTable, Verb


class Deleter:
    """Deletes rows, for one call."""

    def __init__(self, call: Call, table: ToolTable, changes: Changes) -> None:
        self._call = call
        self._table = table
        self._changes = changes
        self._report = CascadeReport(call, changes)

    def delete(
        self, instances: Sequence[Any], confirm: Callable[[], None] = lambda: None
    ) -> dict[str, list[str]]:
        """Delete rows in one flush; return the refs of other changed rows, by effect.

        Args:
            instances: the rows.
            confirm: called before the flush, if the model may delete the rows.

        Raises:
            ToolError: referring rows block the delete, or the model may not change them.
        """
        for table, rows in self._changes.by_table(instances):
            if table is not self._table:
                table.check("delete")
                self._changes.call_hooks(table, "delete", rows)
        searcher = CascadeSearch(self._call, "db_delete")
        self._check_reach(searcher.search(instances))
        session = self._call.session
        before = session.deleted
        # session.delete() loads cascaded rows, and autoflush would flush the rows marked so far
        with session.no_autoflush:
            for instance in instances:
                session.delete(instance)
            cascaded = [each for each in session.deleted if each not in before]
            self._check_reach(searcher.search(cascaded, cascaded=True))
            others = self._report.report(searcher.result)
        confirm()
        try:
            session.flush()
        except CircularDependencyError as error:
            mappers = (state.mapper for state in sqla.states_in_cycle(error))
            tables = (self._call.setting.tables.of_model(mapper.class_) for mapper in mappers)
            names = sorted({table.name for table in tables if table is not None})
            raise circular_reference(names or [self._table.name]) from None
        return others

    def check_orphans(self, instances: Sequence[Any]) -> dict[str, list[str]]:
        """Check the orphans that a flush deletes; return the refs of rows changed with them.

        Raises:
            ToolError: the model may not change them.
        """
        session, searcher = self._call.session, CascadeSearch(self._call, "db_create")
        with session.no_autoflush:  # nothing is flushed unchecked
            result = searcher.search(instances, cascaded=True)
            orphaned = IdentitySet(instances)
            for state in map(sqla.state_of, session.dirty):
                if any(each in orphaned for each in sqla.orphans_of(state)):
                    # the row refers to another row by now
                    for found in (result.unlinked, result.followed, result.blocking):
                        found.pop(state.key and state.key[:2], None)
            self._check_reach(result)
            return self._report.report(result)

    def _check_reach(self, result: CascadeResult) -> None:
        """Check that the model may change all rows found."""
        refused = result.surviving(result.blocking)
        refused += [found for found in result.also_deleted() if not _may_delete(found)]
        changed = [*result.surviving(result.unlinked), *result.surviving(result.followed)]
        refused += [found for found in changed if not is_reference_writable(found)]
        self._report.refuse(refused, self._table, "deleted from")


def _may_delete(found: AffectedRow) -> bool:
    if found.tool_table is None or not found.is_writable:
        return found.is_writable
    return "delete" in found.tool_table.verbs


_NOTHING = "no row matches the filters; nothing was changed"
_MAX_NAMED = 10  # rows that an error names


class Writer:
    """Updates and deletes rows, for one call."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._setting = call.setting
        self._session = call.session
        self._room = call.room()  # for the rows of all tables

    def update(self, arguments: DbUpdate, bound: BoundFilters) -> dict[str, Any]:
        """Update rows, and return the answer."""
        table = bound.table
        table.check("update")
        drafts = self._call.pending_drafts(bound.row_refs(), table.entity)
        if drafts:
            return DraftWriter(self._call, bound, drafts).update(arguments)
        record = update_record(table, arguments.data)
        named = self._resolve_filters(bound, [record])
        conditions = self._call.conditions(named).all_of(bound)
        writing = self._begin_write("update", table, arguments, [record])
        instances, confirm = self._lock_rows("db_update", bound, conditions, arguments)
        if not instances:
            return self._empty_answer(writing, table, conditions, named, confirm)
        changes = Changes(self._call, arguments)
        groups = [*changes.by_table(instances)]
        for nearest, _ in groups:  # before hooks are called
            check_update(nearest, arguments.data)
        values = {nearest: (rows, writing.records[0]) for nearest, rows in groups}
        for nearest, rows in groups:
            if nearest is not table:  # a subclass has its own verbs and hooks
                given = dict(writing.records[0])
                values[nearest] = rows, changes.update(nearest, rows, given, arguments.data)
        others = CascadeReport(self._call, changes).changed(values)
        confirm()
        for nearest, (rows, record) in values.items():
            with refusing_values(nearest.name):
                assign_changes(rows, record)
        self._session.flush()
        return self._read_back(table, instances, writing, changes) | others

    def delete(self, arguments: DbDelete, bound: BoundFilters) -> dict[str, Any]:
        """Delete rows, and return the answer."""
        table = bound.table
        table.check("delete")
        drafts = self._call.pending_drafts(bound.row_refs(), table.entity)
        if drafts:
            return DraftWriter(self._call, bound, drafts).delete(arguments)
        named = self._resolve_filters(bound, [])
        conditions = self._call.conditions(named).all_of(bound)
        writing = self._begin_write("delete", table, arguments, [])
        instances, confirm = self._lock_rows("db_delete", bound, conditions, arguments)
        if not instances:
            return self._empty_answer(writing, table, conditions, named, confirm)
        changes = Changes(self._call, arguments)
        if table.ends:
            return self._unlink(table, instances, changes, confirm)
        refs = self._call.refs_of(instances, table)
        is_closed = self._call.visibility.hooks.may_mask(table)
        labels = [None if is_closed else label_of(table, each) for each in instances]
        others = Deleter(self._call, table, changes).delete(instances, confirm)
        self._end_write(writing, table, [])
        answer = {"table": table.name, "deleted": refs, "count": len(refs), **others}
        gone = labelled_refs(answer, "deleted", table, labels)
        return self._call.finish_answer(
            answer, [*writing.notes, *changes.finish_hooks()], foreign=gone
        )

    def _unlink(
        self,
        table: ToolTable,
        instances: Sequence[Any],
        changes: Changes,
        confirm: Callable[[], None],
    ) -> dict[str, Any]:
        """Delete rows of an association table, and return them."""
        shape = shape_of(table, None)
        rendering = self._call.rendering(instances, shape)
        rows = rendering.rows(instances, shape, self._room)
        links = LinkWriter(self._call, changes, table)
        links.call_hooks(instances)
        Deleter(self._call, table, changes).delete(instances, confirm)
        links.expire()
        answer = {"table": table.name, "deleted": rows, "count": len(rows)}
        return self._call.finish_answer(answer, changes.finish_hooks(), rendering)

    def _begin_write(
        self,
        verb: Verb,
        table: ToolTable,
        arguments: DbCreate | DbUpdate | DbDelete,
        records: list[Record],
    ) -> Writing:
        writing = Writing(self._session, table.model, verb, arguments, records)
        for hooks in self._setting.hooks_of(table):
            hooks.before_write(writing)
        return writing

    def _end_write(self, writing: Writing, table: ToolTable, rows: list[Row]) -> None:
        for hooks in self._setting.hooks_of(table):
            hooks.after_write(writing, rows)

    def _read_back(
        self,
        table: ToolTable,
        instances: Sequence[Any],
        writing: Writing | None = None,
        changes: Changes | None = None,
        include: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Reread rows; hooks see them if they were written."""
        shape = shape_of(table, None, include)
        rows, rendering = self._call.reload_rows(instances, shape, self._room)
        if writing is not None:
            self._end_write(writing, table, rows)
        self._call.mask_rows(rendering.shown)
        self._call.limit_hook_depth(rows, shape, rendering.cut)
        answer: dict[str, Any] = {"table": table.name, "rows": rows, "count": len(rows)}
        notes = [] if writing is None else [*writing.notes]
        notes += [] if changes is None else changes.finish_hooks()
        return self._call.finish_answer(answer, notes, rendering)

    def _resolve_filters(self, bound: BoundFilters, records: list[Record]) -> Keys:
        """Return the keys of the refs in filters; refs in records are only checked."""
        refs = [*bound.refs()]
        keys = self._call.resolve([*refs, *refs_of_records(bound.table, records)])
        return {ref: keys[ref] for ref in refs}

    def _lock_rows(
        self,
        tool: str,
        bound: BoundFilters,
        conditions: Sequence[Condition],
        arguments: DbUpdate | DbDelete,
    ) -> tuple[list[Any], Callable[[], None]]:
        """Lock and return the matching rows, and verify `expect`.

        Returns:
            the rows, and a function that checks their number, to be called after permissions are
            checked.
        """
        table = bound.table
        reach, expect = split_reach(arguments, bound, self._setting.expect)
        expected = expected_names(table, expect)
        types = self._exact_types(table, expected)
        exact = [getattr(table.model, name) for name in types]
        loaded = [getattr(table.model, name) for name in expected if name not in types]
        statement = (
            select(table.model, *map(select_exact, exact))
            .where(
                *conditions,
                *self._call.write_conditions(table),
                *self._call.visibility.conditions(table, table.model),
            )
            .order_by(*(getattr(table.model, name) for name in table.identity))
            .limit(self._setting.max_written + 1)
            .options(lazyload("*"), *map(undefer, loaded), *map(defer, exact))
            # not `of=model`: its SELECT may have outer joins to the tables of subclasses
            .with_for_update(of=[*inspect(table.model).mapper.tables])
            .execution_options(populate_existing=True)
        )
        instances = self._call.exact.instances(self._session.execute(statement), types)
        if len(instances) > self._setting.max_written:
            raise too_many_rows(tool, self._setting.max_written)
        for instance in instances if expect is not None else ():
            value_in = self._call.exact.of
            for column, expected, actual in differences(table, instance, expect, value_in):
                [ref] = self._call.refs_of([instance], table)
                raise self._call.unexpected_row(table, ref, column, actual, expected)
        return instances, partial(reach.check, len(instances))

    def _exact_types(self, table: ToolTable, expected: Sequence[str]) -> ExactTypes:
        """Return the attributes that are selected as text in rows to write."""
        if not is_exact_on(self._session, table.model):
            return {}
        attributes = inspect(table.model).mapper.column_attrs
        names = [each.key for each in attributes if not each.deferred]
        return exact_types(table.model, dict.fromkeys([*names, *expected]))

    def _empty_answer(
        self,
        writing: Writing,
        table: ToolTable,
        conditions: Sequence[Condition],
        named: Keys,
        confirm: Callable[[], None],
    ) -> dict[str, Any]:
        """Return the answer if no row matches.

        Raises:
            GoneRefError: a named row was deleted.
            ToolError: the owner may only read the matching rows, or the model expects rows.
        """
        hidden = check_existence(self._call, named)
        if self._call.write_conditions(table):
            readable = (
                select(table.model)
                .where(*conditions, *self._call.visibility.conditions(table, table.model))
                .order_by(*(getattr(table.model, name) for name in table.identity))
                .limit(_MAX_NAMED)
                .options(lazyload("*"))
            )
            refs = self._call.refs_of(list(self._session.scalars(readable).unique()), table)
            if refs:
                raise foreign_row(refs[0], None, refs)
        confirm()
        name = "deleted" if writing.verb == "delete" else "rows"
        answer: dict[str, Any] = {"table": table.name, name: [], "count": 0}
        return self._call.finish_answer(answer, [*writing.notes, *hidden, _NOTHING])


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
        self._session.flush()
        self._check_links(batches, builder, changes)
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
            check_existence(self._call, named)
            raise foreign_row(ref, None)
        return found

    def _check_links(self, batches: Sequence[Batch], builder: Builder, changes: Changes) -> None:
        """Check new links, and call the hooks of the rows at their ends."""
        new = [instance for _, instance in builder.made]
        for batch in batches:
            if batch.table.ends and batch.rows:
                writer = LinkWriter(self._call, changes, batch.table)
                writer.check_created([builder.made_of(row) for row in batch.rows], new)
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
