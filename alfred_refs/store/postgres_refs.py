"""Refs in PostgreSQL: mint, resolve, look up, mark and label; turns.

`PostgresRefs` is the part of `PostgresStore` that is about the refs of one conversation. Each
statement is a class attribute above the method that sends it.

>>> store = PostgresRefs(engine)
>>> address = Address("chat-7")
>>> [entry] = store.refer(address, [("recipe", 4711)], {("recipe", 4711): "Stew"})
>>> str(entry.ref), entry.minted
('recipe_3', True)
>>> store.resolve(address, [entry.ref])[entry.ref].label
'Stew'

How refs get their numbers: the row of the conversation is the lock. `refer` first locks it, which
also begins the conversation, then numbers the new keys in a second statement; both travel in one
round trip. They must be two statements: under READ COMMITTED a statement keeps the snapshot from
before it waited for a lock, so only the next one sees what others have minted meanwhile. A call
whose keys are all known locks nothing and writes nothing.

All methods that write several rows of a conversation lock its row first, so that two of them
cannot deadlock. All methods that read return nothing, or raise `UnknownConversationError`, for a
conversation of another owner; the check is in the same statement.

Limits: the mapping of a ref is never updated but for `gone` and `label`. Nothing here knows about
the application's tables; `Address.check_table` compares names.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from sqlalchemy import Executable, Row

from alfred_refs.errors import (
    RegistryBusyError,
    RegistryFailedError,
    RegistryUnreachableError,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import EntityKey, Key, Ref, decode, encode
from alfred_refs.store.connections import UNIQUE_VIOLATION, PostgresConnections
from alfred_refs.store.sql import (
    CURRENT_TURN,
    KIND,
    MINE,
    NONE_OF_ANOTHER_TABLE,
    OF_TABLE,
    REQUESTED_REFS,
    UNNOTED,
    address_parameters,
    count_numbers,
    typed_text,
)
from alfred_refs.store.values import KEPT_TURNS, NO_LABELS, NOTED_EVERY, Address, Entry, Gone

_RowT = TypeVar("_RowT", bound=Sequence[Any])

# The errors of a database that cannot be written to:
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_READ_ONLY = (
    "0A000",  # feature_not_supported: a standby has no READ WRITE
    "25006",  # read_only_sql_transaction
    "42501",  # insufficient_privilege
)

# unnest() pads a shorter array with nulls: without labels, p_labels is empty
_REQUESTED_KEYS = (
    "unnest(:p_entities, :p_keys, :p_labels)"
    " WITH ORDINALITY AS requested (entity, key, label, position)"
)

# the mapping of each key, if there is one
_REQUESTED_AND_KNOWN = f"""{_REQUESTED_KEYS}
    LEFT JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = requested.entity
    LEFT JOIN LATERAL (
        SELECT number, gone, label FROM alfred_refs_mapping
        WHERE conversation = :p_conversation AND kind = counters.kind AND key = requested.key
        LIMIT 1
    ) AS known ON true"""

_MAPPING_OF_REQUESTED = f"""counters.conversation = :p_conversation
        AND counters.entity = requested.entity
        AND {OF_TABLE}
        AND mappings.conversation = :p_conversation
        AND mappings.kind = counters.kind
        AND mappings.key = requested.key
        AND {MINE}"""


class PostgresRefs(PostgresConnections):
    """The part of `PostgresStore` that is about refs."""

    _reads_only_until = 0.0

    # Locks on the conversation's row. They are NO KEY locks, as an UPDATE takes: an application's
    # transaction that has added a call keeps the row from being deleted until its end, and other
    # connections must mint meanwhile.

    # Locks it if it exists.
    _LOCK_BEGUN = typed_text("""
        SELECT 1 FROM alfred_refs_conversation
        WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
        FOR NO KEY UPDATE
    """)

    # Locks it if it exists, and records its use.
    _LOCK_USED = typed_text("""
        UPDATE alfred_refs_conversation SET used_at = now()
        WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
    """)

    # Locks it, inserts it if it does not exist, and records its use. `excluded.used_at` is the
    # default of the column, now(): Citus allows no volatile function in DO UPDATE.
    _LOCK_ALWAYS = typed_text("""
        INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner)
        VALUES (:p_conversation, :p_id, :p_owner)
        ON CONFLICT (conversation) DO UPDATE SET used_at = excluded.used_at
        WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
    """)

    # The same, but only if a key is new, or the last use has to be recorded: a result whose keys
    # are all known writes nothing.
    _LOCK = typed_text(f"""
        INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner)
        SELECT :p_conversation, :p_id, :p_owner
        WHERE EXISTS (SELECT 1 FROM {_REQUESTED_AND_KNOWN} WHERE known.number IS NULL)
            OR EXISTS (
                SELECT 1 FROM alfred_refs_conversation
                WHERE conversation = :p_conversation AND {UNNOTED}
            )
        ON CONFLICT (conversation) DO UPDATE SET used_at = excluded.used_at
        WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
    """)

    # Minting

    # Numbers the new keys if the conversation's row is locked by this transaction, or can be
    # without waiting; new entities get a kind. A CASE is evaluated row by row, so that nothing is
    # locked if no key is new.
    _REFER = typed_text(f"""
        WITH existing AS (
            SELECT
                requested.position, requested.entity, requested.key,
                requested.label AS new_label,
                known.number, known.gone, known.label, counters.kind, counters.last
            FROM {_REQUESTED_AND_KNOWN}
            WHERE {MINE} AND {NONE_OF_ANOTHER_TABLE}
        ), locked AS (
            SELECT 1 FROM alfred_refs_conversation
            WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
            FOR NO KEY UPDATE SKIP LOCKED
        ), fresh AS (
            SELECT
                position, entity, kind, key, new_label AS label,
                CAST(
                    coalesce(last, 0) + row_number() OVER (PARTITION BY entity ORDER BY position)
                    AS integer
                ) AS number
            FROM existing
            WHERE CASE WHEN number IS NULL THEN EXISTS (SELECT 1 FROM locked) ELSE false END
        ), counted AS (
            {count_numbers("fresh", "last")}
        ), minted AS (
            INSERT INTO alfred_refs_mapping (conversation, number, kind, key, label)
            SELECT :p_conversation, fresh.number, counted.kind, fresh.key, fresh.label
            FROM fresh JOIN counted USING (entity)
        )
        SELECT position, number, gone, label, false FROM existing WHERE number IS NOT NULL
        UNION ALL
        SELECT position, number, NULL, label, true FROM fresh
    """)

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        if not keys:
            return []
        values = address_parameters(address) | key_parameters(address, keys, labels)
        try:
            rows = self._write([self._LOCK, self._REFER], values)
        except RegistryFailedError as error:
            # _LOCK found all keys known, then the conversation was forgotten, and _REFER took the
            # lock itself with a counter read before: another caller has used the number meanwhile.
            if error.sqlstate != UNIQUE_VIOLATION:
                raise
            rows = []
        if len(rows) < len(keys):  # another owner's, or forgotten between the two statements
            rows = self._write([self._LOCK_ALWAYS, self._REFER], values)
        if len(rows) < len(keys):
            self._check_tables(address)
            raise UnknownConversationError(address.id)
        by_position = {position: rest for position, *rest in rows}
        return [
            Entry(Ref(entity, number), key, *rest)
            for position, (entity, key) in enumerate(keys, start=1)
            for number, *rest in (by_position[position],)
        ]

    _TABLES_OF_REFS = typed_text("""
        SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, entity, table_name
        FROM alfred_refs_conversation LEFT JOIN alfred_refs_counter USING (conversation)
        WHERE conversation = :p_conversation
    """)

    def _check_tables(self, address: Address) -> None:
        """Raise the error for which a statement has written nothing: of owner, or of tables."""
        for row in self._read_own(self._TABLES_OF_REFS, address):
            address.check_table(row.entity, row.table_name)

    # Reading

    # The mapping with that number or the next higher one: ORDER BY leaves the server no choice of
    # index, where it would guess if the table has no statistics yet.
    _RESOLVE = typed_text(
        f"""
        SELECT
            conversations.owner IS NOT DISTINCT FROM :p_owner AS mine,
            {UNNOTED} AS unnoted,
            requested.entity, requested.number, counters.table_name,
            found.key, found.gone, found.label
        FROM alfred_refs_conversation AS conversations
        CROSS JOIN {REQUESTED_REFS}
        LEFT JOIN alfred_refs_counter AS counters
            ON counters.conversation = :p_conversation AND counters.entity = requested.entity
        LEFT JOIN LATERAL (
            SELECT number, key, gone, label FROM alfred_refs_mapping
            WHERE conversation = :p_conversation
                AND kind = counters.kind
                AND number >= requested.number
            ORDER BY number
            LIMIT 1
        ) AS found ON found.number = requested.number
        WHERE conversations.conversation = :p_conversation
        """,
        "mine unnoted entity number table_name key gone label",
    )

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        rows = self._read_in(
            self._RESOLVE,
            address,
            p_entities=[ref.entity for ref in refs],
            p_numbers=[ref.number for ref in refs],
        )
        if rows and rows[0].mine and rows[0].unnoted:
            # the entries were read: failing to record the use must not lose them
            with suppress(RegistryBusyError, RegistryFailedError, RegistryUnreachableError):
                self.touch(address)
        for entity, table in {(row.entity, row.table_name) for row in check_owner(rows, address)}:
            address.check_table(entity, table)
        entries = [
            Entry(Ref(row.entity, row.number), decode(row.key), row.gone, row.label)
            for row in rows
            if row.key is not None
        ]
        return {entry.ref: entry for entry in entries}

    # One probe of an index for each key and each entity of the conversation.
    _REFS_OF = typed_text(
        """
        SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, found.key, found.entity, found.number
        FROM alfred_refs_conversation
        LEFT JOIN (
            SELECT requested.key, counters.entity, mappings.number
            FROM unnest(:p_keys) AS requested (key)
            JOIN alfred_refs_counter AS counters ON counters.conversation = :p_conversation
            CROSS JOIN LATERAL (
                SELECT number FROM alfred_refs_mapping
                WHERE conversation = :p_conversation
                    AND kind = counters.kind
                    AND key = requested.key
                LIMIT 1
            ) AS mappings
        ) AS found ON true
        WHERE conversation = :p_conversation
        """,
        "mine key entity number",
    )

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        rows = self._read_own(self._REFS_OF, address, p_keys=[encode(key) for key in keys])
        refs: dict[Key, list[Ref]] = {}
        for row in rows:
            if row.key is not None:
                refs.setdefault(decode(row.key), []).append(Ref(row.entity, row.number))
        return {key: sorted(of_key) for key, of_key in refs.items()}

    _NOT_GONE = f"conversation = :p_conversation AND kind = {KIND} AND gone IS NULL AND {MINE}"
    _KNOWN = typed_text(f"""
        SELECT number, label FROM (
            (
                SELECT number, label FROM alfred_refs_mapping
                WHERE {_NOT_GONE} AND number < :p_number
                ORDER BY number DESC
                LIMIT :p_limit
            ) UNION ALL (
                SELECT number, label FROM alfred_refs_mapping
                WHERE {_NOT_GONE} AND number >= :p_number
                ORDER BY number
                LIMIT :p_limit
            )
        ) AS around
        ORDER BY abs(number - :p_number), number
        LIMIT :p_limit
    """)

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        rows = self._read_in(
            self._KNOWN, address, p_entity=near.entity, p_number=near.number, p_limit=limit
        )
        return {Ref(near.entity, row.number): row.label for row in rows}

    _LABELLED = typed_text(f"""
        SELECT number, label FROM (
            SELECT number, label, gone FROM alfred_refs_mapping
            WHERE conversation = :p_conversation AND kind = {KIND} AND {MINE}
            ORDER BY number DESC
            LIMIT :p_limit
        ) AS latest
        WHERE label IS NOT NULL AND gone IS NULL
        ORDER BY number DESC
    """)

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        rows = self._read_in(self._LABELLED, address, p_entity=entity, p_limit=limit)
        return {Ref(entity, row.number): row.label for row in rows}

    # One scan of the last refs of each entity, for any number of labels.
    _NAMESAKES = typed_text(f"""
        SELECT
            counters.entity, latest.label, min(latest.number) AS first, max(latest.number) AS last
        FROM alfred_refs_counter AS counters
        CROSS JOIN LATERAL (
            SELECT number, label, gone FROM alfred_refs_mapping
            WHERE conversation = :p_conversation AND kind = counters.kind
            ORDER BY number DESC
            LIMIT :p_limit
        ) AS latest
        WHERE counters.conversation = :p_conversation AND counters.entity = ANY(:p_entities)
            AND latest.label = ANY(:p_labels) AND latest.gone IS NULL AND {MINE}
        GROUP BY counters.entity, latest.label
        HAVING count(*) > 1
    """)

    def namesakes(
        self, address: Address, labels: Collection[tuple[str, str]], limit: int
    ) -> Mapping[tuple[str, str], tuple[Ref, Ref]]:
        rows = self._read_in(
            self._NAMESAKES,
            address,
            p_entities=[*{entity for entity, _ in labels}],
            p_labels=[*{label for _, label in labels}],
            p_limit=limit,
        )
        refs = {
            (row.entity, row.label): (Ref(row.entity, row.first), Ref(row.entity, row.last))
            for row in rows
        }
        # the arrays are of each entity and each label: not every pair of the two was requested
        return {pair: refs[pair] for pair in labels if pair in refs}

    _ENTITIES = typed_text("""
        SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, counters.entity, counters.last
        FROM alfred_refs_conversation AS conversations
        LEFT JOIN alfred_refs_counter AS counters
            ON counters.conversation = conversations.conversation AND last > forgotten
        WHERE conversations.conversation = :p_conversation
    """)

    def entities(self, address: Address) -> Mapping[str, int]:
        rows = self._read_own(self._ENTITIES, address)
        return {row.entity: row.last for row in rows if row.entity is not None}

    # Marking and labelling

    # A session that was rolled back may mark the row of a draft as never saved after another one
    # has saved the same draft.
    _MARK = typed_text(f"""
        UPDATE alfred_refs_mapping AS mappings SET gone = :p_gone
        FROM alfred_refs_counter AS counters, {_REQUESTED_KEYS}
        WHERE {_MAPPING_OF_REQUESTED}
            AND mappings.gone IS DISTINCT FROM :p_gone
            AND (
                :p_gone IS DISTINCT FROM 'was never saved'
                OR NOT EXISTS (
                    SELECT 1 FROM alfred_refs_draft AS drafts
                    WHERE drafts.conversation = :p_conversation
                        AND drafts.kind = mappings.kind
                        AND drafts.key = mappings.key
                        AND drafts.state = 'saved'
                )
            )
    """)

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        parameters = address_parameters(address) | key_parameters(address, keys)
        self._write([self._LOCK_BEGUN, self._MARK], parameters | {"p_gone": gone})

    _LABEL = typed_text(f"""
        UPDATE alfred_refs_mapping AS mappings SET label = requested.label
        FROM alfred_refs_counter AS counters, {_REQUESTED_KEYS}
        WHERE {_MAPPING_OF_REQUESTED} AND mappings.label IS DISTINCT FROM requested.label
    """)

    def label(self, address: Address, labels: Mapping[EntityKey, str | None]) -> None:
        parameters = address_parameters(address) | key_parameters(address, list(labels), labels)
        self._write([self._LOCK_BEGUN, self._LABEL], parameters)

    # Turns

    _BEGIN_TURN = typed_text("""
        INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner, turn)
        VALUES (:p_conversation, :p_id, :p_owner, 1)
        ON CONFLICT (conversation) DO UPDATE SET
            turn = conversations.turn + 1,
            used_at = excluded.used_at
        WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
        RETURNING turn
    """)
    _FORGET_STEPS = typed_text(f"""
        DELETE FROM alfred_refs_step
        WHERE conversation = :p_conversation
            AND turn <= {CURRENT_TURN} - {KEPT_TURNS}
            AND {MINE}
    """)

    def begin_turn(self, address: Address) -> int:
        batch = [self._LOCK_BEGUN, self._FORGET_STEPS, self._BEGIN_TURN]
        rows = self._write(batch, address_parameters(address), idempotent=False)
        if not rows:
            raise UnknownConversationError(address.id)
        return cast(int, rows[0][0])

    _TURN = typed_text(
        """
        SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, turn
        FROM alfred_refs_conversation
        WHERE conversation = :p_conversation
        """,
        "mine turn",
    )

    def turn(self, address: Address) -> int:
        rows = self._read_own(self._TURN, address)
        return rows[0].turn if rows else 0

    # Skips a row that is locked: resolving must not wait, and most who lock it record the use.
    _TOUCH = typed_text(f"""
        UPDATE alfred_refs_conversation SET used_at = now()
        WHERE conversation = :p_conversation AND conversation = (
            SELECT conversation FROM alfred_refs_conversation
            WHERE conversation = :p_conversation
                AND owner IS NOT DISTINCT FROM :p_owner
                AND {UNNOTED}
            FOR NO KEY UPDATE SKIP LOCKED
        )
    """)

    def touch(self, address: Address) -> None:
        if time.monotonic() < self._reads_only_until:
            return
        try:
            self._write([self._TOUCH], address_parameters(address))
        except RegistryFailedError as error:
            if error.sqlstate not in _READ_ONLY:
                raise
            self._reads_only_until = time.monotonic() + NOTED_EVERY.total_seconds()

    # Executing

    def _read_in(
        self, statement: Executable, address: Address, **parameters: Any
    ) -> Sequence[Row[Any]]:
        """Execute one statement that reads rows of a conversation."""
        return self._read(statement, address_parameters(address) | parameters)

    def _read_own(
        self, statement: Executable, address: Address, **parameters: Any
    ) -> Sequence[Row[Any]]:
        """Do the same, and check the owner: the first column is whether it is the right one."""
        return check_owner(self._read_in(statement, address, **parameters), address)


def check_owner(rows: Sequence[_RowT], address: Address) -> Sequence[_RowT]:
    """Return rows if the conversation is the owner's, which is their first column.

    Raises:
        UnknownConversationError: it is another owner's.
    """
    if rows and not rows[0][0]:
        raise UnknownConversationError(address.id)
    return rows


def key_parameters(
    address: Address,
    keys: Sequence[EntityKey],
    labels: Mapping[EntityKey, str | None] = NO_LABELS,
) -> dict[str, Any]:
    """Return the parameters of a statement about keys."""
    return {
        "p_tables": address.tables_of(entity for entity, _ in keys),
        "p_entities": [entity for entity, _ in keys],
        "p_keys": [encode(key) for _, key in keys],
        "p_labels": [labels.get(pair) for pair in keys] if labels else [],
    }


def ref_parameters(address: Address, refs: Collection[Ref]) -> dict[str, Any]:
    """Return the parameters of a statement about refs or drafts."""
    return {
        "p_entities": [ref.entity for ref in refs],
        "p_numbers": [ref.number for ref in refs],
        "p_tables": address.tables_of(ref.entity for ref in refs),
    }
