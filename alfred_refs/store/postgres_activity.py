"""What was done with rows, and steps, in PostgreSQL.

It is a part of `PostgresStore`, which runs it on connections of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from alfred_refs.errors import UnknownConversationError
from alfred_refs.mapping.keys import encode
from alfred_refs.mapping.refs import Ref

from . import sql_activity as sql, sql_refs
from .activity import Activity, ActivityEntry, ActivityRecord, Actor, StepEntry, json_text
from .connections import Sending, only_mine
from .postgres_drafts import PAGE, Fetch
from .sql_parameters import named
from .values import Address

_MOST = 2_000  # entries of one answer, rows inside of others among them


class PostgresActivity(Sending):
    """The part of `PostgresStore` that is about what was done with rows."""

    def note(
        self,
        address: Address,
        done: Sequence[Activity],
        actor: Actor,
        turn: int | None = None,
    ) -> None:
        if not done:
            return
        minted = [each for each in done if not (each.shown or each.action == "deleted")]
        values = named(address) | {
            "p_entities": [each.key[0] for each in minted],
            "p_keys": [encode(each.key[1]) for each in minted],
            "p_labels": [each.label for each in minted],
            "p_tables": address.tables_of(each.key[0] for each in done),
            "p_noted": [each.key[0] for each in done],
            "p_noted_keys": [encode(each.key[1]) for each in done],
            "p_actions": [each.action for each in done],
            "p_contents": [_text(each.seen) for each in done],
            "p_heads": [_text(each.heads) for each in done],
            "p_actor": actor,
            "p_turn": turn,
        }
        mint = [sql_refs.refer] if minted else []
        [(is_noted,)] = self._write([sql_refs.lock_always, *mint, sql.note, sql.noted], values)
        if not is_noted:
            self._check_tables(address)
            raise UnknownConversationError(address.id)

    def activity(self, address: Address, turns: int, turn: int | None = None) -> ActivityRecord:
        values = {"p_turns_back": turns, "p_limit": _MOST, "p_turn": turn}
        rows = only_mine(self._rows(sql.activity, address, **values), address)
        for row in rows:
            if row.entity is not None:
                address.check_table(row.entity, row.table_name)
        return ActivityRecord(
            rows[0].turn if rows else turn or 0,
            sorted((_entry(row) for row in rows if row.action), key=lambda entry: entry.ref),
            {row.entity: row.refs for row in rows if row.refs is not None},
        )

    def retain(self, address: Address, refs: Sequence[Ref], reason: str, actor: Actor) -> None:
        self._change(sql.retain, address, refs, p_reason=reason, p_actor=actor)

    def demote(self, address: Address, refs: Sequence[Ref]) -> None:
        self._change(sql.demote, address, refs)

    def drop(self, address: Address, refs: Sequence[Ref]) -> None:
        self._change(sql.drop, address, refs)

    def _change(
        self, statement: Any, address: Address, refs: Sequence[Ref], **values: Any
    ) -> None:
        arrays = {
            "p_entities": [ref.entity for ref in refs],
            "p_numbers": [ref.number for ref in refs],
            "p_tables": address.tables_of(ref.entity for ref in refs),
        }
        self._write([sql_refs.lock_begun, statement], named(address) | arrays | values)

    def add_step(self, address: Address, content: str, turn: int | None = None) -> StepEntry:
        values = named(address) | {"p_content": content, "p_turn": turn}
        # not tried again when the connection is lost: it may have been kept
        rows = self._write([sql_refs.lock_always, sql.add_step], values, again=False)
        if not rows:
            raise UnknownConversationError(address.id)
        [(in_turn, number)] = rows
        return StepEntry(in_turn, number, content)

    def steps(self, address: Address, turns: int, turn: int | None = None) -> list[StepEntry]:
        rows = self._rows(sql.steps, address, p_turns_back=turns, p_turn=turn)
        rows = only_mine(rows, address)
        return [
            StepEntry(row.turn, row.number, row.content) for row in rows if row.turn is not None
        ]


def _text(seen: Mapping[str, Any] | None) -> str | None:
    return None if seen is None else json_text(seen)


def _entry(row: Any) -> ActivityEntry:
    return ActivityEntry(
        Ref(row.entity, row.number),
        *(row.gone, row.label, row.action, row.actor, row.first_turn, row.last_turn),
        *(row.reason, row.demoted, row.seen_turn),
        None if row.content is None else json.loads(row.content),
    )


def all_activity(fetch: Fetch, address: Address) -> Iterator[ActivityEntry]:
    """Yield all that was done with a conversation's rows, in natural order, page by page."""
    values = named(address) | {"p_limit": PAGE}
    after: tuple[str, int] | None = ("", 0)
    while after is not None:
        place = dict(zip(("p_after_entity", "p_number"), after, strict=True))
        page = [_entry(row) for row in fetch(sql.page_of_activity, values | place)]
        yield from page
        after = (page[-1].ref.entity, page[-1].ref.number) if len(page) == PAGE else None


def arrays_of_activity(entries: Sequence[ActivityEntry]) -> dict[str, Any]:
    """Return entries as the parameters of a statement that writes them."""
    return {
        "p_entities": [entry.ref.entity for entry in entries],
        "p_numbers": [entry.ref.number for entry in entries],
        "p_first_turns": [entry.first_turn for entry in entries],
        "p_turns": [entry.last_turn for entry in entries],
        "p_actions": [entry.action for entry in entries],
        "p_actors": [entry.actor for entry in entries],
        "p_reasons": [entry.reason for entry in entries],
        "p_demoted": [entry.demoted for entry in entries],
        "p_seen_turns": [entry.seen_turn for entry in entries],
        "p_contents": [_text(entry.seen) for entry in entries],
    }
