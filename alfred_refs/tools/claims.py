"""What the content of new rows says, against what their instances are before they are flushed.

Rows come in once they are built and related; nothing goes out, or a `ToolError` that names the
places of two things which cannot both be saved. The mapping takes the last of those and says
nothing: one row cannot have two parents by one foreign key, and a collection by keys has room for
one row of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.orm import MANYTOONE, ONETOMANY

from alfred_refs import sqla
from alfred_refs.draft_fields import Record
from alfred_refs.drafts import Builder, Link

from .errors import DraftContentToolError

_LOST = "nothing was changed"


def check_held(builder: Builder, rows: Iterable[tuple[str, Record]]) -> None:
    """Check that what is said of new rows is what will be saved.

    Args:
        builder: has made and related their instances.
        rows: the new rows, with what each is called.

    Raises:
        DraftContentToolError: two things that are said cannot both be, or one will not be.
    """
    places = {
        id(builder.made_of(record)): place
        for name, row in rows
        for place, record in _inside(name, row)
    }
    _check_parents(builder.links, places)
    for link in builder.links:
        if not any(each is link.other for each in _added(link)):
            raise _lost(link, builder.links, places)
    for record, instance in builder.made:
        if sqla.state_of(instance).session is None:
            raise DraftContentToolError(
                f"{places[id(instance)]!r} would not be saved with what it is in; {_LOST}",
                f"save it as a row of {record.model.__name__!r} by itself",
            )


def _inside(place: str, record: Record) -> Iterator[tuple[str, Record]]:
    """Yield a new row and those inside it, with where they stand."""
    yield place, record
    relationships = inspect(record.model).mapper.relationships
    for name, others in record.related.items():
        for at, other in enumerate(others, start=1):
            if isinstance(other, Record):
                number = f".{at}" if relationships[name].uselist else ""
                yield from _inside(f"{place}.{name}{number}", other)


def _check_parents(links: Sequence[Link], places: Mapping[int, str]) -> None:
    """Check that no row is said to have two parents by the same columns.

    Raises:
        DraftContentToolError: one is.
    """
    parents: dict[Any, tuple[Any, Link]] = {}
    for link in links:
        relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
        if relationship.direction is ONETOMANY:
            child, parent, columns = link.other, link.instance, relationship.remote_side
        elif relationship.direction is MANYTOONE:
            child, parent, columns = link.instance, link.other, relationship.local_columns
        else:
            continue
        known, first = parents.setdefault((id(child), frozenset(columns)), (parent, link))
        if known is not parent:
            raise DraftContentToolError(
                f"{_place(first, places)} and {_place(link, places)} say two different rows "
                f"that one row belongs to, and it can belong to one; {_LOST}",
                "say it in one of the two places",
            )


def _added(link: Link) -> Sequence[Any]:
    """Return what a relationship of a new row has, however it is loaded."""
    history = sqla.state_of(link.instance).attrs[link.name].history
    return [*(history.added or ()), *(history.unchanged or ())]


def _lost(link: Link, links: Sequence[Link], places: Mapping[int, str]) -> DraftContentToolError:
    """Return the error for a row that its place has lost to another one."""
    collection = sqla.state_of(link.instance).dict.get(link.name)
    same = getattr(collection, "keyfunc", None)
    holder = None if same is None or collection is None else collection.get(same(link.other))
    other = next((each for each in links if each.other is holder), None)
    if other is None:
        return DraftContentToolError(
            f"a row would not be saved in {_place(link, places)}; {_LOST}",
            "leave it out there, or relate it in another way",
        )
    return DraftContentToolError(
        f"{_place(link, places)} and {_place(other, places)} have the same value by which rows "
        f"are told apart there, and one of them would be lost; {_LOST}",
        "give one of them another value, or leave it out",
    )


def _place(link: Link, places: Mapping[int, str]) -> str:
    """Return where a row is related, and which it is if it was named."""
    where = f"'{places[id(link.instance)]}.{link.name}'"
    if link.ref is not None:
        return f"{link.ref!r} in {where}"
    return f"{places[id(link.other)]!r}"
