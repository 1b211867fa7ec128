"""Whether drafts are saved whose rows were to be inserted: the application's tables tell.

Drafts come in as the registry has them, and go out as they are: one that has a key reserved was
saved after all if the row is there, though it be discarded since. So it stands after a crash
between the row's commit and the registry's note of it, which is made up for here. A row that
cannot be looked for is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.keys import EntityKey, Key
from alfred_refs.mapping.refs import Ref
from alfred_refs.store import Address, DraftEntry, Store


class Rows(Protocol):
    """Where the rows of drafts are looked for."""

    def committed(self, pairs: Iterable[EntityKey]) -> bool:
        """Tell whether rows of these keys, if they are found, are there for good."""
        ...

    def there(self, pairs: Collection[EntityKey]) -> Collection[EntityKey]:
        """Return those of these keys that rows have."""
        ...


class StoredRows:
    """Looks for rows where the registry's own tables are, if the application's are there too.

    A random UUID that is found there is the draft's. An integer might be that of a row in a copy
    of the database, so only a session, which knows where its rows are, looks for those.

    Args:
        address: the conversation for which they are looked for.
        store: asks the database.
        entities: say which tables the rows are in.
    """

    def __init__(self, address: Address, store: Store, entities: Entities) -> None:
        self._address = address
        self._store = store
        self._entities = entities

    def committed(self, _: Iterable[EntityKey]) -> bool:
        """See `Rows.committed`: they are looked for in a transaction of their own."""
        return True

    def there(self, pairs: Collection[EntityKey]) -> Collection[EntityKey]:
        """See `Rows.there`: one round trip for each entity."""
        found: list[EntityKey] = []
        for entity, keys in by_entity(pairs).items():
            column = self._entities.primary_of(entity)
            held = None if column is None else self._entities.of_column(column)
            if column is not None and held is not None and held.key_type == "uuid":
                values = [held.from_key(key) for key in keys]
                there = self._store.values_there(self._address, column, values)
                found += [(entity, held.to_key(value)) for value in there]
        return found


def by_entity(pairs: Iterable[EntityKey]) -> dict[str, list[Key]]:
    """Return keys by their entities."""
    found: dict[str, list[Key]] = {}
    for entity, key in pairs:
        found.setdefault(entity, []).append(key)
    return found


def settled(
    drafts: Mapping[Ref, DraftEntry], rows: Rows, store: Store, address: Address
) -> Mapping[Ref, DraftEntry]:
    """Return drafts as they are: those whose rows are there are saved, which is noted."""
    doubtful = {
        (ref.entity, draft.key): ref
        for ref, draft in drafts.items()
        if draft.state != "saved" and draft.key is not None
    }
    there = rows.there(doubtful) if doubtful else []
    found = [doubtful[pair] for pair in there]
    if found and rows.committed(there):
        store.confirm_drafts(address, found)
    # without the row's entry: only of one that the store calls saved is it remembered
    return {**drafts, **{ref: replace(drafts[ref], state="saved", row=None) for ref in found}}
