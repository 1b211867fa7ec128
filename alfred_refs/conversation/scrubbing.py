"""Put refs in the place of keys in a value that is about to reach a model.

Text or JSON comes in, of any depth; the same goes out without keys. What the registry knows of a
key decides, and it is asked once for the whole value, or not at all where there is no key in it.
What is no JSON, and does not become JSON in one known way, is refused: nobody could tell what a
prompt would show of it.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import asdict, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

from alfred_refs.errors import ContextError, KeyShownError
from alfred_refs.mapping.key_search import found_in, replaced
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.refs import parse_ref

Unknown = Literal["mask", "refuse"]
"""What becomes of a key that has no ref: `<key>` takes its place, or the value is refused."""

DEEPEST = 200
"""Levels of objects and lists: Python's own JSON gives up at some hundreds more."""

_Path = tuple[Any, ...]
_NAME = "(a name)"

# what stays as it is: no text, and none that a key could be written in
_SCALARS = (bool, int, float, Decimal, dt.date, dt.time, dt.timedelta)


def scrubbed(
    value: Any,
    refs_of: Callable[[list[Key]], Mapping[Key, str]],
    words: Sequence[str],
    unknown: Unknown = "mask",
) -> Any:
    """Return a value without keys.

    Args:
        value: text, JSON values, numbers, dates, tuples, sets, dataclasses, models of pydantic.
        refs_of: returns the refs of keys that have one.
        words: keys that are texts themselves, which nothing else tells from words.
        unknown: what becomes of other keys.

    Raises:
        KeyShownError: there is a key without ref, and it is to be refused.
        ContextError: there is something in it that is no JSON, or it is nested too deep.
    """
    texts: list[tuple[_Path, str]] = []

    def gathered(text: str, path: _Path) -> str:
        texts.append((path, text))
        return text

    plain = _rewritten(value, gathered)
    found = [(path, key) for path, text in texts for key in found_in(text)]
    keys = dict.fromkeys(each.key for _, each in found if each.key is not None)
    joined = "\0".join(text for _, text in texts)
    # text that looks like a ref is one, be there a key of the same letters
    there = [word for word in words if word in joined and parse_ref(word) is None]
    if not found and not there:
        return plain
    refs = refs_of([*keys, *there])
    if unknown == "refuse":
        for path, each in found:
            if each.key is None or each.key not in refs:
                raise KeyShownError(_way(path), each.kind, each.masked)
    known = [key for key in refs if isinstance(key, uuid.UUID)]
    longest_first = sorted((word for word in there if word in refs), key=len, reverse=True)
    choices = "|".join(map(re.escape, longest_first))
    pattern = re.compile(rf"(?<![\w-])(?:{choices})(?![\w-])") if choices else None

    def clean(text: str, _: _Path) -> str:
        text = replaced(text, refs.get, known)
        return text if pattern is None else pattern.sub(lambda match: refs[match[0]], text)

    return _rewritten(plain, clean)


def _rewritten(value: Any, change: Callable[[str, _Path], str], path: _Path = ()) -> Any:
    """Return a value as JSON values, each text in it changed, names of fields too.

    Args:
        value: any.
        change: is given each text, with the way to it.
        path: the way to the value.

    Raises:
        ContextError: there is something in it that is no JSON, or it is nested too deep.
    """
    if len(path) > DEEPEST:
        raise ContextError(
            f"a value is nested more than {DEEPEST} levels deep", "give what a model can read"
        )
    value = _json(value)
    if isinstance(value, str):
        return change(value, path)
    if isinstance(value, list):
        return [_rewritten(each, change, (*path, n)) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    made: dict[Any, Any] = {}
    for name, each in value.items():
        shown = _rewritten(name, change, (*path, _NAME))
        if isinstance(shown, dict | list):
            raise _no_json(name)
        made[_free(shown, made)] = _rewritten(each, change, (*path, name))
    return made


def _json(value: Any) -> Any:
    """Return a value as text, a list, a dictionary, or what is none of them and no key."""
    match _opened(value):
        case str() | uuid.UUID() as text:
            return str(text)
        case Mapping() as names:
            return dict(names)
        case bytes() | bytearray() | memoryview():
            raise _no_json(value)
        case Sequence() | AbstractSet() as several:
            return [*several]
        case scalar if scalar is None or isinstance(scalar, _SCALARS):
            return scalar
        case _:
            raise _no_json(value)


def _opened(value: Any) -> Any:
    """Return what a dataclass, a model of pydantic or a member of an enumeration holds."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _no_json(value: Any) -> ContextError:
    return ContextError(
        f"a value of type {type(value).__name__} is no JSON",
        "give text, JSON values, dataclasses or models of pydantic",
    )


def _free(name: Any, taken: Mapping[Any, Any]) -> Any:
    """Return a name of a field that is not taken: two keys may be masked alike."""
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name} ({number})"
    return free


def _way(path: _Path) -> str:
    """Return the way to a value, as one writes it; a name that is a key is not repeated."""
    if not path:
        return "the text"
    steps = (
        f"[{step}]" if isinstance(step, int) else f".{_NAME if found_in(str(step)) else step}"
        for step in path
    )
    return "".join(steps).lstrip(".")
