"""Connections of the PostgreSQL store: its pool, its transactions, and the errors of drivers.

The store never takes part in the application's transaction and never waits for its connection
pool. `OwnEngine` makes a pool of the store's own from the application's engine: the same
credentials and connect hooks, other connections, one pool per process.

>>> from alfred_refs.store.sql import typed_text
>>> connections = PostgresConnections(engine)
>>> statement = typed_text("SELECT turn FROM alfred_refs_conversation WHERE id = :p_id")
>>> connections._read(statement, {"p_id": "chat-7"})
[(0,)]

How statements travel:

- a statement that only reads is sent alone, in autocommit: one round trip. asyncpg without a cache
  of statements, as it is used behind PgBouncer, sends BEGIN and COMMIT with it: it prepares a
  statement in one message and executes it in another, and a pooler must not give these to two
  servers;
- statements that write go together, in a short transaction that sets what it needs. psycopg sends
  all of it, from BEGIN to COMMIT, in one pipeline: one round trip. psycopg2, asyncpg, and psycopg
  on a libpq older than 14 wait for each statement;
- with an asynchronous engine the same methods run inside `AsyncSession.run_sync`, and wait by
  SQLAlchemy's greenlet.

How errors come out: what a driver, a dialect or the pool raises becomes one of the `Registry...`
errors. A transaction that the server rolled back to let another one finish is repeated once; so is
one whose connection was lost, if it is idempotent. An error never contains a key: the driver's own
error is its cause only where that is about the connection.

No call waits longer than the store's `timeout` for a connection and the server's first answer:
`TimeLimits`. When the time is over the connection is cut, the driver raises its error for a lost
connection, and `TimeLimit.is_over` shows the reason. Of transactions of several statements only
BEGIN is limited, except in a pipeline. The server's own settings cannot do this: a pooler such as
PgBouncer accepts a connection at once and holds its first statement back until a connection to the
server is free, and all of these may belong to sessions that wait for this call. No driver but
asyncpg has a time limit for one statement.

>>> limits = TimeLimits(5.0)
>>> with limits.start() as limit, engine.connect() as connection:
...     limit.watch(connection.connection.driver_connection)
...     connection.scalar(select(1)), limit.is_over
(1, False)

Limits:

- Nothing else is retried, and the pool is as large as the application's.
- Opening a connection is limited by the driver's own settings (`connect_timeout`).
- A server that has received a statement may still execute it after its connection was cut.
- With an asynchronous engine the application must dispose of its engine, which closes the store's
  connections too.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import ClauseElement, Compiled, Connection, Dialect, Engine, Executable, event
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    OperationalError,
    TimeoutError as PoolTimeoutError,
)
from sqlalchemy.pool import ConnectionPoolEntry

from alfred_refs import sqla
from alfred_refs.errors import (
    RefError,
    RegistryBusyError,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
    SetupError,
)

if TYPE_CHECKING:
    from sqlalchemy import Row

_T = TypeVar("_T")

TIMEOUT = 5.0
"""The seconds that a call of the store waits for a connection and the server's first answer.

Statements of the store take milliseconds; a model's call, which waits for them, takes seconds.
"""

# Errors: https://www.postgresql.org/docs/current/errcodes-appendix.html

UNIQUE_VIOLATION = "23505"

_MISSING = ("42P01", "42703")  # undefined_table, undefined_column
_ROLLED_BACK = ("40001", "40P01")  # serialization_failure, deadlock_detected
_CONNECTION = (
    "08",  # connection exceptions
    "28",  # invalid authorization
    "3D000",  # no such database
    "53300",  # too many connections
    "57P",  # the server, or a backend, is shut down or starting
)


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of the database, as the registry reports it.

    Attributes:
        error: the error to raise.
        is_disconnect: the connection was lost, so the transaction may or may not have committed.
        is_rolled_back: the server rolled everything back to let another transaction finish.
        is_early: nothing was sent that changes anything.
    """

    error: RefError
    is_disconnect: bool = False
    is_rolled_back: bool = False
    is_early: bool = False


def fault_of(
    error: Exception, database: str, driver: str | None = None, *, connecting: bool = False
) -> Fault | None:
    """Return the fault that an error stands for; `None` if it is not of a database.

    Args:
        error: from SQLAlchemy, or a driver's own.
        database: its name, for messages.
        driver: the driver's name, for remedies.
        connecting: whether it was raised while connecting. It is then about the connection, unless
            it has a SQLSTATE.
    """
    if isinstance(error, PoolTimeoutError):
        return Fault(RegistryBusyError(database))
    driver_error = error.orig if isinstance(error, DBAPIError) else error
    fields = sqla.driver_error_fields(error)
    sqlstate = fields["sqlstate"]
    if sqlstate is None and not connecting and _is_of_a_value(error):
        return Fault(RegistryFailedError("a value that it cannot store", "22000", driver))
    if isinstance(error, DBAPIError):
        is_disconnect = error.connection_invalidated
        # an error without SQLSTATE was detected by the driver, not sent by the server
        at_driver = is_disconnect or connecting or isinstance(error, OperationalError)
        is_of_connection = sqlstate is None and at_driver
    elif (
        sqlstate is not None
        or isinstance(error, OSError)
        or (connecting and isinstance(error, ValueError))
    ):
        # The dialect does not wrap the errors that asyncpg raises while connecting. ValueError is
        # Python's, for a host such as "db..example"; no driver catches it.
        is_disconnect, is_of_connection = False, True
    else:
        return None
    if is_of_connection or (sqlstate or "").startswith(_CONNECTION):
        unreachable = RegistryUnreachableError(database)
        unreachable.__cause__ = driver_error
        return Fault(unreachable, is_disconnect)
    if sqlstate in _MISSING:
        return Fault(RegistryTablesError(database))
    # without DETAIL, where PostgreSQL prints values
    message = fields.get("message") or type(driver_error).__name__
    failure = RegistryFailedError(message, sqlstate, driver)
    return Fault(failure, is_disconnect, sqlstate in _ROLLED_BACK)


def _is_of_a_value(error: Exception) -> bool:
    """Return whether a driver refused to send a value, such as text with NUL."""
    nul = "NUL (0x00)"  # psycopg2 raises ValueError for it, which the dialect does not wrap
    is_encoding = isinstance(error, UnicodeEncodeError | DataError)
    return is_encoding or (isinstance(error, ValueError) and nul in str(error))


# Engine


class OwnEngine:
    """An engine with a separate pool for the store, created on first use.

    It is closed with the application's engine, and by `release`. It does not refer to the store,
    which can be collected while the application's engine lives.

    Args:
        application: the application's engine.
        timeout: the most seconds to wait for a connection and the server's first answer.
    """

    def __init__(self, application: Engine, timeout: float) -> None:
        self._application = application
        self._timeout = timeout
        self._by_process: dict[int, tuple[Engine, TimeLimits]] = {}
        sqla.on_disposal(sqla.root_engine(application), self.close)

    @property
    def is_async(self) -> bool:
        """Whether the application's engine is asynchronous."""
        return self._application.dialect.is_async

    def get(self) -> Engine:
        """Return the engine of this process."""
        return self._get()[0]

    def _get(self) -> tuple[Engine, TimeLimits]:
        """Return the engine and the limits of this process.

        A forked process has its own, because it must not use its parent's sockets. If two threads
        create an engine at the same time, both get the same one; the other was never connected.
        """
        process = os.getpid()
        made = self._by_process.get(process)
        return made or self._by_process.setdefault(process, self._make())

    def run(self, work: Callable[[Connection], _T], *, idempotent: bool = True) -> _T:
        """Call `work` with a connection, and return its result.

        It is called once more if the server rolled it back to let another transaction finish. If
        its connection was lost, nobody knows whether the server committed; it is called once more
        if it is `idempotent`. The pool then replaces all its connections, so that no call fails
        because the server was restarted. Nothing else is retried: an application that limits the
        duration of statements or the number of connections wants the error, and the caller may
        hold a transaction open meanwhile.

        Raises:
            RegistryTablesError: the tables are missing or out of date.
            RegistryUnreachableError: connecting failed, or the connection was lost.
            RegistryBusyError: no connection was free in time, or the server did not answer in
                time.
            RegistryFailedError: the server refused a statement.
        """
        if not sqla.can_wait(self._application):
            raise SetupError(
                "the registry has an asynchronous engine and was called outside an awaited call",
                "await the same method of its aio: registry.aio, conversation.aio, context.aio, "
                "desk.aio; or call it inside await session.run_sync()",
            )
        result = self._attempt(work, may_ping=not idempotent)
        if isinstance(result, Fault) and (
            result.is_rolled_back or (result.is_disconnect and (idempotent or result.is_early))
        ):
            result = self._attempt(work)
        if isinstance(result, Fault):
            # Not raised inside `except`: the driver's error, which prints keys, would become
            # its context.
            raise result.error
        return result

    def _attempt(self, work: Callable[[Connection], _T], *, may_ping: bool = False) -> _T | Fault:
        """Call `work` with a connection.

        Args:
            work: what to do.
            may_ping: test the connection before, if the application's engine does so.
        """
        connecting, is_early = True, may_ping and sqla.pings(self._application)
        engine, limits = self._get()
        dialect = self._application.dialect
        with limits.start(in_event_loop=dialect.is_async) as limit:
            try:
                with engine.connect() as connection:
                    connecting = False
                    limit.watch(connection.connection.driver_connection)
                    connection.info["limit"] = limit
                    if is_early:
                        _send(connection, ["SELECT 1"])
                        is_early = False
                    return work(connection)
            except Exception as error:
                database = self._application.url.database or ""
                if limit.is_over:
                    return Fault(RegistryBusyError(database, self._timeout))
                fault = fault_of(error, database, dialect.driver, connecting=connecting)
                if fault is None:
                    raise
                return replace(fault, is_early=is_early)

    def close(self, *_: Engine) -> None:
        """Close the connections; those that a parent process made are only dropped."""
        engines, self._by_process = self._by_process, {}
        for process, (engine, _limits) in engines.items():
            engine.dispose(close=process == os.getpid())

    def release(self) -> None:
        """Close the connections for good, and stop listening to the application's engine."""
        event.remove(sqla.root_engine(self._application), "engine_disposed", self.close)
        self.close()

    def _make(self) -> tuple[Engine, TimeLimits]:
        application = self._application
        pool = sqla.parallel_pool(application.pool, self._timeout)
        event.listen(pool, "connect", _limit_connect_hooks, insert=True)
        event.listen(pool, "connect", partial(_set_autocommit, application.dialect))
        if application.dialect.driver == "psycopg":
            event.listen(pool, "connect", _dump_arrays_in_binary)
        # hide_parameters keeps keys out of logs
        engine = Engine(pool, application.dialect, application.url, hide_parameters=True)
        return engine, TimeLimits(self._timeout)


def _limit_connect_hooks(_: Any, record: ConnectionPoolEntry) -> None:
    """Limit the time of the application's hooks on a new connection, and of the dialect's."""
    watch_new_connection(record.driver_connection)


def _set_autocommit(dialect: Dialect, connection: Any, _: ConnectionPoolEntry) -> None:
    """Put a new connection into autocommit for good, so that a read is one round trip.

    As the engine's `isolation_level` option, it would be set at each checkout and reset at each
    checkin. With psycopg2 that is a round trip. If it fails, because the connection was lost, the
    driver's own error is raised after the work is done, and the pool loses the place for ever.
    """
    dialect.set_isolation_level(connection, "AUTOCOMMIT")


def _dump_arrays_in_binary(_: Any, record: ConnectionPoolEntry) -> None:
    """Make psycopg send lists in binary format where it may choose.

    In text format it looks for characters to escape in every element, which took longer than all
    the rest that minting does in this process.
    """
    from psycopg.types.array import ListBinaryDumper  # noqa: PLC0415  # the driver is loaded

    cast(Any, record.driver_connection).adapters.register_dumper(list, ListBinaryDumper)


# Transactions

# The settings that writing needs; the defaults of server, database or role may be others. A ref
# that was returned must survive a crash of the server, or another key would get its number. A
# stronger setting than `on`, such as `remote_apply`, is left as it is.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_WRITE = (
    _BEGIN,
    """
    SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off'
    """,
)
# For what may be lost in a crash of the server: the commit does not wait for the disk.
_WRITE_LATER = (_BEGIN, "SET LOCAL synchronous_commit = off")
_SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
_COMMIT = "COMMIT"


@contextmanager
def transaction(connection: Connection, begin: Sequence[str] = _WRITE) -> Iterator[None]:
    """Begin and commit by statements: not every driver can set READ WRITE in another way.

    After BEGIN the transaction has a connection to the server, and no time limit any more.
    """
    with _invalidated_on_failure(connection):
        _send(connection, begin)
        connection.info["limit"].stop()
        yield
        _send(connection, [_COMMIT])


def snapshot(connection: Connection) -> AbstractContextManager[None]:
    """Run all statements on one snapshot, read-only, which a standby can do too."""
    return transaction(connection, _SNAPSHOT)


def reading(connection: Connection) -> AbstractContextManager[None]:
    """Run a statement that only reads in the way that the driver needs."""
    if sqla.caches_statements(connection):
        return nullcontext()
    return transaction(connection, ["BEGIN READ ONLY"])


def _send(connection: Connection, statements: Sequence[str]) -> None:
    """Send statements without parameters; with asyncpg in one message."""
    if connection.dialect.driver == "asyncpg":
        sqla.simple_query(connection, "; ".join(statements))
        return
    for statement in statements:
        connection.exec_driver_sql(statement)


@contextmanager
def _invalidated_on_failure(connection: Connection) -> Iterator[None]:
    """Invalidate a connection whose transaction failed, so that the pool does not keep it.

    It may still be in the transaction. And after an error in a pipeline, psycopg takes a statement
    for prepared that the server skipped.
    """
    try:
        yield
    except BaseException:
        connection.invalidate()
        raise


def _can_pipeline(connection: Connection) -> bool:
    """Return whether the driver has pipelines: psycopg, on libpq 14 or newer."""
    dialect = connection.dialect
    return dialect.driver == "psycopg" and dialect.loaded_dbapi.Pipeline.is_supported()


def _run_pipeline(
    connection: Connection,
    begin: Sequence[str],
    batch: Sequence[Compiled],
    parameters: Mapping[str, Any],
) -> Sequence[Any]:
    """Send a whole transaction by psycopg's pipeline; return the rows of its last statement."""
    driver = cast(Any, connection.connection.driver_connection)
    driver_error = connection.dialect.loaded_dbapi.Error
    is_async = connection.dialect.is_async
    wait = sqla.wait_for if is_async else (lambda result: result)
    pipeline = _async_pipeline(driver.pipeline()) if is_async else driver.pipeline()
    with _invalidated_on_failure(connection), sqla.as_sqlalchemy_errors(connection, driver):
        with _first_error(pipeline, driver_error) as entered:
            # private: tests/store/test_connections.py pins what is sent
            entered._fetch_gen = partial(_fetch_without_flush, entered)  # noqa: SLF001
            for statement in begin:
                wait(driver.execute(statement))
            for query in batch:
                last = wait(driver.execute(str(query), query.construct_params(parameters)))
            wait(driver.execute(_COMMIT))
        return wait(last.fetchall()) if last.description else []


def _fetch_without_flush(pipeline: Any, *, flush: bool) -> Iterator[Any]:
    """Fetch the results of a pipeline, after its Sync; replaces psycopg's method.

    psycopg would send a Flush after the Sync. It may arrive at PgBouncer after that has freed the
    server's connection: PgBouncer would take one for the Flush, and keep it until this client's
    next transaction.
    """
    from psycopg.generators import send  # noqa: PLC0415  # the driver is loaded

    if flush:
        yield from send(pipeline.pgconn)  # the rest of what is buffered
    yield from type(pipeline)._fetch_gen(pipeline, flush=False)  # noqa: SLF001


@contextmanager
def _async_pipeline(pipeline: Any) -> Iterator[Any]:
    """Enter and leave an asynchronous pipeline from inside a greenlet of SQLAlchemy's."""
    entered = sqla.wait_for(pipeline.__aenter__())
    try:
        yield entered
    except BaseException:
        sqla.wait_for(pipeline.__aexit__(*sys.exc_info()))
        raise
    sqla.wait_for(pipeline.__aexit__(None, None, None))


@contextmanager
def _first_error(
    pipeline: AbstractContextManager[Any], driver_error: type[Exception]
) -> Iterator[Any]:
    """Run a pipeline, and raise the first error after it is closed.

    An error may arrive while later statements are sent. If it left psycopg's own context manager,
    psycopg would log a warning that the rest of the pipeline is aborted.
    """
    first = None
    try:
        with pipeline as entered:
            try:
                yield entered
            except driver_error as error:
                first = error
    except driver_error as error:
        first = first or error
    if first is not None:
        raise first


# Statements


class PostgresConnections:
    """The part of `PostgresStore` that executes statements."""

    def __init__(self, engine: Engine, timeout: float = TIMEOUT) -> None:
        self._application = engine
        self._own = OwnEngine(engine, timeout)
        self._compilations: dict[Executable, Compiled] = {}

    def _read(self, statement: Executable, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
        """Execute one statement that only reads."""

        def read(connection: Connection) -> Sequence[Row[Any]]:
            with reading(connection):
                return connection.execute(statement, values).all()

        return self._own.run(read)

    def _write(
        self,
        batch: Sequence[Executable],
        parameters: Mapping[str, Any],
        *,
        idempotent: bool = True,
        durable: bool = True,
    ) -> Sequence[Any]:
        """Execute statements in one transaction, and return the rows of the last one.

        Args:
            batch: the statements, which share the parameters.
            parameters: of all of them.
            idempotent: whether they may be executed again after the connection was lost, when they
                may have been committed already.
            durable: whether they survive a crash of the server right after this returns.
        """
        begin = _WRITE if durable else _WRITE_LATER

        def write(connection: Connection) -> Sequence[Any]:
            if _can_pipeline(connection):
                compiled = [self._compile_once(query) for query in batch]
                return _run_pipeline(connection, begin, compiled, parameters)
            with transaction(connection, begin):
                *_, last = [connection.execute(statement, parameters) for statement in batch]
                return last.all() if last.returns_rows else []

        return self._own.run(write, idempotent=idempotent)

    def _compile_once(self, statement: Executable) -> Compiled:
        """Return a statement compiled once: a pipeline bypasses SQLAlchemy's compiled cache."""
        if statement not in self._compilations:
            clause = cast(ClauseElement, statement)
            self._compilations[statement] = clause.compile(dialect=self._application.dialect)
        return self._compilations[statement]


# Time limits


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
        """End the limit: once the server has answered, the work may take as long as it needs."""
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
        """Return a context manager that limits the work inside it.

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
