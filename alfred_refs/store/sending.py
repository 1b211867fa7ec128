"""How the Postgres store sends its statements: one alone, or several as a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import ClauseElement, Compiled, Connection, Engine, Executable

from alfred_refs.errors import UnknownConversationError

from .connections import OwnEngine, can_pipeline, in_one_trip, transaction
from .sql_parameters import named, tables_of_refs
from .values import Address

if TYPE_CHECKING:
    from sqlalchemy import Row

# https://www.postgresql.org/docs/current/errcodes-appendix.html
UNIQUE_VIOLATION = "23505"

_Row = TypeVar("_Row", bound=Sequence[Any])


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
        return self._alone(statement, named(address) | parameters)

    def _check_tables(self, address: Address) -> None:
        """Check that all refs of a conversation are of the tables for which they are used.

        Raises:
            EntityTableError: some are of another.
            UnknownConversationError: the conversation is another owner's.
        """
        for row in only_mine(self._rows(tables_of_refs, address), address):
            address.check_table(row.entity, row.table_name)

    def _write(
        self, batch: Sequence[Executable], parameters: Mapping[str, Any], *, again: bool = True
    ) -> Sequence[Any]:
        """Run statements in one transaction and return the rows of the last.

        With psycopg, in asynchronous engines too, they travel together; asyncpg and psycopg2, and
        a libpq older than 14, wait for each.

        Args:
            batch: what changes nothing if done twice, unless `again` is false.
            parameters: of all of them.
            again: as for `OwnEngine.run`.
        """

        def write(connection: Connection) -> Sequence[Any]:
            if can_pipeline(connection):
                return in_one_trip(connection, [self._compiled(q) for q in batch], parameters)
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
    """Return rows that begin with whether the conversation is this owner's; see that it is.

    Raises:
        UnknownConversationError: it is another owner's.
    """
    if rows and not rows[0][0]:
        raise UnknownConversationError(address.id)
    return rows
