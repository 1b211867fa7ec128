"""A server that does not answer is given up in time, with each driver."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text

from alfred_refs import PostgresStore, RefRegistry, RegistryBusyError, SetupError
from alfred_refs.store import Address
from alfred_refs.store.connections import TimeLimits
from tests.faults.proxy import Proxy, proxy_to
from tests.fix_store import Application, applied
from tests.store.test_postgres import numbers

pytestmark = pytest.mark.tables

CHAT = Address("chat-7")
DRIVERS = ["psycopg", "psycopg2", "psycopg_async", "asyncpg"]


class Connected:
    """A connection of no driver."""

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()

    def fileno(self) -> int:
        """Return the descriptor of its socket."""
        return self.here.fileno()

    def is_cut(self) -> bool:
        """Return whether the other end reads the end of the stream."""
        self.there.setblocking(False)
        try:
            return self.there.recv(1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Close both ends."""
        self.here.close()
        self.there.close()


@pytest.fixture
def connected() -> Iterator[Connected]:
    """A connection."""
    connection = Connected()
    yield connection
    connection.close()


def test_a_connection_is_cut_when_the_time_is_over(connected: Connected) -> None:
    """Not before, and not after its work has ended; the thread ends with the last work."""
    limits = TimeLimits(0.1)
    with limits.start() as limit:
        limit.watch(connected)
        assert not connected.is_cut()
    time.sleep(0.2)
    assert not connected.is_cut()
    assert not limit.is_over

    with limits.start() as limit:
        limit.watch(connected)
        time.sleep(0.3)
    assert connected.is_cut()
    assert limit.is_over
    time.sleep(0.3)
    assert "alfred_refs time limits" not in [each.name for each in threading.enumerate()]


def test_an_answer_stops_the_limit_and_a_late_connection_is_cut(connected: Connected) -> None:
    """What has an answer takes as long as it needs; what is late already is cut at once."""
    limits = TimeLimits(0.05)
    with limits.start() as limit:
        limit.watch(connected)
        limit.stop()
        time.sleep(0.2)
        assert not connected.is_cut()
        limit.watch(connected)
    assert connected.is_cut()


@pytest.fixture(params=DRIVERS)
def silenced(
    request: pytest.FixtureRequest, engine: Engine
) -> Iterator[tuple[Application, Proxy]]:
    """A store whose server can be silenced, as by a pooler whose connections are all in use."""
    with proxy_to(engine.url) as proxy, applied(proxy.url, request.param) as application:
        application.store = PostgresStore(application.store._application, timeout=0.3)
        yield application, proxy


def test_a_server_that_is_silent_is_given_up(
    silenced: tuple[Application, Proxy], engine: Engine
) -> None:
    """A read, a mint and a transaction: each says why, none is done, and the next one works."""
    application, proxy = silenced
    assert application.mint(1) == [1]
    for work in (
        lambda store: store.turn(CHAT),
        lambda store: store.refer(CHAT, [("recipe", 2)]),
        lambda store: store.fork(CHAT, "chat-8"),
    ):
        proxy.is_silent = True
        before = time.monotonic()
        with pytest.raises(RegistryBusyError, match=r"did not answer within 0\.3 seconds"):
            application.use(work)
        assert 0.25 < time.monotonic() - before < 2
        proxy.is_silent = False
        assert application.use(lambda store: store.turn(CHAT)) == 0
    assert application.mint(3) == [2]
    assert numbers(engine) == [1, 2]


def test_hooks_on_new_connections_are_limited_too(engine: Engine) -> None:
    """They execute statements before the pool returns the connection."""
    with proxy_to(engine.url) as proxy:
        application = create_engine(proxy.url)

        @event.listens_for(application, "connect")
        def set_up(connection: Any, _: object) -> None:
            proxy.is_silent = True
            connection.execute("SELECT 1")

        with pytest.raises(RegistryBusyError, match="did not answer"):
            RefRegistry(application, timeout=0.3).stats()
        application.dispose()


def test_a_lock_of_another_transaction_is_waited_for(engine: Engine) -> None:
    """Where BEGIN is a message of its own the server has answered, and the wait is not limited."""
    with applied(engine.url, "psycopg2") as application:
        application.store = PostgresStore(application.store._application, timeout=0.2)
        application.mint(1)
        holder = engine.connect()
        holder.execute(text("select * from alfred_refs_conversation for update"))

        def let_go() -> None:
            time.sleep(0.6)
            holder.close()

        [minted] = application.use_at_once(
            lambda store: store.refer(CHAT, [("recipe", 2)]), meanwhile=let_go
        )
    assert [entry.ref.number for entry in minted] == [2]


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_cannot_be_repeated_is_done_on_a_connection_that_was_tested(
    driver: str, engine: Engine
) -> None:
    """With `pool_pre_ping`: a turn begins once though all connections were cut before."""
    with (
        proxy_to(engine.url) as proxy,
        applied(proxy.url, driver, pool_pre_ping=True) as application,
    ):
        assert application.use(lambda store: store.begin_turn(CHAT)) == 1
        proxy.cut()
        assert application.use(lambda store: store.begin_turn(CHAT)) == 2


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_a_timeout_must_be_positive(timeout: float, engine: Engine) -> None:
    """Nothing could be done in no time."""
    with pytest.raises(SetupError, match="give a positive number"):
        RefRegistry(engine, timeout=timeout)
