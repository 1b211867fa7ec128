"""The entities of one application: look-up by class, table or column.

A registry has one `Entities` object for its policy; every conversation and session of the registry
shares it. Translation looks up each statement's columns and each class in it:

>>> entities = Entities(RefPolicy())
>>> entities.name_of(Recipe)
'recipe'
>>> entities.of_column(select(Line.recipe_id.label("r")).subquery().c.r).entity
'recipe'
>>> entities.of_column(Recipe.__table__.c.name) is None
True
>>> keys = entities.of_class(Line)
>>> list(keys.primary), list(keys.foreign), keys.own_entity
(['id'], ['recipe_id'], 'line')

- `of_column` follows aliases, subqueries and labels to the column of a table, and returns its
  `KeyColumn` (`mapping.key_columns`), or `None` for data.
- `of_class` returns the key attributes of a mapped class as a `ClassKeys`. A class whose primary
  key cannot be translated raises `KeyColumnError` here, when it is first used; any other attribute
  that cannot be translated is refused when it is used.
- Nothing is configured up front: a class or table is read at its first use and cached. The caches
  hold tables and classes weakly, so that an application can drop them.

Limits: the metadata is read as it is at the first use; columns that are added to a table later are
read, changes of a column that was read are not. Only columns are looked up here; which keys an
expression returns is derived by `mapping.lineage`. Nothing here emits SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from sqlalchemy import Column, ColumnElement, Table, inspect
from sqlalchemy.orm import ColumnProperty, Mapper, class_mapper

from alfred_refs import sqla
from alfred_refs.errors import KeyColumnError, UntranslatableError
from alfred_refs.mapping.key_columns import (
    EntityNames,
    KeyColumn,
    KeyColumns,
    is_in_table,
    item_type,
    key_table,
    key_type_of,
    names_other_column,
    primary_key,
    referenced_column,
    row_key,
)
from alfred_refs.mapping.keys import Key, KeyType, RefPolicy
from alfred_refs.mapping.labels import Label, label_of
from alfred_refs.mapping.lineage import UNKNOWN, Lineage, columns_in, unknowns_in

_T = TypeVar("_T")

_UNDECLARED: Final = object()  # a label of which nothing is said


@dataclass(frozen=True, slots=True)
class ClassKeys:
    """The attributes of a mapped class that hold keys, by name.

    Attributes:
        primary: attributes of the primary key, in its order.
        foreign: the others.
        all: both.
        identity: for each column of the primary key its key column, `None` for data.
        own_entity: the entity whose refs name the rows; `None` if the primary key has several
            columns, or is a key of another entity.
        alternate: the attributes among `all` that hold alternate keys.
        label: the label of the rows; `None` if they have none, or no refs of their own.
        declares_label: whether the class or the policy says what the label is, or that there is
            none.
        attributes: the column attributes that instances can show, whether keys or data.
        refused: the attributes that cannot be translated, composites included, with the reasons.
    """

    primary: Mapping[str, KeyColumn]
    foreign: Mapping[str, KeyColumn]
    all: Mapping[str, KeyColumn]
    identity: tuple[KeyColumn | None, ...]
    own_entity: str | None
    alternate: Mapping[str, KeyColumn]
    label: Label | None
    declares_label: bool
    attributes: Mapping[str, ColumnProperty[Any]]
    refused: Mapping[str, KeyColumnError]

    def check_readable(self, name: str) -> None:
        """Check that an attribute can be translated.

        Raises:
            KeyColumnError: it cannot.
        """
        error = self.refused.get(name)
        if error is not None:  # a new one: a raised exception keeps its traceback
            raise KeyColumnError(error.fact, error.remedy)

    def key_of(self, identity: Sequence[Any]) -> Key:
        """Return the key of a row from its identity, the values of its primary key columns."""
        return row_key(self.identity, identity)


class Entities:
    """The tables, classes and columns of an application under one policy.

    Attributes:
        names: the names of the entities.
        policy: which keys become refs.
        alternates: the alternate keys seen so far, by their `space`.
    """

    def __init__(self, policy: RefPolicy) -> None:
        self.names = EntityNames(policy)
        self.policy = policy
        self._memos: dict[Callable[[Entities], Any], Any] = {}
        self._columns = KeyColumns(policy, self.names)
        self.alternates = self._columns.alternates
        # each with the tables that it was computed for, to notice new and dropped ones
        self._key_types: tuple[WeakSet[Table], frozenset[KeyType]] = WeakSet(), frozenset({"uuid"})
        self._may_have_alternates: tuple[WeakSet[Table], bool] = WeakSet(), False
        self._has_labels: WeakKeyDictionary[Table, bool] = WeakKeyDictionary()
        self._primary_columns: WeakValueDictionary[str, Column[Any]] = WeakValueDictionary()
        self._key_tables: WeakValueDictionary[str, Table] = WeakValueDictionary()

    def memo(self, make: Callable[[Entities], _T]) -> _T:
        """Return `make(self)`, computed once and shared by all callers."""
        made: _T | None = self._memos.get(make)
        # `setdefault`: of two threads that compute it at once, both return the first result
        return self._memos.setdefault(make, make(self)) if made is None else made

    # Entities and their tables

    def name_of(self, entity: type[Any] | Table | str) -> str:
        """Return the entity name of a mapped class or table; check and return a name.

        Raises:
            EntityNameError: two classes have the name, or it is malformed or missing.
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
        """Return the only primary key column of a class or table; `None` for a name."""
        if isinstance(entity, str):
            return None
        table = entity if isinstance(entity, Table) else key_table(inspect(entity).mapper)
        primary = primary_key(table)
        return self.of_column(primary[0]) if len(primary) == 1 else None

    def primary_column_of(self, entity: str) -> Column[Any] | None:
        """Return the primary key column of an entity, `None` if its table has no mapped class."""
        column = self._primary_columns.get(entity)
        table = self.names.find_table_of(entity) if column is None else None
        mapper = None if table is None else sqla.mapper_of_table(table)
        if mapper is not None:
            primary = primary_key(key_table(mapper))
            if len(primary) == 1:
                column = self._primary_columns[entity] = cast("Column[Any]", primary[0])
        return column

    def table_name_of(self, entity: str, schemas: sqla.Schemas = frozenset()) -> str | None:
        """Return the schema-qualified name of the table that an entity's refs name rows of.

        Args:
            entity: the name of an entity; the result is `None` before its first use.
            schemas: a `schema_translate_map` to apply to the schema.
        """
        table = self._key_tables.get(entity)
        if table is None:
            used = self.names.table_of(entity)
            mapper = None if used is None else sqla.mapper_of_table(used)
            table = used if mapper is None else key_table(mapper)
            if not isinstance(table, Table):
                return None
            if mapper is not None:
                self._key_tables[entity] = table
        schema = dict(schemas).get(table.schema, table.schema)
        return table.name if schema is None else f"{schema}.{table.name}"

    def label_of(self, entity: str) -> Label | None:
        """Return the label of an entity's rows; `None` without one, or before its first use."""
        table = self.names.table_of(entity)
        mapper = None if table is None else sqla.mapper_of_table(table)
        return None if mapper is None else self._label_of(mapper)

    def has_labels(self, entity: str) -> bool:
        """Return whether the class of an entity, or a subclass, has a label; `False` if unused."""
        table = self.names.table_of(entity)
        if table is None:
            return False
        has_labels = self._has_labels.get(table)
        if has_labels is None:
            mapper = sqla.mapper_of_table(table)
            mappers = () if mapper is None else mapper.self_and_descendants
            has_labels = self._has_labels[table] = any(map(self._label_of, mappers))
        return has_labels

    def used_tables(self) -> list[Table]:
        """Return the tables used so far, and all others in their metadata."""
        used = {column.table.metadata for column in self._columns}
        return [table for metadata in used for table in metadata.tables.values()]

    def is_used(self, table: Table) -> bool:
        """Return whether any column of a table was looked up: the application uses it."""
        return any(column in self._columns for column in table.columns)

    # Columns

    def of_column(self, element: ColumnElement[Any]) -> KeyColumn | None:
        """Return the key column behind a column, followed through aliases, subqueries and labels.

        The result is `None` for data, for any expression that is not a column, and for a column of
        a union that mixes keys of two entities, or keys and data.
        """
        element = sqla.polymorphic_column(element)
        bases = [c for c in element.base_columns if is_in_table(c)]
        found = [self._columns.of(column) for column in bases]
        different = {column and replace(column, name="") for column in found}
        return found[0] if len(different) == 1 else None

    def has_name(self, column: Column[Any]) -> bool:
        """Return whether the entity of a column can be named without importing `inflect`.

        Raises:
            KeyColumnError: the column references a table that the metadata does not have.
        """
        return self.names.has(referenced_column(column).table)

    def key_types_in_use(self) -> frozenset[KeyType]:
        """Return the types of key that any table of the process may hold.

        A value of unknown origin and of another type is data. UUIDs are always among them.
        """
        tables = list(sqla.tables())
        known_tables, key_types = self._key_types
        if len(known_tables) != len(tables):
            uuids: frozenset[KeyType] = frozenset({"uuid"})
            key_types = uuids | self.key_types_in(tables)
            self._key_types = WeakSet(tables), key_types
        return key_types

    def key_types_in(self, tables: Iterable[Table]) -> frozenset[KeyType]:
        """Return the types of key that these tables may hold."""
        columns = (column for table in tables for column in table.columns)
        types = {key_type_of(item_type(c.type)) for c in columns if self._columns.may_hold(c)}
        return frozenset(key_type for key_type in types if key_type is not None)

    def may_have_alternate_keys(self) -> bool:
        """Return whether a table of the process may hold alternate keys."""
        tables = list(sqla.tables())
        if len(self._may_have_alternates[0]) != len(tables):
            columns = (column for table in tables for column in table.columns)
            found = any(self._columns.may_hold(c) and names_other_column(c) for c in columns)
            self._may_have_alternates = WeakSet(tables), found
        return self._may_have_alternates[1]

    # Classes

    def of_class(self, class_: type[Any]) -> ClassKeys:
        """Return the key attributes of a mapped class.

        Raises:
            KeyColumnError: its keys cannot be translated.
            LabelError: its label cannot be used.
        """
        cache = sqla.class_cache(class_, self)
        keys = cache.get("keys")
        if keys is None:
            keys = cache["keys"] = self._read_class(class_mapper(class_))
        return cast(ClassKeys, keys)

    def _read_class(self, mapper: Mapper[Any]) -> ClassKeys:
        identity = [mapper.get_property_by_column(c).key for c in mapper.primary_key]
        # SQLAlchemy maps an expression of `polymorphic_on` without an attribute of the class
        attributes = {e.key: e for e in mapper.column_attrs if hasattr(mapper.class_, e.key)}
        columns: dict[str, KeyColumn] = {}
        refused: dict[str, KeyColumnError] = {}
        for name, attribute in [*attributes.items()]:
            try:
                column = self._of_attribute(attribute)
            except KeyColumnError as error:
                refused[name] = error.with_traceback(None)
                del attributes[name]
            else:
                if column is not None:
                    columns[name] = column
        for composite in mapper.composites:
            if not columns.keys().isdisjoint(each.key for each in composite.props):
                refused[composite.key] = KeyColumnError(
                    f"composite attribute {composite} has key columns, which are not translated "
                    "in it",
                    'read its columns one by one, or declare them with info={"ref": None}',
                )
        primary = {name: columns[name] for name in identity if name in columns}
        foreign = {name: column for name, column in columns.items() if name not in primary}
        if columns:
            _check_primary_key(mapper)
        label = self._label_of(mapper)
        if label is not None and label.attribute in refused:
            raise refused[label.attribute]
        # rows of an association table have no refs
        is_named = primary and not sqla.is_association(mapper)
        entity = self.name_of(mapper.class_) if is_named else None
        is_own = len(identity) == 1 and [c.space for c in primary.values()] == [entity]
        return ClassKeys(
            primary=primary,
            foreign=foreign,
            all=primary | foreign,
            identity=tuple(columns.get(name) for name in identity),
            own_entity=entity if is_own else None,
            alternate={n: column for n, column in columns.items() if column.alternate is not None},
            label=label if is_own else None,
            declares_label=self._declared_label(mapper.class_) is not _UNDECLARED,
            attributes=attributes,
            refused=refused,
        )

    def _of_attribute(self, attribute: ColumnProperty[Any]) -> KeyColumn | None:
        """Return the key column of an attribute: a column, or a `column_property()` of one."""
        if "ref" in attribute.info and attribute.info["ref"] is None:
            return None
        try:
            shape = Lineage(self.of_column).of(attribute.columns[0])
        except UntranslatableError as error:
            raise _expression_error(attribute, error.fact) from None
        if isinstance(shape, KeyColumn):
            return shape
        if any(columns_in(shape)):
            raise _expression_error(attribute, "its values are not the keys themselves")
        if UNKNOWN in unknowns_in(shape):
            raise KeyColumnError(
                f"attribute {attribute} is an expression of unknown origin, and may show keys",
                'give it info={"ref": None} to show its values as they are',
            )
        return None

    def _label_of(self, mapper: Mapper[Any]) -> Label | None:
        declared = self._declared_label(mapper.class_)
        is_declared = declared is not None and declared is not _UNDECLARED
        return label_of(mapper, declared) if is_declared else None

    def _declared_label(self, class_: type[Any]) -> Any:
        """Return what the policy or the class says of its label; `None` means that it has none."""
        in_policy = [each for each in class_.__mro__ if each in self.policy.labels]
        if in_policy:
            return self.policy.labels[in_policy[0]]
        return getattr(class_, "__ref_label__", _UNDECLARED)


def _check_primary_key(mapper: Mapper[Any]) -> None:
    """Refuse a class mapped with another primary key than its table has.

    A ref would name one row by the identity of the class, and another by the table's key.
    """
    root = sqla.root_of(mapper)
    table = root.local_table
    of_table = set(table.primary_key) if isinstance(table, Table) else set()
    if of_table and of_table != set(root.primary_key):
        raise KeyColumnError(
            f"class {root.class_.__qualname__!r} has another primary key than its table "
            f"{table.description!r}, and a ref might name a row by either",
            "map it with the primary key of the table, or declare the columns of both with "
            'info={"ref": None}',
        )


def _expression_error(attribute: ColumnProperty[Any], fact: str) -> KeyColumnError:
    return KeyColumnError(
        f"attribute {attribute} is an expression over key columns, and {fact}",
        'map the key column itself, or give the attribute info={"ref": None} to show it as it is',
    )
