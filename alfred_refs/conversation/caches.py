"""What this process has met of one conversation, in caches of bounded size.

All who work in the conversation share one cache. When it is full the next is handed out, empty:
nothing is ever taken out of a cache, so whoever reads one goes on reading it, and the last reader
takes it away. A session goes on with another cache too, at a time of its own, and takes along what
its instances show (`SessionConversation`). What falls behind is asked of the store when it is
wanted again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from weakref import WeakSet, WeakValueDictionary

from alfred_refs.mapping.keys import EntityKey, Key, token_of
from alfred_refs.sqla import Schemas
from alfred_refs.store import Entry, Gone

from .cache import RefCache
from .tombstones import GoneRows
from .unlabelled import Unlabelled

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
