"""Keys as values: what may be a key, how the registry stores it, how a cache looks it up.

A key is a `uuid.UUID`, an `int`, a `str`, or a tuple of these for a composite key. `encode` and
`decode` are inverse; the first byte says which kind follows, so that one `bytea` column holds
every kind in the least space: 17 bytes for a UUID, where its text takes 37.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

Key = uuid.UUID | int | str | tuple["Key", ...]

EntityKey = tuple[str, Key]
"""An entity's name and one of its keys."""

_UUID, _INTEGER, _STRING, _TUPLE = b"u", b"i", b"s", b"t"
_LENGTH_BYTES = 4


def token_of(key: Key) -> Any:
    """Return what a key is looked up by in memory.

    A UUID goes by its number: `UUID.__hash__` is a Python function, `int.__hash__` is not, and
    two look-ups are made for every row.
    """
    return key.int if isinstance(key, uuid.UUID) else key


def encode(key: Key) -> bytes:
    """Return the bytes that stand for the key in the registry.

    Raises:
        TypeError: the value is not of a type that keys have; the value is not repeated.
    """
    match key:
        case uuid.UUID():
            return _UUID + key.bytes
        case bool():
            raise TypeError("a key cannot be a bool")
        case int():
            return _INTEGER + key.to_bytes(key.bit_length() // 8 + 1, signed=True)
        case str():
            return _STRING + key.encode()
        case tuple():
            parts = map(encode, key)
            return _TUPLE + b"".join(len(part).to_bytes(_LENGTH_BYTES) + part for part in parts)
        case _:
            raise TypeError(f"a key cannot be a {type(key).__name__}")


def decode(data: bytes) -> Key:
    """Return the key that `encode` made the bytes of."""
    kind, body = data[:1], data[1:]
    if kind == _UUID:
        return uuid.UUID(bytes=body)
    if kind == _INTEGER:
        return int.from_bytes(body, signed=True)
    if kind == _STRING:
        return body.decode()
    return tuple(decode(part) for part in _parts(body))


def spells_uuid(text: str) -> bool:
    """Tell whether a text is a UUID in any of the spellings that Python reads."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _parts(data: bytes) -> Iterator[bytes]:
    while data:
        end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES])
        yield data[_LENGTH_BYTES:end]
        data = data[end:]
