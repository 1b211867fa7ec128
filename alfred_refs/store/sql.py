"""SQL of the PostgreSQL store: typed statements, and the conditions that they share.

The statement that a method sends is next to that method, in `postgres_refs`, `postgres_drafts`,
`postgres_activity`, `postgres_calls` or `postgres`. It is text, with `:p_entity` for a parameter.
`typed_text` gives each parameter its SQLAlchemy type, so that every driver sends it with the cast
that it needs:

>>> statement = typed_text(
...     "SELECT id, turn FROM alfred_refs_conversation WHERE conversation = :p_conversation",
...     "id turn",
... )
>>> with engine.connect() as connection:
...     row = connection.execute(statement, address_parameters(Address("chat-7"))).one()
>>> row.id, row.turn
('chat-7', 0)

Every statement that a session sends names its conversation, so that the server reads one partition
of partitioned tables. The parameters have the same names in all statements:

- `p_conversation` and `p_owner` are always there, `p_id` where a conversation may be begun;
- `p_entities` comes with `p_keys` or `p_numbers`, as parallel arrays: a statement has the same
  text for one row and for a thousand, so it is prepared and planned once;
- `p_tables` is a JSON object with the table of each entity, as far as it is known;
- `p_turn` is null for the current turn of the conversation, and null in `p_versions` matches any.

A mapping is looked up by a LATERAL subquery with LIMIT 1, which is one probe of an index for each
key. As a plain join it would be planned for a conversation of average size, and would read a large
one whole.

Limits: the text is PostgreSQL's, and identifiers are constants. Nothing here executes a statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent
from types import EllipsisType
from typing import Any

from sqlalchemy import (
    ARRAY,
    Boolean,
    DateTime,
    Double,
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

from alfred_refs.store.values import NOTED_EVERY, Address, json_text

# type -> the parameters that have it
_TYPES: Mapping[Any, str] = {
    Uuid: "p_conversation p_new p_after",
    LargeBinary: "p_key",
    Text: "p_id p_owner p_table p_entity p_after_entity p_gone p_tables p_actor p_reason"
    " p_content p_tool p_arguments p_state p_user p_call_id p_plan p_token p_answer p_expected"
    " p_decided_by p_ref p_facts p_key_images p_befores p_afters p_search"
    " p_noted",
    Integer: "p_number p_limit p_turn p_turns_back p_begun p_undoes p_before p_place",
    SmallInteger: "p_taken",
    Boolean: "p_of_any",
    Interval: "p_unused_for p_expires_in p_older_than",
    Double: "p_seconds",
    DateTime(timezone=True): "p_begun_at p_asked_at p_decided_at p_expires_at p_used_at",
    ARRAY(Uuid): "p_chosen",
    ARRAY(Text): "p_entities p_labels p_contents p_states p_gones p_relations"
    " p_actions p_actors p_reasons p_fields p_given",
    ARRAY(LargeBinary): "p_keys",
    ARRAY(Integer): "p_numbers p_versions p_counts p_last_drafts p_turns p_edits p_first_turns",
    ARRAY(Boolean): "p_demoted",
}
_PARAMETERS = {name: type_ for type_, names in _TYPES.items() for name in names.split()}

# Result columns that need a type: psycopg2 returns bytea as memoryview and uuid as str.
_COLUMNS: Mapping[str, Any] = {"key": LargeBinary, "conversation": Uuid}


def typed_text(sql: str, columns: str = "") -> TextClause | TextualSelect:
    """Make a statement of SQL text whose parameters have types.

    Args:
        sql: with a parameter for each value.
        columns: the names of the result's columns, in order. SQLAlchemy then sets up the result
            once instead of at each execution, and converts what psycopg2 returns.
    """
    # a regular expression, because compiling the text to find its parameters takes much longer
    names = set(re.findall(r":(p_\w+)", sql))
    parameters = (bindparam(name, type_=_PARAMETERS[name]) for name in names)
    statement = text(dedent(sql).strip()).bindparams(*parameters)
    if not columns:
        return statement
    return statement.columns(*(column(name, _COLUMNS.get(name)) for name in columns.split()))


def address_parameters(address: Address) -> dict[str, Any]:
    """Return the parameters that identify a conversation and its owner."""
    return {"p_conversation": address.digest, "p_id": address.id, "p_owner": address.owner}


def filter_parameters(owner: str | EllipsisType | None) -> dict[str, Any]:
    """Return the parameters that select conversations by owner; `...` selects all."""
    of_any = owner is ...
    return {"p_of_any": of_any, "p_owner": None if of_any else owner}


def json_or_none(value: Any) -> str | None:
    """Return JSON values as text for a parameter; `None` stays null."""
    return None if value is None else json_text(value)


# Conditions and expressions

# The conversation exists and belongs to the owner.
MINE = (
    "EXISTS (SELECT 1 FROM alfred_refs_conversation"
    " WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner)"
)

# The refs of a counter are used for rows of the table that they were minted for, as far as both
# tables are known.
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

# New kinds follow it; the conversation's row must be locked.
HIGHEST_KIND = (
    "(SELECT coalesce(max(kind), 0) FROM alfred_refs_counter WHERE conversation = :p_conversation)"
)

CURRENT_TURN = "(SELECT turn FROM alfred_refs_conversation WHERE conversation = :p_conversation)"

# The turn that the caller works in: others may have begun the next one meanwhile.
WORKING_TURN = f"coalesce(:p_turn, {CURRENT_TURN})"

# The last use was not recorded within `NOTED_EVERY`.
UNNOTED = f"used_at < now() - INTERVAL '{NOTED_EVERY.total_seconds():.0f} seconds'"

# The rows of mappings or drafts, as `known`, that are of one row of the application's.
OF_ROW = """
    known.key = :p_key AND known.conversation = counters.conversation
    AND known.kind = counters.kind AND counters.entity = :p_entity
    AND (counters.table_name = :p_table) IS DISTINCT FROM false
"""

# The refs that a method is called with.
REQUESTED_REFS = "unnest(:p_entities, :p_numbers) AS requested (entity, number)"


def count_numbers(numbered: str, counter: str) -> str:
    """Return the WITH query that raises counters after numbers were assigned.

    Args:
        numbered: the WITH query that has assigned them: entity, kind, number and position of each.
            The kind is null for an entity that is new; it gets the next kind here.
        counter: the column to raise, `"last"` or `"drafts"`.
    """
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
