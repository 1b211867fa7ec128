"""Where the values of a column come from, as the metadata of its table says.

A column or a mapper comes in; the column that it references, whatever its own name, or the table
whose primary key it has, goes out. Which of them hold keys is the affair of `entities`. Pure.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from sqlalchemy import ARRAY, Column, ColumnElement, Table, UniqueConstraint
from sqlalchemy.exc import NoReferenceError
from sqlalchemy.orm import Mapper

from alfred_refs import sqla
from alfred_refs.errors import KeyColumnError

from .naming import root_of


def is_in_table(column: ColumnElement[Any]) -> TypeGuard[Column[Any]]:
    """Tell a table's column from one of a subquery, or of a lightweight `table()`."""
    return isinstance(column, Column) and isinstance(column.table, Table)


def item_type(column: Column[Any]) -> Any:
    """Return the type of a column's values, or of what is in them if they are arrays."""
    return column.type.item_type if isinstance(column.type, ARRAY) else column.type


def key_table(mapper: Mapper[Any]) -> Any:
    """Return the table whose primary key the rows of a class have."""
    column = root_of(mapper).primary_key[0]
    tables = (getattr(base, "table", None) for base in column.base_columns)
    return next((table for table in tables if isinstance(table, Table)), column.table)


def primary_key(table: Table) -> list[ColumnElement[Any]]:
    """Return the primary key of a table, or, of a view mapped by a class, what the class says."""
    mapper = None if len(table.primary_key) else sqla.mapper_of_table(table)
    return list(table.primary_key) if mapper is None else list(mapper.primary_key)


def referenced(column: Column[Any]) -> Column[Any]:
    """Follow foreign keys to the column where the keys come from; a plain column is its own."""
    seen = [column]
    while column.foreign_keys:
        column = _target(column)
        if column in seen:
            break
        seen.append(column)
    return column


def references_alone(column: Column[Any], target: Column[Any]) -> bool:
    """Tell whether a foreign key of one column leads to the target, which is unique then."""
    seen = {column}
    while column.foreign_keys:
        foreign_key = min(column.foreign_keys, key=_own_table_last)
        column = foreign_key.column
        if column is target:
            return foreign_key.constraint is None or len(foreign_key.constraint.elements) == 1
        if column in seen:
            break
        seen.add(column)
    return False


def is_unique(column: Column[Any]) -> bool:
    """Tell whether a column alone has a unique constraint."""
    constraints = [c for c in column.table.constraints if isinstance(c, UniqueConstraint)]
    return bool(column.unique) or any(list(c.columns) == [column] for c in constraints)


def column_named(table: Table, declared: str) -> Column[Any] | None:
    """Return the column of a table that `"table.column"` names, `None` if there is none."""
    return table.columns.get(declared.rpartition(".")[2])


def names_other_column(column: Column[Any]) -> bool:
    """Tell whether a column references, or is declared to hold, what is no primary key."""
    declared = column.info.get("ref")
    if isinstance(declared, str):
        table = column.table.metadata.tables.get(declared.rpartition(".")[0])
        named = None if table is None else column_named(table, declared)
        return named is not None and named not in primary_key(named.table)
    try:
        return declared is None and any(
            f.column not in primary_key(f.column.table) for f in column.foreign_keys
        )
    except NoReferenceError:
        return False


def _target(column: Column[Any]) -> Column[Any]:
    try:
        return min(column.foreign_keys, key=_own_table_last).column
    except NoReferenceError as error:
        raise KeyColumnError(
            f"foreign key {column} references a table that its metadata does not have",
            'reflect or declare that table, or declare the column with info={"ref": None}',
        ) from error


def _own_table_last(foreign_key: Any) -> bool:
    return bool(foreign_key.column.table is foreign_key.parent.table)
