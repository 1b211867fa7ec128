"""Expressions: a node of the tree to a `Value`, one function a construct.

    value_of(<GT this=day expression='2026-01-01'>, scope)    plans.day > :t0::DATE

What has no function here is refused, in words that name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    Boolean,
    String,
    Text,
    Uuid,
    all_,
    and_,
    any_,
    case,
    cast,
    false,
    not_,
    null,
    or_,
    true,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList, Grouping, UnaryExpression
from sqlalchemy.types import TypeEngine
from sqlglot import expressions as exp

from .lexing import number_of, string_number
from .parsing import named, parts
from .refusing import refused, unsupported
from .scopes import Scope
from .types import NAMES, SHORT, named_type
from .values import UNNAMED, Value, alike, data, item_key, list_key, list_type

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "EQ": lambda left, right: left == right,
    "NEQ": lambda left, right: left != right,
    "LT": lambda left, right: left < right,
    "LTE": lambda left, right: left <= right,
    "GT": lambda left, right: left > right,
    "GTE": lambda left, right: left >= right,
    "NullSafeEQ": lambda left, right: left.is_not_distinct_from(right),
    "NullSafeNEQ": lambda left, right: left.is_distinct_from(right),
}
_COMPARISON = "a comparison"
_MOST_DIGITS = 1_000  # of a numeric, as PostgreSQL has them


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
    return Value(Grouping(value.element), value.name, value.key)


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
    pair = alike(
        [value_of(left, scope), value_of(right, scope)], scope.building.literals, _COMPARISON
    )
    left, right = (element_of(each, scope) for each in pair)
    return Value(compare(left, right))


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
    many, one = value_of(inside, scope), value_of(left, scope)
    if many.literal is not None:
        raise unsupported("a list written as a text", "write ARRAY['a', 'b']")
    if not isinstance(many.type, ARRAY):
        raise refused("ANY or ALL is used on what is no list", "use IN (...)")
    item = Value(cast(null(), many.type.item_type), many.name, item_key(many.key))
    one, _ = alike([one, item], scope.building.literals, _COMPARISON)
    return Value(compare(element_of(one, scope), quantifier(many.element)))


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
        rows = _subquery(query, scope)
        if len(rows.values) != 1:
            raise refused("IN has a subquery of several columns", "select one column there")
        value, _ = alike([value, rows.values[0]], scope.building.literals, _COMPARISON)
        return Value(element_of(value, scope).in_(rows.statement))
    value, *others = alike([value, *values_of(nodes, scope)], scope.building.literals, _COMPARISON)
    return Value(element_of(value, scope).in_([element_of(each, scope) for each in others]))


def _between(node: Any, scope: Scope) -> Value:
    found = [value_of(each, scope) for each in parts(node, "this", "low", "high")]
    value, low, high = alike(found, scope.building.literals, _COMPARISON)
    ends = element_of(low, scope), element_of(high, scope)
    return Value(_typed(element_of(value, scope).between(*ends), Boolean()))


def _like(node: Any, scope: Scope, escape: str | None = None) -> Value:
    this, pattern, negate = parts(node, "this", "expression", "negate")
    left, right = (data(value_of(each, scope), "a pattern") for each in (this, pattern))
    for each in (left, right):
        if not (each.is_open or isinstance(each.type, String)):
            raise refused(
                f"LIKE is used on what is no text ({each.name!r})", "use CAST(x AS text)"
            )
    element, text = element_of(left, scope), element_of(right, scope)
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


def _case(node: Any, scope: Scope) -> Value:
    this, whens, default = parts(node, "this", "ifs", "default")
    conditions, results = [], []
    for each in whens:
        condition, result = parts(each, "this", "true")
        conditions.append(condition)
        results.append(value_of(result, scope))
    results.append(Value(null()) if default is None else value_of(default, scope))
    chosen = alike(results, scope.building.literals, "CASE")
    elements = [element_of(each, scope) for each in chosen]
    if this is None:
        tests = [condition_of(each, scope) for each in conditions]
    else:
        compared = [value_of(this, scope), *values_of(conditions, scope)]
        alike_ones = alike(compared, scope.building.literals, _COMPARISON)
        first, *rest = (element_of(each, scope) for each in alike_ones)
        tests = [first == each for each in rest]
    made = case(*zip(tests, elements[:-1], strict=True), else_=elements[-1])
    typed = next((each for each in chosen if not each.is_null), chosen[0])
    name = _name_after(default, results[-1])
    return Value(_typed(made, typed.type), name, typed.key)


def _name_after(node: Any, value: Value) -> str:
    """Return what PostgreSQL calls a CASE: as its ELSE, unless that has no name but a type's."""
    while isinstance(node, exp.Cast | exp.Paren):
        node = node.this
    is_unnamed = node is None or isinstance(
        node, exp.Boolean | exp.Interval | exp.Literal | exp.Binary
    )
    return "case" if is_unnamed or value.name == UNNAMED else value.name


def _typed(element: Any, type_: TypeEngine[Any]) -> Any:
    """Return an element that has a type, where SQLAlchemy knows none or takes the first."""
    element.type = type_
    return element


def _cast(node: Any, scope: Scope) -> Value:
    this, to = parts(node, "this", "to", "_type")[:2]
    value, type_ = value_of(this, scope), type_of(to, scope)
    inner = this.unnest()
    is_weak = isinstance(inner, exp.Case) and value.name == "case"
    name = name_of_type(to) if is_weak or value.name == UNNAMED else value.name
    if value.key is not None:
        if isinstance(type_, Uuid) and isinstance(value.type, Uuid):
            return value
        raise refused(f"the ref {value.name!r} is converted", "refs are texts; leave the cast out")
    if value.literal is not None and isinstance(type_, Uuid):
        return value  # a ref, beside refs
    data(value, "a conversion")
    return Value(cast(element_of(value, scope), type_), name)


def name_of_type(node: Any) -> str:
    """Return what PostgreSQL calls a type, and a column that is converted to it."""
    kind = str(getattr(node.this, "name", node.this))
    return SHORT.get(kind, kind.lower())


def type_of(node: Any, scope: Scope) -> TypeEngine[Any]:
    """Return the type that a node names.

    Raises:
        ToolError: there is none to use.
    """
    kind = getattr(node.this, "name", "")
    if not isinstance(node, exp.DataType):
        raise refused(f"there is no type {str(node.this).lower()!r} to use", f"use {NAMES}")
    _, inside, _ = parts(node, "this", "expressions", "nested")
    if kind == "ARRAY" and len(inside) == 1:
        return ARRAY(type_of(inside[0], scope))
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
    made = scope.building.literals.text(Value(None, literal=literal), postgresql.INTERVAL())
    return Value(made, "interval")


def _bracket(node: Any, scope: Scope) -> Value:
    this, [index] = parts(node, "this", "expressions", "offset")[:2]
    value = value_of(this, scope)
    if not isinstance(value.type, ARRAY) or not isinstance(index, exp.Literal):
        raise unsupported("'[...]' but for one element of a list by its number")
    # sqlglot counts from 0
    literal, kind = number_of(int(index.this) + 1)
    place = scope.building.literals.number(literal, kind)
    element: Any = value.element
    return Value(element[place.element], value.name, item_key(value.key))


def _array(node: Any, scope: Scope) -> Value:
    (nodes,) = parts(node, "expressions")
    if not nodes:
        raise unsupported("an empty ARRAY[]", "write '{}'")
    items = alike(values_of(nodes, scope), scope.building.literals, "ARRAY[]")
    elements = [element_of(each, scope) for each in items]
    first = next((each for each in items if not each.is_open), None)
    type_: ARRAY[Any] = ARRAY(Text()) if first is None else list_type(first.type)
    made: Any = postgresql.array(elements, type_=type_.item_type)
    # SQLAlchemy sends texts as VARCHAR, and PostgreSQL has no operators of text[] and varchar[]
    is_text = isinstance(type_.item_type, String)
    key = None if first is None else list_key(first.key)
    return Value(cast(made, type_) if is_text and key is None else made, "array", key)


def _subquery(node: Any, scope: Scope) -> Any:
    return scope.building.query(node, scope.inner())


def _scalar(node: Any, scope: Scope) -> Value:
    rows = _subquery(node, scope)
    if len(rows.values) != 1:
        raise refused(
            "a subquery of several columns stands for a value", "select one column there"
        )
    value = rows.values[0]
    return Value(rows.statement.scalar_subquery(), value.name, value.key)


def _exists(node: Any, scope: Scope) -> Value:
    (this,) = parts(node, "this")
    return Value(_subquery(this, scope).statement.exists(), "exists")


MAKERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "And": _logic(and_, exp.And),
    "Array": _array,
    "Between": _between,
    "Boolean": _constant,
    "Bracket": _bracket,
    "Case": _case,
    "Cast": _cast,
    "Column": _column,
    "Escape": _escape,
    "Exists": _exists,
    "ILike": _like,
    "In": _in,
    "Interval": _interval,
    "Is": _is,
    "Like": _like,
    "Literal": _literal,
    "Not": _not,
    "Null": _null,
    "Or": _logic(or_, exp.Or),
    "Paren": _paren,
    "Select": _scalar,
    "Subquery": _scalar,
    **dict.fromkeys(_COMPARISONS, _compare),
}
"""What builds each construct that is here."""
