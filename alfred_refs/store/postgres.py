"""The map in PostgreSQL: durable, shared by all processes, numbered under a row lock."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import Compiled, Connection, Engine, Executable
from sqlalchemy.exc import DBAPIError, OperationalError

from alfred_refs import sqla
from alfred_refs.errors import (
    RefError,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
    SetupError,
    UnknownConversationError,
)
from alfred_refs.keys import decode, encode
from alfred_refs.refs import Ref

from . import statements
from .connections import OwnEngine, in_one_trip, transaction
from .protocol import Address, EntityKey, Entry, Gone
from .tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Row

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_MISSING = {"42P01", "42703"}  # undefined_table, undefined_column
_CONNECTION = ("08", "57P")  # connection exceptions, and shutdown of the server or of a backend

_T = TypeVar("_T")


class PostgresStore:
    """A `Store` in the database of an engine.

    Args:
        engine: the application's engine, or any other on the database where the registry is.
    """

    def __init__(self, engine: Engine) -> None:
        self._application = engine
        self._own = OwnEngine(engine)
        if not engine.dialect.is_async:  # there only a coroutine can close a connection
            weakref.finalize(self, self._own.release).atexit = False

    @property
    def metadata(self) -> MetaData:
        """The tables, for an application's own Alembic environment."""
        return metadata

    def create_tables(self) -> None:
        """Create the tables that are missing, without Alembic."""

        def create(connection: Connection) -> None:
            with transaction(connection):
                connection.execute(statements.lock_tables)
                metadata.create_all(connection)

        self._run(create)

    def refer(self, address: Address, keys: Sequence[EntityKey]) -> list[Entry]:
        """See `Store.refer`."""
        if not keys:
            return []
        rows = self._write([statements.lock, statements.refer], _begun(address) | _arrays(keys))
        if not rows:
            raise UnknownConversationError(address.id)
        found = {position: (number, gone) for position, number, gone in rows}
        return [
            Entry(Ref(entity, found[position][0]), key, found[position][1])
            for position, (entity, key) in enumerate(keys, start=1)
        ]

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        """See `Store.resolve`."""
        rows = self._rows(
            statements.resolve,
            address,
            p_entities=[ref.entity for ref in refs],
            p_numbers=[ref.number for ref in refs],
        )
        entries = [
            Entry(Ref(row.entity, row.number), decode(row.key), row.gone)
            for row in _only_mine(rows, address)
            if row.key is not None
        ]
        return {entry.ref: entry for entry in entries}

    def known(self, address: Address, near: Ref, limit: int) -> list[Ref]:
        """See `Store.known`."""
        rows = self._rows(
            statements.known, address, p_entity=near.entity, p_number=near.number, p_limit=limit
        )
        return [Ref(near.entity, row.number) for row in rows]

    def entities(self, address: Address) -> Mapping[str, int]:
        """See `Store.entities`."""
        rows = _only_mine(self._rows(statements.entities, address), address)
        return {row.entity: row.last for row in rows if row.entity is not None}

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        """See `Store.mark`."""
        parameters = _parameters(address) | _arrays(keys) | {"p_gone": gone}
        self._write([statements.lock_begun, statements.mark], parameters)

    def begin_turn(self, address: Address) -> int:
        """See `Store.begin_turn`."""
        # not tried again when the connection is lost: the turn may have begun
        rows = self._write([statements.begin_turn], _begun(address), again=False)
        if not rows:
            raise UnknownConversationError(address.id)
        return cast(int, rows[0][0])

    def turn(self, address: Address) -> int:
        """See `Store.turn`."""
        rows = _only_mine(self._rows(statements.turn, address), address)
        return rows[0].turn if rows else 0

    def _rows(
        self, statement: Executable, address: Address, **parameters: Any
    ) -> Sequence[Row[Any]]:
        """Run one reading statement, alone: that takes no BEGIN and no COMMIT."""
        values = _parameters(address) | parameters
        return self._run(lambda connection: connection.execute(statement, values).all())

    def _write(
        self, batch: Sequence[Executable], parameters: Mapping[str, Any], *, again: bool = True
    ) -> Sequence[Any]:
        """Run statements in one transaction and return the rows of the last.

        With psycopg they travel together; other drivers wait for each.
        """

        def write(connection: Connection) -> Sequence[Any]:
            if connection.dialect.driver == "psycopg" and not connection.dialect.is_async:
                compiled = [self._compiled[statement] for statement in batch]
                return in_one_trip(connection, compiled, parameters)
            with transaction(connection):
                *_, last = [connection.execute(statement, parameters) for statement in batch]
                return last.all() if last.returns_rows else []

        return self._run(write, again=again)

    @cached_property
    def _compiled(self) -> Mapping[Executable, Compiled]:
        refers = (statements.lock, statements.refer)
        others = (statements.lock_begun, statements.mark, statements.begin_turn)
        dialect = self._application.dialect
        return {query: query.compile(dialect=dialect) for query in refers + others}

    def _run(self, work: Callable[[Connection], _T], *, again: bool = True) -> _T:
        """Do work on a connection of our own.

        Args:
            work: is given the connection.
            again: do it once more if the connection is found cut. The pool then replaces all its
                connections, so a restarted server costs nobody a failed call.
        """
        database = self._application.url.database or ""
        if not sqla.can_wait(self._application):
            raise SetupError(
                "the registry has an asynchronous engine and was asked outside of an awaited call",
                "call it inside await session.run_sync() or connection.run_sync()",
            )
        try:
            with self._own.get().connect() as connection:
                return work(connection)
        except DBAPIError as error:
            if not (again and error.connection_invalidated):
                raise _typed(error, database) from _cause(error)
        except OSError as error:  # what asyncpg raises where nobody listens
            raise RegistryUnreachableError(database) from error
        return self._run(work, again=False)


def _parameters(address: Address) -> dict[str, Any]:
    return {"p_conversation": address.digest, "p_owner": address.owner}


def _begun(address: Address) -> dict[str, Any]:
    return _parameters(address) | {"p_id": address.id}


def _arrays(keys: Sequence[EntityKey]) -> dict[str, Any]:
    return {
        "p_entities": [entity for entity, _ in keys],
        "p_keys": [encode(key) for _, key in keys],
    }


def _only_mine(rows: Sequence[Row[Any]], address: Address) -> Sequence[Row[Any]]:
    if rows and not rows[0].mine:
        raise UnknownConversationError(address.id)
    return rows


def _typed(error: DBAPIError, database: str) -> RefError:
    """Return what an error of the driver means here: without parameters and details, or keys."""
    sqlstate = _sqlstate(error)
    if sqlstate in _MISSING:
        return RegistryTablesError(database)
    if _is_of_connection(error):
        return RegistryUnreachableError(database)
    diagnosis = getattr(error.orig, "diag", None)  # of psycopg and psycopg2
    reason = getattr(diagnosis, "message_primary", None) or type(error.orig).__name__
    return RegistryFailedError(reason, sqlstate)


def _cause(error: DBAPIError) -> BaseException | None:
    """Return the driver's error where its text is about the connection: it then holds no key."""
    return error.orig if _is_of_connection(error) else None


def _is_of_connection(error: DBAPIError) -> bool:
    """Tell whether the connection failed. Without a code it was the driver that noticed."""
    sqlstate = _sqlstate(error)
    if sqlstate is None:
        return isinstance(error, OperationalError) or error.connection_invalidated
    return sqlstate.startswith(_CONNECTION)


def _sqlstate(error: DBAPIError) -> str | None:
    """Return PostgreSQL's error code: `sqlstate` in psycopg and asyncpg, `pgcode` in psycopg2."""
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
