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
from sqlalchemy.exc import InvalidRequestError, PendingRollbackError
from sqlalchemy.orm import SessionTransaction

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.session.session import RefSession

# What the setting is now, and the lesser of that and ours from now on; 0 is no limit. The list is
# evaluated from left to right.
_LIMIT = """SELECT current_setting('statement_timeout'), set_config('statement_timeout',
    CASE WHEN current_setting('statement_timeout')::interval
              BETWEEN interval '1 microsecond' AND interval '{0} milliseconds'
         THEN current_setting('statement_timeout') ELSE '{0}ms' END, true)"""
_RESTORE = "SELECT set_config('statement_timeout', '{}', true)"
_READ_ONLY = "set_config('transaction_read_only', 'on', true)"


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
def transaction(
    session: RefSession, seconds: float | None, *, writes: bool = False, only_reads: bool = False
) -> Iterator[None]:
    """Have all that is done inside the `with` done or undone together.

    What comes to nothing leaves no new object in the session, which the next flush would save.

    Args:
        session: if it is in a transaction, or its connection is in one of somebody else's, this is
            a savepoint of that.
        seconds: that one statement may take, `None` for as long as the application lets it.
        writes: whether it matters that all is done or undone.
        only_reads: whether PostgreSQL is to refuse what writes. A savepoint is rolled back then,
            because that alone lets a transaction write again.

    Raises:
        SetupError: something inside has ended the transaction, or there can be none.
    """
    with _joined(session):
        before = session.new
        try:
            with _own(session, seconds, writes=writes, only_reads=only_reads):
                yield
        except BaseException:
            for instance in session.new:
                if instance not in before:
                    session.expunge(instance)
            raise


@contextmanager
def _joined(session: RefSession) -> Iterator[None]:
    """Take part in the transaction that a session's connection is in, if it begins none itself.

    To roll back a session that has joined one rolls back all of it, so nothing but a savepoint is
    rolled back. To commit it only ends its part:
    https://docs.sqlalchemy.org/en/20/orm/session_transaction.html, "Joining a Session into an
    External Transaction".
    """
    bind, mode = session.bind, session.join_transaction_mode
    if (
        session.in_transaction()
        or not (isinstance(bind, Connection) and bind.in_transaction())
        or mode not in ("conditional_savepoint", "rollback_only")
    ):
        yield
        return
    session.begin()
    try:
        yield
    finally:
        session.commit()


@contextmanager
def _own(
    session: RefSession, seconds: float | None, *, writes: bool, only_reads: bool
) -> Iterator[None]:
    is_part = session.in_transaction()
    with session.begin_nested() if is_part else session.begin() as own:
        limited = _limited(session, own, seconds, writes=writes, only_reads=only_reads)
        with limited as (connections, restore):
            try:
                yield
            except InvalidRequestError as error:
                # but not of a flush that has failed, which SQLAlchemy tells again
                if own.is_active or isinstance(error, PendingRollbackError):
                    raise
                raise _ended() from error
        if not own.is_active:
            raise _ended()
        if only_reads and is_part:
            own.rollback()
        elif is_part:  # else the setting ends with the transaction
            restore()
        elif writes:
            # to commit what has failed is to roll it back, without a word: a hook may have caught
            # the error
            for connection in connections:
                _send(session, connection, "SELECT 1")


def _ended() -> SetupError:
    return SetupError(
        "the transaction of a call was committed or rolled back inside of it",
        "leave that to the toolset; a hook uses session.begin_nested() for a part, and raises a "
        "ToolError to refuse the call",
    )


@contextmanager
def _limited(
    session: RefSession,
    own: SessionTransaction,
    seconds: float | None,
    *,
    writes: bool,
    only_reads: bool,
) -> Iterator[tuple[list[Connection], Callable[[], None]]]:
    """Limit how long a statement may take in a transaction, on each connection as it joins.

    Yields:
        the connections, and what puts back the limits as they were.
    """
    connections: list[Connection] = []
    before: list[tuple[Connection, str]] = []

    def join(_: object, joined: SessionTransaction, connection: Connection) -> None:
        # a savepoint's connection joins the transaction around it first, which keeps its limit
        if joined is not own:
            return
        is_needed = writes or only_reads
        if is_needed and getattr(connection.connection, "autocommit", False):
            raise SetupError(
                "a call that needs a transaction was begun on a connection in AUTOCOMMIT",
                "give the session an engine with transactions: a call is done or undone as one",
            )
        connections.append(connection)
        if seconds is not None and connection.dialect.name == "postgresql":
            statement = _LIMIT.format(max(1, round(seconds * 1_000)))
            statement += f", {_READ_ONLY}" if only_reads else ""
            before.append((connection, _send(session, connection, statement).one()[0]))
        elif only_reads:
            _send(session, connection, f"SELECT {_READ_ONLY}")

    def restore() -> None:
        for connection, was in before:
            _send(session, connection, _RESTORE.format(was))

    event.listen(session, "after_begin", join)
    try:
        yield connections, restore
    finally:
        event.remove(session, "after_begin", join)


def _send(session: RefSession, connection: Connection, statement: str) -> CursorResult[Any]:
    with sqla.lifted(session):  # it is about no rows
        return connection.exec_driver_sql(statement)
