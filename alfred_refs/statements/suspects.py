"""Values of unknown origin: data is shown as it is, what may be a key by its ref or not at all.

What is known of the values of an expression comes in, and one of them; the same value or a ref
goes out. A value that may be a key and has not exactly one ref raises; no error repeats it. Pure.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.keys import Key, spells_uuid
from alfred_refs.mapping.shapes import Unknown

RefsMet = Callable[[Key], Collection[str]]
"""Returns the refs of all entities that a key is known to have."""

_INNER_UUID = re.compile(
    r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_BINARY_UUID = 16  # bytes


def show_suspect(unknown: Unknown, refs_met: RefsMet, value: Any) -> Any:
    """Return a value that is no key, or its ref if exactly one is known.

    Raises:
        UntranslatableError: it may be a key.
    """
    show = partial(show_suspect, unknown, refs_met)
    match value:
        case list():
            return [show(item) for item in value]
        case tuple():
            return tuple(show(item) for item in value)
        case dict():
            return {show(name): show(item) for name, item in value.items()}
        case uuid.UUID():
            return _known_ref(refs_met, value)
        case str() if "uuid" in unknown.key_types and spells_uuid(value):
            return _known_ref(refs_met, uuid.UUID(value))
        case _ if _may_be_key(unknown, value):
            raise _of_unknown_origin()
        case _:
            return value


def _known_ref(refs_met: RefsMet, key: uuid.UUID) -> Any:
    refs = refs_met(key)
    if len(refs) != 1:
        raise _of_unknown_origin()
    return next(iter(refs))


def _may_be_key(unknown: Unknown, value: Any) -> bool:
    match value:
        case str():
            return (
                "string" in unknown.key_types
                or ("integer" in unknown.key_types and value.strip().lstrip("+-").isdecimal())
                or (unknown.within and _INNER_UUID.search(value) is not None)
            )
        case bytes() | bytearray() | memoryview():
            text = bytes(value).decode("latin-1")
            is_uuid = len(text) == _BINARY_UUID or _INNER_UUID.search(text) is not None
            return unknown.within and is_uuid
        case None | bool() | float() | date() | time() | timedelta():
            return False
        case int():
            return "integer" in unknown.key_types
        case Decimal():  # a key cast to numeric has no decimal places, a price has
            return "integer" in unknown.key_types and value.as_tuple().exponent == 0
        case _:  # a range, a composite, whatever the driver makes
            pattern = _DIGIT if "integer" in unknown.key_types else _INNER_UUID
            return unknown.within and pattern.search(str(value)) is not None


def _of_unknown_origin() -> UntranslatableError:
    return UntranslatableError(
        "a statement without column information returns a value that may be a key",
        "give text() its columns by .columns(...), or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )
