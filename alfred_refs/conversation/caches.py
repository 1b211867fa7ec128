"""In-process caches of refs and keys.

A mapping between a ref and a key never changes, so a cached one stays valid for ever. `Caches`
belongs to one conversation and is shared by all sessions and threads of the process that use it:

    chat.refer(Recipe, key)      # one round trip: minted, and cached in both directions
    chat.refer(Recipe, key)      # no round trip
    chat.resolve("recipe_1")     # no round trip

How a bounded cache and stable instances go together: a full cache is not emptied. New mappings go
into another cache, which becomes the current one, while a session goes on reading the old one. It
changes over at a time of its own and takes with it the refs that its instances show
(`Caches.next_after`). The old cache is garbage once the last session has left it.

Rows can change. `Caches.gone` has the refs of rows that were deleted or never saved: such
a ref is shown as before, but resolving it queries the store.

>>> cache = RefCache()
>>> cache.put("recipe", 7, "recipe_1")
>>> cache.ref_of("recipe", 7)
'recipe_1'
>>> cache.look_up([("recipe_1", "recipe"), ("recipe_2", None)])
({('recipe_1', 'recipe'): 7}, [('recipe_2', None)])

Limits:

- Each step of a `RefCache` is a single operation on a dictionary, which the GIL makes atomic. Only
  changing the current cache takes a lock.
- Labels are cached too, and other processes do not learn that one has changed.
- Nothing here does I/O.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from alfred_refs.mapping.keys import KEY, EntityKey, Key, Ref, ShownRef, parse_ref, token_of
from alfred_refs.sqla import Schemas
from alfred_refs.store import Entry

CAPACITY = 50_000
"""Mappings in a cache. No chat shows a model so many, so that a conversation's working set fits;
and at 320 bytes for one with a UUID they take 16 MB, which a process can spend on each of its busy
conversations."""

_MAX_UNLABELLED = 10_000  # keys remembered; rows beyond that stay without a label

ExpectedRef = tuple[str, str | None]
"""A ref as a model gave it, and the entity that is needed (`None`: any)."""


class RefCache:
    """Refs by key and keys by ref, for each entity.

    Args:
        gone: refs of rows that are gone, shared by all caches of the conversation.

    Attributes:
        forgotten: whether the conversation was forgotten: its refs are still shown to sessions
            that read them here, but none is resolved.
    """

    __slots__ = ("__weakref__", "_gone", "_keys", "_labels", "_refs", "_saved", "forgotten")

    def __init__(self, gone: Collection[str] = ()) -> None:
        self._gone = gone
        # entity -> token of the key -> ref
        self._refs: dict[str, dict[Any, str]] = {}
        # entity -> ref -> key
        self._keys: dict[str, dict[str, Key]] = {}
        # ref -> label
        self._labels: dict[str, str] = {}
        # ref of a draft -> entity and ref of its row
        self._saved: dict[str, tuple[str, str]] = {}
        self.forgotten = False

    def __len__(self) -> int:
        return sum(map(len, [*self._refs.values()]))

    def refs_of(self, entity: str) -> dict[Any, str]:
        """Return the refs of an entity by the token of their key: a live, read-only view."""
        return self._refs.setdefault(entity, {})

    def ref_of(self, entity: str, key: Key) -> str | None:
        """Return the ref of a key, if it is cached."""
        refs = self._refs.get(entity)
        return None if refs is None else refs.get(token_of(key))

    def look_up(
        self, refs: Iterable[ExpectedRef]
    ) -> tuple[dict[ExpectedRef, Key], list[ExpectedRef]]:
        """Return the keys of the cached refs, and the refs to fetch from the store."""
        keys, missing = {}, []
        known, gone = {} if self.forgotten else self._keys, self._gone
        for expected in refs:
            text, entity = expected
            of_entity = known.get(_entity_of(text) if entity is None else entity)
            key = None if of_entity is None else of_entity.get(text)
            if key is None and text in self._saved:
                key = self._key_of_saved(text, entity)
            if key is None or text in gone:
                missing.append(expected)
            else:
                keys[expected] = key
        return keys, missing

    def note_saved(self, draft: str, row: Ref) -> None:
        """Cache the ref of a draft's row: from now on the draft's ref resolves to that row."""
        self._saved[draft] = row.entity, str(row)

    def _key_of_saved(self, draft: str, entity: str | None) -> Key | None:
        actual, ref = self._saved[draft]
        if entity not in (None, actual) or self.forgotten or ref in self._gone:
            return None
        return self._keys.get(actual, {}).get(ref)

    def refs_by_entity(self, key: Key) -> dict[str, str]:
        """Return the refs of a key by entity, without those that only mark keys in texts.

        A UUID and an integer may have one token, so the key itself is compared.
        """
        token = token_of(key)
        refs = [(e, refs.get(token)) for e, refs in [*self._refs.items()] if e != KEY]
        keys = self._keys
        return {e: ref for e, ref in refs if ref and keys.get(e, {}).get(ref) == key}

    def text_keys(self) -> list[str]:
        """Return the keys of rows that are text."""
        rows = [refs for entity, refs in [*self._refs.items()] if entity != KEY]
        return [token for refs in rows for token in [*refs] if type(token) is str]

    def keep(self, entry: Entry) -> None:
        """Cache an entry of the store."""
        ref = str(entry.ref)
        self.put(entry.ref.entity, entry.key, ref)
        if entry.label is not None:
            self._labels[ref] = entry.label

    def put(self, entity: str, key: Key, ref: str) -> None:
        """Cache a mapping; its ref becomes a `ShownRef`, which can be recognised in a copy."""
        ref = ShownRef(ref[:])
        self._keys.setdefault(entity, {})[ref] = key
        self.refs_of(entity)[token_of(key)] = ref

    def label_of(self, entity: str, key: Key) -> str | None:
        """Return the cached label of a row."""
        ref = self.ref_of(entity, key)
        return None if ref is None else self._labels.get(ref)

    def changed_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels that differ from the cached ones, by ref."""
        cached = self._labels
        return {ref: label for ref, label in labels.items() if cached.get(ref) != label}

    def relabel(self, entity: str, key: Key, label: str | None) -> None:
        """Replace the cached label of a row; do nothing if its ref is not cached."""
        ref = self.ref_of(entity, key)
        if label is None:
            self.unlabel(entity, key)
        elif ref is not None:
            self._labels[ref] = label

    def unlabel(self, entity: str, key: Key) -> None:
        """Remove the cached label of a row."""
        self._labels.pop(self.ref_of(entity, key) or "", None)

    def forget(self) -> None:
        """Stop resolving refs; refs that instances show stay."""
        self.forgotten = True
        self._keys.clear()


def _entity_of(text: str) -> str:
    ref = parse_ref(text)
    return "" if ref is None or ref.draft else ref.entity


class Caches:
    """The caches of one conversation, with their shared state.

    Args:
        capacity: how many mappings the current cache has at most.

    Attributes:
        capacity: how many mappings the current cache has at most.
        current: the cache that sessions share; another one takes its place when it is full.
        gone: refs of rows that are known to be gone.
        unlabelled: keys whose rows may have a label that the registry does not have.
        is_partial: whether this process may have shown refs that are in no cache any more.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.gone: set[str] = set()
        self.unlabelled = UnlabelledKeys()
        self.is_partial = False
        self._lock = threading.RLock()
        self._all: WeakSet[RefCache] = WeakSet()
        # caches for the same tables in other schemas, as long as a session uses them
        self._under: WeakValueDictionary[Schemas, Caches] = WeakValueDictionary()
        self.current = self._new()

    def under(self, schemas: Schemas) -> Caches:
        """Return the caches for the same tables under another `schema_translate_map`."""
        with self._lock:
            return self._under.setdefault(schemas, Caches(self.capacity))

    def _new(self) -> RefCache:
        cache = RefCache(self.gone)
        with self._lock:
            self._all.add(cache)
        return cache

    def _in_use(self) -> list[RefCache]:
        with self._lock:
            return [*self._all]

    def keep(self, cache: RefCache, entries: Collection[Entry]) -> None:
        """Cache entries of the store in the cache of the session that fetched them.

        If they do not fit into the current cache, another one becomes the current one.
        """
        with self._lock:
            if cache is self.current and len(cache) + len(entries) > self.capacity:
                self.current = self._new()
                self.is_partial = True
            for entry in entries:
                cache.keep(entry)
        self.gone.update(str(entry.ref) for entry in entries if entry.gone is not None)

    def next_after(self, cache: RefCache, shown: Iterable[EntityKey]) -> RefCache:
        """Return the cache with which a session continues.

        That is the current one, or a new one if the session's refs would fill more than half of
        it, because the session would have to copy them again soon. The refs that the session's
        instances show are in it, unless the conversation was forgotten.
        """
        with self._lock:
            refs = [] if cache.forgotten else [(*pair, cache.ref_of(*pair)) for pair in shown]
            is_room = 2 * (len(self.current) + len(refs)) <= self.capacity
            following = self.current if is_room else self._new()
            for entity, key, ref in refs:
                if ref is not None:
                    following.put(entity, key, ref)
        return following

    def forget(self) -> None:
        """Forget the conversation: this process resolves none of its refs any more.

        Instances show their refs until their sessions send the next statement.
        """
        with self._lock:
            for others in [*self._under.values()]:
                others.forget()
            for cache in self._in_use():
                cache.forget()
            self._all.clear()
            self.gone.clear()
            self.unlabelled.clear()
            self.current = self._new()

    def unlabel(self, pair: EntityKey) -> None:
        """Remove the cached label of a row."""
        with self._lock:
            for others in [*self._under.values()]:
                others.unlabel(pair)
        for cache in self._in_use():
            cache.unlabel(*pair)

    # Look-ups in all caches, as a ref may be in any of them

    def ref_of(self, entity: str, key: Key) -> str | None:
        """Return the ref of a key, if one of the caches has it."""
        refs = (cache.ref_of(entity, key) for cache in self._in_use())
        return next((ref for ref in refs if ref is not None), None)

    def refs_by_entity(self, key: Key) -> dict[str, str]:
        """Return the refs of a key by entity, gone rows included."""
        return {e: ref for cache in self._in_use() for e, ref in cache.refs_by_entity(key).items()}

    def text_keys(self) -> list[str]:
        """Return the keys that are text."""
        return list(dict.fromkeys(text for cache in self._in_use() for text in cache.text_keys()))


class UnlabelledKeys(set[EntityKey]):
    """Keys whose rows may have a label that the registry does not have; of bounded size."""

    def note(self, entries: Collection[Entry], has_labels: Callable[[str], bool]) -> None:
        """Add the keys of entries without a label, of entities whose rows may have labels."""
        entities = {e for e in {entry.ref.entity for entry in entries} if has_labels(e)}
        if entities and len(self) < _MAX_UNLABELLED:
            self.update(
                (entry.ref.entity, entry.key)
                for entry in entries
                if entry.label is None and entry.ref.entity in entities
            )
