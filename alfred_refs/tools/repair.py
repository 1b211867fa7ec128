"""What models get wrong in the letters of a payload, put right before anybody looks at it.

JSON comes in and goes out: NUL characters are taken out of texts and names, because no text of
PostgreSQL can have them. What cannot be put right, half a surrogate pair or values nested without
end, is refused.
"""

from __future__ import annotations

import json
from typing import Any

from .errors import InvalidArgumentsError

DEEPEST = 50
"""Levels of lists and objects: more is no question that anybody asks."""

LONGEST_INTEGER = 1_024
"""Bits: as far as floating-point numbers go, in whose place JSON has integers."""


def parsed(arguments: Any) -> Any:
    """Return arguments as JSON values, also where a model's client gives them as text.

    Raises:
        InvalidArgumentsError: the text is no JSON.
    """
    if not isinstance(arguments, str | bytes | bytearray):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        raise InvalidArgumentsError("they are not valid JSON") from None


def repaired(value: Any, depth: int = 0) -> Any:
    """Return a JSON value without NUL characters.

    Raises:
        InvalidArgumentsError: it has text that is not Unicode, is nested too deep, or is no JSON.
    """
    if depth > DEEPEST:
        raise InvalidArgumentsError(f"values are nested more than {DEEPEST} levels deep")
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(name): repaired(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [repaired(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return _number(value)
    raise InvalidArgumentsError(f"a value of type {type(value).__name__} is no JSON")


def _number(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        raise InvalidArgumentsError(f"a number has more than {LONGEST_INTEGER} bits")
    return value


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise InvalidArgumentsError("a name of a field is no text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentsError("a text has half of a surrogate pair") from None
    return text.replace("\x00", "")
