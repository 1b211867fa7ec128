"""Edges: the foreign keys and relationships through which a write changes other rows.

A foreign key with ON DELETE CASCADE deletes referring rows, any other foreign key blocks the
delete, and relationship cascades of the ORM may do either before. `edges_to` reads these rules for
deleted rows from the mapping and the schema, `edges_by_update` for changed values that foreign
keys reference, and `links_of` the rows of association tables.

>>> [(edge.table.name, edge.effect) for edge in edges_to(inspect(Recipe), Recipe.__table__)]
[('lines', 'delete')]

| effect | on a referring row |
| --- | --- |
| `delete` | it is deleted |
| `unlink` | its foreign key becomes null |
| `reset` | its foreign key becomes the default |
| `follow` | its foreign key gets the new value |
| `block` | it blocks the write |

As in SQLAlchemy, the unit of work acts before the rules of the database. If the database deletes a
row, only its own rules apply to the rows that refer to it.

Limits: triggers and rules that exist only in the database are not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import Column, ForeignKeyConstraint, Join, Select, Table, inspect, select
from sqlalchemy.orm import MANYTOMANY, MANYTOONE, ONETOMANY, Mapper, RelationshipProperty, aliased

from alfred_refs import sqla
from alfred_refs.tools.tables import ToolTable

Effect = Literal["delete", "unlink", "reset", "follow", "block"]
"""The effect on referring rows.

They are deleted, their reference becomes null, its default or the new value, or they block the
change.
"""


# ON DELETE or ON UPDATE rule -> its effect; any other rule blocks
_RULES: dict[str, Effect] = {"CASCADE": "delete", "SET NULL": "unlink", "SET DEFAULT": "reset"}


@dataclass(frozen=True, slots=True)
class Edge:
    """A foreign key or relationship by which rows refer to others.

    Attributes:
        table: the table of the referring rows.
        columns: their referring columns.
        referred: the referenced columns.
        effect: the effect on the referring rows.
        is_declared: whether the mapping or the schema declares the effect; false for the ORM's
            default.
        by_orm: whether the unit of work, not the database, does it.
        names: the relationships by which the unit of work loads the rows of each instance; these
            may be only some of the referring rows.
        fallback: the effect on rows that it does not load; `None` for no effect.
    """

    table: Table
    columns: tuple[Column[Any], ...]
    referred: tuple[Column[Any], ...]
    effect: Effect
    is_declared: bool = True
    by_orm: bool = False
    names: tuple[str, ...] = ()
    fallback: Edge | None = None


def edges_to(mapper: Mapper[Any] | None, table: Table, *, by_orm: bool = True) -> Iterator[Edge]:
    """Yield the foreign keys and relationships through which a delete affects other rows.

    Args:
        mapper: the mapper of the deleted rows; `None` if no class is mapped to their table.
        table: the table of the deleted rows.
        by_orm: whether the unit of work deletes them; otherwise the database does.
    """
    written = _written_relationships(mapper) if by_orm else []
    covered = set[RelationshipProperty[Any]]()
    for constraint in _constraints_to(mapper, table):
        by = [each for each in written if _columns_of(each) == {*constraint.columns}]
        covered.update(by)
        yield _edge(constraint, by)
    for each in written:
        if each not in covered and each.direction is ONETOMANY and not each.passive_deletes:
            pairs = cast("list[tuple[Column[Any], Column[Any]]]", each.local_remote_pairs)
            ours, theirs = zip(*pairs, strict=True)
            unlinked: Effect = "unlink" if _may_be_null(theirs) else "block"
            effect = "delete" if each.cascade.delete else unlinked
            is_said, names = each.cascade.delete, (each.key,)
            yield Edge(theirs[0].table, theirs, ours, effect, is_said, by_orm=True, names=names)


def edges_by_update(
    mapper: Mapper[Any] | None, table: Table, columns: Collection[Column[Any]]
) -> Iterator[Edge]:
    """Yield the edges to a class by which other rows change if some of its columns change."""
    new = {*columns}
    for constraint in _constraints_to(mapper, table):
        referred = tuple(each.column for each in constraint.elements)
        rule = _effect(constraint, constraint.onupdate)
        if rule != "block" and not new.isdisjoint(referred):
            effect: Effect = "follow" if rule == "delete" else rule
            theirs = tuple(each.parent for each in constraint.elements)
            yield Edge(constraint.table, theirs, referred, effect)
    for each in _written_relationships(mapper):
        if each.direction is not MANYTOONE and not each.passive_updates:
            pairs = cast("list[tuple[Column[Any], Column[Any]]]", each.synchronize_pairs)
            ours, theirs = zip(*pairs, strict=True)
            if not new.isdisjoint(ours):
                yield Edge(theirs[0].table, theirs, ours, "follow", by_orm=True)


def _written_relationships(mapper: Mapper[Any] | None) -> list[RelationshipProperty[Any]]:
    """Return the relationships that the unit of work writes."""
    return [] if mapper is None else [each for each in mapper.relationships if not each.viewonly]


def rule_of(clause: str | None) -> str:
    """Return the name of the rule of ON DELETE or ON UPDATE, without its columns."""
    return (clause or "").upper().partition("(")[0].strip()


def _effect(constraint: ForeignKeyConstraint, clause: str | None) -> Effect:
    """Return the effect of ON DELETE or ON UPDATE on referring rows."""
    rule = rule_of(clause)
    if rule == "SET DEFAULT" and all(each.server_default is None for each in constraint.columns):
        rule = "SET NULL"
    return _RULES.get(rule, "block")


def _edge(
    constraint: ForeignKeyConstraint, relationships: Sequence[RelationshipProperty[Any]]
) -> Edge:
    rule = _effect(constraint, constraint.ondelete)
    effect, is_declared, by_orm = rule, True, False
    for each in relationships:
        if each.passive_deletes:
            continue  # passive_deletes leaves unloaded rows to the database
        if each.direction is MANYTOMANY or each.cascade.delete:
            effect, is_declared, by_orm = "delete", True, True
        elif effect != "delete" or not any(other.cascade.delete for other in relationships):
            effect, is_declared, by_orm = "unlink", rule != "block", True
    elements = constraint.elements
    columns = tuple(each.parent for each in elements)
    referred = tuple(each.column for each in elements)
    is_impossible = effect == "unlink" and not _may_be_null(columns)
    if is_impossible or (
        effect == "delete" and not by_orm and _holds_part_of_rows(constraint.table)
    ):
        effect, is_declared = "block", True
    loaded_names = [
        each.key
        for each in relationships
        if each.direction is ONETOMANY and not each.passive_deletes
    ]
    fallback = _edge(constraint, ()) if by_orm and loaded_names else None
    return Edge(
        constraint.table,
        columns,
        referred,
        effect,
        is_declared,
        by_orm,
        tuple(loaded_names),
        fallback,
    )


def _holds_part_of_rows(table: Table) -> bool:
    """Return whether a table holds only a part of a class's rows (joined inheritance).

    ON DELETE CASCADE deletes the row of one table: the subclass's part, but not the base's.
    """
    mapper = sqla.mapper_of_table(table)
    if mapper is None:
        joined = (each for each in sqla.mappers() if isinstance(each.local_table, Join))
        return any(table in each.tables for each in joined)
    return sqla.root_of(mapper).local_table is not table


def _may_be_null(columns: Iterable[Column[Any]]) -> bool:
    return all(column.nullable and not column.primary_key for column in columns)


def _constraints_to(mapper: Mapper[Any] | None, table: Table) -> Iterator[ForeignKeyConstraint]:
    """Yield the foreign keys in the metadata that refer to a class, or to an unmapped table.

    The foreign keys of joined inheritance are left out.
    """
    tables = {table} if mapper is None else {e for e in mapper.tables if isinstance(e, Table)}
    metadata = {id(each.metadata): each.metadata for each in tables}
    keys = (k for m in metadata.values() for t in m.tables.values() for k in t.foreign_keys)
    constraints = dict.fromkeys(key.constraint for key in keys if key.column.table in tables)
    for constraint in constraints:
        if constraint is not None and (mapper is None or not _is_inherited(constraint, mapper)):
            yield constraint


def _columns_of(relationship: RelationshipProperty[Any]) -> set[Any]:
    """Return the columns in the other table by which a relationship unlinks or deletes rows."""
    # synchronize_pairs leave out columns of additional join criteria
    if relationship.direction in (ONETOMANY, MANYTOMANY):
        return {column for _, column in relationship.synchronize_pairs}
    return set()


def _is_inherited(constraint: ForeignKeyConstraint, mapper: Mapper[Any]) -> bool:
    """Return whether a foreign key links the table of a subclass to its base's."""
    if {*constraint.columns} != {*constraint.table.primary_key}:
        return False
    root = sqla.root_of(mapper)
    below = (each for each in root.self_and_descendants if sqla.root_of(each) is root)
    return any(constraint.table in each.tables for each in below)


@dataclass(frozen=True, slots=True)
class SecondaryLink:
    """A relationship with a secondary table, seen from one of its ends.

    Attributes:
        table: the table of the class that has the relationship.
        name: the relationship's.
        near: the mapper at the end from which it is followed.
        far: the table at the other end.
        is_reversed: whether the relationship belongs to the class at the far end.
    """

    table: ToolTable
    name: str
    near: Mapper[Any]
    far: ToolTable
    is_reversed: bool

    @property
    def ends(self) -> tuple[Any, ...]:
        """The identity of the link, which is the same for the reverse relationship."""
        relationship = self.table.relationship(self.name)
        pairs = (relationship.synchronize_pairs, relationship.secondary_synchronize_pairs)
        there, back = (frozenset(theirs for _, theirs in each or ()) for each in pairs)
        return (back, there, self.far) if self.is_reversed else (there, back, self.far)

    def statement(self, keys: Sequence[tuple[Any, ...]]) -> Select[Any]:
        """Return the SELECT of the primary keys at the far end, for rows at the near end."""
        relationship = self.table.relationship(self.name)
        owner, related = aliased(self.table.model), aliased(relationship.mapper)
        near, far = (related, owner) if self.is_reversed else (owner, related)
        near_key = [
            getattr(near, self.near.get_property_by_column(c).key) for c in self.near.primary_key
        ]
        far_key = self.far.primary_key(far)
        statement = (
            select(*far_key).select_from(owner).join(getattr(owner, self.name).of_type(related))
        )
        return statement.where(sqla.in_keys(near_key, keys)).distinct().order_by(*far_key)


def links_of(mapper: Mapper[Any], tables: Iterable[ToolTable]) -> Iterator[SecondaryLink]:
    """Yield the relationships with a secondary table from or to a class, each once.

    Listed secondary tables are left out, because their rows are reported.
    """
    listed_tables = {inspect(each.model).local_table for each in tables if not each.ends}
    known = set[tuple[Any, ...]]()
    for link in _all_links(tables):
        if link.table.relationship(link.name).secondary in listed_tables:
            continue
        if sqla.is_kind_of(mapper, link.near) and link.ends not in known:
            known.add(link.ends)
            yield link


def _all_links(tables: Iterable[ToolTable]) -> Iterator[SecondaryLink]:
    for table in tables:
        for name, target in table.targets.items():
            relationship: RelationshipProperty[Any] = table.relationship(name)
            if relationship.secondary is not None:
                yield SecondaryLink(
                    table, name, inspect(table.model).mapper, target, is_reversed=False
                )
                yield SecondaryLink(table, name, relationship.mapper, table, is_reversed=True)
