"""Dictionary collections whose keys are keys of rows: the program finds them by refs.

`attribute_keyed_dict("id")`, `column_keyed_dict(Table.c.id)` and `keyfunc_mapping()` make a
dictionary of an instance that belongs to a boundary; each of its keys is what the child's
attributes show. While rows are loaded an entry has a stand-in for a key, and all get theirs when
the program first reads the collection: refs are minted together, not one a child. Dictionaries of
plain sessions are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import event, inspect
from sqlalchemy.orm import InstanceState, InstrumentedAttribute, KeyFuncDict, Mapper

from alfred_refs import sqla


class DictAttribute(InstrumentedAttribute[Any]):
    """A relationship whose collection is a dictionary: its keys are settled when it is read."""

    __slots__ = ()
    inherit_cache = True

    def __get__(self, instance: Any, owner: Any) -> Any:
        collection = super().__get__(instance, owner)
        if instance is not None and isinstance(collection, KeyFuncDict):
            boundary = getattr(sqla.state_of(instance), sqla.BOUNDARY, None)
            if boundary is not None:
                _taken_over(collection).settle(collection, boundary.raw)
        return collection


class _Unsettled:
    """Stands for the key of one child until the collection is read."""

    __slots__ = ()


class _Keys:
    """Gives the key of a child in one collection, in the place of the collection's `keyfunc`.

    Attributes:
        raw: whether the keys in the collection are raw ones; `None` until it is first read.
    """

    def __init__(self, keyfunc: Callable[[Any], Any]) -> None:
        self._keyfunc = keyfunc
        self.raw: bool | None = None
        # what was given for each child, so that it is found where it was put
        self._given: WeakKeyDictionary[InstanceState[Any], Any] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Keys, (self._keyfunc,)

    def __call__(self, child: Any) -> Any:
        state = sqla.state_of(child)
        if state not in self._given:
            key = self._key(child, state)
            if sqla.is_unpopulated(key):  # SQLAlchemy refuses the child, or passes it over
                return key
            self._given[state] = key
        return self._given[state]

    def _key(self, child: Any, state: InstanceState[Any]) -> Any:
        boundary = getattr(state, sqla.BOUNDARY, None)
        if boundary is None:
            key = self._keyfunc(child)
            return key if sqla.is_unpopulated(key) else _Unsettled()
        if state.key is not None and self.raw is not boundary.raw:
            return _Unsettled()
        return self._shown(child, state.mapper)

    def _shown(self, child: Any, mapper: Mapper[Any]) -> Any:
        """Return the key as the `keyfunc` makes it, of what attributes show and not of columns."""
        key = self._keyfunc(child)
        columns = sqla.columns_by_getter(self._keyfunc, mapper)
        if columns is None or sqla.is_unpopulated(key):
            return key
        names = [mapper.get_property_by_column(column).key for column in columns]
        shown = tuple(getattr(child, name) for name in names)
        return shown if len(shown) > 1 else shown[0]

    def settle(self, collection: KeyFuncDict[Any, Any], raw: bool) -> None:
        """Give every child the key that it is shown by, if some have none or raw is another."""
        if self.raw is raw and not any(type(key) is _Unsettled for key in dict.keys(collection)):
            return
        self.raw = raw
        self._given.clear()
        _rekey(collection)


def key_by_refs(class_: type[Any]) -> None:
    """Make dictionaries of a class's instances that belong to a boundary have refs for keys."""
    for relationship in inspect(class_).mapper.relationships:
        attribute = getattr(class_, relationship.key)
        if type(attribute) is InstrumentedAttribute and relationship.collection_class is not None:
            collection = sqla.new_collection(attribute)
            if isinstance(collection, KeyFuncDict) and _may_be_keys(collection, relationship):
                attribute.__class__ = DictAttribute
                event.listen(attribute, "init_collection", _made, propagate=True)


def _may_be_keys(collection: KeyFuncDict[Any, Any], relationship: Any) -> bool:
    """Tell a dictionary of keys, or by a function that may read keys, from one of plain data."""
    columns = sqla.columns_of_keys(collection.keyfunc, relationship.mapper)
    return columns is None or any(
        c.primary_key or c.foreign_keys or "ref" in c.info for c in columns
    )


def _made(owner: Any, collection: Any, _: object) -> None:
    if hasattr(sqla.state_of(owner), sqla.BOUNDARY):
        _taken_over(collection)


def _taken_over(collection: KeyFuncDict[Any, Any]) -> _Keys:
    """Return what gives a collection's keys; stand-ins take the place of those that it has."""
    if not isinstance(collection.keyfunc, _Keys):
        collection.keyfunc = _Keys(collection.keyfunc)
        _rekey(collection)
    return collection.keyfunc


def _rekey(collection: KeyFuncDict[Any, Any]) -> None:
    # by the methods of `dict`: no child is added or removed, so nobody is to be told
    entries = [(collection.keyfunc(child), child) for child in dict.values(collection)]
    dict.clear(collection)
    for key, child in entries:
        dict.__setitem__(collection, None if sqla.is_unpopulated(key) else key, child)
