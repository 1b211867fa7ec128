"""What can be done with the items of a list, by position.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
