"""Classes mapped in ways that a model knows nothing of: what it may do with their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, Identity, Uuid, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import RefSession
from alfred_refs.tools import Toolset
from tests.models import Cook, Guest, Person
from tests.tools.conftest import Call


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Counted(Base):
    """Has a version, and a number that the database alone may give."""

    __tablename__ = "counted"

    id: Mapped[Any] = mapped_column(
        Uuid, primary_key=True, server_default=text("gen_random_uuid()")
    )
    version: Mapped[int] = mapped_column()
    number: Mapped[int] = mapped_column(Identity(always=True))
    note: Mapped[str | None]

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


MakeCall = Callable[..., Call]


@pytest.fixture
def made(tables: Engine, session: RefSession) -> MakeCall:
    """Make what calls a tool on some classes, with its arguments by name."""
    Base.metadata.create_all(tables)

    def make(*models: type[Any], **named: type[Any]) -> Call:
        toolset = Toolset(named or models)
        return lambda tool, /, **arguments: toolset.call(session, tool, arguments)

    return make


def codes(*answers: dict[str, Any]) -> list[str]:
    """Return the codes of errors."""
    return [answer["error"]["code"] for answer in answers]


def test_rows_of_a_subclass_are_made_read_changed_and_deleted(made: MakeCall) -> None:
    """In both tables of joined inheritance, and in their base's too."""
    call = made(Person, Cook)
    [row] = call("db_create", table="cooks", data={"stars": 2})["rows"]
    assert (row["id"], row["kind"], row["stars"]) == ("person_1", "cook", 2)
    this = [{"field": "id", "op": "=", "value": "person_1"}]

    [row] = call("db_update", table="cooks", filters=this, data={"stars": 3})["rows"]
    assert row["stars"] == 3
    assert call("db_read", table="people")["rows"] == [
        {"id": "person_1", "kind": "cook", "mentor_id": None}
    ]
    assert call("db_delete", table="people", filters=this)["deleted"] == ["person_1"]
    assert call("db_read", table="cooks")["rows"] == []


def test_of_which_class_a_row_is_cannot_be_given(made: MakeCall) -> None:
    """A row of a class that there is none of could not be read again, nor those beside it."""
    call = made(people=Person, guests=Guest)
    this = [{"field": "id", "op": "is_not_null"}]

    assert (
        codes(
            call("db_create", table="people", data={"kind": "cook"}),
            call("db_create", table="guests", data={"kind": "nobody"}),
            call("db_update", table="people", filters=this, data={"kind": "guest"}),
        )
        == ["unknown_column"] * 3
    )
    assert call("db_create", table="guests", data={})["rows"][0]["kind"] == "guest"
    guests = [{"field": "kind", "op": "=", "value": "guest"}]
    assert call("db_read", table="people", filters=guests)["count"] == 1


def test_what_the_mapping_or_the_database_counts_cannot_be_given(made: MakeCall) -> None:
    """The version of a row, and numbers that are always generated."""
    call = made(Counted)
    [row] = call("db_create", table="counted", data={"note": "a"})["rows"]
    this = [{"field": "id", "op": "=", "value": row["id"]}]

    assert (row["version"], row["number"]) == (1, 1)
    assert (
        codes(
            call("db_create", table="counted", data={"version": 5}),
            call("db_create", table="counted", data={"number": 5}),
            call("db_update", table="counted", filters=this, data={"version": 7}),
        )
        == ["unknown_column"] * 3
    )
    [row] = call("db_update", table="counted", filters=this, data={"note": "b"})["rows"]
    assert (row["version"], row["number"]) == (2, 1)
