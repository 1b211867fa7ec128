"""The map in PostgreSQL: durable, shared by all processes, numbered under a row lock.

Nothing here takes part in the application's transaction, and nothing waits for its connection
pool: a pool of our own, made from the application's, shares its credentials and connect hooks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Compiled, Connection, Engine, Executable, event
from sqlalchemy.exc import DBAPIError, OperationalError

from alfred_refs import sqla
from alfred_refs.errors import (
    RefError,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
    UnknownConversationError,
)
from alfred_refs.keys import decode, encode
from alfred_refs.refs import Ref

from . import statements
from .protocol import Address, EntityKey, Entry, Gone
from .tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import MetaData, Row

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_MISSING = {"42P01", "42703"}  # undefined_table, undefined_column
_CONNECTION = "08"  # the class of connection exceptions


class PostgresStore:
    """A `Store` in the database of an engine.

    Args:
        engine: the application's engine, or any other on the database where the registry is.
    """

    def __init__(self, engine: Engine) -> None:
        self._application = engine
        self._own: tuple[int, Engine] | None = None
        event.listen(sqla.root_of(engine), "engine_disposed", self._dispose)

    @property
    def metadata(self) -> MetaData:
        """The tables, for an application's own Alembic environment."""
        return metadata

    def create_tables(self) -> None:
        """Create the tables that are missing, without Alembic."""
        with self._connect() as connection:
            metadata.create_all(connection)

    def refer(self, address: Address, keys: Sequence[EntityKey]) -> list[Entry]:
        """See `Store.refer`."""
        if not keys:
            return []
        with self._connect() as connection:
            rows = _in_one_trip(connection, self._numbering, _begun(address) | _arrays(keys))
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
        with self._connect() as connection:
            parameters = _parameters(address) | _arrays(keys) | {"p_gone": gone}
            connection.execute(statements.mark, parameters)

    def begin_turn(self, address: Address) -> int:
        """See `Store.begin_turn`."""
        rows = self._rows(statements.begin_turn, address, p_id=address.id)
        if not rows:
            raise UnknownConversationError(address.id)
        return cast(int, rows[0].turn)

    def turn(self, address: Address) -> int:
        """See `Store.turn`."""
        rows = _only_mine(self._rows(statements.turn, address), address)
        return rows[0].turn if rows else 0

    @cached_property
    def _numbering(self) -> Sequence[Compiled]:
        dialect = self._application.dialect
        return [s.compile(dialect=dialect) for s in (statements.lock, statements.refer)]

    def _rows(
        self, statement: Executable, address: Address, **parameters: Any
    ) -> Sequence[Row[Any]]:
        with self._connect() as connection:
            return connection.execute(statement, _parameters(address) | parameters).all()

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        try:
            with self._engine().connect() as connection:
                yield connection
        except DBAPIError as error:
            raise _typed(error, self._application.url.database or "") from None

    def _engine(self) -> Engine:
        """Return an engine on a pool of our own, made at first use and again after a fork.

        `recreate()` copies size, recycling and connect hooks. AUTOCOMMIT makes a read one round
        trip where BEGIN and ROLLBACK would make it three; hidden parameters keep keys out of logs
        and errors.
        """
        if self._own is None or self._own[0] != os.getpid():
            application = self._application
            engine = Engine(
                application.pool.recreate(),
                application.dialect,
                application.url,
                hide_parameters=True,
            )
            self._own = os.getpid(), engine.execution_options(isolation_level="AUTOCOMMIT")
        return self._own[1]

    def _dispose(self, _: Engine) -> None:
        """Close our pool when the application closes its own; a forked child only forgets it."""
        if self._own is not None:
            process, engine = self._own
            self._own = None
            engine.dispose(close=process == os.getpid())


def _in_one_trip(
    connection: Connection, batch: Sequence[Compiled], parameters: Mapping[str, Any]
) -> Sequence[Any]:
    """Run statements in one transaction and return the rows of the last.

    With psycopg they travel together: what a pipeline sends between two synchronisations is one
    implicit transaction, so there is no BEGIN and no COMMIT to wait for. Other drivers wait for
    each.
    """
    if connection.dialect.driver == "psycopg" and not connection.dialect.is_async:
        return _pipelined(connection, batch, parameters)
    connection = connection.execution_options(isolation_level="READ COMMITTED")
    with connection.begin():
        results = [connection.execute(query.statement, parameters) for query in batch]  # type: ignore[call-overload]
        return cast("Sequence[Any]", results[-1].all())


def _pipelined(
    connection: Connection, batch: Sequence[Compiled], parameters: Mapping[str, Any]
) -> Sequence[Any]:
    driver = cast(Any, connection.connection.driver_connection)
    driver_error = connection.dialect.loaded_dbapi.Error
    try:
        with driver.pipeline():
            cursors = [driver.execute(str(q), q.construct_params(parameters)) for q in batch]
        return cast("Sequence[Any]", cursors[-1].fetchall())
    except driver_error as error:
        if connection.dialect.is_disconnect(error, driver, None):
            connection.invalidate(error)
        raise DBAPIError.instance(None, None, error, driver_error) from None


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
    lost = sqlstate is None and isinstance(error, OperationalError)
    if lost or error.connection_invalidated or (sqlstate or "").startswith(_CONNECTION):
        return RegistryUnreachableError(database)
    diagnosis = getattr(error.orig, "diag", None)  # of psycopg and psycopg2
    reason = getattr(diagnosis, "message_primary", None) or type(error.orig).__name__
    return RegistryFailedError(reason, sqlstate)


def _sqlstate(error: DBAPIError) -> str | None:
    """Return PostgreSQL's error code: `sqlstate` in psycopg and asyncpg, `pgcode` in psycopg2."""
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
