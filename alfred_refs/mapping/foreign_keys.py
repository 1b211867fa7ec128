"""What each column of a table holds: keys of which entity, or plain data.

    product.id                        primary key             KeyColumn of "product"
    order_line.product_id             foreign key to it       KeyColumn of "product"
    order_line.sku                    references no key       an alternate key of "product"
    event.subject, info={"ref": ...}  declared                KeyColumn of what it says
    product.price                     none of these           None

A declaration comes before the foreign key, and that before the primary key. What the policy
excludes, or has another type than its entity's keys, is data. Each column is read once. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeGuard, cast
from weakref import WeakKeyDictionary, ref

from sqlalchemy import ARRAY, JSON, Column, ColumnElement, Table, UniqueConstraint, inspect
from sqlalchemy.exc import NoReferenceError
from sqlalchemy.orm import Mapper, QueryableAttribute

from alfred_refs import sqla
from alfred_refs.errors import KeyColumnError

from .key_column import AlternateKey, KeyColumn, is_ambiguous, is_text_uuid, item_type, key_type_of
from .naming import EntityNames, root_of
from .policy import KeyType, RefPolicy


def is_in_table(column: ColumnElement[Any]) -> TypeGuard[Column[Any]]:
    """Tell a table's column from one of a subquery, or of a lightweight `table()`."""
    return isinstance(column, Column) and isinstance(column.table, Table)


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


class KeyColumns:
    """What is known of the columns of the application's tables, under one policy.

    Args:
        policy: which of their keys become refs.
        names: what their entities are called.

    Attributes:
        alternates: the alternate keys met so far, by their `space`.
    """

    def __init__(self, policy: RefPolicy, names: EntityNames) -> None:
        self.alternates: dict[str, AlternateKey] = {}
        self._policy = policy
        self._names = names
        self._known: WeakKeyDictionary[Column[Any], KeyColumn | None] = WeakKeyDictionary()

    def __contains__(self, column: Column[Any]) -> bool:
        return column in self._known

    def __iter__(self) -> Iterator[Column[Any]]:
        return iter(list(self._known))

    def of(self, column: Column[Any]) -> KeyColumn | None:
        """Return what keys a column of a table holds.

        Raises:
            KeyColumnError: the metadata does not say.
        """
        try:
            return self._known[column]
        except KeyError:
            known = self._known[column] = self._read(column)
            return known

    def may_hold(self, column: Column[Any]) -> bool:
        """Tell whether a column holds keys, as far as that can be told without its table's name.

        Text is suspected only where the policy makes keys of it: it is everywhere.
        """
        key_type = key_type_of(item_type(column.type))
        if isinstance(column.type, JSON):
            return False  # a declaration is of what stands in its documents
        if "ref" in column.info:
            declared = column.info["ref"] is not None
            return declared and (key_type != "string" or "string" in self._policy.key_types)
        is_key = column.primary_key or bool(column.foreign_keys)
        is_excluded = self._is_excluded(column, column)
        return is_key and key_type in self._policy.key_types and not is_excluded

    def _read(self, column: Column[Any]) -> KeyColumn | None:
        if "ref" in column.info:
            return self._declared(column)
        target = referenced(column)
        if is_ambiguous(column.type) and not self._is_excluded(column, target):
            self._refuse_ambiguous(column, target)
        key_type = key_type_of(column.type)
        if key_type not in self._policy.key_types or self._is_excluded(column, target):
            return None
        by = None
        if target is not column and target not in primary_key(target.table):
            by = self._alternate(column, target, key_type, references_alone(column, target))
        elif not self._is_key(target, key_type):
            return None
        entity = self._names.of_table(target.table) if by is None else by.rows.entity
        return KeyColumn(str(column), entity, key_type, is_text_uuid(column.type), by=by)

    def _refuse_ambiguous(self, column: Column[Any], target: Column[Any]) -> None:
        if target is not column or target in primary_key(target.table):
            raise KeyColumnError(
                f"key column {column} has the type {type(column.type).__name__}, which does not "
                "say what its values are in Python",
                'give the type a python_type, or the column info={"ref": None}',
            )

    def _is_key(self, target: Column[Any], key_type: KeyType) -> bool:
        """Tell whether the referenced column, or the column itself, identifies its table's rows.

        Of a composite primary key a UUID is a key by itself; an integer, such as a line number,
        is data.
        """
        primary = primary_key(target.table)
        return target in primary and (len(primary) == 1 or key_type == "uuid")

    def _alternate(
        self, column: Column[Any], target: Column[Any], key_type: KeyType | None, unique: bool
    ) -> AlternateKey:
        """Return the alternate key that a column has values of.

        Raises:
            KeyColumnError: its values cannot be told to name one row each, of one ref.
        """
        primary = primary_key(target.table)
        rows = self.of(primary[0]) if len(primary) == 1 else None  # type: ignore[arg-type]
        same_type = key_type_of(target.type) == key_type and not is_ambiguous(target.type)
        if rows is None or rows.by is not None or rows.array or not (unique and same_type):
            raise KeyColumnError(
                f"foreign key {column} references {target}, which is not the primary key, and its "
                "values cannot be told to name one row each that has a ref",
                'declare the column with info={"ref": None} to leave its values as they are',
            )
        values = KeyColumn(str(target), rows.entity, rows.key_type, is_text_uuid(target.type))
        space = f"{rows.entity} by {target}"  # no entity's name: it has spaces
        values = replace(values, key_type=cast(KeyType, key_type))
        columns = ref(target), ref(cast("Column[Any]", primary[0]))
        known = self.alternates.get(space)
        if known is None or not known.is_there:
            known = self.alternates[space] = AlternateKey(space, values, rows, columns)
        return known

    def _declared(self, column: Column[Any]) -> KeyColumn | None:
        """Follow `info={"ref": ...}`: `None`, a mapped class, or `"table.column"`."""
        declared = column.info["ref"]
        if declared is None or isinstance(column.type, JSON):
            return None
        array = isinstance(column.type, ARRAY)
        type_ = item_type(column.type)
        key_type = key_type_of(type_)
        if key_type is None:
            raise KeyColumnError(
                f"column {column} is declared to hold keys and has the type {column.type!r}",
                "give it a UUID, integer or string type, or an array of one",
            )
        table = self._declared_target(column, declared)
        target = None if not isinstance(declared, str) else column_named(table, declared)
        by = None
        if target is not None and target not in primary_key(table):
            by = self._alternate(column, target, key_type, is_unique(target))
        entity = self._names.of_table(table) if by is None else by.rows.entity
        return KeyColumn(str(column), entity, key_type, is_text_uuid(type_), array, by)

    def _declared_target(self, column: Column[Any], declared: Any) -> Table:
        if not isinstance(declared, str):
            return cast(Table, key_table(inspect(declared).mapper))
        table = column.table.metadata.tables.get(declared.rpartition(".")[0])
        if table is None:
            raise KeyColumnError(
                f"column {column} declares keys of {declared!r}, no column of its metadata",
                'write "table.column" as a foreign key does, or give the mapped class',
            )
        return table

    def _is_excluded(self, column: Column[Any], target: Column[Any]) -> bool:
        excluded = {_excluded_name(item) for item in self._policy.exclude}
        return not excluded.isdisjoint({str(column), column.table.fullname, target.table.fullname})


def _excluded_name(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, QueryableAttribute):
        return str(item.property.columns[0])
    return str(key_table(inspect(item).mapper).fullname)
