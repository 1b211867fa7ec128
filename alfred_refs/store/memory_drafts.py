"""Drafts in this process's memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column

from alfred_refs.errors import DraftKeyError
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.refs import Ref

from .memory_state import ConversationState, Memory
from .values import Address, DraftEdit, DraftEntry, DraftState, NewDraft


class DraftMemory(Memory):
    """The part of `MemoryStore` that is about drafts."""

    def draft(
        self, address: Address, new: Sequence[NewDraft], turn: int | None = None
    ) -> list[DraftEntry]:
        if not new:
            return []
        with self._lock:
            self._open(address).check(address, {each.entity for each in new})
            conversation = self._begin(address)
            conversation.begin(address, {each.entity for each in new})
            now = conversation.turn if turn is None else turn
            return [conversation.draft(each, now) for each in new]

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._open(address)
            conversation.check(address, {ref.entity for ref in refs})
            return _known(conversation, refs)

    def drafts(
        self, address: Address, entity: str | None, states: Collection[DraftState]
    ) -> Iterator[DraftEntry]:
        with self._lock:
            conversation = self._open(address)
            drafts = [conversation.drafted(ref) for ref in sorted(conversation.drafts)]
            asked = {d.ref.entity for d in drafts if entity in (None, d.ref.entity)}
            conversation.check(address, asked)
        return (
            draft
            for draft in drafts
            if entity in (None, draft.ref.entity) and draft.state in states
        )

    def values_there(
        self,
        address: Address,  # noqa: ARG002
        column: Column[Any],  # noqa: ARG002
        values: Sequence[Any],  # noqa: ARG002
    ) -> Collection[Any]:
        return ()  # there are no tables here

    def edit_drafts(
        self, address: Address, edits: Sequence[DraftEdit], turn: int | None = None
    ) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._own(address)
            now = conversation.turn if turn is None else turn
            mine = [each for each in edits if conversation.is_of(address, each.ref.entity)]
            edited = [_edited(conversation.drafts.get(each.ref), each, now) for each in mine]
            drafts = {draft.ref: draft for draft in edited if draft is not None}
            if len(drafts) < len(edits):
                return {}
            self._use(address)
            conversation.drafts |= drafts
            return drafts

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._open(address)
            self._use(address)
            conversation.check(address, {ref.entity for ref in refs})
            drafts = _known(conversation, refs)
            if len(drafts) == len(set(refs)) and all(d.state != "saved" for d in drafts.values()):
                for ref in drafts:
                    conversation.drafts[ref] = replace(conversation.drafts[ref], state="discarded")
            return _known(conversation, refs)

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._open(address)
            self._use(address)
            conversation.check(address, {ref.entity for ref in keys})
            reserved = dict(conversation.drafts)
            for ref, draft in _known(conversation, list(keys)).items():
                if draft.state == "pending" and draft.key is None:
                    reserved[ref] = replace(conversation.drafts[ref], key=keys[ref])
            taken = [(d.ref.entity, d.key) for d in reserved.values() if d.key is not None]
            if len(taken) > len(set(taken)):
                raise DraftKeyError(*map(str, keys))
            conversation.drafts = reserved
            return _known(conversation, list(keys))

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        with self._lock:
            conversation = self._own(address)
            self._use(address)
            mine = [ref for ref in refs if conversation.is_of(address, ref.entity)]
            for ref in _known(conversation, mine):
                if conversation.drafts[ref].key is not None:
                    conversation.drafts[ref] = replace(conversation.drafts[ref], state="saved")
                    row = conversation.drafted(ref).row
                    if row is not None and row.gone == "was never saved":
                        conversation.keep(replace(row, gone=None))


def _known(conversation: ConversationState, refs: Sequence[Ref]) -> dict[Ref, DraftEntry]:
    return {ref: conversation.drafted(ref) for ref in refs if ref in conversation.drafts}


def _edited(draft: DraftEntry | None, edit: DraftEdit, turn: int) -> DraftEntry | None:
    """Return a draft as it is once edited, `None` if it may not be."""
    if draft is None or draft.state != "pending":
        return None
    label = draft.label if edit.label is None else edit.label
    wanted = (edit.version, edit.content, label)
    is_done = (draft.version - 1, draft.content, draft.label) == wanted
    if edit.version not in (None, draft.version) and not is_done:
        return None
    version = draft.version + (not is_done)
    return replace(draft, content=edit.content, label=label, edited=turn, version=version)
