"""Calls of tools in PostgreSQL: waiting ones, and executed ones with the rows that they changed.

`PostgresCalls` is the part of `PostgresStore` that is about calls. Each statement is a class
attribute above the method that sends it.

>>> from alfred_refs import PostgresStore
>>> from alfred_refs.store import Address, NewCall
>>> store = PostgresStore(engine)
>>> address, arguments = Address("chat-7"), {"table": "recipes", "ids": ["recipe_1"]}
>>> store.add_call(address, NewCall("db_delete", arguments, "waiting", "model")).number
1
>>> call = store.update_call(address, 1, expected="waiting", state="rejected", decided_by="ann")
>>> call.state, store.update_call(address, 1, expected="waiting", state="done")
('rejected', None)

Calls are the one part of the registry that may be written in the application's transaction, so
that a call is stored if and only if the rows that it changed are. `is_on` returns whether a
connection is to the registry's own database, where that is possible. Such a connection may have
another `search_path`, so the statements that are sent on it name the schema of the tables.

How calls get their numbers: each statement takes the highest one and adds one. If another
transaction has the same number, the statement waits for its end, and is repeated if that was
committed. So numbers have no gaps, unless `revert_call` deletes a call, and the calls of one
conversation are committed one after the other. Nothing else waits: a call does not lock the
conversation's row against minting, only against being deleted, as a foreign key would.

Limits: a transaction that has added a call, and waits for another connection to add one in the
same conversation, waits for itself; the store's own connections give up after `_PATIENCE`. In a
transaction of isolation level REPEATABLE READ, a call that another one has preceded raises the
server's serialization failure.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timedelta
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Unpack, cast
from weakref import WeakKeyDictionary

from sqlalchemy import TextClause
from sqlalchemy.exc import DBAPIError

from alfred_refs import sqla
from alfred_refs.errors import (
    RegistryBusyError,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
    UnknownConversationError,
)
from alfred_refs.store.connections import fault_of
from alfred_refs.store.postgres_drafts import PAGE, Fetch
from alfred_refs.store.postgres_refs import PostgresRefs
from alfred_refs.store.sql import (
    OF_ROW,
    UNNOTED,
    address_parameters,
    filter_parameters,
    json_or_none,
    typed_text,
)
from alfred_refs.store.values import (
    Address,
    CallEntry,
    CallState,
    CallValues,
    ChangeEntry,
    NewCall,
    json_text,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Executable, Row

_PATIENCE = timedelta(seconds=30)
"""How long the store's own connections wait for the transaction of another call."""

# column -> the value that is read, in the order of `CallEntry`
_READ = {
    "number": "number",
    "turn": "turn",
    "tool": "tool",
    "arguments": "CAST(arguments AS text)",
    "state": "CASE WHEN state = 'waiting' AND expires_at <= statement_timestamp()"
    " THEN 'expired' ELSE state END",
    "actor": "actor",
    "acting_user": "acting_user",
    "call_id": "call_id",
    "plan": "CAST(plan AS text)",
    "token": "token",
    "answer": "CAST(answer AS text)",
    "undoes": "undoes",
    "decided_by": "decided_by",
    "reason": "reason",
    "asked_at": "asked_at",
    "decided_at": "decided_at",
    "expires_at": "expires_at",
    "seconds": "seconds",
}
_ENTRY = ", ".join(f"{value} AS {name}" for name, value in _READ.items())
_NAMES = ", ".join(_READ)
_STATE = _READ["state"]

# the columns with JSON values
CONTENTS = ("arguments", "plan", "answer")

# the columns of `CallValues`, and the expressions that they are set to
_SET = {name: f":p_{name}" for name in CallValues.__annotations__} | {
    "plan": "CAST(:p_plan AS json)",
    "answer": "CAST(:p_answer AS json)",
}

# Finds the conversation's row, and locks it as a foreign key would: it can be updated, as minting
# does, but not deleted.
_OWN = f"""
    SELECT turn, {UNNOTED} AS unnoted FROM alfred_refs_conversation
    WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
    FOR KEY SHARE
"""

# Inserts the rows that calls changed. They are sent as JSON arrays, because psycopg takes long to
# write an array of texts. Images are copied as they are: `->` and `->>` would decode them, and
# raise for characters that PostgreSQL has no text for.
_ADD_CHANGES = """
    INSERT INTO alfred_refs_change
        (conversation, call, place, table_name, ref, label, action, key, before, after)
    SELECT
        :p_conversation, {}, CAST(facts ->> 1 AS integer), facts ->> 2, facts ->> 3, facts ->> 4,
        facts ->> 5, key,
        CASE WHEN json_typeof(before) <> 'null' THEN before END,
        CASE WHEN json_typeof(after) <> 'null' THEN after END
    FROM {} ROWS FROM (
        json_array_elements(CAST(:p_facts AS json)),
        json_array_elements(CAST(:p_key_images AS json)),
        json_array_elements(CAST(:p_befores AS json)),
        json_array_elements(CAST(:p_afters AS json))
    ) AS new (facts, key, before, after)
"""

# The same, as a WITH query of a statement that writes the call.
_ADD_CHANGES_OF_WRITTEN = _ADD_CHANGES.format("written.number", "written CROSS JOIN")

_CHANGE = """
    call, place, table_name, ref, label, action, CAST(key AS text) AS key,
    CAST(before AS text) AS before, CAST(after AS text) AS after
"""


class PostgresCalls(PostgresRefs):
    """The part of `PostgresStore` that is about calls and the rows that they changed."""

    def __init__(self, engine: Engine, timeout: float) -> None:
        super().__init__(engine, timeout)
        self._schema: str | None = None
        # engine of an application -> whether it is on the registry's database
        self._is_on: WeakKeyDictionary[Engine, bool] = WeakKeyDictionary()
        # statement -> the same with the schema of the tables
        self._with_schema: dict[Executable, Executable] = {}

    # The application's connections

    # The time when the server started is its identity: a copy of its files, such as a standby, has
    # the same system identifier, and any role may read it.
    _PLACE = typed_text("""
        SELECT
            CAST(extract(epoch FROM pg_postmaster_start_time()) AS text)
                || ' ' || current_database() AS database,
            CAST(CAST((
                SELECT relnamespace FROM pg_class
                WHERE oid = to_regclass('alfred_refs_conversation')
            ) AS regnamespace) AS text) AS schema
    """)

    def is_on(self, connection: Connection) -> bool:
        if connection.dialect.name != "postgresql":
            return False
        engine = sqla.root_engine(connection.engine)
        if engine not in self._is_on:
            theirs, ours = connection.execute(self._PLACE).one(), self._place()
            self._is_on[engine] = theirs.database == ours.database
        return self._is_on[engine]

    def _place(self) -> Row[Any]:
        """Return server, database and schema of the registry."""
        [place] = self._read(self._PLACE, {})
        self._schema = place.schema
        return place

    def _execute_on(
        self, connection: Connection, statement: Executable, values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """Execute a statement on the application's connection, which may have any `search_path`.

        It raises SQLAlchemy's errors, as other statements of the application's transaction do.
        """
        if statement not in self._with_schema:
            schema = self._schema or self._place().schema
            if schema is None:
                raise RegistryTablesError(self._application.url.database or "")
            qualified = f"{schema}.alfred_refs_".replace(":", r"\:")
            sql = re.sub(r"\balfred_refs_", lambda _: qualified, cast(TextClause, statement).text)
            self._with_schema[statement] = typed_text(sql)
        try:
            return connection.execute(self._with_schema[statement], values).all()
        except DBAPIError as error:
            fault = fault_of(error, self._application.url.database or "")
            if fault is not None and isinstance(fault.error, RegistryTablesError):
                raise fault.error from None
            raise

    # Adding. A transaction of REPEATABLE READ does not see a conversation that was begun after it:
    # then `p_begun` is its turn.

    _WAIT = typed_text(f"""
        SELECT set_config('lock_timeout', '{_PATIENCE.total_seconds():.0f}s', true)
        WHERE current_setting('lock_timeout') = '0'
    """)
    _ADD_CALL = typed_text(f"""
        WITH own AS ({_OWN}), begun AS (
            SELECT turn FROM own
            UNION ALL
            SELECT :p_begun WHERE :p_begun IS NOT NULL AND NOT EXISTS (SELECT FROM own)
        ), known AS (
            SELECT {_ENTRY} FROM alfred_refs_call
            WHERE conversation = :p_conversation AND call_id = :p_call_id
                AND EXISTS (SELECT FROM begun)
        ), written AS (
            INSERT INTO alfred_refs_call (
                conversation, number, turn, asked_at, decided_at, expires_at, seconds, undoes,
                tool, state, actor, acting_user, call_id, token, arguments, plan, answer
            )
            SELECT
                :p_conversation,
                1 + coalesce((
                    SELECT max(number) FROM alfred_refs_call
                    WHERE conversation = :p_conversation
                ), 0),
                coalesce(:p_turn, begun.turn),
                statement_timestamp(),
                CASE WHEN :p_state NOT IN ('waiting', 'doing') THEN statement_timestamp() END,
                statement_timestamp() + CAST(:p_expires_in AS interval),
                :p_seconds, :p_undoes, :p_tool, :p_state, :p_actor, :p_user, :p_call_id, :p_token,
                CAST(:p_arguments AS json), CAST(:p_plan AS json), CAST(:p_answer AS json)
            FROM begun
            WHERE NOT EXISTS (SELECT FROM known)
            ON CONFLICT DO NOTHING
            RETURNING {_ENTRY}
        ), changed AS ({_ADD_CHANGES_OF_WRITTEN})
        SELECT EXISTS (SELECT FROM begun) AS mine, (SELECT unnoted FROM own), entry.*
        FROM (SELECT 1) AS always
        LEFT JOIN (SELECT * FROM known UNION ALL SELECT * FROM written) AS entry ON true
    """)

    # Begins the conversation in a transaction of its own, as minting does.
    _BEGIN_FOR_CALL = typed_text("""
        INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner)
        VALUES (:p_conversation, :p_id, :p_owner)
        ON CONFLICT (conversation) DO UPDATE SET used_at = excluded.used_at
        WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
        RETURNING turn
    """)

    def add_call(
        self,
        address: Address,
        new: NewCall,
        changes: Sequence[ChangeEntry] = (),
        turn: int | None = None,
        connection: Connection | None = None,
    ) -> CallEntry:
        values = {
            **address_parameters(address),
            **change_parameters(changes),
            "p_tool": new.tool,
            "p_arguments": json_text(new.arguments),
            "p_state": new.state,
            "p_actor": new.actor,
            "p_user": new.user,
            "p_call_id": new.call_id,
            "p_plan": json_or_none(new.plan),
            "p_token": new.token,
            "p_answer": json_or_none(new.answer),
            "p_undoes": new.undoes,
            "p_expires_in": new.expires_in,
            "p_seconds": new.seconds,
            "p_turn": turn,
            "p_begun": None,
        }
        while True:
            if connection is not None:
                rows = self._execute_on(connection, self._ADD_CALL, values)
            else:
                batch, again = [self._WAIT, self._ADD_CALL], new.call_id is not None
                rows = self._write(batch, values, idempotent=again)
            [(is_begun, is_unnoted, *entry)] = rows
            if is_unnoted:
                # the use is of less worth than the call
                with suppress(RegistryBusyError, RegistryFailedError, RegistryUnreachableError):
                    self.touch(address)
            if entry[0] is not None:
                return call_entry(entry)
            if not is_begun:
                begun = self._write([self._BEGIN_FOR_CALL], values)
                if not begun:
                    raise UnknownConversationError(address.id)
                values["p_begun"] = begun[0][0]
            # or else another call got the number at the same time

    # Changing. If several expect the current state at the same time, the server lets one of them
    # change it, and shows the others the new state. The conversation's row is locked before the
    # call's, as forgetting does.

    _UPDATE_CALL = typed_text(f"""
        WITH own AS ({_OWN}), written AS (
            UPDATE alfred_refs_call SET
                {
        ", ".join(
            f"{name} = CASE WHEN '{name}' = ANY (CAST(:p_given AS text[]))"
            f" THEN {value} ELSE {name} END"
            for name, value in _SET.items()
        )
    },
                decided_at = CASE
                    WHEN :p_state IS NULL OR :p_state = ({_STATE}) THEN decided_at
                    WHEN :p_state = 'waiting' THEN NULL
                    ELSE coalesce(decided_at, statement_timestamp())
                END
            WHERE conversation = :p_conversation
                AND number = :p_number
                AND ({_STATE}) = :p_expected
                AND EXISTS (SELECT FROM own)
            RETURNING {_ENTRY}
        ), changed AS ({_ADD_CHANGES_OF_WRITTEN})
        SELECT * FROM written
    """)

    def update_call(
        self,
        address: Address,
        number: int,
        *,
        expected: CallState,
        changes: Sequence[ChangeEntry] = (),
        connection: Connection | None = None,
        **values: Unpack[CallValues],
    ) -> CallEntry | None:
        parameters = {
            **address_parameters(address),
            **change_parameters(changes),
            **{f"p_{name}": values.get(name) for name in _SET},
            "p_plan": json_or_none(values.get("plan")),
            "p_answer": json_or_none(values.get("answer")),
            "p_number": number,
            "p_expected": expected,
            "p_given": list(values),
        }
        if connection is not None:
            rows = self._execute_on(connection, self._UPDATE_CALL, parameters)
        else:
            rows = self._write([self._WAIT, self._UPDATE_CALL], parameters, idempotent=False)
        return call_entry(rows[0]) if rows else None

    _LOCK_CALL = typed_text(f"""
        WITH own AS ({_OWN})
        SELECT {_ENTRY} FROM alfred_refs_call
        WHERE conversation = :p_conversation
            AND number = :p_number
            AND EXISTS (SELECT FROM own)
        FOR UPDATE
    """)

    def lock_call(self, address: Address, number: int, connection: Connection) -> CallEntry | None:
        values = address_parameters(address) | {"p_number": number}
        rows = self._execute_on(connection, self._LOCK_CALL, values)
        return call_entry(rows[0]) if rows else None

    _REVERT_CALL = typed_text(f"""
        WITH own AS ({_OWN}), doing AS (
            SELECT token FROM alfred_refs_call
            WHERE conversation = :p_conversation
                AND number = :p_number
                AND state = 'doing'
                AND EXISTS (SELECT FROM own)
            FOR UPDATE
        ), changes AS (
            DELETE FROM alfred_refs_change AS change USING doing
            WHERE change.conversation = :p_conversation AND change.call = :p_number
        ), waiting AS (
            UPDATE alfred_refs_call AS call
            SET state = 'waiting', decided_by = NULL, decided_at = NULL
            FROM doing
            WHERE call.conversation = :p_conversation
                AND call.number = :p_number
                AND doing.token IS NOT NULL
        )
        DELETE FROM alfred_refs_call AS call USING doing
        WHERE call.conversation = :p_conversation
            AND call.number = :p_number
            AND doing.token IS NULL
    """)

    def revert_call(self, address: Address, number: int) -> None:
        values = address_parameters(address) | {"p_number": number}
        self._write([self._REVERT_CALL], values)

    # Reading

    _CALLS = typed_text(f"""
        SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, entry.*
        FROM alfred_refs_conversation
        LEFT JOIN LATERAL (
            SELECT {_ENTRY} FROM alfred_refs_call
            WHERE conversation = :p_conversation
                AND (CAST(:p_numbers AS integer[]) IS NULL OR number = ANY (:p_numbers))
                AND (CAST(:p_call_id AS text) IS NULL OR call_id = :p_call_id)
                AND (CAST(:p_turn AS integer) IS NULL OR turn = :p_turn)
                AND (CAST(:p_before AS integer) IS NULL OR number < :p_before)
                AND (CAST(:p_states AS text[]) IS NULL OR ({_STATE}) = ANY (:p_states))
                AND (CAST(:p_ref AS text) IS NULL OR number IN (
                    SELECT call FROM alfred_refs_change
                    WHERE conversation = :p_conversation AND ref = :p_ref
                ))
            ORDER BY number DESC
            LIMIT :p_limit
        ) AS entry ON true
        WHERE conversation = :p_conversation
        ORDER BY entry.number
    """)

    def calls(
        self,
        address: Address,
        *,
        numbers: Collection[int] | None = None,
        call_id: str | None = None,
        turn: int | None = None,
        ref: str | None = None,
        states: Collection[CallState] | None = None,
        before: int | None = None,
        limit: int = 1000,
    ) -> list[CallEntry]:
        rows: Sequence[Any] = self._read_own(
            self._CALLS,
            address,
            p_numbers=None if numbers is None else list(numbers),
            p_call_id=call_id,
            p_turn=turn,
            p_ref=ref,
            p_states=None if states is None else list(states),
            p_before=before,
            p_limit=limit,
        )
        return [call_entry(entry) for _, *entry in rows if entry[0] is not None]

    _CHANGES = typed_text(f"""
        SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, entry.*
        FROM alfred_refs_conversation
        LEFT JOIN LATERAL (
            SELECT {_CHANGE} FROM alfred_refs_change
            WHERE conversation = :p_conversation AND call = ANY (:p_numbers)
                AND place > :p_place
                AND (CAST(:p_limit AS integer) IS NULL OR place <= :p_place + :p_limit)
        ) AS entry ON true
        WHERE conversation = :p_conversation
        ORDER BY entry.call, entry.place
    """)

    def changes(
        self, address: Address, calls: Collection[int], after: int = 0, limit: int | None = None
    ) -> list[ChangeEntry]:
        values = {"p_numbers": list(calls), "p_place": after, "p_limit": limit}
        rows: Sequence[Any] = self._read_own(self._CHANGES, address, **values)
        return [change_entry(entry) for _, *entry in rows if entry[0] is not None]

    _WAITING = typed_text(f"""
        SELECT conversations.id, conversations.owner, calls.*
        FROM (SELECT conversation, {_ENTRY} FROM alfred_refs_call WHERE state = 'waiting') AS calls
        JOIN alfred_refs_conversation AS conversations USING (conversation)
        WHERE calls.state = 'waiting'
            AND (:p_of_any OR conversations.owner IS NOT DISTINCT FROM :p_owner)
            AND (
                :p_asked_at IS NULL
                OR (calls.asked_at, calls.conversation, calls.number)
                    > (:p_asked_at, :p_after, :p_number)
            )
        ORDER BY calls.asked_at, calls.conversation, calls.number
        LIMIT :p_limit
    """)

    def waiting(
        self,
        owner: str | EllipsisType | None = ...,
        limit: int | None = None,
        after: tuple[datetime, str, int] | None = None,
    ) -> list[tuple[str, str | None, CallEntry]]:
        asked_at, id_, number = after or (None, None, None)
        values = {
            "p_asked_at": asked_at,
            "p_after": None if id_ is None else Address(id_).digest,
            "p_number": number,
            "p_limit": limit,
            **filter_parameters(owner),
        }
        rows = self._read(self._WAITING, values)
        return [(row.id, row.owner, call_entry(row[3:])) for row in rows]

    # For operators

    # A subquery in FROM may be scanned again for each row, and would choose others each time.
    _EXPIRE_CALLS = typed_text("""
        WITH chosen AS (
            SELECT conversation, number FROM alfred_refs_call
            WHERE state = 'waiting' AND expires_at <= now()
            ORDER BY asked_at
            LIMIT :p_limit
            FOR UPDATE SKIP LOCKED
        )
        UPDATE alfred_refs_call AS calls SET state = 'expired', decided_at = calls.expires_at
        FROM chosen
        WHERE calls.conversation = chosen.conversation AND calls.number = chosen.number
        RETURNING 1
    """)

    def expire_calls(self, batch: int) -> Iterator[int]:
        while expired := len(self._write([self._EXPIRE_CALLS], {"p_limit": batch})):
            yield expired

    _PRUNE_CHANGES = typed_text(
        """
        WITH chosen AS (
            SELECT conversation, number FROM alfred_refs_call AS calls
            WHERE (conversation, number) > (:p_after, :p_number)
                AND state NOT IN ('waiting', 'doing')
                AND coalesce(decided_at, asked_at) <= now() - CAST(:p_older_than AS interval)
                AND (
                    num_nonnulls(arguments, plan, answer) > 0
                    OR EXISTS (
                        SELECT FROM alfred_refs_change AS changes
                        WHERE changes.conversation = calls.conversation
                            AND changes.call = calls.number
                            AND num_nonnulls(label, before, after) > 0
                    )
                )
            ORDER BY conversation, number
            LIMIT :p_limit
            FOR UPDATE SKIP LOCKED
        ), pruned AS (
            UPDATE alfred_refs_change AS changes SET label = NULL, before = NULL, after = NULL
            FROM chosen
            WHERE changes.conversation = chosen.conversation AND changes.call = chosen.number
        ), emptied AS (
            UPDATE alfred_refs_call AS calls SET arguments = NULL, plan = NULL, answer = NULL
            FROM chosen
            WHERE calls.conversation = chosen.conversation AND calls.number = chosen.number
        )
        SELECT conversation, number FROM chosen ORDER BY conversation, number
        """,
        "conversation number",
    )

    def prune_changes(self, older_than: timedelta, batch: int) -> Iterator[int]:
        values = {"p_older_than": older_than, "p_limit": batch}
        last: Sequence[Any] = (uuid.UUID(int=0), 0)
        while True:
            place = {"p_after": last[0], "p_number": last[1]}
            pruned = self._write([self._PRUNE_CHANGES], values | place)
            if not pruned:
                return
            yield len(pruned)
            last = pruned[-1]

    # Erases the data of a row in conversations that are locked. A call that has changed the row or
    # names it loses its contents; one that waits expires.
    _ERASE_CALLS = typed_text(rf"""
        WITH refs AS (
            SELECT known.conversation, counters.entity || '_' || known.number AS ref
            FROM alfred_refs_mapping AS known, alfred_refs_counter AS counters
            WHERE known.conversation = ANY (:p_chosen) AND {OF_ROW}
            UNION ALL
            SELECT known.conversation, 'gen_' || counters.entity || '_' || known.number
            FROM alfred_refs_draft AS known, alfred_refs_counter AS counters
            WHERE known.conversation = ANY (:p_chosen) AND state = 'saved' AND {OF_ROW}
        ), erased AS (
            UPDATE alfred_refs_change AS changes SET label = NULL, before = NULL, after = NULL
            FROM refs
            WHERE changes.conversation = refs.conversation AND changes.ref = refs.ref
            RETURNING changes.conversation, changes.call
        )
        UPDATE alfred_refs_call AS calls SET
            arguments = NULL,
            plan = NULL,
            answer = NULL,
            decided_at = CASE WHEN state = 'waiting' THEN now() ELSE decided_at END,
            state = CASE WHEN state = 'waiting' THEN 'expired' ELSE state END
        WHERE conversation = ANY (:p_chosen) AND (
            (conversation, number) IN (SELECT conversation, call FROM erased)
            OR EXISTS (
                SELECT FROM refs
                WHERE refs.conversation = calls.conversation
                    AND regexp_replace(
                        concat_ws(' ', arguments, plan, answer), '\\(u[0-9a-f]{{4}}|.)', ' ', 'g'
                    ) ~ ('(?<![A-Za-z0-9_])' || ref || '(?![A-Za-z0-9_])')
            )
        )
    """)

    # Of an export

    _PAGE_OF_CALLS = typed_text(f"""
        SELECT {_ENTRY} FROM alfred_refs_call
        WHERE conversation = :p_conversation AND number > :p_number
        ORDER BY number
        LIMIT :p_limit
    """)

    def _call_pages(
        self, fetch: Fetch, address: Address
    ) -> Iterator[tuple[list[CallEntry], list[ChangeEntry]]]:
        """Yield pages of calls, in order, each with the rows that its calls changed."""
        values, number = address_parameters(address) | {"p_limit": PAGE}, 0
        while calls := [
            call_entry(row) for row in fetch(self._PAGE_OF_CALLS, values | {"p_number": number})
        ]:
            numbers = [call.number for call in calls]
            of_all = {"p_numbers": numbers, "p_place": 0, "p_limit": None}
            rows: Sequence[Any] = fetch(self._CHANGES, values | of_all)
            yield calls, [change_entry(entry) for _, *entry in rows if entry[0] is not None]
            number = numbers[-1]

    _RESTORE_CALL = typed_text("""
        INSERT INTO alfred_refs_call (
            conversation, number, turn, asked_at, decided_at, expires_at, seconds, undoes, tool,
            state, actor, acting_user, call_id, decided_by, reason, token, arguments, plan, answer
        ) VALUES (
            :p_conversation, :p_number, :p_turn, :p_asked_at, :p_decided_at, :p_expires_at,
            :p_seconds, :p_undoes, :p_tool, :p_state, :p_actor, :p_user, :p_call_id,
            :p_decided_by, :p_reason, :p_token, CAST(:p_arguments AS json), CAST(:p_plan AS json),
            CAST(:p_answer AS json)
        )
    """)
    _RESTORE_CHANGES = typed_text(_ADD_CHANGES.format("CAST(facts ->> 0 AS integer)", ""))

    @staticmethod
    def _call_parameters(call: CallEntry) -> dict[str, Any]:
        """Return the parameters of `_RESTORE_CALL`."""
        values = {f"p_{each.name}": getattr(call, each.name) for each in fields(call)}
        contents = {f"p_{name}": json_or_none(getattr(call, name)) for name in CONTENTS}
        return values | contents


def call_entry(row: Sequence[Any]) -> CallEntry:
    """Return the call in the columns of `_ENTRY`."""
    values = dict(zip(_READ, row, strict=True))
    for name in CONTENTS:
        values[name] = _value_or_none(values[name])
    return CallEntry(*values.values())


def change_entry(row: Sequence[Any]) -> ChangeEntry:
    """Return the change in the columns of `_CHANGE`."""
    call, place, table, ref, label, action, key, *images = row
    before, after = map(_value_or_none, images)
    return ChangeEntry(call, place, table, ref, label, action, json.loads(key), before, after)


def change_parameters(changes: Sequence[ChangeEntry]) -> dict[str, Any]:
    """Return the parameters of `_ADD_CHANGES`."""
    return {
        "p_facts": json_text(
            [[c.call, c.place, c.table, c.ref, c.label, c.action] for c in changes]
        ),
        "p_key_images": json_text([_image(c.key) for c in changes]),
        "p_befores": json_text([_image(c.before) for c in changes]),
        "p_afters": json_text([_image(c.after) for c in changes]),
    }


def _image(values: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    return None if values is None else dict(values)


def _value_or_none(text: str | None) -> Any | None:
    return None if text is None else json.loads(text)
