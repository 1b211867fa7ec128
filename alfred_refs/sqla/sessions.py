"""Session hooks: the steps of a session and of the ORM that have no public event.

`HookedSession` is a `Session` that calls a `SessionTranslation` and a `SessionConfinement` at each
of these steps; with neither, it behaves exactly as a `Session`. All private methods of `Session`
that this package overrides are overridden there.

The functions are for one session, statement execution or connection each:

| about | functions |
| --- | --- |
| the identity map | `watch_loading`, `watch_adding` |
| an execution | `is_internal_load`, `is_option_set`, `invoke_statement`, `drop_loader_yield_per` |
| an exception | `is_in_load`, `is_in_flush`, `is_in_default` |
| a flush | `is_flushing`, `autoflush`, `replace_flush_error` |
| a transaction | `is_own_connection`, `autocommits`, `is_aborted`, `is_intact` |

Example:
    >>> from sqlalchemy import event
    >>> @event.listens_for(session, "do_orm_execute")
    ... def show(execution):
    ...     print("internal" if is_internal_load(execution) else "program")
    >>> soup = session.scalars(select(Recipe).where(Recipe.name == "Soup")).one()
    program
    >>> len(soup.lines)  # a lazy load
    internal
    2

A `HookedSession` does not see connections that the program opens elsewhere, or the statements on
them. A comment with each private name has the name of the test in `tests/sqla` that pins it.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, cast

from sqlalchemy import Connection, CursorResult
from sqlalchemy.engine import ChunkedIteratorResult
from sqlalchemy.orm import Mapper, ORMExecuteState, Session, SessionTransaction
from sqlalchemy.schema import DefaultGenerator

from alfred_refs.sqla.results import Rows

# The session


class SessionTranslation(Protocol):
    """The hooks of a `HookedSession` that translate between refs and keys.

    Attributes:
        check_missing: checks whether the rows exist that the executing statement names by refs;
            called if it matched none. `None` for a statement without refs.
    """

    check_missing: Callable[[], None] | None

    def identify(
        self, session: Session, entity: Any, identity: Any, options: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Return the object of an identity if it needs no load, and the identity with keys."""
        ...

    def not_found(
        self, session: Session, entity: Any, given: Any, identity: Any, options: Mapping[str, Any]
    ) -> None:
        """Handle an identity without a row; `given` is the argument of `get()`."""
        ...

    def after_execute(self, result: CursorResult[Any]) -> None:
        """Handle the cursor result of a statement."""
        ...

    def after_fetch(self, rows: Rows) -> None:
        """Handle a chunk of rows, whose instances were made."""
        ...

    def hide(self, error: BaseException) -> None:
        """Put refs in place of keys in an exception before the program gets it."""
        ...

    def flush_ended(self) -> None:
        """Handle the end of a flush, failed or not."""
        ...

    def flush_failed(self, error: Exception) -> None:
        """Raise a more exact error for one that has stopped a flush, if there is any."""
        ...


class SessionConfinement(Protocol):
    """The hooks of a `HookedSession` that confine its statements to the rows of an owner."""

    def confine_statement(
        self, session: Session, statement: Any, options: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Confine a statement inside the `with`, unless its options lift that."""
        ...

    def confine_flush(self) -> AbstractContextManager[None]:
        """Confine flushes inside the `with`, unless trusted code has lifted that."""
        ...

    def is_visible(self, session: Session, found: Any) -> bool:
        """Return whether the owner may see an instance, or other value, of the identity map."""
        ...

    def lift(self, *, loads: bool = True) -> AbstractContextManager[None]:
        """Confine nothing inside the `with`."""
        ...


_UNCONFINED = nullcontext()

# Attributes of an exception that was raised while rows were made, and of one raised in a flush.
_IN_LOAD = "_alfred_refs_in_load"
_IN_FLUSH = "_alfred_refs_in_flush"


class HookedSession(Session):
    """A `Session` that calls a translation and a confinement at its private steps.

    | step | runs for |
    | --- | --- |
    | `_execute_internal` | every statement that the session executes, lazy loads included |
    | `_flush`, `_bulk_save_mappings` | every write of instances and of records in bulk |
    | `_get_impl` | `get`, `get_one` and `Query.get` |
    | `_identity_lookup` | every look-up in the identity map, by `get` or a lazy load |

    The public events come too late or not for all of these: `do_orm_execute` runs for ORM
    statements only, and no event runs when a result raises or an identity is looked up. Errors at
    commit are those of a connection, see `prepend_error_listener`.
    """

    _translation: SessionTranslation | None = None
    _confinement: SessionConfinement | None = None

    def _execute_internal(self, statement: Any, *args: Any, **options: Any) -> Any:
        translation, confinement = self._translation, self._confinement
        with (
            _UNCONFINED
            if confinement is None
            else confinement.confine_statement(
                self, statement, options.get("execution_options") or {}
            )
        ):
            if translation is None:
                return super()._execute_internal(statement, *args, **options)
            # a listener may execute another statement inside this one
            outer, translation.check_missing = translation.check_missing, None
            # The result is needed here, even if the program wants its first value only.
            # A `Sequence` has no result, just the value.
            is_scalar = not isinstance(statement, DefaultGenerator) and bool(
                options.pop("_scalar_result", False)
            )
            try:
                result = super()._execute_internal(statement, *args, **options)
                is_chunked = isinstance(result, ChunkedIteratorResult)
                cursor = getattr(result, "raw", None) if is_chunked else result
                if isinstance(cursor, CursorResult):
                    translation.after_execute(cursor)
            except Exception as error:
                translation.hide(error)
                raise
            finally:
                translation.check_missing = outer
            if is_chunked:
                _watch_chunks(result, translation)
            return result.scalar() if is_scalar else result

    def _flush(self, objects: Sequence[Any] | None = None) -> None:
        with _UNCONFINED if self._confinement is None else self._confinement.confine_flush():
            try:
                with self._ending_flush():
                    super()._flush(objects)
            except Exception as error:
                vars(error)[_IN_FLUSH] = True
                if self._translation is not None:
                    self._translation.hide(error)
                    self._translation.flush_failed(error)
                raise

    def _bulk_save_mappings(self, *args: Any, **options: Any) -> None:
        confinement = self._confinement
        confined = _UNCONFINED if confinement is None else confinement.confine_flush()
        with confined, self._ending_flush():
            super()._bulk_save_mappings(*args, **options)

    @contextmanager
    def _ending_flush(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self._translation is not None:
                self._translation.flush_ended()

    def _get_impl(self, entity: Any, primary_key_identity: Any, *args: Any, **options: Any) -> Any:
        if self._translation is None:
            return super()._get_impl(entity, primary_key_identity, *args, **options)
        instance, identity = self._translation.identify(
            self, entity, primary_key_identity, options
        )
        if instance is None:
            instance = super()._get_impl(entity, identity, *args, **options)
        if instance is None:
            self._translation.not_found(self, entity, primary_key_identity, identity, options)
        return instance

    def _identity_lookup(self, *args: Any, **options: Any) -> Any:
        found = super()._identity_lookup(*args, **options)
        if self._confinement is None or self._confinement.is_visible(self, found):
            return found
        return None


def _watch_chunks(result: ChunkedIteratorResult[Any], translation: SessionTranslation) -> None:
    """Pass chunks of rows, and exceptions while they are made, to a translation.

    The ORM may raise while it makes instances, and a type while it reads a value.
    """
    chunks = result.chunks

    def watch(size: int | None) -> Iterator[Rows]:
        try:
            for rows in _mark_load_errors(chunks(size)):
                translation.after_fetch(rows)
                yield rows
        except Exception as error:
            translation.hide(error)
            raise

    result.chunks = watch
    result.iterator = itertools.chain.from_iterable(watch(result._yield_per))


def _mark_load_errors(chunks: Iterator[Rows]) -> Iterator[Rows]:
    try:
        yield from chunks
    except Exception as error:
        vars(error)[_IN_LOAD] = True
        raise


def is_in_load(error: Exception) -> bool:
    """Return whether an exception was raised while the ORM made rows or instances.

    For example: a custom type cannot read a stored value, an `Enum` has no member of that name, or
    a mutable type gets a document of another form.
    """
    return _IN_LOAD in vars(error)


def is_in_flush(error: Exception) -> bool:
    """Return whether an exception was raised in a flush, by a listener for example."""
    return _IN_FLUSH in vars(error)


def is_in_default(error: BaseException) -> bool:
    """Return whether an exception was raised by the default of a column, a Python function."""
    # Private: `DefaultExecutionContext._process_execute_defaults`, which calls the functions.
    # Pinned by `test_what_else_the_application_raises_is_raised`.
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_name == "_process_execute_defaults" for frame, _ in frames)


def unconfined_lookup(session: Session) -> AbstractContextManager[None]:
    """Let this package's own queries see all rows inside the `with`, in a confined session."""
    confinement = session._confinement if isinstance(session, HookedSession) else None
    return _UNCONFINED if confinement is None else confinement.lift(loads=False)


# The identity map

WeakInstance = Callable[[], object]
"""The weak reference of an `InstanceState`: returns its instance, or `None` once it is deleted."""

ErrorListener = Callable[[Exception], None]
"""Gets an exception before the program does."""


class LoadWatcher(Protocol):
    """Receives the instances that a session loads, from `watch_loading`.

    Attributes:
        classes: classes whose instances do not need a call of `enter`.
        loaded: the instances loaded so far; always the same list.
    """

    classes: set[type[Any]]
    loaded: list[WeakInstance]

    def enter(self, state: Any) -> None:
        """Set the `BOUNDARY` of an instance's state and append it to `loaded`; may raise."""
        ...


def watch_loading(session: Session, watcher: LoadWatcher) -> None:
    """Pass each instance that a load makes to a watcher, before its attributes are populated.

    The event `loaded_as_persistent` does the same at three times the cost. `expunge_all()` makes
    a new identity map, which must be watched again.
    """
    # Private: `IdentityMap._add_unpresent`, which loading calls for each new instance. The end of
    # `add` is its body, because a bound method of the map would keep the map alive.
    # Pinned by `test_a_watched_identity_map_is_as_one_that_is_not`.
    identity_map = cast(Any, session.identity_map)
    states, weak_map = identity_map._dict, identity_map._wr
    classes, loaded, enter = watcher.classes, watcher.loaded, watcher.enter

    def add(state: Any, key: Any) -> None:
        if state.class_ in classes:
            # the body of `enter` without its call, for each row; the name is `BOUNDARY`
            state.alfred_refs = watcher
            loaded.append(state.obj)
        else:
            # `enter` may raise, and then the next load must not find the instance in the map
            enter(state)
        states[key] = state
        state._instance_dict = weak_map

    identity_map._add_unpresent = add


def watch_adding(session: Session, listener: ErrorListener) -> None:
    """Pass the error for an instance whose identity key is taken to a listener: it shows the key.

    Instances are added by cascades too, which call no method of the session.
    """
    # Private: `IdentityMap.add`, replaced on the map as `_add_unpresent` is.
    # Pinned by `test_what_is_raised_while_an_instance_is_added_is_seen` and
    # `test_an_identity_map_that_is_watched_is_not_kept_alive`.
    identity_map = cast(Any, session.identity_map)
    original, weak_map = type(identity_map).add, identity_map._wr

    def add(state: Any) -> bool:
        try:
            return cast(bool, original(weak_map(), state))
        except Exception as error:
            listener(error)
            raise

    identity_map.add = add


# Executions


def is_option_set(option: str, statement: Any, options: Mapping[str, Any]) -> bool:
    """Return whether an execution option is true for an execution or its statement.

    A statement of an eager loader has the options of the statement that it belongs to.

    Args:
        option: the name.
        statement: the statement, with options of its own.
        options: the options of the execution, which take precedence.
    """
    if options:
        if option in options:
            return bool(options[option])
        parent: Any = options.get("sa_top_level_orm_context")
        if parent is not None:
            return is_option_set(option, parent.query, parent.execution_options)
    return bool(getattr(statement, "_execution_options", {}).get(option))


def is_internal_load(execution: ORMExecuteState) -> bool:
    """Return whether the ORM executes a statement of its own, which has keys and expects keys.

    It does so to refresh an instance, to load a relationship, to load the row of an identity, to
    load the columns of subclasses, and before a bulk UPDATE or DELETE with
    `synchronize_session="fetch"`.
    """
    # Private: the options behind `is_column_load` and `is_relationship_load`, which look each up
    # again. Pinned by `test_the_statements_of_the_orm_itself_are_told_from_the_programs`.
    options = execution._orm_compile_options()
    if options is not None:
        if options._for_refresh_state or not options._current_path.is_root:
            return True
        if execution.parameters and _loads_by_identity(execution.statement):
            return True
        # Private: `polymorphic_load="selectin"` loads subclasses by a statement that has compile
        # options of its own, and this parameter. Pinned by
        # `test_subclasses_are_loaded_by_keys_that_are_text`.
        parameters = execution.parameters
        if isinstance(parameters, Mapping) and "primary_keys" in parameters:
            return "_compile_options" in vars(execution.statement)
    # Private: for "fetch", the ORM adds a listener to that one execution, a function of this name.
    # Pinned by `test_what_the_orm_looks_up_for_itself_is_told`.
    listeners: Any = execution._events_todo
    own = listeners[-1] if execution.is_select and type(listeners) is list and listeners else None
    return getattr(own, "__name__", "") == "skip_for_returning"


def _loads_by_identity(statement: Any) -> bool:
    """Return whether a statement loads the row of an identity, as `Session.get` does."""
    # Private: its criterion is Mapper._get_clause, in 2.0 an annotated copy of that, which has the
    # same hash. Pinned by `test_what_the_orm_looks_up_for_itself_is_told`.
    criteria = getattr(statement, "_where_criteria", ())
    if not criteria:
        return False
    mapper = statement._propagate_attrs.get("plugin_subject")
    return isinstance(mapper, Mapper) and hash(criteria[0]) == hash(mapper._get_clause[0])


def invoke_statement(execution: ORMExecuteState, *, watched: bool = True) -> Any:
    """Execute the statement of a `do_orm_execute` event, like `ORMExecuteState.invoke_statement`.

    That adds a bind argument, `_sa_skip_events`, which SQLAlchemy itself does not read: other
    listeners would see it, and a `get_bind(mapper=None, clause=None)`, as SQLAlchemy's
    documentation has it, would raise.
    Pinned by `test_what_a_listener_invokes_gets_no_argument_more`.

    Args:
        execution: the state that the listener got.
        watched: call the hooks of `HookedSession` for this result; otherwise for the result that
            the listener returns.
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
    """Remove `yield_per` from a statement of an eager loader, which loads a chunk as a whole.

    The statement inherits it, and a loader refuses it when a listener invokes the statement:
    https://github.com/sqlalchemy/sqlalchemy/issues/13301, fixed only for other executions.
    Pinned by `test_an_eager_loader_loads_the_whole_for_a_chunk_of_rows`.
    """
    options = execution.local_execution_options
    if "sa_top_level_orm_context" in options and options.get("yield_per"):
        execution.update_execution_options(yield_per=None)


# Flushes


def is_flushing(session: Session | None) -> bool:
    """Return whether a session is in a flush, `before_flush` listeners included."""
    # Private: `Session._flushing`. Pinned by `test_a_session_knows_that_it_is_in_a_flush`.
    return session is not None and session._flushing


def autoflush(session: Session) -> None:
    """Flush if the session does so before an ORM statement."""
    # Private: `Session._autoflush`.
    # Pinned by `test_what_waits_for_a_flush_is_sent_where_the_session_flushes_by_itself`.
    session._autoflush()


def replace_flush_error(
    session: Session, replace: Callable[[BaseException], BaseException]
) -> None:
    """Replace the error of a failed flush, which `PendingRollbackError` quotes until rollback."""
    # Private: `SessionTransaction._rollback_exception`.
    # Pinned by `test_what_is_raised_after_a_failed_flush_shows_no_key`.
    transaction = session.get_nested_transaction() or session.get_transaction()
    while transaction is not None:
        if transaction._rollback_exception is not None:
            transaction._rollback_exception = replace(transaction._rollback_exception)
        transaction = transaction.parent


# Transactions


def is_own_connection(transaction: SessionTransaction, connection: Connection) -> bool:
    """Return whether a session has checked out a connection itself, and so closes it."""
    while transaction.parent is not None:
        transaction = transaction.parent
    # Private: `SessionTransaction._connections`; the last item of an entry is whether to close it.
    entry = transaction._connections.get(connection)
    return entry is not None and bool(entry[-1])


def autocommits(connection: Connection) -> bool:
    """Return whether the isolation level of a connection is AUTOCOMMIT."""
    # Private: includes the default level of the engine, unlike the execution options.
    return connection._is_autocommit_isolation()


# the settings on which the text of a value depends, and those under which ours are written
_TEXT_SETTINGS = {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres"}


@contextmanager
def portable_texts(connection: Connection) -> Iterator[None]:
    """Cast values to the same text in all sessions of PostgreSQL, inside the `with`.

    Nothing is sent if the driver knows that the session has these settings anyway.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    before = _text_settings(connection)
    if before == _TEXT_SETTINGS:
        yield
        return
    _set_locally(connection, _TEXT_SETTINGS)
    yield  # after an error, the rollback restores them
    _set_locally(connection, before)


def _text_settings(connection: Connection) -> dict[str, str]:
    """Return the settings: psycopg and psycopg2 have them from libpq, asyncpg needs a query."""
    # Pinned by `test_texts_are_the_same_in_all_sessions`.
    info = getattr(connection.connection.driver_connection, "info", None)
    if info is None:
        names = ", ".join(f"current_setting('{name}')" for name in _TEXT_SETTINGS)
        row = connection.exec_driver_sql(f"SELECT {names}").one()
        found = dict(zip(_TEXT_SETTINGS, row, strict=True))
    else:
        found = {name: info.parameter_status(name) for name in _TEXT_SETTINGS}
    found["TimeZone"] = found["TimeZone"].removeprefix("Etc/")
    if found["DateStyle"].startswith("ISO, "):  # the order of day and month is for input
        found["DateStyle"] = _TEXT_SETTINGS["DateStyle"]
    return found


def _set_locally(connection: Connection, settings: Mapping[str, str]) -> None:
    calls = (f"set_config('{n}', '{value}', true)" for n, value in settings.items())
    connection.exec_driver_sql(f"SELECT {', '.join(calls)}")


_INTACT, _IN_ERROR = 2, 3  # PQTRANS_INTRANS and PQTRANS_INERROR of libpq


def is_intact(connection: Connection) -> bool:
    """Return whether the driver knows that no statement has aborted the transaction."""
    return _transaction_status(connection) == _INTACT


def is_aborted(connection: Connection) -> bool:
    """Return whether a failed statement has aborted the transaction of a connection.

    A COMMIT then rolls back, and PostgreSQL reports no error. Sends nothing.
    """
    return _transaction_status(connection) == _IN_ERROR


def _transaction_status(connection: Connection) -> int | None:
    """Return libpq's status: psycopg and psycopg2 have it, asyncpg does not."""
    if connection.closed or connection.invalidated:  # or it would connect again
        return None
    # Pinned by `test_a_transaction_is_aborted_by_an_error_until_that_is_rolled_back`.
    info = getattr(connection.connection.driver_connection, "info", None)
    return getattr(info, "transaction_status", None)
