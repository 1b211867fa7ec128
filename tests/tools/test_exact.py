"""Values that Python cannot hold, or not exactly: shown as text, reported, and put in order.

On every driver; pages go on beyond each, in the database's order.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    CHAR,
    Date,
    DateTime,
    Engine,
    Float,
    ForeignKey,
    Numeric,
    Time,
    create_engine,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import INTERVAL, REAL, TIMESTAMP
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    load_only,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import AsyncRefSession, Conversation, RefRegistry, RefSession
from alfred_refs.context import Context
from alfred_refs.tools import Toolset
from alfred_refs.tools.exact import read_exact


class Base(DeclarativeBase):
    """Declarative base of these tests."""


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
    "ides": ["0044-03-15 BC", "0044-03-15T00:00:00 BC", "0044-03-15T00:00:00+00:00 BC", None],
    "far": ["10000-06-23", "275760-09-13T00:00:00", "275760-09-13T00:00:00+00:00", None],
}
BY_TIME = ["always", "ides", "usual", "far", "endless"]


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


@pytest.fixture(params=["psycopg", "psycopg2", "asyncpg"])
def desk(request: pytest.FixtureRequest, events: Engine) -> _Desk:
    """Calls over each driver."""
    return _Desk(events, request.param)


async def test_sql_shows_what_python_cannot_hold(desk: _Desk) -> None:
    """As PostgreSQL writes it in JSON, and in the order of time."""
    sql = "select name, day, at, zoned, clock from events order by at"
    told = await desk.call("db_query", sql=sql)
    assert {name: shown for name, *shown in told["rows"]} == SHOWN
    assert [row[0] for row in told["rows"]] == BY_TIME


async def test_totals_show_what_python_cannot_hold(desk: _Desk) -> None:
    """In the least, the greatest and the groups, in the order of time."""
    most = await desk.call("db_read", table="events", columns=["max(at)", "min(day)"])
    assert most["totals"] == [{"max(at)": "infinity", "min(day)": "-infinity"}]
    days: dict[str, Any] = {"columns": ["day", "count(*)"], "order_by": "day"}
    groups = await desk.call("db_read", table="events", **days, order_dir="asc")
    assert [each["day"] for each in groups["totals"]] == [SHOWN[name][0] for name in BY_TIME]


async def test_rows_show_what_python_cannot_hold(desk: _Desk) -> None:
    """As `db_query` does, page by page in the order of time, whatever columns are shown."""
    asked: dict[str, Any] = {"table": "events", "order_by": "at"}
    whole = await desk.call("db_read", **asked)
    assert {row["name"]: _shown(row) for row in whole["rows"]} == SHOWN
    seen, page = [], {"more": True}
    while page["more"]:
        page = await desk.call("db_read", **asked, columns=["name"], limit=1)
        seen.append(page["rows"][0]["name"])
        asked["cursor"] = page.get("cursor")
    assert seen == BY_TIME


def _shown(row: Any) -> list[Any]:
    return [row[name] for name in ("day", "at", "zoned", "clock")]


async def test_lists_show_what_python_cannot_hold(desk: _Desk, events: Engine) -> None:
    """Drivers returned 9999-12-31 for an infinite date in a list, and 00:00 for 24:00."""
    with events.begin() as connection:
        days, clocks = "{infinity,2026-01-02,null}", "{24:00,03:04}"
        connection.execute(text(f"update events set days = '{days}', clocks = '{clocks}'"))

    asked = await desk.call("db_query", sql="select days, clocks from events limit 1")
    read = await desk.call("db_read", table="events", limit=1)

    shown = [["infinity", "2026-01-02", None], ["24:00:00", "03:04:00"]]
    assert asked["rows"] == [shown]
    assert [read["rows"][0][name] for name in ("days", "clocks")] == shown


async def test_intervals_that_python_cannot_hold_are_shown(desk: _Desk, events: Engine) -> None:
    """Drivers returned zero for infinity, and 1,494,494 years for 178 million."""
    spans = {
        "-1 year -2 months 3 days 04:05:06.789": "-P1Y56DT19H54M53.211S",
        "178000000 years": "PT5613408000000000.000000S",
        "1 month": "P30D",
        "infinity": "infinity",
        "-infinity": "-infinity",
    }
    with events.begin() as connection:
        if (connection.dialect.server_version_info or ()) < (17,):
            pytest.skip("no interval is infinite there")
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


async def test_rows_inside_of_others_show_what_python_cannot_hold(
    desk: _Desk, events: Engine
) -> None:
    """And a row that is read for a prompt."""
    with events.begin() as connection:
        connection.execute(text("insert into calendars (id) values (1)"))
        connection.execute(text("update events set calendar_id = 1"))

    told = await desk.call("db_read", table="calendars", columns=["events"])
    assert {row["name"]: _shown(row) for row in told["rows"][0]["events"]} == SHOWN
    if desk.driver != "asyncpg":
        engine = create_engine(desk.url)
        sessions = sessionmaker(engine, class_=RefSession)
        bound = desk.toolset.bind(sessions, registry=desk.registry)
        bound.call("chat-8", None, "db_read", {"table": "events"})
        prompt = Context(bound.conversation("chat-8", None)).render("act")
        engine.dispose()
        assert all(each in prompt for each in ("275760-09-13T00:00:00", "24:00:00", " BC"))


@pytest.mark.slow
async def test_rows_with_such_values_are_written(desk: _Desk) -> None:
    """Other columns of them, if a value that Python has is as `expect` says; deleted, too."""
    await desk.call("db_read", table="events")
    for name, values in SHOWN.items():
        filters = [{"field": "name", "op": "=", "value": name}]
        [row] = (await desk.call("db_read", table="events", filters=filters))["rows"]
        named = {"table": "events", "filters": [{"field": "id", "op": "=", "value": row["id"]}]}
        expect = {"day": "9999-12-31"}
        other = await desk.call("db_update", **named, data={"name": "x"}, expect=expect)
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


async def test_numbers_in_documents_may_be_too_long_for_python(desk: _Desk) -> None:
    """Python refuses integers of more than 4,300 digits."""
    told = await desk.call("db_query", sql=f"select cast('{'9' * 5_000}' as jsonb)")

    assert told["error"]["code"] == "invalid_sql"
    assert "no equivalent in Python" in told["error"]["message"]


@pytest.mark.parametrize("desk", ["psycopg", "psycopg2"], indirect=True)
async def test_a_time_without_a_zone_is_in_utc_for_all_tools(desk: _Desk) -> None:
    """Whatever the zone of the connection: a day, too, begins at midnight in UTC."""
    desk.url = desk.url.update_query_dict({"options": "-c timezone=America/New_York"})
    found = []
    for day in ("2026-01-02T01:04:00", "2026-01-02T01:04:01", "2026-01-02", "2026-01-03"):
        filters = [
            {"field": "zoned", "op": ">=", "value": day},
            {"field": "zoned", "op": "<", "value": "2027-01-01"},
        ]
        read = await desk.call("db_read", table="events", columns=["name"], filters=filters)
        sql = f"select name from events where zoned >= '{day}' and zoned < '2027-01-01'"
        asked = await desk.call("db_query", sql=sql)
        found.append([row["name"] for row in read["rows"]])
        assert found[-1] == [name for (name,) in asked["rows"]]
    assert [len(each) for each in found] == [1, 0, 1, 0]


HALF_PAST = dt.datetime(2026, 5, 1, 18, 30, 0, 500_000, dt.UTC)


@pytest.mark.parametrize(
    ("type_", "sent", "shown"),
    [
        (Date(), '"2026-05-01"', dt.date(2026, 5, 1)),
        (DateTime(), '"2026-05-01T18:30:00.5+00:00"', HALF_PAST),
        (Time(), '"24:00:00"', "24:00:00"),
        (Date(), None, None),
    ],
)
def test_texts_are_read_as_values(type_: Any, sent: str | None, shown: Any) -> None:
    """As Python's where it has one."""
    assert read_exact(type_, sent) == shown


# pages


class Reading(Base):
    """Has a column of every kind that has values beyond Python's, or more exact ones."""

    __tablename__ = "readings"

    id: Mapped[int] = mapped_column(primary_key=True)
    day: Mapped[Any] = mapped_column(Date, nullable=True)
    at: Mapped[Any] = mapped_column(DateTime, nullable=True)
    at_in: Mapped[Any] = mapped_column(DateTime(timezone=True), nullable=True)
    double: Mapped[Any] = mapped_column(Float, nullable=True)
    single: Mapped[Any] = mapped_column(REAL, nullable=True)
    exact: Mapped[Any] = mapped_column(Numeric, nullable=True)
    rounded: Mapped[Any] = mapped_column(Numeric(asdecimal=False), nullable=True)
    decimal: Mapped[Any] = mapped_column(Float(asdecimal=True), nullable=True)
    code: Mapped[Any] = mapped_column(CHAR(3), nullable=True)


ENDS = ["-infinity", "0001-01-01", "2026-05-01", "9999-12-31", "infinity"]
NUMBERS = ["-Infinity", "-1e30", "0.1", "1e30", "Infinity", "NaN", "NaN"]
NEAR = ["0.12345678901234567890", "0.12345678901234567891", "0.12345678901234567892"]

# column -> what rows have in it, each twice, the last one of them all null
VALUES: dict[str, list[str]] = {
    "day": ENDS[1:-1],
    "at": [*ENDS[1:-1], "9999-12-31 23:59:59.999999"],
    "at_in": ["0001-01-01 00:00+00", "2026-05-01 00:00+00", "9999-12-31 23:59:59.999999+00"],
    "double": NUMBERS,
    "single": NUMBERS,
    "exact": [*NUMBERS, *NEAR],
    "rounded": [*NUMBERS, *NEAR],
    "decimal": ["0.12345678901", "0.12345678902", "0.12345678903"],
    "code": ["a", "ab", "ab\t", "b"],
}


def filled(engine: Engine, name: str, values: list[str]) -> list[str]:
    """Fill the table, and return the statement of its order without the direction."""
    given = ", ".join(f"('{value}')" for value in [*values, *reversed(values)])
    with engine.begin() as connection:
        connection.execute(text(f"INSERT INTO readings ({name}) VALUES {given}, (NULL)"))
    orders = (f"{name} {way} NULLS LAST, id {way}" for way in ("ASC", "DESC"))
    return [f"SELECT id FROM readings ORDER BY {order}" for order in orders]


def asked(name: str, way: str, cursor: str | None) -> dict[str, Any]:
    """Return the arguments of a read of one row."""
    order = {"order_by": name, "order_dir": way, "limit": 1, "columns": ["id", name]}
    return {"table": "readings", **order} | ({"cursor": cursor} if cursor else {})


@pytest.fixture
def readings(tables: Engine) -> Iterator[Engine]:
    """An empty table."""
    Base.metadata.create_all(tables)
    yield tables
    Base.metadata.drop_all(tables)


@pytest.mark.parametrize("name", VALUES)
def test_pages_go_beyond_every_value(
    readings: Engine, session: RefSession, conversation: Conversation, name: str
) -> None:
    """Each row is shown once, in the order that the database has it."""
    statements = filled(readings, name, VALUES[name])
    toolset = Toolset([Reading])
    for way, statement in zip(("asc", "desc"), statements, strict=True):
        shown, cursor, more = list[Any](), None, True
        while more and len(shown) <= 2 * len(VALUES[name]):
            answer = toolset.call(session, "db_read", asked(name, way, cursor))
            assert "error" not in answer, answer
            shown += [conversation.resolve(row["id"]) for row in answer["rows"]]
            cursor, more = answer.get("cursor"), answer["more"]
        with readings.connect() as connection:
            assert shown == list(connection.scalars(text(statement)))


@pytest.mark.parametrize("name", ["day", "at", "at_in"])
async def test_pages_go_beyond_infinity(
    readings: Engine, aio: AsyncRefSession, chat: Conversation, name: str
) -> None:
    """Whether the driver has it or not."""
    statement, _ = filled(readings, name, ENDS)
    toolset = Toolset([Reading])
    refs, cursor, more = list[str](), None, True
    while more and len(refs) <= 2 * len(ENDS):
        answer = await toolset.call_async(aio, "db_read", asked(name, "asc", cursor))
        refs += [row["id"] for row in answer["rows"]]
        cursor, more = answer.get("cursor"), answer["more"]
    keys = await aio.run_sync(lambda _: chat.resolve_all(refs))
    with readings.connect() as connection:
        assert keys == list(connection.scalars(text(statement)))


# primary keys that are dates


class Holiday(Base):
    """Is identified by its day."""

    __tablename__ = "date_key_holidays"

    day: Mapped[dt.date] = mapped_column(primary_key=True)


class Feast(Holiday):
    """Has the day in a table of its own."""

    __tablename__ = "date_key_feasts"

    day: Mapped[dt.date] = mapped_column(ForeignKey("date_key_holidays.day"), primary_key=True)
    until: Mapped[dt.date]


@pytest.mark.parametrize("columns", [["day"], ["until"], ["day", "until"], None])
def test_a_read_of_dates_alone(
    tables: Engine, session: RefSession, columns: list[str] | None
) -> None:
    """Python has no infinite date: they are loaded as texts, and the primary key is not."""
    Base.metadata.create_all(tables)
    days = [dt.date(2026, 1, 1), dt.date(2026, 12, 24)]
    with Session(tables) as plain:
        plain.add_all([Feast(day=day, until=day) for day in days])
        plain.flush()
        plain.execute(text("update date_key_feasts set until = 'infinity'"))
        plain.commit()
    asked = {"table": "date_key_feasts", "columns": columns, "order_by": "day"}
    answer = Toolset([Feast]).call(session, "db_read", asked)

    shown = {"day": ["2026-01-01", "2026-12-24"], "until": ["infinity", "infinity"]}
    for name in columns or ["day", "until"]:
        assert [row[name] for row in answer["rows"]] == shown[name]
