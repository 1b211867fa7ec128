"""Whole conversations in PostgreSQL: made, left, listed and counted.

What is done here is rare, and takes a few round trips. It is a part of `PostgresStore`, which
runs it on connections of its own.
"""

from __future__ import annotations

import json
import uuid
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
from alfred_refs.mapping.keys import EntityKey, decode, encode
from alfred_refs.mapping.refs import Ref

from . import sql_activity, sql_conversations as sql, sql_drafts, sql_refs
from .activity import StepEntry
from .connections import UNIQUE_VIOLATION, Sending, only_mine, snapshot, transaction
from .postgres_activity import all_activity, arrays_of_activity
from .postgres_drafts import PAGE, Fetch, arrays_of_drafts, listed
from .sql_parameters import named
from .tables import metadata
from .values import (
    Address,
    ConversationInfo,
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

_FORKED = (
    sql.fork_counters,
    sql.fork_mappings,
    sql.fork_drafts,
    sql.fork_activity,
    sql.fork_steps,
)
_FORGOTTEN = (
    sql.forget_mappings,
    sql.forget_drafts,
    sql.forget_activity,
    sql.forget_steps,
    sql.leave_counters,
)
_PRUNED = (
    sql.prune_mappings,
    sql.prune_drafts,
    sql.prune_activity,
    sql.prune_steps,
    sql.leave_pruned,
    sql.prune_conversations,
)
_ERASED = (sql.erase_label, sql.erase_draft, sql.prune_activity, sql.prune_steps)

_T = TypeVar("_T")


class PostgresConversations(Sending):
    """The part of `PostgresStore` that is about conversations as a whole."""

    def entities(self, address: Address) -> Mapping[str, int]:
        rows = only_mine(self._rows(sql_refs.entities, address), address)
        return {row.entity: row.last for row in rows if row.entity is not None}

    def fork(self, address: Address, new_id: str) -> None:
        new = Address(new_id, address.owner)
        values = named(address) | {"p_id": new_id, "p_new": new.digest}

        def copy(connection: Connection) -> bool:
            with transaction(connection):
                found = connection.execute(sql_refs.lock_begun, values).one_or_none()
                if found is not None:
                    connection.execute(sql.fork_conversation, values)
                    taken = connection.scalar(sql.kinds_taken, values)
                    for statement in _FORKED:
                        connection.execute(statement, values | {"p_taken": taken})
                    connection.execute(sql.touch, values)
            return found is not None

        if not self._make(new_id, copy):
            raise UnknownConversationError(address.id)

    def forget(self, address: Address) -> None:
        values = named(address)

        def forget(connection: Connection) -> bool:
            with transaction(connection):
                found = connection.execute(sql.forget_conversation, values).one_or_none()
                if found is not None:
                    for statement in _FORGOTTEN:
                        connection.execute(statement, values)
            return found is not None

        # not tried again when the connection is lost: it may be forgotten
        if not self._own.run(forget, again=False):
            raise UnknownConversationError(address.id)

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        values = {"p_unused_for": unused_for, "p_limit": batch}
        yield from self._pruned(sql.choose_unused, _PRUNED, values)
        for _ in self._pruned(sql.choose_left, [sql.prune_counters], values):
            pass

    def erase(self, key: EntityKey, table: str | None, batch: int) -> Iterator[int]:
        row = {"p_entity": key[0], "p_key": encode(key[1]), "p_table": table}
        return self._pruned(sql.choose_knowing, _ERASED, row | {"p_limit": batch})

    def _pruned(
        self, choose: Executable, remove: Sequence[Executable], values: Mapping[str, Any]
    ) -> Iterator[int]:
        """Work off one batch after the other, in order of digests; yield how large each was."""
        after = _FIRST

        def step(connection: Connection) -> Sequence[uuid.UUID]:
            with transaction(connection):
                chosen = connection.scalars(choose, {**values, "p_after": after}).all()
                for statement in remove if chosen else ():
                    connection.execute(statement, {**values, "p_chosen": chosen})
                return chosen

        while chosen := self._own.run(step):
            yield len(chosen)
            after = chosen[-1]

    def entries(self, address: Address, entity: str | None = None) -> Iterator[Entry]:
        entities = self.entities(address)
        for name in sorted(entities) if entity is None else [entity]:
            yield from _entries(self._alone, address, name)

    def export(self, address: Address) -> Exported:
        def read(connection: Connection) -> Exported | None:
            with snapshot(connection):
                return _read(connection, address)

        exported = self._own.run(read)
        if exported is None:
            raise UnknownConversationError(address.id)
        return exported

    def restore(self, address: Address, exported: Exported) -> None:
        def write(connection: Connection) -> None:
            with transaction(connection):
                _write(connection, address, exported)

        self._make(address.id, write)

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        rows = self._alone(sql.describe, named(Address(id)))
        if not rows:
            raise UnknownConversationError(id)
        return _info(rows[0])

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
    ) -> Iterator[ConversationInfo]:
        values = _listed(unused_for, owner) | {"p_limit": limit}
        found = self._alone(sql.choose_last_used, values)
        for start in range(0, len(found), _PAGE):
            chosen = [row.conversation for row in found[start : start + _PAGE]]
            values = {"p_chosen": chosen, "p_owner": None}
            rows = self._alone(sql.page_of_conversations, values)
            by_digest = {row.conversation: row for row in rows}
            yield from (_info(by_digest[each]) for each in chosen if each in by_digest)

    def count_conversations(
        self, unused_for: timedelta | None = None, owner: str | EllipsisType | None = ...
    ) -> int:
        [[number]] = self._alone(sql.count_listed, _listed(unused_for, owner))
        return int(number)

    def stats(self) -> RegistryStats:
        def count(connection: Connection) -> RegistryStats:
            with snapshot(connection):
                refs = connection.execute(sql.count_refs)
                drafts = connection.execute(sql.count_drafts)
                tables = {"p_relations": list(metadata.tables)}
                in_tables, in_indexes = connection.execute(sql.room, tables).one()
                return RegistryStats(
                    conversations=connection.scalar(sql.count_conversations) or 0,
                    refs={entity: count for entity, count in sorted(refs) if count},
                    gone=connection.scalar(sql.count_gone) or 0,
                    left_counters=connection.scalar(sql.count_left) or 0,
                    drafts={row.state: row.drafts for row in drafts},
                    table_bytes=in_tables,
                    index_bytes=in_indexes,
                )

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


def _read(connection: Connection, address: Address) -> Exported | None:
    def fetch(statement: Executable, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
        return connection.execute(statement, values).all()

    rows = fetch(sql.describe, named(address))
    if not rows or not rows[0].mine:
        return None
    counters = fetch(sql.last_numbers, named(address))
    last = {row.entity: row.last for row in counters if row.last}
    entries = [entry for name in sorted(last) for entry in _entries(fetch, address, name)]
    return Exported(
        *(address.id, address.owner, rows[0].turn, rows[0].begun_at, last, entries),
        {row.entity: row.drafts for row in counters if row.drafts},
        [replace(draft, row=None) for draft in listed(fetch, address, None, _STATES)],
        {row.entity: row.table_name for row in counters if row.table_name is not None},
        list(all_activity(fetch, address)),
        [
            StepEntry(row.turn, row.number, row.content)
            for row in fetch(sql_activity.all_steps, named(address))
        ],
    )


def _entries(fetch: Fetch, address: Address, entity: str) -> Iterator[Entry]:
    """Yield the entries of an entity page by page, in the order of their numbers."""
    values = named(address) | {"p_entity": entity, "p_limit": _PAGE}
    number: int | None = 0
    while number is not None:
        rows = fetch(sql.page_of_entries, values | {"p_number": number})
        yield from (
            Entry(Ref(entity, row.number), decode(row.key), row.gone, row.label) for row in rows
        )
        number = rows[-1].number if len(rows) == _PAGE else None


def _write(connection: Connection, address: Address, exported: Exported) -> None:
    values = named(address) | {"p_turn": exported.turn, "p_begun_at": exported.begun_at}
    connection.execute(sql.restore_conversation, values)
    kept = Counter(entry.ref.entity for entry in exported.entries)
    entities = sorted(exported.last.keys() | exported.last_drafts.keys())
    numbers = {
        "p_entities": entities,
        "p_numbers": [exported.last.get(entity, 0) for entity in entities],
        "p_counts": [kept[entity] for entity in entities],
        "p_last_drafts": [exported.last_drafts.get(entity, 0) for entity in entities],
        "p_tables": json.dumps(dict(exported.tables)),
    }
    is_again = exported.id == address.id
    restore = sql.continue_counters if is_again else sql.restore_counters
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
        connection.execute(sql.restore_mappings, values | arrays)
    for start in range(0, len(exported.drafts), PAGE):
        page_of_drafts = arrays_of_drafts(exported.drafts[start : start + PAGE])
        connection.execute(sql_drafts.restore_drafts, values | page_of_drafts)
    for start in range(0, len(exported.activity), PAGE):
        page_of_activity = arrays_of_activity(exported.activity[start : start + PAGE])
        connection.execute(sql_activity.restore_activity, values | page_of_activity)
    if exported.steps:
        of_steps = {
            "p_turns": [step.turn for step in exported.steps],
            "p_numbers": [step.number for step in exported.steps],
            "p_contents": [step.content for step in exported.steps],
        }
        connection.execute(sql_activity.restore_steps, values | of_steps)


def _listed(unused_for: timedelta | None, owner: str | EllipsisType | None) -> dict[str, Any]:
    """Return the parameters that say which conversations are listed."""
    of_any = owner is ...
    whose = None if of_any else owner
    return {"p_unused_for": unused_for, "p_of_any": of_any, "p_owner": whose}


def _info(row: Row[Any]) -> ConversationInfo:
    refs = sorted(zip(row.entities or (), row.counts or (), strict=True))
    return ConversationInfo(row.id, row.owner, row.turn, row.begun_at, row.used_at, dict(refs))
