"""Edits of a list by position: the edits, and their execution on a tree of items.

======================================  =========================================================
`Modify([2], {"quantity": "3"})`        set fields of the second item
`Modify([2], "simmer")`                 replace the second item, if items are not objects
`Remove([3])`                           remove the third item
`Add([4], "serve")`                     insert a new item, which will be the fourth
`Move([5], to=1)`                       move the fifth item, which will be the first
`Move([1, 5], to=[2, 1])`               move the fifth item of the first list to the second list
======================================  =========================================================

Positions count from 1. In a nested list a path has one position per level: `[2, 3]` is the third
item inside the second. A ref may take the place of a path to a row. Positions that select an item
refer to the list before the batch; target positions of added and moved items refer to the list
after it.

`execute` runs a batch in three steps: it resolves each edit to an `Item` object, collects all
conflicts, and, without any, changes the tree in place. Items are compared by identity, so no
edit can hit an item that another edit has moved, and the order of the edits does not matter:

>>> soup = Item(None, [Item("chop"), Item("boil"), Item("serve")])
>>> outcome = execute(soup, [Remove([1]), Move([3], to=1)], "steps")
>>> [item.value for item in soup.items]
['serve', 'boil']
>>> execute(soup, [Remove([2]), Move([2], to=1)], "steps")
Traceback (most recent call last):
    ...
alfred_refs.errors.PositionError: edits 1 and 2: position 2 is removed and moved; nothing was
changed, give all edits again

**Placement.** Removed and moved items leave their lists. Then moved and new items are inserted by
ascending target position. If several have the same target, the item of the first edit gets it and
the others follow. All other items keep their order.

`read_item` and `write_item` convert a JSON document to items and back:

>>> week = {"days": [{"name": "Monday", "meals": ["soup"]}, {"name": "Tuesday"}]}
>>> root = read_item(week, ["days", "meals"])
>>> outcome = execute(root, [Add([2, 1], "stew")], "days.meals")
>>> write_item(root, outcome.modified)["days"][1]
{'name': 'Tuesday', 'meals': ['stew']}

Everything here is pure: the values of items are never modified. `Rules` decides which values an
item may have; the caller stores the items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import itemgetter
from typing import Any

from alfred_refs.errors import Code, Conflict, PositionError

Path = Sequence[int] | str
"""Positions, starting in the outermost list, or the ref of a row."""

_MAX_EDITS = 1_000
_MAX_LEVELS = 20  # levels of nested lists; a longer path is a mistake


# Edits


@dataclass(frozen=True, slots=True)
class Modify:
    """Change the values of an item.

    Attributes:
        path: the item.
        value: an object with the fields that change, or the value that replaces the whole item.
        expect: the expected item: its text, or values by field.

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
    """Remove an item.

    Attributes:
        path: the item.
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
    """Insert a new item.

    Attributes:
        path: the place; its last position refers to the list after the batch.
        value: an object, or any other value if items are not objects.

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
    """Move an item to another position; a row keeps its key.

    Attributes:
        path: the item.
        to: its position in the list after the batch, or the path to a position in another list.
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


# Items and rules


@dataclass(eq=False, slots=True)
class Item:
    """An item of a list, or the owner of the outermost list.

    Attributes:
        value: the value; a mapped instance, a `Document`, or the value of an `Add`.
        items: the items of the list inside; `None` if there is no list.
    """

    value: Any
    items: list[Item] | None = None


class InvalidValueError(Exception):
    """An item cannot have a value; the message continues "position 3 ..."."""


class Rules:
    """Hooks of `execute`. The defaults accept every value and know no refs.

    `depth` is the number of lists around the list of the item: 0 for the outermost list.
    """

    def path_of(self, ref: str) -> Sequence[int] | None:
        """Return the path to the item with this ref, or None."""

    def mismatch(self, item: Item, depth: int, expect: Any) -> str | None:
        """Describe an item that differs from the expected value; None if it matches."""

    def move_refusal(self, depth: int) -> str | None:
        """Return the reason why an item may not move to another list; None if it may."""

    def check_value(self, edit: Modify | Add, depth: int) -> Any:  # noqa: ARG002  # for subclasses
        """Return the value that an edit gives to an item.

        Raises:
            InvalidValueError: the item cannot have the value.
        """
        return edit.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """The changes of a batch to a tree, other than the order of items.

    Attributes:
        modified: by item, the fields that change or the value that replaces the item.
        removed: the items that are no longer in any list.
        lists: the items whose lists changed.
        placed: the items that are new in their list or have moved.
        beside: the former neighbours of items that have left their list.
    """

    modified: Mapping[Item, Any]
    removed: Sequence[Item]
    lists: Sequence[Item]
    placed: Sequence[Item] = ()
    beside: Sequence[Item] = ()

    def shown_paths(self, root: Item) -> set[tuple[int, ...]]:
        """Return the positions of changed items, their neighbours, and the items around them.

        Args:
            root: the owner of the outermost list, after the edits.
        """
        # an item with an emptied list is shown, although nothing inside is
        changed, beside = {*self.modified, *self.placed}, {*self.beside, *self.lists}
        shown = set[tuple[int, ...]]()

        def collect(parent: Item, path: tuple[int, ...]) -> bool:
            items = parent.items or []
            is_changed = [False, *(item in changed for item in items), False]
            before = len(shown)
            for n, item in enumerate(items, start=1):
                is_inside = collect(item, (*path, n))
                if is_inside or item in beside or any(is_changed[n - 1 : n + 2]):
                    shown.add((*path, n))
            return len(shown) > before

        collect(root, ())
        return shown


# Execution


def execute(root: Item, edits: Sequence[Edit], name: str, rules: Rules | None = None) -> Outcome:
    """Execute a batch of edits on a tree of items, or raise with all conflicts.

    Args:
        root: the owner of the outermost list; changed in place unless there is a conflict.
        edits: the edits, in any order.
        name: the name of the list, for errors.
        rules: the rules of the items' storage.

    Raises:
        PositionError: an edit is invalid, or edits contradict each other.
    """
    if len(edits) > _MAX_EDITS:
        fact = f"a batch of {len(edits):,} edits exceeds the limit of {_MAX_EDITS:,}"
        raise PositionError([Conflict("invalid_edit", (len(edits),), fact)])
    rules = rules or Rules()
    resolved: list[_ResolvedEdit] = []
    conflicts: list[Conflict] = []
    for number, edit in enumerate(edits, start=1):
        try:
            resolved.append(_resolve(root, edit, number, name, rules))
        except _InvalidEditError as error:
            conflicts.append(Conflict(error.code, (number,), error.fact))
    conflicts += _mismatches(resolved, rules)
    conflicts += _invalid_values(resolved, rules)
    conflicts += _contradictions(resolved)
    conflicts += _targets_out_of_range(resolved, name)
    if conflicts:
        raise PositionError(sorted(conflicts, key=lambda each: each.edits))
    return _apply(resolved)


def _apply(resolved: Sequence[_ResolvedEdit]) -> Outcome:
    modified: dict[Item, Any] = {}
    leaving: dict[Item, set[Item]] = {}
    arriving: dict[Item, list[tuple[int, Item]]] = {}
    removed = []
    for each in resolved:
        item = Item(each.value) if each.item is None else each.item
        if isinstance(each.edit, Modify):
            modified[item] = {**modified[item], **each.value} if item in modified else each.value
        if isinstance(each.edit, Remove | Move):
            leaving.setdefault(each.parent, set()).add(item)
        if isinstance(each.edit, Remove):
            removed.append(item)
        if each.destination is not None:
            arriving.setdefault(each.destination, []).append((each.target, item))
    lists = list(dict.fromkeys([*leaving, *arriving]))
    beside: list[Item] = []
    for parent in lists:
        left, items = leaving.get(parent, set()), [*(parent.items or ())]
        for n, item in enumerate(items):
            beside += [*items[max(n - 1, 0) : n], *items[n + 1 : n + 2]] if item in left else []
        rest = [item for item in items if item not in left]
        parent.items = _insert(rest, arriving.get(parent, []))
    placed = [item for places in arriving.values() for *_, item in places]
    return Outcome(modified, removed, lists, placed, beside)


def _insert(rest: Sequence[Item], arriving: Sequence[tuple[int, Item]]) -> list[Item]:
    """Return a list with items inserted, each with its target, in the order of their edits.

    This takes linear time; inserting one by one would take quadratic time.
    """
    length = len(rest) + len(arriving)
    slots: dict[int, Item] = {}
    last = 0
    for target, item in sorted(arriving, key=itemgetter(0)):
        last = max(target, last + 1)
        slots[last] = item
    if last > length:  # several items for the last position: shift them back into the list
        shifted, free = {}, length
        for position in sorted(slots, reverse=True):
            free = min(position, free)
            shifted[free] = slots[position]
            free -= 1
        slots = shifted
    others = iter(rest)
    positions = range(1, length + 1)
    return [slots[position] if position in slots else next(others) for position in positions]


# Resolution: from paths to items


@dataclass(slots=True)
class _ResolvedEdit:
    """An edit and the items that its paths select.

    Attributes:
        number: the number of the edit, from 1.
        edit: the edit.
        path: the path to the item, or to the place of a new one.
        item: the selected item; `None` for `Add`.
        parent: the owner of the list that the path leads to.
        destination: the owner of the list that the item goes to; `None` if it stays or is removed.
        target: its position in that list.
        ancestors: the items that the paths lead through.
        value: the new value, after `Rules.check_value`.
    """

    number: int
    edit: Edit
    path: Sequence[int]
    item: Item | None
    parent: Item
    destination: Item | None = None
    target: int = 0
    ancestors: list[Item] = field(default_factory=list)
    value: Any = None


class _InvalidEditError(Exception):
    def __init__(self, code: Code, fact: str) -> None:
        self.code = code
        self.fact = fact
        super().__init__(code, fact)


def _resolve(root: Item, edit: Edit, number: int, name: str, rules: Rules) -> _ResolvedEdit:
    path = edit.path
    if isinstance(path, str):
        by_ref = None if isinstance(edit, Add) else rules.path_of(path)
        if by_ref is None:
            raise _InvalidEditError("unknown_item", f"{path!r} names no item of {name!r}")
        path = by_ref
    path = _check_path(path)
    ancestors = _ancestors(root, path, name)
    resolved = _ResolvedEdit(number, edit, path, None, ancestors[-1], ancestors=ancestors)
    if isinstance(edit, Add):
        resolved.destination, resolved.target = ancestors[-1], path[-1]
    else:
        resolved.item = _item_at(ancestors[-1], path, len(path) - 1, name)
    if isinstance(edit, Move):
        is_path = isinstance(edit.to, Sequence) and not isinstance(edit.to, str)
        to = _check_path(edit.to if is_path else [*path[:-1], edit.to])
        if len(to) != len(path):
            fact = f"{_words(path)} cannot move to {_words(to)}, in a list of another level"
            raise _InvalidEditError("invalid_position", fact)
        others = _ancestors(root, to, name)
        refusal = None if others[-1] is ancestors[-1] else rules.move_refusal(len(path) - 1)
        if refusal is not None:
            raise _InvalidEditError("invalid_position", f"{_words(path)} {refusal}")
        resolved.destination, resolved.target = others[-1], to[-1]
        resolved.ancestors = [*ancestors, *others]
    return resolved


def _check_path(path: Any) -> Sequence[int]:
    if not isinstance(path, Sequence) or isinstance(path, str | bytes) or not path:
        fact = f"{_short(path)} is not a path: give a list of positions"
        raise _InvalidEditError("invalid_position", fact)
    if len(path) > _MAX_LEVELS:
        fact = f"a path of {len(path)} levels exceeds the limit of {_MAX_LEVELS}"
        raise _InvalidEditError("invalid_position", fact)
    for position in path:
        if type(position) is not int or position < 1:  # a bool is an int
            fact = f"{_short(position)} is not a position: positions are whole numbers from 1"
            raise _InvalidEditError("invalid_position", fact)
    return path


def _short(value: Any) -> str:
    return repr(value if isinstance(value, int | float | str) else type(value).__name__)[:40]


def _ancestors(root: Item, path: Sequence[int], name: str) -> list[Item]:
    """Return the items on a path: the root, then one per level except the last."""
    ancestors = [root]
    for level in range(len(path) - 1):
        ancestors.append(_item_at(ancestors[-1], path, level, name))
    if ancestors[-1].items is None:
        fact = f"{_words(path[:-1])} of {name!r} has no list inside"
        raise _InvalidEditError("no_list", fact)
    return ancestors


def _item_at(parent: Item, path: Sequence[int], level: int, name: str) -> Item:
    if parent.items is None:
        fact = f"{_words(path[:level])} of {name!r} has no list inside"
        raise _InvalidEditError("no_list", fact)
    if path[level] > len(parent.items):
        length = f"{len(parent.items)} item{'' if len(parent.items) == 1 else 's'}"
        fact = f"{_words(path[: level + 1])} of {name!r} is out of range: the list has {length}"
        raise _InvalidEditError("out_of_range", fact)
    return parent.items[path[level] - 1]


def _words(path: Sequence[int]) -> str:
    """Return the words for a path in errors; the empty path is the owner of the outermost list."""
    if not path:
        return "the value"
    return f"position {path[0]}" if len(path) == 1 else f"position {[*path]}"


# Conflicts


def _mismatches(resolved: Sequence[_ResolvedEdit], rules: Rules) -> Iterator[Conflict]:
    for each in resolved:
        expect = None if isinstance(each.edit, Add) else each.edit.expect
        if expect is not None and each.item is not None:
            other = rules.mismatch(each.item, len(each.path) - 1, expect)
            if other is not None:
                fact = f"{_words(each.path)} is not the expected item, but {other}"
                yield Conflict("unexpected_item", (each.number,), fact)


def _invalid_values(resolved: Sequence[_ResolvedEdit], rules: Rules) -> Iterator[Conflict]:
    """Yield invalid values, and set valid values in the resolved edits."""
    for each in resolved:
        if isinstance(each.edit, Modify | Add):
            try:
                each.value = rules.check_value(each.edit, len(each.path) - 1)
            except InvalidValueError as error:
                yield Conflict("invalid_edit", (each.number,), f"{_words(each.path)} {error}")


def _contradictions(resolved: Sequence[_ResolvedEdit]) -> Iterator[Conflict]:
    """Yield contradictory pairs of edits of one item, or of an item and one inside it."""
    by_item: dict[Item, list[_ResolvedEdit]] = {}
    for each in resolved:
        if each.item is not None:
            by_item.setdefault(each.item, []).append(each)
    for a, b in (pair for of_item in by_item.values() for pair in combinations(of_item, 2)):
        fact = _contradiction(a.edit, b.edit)
        if fact is not None:
            yield Conflict("edited_twice", (a.number, b.number), f"{_words(a.path)} is {fact}")
    lost = {each.item: (each, how) for each in resolved if (how := _how_lost(each)) is not None}
    for each in resolved:
        for ancestor in dict.fromkeys(each.ancestors):
            if ancestor in lost:
                outer, how = lost[ancestor]
                fact = f"{_words(each.path)} is inside {_words(outer.path)}, which is {how}"
                yield Conflict("under_removed", (outer.number, each.number), fact)


def _contradiction(first: Edit, second: Edit) -> str | None:
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


def _how_lost(resolved: _ResolvedEdit) -> str | None:
    """Return the reason why everything inside an item is lost; None if it stays."""
    match resolved.edit:
        case Remove():
            return "removed"
        case Modify(_, value) if resolved.item is not None and _replaces(resolved.item, value):
            return "replaced"
    return None


def _targets_out_of_range(resolved: Sequence[_ResolvedEdit], name: str) -> Iterator[Conflict]:
    """Yield targets beyond the end of their list, by its length after the batch."""
    lengths: dict[Item, int] = {}
    for each in resolved:
        leaves = isinstance(each.edit, Remove | Move)
        for parent, more in ((each.parent if leaves else None, -1), (each.destination, 1)):
            if parent is not None:
                lengths[parent] = lengths.get(parent, len(parent.items or ())) + more
    for each in resolved:
        if each.destination is not None and each.target > lengths[each.destination]:
            fact = (
                f"position {each.target} of {name!r} is out of range: "
                f"the list will have {lengths[each.destination]}"
            )
            yield Conflict("out_of_range", (each.number,), fact)


# Documents: arrays, and lists at any depth of JSON


@dataclass(frozen=True, slots=True)
class Document:
    """A value in an array or in JSON, which may have a list inside.

    Attributes:
        value: the value as read; never changed.
        list_path: the names on the path from it to the list; empty if it is the list.
    """

    value: Any
    list_path: Sequence[str] = ()


def read_item(value: Any, names: Sequence[str], within: int = 0) -> Item:
    """Convert a value to an item, with the lists under these names.

    A missing or null list is read as an empty list, at the first name without a value. A list that
    is an item of a list has no name.

    Args:
        value: the value with the outermost list.
        names: the names on the path to the lists, outermost first.
        within: the number of last names that are inside a column. The name before them is the
            column, so a null there is a missing document and not an empty list.
    """
    here = value
    for n, name in enumerate(names):
        if isinstance(here, list):
            return _list_item(value, names[:n], here, names[n:], within)
        if here is not None and not isinstance(here, Mapping):
            return Item(Document(value))
        here = None if here is None else here.get(name)
        rest = names[n + 1 :]
        if here is None and not (rest and len(rest) == within):
            return _list_item(value, names[: n + 1], [], rest, within)
    if isinstance(here, list):
        return _list_item(value, names, here, (), within)
    return Item(Document(value))


def _list_item(
    value: Any, path: Sequence[str], items: Sequence[Any], names: Sequence[str], within: int
) -> Item:
    return Item(Document(value, path), [read_item(each, names, within) for each in items])


def write_item(item: Item, modified: Mapping[Item, Any]) -> Any:
    """Build the value of an item after a batch, without changing the value that was read."""
    document = item.value
    if not isinstance(document, Document):  # the value of an `Add`
        return document
    value = document.value
    if item in modified:
        if _replaces(item, modified[item]):
            return modified[item]
        value = {**(value or {}), **modified[item]}
    if item.items is None:
        return value
    inside = [write_item(each, modified) for each in item.items]
    # do not add an empty list: an unedited document must not change
    has_list = inside or _has_list(value, document.list_path)
    return _with_list(value, document.list_path, inside) if has_list else value


def _replaces(item: Item, value: Any) -> bool:
    """Return whether `Modify` replaces the item and the list inside; otherwise it sets fields."""
    is_object = not isinstance(item.value, Document) or isinstance(
        item.value.value, Mapping | None
    )
    return not (is_object and isinstance(value, Mapping))


def _has_list(value: Any, path: Sequence[str]) -> bool:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return isinstance(value, list)


def _with_list(value: Any, path: Sequence[str], items: list[Any]) -> Any:
    if not path:
        return items
    members = value if isinstance(value, Mapping) else {}
    return {**members, path[0]: _with_list(members.get(path[0]), path[1:], items)}
