"""Refs and keys as values, and the policy that decides which keys become refs.

A ref is the name of a row that a language model sees: `{entity}_{number}` for a saved row,
`gen_{entity}_{number}` for a draft. A key is a value of a primary or foreign key column: a
`uuid.UUID`, an `int`, a `str`, or a tuple of these for a composite key. Values of other types in a
primary key, such as dates, are texts in keys: `part_of` and `value_of` convert them.

>>> parse_ref("meal_plan_2")
Ref(entity='meal_plan', number=2, draft=False)
>>> str(Ref("recipe", 1, draft=True))
'gen_recipe_1'
>>> parse_ref("Recipe 2") is None
True
>>> decode(encode((7, "de")))
(7, 'de')

- `parse_ref` and `str(Ref(...))` are inverse functions, as are `encode` and `decode`.
- `encode` returns the value of a `bytea` column in the registry. The first byte is the type, so
  that one column holds keys of every type; a UUID takes 17 bytes, where its text takes 37.
- `RefPolicy` holds an application's choices: which types of key become refs, exceptions,
  and how entities and rows are named.

Everything here is a pure value. Which refs exist, and for which keys, is decided in
`conversation.refs`; `mapping.text` finds keys inside longer text.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Number
from typing import Any, Literal

# Refs

DRAFT = "gen_"
"""The prefix of draft refs. No entity name starts with it."""

KEY = "key"
"""The entity of keys in texts that have no ref of a row. No class can have this name."""

_ENTITY = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_NUMBERED = re.compile(r".*_[0-9]+", re.ASCII)
_REF = re.compile(r"(?P<draft>gen_)?(?P<entity>[a-z][a-z0-9_]*)_(?P<number>[1-9][0-9]{0,17})")

MAX_NUMBER = 2**31 - 1
"""The largest number of a ref: the registry stores it as `integer`."""


class ShownRef(str):
    """A ref that came out of a conversation, as a string.

    A program that copies one into a column of data, whole or inside a document, stores the key
    there. Text that a model sends is an ordinary string, and is stored as it is.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return str.__new__(ShownText, self[:])

    def __copy__(self) -> ShownRef:
        return self

    def __deepcopy__(self, _: object) -> ShownRef:
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self[:],)


class ShownText(ShownRef):
    """The `str()` of a ref: in data it becomes the text of the key, and the ref the key itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


_MARKED = frozenset({ShownRef, ShownText})


def shown_refs_in(value: Any) -> Iterator[ShownRef]:
    """Yield the refs in a value of a column of data: the value itself, or leaves of a document."""
    if type(value) in _MARKED:
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from shown_refs_in(name)
            yield from shown_refs_in(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from shown_refs_in(each)


def with_shown_keys(value: Any, keys: Mapping[str, Key], *, of_texts: bool = False) -> Any:
    """Return a value of a column of data with keys in place of the refs in it.

    Args:
        value: as the program gave it; it is not changed.
        keys: by ref.
        of_texts: whether the column has lists or mappings of texts, and not documents.
    """
    if type(value) in _MARKED:
        return str(keys[value])

    def with_leaves(value: Any) -> Any:
        if type(value) in _MARKED:
            key = keys[value]
            # JSON has numbers, and neither UUIDs nor tuples
            is_number = type(value) is ShownRef and isinstance(key, int) and not of_texts
            return key if is_number else str(key)
        if isinstance(value, Mapping):
            return {
                str(keys[name]) if type(name) in _MARKED else name: with_leaves(each)
                for name, each in value.items()
            }
        for kind in (list, tuple, set, frozenset):
            if isinstance(value, kind):
                return kind(map(with_leaves, value))
        return value

    return with_leaves(value) if any(shown_refs_in(value)) else value


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A parsed ref. Refs sort naturally: `recipe_2` before `recipe_10`."""

    entity: str
    number: int
    draft: bool = False

    def __str__(self) -> str:
        return f"{DRAFT if self.draft else ''}{self.entity}_{self.number}"


def parse_ref(text: str) -> Ref | None:
    """Parse a ref; return `None` if the text is not exactly one.

    Capitals, leading zeros and surrounding space are not accepted.
    """
    match = _REF.fullmatch(text)
    if match is None or int(match["number"]) > MAX_NUMBER:
        return None
    return Ref(match["entity"], int(match["number"]), draft=match["draft"] is not None)


def parse_draft_ref(text: str) -> Ref | None:
    """Parse the ref of a draft; return `None` for refs of rows and for other text."""
    ref = parse_ref(text) if text.startswith(DRAFT) else None
    return ref if ref is not None and ref.draft else None


def is_entity_name(text: str) -> bool:
    """Return whether a text can be the name of an entity.

    A name that starts with `gen_` would make refs that read as refs of drafts, and a name that
    ends in `_` and digits would itself read as a ref.
    """
    return (
        _ENTITY.fullmatch(text) is not None
        and not text.startswith(DRAFT)
        and _NUMBERED.fullmatch(text) is None
    )


# Keys

Key = uuid.UUID | int | str | tuple["Key", ...]

EntityKey = tuple[str, Key]
"""The name of an entity, and one of its keys."""

_UUID, _INTEGER, _STRING, _TUPLE = b"u", b"i", b"s", b"t"
_LENGTH_BYTES = 4


def token_of(key: Key) -> Any:
    """Return the value under which a key is cached: the integer of a UUID, any other key itself.

    `UUID.__hash__` is a Python function and `int.__hash__` is not, and each row costs two cache
    look-ups.
    """
    return key.int if isinstance(key, uuid.UUID) else key


def key_parts(key: Key) -> tuple[Any, ...]:
    """Return the parts of a key, one for each column of the primary key."""
    return key if isinstance(key, tuple) else (key,)


def encode(key: Key) -> bytes:
    """Encode a key as the registry stores it.

    Raises:
        TypeError: the value is not of a type that keys have. The message does not repeat it.
    """
    match key:
        case uuid.UUID():
            return _UUID + key.bytes
        case bool():  # before `int`, of which it is a subclass
            raise TypeError("a key cannot be a bool")
        case int():
            return _INTEGER + key.to_bytes(key.bit_length() // 8 + 1, signed=True)
        case str():
            return _STRING + key.encode()
        case tuple():
            parts = map(encode, key)
            return _TUPLE + b"".join(len(part).to_bytes(_LENGTH_BYTES) + part for part in parts)
        case _ if isinstance(number := as_integer(key), int):
            return encode(number)
        case _:
            raise TypeError(f"a key cannot be a {type(key).__name__}")


def decode(data: bytes) -> Key:
    """Decode what `encode` returned."""
    kind, body = data[:1], data[1:]
    if kind == _UUID:
        return uuid.UUID(bytes=body)
    if kind == _INTEGER:
        return int.from_bytes(body, signed=True)
    if kind == _STRING:
        return body.decode()
    return tuple(map(decode, _split_parts(body)))


def _split_parts(data: bytes) -> Iterator[bytes]:
    while data:
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES])
        yield data[_LENGTH_BYTES:end]
        data = data[end:]


def as_integer(value: Any) -> Any:
    """Return a whole number of any type as an `int`, and other values unchanged.

    >>> as_integer(Decimal(7)), as_integer(7.5)
    (7, 7.5)
    """
    if isinstance(value, int) or not isinstance(value, Number):  # NumPy's scalars are numbers
        return value
    try:
        number = int(value)  # type: ignore[call-overload]  # raises for those that are not real
    except (TypeError, ValueError, ArithmeticError):
        return value
    return number if number == value else value


# Parts of keys that are data

_MICROSECOND = dt.timedelta(microseconds=1)

# Python type of a primary key column that holds data -> value to text and back; subclasses first
_PARTS: Mapping[type[Any], tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    bool: (str, "True".__eq__),
    dt.datetime: (lambda value: _in_utc(value).isoformat(), dt.datetime.fromisoformat),
    dt.date: (dt.date.isoformat, dt.date.fromisoformat),
    dt.time: (dt.time.isoformat, dt.time.fromisoformat),
    dt.timedelta: (
        lambda value: str(value // _MICROSECOND),
        lambda text: int(text) * _MICROSECOND,
    ),
    Decimal: (lambda value: str(value.normalize()), Decimal),
    float: (float.__repr__, float),
    bytes: (bytes.hex, bytes.fromhex),
}


def _in_utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC)


def is_key_part(kind: type[Any]) -> bool:
    """Return whether values of a Python type may be in the primary key of rows with refs."""
    return issubclass(kind, (uuid.UUID, int, str, enum.Enum, *_PARTS))


def part_of(value: Any) -> Any:
    """Return a value of a primary key column that holds data as a part of a key.

    >>> part_of(date(2026, 5, 1)), value_of(part_of(date(2026, 5, 1)), date)
    ('2026-05-01', datetime.date(2026, 5, 1))
    """
    if isinstance(value, enum.Enum):
        return value.name
    to_text = next((pair[0] for kind, pair in _PARTS.items() if isinstance(value, kind)), None)
    return as_integer(value) if to_text is None else to_text(value)


def value_of(part: Any, kind: type[Any] | None) -> Any:
    """Return the value of a primary key column of a Python type for the part of a key."""
    if kind is None or not isinstance(part, str):
        return part
    if issubclass(kind, enum.Enum):
        return kind[part]
    from_text = next((pair[1] for each, pair in _PARTS.items() if issubclass(kind, each)), None)
    return part if from_text is None else from_text(part)


def spells_uuid(text: str) -> bool:
    """Return whether a text is a UUID in any of the spellings that `uuid.UUID` accepts."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


# Policy

KeyType = Literal["uuid", "integer", "string"]


@dataclass(frozen=True, slots=True)
class RefPolicy:
    """Which keys become refs, and how entities and rows are named.

    Attributes:
        key_types: types of key that become refs. Strings are left out by default, because they
            are often readable already: a country code, a slug.
        exclude: mapped classes, tables by name (`"countries"`) and columns by name
            (`"recipes.legacy_id"`) or attribute whose keys are left as they are.
        names: entity names by mapped class or table name, for classes that cannot have a
            `__ref_name__`.
        labels: by mapped class, the attribute that holds the name people use for a row, or a
            function of the loaded instance that returns it. Takes precedence over
            `__ref_label__`; `None` means no label.

    Example:
        >>> policy = RefPolicy(names={Recipe: "dish"}, exclude=(User,))
        >>> registry = RefRegistry(engine, policy=policy)
        >>> with RefSession(engine, conversation=registry.conversation("chat-8")) as session:
        ...     session.execute(select(Recipe.id, Recipe.user_id)).first()
        ('dish_1', 1)
    """

    key_types: tuple[KeyType, ...] = ("uuid", "integer")
    exclude: tuple[Any, ...] = ()
    names: Mapping[type[Any] | str, str] = field(default_factory=dict)
    labels: Mapping[type[Any], str | Callable[[Any], str | None] | None] = field(
        default_factory=dict
    )
