"""Edit a list of one row for a model, by position: all edits of a call, or none.

The list as it is comes in with the edits; the list as it is then goes out, each item under its
position. What the edits come to is planned first (`alfred_refs.positions`), and each row of the
plan passes what a row passes that another tool writes: permits, hooks, the search for what goes
along. Positions, and which row has a list, are what the tool is about: they are written where a
model may update the rows, whether or not it sees these columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import inspect, select

from alfred_refs import sqla
from alfred_refs.errors import ListError, SetupError
from alfred_refs.positions.edits import Add, Edit, Modify, Move, Remove
from alfred_refs.positions.executor import execute
from alfred_refs.positions.lists import RowLevel
from alfred_refs.positions.snapshot import Snapshot
from alfred_refs.positions.writing import NewRow, Plan, RowChange, plan_of, write
from alfred_refs.tools.call import Call
from alfred_refs.tools.changes import Changes, check_create, check_update
from alfred_refs.tools.deleting import Deleter
from alfred_refs.tools.drafts.lists import DraftLists
from alfred_refs.tools.errors import fixed_item, foreign_row, unordered_list
from alfred_refs.tools.fates import check_there
from alfred_refs.tools.payload.payloads import (
    check_complete,
    refs_of_records,
)
from alfred_refs.tools.query.filters import Conditions
from alfred_refs.tools.reach.telling import ReachReport
from alfred_refs.tools.tables.lists import list_named
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import DbEditList, FilterClause, ListEdit

from .answers import ListAnswers
from .items import ItemRules

_MOST_NAMED = 10  # rows that an error names, of those that cannot be changed


class ListEditor:
    """Edits a list for one call."""

    def __init__(self, call: Call, arguments: DbEditList) -> None:
        self._call = call
        self._arguments = arguments
        self._table = call.setting.tables.named(arguments.table)
        self._list = list_named(self._table, arguments.name)
        self._changes = Changes(call, arguments)
        self._made: list[tuple[list[Any], Sequence[NewRow]]] = []  # what hooks are to look at

    def edit(self) -> dict[str, Any]:
        """Edit the list, and return it as it is then; or as it would be, for a preview."""
        arguments = self._arguments
        edits = [_edit(each) for each in arguments.edits]
        drafts = self._call.drafts_named([arguments.row], self._table.entity)
        if drafts:
            return DraftLists(self._call, self._list, drafts[arguments.row]).edit(arguments, edits)
        row = self._row()
        snapshot = self._snapshot(row, lock=not arguments.preview)
        if arguments.token is not None:
            snapshot.check(self._list.name, arguments.token)
        outcome = execute(
            snapshot.root, edits, self._list.name, ItemRules(self._call, self._list, snapshot)
        )
        shown = ListAnswers(self._call, self._list)
        plan = plan_of(snapshot, outcome)
        self._check(plan)
        if arguments.preview:
            return shown.answer(arguments, snapshot, outcome.modified, [])
        told = self._hold(plan)
        write(self._call.session, plan)
        for made, news in self._made:
            made += [new.row for new in news]
        now = self._snapshot(row, lock=False)
        return shown.answer(arguments, now, {}, self._changes.end()) | told

    def _row(self) -> Any:
        """Return the row that has the list.

        Raises:
            BadRefError: there is none.
            ToolError: it is not for the session to change.
        """
        table, ref = self._table, self._arguments.row
        keys = self._call.resolved([(ref, table.entity)])
        named = FilterClause(field=table.ref_field, op="=", value=ref)
        statement = select(table.model).where(*Conditions(keys).all_of([named], table))
        found = self._call.session.scalars(
            statement.where(*self._call.writable(table))
        ).one_or_none()
        if found is None:
            check_there(self._call, keys)
            raise foreign_row(ref, None)
        return found

    def _snapshot(self, row: Any, *, lock: bool) -> Snapshot:
        """Return the list as it is; rows without order have one where the model has seen it."""
        seen = self._arguments.preview or self._arguments.token is not None
        try:
            return Snapshot.read(
                self._call.session, row, self._list.levels, lock=lock, repair=seen
            )
        except ListError as error:
            raise unordered_list(self._list.name, error.fact, is_seen=seen) from None

    def _hold(self, plan: Plan) -> dict[str, list[str]]:
        """Have hooks look at all that is planned, and hold what goes along to what a model may do.

        Rows that are removed are deleted here, where that is what becomes of them.

        Returns:
            the refs of rows that go, or are changed, with others.
        """
        told: dict[str, list[str]] = {}
        for level, rows in _by_level(plan.removed):
            if level.deletes:
                target = self._target(level)
                for table, same in self._changes.by_table(rows):
                    if table is target:
                        self._changes.ask(table, "delete", same)
                _add(told, Deleter(self._call, target, self._changes).delete(rows))
        plan.removed = [(row, level) for row, level in plan.removed if not level.deletes]
        self._hold_changed(plan, told)
        for level, news in _by_level((new, new.level) for new in plan.added):
            self._hold_new(self._target(level), news)
        return told

    def _check(self, plan: Plan) -> None:
        """Check what a model may do, before anything is done or any hook is asked.

        Raises:
            ToolError: something is not for it.
            BadRefError: what it refers to is not known.
        """
        self._check_owned(
            [*(row for row, _ in plan.removed), *(each.row for each in plan.changed)]
        )
        refs: list[tuple[str, str]] = []
        leaving: list[tuple[Any, Sequence[str]]] = [
            (row, level.parents) for row, level in plan.removed if not level.deletes
        ]
        for row, level in plan.removed:
            for table, _ in self._changes.by_table([row] if level.deletes else ()):
                table.check("delete")
        for each in plan.changed:
            [(table, _)] = self._changes.by_table([each.row])
            check_update(table, each.given)
            refs += refs_of_records(table, [each.given])
            named = () if each.level is None else each.level.parents
            leaving.append((each.row, [name for name in named if name in each.placed]))
        for row, parents in leaving:
            for table, _ in self._changes.by_table([row]):
                table.check("update")
                columns = [table.columns.get(name) for name in parents]
                if not all(column is not None and column.updatable for column in columns):
                    raise fixed_item(self._list.name)
        for new in plan.added:
            target = self._target(new.level)
            target.check("create")
            check_create(target, new.level.parents)
            refs += refs_of_records(target, [new.values])
        self._call.resolved(refs)

    def _check_owned(self, rows: Iterable[Any]) -> None:
        """Check that rows are the owner's, and not only to be read: one statement a table."""
        for table, same in self._changes.by_table(rows):
            rules = self._call.writable(table)
            if not rules:
                continue
            keys = [inspect(table.model).mapper.primary_key_from_instance(row) for row in same]
            columns = [getattr(table.model, name) for name in table.identity]
            statement = select(*columns).where(sqla.among(columns, keys), *rules)
            found = self._call.session.execute(statement, execution_options={"raw_keys": True})
            owned = {*map(tuple, found)}
            others = [each for each, key in zip(same, keys, strict=True) if key not in owned]
            if others:
                refs = self._call.refs_of(others[:_MOST_NAMED], table)
                raise foreign_row(refs[0], None, refs)

    def _hold_changed(self, plan: Plan, told: dict[str, list[str]]) -> None:
        """Have hooks look at rows that stay, each with what it is given; all that move at once."""
        report = ReachReport(self._call, self._changes)
        unlinked = [
            RowChange(row, None, placed=dict.fromkeys(level.parents))
            for row, level in plan.removed
        ]
        moved: dict[ToolTable, list[RowChange]] = {}
        for each in [*plan.changed, *unlinked]:
            [(table, rows)] = self._changes.by_table([each.row])
            if each.given:
                each.given = self._changes.update(table, rows, dict(each.given), each.given)
            else:
                moved.setdefault(table, []).append(each)
        for table, same in moved.items():
            record = self._changes.update(table, [each.row for each in same], {}, ())
            for each in same:
                each.given = {**record}
        for each in [*plan.changed, *unlinked]:
            [(table, rows)] = self._changes.by_table([each.row])
            _add(told, report.changed({table: (rows, {**each.given, **each.placed})}))
        # their references are written with what is removed
        plan.changed += [replace(each, placed={}) for each in unlinked if each.given]

    def _hold_new(self, target: ToolTable, news: Sequence[NewRow]) -> None:
        """Have hooks look at new rows of one list.

        Raises:
            SetupError: a hook adds some, or takes some out.
        """
        records = [{**new.values, **new.placed} for new in news]
        made: list[Any] = []
        writing = self._changes.ask(target, "create", made, records)
        if len(writing.records) != len(news):
            raise SetupError(
                f"a hook of {target.model.__qualname__!r} changed how many records there are, "
                "and each has its position",
                "have it change the records, or refuse the call with a ToolError",
            )
        check_complete(target, writing.records)
        self._call.resolved(refs_of_records(target, writing.records))
        for new, record in zip(news, writing.records, strict=True):
            new.values = {n: value for n, value in record.items() if n not in new.placed}
        self._made.append((made, news))

    def _target(self, level: RowLevel) -> ToolTable:
        return self._list.tables[1 + [*self._list.levels].index(level)]


def _edit(given: ListEdit) -> Edit:
    """Return an edit as the executor takes it."""
    path: Any = given.ref if given.path is None else given.path
    to: Any = given.to
    match given.action:
        case "modify":
            return Modify(path, given.data, given.expect)
        case "remove":
            return Remove(path, given.expect)
        case "add":
            return Add(path, given.data)
        case "move":
            return Move(path, to, given.expect)


def _by_level(pairs: Iterable[tuple[Any, RowLevel]]) -> Iterator[tuple[RowLevel, list[Any]]]:
    found: dict[RowLevel, list[Any]] = {}
    for each, level in pairs:
        found.setdefault(level, []).append(each)
    yield from found.items()


def _add(told: dict[str, list[str]], more: Mapping[str, Sequence[str]]) -> None:
    for name, refs in more.items():
        told[name] = [*dict.fromkeys([*told.get(name, ()), *refs])]
