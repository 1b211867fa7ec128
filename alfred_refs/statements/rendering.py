"""Refs in place of the keys in one value, however deep they stand in it.

    shapes: a key                      UUID("a508…")                 -> "recipe_1"
    shapes: a list of keys             [UUID("a508…"), None]         -> ["recipe_1", None]
    shapes: a record with a key in it  {"id": "a508…", "n": 2}       -> {"id": "recipe_1", "n": 2}
    unknown, like a key                "a508…"                       -> "recipe_1", or an error

Two functions are made once for all values of a result: `collector` finds the keys, so that all of
them have refs after one round trip, and `shower` puts the refs in. A value that is not what the
statement said, or may be a key and has not exactly one ref, raises; no error repeats it. Pure.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain, repeat
from typing import Any, Protocol

from sqlalchemy import Row

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import EntityKey, Key, spells_uuid
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


Collect = Callable[[Any], Iterable[EntityKey]]
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


def collector(shape: KeyShape) -> Collect:  # noqa: PLR0911  # one case a kind
    """Return the function that finds the keys in a value."""
    match shape:
        case KeyColumn(array=False) | SpelledKey():
            return _one_key(shape)
        case KeyColumn() as column:
            return collector(Listed(SpelledKey(column)))
        case Listed():
            return partial(
                _keys_in_list, collector(shape.item), isinstance(shape.item, SpelledKey)
            )
        case Series():
            return partial(_keys_in_series, [collector(item) for item in shape.items])
        case JsonObject():
            fields = {str(name): collector(part) for name, part in shape.fields}
            return partial(_keys_in_record, fields)
        case JsonPairs():
            return partial(_keys_in_pairs, collector(shape.name), collector(shape.value))
        case _:
            return _no_keys


def shower(  # noqa: C901, PLR0911  # one case a kind
    shape: KeyShape, conversation: Referring, listed: type[list[Any]] = list
) -> Callable[[Any], Any]:
    """Return the function that shows a value whose keys have been met with refs in their place.

    Args:
        shape: what the value shows.
        conversation: in which its keys have been met.
        listed: the kind of list that an array column's value becomes.
    """
    match shape:
        case KeyColumn(array=False):
            return _shower_of_column(shape, conversation)
        case KeyColumn() as column:
            refs = conversation.refs_of(column.space)
            return partial(_shown_items, refs=refs, token=column.token, listed=listed)
        case SpelledKey(column):
            refs = conversation.refs_of(column.space)
            return lambda value: refs[_token(column, value)]
        case Listed():
            is_array = isinstance(shape.item, SpelledKey)
            return partial(_show_list, shower(shape.item, conversation), is_array)
        case Series():
            return partial(_show_series, [shower(item, conversation) for item in shape.items])
        case JsonObject():
            fields = {str(n): shower(part, conversation) for n, part in shape.fields}
            return partial(_show_record, fields, shower(shape.rest, conversation))
        case JsonPairs():
            parts = (shape.name, shape.value)
            return partial(_show_pairs, *(shower(part, conversation) for part in parts))
        case Unknown():
            return partial(show_suspect, shape, conversation.refs_met)
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


def _one_key(shape: KeyColumn | SpelledKey) -> Collect:
    column = shape if isinstance(shape, KeyColumn) else shape.column
    key_of = column.to_key if isinstance(shape, KeyColumn) else partial(_key, column)
    return lambda value: [] if value is None else [(column.space, key_of(value))]


def _shower_of_column(column: KeyColumn, conversation: Referring) -> Show:
    refs = conversation.refs_of(column.space)
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


def _token(column: KeyColumn, value: Any) -> Any:
    key = _key(column, value)
    return key.int if isinstance(key, uuid.UUID) else key


def _no_keys(_: Any) -> Iterable[EntityKey]:
    return ()


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


def _keys_in_list(collect: Collect, nested: bool, value: Any) -> Iterable[EntityKey]:
    inside = partial(_keys_in_list, collect, nested)
    return chain.from_iterable(
        inside(item) if nested and isinstance(item, list | tuple) else collect(item)
        for item in _document(value, list, tuple) or ()
    )


def _show_list(show: Show, nested: bool, value: Any) -> Any:
    given = _document(value, list, tuple)
    if given is None:
        return value
    inside = partial(_show_list, show, nested)
    items = [
        inside(item) if nested and isinstance(item, list | tuple) else _shown(show, item)
        for item in given
    ]
    return _as_it_came(value, tuple(items) if isinstance(given, tuple) else items)


def _keys_in_series(collect: list[Collect], value: Any) -> Iterable[EntityKey]:
    parts = _document(value, list, Row) or ()
    if len(parts) not in (0, len(collect)):
        raise _unexpected()
    return chain.from_iterable(map(_applied, collect, parts))


def _show_series(show: list[Show], value: Any) -> Any:
    given = _document(value, list, Row)
    if not given:
        return value
    parts = list(map(_shown, show, given))
    if isinstance(given, list):
        return _as_it_came(value, parts)
    return sqla.row_like(given, parts)


def _keys_in_record(collect: Mapping[str, Collect], value: Any) -> Iterable[EntityKey]:
    fields = _document(value, dict) or {}
    return chain.from_iterable(collect.get(n, _no_keys)(part) for n, part in fields.items())


def _show_record(show: Mapping[str, Show], rest: Show, value: Any) -> Any:
    fields = _document(value, dict)
    if fields is None:
        return value
    return _as_it_came(
        value, {name: _shown(show.get(name, rest), part) for name, part in fields.items()}
    )


def _keys_in_pairs(name: Collect, part: Collect, value: Any) -> Iterable[EntityKey]:
    fields = _document(value, dict) or {}
    return chain(*map(name, fields), *map(part, fields.values()))


def _show_pairs(name: Show, part: Show, value: Any) -> Any:
    fields = _document(value, dict)
    if fields is None:
        return value
    shown = zip(map(name, fields), map(_shown, repeat(part), fields.values()), strict=True)
    return _as_it_came(value, dict(shown))


def _applied(collect: Collect, value: Any) -> Iterable[EntityKey]:
    return collect(value)


def _shown(show: Show, value: Any) -> Any:
    return None if value is None else show(value)


def _unexpected() -> UntranslatableError:
    return UntranslatableError(
        "a value is not the key, list or record of keys that its expression promises",
        "select the key column itself, or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )
