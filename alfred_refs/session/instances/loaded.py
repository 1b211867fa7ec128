"""The instances that one session has taken in, for as long as the program has them.

An instance comes in when it is loaded or given to the session; it goes out with all others whose
keys nobody has met, once, in the order of loading. It is kept by the weak reference that its state
has, so what the program drops is gone from here too, and the lists do not grow with what was read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from sqlalchemy.orm import InstanceState

from alfred_refs import sqla
from alfred_refs.sqla import There

_FEW = 1_000  # loaded instances remembered before looking which of them are still there

State = InstanceState[Any]


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
