"""The transaction of a call: what it does is done or undone together, and nothing besides.

A session comes in, in a transaction or in none, and is left as it came whatever happens: a call is
a savepoint of the application's transaction, or a transaction that is over when the call is. What
is looked up once it is over, to tell what was wrong, leaves nothing open either.

    with left_as_found(session), transaction(session, seconds=10):
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, CursorResult, event
from sqlalchemy.orm import SessionTransaction

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.session import RefSession

# What the setting is now, and the lesser of that and ours from now on; 0 is no limit. The list is
# evaluated from left to right.
_LIMIT = """SELECT current_setting('statement_timeout'), set_config('statement_timeout',
    CASE WHEN current_setting('statement_timeout')::interval
              BETWEEN interval '1 microsecond' AND interval '{0} milliseconds'
         THEN current_setting('statement_timeout') ELSE '{0}ms' END, true)"""
_RESTORE = "SELECT set_config('statement_timeout', '{}', true)"


@contextmanager
def left_as_found(session: RefSession) -> Iterator[None]:
    """Leave a session's transaction as it is found, whatever happens inside the `with`.

    A transaction that is open at the end, and was not at the beginning, is rolled back: what a
    call has to keep it has committed, and a later call would become a savepoint of the rest.
    """
    found = session.in_transaction()
    try:
        yield
    finally:
        if not found and session.in_transaction():
            session.rollback()


@contextmanager
def transaction(session: RefSession, seconds: float | None) -> Iterator[None]:
    """Have all that is done inside the `with` done or undone together.

    Args:
        session: if it is in a transaction, this is a savepoint of that.
        seconds: that one statement may take, `None` for as long as the application lets it.

    Raises:
        SetupError: something inside has ended the transaction.
    """
    is_part = session.in_transaction()
    with session.begin_nested() if is_part else session.begin() as own:
        with _limited(session, own, seconds) as restore:
            yield
        if not own.is_active:
            raise SetupError(
                "the transaction of a call was committed or rolled back inside of it",
                "leave that to the toolset; a hook uses session.begin_nested() for a part, and "
                "raises a ToolError to refuse the call",
            )
        if is_part:  # else the setting ends with the transaction
            restore()


@contextmanager
def _limited(
    session: RefSession, own: SessionTransaction, seconds: float | None
) -> Iterator[Callable[[], None]]:
    """Limit how long a statement may take in a transaction, on each connection as it joins.

    Yields:
        what puts back the limits as they were.
    """
    before: list[tuple[Connection, str]] = []

    def limit(_: object, joined: SessionTransaction, connection: Connection) -> None:
        # a savepoint's connection joins the transaction around it first, which keeps its limit
        if joined is own and connection.dialect.name == "postgresql":
            statement = _LIMIT.format(max(1, round((seconds or 0) * 1_000)))
            before.append((connection, send(connection, statement).one()[0]))

    def restore() -> None:
        for connection, was in before:
            send(connection, _RESTORE.format(was))

    def send(connection: Connection, statement: str) -> CursorResult[Any]:
        with sqla.lifted(session):  # it is about no rows
            return connection.exec_driver_sql(statement)

    if seconds is None:
        yield restore
        return
    event.listen(session, "after_begin", limit)
    try:
        yield restore
    finally:
        event.remove(session, "after_begin", limit)
