"""The calls of a conversation that are kept: those that wait for a person, and the history.

>>> from alfred_refs.store import NewCall
>>> entry = chat.calls.add(NewCall("db_delete", {"table": "recipes"}, "waiting", "model"))
>>> chat.calls.update(entry.number, "waiting", state="rejected", decided_by="ann").state
'rejected'
>>> chat.calls.update(entry.number, "waiting", state="done") is None
True

Limits: nothing here executes a call; `alfred_refs.tools` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Unpack

from sqlalchemy import Connection

from alfred_refs.store import (
    Address,
    CallEntry,
    CallState,
    CallValues,
    ChangeEntry,
    NewCall,
    Store,
)


class Calls:
    """The calls of one conversation.

    Args:
        store: where they are kept.
        address: of the conversation.
        turn: in which the caller works; `None` for the current one.
    """

    def __init__(self, store: Store, address: Address, turn: int | None) -> None:
        self._store = store
        self._address = address
        self._turn = turn

    def shared(self, connections: Iterable[Connection]) -> Connection | None:
        """Return the connection in whose transaction calls can be stored, if there is one."""
        return next((each for each in connections if self._store.is_on(each)), None)

    def add(
        self,
        new: NewCall,
        changes: Sequence[ChangeEntry] = (),
        connection: Connection | None = None,
    ) -> CallEntry:
        """Store a call; see `Store.add_call`."""
        return self._store.add_call(self._address, new, changes, self._turn, connection)

    def update(
        self,
        number: int,
        expected: CallState,
        changes: Sequence[ChangeEntry] = (),
        connection: Connection | None = None,
        **values: Unpack[CallValues],
    ) -> CallEntry | None:
        """Change a call that is in an expected state; see `Store.update_call`."""
        return self._store.update_call(
            *(self._address, number),
            expected=expected,
            changes=changes,
            connection=connection,
            **values,
        )

    def lock(self, number: int, connection: Connection | None) -> CallEntry | None:
        """Return a call, locked until the end of a connection's transaction."""
        if connection is None:
            return self.get(number)
        return self._store.lock_call(self._address, number, connection)

    def get(self, number: int) -> CallEntry | None:
        """Return a call by its number."""
        return next(iter(self._store.calls(self._address, numbers=[number])), None)

    def find(self, call_id: str) -> CallEntry | None:
        """Return a call by the framework's id of it."""
        return next(iter(self._store.calls(self._address, call_id=call_id)), None)

    def select(
        self,
        *,
        numbers: Collection[int] | None = None,
        turn: int | None = None,
        ref: str | None = None,
        states: Collection[CallState] | None = None,
        before: int | None = None,
        limit: int = 1_000,
    ) -> Sequence[CallEntry]:
        """Return calls in order; see `Store.calls`."""
        return self._store.calls(
            self._address,
            numbers=numbers,
            turn=turn,
            ref=ref,
            states=states,
            before=before,
            limit=limit,
        )

    def changes(
        self, calls: Collection[int], after: int = 0, limit: int | None = None
    ) -> Sequence[ChangeEntry]:
        """Return the rows that calls have changed, in order; see `Store.changes`."""
        return self._store.changes(self._address, calls, after, limit) if calls else ()
