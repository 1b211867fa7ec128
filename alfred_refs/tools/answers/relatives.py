"""The related rows that are shown inside of rows: no more are loaded than may be shown.

Instances come in, and what is to be shown of them; what their relationships lead to goes out
beside them, with how many rows there are in all. One statement for each relationship of a level,
in which PostgreSQL numbers the rows. They are never put into the instances: a collection that has
but a part of its rows would be taken for the whole by the unit of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    FromClause,
    Select,
    TableValuedAlias,
    and_,
    cast,
    column,
    func,
    inspect,
    or_,
    select,
    true,
)
from sqlalchemy.orm import InstanceState, RelationshipProperty, Session, aliased, join
from sqlalchemy.orm.interfaces import LoaderOption
from sqlalchemy.sql import visitors
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs import sqla

from .results import Limits, Related, Shape, castable, related_rows


class Relatives:
    """What is shown inside of the rows of one answer.

    Args:
        limits: how much of it is shown.
        options: of the statement that has read the rows: those that hold wherever a class is read
            hold for related rows too, and what others have loaded is shown as they have left it.
    """

    def __init__(
        self, session: Session, limits: Limits, options: Iterable[ExecutableOption] = ()
    ) -> None:
        self._session = session
        self._limits = limits
        self._options = [each for each in options if holds_everywhere(each)]
        # a shape, by its identity, and a row that has what it is of inside -> this
        self._found: dict[tuple[int, InstanceState[Any]], Related] = {}

    def of(self, instance: Any, shape: Shape) -> Related:
        """Return what of a shape is inside of a row."""
        return self._found.get((id(shape), sqla.state_of(instance)), Related())

    def load(self, instances: Sequence[Any], shape: Shape) -> None:
        """Load what is shown inside of rows that were just read, at every level."""
        self._note_loaded(instances, shape)
        self._load(instances, shape)

    def _note_loaded(self, instances: Iterable[Any], shape: Shape) -> None:
        """Note what options of the application have loaded, which may be less than there is."""
        for instance in instances:
            state = sqla.state_of(instance)
            for name, child in shape.children.items():
                if name in state.dict:
                    rows = related_rows(state.dict[name])
                    shown = rows[: self._limits.rows]
                    self._found[id(child), state] = Related(shown, len(rows))
                    self._note_loaded(shown, child)

    def _load(self, instances: Sequence[Any], shape: Shape) -> None:
        for name, child in shape.children.items():
            states = dict.fromkeys(map(sqla.state_of, instances))
            waiting = [each for each in states if (id(child), each) not in self._found]
            if waiting:
                self._read(waiting, shape, name)
            inside = [row for each in instances for row in self.of(each, child).rows]
            self._load(inside, child)

    def _read(self, states: Sequence[InstanceState[Any]], shape: Shape, name: str) -> None:
        """Read what one relationship of rows leads to: one statement."""
        child, relationship = shape.children[name], shape.table.relationship(name)
        mapper = inspect(shape.table.model).mapper
        keys = [mapper.primary_key_from_instance(each.obj()) for each in states]
        statement = _statement(shape, name, _numbered(mapper.primary_key, keys), self._limits)
        fresh = statement.options(
            *child.loaders(relationship.entity.entity), *self._options
        ).execution_options(raw_keys=True, populate_existing=True)
        for place, total, row in self._session.execute(fresh).unique():
            key = id(child), states[place - 1]
            before = self._found.get(key, Related())
            rows = before.rows if row is None else [*before.rows, row]
            self._found[key] = Related(rows, total)


def holds_everywhere(option: ExecutableOption) -> bool:
    """Tell whether an option is of all that is loaded, as that of `with_loader_criteria()` is."""
    is_path = isinstance(option, LoaderOption)
    return not is_path and bool(getattr(option, "propagate_to_loaders", False))


def _numbered(columns: Sequence[Column[Any]], keys: Sequence[Sequence[Any]]) -> TableValuedAlias:
    """Return a table of keys, with `place`, counted from 1: one parameter for each column."""
    types = [castable(each.type) for each in columns]
    given = [
        cast(list(values), ARRAY(type_))
        for values, type_ in zip(zip(*keys, strict=True), types, strict=True)
    ]
    named = [column(f"key_{n}", type_) for n, type_ in enumerate(types)]
    values = func.unnest(*given).table_valued(*named, with_ordinality="place")
    return values.render_derived(name="given")


def _statement(shape: Shape, name: str, given: TableValuedAlias, limits: Limits) -> Select[Any]:
    """Return the statement that reads the related rows of the rows that are given.

    It tells of each the place of the row that it is inside of, and how many there are in that;
    where all that may be shown are there before, it tells how many there are, with no row.
    """
    child, relationship = shape.children[name], shape.table.relationship(name)
    target, names = relationship.entity.entity, child.table.identity
    numbered = _numbers(shape, name, given)
    place, number, total = numbered.c.place, numbered.c.number, numbered.c.total
    keys = [numbered.c[f"key_{n}"] for n, _ in enumerate(names)]
    in_all = func.row_number().over(order_by=[place, number]).label("in_all")
    most = max(limits.rows, 1) if relationship.uselist else 1
    listed = select(place, total, number, *keys, in_all).where(number <= most).subquery()
    is_shown = listed.c.in_all <= limits.related if relationship.uselist else true()
    is_row = [getattr(target, each) == listed.c[f"key_{n}"] for n, each in enumerate(names)]
    return (
        select(listed.c.place, listed.c.total, target)
        .select_from(listed)
        .outerjoin(target, and_(*is_row, is_shown))
        .where(or_(is_shown, listed.c.number == 1))
        .order_by(listed.c.in_all)
    )


def _numbers(shape: Shape, name: str, given: TableValuedAlias) -> FromClause:
    """Return the keys of related rows, each with its `number` in its row and their `total`."""
    child, relationship = shape.children[name], shape.table.relationship(name)
    # the parent and not the child is aliased, of which the relationship says its order
    parent, target = aliased(shape.table.model), relationship.entity.entity
    both = join(parent, target, getattr(parent, name))
    keys = [getattr(target, each) for each in child.table.identity]
    order = [*_order(relationship, both, inspect(parent).selectable), *keys]
    position = func.row_number().over(partition_by=given.c.place, order_by=order)
    is_given = [
        getattr(parent, each) == given.c[f"key_{n}"] for n, each in enumerate(shape.table.identity)
    ]
    met = (
        select(given.c.place, position.label("position"))
        .add_columns(*(each.label(f"key_{n}") for n, each in enumerate(keys)))
        .select_from(both)
        .join(given, and_(*is_given))
        .subquery()
    )
    # a row that several rows of a secondary table lead to is one row, where it is first
    once = [met.c[f"key_{n}"] for n, _ in enumerate(keys)]
    number = func.row_number().over(partition_by=met.c.place, order_by=func.min(met.c.position))
    total = func.count().over(partition_by=met.c.place)
    return (
        select(met.c.place, *once, number.label("number"), total.label("total"))
        .group_by(met.c.place, *once)
        .subquery()
    )


def _order(
    relationship: RelationshipProperty[Any], both: FromClause, parent: FromClause
) -> list[ColumnElement[Any]]:
    """Return the order of a relationship, of the tables as they are joined."""
    target = relationship.entity.selectable
    own = {*visitors.iterate(parent), *visitors.iterate(target)}
    others = [
        each
        for each in visitors.iterate(both)
        if isinstance(each, FromClause) and each not in own and each is not both
    ]

    def replace(element: Any, **_: Any) -> Any:
        if not isinstance(element, Column):
            return None
        # those of the secondary table are of no table of the class
        among = [target] if element.table in relationship.mapper.tables else others
        found = (each.corresponding_column(element) for each in among)
        return next((each for each in found if each is not None), None)

    return [
        visitors.replacement_traverse(each, {}, replace) for each in relationship.order_by or ()
    ]
