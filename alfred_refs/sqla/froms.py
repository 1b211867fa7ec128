"""What stands in a FROM: tables, their aliases, and what is joined or selected of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2s
from typing import Any, cast

from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import (
    AliasedReturnsRows,
    FromClause,
    FromGrouping,
    Join,
    SelectBase,
    TableClause,
    Values,
)

# what our aliases begin with; PostgreSQL folds a name without quotes
_OURS = re.compile(r"alfred_owner_[0-9a-f]{8}_", re.IGNORECASE)
_LONGEST = 63  # bytes of a name


def is_ours(name: str) -> bool:
    """Tell whether a name begins as those of `settled` do."""
    return bool(_OURS.match(name))


def is_settled(table: FromClause) -> bool:
    """Tell whether a table is one that `settled` has returned."""
    return bool(vars(table).get("alfred_refs_settled"))


def settled(table: FromClause) -> Any:
    """Return an alias for use in a criterion, which says itself which of its rows are meant.

    Its name is no other's: of each table it is another, and a program may give none that begins
    as it does.
    """
    of = cast(TableClause, table)
    digest = blake2s(f"{of.schema}.{of.name}".encode(), digest_size=4).hexdigest()
    alias = table.alias(f"alfred_owner_{digest}_{of.name}"[:_LONGEST])
    vars(alias)["alfred_refs_settled"] = True
    return alias


def table_of(from_: FromClause) -> TableClause | None:
    """Return the table that a FROM element is, or is an alias of."""
    while isinstance(from_, AliasedReturnsRows):
        from_ = cast(FromClause, from_.element)
    return from_ if isinstance(from_, TableClause) else None


def leaves_of(from_: FromClause) -> Iterator[FromClause]:
    """Yield the tables that a criterion on the rows of a FROM element confines exactly."""
    if isinstance(from_, FromGrouping):
        yield from leaves_of(from_.element)
    elif isinstance(from_, Join):
        if not from_.full:
            yield from leaves_of(from_.left)
            yield from () if from_.isouter else leaves_of(from_.right)
    elif table_of(from_) is not None:
        yield from_


def elements_in(from_: Any) -> Iterator[Any]:
    """Yield what a FROM element is joined of: tables, aliases and subqueries."""
    if isinstance(from_, Join):
        yield from elements_in(from_.left)
        yield from elements_in(from_.right)
    elif isinstance(from_, FromGrouping):
        yield from elements_in(from_.element)
    else:
        yield from_


def is_known(from_: Any) -> bool:
    """Tell whether a FROM element is of a kind that is confined, as is all that is inside."""
    if isinstance(from_, FromGrouping | AliasedReturnsRows):
        return is_known(from_.element)
    if isinstance(from_, Join):
        return is_known(from_.left) and is_known(from_.right)
    # each is confined where it is visited
    return isinstance(from_, TableClause | SelectBase | UpdateBase | Values | FunctionElement)
