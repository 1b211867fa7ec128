"""The attribute boundary: an instance keeps its keys, its key attributes show refs.

`recipe.id` is `'recipe_1'` to the program, while `recipe.__dict__["id"]`, the identity map, flush
and lazy loading have the key: SQLAlchemy never meets a ref. Each session has one `Boundary`; an
instance that the session loads, saves or is given belongs to it and keeps it for life, so the
attributes read as refs after `close()` too. Instances of a plain session belong to none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from sqlalchemy.orm import InstanceState, InstrumentedAttribute

from . import sqla
from .columns import KeyColumn
from .conversation import Conversation, Wanted
from .keys import Key
from .rows import shower
from .store import EntityKey

# What is kept of an instance beside its row, in the dictionary of its SQLAlchemy state.
_BOUNDARY = "alfred_refs"
_TEXTS = "alfred_refs_texts"  # names of the attributes whose refs are not resolved yet
_FEW = 1_000  # loaded instances remembered before looking which of them are still there

State = InstanceState[Any]


class RefAttribute(InstrumentedAttribute[Any]):
    """A key attribute of a mapped class: translates for instances that belong to a boundary.

    It takes the place of SQLAlchemy's own descriptor by assigning `__class__`, which keeps the
    attribute object itself, and all that refers to it, as it was.
    """

    __slots__ = ()
    inherit_cache = True

    def __get__(self, instance: object | None, owner: Any) -> Any:
        # Runs twice for every row that is shown: the common way is written out, call by call.
        if instance is None:
            return self
        try:
            value = instance.__dict__[self.key]
        except KeyError:
            value = super().__get__(instance, owner)
        boundary = boundary_of(instance)
        if boundary is None or value is None:
            return value
        try:
            return boundary.showers[self](value)
        except (KeyError, AttributeError, ValueError):  # a new key, or a text not yet resolved
            return boundary.show(self, instance, value)

    def __set__(self, instance: object, value: Any) -> None:
        boundary = boundary_of(instance)
        if boundary is not None:
            value = boundary.accept(self, instance, value)
        super().__set__(instance, value)


def boundary_of(instance: Any) -> Boundary | None:
    """Return the boundary that an instance belongs to."""
    return instance._sa_instance_state.__dict__.get(_BOUNDARY)  # type: ignore[no-any-return]


class Boundary:
    """What the instances of one session show and accept.

    Attributes:
        showers: what gives the ref of a key, for the attributes shown so far.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._raw = False
        self._conversation = conversation
        self._entities = conversation.plans.entities
        self.showers: dict[RefAttribute, Callable[[Any], Any]] = {}
        self._instrumented: set[type[Any]] = set()
        self._loaded: list[State] = []
        self._many = _FEW
        self._new: dict[State, None] = {}

    @property
    def raw(self) -> bool:
        """Whether key attributes show and accept keys as they are."""
        return self._raw

    @raw.setter
    def raw(self, raw: bool) -> None:
        self._raw = raw
        self.showers = {}

    def enter(self, state: State) -> None:
        """Take in an instance that the session loads or is given."""
        if state.class_ not in self._instrumented:
            self._instrument(state.class_)
        state.__dict__[_BOUNDARY] = self
        self._loaded.append(state)
        if len(self._loaded) > self._many:
            self._forget_collected()

    def _instrument(self, class_: type[Any]) -> None:
        for name in self._entities.of_class(class_).all:
            attribute = getattr(class_, name)
            if type(attribute) is InstrumentedAttribute:
                attribute.__class__ = RefAttribute
        self._instrumented.add(class_)

    def _forget_collected(self) -> None:
        self._loaded = [state for state in self._loaded if state.obj() is not None]
        self._many = max(_FEW, 2 * len(self._loaded))

    def enter_new(self, state: State) -> None:
        """Take in an instance made by the program: its key attributes may have refs as text.

        They are resolved at the next flush, all together: adding an object does no I/O.
        """
        self.enter(state)
        texts = {
            name
            for name, column in self._entities.of_class(state.class_).all.items()
            if _texts_in(column, state.dict.get(name))
            # text that was loaded is a key; text that the program has set is a ref
            and (state.key is None or name not in state.unmodified)
        }
        if texts and not self._raw:
            state.__dict__[_TEXTS] = texts
            self._new[state] = None

    def leave(self, state: State) -> None:
        """Forget a new instance that the session will not save."""
        self._new.pop(state, None)

    def resolve_new(self) -> None:
        """Put keys in place of the refs that instances were made with: at most one round trip.

        Raises:
            BadRefError: one cannot be used; all instances stay as they are.
        """
        unresolved = [
            (state, name, column, value)
            for state in self._new
            for name in _names_of_texts(state)
            for column in [self._entities.of_class(state.class_).all[name]]
            if _texts_in(column, value := state.dict.get(name))
        ]
        keys = self._keys_of([(column, value) for _, _, column, value in unresolved])
        for state, name, column, value in unresolved:
            state.dict[name] = _with_keys(column, value, keys)
        for state in self._new:
            del state.__dict__[_TEXTS]
        self._new.clear()

    def _keys_of(self, values: Iterable[tuple[KeyColumn, Any]]) -> Mapping[Wanted, Key]:
        """Return the keys of all texts in values: at most one round trip."""
        wanted = [(text, col.entity) for col, value in values for text in _texts_in(col, value)]
        return dict(zip(wanted, self._conversation.resolve_wanted(wanted), strict=True))

    def identity(self, class_: type[Any], ident: Any) -> Any:
        """Return an identity, as `Session.get` takes it, with keys in place of refs.

        Raises:
            BadRefError: a text in it is no ref that can be used.
        """
        keys = self._entities.of_class(class_)
        if isinstance(ident, Mapping):
            return {
                name: self._key(keys.primary.get(name), value) for name, value in ident.items()
            }
        if isinstance(ident, tuple | list):
            return tuple(map(self._key, keys.identity, ident))
        return self._key(keys.identity[0], ident)

    def _key(self, column: KeyColumn | None, value: Any) -> Any:
        return value if column is None else self._accepted(column, value)

    def _accepted(self, column: KeyColumn, value: Any) -> Any:
        return _with_keys(column, value, self._keys_of([(column, value)]))

    def show(self, attribute: RefAttribute, instance: object, value: Any) -> Any:
        """Return what stands for the value of an attribute that `showers` has no answer for.

        A key met for the first time is minted together with those of all instances loaded so far,
        so that they are numbered in the order of loading, in one round trip.
        """
        column = self._column(attribute)
        if self._raw or column is None:
            return value
        if attribute.key in _names_of_texts(sqla.state_of(instance)):
            return value
        show = self.showers[attribute] = shower(column, self._conversation)
        if not self._conversation.has_met(_keys_in(column, value)):
            self._conversation.meet([*self._new_keys(), *_keys_in(column, value)])
        return show(value)

    def _new_keys(self) -> list[EntityKey]:
        """Return the keys of the instances loaded since the last time: primary keys first."""
        loaded, self._loaded = self._loaded, []
        states = [state for state in loaded if state.obj() is not None]
        classes = {state.class_: self._entities.of_class(state.class_) for state in states}
        primary = (self._keys(state, classes[state.class_].primary) for state in states)
        foreign = (self._keys(state, classes[state.class_].foreign) for state in states)
        return list(itertools.chain(*primary, *foreign))

    def _keys(self, state: State, columns: Mapping[str, KeyColumn]) -> Iterator[EntityKey]:
        texts = _names_of_texts(state)
        for name, column in columns.items():
            if name not in texts:
                yield from _keys_in(column, state.dict.get(name))

    def accept(self, attribute: RefAttribute, instance: object, value: Any) -> Any:
        """Return what an attribute keeps when the program sets it: the key that a ref names.

        Raises:
            BadRefError: the text is no ref that can be used; the attribute stays as it is.
        """
        column = self._column(attribute)
        if self._raw or column is None:
            return value
        value = self._accepted(column, value)
        _names_of_texts(sqla.state_of(instance)).discard(attribute.key)
        return value

    def _column(self, attribute: RefAttribute) -> KeyColumn | None:
        return self._entities.of_class(cast("type[Any]", attribute.class_)).all.get(attribute.key)


def _names_of_texts(state: State) -> set[str]:
    return state.__dict__.get(_TEXTS) or set()


def _listed(column: KeyColumn, value: Any) -> Iterable[Any]:
    return (value or ()) if column.array else (value,)


def _texts_in(column: KeyColumn, value: Any) -> list[str]:
    return [item for item in _listed(column, value) if isinstance(item, str)]


def _keys_in(column: KeyColumn, value: Any) -> list[EntityKey]:
    items = (item for item in _listed(column, value) if item is not None)
    return [(column.entity, column.to_key(item)) for item in items]


def _with_keys(column: KeyColumn, value: Any, keys: Mapping[Wanted, Key]) -> Any:
    """Return a value with keys, as the column has them, in place of its texts."""
    if value is None:
        return None
    items = [
        column.from_key(keys[item, column.entity]) if isinstance(item, str) else item
        for item in _listed(column, value)
    ]
    return items if column.array else items[0]
