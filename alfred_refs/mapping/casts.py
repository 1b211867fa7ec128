"""What a value shows that is given another type: keys may become text, and JSON stays JSON.

What a value shows and a SQL type come in; what it shows then goes out. What would cut a key, or
make of it what is no key any more, raises. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import ARRAY, CHAR, JSON, NCHAR, Enum, String

from alfred_refs.errors import UntranslatableError

from .key_column import KeyColumn, is_text_uuid, key_type_of
from .shapes import (
    Listed,
    Shown,
    Spelled,
    Unknown,
    as_json,
    columns_in,
    is_array,
    item_of,
    spelled,
)

ASK_RAW = (
    "select the key column itself, or use session.raw_keys() or "
    "execution_options(raw_keys=True) in trusted code"
)

# The longest text of a key of each type; a shorter text column would cut it.
_LONGEST = {"uuid": 36, "integer": 20}


def cast_to(shown: Shown, type_: Any) -> Shown:
    """Return what a value shows after a cast: keys may become text, JSON stays JSON."""
    match shown:
        case None | Unknown():
            return shown
        case KeyColumn() if not shown.array and key_type_of(type_) == shown.key_type != "string":
            return replace(shown, as_text=is_text_uuid(type_))
        case KeyColumn() | Spelled() if not is_array(shown):
            column = next(columns_in(shown))
            if _holds_text_of(column, type_) or (
                key_type_of(type_) == column.key_type != "string"
            ):
                return spelled(shown)
        case KeyColumn() | Listed() if isinstance(type_, ARRAY):
            cast_to(_scalar(item_of(shown)), type_.item_type)
            return as_json(shown)
        case _ if isinstance(type_, JSON) and not is_array(shown):
            return shown
    raise untranslatable(columns_in(shown))


def _scalar(shown: Shown) -> Shown:
    """Return an item of an array as a column of such items would hold it."""
    return replace(shown.column, array=False) if isinstance(shown, Spelled) else shown


def _holds_text_of(column: KeyColumn, type_: Any) -> bool:
    """Tell whether text of this type holds a whole key: a shorter one would cut it."""
    if not isinstance(type_, String) or isinstance(type_, CHAR | NCHAR | Enum):
        return False
    return type_.length is None or type_.length >= _LONGEST.get(column.key_type, type_.length + 1)


def retyped(shown: Shown, type_: Any) -> Shown:
    """Return what a key shows that a function gives a type of its own, or none."""
    if not isinstance(shown, KeyColumn) or shown.array:
        return shown
    same = key_type_of(type_) == shown.key_type and is_text_uuid(type_) == shown.as_text
    return shown if same else spelled(shown)


def untranslatable(columns: Iterable[KeyColumn]) -> UntranslatableError:
    """Return the error for a result that would show keys of these columns."""
    names = ", ".join(sorted({column.name for column in columns}))
    return UntranslatableError(f"a result shows keys of {names} inside an expression", ASK_RAW)
