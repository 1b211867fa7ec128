"""`Confinement`: tenant isolation of one session.

A session with an owner compiles its statements with a dialect that adds the owner's criteria to
every table (`sqla.compiler`). This class switches the connections of the session to that dialect
and back, and decides what no statement can: whether the owner may access an instance that is in
the identity map already.

When a connection confines:

| connection | confines |
| --- | --- |
| taken from an engine by the session | as long as the session has it |
| given to the session by the application | while the session executes or flushes on it |
| any, inside `session.unconfined()` | never |
| any, for a statement with `execution_options(unconfined=True)` | not for that statement |

>>> from alfred_refs import Ownership
>>> ownership = Ownership({Recipe: "user_id", Line: "recipe"})
>>> with sessions(conversation="chat-8", owner=ownership.of(ann)) as own:
...     print(own.scalars(select(Recipe.name)).all())
...     with own.unconfined():
...         print(own.scalars(select(Recipe.name).order_by(Recipe.name)).all())
['Soup']
['Soup', 'Toast']

Instances that unconfined code has loaded stay in the identity map. `get()` and lazy loads do not
return rows of other owners, and once the code is confined again they can be neither refreshed nor
written.

Limits:

- Statements that the application executes on a connection directly are not confined:
  `session.connection()` raises.
- An owned row in the identity map decides by the owner that was loaded, so it costs no query; if
  the row may have changed hands since, it is queried.
- `writes` checks values that are written; `ownership` has the rules.
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
from alfred_refs.owners.ownership import Belonging, Owner, to_column_type

State = InstanceState[Any]


@dataclass(slots=True)
class _SessionConnection:
    """A connection that a session works on."""

    connection: Connection
    dialect: Any  # the connection's own one, which does not confine
    is_own: bool  # taken from an engine by the session: nobody else works on it
    check: sqla.WriteCheck
    is_confined: bool = False


@dataclass(slots=True, eq=False)
class _Block:
    """A `with` block that decides whether statements are confined."""

    is_confined: bool
    is_statement: bool  # it executes one statement of the session's
    guard: object = None


class Confinement:
    """Keeps one session to the rows of its owner.

    Args:
        owner: on whose behalf the session works.
        ref_of: returns the ref of the row that a value of a column names, for errors; `None` where
            it is not known.

    Attributes:
        may_have_foreign: whether the session may have instances of rows of other owners.
        owned_pending: instances that were pending when unconfined code began: they are written as
            the owner's.
    """

    def __init__(
        self, owner: Owner, ref_of: Callable[[Any, Any], str | None] = lambda *_: None
    ) -> None:
        self.owner = owner
        self.ownership = owner.ownership
        self.ref_of = ref_of
        self.may_have_foreign = False
        self.owned_pending = WeakSet[State]()
        self._parameters: Mapping[str, Any] | None = None
        self._connections: list[_SessionConnection] = []
        self._blocks: list[_Block] = []  # the innermost decides
        self._unconfined_blocks = 0
        self._stale = WeakSet[State]()  # instances whose rows may be another owner's by now

    # Connections

    def on_connect(
        self, connection: Connection, check: sqla.WriteCheck, *, outermost: bool, is_own: bool
    ) -> None:
        """Confine a connection that the session begins to work on.

        Args:
            connection: for row-level security, the owner is set on it for the transaction.
            check: called with INSERT and UPDATE statements before they are sent.
            outermost: whether this begins a transaction, and not a savepoint.
            is_own: whether the session has taken it from an engine. Nobody else works on it, so it
                is confined as long as the session has it, other users of the object included.
        """
        setting = self.ownership.setting
        if outermost and setting is not None:
            connection.execute(select(func.set_config(setting, str(self.owner.value), True)))
        if all(connection is not known.connection for known in self._connections):
            self._connections.append(
                _SessionConnection(connection, connection.dialect, is_own, check)
            )
            self._switch_all()

    def on_disconnect(self) -> None:
        """Release all connections at the end of the session's transaction."""
        for used in self._connections:
            self._switch(used, confined=False)
        self._connections.clear()

    def _switch_all(self) -> None:
        for used in self._connections:
            self._switch(
                used, confined=self._blocks[-1].is_confined if self._blocks else used.is_own
            )

    def _switch(self, used: _SessionConnection, *, confined: bool) -> None:
        if confined is used.is_confined:
            return
        used.is_confined = confined
        if confined and self._parameters is None:
            self._parameters = self.ownership.parameters(self.owner.value)
        if confined:
            dialect = self.ownership.dialect_like(used.dialect)
            sqla.set_dialect(used.connection, dialect, self._parameters, used.check)
        else:
            sqla.set_dialect(used.connection, used.dialect, None)

    # Blocks

    @property
    def is_lifted(self) -> bool:
        """Whether unconfined code is running."""
        return self._unconfined_blocks > 0

    @contextmanager
    def _block(self, *, confined: bool, is_statement: bool = False) -> Iterator[None]:
        block = _Block(confined, is_statement)
        self._blocks.append(block)
        self._switch_all()
        try:
            yield
        finally:
            # not `pop()`: the application may leave its blocks in any order
            self._blocks = [each for each in self._blocks if each is not block]
            self._switch_all()

    @contextmanager
    def lift(self, *, loads: bool = True) -> Iterator[None]:
        """Suspend confinement inside the `with`.

        Args:
            loads: whether instances may be loaded inside it.
        """
        self._unconfined_blocks += 1
        self.may_have_foreign |= loads
        try:
            with self._block(confined=False):
                yield
        finally:
            self._unconfined_blocks -= 1

    @contextmanager
    def lift_for_application(self, session: Session) -> Iterator[None]:
        """Confine nothing inside the `with`, except instances that are pending now."""
        if not self.is_lifted:
            pending = (*session.new, *session.dirty, *session.deleted)
            self.owned_pending.update(map(sqla.state_of, pending))
        with self.lift():
            yield

    @contextmanager
    def confine_statement(
        self, session: Session, statement: Any, options: Mapping[str, Any]
    ) -> Iterator[None]:
        """Confine a statement inside the `with`, unless it is unconfined."""
        is_unconfined = sqla.is_option_set("unconfined", statement, options)
        self.may_have_foreign |= is_unconfined
        is_confined = not (is_unconfined or self.is_lifted)
        with self._block(confined=is_confined, is_statement=True):
            yield
        if not (is_confined or getattr(statement, "is_select", False)):
            # it may have changed the owner of any row
            self.mark_stale(session.identity_map.all_states())

    def confine_flush(self) -> AbstractContextManager[None]:
        """Confine flushes inside the `with`, unless unconfined code is running."""
        return self._block(confined=not self.is_lifted)

    def applies_to(self, execution: ORMExecuteState) -> bool:
        """Return whether a statement is confined."""
        is_unconfined = sqla.is_option_set(
            "unconfined", execution.statement, execution.execution_options
        )
        return not (self.is_lifted or is_unconfined)

    @property
    def statement_guard(self) -> object:
        """The guard that has checked the statement which is being executed, if there is one.

        A `do_orm_execute` listener may execute it in the session's place, in blocks of its own.
        """
        statements = itertools.takewhile(lambda block: block.is_statement, reversed(self._blocks))
        return next((block.guard for block in statements if block.guard is not None), None)

    @statement_guard.setter
    def statement_guard(self, guard: object) -> None:
        if self._blocks:
            self._blocks[-1].guard = guard

    # The owner's columns

    def owner_columns(self, tables: Iterable[Any]) -> Iterator[Column[Any]]:
        """Yield the owner's columns of tables.

        Raises:
            UnconfinedError: the ownership does not know a table.
        """
        for table in tables:
            belonging = self.ownership.belonging_of(table)
            if belonging is not None and belonging.column is not None:
                yield belonging.column

    def owner_value(self, column: Column[Any]) -> Any:
        """Return the session's owner in the type of a column."""
        return to_column_type(column, self.owner.value)

    def check_owner(self, column: Column[Any], value: Any, what: str) -> None:
        """Check that a value of an owner's column is the session's owner.

        Raises:
            ForeignRowError: it is another owner.
            UnconfinedError: it is an SQL expression.
        """
        if isinstance(value, ClauseElement):
            raise UnconfinedError(f"an expression for {what}", "omit the column; it is set")
        value = to_column_type(column, value)
        if value != self.owner_value(column):
            raise ForeignRowError(what, self.ref_of(column, value), named=True)

    # Instances in the identity map

    def is_visible(self, session: Session, found: Any) -> bool:
        """Return whether the owner may see an instance, or other value, of the identity map.

        An instance is visible if the owner may read its row: a query if that is not known.
        """
        if self.is_lifted or not self.may_have_foreign or not sqla.is_instance(found):
            return True
        return not self.inaccessible(session, [sqla.state_of(found)], writing=False)

    def inaccessible(
        self, session: Session, states: Iterable[State], *, writing: bool
    ) -> list[State]:
        """Return the instances whose rows the owner may not read, or may not write.

        At most one query for each class, for the instances that do not decide it themselves.
        """
        denied: list[State] = []
        undecided: dict[Mapper[Any], list[State]] = {}
        for state in states:
            access = self.known_access(session, state, writing=writing)
            if access is None:
                undecided.setdefault(sqla.root_of(state.mapper), []).append(state)
            elif not access:
                denied.append(state)
        for mapper, of_class in undecided.items():
            identities = [state.key[1] for state in of_class if state.key is not None]
            accessible = self.accessible_values(
                session, mapper.primary_key, identities, writing=writing
            )
            denied += [state for state in of_class if state.key and state.key[1] not in accessible]
        return denied

    def mark_stale(self, states: Iterable[State]) -> None:
        """Note instances whose rows may have another owner than the loaded one by now.

        Expired instances are loaded again anyway.
        """
        self._stale.update(states)

    def is_certain(self, session: Session, state: State, *, writing: bool) -> bool:
        """Return whether the owner may certainly access an instance's row; no query."""
        if state in self._stale:
            return False
        if not writing and not self.may_have_foreign:
            return not state.expired
        return self.known_access(session, state, writing=writing) is True

    def may_be_foreign(self, session: Session, state: State) -> bool:
        """Return whether an instance may be a row of another owner, which trusted code has loaded.

        No query: an instance whose owner is not loaded may be one.
        """
        is_possible = self.may_have_foreign or state in self._stale
        return is_possible and not self.is_certain(session, state, writing=False)

    def known_access(self, session: Session, state: State, *, writing: bool) -> bool | None:
        """Return whether the owner may access an instance's row, or None if that needs a query.

        It is decided by the owner that was loaded, or by the instance of the parent row.
        """
        belonging = self.ownership.belonging_of(sqla.root_of(state.mapper).local_table)
        if belonging is None:
            return True
        loaded = sqla.committed_values(state)
        if belonging.column is not None:
            name = attribute_of(state.mapper, belonging.column)
            if name not in loaded:
                return None
            is_shared = belonging.shared and loaded[name] is None and not writing
            value = to_column_type(belonging.column, loaded[name])
            return is_shared or value == self.owner_value(belonging.column)
        parent = self._parent(session, state, loaded, belonging)
        return None if parent is None else self.known_access(session, parent, writing=writing)

    def _parent(
        self, session: Session, state: State, loaded: Mapping[str, Any], belonging: Belonging
    ) -> State | None:
        """Return the instance of the row that decides, if it is in the identity map."""
        mapper = sqla.mapper_of_table(belonging.parent) if belonging.parent is not None else None
        if mapper is None or {c for _, c in belonging.pairs} != set(mapper.primary_key):
            return None
        values = {
            theirs: loaded.get(attribute_of(state.mapper, ours))
            for ours, theirs in belonging.pairs
        }
        key = tuple(values[cast("Column[Any]", column)] for column in mapper.primary_key)
        instance = session.identity_map.get(mapper.identity_key_from_primary_key(key))
        return None if instance is None else sqla.state_of(instance)

    def accessible_values(
        self, session: Session, columns: Any, values: Iterable[tuple[Any, ...]], *, writing: bool
    ) -> set[Any]:
        """Return those values of a table's columns whose rows the owner may read, or write."""
        table = columns[0].table
        rows = select(*columns).where(sqla.in_keys(columns, values))
        writable = self.ownership.writable(table) if writing else None
        if writable is not None:
            rows = rows.where(writable)
        with self._block(confined=True), session.no_autoflush:
            result = session.execute(
                rows,
                execution_options={"raw_keys": True},
                bind_arguments={"mapper": sqla.mapper_of_table(table), "clause": rows},
            )
            return set(map(tuple, result))


def attribute_of(mapper: Mapper[Any], column: Any) -> str:
    """Return the name of the attribute that a column is mapped to."""
    return mapper.get_property_by_column(column).key
