"""Ordered lists of a mapping: relationships, arrays, JSON; locked rows.

Which lists of a class can be edited by position: read from its mapping.

    levels_of(Recipe, "ingredients")              rows, in the order of a relationship
    levels_of(Recipe, "instructions")             an array, or JSON that is a list
    levels_of(Plan, "week.days.meals")            lists in JSON: the names lead to them
    levels_of(Week, "sessions.exercises.sets")    rows of rows, with lists in JSON inside

A relationship says by its `order_by` which column has the positions: one of integers.

The lists of a row as the database has them now: read, and locked if they are to be edited.

    root = tree_of(session, recipe, levels_of(Recipe, "ingredients"), lock=True)
    [item.value for item in root.items]     # the rows, in order

A row comes in, and which lists are inside of it; a tree of items goes out. One statement reads
the row, and one the rows of each level; one of each locks them first. Whoever comes to a list
another way, by a row inside or outside of it, waits for it too. Lists with rows that the session's
owner may not see are refused, because a position would not be one of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    Column,
    ColumnElement,
    Integer,
    Table,
    UniqueConstraint,
    and_,
    func,
    inspect,
    select,
)
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import (
    ColumnProperty,
    Mapper,
    RelationshipDirection,
    RelationshipProperty,
    Session,
    aliased,
    selectinload,
)
from sqlalchemy.sql.operators import asc_op

from alfred_refs import sqla
from alfred_refs.errors import ListError
from alfred_refs.positions.edits import Add, Item, Modify, read_item

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


def move_refusal(levels: Sequence[Level], depth: int) -> str | None:
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


def tree_of(
    session: Session, row: Any, levels: Sequence[Level], *, lock: bool, repair: bool = False
) -> Item:
    """Return what a row's lists have now: one statement, and one for each level of rows.

    Twice as many where they are locked.

    Args:
        session: of the row.
        row: whose lists they are.
        levels: of lists.
        lock: whether others wait until this transaction is over.
        repair: whether rows of one position, or of none, are taken in the order of their keys.

    Raises:
        ListError: there are such rows.
    """
    session.flush()  # what is read anew is not to take the place of what was not sent yet
    mapper = inspect(type(row)).mapper
    key = mapper.primary_key_from_instance(row)
    names = [mapper.get_property_by_column(column).key for column in mapper.primary_key]
    of_row = [getattr(mapper.class_, name) == part for name, part in zip(names, key, strict=True)]
    options = {"raw_keys": True, "populate_existing": True}
    statement = select(mapper.class_).where(*of_row)
    loaders = _loaders(mapper.class_, levels)
    statement = statement.options(loaders) if loaders is not None else statement
    if (lock and not _lock_rows(session, mapper.class_, and_(*of_row), levels)) or session.scalars(
        statement, execution_options=options
    ).one_or_none() is None:
        raise ListError(
            f"the {mapper.class_.__qualname__} that has the list is not there, "
            "or is not to be written in this session",
            "look for it anew, or edit a list of the session's owner",
        )
    if getattr(session, "owner", None) is not None:
        _check_all_are_seen(session, mapper.class_, [row], levels)
    return _item(row, levels, repair=repair)


def _lock_rows(
    session: Session, model: type[Any], which: ColumnElement[bool], levels: Sequence[Level]
) -> bool:
    """Lock rows of a class, and then those of all lists inside; tell whether there are any."""
    mapper = inspect(model).mapper
    level = levels[0] if levels and isinstance(levels[0], RowLevel) else None
    keys = [
        getattr(model, mapper.get_property_by_column(column).key) for column in mapper.primary_key
    ]
    own = keys if level is None else [getattr(model, name) for name in level.own]
    locking = select(*own).where(which).order_by(*keys).with_for_update(of=[*mapper.tables])
    found = session.execute(locking, execution_options={"raw_keys": True}).all()
    if level is not None and found:
        parents = [getattr(level.model, name) for name in level.parents]
        _lock_rows(session, level.model, sqla.in_keys(parents, found), levels[1:])
    return bool(found)


def _check_all_are_seen(
    session: Session, model: type[Any], rows: Sequence[Any], levels: Sequence[Level]
) -> None:
    """Refuse lists with rows of another owner among them: positions would not be those of all."""
    level, *rest = levels
    if not (isinstance(level, RowLevel) and rows):
        return
    inside = [each for row in rows for each in getattr(row, level.name)]
    keys = [[sqla.state_of(row).dict[name] for name in level.own] for row in rows]
    own = [getattr(model, name) for name in level.own]
    related = getattr(model, level.name).of_type(aliased(level.model))
    count = select(func.count()).select_from(model).join(related).where(sqla.in_keys(own, keys))
    with sqla.unconfined_lookup(session):
        connection = session.connection(bind_arguments={"mapper": inspect(level.model).mapper})
        if connection.scalar(count) != len(inside):
            raise ListError(
                f"the list {level.name!r} has rows that its owner may not see",
                "edit it in a session without owner, or give its rows to one",
            )
    if rest:
        _check_all_are_seen(session, level.model, inside, rest)


def _loaders(model: type[Any], levels: Sequence[Level]) -> Any:
    """Return the loader option for all levels of rows; `None` where there is none."""
    option = None
    for level in levels:
        if isinstance(level, RowLevel):
            attribute = getattr(model, level.name)
            option = selectinload(attribute) if option is None else option.selectinload(attribute)
            model = level.model
    return option


def _item(row: Any, levels: Sequence[Level], *, repair: bool) -> Item:
    if not levels:
        return Item(row)
    level, *rest = levels
    if isinstance(level, DocumentLevel):
        value = getattr(row, level.column)
        root = read_item([] if value is None and not level.names else value, level.names)
        return Item(row, root.items)
    rows = [*getattr(row, level.name)]
    positions = [getattr(each, level.position) for each in rows]
    if None in positions or len({*positions}) < len(positions):
        if not repair:
            raise ListError(
                f"rows of the list {level.name!r} have the same position, or none",
                "pass repair=True to take these in the order of their keys",
            )
        key = inspect(level.model).mapper.primary_key_from_instance
        rows.sort(key=lambda each: _place(getattr(each, level.position), key(each)))
    return Item(row, [_item(each, rest, repair=repair) for each in rows])


def _place(position: int | None, key: Sequence[Any]) -> tuple[Any, ...]:
    return position is None, position or 0, *map(str, key)
