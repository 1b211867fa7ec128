"""Results whose rows, and whatever else they tell, go through a function first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from sqlalchemy import (
    CursorResult,
    Result,
    Row,
)
from sqlalchemy.engine import ChunkedIteratorResult
from sqlalchemy.exc import InvalidRequestError

from alfred_refs.errors import UntranslatableError

Rows = Sequence[Any]
"""A chunk of rows: tuples of one value per result element."""

_SHOW = "alfred_refs"  # the function, in the dictionary of a covered result


def row_like(row: Row[Any], values: Sequence[Any]) -> Row[Any]:
    """Return a row with other values: one inside a row, as a `Bundle` makes it."""
    inner = cast(Any, row)
    return type(row)(inner._parent, None, inner._key_to_index, values)


class _Covered(CursorResult[Any]):
    """A cursor's result whose exits beside its rows go through a function first.

    `inserted_primary_key` takes its row from `inserted_primary_key_rows`.
    """

    __slots__ = ()

    def _exit(self, name: str) -> Any:
        return self.__dict__[_SHOW](name, getattr(super(), name))

    inserted_primary_key_rows = property(lambda self: self._exit("inserted_primary_key_rows"))
    returned_defaults = property(lambda self: self._exit("returned_defaults"))
    returned_defaults_rows = property(lambda self: self._exit("returned_defaults_rows"))
    lastrowid = property(lambda self: self._exit("lastrowid"))

    def last_inserted_params(self) -> Any:
        """See `CursorResult.last_inserted_params`."""
        return self.__dict__[_SHOW]("last_inserted_params", super().last_inserted_params())

    def last_updated_params(self) -> Any:
        """See `CursorResult.last_updated_params`."""
        return self.__dict__[_SHOW]("last_updated_params", super().last_updated_params())


def cover_exits(result: CursorResult[Any], show: Callable[[str, Any], Any]) -> None:
    """Have what a result tells beside its rows go through a function, by the exit's name.

    It stays the same object, of a subclass: others may hold it, as a rewritten result does.
    """
    if type(result) is CursorResult:
        result.__class__ = _Covered
        result.__dict__[_SHOW] = show


def new_primary_keys(result: CursorResult[Any]) -> None:
    """Ask a result for the primary keys of the rows that it inserted, if it can tell."""
    with suppress(InvalidRequestError):
        _ = result.inserted_primary_key_rows


def cursor_result_of(result: Result[Any]) -> CursorResult[Any] | None:
    """Return the result of the cursor that a result is made from, `None` if there is none."""
    raw = getattr(result, "raw", None) if isinstance(result, ChunkedIteratorResult) else result
    return raw if isinstance(raw, CursorResult) else None


def origins_of(result: CursorResult[Any]) -> list[tuple[int, int]]:
    """Return from which table and column, by their numbers, each value of a row is read.

    That is what PostgreSQL sends with the rows: psycopg keeps it in the result of libpq, psycopg2
    in the description. Zeros stand for what no column holds, and for all columns where the driver
    does not tell. SQLAlchemy's adapted cursors have that of the driver in `_cursor`.
    """
    cursor = getattr(result.context, "cursor", None)
    cursor = getattr(cursor, "_cursor", cursor)
    described = getattr(cursor, "pgresult", None)
    if described is not None:
        numbers = range(described.nfields)
        return [(described.ftable(i), described.ftablecol(i)) for i in numbers]
    return [
        (getattr(column, "table_oid", None) or 0, getattr(column, "table_column", None) or 0)
        for column in getattr(cursor, "description", None) or ()
    ]


class RewrittenResult(ChunkedIteratorResult[Any]):
    """The rewritten rows of a Core result, which answers for everything but its rows.

    Attributes:
        behind: that result.
    """

    behind: Result[Any]

    def __getattr__(self, name: str) -> Any:
        if name in ("splice_horizontally", "splice_vertically"):
            raise UntranslatableError(
                f"{name}() would put together rows with their keys",
                "put together what all() returns, or use session.raw_keys() or "
                "execution_options(raw_keys=True) in trusted code",
            )
        if name == "behind":  # not set yet
            raise AttributeError(name)
        return getattr(self.behind, name)


def yields_chunks(result: Result[Any]) -> bool:
    """Tell whether a result is the ORM's own, or one that `rewrite_rows` made of a Core result."""
    return isinstance(result, ChunkedIteratorResult)


def rewrite_rows(
    result: Result[Any], rewrite: Callable[[Iterator[Rows]], Iterator[Rows]], *, now: bool = False
) -> Result[Any]:
    """Make the chunks of rows that the result yields go through a function first.

    An ORM result keeps its identity, its metadata and its uniqueness rules; a Core result is
    continued by one with the same keys (as `Result.freeze()` does).

    Args:
        result: not consumed yet.
        rewrite: takes chunks, as they are fetched, and yields as many.
        now: fetch and rewrite all rows before returning, as SQLAlchemy's own `prebuffer_rows`.
    """
    if not isinstance(result, ChunkedIteratorResult):
        result = _of_chunks(result)
    chunks = result.chunks
    if result._source_supports_scalars:  # the rows are values, such as a Bundle, without a tuple
        rewrite = partial(_rewrite_values, rewrite)
    fetched = list(rewrite(chunks(None))) if now else None
    result.chunks = lambda size: rewrite(chunks(size)) if fetched is None else iter(fetched)
    result.iterator = itertools.chain.from_iterable(result.chunks(result._yield_per))
    return result


def _of_chunks(cursor: Result[Any]) -> ChunkedIteratorResult[Any]:
    rewritten = RewrittenResult(
        cursor._metadata._for_freeze(),
        lambda size: _chunks(cursor, size),
        # none behind what a listener returns; the asyncio extension asks it for its cursor
        raw=cursor if isinstance(cursor, CursorResult) else getattr(cursor, "raw", None),
        dynamic_yield_per=True,
    )
    rewritten.behind = cursor
    rewritten._yield_per = cursor._yield_per
    return rewritten


def _rewrite_values(
    rewrite: Callable[[Iterator[Rows]], Iterator[Rows]], chunks: Iterator[Rows]
) -> Iterator[Rows]:
    for rows in rewrite([(value,) for value in chunk] for chunk in chunks):
        yield [value for (value,) in rows]


def _chunks(cursor: Result[Any], size: int | None) -> Iterator[Rows]:
    if size is None:
        yield cursor.fetchall()
        return
    while chunk := cursor.fetchmany(size):
        yield chunk
