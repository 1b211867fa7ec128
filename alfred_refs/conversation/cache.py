"""What this process knows of one conversation: mappings, labels told, in caches of bounded size.

A mapping never changes, so what is cached is right for ever and needs no invalidation; what is
not is asked of the store. All sessions and threads of the conversation share one cache: every step
is one dictionary operation. A full cache is not emptied, the next one is handed out: whoever reads
the old one goes on reading it, and a session changes over at a time of its own, with what its
instances show.

Rows come and go, unlike mappings. So the refs of rows that are known to be gone are kept beside
the caches: they are shown as ever, and the store is asked whenever one is to be resolved.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from alfred_refs.mapping.keys import EntityKey, Key, token_of
from alfred_refs.mapping.refs import KEY, Ref, parse_ref
from alfred_refs.sqla import Schemas
from alfred_refs.store import Entry

Wanted = tuple[str, str | None]
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

    def look_up(self, wanted: Iterable[Wanted]) -> tuple[dict[Wanted, Key], list[Wanted]]:
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

    def names_of(self, key: Key) -> dict[str, str]:
        """Return the refs of a key, by entity; what stands in texts has none.

        A UUID and an integer may have one token, so the key itself is looked at.
        """
        token = token_of(key)
        found = [(e, refs.get(token)) for e, refs in [*self._refs.items()] if e != KEY]
        keys = self._keys
        return {e: ref for e, ref in found if ref and keys.get(e, {}).get(ref) == key}

    def texts(self) -> list[str]:
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
        self.unlabelled = Unlabelled()
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

    def names_of(self, key: Key) -> dict[str, str]:
        """Return the refs of a key, by entity, whether their rows are gone or not."""
        return {e: ref for cache in self._in_use() for e, ref in cache.names_of(key).items()}

    def texts(self) -> list[str]:
        """Return the keys that are text."""
        return list(dict.fromkeys(text for cache in self._in_use() for text in cache.texts()))


_MOST = 10_000  # remembered; what is beyond stays without a label


class Unlabelled(set[EntityKey]):
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
