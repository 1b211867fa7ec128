"""Drafts in PostgreSQL: generated content, numbered and kept like refs.

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
from alfred_refs.mapping.keys import Key, decode, encode
from alfred_refs.mapping.refs import Ref

from . import sql_drafts
from .connections import UNIQUE_VIOLATION, Sending, only_mine
from .sql_parameters import named
from .sql_refs import lock_always
from .values import Address, DraftEdit, DraftEntry, DraftState, Entry, NewDraft

if TYPE_CHECKING:
    from sqlalchemy import Executable, Row

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
        values = named(address) | {
            "p_entities": [each.entity for each in new],
            "p_tables": address.tables_of(each.entity for each in new),
            "p_contents": [each.content for each in new],
            "p_labels": [each.label for each in new],
            "p_turn": turn,
        }
        # not tried again when the connection is lost: they may have been kept
        rows = self._write([lock_always, sql_drafts.draft], values, again=False)
        if not rows:
            self._check_tables(address)
            raise UnknownConversationError(address.id)
        return [
            DraftEntry(Ref(each.entity, number, draft=True), each.content, each.label, now, now)
            for each, (_, number, now) in zip(new, rows, strict=True)
        ]

    def read_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        return _by_ref(
            self._alone(sql_drafts.read_drafts, named(address) | _arrays(address, refs)), address
        )

    def drafts(
        self, address: Address, entity: str | None, states: Collection[DraftState]
    ) -> Iterator[DraftEntry]:
        return listed(self._alone, address, entity, states)

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
        values = named(address) | _arrays(address, [each.ref for each in edits])
        values |= {
            "p_contents": [each.content for each in edits],
            "p_labels": [each.label for each in edits],
            "p_versions": [each.version for each in edits],
            "p_turn": turn,
        }
        rows = self._write([sql_drafts.lock_used, sql_drafts.edit_drafts], values)
        entries = [_entry(entity, row, (None, None, None)) for entity, *row in rows]
        return {entry.ref: entry for entry in entries}

    def discard_drafts(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, DraftEntry]:
        batch = [sql_drafts.lock_used, sql_drafts.discard_drafts, sql_drafts.read_drafts]
        return _by_ref(self._write(batch, named(address) | _arrays(address, refs)), address)

    def reserve_keys(self, address: Address, keys: Mapping[Ref, Key]) -> Mapping[Ref, DraftEntry]:
        values = named(address) | _arrays(address, list(keys))
        values["p_keys"] = [encode(key) for key in keys.values()]
        batch = [sql_drafts.lock_used, sql_drafts.reserve_keys, sql_drafts.read_drafts]
        try:
            return _by_ref(self._write(batch, values), address)
        except RegistryFailedError as error:
            if error.sqlstate == UNIQUE_VIOLATION:
                raise DraftKeyError(*map(str, keys)) from None
            raise

    def confirm_drafts(self, address: Address, refs: Sequence[Ref]) -> None:
        batch = [sql_drafts.lock_used, sql_drafts.confirm_drafts, sql_drafts.bring_back]
        self._write(batch, named(address) | _arrays(address, refs))


def listed(
    fetch: Fetch, address: Address, entity: str | None, states: Collection[DraftState]
) -> Iterator[DraftEntry]:
    """Yield drafts in natural order, page by page."""
    values = named(address) | {"p_entity": entity, "p_states": list(states), "p_limit": PAGE}
    after: tuple[str, int] | None = ("", 0)
    while after is not None:
        place = dict(zip(("p_after_entity", "p_number"), after, strict=True))
        page = list(_by_ref(fetch(sql_drafts.page_of_drafts, values | place), address).values())
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
