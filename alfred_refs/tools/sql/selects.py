"""SELECTs: FROM, joins, WITH, unions, grouping, order and limits.

    query = built(tree, building)
    query.statement     select(_t1.c.c2.label("c1"), ...).where(...)
    query.values        what each column is, by the name that the model gave it

Columns are c1, c2 and so on wherever rows go from one SELECT to another; what they are called is
in the values. Names in GROUP BY and ORDER BY mean what they do in PostgreSQL: a column of FROM
goes first in GROUP BY, and what is selected in ORDER BY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    Function,
    except_,
    except_all,
    intersect,
    intersect_all,
    select,
    tuple_,
    union,
    union_all,
)
from sqlglot import expressions as exp

from alfred_refs import sqla

from . import calls, expressions, operators
from .calls import ordered
from .expressions import condition_of, element_of, integer_of, literal_of, name_of, value_of
from .froms import joined
from .parsing import named, parts
from .refusing import refused, unsupported
from .scopes import Part, Query, Scope
from .values import Value, alike, data

MAKERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    **expressions.MAKERS,
    **operators.MAKERS,
    **calls.MAKERS,
}
"""What builds each expression."""

_CLAUSES = ("with_", "order", "limit", "offset")
_SELECT = ("expressions", "distinct", "from_", "joins", "where", "group", "having", *_CLAUSES)
_UNITED = ("this", "expression", "distinct", *_CLAUSES)
_GROUPINGS: Mapping[str, str] = {
    "Rollup": "rollup",
    "Cube": "cube",
    "GroupingSets": "grouping_sets",
}

_UNITING: Mapping[tuple[str, bool], Callable[..., Any]] = {
    ("Union", True): union,
    ("Union", False): union_all,
    ("Intersect", True): intersect,
    ("Intersect", False): intersect_all,
    ("Except", True): except_,
    ("Except", False): except_all,
}


def query_of(node: Any, scope: Scope) -> Query:
    """Return what a SELECT or a union is, inside of a scope of its own.

    Raises:
        ToolError: it has what is not known here.
    """
    if isinstance(node, exp.Subquery | exp.Paren):
        names = [name for name in ("this", *_CLAUSES) if name in node.args]
        inner, *clauses = parts(node, *names)
        if not any(clauses):
            return query_of(inner, scope)
        return _around(query_of(inner, _with(node, scope)), node, scope)
    if isinstance(node, exp.SetOperation):
        return _united(node, scope)
    if not isinstance(node, exp.Select):
        raise unsupported(named(node), "write a SELECT")
    return _selected(node, scope)


def _with(node: Any, scope: Scope) -> Scope:
    """Take the parts of a WITH into a scope, and return it."""
    with_ = node.args.get("with_")
    if with_ is None:
        return scope
    nodes, recursive = parts(with_, "expressions", "recursive")
    for each in nodes:
        this, alias = parts(each, "this", "alias")
        name_node, columns = parts(alias, "this", "columns")
        name = name_of(name_node)
        if name in scope.parts:
            raise refused(f"WITH has two parts {name!r}", "give them names of their own")
        names = [name_of(column) for column in columns or ()]
        inner = Scope(scope.building, scope)
        is_recursive = recursive and _names(this, name)
        made = (_recursive if is_recursive else _part)(this, name, names, inner)
        scope.parts[name] = made
    return scope


def _part(node: Any, name: str, names: Sequence[str], scope: Scope) -> Part:
    query = query_of(node, scope)
    _check_names(query, names, name)
    cte = query.statement.cte(scope.building.alias("q", name))
    return Part(query, cte, names)


def _names(node: Any, name: str) -> bool:
    """Tell whether a part of WITH names itself."""
    return any(each.name == name for each in node.find_all(exp.Table))


def _recursive(node: Any, name: str, names: Sequence[str], scope: Scope) -> Part:
    """Return a part that goes on from its own rows."""
    if not isinstance(node, exp.Union) or any(node.args.get(each) for each in _CLAUSES):
        raise unsupported(
            f"{name!r}, which names itself,", "write SELECT ... UNION ALL SELECT ... in it"
        )
    first, second, is_distinct = parts(node, "this", "expression", "distinct")
    start = _settled(query_of(first, scope.inner()), scope)
    _check_names(start, names, name)
    cte = start.statement.cte(scope.building.alias("q", name), recursive=True)
    inner = scope.inner()
    inner.parts[name] = Part(start, cte, names)
    step = query_of(second, inner)
    _matched([start, step], scope)
    whole = cte.union(step.statement) if is_distinct else cte.union_all(step.statement)
    return Part(start, whole, names)


def _check_names(query: Query, names: Sequence[str], name: str) -> None:
    if len(names) > len(query.values):
        raise refused(f"{name!r} has more names than columns", "give each column one name")


def _united(node: Any, scope: Scope) -> Query:
    scope = _with(node, scope)
    left, right, is_distinct = parts(node, *_UNITED)[:3]
    both = [_settled(query_of(each, scope.inner()), scope) for each in (left, right)]
    values = _matched(both, scope)
    unite = _UNITING[type(node).__name__, bool(is_distinct)]
    return _around(Query(unite(*(each.statement for each in both)), values), node, scope)


def _settled(query: Query, scope: Scope) -> Query:
    """Return a query whose rows may be put together with others: its order ends with it."""
    return _nested(query, scope) if query.is_ended else query


def _nested(query: Query, scope: Scope) -> Query:
    """Return the same rows of a SELECT from a query."""
    rows = query.statement.subquery(scope.building.alias("t", "a union"))
    columns = [rows.c[f"c{n}"].label(f"c{n}") for n in range(1, len(query.values) + 1)]
    return Query(select(*columns), query.values)


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
            first[n] = replace(pair[0], key=key, column=column, literal=None)
    return first


def _around(query: Query, node: Any, scope: Scope) -> Query:
    """Return a union in an order, or the first rows of it."""
    if not any(node.args.get(each) for each in _CLAUSES[1:]):
        return query
    rows = _nested(query, scope)
    columns = list(rows.statement.selected_columns)

    def by_name(by: Any) -> Any:
        found = _position(by, rows.values, scope)
        if found is None:
            raise refused("a union is ordered by an expression", "order by a selected column")
        return columns[found]

    order = node.args.get("order")
    statement = rows.statement
    if order is not None:
        statement = statement.order_by(*ordered(parts(order, "expressions")[0], scope, by_name))
    return _limited(Query(statement, rows.values), node, scope)


def _selected(node: Any, scope: Scope) -> Query:
    scope = _with(node, scope)
    chosen, is_distinct, from_, joins, where, group, having = parts(node, *_SELECT)[:7]
    source = None if from_ is None else joined(from_, joins or [], scope, query_of)
    columns = [pair for each in chosen for pair in _chosen(each, scope)]
    nodes, values = [node for node, _ in columns], [value for _, value in columns]
    if not values:
        raise refused("nothing is selected", "name the columns that you want")
    values = [replace(each, element=element_of(each, scope), literal=None) for each in values]
    made = _Selected(
        scope, nodes, values, [v.element.label(f"c{n}") for n, v in enumerate(values, 1)]
    )
    statement: Any = select(*made.labels)
    if source is not None:
        statement = statement.select_from(source)
    if where is not None:
        statement = statement.where(condition_of(parts(where, "this")[0], scope))
    if group is not None:
        statement = statement.group_by(*made.grouped(group))
    if having is not None:
        statement = statement.having(condition_of(parts(having, "this")[0], scope))
    if is_distinct is not None:
        statement = made.distinct(statement, is_distinct)
    if node.args.get("order") is not None:
        statement = made.in_order(statement, parts(node.args["order"], "expressions")[0])
    statement = statement.correlate_except(*(each.from_ for each in scope.sources))
    return _limited(Query(statement, values), node, scope)


def _chosen(node: Any, scope: Scope) -> list[tuple[Any, Value]]:
    """Return the columns that one expression of a SELECT makes, with the nodes of each."""
    if isinstance(node, exp.Star):
        parts(node)
        return [(None, each) for each in scope.star(None)]
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        star, table = parts(node, "this", "table")
        parts(star)
        return [(None, each) for each in scope.star(name_of(table))]
    if isinstance(node, exp.Alias):
        this, alias = parts(node, "this", "alias")
        return [(this, replace(value_of(this, scope), name=name_of(alias)))]
    return [(node, value_of(node, scope))]


def _position(node: Any, values: Sequence[Value], scope: Scope) -> int | None:
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


@dataclass(frozen=True, slots=True)
class _Selected:
    """What is selected, for the clauses that may name it.

    Attributes:
        scope: of FROM.
        nodes: of the tree, `None` for columns of `*`.
        values: what is selected.
        labels: the same, with the names c1, c2 and so on.
    """

    scope: Scope
    nodes: Sequence[Any]
    values: Sequence[Value]
    labels: Sequence[Any]

    def _place(self, node: Any) -> int | None:
        """Return which selected column a node means: the same expression is one of them."""
        place = _position(node, self.values, self.scope)
        if place is not None or isinstance(node, exp.Literal):
            return place
        return next((n for n, each in enumerate(self.nodes) if each == node), None)

    def grouped(self, node: Any) -> list[Any]:
        """Return what a GROUP BY groups by."""
        (nodes,) = parts(node, "expressions")
        if not nodes:
            raise refused("GROUP BY names nothing", "name columns")
        return [self._group(each) for each in nodes]

    def _group(self, node: Any) -> Any:
        kind = _GROUPINGS.get(type(node).__name__)
        if kind is not None:
            (inside,) = parts(node, "expressions")
            return Function(kind, *(self._group(each) for each in inside))
        if isinstance(node, exp.Tuple):
            inside = parts(node, "expressions")[0] or ()
            return tuple_(*(self._group(each) for each in inside))
        place = None if self._is_column(node) else self._place(node)
        value = value_of(node, self.scope) if place is None else self.values[place]
        data(value, "GROUP BY") if value.is_sealed else None
        if value.is_open:
            raise refused("GROUP BY has a constant", "group by columns")
        return value.element

    def _is_column(self, node: Any) -> bool:
        """Tell whether a node names a column of FROM, which goes before what is selected."""
        if not isinstance(node, exp.Column) or node.args.get("table") is not None:
            return False
        return any(v.name == node.name for source in self.scope.sources for v in source.values)

    def distinct(self, statement: Any, node: Any) -> Any:
        """Return a statement with its DISTINCT."""
        (on,) = parts(node, "on")
        for value in self.values:
            data(value, "DISTINCT") if value.is_sealed else None
        if on is None:
            return statement.distinct()
        elements = []
        for each in parts(on, "expressions")[0] if isinstance(on, exp.Tuple) else [on]:
            inner = each.this if isinstance(each, exp.Paren) else each
            place = self._place(inner)
            value = value_of(inner, self.scope) if place is None else self.values[place]
            elements.append(element_of(value, self.scope))
        return sqla.distinct_on(statement, elements)

    def in_order(self, statement: Any, nodes: Sequence[Any]) -> Any:
        """Return a statement with its ORDER BY."""

        def selected(by: Any) -> Any:
            place = self._place(by)
            if place is None:
                return None
            value = self.values[place]
            data(value, "ORDER BY") if value.is_sealed else None
            return self.labels[place]

        return statement.order_by(*ordered(nodes, self.scope, selected))


def _limited(query: Query, node: Any, scope: Scope) -> Query:
    limit, offset = node.args.get("limit"), node.args.get("offset")
    statement, rows = query.statement, None
    if limit is not None:
        rows = _rows(_limit(limit), scope)
        statement = statement.limit(rows.element)
    if offset is not None:
        statement = statement.offset(_rows(parts(offset, "expression")[0], scope).element)
    is_ended = any(node.args.get(each) for each in _CLAUSES[1:])
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
