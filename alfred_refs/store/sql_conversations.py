"""The SQL of the Postgres store that is about conversations as a whole.

Parameters are as in `sql_refs`; `p_new` is the digest of a conversation that is made. Statements
that name no conversation are those of `prune`, `conversations` and `stats`, for operators.
"""

from __future__ import annotations

from sqlalchemy import Executable, Table

from .sql_parameters import HIGHEST_KIND, KIND, MINE, UNNOTED, statement
from .tables import activity, counters, drafts, mappings, steps

# Notes that a conversation is used, unless its row is locked: whoever resolves is not to wait, and
# most who lock it note the same.
touch = statement(f"""
    UPDATE alfred_refs_conversation SET used_at = now()
    WHERE conversation = :p_conversation AND conversation = (
        SELECT conversation FROM alfred_refs_conversation
        WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner AND {UNNOTED}
        FOR UPDATE SKIP LOCKED
    )
""")


def _copied(table: Table, **changed: str) -> Executable:
    """Copy a conversation's rows of a table, all columns, to the new one."""
    names = table.columns.keys()
    changed["conversation"] = ":p_new"
    if "kind" in names:
        changed["kind"] = "CAST(kind + :p_taken AS smallint)"
    return statement(f"""
        INSERT INTO {table.name} ({", ".join(names)})
        SELECT {", ".join(changed.get(name, name) for name in names)}
        FROM {table.name}
        WHERE conversation = :p_conversation
    """)


# Fork. While the source's row is locked nothing is minted or marked in it, so that the counters
# and the mappings that these statements see are those of one moment. Counters of the new id that
# were left behind keep their kinds: the others come after them.
fork_conversation = statement("""
    INSERT INTO alfred_refs_conversation (conversation, id, owner, turn)
    SELECT :p_new, :p_id, owner, turn
    FROM alfred_refs_conversation
    WHERE conversation = :p_conversation
""")
kinds_taken = statement("""
    SELECT coalesce(max(kind), 0) FROM alfred_refs_counter WHERE conversation = :p_new
""")
fork_counters = _copied(counters)
fork_mappings = _copied(mappings)
# A draft that is not saved where the branches part is saved in each as a row of its own: a key
# that is reserved for it is the source's.
fork_drafts = _copied(drafts, key="CASE WHEN state = 'saved' THEN key END")

fork_activity = _copied(activity)
fork_steps = _copied(steps)

# Forget. The row goes first: who mints meanwhile waits for it, and then begins the conversation
# anew, with the counters that were left. Nothing is of a table any more: whoever begins the
# conversation again says of which.
_LEAVE = (
    "UPDATE alfred_refs_counter SET forgotten = last, left_at = now(), table_name = NULL WHERE"
)
forget_conversation = statement("""
    DELETE FROM alfred_refs_conversation
    WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
    RETURNING 1
""")
forget_mappings = statement("""
    DELETE FROM alfred_refs_mapping WHERE conversation = :p_conversation
""")
forget_drafts = statement("DELETE FROM alfred_refs_draft WHERE conversation = :p_conversation")
forget_activity = statement("""
    DELETE FROM alfred_refs_activity WHERE conversation = :p_conversation
""")
forget_steps = statement("DELETE FROM alfred_refs_step WHERE conversation = :p_conversation")
leave_counters = statement(f"{_LEAVE} conversation = :p_conversation")

# Prune. The lock looks at the age again; who is locked by others is in use, or pruned already.
_UNUSED_FOR = "CAST(:p_unused_for AS interval)"  # tells the type of null
choose_unused = statement(
    f"""
    SELECT conversation FROM alfred_refs_conversation
    WHERE conversation > :p_after AND used_at <= now() - {_UNUSED_FOR}
    ORDER BY conversation
    LIMIT :p_limit
    FOR UPDATE SKIP LOCKED
    """,
    "conversation",
)
prune_conversations = statement("""
    DELETE FROM alfred_refs_conversation WHERE conversation = ANY (:p_chosen)
""")
prune_mappings = statement("DELETE FROM alfred_refs_mapping WHERE conversation = ANY (:p_chosen)")
prune_drafts = statement("DELETE FROM alfred_refs_draft WHERE conversation = ANY (:p_chosen)")
prune_activity = statement("""
    DELETE FROM alfred_refs_activity WHERE conversation = ANY (:p_chosen)
""")
prune_steps = statement("DELETE FROM alfred_refs_step WHERE conversation = ANY (:p_chosen)")
leave_pruned = statement(f"{_LEAVE} conversation = ANY (:p_chosen)")

# Erase a row. Locks are taken in order, and who holds one waits for no second.
_OF_ROW = """
    known.key = :p_key AND known.conversation = counters.conversation
    AND known.kind = counters.kind AND counters.entity = :p_entity
    AND (counters.table_name = :p_table) IS DISTINCT FROM false
"""
choose_knowing = statement(
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
erase_label = statement(f"""
    UPDATE alfred_refs_mapping AS known SET label = NULL
    FROM alfred_refs_counter AS counters
    WHERE known.conversation = ANY (:p_chosen) AND label IS NOT NULL AND {_OF_ROW}
""")
erase_draft = statement(f"""
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
choose_left = statement(
    f"""
    SELECT conversation FROM alfred_refs_counter AS counters
    WHERE conversation > :p_after AND {_LEFT_LONG}
    ORDER BY conversation
    LIMIT :p_limit
    """,
    "conversation",
)
prune_counters = statement(f"""
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
describe = statement(_INFO.format(":p_conversation", ":p_conversation"), _INFO_NAMES)
# Which are listed is decided at once, by digests in their order; what is known of each is read
# page by page: no order of pages would hold while conversations are being used.
_LISTED = (
    f"({_UNUSED_FOR} IS NULL OR used_at <= now() - {_UNUSED_FOR})"
    " AND (:p_of_any OR owner IS NOT DISTINCT FROM :p_owner)"
)
choose_last_used = statement(
    f"""
    SELECT conversation FROM alfred_refs_conversation
    WHERE {_LISTED}
    ORDER BY used_at DESC, conversation
    LIMIT :p_limit
    """,
    "conversation",
)
count_listed = statement(f"SELECT count(*) FROM alfred_refs_conversation WHERE {_LISTED}")
page_of_conversations = statement(
    _INFO.format("conversations.conversation", "ANY (:p_chosen)"), _INFO_NAMES
)
page_of_entries = statement(
    f"""
    SELECT number, key, gone, label FROM alfred_refs_mapping
    WHERE conversation = :p_conversation AND kind = {KIND} AND number > :p_number AND {MINE}
    ORDER BY number
    LIMIT :p_limit
    """,
    "number key gone label",
)
last_numbers = statement("""
    SELECT entity, last, drafts, table_name FROM alfred_refs_counter
    WHERE conversation = :p_conversation
    ORDER BY entity
""")

# Restore.
restore_conversation = statement("""
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
restore_counters = statement(_RESTORE_COUNTERS)
continue_counters = statement(f"""
    {_RESTORE_COUNTERS}
    ON CONFLICT (conversation, entity) DO UPDATE SET
        last = greatest(counters.last, excluded.last),
        forgotten = greatest(counters.last, excluded.last) - excluded.last + excluded.forgotten,
        drafts = greatest(counters.drafts, excluded.drafts),
        left_at = NULL,
        table_name = excluded.table_name
""")
restore_mappings = statement("""
    INSERT INTO alfred_refs_mapping (conversation, kind, number, key, gone, label)
    SELECT :p_conversation, counters.kind, new.number, new.key, new.gone, new.label
    FROM unnest(:p_entities, :p_numbers, :p_keys, :p_gones, :p_labels)
        AS new (entity, number, key, gone, label)
    JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = new.entity
""")

# Count.
count_conversations = statement("SELECT count(*) FROM alfred_refs_conversation")
count_refs = statement("""
    SELECT entity, CAST(sum(last - forgotten) AS bigint) FROM alfred_refs_counter GROUP BY entity
""")
count_gone = statement("SELECT count(*) FROM alfred_refs_mapping WHERE gone IS NOT NULL")
count_left = statement(f"SELECT count(*) FROM alfred_refs_counter AS counters WHERE {_LEFT}")
count_drafts = statement("""
    SELECT state, count(*) AS drafts FROM alfred_refs_draft GROUP BY state ORDER BY state
""")
# A partitioned table has its room in its partitions.
room = statement("""
    SELECT CAST(sum(pg_table_size(part)) AS bigint), CAST(sum(pg_indexes_size(part)) AS bigint)
    FROM unnest(CAST(:p_relations AS regclass[])) AS whole
    CROSS JOIN LATERAL (
        SELECT whole AS part UNION SELECT relid FROM pg_partition_tree(whole)
    ) AS parts
""")
