"""What a delete takes along or unlinks, known before anything is sent.

Rows that are to be deleted come in; a `Reach` goes out: rows that would go too, rows that would
lose their reference, and rows that are in the way, through the unit of work and through the rules
of the database, at any depth. One statement for each way in which a class is referred to, none
where nothing refers. Nothing is changed, and no instance is loaded: the rows of other owners, and
those that the application hides, are found too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import Column, Select, Table, func, inspect, select, true, tuple_
from sqlalchemy.orm import Mapper

from alfred_refs import sqla
from alfred_refs.errors import UnconfinedError

from .calls import Call
from .edges import Edge, edges_by_update, edges_to
from .errors import TooManyRowsError
from .table import ToolTable

MOST_UNSEEN = 10_000
"""Rows of tables that no model may use which one call looks at: they belong to what it deletes."""

_CHUNK = 1_000  # keys in one statement


@dataclass(frozen=True, slots=True)
class Found:
    """A row that would be changed.

    Attributes:
        mapper: of its class; `None` where no class is mapped to its table.
        table: in which it is.
        key: its primary key, as the database has it.
        tool_table: what the model knows it by, `None` if it may not use the class.
        edge: how it refers to what goes; `None` if it goes by the mapping of what refers to it.
        is_writable: whether the session's owner may write it.
    """

    mapper: Mapper[Any] | None
    table: Table
    key: tuple[Any, ...]
    tool_table: ToolTable | None
    edge: Edge | None = None
    is_writable: bool = True

    @property
    def identity(self) -> tuple[Any, tuple[Any, ...]]:
        """What tells it from all other rows."""
        return (self.table if self.mapper is None else self.mapper.base_mapper), self.key


@dataclass(slots=True)
class Reach:
    """What goes along with rows that are deleted.

    Attributes:
        deleted: what would go, by identity; the rows that were asked for too.
        unlinked: what would lose its reference.
        staying: what is in the way.
        roots: the identities of the rows that were asked for.
    """

    deleted: dict[Any, Found] = field(default_factory=dict)
    unlinked: dict[Any, Found] = field(default_factory=dict)
    staying: dict[Any, Found] = field(default_factory=dict)
    roots: set[Any] = field(default_factory=set)

    def others(self) -> tuple[list[Found], list[Found], list[Found]]:
        """Return what is deleted beside the rows asked for, what is unlinked, what is in the way.

        Each row once: one that goes is neither unlinked nor in the way.
        """
        gone = self.deleted.keys()
        along = [found for key, found in self.deleted.items() if key not in self.roots]
        staying = [found for key, found in self.staying.items() if key not in gone]
        unlinked = [found for key, found in self.unlinked.items() if key not in gone]
        return along, unlinked, staying


class Searcher:
    """Finds what a delete reaches.

    Args:
        call: that deletes.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._tables = call.setting.tables
        self._unseen = 0
        self.reach = Reach()

    def search(self, instances: Iterable[Any], *, along: bool = False) -> Reach:
        """Return what goes with rows that are to be deleted, beside what was found before.

        Args:
            instances: the rows.
            along: whether they go because of others, as the mapping says, and were not asked for.

        Raises:
            TooManyRowsError: there is too much of it.
        """
        waiting = deque[Found]()
        for instance in instances:
            found = self._of(instance)
            if not along:
                self.reach.roots.add(found.identity)
            if found.identity not in self.reach.deleted:
                self._enter(found, self.reach.deleted)
                waiting.append(found)
        while waiting:
            groups: dict[Any, list[Found]] = {}
            while waiting:
                found = waiting.popleft()
                groups.setdefault(found.mapper or found.table, []).append(found)
            for group in groups.values():
                waiting += self._referring(group)
        return self.reach

    def search_changed(self, instances: Sequence[Any], names: Collection[str]) -> list[Found]:
        """Return what the database changes with rows that get other values: no statement mostly.

        Args:
            instances: the rows, of one class.
            names: of the attributes that are changed.

        Raises:
            TooManyRowsError: there is too much of it.
        """
        first, *_ = group = [self._of(instance) for instance in instances]
        found: dict[Any, Found] = {}
        for edge in edges_by_update(cast("Mapper[Any]", first.mapper), names):
            mapper = sqla.mapper_of_table(edge.table)
            if self._is_listed(edge.table):
                keys = [each.key for each in group]
                found |= {each.identity: each for each in self._rows(edge, mapper, first, keys)}
        most = self._call.setting.max_written
        if len(found.keys() | {each.identity for each in group}) > most:
            raise TooManyRowsError("db_update", most, along=True)
        return [*found.values()]

    def _of(self, instance: Any) -> Found:
        state = sqla.state_of(instance)
        key = cast(tuple[Any, ...], state.key and state.key[1])
        table = cast(Table, state.mapper.local_table)
        return Found(state.mapper, table, key, self._tables.of_model(state.class_))

    def _referring(self, group: Sequence[Found]) -> Iterator[Found]:
        """Note what refers to some rows of one class, and yield what goes of it."""
        first = group[0]
        for edge in edges_to(first.mapper, first.table):
            mapper = sqla.mapper_of_table(edge.table)
            if self._is_needless(edge, mapper):
                continue
            for start in range(0, len(group), _CHUNK):
                keys = [each.key for each in group[start : start + _CHUNK]]
                for found in self._rows(edge, mapper, first, keys):
                    yield from self._note(found, edge)

    def _is_needless(self, edge: Edge, mapper: Mapper[Any] | None) -> bool:
        """Tell whether it makes no difference which rows refer in one way.

        What no model may use goes or is unlinked as the mapping and the schema say, unnamed.
        """
        if self._is_listed(edge.table) or not edge.said or edge.effect == "stay":
            return False
        return edge.effect == "unlink" or not any(edges_to(mapper, edge.table))

    def _is_listed(self, table: Table) -> bool:
        return any(table in inspect(each.model).mapper.tables for each in self._tables)

    def _note(self, found: Found, edge: Edge) -> Iterator[Found]:
        if edge.effect == "delete":
            if found.identity not in self.reach.deleted:
                self._enter(found, self.reach.deleted)
                yield found
        elif edge.effect == "unlink":
            self._enter(found, self.reach.unlinked)
        else:
            self.reach.staying.setdefault(found.identity, found)

    def _enter(self, found: Found, among: dict[Any, Found]) -> None:
        """Note a row that is changed, and count it."""
        if among.setdefault(found.identity, found) is not found:
            return
        reach, most = self.reach, self._call.setting.max_written
        self._unseen += found.tool_table is None
        seen = len(reach.deleted.keys() | reach.unlinked.keys()) - self._unseen
        if seen > most or self._unseen > MOST_UNSEEN:
            raise TooManyRowsError("db_delete", most, along=True)

    def _rows(
        self, edge: Edge, mapper: Mapper[Any] | None, to: Found, keys: Sequence[tuple[Any, ...]]
    ) -> Iterator[Found]:
        """Yield the rows that refer to others, by the keys of those: one statement."""
        statement = _statement(edge, mapper, to, keys)
        kind = None if mapper is None else _discriminator(mapper)
        statement = statement.add_columns(
            true() if kind is None else kind, self._writable(mapper).label("alfred_writable")
        ).limit(self._most(edge.table) + 1)
        rows = self._call.session.execute(
            statement,
            # keys, and all that there is: what the owner cannot see would be changed too
            execution_options={"raw_keys": True, "unconfined": True},
            bind_arguments={} if mapper is None else {"mapper": mapper},
        )
        for *key, said, is_writable in rows:
            of = mapper
            if mapper is not None and kind is not None:
                of = mapper.polymorphic_map.get(said, mapper)
            yield Found(of, edge.table, tuple(key), self._listed(of, edge), edge, is_writable)

    def _most(self, table: Table) -> int:
        return self._call.setting.max_written if self._is_listed(table) else MOST_UNSEEN

    def _writable(self, mapper: Mapper[Any] | None) -> Any:
        owner = self._call.session.owner
        if owner is None or mapper is None:
            return true()
        try:
            return func.coalesce(owner.writable(mapper.class_), False)  # to SQL
        except UnconfinedError:  # of no owner's, as no listed class is
            return true()

    def _listed(self, mapper: Mapper[Any] | None, edge: Edge) -> ToolTable | None:
        """Return what the model knows rows by: their class, or another one on their table."""
        found = None if mapper is None else self._tables.of_model(mapper.class_)
        same = (t for t in self._tables if inspect(t.model).local_table is edge.table)
        return next(same, None) if found is None and _is_root(mapper) else found


def _is_root(mapper: Mapper[Any] | None) -> bool:
    return mapper is None or mapper.inherits is None


def _discriminator(mapper: Mapper[Any]) -> Column[Any] | None:
    column = mapper.polymorphic_on
    return column if isinstance(column, Column) else None


def _statement(
    edge: Edge, mapper: Mapper[Any] | None, to: Found, keys: Sequence[tuple[Any, ...]]
) -> Select[Any]:
    """Return what reads the primary keys of referring rows."""
    source = edge.table if mapper is None else mapper.persist_selectable
    primary: Sequence[Any] = [*edge.table.primary_key] if mapper is None else [*mapper.primary_key]
    there: Any = to.table if to.mapper is None else to.mapper.persist_selectable
    identity = [*to.table.primary_key] if to.mapper is None else [*to.mapper.primary_key]
    # a table may refer to itself: what is inside is a query of its own
    referred = (
        select(*edge.referred).select_from(there).where(sqla.among(identity, keys)).correlate(None)
    )
    columns: Any = tuple_(*edge.columns) if len(edge.columns) > 1 else edge.columns[0]
    return select(*primary).select_from(source).where(columns.in_(referred)).order_by(*primary)
