"""Instrumented key attributes and collections of mapped classes; RefModel for SQLModel.

`RefModel`: makes SQLModel's table classes dump and print what their attributes show.

An instance keeps its keys in its `__dict__`, which is what pydantic dumps, prints and sets by
itself. With this mixin it goes through the attributes: refs come out, in nested models too, and
refs go in. Instances of a plain session, and models that are no table, are dumped as ever.

    class Recipe(RefModel, SQLModel, table=True):
        id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)

It goes before `SQLModel`, on the table class or once for all on a base class. It is not a choice:
without it a `RefSession` refuses the class, because a model that has it as a field was compiled
before there was a session, and would show its keys. SQLModel itself is not imported.

Dictionary collections whose keys are keys of rows: the program finds them by refs.

`attribute_keyed_dict("id")`, `column_keyed_dict(Table.c.id)` and `keyfunc_mapping()` make a
dictionary of an instance that belongs to a boundary; each of its keys is what the child's
attributes show. While rows are loaded an entry has a stand-in for a key, and all get theirs when
the program first reads the collection: refs are minted together, not one a child. Dictionaries of
plain sessions are left alone.

Key attributes: an instance keeps its keys, its key attributes show refs.

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

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from weakref import WeakKeyDictionary

from sqlalchemy import event, inspect
from sqlalchemy.orm import (
    InstanceState,
    InstrumentedAttribute,
    KeyFuncDict,
    Mapper,
    QueryableAttribute,
)

from alfred_refs import sqla
from alfred_refs.errors import KeyColumnError, RefNotCarriedError
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.sqla import BOUNDARY

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import core_schema


class RefModel:
    """A mixin for SQLModel's table classes: with it `model_dump()` and `repr()` show refs.

    It stands before `SQLModel` among the bases. A `RefSession` refuses table classes without it,
    because they would dump keys.

    Example:
        >>> import uuid
        >>> from sqlmodel import Field, SQLModel
        >>> class Postcard(RefModel, SQLModel, table=True):
        ...     id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)
        ...     text: str
        >>> SQLModel.metadata.create_all(engine, [Postcard.__table__])
        >>> session.add(postcard := Postcard(text="Hello"))
        >>> session.flush()
        >>> postcard.model_dump()
        {'text': 'Hello', 'id': 'postcard_1'}
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        from pydantic_core import core_schema  # noqa: PLC0415  # it is there: it calls this

        schema = handler(source)
        model: Any = schema
        while model["type"] != "model":  # inside what a validator of the class puts around it
            model = model["schema"]
        # the innermost: a serializer of the class's own is given refs to work on
        model["schema"]["serialization"] = core_schema.wrap_serializer_function_ser_schema(
            _dump, is_field_serializer=True
        )
        return schema

    # Any: a type checker compares these with SQLModel's own, whose names are private

    def __repr_args__(self) -> Any:
        arguments: Iterable[tuple[str | None, Any]] = super().__repr_args__()  # type: ignore[misc]
        return [(name, _displayed_value(self, name, value)) for name, value in arguments]

    def __iter__(self) -> Any:
        for name, value in super().__iter__():  # type: ignore[misc]
            yield name, _displayed_value(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        # SQLModel sets past the class's attribute, which would find the key of a ref
        if _is_ref_attribute(self, name):
            value = getattr(type(self), name).accept_value(self, value)
        super().__setattr__(name, value)


def refuse_raw(class_: type[Any], names: Collection[str]) -> None:
    """Refuse a class that pydantic would dump with its keys.

    Raises:
        KeyColumnError: it, or a model that it inherits a key attribute from, lacks the mixin.
    """
    if "pydantic" not in sys.modules:
        return  # and nobody has a model
    from pydantic import BaseModel  # noqa: PLC0415  # it is there

    for base in class_.__mro__:
        if not issubclass(base, BaseModel) or base.model_fields.keys().isdisjoint(names):
            continue
        if RefModel not in base.__mro__[: base.__mro__.index(BaseModel)]:
            raise KeyColumnError(
                f"{base.__name__} is a pydantic model, which dumps the keys of its key columns",
                f"put the mixin first: class {base.__name__}(alfred_refs.RefModel, ...)",
            )


def _dump(model: Any, values: dict[str, Any], dump: Callable[[Any], Any]) -> Any:
    """Dump a model's fields, and put refs in place of keys."""
    dumped = dump(values)
    fields = type(model).model_fields
    for name, value in values.items():
        shown = _displayed_value(model, name, value)
        if shown is not value:
            for written in {name, fields[name].serialization_alias} & dumped.keys():
                dumped[written] = shown
    return dumped


def _displayed_value(model: Any, name: str | None, value: Any) -> Any:
    """Return what stands for a value of a model: a ref, if an attribute of its class shows one."""
    if name is None or not _is_ref_attribute(model, name):
        return value
    return getattr(model, name)


def _is_ref_attribute(model: Any, name: str) -> bool:
    return hasattr(type(getattr(type(model), name, None)), "accept_value")


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


class _PendingChildKey:
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
            return key if sqla.is_unpopulated(key) else _PendingChildKey()
        if state.key is not None and self.raw is not boundary.raw:
            return _PendingChildKey()
        return self._display_key(child, state.mapper)

    def _display_key(self, child: Any, mapper: Mapper[Any]) -> Any:
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
        if self.raw is raw and not any(
            type(key) is _PendingChildKey for key in dict.keys(collection)
        ):
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
                event.listen(attribute, "init_collection", _on_collection, propagate=True)


def _may_be_keys(collection: KeyFuncDict[Any, Any], relationship: Any) -> bool:
    """Tell a dictionary of keys, or by a function that may read keys, from one of plain data."""
    columns = sqla.columns_of_keys(collection.keyfunc, relationship.mapper)
    return columns is None or any(
        c.primary_key or c.foreign_keys or "ref" in c.info for c in columns
    )


def _on_collection(owner: Any, collection: Any, _: object) -> None:
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


class RefDisplay(Protocol):
    """What an instance may belong to."""

    showers: Mapping[Any, Callable[[Any], Any]]

    def show(self, attribute: Any, instance: Any, value: Any) -> Any:
        """Return what stands for the value of an attribute that `showers` has no answer for."""
        ...

    def accept(self, attribute: Any, instance: Any, value: Any) -> Any:
        """Return what an attribute keeps when the program sets it."""
        ...

    def refreshed(self, state: Any, names: Iterable[str] | None) -> None:
        """Forget which rows the alternate keys in attributes, or in all, belonged to."""
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
        super().__set__(instance, self.accept_value(instance, value))

    def accept_value(self, instance: object, value: Any) -> Any:
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


def instrument_once(class_: type[Any], entities: Entities) -> ClassKeys:
    """Return the key attributes of a class, which show refs from now on: once an application.

    Raises:
        KeyColumnError: the class would be dumped with its keys.
    """
    kept = sqla.class_cache(class_, entities)
    keys: ClassKeys | None = kept.get("instrumented")
    if keys is None:
        keys = entities.of_class(class_)
        instrument(class_, keys.all)
        for name, column in keys.all.items():
            attribute = getattr(class_, name)
            if type(attribute) is RefAttribute and column.has_uuids:
                attribute.__class__ = UuidAttribute
        if keys.alternate and not event.contains(class_, "refresh", _on_refresh):
            event.listen(class_, "refresh", _on_refresh, raw=True)
        kept["instrumented"] = keys
    return keys


def _on_refresh(state: InstanceState[Any], _: object, names: Iterable[str] | None) -> None:
    """Look up the rows of an instance's alternate keys again."""
    boundary: RefDisplay | None = getattr(state, BOUNDARY, None)
    if boundary is not None:
        boundary.refreshed(state, names)


def boundary_of(instance: object) -> RefDisplay | None:
    """Return the boundary that an instance belongs to, or what it took along from one."""
    state = getattr(instance, "_sa_instance_state", None)
    return None if state is None else getattr(state, BOUNDARY, None)


class PickledRefs:
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
        return _unpickle, (self._class, self._names, self._refs)

    def pickled_refs(self, _: InstanceState[Any]) -> PickledRefs:
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

    def refreshed(self, _: InstanceState[Any], __: Iterable[str] | None) -> None:
        """Do nothing: the refs are in the pickle, alternate keys included."""


def is_set(state: InstanceState[Any], name: str) -> bool:
    """Tell whether the program has set an attribute since it was loaded."""
    return state.key is None or name not in state.unmodified


def _unpickle(
    class_: type[Any], names: Collection[str], refs: Mapping[str, tuple[Any, Any]]
) -> PickledRefs:
    instrument(class_, names)  # in this process nobody may have
    return PickledRefs(class_, names, refs)


def _leave(state: InstanceState[Any], pickled: dict[str, Any]) -> None:
    boundary = getattr(state, BOUNDARY, None)
    if boundary is not None:
        pickled[BOUNDARY] = boundary.pickled_refs(state)


def _arrive(state: InstanceState[Any], pickled: Mapping[str, Any]) -> None:
    if BOUNDARY in pickled:
        setattr(state, BOUNDARY, pickled[BOUNDARY])
