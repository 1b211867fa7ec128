"""What is wrong with a bad ref, and what could be used instead.

The text, what it spells and what the store knows of it come in; the error to be raised goes out,
with refs of the same conversation that would work. No key is in it, nor text that may hold one.
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
from alfred_refs.mapping.keys import spells_uuid
from alfred_refs.mapping.refs import DRAFT, KEY, MAX_NUMBER, Ref, parse_ref
from alfred_refs.store import Address, DraftEntry, Entry, Store

_SHOWN = 10  # refs named in an error: enough to choose from, few enough for a prompt
_LOOKED_AT = 1_000  # refs whose labels a text is compared with: some milliseconds
_LONGEST = 200  # characters of a label
_ALIKE = 0.75  # of two labels: one word of four may differ, or a letter of each

# The digits of a UUID, however they are grouped, anywhere in a text.
_UUID = re.compile(r"(?:[0-9a-f][-_]*){32}", re.IGNORECASE)

# What may be a ref, between whatever stands before and after it.
_WORDS = re.compile(r"(?<![\w-])[a-z][a-z0-9_]*_[0-9]+(?![\w-])")

_ZEROS = re.compile(r"(?<=_)0+(?=[1-9])")  # before a number


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What a conversation has to offer in place of a bad ref: asked of the store.

    Attributes:
        address: of the conversation.
        store: has its refs.
        chosen: returns those refs of rows that may be offered; `None`: all.
    """

    address: Address
    store: Store
    chosen: Callable[[Collection[str]], Collection[str]] | None = None

    def for_text(
        self, text: str, ref: Ref | None, expected: str | None
    ) -> tuple[dict[str, str | None], str | None]:
        """Return refs that could be used instead, with labels, and the one probably meant."""
        known, near = self._for_text(text, ref, expected)
        if self.chosen is None or not known:
            return known, near
        chosen = self.chosen(known)
        fewer = {each: label for each, label in known.items() if each in chosen}
        return fewer, near if near in chosen else None

    def _for_text(
        self, text: str, ref: Ref | None, expected: str | None
    ) -> tuple[dict[str, str | None], str | None]:
        is_name = ref is None and not _holds_uuid(text)
        text = text[:_LONGEST]  # no ref is as long, and comparing takes the square of it
        entities = {
            name: last for name, last in self.store.entities(self.address).items() if name != KEY
        }
        inside = self._inside(text, entities, expected) if ref is None else None
        if inside is not None:
            return _shown(self.store.known(self.address, inside, _SHOWN)), str(inside)
        spelt = re.sub(r"[\W_]*[0-9]+\W*$", "", text).lower()
        alike = difflib.get_close_matches(spelt, entities, n=1)
        entity = expected or next(iter(alike), None)
        if entity is None:
            return self._some_of(entities), None
        digits = re.search(r"[0-9]{1,9}", text)
        number = min(int(digits[0]), MAX_NUMBER) if digits else 1
        known = dict(self.store.known(self.address, Ref(entity, number), _SHOWN))
        meant = Ref(entity, number)
        if digits is not None and alike == [entity] and meant in known and meant != ref:
            return _shown(known), str(meant)
        called = self._called(text, entity) if known and is_name else {}
        near = str(*called) if len(called) == 1 else None
        return _shown(dict([*called.items(), *known.items()][:_SHOWN])), near

    def _some_of(self, entities: Collection[str]) -> dict[str, str | None]:
        """Return refs of whatever entities there are, some of each."""
        few = [*entities][:_SHOWN]
        known = (self.store.known(self.address, Ref(e, 1), _SHOWN // len(few)) for e in few)
        return {ref: label for each in known for ref, label in _shown(each).items()}

    def _inside(self, text: str, entities: Collection[str], expected: str | None) -> Ref | None:
        """Return the one ref of a row that stands in a text, beside a label or whatever else."""
        wanted = entities if expected is None else {expected}
        found = [ref for ref in _refs_in(text) if not ref.draft and ref.entity in wanted]
        there = [ref for ref in found if ref in self.store.known(self.address, ref, 1)]
        return there[0] if len(there) == 1 else None

    def pending(self, entity: str | None) -> dict[str, str | None]:
        """Return drafts that could be used, with labels, of one entity or of any."""
        drafts = self.store.drafts(self.address, entity, ["pending"])
        return {str(draft.ref): draft.label for draft in islice(drafts, _SHOWN)}

    def _called(self, text: str, entity: str) -> dict[Ref, str | None]:
        """Return refs of the label that a text is, or else is most like."""
        labels = self.store.labelled(self.address, entity, _LOOKED_AT)
        folded = {ref: label.casefold() for ref, label in labels.items()}
        name = " ".join(text[:_LONGEST].split()).casefold()
        names = [name, *difflib.get_close_matches(name, folded.values(), n=1, cutoff=_ALIKE)]
        found = ([ref for ref in folded if folded[ref] == name] for name in names)
        return {ref: labels[ref] for ref in sorted(next(filter(None, found), []))}


def _refs_in(text: str) -> list[Ref]:
    """Return the refs that stand in a text, as words of it."""
    words = dict.fromkeys(_WORDS.findall(text))
    return [ref for word in words if (ref := parse_ref(word)) is not None]


def _shown(known: Mapping[Ref, str | None]) -> dict[str, str | None]:
    return {str(ref): known[ref] for ref in sorted(known)}


def bad_ref_error(
    text: str,
    ref: Ref | None,
    entry: Entry | None,
    expected: str | None,
    suggestions: Suggestions,
    *,
    draft: DraftEntry | None = None,
) -> BadRefError:
    """Return the error for a text that cannot be used as a ref of the entity that is expected.

    Entry and draft are what the store knows of the ref that it spells, if it spells one.
    """
    is_draft = text.casefold().startswith(DRAFT) if ref is None else ref.draft
    if is_draft and (draft is None or draft.state == "discarded"):
        return bad_draft_error(text, ref, draft, expected, suggestions)
    known, near = suggestions.for_text(text, ref, expected)
    if entry is None and _holds_uuid(text):
        return RawKeyError(None, expected, known)
    if draft is not None and draft.state == "pending":
        return DraftRefError(text, expected, known)
    if entry is None:
        return UnknownRefError(text, expected, known, near)
    if expected not in (None, entry.ref.entity):
        return WrongEntityError(text, expected, known, None, entry.ref.entity)
    return GoneRefError(text, expected or entry.ref.entity, known, None, str(entry.gone))


def bad_draft_error(
    text: str,
    ref: Ref | None,
    draft: DraftEntry | None,
    expected: str | None,
    suggestions: Suggestions,
) -> BadRefError:
    """Return the error for what is no draft that can be used: see `bad_ref_error`."""
    known = suggestions.pending(expected or (None if ref is None else ref.entity))
    if not known and expected is None:
        known = suggestions.pending(None)
    if draft is None and _holds_uuid(text):
        return RawKeyError(None, expected, known)
    if draft is None:
        spelt = _ZEROS.sub("", text[:_LONGEST].casefold())
        near = [str(each) for each in _refs_in(spelt) if ref is None and str(each) in known]
        return UnknownDraftError(text, expected, known, near[0] if len(near) == 1 else None)
    if draft.state == "discarded":
        return DiscardedDraftError(text, expected, known)
    return WrongEntityError(text, expected, known, None, draft.ref.entity)


def _holds_uuid(text: str) -> bool:
    """Tell whether a UUID stands anywhere in a text, so that no error may repeat it.

    A part of one, such as its first eight digits, is repeated: it names no row, cannot be told
    from a word or a number, and comes from whoever reads the error, who needs to see what was
    wrong with it.
    """
    return spells_uuid(text) or _UUID.search(text) is not None
