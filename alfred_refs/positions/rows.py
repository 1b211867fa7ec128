"""Lists of rows: read under a lock, and written through the unit of work.

Rows that stay keep their keys, and those whose position changes alone are written. Where no two
rows may have the same position at any moment, those that move are put behind the end first, and
then in their places: twice as many writes, and no constraint in the way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, inspect, select
from sqlalchemy.orm import Session, selectinload

from alfred_refs import sqla
from alfred_refs.errors import ListError

from .documents import changed, read, written
from .executor import Item, Outcome
from .lists import DocumentLevel, Level, RowLevel


def tree_of(
    session: Session, row: Any, levels: Sequence[Level], *, lock: bool, repair: bool = False
) -> Item:
    """Return what a row's lists have now: one statement, and one for each level of rows.

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
    if lock:
        own = [getattr(mapper.class_, name) for name in names]
        locked = select(*own).where(*of_row).with_for_update()
        if session.execute(locked, execution_options={"raw_keys": True}).first() is None:
            raise ListError(
                f"the {mapper.class_.__qualname__} that has the list is not there, "
                "or is not to be written in this session",
                "look for it anew, or edit a list of the session's owner",
            )
    statement = select(mapper.class_).where(*of_row)
    loaders = _loaders(mapper.class_, levels)
    statement = statement.options(loaders) if loaders is not None else statement
    session.scalars(statement, execution_options=options).one()
    if getattr(session, "owner", None) is not None:
        _check_all_are_seen(session, [row], levels)
    return _item(row, levels, repair=repair)


def _check_all_are_seen(session: Session, rows: Sequence[Any], levels: Sequence[Level]) -> None:
    """Refuse lists with rows of another owner among them: positions would not be those of all."""
    level, *rest = levels
    if not (isinstance(level, RowLevel) and rows):
        return
    inside = [each for row in rows for each in getattr(row, level.name)]
    mapper = inspect(level.model).mapper
    parents = [mapper.attrs[name].columns[0] for name in level.parents]
    keys = [[sqla.state_of(row).dict[name] for name in level.own] for row in rows]
    count = select(func.count()).select_from(parents[0].table).where(sqla.among(parents, keys))
    with sqla.lifted(session):
        connection = session.connection(bind_arguments={"mapper": mapper})
        if connection.scalar(count) != len(inside):
            raise ListError(
                f"the list {level.name!r} has rows that its owner may not see",
                "edit it in a session without owner, or give its rows to one",
            )
    if rest:
        _check_all_are_seen(session, inside, rest)


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


def values_of(item: Item, levels: Sequence[Level], modified: Mapping[Item, Any]) -> list[Any]:
    """Return what a list has, without keys and positions: a history may keep it."""
    level, *rest = levels
    return [_value(each, level, rest, modified) for each in item.items or ()]


def _value(item: Item, level: Level, rest: Sequence[Level], modified: Mapping[Item, Any]) -> Any:
    if isinstance(level, DocumentLevel):
        return written(item, modified)
    if isinstance(item.value, level.model):
        value = {name: getattr(item.value, name) for name in level.columns}
    else:  # a new one
        value = dict(item.value)
    value = changed(value, modified[item]) if item in modified else value
    if rest and item.items is not None:
        inside = rest[0].name if isinstance(rest[0], RowLevel) else rest[0].column
        value[inside] = (
            edited(item, rest[0], modified)
            if isinstance(rest[0], DocumentLevel)
            else values_of(item, rest, modified)
        )
    return value


def edited(item: Item, level: DocumentLevel, modified: Mapping[Item, Any]) -> Any:
    """Return the value of a column once its lists are edited."""
    root = read(getattr(item.value, level.column), level.names)
    if root.items is None:  # an array that is null
        return [written(each, modified) for each in item.items or ()] or None
    root.items = item.items
    return written(root, modified)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item was before a batch of edits.

    Attributes:
        parent: in whose list.
        depth: how many lists are around that.
        level: which list that is.
        position: of a row, in its column.
    """

    parent: Item
    depth: int
    level: Level
    position: int | None


def places_of(root: Item, levels: Sequence[Level], depth: int = 0) -> dict[Item, Place]:
    """Return where all items of a tree are."""
    level = levels[min(depth, len(levels) - 1)]  # the last has all lists inside of documents
    found: dict[Item, Place] = {}
    for item in root.items or ():
        position = getattr(item.value, level.position) if isinstance(level, RowLevel) else None
        found[item] = Place(root, depth, level, position)
        if item.items:
            found |= places_of(item, levels, depth + 1)
    return found


class Writer:
    """Writes what a batch of edits came to: one flush, or two where positions are unique.

    Args:
        session: of the rows.
        levels: of lists.
        before: where the items were.
        outcome: what became of them.
    """

    def __init__(
        self,
        session: Session,
        levels: Sequence[Level],
        before: Mapping[Item, Place],
        outcome: Outcome,
    ) -> None:
        self._session = session
        self._levels = levels
        self._before = before
        self._outcome = outcome
        self._from_0 = {place.parent for place in before.values() if place.position == 0}

    def write(self) -> None:
        """Write it."""
        lists = [(each, level) for each in self._outcome.lists if (level := self._list_of(each))]
        for item in self._outcome.removed:
            self._leave(item)
        wanted = {
            item: position
            for parent, level in lists
            for item, position in self._numbered(parent, level)
        }
        unique = {
            item: parent for parent, level in lists if level.unique for item in parent.items or ()
        }
        if self._park(unique, wanted):
            self._session.flush()
        self._modify()
        for parent, level in lists:
            for item in parent.items or ():
                self._put(item, parent, level, wanted[item])
        self._session.flush()
        for parent, level in lists:
            self._session.expire(parent.value, [level.name])

    def _list_of(self, parent: Item) -> RowLevel | None:
        """Return which list of rows is inside of an item, if one is."""
        place = self._before.get(parent)
        inside = self._levels[0 if place is None else place.depth + 1 :]
        return inside[0] if inside and isinstance(inside[0], RowLevel) else None

    def _modify(self) -> None:
        """Give rows their new values, and those that have documents new documents."""
        for item, change in self._outcome.modified.items():
            if isinstance(self._before[item].level, RowLevel):
                for name, value in change.items():
                    setattr(item.value, name, value)
        level = self._levels[-1]
        if isinstance(level, DocumentLevel):
            for row in dict.fromkeys(self._with_documents()):
                setattr(row.value, level.column, edited(row, level, self._outcome.modified))

    def _with_documents(self) -> Iterator[Item]:
        """Yield the rows in whose documents something has changed."""
        in_rows = {each for each, place in self._before.items() if _is_row(place)}
        for touched in [*self._outcome.modified.keys() - in_rows, *self._outcome.lists]:
            row = touched
            while row in self._before and row not in in_rows:
                row = self._before[row].parent
            if self._list_of(row) is None:
                yield row

    def _leave(self, item: Item) -> None:
        level = self._before[item].level
        if not isinstance(level, RowLevel):
            return
        if level.deletes:
            self._session.delete(item.value)
            return
        for name in level.parents:
            setattr(item.value, name, None)

    def _park(self, unique: Mapping[Item, Item], wanted: Mapping[Item, int]) -> bool:
        """Put rows behind the end of their lists, if another one has the place of one.

        Args:
            unique: rows that have their position alone, each with the item whose list it is in.
            wanted: the positions that they are to have.
        """
        before = self._before
        moving = [
            item
            for item, parent in unique.items()
            if item in before
            if (before[item].parent, before[item].position) != (parent, wanted[item])
        ]
        leaving = [before[item].position for item in (*moving, *self._outcome.removed)]
        if not {wanted[item] for item in unique}.intersection(leaving):
            return False
        taken = (place.position for place in before.values() if place.position is not None)
        free = 1 + max(*taken, *wanted.values(), 0)
        for number, item in enumerate(moving):
            level = self._before[item].level
            if isinstance(level, RowLevel):
                setattr(item.value, level.position, free + number)
        return True

    def _put(self, item: Item, parent: Item, level: RowLevel, position: int) -> None:
        place = self._before.get(item)
        if place is None:  # a new one
            item.value = level.model(**item.value)
            getattr(parent.value, level.name).append(item.value)
        elif place.parent is not parent:
            for name, own in zip(level.parents, level.own, strict=True):
                setattr(item.value, name, getattr(parent.value, own))
        if getattr(item.value, level.position) != position:
            setattr(item.value, level.position, position)

    def _numbered(self, parent: Item, level: RowLevel) -> Iterator[tuple[Item, int]]:
        """Yield the items of a list with their positions.

        They begin as SQLAlchemy's `ordering_list` of the relationship counts, else with 0 where
        they began so, else with 1.
        """
        count = getattr(getattr(parent.value, level.name), "ordering_func", None)
        first = int(parent not in self._from_0) if count is None else count(0, [])
        return zip(parent.items or (), itertools.count(first))


def _is_row(place: Place) -> bool:
    return isinstance(place.level, RowLevel)
