"""Edits of lists by position, as lists were seen, and what must not become of a list.

An answer is held to the rows before and after it, and to a slower reading of the edits: what is
removed or moved leaves, then what is moved or new goes in, the lowest position first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from alfred_refs.positions.lists import DocumentLevel, RowLevel
from alfred_refs.tools.tables import ToolColumn, ToolList, ToolTable, list_by_name, lists_of
from tests.tools.fuzz.judge import Done, Judge, UnsureError
from tests.tools.fuzz.world import Place, spelt

Arguments = dict[str, Any]

_ACTIONS = ["modify"] * 2 + ["remove"] * 2 + ["add"] * 4 + ["move"] * 3

_NEW = object()
"""Stands for a row that was not there before."""


class Lister:
    """Makes calls that edit lists.

    Args:
        chance: what all choices are made by.
        record: makes a new row of a table, without some columns.
        value: makes one of the values that a column or its items may have.
    """

    def __init__(
        self,
        chance: random.Random,
        record: Callable[[ToolTable, Sequence[str]], Arguments],
        value: Callable[[Any, ToolColumn], Any],
    ) -> None:
        self._chance = chance
        self._record = record
        self._value = value
        self._seen: dict[tuple[str, str, str], Mapping[str, Any]] = {}

    def see(self, answer: Mapping[str, Any]) -> None:
        """Keep what a list was shown to be."""
        self._seen[answer["table"], answer["row"], answer["list"]] = answer

    def call(self, table: ToolTable, row: str) -> Arguments:
        """Return a call that edits one of a row's lists, often as it was seen last."""
        name = self._name(table)
        seen = self._seen.get((table.name, row, name), {})
        listed = list_by_name(table, name)
        count = range(self._chance.choice([0, 1, 1, 2, 3]))
        made: Arguments = {"table": table.name, "row": row, "list": name}
        made["edits"] = edits = [self._edit(listed, seen) for _ in count]
        if not edits or self._chance.random() < 0.2:
            made["preview"] = True
        if seen and self._chance.random() < 0.4:
            made["token"] = seen["token"]
        return made

    def _name(self, table: ToolTable) -> str:
        name = self._chance.choice(lists_of(table))
        target = table.targets.get(name)
        if target is not None and self._chance.random() < 0.4 and lists_of(target):
            return f"{name}.{self._name(target)}"
        if target is None and table.columns[name].values.family == "json":
            return self._chance.choice([name, name, f"{name}.days"])
        return name

    def _edit(self, listed: ToolList, seen: Mapping[str, Any]) -> Arguments:
        """Return an edit at one of the levels."""
        count = seen.get("count", 2)
        depth = self._chance.randrange(len(listed.levels))
        action = self._chance.choice(_ACTIONS)
        inside = [self._chance.randrange(1, 4) for _ in range(depth)]
        path = [self._chance.randrange(1, count + 2), *inside]
        items = seen.get("items") or {}
        item = items.get(str(path[0])) if depth == 0 and isinstance(items, dict) else None
        made: Arguments = {"action": action, "path": path}
        if action == "move":
            made["to"] = self._chance.randrange(1, count + 1) if count else 1
            if depth and self._chance.random() < 0.5:
                made["to"] = [self._chance.randrange(1, count + 2), *inside]
        elif action in ("add", "modify"):
            made["data"] = self._data(listed, depth)
        if action != "add" and isinstance(item, Mapping) and self._chance.random() < 0.2:
            made["ref"] = item.get("id", "x_1")
            del made["path"]
        if action != "add" and item is not None and self._chance.random() < 0.2:
            made["expect"] = self._chance.choice([item, "nobody"])
        return made

    def _data(self, listed: ToolList, depth: int) -> Any:
        table, level = listed.rows_at(depth), listed.levels[depth]
        if table is not None and isinstance(level, RowLevel):
            return self._record(table, [level.position, *level.foreign_key])
        column = listed.column
        assert column is not None
        values = column.values
        return self._value(values if values.item is None else values.item, column)


def wrongs(done: Done, judge: Judge, now: Mapping[Place, Any]) -> Iterator[str]:
    """Yield what must not have become of rows by an edit of a list of one level that is answered.

    Args:
        done: the call.
        judge: knows what refs name.
        now: the rows after it, as objects.

    Raises:
        UnsureError: what the edits come to cannot be told.
    """
    answer, table = done.answer, done.table
    touched = done.added | done.changed | done.removed
    if table is None or "preview" in answer or judge.key_of(answer["row"]) == answer["row"]:
        if touched:
            yield "rows changed by a preview, or an edit of a draft"
        return
    listed = list_by_name(table, answer["list"])
    place, edits = judge.place(answer["row"], table), done.arguments.get("edits", [])
    before, after = done.instances[place], now[place]
    ours, names = _writable(listed, place, [before, after], edits)
    if not touched <= ours:
        yield "rows are changed that are not of the list"
    for each in done.changed & ours:
        if other := _others(done.instances[each], now[each]) - names:
            yield f"columns are changed that are not of the list: {sorted(other)}"
    if len(listed.levels) == 1:
        yield from _placed(done, judge, listed, before, after)


def is_part(told: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    """Tell whether an answer has items of a list as it is seen whole, with its count and token."""
    same = all(told[name] == seen.get(name) for name in ("count", "token"))
    return same and _is_in(told["items"], seen["items"])


def _is_in(part: Any, whole: Any) -> bool:
    """Tell whether a value is part of another: of lists by number some items, else all."""
    if not isinstance(part, dict) or not isinstance(whole, dict):
        return bool(part == whole)
    numbered = all(name.isdigit() for name in whole)
    same = part.keys() <= whole.keys() if numbered else part.keys() == whole.keys()
    return same and all(_is_in(each, whole[name]) for name, each in part.items())


def _writable(
    listed: ToolList, place: Place, rows: Sequence[Any], edits: Sequence[Arguments]
) -> tuple[set[Place], set[str]]:
    """Return the rows that edits may write, and the columns of such that are there."""
    level = listed.levels[0]
    if isinstance(level, DocumentLevel):
        return {place}, {level.column}
    table = level.model.__table__.name
    items = {(table, spelt(each._ref)) for row in rows for each in getattr(row, level.name)}
    given = {name for each in edits if each["action"] == "modify" for name in each["data"]}
    return items, {level.position, *given}


def _others(row: SimpleNamespace, now: SimpleNamespace) -> set[str]:
    """Return the columns that a row has other values in than before."""
    data = {name: has for name, has in vars(row).items() if not _is_related(has)}
    return {name for name, has in data.items() if has != getattr(now, name)}


def _is_related(value: Any) -> bool:
    some = value if isinstance(value, list) else [value]
    return any(isinstance(each, SimpleNamespace) for each in some)


def _placed(done: Done, judge: Judge, listed: ToolList, before: Any, after: Any) -> Iterator[str]:
    """Yield where a list is not what edits come to, or an answer not what the database has."""
    level, edits = listed.levels[0], done.arguments.get("edits", [])
    items = done.answer["items"]
    if isinstance(level, RowLevel):
        had = [each._ref for each in _ordered(before, level)]
        wanted = expected(had, edits, lambda ref: had.index((judge.key_of(ref),)))
        rows = _ordered(after, level)
        has = [each._ref if each._ref in had else _NEW for each in rows]
        if has != [each if each in had else _NEW for each in wanted]:
            yield "a list is not what the edits come to"
        numbers = [getattr(each, level.position) for each in rows]
        first = min(numbers, default=0)
        # an edit that changes nothing leaves the gaps that there were
        is_changed = done.added | done.changed | done.removed
        if is_changed and numbers != [*range(first, first + len(rows))]:
            yield f"positions have gaps: {numbers}"
        shown = {int(n): (judge.key_of(each["id"]),) for n, each in items.items()}
        there = dict(enumerate((each._ref for each in rows), start=1))
        if not shown.items() <= there.items():
            yield "an answer shows other rows than there are"
        new = {number for number, each in there.items() if each not in had}
        if not new <= shown.keys() and "cut" not in done.answer:
            yield "an answer leaves out new rows"
        return
    value = getattr(after, level.column)
    if level.names or not isinstance(value, list) or any(len(e["path"]) > 1 for e in edits):
        raise UnsureError
    wanted = expected(
        getattr(before, level.column) or [],
        [
            {**e, "data": judge.value_of(level.column, e["data"])} if "data" in e else e
            for e in edits
        ],
        None,
    )
    if value != wanted:
        yield "a list is not what the edits come to"


def expected(
    items: Sequence[Any], edits: Sequence[Arguments], number: Callable[[str], int] | None
) -> list[Any]:
    """Return what edits of one level come to.

    Args:
        items: that there were.
        edits: of a call that was answered.
        number: tells which item a ref names, where items are rows: these stay what they are.
    """
    found = [*items]
    leaving, coming = set(), []
    for each in edits:
        at = each["path"][-1] - 1 if each.get("path") else number(each["ref"]) if number else 0
        action, data = each["action"], each.get("data")
        if action == "modify" and number is None:
            is_changed = isinstance(found[at], dict) and isinstance(data, dict)
            found[at] = {**found[at], **(data or {})} if is_changed else data
        if action in ("remove", "move"):
            leaving.add(at)
        if action in ("add", "move"):
            to = each["path"][-1] if action == "add" else each["to"]
            coming.append((to if isinstance(to, int) else to[-1], at, action, data))
    rest = [item for at, item in enumerate(found) if at not in leaving]
    last = 0
    for to, at, action, data in sorted(coming, key=lambda each: each[0]):
        last = max(to, last + 1)
        rest.insert(last - 1, found[at] if action == "move" else _NEW if number else data)
    return rest


def _ordered(row: Any, level: RowLevel) -> list[Any]:
    return sorted(
        getattr(row, level.name), key=lambda each: (getattr(each, level.position), each._ref)
    )
