"""Conditions: what is true, false or unknown of a row.

    <GT this=day expression='2026-01-01'>    plans.day > :t0::DATE
    <In this=recipe_id query=<Select>>       plans.recipe_id IN (SELECT ...)

Comparisons are of values of one kind: a text beside keys is a ref, and beside data it is data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ARRAY, Boolean, String, all_, and_, any_, not_, or_
from sqlglot import expressions as exp

from .expressions import (
    compared,
    condition_of,
    element_of,
    item_of,
    list_of,
    literal_of,
    one_column_of,
    operand,
    subquery_of,
    typed,
    value_of,
    values_of,
)
from .parsing import named, parts
from .refusing import refused, unsupported
from .scopes import Scope
from .values import Value, data

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
    "NullSafeEQ": lambda left, right: left.is_not_distinct_from(right),
    "NullSafeNEQ": lambda left, right: left.is_distinct_from(right),
}


def _logic(join: Callable[..., Any], kind: type[Any]) -> Callable[[Any, Scope], Value]:
    def make(node: Any, scope: Scope) -> Value:
        found, waiting = [], [node]
        while waiting:  # a chain of them is deep
            each = waiting.pop()
            if isinstance(each, kind):
                waiting += reversed(parts(each, "this", "expression"))
            else:
                found.append(condition_of(each, scope))
        return Value(join(*found))

    return make


def _not(node: Any, scope: Scope) -> Value:
    (this,) = parts(node, "this")
    return Value(not_(condition_of(this, scope)))


def _compare(node: Any, scope: Scope) -> Value:
    left, right = parts(node, "this", "expression")
    compare = _COMPARISONS[type(node).__name__]
    quantifier = _quantifier(right)
    if quantifier is not None:
        return _compare_each(left, *quantifier, compare, scope)
    return Value(compare(*compared(values_of([left, right], scope), scope)))


def _quantifier(node: Any) -> tuple[Any, Any] | None:
    """Return ANY or ALL and the list behind it, if a node is that."""
    if isinstance(node, exp.Any):
        (inside,) = parts(node, "this")
        return any_, inside.this if isinstance(inside, exp.Paren) else inside
    if isinstance(node, exp.Anonymous) and node.name in ("any", "some", "all"):
        nodes = parts(node, "this", "expressions")[1]
        if len(nodes) == 1:
            return (all_ if node.name == "all" else any_), nodes[0]
    return None


def _compare_each(left: Any, quantifier: Any, inside: Any, compare: Any, scope: Scope) -> Value:
    """Return that a value compares with one element of a list, or with all."""
    if isinstance(inside, exp.Query):
        raise unsupported("ANY or ALL with a subquery", "use IN or NOT IN, or EXISTS")
    one = value_of(left, scope)
    many = list_of(inside, scope, [one] if one.key is not None else ())
    if many.literal is not None:
        raise unsupported("a list written as a text", "write ARRAY['a', 'b']")
    if not isinstance(many.type, ARRAY):
        raise refused("ANY or ALL is used on what is no list", "use IN (...)")
    return Value(compare(compared([one, item_of(many)], scope)[0], quantifier(many.element)))


def _is(node: Any, scope: Scope) -> Value:
    this, what, negate = parts(node, "this", "expression", "negate")
    if not isinstance(what, exp.Null | exp.Boolean):
        raise unsupported(f"IS {named(what)}", "use IS NULL, IS TRUE or IS DISTINCT FROM")
    value = value_of(this, scope)
    if isinstance(what, exp.Boolean):
        data(value, "a condition")
    element, constant = element_of(value, scope), value_of(what, scope).element
    return Value(element.is_not(constant) if negate else element.is_(constant))


def _in(node: Any, scope: Scope) -> Value:
    this, nodes, query = parts(node, "this", "expressions", "query")
    if isinstance(this, exp.Tuple):
        raise unsupported("a row of values", "compare column by column, with AND and OR")
    value = value_of(this, scope)
    if query is not None:
        rows = one_column_of(query, scope)
        return Value(compared([value, rows.values[0]], scope)[0].in_(rows.statement))
    one, *others = compared([value, *values_of(nodes, scope)], scope)
    return Value(one.in_(others))


def _between(node: Any, scope: Scope) -> Value:
    found = values_of(parts(node, "this", "low", "high"), scope)
    one, low, high = compared(found, scope)
    return Value(typed(one.between(low, high), Boolean()))


def _like(node: Any, scope: Scope, escape: str | None = None) -> Value:
    this, pattern, negate = parts(node, "this", "expression", "negate")
    left, right = (data(value_of(each, scope), "a pattern") for each in (this, pattern))
    for each in (left, right):
        if not (each.is_open or isinstance(each.type, String)):
            raise refused(
                f"LIKE is used on what is no text ({each.name!r})", "use CAST(x AS text)"
            )
    element, text = (operand(element_of(each, scope)) for each in (left, right))
    if isinstance(node, exp.Like):
        like = element.not_like if negate else element.like
    else:
        like = element.not_ilike if negate else element.ilike
    return Value(like(text, escape=escape))


def _escape(node: Any, scope: Scope) -> Value:
    this, sign = parts(node, "this", "expression")
    literal, kind = literal_of(sign)
    text = scope.building.literals.fix(literal)
    if kind is not None or len(text) != 1 or text in "'\\%:":
        raise unsupported("this ESCAPE", "escape with another character")
    if not isinstance(this, exp.Like | exp.ILike):
        raise unsupported("ESCAPE here")
    return _like(this, scope, text)


def _exists(node: Any, scope: Scope) -> Value:
    (this,) = parts(node, "this")
    return Value(subquery_of(this, scope).statement.exists(), "exists")


MAKERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "And": _logic(and_, exp.And),
    "Between": _between,
    "Escape": _escape,
    "Exists": _exists,
    "ILike": _like,
    "In": _in,
    "Is": _is,
    "Like": _like,
    "Not": _not,
    "Or": _logic(or_, exp.Or),
    **dict.fromkeys(_COMPARISONS, _compare),
}
"""What builds each condition."""
