"""The SQL of the Postgres store that is about drafts.

Every statement names the conversation first. Parameters are as in `sql_refs`, with `p_contents`
as JSON texts, `p_turn` null for the turn that the conversation is in, and null in `p_versions` for
any. Whoever writes does so under the lock of the conversation's row, as those who mint.
"""

from __future__ import annotations

from .sql_parameters import MINE, NONE_OF_ANOTHER_TABLE, OF_TABLE, counted, statement

_TURN = (
    "coalesce(:p_turn, (SELECT turn FROM alfred_refs_conversation"
    " WHERE conversation = :p_conversation))"
)

# Locks the conversation's row where it is there, and notes that it is used.
lock_used = statement("""
    UPDATE alfred_refs_conversation SET used_at = now()
    WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
""")

# Number. A statement of its own after the lock, as `sql_refs.refer` is, and for its reason.
draft = statement(f"""
    WITH numbered AS (
        SELECT
            new.position, new.entity, new.content, new.label, counters.kind,
            CAST(
                coalesce(counters.drafts, 0)
                + row_number() OVER (PARTITION BY new.entity ORDER BY new.position)
                AS integer
            ) AS number
        FROM unnest(:p_entities, :p_contents, :p_labels)
            WITH ORDINALITY AS new (entity, content, label, position)
        LEFT JOIN alfred_refs_counter AS counters
            ON counters.conversation = :p_conversation AND counters.entity = new.entity
        WHERE {MINE} AND {NONE_OF_ANOTHER_TABLE}
    ), counted AS (
        {counted("numbered", "drafts")}
    ), drafted AS (
        INSERT INTO alfred_refs_draft
            (conversation, kind, number, turn, edited, version, state, content, label)
        SELECT
            :p_conversation, counted.kind, numbered.number, {_TURN}, {_TURN}, 1, 'pending',
            CAST(numbered.content AS json), numbered.label
        FROM numbered JOIN counted USING (entity)
    )
    SELECT position, number, {_TURN} FROM numbered ORDER BY position
""")

# Read. The columns of a draft, and of the row that it is saved as, in the order in which `drafts`
# makes an entry of them.
_DRAFT = "number, CAST(content AS text) AS content, label, turn, edited, version, state, key"
_DRAFT_AND_ROW = (
    "found.number, found.content, found.label, found.turn, found.edited, found.version,"
    " found.state, found.key, saved.number AS row_number, saved.gone AS row_gone,"
    " saved.label AS row_label"
)
_NAMES = (
    "mine entity table_name number content label turn edited version state key"
    " row_number row_gone row_label"
)

# the draft of that number or the next higher one, for each: see `sql_refs.resolve`
_NAMED = "unnest(:p_entities, :p_numbers) AS named (entity, number)"
_NAMED_AND_FOUND = f"""{_NAMED}
    LEFT JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = named.entity
    LEFT JOIN LATERAL (
        SELECT {_DRAFT} FROM alfred_refs_draft
        WHERE conversation = :p_conversation AND kind = counters.kind AND number >= named.number
        ORDER BY number
        LIMIT 1
    ) AS found ON found.number = named.number"""

# what is known of the row that a draft is saved as: one probe of an index
_SAVED = """LEFT JOIN LATERAL (
        SELECT number, gone, label FROM alfred_refs_mapping
        WHERE conversation = :p_conversation AND kind = counters.kind AND key = found.key
        LIMIT 1
    ) AS saved ON true"""

read_drafts = statement(
    f"""
    SELECT
        conversations.owner IS NOT DISTINCT FROM :p_owner AS mine,
        named.entity, counters.table_name, {_DRAFT_AND_ROW}
    FROM alfred_refs_conversation AS conversations CROSS JOIN {_NAMED_AND_FOUND} {_SAVED}
    WHERE conversations.conversation = :p_conversation
    """,
    _NAMES,
)

# In the order of bytes, whatever the database sorts by: that of Python, in which refs are sorted.
page_of_drafts = statement(
    f"""
    SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, page.*
    FROM alfred_refs_conversation
    LEFT JOIN (
        SELECT counters.entity, counters.table_name, {_DRAFT_AND_ROW}
        FROM alfred_refs_counter AS counters
        CROSS JOIN LATERAL (
            SELECT {_DRAFT} FROM alfred_refs_draft
            WHERE conversation = :p_conversation
                AND kind = counters.kind
                AND number > CASE WHEN counters.entity = :p_after_entity THEN :p_number ELSE 0 END
                AND state = ANY (:p_states)
            ORDER BY number
            LIMIT :p_limit
        ) AS found
        {_SAVED}
        WHERE counters.conversation = :p_conversation
            AND counters.drafts > 0
            AND counters.entity COLLATE "C" >= :p_after_entity
            AND (:p_entity IS NULL OR counters.entity = :p_entity)
        ORDER BY counters.entity COLLATE "C", found.number
        LIMIT :p_limit
    ) AS page ON owner IS NOT DISTINCT FROM :p_owner
    WHERE conversation = :p_conversation
    ORDER BY page.entity COLLATE "C", page.number
    """,
    _NAMES,
)

# the drafts to write: counters, drafts and named are joined by it
_DRAFT_OF_NAMED = f"""drafts.conversation = :p_conversation
        AND drafts.kind = counters.kind
        AND drafts.number = named.number
        AND counters.conversation = :p_conversation
        AND counters.entity = named.entity
        AND {OF_TABLE}
        AND {MINE}"""

# Edit, all or none. What was done already, by a caller who was not told, is done again.
_EDITS = (
    "unnest(:p_entities, :p_numbers, :p_contents, :p_labels, :p_versions)"
    " AS named (entity, number, content, label, version)"
)
edit_drafts = statement(
    f"""
    UPDATE alfred_refs_draft AS drafts SET
        content = CAST(named.content AS json),
        label = coalesce(named.label, drafts.label),
        edited = {_TURN},
        version = coalesce(named.version, drafts.version) + 1
    FROM alfred_refs_counter AS counters, {_EDITS}
    WHERE {_DRAFT_OF_NAMED}
        AND NOT EXISTS (
            SELECT 1 FROM {_EDITS}
            LEFT JOIN alfred_refs_counter AS counters
                ON counters.conversation = :p_conversation AND counters.entity = named.entity
            LEFT JOIN alfred_refs_draft AS drafts
                ON drafts.conversation = :p_conversation
                AND drafts.kind = counters.kind
                AND drafts.number = named.number
                AND {OF_TABLE}
            WHERE (
                drafts.state = 'pending'
                AND (
                    named.version IS NULL
                    OR drafts.version = named.version
                    OR drafts.version = named.version + 1
                        AND CAST(drafts.content AS text) = named.content
                        AND drafts.label IS NOT DISTINCT FROM coalesce(named.label, drafts.label)
                )
            ) IS NOT true
        )
    RETURNING
        named.entity, drafts.number, CAST(drafts.content AS text), drafts.label, drafts.turn,
        drafts.edited, drafts.version, drafts.state, drafts.key
    """,
    "entity number content label turn edited version state key",
)

# Discard, all or none. A key that is reserved stays: the row may yet be saved with it.
discard_drafts = statement(f"""
    UPDATE alfred_refs_draft AS drafts SET state = 'discarded'
    FROM alfred_refs_counter AS counters, {_NAMED}
    WHERE {_DRAFT_OF_NAMED}
        AND drafts.state = 'pending'
        AND NOT EXISTS (
            SELECT 1 FROM {_NAMED_AND_FOUND}
            WHERE found.number IS NULL OR found.state = 'saved' OR NOT {OF_TABLE}
        )
""")

# Save. The key is there before the row is: whoever comes second inserts the same one.
reserve_keys = statement(f"""
    UPDATE alfred_refs_draft AS drafts SET key = named.key
    FROM alfred_refs_counter AS counters,
        unnest(:p_entities, :p_numbers, :p_keys) AS named (entity, number, key)
    WHERE {_DRAFT_OF_NAMED} AND drafts.state = 'pending' AND drafts.key IS NULL
""")
confirm_drafts = statement(f"""
    UPDATE alfred_refs_draft AS drafts SET state = 'saved'
    FROM alfred_refs_counter AS counters, {_NAMED}
    WHERE {_DRAFT_OF_NAMED} AND drafts.state <> 'saved' AND drafts.key IS NOT NULL
""")

# What an earlier attempt left: its row was rolled back, under the key that this one has.
bring_back = statement(f"""
    UPDATE alfred_refs_mapping AS mappings SET gone = NULL
    FROM alfred_refs_counter AS counters, {_NAMED}, alfred_refs_draft AS drafts
    WHERE {_DRAFT_OF_NAMED}
        AND mappings.conversation = :p_conversation
        AND mappings.kind = drafts.kind
        AND mappings.key = drafts.key
        AND mappings.gone = 'was never saved'
""")

# What an export has had.
restore_drafts = statement("""
    INSERT INTO alfred_refs_draft
        (conversation, kind, number, turn, edited, version, state, content, label, key)
    SELECT
        :p_conversation, counters.kind, new.number, new.turn, new.edited, new.version, new.state,
        CAST(new.content AS json), new.label, new.key
    FROM unnest(
        :p_entities, :p_numbers, :p_turns, :p_edits, :p_versions, :p_states,
        :p_contents, :p_labels, :p_keys
    ) AS new (entity, number, turn, edited, version, state, content, label, key)
    JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = new.entity
""")
