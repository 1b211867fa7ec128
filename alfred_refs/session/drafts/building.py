"""Objects made of drafts, with the draft's ref where their key will be.

A record of a draft's content comes in; an instance that no session has yet goes out, with new
instances for the rows inside. Rows that are named by their refs are asked for where a relationship
needs an object; refs in foreign key attributes stay refs, which the flush resolves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Mapper, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.conversation.draft_fields import Record
from alfred_refs.errors import DraftContentError

from .making import instance_of

Named = Callable[[type[Any], str], Any]
"""Gives the instance that a ref names."""


@dataclass(frozen=True, slots=True)
class Link:
    """One instance that another was said to be related to.

    Attributes:
        instance: a new one.
        name: its relationship.
        other: what that leads to, new or not.
        ref: by which the other was named, if it was.
    """

    instance: Any
    name: str
    other: Any
    ref: str | None


class Builder:
    """Makes instances of records.

    Args:
        named: gives the rows that are named by their refs.

    Attributes:
        links: all that was put in so far, as it was said.
    """

    def __init__(self, named: Named) -> None:
        self._named = named
        self.links: list[Link] = []
        self._made: dict[int, tuple[Record, Any]] = {}  # with the record, or its id is another's
        self._there: set[tuple[int, str, int]] = set()  # said from either side

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

    @property
    def made(self) -> list[tuple[Record, Any]]:
        """The records that instances were made of, with these."""
        return [*self._made.values()]

    def relate(self, instance: Any, record: Record) -> None:
        """Put in what an instance is related to, at any depth.

        Raises:
            DraftContentError: a row lacks the value by which a collection is to find it.
        """
        mapper: Mapper[Any] = inspect(record.model).mapper
        for name, rows in record.related.items():
            target = mapper.relationships[name].mapper.class_
            for row in rows:
                other = self._related(target, row)
                ref = row if isinstance(row, str) else None
                self.links.append(Link(instance, name, other, ref))
                self._put(instance, mapper.relationships[name], other)

    def _put(self, instance: Any, relationship: RelationshipProperty[Any], other: Any) -> None:
        """Relate two instances, once: a list of an association would have a row twice."""
        name = relationship.key
        if relationship.uselist and (id(instance), name, id(other)) in self._there:
            return
        _put(instance, name, other)
        self._there.add((id(instance), name, id(other)))
        backs = sqla.reverse_of(relationship)
        self._there.update((id(other), back, id(instance)) for back in backs)

    def _related(self, target: type[Any], row: Record | str) -> Any:
        if isinstance(row, str):
            return self._named(target, row)
        child = self.build(row)
        self.relate(child, row)
        return child


def _put(instance: Any, name: str, other: Any) -> None:
    try:
        sqla.put_related(instance, name, other)
    except InvalidRequestError as error:
        if "is not populated" not in str(error):
            raise
        raise DraftContentError(
            f"a row in field {name!r} of a draft lacks the value that tells it apart there",
            "give it that value",
        ) from None
