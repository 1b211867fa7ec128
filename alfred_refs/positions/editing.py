"""EditableList: snapshot, preview, apply.

A list as it is at one moment: its items by position, and a token that tells it from any other.

    snapshot = Snapshot.read(session, recipe, levels_of(Recipe, "ingredients"), lock=True)
    snapshot.before       # [{'food': 'leek', 'quantity': '2'}, ...]
    snapshot.token        # 'fbn1Kx0cRz2Q': another one as soon as anything in the list is another

Values have neither keys nor positions of their own: a history may keep them.

What a batch of edits does to rows: planned first, then written through the unit of work.

Rows that stay keep their keys, and those whose position changes alone are written. Where no two
rows may have the same position at any moment, those that move are put behind the end first, and
then in their places: twice as many writes, and no constraint in the way.

    plan = plan_of(snapshot, execute(snapshot.root, edits, "ingredients"))
    plan.removed, plan.changed, plan.added     # whoever may say no looks here
    write(session, plan)

A list of a mapped class that is edited by position: previewed, applied, kept for history.

    ingredients = EditableList(Recipe, "ingredients")
    edits = [Remove([3]), Remove([5]), Move([2], to=1)]
    preview = ingredients.preview(session, "recipe_1", edits)
    preview.after                                                   # as it will be, by position
    ingredients.apply(session, "recipe_1", edits, expect=preview)   # or DriftError

All edits of a batch are done, or none; each names what was there before the batch. The row whose
list it is is locked, so that of two batches with one preview the second is told that the list is
another one by now. Nothing is committed here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlalchemy.orm import Mapper, Session
from sqlalchemy.orm.attributes import flag_modified

from alfred_refs import sqla
from alfred_refs.errors import DriftError, ListError
from alfred_refs.positions.edits import (
    Add,
    Document,
    Edit,
    Item,
    Modify,
    Outcome,
    Rules,
    UnfitError,
    execute,
    read_item,
    write_item,
)
from alfred_refs.positions.lists import (
    DocumentLevel,
    Level,
    RowLevel,
    levels_of,
    move_refusal,
    tree_of,
    unfit,
)

_TOKEN_BYTES = 9  # eighteen letters: nobody makes another list of one token by accident


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item is in a snapshot.

    Attributes:
        parent: in whose list.
        number: which of it, from 1.
        depth: how many lists are around that.
        level: which list that is.
    """

    parent: Item
    number: int
    depth: int
    level: Level


@dataclass
class Snapshot:
    """What a row's list is when it is read.

    Attributes:
        root: has the items; edits are done in it.
        levels: of lists.
        places: where each item was.
        before: what the list had, by position.
    """

    root: Item
    levels: Sequence[Level]
    places: Mapping[Item, Place] = field(init=False)
    before: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.places = dict(_places(self.root, self.levels, 0))
        self.before = self.values({})

    @cached_property
    def token(self) -> str:
        """A digest of which list it is, of all that was in it, and of which rows they were.

        Rows count by what the session shows of their keys, refs in a `RefSession`: a digest of
        integers could be tried out by whoever has it.
        """
        rows = [item for item, place in self.places.items() if isinstance(place.level, RowLevel)]
        keys = [
            [getattr(item.value, name) for name in _key_names(item.value)]
            for item in (self.root, *rows)
        ]
        names = [type(self.root.value).__qualname__, *map(_name_of, self.levels)]
        text = json.dumps([names, keys, self.before], default=str, sort_keys=True)
        return hashlib.blake2s(text.encode(), digest_size=_TOKEN_BYTES).hexdigest()

    @classmethod
    def read(
        cls,
        session: Session,
        row: Any,
        levels: Sequence[Level],
        *,
        lock: bool,
        repair: bool = False,
    ) -> Snapshot:
        """Return what a row's list is now; see `tree_of`."""
        return cls(tree_of(session, row, levels, lock=lock, repair=repair), levels)

    def check(self, name: str, token: str, before: Sequence[Any] | None = None) -> None:
        """Check that a list is what it was when it had a token.

        Args:
            name: of the list.
            token: that it had.
            before: what it had then, if that is at hand.

        Raises:
            DriftError: it is another one.
        """
        if token == self.token:
            return
        changed = None
        if before is not None:
            longer, now = max(len(self.before), len(before)), self.before
            pairs = ((now[n : n + 1], [*before[n : n + 1]]) for n in range(longer))
            changed = [n for n, (new, old) in enumerate(pairs, start=1) if new != old]
        raise DriftError(name, self.before, changed)

    def values(self, modified: Mapping[Item, Any]) -> list[Any]:
        """Return what the list has by now, once some items are changed."""
        return _values(self.root, self.levels, modified)

    def path_of(self, ref: str) -> Sequence[int] | None:
        """Return the path of the row that has a ref of its own; `None` if there is none."""
        item = self._by_ref.get(ref)
        return None if item is None else self.path(item)

    def path(self, item: Item) -> Sequence[int]:
        """Return where an item was."""
        path: list[int] = []
        while item in self.places:
            place = self.places[item]
            path.insert(0, place.number)
            item = place.parent
        return path

    @cached_property
    def _by_ref(self) -> dict[str, Item]:
        return {
            ref: item
            for item, place in self.places.items()
            if isinstance(place.level, RowLevel) and (ref := ref_of(item.value)) is not None
        }


def ref_of(row: Any) -> str | None:
    """Return what names a row beside its position, if a ref does: that of its only key column."""
    name, *others = _key_names(row)
    shown = getattr(row, name)
    return shown if isinstance(shown, str) and not others else None


def _name_of(level: Level) -> Sequence[str]:
    return [level.name] if isinstance(level, RowLevel) else [level.column, *level.names]


def _key_names(row: Any) -> list[str]:
    mapper: Mapper[Any] = sqla.state_of(row).mapper
    return [mapper.get_property_by_column(column).key for column in mapper.primary_key]


def _places(parent: Item, levels: Sequence[Level], depth: int) -> Iterator[tuple[Item, Place]]:
    level = levels[min(depth, len(levels) - 1)]  # the last has all lists inside of documents
    for number, item in enumerate(parent.items or (), start=1):
        yield item, Place(parent, number, depth, level)
        if item.items:
            yield from _places(item, levels, depth + 1)


def _values(item: Item, levels: Sequence[Level], modified: Mapping[Item, Any]) -> list[Any]:
    level, *rest = levels
    return [_value(each, level, rest, modified) for each in item.items or ()]


def _value(item: Item, level: Level, rest: Sequence[Level], modified: Mapping[Item, Any]) -> Any:
    if isinstance(level, DocumentLevel):
        return write_item(item, modified)
    if isinstance(item.value, level.model):
        value = {name: getattr(item.value, name) for name in level.columns}
    else:  # a new one
        value = dict(item.value)
    value |= modified.get(item, {})
    if rest and item.items is not None:
        inside = rest[0].name if isinstance(rest[0], RowLevel) else rest[0].column
        value[inside] = (
            document_of(item, rest[0], modified)
            if isinstance(rest[0], DocumentLevel)
            else _values(item, rest, modified)
        )
    return value


def document_of(item: Item, level: DocumentLevel, modified: Mapping[Item, Any]) -> Any:
    """Return the value of a column whose lists are edited."""
    root = read_item(getattr(item.value, level.column), level.names)
    if root.items is None:  # an array that is null
        return [write_item(each, modified) for each in item.items or ()] or None
    root.items = item.items
    return write_item(root, modified)


def field_of(item: Item) -> Mapping[str, Any] | None:
    """Return the fields of an item; `None` if it has none."""
    if isinstance(item.value, Document):
        value = item.value.value
        return value if isinstance(value, Mapping) else None
    # not its dictionary, in which a RefSession leaves the keys
    return {name: getattr(item.value, name) for name in sqla.state_of(item.value).dict}


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


@dataclass(frozen=True, slots=True)
class Preview:
    """What a batch of edits comes to. It has no keys, and may be kept for a history.

    Attributes:
        before: the items as they were, by position.
        after: as they are then.
        token: stands for the list as it was before the edits: a short text, another one as soon as
            anything in the list changes. `None` where edits were applied without `expect`.

    Example:
        >>> preview = EditableList(Recipe, "lines").preview(session, "recipe_1", [Remove([1])])
        >>> preview.before
        [{'text': '4 tomatoes'}, {'text': '1 onion'}]
        >>> len(preview.after)
        1
    """

    before: Sequence[Any]
    after: Sequence[Any]
    token: str | None


class EditableList:
    """A list of the rows of a class, with the lists inside of its items.

    Args:
        model: the mapped class.
        name: an attribute that is a list: a one-to-many relationship with `order_by`, an array or
            a column of JSON; for lists inside of its items, the names that lead there, with dots
            between: `"steps"`, `"settings.week.meals"`.
        repair: whether rows of one position, or of none, are taken in the order of their keys;
            they are refused otherwise.

    Raises:
        ListError: there is no such list that could be edited.

    Example:
        >>> lines = EditableList(Recipe, "lines")
        >>> edits = [Remove([1]), Add([2], {"text": "1 pot"})]
        >>> preview = lines.preview(session, "recipe_1", edits)
        >>> done = lines.apply(session, "recipe_1", edits, expect=preview)
        >>> [line["text"] for line in lines.items(session, "recipe_1")]
        ['1 onion', '1 pot']
    """

    def __init__(self, model: type[Any], name: str, *, repair: bool = False) -> None:
        self.model = model
        self.name = name
        self._levels = levels_of(model, name)
        self._repair = repair

    def items(self, session: Session, of: Any) -> list[Any]:
        """Return the items as they are now, by position: what a model is to be shown.

        Args:
            session: that reads the row.
            of: the row whose list it is, or its ref.
        """
        row = self._row(session, of)
        return Snapshot.read(session, row, self._levels, lock=False, repair=True).before

    def preview(self, session: Session, of: Any, edits: Sequence[Edit]) -> Preview:
        """Return what edits come to; nothing is changed.

        Args:
            session: that reads the row.
            of: the row whose list it is, or its ref.
            edits: in any order.

        Raises:
            PositionError: they cannot be done together.
            ListError: rows have the same position, or none.
        """
        snapshot = self._snapshot(session, of, lock=False)
        after, _ = self._edited(snapshot, edits)
        return Preview(snapshot.before, after, snapshot.token)

    def apply(
        self,
        session: Session,
        of: Any,
        edits: Sequence[Edit],
        *,
        expect: Preview | str | None = None,
    ) -> Preview:
        """Do edits, and return what they came to; they are flushed and not committed.

        Args:
            session: whose transaction it is in.
            of: the row whose list it is, or its ref; locked until the transaction is over.
            edits: in any order.
            expect: a preview or its token: the list must be as it was then.

        Raises:
            PositionError: they cannot be done together.
            DriftError: the list is another one by now.
            ListError: rows have the same position, or none.
        """
        snapshot = self._snapshot(session, of, lock=True)
        token = expect.token if isinstance(expect, Preview) else expect
        if token is not None:
            before = expect.before if isinstance(expect, Preview) else None
            snapshot.check(self.name, token, before)
        after, plan = self._edited(snapshot, edits)
        write(session, plan)
        return Preview(snapshot.before, after, token)

    def _snapshot(self, session: Session, of: Any, *, lock: bool) -> Snapshot:
        row = self._row(session, of)
        return Snapshot.read(session, row, self._levels, lock=lock, repair=self._repair)

    def _row(self, session: Session, of: Any) -> Any:
        if not isinstance(of, self.model):
            return session.get_one(self.model, of)
        if of not in session:
            raise ListError(
                f"the {self.model.__qualname__} that has the list is not in the session",
                "give one of this session, or its ref",
            )
        return of

    def _edited(self, snapshot: Snapshot, edits: Sequence[Edit]) -> tuple[list[Any], Plan]:
        """Return what edits come to, and how that is written."""
        outcome = execute(snapshot.root, edits, self.name, _Rules(snapshot, self._levels))
        return snapshot.values(outcome.modified), plan_of(snapshot, outcome)


class _Rules(Rules):
    """What is known of items from their mapping."""

    def __init__(self, snapshot: Snapshot, levels: Sequence[Level]) -> None:
        self._snapshot = snapshot
        self._levels = levels

    def path_of(self, ref: str) -> Sequence[int] | None:
        return self._snapshot.path_of(ref)

    def mismatch(self, item: Item, depth: int, expect: Any) -> str | None:  # noqa: ARG002
        return instead_of(item, expect)

    def kept(self, depth: int) -> str | None:
        return move_refusal(self._levels, depth)

    def fitted(self, edit: Modify | Add, depth: int) -> Any:
        why = unfit(self._levels, depth, edit)
        if why is not None:
            raise UnfitError(why)
        return edit.value


def instead_of(item: Item, expect: Any) -> str | None:
    """Return what an item is instead of a text, or of values by field; `None` if it is that."""
    fields = field_of(item)
    if fields is None:
        value = item.value.value
        return None if value == expect else repr(value)
    if isinstance(expect, Mapping):
        other = {name: fields.get(name) for name in expect if fields.get(name) != expect[name]}
        return repr(other) if other else None
    texts = [each for each in fields.values() if isinstance(each, str)]
    return None if expect in texts else "another item"
