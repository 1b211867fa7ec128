"""Column types: JSON values to Python and stored values.

What PostgreSQL makes of a value when it stores it: what it rounds, pads or has no room for.

SQL types and values come in; what is kept of values goes out, so that what is not stored yet can
be compared as what is. Of a type that decorates another nobody knows what it makes of that. Pure.

The values of a column as a model gives and sees them: JSON on one side, Python on the other.

    values = values_of(Date(), None)
    values.wanted                       "a date such as '2026-05-01'"
    values.accept("2026-05-01")         datetime.date(2026, 5, 1)
    values.accept("May")                raises UnfitValueError, which says what is wanted
    values.show(date(2026, 5, 1))       "2026-05-01"

Pydantic checks and converts; beside it stands what PostgreSQL or a driver would take otherwise.
Refs stay text: the session knows what they name. Pure.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from sqlalchemy import (
    ARRAY,
    CHAR,
    JSON,
    NCHAR,
    REAL,
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
    Time,
    TypeDecorator,
    Uuid,
)
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB, TIME, TIMESTAMP
from sqlalchemy.types import TypeEngine

from alfred_refs.mapping.key_columns import (
    KeyColumn,
    is_ambiguous,
    python_type_of,
    undecorated_type,
)

_WRITTEN_OUT = 12  # digits of a limit that is told as a number
_SINGLE = 24  # bits of a number in single precision


@dataclass(frozen=True, slots=True)
class Digits:
    """How many digits a number may have, as `NUMERIC` says it.

    Attributes:
        whole: before the point.
        decimals: behind it.
    """

    whole: int
    decimals: int

    @property
    def wanted(self) -> str:
        """The same in words."""
        number = {0: "a whole number", 1: "a number with at most 1 decimal"}.get(
            self.decimals, f"a number with at most {self.decimals} decimals"
        )
        if self.decimals < 0:
            number = f"a multiple of {10**-self.decimals:,}"
        below = f"{10**self.whole:,}" if 0 <= self.whole <= _WRITTEN_OUT else f"10^{self.whole}"
        return f"{number}, below {below}"

    def fit(self, value: Any) -> bool:
        """Tell whether a number is stored as it is; one that is rounded does not fit."""
        number = value if isinstance(value, Decimal) else Decimal(repr(value))
        _, digits, exponent = number.as_tuple()
        if not number or not isinstance(exponent, int):
            return not number
        kept = str(int("".join(map(str, digits)))).rstrip("0")
        last = number.adjusted() - len(kept) + 1
        return number.adjusted() < self.whole and last >= -self.decimals


def digits_of(type_: TypeEngine[Any]) -> Digits | None:
    """Return how many digits a type has room for; `None` for any, as floating point has."""
    if not isinstance(type_, Numeric) or isinstance(type_, Float) or type_.precision is None:
        return None
    decimals = type_.scale or 0
    return Digits(type_.precision - decimals, decimals)


def decimals_of(type_: TypeEngine[Any]) -> int | None:
    """Return how many digits of a second a type has room for, where it says that."""
    if isinstance(type_, Interval):
        return type_.second_precision
    return type_.precision if isinstance(type_, TIMESTAMP | TIME | INTERVAL) else None


def microsecond_of(value: Any) -> int:
    """Return the microseconds beside the whole seconds of a time or a duration."""
    return int(value.microseconds if isinstance(value, dt.timedelta) else value.microsecond)


def is_exact(type_: TypeEngine[Any]) -> bool:
    """Tell whether nothing is rounded when a value is loaded: a decimal to a float, or back."""
    if isinstance(type_, Float):  # which is a `Numeric`, too, in SQLAlchemy 2.0
        return not type_.asdecimal
    if isinstance(type_, Numeric):
        return bool(type_.asdecimal)
    return isinstance(type_, Interval) or not isinstance(type_, TypeDecorator)


def stored_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the SQL type that a column has, whatever decorates it."""
    while isinstance(type_, TypeDecorator) and not isinstance(type_, Interval):
        type_ = type_.impl_instance
    return type_


def is_interval(type_: TypeEngine[Any]) -> bool:
    """Tell whether a type is of durations, whatever decorates it."""
    return isinstance(stored_type(type_), Interval | INTERVAL)


def form_of(type_: TypeEngine[Any]) -> Callable[[Any], Any] | None:
    """Return what makes of a value what is stored: texts padded, numbers in single precision.

    Returns:
        `None` if a type stores values as they are. What is made raises `OverflowError` for a
        number that single precision has not.
    """
    if isinstance(type_, CHAR | NCHAR):
        length = type_.length or 1
        return lambda text: text.rstrip(" ").ljust(length)
    if isinstance(type_, Float) and not isinstance(type_, Double) and not type_.asdecimal:
        is_single = isinstance(type_, REAL) or 0 < (type_.precision or 0) <= _SINGLE
        return _single if is_single else None
    return None


def _single(value: float) -> float:
    """Return a number as single precision has it, in as few digits as tell it.

    Raises:
        OverflowError: it is too great for that, or too small.
    """
    packed = struct.pack("<f", value)
    [near] = struct.unpack("<f", packed)
    if value and not near:
        raise OverflowError
    told = (float(f"{near:.{digits}g}") for digits in range(6, 9))
    return next((each for each in told if _is_near(each, packed)), float(f"{near:.9g}"))


def _is_near(value: float, packed: bytes) -> bool:
    try:
        return struct.pack("<f", value) == packed
    except OverflowError:  # the greatest number, in few digits
        return False


Family = Literal[
    "ref", "text", "number", "boolean", "time", "choice", "uuid", "json", "list", "opaque"
]

_COMPARED = ("=", "!=", "neq", "in", "not_in")
_ORDERED = (">", "<", ">=", "<=")
_NULL = ("is_null", "is_not_null")

# family of values -> what a filter may ask of them
_OPERATORS: Mapping[Family, tuple[str, ...]] = {
    "ref": (*_COMPARED, *_NULL),
    "text": (*_COMPARED, *_ORDERED, "ilike", *_NULL),
    "number": (*_COMPARED, *_ORDERED, *_NULL),
    "boolean": (*_COMPARED, *_NULL),
    "time": (*_COMPARED, *_ORDERED, *_NULL),
    "choice": (*_COMPARED, *_NULL),
    "uuid": (*_COMPARED, *_NULL),
    "json": ("contains", *_NULL),
    "list": ("=", "!=", "neq", "contains", *_NULL),
    "opaque": _NULL,
}

_OF_LISTS_IN_LISTS = ("=", "!=", "neq", *_NULL)

# SQL types, the first that fits -> the family whose operators PostgreSQL has for them: what a
# column has in Python may be kept as anything
_LIKE: Sequence[tuple[tuple[type[TypeEngine[Any]], ...], Family]] = (
    ((Boolean, Enum, Uuid), "boolean"),
    ((String,), "text"),
    ((Integer, Numeric, Float, Date, DateTime, Time, Interval, INTERVAL), "number"),
)

# widest type first: `SmallInteger` and `BigInteger` are integers too
_INTEGER_BITS = ((SmallInteger, 16), (BigInteger, 64), (Integer, 32))


_DAY = dt.timedelta(days=1)
_ANY_DAY = dt.date(2000, 1, 2)
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")  # than a microsecond


class UnfitValueError(ValueError):
    """A value does not fit a column; it is not repeated.

    Attributes:
        wanted: what would fit.
    """

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        super().__init__(f"a column takes {wanted}")


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The values of one column.

    Attributes:
        family: what kind they are of.
        wanted: what a model is to give, in words: "an integer".
        schema: the same as JSON schema.
        item: what the elements of a list are.
        longest: characters that fit, where the type says so.
        digits: how many fit, where the type says so.
        decimals: how many digits of a second fit, where the type says so.
        asked: what a filter may ask of them where that is not all that it may of the family.
        exact: whether Python has them as the database has, to the last digit.
    """

    family: Family
    wanted: str
    schema: Mapping[str, Any]
    accept_one: Callable[[Any], Any]
    show_one: Callable[[Any], Any]
    item: Values | None = None
    longest: int | None = None
    digits: Digits | None = None
    decimals: int | None = None
    asked: tuple[str, ...] | None = None
    exact: bool = True

    @property
    def operators(self) -> tuple[str, ...]:
        """What a filter may ask of these values."""
        return _OPERATORS[self.family] if self.asked is None else self.asked

    @property
    def ordered(self) -> bool:
        """Whether rows can be put in their order."""
        has_order = self.family in ("text", "number", "boolean", "time", "choice")
        return has_order and "=" in self.operators

    def accept(self, given: Any) -> Any:
        """Return what a model gave as the column has it in Python; refs stay text.

        Raises:
            UnfitValueError: it does not fit.
        """
        if given is None or (self.family == "ref" and given == ""):
            return None
        try:
            return self.accept_one(given)
        except OverflowError:
            raise UnfitValueError(f"{self.wanted}, neither too great nor too small") from None
        except (ValidationError, KeyError, TypeError):
            raise UnfitValueError(self.wanted) from None

    def accept_new(self, given: Any) -> Any:
        """Return what a model gave to be stored; that has to find room, too.

        Raises:
            UnfitValueError: it does not fit.
        """
        accepted = self.accept(given)
        self.check_room(accepted)
        return accepted

    def check_room(self, value: Any) -> None:
        """Check that a value is stored as it is, neither refused nor rounded.

        Raises:
            UnfitValueError: it is not.
        """
        if value is None:
            return
        if self.longest is not None and len(value) > self.longest:
            raise UnfitValueError(f"at most {self.longest} characters")
        if self.digits is not None and not self.digits.fit(value):
            raise UnfitValueError(self.digits.wanted)
        if self.decimals is not None and microsecond_of(value) % 10 ** (6 - self.decimals):
            raise UnfitValueError(f"at most {self.decimals} digits of a second")
        if self.item is not None:
            for each in value:
                self.item.check_room(each)

    def show(self, value: Any) -> Any:
        """Return a value of the column as JSON; refs are text already."""
        return None if value is None else self.show_one(value)


def values_of(type_: TypeEngine[Any], key: KeyColumn | None) -> Values:
    """Return what values a column of a SQL type has, and of what entity if they are keys."""
    if key is not None:
        return _lists(_refs(key)) if key.array else _refs(key)
    type_ = undecorated_type(type_)
    of_type = next((make for class_, make in _BY_SQL_TYPE if isinstance(type_, class_)), None)
    if of_type is not None:
        return of_type(type_)
    python = None if is_ambiguous(type_) else python_type_of(type_)
    make = _BY_PYTHON_TYPE.get(python) if python is not None else None
    if make is None and isinstance(type_, TypeDecorator) and not is_ambiguous(type_):
        return values_of(type_.impl_instance, None)  # its values are those of what it decorates
    if make is None:
        return _opaque()
    stored = stored_type(type_)
    values = _text_uuids(stored) if python is str and isinstance(stored, Uuid) else make(stored)
    usable = _usable(stored)
    asked = tuple(each for each in values.operators if each in usable)
    form = form_of(type_)
    if form is not None:
        accept, show = values.accept_one, values.show_one
        values = replace(
            values,
            accept_one=lambda given: form(accept(given)),
            show_one=lambda value: show(form(value)),
        )
    # of what decorates a value nobody knows what it makes of that
    return replace(
        values,
        digits=digits_of(type_),
        decimals=decimals_of(type_),
        asked=asked,
        exact=is_exact(type_),
    )


def _usable(stored: TypeEngine[Any]) -> tuple[str, ...]:
    """Return what PostgreSQL can tell of the values of a SQL type; of one unknown, null alone."""
    return next((_OPERATORS[like] for types, like in _LIKE if isinstance(stored, types)), _NULL)


def _refs(key: KeyColumn) -> Values:
    wanted = f"a ref of {key.entity}, such as '{key.entity}_1'"
    schema = {"type": "string", "description": f"{key.entity} ref, such as '{key.entity}_1'"}
    accept = TypeAdapter(Annotated[str, Field(strict=True)]).validate_python
    return Values("ref", wanted, schema, accept, lambda ref: ref)


def _lists(item: Values) -> Values:
    def accept(given: Any) -> list[Any]:
        if not isinstance(given, list):
            raise TypeError
        # "" is null only where a column takes it for itself
        if item.family == "ref" and "" in given:
            raise TypeError
        found = [None if each is None else item.accept_one(each) for each in given]
        if item.item is not None and not _is_even(found):
            raise UnfitValueError("a list whose lists are all of one length, which is not 0")
        return found

    def show(value: Any) -> list[Any]:
        # PostgreSQL keeps no array to the dimensions of its type
        return [show(each) if isinstance(each, list) else of_one(each) for each in value]

    of_one = _innermost(item).show

    schema = {"type": "array", "items": dict(item.schema)}
    family: Family = "list" if item.family != "opaque" else "opaque"
    return Values(family, f"a list, each element {item.wanted}", schema, accept, show, item)


def _is_even(lists: Sequence[Any]) -> bool:
    """Tell whether PostgreSQL has an array of these lists."""
    lengths = {0 if each is None else len(each) for each in lists}
    return not lengths or (len(lengths) == 1 and 0 not in lengths)


def _innermost(values: Values) -> Values:
    return values if values.item is None else _innermost(values.item)


def _arrays(type_: ARRAY[Any]) -> Values:
    """Return what values an array has, of as many dimensions as its type says."""
    item = values_of(type_.item_type, None)
    stored = stored_type(type_.item_type)
    # lists are compared by their elements, and PostgreSQL cannot compare plain JSON
    is_compared = _usable(stored) != _NULL or isinstance(stored, JSONB)
    for level in range(type_.dimensions or 1):
        asked = _NULL if not is_compared else _OF_LISTS_IN_LISTS if level else None
        item = replace(_lists(item), asked=asked)
    return item


def _choices(type_: Enum) -> Values:
    class_ = type_.enum_class
    every = [*class_.__members__.values()] if class_ is not None else type_.enums
    # without the other names of members, unless the type has them too
    objects = every if class_ is None or len(every) == len(type_.enums) else class_
    members = dict(zip(type_.enums, objects, strict=True))
    names = {member: name for name, member in members.items()}
    wanted = "one of " + ", ".join(map(repr, members))
    schema = {"type": "string", "enum": list(members)}
    return Values("choice", wanted, schema, members.__getitem__, lambda v: names.get(v, str(v)))


def _opaque(_: object = None) -> Values:
    def refuse(_: Any) -> Any:
        raise TypeError

    return Values("opaque", "no value from you", {}, refuse, _plain)


def _plain(value: Any) -> Any:
    """Return any value as JSON: bytes in base64, what has no form of its own as text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if hasattr(value, "tolist"):
        return value.tolist()
    return to_jsonable_python(value, fallback=str)


def _no_number(value: Any) -> Any:
    """Refuse a number, in text too: pydantic would take "20260101" for seconds since 1970."""
    if isinstance(value, bool | int | float):
        raise TypeError
    if isinstance(value, str):
        with suppress(ValueError):
            float(value)
            raise TypeError
    return value


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise TypeError
    return value


def _type_validator(type_: Any, *more: Any) -> Callable[[Any], Any]:
    annotated: Any = type_
    for each in more:
        annotated = Annotated[annotated, each]
    return TypeAdapter(annotated).validate_python


def _texts(type_: TypeEngine[Any]) -> Values:
    longest = type_.length if isinstance(type_, String) else None
    return Values(
        "text", "text", {"type": "string"}, _type_validator(str), lambda v: v, longest=longest
    )


def _integers(type_: TypeEngine[Any]) -> Values:
    bits = next((bits for class_, bits in _INTEGER_BITS if isinstance(type_, class_)), 32)
    most = 2 ** (bits - 1)
    accept = _type_validator(int, Field(ge=-most, lt=most), BeforeValidator(_no_boolean))
    return Values("number", f"an integer of {bits} bits", {"type": "integer"}, accept, int)


def _numbers(python: type[Any], _: TypeEngine[Any]) -> Values:
    check = _type_validator(python, Field(allow_inf_nan=False), BeforeValidator(_no_boolean))

    def accept(given: Any) -> Any:
        if isinstance(given, float) and not math.isfinite(given):  # as 1e999 in JSON
            raise UnfitValueError("a finite number")
        return check(given)

    return Values("number", "a number", {"type": "number"}, accept, shown_number)


def shown_number(value: Any) -> Any:
    """Return a number as JSON has it, as text where that would change it."""
    if isinstance(value, Decimal):
        near = float(value)
        return near if math.isfinite(near) and Decimal(repr(near)) == value else str(value)
    return value if math.isfinite(value) else str(value)


def _booleans(_: TypeEngine[Any]) -> Values:
    return Values("boolean", "true or false", {"type": "boolean"}, _type_validator(bool), bool)


def _times(python: type[Any], wanted: str, form: str, type_: TypeEngine[Any]) -> Values:
    check = _type_validator(python, BeforeValidator(_no_number))

    def accept(given: Any) -> Any:
        # neither Python nor PostgreSQL has them: they would be cut
        if isinstance(given, str) and _FINER.search(given):
            raise UnfitValueError("at most 6 digits of a second")
        return _in_zone(check(given), type_)

    schema = {"type": "string", "format": form}
    return Values("time", wanted, schema, accept, to_jsonable_python)


def _in_zone(value: Any, type_: TypeEngine[Any]) -> Any:
    """Return a time in the zone that its column needs: UTC where none was said, none for none."""
    if not isinstance(type_, DateTime | Time):
        return value
    if type_.timezone:
        value = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        if isinstance(value, dt.datetime):
            # drivers read it back in a zone of their own: it must be a time there too
            _ = value.astimezone(dt.UTC) - _DAY, value.astimezone(dt.UTC) + _DAY
        return value
    if value.tzinfo is None:
        return value
    if isinstance(value, dt.time):
        return dt.datetime.combine(_ANY_DAY, value).astimezone(dt.UTC).time()
    return value.astimezone(dt.UTC).replace(tzinfo=None)


def _uuids(_: TypeEngine[Any]) -> Values:
    schema = {"type": "string", "format": "uuid"}
    return Values("uuid", "a UUID", schema, _type_validator(uuid.UUID), str)


def _text_uuids(type_: TypeEngine[Any]) -> Values:
    """Return the values of a column whose UUIDs are text in Python."""
    values = _uuids(type_)
    return replace(values, accept_one=lambda given: str(values.accept_one(given)))


def _documents(_: JSON) -> Values:
    def accept(given: Any) -> Any:
        try:
            json.dumps(given, allow_nan=False)  # Python's JSON has infinity, PostgreSQL's has not
        except ValueError:
            raise UnfitValueError("any JSON value, numbers finite") from None
        return given

    def show(value: Any) -> Any:
        # as drivers load it; a type that decorates JSON may make something else of it
        return value if isinstance(value, dict | list | str | int | float) else _plain(value)

    return Values("json", "any JSON value", {}, accept, show)


# SQL type -> what makes the `Values` of its columns
_BY_SQL_TYPE: Sequence[tuple[type[TypeEngine[Any]], Callable[[Any], Values]]] = (
    (ARRAY, _arrays),
    (Enum, _choices),
    (JSON, _documents),
)

# the Python type of a column's values -> what makes their `Values`
_BY_PYTHON_TYPE: Mapping[type[Any], Callable[[TypeEngine[Any]], Values]] = {
    str: _texts,
    int: _integers,
    float: partial(_numbers, float),
    Decimal: partial(_numbers, Decimal),
    bool: _booleans,
    dt.date: partial(_times, dt.date, "a date such as '2026-05-01'", "date"),
    dt.datetime: partial(
        _times, dt.datetime, "a date and time such as '2026-05-01T18:30:00Z'", "date-time"
    ),
    dt.time: partial(_times, dt.time, "a time such as '18:30:00'", "time"),
    dt.timedelta: partial(_times, dt.timedelta, "a duration such as 'PT45M'", "duration"),
    uuid.UUID: _uuids,
}
