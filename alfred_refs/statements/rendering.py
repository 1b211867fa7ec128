"""Refs in place of the keys in one value, however deep they stand in it.

    shapes: a key                      UUID("a508…")                 -> "recipe_1"
    shapes: a list of keys             [UUID("a508…"), None]         -> ["recipe_1", None]
    shapes: a record with a key in it  {"id": "a508…", "n": 2}       -> {"id": "recipe_1", "n": 2}
    unknown, like a key                "a508…"                       -> "recipe_1", or an error

`collect_keys` finds the keys of a whole chunk, so that all of them have refs after one round trip,
and `shower` makes the function that puts the refs in. A value that is not what the statement said,
or may be a key and has not exactly one ref, raises; no error repeats it. Pure.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Row

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.key_column import KeyColumn, items_of
from alfred_refs.mapping.keys import EntityKey, Key, spells_uuid, token_of
from alfred_refs.mapping.policy import KeyType
from alfred_refs.mapping.shapes import (
    JsonObject,
    JsonPairs,
    KeyShape,
    Listed,
    ParameterName,
    Series,
    SpelledKey,
    Unknown,
    with_parts,
)

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


Show = Callable[[Any], Any]


class Referring(Protocol):
    """The part of a conversation that rows need."""

    def make_room(self) -> bool:
        """Let go of refs, if there are many: those read before are not to be expected any more."""
        ...

    def meet(self, pairs: Collection[EntityKey]) -> None:
        """Make sure that all these keys have refs."""
        ...

    def refs_of(self, entity: str) -> Mapping[Any, str]:
        """Return refs by the token of their key."""
        ...

    def refs_met(self, key: Key) -> Collection[str]:
        """Return the refs of all entities with this key that were met so far."""
        ...


def collect_keys(shape: KeyShape, values: Iterable[Any]) -> list[EntityKey]:
    """Return the keys in values of one shape, as often as they stand there.

    Raises:
        UntranslatableError: a value is not what its shape says.
    """
    found: list[EntityKey] = []

    def noting(part: KeyColumn | SpelledKey | Unknown) -> Show:
        if isinstance(part, Unknown):
            return _same
        column = part if isinstance(part, KeyColumn) else part.column
        space = column.space
        if part == column and column.array:
            return lambda value: found.extend(
                (space, _key(column, item)) for item in items_of(value) if item is not None
            )
        return lambda value: found.append((space, _key(column, value)))

    note = _each_key(shape, noting)
    for value in values:
        if value is not None:
            note(value)
    return found


def shower(shape: KeyShape, conversation: Referring, listed: type[list[Any]] = list) -> Show:
    """Return the function that shows a value whose keys have been met with refs in their place.

    Args:
        shape: where keys stand in the value.
        conversation: in which its keys have been met.
        listed: the kind of list that an array column's value becomes.
    """

    def showing(part: KeyColumn | SpelledKey | Unknown) -> Show:
        if isinstance(part, Unknown):
            return partial(show_suspect, part, conversation.refs_met)
        if isinstance(part, KeyColumn):
            return _shower_of_column(part, conversation.refs_of(part.space), listed)
        column, refs = part.column, conversation.refs_of(part.column.space)
        return lambda value: refs[token_of(_key(column, value))]

    return _each_key(shape, showing)


def _each_key(shape: KeyShape, change: Callable[[KeyColumn | SpelledKey | Unknown], Show]) -> Show:
    """Return the function that changes the keys in a value, however deep they stand in it."""
    match shape:
        case KeyColumn() | SpelledKey() | Unknown():
            return change(shape)
        case Listed():
            is_array = isinstance(shape.item, SpelledKey)
            return partial(_in_list, _each_key(shape.item, change), is_array)
        case Series():
            return partial(_in_series, [_each_key(item, change) for item in shape.items])
        case JsonObject():
            fields = {str(name): _each_key(part, change) for name, part in shape.fields}
            return partial(_in_object, fields, _each_key(shape.rest, change))
        case JsonPairs():
            parts = (shape.name, shape.value)
            return partial(_in_pairs, *(_each_key(part, change) for part in parts))
        case _:
            return _same


def named(shape: KeyShape, values: Callable[[int], Any]) -> KeyShape:
    """Return the shape of one execution, in which the names of fields have values.

    Raises:
        UntranslatableError: a name is not text.
    """
    if isinstance(shape, JsonObject):
        fields = tuple((_name(name, values), part) for name, part in shape.fields)
        shape = JsonObject(fields, shape.rest)
    return with_parts(shape, partial(named, values=values))


def _name(name: str | ParameterName, values: Callable[[int], Any]) -> str:
    text = values(name.place) if isinstance(name, ParameterName) else name
    if not isinstance(text, str):
        raise UntranslatableError(
            "a JSON object with keys in it has a name that is not text",
            "write the names of its fields as text in the statement",
        )
    return text


def limited(shape: KeyShape, key_types: Collection[KeyType]) -> KeyShape:
    """Return the shape of values where keys of unknown origin can only have these types."""
    if isinstance(shape, Unknown):
        possible = tuple(t for t in shape.key_types if t in key_types)
        return Unknown(possible, shape.within and "uuid" in possible) if possible else None
    return with_parts(shape, partial(limited, key_types=key_types))


# Keys


def _shower_of_column(column: KeyColumn, refs: Mapping[Any, str], listed: type[list[Any]]) -> Show:
    if column.array:
        return partial(_shown_items, refs=refs, token=column.token, listed=listed)
    if column.as_text:
        return lambda value: refs[uuid.UUID(value).int]
    if column.key_type == "uuid":
        return lambda value: refs[value.int]
    return refs.__getitem__


def _shown_items(
    values: Iterable[Any],
    refs: Mapping[Any, str],
    token: Callable[[Any], Any],
    listed: type[list[Any]],
) -> list[Any]:
    """Return an array with refs in place of keys, whatever its dimensions."""

    def shown(item: Any) -> Any:
        if isinstance(item, list | tuple):
            return listed(map(shown, item))
        return None if item is None else refs[token(item)]

    return listed(map(shown, values))


def _key(column: KeyColumn, value: Any) -> Key:
    """Return the key that a value spells.

    Raises:
        UntranslatableError: it spells none of the column's type.
    """
    try:
        if column.key_type == "uuid":
            return value if isinstance(value, uuid.UUID) else uuid.UUID(value)
        if column.key_type == "integer" and isinstance(value, int | str):
            return int(value)
        if column.key_type == "string" and isinstance(value, str):
            return value
    except (ValueError, AttributeError, TypeError):
        pass
    raise _unexpected()


def _same(value: Any) -> Any:
    return value


# Lists and records. On some drivers a JSON value that has no type in the statement is text.


def _document(value: Any, *kinds: type[Any]) -> Any:
    """Return a list or record, parsed if it is JSON text.

    Raises:
        UntranslatableError: it is none.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise _unexpected() from None
    if value is None or isinstance(value, kinds):
        return value
    raise _unexpected()


def _as_it_came(value: Any, shown: Any) -> Any:
    return json.dumps(shown, ensure_ascii=False) if isinstance(value, str) else shown


def _in_list(change: Show, nested: bool, value: Any) -> Any:
    given = _document(value, list, tuple)
    if given is None:
        return value
    inside = partial(_in_list, change, nested)
    items = [
        None
        if item is None
        else (inside if nested and isinstance(item, list | tuple) else change)(item)
        for item in given
    ]
    return _as_it_came(value, tuple(items) if isinstance(given, tuple) else items)


def _in_series(change: Sequence[Show], value: Any) -> Any:
    given = _document(value, list, Row)
    if not given:
        return value
    if len(given) != len(change):
        raise _unexpected()
    parts = list(map(_shown, change, given))
    return _as_it_came(value, parts) if isinstance(given, list) else sqla.row_like(given, parts)


def _in_object(change: Mapping[str, Show], rest: Show, value: Any) -> Any:
    fields = _document(value, dict)
    if fields is None:
        return value
    changed = {
        name: None if part is None else change.get(name, rest)(part)
        for name, part in fields.items()
    }
    return _as_it_came(value, changed)


def _in_pairs(name: Show, part: Show, value: Any) -> Any:
    fields = _document(value, dict)
    if fields is None:
        return value
    return _as_it_came(value, {name(n): _shown(part, each) for n, each in fields.items()})


def _shown(show: Show, value: Any) -> Any:
    return None if value is None else show(value)


def _unexpected() -> UntranslatableError:
    return UntranslatableError(
        "a value is not the key, list or record of keys that its expression promises",
        "select the key column itself, or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )
