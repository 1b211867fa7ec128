"""What this process knows of one conversation: mappings, labels told, in caches of bounded size.

A mapping never changes, so what is cached is right for ever and needs no invalidation; what is
not is asked of the store. All sessions and threads of the conversation share one cache: every step
is one dictionary operation. A full cache is not emptied, the next one is handed out: whoever reads
the old one goes on reading it, and a session changes over at a time of its own, with what its
instances show.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from alfred_refs.mapping.keys import EntityKey, Key, token_of
from alfred_refs.mapping.refs import KEY, Ref, parse_ref
from alfred_refs.sqla import Schemas
from alfred_refs.store import Entry, Gone

from .tombstones import GoneRows

Wanted = tuple[str, str | None]
"""A ref as it was given, and the entity that is needed (`None`: any)."""


class Refs(dict[Any, str]):
    """The refs of one entity, by the token of their key.

    A row that is gone is not `in` it, so that whoever reads its key meets it again; subscription
    still gives its ref, so that an instance that outlived its row shows what it always showed,
    without a round trip.
    """

    __slots__ = ("_entity", "_gone")

    def __init__(self, entity: str, gone: GoneRows) -> None:
        super().__init__()
        self._entity = entity
        self._gone = gone

    def __missing__(self, token: Any) -> str:
        # here again, if another thread has restored it in between
        ref = self._gone.ref_of(self._entity, token) or self.get(token)
        if ref is None:
            raise KeyError(self._entity)
        return ref


class RefCache:
    """Refs by key and keys by ref, for each entity.

    Args:
        gone: which rows are gone, for all caches of the conversation.

    Attributes:
        forgotten: whether the conversation was forgotten: what is here is still shown to those
            who are reading it, and no ref is resolved.
    """

    __slots__ = ("__weakref__", "_gone", "_keys", "_labels", "_refs", "_saved", "forgotten")

    def __init__(self, gone: GoneRows | None = None) -> None:
        self._gone = GoneRows() if gone is None else gone
        self._refs: dict[str, Refs] = {}
        self._keys: dict[str, dict[str, Key]] = {}
        self._labels: dict[str, str] = {}  # by refs
        self._saved: dict[str, tuple[str, str]] = {}  # a draft's ref -> entity, ref of its row
        self.forgotten = False

    def __len__(self) -> int:
        return sum(map(len, [*self._refs.values()]))

    def refs_of(self, entity: str) -> Refs:
        """Return the refs of an entity: a live view, to be read only."""
        refs = self._refs.get(entity)
        return self._refs.setdefault(entity, Refs(entity, self._gone)) if refs is None else refs

    def ref_of(self, entity: str, key: Key) -> str | None:
        """Return the ref of a key, if it is here and its row is not gone."""
        refs = self._refs.get(entity)
        return None if refs is None else refs.get(token_of(key))

    def key_of(self, entity: str, ref: str) -> Key | None:
        """Return the key that a ref names, if it is here and its row is not gone."""
        keys = self._keys.get(entity)
        return None if keys is None or self.forgotten else keys.get(ref)

    def look_up(self, wanted: Iterable[Wanted]) -> tuple[dict[Wanted, Key], list[Wanted]]:
        """Return the keys of those refs that are here, and the other refs."""
        keys, missing = {}, []
        known = {} if self.forgotten else self._keys
        for want in wanted:
            text, entity = want
            # as `key_of` does: this is asked for every ref
            of_entity = known.get(_entity_of(text) if entity is None else entity)
            key = None if of_entity is None else of_entity.get(text)
            if key is None and text in self._saved:
                key = self._key_of_saved(text, entity)
            if key is None:
                missing.append(want)
            else:
                keys[want] = key
        return keys, missing

    def note_saved(self, draft: str, row: Ref) -> None:
        """Note which ref the row of a draft has: from now on the two resolve together."""
        self._saved[draft] = row.entity, str(row)

    def _key_of_saved(self, draft: str, entity: str | None) -> Key | None:
        actual, ref = self._saved[draft]
        return self.key_of(actual, ref) if entity in (None, actual) else None

    def shows(self, entity: str, key: Key) -> bool:
        """Tell whether a key can be shown without asking the store, be its row gone or not."""
        if self.ref_of(entity, key) is not None:
            return True
        return self._gone.ref_of(entity, token_of(key)) is not None

    def names_of(self, key: Key) -> dict[str, str]:
        """Return the refs of a key whose rows are there, by entity; what stands in texts has none.

        A UUID and an integer may have one token, so the key itself is looked at.
        """
        token = token_of(key)
        found = [(e, refs.get(token)) for e, refs in [*self._refs.items()] if e != KEY]
        return {entity: ref for entity, ref in found if ref and self.key_of(entity, ref) == key}

    def texts(self) -> list[str]:
        """Return the keys of rows that are text."""
        rows = [refs for entity, refs in [*self._refs.items()] if entity != KEY]
        return [token for refs in rows for token in [*refs] if type(token) is str]

    def keep(self, entry: Entry) -> None:
        """Keep what the store said of a row that is there."""
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

    def put(self, entity: str, key: Key, ref: str) -> None:
        """Keep a mapping."""
        self._keys.setdefault(entity, {})[ref] = key
        self.refs_of(entity)[token_of(key)] = ref

    def lose(self, entity: str, key: Key, ref: str) -> None:
        """Resolve a ref no more, now that `gone` shows it."""
        self._refs.get(entity, {}).pop(token_of(key), None)
        self._keys.get(entity, {}).pop(ref, None)

    def forget(self) -> None:
        """Resolve no ref any more: whoever shows one still finds it here, and nowhere else."""
        self.forgotten = True
        for (entity, token), ref in self._gone.items():
            self.refs_of(entity)[token] = ref
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
        gone: which rows are gone: no mark is let go of.
        unlabelled: refs whose rows may have a label that nobody knows.
        lets_go: whether there may be refs of the conversation that this process has met and does
            not know any more.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.gone = GoneRows()
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
        """Keep what the store said of rows that are there.

        What somebody has noted as gone stays so until it is read.

        Args:
            cache: of the one who asked. If that is more than all shall share, it is shared by
                those who have it already.
            entries: what the store said.
        """
        with self._lock:
            if cache is self.current and len(cache) + len(entries) > self.capacity:
                self.current = self._another()
                self.lets_go = True
            for entry in entries:
                if (entry.ref.entity, token_of(entry.key)) not in self.gone.refs:
                    cache.keep(entry)

    def after(self, cache: RefCache, shown: Iterable[EntityKey]) -> RefCache:
        """Return the cache that a session goes on with.

        That is the one that all share, unless it would be half full by what the session takes
        along: to copy it is to be worth while.

        Args:
            cache: which the session has.
            shown: the keys that its instances show: they have their refs in the other cache too,
                unless the conversation was forgotten.
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

    # What concerns all caches, because the rows of refs in any of them come and go

    def may_resolve(self, entity: str, key: Key) -> bool:
        """Tell whether this process may have met a ref of a key, and not know that it is gone."""
        return self.lets_go or self._ref_of(entity, key) is not None

    def _ref_of(self, entity: str, key: Key) -> str | None:
        refs = (cache.ref_of(entity, key) for cache in self._in_use())
        return next((ref for ref in refs if ref is not None), None)

    def names_of(self, key: Key) -> dict[str, str]:
        """Return the refs of a key, by entity, whether their rows are gone or not."""
        names = self.gone.names_of(key)
        for cache in self._in_use():
            names |= cache.names_of(key)
        return names

    def texts(self) -> list[str]:
        """Return the keys that are text."""
        return list(dict.fromkeys(text for cache in self._in_use() for text in cache.texts()))

    def lose(self, pair: EntityKey, reason: Gone, instance: object | None) -> None:
        """Show this key's ref from now on, and ask the store what became of its row.

        Args:
            pair: the key.
            reason: what the store is told.
            instance: the one that may show the key, if it has no ref yet.
        """
        with self._lock:
            ref = self._ref_of(*pair) or self.gone.ref_of(pair[0], token_of(pair[1]))
            if ref is not None:
                self.gone.lose(*pair, ref, reason)
                for cache in self._in_use():
                    cache.lose(*pair, ref)
            elif self.lets_go or instance is not None:
                self.gone.lose_unshown(pair, reason, None if self.lets_go else instance)

    def find(self, entity: str, key: Key) -> None:
        """Note that a row was read: if it was gone it is back."""
        with self._lock:
            self.gone.find(entity, key)

    def restore(self, back: Mapping[EntityKey, str | None]) -> dict[EntityKey, Gone]:
        """Resolve these refs again: the store was told that their rows are back.

        Returns:
            the keys whose rows have gone once more while the store was told, and why. What
            another thread has told the store in between is neither gone nor yet to be told.
        """
        with self._lock:
            reasons = {pair: self.gone.reason(*pair) for pair in back}
            lost = {pair: reason for pair, reason in reasons.items() if reason is not None}
            for pair in filter(lambda pair: self.gone.is_back(*pair), back):
                ref = back[pair]
                # in every cache: an instance may have shown it from any
                for cache in self._in_use():
                    if ref is not None:
                        cache.put(*pair, ref)
                self.gone.remove(*pair)
        return lost


_MOST = 10_000  # remembered; what is beyond stays without a label


class Unlabelled(set[EntityKey]):
    """The keys of such refs."""

    def note(self, entries: Collection[Entry], has_labels: Callable[[str], bool]) -> None:
        """Note which refs have no label.

        Args:
            entries: what the store said of refs.
            has_labels: tells whether rows of an entity may have labels.
        """
        entities = {e for e in {entry.ref.entity for entry in entries} if has_labels(e)}
        if entities and len(self) < _MOST:
            self.update(
                (entry.ref.entity, entry.key)
                for entry in entries
                if entry.label is None and entry.ref.entity in entities
            )
