"""What an instance takes along when it is pickled or deeply copied: its refs.

The pickle of an instance has its row, keys included, and nothing of its session. The refs of its
key attributes come in, a stand-in for the session's `Boundary` goes into the pickle, and where
that arrives, in any process, the attributes read as these refs. It asks nobody: a key that it has
no ref for is refused, and it gives way as soon as a `RefSession` takes the instance in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import InstanceState, QueryableAttribute

from alfred_refs import sqla
from alfred_refs.errors import RefNotCarriedError

_CARRIED = "alfred_refs"  # its name in the pickle, and in the state of the instance

Instrument = Callable[[type[Any], Collection[str]], None]
"""Makes attributes of a class show refs, in the process where an instance arrives."""


class Carried:
    """Shows what one instance showed when it was pickled, and nothing else.

    Args:
        class_: the instance's.
        names: its key attributes.
        refs: what they held, and what was shown for it, by the attribute's name.
        instrument: is called wherever this arrives.
    """

    showers: Mapping[Any, Callable[[Any], Any]] = {}

    def __init__(
        self,
        class_: type[Any],
        names: Collection[str],
        refs: Mapping[str, tuple[Any, Any]],
        instrument: Instrument,
    ) -> None:
        self._class = class_
        self._names = frozenset(names)
        self._refs = dict(refs)
        self._instrument = instrument

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._class, self._names, self._refs, self._instrument)

    def carried(self, _: InstanceState[Any]) -> Carried:
        """Return what the instance takes along when it is pickled again."""
        return self

    def show(self, attribute: QueryableAttribute[Any], instance: object, value: Any) -> Any:
        """Return the ref that stood for a value, or a text that the program has set since.

        Raises:
            RefNotCarriedError: the value is another than that which was pickled.
        """
        held, shown = self._refs.get(attribute.key, (None, None))
        if shown is not None and type(held) is type(value) and held == value:
            return shown
        if isinstance(value, str) and is_set(sqla.state_of(instance), attribute.key):
            return value
        raise RefNotCarriedError(str(attribute))

    def accept(self, _: QueryableAttribute[Any], __: object, value: Any) -> Any:
        """Return what an attribute keeps: a ref stays text until a session resolves it."""
        return value

    def wait_for_rows(self, _: InstanceState[Any]) -> None:
        """Note that the instance was loaded anew: what it shows came along."""


def is_set(state: InstanceState[Any], name: str) -> bool:
    """Tell whether the program has set an attribute since it was loaded."""
    return state.key is None or name not in state.unmodified


def _arrived(
    class_: type[Any],
    names: Collection[str],
    refs: Mapping[str, tuple[Any, Any]],
    instrument: Instrument,
) -> Carried:
    instrument(class_, names)
    return Carried(class_, names, refs, instrument)


def carry_refs(class_: type[Any]) -> None:
    """Make instances of a class take their refs along; those of plain sessions have none."""
    if not event.contains(class_, "pickle", _leave):
        event.listen(class_, "pickle", _leave, raw=True)
        event.listen(class_, "unpickle", _arrive, raw=True)


def _leave(state: InstanceState[Any], pickled: dict[str, Any]) -> None:
    boundary = getattr(state, _CARRIED, None)
    if boundary is not None:
        pickled[_CARRIED] = boundary.carried(state)


def _arrive(state: InstanceState[Any], pickled: Mapping[str, Any]) -> None:
    if _CARRIED in pickled:
        setattr(state, _CARRIED, pickled[_CARRIED])
