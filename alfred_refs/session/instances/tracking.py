"""The instances of one session: which it has taken in, the keys they hold, and their labels.

An instance is tracked by the weak reference that its state has, so what the program drops is gone
from here too. Its keys are met with all others that nobody has met, in the order of loading. What
its row is called is told to the store when refs are minted, or when the transaction has ended.
Nothing is loaded here, and nothing looked up.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakSet, ref

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.mapping.key_column import KeyColumn, keys_in
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.labels import Label
from alfred_refs.session.alternate_keys import Alternates, Held
from alfred_refs.sqla import State, There

from .pending import names_of_texts


class HeldKeys:
    """Reads the keys of one session's instances."""

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


_FEW = 1_000  # loaded instances remembered before looking which of them are still there


class LoadedInstances:
    """What one session has taken in.

    Attributes:
        new: the instances whose keys nobody has met yet, in the order of loading; always the same
            list.
        waiting: those whose alternate keys may name rows that nobody has looked up.
    """

    def __init__(self) -> None:
        # the states' own weak references: with the states, boundary and list would be a ring,
        # and all that a session ever read would wait for the collector
        self.new: list[There] = []
        self.waiting: list[There] = []
        self._known: list[There] = []  # all that are not new
        self._many = self._many_known = _FEW

    def forget_dropped(self) -> None:
        """Forget the new instances that the program has dropped, once there may be many."""
        if len(self.new) > self._many:
            self.new[:] = [there for there in self.new if there() is not None]
            self._many = max(_FEW, 2 * len(self.new))

    def take_new(self) -> list[State]:
        """Return the states of the new instances, which are known from now on."""
        self._known += self.new
        states = states_of(self.new)
        self.new.clear()
        if len(self._known) > self._many_known:
            known = dict.fromkeys(states_of(self._known))
            self._known = plainly(state.obj for state in known)
            self._many_known = max(_FEW, 2 * len(self._known))
        return states

    def all(self) -> list[State]:
        """Return the states of all instances that are there, each once."""
        return [*dict.fromkeys(states_of([*self._known, *self.new]))]

    def make_new(self, states: Iterable[State]) -> None:
        """Have these instances, and no others, as if they were just loaded."""
        self._known.clear()
        self.new[:] = [state.obj for state in states]

    def forget_states(self) -> None:
        """Keep no instance that has changed and is of no session: its state has it for good."""
        for there in (self.new, self.waiting, self._known):
            there[:] = plainly(there)

    def take_waiting(self) -> list[State]:
        """Return the states of the instances whose rows are to be looked up, each time once."""
        states = states_of(self.waiting)
        self.waiting.clear()
        return states


def plainly(loaded: Iterable[There]) -> list[There]:
    """Return references to the instances that are there which do not lead to their states.

    That of a state has the state to call when its instance is gone.
    """
    return [ref(each) for there in loaded if (each := there()) is not None]


def states_of(loaded: Iterable[There]) -> list[State]:
    """Return the states of the instances that are still there."""
    return [sqla.state_of(each) for there in loaded if (each := there()) is not None]


class Labelled(WeakSet[type[Any]]):
    """The classes met so far that have labels; false as long as none has."""

    def __init__(
        self, entities: Entities, conversation: SessionConversation, held: HeldKeys
    ) -> None:
        super().__init__()
        self._entities = entities
        self._conversation = conversation
        self._held = held

    def note(self, states: Iterable[State], *, minted: bool = False) -> None:
        """Note labels that the registry lacks or has otherwise, as far as they are loaded.

        With `minted`, those are left out whose keys are new: they are told as these are minted.
        """
        noted = {}
        for state, keys, label in self._among(states):
            for pair in self._held.of(state, keys.primary):
                known = self._conversation.label_known(pair)
                if known is not None and label.reads(state.dict, known):
                    continue  # as it most often is
                if known is not None or self._conversation.lacks_label(pair, minted=minted):
                    noted[pair] = label.of(state.dict)
        self._conversation.note_labels({p: each for p, each in noted.items() if each is not None})

    def changed(self, instances: Iterable[object]) -> dict[EntityKey, str]:
        """Return the labels that a flush has changed, of those instances."""
        changed: dict[EntityKey, str] = {}
        for state, keys, source in self._among(map(sqla.state_of, instances)):
            label = source.of(state.dict)
            if label is not None and label != source.of(sqla.loaded_before(state)):
                changed |= dict.fromkeys(self._held.of(state, keys.primary), label)
        return changed

    def _among(self, states: Iterable[State]) -> Iterator[tuple[State, ClassKeys, Label]]:
        """Yield those instances whose classes have labels, with what says where."""
        known: dict[type[Any], ClassKeys | None] = {}
        for state in states:
            class_ = state.class_
            if class_ not in known:
                known[class_] = self._entities.of_class(class_) if class_ in self else None
            keys = known[class_]
            if keys is not None and keys.label is not None:
                yield state, keys, keys.label
