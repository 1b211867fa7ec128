"""Server processes that are used again by psycopg connections, one after another.

PostgreSQL starts a process for each connection, and fills its caches with the tables that it
uses. That takes longer than most tests, so a closed connection leaves its process to the next.

In: the URL of a database. Out: an engine. SQLAlchemy's part of it is new, and its connections are
to all appearances: the server forgets settings, prepared statements, temporary tables and locks.
A process that is in a transaction that it cannot roll back, or that was terminated, is not used
again. `BETWEEN_TESTS` is the `application_name` of those that no connection uses.
"""

from __future__ import annotations

import os
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq import ConnStatus, ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn
from sqlalchemy import Engine, create_engine

BETWEEN_TESTS = "between tests"

# more are rarely open at a time
MOST = 4


class Backends:
    """The server processes of one database.

    Args:
        url: of the database, password included.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._process = os.getpid()
        self._unused: list[PGconn] = []

    def engine(self) -> Engine:
        """Return an engine whose connections use the processes."""

        def connect() -> psycopg.Connection[Any]:
            words, options = engine.dialect.create_connect_args(engine.url)
            return self._reconnect(options["context"]) or self._connect(*words, **options)

        engine = create_engine(self._url, creator=connect)
        return engine

    def close(self) -> None:
        """End the processes that no connection uses."""
        while self._unused:
            self._unused.pop().finish()

    def keep(self, process: PGconn) -> bool:
        """Reset a process and keep it, if that is possible; return whether it was."""
        if os.getpid() != self._process or len(self._unused) >= MOST:
            return False
        if process.pipeline_status != PipelineStatus.OFF:
            return False
        process.notice_handler = process.notify_handler = None
        resets = [b"discard all", f"set application_name = '{BETWEEN_TESTS}'".encode()]
        if process.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
            resets.insert(0, b"rollback")
        elif process.transaction_status != TransactionStatus.IDLE:
            return False
        if all(_succeeds(process, reset) for reset in resets):
            self._unused.append(process)
            return True
        return False

    def _connect(self, *words: Any, **options: Any) -> psycopg.Connection[Any]:
        connection = _Connection.connect(*words, **options)
        connection.backends = self
        return connection

    def _reconnect(self, adapters: Any) -> psycopg.Connection[Any] | None:
        while self._unused:
            process = self._unused.pop()
            if _succeeds(process, b"reset application_name"):
                connection = _Connection(process)
                connection.backends = self
                connection._adapters = AdaptersMap(adapters.adapters)
                return connection
            process.finish()
        return None


class _Connection(psycopg.Connection[Any]):
    """A connection that returns its server process when it is closed."""

    backends: Backends | None = None

    def close(self) -> None:
        """Return the process, or end it."""
        process = self.pgconn
        if not self.closed and self.backends is not None and self.backends.keep(process):
            # a connection without a process is closed
            self.pgconn = psycopg.pq.PGconn.connect_start(b"host=/nowhere")
            assert self.pgconn.status == ConnStatus.BAD
            self._closed = True
        super().close()


def _succeeds(process: PGconn, command: bytes) -> bool:
    return process.exec_(command).status == ExecStatus.COMMAND_OK
