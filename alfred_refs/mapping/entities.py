"""Entities of one application: look-up by class, table, column, cached.

Which columns hold keys, and of which entity: read from SQLAlchemy's metadata, never guessed.

A column of a statement or an attribute of a class comes in; a `KeyColumn`, or `None` for plain
data, goes out. Primary keys name their own table's entity; a foreign key names what it
references, whatever its own name. Everything is worked out once and kept: nothing here is decided
for each row. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from sqlalchemy import Column, ColumnElement, Table, inspect
from sqlalchemy.orm import ColumnProperty, CompositeProperty, Mapper

from alfred_refs import sqla
from alfred_refs.errors import KeyColumnError, UntranslatableError
from alfred_refs.mapping.key_columns import (
    EntityNames,
    KeyColumn,
    KeyColumns,
    Label,
    is_in_table,
    item_type,
    key_table,
    key_type_of,
    label_of,
    names_other_column,
    primary_key,
    referenced_column,
    root_of,
)
from alfred_refs.mapping.keys import Key, KeyType, RefPolicy
from alfred_refs.mapping.lineage import UNKNOWN, Lineage, columns_in, unknowns_in

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ClassKeys:
    """The attributes of one mapped class that hold keys.

    Attributes:
        primary: those of the primary key, by attribute name, in its order.
        foreign: all others, by attribute name.
        all: both.
        alternate: those among them that hold alternate keys.
        label: where the label of a row is; `None` where it has none, or no ref of its own.
        identity: what each column of the primary key holds, `None` for data.
        own: the entity that the rows have refs of; `None` where the primary key has several
            columns or is another entity's key.
    """

    primary: Mapping[str, KeyColumn]
    foreign: Mapping[str, KeyColumn]
    all: Mapping[str, KeyColumn]
    identity: tuple[KeyColumn | None, ...]
    own: str | None
    alternate: Mapping[str, KeyColumn]
    label: Label | None

    def key_of(self, identity: Sequence[Any]) -> Key:
        """Return the key of a row, of its primary key's values as the database has them."""
        each = zip(self.identity, identity, strict=True)
        parts: list[Key] = [value if held is None else held.to_key(value) for held, value in each]
        return parts[0] if len(parts) == 1 else tuple(parts)


class Entities:
    """What is known of the application's tables, under one policy; each is met as it is used.

    Attributes:
        names: what their entities are called.
        policy: which of their keys become refs.
        alternates: the alternate keys met so far, by their `space`.
    """

    def __init__(self, policy: RefPolicy) -> None:
        self.names = EntityNames(policy)
        self.policy = policy
        self._memos: dict[Callable[[Entities], Any], Any] = {}
        self._columns = KeyColumns(policy, self.names)
        self.alternates = self._columns.alternates
        # with the tables looked at: as many as there are, until one is dropped or added
        self._held: tuple[WeakSet[Table], frozenset[KeyType]] = WeakSet(), frozenset({"uuid"})
        self._alternates_found: tuple[WeakSet[Table], bool] = WeakSet(), False
        self._labelled: WeakKeyDictionary[Table, bool] = WeakKeyDictionary()
        self._primary: WeakValueDictionary[str, Column[Any]] = WeakValueDictionary()

    def memo(self, make: Callable[[Entities], _T]) -> _T:
        """Return what a function makes of these entities, once for all who ask."""
        made: _T | None = self._memos.get(make)
        # one of two threads that come at once is the first
        return self._memos.setdefault(make, make(self)) if made is None else made

    def name_of(self, entity: type[Any] | Table | str) -> str:
        """Return the entity name of a mapped class or table; a name stands for itself.

        Raises:
            EntityNameError: two classes have the name, it is malformed, or there is none.
            KeyColumnError: the table has no primary key.
        """
        if isinstance(entity, str):
            return self.names.check_name(entity)
        table = entity if isinstance(entity, Table) else key_table(inspect(entity).mapper)
        if not primary_key(table):
            raise KeyColumnError(
                f"table {table.fullname!r} has no primary key to name its rows by",
                "give it one, or map a class with __mapper_args__ = {'primary_key': [...]}",
            )
        return self.names.of_table(table)

    def key_column_of(self, entity: type[Any] | Table | str) -> KeyColumn | None:
        """Return the one primary key column of a class or table; of a name, none is known."""
        if isinstance(entity, str):
            return None
        table = entity if isinstance(entity, Table) else key_table(inspect(entity).mapper)
        primary = primary_key(table)
        return self.of_column(primary[0]) if len(primary) == 1 else None

    def met_tables(self) -> list[Table]:
        """Return the tables used so far, and those beside them in their metadata."""
        used = {column.table.metadata for column in self._columns}
        return [table for metadata in used for table in metadata.tables.values()]

    def of_class(self, class_: type[Any]) -> ClassKeys:
        """Return the key attributes of a mapped class."""
        kept = self.kept_with(class_)
        try:
            return cast(ClassKeys, kept["keys"])
        except KeyError:
            keys = kept["keys"] = self._read_class(inspect(class_).mapper)
            return keys

    def kept_with(self, class_: type[Any]) -> dict[str, Any]:
        """Return what is known of a mapped class, which is forgotten with it."""
        return sqla.class_cache(class_, self)

    def primary_of(self, entity: str) -> Column[Any] | None:
        """Return the one primary key column of an entity's rows, if a class is mapped to them."""
        known = self._primary.get(entity)
        table = self.names.found_table_of(entity) if known is None else None
        mapper = None if table is None else sqla.mapper_of_table(table)
        if mapper is not None:
            primary = primary_key(key_table(mapper))
            if len(primary) == 1:
                known = self._primary[entity] = cast("Column[Any]", primary[0])
        return known

    def table_name_of(self, entity: str, schemas: sqla.Schemas = frozenset()) -> str | None:
        """Return the name of the table whose keys an entity's refs name, with its schema.

        Args:
            entity: met, or there is no answer.
            schemas: a `schema_translate_map`, by which the schema is translated.
        """
        met = self.names.table_of(entity)
        mapper = None if met is None else sqla.mapper_of_table(met)
        table = met if mapper is None else key_table(mapper)
        if not isinstance(table, Table):
            return None
        schema = dict(schemas).get(table.schema, table.schema)
        return table.name if schema is None else f"{schema}.{table.name}"

    def label_of(self, entity: str) -> Label | None:
        """Return where the label of an entity's rows is, as far as its class has been met."""
        table = self.names.table_of(entity)
        mapper = None if table is None else sqla.mapper_of_table(table)
        return None if mapper is None else self._label_of(mapper)

    def has_labels(self, entity: str) -> bool:
        """Tell whether rows of an entity may have labels, as far as its class has been met."""
        table = self.names.table_of(entity)
        if table is None:
            return False
        known = self._labelled.get(table)
        if known is None:
            mapper = sqla.mapper_of_table(table)
            mappers = () if mapper is None else mapper.self_and_descendants
            known = self._labelled[table] = any(map(self._label_of, mappers))
        return known

    def of_column(self, element: ColumnElement[Any]) -> KeyColumn | None:
        """Return what keys a column holds, seen through aliases, subqueries and labels.

        Only columns are looked at: for any other expression the answer is `None`, and so it is
        for a column of a union that has keys of two entities, or keys beside plain data.
        """
        element = sqla.polymorphic_column(element)
        bases = [c for c in element.base_columns if is_in_table(c)]
        known = [self._columns.of(column) for column in bases]
        alike = {column and replace(column, name="") for column in known}
        return known[0] if len(alike) == 1 else None

    def has_met(self, table: Table) -> bool:
        """Tell whether any column of a table was asked for: the application uses it."""
        return any(column in self._columns for column in table.columns)

    def key_types_held(self) -> frozenset[KeyType]:
        """Return the types of key that may be met anywhere: values of others are data.

        UUIDs are always suspected; integers and texts only if a table of the process may hold
        such keys. Worked out anew when there are others.
        """
        tables = list(sqla.tables())
        known, held = self._held
        if len(known) != len(tables):
            uuids: frozenset[KeyType] = frozenset({"uuid"})
            self._held = WeakSet(tables), (held := uuids | self.key_types_in(tables))
        return held

    def key_types_in(self, tables: Iterable[Table]) -> frozenset[KeyType]:
        """Return the types of key that these tables may hold."""
        columns = (column for table in tables for column in table.columns)
        held = {key_type_of(item_type(c.type)) for c in columns if self._columns.may_hold(c)}
        return frozenset(key_type for key_type in held if key_type is not None)

    def is_named(self, column: Column[Any]) -> bool:
        """Tell whether no library must be imported to say of which entity a column's keys are.

        Raises:
            KeyColumnError: the column references a table that is not there.
        """
        return self.names.has(referenced_column(column).table)

    def may_have_alternates(self) -> bool:
        """Tell whether a mapped table may hold alternate keys: it references no primary key.

        Worked out anew when there are others.
        """
        tables = list(sqla.tables())
        if len(self._alternates_found[0]) != len(tables):
            columns = (column for table in tables for column in table.columns)
            found = any(self._columns.may_hold(c) and names_other_column(c) for c in columns)
            self._alternates_found = WeakSet(tables), found
        return self._alternates_found[1]

    def _read_class(self, mapper: Mapper[Any]) -> ClassKeys:
        held = {
            attribute.key: column
            for attribute in mapper.column_attrs
            if (column := self._of_attribute(attribute)) is not None
        }
        for composite in mapper.composites:
            _refuse_composite(composite, held)
        identity = [mapper.get_property_by_column(c).key for c in mapper.primary_key]
        primary = {name: held[name] for name in identity if name in held}
        foreign = {name: column for name, column in held.items() if name not in primary}
        if held:
            _check_primary(mapper)
        label = self._label_of(mapper)
        own = self.name_of(mapper.class_) if primary else None
        is_own = len(identity) == 1 and [c.space for c in primary.values()] == [own]
        return ClassKeys(
            primary,
            foreign,
            primary | foreign,
            tuple(held.get(name) for name in identity),
            own if is_own else None,
            {name: column for name, column in held.items() if column.by is not None},
            label if is_own else None,
        )

    def _label_of(self, mapper: Mapper[Any]) -> Label | None:
        said = [c for c in mapper.class_.__mro__ if c in self.policy.labels]
        by_class = getattr(mapper.class_, "__ref_label__", None)
        given = self.policy.labels[said[0]] if said else by_class
        return None if given is None else label_of(mapper, given)

    def _of_attribute(self, attribute: ColumnProperty[Any]) -> KeyColumn | None:
        """Return what an attribute holds: a column, or the value of a `column_property()`."""
        if "ref" in attribute.info and attribute.info["ref"] is None:
            return None
        try:
            shown = Lineage(self.of_column).of(attribute.columns[0])
        except UntranslatableError as error:
            raise _expression(attribute, error.fact) from None
        if isinstance(shown, KeyColumn):
            return shown
        if any(columns_in(shown)):
            raise _expression(attribute, "its values are not keys as a column has them")
        if UNKNOWN in unknowns_in(shown):
            raise KeyColumnError(
                f"attribute {attribute} is an expression of unknown origin, and may show keys",
                'give it info={"ref": None} to show its values as they are',
            )
        return None


def _check_primary(mapper: Mapper[Any]) -> None:
    """Refuse a class that tells its rows apart by others than the primary key of its table.

    A ref might name a row by either.
    """
    root = root_of(mapper)
    table = root.local_table
    its = set(table.primary_key) if isinstance(table, Table) else set()
    if its and its != set(root.primary_key):
        raise KeyColumnError(
            f"class {root.class_.__qualname__!r} has another primary key than its table "
            f"{table.description!r}, and a ref might name a row by either",
            'map it by that of the table, or declare the columns of both info={"ref": None}',
        )


def _refuse_composite(composite: CompositeProperty[Any], held: Mapping[str, KeyColumn]) -> None:
    names = [attribute.key for attribute in composite.props]
    if not held.keys().isdisjoint(names):
        raise KeyColumnError(
            f"composite attribute {composite} holds key columns, which is not translated",
            'declare its columns with info={"ref": None}, or map them one by one',
        )


def _expression(attribute: ColumnProperty[Any], fact: str) -> KeyColumnError:
    return KeyColumnError(
        f"attribute {attribute} is an expression over key columns, and {fact}",
        'map the key column itself, or give the attribute info={"ref": None} to show it as it is',
    )
