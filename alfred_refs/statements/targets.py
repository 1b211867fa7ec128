"""What a value in a statement is compared with or stored in, and how refs in it become keys.

    a key column                 "recipe_1"                   ->  UUID("a508…")
                                 ["recipe_1", "recipe_2"]     ->  both, as IN takes them
    columns of a row             [("recipe_1", "soup")]       ->  [(UUID("a508…"), "soup")]
    a column without keys        "recipe_1"                   ->  raises: no ref fits
    a mixture with a key         any text                     ->  raises

A value and its target come in, the value with keys goes out. Pure.
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


InputTarget = KeyColumn | RawColumn | Mixture | tuple["InputTarget | None", ...]
"""What a value meets; for a row, what each position meets: `None` for what may be any text."""

Swap = Callable[[str, KeyColumn], Any]
"""Gives the value that a column takes in place of a ref."""


def takes_keys(target: InputTarget) -> bool:
    """Tell whether keys take the place of what is compared with a target."""
    return isinstance(target, KeyColumn | tuple)


def has_text(value: Any) -> bool:
    """Tell whether a value is text, or has text in it."""
    if isinstance(value, Mapping):
        return any(map(has_text, value.values()))
    return isinstance(value, str) or (_is_listed(value) and any(map(has_text, value)))


def swapped(value: Any, target: InputTarget | None, swap: Swap) -> Any:
    """Return a value with what `swap` gives in place of every ref.

    Raises:
        UntranslatableError: the value has another form than the target needs.
    """
    if value is None or target is None:
        return value
    if type(value) is str and type(target) is KeyColumn and not target.array:
        return swap(value, target)  # the common way, written out
    match target:
        case KeyColumn(array=True):
            return _swapped_lists(value, target, swap)
        case KeyColumn():
            return _swapped_ones(value, target, swap)
        case RawColumn() | Mixture():
            _check(value, target)
            return value
        case tuple():
            return [_swapped_row(row, target, swap) for row in value]


def check_one(value: Any, target: InputTarget | None) -> None:
    """Check what is compared with one key.

    A list of texts would be sent as one text, which is the key of no row: what is not it is all.

    Raises:
        UntranslatableError: it is a list.
    """
    if not isinstance(target, KeyColumn) or target.key_type != "string" or target.array:
        return
    if _is_listed(value):
        raise _misfit(target, "a list stands where one ref is needed")


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
    text = column.text_of(value)
    if text is not None and not isinstance(value, Mapping):
        return swap(text, column)
    if isinstance(value, bytes | bytearray | memoryview | Enum | Mapping):
        raise _misfit(column, f"a value of type {type(value).__name__} stands for a key")
    return value


def _swapped_row(row: Any, targets: tuple[InputTarget | None, ...], swap: Swap) -> tuple[Any, ...]:
    if not _is_listed(row) or len(row) != len(targets):
        raise UntranslatableError(
            f"a row of {len(targets)} columns is compared with something else",
            "give a list of tuples with one value for each column",
        )
    return tuple(swapped(value, target, swap) for value, target in zip(row, targets, strict=True))


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


def _check(value: Any, target: RawColumn | Mixture) -> None:
    if isinstance(target, RawColumn):
        _check_raw(value, target)
    elif has_text(value):
        raise mixed_with(target.column)


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
