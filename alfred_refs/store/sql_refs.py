"""The SQL of the Postgres store: every statement names the conversation first.

Statements take their values as parameters: `p_conversation` and `p_owner` always; `p_id` where a
conversation may be begun; `p_entities` with `p_keys` or `p_numbers` as parallel arrays, so that a
statement has one shape for one row and for a thousand; `p_tables` as a JSON object, the table of
each entity as far as that is known. What is about drafts is in `sql_drafts`, what is about a
conversation as a whole in `sql_conversations`.

```python
print(sql_refs.resolve)  # as it is sent, but for the names of its parameters
```
"""

from __future__ import annotations

from .sql_parameters import (
    KIND,
    MINE,
    NONE_OF_ANOTHER_TABLE,
    OF_TABLE,
    UNNOTED,
    counted,
    statement,
)

# a shorter array is filled up with nulls: where there are no labels, an empty one does
_WANTED = (
    "unnest(:p_entities, :p_keys, :p_labels)"
    " WITH ORDINALITY AS wanted (entity, key, label, position)"
)

# What is known of each wanted key: one probe of an index for each, because of the limit. As a
# join, it would be planned for a conversation of average size, and read a large one whole.
_WANTED_AND_KNOWN = f"""{_WANTED}
    LEFT JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = wanted.entity
    LEFT JOIN LATERAL (
        SELECT number, gone, label FROM alfred_refs_mapping
        WHERE conversation = :p_conversation AND kind = counters.kind AND key = wanted.key
        LIMIT 1
    ) AS known ON true"""

# Lets processes that start together make the tables one after the other. The number stands for
# them among the advisory locks of the database.
lock_tables = statement(f"SELECT pg_advisory_xact_lock({int.from_bytes(b'alf_refs')})")

# Locks the conversation's row, and makes it if need be, but only where some key is new: a result
# whose keys are all known writes nothing, unless it is to be noted that the conversation is used.
# `excluded.used_at` is the default of a new row: now, which Citus refuses to be called here.
lock = statement(f"""
    INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner)
    SELECT :p_conversation, :p_id, :p_owner
    WHERE EXISTS (SELECT 1 FROM {_WANTED_AND_KNOWN} WHERE known.number IS NULL)
        OR EXISTS (
            SELECT 1 FROM alfred_refs_conversation
            WHERE conversation = :p_conversation AND {UNNOTED}
        )
    ON CONFLICT (conversation) DO UPDATE SET used_at = excluded.used_at
    WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
""")

# Locks it in any case, for keys that `lock` found known, and that are not: meanwhile the
# conversation was forgotten.
lock_always = statement("""
    INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner)
    VALUES (:p_conversation, :p_id, :p_owner)
    ON CONFLICT (conversation) DO UPDATE SET used_at = excluded.used_at
    WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
""")

# Numbers the new keys, and gives new entities a kind, if the conversation's row is locked, or can
# be without waiting. Must be a statement of its own after `lock`: under READ COMMITTED a statement
# keeps the snapshot from before it waited, so only the next one sees what was minted meanwhile.
# A CASE is evaluated row by row: the lock is not taken where no key is new.
refer = statement(f"""
    WITH seen AS (
        SELECT
            wanted.position, wanted.entity, wanted.key, wanted.label AS new_label,
            known.number, known.gone, known.label, counters.kind, counters.last
        FROM {_WANTED_AND_KNOWN}
        WHERE {MINE} AND {NONE_OF_ANOTHER_TABLE}
    ), locked AS (
        SELECT 1 FROM alfred_refs_conversation
        WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
        FOR UPDATE SKIP LOCKED
    ), fresh AS (
        SELECT
            position, entity, kind, key, new_label AS label,
            CAST(
                coalesce(last, 0) + row_number() OVER (PARTITION BY entity ORDER BY position)
                AS integer
            ) AS number
        FROM seen
        WHERE CASE WHEN number IS NULL THEN EXISTS (SELECT 1 FROM locked) ELSE false END
    ), counted AS (
        {counted("fresh", "last")}
    ), minted AS (
        INSERT INTO alfred_refs_mapping (conversation, number, kind, key, label)
        SELECT :p_conversation, fresh.number, counted.kind, fresh.key, fresh.label
        FROM fresh JOIN counted USING (entity)
    )
    SELECT position, number, gone, label, false FROM seen WHERE number IS NOT NULL
    UNION ALL
    SELECT position, number, NULL, label, true FROM fresh
""")

# The mapping of that number or the next higher one, for each: the order leaves no choice of index,
# which would be a guess where the server has no statistics yet.
resolve = statement(
    f"""
    SELECT
        conversations.owner IS NOT DISTINCT FROM :p_owner AS mine,
        {UNNOTED} AS unnoted,
        named.entity, named.number, counters.table_name, found.key, found.gone, found.label
    FROM alfred_refs_conversation AS conversations
    CROSS JOIN unnest(:p_entities, :p_numbers) AS named (entity, number)
    LEFT JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = named.entity
    LEFT JOIN LATERAL (
        SELECT number, key, gone, label FROM alfred_refs_mapping
        WHERE conversation = :p_conversation AND kind = counters.kind AND number >= named.number
        ORDER BY number
        LIMIT 1
    ) AS found ON found.number = named.number
    WHERE conversations.conversation = :p_conversation
    """,
    "mine unnoted entity number table_name key gone label",
)

# What a key names, of each entity that the conversation has: one probe of an index for each.
refs_of = statement(
    """
    SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, found.key, found.entity, found.number
    FROM alfred_refs_conversation
    LEFT JOIN (
        SELECT sought.key, counters.entity, mappings.number
        FROM unnest(:p_keys) AS sought (key)
        JOIN alfred_refs_counter AS counters ON counters.conversation = :p_conversation
        CROSS JOIN LATERAL (
            SELECT number FROM alfred_refs_mapping
            WHERE conversation = :p_conversation AND kind = counters.kind AND key = sought.key
            LIMIT 1
        ) AS mappings
    ) AS found ON true
    WHERE conversation = :p_conversation
    """,
    "mine key entity number",
)

_THERE = f"conversation = :p_conversation AND kind = {KIND} AND gone IS NULL AND {MINE}"
known = statement(f"""
    SELECT number, label FROM (
        (
            SELECT number, label FROM alfred_refs_mapping
            WHERE {_THERE} AND number < :p_number
            ORDER BY number DESC
            LIMIT :p_limit
        ) UNION ALL (
            SELECT number, label FROM alfred_refs_mapping
            WHERE {_THERE} AND number >= :p_number
            ORDER BY number
            LIMIT :p_limit
        )
    ) AS around
    ORDER BY abs(number - :p_number), number
    LIMIT :p_limit
""")

labelled = statement(f"""
    SELECT number, label FROM (
        SELECT number, label, gone FROM alfred_refs_mapping
        WHERE conversation = :p_conversation AND kind = {KIND} AND {MINE}
        ORDER BY number DESC
        LIMIT :p_limit
    ) AS latest
    WHERE label IS NOT NULL AND gone IS NULL
    ORDER BY number DESC
""")

# One walk through the last refs of each entity, however many labels there are.
namesakes = statement(f"""
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

entities = statement("""
    SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, counters.entity, counters.last
    FROM alfred_refs_conversation AS conversations
    LEFT JOIN alfred_refs_counter AS counters
        ON counters.conversation = conversations.conversation AND last > forgotten
    WHERE conversations.conversation = :p_conversation
""")

# Locks the conversation's row where it is there. Whoever writes several rows of a conversation
# does so under this lock: two that locked the rows themselves, each in an order of its own, would
# wait for each other.
lock_begun = statement("""
    SELECT 1 FROM alfred_refs_conversation
    WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
    FOR UPDATE
""")

_MAPPING_OF_WANTED = f"""counters.conversation = :p_conversation
        AND counters.entity = wanted.entity
        AND {OF_TABLE}
        AND mappings.conversation = :p_conversation
        AND mappings.kind = counters.kind
        AND mappings.key = wanted.key
        AND {MINE}"""

# Whoever was rolled back may say so after somebody else has saved the same draft.
mark = statement(f"""
    UPDATE alfred_refs_mapping AS mappings SET gone = :p_gone
    FROM alfred_refs_counter AS counters, {_WANTED}
    WHERE {_MAPPING_OF_WANTED}
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

label = statement(f"""
    UPDATE alfred_refs_mapping AS mappings SET label = wanted.label
    FROM alfred_refs_counter AS counters, {_WANTED}
    WHERE {_MAPPING_OF_WANTED} AND mappings.label IS DISTINCT FROM wanted.label
""")

begin_turn = statement("""
    INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner, turn)
    VALUES (:p_conversation, :p_id, :p_owner, 1)
    ON CONFLICT (conversation) DO UPDATE SET
        turn = conversations.turn + 1,
        used_at = excluded.used_at
    WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
    RETURNING turn
""")

turn = statement(
    """
    SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, turn
    FROM alfred_refs_conversation
    WHERE conversation = :p_conversation
    """,
    "mine turn",
)
