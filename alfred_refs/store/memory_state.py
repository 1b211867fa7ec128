"""What the store in memory keeps: conversations, and counters of those that were forgotten."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from alfred_refs.errors import ConversationExistsError, UnknownConversationError
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.refs import Ref

from .values import Address, ConversationInfo, DraftEntry, Entry, NewDraft


def now() -> datetime:
    """Return the time, by the clock of this process."""
    return datetime.now(UTC)


@dataclass(slots=True)
class ConversationState:
    """One conversation: its refs both ways, its counters and its times."""

    owner: str | None
    turn: int = 0
    last: dict[str, int] = field(default_factory=dict)
    by_ref: dict[Ref, Entry] = field(default_factory=dict)
    by_key: dict[EntityKey, Ref] = field(default_factory=dict)
    last_drafts: dict[str, int] = field(default_factory=dict)
    drafts: dict[Ref, DraftEntry] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    begun_at: datetime = field(default_factory=now)
    used_at: datetime = field(default_factory=now)

    def check(self, address: Address, entities: Iterable[str]) -> None:
        """Check that the refs of these entities are of the tables that they are used for.

        Raises:
            EntityTableError: some are of another.
        """
        for entity in entities:
            address.check_table(entity, self.tables.get(entity))

    def is_of(self, address: Address, entity: str) -> bool:
        """Tell whether refs are of the table that they are used for, as far as is known."""
        tables = {self.tables.get(entity), address.table_of(entity)} - {None}
        return len(tables) < 2  # noqa: PLR2004

    def begin(self, address: Address, entities: Collection[str]) -> None:
        """Note what tables these entities, of which there are to be refs, are of.

        Raises:
            EntityTableError: they are of another already.
        """
        self.check(address, entities)
        tables = {entity: address.table_of(entity) for entity in entities}
        self.tables = {entity: table for entity, table in tables.items() if table} | self.tables

    def refer(self, entity_key: EntityKey, label: str | None) -> Entry:
        """Return the entry of a key; one that is new gets the next number."""
        if entity_key in self.by_key:
            return self.by_ref[self.by_key[entity_key]]
        entity, key = entity_key
        self.last[entity] = number = self.last.get(entity, 0) + 1
        entry = Entry(Ref(entity, number), key, label=label)
        self.keep(entry)
        return replace(entry, minted=True)

    def keep(self, entry: Entry) -> None:
        """Keep an entry, in place of the one that its ref has."""
        self.by_ref[entry.ref] = entry
        self.by_key[entry.ref.entity, entry.key] = entry.ref

    def draft(self, new: NewDraft, turn: int) -> DraftEntry:
        """Keep a draft, which gets the next number."""
        self.last_drafts[new.entity] = number = self.last_drafts.get(new.entity, 0) + 1
        ref = Ref(new.entity, number, draft=True)
        self.drafts[ref] = draft = DraftEntry(ref, new.content, new.label, turn, turn)
        return draft

    def drafted(self, ref: Ref) -> DraftEntry:
        """Return a draft with the entry of its row."""
        draft = self.drafts[ref]
        row = None if draft.key is None else self.by_key.get((ref.entity, draft.key))
        return replace(draft, row=None if row is None else self.by_ref[row])

    def keys_saved(self) -> set[EntityKey]:
        """Return the keys of the rows that are saved drafts."""
        saved = [draft for draft in self.drafts.values() if draft.state == "saved"]
        return {(d.ref.entity, d.key) for d in saved if d.key is not None}

    def of(self, entity: str) -> list[Entry]:
        """Return the entries of an entity, in any order."""
        return [entry for entry in self.by_ref.values() if entry.ref.entity == entity]

    def counts(self) -> dict[str, int]:
        """Return how many refs there are, by entity, in order."""
        return dict(sorted(Counter(ref.entity for ref in self.by_ref).items()))

    def info(self, id_: str) -> ConversationInfo:
        """Tell what is known of the conversation under this id."""
        times = self.begun_at, self.used_at
        return ConversationInfo(id_, self.owner, self.turn, *times, self.counts())

    def numbered(self) -> set[str]:
        """Return the entities that have counters, of refs or of drafts."""
        return {*self.last, *self.last_drafts}


class Memory:
    """Conversations by their ids, each for its owner alone; `_lock` is held by who looks.

    Of one that was forgotten the counters are left, as of a conversation begun at that moment.
    """

    def __init__(self) -> None:
        self._conversations: dict[str, ConversationState] = {}
        self._left: dict[str, ConversationState] = {}
        self._lock = threading.Lock()

    def _begin(self, address: Address) -> ConversationState:
        """Return the conversation, which is used; begin it if need be."""
        self._open(address)
        if address.id not in self._conversations:
            self._make(address.id, ConversationState(address.owner))
        self._use(address)
        return self._conversations[address.id]

    def _use(self, address: Address) -> None:
        self._own(address).used_at = now()

    def _make(self, id_: str, conversation: ConversationState, *, again: bool = False) -> None:
        """Add a conversation, and the counters that one of its id has left behind.

        Args:
            id_: it must not be taken.
            conversation: its numbers must not have been given, unless it is there `again`.
            again: its numbers go on from the highest that was given.
        """
        left = self._left.get(id_, ConversationState(None))
        taken = left.numbered() & conversation.numbered()
        if id_ in self._conversations or (taken and not again):
            raise ConversationExistsError(id_)
        for ours, theirs in (
            (conversation.last, left.last),
            (conversation.last_drafts, left.last_drafts),
        ):
            ours |= {entity: max(last, ours.get(entity, 0)) for entity, last in theirs.items()}
        self._left.pop(id_, None)
        self._conversations[id_] = conversation

    def _existing(self, address: Address) -> ConversationState:
        """Return the conversation, if it was begun and is of this owner."""
        if address.id not in self._conversations:
            raise UnknownConversationError(address.id)
        return self._open(address)

    def _open(self, address: Address) -> ConversationState:
        """Return the conversation, an empty one if it was not begun; refuse another owner's."""
        conversation = self._conversations.get(address.id)
        if conversation is not None and conversation.owner != address.owner:
            raise UnknownConversationError(address.id)
        return conversation or ConversationState(address.owner)

    def _own(self, address: Address) -> ConversationState:
        """Return the conversation, an empty one in place of another owner's."""
        conversation = self._conversations.get(address.id)
        if conversation is None or conversation.owner != address.owner:
            return ConversationState(address.owner)
        return conversation
