"""Edits by position: resolve, check conflicts, execute (pure).

What can be done with the items of a list, by position.

    Modify([2], {"quantity": "3"})     the second item gets another quantity
    Modify([2], "simmer")              or is another text, where items are no objects
    Remove([3])                        the third goes
    Add([4], "serve")                  a new one, to be the fourth once all is done
    Move([5], to=1)                    the fifth, to be the first once all is done
    Move([1, 5], to=[2, 1])            the fifth of the first, to be the first of the second

Positions begin with 1. In a nested list a path has a position for each level: `[2, 3]` is the
third item of the second. What says *which* item, the whole path of what is there and all but the
last position of a new one, is of the list as it was before the batch; what says *where* is of the
list as it will be. Rows may be named by their refs instead.

What the edits of a batch name, before any of them is done: items of the list as it was.

A tree of items and edits come in; each edit goes out with the item that it names, or with what is
wrong with it by itself. An item is known by the object that it is. Pure.

    soup = Item(None, [Item("chop"), Item("boil")])
    resolve(soup, [Remove([2])], "steps", Rules())     # names soup.items[1]

Lists in documents: arrays, and lists in JSON at any depth.

A value of a column comes in, with the names that lead to its lists; items go out, and once they
are edited the value is made anew of them. What came in is not touched. Pure.

    week = {"days": [{"name": "Monday", "meals": ["soup"]}, {"name": "Tuesday"}]}
    root = read(week, ["days", "meals"])
    root.items[0].items[0].value.value     # 'soup'
    written(root, {})                      # {'days': [{...}, {...}]}

What edits of one batch cannot do together, or to the items that they name: all of it at once.

Resolved edits come in; conflicts go out, each with the numbers of its edits. Pure.

Edit lists by position, whatever their items are: all edits of a batch, or none.

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from alfred_refs.errors import Code, Conflict, PositionError

Path = Sequence[int] | str
"""Positions, of the outermost list first, or the ref of a row."""

MOST_EDITS = 1_000
DEEPEST = 20
"""Levels of lists: more are a mistake."""


@dataclass(frozen=True, slots=True)
class Modify:
    """Give an item other values.

    Attributes:
        path: which.
        value: an object of the fields that change, or what takes the place of the whole item.
        expect: what the item is believed to be: its text, or values by field.

    Example:
        >>> steps = EditableList(Recipe, "lines")
        >>> edits = [Modify([2], {"text": "2 onions"}, expect="1 onion")]
        >>> [line["text"] for line in steps.preview(session, "recipe_1", edits).after]
        ['4 tomatoes', '2 onions']
    """

    path: Path
    value: Any = field(repr=False)
    expect: Any = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Take an item out.

    Attributes:
        path: which.
        expect: see `Modify`.

    Example:
        >>> steps = EditableList(Recipe, "lines")
        >>> edits = [Remove([1])]
        >>> [line["text"] for line in steps.preview(session, "recipe_1", edits).after]
        ['1 onion']
    """

    path: Path
    expect: Any = None


@dataclass(frozen=True, slots=True)
class Add:
    """Put a new item in.

    Attributes:
        path: where: its last position is of the list as it will be.
        value: an object, or whatever items are.

    Example:
        >>> steps = EditableList(Recipe, "lines")
        >>> edits = [Add([1], {"text": "1 pot"})]
        >>> [line["text"] for line in steps.preview(session, "recipe_1", edits).after]
        ['1 pot', '4 tomatoes', '1 onion']
    """

    path: Sequence[int]
    value: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Move:
    """Put an item elsewhere; it stays the same item.

    Attributes:
        path: which.
        to: its position in the list as it will be, or the path to that in another list.
        expect: see `Modify`.

    Example:
        >>> steps = EditableList(Recipe, "lines")
        >>> edits = [Move([2], to=1)]
        >>> [line["text"] for line in steps.preview(session, "recipe_1", edits).after]
        ['1 onion', '4 tomatoes']
    """

    path: Path
    to: int | Sequence[int]
    expect: Any = None


Edit = Modify | Remove | Add | Move


@dataclass(eq=False, slots=True)
class Item:
    """An item of a list, or what has the outermost list.

    Attributes:
        value: whatever it is.
        items: of the list inside of it; `None` where there is none.
    """

    value: Any
    items: list[Item] | None = None


class UnfitError(Exception):
    """An item cannot be given a value; the text says why."""


class Rules:
    """What is known of items beside where they are: by default that any value fits."""

    def path_of(self, ref: str) -> Sequence[int] | None:
        """Return the path of the item that a text names, if it names one."""

    def mismatch(self, item: Item, depth: int, expect: Any) -> str | None:
        """Return what an item is instead of what is expected of it; `None` if it is."""

    def kept(self, depth: int) -> str | None:
        """Return why an item in a list cannot go to another list; `None` if it can."""

    def fitted(self, edit: Modify | Add, depth: int) -> Any:  # noqa: ARG002  # for those who know
        """Return the value that an edit gives an item in a list, the outermost of depth 0.

        Raises:
            UnfitError: it cannot be given that.
        """
        return edit.value


@dataclass(slots=True)
class ResolvedEdit:
    """An edit, with what it names in the tree.

    Attributes:
        number: of the edit, from 1.
        edit: the edit.
        path: to the item, or to where a new one goes.
        item: the one that it names; `None` for a new one.
        parent: in whose list that is.
        goes_to: in whose list an item goes; `None` if it goes nowhere.
        target: the position that it is to have there.
        above: what the paths lead through.
        value: that it gives.
    """

    number: int
    edit: Edit
    path: Sequence[int]
    item: Item | None
    parent: Item
    goes_to: Item | None = None
    target: int = 0
    above: list[Item] = field(default_factory=list)
    value: Any = None


def resolve(
    root: Item, edits: Sequence[Edit], name: str, rules: Rules
) -> tuple[list[ResolvedEdit], list[Conflict]]:
    """Return edits with what they name, and what is wrong with those that name nothing.

    Raises:
        PositionError: there are too many to be looked at.
    """
    if len(edits) > MOST_EDITS:
        fact = f"a batch has {len(edits):,} edits, and there is room for {MOST_EDITS:,}"
        raise PositionError([Conflict("invalid_edit", (len(edits),), fact)])
    resolved, conflicts = [], []
    for number, edit in enumerate(edits, start=1):
        try:
            resolved.append(_resolve_edit(root, edit, number, name, rules))
        except _Wrong as wrong:
            conflicts.append(Conflict(wrong.code, (number,), wrong.fact))
    return resolved, conflicts


class _Wrong(Exception):  # noqa: N818  # never leaves this module
    """An edit by itself is wrong: a code, and the fact."""

    def __init__(self, code: Code, fact: str) -> None:
        self.code = code
        self.fact = fact
        super().__init__(code, fact)


def _resolve_edit(root: Item, edit: Edit, number: int, name: str, rules: Rules) -> ResolvedEdit:
    path = edit.path
    if isinstance(path, str):
        by_ref = None if isinstance(edit, Add) else rules.path_of(path)
        if by_ref is None:
            raise _Wrong("unknown_item", f"{path!r} names no item of {name!r}")
        path = by_ref
    path = _check_path(path)
    above = _above(root, path, name)
    resolved = ResolvedEdit(number, edit, path, None, above[-1], above=above)
    if isinstance(edit, Add):
        resolved.goes_to, resolved.target = above[-1], path[-1]
    else:
        resolved.item = _at(above[-1], path, len(path) - 1, name)
    if isinstance(edit, Move):
        is_path = isinstance(edit.to, Sequence) and not isinstance(edit.to, str)
        to = _check_path(edit.to if is_path else [*path[:-1], edit.to])
        if len(to) != len(path):
            fact = (
                f"{format_path(path)} cannot go to {format_path(to)}, in a list of another level"
            )
            raise _Wrong("invalid_position", fact)
        beyond = _above(root, to, name)
        why = None if beyond[-1] is above[-1] else rules.kept(len(path) - 1)
        if why is not None:
            raise _Wrong("invalid_position", f"{format_path(path)} {why}")
        resolved.goes_to, resolved.target = beyond[-1], to[-1]
        resolved.above = [*above, *beyond]
    return resolved


def _check_path(path: Any) -> Sequence[int]:
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
        raise _Wrong("no_list", f"{format_path(path[:-1])} of {name!r} has no list inside")
    return above


def _at(parent: Item, path: Sequence[int], level: int, name: str) -> Item:
    """Return the item of a list that a path names there."""
    if parent.items is None:
        raise _Wrong("no_list", f"{format_path(path[:level])} of {name!r} has no list inside")
    if path[level] > len(parent.items):
        length = f"{len(parent.items)} item{'' if len(parent.items) == 1 else 's'}"
        fact = (
            f"{format_path(path[: level + 1])} of {name!r} is out of range: the list has {length}"
        )
        raise _Wrong("out_of_range", fact)
    return parent.items[path[level] - 1]


def format_path(path: Sequence[int]) -> str:
    """Return what errors call a path: an empty one is that of what has the outermost list."""
    if not path:
        return "the value"
    return f"position {path[0]}" if len(path) == 1 else f"position {[*path]}"


@dataclass(frozen=True, slots=True)
class Document:
    """A value in a document that may have a list inside.

    Attributes:
        value: as it was read.
        place: the names that lead from it to the list: none where it is the list itself.
    """

    value: Any
    place: Sequence[str] = ()


def read_item(value: Any, names: Sequence[str], within: int = 0) -> Item:
    """Return a value as an item, with the lists that names lead to.

    A list that is not there yet, or null, is empty: an object is taken to have it by the first
    name that leads to nothing. Lists that are items themselves need no name.

    Args:
        value: that has the outermost list.
        names: that lead to the lists.
        within: how many of the names, at the end, are of lists within a column: what is before
            them leads to the column, and is no list itself where there is nothing yet.
    """
    here = value
    for n, name in enumerate(names):
        if isinstance(here, list):
            return _item(value, names[:n], here, names[n:], within)
        if here is not None and not isinstance(here, Mapping):
            return Item(Document(value))
        here = None if here is None else here.get(name)
        rest = names[n + 1 :]
        if here is None and not (rest and len(rest) == within):
            return _item(value, names[: n + 1], [], rest, within)
    return (
        _item(value, names, here, (), within) if isinstance(here, list) else Item(Document(value))
    )


def _item(
    value: Any, place: Sequence[str], found: Sequence[Any], names: Sequence[str], within: int
) -> Item:
    return Item(Document(value, place), [read_item(each, names, within) for each in found])


def write_item(item: Item, modified: Mapping[Item, Any]) -> Any:
    """Return the value that an item has after a batch of edits."""
    document = item.value
    if not isinstance(document, Document):  # a new one
        return document
    value = document.value
    if item in modified:
        if replaces(item, modified[item]):
            return modified[item]
        value = {**(value or {}), **modified[item]}
    if item.items is None:
        return value
    inside = [write_item(each, modified) for each in item.items]
    is_there = inside or _has_list(value, document.place)
    return _with(value, document.place, inside) if is_there else value


def replaces(item: Item, change: Any) -> bool:
    """Tell whether a change takes the place of an item and of the list in it, or gives fields."""
    is_object = not isinstance(item.value, Document) or isinstance(
        item.value.value, Mapping | None
    )
    return not (is_object and isinstance(change, Mapping))


def _has_list(value: Any, place: Sequence[str]) -> bool:
    for name in place:
        value = value.get(name) if isinstance(value, Mapping) else None
    return isinstance(value, list)


def _with(value: Any, place: Sequence[str], inside: list[Any]) -> Any:
    if not place:
        return inside
    members = value if isinstance(value, Mapping) else {}
    return {**members, place[0]: _with(members.get(place[0]), place[1:], inside)}


def conflicts_of(resolved: Sequence[ResolvedEdit], name: str, rules: Rules) -> list[Conflict]:
    """Return what is wrong with edits; those that give a value have it from `rules` then.

    Args:
        resolved: the edits of a batch.
        name: of the list.
        rules: what is known of its items.
    """
    return [
        *_mismatches(resolved, rules),
        *_unfit(resolved, rules),
        *_contradictions(resolved),
        *_out_of_range(resolved, name),
    ]


def _mismatches(resolved: Iterable[ResolvedEdit], rules: Rules) -> Iterable[Conflict]:
    """Yield where there is something else than the model believes."""
    for each in resolved:
        expect = None if isinstance(each.edit, Add) else each.edit.expect
        if expect is not None and each.item is not None:
            instead = rules.mismatch(each.item, len(each.path) - 1, expect)
            if instead is not None:
                fact = f"{format_path(each.path)} is not what is expected, but {instead}"
                yield Conflict("unexpected_item", (each.number,), fact)


def _unfit(resolved: Iterable[ResolvedEdit], rules: Rules) -> Iterable[Conflict]:
    """Yield which values cannot be given to items."""
    for each in resolved:
        if isinstance(each.edit, Modify | Add):
            try:
                each.value = rules.fitted(each.edit, len(each.path) - 1)
            except UnfitError as unfit:
                yield Conflict("invalid_edit", (each.number,), f"{format_path(each.path)} {unfit}")


def _contradictions(resolved: Sequence[ResolvedEdit]) -> Iterable[Conflict]:
    """Yield which edits cannot be done together: of one item, or of what goes with another."""
    by_item: dict[Item, list[ResolvedEdit]] = {}
    for each in resolved:
        if each.item is not None:
            by_item.setdefault(each.item, []).append(each)
    for a, b in (pair for of_one in by_item.values() for pair in combinations(of_one, 2)):
        fact = _contradiction(a.edit, b.edit)
        if fact is not None:
            yield Conflict(
                "edited_twice", (a.number, b.number), f"{format_path(a.path)} is {fact}"
            )
    gone = {each.item: (each, how) for each in resolved if (how := _how_gone(each)) is not None}
    for each in resolved:
        for above in dict.fromkeys(each.above):
            if above in gone:
                other, how = gone[above]
                inner, outer = format_path(each.path), format_path(other.path)
                fact = f"{inner} is inside of {outer}, which is {how}"
                yield Conflict("under_removed", (other.number, each.number), fact)


def _how_gone(resolved: ResolvedEdit) -> str | None:
    """Return what becomes of all that is inside of an item; `None` if it stays."""
    match resolved.edit:
        case Remove():
            return "removed"
        case Modify(_, value) if resolved.item is not None and replaces(resolved.item, value):
            return "replaced"
    return None


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


def _out_of_range(resolved: Sequence[ResolvedEdit], name: str) -> Iterable[Conflict]:
    """Yield what goes behind the end of its list, as that will be."""
    length: dict[Item, int] = {}
    for each in resolved:
        for parent, more in ((each.parent, -1), (each.goes_to, 1)):
            leaves = isinstance(each.edit, Remove | Move) and more < 0
            if parent is not None and (leaves or more > 0):
                length[parent] = length.get(parent, len(parent.items or ())) + more
    for each in resolved:
        if each.goes_to is not None and each.target > length[each.goes_to]:
            fact = (
                f"position {each.target} of {name!r} is out of range: "
                f"the list will have {length[each.goes_to]}"
            )
            yield Conflict("out_of_range", (each.number,), fact)


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
    return _apply_edits(resolved)


def _apply_edits(resolved: Sequence[ResolvedEdit]) -> Outcome:
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
        parent.items = _insert_items(rest, coming.get(parent, []))
    return Outcome(modified, removed, lists)


def _insert_items(rest: Sequence[Item], coming: list[tuple[int, int, Item]]) -> list[Item]:
    """Return a list with what comes in where it is to be: one pass, however long it is."""
    slots: dict[int, Item] = {}
    last = 0
    for target, _, item in sorted(coming, key=lambda each: each[:2]):
        last = max(target, last + 1)
        slots[last] = item
    over = last - len(rest) - len(coming)  # what was to be last of many for one position
    if over > 0:
        slots = _shift_items(slots, len(rest) + len(coming))
    others = iter(rest)
    whole = range(1, len(rest) + len(coming) + 1)
    return [slots[place] if place in slots else next(others) for place in whole]


def _shift_items(slots: Mapping[int, Item], length: int) -> dict[int, Item]:
    """Return the same with what stands behind the end moved before it."""
    pushed: dict[int, Item] = {}
    free = length
    for place in sorted(slots, reverse=True):
        pushed[min(place, free)] = slots[place]
        free = min(place, free) - 1
    return pushed
