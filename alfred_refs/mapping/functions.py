"""SQL functions that hand keys on: what the value of each is, given its arguments.

    coalesce(recipes.parent_id, recipes.id) one of the two keys
    array_agg(recipes.id)                   a list of keys
    json_build_object("id", recipes.id)     an object with a key in it
    array_length(recipes.ids, 1)            no key: it measures

A function is taught here, by its name in the database: what `PASS_THROUGH` and `ARRAY_ARGUMENTS`
say also decides which arguments a ref is resolved for, as those of one call are of one entity. For
a function that is not known the answer is `NotImplemented`: its value has no keys only if its
arguments have none. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .key_column import KeyColumn
from .shapes import (
    JsonObject,
    JsonPairs,
    KeyShape,
    Listed,
    Series,
    SpelledKey,
    Unknown,
    as_json,
    is_container,
    item_of,
    listed,
)

# Functions whose result is one of these arguments, unchanged; the others only choose.
_EVERY, _FIRST, _FIRST_AND_DEFAULT = slice(None), slice(1), slice(0, None, 2)
PASS_THROUGH = {
    **dict.fromkeys(("max", "min", "any_value", "coalesce", "greatest", "least"), _EVERY),
    **dict.fromkeys(("first_value", "last_value", "nth_value", "nullif"), _FIRST),
    **dict.fromkeys(("lag", "lead"), _FIRST_AND_DEFAULT),
}

# Functions that return an array of the same keys, from which of their arguments.
ARRAYS = {
    **dict.fromkeys(("array_remove", "trim_array", "array_reverse", "array_sort"), _FIRST),
    **dict.fromkeys(("array_append", "array_prepend", "array_cat"), _EVERY),
    **dict.fromkeys(("array_shuffle", "array_sample"), _FIRST),
    "array_replace": slice(0, None, 2),
}

# Functions of arrays: how many lists deeper each argument is than the elements; `None` has nothing
# to do with them.
ARRAY_ARGUMENTS: Mapping[str, tuple[int | None, ...]] = {
    **dict.fromkeys(ARRAYS, (1, None, None)),
    "array_append": (1, 0),
    "array_prepend": (0, 1),
    "array_cat": (1, 1),
    "array_remove": (1, 0),
    "array_replace": (1, 0, 0),
    "array_position": (1, 0, None),
    "array_positions": (1, 0),
}

# Functions that make a record: every other argument is a name, the rest are values.
RECORDS = ("json_build_object", "jsonb_build_object")

# Functions that count or measure: their result tells no key.
_MEASURING = (
    *("cardinality", "array_length", "array_ndims", "array_lower", "array_upper"),
    *("array_position", "array_positions", "json_array_length", "jsonb_array_length"),
    *("json_typeof", "jsonb_typeof", "pg_typeof"),
)


def is_taught(name: str) -> bool:
    """Tell whether `shape_by` knows a function: the shapes of arguments need not be made else."""
    return name in _MAKERS


def shape_by(name: str, arguments: Sequence[KeyShape]) -> Any:
    """Return what a function's value shows, or `NotImplemented`."""
    maker = _MAKERS.get(name)
    return NotImplemented if maker is None or not arguments else maker(arguments)


def _array(arguments: Sequence[KeyShape]) -> Any:
    return NotImplemented if any(arguments[1:]) else listed(arguments[0])


def _items(arguments: Sequence[KeyShape]) -> Any:
    shape = arguments[0]
    if len(arguments) > 1 or not (isinstance(shape, Listed | KeyColumn) or shape is None):
        return NotImplemented
    return item_of(shape)


def _json_items(arguments: Sequence[KeyShape]) -> Any:
    item = _items(arguments)
    return NotImplemented if _may_be_quoted(item) else item


def _json_list(arguments: Sequence[KeyShape]) -> Any:
    if any(arguments[1:]):
        return NotImplemented
    item = as_json(arguments[0])
    return item if item is None or isinstance(item, Unknown) else Listed(item)


def _json_series(arguments: Sequence[KeyShape]) -> KeyShape:
    items = tuple(map(as_json, arguments))
    return Series(items) if any(items) else None


def _json_pairs(arguments: Sequence[KeyShape]) -> Any:
    if len(arguments) != 2 or is_container(arguments[0]):  # noqa: PLR2004  # a name and a value
        return NotImplemented
    name, value = map(as_json, arguments)
    return JsonPairs(name, value) if name or value else None


def _json_value(arguments: Sequence[KeyShape]) -> Any:
    shape = as_json(arguments[0])
    return NotImplemented if any(arguments[1:]) or _may_be_quoted(shape) else shape


def _may_be_quoted(shape: Any) -> bool:
    """Tell whether a text stands alone as a JSON document: some drivers leave it in quotes."""
    return isinstance(shape, SpelledKey) and shape.column.key_type == "string"


def _same_json(arguments: Sequence[KeyShape]) -> Any:
    shape = arguments[0]
    is_json = shape is None or isinstance(
        shape, JsonObject | Series | Listed | JsonPairs | SpelledKey
    )
    return shape if is_json else NotImplemented


def _nothing(_: Sequence[KeyShape]) -> KeyShape:
    return None


_MAKERS: dict[str, Callable[[Sequence[KeyShape]], Any]] = {
    "array_agg": _array,
    "unnest": _items,
    **dict.fromkeys(("json_array_elements", "jsonb_array_elements"), _json_items),
    **dict.fromkeys(("json_agg", "jsonb_agg", "json_agg_strict", "jsonb_agg_strict"), _json_list),
    **dict.fromkeys(("json_build_array", "jsonb_build_array"), _json_series),
    **{
        f"{kind}_object_agg{variant}": _json_pairs
        for kind in ("json", "jsonb")
        for variant in ("", "_strict", "_unique", "_unique_strict")
    },
    **dict.fromkeys(("to_json", "to_jsonb", "row_to_json", "array_to_json"), _json_value),
    **dict.fromkeys(("json_strip_nulls", "jsonb_strip_nulls"), _same_json),
    **dict.fromkeys(_MEASURING, _nothing),
}

JSON_MAKERS = frozenset(
    name for name in _MAKERS if name.startswith(("json", "to_json", "row_to", "array_to"))
).union(RECORDS)
"""Functions that take a whole row as a record."""
