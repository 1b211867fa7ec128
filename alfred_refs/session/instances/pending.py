"""Refs that the program gives, where the session takes keys: now, or at the next flush.

    session.get(Recipe, "recipe_1")            now: one round trip for all that one call gives
    plan = MealPlan(recipe_id="recipe_1")      pending: an object has no session to ask, and
    session.add(plan); session.flush()         neither does setting an attribute any I/O

What is pending is text under an attribute that the program has set; its name is noted with the
instance's state, and a flush resolves all of it in one round trip, or is refused by one bad ref.
Text that was loaded is a key, and is left alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import InstanceState

from alfred_refs.conversation.cache import Wanted
from alfred_refs.errors import UnknownRefError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn, texts_in, with_keys
from alfred_refs.mapping.keys import Key
from alfred_refs.session.alternate_keys import Alternates, Held

from .attributes import is_set


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
        if not found:
            return {}
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


_TEXTS = "alfred_refs_texts"  # of a state: names of the attributes whose refs are not resolved yet

State = InstanceState[Any]


class Unresolved:
    """The refs that wait in one session's instances.

    Args:
        entities: say which attributes hold keys.
        given: puts keys in place of refs.
        session: whose instances they are; a state tells so by its `hash_key`.
    """

    def __init__(self, entities: Entities, given: Given, session: int) -> None:
        self._entities = entities
        self._given = given
        self._session = session
        self._new: dict[State, None] = {}

    def add(self, state: State, name: str) -> None:
        """Have the text that an attribute is set to wait."""
        setattr(state, _TEXTS, {*names_of_texts(state), name})
        self._new[state] = None

    def add_all(self, state: State, names: Container[str] | None = None) -> None:
        """Have all texts wait that the program has set attributes to, or those of these names."""
        texts = {name for _, name, _, _ in self.held(state, names)}
        if texts:
            state.__dict__[_TEXTS] = texts
            self._new[state] = None

    def held(self, state: State, names: Container[str] | None = None) -> list[Held]:
        """Return what attributes of an instance hold that are refs as text, those of these names.

        So is text that the program has set: text that was loaded is a key.
        """
        return [
            (state, name, column, value)
            for name, column in self._entities.of_class(state.class_).all.items()
            if texts_in(column, value := state.dict.get(name)) and is_set(state, name)
            if names is None or name in names
        ]

    def waiting(self) -> list[Held]:
        """Return what attributes of the session's instances hold and wait with."""
        mine = [state for state in self._new if state.session_id == self._session]
        return [each for state in mine for each in self.held(state, names_of_texts(state))]

    def forget_left(self) -> None:
        """Forget the instances that are not the session's any more."""
        self._new = {state: None for state in self._new if state.session_id == self._session}

    def resolve(self, waiting: Iterable[Held]) -> list[State]:
        """Put keys in place of what waits, and return the states of the session's instances.

        Args:
            waiting: see `waiting`.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are.
        """
        self._put(self._with_keys(waiting))
        mine = [state for state in self._new if state.session_id == self._session]
        for state in mine:
            state.__dict__.pop(_TEXTS, None)
        self._new.clear()
        return mine

    def put_keys(self, states: Iterable[State], names: Container[str] | None = None) -> None:
        """Put keys in place of refs in attributes of instances, of these names, waiting or not.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are.
        """
        self._put(self._with_keys(each for state in states for each in self.held(state, names)))

    @contextmanager
    def lent_keys(self, states: Iterable[State]) -> Iterator[None]:
        """Put keys in place of refs in other people's instances while they are merged.

        Raises:
            BadRefError: one cannot be used.
        """
        held = [each for state in states for each in self.held(state)]
        self._put(self._with_keys(held))
        try:
            yield
        finally:
            self._put((state, name, value) for state, name, _, value in held)

    def _with_keys(self, held: Iterable[Held]) -> list[tuple[State, str, Any]]:
        """Return what attributes hold once their texts are keys: at most one round trip."""
        held = list(held)
        keys = self._given.keys_of([(column, value) for _, _, column, value in held])
        return [
            (state, name, with_keys(column, value, keys)) for state, name, column, value in held
        ]

    def _put(self, values: Iterable[tuple[State, str, Any]]) -> None:
        for state, name, value in values:
            state.dict[name] = value


def names_of_texts(state: State) -> set[str]:
    """Return the names of an instance's attributes whose refs are not resolved yet."""
    return getattr(state, _TEXTS, None) or set()
