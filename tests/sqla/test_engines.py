"""What SQLAlchemy's engines, pools and connections take, pinned on both series."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import greenlet_spawn

from alfred_refs import sqla


def test_the_root_of_an_engine_owns_its_pool(engine: Engine) -> None:
    """An engine made by `execution_options` stands on another."""
    assert sqla.root_of(engine.execution_options(isolation_level="SERIALIZABLE")) is engine
    assert sqla.root_of(engine) is engine


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
    beside = sqla.parallel_pool(engine.pool)
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
