"""Labels in answers: what people call the rows that refs name.

A ref to another row is shown with the label of that row, in one of three modes (`LabelMode`):

| mode | labels are |
| --- | --- |
| `"inline"` | in the row, as the field `_recipe_id_label` after `recipe_id` |
| `"legend"` | in the answer's field `labels`, by ref |
| `"none"` | left out |

A `ForeignRef` is one ref in one row. `foreign_refs` finds those in rows that were read, and
`put_labels` reads their labels and adds them.

>>> from alfred_refs.tools.answers import shape_of
>>> lines = toolset.tables.by_name("lines")
>>> shape = shape_of(lines, ["recipe_id", "text"])
>>> line = session.scalars(shape.statement(exactly=False).order_by(Line.id)).first()
>>> row = {"id": line.id, "recipe_id": line.recipe_id}
>>> put_labels(session, list(foreign_refs([(row, line, shape)], toolset.tables)), "inline")
{}
>>> row["_recipe_id_label"]
'Soup'

Labels are read through the session, one statement per table: a row that the owner cannot see has
no label. A row of a table that the model may not use has none either.

Limits: a key of the registry may have another Python type than the column's values, such as `UUID`
and `str`. `key_in` converts it, and `Call.labels` does so for refs that are not in rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ARRAY, Column, Select, any_, bindparam, cast, inspect, select
from sqlalchemy.orm import InstrumentedAttribute, lazyload

from alfred_refs import sqla
from alfred_refs.mapping import Key, KeyColumn
from alfred_refs.session import RefSession
from alfred_refs.tools.answers import Shape, ShownRow, castable
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.hooks import Row
from alfred_refs.tools.tables import ToolColumn, ToolTable

LabelMode = Literal["inline", "legend", "none"]


@dataclass(slots=True)  # not frozen: one is made for each ref of each row
class ForeignRef:
    """One ref in a row.

    Attributes:
        row: the row.
        name: the column.
        target: the table of the row that it names.
        key: the key of the named row: its primary key, or its value of the column `by`.
        by: the target's column with the key; `None` for the primary key.
        label: its label, if it is not read from a row.
        place: its position, if the column has a list of refs.
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
        """The ref in the row."""
        value = self.row[self.name]
        return str(value if self.place is None else value[self.place])

    def put(self, label: str) -> None:
        """Add its label to the row; for a ref in a list, to the list of labels."""
        if self.place is None:
            self.row[f"_{self.name}_label"] = label
            return
        labels = self.row.get(f"_{self.name}_labels")
        if not isinstance(labels, list) or len(labels) != len(self.row[self.name]):
            labels = self.row[f"_{self.name}_labels"] = [None] * len(self.row[self.name])
        labels[self.place] = label


def put_labels(session: RefSession, refs: Sequence[ForeignRef], mode: LabelMode) -> dict[str, str]:
    """Add the labels of refs to rows, or return them by ref, depending on the mode.

    The conversation keeps them: replies and errors use them as names of the rows.

    Returns:
        labels by ref in mode `"legend"`; empty in other modes.
    """
    if mode == "none":
        return {}
    labels = labels_of(session, refs)
    legend: dict[str, str] = {}
    names: dict[str, str] = {}
    for each in refs:
        label = each.label or labels.get((each.target.name, each.by is not None, each.key))
        if label is None:
            continue
        if each.label is None:
            names[each.ref] = label
        if mode == "legend":
            legend[each.ref] = label
        else:
            each.put(label)
    if names and session.own_view is not None:
        session.own_view.note_names(names)
    return legend


def labelled_refs(
    row: Row, name: str, target: ToolTable, labels: Iterable[str | None]
) -> list[ForeignRef]:
    """Return the refs in a list that have known labels: refs of deleted rows, or of drafts."""
    return [
        ForeignRef(row, name, target, label=label, place=place)
        for place, label in enumerate(labels)
        if label is not None
    ]


def limit_refs(refs: Iterable[ForeignRef], most: int) -> Iterator[ForeignRef]:
    """Yield refs; limit the number of rows that refs in (possibly long) lists name."""
    rows: set[tuple[str, Any]] = set()
    for each in refs:
        if each.place is None:
            yield each
            continue
        row = (each.target.name, each.ref if each.key is None else each.key)
        if row in rows or len(rows) < most:
            rows.add(row)
            yield each


def ref_positions(shown: Sequence[Any]) -> list[int]:
    """Return the positions of refs in a column's list."""
    return [place for place, each in enumerate(shown) if isinstance(each, str)]


def foreign_refs(shown: Iterable[ShownRow], tables: ToolTables) -> Iterator[ForeignRef]:
    """Yield the refs to other rows whose labels can be read."""
    columns: dict[int, list[tuple[ToolColumn, KeyColumn, ToolTable]]] = {}  # by id of the shape
    for row, instance, shape in shown:
        if id(shape) not in columns:
            columns[id(shape)] = list(ref_columns(shape, tables))
        yield from _foreign_in(row, sqla.state_of(instance).dict, columns[id(shape)])


def _foreign_in(
    row: Row,
    loaded: Mapping[str, Any],
    columns: Iterable[tuple[ToolColumn, KeyColumn, ToolTable]],
) -> Iterator[ForeignRef]:
    for column, key, target in columns:
        # a hook may have replaced the value
        keys, value = loaded.get(column.name), row.get(column.name)
        by = None if key.alternate is None else key.alternate.column
        if keys is not None and column.name in row and not key.array:
            yield ForeignRef(row, column.name, target, keys, by)
        elif isinstance(value, list) and keys is not None and len(keys) == len(value):
            for place in ref_positions(value):
                yield ForeignRef(row, column.name, target, keys[place], by, place=place)


def ref_columns(
    shape: Shape, tables: ToolTables
) -> Iterator[tuple[ToolColumn, KeyColumn, ToolTable]]:
    """Yield each column with refs to labelled rows, with the table of these rows."""
    for column in shape.columns:
        if column.key is None or column.own:
            continue
        target = tables.of_entity(column.key.entity)
        if target is not None and target.keys.label is not None:
            yield column, column.key, target


def key_in(target: ToolTable, key: Key) -> Any:
    """Return the key of a row, as the column stores it."""
    column = target.keys.identity[0]
    return key if column is None or isinstance(key, tuple) else column.from_key(key)


def labels_of(
    session: RefSession, refs: Iterable[ForeignRef]
) -> Mapping[tuple[str, bool, Any], str]:
    """Read the labels of rows: one statement for each table.

    Returns:
        labels by table, whether the key is not the primary key, and key.
    """
    by_table: dict[tuple[str, bool], dict[Any, ForeignRef]] = {}
    for each in refs:
        if each.label is None:
            by_table.setdefault((each.target.name, each.by is not None), {})[each.key] = each
    labels = {}
    for (name, by), by_key in by_table.items():
        sample = next(iter(by_key.values()))
        label = sample.target.keys.label
        rows = (
            () if label is None else _read_labels(session, sample, label.attribute, list(by_key))
        )
        for key, loaded in rows:
            text = None if label is None else label.of_unredacted(loaded)
            if text is not None:
                labels[name, by, key] = text
    return labels


def _read_labels(
    session: RefSession, sample: ForeignRef, attribute: str | None, keys: list[Any]
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Read the values that labels are made from: one attribute, or all for a label function.

    Args:
        session: reads them.
        sample: one of the refs; all others name rows of the same table.
        attribute: the attribute that is the label; `None` if a function makes labels from
            instances.
        keys: the keys of the rows.
    """
    dialect = session.get_bind(sample.target.model).dialect.name
    statement = sample.target.statement(
        (sample.by, dialect), lambda: _label_select(sample, attribute, dialect)
    )
    # text keys must not be taken for refs
    rows = session.execute(statement, {"keys": keys}, execution_options={"raw_keys": True})
    if attribute is not None:
        yield from ((key, {attribute: value}) for key, value in rows)
        return
    name = key_attribute(sample.target, sample.by).key
    for instance in rows.scalars():
        loaded = sqla.state_of(instance).dict
        yield loaded[name], loaded


def _label_select(sample: ForeignRef, attribute: str | None, dialect: str) -> Select[Any]:
    model, key = sample.target.model, key_attribute(sample.target, sample.by)
    statement = (
        select(model).options(lazyload("*"))
        if attribute is None
        else select(key, getattr(model, attribute)).select_from(model)
    )
    if dialect != "postgresql":
        return statement.where(key.in_(bindparam("keys", expanding=True)))
    # one array parameter: an IN list with many parameters is slow to compile and send
    keys = ARRAY(castable(key.type))  # processes the keys as the column's type does
    return statement.where(key == any_(cast(bindparam("keys", type_=keys), keys)))


def key_attribute(target: ToolTable, by: Column[Any] | None) -> InstrumentedAttribute[Any]:
    """Return the target's attribute with the keys of refs: primary key, or column `by`."""
    mapper = inspect(target.model).mapper
    column = mapper.primary_key[0] if by is None else by
    attribute: InstrumentedAttribute[Any] = getattr(
        target.model, mapper.get_property_by_column(column).key
    )
    return attribute
