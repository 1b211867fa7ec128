"""Broken stores, whose errors show only under faults or concurrency.

A campaign must reject each of them: `python -m tests.faults --store early`. They need psycopg.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Engine, Executable
from sqlalchemy.exc import DBAPIError

from alfred_refs import PostgresStore

DELAY = 0.02


class Early(PostgresStore):
    """Returns refs shortly before they are committed."""

    def _write(
        self,
        batch: Sequence[Executable],
        parameters: Mapping[str, Any],
        *,
        idempotent: bool = True,
        durable: bool = True,  # noqa: ARG002  # the databases of these runs never wait
    ) -> Sequence[Any]:
        def write(_: Connection) -> Sequence[Any]:
            connection = self._own.get().connect()
            connection.exec_driver_sql("begin")
            *_others, last = [connection.execute(query, parameters) for query in batch]
            rows = last.all() if last.returns_rows else []
            threading.Timer(DELAY, commit, [connection]).start()
            return rows

        return self._own.run(write, idempotent=idempotent)


def commit(connection: Connection) -> None:
    """Commit, and ignore a failure."""
    with suppress(DBAPIError), connection:
        connection.exec_driver_sql("commit")


class Unlocked(PostgresStore):
    """Increments counters without a lock."""

    def _write(
        self,
        batch: Sequence[Executable],
        parameters: Mapping[str, Any],
        *,
        idempotent: bool = True,
        durable: bool = True,
    ) -> Sequence[Any]:
        options = {"idempotent": idempotent, "durable": durable}
        rows = super()._write(batch[-1:], parameters, **options)
        # the conversation does not exist yet
        return rows or super()._write(batch, parameters, **options)


# value of `--store` -> store
STORES: Mapping[str, Callable[[Engine], PostgresStore]] = {
    "": PostgresStore,
    "early": Early,
    "unlocked": Unlocked,
}
