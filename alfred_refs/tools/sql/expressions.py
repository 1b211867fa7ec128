"""Builder of scalar expressions: operators, conditions, conversions.

    <Case ifs=[<If true=1>] default=2>        CASE WHEN ... THEN :n0 ELSE :n1 END
    <Sub this=day expression=1>               plans.day - :n0
    <GT this=day expression='2026-01-01'>     plans.day > CAST(:t0 AS DATE)
    <In this=recipe_id query=<Select>>        plans.recipe_id IN (SELECT ...)
    <Interval this='3 days'>                  CAST(:t0 AS INTERVAL)

`value_of` finds the builder of a node's class and returns a `Value`; a node without a builder is
refused with its name.

>>> from alfred_refs.tools import Toolset
>>> toolset = Toolset([Recipe, Line], sql=True)
>>> sql = "select name, servings * 2 as double from recipes where servings > 1"
>>> toolset.call(session, "db_query", {"sql": sql})["rows"]
[['Soup', 4]]
>>> sql = "select id || 'x' from recipes"
>>> toolset.call(session, "db_query", {"sql": sql})["error"]["message"]
"the statement cannot be answered: '||' is made of a ref ('id'); refs are selected, counted, ..."

Every value has the type that PostgreSQL gives it, so that a text next to it is read as that type.
Values that are compared must be of one kind: a text next to keys is a ref, and next to data it is
data.

Limits: nothing is computed with keys and keys are not converted; an expression made of a key could
reveal it, piece by piece.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Case,
    Cast,
    Date,
    DateTime,
    Double,
    Float,
    Function,
    Integer,
    Interval,
    Numeric,
    String,
    Text,
    Time,
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
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB
from sqlalchemy.sql.elements import (
    BinaryExpression,
    BooleanClauseList,
    False_,
    Grouping,
    Null,
    True_,
    UnaryExpression,
)
from sqlalchemy.types import NullType, TypeEngine
from sqlglot import expressions as exp

from alfred_refs.tools.errors import invalid_sql
from alfred_refs.tools.sql.parsing import (
    describe_node,
    number_of,
    parts,
    string_number,
    unsupported,
)
from alfred_refs.tools.sql.scopes import (
    MOST_DIGITS,
    NAMES,
    SHORT,
    Query,
    Scope,
    Value,
    bounded_number,
    item_key,
    list_key,
    list_type,
    named_type,
    require_data,
    unify_values,
    widest,
)


def value_of(node: Any, scope: Scope) -> Value:
    """Build the value of a node.

    Raises:
        ToolError: there is no builder for it, or it cannot be used so.
    """
    make = scope.building.makers.get(type(node).__name__)
    if make is None:
        raise unsupported(describe_node(node))
    budget = scope.building.budget
    before = budget.spent
    budget.spend(1)
    with budget.level():
        value = make(node, scope)
    return replace(value, size=budget.spent - before)


def values_of(nodes: Sequence[Any], scope: Scope) -> list[Value]:
    """Build the values of several nodes."""
    return [value_of(each, scope) for each in nodes]


def condition_of(node: Any, scope: Scope) -> Any:
    """Build a condition.

    Raises:
        ToolError: it is not boolean.
    """
    value = require_data(value_of(node, scope), "a condition")
    if not (value.is_null or isinstance(value.type, Boolean)):
        raise invalid_sql(
            f"a condition is a value ({value.name!r})", "compare it: = , > or IS NULL"
        )
    return value.element


def element_of(value: Value, scope: Scope) -> Any:
    """Return the SQLAlchemy element of a value; an untyped text becomes text."""
    return scope.building.literals.text(value)


def comparison_element(values: Sequence[Value], scope: Scope) -> list[Any]:
    """Return the SQLAlchemy elements of values that are compared with each other.

    Raises:
        ToolError: they are of several kinds.
    """
    found = unify_values(values, scope.building.literals, "a comparison", by_first=True)
    return [operand(each.element) for each in found]


def operand(element: Any) -> Any:
    """Return an element to compare; SQLAlchemy would turn a plain constant into IS."""
    return Grouping(element) if isinstance(element, False_ | Null | True_) else element


def name_of(node: Any) -> str:
    """Return an identifier as PostgreSQL folds it: in lower case without quotes."""
    name, _ = parts(node, "this", "quoted")
    return str(name)


def literal_of(node: Any) -> tuple[int, str | None]:
    """Return which literal a node is, and the type of a number.

    Raises:
        ToolError: it is not a literal.
    """
    if not isinstance(node, exp.Literal):
        raise invalid_sql(
            f"{describe_node(node)} stands where a number or text is needed", "write it out"
        )
    marker, is_string = parts(node, "this", "is_string")
    return (string_number(marker), None) if is_string else number_of(int(marker))


def integer_of(node: Any, scope: Scope) -> int:
    """Return an integer that the statement itself depends on.

    Raises:
        ToolError: it is not an integer.
    """
    literal, kind = literal_of(node)
    if kind != "integer":
        raise invalid_sql("another value stands where an integer is needed", "write an integer")
    return int(scope.building.literals.fix(literal))


def _column(node: Any, scope: Scope) -> Value:
    this, table = parts(node, "this", "table")
    if isinstance(this, exp.Star):
        raise invalid_sql("'*' stands in an expression", "name the columns that you want")
    value = scope.column(None if table is None else name_of(table), name_of(this))
    scope.building.budget.spend(value.size)
    return value


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
    chosen = unify_values(results, scope.building.literals, "CASE")
    *elements, last = (each.element for each in chosen)
    if this is None:
        tests = [condition_of(each, scope) for each in conditions]
    else:
        first, *rest = comparison_element(values_of([this, *conditions], scope), scope)
        tests = [first == each for each in rest]
    made = case(*zip(tests, elements, strict=True), else_=last)
    like = widest(chosen)
    is_weak = results[-1].is_weak
    name = "case" if is_weak else results[-1].name
    return Value(typed_element(made, like.type), name, like.key, weak=is_weak)


def typed_element(element: Any, type_: TypeEngine[Any]) -> Any:
    """Set the type of an element, if SQLAlchemy knows none or takes that of the first operand."""
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
    if isinstance(element, Case | Cast):  # SQLAlchemy does not add parentheses
        element = Grouping(element)
    return Value(element[place.element], value.name, item_key(value.key))


def item_of(many: Value) -> Value:
    """Return a value of the type of a list's items."""
    return Value(cast(null(), many.type.item_type), many.name, item_key(many.key))  # type: ignore[attr-defined]


def list_of(node: Any, scope: Scope, like: Sequence[Value] = ()) -> Value:
    """Build a list; for `ARRAY[...]`, next to values that its items are compared with.

    Raises:
        ToolError: they are of several kinds.
    """
    if not isinstance(node, exp.Array):
        return value_of(node, scope)
    (nodes,) = parts(node, "expressions")
    if not nodes:
        raise unsupported("an empty ARRAY[]", "write '{}'")
    items = unify_values([*values_of(nodes, scope), *like], scope.building.literals, "ARRAY[]")
    first = widest(items)
    type_: ARRAY[Any] = ARRAY(Text()) if first.is_open else list_type(first.type)
    elements = [each.element for each in items[: len(nodes)]]
    made: Any = postgresql.array(elements, type_=type_.item_type)
    # SQLAlchemy sends texts as VARCHAR, and PostgreSQL has no operators of text[] and varchar[]
    is_text = isinstance(type_.item_type, String)
    key = list_key(first.key)
    return Value(cast(made, type_) if is_text and key is None else made, "array", key)


def subquery_of(node: Any, scope: Scope) -> Query:
    """Build a subquery; equal ones are one object, so that GROUP BY can name what is selected."""
    while isinstance(node, exp.Paren | exp.Subquery) and not any(
        value for name, value in node.args.items() if name != "this"
    ):
        node = node.this
    budget = scope.building.budget
    if node not in scope.subqueries:
        before = budget.spent
        query = scope.building.query(node, scope.inner())
        scope.subqueries[node] = query, budget.spent - before
        return query
    query, cost = scope.subqueries[node]
    budget.spend(cost)
    return query


def one_column_of(node: Any, scope: Scope) -> Query:
    """Build a subquery for its values.

    Raises:
        ToolError: it has several columns.
    """
    rows = subquery_of(node, scope)
    if len(rows.values) != 1:
        raise invalid_sql("a subquery for values has several columns", "select one column there")
    return rows


def _scalar(node: Any, scope: Scope) -> Value:
    rows = one_column_of(node, scope)
    value = rows.values[0]
    return Value(rows.statement.scalar_subquery(), value.name, value.key, weak=False)


VALUE_BUILDERS: Mapping[str, Callable[[Any, Scope], Value]] = {
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
"""The builders of values, by node class."""


_SIGNS: Mapping[str, str] = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "Pow": "^",
}
_POWER, _PATTERN = 20, 5  # units of the budget

_OF_LISTS: Mapping[str, str] = {
    "ArrayContainsAll": "@>",
    "ArrayContainedBy": "<@",
    "ArrayOverlaps": "&&",
}


def _arithmetic(node: Any, scope: Scope) -> Value:
    left, right = (
        require_data(value_of(each, scope), "a computation")
        for each in parts(node, "this", "expression", "typed", "safe")[:2]
    )
    sign = _SIGNS[type(node).__name__]
    type_ = _result(sign, left.type, right.type)
    if left.is_open or right.is_open:
        raise invalid_sql(
            "a text or NULL is computed with",
            "write its type: DATE '2026-05-01', INTERVAL '1 day', or a number without quotes",
        )
    elements = [left.element, right.element]
    if sign == "^" and not isinstance(type_, Float):
        scope.building.budget.spend(_POWER)
        elements = [
            bounded_number(each, MOST_DIGITS[word])
            for each, word in zip(elements, ("base", "power"), strict=True)
        ]
    return Value(elements[0].op(sign, return_type=type_)(elements[1]))


def _result(sign: str, left: TypeEngine[Any], right: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the type of a computation in PostgreSQL; `NullType` if it has no such operator."""
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
    value = require_data(value_of(this, scope), "a computation")
    if not _is_number(value.type):
        raise invalid_sql("'-' stands before what is no number", "write -1, or INTERVAL '-1 day'")
    return Value(-value.element)


def _concatenate(node: Any, scope: Scope) -> Value:
    left, right = (
        require_data(value_of(each, scope), "'||'")
        for each in parts(node, "this", "expression", "safe")[:2]
    )
    types = [each.type for each in (left, right)]
    special = next((each for each in types if isinstance(each, ARRAY | JSONB)), None)
    if special is not None and (left.literal is not None or right.literal is not None):
        raise invalid_sql(
            "a text is joined to a list", "write ARRAY['a', 'b'], or a document::jsonb"
        )
    elements = element_of(left, scope), element_of(right, scope)
    type_ = Text() if special is None else special
    return Value(elements[0].op("||", return_type=type_)(elements[1]))


def _field(node: Any, scope: Scope) -> Value:
    """Build `->` and `->>`: a member or an element of a document."""
    this, path = parts(node, "this", "expression", "only_json_types")[:2]
    document = require_data(value_of(this, scope), "a part of a document")
    if not isinstance(document.type, JSON):
        raise invalid_sql(
            f"{document.name!r} is no document", "use '->' and '->>' on json columns"
        )
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
        raise invalid_sql(f"{sign!r} is used on a ref", "use = or IN (...)")
    if any(each.key for each in pair) and any(each.literal is not None for each in pair):
        raise invalid_sql("refs are written as one text", "write ARRAY[...] with a text for each")
    left, right = comparison_element(pair, scope)
    return Value(left.op(sign, return_type=Boolean(), is_comparison=True)(right))


def _at_zone(node: Any, scope: Scope) -> Value:
    this, zone = parts(node, "this", "zone")
    value = require_data(value_of(this, scope), "a time")
    if not isinstance(value.type, DateTime):
        raise invalid_sql("AT TIME ZONE is used on what is no timestamp", "use it on a timestamp")
    name = require_data(value_of(zone, scope), "a time zone")
    type_ = DateTime(timezone=not value.type.timezone)
    return Value(
        Function("timezone", element_of(name, scope), value.element, type_=type_), "timezone"
    )


OPERATOR_BUILDERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "AtTimeZone": _at_zone,
    "DPipe": _concatenate,
    "JSONExtract": _field,
    "JSONExtractScalar": _field,
    "Neg": _negative,
    **dict.fromkeys(_SIGNS, _arithmetic),
    **dict.fromkeys(_OF_LISTS, _of_lists),
}
"""The builders of operators, by node class."""


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
        while waiting:  # iterative, because a chain of AND is a deep tree
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
    return Value(compare(*comparison_element(values_of([left, right], scope), scope)))


def _quantifier(node: Any) -> tuple[Any, Any] | None:
    """Return ANY or ALL and the list after it; `None` for other nodes."""
    if isinstance(node, exp.Any):
        (inside,) = parts(node, "this")
        return any_, inside.this if isinstance(inside, exp.Paren) else inside
    if isinstance(node, exp.Anonymous) and node.name in ("any", "some", "all"):
        nodes = parts(node, "this", "expressions")[1]
        if len(nodes) == 1:
            return (all_ if node.name == "all" else any_), nodes[0]
    return None


def _compare_each(left: Any, quantifier: Any, inside: Any, compare: Any, scope: Scope) -> Value:
    """Build a comparison with any element of a list, or with all."""
    if isinstance(inside, exp.Query):
        raise unsupported("ANY or ALL with a subquery", "use IN or NOT IN, or EXISTS")
    one = value_of(left, scope)
    many = list_of(inside, scope, [one] if one.key is not None else ())
    if many.literal is not None:
        raise unsupported("a list written as a text", "write ARRAY['a', 'b']")
    if not isinstance(many.type, ARRAY):
        raise invalid_sql("ANY or ALL is used on what is no list", "use IN (...)")
    return Value(
        compare(comparison_element([one, item_of(many)], scope)[0], quantifier(many.element))
    )


def _is(node: Any, scope: Scope) -> Value:
    this, what, negate = parts(node, "this", "expression", "negate")
    if not isinstance(what, exp.Null | exp.Boolean):
        raise unsupported(f"IS {describe_node(what)}", "use IS NULL, IS TRUE or IS DISTINCT FROM")
    value = value_of(this, scope)
    if isinstance(what, exp.Boolean):
        require_data(value, "a condition")
    element, constant = element_of(value, scope), value_of(what, scope).element
    return Value(element.is_not(constant) if negate else element.is_(constant))


def _in(node: Any, scope: Scope) -> Value:
    this, nodes, query = parts(node, "this", "expressions", "query")
    if isinstance(this, exp.Tuple):
        raise unsupported("a row of values", "compare column by column, with AND and OR")
    value = value_of(this, scope)
    if query is not None:
        rows = one_column_of(query, scope)
        return Value(comparison_element([value, rows.values[0]], scope)[0].in_(rows.statement))
    one, *others = comparison_element([value, *values_of(nodes, scope)], scope)
    return Value(one.in_(others))


def _between(node: Any, scope: Scope) -> Value:
    found = values_of(parts(node, "this", "low", "high"), scope)
    one, low, high = comparison_element(found, scope)
    return Value(typed_element(one.between(low, high), Boolean()))


def _like(node: Any, scope: Scope, escape: str | None = None) -> Value:
    this, pattern, negate = parts(node, "this", "expression", "negate")
    left, right = (require_data(value_of(each, scope), "a pattern") for each in (this, pattern))
    for each in (left, right):
        if not (each.is_open or isinstance(each.type, String)):
            raise invalid_sql(
                f"LIKE is used on what is no text ({each.name!r})", "use CAST(x AS text)"
            )
    scope.building.budget.spend(_PATTERN)
    bounded = scope.building.literals.bounded
    sizes = (bounded(left, "text"), bounded(right, "part"))
    element, text = (operand(element_of(each, scope)) for each in sizes)
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


CONDITION_BUILDERS: Mapping[str, Callable[[Any, Scope], Value]] = {
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
"""The builders of conditions, by node class."""


_MOST_DIGITS = 1_000  # PostgreSQL's limit for numeric


def _cast(node: Any, scope: Scope) -> Value:
    this, to = parts(node, "this", "to", "_type")[:2]
    value, type_ = value_of(this, scope), _type_of(to, scope)
    name = _name_of(to) if value.is_weak else value.name
    if value.key is not None:
        if isinstance(type_, Uuid) and isinstance(value.type, Uuid):
            return value
        raise invalid_sql(
            f"the ref {value.name!r} is converted", "refs are texts; leave the cast out"
        )
    if value.literal is not None and isinstance(type_, Uuid):
        return replace(value, name=name, weak=True)  # a ref, next to refs
    require_data(value, "a conversion")
    if not isinstance(type_, String):
        is_large = isinstance(type_, ARRAY | JSON)
        value = scope.building.literals.bounded(value, "text" if is_large else "part")
    return Value(cast(element_of(value, scope), type_), name, weak=value.is_weak)


def _name_of(node: Any) -> str:
    """Return PostgreSQL's name for a type, which is that of a column cast to it."""
    kind = str(getattr(node.this, "name", node.this))
    return SHORT.get(kind, kind.lower())


def _type_of(node: Any, scope: Scope) -> TypeEngine[Any]:
    """Return the type that a node names.

    Raises:
        ToolError: there is no such type to use.
    """
    kind = getattr(node.this, "name", "")
    if not isinstance(node, exp.DataType):
        raise invalid_sql(f"there is no type {str(node.this).lower()!r} to use", f"use {NAMES}")
    _, inside, _ = parts(node, "this", "expressions", "nested")
    if kind == "ARRAY" and len(inside) == 1:
        return ARRAY(_type_of(inside[0], scope))
    sizes = [integer_of(parts(each, "this")[0], scope) for each in inside or ()]
    found = named_type(kind, sizes)
    if found is None or any(size < 1 or size > _MOST_DIGITS for size in sizes[:1]):
        raise invalid_sql("there is no such type to use", f"use {NAMES}")
    return found


def _interval(node: Any, scope: Scope) -> Value:
    (this,) = parts(node, "this")
    literal, kind = literal_of(this)
    if kind is not None:
        raise invalid_sql("an interval is made of a number", "write INTERVAL '3 days'")
    made = scope.building.literals.text(Value(None, literal=literal), INTERVAL())
    return Value(made, "interval", weak=True)


CONVERSION_BUILDERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "Cast": _cast,
    "Interval": _interval,
}
"""The builders of conversions, by node class."""
