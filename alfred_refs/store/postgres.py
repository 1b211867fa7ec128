"""PostgreSQL store: mint, resolve, fork, export, prune.

The SQL of the Postgres store that is about conversations as a whole.

Parameters are as in `sql_refs`; `p_new` is the digest of a conversation that is made. Statements
that name no conversation are those of `prune`, `conversations` and `stats`, for operators.

Whole conversations in PostgreSQL: made, left, listed and counted.

What is done here is rare, and takes a few round trips. It is a part of `PostgresStore`, which
runs it on connections of its own.

The map in PostgreSQL: durable, shared by all processes, numbered under a row lock.
"""

from __future__ import annotations

import json
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from sqlalchemy import Connection, Engine, Executable, Table, inspect, select

from alfred_refs.errors import (
    ConversationExistsError,
    RegistryBusyError,
    RegistryFailedError,
    RegistryUnreachableError,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import EntityKey, Key, Ref, decode, encode
from alfred_refs.store import postgres_activity, postgres_drafts, sql, sql as sql_refs
from alfred_refs.store.connections import (
    UNIQUE_VIOLATION,
    Sending,
    only_mine,
    snapshot,
    transaction,
)
from alfred_refs.store.postgres_activity import PostgresActivity, all_activity, arrays_of_activity
from alfred_refs.store.postgres_drafts import (
    PAGE,
    Fetch,
    PostgresDrafts,
    arrays_of_drafts,
    draft_pages,
)
from alfred_refs.store.protocol import (
    NO_LABELS,
    NOTED_EVERY,
    Address,
    ConversationInfo,
    DraftState,
    Entry,
    Exported,
    Gone,
    RegistryStats,
    StepEntry,
)
from alfred_refs.store.schema import (
    activity,
    conversations,
    counters,
    drafts,
    mappings,
    metadata,
    steps,
)
from alfred_refs.store.sql import HIGHEST_KIND, KIND, MINE, UNNOTED, address_parameters, typed_text

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Row


# Notes that a conversation is used, unless its row is locked: whoever resolves is not to wait, and
# most who lock it note the same.
TOUCH = typed_text(f"""
    UPDATE alfred_refs_conversation SET used_at = now()
    WHERE conversation = :p_conversation AND conversation = (
        SELECT conversation FROM alfred_refs_conversation
        WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner AND {UNNOTED}
        FOR UPDATE SKIP LOCKED
    )
""")


def _copy_rows(table: Table, **changed: str) -> Executable:
    """Copy a conversation's rows of a table, all columns, to the new one."""
    names = table.columns.keys()
    changed["conversation"] = ":p_new"
    if "kind" in names:
        changed["kind"] = "CAST(kind + :p_taken AS smallint)"
    return typed_text(f"""
        INSERT INTO {table.name} ({", ".join(names)})
        SELECT {", ".join(changed.get(name, name) for name in names)}
        FROM {table.name}
        WHERE conversation = :p_conversation
    """)


# Fork. While the source's row is locked nothing is minted or marked in it, so that the counters
# and the mappings that these statements see are those of one moment. Counters of the new id that
# were left behind keep their kinds: the others come after them.
FORK_CONVERSATION = typed_text("""
    INSERT INTO alfred_refs_conversation (conversation, id, owner, turn)
    SELECT :p_new, :p_id, owner, turn
    FROM alfred_refs_conversation
    WHERE conversation = :p_conversation
""")
KINDS_TAKEN = typed_text("""
    SELECT coalesce(max(kind), 0) FROM alfred_refs_counter WHERE conversation = :p_new
""")
FORK_COUNTERS = _copy_rows(counters)
FORK_MAPPINGS = _copy_rows(mappings)
# A draft that is not saved where the branches part is saved in each as a row of its own: a key
# that is reserved for it is the source's.
FORK_DRAFTS = _copy_rows(drafts, key="CASE WHEN state = 'saved' THEN key END")

FORK_ACTIVITY = _copy_rows(activity)
FORK_STEPS = _copy_rows(steps)

# Forget. The row goes first: who mints meanwhile waits for it, and then begins the conversation
# anew, with the counters that were left. Nothing is of a table any more: whoever begins the
# conversation again says of which.
_LEAVE = (
    "UPDATE alfred_refs_counter SET forgotten = last, left_at = now(), table_name = NULL WHERE"
)
FORGET_CONVERSATION = typed_text("""
    DELETE FROM alfred_refs_conversation
    WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
    RETURNING 1
""")
FORGET_MAPPINGS = typed_text("""
    DELETE FROM alfred_refs_mapping WHERE conversation = :p_conversation
""")
FORGET_DRAFTS = typed_text("DELETE FROM alfred_refs_draft WHERE conversation = :p_conversation")
FORGET_ACTIVITY = typed_text("""
    DELETE FROM alfred_refs_activity WHERE conversation = :p_conversation
""")
FORGET_STEPS = typed_text("DELETE FROM alfred_refs_step WHERE conversation = :p_conversation")
LEAVE_COUNTERS = typed_text(f"{_LEAVE} conversation = :p_conversation")

# Prune. The lock looks at the age again; who is locked by others is in use, or pruned already.
_UNUSED_FOR = "CAST(:p_unused_for AS interval)"  # tells the type of null
CHOOSE_UNUSED = typed_text(
    f"""
    SELECT conversation FROM alfred_refs_conversation
    WHERE conversation > :p_after AND used_at <= now() - {_UNUSED_FOR}
    ORDER BY conversation
    LIMIT :p_limit
    FOR UPDATE SKIP LOCKED
    """,
    "conversation",
)
PRUNE_CONVERSATIONS = typed_text("""
    DELETE FROM alfred_refs_conversation WHERE conversation = ANY (:p_chosen)
""")
PRUNE_MAPPINGS = typed_text("DELETE FROM alfred_refs_mapping WHERE conversation = ANY (:p_chosen)")
PRUNE_DRAFTS = typed_text("DELETE FROM alfred_refs_draft WHERE conversation = ANY (:p_chosen)")
PRUNE_ACTIVITY = typed_text("""
    DELETE FROM alfred_refs_activity WHERE conversation = ANY (:p_chosen)
""")
PRUNE_STEPS = typed_text("DELETE FROM alfred_refs_step WHERE conversation = ANY (:p_chosen)")
LEAVE_PRUNED = typed_text(f"{_LEAVE} conversation = ANY (:p_chosen)")

# Erase a row. Locks are taken in order, and who holds one waits for no second.
_OF_ROW = """
    known.key = :p_key AND known.conversation = counters.conversation
    AND known.kind = counters.kind AND counters.entity = :p_entity
    AND (counters.table_name = :p_table) IS DISTINCT FROM false
"""
CHOOSE_KNOWING = typed_text(
    f"""
    SELECT conversation FROM alfred_refs_conversation AS conversations
    WHERE conversation > :p_after AND EXISTS (
        SELECT FROM alfred_refs_counter AS counters, (
            SELECT conversation, kind, key FROM alfred_refs_mapping
            UNION ALL SELECT conversation, kind, key FROM alfred_refs_draft
        ) AS known
        WHERE counters.conversation = conversations.conversation AND {_OF_ROW}
    )
    ORDER BY conversation
    LIMIT :p_limit
    FOR UPDATE OF conversations
    """,
    "conversation",
)
ERASE_LABEL = typed_text(f"""
    UPDATE alfred_refs_mapping AS known SET label = NULL
    FROM alfred_refs_counter AS counters
    WHERE known.conversation = ANY (:p_chosen) AND label IS NOT NULL AND {_OF_ROW}
""")
ERASE_DRAFT = typed_text(f"""
    UPDATE alfred_refs_draft AS known SET label = NULL, content = '{{}}'
    FROM alfred_refs_counter AS counters
    WHERE known.conversation = ANY (:p_chosen) AND state = 'saved' AND {_OF_ROW}
""")

# A counter whose conversation was begun again stays; the one that is being begun clears `left_at`.
_LEFT = (
    "left_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM alfred_refs_conversation AS conversations"
    " WHERE conversations.conversation = counters.conversation)"
)
_LEFT_LONG = f"left_at <= now() - {_UNUSED_FOR} AND {_LEFT}"
CHOOSE_LEFT = typed_text(
    f"""
    SELECT conversation FROM alfred_refs_counter AS counters
    WHERE conversation > :p_after AND {_LEFT_LONG}
    ORDER BY conversation
    LIMIT :p_limit
    """,
    "conversation",
)
PRUNE_COUNTERS = typed_text(f"""
    DELETE FROM alfred_refs_counter AS counters
    WHERE conversation = ANY (:p_chosen) AND {_LEFT_LONG}
""")

# Read. With the counters of this conversation, or of each.
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
_INFO_NAMES = "conversation id owner turn begun_at used_at mine entities counts"
DESCRIBE = typed_text(_INFO.format(":p_conversation", ":p_conversation"), _INFO_NAMES)
# Which are listed is decided at once, by digests in their order; what is known of each is read
# page by page: no order of pages would hold while conversations are being used.
_LISTED = (
    f"({_UNUSED_FOR} IS NULL OR used_at <= now() - {_UNUSED_FOR})"
    " AND (:p_of_any OR owner IS NOT DISTINCT FROM :p_owner)"
)
CHOOSE_LAST_USED = typed_text(
    f"""
    SELECT conversation FROM alfred_refs_conversation
    WHERE {_LISTED}
    ORDER BY used_at DESC, conversation
    LIMIT :p_limit
    """,
    "conversation",
)
COUNT_LISTED = typed_text(f"SELECT count(*) FROM alfred_refs_conversation WHERE {_LISTED}")
PAGE_OF_CONVERSATIONS = typed_text(
    _INFO.format("conversations.conversation", "ANY (:p_chosen)"), _INFO_NAMES
)
PAGE_OF_ENTRIES = typed_text(
    f"""
    SELECT number, key, gone, label FROM alfred_refs_mapping
    WHERE conversation = :p_conversation AND kind = {KIND} AND number > :p_number AND {MINE}
    ORDER BY number
    LIMIT :p_limit
    """,
    "number key gone label",
)
LAST_NUMBERS = typed_text("""
    SELECT entity, last, drafts, table_name FROM alfred_refs_counter
    WHERE conversation = :p_conversation
    ORDER BY entity
""")

# Restore.
RESTORE_CONVERSATION = typed_text("""
    INSERT INTO alfred_refs_conversation (conversation, id, owner, turn, begun_at)
    VALUES (:p_conversation, :p_id, :p_owner, :p_turn, :p_begun_at)
""")
_RESTORE_COUNTERS = f"""
    INSERT INTO alfred_refs_counter AS counters
        (conversation, entity, last, forgotten, kind, drafts, table_name)
    SELECT
        :p_conversation, entity, last, last - kept,
        CAST({HIGHEST_KIND} + row_number() OVER (ORDER BY entity) AS smallint),
        drafts, CAST(:p_tables AS jsonb) ->> entity
    FROM unnest(:p_entities, :p_numbers, :p_counts, :p_last_drafts)
        AS numbered (entity, last, kept, drafts)
"""
RESTORE_COUNTERS = typed_text(_RESTORE_COUNTERS)
CONTINUE_COUNTERS = typed_text(f"""
    {_RESTORE_COUNTERS}
    ON CONFLICT (conversation, entity) DO UPDATE SET
        last = greatest(counters.last, excluded.last),
        forgotten = greatest(counters.last, excluded.last) - excluded.last + excluded.forgotten,
        drafts = greatest(counters.drafts, excluded.drafts),
        left_at = NULL,
        table_name = excluded.table_name
""")
RESTORE_MAPPINGS = typed_text("""
    INSERT INTO alfred_refs_mapping (conversation, kind, number, key, gone, label)
    SELECT :p_conversation, counters.kind, new.number, new.key, new.gone, new.label
    FROM unnest(:p_entities, :p_numbers, :p_keys, :p_gones, :p_labels)
        AS new (entity, number, key, gone, label)
    JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = new.entity
""")

# Count.
COUNT_CONVERSATIONS = typed_text("SELECT count(*) FROM alfred_refs_conversation")
COUNT_REFS = typed_text("""
    SELECT entity, CAST(sum(last - forgotten) AS bigint) FROM alfred_refs_counter GROUP BY entity
""")
COUNT_GONE = typed_text("SELECT count(*) FROM alfred_refs_mapping WHERE gone IS NOT NULL")
COUNT_LEFT = typed_text(f"SELECT count(*) FROM alfred_refs_counter AS counters WHERE {_LEFT}")
COUNT_DRAFTS = typed_text("""
    SELECT state, count(*) AS drafts FROM alfred_refs_draft GROUP BY state ORDER BY state
""")
# A partitioned table has its room in its partitions.
ROOM = typed_text("""
    SELECT CAST(sum(pg_table_size(part)) AS bigint), CAST(sum(pg_indexes_size(part)) AS bigint)
    FROM unnest(CAST(:p_relations AS regclass[])) AS whole
    CROSS JOIN LATERAL (
        SELECT whole AS part UNION SELECT relid FROM pg_partition_tree(whole)
    ) AS parts
""")


_PAGE = 1000  # rows read or written by one statement: some hundred kilobytes

_FIRST = uuid.UUID(int=0)
_STATES: Sequence[DraftState] = get_args(DraftState)

_FORKED = (
    FORK_COUNTERS,
    FORK_MAPPINGS,
    FORK_DRAFTS,
    FORK_ACTIVITY,
    FORK_STEPS,
)
_FORGOTTEN = (
    FORGET_MAPPINGS,
    FORGET_DRAFTS,
    FORGET_ACTIVITY,
    FORGET_STEPS,
    LEAVE_COUNTERS,
)
_PRUNED = (
    PRUNE_MAPPINGS,
    PRUNE_DRAFTS,
    PRUNE_ACTIVITY,
    PRUNE_STEPS,
    LEAVE_PRUNED,
    PRUNE_CONVERSATIONS,
)
_ERASED = (ERASE_LABEL, ERASE_DRAFT, PRUNE_ACTIVITY, PRUNE_STEPS)

_T = TypeVar("_T")


class PostgresConversations(Sending):
    """The part of `PostgresStore` that is about conversations as a whole."""

    def entities(self, address: Address) -> Mapping[str, int]:
        rows = only_mine(self._rows(sql_refs.ENTITIES, address), address)
        return {row.entity: row.last for row in rows if row.entity is not None}

    def fork(self, address: Address, new_id: str) -> None:
        new = Address(new_id, address.owner)
        values = address_parameters(address) | {"p_id": new_id, "p_new": new.digest}

        def copy(connection: Connection) -> bool:
            with transaction(connection):
                found = connection.execute(sql_refs.LOCK_BEGUN, values).one_or_none()
                if found is not None:
                    connection.execute(FORK_CONVERSATION, values)
                    taken = connection.scalar(KINDS_TAKEN, values)
                    for statement in _FORKED:
                        connection.execute(statement, values | {"p_taken": taken})
                    connection.execute(TOUCH, values)
            return found is not None

        if not self._make(new_id, copy):
            raise UnknownConversationError(address.id)

    def forget(self, address: Address) -> None:
        values = address_parameters(address)

        def forget(connection: Connection) -> bool:
            with transaction(connection):
                found = connection.execute(FORGET_CONVERSATION, values).one_or_none()
                if found is not None:
                    for statement in _FORGOTTEN:
                        connection.execute(statement, values)
            return found is not None

        # not tried again when the connection is lost: it may be forgotten
        if not self._own.run(forget, again=False):
            raise UnknownConversationError(address.id)

    def prune(self, unused_for: timedelta, batch: int) -> Iterator[int]:
        values = {"p_unused_for": unused_for, "p_limit": batch}
        yield from self._prune_batches(CHOOSE_UNUSED, _PRUNED, values)
        for _ in self._prune_batches(CHOOSE_LEFT, [PRUNE_COUNTERS], values):
            pass

    def erase(self, key: EntityKey, table: str | None, batch: int) -> Iterator[int]:
        row = {"p_entity": key[0], "p_key": encode(key[1]), "p_table": table}
        return self._prune_batches(CHOOSE_KNOWING, _ERASED, row | {"p_limit": batch})

    def _prune_batches(
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
                return _read_export(connection, address)

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
        rows = self._alone(DESCRIBE, address_parameters(Address(id)))
        if not rows:
            raise UnknownConversationError(id)
        return _info(rows[0])

    def conversations(
        self,
        unused_for: timedelta | None = None,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
    ) -> Iterator[ConversationInfo]:
        values = _list_parameters(unused_for, owner) | {"p_limit": limit}
        found = self._alone(CHOOSE_LAST_USED, values)
        for start in range(0, len(found), _PAGE):
            chosen = [row.conversation for row in found[start : start + _PAGE]]
            values = {"p_chosen": chosen, "p_owner": None}
            rows = self._alone(PAGE_OF_CONVERSATIONS, values)
            by_digest = {row.conversation: row for row in rows}
            yield from (_info(by_digest[each]) for each in chosen if each in by_digest)

    def count_conversations(
        self, unused_for: timedelta | None = None, owner: str | EllipsisType | None = ...
    ) -> int:
        [[number]] = self._alone(COUNT_LISTED, _list_parameters(unused_for, owner))
        return int(number)

    def stats(self) -> RegistryStats:
        def count(connection: Connection) -> RegistryStats:
            with snapshot(connection):
                refs = connection.execute(COUNT_REFS)
                drafts = connection.execute(COUNT_DRAFTS)
                tables = {"p_relations": list(metadata.tables)}
                in_tables, in_indexes = connection.execute(ROOM, tables).one()
                return RegistryStats(
                    conversations=connection.scalar(COUNT_CONVERSATIONS) or 0,
                    refs={entity: count for entity, count in sorted(refs) if count},
                    gone=connection.scalar(COUNT_GONE) or 0,
                    left_counters=connection.scalar(COUNT_LEFT) or 0,
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


def _read_export(connection: Connection, address: Address) -> Exported | None:
    def fetch(statement: Executable, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
        return connection.execute(statement, values).all()

    rows = fetch(DESCRIBE, address_parameters(address))
    if not rows or not rows[0].mine:
        return None
    counters = fetch(LAST_NUMBERS, address_parameters(address))
    last = {row.entity: row.last for row in counters if row.last}
    entries = [entry for name in sorted(last) for entry in _entries(fetch, address, name)]
    return Exported(
        *(address.id, address.owner, rows[0].turn, rows[0].begun_at, last, entries),
        {row.entity: row.drafts for row in counters if row.drafts},
        [replace(draft, row=None) for draft in draft_pages(fetch, address, None, _STATES)],
        {row.entity: row.table_name for row in counters if row.table_name is not None},
        list(all_activity(fetch, address)),
        [
            StepEntry(row.turn, row.number, row.content)
            for row in fetch(postgres_activity.ALL_STEPS, address_parameters(address))
        ],
    )


def _entries(fetch: Fetch, address: Address, entity: str) -> Iterator[Entry]:
    """Yield the entries of an entity page by page, in the order of their numbers."""
    values = address_parameters(address) | {"p_entity": entity, "p_limit": _PAGE}
    number: int | None = 0
    while number is not None:
        rows = fetch(PAGE_OF_ENTRIES, values | {"p_number": number})
        yield from (
            Entry(Ref(entity, row.number), decode(row.key), row.gone, row.label) for row in rows
        )
        number = rows[-1].number if len(rows) == _PAGE else None


def _write(connection: Connection, address: Address, exported: Exported) -> None:
    values = address_parameters(address) | {
        "p_turn": exported.turn,
        "p_begun_at": exported.begun_at,
    }
    connection.execute(RESTORE_CONVERSATION, values)
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
    restore = CONTINUE_COUNTERS if is_again else RESTORE_COUNTERS
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
        connection.execute(RESTORE_MAPPINGS, values | arrays)
    for start in range(0, len(exported.drafts), PAGE):
        page_of_drafts = arrays_of_drafts(exported.drafts[start : start + PAGE])
        connection.execute(postgres_drafts.RESTORE_DRAFTS, values | page_of_drafts)
    for start in range(0, len(exported.activity), PAGE):
        page_of_activity = arrays_of_activity(exported.activity[start : start + PAGE])
        connection.execute(postgres_activity.RESTORE_ACTIVITY, values | page_of_activity)
    if exported.steps:
        of_steps = {
            "p_turns": [step.turn for step in exported.steps],
            "p_numbers": [step.number for step in exported.steps],
            "p_contents": [step.content for step in exported.steps],
        }
        connection.execute(postgres_activity.RESTORE_STEPS, values | of_steps)


def _list_parameters(
    unused_for: timedelta | None, owner: str | EllipsisType | None
) -> dict[str, Any]:
    """Return the parameters that say which conversations are listed."""
    of_any = owner is ...
    whose = None if of_any else owner
    return {"p_unused_for": unused_for, "p_of_any": of_any, "p_owner": whose}


def _info(row: Row[Any]) -> ConversationInfo:
    refs = sorted(zip(row.entities or (), row.counts or (), strict=True))
    return ConversationInfo(row.id, row.owner, row.turn, row.begun_at, row.used_at, dict(refs))


# what PostgreSQL refuses writing with
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_READ_ONLY = (
    "0A000",  # feature_not_supported: a standby has no READ WRITE
    "25006",  # read_only_sql_transaction
    "42501",  # insufficient_privilege
)


class PostgresStore(PostgresDrafts, PostgresActivity, PostgresConversations):
    """A `Store` in the database of an engine; its methods do what `Store` says.

    Args:
        engine: the application's engine, or any other on the database where the registry is.

    Example:
        >>> registry = RefRegistry(store=PostgresStore(engine))
        >>> registry.conversation("chat-7").resolve("recipe_1") == chat.resolve("recipe_1")
        True
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._reads_only_until = 0.0
        if not self.is_async:  # there only a coroutine can close a connection
            weakref.finalize(self, self._own.release).atexit = False

    @property
    def is_async(self) -> bool:
        """Whether the engine is asynchronous."""
        return self._own.is_async

    @property
    def metadata(self) -> MetaData:
        """The tables, for an application's own Alembic environment."""
        return metadata

    def create_tables(self) -> None:
        """Create the tables that are missing, and leave later changes to `alfred-refs migrate`."""
        from alfred_refs.store import schema  # noqa: PLC0415  # with Alembic, which is long to import

        def create(connection: Connection) -> None:
            with transaction(connection):
                connection.execute(sql.LOCK_TABLES)
                if not inspect(connection).has_table(conversations.name):
                    metadata.create_all(connection)
                    schema.note_newest(connection)

        self._own.run(create)
        self.check_tables()

    def check_tables(self) -> None:
        """Raise `RegistryTablesError` for tables of an older version, which lacks columns."""

        def check(connection: Connection) -> None:
            for table in metadata.tables.values():
                connection.execute(select(table).limit(0))

        self._own.run(check)

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        if not keys:
            return []
        values = address_parameters(address) | _arrays(address, keys, labels)
        rows = self._mint(values)
        if len(rows) < len(keys):  # of another owner, or forgotten between the two statements
            rows = self._write([sql.LOCK_ALWAYS, sql.REFER], values)
        if len(rows) < len(keys):
            self._check_tables(address)
            raise UnknownConversationError(address.id)
        found = {position: rest for position, *rest in rows}
        return [
            Entry(Ref(entity, number), key, *rest)
            for position, (entity, key) in enumerate(keys, start=1)
            for number, *rest in (found[position],)
        ]

    def _mint(self, values: Mapping[str, Any]) -> Sequence[Any]:
        """Mint where need be, and return the rows of `refer`: too few if that was not possible."""
        try:
            return self._write([sql.LOCK, sql.REFER], values)
        except RegistryFailedError as error:
            # `lock` found all keys known, they were forgotten, and the counter was read before
            # `refer` took the lock itself: somebody else has given the number in between
            if error.sqlstate != UNIQUE_VIOLATION:
                raise
            return []

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        rows = self._rows(
            sql.RESOLVE,
            address,
            p_entities=[ref.entity for ref in refs],
            p_numbers=[ref.number for ref in refs],
        )
        if rows and rows[0].mine and rows[0].unnoted:
            with suppress(RegistryBusyError, RegistryFailedError, RegistryUnreachableError):
                self.touch(address)  # a note: what was found is found
        for entity, table in {(row.entity, row.table_name) for row in only_mine(rows, address)}:
            address.check_table(entity, table)
        entries = [
            Entry(Ref(row.entity, row.number), decode(row.key), row.gone, row.label)
            for row in rows
            if row.key is not None
        ]
        return {entry.ref: entry for entry in entries}

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        sought = [encode(key) for key in keys]
        rows = only_mine(self._rows(sql.REFS_OF, address, p_keys=sought), address)
        found: dict[Key, list[Ref]] = {}
        for row in rows:
            if row.key is not None:
                found.setdefault(decode(row.key), []).append(Ref(row.entity, row.number))
        return {key: sorted(refs) for key, refs in found.items()}

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        rows = self._rows(
            sql.KNOWN, address, p_entity=near.entity, p_number=near.number, p_limit=limit
        )
        return {Ref(near.entity, row.number): row.label for row in rows}

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        rows = self._rows(sql.LABELLED, address, p_entity=entity, p_limit=limit)
        return {Ref(entity, row.number): row.label for row in rows}

    def namesakes(
        self, address: Address, labels: Collection[tuple[str, str]], limit: int
    ) -> Mapping[tuple[str, str], tuple[Ref, Ref]]:
        rows = self._rows(
            sql.NAMESAKES,
            address,
            p_entities=[*{entity for entity, _ in labels}],
            p_labels=[*{label for _, label in labels}],
            p_limit=limit,
        )
        found = {
            (row.entity, row.label): (Ref(row.entity, row.first), Ref(row.entity, row.last))
            for row in rows
        }
        return {pair: found[pair] for pair in labels if pair in found}

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        parameters = address_parameters(address) | _arrays(address, keys) | {"p_gone": gone}
        self._write([sql.LOCK_BEGUN, sql.MARK], parameters)

    def label(self, address: Address, labels: Mapping[EntityKey, str]) -> None:
        parameters = address_parameters(address) | _arrays(address, list(labels), labels)
        self._write([sql.LOCK_BEGUN, sql.LABEL], parameters)

    def begin_turn(self, address: Address) -> int:
        # not tried again when the connection is lost: the turn may have begun
        batch = [sql.LOCK_BEGUN, postgres_activity.FORGET_SEEN, sql.BEGIN_TURN]
        rows = self._write(batch, address_parameters(address), again=False)
        if not rows:
            raise UnknownConversationError(address.id)
        return cast(int, rows[0][0])

    def turn(self, address: Address) -> int:
        rows = only_mine(self._rows(sql.TURN, address), address)
        return rows[0].turn if rows else 0

    def touch(self, address: Address) -> None:
        if time.monotonic() < self._reads_only_until:
            return
        try:
            self._write([TOUCH], address_parameters(address))
        except RegistryFailedError as error:
            if error.sqlstate not in _READ_ONLY:
                raise
            self._reads_only_until = time.monotonic() + NOTED_EVERY.total_seconds()


def _arrays(
    address: Address, keys: Sequence[EntityKey], labels: Mapping[EntityKey, str] = NO_LABELS
) -> dict[str, Any]:
    return {
        "p_tables": address.tables_of(entity for entity, _ in keys),
        "p_entities": [entity for entity, _ in keys],
        "p_keys": [encode(key) for _, key in keys],
        "p_labels": [labels.get(pair) for pair in keys] if labels else [],
    }
