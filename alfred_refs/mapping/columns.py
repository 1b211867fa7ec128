"""Values of a column: JSON of a model to Python and back, and what PostgreSQL stores.

`values_of` returns the `Values` of a SQL type: a description for a model, a JSON schema, operators
for filters, and a pair of conversions. `accept` converts and checks a value that a model has sent;
`show` converts a Python value to JSON. Both leave refs as text: the session resolves them.

>>> dates = values_of(Date(), None)
>>> dates.accept("2026-05-01")
datetime.date(2026, 5, 1)
>>> dates.show(dates.accept("2026-05-01"))
'2026-05-01'
>>> dates.accept("May")
Traceback (most recent call last):
    ...
alfred_refs.mapping.columns.UnfitValueError: a column takes a date such as '2026-05-01'
>>> prices = values_of(Numeric(5, 2), None)
>>> prices.expected, prices.digits.expected
('a number', 'a number with at most 2 decimals, below 1,000')
>>> values_of(Enum("soup", "stew"), None).schema
{'type': 'string', 'enum': ['soup', 'stew']}

- pydantic validates and converts; on top of it are checks for what PostgreSQL or a driver would
  round, pad, truncate or read differently: digits, microseconds, infinity, NUL, time zones.
- `accept` is for values that are compared, `accept_new` for values that are stored: those must
  also have room in the column.
- Values are compared as PostgreSQL has stored them: `CHAR` padded, `REAL` in single precision.

Limits: a custom type (`TypeDecorator`) may convert values in any way. If it declares no Python
type, it accepts values of the type that it decorates, and shows any value as JSON. The operators
are PostgreSQL's; other databases are not considered. Nothing here emits SQL.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import json
import math
import re
import struct
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
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
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import DOMAIN, INTERVAL, JSONB, TIME, TIMESTAMP
from sqlalchemy.types import TypeEngine

from alfred_refs.mapping.key_columns import (
    KeyColumn,
    is_ambiguous,
    python_type_of,
    undecorated_type,
)
from alfred_refs.mapping.text import Verbatim

# What PostgreSQL stores

_WRITTEN_OUT = 12  # digits of the largest limit that is written as 1,000 and not as 10^3
_SINGLE = 24  # bits of the mantissa in single precision
_EXACT_BITS = 53  # of integers that are floats, as JSON numbers are read


@dataclass(frozen=True, slots=True)
class Digits:
    """The digits of a number that a `NUMERIC` column has room for.

    Attributes:
        whole: digits before the decimal point.
        decimals: digits after it; negative if it rounds to tens, hundreds and so on.
    """

    whole: int
    decimals: int

    @property
    def expected(self) -> str:
        """A description for a model."""
        number = {0: "a whole number", 1: "a number with at most 1 decimal"}.get(
            self.decimals, f"a number with at most {self.decimals} decimals"
        )
        if self.decimals < 0:
            number = f"a multiple of {10**-self.decimals:,}"
        below = f"{10**self.whole:,}" if 0 <= self.whole <= _WRITTEN_OUT else f"10^{self.whole}"
        return f"{number}, below {below}"

    def fit(self, value: Any) -> bool:
        """Return whether a number is stored exactly, neither rounded nor refused."""
        number = value if isinstance(value, Decimal) else Decimal(repr(value))
        _, digits, exponent = number.as_tuple()
        if not number or not isinstance(exponent, int):
            return not number
        significant = str(int("".join(map(str, digits)))).rstrip("0")
        last = number.adjusted() - len(significant) + 1
        return number.adjusted() < self.whole and last >= -self.decimals


def digits_of(type_: TypeEngine[Any]) -> Digits | None:
    """Return the digits that a type has room for, `None` if it sets no limit."""
    if not isinstance(type_, Numeric) or isinstance(type_, Float) or type_.precision is None:
        return None
    decimals = type_.scale or 0
    return Digits(type_.precision - decimals, decimals)


def decimals_of(type_: TypeEngine[Any]) -> int | None:
    """Return the digits of a second that a type has room for, `None` if it sets no limit."""
    if isinstance(type_, Interval):
        return type_.second_precision
    return type_.precision if isinstance(type_, TIMESTAMP | TIME | INTERVAL) else None


def microsecond_of(value: Any) -> int:
    """Return the microseconds of a time or a duration, without its whole seconds."""
    return int(value.microseconds if isinstance(value, dt.timedelta) else value.microsecond)


def is_exact(type_: TypeEngine[Any]) -> bool:
    """Return whether loading a value rounds nothing: no decimal to float, no float to decimal."""
    if isinstance(type_, Float):  # which is a `Numeric`, too, in SQLAlchemy 2.0
        return not type_.asdecimal
    if isinstance(type_, Numeric):
        return bool(type_.asdecimal)
    return isinstance(type_, Interval) or not isinstance(type_, TypeDecorator)


def stored_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the SQL type of a column, below all custom types and domains."""
    while not isinstance(type_, Interval):
        if isinstance(type_, TypeDecorator):
            type_ = type_.impl_instance
        elif isinstance(type_, DOMAIN):
            type_ = type_.data_type
        else:
            break
    return type_


def is_interval(type_: TypeEngine[Any]) -> bool:
    """Return whether a type is one of durations, below all custom types."""
    return isinstance(stored_type(type_), Interval | INTERVAL)


def storage_of(type_: TypeEngine[Any]) -> Callable[[Any], Any] | None:
    """Return the function from a value to the stored one: padded text, single precision.

    Returns:
        `None` if the type stores values unchanged. The function raises `OverflowError` for a
        number outside the range of single precision.
    """
    if isinstance(type_, CHAR | NCHAR):
        length = type_.length or 1
        return lambda text: text.rstrip(" ").ljust(length)
    if isinstance(type_, Float) and not isinstance(type_, Double) and not type_.asdecimal:
        is_single = isinstance(type_, REAL) or 0 < (type_.precision or 0) <= _SINGLE
        return _single if is_single else None
    return None


def _single(value: float) -> float:
    """Round a number to single precision; return the shortest decimal that rounds to it.

    Raises:
        OverflowError: the number is outside the range.
    """
    packed = struct.pack("<f", value)
    [near] = struct.unpack("<f", packed)
    if value and not near:
        raise OverflowError
    shortened = (float(f"{near:.{digits}g}") for digits in range(6, 9))
    # nine digits identify every number in single precision
    return next((each for each in shortened if _packs_to(each, packed)), float(f"{near:.9g}"))


def _packs_to(value: float, packed: bytes) -> bool:
    try:
        return struct.pack("<f", value) == packed
    except OverflowError:  # the largest number, rounded up
        return False


# Values of a model, and how values are shown

Family = Literal[
    "ref", "text", "number", "boolean", "time", "choice", "uuid", "json", "list", "opaque"
]

_COMPARED = ("=", "!=", "neq", "in", "not_in")
_ORDERED = (">", "<", ">=", "<=")
_NULL = ("is_null", "is_not_null")

# family of values -> operators that a filter may use
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

# PostgreSQL's `@>` ignores dimensions, so `contains` is left out
_OF_LISTS_IN_LISTS = ("=", "!=", "neq", *_NULL)

# SQL types, the first that fits -> the family whose operators PostgreSQL supports for them: a
# custom type may store a Python type as any other
_LIKE: Sequence[tuple[tuple[type[TypeEngine[Any]], ...], Family]] = (
    ((Boolean, Enum, Uuid), "boolean"),
    ((String,), "text"),
    ((Integer, Numeric, Float, Date, DateTime, Time, Interval, INTERVAL), "number"),
)

# subclasses first: `SmallInteger` and `BigInteger` are subclasses of `Integer`
_INTEGER_BITS = ((SmallInteger, 16), (BigInteger, 64), (Integer, 32))


_DAY = dt.timedelta(days=1)
_ANY_DAY = dt.date(2000, 1, 2)
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")  # more precise than a microsecond


class UnfitValueError(ValueError):
    """A value does not fit a column; the message does not repeat it.

    Attributes:
        expected: a description of what fits.
    """

    def __init__(self, expected: str) -> None:
        self.expected = expected
        super().__init__(f"a column takes {expected}")


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The values of one column.

    Attributes:
        family: their kind, which determines the operators.
        expected: a description for a model: "an integer".
        schema: the same as JSON schema.
        accept_one: converts and checks a JSON value that is not null.
        show_one: converts a Python value that is not `None` to JSON.
        item: the values of the elements of a list.
        longest: the number of characters that fit, if limited.
        digits: the digits of a number that fit, if limited.
        decimals: the digits of a second that fit, if limited.
        supported: the operators of the family that PostgreSQL has for the type, if not all.
        exact: whether values in Python and in the database are equal to the last digit.
    """

    family: Family
    expected: str
    schema: Mapping[str, Any]
    accept_one: Callable[[Any], Any]
    show_one: Callable[[Any], Any]
    item: Values | None = None
    longest: int | None = None
    digits: Digits | None = None
    decimals: int | None = None
    supported: tuple[str, ...] | None = None
    exact: bool = True

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that a filter may use."""
        return _OPERATORS[self.family] if self.supported is None else self.supported

    @property
    def ordered(self) -> bool:
        """Whether rows can be sorted by them."""
        has_order = self.family in ("text", "number", "boolean", "time", "choice")
        return has_order and "=" in self.operators

    def accept(self, given: Any) -> Any:
        """Convert a JSON value to the column's Python type; refs stay text.

        Raises:
            UnfitValueError: the value does not fit.
        """
        if given is None or (self.family == "ref" and given == ""):
            return None
        try:
            return self.accept_one(given)
        except OverflowError:
            raise UnfitValueError(f"{self.expected}, neither too great nor too small") from None
        except (ValidationError, KeyError, TypeError):
            raise UnfitValueError(self.expected) from None

    def accept_new(self, given: Any) -> Any:
        """Convert a JSON value that is to be stored, and check that the column has room for it.

        Raises:
            UnfitValueError: the value does not fit.
        """
        accepted = self.accept(given)
        self.check_room(accepted)
        return accepted

    def check_room(self, value: Any) -> None:
        """Check that PostgreSQL stores a value exactly, neither rounded nor refused.

        Raises:
            UnfitValueError: it does not.
        """
        if value is None:
            return
        if self.longest is not None and len(value) > self.longest:
            raise UnfitValueError(f"at most {self.longest} characters")
        if self.digits is not None and not self.digits.fit(value):
            raise UnfitValueError(self.digits.expected)
        if self.decimals is not None and microsecond_of(value) % 10 ** (6 - self.decimals):
            raise UnfitValueError(f"at most {self.decimals} digits of a second")
        if self.item is not None:
            for each in value:
                self.item.check_room(each)

    def show(self, value: Any) -> Any:
        """Convert a value of the column to JSON; refs are text already."""
        return None if value is None else self.show_one(value)


def values_of(type_: TypeEngine[Any], key: KeyColumn | None) -> Values:
    """Return the values of a column by its SQL type, and its key column if it holds keys."""
    if key is not None:
        return _lists(_refs(key)) if key.array else _refs(key)
    type_ = undecorated_type(type_)
    of_type = next((make for class_, make in _BY_SQL_TYPE if isinstance(type_, class_)), None)
    if of_type is not None:
        return of_type(type_)
    python = None if is_ambiguous(type_) else python_type_of(type_)
    if (
        python is not None
        and issubclass(python, enum.Enum)
        and all(isinstance(each.value, str) for each in python)
    ):
        members = {each.value: each for each in python}
        names = _members(members, {each: each.value for each in python})
        return replace(names, exact=is_exact(type_))
    bases = () if python is None else python.__mro__
    make = next((_BY_PYTHON_TYPE[each] for each in bases if each in _BY_PYTHON_TYPE), None)
    if isinstance(type_, TypeDecorator) and (make is None or python not in _BY_PYTHON_TYPE):
        return _values_of_decorated(type_)
    if make is None:
        return _opaque()
    stored = stored_type(type_)
    values = _text_uuids(stored) if python is str and isinstance(stored, Uuid) else make(stored)
    of_stored = _operators_of(stored)
    store = storage_of(type_)
    if store is not None:
        accept, show = values.accept_one, values.show_one
        values = replace(
            values,
            accept_one=lambda given: store(accept(given)),
            show_one=lambda value: show(store(value)),
        )
    # limits and precision of a custom type are unknown, so these read `type_`, not `stored`
    return replace(
        values,
        digits=digits_of(type_),
        decimals=decimals_of(type_),
        supported=tuple(each for each in values.operators if each in of_stored),
        exact=is_exact(type_),
    )


def _values_of_decorated(type_: TypeDecorator[Any]) -> Values:
    """Return the values of a custom type of unknown Python type: the values of its `impl`."""
    values = values_of(type_.impl_instance, None)
    python = python_type_of(type_.impl_instance)

    def show(value: Any) -> Any:
        value = value.value if isinstance(value, enum.Enum) else value
        if python is not None and isinstance(value, python):
            return plain_value(values.show_one(value))
        return shown_number(value) if isinstance(value, float | Decimal) else plain_value(value)

    def accept(given: Any) -> Any:
        try:
            accepted = values.accept_one(given)
        except (ValidationError, KeyError, TypeError):
            stored, loaded = _stored_and_loaded(type_, given)
            if isinstance(given, list | dict) and isinstance(stored, str):
                if isinstance(loaded, set | frozenset):  # shown in any order
                    is_same = sorted(map(str, loaded)) == sorted(map(str, given))
                else:
                    is_same = given in (loaded, plain_value(loaded))  # a tuple is a list
                if is_same:
                    return given  # a list or document that the type keeps as text
            raise
        stored, loaded = _stored_and_loaded(type_, accepted)
        is_kept = accepted in (stored, loaded)
        if not is_kept and isinstance(loaded, list | tuple | set | frozenset | dict):
            raise UnfitValueError("a list or an object, as rows show it")  # not a string
        return accepted

    # the precision is the stored value's, which may be another number
    return replace(
        values, accept_one=accept, show_one=show, digits=None, decimals=None, exact=False
    )


def _stored_and_loaded(type_: TypeDecorator[Any], value: Any) -> tuple[Any, Any]:
    """Return the value that a custom type stores for one, and the value that it loads again."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    stored = loaded = None
    with suppress(Exception):  # of the application's: raised again when the row is written
        stored = loaded = type_.process_bind_param(value, dialect)
        loaded = type_.process_result_value(stored, dialect)
    return stored, loaded


def _operators_of(stored: TypeEngine[Any]) -> tuple[str, ...]:
    """Return the operators that PostgreSQL has for a SQL type; for an unknown one, NULL tests."""
    return next((_OPERATORS[like] for types, like in _LIKE if isinstance(stored, types)), _NULL)


def _refs(key: KeyColumn) -> Values:
    expected = f"a ref of {key.entity}, such as '{key.entity}_1'"
    schema = {"type": "string", "description": f"{key.entity} ref, such as '{key.entity}_1'"}
    accept = TypeAdapter(Annotated[str, Field(strict=True)]).validate_python
    return Values("ref", expected, schema, accept, lambda ref: ref)


def _lists(item: Values) -> Values:
    def accept(given: Any) -> list[Any]:
        if not isinstance(given, list):
            raise TypeError
        # an empty ref means null as a value of its own, not as an element
        if item.family == "ref" and "" in given:
            raise TypeError
        accepted = [None if each is None else item.accept_one(each) for each in given]
        if item.item is not None and not _is_rectangular(accepted):
            raise UnfitValueError("a list whose lists are all of one length, which is not 0")
        return accepted

    def show(value: Any) -> list[Any]:
        # the number of dimensions in a type is not enforced: PostgreSQL stores any
        return [show(each) if isinstance(each, list) else innermost.show(each) for each in value]

    innermost = item
    while innermost.item is not None:
        innermost = innermost.item
    schema = {"type": "array", "items": dict(item.schema)}
    family: Family = "list" if item.family != "opaque" else "opaque"
    return Values(family, f"a list, each element {item.expected}", schema, accept, show, item)


def _is_rectangular(lists: Sequence[Any]) -> bool:
    """Return whether lists form an array of PostgreSQL: all of one length, not empty."""
    lengths = {0 if each is None else len(each) for each in lists}
    return not lengths or (len(lengths) == 1 and 0 not in lengths)


def _arrays(type_: ARRAY[Any]) -> Values:
    """Return the values of an array with as many dimensions as its type declares."""
    item = values_of(type_.item_type, None)
    stored = stored_type(type_.item_type)
    # arrays are compared by their elements; PostgreSQL compares `jsonb` but not `json`
    is_comparable = _operators_of(stored) != _NULL or isinstance(stored, JSONB)
    for level in range(type_.dimensions or 1):
        supported = _NULL if not is_comparable else _OF_LISTS_IN_LISTS if level else None
        item = replace(_lists(item), supported=supported)
    return item


def _choices(type_: Enum) -> Values:
    class_ = type_.enum_class
    every = [*class_.__members__.values()] if class_ is not None else type_.enums
    # `__members__` includes aliases; the type has them only if it was built with all names
    objects = every if class_ is None or len(every) == len(type_.enums) else class_
    members = dict(zip(type_.enums, objects, strict=True))
    return _members(members, {member: name for name, member in members.items()})


def _members(members: Mapping[str, Any], names: Mapping[Any, str]) -> Values:
    """Return the values of an enumeration from its members by text and the text of each."""
    expected = "one of " + ", ".join(map(repr, members))
    schema = {"type": "string", "enum": list(members)}
    return Values("choice", expected, schema, members.__getitem__, lambda v: names.get(v, str(v)))


def _opaque() -> Values:
    def refuse(_: Any) -> Any:
        raise TypeError

    return Values("opaque", "no value from you", {}, refuse, plain_value)


def plain_value(value: Any) -> Any:
    """Convert any value to JSON: bytes to base64, an unknown type to text."""
    if is_dataclass(value) and not isinstance(value, type):  # a range of PostgreSQL, for example
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, dict):
        return {str(plain_value(name)): plain_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Decimal):
        return shown_number(value)
    return value.tolist() if hasattr(value, "tolist") else to_jsonable_python(value, fallback=str)


def _no_number(value: Any) -> Any:
    """Refuse a number, also as text: pydantic reads "20260101" as seconds since 1970."""
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
    kind = ["integer", "string"] if bits > _EXACT_BITS else "integer"
    return Values("number", f"an integer of {bits} bits", {"type": kind}, accept, int)


def _numbers(python: type[Any], type_: TypeEngine[Any]) -> Values:
    check = _type_validator(python, Field(allow_inf_nan=False), BeforeValidator(_no_boolean))

    def accept(given: Any) -> Any:
        if isinstance(given, float) and not math.isfinite(given):  # as 1e999 in JSON
            raise UnfitValueError("a finite number")
        return check(given)

    kind = "number" if _is_float(python, type_) else ["number", "string"]
    return Values("number", "a number", {"type": kind}, accept, shown_number)


def _is_float(python: type[Any], type_: TypeEngine[Any]) -> bool:
    """Return whether every value of a column is exactly a float, as JSON numbers are read."""
    digits = digits_of(type_)
    has_few = digits is not None and digits.whole + max(digits.decimals, 0) <= sys.float_info.dig
    return python is float or has_few


def shown_number(value: Any) -> Any:
    """Convert a number to JSON: to text where a JSON number would change it."""
    if isinstance(value, Decimal):
        near = float(value)
        is_exact = math.isfinite(near) and Decimal(repr(near)) == value
        return near if is_exact else Verbatim(value)
    return value if math.isfinite(value) else str(value)


def _booleans(_: TypeEngine[Any]) -> Values:
    return Values("boolean", "true or false", {"type": "boolean"}, _type_validator(bool), bool)


def _times(python: type[Any], expected: str, form: str, type_: TypeEngine[Any]) -> Values:
    check = _type_validator(python, BeforeValidator(_no_number))

    def accept(given: Any) -> Any:
        # neither Python nor PostgreSQL stores them: they would be cut off
        if isinstance(given, str) and _FINER.search(given):
            raise UnfitValueError("at most 6 digits of a second")
        return _in_zone(check(given), type_)

    schema = {"type": "string", "format": form}
    return Values("time", expected, schema, accept, to_jsonable_python)


def _in_zone(value: Any, type_: TypeEngine[Any]) -> Any:
    """Convert a time for its column: with a zone (UTC by default), or naive in UTC."""
    if not isinstance(type_, DateTime | Time):
        return value
    if type_.timezone:
        value = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        if isinstance(value, dt.datetime):
            # a driver returns it in the session's zone: it must be in range there too
            _ = value.astimezone(dt.UTC) - _DAY, value.astimezone(dt.UTC) + _DAY
        return value
    if value.tzinfo is None:
        return value
    if isinstance(value, dt.time):
        return dt.datetime.combine(_ANY_DAY, value).astimezone(dt.UTC).time()
    return value.astimezone(dt.UTC).replace(tzinfo=None)


def _uuids(_: TypeEngine[Any]) -> Values:
    schema = {"type": "string", "format": "uuid"}
    expected = "a UUID, or the ref in angle brackets that rows show in place of one"
    return Values("uuid", expected, schema, _type_validator(uuid.UUID), str)


def _text_uuids(type_: TypeEngine[Any]) -> Values:
    """Return the values of a column whose UUIDs are `str` in Python."""
    values = _uuids(type_)
    return replace(values, accept_one=lambda given: str(values.accept_one(given)))


def spells_document(text: str) -> bool:
    """Return whether a text is the JSON text of a list, an object or a text.

    Where a document is needed, a tool takes such a text for the document that it spells, and shows
    one that is stored in quotes.
    """
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        with suppress(RecursionError):  # a document that is nested too deep
            json.loads(text, parse_int=str)  # Python refuses to convert long integers
    except ValueError:
        return False
    return True


def _documents(_: JSON) -> Values:
    def accept(given: Any) -> Any:
        try:
            json.dumps(given, allow_nan=False)  # PostgreSQL refuses Infinity and NaN
        except ValueError:
            raise UnfitValueError("any JSON value, numbers finite") from None
        return given

    def show(value: Any) -> Any:
        # a custom type over JSON may return something else
        return value if isinstance(value, dict | list | str | int | float) else plain_value(value)

    return Values("json", "any JSON value", {}, accept, show)


# SQL type -> function that returns its `Values`
_BY_SQL_TYPE: Sequence[tuple[type[TypeEngine[Any]], Callable[[Any], Values]]] = (
    (ARRAY, _arrays),
    (Enum, _choices),
    (JSON, _documents),
)

# Python type of a column's values -> function that returns their `Values`
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
