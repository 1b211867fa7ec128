"""The one door to SQLAlchemy's internals: every private name we lean on is used here only.

Each function says which behaviour it leans on; `tests/test_sqla.py` pins them on both supported
series.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import BindParameter, CursorResult, Engine, Executable, Result, Table
from sqlalchemy.engine import ChunkedIteratorResult
from sqlalchemy.orm import InstanceState, Mapper
from sqlalchemy.orm.base import instance_state
from sqlalchemy.orm.mapper import _all_registries
from sqlalchemy.sql import visitors
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.selectable import FromClause

Rows = Sequence[Any]
"""A chunk of rows: tuples of one value per result element."""


def shape_of(statement: Executable) -> tuple[Hashable | None, Sequence[BindParameter[Any]]]:
    """Return what is the same for all statements of one shape, and the values that are not.

    Leans on `_generate_cache_key`, which the statement memoizes and execution uses again, so
    asking costs nothing. Two statements of one shape list their parameters in the same order.
    The shape is `None` for a statement that SQLAlchemy does not cache.
    """
    cache_key = cast(Any, statement)._generate_cache_key()
    if cache_key is None:
        return None, [e for e in elements_of(statement) if isinstance(e, BindParameter)]
    return cache_key.key, cache_key.bindparams


def elements_of(statement: Executable) -> Iterator[Any]:
    """Yield every element of a statement, those of its subqueries and CTEs included."""
    return visitors.iterate(cast(ClauseElement, statement))


def with_values(statement: Executable, values: Mapping[str, Any]) -> Executable:
    """Return a copy of the statement in which parameters have other values.

    Args:
        statement: stays as it is.
        values: the new values by the parameter's `key`.

    Parameters keep their names (`maintain_key`), as in SQLAlchemy's own `params()`, so the copy
    has the same cache key and finds the same compiled form. Unlike `params()` it serves inserts,
    updates and deletes too.
    """

    def set_value(parameter: Any) -> None:
        if parameter.key in values:
            parameter.value, parameter.callable = values[parameter.key], None

    copy = visitors.cloned_traverse(
        cast(Any, statement),
        {"maintain_key": True, "detect_subquery_cols": True},
        {"bindparam": set_value},
    )
    return cast(Executable, copy)


def values_of(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, value) pairs of an insert's or update's `values()`.

    A column is as it was given: an attribute, a `Column` or a name.
    """
    single = getattr(statement, "_values", None) or {}
    ordered = getattr(statement, "_ordered_values", None) or ()
    return itertools.chain(single.items(), ordered)


def many_values_of(statement: Executable) -> tuple[Sequence[Any], ...]:
    """Return the lists of records given to an insert's `values([...])`, as they were given."""
    return cast("tuple[Sequence[Any], ...]", getattr(statement, "_multi_values", ()))


def with_many_values(statement: Executable, records: tuple[Sequence[Any], ...]) -> Executable:
    """Return a copy of an insert with other records in place of its `values([...])`."""
    copy = cast(Any, statement)._generate()
    copy._multi_values = records
    return cast(Executable, copy)


def returned_by(statement: UpdateBase) -> Iterator[Sequence[Any]]:
    """Yield what stands at each position of RETURNING: a list of one column, empty for an entity.

    `returning_column_descriptions` cannot be asked: it fails where an entity is returned.
    """
    for element in cast(Any, statement)._returning:
        if not isinstance(element, FromClause):
            yield [element]
        elif "parententity" in element._annotations:
            yield []
        else:
            yield from ([column] for column in element.c)


def parameter_value(parameter: BindParameter[Any]) -> Any:
    """Return the value of a parameter, or `None` where it comes with the execution."""
    return parameter.effective_value


def mapper_of_table(table: Table) -> Mapper[Any] | None:
    """Return the mapper of the class that is declared on the table, whatever its base.

    Leans on `_all_registries`, which lists the declarative bases of the process: a Core statement
    names a table and not a class. Of several classes on one table, the one none of them inherits
    from.
    """
    mappers = [
        mapper
        for registry in _all_registries()
        for mapper in registry.mappers
        if mapper.local_table is table
    ]
    return min(mappers, key=lambda mapper: len(list(mapper.iterate_to_root())), default=None)


def root_of(engine: Engine) -> Engine:
    """Return the engine that owns the pool: `execution_options()` makes another on top of it."""
    return cast(Engine, getattr(engine, "_proxied", engine))


def state_of(instance: object) -> InstanceState[Any]:
    """Return the state of an instance of a mapped class: `inspect()` without its dispatch."""
    return instance_state(instance)


def rewrite_rows(result: Result[Any], rewrite: Callable[[Rows], Rows]) -> Result[Any]:
    """Make every chunk of rows that the result yields go through a function first.

    An ORM result keeps its identity, its metadata and its uniqueness rules; a Core result is
    continued by one with the same keys (as `Result.freeze()` does).
    """
    if isinstance(result, ChunkedIteratorResult):
        return _rewrite_chunks(result, rewrite)
    cursor = cast("CursorResult[Any]", result)
    return ChunkedIteratorResult(
        cursor._metadata._for_freeze(),
        lambda size: map(rewrite, _chunks(cursor, size)),
        raw=cursor,
        dynamic_yield_per=True,
    )


def _rewrite_chunks(
    result: ChunkedIteratorResult[Any], rewrite: Callable[[Rows], Rows]
) -> Result[Any]:
    chunks = result.chunks
    result.chunks = lambda size: map(rewrite, chunks(size))
    result.iterator = itertools.chain.from_iterable(result.chunks(result._yield_per))
    return result


def _chunks(cursor: CursorResult[Any], size: int | None) -> Iterator[Rows]:
    if size is None:
        yield cursor.fetchall()
        return
    while chunk := cursor.fetchmany(size):
        yield chunk
