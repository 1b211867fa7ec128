"""Reflect a database without mapped classes, for a toolset.

    with engine.connect() as connection:
        reflection = reflect(connection)
    toolset = Toolset(reflection.models, read_only=reflection.models.values())

>>> with engine.connect() as connection:
...     reflection = reflect(connection)
>>> [*reflection.models]
['lines', 'recipes', 'users']
>>> reflection.labels  # by table, the columns that label its rows
{'recipes': 'name'}
>>> reflection.left_out  # by table, why a toolset cannot use it
{}

`reflect` reads the tables with `MetaData.reflect` and maps a class to each table with a primary
key. The names of entities, relationships and label columns are guessed from the names of tables
and columns:

>>> entity_names("order_lines")  # the first that is unused and a valid name is taken
['order_line', 'order_lines', 'order_lines_row', 'table_order_lines_row']

A foreign key `orders.customer_id` becomes a relationship `customer`, and its backref `orders`.

Limits:

- Only tables, not views, of the first schema in the role's `search_path` are read.
- Partitions, the registry's tables and tables of migration tools are left out, unless they are
  requested by name.
- Deletes rely on the `ON DELETE` of the database: the relationships have `passive_deletes="all"`.
- Guessed names may be unnatural, but they are unique.
- Columns whose names attributes cannot have get others: `self` is `x_self`.
"""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, count
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Enum,
    ForeignKeyConstraint,
    MetaData,
    String,
    Table,
    Uuid,
    and_,
    event,
    inspect,
    text,
)
from sqlalchemy.exc import SAWarning
from sqlalchemy.orm import RelationshipProperty, backref, registry, relationship

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.mapping import is_entity_name, singular
from alfred_refs.tools import Toolset

__all__ = ["Reflection", "reflect"]

_REGISTRY_PREFIX = "alfred_refs_"
# tables in which migration tools keep their state: changing a row breaks the next migration
_MIGRATION_TABLES = frozenset(
    {
        *("__diesel_schema_migrations", "__efmigrationshistory", "_prisma_migrations"),
        *("_sqlx_migrations", "aerich", "alembic_version", "ar_internal_metadata"),
        *("atlas_schema_revisions", "databasechangelog", "databasechangeloglock"),
        *("django_migrations", "flyway_schema_history", "goose_db_version", "knex_migrations"),
        *("knex_migrations_lock", "phinxlog", "schema_migrations", "schema_version"),
        "sequelizemeta",
    }
)
_PARTITIONS = text("select relname from pg_catalog.pg_class where relispartition")
# PostgreSQL repeats a foreign key to a partitioned table for each partition of that table
_REPEATED = text("""
select relname, repeated.conname from pg_catalog.pg_constraint repeated
join pg_catalog.pg_constraint original on original.oid = repeated.conparentid
join pg_catalog.pg_class on pg_class.oid = repeated.conrelid
where repeated.contype = 'f' and repeated.conrelid = original.conrelid
and pg_table_is_visible(pg_class.oid)
""")
_UNREADABLE = text("""
select relname from pg_catalog.pg_class
where relkind in ('r', 'p') and pg_table_is_visible(oid) and not has_table_privilege(oid, 'select')
""")

# names of columns that label a row, the best first; `{}` is the entity
_LABELS = (
    *("name", "title", "label", "display_name", "full_name", "{}_name", "{}_title"),
    *("username", "user_name", "login", "email", "email_address", "{}_email", "slug", "subject"),
    *("code", "{}_code", "sku", "number", "{}_number", "isbn"),
)
_FIRST_AND_LAST = (
    ("first_name", "last_name"),
    ("firstname", "lastname"),
    ("given_name", "surname"),
)

# a foreign-key column -> the name of the row that it refers to
_KEY_COLUMN = re.compile(r"(.+?)_?(?:id|ID|Id|uuid|UUID|fk)")


@dataclass(frozen=True, slots=True)
class Reflection:
    """The result of `reflect`.

    Attributes:
        models: mapped classes, by the names of their tables.
        labels: by table, the columns that label its rows.
        left_out: by table, the reason why a toolset cannot use it.

    Example:
        >>> with engine.connect() as connection:
        ...     found = reflect(connection, ["lines", "recipes"])
        >>> [*found.models], found.labels, found.left_out
        (['lines', 'recipes'], {'recipes': 'name'}, {})
    """

    models: dict[str, type[Any]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def reflect(
    connection: Connection,
    tables: Collection[str] = (),
    *,
    hidden: Collection[str] = (),
    labels: Collection[str] = (),
) -> Reflection:
    """Map classes to the tables of a database, in the first schema of the `search_path`.

    Args:
        connection: a connection to the database.
        tables: the tables to map; by default all, except partitions, the registry's tables and
            tables of migration tools. Tables that a toolset cannot use are in `left_out`.
        hidden: columns that are not mapped, such as `users.password`.
        labels: columns that label the rows of their table, such as `users.email`; several of one
            table are joined. Those of other tables are guessed.

    Raises:
        SetupError: a name does not exist, or is a key column, or a label is hidden.

    Example:
        >>> with engine.connect() as connection:
        ...     found = reflect(connection, hidden=["recipes.servings"])
        >>> [*found.models]
        ['lines', 'recipes', 'users']
        >>> from alfred_refs.tools import Toolset
        >>> Toolset(found.models).describe(["recipes"]).splitlines()[2:5]
        ['  id: recipe ref, read only', '  name*: text', '  user_id?: user ref']
    """
    names = _table_names(connection, tables)
    metadata = MetaData()
    event.listen(metadata, "column_reflect", _name_attribute)
    with warnings.catch_warnings():
        # SQLAlchemy warns of unknown types; tools only show the names of such columns
        warnings.simplefilter("ignore", SAWarning)
        metadata.reflect(connection, only=names, resolve_fks=True)
    _drop_repeated_keys(connection, metadata)
    found = [metadata.tables[name] for name in names]
    hidden_columns = {*_find_columns(found, hidden)}
    label_columns = _find_columns(found, labels)
    for column in hidden_columns.intersection(label_columns):
        raise SetupError(f"column {str(column)!r} is hidden but is a label", "choose one of them")
    models, named_by = _map_classes(metadata, hidden_columns, label_columns)
    unreadable = set(connection.scalars(_UNREADABLE))
    reflection = Reflection()
    for name in names:
        table = metadata.tables[name]
        why = (
            (not tables and _is_of_migrations(table) and "it is of a tool that migrates")
            or (name in unreadable and "this role may not read it")
            or (table not in models and "it has no primary key")
        )
        if why:
            reflection.left_out[name] = why
            continue
        try:
            Toolset({name: models[table]})
        except SetupError as error:
            reflection.left_out[name] = error.fact
        else:
            reflection.models[name] = models[table]
            reflection.labels.update({name: named_by[table]} if table in named_by else {})
    return reflection


# Reading the catalogue


def _table_names(connection: Connection, tables: Collection[str]) -> list[str]:
    """Return the names of the tables to reflect."""
    existing = inspect(connection).get_table_names()
    for name in tables:
        if name not in existing:
            close = get_close_matches(name, existing, 3, 0.5) or existing[:10]
            raise SetupError(
                f"the database has no table {name!r}",
                "name one of its tables, such as " + ", ".join(map(repr, sorted(close))),
            )
    if tables:
        return sorted({*tables})
    partitions = set(connection.scalars(_PARTITIONS))
    return sorted(
        name
        for name in existing
        if name not in partitions and not name.startswith(_REGISTRY_PREFIX)
    )


def _drop_repeated_keys(connection: Connection, metadata: MetaData) -> None:
    """Remove the foreign keys to partitions, unless the table has them by itself."""
    repeated = {(table, name) for table, name in connection.execute(_REPEATED)}
    for table in metadata.tables.values():
        for key in table.foreign_key_constraints:
            if table.schema is None and (table.name, key.name) in repeated:
                sqla.drop_foreign_key(key)


def _is_of_migrations(table: Table) -> bool:
    """Return whether a migration tool keeps its state in a table.

    Alembic's table may have any name, but always has one column.
    """
    is_alembics = table.columns.keys() == ["version_num"]
    return is_alembics or table.name.lower() in _MIGRATION_TABLES


def _find_columns(tables: Iterable[Table], names: Collection[str]) -> list[Column[Any]]:
    """Return the columns with the names `table.column`."""
    by_name = {
        f"{table.name}.{column.name}": column for table in tables for column in table.columns
    }
    columns = []
    for name in names:
        if name not in by_name:
            raise SetupError(f"there is no column {name!r}", "write table.column, of these tables")
        column = by_name[name]
        if column.primary_key or column.foreign_keys:
            raise SetupError(f"column {name!r} has keys, which are refs", "name columns of data")
        columns.append(column)
    return columns


# Mapping classes


def _map_classes(
    metadata: MetaData, hidden: Collection[Column[Any]], labels: Sequence[Column[Any]]
) -> tuple[dict[Table, type[Any]], dict[Table, str]]:
    """Map a class to each table with a primary key; return the classes, and labels for people."""
    entities: set[str] = set()
    classes: dict[Table, type[Any]] = {}
    named_by: dict[Table, str] = {}
    for _, table in sorted(metadata.tables.items()):
        if not table.primary_key.columns:
            continue
        entity = first_free(entity_names(table.name), entities, is_entity_name)
        entities.add(entity)
        attributes: dict[str, Any] = {"__ref_name__": entity, "__doc__": table.comment}
        columns = [each.key for each in labels if each.table is table] or guess_label(
            [each for each in table.columns if each not in hidden], entity
        )
        if columns:
            named_by[table] = " and ".join(columns)
            attributes["__ref_label__"] = columns[0] if len(columns) == 1 else join_label(columns)
        classes[table] = type(entity, (), attributes)
    mapper = registry(metadata=metadata)
    relationships = _relationships(classes)
    for table, model in classes.items():
        _set_uuid_default(table)
        left_out = [column.key for column in table.columns if column in hidden]
        mapper.map_imperatively(
            model, table, properties=relationships[table], exclude_properties=left_out
        )
    return classes, named_by


def _relationships(
    classes: Mapping[Table, type[Any]],
) -> dict[Table, dict[str, RelationshipProperty[Any]]]:
    """Return a relationship for each foreign key, by table and name, each with a backref."""
    taken = {table: {column.key for column in table.columns} for table in classes}
    by_table: dict[Table, dict[str, RelationshipProperty[Any]]] = {table: {} for table in classes}
    for table in classes:
        keys = [key for key in table.foreign_key_constraints if key.referred_table in classes]
        targets = [key.referred_table for key in keys]
        for key in sorted(keys, key=lambda each: tuple(each.column_keys)):
            target = key.referred_table
            names = map(attribute_name, row_names(key, classes[target].__ref_name__))
            name = first_free(names, taken[table])
            taken[table].add(name)
            is_one_of_several = targets.count(target) > 1
            back = first_free(
                [attribute_name(f"{table.name}_by_{name}" if is_one_of_several else table.name)],
                taken[target],
            )
            taken[target].add(back)
            by_table[table][name] = _relationship(key, classes[target], back)
    return by_table


def _relationship(
    key: ForeignKeyConstraint, target: type[Any], back: str
) -> RelationshipProperty[Any]:
    pairs = [(element.parent, element.column) for element in key.elements]
    typed: RelationshipProperty[Any] = relationship(
        target,
        primaryjoin=and_(*(local == remote for local, remote in pairs)),
        foreign_keys=[local for local, _ in pairs],
        remote_side=[remote for _, remote in pairs],
        backref=backref(back, passive_deletes="all"),
        # composite keys may share columns, which SQLAlchemy warns of; "__*" turns that off
        overlaps="__*",
    )
    return typed


def _set_uuid_default(table: Table) -> None:
    """Generate UUID keys here if the database does not, like the table's own application."""
    (*columns,) = table.primary_key.columns
    if len(columns) == 1 and not columns[0].foreign_keys:
        (column,) = columns
        if isinstance(column.type, Uuid) and column.server_default is None:
            sqla.set_default(column, uuid.uuid4)


# Guessing names


def attribute_name(name: str) -> str:
    """Return the name, with a prefix if an attribute of a mapped class cannot have it."""
    # Python looks for names such as `__class__`, SQLAlchemy for `_sa_instance_state`; the
    # declarative `__init__` has a parameter `self`
    return f"x_{name}" if name == "self" or name.startswith(("__", "_sa_")) else name


def _name_attribute(_inspector: object, _table: object, column: dict[str, Any]) -> None:
    column["key"] = attribute_name(column["name"])


def entity_names(table: str) -> list[str]:
    """Return names for the rows of a table in refs, the best first."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", table).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_").removeprefix("gen_") or "row"
    return [singular(plain), plain, f"{plain}_row", f"table_{plain}_row"]


def row_names(key: ForeignKeyConstraint, entity: str) -> list[str]:
    """Return names for the row that a foreign key refers to, the best first."""
    if len(key.column_keys) > 1:
        return [entity]
    (column,) = key.column_keys
    match = _KEY_COLUMN.fullmatch(column)
    return [match[1] if match else column, f"{column}_row"]


def first_free(
    names: Iterable[str],
    taken: Collection[str],
    is_valid: Callable[[str], bool] = bool,
) -> str:
    """Return the first name that is free, or the last one with a suffix that makes it free."""
    last = ""
    for name in names:
        last = name
        if name not in taken and is_valid(name):
            return name
    suffixed = (f"{last}{'_x' * n}" for n in count(1))
    return next(name for name in suffixed if name not in taken and is_valid(name))


def guess_label(columns: Iterable[Column[Any]], entity: str) -> list[str]:
    """Return the one or two columns that label the rows of a table; empty if none fits."""
    texts = {column.key.lower(): column.key for column in columns if _is_text(column)}
    candidates = chain(
        ([name.format(entity)] for name in _LABELS[:5]),
        _FIRST_AND_LAST,
        ([name.format(entity)] for name in _LABELS[5:]),
    )
    for names in candidates:
        if all(name in texts for name in names):
            return [texts[name] for name in names]
    return []


def _is_text(column: Column[Any]) -> bool:
    is_key = column.primary_key or column.foreign_keys
    return not is_key and isinstance(column.type, String) and not isinstance(column.type, Enum)


def join_label(columns: Iterable[str]) -> Callable[[Any], str]:
    """Return a `__ref_label__` that joins the values of several columns."""

    def label(row: Any) -> str:
        values = (getattr(row, name) for name in columns)
        return " ".join(str(each) for each in values if each not in (None, ""))

    return label
