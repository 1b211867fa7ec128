"""Reflection of a database without classes.

Classes for the tables of a database that no program has mapped, so that it can have a toolset.

    with engine.connect() as connection:
        found = reflect(connection)
    toolset = Toolset(found.models, read_only=found.models.values())
    found.labels      # {"customers": "name", ...}: what rows are called, as far as was guessed
    found.left_out    # {"log_lines": "it has no primary key"}

Foreign keys become relationships: `orders.customer_id` is `customer`, and customers have `orders`.
What goes along with rows that are deleted is left to the database. Only its catalogue is read.

`tables` reads them and maps classes, and `names` says what all is called.

What the rows, relationships and labels of tables are called that no program has mapped.

    entity_names("order_lines")     # ["order_line", "order_lines", ...]: the best first
    row_names(foreign_key, "user")  # of a column author_id: ["author", "author_id_row"]
    label_columns(columns, "user")  # ["first_name", "last_name"]

Names that are wrong are names all the same. Pure.

Map classes to the tables of a database: what is there is read, and each given a class.
"""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
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
    inspect,
    text,
)
from sqlalchemy.exc import SAWarning
from sqlalchemy.orm import RelationshipProperty, backref, registry, relationship

from alfred_refs import sqla
from alfred_refs.errors import SetupError
from alfred_refs.mapping.key_columns import singular
from alfred_refs.mapping.keys import is_entity_name
from alfred_refs.tools import Toolset

__all__ = ["Reflection", "reflect"]


# columns with what people call a row, the best first; `{}` is the entity
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

# a column of a foreign key -> what the row that it names is called
_NAMES_A_ROW = re.compile(r"(.+?)_?(?:id|ID|Id|uuid|UUID|fk)")


def label_columns(columns: Iterable[Column[Any]], entity: str) -> list[str]:
    """Return the columns with what people call rows of a table; none if none has such a name."""
    texts = {column.key.lower(): column.key for column in columns if _is_text(column)}
    wanted = chain(
        ([name.format(entity)] for name in _LABELS[:5]),
        _FIRST_AND_LAST,
        ([name.format(entity)] for name in _LABELS[5:]),
    )
    for names in wanted:
        if all(name in texts for name in names):
            return [texts[name] for name in names]
    return []


def _is_text(column: Column[Any]) -> bool:
    is_key = column.primary_key or column.foreign_keys
    return not is_key and isinstance(column.type, String) and not isinstance(column.type, Enum)


def join_label(columns: Iterable[str]) -> Callable[[Any], str]:
    """Return what makes a label of what a row has in several columns."""
    return lambda row: " ".join(filter(None, (getattr(row, name) for name in columns)))


def entity_names(table: str) -> list[str]:
    """Return what the rows of a table may be called in refs, the best first."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", table).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_").removeprefix("gen_") or "row"
    return [singular(plain), plain, f"{plain}_row", f"table_{plain}_row"]


def row_names(key: ForeignKeyConstraint, entity: str) -> list[str]:
    """Return what the row may be called that a foreign key names, the best first."""
    if len(key.column_keys) > 1:
        return [entity]
    (column,) = key.column_keys
    found = _NAMES_A_ROW.fullmatch(column)
    return [found[1] if found else column, f"{column}_row"]


def free(
    names: Iterable[str],
    taken: Collection[str],
    fits: Callable[[str], bool] = bool,
) -> str:
    """Return the first of some names that is free, or else the last one with letters behind it."""
    last = ""
    for name in names:
        last = name
        if name not in taken and fits(name):
            return name
    return next(n for n in (f"{last}{'_x' * k}" for k in count(1)) if n not in taken and fits(n))


_OURS = "alfred_refs_"
# what tools that migrate a database note in it: who changes such rows breaks the next migration
_MIGRATIONS = frozenset(
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
    connection: Connection, tables: Collection[str] = (), *, hidden: Collection[str] = ()
) -> Reflection:
    """Return classes for the tables of a database, of the schema that its role sees first.

    Args:
        connection: on the database.
        tables: these, and not all; without, partitions, the registry's own and those of tools
            that migrate the database are left out.
        hidden: columns that are not mapped, such as `users.password`.

    Raises:
        SetupError: one of `tables` or `hidden` is not there, or is a key.

    Example:
        >>> with engine.connect() as connection:
        ...     found = reflect(connection, hidden=["recipes.servings"])
        >>> [*found.models]
        ['lines', 'recipes', 'users']
        >>> from alfred_refs.tools import Toolset
        >>> Toolset(found.models).describe(["recipes"]).splitlines()[2:5]
        ['  id: recipe ref, read only', '  name*: text', '  user_id?: user ref']
    """
    names = _select_tables(connection, tables)
    metadata = MetaData()
    with warnings.catch_warnings():
        # of types that SQLAlchemy does not know: such columns are shown only if they are named
        warnings.simplefilter("ignore", SAWarning)
        metadata.reflect(connection, only=names, resolve_fks=True)
    labels: dict[Table, str] = {}
    mapped = _map_classes(
        metadata, labels, _columns([metadata.tables[name] for name in names], hidden)
    )
    found, unreadable = Reflection(), set(connection.scalars(_UNREADABLE))
    for name in names:
        table = metadata.tables[name]
        why = (
            (not tables and _is_of_migrations(table) and "it is of a tool that migrates")
            or (name in unreadable and "this role may not read it")
            or (table not in mapped and "it has no primary key")
        )
        if why:
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


def _select_tables(connection: Connection, tables: Collection[str]) -> list[str]:
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


def _is_of_migrations(table: Table) -> bool:
    """Tell whether a migration tool keeps its own state there; Alembic's may have any name."""
    return table.name.lower() in _MIGRATIONS or table.columns.keys() == ["version_num"]


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


def _map_classes(
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
            said["__ref_label__"] = columns[0] if len(columns) == 1 else join_label(columns)
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
            sqla.set_default(column, uuid.uuid4)
