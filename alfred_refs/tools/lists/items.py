"""The items of a list as a model may name, expect and change them.

The executor of edits asks: what is said of an item comes in, and what is wrong with it goes out.
Rows are held to what a model may do with rows, values to their columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alfred_refs.positions.documents import read
from alfred_refs.positions.editing import instead_of
from alfred_refs.positions.edits import Add, Modify
from alfred_refs.positions.lists import DocumentLevel, Level, RowLevel, kept, unfit
from alfred_refs.positions.resolving import Item, Rules, UnfitError
from alfred_refs.positions.snapshot import Snapshot
from alfred_refs.tools.call import Call
from alfred_refs.tools.errors import ToolError
from alfred_refs.tools.payload.expected import differences
from alfred_refs.tools.payload.payloads import (
    changes,
    new_records,
)
from alfred_refs.tools.tables.lists import ToolList
from alfred_refs.tools.tables.table import ToolTable


class ItemRules(Rules):
    """What a model may do to items: what it may do to rows and columns."""

    def __init__(self, call: Call, listed: ToolList, snapshot: Snapshot) -> None:
        self._call = call
        self._list = listed
        self._snapshot = snapshot

    def path_of(self, ref: str) -> Sequence[int] | None:
        """See `Rules.path_of`: a row of several key columns has the ref that tools give it."""
        found = self._snapshot.path_of(ref)
        tables = [] if found else [each for each in self._list.tables[1:] if each.own is None]
        for table in tables:
            depth = [*self._list.tables].index(table) - 1
            items = [i for i, place in self._snapshot.places.items() if place.depth == depth]
            refs = self._call.refs_of([item.value for item in items], table)
            if ref in refs:
                return self._snapshot.path(items[refs.index(ref)])
        return found

    def unexpected(self, item: Item, depth: int, expect: Any) -> str | None:
        """See `Rules.unexpected`: no key is in what is told."""
        table = self._list.rows_at(depth)
        if table is not None:
            if not isinstance(expect, str | Mapping):
                return "a row"
            if isinstance(expect, str) and self._has_text(item.value, table, expect):
                return None
            if isinstance(expect, str) and table.keys.label is None:
                return "another row"
            other = {name: actual for name, _, actual in differences(table, item.value, expect)}
            return repr(other) if other else None
        if instead_of(item, expect) is None:
            return None
        shown = self._shown(item, depth)
        return None if shown == expect else repr(shown)

    def _shown(self, item: Item, depth: int) -> Any:
        """Return an item of an array or a document as JSON, from all that the column shows."""
        level, column = self._list.levels[-1], self._list.column
        inside: list[int] = []
        while depth >= len(self._list.levels) - 1:
            place = self._snapshot.places[item]
            inside.insert(0, place.number)
            item, depth = place.parent, place.depth - 1
        if column is None or not isinstance(level, DocumentLevel):
            return None
        shown = read(column.show(getattr(item.value, column.name)), level.names)
        for number in inside:
            shown = (shown.items or [])[number - 1]
        return shown.value.value

    def kept(self, depth: int) -> str | None:
        """See `Rules.kept`."""
        return kept(self._list.levels, depth)

    def _has_text(self, row: Any, table: ToolTable, text: str) -> bool:
        """Tell whether a text stands in a row: not only as its label."""
        shown = [column.name for column in table.columns.values() if column.shown]
        return any(getattr(row, name) == text for name in shown)

    def fitted(self, edit: Modify | Add, depth: int) -> Any:
        """See `Rules.fitted`: as `db_update` and `db_create` check values."""
        table = self._list.rows_at(depth)
        try:
            if table is None:
                return self._fitted_item(edit, depth)
            return _fitted_row(edit, table, self._list.levels[depth])
        except ToolError as error:
            raise UnfitError(f"cannot be given this: {error.message}") from None

    def _fitted_item(self, edit: Modify | Add, depth: int) -> Any:
        """Return the value of an item of an array or a document."""
        why, column = unfit(self._list.levels, depth, edit), self._list.column
        if why is not None or column is None:
            raise UnfitError(why)
        # an array takes arrays alone, of as many dimensions
        around = depth + 2 - len(self._list.levels) if column.values.item is not None else 0
        given = edit.value
        for _ in range(around):
            given = [given]
        given = column.accept(given, new=True)
        for _ in range(around):
            [given] = given
        return given


def _fitted_row(edit: Modify | Add, table: ToolTable, level: Level) -> Mapping[str, Any]:
    """Return the values of a row by attribute."""
    if not isinstance(edit.value, Mapping):
        raise UnfitError("is a row: give an object of its fields")
    fixed = [level.position, *level.parents] if isinstance(level, RowLevel) else []
    for name in edit.value:
        if name in fixed:
            raise UnfitError(f"has {name!r} by its place: move it")
    if isinstance(edit, Modify):
        return changes(table, edit.value)
    return new_records(table, [edit.value])[0]
