"""Session and result hooks: HookedSession, rewrite_rows, awaited.

Results whose rows, and whatever else they tell, go through a function first.

What a session takes in, and what it raises.

Methods that do I/O, for those who await: one line a method, and nothing written twice.

    class AsyncCounter(Awaited[Counter]):
        next = awaited(Counter.next)

    await AsyncCounter(counter, is_async=True).next()

On an asynchronous engine a method runs inside what SQLAlchemy's asyncio extension awaits, as that
of an `AsyncSession` does; on any other in a thread, so that the event loop goes on.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from sqlalchemy import Connection, CursorResult, Result, Row
from sqlalchemy.engine import ChunkedIteratorResult
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Mapper, ORMExecuteState, Session, SessionTransaction
from sqlalchemy.schema import DefaultGenerator
from sqlalchemy.util.concurrency import greenlet_spawn

from alfred_refs.errors import UntranslatableError

Rows = Sequence[Any]
"""A chunk of rows: tuples of one value per result element."""

_SHOW = "alfred_refs"  # the function, in the dictionary of a covered result


def row_like(row: Row[Any], values: Sequence[Any]) -> Row[Any]:
    """Return a row with other values: one inside a row, as a `Bundle` makes it."""
    inner = cast(Any, row)
    return type(row)(inner._parent, None, inner._key_to_index, values)


class _CoveredCursor(CursorResult[Any]):
    """A cursor's result whose exits beside its rows go through a function first.

    `inserted_primary_key` takes its row from `inserted_primary_key_rows`.
    """

    __slots__ = ()

    def _exit(self, name: str) -> Any:
        return self.__dict__[_SHOW](name, getattr(super(), name))

    inserted_primary_key_rows = property(lambda self: self._exit("inserted_primary_key_rows"))
    returned_defaults = property(lambda self: self._exit("returned_defaults"))
    returned_defaults_rows = property(lambda self: self._exit("returned_defaults_rows"))
    lastrowid = property(lambda self: self._exit("lastrowid"))

    def last_inserted_params(self) -> Any:
        """See `CursorResult.last_inserted_params`."""
        return self.__dict__[_SHOW]("last_inserted_params", super().last_inserted_params())

    def last_updated_params(self) -> Any:
        """See `CursorResult.last_updated_params`."""
        return self.__dict__[_SHOW]("last_updated_params", super().last_updated_params())


def rewrite_write_info(result: CursorResult[Any], show: Callable[[str, Any], Any]) -> None:
    """Have what a result tells beside its rows go through a function, by the exit's name.

    It stays the same object, of a subclass: others may hold it, as a rewritten result does.
    """
    if type(result) is CursorResult:
        result.__class__ = _CoveredCursor
        result.__dict__[_SHOW] = show


def read_inserted_keys(result: CursorResult[Any]) -> None:
    """Ask a result for the primary keys of the rows that it inserted, if it can tell."""
    with suppress(InvalidRequestError):
        _ = result.inserted_primary_key_rows


def cursor_result_of(result: Result[Any]) -> CursorResult[Any] | None:
    """Return the result of the cursor that a result is made from, `None` if there is none."""
    raw = getattr(result, "raw", None) if isinstance(result, ChunkedIteratorResult) else result
    return raw if isinstance(raw, CursorResult) else None


def column_origins(result: CursorResult[Any]) -> list[tuple[int, int]]:
    """Return from which table and column, by their numbers, each value of a row is read.

    That is what PostgreSQL sends with the rows: psycopg keeps it in the result of libpq, psycopg2
    in the description. Zeros stand for what no column holds, and for all columns where the driver
    does not tell. SQLAlchemy's adapted cursors have that of the driver in `_cursor`.
    """
    cursor = getattr(result.context, "cursor", None)
    cursor = getattr(cursor, "_cursor", cursor)
    described = getattr(cursor, "pgresult", None)
    if described is not None:
        numbers = range(described.nfields)
        return [(described.ftable(i), described.ftablecol(i)) for i in numbers]
    return [
        (getattr(column, "table_oid", None) or 0, getattr(column, "table_column", None) or 0)
        for column in getattr(cursor, "description", None) or ()
    ]


class RewrittenResult(ChunkedIteratorResult[Any]):
    """The rewritten rows of a Core result, which answers for everything but its rows.

    Attributes:
        behind: that result.
    """

    behind: Result[Any]

    def __getattr__(self, name: str) -> Any:
        if name in ("splice_horizontally", "splice_vertically"):
            raise UntranslatableError(
                f"{name}() would put together rows with their keys",
                "put together what all() returns, or use session.raw_keys() or "
                "execution_options(raw_keys=True) in trusted code",
            )
        if name == "behind":  # not set yet
            raise AttributeError(name)
        return getattr(self.behind, name)


def is_chunked(result: Result[Any]) -> bool:
    """Tell whether a result is the ORM's own, or one that `rewrite_rows` made of a Core result."""
    return isinstance(result, ChunkedIteratorResult)


def rewrite_rows(
    result: Result[Any], rewrite: Callable[[Iterator[Rows]], Iterator[Rows]], *, now: bool = False
) -> Result[Any]:
    """Make the chunks of rows that the result yields go through a function first.

    An ORM result keeps its identity, its metadata and its uniqueness rules; a Core result is
    continued by one with the same keys (as `Result.freeze()` does).

    Args:
        result: not consumed yet.
        rewrite: takes chunks, as they are fetched, and yields as many.
        now: fetch and rewrite all rows before returning, as SQLAlchemy's own `prebuffer_rows`.
    """
    if not isinstance(result, ChunkedIteratorResult):
        result = _of_chunks(result)
    chunks = result.chunks
    if result._source_supports_scalars:  # the rows are values, such as a Bundle, without a tuple
        rewrite = partial(_rewrite_values, rewrite)
    fetched = list(rewrite(chunks(None))) if now else None
    result.chunks = lambda size: rewrite(chunks(size)) if fetched is None else iter(fetched)
    result.iterator = itertools.chain.from_iterable(result.chunks(result._yield_per))
    return result


def _of_chunks(cursor: Result[Any]) -> ChunkedIteratorResult[Any]:
    rewritten = RewrittenResult(
        cursor._metadata._for_freeze(),
        lambda size: _chunks(cursor, size),
        # none behind what a listener returns; the asyncio extension asks it for its cursor
        raw=cursor if isinstance(cursor, CursorResult) else getattr(cursor, "raw", None),
        dynamic_yield_per=True,
    )
    rewritten.behind = cursor
    rewritten._yield_per = cursor._yield_per
    return rewritten


def _rewrite_values(
    rewrite: Callable[[Iterator[Rows]], Iterator[Rows]], chunks: Iterator[Rows]
) -> Iterator[Rows]:
    for rows in rewrite([(value,) for value in chunk] for chunk in chunks):
        yield [value for (value,) in rows]


def _chunks(cursor: Result[Any], size: int | None) -> Iterator[Rows]:
    if size is None:
        yield cursor.fetchall()
        return
    while chunk := cursor.fetchmany(size):
        yield chunk


ErrorListener = Callable[[Exception], None]
"""Is given an exception before the program is."""

WeakInstance = Callable[[], object]
"""A state's weak reference: gives its instance, or `None` when the program has dropped it."""


_IN_ERROR = 3  # of libpq: `PQTRANS_INERROR`


class Intake(Protocol):
    """What takes in the instances that a session loads.

    Attributes:
        classes: those of whose instances it need not be told one by one.
        loaded: what has been loaded; always the same list.
    """

    classes: set[type[Any]]
    loaded: list[WeakInstance]

    def enter(self, state: Any) -> None:
        """Take in an instance: it belongs to this, and is noted in `loaded`."""
        ...


class Translating(Protocol):
    """What a `HookedSession` asks of the conversation that it works in.

    Attributes:
        sought: looks whether the rows are there that the statement names which is being executed.
    """

    sought: Callable[[], None] | None

    def identify(
        self, session: Session, entity: Any, identity: Any, options: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Return the object of an identity, if none is to be loaded, and the identity as keys."""
        ...

    def missed(
        self, session: Session, entity: Any, given: Any, identity: Any, options: Mapping[str, Any]
    ) -> None:
        """Look what became of the row of an identity that was not found."""
        ...

    def executed(self, result: CursorResult[Any]) -> None:
        """Look at what a statement came to."""
        ...

    def fetched(self, rows: Rows) -> None:
        """Note that a chunk of rows was fetched, and all in it is taken in."""
        ...

    def hide(self, error: BaseException) -> None:
        """Look at an exception before the program does."""
        ...

    def not_flushed(self, error: Exception) -> None:
        """Raise what a flush has failed by, if that is known better than SQLAlchemy tells."""
        ...


class Confining(Protocol):
    """What a `HookedSession` asks of the walls around an owner's rows."""

    def executing(
        self, session: Session, statement: Any, options: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Confine a statement inside the `with`, unless trusted code is at work."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Confine what is flushed inside the `with`, unless trusted code is at work."""
        ...

    def finds(self, session: Session, found: Any) -> bool:
        """Tell whether what the identity map has is to be found."""
        ...

    def lift(self, *, loads: bool = True) -> AbstractContextManager[None]:
        """Confine nothing inside the `with`."""
        ...


def watch_adding(session: Session, see: ErrorListener) -> None:
    """Have a function see why an instance that has a key is refused: SQLAlchemy names the key.

    It is added by way of a relationship too, which no method of the session sees. Leans on what
    `watch_loading` leans on.
    """
    identity_map = cast(Any, session.identity_map)
    add_to, reference = type(identity_map).add, identity_map._wr

    def add(state: Any) -> bool:
        try:
            return cast(bool, add_to(reference(), state))
        except Exception as error:
            see(error)
            raise

    identity_map.add = add


def autoflush(session: Session) -> None:
    """Send what waits for a flush, as SQLAlchemy does before a statement of the ORM.

    Leans on `Session._autoflush`, which looks whether the session wants that.
    """
    session._autoflush()


def replace_flush_error(
    session: Session, change: Callable[[BaseException], BaseException]
) -> None:
    """Change the error of a flush that is told until the session is rolled back.

    Leans on `SessionTransaction._rollback_exception`, which `PendingRollbackError` quotes.
    """
    transaction = session.get_nested_transaction() or session.get_transaction()
    while transaction is not None:
        if transaction._rollback_exception is not None:
            transaction._rollback_exception = change(transaction._rollback_exception)
        transaction = transaction.parent


def is_own_connection(transaction: SessionTransaction, connection: Connection) -> bool:
    """Tell whether a session has taken a connection from an engine, and was not given it.

    Leans on what a transaction notes of each connection: last, whether it is to close that.
    """
    while transaction.parent is not None:
        transaction = transaction.parent
    noted = transaction._connections.get(connection)
    return noted is not None and bool(noted[-1])


def autocommits(connection: Connection) -> bool:
    """Tell whether each statement on a connection commits by itself.

    Leans on `_is_autocommit_isolation()`, by which the connection words what it logs.
    """
    return connection._is_autocommit_isolation()


def is_aborted(connection: Connection) -> bool:
    """Tell whether a statement has failed in a transaction of PostgreSQL's, and aborted it.

    To commit it is to roll it back, without a word: whoever went on after the error is not told.
    Leans on `info.transaction_status` of psycopg and psycopg2; asyncpg does not tell.
    """
    if connection.closed or connection.invalidated:  # or it would connect again
        return False
    info = getattr(connection.connection.driver_connection, "info", None)
    return getattr(info, "transaction_status", None) == _IN_ERROR


def is_option_set(option: str, statement: Any, given: Mapping[str, Any]) -> bool:
    """Tell whether an execution asks for something by an option of its own or its statement's.

    What an eager loader executes asks for what the statement does that it belongs to.
    """
    if given:
        if option in given:
            return bool(given[option])
        above: Any = given.get("sa_top_level_orm_context")
        if above is not None:
            return is_option_set(option, above.query, above.execution_options)
    return bool(getattr(statement, "_execution_options", {}).get(option))


def unconfined_lookup(session: Session) -> AbstractContextManager[None]:
    """Let a look-up of our own see all rows, in a session that keeps to an owner's."""
    confinement = session._confinement if isinstance(session, HookedSession) else None
    return _NO_WALLS if confinement is None else confinement.lift(loads=False)


def is_internal_load(execution: ORMExecuteState) -> bool:
    """Tell whether the ORM executes a statement of its own, which has keys and wants keys.

    It does to refresh, for a relationship, for the row of an identity, and for the rows that a
    write is about to change. The first two are `is_column_load` and `is_relationship_load`, which
    look at the same options, and look for them each time. The last leans on the listener that the
    ORM has for this one execution, `skip_for_returning`.
    """
    options = execution._orm_compile_options()
    if options is not None:
        if options._for_refresh_state or not options._current_path.is_root:
            return True
        if execution.parameters and _loads_by_identity(execution.statement):
            return True
    listeners: Any = execution._events_todo
    own = listeners[-1] if execution.is_select and type(listeners) is list and listeners else None
    return getattr(own, "__name__", "") == "skip_for_returning"


def _loads_by_identity(statement: Any) -> bool:
    """Tell whether a statement loads the row of an identity, as `Session.get` does.

    Leans on its criterion, which is the mapper's own, or in 2.0 an annotated copy: that has the
    same hash.
    """
    criteria = getattr(statement, "_where_criteria", ())
    if not criteria:
        return False
    mapper = statement._propagate_attrs.get("plugin_subject")
    return isinstance(mapper, Mapper) and hash(criteria[0]) == hash(mapper._get_clause[0])


def invoke_statement(execution: ORMExecuteState, *, watched: bool = True) -> Any:
    """Execute what a listener was told of, as SQLAlchemy does without the listener.

    Args:
        execution: the same.
        watched: whether chunks of rows are to be looked at before the listener has them; else
            they are once it has changed them.

    `invoke_statement()` adds a bind argument, `_sa_skip_events`, which SQLAlchemy does not read:
    other listeners see it, and a `get_bind(mapper=None, clause=None)`, as its documentation has
    one, cannot be called with it.
    """
    session = cast(Any, execution.session if watched else super(HookedSession, execution.session))
    return session._execute_internal(
        execution.statement,
        execution.parameters,
        execution_options=execution.local_execution_options,
        bind_arguments=dict(execution.bind_arguments),
        _parent_execute_state=execution,
    )


def drop_loader_yield_per(execution: ORMExecuteState) -> None:
    """Have what an eager loader executes for a chunk of rows fetched whole, whoever invokes it.

    Its options are those of the statement it belongs to, `yield_per` among them, which the loader
    then refuses: https://github.com/sqlalchemy/sqlalchemy/issues/13301, mended only for what no
    listener invokes.
    """
    options = execution.local_execution_options
    if "sa_top_level_orm_context" in options and options.get("yield_per"):
        execution.update_execution_options(yield_per=None)


def is_flushing(session: Session | None) -> bool:
    """Tell whether a session is in a flush, of which `before_flush` is the first thing."""
    return session is not None and session._flushing


def watch_loading(session: Session, intake: Intake) -> None:
    """Have each instance taken in that a load makes, before its row is put in.

    The event `loaded_as_persistent` tells of the same instances at three times the price. Leans
    on `_add_unpresent` of the identity map, which SQLAlchemy sets on the map itself too; it is
    written out here because a bound method would keep the map alive. A session that is emptied
    makes another map.
    """
    identity_map = cast(Any, session.identity_map)
    states, reference = identity_map._dict, identity_map._wr
    known, loaded, enter = intake.classes, intake.loaded, intake.enter

    def add(state: Any, key: Any) -> None:
        if state.class_ in known:
            # what `enter` does, without a call: there may be one for each row; it sets `BOUNDARY`
            state.alfred_refs = intake
            loaded.append(state.obj)
        else:
            # first, because it may refuse: what is in the map is found by the next load
            enter(state)
        states[key] = state
        state._instance_dict = reference

    identity_map._add_unpresent = add


_NO_WALLS = nullcontext()


class HookedSession(Session):
    """A `Session` that has its steps looked at: each is overridden here, and nowhere else.

    | step | what it is |
    | --- | --- |
    | `_execute_internal` | all that executes, lazy loading included |
    | `_flush`, `_bulk_save_mappings` | all that is written for instances and records |
    | `_get_impl` | `get`, `get_one` and `Query.get` |
    | `_identity_lookup` | what `get` and a lazy load take from the identity map |

    What is raised while the ORM makes rows comes out of the result, whose chunks are looked at,
    and errors at commit out of the connection. Without conversation and owner all is as it was.
    """

    _translation: Translating | None = None
    _confinement: Confining | None = None

    def _execute_internal(self, statement: Any, *args: Any, **options: Any) -> Any:
        translation, confinement = self._translation, self._confinement
        with (
            _NO_WALLS
            if confinement is None
            else confinement.executing(self, statement, options.get("execution_options") or {})
        ):
            if translation is None:
                return super()._execute_internal(statement, *args, **options)
            # one statement may be executed inside another
            around, translation.sought = translation.sought, None
            # of a sequence there is no result
            is_scalar = not isinstance(statement, DefaultGenerator) and bool(
                options.pop("_scalar_result", False)
            )
            try:
                result = super()._execute_internal(statement, *args, **options)
                is_chunked = isinstance(result, ChunkedIteratorResult)
                cursor = getattr(result, "raw", None) if is_chunked else result
                if isinstance(cursor, CursorResult):
                    translation.executed(cursor)
            except Exception as error:
                translation.hide(error)
                raise
            finally:
                translation.sought = around
            if is_chunked:
                _watch_chunks(result, translation)
            return result.scalar() if is_scalar else result

    def _flush(self, objects: Sequence[Any] | None = None) -> None:
        with _NO_WALLS if self._confinement is None else self._confinement.writing():
            try:
                super()._flush(objects)
            except Exception as error:
                if self._translation is not None:
                    self._translation.hide(error)
                    self._translation.not_flushed(error)
                raise

    def _bulk_save_mappings(self, *args: Any, **options: Any) -> None:
        with _NO_WALLS if self._confinement is None else self._confinement.writing():
            super()._bulk_save_mappings(*args, **options)

    def _get_impl(self, entity: Any, primary_key_identity: Any, *args: Any, **options: Any) -> Any:
        if self._translation is None:
            return super()._get_impl(entity, primary_key_identity, *args, **options)
        found, identity = self._translation.identify(self, entity, primary_key_identity, options)
        if found is None:
            found = super()._get_impl(entity, identity, *args, **options)
        if found is None:
            self._translation.missed(self, entity, primary_key_identity, identity, options)
        return found

    def _identity_lookup(self, *args: Any, **options: Any) -> Any:
        found = super()._identity_lookup(*args, **options)
        if self._confinement is None or self._confinement.finds(self, found):
            return found
        return None


def _watch_chunks(result: ChunkedIteratorResult[Any], translation: Translating) -> None:
    """Have seen what is raised while rows are made: by the ORM, or of keys that a type reads."""
    chunks = result.chunks

    def watched(size: int | None) -> Iterator[Rows]:
        try:
            for rows in chunks(size):
                translation.fetched(rows)
                yield rows
        except Exception as error:
            translation.hide(error)
            raise

    result.chunks = watched
    result.iterator = itertools.chain.from_iterable(watched(result._yield_per))


_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")
_S_co = TypeVar("_S_co", covariant=True)


class AsyncFacade(Generic[_S_co]):
    """The asynchronous side of an object.

    Attributes:
        sync: the object.
        is_async: whether what it does is to be awaited; otherwise it is done in a thread.
    """

    def __init__(self, sync: _S_co, *, is_async: bool) -> None:
        self.sync = sync
        self.is_async = is_async

    async def run(self, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Do work that waits for the database, without blocking the event loop.

        Leans on `greenlet_spawn`, by which `AsyncSession.run_sync` does it.
        """
        if self.is_async:
            return await greenlet_spawn(partial(work, *args, **kwargs))
        return await asyncio.to_thread(work, *args, **kwargs)


def async_method(
    method: Callable[Concatenate[_S, _P], _R],
) -> Callable[Concatenate[AsyncFacade[_S], _P], Coroutine[Any, Any, _R]]:
    """Return a method of the asynchronous side that does the same."""

    @wraps(method)
    async def run(self: AsyncFacade[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self.run(method, self.sync, *args, **kwargs)

    return run


def async_list_method(
    method: Callable[Concatenate[_S, _P], Iterable[_R]],
) -> Callable[Concatenate[AsyncFacade[_S], _P], Coroutine[Any, Any, list[_R]]]:
    """Return a method of the asynchronous side that gives all of what the other iterates over."""

    @wraps(method)
    async def run(self: AsyncFacade[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> list[_R]:
        return await self.run(lambda: list(method(self.sync, *args, **kwargs)))

    return run
