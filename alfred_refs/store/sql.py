"""SQL of refs and the bind types that all statements share.

What the SQL of the Postgres store shares: how a statement is made, its parameters, conditions.

A statement is written as SQL, with `:p_entity` for a parameter. `statement` gives each parameter
its type, so that every driver sends it with the cast that it needs.

```python
turn = statement("SELECT turn FROM alfred_refs_conversation WHERE conversation = :p_conversation")
connection.execute(turn, named(address))
```

The SQL of the Postgres store: every statement names the conversation first.

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

import re
from collections.abc import Mapping
from textwrap import dedent
from typing import Any

from sqlalchemy import (
    ARRAY,
    Boolean,
    DateTime,
    Integer,
    Interval,
    LargeBinary,
    SmallInteger,
    Text,
    TextClause,
    Uuid,
    bindparam,
    column,
    text,
)
from sqlalchemy.sql.selectable import TextualSelect

from alfred_refs.store.protocol import NOTED_EVERY, Address

_TYPES: Mapping[Any, str] = {
    Uuid: "p_conversation p_new p_after",
    LargeBinary: "p_key",
    Text: "p_id p_owner p_table p_entity p_after_entity p_gone p_tables p_actor p_reason"
    " p_content",
    Integer: "p_number p_limit p_turn p_turns_back",
    SmallInteger: "p_taken",
    Boolean: "p_of_any",
    Interval: "p_unused_for",
    DateTime(timezone=True): "p_begun_at",
    ARRAY(Uuid): "p_chosen",
    ARRAY(Text): "p_entities p_labels p_contents p_states p_gones p_relations"
    " p_noted p_actions p_actors p_reasons p_heads",
    ARRAY(LargeBinary): "p_keys p_noted_keys",
    ARRAY(Integer): "p_numbers p_versions p_counts p_last_drafts p_turns p_edits"
    " p_first_turns p_seen_turns",
    ARRAY(Boolean): "p_demoted",
}
_PARAMETERS = {name: type_ for type_, names in _TYPES.items() for name in names.split()}

# psycopg2 returns memory and text for them
_COLUMNS: Mapping[str, Any] = {"key": LargeBinary, "conversation": Uuid}

MINE = (
    "EXISTS (SELECT 1 FROM alfred_refs_conversation"
    " WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner)"
)

# whether the refs of a counter are of the table for which they are used, as far as is known
OF_TABLE = (
    "(counters.table_name = (CAST(:p_tables AS jsonb) ->> counters.entity)) IS DISTINCT FROM false"
)
NONE_OF_ANOTHER_TABLE = (
    "NOT EXISTS (SELECT 1 FROM alfred_refs_counter AS counters"
    f" WHERE conversation = :p_conversation AND NOT {OF_TABLE})"
)

KIND = (
    "(SELECT kind FROM alfred_refs_counter"
    " WHERE conversation = :p_conversation AND entity = :p_entity)"
)

# new kinds come after it; the conversation's row must be locked
HIGHEST_KIND = (
    "(SELECT coalesce(max(kind), 0) FROM alfred_refs_counter WHERE conversation = :p_conversation)"
)

UNNOTED = f"used_at < now() - INTERVAL '{NOTED_EVERY.total_seconds():.0f} seconds'"


def count_numbers(numbered: str, counter: str) -> str:
    """Return the step after `numbered`, which counts numbers and gives kinds to new entities."""
    highest = {"last": "0", "drafts": "0", counter: "max(number)"}
    return f"""
        INSERT INTO alfred_refs_counter AS counters
            (conversation, entity, kind, last, drafts, table_name)
        SELECT
            :p_conversation,
            entity,
            coalesce(kind, CAST(
                {HIGHEST_KIND}
                + row_number() OVER (PARTITION BY kind IS NULL ORDER BY min(position))
                AS smallint
            )),
            {highest["last"]},
            {highest["drafts"]},
            CAST(:p_tables AS jsonb) ->> entity
        FROM {numbered}
        GROUP BY entity, kind
        ON CONFLICT (conversation, entity) DO UPDATE SET
            {counter} = excluded.{counter},
            left_at = NULL,
            table_name = coalesce(counters.table_name, excluded.table_name)
        RETURNING entity, kind
    """


def typed_text(sql: str, columns: str = "") -> TextClause | TextualSelect:
    """Make a statement of SQL.

    Args:
        sql: with a parameter for each value.
        columns: the names of the result's, in order. SQLAlchemy then prepares for the result
            once, instead of at each execution, and psycopg2's own types become ours.
    """
    names = set(re.findall(r":(p_\w+)", sql))  # to compile it would take longer than all the rest
    parameters = (bindparam(name, type_=_PARAMETERS[name]) for name in names)
    made = text(dedent(sql).strip()).bindparams(*parameters)
    found = [column(name, _COLUMNS.get(name)) for name in columns.split()]
    return made.columns(*found) if found else made


tables_of_refs = typed_text("""
    SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, entity, table_name
    FROM alfred_refs_conversation LEFT JOIN alfred_refs_counter USING (conversation)
    WHERE conversation = :p_conversation
""")


def address_parameters(address: Address) -> dict[str, Any]:
    """Return the parameters that name a conversation and its owner."""
    return {"p_conversation": address.digest, "p_id": address.id, "p_owner": address.owner}


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
LOCK_TABLES = typed_text(f"SELECT pg_advisory_xact_lock({int.from_bytes(b'alf_refs')})")

# Locks the conversation's row, and makes it if need be, but only where some key is new: a result
# whose keys are all known writes nothing, unless it is to be noted that the conversation is used.
# `excluded.used_at` is the default of a new row: now, which Citus refuses to be called here.
LOCK = typed_text(f"""
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
LOCK_ALWAYS = typed_text("""
    INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner)
    VALUES (:p_conversation, :p_id, :p_owner)
    ON CONFLICT (conversation) DO UPDATE SET used_at = excluded.used_at
    WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
""")

# Numbers the new keys, and gives new entities a kind, if the conversation's row is locked, or can
# be without waiting. Must be a statement of its own after `lock`: under READ COMMITTED a statement
# keeps the snapshot from before it waited, so only the next one sees what was minted meanwhile.
# A CASE is evaluated row by row: the lock is not taken where no key is new.
REFER = typed_text(f"""
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
        {count_numbers("fresh", "last")}
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
RESOLVE = typed_text(
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
REFS_OF = typed_text(
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
KNOWN = typed_text(f"""
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

LABELLED = typed_text(f"""
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
NAMESAKES = typed_text(f"""
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

ENTITIES = typed_text("""
    SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, counters.entity, counters.last
    FROM alfred_refs_conversation AS conversations
    LEFT JOIN alfred_refs_counter AS counters
        ON counters.conversation = conversations.conversation AND last > forgotten
    WHERE conversations.conversation = :p_conversation
""")

# Locks the conversation's row where it is there. Whoever writes several rows of a conversation
# does so under this lock: two that locked the rows themselves, each in an order of its own, would
# wait for each other.
LOCK_BEGUN = typed_text("""
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
MARK = typed_text(f"""
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

LABEL = typed_text(f"""
    UPDATE alfred_refs_mapping AS mappings SET label = wanted.label
    FROM alfred_refs_counter AS counters, {_WANTED}
    WHERE {_MAPPING_OF_WANTED} AND mappings.label IS DISTINCT FROM wanted.label
""")

BEGIN_TURN = typed_text("""
    INSERT INTO alfred_refs_conversation AS conversations (conversation, id, owner, turn)
    VALUES (:p_conversation, :p_id, :p_owner, 1)
    ON CONFLICT (conversation) DO UPDATE SET
        turn = conversations.turn + 1,
        used_at = excluded.used_at
    WHERE conversations.owner IS NOT DISTINCT FROM :p_owner
    RETURNING turn
""")

TURN = typed_text(
    """
    SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, turn
    FROM alfred_refs_conversation
    WHERE conversation = :p_conversation
    """,
    "mine turn",
)
