"""What was done with rows, and steps, in this process's memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from alfred_refs.mapping.refs import Ref

from .activity import (
    KEPT_TURNS,
    LARGEST,
    Activity,
    ActivityEntry,
    ActivityRecord,
    Actor,
    StepEntry,
    is_covered,
    merged,
)
from .memory_state import ConversationState, Memory
from .values import Address


class ActivityMemory(Memory):
    """The part of `MemoryStore` that is about what was done with rows."""

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
            minted = [each for each in done if not (each.shown or each.action == "deleted")]
            conversation = self._begin(address, {each.key[0] for each in minted})
            for each in minted:
                conversation.refer(each.key, each.label)
            now = conversation.turn if turn is None else turn
            for each in done:
                ref = conversation.by_key.get(each.key)
                if ref is not None:
                    conversation.activity[ref] = _noted(conversation, ref, each, actor, now)

    def activity(self, address: Address, turns: int, turn: int | None = None) -> ActivityRecord:
        with self._lock:
            conversation = self._open(address)
            conversation = self._open(address, conversation.counts())
            now = conversation.turn if turn is None else turn
            entries = [
                replace(entry, gone=row.gone, label=row.label)
                for ref, entry in sorted(conversation.activity.items())
                for row in (conversation.by_ref[ref],)
                if entry.reason is not None or entry.last_turn > now - turns
            ]
            return ActivityRecord(now, entries, conversation.counts())

    def retain(self, address: Address, refs: Sequence[Ref], reason: str, actor: Actor) -> None:
        with self._lock:
            conversation = self._own(address)
            for ref in _known(conversation, address, refs):
                turn = conversation.turn
                new = ActivityEntry(ref, None, None, "linked", actor, turn, turn)
                entry = conversation.activity.get(ref, new)
                conversation.activity[ref] = replace(entry, reason=reason, demoted=False)

    def demote(self, address: Address, refs: Sequence[Ref]) -> None:
        with self._lock:
            conversation = self._own(address)
            for ref in _known(conversation, address, refs):
                if ref in conversation.activity:
                    entry = conversation.activity[ref]
                    conversation.activity[ref] = replace(entry, demoted=True)

    def drop(self, address: Address, refs: Sequence[Ref]) -> None:
        with self._lock:
            conversation = self._own(address)
            for ref in _known(conversation, address, refs):
                conversation.activity.pop(ref, None)

    def add_step(self, address: Address, content: str, turn: int | None = None) -> StepEntry:
        with self._lock:
            conversation = self._begin(address)
            now = conversation.turn if turn is None else turn
            number = 1 + max((s.number for s in conversation.steps if s.turn == now), default=0)
            step = StepEntry(now, number, content)
            conversation.steps = sorted([*conversation.steps, step], key=_place)
            return step

    def steps(self, address: Address, turns: int, turn: int | None = None) -> list[StepEntry]:
        with self._lock:
            conversation = self._open(address)
            now = conversation.turn if turn is None else turn
            return [step for step in conversation.steps if step.turn > now - turns]


def forget_seen(conversation: ConversationState) -> None:
    """Forget what is too old, as the next turn begins."""
    oldest = conversation.turn - KEPT_TURNS
    conversation.steps = [step for step in conversation.steps if step.turn > oldest]
    for ref, entry in conversation.activity.items():
        if entry.seen_turn is not None and entry.seen_turn <= oldest:
            conversation.activity[ref] = replace(entry, seen=None)


def _place(step: StepEntry) -> tuple[int, int]:
    return step.turn, step.number


def _known(conversation: ConversationState, address: Address, refs: Sequence[Ref]) -> list[Ref]:
    return [
        ref
        for ref in refs
        if ref in conversation.by_ref
        and address.uses(ref.entity, conversation.tables.get(ref.entity))
    ]


def _noted(
    conversation: ConversationState, ref: Ref, done: Activity, actor: Actor, turn: int
) -> ActivityEntry:
    """Return what is known of a row once something was done with it."""
    known = conversation.activity.get(ref)
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
            seen_turn=known.seen_turn,
            seen=None if done.action == "deleted" else known.seen,
        )
    if done.seen is None or done.action == "deleted":
        return entry
    seen = merged(entry.seen, done.seen, done.heads)
    too_large = len(json.dumps(seen, ensure_ascii=False)) > LARGEST
    return replace(entry, seen_turn=turn, seen=dict(done.seen) if too_large else seen)
