"""Whether foreign keys name rows that an owner may see: one query for each table that they name.

Values come in, each with the constraint that it falls under; nothing goes out, or an error that
reads the same for a row of somebody else's and for one that is not there. A row that decides whose
another is must be the owner's own: what belongs to a shared row is shared as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import ClauseElement, Table
from sqlalchemy.orm import Session

from alfred_refs import sqla
from alfred_refs.errors import ForeignRowError, UnconfinedError

from .confinement import Confinement


@dataclass(frozen=True, slots=True)
class Target:
    """What a foreign key names: a row that `decides` whose another is must be the owner's own."""

    columns: tuple[Any, ...]
    decides: bool

    @property
    def table(self) -> Any:
        """The table that it names rows of."""
        return self.columns[0].table


class References:
    """What the foreign keys of rows that are about to be written name."""

    def __init__(self, confinement: Confinement, session: Session) -> None:
        self._confinement = confinement
        self._session = session
        self._wanted: dict[Target, dict[tuple[Any, ...], str]] = {}
        self._checked: dict[Target, set[tuple[Any, ...]]] = {}
        self._new: set[tuple[Table, tuple[Any, ...]]] = set()

    @property
    def any(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self._wanted)

    def of_table(self, table: Any) -> Iterator[tuple[Sequence[Any], Target]]:
        """Yield the columns of a table that name other rows, with what they name.

        Those are its foreign keys, and what decides whose a row is: that may be a relationship
        without a foreign key in the database.
        """
        belonging = self._confinement.ownership.belonging_of(table)
        pairs = () if belonging is None else belonging.pairs
        found = [
            tuple((element.parent, element.column) for element in constraint.elements)
            for constraint in table.foreign_key_constraints
        ]
        if pairs and all(set(each) != set(pairs) for each in found):
            found.append(pairs)
        for each in found:
            columns, targets = zip(*each, strict=True)
            if belonging is None or all(c is not belonging.column for c in columns):  # stamped
                yield columns, Target(targets, decides=set(each) == set(pairs))

    def add(
        self, target: Target, values: tuple[Any, ...] | None, what: str, *, is_final: bool
    ) -> None:
        """Note that a row is to name another.

        Args:
            target: what it names.
            values: by which; `None` where it is not given all of them.
            what: names them in an error.
            is_final: whether nothing else is to be filled in before it is sent.

        Raises:
            ForeignRowError: a row that decides is not named: it would be nobody's.
            UnconfinedError: in a table that is unknown, or by an expression.
        """
        if target.decides and is_final and (values is None or any(v is None for v in values)):
            raise ForeignRowError(what, named=True)
        if values is None:
            return
        if any(isinstance(value, ClauseElement) for value in values):
            raise UnconfinedError(f"what {what} is to name", "give the key itself")
        if None in values or self._confinement.ownership.belonging_of(target.table) is None:
            return
        if values not in self._checked.get(target, ()):
            self._wanted.setdefault(target, {}).setdefault(values, what)

    def add_new(self, table: Table, identity: tuple[Any, ...]) -> None:
        """Note that a row is new in the same flush: others may name it."""
        self._new.add((table, identity))

    def check(self) -> None:
        """Look whether the owner may see what is named.

        Raises:
            ForeignRowError: one row is another's, or is not there.
        """
        wanted, self._wanted = self._wanted, {}
        ask = partial(self._confinement.ask, self._session)
        for target, values in wanted.items():
            unknown = [each for each in values if not self._is_there(target, each)]
            found = ask(target.columns, unknown, writing=target.decides) if unknown else ()
            for each in unknown:
                if each not in found:
                    [column, *more] = target.columns
                    ref = None if more else self._confinement.named(column, each[0])
                    raise ForeignRowError(values[each], ref, named=True)
            self._checked.setdefault(target, set()).update(values)

    def _is_there(self, target: Target, values: tuple[Any, ...]) -> bool:
        """Tell whether the session has the row, and it is known to be the owner's."""
        if set(target.columns) != set(target.table.primary_key):
            return False
        identity = dict(zip(target.columns, values, strict=True))
        key = tuple(identity[column] for column in target.table.primary_key)
        if (target.table, key) in self._new:
            return True
        mapper = sqla.mapper_of_table(target.table)
        if mapper is None:
            return False
        there = self._session.identity_map.get(mapper.identity_key_from_primary_key(key))
        return there is not None and self._confinement.is_known(
            self._session, sqla.state_of(there), writing=target.decides
        )


def changed_values(
    columns: Iterable[Any], names: Mapping[Any, str], values: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """Return what a foreign key's columns have; `None` where one of them is not among the values.

    Args:
        columns: of the foreign key.
        names: of the columns among the values.
        values: by name.
    """
    found = [names.get(column, "") for column in columns]
    return tuple(values[n] for n in found) if all(n in values for n in found) else None
