"""Shapes of statements as keys of a cache that keeps nothing alive.

A shape names mappers, tables and types of the application. Whoever keeps it keeps them, and with
them all that is mapped beside them; SQLAlchemy's own compiled cache does until it is cleared. A
copy of the shape goes out that is equal to it, and to no other, for as long as they are there.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any
from weakref import ref

from sqlalchemy.sql.annotation import Annotated

_VALUES = (str, bytes, int, float, Enum, BuiltinFunctionType, type(None))


class _Weak(ref[Any]):
    """Stands for an object in a shape: equal to it as long as it is there, then to nothing."""

    __slots__ = ()

    __hash__ = ref.__hash__  # that of the object, also when it is gone

    def __eq__(self, other: object) -> bool:
        mine = self()
        if mine is other:
            return mine is not None
        # a table that a statement has annotated is another object, and equal
        return mine is not None and bool(mine == other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def weakly(shape: Hashable) -> Hashable:
    """Return a shape that keeps nothing of the application's alive.

    Leans on a shape being made of tuples: the objects in it are compared by what they are, but for
    values and for types of the program's own that compare their values.
    """
    if isinstance(shape, tuple):
        return tuple(map(weakly, shape))
    if isinstance(shape, _VALUES) or _is_library(shape):
        return shape
    if isinstance(shape, Annotated):
        return weakly(shape._deannotate())
    if type(shape).__eq__ is not object.__eq__:
        return shape
    try:
        weak = _Weak(shape)
        hash(weak)  # remembered, as it could not be asked for later
    except TypeError:
        return shape
    return weak


def _is_library(item: object) -> bool:
    """Tell a class or a function of SQLAlchemy's from one of the application's."""
    return isinstance(item, type | FunctionType) and item.__module__.startswith("sqlalchemy.")
