"""Objects made of drafts, with the draft's ref where their key will be.

A record of a draft's content comes in; an instance that no session has yet goes out, with new
instances for the rows inside. Rows that are named by their refs are asked for where a relationship
needs an object, and otherwise stay refs in foreign key attributes, which the flush resolves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.orm import Mapper, RelationshipDirection, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.draft_fields import Record
from alfred_refs.making import instance_of

Named = Callable[[type[Any], str], Any]
"""Gives the instance that a ref names."""


class Builder:
    """Makes instances of records.

    Args:
        named: gives the rows that are named by their refs.
    """

    def __init__(self, named: Named) -> None:
        self._named = named

    def build(self, record: Record, **more: Any) -> Any:
        """Return a new instance, without what it is related to.

        Args:
            record: what it has.
            more: values by attribute beside those.
        """
        mapper: Mapper[Any] = inspect(record.model).mapper
        values = {**record.values, **more}
        for name, rows in record.related.items():
            foreign = _foreign_key(mapper.relationships[name])
            if foreign is not None and rows and isinstance(rows[0], str):
                values[foreign] = rows[0]
        return instance_of(record.model, values)

    def relate(self, instance: Any, record: Record) -> None:
        """Put in what an instance is related to, at any depth."""
        mapper: Mapper[Any] = inspect(record.model).mapper
        for name, rows in record.related.items():
            relationship = mapper.relationships[name]
            is_ref = _foreign_key(relationship) is not None
            for row in rows:
                if isinstance(row, Record):
                    child = self.build(row)
                    self.relate(child, row)
                    sqla.put_related(instance, name, child)
                elif not is_ref:
                    there = self._named(relationship.mapper.class_, row)
                    sqla.put_related(instance, name, there)


def _foreign_key(relationship: RelationshipProperty[Any]) -> str | None:
    """Return the attribute that alone says which row a many-to-one relationship leads to."""
    if relationship.direction is not RelationshipDirection.MANYTOONE:
        return None
    local = [*relationship.local_columns]
    mapper = relationship.parent
    return mapper.get_property_by_column(local[0]).key if len(local) == 1 else None
