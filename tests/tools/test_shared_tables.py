"""Filters by paths between classes that share a table, and of documents that are null."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import ForeignKey, inspect
from sqlalchemy.dialects.postgresql import JSON, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from alfred_refs import RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import by


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Person(Base):
    """Has rows of all classes, and what classes of rows refer to others by."""

    __tablename__ = "persons"
    __mapper_args__: Any = {"polymorphic_on": "kind", "polymorphic_identity": "person"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    name: Mapped[str]
    manager_id: Mapped[int | None] = mapped_column(ForeignKey("persons.id"))


class Manager(Person):
    """Leads engineers."""

    __mapper_args__: Any = {"polymorphic_identity": "manager"}  # noqa: RUF012

    team: Mapped[list[Engineer]] = relationship(
        foreign_keys=[Person.manager_id], back_populates="manager"
    )


class Engineer(Person):
    """Has a manager, or none."""

    __mapper_args__: Any = {"polymorphic_identity": "engineer"}  # noqa: RUF012

    manager: Mapped[Manager | None] = relationship(
        foreign_keys=[Person.manager_id], remote_side=[Person.id], back_populates="team"
    )


class Jotting(Base):
    """Has documents."""

    __tablename__ = "null_notes"

    id: Mapped[int] = mapped_column(primary_key=True)
    plain: Mapped[Any] = mapped_column(JSON, nullable=True)
    binary: Mapped[Any] = mapped_column(JSONB, nullable=True)


@pytest.fixture
def toolset(session: RefSession) -> Toolset:
    """A toolset on managers, engineers and notes; there are some."""
    Base.metadata.create_all(session.get_bind())
    with Session(session.get_bind()) as plain:
        boss = Manager(name="M")
        plain.add_all([boss, Engineer(name="of M", manager=boss), Engineer(name="of nobody")])
        plain.commit()
    return Toolset({"managers": Manager, "engineers": Engineer, "notes": Jotting})


LED = {"field": "manager.name", "op": "=", "value": "M"}
LEADS = {"field": "team.name", "op": "=", "value": "of M"}
LED_TWICE = {"field": "manager.team.manager.name", "op": "=", "value": "M"}


@pytest.mark.parametrize(
    ("table", "condition", "found"),
    [
        ("engineers", LED, ["of M"]),
        ("engineers", {"not": LED}, ["of nobody"]),
        ("engineers", LED_TWICE, ["of M"]),
        ("engineers", {"not": LED_TWICE}, ["of nobody"]),
        ("managers", LEADS, ["M"]),
        ("managers", {"not": LEADS}, []),
    ],
)
def test_a_path_leads_to_rows_of_the_class_alone(
    session: RefSession, toolset: Toolset, table: str, condition: Any, found: list[str]
) -> None:
    """Also in the table that is asked: no path held there, and so each negation of all rows."""
    answer = toolset.call(session, "db_read", {"table": table, "filters": [condition]})

    assert [row["name"] for row in answer["rows"]] == found
    assert inspect(Manager).single


@pytest.mark.parametrize("column", ["plain", "binary"])
def test_a_document_of_null_is_null(session: RefSession, toolset: Toolset, column: str) -> None:
    """It is shown as null, and found as what is null: a delete of what is not null took it."""
    every: list[Any] = [{}, {column: None}, {column: {"a": None}}, {column: []}]
    for data in every:
        toolset.call(session, "db_create", {"table": "notes", "data": data})
    for op, expected in (("is_null", [1, 2]), ("is_not_null", [3, 4])):
        filters: list[Any] = [{"field": column, "op": op}]
        answer = toolset.call(session, "db_read", {"table": "notes", "filters": filters})
        assert [row["id"] for row in answer["rows"]] == [f"jotting_{n}" for n in expected]
        filters = [{"not": filters[0]}]
        answer = toolset.call(session, "db_read", {"table": "notes", "filters": filters})
        assert [row["id"] for row in answer["rows"]] == [
            f"jotting_{n}" for n in {1, 2, 3, 4} - {*expected}
        ]


def test_rows_of_other_classes_of_the_table_are_not_offered(
    session: RefSession, toolset: Toolset
) -> None:
    """Of an entity whose root is not listed nobody can tell which class a ref is of."""
    toolset.call(session, "db_read", {"table": "managers"})
    filters = by("id", "person_99")
    asked = {"table": "engineers", "filters": filters}

    everybody = Toolset({"persons": Person, "engineers": Engineer})
    assert everybody.call(session, "db_read", asked)["error"]["known"] == ["person_1"]
    engineers = Toolset({"engineers": Engineer})
    assert engineers.call(session, "db_read", asked)["error"]["known"] == []
