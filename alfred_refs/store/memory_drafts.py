"""Drafts in this process's memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column

from alfred_refs.errors import DraftKeyError
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.refs import Ref

from .memory_state import Memory, now
from .values import Address, DraftEdit, DraftEntry, DraftState, NewDraft


class DraftMemory(Memory):
    """The part of `MemoryStore` that is about drafts."""

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
            return self._open(address, {ref.entity for ref in refs}).drafted(refs)

    def drafts(
        self, address: Address, entity: str | None, states: Collection[DraftState]
    ) -> Iterator[DraftEntry]:
        with self._lock:
            refs = sorted(r for r in self._open(address).drafts if entity in (None, r.entity))
            drafts = self._open(address, {ref.entity for ref in refs}).drafted(refs)
        return (draft for draft in drafts.values() if draft.state in states)

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
            turn = conversation.turn if turn is None else turn
            drafts = {}
            for edit in edits:
                draft = conversation.drafts.get(edit.ref)
                table = conversation.tables.get(edit.ref.entity)
                if draft is None or not address.uses(edit.ref.entity, table):
                    return {}
                edited = _edited(draft, edit, turn)
                if edited is None:
                    return {}
                drafts[edit.ref] = edited
            conversation.used_at = now()
            conversation.drafts |= drafts
            return drafts

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._open(address, {ref.entity for ref in refs})
            conversation.used_at = now()
            drafts = conversation.drafted(refs)
            if len(drafts) == len(set(refs)) and all(d.state != "saved" for d in drafts.values()):
                for ref in drafts:
                    conversation.drafts[ref] = replace(conversation.drafts[ref], state="discarded")
            return conversation.drafted(refs)

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        with self._lock:
            conversation = self._open(address, {ref.entity for ref in keys})
            conversation.used_at = now()
            reserved = dict(conversation.drafts)
            for ref in keys.keys() & reserved.keys():
                if reserved[ref].state == "pending" and reserved[ref].key is None:
                    reserved[ref] = replace(reserved[ref], key=keys[ref])
            taken = [(d.ref.entity, d.key) for d in reserved.values() if d.key is not None]
            if len(taken) > len(set(taken)):
                raise DraftKeyError(*map(str, keys))
            conversation.drafts = reserved
            return conversation.drafted(keys)

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        with self._lock:
            conversation = self._own(address)
            conversation.used_at = now()
            for ref, draft in conversation.drafted(refs).items():
                if draft.key is None or not address.uses(
                    ref.entity, conversation.tables.get(ref.entity)
                ):
                    continue
                conversation.drafts[ref] = replace(conversation.drafts[ref], state="saved")
                if draft.row is not None and draft.row.gone == "was never saved":
                    conversation.keep(replace(draft.row, gone=None))


def _edited(draft: DraftEntry, edit: DraftEdit, turn: int) -> DraftEntry | None:
    """Return a draft as it is once edited, `None` if it may not be."""
    label = draft.label if edit.label is None else edit.label
    wanted = (edit.version, edit.content, label)
    is_done = (draft.version - 1, draft.content, draft.label) == wanted
    if draft.state != "pending" or not (is_done or edit.version in (None, draft.version)):
        return None
    version = draft.version + (not is_done)
    return replace(draft, content=edit.content, label=label, edited=turn, version=version)
