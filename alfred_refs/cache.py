"""The part of a conversation's map that this process has met.

A mapping never changes, so what is here is right for ever and needs no invalidation; what is not
here is asked of the store. Safe to share between threads: every step is one dictionary operation.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Any

from .keys import Key
from .store import Entry


def token_of(key: Key) -> Any:
    """Return what a key is looked up by.

    A UUID goes by its number: `UUID.__hash__` is a Python function, `int.__hash__` is not, and
    two look-ups are made for every row.
    """
    return key.int if isinstance(key, uuid.UUID) else key


class RefCache:
    """Refs by key and keys by ref, for each entity.

    Attributes:
        refs: entity → token of the key → ref.
        keys: entity → ref → key. Refs whose rows are gone are not here, so that the store is
            asked about them each time.
    """

    __slots__ = ("__weakref__", "keys", "refs")

    def __init__(self) -> None:
        self.refs: defaultdict[str, dict[Any, str]] = defaultdict(dict)
        self.keys: defaultdict[str, dict[str, Key]] = defaultdict(dict)

    def ref_of(self, entity: str, key: Key) -> str | None:
        """Return the ref of a key, if it is here."""
        return self.refs[entity].get(token_of(key))

    def keep(self, entry: Entry) -> str:
        """Keep what the store said, and return the ref."""
        entity, ref = entry.ref.entity, str(entry.ref)
        self.refs[entity][token_of(entry.key)] = ref
        if entry.gone is None:
            self.keys[entity][ref] = entry.key
        return ref

    def drop(self, entity: str, ref: str) -> None:
        """Ask the store about this ref from now on: its row is gone."""
        self.keys[entity].pop(ref, None)
