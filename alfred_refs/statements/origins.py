"""Origins: the columns that the server reads the values of a result from.

For `text()` and literal columns the statement does not show where a value comes from. PostgreSQL
does: it describes each column of a result by the OID of the table and the number of the column
that it is read from, through joins, aliases and CTEs. psycopg and psycopg2 keep that; asyncpg does
not. `trace_origins` puts the origins that the server has sent into the `Outputs` of a result, and
`check_filled_by_text` uses them for instances that `from_statement(text(...))` loads.

The name of a table is read from the catalogue once for each OID and connection of the driver, on
that connection (`sqla.connection_cache`): an OID means nothing in another database, and another
database may have the same URL tomorrow. Nothing is sent for tables that were read before.

Example:
    >>> session.execute(text("SELECT r.id, r.name FROM recipes AS r ORDER BY r.name")).all()
    [('recipe_1', 'Soup'), ('recipe_2', 'Toast')]

A computed value has no origin, and a view that is not mapped is none that the metadata knows. Such
values stay unknown, and are checked one by one (`results.render_unknown`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, Connection, Executable, Result, Table, text

from alfred_refs import sqla
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.lineage import UNKNOWN, KeyShape, Unknown, as_json, columns_in
from alfred_refs.statements.plans import check_shape
from alfred_refs.statements.results import Outputs, outputs_from


def trace_origins(outputs: Outputs, result: Result[Any], entities: Entities) -> Outputs:
    """Return the outputs of a result with the origins that the server has sent."""
    cursor = sqla.cursor_result_of(result)
    origins = [] if cursor is None else sqla.column_origins(cursor)
    if cursor is not None and origins and outputs.width != len(origins):
        if sqla.is_chunked(result):  # an entity or a bundle has several columns of the cursor
            origins = []
        else:
            outputs = outputs_from([UNKNOWN] * len(origins))
    if cursor is not None and any(oid for oid, _ in origins):
        outputs = _with_origins(outputs, origins, cursor.connection, entities)
    return outputs.with_key_types(entities.key_types_in_use()) if outputs.has_unknown else outputs


def check_filled_by_text(result: Result[Any], statement: Executable, entities: Entities) -> None:
    """Check that `from_statement(text(...))` populates no attribute with other keys than its own.

    Raises:
        UntranslatableError: it does, as far as the server has sent origins.
    """
    cursor = sqla.cursor_result_of(result)
    origins = [] if cursor is None else sqla.column_origins(cursor)
    if cursor is None or cursor.rowcount == 0 or not any(oid for oid, _ in origins):
        return
    outputs = _with_origins(
        outputs_from([UNKNOWN] * len(origins)), origins, cursor.connection, entities
    )
    shapes = {name: outputs.shapes.get(i) for i, name in enumerate(cursor.keys())}
    for mapper, attribute, names in sqla.names_of_attributes(statement):
        own = entities.of_class(mapper.class_).all.get(attribute)
        for shape in map(shapes.get, names):
            if any(columns_in(shape)):  # a computed value has no origin
                check_shape(shape, own, f"{mapper.class_.__name__}.{attribute}")


def _with_origins(
    outputs: Outputs,
    origins: Sequence[tuple[int, int]],
    connection: Connection,
    entities: Entities,
) -> Outputs:
    unknown = {i for i, shape in outputs.shapes.items() if isinstance(shape, Unknown)}
    relations = _relations({origins[i][0] for i in unknown}, connection)
    tables = {oid: _table(relation, connection, entities) for oid, relation in relations.items()}
    shapes: dict[int, KeyShape] = dict(outputs.shapes)
    for i in unknown:
        oid, number = origins[i]
        name = relations[oid].columns.get(number) if oid in relations else None
        column = _column(tables.get(oid), name)
        if column is not None:
            shapes[i] = as_json(entities.of_column(column))
    return replace(outputs, shapes={i: s for i, s in shapes.items() if s is not None})


# The catalogue

_RELATIONS = """
    select c.oid, n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid),
        a.attnum, a.attname
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    join pg_catalog.pg_attribute a on a.attrelid = c.oid
    where c.oid in ({}) and a.attnum > 0 and not a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class _Relation:
    """A table in the catalogue.

    Attributes:
        schema: the name of its schema.
        name: its own name.
        visible: whether the search path finds it by its own name.
        columns: the names of its columns by number.
    """

    schema: str
    name: str
    visible: bool
    columns: Mapping[int, str]


def _relations(oids: Collection[int], connection: Connection) -> Mapping[int, _Relation]:
    """Return tables by OID: one query for those that this connection has not read before."""
    cache: dict[int, _Relation | None] = sqla.connection_cache(connection)
    new = [oid for oid in oids if oid and oid not in cache]
    if new:
        cache |= dict.fromkeys(new)
        rows: dict[int, tuple[str, str, bool, dict[int, str]]] = {}
        query = text(_RELATIONS.format(", ".join(map(str, new))))
        for oid, schema, name, visible, number, column in connection.execute(query):
            rows.setdefault(oid, (schema, name, visible, {}))[3][number] = column
        cache |= {oid: _Relation(*row) for oid, row in rows.items()}
    cached = {oid: cache.get(oid) for oid in oids}
    return {oid: relation for oid, relation in cached.items() if relation is not None}


def _table(relation: _Relation, connection: Connection, entities: Entities) -> Table | None:
    """Return the table in the application's metadata, or `None` unless there is exactly one."""
    schemas = _metadata_schemas(relation, connection)
    tables = [t for t in sqla.tables() if t.name == relation.name and t.schema in schemas]
    if len(tables) > 1:
        tables = [table for table in tables if entities.is_used(table)]
    return tables[0] if len(tables) == 1 else None


def _metadata_schemas(relation: _Relation, connection: Connection) -> set[str | None]:
    """Return the schemas that a table may have in the metadata."""
    schema_map = connection.get_execution_options().get("schema_translate_map") or {}
    schemas: set[str | None] = {name for name, to in schema_map.items() if to == relation.schema}
    # a temporary table may shadow one of the metadata, with other columns
    visible = relation.visible and not relation.schema.startswith("pg_temp")
    return schemas | {relation.schema} | ({None} if visible else set())


def _column(table: Table | None, name: str | None) -> Column[Any] | None:
    columns = () if table is None else table.columns
    return next((column for column in columns if column.name == name), None)
