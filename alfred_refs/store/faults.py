"""What a failure means for the registry.

In: what a driver, a dialect or a pool raised while the registry worked. Out: the error of ours
that says what to do, and whether the work may be done once more. No key goes out: the driver's own
error is the cause of ours only where it is about the connection.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, OperationalError, TimeoutError as PoolTimeoutError

from alfred_refs.errors import (
    RefError,
    RegistryBusyError,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
)

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_MISSING = ("42P01", "42703")  # undefined_table, undefined_column
_UNDONE = ("40001", "40P01")  # serialization_failure, deadlock_detected
_CONNECTION = (
    "08",  # connection exceptions
    "28",  # invalid authorization
    "3D000",  # no such database
    "53300",  # too many connections
    "57P",  # the server, or a backend, is shut down or starting
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong.

    Attributes:
        error: to be raised.
        cut: the connection is gone, and nobody knows whether the server committed.
        undone: the server rolled everything back to let another transaction finish.
    """

    error: RefError
    cut: bool = False
    undone: bool = False


def fault_of(error: Exception, database: str, *, connecting: bool = False) -> Fault | None:
    """Return what an error means; `None` for one that is not of a database.

    While `connecting`, one without a code of PostgreSQL's is of the connection.
    """
    if isinstance(error, PoolTimeoutError):
        return Fault(RegistryBusyError(database))
    driver_error = error.orig if isinstance(error, DBAPIError) else error
    sqlstate = _sqlstate(driver_error)
    if isinstance(error, DBAPIError):
        cut = error.connection_invalidated
        # without a code it was the driver that noticed
        at_driver = cut or connecting or isinstance(error, OperationalError)
        is_of_connection = sqlstate is None and at_driver
    elif (
        sqlstate is not None
        or isinstance(error, OSError)
        or (connecting and isinstance(error, ValueError))
    ):
        # connecting with asyncpg, whose errors the dialect leaves as they are; or what Python says
        # of a host such as "db..example", which no driver catches
        cut, is_of_connection = False, True
    else:
        return None
    if is_of_connection or (sqlstate or "").startswith(_CONNECTION):
        unreachable = RegistryUnreachableError(database)
        unreachable.__cause__ = driver_error
        return Fault(unreachable, cut)
    if sqlstate in _MISSING:
        return Fault(RegistryTablesError(database))
    return Fault(RegistryFailedError(_reason(driver_error), sqlstate), cut, sqlstate in _UNDONE)


def _sqlstate(error: BaseException | None) -> str | None:
    """Return PostgreSQL's error code: `sqlstate` in psycopg and asyncpg, `pgcode` in psycopg2."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _reason(error: BaseException | None) -> str:
    """Return the server's message without details; they are where it prints values."""
    diagnosis = getattr(error, "diag", None)  # of psycopg and psycopg2
    message = getattr(diagnosis, "message_primary", None)
    # asyncpg's own error is the cause of the dialect's
    message = message or getattr(getattr(error, "__cause__", None), "message", None)
    return message or type(error).__name__
