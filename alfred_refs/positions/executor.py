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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alfred_refs.errors import PositionError

from .conflicts import conflicts_of
from .edits import Edit, Modify, Move, Remove
from .resolving import Item, Resolved, Rules, resolve


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the items of a tree, beside where they are.

    Attributes:
        modified: what is to change of an item, or to take its place.
        removed: items that are in no list any more.
        lists: the items whose lists are other ones now, those added to and taken from.
    """

    modified: Mapping[Item, Any]
    removed: Sequence[Item]
    lists: Sequence[Item]


def execute(root: Item, edits: Sequence[Edit], name: str, rules: Rules | None = None) -> Outcome:
    """Do a batch of edits.

    Args:
        root: has the outermost list; changed in place, unless there is a conflict.
        edits: in any order.
        name: of the list, for errors.
        rules: what is known of the items.

    Raises:
        PositionError: they cannot be done together; with all that is wrong.
    """
    rules = rules or Rules()
    resolved, conflicts = resolve(root, edits, name, rules)
    conflicts += conflicts_of(resolved, name, rules)
    if conflicts:
        raise PositionError(sorted(conflicts, key=lambda each: each.edits))
    return _done(resolved)


def _done(resolved: Sequence[Resolved]) -> Outcome:
    """Do what edits name."""
    modified: dict[Item, Any] = {}
    leaving: dict[Item, set[Item]] = {}
    coming: dict[Item, list[tuple[int, int, Item]]] = {}
    removed = []
    for each in resolved:
        item = Item(each.value) if each.item is None else each.item
        if isinstance(each.edit, Modify):
            modified[item] = {**modified[item], **each.value} if item in modified else each.value
        if isinstance(each.edit, Remove | Move):
            leaving.setdefault(each.parent, set()).add(item)
        if isinstance(each.edit, Remove):
            removed.append(item)
        if each.goes_to is not None:
            coming.setdefault(each.goes_to, []).append((each.target, each.number, item))
    lists = list(dict.fromkeys([*leaving, *coming]))
    for parent in lists:
        gone = leaving.get(parent, set())
        rest = [item for item in parent.items or () if item not in gone]
        parent.items = _placed(rest, coming.get(parent, []))
    return Outcome(modified, removed, lists)


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
