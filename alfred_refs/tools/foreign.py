"""The labels of what rows refer to: what people call the recipe that `recipe_1` is.

Rows on their way to a model come in, with the instances they are of; labels go out beside the
refs. One query for each table that is referred to, through the session, so that a row which the
owner cannot see has no label. A table that the model may not use has none either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Column, inspect, select
from sqlalchemy.orm import lazyload, load_only

from alfred_refs import sqla
from alfred_refs.session import RefSession

from .hooks import Row
from .results import Shape
from .table import ToolTable
from .tables import ToolTables

Mode = Literal["inline", "legend", "none"]


@dataclass(frozen=True, slots=True)
class Foreign:
    """One ref in a row.

    Attributes:
        row: in which it stands.
        name: of the column there.
        target: whose row it names.
        key: of that row; the key itself, or what it has in the column `by`.
        by: the column of the target that has the key, `None` if that is the primary key.
        label: of what it names, where that is no row.
    """

    row: Row
    name: str
    target: ToolTable
    key: Any = None
    by: Column[Any] | None = None
    label: str | None = None


def labelled(session: RefSession, found: Sequence[Foreign], mode: Mode) -> dict[str, str]:
    """Put labels beside the refs in rows, or return them by ref: as the mode says.

    Returns:
        the legend: labels by ref; empty unless that is the mode.
    """
    if mode == "none":
        return {}
    labels = _labels(session, found)
    legend: dict[str, str] = {}
    for each in found:
        label = each.label or labels.get((each.target.name, each.by is not None, each.key))
        if label is None:
            continue
        if mode == "legend":
            legend[each.row[each.name]] = label
        else:
            each.row[f"_{each.name}_label"] = label
    return legend


def foreign_of(row: Row, instance: Any, shape: Shape, tables: ToolTables) -> Iterator[Foreign]:
    """Yield the refs to other rows in a row whose labels can be read."""
    loaded = sqla.state_of(instance).dict
    for column in shape.columns:
        key = column.key
        is_own = column.name == shape.table.own
        if key is None or key.array or is_own or loaded.get(column.name) is None:
            continue
        target = tables.of_entity(key.entity)
        if target is not None and target.keys.label is not None and column.name in row:
            by = None if key.by is None else key.by.column
            yield Foreign(row, column.name, target, loaded[column.name], by)


def _labels(session: RefSession, found: Iterable[Foreign]) -> Mapping[tuple[str, bool, Any], str]:
    wanted: dict[tuple[str, bool], dict[Any, Foreign]] = {}
    for each in found:
        if each.label is None:
            wanted.setdefault((each.target.name, each.by is not None), {})[each.key] = each
    labels = {}
    for (name, by), of_keys in wanted.items():
        for key, label in _read(session, next(iter(of_keys.values())), list(of_keys)):
            labels[name, by, key] = label
    return labels


def _read(session: RefSession, one: Foreign, keys: list[Any]) -> Iterator[tuple[Any, str]]:
    """Read the labels of rows of one table, by their keys."""
    model, label = one.target.model, one.target.keys.label
    mapper = inspect(model).mapper
    column = mapper.primary_key[0] if one.by is None else one.by
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
