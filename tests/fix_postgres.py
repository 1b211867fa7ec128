"""Fixtures: a PostgreSQL server for the session, an empty database for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy
from sqlalchemy import Engine, create_engine

from alfred_refs import PostgresStore
from tests.models import Base
from tests.postgres.provider import Provided, postgres

SERVER = pytest.StashKey[Provided]()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Provided]:
    """The PostgreSQL server that the whole run shares."""
    with postgres(os.environ) as provided:
        request.config.stash[SERVER] = provided
        yield provided


@pytest.fixture(scope="session")
def administration(server: Provided) -> Iterator[Engine]:
    """An engine that makes and drops databases, which is done outside a transaction."""
    engine = create_engine(server.url, isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


@contextmanager
def database_like(administration: Engine, template: str = "template1") -> Iterator[str]:
    """Make a database, empty or a copy of another, yield its URL, password included, drop it."""
    name = f"test_{uuid.uuid4().hex}"
    with administration.connect() as connection:
        connection.exec_driver_sql(f"create database {name} template {template}")
    try:
        yield administration.url.set(database=name).render_as_string(hide_password=False)
    finally:
        with administration.connect() as connection:
            connection.exec_driver_sql(f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def template(administration: Engine) -> Iterator[str]:
    """The name of a database with the tests' and the registry's tables, to be copied."""
    with database_like(administration) as url:
        engine = create_engine(url, poolclass=sqlalchemy.NullPool)
        Base.metadata.create_all(engine)
        PostgresStore(engine).create_tables()
        engine.dispose()
        yield str(engine.url.database)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, administration: Engine) -> Iterator[str]:
    """The URL, password included, of a database that lasts for one test.

    It is empty, unless the test asks for `tables`.
    """
    has_tables = "tables" in request.fixturenames
    like = request.getfixturevalue("template") if has_tables else "template1"
    with database_like(administration, like) as url:
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on the test's own empty database."""
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what the tests ran on."""
    terminalreporter.section("what the tests ran on")
    terminalreporter.line(f"SQLAlchemy {sqlalchemy.__version__}")
    if (provided := config.stash.get(SERVER, None)) is not None:
        terminalreporter.line(f"{provided.backend}: {provided.version}")
