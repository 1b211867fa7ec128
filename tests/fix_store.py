"""Fixtures: an empty store, for the tests that every store must pass."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from alfred_refs import PostgresStore
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.store import Address, Store
from alfred_refs.store.memory import MemoryStore
from alfred_refs.store.telemetry import EventSource, Telemetry, observe
from tests.fix_postgres import DatabasePool

T = TypeVar("T")

Use = Callable[[Callable[[Store], T]], T]
"""Calls a function with a store, in a greenlet if the store needs one, and returns its result."""


class Application:
    """A store on an engine of any driver, used as an application of that kind uses it."""

    def __init__(self, url: URL, driver: str, **options: Any) -> None:
        url = url.set(drivername=f"postgresql+{driver}")
        self._runner = asyncio.Runner()
        self._engine: Engine | AsyncEngine
        if driver in {"asyncpg", "psycopg_async"}:
            self._engine = create_async_engine(url, **options)
            self.store = PostgresStore(self._engine.sync_engine)
        else:
            self._engine = create_engine(url, **options)
            self.store = PostgresStore(self._engine)

    def use(self, work: Callable[[PostgresStore], T]) -> T:
        """Call a function with the store, in a greenlet if the driver is asynchronous."""
        if isinstance(self._engine, AsyncEngine):
            return self._runner.run(greenlet_spawn(work, self.store))
        return work(self.store)

    def use_at_once(
        self, *works: Callable[[PostgresStore], Any], meanwhile: Callable[[], None]
    ) -> list[Any]:
        """Call functions with the store at the same time; return results or exceptions."""
        if isinstance(self._engine, AsyncEngine):
            return self._runner.run(self._together(works, meanwhile))
        with ThreadPoolExecutor() as threads:
            futures = [threads.submit(work, self.store) for work in works]
            meanwhile()
            return [future.exception() or future.result() for future in futures]

    async def _together(
        self, works: Sequence[Callable[[PostgresStore], Any]], meanwhile: Callable[[], None]
    ) -> list[Any]:
        awaited = (greenlet_spawn(work, self.store) for work in works)
        thread = asyncio.to_thread(meanwhile)
        *results, _ = await asyncio.gather(*awaited, thread, return_exceptions=True)
        return results

    def mint(self, *keys: uuid.UUID | int) -> list[int]:
        """Refer to keys and return the numbers of their refs."""
        recipes: list[EntityKey] = [("recipe", key) for key in keys]
        entries = self.use(lambda store: store.refer(Address("chat-7"), recipes))
        return [entry.ref.number for entry in entries]

    def close(self) -> None:
        """Close all connections."""
        if isinstance(self._engine, AsyncEngine):
            self._runner.run(self._engine.dispose())
        else:
            self._engine.dispose()
        self._runner.close()


@contextmanager
def applied(url: URL, driver: str, **options: Any) -> Iterator[Application]:
    """Make an application, and close its connections at the end of the `with`."""
    application = Application(url, driver, **options)
    try:
        yield application
    finally:
        application.close()


@pytest.fixture(params=["memory", "postgres"])
def any_store(request: pytest.FixtureRequest) -> Store:
    """An empty store of each implementation.

    What differs between drivers and layouts of tables is in `variant`.
    """
    if request.param == "memory":
        return MemoryStore()
    return PostgresStore(request.getfixturevalue("engine"))


@pytest.fixture
def partitioned_engine(partitioned_databases: DatabasePool) -> Iterator[Engine]:
    """An engine on a database that has the registry's tables partitioned."""
    with partitioned_databases.engine() as engine:
        yield engine


@pytest.fixture(
    params=["psycopg", "psycopg2", "asyncpg", "psycopg_async", "partitioned", "observed"]
)
def variant(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Use[Any]]]:
    """A store with each driver, on partitioned tables, and observed, with how to use it."""
    if request.param == "observed":
        observed = observe(MemoryStore(), Telemetry(EventSource().dispatch))
        yield observed, lambda work: work(observed)
        return
    is_partitioned = request.param == "partitioned"
    engine = request.getfixturevalue("partitioned_engine" if is_partitioned else "engine")
    driver = "psycopg" if is_partitioned else request.param
    with applied(engine.url, driver) as application:
        yield application.store, application.use
