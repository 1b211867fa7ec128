"""Fixtures: a PostgreSQL server for the session, an empty database for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy
from sqlalchemy import Engine, create_engine, text

from tests.postgres.provider import Provided, postgres

SERVER = pytest.StashKey[Provided]()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Provided]:
    """The PostgreSQL server that the whole run shares."""
    with postgres(os.environ) as provided:
        request.config.stash[SERVER] = provided
        yield provided


@contextmanager
def empty_database(server: Provided) -> Iterator[str]:
    """Make a database, yield its URL, password included, and drop it."""
    name = f"test_{uuid.uuid4().hex}"
    _administer(server, f"create database {name}")
    try:
        yield server.url.set(database=name).render_as_string(hide_password=False)
    finally:
        _administer(server, f"drop database {name} with (force)")


@pytest.fixture
def database_url(server: Provided) -> Iterator[str]:
    """The URL, password included, of an empty database that lasts for one test."""
    with empty_database(server) as url:
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


def _administer(server: Provided, statement: str) -> None:
    # databases are made and dropped outside a transaction, and from another database
    engine = create_engine(server.url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.execute(text(statement))
