"""What the edits of a batch name, before any of them is done: items of the list as it was.

A tree of items and edits come in; each edit goes out with the item that it names, or with what is
wrong with it by itself. An item is known by the object that it is. Pure.

    soup = Item(None, [Item("chop"), Item("boil")])
    resolve(soup, [Remove([2])], "steps", Rules())     # names soup.items[1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from alfred_refs.errors import PositionError
from alfred_refs.errors.positions import Code, Conflict

from .edits import DEEPEST, MOST_EDITS, Add, Edit, Modify, Move


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

    def unexpected(self, item: Item, depth: int, expect: Any) -> str | None:
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
class Resolved:
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
) -> tuple[list[Resolved], list[Conflict]]:
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
            resolved.append(_resolved(root, edit, number, name, rules))
        except _Wrong as wrong:
            conflicts.append(Conflict(wrong.code, (number,), wrong.fact))
    return resolved, conflicts


class _Wrong(Exception):  # noqa: N818  # never leaves this module
    """An edit by itself is wrong: a code, and the fact."""

    def __init__(self, code: Code, fact: str) -> None:
        self.code = code
        self.fact = fact
        super().__init__(code, fact)


def _resolved(root: Item, edit: Edit, number: int, name: str, rules: Rules) -> Resolved:
    path = edit.path
    if isinstance(path, str):
        by_ref = None if isinstance(edit, Add) else rules.path_of(path)
        if by_ref is None:
            raise _Wrong("unknown_item", f"{path!r} names no item of {name!r}")
        path = by_ref
    path = _checked(path)
    above = _above(root, path, name)
    resolved = Resolved(number, edit, path, None, above[-1], above=above)
    if isinstance(edit, Add):
        resolved.goes_to, resolved.target = above[-1], path[-1]
    else:
        resolved.item = _at(above[-1], path, len(path) - 1, name)
    if isinstance(edit, Move):
        is_path = isinstance(edit.to, Sequence) and not isinstance(edit.to, str)
        to = _checked(edit.to if is_path else [*path[:-1], edit.to])
        if len(to) != len(path):
            fact = f"{told(path)} cannot go to {told(to)}, in a list of another level"
            raise _Wrong("invalid_position", fact)
        beyond = _above(root, to, name)
        why = None if beyond[-1] is above[-1] else rules.kept(len(path) - 1)
        if why is not None:
            raise _Wrong("invalid_position", f"{told(path)} {why}")
        resolved.goes_to, resolved.target = beyond[-1], to[-1]
        resolved.above = [*above, *beyond]
    return resolved


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
        raise _Wrong("no_list", f"{told(path[:-1])} of {name!r} has no list inside")
    return above


def _at(parent: Item, path: Sequence[int], level: int, name: str) -> Item:
    """Return the item of a list that a path names there."""
    if parent.items is None:
        raise _Wrong("no_list", f"{told(path[:level])} of {name!r} has no list inside")
    if path[level] > len(parent.items):
        length = f"{len(parent.items)} item{'' if len(parent.items) == 1 else 's'}"
        fact = f"{told(path[: level + 1])} of {name!r} is out of range: the list has {length}"
        raise _Wrong("out_of_range", fact)
    return parent.items[path[level] - 1]


def told(path: Sequence[int]) -> str:
    """Return what errors call a path: an empty one is that of what has the outermost list."""
    if not path:
        return "the value"
    return f"position {path[0]}" if len(path) == 1 else f"position {[*path]}"
