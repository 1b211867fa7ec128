"""FROM and its joins: what stands there goes into a scope, and out as one FROM of SQLAlchemy's.

    joined(<From recipes>, [<Join LEFT plans ON ...>], scope)    _t1 LEFT JOIN _t2 ON ...

Each ON sees what is joined up to there. USING and NATURAL go by the columns that a model sees, and
make one of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import FromClause, and_, func, true
from sqlglot import expressions as exp

from .expressions import condition_of, name_of
from .parsing import named, parts
from .refusing import refused, unsupported
from .scopes import Scope, Source
from .values import Value, alike


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table, or what has been joined so far.

    Attributes:
        from_: what SQLAlchemy has of it.
        sources: whose columns may be named with their table.
        columns: those that may be named without, in the order of `*`.
    """

    from_: FromClause
    sources: Sequence[Source]
    columns: Sequence[Value]

    def named(self, name: str) -> Value:
        """Return the column of a name.

        Raises:
            ToolError: there is none, or there are several.
        """
        found = [each for each in self.columns if each.name == name]
        if len(found) != 1:
            many = "several tables" if found else "none of the tables"
            raise refused(f"USING names {name!r}, which is in {many} there", "use ON")
        return found[0]


def joined(from_: Any, joins: Sequence[Any], scope: Scope) -> FromClause:
    """Return a FROM, and take what is in it into a scope.

    Raises:
        ToolError: it has what is not known here.
    """
    (first,) = parts(from_, "this")
    groups = [_item(first, scope)]
    for join in joins:
        if any(join.args.get(each) for each in ("side", "kind", "method", "on", "using")):
            groups[-1] = _join(groups[-1], join, scope)
        else:  # a comma: what is before it is not seen by later ON
            (item,) = parts(join, "this")
            groups.append(_item(item, scope))
    scope.columns = [each for group in groups for each in group.columns]
    last, *others = (group.from_ for group in reversed(groups))
    for each in others:
        last = each.join(last, true())
    return last


def _item(node: Any, scope: Scope) -> _Rows:
    if isinstance(node, exp.Table):
        return _table(node, scope)
    if not isinstance(node, exp.Subquery):
        raise unsupported(f"{named(node)} in FROM", "use tables, and subqueries in parentheses")
    this, alias = parts(node, "this", "alias")
    if isinstance(this, exp.Table):
        if alias is not None:
            raise unsupported("a name for several tables", "name each of them")
        return _table(this, scope)
    name, names = _alias(alias)
    if not name:
        name = scope.building.alias("n", "a subquery")  # PostgreSQL 16 takes it without
    query = scope.building.query(this, scope.around())
    from_ = query.statement.subquery(scope.building.alias("t", name))
    return _added(Source(name, query.called(names, name).of(from_), from_), scope)


def _table(node: Any, scope: Scope) -> _Rows:
    this, alias, joins = parts(node, "this", "alias", "joins")
    if not isinstance(this, exp.Identifier):
        raise unsupported("a function in FROM", "call it in SELECT, or use a table")
    name, names = _alias(alias)
    source = scope.relation(name_of(this), name or name_of(this))
    if names:
        raise unsupported("names for columns of a table", "give names in SELECT")
    rows = _added(source, scope)
    for join in joins or ():
        rows = _join(rows, join, scope)
    return rows


def _alias(node: Any) -> tuple[str, list[str]]:
    if node is None:
        return "", []
    this, columns = parts(node, "this", "columns")
    return ("" if this is None else name_of(this)), [name_of(each) for each in columns or ()]


def _added(source: Source, scope: Scope) -> _Rows:
    if source.name in (each.name for each in scope.sources):
        raise refused(f"{source.name!r} is twice in FROM", "give each a name, with AS")
    scope.sources.append(source)
    alias: Any = source.from_
    names = {f"{alias.name}.c{n}": each.name for n, each in enumerate(source.values, start=1)}
    scope.building.names.update({sent: f"{source.name}.{each}" for sent, each in names.items()})
    return _Rows(alias, [source], source.values)


def _join(left: _Rows, node: Any, scope: Scope) -> _Rows:
    this, side, kind, method, on, using = parts(
        node, "this", "side", "kind", "method", "on", "using"
    )
    side, kind, method = (str(each or "").upper() for each in (side, kind, method))
    if kind not in ("", "INNER", "OUTER", "CROSS") or side not in ("", "LEFT", "RIGHT", "FULL"):
        raise unsupported(f"{side} {kind} JOIN".strip())
    right = _item(this, scope)
    if method not in ("", "NATURAL"):
        raise unsupported(f"{method} JOIN")
    sources, columns = [*left.sources, *right.sources], [*left.columns, *right.columns]
    names = _in_common(left, right) if method else [name_of(each) for each in using or ()]
    if names:
        pairs = [_pair(name, left, right, scope) for name in names]
        condition = and_(*(one.element == other.element for one, other in pairs))
        rest = [each for each in columns if each.name not in names]
        columns = [*(_one(one, other, side) for one, other in pairs), *rest]
    elif on is not None:
        condition = condition_of(
            on, Scope(scope.building, scope.outer, scope.parts, sources, columns)
        )
    elif kind == "CROSS" or method:
        condition = true()
    else:
        raise refused("a JOIN has no ON", "say ON which rows belong together, or CROSS JOIN")
    if side == "RIGHT":
        from_ = right.from_.outerjoin(left.from_, condition)
    else:
        from_ = left.from_.join(
            right.from_, condition, isouter=_is_outer(side), full=side == "FULL"
        )
    return _Rows(from_, sources, columns)


def _is_outer(side: str) -> bool:
    return side != ""


def _in_common(left: _Rows, right: _Rows) -> list[str]:
    theirs = {each.name for each in right.columns}
    return [name for name in dict.fromkeys(e.name for e in left.columns) if name in theirs]


def _pair(name: str, left: _Rows, right: _Rows, scope: Scope) -> Sequence[Value]:
    """Return the columns of a name on both sides, which are compared."""
    both = [left.named(name), right.named(name)]
    return alike(both, scope.building.literals, f"USING ({name})")


def _one(left: Value, right: Value, side: str) -> Value:
    """Return the column that two are from then on."""
    if side == "FULL":
        return replace(left, element=func.coalesce(left.element, right.element), column=None)
    return right if side == "RIGHT" else left
