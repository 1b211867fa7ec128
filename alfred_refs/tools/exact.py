"""Values that Python cannot hold, or drivers do not read, as text.

PostgreSQL has dates and times that Python's `datetime` cannot represent: `infinity`, years before
1 and after 9999, and the time `24:00`. Drivers raise an error for them, or, as psycopg2 and
asyncpg do, return another date. So a SELECT that shows such a column selects its text, and
`read_exact` parses it; a text without a Python value stays text, also in an array. Arrays of
domains are read in the same way, because psycopg returns them as text and SQLAlchemy splits that
into characters. So are intervals: drivers return zero for `infinity`, and other ones for those of
more than a thousand million days.

>>> from sqlalchemy import column
>>> print(select_exact(column("day", Date())))
CAST(to_json(day) AS TEXT)
>>> read_exact(Date(), '"2026-05-01"')
datetime.date(2026, 5, 1)
>>> read_exact(Date(), '"infinity"')
'infinity'

`to_json()` writes dates in ISO 8601, independent of the session's `DateStyle`.

Instances are read in the same way: the SELECT defers such columns and returns their texts next to
the instance. `ExactValues.add` sets the attributes that have a Python value and keeps the other
texts.

Limits: a month of an interval becomes 30 days, and a year 365, as in drivers. The driver converts
custom types, other arrays, ranges, all values of other databases, and columns of subclasses in a
read of the base class. If the driver raises an error, the session raises `DataError`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from sqlalchemy import (
    ARRAY,
    Date,
    DateTime,
    Interval,
    Result,
    Select,
    Text,
    Time,
    case,
    cast,
    extract,
    func,
    inspect,
    select,
)
from sqlalchemy.dialects.postgresql import DOMAIN, INTERVAL
from sqlalchemy.orm import InstanceState, Session
from sqlalchemy.orm.attributes import set_committed_value
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.mapping import python_type_of, undecorated_type

_PARSERS: Mapping[type[TypeEngine[Any]], Callable[[str], Any]] = {
    Date: dt.date.fromisoformat,
    DateTime: dt.datetime.fromisoformat,
    Time: dt.time.fromisoformat,
}


_ARRAY_TOKEN = re.compile(r'"(?P<quoted>(?:[^"\\]|\\.)*)"|[{}]|[^{},"]+', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

# Python type of an array's items -> function that makes an item from JSON
_ITEMS: Mapping[Any, Callable[[Any], Any]] = {
    uuid.UUID: uuid.UUID,
    float: float,
    dt.date: dt.date.fromisoformat,
    dt.datetime: dt.datetime.fromisoformat,
    dt.time: dt.time.fromisoformat,
}


_INTERVALS = Interval, INTERVAL


def _parse_interval(text: str) -> dt.timedelta:
    if not text.startswith("PT"):  # infinite
        raise ValueError(text)
    return dt.timedelta(microseconds=int(Decimal(text[2:-1]) * 10**6))


def _parser(type_: TypeEngine[Any]) -> Callable[[str], Any] | None:
    if isinstance(type_, ARRAY):
        item = type_.item_type
        if isinstance(item, DOMAIN):
            parse = _ITEMS.get(python_type_of(undecorated_type(item)), lambda each: each)
        elif isinstance(item, tuple(_PARSERS)):
            parse = partial(read_exact, item)
        else:
            return None
        return lambda text: map_items(parse, json.loads(text, parse_float=Decimal))
    if isinstance(type_, _INTERVALS):
        return _parse_interval
    return next((parse for class_, parse in _PARSERS.items() if isinstance(type_, class_)), None)


def _has_text(type_: TypeEngine[Any], value: Any) -> bool:
    """Return whether Python does not have a value, or an item of an array of dates or times."""
    if isinstance(value, list) and isinstance(type_, ARRAY):
        return isinstance(type_.item_type, tuple(_PARSERS)) and any(
            _has_text(type_, each) for each in value
        )
    return isinstance(value, str)


def map_items(convert: Callable[[Any], Any], value: Any) -> Any:
    """Convert a value, or each item of a list of any number of dimensions; `None` stays.

    >>> map_items(int, [["1"], [None]])
    [[1], [None]]
    """
    if isinstance(value, list):
        return [map_items(convert, each) for each in value]
    return None if value is None else convert(value)


def split_array(text: str) -> list[Any]:
    """Parse an array in PostgreSQL's text format into texts, `None` and lists.

    >>> split_array('{a,"b, c",NULL}')
    ['a', 'b, c', None]
    >>> split_array('[0:1][1:1]={{1},{2}}')
    [['1'], ['2']]
    """
    outer: list[Any] = []
    open_lists = [outer]
    for token in _ARRAY_TOKEN.finditer(text, text.find("{")):
        if token[0] == "{":
            open_lists.append([])
            open_lists[-2].append(open_lists[-1])
        elif token[0] == "}":
            open_lists.pop()
        elif token["quoted"] is not None:
            open_lists[-1].append(_ESCAPED.sub(r"\1", token["quoted"]))
        else:
            open_lists[-1].append(None if token[0] == "NULL" else token[0])
    [items] = outer
    return list(items)


def is_text_needed(type_: TypeEngine[Any]) -> bool:
    """Return whether values of a type are selected as text, and read by `read_exact`."""
    return _parser(type_) is not None


def select_exact(element: Any) -> Any:
    """Return the expression that selects a column as text; see `is_text_needed`."""
    if isinstance(element.type, _INTERVALS):  # its epoch has years of 365.25 days
        seconds = extract("epoch", element) - extract("year", element) * 21_600
        finite = func.isfinite(element), func.concat("PT", seconds, "S", type_=Text())
        return case(finite, else_=cast(element, Text()))
    return cast(func.to_json(element), Text())


def is_exact_on(session: Session, model: type[Any]) -> bool:
    """Return whether the database of a class has `to_json()`."""
    return session.get_bind(model).dialect.name == "postgresql"


ExactTypes = Mapping[str, TypeEngine[Any]]
"""Attributes that are selected as text, and their types."""


def exact_types(model: type[Any], names: Iterable[str]) -> ExactTypes:
    """Return the types of the attributes of a class that are selected as text.

    The primary key is excluded, because the session needs its value.
    """
    mapper = inspect(model).mapper
    # the key of a joined subclass has two columns; the base's column is the primary key
    columns = {name: mapper.column_attrs[name].columns for name in names}
    return {
        name: first.type
        for name, (first, *others) in columns.items()
        if is_text_needed(first.type) and not {first, *others} & {*mapper.primary_key}
    }


def select_exactly(statement: Select[Any]) -> Select[Any]:
    """Return a SELECT of the same rows with dates and times as text, for `read_exact`."""
    if not any(is_text_needed(each.type) for each in statement.selected_columns):
        return statement
    rows = statement.subquery()
    return select(*(select_exact(each) if is_text_needed(each.type) else each for each in rows.c))


def read_exact(type_: TypeEngine[Any], loaded: Any) -> Any:
    """Parse a text of `select_exact`; return it unchanged if Python has no such value."""
    parse = _parser(type_)
    if parse is None or not isinstance(loaded, str):  # other databases send values
        return loaded
    text = loaded.strip('"')
    if text.startswith("24:"):  # newer versions of Python parse it as midnight
        return text
    try:
        return parse(text)
    except (ValueError, OverflowError):
        return text


class ExactValues:
    """The values of instances that Python cannot represent, for one call."""

    def __init__(self) -> None:
        self._texts: dict[tuple[InstanceState[Any], str], Any] = {}

    def instances(self, result: Result[Any], types: ExactTypes) -> list[Any]:
        """Return the instances of a result, which has texts of some attributes next to them."""
        rows = result.all()
        for row in rows if types else ():
            self.add(row[0], types, row[1:])
        return [row[0] for row in rows]

    def add(self, instance: Any, types: ExactTypes, loaded: Sequence[Any]) -> None:
        """Set deferred attributes of an instance, or keep their texts.

        Args:
            instance: the loaded instance, without these attributes.
            types: their types.
            loaded: the texts from `select_exact`.
        """
        state = sqla.state_of(instance)
        for (name, type_), text in zip(types.items(), loaded, strict=True):
            value = read_exact(type_, text)
            if _has_text(type_, value):
                self._texts[state, name] = value
                state.dict.pop(name, None)  # an earlier value
            else:
                self._texts.pop((state, name), None)
                set_committed_value(instance, name, value)

    def of(self, instance: Any, name: str) -> Any:
        """Return the value of an attribute, or its text."""
        if self._texts:
            text = self._texts.get((sqla.state_of(instance), name))
            if text is not None:
                return text
        return getattr(instance, name)
