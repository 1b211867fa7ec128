"""Alternate keys: values of a unique column that stand where others have primary keys.

`posts.author` may reference `users.handle_id`, and still it shows `user_1`. Such values come in
and the primary keys of their rows go out, or the other way round, one query on the session's own
connection for all that a result or a statement has; from there the conversation goes on as ever.

A unique value may change, and be another row's tomorrow: what was looked up is forgotten with the
transaction, and with every write in it. An instance keeps what its own values named when it was
loaded or saved. A value is never taken for a primary key, and one without a row is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import InstanceState, Session

from alfred_refs import sqla
from alfred_refs.conversation.cache import Wanted
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.key_column import AlternateKey, KeyColumn, keys_in
from alfred_refs.mapping.keys import EntityKey, Key, token_of
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
        self.refs_met = conversation.refs_met  # of primary keys
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

    def meet(self, pairs: Collection[EntityKey]) -> None:
        """See `Conversation.meet`: one query more if there are new values of alternate keys.

        A value that names no row is passed over: it is refused when it is to be shown.
        """
        if not self._known:
            self._conversation.meet(pairs)
            return
        self._look_up(pairs)
        met: list[EntityKey] = []
        for space, key in pairs:
            by = self._known.get(space)
            row = key if by is None else self.rows.get(space, {}).get(token_of(key))
            if row is not None:
                met.append((space if by is None else by.rows.entity, row))
        self._conversation.meet(met)

    def refs_of(self, space: str) -> Mapping[Any, str]:
        """See `Conversation.refs_of`; of an alternate key, by the tokens of its values."""
        by = self._known.get(space)
        if by is None:
            return self._conversation.refs_of(space)
        rows = self.rows.setdefault(space, {})
        return AlternateRefs(by, rows, self._conversation.refs_of(by.rows.entity))

    def resolve_wanted(self, wanted: Sequence[Wanted]) -> list[Key]:
        """See `Conversation.resolve_wanted`: one query more if alternate keys are wanted.

        Raises:
            BadRefError: a ref cannot be used.
            UntranslatableError: its row has no value in the unique column.
        """
        if not self._known:
            return self._conversation.resolve_wanted(wanted)
        keys = self._conversation.resolve_wanted(self._by_entity(wanted))
        named = [(str(space), key) for (_, space), key in zip(wanted, keys, strict=True)]
        self._look_up_values(named)
        return [self._key(*want, key) for want, key in zip(wanted, keys, strict=True)]

    def has_met_refs(self, wanted: Sequence[Wanted]) -> bool:
        """Tell whether all these refs can be resolved without a round trip.

        Alternate keys must be known in the transaction.
        """
        by_entity = self._by_entity(wanted)
        keys = self._conversation.keys_met(by_entity)
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
            kept = _kept(state).setdefault(name, {})
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

    def remembered(self, held: Held) -> list[EntityKey]:
        """Return the primary keys, each with its entity, that an instance's value names."""
        state, name, column, value = held
        rows = _kept(state).get(name, {})
        found = (rows.get(token_of(key)) for _, key in keys_in(column, value))
        return [(column.entity, key) for key in found if key is not None]

    def shower(self, held: Held, listed: type[list[Any]] = list) -> Show:
        """Return what shows an instance's value: only the rows that it remembers."""
        state, name, column, _ = held
        rows = {t: key for t, key in _kept(state).get(name, {}).items() if key is not None}
        mine = Alternates(self._conversation, None)
        mine.rows[column.space] = rows
        return shower(column, mine, listed)

    # The look-up

    def _by_entity(self, wanted: Iterable[Wanted]) -> list[Wanted]:
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
            raise self._conversation.gone(text, by.rows.entity)
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
        with sqla.lifted(session):
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
    kept = _kept(state)
    for name in list(kept) if names is None else list(names):
        kept.pop(name, None)


def _kept(state: State) -> dict[str, dict[Any, Key | None]]:
    kept: dict[str, dict[Any, Key | None]] = state.__dict__.setdefault(_ROWS, {})
    return kept


def _unknown(by: AlternateKey) -> UntranslatableError:
    return UntranslatableError(
        f"which row a value names by {by.column} cannot be told: its row is not there, or it was "
        "not looked up while the session was at work, in the schema and database of its own",
        "refresh the instance in its session, or " + _ASK_RAW,
    )
