"""Replace keys by refs in text or JSON that is about to reach a model.

`scrub_value` works in three steps, for a value of any depth:

1. It converts the value to JSON values (dataclasses, pydantic models, enums, dates stay), and
   collects the keys in all its texts, names of fields included.
2. It gets the refs of all these keys in one call; without keys there is no call.
3. It replaces each key by its ref. A key without a ref becomes `<key>`, or raises `KeyShownError`.

>>> key = uuid.uuid4()
>>> scrub_value({"note": f"see {key}"}, lambda keys: dict.fromkeys(keys, "recipe_1"), [])
{'note': 'see recipe_1'}
>>> scrub_value([f"see {key}"], lambda keys: {}, [])
['see <key>']

Which texts count as keys:

- UUIDs, in any spelling, also split or truncated (`mapping.text.search_keys`);
- the given `text_keys`, as whole words.

Limits:

- An integer key looks like any other number and is left alone.
- Text that looks like a ref stays, even if a text key has the same letters.
- Values that have no JSON form raise `ContextError`: it is not known how a prompt would show them.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import asdict, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

from alfred_refs.errors import ContextError, KeyShownError
from alfred_refs.mapping.keys import Key, parse_ref
from alfred_refs.mapping.text import (
    WordReplacer,
    escape_surrogates,
    replace_keys,
    search_keys,
    words_in,
)

Unknown = Literal["mask", "refuse"]
"""What to do with a key that has no ref: write `<key>` in its place, or raise."""

MAX_DEPTH = 200
"""Levels of objects and lists: Python's own JSON gives up at some hundreds more."""

_JOINER = "-"  # part of a word, as letters and digits are: `SKU-10` does not contain `SKU-1`

_Path = tuple[Any, ...]
_NAME = "(a name)"  # in a path, in place of the name of a field

_PLAIN = frozenset({str, dict, list, int, float, bool, type(None)})  # the types of JSON

# Values that stay as they are: no key can be written in them.
_SCALARS = (bool, int, float, Decimal, dt.date, dt.time, dt.timedelta)


def scrub_value(
    value: Any,
    refs_of: Callable[[list[Key]], Mapping[Key, str]],
    text_keys: Sequence[str],
    unknown: Unknown = "mask",
) -> Any:
    """Return a value as JSON values, with refs in place of keys.

    Args:
        value: text, JSON values, numbers, dates, tuples, sets, dataclasses, models of pydantic.
        refs_of: returns the refs of those keys that have one.
        text_keys: keys that are text, which cannot be recognised by their form.
        unknown: what to do with keys that have no ref.

    Raises:
        KeyShownError: a key has no ref, and `unknown` is `"refuse"`.
        ContextError: a part of the value has no JSON form, or it is nested too deep.
    """
    texts: list[tuple[_Path, str]] = []

    def collect(text: str, path: _Path) -> str:
        texts.append((path, text))
        return text

    plain = _map_texts(value, collect)
    found = [(path, key) for path, text in texts for key in search_keys(text)]
    keys = dict.fromkeys(each.key for _, each in found if each.key is not None)
    words = []
    if text_keys:
        joined = "\0".join(text for _, text in texts)
        # text that looks like a ref is one, even if a key has the same letters
        words = [w for w in words_in(joined, text_keys, _JOINER) if parse_ref(w) is None]
    if not found and not words:
        return plain
    refs = refs_of([*keys, *words])
    if unknown == "refuse":
        for path, each in found:
            if not (each.key in refs or each.is_number):
                raise KeyShownError(_shown_path(path), each.kind, each.masked)
    uuids = [key for key in refs if isinstance(key, uuid.UUID)]
    replacer = WordReplacer({word: refs[word] for word in words if word in refs}, _JOINER)

    def clean(text: str, _: _Path) -> str:
        return replacer.replace(replace_keys(text, refs.get, uuids))

    return _map_texts(plain, clean)


def mask_keys(value: Any) -> Any:
    """Return a value as JSON values, with `<key>` in place of all keys, split and cut ones too.

    For values in which refs are in place already: nothing is looked up.

    Example:
        >>> mask_keys({"note": "the one with ..c69607bb"})
        {'note': 'the one with <key>'}
    """
    return scrub_value(value, lambda _: {}, ())


def _map_texts(value: Any, change: Callable[[str, _Path], str], path: _Path = ()) -> Any:
    """Return a value as JSON values, each text in it changed, names of fields too.

    Args:
        value: any value.
        change: called with each text, and the path to it.
        path: the path to the value.

    Raises:
        ContextError: a part of the value has no JSON form, or it is nested too deep.
    """
    if len(path) > MAX_DEPTH:
        raise ContextError(
            f"a value is nested more than {MAX_DEPTH} levels deep", "give what a model can read"
        )
    value = _json(value)
    if isinstance(value, str):
        return change(value, path)
    if isinstance(value, list):
        return [_map_texts(each, change, (*path, n)) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    changed: dict[Any, Any] = {}
    numbers: dict[Any, int] = {}
    for name, each in value.items():
        new_name = _map_texts(name, change, (*path, _NAME))
        if isinstance(new_name, dict | list):
            raise _no_json_error(name)
        changed[_free_name(new_name, changed, numbers)] = _map_texts(each, change, (*path, name))
    return changed


def _json(value: Any) -> Any:
    """Return a value as text, a list, a dictionary, or one of `_SCALARS`."""
    if value.__class__ in _PLAIN:  # nearly all are
        return escape_surrogates(value) if value.__class__ is str else value
    if isinstance(value, Enum):
        value = value.value
    elif is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    match value:
        case str() | uuid.UUID() as text:
            return escape_surrogates(str(text))
        case Mapping() as names:
            return dict(names)
        case bytes() | bytearray() | memoryview():
            raise _no_json_error(value)
        case Sequence() | AbstractSet() as several:
            return [*several]
        case scalar if scalar is None or isinstance(scalar, _SCALARS):
            return scalar
        case _:
            raise _no_json_error(value)


def _no_json_error(value: Any) -> ContextError:
    return ContextError(
        f"a value of type {type(value).__name__} cannot be written as JSON",
        "give text, JSON values, dataclasses or models of pydantic",
    )


def _free_name(name: Any, names: Mapping[Any, Any], numbers: dict[Any, int]) -> Any:
    """Return a name of a field that is not in use: two keys may have the same mask.

    Args:
        name: the name.
        names: the names in use.
        numbers: the last number that was tried for each name.
    """
    free = name
    while free in names:
        numbers[name] = numbers.get(name, 1) + 1
        free = f"{name} ({numbers[name]})"
    return free


def _shown_path(path: _Path) -> str:
    """Return a path as one writes it in Python, without names that contain a key."""
    if not path:
        return "the text"
    steps = (
        f"[{step}]" if isinstance(step, int) else f".{_NAME if search_keys(str(step)) else step}"
        for step in path
    )
    return "".join(steps).lstrip(".")
