"""Builder of SELECT, FROM, WITH and unions.

- `query_of` builds a SELECT or a union inside a scope and returns a `Query`: SQLAlchemy's
  statement, and what each column is. Columns are named c1, c2 and so on wherever rows pass from
  one SELECT to another; the model's names are kept in the values.
- `_build_from` adds the tables of FROM to the scope and returns one FROM clause. An ON sees the
  tables that are joined up to there. USING and NATURAL compare the columns that a model sees, and
  make one column of two.
- `_with_parts` adds the parts of WITH to the scope, recursive ones included. `_build_union`
  checks that columns that are combined are refs of one table, or data.

>>> from alfred_refs.tools import Toolset
>>> toolset = Toolset([Recipe, Line], sql=True)
>>> sql = '''with few as (select id, name from recipes where servings < 5)
... select few.name, count(*) from few join lines on lines.recipe_id = few.id group by 1'''
>>> toolset.call(session, "db_query", {"sql": sql})["rows"]
[['Soup', 2]]

Names in GROUP BY and ORDER BY mean what they mean in PostgreSQL: GROUP BY prefers a column of
FROM, ORDER BY a selected column.

Limits: LATERAL, functions in FROM, VALUES, FOR UPDATE, TABLESAMPLE and named windows are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import FromClause
from sqlglot import expressions as exp

from alfred_refs import sqla
from alfred_refs.tools.errors import invalid_sql
from alfred_refs.tools.sql.expressions import (
    condition_of,
    element_of,
    integer_of,
    literal_of,
    name_of,
    order_elements,
    value_of,
)
from alfred_refs.tools.sql.parsing import describe_node, parts, unsupported
from alfred_refs.tools.sql.scopes import (
    Part,
    Query,
    Scope,
    Source,
    Value,
    labelled,
    longest_of,
    require_inspectable,
    unify_values,
    widest,
    width,
)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table, or what has been joined so far.

    Attributes:
        from_: SQLAlchemy's FROM clause.
        sources: items whose columns may be named with their table.
        columns: columns that may be named without, in the order of `*`.
    """

    from_: FromClause
    sources: Sequence[Source]
    columns: Sequence[Value]

    def named(self, name: str) -> Value:
        """Return the column of a name for USING."""
        found = [each for each in self.columns if each.name == name]
        if len(found) != 1:
            many = "several tables" if found else "none of the tables"
            raise invalid_sql(f"USING names {name!r}, which is in {many} there", "use ON")
        return found[0]


def _build_from(from_: Any, joins: Sequence[Any], scope: Scope) -> FromClause:
    """Build a FROM, and add its items to the scope."""
    (first,) = parts(from_, "this")
    groups = [_from_item(first, scope)]
    for join in joins:
        if any(join.args.get(each) for each in ("side", "kind", "method", "on", "using")):
            groups[-1] = _join(groups[-1], join, scope)
        else:  # a comma: a later ON does not see what is before it
            (item,) = parts(join, "this")
            groups.append(_from_item(item, scope))
    scope.columns = [each for group in groups for each in group.columns]
    last, *others = (group.from_ for group in reversed(groups))
    for each in others:
        last = each.join(last, sa.true())
    return last


def _from_item(node: Any, scope: Scope) -> _Rows:
    """Build a table, a subquery, or joins in parentheses."""
    joins: Sequence[Any] = ()
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        node, alias = parts(node, "this", "alias")
        if alias is not None:
            raise unsupported("a name for several tables", "name each of them")
    if isinstance(node, exp.Subquery):
        this, alias = parts(node, "this", "alias")
        name, names = _alias(alias)
        # PostgreSQL 16 does not require an alias
        name = name or scope.building.alias("n", "a subquery")
        query = scope.building.query(this, scope.around()).with_names(names, name)
        from_ = query.statement.subquery(scope.building.alias("t", name))
        source = Source(name, query.columns_in(from_), from_)
    elif isinstance(node, exp.Table):
        this, alias, joins = parts(node, "this", "alias", "joins")
        if not isinstance(this, exp.Identifier):
            raise unsupported("a function in FROM", "call it in SELECT, or use a table")
        name, names = _alias(alias)
        source = scope.relation(name_of(this), name or name_of(this))
        if names:
            raise unsupported("names for columns of a table", "give names in SELECT")
    else:
        raise unsupported(
            f"{describe_node(node)} in FROM", "use tables, and subqueries in parentheses"
        )
    scope.add(source)
    rows = _Rows(source.from_, [source], source.values)
    for join in joins or ():
        rows = _join(rows, join, scope)
    return rows


def _alias(node: Any) -> tuple[str, list[str]]:
    """Return the name in an alias, and the names of columns."""
    this, columns = (None, None) if node is None else parts(node, "this", "columns")
    return ("" if this is None else name_of(this)), [name_of(each) for each in columns or ()]


def _join(left: _Rows, node: Any, scope: Scope) -> _Rows:
    this, *words, on, using = parts(node, "this", "side", "kind", "method", "on", "using")
    side, kind, method = (str(each or "").upper() for each in words)
    if kind not in ("", "INNER", "OUTER", "CROSS") or side not in ("", "LEFT", "RIGHT", "FULL"):
        raise unsupported(f"{side} {kind} JOIN".strip())
    right = _from_item(this, scope)
    if method not in ("", "NATURAL"):
        raise unsupported(f"{method} JOIN")
    sources, columns = [*left.sources, *right.sources], [*left.columns, *right.columns]
    names = [name_of(each) for each in using or ()]
    if method:
        theirs = {each.name for each in right.columns}
        names = [each for each in dict.fromkeys(e.name for e in left.columns) if each in theirs]
    if names:
        pairs = [
            unify_values(
                [left.named(name), right.named(name)], scope.building.literals, f"USING ({name})"
            )
            for name in names
        ]
        condition = sa.and_(*(one.element == other.element for one, other in pairs))
        rest = [each for each in columns if each.name not in names]
        columns = [*(_merged_column(one, other, side) for one, other in pairs), *rest]
    elif on is not None:
        inner = Scope(scope.building, scope.outer, scope.parts, sources, columns)
        condition = condition_of(on, inner)
    elif kind == "CROSS" or method:
        condition = sa.true()
    else:
        raise invalid_sql("a JOIN has no ON", "say ON which rows belong together, or CROSS JOIN")
    if side == "RIGHT":
        from_ = right.from_.outerjoin(left.from_, condition)
    else:
        from_ = left.from_.join(right.from_, condition, isouter=side != "", full=side == "FULL")
    return _Rows(from_, sources, columns)


def _merged_column(left: Value, right: Value, side: str) -> Value:
    """Return the column that USING makes of two."""
    if side == "FULL":
        either = sa.func.coalesce(left.element, right.element)
        return replace(left, element=either, column=None, most=longest_of((left, right)))
    return right if side == "RIGHT" else left


_CLAUSES = ("with_", "order", "limit", "offset")  # that SELECTs and unions share

_SET_OPERATIONS: Mapping[tuple[str, bool], Callable[..., Any]] = {
    ("Union", True): sa.union,
    ("Union", False): sa.union_all,
    ("Intersect", True): sa.intersect,
    ("Intersect", False): sa.intersect_all,
    ("Except", True): sa.except_,
    ("Except", False): sa.except_all,
}


def _with_parts(node: Any, scope: Scope) -> Scope:
    """Add the parts of a WITH to a scope, and return it."""
    with_ = node.args.get("with_")
    nodes, recursive = ((), False) if with_ is None else parts(with_, "expressions", "recursive")
    for each in nodes:
        this, alias = parts(each, "this", "alias")
        name, names = _alias(alias)
        if name in scope.parts:
            raise invalid_sql(f"WITH has two parts {name!r}", "give them names of their own")
        before = scope.building.budget.spent
        make = _recursive if recursive and _names_itself(this, name) else _part
        query, cte = make(this, name, names, scope)
        scope.parts[name] = Part(query, cte, scope.building.budget.spent - before)
    return scope


def _names_itself(node: Any, name: str) -> bool:
    """Return whether a part of WITH names itself."""
    return any(each.name == name for each in node.find_all(exp.Table))


def _part(node: Any, name: str, names: Sequence[str], scope: Scope) -> tuple[Query, Any]:
    query = scope.building.query(node, scope.inner()).with_names(names, name)
    return query, query.statement.cte(scope.building.alias("q", name))


def _recursive(node: Any, name: str, names: Sequence[str], scope: Scope) -> tuple[Query, Any]:
    """Build a recursive part of WITH."""
    is_union = isinstance(node, exp.Union) and not any(node.args.get(each) for each in _CLAUSES)
    if not is_union or _names_itself(node.this, name):
        raise unsupported(
            f"{name!r}, which names itself,", "write SELECT ... UNION ALL SELECT ... in it"
        )
    first, second, is_distinct = parts(node, "this", "expression", "distinct")
    start = _closed_query(first, scope.inner()).with_names(names, name)
    # a value may grow with each row
    start = replace(start, values=[replace(each, most=None) for each in start.values])
    cte = start.statement.cte(scope.building.alias("q", name), recursive=True)
    inner = scope.inner()
    inner.parts[name] = Part(start, cte)
    step = scope.building.query(second, inner)
    values = _matching_columns([start, step], scope)
    if [each.key for each in values] != [each.key for each in start.values]:
        raise invalid_sql(
            f"{name!r} begins with NULL where it goes on with refs",
            "begin with rows that have refs, or leave the column out",
        )
    step = step.inside(scope.building.alias("t", "a recursive part"), partial(_not_longer, scope))
    recursive = (cte.union if is_distinct else cte.union_all)(step.statement)
    return replace(start, values=values).evaluated(), recursive


def _not_longer(scope: Scope, value: Value) -> Value:
    """Return a column of the recursive part of a WITH, of a bounded size."""
    bounded = scope.building.literals.bounded
    return value if value.key else bounded(value, "text", scope.building.budget)


def _build_union(node: Any, scope: Scope) -> Query:
    """Build a union, with its WITH, order and limit."""
    scope = _with_parts(node, scope)
    left, right, is_distinct = parts(node, "this", "expression", "distinct", *_CLAUSES)[:3]
    both = [_closed_query(each, scope.inner()) for each in (left, right)]
    unite = _SET_OPERATIONS[type(node).__name__, bool(is_distinct)]
    values = _matching_columns(both, scope)
    rows = Query(unite(*(each.statement for each in both)), values)
    pairs = zip(values, both[0].values, strict=True)
    if any(new.element is not old.element for new, old in pairs):
        rows = _as_subquery(rows, scope)
    return _apply_clauses(rows, node, scope)


def _closed_query(node: Any, scope: Scope) -> Query:
    """Build a query whose rows can be combined with others; its order and limit stay inside."""
    query = scope.building.query(node, scope)
    # the columns of a union are those of its first SELECT, which may have NULL for refs
    is_closed = query.is_ended or isinstance(query.statement, sa.CompoundSelect)
    return _as_subquery(query, scope) if is_closed else query


def _as_subquery(query: Query, scope: Scope) -> Query:
    """Return a SELECT of the rows of a query, which may give a wider type to a column."""
    rows = query.inside(scope.building.alias("t", "a union"))
    return replace(rows, values=query.values)


def _matching_columns(queries: Sequence[Query], scope: Scope) -> list[Value]:
    """Return the columns of two combined queries."""
    first, second = (each.values for each in queries)
    if len(first) != len(second):
        raise invalid_sql("parts of a union have other numbers of columns", "select the same")
    return [_matching(pair, scope) for pair in zip(first, second, strict=True)]


def _matching(pair: Sequence[Value], scope: Scope) -> Value:
    one, other = pair
    both = unify_values(pair, scope.building.literals, "a union")
    column = one.column if one.column is other.column else None
    element, type_ = one.element, widest(both).type
    key = one.key or other.key
    # NULL takes the type of refs, which the session declares for the column
    if (key and one.is_null) or (width(type_) > width(one.type) and not one.is_null):
        element = sa.type_coerce(element, type_)
    most = longest_of(pair)
    return replace(one, element=element, key=key, column=column, literal=None, most=most)


def _apply_clauses(query: Query, node: Any, scope: Scope) -> Query:
    """Apply ORDER BY, LIMIT and OFFSET to a union or a query in parentheses."""
    if not any(node.args.get(each) for each in _CLAUSES[1:]):
        return query
    rows = _as_subquery(query, scope)
    columns = list(rows.statement.selected_columns)

    def by_name(by: Any) -> Any:
        found = _position(by, rows.values, scope)
        if found is None:
            raise invalid_sql("a union is ordered by an expression", "order by a selected column")
        return columns[found]

    return _apply_order(rows, node, scope, by_name)


def _position(node: Any, values: Sequence[Value], scope: Scope) -> int | None:
    """Return which selected column a name or number means; `None` for other nodes."""
    if isinstance(node, exp.Literal):
        place = integer_of(node, scope)
        if not 1 <= place <= len(values):
            raise invalid_sql(f"there is no column {place} in the SELECT", "name the column")
        return place - 1
    if not isinstance(node, exp.Column) or node.args.get("table") is not None:
        return None
    found = [n for n, each in enumerate(values) if each.name == node.name]
    if len({id(values[n].element) for n in found}) > 1:
        raise invalid_sql(
            f"{node.name!r} is selected several times", "give each a name of its own"
        )
    return found[0] if found else None


def _apply_order(query: Query, node: Any, scope: Scope, find: Callable[[Any], Any]) -> Query:
    """Apply ORDER BY, LIMIT or FETCH, and OFFSET.

    Args:
        query: the rows.
        node: that has the clauses.
        scope: of its names.
        find: returns the element of a selected column that a node means, or `None`.
    """
    order, limit, offset = (node.args.get(each) for each in _CLAUSES[1:])
    statement, rows = query.statement, None
    if order is not None:
        nodes = parts(order, "expressions")[0]
        statement = statement.order_by(*order_elements(nodes, scope, find))
    if limit is not None:
        rows = _row_count(_limit(limit), scope)
        statement = statement.limit(rows.element)
    if offset is not None:
        statement = statement.offset(_row_count(parts(offset, "expression")[0], scope).element)
    is_ended = any((order, limit, offset))
    return Query(statement, query.values, is_ended, None if rows is None else rows.number)


def _limit(node: Any) -> Any:
    if not isinstance(node, exp.Fetch):
        return parts(node, "expression")[0]
    _, count, options = parts(node, "direction", "count", "limit_options")
    if options is not None:
        parts(options, "rows")
    return count


def _row_count(node: Any, scope: Scope) -> Value:
    """Return the parameter of a LIMIT or OFFSET."""
    literal, kind = literal_of(node) if isinstance(node, exp.Literal) else (0, None)
    if kind != "integer":
        raise invalid_sql("LIMIT or OFFSET is not an integer", "write an integer, or leave it out")
    return scope.building.literals.number(literal, kind)


_SELECT_COST = 5  # units of the budget
_SELECT = ("expressions", "distinct", "from_", "joins", "where", "group", "having", *_CLAUSES)
_GROUPINGS: Mapping[str, Callable[..., Any]] = {
    "Rollup": sa.func.rollup,
    "Cube": sa.func.cube,
    "GroupingSets": sa.func.grouping_sets,
    "Tuple": sa.tuple_,
}


def query_of(node: Any, scope: Scope) -> Query:
    """Build a SELECT or a union, in a scope of its own."""
    if isinstance(node, exp.Subquery | exp.Paren):
        names = [name for name in ("this", *_CLAUSES) if name in node.args]
        inner, *clauses = parts(node, *names)
        if not any(clauses):
            return query_of(inner, scope)
        return _apply_clauses(query_of(inner, _with_parts(node, scope)), node, scope)
    if isinstance(node, exp.SetOperation):
        return _build_union(node, scope)
    if not isinstance(node, exp.Select):
        raise unsupported(describe_node(node), "write a SELECT")
    return _build_select(node, scope)


def _build_select(node: Any, scope: Scope) -> Query:
    scope = _with_parts(node, scope)
    chosen, is_distinct, from_, joins, where, group, having = parts(node, *_SELECT)[:7]
    source = None if from_ is None else _build_from(from_, joins or [], scope)
    columns = [pair for each in chosen for pair in _select_columns(each, scope)]
    nodes, values = [node for node, _ in columns], [value for _, value in columns]
    if not values:
        raise invalid_sql("nothing is selected", "name the columns that you want")
    scope.building.budget.spend(_SELECT_COST)
    values = [replace(each, element=element_of(each, scope), literal=None) for each in values]
    made = _SelectList(scope, nodes, values, labelled(value.element for value in values))
    statement: Any = sa.select(*made.labels)
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
    statement = statement.correlate_except(*(each.from_ for each in scope.sources))
    query = _apply_order(Query(statement, values), node, scope, made.ordered)
    is_evaluated = any(node.args.get(each) for each in ("distinct", "group", "limit", "offset"))
    return query.evaluated() if is_evaluated else query


def _select_columns(node: Any, scope: Scope) -> list[tuple[Any, Value]]:
    """Return the columns of one item of a SELECT list, each with its node."""
    is_star = isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    if is_star or isinstance(node, exp.Star):
        star, table = parts(node, "this", "table") if is_star else (node, None)
        parts(star)
        columns = scope.star(None if table is None else name_of(table))
        scope.building.budget.spend(sum(each.size for each in columns))
        return [(None, each) for each in columns]
    if isinstance(node, exp.Alias):
        this, alias = parts(node, "this", "alias")
        return [(this, replace(value_of(this, scope), name=name_of(alias)))]
    return [(node, value_of(node, scope))]


@dataclass(frozen=True, slots=True)
class _SelectList:
    """The SELECT list, for the clauses that may refer to it.

    Attributes:
        scope: of FROM.
        nodes: of the tree; `None` for columns of `*`.
        values: the selected values.
        labels: the same, with the names c1, c2 and so on.
    """

    scope: Scope
    nodes: Sequence[Any]
    values: Sequence[Value]
    labels: Sequence[Any]

    def _selected(self, node: Any) -> int | None:
        """Return which selected column a node means; an equal expression is the same column."""
        place = _position(node, self.values, self.scope)
        if place is None and not isinstance(node, exp.Literal):
            place = next((n for n, each in enumerate(self.nodes) if each == node), None)
        if place is not None:  # it is once more in the statement
            self.scope.building.budget.spend(self.values[place].size)
        return place

    def _value(self, node: Any) -> Value:
        """Return a selected value, or that of another expression."""
        place = self._selected(node)
        return value_of(node, self.scope) if place is None else self.values[place]

    def grouped(self, node: Any) -> list[Any]:
        """Return the GROUP BY expressions."""
        (nodes,) = parts(node, "expressions")
        if not nodes:
            raise invalid_sql("GROUP BY names nothing", "name columns")
        return [self._group(each) for each in nodes]

    def _group(self, node: Any) -> Any:
        sets = _GROUPINGS.get(type(node).__name__)
        if sets is not None:
            inside = parts(node, "expressions")[0] or ()
            return sets(*(self._group(each) for each in inside))
        # a column of FROM takes precedence
        is_column = isinstance(node, exp.Column) and node.args.get("table") is None
        is_own = is_column and any(each.name == node.name for each in self.scope.columns)
        value = value_of(node, self.scope) if is_own else self._value(node)
        require_inspectable(value, "GROUP BY")
        if value.is_open:
            raise invalid_sql("GROUP BY has a constant", "group by columns")
        return value.element

    def distinct(self, statement: Any, node: Any) -> Any:
        """Apply DISTINCT or DISTINCT ON."""
        (on,) = parts(node, "on")
        for value in self.values:
            require_inspectable(value, "DISTINCT")
        if on is None:
            return statement.distinct()
        nodes = parts(on, "expressions")[0] if isinstance(on, exp.Tuple) else [on]
        inner = [each.this if isinstance(each, exp.Paren) else each for each in nodes]
        elements = [element_of(self._value(each), self.scope) for each in inner]
        return sqla.distinct_on(statement, elements)

    def ordered(self, node: Any) -> Any:
        """Return the element of a selected column that is ordered by, or `None`."""
        place = self._selected(node)
        if place is None:
            return None
        require_inspectable(self.values[place], "ORDER BY")
        return self.labels[place]
