"""Key attributes of mapped classes: an instance keeps its keys, its attributes show refs.

Once per application, the descriptors of a class's key attributes become `RefAttribute` objects, by
assigning `__class__`. They translate for instances of a `RefSession` alone, which have its
`Boundary` in their state. Instances of a plain session have none, and show keys.

>>> recipe = session.get(Recipe, "recipe_1")
>>> recipe.id, type(recipe.__dict__["id"]).__name__
('recipe_1', 'UUID')
>>> type(Recipe.id).__name__
'UuidAttribute'
>>> with sessions() as plain:    # without a conversation
...     type(plain.scalars(select(Recipe)).first().id).__name__
'UUID'

Keys leave an instance in three more ways, which are covered here too:

- Pickles and deep copies have the keys of an instance, and nothing of its session. `PickledRefs`
  goes with them, so that its attributes show the same refs in another process.
- `attribute_keyed_dict("id")`, `column_keyed_dict(...)` and `keyfunc_mapping(...)` make dictionary
  collections whose keys may be keys of rows. For instances with a boundary they are refs.
- pydantic dumps, prints and sets the `__dict__` of an SQLModel instance. The mixin `RefModel`
  makes it use the attributes.

Limits: a pickled instance raises `RefNotCarriedError` for a key that it has no ref for, until a
`RefSession` takes it in. An array of refs cannot be changed in place. A new child that joins a
dictionary by a backref replaces the one under its key only if the dictionary was read before. A
`RefSession` refuses table classes of SQLModel without the mixin.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from weakref import ReferenceType, WeakKeyDictionary

from sqlalchemy import event, inspect
from sqlalchemy.orm import InstrumentedAttribute, KeyFuncDict, Mapper, QueryableAttribute

from alfred_refs import sqla
from alfred_refs.errors import KeyColumnError, RefNotCarriedError
from alfred_refs.mapping.entities import ClassKeys, Entities
from alfred_refs.sqla import BOUNDARY, State

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import core_schema


# Descriptors


class RefDisplay(Protocol):
    """The object that translates for an instance: a `Boundary`, or the refs of a pickle."""

    renderers: Mapping[Any, Callable[[Any], Any]]

    def show(self, attribute: Any, instance: Any, value: Any) -> Any:
        """Return the ref for an attribute's value that `renderers` cannot look up."""
        ...

    def accept(self, attribute: Any, instance: Any, value: Any) -> Any:
        """Return the value that an attribute keeps when the program sets it."""
        ...

    def forget_rows(self, state: Any, names: Iterable[str] | None) -> None:
        """Forget the rows of the alternate keys in attributes; `None` for all attributes."""
        ...


class RefAttribute(InstrumentedAttribute[Any]):
    """A key attribute of a mapped class: translates for instances that have a boundary.

    It replaces SQLAlchemy's own descriptor by assigning `__class__`, so the attribute stays the
    same object for the mapper, relationships and expressions that reference it.
    """

    __slots__ = ()
    inherit_cache = True

    def __get__(self, instance: Any, owner: Any) -> Any:
        # Hot path: twice for every row that is shown, so `boundary_of` is written out.
        if instance is None:
            return self
        try:
            value = instance.__dict__[self.key]
        except KeyError:
            value = super().__get__(instance, owner)
        try:
            # not by `__dict__`, which Python 3.11 creates on demand and which then costs memory
            boundary = getattr(instance._sa_instance_state, BOUNDARY, None)
            if boundary is None or value is None:
                return value
            return boundary.renderers[self](value)
        except (KeyError, AttributeError, ValueError):
            # a new key, an unresolved ref, or a value that is not a key; `show` is called outside
            # of the `except`, or its errors would have this one, with the key, as context
            pass
        boundary = boundary_of(instance)
        return value if boundary is None else boundary.show(self, instance, value)

    def __set__(self, instance: object, value: Any) -> None:
        super().__set__(instance, self.accept_value(instance, value))

    def accept_value(self, instance: object, value: Any) -> Any:
        """Return the value that an instance keeps when this is set: a key for a ref."""
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
            return boundary.refs_by_number[self][value.int]
        except (KeyError, AttributeError):
            pass  # any other case, outside the `except` as above
        return super().__get__(instance, owner)


def instrument_once(class_: type[Any], entities: Entities) -> ClassKeys:
    """Make the key attributes of a class show refs, once per application, and return its keys.

    Raises:
        KeyColumnError: pydantic would dump the class with its keys.
    """
    cache = sqla.class_cache(class_, entities)
    keys: ClassKeys | None = cache.get("instrumented")
    if keys is None:
        keys = entities.of_class(class_)
        instrument(class_, [*keys.all, *keys.refused])
        for name, column in keys.all.items():
            attribute = getattr(class_, name)
            if type(attribute) is RefAttribute and column.has_uuids:
                attribute.__class__ = UuidAttribute
        if keys.alternate and not event.contains(class_, "refresh", _on_refresh):
            event.listen(class_, "refresh", _on_refresh, raw=True)
        cache["instrumented"] = keys
    return keys


def instrument(class_: type[Any], names: Iterable[str]) -> None:
    """Make attributes of a class show refs, for instances that have a boundary.

    Raises:
        KeyColumnError: pydantic would dump the class with its keys.
    """
    names = frozenset(names)
    refuse_pydantic_without_mixin(class_, names)
    for name in names:
        attribute = getattr(class_, name)
        if type(attribute) is InstrumentedAttribute:
            attribute.__class__ = RefAttribute
        elif type(getattr(attribute, "descriptor", None)) is property:
            attribute.descriptor = _guarded_composite(attribute)
    instrument_dictionaries(class_)
    if not event.contains(class_, "pickle", _on_pickle):
        event.listen(class_, "pickle", _on_pickle, raw=True)
        event.listen(class_, "unpickle", _on_unpickle, raw=True)


class _GuardedComposite(property):
    """The getter and setter of a `composite()` whose value would show keys."""


def _guarded_composite(attribute: Any) -> _GuardedComposite:
    """Return the property of a composite attribute, whose getter calls the boundary first."""
    original = attribute.descriptor

    def get(instance: Any) -> Any:
        boundary = boundary_of(instance)
        if boundary is not None:
            boundary.show(attribute, instance, None)
        return original.fget(instance)

    return _GuardedComposite(get, original.fset, original.fdel)


def boundary_of(instance: object) -> RefDisplay | None:
    """Return the boundary of an instance, or the refs that it has from a pickle."""
    state = getattr(instance, "_sa_instance_state", None)
    return None if state is None else getattr(state, BOUNDARY, None)


def is_set(state: State, name: str) -> bool:
    """Return whether the program has set an attribute since it was loaded."""
    return state.key is None or name not in state.unmodified


def _on_refresh(state: State, _: object, names: Iterable[str] | None) -> None:
    boundary: RefDisplay | None = getattr(state, BOUNDARY, None)
    if boundary is not None:
        boundary.forget_rows(state, names)


# Arrays


class RefList(list[Any]):
    """The refs of an array column: a list that cannot be changed in place.

    The instance keeps an array of keys. A ref that is put into this list would reach neither that
    array nor the database. Assign a new list: `pantry.staples = [*pantry.staples, ref]`.
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


# Pickles


class PickledRefs:
    """The refs that one instance showed when it was pickled; it takes the place of a boundary.

    Args:
        class_: of the instance.
        names: its key attributes.
        refs: the pickled value of each attribute and the ref that it showed.
    """

    raw = False
    renderers: Mapping[Any, Callable[[Any], Any]] = {}

    def __init__(
        self, class_: type[Any], names: Collection[str], refs: Mapping[str, tuple[Any, Any]]
    ) -> None:
        self._class = class_
        self._names = frozenset(names)
        self._refs = dict(refs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._class, self._names, self._refs)

    def pickled_refs(self, _: State) -> PickledRefs:
        """Return the object for another pickle: this one."""
        return self

    def show(self, attribute: QueryableAttribute[Any], instance: object, value: Any) -> Any:
        """Return the ref for a value, or a string that the program has set in the meantime.

        Raises:
            RefNotCarriedError: the value is not the one that was pickled.
        """
        pickled, shown = self._refs.get(attribute.key, (None, None))
        if shown is not None and type(pickled) is type(value) and pickled == value:
            return shown
        if isinstance(value, str) and is_set(sqla.state_of(instance), attribute.key):
            return value
        raise RefNotCarriedError(str(attribute))

    def accept(self, _: QueryableAttribute[Any], __: object, value: Any) -> Any:
        """Return the value unchanged: a ref stays a string until a session resolves it."""
        return value

    def forget_rows(self, _: State, __: Iterable[str] | None) -> None:
        """Do nothing: the refs of alternate keys are in the pickle."""


def _unpickle(
    class_: type[Any], names: Collection[str], refs: Mapping[str, tuple[Any, Any]]
) -> PickledRefs:
    instrument(class_, names)  # no session may have done it in this process
    return PickledRefs(class_, names, refs)


def _on_pickle(state: State, pickled: dict[str, Any]) -> None:
    boundary = getattr(state, BOUNDARY, None)
    if boundary is not None:
        pickled[BOUNDARY] = boundary.pickled_refs(state)


def _on_unpickle(state: State, pickled: Mapping[str, Any]) -> None:
    if BOUNDARY in pickled:
        setattr(state, BOUNDARY, pickled[BOUNDARY])


# Dictionary collections


class DictAttribute(InstrumentedAttribute[Any]):
    """A relationship with a dictionary collection: its keys become refs when it is read.

    While rows are loaded, each child is put under a placeholder. When the program reads the
    collection, all children get their refs, which are minted together.
    """

    __slots__ = ()
    inherit_cache = True

    def __get__(self, instance: Any, owner: Any) -> Any:
        collection = super().__get__(instance, owner)
        if instance is not None and isinstance(collection, KeyFuncDict):
            boundary = getattr(sqla.state_of(instance), BOUNDARY, None)
            if boundary is not None:
                _child_keys_of(collection).settle(collection, boundary.raw)
        return collection


class _PendingChildKey:
    """The placeholder for the key of one child until the collection is read."""

    __slots__ = ()


class _ChildKeys:
    """Replaces the `keyfunc` of one collection: returns refs, or placeholders.

    Attributes:
        raw: whether the collection has raw keys; `None` until it is first read.
    """

    def __init__(self, keyfunc: Callable[[Any], Any]) -> None:
        self._keyfunc = keyfunc
        self.raw: bool | None = None
        self._settled: Callable[[], KeyFuncDict[Any, Any] | None] = lambda: None
        # by child, so that SQLAlchemy finds a child under the key by which it was added
        self._keys: WeakKeyDictionary[State, Any] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return _ChildKeys, (self._keyfunc,)

    def __call__(self, child: Any) -> Any:
        state = sqla.state_of(child)
        if state not in self._keys:
            key = self._key(child, state)
            if sqla.is_unpopulated(key):  # SQLAlchemy raises for the child, or ignores it
                return key
            self._keys[state] = key
        return self._keys[state]

    def _key(self, child: Any, state: State) -> Any:
        boundary = getattr(state, BOUNDARY, None)
        if boundary is None:
            key = self._keyfunc(child)
            # SQLAlchemy removes the child that a new one replaces
            is_final = sqla.is_unpopulated(key) or key in dict.keys(self._settled() or {})
            return key if is_final else _PendingChildKey()
        if state.key is not None and self.raw is not boundary.raw:
            return _PendingChildKey()
        return self._shown_key(child, state.mapper)

    def _shown_key(self, child: Any, mapper: Mapper[Any]) -> Any:
        """Return the key that `keyfunc` makes, with the values that attributes show."""
        key = self._keyfunc(child)
        columns = sqla.columns_by_getter(self._keyfunc, mapper)
        if columns is None or sqla.is_unpopulated(key):
            return key
        names = [mapper.get_property_by_column(column).key for column in columns]
        shown = tuple(getattr(child, name) for name in names)
        return shown if len(shown) > 1 else shown[0]

    def settle(self, collection: KeyFuncDict[Any, Any], raw: bool) -> None:
        """Put all children under refs, or under raw keys, if they are not yet."""
        self._settled = ReferenceType(collection)
        if self.raw is raw and not any(
            type(key) is _PendingChildKey for key in dict.keys(collection)
        ):
            return
        self.raw = raw
        self._keys.clear()
        _rekey(collection)


def instrument_dictionaries(class_: type[Any]) -> None:
    """Make the dictionary collections of a class have refs as keys, if they may have keys."""
    for relationship in inspect(class_).mapper.relationships:
        attribute = getattr(class_, relationship.key)
        if type(attribute) is InstrumentedAttribute and relationship.collection_class is not None:
            collection = sqla.new_collection(attribute)
            if isinstance(collection, KeyFuncDict) and _may_have_keys(collection, relationship):
                attribute.__class__ = DictAttribute
                event.listen(attribute, "init_collection", _on_init_collection, propagate=True)


def _may_have_keys(collection: KeyFuncDict[Any, Any], relationship: Any) -> bool:
    """Return whether the function of a collection reads key columns, or columns unknown here."""
    columns = sqla.columns_of_keys(collection.keyfunc, relationship.mapper)
    return columns is None or any(
        c.primary_key or c.foreign_keys or "ref" in c.info for c in columns
    )


def _on_init_collection(owner: Any, collection: Any, _: object) -> None:
    if hasattr(sqla.state_of(owner), BOUNDARY):
        _child_keys_of(collection)


def _child_keys_of(collection: KeyFuncDict[Any, Any]) -> _ChildKeys:
    """Replace a collection's `keyfunc`, once, and return the replacement.

    It returns a placeholder for a child whose key is not known yet.
    """
    if not isinstance(collection.keyfunc, _ChildKeys):
        collection.keyfunc = _ChildKeys(collection.keyfunc)
        _rekey(collection)
    return collection.keyfunc


def _rekey(collection: KeyFuncDict[Any, Any]) -> None:
    # by the methods of `dict`: the collection's own fire events of children added and removed
    entries = [(was, collection.keyfunc(child), child) for was, child in dict.items(collection)]
    dict.clear(collection)
    for was, key, child in entries:
        if not sqla.is_unpopulated(key):
            dict.__setitem__(collection, key, child)
        elif type(was) is not _PendingChildKey or sqla.keeps_unpopulated(collection, child):
            dict.__setitem__(collection, None, child)


# SQLModel


class RefModel:
    """A mixin for SQLModel's table classes: `model_dump()` and `repr()` show refs.

    It comes before `SQLModel` in the bases, of the table class or of a common base class. Nested
    models show refs too, and assignment accepts them. Instances of a plain session, and models
    that are not tables, are dumped as usual. SQLModel itself is not imported.

    A `RefSession` refuses table classes without the mixin, because they would dump keys: pydantic
    compiles the serializer of a model, and of those that have it as a field, when it is defined.

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
        from pydantic_core import core_schema  # noqa: PLC0415  # optional; it calls this method

        schema = handler(source)
        model: Any = schema
        while model["type"] != "model":  # validators of the class wrap its schema
            model = model["schema"]
        # the innermost schema, so that a serializer of the class gets refs
        model["schema"]["serialization"] = core_schema.wrap_serializer_function_ser_schema(
            _dump, is_field_serializer=True
        )
        return schema

    # `Any`: type checkers compare the signatures with SQLModel's, whose types are private

    def __repr_args__(self) -> Any:
        arguments: Iterable[tuple[str | None, Any]] = super().__repr_args__()  # type: ignore[misc]
        return [(name, _shown_value(self, name, value)) for name, value in arguments]

    def __iter__(self) -> Any:
        for name, value in super().__iter__():  # type: ignore[misc]
            yield name, _shown_value(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        # SQLModel calls `set_attribute`, which bypasses the descriptor
        if _is_ref_attribute(self, name):
            value = getattr(type(self), name).accept_value(self, value)
        super().__setattr__(name, value)


def refuse_pydantic_without_mixin(class_: type[Any], names: Collection[str]) -> None:
    """Refuse a class that pydantic would dump with its keys.

    Raises:
        KeyColumnError: it, or a model from which it inherits a key attribute, lacks the mixin.
    """
    if "pydantic" not in sys.modules:
        return
    from pydantic import BaseModel  # noqa: PLC0415  # optional

    for base in reversed(class_.__mro__):  # the base class to correct first
        if not issubclass(base, BaseModel) or base.model_fields.keys().isdisjoint(names):
            continue
        if RefModel not in base.__mro__[: base.__mro__.index(BaseModel)]:
            raise KeyColumnError(
                f"{base.__name__} is a pydantic model, which dumps the keys of its key columns",
                f"put the mixin first: class {base.__name__}(alfred_refs.RefModel, ...)",
            )


def _dump(model: Any, values: dict[str, Any], dump: Callable[[Any], Any]) -> Any:
    """Dump the fields of a model with refs in place of keys."""
    dumped = dump(values)
    fields = type(model).model_fields
    for name, value in values.items():
        shown = _shown_value(model, name, value)
        if shown is not value:
            for written in {name, fields[name].serialization_alias} & dumped.keys():
                dumped[written] = shown
    return dumped


def _shown_value(model: Any, name: str | None, value: Any) -> Any:
    """Return the ref that a key attribute of a model shows, or the value of another attribute."""
    if name is None or not _is_ref_attribute(model, name):
        return value
    return getattr(model, name)


def _is_ref_attribute(model: Any, name: str) -> bool:
    return hasattr(type(getattr(type(model), name, None)), "accept_value")
