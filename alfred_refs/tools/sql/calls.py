"""Builder of function calls, aggregates and windows.

    <Anonymous this=lower expressions=[name]>               lower(recipes.name)
    <Anonymous this=count expressions=[<Distinct name>]>    count(DISTINCT recipes.name)
    <Filter this=<count> expression=<Where>>                count(*) FILTER (WHERE ...)
    <Window this=<lag> partition_by=[..] order=..>          lag(...) OVER (PARTITION BY ...)

A function is looked up by name in `scopes.FUNCTIONS`, which says how many arguments it takes, of
which types, whether they may be refs, and whether FILTER, OVER or WITHIN GROUP may follow it.

>>> from alfred_refs.tools import Toolset
>>> toolset = Toolset([Recipe, Line], sql=True)
>>> sql = "select name, rank() over (order by servings desc) as place from recipes order by place"
>>> toolset.call(session, "db_query", {"sql": sql})["rows"]
[['Soup', 1], ['Toast', 2]]
>>> toolset.call(session, "db_query", {"sql": "select pg_sleep(9)"})["error"]["code"]
'invalid_sql'

Each builder takes a node of sqlglot's tree and a `Scope`, and returns a `Value` with the type that
PostgreSQL gives it.

Limits: a function that is not in the table is refused, whatever the database has. An application
adds immutable functions with `Toolset(sql={"similarity": "text text -> double"})`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Date,
    DateTime,
    Double,
    Float,
    Function,
    Integer,
    Interval,
    Numeric,
    Text,
    distinct,
    extract,
    func,
    over,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import INTERVAL, aggregate_order_by
from sqlalchemy.types import TypeEngine
from sqlglot import expressions as exp

from alfred_refs.tools.errors import invalid_sql
from alfred_refs.tools.sql.expressions import (
    condition_of,
    element_of,
    integer_of,
    literal_of,
    value_of,
    values_of,
)
from alfred_refs.tools.sql.parsing import parts, unknown_name, unsupported
from alfred_refs.tools.sql.scopes import (
    LONGEST,
    MOST_DIGITS,
    TYPES,
    Scope,
    Value,
    bounded_number,
    item_key,
    list_key,
    list_type,
    require_data,
    require_inspectable,
    unify_values,
    widest,
)

_FIELDS = frozenset(
    (
        *("century", "day", "decade", "dow", "doy", "epoch", "hour", "isodow", "isoyear"),
        *("microseconds", "millennium", "milliseconds", "minute", "month", "quarter", "second"),
        *("week", "year"),
    )
)
_NUMBERS = Integer, Numeric, Float, Interval, INTERVAL
_SEARCH = 20  # units of the budget: a search in a text takes 7 ms at most, a power 40 ms
_GROWING = ("replace", "concat", "concat_ws", "array_to_string")  # may return longer texts

# an argument type of the table -> SQLAlchemy's types, its name and the remedy for errors
_KINDS: Mapping[str, tuple[Any, str, str]] = {
    "array": (ARRAY, "list", "call it on a list"),
    **dict.fromkeys(("number", "base", "power"), (_NUMBERS, "number", "convert it first")),
    "json": (JSON, "document", "call it on a json column"),
    "jsonb": (JSON, "document", "call it on a json column"),
}


def _call(node: Any, scope: Scope) -> Value:
    this, nodes = parts(node, "this", "expressions")
    name = (this if isinstance(this, str) else this.name).lower()
    function = scope.building.functions.get(name)
    if function is None:
        raise unknown_name("function", name, scope.building.functions)
    nodes, is_distinct, order = _arguments(list(nodes or ()), name)
    if name == "count" and not is_distinct and _is_star(nodes):
        parts(nodes[0])
        return Value(func.count(), name)
    most = None if function.repeats else len(function.takes)
    if len(nodes) < function.fewest or (most is not None and len(nodes) > most):
        raise invalid_sql(
            f"{name}() is called with {len(nodes)} arguments", "look up what it takes"
        )
    if (is_distinct or order) and function.kind != "aggregate":
        raise invalid_sql(f"{name}() has DISTINCT or ORDER BY", "use that in aggregates alone")
    values = _coerce_arguments(name, values_of(nodes, scope), scope)
    elements = [element_of(each, scope) for each in values]
    if is_distinct:
        elements[0] = distinct(elements[0])
    if order is not None:
        elements[-1] = aggregate_order_by(elements[-1], *order_elements(order, scope))
    first = next((each for each in values if not each.is_null), values[0] if values else None)
    if function.gives == "common":  # the second argument of `lag` is a number
        first = widest(values[::2] if function.kind == "window" else values)
    type_, key = _result_type(function.gives, first)
    is_short = function.gives == "text" and name not in _GROWING and function.kind == "plain"
    return Value(Function(name, *elements, type_=type_), name, key, is_short=is_short)


def _is_star(nodes: Sequence[Any]) -> bool:
    return len(nodes) == 1 and isinstance(nodes[0], exp.Star)


def _arguments(nodes: list[Any], name: str) -> tuple[list[Any], bool, Sequence[Any] | None]:
    """Return arguments without the DISTINCT and ORDER BY among them."""
    is_distinct, order = False, None
    if nodes and isinstance(nodes[-1], exp.Order):
        last, order = parts(nodes[-1], "this", "expressions")
        nodes = [*nodes[:-1], last]
    if nodes and isinstance(nodes[0], exp.Distinct):
        (inside,) = parts(nodes[0], "expressions")
        nodes, is_distinct = [*inside, *nodes[1:]], True
    if any(isinstance(each, exp.Distinct | exp.Order) for each in nodes):
        raise unsupported(f"DISTINCT or ORDER BY in this place of {name}()")
    return nodes, is_distinct, order


def _coerce_arguments(name: str, values: list[Value], scope: Scope) -> list[Value]:
    """Return arguments with the types that a function takes.

    Raises:
        ToolError: one has another type, or is a key.
    """
    function, what = scope.building.functions[name], f"{name}()"
    takes = [function.takes[min(n, len(function.takes) - 1)] for n in range(len(values))]
    same = [n for n, word in enumerate(takes) if word == "same"]
    chosen = unify_values([values[n] for n in same], scope.building.literals, what) if same else []
    values = [*values]
    for n, value in zip(same, chosen, strict=True):
        values[n] = value
    for word, value in zip(takes, values, strict=True):
        if name != "count":
            require_inspectable(value, what)
        if word != "same":
            _check(word, value, what, keys=function.keys)
    if "part" in takes or "power" in takes:
        scope.building.budget.spend(_SEARCH)
    return [_bounded(word, value, scope) for word, value in zip(takes, values, strict=True)]


def _bounded(word: str, value: Value, scope: Scope) -> Value:
    """Return an argument of the size that PostgreSQL computes in little time."""
    if word in LONGEST:
        return scope.building.literals.bounded(value, word)
    if word in MOST_DIGITS:
        return bounded_power(value, word)
    return value


def bounded_power(value: Value, word: str) -> Value:
    """Return the base or the exponent of a power."""
    if value.element is None or isinstance(value.type, Float):
        return value
    return replace(value, element=bounded_number(value.element, MOST_DIGITS[word]))


def _check(word: str, value: Value, what: str, *, keys: bool) -> None:
    """Check the type of one argument of a function."""
    if value.key is not None and not (keys and word in ("any", "array")):
        require_data(value, what)
    if word in ("any", "whole", *LONGEST):
        return
    if value.literal is not None and word != "array":
        wanted = "DATE '2026-05-01'" if word == "time" else f"a value of type {word}"
        raise invalid_sql(f"{what} is called with a text", f"give {wanted}")
    types, called, remedy = _KINDS.get(word, (object, "", ""))
    if not isinstance(value.type, types):
        raise invalid_sql(f"{what} is called on what is no {called} ({value.name!r})", remedy)


def _result_type(gives: str, first: Value | None) -> tuple[TypeEngine[Any], Any]:
    """Return the type of a function's result, and the keys that it passes on."""
    if gives in TYPES:
        return TYPES[gives], None
    type_ = Text() if first is None or first.element is None else first.type
    key = None if first is None else first.key
    match gives:
        case "same" | "common":
            return type_, key
        case "item":
            return (type_.item_type if isinstance(type_, ARRAY) else type_), item_key(key)
        case "array":
            return list_type(type_), list_key(key)
    return _numeric_type(gives, type_), None


def _numeric_type(gives: str, type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the type of a sum, an average, or a rounded number."""
    if gives == "trunc":
        is_time = isinstance(type_, DateTime | Interval | INTERVAL)
        return type_ if is_time else DateTime(timezone=True)
    if isinstance(type_, Interval | INTERVAL):
        return INTERVAL()
    if isinstance(type_, Float) or (gives == "round" and isinstance(type_, Integer)):
        return Double()
    is_small = isinstance(type_, Integer) and not isinstance(type_, BigInteger)
    return BigInteger() if gives == "sum" and is_small else Numeric()


def order_elements(
    nodes: Sequence[Any], scope: Scope, find: Callable[[Any], Any] | None = None
) -> list[Any]:
    """Return the ORDER BY expressions.

    Args:
        nodes: of an ORDER BY.
        scope: of its names.
        find: returns the expression for a node that is not one of the scope's, or `None`.
    """
    found = []
    for each in nodes:
        this, desc, nulls_first = parts(each, "this", "desc", "nulls_first")
        element = None if find is None else find(this)
        if element is None:
            element = element_of(require_inspectable(value_of(this, scope), "ORDER BY"), scope)
        by = element.desc() if desc else element.asc()
        if bool(nulls_first) is not bool(desc):
            by = by.nulls_first() if nulls_first else by.nulls_last()
        found.append(by)
    return found


def _extract(node: Any, scope: Scope) -> Value:
    this, expression = parts(node, "this", "expression")
    is_text = isinstance(this, exp.Literal)
    name = str(scope.building.literals.fix(literal_of(this)[0]) if is_text else this.name).lower()
    if not isinstance(this, exp.Literal | exp.Var) or name not in _FIELDS:
        raise unknown_name("field of a time", name, sorted(_FIELDS))
    value = require_data(value_of(expression, scope), "EXTRACT")
    if not isinstance(value.type, Date | DateTime | Interval | INTERVAL):
        raise invalid_sql("EXTRACT is used on what is no time", "write DATE '2026-05-01'")
    return Value(type_coerce(extract(name, value.element), Numeric()), "extract")


def _as_call(called: str, name: str, *arguments: str) -> Callable[[Any, Scope], Value]:
    """Return the builder of a function with a syntax of its own."""

    def make(node: Any, scope: Scope) -> Value:
        given = [each for each in parts(node, *arguments) if each is not None]
        made = _call(exp.Anonymous(this=called, expressions=given), scope)
        return replace(made, name=name)

    return make


def _trim(node: Any, scope: Scope) -> Value:
    this, signs, position = parts(node, "this", "expression", "position")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(position).upper(), "btrim")
    given = [this] if signs is None else [this, signs]
    return _call(exp.Anonymous(this=name, expressions=given), scope)


def _today(node: Any, _: Scope) -> Value:
    parts(node)
    return Value(func.current_date(), "current_date")


def _now(node: Any, _: Scope) -> Value:
    parts(node)
    return Value(Function("now", type_=DateTime(timezone=True)), "current_timestamp")


CALL_BUILDERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "Anonymous": _call,
    "CurrentDate": _today,
    "CurrentTimestamp": _now,
    "Extract": _extract,
    "StrPosition": _as_call("strpos", "position", "this", "substr"),
    "Substring": _as_call("substr", "substring", "this", "start", "length"),
    "Trim": _trim,
}
"""The builders of function calls, by node class."""


def _filter(node: Any, scope: Scope) -> Value:
    this, where = parts(node, "this", "expression")
    value = value_of(this, scope)
    if _kind(this, scope) != "aggregate":
        raise invalid_sql("FILTER stands behind what is no aggregate", "use CASE")
    (condition,) = parts(where, "this")
    return Value(value.element.filter(condition_of(condition, scope)), value.name, value.key)


def _kind(node: Any, scope: Scope) -> str:
    """Return the kind of a called function; empty for other nodes."""
    called = scope.building.functions.get(node.name.lower())
    return called.kind if called is not None and isinstance(node, exp.Anonymous) else ""


def _within(node: Any, scope: Scope) -> Value:
    this, order = parts(node, "this", "expression")
    value = value_of(this, scope)
    if _kind(this, scope) != "ordered":
        raise invalid_sql("WITHIN GROUP stands behind another function", "use percentile_cont")
    (nodes,) = parts(order, "expressions")
    if len(nodes) != 1:
        raise unsupported("WITHIN GROUP by several values")
    by = require_data(value_of(nodes[0].this, scope), "WITHIN GROUP")
    type_ = Double() if value.name == "percentile_cont" else by.type
    if isinstance(by.type, Interval | INTERVAL):
        type_ = by.type
    made: Any = value.element.within_group(*order_elements(nodes, scope))
    return Value(type_coerce(made, type_), value.name)


def _window(node: Any, scope: Scope) -> Value:
    names = ("this", "partition_by", "order", "spec", "over")
    this, partition, order, spec, kind = parts(node, *names)
    if kind != "OVER":
        raise unsupported("this kind of window")
    inner = this.this if isinstance(this, exp.Filter) else this
    if _kind(inner, scope) not in ("aggregate", "window"):
        raise invalid_sql("OVER stands behind what is no window function", "leave it out")
    value = value_of(this, scope)
    by = values_of(partition or (), scope)
    nodes = parts(order, "expressions")[0] if order is not None else []
    frame = _frame(spec, scope)
    if any(bound for bound in frame.get("range_", ())):
        for each in nodes:  # a RANGE offset is added to them
            require_data(value_of(each.this, scope), "RANGE")
    made = over(
        value.element,
        partition_by=[element_of(each, scope) for each in by] or None,
        order_by=order_elements(nodes, scope) or None,
        **frame,
    )
    return Value(made, value.name, value.key)


def _frame(spec: Any, scope: Scope) -> dict[str, Any]:
    """Return the frame arguments of a window."""
    if spec is None:
        return {}
    kind, start, start_side, end, end_side = parts(
        spec, "kind", "start", "start_side", "end", "end_side"
    )
    name = {"ROWS": "rows", "RANGE": "range_", "GROUPS": "groups"}.get(str(kind).upper())
    if name is None:
        raise unsupported("this frame of a window", "use ROWS BETWEEN")
    first = _frame_bound(start, start_side, scope)
    last = 0 if end is None else _frame_bound(end, end_side, scope)
    return {name: (first, last)}


def _frame_bound(bound: Any, side: Any, scope: Scope) -> int | None:
    if bound == "CURRENT ROW":
        return 0
    if bound == "UNBOUNDED":
        return None
    rows = integer_of(bound, scope)
    return -rows if str(side).upper() == "PRECEDING" else rows


WINDOW_BUILDERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "Filter": _filter,
    "Window": _window,
    "WithinGroup": _within,
}
"""The builders of FILTER, OVER and WITHIN GROUP, by node class."""
