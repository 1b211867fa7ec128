"""What a value in a statement stands for, and how keys take the place of the refs in it.

A slot says what the value meets: a key column, a column without keys that no text fits, or several
columns of a row. A value and its slot come in, the value with keys goes out; lists are taken
element by element, rows position by position. What has not the form that the slot needs raises.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import ClauseElement

from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.refs import parse_ref


@dataclass(frozen=True, slots=True)
class RawColumn:
    """A column of UUIDs or integers that are no keys, or are left raw: no ref is among them.

    Attributes:
        name: `table.column`, for messages.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Mixture:
    """What is made from keys of a column, or from the value itself: any text in it is refused.

    Attributes:
        column: what the keys are of.
    """

    column: KeyColumn


Slot = KeyColumn | RawColumn | Mixture | tuple["Slot | None", ...]
"""What a value meets; for a row, what each position meets: `None` for what may be any text."""

Swap = Callable[[str, KeyColumn], Any]
"""Gives the value that a column takes in place of a ref."""


def takes_keys(slot: Slot) -> bool:
    """Tell whether keys take the place of what stands in a slot."""
    return isinstance(slot, KeyColumn | tuple)


def has_text(value: Any) -> bool:
    """Tell whether a value is text, or has text in it."""
    if isinstance(value, Mapping):
        return any(map(has_text, value.values()))
    return isinstance(value, str) or (_is_listed(value) and any(map(has_text, value)))


def swapped(value: Any, slot: Slot | None, swap: Swap) -> Any:
    """Return a value with what `swap` gives in place of every ref.

    Raises:
        UntranslatableError: the value has another form than the slot needs.
    """
    if value is None or slot is None:
        return value
    if type(value) is str and type(slot) is KeyColumn and not slot.array:
        return swap(value, slot)  # the common way, written out
    match slot:
        case KeyColumn(array=True):
            return _swapped_lists(value, slot, swap)
        case KeyColumn():
            return _swapped_ones(value, slot, swap)
        case RawColumn() | Mixture():
            _check(value, slot)
            return value
        case tuple():
            return [_swapped_row(row, slot, swap) for row in value]


def check_one(value: Any, slot: Slot | None) -> None:
    """Check what is compared with one key.

    A list of texts would be sent as one text, which is the key of no row: what is not it is all.

    Raises:
        UntranslatableError: it is a list.
    """
    if not isinstance(slot, KeyColumn) or slot.key_type != "string" or slot.array:
        return
    if _is_listed(value):
        raise _misfit(slot, "a list stands where one ref is needed")


def _swapped_lists(value: Any, column: KeyColumn, swap: Swap) -> Any:
    """Return a list of keys, or a list of such lists as IN takes it."""
    if isinstance(value, str):
        raise _misfit(column, "a text stands where a list of refs is needed")
    return _swapped_list(value, column, swap) if _is_listed(value) else value


def _swapped_ones(value: Any, column: KeyColumn, swap: Swap) -> Any:
    """Return a key, or a list of keys as IN takes it."""
    if not _is_listed(value):
        return _swapped_one(value, column, swap)
    if any(map(_is_listed, value)):
        raise _misfit(column, "a list stands where one ref is needed")
    return [_swapped_one(item, column, swap) for item in value]


def _swapped_list(value: Any, column: KeyColumn, swap: Swap) -> Any:
    return [
        _swapped_list(item, column, swap) if _is_listed(item) else _swapped_one(item, column, swap)
        for item in value
    ]


def _swapped_one(value: Any, column: KeyColumn, swap: Swap) -> Any:
    if isinstance(value, str):
        return swap(value, column)
    if isinstance(value, bytes | bytearray | memoryview | Enum | Mapping):
        raise _misfit(column, f"a value of type {type(value).__name__} stands for a key")
    return value


def _swapped_row(row: Any, slots: tuple[Slot | None, ...], swap: Swap) -> tuple[Any, ...]:
    if not _is_listed(row) or len(row) != len(slots):
        raise UntranslatableError(
            f"a row of {len(slots)} columns is compared with something else",
            "give a list of tuples with one value for each column",
        )
    return tuple(swapped(value, slot, swap) for value, slot in zip(row, slots, strict=True))


def _is_listed(value: Any) -> bool:
    """Tell whether a value consists of others.

    Raises:
        UntranslatableError: it can be gone through once only.
    """
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | ClauseElement):
        return False
    if isinstance(value, Iterable) and not isinstance(value, Collection):
        raise UntranslatableError(
            f"values are given as a {type(value).__name__}, which can be read only once",
            "give a list",
        )
    return isinstance(value, Collection)


def _check(value: Any, slot: RawColumn | Mixture) -> None:
    if isinstance(slot, RawColumn):
        _check_raw(value, slot)
    elif has_text(value):
        raise mixed_with(slot.column)


def _check_raw(value: Any, column: RawColumn) -> None:
    if _is_listed(value):
        for item in value:
            _check_raw(item, column)
    elif isinstance(value, str) and parse_ref(value) is not None:
        raise UntranslatableError(
            f"{value!r} meets column {column.name}, whose values are not shown as refs",
            'give a value as the column has it, or declare what it holds by info={"ref": ...}',
        )


def _misfit(column: KeyColumn, fact: str) -> UntranslatableError:
    return UntranslatableError(
        f"{fact} in key column {column.name}",
        "give one ref for one key, and a list of refs to in_() or to a column of lists",
    )


def mixed_with(column: KeyColumn) -> UntranslatableError:
    """Return the error for text that meets a key column other than by comparison."""
    return UntranslatableError(
        f"a text is combined with key column {column.name} other than by comparison",
        "compare the column itself with refs, by ==, != or in_(), or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )
