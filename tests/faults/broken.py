"""Stores that are wrong in ways that only faults and other processes bring to light.

A campaign with one of them must fail: `python -m tests.faults --store early`. They work with
psycopg only.
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
    """Hands a ref out shortly before it is committed."""

    def _write(
        self,
        batch: Sequence[Executable],
        parameters: Mapping[str, Any],
        *,
        idempotent: bool = True,
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
    """Commit, and tell nobody if that fails."""
    with suppress(DBAPIError), connection:
        connection.exec_driver_sql("commit")


class Unlocked(PostgresStore):
    """Counts without a lock."""

    def _write(
        self,
        batch: Sequence[Executable],
        parameters: Mapping[str, Any],
        *,
        idempotent: bool = True,
    ) -> Sequence[Any]:
        rows = super()._write(batch[-1:], parameters, idempotent=idempotent)
        # there is no conversation yet
        return rows or super()._write(batch, parameters, idempotent=idempotent)


# what `--store` takes -> the store
STORES: Mapping[str, Callable[[Engine], PostgresStore]] = {
    "": PostgresStore,
    "early": Early,
    "unlocked": Unlocked,
}
