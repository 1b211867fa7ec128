"""Engines and their pools: how they end, what errors tell, and in which schemas they work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from sqlalchemy import (
    Connection,
    Engine,
    Pool,
    QueuePool,
    event,
)
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.event.api import _event_key
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.util.concurrency import await_only, in_greenlet

_T = TypeVar("_T")

Schemas = frozenset[tuple[str | None, str | None]]
"""A `schema_translate_map`, by its items."""


def root_of(engine: Engine) -> Engine:
    """Return the engine that owns the pool: `execution_options()` makes another on top of it."""
    return cast(Engine, getattr(engine, "_proxied", engine))


def can_wait(engine: Engine) -> bool:
    """Tell whether a connection of the engine can be used here: an asynchronous one is awaited.

    Leans on `in_greenlet`, which is true inside whatever the asyncio extension awaits.
    """
    return not engine.dialect.is_async or in_greenlet()


def wait_for(awaitable: Awaitable[_T]) -> _T:
    """Return what an awaitable comes to, from inside whatever the asyncio extension awaits.

    Leans on `await_only`, by which the dialects wait for their drivers.
    """
    return await_only(awaitable)


def on_disposal(engine: Engine, disposed: Callable[[Engine], None]) -> None:
    """Have a function called when an engine is disposed of; `event.remove` undoes it.

    Any listener sets `_has_events`, which makes every statement on the engine ask for listeners
    of its execution, those of plain sessions too. Disposal does not look at it.
    """
    had_events = "_has_events" in vars(engine)
    event.listen(engine, "engine_disposed", disposed)
    if not had_events:
        # and not False: what all engines have must still be seen
        vars(engine).pop("_has_events", None)


def listen_first(connection: Connection, hear: Callable[[ExceptionContext], None]) -> None:
    """Have a function told of every error of an engine, before anybody else is.

    `event.listen` does not put listeners of this event first, though it takes `insert=True`; and
    `event.contains` goes by the `id()` of an engine, which may have been another's.
    """
    dialect = cast(Any, connection.dialect)
    if hear not in dialect.dispatch.handle_error:
        dialect._has_events = True
        _event_key(dialect, "handle_error", hear).base_listen(insert=True)


def kept_with_connection(connection: Connection) -> dict[Any, Any]:
    """Return what is kept with a connection of the driver: nothing yet, if that is a new one.

    So is `Connection.info`, which is the application's. Leans on what a pool records of each
    connection, the time it was made among it; one that is detached has no record.
    """
    pooled: Any = connection.connection
    record = pooled._connection_record or pooled
    made = getattr(record, "starttime", 0.0)
    kept = getattr(record, "alfred_refs", None)
    if kept is None or kept[0] != made:
        kept = record.alfred_refs = made, {}
    return cast("dict[Any, Any]", kept[1])


def pool_beside(pool: Pool) -> Pool:
    """Return a new pool with the settings and hooks of another, that may connect beside it.

    Both connect by one dialect, which is initialised in the first connection that any of them
    makes. The others of a pool wait for that on the lock of its `connect` event
    (`_exec_once_mutex`); `recreate()` copies the hooks and not the lock, so here it is shared.
    """
    beside = pool.recreate()
    theirs, ours = (cast(Any, p.dispatch).connect.for_modify(p.dispatch) for p in (pool, beside))
    ours._exec_once_mutex = theirs._get_exec_once_mutex()
    return beside


def connections_of(bind: Any) -> int | None:
    """Return how many connections an engine has at most at a time; `None`: that is not known.

    Leans on `QueuePool._max_overflow`, which has no public name. A size of 0 is no limit.
    """
    pool = getattr(getattr(bind, "sync_engine", bind), "pool", None)
    if not isinstance(pool, QueuePool) or not pool.size() or pool._max_overflow < 0:
        return None
    return pool.size() + pool._max_overflow


def invalidate_pool(connection: Connection, error: BaseException) -> None:
    """Have the pool replace this connection and all that are as old, each when it is next used.

    Leans on `Pool._invalidate`: SQLAlchemy does the same when a statement of its own finds the
    connection cut.
    """
    connection.engine.pool._invalidate(connection.connection, error)
    connection.invalidate(error)


def said(error: DBAPIError) -> dict[str, Any]:
    """Return what a driver's exception says of a violated constraint, whichever driver it is of.

    Some have the fields in their `diag`, others in the exception itself.

    Returns:
        `sqlstate`, and as far as they are told `table_name`, `column_name`, `constraint_name`.
    """
    found: dict[str, Any] = {"sqlstate": None}
    each: BaseException | None = error.orig
    while each is not None:
        diagnosis: Any = getattr(each, "diag", each)
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        found["sqlstate"] = found["sqlstate"] or state
        for name in ("table_name", "column_name", "constraint_name"):
            value = getattr(diagnosis, name, None)
            if value is not None:
                found.setdefault(name, value)
        each = each.__cause__
    return found


def schemas_in(options: Mapping[str, Any]) -> Schemas:
    """Return what execution options say of schemas.

    Leans on `_none`, under which the compiler notes what stands for `None`.
    """
    given: Mapping[str | None, str | None] = options.get("schema_translate_map") or {}
    return frozenset(item for item in given.items() if item[0] not in (item[1], "_none"))


def schemas_of(bind: Any) -> Schemas:
    """Return what an engine or a connection says of schemas, an asynchronous one too."""
    bind = getattr(bind, "sync_engine", getattr(bind, "sync_connection", bind))
    return frozenset() if bind is None else schemas_in(bind.get_execution_options())


def schemas_of_session(session: Session) -> Schemas:
    """Return what a session says of schemas, or else what its binds do, if all say the same.

    Leans on `Session.__binds`, which is public in SQLAlchemy 2.1, as is what its options say.
    """
    own = schemas_in(getattr(session, "execution_options", {}))
    if own:
        return own
    its = vars(session)
    several = its.get("binds", its.get("_Session__binds", {})).values()
    said = set(map(schemas_of, several if session.bind is None else [session.bind]))
    return said.pop() if len(said) == 1 else frozenset()
