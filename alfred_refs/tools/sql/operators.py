"""Operators that compute: of numbers, times, texts, lists and documents.

    <Sub this=day expression=1>      plans.day - :n0       a date
    <DPipe this=name expression>     recipes.name || :t0   a text

Each has the type that PostgreSQL gives it, so that texts beside it are read as that. Keys are
computed with by none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    Float,
    Function,
    Integer,
    Interval,
    Numeric,
    Text,
    Time,
)
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB
from sqlalchemy.types import NullType, TypeEngine
from sqlglot import expressions as exp

from .expressions import compared, element_of, item_of, list_of, value_of
from .lexing import number_of, string_number
from .parsing import parts
from .refusing import refused, unsupported
from .scopes import Scope
from .values import Value, data

_SIGNS: Mapping[str, str] = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "Pow": "^",
}
_OF_LISTS: Mapping[str, str] = {
    "ArrayContainsAll": "@>",
    "ArrayContainedBy": "<@",
    "ArrayOverlaps": "&&",
}


def _arithmetic(node: Any, scope: Scope) -> Value:
    left, right = (
        data(value_of(each, scope), "a computation")
        for each in parts(node, "this", "expression", "typed", "safe")[:2]
    )
    sign = _SIGNS[type(node).__name__]
    type_ = _result(sign, left.type, right.type)
    if left.is_open or right.is_open:
        raise refused(
            "a text or NULL is computed with",
            "write its type: DATE '2026-05-01', INTERVAL '1 day', or a number without quotes",
        )
    return Value(left.element.op(sign, return_type=type_)(right.element))


def _result(sign: str, left: TypeEngine[Any], right: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the type of a computation, as PostgreSQL has it; of one that it has not, none."""
    if _is_number(left) and _is_number(right):
        return Double() if sign == "^" and isinstance(left, Float) else _wider(left, right)
    if isinstance(left, Date) and isinstance(right, Date):
        return Integer() if sign == "-" else NullType()
    if isinstance(left, DateTime) and isinstance(right, DateTime | Date):
        return INTERVAL()
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Date) and _is_span(other):
            return DateTime()
        if isinstance(one, Date | DateTime | Time):
            return one
    return INTERVAL() if _is_span(left) or _is_span(right) else NullType()


def _is_number(type_: TypeEngine[Any]) -> bool:
    return isinstance(type_, Integer | Numeric | Float)


def _is_span(type_: TypeEngine[Any]) -> bool:
    return isinstance(type_, Interval | INTERVAL)


def _wider(left: TypeEngine[Any], right: TypeEngine[Any]) -> TypeEngine[Any]:
    for class_, made in ((Float, Double()), (Numeric, Numeric()), (BigInteger, BigInteger())):
        if isinstance(left, class_) or isinstance(right, class_):
            return made
    return Integer()


def _negative(node: Any, scope: Scope) -> Value:
    (this,) = parts(node, "this")
    value = data(value_of(this, scope), "a computation")
    if not _is_number(value.type):
        raise refused("'-' stands before what is no number", "write -1, or INTERVAL '-1 day'")
    return Value(-value.element)


def _joined(node: Any, scope: Scope) -> Value:
    left, right = (
        data(value_of(each, scope), "'||'")
        for each in parts(node, "this", "expression", "safe")[:2]
    )
    types = [each.type for each in (left, right)]
    of_its_own = next((each for each in types if isinstance(each, ARRAY | JSONB)), None)
    if of_its_own is not None and (left.literal is not None or right.literal is not None):
        raise refused("a text is joined to a list", "write ARRAY['a', 'b'], or a document::jsonb")
    elements = element_of(left, scope), element_of(right, scope)
    type_ = Text() if of_its_own is None else of_its_own
    return Value(elements[0].op("||", return_type=type_)(elements[1]))


def _field(node: Any, scope: Scope) -> Value:
    """Return what a document has by a name or at a place: `->` and `->>`."""
    this, path = parts(node, "this", "expression", "only_json_types")[:2]
    document = data(value_of(this, scope), "a part of a document")
    if not isinstance(document.type, JSON):
        raise refused(f"{document.name!r} is no document", "use '->' and '->>' on json columns")
    steps = path.expressions[1:] if isinstance(path, exp.JSONPath) else []
    if len(steps) != 1:
        raise unsupported("this path into a document", "write -> 'name' ->> 'name'")
    literals = scope.building.literals
    marker = steps[0].this
    if isinstance(steps[0], exp.JSONPathKey) and isinstance(marker, str):
        key = literals.text(Value(None, literal=string_number(marker)))
    elif isinstance(steps[0], exp.JSONPathSubscript) and isinstance(marker, int):
        key = literals.number(*number_of(marker)).element
    else:
        raise unsupported("this path into a document", "write -> 'name' ->> 'name'")
    as_text = isinstance(node, exp.JSONExtractScalar)
    type_ = Text() if as_text else document.type
    return Value(document.element.op("->>" if as_text else "->", return_type=type_)(key))


def _of_lists(node: Any, scope: Scope) -> Value:
    sign = _OF_LISTS[type(node).__name__]
    nodes = parts(node, "this", "expression")
    found = [None if isinstance(each, exp.Array) else value_of(each, scope) for each in nodes]
    like = [item_of(each) for each in found if each and each.key and each.key.array]
    pair = [each or list_of(n, scope, like) for n, each in zip(nodes, found, strict=True)]
    if any(each.key is not None and each.literal is None and not each.key.array for each in pair):
        raise refused(f"{sign!r} is used on a ref", "use = or IN (...)")
    if any(each.key for each in pair) and any(each.literal is not None for each in pair):
        raise refused("refs are written as one text", "write ARRAY[...] with a text for each")
    left, right = compared(pair, scope)
    return Value(left.op(sign, return_type=Boolean(), is_comparison=True)(right))


def _at_zone(node: Any, scope: Scope) -> Value:
    this, zone = parts(node, "this", "zone")
    value = data(value_of(this, scope), "a time")
    if not isinstance(value.type, DateTime):
        raise refused("AT TIME ZONE is used on what is no timestamp", "use it on a timestamp")
    name = data(value_of(zone, scope), "a time zone")
    type_ = DateTime(timezone=not value.type.timezone)
    return Value(
        Function("timezone", element_of(name, scope), value.element, type_=type_), "timezone"
    )


MAKERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "AtTimeZone": _at_zone,
    "DPipe": _joined,
    "JSONExtract": _field,
    "JSONExtractScalar": _field,
    "Neg": _negative,
    **dict.fromkeys(_SIGNS, _arithmetic),
    **dict.fromkeys(_OF_LISTS, _of_lists),
}
"""What builds each operator."""
