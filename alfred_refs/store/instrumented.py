"""A store whose round trips are counted, whatever store it is and without its knowledge.

Each call is handed on as it is, and so is its answer or error; the registry's telemetry is told
how long it took and what it was about. A call is a round trip by the promise of `Store`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from time import perf_counter
from types import EllipsisType
from typing import Any, TypeVar

from sqlalchemy import Column

from alfred_refs.mapping.keys import EntityKey, Key
from alfred_refs.mapping.refs import Ref

from .protocol import Store
from .telemetry import Telemetry
from .values import (
    NO_LABELS,
    Address,
    ConversationInfo,
    DraftEdit,
    DraftEntry,
    DraftState,
    Entry,
    Exported,
    Gone,
    NewDraft,
    RegistryStats,
)

_T = TypeVar("_T")


class ObservedStore:
    """A `Store` in front of another.

    Args:
        store: what keeps the map.
        telemetry: is told of each call.
    """

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry

    def create_tables(self) -> None:
        """See `Store.create_tables`: no round trip of a conversation's."""
        self._store.create_tables()

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        """See `Store.refer`."""
        return self._travel(
            "refer",
            address,
            lambda: self._store.refer(address, keys, labels),
            entities=lambda: (entity for entity, _ in keys),
            minted=lambda entries: sum(entry.minted for entry in entries),
        )

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """See `Store.resolve`."""
        return self._travel(
            "resolve",
            address,
            lambda: self._store.resolve(address, refs),
            entities=lambda: (ref.entity for ref in refs),
        )

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        """See `Store.refs_of`."""
        return self._travel("refs_of", address, lambda: self._store.refs_of(address, keys))

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        """See `Store.known`."""
        return self._travel("known", address, lambda: self._store.known(address, near, limit))

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        """See `Store.labelled`."""
        return self._travel(
            "labelled", address, lambda: self._store.labelled(address, entity, limit)
        )

    def entities(self, address: Address) -> Mapping[str, int]:
        """See `Store.entities`."""
        return self._travel("entities", address, lambda: self._store.entities(address))

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """See `Store.mark`."""
        self._travel(
            "mark",
            address,
            lambda: self._store.mark(address, keys, gone),
            entities=lambda: (entity for entity, _ in keys),
        )

    def label(self, address: Address, labels: Mapping[EntityKey, str]) -> None:
        """See `Store.label`."""
        self._travel(
            "label",
            address,
            lambda: self._store.label(address, labels),
            entities=lambda: (entity for entity, _ in labels),
        )

    def draft(
        self, address: Address, new: Sequence[NewDraft], turn: int | None = None
    ) -> list[DraftEntry]:
        """See `Store.draft`."""
        return self._travel(
            "draft",
            address,
            lambda: self._store.draft(address, new, turn),
            entities=lambda: (each.entity for each in new),
        )

    def values_there(
        self, address: Address, column: Column[Any], values: Sequence[Any]
    ) -> Collection[Any]:
        """See `Store.values_there`."""
        return self._travel(
            "values_there",
            address,
            lambda: self._store.values_there(address, column, values),
        )

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        """See `Store.read_drafts`."""
        return self._travel(
            "read_drafts",
            address,
            lambda: self._store.read_drafts(address, refs),
            entities=lambda: (ref.entity for ref in refs),
        )

    def drafts(
        self, address: Address, entity: str | None, states: Collection[DraftState]
    ) -> Iterator[DraftEntry]:
        """See `Store.drafts`: as many round trips as there are pages, and not counted."""
        return self._store.drafts(address, entity, states)

    def edit_drafts(
        self, address: Address, edits: Sequence[DraftEdit], turn: int | None = None
    ) -> Mapping[Ref, DraftEntry]:
        """See `Store.edit_drafts`."""
        return self._travel(
            "edit_drafts",
            address,
            lambda: self._store.edit_drafts(address, edits, turn),
            entities=lambda: (edit.ref.entity for edit in edits),
        )

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        """See `Store.discard_drafts`."""
        return self._travel(
            "discard_drafts",
            address,
            lambda: self._store.discard_drafts(address, refs),
            entities=lambda: (ref.entity for ref in refs),
        )

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        """See `Store.reserve_keys`."""
        return self._travel(
            "reserve_keys",
            address,
            lambda: self._store.reserve_keys(address, keys),
            entities=lambda: (ref.entity for ref in keys),
        )

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        """See `Store.confirm_drafts`."""
        self._travel(
            "confirm_drafts",
            address,
            lambda: self._store.confirm_drafts(address, refs),
            entities=lambda: (ref.entity for ref in refs),
        )

    def begin_turn(self, address: Address) -> int:
        """See `Store.begin_turn`."""
        return self._travel("begin_turn", address, lambda: self._store.begin_turn(address))

    def turn(self, address: Address) -> int:
        """See `Store.turn`."""
        return self._travel("turn", address, lambda: self._store.turn(address))

    def touch(self, address: Address) -> None:
        """See `Store.touch`."""
        self._travel("touch", address, lambda: self._store.touch(address))

    def fork(self, address: Address, new_id: str) -> None:
        """See `Store.fork`."""
        self._travel("fork", address, lambda: self._store.fork(address, new_id))

    def forget(self, address: Address) -> None:
        """See `Store.forget`."""
        self._travel("forget", address, lambda: self._store.forget(address))
        self._telemetry.log("conversation %r was forgotten", address.id)

    def export(self, address: Address) -> Exported:
        """See `Store.export`."""
        return self._travel("export", address, lambda: self._store.export(address))

    def restore(self, address: Address, exported: Exported) -> None:
        """See `Store.restore`."""
        self._travel("restore", address, lambda: self._store.restore(address, exported))
        self._telemetry.log("conversation %r was imported", address.id)

    def entries(self, address: Address, entity: str | None = None) -> Iterator[Entry]:
        """See `Store.entries`: as many round trips as there are pages, and not counted."""
        return self._store.entries(address, entity)

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        """See `Store.describe`: an operator's, and not counted, as are those that follow."""
        return self._store.describe(id)

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
    ) -> Iterator[ConversationInfo]:
        """See `Store.conversations`."""
        return self._store.conversations(unused_for, owner, limit)

    def count_conversations(
        self, unused_for: timedelta | None = None, owner: str | EllipsisType | None = ...
    ) -> int:
        """See `Store.count_conversations`."""
        return self._store.count_conversations(unused_for, owner)

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        """See `Store.prune`."""
        forgotten = 0
        try:
            for number in self._store.prune(unused_for, batch):
                forgotten += number
                yield number
        finally:
            self._telemetry.log("%d unused conversations were forgotten", forgotten)

    def stats(self) -> RegistryStats:
        """See `Store.stats`."""
        return self._store.stats()

    def _travel(
        self,
        operation: str,
        address: Address,
        call: Callable[[], _T],
        *,
        entities: Callable[[], Iterable[str]] = tuple,
        minted: Callable[[_T], int] = lambda _: 0,
    ) -> _T:
        """Make a call, and tell of it.

        Args:
            operation: the method's name.
            address: the conversation that it is about.
            call: asks the store.
            entities: gives the entity of each key or ref that is asked about.
            minted: counts in the answer which of them are new.
        """
        began = perf_counter()
        try:
            answer = call()
        except BaseException as error:
            self._telemetry.travelled(operation, address.id, entities, began=began, error=error)
            raise
        new = minted(answer)
        self._telemetry.travelled(operation, address.id, entities, began=began, minted=new)
        return answer
