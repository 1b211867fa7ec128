"""What stands in one attribute of a key column: a key, a list of keys, text, or an expression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .key_column import KeyColumn
from .keys import EntityKey, Key


def items_of(value: Any) -> Iterator[Any]:
    """Yield the elements of an array, which may have several dimensions."""
    for item in value:
        if isinstance(item, list | tuple):
            yield from items_of(item)
        else:
            yield item


def _listed(column: KeyColumn, value: Any) -> Iterable[Any]:
    if not column.array:
        return (value,)
    return items_of(value) if isinstance(value, list | tuple | set) else ()


def texts_in(column: KeyColumn, value: Any) -> list[str]:
    """Return the texts in a value: refs, where the program has set it."""
    return [item for item in _listed(column, value) if isinstance(item, str)]


def keys_in(column: KeyColumn, value: Any) -> list[EntityKey]:
    """Return the keys in a value: none in NULL, or in an expression that the flush will send."""
    items = filter(column.holds, _listed(column, value))
    return [(column.space, column.to_key(item)) for item in items]


def with_keys(column: KeyColumn, value: Any, keys: Mapping[tuple[str, str | None], Key]) -> Any:
    """Return a value with keys, as the column has them, in place of its texts.

    Args:
        column: what holds the value.
        value: anything that a key attribute may be set to.
        keys: what the texts resolve to, by text and the column's `space`.
    """
    if not texts_in(column, value):
        return value

    def swapped(item: Any) -> Any:
        if isinstance(item, list | tuple | set):
            return [swapped(inner) for inner in item]
        return column.from_key(keys[item, column.space]) if isinstance(item, str) else item

    return swapped(value)
