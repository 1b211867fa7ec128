"""What a parameter of a statement has for a value, and what it is called."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from sqlalchemy import ARRAY, BindParameter
from sqlalchemy.engine import base
from sqlalchemy.orm import ColumnProperty, InstanceState
from sqlalchemy.types import NullType, TypeEngine

from alfred_refs.errors import UntranslatableError

_MADE_KEY = re.compile(r"%\(\d+ (.*)\)s", re.DOTALL)  # of what the program did not name
_MADE_NAME = re.compile(r"(.*)_[0-9a-f]+", re.DOTALL)  # the same, compiled


def check_parameters(given: Any) -> None:
    """Check what an execution is given for parameters, before it is looked through.

    Leans on the function by which a connection checks them.

    Raises:
        ArgumentError: they are neither a mapping nor a list of mappings.
    """
    cast(Any, base)._distill_params_20(given)


def parameter_value(parameter: BindParameter[Any]) -> Any:
    """Return the value of a parameter, or `None` where it comes with the execution.

    Also where it cannot be read: SQLAlchemy reads it again, and tells of it with the statement.
    """
    try:
        return parameter.effective_value
    except Exception:  # noqa: BLE001  # whatever a callable of the program's raises
        return None


def takes_list(parameter: BindParameter[Any]) -> bool:
    """Tell whether a parameter may stand for several values: in IN, or in an array."""
    return parameter.expanding or isinstance(parameter.type, ARRAY | NullType)


def attribute_behind(parameter: BindParameter[Any]) -> tuple[InstanceState[Any], str] | None:
    """Return which attribute of which instance a parameter reads when it is executed, if any.

    An instance that is compared with a relationship stands in the statement as such parameters.
    They alone have a callable of SQLAlchemy's own: leans on that being a function inside another,
    `RelationshipProperty._get_attr_w_warn_on_none`, one of whose variables is the instance's
    state, and one the attribute, whatever they are called.

    Raises:
        UntranslatableError: a callable of SQLAlchemy's does not tell: what it returns is a key,
            and must not pass for a ref.
    """
    read: Any = parameter.callable
    if read is None:
        return None
    while isinstance(read, partial):
        read = read.func
    if not str(getattr(read, "__module__", None)).startswith("sqlalchemy."):
        return None
    known = [cell.cell_contents for cell in getattr(read, "__closure__", None) or ()]
    match (
        [each for each in known if isinstance(each, InstanceState)],
        [each for each in known if isinstance(each, ColumnProperty)],
    ):
        case [state], [attribute]:
            return state, attribute.key
    raise UntranslatableError(
        "this version of SQLAlchemy compares a relationship with an instance in a way that is not "
        "known",
        "compare the foreign key's columns instead",
    )


class KeyReader:
    """Gives a parameter a key for its value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self) -> Any:  # noqa: D102  # what the class says
        return self._value


class LateKey(KeyReader):
    """Gives a parameter a key, of what the program's own callable gives: read as late as that.

    Args:
        read: the program's callable.
        as_key: puts keys in place of the refs in what it gives.
    """

    def __init__(self, read: Callable[[], Any], as_key: Callable[[Any], Any]) -> None:
        self._read = read
        self._as_key = as_key

    def __call__(self) -> Any:  # noqa: D102  # what the class says
        return self._as_key(self._read())


def put_value(parameter: BindParameter[Any], value: Any) -> dict[str, Any]:
    """Return the attributes by which a parameter has another value."""
    if isinstance(value, LateKey):
        return {"value": None, "callable": value}
    return {"value": value, "callable": parameter.callable and KeyReader(value)}


class _KeyParameter(BindParameter[Any]):
    """A class of its own, which is a part of cache keys.

    What SQLAlchemy has compiled for a parameter without callable asks all that share its cache key
    for their plain values, and a key has none.
    """

    inherit_cache = True


def key_parameter(value: Any, type_: TypeEngine[Any]) -> BindParameter[Any]:
    """Return a parameter whose value is a key, though it may be text."""
    return _KeyParameter(None, callable_=KeyReader(value), type_=type_, unique=True)


def is_key_parameter(parameter: BindParameter[Any]) -> bool:
    """Tell whether `key_parameter` made a parameter, or one that a copy was made of."""
    return isinstance(parameter.callable, KeyReader)


def stem_of(parameter: BindParameter[Any]) -> str | None:
    """Return what a parameter is called for that the program did not name: `id`.

    In the statement that is part of its key, `%(140736 id)s`, of which compiling makes `id_1`.
    """
    found = _MADE_KEY.fullmatch(parameter.key)
    return None if found is None else found[1]


def may_be_named(name: str, stem: str) -> bool:
    """Tell whether a name that comes with an execution may mean a parameter of this stem.

    Leans on `Compiled.construct_params()`, which takes a parameter's key, or the name that it
    compiles to: the stem and a number, cut short and numbered once more where that is too long.
    """
    key, compiled = _MADE_KEY.fullmatch(name), _MADE_NAME.fullmatch(name)
    if key is not None or compiled is None:
        return key is not None and key[1] == stem
    start = compiled[1]
    return stem.startswith(start) or re.fullmatch(r"_\d*", start.removeprefix(stem)) is not None
