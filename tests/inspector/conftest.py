"""Fixtures: gardens of two gardeners, a desk on them, and clients of the inspector."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session, sessionmaker
from starlette.testclient import TestClient

from alfred_refs import RefRegistry, RefSession
from alfred_refs.inspector import Operator, inspector_of
from alfred_refs.tools import BoundToolset, Journal
from tests.fix_postgres import DatabasePool, pool_with
from tests.inspector import garden

SAME_ORIGIN = {"origin": "http://localhost"}


@pytest.fixture(scope="session")
def garden_databases(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with the gardens' and the registry's tables."""
    with pool_with(garden.Base.metadata, administration) as databases:
        yield databases


@pytest.fixture
def garden_engine(garden_databases: DatabasePool) -> Iterator[Engine]:
    """An engine on two gardens."""
    with garden_databases.engine() as engine:
        with Session(engine) as session, session.begin():
            garden.plant(session)
        yield engine


@pytest.fixture
def desk(garden_engine: Engine) -> BoundToolset:
    """The tools of the gardens: to delete a bed needs a person, and writes are kept."""
    sessions = sessionmaker(garden_engine, class_=RefSession)
    registry = RefRegistry(garden_engine)
    return garden.toolset().bind(sessions, registry=registry, journal=Journal())


@pytest.fixture
def another_desk(garden_engine: Engine) -> Iterator[BoundToolset]:
    """The same, as in another process."""
    engine = create_engine(garden_engine.url)
    sessions = sessionmaker(engine, class_=RefSession)
    yield garden.toolset().bind(sessions, registry=RefRegistry(engine), journal=Journal())
    engine.dispose()


def client_for(desk: BoundToolset, by: str = "root", owner: Any = ...) -> TestClient:
    """Return a client in which an operator has signed in, whose forms come from the pages."""
    app = inspector_of(desk, authenticate=lambda _: Operator(by, owner))
    return TestClient(app, "http://localhost", headers=SAME_ORIGIN)


@pytest.fixture
def root(desk: BoundToolset) -> TestClient:
    """A client whose operator sees all owners' conversations."""
    return client_for(desk)


def text_of(html: str) -> str:
    """Return the text of a page, without tags and with single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def hidden_values(html: str, action: str) -> dict[str, str]:
    """Return the hidden values of the first form with an action."""
    forms = rf'<form method="post" action="{action}">(.*?)</form>'
    form = re.findall(forms, html, re.DOTALL)[0]
    pairs = re.findall(r'<input type="hidden" name="(.*?)" value="(.*?)">', form)
    return {name: unescape(value) for name, value in pairs}
