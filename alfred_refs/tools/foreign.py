"""The labels of what rows refer to: what people call the recipe that `recipe_1` is.

Rows on their way to a model come in, with the instances they are of; labels go out beside the
refs. One query for each table that is referred to, through the session, so that a row which the
owner cannot see has no label. A table that the model may not use has none either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import inspect, select
from sqlalchemy.orm import lazyload, load_only

from alfred_refs import sqla
from alfred_refs.columns import KeyColumn
from alfred_refs.session import RefSession

from .hooks import Row
from .results import Shape
from .tables import ToolTable, ToolTables

Mode = Literal["inline", "legend", "none"]


@dataclass(frozen=True, slots=True)
class _Foreign:
    """One ref in a row: the column it stands in, the key behind it, whose row that is of."""

    row: Row
    name: str
    column: KeyColumn
    key: Any
    target: ToolTable


def labelled(
    session: RefSession,
    shown: Iterable[tuple[Row, Any, Shape]],
    tables: ToolTables,
    mode: Mode,
) -> dict[str, str]:
    """Put labels beside the refs in rows, or return them by ref: as the mode says.

    Returns:
        the legend: labels by ref; empty unless that is the mode.
    """
    if mode == "none":
        return {}
    found = [each for entry in shown for each in _foreign(*entry, tables)]
    labels = _labels(session, found)
    legend: dict[str, str] = {}
    for each in found:
        label = labels.get((each.target.name, each.column.by is not None, each.key))
        if label is None:
            continue
        if mode == "legend":
            legend[each.row[each.name]] = label
        else:
            each.row[f"_{each.name}_label"] = label
    return legend


def _foreign(row: Row, instance: Any, shape: Shape, tables: ToolTables) -> Iterator[_Foreign]:
    loaded = sqla.state_of(instance).dict
    for column in shape.columns:
        key = column.key
        is_own = column.name == shape.table.own
        if key is None or key.array or is_own or loaded.get(column.name) is None:
            continue
        target = tables.of_entity(key.entity)
        if target is not None and target.keys.label is not None and column.name in row:
            yield _Foreign(row, column.name, key, loaded[column.name], target)


def _labels(session: RefSession, found: Iterable[_Foreign]) -> Mapping[tuple[str, bool, Any], str]:
    wanted: dict[tuple[str, bool], dict[Any, _Foreign]] = {}
    for each in found:
        wanted.setdefault((each.target.name, each.column.by is not None), {})[each.key] = each
    labels = {}
    for (name, by), of_keys in wanted.items():
        for key, label in _read(session, next(iter(of_keys.values())), list(of_keys)):
            labels[name, by, key] = label
    return labels


def _read(session: RefSession, one: _Foreign, keys: list[Any]) -> Iterator[tuple[Any, str]]:
    """Read the labels of rows of one table, by their keys."""
    model, label = one.target.model, one.target.keys.label
    mapper = inspect(model).mapper
    column = mapper.primary_key[0] if one.column.by is None else one.column.by.column
    attribute = mapper.get_property_by_column(column).key
    statement = (
        select(model)
        .where(getattr(model, attribute).in_(keys))
        .options(lazyload("*"))
        # the keys are keys, though some may be text
        .execution_options(raw_keys=True)
    )
    if label is not None and label.attribute is not None:
        names = dict.fromkeys([*one.target.identity, attribute, label.attribute])
        statement = statement.options(load_only(*(getattr(model, name) for name in names)))
    for instance in session.scalars(statement):
        loaded = sqla.state_of(instance).dict
        text = None if label is None else label.of(loaded)
        if text is not None:
            yield loaded[attribute], text
