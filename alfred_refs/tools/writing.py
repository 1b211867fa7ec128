"""`db_update` and `db_delete`; `creating` has `db_create`.

>>> only = {"field": "id", "op": "=", "value": "recipe_1"}
>>> given = {"table": "recipes", "filters": [only], "data": {"servings": 4}, "expect": "Soup"}
>>> toolset.call(session, "db_update", given)["rows"]
[{'id': 'recipe_1', 'name': 'Soup', 'servings': 4}]
>>> given = {"table": "recipes", "filters": [only], "expect": "Soup"}
>>> toolset.call(session, "db_delete", given)["deleted"]
['recipe_1']

- `Writer` updates and deletes. The rows are selected by the filters of a read and locked (FOR
  UPDATE); then they are changed one by one through the unit of work, so that cascades, version
  counters and ORM events apply.
- `Deleter` finds the rows that the mapping and the schema delete or unlink with the others
  (`cascades`), before the delete. The call is refused, with refs, if a row blocks the delete or
  the model may not change a row.

Each write calls the hooks of its class: `before_write` before the flush, `after_write` after it,
in the same transaction.

Limits: one call changes at most `max_written` rows, including cascades. Rows of unlisted tables
are not named in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import inspect, select
from sqlalchemy.exc import CircularDependencyError
from sqlalchemy.orm import defer, lazyload, undefer
from sqlalchemy.orm.exc import StaleDataError
from sqlalchemy.util import IdentitySet

from alfred_refs import sqla
from alfred_refs.tools.answers import shape_of
from alfred_refs.tools.arguments import DbCreate, DbDelete, DbUpdate
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
)
from alfred_refs.tools.drafts import DraftWriter
from alfred_refs.tools.errors import (
    circular_reference,
    foreign_row,
    too_many_rows,
)
from alfred_refs.tools.exact import ExactTypes, exact_types, is_exact_on, select_exact
from alfred_refs.tools.faults import refusing_values
from alfred_refs.tools.filters import BoundFilters, Condition, Keys
from alfred_refs.tools.hooks import Row, Writing
from alfred_refs.tools.labels import labelled_refs
from alfred_refs.tools.links import LinkWriter, repeated_link
from alfred_refs.tools.payload import Record, refs_of_records, update_record
from alfred_refs.tools.preconditions import differences, expected_names, label_of, split_reach
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
        except StaleDataError as error:
            name = sqla.repeated_links_in(error)
            if name is None:
                raise
            raise repeated_link(self._table.name, self._links_in(name)) from None
        return others

    def _links_in(self, name: str) -> str | None:
        """Return what the model calls an association table, if it may delete its rows."""
        tables = (t for t in self._call.setting.tables if t.ends and "delete" in t.verbs)
        return next((t.name for t in tables if inspect(t.model).local_table.name == name), None)

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
            .order_by(*table.primary_key())
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
        hidden = self._call.check_existence(named)
        if self._call.write_conditions(table):
            readable = (
                select(table.model)
                .where(*conditions, *self._call.visibility.conditions(table, table.model))
                .order_by(*table.primary_key())
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
