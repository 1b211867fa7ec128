"""The map in PostgreSQL: durable, shared by all processes, numbered under a row lock."""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, Engine, inspect, select

from alfred_refs.errors import (
    RegistryBusyError,
    RegistryFailedError,
    RegistryUnreachableError,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import EntityKey, Key, decode, encode
from alfred_refs.mapping.refs import Ref

from . import sql_activity, sql_conversations, sql_refs
from .connections import UNIQUE_VIOLATION, only_mine, transaction
from .postgres_activity import PostgresActivity
from .postgres_conversations import PostgresConversations
from .postgres_drafts import PostgresDrafts
from .sql_parameters import named
from .tables import conversations, metadata
from .values import NO_LABELS, NOTED_EVERY, Address, Entry, Gone

if TYPE_CHECKING:
    from sqlalchemy import MetaData

# what PostgreSQL refuses writing with
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_READ_ONLY = (
    "0A000",  # feature_not_supported: a standby has no READ WRITE
    "25006",  # read_only_sql_transaction
    "42501",  # insufficient_privilege
)


class PostgresStore(PostgresDrafts, PostgresActivity, PostgresConversations):
    """A `Store` in the database of an engine; its methods do what `Store` says.

    Args:
        engine: the application's engine, or any other on the database where the registry is.

    Example:
        >>> registry = RefRegistry(store=PostgresStore(engine))
        >>> registry.conversation("chat-7").resolve("recipe_1") == chat.resolve("recipe_1")
        True
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._reads_only_until = 0.0
        if not self.is_async:  # there only a coroutine can close a connection
            weakref.finalize(self, self._own.release).atexit = False

    @property
    def is_async(self) -> bool:
        """Whether the engine is asynchronous."""
        return self._own.is_async

    @property
    def metadata(self) -> MetaData:
        """The tables, for an application's own Alembic environment."""
        return metadata

    def create_tables(self) -> None:
        """Create the tables that are missing, and leave later changes to `alfred-refs migrate`."""
        from . import migrate as schema  # noqa: PLC0415  # with Alembic, which is long to import

        def create(connection: Connection) -> None:
            with transaction(connection):
                connection.execute(sql_refs.lock_tables)
                if not inspect(connection).has_table(conversations.name):
                    metadata.create_all(connection)
                    schema.note_newest(connection)

        self._own.run(create)
        self.check_tables()

    def check_tables(self) -> None:
        """Raise `RegistryTablesError` for tables of an older version, which lacks columns."""

        def check(connection: Connection) -> None:
            for table in metadata.tables.values():
                connection.execute(select(table).limit(0))

        self._own.run(check)

    def refer(
        self,
        address: Address,
        keys: Sequence[EntityKey],
        labels: Mapping[EntityKey, str] = NO_LABELS,
    ) -> list[Entry]:
        if not keys:
            return []
        values = named(address) | _arrays(address, keys, labels)
        rows = self._mint(values)
        if len(rows) < len(keys):  # of another owner, or forgotten between the two statements
            rows = self._write([sql_refs.lock_always, sql_refs.refer], values)
        if len(rows) < len(keys):
            self._check_tables(address)
            raise UnknownConversationError(address.id)
        found = {position: rest for position, *rest in rows}
        return [
            Entry(Ref(entity, number), key, *rest)
            for position, (entity, key) in enumerate(keys, start=1)
            for number, *rest in (found[position],)
        ]

    def _mint(self, values: Mapping[str, Any]) -> Sequence[Any]:
        """Mint where need be, and return the rows of `refer`: too few if that was not possible."""
        try:
            return self._write([sql_refs.lock, sql_refs.refer], values)
        except RegistryFailedError as error:
            # `lock` found all keys known, they were forgotten, and the counter was read before
            # `refer` took the lock itself: somebody else has given the number in between
            if error.sqlstate != UNIQUE_VIOLATION:
                raise
            return []

    def resolve(self, address: Address, refs: Sequence[Ref]) -> Mapping[Ref, Entry]:
        rows = self._rows(
            sql_refs.resolve,
            address,
            p_entities=[ref.entity for ref in refs],
            p_numbers=[ref.number for ref in refs],
        )
        if rows and rows[0].mine and rows[0].unnoted:
            with suppress(RegistryBusyError, RegistryFailedError, RegistryUnreachableError):
                self.touch(address)  # a note: what was found is found
        for entity, table in {(row.entity, row.table_name) for row in only_mine(rows, address)}:
            address.check_table(entity, table)
        entries = [
            Entry(Ref(row.entity, row.number), decode(row.key), row.gone, row.label)
            for row in rows
            if row.key is not None
        ]
        return {entry.ref: entry for entry in entries}

    def refs_of(self, address: Address, keys: Collection[Key]) -> Mapping[Key, Sequence[Ref]]:
        sought = [encode(key) for key in keys]
        rows = only_mine(self._rows(sql_refs.refs_of, address, p_keys=sought), address)
        found: dict[Key, list[Ref]] = {}
        for row in rows:
            if row.key is not None:
                found.setdefault(decode(row.key), []).append(Ref(row.entity, row.number))
        return {key: sorted(refs) for key, refs in found.items()}

    def known(self, address: Address, near: Ref, limit: int) -> Mapping[Ref, str | None]:
        rows = self._rows(
            sql_refs.known, address, p_entity=near.entity, p_number=near.number, p_limit=limit
        )
        return {Ref(near.entity, row.number): row.label for row in rows}

    def labelled(self, address: Address, entity: str, limit: int) -> Mapping[Ref, str]:
        rows = self._rows(sql_refs.labelled, address, p_entity=entity, p_limit=limit)
        return {Ref(entity, row.number): row.label for row in rows}

    def namesakes(
        self, address: Address, labels: Collection[tuple[str, str]], limit: int
    ) -> Mapping[tuple[str, str], tuple[Ref, Ref]]:
        rows = self._rows(
            sql_refs.namesakes,
            address,
            p_entities=[*{entity for entity, _ in labels}],
            p_labels=[*{label for _, label in labels}],
            p_limit=limit,
        )
        found = {
            (row.entity, row.label): (Ref(row.entity, row.first), Ref(row.entity, row.last))
            for row in rows
        }
        return {pair: found[pair] for pair in labels if pair in found}

    def mark(self, address: Address, keys: Sequence[EntityKey], gone: Gone | None) -> None:
        parameters = named(address) | _arrays(address, keys) | {"p_gone": gone}
        self._write([sql_refs.lock_begun, sql_refs.mark], parameters)

    def label(self, address: Address, labels: Mapping[EntityKey, str]) -> None:
        parameters = named(address) | _arrays(address, list(labels), labels)
        self._write([sql_refs.lock_begun, sql_refs.label], parameters)

    def begin_turn(self, address: Address) -> int:
        # not tried again when the connection is lost: the turn may have begun
        batch = [sql_refs.lock_begun, sql_activity.forget_seen, sql_refs.begin_turn]
        rows = self._write(batch, named(address), again=False)
        if not rows:
            raise UnknownConversationError(address.id)
        return cast(int, rows[0][0])

    def turn(self, address: Address) -> int:
        rows = only_mine(self._rows(sql_refs.turn, address), address)
        return rows[0].turn if rows else 0

    def touch(self, address: Address) -> None:
        if time.monotonic() < self._reads_only_until:
            return
        try:
            self._write([sql_conversations.touch], named(address))
        except RegistryFailedError as error:
            if error.sqlstate not in _READ_ONLY:
                raise
            self._reads_only_until = time.monotonic() + NOTED_EVERY.total_seconds()


def _arrays(
    address: Address, keys: Sequence[EntityKey], labels: Mapping[EntityKey, str] = NO_LABELS
) -> dict[str, Any]:
    return {
        "p_tables": address.tables_of(entity for entity, _ in keys),
        "p_entities": [entity for entity, _ in keys],
        "p_keys": [encode(key) for _, key in keys],
        "p_labels": [labels.get(pair) for pair in keys] if labels else [],
    }
