"""Activity log in PostgreSQL: the SQL and the methods that send it.

The SQL of the Postgres store that is about what was done with rows, and about steps.

Parameters are as in `sql_refs`. What writes does so under the lock of the conversation's row, as
those who mint, so that of two snapshots of a row the later has what the earlier had.

What was done with rows, and steps, in PostgreSQL.

It is a part of `PostgresStore`, which runs it on connections of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from alfred_refs.errors import UnknownConversationError
from alfred_refs.mapping.keys import Ref, encode
from alfred_refs.store import sql as sql_refs
from alfred_refs.store.connections import Sending, only_mine
from alfred_refs.store.postgres_drafts import PAGE, Fetch
from alfred_refs.store.protocol import (
    KEPT_TURNS,
    LARGEST,
    Activity,
    ActivityEntry,
    ActivityRecord,
    Actor,
    Address,
    StepEntry,
    json_text,
)
from alfred_refs.store.sql import (
    MINE,
    NONE_OF_ANOTHER_TABLE,
    OF_TABLE,
    address_parameters,
    typed_text,
)

_TURN = "(SELECT turn FROM alfred_refs_conversation WHERE conversation = :p_conversation)"
# The turn that somebody works in, where he says which: others may have begun meanwhile.
_WORKING_TURN = f"coalesce(:p_turn, {_TURN})"

# What is noted, each with the number of its key; without the keys that have no ref. As in
# `sql_refs` the limit makes it one probe of an index for each.
_NOTED = f"""
    SELECT
        counters.kind, mappings.number, noted.action, noted.seen, noted.heads,
        {_WORKING_TURN} AS turn
    FROM unnest(:p_noted, :p_noted_keys, :p_actions, :p_contents, :p_heads)
        AS noted (entity, key, action, seen, heads)
    JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = noted.entity
    CROSS JOIN LATERAL (
        SELECT number FROM alfred_refs_mapping
        WHERE conversation = :p_conversation AND kind = counters.kind AND key = noted.key
        LIMIT 1
    ) AS mappings
    WHERE {OF_TABLE} AND {MINE}
"""

# The newest value of each field, in the order in which they came: `json` keeps numbers and the
# order of fields as they were, which `jsonb` does not.
_MERGED = """(
    SELECT coalesce(
        json_object_agg(
            key, coalesce(new.value, old.value, head.value)
            ORDER BY old.place, new.place, head.place
        ),
        '{}'
    )
    FROM json_each(known.content) WITH ORDINALITY AS old (key, value, place)
    FULL JOIN json_each(CAST(noted.seen AS json)) WITH ORDINALITY AS new (key, value, place)
        USING (key)
    FULL JOIN json_each(CAST(noted.heads AS json)) WITH ORDINALITY AS head (key, value, place)
        USING (key)
)"""

# See `activity.is_covered`.
_COVERED = """coalesce(
    CASE WHEN noted.action = 'linked' THEN known.action <> 'linked'
         WHEN noted.action = 'read' THEN
             known.last_turn = noted.turn AND known.action IN ('created', 'updated', 'mentioned')
         ELSE false END,
    false
)"""

NOTE = typed_text(f"""
    WITH noted AS ({_NOTED}), merged AS (
        SELECT
            noted.kind, noted.number, noted.turn,
            coalesce(known.first_turn, noted.turn) AS first_turn,
            CASE WHEN {_COVERED} THEN known.last_turn ELSE noted.turn END AS last_turn,
            CASE WHEN {_COVERED} THEN known.action ELSE noted.action END AS action,
            CASE WHEN {_COVERED} THEN known.actor ELSE :p_actor END AS actor,
            known.demoted AND noted.action = 'linked' AS demoted,
            CASE WHEN noted.seen IS NULL OR noted.action = 'deleted' THEN known.seen_turn
                 ELSE noted.turn END AS seen_turn,
            CASE WHEN noted.action = 'deleted' THEN NULL
                 WHEN noted.seen IS NULL THEN known.content
                 ELSE {_MERGED} END AS content,
            noted.seen
        FROM noted LEFT JOIN alfred_refs_activity AS known
            ON known.conversation = :p_conversation
            AND known.kind = noted.kind
            AND known.number = noted.number
    )
    INSERT INTO alfred_refs_activity
        (conversation, kind, number, first_turn, last_turn, action, actor, demoted, seen_turn,
         content)
    SELECT
        :p_conversation, kind, number, first_turn, last_turn, action, actor,
        coalesce(demoted, false), seen_turn,
        CASE WHEN length(CAST(content AS text)) > {LARGEST} THEN CAST(seen AS json)
             ELSE content END
    FROM merged
    ON CONFLICT (conversation, kind, number) DO UPDATE SET
        last_turn = excluded.last_turn,
        action = excluded.action,
        actor = excluded.actor,
        demoted = excluded.demoted,
        seen_turn = excluded.seen_turn,
        content = excluded.content
""")

# Whether it could be noted: not in another's conversation, nor for other tables.
NOTED = typed_text(f"SELECT {MINE} AND {NONE_OF_ANOTHER_TABLE}")

_OF_NAMED = f"""activity.conversation = :p_conversation
    AND activity.kind = counters.kind
    AND activity.number = named.number
    AND counters.conversation = :p_conversation
    AND counters.entity = named.entity
    AND {OF_TABLE}
    AND {MINE}"""
_NAMED = "unnest(:p_entities, :p_numbers) AS named (entity, number)"

# A ref of which nothing was noted yet is retained as one that is linked.
RETAIN = typed_text(f"""
    INSERT INTO alfred_refs_activity AS activity
        (conversation, kind, number, first_turn, last_turn, action, actor, reason)
    SELECT
        :p_conversation, counters.kind, named.number, {_TURN}, {_TURN}, 'linked', :p_actor,
        :p_reason
    FROM {_NAMED}
    JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = named.entity
    WHERE {OF_TABLE} AND {MINE} AND EXISTS (
        SELECT 1 FROM alfred_refs_mapping
        WHERE conversation = :p_conversation
            AND kind = counters.kind
            AND number = named.number
    )
    ON CONFLICT (conversation, kind, number) DO UPDATE SET
        reason = excluded.reason, demoted = false
""")
DEMOTE = typed_text(f"""
    UPDATE alfred_refs_activity AS activity SET demoted = true
    FROM alfred_refs_counter AS counters, {_NAMED}
    WHERE {_OF_NAMED}
""")
DROP = typed_text(f"""
    DELETE FROM alfred_refs_activity AS activity
    USING alfred_refs_counter AS counters, {_NAMED}
    WHERE {_OF_NAMED}
""")

# The last turns by one index, what is retained by another, each from its end.
_ENTRY = "kind, number, action, actor, first_turn, last_turn, reason, demoted, seen_turn, content"
ACTIVITY = typed_text(
    f"""
    WITH found AS (
        (
            SELECT {_ENTRY} FROM alfred_refs_activity
            WHERE conversation = :p_conversation AND last_turn > {_WORKING_TURN} - :p_turns_back
            ORDER BY last_turn DESC
            LIMIT :p_limit
        ) UNION ALL (
            SELECT {_ENTRY} FROM alfred_refs_activity
            WHERE conversation = :p_conversation
                AND reason IS NOT NULL
                AND last_turn <= {_WORKING_TURN} - :p_turns_back
            ORDER BY last_turn DESC
            LIMIT :p_limit
        )
    ), told AS (
        SELECT
            counters.entity, counters.table_name, found.number, mappings.gone, mappings.label,
            found.action, found.actor, found.first_turn, found.last_turn, found.reason,
            found.demoted, found.seen_turn, CAST(found.content AS text) AS content,
            CAST(NULL AS integer) AS refs
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
            entity, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            last - forgotten
        FROM alfred_refs_counter
        WHERE conversation = :p_conversation AND last > forgotten
    )
    SELECT conversations.owner IS NOT DISTINCT FROM :p_owner AS mine,
        coalesce(:p_turn, conversations.turn) AS turn, told.*
    FROM alfred_refs_conversation AS conversations LEFT JOIN told ON true
    WHERE conversations.conversation = :p_conversation
    """,
    "mine turn entity table_name number gone label action actor first_turn last_turn reason"
    " demoted seen_turn content refs",
)

# Steps. Numbered in their turn under the lock.
ADD_STEP = typed_text(f"""
    INSERT INTO alfred_refs_step (conversation, turn, number, content)
    SELECT
        :p_conversation, now_in.turn,
        coalesce(max(steps.number), 0) + 1,
        CAST(:p_content AS json)
    FROM (SELECT {_WORKING_TURN} AS turn) AS now_in
    LEFT JOIN alfred_refs_step AS steps
        ON steps.conversation = :p_conversation AND steps.turn = now_in.turn
    WHERE {MINE}
    GROUP BY now_in.turn
    RETURNING turn, number
""")
STEPS = typed_text(
    f"""
    SELECT
        conversations.owner IS NOT DISTINCT FROM :p_owner AS mine,
        steps.turn, steps.number, CAST(steps.content AS text) AS content
    FROM alfred_refs_conversation AS conversations
    LEFT JOIN alfred_refs_step AS steps
        ON steps.conversation = :p_conversation AND steps.turn > {_WORKING_TURN} - :p_turns_back
    WHERE conversations.conversation = :p_conversation
    ORDER BY steps.turn, steps.number
    """,
    "mine turn number content",
)

# What is too old goes as the next turn begins.
FORGET_SEEN = typed_text(f"""
    WITH old AS (
        DELETE FROM alfred_refs_step
        WHERE conversation = :p_conversation AND turn <= {_TURN} - {KEPT_TURNS} AND {MINE}
    )
    UPDATE alfred_refs_activity SET content = NULL
    WHERE conversation = :p_conversation
        AND content IS NOT NULL
        AND seen_turn <= {_TURN} - {KEPT_TURNS}
        AND {MINE}
""")

# What an export has had.
RESTORE_ACTIVITY = typed_text("""
    INSERT INTO alfred_refs_activity
        (conversation, kind, number, first_turn, last_turn, action, actor, reason, demoted,
         seen_turn, content)
    SELECT
        :p_conversation, counters.kind, new.number, new.first_turn, new.last_turn, new.action,
        new.actor, new.reason, new.demoted, new.seen_turn, CAST(new.content AS json)
    FROM unnest(
        :p_entities, :p_numbers, :p_first_turns, :p_turns, :p_actions, :p_actors, :p_reasons,
        :p_demoted, :p_seen_turns, :p_contents
    ) AS new (
        entity, number, first_turn, last_turn, action, actor, reason, demoted, seen_turn, content
    )
    JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = new.entity
""")
RESTORE_STEPS = typed_text("""
    INSERT INTO alfred_refs_step (conversation, turn, number, content)
    SELECT :p_conversation, turn, number, CAST(content AS json)
    FROM unnest(:p_turns, :p_numbers, :p_contents) AS new (turn, number, content)
""")
PAGE_OF_ACTIVITY = typed_text(
    """
    SELECT
        counters.entity, found.number, NULL AS gone, NULL AS label, found.action, found.actor,
        found.first_turn, found.last_turn, found.reason, found.demoted, found.seen_turn,
        CAST(found.content AS text) AS content
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
    "entity number gone label action actor first_turn last_turn reason demoted seen_turn content",
)
ALL_STEPS = typed_text(
    """
    SELECT turn, number, CAST(content AS text) AS content FROM alfred_refs_step
    WHERE conversation = :p_conversation
    ORDER BY turn, number
    """,
    "turn number content",
)


_MOST = 2_000  # entries of one answer, rows inside of others among them


class PostgresActivity(Sending):
    """The part of `PostgresStore` that is about what was done with rows."""

    def note(
        self,
        address: Address,
        done: Sequence[Activity],
        actor: Actor,
        turn: int | None = None,
    ) -> None:
        if not done:
            return
        minted = [each for each in done if not (each.shown or each.action == "deleted")]
        values = address_parameters(address) | {
            "p_entities": [each.key[0] for each in minted],
            "p_keys": [encode(each.key[1]) for each in minted],
            "p_labels": [each.label for each in minted],
            "p_tables": address.tables_of(each.key[0] for each in done),
            "p_noted": [each.key[0] for each in done],
            "p_noted_keys": [encode(each.key[1]) for each in done],
            "p_actions": [each.action for each in done],
            "p_contents": [_text(each.seen) for each in done],
            "p_heads": [_text(each.heads) for each in done],
            "p_actor": actor,
            "p_turn": turn,
        }
        mint = [sql_refs.REFER] if minted else []
        [(is_noted,)] = self._write([sql_refs.LOCK_ALWAYS, *mint, NOTE, NOTED], values)
        if not is_noted:
            self._check_tables(address)
            raise UnknownConversationError(address.id)

    def activity(self, address: Address, turns: int, turn: int | None = None) -> ActivityRecord:
        values = {"p_turns_back": turns, "p_limit": _MOST, "p_turn": turn}
        rows = only_mine(self._rows(ACTIVITY, address, **values), address)
        for row in rows:
            if row.entity is not None:
                address.check_table(row.entity, row.table_name)
        return ActivityRecord(
            rows[0].turn if rows else turn or 0,
            sorted((_entry(row) for row in rows if row.action), key=lambda entry: entry.ref),
            {row.entity: row.refs for row in rows if row.refs is not None},
        )

    def retain(self, address: Address, refs: Sequence[Ref], reason: str, actor: Actor) -> None:
        self._change(RETAIN, address, refs, p_reason=reason, p_actor=actor)

    def demote(self, address: Address, refs: Sequence[Ref]) -> None:
        self._change(DEMOTE, address, refs)

    def drop(self, address: Address, refs: Sequence[Ref]) -> None:
        self._change(DROP, address, refs)

    def _change(
        self, statement: Any, address: Address, refs: Sequence[Ref], **values: Any
    ) -> None:
        arrays = {
            "p_entities": [ref.entity for ref in refs],
            "p_numbers": [ref.number for ref in refs],
            "p_tables": address.tables_of(ref.entity for ref in refs),
        }
        self._write(
            [sql_refs.LOCK_BEGUN, statement], address_parameters(address) | arrays | values
        )

    def add_step(self, address: Address, content: str, turn: int | None = None) -> StepEntry:
        values = address_parameters(address) | {"p_content": content, "p_turn": turn}
        # not tried again when the connection is lost: it may have been kept
        rows = self._write([sql_refs.LOCK_ALWAYS, ADD_STEP], values, again=False)
        if not rows:
            raise UnknownConversationError(address.id)
        [(in_turn, number)] = rows
        return StepEntry(in_turn, number, content)

    def steps(self, address: Address, turns: int, turn: int | None = None) -> list[StepEntry]:
        rows = self._rows(STEPS, address, p_turns_back=turns, p_turn=turn)
        rows = only_mine(rows, address)
        return [
            StepEntry(row.turn, row.number, row.content) for row in rows if row.turn is not None
        ]


def _text(seen: Mapping[str, Any] | None) -> str | None:
    return None if seen is None else json_text(seen)


def _entry(row: Any) -> ActivityEntry:
    return ActivityEntry(
        Ref(row.entity, row.number),
        *(row.gone, row.label, row.action, row.actor, row.first_turn, row.last_turn),
        *(row.reason, row.demoted, row.seen_turn),
        None if row.content is None else json.loads(row.content),
    )


def all_activity(fetch: Fetch, address: Address) -> Iterator[ActivityEntry]:
    """Yield all that was done with a conversation's rows, in natural order, page by page."""
    values = address_parameters(address) | {"p_limit": PAGE}
    after: tuple[str, int] | None = ("", 0)
    while after is not None:
        place = dict(zip(("p_after_entity", "p_number"), after, strict=True))
        page = [_entry(row) for row in fetch(PAGE_OF_ACTIVITY, values | place)]
        yield from page
        after = (page[-1].ref.entity, page[-1].ref.number) if len(page) == PAGE else None


def arrays_of_activity(entries: Sequence[ActivityEntry]) -> dict[str, Any]:
    """Return entries as the parameters of a statement that writes them."""
    return {
        "p_entities": [entry.ref.entity for entry in entries],
        "p_numbers": [entry.ref.number for entry in entries],
        "p_first_turns": [entry.first_turn for entry in entries],
        "p_turns": [entry.last_turn for entry in entries],
        "p_actions": [entry.action for entry in entries],
        "p_actors": [entry.actor for entry in entries],
        "p_reasons": [entry.reason for entry in entries],
        "p_demoted": [entry.demoted for entry in entries],
        "p_seen_turns": [entry.seen_turn for entry in entries],
        "p_contents": [_text(entry.seen) for entry in entries],
    }
