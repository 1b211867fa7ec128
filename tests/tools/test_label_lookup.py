"""The statement that reads labels: one for all keys of a table, in any database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, String, create_engine, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    column_property,
    mapped_column,
    sessionmaker,
)

from alfred_refs import RefPolicy, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """Declarative base of a table with an alternate key, in an order of its own."""


class Country(Base):
    """Is referred to by its code."""

    __tablename__ = "label_countries"
    __ref_label__ = "name"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(String(2, collation="C"), unique=True)
    name: Mapped[str]


class City(Base):
    """Names its country."""

    __tablename__ = "label_cities"

    id: Mapped[int] = mapped_column(primary_key=True)
    country_code: Mapped[str] = mapped_column(
        ForeignKey("label_countries.code"), info={"ref": "label_countries.code"}
    )
    country: Mapped[str] = column_property(
        select(Country.name).where(Country.code == country_code).scalar_subquery()
    )


@pytest.fixture
def cities(engine: Engine) -> Iterator[Engine]:
    """Both tables, in PostgreSQL."""
    Base.metadata.create_all(engine)
    yield engine
    Base.metadata.drop_all(engine)


def _labels(engine: Engine) -> list[str]:
    with Session(engine) as plain:
        austria, portugal = Country(code="at", name="Austria"), Country(code="pt", name="Portugal")
        plain.add_all([austria, portugal])
        plain.flush()
        plain.add_all([City(id=1, country_code="pt"), City(id=2, country_code="at")])
        plain.commit()
    conversation = RefRegistry(store=MemoryStore()).conversation("chat-7")
    with RefSession(engine, conversation=conversation) as session:
        answer = Toolset([City, Country]).call(session, "db_read", {"table": "label_cities"})
    return [row["_country_code_label"] for row in answer["rows"]]


def test_labels_are_read_by_keys_that_have_a_collation(cities: Engine) -> None:
    """Which no cast to an array can name."""
    assert _labels(cities) == ["Portugal", "Austria"]


def test_labels_are_read_from_a_database_without_arrays() -> None:
    """By a list of the keys."""
    engine = create_engine("sqlite://")
    # a collation of PostgreSQL's
    with engine.connect() as connection:
        connection.connection.create_collation(
            "C", lambda one, other: (one > other) - (one < other)
        )
        Base.metadata.create_all(connection)
        connection.commit()

    assert _labels(engine) == ["Portugal", "Austria"]
    engine.dispose()


def test_a_label_reads_a_column_property_of_a_related_row(cities: Engine) -> None:
    """A write confirms a row by it."""
    _labels(cities)
    policy = RefPolicy(labels={City: lambda city: f"a city of {city.country}"})
    desk = Toolset([City, Country], policy=policy).bind(
        sessionmaker(cities, class_=RefSession),
        registry=RefRegistry(store=MemoryStore(), policy=policy),
    )

    def call(tool: str, **arguments: object) -> dict[str, Any]:
        return desk.call("chat-7", None, tool, {"table": "label_cities", **arguments}).value

    rows = call("db_read", order_by=["country"])["rows"]
    assert [row["country"] for row in rows] == ["Austria", "Portugal"]
    last = [{"field": "id", "op": "=", "value": rows[1]["id"]}]
    assert (
        call("db_delete", filters=last, expect="a city of Spain")["error"]["code"]
        == "unexpected_row"
    )
    assert call("db_delete", filters=last, expect="a city of Portugal")["count"] == 1
