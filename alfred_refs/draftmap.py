"""The drafts of a conversation: content that was generated and is not saved, by its `gen_` ref.

Content comes in and goes out as JSON values, in which rows are named by refs. The registry keeps
it for the turns and processes to come; no table of the application is touched here. A draft is
saved by those who insert its row, in three steps: `reserve_keys`, the row with that key, and
`confirm_drafts` when it is committed. The key is decided first, so whoever saves the same draft
once more, at the same time or after a crash, inserts the same row, and the table lets one be.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args

from sqlalchemy import Table

from . import contents, labels
from .caches import Caches
from .entries import Draft
from .errors import LabelError, SavedDraftError, SetupError, StaleDraftError
from .keys import Key
from .plans import Plans
from .refmap import RefMap
from .refs import Ref, parse_ref
from .refusal import Suggestions, draft_refusal
from .store import Address, DraftEntry, DraftState, NewDraft, Store
from .telemetry import Telemetry

_PENDING: tuple[DraftState, ...] = ("pending",)


class DraftMap(RefMap):
    """What the drafts of one conversation hold, and what has become of them."""

    def __init__(
        self, address: Address, store: Store, plans: Plans, caches: Caches, telemetry: Telemetry
    ) -> None:
        super().__init__(address, store, plans, caches, telemetry)
        self._turn: int | None = None  # that this object works in, once it is known

    def draft(
        self,
        entity: type[Any] | Table | str,
        content: Mapping[str, Any],
        label: str | None = None,
    ) -> Draft:
        """Keep content as a draft, which is durable when it is returned: one round trip.

        Args:
            entity: the mapped class, table or entity that it is to become a row of.
            content: the row's values by attribute, in JSON values, with refs for keys; children
                may be nested in it. What columns take is checked by those who take it from a
                model and by those who save it.
            label: what people are to call it; left out, what the class says, if it can say it.

        Raises:
            DraftContentError: the content is no JSON object, or too large.
        """
        name = self.plans.entities.name_of(entity)
        new = NewDraft(name, contents.to_text(content), self._called(name, content, label))
        [entry] = self._store.draft(self._address, [new], self._turn)
        return self._shown(entry)

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
            keys: with the keys that are reserved for their rows; for trusted code. Of one that is
                pending and has a key, the table tells whether its row is there.
        """
        unknown = sorted(set(states) - {*get_args(DraftState)})
        if unknown:
            raise SetupError(
                f"drafts cannot be {unknown[0]!r}", f"give some of {get_args(DraftState)!r}"
            )
        name = None if entity is None else self.plans.entities.name_of(entity)
        found = self._store.drafts(self._address, name, states)
        return (self._shown(entry, keys=keys) for entry in found)

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
        name = None if entity is None else self.plans.entities.name_of(entity)
        return [self._shown(self._checked(text, found, name), keys=keys) for text in texts]

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
        """
        text = contents.to_text(content)
        parsed = parse_ref(ref)
        entry = None
        if parsed is not None and parsed.draft:
            entry = self._store.edit_draft(
                *(self._address, parsed, text),
                label=self._called(parsed.entity, content, label),
                version=version,
                turn=self._turn,
            )
        if entry is None:
            kept = self._pending(ref, self._drafts_of([ref]))
            error = StaleDraftError(ref, version or 0, kept.version)
            raise self._telemetry.refused(self.id, error)
        return self._shown(entry)

    def discard_drafts(self, refs: Iterable[str]) -> list[Draft]:
        """Discard pending drafts, all or none, and return them: one round trip.

        They are kept, and their numbers with them. One whose row is being saved meanwhile is
        saved, if its row is committed: `Draft.reserved` tells which may be.

        Raises:
            BadRefError: one of them is not known, or saved; one that is discarded already is not
                bad.
        """
        texts = list(refs)
        parsed = {text: ref for text in texts if (ref := parse_ref(text)) and ref.draft}
        if len(parsed) == len(set(texts)):
            found = self._store.discard_drafts(self._address, list(parsed.values()))
        else:
            found = self._drafts_of(texts)
        for text in texts:
            if text not in parsed or parsed[text] not in found:
                self._checked(text, found)
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
        parsed = {ref: text for text in keys if (ref := parse_ref(text)) and ref.draft}
        if len(parsed) < len(keys):
            for text in keys:
                self._checked(text, self._drafts_of([text]))
        chosen = {ref: keys[text] for ref, text in parsed.items()}
        found = self._store.reserve_keys(self._address, chosen)
        return {text: self._shown(self._checked(text, found), keys=True) for text in keys}

    def confirm_drafts(self, refs: Iterable[str]) -> None:
        """Note that the rows of drafts are committed, under the keys that were reserved for them.

        For trusted code that saves drafts, or that has found their rows in the table. From then on
        their refs resolve to the rows.
        """
        drafts = [ref for text in refs if (ref := parse_ref(text)) and ref.draft]
        self._store.confirm_drafts(self._address, drafts)

    def _drafts_of(self, texts: Sequence[str]) -> Mapping[Ref, DraftEntry]:
        refs = [ref for text in dict.fromkeys(texts) if (ref := parse_ref(text)) and ref.draft]
        return self._store.read_drafts(self._address, refs) if refs else {}

    def _checked(
        self, text: str, found: Mapping[Ref, DraftEntry], entity: str | None = None
    ) -> DraftEntry:
        """Return what was found of a draft, if it can be used."""
        ref = parse_ref(text)
        entry = None if ref is None else found.get(ref)
        if entry is None or entry.state == "discarded" or entity not in (None, entry.ref.entity):
            offered = Suggestions(self._address, self._store)
            error = draft_refusal(text, ref, entry, entity, offered)
            raise self._telemetry.refused(self.id, error)
        return entry

    def _pending(self, text: str, found: Mapping[Ref, DraftEntry]) -> DraftEntry:
        entry = self._checked(text, found)
        if entry.state == "saved":
            error = SavedDraftError(text, str(self._shown(entry).saved))
            raise self._telemetry.refused(self.id, error)
        return entry

    def _called(self, entity: str, content: Mapping[str, Any], label: str | None) -> str | None:
        """Return the label that is given, or else the one that the class makes of the content."""
        if label is not None:
            return labels.clean(label)
        said = self.plans.entities.label_of(entity)
        with suppress(LabelError):  # a function of rows may stumble over what is none yet
            return None if said is None else said.of(content)
        return None

    def _shown(self, entry: DraftEntry, *, keys: bool = False) -> Draft:
        entity, saved = entry.ref.entity, None
        if entry.state == "saved" and entry.key is not None:
            row = entry.row
            saved = str(row.ref) if row else self.refer_pairs([(entity, entry.key)])[0]
        return Draft(
            *(str(entry.ref), entity, json.loads(entry.content), entry.label, entry.turn),
            *(entry.edited, entry.version, entry.state, entry.key is not None, saved),
            key=entry.key if keys else None,
        )
