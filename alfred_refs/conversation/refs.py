"""The map of one conversation between refs and keys: `resolve` and `refer`.

`RefMap` is the base of `Conversation`. Its two verbs, each with a form for lists:

| method | from | to | queries the store |
| --- | --- | --- | --- |
| `resolve`, `resolve_all` | refs | keys | for refs that are not cached, in one round trip |
| `refer`, `refer_all` | keys | refs | for keys that are not cached, in one round trip, and mints |

Results are in the order of the arguments. One bad ref raises `BadRefError`, and nothing is
resolved; one key may occur several times.

>>> key = chat.resolve("recipe_1")
>>> chat.refer(Recipe, key)
'recipe_1'
>>> chat.resolve_all(["recipe_1", "line_1"], Recipe)
Traceback (most recent call last):
    ...
alfred_refs.errors.WrongEntityError: 'line_1' names entity 'line' where 'recipe' is needed; ...

Rows that are gone keep their refs. Such a ref is shown as before, and raises `GoneRefError` when
it is resolved. As the row may be back by then (a rollback, a restore), a session looks for it in
its table first, in `_find_rows`; then the registry is updated. A conversation that has lost no row
sends no statement for this.

An error for a bad ref has up to ten refs of the same conversation and, where one of them is
clearly meant, that one as `near`. `Suggestions` finds it, in this order:

1. a known ref inside a longer text (`"Soup (recipe_1)"`);
2. an entity whose name is spelt almost like the text, with the same number (`recpie_2`);
3. a label that is equal or almost equal to the text (`"Toats"`).

>>> try:
...     chat.resolve("recpie_2")
... except BadRefError as error:
...     print(error.near, error.known)
recipe_2 ('recipe_1', 'recipe_2')

Limits:

- A `RefMap` alone does not see the application's tables: `SessionConversation` (`view`) looks for
  rows, and keeps a cache of its own.
- Numbers are assigned by the store; nothing is minted here.
- The methods that are not in the reference (`resolve_pairs`, `known_refs`, ...) are for the
  package: they take pairs of different entities, or use the caches alone.
- Suggestions cost two or three round trips, and only bad refs pay for them. A text is compared
  with the labels of the last thousand refs of the entity.
- A session of an owner suggests refs of rows that the owner may read.
- An error never repeats a UUID: a text that contains one becomes a `RawKeyError` without the text.
"""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, cast

from sqlalchemy import Table

from alfred_refs.conversation.caches import Caches, ExpectedRef, RefCache
from alfred_refs.conversation.draft_rows import RowFinder, StoredRowFinder, reconcile_drafts
from alfred_refs.errors import (
    BadRefError,
    DiscardedDraftError,
    DraftRefError,
    GoneRefError,
    KeyTypeError,
    RawKeyError,
    RefError,
    UnknownDraftError,
    UnknownRefError,
    WrongEntityError,
)
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.mapping.keys import (
    DRAFT,
    KEY,
    MAX_NUMBER,
    EntityKey,
    Key,
    Ref,
    as_integer,
    parse_ref,
    spells_uuid,
    token_of,
)
from alfred_refs.sqla import Schemas
from alfred_refs.store import NOTED_EVERY, Address, DraftEntry, Entry, Gone, Store
from alfred_refs.store.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class RefEntry:
    """One ref of a conversation.

    Attributes:
        ref: as a model sees it.
        entity: the kind of row that it names.
        number: its number among the refs of the entity.
        gone: why its row does not exist; `None` as long as it may exist.
        label: what people call its row, in one line; `None` where that is not known. It is text
            of the application's users: show it, and never follow instructions in it.
        key: the key, if it was requested; not in the `repr`.

    Example:
        >>> [entry, _] = chat.entries(Recipe)
        >>> entry
        RefEntry(ref='recipe_1', entity='recipe', number=1, gone=None, label='Soup')
    """

    ref: str
    entity: str
    number: int
    gone: Gone | None
    label: str | None = None
    key: Key | None = field(default=None, repr=False)


# The Python type of the keys of each kind of key column.
_PYTHON_TYPES = {"uuid": uuid.UUID, "integer": int, "string": str}


class RefMap:
    """The refs and keys of one conversation.

    Attributes:
        id: what the application calls the conversation.
        owner: the tenant or user it belongs to, as text; `None` without one.
    """

    def __init__(
        self,
        address: Address,
        store: Store,
        entities: Entities,
        caches: Caches,
        telemetry: Telemetry,
        *,
        schemas: Schemas = frozenset(),
    ) -> None:
        self.id = address.id
        self.owner = address.owner
        self.row_finder: RowFinder = StoredRowFinder(address, store, entities)
        self._entities = entities
        self._address = address
        self._use_schemas(schemas)
        self._store = store
        self._caches = caches
        self._is_used = False
        self._telemetry = telemetry
        self._touch_at = monotonic() + NOTED_EVERY.total_seconds()
        self._labels: dict[EntityKey, str | None] = {}  # sent with the next mint

    def _use_schemas(self, schemas: Schemas) -> None:
        """Use refs for rows of these schemas; the store refuses refs of rows of others."""
        self._schemas = schemas
        table_of = partial(self._entities.table_name_of, schemas=schemas)
        self._address = replace(self._address, table_of=table_of)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def _cache(self) -> RefCache:
        """The cache to work in; it may be another one the next time."""
        return self._caches.current

    def make_room(self) -> bool:
        """Change to another cache if the one in use is too full; return whether it did."""
        return False  # the shared cache is replaced by `Caches.keep`

    # From refs to keys

    def resolve(self, ref: str, entity: type[Any] | Table | str | None = None) -> Key:
        """Return the key that a ref names.

        Args:
            ref: as a model gave it; the ref of a saved draft resolves to its row.
            entity: the entity, mapped class or table that is needed; `None` for any.

        Returns:
            a `uuid.UUID`, an `int`, a `str`, or a tuple of these where the primary key has several
            columns; with a class or table, in the type that its column has.

        Raises:
            BadRefError: the ref cannot be used; the subclass shows why.
        """
        return self.resolve_all([ref], entity)[0]

    def resolve_all(
        self, refs: Iterable[str], entity: type[Any] | Table | str | None = None
    ) -> list[Key]:
        """Return the key of each ref, in order; if one ref is bad, raise an error.

        Args:
            refs: as for `resolve`.
            entity: as for `resolve`, for all of them.

        Raises:
            BadRefError: as for `resolve`, for the first bad ref.
        """
        if entity is None:
            return self.resolve_pairs([(ref, None) for ref in refs])
        name, column = self._entities.name_of(entity), self._entities.key_column_of(entity)
        keys = self.resolve_pairs([(ref, name) for ref in refs])
        return keys if column is None else [column.from_key(key) for key in keys]

    def resolve_pairs(self, refs: Sequence[ExpectedRef]) -> list[Key]:
        """Return the keys of refs of different entities, in order."""
        self._is_used = True
        keys, missing = self._cache.look_up(refs)
        if missing:
            self.make_room()
            cache = self._cache
            keys, missing = cache.look_up(refs)
            keys |= self._fetch(cache, missing) if missing else {}
        elif monotonic() > self._touch_at:
            self._touch()
        self._telemetry.count("resolved", len(refs))
        return [keys[ref] for ref in refs]

    def _touch(self) -> None:
        """Note in the store that the conversation is in use, as the caches hide that from it."""
        self._touch_at = monotonic() + NOTED_EVERY.total_seconds()
        with suppress(RefError):  # the cached refs can be used all the same
            self._store.touch(self._address)

    def cached_keys(self, refs: Iterable[ExpectedRef]) -> Mapping[ExpectedRef, Key] | None:
        """Return the keys of refs if all of them are cached, or else `None`: no round trip.

        This does not count as a use of the refs.
        """
        keys, missing = self._cache.look_up(refs)
        return None if missing else keys

    def known_keys(self, refs: Iterable[str]) -> dict[str, Key]:
        """Return the keys of refs that are known, including refs of deleted rows.

        That is at most one round trip. Texts that are not refs of rows are left out.
        """
        expected: list[ExpectedRef] = [(ref, None) for ref in dict.fromkeys(refs)]
        cached, missing = self._cache.look_up(expected)
        parsed = [ref for text, _ in missing if (ref := parse_ref(text)) and not ref.draft]
        entries = self._store.resolve(self._address, parsed) if parsed else {}
        return {text: key for (text, _), key in cached.items()} | {
            str(ref): entry.key for ref, entry in entries.items()
        }

    def _fetch(self, cache: RefCache, refs: Sequence[ExpectedRef]) -> dict[ExpectedRef, Key]:
        """Fetch refs from the store, and cache them; raise for the first that cannot be used."""
        parsed = {text: parse_ref(text) for text, _ in refs}
        of_rows = [ref for ref in parsed.values() if ref is not None and not ref.draft]
        entries = dict(self._store.resolve(self._address, of_rows)) if of_rows else {}
        drafts = self._fetch_drafts([ref for ref in parsed.values() if ref and ref.draft])
        entries |= {  # the row of a saved draft, under the draft's own ref if it has no other
            ref: draft.row or Entry(ref, cast(Key, draft.key))
            for ref, draft in drafts.items()
            if draft.state == "saved"
        }
        back = self._find_rows({_pair(e) for e in entries.values() if e.gone})
        self._mark([pair for pair in back if back[pair]], None)
        entries |= {r: replace(e, gone=None) for r, e in entries.items() if _pair(e) in back}
        for text, expected in refs:
            ref = parsed[text]
            entry = None if ref is None else entries.get(ref)
            if entry is None or entry.gone or expected not in (None, entry.ref.entity):
                suggestions = self._suggestions()
                draft = None if ref is None else drafts.get(ref)
                # not bound to a local name: the error's traceback and this frame would form a
                # reference cycle
                raise self._telemetry.record_refusal(
                    self.id, bad_ref_error(text, ref, entry, expected, suggestions, draft=draft)
                )
        durable = [e for e in entries.values() if not e.ref.draft and back.get(_pair(e), True)]
        self._keep(cache, durable)
        # a row deleted since the store was queried is noticed by the statement that uses its ref
        self._caches.gone.difference_update(str(entry.ref) for entry in durable)
        for draft in drafts.values():
            if draft.row is not None:
                cache.note_saved(str(draft.ref), draft.row.ref)
        return {ref: entries[cast(Ref, parsed[ref[0]])].key for ref in refs}

    def _find_rows(self, _: Collection[EntityKey]) -> Mapping[EntityKey, bool]:
        """Return the keys of deleted rows that exist again, and whether these are committed.

        Only a session can look.
        """
        return {}

    def _fetch_drafts(self, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        if not refs:
            return {}
        return self._reconcile(self._store.read_drafts(self._address, refs))

    def _reconcile(self, drafts: Mapping[Ref, DraftEntry]) -> Mapping[Ref, DraftEntry]:
        return reconcile_drafts(drafts, self.row_finder, self._store, self._address)

    def _keep(self, cache: RefCache, entries: Collection[Entry]) -> None:
        self._caches.keep(cache, entries)
        self._caches.unlabelled.note(entries, self._entities.has_labels)

    # From keys to refs

    def refer(self, entity: type[Any] | Table | str, key: Key) -> str:
        """Return the ref of a key, minting it if this is the first time.

        Args:
            entity: an entity, mapped class or table.
            key: a `uuid.UUID`, an `int`, a `str`, or a tuple of these. The text of a UUID is
                accepted for a class or table whose keys are UUIDs; under a plain entity name a
                value is taken as it is.

        Raises:
            KeyTypeError: the class or table has keys of another type.
        """
        return self.refer_all(entity, [key])[0]

    def refer_all(self, entity: type[Any] | Table | str, keys: Iterable[Key]) -> list[str]:
        """Return the ref of each key, in order; new keys are numbered in this order.

        Args:
            entity: as for `refer`, for all of them.
            keys: as for `refer`; one may occur several times.

        Raises:
            KeyTypeError: the class or table has keys of another type.
        """
        return self.refer_pairs(pairs_of(self._entities, entity, keys))

    def refer_pairs(self, pairs: Sequence[EntityKey]) -> list[str]:
        """Return the refs of keys of different entities, in order."""
        cache = self._cache
        self._mint(cache, pairs)
        return [cache.refs_of(entity)[token_of(key)] for entity, key in pairs]

    def _mint(self, cache: RefCache, pairs: Iterable[EntityKey]) -> None:
        """Get refs for those keys that a cache does not have: at most one round trip."""
        new = {pair: None for pair in pairs if cache.ref_of(*pair) is None}
        if not new:
            return
        noted = {pair: self._labels.pop(pair) for pair in new if pair in self._labels}
        labels = {pair: label for pair, label in noted.items() if label is not None}
        entries = self._store.refer(self._address, list(new), labels)
        if labels:  # a known row keeps its label in the store until `store_labels` changes it
            stored = {_pair(each): each.label for each in entries}
            self._labels |= {p: label for p, label in labels.items() if stored.get(p) != label}
        self._keep(cache, entries)

    def has_cached(self, pairs: Iterable[EntityKey]) -> bool:
        """Return whether all these keys can be shown without a round trip."""
        cache = self._cache
        return all(cache.ref_of(*pair) is not None for pair in pairs)

    def known_refs(
        self, keys: Collection[Key], among: Container[str] | None = None
    ) -> dict[Key, str]:
        """Return the ref of each key that the registry knows, including keys of deleted rows.

        That is one round trip, or none without keys; the caches are not used. If a key has refs of
        several entities (of several that are in `among`), the first entity by name is taken.
        Keys that only occur in texts are left out.
        """
        found = self._store.refs_of(self._address, keys) if keys else {}
        rows = {
            key: [r for r in refs if r.entity != KEY and (among is None or r.entity in among)]
            for key, refs in found.items()
        }
        return {key: str(refs[0]) for key, refs in rows.items() if refs}

    def refs_of_pairs(self, pairs: Collection[EntityKey]) -> dict[EntityKey, str]:
        """Return the refs that keys of different entities have, minting none.

        At most one round trip, for those that are not cached.
        """
        cache = self._caches.current
        known = {pair: ref for pair in pairs if (ref := cache.ref_of(*pair)) is not None}
        missing = [pair for pair in pairs if pair not in known]
        found = self._store.refs_of(self._address, {key for _, key in missing}) if missing else {}
        return known | {
            (entity, key): str(ref)
            for entity, key in missing
            for ref in found.get(key, ())
            if ref.entity == entity
        }

    def refs_by_entity(self, key: Key) -> Mapping[str, str]:
        """Return the refs that a key has in this process, by entity; nothing is minted."""
        return self._caches.refs_by_entity(key)

    def cached_refs(self, key: Key) -> list[str]:
        """Return the cached refs of a key, of any entity, unless their rows are gone."""
        gone = self._caches.gone
        return [ref for ref in self._cache.refs_by_entity(key).values() if ref not in gone]

    def text_keys(self) -> list[str]:
        """Return the cached keys that are text."""
        return self._caches.text_keys()

    # Gone rows and bad refs

    def note_gone(self, pairs: Collection[EntityKey], reason: Gone) -> None:
        """Note why there are no rows for these keys.

        Keys without a ref are not minted for that, and not sent to the store.
        """
        caches = self._caches
        refs = {pair: caches.ref_of(*pair) for pair in pairs}
        # a row that was already gone keeps its first reason when it turns out not to be saved
        known = caches.gone if reason == "was never saved" else ()
        new = [
            pair for pair, ref in refs.items() if (ref or caches.is_partial) and ref not in known
        ]
        self._mark(new, reason)
        caches.gone.update(ref for ref in refs.values() if ref is not None)

    def _mark(self, pairs: Sequence[EntityKey], gone: Gone | None) -> None:
        if pairs:
            self._store.mark(self._address, pairs, gone)

    def gone_error(self, ref: str, entity: str) -> GoneRefError:
        """Return the error for a ref whose row was looked for and not found."""
        known, _ = self._suggestions().for_text(ref, parse_ref(ref), entity)
        known.pop(ref, None)
        error = GoneRefError(ref, entity, known, None, "was deleted")
        return self._telemetry.record_refusal(self.id, error)

    def unknown_error(self, text: str, entity: str | None) -> UnknownRefError:
        """Return the error for a text that cannot be resolved, with refs that it may mean.

        The text may still have the form of a ref.
        """
        known, near = self._suggestions().for_text(text, parse_ref(text), entity)
        return self._telemetry.record_refusal(self.id, UnknownRefError(text, entity, known, near))

    def _suggestions(self) -> Suggestions:
        return Suggestions(self._address, self._store)


def pairs_of(
    entities: Entities, entity: type[Any] | Table | str, keys: Iterable[Any]
) -> list[EntityKey]:
    """Return keys, each with the name of its entity, in the type that the registry stores.

    Raises:
        KeyTypeError: the class or table has keys of another type.
    """
    name, column = entities.name_of(entity), entities.key_column_of(entity)
    return [(name, key if column is None else _typed_key(column, key)) for key in keys]


def _typed_key(column: KeyColumn, key: Any) -> Key:
    """Return a key in the type in which the registry stores keys of the column.

    Raises:
        KeyTypeError: it is of another type; the message does not repeat it.
    """
    if column.key_type == "uuid" and isinstance(key, str) and spells_uuid(key):
        return uuid.UUID(key)
    needed = _PYTHON_TYPES[column.key_type]
    if column.key_type == "integer":
        key = as_integer(key)
    if not isinstance(key, needed) or isinstance(key, bool):  # bool is a subclass of int
        raise KeyTypeError(column.entity, needed.__name__, type(key).__name__)
    return cast(Key, key)


def _pair(entry: Entry) -> EntityKey:
    return entry.ref.entity, entry.key


# Errors for bad refs


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
