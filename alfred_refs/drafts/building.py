"""Objects made of drafts, with the draft's ref where their key will be.

A record of a draft's content comes in; an instance that no session has yet goes out, with new
instances for the rows inside. Rows that are named by their refs are asked for where a relationship
needs an object; refs in foreign key attributes stay refs, which the flush resolves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.orm import Mapper

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
        self._made: dict[int, tuple[Record, Any]] = {}  # with the record, or its id is another's

    def build(self, record: Record, **more: Any) -> Any:
        """Return a new instance, without what it is related to.

        Args:
            record: what it has.
            more: values by attribute beside those; they stay, whatever `__init__` makes of them.
        """
        instance = instance_of(record.model, {**record.values, **more})
        for name, value in more.items():
            setattr(instance, name, value)  # an __init__ may make keys of its own
        self._made[id(record)] = record, instance
        return instance

    def made_of(self, record: Record) -> Any:
        """Return the instance that was made of a record, that of a row inside another too."""
        return self._made[id(record)][1]

    def relate(self, instance: Any, record: Record) -> None:
        """Put in what an instance is related to, at any depth."""
        mapper: Mapper[Any] = inspect(record.model).mapper
        for name, rows in record.related.items():
            target = mapper.relationships[name].mapper.class_
            for row in rows:
                sqla.put_related(instance, name, self._related(target, row))

    def _related(self, target: type[Any], row: Record | str) -> Any:
        if isinstance(row, str):
            return self._named(target, row)
        child = self.build(row)
        self.relate(child, row)
        return child
