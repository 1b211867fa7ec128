"""The PostgreSQL store: a durable map of refs and keys, shared by all processes.

`PostgresStore` is a `Store` in the database of an engine. Two processes with a store on the same
database see the same refs:

>>> one, another = PostgresStore(engine), PostgresStore(engine)
>>> address = Address("chat-8")
>>> [entry] = one.refer(address, [("recipe", 4711)])
>>> another.resolve(address, [entry.ref]) == {entry.ref: entry}
True
>>> one.fork(address, "chat-9")
>>> [str(entry.ref) for entry in another.entries(Address("chat-9"))]
['recipe_1']

The class has these parts, each with the SQL of its methods next to them:

- `connections.PostgresConnections` executes statements, in one round trip where it can;
- `postgres_refs.PostgresRefs` mints and resolves refs;
- `postgres_drafts.PostgresDrafts` stores drafts, `postgres_activity.PostgresActivity` activity,
  and `postgres_calls.PostgresCalls` calls of tools;
- this module has the tables, the operations on whole conversations (fork, forget, prune, erase,
  export, restore) and the queries of operators.

The statements of fork, forget and prune are generated from `schema.metadata`, so that a new table
is included. Operations on whole conversations are rare, and take a few round trips in one
transaction.

Limits: PostgreSQL only, by psycopg, psycopg2 or asyncpg. Nothing is deleted automatically: the
application runs `prune`.
"""

from __future__ import annotations

import json
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, islice
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from sqlalchemy import Connection, Engine, Executable, Table, inspect, select

from alfred_refs.errors import (
    ConversationExistsError,
    RegistryFailedError,
    SetupError,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import EntityKey, Ref, decode, encode
from alfred_refs.store import schema
from alfred_refs.store.connections import TIMEOUT, UNIQUE_VIOLATION, reading, snapshot, transaction
from alfred_refs.store.postgres_activity import PostgresActivity
from alfred_refs.store.postgres_calls import PostgresCalls, change_parameters
from alfred_refs.store.postgres_drafts import PAGE, Fetch, PostgresDrafts
from alfred_refs.store.sql import (
    HIGHEST_KIND,
    KIND,
    MINE,
    OF_ROW,
    address_parameters,
    filter_parameters,
    typed_text,
)
from alfred_refs.store.values import (
    Address,
    ConversationInfo,
    DraftState,
    Entry,
    Exported,
    RegistryStats,
)

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Row

_T = TypeVar("_T")

_PAGE = 1000  # refs or conversations of one statement: some hundred kilobytes
_FIRST = uuid.UUID(int=0)
_STATES: Sequence[DraftState] = get_args(DraftState)

# The tables with the contents of conversations.
_CONTENTS = [
    table
    for table in schema.metadata.tables.values()
    if table not in (schema.conversations, schema.counters)
]

_OF_ONE = "conversation = :p_conversation"
_OF_CHOSEN = "conversation = ANY (:p_chosen)"


def _copy_rows(table: Table) -> Executable:
    """Return the statement that copies a conversation's rows of a table, all columns."""
    copied = {column.name: column.name for column in table.columns}
    copied["conversation"] = ":p_new"
    if "kind" in copied:
        copied["kind"] = "CAST(kind + :p_taken AS smallint)"
    if table is schema.drafts:
        # A pending draft is saved in each of the two conversations as a row of its own, and the
        # reserved key is the source's.
        copied["key"] = "CASE WHEN state = 'saved' THEN key END"
    return typed_text(f"""
        INSERT INTO {table.name} ({", ".join(copied)})
        SELECT {", ".join(copied.values())}
        FROM {table.name}
        WHERE conversation = :p_conversation
    """)


def _delete_rows(table: Table, condition: str) -> Executable:
    return typed_text(f"DELETE FROM {table.name} WHERE {condition}")


def _leave_counters(condition: str) -> Executable:
    """Return the UPDATE that keeps the counters of conversations that are being forgotten.

    It removes the table's name, because a new conversation with the same id may use other tables.
    """
    return typed_text(f"""
        UPDATE alfred_refs_counter SET forgotten = last, left_at = now(), table_name = NULL
        WHERE {condition}
    """)


_UNUSED_FOR = "CAST(:p_unused_for AS interval)"  # the CAST gives null a type

# Counters that a forgotten conversation left behind. One whose conversation was begun again stays;
# minting resets its `left_at`.
_LEFT = (
    "left_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM alfred_refs_conversation AS conversations"
    " WHERE conversations.conversation = counters.conversation)"
)
_LEFT_LONG_AGO = f"left_at <= now() - {_UNUSED_FOR} AND {_LEFT}"

# Conversations with the numbers of their refs, from the counters of one or of each.
_INFO = """
    SELECT
        conversation, id, owner, turn, begun_at, used_at,
        owner IS NOT DISTINCT FROM :p_owner AS mine, refs.entities, refs.counts
    FROM alfred_refs_conversation AS conversations
    CROSS JOIN LATERAL (
        SELECT array_agg(entity) AS entities, array_agg(last - forgotten) AS counts
        FROM alfred_refs_counter
        WHERE conversation = {} AND last - forgotten > 0
    ) AS refs
    WHERE conversation = {}
"""
_INFO_COLUMNS = "conversation id owner turn begun_at used_at mine entities counts"

_LISTED = (
    f"({_UNUSED_FOR} IS NULL OR used_at <= now() - {_UNUSED_FOR})"
    " AND (:p_of_any OR owner IS NOT DISTINCT FROM :p_owner)"
)

_COUNTERS_OF_EXPORT = f"""
    INSERT INTO alfred_refs_counter AS counters
        (conversation, entity, last, forgotten, kind, drafts, table_name)
    SELECT
        :p_conversation, entity, last, last - kept,
        CAST({HIGHEST_KIND} + row_number() OVER (ORDER BY entity) AS smallint),
        drafts, CAST(:p_tables AS jsonb) ->> entity
    FROM unnest(:p_entities, :p_numbers, :p_counts, :p_last_drafts)
        AS numbered (entity, last, kept, drafts)
"""


class PostgresStore(PostgresDrafts, PostgresActivity, PostgresCalls):
    """A `Store` in the database of an engine; its methods do what `Store` documents.

    Args:
        engine: the application's engine, or any other on the database of the registry.
        timeout: seconds to wait for a connection or a lock, as for `RefRegistry`.

    Raises:
        SetupError: the timeout is not positive.

    Example:
        >>> registry = RefRegistry(store=PostgresStore(engine))
        >>> registry.conversation("chat-7").resolve("recipe_1") == chat.resolve("recipe_1")
        True
    """

    def __init__(self, engine: Engine, *, timeout: float = TIMEOUT) -> None:
        if timeout <= 0:
            raise SetupError(f"a timeout of {timeout!r} seconds", "give a positive number")
        super().__init__(engine, timeout)
        if not self.is_async:  # only a coroutine could close connections of an asynchronous engine
            weakref.finalize(self, self._own.release).atexit = False

    @property
    def is_async(self) -> bool:
        """Whether the engine is asynchronous."""
        return self._own.is_async

    # Tables

    @property
    def metadata(self) -> MetaData:
        """The tables, for an application's own Alembic environment."""
        return schema.metadata

    # Processes that start together create the tables one after the other. The number is the
    # package's among the advisory locks of the database.
    _LOCK_TABLES = typed_text(f"SELECT pg_advisory_xact_lock({int.from_bytes(b'alf_refs')})")

    def create_tables(self) -> None:
        """Create missing tables; `alfred-refs migrate` applies later changes."""

        def create(connection: Connection) -> None:
            with transaction(connection):
                connection.execute(self._LOCK_TABLES)
                if not inspect(connection).has_table(schema.conversations.name):
                    schema.metadata.create_all(connection)
                    schema.stamp_newest(connection)

        self._own.run(create)
        self.check_tables()

    def check_tables(self) -> None:
        """Raise `RegistryTablesError` for tables of an older version, which lacks columns."""

        def check(connection: Connection) -> None:
            with reading(connection):
                for table in schema.metadata.tables.values():
                    connection.execute(select(table).limit(0))

        self._own.run(check)

    # Fork. While the row of the source is locked, nothing is minted or marked in it, so counters
    # and mappings are of one moment. Counters that an earlier conversation of the new id left
    # behind keep their kinds; the copied ones follow them.

    _FORK_CONVERSATION = typed_text("""
        INSERT INTO alfred_refs_conversation (conversation, id, owner, turn)
        SELECT :p_new, :p_id, owner, turn
        FROM alfred_refs_conversation
        WHERE conversation = :p_conversation
    """)
    _KINDS_TAKEN = typed_text("""
        SELECT coalesce(max(kind), 0) FROM alfred_refs_counter WHERE conversation = :p_new
    """)
    _FORK: ClassVar = {
        table.name: _copy_rows(table)
        for table in (schema.counters, *_CONTENTS)
        if table not in (schema.calls, schema.changes)
    }

    def fork(self, address: Address, new_id: str) -> None:
        new = Address(new_id, address.owner)
        values = address_parameters(address) | {"p_id": new_id, "p_new": new.digest}

        def copy(connection: Connection) -> bool:
            with transaction(connection):
                locked = connection.execute(self._LOCK_BEGUN, values).one_or_none()
                if locked is not None:
                    connection.execute(self._FORK_CONVERSATION, values)
                    taken = connection.scalar(self._KINDS_TAKEN, values)
                    for statement in self._FORK.values():
                        connection.execute(statement, values | {"p_taken": taken})
                    connection.execute(self._TOUCH, values)
            return locked is not None

        if not self._begin(new_id, copy):
            raise UnknownConversationError(address.id)

    def _begin(self, id_: str, work: Callable[[Connection], _T]) -> _T:
        """Call `work`, which inserts a conversation; raise if its id is taken."""
        try:
            return self._own.run(work, idempotent=False)
        except RegistryFailedError as error:
            if error.sqlstate == UNIQUE_VIOLATION:
                raise ConversationExistsError(id_) from None
            raise

    # Forget. The conversation's row is deleted first: a caller who mints meanwhile waits for it,
    # then begins the conversation again, with the counters that are left behind. Transactions that
    # have added calls to it are waited for, so that none of these calls is left.

    _FORGET_CONVERSATION = typed_text("""
        DELETE FROM alfred_refs_conversation
        WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
        RETURNING 1
    """)
    _FORGET: ClassVar = {table.name: _delete_rows(table, _OF_ONE) for table in _CONTENTS}
    _LEAVE_COUNTERS = _leave_counters(_OF_ONE)

    def forget(self, address: Address) -> None:
        values = address_parameters(address)

        def forget(connection: Connection) -> bool:
            with transaction(connection):
                deleted = connection.execute(self._FORGET_CONVERSATION, values).one_or_none()
                if deleted is not None:
                    for statement in (*self._FORGET.values(), self._LEAVE_COUNTERS):
                        connection.execute(statement, values)
            return deleted is not None

        if not self._own.run(forget, idempotent=False):
            raise UnknownConversationError(address.id)

    # Prune. The lock checks the age again. A row that is locked is in use, or being pruned.

    _CHOOSE_UNUSED = typed_text(
        f"""
        SELECT conversation FROM alfred_refs_conversation
        WHERE conversation > :p_after AND used_at <= now() - {_UNUSED_FOR}
        ORDER BY conversation
        LIMIT :p_limit
        FOR UPDATE SKIP LOCKED
        """,
        "conversation",
    )
    _PRUNE: ClassVar = {table.name: _delete_rows(table, _OF_CHOSEN) for table in _CONTENTS}
    _LEAVE_PRUNED = _leave_counters(_OF_CHOSEN)
    _PRUNE_CONVERSATIONS = _delete_rows(schema.conversations, _OF_CHOSEN)
    _CHOOSE_LEFT = typed_text(
        f"""
        SELECT conversation FROM alfred_refs_counter AS counters
        WHERE conversation > :p_after AND {_LEFT_LONG_AGO}
        ORDER BY conversation
        LIMIT :p_limit
        """,
        "conversation",
    )
    _PRUNE_COUNTERS = typed_text(f"""
        DELETE FROM alfred_refs_counter AS counters
        WHERE conversation = ANY (:p_chosen) AND {_LEFT_LONG_AGO}
    """)

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        values = {"p_unused_for": unused_for, "p_limit": batch}
        forget = [*self._PRUNE.values(), self._LEAVE_PRUNED, self._PRUNE_CONVERSATIONS]
        yield from self._in_batches(self._CHOOSE_UNUSED, forget, values)
        for _ in self._in_batches(self._CHOOSE_LEFT, [self._PRUNE_COUNTERS], values):
            pass

    def _in_batches(
        self, choose: Executable, change: Sequence[Executable], values: Mapping[str, Any]
    ) -> Iterator[int]:
        """Choose and change conversations in order of digests; yield the size of each batch."""
        after = _FIRST

        def step(connection: Connection) -> Sequence[uuid.UUID]:
            with transaction(connection):
                chosen = connection.scalars(choose, {**values, "p_after": after}).all()
                for statement in change if chosen else ():
                    connection.execute(statement, {**values, "p_chosen": chosen})
                return chosen

        while chosen := self._own.run(step):
            yield len(chosen)
            after = chosen[-1]

    # Erase a row. Rows are locked in the order of digests, and nobody who holds the lock of one
    # conversation waits for another's.

    _CHOOSE_KNOWING = typed_text(
        f"""
        SELECT conversation FROM alfred_refs_conversation AS conversations
        WHERE conversation > :p_after AND EXISTS (
            SELECT FROM alfred_refs_counter AS counters, (
                SELECT conversation, kind, key FROM alfred_refs_mapping
                UNION ALL SELECT conversation, kind, key FROM alfred_refs_draft
            ) AS known
            WHERE counters.conversation = conversations.conversation AND {OF_ROW}
        )
        ORDER BY conversation
        LIMIT :p_limit
        FOR UPDATE OF conversations
        """,
        "conversation",
    )
    _ERASE_LABEL = typed_text(f"""
        UPDATE alfred_refs_mapping AS known SET label = NULL
        FROM alfred_refs_counter AS counters
        WHERE known.conversation = ANY (:p_chosen) AND label IS NOT NULL AND {OF_ROW}
    """)
    _ERASE_DRAFT = typed_text(f"""
        UPDATE alfred_refs_draft AS known SET label = NULL, content = '{{}}'
        FROM alfred_refs_counter AS counters
        WHERE known.conversation = ANY (:p_chosen) AND state = 'saved' AND {OF_ROW}
    """)

    def erase(self, key: EntityKey, table: str | None, batch: int) -> Iterator[int]:
        row = {"p_entity": key[0], "p_key": encode(key[1]), "p_table": table}
        shown = [self._PRUNE[table.name] for table in (schema.activity, schema.steps)]
        change = [self._ERASE_CALLS, self._ERASE_LABEL, self._ERASE_DRAFT, *shown]
        return self._in_batches(self._CHOOSE_KNOWING, change, row | {"p_limit": batch})

    # Export

    _PAGE_OF_ENTRIES = typed_text(
        f"""
        SELECT number, key, gone, label FROM alfred_refs_mapping
        WHERE conversation = :p_conversation AND kind = {KIND} AND number > :p_number AND {MINE}
        ORDER BY number
        LIMIT :p_limit
        """,
        "number key gone label",
    )

    def entries(
        self,
        address: Address,
        entity: str | None = None,
        after: Ref | None = None,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        page = _PAGE if limit is None else min(limit, _PAGE)
        first = after or Ref("", 0)
        entities = self.entities(address)
        pages = (
            self._entry_pages(
                self._read,
                address,
                name,
                after=first.number if name == first.entity else 0,
                page=page,
            )
            for name in (sorted(entities) if entity is None else [entity])
            if name >= first.entity
        )
        return islice(chain.from_iterable(pages), limit)

    def _entry_pages(
        self, fetch: Fetch, address: Address, entity: str, *, after: int = 0, page: int = _PAGE
    ) -> Iterator[Entry]:
        """Yield the entries of an entity page by page, in the order of their numbers."""
        values = address_parameters(address) | {"p_entity": entity, "p_limit": page}
        number: int | None = after
        while number is not None:
            rows = fetch(self._PAGE_OF_ENTRIES, values | {"p_number": number})
            for row in rows:
                yield Entry(Ref(entity, row.number), decode(row.key), row.gone, row.label)
            number = rows[-1].number if len(rows) == page else None

    _LAST_NUMBERS = typed_text("""
        SELECT entity, last, drafts, table_name FROM alfred_refs_counter
        WHERE conversation = :p_conversation
        ORDER BY entity
    """)

    def export(self, address: Address) -> Exported:
        def read(connection: Connection) -> Exported | None:
            with snapshot(connection):
                return self._read_export(
                    lambda statement, values: connection.execute(statement, values).all(), address
                )

        exported = self._own.run(read)
        if exported is None:
            raise UnknownConversationError(address.id)
        return exported

    def _read_export(self, fetch: Fetch, address: Address) -> Exported | None:
        infos = fetch(self._DESCRIBE, address_parameters(address))
        if not infos or not infos[0].mine:
            return None
        counters = fetch(self._LAST_NUMBERS, address_parameters(address))
        last = {row.entity: row.last for row in counters if row.last}
        drafts = self._draft_pages(fetch, address, None, _STATES)
        calls = list(self._call_pages(fetch, address))
        return Exported(
            id=address.id,
            owner=address.owner,
            turn=infos[0].turn,
            begun_at=infos[0].begun_at,
            last=last,
            entries=[e for name in sorted(last) for e in self._entry_pages(fetch, address, name)],
            last_drafts={row.entity: row.drafts for row in counters if row.drafts},
            drafts=[replace(draft, row=None) for draft in drafts],
            tables={row.entity: row.table_name for row in counters if row.table_name is not None},
            activity=list(self._activity_pages(fetch, address)),
            steps=self._all_steps(fetch, address),
            calls=[call for page, _ in calls for call in page],
            changes=[change for _, page in calls for change in page],
        )

    # Restore

    _RESTORE_CONVERSATION = typed_text("""
        INSERT INTO alfred_refs_conversation (conversation, id, owner, turn, begun_at)
        VALUES (:p_conversation, :p_id, :p_owner, :p_turn, :p_begun_at)
    """)
    _RESTORE_COUNTERS = typed_text(_COUNTERS_OF_EXPORT)

    # Of the same id: numbers that were assigned since the export are not assigned again.
    _CONTINUE_COUNTERS = typed_text(f"""
        {_COUNTERS_OF_EXPORT}
        ON CONFLICT (conversation, entity) DO UPDATE SET
            last = greatest(counters.last, excluded.last),
            forgotten
                = greatest(counters.last, excluded.last) - excluded.last + excluded.forgotten,
            drafts = greatest(counters.drafts, excluded.drafts),
            left_at = NULL,
            table_name = excluded.table_name
    """)
    _RESTORE_MAPPINGS = typed_text("""
        INSERT INTO alfred_refs_mapping (conversation, kind, number, key, gone, label)
        SELECT :p_conversation, counters.kind, new.number, new.key, new.gone, new.label
        FROM unnest(:p_entities, :p_numbers, :p_keys, :p_gones, :p_labels)
            AS new (entity, number, key, gone, label)
        JOIN alfred_refs_counter AS counters
            ON counters.conversation = :p_conversation AND counters.entity = new.entity
    """)

    def restore(self, address: Address, exported: Exported) -> None:
        def write(connection: Connection) -> None:
            with transaction(connection):
                self._write_export(connection, address, exported)

        self._begin(address.id, write)

    def _write_export(self, connection: Connection, address: Address, exported: Exported) -> None:
        own = address_parameters(address)
        conversation = {"p_turn": exported.turn, "p_begun_at": exported.begun_at}
        connection.execute(self._RESTORE_CONVERSATION, own | conversation)
        is_same = exported.id == address.id
        restore_counters = self._CONTINUE_COUNTERS if is_same else self._RESTORE_COUNTERS
        connection.execute(restore_counters, own | _counter_parameters(exported))
        for entries in _pages(exported.entries, _PAGE):
            connection.execute(self._RESTORE_MAPPINGS, own | _entry_parameters(entries))
        for drafts in _pages(exported.drafts, PAGE):
            connection.execute(self._RESTORE_DRAFTS, own | self._draft_parameters(drafts))
        for activity in _pages(exported.activity, PAGE):
            connection.execute(self._RESTORE_ACTIVITY, own | self._activity_parameters(activity))
        if exported.steps:
            connection.execute(self._RESTORE_STEPS, own | self._step_parameters(exported.steps))
        if exported.calls:
            calls = [own | self._call_parameters(call) for call in exported.calls]
            connection.execute(self._RESTORE_CALL, calls)
        for changes in _pages(exported.changes, _PAGE):
            connection.execute(self._RESTORE_CHANGES, own | change_parameters(changes))

    # For operators

    _DESCRIBE = typed_text(_INFO.format(":p_conversation", ":p_conversation"), _INFO_COLUMNS)

    def describe(self, id: str) -> ConversationInfo:  # noqa: A002  # as everyone calls it
        rows = self._read(self._DESCRIBE, address_parameters(Address(id)))
        if not rows:
            raise UnknownConversationError(id)
        return _info(rows[0])

    # The digests of all that are listed are read at once, the infos page by page: the order by
    # `used_at` changes while conversations are used. It has no index: each mint changes it, and
    # would write to all indexes of the row, to save milliseconds (`benchmarks/inspecting.py`).
    _CHOOSE_LAST_USED = typed_text(
        f"""
        SELECT conversation FROM alfred_refs_conversation
        WHERE {_LISTED}
            AND (:p_search IS NULL OR strpos(lower(id), lower(:p_search)) > 0)
            AND (:p_used_at IS NULL OR (used_at, conversation) < (:p_used_at, :p_after))
        ORDER BY used_at DESC, conversation DESC
        LIMIT :p_limit
        """,
        "conversation",
    )
    _PAGE_OF_CONVERSATIONS = typed_text(
        _INFO.format("conversations.conversation", "ANY (:p_chosen)"), _INFO_COLUMNS
    )

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
        *,
        search: str | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> Iterator[ConversationInfo]:
        used_at, id_ = after or (None, None)
        values = filter_parameters(owner) | {
            "p_unused_for": unused_for,
            "p_limit": limit,
            "p_search": search,
            "p_used_at": used_at,
            "p_after": None if id_ is None else Address(id_).digest,
        }
        for page in _pages(self._read(self._CHOOSE_LAST_USED, values), _PAGE):
            chosen = [row.conversation for row in page]
            rows = self._read(self._PAGE_OF_CONVERSATIONS, {"p_chosen": chosen, "p_owner": None})
            by_digest = {row.conversation: row for row in rows}
            yield from (_info(by_digest[each]) for each in chosen if each in by_digest)

    _COUNT_LISTED = typed_text(f"SELECT count(*) FROM alfred_refs_conversation WHERE {_LISTED}")

    def count_conversations(
        self, unused_for: timedelta | None = None, owner: str | EllipsisType | None = ...
    ) -> int:
        values = filter_parameters(owner) | {"p_unused_for": unused_for}
        [[number]] = self._read(self._COUNT_LISTED, values)
        return int(number)

    _COUNT_CONVERSATIONS = typed_text("SELECT count(*) FROM alfred_refs_conversation")
    _COUNT_REFS = typed_text("""
        SELECT entity, CAST(sum(last - forgotten) AS bigint)
        FROM alfred_refs_counter
        GROUP BY entity
    """)
    _COUNT_GONE = typed_text("SELECT count(*) FROM alfred_refs_mapping WHERE gone IS NOT NULL")
    _COUNT_LEFT = typed_text(f"SELECT count(*) FROM alfred_refs_counter AS counters WHERE {_LEFT}")
    _COUNT_DRAFTS = typed_text("""
        SELECT state, count(*) AS drafts FROM alfred_refs_draft GROUP BY state ORDER BY state
    """)
    # the size of a partitioned table is the size of its partitions
    _SIZES = typed_text("""
        SELECT CAST(sum(pg_table_size(part)) AS bigint), CAST(sum(pg_indexes_size(part)) AS bigint)
        FROM unnest(CAST(:p_relations AS regclass[])) AS whole
        CROSS JOIN LATERAL (
            SELECT whole AS part UNION SELECT relid FROM pg_partition_tree(whole)
        ) AS parts
    """)

    def stats(self) -> RegistryStats:
        def count(connection: Connection) -> RegistryStats:
            with snapshot(connection):
                refs = connection.execute(self._COUNT_REFS)
                drafts = connection.execute(self._COUNT_DRAFTS)
                tables = {"p_relations": list(schema.metadata.tables)}
                table_bytes, index_bytes = connection.execute(self._SIZES, tables).one()
                return RegistryStats(
                    conversations=connection.scalar(self._COUNT_CONVERSATIONS) or 0,
                    refs={entity: count for entity, count in sorted(refs) if count},
                    gone=connection.scalar(self._COUNT_GONE) or 0,
                    left_counters=connection.scalar(self._COUNT_LEFT) or 0,
                    drafts={row.state: row.drafts for row in drafts},
                    table_bytes=table_bytes,
                    index_bytes=index_bytes,
                )

        return self._own.run(count)


def _pages(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _counter_parameters(exported: Exported) -> dict[str, Any]:
    """Return the parameters of `_RESTORE_COUNTERS`."""
    kept = Counter(entry.ref.entity for entry in exported.entries)
    entities = sorted(exported.last.keys() | exported.last_drafts.keys())
    return {
        "p_entities": entities,
        "p_numbers": [exported.last.get(entity, 0) for entity in entities],
        "p_counts": [kept[entity] for entity in entities],
        "p_last_drafts": [exported.last_drafts.get(entity, 0) for entity in entities],
        "p_tables": json.dumps(dict(exported.tables)),
    }


def _entry_parameters(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the parameters of `_RESTORE_MAPPINGS`."""
    return {
        "p_entities": [entry.ref.entity for entry in entries],
        "p_numbers": [entry.ref.number for entry in entries],
        "p_keys": [encode(entry.key) for entry in entries],
        "p_gones": [entry.gone for entry in entries],
        "p_labels": [entry.label for entry in entries],
    }


def _info(row: Row[Any]) -> ConversationInfo:
    refs = sorted(zip(row.entities or (), row.counts or (), strict=True))
    return ConversationInfo(row.id, row.owner, row.turn, row.begun_at, row.used_at, dict(refs))
