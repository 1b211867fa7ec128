"""Dates and times that Python cannot hold are shown as text, or reported, on every driver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import ARRAY, Date, DateTime, Engine, ForeignKey, Time, create_engine, select, text
from sqlalchemy.dialects.postgresql import INTERVAL, TIMESTAMP
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    load_only,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import AsyncRefSession, RefRegistry, RefSession
from alfred_refs.context import Context
from alfred_refs.tools import Toolset
from alfred_refs.tools.exact import read_exact


class Base(DeclarativeBase):
    """Declarative base of the events."""


class Calendar(Base):
    """Has events."""

    __tablename__ = "calendars"

    id: Mapped[int] = mapped_column(primary_key=True)
    events: Mapped[list[Event]] = relationship()


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
    days: Mapped[list[dt.date] | None] = mapped_column(ARRAY(Date))
    clocks: Mapped[list[dt.time] | None] = mapped_column(ARRAY(Time))
    calendar_id: Mapped[int | None] = mapped_column(ForeignKey("calendars.id"))


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
        self.toolset = Toolset([Calendar, Event], sql=True, expect="optional")
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

    async def instances(self, *names: str) -> list[Event]:
        """Read events with the tool, and return the instances that the session has then."""
        engine = create_engine(self.url)
        with RefSession(engine, registry=self.registry, conversation="chat-7") as session:
            named = select(Event).where(Event.name.in_(names)).order_by(Event.id)
            events = list(session.scalars(named.options(load_only(Event.name))))
            self.toolset.call(session, "db_read", {"table": "events"})
        engine.dispose()
        return events


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
async def test_rows_show_what_python_cannot_hold(events: Engine, driver: str) -> None:
    """As `db_query` does, page by page in the order of time, whatever columns are shown."""
    desk = _Desk(events, driver)

    asked: dict[str, Any] = {"table": "events", "order_by": "at"}
    whole = await desk.call("db_read", **asked)
    assert {row["name"]: _shown(row) for row in whole["rows"]} == SHOWN
    seen, page = [], {"more": True}
    while page["more"]:
        page = await desk.call("db_read", **asked, columns=["name"], limit=1)
        seen.append(page["rows"][0]["name"])
        asked["cursor"] = page.get("cursor")
    assert seen == ["always", "ides", "usual", "far", "endless"]


def _shown(row: Any) -> list[Any]:
    return [row[name] for name in ("day", "at", "zoned", "clock")]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_lists_show_what_python_cannot_hold(events: Engine, driver: str) -> None:
    """Drivers returned 9999-12-31 for an infinite date in a list, and 00:00 for 24:00."""
    desk = _Desk(events, driver)
    with events.begin() as connection:
        days, clocks = "{infinity,2026-01-02,null}", "{24:00,03:04}"
        connection.execute(text(f"update events set days = '{days}', clocks = '{clocks}'"))

    asked = await desk.call("db_query", sql="select days, clocks from events limit 1")
    read = await desk.call("db_read", table="events", limit=1)

    shown = [["infinity", "2026-01-02", None], ["24:00:00", "03:04:00"]]
    assert asked["rows"] == [shown]
    assert [read["rows"][0][name] for name in ("days", "clocks")] == shown


@pytest.mark.parametrize("driver", DRIVERS)
async def test_intervals_that_python_cannot_hold_are_shown(events: Engine, driver: str) -> None:
    """Drivers returned zero for infinity, and 1,494,494 years for 178 million."""
    desk = _Desk(events, driver)
    spans = {
        "-1 year -2 months 3 days 04:05:06.789": "-P1Y56DT19H54M53.211S",
        "178000000 years": "PT5613408000000000.000000S",
        "1 month": "P30D",
        "infinity": "infinity",
        "-infinity": "-infinity",
    }
    with events.begin() as connection:
        for number, span in enumerate(spans, start=1):
            connection.execute(text(f"update events set span = '{span}' where id = {number}"))

    asked = await desk.call("db_query", sql="select span from events order by id")
    read = await desk.call("db_read", table="events")

    assert [row[0] for row in asked["rows"]] == [*spans.values()]
    assert [row["span"] for row in read["rows"]] == [*spans.values()]
    with events.begin() as connection:
        connection.execute(text("update events set span = '2 years' where id = 2"))
    most = await desk.call("db_read", table="events", columns=["max(span)", "min(span)"])
    assert most["totals"] == [{"max(span)": "infinity", "min(span)": "-infinity"}]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_rows_inside_of_others_show_what_python_cannot_hold(
    events: Engine, driver: str
) -> None:
    """And a row that is read for a prompt."""
    desk = _Desk(events, driver)
    with events.begin() as connection:
        connection.execute(text("insert into calendars (id) values (1)"))
        connection.execute(text("update events set calendar_id = 1"))

    told = await desk.call("db_read", table="calendars", columns=["events"])
    assert {row["name"]: _shown(row) for row in told["rows"][0]["events"]} == SHOWN
    if driver != "asyncpg":
        engine = create_engine(desk.url)
        sessions = sessionmaker(engine, class_=RefSession)
        bound = desk.toolset.bind(sessions, registry=desk.registry)
        bound.call("chat-8", None, "db_read", {"table": "events"})
        prompt = Context(bound.conversation("chat-8", None)).render("act")
        engine.dispose()
        assert all(each in prompt for each in ("275760-09-13T00:00:00", "24:00:00", " BC"))


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
async def test_rows_with_such_values_are_written(events: Engine, driver: str) -> None:
    """Other columns of them, if a value that Python has is as `expect` says; deleted, too."""
    desk = _Desk(events, driver)
    await desk.call("db_read", table="events")
    for name, values in SHOWN.items():
        filters = [{"field": "name", "op": "=", "value": name}]
        [row] = (await desk.call("db_read", table="events", filters=filters))["rows"]
        named = {"table": "events", "filters": [{"field": "id", "op": "=", "value": row["id"]}]}
        other = await desk.call(
            "db_update", **named, data={"name": "x"}, expect={"day": "9999-12-31"}
        )
        changed = await desk.call("db_update", **named, data={"name": "y"}, expect={"name": name})

        assert other["error"]["code"] == "unexpected_row"
        assert f"and has '{values[0]}'" in other["error"]["message"]
        assert _shown(changed["rows"][0]) == values
        gone = await desk.call("db_delete", **named, expect={"name": "y"})
        assert gone["deleted"] == [row["id"]]


async def test_values_that_python_has_are_attributes_of_instances(events: Engine) -> None:
    """They are as a session would load them; others are left to be loaded."""
    [usual, endless] = await _Desk(events, "psycopg").instances("usual", "endless")

    assert vars(usual)["day"] == dt.date(2026, 1, 2)
    assert vars(usual)["zoned"] == dt.datetime(2026, 1, 2, 1, 4, tzinfo=dt.UTC)
    assert "day" not in vars(endless)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_numbers_in_documents_may_be_too_long_for_python(
    events: Engine, driver: str
) -> None:
    """Python refuses integers of more than 4,300 digits."""
    desk = _Desk(events, driver)

    told = await desk.call("db_query", sql=f"select cast('{'9' * 5_000}' as jsonb)")

    assert told["error"]["code"] == "invalid_sql"
    assert "no equivalent in Python" in told["error"]["message"]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
async def test_a_time_without_a_zone_is_in_utc_for_all_tools(events: Engine, driver: str) -> None:
    """Whatever the zone of the connection: a day, too, begins at midnight in UTC."""
    desk = _Desk(events, driver)
    desk.url = desk.url.update_query_dict({"options": "-c timezone=America/New_York"})
    found = []
    for day in ("2026-01-02T01:04:00", "2026-01-02T01:04:01", "2026-01-02", "2026-01-03"):
        filters = [
            {"field": "zoned", "op": ">=", "value": day},
            {"field": "zoned", "op": "<", "value": "2027-01-01"},
        ]
        read = await desk.call("db_read", table="events", columns=["name"], filters=filters)
        asked = await desk.call(
            "db_query",
            sql=f"select name from events where zoned >= '{day}' and zoned < '2027-01-01'",
        )
        found.append([row["name"] for row in read["rows"]])
        assert found[-1] == [name for (name,) in asked["rows"]]
    assert [len(each) for each in found] == [1, 0, 1, 0]


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
