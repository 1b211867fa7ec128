"""What the store in memory keeps: conversations, and counters of those that were forgotten."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from alfred_refs.errors import ConversationExistsError, UnknownConversationError
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.refs import Ref

from .activity import ActivityEntry, StepEntry
from .values import Address, DraftEntry, Entry


def now() -> datetime:
    """Return the time, by the clock of this process."""
    return datetime.now(UTC)


@dataclass(slots=True)
class ConversationState:
    """One conversation: its refs both ways, its counters and its times."""

    owner: str | None
    turn: int = 0
    last: Counter[str] = field(default_factory=Counter)
    by_ref: dict[Ref, Entry] = field(default_factory=dict)
    by_key: dict[EntityKey, Ref] = field(default_factory=dict)
    last_drafts: Counter[str] = field(default_factory=Counter)
    drafts: dict[Ref, DraftEntry] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    activity: dict[Ref, ActivityEntry] = field(default_factory=dict)
    steps: list[StepEntry] = field(default_factory=list)
    begun_at: datetime = field(default_factory=now)
    used_at: datetime = field(default_factory=now)

    def keep(self, entry: Entry) -> None:
        """Keep an entry, in place of the one that its ref has."""
        self.by_ref[entry.ref] = entry
        self.by_key[entry.ref.entity, entry.key] = entry.ref

    def refer(self, pair: EntityKey, label: str | None) -> Entry:
        """Return the entry of a key; one that is new gets the next number."""
        if pair in self.by_key:
            return self.by_ref[self.by_key[pair]]
        entity, key = pair
        self.last[entity] += 1
        entry = Entry(Ref(entity, self.last[entity]), key, label=label)
        self.keep(entry)
        return replace(entry, minted=True)

    def known(self, address: Address, keys: Iterable[EntityKey]) -> dict[EntityKey, Entry]:
        """Return the entries of keys, but of those that are of another table's rows."""
        return {
            key: self.by_ref[self.by_key[key]]
            for key in keys
            if key in self.by_key and address.uses(key[0], self.tables.get(key[0]))
        }

    def erase(self, pair: EntityKey, table: str | None) -> bool:
        """Keep nothing of a row but its refs; tell whether it is known."""
        drafts = [d for d in self.drafts.values() if (d.ref.entity, d.key) == pair]
        is_table = table in (None, self.tables.get(pair[0], table))
        if not is_table or not (pair in self.by_key or drafts):
            return False
        if pair in self.by_key:
            self.keep(replace(self.by_ref[self.by_key[pair]], label=None))
        for draft in drafts:
            if draft.state == "saved":
                self.drafts[draft.ref] = replace(draft, label=None, content="{}")
        self.activity.clear()
        self.steps.clear()
        return True

    def drafted(self, refs: Iterable[Ref]) -> dict[Ref, DraftEntry]:
        """Return the drafts that are known, each with the entry of its row."""
        found = {}
        for ref in refs:
            if (draft := self.drafts.get(ref)) is not None:
                saved = None if draft.key is None else self.by_key.get((ref.entity, draft.key))
                found[ref] = replace(draft, row=None if saved is None else self.by_ref[saved])
        return found

    def counts(self) -> dict[str, int]:
        """Return how many refs there are, by entity, in order."""
        return dict(sorted(Counter(ref.entity for ref in self.by_ref).items()))

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

    def _begin(self, address: Address, entities: Iterable[str] = ()) -> ConversationState:
        """Return the conversation, in which these entities are to have refs, as `_open` does.

        It is begun if need be, and used.
        """
        conversation = self._open(address, entities)
        if address.id not in self._conversations:
            self._make(address.id, conversation)
        conversation.used_at = now()
        for entity in entities:
            if (table := address.table_of(entity)) is not None:
                conversation.tables.setdefault(entity, table)
        return conversation

    def _make(self, id_: str, conversation: ConversationState, *, again: bool = False) -> None:
        """Add a conversation, and the counters that one of its id has left behind.

        Its numbers must not have been given, unless it is there `again`: then they go on.
        """
        left = self._left.get(id_, ConversationState(None))
        taken = left.numbered() & conversation.numbered()
        if id_ in self._conversations or (taken and not again):
            raise ConversationExistsError(id_)
        conversation.last |= left.last  # the higher of both
        conversation.last_drafts |= left.last_drafts
        self._left.pop(id_, None)
        self._conversations[id_] = conversation

    def _existing(self, address: Address) -> ConversationState:
        """Return the conversation, if it was begun and is of this owner."""
        if address.id not in self._conversations:
            raise UnknownConversationError(address.id)
        return self._open(address)

    def _open(self, address: Address, entities: Iterable[str] = ()) -> ConversationState:
        """Return the conversation, an empty one if it was not begun; refuse another owner's.

        Raises:
            EntityTableError: refs of one of these entities are of another table's rows.
        """
        conversation = self._conversations.get(address.id) or ConversationState(address.owner)
        if conversation.owner != address.owner:
            raise UnknownConversationError(address.id)
        for entity in entities:
            address.check_table(entity, conversation.tables.get(entity))
        return conversation

    def _own(self, address: Address) -> ConversationState:
        """Return the conversation, an empty one in place of another owner's."""
        conversation = self._conversations.get(address.id)
        if conversation is None or conversation.owner != address.owner:
            return ConversationState(address.owner)
        return conversation
