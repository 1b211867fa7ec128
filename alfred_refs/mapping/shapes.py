"""Where keys stand in a value of a result: it is one, or a list or JSON object with some in it.

    select(Recipe.id)                                   KeyColumn("recipes.id", ...)
    select(func.array_agg(Recipe.id))                   Listed(SpelledKey(...))
    select(func.json_build_object("id", Recipe.id))     JsonObject((("id", SpelledKey(...)),))
    select(Recipe.name)                                 None

`lineage` answers with these, and `statements.rendering` goes by them. Frozen values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .key_column import KeyColumn
from .policy import KeyType


@dataclass(frozen=True, slots=True)
class SpelledKey:
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

    item: KeyShape


@dataclass(frozen=True, slots=True)
class Series:
    """A list in which each position has a kind of its own."""

    items: tuple[KeyShape, ...]


@dataclass(frozen=True, slots=True)
class ParameterName:
    """The name of a field that is a parameter of the statement, by its place in the shape."""

    place: int


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object whose fields have names.

    Attributes:
        fields: what each shows.
        rest: what fields of other names show.
    """

    fields: tuple[tuple[str | ParameterName, KeyShape], ...]
    rest: KeyShape = None


@dataclass(frozen=True, slots=True)
class JsonPairs:
    """A JSON object made from pairs: all its names are of one kind, and all its values."""

    name: KeyShape
    value: KeyShape


KeyShape = KeyColumn | SpelledKey | Unknown | Listed | Series | JsonObject | JsonPairs | None

UNKNOWN: Final = Unknown(("uuid", "integer", "string"), within=True)
"""The statement does not tell where a value comes from."""

UNTYPED: Final = Unknown(("uuid",))
"""A function of plain data whose type is not known: it may look something up, such as a UUID."""


def columns_in(shape: KeyShape) -> Iterator[KeyColumn]:
    """Yield the columns whose keys a value shows."""
    match shape:
        case KeyColumn():
            yield shape
        case SpelledKey():
            yield shape.column
        case _:
            for part in _parts(shape):
                yield from columns_in(part)


def unknowns_in(shape: KeyShape) -> Iterator[Unknown]:
    """Yield what is of unknown origin in a value."""
    if isinstance(shape, Unknown):
        yield shape
    for part in _parts(shape):
        yield from unknowns_in(part)


def names_in(shape: KeyShape) -> Iterator[str | ParameterName]:
    """Yield the names of all fields in a value."""
    if isinstance(shape, JsonObject):
        yield from (name for name, _ in shape.fields)
    for part in _parts(shape):
        yield from names_in(part)


def _parts(shape: KeyShape) -> Sequence[KeyShape]:
    match shape:
        case Listed():
            return [shape.item]
        case Series():
            return shape.items
        case JsonObject():
            return [*(part for _, part in shape.fields), shape.rest]
        case JsonPairs():
            return [shape.name, shape.value]
        case _:
            return ()


def with_parts(shape: KeyShape, change: Callable[[KeyShape], KeyShape]) -> KeyShape:
    """Return the same list or record with other parts; what has no parts stays as it is."""
    match shape:
        case Listed():
            return Listed(change(shape.item))
        case Series():
            return Series(tuple(map(change, shape.items)))
        case JsonObject():
            fields = tuple((name, change(part)) for name, part in shape.fields)
            return JsonObject(fields, change(shape.rest))
        case JsonPairs():
            return JsonPairs(change(shape.name), change(shape.value))
        case _:
            return shape


def listed(item: KeyShape) -> KeyShape:
    """Return what an array of such items shows; one of arrays has another dimension."""
    if item is None or isinstance(item, Unknown):
        return item
    if isinstance(item, Listed) and isinstance(item.item, SpelledKey):
        return item
    return Listed(spelled(item))


def item_of(shape: KeyShape) -> KeyShape:
    """Return what the items of a list show."""
    if is_array(shape):
        return spelled(shape)
    return shape.item if isinstance(shape, Listed) else shape


def spelled(shape: KeyShape) -> KeyShape:
    """Return what is shown once its keys may be spelled otherwise; of an array, its items."""
    return SpelledKey(shape) if isinstance(shape, KeyColumn) else shape


def as_json(shape: KeyShape) -> KeyShape:
    """Return what is shown once a value has become part of a JSON document."""
    return Listed(spelled(shape)) if is_array(shape) else spelled(shape)


def is_array(shape: KeyShape) -> bool:
    """Tell whether a value is an array column's own."""
    return isinstance(shape, KeyColumn) and shape.array


def is_container(shape: KeyShape) -> bool:
    """Tell whether a value is a list or record in which keys stand."""
    return is_array(shape) or isinstance(shape, Listed | Series | JsonObject | JsonPairs)


def alike(one: KeyShape, other: KeyShape) -> KeyShape:
    """Return what a value shows that is one or the other, `None` if they cannot be mixed."""
    if _anonymous(one) == _anonymous(other):
        return one
    if is_container(one) != is_container(other):
        return None
    one, other = as_json(one), as_json(other)
    return one if _anonymous(one) == _anonymous(other) else None


def _anonymous(shape: KeyShape) -> KeyShape:
    """Leave out where keys come from, and keep what they are keys of."""
    match shape:
        case KeyColumn():
            return replace(shape, name="")
        case SpelledKey():
            return SpelledKey(replace(shape.column, name="", as_text=False, array=False))
        case _:
            return with_parts(shape, _anonymous)
