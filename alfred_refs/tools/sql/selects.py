"""SELECTs: what is selected, DISTINCT, WHERE, GROUP BY, HAVING and ORDER BY.

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

from sqlalchemy import func, select, tuple_
from sqlglot import expressions as exp

from alfred_refs import sqla

from . import calls, conditions, conversions, expressions, operators, windows
from .calls import ordered
from .expressions import condition_of, element_of, name_of, value_of
from .froms import joined
from .parsing import named, parts
from .refusing import refused, unsupported
from .scopes import Query, Scope
from .unions import CLAUSES, around, limited, position, united, with_parts
from .values import Value, unsealed

MAKERS: Mapping[str, Callable[[Any, Scope], Value]] = {
    **expressions.MAKERS,
    **operators.MAKERS,
    **calls.MAKERS,
    **conditions.MAKERS,
    **conversions.MAKERS,
    **windows.MAKERS,
}
"""What builds each expression."""

_SELECT = ("expressions", "distinct", "from_", "joins", "where", "group", "having", *CLAUSES)
_GROUPINGS: Mapping[str, Callable[..., Any]] = {
    "Rollup": func.rollup,
    "Cube": func.cube,
    "GroupingSets": func.grouping_sets,
}


def query_of(node: Any, scope: Scope) -> Query:
    """Return what a SELECT or a union is, inside of a scope of its own.

    Raises:
        ToolError: it has what is not known here.
    """
    if isinstance(node, exp.Subquery | exp.Paren):
        names = [name for name in ("this", *CLAUSES) if name in node.args]
        inner, *clauses = parts(node, *names)
        if not any(clauses):
            return query_of(inner, scope)
        return around(query_of(inner, with_parts(node, scope)), node, scope)
    if isinstance(node, exp.SetOperation):
        return united(node, scope)
    if not isinstance(node, exp.Select):
        raise unsupported(named(node), "write a SELECT")
    return _selected(node, scope)


def _selected(node: Any, scope: Scope) -> Query:
    scope = with_parts(node, scope)
    chosen, is_distinct, from_, joins, where, group, having = parts(node, *_SELECT)[:7]
    source = None if from_ is None else joined(from_, joins or [], scope)
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
    return limited(Query(statement, values), node, scope)


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
        place = position(node, self.values, self.scope)
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
        sets = _GROUPINGS.get(type(node).__name__)
        if sets is not None:
            (inside,) = parts(node, "expressions")
            return sets(*(self._group(each) for each in inside))
        if isinstance(node, exp.Tuple):
            inside = parts(node, "expressions")[0] or ()
            return tuple_(*(self._group(each) for each in inside))
        place = None if self._is_column(node) else self._place(node)
        value = value_of(node, self.scope) if place is None else self.values[place]
        unsealed(value, "GROUP BY")
        if value.is_open:
            raise refused("GROUP BY has a constant", "group by columns")
        return value.element

    def _is_column(self, node: Any) -> bool:
        """Tell whether a node names a column of FROM, which goes before what is selected."""
        if not isinstance(node, exp.Column) or node.args.get("table") is not None:
            return False
        return any(each.name == node.name for each in self.scope.columns)

    def distinct(self, statement: Any, node: Any) -> Any:
        """Return a statement with its DISTINCT."""
        (on,) = parts(node, "on")
        for value in self.values:
            unsealed(value, "DISTINCT")
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
            unsealed(self.values[place], "ORDER BY")
            return self.labels[place]

        return statement.order_by(*ordered(nodes, self.scope, selected))
