"""The tables of notes, and a session in a conversation."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry, RefSession, sqla
from tests.tools.texts.notes import Base, Order


@pytest.fixture(autouse=True)
def one_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """One declarative base in the process, as applications have: others have notes, too."""
    monkeypatch.setattr(sqla, "mappers", lambda: sqla.mappers_of(Base.registry))


@pytest.fixture
def notes(tables: Engine) -> Engine:
    """The engine, with the tables of notes and some orders in its database."""
    Base.metadata.create_all(tables)
    with Session(tables) as plain:
        plain.add_all([Order(id=n, name=f"order {n}") for n in range(1, 4)])
        plain.commit()
    return tables


@pytest.fixture
def chat(notes: Engine) -> RefSession:
    """A session in a conversation."""
    return RefSession(notes, conversation=RefRegistry(notes).conversation("chat-7"))
