"""What a value in a result shows of keys: a key, or a list or record that keys stand in.

These are the answers of `exposure` and the instructions of `rewriting`: frozen values without
behaviour. `None` stands for plain data, which is shown as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .key_column import KeyColumn
from .policy import KeyType


@dataclass(frozen=True, slots=True)
class Spelled:
    """A key that may be spelled otherwise than its column has it: as text, or as JSON has it.

    Attributes:
        column: where the key comes from; of an array it is one of the items.
    """

    column: KeyColumn


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of unknown origin: it may be a key of any entity.

    Attributes:
        key_types: the types of key that it may be.
        within: whether a key may also stand inside a text.
    """

    key_types: tuple[KeyType, ...]
    within: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of values of one kind; where they are keys, of any number of dimensions."""

    item: Shown


@dataclass(frozen=True, slots=True)
class Series:
    """A list in which each position has a kind of its own."""

    items: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """The name of a field that is a parameter of the statement, by its place in the shape."""

    place: int


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON object whose fields have names.

    Attributes:
        fields: what each shows.
        rest: what fields of other names show.
    """

    fields: tuple[tuple[str | Named, Shown], ...]
    rest: Shown = None


@dataclass(frozen=True, slots=True)
class Pairs:
    """A JSON object made from pairs: all its names are of one kind, and all its values."""

    name: Shown
    value: Shown


Shown = KeyColumn | Spelled | Unknown | Listed | Series | Record | Pairs | None

UNKNOWN: Final = Unknown(("uuid", "integer", "string"), within=True)
"""The statement does not tell where a value comes from."""

UNTYPED: Final = Unknown(("uuid",))
"""A function of plain data whose type is not known: it may look something up, such as a UUID."""


def columns_in(shown: Shown) -> Iterator[KeyColumn]:
    """Yield the columns whose keys a value shows."""
    match shown:
        case KeyColumn():
            yield shown
        case Spelled():
            yield shown.column
        case _:
            for part in _parts(shown):
                yield from columns_in(part)


def unknowns_in(shown: Shown) -> Iterator[Unknown]:
    """Yield what is of unknown origin in a value."""
    if isinstance(shown, Unknown):
        yield shown
    for part in _parts(shown):
        yield from unknowns_in(part)


def names_in(shown: Shown) -> Iterator[str | Named]:
    """Yield the names of all fields in a value."""
    if isinstance(shown, Record):
        yield from (name for name, _ in shown.fields)
    for part in _parts(shown):
        yield from names_in(part)


def _parts(shown: Shown) -> Sequence[Shown]:
    match shown:
        case Listed():
            return [shown.item]
        case Series():
            return shown.items
        case Record():
            return [*(part for _, part in shown.fields), shown.rest]
        case Pairs():
            return [shown.name, shown.value]
        case _:
            return ()


def with_parts(shown: Shown, change: Callable[[Shown], Shown]) -> Shown:
    """Return the same list or record with other parts; what has no parts stays as it is."""
    match shown:
        case Listed():
            return Listed(change(shown.item))
        case Series():
            return Series(tuple(map(change, shown.items)))
        case Record():
            fields = tuple((name, change(part)) for name, part in shown.fields)
            return Record(fields, change(shown.rest))
        case Pairs():
            return Pairs(change(shown.name), change(shown.value))
        case _:
            return shown


def listed(item: Shown) -> Shown:
    """Return what an array of such items shows; one of arrays has another dimension."""
    if item is None or isinstance(item, Unknown):
        return item
    if isinstance(item, Listed) and isinstance(item.item, Spelled):
        return item
    return Listed(spelled(item))


def item_of(shown: Shown) -> Shown:
    """Return what the items of a list show."""
    if is_array(shown):
        return spelled(shown)
    return shown.item if isinstance(shown, Listed) else shown


def spelled(shown: Shown) -> Shown:
    """Return what is shown once its keys may be spelled otherwise; of an array, its items."""
    return Spelled(shown) if isinstance(shown, KeyColumn) else shown


def as_json(shown: Shown) -> Shown:
    """Return what is shown once a value has become part of a JSON document."""
    return Listed(spelled(shown)) if is_array(shown) else spelled(shown)


def is_array(shown: Shown) -> bool:
    """Tell whether a value is an array column's own."""
    return isinstance(shown, KeyColumn) and shown.array


def is_container(shown: Shown) -> bool:
    """Tell whether a value is a list or record in which keys stand."""
    return is_array(shown) or isinstance(shown, Listed | Series | Record | Pairs)


def alike(one: Shown, other: Shown) -> Shown:
    """Return what a value shows that is one or the other, `None` if they cannot be mixed."""
    if _anonymous(one) == _anonymous(other):
        return one
    if is_container(one) != is_container(other):
        return None
    one, other = as_json(one), as_json(other)
    return one if _anonymous(one) == _anonymous(other) else None


def _anonymous(shown: Shown) -> Shown:
    """Leave out where keys come from, and keep what they are keys of."""
    match shown:
        case KeyColumn():
            return replace(shown, name="")
        case Spelled():
            return Spelled(replace(shown.column, name="", as_text=False, array=False))
        case _:
            return with_parts(shown, _anonymous)
