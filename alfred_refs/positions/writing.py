"""What a batch of edits does to rows: planned first, then written through the unit of work.

Rows that stay keep their keys, and those whose position changes alone are written. Where no two
rows may have the same position at any moment, those that move are put behind the end first, and
then in their places: twice as many writes, and no constraint in the way.

    plan = plan_of(snapshot, execute(snapshot.root, edits, "ingredients"))
    plan.removed, plan.changed, plan.added     # whoever may say no looks here
    write(session, plan)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import flag_modified

from alfred_refs import sqla

from .executor import Outcome
from .lists import DocumentLevel, RowLevel
from .resolving import Item
from .snapshot import Snapshot, document_of

_JSON = (bool, int, float, dict, list)


@dataclass(slots=True)
class RowChange:
    """What becomes of a row that stays.

    Attributes:
        row: the instance.
        given: what edits give it, by attribute: its columns with lists among them.
        placed: its position and its parent, where these become others.
        level: the list that it is in; `None` if it is the row that has the outermost one.
    """

    row: Any
    level: RowLevel | None
    given: dict[str, Any] = field(default_factory=dict)
    placed: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class NewRow:
    """A row that is to be.

    Attributes:
        level: the list that it goes into.
        parent: the instance that has the list.
        position: where.
        values: by attribute.
        row: the instance, once it is written.
    """

    level: RowLevel
    parent: Any
    position: int
    values: dict[str, Any]
    row: Any = None

    @property
    def placed(self) -> dict[str, Any]:
        """Its position and its parent, by attribute."""
        level = self.level
        own = [getattr(self.parent, name) for name in level.own]
        return {**dict(zip(level.parents, own, strict=True)), level.position: self.position}


@dataclass(slots=True)
class Plan:
    """What is to be written.

    Attributes:
        removed: rows that leave their lists, with these.
        changed: rows that stay.
        added: rows that come.
        lists: the instances whose lists are others then, with these.
        last: the highest position that any row has.
    """

    removed: list[tuple[Any, RowLevel]]
    changed: list[RowChange]
    added: list[NewRow]
    lists: list[tuple[Any, RowLevel]]
    last: int


def plan_of(snapshot: Snapshot, outcome: Outcome) -> Plan:
    """Return what is to be written of a batch of edits."""
    return _Planner(snapshot, outcome).plan()


class _Planner:
    def __init__(self, snapshot: Snapshot, outcome: Outcome) -> None:
        self._places = snapshot.places
        self._levels = snapshot.levels
        self._outcome = outcome
        self._changed: dict[Item, RowChange] = {}
        self._from_0 = {
            place.parent
            for item, place in self._places.items()
            if _position(item, place.level) == 0
        }

    def plan(self) -> Plan:
        of_items = [(item, self._list_of(item)) for item in self._outcome.lists]
        lists = [(item, level) for item, level in of_items if level is not None]
        added = [new for parent, level in lists for new in self._placed(parent, level)]
        for item, value in self._outcome.modified.items():
            if isinstance(self._places[item].level, RowLevel):
                self._change(item).given.update(value)
        last = self._levels[-1]
        if isinstance(last, DocumentLevel):
            for row in dict.fromkeys(self._with_documents()):
                document = document_of(row, last, self._outcome.modified)
                self._change(row).given[last.column] = document
        removed = [
            (item.value, level)
            for item in self._outcome.removed
            if isinstance(level := self._places[item].level, RowLevel)
        ]
        positions = (_position(item, place.level) for item, place in self._places.items())
        return Plan(
            removed,
            list(self._changed.values()),
            added,
            [(parent.value, level) for parent, level in lists],
            max((each for each in positions if each is not None), default=0),
        )

    def _list_of(self, parent: Item) -> RowLevel | None:
        """Return which list of rows is inside of an item, if one is."""
        place = self._places.get(parent)
        inside = self._levels[0 if place is None else place.depth + 1 :]
        return inside[0] if inside and isinstance(inside[0], RowLevel) else None

    def _placed(self, parent: Item, level: RowLevel) -> Iterator[NewRow]:
        """Note which rows of a list get another place, and yield those that are new.

        Positions are those that SQLAlchemy's `ordering_list` of the relationship counts, else
        from 0 where they began so, else from 1.
        """
        items = parent.items or ()
        first = int(parent not in self._from_0)
        count = getattr(getattr(parent.value, level.name), "ordering_func", None)
        for number, item in enumerate(items):
            position = first + number if count is None else count(number, items)
            place = self._places.get(item)
            if place is None:
                yield NewRow(level, parent.value, position, item.value)
                continue
            if place.parent is not parent:
                own = [getattr(parent.value, name) for name in level.own]
                self._change(item).placed.update(zip(level.parents, own, strict=True))
            if _position(item, level) != position:
                self._change(item).placed[level.position] = position

    def _with_documents(self) -> Iterator[Item]:
        """Yield the rows in whose documents something has changed."""
        in_rows = {i for i, place in self._places.items() if isinstance(place.level, RowLevel)}
        for touched in [*self._outcome.modified.keys() - in_rows, *self._outcome.lists]:
            row = touched
            while row in self._places and row not in in_rows:
                row = self._places[row].parent
            if self._list_of(row) is None:
                yield row

    def _change(self, item: Item) -> RowChange:
        if item not in self._changed:
            level = self._places[item].level if item in self._places else None
            self._changed[item] = RowChange(
                item.value, level if isinstance(level, RowLevel) else None
            )
        return self._changed[item]


def _position(item: Item, level: Any) -> int | None:
    return getattr(item.value, level.position) if isinstance(level, RowLevel) else None


def write(session: Session, plan: Plan) -> None:
    """Write a plan, and flush: twice where positions are unique and rows take each other's."""
    for row, level in plan.removed:
        if level.deletes:
            session.delete(row)
        else:
            give(row, dict.fromkeys(level.parents))
    if _park(plan):
        session.flush()
    for change in plan.changed:
        give(change.row, change.given | change.placed)
    for new in plan.added:
        new.row = new.level.model(**new.values)
        getattr(new.parent, new.level.name).append(new.row)
        give(new.row, {new.level.position: new.position})
    session.flush()
    for parent, level in plan.lists:
        session.expire(parent, [level.name])


def give(row: Any, values: Mapping[str, Any]) -> None:
    """Give a row values, and have them written where they are others for the database alone.

    SQLAlchemy leaves out of an UPDATE what Python holds for equal: 1, 1.0 and true in JSON.
    """
    loaded = sqla.state_of(row).dict
    for name, value in values.items():
        was = loaded.get(name)
        setattr(row, name, value)
        both = isinstance(value, _JSON) and isinstance(was, _JSON)
        if both and was == value and repr(was) != repr(value):
            flag_modified(row, name)


def _park(plan: Plan) -> bool:
    """Put rows behind the end of their lists, if another one is to have the place of one."""
    moving = [
        (each, each.level)
        for each in plan.changed
        if each.placed and each.level is not None and each.level.unique
    ]
    leaving = {getattr(each.row, level.position) for each, level in moving}
    leaving.update(getattr(row, level.position) for row, level in plan.removed)
    wanted = {
        each.placed.get(level.position, getattr(each.row, level.position))
        for each, level in moving
    }
    wanted.update(new.position for new in plan.added if new.level.unique)
    if not wanted & leaving:
        return False
    free = 1 + max(plan.last, *wanted)
    for number, (each, level) in enumerate(moving):
        each.placed.setdefault(level.position, getattr(each.row, level.position))
        setattr(each.row, level.position, free + number)
    return True
