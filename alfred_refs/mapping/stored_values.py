"""What PostgreSQL makes of a value when it stores it: what it rounds, pads or has no room for.

SQL types and values come in; what is kept of values goes out, so that what is not stored yet can
be compared as what is. Of a type that decorates another nobody knows what it makes of that. Pure.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import CHAR, NCHAR, REAL, Double, Float, Interval, Numeric, TypeDecorator
from sqlalchemy.dialects.postgresql import INTERVAL, TIME, TIMESTAMP
from sqlalchemy.types import TypeEngine

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
