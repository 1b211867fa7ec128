"""Connections of the PostgreSQL store: pool, driver errors.

What a failure means for the registry.

In: what a driver, a dialect or a pool raised while the registry worked. Out: the error of ours
that says what to do, and whether the work may be done once more. No key goes out: the driver's own
error is the cause of ours only where it is about the connection.

Connections of our own beside the application's, and how statements travel on them.

A reading statement goes alone, which is one trip; those that write go together, as a short
transaction that says what it needs.

Nothing here takes part in the application's transaction, and nothing waits for its connection
pool: a pool of our own, made from the application's, shares its credentials and connect hooks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import ClauseElement, Compiled, Connection, Dialect, Engine, Executable, event
from sqlalchemy.exc import DBAPIError, OperationalError, TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from alfred_refs import sqla
from alfred_refs.errors import (
    RefError,
    RegistryBusyError,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
    SetupError,
    UnknownConversationError,
)
from alfred_refs.store.protocol import Address
from alfred_refs.store.sql import address_parameters, tables_of_refs

if TYPE_CHECKING:
    from sqlalchemy import Row


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


# https://www.postgresql.org/docs/current/errcodes-appendix.html
UNIQUE_VIOLATION = "23505"

# What minting needs, whatever the defaults of the server, the database or the role are. A ref that
# was handed out must outlive a crash of the server: its number would be given to another key. Who
# asks for more than that, as `remote_apply` does, is not given less.
_WRITING = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    """
    SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off'
    """,
)
_SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
_COMMIT = "COMMIT"

_T = TypeVar("_T")
_Row = TypeVar("_Row", bound=Sequence[Any])


class OwnEngine:
    """An engine on a pool of our own, made from the application's at its first use in a process.

    It is closed when the application closes its own, and by `release`; nothing here refers to the
    store.
    """

    def __init__(self, application: Engine) -> None:
        self._application = application
        self._by_process: dict[int, Engine] = {}
        sqla.on_disposal(sqla.root_of(application), self.close)

    @property
    def is_async(self) -> bool:
        """Whether the application's engine is asynchronous."""
        return self._application.dialect.is_async

    def get(self) -> Engine:
        """Return the engine of this process: a forked one must not use its parent's sockets.

        Two threads may both make the first one. One of them is kept, for both; the other has no
        connection yet.
        """
        process = os.getpid()
        found = self._by_process.get(process)
        return found or self._by_process.setdefault(process, self._make())

    def run(self, work: Callable[[Connection], _T], *, again: bool = True) -> _T:
        """Do work on a connection of our own.

        Work that the server undid as a whole, to let another transaction finish, is done once
        more. So is work that finds its connection cut, if it may: the pool then replaces all its
        connections, so a restarted server costs nobody a failed call. Nothing else is: whoever
        limits how long a statement takes, or how many connections there are, wants to be told,
        and a caller may hold a transaction open meanwhile.

        Where the connection was cut, nobody knows whether the server committed: without `again`,
        work is not done twice then.

        Raises:
            RegistryTablesError: the tables are missing or out of date.
            RegistryUnreachableError: there is no connection to be had, or it was cut.
            RegistryBusyError: all connections of the pool were in use for too long.
            RegistryFailedError: the server refused a statement.
        """
        if not sqla.can_wait(self._application):
            raise SetupError(
                "the registry has an asynchronous engine and was asked outside of an awaited call",
                "await the asynchronous side: conversation.aio, registry.aio, context.aio; "
                "or call it inside await session.run_sync()",
            )
        fault = self._attempt(work)
        if isinstance(fault, Fault) and (fault.undone or (again and fault.cut)):
            fault = self._attempt(work)
        if isinstance(fault, Fault):
            # here and not where it was caught: there the driver's error, which prints keys, would
            # be its context
            raise fault.error
        return fault

    def _attempt(self, work: Callable[[Connection], _T]) -> _T | Fault:
        connecting = True
        try:
            with self.get().connect() as connection:
                connecting = False
                return work(connection)
        except Exception as error:
            database = self._application.url.database or ""
            fault = fault_of(error, database, connecting=connecting)
            if fault is None:
                raise
            return fault

    def close(self, *_: Engine) -> None:
        """Close the connections; of those that a parent process made, only forget them."""
        engines, self._by_process = self._by_process, {}
        for process, engine in engines.items():
            engine.dispose(close=process == os.getpid())

    def release(self) -> None:
        """Close the connections for good, and leave no trace in the application's engine."""
        event.remove(sqla.root_of(self._application), "engine_disposed", self.close)
        self.close()

    def _make(self) -> Engine:
        """Hidden parameters keep keys out of logs."""
        application = self._application
        pool = sqla.parallel_pool(application.pool)
        event.listen(pool, "connect", partial(_commit_each, application.dialect))
        if application.dialect.driver == "psycopg":
            event.listen(pool, "connect", _write_arrays_in_binary)
        return Engine(pool, application.dialect, application.url, hide_parameters=True)


def _commit_each(dialect: Dialect, connection: Any, _: ConnectionPoolEntry) -> None:
    """Have a statement commit by itself, for as long as a connection lasts: a read is one trip.

    As an option of the engine it would be set at each use and reset after it. With psycopg2 that
    takes a trip; and where it fails, because the connection was cut, the error is the driver's
    own, comes after the work was done, and costs the pool a place for ever.
    """
    dialect.set_isolation_level(connection, "AUTOCOMMIT")


def _write_arrays_in_binary(_: Any, record: ConnectionPoolEntry) -> None:
    """Have psycopg write arrays in binary where it is free to choose.

    As text, it looks for characters to escape in every element: that took longer than anything
    else that minting does in this process.
    """
    from psycopg.types.array import ListBinaryDumper  # noqa: PLC0415  # it is the driver

    cast(Any, record.driver_connection).adapters.register_dumper(list, ListBinaryDumper)


@contextmanager
def transaction(connection: Connection, begin: Sequence[str] = _WRITING) -> Iterator[None]:
    """Begin and commit by statements: not every driver can ask for READ WRITE in another way."""
    with _closed_on_failure(connection):
        for statement in begin:
            connection.exec_driver_sql(statement)
        yield
        connection.exec_driver_sql(_COMMIT)


def snapshot(connection: Connection) -> AbstractContextManager[None]:
    """Let all statements read what there is at one moment; a standby can do it too."""
    return transaction(connection, _SNAPSHOT)


@contextmanager
def _closed_on_failure(connection: Connection) -> Iterator[None]:
    """Never give a connection back to the pool whose transaction was not committed.

    It may still be in the transaction, and psycopg takes a statement for prepared that the server
    skipped because an earlier one of the pipeline had failed.
    """
    try:
        yield
    except BaseException:
        connection.invalidate()
        raise


def _can_pipeline(connection: Connection) -> bool:
    """Tell whether statements can travel together: with psycopg, on libpq 14 or newer."""
    dialect = connection.dialect
    return dialect.driver == "psycopg" and dialect.loaded_dbapi.Pipeline.is_supported()


def _in_one_trip(
    connection: Connection, batch: Sequence[Compiled], parameters: Mapping[str, Any]
) -> Sequence[Any]:
    """Send a whole transaction by psycopg's pipeline and return the rows of its last statement."""
    driver = cast(Any, connection.connection.driver_connection)
    driver_error = connection.dialect.loaded_dbapi.Error
    is_async = connection.dialect.is_async
    come = sqla.wait_for if is_async else (lambda result: result)
    pipeline = _async_pipeline(driver.pipeline()) if is_async else driver.pipeline()
    with _closed_on_failure(connection):
        try:
            with _first_error(pipeline, driver_error):
                for statement in _WRITING:
                    come(driver.execute(statement))
                for query in batch:
                    last = come(driver.execute(str(query), query.construct_params(parameters)))
                come(driver.execute(_COMMIT))
            return come(last.fetchall()) if last.description else []
        except driver_error as error:
            lost = connection.dialect.is_disconnect(error, driver, None)
            if lost:
                sqla.invalidate_pool(connection, error)
            raise DBAPIError.instance(
                None, None, error, driver_error, connection_invalidated=lost
            ) from None


@contextmanager
def _async_pipeline(pipeline: Any) -> Iterator[None]:
    """Enter and leave an asynchronous pipeline from inside what the asyncio extension awaits."""
    sqla.wait_for(pipeline.__aenter__())
    try:
        yield
    finally:
        sqla.wait_for(pipeline.__aexit__(*sys.exc_info()))


@contextmanager
def _first_error(
    pipeline: AbstractContextManager[Any], driver_error: type[Exception]
) -> Iterator[None]:
    """Let statements travel together, and raise the first error in the end.

    An error may arrive while later statements are sent. Raised through psycopg's own pipeline, it
    would make that log a warning that the rest is aborted.
    """
    first = None
    try:
        with pipeline:
            try:
                yield
            except driver_error as error:
                first = error
    except driver_error as error:
        first = first or error
    if first is not None:
        raise first


class Sending:
    """The part of `PostgresStore` that has the connections."""

    def __init__(self, engine: Engine) -> None:
        self._application = engine
        self._own = OwnEngine(engine)
        self._compilations: dict[Executable, Compiled] = {}

    def _alone(self, statement: Executable, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
        """Run one reading statement, without BEGIN and COMMIT."""
        return self._own.run(lambda connection: connection.execute(statement, values).all())

    def _rows(
        self, statement: Executable, address: Address, **parameters: Any
    ) -> Sequence[Row[Any]]:
        """Run one reading statement about a conversation."""
        return self._alone(statement, address_parameters(address) | parameters)

    def _check_tables(self, address: Address) -> None:
        """Refuse a conversation of another owner, and refs of other tables than are used here."""
        for row in only_mine(self._rows(tables_of_refs, address), address):
            address.check_table(row.entity, row.table_name)

    def _write(
        self, batch: Sequence[Executable], parameters: Mapping[str, Any], *, again: bool = True
    ) -> Sequence[Any]:
        """Run statements in one transaction and return the rows of the last.

        With psycopg, in asynchronous engines too, they travel together; asyncpg and psycopg2, and
        a libpq older than 14, wait for each. Unless `again` is false, it must change nothing if
        done twice.
        """

        def write(connection: Connection) -> Sequence[Any]:
            if _can_pipeline(connection):
                return _in_one_trip(connection, [self._compiled(q) for q in batch], parameters)
            with transaction(connection):
                *_, last = [connection.execute(statement, parameters) for statement in batch]
                return last.all() if last.returns_rows else []

        return self._own.run(write, again=again)

    def _compiled(self, statement: Executable) -> Compiled:
        if statement not in self._compilations:
            clause = cast(ClauseElement, statement)
            self._compilations[statement] = clause.compile(dialect=self._application.dialect)
        return self._compilations[statement]


def only_mine(rows: Sequence[_Row], address: Address) -> Sequence[_Row]:
    """Return rows that begin with whether the conversation is this owner's; refuse another's."""
    if rows and not rows[0][0]:
        raise UnknownConversationError(address.id)
    return rows
