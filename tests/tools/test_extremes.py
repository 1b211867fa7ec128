"""Values at the ends of what columns have: pages go on beyond each, in the database's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import CHAR, Date, DateTime, Engine, Float, Numeric, text
from sqlalchemy.dialects.postgresql import REAL
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import AsyncRefSession, Conversation, RefSession
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """Declarative base of these tests."""


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
    readings: Engine,
    aio: AsyncRefSession,
    chat: Conversation,
    name: str,
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
