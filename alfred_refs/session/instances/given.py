"""Refs that the program gives where a session takes keys: identities, records and attributes.

Values come in as the program gave them, each for a column that holds keys; they go out with keys
in place of their texts, which are refs. All that is given at one time is resolved in one round
trip, or one bad ref refuses it all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from alfred_refs.conversation.cache import Wanted
from alfred_refs.errors import UnknownRefError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.values import texts_in, with_keys
from alfred_refs.session.alternate_keys import Alternates


class Given:
    """Puts keys in place of the refs that one session is given.

    Args:
        entities: say which columns hold keys.
        alternates: the conversation, as the session sees it.
    """

    def __init__(self, entities: Entities, alternates: Alternates) -> None:
        self._entities = entities
        self._alternates = alternates

    def keys_of(self, values: Iterable[tuple[KeyColumn, Any]]) -> Mapping[Wanted, Key]:
        """Return the keys of all texts in values: at most one round trip.

        Raises:
            BadRefError: one cannot be used.
        """
        found = [want for column, value in values for want in wanted(column, value)]
        return dict(zip(found, self._alternates.resolve_wanted(found), strict=True))

    def value(self, column: KeyColumn, value: Any) -> Any:
        """Return a value with keys in place of refs.

        Raises:
            BadRefError: one cannot be used.
        """
        return with_keys(column, value, self.keys_of([(column, value)]))

    def identity(self, class_: type[Any], ident: Any) -> Any:
        """Return an identity, as `Session.get` takes it, with keys in place of refs.

        One text, where a key has several columns, is the ref of a row.

        Raises:
            BadRefError: a text in it is no ref that can be used.
        """
        keys = self._entities.of_class(class_)
        if isinstance(ident, Mapping):
            return {n: self._key(keys.primary.get(n), value) for n, value in ident.items()}
        if isinstance(ident, Sequence) and not isinstance(ident, str):
            # as many as were given: if that is too many, SQLAlchemy says so
            columns = itertools.chain(keys.identity, itertools.repeat(None))
            return tuple(map(self._key, columns, ident))
        if isinstance(ident, str) and len(keys.identity) > 1:
            return self._parts(class_, ident)
        return self._key(keys.identity[0], ident)

    def _key(self, column: KeyColumn | None, value: Any) -> Any:
        return value if column is None else self.value(column, value)

    def _parts(self, class_: type[Any], ref: str) -> tuple[Any, ...]:
        """Return the key of several columns that a ref names."""
        entity = self._entities.name_of(class_)
        [key] = self._alternates.resolve_wanted([(ref, entity)])
        if not isinstance(key, tuple):  # one column's, which has refs of the same entity
            raise UnknownRefError(ref, entity)
        parts = zip(self._entities.of_class(class_).identity, key, strict=True)
        return tuple(part if held is None else held.from_key(part) for held, part in parts)

    def records(
        self, class_: type[Any], records: Iterable[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return copies of records of a class with keys in place of refs.

        Raises:
            BadRefError: one cannot be used.
        """
        columns = self._entities.of_class(class_).all
        copies = [dict(record) for record in records]
        held = [(copy, name) for copy in copies for name in copy.keys() & columns.keys()]
        keys = self.keys_of([(columns[name], copy[name]) for copy, name in held])
        for copy, name in held:
            copy[name] = with_keys(columns[name], copy[name], keys)
        return copies


def wanted(column: KeyColumn, value: Any) -> list[Wanted]:
    """Return the refs in a value of a column, as the conversation is asked for them."""
    return [(text, column.space) for text in texts_in(column, value)]
