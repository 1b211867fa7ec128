"""The store in memory, for tests and scripts: it is lost when the process ends.

`MemoryStore` keeps every rule of `Store` without a database. It is public as
`alfred_refs.testing.MemoryStore`:

>>> store = MemoryStore()
>>> address = Address("chat-7", owner="ann")
>>> [entry] = store.refer(address, [("recipe", 4711)], {("recipe", 4711): "Soup"})
>>> str(entry.ref), store.begin_turn(address)
('recipe_1', 1)
>>> store.forget(address)
>>> [entry] = store.refer(address, [("recipe", 4711)])
>>> str(entry.ref)  # a number is never assigned twice
'recipe_2'

It is also the shortest description of what `PostgresStore` does, without locks and round trips:
a `ConversationState` is one conversation, with its refs, drafts, activity, steps and calls. When
a conversation is forgotten, a state with its counters alone is left behind under its id. Both
stores pass the same tests, `tests/store/test_protocol.py`.

All methods hold one lock while they read or write, so that threads may share a store. Iterators
are made of a copy under the lock.

Limits:

- Processes do not share it, and nothing is on disk.
- `values_there` finds nothing, because the store sees no tables.
- No call is part of an application's transaction.
- To find the refs of one entity, all refs of the conversation are read.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import EllipsisType
from typing import Any, Unpack

from sqlalchemy import Column, Connection

from alfred_refs.errors import ConversationExistsError, DraftKeyError, UnknownConversationError
from alfred_refs.mapping.keys import EntityKey, Key, Ref
from alfred_refs.store.values import (
    KEPT_TURNS,
    NO_LABELS,
    Action,
    Activity,
    ActivityEntry,
    ActivityRecord,
    Actor,
    Address,
    CallEntry,
    CallState,
    CallValues,
    ChangeEntry,
    ConversationInfo,
    DraftEdit,
    DraftEntry,
    DraftState,
    Entry,
    Exported,
    Gone,
    NewCall,
    NewDraft,
    RegistryStats,
    StepEntry,
    json_text,
)

# Actions that reading the row in the same turn does not replace.
_WRITTEN: frozenset[Action] = frozenset({"created", "updated", "mentioned"})


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class ConversationState:
    """One conversation: its refs in both directions, its counters, and its contents."""

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
    calls: dict[int, CallEntry] = field(default_factory=dict)
    changes: list[ChangeEntry] = field(default_factory=list)
    begun_at: datetime = field(default_factory=_now)
    used_at: datetime = field(default_factory=_now)

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one of the same ref."""
        self.by_ref[entry.ref] = entry
        self.by_key[entry.ref.entity, entry.key] = entry.ref

    def refer(self, pair: EntityKey, label: str | None) -> Entry:
        """Return the entry of a key; a new key gets the next number."""
        if pair in self.by_key:
            return self.by_ref[self.by_key[pair]]
        entity, key = pair
        self.last[entity] += 1
        entry = Entry(Ref(entity, self.last[entity]), key, label=label)
        self.put(entry)
        return replace(entry, minted=True)

    def uses_table_of(self, address: Address, ref: Ref) -> bool:
        """Return whether the refs of an entity are for the table that an address uses them for."""
        return address.uses(ref.entity, self.tables.get(ref.entity))

    def entries_of(self, address: Address, keys: Iterable[EntityKey]) -> dict[EntityKey, Entry]:
        """Return the entries of keys, without rows of another table."""
        refs = {key: self.by_key[key] for key in keys if key in self.by_key}
        return {
            key: self.by_ref[ref] for key, ref in refs.items() if self.uses_table_of(address, ref)
        }

    def refs_known(self, address: Address, refs: Sequence[Ref]) -> list[Ref]:
        """Return the refs that are known, without refs of another table's rows."""
        return [ref for ref in refs if ref in self.by_ref and self.uses_table_of(address, ref)]

    def erase(self, pair: EntityKey, table: str | None) -> bool:
        """Delete all data of a row except its refs; return whether the row is known."""
        drafts = [d for d in self.drafts.values() if (d.ref.entity, d.key) == pair]
        is_table = table in (None, self.tables.get(pair[0], table))
        if not is_table or not (pair in self.by_key or drafts):
            return False
        if pair in self.by_key:
            self.put(replace(self.by_ref[self.by_key[pair]], label=None))
        for draft in drafts:
            if draft.state == "saved":
                self.drafts[draft.ref] = replace(draft, label=None, content="{}")
        self._erase_calls(
            [ref for ref in (self.by_key.get(pair),) if ref is not None]
            + [draft.ref for draft in drafts if draft.state == "saved"]
        )
        self.activity.clear()
        self.steps.clear()
        return True

    def _erase_calls(self, refs: Iterable[Ref]) -> None:
        """Delete the contents of calls that changed rows of these refs, or name them."""
        names = "|".join(map(str, refs))
        is_named = re.compile(rf"(?<![A-Za-z0-9_])({names})(?![A-Za-z0-9_])")
        changed = {change.call for change in self.changes if is_named.fullmatch(change.ref or "")}
        self.changes = [
            _emptied_change(change) if is_named.fullmatch(change.ref or "") else change
            for change in self.changes
        ]
        for call in self.calls.values():
            text = json_text([call.arguments, call.plan, call.answer])
            text = re.sub(r"\\(u[0-9a-f]{4}|.)", " ", text)
            if names and (call.number in changed or is_named.search(text)):
                waits = call.state == "waiting"
                self.calls[call.number] = replace(
                    _emptied_call(call),
                    state="expired" if waits else call.state,
                    decided_at=_now() if waits else call.decided_at,
                )

    def add_changes(self, number: int, changes: Sequence[ChangeEntry]) -> None:
        """Add the rows that a call changed."""
        self.changes += [replace(change, call=number) for change in changes]
        self.changes.sort(key=lambda change: (change.call, change.place))

    def prune_changes(self, latest: datetime) -> int:
        """Delete the contents of calls that were decided by then; return their number."""
        old = [
            call
            for call in self.calls.values()
            if call.state not in ("waiting", "doing")
            and (call.decided_at or call.asked_at) <= latest
        ]
        for call in old:
            self.calls[call.number] = _emptied_call(call)
        numbers = {call.number for call in old if call != self.calls[call.number]}
        emptied = [
            _emptied_change(change) if change.call in {call.number for call in old} else change
            for change in self.changes
        ]
        numbers |= {
            change.call
            for change, before in zip(emptied, self.changes, strict=True)
            if change != before
        }
        self.changes = emptied
        return len(numbers)

    def drafts_of(self, refs: Iterable[Ref]) -> dict[Ref, DraftEntry]:
        """Return the drafts that are known, each with the entry of its row."""
        drafts = {}
        for ref in refs:
            if (draft := self.drafts.get(ref)) is not None:
                saved = None if draft.key is None else self.by_key.get((ref.entity, draft.key))
                drafts[ref] = replace(draft, row=None if saved is None else self.by_ref[saved])
        return drafts

    def counts(self) -> dict[str, int]:
        """Return how many refs there are, by entity, in order."""
        return dict(sorted(Counter(ref.entity for ref in self.by_ref).items()))

    def counted_entities(self) -> set[str]:
        """Return the entities that have counters, of refs or of drafts."""
        return {*self.last, *self.last_drafts}

    def info(self, id_: str) -> ConversationInfo:
        """Return what `describe` returns."""
        return ConversationInfo(
            id_, self.owner, self.turn, self.begun_at, self.used_at, self.counts()
        )


class MemoryStore:
    """A `Store` without a database; its methods do what `Store` documents.

    Threads of one process may share it.

    Example:
        >>> registry = RefRegistry(store=MemoryStore())
        >>> registry.conversation("chat-7").refer("recipe", 4711)
        'recipe_1'
    """

    is_async = False

    def __init__(self) -> None:
        self._conversations: dict[str, ConversationState] = {}
        # id -> the counters that a forgotten conversation left behind, begun when it was forgotten
        self._left: dict[str, ConversationState] = {}
        self._lock = threading.Lock()

    def create_tables(self) -> None:
        """Do nothing: the store has no tables."""

    # Refs

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
            conversation.used_at = _now()
            return {ref: conversation.by_ref[ref] for ref in refs if ref in conversation.by_ref}

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        with self._lock:
            conversation = self._open(address)
            entities, by_key = sorted(conversation.last), conversation.by_key
            refs = {
                key: [by_key[name, key] for name in entities if (name, key) in by_key]
                for key in keys
            }
        return {key: of_key for key, of_key in refs.items() if of_key}

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        entries = [entry for entry in self._entries_of(address, near.entity) if entry.gone is None]
        number = near.number
        entries.sort(key=lambda entry: (abs(entry.ref.number - number), entry.ref.number))
        return {entry.ref: entry.label for entry in entries[:limit]}

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        last = self._last_entries(address, entity, limit)
        return {e.ref: e.label for e in last if e.label is not None and e.gone is None}

    def namesakes(
        self, address: Address, labels: Collection[tuple[str, str]], limit: int
    ) -> Mapping[tuple[str, str], tuple[Ref, Ref]]:
        refs: dict[tuple[str, str], list[Ref]] = {pair: [] for pair in labels}
        for entity in {entity for entity, _ in labels}:
            for entry in self._last_entries(address, entity, limit):
                if entry.label is not None and entry.gone is None:
                    refs.get((entity, entry.label), []).append(entry.ref)
        return {pair: (min(of), max(of)) for pair, of in refs.items() if len(of) > 1}

    def _last_entries(self, address: Address, entity: str, limit: int) -> list[Entry]:
        entries = self._entries_of(address, entity)
        return sorted(entries, key=lambda entry: -entry.ref.number)[:limit]

    def _entries_of(self, address: Address, entity: str) -> list[Entry]:
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
            for key, entry in conversation.entries_of(address, keys).items():
                if key not in saved:
                    conversation.put(replace(entry, gone=gone))

    def label(self, address: Address, labels: Mapping[EntityKey, str | None]) -> None:
        with self._lock:
            conversation = self._own(address)
            for key, entry in conversation.entries_of(address, labels).items():
                conversation.put(replace(entry, label=labels[key]))

    # Drafts

    def draft(
        self, address: Address, new: Sequence[NewDraft], turn: int | None = None
    ) -> list[DraftEntry]:
        if not new:
            return []
        with self._lock:
            conversation = self._begin(address, {each.entity for each in new})
            turn = conversation.turn if turn is None else turn
            drafts = []
            for each in new:
                conversation.last_drafts[each.entity] += 1
                ref = Ref(each.entity, conversation.last_drafts[each.entity], draft=True)
                drafts.append(DraftEntry(ref, each.content, each.label, turn, turn))
            conversation.drafts |= {draft.ref: draft for draft in drafts}
            return drafts

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            return self._open(address, {ref.entity for ref in refs}).drafts_of(refs)

    def drafts(
        self,
        address: Address,
        entity: str | None,
        states: Collection[DraftState],
        after: Ref | None = None,
    ) -> Iterator[DraftEntry]:
        with self._lock:
            refs = sorted(r for r in self._open(address).drafts if entity in (None, r.entity))
            drafts = self._open(address, {ref.entity for ref in refs}).drafts_of(refs)
        return (
            draft
            for ref, draft in drafts.items()
            if draft.state in states and (after is None or ref > after)
        )

    def values_there(
        self,
        address: Address,  # noqa: ARG002
        column: Column[Any],  # noqa: ARG002
        values: Sequence[Any],  # noqa: ARG002
    ) -> Collection[Any]:
        return ()  # there are no tables

    def edit_drafts(
        self, address: Address, edits: Sequence[DraftEdit], turn: int | None = None
    ) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._own(address)
            turn = conversation.turn if turn is None else turn
            drafts = {}
            for edit in edits:
                draft = conversation.drafts.get(edit.ref)
                if draft is None or not conversation.uses_table_of(address, edit.ref):
                    return {}
                edited = _edit_draft(draft, edit, turn)
                if edited is None:
                    return {}
                drafts[edit.ref] = edited
            conversation.used_at = _now()
            conversation.drafts |= drafts
            return drafts

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._open(address, {ref.entity for ref in refs})
            conversation.used_at = _now()
            drafts = conversation.drafts_of(refs)
            if len(drafts) == len(set(refs)) and all(d.state != "saved" for d in drafts.values()):
                for ref in drafts:
                    conversation.drafts[ref] = replace(conversation.drafts[ref], state="discarded")
            return conversation.drafts_of(refs)

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._open(address, {ref.entity for ref in keys})
            conversation.used_at = _now()
            reserved = dict(conversation.drafts)
            for ref in keys.keys() & reserved.keys():
                if reserved[ref].state == "pending" and reserved[ref].key is None:
                    reserved[ref] = replace(reserved[ref], key=keys[ref])
            taken = [(d.ref.entity, d.key) for d in reserved.values() if d.key is not None]
            if len(taken) > len(set(taken)):
                raise DraftKeyError(*map(str, keys))
            conversation.drafts = reserved
            return conversation.drafts_of(keys)

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        with self._lock:
            conversation = self._own(address)
            conversation.used_at = _now()
            for ref, draft in conversation.drafts_of(refs).items():
                if draft.key is None or not conversation.uses_table_of(address, ref):
                    continue
                conversation.drafts[ref] = replace(conversation.drafts[ref], state="saved")
                if draft.row is not None and draft.row.gone == "was never saved":
                    conversation.put(replace(draft.row, gone=None))

    # Activity

    def note(
        self,
        address: Address,
        done: Sequence[Activity],
        actor: Actor,
        turn: int | None = None,
    ) -> None:
        if not done:
            return
        with self._lock:
            maybe_new = [each for each in done if not (each.shown or each.action == "deleted")]
            conversation = self._begin(address, {each.key[0] for each in maybe_new})
            for each in maybe_new:
                conversation.refer(each.key, each.label)
            turn = conversation.turn if turn is None else turn
            for each in done:
                ref = conversation.by_key.get(each.key)
                if ref is not None:
                    known = conversation.activity.get(ref)
                    conversation.activity[ref] = _merge_activity(known, ref, each, actor, turn)

    def activity(self, address: Address, turns: int, turn: int | None = None) -> ActivityRecord:
        with self._lock:
            conversation = self._open(address)
            conversation = self._open(address, conversation.counts())
            turn = conversation.turn if turn is None else turn
            entries = [
                replace(entry, gone=row.gone, label=row.label)
                for ref, entry in sorted(conversation.activity.items())
                for row in (conversation.by_ref[ref],)
                if entry.reason is not None or entry.last_turn > turn - turns
            ]
            return ActivityRecord(turn, entries, conversation.counts())

    def retain(self, address: Address, refs: Sequence[Ref], reason: str, actor: Actor) -> None:
        with self._lock:
            conversation = self._own(address)
            for ref in conversation.refs_known(address, refs):
                turn = conversation.turn
                new = ActivityEntry(ref, None, None, "linked", actor, turn, turn)
                entry = conversation.activity.get(ref, new)
                conversation.activity[ref] = replace(entry, reason=reason, demoted=False)

    def demote(self, address: Address, refs: Sequence[Ref]) -> None:
        with self._lock:
            conversation = self._own(address)
            for ref in conversation.refs_known(address, refs):
                if ref in conversation.activity:
                    entry = conversation.activity[ref]
                    conversation.activity[ref] = replace(entry, demoted=True)

    def drop(self, address: Address, refs: Sequence[Ref]) -> None:
        with self._lock:
            conversation = self._own(address)
            for ref in conversation.refs_known(address, refs):
                conversation.activity.pop(ref, None)

    def add_step(self, address: Address, content: str, turn: int | None = None) -> StepEntry:
        with self._lock:
            conversation = self._begin(address)
            turn = conversation.turn if turn is None else turn
            number = 1 + max((s.number for s in conversation.steps if s.turn == turn), default=0)
            step = StepEntry(turn, number, content)
            conversation.steps.append(step)
            conversation.steps.sort(key=lambda step: (step.turn, step.number))
            return step

    def steps(self, address: Address, turns: int, turn: int | None = None) -> list[StepEntry]:
        with self._lock:
            conversation = self._open(address)
            turn = conversation.turn if turn is None else turn
            return [step for step in conversation.steps if step.turn > turn - turns]

    # Calls

    def add_call(
        self,
        address: Address,
        new: NewCall,
        changes: Sequence[ChangeEntry] = (),
        turn: int | None = None,
        connection: Connection | None = None,  # noqa: ARG002
    ) -> CallEntry:
        arguments, plan, answer = map(_copy, (new.arguments, new.plan, new.answer))
        with self._lock:
            conversation = self._begin(address)
            for known in conversation.calls.values():
                if new.call_id is not None and new.call_id == known.call_id:
                    return _now_expired(known)
            now = _now()
            call = CallEntry(
                number=1 + max(conversation.calls, default=0),
                turn=conversation.turn if turn is None else turn,
                tool=new.tool,
                arguments=arguments,
                state=new.state,
                actor=new.actor,
                user=new.user,
                call_id=new.call_id,
                plan=plan,
                token=new.token,
                answer=answer,
                undoes=new.undoes,
                decided_by=None,
                reason=None,
                asked_at=now,
                decided_at=None if new.state in ("waiting", "doing") else now,
                expires_at=None if new.expires_in is None else now + new.expires_in,
                seconds=new.seconds,
            )
            conversation.calls[call.number] = call
            conversation.add_changes(call.number, changes)
            return _now_expired(call)

    def update_call(
        self,
        address: Address,
        number: int,
        *,
        expected: CallState,
        changes: Sequence[ChangeEntry] = (),
        connection: Connection | None = None,  # noqa: ARG002
        **values: Unpack[CallValues],
    ) -> CallEntry | None:
        with self._lock:
            conversation = self._own(address)
            call = conversation.calls.get(number)
            if call is None or _now_expired(call).state != expected:
                return None
            state = values.get("state", expected)
            decided_at = call.decided_at
            if state != expected:
                decided_at = None if state == "waiting" else decided_at or _now()
            copies = {name: _copy(value) for name, value in values.items()}
            call = replace(call, decided_at=decided_at, **copies)
            conversation.calls[number] = call
            conversation.add_changes(number, changes)
            return _now_expired(call)

    def revert_call(self, address: Address, number: int) -> None:
        with self._lock:
            conversation = self._own(address)
            call = conversation.calls.get(number)
            if call is None or call.state != "doing":
                return
            conversation.changes = [each for each in conversation.changes if each.call != number]
            if call.token is None:
                del conversation.calls[number]
            else:
                conversation.calls[number] = replace(
                    call, state="waiting", decided_by=None, decided_at=None
                )

    def lock_call(
        self,
        address: Address,
        number: int,
        connection: Connection,  # noqa: ARG002
    ) -> CallEntry | None:
        with self._lock:
            call = self._own(address).calls.get(number)
            return None if call is None else _now_expired(call)

    def calls(
        self,
        address: Address,
        *,
        numbers: Collection[int] | None = None,
        call_id: str | None = None,
        turn: int | None = None,
        ref: str | None = None,
        states: Collection[CallState] | None = None,
        before: int | None = None,
        limit: int = 1000,
    ) -> list[CallEntry]:
        with self._lock:
            conversation = self._open(address)
            changed = {change.call for change in conversation.changes if change.ref == ref}
            found = [
                call
                for call in map(_now_expired, conversation.calls.values())
                if (numbers is None or call.number in numbers)
                and call_id in (None, call.call_id)
                and turn in (None, call.turn)
                and (ref is None or call.number in changed)
                and (states is None or call.state in states)
                and (before is None or call.number < before)
            ]
        return found[max(len(found) - limit, 0) :]

    def changes(
        self, address: Address, calls: Collection[int], after: int = 0, limit: int | None = None
    ) -> list[ChangeEntry]:
        with self._lock:
            return [
                change
                for change in self._open(address).changes
                if change.call in calls
                and change.place > after
                and (limit is None or change.place <= after + limit)
            ]

    def waiting(
        self,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
        after: tuple[datetime, str, int] | None = None,
    ) -> list[tuple[str, str | None, CallEntry]]:
        with self._lock:
            found = [
                (id_, state.owner, call)
                for id_, state in self._conversations.items()
                for call in state.calls.values()
                if owner in (..., state.owner) and _now_expired(call).state == "waiting"
            ]
        found.sort(key=_place_waiting)
        if after is not None:
            place = (after[0], Address(after[1]).digest, after[2])
            found = [each for each in found if _place_waiting(each) > place]
        return found[:limit]

    def is_on(self, connection: Connection) -> bool:  # noqa: ARG002
        return False

    def expire_calls(self, batch: int) -> Iterator[int]:
        del batch
        with self._lock:
            expired = 0
            for state in self._conversations.values():
                for call in state.calls.values():
                    if call != _now_expired(call):
                        expired += 1
                        state.calls[call.number] = replace(
                            call, state="expired", decided_at=call.expires_at
                        )
        if expired:
            yield expired

    def prune_changes(self, older_than: timedelta, batch: int) -> Iterator[int]:
        del batch
        with self._lock:
            pruned = sum(
                state.prune_changes(_now() - older_than) for state in self._conversations.values()
            )
        if pruned:
            yield pruned

    # Turns

    def begin_turn(self, address: Address) -> int:
        with self._lock:
            conversation = self._begin(address)
            oldest = conversation.turn - KEPT_TURNS
            conversation.steps = [step for step in conversation.steps if step.turn > oldest]
            conversation.turn += 1
            return conversation.turn

    def turn(self, address: Address) -> int:
        with self._lock:
            return self._open(address).turn

    def touch(self, address: Address) -> None:
        with self._lock:
            self._own(address).used_at = _now()

    # Whole conversations

    def fork(self, address: Address, new_id: str) -> None:
        with self._lock:
            source = self._existing(address)
            source.used_at = _now()
            fork = deepcopy(source)
            fork.begun_at = fork.used_at
            fork.calls, fork.changes = {}, []
            for ref, draft in source.drafts.items():
                if draft.state != "saved":
                    fork.drafts[ref] = replace(draft, key=None)
            self._add(Address(new_id).id, fork)

    def forget(self, address: Address) -> None:
        with self._lock:
            self._existing(address)
            self._forget(address.id)

    def _forget(self, id_: str) -> None:
        forgotten = self._conversations.pop(id_)
        self._left[id_] = ConversationState(
            None, last=forgotten.last, last_drafts=forgotten.last_drafts
        )

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        while forgotten := self._prune(unused_for, batch):
            yield forgotten
        with self._lock:
            long_ago = _now() - unused_for
            left = self._left.items()
            self._left = {id_: state for id_, state in left if state.begun_at > long_ago}

    def _prune(self, unused_for: timedelta, batch: int) -> int:
        with self._lock:
            latest = _now() - unused_for
            items = self._conversations.items()
            unused = [id_ for id_, state in items if state.used_at <= latest][:batch]
            for id_ in unused:
                self._forget(id_)
            return len(unused)

    def erase(self, key: EntityKey, table: str | None, batch: int) -> Iterator[int]:
        del batch
        with self._lock:
            erased = [state.erase(key, table) for state in self._conversations.values()]
        if any(erased):
            yield sum(erased)

    def entries(
        self,
        address: Address,
        entity: str | None = None,
        after: Ref | None = None,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        with self._lock:
            entries = list(self._open(address).by_ref.values())
        entries.sort(key=lambda entry: entry.ref)
        found = (
            entry
            for entry in entries
            if entity in (None, entry.ref.entity) and (after is None or entry.ref > after)
        )
        return islice(found, limit)

    def export(self, address: Address) -> Exported:
        with self._lock:
            conversation = self._existing(address)
            return Exported(
                id=address.id,
                owner=address.owner,
                turn=conversation.turn,
                begun_at=conversation.begun_at,
                last=dict(sorted(conversation.last.items())),
                entries=[entry for _, entry in sorted(conversation.by_ref.items())],
                last_drafts=dict(sorted(conversation.last_drafts.items())),
                drafts=[draft for _, draft in sorted(conversation.drafts.items())],
                tables=dict(sorted(conversation.tables.items())),
                activity=[conversation.activity[ref] for ref in sorted(conversation.activity)],
                steps=list(conversation.steps),
                calls=[_now_expired(call) for call in conversation.calls.values()],
                changes=list(conversation.changes),
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
                calls={call.number: call for call in exported.calls},
                changes=list(exported.changes),
                begun_at=exported.begun_at,
            )
            for entry in exported.entries:
                conversation.put(entry)
            self._add(address.id, conversation, is_same=exported.id == address.id)

    # For operators

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        id_ = Address(id).id
        with self._lock:
            if id_ not in self._conversations:
                raise UnknownConversationError(id_)
            return self._conversations[id_].info(id_)

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
        *,
        search: str | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> Iterator[ConversationInfo]:
        with self._lock:
            infos = [state.info(id_) for id_, state in self._conversations.items()]
        latest = None if unused_for is None else _now() - unused_for
        place = None if after is None else (after[0], Address(after[1]).digest)
        listed = [
            info
            for info in infos
            if (latest is None or info.used_at <= latest)
            and owner in (..., info.owner)
            and (search is None or search.lower() in info.id.lower())
            and (place is None or _place_listed(info) < place)
        ]
        listed.sort(key=_place_listed, reverse=True)
        return iter(listed[:limit])

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
                left_counters=sum(len(left.counted_entities()) for left in self._left.values()),
                drafts=dict(sorted(Counter(draft.state for draft in drafts).items())),
            )

    # Conversations by address, under the lock

    def _begin(self, address: Address, entities: Iterable[str] = ()) -> ConversationState:
        """Return the conversation for writing, as `_open` does; begin it if it does not exist."""
        conversation = self._open(address, entities)
        if address.id not in self._conversations:
            self._add(address.id, conversation)
        conversation.used_at = _now()
        for entity in entities:
            if (table := address.table_of(entity)) is not None:
                conversation.tables.setdefault(entity, table)
        return conversation

    def _add(self, id_: str, conversation: ConversationState, *, is_same: bool = False) -> None:
        """Add a conversation, and continue the counters that one of its id has left behind.

        Args:
            id_: its id.
            conversation: the one to add.
            is_same: whether it is the one that has left the counters. Another one must not have
                numbers of the same entities.
        """
        left = self._left.get(id_, ConversationState(None))
        taken = left.counted_entities() & conversation.counted_entities()
        if id_ in self._conversations or (taken and not is_same):
            raise ConversationExistsError(id_)
        conversation.last |= left.last  # of two Counters, | takes the higher number
        conversation.last_drafts |= left.last_drafts
        self._left.pop(id_, None)
        self._conversations[id_] = conversation

    def _existing(self, address: Address) -> ConversationState:
        """Return the conversation; raise if it does not exist or is another owner's."""
        if address.id not in self._conversations:
            raise UnknownConversationError(address.id)
        return self._open(address)

    def _open(self, address: Address, entities: Iterable[str] = ()) -> ConversationState:
        """Return the conversation, or an empty one if it does not exist.

        Raises:
            UnknownConversationError: it is another owner's.
            EntityTableError: refs of one of these entities are for another table's rows.
        """
        conversation = self._conversations.get(address.id) or ConversationState(address.owner)
        if conversation.owner != address.owner:
            raise UnknownConversationError(address.id)
        for entity in entities:
            address.check_table(entity, conversation.tables.get(entity))
        return conversation

    def _own(self, address: Address) -> ConversationState:
        """Return the conversation, or an empty one if it does not exist or is another owner's."""
        conversation = self._conversations.get(address.id)
        if conversation is None or conversation.owner != address.owner:
            return ConversationState(address.owner)
        return conversation


def _edit_draft(draft: DraftEntry, edit: DraftEdit, turn: int) -> DraftEntry | None:
    """Return a draft with an edit applied, or `None` if it must not be."""
    label = draft.label if edit.label is None else edit.label
    edited = (edit.version, edit.content, label)
    is_done = (draft.version - 1, draft.content, draft.label) == edited
    if draft.state != "pending" or not (is_done or edit.version in (None, draft.version)):
        return None
    version = draft.version + (not is_done)
    return replace(draft, content=edit.content, label=label, edited=turn, version=version)


def _place_listed(info: ConversationInfo) -> tuple[datetime, uuid.UUID]:
    return info.used_at, Address(info.id).digest


def _place_waiting(found: tuple[str, str | None, CallEntry]) -> tuple[datetime, uuid.UUID, int]:
    return found[2].asked_at, Address(found[0]).digest, found[2].number


def _emptied_call(call: CallEntry) -> CallEntry:
    return replace(call, arguments=None, plan=None, answer=None)


def _emptied_change(change: ChangeEntry) -> ChangeEntry:
    return replace(change, label=None, before=None, after=None)


def _copy(value: Any) -> Any:
    """Return a copy of JSON values, as a database would return it."""
    return json.loads(json_text(value))


def _now_expired(call: CallEntry) -> CallEntry:
    """Return a call as expired if it has waited for too long."""
    if call.state != "waiting" or call.expires_at is None or call.expires_at > _now():
        return call
    return replace(call, state="expired")


def _merge_activity(
    known: ActivityEntry | None, ref: Ref, done: Activity, actor: Actor, turn: int
) -> ActivityEntry:
    """Return the entry of a ref after an action on its row."""
    first = turn if known is None else known.first_turn
    entry = ActivityEntry(ref, None, None, done.action, actor, first, turn)
    if known is not None:
        if is_covered(known.action, known.last_turn, done.action, turn):
            entry = replace(
                entry, action=known.action, actor=known.actor, last_turn=known.last_turn
            )
        entry = replace(
            entry,
            reason=known.reason,
            demoted=known.demoted and done.action == "linked",
        )
    return replace(entry, fields=_merge_fields(known, done, turn))


def is_covered(known: Action, known_turn: int, new: Action, turn: int) -> bool:
    """Return whether the known action stays the last one after a new action.

    A row whose ref is shown in a foreign key is unchanged. Reading a row does not hide that it was
    written or mentioned in the same turn.
    """
    if new == "linked":
        return known != "linked"
    return new == "read" and known in _WRITTEN and known_turn == turn


def _merge_fields(known: ActivityEntry | None, done: Activity, turn: int) -> list[str] | None:
    """Return the names of the fields shown, now and in the last turns."""
    if done.action == "deleted":
        return None
    before = None if known is None else known.fields
    if done.fields is None:
        return None if before is None else [*before]
    is_recent = known is not None and known.last_turn > turn - KEPT_TURNS
    return sorted({*done.fields, *((before or ()) if is_recent else ())})
