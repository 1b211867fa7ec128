"""What is wrong with edits of a list by position: told by position, for a model to correct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .root import RefError
from .setup import SetupError

Code = Literal[
    "invalid_position",
    "out_of_range",
    "no_list",
    "unknown_item",
    "edited_twice",
    "under_removed",
    "unexpected_item",
    "invalid_edit",
]
"""What kind of conflict it is."""

_MOST_TOLD = 20  # conflicts of one error: a model corrects no more at once


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something in a batch of edits that cannot be done.

    Attributes:
        code: of which kind.
        edits: the numbers of the edits that it is about, from 1.
        fact: what is wrong, by position.
    """

    code: Code
    edits: tuple[int, ...]
    fact: str

    def __str__(self) -> str:
        numbers = " and ".join(map(str, self.edits))
        return f"edit{'s' if len(self.edits) > 1 else ''} {numbers}: {self.fact}"


class PositionError(RefError):
    """Edits of a list by position cannot be done together, and none was.

    Attributes:
        conflicts: all that is wrong with them.

    Example:
        >>> from alfred_refs.positions import EditableList, Remove
        >>> EditableList(Recipe, "lines").preview(session, "recipe_1", [Remove([7])])
        Traceback (most recent call last):
            ...
        alfred_refs.errors.positions.PositionError: edit 1: position 7 of 'lines' is out of
            range: the list has 2 items; nothing was changed, give all edits again
    """

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__(self.conflicts)

    def _wording(self) -> str:
        told = [str(each) for each in self.conflicts[:_MOST_TOLD]]
        more = len(self.conflicts) - len(told)
        told += [f"and {more} more conflicts"] if more else []
        return f"{'; '.join(told)}; nothing was changed, give all edits again"


class DriftError(RefError):
    """A list is not what it was when edits of it were previewed; nothing was changed.

    Attributes:
        name: of the list.
        now: its items, as they are.
        changed: the positions that are other than in the preview, if that was at hand.

    Example:
        >>> from alfred_refs.positions import EditableList, Remove
        >>> lines = EditableList(Recipe, "lines")
        >>> preview = lines.preview(session, "recipe_1", [Remove([1])])
        >>> session.get(Line, "line_2").text = "2 onions"
        >>> lines.apply(session, "recipe_1", [Remove([1])], expect=preview)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.positions.DriftError: the list 'lines' has changed since it was
            previewed at position 2; look at it as it is now, and preview the edits again
    """

    def __init__(self, name: str, now: Any, changed: Sequence[int] | None = None) -> None:
        self.name = name
        self.now = now
        self.changed = None if changed is None else tuple(changed)
        super().__init__(name, now, changed)

    def _wording(self) -> str:
        where = ""
        if self.changed:
            where = f" at position {', '.join(map(str, self.changed[:_MOST_TOLD]))}"
        return (
            f"the list {self.name!r} has changed since it was previewed{where}; "
            "look at it as it is now, and preview the edits again"
        )


class ListError(SetupError):
    """A name is none of a list that can be edited, or its data do not say how it is ordered.

    Example:
        >>> from alfred_refs.positions import EditableList
        >>> EditableList(Recipe, "steps")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.positions.ListError: 'Recipe' has no list 'steps'; its lists:
            'lines'
    """
