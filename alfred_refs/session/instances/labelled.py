"""The labels of one session's instances: told to the registry where it lacks them or has others.

Instances come in that the session has loaded or flushed; what their rows are called is noted with
the conversation, which tells the store when it mints or when the transaction has ended. Nothing is
loaded for a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakSet

from sqlalchemy.orm import InstanceState

from alfred_refs import sqla
from alfred_refs.conversation.view import SessionConversation
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.labels import Label

from .tracking import HeldKeys

State = InstanceState[Any]


class Labelled(WeakSet[type[Any]]):
    """The classes met so far that have labels; false as long as none has.

    Args:
        entities: say where the labels are.
        conversation: is told the labels.
        held: reads the instances' keys.
    """

    def __init__(
        self, entities: Entities, conversation: SessionConversation, held: HeldKeys
    ) -> None:
        super().__init__()
        self._entities = entities
        self._conversation = conversation
        self._held = held

    def note(self, states: Iterable[State], *, minted: bool = False) -> None:
        """Note labels that the registry lacks or has otherwise, as far as they are loaded.

        Args:
            states: of instances.
            minted: whether to leave out those whose keys are new.
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
