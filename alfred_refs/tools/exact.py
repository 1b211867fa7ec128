"""Values that Python cannot hold, as text.

PostgreSQL has dates and times that Python's `datetime` has not: `infinity`, years before 1 and
after 9999, and the time `24:00`. Drivers raise an error for them, or, as psycopg2 and asyncpg do,
return another date. So a SELECT that shows such a column asks PostgreSQL for its text, and
`read_exact` makes the Python value of it; a text that has none stays a text.

>>> from sqlalchemy import column
>>> print(select_exact(column("day", Date())))
CAST(to_json(day) AS TEXT)
>>> read_exact(Date(), '"2026-05-01"')
datetime.date(2026, 5, 1)
>>> read_exact(Date(), '"infinity"')
'infinity'

`to_json()` writes dates in ISO 8601, whatever the session's `DateStyle`.

Limits: custom types, arrays and intervals are left to the driver, which shows a month of an
interval as 30 days. Where a driver raises an error, a session raises `DataError`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Date, DateTime, Select, Text, Time, cast, func, select
from sqlalchemy.types import TypeEngine

_PARSERS: Mapping[type[TypeEngine[Any]], Callable[[str], Any]] = {
    Date: dt.date.fromisoformat,
    DateTime: dt.datetime.fromisoformat,
    Time: dt.time.fromisoformat,
}


def _parser(type_: TypeEngine[Any]) -> Callable[[str], Any] | None:
    return next((parse for class_, parse in _PARSERS.items() if isinstance(type_, class_)), None)


def is_text_needed(type_: TypeEngine[Any]) -> bool:
    """Return whether values of a type are selected as text, and read by `read_exact`."""
    return _parser(type_) is not None


def select_exact(element: Any) -> Any:
    """Return the expression to select in place of one whose type `is_text_needed`."""
    return cast(func.to_json(element), Text())


def select_exactly(statement: Select[Any]) -> Select[Any]:
    """Return a SELECT of the same rows, whose dates and times are read by `read_exact`."""
    if not any(is_text_needed(each.type) for each in statement.selected_columns):
        return statement
    rows = statement.subquery()
    return select(*(select_exact(each) if is_text_needed(each.type) else each for each in rows.c))


def read_exact(type_: TypeEngine[Any], loaded: str | None) -> Any:
    """Return the Python value of a text of `select_exact`; the text if there is none."""
    parse = _parser(type_)
    if loaded is None or parse is None:
        return loaded
    text = loaded.strip('"')
    if text.startswith("24:"):  # newer versions of Python read it as midnight
        return text
    try:
        return parse(text)
    except ValueError:
        return text
