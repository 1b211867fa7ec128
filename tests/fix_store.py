"""Fixtures: an empty store, for the tests that every store must pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import greenlet_spawn

from alfred_refs import PostgresStore
from alfred_refs.store import Store
from alfred_refs.store.memory import MemoryStore
from alfred_refs.store.telemetry import EventSource, Telemetry, observe
from tests.fix_postgres import PreparedDatabases

Run = Callable[[Callable[[], Any]], Any]
"""Calls a function that uses a store, and returns its result."""


@pytest.fixture(params=["memory", "postgres"])
def any_store(request: pytest.FixtureRequest) -> Store:
    """An empty store of each implementation.

    What differs between drivers and layouts of tables is in `variant`.
    """
    if request.param == "memory":
        return MemoryStore()
    return PostgresStore(request.getfixturevalue("engine"))


@pytest.fixture
def partitioned_engine(partitioned_databases: PreparedDatabases) -> Iterator[Engine]:
    """An engine on a database that has the registry's tables partitioned."""
    with partitioned_databases.lent() as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


@pytest.fixture(
    params=["psycopg", "psycopg2", "asyncpg", "psycopg_async", "partitioned", "observed"]
)
def variant(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Run]]:
    """A store with each driver, on partitioned tables, and observed, with how to run its calls."""

    def call(work: Callable[[], Any]) -> Any:
        return work()

    if request.param == "observed":
        yield observe(MemoryStore(), Telemetry(EventSource().dispatch)), call
    elif request.param == "partitioned":
        yield PostgresStore(request.getfixturevalue("partitioned_engine")), call
    elif request.param in ("asyncpg", "psycopg_async"):
        url = request.getfixturevalue("engine").url.set(drivername=f"postgresql+{request.param}")
        application = create_async_engine(url)
        with asyncio.Runner() as runner:
            yield (
                PostgresStore(application.sync_engine),
                lambda work: runner.run(greenlet_spawn(work)),
            )
            runner.run(application.dispose())
    else:
        url = request.getfixturevalue("engine").url.set(drivername=f"postgresql+{request.param}")
        engine = create_engine(url)
        yield PostgresStore(engine), call
        engine.dispose()
