"""Refs that stand in instances as text until a flush puts keys in their place.

An object made by the program has no session to ask, and adding it to one does no I/O; nor does
setting an attribute in an async session. So the text waits, its name noted with the instance's
state, and all that waits is resolved at the next flush, in one round trip. Text that was loaded is
a key and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import InstanceState

from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.values import texts_in, with_keys
from alfred_refs.session.alternate_keys import Held

from .given import Given
from .pickling import is_set

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
        """Return what attributes of an instance hold that are text, those of these names."""
        return [(state, *each) for each in self._in(state) if names is None or each[0] in names]

    def waiting(self) -> Iterator[Held]:
        """Yield what attributes of the session's instances hold and wait with."""
        for state in self._new:
            if state.session_id == self._session:
                yield from self.held(state, names_of_texts(state))

    def forget_left(self) -> None:
        """Forget the instances that are not the session's any more."""
        self._new = {state: None for state in self._new if state.session_id == self._session}

    def resolve(self) -> list[State]:
        """Put keys in place of what waits, and return the states of the session's instances.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are.
        """
        waiting = [state for state in self._new if state.session_id == self._session]
        for state, name, value in self._resolved(waiting, names_of_texts):
            state.dict[name] = value
        for state in waiting:
            state.__dict__.pop(_TEXTS, None)
        self._new.clear()
        return waiting

    def put_keys(self, states: Iterable[State], names: Container[str] | None = None) -> None:
        """Put keys in place of refs in attributes of instances, of these names, waiting or not.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are.
        """
        for state, name, value in self._resolved(
            states, None if names is None else lambda _: names
        ):
            state.dict[name] = value

    @contextmanager
    def lent_keys(self, states: Iterable[State]) -> Iterator[None]:
        """Put keys in place of refs in other people's instances while they are merged.

        Raises:
            BadRefError: one cannot be used.
        """
        resolved = self._resolved(states)
        before = [state.dict[name] for state, name, _ in resolved]
        for state, name, value in resolved:
            state.dict[name] = value
        try:
            yield
        finally:
            for (state, name, _), value in zip(resolved, before, strict=True):
                state.dict[name] = value

    def _resolved(
        self, states: Iterable[State], names: Callable[[State], Container[str]] | None = None
    ) -> list[tuple[State, str, Any]]:
        """Return what unresolved attributes, of these names, hold once their texts are keys."""
        found = [
            (state, *rest)
            for state in states
            for rest in self._in(state)
            if names is None or rest[0] in names(state)
        ]
        keys = self._given.keys_of([(column, value) for _, _, column, value in found])
        return [
            (state, name, with_keys(column, value, keys)) for state, name, column, value in found
        ]

    def _in(self, state: State) -> Iterator[tuple[str, KeyColumn, Any]]:
        """Yield the attributes that the program has set to text, which is a ref.

        Text that was loaded is a key.
        """
        for name, column in self._entities.of_class(state.class_).all.items():
            value = state.dict.get(name)
            if texts_in(column, value) and is_set(state, name):
                yield name, column, value


def names_of_texts(state: State) -> set[str]:
    """Return the names of an instance's attributes whose refs are not resolved yet."""
    return getattr(state, _TEXTS, None) or set()
