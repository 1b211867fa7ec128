"""The list of refs that an array attribute shows: to be read, or replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn


class RefList(list[Any]):
    """A list that cannot be changed in place.

    The array underneath has keys: a ref put into this list would reach neither it nor the
    database. Assign a new list to the attribute: `pantry.staples = [*pantry.staples, ref]`.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "a list of refs cannot be changed in place; assign a new list to the attribute"
        )

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __imul__ = _refuse

    def __iadd__(self, other: Iterable[Any]) -> list[Any]:  # type: ignore[override, misc]
        """Return a new list, which `pantry.staples += [ref]` then assigns."""
        return [*self, *other]

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (list(self),)
