"""What a session that has an owner flushes: new rows are the owner's, others are not written.

New instances are stamped and all are looked at before anything is sent; what later listeners have
added or changed is looked at again when it is sent and not yet committed. Beneath that, every
statement of the flush is confined like any other: a row of somebody else's is never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakSet

from sqlalchemy import Table
from sqlalchemy.orm import InstanceState, Session, UOWTransaction, attributes

from alfred_refs import sqla
from alfred_refs.errors import ForeignRowError

from .confinement import Confinement, attribute_of
from .references import References, changed_values

State = InstanceState[Any]


class OwnedFlush:
    """One flush of a session that has an owner; `only` some of it may be the owner's."""

    def __init__(
        self, confinement: Confinement, session: Session, only: WeakSet[State] | None = None
    ) -> None:
        self._confinement = confinement
        self._only = only
        self._session = session
        self._references = References(confinement, session)
        self._seen: set[State] = set()

    def begin(self) -> None:
        """Stamp what is new, and look at all that is to be flushed.

        Raises:
            ForeignRowError: something is not the owner's to write, or names what is not there for
                the owner.
            UnconfinedError: a class is unknown to the ownership.
        """
        session = self._session
        new = self._owned(map(sqla.state_of, session.new))
        there = self._owned(map(sqla.state_of, (*session.dirty, *session.deleted)))
        for state in new:
            self._stamp(state)
        self._look_at(new, there)

    def save(self, objects: Iterable[object]) -> None:
        """Stamp and look at instances that are saved in bulk, without a flush.

        Raises:
            ForeignRowError: as `begin()`.
        """
        states = [sqla.state_of(each) for each in objects]
        new = [state for state in states if state.key is None]
        for state in new:
            self._stamp(state)
        self._look_at(new, [state for state in states if state.key is not None], all_sent=True)

    def finish(self, flush: UOWTransaction) -> None:
        """Look at what was sent, after what later listeners have done.

        Raises:
            ForeignRowError: as `begin()`; the flush is rolled back.
        """
        saved, deleted = map(self._owned, sqla.flushed_states(flush))
        self._confinement.waiting.clear()
        new = [state for state in saved if state.key is None]
        late = [state for state in saved if state.key is not None]
        for state in deleted:
            if state not in self._seen:
                verdict = self._confinement.verdict(self._session, state, writing=True)
                if verdict is False:
                    raise self._foreign(state)
        self._look_at(new, late, all_sent=True)

    def _owned(self, states: Iterable[State]) -> list[State]:
        only = self._only
        return [state for state in states if only is None or state in only]

    def _look_at(
        self, new: Iterable[State], there: Iterable[State], *, all_sent: bool = False
    ) -> None:
        new, there = list(new), list(there)
        unseen = [state for state in there if state not in self._seen]
        hidden = self._confinement.hidden(self._session, unseen, writing=True)
        if hidden:
            raise self._foreign(hidden[0])
        self._seen.update(there)
        for state in (*new, *there):
            self._check_owner(state)
            self._add_references(state, all_sent=all_sent)
            self._check_links(state)
        for state in new:
            self._add_new(state)
        self._references.check()

    def _stamp(self, state: State) -> None:
        for name, column in self._owner_attributes(state):
            if state.dict.get(name) is None:
                owner = self._confinement.owner_in(column)
                attributes.set_attribute(state.obj(), name, owner)

    def _owner_attributes(self, state: State) -> Iterator[tuple[str, Any]]:
        for column in self._confinement.owner_columns(state.mapper.tables):
            yield attribute_of(state.mapper, column), column

    def _check_owner(self, state: State) -> None:
        """Refuse another owner than the session's; one that has not been loaded is not changed."""
        for name, column in self._owner_attributes(state):
            if name in state.dict and _is_changed(state, [name]):
                what = f"{state.class_.__name__}.{name}"
                self._confinement.check_owner(column, state.dict[name], what)

    def _add_references(self, state: State, *, all_sent: bool) -> None:
        for table in state.mapper.tables:
            for columns, target in self._references.of_table(table):
                names = sqla.attributes_of(state.mapper, columns)
                if _is_changed(state, names.values()):
                    values = changed_values(columns, names, state.dict)
                    what = f"{state.class_.__name__}.{next(iter(names.values()))}"
                    is_final = all_sent or state.key is not None
                    self._references.add(target, values, what, is_final=is_final)

    def _check_links(self, state: State) -> None:
        """Refuse rows of an association table to what the owner cannot see."""
        if not self._confinement.doubtful:
            return
        for relationship in state.mapper.relationships:
            if relationship.secondary is not None and not relationship.viewonly:
                added = sqla.added_to(state, relationship.key)
                if self._confinement.hidden(self._session, added, writing=False):
                    what = f"{state.class_.__name__}.{relationship.key}"
                    raise ForeignRowError(what, named=True)

    def _add_new(self, state: State) -> None:
        table = state.mapper.base_mapper.local_table
        if isinstance(table, Table):
            names = sqla.attributes_of(state.mapper, table.primary_key)
            self._references.add_new(
                table, tuple(state.dict.get(names.get(c, "")) for c in table.primary_key)
            )

    def _foreign(self, state: State) -> ForeignRowError:
        [column, *more] = state.mapper.base_mapper.primary_key
        ref = None
        if not more and state.key is not None:
            ref = self._confinement.named(column, state.key[1][0])
        return ForeignRowError(state.class_.__name__, ref)


def _is_changed(state: State, names: Iterable[str]) -> bool:
    """Tell whether any of these attributes is new, or has another value than was loaded."""
    return state.key is None or any(name in state.committed_state for name in names)
