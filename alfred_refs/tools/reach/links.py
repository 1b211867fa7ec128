"""What a model sees of rows by way of a table between two, which goes with those rows.

A class comes in; a `Link` goes out for each relationship that leads from it, or to it, by way of a
table that is not listed: what the rows of a listed one go by is told of those themselves. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, inspect, select
from sqlalchemy.orm import Mapper, RelationshipProperty, aliased

from alfred_refs import sqla
from alfred_refs.tools.tables.table import ToolTable


@dataclass(frozen=True, slots=True)
class Link:
    """A relationship by way of a table, from one of its ends.

    Attributes:
        table: of the class that has it.
        name: what it is called there.
        near: the class at the end from which it is looked at.
        far: the table at the other.
        is_turned: whether the class that has it is the far one.
    """

    table: ToolTable
    name: str
    near: Mapper[Any]
    far: ToolTable
    is_turned: bool

    @property
    def ends(self) -> tuple[Any, ...]:
        """What tells it from all others, except for the same one from the other class."""
        relationship = self.table.relationship(self.name)
        pairs = (relationship.synchronize_pairs, relationship.secondary_synchronize_pairs)
        there, back = (frozenset(theirs for _, theirs in each or ()) for each in pairs)
        return (back, there, self.far) if self.is_turned else (there, back, self.far)

    def statement(self, keys: Sequence[tuple[Any, ...]]) -> Select[Any]:
        """Return what reads the primary keys of the rows at the far end of some."""
        relationship = self.table.relationship(self.name)
        has, related = aliased(self.table.model), aliased(relationship.mapper)
        near, far = (related, has) if self.is_turned else (has, related)
        own = [
            getattr(near, self.near.get_property_by_column(c).key) for c in self.near.primary_key
        ]
        others = [getattr(far, name) for name in self.far.identity]
        joined = select(*others).select_from(has).join(getattr(has, self.name).of_type(related))
        return joined.where(sqla.among(own, keys)).distinct().order_by(*others)


def links_of(mapper: Mapper[Any], tables: Iterable[ToolTable]) -> Iterator[Link]:
    """Yield the relationships that lead from a class or to it, each once."""
    between = {inspect(each.model).local_table for each in tables}
    seen = set[tuple[Any, ...]]()
    for link in _links(tables):
        if link.table.relationship(link.name).secondary in between:
            continue
        if mapper.isa(link.near) and link.ends not in seen:
            seen.add(link.ends)
            yield link


def _links(tables: Iterable[ToolTable]) -> Iterator[Link]:
    for table in tables:
        for name, target in table.targets.items():
            relationship: RelationshipProperty[Any] = table.relationship(name)
            if relationship.secondary is not None:
                yield Link(table, name, inspect(table.model).mapper, target, is_turned=False)
                yield Link(table, name, relationship.mapper, table, is_turned=True)
