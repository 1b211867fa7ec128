"""Filters and orders go by what rows show, though the database compares something else.

Months are days where drivers load them, null in JSON is shown as no value, and an array has as
many dimensions as each row likes.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter
from sqlalchemy import ARRAY, JSON, Engine, Integer, Interval, text
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import RefSession
from alfred_refs.tools import Toolset
from tests.tools.models import custom


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Trip(Base):
    """Has durations by three types, documents by two, and lists."""

    __tablename__ = "trips"

    id: Mapped[int] = mapped_column(primary_key=True)
    generic: Mapped[Any] = mapped_column(Interval, nullable=True)
    native: Mapped[Any] = mapped_column(INTERVAL, nullable=True)
    decorated: Mapped[Any] = mapped_column(custom(INTERVAL), nullable=True)
    plain: Mapped[Any] = mapped_column(JSON, nullable=True)
    parsed: Mapped[Any] = mapped_column(JSONB, nullable=True)
    days: Mapped[Any] = mapped_column(ARRAY(Integer), nullable=True)
    weeks: Mapped[Any] = mapped_column(ARRAY(Integer, dimensions=2), nullable=True)


LENGTHS = [
    *("-14 months", "-1 year", "0", "360 days"),
    *("1 year", "364 days", "1 year 1 month", "395 d"),
]
DURATION = TypeAdapter(dt.timedelta)
HOLD: dict[str, Callable[[dt.timedelta, dt.timedelta], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": operator.eq,
    "not_in": operator.ne,
}


@pytest.fixture
def trips(tables: Engine) -> Iterator[Engine]:
    """An empty table."""
    Base.metadata.create_all(tables)
    yield tables
    Base.metadata.drop_all(tables)


def fill(engine: Engine, name: str, values: list[str]) -> None:
    """Fill a column as no program with SQLAlchemy would, and add a row without value."""
    given = ", ".join(f"('{value}')" for value in values)
    with engine.begin() as connection:
        connection.execute(text(f"INSERT INTO trips ({name}) VALUES {given}, (NULL)"))


def pages(session: RefSession, name: str, way: str, count: int) -> list[dict[str, Any]]:
    """Return rows in the order of a column, read page by page: as many as there are."""
    shown, asked = list[Any](), {"table": "trips", "order_by": name, "order_dir": way, "limit": 1}
    answer: dict[str, Any] = {"more": True}
    while answer["more"] and len(shown) <= count:
        given = {"cursor": answer["cursor"]} if "cursor" in answer else {}
        answer = Toolset([Trip]).call(session, "db_read", asked | given)
        shown += answer["rows"]
    assert len({row["id"] for row in shown}) == len(shown) == count
    return shown


def length_of(row: dict[str, Any], name: str) -> dt.timedelta:
    """Return the duration that a row shows."""
    return DURATION.validate_python(row[name])


@pytest.mark.parametrize("name", ["generic", "native", "decorated"])
@pytest.mark.parametrize("way", ["asc", "desc"])
def test_durations_come_in_the_order_that_they_show(
    trips: Engine, session: RefSession, name: str, way: str
) -> None:
    """Page by page, each row once."""
    fill(trips, name, LENGTHS)
    shown = pages(session, name, way, len(LENGTHS) + 1)

    lengths = [length_of(row, name) for row in shown[:-1]]
    assert shown[-1][name] is None
    assert lengths == sorted(lengths, reverse=way == "desc")


def test_pages_go_beyond_infinite_durations(trips: Engine, session: RefSession) -> None:
    """Which PostgreSQL has since its version 17."""
    with trips.connect() as connection:
        version = connection.dialect.server_version_info or ()
    if version < (17,):
        pytest.skip("no interval is infinite there")
    fill(trips, "native", ["infinity", "-infinity", "0", "1 day", "-1 day", "infinity"])
    for way in ("asc", "desc"):
        pages(session, "native", way, 7)


@pytest.mark.parametrize("name", ["generic", "native", "decorated"])
def test_durations_are_compared_as_they_show(
    trips: Engine, session: RefSession, name: str
) -> None:
    """A filter with what a row shows meets what it says, and so does a filter on a draft."""
    fill(trips, name, LENGTHS)
    toolset = Toolset([Trip])
    every = toolset.call(session, "db_read", {"table": "trips"})["rows"]
    for op, hold in HOLD.items():
        for row in every[:-1]:
            value = [row[name]] if "in" in op else row[name]
            filters = [{"field": name, "op": op, "value": value}]
            answer = toolset.call(session, "db_read", {"table": "trips", "filters": filters})
            wanted = length_of(row, name)
            has = {e["id"]: length_of(e, name) for e in every if e[name] is not None}
            met = [id_ for id_, length in has.items() if hold(length, wanted)]
            assert sorted(e["id"] for e in answer["rows"]) == sorted(met), op


@pytest.mark.parametrize("name", ["plain", "parsed"])
def test_null_in_json_is_no_value(trips: Engine, session: RefSession, name: str) -> None:
    """What contains something is not known of it, however often that is negated."""
    fill(trips, name, ["null", '{"a": 1}', '{"b": null}'])
    toolset = Toolset([Trip])
    filters: Any = {"field": name, "op": "contains", "value": {"a": 1}}
    for expected in ({"a": 1}, {"b": None}, {"a": 1}, {"b": None}):
        answer = toolset.call(session, "db_read", {"table": "trips", "filters": [filters]})
        assert [row[name] for row in answer["rows"]] == [expected], filters
        filters = {"not": filters}


@pytest.mark.usefixtures("trips")
def test_an_index_serves_what_a_document_contains(session: RefSession, sent: list[str]) -> None:
    """The condition is on the column itself, unless rows are wanted that do not meet it."""
    toolset = Toolset([Trip])
    wanted: Any = {"field": "parsed", "op": "contains", "value": {"a": 1}}
    for filter_, is_plain in ((wanted, True), ({"not": wanted}, False)):
        sent.clear()
        toolset.call(session, "db_read", {"table": "trips", "filters": [filter_]})
        [statement] = [each for each in sent if "@>" in each]
        assert ("nullif" not in statement.lower()) is is_plain


def test_arrays_are_shown_with_the_dimensions_they_have(
    trips: Engine, session: RefSession
) -> None:
    """More than the column says."""
    with trips.begin() as connection:
        connection.execute(text("INSERT INTO trips (days) VALUES ('{{1,2},{3,NULL}}')"))
    [row] = Toolset([Trip]).call(session, "db_read", {"table": "trips"})["rows"]
    assert row["days"] == [[1, 2], [3, None]]


@pytest.mark.parametrize("weeks", [[[1], [1, 2]], [[], [1]], [None, [1]], [[]]])
@pytest.mark.usefixtures("trips")
def test_lists_that_the_database_has_not_are_refused(session: RefSession, weeks: Any) -> None:
    """With the name of their column."""
    asked = {"table": "trips", "data": {"weeks": weeks}}
    error = Toolset([Trip]).call(session, "db_create", asked)["error"]
    assert (error["code"], error["field"]) == ("invalid_value", "weeks")
