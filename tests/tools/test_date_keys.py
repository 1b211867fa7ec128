"""Tables whose primary key is a date: rows have no refs and can be read."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import Engine, ForeignKey, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """Declarative base of these tests."""


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
def test_a_read_of_dates_alone(tables: Engine, columns: list[str] | None) -> None:
    """Python has no infinite date: they are loaded as texts, and the primary key is not."""
    Base.metadata.create_all(tables)
    days = [dt.date(2026, 1, 1), dt.date(2026, 12, 24)]
    with Session(tables) as plain:
        plain.add_all([Feast(day=day, until=day) for day in days])
        plain.execute(text("update date_key_feasts set until = 'infinity'"))
        plain.commit()
    desk = Toolset([Feast], expect="optional").bind(
        sessionmaker(tables, class_=RefSession), registry=RefRegistry(store=MemoryStore())
    )

    answer = desk.call(
        "c", None, "db_read", {"table": "date_key_feasts", "columns": columns, "order_by": "day"}
    )

    assert not answer.failed, answer.text
    shown = {"day": ["2026-01-01", "2026-12-24"], "until": ["infinity", "infinity"]}
    for name in columns or ["day", "until"]:
        assert [row[name] for row in answer.value["rows"]] == shown[name]
