"""What a model expects a row to have before it is changed: told from what the row has.

A row that was read for the change and what the model said of it come in; the differences go out.
Values are compared as the column has them: a moment is the same in every zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import undefer
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs import sqla
from alfred_refs.tools.errors import invalid_arguments
from alfred_refs.tools.tables.table import ToolColumn, ToolTable
from alfred_refs.tools.wire.texts import shallow

Expected = str | Sequence[Any] | Mapping[str, Any] | None
"""A label, or values by column; a list of labels, one for each ref, `beliefs` has looked at."""


def expected_loaders(table: ToolTable, expect: Expected) -> list[ExecutableOption]:
    """Return the loader options that load what rows are expected to have, and their labels.

    Raises:
        ToolError: a column is none that a model may use.
    """
    label = table.keys.label
    names = [] if label is None or label.attribute is None else [label.attribute]
    if isinstance(expect, Mapping):
        names += [table.column(name).name for name in expect]
    return [undefer(getattr(table.model, name)) for name in names]


def label_of(table: ToolTable, instance: Any) -> str | None:
    """Return the label of a row, as far as that is loaded."""
    label = table.keys.label
    return None if label is None else label.line(sqla.state_of(instance).dict)


def differences(
    table: ToolTable, instance: Any, expect: Expected
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what a row has otherwise: the column, what was expected and what there is, as JSON.

    Raises:
        ToolError: what is expected cannot be told of such rows.
    """
    if isinstance(expect, Mapping):

        def value_of(column: ToolColumn) -> Any:
            return getattr(instance, column.name)

        yield from values_otherwise(table, expect, value_of)
    elif isinstance(expect, str):
        if table.keys.label is None:
            raise invalid_arguments(
                f"rows of {table.name!r} have no label: give values by column", "expect"
            )
        loaded = sqla.state_of(instance).dict
        label = table.keys.label
        # beside refs in rows, in columns, and beside refs in errors
        if expect not in (label.line(loaded), label.read(loaded), label.of(loaded)):
            yield "label", expect, label.line(loaded)


def values_otherwise(
    table: ToolTable,
    expect: Mapping[str, Any],
    value_of: Callable[[ToolColumn], Any],
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the columns that have other values than expected, with both as JSON."""
    for name, given in expect.items():
        column = table.column(name)
        expected, (actual, _) = column.accept(given), shallow(value_of(column))
        shown = column.show(expected), column.show(actual)
        if expected != actual and shown[0] != shown[1]:
            yield name, *shown
