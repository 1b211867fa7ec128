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

from alfred_refs.conversation.cache import Wanted
from alfred_refs.errors import UnknownRefError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn, texts_in, with_keys
from alfred_refs.mapping.keys import Key
from alfred_refs.session.alternate_keys import Alternates, Held
from alfred_refs.sqla import State

from .attributes import is_set

_TEXTS = "alfred_refs_texts"  # of a state: names of the attributes whose refs are not resolved yet


class PendingRefs:
    """Puts keys in place of the refs that one session is given, at once or when it is flushed.

    Each raises `BadRefError` for a ref that cannot be used, and has changed nothing then.

    Args:
        entities: say which columns hold keys.
        alternates: the conversation, as the session sees it.
        session: whose instances wait; a state tells so by its `hash_key`.
    """

    def __init__(self, entities: Entities, alternates: Alternates, session: int) -> None:
        self._entities = entities
        self._alternates = alternates
        self._session = session
        self._new: dict[State, None] = {}

    def _keys_of(self, values: Iterable[tuple[KeyColumn, Any]]) -> Mapping[Wanted, Key]:
        """Return the keys of all texts in values: at most one round trip."""
        found = [want for column, value in values for want in wanted(column, value)]
        if not found:
            return {}
        return dict(zip(found, self._alternates.resolve_wanted(found), strict=True))

    # Given to a call

    def value(self, column: KeyColumn | None, value: Any) -> Any:
        """Return a value of a column, `None` where that holds data, with keys in place of refs."""
        if column is None:
            return value
        return with_keys(column, value, self._keys_of([(column, value)]))

    def identity(self, class_: type[Any], ident: Any) -> Any:
        """Return an identity, as `Session.get` takes it, with keys in place of refs.

        One text, where a key has several columns, is the ref of a row.
        """
        keys = self._entities.of_class(class_)
        if isinstance(ident, Mapping):
            return {name: self.value(keys.primary.get(name), part) for name, part in ident.items()}
        if isinstance(ident, Sequence) and not isinstance(ident, str):
            # as many as were given: if that is too many, SQLAlchemy says so
            columns = itertools.chain(keys.identity, itertools.repeat(None))
            return tuple(map(self.value, columns, ident))
        if not isinstance(ident, str) or len(keys.identity) == 1:
            return self.value(keys.identity[0], ident)
        entity = self._entities.name_of(class_)
        [key] = self._alternates.resolve_wanted([(ident, entity)])
        if not isinstance(key, tuple):  # one column's, which has refs of the same entity
            raise UnknownRefError(ident, entity)
        parts = zip(keys.identity, key, strict=True)
        return tuple(part if held is None else held.from_key(part) for held, part in parts)

    def records(
        self, class_: type[Any], records: Iterable[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return copies of records of a class with keys in place of refs."""
        columns = self._entities.of_class(class_).all
        copies = [dict(record) for record in records]
        held = [(copy, name) for copy in copies for name in copy.keys() & columns.keys()]
        keys = self._keys_of([(columns[name], copy[name]) for copy, name in held])
        for copy, name in held:
            copy[name] = with_keys(columns[name], copy[name], keys)
        return copies

    def put_keys(self, states: Iterable[State], names: Container[str] | None = None) -> None:
        """Put keys in place of refs in attributes of instances, of these names, waiting or not."""
        self._put(self._with_keys(each for state in states for each in self.held(state, names)))

    @contextmanager
    def lent_keys(self, states: Iterable[State]) -> Iterator[None]:
        """Put keys in place of refs in other people's instances while they are merged."""
        held = [each for state in states for each in self.held(state)]
        self._put(self._with_keys(held))
        try:
            yield
        finally:
            self._put((state, name, value) for state, name, _, value in held)

    # Kept for the flush

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
        return [each for state in self._mine() for each in self.held(state, names_of_texts(state))]

    def resolve(self, waiting: Iterable[Held]) -> list[State]:
        """Put keys in place of what `waiting()` returned, and return the states of instances."""
        self._put(self._with_keys(waiting))
        mine = self._mine()
        for state in mine:
            state.__dict__.pop(_TEXTS, None)
        self._new.clear()
        return mine

    def forget_left(self) -> None:
        """Forget the instances that are not the session's any more."""
        self._new = dict.fromkeys(self._mine())

    def _mine(self) -> list[State]:
        return [state for state in self._new if state.session_id == self._session]

    def _with_keys(self, held: Iterable[Held]) -> list[tuple[State, str, Any]]:
        """Return what attributes hold once their texts are keys: at most one round trip."""
        held = list(held)
        keys = self._keys_of([(column, value) for _, _, column, value in held])
        return [
            (state, name, with_keys(column, value, keys)) for state, name, column, value in held
        ]

    def _put(self, values: Iterable[tuple[State, str, Any]]) -> None:
        for state, name, value in values:
            state.dict[name] = value


def wanted(column: KeyColumn, value: Any) -> list[Wanted]:
    """Return the refs in a value of a column, as the conversation is asked for them."""
    return [(text, column.space) for text in texts_in(column, value)]


def names_of_texts(state: State) -> set[str]:
    """Return the names of an instance's attributes whose refs are not resolved yet."""
    return getattr(state, _TEXTS, None) or set()
