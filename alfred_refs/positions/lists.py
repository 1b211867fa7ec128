"""Which lists of a class can be edited by position: read from its mapping.

    levels_of(Recipe, "ingredients")              rows, in the order of a relationship
    levels_of(Recipe, "instructions")             an array, or JSON that is a list
    levels_of(Plan, "week.days.meals")            lists in JSON: the names lead to them
    levels_of(Week, "sessions.exercises.sets")    rows of rows, with lists in JSON inside

A relationship says by its `order_by` which column has the positions: one of integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, JSON, Column, Integer, Table, UniqueConstraint, inspect
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import ColumnProperty, Mapper, RelationshipDirection, RelationshipProperty
from sqlalchemy.sql.operators import asc_op

from alfred_refs.errors import ListError

from .edits import Add, Modify

_UNLOADED = ("dynamic", "write_only", "noload")


@dataclass(frozen=True, slots=True)
class RowLevel:
    """A list of related rows.

    Attributes:
        name: of the relationship.
        model: the class of the rows.
        position: their attribute that has the positions.
        unique: whether no two rows of a parent may have the same, at any moment.
        deletes: whether a row that leaves the list is deleted, and not only unlinked.
        parents: their attributes that name the row whose list it is.
        own: the attributes of that row, in the same order.
        columns: the attributes that edits may give: not those of key, place, parent and version.
        keyed: whether a row that goes to the list of another would have another key then.
    """

    name: str
    model: type[Any]
    position: str
    unique: bool
    deletes: bool
    parents: tuple[str, ...]
    own: tuple[str, ...]
    columns: tuple[str, ...]
    keyed: bool


@dataclass(frozen=True, slots=True)
class DocumentLevel:
    """The lists in a column.

    Attributes:
        column: the attribute.
        names: that lead from its value to the lists.
    """

    column: str
    names: tuple[str, ...] = ()


Level = RowLevel | DocumentLevel


def levels_of(model: type[Any], name: str) -> tuple[Level, ...]:
    """Return the lists that a name leads to, the outermost first.

    Raises:
        ListError: it leads to none that can be edited.
    """
    levels: list[Level] = []
    mapper = _mapper_of(model)
    first, *rest = name.split(".")
    while True:
        attribute = mapper.attrs.get(first)
        if isinstance(attribute, RelationshipProperty):
            level = _rows(mapper, attribute)
            levels.append(level)
            if not rest:
                return tuple(levels)
            mapper, (first, *rest) = attribute.mapper, rest
            continue
        if isinstance(attribute, ColumnProperty):
            levels.append(_document(mapper, attribute, rest))
            return tuple(levels)
        known = ", ".join(map(repr, sorted(names_of(mapper)))) or "none"
        raise ListError(
            f"{mapper.class_.__qualname__!r} has no list {first!r}", f"its lists: {known}"
        )


def _mapper_of(model: type[Any]) -> Mapper[Any]:
    try:
        mapper: Mapper[Any] = inspect(model).mapper
    except NoInspectionAvailable:
        raise ListError(f"{model!r} is no mapped class", "give one") from None
    return mapper


def names_of(mapper: Mapper[Any]) -> list[str]:
    """Return the attributes of a class that may be lists."""
    found = [each.key for each in mapper.relationships if each.uselist and each.order_by]
    return found + [
        each.key for each in mapper.column_attrs if isinstance(each.columns[0].type, ARRAY | JSON)
    ]


def _rows(mapper: Mapper[Any], relationship: RelationshipProperty[Any]) -> RowLevel:
    name = f"{mapper.class_.__qualname__}.{relationship.key}"
    if relationship.direction is not RelationshipDirection.ONETOMANY or relationship.viewonly:
        raise ListError(
            f"{name} is no list of rows of its own",
            "edit a one-to-many relationship; of a many-to-many one that of the rows between",
        )
    if relationship.lazy in _UNLOADED or not isinstance(_collection_of(relationship), list):
        raise ListError(
            f"{name} has its rows in no list",
            "let the relationship load them, and leave its collection a list",
        )
    child = relationship.mapper
    column = _order(relationship)
    if column is None or column not in child.columns.values():
        raise ListError(
            f"{name} does not say which column has the positions of its rows",
            "give the relationship order_by, an integer column of the related class",
        )
    if column in child.primary_key:
        raise ListError(
            f"{name} has positions that are part of the keys of its rows",
            "give the rows keys of their own, which stay when the rows move",
        )
    pairs = relationship.local_remote_pairs or ()
    parents = [remote for _, remote in pairs]
    version = [] if child.version_id_col is None else [child.version_id_col]
    beside = (column, *child.primary_key, *parents, *version)
    fixed = {child.get_property_by_column(each).key for each in beside}
    return RowLevel(
        relationship.key,
        child.class_,
        child.get_property_by_column(column).key,
        _is_unique(column),
        relationship.cascade.delete_orphan or not all(each.nullable for each in parents),
        tuple(child.get_property_by_column(each).key for each in parents),
        tuple(mapper.get_property_by_column(local).key for local, _ in pairs),
        tuple(
            each.key
            for each in child.column_attrs
            if each.key not in fixed and not each.deferred and _is_stored(each)
        ),
        not {*child.primary_key}.isdisjoint(parents),
    )


def _collection_of(relationship: RelationshipProperty[Any]) -> Any:
    make: Any = relationship.collection_class or list
    return make()


def _is_stored(attribute: ColumnProperty[Any]) -> bool:
    """Tell whether an attribute takes values: it is no expression, and not computed."""
    column = attribute.columns[0]
    return isinstance(column, Column) and column.computed is None


def _order(relationship: RelationshipProperty[Any]) -> Column[Any] | None:
    """Return the column by which related rows are in order, if it is one of integers."""
    order: Sequence[Any] = relationship.order_by or ()
    first = order[0] if order else None
    if getattr(first, "modifier", None) is asc_op:
        first = first.element  # type: ignore[union-attr]
    is_integer = isinstance(first, Column) and isinstance(first.type, Integer)
    return first if is_integer else None


def _is_unique(column: Column[Any]) -> bool:
    """Tell whether a constraint or an index has each position once, checked row by row."""
    table = column.table
    if not isinstance(table, Table):
        return False
    deferred = [
        {*each.columns}
        for each in table.constraints
        if isinstance(each, UniqueConstraint)
        and column in each.columns.values()
        and str(each.initially).upper() != "DEFERRED"
    ]
    indexes = [each for each in table.indexes if each.unique and column in each.columns.values()]
    return bool(deferred or indexes or column.unique)


def _document(
    mapper: Mapper[Any], attribute: ColumnProperty[Any], names: Sequence[str]
) -> DocumentLevel:
    type_ = attribute.columns[0].type if _is_stored(attribute) else None
    if isinstance(type_, JSON) or (isinstance(type_, ARRAY) and not names):
        return DocumentLevel(attribute.key, tuple(names))
    raise ListError(
        f"{mapper.class_.__qualname__}.{attribute.key} is neither an array nor JSON",
        "name an ordered relationship, an array, or lists in JSON",
    )


def kept(levels: Sequence[Level], depth: int) -> str | None:
    """Return why an item of a level cannot go to the list of another row; `None` if it can."""
    level = levels[min(depth, len(levels) - 1)]
    is_keyed = isinstance(level, RowLevel) and level.keyed
    return "would have another key in the list of another row" if is_keyed else None


def unfit(levels: Sequence[Level], depth: int, edit: Modify | Add) -> str | None:
    """Return why an item of a level, from 0, cannot be given what an edit gives it.

    `None` if it can, as far as the names of its fields tell.
    """
    value = edit.value
    level = levels[min(depth, len(levels) - 1)]
    if isinstance(level, RowLevel) and depth < len(levels):
        if not isinstance(value, Mapping):
            return "is a row: give an object of its fields"
        unknown = [name for name in value if name not in level.columns]
        if unknown:
            return f"has no field {unknown[0]!r} to be given: {', '.join(level.columns)}"
    elif isinstance(level, DocumentLevel) and isinstance(edit, Modify):
        both = [name for name in level.names if isinstance(value, Mapping) and name in value]
        return f"has a list {both[0]!r}: edit that by its own positions" if both else None
    return None
