"""Shapes of statements as keys of a cache that keeps nothing alive.

A shape names mappers, tables and types of the application. Whoever keeps it keeps them, and with
them all that is mapped beside them; SQLAlchemy's own compiled cache does until it is cleared. A
copy of the shape goes out that is equal to it, and to no other, for as long as they are there.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast
from weakref import proxy

from sqlalchemy.sql.annotation import Annotated

_VALUES = (str, bytes, int, float, Enum, BuiltinFunctionType, type(None))


class WeakShape(tuple[Any, ...]):  # noqa: SLOT001  # a tuple has no room for the hash
    """A shape with weak proxies of the application's objects: equal to it while they are there.

    A proxy is compared as what it stands for, and that in C: a look-up calls nothing of ours. It
    has no hash, so that of the shape is kept, also when an object is gone.

    Raises:
        ReferenceError: when it is compared with another of the same hash, and an object is gone:
            one has been made since in the same place of the memory.
    """

    _hash: int

    def __new__(cls, shape: Hashable) -> WeakShape:
        """Make it of a shape, which is a tuple."""
        weak = super().__new__(cls, map(_weakly, cast("tuple[Hashable, ...]", shape)))
        weak._hash = hash(shape)
        return weak

    def __hash__(self) -> int:
        return self._hash


def _weakly(shape: Hashable) -> Hashable:
    """Return a part of a shape that keeps nothing of the application's alive.

    Leans on a shape being made of tuples: the objects in it are compared by what they are, but for
    values and for types of the program's own that compare their values.
    """
    if isinstance(shape, tuple):
        return tuple(map(_weakly, shape))
    if isinstance(shape, _VALUES) or _is_library(shape):
        return shape
    if isinstance(shape, Annotated):
        return _weakly(cast(Hashable, shape._deannotate()))
    if type(shape).__eq__ is not object.__eq__:
        return shape
    with suppress(TypeError):  # it takes no weak references
        shape = cast(Hashable, proxy(shape))
    return shape


def _is_library(item: object) -> bool:
    """Tell a class or a function of SQLAlchemy's from one of the application's."""
    return isinstance(item, type | FunctionType) and item.__module__.startswith("sqlalchemy.")
