"""What SQLAlchemy's engines, pools and connections take, pinned on both series."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import greenlet_spawn

from alfred_refs import sqla


def test_the_root_of_an_engine_owns_its_pool(engine: Engine) -> None:
    """An engine made by `execution_options` stands on another."""
    assert sqla.root_engine(engine.execution_options(isolation_level="SERIALIZABLE")) is engine
    assert sqla.root_engine(engine) is engine


async def test_an_awaitable_can_be_waited_for_in_synchronous_code() -> None:
    """Inside what the asyncio extension awaits: the event loop goes on meanwhile."""
    assert await greenlet_spawn(sqla.wait_for, asyncio.sleep(0, "done")) == "done"


def test_a_listener_for_disposal_costs_no_statement(engine: Engine) -> None:
    """It is called, and the engine goes on executing as if nobody listened."""
    disposed: list[Engine] = []

    def note(engine: Engine) -> None:
        disposed.append(engine)

    sqla.on_disposal(engine, note)

    assert engine._has_events is Engine._has_events
    assert "_has_events" not in vars(engine)
    engine.dispose()
    assert disposed == [engine]
    event.remove(engine, "engine_disposed", note)
    event.listen(engine, "before_execute", print)
    sqla.on_disposal(engine, print)
    assert engine._has_events


def test_a_pool_beside_another_waits_for_the_dialect(database_url: str) -> None:
    """Its first connection and the other's are made one after the other, hooks are run for both.

    Without the shared lock the second finds the initialisation begun and goes on without it.
    """
    engine = create_engine(database_url)
    beside = sqla.parallel_pool(engine.pool, 30.0)
    initialize, running, seen = engine.dialect.initialize, threading.Event(), []

    def slowly(connection: Connection) -> None:
        running.set()
        time.sleep(0.05)
        initialize(connection)
        running.clear()

    engine.dialect.initialize = slowly  # type: ignore[method-assign]
    other = threading.Thread(target=lambda: engine.connect().close())
    other.start()
    running.wait()
    event.listen(beside, "connect", lambda *_: seen.append(running.is_set()))
    beside.connect().close()
    other.join()

    assert seen == [False]
    assert type(beside) is type(engine.pool)
    beside.dispose()
    engine.dispose()


def test_a_pool_beside_another_waits_no_longer_than_it_is_told(database_url: str) -> None:
    """It does not ping, which would have no limit, and waits for the lesser of two times."""
    engine = create_engine(database_url, pool_pre_ping=True, pool_timeout=7)
    patient, hasty = (sqla.parallel_pool(engine.pool, seconds) for seconds in (30.0, 2.0))

    assert [patient.timeout(), hasty.timeout()] == [7, 2.0]  # type: ignore[attr-defined]
    assert [each._pre_ping for each in (engine.pool, patient, hasty)] == [True, False, False]
    assert sqla.pings(engine)
    assert not sqla.pings(create_engine(database_url))


@pytest.mark.parametrize("size", [0, 100])
async def test_asyncpg_caches_statements_unless_it_is_told_not_to(
    size: int, database_url: str
) -> None:
    """The registry sends its reads in transactions then."""
    url = make_url(database_url).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url, connect_args={"prepared_statement_cache_size": size})
    async with engine.connect() as connection:
        cached = await connection.run_sync(sqla.caches_statements)
    await engine.dispose()
    assert cached is (size > 0)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_other_drivers_need_no_transaction_to_read(driver: str, database_url: str) -> None:
    """Their statements are one message, or prepared where they are executed."""
    engine = create_engine(make_url(database_url).set(drivername=f"postgresql+{driver}"))
    with engine.connect() as connection:
        assert sqla.caches_statements(connection)
    engine.dispose()


async def test_the_simple_protocol_raises_what_sqlalchemy_raises(
    database_url: str, engine: Engine
) -> None:
    """The same class and SQLSTATE as by `execute`; a lost connection is invalidated."""
    awaited = create_async_engine(make_url(database_url).set(drivername="postgresql+asyncpg"))

    def refused(connection: Connection) -> list[Any]:
        seen = []
        for send in (sqla.simple_query, Connection.exec_driver_sql):
            with pytest.raises(DBAPIError) as caught:
                send(connection, "select 1 / 0")
            connection.rollback()
            seen.append((type(caught.value), sqla.driver_error_fields(caught.value)["sqlstate"]))
        return seen

    def lost(connection: Connection) -> bool:
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as other:
            pid = connection.exec_driver_sql("select pg_backend_pid()").scalar()
            other.exec_driver_sql(f"select pg_terminate_backend({pid}, 5000)")
        with pytest.raises(DBAPIError) as caught:
            sqla.simple_query(connection, "select 1")
        return caught.value.connection_invalidated and connection.invalidated

    async with awaited.connect() as connection:
        of_simple, of_execute = await connection.run_sync(refused)
        assert of_simple == of_execute
        assert of_simple[1] == "22012"
        assert await connection.run_sync(lost)
    await awaited.dispose()


def test_a_pool_can_be_told_to_replace_its_connections(engine: Engine) -> None:
    """The connection that was lost and an idle one are not used again, a later one is."""
    connections = [engine.connect(), engine.connect()]
    lost, idle = (connection.connection.dbapi_connection for connection in connections)
    connections[1].close()
    sqla.invalidate_pool(connections[0], RuntimeError())
    assert connections[0].invalidated
    connections[0].close()

    with engine.connect() as one, engine.connect() as two:
        fresh = {id(each.connection.dbapi_connection) for each in (one, two)}
        assert fresh.isdisjoint({id(lost), id(idle)})
    with engine.connect() as again:
        assert id(again.connection.dbapi_connection) in fresh


def test_a_listener_for_errors_can_come_first(engine: Engine) -> None:
    """It is listed once, before those that were there, and told of errors."""
    told: list[str] = []
    event.listen(engine, "handle_error", lambda _: told.append("other"))

    def hear(_: object) -> None:
        told.append("first")

    with engine.connect() as connection:
        sqla.prepend_error_listener(connection, hear)
        sqla.prepend_error_listener(connection, hear)
        with pytest.raises(DBAPIError):
            connection.execute(text("no statement"))

    assert told == ["first", "other"]


def test_what_is_kept_with_a_connection_goes_when_it_is_made_anew(engine: Engine) -> None:
    """It is not in `info`, and stays while the pool has the connection."""
    with engine.connect() as connection:
        kept = sqla.connection_cache(connection)
        kept["x"] = 1
        assert connection.info == {}
    with engine.connect() as connection:
        assert sqla.connection_cache(connection) is kept
        connection.invalidate()
        connection.rollback()
        assert sqla.connection_cache(connection) == {}
        connection.detach()
        detached = sqla.connection_cache(connection)
        assert sqla.connection_cache(connection) is detached
        assert detached == {}


@pytest.mark.parametrize(
    ("pool", "connections"),
    [
        ({"pool_size": 2, "max_overflow": 3}, 5),
        ({"pool_size": 2, "max_overflow": -1}, None),
        ({"pool_size": 0}, None),
        ({"poolclass": NullPool}, None),
    ],
)
def test_it_is_known_how_many_connections_there_are(
    engine: Engine, pool: dict[str, Any], connections: int | None
) -> None:
    """Of synchronous and asynchronous engines; not of those that have as many as are asked for."""
    assert sqla.max_connections(create_engine(engine.url, **pool)) == connections
    assert sqla.max_connections(create_async_engine(engine.url, **pool)) == connections
    assert sqla.max_connections(None) is None
