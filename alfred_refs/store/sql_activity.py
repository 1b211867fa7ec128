"""The SQL of the Postgres store that is about what was done with rows, and about steps.

Parameters are as in `sql_refs`. What writes does so under the lock of the conversation's row, as
those who mint, so that of two snapshots of a row the later has what the earlier had.
"""

from __future__ import annotations

from .activity import KEPT_TURNS, LARGEST
from .sql_parameters import MINE, NONE_OF_ANOTHER_TABLE, OF_TABLE, statement

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

note = statement(f"""
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
noted = statement(f"SELECT {MINE} AND {NONE_OF_ANOTHER_TABLE}")

_OF_NAMED = f"""activity.conversation = :p_conversation
    AND activity.kind = counters.kind
    AND activity.number = named.number
    AND counters.conversation = :p_conversation
    AND counters.entity = named.entity
    AND {OF_TABLE}
    AND {MINE}"""
_NAMED = "unnest(:p_entities, :p_numbers) AS named (entity, number)"

# A ref of which nothing was noted yet is retained as one that is linked.
retain = statement(f"""
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
demote = statement(f"""
    UPDATE alfred_refs_activity AS activity SET demoted = true
    FROM alfred_refs_counter AS counters, {_NAMED}
    WHERE {_OF_NAMED}
""")
drop = statement(f"""
    DELETE FROM alfred_refs_activity AS activity
    USING alfred_refs_counter AS counters, {_NAMED}
    WHERE {_OF_NAMED}
""")

# The last turns by one index, what is retained by another, each from its end.
_ENTRY = "kind, number, action, actor, first_turn, last_turn, reason, demoted, seen_turn, content"
activity = statement(
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
add_step = statement(f"""
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
steps = statement(
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
forget_seen = statement(f"""
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
restore_activity = statement("""
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
restore_steps = statement("""
    INSERT INTO alfred_refs_step (conversation, turn, number, content)
    SELECT :p_conversation, turn, number, CAST(content AS json)
    FROM unnest(:p_turns, :p_numbers, :p_contents) AS new (turn, number, content)
""")
page_of_activity = statement(
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
all_steps = statement(
    """
    SELECT turn, number, CAST(content AS text) AS content FROM alfred_refs_step
    WHERE conversation = :p_conversation
    ORDER BY turn, number
    """,
    "turn number content",
)
