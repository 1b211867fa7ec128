"""The labels of one session's instances: told to the registry where it lacks them or has others.

Instances come in that the session has loaded or flushed; what their rows are called is noted with
the conversation, which tells the store when it mints or when the transaction has ended. Nothing is
loaded for a label.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy.orm import InstanceState

from . import sqla
from .entities import ClassKeys
from .held import HeldKeys
from .labels import Label
from .session_conversation import SessionConversation
from .store import EntityKey

State = InstanceState[Any]


class Labelled(dict[type[Any], tuple[ClassKeys, Label]]):
    """The classes met so far that have labels, with what says where; false as long as none has.

    Args:
        conversation: is told the labels.
        held: reads the instances' keys.
    """

    def __init__(self, conversation: SessionConversation, held: HeldKeys) -> None:
        super().__init__()
        self._conversation = conversation
        self._held = held

    def note(self, states: Iterable[State], *, minted: bool = False) -> None:
        """Note labels that the registry lacks or has otherwise, as far as they are loaded.

        Args:
            states: of instances.
            minted: whether to leave out those whose keys are new.
        """
        noted = {}
        for state in states:
            if state.class_ not in self:
                continue
            keys, label = self[state.class_]
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
        for state in map(sqla.state_of, instances):
            if state.class_ not in self:
                continue
            keys, source = self[state.class_]
            label = source.of(state.dict)
            if label is not None and label != source.of(sqla.loaded_before(state)):
                changed |= dict.fromkeys(self._held.of(state, keys.primary), label)
        return changed
