"""Fixtures: an empty store of each kind, for the tests that every store must pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, create_engine

from alfred_refs import PostgresStore
from alfred_refs.store import Store
from alfred_refs.store.memory import MemoryStore
from alfred_refs.store.telemetry import EventSource, Telemetry, observe
from tests.fix_postgres import PreparedDatabases


def memory(_: Engine) -> Store:
    """Make a store in memory."""
    return MemoryStore()


def psycopg(engine: Engine) -> Store:
    """Make a store on psycopg, which sends a batch in one trip."""
    return PostgresStore(engine)


def psycopg2(engine: Engine) -> Store:
    """Make a store on a driver without pipelines."""
    return PostgresStore(create_engine(engine.url.set(drivername="postgresql+psycopg2")))


def observed(_: Engine) -> Store:
    """Make a store that counts what another does."""
    return observe(MemoryStore(), Telemetry(EventSource().dispatch))


def partitioned(engine: Engine) -> Store:
    """Make a store on hash-partitioned tables."""
    return PostgresStore(engine)


@pytest.fixture
def partitioned_engine(partitioned_databases: PreparedDatabases) -> Iterator[Engine]:
    """An engine on a database that has the registry's tables partitioned."""
    with partitioned_databases.lent() as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


# the small run has the first two: the others share their code
KINDS = [
    memory,
    psycopg,
    *(pytest.param(make, marks=pytest.mark.slow) for make in (psycopg2, partitioned, observed)),
]


@pytest.fixture(params=KINDS, ids=lambda make: str(make.__name__))
def any_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store of each kind."""
    make: Callable[[Engine], Store] = request.param
    store = make(
        request.getfixturevalue("partitioned_engine" if make is partitioned else "engine")
    )
    yield store
    if isinstance(store, PostgresStore):
        store._application.dispose()
