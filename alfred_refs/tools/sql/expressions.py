"""Expressions: a node of the tree to a `Value`, one function a construct.

    value_of(<Case ifs=[<If true=1>] default=2>, scope)    CASE WHEN ... THEN :n0 ELSE :n1 END

What has no function here is refused, in words that name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ARRAY,
    Boolean,
    Case,
    Cast,
    String,
    Text,
    case,
    cast,
    false,
    null,
    true,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.elements import (
    BinaryExpression,
    BooleanClauseList,
    False_,
    Grouping,
    Null,
    True_,
    UnaryExpression,
)
from sqlalchemy.types import TypeEngine
from sqlglot import expressions as exp

from .lexing import number_of, string_number
from .parsing import named, parts
from .refusing import refused, unsupported
from .scopes import Query, Scope
from .values import Value, alike, data, item_key, list_key, list_type, widest


def value_of(node: Any, scope: Scope) -> Value:
    """Return what a node means.

    Raises:
        ToolError: it is not known here, or cannot be used so.
    """
    make = scope.building.makers.get(type(node).__name__)
    if make is None:
        raise unsupported(named(node))
    return make(node, scope)


def values_of(nodes: Sequence[Any], scope: Scope) -> list[Value]:
    """Return what several nodes mean."""
    return [value_of(each, scope) for each in nodes]


def condition_of(node: Any, scope: Scope) -> Any:
    """Return a node as a condition.

    Raises:
        ToolError: it is neither true nor false.
    """
    value = data(value_of(node, scope), "a condition")
    if not (value.is_null or isinstance(value.type, Boolean)):
        raise refused(f"a condition is a value ({value.name!r})", "compare it: = , > or IS NULL")
    return value.element


def element_of(value: Value, scope: Scope) -> Any:
    """Return what SQLAlchemy has of a value: a text of no type is text."""
    return scope.building.literals.text(value)


def compared(values: Sequence[Value], scope: Scope) -> list[Any]:
    """Return what SQLAlchemy has of values that are compared with each other.

    Raises:
        ToolError: they are of several kinds.
    """
    found = alike(values, scope.building.literals, "a comparison", by_first=True)
    return [operand(each.element) for each in found]


def operand(element: Any) -> Any:
    """Return an element that is compared; of a constant by itself SQLAlchemy makes IS."""
    return Grouping(element) if isinstance(element, False_ | Null | True_) else element


def name_of(node: Any) -> str:
    """Return an identifier as PostgreSQL takes it: without quotes it is in small letters."""
    name, _ = parts(node, "this", "quoted")
    return str(name)


def literal_of(node: Any) -> tuple[int, str | None]:
    """Return which literal a node is, and the type of a number.

    Raises:
        ToolError: it is none.
    """
    if not isinstance(node, exp.Literal):
        raise refused(f"{named(node)} stands where a number or text is needed", "write it out")
    marker, is_string = parts(node, "this", "is_string")
    return (string_number(marker), None) if is_string else number_of(int(marker))


def integer_of(node: Any, scope: Scope) -> int:
    """Return an integer on which the statement itself depends.

    Raises:
        ToolError: it is none.
    """
    literal, kind = literal_of(node)
    if kind != "integer":
        raise refused("another value stands where an integer is needed", "write an integer")
    return int(scope.building.literals.fix(literal))


def _column(node: Any, scope: Scope) -> Value:
    this, table = parts(node, "this", "table")
    if isinstance(this, exp.Star):
        raise refused("'*' stands in an expression", "name the columns that you want")
    return scope.column(None if table is None else name_of(table), name_of(this))


def _literal(node: Any, scope: Scope) -> Value:
    literal, kind = literal_of(node)
    if kind is None:
        return Value(None, literal=literal)
    return scope.building.literals.number(literal, kind)


def _constant(node: Any, _: Scope) -> Value:
    (this,) = parts(node, "this")
    return Value(true() if this else false())


def _null(node: Any, _: Scope) -> Value:
    parts(node)
    return Value(null())


def _paren(node: Any, scope: Scope) -> Value:
    (this,) = parts(node, "this")
    value = value_of(this, scope)
    if not isinstance(value.element, BinaryExpression | BooleanClauseList | UnaryExpression):
        return value
    return replace(value, element=Grouping(value.element))


def _case(node: Any, scope: Scope) -> Value:
    this, whens, default = parts(node, "this", "ifs", "default")
    conditions, results = [], []
    for each in whens:
        condition, result = parts(each, "this", "true")
        conditions.append(condition)
        results.append(value_of(result, scope))
    results.append(Value(null()) if default is None else value_of(default, scope))
    chosen = alike(results, scope.building.literals, "CASE")
    *elements, last = (each.element for each in chosen)
    if this is None:
        tests = [condition_of(each, scope) for each in conditions]
    else:
        first, *rest = compared(values_of([this, *conditions], scope), scope)
        tests = [first == each for each in rest]
    made = case(*zip(tests, elements, strict=True), else_=last)
    like = widest(chosen)
    is_weak = results[-1].is_weak
    name = "case" if is_weak else results[-1].name
    return Value(typed(made, like.type), name, like.key, weak=is_weak)


def typed(element: Any, type_: TypeEngine[Any]) -> Any:
    """Return an element that has a type, where SQLAlchemy knows none or takes the first."""
    element.type = type_
    return element


def _bracket(node: Any, scope: Scope) -> Value:
    this, [index] = parts(node, "this", "expressions", "offset")[:2]
    value = value_of(this, scope)
    if not isinstance(value.type, ARRAY) or not isinstance(index, exp.Literal):
        raise unsupported("'[...]' but for one element of a list by its number")
    # sqlglot counts from 0
    literal, kind = number_of(int(index.this) + 1)
    place = scope.building.literals.number(literal, kind)
    element: Any = value.element
    if isinstance(element, Case | Cast):  # SQLAlchemy puts no parentheses around it
        element = Grouping(element)
    return Value(element[place.element], value.name, item_key(value.key))


def item_of(many: Value) -> Value:
    """Return a value of the kind that a list has."""
    return Value(cast(null(), many.type.item_type), many.name, item_key(many.key))  # type: ignore[attr-defined]


def list_of(node: Any, scope: Scope, like: Sequence[Value] = ()) -> Value:
    """Return what a list means, `ARRAY[...]` beside values that its items are compared with.

    Raises:
        ToolError: they are of several kinds.
    """
    if not isinstance(node, exp.Array):
        return value_of(node, scope)
    (nodes,) = parts(node, "expressions")
    if not nodes:
        raise unsupported("an empty ARRAY[]", "write '{}'")
    items = alike([*values_of(nodes, scope), *like], scope.building.literals, "ARRAY[]")
    first = widest(items)
    type_: ARRAY[Any] = ARRAY(Text()) if first.is_open else list_type(first.type)
    elements = [each.element for each in items[: len(nodes)]]
    made: Any = postgresql.array(elements, type_=type_.item_type)
    # SQLAlchemy sends texts as VARCHAR, and PostgreSQL has no operators of text[] and varchar[]
    is_text = isinstance(type_.item_type, String)
    key = list_key(first.key)
    return Value(cast(made, type_) if is_text and key is None else made, "array", key)


def subquery_of(node: Any, scope: Scope) -> Query:
    """Return a subquery, one for all that are the same: GROUP BY may name what is selected."""
    while isinstance(node, exp.Paren | exp.Subquery) and not any(
        value for name, value in node.args.items() if name != "this"
    ):
        node = node.this
    if node not in scope.subqueries:
        scope.subqueries[node] = scope.building.query(node, scope.inner())
    return scope.subqueries[node]


def one_column_of(node: Any, scope: Scope) -> Query:
    """Return a subquery for its values.

    Raises:
        ToolError: it has several columns.
    """
    rows = subquery_of(node, scope)
    if len(rows.values) != 1:
        raise refused("a subquery for values has several columns", "select one column there")
    return rows


def _scalar(node: Any, scope: Scope) -> Value:
    rows = one_column_of(node, scope)
    value = rows.values[0]
    return Value(rows.statement.scalar_subquery(), value.name, value.key, weak=False)


MAKERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "Array": list_of,
    "Boolean": _constant,
    "Bracket": _bracket,
    "Case": _case,
    "Column": _column,
    "Literal": _literal,
    "Null": _null,
    "Paren": _paren,
    "Select": _scalar,
    "Subquery": _scalar,
}
"""What builds each construct that is here."""
