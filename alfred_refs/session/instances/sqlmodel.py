"""`RefModel`: makes SQLModel's table classes dump and print what their attributes show.

An instance keeps its keys in its `__dict__`, which is what pydantic dumps, prints and sets by
itself. With this mixin it goes through the attributes: refs come out, in nested models too, and
refs go in. Instances of a plain session, and models that are no table, are dumped as ever.

    class Recipe(RefModel, SQLModel, table=True):
        id: uuid.UUID = Field(default_factory=uuid.uuid4, primary_key=True)

It goes before `SQLModel`, on the table class or once for all on a base class. It is not a choice:
without it a `RefSession` refuses the class, because a model that has it as a field was compiled
before there was a session, and would show its keys. SQLModel itself is not imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from alfred_refs.errors import KeyColumnError

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
        return [(name, _shown(self, name, value)) for name, value in arguments]

    def __iter__(self) -> Any:
        for name, value in super().__iter__():  # type: ignore[misc]
            yield name, _shown(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        # SQLModel sets past the class's attribute, which would find the key of a ref
        if _is_ref_attribute(self, name):
            value = getattr(type(self), name).accepted(self, value)
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
        shown = _shown(model, name, value)
        if shown is not value:
            for written in {name, fields[name].serialization_alias} & dumped.keys():
                dumped[written] = shown
    return dumped


def _shown(model: Any, name: str | None, value: Any) -> Any:
    """Return what stands for a value of a model: a ref, if an attribute of its class shows one."""
    if name is None or not _is_ref_attribute(model, name):
        return value
    return getattr(model, name)


def _is_ref_attribute(model: Any, name: str) -> bool:
    return hasattr(type(getattr(type(model), name, None)), "accepted")
