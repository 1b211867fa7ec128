"""The keys that instances hold in their attributes, each with the entity that it names.

States come in; keys as the registry has them go out, primary keys before all others. An attribute
that is set to a ref which waits for the flush holds no key, and an alternate key stands for the
row that it named when it was loaded. Nothing is looked up here.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy.orm import InstanceState

from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.values import keys_in
from alfred_refs.session.alternate_keys import Alternates, Held

from .pending import names_of_texts

State = InstanceState[Any]


class HeldKeys:
    """Reads the keys of one session's instances.

    Args:
        entities: say which attributes hold keys.
        alternates: tell which rows alternate keys named.
    """

    def __init__(self, entities: Entities, alternates: Alternates) -> None:
        self._entities = entities
        self._alternates = alternates

    def of_all(self, states: Collection[State]) -> list[EntityKey]:
        """Return the keys of instances: primary keys first."""
        classes = {each: self._entities.of_class(each) for each in {s.class_ for s in states}}
        primary = (self.of(state, classes[state.class_].primary) for state in states)
        foreign = (self.of(state, classes[state.class_].foreign) for state in states)
        return list(itertools.chain(*primary, *foreign))

    def of(self, state: State, columns: Mapping[str, KeyColumn]) -> Iterator[EntityKey]:
        """Yield the keys in some attributes of an instance."""
        texts = names_of_texts(state)
        for name, column in columns.items():
            if name not in texts:
                yield from self.pairs((state, name, column, state.dict.get(name)))

    def pairs(self, held: Held) -> list[EntityKey]:
        """Return the keys in one attribute."""
        _, _, column, value = held
        return keys_in(column, value) if column.by is None else self._alternates.remembered(held)

    def attributes(self, state: State, columns: Mapping[str, KeyColumn]) -> list[Held]:
        """Return what attributes of an instance hold, but for refs that are not resolved yet."""
        texts = names_of_texts(state)
        return [(state, n, c, state.dict.get(n)) for n, c in columns.items() if n not in texts]

    def alternate(self, states: Iterable[State]) -> Iterator[Held]:
        """Yield what those attributes of instances hold that have alternate keys."""
        for state in states:
            yield from self.attributes(state, self._entities.of_class(state.class_).alternate)
