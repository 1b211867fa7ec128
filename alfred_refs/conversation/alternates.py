"""Alternate keys: foreign keys that reference a unique column in place of the primary key.

If `posts.author` references `users.handle_id`, a post still shows its author as `user_1`: the ref
belongs to the primary key. `AlternateKeys` holds which value of the unique column belongs to which
row, in both directions. Missing rows are looked up in one query on the session's own connection
for all values of a result or statement.

    post.author        value of users.handle_id ─▶ primary key of the row ─▶ ref
    Post.author == ?   ref ─▶ primary key of the row ─▶ value of users.handle_id

>>> conversation = session.own_view
>>> conversation.alternates.columns            # no foreign key of the kitchen is of this kind
{}
>>> conversation.alternates.row_keys([("recipe", 5)])
[('recipe', 5)]

A unique value may change, and belong to another row later. So look-ups are forgotten at
the end of the transaction and after every write in it. Instances keep the rows that their own
values had when they were loaded (`session.instances`).

Limits: a value is never taken for a primary key, and one without a row raises. Nothing is looked
up for a statement that is sent to another bind than its tables have (`bind_arguments`): the
session's connection may show another database.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.conversation.caches import ExpectedRef
from alfred_refs.errors import GoneRefError, UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import AlternateKey
from alfred_refs.mapping.keys import EntityKey, Key, token_of

_PER_QUERY = 10_000  # values: drivers limit the parameters of one statement
_CAPACITY = 50_000  # values kept from one result, or chunk of it, to the next
_ASK_RAW = "use session.raw_keys() or execution_options(raw_keys=True) in trusted code"

_P = ParamSpec("_P")
_R = TypeVar("_R")


class AlternateRefs(Mapping[Any, str]):
    """The refs of rows by the token of an alternate key.

    Args:
        by: the alternate key.
        rows: the primary keys of rows by the token of its value.
        refs: the refs of the rows by the token of the primary key.
    """

    __slots__ = ("_by", "_refs", "_rows")

    def __init__(self, by: AlternateKey, rows: Mapping[Any, Key], refs: Mapping[Any, str]) -> None:
        self._by = by
        self._rows = rows
        self._refs = refs

    def __getitem__(self, token: Any) -> str:
        if token not in self._rows:
            raise _unknown_row(self._by)
        return self._refs[token_of(self._rows[token])]

    def __contains__(self, token: object) -> bool:
        return token in self._rows and token_of(self._rows[token]) in self._refs

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class AlternateKeys:
    """The values of unique columns and their rows, as one transaction sees them.

    Args:
        entities: which columns hold keys.
        session: on whose connection rows are looked up; not kept alive.

    Attributes:
        columns: the alternate keys known so far, by their `space`; grows as classes are used.
        rows: the primary keys that were looked up, by the token of the value, for each `space`.
    """

    def __init__(self, entities: Entities, session: Session) -> None:
        self.columns: Mapping[str, AlternateKey] = entities.alternates
        self.rows: dict[str, dict[Any, Key]] = {}
        self._values: dict[str, dict[Any, Key | None]] = {}
        self._session: Callable[[], Session | None] = weakref.ref(session)

    def forget(self) -> None:
        """Forget all look-ups: a value may belong to another row from now on."""
        self.rows, self._values = {}, {}

    def trim(self) -> None:
        """Forget all look-ups if there are too many: none is needed between two results."""
        if self.rows and sum(map(len, self.rows.values())) > _CAPACITY:
            self.forget()

    def without_lookups(self, work: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return `work` as a function that looks nothing up: alternate keys raise in it.

        For statements that are sent to another bind than the session's, which may be another
        database.
        """

        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            kept = self.rows, self._values, self._session
            self.rows, self._values, self._session = {}, {}, lambda: None
            try:
                return work(*args, **kwargs)
            finally:
                self.rows, self._values, self._session = kept

        return run

    # Keys out

    def row_keys(self, pairs: Iterable[EntityKey]) -> list[EntityKey]:
        """Return keys with primary keys in place of alternate keys: at most one query a column.

        A value without a row is left out; it raises when it is to be shown.
        """
        pairs = list(pairs)
        self.look_up(pairs)
        rows: list[EntityKey] = []
        for space, key in pairs:
            by = self.columns.get(space)
            row = key if by is None else self.row_of(space, key)
            if row is not None:
                rows.append((space if by is None else by.rows.entity, row))
        return rows

    def look_up(self, pairs: Iterable[EntityKey]) -> None:
        """Look up the rows of the values that this transaction has not looked up.

        Raises:
            UntranslatableError: the database cannot be queried for them.
        """
        for by, keys in self._missing(pairs, self.rows):
            self._query(by, by.column, [by.values.from_key(key) for key in keys])

    def row_of(self, space: str, key: Key) -> Key | None:
        """Return the primary key of the row that a value belongs to, if it was looked up."""
        return self.rows.get(space, {}).get(token_of(key))

    def refs(self, by: AlternateKey, refs: Mapping[Any, str]) -> Mapping[Any, str]:
        """Return a live view of refs by the value of an alternate key.

        Args:
            by: the alternate key.
            refs: the refs of its rows by the token of the primary key.
        """
        return AlternateRefs(by, self.rows.setdefault(by.space, {}), refs)

    # Refs in

    def by_entity(self, wanted: Iterable[ExpectedRef]) -> list[ExpectedRef]:
        """Return refs with the entity of the row in place of the `space` of an alternate key."""
        found = ((text, space, self.columns.get(space or "")) for text, space in wanted)
        return [(text, space if by is None else by.rows.entity) for text, space, by in found]

    def values_of(
        self,
        wanted: Sequence[ExpectedRef],
        rows: Sequence[Key],
        build_error: Callable[[str, str], GoneRefError],
    ) -> list[Key]:
        """Return the keys of refs: the unique value if it is wanted, or else the primary key.

        Args:
            wanted: the refs, each with the entity or `space` that it is wanted for.
            rows: the primary keys of their rows.
            build_error: returns the error for a ref whose row does not exist.

        Raises:
            GoneRefError: a row does not exist.
            UntranslatableError: a row has no value in the unique column.
        """
        pairs = [(space or "", row) for (_, space), row in zip(wanted, rows, strict=True)]
        for by, keys in self._missing(pairs, self._values):
            self._query(by, by.primary, [by.rows.from_key(key) for key in keys])
        return [
            self._value(text, space, row, build_error) if space in self.columns else row
            for (text, _), (space, row) in zip(wanted, pairs, strict=True)
        ]

    def _value(
        self, text: str, space: str, row: Key, build_error: Callable[[str, str], GoneRefError]
    ) -> Key:
        by = self.columns[space]
        values = self._values.get(by.space, {})
        if token_of(row) not in values:
            raise build_error(text, by.rows.entity)
        value = values[token_of(row)]
        if value is None:
            raise UntranslatableError(
                f"the row of {text!r} has no value in {by.column}, which a foreign key references",
                "use another row, or give this one a value first",
            )
        return value

    def has_value(self, space: str | None, row: Key) -> bool:
        """Return whether a row's key in a `space` is known without a query."""
        return space not in self.columns or token_of(row) in self._values.get(space or "", ())

    # The look-up

    def _missing(
        self, pairs: Iterable[EntityKey], known: Mapping[str, Mapping[Any, Any]]
    ) -> list[tuple[AlternateKey, list[Key]]]:
        missing: dict[str, dict[Key, None]] = {}
        for space, key in pairs:
            if space in self.columns and token_of(key) not in known.get(space, ()):
                missing.setdefault(space, {})[key] = None
        return [(self.columns[space], list(keys)) for space, keys in missing.items()]

    def _query(self, by: AlternateKey, column: Any, values: list[Any]) -> None:
        """Select unique value and primary key of the rows with these values in a column."""
        session, mapper = self._session(), sqla.mapper_of_table(by.column.table)
        if session is None or not sqla.can_wait(session.get_bind(mapper, clause=by.column).engine):
            raise _unknown_row(by)
        where = {"clause": by.column} | ({} if mapper is None else {"mapper": mapper})
        # rows of other owners too: a ref does not permit to read its row
        with sqla.unconfined_lookup(session):
            connection = session.connection(bind_arguments=where)
            for start in range(0, len(values), _PER_QUERY):
                some = values[start : start + _PER_QUERY]
                query = select(by.column, by.primary).where(column.in_(some))
                for value, primary in connection.execute(query):
                    self._keep(by, value, by.rows.to_key(primary))

    def _keep(self, by: AlternateKey, value: Any, row: Key) -> None:
        key = None if value is None else by.values.to_key(value)
        self._values.setdefault(by.space, {})[token_of(row)] = key
        if key is None:
            return
        # UNIQUE in the metadata; in the database it may be a view, or a partial index
        if self.rows.setdefault(by.space, {}).setdefault(token_of(key), row) != row:
            raise UntranslatableError(
                f"{by.column} has one value for several rows, and should be unique", _ASK_RAW
            )


def _unknown_row(by: AlternateKey) -> UntranslatableError:
    return UntranslatableError(
        f"the row for a value of {by.column} is unknown: it does not exist, or it was not looked "
        "up while the session was at work in its own schema and database",
        "refresh the instance in its session, or " + _ASK_RAW,
    )
