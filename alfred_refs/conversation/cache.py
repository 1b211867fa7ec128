"""Mappings of one conversation that this process has met.

A mapping never changes, so what is here is right for ever and needs no invalidation; what is not
here is asked of the store. Safe to share between threads: every step is one dictionary operation,
and what is here can be shown as long as the cache is there. To let go of mappings is to go on
with another cache, which `caches` hands out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alfred_refs.mapping.keys import Key, token_of
from alfred_refs.mapping.refs import KEY, Ref, parse_ref
from alfred_refs.store import Entry

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
        for want in wanted:
            text, entity = want
            key = self.key_of(_entity_of(text) if entity is None else entity, text)
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
