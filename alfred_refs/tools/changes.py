"""What a call writes beside the rows that its arguments name: only what a model may write.

Rows that a call reaches come in: those of a subclass that its filters hit, those that a draft
takes from where they are, those that go along with what is deleted or lose their reference to it.
They are refused, or the hooks of their class are asked, before the call flushes, which it does
once. What the application's own hooks and listeners add is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import ONETOMANY

from alfred_refs import sqla
from alfred_refs.positions.writing import give
from alfred_refs.tools.answers.results import shape_of
from alfred_refs.tools.payload.payloads import Record
from alfred_refs.tools.tables.hooks import Row, Writing
from alfred_refs.tools.tables.permits import Verb
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.wire.arguments import DbCreate, DbDelete, DbEditList, DbUpdate

from .call import Call
from .errors import foreign_row

Arguments = DbCreate | DbUpdate | DbDelete | DbEditList


class Changes:
    """What one call writes."""

    def __init__(self, call: Call, arguments: Arguments) -> None:
        self._call = call
        self._arguments = arguments
        # of which hooks were asked, beside the one that the arguments name
        self._writes: list[tuple[ToolTable, Writing, Sequence[Any]]] = []

    def by_table(self, instances: Iterable[Any]) -> Iterator[tuple[ToolTable, list[Any]]]:
        """Yield rows by the tables that a model knows them by: the nearest of their classes."""
        found: dict[ToolTable, list[Any]] = {}
        for instance in instances:
            table = self._call.setting.tables.of_model(type(instance))
            if table is None:
                raise foreign_row(None, None)
            found.setdefault(table, []).append(instance)
        yield from found.items()

    def update(
        self, table: ToolTable, instances: Sequence[Any], record: Record, fixed: Iterable[str]
    ) -> Record:
        """Have rows of a table changed, if a model may do that, and return what hooks leave.

        Of the record, `fixed` is what the model says or the mapping does; hooks may add more.
        """
        check_update(table, fixed)
        return self.ask(table, "update", instances, [record]).records[0]

    def ask(
        self,
        table: ToolTable,
        verb: Verb,
        instances: Sequence[Any],
        records: Iterable[Record] = (),
        refs: Sequence[str] | None = None,
    ) -> Writing:
        """Ask the hooks of a table of a write that its rows are reached by.

        Instances are there if the rows are loaded, or once they are made; refs if they are known.
        """
        records = [*records]
        writing = Writing(self._call.session, table.model, verb, self._arguments, records)
        hooks = self._call.setting.hooks_of(table)
        if hooks:
            writing.refs = self._call.refs_of(instances, table) if refs is None else refs
            with self._call.session.no_autoflush:  # what is not held yet is not sent
                for each in hooks:
                    each.before_write(writing)
            self._writes.append((table, writing, instances))
        return writing

    def end(self) -> list[str]:
        """Have hooks look at the rows that were reached, and return what they tell the model."""
        notes: list[str] = []
        for table, writing, instances in self._writes:
            rows: list[Row] = []
            if writing.verb != "delete":
                shape = shape_of(table, None)
                rows, _ = self._call.shown_again(instances, shape, self._call.room())
            for hooks in self._call.setting.hooks_of(table):
                hooks.after_write(writing, rows)
            notes += writing.notes
        return notes


def check_update(table: ToolTable, names: Iterable[str]) -> None:
    """Check that a model may change some columns of rows that are there."""
    table.check("update")
    for name in names:
        if name not in table.columns or not table.columns[name].updatable:
            usable = [each.name for each in table.columns.values() if each.updatable]
            raise table.not_written(name, usable)


def check_create(table: ToolTable, names: Iterable[str]) -> None:
    """Check that a model may have columns of a new row filled by where the row goes.

    Those that it does not see are filled in any case.
    """
    for name in names:
        if name in table.columns and not table.columns[name].creatable:
            usable = [each.name for each in table.columns.values() if each.creatable]
            raise table.not_written(name, usable)


def put(instances: Iterable[Any], record: Mapping[str, Any]) -> None:
    """Change rows."""
    for instance in instances:
        give(instance, record)


def replaced(instance: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield the rows that have lost an instance to others, and the columns that say it.

    Where one row alone may be related, the mapping takes the place of the one that was.
    """
    state = sqla.state_of(instance)
    for each in state.mapper.relationships:
        if each.direction is ONETOMANY and not each.viewonly:
            names = sqla.attributes_of(each.mapper, each.remote_side)
            columns = [names.get(column, "") for column in each.remote_side]
            for other in state.attrs[each.key].history.deleted or ():
                yield other, columns
