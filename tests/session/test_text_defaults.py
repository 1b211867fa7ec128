"""Defaults of key columns that return text for a UUID or number, or a UUID for text."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, Uuid, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.testing import MemoryStore
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """Declarative base of these tests."""


class Signal(Base):
    """Has text for a UUID: psycopg takes it."""

    __tablename__ = "text_signals"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True, default=lambda: str(uuid.uuid4()))
    name: Mapped[str]
    parts: Mapped[list[Part]] = relationship(back_populates="signal")


class Part(Base):
    """Gets the key of its signal from the flush."""

    __tablename__ = "text_parts"

    id: Mapped[Any] = mapped_column(Uuid(as_uuid=False), primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    signal_id: Mapped[Any] = mapped_column(ForeignKey("text_signals.id"), nullable=True)
    signal: Mapped[Any] = relationship(Signal, back_populates="parts")


class Number(Base):
    """Has text for an integer."""

    __tablename__ = "text_numbers"

    id: Mapped[int] = mapped_column(primary_key=True, default=lambda: "77")
    name: Mapped[str]


CLASSES: list[tuple[Any, str]] = [(Signal, "signal"), (Part, "part"), (Number, "number")]


@pytest.fixture
def sessions(tables: Engine) -> sessionmaker[RefSession]:
    """Sessions on a database with these tables."""
    Base.metadata.create_all(tables)
    return sessionmaker(tables, class_=RefSession)


@pytest.mark.parametrize(("class_", "entity"), CLASSES)
def test_a_row_is_the_same_when_it_is_loaded(
    sessions: sessionmaker[RefSession], class_: Any, entity: str
) -> None:
    """Its identity has the type of the column, and the attribute shows its ref."""
    conversation = RefRegistry(store=MemoryStore()).conversation("c")
    with sessions(conversation=conversation) as session:
        session.add(row := class_(name="a"))
        session.flush()

        assert row.id == f"{entity}_1"
        assert session.get(class_, row.id) is row
        assert session.scalars(select(class_)).all() == [row]


def test_the_flush_gives_a_child_the_key_as_it_is_loaded(
    sessions: sessionmaker[RefSession],
) -> None:
    """Of a child that is new, and of one that is changed."""
    conversation = RefRegistry(store=MemoryStore()).conversation("c")
    with sessions(conversation=conversation) as session:
        session.add(old := Part(name="old"))
        session.flush()
        session.add(signal := Signal(name="a", parts=[old, new := Part(name="new")]))
        session.flush()

        assert [old.signal_id, new.signal_id] == [signal.id, signal.id] == ["signal_1"] * 2
        with session.raw_keys():
            assert isinstance(old.signal_id, uuid.UUID)


@pytest.mark.parametrize(("class_", "entity"), CLASSES)
def test_a_created_row_is_in_the_answer(
    sessions: sessionmaker[RefSession], class_: Any, entity: str
) -> None:
    """It is read again by its key."""
    desk = Toolset([class_], expect="optional").bind(
        sessions, registry=RefRegistry(store=MemoryStore())
    )
    table = class_.__tablename__

    answer = desk.call("c", None, "db_create", {"table": table, "data": {"name": "a"}})
    read = desk.call("c", None, "db_read", {"table": table, "columns": ["id", "name"]})

    assert [(row["id"], row["name"]) for row in answer.value["rows"]] == [(f"{entity}_1", "a")]
    assert read.value["rows"] == [{"id": f"{entity}_1", "name": "a"}]
