"""How the rows of each table belong to an owner, read from what the mappers know.

Classes come in, each with the attribute that has the owner or leads to the row that decides; a
`Belonging` for each of their tables goes out, those of subclasses included. No I/O.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    inspect,
)
from sqlalchemy.orm import ColumnProperty, Mapper, RelationshipDirection, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.errors import OwnershipError

Model = type[Any]


@dataclass(frozen=True, slots=True)
class Belonging:
    """How the rows of one table belong to an owner.

    By the owner's `column`, which is compared with `parameter`; or as the row of the table
    `parent` does, which `pairs` reference: columns, each with what it references.
    """

    table: Table
    parameter: BindParameter[Any] | None = None
    column: Column[Any] | None = None
    parent: Table | None = None
    pairs: tuple[tuple[Column[Any], Column[Any]], ...] = ()
    shared: bool = False  # rows without an owner may be read by all


def belongings_of(
    owned: Mapping[Model, str], shared: Collection[Model]
) -> Mapping[Table, Belonging]:
    """Return how the rows of all tables of owned classes belong.

    Args:
        owned: by class, the name of the attribute that says it.
        shared: classes whose rows without an owner may be read by all.

    Raises:
        OwnershipError: it cannot be told of a class.
    """
    found: dict[Table, Belonging] = {}
    for class_, name in owned.items():
        for mapper in inspect(class_).mapper.self_and_descendants:
            _read(mapper, class_, name, found, shared)
    _check(found)
    return found


def _read(
    mapper: Mapper[Any],
    class_: Model,
    name: str,
    found: dict[Table, Belonging],
    shared: Collection[Model],
) -> None:
    attribute = mapper.attrs.get(name)
    for table in mapper.tables:
        if not isinstance(table, Table):
            raise OwnershipError(
                f"{mapper.class_.__name__} is mapped to more than tables",
                "own the classes of the tables that it is made of",
            )
        if table in found:
            continue
        if isinstance(attribute, ColumnProperty):
            columns = cast("list[Column[Any]]", attribute.columns)
            column = next((c for c in columns if c.table is table), None)
            if column is None:
                found[table] = _inherited(mapper, table)
                continue
            name_of_parameter = f"alfred_owner_{len(found)}_{table.name}"
            parameter = BindParameter(name_of_parameter, None, type_=column.type)
            found[table] = Belonging(table, parameter, column, shared=class_ in shared)
        elif isinstance(attribute, RelationshipProperty):
            found[table] = _by_relationship(table, mapper, attribute)
        else:
            raise OwnershipError(
                f"{class_.__name__} has no column or relationship {name!r}",
                "name the attribute that has the owner, or leads to the row that decides",
            )


def _check(found: Mapping[Table, Belonging]) -> None:
    for belonging in found.values():
        seen = belonging
        for _ in range(len(found) + 1):
            if seen.parent is None:
                break
            if seen.parent not in found:
                raise OwnershipError(
                    f"rows of {seen.table.name!r} belong as those of {seen.parent.name!r}, "
                    "which is not owned",
                    "name the owner's attribute of that class too",
                )
            seen = found[seen.parent]
        else:
            raise OwnershipError(
                f"rows of {belonging.table.name!r} belong to each other in a circle",
                "name a column that has the owner",
            )


def as_column_has(column: ColumnElement[Any], value: Any) -> Any:
    """Return an owner as a column has it."""
    kind = column.type.python_type
    if value is None or isinstance(value, kind):
        return value
    return kind(str(value)) if kind in (uuid.UUID, int, str) else value


def _by_relationship(
    table: Table, mapper: Mapper[Any], relationship: RelationshipProperty[Any]
) -> Belonging:
    if relationship.direction is not RelationshipDirection.MANYTOONE:
        raise OwnershipError(
            f"{relationship} leads to many rows, or away from them",
            "name the relationship to the one row that decides",
        )
    pairs = [
        (cast("Column[Any]", ours), cast("Column[Any]", theirs))
        for ours, theirs in relationship.local_remote_pairs
    ]
    if any(ours.table is not table for ours, _ in pairs):
        return _inherited(mapper, table)
    if not _is_one_row([theirs for _, theirs in pairs]):
        raise OwnershipError(
            f"{relationship} may lead to several rows: what it goes by is not unique there",
            "make it unique, or name a column that has the owner",
        )
    return Belonging(table, parent=pairs[0][1].table, pairs=tuple(pairs))


def _is_one_row(columns: Collection[Column[Any]]) -> bool:
    """Tell whether values of these columns name one row of their table at most."""
    table = next(iter(columns)).table
    keys = (PrimaryKeyConstraint, UniqueConstraint)
    unique = [set(each.columns) for each in table.constraints if isinstance(each, keys)]
    unique += [
        set(index.columns)
        for index in table.indexes
        # on columns as they are, and on all rows
        if index.unique
        and all(isinstance(each, Column) for each in index.expressions)
        and index.dialect_options["postgresql"]["where"] is None
    ]
    unique += [{column} for column in table.columns if column.unique]
    return any(each and each <= set(columns) for each in unique)


def _inherited(mapper: Mapper[Any], table: Table) -> Belonging:
    """Return how rows of a joined subclass belong: as those of the base."""
    own = next(each for each in mapper.iterate_to_root() if each.local_table is table)
    if own.inherits is None or own.inherit_condition is None:
        raise OwnershipError(
            f"table {table.name!r} has no owner's column", "name the attribute of its own"
        )
    pairs = sqla.pairs_in(own.inherit_condition, table)
    return Belonging(table, parent=pairs[0][1].table, pairs=tuple(pairs))
