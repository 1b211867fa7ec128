"""FROM and its joins: what stands there goes into a scope, and out as one FROM of SQLAlchemy's.

    joined(<From recipes>, [<Join LEFT plans ON ...>], scope)    _t1 LEFT JOIN _t2 ON ...

Each ON sees what is joined up to there. USING and NATURAL go by the columns that a model sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import FromClause, and_, func, true
from sqlglot import expressions as exp

from .expressions import condition_of, name_of
from .parsing import named, parts
from .refusing import refused, unsupported
from .scopes import Scope, Source
from .values import Value, alike


def joined(from_: Any, joins: Sequence[Any], scope: Scope) -> FromClause:
    """Return a FROM, and take what is in it into a scope.

    Raises:
        ToolError: it has what is not known here.
    """
    (first,) = parts(from_, "this")
    groups: list[FromClause] = []
    begun = len(scope.sources)
    left = _item(first, scope)
    for join in joins:
        if not any(join.args.get(each) for each in ("side", "kind", "method", "on", "using")):
            groups.append(left)  # a comma: what is before it is not seen by later ON
            begun = len(scope.sources)
            (item,) = parts(join, "this")
            left = _item(item, scope)
        else:
            left = _join(left, join, begun, scope)
    for group in reversed(groups):
        left = group.join(left, true())
    return left


def _item(node: Any, scope: Scope) -> FromClause:
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


def _table(node: Any, scope: Scope) -> FromClause:
    this, alias, joins = parts(node, "this", "alias", "joins")
    if not isinstance(this, exp.Identifier):
        raise unsupported("a function in FROM", "call it in SELECT, or use a table")
    name, names = _alias(alias)
    source = scope.relation(name_of(this), name or name_of(this))
    if names:
        raise unsupported("names for columns of a table", "give names in SELECT")
    begun, left = len(scope.sources), _added(source, scope)
    for join in joins or ():
        left = _join(left, join, begun, scope)
    return left


def _alias(node: Any) -> tuple[str, list[str]]:
    if node is None:
        return "", []
    this, columns = parts(node, "this", "columns")
    return ("" if this is None else name_of(this)), [name_of(each) for each in columns or ()]


def _added(source: Source, scope: Scope) -> FromClause:
    if source.name in (each.name for each in scope.sources):
        raise refused(f"{source.name!r} is twice in FROM", "give each a name, with AS")
    scope.sources.append(source)
    alias: Any = source.from_
    names = {f"{alias.name}.c{n}": each.name for n, each in enumerate(source.values, start=1)}
    scope.building.names.update({sent: f"{source.name}.{each}" for sent, each in names.items()})
    return alias  # type: ignore[no-any-return]


def _join(left: FromClause, node: Any, begun: int, scope: Scope) -> FromClause:
    this, side, kind, method, on, using = parts(
        node, "this", "side", "kind", "method", "on", "using"
    )
    side, kind, method = (str(each or "").upper() for each in (side, kind, method))
    if kind not in ("", "INNER", "OUTER", "CROSS") or side not in ("", "LEFT", "RIGHT", "FULL"):
        raise unsupported(f"{side} {kind} JOIN".strip())
    middle = len(scope.sources)
    right = _item(this, scope)
    lefts, rights = scope.sources[begun:middle], scope.sources[middle:]
    if method not in ("", "NATURAL"):
        raise unsupported(f"{method} JOIN")
    names = _in_common(lefts, rights) if method else [name_of(each) for each in using or ()]
    if names:
        condition = and_(*(_same(name, lefts, rights, side, scope) for name in names))
    elif on is not None:
        seen = Scope(scope.building, scope.outer, scope.parts, [*lefts, *rights], scope.common)
        condition = condition_of(on, seen)
    elif kind == "CROSS" or method:
        condition = true()
    else:
        raise refused("a JOIN has no ON", "say ON which rows belong together, or CROSS JOIN")
    if side == "RIGHT":
        return right.outerjoin(left, condition)
    return left.join(right, condition, isouter=_is_outer(side), full=side == "FULL")


def _is_outer(side: str) -> bool:
    return side != ""


def _in_common(lefts: Sequence[Source], rights: Sequence[Source]) -> list[str]:
    theirs = {value.name for source in rights for value in source.values}
    ours = [value.name for source in lefts for value in source.values]
    return [name for name in dict.fromkeys(ours) if name in theirs]


def _same(
    name: str, lefts: Sequence[Source], rights: Sequence[Source], side: str, scope: Scope
) -> Any:
    """Return that two tables have the same in a column, which is one from then on."""
    ours = scope.common.get(name) or _only(name, lefts)
    theirs = _only(name, rights)
    one, other = alike([ours, theirs], scope.building.literals, f"USING ({name})")
    common: Value = other if side == "RIGHT" else one
    if side == "FULL":
        common = replace(one, element=func.coalesce(one.element, other.element), column=None)
    scope.common[name] = common
    return one.element == other.element


def _only(name: str, sources: Sequence[Source]) -> Value:
    found = [value for each in sources for value in each.values if value.name == name]
    if len(found) != 1:
        many = "several tables" if found else "none of the tables"
        raise refused(f"USING names {name!r}, which is in {many} there", "use ON")
    return found[0]
