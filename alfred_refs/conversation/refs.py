"""Ref map: resolve and refer, with cache and error selection.

What is wrong with a bad ref, and what could be used instead.

The text, what it spells and what the store knows of it come in; the error to be raised goes out,
with refs of the same conversation that would work. No key is in it, nor text that may hold one.

What a conversation tells of each of its refs, and of each of its drafts.

What this process knows of one conversation: mappings, labels told, in caches of bounded size.

A mapping never changes, so what is cached is right for ever and needs no invalidation; what is
not is asked of the store. All sessions and threads of the conversation share one cache: every step
is one dictionary operation. A full cache is not emptied, the next one is handed out: whoever reads
the old one goes on reading it, and a session changes over at a time of its own, with what its
instances show.

Rows come and go, unlike mappings. So the refs of rows that are known to be gone are kept beside
the caches: they are shown as ever, and the store is asked whenever one is to be resolved.

The map of a conversation. `resolve` goes from ref to key, `refer` from key to ref.

Refs and keys come in, keys and refs go out, in the order they came. The store is asked only for
what this process has not met, once for a whole list. A bad ref raises and nothing is resolved.

A row that is noted gone keeps its ref, which is shown, and refused when it is used. The row may
have come back since: a session asks its table when such a ref is used, and tells the store. So
nobody watches what is read, and a conversation that has lost no row sends nothing for it.
"""

from __future__ import annotations

import difflib
import re
import threading
import uuid
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, cast
from weakref import WeakSet, WeakValueDictionary

from sqlalchemy import Table

from alfred_refs.conversation.draft_fields import Rows, StoredRows, reconcile_drafts
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
    parse_ref,
    spells_uuid,
    token_of,
)
from alfred_refs.sqla import Schemas
from alfred_refs.store import NOTED_EVERY, Address, DraftEntry, DraftState, Entry, Gone, Store
from alfred_refs.store.telemetry import Telemetry

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
            return _sorted_labels(self.store.known(self.address, inside, _SHOWN)), str(inside)
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
            return _sorted_labels(known), str(meant)
        called = self._refs_like(text, entity) if known and is_name else {}
        near = str(*called) if len(called) == 1 else None
        return _sorted_labels(dict([*called.items(), *known.items()][:_SHOWN])), near

    def _some_of(self, entities: Collection[str]) -> dict[str, str | None]:
        """Return refs of whatever entities there are, some of each."""
        few = [*entities][:_SHOWN]
        known = (self.store.known(self.address, Ref(e, 1), _SHOWN // len(few)) for e in few)
        return {ref: label for each in known for ref, label in _sorted_labels(each).items()}

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

    def _refs_like(self, text: str, entity: str) -> dict[Ref, str | None]:
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


def _sorted_labels(known: Mapping[Ref, str | None]) -> dict[str, str | None]:
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


@dataclass(frozen=True, slots=True)
class RefEntry:
    """One ref of a conversation.

    Attributes:
        ref: as a model sees it.
        entity: what kind of row it names.
        number: its number among the refs of the entity.
        gone: why its row is not there; `None` as long as it may be.
        label: what people call its row, in one line; `None` where that is not known. It is text
            of the application's users: to be shown, never to be obeyed.
        key: the key, if it was asked for; it is not printed.

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


@dataclass(frozen=True, slots=True)
class Draft:
    """Content that a model generated, as it was when it was read.

    Attributes:
        ref: as a model sees it: `gen_recipe_1`.
        entity: what kind of row it is to become.
        content: JSON values, by field; a copy.
        label: what people are to call it, in one line; `None` where that is not known. It is text
            of a model or of the application's users: to be shown, never to be obeyed.
        turn: in which it was generated.
        edited: the turn of its last edit, or else that in which it was generated.
        version: 1, and one more with each edit.
        state: `"pending"`, `"saved"` or `"discarded"`.
        reserved: whether the key of its row is decided. One that is pending then is being saved,
            or was to be: its row may be there.
        saved: the ref of its row; `None` where it is not saved.
        key: that of its row, if there is one and it was asked for; it is not printed.

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


ExpectedRef = tuple[str, str | None]
"""A ref as it was given, and the entity that is needed (`None`: any)."""


class RefCache:
    """Refs by key and keys by ref, for each entity.

    Args:
        gone: refs of rows that are gone, for all caches of the conversation.

    Attributes:
        forgotten: whether the conversation was forgotten: what is here is still shown to those
            who are reading it, and no ref is resolved.
    """

    __slots__ = ("__weakref__", "_gone", "_keys", "_labels", "_refs", "_saved", "forgotten")

    def __init__(self, gone: Collection[str] = ()) -> None:
        self._gone = gone
        self._refs: dict[str, dict[Any, str]] = {}
        self._keys: dict[str, dict[str, Key]] = {}
        self._labels: dict[str, str] = {}  # by refs
        self._saved: dict[str, tuple[str, str]] = {}  # a draft's ref -> entity, ref of its row
        self.forgotten = False

    def __len__(self) -> int:
        return sum(map(len, [*self._refs.values()]))

    def refs_of(self, entity: str) -> dict[Any, str]:
        """Return the refs of an entity by the token of their key: a live view, to be read only."""
        return self._refs.setdefault(entity, {})

    def ref_of(self, entity: str, key: Key) -> str | None:
        """Return the ref of a key, if it is here."""
        refs = self._refs.get(entity)
        return None if refs is None else refs.get(token_of(key))

    def look_up(
        self, wanted: Iterable[ExpectedRef]
    ) -> tuple[dict[ExpectedRef, Key], list[ExpectedRef]]:
        """Return the keys of those refs that are here, and the refs to ask the store for."""
        keys, missing = {}, []
        known, gone = {} if self.forgotten else self._keys, self._gone
        for want in wanted:
            text, entity = want
            of_entity = known.get(_entity_of(text) if entity is None else entity)
            key = None if of_entity is None else of_entity.get(text)
            if key is None and text in self._saved:
                key = self._key_of_saved(text, entity)
            if key is None or text in gone:
                missing.append(want)
            else:
                keys[want] = key
        return keys, missing

    def note_saved(self, draft: str, row: Ref) -> None:
        """Note which ref the row of a draft has: from now on the two resolve together."""
        self._saved[draft] = row.entity, str(row)

    def _key_of_saved(self, draft: str, entity: str | None) -> Key | None:
        actual, ref = self._saved[draft]
        if entity not in (None, actual) or self.forgotten or ref in self._gone:
            return None
        return self._keys.get(actual, {}).get(ref)

    def refs_by_entity(self, key: Key) -> dict[str, str]:
        """Return the refs of a key, by entity; what stands in texts has none.

        A UUID and an integer may have one token, so the key itself is looked at.
        """
        token = token_of(key)
        found = [(e, refs.get(token)) for e, refs in [*self._refs.items()] if e != KEY]
        keys = self._keys
        return {e: ref for e, ref in found if ref and keys.get(e, {}).get(ref) == key}

    def text_keys(self) -> list[str]:
        """Return the keys of rows that are text."""
        rows = [refs for entity, refs in [*self._refs.items()] if entity != KEY]
        return [token for refs in rows for token in [*refs] if type(token) is str]

    def keep(self, entry: Entry) -> None:
        """Keep what the store said of a row."""
        ref = str(entry.ref)
        self.put(entry.ref.entity, entry.key, ref)
        if entry.label is not None:
            self._labels[ref] = entry.label

    def label_of(self, entity: str, key: Key) -> str | None:
        """Return what the store calls a row, as far as it is known here."""
        ref = self.ref_of(entity, key)
        return None if ref is None else self._labels.get(ref)

    def relabel(self, entity: str, key: Key, label: str) -> None:
        """Keep what the store was told that a row is called."""
        ref = self.ref_of(entity, key)
        if ref is not None:
            self._labels[ref] = label

    def unlabel(self, entity: str, key: Key) -> None:
        """Keep no label of a row."""
        self._labels.pop(self.ref_of(entity, key) or "", None)

    def put(self, entity: str, key: Key, ref: str) -> None:
        """Keep a mapping."""
        self._keys.setdefault(entity, {})[ref] = key
        self.refs_of(entity)[token_of(key)] = ref

    def forget(self) -> None:
        """Resolve no ref any more: whoever shows one still finds it here, and nowhere else."""
        self.forgotten = True
        self._keys.clear()


def _entity_of(text: str) -> str:
    ref = parse_ref(text)
    return "" if ref is None or ref.draft else ref.entity


CAPACITY = 50_000
"""Mappings in a cache. No chat shows a model so many, so that what a cache is for stays in it; and
at 300 bytes for one with a UUID they take 15 MB, which a process can spend on each of its busy
conversations."""


class Caches:
    """The caches of one conversation, and what they share.

    Args:
        capacity: how many mappings the cache that all share has at most.

    Attributes:
        capacity: how many mappings the cache that all share has at most.
        current: the cache that all share; another one when it is full.
        gone: refs of rows that are known to be gone.
        unlabelled: refs whose rows may have a label that nobody knows.
        lets_go: whether there may be refs of the conversation that this process has met and does
            not know any more.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.gone: set[str] = set()
        self.unlabelled = UnlabelledKeys()
        self.lets_go = False
        self._lock = threading.RLock()
        self._all: WeakSet[RefCache] = WeakSet()
        self._under: WeakValueDictionary[Schemas, Caches] = WeakValueDictionary()
        self.current = self._another()

    def under(self, schemas: Schemas) -> Caches:
        """Return the caches of those who read the same tables in other schemas."""
        with self._lock:
            return self._under.setdefault(schemas, Caches(self.capacity))

    def _another(self) -> RefCache:
        cache = RefCache(self.gone)
        with self._lock:
            self._all.add(cache)
        return cache

    def _in_use(self) -> list[RefCache]:
        with self._lock:
            return [*self._all]

    def keep(self, cache: RefCache, entries: Collection[Entry]) -> None:
        """Keep what the store said of rows, in the cache of the one who asked.

        If that is more than all shall share, it is shared by those who have it already.
        """
        with self._lock:
            if cache is self.current and len(cache) + len(entries) > self.capacity:
                self.current = self._another()
                self.lets_go = True
            for entry in entries:
                cache.keep(entry)
        self.gone.update(str(entry.ref) for entry in entries if entry.gone is not None)

    def after(self, cache: RefCache, shown: Iterable[EntityKey]) -> RefCache:
        """Return the cache that a session goes on with.

        That is the one that all share, unless it would be half full by what the session takes
        along: to copy it is to be worth while. The keys that its instances show have their refs
        there too, unless the conversation was forgotten.
        """
        with self._lock:
            refs = [] if cache.forgotten else [(*pair, cache.ref_of(*pair)) for pair in shown]
            is_room = 2 * (len(self.current) + len(refs)) <= self.capacity
            following = self.current if is_room else self._another()
            for entity, key, ref in refs:
                if ref is not None:
                    following.put(entity, key, ref)
        return following

    def forget(self) -> None:
        """Forget the conversation: none of its refs is resolved by this process any more.

        Instances show what they showed, until their sessions ask for something.
        """
        with self._lock:
            for others in [*self._under.values()]:
                others.forget()
            for cache in self._in_use():
                cache.forget()
            self._all.clear()
            self.gone.clear()
            self.unlabelled.clear()
            self.current = self._another()

    def unlabel(self, pair: EntityKey) -> None:
        """Keep no label of a row."""
        with self._lock:
            for others in [*self._under.values()]:
                others.unlabel(pair)
        for cache in self._in_use():
            cache.unlabel(*pair)

    # What is asked of all caches, as a ref may be in any of them

    def ref_of(self, entity: str, key: Key) -> str | None:
        """Return the ref of a key, if one of the caches has it."""
        refs = (cache.ref_of(entity, key) for cache in self._in_use())
        return next((ref for ref in refs if ref is not None), None)

    def refs_by_entity(self, key: Key) -> dict[str, str]:
        """Return the refs of a key, by entity, whether their rows are gone or not."""
        return {e: ref for cache in self._in_use() for e, ref in cache.refs_by_entity(key).items()}

    def text_keys(self) -> list[str]:
        """Return the keys that are text."""
        return list(dict.fromkeys(text for cache in self._in_use() for text in cache.text_keys()))


_MOST = 10_000  # remembered; what is beyond stays without a label


class UnlabelledKeys(set[EntityKey]):
    """The keys of such refs."""

    def note(self, entries: Collection[Entry], has_labels: Callable[[str], bool]) -> None:
        """Note which refs have no label, of entities whose rows may have labels."""
        entities = {e for e in {entry.ref.entity for entry in entries} if has_labels(e)}
        if entities and len(self) < _MOST:
            self.update(
                (entry.ref.entity, entry.key)
                for entry in entries
                if entry.label is None and entry.ref.entity in entities
            )


# What Python type the values of a key column have underneath.
_TYPES = {"uuid": uuid.UUID, "integer": int, "string": str}


class RefMap:
    """What the refs of one conversation name, as far as this process has met it or asks for it.

    Attributes:
        id: what the application calls the conversation.
        owner: on whose behalf it is held, as text; `None` without one.
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
        self._entities = entities
        self._address = address
        self._use_schemas(schemas)
        self._store = store
        self._caches = caches
        self._is_used = False
        self._telemetry = telemetry
        self.row_finder: Rows = StoredRows(address, store, entities)
        self._noted_until = monotonic() + NOTED_EVERY.total_seconds()
        self._labels: dict[EntityKey, str] = {}  # what is to be told with the next mint

    def _use_schemas(self, schemas: Schemas) -> None:
        """Use refs for the rows of these schemas: the store refuses others'."""
        self._schemas = schemas
        table_of = partial(self._entities.table_name_of, schemas=schemas)
        self._address = replace(self._address, table_of=table_of)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def _cache(self) -> RefCache:
        """The cache to work in; it may be another the next time."""
        return self._caches.current

    def make_room(self) -> bool:
        """Go on with another cache, if that is for this object to do; tell whether it was."""
        return False

    def resolve(self, ref: str, entity: type[Any] | Table | str | None = None) -> Key:
        """Return the key that a ref names.

        Args:
            ref: as a model gave it; of a draft that is saved, too.
            entity: the entity, mapped class or table that is needed; `None` for any.

        Returns:
            a `uuid.UUID`, an `int`, a `str`, or a tuple of these where the primary key has several
            columns; with a class or table, in the type that its column has.

        Raises:
            BadRefError: the subclass says what is wrong with the ref.
        """
        return self.resolve_all([ref], entity)[0]

    def resolve_all(
        self, refs: Iterable[str], entity: type[Any] | Table | str | None = None
    ) -> list[Key]:
        """Return the key of each ref, in order; one bad ref refuses them all.

        Args:
            refs: as for `resolve`.
            entity: as for `resolve`, for all of them.

        Raises:
            BadRefError: as for `resolve`; it is about the first bad ref.
        """
        if entity is None:
            return self.resolve_pairs([(ref, None) for ref in refs])
        name, column = self._entities.name_of(entity), self._entities.key_column_of(entity)
        keys = self.resolve_pairs([(ref, name) for ref in refs])
        return keys if column is None else [column.from_key(key) for key in keys]

    def resolve_pairs(self, wanted: Sequence[ExpectedRef]) -> list[Key]:
        """Return the keys of refs that are needed for different entities, in order."""
        self._is_used = True
        keys, missing = self._cache.look_up(wanted)
        if missing:
            self.make_room()
            cache = self._cache
            keys, missing = cache.look_up(wanted)
            keys |= self._fetch(cache, missing) if missing else {}
        elif monotonic() > self._noted_until:
            self._note_use()
        self._telemetry.count("resolved", len(wanted))
        return [keys[want] for want in wanted]

    def _note_use(self) -> None:
        """Tell the store that the conversation is used, though all that was asked for is here."""
        self._noted_until = monotonic() + NOTED_EVERY.total_seconds()
        with suppress(RefError):  # a note: what is here is here
            self._store.touch(self._address)

    def gone_error(self, ref: str, entity: str) -> GoneRefError:
        """Return the error for a ref whose row was looked for and is not there."""
        known, _ = self._suggestions().for_text(ref, parse_ref(ref), entity)
        known.pop(ref, None)
        error = GoneRefError(ref, entity, known, None, "was deleted")
        return self._telemetry.refused(self.id, error)

    def unknown_error(self, text: str, entity: str | None) -> UnknownRefError:
        """Return the error for a text that names nothing, whatever it spells."""
        offered = self._suggestions().for_text(text, parse_ref(text), entity)
        return self._telemetry.refused(self.id, UnknownRefError(text, entity, *offered))

    def _suggestions(self) -> Suggestions:
        return Suggestions(self._address, self._store)

    def cached_keys(self, wanted: Iterable[ExpectedRef]) -> Mapping[ExpectedRef, Key] | None:
        """Return the keys of refs if all are at hand, without a round trip; `None` otherwise.

        That is to look, not to resolve: it does not count as a use of the refs.
        """
        keys, missing = self._cache.look_up(wanted)
        return None if missing else keys

    def refer(self, entity: type[Any] | Table | str, key: Key) -> str:
        """Return the ref of a key, minting it if this is the first time.

        Args:
            entity: an entity, mapped class or table.
            key: a `uuid.UUID`, an `int`, a `str`, or a tuple of these. The text of a UUID does
                for one where a class or table tells that its keys are UUIDs; under a plain name
                a value is taken as it is.

        Raises:
            KeyTypeError: the class or table has keys of another type.
        """
        return self.refer_all(entity, [key])[0]

    def refer_all(self, entity: type[Any] | Table | str, keys: Iterable[Key]) -> list[str]:
        """Return the ref of each key, in order; those met for the first time are numbered so.

        Args:
            entity: as for `refer`, for all of them.
            keys: as for `refer`; one may come several times.

        Raises:
            KeyTypeError: the class or table has keys of another type.
        """
        return self.refer_pairs(pairs_of(self._entities, entity, keys))

    def refer_pairs(self, pairs: Sequence[EntityKey]) -> list[str]:
        """Return the refs of keys of different entities, in order."""
        cache = self._cache
        self._mint(cache, pairs)
        return [cache.refs_of(entity)[token_of(key)] for entity, key in pairs]

    def known_refs(
        self, keys: Collection[Key], among: Container[str] | None = None
    ) -> dict[Key, str]:
        """Return the ref of each key that rows have, be they gone or not: one round trip, or none.

        The registry decides, not what this process has met. Of several entities, or of those
        `among` them, the first by its name is taken; what stands in texts alone is left out.
        """
        found = self._store.refs_of(self._address, keys) if keys else {}
        rows = {
            key: [r for r in refs if r.entity != KEY and (among is None or r.entity in among)]
            for key, refs in found.items()
        }
        return {key: str(refs[0]) for key, refs in rows.items() if refs}

    def known_keys(self, refs: Iterable[str]) -> dict[str, Key]:
        """Return the keys of those refs that are known, though their rows be gone.

        That is at most one round trip. What is no ref of a row is left out.
        """
        wanted: list[ExpectedRef] = [(ref, None) for ref in dict.fromkeys(refs)]
        met, missing = self._cache.look_up(wanted)
        parsed = [ref for text, _ in missing if (ref := parse_ref(text)) and not ref.draft]
        found = self._store.resolve(self._address, parsed) if parsed else {}
        return {text: key for (text, _), key in met.items()} | {
            str(ref): entry.key for ref, entry in found.items()
        }

    def has_cached(self, pairs: Iterable[EntityKey]) -> bool:
        """Tell whether all these keys can be shown without a round trip."""
        cache = self._cache
        return all(cache.ref_of(*pair) is not None for pair in pairs)

    def _mint(self, cache: RefCache, pairs: Iterable[EntityKey]) -> None:
        """Make sure that a cache can show all these keys: at most one round trip to mint."""
        new = {pair: None for pair in pairs if cache.ref_of(*pair) is None}
        if not new:
            return
        labels = {pair: self._labels.pop(pair) for pair in new if pair in self._labels}
        told = self._store.refer(self._address, list(new), labels)
        if labels:  # what was known is called as it was, until it is told otherwise
            called = {_pair(each): each.label for each in told}
            self._labels |= {p: label for p, label in labels.items() if called.get(p) != label}
        self._keep(cache, told)

    def refs_by_entity(self, key: Key) -> Mapping[str, str]:
        """Return the refs that a key has in this process, by entity; nothing is minted."""
        return self._caches.refs_by_entity(key)

    def text_keys(self) -> list[str]:
        """Return the keys met so far that are text."""
        return self._caches.text_keys()

    def cached_refs(self, key: Key) -> list[str]:
        """Return the refs, of any entity, that this process has met for a key whose row is there.

        No round trip: what the store knows beside is not asked for.
        """
        gone = self._caches.gone
        return [ref for ref in self._cache.refs_by_entity(key).values() if ref not in gone]

    def note_gone(self, pairs: Collection[EntityKey], reason: Gone) -> None:
        """Note why there are no rows for these keys.

        Keys that never had a ref are not minted for that, nor is the store told of them.
        """
        caches = self._caches
        refs = {pair: caches.ref_of(*pair) for pair in pairs}
        # a row that was gone before it was not saved is gone for the same reason as before
        known = caches.gone if reason == "was never saved" else ()
        told = [pair for pair, ref in refs.items() if (ref or caches.lets_go) and ref not in known]
        self._mark(told, reason)
        caches.gone.update(ref for ref in refs.values() if ref is not None)

    def _mark(self, pairs: Sequence[EntityKey], gone: Gone | None) -> None:
        if pairs:
            self._store.mark(self._address, pairs, gone)

    def _fetch(self, cache: RefCache, wanted: Sequence[ExpectedRef]) -> dict[ExpectedRef, Key]:
        """Ask the store for refs; raise for the first that cannot be used."""
        parsed = {text: parse_ref(text) for text, _ in wanted}
        refs = [ref for ref in parsed.values() if ref is not None and not ref.draft]
        entries = dict(self._store.resolve(self._address, refs)) if refs else {}
        drafts = self._fetch_drafts([ref for ref in parsed.values() if ref and ref.draft])
        entries |= {ref: _row_of(drafts[ref]) for ref in drafts if drafts[ref].state == "saved"}
        back = self._rows_back({_pair(e) for e in entries.values() if e.gone})
        self._mark([pair for pair in back if back[pair]], None)
        entries |= {r: replace(e, gone=None) for r, e in entries.items() if _pair(e) in back}
        for text, expected in wanted:
            ref = parsed[text]
            entry = None if ref is None else entries.get(ref)
            if entry is None or entry.gone or expected not in (None, entry.ref.entity):
                offered = self._suggestions()
                draft = None if ref is None else drafts.get(ref)
                # without a name of its own: that would make a ring of it and this frame
                raise self._telemetry.refused(
                    self.id, bad_ref_error(text, ref, entry, expected, offered, draft=draft)
                )
        sure = [e for e in entries.values() if not e.ref.draft and back.get(_pair(e), True)]
        self._keep(cache, sure)
        # one that has gone while the store was asked is found out by the statement it is used in
        self._caches.gone.difference_update(str(entry.ref) for entry in sure)
        for draft in drafts.values():
            if draft.row is not None:
                cache.note_saved(str(draft.ref), draft.row.ref)
        return {want: entries[cast(Ref, parsed[want[0]])].key for want in wanted}

    def _rows_back(self, _: Collection[EntityKey]) -> Mapping[EntityKey, bool]:
        """Return which rows that were gone are there, and whether for good: a session can look."""
        return {}

    def _fetch_drafts(self, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        if not refs:
            return {}
        return self._settled(self._store.read_drafts(self._address, refs))

    def _settled(self, drafts: Mapping[Ref, DraftEntry]) -> Mapping[Ref, DraftEntry]:
        return reconcile_drafts(drafts, self.row_finder, self._store, self._address)

    def _keep(self, cache: RefCache, entries: Collection[Entry]) -> None:
        self._caches.keep(cache, entries)
        self._caches.unlabelled.note(entries, self._entities.has_labels)


def pairs_of(
    entities: Entities, entity: type[Any] | Table | str, keys: Iterable[Any]
) -> list[EntityKey]:
    """Return keys after the name of their entity, in the type that the registry keeps them in.

    Raises:
        KeyTypeError: the class or table has keys of another type.
    """
    name, column = entities.name_of(entity), entities.key_column_of(entity)
    return [(name, key if column is None else _typed_key(column, key)) for key in keys]


def _typed_key(column: KeyColumn, key: Any) -> Key:
    """Return a key in the type that the registry keeps keys of the column in.

    Raises:
        KeyTypeError: it is of another type; the message does not repeat it.
    """
    if column.key_type == "uuid" and isinstance(key, str) and spells_uuid(key):
        return uuid.UUID(key)
    needed = _TYPES[column.key_type]
    if not isinstance(key, needed) or isinstance(key, bool):
        raise KeyTypeError(column.entity, needed.__name__, type(key).__name__)
    return cast(Key, key)


def _pair(entry: Entry) -> EntityKey:
    return entry.ref.entity, entry.key


def _row_of(draft: DraftEntry) -> Entry:
    """Return the entry of a saved draft's row, under the draft's own ref if the row has none."""
    return draft.row or Entry(draft.ref, cast(Key, draft.key))
