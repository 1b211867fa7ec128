"""Copies of a statement in which something else stands; the statement stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Delete,
    Executable,
    Update,
)
from sqlalchemy.sql import visitors
from sqlalchemy.sql.cache_key import HasCacheKey
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList, Grouping
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import AliasedReturnsRows
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import immutabledict

from .clauses import elements_of, options_of, shape_of
from .parameters import parameter_value, put_value

_TRIED = object()  # a value that no parameter has


def stand_in_where(statement: Executable, parameters: Iterable[BindParameter[Any]]) -> bool:
    """Tell whether `with_values_in_where` serves a statement, and so all others of its shape.

    It does if the copy generates the very cache key that it is given: a parameter that stands
    anywhere else as well would be met there as it was.
    """
    if not getattr(statement, "_where_criteria", ()) or shape_of(statement)[0] is None:
        return False
    copy = cast(Any, with_values_in_where(statement, {p.key: None for p in parameters}))
    given, generated = copy._generate_cache_key(), HasCacheKey._generate_cache_key(copy)
    return (
        generated is not None
        and given.key == generated.key
        and list(map(id, given.bindparams)) == list(map(id, generated.bindparams))
    )


def with_values_in_where(statement: Executable, values: Mapping[str, Any]) -> Executable:
    """Return a copy as `with_values` does, where `stand_in_where`, in a fraction of the time.

    All but the comparisons is shared with the statement, as in a copy that `where()` makes, and
    the copy has its cache key already: the statement's, with its own parameters in their places.
    """
    # What SQLAlchemy compiles for a parameter without a callable asks all of the same cache key
    # for their plain values, which those that have one lack: it gives way to one with the key.
    made: Any = statement  # by no call of cast(): each counts here
    key = made._generate_cache_key()
    replaced = {
        id(p): _with(p, **put_value(p, values[p.key])) for p in key.bindparams if p.key in values
    }
    # a named tuple: in 2.1 it has a third part, which stays
    parameters = [replaced.get(id(p), p) for p in key.bindparams]
    own = key._make((key.key, parameters, *key[2:]))
    # `_memoized_keys` has the name of it: what is made from the copy generates its own
    return _with(  # type: ignore[no-any-return]
        made,
        _where_criteria=tuple([_with_parameters(c, replaced) for c in made._where_criteria]),
        _generate_cache_key=lambda: own,
    )


def _with(element: Any, /, **attributes: Any) -> Any:
    """Return a shallow copy of an element with other attributes.

    That is what `_generate()` and `_clone()` do, faster; without note of what it is a copy of:
    only parameters are looked for by that, and one that keeps its name is found by its name.
    """
    copy = element.__class__.__new__(element.__class__)
    held = copy.__dict__ = element.__dict__.copy()
    for name in element._memoized_keys:
        held.pop(name, None)
    held.update(attributes)
    return copy


def _with_parameters(criterion: Any, replaced: Mapping[int, BindParameter[Any]]) -> Any:
    """Return a criterion with other parameters, by `id()`, in comparisons and lists of them."""
    if type(criterion) is BinaryExpression:
        left, right = criterion.left, criterion.right
        return _with(
            criterion,
            left=replaced.get(id(left), left),
            right=replaced.get(id(right), right),
        )
    if type(criterion) is BooleanClauseList:
        clauses = tuple([_with_parameters(clause, replaced) for clause in criterion.clauses])
        return _with(criterion, clauses=clauses)
    if type(criterion) is Grouping:
        return _with(criterion, element=_with_parameters(criterion.element, replaced))
    return criterion


def with_values(
    statement: Executable,
    values: Mapping[str, Any],
    types: Mapping[str, TypeEngine[Any]] | None = None,
) -> Executable:
    """Return a copy of the statement in which parameters have other values.

    Args:
        statement: stays as it is.
        values: the new values by the parameter's `key`.
        types: the SQL types of those that are to be sent as another than their own.

    Parameters keep their names (`maintain_key`), as in SQLAlchemy's own `params()`, so the copy
    has the same cache key and finds the same compiled form; with other types it has another cache
    key, the same for all statements of a shape. Unlike `params()` it serves inserts, updates and
    deletes too.

    A subquery without any of the parameters stays as it is: the ORM does not know the copy of one
    that a class or an alias is mapped to, and would select from both, unjoined.
    """
    types = types or {}

    def set_value(parameter: Any) -> None:
        if parameter.key in values:
            vars(parameter).update(put_value(parameter, values[parameter.key]))
            parameter.type = types.get(parameter.key, parameter.type)

    copy = visitors.cloned_traverse(
        cast(Any, statement),
        {
            "maintain_key": True,
            "detect_subquery_cols": True,
            # a traversal cannot copy options: that of `with_loader_criteria()` has no `__dict__`
            "stop_on": [*options_of(statement), *_aliases_without(statement, values)],
        },
        {"bindparam": set_value},
    )
    return cast(Executable, copy)


def _aliases_without(statement: Executable, values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the aliases and subqueries in a statement that have none of the parameters."""
    for element in elements_of(statement):
        if isinstance(element, AliasedReturnsRows):
            parts = visitors.iterate(cast(Any, element))
            if not any(getattr(part, "key", None) in values for part in parts):
                yield element


def not_replaced(
    statement: Executable, parameters: Sequence[BindParameter[Any]]
) -> Iterator[BindParameter[Any]]:
    """Yield the parameters that `with_values` does not reach, as a trial shows.

    They are in a CTE that an UPDATE or DELETE reads from, and does not list.
    """
    if isinstance(statement, Update | Delete):
        copy = with_values(statement, {p.key: _TRIED for p in parameters})
        left = {p.key for p in shape_of(copy)[1] if parameter_value(p) is not _TRIED}
        yield from (parameter for parameter in parameters if parameter.key in left)


def with_value(statement: Executable, name: Any, value: Any) -> Executable:
    """Return a copy of an insert with one value more, or another, in its `values()`.

    Its own `values()` does not take a statement in which keys stand for refs: a traversal leaves
    it an ordinary dictionary.
    """
    copy = cast(Any, statement)._generate()
    copy._values = immutabledict(copy._values or {})
    return cast(Executable, copy.values({name: value}))


def with_many_values(statement: Executable, records: tuple[Sequence[Any], ...]) -> Executable:
    """Return a copy of an insert with other records in place of its `values([...])`."""
    copy = cast(Any, statement)._generate()
    copy._multi_values = records
    return cast(Executable, copy)


def with_conflict_values(
    statement: Executable, values: Mapping[Any, Any], rewrite: Callable[[Any], Any]
) -> Executable:
    """Return a copy of an upsert with other values in its `set_`, and its criteria rewritten."""
    copy = cast(Any, statement)._generate()
    copy._post_values_clause = clause = copy._post_values_clause._clone()
    kind = type(clause.update_values_to_set)
    clause.update_values_to_set = kind(values.items()) if kind is list else kind(values)
    for name in ("update_whereclause", "inferred_target_whereclause"):
        criterion = getattr(clause, name)
        setattr(clause, name, criterion if criterion is None else rewrite(criterion))
    return cast(Executable, copy)


def with_params(statement: Executable, params: Mapping[str, Any]) -> Executable:
    """Return a copy of a statement with other values in place of those of its `params()`."""
    copy = cast(Any, statement)._generate()
    copy._params = immutabledict(params)
    return cast(Executable, copy)


def without_lambdas(statement: Executable) -> Executable:
    """Return a statement with what its lambdas stand for in their place, values included."""
    if isinstance(statement, LambdaElement):
        statement = statement._resolved

    def resolve(element: Any, **_: Any) -> Any:
        return element._resolved if isinstance(element, LambdaElement) else None

    kept = {"stop_on": options_of(statement)}
    return cast(Executable, visitors.replacement_traverse(cast(Any, statement), kept, resolve))
