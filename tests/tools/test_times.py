"""Times with a zone and without: columns of either kind take both, and compare like with like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Date, DateTime, Engine, Interval, Time, Uuid, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import Call, by
from tests.tools.test_operators import Moment


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Shift(Base):
    """Has columns of every kind of time."""

    __tablename__ = "shifts"

    id: Mapped[Any] = mapped_column(
        Uuid, primary_key=True, server_default=text("gen_random_uuid()")
    )
    day: Mapped[Any] = mapped_column(Date, nullable=True)
    begins: Mapped[Any] = mapped_column(DateTime, nullable=True)
    begins_in: Mapped[Any] = mapped_column(DateTime(timezone=True), nullable=True)
    decorated: Mapped[Any] = mapped_column(Moment, nullable=True)
    stamped: Mapped[Any] = mapped_column(postgresql.TIMESTAMP, nullable=True)
    hour: Mapped[Any] = mapped_column(Time, nullable=True)
    hour_in: Mapped[Any] = mapped_column(Time(timezone=True), nullable=True)
    hours: Mapped[Any] = mapped_column(postgresql.ARRAY(Time), nullable=True)
    hours_in: Mapped[Any] = mapped_column(postgresql.ARRAY(Time(timezone=True)), nullable=True)
    times: Mapped[Any] = mapped_column(postgresql.ARRAY(DateTime), nullable=True)
    lasts: Mapped[Any] = mapped_column(Interval, nullable=True)


ZONES = ["", "Z", "+02:00", "-11:00"]
MOMENTS = [f"2026-05-01T18:30:00{zone}" for zone in ZONES]
HOURS = [f"18:30:00{zone}" for zone in ZONES]
GIVEN: dict[str, list[Any]] = {
    "day": ["2026-05-01", "2026-05-01T00:00:00Z"],
    **dict.fromkeys(["begins", "begins_in", "decorated", "stamped"], MOMENTS),
    **dict.fromkeys(["hour", "hour_in"], HOURS),
    "hours": [[each] for each in HOURS],
    "hours_in": [[each] for each in HOURS],
    "times": [[each] for each in MOMENTS],
    "lasts": ["PT45M", "-P1D", "P1DT2H"],
}


@pytest.fixture
def call(tables: Engine, session: RefSession) -> Iterator[Call]:
    """Call a tool on the shifts, which must not refuse it."""
    Base.metadata.create_all(tables)
    toolset = Toolset([Shift])

    def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer = toolset.call(session, tool, {"table": "shifts", **arguments})
        assert "error" not in answer, answer
        return answer

    yield call
    Base.metadata.drop_all(tables)


@pytest.mark.slow
@pytest.mark.parametrize("name", GIVEN)
def test_rows_and_drafts_have_the_same_times(
    call: Call, conversation: Conversation, name: str
) -> None:
    """Created, drafted, edited, filtered, expected and put in order, each with each."""
    rows = [call("db_create", data={name: each})["rows"][0]["id"] for each in GIVEN[name]]
    drafts = [conversation.draft(Shift, {name: each}).ref for each in GIVEN[name]]
    for ref, each in zip(drafts, GIVEN[name], strict=True):
        by_ref = by("id", ref)
        call("db_update", filters=by_ref, data={name: each}, expect={name: each})
    of_rows = dict(zip(rows, GIVEN[name], strict=True))
    of_drafts = dict(zip(drafts, GIVEN[name], strict=True))
    named = {"field": "id", "op": "in", "value": [*rows, *drafts]}

    ops = ["=", "!="] if isinstance(GIVEN[name][0], list) else ["=", "!=", "<", ">=", "in"]
    for op, each in [(op, each) for op in ops for each in GIVEN[name]]:
        asked = {"field": name, "op": op, "value": [each] if op == "in" else each}
        found = [row["id"] for row in call("db_read", filters=[named, asked])["rows"]]
        met = sorted(str(of_rows[ref]) for ref in found if ref in of_rows)
        assert met == sorted(str(of_drafts[ref]) for ref in found if ref in of_drafts)
        assert (each in [of_rows.get(ref) for ref in found]) is (op in ("=", ">=", "in"))
    if len(ops) > 2:
        ordered = call("db_read", filters=[named], order_by=name)["rows"]
        again = call("db_read", filters=[{**named, "value": rows}], order_by=name)["rows"]
        assert [r["id"] for r in ordered if r["id"] in of_rows] == [r["id"] for r in again]
        assert len(ordered) == len(rows) + len(drafts)


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_shown_is_what_is_expected(call: Call, name: str) -> None:
    """Of a row, in the zone in which it was given or any other."""
    for each in GIVEN[name]:
        row = call("db_create", data={name: each})["rows"][0]
        by_ref = by("id", row["id"])
        for expected in (each, row[name]):
            changed = call("db_update", filters=by_ref, data={name: each}, expect={name: expected})
            assert changed["count"] == 1
        shown = {"field": name, "op": "=", "value": row[name]}
        assert row["id"] in [found["id"] for found in call("db_read", filters=[shown])["rows"]]


def test_a_time_without_zone_is_one_of_utc(call: Call) -> None:
    """In a column with zones; and one with a zone is that time of UTC in a column without."""
    data = {"hour": "18:30:00+02:00", "hour_in": "18:30:00", "hours": ["01:00:00+02:00"]}
    row = call("db_create", data=data)["rows"][0]

    assert (row["hour"], row["hour_in"], row["hours"]) == ("16:30:00", "18:30:00Z", ["23:00:00"])


@pytest.mark.slow
@pytest.mark.usefixtures("call")
def test_digits_are_no_time(session: RefSession) -> None:
    """Neither seconds since 1970, nor anything else that nobody would expect."""
    for name in GIVEN:
        for digits in ["20260101", "2026", "0", "-1", "1.5", "1e5", "nan", " 7 "]:
            given = [digits] if name in ("hours", "hours_in", "times") else digits
            toolset = Toolset([Shift])
            for tool, arguments in (
                ("db_create", {"data": {name: given}}),
                ("db_read", {"filters": by(name, given)}),
            ):
                error = toolset.call(session, tool, {"table": "shifts", **arguments})["error"]
                assert (error["code"], error["field"]) == ("invalid_value", name)
