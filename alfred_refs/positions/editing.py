"""`EditableList`: preview and apply edits by position to a list of a mapped class.

>>> from alfred_refs.positions import Remove
>>> lines = EditableList(Recipe, "lines")
>>> edits = [Remove([1]), Add([1], {"text": "2 leeks"})]
>>> preview = lines.preview(session, "recipe_1", edits)
>>> [line["text"] for line in preview.after]
['2 leeks', '1 onion']
>>> applied = lines.apply(session, "recipe_1", edits, expect=preview)
>>> [line["text"] for line in applied.after]
['2 leeks', '1 onion']
>>> lines.apply(session, "recipe_1", [Remove([2])], expect=preview)
Traceback (most recent call last):
    ...
alfred_refs.errors.DriftError: the list 'lines' has changed since it was previewed at position 1;
read it again, and preview the edits again

A call takes these steps:

1. `Snapshot.read` reads the lists of one row, and locks its rows if they are to be edited. The
   snapshot has a token: a digest of the list's name, of its values, and of the refs of its rows.
   With `expect`, `apply` raises `DriftError` if the token differs.
2. `edits.execute` changes the order of the snapshot's items and returns the other changes.
3. `plan_of` compares the items with the snapshot and returns the rows to delete, update or insert.
4. `write` sets them on the mapped instances and flushes. Rows that stay keep their keys, and rows
   whose position does not change are not written. If a unique constraint on positions is not
   deferred, moved rows are first written with positions behind the end: two UPDATEs per row, but
   no violation in between.

A batch is applied as a whole or not at all. Nothing is committed here. Rows that the relationship
does not load, because its `primaryjoin` excludes them, are not renumbered.
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
    InvalidValueError,
    Item,
    Modify,
    Outcome,
    Rules,
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
    read_tree,
    value_refusal,
)

_TOKEN_BYTES = 9  # enough that two lists never share a token by accident
_JSON_TYPES = (bool, int, float, dict, list)


@dataclass(frozen=True, slots=True)
class Preview:
    """The result of a batch of edits. It contains no keys, so it may be kept in a message history.

    Attributes:
        before: the items before the batch, by position.
        after: the items after it.
        token: a short text that identifies the list before the batch; it changes with any change
            of the list. `None` if edits were applied without `expect`.

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
    """A list of a mapped class, with the lists inside its items.

    Args:
        model: the mapped class.
        name: an attribute that is a list: a one-to-many relationship with `order_by`, an array or
            a JSON column. For lists inside its items, append their names, separated by dots:
            `"steps"`, `"settings.week.meals"`.
        repair: whether to take rows with equal or missing positions in the order of their keys;
            otherwise they raise `ListError`.

    Raises:
        ListError: the list does not exist or cannot be edited.

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
        """Return the current items by position, for example to show them to a model.

        Args:
            session: the session that reads them.
            of: the row that owns the list, or its ref.
        """
        row = self._row(session, of)
        return Snapshot.read(session, row, self._levels, lock=False, repair=True).before

    def preview(self, session: Session, of: Any, edits: Sequence[Edit]) -> Preview:
        """Return the result of edits without applying them.

        Args:
            session: the session that reads the list.
            of: the row that owns the list, or its ref.
            edits: the edits, in any order.

        Raises:
            PositionError: an edit is invalid, or edits contradict each other.
            ListError: positions of rows are equal or missing.
        """
        snapshot = self._snapshot(session, of, lock=False)
        outcome = self._execute(snapshot, edits)
        return Preview(snapshot.before, snapshot.values(outcome.modified), snapshot.token)

    def apply(
        self,
        session: Session,
        of: Any,
        edits: Sequence[Edit],
        *,
        expect: Preview | str | None = None,
    ) -> Preview:
        """Apply edits and return their result; they are flushed and not committed.

        Args:
            session: the session whose transaction the edits belong to.
            of: the row that owns the list, or its ref; locked until the transaction ends.
            edits: the edits, in any order.
            expect: a preview, or its token; the list must not have changed since.

        Raises:
            PositionError: an edit is invalid, or edits contradict each other.
            DriftError: the list has changed since the preview.
            ListError: positions of rows are equal or missing.
        """
        snapshot = self._snapshot(session, of, lock=True)
        token = expect.token if isinstance(expect, Preview) else expect
        if token is not None:
            before = expect.before if isinstance(expect, Preview) else None
            snapshot.check(self.name, token, before)
        outcome = self._execute(snapshot, edits)
        # before the write, which changes the instances with the values
        after = snapshot.values(outcome.modified)
        write(session, plan_of(snapshot, outcome))
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
                "pass an instance of this session, or its ref",
            )
        return of

    def _execute(self, snapshot: Snapshot, edits: Sequence[Edit]) -> Outcome:
        return execute(snapshot.root, edits, self.name, _MappingRules(snapshot, self._levels))


class _MappingRules(Rules):
    """The rules that follow from the mapping."""

    def __init__(self, snapshot: Snapshot, levels: Sequence[Level]) -> None:
        self._snapshot = snapshot
        self._levels = levels

    def path_of(self, ref: str) -> Sequence[int] | None:
        return self._snapshot.path_of_ref(ref)

    def mismatch(self, item: Item, depth: int, expect: Any) -> str | None:  # noqa: ARG002
        return mismatch_of(item, expect)

    def move_refusal(self, depth: int) -> str | None:
        return move_refusal(self._levels, depth)

    def check_value(self, edit: Modify | Add, depth: int) -> Any:
        refusal = value_refusal(self._levels, depth, edit)
        if refusal is not None:
            raise InvalidValueError(refusal)
        return edit.value


def mismatch_of(item: Item, expect: Any) -> str | None:
    """Describe an item that differs from a text or values by field; None if it matches.

    A text matches if it is the value of any field.
    """
    if isinstance(item.value, Document):
        fields = item.value.value
        if not isinstance(fields, Mapping):
            return None if fields == expect else repr(fields)
    else:
        # values from attributes, because `__dict__` of an instance contains keys in a RefSession
        fields = {name: getattr(item.value, name) for name in sqla.state_of(item.value).dict}
    if isinstance(expect, Mapping):
        other = {name: fields.get(name) for name in expect if fields.get(name) != expect[name]}
        return repr(other) if other else None
    texts = [each for each in fields.values() if isinstance(each, str)]
    return None if expect in texts else "another item"


# Snapshots: the lists of a row at one moment


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an item in a snapshot.

    Attributes:
        parent: the item or root that contains the list.
        number: its position in the list, from 1.
        depth: the number of lists around that list.
        level: how that list is stored, in rows or in a document.
    """

    parent: Item
    number: int
    depth: int
    level: Level


@dataclass
class Snapshot:
    """The lists of one row when they were read.

    Attributes:
        root: the item of the row; `execute` changes its lists.
        levels: the result of `levels_of`.
        places: the place of each item at that time.
        before: the values at that time, by position.
    """

    root: Item
    levels: Sequence[Level]
    places: Mapping[Item, Place] = field(init=False)
    before: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.places = dict(_places(self.root, self.levels, 0))
        self.before = self.values({})

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
        """Read the lists of a row; see `read_tree`."""
        return cls(read_tree(session, row, levels, lock=lock, repair=repair), levels)

    @cached_property
    def token(self) -> str:
        """A digest of the list's name, of all values in it, and of the identity of its rows.

        The keys of rows are digested as the session shows them: as refs in a `RefSession`, because
        an integer key could be found from its digest by brute force.
        """
        rows = [item for item, place in self.places.items() if isinstance(place.level, RowLevel)]
        keys = [
            [getattr(item.value, name) for name in _key_names(item.value)]
            for item in (self.root, *rows)
        ]
        names = [
            [level.name] if isinstance(level, RowLevel) else [level.column, *level.names]
            for level in self.levels
        ]
        content = [[type(self.root.value).__qualname__, *names], keys, self.before]
        text = json.dumps(content, default=str, sort_keys=True)
        return hashlib.blake2s(text.encode(), digest_size=_TOKEN_BYTES).hexdigest()

    def check(self, name: str, token: str, before: Sequence[Any] | None = None) -> None:
        """Check that the list has not changed since a token was made.

        Args:
            name: the name of the list, for the error.
            token: the earlier token.
            before: the earlier values, if known; the error then names the changed positions.

        Raises:
            DriftError: the list has changed.
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
        """Return the current values by position, with modifications that are not written yet."""
        return _values(self.root, self.levels, modified)

    def path_of_ref(self, ref: str) -> Sequence[int] | None:
        """Return the path of the row with a ref, or None."""
        item = self._items_by_ref.get(ref)
        return None if item is None else self.path_of(item)

    def path_of(self, item: Item) -> Sequence[int]:
        """Return the path of an item in the snapshot."""
        path: list[int] = []
        while item in self.places:
            place = self.places[item]
            path.insert(0, place.number)
            item = place.parent
        return path

    @cached_property
    def _items_by_ref(self) -> dict[str, Item]:
        """The rows that have a ref: their key has one column, which the session shows as a ref."""
        items: dict[str, Item] = {}
        for item, place in self.places.items():
            if isinstance(place.level, RowLevel):
                name, *others = _key_names(item.value)
                key = getattr(item.value, name)
                if isinstance(key, str) and not others:
                    items[key] = item
        return items


def _key_names(row: Any) -> list[str]:
    mapper: Mapper[Any] = sqla.state_of(row).mapper
    return [mapper.get_property_by_column(column).key for column in mapper.primary_key]


def _places(parent: Item, levels: Sequence[Level], depth: int) -> Iterator[tuple[Item, Place]]:
    level = levels[min(depth, len(levels) - 1)]  # a document level has all lists inside it
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
    else:  # the value of an `Add`
        value = dict(item.value)
    value |= modified.get(item, {})
    if rest and item.items is not None:
        inner = rest[0]
        if isinstance(inner, DocumentLevel):
            value[inner.column] = column_value(item, inner, modified)
        else:
            value[inner.name] = _values(item, rest, modified)
    return value


def column_value(item: Item, level: DocumentLevel, modified: Mapping[Item, Any]) -> Any:
    """Build the value of an array or JSON column from the items of its row."""
    root = read_item(getattr(item.value, level.column), level.names)
    if root.items is None:  # a NULL array stays NULL and does not become empty
        return [write_item(each, modified) for each in item.items or ()] or None
    root.items = item.items
    return write_item(root, modified)


# Plans: the rows to write


@dataclass(slots=True)
class RowChange:
    """The changes of a row that stays.

    Attributes:
        row: the instance.
        level: the list that it is in; `None` for the row that owns the outermost list.
        values: the new values by attribute, including array and JSON columns.
        placement: its new position and foreign key by attribute, if they change.
    """

    row: Any
    level: RowLevel | None
    values: dict[str, Any] = field(default_factory=dict)
    placement: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RowAddition:
    """A row to insert.

    Attributes:
        level: the list to add it to.
        parent: the instance that owns the list.
        position: its position, as the column stores it.
        values: its other values, by attribute.
        row: the instance, after `write` has made it.
    """

    level: RowLevel
    parent: Any
    position: int
    values: dict[str, Any]
    row: Any = None

    @property
    def placement(self) -> dict[str, Any]:
        """Its position and foreign key, by attribute."""
        return {**_foreign_key(self.level, self.parent), self.level.position: self.position}


@dataclass(slots=True)
class RowPlan:
    """The rows that a batch writes.

    Attributes:
        removed: rows to delete or unlink, with the level of their list.
        changed: rows to update.
        added: rows to insert.
        lists: the instances whose lists change, with the level of the list.
        last: the highest position of any row in the snapshot.
    """

    removed: list[tuple[Any, RowLevel]]
    changed: list[RowChange]
    added: list[RowAddition]
    lists: list[tuple[Any, RowLevel]]
    last: int


def plan_of(snapshot: Snapshot, outcome: Outcome) -> RowPlan:
    """Compare an edited tree with its snapshot and return the rows to write."""
    return _Planner(snapshot, outcome).plan()


class _Planner:
    def __init__(self, snapshot: Snapshot, outcome: Outcome) -> None:
        self._places = snapshot.places
        self._levels = snapshot.levels
        self._outcome = outcome
        self._changes: dict[Item, RowChange] = {}
        self._zero_based = {
            place.parent
            for item, place in self._places.items()
            if _position(item, place.level) == 0
        }

    def plan(self) -> RowPlan:
        by_item = [(item, self._row_level_in(item)) for item in self._outcome.lists]
        lists = [(item, level) for item, level in by_item if level is not None]
        added = [new for parent, level in lists for new in self._number_rows(parent, level)]
        for item, value in self._outcome.modified.items():
            if isinstance(self._places[item].level, RowLevel):
                self._change(item).values.update(value)
        last = self._levels[-1]
        if isinstance(last, DocumentLevel):
            for row in dict.fromkeys(self._rows_with_changed_documents()):
                document = column_value(row, last, self._outcome.modified)
                self._change(row).values[last.column] = document
        removed = [
            (item.value, level)
            for item in self._outcome.removed
            if isinstance(level := self._places[item].level, RowLevel)
        ]
        positions = (_position(item, place.level) for item, place in self._places.items())
        return RowPlan(
            removed=removed,
            changed=list(self._changes.values()),
            added=added,
            lists=[(parent.value, level) for parent, level in lists],
            last=max((each for each in positions if each is not None), default=0),
        )

    def _row_level_in(self, item: Item) -> RowLevel | None:
        """Return the level of the rows inside an item, or None."""
        place = self._places.get(item)
        inside = self._levels[0 if place is None else place.depth + 1 :]
        return inside[0] if inside and isinstance(inside[0], RowLevel) else None

    def _number_rows(self, parent: Item, level: RowLevel) -> Iterator[RowAddition]:
        """Renumber a list: record changes of rows that stay, and yield new rows.

        An `ordering_list` of the relationship provides the numbers. Otherwise they count from 0 if
        the list had a position 0, else from 1.
        """
        items = parent.items or ()
        first = int(parent not in self._zero_based)
        count = getattr(getattr(parent.value, level.name), "ordering_func", None)
        for number, item in enumerate(items):
            position = first + number if count is None else count(number, items)
            place = self._places.get(item)
            if place is None:
                yield RowAddition(level, parent.value, position, item.value)
                continue
            if place.parent is not parent:
                self._change(item).placement.update(_foreign_key(level, parent.value))
            if _position(item, level) != position:
                self._change(item).placement[level.position] = position

    def _rows_with_changed_documents(self) -> Iterator[Item]:
        rows = {i for i, place in self._places.items() if isinstance(place.level, RowLevel)}
        for edited in [*self._outcome.modified.keys() - rows, *self._outcome.lists]:
            row = edited
            while row in self._places and row not in rows:
                row = self._places[row].parent
            if self._row_level_in(row) is None:
                yield row

    def _change(self, item: Item) -> RowChange:
        if item not in self._changes:
            level = self._places[item].level if item in self._places else None
            self._changes[item] = RowChange(
                item.value, level if isinstance(level, RowLevel) else None
            )
        return self._changes[item]


def _position(item: Item, level: Level) -> int | None:
    return getattr(item.value, level.position) if isinstance(level, RowLevel) else None


def _foreign_key(level: RowLevel, parent: Any) -> dict[str, Any]:
    """Return the foreign key values of a row in a parent's list."""
    key = [getattr(parent, name) for name in level.parent_key]
    return dict(zip(level.foreign_key, key, strict=True))


# Writes


def write(session: Session, plan: RowPlan) -> None:
    """Write a plan and flush, twice if rows take each other's unique positions."""
    for row, level in plan.removed:
        if level.deletes:
            session.delete(row)
        else:
            set_values(row, dict.fromkeys(level.foreign_key))
    if _move_behind_end(plan):
        session.flush()
    for change in plan.changed:
        set_values(change.row, change.values | change.placement)
    for new in plan.added:
        new.row = new.level.model(**new.values)
        getattr(new.parent, new.level.name).append(new.row)
        # after the append: an `ordering_list` sets the position, too
        set_values(new.row, {new.level.position: new.position})
    session.flush()
    # a loaded collection is not sorted again when the positions of its rows change
    for parent, level in plan.lists:
        session.expire(parent, [level.name])


def set_values(row: Any, values: Mapping[str, Any]) -> None:
    """Set attributes of an instance, and flag changed JSON.

    SQLAlchemy omits a column from an UPDATE if the old and the new value are equal in Python, but
    1, 1.0 and true are different JSON.
    """
    loaded = sqla.state_of(row).dict
    for name, value in values.items():
        was = loaded.get(name)
        setattr(row, name, value)
        both = isinstance(value, _JSON_TYPES) and isinstance(was, _JSON_TYPES)
        if both and was == value and repr(was) != repr(value):
            flag_modified(row, name)


def _move_behind_end(plan: RowPlan) -> bool:
    """Move rows behind the end first, if one takes another's unique position.

    The unit of work orders the UPDATEs of a flush by primary key, and each UPDATE must keep
    positions unique.
    """
    moving = [
        (each, each.level)
        for each in plan.changed
        if each.placement and each.level is not None and each.level.unique
    ]
    old = {getattr(each.row, level.position) for each, level in moving}
    old.update(getattr(row, level.position) for row, level in plan.removed)
    new = {
        each.placement.get(level.position, getattr(each.row, level.position))
        for each, level in moving
    }
    new.update(each.position for each in plan.added if each.level.unique)
    if not new & old:
        return False
    free = 1 + max(plan.last, *new)
    for number, (each, level) in enumerate(moving):
        each.placement.setdefault(level.position, getattr(each.row, level.position))
        setattr(each.row, level.position, free + number)
    return True
