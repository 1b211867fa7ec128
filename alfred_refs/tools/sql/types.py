"""SQL types that a statement may name, and those that texts beside a column are read as.

    named_type("numeric", [10, 2])     Numeric(10, 2)
    plain(String(50))                  Text(): a text is compared as it is, and never cut

Names of types come in; SQLAlchemy's types go out. What is in no table here is no type: nothing
that looks a name up in a catalogue, as `regclass` does. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    Enum,
    Float,
    Integer,
    Interval,
    Numeric,
    SmallInteger,
    String,
    Text,
    Time,
    Uuid,
)
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB, REAL
from sqlalchemy.types import TypeEngine

_Type = TypeEngine[Any]

# sqlglot's name -> the type, made of the numbers behind it
_NAMED: Mapping[str, tuple[int, Callable[..., _Type]]] = {
    "BOOLEAN": (0, Boolean),
    "SMALLINT": (0, SmallInteger),
    "INT": (0, Integer),
    "BIGINT": (0, BigInteger),
    "DECIMAL": (2, Numeric),
    "FLOAT": (0, REAL),
    "DOUBLE": (0, Double),
    "TEXT": (0, Text),
    "VARCHAR": (1, String),
    "DATE": (0, Date),
    "TIME": (0, Time),
    "TIMESTAMP": (0, DateTime),
    "TIMESTAMPTZ": (0, lambda: DateTime(timezone=True)),
    "INTERVAL": (0, INTERVAL),
    "UUID": (0, Uuid),
    "JSON": (0, JSON),
    "JSONB": (0, JSONB),
}

SHORT: Mapping[str, str] = {
    "BOOLEAN": "bool",
    "SMALLINT": "int2",
    "INT": "int4",
    "BIGINT": "int8",
    "DECIMAL": "numeric",
    "FLOAT": "float4",
    "DOUBLE": "float8",
}
"""What PostgreSQL calls types that have another name in SQL."""

NAMES = (
    "boolean, smallint, integer, bigint, numeric, real, double precision, text, varchar, date, "
    "time, timestamp, timestamptz, interval, uuid, json, jsonb, or one of these with []"
)
"""The types, as a model is told of them."""

# those that take in what is before them, of numbers and of times
_WIDTHS = (BigInteger, DateTime, Numeric, Float)

# the first that fits -> what a text beside such a column is read as
_PLAIN: Sequence[tuple[type[_Type], Callable[[Any], _Type]]] = (
    (Enum, lambda type_: type_ if type_.native_enum else Text()),
    (String, lambda _: Text()),
    (Float, lambda type_: type_),
    (Numeric, lambda _: Numeric()),
    (DateTime, lambda type_: DateTime(timezone=type_.timezone)),
    (Time, lambda type_: Time(timezone=type_.timezone)),
    (Interval, lambda _: INTERVAL()),
    (ARRAY, lambda type_: ARRAY(plain(type_.item_type))),
)


def named_type(name: str, sizes: Sequence[int]) -> _Type | None:
    """Return the type of a name, `None` if there is none to use."""
    most, make = _NAMED.get(name, (0, None))
    return None if make is None or len(sizes) > most else make(*sizes)


def width(type_: _Type) -> int:
    """Return how much a type has room for, beside others of its kind that it may stand with.

    PostgreSQL makes of several the widest: of integers and numeric numeric, of dates and
    timestamps timestamps.
    """
    found = (n for n, class_ in enumerate(_WIDTHS, start=1) if isinstance(type_, class_))
    has_zone = isinstance(type_, DateTime) and type_.timezone
    return max(found, default=0) + has_zone


def plain(type_: _Type) -> _Type:
    """Return the type that a text beside values of another is read as."""
    for class_, make in _PLAIN:
        if isinstance(type_, class_):
            return make(type_)
    return type_
