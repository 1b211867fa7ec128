"""What refers to the rows of a table, and what becomes of it when those are deleted or changed.

A mapped class, or a table that no class is mapped to, comes in; an `Edge` for each foreign key
that refers to it goes out, and for each relationship that goes without one. What the unit of work
does stands above the rules of the database, as it comes first; where the database takes a row
along, its rules alone hold for what refers to that. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import Column, ForeignKeyConstraint, Join, Table
from sqlalchemy.orm import MANYTOMANY, MANYTOONE, ONETOMANY, Mapper, RelationshipProperty

from alfred_refs import sqla

Effect = Literal["delete", "unlink", "reset", "follow", "stay"]
"""Referring rows go too, lose their reference, refer to what they do by default, are given the new
value, or are in the way."""

# a rule of the database -> what it does to referring rows; they are in the way of any other
_RULES: dict[str, Effect] = {"CASCADE": "delete", "SET NULL": "unlink", "SET DEFAULT": "reset"}


@dataclass(frozen=True, slots=True)
class Edge:
    """A way in which rows refer to others.

    Attributes:
        table: of the referring rows.
        columns: in which they refer.
        referred: what those columns have, in the tables of the rows that are referred to.
        effect: what becomes of referring rows.
        said: whether the mapping or the schema says so, and it is not the default of the ORM.
        by_orm: whether the unit of work does it, and not the database.
        names: the relationships by which the unit of work finds the rows, where it looks for
            those of each instance: it may find fewer than refer.
        unseen: what becomes of those that it does not find, `None` for nothing.
    """

    table: Table
    columns: tuple[Column[Any], ...]
    referred: tuple[Column[Any], ...]
    effect: Effect
    said: bool = True
    by_orm: bool = False
    names: tuple[str, ...] = ()
    unseen: Edge | None = None


def edges_to(mapper: Mapper[Any] | None, table: Table, *, by_orm: bool = True) -> Iterator[Edge]:
    """Yield the ways in which rows refer to those of a class, or of a table without one.

    Args:
        mapper: of the class.
        table: where the rows are.
        by_orm: whether the unit of work deletes them, and not the database.
    """
    owned = _written_by(mapper) if by_orm else []
    seen = set[RelationshipProperty[Any]]()
    for constraint in _constraints_to(mapper, table):
        by = [each for each in owned if _columns_of(each) == {*constraint.columns}]
        seen.update(by)
        yield _edge(constraint, by)
    for each in owned:
        if each not in seen and each.direction is ONETOMANY and not each.passive_deletes:
            pairs = cast("list[tuple[Column[Any], Column[Any]]]", each.local_remote_pairs)
            ours, theirs = zip(*pairs, strict=True)
            unlinked: Effect = "unlink" if _may_be_null(theirs) else "stay"
            effect = "delete" if each.cascade.delete else unlinked
            is_said, names = each.cascade.delete, (each.key,)
            yield Edge(theirs[0].table, theirs, ours, effect, is_said, by_orm=True, names=names)


def edges_by_update(
    mapper: Mapper[Any] | None, table: Table, columns: Collection[Column[Any]]
) -> Iterator[Edge]:
    """Yield the ways in which rows refer to those of a class, and are changed with them."""
    new = {*columns}
    for constraint in _constraints_to(mapper, table):
        referred = tuple(each.column for each in constraint.elements)
        rule = _effect(constraint, constraint.onupdate)
        if rule != "stay" and not new.isdisjoint(referred):
            effect: Effect = "follow" if rule == "delete" else rule
            theirs = tuple(each.parent for each in constraint.elements)
            yield Edge(constraint.table, theirs, referred, effect)
    for each in _written_by(mapper):
        if each.direction is not MANYTOONE and not each.passive_updates:
            pairs = cast("list[tuple[Column[Any], Column[Any]]]", each.synchronize_pairs)
            ours, theirs = zip(*pairs, strict=True)
            if not new.isdisjoint(ours):
                yield Edge(theirs[0].table, theirs, ours, "follow", by_orm=True)


def _written_by(mapper: Mapper[Any] | None) -> list[RelationshipProperty[Any]]:
    """Return the relationships that the unit of work writes."""
    return [] if mapper is None else [each for each in mapper.relationships if not each.viewonly]


def _effect(constraint: ForeignKeyConstraint, said: str | None) -> Effect:
    """Return what a rule of the database does to referring rows."""
    rule = str(said or "").upper().partition("(")[0].strip()
    if rule == "SET DEFAULT" and all(each.server_default is None for each in constraint.columns):
        rule = "SET NULL"
    return _RULES.get(rule, "stay")


def _edge(constraint: ForeignKeyConstraint, by: Sequence[RelationshipProperty[Any]]) -> Edge:
    rule = _effect(constraint, constraint.ondelete)
    effect, said, by_orm = rule, True, False
    for each in by:
        if each.passive_deletes:
            continue  # the rule of the database holds, for what is not loaded at least
        if each.direction is MANYTOMANY or each.cascade.delete:
            effect, said, by_orm = "delete", True, True
        elif effect != "delete" or not any(other.cascade.delete for other in by):
            effect, said, by_orm = "unlink", rule != "stay", True
    elements = constraint.elements
    columns = tuple(each.parent for each in elements)
    referred = tuple(each.column for each in elements)
    is_unfit = effect == "unlink" and not _may_be_null(columns)
    if is_unfit or (effect == "delete" and not by_orm and _is_part(constraint.table)):
        effect, said = "stay", True
    names = [each.key for each in by if each.direction is ONETOMANY and not each.passive_deletes]
    unseen = _edge(constraint, ()) if by_orm and names else None
    return Edge(constraint.table, columns, referred, effect, said, by_orm, tuple(names), unseen)


def _is_part(table: Table) -> bool:
    """Tell whether rows of a class have a part there, without which the rest would be torn.

    The database takes the row of one table: the part of a subclass, and leaves that of its base.
    """
    mapper = sqla.mapper_of_table(table)
    if mapper is None:
        joined = (each for each in sqla.mappers() if isinstance(each.local_table, Join))
        return any(table in each.tables for each in joined)
    return not mapper.concrete and mapper.base_mapper.local_table is not table


def _may_be_null(columns: Iterable[Column[Any]]) -> bool:
    return all(column.nullable and not column.primary_key for column in columns)


def _constraints_to(mapper: Mapper[Any] | None, table: Table) -> Iterator[ForeignKeyConstraint]:
    """Yield the foreign keys of the metadata that refer to a class, or to a table without one.

    But those by which the rows of a subclass are the same rows.
    """
    tables = {table} if mapper is None else {e for e in mapper.tables if isinstance(e, Table)}
    metadata = {id(each.metadata): each.metadata for each in tables}
    keys = (k for m in metadata.values() for t in m.tables.values() for k in t.foreign_keys)
    found = dict.fromkeys(key.constraint for key in keys if key.column.table in tables)
    for constraint in found:
        if constraint is not None and (mapper is None or not _is_inherited(constraint, mapper)):
            yield constraint


def _columns_of(relationship: RelationshipProperty[Any]) -> set[Any]:
    """Return the columns that a relationship sets to null or deletes with, in another table."""
    if relationship.direction in (ONETOMANY, MANYTOMANY):  # without those of other criteria
        return {theirs for _, theirs in relationship.synchronize_pairs}
    return set()


def _is_inherited(constraint: ForeignKeyConstraint, mapper: Mapper[Any]) -> bool:
    """Tell whether a foreign key is the primary key of a subclass: that of the base's rows."""
    if {*constraint.columns} != {*constraint.table.primary_key}:
        return False
    below = (table for each in mapper.base_mapper.self_and_descendants for table in each.tables)
    return constraint.table in below
