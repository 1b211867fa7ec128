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
from sqlalchemy.orm import InstanceState, Session

from alfred_refs import sqla
from alfred_refs.conversation.caches import ExpectedRef
from alfred_refs.conversation.draft_content import model_of
from alfred_refs.conversation.draft_rows import by_entity
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import AlternateKey, KeyColumn, keys_in
from alfred_refs.mapping.keys import EntityKey, Key, parse_ref, token_of
from alfred_refs.owners import Confinement
from alfred_refs.statements import Show, shower

_ROWS = "alfred_refs_rows"  # of a state: attribute → token of a value → primary key of its row
_MOST = 10_000  # values of one query: drivers have a limit
_MANY = 50_000  # values that are kept from one result, or chunk of it, to the next
_ASK_RAW = "use session.raw_keys() or execution_options(raw_keys=True) in trusted code"

State = InstanceState[Any]
Rows = Mapping[Any, Key]
"""The primary keys of rows, by the token of the value that names them."""

Held = tuple[State, str, KeyColumn, Any]
"""An instance, the name of an attribute of it, what that holds, and its value."""


class AlternateRefs(Mapping[Any, str]):
    """The refs of rows by the token of an alternate key: a view of what was looked up."""

    __slots__ = ("_by", "_refs", "_rows")

    def __init__(self, by: AlternateKey, rows: Rows, refs: Mapping[Any, str]) -> None:
        self._by = by
        self._rows = rows
        self._refs = refs

    def __getitem__(self, token: Any) -> str:
        if token not in self._rows:
            raise _unknown(self._by)
        return self._refs[token_of(self._rows[token])]

    def __contains__(self, token: object) -> bool:
        return token in self._rows and token_of(self._rows[token]) in self._refs

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Alternates:
    """A conversation as one session sees it: alternate keys are keys like others.

    Args:
        conversation: where the rows have refs.
        session: on whose connection they are looked up; without one, none is.

    Attributes:
        rows: the primary keys that were looked up, by the token of the value, for each `space`.
    """

    def __init__(self, conversation: SessionConversation, session: Session | None) -> None:
        self._conversation = conversation
        self._session = None if session is None else weakref.ref(session)
        self._known: Mapping[str, AlternateKey] = conversation.entities.alternates
        self.cached_refs = conversation.cached_refs  # of primary keys
        self.rows: dict[str, dict[Any, Key]] = {}
        self._values: dict[str, dict[Any, Key | None]] = {}

    def forget(self) -> None:
        """Forget which value names which row: it may be another from now on."""
        self.rows, self._values = {}, {}

    def trim(self) -> None:
        """Forget what was looked up if it is too much: nothing of it need be taken along."""
        if self.rows and sum(map(len, self.rows.values())) > _MANY:
            self.forget()

    def make_room(self) -> bool:
        """See `SessionConversation.make_room`."""
        self.trim()
        return self._conversation.make_room()

    def at(self, bind_arguments: Mapping[str, Any]) -> Alternates:
        """Return what serves a statement: nothing is looked up for one sent elsewhere."""
        return Alternates(self._conversation, None) if "bind" in bind_arguments else self

    def mint(self, pairs: Collection[EntityKey]) -> None:
        """See `Conversation.mint`: one query more if there are new values of alternate keys.

        A value that names no row is passed over: it is refused when it is to be shown.
        """
        if not self._known:
            self._conversation.mint(pairs)
            return
        self._look_up(pairs)
        met: list[EntityKey] = []
        for space, key in pairs:
            by = self._known.get(space)
            row = key if by is None else self.rows.get(space, {}).get(token_of(key))
            if row is not None:
                met.append((space if by is None else by.rows.entity, row))
        self._conversation.mint(met)

    def refs_of(self, space: str) -> Mapping[Any, str]:
        """See `Conversation.refs_of`; of an alternate key, by the tokens of its values."""
        by = self._known.get(space)
        if by is None:
            return self._conversation.refs_of(space)
        rows = self.rows.setdefault(space, {})
        return AlternateRefs(by, rows, self._conversation.refs_of(by.rows.entity))

    def resolve_pairs(self, wanted: Sequence[ExpectedRef]) -> list[Key]:
        """See `Conversation.resolve_pairs`: one query more if alternate keys are wanted.

        Raises:
            BadRefError: a ref cannot be used.
            UntranslatableError: its row has no value in the unique column.
        """
        if not self._known:
            return self._conversation.resolve_pairs(wanted)
        keys = self._conversation.resolve_pairs(self._by_entity(wanted))
        named = [(str(space), key) for (_, space), key in zip(wanted, keys, strict=True)]
        self._look_up_values(named)
        return [self._key(*want, key) for want, key in zip(wanted, keys, strict=True)]

    def has_met_refs(self, wanted: Sequence[ExpectedRef]) -> bool:
        """Tell whether all these refs can be resolved without a round trip.

        Alternate keys must be known in the transaction.
        """
        by_entity = self._by_entity(wanted)
        keys = self._conversation.cached_keys(by_entity)
        if keys is None:
            return False
        return all(
            space not in self._known or token_of(keys[want]) in self._values.get(str(space), ())
            for (_, space), want in zip(wanted, by_entity, strict=True)
        )

    # What instances keep of it

    def remember(self, held: Iterable[Held]) -> None:
        """Keep with instances which rows their alternate keys name, as far as it is not kept."""
        new: list[tuple[dict[str, Key | None], EntityKey]] = []
        for state, name, column, value in held:
            kept = _row_cache(state).setdefault(name, {})
            new += [
                (kept, pair) for pair in keys_in(column, value) if token_of(pair[1]) not in kept
            ]
        if new and self._session is not None:
            self._look_up([pair for _, pair in new])
        for kept, (space, key) in new:
            row = self.rows.get(space, {}).get(token_of(key))
            if row is not None or self._session is None:
                # `None`: looked up later, it might be found in the wrong place
                kept[token_of(key)] = row

    def cached_keys(self, held: Held) -> list[EntityKey]:
        """Return the primary keys, each with its entity, that an instance's value names."""
        state, name, column, value = held
        rows = _row_cache(state).get(name, {})
        found = (rows.get(token_of(key)) for _, key in keys_in(column, value))
        return [(column.entity, key) for key in found if key is not None]

    def shower(self, held: Held, listed: type[list[Any]] = list) -> Show:
        """Return what shows an instance's value: only the rows that it remembers."""
        state, name, column, _ = held
        rows = {t: key for t, key in _row_cache(state).get(name, {}).items() if key is not None}
        mine = Alternates(self._conversation, None)
        mine.rows[column.space] = rows
        return shower(column, mine, listed)

    # The look-up

    def _by_entity(self, wanted: Iterable[ExpectedRef]) -> list[ExpectedRef]:
        known = self._known
        return [
            (text, known[space].rows.entity if space in known else space)  # type: ignore[index]
            for text, space in wanted
        ]

    def _key(self, text: str, space: str | None, key: Key) -> Key:
        by = None if space is None else self._known.get(space)
        if by is None:
            return key
        values = self._values.get(by.space, {})
        if token_of(key) not in values:
            raise self._conversation.gone_error(text, by.rows.entity)
        value = values[token_of(key)]
        if value is None:
            raise UntranslatableError(
                f"{text!r} has no value in {by.column}, by which it would be named",
                "choose another, or give its row that value first",
            )
        return value

    def _look_up(self, pairs: Iterable[EntityKey]) -> None:
        """Look up the rows of values that are not known in this transaction."""
        for by, keys in self._new(pairs, self.rows):
            values = [by.values.from_key(key) for key in keys]
            self._ask(by, by.column, values)

    def _look_up_values(self, pairs: Iterable[EntityKey]) -> None:
        """Look up the values of rows that are not known in this transaction."""
        for by, keys in self._new(pairs, self._values):
            self._ask(by, by.primary, [by.rows.from_key(key) for key in keys])

    def _new(
        self, pairs: Iterable[EntityKey], known: Mapping[str, Mapping[Any, Any]]
    ) -> list[tuple[AlternateKey, list[Key]]]:
        new: dict[str, dict[Key, None]] = {}
        for space, key in pairs:
            if space in self._known and token_of(key) not in known.get(space, ()):
                new.setdefault(space, {})[key] = None
        return [(self._known[space], list(keys)) for space, keys in new.items()]

    def _ask(self, by: AlternateKey, column: Any, given: list[Any]) -> None:
        session = None if self._session is None else self._session()
        mapper = sqla.mapper_of_table(by.column.table)
        if session is None or not sqla.can_wait(session.get_bind(mapper, clause=by.column).engine):
            raise _unknown(by)
        where = {"clause": by.column} | ({} if mapper is None else {"mapper": mapper})
        # whatever the session's owner may see: this only makes refs
        with sqla.unconfined_lookup(session):
            connection = session.connection(bind_arguments=where)
            for start in range(0, len(given), _MOST):
                some = given[start : start + _MOST]
                found = select(by.column, by.primary).where(column.in_(some))
                for value, primary in connection.execute(found):
                    self._keep(by, value, by.rows.to_key(primary))

    def _keep(self, by: AlternateKey, value: Any, row: Key) -> None:
        key = None if value is None else by.values.to_key(value)
        self._values.setdefault(by.space, {})[token_of(row)] = key
        if key is None:
            return
        if self.rows.setdefault(by.space, {}).setdefault(token_of(key), row) != row:
            raise UntranslatableError(
                f"{by.column} has one value for several rows, and should be unique", _ASK_RAW
            )


def forget_rows(state: State, names: Iterable[str] | None) -> None:
    """Have an instance forget which rows its alternate keys name: attributes are loaded anew."""
    kept = _row_cache(state)
    for name in list(kept) if names is None else list(names):
        kept.pop(name, None)


def _row_cache(state: State) -> dict[str, dict[Any, Key | None]]:
    kept: dict[str, dict[Any, Key | None]] = state.__dict__.setdefault(_ROWS, {})
    return kept


def _unknown(by: AlternateKey) -> UntranslatableError:
    return UntranslatableError(
        f"which row a value names by {by.column} cannot be told: its row is not there, or it was "
        "not looked up while the session was at work, in the schema and database of its own",
        "refresh the instance in its session, or " + _ASK_RAW,
    )


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
