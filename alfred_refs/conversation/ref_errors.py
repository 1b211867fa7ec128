"""Errors for bad refs, with the refs that would have worked.

`RefMap` calls this once a ref cannot be resolved. It passes the text, the `Ref` that the text
spells (if it spells one) and the registry's entry for that ref. The result is the exception to
raise, with up to ten refs of the same conversation and, where one of them is clearly meant, that
one as `near`:

>>> from alfred_refs import UnknownRefError
>>> try:
...     chat.resolve("recpie_2")
... except UnknownRefError as error:
...     print(error.near, error.known)
recipe_2 ('recipe_1', 'recipe_2')

How `near` is found, in this order:

1. a known ref inside a longer text (`"Soup (recipe_1)"`);
2. an entity whose name is spelt almost like the text, with the same number (`recpie_2`);
3. a label that is equal or almost equal to the text (`"Toats"`).

Limits:

- The text is compared with the labels of the last thousand refs of the entity.
- An error never repeats a UUID: a text that contains one becomes a `RawKeyError` without the text.
- Suggestions cost two or three round trips, and only bad refs pay for them.
- A session of an owner offers refs of rows that the owner may read: `Suggestions.select`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice

from alfred_refs.errors import (
    BadRefError,
    DiscardedDraftError,
    DraftRefError,
    GoneRefError,
    RawKeyError,
    UnknownDraftError,
    UnknownRefError,
    WrongEntityError,
)
from alfred_refs.mapping.keys import DRAFT, KEY, MAX_NUMBER, Ref, parse_ref, spells_uuid
from alfred_refs.store import Address, DraftEntry, Entry, Store

_MAX_SUGGESTIONS = 10  # enough to choose from, few enough for a prompt
_MAX_LABELS = 1_000  # labels that a text is compared with: some milliseconds
_MAX_TEXT = 200  # characters of a text that are compared
_SIMILARITY = 0.75  # of two labels: one word of four may differ, or a letter of each

# The digits of a UUID, however they are grouped, anywhere in a text.
_UUID = re.compile(r"(?:[0-9a-f][-_]*){32}", re.IGNORECASE)

# A ref as a word inside a text.
_REF = re.compile(r"(?<![\w-])[a-z][a-z0-9_]*_[0-9]+(?![\w-])")

_LEADING_ZEROS = re.compile(r"(?<=_)0+(?=[1-9])")


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Finds refs of a conversation to offer in place of a bad one.

    Attributes:
        address: the conversation's.
        store: the registry's store.
        select: returns the refs of rows that may be offered, out of its argument; `None`
            offers all of them.
    """

    address: Address
    store: Store
    select: Callable[[Collection[str]], Collection[str]] | None = None

    def for_text(
        self, text: str, ref: Ref | None, expected: str | None
    ) -> tuple[dict[str, str | None], str | None]:
        """Return refs that could be used instead, with labels, and the one probably meant."""
        known, near = self._for_text(text, ref, expected)
        if self.select is None or not known:
            return known, near
        selected = self.select(known)
        offered = {each: label for each, label in known.items() if each in selected}
        return offered, near if near in selected else None

    def _for_text(
        self, text: str, ref: Ref | None, expected: str | None
    ) -> tuple[dict[str, str | None], str | None]:
        may_be_label = ref is None and not _contains_uuid(text)
        text = text[:_MAX_TEXT]  # no ref is as long, and difflib takes quadratic time
        entities = {
            name: last for name, last in self.store.entities(self.address).items() if name != KEY
        }
        inside = self._known_ref_in(text, entities, expected) if ref is None else None
        if inside is not None:
            known = self.store.known(self.address, inside, _MAX_SUGGESTIONS)
            return _sorted_labels(known), str(inside)
        name = re.sub(r"[\W_]*[0-9]+\W*$", "", text).lower()
        similar = difflib.get_close_matches(name, entities, n=1)
        entity = expected or next(iter(similar), None)
        if entity is None:
            return self._some_of(entities), None
        digits = re.search(r"[0-9]{1,9}", text)
        number = min(int(digits[0]), MAX_NUMBER) if digits else 1
        meant = Ref(entity, number)
        known = self.store.known(self.address, meant, _MAX_SUGGESTIONS)
        if digits is not None and similar == [entity] and meant in known and meant != ref:
            return _sorted_labels(known), str(meant)
        labelled = self._refs_labelled(text, entity) if known and may_be_label else {}
        near = str(*labelled) if len(labelled) == 1 else None
        return _sorted_labels(dict([*labelled.items(), *known.items()][:_MAX_SUGGESTIONS])), near

    def _some_of(self, entities: Collection[str]) -> dict[str, str | None]:
        """Return some refs of each entity."""
        few = [*entities][:_MAX_SUGGESTIONS]
        known = (
            self.store.known(self.address, Ref(entity, 1), _MAX_SUGGESTIONS // len(few))
            for entity in few
        )
        return {ref: label for each in known for ref, label in _sorted_labels(each).items()}

    def _known_ref_in(
        self, text: str, entities: Collection[str], expected: str | None
    ) -> Ref | None:
        """Return the ref of a row that a text contains, if it contains one only."""
        allowed = entities if expected is None else {expected}
        refs = [ref for ref in _refs_in(text) if not ref.draft and ref.entity in allowed]
        known = [ref for ref in refs if ref in self.store.known(self.address, ref, 1)]
        return known[0] if len(known) == 1 else None

    def pending(self, entity: str | None) -> dict[str, str | None]:
        """Return pending drafts with labels, of one entity or of any."""
        drafts = self.store.drafts(self.address, entity, ["pending"])
        return {str(draft.ref): draft.label for draft in islice(drafts, _MAX_SUGGESTIONS)}

    def _refs_labelled(self, text: str, entity: str) -> dict[Ref, str | None]:
        """Return the refs whose label is equal to a text, or else is most similar to it."""
        labels = self.store.labelled(self.address, entity, _MAX_LABELS)
        folded = {ref: label.casefold() for ref, label in labels.items()}
        name = " ".join(text[:_MAX_TEXT].split()).casefold()
        names = [
            name,
            *difflib.get_close_matches(name, folded.values(), n=1, cutoff=_SIMILARITY),
        ]
        matches = ([ref for ref in folded if folded[ref] == each] for each in names)
        return {ref: labels[ref] for ref in sorted(next(filter(None, matches), []))}


def bad_ref_error(
    text: str,
    ref: Ref | None,
    entry: Entry | None,
    expected: str | None,
    suggestions: Suggestions,
    *,
    draft: DraftEntry | None = None,
) -> BadRefError:
    """Return the error for a text that cannot be used as a ref of the expected entity.

    Args:
        text: as the model gave it.
        ref: the ref that the text spells, if it spells one.
        entry: the registry's entry for `ref`.
        expected: the entity that is needed; `None` for any.
        suggestions: finds what to offer instead.
        draft: the registry's draft of the name `ref`.
    """
    is_draft = text.casefold().startswith(DRAFT) if ref is None else ref.draft
    if is_draft and (draft is None or draft.state == "discarded"):
        return bad_draft_error(text, ref, draft, expected, suggestions)
    known, near = suggestions.for_text(text, ref, expected)
    if entry is None and _contains_uuid(text):
        return RawKeyError(None, expected, known)
    is_pending = draft is not None and draft.state == "pending"
    found = draft if is_pending else entry
    if found is None:
        return UnknownRefError(text, expected, known, near)
    if expected not in (None, found.ref.entity):  # to save a draft would not help
        return WrongEntityError(text, expected, known, None, found.ref.entity)
    if entry is None or is_pending:
        return DraftRefError(text, expected, known)
    return GoneRefError(text, expected or entry.ref.entity, known, None, str(entry.gone))


def bad_draft_error(
    text: str,
    ref: Ref | None,
    draft: DraftEntry | None,
    expected: str | None,
    suggestions: Suggestions,
) -> BadRefError:
    """Return the error for a text that does not name a usable draft: see `bad_ref_error`."""
    known = suggestions.pending(expected or (None if ref is None else ref.entity))
    if not known and expected is None:
        known = suggestions.pending(None)
    if draft is None and _contains_uuid(text):
        return RawKeyError(None, expected, known)
    if draft is None:
        spelt = _LEADING_ZEROS.sub("", text[:_MAX_TEXT].casefold())
        near = [str(each) for each in _refs_in(spelt) if ref is None and str(each) in known]
        return UnknownDraftError(text, expected, known, near[0] if len(near) == 1 else None)
    if draft.state == "discarded":
        return DiscardedDraftError(text, expected, known)
    rows, _ = suggestions.for_text(text, ref, expected)
    either = dict([*known.items(), *rows.items()][:_MAX_SUGGESTIONS])
    return WrongEntityError(text, expected, either, None, draft.ref.entity)


def _refs_in(text: str) -> list[Ref]:
    """Return the refs that a text contains as words."""
    words = dict.fromkeys(_REF.findall(text))
    return [ref for word in words if (ref := parse_ref(word)) is not None]


def _sorted_labels(known: Mapping[Ref, str | None]) -> dict[str, str | None]:
    return {str(ref): known[ref] for ref in sorted(known)}


def _contains_uuid(text: str) -> bool:
    """Return whether a text contains a UUID, so that no error may repeat it.

    A part of a UUID, such as its first eight digits, is repeated: it names no row, it cannot be
    distinguished from a word or a number, and the reader of the error wrote it and needs to see
    what was wrong.
    """
    return spells_uuid(text) or _UUID.search(text) is not None
