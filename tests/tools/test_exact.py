"""Dates and times that Python cannot hold are shown as text, or reported, on every driver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Date, DateTime, Engine, Time, create_engine, text
from sqlalchemy.dialects.postgresql import INTERVAL, TIMESTAMP
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

from alfred_refs import AsyncRefSession, RefRegistry, RefSession
from alfred_refs.tools import Toolset
from alfred_refs.tools.exact import read_exact


class Base(DeclarativeBase):
    """Declarative base of the events."""


class Event(Base):
    """A row with a value of every type of time."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    day: Mapped[dt.date | None]
    at: Mapped[dt.datetime | None]
    zoned: Mapped[dt.datetime | None] = mapped_column(TIMESTAMP(timezone=True))
    clock: Mapped[dt.time | None] = mapped_column(Time)
    span: Mapped[dt.timedelta | None] = mapped_column(INTERVAL)


ROWS = """
insert into events (id, name, day, at, zoned, clock, span) values
(1, 'usual', '2026-01-02', '2026-01-02 03:04', '2026-01-02 03:04+02', '03:04', '1 day'),
(2, 'endless', 'infinity', 'infinity', 'infinity', '24:00', null),
(3, 'always', '-infinity', '-infinity', '-infinity', null, null),
(4, 'ides', '0044-03-15 BC', '0044-03-15 BC', '0044-03-15 00:00+00 BC', null, null),
(5, 'far', '10000-06-23', '275760-09-13', '275760-09-13 00:00+00', null, null)
"""

SHOWN: dict[str, list[Any]] = {
    "usual": ["2026-01-02", "2026-01-02T03:04:00", "2026-01-02T01:04:00Z", "03:04:00"],
    "endless": ["infinity", "infinity", "infinity", "24:00:00"],
    "always": ["-infinity", "-infinity", "-infinity", None],
    "ides": [
        "0044-03-15 BC",
        "0044-03-15T00:00:00 BC",
        "0044-03-15T00:00:00+00:00 BC",
        None,
    ],
    "far": ["10000-06-23", "275760-09-13T00:00:00", "275760-09-13T00:00:00+00:00", None],
}


@pytest.fixture
def events(database_url: str) -> Iterator[Engine]:
    """A database with the events."""
    engine = create_engine(database_url)
    Base.metadata.create_all(engine)
    RefRegistry(engine).create_tables()
    with engine.begin() as connection:
        connection.execute(text("set local timezone = 'UTC'"))
        connection.execute(text(ROWS))
    yield engine
    engine.dispose()


class _Desk:
    """Calls of one toolset, over one driver."""

    def __init__(self, engine: Engine, driver: str) -> None:
        self.toolset = Toolset([Event], sql=True, expect="optional")
        self.url = engine.url.set(drivername=f"postgresql+{driver}")
        self.registry = RefRegistry(engine)
        self.driver = driver

    async def call(self, tool: str, **arguments: Any) -> Any:
        if self.driver == "asyncpg":
            made = create_async_engine(self.url)
            sessions = async_sessionmaker(made, class_=AsyncRefSession, registry=self.registry)
            async with sessions(conversation="chat-7") as session:
                told = await self.toolset.call_async(session, tool, arguments)
            await made.dispose()
            return told
        engine = create_engine(self.url)
        with sessionmaker(engine, class_=RefSession, registry=self.registry)(
            conversation="chat-7"
        ) as waiting:
            told = self.toolset.call(waiting, tool, arguments)
        engine.dispose()
        return told


DRIVERS = ("psycopg", "psycopg2", "asyncpg")


@pytest.mark.parametrize("driver", DRIVERS)
async def test_sql_shows_what_python_cannot_hold(events: Engine, driver: str) -> None:
    """As PostgreSQL writes it in JSON, and in the order of time."""
    desk = _Desk(events, driver)

    told = await desk.call(
        "db_query", sql="select name, day, at, zoned, clock from events order by at"
    )
    assert {name: shown for name, *shown in told["rows"]} == SHOWN
    assert [row[0] for row in told["rows"]] == ["always", "ides", "usual", "far", "endless"]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_totals_show_what_python_cannot_hold(events: Engine, driver: str) -> None:
    """In the least, the greatest and the groups, in the order of time."""
    desk = _Desk(events, driver)

    most = await desk.call("db_read", table="events", columns=["max(at)", "min(day)"])
    assert most["totals"] == [{"max(at)": "infinity", "min(day)": "-infinity"}]
    groups = await desk.call(
        "db_read", table="events", columns=["day", "count(*)"], order_by="day", order_dir="asc"
    )
    assert [each["day"] for each in groups["totals"]] == [
        SHOWN[name][0] for name in ("always", "ides", "usual", "far", "endless")
    ]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_rows_with_such_values_are_reported(events: Engine, driver: str) -> None:
    """With what to do, and the other columns are read."""
    desk = _Desk(events, driver)

    told = await desk.call("db_read", table="events")
    assert told["error"]["code"] == "invalid_value"
    assert "leave its column or the row out" in told["error"]["message"]
    names = await desk.call("db_read", table="events", columns=["name"])
    assert names["count"] == len(SHOWN)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_numbers_in_documents_may_be_too_long_for_python(
    events: Engine, driver: str
) -> None:
    """Python refuses integers of more than 4,300 digits."""
    desk = _Desk(events, driver)

    told = await desk.call("db_query", sql=f"select cast('{'9' * 5_000}' as jsonb)")

    assert told["error"]["code"] == "invalid_sql"
    assert "Python has not" in told["error"]["message"]


async def test_a_time_without_a_zone_is_in_utc_for_all_tools(events: Engine) -> None:
    """Whatever the zone of the connection."""
    desk = _Desk(events, "psycopg")
    desk.url = desk.url.update_query_dict({"options": "-c timezone=Europe/Berlin"})
    for day in ("2026-01-02T01:04:00", "2026-01-02T01:04:01"):
        filters = [
            {"field": "zoned", "op": ">=", "value": day},
            {"field": "zoned", "op": "<", "value": "2027-01-01"},
        ]
        read = await desk.call("db_read", table="events", columns=["name"], filters=filters)
        asked = await desk.call(
            "db_query",
            sql=f"select name from events where zoned >= '{day}' and zoned < '2027-01-01'",
        )
        assert [row["name"] for row in read["rows"]] == [name for (name,) in asked["rows"]]


@pytest.mark.parametrize(
    ("type_", "sent", "shown"),
    [
        (Date(), '"2026-05-01"', dt.date(2026, 5, 1)),
        (
            DateTime(),
            '"2026-05-01T18:30:00.5+00:00"',
            dt.datetime(2026, 5, 1, 18, 30, 0, 500_000, dt.UTC),
        ),
        (Time(), '"24:00:00"', "24:00:00"),
        (Date(), None, None),
    ],
)
def test_texts_are_read_as_values(type_: Any, sent: str | None, shown: Any) -> None:
    """As Python's where it has one."""
    assert read_exact(type_, sent) == shown
