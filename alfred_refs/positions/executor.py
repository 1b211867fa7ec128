"""Edit lists by position, whatever their items are: all edits of a batch, or none.

A tree of items comes in, and edits; the tree is changed in place, and what became of its items
goes out. Each edit is resolved to the item that it names before anything is done, and from then on
the item counts and not where it stood. So no edit can hit what another one has moved, and the
result is the same in whatever order the edits are given. An item is known by the object that it
is: nothing is written into what is edited. Pure.

    soup = Item(None, [Item("chop"), Item("boil"), Item("serve")])
    execute(soup, [Remove([1]), Move([3], to=1)], "steps")
    [item.value for item in soup.items]        # ['serve', 'boil']

**Placement.** What is removed or moved leaves its list. Then what is moved or new goes in, by
ascending position, of equal ones the first edit first. Each ends where it was to be; of several
for one position the others follow. The rest keeps its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from alfred_refs.errors import PositionError
from alfred_refs.errors.positions import Code, Conflict

from .edits import DEEPEST, MOST_EDITS, Add, Edit, Modify, Move, Remove


@dataclass(eq=False, slots=True)
class Item:
    """An item of a list, or what has the outermost list.

    Attributes:
        value: whatever it is.
        items: of the list inside of it; `None` where there is none.
    """

    value: Any
    items: list[Item] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the items of a tree, beside where they are.

    Attributes:
        modified: what is to change of an item, or to take its place.
        removed: items that are in no list any more.
        added: new ones.
        lists: the items whose lists are other ones now, those added to and taken from.
    """

    modified: Mapping[Item, Any]
    removed: Sequence[Item]
    added: Sequence[Item]
    lists: Sequence[Item]


@dataclass(slots=True)
class _Named:
    """An edit, with what it names in the tree.

    Attributes:
        number: of the edit, from 1.
        edit: the edit.
        path: to the item, or to where a new one goes.
        item: the one that it names; `None` for a new one.
        parent: in whose list that is.
        goes_to: in whose list an item goes.
        target: the position that it is to have there.
        above: what the paths lead through.
    """

    number: int
    edit: Edit
    path: Sequence[int]
    item: Item | None
    parent: Item
    goes_to: Item | None = None
    target: int = 0
    above: list[Item] = field(default_factory=list)


def execute(
    root: Item,
    edits: Sequence[Edit],
    name: str,
    *,
    found: Callable[[str], Sequence[int] | None] = lambda _: None,
    unexpected: Callable[[Item, Any], str | None] = lambda *_: None,
    unfit: Callable[[int, Modify | Add], str | None] = lambda *_: None,
) -> Outcome:
    """Do a batch of edits.

    Args:
        root: has the outermost list; changed in place, unless there is a conflict.
        edits: in any order.
        name: of the list, for errors.
        found: returns the path of the item that a text names, if it names one.
        unexpected: returns what an item is instead of what is expected of it; `None` if it is.
        unfit: returns why an item of a level, from 0, cannot be given what an edit gives it;
            `None` if it can.

    Raises:
        PositionError: they cannot be done together; with all that is wrong.
    """
    named, conflicts = _resolved(root, edits, name, found)
    conflicts += _unexpected(named, unexpected)
    conflicts += _unfit(named, unfit)
    conflicts += _contradictions(named)
    conflicts += _misplaced(named, name)
    if conflicts:
        raise PositionError(sorted(conflicts, key=lambda each: each.edits))
    return _done(named)


def _resolved(
    root: Item, edits: Sequence[Edit], name: str, found: Callable[[str], Sequence[int] | None]
) -> tuple[list[_Named], list[Conflict]]:
    """Return edits with what they name, and what is wrong with those that name nothing."""
    if len(edits) > MOST_EDITS:
        fact = f"a batch has {len(edits):,} edits, and there is room for {MOST_EDITS:,}"
        raise PositionError([Conflict("invalid_edit", (len(edits),), fact)])
    named, conflicts = [], []
    for number, edit in enumerate(edits, start=1):
        try:
            named.append(_named(root, edit, number, name, found))
        except _Wrong as wrong:
            conflicts.append(Conflict(wrong.code, (number,), wrong.fact))
    return named, conflicts


class _Wrong(Exception):  # noqa: N818  # never leaves this module
    """An edit by itself is wrong: a code, and the fact."""

    def __init__(self, code: Code, fact: str) -> None:
        self.code = code
        self.fact = fact
        super().__init__(code, fact)


def _named(
    root: Item, edit: Edit, number: int, name: str, found: Callable[[str], Sequence[int] | None]
) -> _Named:
    path = edit.path
    if isinstance(path, str):
        by_ref = None if isinstance(edit, Add) else found(path)
        if by_ref is None:
            raise _Wrong("unknown_item", f"{path!r} names no item of {name!r}")
        path = by_ref
    path = _checked(path)
    above = _above(root, path, name)
    if isinstance(edit, Add):
        return _Named(number, edit, path, None, above[-1], above[-1], path[-1], above)
    item = _at(above[-1], path, len(path) - 1, name)
    if not isinstance(edit, Move):
        return _Named(number, edit, path, item, above[-1], above=above)
    if isinstance(edit.to, Sequence) and not isinstance(edit.to, str):
        to = _checked(edit.to)
        if len(to) != len(path):
            fact = f"{_told(path)} cannot go to {_told(to)}, in a list of another level"
            raise _Wrong("invalid_position", fact)
        beyond = _above(root, to, name)
        return _Named(number, edit, path, item, above[-1], beyond[-1], to[-1], [*above, *beyond])
    target = _checked([edit.to])[0]
    return _Named(number, edit, path, item, above[-1], above[-1], target, above)


def _checked(path: Any) -> Sequence[int]:
    """Return a path if it is one."""
    if not isinstance(path, Sequence) or isinstance(path, str | bytes) or not path:
        raise _Wrong("invalid_position", f"{_short(path)} is no path: give a list of positions")
    if len(path) > DEEPEST:
        raise _Wrong("invalid_position", f"a path of {len(path)} levels is none of a list")
    for position in path:
        if type(position) is not int or position < 1:
            fact = f"{_short(position)} is no position: these are whole numbers from 1"
            raise _Wrong("invalid_position", fact)
    return path


def _short(value: Any) -> str:
    return repr(value if isinstance(value, int | float | str) else type(value).__name__)[:40]


def _above(root: Item, path: Sequence[int], name: str) -> list[Item]:
    """Return what a path leads through: the root, and an item of each level but the last."""
    above = [root]
    for level in range(len(path) - 1):
        above.append(_at(above[-1], path, level, name))
    if above[-1].items is None:
        raise _Wrong("no_list", f"{_told(path[:-1])} of {name!r} has no list inside")
    return above


def _at(parent: Item, path: Sequence[int], level: int, name: str) -> Item:
    """Return the item of a list that a path names there."""
    if parent.items is None:
        raise _Wrong("no_list", f"{_told(path[:level])} of {name!r} has no list inside")
    if path[level] > len(parent.items):
        length = _length(parent.items)
        fact = f"{_told(path[: level + 1])} of {name!r} is out of range: the list has {length}"
        raise _Wrong("out_of_range", fact)
    return parent.items[path[level] - 1]


def _told(path: Sequence[int]) -> str:
    return f"position {path[0]}" if len(path) == 1 else f"position {[*path]}"


def _length(items: Sequence[Item]) -> str:
    return f"{len(items)} item{'' if len(items) == 1 else 's'}"


def _unexpected(
    named: Iterable[_Named], unexpected: Callable[[Item, Any], str | None]
) -> list[Conflict]:
    """Return where there is something else than the model believes."""
    conflicts = []
    for each in named:
        expect = None if isinstance(each.edit, Add) else each.edit.expect
        if expect is not None and each.item is not None:
            instead = unexpected(each.item, expect)
            if instead is not None:
                fact = f"{_told(each.path)} is not what is expected, but {instead}"
                conflicts.append(Conflict("unexpected_item", (each.number,), fact))
    return conflicts


def _unfit(
    named: Iterable[_Named], unfit: Callable[[int, Modify | Add], str | None]
) -> list[Conflict]:
    """Return which values cannot be given to items."""
    return [
        Conflict("invalid_edit", (each.number,), f"{_told(each.path)} {why}")
        for each in named
        if isinstance(each.edit, Modify | Add)
        if (why := unfit(len(each.path) - 1, each.edit)) is not None
    ]


def _contradictions(named: Sequence[_Named]) -> list[Conflict]:
    """Return which edits cannot be done together: of one item, or of what goes with another."""
    by_item: dict[Item, list[_Named]] = {}
    for each in named:
        if each.item is not None:
            by_item.setdefault(each.item, []).append(each)
    pairs = (pair for of_one in by_item.values() for pair in combinations(of_one, 2))
    conflicts = [
        Conflict("edited_twice", (a.number, b.number), f"{_told(a.path)} is {fact}")
        for a, b in pairs
        if (fact := _contradiction(a.edit, b.edit)) is not None
    ]
    removed = {each.item: each for each in named if isinstance(each.edit, Remove)}
    for each in named:
        for above in dict.fromkeys(each.above):
            if above in removed:
                other = removed[above]
                fact = f"{_told(each.path)} is inside of {_told(other.path)}, which is removed"
                conflicts.append(Conflict("under_removed", (other.number, each.number), fact))
    return conflicts


def _contradiction(first: Edit, second: Edit) -> str | None:
    """Return how two edits of one item contradict each other."""
    kinds = {type(first), type(second)}
    if kinds == {Remove}:
        return "removed twice"
    if Remove in kinds:
        return "removed and moved" if Move in kinds else "removed and modified"
    if kinds == {Move}:
        return "moved twice"
    if isinstance(first, Modify) and isinstance(second, Modify):
        if not (isinstance(first.value, Mapping) and isinstance(second.value, Mapping)):
            return "modified twice"
        both = first.value.keys() & second.value.keys()
        return f"modified twice, in {', '.join(map(repr, sorted(both)))}" if both else None
    return None


def _misplaced(named: Sequence[_Named], name: str) -> list[Conflict]:
    """Return what goes behind the end of its list, as that will be."""
    length: dict[Item, int] = {}
    for each in named:
        for parent, more in ((each.parent, -1), (each.goes_to, 1)):
            leaves = isinstance(each.edit, Remove | Move) and more < 0
            if parent is not None and (leaves or more > 0):
                length[parent] = length.get(parent, len(parent.items or ())) + more
    conflicts = []
    for each in named:
        if each.goes_to is not None and each.target > length[each.goes_to]:
            fact = (
                f"position {each.target} of {name!r} is out of range: "
                f"the list will have {length[each.goes_to]}"
            )
            conflicts.append(Conflict("out_of_range", (each.number,), fact))
    return conflicts


def _done(named: Sequence[_Named]) -> Outcome:
    """Do what was named."""
    modified: dict[Item, Any] = {}
    leaving: dict[Item, set[Item]] = {}
    coming: dict[Item, list[tuple[int, int, Item]]] = {}
    removed, added = [], []
    for each in named:
        edit, item = each.edit, each.item
        if item is None and isinstance(edit, Add):
            item = Item(edit.value)
            added.append(item)
        elif isinstance(edit, Modify) and item is not None:
            known = modified.get(item)
            modified[item] = {**known, **edit.value} if known is not None else edit.value
        if item is not None and isinstance(edit, Remove | Move):
            leaving.setdefault(each.parent, set()).add(item)
            removed += [item] if isinstance(edit, Remove) else []
        if each.goes_to is not None and item is not None:
            coming.setdefault(each.goes_to, []).append((each.target, each.number, item))
    lists = list(dict.fromkeys([*leaving, *coming]))
    for parent in lists:
        gone = leaving.get(parent, set())
        rest = [item for item in parent.items or () if item not in gone]
        parent.items = _placed(rest, coming.get(parent, []))
    return Outcome(modified, removed, added, lists)


def _placed(rest: Sequence[Item], coming: list[tuple[int, int, Item]]) -> list[Item]:
    """Return a list with what comes in where it is to be: one pass, however long it is."""
    slots: dict[int, Item] = {}
    last = 0
    for target, _, item in sorted(coming, key=lambda each: each[:2]):
        last = max(target, last + 1)
        slots[last] = item
    over = last - len(rest) - len(coming)  # what was to be last of many for one position
    if over > 0:
        slots = _pushed(slots, len(rest) + len(coming))
    others = iter(rest)
    whole = range(1, len(rest) + len(coming) + 1)
    return [slots[place] if place in slots else next(others) for place in whole]


def _pushed(slots: Mapping[int, Item], length: int) -> dict[int, Item]:
    """Return the same with what stands behind the end moved before it."""
    pushed: dict[int, Item] = {}
    free = length
    for place in sorted(slots, reverse=True):
        pushed[min(place, free)] = slots[place]
        free = min(place, free) - 1
    return pushed
