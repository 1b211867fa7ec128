"""The map in this process's memory: for tests and scripts, gone when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from alfred_refs.errors import UnknownConversationError
from alfred_refs.refs import Ref

from .protocol import Address, EntityKey, Entry, Gone


@dataclass(slots=True)
class _Conversation:
    owner: str | None
    turn: int = 0
    last: dict[str, int] = field(default_factory=dict)
    by_ref: dict[Ref, Entry] = field(default_factory=dict)
    by_key: dict[EntityKey, Ref] = field(default_factory=dict)

    def refer(self, entity_key: EntityKey) -> Entry:
        ref = self.by_key.get(entity_key)
        return self._mint(entity_key) if ref is None else self.by_ref[ref]

    def _mint(self, entity_key: EntityKey) -> Entry:
        entity, key = entity_key
        self.last[entity] = number = self.last.get(entity, 0) + 1
        entry = Entry(Ref(entity, number), key)
        self.by_ref[entry.ref] = entry
        self.by_key[entity_key] = entry.ref
        return replace(entry, minted=True)


class MemoryStore:
    """A `Store` without a database; threads of one process may share it."""

    def __init__(self) -> None:
        self._conversations: dict[str, _Conversation] = {}
        self._lock = threading.Lock()

    def create_tables(self) -> None:
        """Do nothing: there are no tables."""

    def refer(self, address: Address, keys: Sequence[EntityKey]) -> list[Entry]:
        """See `Store.refer`."""
        with self._lock:
            conversation = self._begun(address)
            return [conversation.refer(key) for key in keys]

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """See `Store.resolve`."""
        with self._lock:
            known = self._seen(address).by_ref
            return {ref: known[ref] for ref in refs if ref in known}

    def known(self, address: Address, near: Ref, limit: int) -> list[Ref]:
        """See `Store.known`."""
        with self._lock:
            entries = self._mine(address).by_ref.values()
            refs = [e.ref for e in entries if e.ref.entity == near.entity and e.gone is None]
        return sorted(refs, key=lambda ref: (abs(ref.number - near.number), ref.number))[:limit]

    def entities(self, address: Address) -> Mapping[str, int]:
        """See `Store.entities`."""
        with self._lock:
            return dict(self._seen(address).last)

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """See `Store.mark`."""
        with self._lock:
            conversation = self._mine(address)
            for ref in (conversation.by_key[key] for key in keys if key in conversation.by_key):
                conversation.by_ref[ref] = replace(conversation.by_ref[ref], gone=gone)

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

    def _begun(self, address: Address) -> _Conversation:
        self._seen(address)
        return self._conversations.setdefault(address.id, _Conversation(address.owner))

    def _seen(self, address: Address) -> _Conversation:
        """Return the conversation, an empty one if it was not begun; refuse another owner's."""
        conversation = self._conversations.get(address.id)
        if conversation is not None and conversation.owner != address.owner:
            raise UnknownConversationError(address.id)
        return conversation or _Conversation(address.owner)

    def _mine(self, address: Address) -> _Conversation:
        """Return the conversation, an empty one in place of another owner's."""
        conversation = self._conversations.get(address.id)
        if conversation is None or conversation.owner != address.owner:
            return _Conversation(address.owner)
        return conversation
