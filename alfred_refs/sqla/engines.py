"""Engines, connections and pools: lifetime, error events, schema translation, asyncio.

Functions over public objects (`Engine`, `Connection`, `Pool`, `DBAPIError`) whose behaviour has no
public name in SQLAlchemy, or has it in one of the two supported series only. They keep no state of
their own but `connection_cache`, which lives on the pool's record of a connection.

| to | use |
| --- | --- |
| share one pool between engines made by `execution_options()` | `root_engine` |
| open connections next to an application's pool | `parallel_pool`, `max_connections` |
| close them when the application disposes of its engine | `on_disposal` |
| replace connections that the server has cut | `invalidate_pool` |
| see an error before the application's own listeners | `prepend_error_listener` |
| read the error of any driver | `driver_error_fields` |
| send statements in one message with asyncpg | `simple_query`, `caches_statements` |
| compare schema translation maps | `schemas_in`, `schemas_of`, `schemas_of_session` |
| wait for an asynchronous driver | `can_wait`, `wait_for` |
| give an object an asynchronous interface | `AsyncFacade`, `async_method`, `async_list_method` |

>>> tenant = engine.execution_options(schema_translate_map={None: "tenant_1"})
>>> root_engine(tenant) is engine
True
>>> schemas_of(tenant), schemas_of(engine)
(frozenset({(None, 'tenant_1')}), frozenset())
>>> max_connections(engine)  # pool_size=5, max_overflow=10
15

All I/O of this package is written once, as blocking functions. On an asynchronous engine such a
function must run inside a greenlet that the asyncio extension has spawned, where SQLAlchemy's
dialects await their drivers:

>>> class Counter:
...     count = 0
...
...     def increment(self, by: int = 1) -> int:
...         self.count += by
...         return self.count
>>> class AsyncCounter(AsyncFacade[Counter]):
...     increment = async_method(Counter.increment)
>>> asyncio.run(AsyncCounter(Counter(), is_async=False).increment(by=2))
2

Limits:

- Only `psycopg`, `psycopg2` and `asyncpg` were looked at for `driver_error_fields`.
- A facade does not serialise calls: an object that is not thread-safe must not be shared between
  concurrent tasks.
- Nothing here sends SQL of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, Engine, Pool, QueuePool, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.event.api import _event_key
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.util.concurrency import await_only, greenlet_spawn, in_greenlet as in_greenlet

# Engines and their pools


def root_engine(engine: Engine) -> Engine:
    """Return the engine that owns the pool: `execution_options()` returns a proxy of it."""
    # Private: `OptionEngine._proxied`. Pinned by `test_the_root_of_an_engine_owns_its_pool`.
    return cast(Engine, getattr(engine, "_proxied", engine))


def max_connections(bind: Any) -> int | None:
    """Return how many connections a bind can have open at a time, or `None` if that is unknown.

    Args:
        bind: an `Engine` or `AsyncEngine`; anything else has no known maximum.
    """
    pool = getattr(getattr(bind, "sync_engine", bind), "pool", None)
    # Private: `QueuePool._max_overflow`, negative for no limit, as is a size of 0.
    # Pinned by `test_it_is_known_how_many_connections_there_are`.
    if not isinstance(pool, QueuePool) or not pool.size() or pool._max_overflow < 0:
        return None
    return pool.size() + pool._max_overflow


def parallel_pool(pool: Pool, timeout: float) -> Pool:
    """Return a new pool with the settings and event listeners of another, for use next to it.

    It pings no connection (`pool_pre_ping`) before it returns it.

    Args:
        pool: the other one.
        timeout: the most seconds that it waits for a connection, if the other waits longer.
    """
    parallel = pool.recreate()
    # Private: `_pre_ping`, `QueuePool._timeout`. Pinned by
    # `test_a_pool_beside_another_waits_no_longer_than_it_is_told`.
    parallel._pre_ping = False
    if isinstance(parallel, QueuePool):
        parallel._timeout = min(parallel._timeout, timeout)
    # Both pools connect by one dialect, which the first connection of either initialises. The
    # `connect` event does that once, and lets other threads wait for it on a mutex. `recreate()`
    # copies the listeners but not the mutex, so a connection of the second pool could be used
    # before the dialect knows the server.
    # Private: `_exec_once_mutex`. Pinned by `test_a_pool_beside_another_waits_for_the_dialect`.
    original, copy = (
        cast(Any, p.dispatch).connect.for_modify(p.dispatch) for p in (pool, parallel)
    )
    copy._exec_once_mutex = original._get_exec_once_mutex()
    return parallel


def on_disposal(engine: Engine, listener: Callable[[Engine], None]) -> None:
    """Listen to `engine_disposed` without slowing down the engine's statements.

    `event.remove` undoes it.
    """
    had_events = "_has_events" in vars(engine)
    event.listen(engine, "engine_disposed", listener)
    if not had_events:
        # Any listener sets `_has_events` on its engine; then each statement collects listeners of
        # its execution, on plain sessions too. Disposal dispatches without looking at it. The
        # attribute is deleted, not set to False: that would hide listeners on the class.
        # Pinned by `test_a_listener_for_disposal_costs_no_statement`.
        vars(engine).pop("_has_events", None)


def invalidate_pool(connection: Connection, error: BaseException) -> None:
    """Invalidate a connection, and all pooled ones that are as old when they are next used."""
    # Private: `Pool._invalidate`; SQLAlchemy calls it when a statement finds its connection cut.
    # Pinned by `test_a_pool_can_be_told_to_replace_its_connections`.
    connection.engine.pool._invalidate(connection.connection, error)
    connection.invalidate(error)


def connection_cache(connection: Connection) -> dict[Any, Any]:
    """Return a dictionary that lives as long as the driver's connection: empty for a new one.

    `Connection.info` has the same lifetime, but belongs to the application.
    """
    pooled: Any = connection.connection
    # Private: the pool's record outlives its connection; `starttime` changes when it connects
    # again. A detached connection has no record.
    # Pinned by `test_what_is_kept_with_a_connection_goes_when_it_is_made_anew`.
    record = pooled._connection_record or pooled
    connected_at = getattr(record, "starttime", 0.0)
    entry = getattr(record, "alfred_refs", None)
    if entry is None or entry[0] != connected_at:
        entry = record.alfred_refs = connected_at, {}
    return cast("dict[Any, Any]", entry[1])


# asyncpg prepares each statement in one message and executes it in another. Outside of a
# transaction a pooler may send these to two servers. One message of the simple protocol is enough
# for statements without parameters.


def pings(engine: Engine) -> bool:
    """Return whether an engine's pool tests connections before it returns them."""
    # Private: `_pre_ping`, of the argument `pool_pre_ping`. Pinned as above.
    return bool(engine.pool._pre_ping)


def caches_statements(connection: Connection) -> bool:
    """Return whether the driver keeps prepared statements; asyncpg can be configured not to.

    Without a cache a connection is behind a pooler: SQLAlchemy documents it for that.
    """
    # Private: `_prepared_statement_cache` of SQLAlchemy's adapter for asyncpg.
    # Pinned by `test_asyncpg_caches_statements_unless_it_is_told_not_to`.
    adapter: Any = connection.connection.dbapi_connection
    return getattr(adapter, "_prepared_statement_cache", adapter) is not None


def simple_query(connection: Connection, statements: str) -> None:
    """Send statements without parameters and results in one message, with asyncpg.

    Raises:
        DBAPIError: as `connection.execute()` raises it.
    """
    adapter: Any = connection.connection.dbapi_connection
    try:
        wait_for(adapter.driver_connection.execute(statements))
    except Exception as error:  # noqa: BLE001  # translated, or raised again
        with as_sqlalchemy_errors(connection, adapter):
            # Private: `_handle_exception`, which raises. Pinned by
            # `test_the_simple_protocol_raises_what_sqlalchemy_raises`.
            adapter._handle_exception(error)


@contextmanager
def as_sqlalchemy_errors(connection: Connection, at_driver: Any) -> Iterator[None]:
    """Raise errors of the driver as SQLAlchemy does for statements that it executes itself.

    If the connection was lost, all pooled ones that are as old are replaced when they are used.

    Args:
        connection: the connection.
        at_driver: the object of the driver, or of SQLAlchemy's adapter, that has raised the error.
    """
    driver_error = connection.dialect.loaded_dbapi.Error
    try:
        yield
    except driver_error as error:
        is_disconnect = connection.dialect.is_disconnect(error, at_driver, None)
        if is_disconnect:
            invalidate_pool(connection, error)
        raise DBAPIError.instance(
            None, None, error, driver_error, connection_invalidated=is_disconnect
        ) from None


# Errors

# names of SQLite's errors (https://www.sqlite.org/rescode.html) -> PostgreSQL's SQLSTATE
_SQLITE_STATES: Mapping[str, str] = {
    "SQLITE_CONSTRAINT_CHECK": "23514",
    "SQLITE_CONSTRAINT_FOREIGNKEY": "23503",
    "SQLITE_CONSTRAINT_NOTNULL": "23502",
    "SQLITE_CONSTRAINT_PRIMARYKEY": "23505",
    "SQLITE_CONSTRAINT_UNIQUE": "23505",
}

# the names of fields in the drivers
_ERROR_FIELDS = (
    *("message_primary", "message", "table_name", "column_name", "constraint_name"),
    *("source_function", "server_source_function"),
)


def prepend_error_listener(
    connection: Connection, listener: Callable[[ExceptionContext], BaseException | None]
) -> None:
    """Call a function for every error of a connection's dialect, before any other listener.

    An exception that it returns is raised instead. Listening twice is listening once.
    """
    # `event.listen(..., insert=True)` does not insert at the front for this event, and
    # `event.contains` compares the `id()` of engines, and a new engine may have a deleted one's.
    # Private: `_event_key`, `base_listen`. Pinned by `test_a_listener_for_errors_can_come_first`.
    dialect = cast(Any, connection.dialect)
    if listener not in dialect.dispatch.handle_error:
        dialect._has_events = True
        _event_key(dialect, "handle_error", listener).base_listen(insert=True)


def driver_error_fields(error: BaseException) -> dict[str, Any]:
    """Return the fields of a driver's exception, such as its SQLSTATE and the constraint.

    psycopg and psycopg2 have them in `diag`, asyncpg in the exception that caused its own.

    Args:
        error: the driver's exception, or SQLAlchemy's for it.

    Returns:
        `sqlstate`, which may be `None`; `message`, `table_name`, `column_name`, `constraint_name`
        and `source_function`, of the server's source, if the server has sent them.
    """
    fields: dict[str, Any] = {"sqlstate": None}
    each = error.orig if isinstance(error, DBAPIError) else error
    while each is not None:
        diagnostics: Any = getattr(each, "diag", each)
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        state = state or _SQLITE_STATES.get(getattr(each, "sqlite_errorname", ""))
        fields["sqlstate"] = fields["sqlstate"] or state
        for name in _ERROR_FIELDS:
            value = getattr(diagnostics, name, None)
            if value is not None:
                fields.setdefault(name.removesuffix("_primary").removeprefix("server_"), value)
        each = each.__cause__
    return fields


# Schemas

Schemas = frozenset[tuple[str | None, str | None]]
"""The items of a `schema_translate_map` that translate to another name."""


def schemas_in(options: Mapping[str, Any]) -> Schemas:
    """Return the schema translation in execution options."""
    schema_map: Mapping[str | None, str | None] = options.get("schema_translate_map") or {}
    # Private: the compiler adds "_none" to the map, for the schema `None`.
    return frozenset(item for item in schema_map.items() if item[0] not in (item[1], "_none"))


def schemas_of(bind: Any) -> Schemas:
    """Return the schema translation of an engine or connection, asynchronous ones included.

    `None`, mock engines and other objects in the place of a bind have none.
    """
    bind = getattr(bind, "sync_engine", getattr(bind, "sync_connection", bind))
    is_real = isinstance(bind, Engine | Connection)
    return schemas_in(bind.get_execution_options()) if is_real else frozenset()


def schemas_of_session(session: Session) -> Schemas:
    """Return the schema translation of a session, or the one that all of its binds have."""
    own = schemas_in(getattr(session, "execution_options", {}))  # new in SQLAlchemy 2.1
    if own:
        return own
    # Private: `Session.__binds` in SQLAlchemy 2.0, `Session.binds` in 2.1.
    # Pinned by `test_a_tenants_conversation_is_refused_for_another_tenants_rows`.
    attributes = vars(session)
    binds = attributes.get("binds", attributes.get("_Session__binds", {})).values()
    maps = set(map(schemas_of, binds if session.bind is None else [session.bind]))
    return maps.pop() if len(maps) == 1 else frozenset()


# Blocking code on asynchronous engines


_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")
_S_co = TypeVar("_S_co", covariant=True)


def can_wait(engine: Engine) -> bool:
    """Return whether a blocking call may use a connection of the engine here.

    Always for a synchronous engine; for an asynchronous one only inside `greenlet_spawn()`.
    """
    return not engine.dialect.is_async or in_greenlet()


def wait_for(awaitable: Awaitable[_R]) -> _R:
    """Return the result of an awaitable, from a blocking call inside `greenlet_spawn()`.

    SQLAlchemy's dialects call asynchronous drivers in the same way.
    """
    return await_only(awaitable)


class AsyncFacade(Generic[_S_co]):
    """The asynchronous interface of a synchronous object.

    Attributes:
        sync: the object.
        is_async: whether the object uses an asynchronous engine, so that its methods run in a
            greenlet; otherwise they run in a thread.
    """

    def __init__(self, sync: _S_co, *, is_async: bool) -> None:
        self.sync = sync
        self.is_async = is_async

    async def run(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Await a blocking function, as `AsyncSession.run_sync` does; the event loop goes on."""
        if self.is_async:
            return await greenlet_spawn(partial(function, *args, **kwargs))
        return await asyncio.to_thread(function, *args, **kwargs)


def async_method(
    method: Callable[Concatenate[_S, _P], _R],
) -> Callable[Concatenate[AsyncFacade[_S], _P], Coroutine[Any, Any, _R]]:
    """Return the coroutine method of a facade that calls a method of its object."""

    @wraps(method)
    async def run(self: AsyncFacade[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self.run(method, self.sync, *args, **kwargs)

    return run


def async_list_method(
    method: Callable[Concatenate[_S, _P], Iterable[_R]],
) -> Callable[Concatenate[AsyncFacade[_S], _P], Coroutine[Any, Any, list[_R]]]:
    """Return the coroutine method of a facade that returns all items of an iterator as a list."""

    @wraps(method)
    async def run(self: AsyncFacade[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> list[_R]:
        return await self.run(lambda: list(method(self.sync, *args, **kwargs)))

    return run
