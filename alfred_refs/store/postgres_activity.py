"""Activity in PostgreSQL: the last action on each row, retained refs, and the steps of agents.

`PostgresActivity` is the part of `PostgresStore` that is about activity. Each statement is a class
attribute above the method that sends it.

>>> from alfred_refs.store import Activity
>>> store = PostgresActivity(engine)
>>> address = Address("chat-7")
>>> store.note(address, [Activity(("meal", 4711), "created", label="Lunch")], "user")
>>> [entry] = store.activity(address, turns=3).entries
>>> str(entry.ref), entry.action, entry.actor, entry.label
('meal_1', 'created', 'user', 'Lunch')
>>> store.add_step(address, '{"note": "meal_1 is new"}').number
1

There is one row for each ref: the last action on its row, the turns of the first and the last one,
and the names of the columns and relationships that the model was shown. Values are not stored:
prompts read them. `note` mints refs for keys that have none, and adds the names, in one batch
under the lock of the conversation's row. A batch that mints no ref does not wait for the disk, so
a crash of the server may lose the last activity. Names that are older than `KEPT_TURNS` are
replaced.

`activity` reads the last turns by one index and the retained refs by another, each from its end.
Steps older than `KEPT_TURNS` are deleted by `begin_turn`.

Limits: at most 2,000 entries are returned. Only the last action on a row is kept, no history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from alfred_refs.errors import UnknownConversationError
from alfred_refs.mapping.keys import Ref, encode
from alfred_refs.store.postgres_drafts import PAGE, Fetch
from alfred_refs.store.postgres_refs import PostgresRefs, ref_parameters
from alfred_refs.store.sql import (
    CURRENT_TURN,
    MINE,
    NONE_OF_ANOTHER_TABLE,
    OF_TABLE,
    REQUESTED_REFS,
    WORKING_TURN,
    address_parameters,
    json_or_none,
    typed_text,
)
from alfred_refs.store.values import (
    KEPT_TURNS,
    Activity,
    ActivityEntry,
    ActivityRecord,
    Actor,
    Address,
    StepEntry,
    json_text,
)

if TYPE_CHECKING:
    from sqlalchemy import Executable, Row

_MOST = 2_000  # entries that `activity` returns, of each of its two kinds

_ENTRY = "kind, number, action, actor, first_turn, last_turn, reason, demoted, fields"

# The actions to record, each with the number of its key; keys without ref are left out.
_NOTED = f"""
    SELECT
        counters.kind, mappings.number, noted.action, noted.fields, {WORKING_TURN} AS turn
    FROM json_to_recordset(CAST(:p_noted AS json))
        AS noted (entity text, key bytea, action text, fields json)
    JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = noted.entity
    CROSS JOIN LATERAL (
        SELECT number FROM alfred_refs_mapping
        WHERE conversation = :p_conversation
            AND kind = counters.kind
            AND key = noted.key
        LIMIT 1
    ) AS mappings
    WHERE {OF_TABLE} AND {MINE}
"""

# `merge_fields` of `memory` in SQL. To concatenate null and an array is the array.
_FIELDS = f"""CASE
    WHEN noted.action = 'deleted' THEN NULL
    WHEN noted.fields IS NULL THEN known.fields
    ELSE ARRAY(
        SELECT json_array_elements_text(noted.fields)
        UNION
        SELECT unnest(known.fields) WHERE known.last_turn > noted.turn - {KEPT_TURNS}
        ORDER BY 1
    )
END"""

# `is_covered` of `memory` in SQL.
_COVERED = """coalesce(
    CASE WHEN noted.action = 'linked' THEN known.action <> 'linked'
         WHEN noted.action = 'read' THEN
             known.last_turn = noted.turn AND known.action IN ('created', 'updated', 'mentioned')
         ELSE false END,
    false
)"""

# Joins counters, activity and the requested refs in an UPDATE or DELETE.
_ACTIVITY_OF_REQUESTED = f"""activity.conversation = :p_conversation
    AND activity.kind = counters.kind
    AND activity.number = requested.number
    AND counters.conversation = :p_conversation
    AND counters.entity = requested.entity
    AND {OF_TABLE}
    AND {MINE}"""


class PostgresActivity(PostgresRefs):
    """The part of `PostgresStore` that is about actions on rows, and about steps."""

    # False if nothing could be recorded: another owner's conversation, or refs of other tables.
    _NOTE = typed_text(f"""
        WITH noted AS ({_NOTED}), merged AS (
            SELECT
                noted.kind, noted.number, noted.turn,
                coalesce(known.first_turn, noted.turn) AS first_turn,
                CASE WHEN {_COVERED} THEN known.last_turn ELSE noted.turn END AS last_turn,
                CASE WHEN {_COVERED} THEN known.action ELSE noted.action END AS action,
                CASE WHEN {_COVERED} THEN known.actor ELSE :p_actor END AS actor,
                known.demoted AND noted.action = 'linked' AS demoted,
                {_FIELDS} AS fields
            FROM noted LEFT JOIN alfred_refs_activity AS known
                ON known.conversation = :p_conversation
                AND known.kind = noted.kind
                AND known.number = noted.number
        ), stored AS (
            INSERT INTO alfred_refs_activity AS activity
                (conversation, kind, number, first_turn, last_turn, action, actor, demoted, fields)
            SELECT
                :p_conversation, kind, number, first_turn, last_turn, action, actor,
                coalesce(demoted, false), fields
            FROM merged
            ON CONFLICT (conversation, kind, number) DO UPDATE SET
                last_turn = excluded.last_turn,
                action = excluded.action,
                actor = excluded.actor,
                demoted = excluded.demoted,
                fields = excluded.fields
            WHERE ROW (
                activity.last_turn, activity.action, activity.actor, activity.demoted,
                activity.fields
            ) IS DISTINCT FROM ROW (
                excluded.last_turn, excluded.action, excluded.actor, excluded.demoted,
                excluded.fields
            )
        )
        SELECT {MINE} AND {NONE_OF_ANOTHER_TABLE}
    """)

    def note(
        self,
        address: Address,
        done: Sequence[Activity],
        actor: Actor,
        turn: int | None = None,
    ) -> None:
        if not done:
            return
        # those whose keys may have no ref yet: _REFER mints one
        maybe_new = [each for each in done if not (each.shown or each.action == "deleted")]
        values = address_parameters(address) | {
            "p_entities": [each.key[0] for each in maybe_new],
            "p_keys": [encode(each.key[1]) for each in maybe_new],
            "p_labels": [each.label for each in maybe_new],
            "p_tables": address.tables_of(each.key[0] for each in done),
            # one document: arrays of texts take the driver longer than all the rest
            "p_noted": json_text(
                [
                    {
                        "entity": each.key[0],
                        "key": rf"\x{encode(each.key[1]).hex()}",
                        "action": each.action,
                        "fields": None if each.fields is None else [*each.fields],
                    }
                    for each in done
                ]
            ),
            "p_actor": actor,
            "p_turn": turn,
        }
        mint = [self._REFER] if maybe_new else []
        batch = [self._LOCK_ALWAYS, *mint, self._NOTE]
        [(is_noted,)] = self._write(batch, values, durable=bool(maybe_new))
        if not is_noted:
            self._check_tables(address)
            raise UnknownConversationError(address.id)

    # Entries, and then one row for each entity with the number of its refs.
    _ACTIVITY = typed_text(
        f"""
        WITH found AS (
            (
                SELECT {_ENTRY} FROM alfred_refs_activity
                WHERE conversation = :p_conversation AND last_turn > {WORKING_TURN} - :p_turns_back
                ORDER BY last_turn DESC
                LIMIT :p_limit
            ) UNION ALL (
                SELECT {_ENTRY} FROM alfred_refs_activity
                WHERE conversation = :p_conversation
                    AND reason IS NOT NULL
                    AND last_turn <= {WORKING_TURN} - :p_turns_back
                ORDER BY last_turn DESC
                LIMIT :p_limit
            )
        ), result AS (
            SELECT
                counters.entity, counters.table_name, found.number, mappings.gone, mappings.label,
                found.action, found.actor, found.first_turn, found.last_turn, found.reason,
                found.demoted, found.fields, CAST(NULL AS integer) AS refs
            FROM found
            JOIN alfred_refs_counter AS counters
                ON counters.conversation = :p_conversation AND counters.kind = found.kind
            LEFT JOIN LATERAL (
                SELECT gone, label FROM alfred_refs_mapping
                WHERE conversation = :p_conversation
                    AND kind = found.kind
                    AND number = found.number
                LIMIT 1
            ) AS mappings ON true
            UNION ALL
            SELECT
                entity, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                last - forgotten
            FROM alfred_refs_counter
            WHERE conversation = :p_conversation AND last > forgotten
        )
        SELECT conversations.owner IS NOT DISTINCT FROM :p_owner AS mine,
            coalesce(:p_turn, conversations.turn) AS turn, result.*
        FROM alfred_refs_conversation AS conversations LEFT JOIN result ON true
        WHERE conversations.conversation = :p_conversation
        """,
        "mine turn entity table_name number gone label action actor first_turn last_turn reason"
        " demoted fields refs",
    )

    def activity(self, address: Address, turns: int, turn: int | None = None) -> ActivityRecord:
        values = {"p_turns_back": turns, "p_limit": _MOST, "p_turn": turn}
        rows = self._read_own(self._ACTIVITY, address, **values)
        tables = ((row.entity, row.table_name) for row in rows if row.table_name is not None)
        for entity, table in dict.fromkeys(tables):
            address.check_table(entity, table)
        return ActivityRecord(
            rows[0].turn if rows else turn or 0,
            sorted((_entry(row) for row in rows if row.action), key=lambda entry: entry.ref),
            {row.entity: row.refs for row in rows if row.refs is not None},
        )

    # A ref without activity is inserted as one that is linked.
    _RETAIN = typed_text(f"""
        INSERT INTO alfred_refs_activity AS activity
            (conversation, kind, number, first_turn, last_turn, action, actor, reason)
        SELECT
            :p_conversation, counters.kind, requested.number, {CURRENT_TURN}, {CURRENT_TURN},
            'linked', :p_actor, :p_reason
        FROM {REQUESTED_REFS}
        JOIN alfred_refs_counter AS counters
            ON counters.conversation = :p_conversation AND counters.entity = requested.entity
        WHERE {OF_TABLE} AND {MINE} AND EXISTS (
            SELECT 1 FROM alfred_refs_mapping
            WHERE conversation = :p_conversation
                AND kind = counters.kind
                AND number = requested.number
        )
        ON CONFLICT (conversation, kind, number) DO UPDATE SET
            reason = excluded.reason, demoted = false
    """)

    def retain(self, address: Address, refs: Sequence[Ref], reason: str, actor: Actor) -> None:
        self._change(self._RETAIN, address, refs, p_reason=reason, p_actor=actor)

    _DEMOTE = typed_text(f"""
        UPDATE alfred_refs_activity AS activity SET demoted = true
        FROM alfred_refs_counter AS counters, {REQUESTED_REFS}
        WHERE {_ACTIVITY_OF_REQUESTED}
    """)

    def demote(self, address: Address, refs: Sequence[Ref]) -> None:
        self._change(self._DEMOTE, address, refs)

    _DROP = typed_text(f"""
        DELETE FROM alfred_refs_activity AS activity
        USING alfred_refs_counter AS counters, {REQUESTED_REFS}
        WHERE {_ACTIVITY_OF_REQUESTED}
    """)

    def drop(self, address: Address, refs: Sequence[Ref]) -> None:
        self._change(self._DROP, address, refs)

    def _change(
        self, statement: Executable, address: Address, refs: Sequence[Ref], **values: Any
    ) -> None:
        parameters = address_parameters(address) | ref_parameters(address, refs) | values
        self._write([self._LOCK_BEGUN, statement], parameters)

    _ADD_STEP = typed_text(f"""
        INSERT INTO alfred_refs_step (conversation, turn, number, content)
        SELECT
            :p_conversation, working.turn,
            coalesce(max(steps.number), 0) + 1,
            CAST(:p_content AS json)
        FROM (SELECT {WORKING_TURN} AS turn) AS working
        LEFT JOIN alfred_refs_step AS steps
            ON steps.conversation = :p_conversation AND steps.turn = working.turn
        WHERE {MINE}
        GROUP BY working.turn
        RETURNING turn, number
    """)

    def add_step(self, address: Address, content: str, turn: int | None = None) -> StepEntry:
        values = address_parameters(address) | {"p_content": content, "p_turn": turn}
        rows = self._write([self._LOCK_ALWAYS, self._ADD_STEP], values, idempotent=False)
        if not rows:
            raise UnknownConversationError(address.id)
        [(working_turn, number)] = rows
        return StepEntry(working_turn, number, content)

    _STEPS = typed_text(
        f"""
        SELECT
            conversations.owner IS NOT DISTINCT FROM :p_owner AS mine,
            steps.turn, steps.number, CAST(steps.content AS text) AS content
        FROM alfred_refs_conversation AS conversations
        LEFT JOIN alfred_refs_step AS steps
            ON steps.conversation = :p_conversation
            AND steps.turn > {WORKING_TURN} - :p_turns_back
        WHERE conversations.conversation = :p_conversation
        ORDER BY steps.turn, steps.number
        """,
        "mine turn number content",
    )

    def steps(self, address: Address, turns: int, turn: int | None = None) -> list[StepEntry]:
        rows = self._read_own(self._STEPS, address, p_turns_back=turns, p_turn=turn)
        return [_step(row) for row in rows if row.turn is not None]

    # Of an export

    _PAGE_OF_ACTIVITY = typed_text(
        """
        SELECT
            counters.entity, found.number, NULL AS gone, NULL AS label, found.action, found.actor,
            found.first_turn, found.last_turn, found.reason, found.demoted, found.fields
        FROM alfred_refs_counter AS counters
        CROSS JOIN LATERAL (
            SELECT * FROM alfred_refs_activity
            WHERE conversation = :p_conversation
                AND kind = counters.kind
                AND number > CASE WHEN counters.entity = :p_after_entity THEN :p_number ELSE 0 END
            ORDER BY number
            LIMIT :p_limit
        ) AS found
        WHERE counters.conversation = :p_conversation
            AND counters.entity COLLATE "C" >= :p_after_entity
        ORDER BY counters.entity COLLATE "C", found.number
        LIMIT :p_limit
        """,
        "entity number gone label action actor first_turn last_turn reason demoted fields",
    )

    def _activity_pages(self, fetch: Fetch, address: Address) -> Iterator[ActivityEntry]:
        """Yield all activity in natural order, page by page."""
        values = address_parameters(address) | {"p_limit": PAGE}
        last: Ref | None = Ref("", 0)
        while last is not None:
            place = {"p_after_entity": last.entity, "p_number": last.number}
            page = [_entry(row) for row in fetch(self._PAGE_OF_ACTIVITY, values | place)]
            yield from page
            last = page[-1].ref if len(page) == PAGE else None

    _ALL_STEPS = typed_text(
        """
        SELECT turn, number, CAST(content AS text) AS content FROM alfred_refs_step
        WHERE conversation = :p_conversation
        ORDER BY turn, number
        """,
        "turn number content",
    )

    def _all_steps(self, fetch: Fetch, address: Address) -> list[StepEntry]:
        return [_step(row) for row in fetch(self._ALL_STEPS, address_parameters(address))]

    _RESTORE_ACTIVITY = typed_text("""
        INSERT INTO alfred_refs_activity
            (conversation, kind, number, first_turn, last_turn, action, actor, reason, demoted,
             fields)
        SELECT
            :p_conversation, counters.kind, new.number, new.first_turn, new.last_turn, new.action,
            new.actor, new.reason, new.demoted,
            CASE WHEN new.fields IS NOT NULL
                 THEN ARRAY(SELECT json_array_elements_text(CAST(new.fields AS json))) END
        FROM unnest(
            :p_entities, :p_numbers, :p_first_turns, :p_turns, :p_actions, :p_actors, :p_reasons,
            :p_demoted, :p_fields
        ) AS new (
            entity, number, first_turn, last_turn, action, actor, reason, demoted, fields
        )
        JOIN alfred_refs_counter AS counters
            ON counters.conversation = :p_conversation AND counters.entity = new.entity
    """)

    @staticmethod
    def _activity_parameters(entries: Sequence[ActivityEntry]) -> dict[str, Any]:
        """Return the parameters of `_RESTORE_ACTIVITY`."""
        return {
            "p_entities": [entry.ref.entity for entry in entries],
            "p_numbers": [entry.ref.number for entry in entries],
            "p_first_turns": [entry.first_turn for entry in entries],
            "p_turns": [entry.last_turn for entry in entries],
            "p_actions": [entry.action for entry in entries],
            "p_actors": [entry.actor for entry in entries],
            "p_reasons": [entry.reason for entry in entries],
            "p_demoted": [entry.demoted for entry in entries],
            "p_fields": [json_or_none(entry.fields) for entry in entries],
        }

    _RESTORE_STEPS = typed_text("""
        INSERT INTO alfred_refs_step (conversation, turn, number, content)
        SELECT :p_conversation, turn, number, CAST(content AS json)
        FROM unnest(:p_turns, :p_numbers, :p_contents) AS new (turn, number, content)
    """)

    @staticmethod
    def _step_parameters(steps: Sequence[StepEntry]) -> dict[str, Any]:
        """Return the parameters of `_RESTORE_STEPS`."""
        return {
            "p_turns": [step.turn for step in steps],
            "p_numbers": [step.number for step in steps],
            "p_contents": [step.content for step in steps],
        }


def _entry(row: Row[Any]) -> ActivityEntry:
    return ActivityEntry(
        ref=Ref(row.entity, row.number),
        gone=row.gone,
        label=row.label,
        action=row.action,
        actor=row.actor,
        first_turn=row.first_turn,
        last_turn=row.last_turn,
        reason=row.reason,
        demoted=row.demoted,
        fields=None if row.fields is None else sorted(row.fields),
    )


def _step(row: Row[Any]) -> StepEntry:
    return StepEntry(row.turn, row.number, row.content)
