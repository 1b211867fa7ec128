"""A column that holds keys: the SQL types that can, and what may stand in one attribute of it.

A `KeyColumn` is what all translation goes by: the entity whose keys the column holds, and what
becomes of one value on its way in and out. An attribute holds a key, a list of keys in an array
column, text that waits for its key, or an expression. Pure.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast
from weakref import ref

from sqlalchemy import ARRAY, Column, Integer, String, TypeDecorator, Uuid
from sqlalchemy.types import TypeEngine

from .keys import EntityKey, Key
from .policy import KeyType

# values of JSON that are neither UUIDs nor texts
_NO_KEYS = frozenset((bool, int, float, Decimal, list, dict))


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that holds keys.

    Attributes:
        name: `table.column`, for messages.
        entity: the entity that its values name.
        key_type: what its values are underneath.
        as_text: whether the application sees its UUIDs as text (`Uuid(as_uuid=False)`).
        array: whether each value is a list of keys.
        by: the unique column whose values it has in place of primary keys; `None` for those.
    """

    name: str
    entity: str
    key_type: KeyType
    as_text: bool = False
    array: bool = False
    by: AlternateKey | None = None

    @property
    def space(self) -> str:
        """What its keys are told apart by: an entity, or an alternate key of one."""
        return self.entity if self.by is None else self.by.space

    @property
    def has_uuids(self) -> bool:
        """Whether each value is a `uuid.UUID`, and the primary key of a row."""
        plain = not self.as_text and not self.array and self.by is None
        return self.key_type == "uuid" and plain

    def holds(self, value: Any) -> bool:
        """Tell whether a value is a key as this column has them."""
        if self.as_text or self.key_type == "string":
            return isinstance(value, str)
        return isinstance(value, uuid.UUID if self.key_type == "uuid" else int)

    def text_of(self, value: Any) -> str | None:
        """Return the text that is to be a ref, `None` of what is none.

        What a model may write where no key can be meant, such as the number of a ref, is such a
        text too: it names nothing, and that is told as of any other.
        """
        if isinstance(value, str):
            return value
        return str(value) if type(value) in _NO_KEYS and self.key_type != "integer" else None

    def token(self, value: Any) -> Any:
        """Return what a `RefCache` looks the value's key up by."""
        if self.key_type == "uuid":
            return uuid.UUID(value).int if self.as_text else value.int
        return value

    def to_key(self, value: Any) -> Key:
        """Return the key that a value of this column stands for."""
        return uuid.UUID(value) if self.as_text else value

    def from_key(self, key: Key) -> Any:
        """Return the key as this column's own Python type."""
        return str(key) if self.as_text else key


@dataclass(frozen=True, slots=True, eq=False)
class AlternateKey:
    """A unique column that foreign keys reference in place of the primary key.

    Attributes:
        space: what its values are told apart by; no entity has such a name.
        values: what it holds, as a key column of its own would.
        rows: what the primary key's column holds.
        columns: the unique column and the primary key's, which are not kept alive by this.
    """

    space: str
    values: KeyColumn
    rows: KeyColumn
    columns: tuple[ref[Column[Any]], ref[Column[Any]]]

    @property
    def is_there(self) -> bool:
        """Whether the application has not dropped the table."""
        return self.columns[0]() is not None

    @property
    def column(self) -> Column[Any]:
        """The unique column."""
        return cast("Column[Any]", self.columns[0]())

    @property
    def primary(self) -> Column[Any]:
        """The primary key's column."""
        return cast("Column[Any]", self.columns[1]())


def key_type_of(type_: TypeEngine[Any]) -> KeyType | None:
    """Return the type of key that a column of this SQL type can hold, `None` for no key at all."""
    type_ = undecorated(type_)
    if isinstance(type_, Uuid) or python_type_of(type_) is uuid.UUID:
        return "uuid"
    if isinstance(type_, Integer) or python_type_of(type_) is int:
        return "integer"
    if isinstance(type_, String) or python_type_of(type_) is str:
        return "string"
    return None


def python_type_of(type_: TypeEngine[Any]) -> type[Any] | None:
    """Return the type of a column's values in Python, `None` where its SQL type does not say."""
    try:
        return type_.python_type
    except NotImplementedError:  # SQLAlchemy's answer for a type without one
        return None


def item_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the SQL type of an array's items; any other type stands for itself."""
    return type_.item_type if isinstance(type_, ARRAY) else type_


def is_ambiguous(type_: TypeEngine[Any]) -> bool:
    """Tell whether a custom type changes values without saying what they are in Python.

    A `TypeDecorator` has the `python_type` of what it decorates unless it has one of its own.
    """
    if not isinstance(type_, TypeDecorator):
        return False
    defined = {name for class_ in _own_classes(type_) for name in vars(class_)}
    return "process_result_value" in defined and "python_type" not in defined


def _own_classes(type_: TypeDecorator[Any]) -> list[type[Any]]:
    classes = list(type(type_).__mro__)
    return classes[: classes.index(TypeDecorator)]


def is_text_uuid(type_: TypeEngine[Any]) -> bool:
    """Tell whether a column of this SQL type shows its UUIDs as text."""
    type_ = undecorated(type_)
    return isinstance(type_, Uuid) and not type_.as_uuid


def undecorated(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return what a custom type decorates, where it changes nothing of the values."""
    while isinstance(type_, TypeDecorator):
        defined = {name for class_ in _own_classes(type_) for name in vars(class_)}
        if not defined.isdisjoint(("process_result_value", "python_type")):
            break
        type_ = type_.impl_instance
    return type_


def items_of(value: Any) -> Iterator[Any]:
    """Yield the elements of an array, which may have several dimensions."""
    for item in value:
        if isinstance(item, list | tuple):
            yield from items_of(item)
        else:
            yield item


def _listed(column: KeyColumn, value: Any) -> Iterable[Any]:
    if not column.array:
        return (value,)
    return items_of(value) if isinstance(value, list | tuple | set) else ()


def texts_in(column: KeyColumn, value: Any) -> list[str]:
    """Return the texts in a value: refs, where the program has set it."""
    items = _listed(column, value)
    return [text for item in items if (text := column.text_of(item)) is not None]


def keys_in(column: KeyColumn, value: Any) -> list[EntityKey]:
    """Return the keys in a value: none in NULL, or in an expression that the flush will send."""
    items = filter(column.holds, _listed(column, value))
    return [(column.space, column.to_key(item)) for item in items]


def with_keys(column: KeyColumn, value: Any, keys: Mapping[tuple[str, str | None], Key]) -> Any:
    """Return a value with keys, as the column has them, in place of its texts.

    Args:
        column: what holds the value.
        value: anything that a key attribute may be set to.
        keys: what the texts resolve to, by text and the column's `space`.
    """
    if not texts_in(column, value):
        return value

    def swapped(item: Any) -> Any:
        if column.array and isinstance(item, list | tuple | set):
            return [swapped(inner) for inner in item]
        text = column.text_of(item)
        return item if text is None else column.from_key(keys[text, column.space])

    return swapped(value)
