"""The lists of a mapped class that can be edited by position, and reading of their rows.

`levels_of` reads the mapping. A name may lead through several levels of lists:

=================================================  ==============================================
`levels_of(Recipe, "ingredients")`                 the rows of an ordered relationship
`levels_of(Recipe, "instructions")`                an array, or JSON that is a list
`levels_of(Plan, "week.days.meals")`               lists in JSON, by the names on the path
`levels_of(Week, "sessions.exercises.sets")`       rows of rows, with lists in JSON inside
=================================================  ==============================================

>>> levels_of(Recipe, "lines")[0].position
'position'
>>> levels_of(Recipe, "name")
Traceback (most recent call last):
    ...
alfred_refs.errors.ListError: Recipe.name is neither an array nor JSON; name an ordered
relationship, an array, or lists in JSON

The position column of a relationship is the first column of its `order_by`, which must be an
integer column of the related class and no part of its primary key.

`read_tree` reads the current lists of one row as a tree of `Item`:

>>> recipe = session.get(Recipe, "recipe_1")
>>> root = read_tree(session, recipe, levels_of(Recipe, "lines"), lock=True)
>>> [item.value.text for item in root.items]
['4 tomatoes', '1 onion']

It sends one SELECT for the row and one per level of rows. With `lock`, one `SELECT ... FOR UPDATE`
per level comes first, from the outermost to the innermost, so that transactions that edit the same
list at different levels wait for each other.

Positions count all rows of a list. A list with rows of other owners than the session's is
therefore refused. So are rows with equal or missing positions, unless `repair` is set.
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

_WITHOUT_LOADED_ROWS = ("dynamic", "write_only", "noload")  # values of `relationship(lazy=...)`


# Levels of lists, from the mapping


@dataclass(frozen=True, slots=True)
class RowLevel:
    """A list of related rows.

    All names are attributes.

    Attributes:
        name: the relationship.
        model: the class of the rows.
        position: the attribute of the rows with their positions.
        unique: whether positions within a parent must be unique at every moment of a transaction.
        deletes: whether removed rows are deleted; otherwise they are unlinked.
        foreign_key: the attributes of the rows that refer to the parent.
        parent_key: the referenced attributes of the parent, in the same order.
        columns: the attributes that edits may set, without keys, position and version.
        identifying: whether the foreign key is part of the primary key, so that a row of another
            parent would be another row.
    """

    name: str
    model: type[Any]
    position: str
    unique: bool
    deletes: bool
    foreign_key: tuple[str, ...]
    parent_key: tuple[str, ...]
    columns: tuple[str, ...]
    identifying: bool


@dataclass(frozen=True, slots=True)
class DocumentLevel:
    """The lists in a column, at all depths.

    Attributes:
        column: the attribute.
        names: the names on the path from its value to the lists.
    """

    column: str
    names: tuple[str, ...] = ()


Level = RowLevel | DocumentLevel


def levels_of(model: type[Any], name: str) -> tuple[Level, ...]:
    """Return the levels of lists on the path of a name, outermost first.

    Raises:
        ListError: the list does not exist or cannot be edited by position.
    """
    try:
        mapper: Mapper[Any] = inspect(model).mapper
    except NoInspectionAvailable:
        raise ListError(f"{model!r} is not a mapped class", "pass one") from None
    levels: list[Level] = []
    first, *rest = name.split(".")
    while True:
        attribute = mapper.attrs.get(first)
        if isinstance(attribute, RelationshipProperty):
            levels.append(_row_level(mapper, attribute))
            if not rest:
                return tuple(levels)
            mapper, (first, *rest) = attribute.mapper, rest
            continue
        if isinstance(attribute, ColumnProperty):
            levels.append(_document_level(mapper, attribute, rest))
            return tuple(levels)
        known = ", ".join(map(repr, sorted(list_names(mapper)))) or "none"
        raise ListError(
            f"{mapper.class_.__qualname__!r} has no list {first!r}", f"its lists: {known}"
        )


def list_names(mapper: Mapper[Any]) -> list[str]:
    """Return the attributes of a class that may be lists, judged by type only."""
    relationships = [each.key for each in mapper.relationships if each.uselist and each.order_by]
    return relationships + [
        each.key for each in mapper.column_attrs if isinstance(each.columns[0].type, ARRAY | JSON)
    ]


def _row_level(mapper: Mapper[Any], relationship: RelationshipProperty[Any]) -> RowLevel:
    name = f"{mapper.class_.__qualname__}.{relationship.key}"
    if relationship.direction is not RelationshipDirection.ONETOMANY or relationship.viewonly:
        raise ListError(
            f"{name} is not a writable one-to-many relationship",
            "use a one-to-many relationship; for a many-to-many, the one to its association class",
        )
    collection: Any = (relationship.collection_class or list)()
    if relationship.lazy in _WITHOUT_LOADED_ROWS or not isinstance(collection, list):
        raise ListError(
            f"{name} does not load its rows into a list",
            "use a relationship that does, with a list as collection_class",
        )
    child = relationship.mapper
    column = _position_column(relationship)
    if column is None or column not in {*child.columns}:
        raise ListError(
            f"{name} is not ordered by a position column",
            "set order_by to an integer column of the related class",
        )
    if column in {*child.primary_key}:
        raise ListError(
            f"{name} has its position column in the primary key of the rows",
            "give the rows a key that stays when they move",
        )
    pairs = relationship.local_remote_pairs or ()
    foreign_key = [remote for _, remote in pairs]
    version = [] if child.version_id_col is None else [child.version_id_col]
    fixed = {
        child.get_property_by_column(each).key
        for each in (column, *child.primary_key, *foreign_key, *version)
    }
    return RowLevel(
        name=relationship.key,
        model=child.class_,
        position=child.get_property_by_column(column).key,
        unique=_is_unique(column),
        deletes=relationship.cascade.delete_orphan
        or not all(each.nullable for each in foreign_key),
        foreign_key=tuple(child.get_property_by_column(each).key for each in foreign_key),
        parent_key=tuple(mapper.get_property_by_column(local).key for local, _ in pairs),
        columns=tuple(
            each.key
            for each in child.column_attrs
            if each.key not in fixed and not each.deferred and _is_stored(each)
        ),
        identifying=not {*child.primary_key}.isdisjoint(foreign_key),
    )


def _is_stored(attribute: ColumnProperty[Any]) -> bool:
    """Return whether an attribute can be set: neither a `column_property` nor `Computed`."""
    column = attribute.columns[0]
    return isinstance(column, Column) and column.computed is None


def _position_column(relationship: RelationshipProperty[Any]) -> Column[Any] | None:
    """Return the first column of `order_by` if it is an ascending integer column."""
    order: Sequence[Any] = relationship.order_by or ()
    first = order[0] if order else None
    if getattr(first, "modifier", None) is asc_op:  # `Line.position.asc()` wraps the column
        first = first.element  # type: ignore[union-attr]
    is_integer = isinstance(first, Column) and isinstance(first.type, Integer)
    return first if is_integer else None


def _is_unique(column: Column[Any]) -> bool:
    """Return whether a unique constraint or index on a column is checked before the commit."""
    table = column.table
    if not isinstance(table, Table):
        return False
    constraints = [
        each
        for each in table.constraints
        if isinstance(each, UniqueConstraint)
        and column in {*each.columns}
        and str(each.initially).upper() != "DEFERRED"
    ]
    indexes = [each for each in table.indexes if each.unique and column in {*each.columns}]
    return bool(constraints or indexes or column.unique)


def _document_level(
    mapper: Mapper[Any], attribute: ColumnProperty[Any], names: Sequence[str]
) -> DocumentLevel:
    type_ = attribute.columns[0].type if _is_stored(attribute) else None
    if isinstance(type_, JSON) or (isinstance(type_, ARRAY) and not names):
        return DocumentLevel(attribute.key, tuple(names))
    raise ListError(
        f"{mapper.class_.__qualname__}.{attribute.key} is neither an array nor JSON",
        "name an ordered relationship, an array, or lists in JSON",
    )


# Restrictions of edits by the mapping


def move_refusal(levels: Sequence[Level], depth: int) -> str | None:
    """Return the reason why an item may not move to another row's list; None if it may."""
    level = levels[min(depth, len(levels) - 1)]
    if isinstance(level, RowLevel) and level.identifying:
        return "would have another key in the list of another row"
    return None


def value_refusal(levels: Sequence[Level], depth: int, edit: Modify | Add) -> str | None:
    """Return the reason why an item at a depth, from 0, cannot have a value; None if it can.

    Only the names of fields are checked; types are checked by the flush.
    """
    value = edit.value
    level = levels[min(depth, len(levels) - 1)]
    if isinstance(level, RowLevel) and depth < len(levels):
        if not isinstance(value, Mapping):
            return "is a row: give an object of its fields"
        unknown = [name for name in value if name not in level.columns]
        if unknown:
            return f"has no writable field {unknown[0]!r}: {', '.join(level.columns)}"
    elif isinstance(level, DocumentLevel) and isinstance(edit, Modify):
        both = [name for name in level.names if isinstance(value, Mapping) and name in value]
        return f"has a list {both[0]!r}: edit it by its own positions" if both else None
    return None


# Reading the lists of a row


def read_tree(
    session: Session, row: Any, levels: Sequence[Level], *, lock: bool, repair: bool = False
) -> Item:
    """Read the lists of a row from the database, as a tree of items.

    Args:
        session: the session of the row.
        row: the instance that owns the outermost list.
        levels: the result of `levels_of`.
        lock: whether to lock the row and all rows in its lists until the transaction ends.
        repair: whether to order rows whose positions are equal or missing by their keys.

    Raises:
        ListError: positions are equal or missing and `repair` is false, the row does not exist or
            cannot be locked, or its lists have rows that the session's owner cannot see.
    """
    # `populate_existing` below overwrites pending changes of loaded rows
    session.flush()
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
            f"the {mapper.class_.__qualname__} that has the list does not exist, "
            "or this session may not write it",
            "query it again, or edit a list of the session's owner",
        )
    if getattr(session, "owner", None) is not None:
        _check_owner_sees_all(session, mapper.class_, [row], levels)
    return _read_items(row, levels, repair=repair)


def _loaders(model: type[Any], levels: Sequence[Level]) -> Any:
    """Return the loader option for all levels of rows; None without such levels."""
    option = None
    for level in levels:
        if isinstance(level, RowLevel):
            attribute = getattr(model, level.name)
            option = selectinload(attribute) if option is None else option.selectinload(attribute)
            model = level.model
    return option


def _lock_rows(
    session: Session, model: type[Any], criterion: ColumnElement[bool], levels: Sequence[Level]
) -> bool:
    """Lock rows of a class, then the rows in their lists; return whether any rows exist.

    Each level is locked in the order of its primary key, so that two transactions cannot deadlock.
    """
    mapper = inspect(model).mapper
    level = levels[0] if levels and isinstance(levels[0], RowLevel) else None
    keys = [
        getattr(model, mapper.get_property_by_column(column).key) for column in mapper.primary_key
    ]
    columns = keys if level is None else [getattr(model, name) for name in level.parent_key]
    locking = select(*columns).where(criterion).order_by(*keys)
    locking = locking.with_for_update(of=[*mapper.tables])
    rows = session.execute(locking, execution_options={"raw_keys": True}).all()
    if level is not None and rows:
        foreign_key = [getattr(level.model, name) for name in level.foreign_key]
        _lock_rows(session, level.model, sqla.in_keys(foreign_key, rows), levels[1:])
    return bool(rows)


def _check_owner_sees_all(
    session: Session, model: type[Any], rows: Sequence[Any], levels: Sequence[Level]
) -> None:
    """Check that lists have no rows that loaders omit because of the session's owner."""
    level, *rest = levels
    if not (isinstance(level, RowLevel) and rows):
        return
    inside = [each for row in rows for each in getattr(row, level.name)]
    # `__dict__` contains the keys; attributes return refs in a RefSession
    keys = [[sqla.state_of(row).dict[name] for name in level.parent_key] for row in rows]
    parent_key = [getattr(model, name) for name in level.parent_key]
    related = getattr(model, level.name).of_type(aliased(level.model))
    count = select(func.count()).select_from(model).join(related)
    with sqla.unconfined_lookup(session):
        connection = session.connection(bind_arguments={"mapper": inspect(level.model).mapper})
        if connection.scalar(count.where(sqla.in_keys(parent_key, keys))) != len(inside):
            raise ListError(
                f"the list {level.name!r} has rows that its owner may not see",
                "edit it in a session without an owner, or change the owner of these rows",
            )
    if rest:
        _check_owner_sees_all(session, level.model, inside, rest)


def _read_items(row: Any, levels: Sequence[Level], *, repair: bool) -> Item:
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
        key_of = inspect(level.model).mapper.primary_key_from_instance

        def order(each: Any) -> tuple[Any, ...]:
            position = getattr(each, level.position)
            return position is None, position or 0, *map(str, key_of(each))

        rows.sort(key=order)
    return Item(row, [_read_items(each, rest, repair=repair) for each in rows])
