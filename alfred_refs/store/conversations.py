"""Whole conversations in PostgreSQL: made, left, listed and counted.

What is done here is rare, and takes a few round trips. It is a part of `PostgresStore`, which
runs it on connections of its own.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from alfred_refs.errors import (
    ConversationExistsError,
    RegistryFailedError,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import decode, encode
from alfred_refs.mapping.refs import Ref

from . import sql_conversations
from .connections import snapshot, transaction
from .drafts import PAGE, Fetch, listed
from .sending import UNIQUE_VIOLATION, Sending
from .sql_parameters import begun, named
from .sql_refs import lock_begun
from .tables import metadata
from .values import (
    Address,
    ConversationInfo,
    DraftEntry,
    DraftState,
    Entry,
    Exported,
    RegistryStats,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Executable, Row

_PAGE = 1000  # rows read or written by one statement: some hundred kilobytes

_FIRST = uuid.UUID(int=0)
_STATES: Sequence[DraftState] = get_args(DraftState)

_T = TypeVar("_T")


class Lifetimes(Sending, ABC):
    """The part of `PostgresStore` that is about conversations as a whole."""

    @abstractmethod
    def entities(self, address: Address) -> Mapping[str, int]:
        """See `Store.entities`."""

    def fork(self, address: Address, new_id: str) -> None:
        """See `Store.fork`."""
        new = Address(new_id, address.owner)
        values = begun(address) | {"p_id": new_id, "p_new": new.digest}

        def copy(connection: Connection) -> bool:
            with transaction(connection):
                found = connection.execute(lock_begun, values).one_or_none()
                if found is not None:
                    connection.execute(sql_conversations.fork_conversation, values)
                    taken = connection.scalar(sql_conversations.kinds_taken, values)
                    connection.execute(
                        sql_conversations.fork_counters, values | {"p_taken": taken}
                    )
                    connection.execute(
                        sql_conversations.fork_mappings, values | {"p_taken": taken}
                    )
                    connection.execute(sql_conversations.fork_drafts, values | {"p_taken": taken})
                    connection.execute(sql_conversations.touch, values)
            return found is not None

        if not self._make(new_id, copy):
            raise UnknownConversationError(address.id)

    def forget(self, address: Address) -> None:
        """See `Store.forget`."""
        values = named(address)

        def forget(connection: Connection) -> bool:
            with transaction(connection):
                found = connection.execute(
                    sql_conversations.forget_conversation, values
                ).one_or_none()
                if found is not None:
                    connection.execute(sql_conversations.forget_mappings, values)
                    connection.execute(sql_conversations.forget_drafts, values)
                    connection.execute(sql_conversations.leave_counters, values)
            return found is not None

        # not tried again when the connection is lost: it may be forgotten
        if not self._own.run(forget, again=False):
            raise UnknownConversationError(address.id)

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        """See `Store.prune`."""
        values = {"p_unused_for": unused_for, "p_limit": batch}
        for chosen in self._batches(_prune_conversations, values):
            yield len(chosen)
        for _ in self._batches(_prune_counters, values):
            pass

    def _batches(
        self, work: Callable[[Connection, Mapping[str, Any]], _Digests], values: dict[str, Any]
    ) -> Iterator[_Digests]:
        """Do work on one batch after the other, in order of digests, each in a transaction."""
        after: uuid.UUID | None = _FIRST
        while after is not None:
            here = values | {"p_after": after}

            def step(connection: Connection, values: Mapping[str, Any] = here) -> _Digests:
                with transaction(connection):
                    return work(connection, values)

            chosen = self._own.run(step)
            after = chosen[-1] if chosen else None
            if chosen:
                yield chosen

    def entries(self, address: Address, entity: str | None = None) -> Iterator[Entry]:
        """See `Store.entries`."""
        entities = self.entities(address)
        for name in sorted(entities) if entity is None else [entity]:
            yield from _entries(self._alone, address, name)

    def export(self, address: Address) -> Exported:
        """See `Store.export`."""

        def read(connection: Connection) -> Exported | None:
            with snapshot(connection):
                return _read(connection, address)

        exported = self._own.run(read)
        if exported is None:
            raise UnknownConversationError(address.id)
        return exported

    def restore(self, address: Address, exported: Exported) -> None:
        """See `Store.restore`."""

        def write(connection: Connection) -> None:
            with transaction(connection):
                _write(connection, address, exported)

        self._make(address.id, write)

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        """See `Store.describe`."""
        rows = self._alone(sql_conversations.describe, named(Address(id)))
        if not rows:
            raise UnknownConversationError(id)
        return _info(rows[0])

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
    ) -> Iterator[ConversationInfo]:
        """See `Store.conversations`."""
        values = _listed(unused_for, owner) | {"p_limit": limit}
        found = self._alone(sql_conversations.choose_last_used, values)
        for start in range(0, len(found), _PAGE):
            chosen = [row.conversation for row in found[start : start + _PAGE]]
            rows = self._alone(
                sql_conversations.page_of_conversations, {"p_chosen": chosen, "p_owner": None}
            )
            by_digest = {row.conversation: row for row in rows}
            yield from (_info(by_digest[each]) for each in chosen if each in by_digest)

    def count_conversations(
        self, unused_for: timedelta | None = None, owner: str | EllipsisType | None = ...
    ) -> int:
        """See `Store.count_conversations`."""
        [[number]] = self._alone(sql_conversations.count_listed, _listed(unused_for, owner))
        return int(number)

    def stats(self) -> RegistryStats:
        """See `Store.stats`."""

        def count(connection: Connection) -> RegistryStats:
            with snapshot(connection):
                return _stats(connection)

        return self._own.run(count)

    def _make(self, new_id: str, work: Callable[[Connection], _T]) -> _T:
        """Do work that makes a conversation, and tell if its id is taken.

        It is not tried again when the connection is lost: the conversation may have been made.
        """
        try:
            return self._own.run(work, again=False)
        except RegistryFailedError as error:
            if error.sqlstate == UNIQUE_VIOLATION:
                raise ConversationExistsError(new_id) from None
            raise


_Digests = Sequence[uuid.UUID]


def _prune_conversations(connection: Connection, values: Mapping[str, Any]) -> _Digests:
    chosen = connection.scalars(sql_conversations.choose_unused, values).all()
    if chosen:
        these = {"p_chosen": chosen}
        connection.execute(sql_conversations.prune_mappings, these)
        connection.execute(sql_conversations.prune_drafts, these)
        connection.execute(sql_conversations.leave_pruned, these)
        connection.execute(sql_conversations.prune_conversations, these)
    return chosen


def _prune_counters(connection: Connection, values: Mapping[str, Any]) -> _Digests:
    chosen = connection.scalars(sql_conversations.choose_left, values).all()
    if chosen:
        connection.execute(sql_conversations.prune_counters, {**values, "p_chosen": chosen})
    return chosen


def _read(connection: Connection, address: Address) -> Exported | None:
    def fetch(statement: Executable, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
        return connection.execute(statement, values).all()

    rows = fetch(sql_conversations.describe, named(address))
    if not rows or not rows[0].mine:
        return None
    counters = fetch(sql_conversations.last_numbers, named(address))
    last = {row.entity: row.last for row in counters if row.last}
    entries = [entry for name in sorted(last) for entry in _entries(fetch, address, name)]
    return Exported(
        *(address.id, address.owner, rows[0].turn, rows[0].begun_at, last, entries),
        {row.entity: row.drafts for row in counters if row.drafts},
        [replace(draft, row=None) for draft in listed(fetch, address, None, _STATES)],
        {row.entity: row.table_name for row in counters if row.table_name is not None},
    )


def _entries(fetch: Fetch, address: Address, entity: str) -> Iterator[Entry]:
    """Yield the entries of an entity page by page, in the order of their numbers."""
    values = named(address) | {"p_entity": entity, "p_limit": _PAGE}
    number: int | None = 0
    while number is not None:
        rows = fetch(sql_conversations.page_of_entries, values | {"p_number": number})
        yield from (
            Entry(Ref(entity, row.number), decode(row.key), row.gone, row.label) for row in rows
        )
        number = rows[-1].number if len(rows) == _PAGE else None


def _write(connection: Connection, address: Address, exported: Exported) -> None:
    values = begun(address) | {"p_turn": exported.turn, "p_begun_at": exported.begun_at}
    connection.execute(sql_conversations.restore_conversation, values)
    kept = Counter(entry.ref.entity for entry in exported.entries)
    entities = sorted(exported.last.keys() | exported.last_drafts.keys())
    numbers = {
        "p_entities": entities,
        "p_numbers": [exported.last.get(entity, 0) for entity in entities],
        "p_counts": [kept[entity] for entity in entities],
        "p_last_drafts": [exported.last_drafts.get(entity, 0) for entity in entities],
        "p_tables": json.dumps(dict(exported.tables)),
    }
    its_own = exported.id == address.id
    restore = (
        sql_conversations.continue_counters if its_own else sql_conversations.restore_counters
    )
    connection.execute(restore, values | numbers)
    for start in range(0, len(exported.entries), _PAGE):
        page = exported.entries[start : start + _PAGE]
        arrays = {
            "p_entities": [entry.ref.entity for entry in page],
            "p_numbers": [entry.ref.number for entry in page],
            "p_keys": [encode(entry.key) for entry in page],
            "p_gones": [entry.gone for entry in page],
            "p_labels": [entry.label for entry in page],
        }
        connection.execute(sql_conversations.restore_mappings, values | arrays)
    for start in range(0, len(exported.drafts), PAGE):
        page_of_drafts = _arrays_of(exported.drafts[start : start + PAGE])
        connection.execute(sql_conversations.restore_drafts, values | page_of_drafts)


def _arrays_of(drafts: Sequence[DraftEntry]) -> dict[str, Any]:
    return {
        "p_entities": [draft.ref.entity for draft in drafts],
        "p_numbers": [draft.ref.number for draft in drafts],
        "p_turns": [draft.turn for draft in drafts],
        "p_edits": [draft.edited for draft in drafts],
        "p_versions": [draft.version for draft in drafts],
        "p_states": [draft.state for draft in drafts],
        "p_contents": [draft.content for draft in drafts],
        "p_labels": [draft.label for draft in drafts],
        "p_keys": [None if draft.key is None else encode(draft.key) for draft in drafts],
    }


def _listed(unused_for: timedelta | None, owner: str | EllipsisType | None) -> dict[str, Any]:
    """Return the parameters that say which conversations are listed."""
    of_any = owner is ...
    whose = None if of_any else owner
    return {"p_unused_for": unused_for, "p_of_any": of_any, "p_owner": whose}


def _info(row: Row[Any]) -> ConversationInfo:
    refs = sorted(zip(row.entities or (), row.counts or (), strict=True))
    return ConversationInfo(row.id, row.owner, row.turn, row.begun_at, row.used_at, dict(refs))


def _stats(connection: Connection) -> RegistryStats:
    tables = {"p_relations": list(metadata.tables)}
    in_tables, in_indexes = connection.execute(sql_conversations.room, tables).one()
    return RegistryStats(
        conversations=connection.scalar(sql_conversations.count_conversations) or 0,
        refs={
            entity: count
            for entity, count in sorted(connection.execute(sql_conversations.count_refs))
            if count
        },
        gone=connection.scalar(sql_conversations.count_gone) or 0,
        left_counters=connection.scalar(sql_conversations.count_left) or 0,
        drafts={
            row.state: row.drafts for row in connection.execute(sql_conversations.count_drafts)
        },
        table_bytes=in_tables,
        index_bytes=in_indexes,
    )
