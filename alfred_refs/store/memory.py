"""The map in this process's memory: for tests and scripts, gone when the process ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from types import EllipsisType

from alfred_refs.errors import UnknownConversationError
from alfred_refs.mapping.keys import EntityKey, Key
from alfred_refs.mapping.refs import Ref

from .memory_activity import ActivityMemory, forget_seen
from .memory_drafts import DraftMemory
from .memory_state import ConversationState, now
from .values import NO_LABELS, Address, ConversationInfo, Entry, Exported, Gone, RegistryStats


class MemoryStore(DraftMemory, ActivityMemory):
    """A `Store` without a database; its methods do what `Store` says.

    Threads of one process may share it.

    Example:
        >>> registry = RefRegistry(store=MemoryStore())
        >>> registry.conversation("chat-7").refer("recipe", 4711)
        'recipe_1'
    """

    is_async = False

    def create_tables(self) -> None:
        """Do nothing: there are no tables."""

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        if not keys:
            return []
        with self._lock:
            conversation = self._begin(address, {entity for entity, _ in keys})
            return [conversation.refer(pair, labels.get(pair)) for pair in keys]

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        with self._lock:
            conversation = self._open(address, {ref.entity for ref in refs})
            conversation.used_at = now()
            return {ref: conversation.by_ref[ref] for ref in refs if ref in conversation.by_ref}

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        with self._lock:
            conversation = self._open(address)
            entities, by_key = sorted(conversation.last), conversation.by_key
            found = {key: [by_key.get((name, key)) for name in entities] for key in keys}
        refs_by_key = {key: [ref for ref in refs if ref] for key, refs in found.items()}
        return {key: refs for key, refs in refs_by_key.items() if refs}

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        there = [entry for entry in self._of(address, near.entity) if entry.gone is None]
        number = near.number
        there.sort(key=lambda entry: (abs(entry.ref.number - number), entry.ref.number))
        return {entry.ref: entry.label for entry in there[:limit]}

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        last = sorted(self._of(address, entity), key=lambda entry: -entry.ref.number)[:limit]
        return {e.ref: e.label for e in last if e.label is not None and e.gone is None}

    def namesakes(
        self, address: Address, labels: Collection[tuple[str, str]], limit: int
    ) -> Mapping[tuple[str, str], tuple[Ref, Ref]]:
        refs: dict[tuple[str, str], list[Ref]] = {pair: [] for pair in labels}
        for entity in {entity for entity, _ in labels}:
            last = sorted(self._of(address, entity), key=lambda entry: -entry.ref.number)[:limit]
            for entry in last:
                if entry.label is not None and entry.gone is None:
                    refs.get((entity, entry.label), []).append(entry.ref)
        return {pair: (min(of), max(of)) for pair, of in refs.items() if len(of) > 1}

    def _of(self, address: Address, entity: str) -> list[Entry]:
        with self._lock:
            entries = self._own(address).by_ref.values()
            return [entry for entry in entries if entry.ref.entity == entity]

    def entities(self, address: Address) -> Mapping[str, int]:
        with self._lock:
            conversation = self._open(address)
            return {name: conversation.last[name] for name in conversation.counts()}

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        with self._lock:
            conversation = self._own(address)
            drafts = conversation.drafts.values() if gone == "was never saved" else ()
            saved = {(draft.ref.entity, draft.key) for draft in drafts if draft.state == "saved"}
            for key, entry in conversation.known(address, keys).items():
                if key not in saved:
                    conversation.keep(replace(entry, gone=gone))

    def label(self, address: Address, labels: Mapping[EntityKey, str]) -> None:
        with self._lock:
            conversation = self._own(address)
            for key, entry in conversation.known(address, labels).items():
                conversation.keep(replace(entry, label=labels[key]))

    def begin_turn(self, address: Address) -> int:
        with self._lock:
            conversation = self._begin(address)
            forget_seen(conversation)
            conversation.turn += 1
            return conversation.turn

    def turn(self, address: Address) -> int:
        with self._lock:
            return self._open(address).turn

    def touch(self, address: Address) -> None:
        with self._lock:
            self._own(address).used_at = now()

    def fork(self, address: Address, new_id: str) -> None:
        with self._lock:
            source = self._existing(address)
            source.used_at = now()
            fork = deepcopy(source)
            fork.begun_at = fork.used_at
            for ref, draft in source.drafts.items():
                if draft.state != "saved":
                    fork.drafts[ref] = replace(draft, key=None)
            self._make(Address(new_id).id, fork)

    def forget(self, address: Address) -> None:
        with self._lock:
            self._existing(address)
            self._forget(address.id)

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        while chosen := self._prune(unused_for, batch):
            yield chosen
        with self._lock:
            long_ago = now() - unused_for
            left = self._left.items()
            self._left = {id_: one for id_, one in left if one.begun_at > long_ago}

    def _prune(self, unused_for: timedelta, batch: int) -> int:
        with self._lock:
            latest = now() - unused_for
            items = self._conversations.items()
            chosen = [id_ for id_, one in items if one.used_at <= latest][:batch]
            for id_ in chosen:
                self._forget(id_)
            return len(chosen)

    def erase(self, key: EntityKey, table: str | None, batch: int) -> Iterator[int]:
        del batch
        with self._lock:
            erased = [one.erase(key, table) for one in self._conversations.values()]
        if any(erased):
            yield sum(erased)

    def _forget(self, id_: str) -> None:
        forgotten = self._conversations.pop(id_)
        self._left[id_] = ConversationState(
            None, last=forgotten.last, last_drafts=forgotten.last_drafts
        )

    def entries(self, address: Address, entity: str | None = None) -> Iterator[Entry]:
        with self._lock:
            entries = list(self._open(address).by_ref.values())
        entries.sort(key=lambda entry: entry.ref)
        return (entry for entry in entries if entity in (None, entry.ref.entity))

    def export(self, address: Address) -> Exported:
        with self._lock:
            conversation = self._existing(address)
            return Exported(
                address.id,
                address.owner,
                conversation.turn,
                conversation.begun_at,
                dict(sorted(conversation.last.items())),
                [entry for _, entry in sorted(conversation.by_ref.items())],
                dict(sorted(conversation.last_drafts.items())),
                [draft for _, draft in sorted(conversation.drafts.items())],
                dict(sorted(conversation.tables.items())),
                [conversation.activity[ref] for ref in sorted(conversation.activity)],
                list(conversation.steps),
            )

    def restore(self, address: Address, exported: Exported) -> None:
        with self._lock:
            conversation = ConversationState(
                address.owner,
                exported.turn,
                last=Counter(exported.last),
                last_drafts=Counter(exported.last_drafts),
                drafts={draft.ref: draft for draft in exported.drafts},
                tables=dict(exported.tables),
                activity={entry.ref: entry for entry in exported.activity},
                steps=list(exported.steps),
                begun_at=exported.begun_at,
            )
            for entry in exported.entries:
                conversation.keep(entry)
            self._make(address.id, conversation, again=exported.id == address.id)

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        id = Address(id).id  # noqa: A001
        with self._lock:
            if id not in self._conversations:
                raise UnknownConversationError(id)
            return _info(id, self._conversations[id])

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
    ) -> Iterator[ConversationInfo]:
        with self._lock:
            infos = [_info(id_, each) for id_, each in self._conversations.items()]
        latest = None if unused_for is None else now() - unused_for
        listed = [info for info in infos if latest is None or info.used_at <= latest]
        chosen = [info for info in listed if owner in (..., info.owner)]
        chosen.sort(key=lambda info: info.used_at, reverse=True)
        return iter(chosen[:limit])

    def count_conversations(
        self, unused_for: timedelta | None = None, owner: str | EllipsisType | None = ...
    ) -> int:
        return sum(1 for _ in self.conversations(unused_for, owner))

    def stats(self) -> RegistryStats:
        with self._lock:
            states = list(self._conversations.values())
            refs = sum((Counter(state.counts()) for state in states), Counter[str]())
            entries = (entry for state in states for entry in state.by_ref.values())
            drafts = (draft for state in states for draft in state.drafts.values())
            return RegistryStats(
                conversations=len(states),
                refs=dict(sorted(refs.items())),
                gone=sum(entry.gone is not None for entry in entries),
                left_counters=sum(len(left.numbered()) for left in self._left.values()),
                drafts=dict(sorted(Counter(draft.state for draft in drafts).items())),
            )


def _info(id_: str, conversation: ConversationState) -> ConversationInfo:
    times = conversation.begun_at, conversation.used_at
    refs = conversation.counts()
    return ConversationInfo(id_, conversation.owner, conversation.turn, *times, refs)
