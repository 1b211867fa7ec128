"""Rows that exclude each other, and constraints that are looked at when the call ends."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Computed,
    Engine,
    ForeignKey,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    column,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import INT4RANGE, ExcludeConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Toolset
from tests.models import Key
from tests.tools.conftest import counted

Named = dict[str, Any]


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Stay(Base):
    """Takes some nights, by an expression of two columns."""

    __tablename__ = "stays"
    __table_args__ = (
        ExcludeConstraint(
            (func.int4range(column("first"), column("last")), "&&"), name="stays_apart"
        ),
    )

    id: Mapped[Key]
    first: Mapped[int]
    last: Mapped[int]


class Shift(Base):
    """Excludes others by a column that the database makes; its number is looked at last."""

    __tablename__ = "shifts"
    __table_args__ = (
        ExcludeConstraint((column("during"), "&&"), name="shifts_apart"),
        UniqueConstraint("number", name="shifts_number", deferrable=True, initially="DEFERRED"),
    )

    id: Mapped[Key]
    first: Mapped[int]
    last: Mapped[int]
    number: Mapped[int | None]
    after_id: Mapped[Any] = mapped_column(
        Uuid,
        ForeignKey("shifts.id", name="shifts_after", deferrable=True, initially="DEFERRED"),
        nullable=True,
    )
    during: Mapped[Any] = mapped_column(
        INT4RANGE, Computed("int4range(first, last)", persisted=True)
    )


class Seat(Base):
    """Is mapped without the column that is unique, which the database fills in."""

    __table__ = Table(
        "seats",
        Base.metadata,
        Column("id", Uuid, primary_key=True, server_default=text("gen_random_uuid()")),
        Column("number", Integer, unique=True, server_default="1"),
        Column("note", Text),
    )
    __mapper_args__ = {"exclude_properties": ["number"]}  # noqa: RUF012


@pytest.fixture
def toolset(tables: Engine) -> Toolset:
    """A toolset on both."""
    Base.metadata.create_all(tables)
    return Toolset([Stay, Shift, Seat])


def nights(engine: Engine, table: str) -> list[tuple[int, int]]:
    """Return what is taken."""
    with Session(engine) as plain:
        found = plain.execute(text(f"select first, last from {table} order by first"))
        return [(first, last) for first, last in found]


TWO: list[Named] = [{"first": 1, "last": 3}, {"first": 5, "last": 7}]


@pytest.mark.parametrize(("table", "columns"), [("stays", ["first"]), ("shifts", ["during"])])
def test_rows_that_exclude_each_other_are_a_conflict(
    session: RefSession, toolset: Toolset, tables: Engine, table: str, columns: list[str]
) -> None:
    """Of a new row and of a changed one; by the columns that the model may use, if any."""
    assert toolset.call(session, "db_create", {"table": table, "data": TWO})["count"] == 2
    second = [{"field": "first", "op": "=", "value": 5}]
    for tool, asked in (
        ("db_create", {"data": {"first": 2, "last": 4}}),
        ("db_create", {"data": [{"first": 8, "last": 9}, {"first": 8, "last": 9}]}),
        ("db_update", {"data": {"first": 2}, "filters": second}),
    ):
        error = counted(toolset, session, tool, {"table": table, **asked})["error"]
        assert (error["code"], error["table"], error["columns"]) == ("conflict", table, columns)
        [column] = columns
        assert error["message"].startswith(f"a row of {table!r} is there ")
        assert f"whose values in {column!r} exclude the given ones, or" in error["message"]
        assert "_apart" not in error["message"]
    assert nights(tables, table) == [(1, 3), (5, 7)]


def test_a_draft_that_is_excluded_stays_one(
    session: RefSession, toolset: Toolset, tables: Engine, conversation: Conversation
) -> None:
    """Nobody has saved it: the row that is there is another."""
    toolset.call(session, "db_create", {"table": "stays", "data": TWO})
    draft = conversation.draft(Stay, {"first": 2, "last": 4}).ref
    asked = {"table": "stays", "from_draft": draft}
    assert toolset.call(session, "db_create", asked)["error"]["code"] == "conflict"
    assert [each.ref for each in conversation.drafts()] == [draft]
    saved = toolset.call(session, "db_create", {**asked, "data": {"first": 3}})

    assert saved["saved"] == {draft: saved["rows"][0]["id"]}
    assert nights(tables, "stays") == [(1, 3), (3, 4), (5, 7)]


def test_what_is_looked_at_when_the_call_ends_is_told_as_well(
    session: RefSession, toolset: Toolset, tables: Engine
) -> None:
    """Constraints that are deferred fail at the commit, and nothing is there then."""
    first = {"table": "shifts", "data": {"first": 1, "last": 3, "number": 1}}
    [row] = toolset.call(session, "db_create", first)["rows"]
    second = {"table": "shifts", "data": {"first": 5, "last": 7, "number": 1}}
    error = toolset.call(session, "db_create", second)["error"]
    assert (error["code"], error["columns"]) == ("conflict", ["number"])

    with Session(tables) as plain:
        plain.execute(text("delete from shifts"))
        plain.commit()
    third = {"table": "shifts", "data": {"first": 5, "last": 7, "after_id": row["id"]}}
    error = toolset.call(session, "db_create", third)["error"]
    assert (error["code"], error["columns"]) == ("missing_reference", ["after_id"])
    assert nights(tables, "shifts") == []
    assert toolset.call(session, "db_create", first)["count"] == 1


def test_a_conflict_in_a_column_that_is_not_mapped_names_none(
    session: RefSession, toolset: Toolset
) -> None:
    """The class does not know of it, nor does the model."""
    new = {"table": "seats", "data": {"note": "x"}}
    assert toolset.call(session, "db_create", new)["count"] == 1
    error = toolset.call(session, "db_create", new)["error"]

    assert (error["code"], error["columns"]) == ("conflict", [])
    assert "a row of 'seats' with values that are not shown" in error["message"]
