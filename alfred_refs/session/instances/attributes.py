"""Key attributes: an instance keeps its keys, its key attributes show refs.

`recipe.id` is `'recipe_1'` to the program, while `recipe.__dict__["id"]`, the identity map, flush
and lazy loading have the key: SQLAlchemy never meets a ref. What an instance shows is decided by
what it belongs to: the `Boundary` of its session, or what it took along in a pickle. Those of a
plain session belong to nothing, and show keys.

The pickle or deep copy of an instance has its row, keys included, and nothing of its session.
`Carried` goes into it, and where that arrives, in any process, key attributes read as the refs
that they showed. It asks nobody: a key that it has no ref for is refused, and it gives way as soon
as a `RefSession` takes the instance in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn, Protocol

from sqlalchemy import event
from sqlalchemy.orm import InstanceState, InstrumentedAttribute, QueryableAttribute

from alfred_refs import sqla
from alfred_refs.errors import RefNotCarriedError
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.session.alternate_keys import forget_rows
from alfred_refs.sqla import BOUNDARY

from .collections import key_by_refs
from .sqlmodel import refuse_raw


class RefList(list[Any]):
    """A list that cannot be changed in place.

    The array underneath has keys: a ref put into this list would reach neither it nor the
    database. Assign a new list to the attribute: `pantry.staples = [*pantry.staples, ref]`.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "a list of refs cannot be changed in place; assign a new list to the attribute"
        )

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __imul__ = _refuse

    def __iadd__(self, other: Iterable[Any]) -> list[Any]:  # type: ignore[override, misc]
        """Return a new list, which `pantry.staples += [ref]` then assigns."""
        return [*self, *other]

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (list(self),)


class Showing(Protocol):
    """What an instance may belong to."""

    showers: Mapping[Any, Callable[[Any], Any]]

    def show(self, attribute: Any, instance: Any, value: Any) -> Any:
        """Return what stands for the value of an attribute that `showers` has no answer for."""
        ...

    def accept(self, attribute: Any, instance: Any, value: Any) -> Any:
        """Return what an attribute keeps when the program sets it."""
        ...

    def wait_for_rows(self, state: Any) -> None:
        """Note that an instance was loaded anew, so that its alternate keys may name others."""
        ...


class RefAttribute(InstrumentedAttribute[Any]):
    """A key attribute of a mapped class: translates for instances that belong to a boundary.

    It takes the place of SQLAlchemy's own descriptor by assigning `__class__`, which keeps the
    attribute object itself, and all that refers to it, as it was.
    """

    __slots__ = ()
    inherit_cache = True

    def __get__(self, instance: Any, owner: Any) -> Any:
        # Runs twice for every row that is shown: the common way is written out, call by call.
        if instance is None:
            return self
        try:
            value = instance.__dict__[self.key]
        except KeyError:
            value = super().__get__(instance, owner)
        try:
            # by no dictionary: Python 3.11 makes one for an object only when it is asked for
            boundary = getattr(instance._sa_instance_state, BOUNDARY, None)
            if boundary is None or value is None:
                return value
            return boundary.showers[self](value)
        except (KeyError, AttributeError, ValueError):
            pass  # a new key, a text not yet resolved, no key at all; an error now would show it
        boundary = boundary_of(instance)
        return value if boundary is None else boundary.show(self, instance, value)

    def __set__(self, instance: object, value: Any) -> None:
        super().__set__(instance, self.accepted(instance, value))

    def accepted(self, instance: object, value: Any) -> Any:
        """Return what an instance keeps when this is set: the key that a ref names."""
        boundary = boundary_of(instance)
        return value if boundary is None else boundary.accept(self, instance, value)


class UuidAttribute(RefAttribute):
    """A key attribute whose values are UUIDs: their refs are looked up without a call."""

    __slots__ = ()
    inherit_cache = True

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self
        try:
            value = instance.__dict__[self.key]
            boundary = getattr(instance._sa_instance_state, BOUNDARY, None)
            if boundary is None or value is None:
                return value
            return boundary.numbered[self][value.int]
        except (KeyError, AttributeError):
            pass  # whatever it is, the common way knows; an error now would show it
        return super().__get__(instance, owner)


def instrument(class_: type[Any], names: Iterable[str]) -> None:
    """Make attributes of a class show refs, for instances that belong to a boundary.

    Raises:
        KeyColumnError: the class would be dumped with its keys.
    """
    names = frozenset(names)
    refuse_raw(class_, names)
    for name in names:
        attribute = getattr(class_, name)
        if type(attribute) is InstrumentedAttribute:
            attribute.__class__ = RefAttribute
    key_by_refs(class_)
    if not event.contains(class_, "pickle", _leave):
        event.listen(class_, "pickle", _leave, raw=True)
        event.listen(class_, "unpickle", _arrive, raw=True)


def instrumented(class_: type[Any], entities: Entities) -> ClassKeys:
    """Return the key attributes of a class, which show refs from now on: once an application.

    Raises:
        KeyColumnError: the class would be dumped with its keys.
    """
    kept = sqla.kept_with(class_, entities)
    keys: ClassKeys | None = kept.get("instrumented")
    if keys is None:
        keys = entities.of_class(class_)
        instrument(class_, keys.all)
        for name, column in keys.all.items():
            attribute = getattr(class_, name)
            if type(attribute) is RefAttribute and column.has_uuids:
                attribute.__class__ = UuidAttribute
        if keys.alternate and not event.contains(class_, "refresh", _refreshed):
            event.listen(class_, "refresh", _refreshed, raw=True)
        kept["instrumented"] = keys
    return keys


def _refreshed(state: InstanceState[Any], _: object, names: Iterable[str] | None) -> None:
    """Have the rows looked up anew that an instance names by alternate keys."""
    forget_rows(state, names)
    boundary: Showing | None = getattr(state, BOUNDARY, None)
    if boundary is not None:
        boundary.wait_for_rows(state)


def boundary_of(instance: object) -> Showing | None:
    """Return the boundary that an instance belongs to, or what it took along from one."""
    state = getattr(instance, "_sa_instance_state", None)
    return None if state is None else getattr(state, BOUNDARY, None)


class Carried:
    """Shows what one instance showed when it was pickled, and nothing else.

    Args:
        class_: the instance's.
        names: its key attributes.
        refs: what they held, and what was shown for it, by the attribute's name.
    """

    raw = False
    showers: Mapping[Any, Callable[[Any], Any]] = {}

    def __init__(
        self, class_: type[Any], names: Collection[str], refs: Mapping[str, tuple[Any, Any]]
    ) -> None:
        self._class = class_
        self._names = frozenset(names)
        self._refs = dict(refs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._class, self._names, self._refs)

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
    class_: type[Any], names: Collection[str], refs: Mapping[str, tuple[Any, Any]]
) -> Carried:
    instrument(class_, names)  # in this process nobody may have
    return Carried(class_, names, refs)


def _leave(state: InstanceState[Any], pickled: dict[str, Any]) -> None:
    boundary = getattr(state, BOUNDARY, None)
    if boundary is not None:
        pickled[BOUNDARY] = boundary.carried(state)


def _arrive(state: InstanceState[Any], pickled: Mapping[str, Any]) -> None:
    if BOUNDARY in pickled:
        setattr(state, BOUNDARY, pickled[BOUNDARY])
