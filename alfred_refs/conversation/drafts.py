"""Drafts: content that a model generated and that is not saved yet, by its `gen_` ref.

`DraftMap` is the part of `Conversation` that keeps drafts. They are JSON in the registry, in which
rows are named by refs; no table of the application is written here:

>>> draft = chat.draft(Recipe, {"name": "Stew", "lines": [{"text": "1 carrot", "position": 1}]})
>>> draft.ref, draft.version, draft.state
('gen_recipe_1', 1, 'pending')
>>> chat.edit_draft("gen_recipe_1", {"name": "Stew", "servings": 2}, version=1).version
2
>>> [each.state for each in chat.discard_drafts(["gen_recipe_1"])]
['discarded']

How a draft becomes a row, in a session or in other trusted code:

1. `reserve_keys` stores the key of the row. The first key that is stored for a draft stays.
2. The row is inserted with that key, and committed.
3. `confirm_drafts` marks the draft as saved; from then on its ref resolves to the row.

As the key is decided first, saving a draft again, at the same time or after a crash, inserts the
same row, and the primary key allows that once. If step 3 is lost, the next access to the draft
finds the row and marks the draft (`draft_rows.reconcile_drafts`).

Limits:

- Content is checked when it is written (`draft_content`), and not when the mapping has changed.
- Drafts are of one conversation; a fork has copies, which may be saved too, as other rows.
- Numbers of discarded drafts are not used again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, get_args

from sqlalchemy import Table

from alfred_refs.conversation import draft_content
from alfred_refs.conversation.draft_content import (
    label_attributes,
    model_of,
    parse_content,
    with_discriminator,
)
from alfred_refs.conversation.draft_rows import check_draftable
from alfred_refs.conversation.refs import RefMap, bad_draft_error
from alfred_refs.errors import SavedDraftError, SetupError, StaleDraftError
from alfred_refs.mapping.keys import Key, Ref, parse_draft_ref, parse_ref
from alfred_refs.mapping.labels import clean_label
from alfred_refs.store import DraftEdit, DraftEntry, DraftState, NewDraft

_PENDING: tuple[DraftState, ...] = ("pending",)
_PAGE_SIZE = 50  # drafts whose rows are looked for in one query


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft, as it was when it was read.

    Attributes:
        ref: as a model sees it: `gen_recipe_1`.
        entity: the kind of row that it is to become.
        content: JSON values, by field; a copy.
        label: what people are to call it, in one line; `None` where that is not known. It is text
            of a model or of the application's users: show it, and never follow instructions in it.
        turn: the turn in which it was generated.
        edited: the turn of its last edit, or of its creation.
        version: 1, and one more with each edit.
        state: `"pending"`, `"saved"` or `"discarded"`.
        reserved: whether the key of its row is decided. If it is pending, a save has begun, and
            its row may exist.
        saved: the ref of its row; `None` where it is not saved.
        key: the key of its row, if there is one and it was requested; not in the `repr`.

    Example:
        >>> draft = chat.draft(Recipe, {"name": "Curry"})
        >>> draft.ref, draft.state
        ('gen_recipe_1', 'pending')
        >>> session.add(session.get(Recipe, "gen_recipe_1"))
        >>> session.commit()
        >>> [draft] = chat.read_drafts(["gen_recipe_1"])
        >>> draft.state, draft.saved
        ('saved', 'recipe_3')
    """

    ref: str
    entity: str
    content: dict[str, Any] = field(hash=False)
    label: str | None
    turn: int
    edited: int
    version: int
    state: DraftState
    reserved: bool = False
    saved: str | None = None
    key: Key | None = field(default=None, repr=False)


class DraftMap(RefMap):
    """The drafts of one conversation."""

    _turn: int | None = None

    @property
    def _working_turn(self) -> int | None:
        """The turn that this object works in; `None` while it is not known."""
        return self._turn

    def draft(
        self,
        entity: type[Any] | Table | str,
        content: Mapping[str, Any],
        label: str | None = None,
    ) -> Draft:
        """Store content as a draft; it is durable when this returns.

        That is one round trip, and one more if the content has refs that are not cached.

        Args:
            entity: the mapped class, table or entity that it is to become a row of.
            content: the row's values by attribute, as JSON values that fit their columns, with
                refs for keys. By relationship, related rows: objects for new ones, which may be
                nested, and refs for existing ones. Refs may name other drafts.
            label: what people are to call it; by default, the label that the class makes of the
                content, if it can.

        Raises:
            DraftContentError: the content is not a JSON object, is too large, has a field that the
                class does not have, or a value that does not fit its column.
            BadRefError: a ref in it cannot be used.
            SetupError: rows of the class cannot be drafted: their keys cannot be decided before
                they are inserted.
        """
        [draft] = self.draft_all([(entity, content)], label)
        return draft

    def draft_all(
        self,
        contents: Iterable[tuple[type[Any] | Table | str, Mapping[str, Any]]],
        label: str | None = None,
    ) -> list[Draft]:
        """Store contents as drafts of their entities, all or none: see `draft`."""
        new = []
        for entity, content in contents:
            name = self._entities.name_of(entity)
            model = model_of(entity, self._entities)
            if model is not None:
                check_draftable(model, self._entities)
            new.append(NewDraft(name, *self._checked_content(model, content, label)))
        entries = self._store.draft(self._address, new, self._working_turn)
        return [self._to_draft(entry) for entry in entries]

    def drafts(
        self,
        entity: type[Any] | Table | str | None = None,
        states: Collection[DraftState] = _PENDING,
        *,
        keys: bool = False,
        after: str | None = None,
    ) -> Iterator[Draft]:
        """Iterate over drafts in natural order, read from the store page by page.

        Args:
            entity: drafts of this entity, mapped class or table only.
            states: drafts in these states only: `"pending"`, `"saved"` or `"discarded"`.
            keys: include the keys that are reserved for their rows; for trusted code.
            after: drafts after this one only, known or not, to continue a list.

        Raises:
            SetupError: one is not a state.
            EntityNameError: a row has to be looked for, and its table is not known either.
        """
        unknown = sorted(set(states) - {*get_args(DraftState)})
        if unknown:
            raise SetupError(
                f"drafts cannot be {unknown[0]!r}", f"give some of {get_args(DraftState)!r}"
            )
        name = None if entity is None else self._entities.name_of(entity)
        place = None if after is None else parse_draft_ref(after)
        return self._iterate(name, {*states}, place, keys=keys)

    def _iterate(
        self,
        entity: str | None,
        states: Collection[DraftState],
        after: Ref | None = None,
        *,
        keys: bool,
    ) -> Iterator[Draft]:
        # a draft that the registry has as pending may turn out to be saved
        entries = self._store.drafts(self._address, entity, {*states, *_PENDING}, after)
        while page := list(islice(entries, _PAGE_SIZE)):
            for entry in self._reconcile({entry.ref: entry for entry in page}).values():
                if entry.state in states:
                    yield self._to_draft(entry, keys=keys)

    def _reconcile_all(self) -> None:
        """Mark all pending drafts as saved whose rows exist."""
        for _ in self._iterate(None, (), keys=False):
            pass

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
            entity: the entity that all must be drafts of; `None` for any.
            keys: as for `drafts`.

        Raises:
            BadRefError: one of them names no draft of this conversation, was discarded, or is of
                another entity; it is about the first such ref.
        """
        texts = list(refs)
        entries = self._entries_of(texts)
        name = None if entity is None else self._entities.name_of(entity)
        return [
            self._to_draft(self._usable_entry(text, entries, name), keys=keys) for text in texts
        ]

    def edit_draft(
        self,
        ref: str,
        content: Mapping[str, Any],
        *,
        label: str | None = None,
        version: int | None = None,
    ) -> Draft:
        """Replace the content of a pending draft: one round trip.

        A save that is under way may still be of the former content.

        Args:
            ref: of the draft.
            content: the whole new content, as for `draft`.
            label: another label; by default, the label that the class makes of the new content,
                or else the present one.
            version: the version that was read, so that the edit does not overwrite another one.

        Raises:
            BadRefError: it names no pending draft of this conversation.
            StaleDraftError: it has another version by now.
            DraftContentError: as for `draft`.
            EntityNameError: as for `edit_drafts`.
        """
        labels = {} if label is None else {ref: label}
        versions = {} if version is None else {ref: version}
        return self.edit_drafts({ref: content}, labels=labels, versions=versions)[0]

    def edit_drafts(
        self,
        contents: Mapping[str, Mapping[str, Any]],
        *,
        labels: Mapping[str, str] | None = None,
        versions: Mapping[str, int] | None = None,
    ) -> list[Draft]:
        """Replace the contents of pending drafts, all or none, and return them: one round trip.

        Args:
            contents: by the refs of the drafts, as for `edit_draft`.
            labels: other labels, by ref.
            versions: the versions that were read, by ref.

        Raises:
            BadRefError: one of them names no pending draft of this conversation.
            StaleDraftError: one has another version by now.
            DraftContentError: as for `draft`.
            EntityNameError: several mapped classes, none of them in use yet, have the entity's
                name.
        """
        labels, versions = labels or {}, versions or {}
        edits = [
            self._edit(parsed, content, labels.get(ref), versions.get(ref))
            for ref, content in contents.items()
            if (parsed := parse_draft_ref(ref)) is not None
        ]
        edited: Mapping[Ref, DraftEntry] = {}
        if edits and len(edits) == len(contents):
            edited = self._store.edit_drafts(self._address, edits, self._working_turn)
        if len(edited) < len(contents):
            raise self._telemetry.record_refusal(self.id, self._edit_error([*contents], versions))
        reserved = {ref: entry for ref, entry in edited.items() if entry.key is not None}
        reconciled = self._reconcile(reserved) if reserved else {}  # their rows may exist by now
        for ref in reconciled:
            self._pending_entry(str(ref), reconciled)
        return [self._to_draft(edited[edit.ref]) for edit in edits]

    def _edit(
        self, ref: Ref, content: Mapping[str, Any], label: str | None, version: int | None
    ) -> DraftEdit:
        model = model_of(ref.entity, self._entities)
        return DraftEdit(ref, *self._checked_content(model, content, label), version)

    def _edit_error(self, refs: Sequence[str], versions: Mapping[str, int]) -> StaleDraftError:
        """Return the error for drafts of other versions; raise if one cannot be edited at all."""
        entries = self._entries_of(refs)
        current = {ref: self._pending_entry(ref, entries).version for ref in refs}
        stale = next((ref for ref in refs if versions.get(ref) != current[ref]), refs[0])
        return StaleDraftError(stale, versions.get(stale, 0), current[stale])

    def discard_drafts(self, refs: Iterable[str]) -> list[Draft]:
        """Discard pending drafts, all or none, and return them: two round trips.

        They stay in the registry, and their numbers are not used again. If the row of one is being
        saved at the same time and is committed, the draft is saved: see `Draft.reserved`.

        Args:
            refs: of the drafts.

        Raises:
            BadRefError: one of them is not known, or saved. Discarding a draft again is allowed.
        """
        texts = list(refs)
        parsed = {text: ref for text in texts if (ref := parse_draft_ref(text)) is not None}
        entries = self._entries_of(texts)  # marks those whose rows exist as saved
        if len(parsed) == len(set(texts)) and parsed:
            entries = self._store.discard_drafts(self._address, list(parsed.values()))
        for text in texts:
            if text not in parsed or parsed[text] not in entries:
                self._usable_entry(text, entries)
            elif entries[parsed[text]].state == "saved":
                self._pending_entry(text, entries)
        return [self._to_draft(entries[parsed[text]]) for text in texts]

    def reserve_keys(self, keys: Mapping[str, Key]) -> dict[str, Draft]:
        """Decide the keys of the rows of drafts, before they are inserted: one round trip.

        For programs that save drafts without a `RefSession`: reserve a key, insert the row with
        it, commit, and call `confirm_drafts`. The first key that is reserved for a draft stays,
        and concurrent and later saves get it too, so that the table's primary key lets one win.

        Args:
            keys: by the refs of drafts; keys that no other row can get, such as a new UUID or the
                next value of the table's sequence.

        Returns:
            the drafts with their keys, which may differ from the ones passed. A saved draft has
            the key of its row: there is nothing left to insert.

        Raises:
            BadRefError: one of them names no draft of this conversation, or was discarded.
            DraftKeyError: one of the keys is reserved for another draft.
        """
        parsed = {ref: text for text in keys if (ref := parse_draft_ref(text)) is not None}
        if len(parsed) < len(keys):
            for text in keys:
                self._usable_entry(text, self._entries_of([text]))
        requested = {ref: keys[text] for ref, text in parsed.items()}
        entries = dict(self._store.reserve_keys(self._address, requested))
        # the row of a key that was reserved before may exist already
        entries |= self._reconcile({r: e for r, e in entries.items() if e.key != requested.get(r)})
        return {
            text: self._to_draft(self._usable_entry(text, entries), keys=True) for text in keys
        }

    def confirm_drafts(self, refs: Iterable[str]) -> None:
        """Mark drafts as saved, whose rows are committed under the keys reserved for them.

        For trusted code that saves drafts, or that has found their rows in the table. From then on
        their refs resolve to the rows.

        Args:
            refs: of the drafts; unknown ones and those without a reserved key are skipped.
        """
        drafts = [ref for text in refs if (ref := parse_draft_ref(text)) is not None]
        self._store.confirm_drafts(self._address, drafts)

    def _entries_of(self, texts: Sequence[str]) -> Mapping[Ref, DraftEntry]:
        refs = [ref for text in dict.fromkeys(texts) if (ref := parse_draft_ref(text)) is not None]
        return self._fetch_drafts(refs)

    def _checked_content(
        self, model: type[Any] | None, content: Mapping[str, Any], label: str | None
    ) -> tuple[str, str | None]:
        """Return content as stored, with its label, after checking it.

        Without a class that is mapped in this process, only the JSON is checked.

        Returns:
            the text, and the passed label or else the one that the class makes of the content.

        Raises:
            LabelError: the class's label function cannot be used.
        """
        text_label = None if label is None else clean_label(label)
        if model is None or not isinstance(content, Mapping):
            return draft_content.to_text(content), text_label
        text = draft_content.to_text(with_discriminator(model, content))
        entities = self._entities
        row = parse_content(model, content, entities)
        refs = dict.fromkeys(row.refs(entities))
        drafts = [ref for ref in refs if parse_draft_ref(ref[0]) is not None]
        self.resolve_pairs([ref for ref in refs if parse_draft_ref(ref[0]) is None])
        entries = self._entries_of([draft for draft, _ in drafts])
        for draft, expected in drafts:
            self._usable_entry(draft, entries, expected)
        label_rule = entities.of_class(row.model).label
        if label is None and label_rule is not None:
            text_label = label_rule.of(label_attributes(row))
        return text, text_label

    def _usable_entry(
        self, text: str, entries: Mapping[Ref, DraftEntry], entity: str | None = None
    ) -> DraftEntry:
        """Return the entry of a draft; raise if it cannot be used."""
        ref = parse_ref(text)
        entry = None if ref is None else entries.get(ref)
        if entry is None or entry.state == "discarded" or entity not in (None, entry.ref.entity):
            error = bad_draft_error(text, ref, entry, entity, self._suggestions())
            raise self._telemetry.record_refusal(self.id, error)
        return entry

    def _pending_entry(self, text: str, entries: Mapping[Ref, DraftEntry]) -> DraftEntry:
        """Return the entry of a draft; raise if it is saved or cannot be used."""
        entry = self._usable_entry(text, entries)
        if entry.state == "saved":
            error = SavedDraftError(text, str(self._to_draft(entry).saved))
            raise self._telemetry.record_refusal(self.id, error)
        return entry

    def _to_draft(self, entry: DraftEntry, *, keys: bool = False) -> Draft:
        entity, saved = entry.ref.entity, None
        if entry.state == "saved" and entry.key is not None:
            row = entry.row
            saved = str(row.ref) if row else self.refer_pairs([(entity, entry.key)])[0]
        return Draft(
            ref=str(entry.ref),
            entity=entity,
            content=json.loads(entry.content),
            label=entry.name,
            turn=entry.turn,
            edited=entry.edited,
            version=entry.version,
            state=entry.state,
            reserved=entry.key is not None,
            saved=saved,
            key=entry.key if keys else None,
        )
