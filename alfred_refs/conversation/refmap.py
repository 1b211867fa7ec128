"""The map of a conversation. `resolve` goes from ref to key, `refer` from key to ref.

Refs and keys come in, keys and refs go out, in the order they came. The store is asked only for
what this process has not met, once for a whole list. A bad ref raises and nothing is resolved.

A row that is noted gone keeps its ref, which is shown, and refused when it is used. The row may
have come back since: a session asks its table when such a ref is used, and tells the store. So
nobody watches what is read, and a conversation that has lost no row sends nothing for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, cast

from sqlalchemy import Table

from alfred_refs.errors import GoneRefError, KeyTypeError, RefError, UnknownRefError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import EntityKey, Key, spells_uuid, token_of
from alfred_refs.mapping.refs import KEY, Ref, parse_ref
from alfred_refs.sqla import Schemas
from alfred_refs.store import NOTED_EVERY, Address, DraftEntry, Entry, Gone, Store
from alfred_refs.store.telemetry import Telemetry

from .cache import Caches, RefCache, Wanted
from .draft_rows import Rows, StoredRows, settled
from .ref_errors import Suggestions, bad_ref_error

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
        self._work_under(schemas)
        self._store = store
        self._caches = caches
        self._is_used = False
        self._telemetry = telemetry
        self._rows: Rows = StoredRows(address, store, entities)
        self._noted_until = monotonic() + NOTED_EVERY.total_seconds()
        self._labels: dict[EntityKey, str] = {}  # what is to be told with the next mint

    def _work_under(self, schemas: Schemas) -> None:
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

    def _make_room(self) -> bool:
        """Go on with another cache, if that is for this object to do; tell whether it was."""
        return False

    def resolve(self, ref: str, entity: type[Any] | Table | str | None = None) -> Key:
        """Return the key that a ref names, of the entity, class or table that is needed.

        Raises:
            BadRefError: the subclass says what is wrong with the ref.
        """
        return self.resolve_all([ref], entity)[0]

    def resolve_all(
        self, refs: Iterable[str], entity: type[Any] | Table | str | None = None
    ) -> list[Key]:
        """Return the key of each ref, in order; one bad ref refuses them all.

        Raises:
            BadRefError: as for `resolve`; it is about the first bad ref.
        """
        if entity is None:
            return self._resolve_wanted([(ref, None) for ref in refs])
        name, column = self._name_and_column(entity)
        keys = self._resolve_wanted([(ref, name) for ref in refs])
        return keys if column is None else [column.from_key(key) for key in keys]

    def _name_and_column(self, entity: type[Any] | Table | str) -> tuple[str, KeyColumn | None]:
        entities = self._entities
        return entities.name_of(entity), entities.key_column_of(entity)

    def _resolve_wanted(self, wanted: Sequence[Wanted]) -> list[Key]:
        """Return the keys of refs that are needed for different entities, in order."""
        self._is_used = True
        keys, missing = self._cache.look_up(wanted)
        if missing:
            self._make_room()
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

    def _gone(self, ref: str, entity: str) -> GoneRefError:
        """Return the error for a ref whose row was looked for and is not there."""
        known, _ = self._suggestions().for_text(ref, parse_ref(ref), entity)
        known.pop(ref, None)
        error = GoneRefError(ref, entity, known, None, "was deleted")
        return self._telemetry.refused(self.id, error)

    def _unknown(self, text: str, entity: str | None) -> UnknownRefError:
        """Return the error for a text that names nothing, whatever it spells."""
        offered = self._suggestions().for_text(text, parse_ref(text), entity)
        return self._telemetry.refused(self.id, UnknownRefError(text, entity, *offered))

    def _suggestions(self) -> Suggestions:
        return Suggestions(self._address, self._store)

    def _keys_met(self, wanted: Iterable[Wanted]) -> Mapping[Wanted, Key] | None:
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
        """Return the ref of each key, in order; those met for the first time are numbered so."""
        name, column = self._name_and_column(entity)
        if column is not None:
            keys = [_checked(column, key) for key in keys]
        return self._refer_pairs([(name, key) for key in keys])

    def _refer_pairs(self, pairs: Sequence[EntityKey]) -> list[str]:
        """Return the refs of keys of different entities, in order."""
        cache = self._cache
        self._meet(cache, pairs)
        return [cache.refs_of(entity)[token_of(key)] for entity, key in pairs]

    def _refs_held(self, keys: Collection[Key]) -> dict[Key, str]:
        """Return the ref of each key that rows have, be they gone or not: one round trip, or none.

        The registry decides, not what this process has met. Of several entities the first by its
        name is taken; what stands in texts alone is left out.
        """
        found = self._store.refs_of(self._address, keys) if keys else {}
        rows = {key: [ref for ref in refs if ref.entity != KEY] for key, refs in found.items()}
        return {key: str(refs[0]) for key, refs in rows.items() if refs}

    def _keys_held(self, refs: Iterable[str]) -> dict[str, Key]:
        """Return the keys of those refs that are known, though their rows be gone.

        That is at most one round trip. What is no ref of a row is left out.
        """
        wanted: list[Wanted] = [(ref, None) for ref in dict.fromkeys(refs)]
        met, missing = self._cache.look_up(wanted)
        parsed = [ref for text, _ in missing if (ref := parse_ref(text)) and not ref.draft]
        found = self._store.resolve(self._address, parsed) if parsed else {}
        return {text: key for (text, _), key in met.items()} | {
            str(ref): entry.key for ref, entry in found.items()
        }

    def _has_met(self, pairs: Iterable[EntityKey]) -> bool:
        """Tell whether all these keys can be shown without a round trip."""
        cache = self._cache
        return all(cache.ref_of(*pair) is not None for pair in pairs)

    def _meet(self, cache: RefCache, pairs: Iterable[EntityKey]) -> None:
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

    def _names_of(self, key: Key) -> Mapping[str, str]:
        """Return the refs that a key has in this process, by entity; nothing is minted."""
        return self._caches.names_of(key)

    def _texts(self) -> list[str]:
        """Return the keys met so far that are text."""
        return self._caches.texts()

    def _refs_met(self, key: Key) -> list[str]:
        """Return the refs, of any entity, that this process has met for a key whose row is there.

        No round trip: what the store knows beside is not asked for.
        """
        gone = self._caches.gone
        return [ref for ref in self._cache.names_of(key).values() if ref not in gone]

    def _note_gone(self, pairs: Collection[EntityKey], reason: Gone) -> None:
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

    def _fetch(self, cache: RefCache, wanted: Sequence[Wanted]) -> dict[Wanted, Key]:
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
        return settled(drafts, self._rows, self._store, self._address)

    def _keep(self, cache: RefCache, entries: Collection[Entry]) -> None:
        self._caches.keep(cache, entries)
        self._caches.unlabelled.note(entries, self._entities.has_labels)


def _checked(column: KeyColumn, key: Any) -> Key:
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
