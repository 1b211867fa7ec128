"""Privileges and row-level security of the database: what they forbid is an answer."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import RefRegistry, RefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Toolset
from tests.tools.conftest import Call, by, save

ROLE = "reader_of_privileges"
POLICY = f"""
alter table guarded_rows enable row level security;
create policy named on guarded_rows using (true) with check (name <> 'no');
grant select, insert, update on guarded_rows to {ROLE};
grant select (id, name) on half_read to {ROLE};
"""


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Guarded(Base):
    """Has a policy."""

    __tablename__ = "guarded_rows"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]


class HalfRead(Base):
    """Has a column that is not to be read, and cannot be written."""

    __tablename__ = "half_read"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    secret: Mapped[str | None]


@pytest.fixture
def call(engine: Engine) -> Iterator[Call]:
    """Call a tool as a role with few privileges."""
    Base.metadata.create_all(engine)
    save(engine, Guarded(name="a"), HalfRead(name="a"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"create role {ROLE}")
        connection.exec_driver_sql(POLICY)
    app = create_engine(engine.url)
    event.listen(app, "begin", lambda c: c.exec_driver_sql(f"set local role {ROLE}"))
    conversation = RefRegistry(store=MemoryStore()).conversation("chat")
    toolset = Toolset([Guarded, HalfRead], expect="optional", sql=True)

    def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
        with RefSession(app, conversation=conversation) as session:
            return toolset.call(session, tool, arguments)

    yield call
    app.dispose()
    with engine.begin() as connection:
        connection.exec_driver_sql(f"drop owned by {ROLE}; drop role {ROLE}")


def test_a_write_that_a_policy_forbids_is_an_error(call: Call) -> None:
    """A new row and a changed one; others are written."""
    [row] = call("db_read", table="guarded_rows")["rows"]
    this = by("id", row["id"])

    for refused in (
        call("db_create", table="guarded_rows", data={"name": "no"}),
        call("db_update", table="guarded_rows", filters=this, data={"name": "no"}),
    ):
        assert refused["error"]["code"] == "not_permitted"
        assert "give other values" in refused["error"]["message"]
    assert call("db_create", table="guarded_rows", data={"name": "yes"})["count"] == 1


def test_a_missing_privilege_is_an_error(call: Call) -> None:
    """To read a column, or to write; the columns that may be read are."""
    assert call("db_read", table="half_read")["error"]["code"] == "not_permitted"
    assert call("db_read", table="half_read", columns=["name"])["rows"][0]["name"] == "a"
    [row] = call("db_read", table="half_read", columns=["name"])["rows"]
    this = by("id", row["id"])
    for refused in (
        call("db_create", table="half_read", data={"name": "b"}),
        call("db_update", table="half_read", filters=this, data={"name": "b"}),
        call("db_delete", table="half_read", filters=this),
    ):
        assert refused["error"]["code"] == "not_permitted"
        assert "lacks a privilege" in refused["error"]["message"]
        assert "other values" not in refused["error"]["message"]
    query = call("db_query", sql="SELECT secret FROM half_read")
    assert query["error"]["code"] == "invalid_sql"
    assert "database role may not read" in query["error"]["message"]
