"""Map classes to the tables of a database: what is there is read, and each given a class."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    ForeignKeyConstraint,
    MetaData,
    Table,
    Uuid,
    and_,
    inspect,
    text,
)
from sqlalchemy.exc import SAWarning
from sqlalchemy.orm import RelationshipProperty, backref, registry, relationship

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.mapping.refs import is_entity_name
from alfred_refs.tools import Toolset

from .names import entity_names, free, joined, label_columns, row_names

_OURS = "alfred_refs_"
_PARTITIONS = text("select relname from pg_catalog.pg_class where relispartition")
_UNREADABLE = text("""
select relname from pg_catalog.pg_class
where relkind in ('r', 'p') and pg_table_is_visible(oid) and not has_table_privilege(oid, 'select')
""")


@dataclass(frozen=True, slots=True)
class Reflection:
    """What was found in a database.

    Attributes:
        models: mapped classes, by the names of their tables.
        labels: by table, the columns that have what its rows are called.
        left_out: by table, why a model cannot use it.
    """

    models: dict[str, type[Any]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def reflect(
    connection: Connection, tables: Collection[str] = (), *, hidden: Collection[str] = ()
) -> Reflection:
    """Return classes for the tables of a database, of the schema that its role sees first.

    Args:
        connection: on the database.
        tables: these, and not all: partitions and the registry's own are left out then.
        hidden: columns that are not mapped, such as `users.password`.

    Raises:
        SetupError: one of `tables` or `hidden` is not there, or is a key.
    """
    names = _chosen(connection, tables)
    metadata = MetaData()
    with warnings.catch_warnings():
        # of types that SQLAlchemy does not know: such columns are shown only if they are named
        warnings.simplefilter("ignore", SAWarning)
        metadata.reflect(connection, only=names, resolve_fks=True)
    labels: dict[Table, str] = {}
    mapped = _mapped(metadata, labels, _columns([metadata.tables[name] for name in names], hidden))
    found, unreadable = Reflection(), set(connection.scalars(_UNREADABLE))
    for name in names:
        table = metadata.tables[name]
        if name in unreadable or table not in mapped:
            why = "this role may not read it" if name in unreadable else "it has no primary key"
            found.left_out[name] = why
            continue
        try:
            Toolset({name: mapped[table]})
        except SetupError as error:
            found.left_out[name] = error.fact
        else:
            found.models[name] = mapped[table]
            found.labels.update({name: labels[table]} if table in labels else {})
    return found


def _chosen(connection: Connection, tables: Collection[str]) -> list[str]:
    """Return the names of the tables that are to be read."""
    there = inspect(connection).get_table_names()
    for name in tables:
        if name not in there:
            close = get_close_matches(name, there, 3, 0.5) or there[:10]
            raise SetupError(
                f"the database has no table {name!r}",
                "name one of its tables, such as " + ", ".join(map(repr, sorted(close))),
            )
    if tables:
        return sorted({*tables})
    partitions = set(connection.scalars(_PARTITIONS))
    return sorted(n for n in there if n not in partitions and not n.startswith(_OURS))


def _columns(tables: Iterable[Table], names: Collection[str]) -> set[Column[Any]]:
    """Return columns of tables by their names, with that of the table before each."""
    there = {f"{table.name}.{column.key}": column for table in tables for column in table.columns}
    found = set()
    for name in names:
        if name not in there:
            raise SetupError(f"there is no column {name!r}", "write table.column, of these tables")
        each = there[name]
        if each.primary_key or each.foreign_keys:
            raise SetupError(f"column {name!r} has keys, which are refs", "hide columns of data")
        found.add(each)
    return found


def _mapped(
    metadata: MetaData, labels: dict[Table, str], hidden: Collection[Column[Any]]
) -> dict[Table, type[Any]]:
    """Map a class to each table that has a primary key, and note what its rows are called."""
    entities: set[str] = set()
    classes: dict[Table, type[Any]] = {}
    for _, table in sorted(metadata.tables.items()):
        if not table.primary_key.columns:
            continue
        entity = free(entity_names(table.name), entities, is_entity_name)
        entities.add(entity)
        said: dict[str, Any] = {"__ref_name__": entity, "__doc__": table.comment}
        columns = label_columns([each for each in table.columns if each not in hidden], entity)
        if columns:
            labels[table] = " and ".join(columns)
            said["__ref_label__"] = columns[0] if len(columns) == 1 else joined(columns)
        classes[table] = type(entity, (), said)
    mapper = registry(metadata=metadata)
    related = _relationships(classes)
    for table, model in classes.items():
        _make_keys(table)
        left_out = [column.key for column in table.columns if column in hidden]
        mapper.map_imperatively(
            model, table, properties=related[table], exclude_properties=left_out
        )
    return classes


def _relationships(
    classes: Mapping[Table, type[Any]],
) -> dict[Table, dict[str, RelationshipProperty[Any]]]:
    """Return what foreign keys lead to, by the names of attributes; both ways."""
    taken = {table: {column.key for column in table.columns} for table in classes}
    related: dict[Table, dict[str, RelationshipProperty[Any]]] = {table: {} for table in classes}
    for table in classes:
        keys = [key for key in table.foreign_key_constraints if key.referred_table in classes]
        targets = [key.referred_table for key in keys]
        for key in sorted(keys, key=lambda each: tuple(each.column_keys)):
            target = key.referred_table
            name = free(row_names(key, classes[target].__ref_name__), taken[table])
            taken[table].add(name)
            several = targets.count(target) > 1
            names = [f"{table.name}_by_{name}"] if several else [table.name]
            back = free(names, taken[target])
            taken[target].add(back)
            related[table][name] = _relationship(key, classes[target], back)
    return related


def _relationship(
    key: ForeignKeyConstraint, target: type[Any], back: str
) -> RelationshipProperty[Any]:
    pairs = [(element.parent, element.column) for element in key.elements]
    found: RelationshipProperty[Any] = relationship(
        target,
        primaryjoin=and_(*(local == remote for local, remote in pairs)),
        foreign_keys=[local for local, _ in pairs],
        remote_side=[remote for _, remote in pairs],
        backref=backref(back, passive_deletes="all"),
        overlaps="__*",  # keys of several columns may have some in common
    )
    return found


def _make_keys(table: Table) -> None:
    """Have UUIDs made here where the database makes none: whose tables they are does so too."""
    (*columns,) = table.primary_key.columns
    if len(columns) == 1 and not columns[0].foreign_keys:
        (column,) = columns
        if isinstance(column.type, Uuid) and column.server_default is None:
            sqla.put_default(column, uuid.uuid4)
