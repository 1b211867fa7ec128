"""What a model was shown of rows in the answer of a call, to be kept for prompts.

An answer comes in as the model sees it; what it shows of each row goes out, under the row's key.
A row that stands inside of another is kept by itself, and the other keeps its ref alone, so that
there is one copy of each, the newest. What was cut gives way to what is known already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.refs import parse_ref
from alfred_refs.store import INSIDE, Action, Activity

from .tables.table import ToolColumn, ToolTable
from .tables.tables import ToolTables

Shown = tuple[str, Action, dict[str, Any] | None, dict[str, Any]]
"""A ref, what was done, what was shown whole, and what was cut."""


def seen_in(
    answer: Mapping[str, Any], tables: ToolTables, conversation: SessionConversation
) -> list[Activity]:
    """Return what an answer shows of rows, of some twice: their keys are at hand."""
    by_name = {table.name: table for table in tables}
    cut = {path.partition(":")[0] for path in answer.get("cut", ())}
    shown = [
        each
        for part in (answer, *answer.get("also", ()))
        if part.get("table") in by_name
        for table, row in _rows_in(part, by_name[part["table"]])
        for each in _of_row(row, table, "read", cut)
    ]
    return kept(shown, conversation)


def kept(shown: Collection[Shown], conversation: SessionConversation) -> list[Activity]:
    """Return what is kept of what was shown, under the keys of rows; a draft has none."""
    keys = conversation.keys_held(ref for ref, *_ in shown)
    return [
        Activity((parsed.entity, keys[ref]), action, seen, heads, shown=True)
        for ref, action, seen, heads in shown
        for parsed in (parse_ref(ref),)
        if parsed is not None and not parsed.draft and ref in keys
    ]


def _rows_in(answer: Mapping[str, Any], table: ToolTable) -> Iterator[tuple[ToolTable, Any]]:
    """Yield the rows of an answer, with their tables: also groups, and a list's, by position."""
    yield from ((table, row) for row in (*answer.get("rows", ()), *answer.get("totals", ())))
    name, *rest = str(answer.get("list", "")).split(".")
    if name in table.targets:
        target = table.targets[name]
        for row in (answer.get("items") or {}).values():
            within = row.get(rest[0]) if rest and isinstance(row, dict) else None
            if isinstance(within, dict):
                yield from _rows_in({"list": ".".join(rest), "items": within}, target)
                yield target, {field: each for field, each in row.items() if field != rest[0]}
            else:
                yield target, row


def _of_row(row: Any, table: ToolTable, action: Action, cut: Iterable[str]) -> Iterator[Shown]:
    """Yield what is shown of a row, of those inside of it, and of those that it refers to."""
    if not isinstance(row, dict):
        return
    ref = row.get(table.ref_field)
    whole: dict[str, Any] = {}
    heads: dict[str, Any] = {}
    for name, value in row.items():
        column, target = table.columns.get(name), table.targets.get(name)
        if column is None and target is not None:
            inside = value if isinstance(value, list) else [value]
            for each in inside:
                yield from _of_row(each, target, "linked", cut)
            refs = [each[target.ref_field] for each in inside if isinstance(each, dict)]
            kept = f"{INSIDE}{name}"
            shown: Any = refs if isinstance(value, list) else (refs or [None])[0]
        else:
            kept, shown = name, value
            yield from _linked(column, value, ref)
        place = f"{ref}.{name}"
        is_head = any(each.startswith(place) and each[len(place) :][:1] in "[." for each in cut)
        (heads if is_head else whole)[kept] = shown
    if isinstance(ref, str):  # a group has none
        yield ref, action, whole, heads


def _linked(column: ToolColumn | None, value: Any, own: Any) -> Iterator[Shown]:
    """Yield the refs that a column has, to other rows than its own."""
    for each in value if isinstance(value, list) else [value]:
        if column is not None and column.key is not None and isinstance(each, str) and each != own:
            yield each, "linked", None, {}
