"""What refers to the rows of a table, and what becomes of it when those are deleted.

A mapped class, or a table that no class is mapped to, comes in; an `Edge` for each foreign key
that refers to it goes out, and for each relationship that goes without one. What the unit of work
does stands above the rules of the database, as it comes first. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import Column, ForeignKeyConstraint, Table
from sqlalchemy.orm import MANYTOMANY, ONETOMANY, Mapper, RelationshipProperty

Effect = Literal["delete", "unlink", "stay"]
"""Referring rows go too, lose their reference, or are in the way."""

# a rule of the database -> what it does to referring rows; they are in the way of any other
_RULES: dict[str, Effect] = {"CASCADE": "delete", "SET NULL": "unlink", "SET DEFAULT": "unlink"}


@dataclass(frozen=True, slots=True)
class Edge:
    """A way in which rows refer to others.

    Attributes:
        table: of the referring rows.
        columns: in which they refer.
        referred: what those columns have, in the tables of the rows that are referred to.
        effect: what becomes of referring rows.
        said: whether the mapping or the schema says so, and it is not the default of the ORM.
    """

    table: Table
    columns: tuple[Column[Any], ...]
    referred: tuple[Column[Any], ...]
    effect: Effect
    said: bool = True


def edges_to(mapper: Mapper[Any] | None, table: Table) -> Iterator[Edge]:
    """Yield the ways in which rows refer to those of a class, or of a table without one."""
    owned = [] if mapper is None else [each for each in mapper.relationships if not each.viewonly]
    tables = {table} if mapper is None else {e for e in mapper.tables if isinstance(e, Table)}
    seen = set[RelationshipProperty[Any]]()
    for constraint in _constraints_to(tables):
        if mapper is not None and _is_inherited(constraint, mapper):
            continue  # the same row, in the table of a subclass
        by = [each for each in owned if _columns_of(each) == {*constraint.columns}]
        seen.update(by)
        yield _edge(constraint, by)
    for each in owned:
        if each not in seen and each.direction is ONETOMANY and not each.passive_deletes:
            pairs = cast("list[tuple[Column[Any], Column[Any]]]", each.local_remote_pairs)
            ours, theirs = zip(*pairs, strict=True)
            unlinked: Effect = "unlink" if _may_be_null(theirs) else "stay"
            effect = "delete" if each.cascade.delete else unlinked
            yield Edge(theirs[0].table, theirs, ours, effect, each.cascade.delete)


def edges_by_update(mapper: Mapper[Any], names: Collection[str]) -> Iterator[Edge]:
    """Yield the ways in which rows refer to those of a class, and are changed with them.

    Args:
        mapper: of the class.
        names: of the attributes that get other values.
    """
    columns = {c for name in names for c in mapper.column_attrs[name].columns}
    for constraint in _constraints_to({each for each in mapper.tables if isinstance(each, Table)}):
        referred = tuple(each.column for each in constraint.elements)
        if str(constraint.onupdate or "").upper() in _RULES and not columns.isdisjoint(referred):
            columns_there = tuple(each.parent for each in constraint.elements)
            yield Edge(constraint.table, columns_there, referred, "unlink")


def _edge(constraint: ForeignKeyConstraint, by: list[RelationshipProperty[Any]]) -> Edge:
    rule = str(constraint.ondelete or "").upper().partition("(")[0].strip()
    effect, said = _RULES.get(rule, "stay"), True
    for each in by:
        if each.passive_deletes:
            continue  # the rule of the database holds, for what is not loaded at least
        if each.direction is MANYTOMANY or each.cascade.delete:
            effect, said = "delete", True
        elif effect != "delete" or not any(other.cascade.delete for other in by):
            effect, said = "unlink", rule in _RULES
    elements = constraint.elements
    columns = tuple(each.parent for each in elements)
    referred = tuple(each.column for each in elements)
    if effect == "unlink" and rule != "SET DEFAULT" and not _may_be_null(columns):
        effect, said = "stay", True
    return Edge(constraint.table, columns, referred, effect, said)


def _may_be_null(columns: Iterable[Column[Any]]) -> bool:
    return all(column.nullable and not column.primary_key for column in columns)


def _constraints_to(tables: set[Table]) -> Iterator[ForeignKeyConstraint]:
    """Yield the foreign keys of the tables' metadata that refer to some of them."""
    metadata = {id(table.metadata): table.metadata for table in tables}
    for each in metadata.values():
        for table in each.tables.values():
            for constraint in table.foreign_key_constraints:
                if constraint.referred_table in tables:
                    yield constraint


def _columns_of(relationship: RelationshipProperty[Any]) -> set[Any]:
    """Return the columns that a relationship sets to null or deletes with, in another table."""
    if relationship.direction is ONETOMANY:
        return {*relationship.remote_side}
    if relationship.direction is MANYTOMANY:
        return {theirs for _, theirs in relationship.synchronize_pairs}
    return set()


def _is_inherited(constraint: ForeignKeyConstraint, mapper: Mapper[Any]) -> bool:
    """Tell whether a foreign key is the primary key of a subclass: that of the base's rows."""
    if {*constraint.columns} != {*constraint.table.primary_key}:
        return False
    below = (table for each in mapper.base_mapper.self_and_descendants for table in each.tables)
    return constraint.table in below
