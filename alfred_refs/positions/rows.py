"""The lists of a row as the database has them now: read, and locked if they are to be edited.

    root = tree_of(session, recipe, levels_of(Recipe, "ingredients"), lock=True)
    [item.value for item in root.items]     # the rows, in order

A row comes in, and which lists are inside of it; a tree of items goes out. One statement reads
the row, and one the rows of each level; one of each locks them first. Whoever comes to a list
another way, by a row inside or outside of it, waits for it too. Lists with rows that the session's
owner may not see are refused, because a position would not be one of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, func, inspect, select
from sqlalchemy.orm import Session, aliased, selectinload

from alfred_refs import sqla
from alfred_refs.errors import ListError

from .documents import read
from .lists import DocumentLevel, Level, RowLevel
from .resolving import Item


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
    if (lock and not _locked(session, mapper.class_, and_(*of_row), levels)) or session.scalars(
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


def _locked(
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
        _locked(session, level.model, sqla.among(parents, found), levels[1:])
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
    count = select(func.count()).select_from(model).join(related).where(sqla.among(own, keys))
    with sqla.lifted(session):
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
        root = read([] if value is None and not level.names else value, level.names)
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
