"""Rows put together: WITH and unions; and ORDER BY and LIMIT, which these have as SELECT has them.

    with_parts(<With recipes>, scope)    scope.parts["recipes"], a part that a FROM may name
    united(<Union left right>, scope)    (SELECT ...) UNION (SELECT ...)

Columns that are put together have refs of one table, or data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    except_,
    except_all,
    intersect,
    intersect_all,
    select,
    type_coerce,
    union,
    union_all,
)
from sqlglot import expressions as exp

from .calls import ordered
from .expressions import integer_of, literal_of, name_of
from .parsing import parts
from .refusing import refused, unsupported
from .scopes import Part, Query, Scope
from .types import width
from .values import Value, alike, widest

CLAUSES = ("with_", "order", "limit", "offset")
"""What SELECTs and unions have alike."""

_UNITING: Mapping[tuple[str, bool], Callable[..., Any]] = {
    ("Union", True): union,
    ("Union", False): union_all,
    ("Intersect", True): intersect,
    ("Intersect", False): intersect_all,
    ("Except", True): except_,
    ("Except", False): except_all,
}


def with_parts(node: Any, scope: Scope) -> Scope:
    """Take the parts of a WITH into a scope, and return it."""
    with_ = node.args.get("with_")
    if with_ is None:
        return scope
    nodes, recursive = parts(with_, "expressions", "recursive")
    for each in nodes:
        this, alias = parts(each, "this", "alias")
        name_node, columns = parts(alias, "this", "columns")
        name, names = name_of(name_node), [name_of(column) for column in columns or ()]
        if name in scope.parts:
            raise refused(f"WITH has two parts {name!r}", "give them names of their own")
        make = _recursive if recursive and _names(this, name) else _part
        scope.parts[name] = make(this, name, names, scope)
    return scope


def _names(node: Any, name: str) -> bool:
    """Tell whether a part of WITH names itself."""
    return any(each.name == name for each in node.find_all(exp.Table))


def _part(node: Any, name: str, names: Sequence[str], scope: Scope) -> Part:
    query = scope.building.query(node, scope.inner()).called(names, name)
    return Part(query, query.statement.cte(scope.building.alias("q", name)))


def _recursive(node: Any, name: str, names: Sequence[str], scope: Scope) -> Part:
    """Return a part that goes on from its own rows."""
    is_union = isinstance(node, exp.Union) and not any(node.args.get(each) for each in CLAUSES)
    if not is_union or _names(node.this, name):
        raise unsupported(
            f"{name!r}, which names itself,", "write SELECT ... UNION ALL SELECT ... in it"
        )
    first, second, is_distinct = parts(node, "this", "expression", "distinct")
    start = _settled(first, scope.inner()).called(names, name)
    cte = start.statement.cte(scope.building.alias("q", name), recursive=True)
    inner = scope.inner()
    inner.parts[name] = Part(start, cte)
    step = scope.building.query(second, inner)
    _matched([start, step], scope)
    return Part(start, (cte.union if is_distinct else cte.union_all)(step.statement))


def united(node: Any, scope: Scope) -> Query:
    """Return a union, with its WITH, order and limit.

    Raises:
        ToolError: its parts do not go together.
    """
    scope = with_parts(node, scope)
    left, right, is_distinct = parts(node, "this", "expression", "distinct", *CLAUSES)[:3]
    both = [_settled(each, scope.inner()) for each in (left, right)]
    unite = _UNITING[type(node).__name__, bool(is_distinct)]
    values = _matched(both, scope)
    rows = Query(unite(*(each.statement for each in both)), values)
    if any(
        width(new.type) > width(old.type) for new, old in zip(values, both[0].values, strict=True)
    ):
        rows = _nested(rows, scope)
    return around(rows, node, scope)


def _settled(node: Any, scope: Scope) -> Query:
    """Return a query whose rows may be put together with others: its order ends with it."""
    query = scope.building.query(node, scope)
    return _nested(query, scope) if query.is_ended else query


def _nested(query: Query, scope: Scope) -> Query:
    """Return the same rows of a SELECT from a query."""
    rows = query.statement.subquery(scope.building.alias("t", "a union"))
    columns = [rows.c[f"c{n}"] for n in range(1, len(query.values) + 1)]
    typed = [
        type_coerce(column, value.type) if width(value.type) > width(column.type) else column
        for column, value in zip(columns, query.values, strict=True)
    ]
    labels = [each.label(f"c{n}") for n, each in enumerate(typed, start=1)]
    return Query(select(*labels), query.values)


def _matched(queries: Sequence[Query], scope: Scope) -> list[Value]:
    """Return the columns of queries that are put together."""
    first, *others = ([*each.values] for each in queries)
    for other in others:
        if len(other) != len(first):
            raise refused("parts of a union have other numbers of columns", "select the same")
        for n, pair in enumerate(zip(first, other, strict=True)):
            keys = [each.key for each in pair]
            if any(keys) and not all(keys) and not any(each.is_null for each in pair):
                raise refused(
                    f"a union has refs beside data ({pair[0].name!r})", "select refs of one table"
                )
            both = alike(pair, scope.building.literals, "a union")
            column = pair[0].column if pair[0].column is pair[1].column else None
            if any(each.is_sealed for each in pair) and column is None:
                raise refused("a union has documents of several columns", "select one of them")
            key = next((each.key for each in both if each.key), None)
            element, type_ = pair[0].element, widest(both).type
            if width(type_) > width(pair[0].type) and not pair[0].is_null:
                element = type_coerce(element, type_)
            first[n] = replace(pair[0], element=element, key=key, column=column, literal=None)
    return first


def around(query: Query, node: Any, scope: Scope) -> Query:
    """Return a union in an order, or the first rows of it."""
    if not any(node.args.get(each) for each in CLAUSES[1:]):
        return query
    rows = _nested(query, scope)
    columns = list(rows.statement.selected_columns)

    def by_name(by: Any) -> Any:
        found = position(by, rows.values, scope)
        if found is None:
            raise refused("a union is ordered by an expression", "order by a selected column")
        return columns[found]

    order = node.args.get("order")
    statement = rows.statement
    if order is not None:
        statement = statement.order_by(*ordered(parts(order, "expressions")[0], scope, by_name))
    return limited(Query(statement, rows.values), node, scope)


def position(node: Any, values: Sequence[Value], scope: Scope) -> int | None:
    """Return which selected column is meant by its name or position; `None` if by neither."""
    if isinstance(node, exp.Literal):
        place = integer_of(node, scope)
        if not 1 <= place <= len(values):
            raise refused(f"there is no column {place} in the SELECT", "name the column")
        return place - 1
    if not isinstance(node, exp.Column) or node.args.get("table") is not None:
        return None
    found = [n for n, each in enumerate(values) if each.name == node.name]
    if len({id(values[n].element) for n in found}) > 1:
        raise refused(f"{node.name!r} is selected several times", "give each a name of its own")
    return found[0] if found else None


def limited(query: Query, node: Any, scope: Scope) -> Query:
    """Return rows of a query, as many as a LIMIT or FETCH says, after those of an OFFSET."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    statement, rows = query.statement, None
    if limit is not None:
        rows = _rows(_limit(limit), scope)
        statement = statement.limit(rows.element)
    if offset is not None:
        statement = statement.offset(_rows(parts(offset, "expression")[0], scope).element)
    is_ended = any(node.args.get(each) for each in CLAUSES[1:])
    return Query(statement, query.values, is_ended, None if rows is None else rows.number)


def _limit(node: Any) -> Any:
    if not isinstance(node, exp.Fetch):
        return parts(node, "expression")[0]
    _, count, options = parts(node, "direction", "count", "limit_options")
    if options is not None:
        parts(options, "rows")
    return count


def _rows(node: Any, scope: Scope) -> Value:
    """Return how many rows a LIMIT or OFFSET says."""
    literal, kind = literal_of(node) if isinstance(node, exp.Literal) else (0, None)
    if kind != "integer":
        raise refused("LIMIT or OFFSET is no integer", "write an integer, or leave it out")
    return scope.building.literals.number(literal, kind)
