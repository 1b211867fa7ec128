"""Lists in documents: arrays, and lists in JSON at any depth.

A value of a column comes in, with the names that lead to its lists; items go out, and once they
are edited the value is made anew of them. What came in is not touched. Pure.

    week = {"days": [{"name": "Monday", "meals": ["soup"]}, {"name": "Tuesday"}]}
    root = read(week, ["days", "meals"])
    root.items[0].items[0].value.value     # 'soup'
    written(root, {})                      # {'days': [{...}, {...}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .resolving import Item


@dataclass(frozen=True, slots=True)
class Document:
    """A value in a document that may have a list inside.

    Attributes:
        value: as it was read.
        place: the names that lead from it to the list: none where it is the list itself.
    """

    value: Any
    place: Sequence[str] = ()


def read(value: Any, names: Sequence[str], within: int = 0) -> Item:
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
    return Item(Document(value, place), [read(each, names, within) for each in found])


def written(item: Item, modified: Mapping[Item, Any]) -> Any:
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
    inside = [written(each, modified) for each in item.items]
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
