"""Change and delete rows for a model: what it wants in, what was done out.

Rows that are to be changed are found by the filters that a read has, and locked; then they are
changed one by one through the unit of work, so that cascades, versions and events of the ORM hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import inspect, select
from sqlalchemy.orm import lazyload

from alfred_refs.conversation.entries import Draft
from alfred_refs.tools.answers.results import shape_of
from alfred_refs.tools.drafts.writing import DraftWriter
from alfred_refs.tools.payload.expected import differences, expected_loaders
from alfred_refs.tools.payload.payloads import Record, changes, refs_of_records
from alfred_refs.tools.query.filters import Condition, Conditions, Keys, chosen_refs, refs_of
from alfred_refs.tools.reach.telling import ReachReport
from alfred_refs.tools.tables.hooks import Row, Writing
from alfred_refs.tools.tables.permits import Verb
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import DbCreate, DbDelete, DbUpdate

from .call import Call
from .changes import Changes, check_update, put
from .deleting import Deleter
from .errors import foreign_row, too_many_rows, unexpected_row
from .fates import check_there

_NOTHING = "no row matches the filters; nothing was changed"
_MOST_NAMED = 10  # rows that an error names, of those that cannot be changed


class Writer:
    """Writes for one call."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._setting = call.setting
        self._session = call.session
        self._room = call.room()  # for the rows of all tables

    def update(self, arguments: DbUpdate) -> dict[str, Any]:
        """Change rows, and return them as they are then."""
        table = self._setting.tables.named(arguments.table, "update")
        drafts = self._drafts_named(table, arguments)
        if drafts:
            return DraftWriter(self._call, table, drafts).update(arguments)
        record = changes(table, arguments.data)
        named = self._named(table, arguments, [record])
        conditions = Conditions(named).all_of(arguments.filters, table)
        writing = self._begun("update", table, arguments, [record])
        instances = self._locked("db_update", table, conditions, arguments.expect)
        if not instances:
            return self._nothing(writing, table, conditions, named, "rows")
        beside = Changes(self._call, arguments)
        groups = [*beside.by_table(instances)]
        for nearest, _ in groups:  # before any hook is asked
            check_update(nearest, arguments.data)
        values = {nearest: (rows, writing.records[0]) for nearest, rows in groups}
        for nearest, rows in groups:
            if nearest is not table:  # of a subclass, which has rules of its own
                given = dict(writing.records[0])
                values[nearest] = rows, beside.update(nearest, rows, given, arguments.data)
        others = ReachReport(self._call, beside).changed(values)
        for rows, record in values.values():
            put(rows, record)
        self._session.flush()
        return self._shown(table, instances, writing, beside) | others

    def delete(self, arguments: DbDelete) -> dict[str, Any]:
        """Delete rows, and return their refs."""
        table = self._setting.tables.named(arguments.table, "delete")
        drafts = self._drafts_named(table, arguments)
        if drafts:
            return DraftWriter(self._call, table, drafts).delete(arguments)
        named = self._named(table, arguments, [])
        conditions = Conditions(named).all_of(arguments.filters, table)
        writing = self._begun("delete", table, arguments, [])
        instances = self._locked("db_delete", table, conditions, arguments.expect)
        if not instances:
            return self._nothing(writing, table, conditions, named, "deleted")
        refs = self._call.refs_of(instances, table)
        beside = Changes(self._call, arguments)
        others = Deleter(self._call, table, beside).delete(instances)
        self._ended(writing, table, [])
        answer: dict[str, Any] = {"table": table.name, "deleted": refs, "count": len(refs)}
        return self._call.finished(answer | others, [*writing.notes, *beside.end()])

    def _begun(
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

    def _ended(self, writing: Writing, table: ToolTable, rows: list[Row]) -> None:
        for hooks in self._setting.hooks_of(table):
            hooks.after_write(writing, rows)

    def _shown(
        self,
        table: ToolTable,
        instances: Sequence[Any],
        writing: Writing | None = None,
        beside: Changes | None = None,
        include: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Return rows as the database has them, and as hooks leave them if they were written."""
        shape = shape_of(table, None, include)
        rows, rendering = self._call.shown_again(instances, shape, self._room)
        if writing is not None:
            self._ended(writing, table, rows)
        self._call.shorten(rows, shape, rendering.cut)
        answer: dict[str, Any] = {"table": table.name, "rows": rows, "count": len(rows)}
        notes = [] if writing is None else [*writing.notes]
        notes += [] if beside is None else beside.end()
        return self._call.finished(answer, notes, rendering)

    def _drafts_named(
        self, table: ToolTable, arguments: DbUpdate | DbDelete
    ) -> Mapping[str, Draft]:
        """Return the drafts that filters name as rows of a table."""
        return self._call.drafts_named(chosen_refs(arguments.filters, table), table.entity)

    def _named(
        self,
        table: ToolTable,
        arguments: DbUpdate | DbDelete,
        records: list[Record],
    ) -> Keys:
        """Return the keys that refs in filters name, once all refs are known to name something."""
        refs = [*refs_of(arguments.filters, table)]
        keys = self._call.resolved([*refs, *refs_of_records(table, records)])
        return {ref: keys[ref] for ref in refs}

    def _locked(
        self,
        tool: str,
        table: ToolTable,
        conditions: Sequence[Condition],
        expect: str | dict[str, Any] | None,
    ) -> list[Any]:
        """Return the rows that meet conditions, locked, once they are what the model expects."""
        statement = (
            select(table.model)
            .where(*conditions, *self._call.writable(table))
            .order_by(*(getattr(table.model, name) for name in table.identity))
            .limit(self._setting.max_written + 1)
            .options(lazyload("*"), *expected_loaders(table, expect))
            # not the class, which may be read together with the tables of its subclasses
            .with_for_update(of=[*inspect(table.model).mapper.tables])
            .execution_options(populate_existing=True)
        )
        instances = list(self._session.scalars(statement))
        if len(instances) > self._setting.max_written:
            raise too_many_rows(tool, self._setting.max_written)
        for instance in instances if expect is not None else ():
            for column, expected, actual in differences(table, instance, expect):
                [ref] = self._call.refs_of([instance], table)
                raise unexpected_row(ref, column, actual, expected)
        return instances

    def _nothing(
        self,
        writing: Writing,
        table: ToolTable,
        conditions: Sequence[Condition],
        named: Keys,
        name: str,
    ) -> dict[str, Any]:
        """Return the answer if there is no row.

        Raises:
            GoneRefError: a row that is named is not there.
            ToolError: there are some to be read, and none to be changed.
        """
        hidden = check_there(self._call, named)
        if self._call.writable(table):
            readable = (
                select(table.model)
                .where(*conditions)
                .order_by(*(getattr(table.model, name) for name in table.identity))
                .limit(_MOST_NAMED)
                .options(lazyload("*"))
            )
            refs = self._call.refs_of(list(self._session.scalars(readable)), table)
            if refs:
                raise foreign_row(refs[0], None, refs)
        answer: dict[str, Any] = {"table": table.name, name: [], "count": 0}
        return self._call.finished(answer, [*writing.notes, *hidden, _NOTHING])
