"""NUL characters that were taken out of the data of a call: told of, where they were in texts.

What `repair` has removed and the tables come in; notes for the model go out. Where a value is no
text or document, as a ref or a choice, what is left may be another one than was meant: that is
refused. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from alfred_refs.tools.errors import invalid_value, unknown_column
from alfred_refs.tools.tables.table import ToolTable
from alfred_refs.tools.tables.tables import ToolTables
from alfred_refs.tools.wire.arguments import Arguments, DbCreate
from alfred_refs.tools.wire.repair import Path, misplaced_nul


def notes_of(removed: Mapping[Path, int], arguments: Arguments, tables: ToolTables) -> list[str]:
    """Return what a model is told of characters that were left out of its data.

    Raises:
        ToolError: one was in what is no text, or there is no such table or column.
    """
    told = Counter[str]()
    for path, count in removed.items():
        told[_field(path, arguments, tables)] += count
    return [
        f"{count} NUL character{' was' if count == 1 else 's were'} left out of {field!r}"
        for field, count in told.items()
    ]


def _field(path: Path, arguments: Arguments, tables: ToolTables) -> str:
    """Return what a model calls the column that a path leads to, if that takes texts."""
    name, rest = arguments.table, path
    if isinstance(arguments, DbCreate) and path[0] == "also":
        name, rest = arguments.also[int(path[1])].table, path[2:]
    names = [each for each in rest[1:] if isinstance(each, str)]
    column = _column(names, tables.named(name))
    if column is None:  # the name of one had the character
        raise misplaced_nul(path)
    return column if name == arguments.table else f"{name}.{column}"


def _column(names: Sequence[str], table: ToolTable) -> str | None:
    """Return the path to a column through what is nested in a row, `None` if it has no end.

    Raises:
        ToolError: there is no such column, or it takes no texts.
    """
    for n, name in enumerate(names, start=1):
        if name in table.columns:
            values = table.columns[name].values
            family = values.family if values.item is None else values.item.family
            if family not in ("text", "json") or name == table.discriminator:
                raise invalid_value(name, f"{values.wanted}, without NUL characters")
            return ".".join(names[:n])
        if name not in table.targets:
            raise unknown_column(table.name, name, table.fields)
        table = table.targets[name]
    return None
