"""The map in this process's memory: for tests and scripts, gone when the process ends."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from alfred_refs.errors import ConversationExistsError, UnknownConversationError
from alfred_refs.refs import Ref

from .remembered import Left, Remembered, now
from .values import (
    NO_LABELS,
    Address,
    ConversationInfo,
    EntityKey,
    Entry,
    Exported,
    Gone,
    RegistryStats,
)


class MemoryStore:
    """A `Store` without a database; threads of one process may share it."""

    def __init__(self) -> None:
        self._conversations: dict[str, Remembered] = {}
        self._left: dict[str, Left] = {}
        self._lock = threading.Lock()

    def create_tables(self) -> None:
        """Do nothing: there are no tables."""

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        """See `Store.refer`."""
        if not keys:
            return []
        with self._lock:
            conversation = self._begun(address)
            return [conversation.refer(key, labels.get(key)) for key in keys]

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """See `Store.resolve`."""
        with self._lock:
            self._use(address)
            known = self._seen(address).by_ref
            return {ref: known[ref] for ref in refs if ref in known}

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        """See `Store.known`."""
        with self._lock:
            entries = self._mine(address).of(near.entity)
        there = {entry.ref: entry.label for entry in entries if entry.gone is None}
        nearest = sorted(there, key=lambda ref: (abs(ref.number - near.number), ref.number))
        return {ref: there[ref] for ref in nearest[:limit]}

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        """See `Store.labelled`."""
        with self._lock:
            entries = self._mine(address).of(entity)
        last = sorted(entries, key=lambda entry: -entry.ref.number)[:limit]
        return {e.ref: e.label for e in last if e.label is not None and e.gone is None}

    def entities(self, address: Address) -> Mapping[str, int]:
        """See `Store.entities`."""
        with self._lock:
            conversation = self._seen(address)
            return {name: conversation.last[name] for name in conversation.counts()}

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """See `Store.mark`."""
        with self._lock:
            conversation = self._mine(address)
            for ref in (conversation.by_key[key] for key in keys if key in conversation.by_key):
                conversation.by_ref[ref] = replace(conversation.by_ref[ref], gone=gone)

    def label(self, address: Address, labels: Mapping[EntityKey, str]) -> None:
        """See `Store.label`."""
        with self._lock:
            conversation = self._mine(address)
            for key in labels.keys() & conversation.by_key.keys():
                ref = conversation.by_key[key]
                conversation.by_ref[ref] = replace(conversation.by_ref[ref], label=labels[key])

    def begin_turn(self, address: Address) -> int:
        """See `Store.begin_turn`."""
        with self._lock:
            conversation = self._begun(address)
            conversation.turn += 1
            return conversation.turn

    def turn(self, address: Address) -> int:
        """See `Store.turn`."""
        with self._lock:
            return self._seen(address).turn

    def touch(self, address: Address) -> None:
        """See `Store.touch`."""
        with self._lock:
            self._use(address)

    def fork(self, address: Address, new_id: str) -> None:
        """See `Store.fork`."""
        with self._lock:
            source = self._there(address)
            self._use(address)
            fork = Remembered(source.owner, source.turn, dict(source.last))
            fork.by_ref, fork.by_key = dict(source.by_ref), dict(source.by_key)
            self._make(Address(new_id).id, fork)

    def forget(self, address: Address) -> None:
        """See `Store.forget`."""
        with self._lock:
            self._there(address)
            self._forget(address.id)

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        """See `Store.prune`."""
        while chosen := self._prune(unused_for, batch):
            yield chosen
        with self._lock:
            for id_, left in list(self._left.items()):
                if left.at <= now() - unused_for:
                    del self._left[id_]

    def entries(self, address: Address, entity: str | None = None) -> Iterator[Entry]:
        """See `Store.entries`."""
        with self._lock:
            entries = list(self._seen(address).by_ref.values())
        entries.sort(key=lambda entry: entry.ref)
        return (entry for entry in entries if entity in (None, entry.ref.entity))

    def export(self, address: Address) -> Exported:
        """See `Store.export`."""
        with self._lock:
            there = self._there(address)
            entries = sorted(there.by_ref.values(), key=lambda entry: entry.ref)
            last = dict(sorted(there.last.items()))
            return Exported(address.id, address.owner, there.turn, there.begun_at, last, entries)

    def restore(self, address: Address, exported: Exported) -> None:
        """See `Store.restore`."""
        with self._lock:
            conversation = Remembered(address.owner, exported.turn, dict(exported.last))
            conversation.begun_at = exported.begun_at
            for entry in exported.entries:
                conversation.keep(entry)
            self._make(address.id, conversation, again=exported.id == address.id)

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        """See `Store.describe`."""
        id = Address(id).id  # noqa: A001
        with self._lock:
            if id not in self._conversations:
                raise UnknownConversationError(id)
            return self._conversations[id].info(id)

    def conversations(self, unused_for: timedelta | None = None) -> Iterator[ConversationInfo]:
        """See `Store.conversations`."""
        with self._lock:
            infos = [each.info(id_) for id_, each in self._conversations.items()]
        latest = None if unused_for is None else now() - unused_for
        return (info for info in infos if latest is None or info.used_at <= latest)

    def stats(self) -> RegistryStats:
        """See `Store.stats`."""
        with self._lock:
            each = list(self._conversations.values())
            refs = sum((Counter(conversation.counts()) for conversation in each), Counter())
            entries = (entry for conversation in each for entry in conversation.by_ref.values())
            return RegistryStats(
                conversations=len(each),
                refs=dict(sorted(refs.items())),
                gone=sum(entry.gone is not None for entry in entries),
                left_counters=sum(len(left.last) for left in self._left.values()),
            )

    def _begun(self, address: Address) -> Remembered:
        """Return the conversation, which is used; begin it if need be."""
        self._seen(address)
        if address.id not in self._conversations:
            self._make(address.id, Remembered(address.owner))
        self._use(address)
        return self._conversations[address.id]

    def _use(self, address: Address) -> None:
        self._mine(address).used_at = now()

    def _forget(self, id_: str) -> None:
        self._left[id_] = Left(self._conversations.pop(id_).last)

    def _prune(self, unused_for: timedelta, batch: int) -> int:
        with self._lock:
            latest = now() - unused_for
            each = self._conversations.items()
            chosen = [id_ for id_, one in each if one.used_at <= latest][:batch]
            for id_ in chosen:
                self._forget(id_)
            return len(chosen)

    def _make(self, id_: str, conversation: Remembered, *, again: bool = False) -> None:
        """Add a conversation, and the counters that one of its id has left behind.

        Args:
            id_: it must not be taken.
            conversation: its numbers must not have been given, unless it is there `again`.
            again: its numbers go on from the highest that was given.
        """
        left = self._left[id_].last if id_ in self._left else {}
        given = left.keys() & conversation.last.keys()
        if id_ in self._conversations or (given and not again):
            raise ConversationExistsError(id_)
        for entity, last in left.items():
            conversation.last[entity] = max(last, conversation.last.get(entity, 0))
        self._left.pop(id_, None)
        self._conversations[id_] = conversation

    def _there(self, address: Address) -> Remembered:
        """Return the conversation, if it was begun and is of this owner."""
        if address.id not in self._conversations:
            raise UnknownConversationError(address.id)
        return self._seen(address)

    def _seen(self, address: Address) -> Remembered:
        """Return the conversation, an empty one if it was not begun; refuse another owner's."""
        conversation = self._conversations.get(address.id)
        if conversation is not None and conversation.owner != address.owner:
            raise UnknownConversationError(address.id)
        return conversation or Remembered(address.owner)

    def _mine(self, address: Address) -> Remembered:
        """Return the conversation, an empty one in place of another owner's."""
        conversation = self._conversations.get(address.id)
        if conversation is None or conversation.owner != address.owner:
            return Remembered(address.owner)
        return conversation
