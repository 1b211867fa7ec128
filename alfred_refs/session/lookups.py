"""Look-ups of rows beside the statement: alternate keys, missing rows, suggestions.

Alternate keys: values of a unique column that stand where others have primary keys.

`posts.author` may reference `users.handle_id`, and still it shows `user_1`. Such values come in
and the primary keys of their rows go out, or the other way round, one query on the session's own
connection for all that a result or a statement has; from there the conversation goes on as ever.

A unique value may change, and be another row's tomorrow: what was looked up is forgotten with the
transaction, and with every write in it. An instance keeps what its own values named when it was
loaded or saved. A value is never taken for a primary key, and one without a row is refused.

Whether the rows that refs name are there, where nothing was found of them.

Keys come in with the refs that name them; nothing goes out if their rows are there, whatever else
keeps a statement from finding them: a criterion, an owner, a soft delete. Rows that are gone raise
`GoneRefError`, however they went, and the conversation learns it. Where the server may hide a row,
by row-level security or because it is a replica that lags behind, it is not known.

>>> session.get(Recipe, "recipe_4")      # deleted by another client
GoneRefError: 'recipe_4' was deleted and cannot be used; known: 'recipe_1', 'recipe_2'

Which refs errors of a session that has an owner may name: those of rows that the owner sees.

A conversation has refs of other rows, too: of what trusted code has loaded, and of what foreign
keys name. An error would offer them, with their labels, to a model that may use none of them. Refs
come in, and those go out whose rows the owner may read: one query for each entity, where something
is wrong already.
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
from alfred_refs.mapping.key_columns import KeyColumn
from alfred_refs.mapping.keys import EntityKey, Key, parse_ref
from alfred_refs.owners import Confinement

_CLASS = table_(
    "pg_class",
    sqlalchemy_column("oid", OID),
    sqlalchemy_column("relkind", Text),
    schema="pg_catalog",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What the keys of an entity's rows are made of.

    Attributes:
        columns: the primary key.
        held: what each of them holds, `None` for data.
    """

    columns: Sequence[Column[Any]]
    held: Sequence[KeyColumn | None]

    def fits(self, key: Key) -> bool:
        """Tell whether a key has as many parts: less is the key of no row."""
        return len(key if isinstance(key, tuple) else (key,)) == len(self.columns)

    def values_of(self, key: Key) -> list[Any]:
        """Return the values of the columns."""
        parts = key if isinstance(key, tuple) else (key,)
        each = zip(self.held, parts, strict=True)
        return [part if held is None else held.from_key(part) for held, part in each]

    def key_of(self, values: Sequence[Any]) -> Key:
        """Return the key that values of the columns are."""
        each = zip(self.held, values, strict=True)
        parts = [value if held is None else held.to_key(value) for held, value in each]
        return parts[0] if len(parts) == 1 else tuple(parts)


def identity_of(entity: str, entities: Entities) -> Identity | None:
    """Return what the keys of an entity's rows are made of; `None` if its table is not known."""
    model = model_of(entity, entities)
    if model is not None:
        return Identity(inspect(model).mapper.primary_key, entities.of_class(model).identity)
    primary = entities.primary_of(entity)
    return None if primary is None else Identity([primary], [entities.of_column(primary)])


@dataclass(frozen=True, slots=True)
class _LookupResult:
    """What was found of keys.

    Attributes:
        there: those that rows have.
        may_be_hidden: whether the server may hide others.
        is_alone: whether nobody else may have made others that are not seen yet.
        has_written: whether this transaction has, and may be rolled back.
    """

    there: Collection[Key]
    may_be_hidden: bool
    is_alone: bool
    has_written: bool


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Looks for the rows of keys, by these alone.

    Attributes:
        session: in whose transaction it looks.
        conversation: which learns what is gone.
        bind_arguments: of what has found nothing.
    """

    session: Session
    conversation: SessionConversation
    bind_arguments: Mapping[str, Any] | None = None

    def check(self, entity: str, identity: Identity, sought: Mapping[str, Key]) -> list[str]:
        """Check that rows are there: one statement.

        Args:
            entity: whose refs they are.
            identity: what their keys are made of.
            sought: the keys of which nothing was found, by their refs.

        Returns:
            the refs of those that are not there, and may be hidden by the server.

        Raises:
            GoneRefError: one is not there.
        """
        found = self._look(identity, sought.values())
        gone = [ref for ref, key in sought.items() if key not in found.there]
        if not gone or found.may_be_hidden:
            return gone
        if found.is_alone and not found.has_written:
            self.conversation.note_gone([(entity, sought[ref]) for ref in gone], "was deleted")
        raise self.conversation.gone_error(gone[0], entity)

    def check_named(self, named: Iterable[tuple[KeyColumn, Any]]) -> None:
        """Check the rows whose own keys a statement names by their refs.

        Args:
            named: the keys, each with the column that it meets.

        Raises:
            GoneRefError: one is not there.
        """
        sought: dict[KeyColumn, dict[str, Key]] = {}
        for held, value in named:
            if str(self._primary(held)) == held.name and held.by is None:
                key = held.to_key(value)
                ref = self.conversation.refs_by_entity(key).get(held.entity)
                if ref is not None:
                    sought.setdefault(held, {})[ref] = key
        for held, keys in sought.items():
            primary = self._primary(held)
            if primary is not None:
                self.check(held.entity, Identity([primary], [held]), keys)

    def back(self, pairs: Iterable[EntityKey]) -> dict[EntityKey, bool]:
        """Return which rows are there that were gone: one statement for each entity.

        Returns:
            their keys, each with whether nobody can undo it: this transaction has written nothing.
        """
        back: dict[EntityKey, bool] = {}
        for entity, keys in by_entity(pairs).items():
            identity = identity_of(entity, self.conversation.entities)
            if identity is None or not self._can_ask(identity):
                continue
            fitting = [key for key in keys if identity.fits(key)]
            if fitting:
                found = self._look(identity, fitting)
                back |= {(entity, key): not found.has_written for key in found.there}
        return back

    def deleted(self, identity: Identity, keys: Iterable[Key]) -> list[Key]:
        """Return which rows are gone for certain, once this transaction is committed."""
        sought = list(keys)
        found = self._look(identity, sought)
        if found.may_be_hidden or not found.is_alone:
            return []
        return [key for key in sought if key not in found.there]

    def _primary(self, column: KeyColumn) -> Column[Any] | None:
        return self.conversation.entities.primary_of(column.entity)

    def _can_ask(self, identity: Identity) -> bool:
        try:
            return sqla.can_wait(self._bind(identity.columns[0].table).engine)
        except UnboundExecutionError:  # only the statement that is to be executed knows where
            return False

    def _look(self, identity: Identity, sought: Iterable[Key]) -> _LookupResult:
        """Look for rows, and ask in the same moment what that is worth."""
        columns, table = identity.columns, identity.columns[0].table
        each = [zip(columns, identity.values_of(key), strict=True) for key in sought]
        met = or_(*(and_(*(column == value for column, value in pairs)) for pairs in each))
        bind = self._bind(table)
        doubts = self._doubts(table, bind.dialect).subquery()
        rows = select(doubts, *columns).select_from(doubts.outerjoin(table, met))
        # no listener of the application's is to see it, or to change it
        with sqla.unconfined_lookup(self.session):
            connection = self.session.connection(bind_arguments={"bind": bind})
            found = connection.execute(rows).all()
        there = [values for _, _, _, *values in found if None not in values]
        return _LookupResult({identity.key_of(each) for each in there}, *found[0][:3])

    def _doubts(self, table: Table, dialect: Dialect) -> Select[bool, bool, bool]:
        """Ask whether the server may hide rows, and whether a row that is not there stays away.

        A view may hide them on its own account. A row may come about yet where somebody is
        writing, or be there again once this transaction is rolled back; and one that keeps a
        snapshot does not see what came later. Of other servers than PostgreSQL it is not known.
        """
        if dialect.name != "postgresql":
            return select(
                false().label("hidden"), false().label("alone"), false().label("written")
            )
        name = self._name_of(table, dialect)
        known = select(
            or_(func.row_security_active(_CLASS.c.oid), _CLASS.c.relkind.not_in(["r", "p"]))
        ).where(_CLASS.c.oid == cast(func.to_regclass(name), OID))
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
    """Chooses what may be named.

    Args:
        session: which has an owner; not kept alive.
        confinement: keeps it to the owner's rows.
    """

    def __init__(self, session: Session, confinement: Confinement) -> None:
        self._session = weakref.ref(session)
        self._confinement = confinement

    def __call__(self, conversation: SessionConversation, refs: Collection[str]) -> list[str]:
        """Return those refs whose rows the owner sees; none if that cannot be asked now."""
        groups: dict[str, dict[str, Key]] = {}
        for ref, key in conversation.known_keys(refs).items():
            parsed = parse_ref(ref)
            if parsed is not None:
                groups.setdefault(parsed.entity, {})[ref] = key
        entities = conversation.entities
        try:
            return [ref for of in groups.items() for ref in self._readable(*of, entities)]
        except SQLAlchemyError:  # as in a transaction that has failed
            return []

    def _readable(self, entity: str, keys: Mapping[str, Key], entities: Entities) -> Iterator[str]:
        session, identity = self._session(), identity_of(entity, entities)
        if session is None or identity is None:
            return
        mapper = sqla.mapper_of_table(identity.columns[0].table)
        if mapper is None or not sqla.can_wait(session.get_bind(mapper).engine):
            return
        values = {r: tuple(identity.values_of(k)) for r, k in keys.items() if identity.fits(k)}
        there = self._confinement.ask(session, identity.columns, values.values(), writing=False)
        yield from (ref for ref, value in values.items() if value in there)
