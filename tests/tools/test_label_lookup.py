"""The statement that reads labels: one for all keys of a table, in any database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, ForeignKey, String, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import RefRegistry, RefSession
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
