"""What the SQL of the Postgres store shares: how a statement is made, its parameters, conditions.

A statement is written as SQL, with `:p_entity` for a parameter. `statement` gives each parameter
its type, so that every driver sends it with the cast that it needs.

```python
turn = statement("SELECT turn FROM alfred_refs_conversation WHERE conversation = :p_conversation")
connection.execute(turn, named(address))
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

from .values import NOTED_EVERY, Address

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


def counted(numbered: str, counter: str) -> str:
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


def statement(sql: str, columns: str = "") -> TextClause | TextualSelect:
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


tables_of_refs = statement("""
    SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, entity, table_name
    FROM alfred_refs_conversation LEFT JOIN alfred_refs_counter USING (conversation)
    WHERE conversation = :p_conversation
""")


def named(address: Address) -> dict[str, Any]:
    """Return the parameters that name a conversation and its owner."""
    return {"p_conversation": address.digest, "p_id": address.id, "p_owner": address.owner}
