"""Windows and ordered sets: what stands behind a function, and says of which rows it is.

    <Filter this=<count> expression=<Where>>          count(*) FILTER (WHERE ...)
    <Window this=<lag> partition_by=[..] order=..>    lag(...) OVER (PARTITION BY ... ORDER BY ...)

Which functions these may stand behind is said in `functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Double, Interval, over, type_coerce
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlglot import expressions as exp

from .calls import ordered
from .expressions import condition_of, element_of, integer_of, value_of, values_of
from .parsing import parts
from .refusing import refused, unsupported
from .scopes import Scope
from .values import Value, data


def _filter(node: Any, scope: Scope) -> Value:
    this, where = parts(node, "this", "expression")
    value = value_of(this, scope)
    if _kind(this, scope) != "aggregate":
        raise refused("FILTER stands behind what is no aggregate", "use CASE")
    (condition,) = parts(where, "this")
    return Value(value.element.filter(condition_of(condition, scope)), value.name, value.key)


def _kind(node: Any, scope: Scope) -> str:
    """Return of which kind a function is that is called; empty for what is no function."""
    called = scope.building.functions.get(node.name.lower())
    return called.kind if called is not None and isinstance(node, exp.Anonymous) else ""


def _within(node: Any, scope: Scope) -> Value:
    this, order = parts(node, "this", "expression")
    value = value_of(this, scope)
    if _kind(this, scope) != "ordered":
        raise refused("WITHIN GROUP stands behind another function", "use percentile_cont")
    (nodes,) = parts(order, "expressions")
    if len(nodes) != 1:
        raise unsupported("WITHIN GROUP by several values")
    by = data(value_of(nodes[0].this, scope), "WITHIN GROUP")
    type_ = Double() if value.name == "percentile_cont" else by.type
    if isinstance(by.type, Interval | INTERVAL):
        type_ = by.type
    made: Any = value.element.within_group(*ordered(nodes, scope))
    return Value(type_coerce(made, type_), value.name)


def _window(node: Any, scope: Scope) -> Value:
    names = ("this", "partition_by", "order", "spec", "over")
    this, partition, order, spec, kind = parts(node, *names)
    if kind != "OVER":
        raise unsupported("this kind of window")
    inner = this.this if isinstance(this, exp.Filter) else this
    if _kind(inner, scope) not in ("aggregate", "window"):
        raise refused("OVER stands behind what is no window function", "leave it out")
    value = value_of(this, scope)
    by = values_of(partition or (), scope)
    nodes = parts(order, "expressions")[0] if order is not None else []
    frame = _frame(spec, scope)
    if any(bound for bound in frame.get("range_", ())):
        for each in nodes:  # it would compute with them
            data(value_of(each.this, scope), "RANGE")
    made = over(
        value.element,
        partition_by=[element_of(each, scope) for each in by] or None,
        order_by=ordered(nodes, scope) or None,
        **frame,
    )
    return Value(made, value.name, value.key)


def _frame(spec: Any, scope: Scope) -> dict[str, Any]:
    """Return the rows around each that a window has."""
    if spec is None:
        return {}
    kind, start, start_side, end, end_side = parts(
        spec, "kind", "start", "start_side", "end", "end_side"
    )
    name = {"ROWS": "rows", "RANGE": "range_", "GROUPS": "groups"}.get(str(kind).upper())
    if name is None:
        raise unsupported("this frame of a window", "use ROWS BETWEEN")
    first = _bound(start, start_side, scope)
    last = 0 if end is None else _bound(end, end_side, scope)
    return {name: (first, last)}


def _bound(bound: Any, side: Any, scope: Scope) -> int | None:
    if bound == "CURRENT ROW":
        return 0
    if bound == "UNBOUNDED":
        return None
    rows = integer_of(bound, scope)
    return -rows if str(side).upper() == "PRECEDING" else rows


MAKERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    "Filter": _filter,
    "Window": _window,
    "WithinGroup": _within,
}
"""What builds each."""
