"""Lists under the positions of their items, for a model that names items by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def numbered(value: Any, names: Sequence[str]) -> Any:
    """Return a document with its lists as objects, whose names are the positions of the items.

    `{"days": ["a", "b"]}` is `{"days": {"1": "a", "2": "b"}}` for the names `["days"]`: models
    count what stands in a list badly. A list right inside of another stays one: written back, an
    object would be stored.
    """
    if isinstance(value, list):
        return {
            str(n): each if isinstance(each, list) else numbered(each, names)
            for n, each in enumerate(value, start=1)
        }
    if names and isinstance(value, dict) and names[0] in value:
        return {**value, names[0]: numbered(value[names[0]], names[1:])}
    return value
