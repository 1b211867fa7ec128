"""Drafts: create, edit, discard.

The drafts of a conversation: content that was generated and is not saved, by its `gen_` ref.

Content comes in and goes out as JSON values, in which rows are named by refs. The registry keeps
it for the turns and processes to come; no table of the application is touched here. A draft is
saved by those who insert its row, in three steps: `reserve_keys`, the row with that key, and
`confirm_drafts` when it is committed. The key is decided first, so whoever saves the same draft
once more, at the same time or after a crash, inserts the same row, and the table lets one be.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, get_args

from sqlalchemy import Table

from alfred_refs.conversation import draft_fields
from alfred_refs.conversation.draft_fields import (
    check_draftable,
    model_of,
    record_of,
    seen_by_labels,
    with_class,
)
from alfred_refs.conversation.refs import Draft, RefMap, bad_draft_error
from alfred_refs.errors import SavedDraftError, SetupError, StaleDraftError
from alfred_refs.mapping import key_columns
from alfred_refs.mapping.keys import Key, Ref, draft_named, parse_ref
from alfred_refs.store import DraftEdit, DraftEntry, DraftState, NewDraft

_PENDING: tuple[DraftState, ...] = ("pending",)
_TOGETHER = 50  # drafts whose rows are looked for at once


class DraftMap(RefMap):
    """What the drafts of one conversation hold, and what has become of them."""

    _turn: int | None = None

    @property
    def _working_turn(self) -> int | None:
        """The turn that this object works in, once it is known."""
        return self._turn

    def draft(
        self,
        entity: type[Any] | Table | str,
        content: Mapping[str, Any],
        label: str | None = None,
    ) -> Draft:
        """Keep content as a draft, which is durable when it is returned.

        That is one round trip, and one more for refs in it that this process has not met.

        Args:
            entity: the mapped class, table or entity that it is to become a row of.
            content: the row's values by attribute, in JSON values as their columns take them, with
                refs for keys. By relationship, related rows: objects for new ones, which may be
                nested, and refs for those that are there. Refs may be those of other drafts.
            label: what people are to call it; left out, what the class says, if it can say it.

        Raises:
            DraftContentError: the content is no JSON object, is too large, has a field that the
                class has not, or a value that does not fit its column.
            BadRefError: a ref in it names nothing that can be used.
            SetupError: rows of the class cannot be drafted: their keys cannot be decided before
                they are inserted.
        """
        [made] = self.draft_all([(entity, content)], label)
        return made

    def draft_all(
        self,
        given: Iterable[tuple[type[Any] | Table | str, Mapping[str, Any]]],
        label: str | None = None,
    ) -> list[Draft]:
        """Keep contents as drafts of their entities, all or none: see `draft`."""
        new = []
        for entity, content in given:
            name = self._entities.name_of(entity)
            model = model_of(entity, self._entities)
            if model is not None:
                check_draftable(model, self._entities)
            new.append(NewDraft(name, *self._content(model, content, label)))
        entries = self._store.draft(self._address, new, self._working_turn)
        return [self._shown(entry) for entry in entries]

    def drafts(
        self,
        entity: type[Any] | Table | str | None = None,
        states: Collection[DraftState] = _PENDING,
        *,
        keys: bool = False,
    ) -> Iterator[Draft]:
        """Iterate over drafts in natural order, read from the store page by page.

        Args:
            entity: drafts of this entity, mapped class or table only.
            states: what has become of them: `"pending"`, `"saved"` or `"discarded"`.
            keys: with the keys that are reserved for their rows; for trusted code.

        Raises:
            SetupError: there is no such state.
            EntityNameError: a row has to be looked for, and its table is not known either.
        """
        unknown = sorted(set(states) - {*get_args(DraftState)})
        if unknown:
            raise SetupError(
                f"drafts cannot be {unknown[0]!r}", f"give some of {get_args(DraftState)!r}"
            )
        name = None if entity is None else self._entities.name_of(entity)
        return self._listed(name, {*states}, keys=keys)

    def _listed(
        self, entity: str | None, states: Collection[DraftState], *, keys: bool
    ) -> Iterator[Draft]:
        # those pending too: they may be saved without anybody having been told
        found = self._store.drafts(self._address, entity, {*states, *_PENDING})
        for page in _pages(found):
            for entry in self._settled({entry.ref: entry for entry in page}).values():
                if entry.state in states:
                    yield self._shown(entry, keys=keys)

    def read_drafts(
        self,
        refs: Iterable[str],
        entity: type[Any] | Table | str | None = None,
        *,
        keys: bool = False,
    ) -> list[Draft]:
        """Return drafts by their refs, in order, pending or saved: one round trip.

        Args:
            refs: as a model gave them.
            entity: what all are to be drafts of; `None` for any.
            keys: as for `drafts`.

        Raises:
            BadRefError: one of them names no draft of this conversation, was discarded, or is of
                another entity; it is about the first such ref.
        """
        texts = list(refs)
        found = self._drafts_of(texts)
        name = None if entity is None else self._entities.name_of(entity)
        return [self._shown(self._usable_entry(text, found, name), keys=keys) for text in texts]

    def edit_draft(
        self,
        ref: str,
        content: Mapping[str, Any],
        *,
        label: str | None = None,
        version: int | None = None,
    ) -> Draft:
        """Replace what a pending draft holds: one round trip.

        A save that is under way may still be of what it held before.

        Args:
            ref: which.
            content: all that it holds from now on, as for `draft`.
            label: another label; left out, what the class says of the new content, or else the
                one it has.
            version: the version that was read, so that nobody's edit in between is undone.

        Raises:
            BadRefError: it names no pending draft of this conversation.
            StaleDraftError: it has another version by now.
            DraftContentError: as for `draft`.
            EntityNameError: as for `edit_drafts`.
        """
        named = {} if label is None else {ref: label}
        read = {} if version is None else {ref: version}
        return self.edit_drafts({ref: content}, labels=named, versions=read)[0]

    def edit_drafts(
        self,
        contents: Mapping[str, Mapping[str, Any]],
        *,
        labels: Mapping[str, str] | None = None,
        versions: Mapping[str, int] | None = None,
    ) -> list[Draft]:
        """Replace what pending drafts hold, all or none, and return them: one round trip.

        Args:
            contents: by the refs of the drafts, as for `edit_draft`.
            labels: other labels, of those that get one.
            versions: the versions that were read, of those that nobody else may have edited.

        Raises:
            BadRefError: one of them names no pending draft of this conversation.
            StaleDraftError: one has another version by now.
            DraftContentError: as for `draft`.
            EntityNameError: several unused classes have the entity's name: which is not known.
        """
        named, read = labels or {}, versions or {}
        edits = [
            self._edit(parsed, content, named.get(ref), read.get(ref))
            for ref, content in contents.items()
            if (parsed := draft_named(ref)) is not None
        ]
        done: Mapping[Ref, DraftEntry] = {}
        if edits and len(edits) == len(contents):
            done = self._store.edit_drafts(self._address, edits, self._working_turn)
        if len(done) < len(contents):
            raise self._telemetry.refused(self.id, self._uneditable([*contents], read))
        reserved = {ref: entry for ref, entry in done.items() if entry.key is not None}
        settled = self._settled(reserved) if reserved else {}  # their rows may be there by now
        for ref in settled:
            self._pending(str(ref), settled)
        return [self._shown(done[edit.ref]) for edit in edits]

    def _edit(
        self, ref: Ref, content: Mapping[str, Any], label: str | None, version: int | None
    ) -> DraftEdit:
        model = model_of(ref.entity, self._entities)
        return DraftEdit(ref, *self._content(model, content, label), version)

    def _uneditable(self, refs: Sequence[str], versions: Mapping[str, int]) -> StaleDraftError:
        """Return why drafts could not be edited, if not because one cannot be used at all."""
        found = self._drafts_of(refs)
        newest = {ref: self._pending(ref, found).version for ref in refs}
        stale = next((ref for ref in refs if versions.get(ref) != newest[ref]), refs[0])
        return StaleDraftError(stale, versions.get(stale, 0), newest[stale])

    def discard_drafts(self, refs: Iterable[str]) -> list[Draft]:
        """Discard pending drafts, all or none, and return them: two round trips.

        They are kept, and their numbers with them. One whose row is being saved meanwhile is
        saved, if its row is committed: `Draft.reserved` tells which may be.

        Args:
            refs: of the drafts.

        Raises:
            BadRefError: one of them is not known, or saved; one that is discarded already is not
                bad.
        """
        texts = list(refs)
        parsed = {text: ref for text in texts if (ref := draft_named(text)) is not None}
        found = self._drafts_of(texts)  # which of them are saved is known then
        if len(parsed) == len(set(texts)) and parsed:
            found = self._store.discard_drafts(self._address, list(parsed.values()))
        for text in texts:
            if text not in parsed or parsed[text] not in found:
                self._usable_entry(text, found)
            elif found[parsed[text]].state == "saved":
                self._pending(text, found)
        return [self._shown(found[parsed[text]]) for text in texts]

    def reserve_keys(self, keys: Mapping[str, Key]) -> dict[str, Draft]:
        """Decide which keys the rows of drafts get, before they are inserted: one round trip.

        For trusted code that saves drafts. The first key that is reserved for a draft stays, and
        is used again by whoever saves it later: after a rollback, or if nobody knows whether the
        row was committed.

        Args:
            keys: by the refs of drafts; such as no other row can have.

        Returns:
            the drafts with their keys, which may be others than those given. One that is saved
            has that of its row: there is nothing left to insert.

        Raises:
            BadRefError: one of them names no draft of this conversation, or was discarded.
            DraftKeyError: one of the keys is reserved for another draft.
        """
        parsed = {ref: text for text in keys if (ref := draft_named(text)) is not None}
        if len(parsed) < len(keys):
            for text in keys:
                self._usable_entry(text, self._drafts_of([text]))
        chosen = {ref: keys[text] for ref, text in parsed.items()}
        found = dict(self._store.reserve_keys(self._address, chosen))
        # another key may be of a row that is there: there is nothing left to insert
        found |= self._settled({r: e for r, e in found.items() if e.key != chosen.get(r)})
        return {text: self._shown(self._usable_entry(text, found), keys=True) for text in keys}

    def confirm_drafts(self, refs: Iterable[str]) -> None:
        """Note that the rows of drafts are committed, under the keys that were reserved for them.

        For trusted code that saves drafts, or that has found their rows in the table. From then on
        their refs resolve to the rows.

        Args:
            refs: of the drafts; those without a reserved key are skipped, and unknown ones.
        """
        drafts = [ref for text in refs if (ref := draft_named(text)) is not None]
        self._store.confirm_drafts(self._address, drafts)

    def _settle_all(self) -> None:
        """Find out which pending drafts are saved."""
        for _ in self._listed(None, (), keys=False):
            pass

    def _drafts_of(self, texts: Sequence[str]) -> Mapping[Ref, DraftEntry]:
        refs = [ref for text in dict.fromkeys(texts) if (ref := draft_named(text)) is not None]
        return self._fetch_drafts(refs)

    def _content(
        self, model: type[Any] | None, content: Mapping[str, Any], label: str | None
    ) -> tuple[str, str | None]:
        """Return content as it is kept, once it is known to be some of the entity's rows.

        Of an entity that no class of this process is mapped to, only its form is known.

        Returns:
            its text, and its label: that which is given, or else the one that the class makes of
            what is there, if it can be made of that.

        Raises:
            LabelError: the class's function cannot be used.
        """
        called = None if label is None else key_columns.clean(label)
        if model is None or not isinstance(content, Mapping):
            return draft_fields.to_text(content), called
        text = draft_fields.to_text(with_class(model, content))
        entities = self._entities
        record = record_of(model, content, entities)
        wanted = dict.fromkeys(record.refs(entities))
        drafts = [want for want in wanted if draft_named(want[0]) is not None]
        self.resolve_pairs([want for want in wanted if draft_named(want[0]) is None])
        found = self._drafts_of([text for text, _ in drafts])
        for draft, needed in drafts:
            self._usable_entry(draft, found, needed)
        said = entities.of_class(record.model).label
        if label is None and said is not None:
            called = said.of(seen_by_labels(record))
        return text, called

    def _usable_entry(
        self, text: str, found: Mapping[Ref, DraftEntry], entity: str | None = None
    ) -> DraftEntry:
        """Return what was found of a draft, if it can be used."""
        ref = parse_ref(text)
        entry = None if ref is None else found.get(ref)
        if entry is None or entry.state == "discarded" or entity not in (None, entry.ref.entity):
            error = bad_draft_error(text, ref, entry, entity, self._suggestions())
            raise self._telemetry.refused(self.id, error)
        return entry

    def _pending(self, text: str, found: Mapping[Ref, DraftEntry]) -> DraftEntry:
        entry = self._usable_entry(text, found)
        if entry.state == "saved":
            error = SavedDraftError(text, str(self._shown(entry).saved))
            raise self._telemetry.refused(self.id, error)
        return entry

    def _shown(self, entry: DraftEntry, *, keys: bool = False) -> Draft:
        entity, saved, label = entry.ref.entity, None, entry.label
        if entry.state == "saved" and entry.key is not None:
            row = entry.row
            saved = str(row.ref) if row else self.refer_pairs([(entity, entry.key)])[0]
            label = row.label if row and row.label is not None else label
        return Draft(
            *(str(entry.ref), entity, json.loads(entry.content), label, entry.turn),
            *(entry.edited, entry.version, entry.state, entry.key is not None, saved),
            key=entry.key if keys else None,
        )


def _pages(entries: Iterator[DraftEntry]) -> Iterator[list[DraftEntry]]:
    """Yield drafts some at a time."""
    while page := list(islice(entries, _TOGETHER)):
        yield page
