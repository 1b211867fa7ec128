"""Rewriting results: their rows, and their facts about a write, pass through a function.

A `Result` has no public hook for its rows. `rewrite_rows` wraps the chunks that an ORM result is
made of, so that its identity, metadata, uniqueness rules and `yield_per` stay; a Core result is
continued by an ORM-like one with the same keys, as `Result.freeze()` does. `rewrite_write_info`
does the same for `inserted_primary_key` and all else that the result of an INSERT or UPDATE has.

The rewriting function gets an iterator of chunks, and each chunk is a list of rows as plain
tuples. It must yield as many chunks, of as many rows, in the same order.

Example:
    >>> def lower(chunks):
    ...     for rows in chunks:
    ...         yield [(name.lower(),) for (name,) in rows]
    >>> result = session.execute(select(Recipe.name).order_by(Recipe.name))
    >>> rewrite_rows(result, lower).scalars().all()
    ['soup', 'toast']

A result that was consumed in part cannot be rewritten, and `splice_horizontally()` and
`splice_vertically()` raise: they would combine the rows of the cursor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from sqlalchemy import Column, CursorResult, Result, Row
from sqlalchemy.engine import ChunkedIteratorResult
from sqlalchemy.exc import InvalidRequestError, NoSuchColumnError

from alfred_refs.errors import UntranslatableError

Rows = Sequence[Any]
"""A chunk of rows: tuples of one value per result element."""

# Rows


def is_chunked(result: Result[Any]) -> bool:
    """Return whether a result is an ORM result, or a Core result that `rewrite_rows` continues."""
    return isinstance(result, ChunkedIteratorResult)


def cursor_result_of(result: Result[Any]) -> CursorResult[Any] | None:
    """Return the cursor result that a result gets its rows from, or `None`."""
    raw = getattr(result, "raw", None) if isinstance(result, ChunkedIteratorResult) else result
    return raw if isinstance(raw, CursorResult) else None


def rewrite_rows(
    result: Result[Any], rewrite: Callable[[Iterator[Rows]], Iterator[Rows]], *, now: bool = False
) -> Result[Any]:
    """Pass the chunks of rows of a result through a function as they are fetched.

    Args:
        result: not consumed yet.
        rewrite: takes an iterator of chunks and yields as many.
        now: fetch and rewrite all rows before returning, like SQLAlchemy's `prebuffer_rows`.
    """
    if not isinstance(result, ChunkedIteratorResult):
        result = _with_chunks(result)
    chunks = result.chunks
    # Private: `_source_supports_scalars`, set where the ORM yields values instead of rows, such as
    # a single-entity Bundle. Pinned by `test_the_row_of_a_bundle_can_have_other_values`.
    if result._source_supports_scalars:
        rewrite = partial(_rewrite_scalars, rewrite)
    fetched = list(rewrite(chunks(None))) if now else None
    # Private: `chunks` and `iterator`, from which all methods of the result fetch.
    # Pinned by `test_rows_can_be_rewritten_in_chunks`.
    result.chunks = lambda size: rewrite(chunks(size)) if fetched is None else iter(fetched)
    result.iterator = itertools.chain.from_iterable(result.chunks(result._yield_per))
    return result


class _ContinuedResult(ChunkedIteratorResult[Any]):
    """A Core result in chunks; everything but the rows is taken from the original.

    Attributes:
        original: the Core result.
    """

    original: Result[Any]

    def __getattr__(self, name: str) -> Any:
        if name in ("splice_horizontally", "splice_vertically"):
            raise UntranslatableError(
                f"{name}() would combine rows that show their keys",
                "combine what all() returns, or use session.raw_keys() or "
                "execution_options(raw_keys=True) in trusted code",
            )
        if name == "original":  # not set yet
            raise AttributeError(name)
        return getattr(self.original, name)


def _with_chunks(result: Result[Any]) -> ChunkedIteratorResult[Any]:
    def chunks(size: int | None) -> Iterator[Rows]:
        if size is None:
            yield result.fetchall()
            return
        while chunk := result.fetchmany(size):
            yield chunk

    continued = _ContinuedResult(
        result._metadata._for_freeze(),
        chunks,
        # A listener may have returned a result without a cursor. The asyncio extension reads the
        # cursor of `raw`.
        raw=result if isinstance(result, CursorResult) else getattr(result, "raw", None),
        dynamic_yield_per=True,
    )
    continued.original = result
    continued._yield_per = result._yield_per
    return continued


def _rewrite_scalars(
    rewrite: Callable[[Iterator[Rows]], Iterator[Rows]], chunks: Iterator[Rows]
) -> Iterator[Rows]:
    for rows in rewrite([(value,) for value in chunk] for chunk in chunks):
        yield [value for (value,) in rows]


def row_like(row: Row[Any], values: Sequence[Any]) -> Row[Any]:
    """Return a row with the names of another and other values: the value of a `Bundle`."""
    # Private: the constructor of Row. Pinned by `test_the_row_of_a_bundle_can_have_other_values`.
    inner = cast(Any, row)
    return type(row)(inner._parent, None, inner._key_to_index, values)


def column_origins(result: CursorResult[Any]) -> list[tuple[int, int]]:
    """Return the OID of the table and the number of the column that each result column reads.

    PostgreSQL sends them in the description of the rows. They are zero for a computed value, and
    for all values if the driver does not keep them (asyncpg).
    """
    cursor = getattr(result.context, "cursor", None)
    # Private: SQLAlchemy's cursors for asynchronous drivers wrap the driver's own in `_cursor`;
    # psycopg has the description in its libpq result, psycopg2 in `cursor.description`.
    # Pinned by `test_the_place_of_each_value_is_told_by_the_driver`.
    cursor = getattr(cursor, "_cursor", cursor)
    libpq_result = getattr(cursor, "pgresult", None)
    if libpq_result is not None:
        columns = range(libpq_result.nfields)
        return [(libpq_result.ftable(i), libpq_result.ftablecol(i)) for i in columns]
    return [
        (getattr(column, "table_oid", None) or 0, getattr(column, "table_column", None) or 0)
        for column in getattr(cursor, "description", None) or ()
    ]


# Information about a write

_REWRITE = "alfred_refs"  # the function, in the `__dict__` of the result


class _RewrittenCursorResult(CursorResult[Any]):
    """A cursor result whose information about written rows passes through a function.

    `inserted_primary_key` reads `inserted_primary_key_rows`, so it is not overridden.
    """

    __slots__ = ()

    def _rewritten(self, name: str) -> Any:
        return self.__dict__[_REWRITE](name, getattr(super(), name))

    inserted_primary_key_rows = property(lambda self: self._rewritten("inserted_primary_key_rows"))
    returned_defaults = property(lambda self: self._rewritten("returned_defaults"))
    returned_defaults_rows = property(lambda self: self._rewritten("returned_defaults_rows"))
    lastrowid = property(lambda self: self._rewritten("lastrowid"))

    def last_inserted_params(self) -> Any:
        """See `CursorResult.last_inserted_params`."""
        return self.__dict__[_REWRITE]("last_inserted_params", super().last_inserted_params())

    def last_updated_params(self) -> Any:
        """See `CursorResult.last_updated_params`."""
        return self.__dict__[_REWRITE]("last_updated_params", super().last_updated_params())


def rewrite_write_info(result: CursorResult[Any], rewrite: Callable[[str, Any], Any]) -> None:
    """Pass the information that a cursor result has about written rows through a function.

    That is `inserted_primary_key`, `inserted_primary_key_rows`, `returned_defaults`,
    `returned_defaults_rows`, `lastrowid`, `last_inserted_params()` and `last_updated_params()`.

    Args:
        result: stays the same object, because others may refer to it, as a rewritten result does.
        rewrite: takes the name of the attribute or method, and its value.
    """
    if type(result) is CursorResult:
        result.__class__ = _RewrittenCursorResult
        result.__dict__[_REWRITE] = rewrite


def read_inserted_keys(result: CursorResult[Any]) -> None:
    """Read the primary keys of inserted rows now, so that they pass through the function."""
    with suppress(InvalidRequestError):  # not the result of an INSERT
        _ = result.inserted_primary_key_rows


def returned_identities(
    result: CursorResult[Any], columns: Sequence[Column[Any]]
) -> list[tuple[Any, ...]]:
    """Return what RETURNING has of some columns, and leave all rows to be fetched.

    Returns:
        the values of each row; nothing if a column is not returned.
    """
    if not result.returns_rows:
        return []
    rows = result.all()
    # Private: `_rewind`, which SQLAlchemy uses for RETURNING that both it and a program need.
    # Pinned by `test_returned_rows_can_be_read_beforehand`.
    result._rewind(rows)
    try:
        return [tuple(row._mapping[column] for column in columns) for row in rows]
    except NoSuchColumnError:
        return []
