"""A list as a model is shown it: each item under its position, with its length and its token.

{"items": {"1": {"id": "line_6", "text": "butter"}, "2": ...}, "count": 5, "token": "d5c8…"}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from alfred_refs.positions.lists import DocumentLevel, RowLevel
from alfred_refs.positions.resolving import Item
from alfred_refs.positions.snapshot import Snapshot, document_of
from alfred_refs.tools.answers.numbering import numbered
from alfred_refs.tools.answers.results import Rendering, Shape, size_of, without_depth
from alfred_refs.tools.call import Call
from alfred_refs.tools.tables.lists import ToolList
from alfred_refs.tools.tables.table import ToolColumn, ToolTable
from alfred_refs.tools.wire.arguments import DbEditList


class ListAnswers:
    """What a model is shown of a list: each item under its position, as text."""

    def __init__(self, call: Call, listed: ToolList) -> None:
        self._call = call
        self._list = listed
        self._room = call.room()
        self._rendering: Rendering = call.rendering([], Shape(listed.tables[0], []))
        self._shapes = [
            Shape(table, [*_columns(table, level)])
            for table, level in zip(listed.tables[1:], listed.levels, strict=False)
            if isinstance(level, RowLevel)
        ]

    def answer(
        self,
        arguments: DbEditList,
        snapshot: Snapshot,
        modified: Mapping[Item, Any],
        notes: Sequence[str],
    ) -> dict[str, Any]:
        """Return the answer: the list, how long it is, and its token."""
        root, level = snapshot.root, self._list.levels[0]
        if isinstance(level, DocumentLevel):
            items: Any = self._document(root, level, modified, arguments.row)
        else:
            items = self._rows(root, 0, modified, arguments.name)
        answer = {
            "table": arguments.table,
            "row": arguments.row,
            "list": arguments.name,
            "items": items,
            "count": len(root.items or ()),
            **({"preview": True} if arguments.preview else {}),
            "token": snapshot.token,
        }
        return self._call.finished(answer, notes, self._rendering)

    def _rows(
        self, parent: Item, depth: int, modified: Mapping[Item, Any], path: str
    ) -> dict[str, Any]:
        items, shown = parent.items or [], dict[str, Any]()
        for number, item in enumerate(items, start=1):
            if number > self._call.setting.limits.rows or self._room.characters < 0:
                self._rendering.cut.append(f"{path}: items from {number} to {len(items)}")
                break
            row = self._row(item, depth, modified)
            self._room.characters -= size_of(row)
            inside = self._list.levels[depth + 1 : depth + 2]
            for level in inside if item.items is not None else ():
                if isinstance(level, DocumentLevel):
                    row[level.column] = self._document(item, level, modified, f"{path}[{number}]")
                else:
                    where = f"{path}[{number}].{level.name}"
                    row[level.name] = self._rows(item, depth + 1, modified, where)
            shown[str(number)] = row
        return shown

    def _row(self, item: Item, depth: int, modified: Mapping[Item, Any]) -> dict[str, Any]:
        shape = self._shapes[depth]
        given = modified.get(item, {})
        row: dict[str, Any] = {}
        if isinstance(item.value, shape.table.model):
            row = self._rendering.row(item.value, shape)
            if given:
                self._rendering.shown.pop()  # its labels are those of before
        else:
            given = item.value
        row.update((name, shape.table.columns[name].show(value)) for name, value in given.items())
        return row  # the same, which labels are put into

    def _document(
        self, item: Item, level: DocumentLevel, modified: Mapping[Item, Any], path: str
    ) -> Any:
        column, cut = self._list.tables[-1].columns[level.column], self._rendering.cut
        whole = without_depth(document_of(item, level, modified), path, cut)
        shown = self._rendering.fitting(column.show(whole), column, path)
        self._room.characters -= size_of(shown)
        return numbered(shown, level.names)


def _columns(table: ToolTable, level: RowLevel) -> Iterator[ToolColumn]:
    """Yield what is shown of the rows of a list: not what their place says."""
    placed = {level.position, *level.parents}
    for name, column in table.columns.items():
        if name == table.own or (column.shown and name not in placed):
            yield column
