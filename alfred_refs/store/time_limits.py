"""Time limits for waits on the server, the same for all drivers.

`TimeLimits.start` measures a piece of work. If the server does not answer in time, the connection
is cut, so that the driver raises whatever it raises for a lost connection; `TimeLimit.is_over`
tells the two apart.

>>> limits = TimeLimits(5.0)
>>> with limits.start() as limit, engine.connect() as connection:
...     limit.watch(connection.connection.driver_connection)
...     connection.scalar(select(1)), limit.is_over
(1, False)

The server's own settings cannot do this. A pooler such as PgBouncer accepts a connection at once,
and holds its first statement back until one of its own connections to the server is free: until
then no server knows of the statement. Drivers have no time limit for one statement either, except
for asyncpg.

For synchronous drivers one thread per process watches all limits, and ends when there are none.
For asynchronous drivers the event loop does.

Limits: opening the connection is limited by the driver's own settings (`connect_timeout`). A
server that has received a statement may still execute it after its connection was cut.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

_CURRENT: ContextVar[TimeLimit | None] = ContextVar("alfred_refs_time_limit", default=None)

_LONGEST_SLEEP = 0.5  # seconds: a thread with nothing to watch ends after it


class TimeLimit:
    """A time limit for one piece of work, and the connections that it waits for.

    Attributes:
        ends_at: when it is over, as `time.monotonic()` counts.
        is_over: whether its connections were cut.
    """

    __slots__ = ("_connections", "ends_at", "is_over")

    def __init__(self, seconds: float) -> None:
        self.ends_at = time.monotonic() + seconds
        self.is_over = False
        self._connections: list[Any] = []

    def watch(self, driver_connection: Any) -> None:
        """Cut this connection if the time is over before `stop`, or now if it is over."""
        self._connections.append(driver_connection)
        if time.monotonic() >= self.ends_at:
            self.cut()

    def stop(self) -> None:
        """Let the work take as long as it needs from now on: the server has answered."""
        self._connections.clear()

    def cut(self) -> None:
        """Cut the connections that the work waits for."""
        for connection in self._connections:
            self.is_over = True
            with suppress(Exception):  # the driver has closed it meanwhile
                _cut(connection)


class TimeLimits:
    """Starts time limits of the same length, and cuts connections when one is over.

    Args:
        seconds: the length.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._running: dict[int, TimeLimit] = {}
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def start(self, *, in_event_loop: bool = False) -> Iterator[TimeLimit]:
        """Return a context manager that limits the work inside of it.

        Args:
            in_event_loop: whether the work awaits its driver.
        """
        limit = TimeLimit(self.seconds)
        token = _CURRENT.set(limit)
        try:
            if in_event_loop:
                handle = asyncio.get_running_loop().call_later(self.seconds, limit.cut)
                try:
                    yield limit
                finally:
                    handle.cancel()
            else:
                self._add(limit)
                try:
                    yield limit
                finally:
                    with self._guard:  # no connection is cut after its work has ended
                        self._running.pop(id(limit), None)
        finally:
            _CURRENT.reset(token)

    def _add(self, limit: TimeLimit) -> None:
        with self._guard:
            self._running[id(limit)] = limit
            if self._thread is None:
                thread = threading.Thread(
                    target=self._watch, name="alfred_refs time limits", daemon=True
                )
                with suppress(RuntimeError):  # a process that is ending starts no threads
                    thread.start()
                    self._thread = thread

    def _watch(self) -> None:
        while True:
            with self._guard:
                now = time.monotonic()
                over = [each for each in self._running.values() if each.ends_at <= now]
                for limit in over:
                    limit.cut()
                    del self._running[id(limit)]
                if not self._running:
                    self._thread = None
                    return
                next_end = min(limit.ends_at for limit in self._running.values())
            time.sleep(min(next_end - now, _LONGEST_SLEEP))


def watch_new_connection(driver_connection: Any) -> None:
    """Add a connection that is being opened to the running limit, if there is one.

    Hooks on new connections execute statements before a pool returns the connection.
    """
    limit = _CURRENT.get()
    if limit is not None:
        limit.watch(driver_connection)


def _cut(driver_connection: Any) -> None:
    """Make the driver find the connection lost, from another thread or the event loop."""
    if hasattr(driver_connection, "terminate"):  # asyncpg
        driver_connection.terminate()
        return
    # The connections of psycopg and psycopg2 are for one thread at a time, but their socket is
    # not. libpq then reads the end of the stream.
    connected = socket.socket(fileno=driver_connection.fileno())
    try:
        connected.shutdown(socket.SHUT_RDWR)
    finally:
        connected.detach()  # the driver closes it
