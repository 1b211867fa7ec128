"""Drafts in PostgreSQL: number, read, edit, discard and save generated content.

`PostgresDrafts` is the part of `PostgresStore` that is about drafts. Each statement is a class
attribute above the method that sends it.

>>> from alfred_refs.store import NewDraft
>>> store = PostgresDrafts(engine)
>>> address = Address("chat-7")
>>> [draft] = store.draft(address, [NewDraft("recipe", '{"name": "Curry"}', label="Curry")])
>>> str(draft.ref), draft.state
('gen_recipe_1', 'pending')
>>> store.discard_drafts(address, [draft.ref])[draft.ref].state
'discarded'

A draft is numbered like a ref, by a counter of its own, under the lock of the conversation's row.
All methods that write take that lock first, and send one batch.

How a draft becomes a row: the session reserves a key by `reserve_keys`, inserts the row with it,
and calls `confirm_drafts` once that is committed. The partial unique index on the key refuses a
key that another draft of the conversation has.

Editing and discarding change all drafts of a call or none: the UPDATE has a NOT EXISTS over all of
them, so one statement decides.

Limits: content is `json`, not `jsonb`, and is returned as the text that was stored. Nothing here
reads it, or knows the columns of the table that the draft is for.
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
from alfred_refs.store.connections import UNIQUE_VIOLATION
from alfred_refs.store.postgres_refs import PostgresRefs, check_owner, ref_parameters
from alfred_refs.store.sql import (
    MINE,
    NONE_OF_ANOTHER_TABLE,
    OF_TABLE,
    REQUESTED_REFS,
    WORKING_TURN,
    address_parameters,
    count_numbers,
    typed_text,
)
from alfred_refs.store.values import Address, DraftEdit, DraftEntry, DraftState, Entry, NewDraft

if TYPE_CHECKING:
    from sqlalchemy import Executable, Row

Fetch = Callable[["Executable", Mapping[str, Any]], Sequence["Row[Any]"]]
"""Executes a statement that reads, with its parameters, and returns the rows."""

PAGE = 50  # drafts or activity of one statement: some megabytes, if they are large

# SQLSTATE classes of a table or column that does not exist, is of another type, or may not be
# read: invalid schema name; syntax error or access rule violation
_NO_SUCH_TABLE = ("3F", "42")

# The columns of a draft and of the row that it is saved as, in the order of `_by_ref`.
_DRAFT_COLUMNS = (
    "number, CAST(content AS text) AS content, label, turn, edited, version, state, key"
)
_DRAFT_AND_ROW = (
    "found.number, found.content, found.label, found.turn, found.edited, found.version,"
    " found.state, found.key, saved.number AS row_number, saved.gone AS row_gone,"
    " saved.label AS row_label"
)
_COLUMNS = (
    "mine entity table_name number content label turn edited version state key"
    " row_number row_gone row_label"
)

# The draft with that number or the next higher one, for the reason that `_RESOLVE` gives.
_REQUESTED_AND_FOUND = f"""{REQUESTED_REFS}
    LEFT JOIN alfred_refs_counter AS counters
        ON counters.conversation = :p_conversation AND counters.entity = requested.entity
    LEFT JOIN LATERAL (
        SELECT {_DRAFT_COLUMNS} FROM alfred_refs_draft
        WHERE conversation = :p_conversation
            AND kind = counters.kind
            AND number >= requested.number
        ORDER BY number
        LIMIT 1
    ) AS found ON found.number = requested.number"""

# The ref of the row that a draft is saved as.
_SAVED = """LEFT JOIN LATERAL (
        SELECT number, gone, label FROM alfred_refs_mapping
        WHERE conversation = :p_conversation AND kind = counters.kind AND key = found.key
        LIMIT 1
    ) AS saved ON true"""

# Joins counters, drafts and the requested refs in an UPDATE.
_DRAFT_OF_REQUESTED = f"""drafts.conversation = :p_conversation
        AND drafts.kind = counters.kind
        AND drafts.number = requested.number
        AND counters.conversation = :p_conversation
        AND counters.entity = requested.entity
        AND {OF_TABLE}
        AND {MINE}"""

_EDITS = (
    "unnest(:p_entities, :p_numbers, :p_contents, :p_labels, :p_versions)"
    " AS requested (entity, number, content, label, version)"
)


class PostgresDrafts(PostgresRefs):
    """The part of `PostgresStore` that is about drafts."""

    # Follows the lock as a statement of its own, as `_REFER` does and for the same reason.
    _DRAFT = typed_text(f"""
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
                :p_conversation, counted.kind, numbered.number, {WORKING_TURN}, {WORKING_TURN}, 1,
                'pending', CAST(numbered.content AS json), numbered.label
            FROM numbered JOIN counted USING (entity)
        )
        SELECT position, number, {WORKING_TURN} FROM numbered ORDER BY position
    """)

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
        rows = self._write([self._LOCK_ALWAYS, self._DRAFT], values, idempotent=False)
        if not rows:
            self._check_tables(address)
            raise UnknownConversationError(address.id)
        return [
            DraftEntry(Ref(each.entity, number, draft=True), each.content, each.label, now, now)
            for each, (_, number, now) in zip(new, rows, strict=True)
        ]

    _READ_DRAFTS = typed_text(
        f"""
        SELECT
            conversations.owner IS NOT DISTINCT FROM :p_owner AS mine,
            requested.entity, counters.table_name, {_DRAFT_AND_ROW}
        FROM alfred_refs_conversation AS conversations
        CROSS JOIN {_REQUESTED_AND_FOUND} {_SAVED}
        WHERE conversations.conversation = :p_conversation
        """,
        _COLUMNS,
    )

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        values = address_parameters(address) | ref_parameters(address, refs)
        return _by_ref(self._read(self._READ_DRAFTS, values), address)

    # COLLATE "C" is the order of Python's str, in which refs are sorted.
    _PAGE_OF_DRAFTS = typed_text(
        f"""
        SELECT owner IS NOT DISTINCT FROM :p_owner AS mine, page.*
        FROM alfred_refs_conversation
        LEFT JOIN (
            SELECT counters.entity, counters.table_name, {_DRAFT_AND_ROW}
            FROM alfred_refs_counter AS counters
            CROSS JOIN LATERAL (
                SELECT {_DRAFT_COLUMNS} FROM alfred_refs_draft
                WHERE conversation = :p_conversation
                    AND kind = counters.kind
                    AND number
                        > CASE WHEN counters.entity = :p_after_entity THEN :p_number ELSE 0 END
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
        _COLUMNS,
    )

    def drafts(
        self,
        address: Address,
        entity: str | None,
        states: Collection[DraftState],
        after: Ref | None = None,
    ) -> Iterator[DraftEntry]:
        return self._draft_pages(self._read, address, entity, states, after)

    def _draft_pages(
        self,
        fetch: Fetch,
        address: Address,
        entity: str | None,
        states: Collection[DraftState],
        after: Ref | None = None,
    ) -> Iterator[DraftEntry]:
        """Yield drafts in natural order, page by page."""
        values = address_parameters(address) | {
            "p_entity": entity,
            "p_states": list(states),
            "p_limit": PAGE,
        }
        last: Ref | None = after or Ref("", 0)
        while last is not None:
            place = {"p_after_entity": last.entity, "p_number": last.number}
            page = _by_ref(fetch(self._PAGE_OF_DRAFTS, values | place), address)
            yield from page.values()
            last = [*page][-1] if len(page) == PAGE else None

    def values_there(
        self,
        address: Address,  # noqa: ARG002
        column: Column[Any],
        values: Sequence[Any],
    ) -> Collection[Any]:
        try:
            rows = self._read(select(column).where(column.in_(values)), {})
        except RegistryTablesError:
            return ()
        except RegistryFailedError as error:
            if str(error.sqlstate).startswith(_NO_SUCH_TABLE):
                return ()
            raise
        return [value for (value,) in rows]

    # All or none. An edit that was made already, by a caller whose connection was lost, is made
    # again: the version before it is accepted if content and label are the same.
    _EDIT_DRAFTS = typed_text(
        f"""
        UPDATE alfred_refs_draft AS drafts SET
            content = CAST(requested.content AS json),
            label = coalesce(requested.label, drafts.label),
            edited = {WORKING_TURN},
            version = coalesce(requested.version, drafts.version) + 1
        FROM alfred_refs_counter AS counters, {_EDITS}
        WHERE {_DRAFT_OF_REQUESTED}
            AND NOT EXISTS (
                SELECT 1 FROM {_EDITS}
                LEFT JOIN alfred_refs_counter AS counters
                    ON counters.conversation = :p_conversation
                    AND counters.entity = requested.entity
                LEFT JOIN alfred_refs_draft AS drafts
                    ON drafts.conversation = :p_conversation
                    AND drafts.kind = counters.kind
                    AND drafts.number = requested.number
                    AND {OF_TABLE}
                WHERE (
                    drafts.state = 'pending'
                    AND (
                        requested.version IS NULL
                        OR drafts.version = requested.version
                        OR drafts.version = requested.version + 1
                            AND CAST(drafts.content AS text) = requested.content
                            AND drafts.label
                                IS NOT DISTINCT FROM coalesce(requested.label, drafts.label)
                    )
                ) IS NOT true
            )
        RETURNING
            requested.entity, drafts.number, CAST(drafts.content AS text), drafts.label,
            drafts.turn, drafts.edited, drafts.version, drafts.state, drafts.key
        """,
        "entity number content label turn edited version state key",
    )

    def edit_drafts(
        self, address: Address, edits: Sequence[DraftEdit], turn: int | None = None
    ) -> Mapping[Ref, DraftEntry]:
        values = address_parameters(address) | ref_parameters(address, [e.ref for e in edits])
        values |= {
            "p_contents": [edit.content for edit in edits],
            "p_labels": [edit.label for edit in edits],
            "p_versions": [edit.version for edit in edits],
            "p_turn": turn,
        }
        rows = self._write([self._LOCK_USED, self._EDIT_DRAFTS], values)
        entries = [_entry(entity, row, (None, None, None)) for entity, *row in rows]
        return {entry.ref: entry for entry in entries}

    # All or none. A reserved key stays: the row may still be saved with it.
    _DISCARD_DRAFTS = typed_text(f"""
        UPDATE alfred_refs_draft AS drafts SET state = 'discarded'
        FROM alfred_refs_counter AS counters, {REQUESTED_REFS}
        WHERE {_DRAFT_OF_REQUESTED}
            AND drafts.state = 'pending'
            AND NOT EXISTS (
                SELECT 1 FROM {_REQUESTED_AND_FOUND}
                WHERE found.number IS NULL OR found.state = 'saved' OR NOT {OF_TABLE}
            )
    """)

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        batch = [self._LOCK_USED, self._DISCARD_DRAFTS, self._READ_DRAFTS]
        values = address_parameters(address) | ref_parameters(address, refs)
        return _by_ref(self._write(batch, values), address)

    _RESERVE_KEYS = typed_text(f"""
        UPDATE alfred_refs_draft AS drafts SET key = requested.key
        FROM alfred_refs_counter AS counters,
            unnest(:p_entities, :p_numbers, :p_keys) AS requested (entity, number, key)
        WHERE {_DRAFT_OF_REQUESTED} AND drafts.state = 'pending' AND drafts.key IS NULL
    """)

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        values = address_parameters(address) | ref_parameters(address, list(keys))
        values["p_keys"] = [encode(key) for key in keys.values()]
        batch = [self._LOCK_USED, self._RESERVE_KEYS, self._READ_DRAFTS]
        try:
            return _by_ref(self._write(batch, values), address)
        except RegistryFailedError as error:
            if error.sqlstate == UNIQUE_VIOLATION:
                raise DraftKeyError(*map(str, keys)) from None
            raise

    _CONFIRM_DRAFTS = typed_text(f"""
        UPDATE alfred_refs_draft AS drafts SET state = 'saved'
        FROM alfred_refs_counter AS counters, {REQUESTED_REFS}
        WHERE {_DRAFT_OF_REQUESTED} AND drafts.state <> 'saved' AND drafts.key IS NOT NULL
    """)

    # An earlier attempt to save the draft, with the same key, was rolled back.
    _BRING_BACK = typed_text(f"""
        UPDATE alfred_refs_mapping AS mappings SET gone = NULL
        FROM alfred_refs_counter AS counters, {REQUESTED_REFS}, alfred_refs_draft AS drafts
        WHERE {_DRAFT_OF_REQUESTED}
            AND mappings.conversation = :p_conversation
            AND mappings.kind = drafts.kind
            AND mappings.key = drafts.key
            AND mappings.gone = 'was never saved'
    """)

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        batch = [self._LOCK_USED, self._CONFIRM_DRAFTS, self._BRING_BACK]
        self._write(batch, address_parameters(address) | ref_parameters(address, refs))

    # Of an export
    _RESTORE_DRAFTS = typed_text("""
        INSERT INTO alfred_refs_draft
            (conversation, kind, number, turn, edited, version, state, content, label, key)
        SELECT
            :p_conversation, counters.kind, new.number, new.turn, new.edited, new.version,
            new.state, CAST(new.content AS json), new.label, new.key
        FROM unnest(
            :p_entities, :p_numbers, :p_turns, :p_edits, :p_versions, :p_states,
            :p_contents, :p_labels, :p_keys
        ) AS new (entity, number, turn, edited, version, state, content, label, key)
        JOIN alfred_refs_counter AS counters
            ON counters.conversation = :p_conversation AND counters.entity = new.entity
    """)

    @staticmethod
    def _draft_parameters(drafts: Sequence[DraftEntry]) -> dict[str, Any]:
        """Return the parameters of `_RESTORE_DRAFTS`."""
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


def _by_ref(rows: Sequence[Sequence[Any]], address: Address) -> dict[Ref, DraftEntry]:
    """Return the drafts of rows that have the columns `_COLUMNS`."""
    entries = []
    for _, entity, table, *row in check_owner(rows, address):
        address.check_table(entity, table)
        if row[0] is not None:
            entries.append(_entry(entity, row[:-3], row[-3:]))
    return {entry.ref: entry for entry in entries}


def _entry(entity: str, draft: Sequence[Any], row: Sequence[Any]) -> DraftEntry:
    """Return a draft of its columns, and of the number, mark and label of its row's ref."""
    number, content, label, turn, edited, version, state, encoded_key = draft
    ref = Ref(entity, number, draft=True)
    entry = DraftEntry(ref, content, label, turn, edited, version, state)
    if encoded_key is None:
        return entry
    row_number, gone, row_label = row
    key = decode(encoded_key)
    saved = None if row_number is None else Entry(Ref(entity, row_number), key, gone, row_label)
    return replace(entry, key=key, row=saved)
