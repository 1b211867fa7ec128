"""What the store in memory keeps of one conversation, and of one that was forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from alfred_refs.refs import Ref

from .values import ConversationInfo, EntityKey, Entry


def now() -> datetime:
    """Return the time, by the clock of this process."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Remembered:
    """One conversation: its refs both ways, its counters and its times."""

    owner: str | None
    turn: int = 0
    last: dict[str, int] = field(default_factory=dict)
    by_ref: dict[Ref, Entry] = field(default_factory=dict)
    by_key: dict[EntityKey, Ref] = field(default_factory=dict)
    begun_at: datetime = field(default_factory=now)
    used_at: datetime = field(default_factory=now)

    def refer(self, entity_key: EntityKey, label: str | None) -> Entry:
        """Return the entry of a key; one that is new gets the next number."""
        ref = self.by_key.get(entity_key)
        return self._mint(entity_key, label) if ref is None else self.by_ref[ref]

    def _mint(self, entity_key: EntityKey, label: str | None) -> Entry:
        entity, key = entity_key
        self.last[entity] = number = self.last.get(entity, 0) + 1
        entry = Entry(Ref(entity, number), key, label=label)
        self.keep(entry)
        return replace(entry, minted=True)

    def keep(self, entry: Entry) -> None:
        """Keep an entry, in place of the one that its ref has."""
        self.by_ref[entry.ref] = entry
        self.by_key[entry.ref.entity, entry.key] = entry.ref

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


@dataclass(frozen=True, slots=True)
class Left:
    """The counters of a conversation that was forgotten, and when it was."""

    last: Mapping[str, int]
    at: datetime = field(default_factory=now)
