"""In which order a flush saves instances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy.exc import CircularDependencyError
from sqlalchemy.orm import InstanceState, UOWTransaction, unitofwork

# 2.1 has underscores before the names of 2.0
_names: Any = unitofwork
_SaveAll = getattr(_names, "_SaveUpdateAll", None) or _names.SaveUpdateAll
_SaveOne = getattr(_names, "_SaveUpdateState", None) or _names.SaveUpdateState

State = InstanceState[Any]


class _InOrder:
    """An action that a flush executes before it sorts its work, once all instances are known."""

    def __init__(self, pairs: Iterable[tuple[State, State]]) -> None:
        self._pairs = list(pairs)

    def execute(self, flush: UOWTransaction) -> bool:
        """Add what the work depends on; tell that no more instances are to be looked at."""
        saved = (False, False)  # neither deleted nor only listed
        for first, then in self._pairs:
            if flush.states.get(first) == flush.states.get(then) == saved:
                before, after = (_SaveAll(flush, s.mapper.base_mapper) for s in (first, then))
                # what depends on itself is a circle, and so is saved one by one
                flush.dependencies.update({(before, before), (after, after), (before, after)})
                flush.dependencies.add((_SaveOne(flush, first), _SaveOne(flush, then)))
        return False


def save_in_order(flush: UOWTransaction, pairs: Iterable[tuple[State, State]]) -> None:
    """Have instances saved before others that name them by value, without a relationship.

    The unit of work sorts what relationships connect, and nothing else. Leans on its
    `presort_actions` and `dependencies`, which relationships add to in the same way.

    Args:
        flush: which has not begun to sort.
        pairs: what is to be saved first, and what after it; no circle.
    """
    flush.presort_actions["alfred_refs", "order"] = _InOrder(pairs)


def states_in_circle(error: CircularDependencyError) -> list[State]:
    """Return the instances of which a flush has found none to be saved first.

    Each is in an action of the unit of work, which has its state.
    """
    found = (getattr(action, "state", None) for action in error.cycles)
    return [state for state in found if state is not None]
