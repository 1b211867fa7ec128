"""The part of a conversation's map that this process has met.

A mapping never changes, so what is here is right for ever and needs no invalidation; what is not
here is asked of the store. Whether a ref's row is there does change, and is kept apart: a ref
whose row is gone is shown and not resolved. Safe to share between threads: every step is one
dictionary operation.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping
from typing import Any

from .keys import Key
from .store import EntityKey, Entry, Gone


def token_of(key: Key) -> Any:
    """Return what a key is looked up by.

    A UUID goes by its number: `UUID.__hash__` is a Python function, `int.__hash__` is not, and
    two look-ups are made for every row.
    """
    return key.int if isinstance(key, uuid.UUID) else key


class Refs(dict[Any, str]):
    """The refs of one entity, by the token of their key.

    A row that is gone is not `in` it, so that whoever reads its key meets it again; subscription
    still gives its ref, so that an instance that outlived its row shows what it always showed,
    without a round trip.
    """

    __slots__ = ("_entity", "_gone")

    def __init__(self, entity: str, gone: Mapping[tuple[str, Any], str]) -> None:
        super().__init__()
        self._entity = entity
        self._gone = gone

    def __missing__(self, token: Any) -> str:
        return self._gone[self._entity, token]


class RefCache:
    """Refs by key and keys by ref, for each entity.

    Attributes:
        gone: (entity, token of the key) → ref, of rows that are not there.
        back: (entity, key) → ref, of rows that were gone and have been read since; the store is
            yet to be told.
        unshown: why rows are gone whose keys have no ref, as long as an instance has the key.
    """

    __slots__ = ("__weakref__", "_keys", "_refs", "back", "gone", "unshown")

    def __init__(self) -> None:
        self._refs: dict[str, Refs] = {}
        self._keys: dict[str, dict[str, Key]] = {}
        self.gone: dict[tuple[str, Any], str] = {}
        self.back: dict[EntityKey, str] = {}
        self.unshown: dict[EntityKey, Gone] = {}

    def clear(self) -> None:
        """Forget all of it: the conversation was forgotten."""
        for part in (self._refs, self._keys, self.gone, self.back, self.unshown):
            part.clear()

    def refs_of(self, entity: str) -> Refs:
        """Return the refs of an entity: a live view, to be read only."""
        refs = self._refs.get(entity)
        return self._refs.setdefault(entity, Refs(entity, self.gone)) if refs is None else refs

    def ref_of(self, entity: str, key: Key) -> str | None:
        """Return the ref of a key, if it is here and its row is not gone."""
        refs = self._refs.get(entity)
        return None if refs is None else refs.get(token_of(key))

    def refs_by_key(self, key: Key) -> list[str]:
        """Return the refs that rows of any entity with this key have here.

        A UUID and an integer may have one token, so the key itself is looked at.
        """
        token = token_of(key)
        found = [(entity, refs.get(token)) for entity, refs in list(self._refs.items())]
        return [ref for entity, ref in found if ref and self.key_of(entity, ref) == key]

    def key_of(self, entity: str, ref: str) -> Key | None:
        """Return the key that a ref names, if it is here and its row is not gone."""
        keys = self._keys.get(entity)
        return None if keys is None else keys.get(ref)

    def shows(self, entity: str, key: Key) -> bool:
        """Tell whether a key can be shown without asking the store, be its row gone or not."""
        return self.ref_of(entity, key) is not None or (entity, token_of(key)) in self.gone

    def names_of(self, key: Key) -> dict[str, str]:
        """Return the refs of a key, by entity, whether their rows are gone or not."""
        token = token_of(key)
        lost = {entity: ref for (entity, other), ref in [*self.gone.items()] if other == token}
        back = {entity: ref for (entity, other), ref in [*self.back.items()] if other == key}
        met = {entity: refs[token] for entity, refs in [*self._refs.items()] if token in refs}
        names = lost | back | met
        return {entity: ref for entity, ref in names.items() if self._is_of(entity, ref, key)}

    def _is_of(self, entity: str, ref: str, key: Key) -> bool:
        """Tell a UUID from an integer that it has in common with a key: tokens do not."""
        known = self.key_of(entity, ref)
        return known is None or isinstance(known, uuid.UUID) == isinstance(key, uuid.UUID)

    def texts(self) -> list[str]:
        """Return the keys that are text."""
        return [
            token for refs in [*self._refs.values()] for token in [*refs] if type(token) is str
        ]

    def keep(self, entry: Entry) -> None:
        """Keep what the store said of a row that is there."""
        self._keep(entry.ref.entity, entry.key, str(entry.ref))

    def _keep(self, entity: str, key: Key, ref: str) -> None:
        token = token_of(key)
        self.refs_of(entity)[token] = ref
        self._keys.setdefault(entity, {})[ref] = key
        self.gone.pop((entity, token), None)

    def lose(self, entity: str, key: Key) -> None:
        """Show this key's ref from now on, and ask the store what became of its row."""
        token = token_of(key)
        ref = self.back.pop((entity, key), None) or self.refs_of(entity).get(token)
        if ref is not None:
            self.gone[entity, token] = ref
            self.refs_of(entity).pop(token, None)
            self._keys.get(entity, {}).pop(ref, None)

    def lose_unshown(self, pair: EntityKey, reason: Gone, instance: object) -> None:
        """Keep why a row is gone that has no ref, for the instance that may yet show its key."""
        self.unshown[pair] = reason
        weakref.finalize(instance, self.unshown.pop, pair, None).atexit = False

    def find(self, entity: str, key: Key) -> None:
        """Note that a row was read: if it was gone it is back."""
        self.unshown.pop((entity, key), None)
        ref = self.gone.pop((entity, token_of(key)), None)
        if ref is not None:
            self.back[entity, key] = ref

    def restore(self, back: Mapping[EntityKey, str]) -> None:
        """Resolve these refs again: the store was told that their rows are back."""
        for (entity, key), ref in back.items():
            self._keep(entity, key, ref)
            self.back.pop((entity, key), None)
