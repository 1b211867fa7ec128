"""What models get wrong in the letters of a payload, put right before anybody looks at it.

JSON comes in and goes out: NUL characters are taken out of the values of new and changed rows,
because no text of PostgreSQL can have them, and it is noted where. Anywhere else one would change
what is meant: that is refused, as is what cannot be put right, half a surrogate pair or values
nested without end, and what has two meanings, an object with one name twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from alfred_refs.tools.errors import ToolError, invalid_arguments

DEEPEST = 50
"""Levels of lists and objects: more is no question that anybody asks."""

LONGEST_INTEGER = 1_024
"""Bits: as far as floating-point numbers go, in whose place JSON has integers."""

_MOST_DIGITS = 400  # of an integer in text: more than that many bits

LONGEST = 1_000_000
"""Characters of all texts and names of a call: as much as a model writes in an hour."""

MOST_VALUES = 50_000
"""Values of a call at all depths: each is looked at by all that is done with it."""

Path = tuple[str | int, ...]
"""Names and places that lead to a value in arguments."""

_NUL = "\x00"
_LONGEST_TEXT = 10 * LONGEST  # JSON may have six letters for one
_LESS = "do it in several calls"
_SHOWN = 100  # characters of a name that is told
_DATA = "data"  # the field that has what is to be stored
_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)  # in JSON, to its end or to that of all


def parsed(arguments: Any) -> Any:
    """Return arguments as JSON values, also where a model's client gives them as text.

    Raises:
        ToolError: the text is no JSON, is too long or has too many values, or an
            object in it has a name twice.
    """
    if not isinstance(arguments, str | bytes | bytearray):
        return arguments
    if len(arguments) > _LONGEST_TEXT:
        raise over_budget("characters", _LONGEST_TEXT, _LESS)
    try:
        text = arguments if isinstance(arguments, str) else arguments.decode()
        _check_count(text)
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise invalid_arguments("they are not valid JSON") from None


def _check_count(text: str) -> None:
    """Check that text has not too many values of JSON, before there is an object for each."""
    marks = _STRING.sub("", text)
    if max(marks.count(",") + 1, marks.count("[") + marks.count("{")) > MOST_VALUES:
        raise over_budget("values", MOST_VALUES, _LESS)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON that has each name once: of two values one would be dropped."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        field = name if name.isprintable() and len(name) <= _SHOWN else None
        raise invalid_arguments("an object has a name twice", field, "give it once")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise _too_great()
    return int(digits)


def repaired(arguments: Any) -> Any:
    """Return arguments as JSON, without NUL characters.

    Raises:
        ToolError: they have text that is not Unicode, or a NUL character where it is
            no data; are nested too deep, too long or too many; or are no JSON.
    """
    return Repair().value(arguments)


class Repair:
    """Puts the arguments of one call right.

    Attributes:
        removed: how many NUL characters were taken out, by the path of the text; for the names of
            an object by the path of that.
    """

    def __init__(self) -> None:
        self.removed = Counter[Path]()
        self._values = 0
        self._characters = 0

    def value(self, value: Any, path: Path = ()) -> Any:
        """Return a JSON value without NUL characters.

        Raises:
            ToolError: as `repaired` does.
        """
        self._values += 1
        if self._values > MOST_VALUES:
            raise over_budget("values", MOST_VALUES, _LESS)
        if len(path) > DEEPEST:
            raise _too_deep()
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, dict):
            return self._object(value, path)
        if isinstance(value, list | tuple):
            return [self.value(each, (*path, n)) for n, each in enumerate(value)]
        if value is None or isinstance(value, bool | int | float):
            if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
                raise _too_great()
            return value
        raise invalid_arguments(f"a value of type {type(value).__name__} is no JSON")

    def _object(self, value: dict[Any, Any], path: Path) -> dict[str, Any]:
        names = {name: self._text(name, path) for name in value}
        if len(set(names.values())) < len(names):
            raise invalid_arguments(
                "it has two names that are the same without NUL characters", field_at(path)
            )
        return {
            names[name]: self.value(each, (*path, names[name])) for name, each in value.items()
        }

    def _text(self, text: Any, path: Path) -> str:
        if not isinstance(text, str):
            raise invalid_arguments("a name of a field is no text")
        self._characters += len(text)
        if self._characters > LONGEST:
            raise over_budget("characters", LONGEST, _LESS)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise invalid_arguments("a text has half of a surrogate pair") from None
        if _NUL not in text:
            return text
        if path[:1] != (_DATA,) and path[:1] + path[2:3] != ("also", _DATA):
            raise misplaced_nul(path)
        self.removed[path] += text.count(_NUL)
        return text.replace(_NUL, "")


def field_at(path: Path) -> str | None:
    """Return what errors call the place of a value."""
    return ".".join(map(str, path)) or None


def misplaced_nul(path: Path) -> ToolError:
    """Refuse a NUL character: without it something else may be meant."""
    return invalid_arguments("it has a NUL character; write it without", field_at(path))


def over_budget(what: str, most: int, remedy: str) -> ToolError:
    """Refuse a call for what it has too much of."""
    return invalid_arguments(f"they have more than {most:,} {what}", remedy=remedy)


def _too_deep() -> ToolError:
    return invalid_arguments(f"values are nested more than {DEEPEST} levels deep")


def _too_great() -> ToolError:
    return invalid_arguments(f"a number has more than {LONGEST_INTEGER} bits")
