"""Conversions: CAST and `::`, texts behind the name of a type, and intervals.

    <Cast this='2026-05-01' to=date>    CAST(:t0 AS DATE)
    <Interval this='3 days'>            CAST(:t0 AS INTERVAL)

Which types there are is said in `types`; refs are converted to none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ARRAY, Uuid, cast
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.types import TypeEngine
from sqlglot import expressions as exp

from .expressions import element_of, integer_of, literal_of, value_of
from .parsing import parts
from .refusing import refused
from .scopes import Scope
from .types import NAMES, SHORT, named_type
from .values import Value, data

_MOST_DIGITS = 1_000  # of a numeric, as PostgreSQL has them


def _cast(node: Any, scope: Scope) -> Value:
    this, to = parts(node, "this", "to", "_type")[:2]
    value, type_ = value_of(this, scope), _type_of(to, scope)
    name = _name_of(to) if value.is_weak else value.name
    if value.key is not None:
        if isinstance(type_, Uuid) and isinstance(value.type, Uuid):
            return value
        raise refused(f"the ref {value.name!r} is converted", "refs are texts; leave the cast out")
    if value.literal is not None and isinstance(type_, Uuid):
        return replace(value, name=name, weak=True)  # a ref, beside refs
    data(value, "a conversion")
    return Value(cast(element_of(value, scope), type_), name, weak=value.is_weak)


def _name_of(node: Any) -> str:
    """Return what PostgreSQL calls a type, and a column that is converted to it."""
    kind = str(getattr(node.this, "name", node.this))
    return SHORT.get(kind, kind.lower())


def _type_of(node: Any, scope: Scope) -> TypeEngine[Any]:
    """Return the type that a node names.

    Raises:
        ToolError: there is none to use.
    """
    kind = getattr(node.this, "name", "")
    if not isinstance(node, exp.DataType):
        raise refused(f"there is no type {str(node.this).lower()!r} to use", f"use {NAMES}")
    _, inside, _ = parts(node, "this", "expressions", "nested")
    if kind == "ARRAY" and len(inside) == 1:
        return ARRAY(_type_of(inside[0], scope))
    sizes = [integer_of(parts(each, "this")[0], scope) for each in inside or ()]
    found = named_type(kind, sizes)
    if found is None or any(size < 1 or size > _MOST_DIGITS for size in sizes[:1]):
        raise refused("there is no such type to use", f"use {NAMES}")
    return found


def _interval(node: Any, scope: Scope) -> Value:
    (this,) = parts(node, "this")
    literal, kind = literal_of(this)
    if kind is not None:
        raise refused("an interval is made of a number", "write INTERVAL '3 days'")
    made = scope.building.literals.text(Value(None, literal=literal), INTERVAL())
    return Value(made, "interval", weak=True)


MAKERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "Cast": _cast,
    "Interval": _interval,
}
"""What builds each conversion."""
