"""The labels of what rows refer to: what people call the recipe that `recipe_1` is.

Rows on their way to a model come in, with the instances they are of; labels go out beside the
refs. One query for each table that is referred to, through the session, so that a row which the
owner cannot see has no label. A table that the model may not use has none either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ARRAY, Column, Select, any_, bindparam, cast, inspect, select
from sqlalchemy.orm import InstrumentedAttribute, lazyload

from alfred_refs import sqla
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import Key
from alfred_refs.session.session import RefSession
from alfred_refs.tools.tables.hooks import Row
from alfred_refs.tools.tables.table import ToolColumn, ToolTable
from alfred_refs.tools.tables.tables import ToolTables

from .results import Shape, castable

Mode = Literal["inline", "legend", "none"]


@dataclass(slots=True)  # one for each ref of each row: frozen ones are slow to make
class Foreign:
    """One ref in a row.

    Attributes:
        row: in which it stands.
        name: of the column there.
        target: whose row it names.
        key: of that row; the key itself, or what it has in the column `by`.
        by: the column of the target that has the key, `None` if that is the primary key.
        label: of what it names, where that is no row.
        place: where it stands among others, if the column has a list of them.
    """

    row: Row
    name: str
    target: ToolTable
    key: Any = None
    by: Column[Any] | None = None
    label: str | None = None
    place: int | None = None

    @property
    def ref(self) -> str:
        """The ref, as it stands in the row."""
        value = self.row[self.name]
        return str(value if self.place is None else value[self.place])

    def put(self, label: str) -> None:
        """Put its label beside it; that of one in a list among those of the others."""
        if self.place is None:
            self.row[f"_{self.name}_label"] = label
            return
        labels = self.row.get(f"_{self.name}_labels")
        if not isinstance(labels, list) or len(labels) != len(self.row[self.name]):
            labels = self.row[f"_{self.name}_labels"] = [None] * len(self.row[self.name])
        labels[self.place] = label


def put_labels(session: RefSession, found: Sequence[Foreign], mode: Mode) -> dict[str, str]:
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
            legend[each.ref] = label
        else:
            each.put(label)
    return legend


def bounded(found: Iterable[Foreign], most: int) -> Iterator[Foreign]:
    """Yield refs, those in lists only as far as they name few rows: lists may be long."""
    named: set[tuple[str, Any]] = set()
    for each in found:
        if each.place is None:
            yield each
            continue
        row = (each.target.name, each.ref if each.key is None else each.key)
        if row in named or len(named) < most:
            named.add(row)
            yield each


def places_of(shown: Sequence[Any]) -> list[int]:
    """Return where in a list of a column there are refs."""
    return [place for place, each in enumerate(shown) if isinstance(each, str)]


def foreign_of(shown: Iterable[tuple[Row, Any, Shape]], tables: ToolTables) -> Iterator[Foreign]:
    """Yield the refs to other rows, in rows, whose labels can be read."""
    columns: dict[int, list[tuple[ToolColumn, KeyColumn, ToolTable]]] = {}  # of a shape
    for row, instance, shape in shown:
        if id(shape) not in columns:
            columns[id(shape)] = list(referring(shape, tables))
        yield from _foreign_in(row, sqla.state_of(instance).dict, columns[id(shape)])


def _foreign_in(
    row: Row,
    loaded: Mapping[str, Any],
    columns: Iterable[tuple[ToolColumn, KeyColumn, ToolTable]],
) -> Iterator[Foreign]:
    for column, key, target in columns:
        # what is shown may be a hook's by now
        keys, shown = loaded.get(column.name), row.get(column.name)
        by = None if key.by is None else key.by.column
        if keys is not None and column.name in row and not key.array:
            yield Foreign(row, column.name, target, keys, by)
        elif isinstance(shown, list) and keys is not None and len(keys) == len(shown):
            for place in places_of(shown):
                yield Foreign(row, column.name, target, keys[place], by, place=place)


def referring(
    shape: Shape, tables: ToolTables
) -> Iterator[tuple[ToolColumn, KeyColumn, ToolTable]]:
    """Yield the columns that have refs to rows with labels, and the tables of these."""
    for column in shape.columns:
        if column.key is None or column.name == shape.table.own:
            continue
        target = tables.of_entity(column.key.entity)
        if target is not None and target.keys.label is not None:
            yield column, column.key, target


def key_in(target: ToolTable, key: Key) -> Any:
    """Return the key of a row as its column has it."""
    held = target.keys.identity[0]
    return key if held is None or isinstance(key, tuple) else held.from_key(key)


def _labels(session: RefSession, found: Iterable[Foreign]) -> Mapping[tuple[str, bool, Any], str]:
    wanted: dict[tuple[str, bool], dict[Any, Foreign]] = {}
    for each in found:
        if each.label is None:
            wanted.setdefault((each.target.name, each.by is not None), {})[each.key] = each
    labels = {}
    for (name, by), of_keys in wanted.items():
        one = next(iter(of_keys.values()))
        label = one.target.keys.label
        read = () if label is None else _read(session, one, label.attribute, list(of_keys))
        for key, loaded in read:
            text = None if label is None else label.line(loaded)
            if text is not None:
                labels[name, by, key] = text
    return labels


def _read(
    session: RefSession, one: Foreign, attribute: str | None, keys: list[Any]
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Read what labels are made of: one attribute of some rows, or all that a function may see.

    Args:
        session: that reads.
        one: ref to rows of the table.
        attribute: that is the label; `None` where a function makes it of instances.
        keys: of the rows.
    """
    dialect = session.get_bind(one.target.model).dialect.name
    statement = one.target.statement(
        (one.by, dialect), lambda: _statement(one, attribute, dialect)
    )
    # the keys are keys, though some may be text
    rows = session.execute(statement, {"keys": keys}, execution_options={"raw_keys": True})
    if attribute is not None:
        yield from ((key, {attribute: value}) for key, value in rows)
        return
    name = _keyed_by(one).key
    for instance in rows.scalars():
        loaded = sqla.state_of(instance).dict
        yield loaded[name], loaded


def _statement(one: Foreign, attribute: str | None, dialect: str) -> Select[Any]:
    model, key = one.target.model, _keyed_by(one)
    read = (
        select(model).options(lazyload("*"))
        if attribute is None
        else select(key, getattr(model, attribute)).select_from(model)
    )
    if dialect != "postgresql":
        return read.where(key.in_(bindparam("keys", expanding=True)))
    # one parameter: what has as many as there are keys is slow to send
    given = cast(bindparam("keys"), ARRAY(castable(key.type)))
    return read.where(key == any_(given))


def _keyed_by(one: Foreign) -> InstrumentedAttribute[Any]:
    """Return the attribute of the target that has the keys of refs like one."""
    mapper = inspect(one.target.model).mapper
    column = mapper.primary_key[0] if one.by is None else one.by
    found: InstrumentedAttribute[Any] = getattr(
        one.target.model, mapper.get_property_by_column(column).key
    )
    return found
