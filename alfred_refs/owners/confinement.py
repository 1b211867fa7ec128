"""Row-level access of one session: criteria for what it reads.

What keeps a session that has an owner to the owner's rows.

The session's connections compile by a dialect that confines every statement (`sqla.dialects`);
one that the program has given to the session does so while that executes or flushes, and is in
between as it was, because it is the program's own. What a statement cannot tell is looked at here:
instances that are in the identity map already. `flush` and `writes` see to what is written.

Trusted code lifts the walls, for a statement or for a stretch. What it has loaded stays in the
session and is treated as what it is: a row that is not the owner's is not found by `get()` or a
lazy load, cannot be refreshed, and cannot be written once the walls are up again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakSet

from sqlalchemy import ClauseElement, Column, Connection, func, select
from sqlalchemy.orm import InstanceState, Mapper, ORMExecuteState, Session

from alfred_refs import sqla
from alfred_refs.errors import ForeignRowError, UnconfinedError
from alfred_refs.owners.ownership import Belonging, Owner, as_column_has

State = InstanceState[Any]


@dataclass(slots=True)
class _ConfinedConnection:
    """A connection that a session works on."""

    connection: Connection
    dialect: Any  # its own, which does not confine
    is_own: bool  # nobody else works on it
    check: sqla.WriteCheck
    is_up: bool = False


@dataclass(slots=True, eq=False)
class _Wall:
    """How a stretch of a session's work is confined."""

    up: bool
    executes: bool  # it is one statement of the session's
    seen: object = None  # what was looked at before that was executed


class Confinement:
    """What keeps one session to the rows of its owner.

    Args:
        owner: on whose behalf the session works.
        named: returns the ref of the row that a value of a column names, for errors; `None` where
            it is not known.

    Attributes:
        doubtful: whether the session may have instances whose rows are not the owner's.
        waiting: what waited for a flush when trusted code began: it is the owner's to write.
    """

    def __init__(
        self, owner: Owner, named: Callable[[Any, Any], str | None] = lambda *_: None
    ) -> None:
        self.owner = owner
        self.ownership = owner.ownership
        self.named = named
        self.doubtful = False
        self._parameters: Mapping[str, Any] | None = None
        self._connections: list[_ConfinedConnection] = []
        self._walls: list[_Wall] = []  # the innermost decides
        self._lifts = 0
        self._outliving = WeakSet[State]()
        self.waiting = WeakSet[State]()

    @property
    def lifted(self) -> bool:
        """Whether trusted code is at work."""
        return self._lifts > 0

    # The walls

    @property
    def seen(self) -> object:
        """What was looked at of the statement that the session executes, before it does.

        A listener may execute it in the session's place.
        """
        executing = itertools.takewhile(lambda wall: wall.executes, reversed(self._walls))
        return next((wall.seen for wall in executing if wall.seen is not None), None)

    @seen.setter
    def seen(self, seen: object) -> None:
        if self._walls:
            self._walls[-1].seen = seen

    def on_connect(
        self, connection: Connection, check: sqla.WriteCheck, *, outermost: bool, is_own: bool
    ) -> None:
        """Note that the session begins to work on a connection.

        Args:
            connection: on which row-level security is told who the owner is, for as long as the
                transaction lasts.
            check: looks at what statements on it are about to write.
            outermost: whether a transaction begins with it, and no savepoint.
            is_own: whether the session has taken it from an engine: nobody else works on it, so
                it is confined for as long as the session has it, whoever gets hold of it.
        """
        setting = self.ownership.setting
        if outermost and setting is not None:
            connection.execute(select(func.set_config(setting, str(self.owner.value), True)))
        if all(connection is not known.connection for known in self._connections):
            self._connections.append(
                _ConfinedConnection(connection, connection.dialect, is_own, check)
            )
            self._set()

    def on_disconnect(self) -> None:
        """Note that the session's transaction is over, on all its connections."""
        for joined in self._connections:
            self._put(joined, up=False)
        self._connections.clear()

    def outlive(self, states: Iterable[State]) -> None:
        """Note which instances outlive what they tell: their rows may be another's by now.

        One that is expired shows it by itself.
        """
        self._outliving.update(states)

    @contextmanager
    def walls(self, *, up: bool, executes: bool = False) -> Iterator[None]:
        """Confine all that the session sends inside the `with`, or nothing of it."""
        mine = _Wall(up, executes)
        self._walls.append(mine)
        self._set()
        try:
            yield
        finally:
            # the application may leave its blocks in any order
            self._walls = [each for each in self._walls if each is not mine]
            self._set()

    def _set(self) -> None:
        for joined in self._connections:
            self._put(joined, up=self._walls[-1].up if self._walls else joined.is_own)

    def _put(self, joined: _ConfinedConnection, *, up: bool) -> None:
        if up is joined.is_up:
            return
        joined.is_up = up
        if up and self._parameters is None:
            self._parameters = self.ownership.parameters(self.owner.value)
        if up:
            dialect = self.ownership.dialect_like(joined.dialect)
            sqla.set_dialect(joined.connection, dialect, self._parameters, joined.check)
        else:
            sqla.set_dialect(joined.connection, joined.dialect, None)

    @contextmanager
    def lift(self, *, loads: bool = True) -> Iterator[None]:
        """Confine nothing inside the `with`, in which instances may be loaded or not."""
        self._lifts += 1
        self.doubtful |= loads
        try:
            with self.walls(up=False):
                yield
        finally:
            self._lifts -= 1

    @contextmanager
    def confine_statement(
        self, session: Session, statement: Any, options: Mapping[str, Any]
    ) -> Iterator[None]:
        """Confine a statement inside the `with`, unless trusted code is at work."""
        asks = sqla.is_option_set("unconfined", statement, options)
        self.doubtful |= asks
        is_up = not (asks or self.lifted)
        with self.walls(up=is_up, executes=True):
            yield
        if not (is_up or getattr(statement, "is_select", False)):
            # it may have given rows away
            self.outlive(session.identity_map.all_states())

    def confine_flush(self) -> AbstractContextManager[None]:
        """Confine what is flushed inside the `with`, unless trusted code is at work."""
        return self.walls(up=not self.lifted)

    @contextmanager
    def suspend(self, session: Session) -> Iterator[None]:
        """Confine nothing inside the `with`; what waits for a flush is the owner's as before."""
        if not self.lifted:
            waits = (*session.new, *session.dirty, *session.deleted)
            self.waiting.update(map(sqla.state_of, waits))
        with self.lift():
            yield

    def holds(self, execution: ORMExecuteState) -> bool:
        """Tell whether a statement is to be confined."""
        asks = sqla.is_option_set("unconfined", execution.statement, execution.execution_options)
        return not (self.lifted or asks)

    # What is written

    def owner_columns(self, tables: Iterable[Any]) -> Iterator[Column[Any]]:
        """Yield those columns of tables that have the owner.

        Raises:
            UnconfinedError: a table is unknown to the ownership.
        """
        for table in tables:
            belonging = self.ownership.belonging_of(table)
            if belonging is not None and belonging.column is not None:
                yield belonging.column

    def owner_in(self, column: Column[Any]) -> Any:
        """Return the session's owner as a column has it."""
        return as_column_has(column, self.owner.value)

    def check_owner(self, column: Column[Any], value: Any, what: str) -> None:
        """Refuse another owner than the session's as a value of an owner's column.

        Raises:
            ForeignRowError: it is another's.
            UnconfinedError: it cannot be told.
        """
        if isinstance(value, ClauseElement):
            raise UnconfinedError(f"what {what} is to have", "leave it out: it is filled in")
        value = as_column_has(column, value)
        if value != self.owner_in(column):
            raise ForeignRowError(what, self.named(column, value), named=True)

    # What is in the identity map

    def is_visible(self, session: Session, found: Any) -> bool:
        """Tell whether what the identity map has is to be found: a query if that is not known.

        An instance is, if the owner may read its row.
        """
        if self.lifted or not self.doubtful or not sqla.is_instance(found):
            return True
        return not self.hidden(session, [sqla.state_of(found)], writing=False)

    def hidden(self, session: Session, states: Iterable[State], *, writing: bool) -> list[State]:
        """Return those instances whose rows the owner may not read, or may not write.

        At most one query a class, for those that do not tell by themselves.
        """
        found: list[State] = []
        asked: dict[Mapper[Any], list[State]] = {}
        for state in states:
            verdict = self.verdict(session, state, writing=writing)
            if verdict is None:
                asked.setdefault(state.mapper.base_mapper, []).append(state)
            elif not verdict:
                found.append(state)
        for mapper, some in asked.items():
            identities = [state.key[1] for state in some if state.key is not None]
            there = self.ask(session, mapper.primary_key, identities, writing=writing)
            found += [state for state in some if state.key and state.key[1] not in there]
        return found

    def is_known(self, session: Session, state: State, *, writing: bool) -> bool:
        """Tell whether an instance is the owner's for certain, without a query."""
        if state in self._outliving:
            return False
        if not writing and not self.doubtful:
            return not state.expired
        return self.verdict(session, state, writing=writing) is True

    def verdict(self, session: Session, state: State, *, writing: bool) -> bool | None:
        """Tell whether the owner may read or write an instance's row, as far as that is known.

        It says so by itself: by the owner that was loaded, or its parent.
        """
        belonging = self.ownership.belonging_of(state.mapper.base_mapper.local_table)
        if belonging is None:
            return True
        before = sqla.committed_values(state)
        if belonging.column is not None:
            name = attribute_of(state.mapper, belonging.column)
            if name not in before:
                return None
            is_shared = belonging.shared and before[name] is None and not writing
            value = as_column_has(belonging.column, before[name])
            return is_shared or value == self.owner_in(belonging.column)
        parent = self._parent(session, state, before, belonging)
        return None if parent is None else self.verdict(session, parent, writing=writing)

    def _parent(
        self, session: Session, state: State, before: Mapping[str, Any], belonging: Belonging
    ) -> State | None:
        """Return the instance that decides, if the session has it already."""
        mapper = sqla.mapper_of_table(belonging.parent) if belonging.parent is not None else None
        if mapper is None or {c for _, c in belonging.pairs} != set(mapper.primary_key):
            return None
        keys = {
            theirs: before.get(attribute_of(state.mapper, ours))
            for ours, theirs in belonging.pairs
        }
        key = tuple(keys[cast("Column[Any]", column)] for column in mapper.primary_key)
        identity = mapper.identity_key_from_primary_key(key)
        instance = session.identity_map.get(identity)
        return None if instance is None else sqla.state_of(instance)

    def ask(
        self, session: Session, columns: Any, values: Iterable[tuple[Any, ...]], *, writing: bool
    ) -> set[Any]:
        """Return which values of a table's columns stand in rows that may be read, or written."""
        table = columns[0].table
        criterion = self.ownership.writable(table) if writing else None
        found = select(*columns).where(sqla.in_keys(columns, values))
        if criterion is not None:
            found = found.where(criterion)
        with self.walls(up=True), session.no_autoflush:
            rows = session.execute(
                found,
                execution_options={"raw_keys": True},
                bind_arguments={"mapper": sqla.mapper_of_table(table), "clause": found},
            )
            return set(map(tuple, rows))


def attribute_of(mapper: Mapper[Any], column: Any) -> str:
    """Return the name of the attribute that has a column."""
    return mapper.get_property_by_column(column).key
