"""Row look-ups: whether the rows of refs exist, and which refs an error may suggest.

If a statement matches no row, or `get` returns nothing, `MissingRows` selects the rows by their
keys alone. A row that exists was excluded by a criterion, an owner or a soft delete: that is not
an error. A row that does not exist raises `GoneRefError`, and the conversation notes it:

>>> from sqlalchemy import delete
>>> with engine.begin() as other:
...     _ = other.execute(delete(Line).where(Line.text == "1 onion"))    # line_2
>>> session.get(Line, "line_2")
Traceback (most recent call last):
alfred_refs.errors.GoneRefError: 'line_2' was deleted and cannot be used; known: 'line_1'

The same query returns how reliable its result is. A row may be hidden by row-level security, a
view or the lag of a replica, and it may appear when another transaction commits or this one is
rolled back. A row that may be hidden does not raise.

Errors suggest refs of the conversation. In a session with an owner, `VisibleRefs` selects those
whose rows the owner may read: one query for each entity, when there is an error already. The
conversation may have refs of other rows, from trusted code or from foreign keys.

Limits: on databases other than PostgreSQL it is unknown whether a row may be hidden, and the
conversation notes nothing. Rows are looked up in the session's transaction only.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Select,
    Table,
    Text,
    and_,
    cast,
    column as sqlalchemy_column,
    exists,
    false,
    func,
    inspect,
    or_,
    select,
    table as table_,
    true,
)
from sqlalchemy.dialects.postgresql import OID
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import SQLAlchemyError, UnboundExecutionError
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation.draft_content import model_of
from alfred_refs.conversation.draft_rows import by_entity
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn, key_value, row_key
from alfred_refs.mapping.keys import EntityKey, Key, key_parts, parse_ref
from alfred_refs.owners import Confinement

_PG_CLASS = table_(
    "pg_class",
    sqlalchemy_column("oid", OID),
    sqlalchemy_column("relkind", Text),
    schema="pg_catalog",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The primary key of an entity's rows.

    Attributes:
        columns: its columns.
        key_columns: the keys that each of them holds, `None` for data.
    """

    columns: Sequence[Column[Any]]
    key_columns: Sequence[KeyColumn | None]

    def fits(self, key: Key) -> bool:
        """Return whether a key has one part for each column; no row has any other."""
        return len(key_parts(key)) == len(self.columns)

    def values_of(self, key: Key) -> list[Any]:
        """Return the values of the columns in the row of a key."""
        each = zip(self.key_columns, key_parts(key), self.columns, strict=True)
        return [key_value(key_column, part, column.type) for key_column, part, column in each]

    def key_of(self, values: Sequence[Any]) -> Key:
        """Return the key of the row with these values of the columns."""
        return row_key(self.key_columns, values)


def identity_of(entity: str, entities: Entities) -> Identity | None:
    """Return the primary key of an entity's rows; `None` if its table is unknown."""
    model = model_of(entity, entities)
    if model is not None:
        return Identity(inspect(model).mapper.primary_key, entities.of_class(model).identity)
    primary = entities.primary_column_of(entity)
    return None if primary is None else Identity([primary], [entities.of_column(primary)])


@dataclass(frozen=True, slots=True)
class _LookupResult:
    """The rows that a look-up has found, and how reliable that is.

    Attributes:
        existing: the keys of the rows.
        may_be_hidden: whether the database may hide other rows.
        is_alone: whether no other transaction may have written other rows.
        has_written: whether this transaction has written, and may be rolled back.
    """

    existing: Collection[Key]
    may_be_hidden: bool
    is_alone: bool
    has_written: bool


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Looks up rows by their keys alone.

    Attributes:
        session: in whose transaction rows are looked up.
        conversation: notes which rows do not exist.
        bind_arguments: of the statement that has matched nothing.
    """

    session: Session
    conversation: SessionConversation
    bind_arguments: Mapping[str, Any] | None = None

    def check(self, entity: str, identity: Identity, keys: Mapping[str, Key]) -> list[str]:
        """Check that rows exist: one statement.

        Args:
            entity: of their refs.
            identity: the primary key of its rows.
            keys: of the rows, by their refs.

        Returns:
            the refs of rows that were not found, and may be hidden by the database.

        Raises:
            GoneRefError: one does not exist.
        """
        gone, hidden = self.split(entity, identity, keys)
        if gone:
            raise self.conversation.gone_error(gone[0], entity)
        return hidden

    def split(
        self, entity: str, identity: Identity, keys: Mapping[str, Key]
    ) -> tuple[list[str], list[str]]:
        """Return the refs of rows that do not exist, and of rows that may be hidden.

        One statement; the arguments are as for `check`.
        """
        result = self._look_up(identity, keys.values())
        missing = [ref for ref, key in keys.items() if key not in result.existing]
        if not missing or result.may_be_hidden:
            return [], missing
        if result.is_alone and not result.has_written:
            self.conversation.note_gone([(entity, keys[ref]) for ref in missing], "was deleted")
        return missing, []

    def check_column_keys(self, column_keys: Iterable[tuple[KeyColumn, Any]]) -> None:
        """Check that the rows exist whose refs a statement compares with their primary key.

        Args:
            column_keys: the keys of its refs, each with the column that it is compared with.

        Raises:
            GoneRefError: one does not.
        """
        by_column: dict[KeyColumn, dict[str, Key]] = {}
        for column, value in column_keys:
            if str(self._primary(column)) == column.name and column.alternate is None:
                key = column.to_key(value)
                ref = self.conversation.refs_by_entity(key).get(column.entity)
                if ref is not None:
                    by_column.setdefault(column, {})[ref] = key
        for column, keys in by_column.items():
            primary = self._primary(column)
            if primary is not None:
                self.check(column.entity, Identity([primary], [column]), keys)

    def find_restored(self, pairs: Iterable[EntityKey]) -> dict[EntityKey, bool]:
        """Return which rows exist that did not: one statement for each entity.

        Returns:
            their keys, each with whether that is certain: this transaction has written nothing, so
            its rollback does not remove the row again.
        """
        restored: dict[EntityKey, bool] = {}
        for entity, keys in by_entity(pairs).items():
            identity = identity_of(entity, self.conversation.entities)
            if identity is None or not self._can_query(identity):
                continue
            fitting = [key for key in keys if identity.fits(key)]
            if fitting:
                result = self._look_up(identity, fitting)
                is_certain = not result.has_written
                restored |= {(entity, key): is_certain for key in result.existing}
        return restored

    def find_deleted(self, identity: Identity, keys: Iterable[Key]) -> list[Key]:
        """Return which rows are deleted for certain, if this transaction is committed."""
        wanted = list(keys)
        result = self._look_up(identity, wanted)
        if result.may_be_hidden or not result.is_alone:
            return []
        return [key for key in wanted if key not in result.existing]

    def _primary(self, column: KeyColumn) -> Column[Any] | None:
        return self.conversation.entities.primary_column_of(column.entity)

    def _can_query(self, identity: Identity) -> bool:
        try:
            return sqla.can_wait(self._bind(identity.columns[0].table).engine)
        except UnboundExecutionError:  # the session finds the bind by the mapper of a statement
            return False

    def _look_up(self, identity: Identity, keys: Iterable[Key]) -> _LookupResult:
        """Select rows by their keys, and in the same snapshot how reliable the result is."""
        columns, table = identity.columns, identity.columns[0].table
        each = [zip(columns, identity.values_of(key), strict=True) for key in keys]
        criterion = or_(*(and_(*(column == value for column, value in pairs)) for pairs in each))
        bind = self._bind(table)
        reliability = self._reliability(table, bind.dialect).subquery()
        # an outer join from the one row of `reliability`, which is there if no row is found
        statement = select(reliability, *columns).select_from(
            reliability.outerjoin(table, criterion)
        )
        # on the connection, so that no `do_orm_execute` listener of the application changes it
        with sqla.unconfined_lookup(self.session):
            connection = self.session.connection(bind_arguments={"bind": bind})
            rows = connection.execute(statement).all()
        existing = [values for _, _, _, *values in rows if None not in values]
        return _LookupResult({identity.key_of(values) for values in existing}, *rows[0][:3])

    def _reliability(self, table: Table, dialect: Dialect) -> Select[bool, bool, bool]:
        """Select whether rows may be hidden, and whether a missing row stays missing.

        Row-level security, a view and a replica may hide rows. A row may appear when another
        transaction commits, in a later statement of an isolated transaction never, and it may be
        restored by the rollback of this transaction. On other databases all of it is unknown.
        """
        if dialect.name != "postgresql":
            return select(
                false().label("hidden"), false().label("alone"), false().label("written")
            )
        name = self._name_of(table, dialect)
        known = select(
            or_(func.row_security_active(_PG_CLASS.c.oid), _PG_CLASS.c.relkind.not_in(["r", "p"]))
        ).where(_PG_CLASS.c.oid == cast(func.to_regclass(name), OID))
        hidden = or_(func.pg_is_in_recovery(), func.coalesce(known.scalar_subquery(), true()))
        now = func.txid_current_snapshot()
        others = func.txid_snapshot_xip(now).column_valued("others")
        alone = and_(
            func.current_setting("transaction_isolation") == "read committed",
            ~exists(select(others)),
        )
        written = func.txid_current_if_assigned().is_not(None)
        return select(hidden.label("hidden"), alone.label("alone"), written.label("written"))

    def _name_of(self, table: Table, dialect: Dialect) -> str:
        quote = dialect.identifier_preparer.quote
        schema = dict(self.conversation.schemas).get(table.schema, table.schema)
        return ".".join(quote(part) for part in (schema, table.name) if part is not None)

    def _bind(self, table: Table) -> Engine | Connection:
        return self.session.get_bind(**(self.bind_arguments or {"clause": table}))


class VisibleRefs:
    """Selects the refs that an error may suggest to an owner.

    Args:
        session: a session with an owner; referenced weakly.
        confinement: the confinement of the session.
    """

    def __init__(self, session: Session, confinement: Confinement) -> None:
        self._session = weakref.ref(session)
        self._confinement = confinement

    def __call__(self, conversation: SessionConversation, refs: Collection[str]) -> list[str]:
        """Return those refs whose rows the owner may read; none if the query fails."""
        groups: dict[str, dict[str, Key]] = {}
        for ref, key in conversation.known_keys(refs).items():
            parsed = parse_ref(ref)
            if parsed is not None:
                groups.setdefault(parsed.entity, {})[ref] = key
        entities = conversation.entities
        try:
            return [ref for of in groups.items() for ref in self._readable(*of, entities)]
        except SQLAlchemyError:  # such as in a failed transaction
            return []

    def _readable(self, entity: str, keys: Mapping[str, Key], entities: Entities) -> Iterator[str]:
        session, identity = self._session(), identity_of(entity, entities)
        if session is None or identity is None:
            return
        mapper = sqla.mapper_of_table(identity.columns[0].table)
        if mapper is None or not sqla.can_wait(session.get_bind(mapper).engine):
            return
        values = {r: tuple(identity.values_of(k)) for r, k in keys.items() if identity.fits(k)}
        readable = self._confinement.accessible_values(
            session, identity.columns, values.values(), writing=False
        )
        yield from (ref for ref, value in values.items() if value in readable)
