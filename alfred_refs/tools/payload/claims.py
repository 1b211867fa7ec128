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
from alfred_refs.conversation.draft_fields import Record
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import Key
from alfred_refs.session.drafts import Builder, Link
from alfred_refs.tools.errors import ToolError, invalid_content

_LOST = "nothing was changed"


Claims = Mapping[int, Mapping[str, Sequence[Any]]]
"""By the `id()` of new rows, what each column was said to have: a ref, and the key it names."""


def check_claims(builder: Builder, rows: Iterable[tuple[str, Record]], claims: Claims) -> None:
    """Check that what is said of new rows is what will be saved.

    Args:
        builder: has made and related their instances.
        rows: the new rows, with what each is called.
        claims: what a model or a draft says of them, before hooks.

    Raises:
        ToolError: two things that are said cannot both be, or one will not be.
    """
    places = {
        id(builder.made_of(record)): place
        for name, row in rows
        for place, record in _inside(name, row)
    }
    for link in builder.links:
        _check_class(link, places)
    _check_once(builder.links, places)
    _check_parents(builder.links, places)
    _check_columns(builder, places, claims)
    for link in builder.links:
        if not any(each is link.other for each in _added(link)):
            raise _lost(link, builder.links, places)
    for record, instance in builder.made:
        if sqla.state_of(instance).session is None:
            raise invalid_content(
                f"{places[id(instance)]!r} would not be saved with what it is in; {_LOST}",
                f"save it as a row of {record.model.__name__!r} by itself",
            )


def claims_of(rows: Iterable[Record], entities: Entities, keys: Mapping[Any, Key]) -> Claims:
    """Return what new rows and those inside them have.

    Args:
        rows: the new rows.
        entities: say which columns have refs.
        keys: that refs name, by these and the entity that is needed.
    """
    every = [each for row in rows for each in (row, *row.inside())]
    return {
        id(each): dict(_columns(each, entities.of_class(each.model).all, keys)) for each in every
    }


def _columns(
    record: Record, held: Mapping[str, KeyColumn], keys: Mapping[Any, Key]
) -> Iterator[tuple[str, list[Any]]]:
    for name, value in record.values.items():
        column = held.get(name)
        key = None if column is None or column.array else keys.get((value, column.entity))
        yield name, [value] if column is None or key is None else [value, column.from_key(key)]


def _inside(place: str, record: Record) -> Iterator[tuple[str, Record]]:
    """Yield a new row and those inside it, with where they stand."""
    yield place, record
    relationships = inspect(record.model).mapper.relationships
    for name, others in record.related.items():
        for at, other in enumerate(others, start=1):
            if isinstance(other, Record):
                number = f".{at}" if relationships[name].uselist else ""
                yield from _inside(f"{place}.{name}{number}", other)


def _check_class(link: Link, places: Mapping[int, str]) -> None:
    """Check that a relationship leads to a row of its class, and not of one beside it."""
    relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
    if not isinstance(link.other, relationship.mapper.class_):
        raise invalid_content(
            f"{_place(link, places)} is a row of another kind than belongs there; {_LOST}",
            "leave it out there",
        )


def _check_once(links: Iterable[Link], places: Mapping[int, str]) -> None:
    """Check that no relationship is said to have one row twice: nobody says what to store."""
    known = set[tuple[int, str, int]]()
    for link in links:
        pair = id(link.instance), link.name, id(link.other)
        if pair in known:
            raise invalid_content(
                f"{_place(link, places)} is said twice; {_LOST}", "leave one of the two out"
            )
        known.add(pair)


def _check_columns(builder: Builder, places: Mapping[int, str], claims: Claims) -> None:
    """Check that the columns of a reference say what its relationship says, which is stored."""
    records = {id(instance): record for record, instance in builder.made}
    for link in builder.links:
        columns = claims.get(id(records[id(link.instance)]), {})
        for name, has in _referring(link):
            if has not in columns.get(name, [has]):
                raise invalid_content(
                    f"'{places[id(link.instance)]}.{name}' says otherwise than "
                    f"{_place(link, places)}; {_LOST}",
                    "leave one of the two out",
                )


def _referring(link: Link) -> Iterator[tuple[str, Any]]:
    """Yield the columns that a link gives a value to in its own instance, and these values."""
    relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
    if relationship.direction is MANYTOONE:
        own = sqla.attributes_of(relationship.parent, relationship.local_columns)
        theirs = sqla.attributes_of(relationship.mapper, relationship.remote_side)
        there = sqla.state_of(link.other).dict
        for local, remote in relationship.local_remote_pairs or ():
            yield own.get(local, ""), there.get(theirs.get(remote, ""))


def _check_parents(links: Sequence[Link], places: Mapping[int, str]) -> None:
    """Check that no row is said to have two parents by the same columns."""
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
            raise invalid_content(
                f"{_place(first, places)} and {_place(link, places)} say two different rows "
                f"that one row belongs to, and it can belong to one; {_LOST}",
                "say it in one of the two places",
            )


def _added(link: Link) -> Sequence[Any]:
    """Return what a relationship of a new row has, however it is loaded."""
    history = sqla.state_of(link.instance).attrs[link.name].history
    return [*(history.added or ()), *(history.unchanged or ())]


def _lost(link: Link, links: Sequence[Link], places: Mapping[int, str]) -> ToolError:
    """Return the error for a row that its place has lost to another one."""
    collection = sqla.state_of(link.instance).dict.get(link.name)
    same = getattr(collection, "keyfunc", None)
    holder = None if same is None or collection is None else collection.get(same(link.other))
    other = next((each for each in links if each.other is holder), None)
    if other is None:
        return invalid_content(
            f"a row would not be saved in {_place(link, places)}; {_LOST}",
            "leave it out there, or relate it in another way",
        )
    return invalid_content(
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
