"""Which lists of a table a model may edit by position: those of the mapping that it may write.

    lists_of(recipes)                      # ['ingredients', 'instructions']
    list_named(weeks, "sessions.sets")     # rows of rows, or UnknownList told as a ToolError

Related rows are edited where their table is listed and may be updated, and where their position is
not read only; it may be hidden, for positions are what this is about. Arrays and JSON are edited
where their column may be. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import inspect

from alfred_refs.errors import ListError
from alfred_refs.positions.lists import DocumentLevel, Level, RowLevel, levels_of, names_of
from alfred_refs.tools.errors import unknown_list

from .table import ToolColumn, ToolTable


@dataclass(frozen=True, slots=True)
class ToolList:
    """A list that a model may edit.

    Attributes:
        name: that leads to it, with dots between.
        levels: the lists that it has, the outermost first.
        tables: for each level, the table of the rows that have the lists, and at the end that of
            the rows in the last level, if these are rows.
    """

    name: str
    levels: Sequence[Level]
    tables: Sequence[ToolTable]

    def rows_at(self, depth: int) -> ToolTable | None:
        """Return the table of the rows in a list, the outermost of depth 0, if these are rows."""
        within = depth < len(self.levels) and isinstance(self.levels[depth], RowLevel)
        return self.tables[depth + 1] if within else None

    @property
    def column(self) -> ToolColumn | None:
        """The column that has the innermost lists; `None` where these are rows."""
        last = self.levels[-1]
        return self.tables[-1].columns[last.column] if isinstance(last, DocumentLevel) else None

    @property
    def entity(self) -> str | None:
        """The entity of integers that are items of the innermost lists, if those are keys."""
        last, column = self.levels[-1], self.column
        if column is None or not isinstance(last, DocumentLevel):
            return None
        return column.places.get(last.names[-1] if last.names else None)


def lists_of(table: ToolTable) -> list[str]:
    """Return the attributes of a table that are lists which a model may edit."""
    found = []
    for name in names_of(inspect(table.model).mapper):
        try:
            if _tables(table, levels_of(table.model, name)) is not None:
                found.append(name)
        except ListError:  # of many-to-many rows, or by a column of no integers
            continue
    return found


def list_named(table: ToolTable, name: str) -> ToolList:
    """Return the list of a name.

    Raises:
        ToolError: there is none that a model may edit.
    """
    try:
        levels = levels_of(table.model, name)
    except ListError:
        levels = ()
    tables = _tables(table, levels)
    if not levels or tables is None:
        raise unknown_list(table.name, name, lists_of(table))
    return ToolList(name, levels, tables)


def _tables(table: ToolTable, levels: Sequence[Level]) -> Sequence[ToolTable] | None:
    """Return the tables that levels lead through; `None` where one is not for a model to edit."""
    tables = [table]
    for level in levels:
        if isinstance(level, DocumentLevel):
            column = table.columns.get(level.column)
            return tables if column is not None and _is_updated(table, column) else None
        target = table.targets.get(level.name)
        if target is None or target.model is not level.model or level.name in table.fixed:
            return None
        is_fixed = any(_is_fixed(each, level.position) for each in target.kinds.values())
        if is_fixed or "update" not in target.verbs:
            return None
        table = target
        tables.append(table)
    return tables


def _is_fixed(table: ToolTable, name: str) -> bool:
    """Tell whether a column is shown and not written; one that is hidden is."""
    column = table.columns.get(name)
    return name in table.fixed or not (column is None or column.updatable)


def _is_updated(table: ToolTable, column: ToolColumn) -> bool:
    return column.updatable and "update" in table.verbs
