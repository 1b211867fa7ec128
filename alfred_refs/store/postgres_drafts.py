"""Drafts in PostgreSQL: the SQL and the methods that send it.

The SQL of the Postgres store that is about drafts.

Every statement names the conversation first. Parameters are as in `sql_refs`, with `p_contents`
as JSON texts, `p_turn` null for the turn that the conversation is in, and null in `p_versions` for
any. Whoever writes does so under the lock of the conversation's row, as those who mint.

Drafts in PostgreSQL: generated content, numbered and kept like refs.

It is a part of `PostgresStore`, which runs it on connections of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, select

from alfred_refs.errors import (
    DraftKeyError,
    RegistryFailedError,
    RegistryTablesError,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import Key, Ref, decode, encode
from alfred_refs.store.connections import UNIQUE_VIOLATION, Sending, only_mine
from alfred_refs.store.protocol import Address, DraftEdit, DraftEntry, DraftState, Entry, NewDraft
from alfred_refs.store.sql import (
    LOCK_ALWAYS,
    MINE,
    NONE_OF_ANOTHER_TABLE,
    OF_TABLE,
    address_parameters,
    count_numbers,
    typed_text,
)

if TYPE_CHECKING:
    from sqlalchemy import Executable, Row


_TURN = (
    "coalesce(:p_turn, (SELECT turn FROM alfred_refs_conversation"
    " WHERE conversation = :p_conversation))"
)

# Locks the conversation's row where it is there, and notes that it is used.
LOCK_USED = typed_text("""
    UPDATE alfred_refs_conversation SET used_at = now()
    WHERE conversation = :p_conversation AND owner IS NOT DISTINCT FROM :p_owner
""")

# Number. A statement of its own after the lock, as `sql_refs.refer` is, and for its reason.
DRAFT = typed_text(f"""
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
        {count_numbers("numbered", "drafts")}
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

READ_DRAFTS = typed_text(
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
PAGE_OF_DRAFTS = typed_text(
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
EDIT_DRAFTS = typed_text(
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
DISCARD_DRAFTS = typed_text(f"""
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
RESERVE_KEYS = typed_text(f"""
    UPDATE alfred_refs_draft AS drafts SET key = named.key
    FROM alfred_refs_counter AS counters,
        unnest(:p_entities, :p_numbers, :p_keys) AS named (entity, number, key)
    WHERE {_DRAFT_OF_NAMED} AND drafts.state = 'pending' AND drafts.key IS NULL
""")
CONFIRM_DRAFTS = typed_text(f"""
    UPDATE alfred_refs_draft AS drafts SET state = 'saved'
    FROM alfred_refs_counter AS counters, {_NAMED}
    WHERE {_DRAFT_OF_NAMED} AND drafts.state <> 'saved' AND drafts.key IS NOT NULL
""")

# What an earlier attempt left: its row was rolled back, under the key that this one has.
BRING_BACK = typed_text(f"""
    UPDATE alfred_refs_mapping AS mappings SET gone = NULL
    FROM alfred_refs_counter AS counters, {_NAMED}, alfred_refs_draft AS drafts
    WHERE {_DRAFT_OF_NAMED}
        AND mappings.conversation = :p_conversation
        AND mappings.kind = drafts.kind
        AND mappings.key = drafts.key
        AND mappings.gone = 'was never saved'
""")

# What an export has had.
RESTORE_DRAFTS = typed_text("""
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


# invalid schema name; no table of that name, or none that may be seen, or another one: its columns
# are of other types
_NO_SUCH_TABLE = ("3F", "42")

PAGE = 50  # drafts read or written by one statement: some megabytes, if they are large

Fetch = Callable[["Executable", Mapping[str, Any]], Sequence["Row[Any]"]]
"""Sends a reading statement with its parameters, and returns the rows."""


class PostgresDrafts(Sending):
    """The part of `PostgresStore` that is about drafts."""

    def draft(
        self, address: Address, new: Sequence[NewDraft], turn: int | None = None
    ) -> list[DraftEntry]:
        if not new:
            return []
        values = address_parameters(address) | {
            "p_entities": [each.entity for each in new],
            "p_tables": address.tables_of(each.entity for each in new),
            "p_contents": [each.content for each in new],
            "p_labels": [each.label for each in new],
            "p_turn": turn,
        }
        # not tried again when the connection is lost: they may have been kept
        rows = self._write([LOCK_ALWAYS, DRAFT], values, again=False)
        if not rows:
            self._check_tables(address)
            raise UnknownConversationError(address.id)
        return [
            DraftEntry(Ref(each.entity, number, draft=True), each.content, each.label, now, now)
            for each, (_, number, now) in zip(new, rows, strict=True)
        ]

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        return _by_ref(
            self._alone(READ_DRAFTS, address_parameters(address) | _arrays(address, refs)), address
        )

    def drafts(
        self, address: Address, entity: str | None, states: Collection[DraftState]
    ) -> Iterator[DraftEntry]:
        return draft_pages(self._alone, address, entity, states)

    def values_there(
        self,
        address: Address,  # noqa: ARG002
        column: Column[Any],
        values: Sequence[Any],
    ) -> Collection[Any]:
        try:
            found = self._alone(select(column).where(column.in_(values)), {})
        except RegistryTablesError:
            return ()
        except RegistryFailedError as error:
            if str(error.sqlstate).startswith(_NO_SUCH_TABLE):
                return ()
            raise
        return [value for (value,) in found]

    def edit_drafts(
        self, address: Address, edits: Sequence[DraftEdit], turn: int | None = None
    ) -> Mapping[Ref, DraftEntry]:
        values = address_parameters(address) | _arrays(address, [each.ref for each in edits])
        values |= {
            "p_contents": [each.content for each in edits],
            "p_labels": [each.label for each in edits],
            "p_versions": [each.version for each in edits],
            "p_turn": turn,
        }
        rows = self._write([LOCK_USED, EDIT_DRAFTS], values)
        entries = [_entry(entity, row, (None, None, None)) for entity, *row in rows]
        return {entry.ref: entry for entry in entries}

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        batch = [LOCK_USED, DISCARD_DRAFTS, READ_DRAFTS]
        return _by_ref(
            self._write(batch, address_parameters(address) | _arrays(address, refs)), address
        )

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        values = address_parameters(address) | _arrays(address, list(keys))
        values["p_keys"] = [encode(key) for key in keys.values()]
        batch = [LOCK_USED, RESERVE_KEYS, READ_DRAFTS]
        try:
            return _by_ref(self._write(batch, values), address)
        except RegistryFailedError as error:
            if error.sqlstate == UNIQUE_VIOLATION:
                raise DraftKeyError(*map(str, keys)) from None
            raise

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        batch = [LOCK_USED, CONFIRM_DRAFTS, BRING_BACK]
        self._write(batch, address_parameters(address) | _arrays(address, refs))


def draft_pages(
    fetch: Fetch, address: Address, entity: str | None, states: Collection[DraftState]
) -> Iterator[DraftEntry]:
    """Yield drafts in natural order, page by page."""
    values = address_parameters(address) | {
        "p_entity": entity,
        "p_states": list(states),
        "p_limit": PAGE,
    }
    after: tuple[str, int] | None = ("", 0)
    while after is not None:
        place = dict(zip(("p_after_entity", "p_number"), after, strict=True))
        page = list(_by_ref(fetch(PAGE_OF_DRAFTS, values | place), address).values())
        yield from page
        after = (page[-1].ref.entity, page[-1].ref.number) if len(page) == PAGE else None


def _arrays(address: Address, refs: Sequence[Ref]) -> dict[str, Any]:
    return {
        "p_entities": [ref.entity for ref in refs],
        "p_numbers": [ref.number for ref in refs],
        "p_tables": address.tables_of(ref.entity for ref in refs),
    }


def _by_ref(rows: Sequence[Sequence[Any]], address: Address) -> dict[Ref, DraftEntry]:
    """Return the entries of rows: whose it is, entity, table, a draft, what it became."""
    entries = []
    for _, entity, table, *row in only_mine(rows, address):
        address.check_table(entity, table)
        if row[0] is not None:
            entries.append(_entry(entity, row[:-3], row[-3:]))
    return {entry.ref: entry for entry in entries}


def _entry(entity: str, draft: Sequence[Any], row: Sequence[Any]) -> DraftEntry:
    number, content, label, turn, edited, version, state, key = draft
    ref = Ref(entity, number, draft=True)
    entry = DraftEntry(ref, content, label, turn, edited, version, state)
    if key is None:
        return entry
    saved, gone, known_as = row
    key = decode(key)
    there = None if saved is None else Entry(Ref(entity, saved), key, gone, known_as)
    return replace(entry, key=key, row=there)


def arrays_of_drafts(drafts: Sequence[DraftEntry]) -> dict[str, Any]:
    """Return drafts as the parameters of a statement that writes them."""
    return {
        "p_entities": [draft.ref.entity for draft in drafts],
        "p_numbers": [draft.ref.number for draft in drafts],
        "p_turns": [draft.turn for draft in drafts],
        "p_edits": [draft.edited for draft in drafts],
        "p_versions": [draft.version for draft in drafts],
        "p_states": [draft.state for draft in drafts],
        "p_contents": [draft.content for draft in drafts],
        "p_labels": [draft.label for draft in drafts],
        "p_keys": [None if draft.key is None else encode(draft.key) for draft in drafts],
    }
