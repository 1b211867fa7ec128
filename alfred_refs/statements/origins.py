"""Where values come from that the statement does not tell of: `text()` and literal columns.

The outputs of a result that has such values come in, and go out with what the server says of
them. PostgreSQL describes each column of a result by the table and the column that its values are
read from, through joins, aliases and CTEs; psycopg and psycopg2 hand that on, asyncpg does not.
What an expression computes has no such origin, and neither has a view that is not mapped: those
values are looked at one by one.

Which table a number stands for is asked of the catalogue once for each connection of the driver,
on that connection: numbers mean nothing in another database, and one behind the same URL may be
another tomorrow. Nothing is sent for tables that were met before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, Connection, Executable, Result, Table, text

from alfred_refs import sqla
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.shapes import UNKNOWN, KeyShape, Unknown, as_json, columns_in

from .assignments import check_shape
from .rows import Outputs, outputs_from

_TABLES = """
    select c.oid, n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid),
        a.attnum, a.attname
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    join pg_catalog.pg_attribute a on a.attrelid = c.oid
    where c.oid in ({}) and a.attnum > 0 and not a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class _Relation:
    """A table as the database knows it.

    Attributes:
        schema: where it is.
        name: what it is called there.
        visible: whether its name alone finds it.
        columns: their names by number.
    """

    schema: str
    name: str
    visible: bool
    columns: Mapping[int, str]


def traced(outputs: Outputs, result: Result[Any], entities: Entities) -> Outputs:
    """Return the outputs of a result with what is known of its values of unknown origin."""
    cursor = sqla.cursor_result_of(result)
    places = [] if cursor is None else sqla.origins_of(cursor)
    if cursor is not None and places and outputs.width != len(places):
        if sqla.yields_chunks(result):  # an entity or a bundle has several columns of the cursor
            places = []
        else:
            outputs = outputs_from([UNKNOWN] * len(places))
    if cursor is not None and any(oid for oid, _ in places):
        outputs = _told(outputs, places, cursor.connection, entities)
    return outputs.limited(entities.key_types_held()) if outputs.unknown else outputs


def check_filled_by_text(result: Result[Any], statement: Executable, entities: Entities) -> None:
    """Check that a text loads no key into an attribute that is none's, or another's.

    Raises:
        UntranslatableError: it does, as far as the server tells.
    """
    cursor = sqla.cursor_result_of(result)
    places = [] if cursor is None else sqla.origins_of(cursor)
    if cursor is None or cursor.rowcount == 0 or not any(oid for oid, _ in places):
        return
    told = _told(outputs_from([UNKNOWN] * len(places)), places, cursor.connection, entities)
    found = {name: told.made.get(i) for i, name in enumerate(cursor.keys())}
    for mapper, attribute, names in sqla.names_filled(statement):
        own = entities.of_class(mapper.class_).all.get(attribute)
        for shape in map(found.get, names):
            if any(columns_in(shape)):  # what is computed the server does not tell
                check_shape(shape, own, f"{mapper.class_.__name__}.{attribute}")


def _told(
    outputs: Outputs,
    places: Sequence[tuple[int, int]],
    connection: Connection,
    entities: Entities,
) -> Outputs:
    asked = {i for i, shape in outputs.made.items() if isinstance(shape, Unknown)}
    relations = _relations({places[i][0] for i in asked}, connection)
    tables = {oid: _table(found, connection, entities) for oid, found in relations.items()}
    made: dict[int, KeyShape] = dict(outputs.made)
    for i in asked:
        oid, number = places[i]
        name = relations[oid].columns.get(number) if oid in relations else None
        column = _column(tables.get(oid), name)
        if column is not None:
            made[i] = as_json(entities.of_column(column))
    return replace(outputs, made={i: shape for i, shape in made.items() if shape is not None})


def _relations(oids: Collection[int], connection: Connection) -> Mapping[int, _Relation]:
    """Return tables by their numbers: one query for those that this connection has not met."""
    known: dict[int, _Relation | None] = sqla.kept_with_connection(connection)
    new = [oid for oid in oids if oid and oid not in known]
    if new:
        known |= dict.fromkeys(new)
        found: dict[int, tuple[str, str, bool, dict[int, str]]] = {}
        query = text(_TABLES.format(", ".join(map(str, new))))
        for oid, schema, name, visible, number, column in connection.execute(query):
            found.setdefault(oid, (schema, name, visible, {}))[3][number] = column
        known |= {oid: _Relation(*facts) for oid, facts in found.items()}
    asked = {oid: known.get(oid) for oid in oids}
    return {oid: relation for oid, relation in asked.items() if relation is not None}


def _table(relation: _Relation, connection: Connection, entities: Entities) -> Table | None:
    """Return the table of the application's metadata, `None` if there is not exactly one."""
    schemas = _schemas(relation, connection)
    tables = [t for t in sqla.tables() if t.name == relation.name and t.schema in schemas]
    if len(tables) > 1:
        tables = [table for table in tables if entities.has_met(table)]
    return tables[0] if len(tables) == 1 else None


def _column(table: Table | None, name: str | None) -> Column[Any] | None:
    columns = () if table is None else table.columns
    return next((column for column in columns if column.name == name), None)


def _schemas(relation: _Relation, connection: Connection) -> set[str | None]:
    """Return by which schemas the metadata may name a table."""
    translated = connection.get_execution_options().get("schema_translate_map") or {}
    schemas: set[str | None] = {name for name, to in translated.items() if to == relation.schema}
    # a temporary table may hide one of the metadata's, and have other things in its columns
    visible = relation.visible and not relation.schema.startswith("pg_temp")
    return schemas | {relation.schema} | ({None} if visible else set())
