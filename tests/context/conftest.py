"""Fixtures: a conversation about dishes, calls that a model makes in it, and its context."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, RefSession
from alfred_refs.context import Context
from alfred_refs.tools import Toolset
from tests.tools.conftest import MODELS
from tests.tools.models import Cuisine, Dish, Part

Call = Callable[..., dict[str, Any]]


def is_(ref: str) -> list[dict[str, Any]]:
    """Return filters on a row's own ref."""
    return [{"field": "id", "op": "=", "value": ref}]


def lines(context: Context, audience: Any = "act") -> list[str]:
    """Return the lines of a prompt about rows."""
    return [line for line in context.render(audience).splitlines() if line[:2] in ("- ", "  ")]


@pytest.fixture(scope="session")
def toolset() -> Toolset:
    """A toolset on the tables of dishes."""
    return Toolset(MODELS, expect="optional")


@pytest.fixture
def context(
    conversation: Conversation, toolset: Toolset, sessions: sessionmaker[RefSession]
) -> Context:
    """A context whose rows are read in sessions of the same database."""
    return Context(conversation, toolset=toolset, sessions=sessions)


@pytest.fixture
def call(toolset: Toolset, sessions: sessionmaker[RefSession], conversation: Conversation) -> Call:
    """Call a tool as the model does, each time in a session of its own."""

    def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
        with sessions(conversation=conversation, by="model") as session:
            return toolset.call(session, tool, arguments)

    return call


@pytest.fixture
def keys(tables: Engine) -> dict[str, uuid.UUID]:
    """Three dishes, one of them with parts, and a cuisine: their keys by name."""
    with Session(tables, expire_on_commit=False) as plain:
        thai = Cuisine(name="Thai")
        korma, curry, soup = (Dish(name=name) for name in ("Korma", "Curry", "Soup"))
        curry.cuisine = thai
        korma.parts = [Part(position=1, note="rice"), Part(position=2, note="sauce")]
        plain.add_all([thai, korma, curry, soup])
        plain.commit()
        return {str(row.name): row.id for row in (thai, korma, curry, soup)}
