"""Key columns: the columns of tables that hold keys, with the entities of these.

A `KeyColumn` describes one column for all translation: the entity whose keys it holds, their type
underneath, and how a value becomes a key and a key becomes a value. `KeyColumns` derives it from
SQLAlchemy's metadata, once for each column:

>>> policy = RefPolicy()
>>> columns = KeyColumns(policy, EntityNames(policy))
>>> column = columns.of(Line.__table__.c.recipe_id)
>>> column.name, column.entity, column.key_type
('lines.recipe_id', 'recipe', 'uuid')
>>> columns.of(Line.__table__.c.text) is None
True
>>> key = chat.resolve("recipe_1")
>>> texts_in(column, "recipe_1"), keys_in(column, key) == [("recipe", key)]
(['recipe_1'], True)

| column | by | result |
| --- | --- | --- |
| `event.subject` | `info={"ref": ...}` | keys of the declared table, or data for `None` |
| `order_line.product_id` | a foreign key to a primary key | keys of `product` |
| `order_line.sku` | a foreign key to another unique column | an alternate key of `product` |
| `order_line.kind` | in a foreign key together with `product_id`, to two columns | data |
| `product.id` | the primary key | keys of `product` |
| `product.price` | none of these | data: `None` |

The first row that applies decides. A column that the policy excludes, or whose type is not one of
`RefPolicy.key_types`, is data.

`EntityNames` names the entity of a table: the name of the mapped class in snake case, unless
`__ref_name__` or the policy overrides it; for a table without a mapped class, the singular of its
name. Digits at the end belong to the last word, because `unit_2` is a ref: `Unit2` is `unit2`. Two
tables of one name raise `EntityNameError` when either is first used, and a name that no entity can
have raises it when its class is used.

A key attribute holds one of four things, which `texts_in`, `keys_in` and `with_keys` handle: a
key, a list of keys (an array column), text that is to be resolved to a key, or a SQL expression
that the flush will send.

Limits: nothing here emits SQL, and column names are never guessed from: `recipe_id` without a
foreign key or a declaration is data. JSON columns are data too; a declaration on one is about the
texts in its documents and is read by the tools.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any, TypeGuard, cast
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from sqlalchemy import (
    ARRAY,
    JSON,
    Column,
    ColumnElement,
    Enum,
    Integer,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
    inspect,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import DOMAIN, HSTORE
from sqlalchemy.exc import NoReferenceError
from sqlalchemy.orm import Mapper, QueryableAttribute
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.errors import EntityNameError, KeyColumnError
from alfred_refs.mapping.keys import (
    KEY,
    EntityKey,
    Key,
    KeyType,
    RefPolicy,
    as_integer,
    is_entity_name,
    part_of,
    spells_uuid,
    value_of,
)

# Columns that hold keys

# types of JSON values that are neither UUIDs nor texts
_NO_KEYS = frozenset((bool, int, float, Decimal, list, dict))


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that holds keys.

    Attributes:
        name: `table.column`, for messages.
        entity: the entity that its values name.
        key_type: the type of the keys.
        as_text: whether its UUIDs are `str` in Python (`Uuid(as_uuid=False)`).
        array: whether each value is a list of keys.
        alternate: the unique column whose values it holds instead of primary keys, if it does.
    """

    name: str
    entity: str
    key_type: KeyType
    as_text: bool = False
    array: bool = False
    alternate: AlternateKey | None = None

    @property
    def space(self) -> str:
        """The name space of its keys: an entity, or an alternate key of one."""
        return self.entity if self.alternate is None else self.alternate.space

    @property
    def has_uuids(self) -> bool:
        """Whether each value is a `uuid.UUID` and the primary key of a row."""
        plain = not self.as_text and not self.array and self.alternate is None
        return self.key_type == "uuid" and plain

    def holds(self, value: Any) -> bool:
        """Return whether a value is a key in this column's Python type."""
        if self.as_text or self.key_type == "string":
            return isinstance(value, str)
        if self.key_type == "uuid":
            return isinstance(value, uuid.UUID)
        return isinstance(as_integer(value), int)

    def ref_text(self, value: Any) -> str | None:
        """Return the text to resolve in place of a value, `None` if the value is not text.

        A number or another JSON value in a column of UUIDs or strings cannot be a key: it is
        returned as text, so that it raises `UnknownRefError` like any other wrong ref.
        """
        if isinstance(value, str):
            return value
        return str(value) if type(value) in _NO_KEYS and self.key_type != "integer" else None

    def token(self, value: Any) -> Any:
        """Return the `token_of` the key of a value."""
        if self.key_type == "uuid":
            return uuid.UUID(value).int if self.as_text else value.int
        return value

    def to_key(self, value: Any) -> Key:
        """Convert a value of this column to a key."""
        if self.key_type == "integer":
            return cast(int, as_integer(value))
        return uuid.UUID(value) if self.as_text else value

    def from_key(self, key: Key) -> Any:
        """Convert a key to this column's Python type."""
        return str(key) if self.as_text else key

    @property
    def has_one_type(self) -> bool:
        """Whether each value is text if `as_text`, and no text otherwise."""
        return self.key_type != "string" and not self.array and self.alternate is None

    def convert(self, value: Any) -> Any:
        """Return a value of another Python type in the column's, if it spells a key."""
        text = str(value)
        if self.key_type == "uuid":
            return self.from_key(uuid.UUID(text)) if spells_uuid(text) else value
        return int(text) if text.isdecimal() else value


@dataclass(frozen=True, slots=True, eq=False)
class AlternateKey:
    """A unique column that foreign keys reference instead of the primary key.

    Attributes:
        space: the name space of its values; it is not the name of an entity.
        values: the unique column as a key column.
        rows: the primary key column.
        columns: weak references to the unique column and the primary key column.
    """

    space: str
    values: KeyColumn
    rows: KeyColumn
    columns: tuple[ref[Column[Any]], ref[Column[Any]]]

    @property
    def is_alive(self) -> bool:
        """Whether the application still has the table."""
        return self.columns[0]() is not None

    @property
    def column(self) -> Column[Any]:
        """The unique column."""
        return cast("Column[Any]", self.columns[0]())

    @property
    def primary(self) -> Column[Any]:
        """The primary key column."""
        return cast("Column[Any]", self.columns[1]())


# Primary keys, in which some columns may hold data


def row_key(columns: Sequence[KeyColumn | None], values: Sequence[Any]) -> Key:
    """Return the key of a row.

    Args:
        columns: the columns of its primary key; `None` for one that holds data.
        values: their values in the row.
    """
    parts: list[Any] = [
        part_of(value) if column is None else column.to_key(value)
        for column, value in zip(columns, values, strict=True)
    ]
    return parts[0] if len(parts) == 1 else tuple(parts)


def key_value(column: KeyColumn | None, part: Any, type_: TypeEngine[Any]) -> Any:
    """Return the value of a primary key column of a SQL type for the part of a row's key."""
    if column is not None:
        return column.from_key(part)
    return value_of(part, python_type_of(undecorated_type(type_)))


# SQL types of keys


def key_type_of(type_: TypeEngine[Any]) -> KeyType | None:
    """Return the type of key that a column of this SQL type can hold, `None` if none."""
    type_ = undecorated_type(type_)
    if isinstance(type_, Uuid) or python_type_of(type_) is uuid.UUID:
        return "uuid"
    if isinstance(type_, Integer) or python_type_of(type_) is int:
        return "integer"
    # an `Enum` is a `String` and may have members of an enumeration
    is_text = isinstance(type_, String) and not isinstance(type_, Enum)
    return "string" if is_text or python_type_of(type_) is str else None


def python_type_of(type_: TypeEngine[Any]) -> type[Any] | None:
    """Return the Python type of a column's values, `None` if it is unknown.

    A custom type that does not declare it, as in SQLAlchemy's recipe for UUIDs, shows it by a
    value that it stores and loads.
    """
    if is_ambiguous(type_):
        return _loaded_type(cast("TypeDecorator[Any]", type_))
    try:
        return type_.python_type
    except NotImplementedError:  # `TypeEngine.python_type` raises it for a type without one
        return None


# By these a custom type shows its Python type.
_SAMPLES = (uuid.UUID("6f3a1c58-0d27-4b9e-8a41-5c2e7d90b613"), 7, "sample")


def _loaded_type(type_: TypeDecorator[Any]) -> type[Any] | None:
    """Return the type of a sample that a custom type stores as its `impl`, and loads again."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    impl = type_.load_dialect_impl(dialect)
    stores = python_type_of(impl)
    binds = "process_bind_param" in _names_defined_by(type_)
    for sample in _SAMPLES[:1] if isinstance(impl, Uuid) else _SAMPLES:
        with suppress(Exception):  # of the application's
            stored = type_.process_bind_param(sample, dialect) if binds else sample
            loaded = type_.process_result_value(stored, dialect)
            # drivers take the text of a UUID
            is_stored = type(stored) in ((stores, str) if stores is uuid.UUID else (stores,))
            if is_stored and type(loaded) is type(sample) and loaded in (sample, stored):
                return type(sample)
    return None


def item_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the SQL type of an array's items; return any other type itself."""
    return type_.item_type if isinstance(type_, ARRAY) else type_


def holds_texts(type_: TypeEngine[Any]) -> bool:
    """Return whether the values of a SQL type are lists or mappings of texts."""
    type_ = undecorated_type(type_)
    is_list = isinstance(type_, ARRAY) and python_type_of(undecorated_type(type_.item_type)) is str
    return is_list or isinstance(type_, HSTORE)


def is_ambiguous(type_: TypeEngine[Any]) -> bool:
    """Return whether a custom type converts values without declaring their Python type.

    `TypeDecorator.python_type` is the decorated type's unless a subclass overrides it.
    """
    if not isinstance(type_, TypeDecorator):
        return False
    defined = _names_defined_by(type_)
    return "process_result_value" in defined and "python_type" not in defined


def is_text_uuid(type_: TypeEngine[Any]) -> bool:
    """Return whether the UUIDs of a column of this SQL type are `str` in Python."""
    type_ = undecorated_type(type_)
    return isinstance(type_, Uuid) and not type_.as_uuid


def undecorated_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the type below domains, and custom types that leave values as they are."""
    while isinstance(type_, TypeDecorator | DOMAIN):
        if isinstance(type_, DOMAIN):
            type_ = type_.data_type
            continue
        if not _names_defined_by(type_).isdisjoint(("process_result_value", "python_type")):
            break
        type_ = type_.impl_instance
    return type_


def _names_defined_by(type_: TypeDecorator[Any]) -> set[str]:
    """Return the attributes that a custom type and its bases below `TypeDecorator` define."""
    classes = type(type_).__mro__
    own = classes[: classes.index(TypeDecorator)]
    return {name for class_ in own for name in vars(class_)}


# Values of key attributes


def items_of(value: Any) -> Iterator[Any]:
    """Yield the elements of an array of any number of dimensions."""
    for item in value:
        if isinstance(item, list | tuple):
            yield from items_of(item)
        else:
            yield item


def texts_in(column: KeyColumn, value: Any) -> list[str]:
    """Return the texts in a value: the refs that the program assigned."""
    items = _items_in(column, value)
    return [text for item in items if (text := column.ref_text(item)) is not None]


def keys_in(column: KeyColumn, value: Any) -> list[EntityKey]:
    """Return the keys in a value: none for NULL, and none for a SQL expression."""
    items = filter(column.holds, _items_in(column, value))
    return [(column.space, column.to_key(item)) for item in items]


def _items_in(column: KeyColumn, value: Any) -> Iterable[Any]:
    if not column.array:
        return (value,)
    return items_of(value) if isinstance(value, list | tuple | set) else ()


def with_keys(column: KeyColumn, value: Any, keys: Mapping[tuple[str, str | None], Key]) -> Any:
    """Return a value with its texts replaced by keys in the column's Python type.

    Args:
        column: the column that the value is for.
        value: anything that a key attribute can be set to.
        keys: the resolved keys, by text and the column's `space`.
    """
    if not texts_in(column, value):
        return value

    def resolve(item: Any) -> Any:
        if column.array and isinstance(item, list | tuple | set):
            return [resolve(inner) for inner in item]
        text = column.ref_text(item)
        return item if text is None else column.from_key(keys[text, column.space])

    return resolve(value)


# Entity names

_MALFORMED = "is not lower-case snake_case, starts with 'gen_' or ends in '_' and digits"
_NAME_REMEDY = "set __ref_name__ on the class, or RefPolicy(names={...})"


class EntityNames:
    """The names of an application's entities under one policy.

    The first use of a class names all classes of its declarative base, so that whether two names
    clash does not depend on the order in which the classes are used.
    """

    def __init__(self, policy: RefPolicy) -> None:
        self._overrides = policy.names
        # weak: when the application drops a table, its name becomes free
        self._names: WeakKeyDictionary[Table, str] = WeakKeyDictionary()
        self._tables: WeakValueDictionary[str, Table] = WeakValueDictionary()
        self._lock = threading.RLock()

    def check_name(self, name: str) -> str:
        """Return the name if it can be the name of an entity.

        Raises:
            EntityNameError: its refs would read as other refs.
        """
        if (fault := _name_fault(name)) is not None:
            raise EntityNameError(f"{name!r} {fault}", _NAME_REMEDY)
        return name

    def of_table(self, table: Table) -> str:
        """Return the name of a table's entity.

        Raises:
            EntityNameError: the name is malformed or missing, or another table has it.
        """
        name = self._names.get(table)
        if name is None:
            with self._lock:
                self._name_with_base(table)
                name = self._names[table]
        return name

    def has(self, table: Table) -> bool:
        """Return whether a table has a name without `singular` of its own name."""
        is_override = self._override_for(table.fullname) is not None
        return is_override or table in self._names or sqla.mapper_of_table(table) is not None

    def table_of(self, name: str) -> Table | None:
        """Return the table of an entity, if it has been used."""
        return self._tables.get(name)

    def find_table_of(self, name: str) -> Table | None:
        """Return the table of an entity; look through all mapped classes if it was not used yet.

        Raises:
            EntityNameError: it was not used yet, and classes of several bases have the name.
        """
        if name not in self._tables:
            tables = [
                mapper.local_table
                for mapper in sqla.mappers()
                if isinstance(mapper.local_table, Table)
                and self._name_of_class(mapper, mapper.local_table) == name
            ]
            described = {_key_owner(table): _describe_table(table) for table in tables}
            if len(described) > 1:
                one, other, *_ = sorted(described.values())
                raise _clash(one, other, name)
            if tables:
                with suppress(EntityNameError):  # raised again when the class is used
                    self.of_table(tables[0])
        return self._tables.get(name)

    def _name_with_base(self, table: Table) -> None:
        mapper = sqla.mapper_of_table(table)
        if mapper is None:
            override = self._override_for(table.fullname)
            self._assign(
                table, _join_digits(singular(table.name)) if override is None else override
            )
            return
        before = WeakKeyDictionary(self._names), WeakValueDictionary(self._tables)
        try:
            for other in sorted(sqla.mappers_of(mapper.registry), key=_class_name):
                if not isinstance(other.local_table, Table):
                    continue
                name = self._name_of_class(other, other.local_table)
                if other.local_table is table or _name_fault(name) is None:
                    self._assign(other.local_table, name)
        except EntityNameError:  # name none of them, so that the next use raises as well
            self._names, self._tables = before
            raise

    def _name_of_class(self, mapper: Mapper[Any], table: Table) -> str:
        from pydantic.alias_generators import to_snake  # noqa: PLC0415  # slow to import

        class_ = sqla.root_of(mapper).class_
        override = self._override_for(class_, table.fullname)
        declared = class_.__dict__.get("__ref_name__", _join_digits(to_snake(class_.__name__)))
        return declared if override is None else override

    def _override_for(self, *items: type[Any] | str) -> str | None:
        return next((self._overrides[item] for item in items if item in self._overrides), None)

    def _assign(self, table: Table, name: str) -> None:
        if self._names.get(table, name) != name:
            raise EntityNameError(
                f"table {table.fullname!r} is mapped by classes of two entity names, "
                f"{self._names[table]!r} and {name!r}",
                _NAME_REMEDY,
            )
        if (fault := _name_fault(name)) is not None:
            raise EntityNameError(
                f"the entity name {name!r} of {_describe_table(table)} {fault}", _NAME_REMEDY
            )
        holder = self._tables.setdefault(name, table)
        if _key_owner(holder) is not _key_owner(table) and not _is_reflection(holder, table):
            raise _clash(_describe_table(holder), _describe_table(table), name)
        self._names[table] = name


def _join_digits(name: str) -> str:
    """Return a derived name with its last digits in its last word: `unit_2` would be a ref."""
    return re.sub(r"_+(\d+)$", r"\1", name)


def _name_fault(name: str) -> str | None:
    """Return why a name cannot be the name of an entity, `None` if it can."""
    if name == KEY:
        return "is reserved for keys in texts"
    return None if is_entity_name(name) else _MALFORMED


def _clash(one: str, other: str, name: str) -> EntityNameError:
    return EntityNameError(f"{one} and {other} both have the entity name {name!r}", _NAME_REMEDY)


def _key_owner(table: Table) -> object:
    """Return the root mapper of a table, or the table: tables with one owner share their keys.

    In joined-table inheritance the tables of subclasses have the key of the base.
    """
    mapper = sqla.mapper_of_table(table)
    return table if mapper is None else sqla.root_of(mapper)


def _is_reflection(one: Table, other: Table) -> bool:
    """Return whether two `Table` objects are one table of the database, at most one mapped."""
    mapped = [sqla.mapper_of_table(table) for table in (one, other)]
    return one.fullname == other.fullname and None in mapped


def _describe_table(table: Table) -> str:
    mapper = sqla.mapper_of_table(table)
    if mapper is None:
        return f"table {table.fullname!r}"
    return f"class {_class_name(sqla.root_of(mapper))!r}"


def _class_name(mapper: Mapper[Any]) -> str:
    return f"{mapper.class_.__module__}.{mapper.class_.__qualname__}"


def singular(name: str) -> str:
    """Return the singular of a table's name, by the `inflect` library.

    Raises:
        EntityNameError: the library is not installed.
    """
    try:
        engine = _inflect_engine()
    except ImportError:
        raise EntityNameError(
            f"table {name!r} has no mapped class to be named by",
            "install alfred-refs[tables], or name it by RefPolicy(names={...})",
        ) from None
    return str(engine.singular_noun(name) or name)


@cache
def _inflect_engine() -> Any:
    """Return the engine of `inflect`, which is in an extra.

    Its functions check their arguments by typeguard, which rewrites their source at each import:
    three seconds of an MCP server's start. So they are imported without these checks.
    """
    typeguard: Any = import_module("typeguard")
    with _IMPORTING:  # another thread would take the replacement for the original
        typechecked = typeguard.typechecked
        typeguard.typechecked = lambda function: function
        try:
            return import_module("inflect").engine()
        finally:
            typeguard.typechecked = typechecked


_IMPORTING = threading.Lock()


# Primary and foreign keys


def is_in_table(column: ColumnElement[Any]) -> TypeGuard[Column[Any]]:
    """Return whether a column is one of a `Table`, not of a subquery or a `table()` construct."""
    return isinstance(column, Column) and isinstance(column.table, Table)


def key_table(mapper: Mapper[Any]) -> Any:
    """Return the table whose primary key identifies the rows of a class."""
    column = sqla.root_of(mapper).primary_key[0]
    # a class mapped to a select or a join: its columns lead to the columns of the tables in it
    tables = (getattr(base, "table", None) for base in column.base_columns)
    return next((table for table in tables if isinstance(table, Table)), column.table)


def primary_key(table: Table) -> list[ColumnElement[Any]]:
    """Return the primary key of a table; for a view, the one that its mapped class declares."""
    mapper = None if len(table.primary_key) else sqla.mapper_of_table(table)
    return list(table.primary_key) if mapper is None else list(mapper.primary_key)


def is_in_primary_key(column: Column[Any]) -> bool:
    """Return whether a column is in the primary key of its table."""
    # by identity: `in` on a list builds SQL of `==`, for which a DOMAIN has no operators in 2.1
    return column in {*primary_key(column.table)}


def referenced_column(column: Column[Any]) -> Column[Any]:
    """Follow foreign keys to the column that its values come from, which may be the column itself.

    Raises:
        KeyColumnError: a foreign key references a table that the metadata does not have.
    """
    seen = {column}
    while column.foreign_keys:
        try:
            column = min(column.foreign_keys, key=_own_table_last).column
        except NoReferenceError as error:
            raise KeyColumnError(
                f"foreign key {column} references a table that its metadata does not have",
                'reflect or declare that table, or declare the column with info={"ref": None}',
            ) from error
        if column in seen:
            break
        seen.add(column)
    return column


def _referenced_together(column: Column[Any], target: Column[Any]) -> set[Column[Any]]:
    """Return the columns that the last foreign key on the way to a target references.

    PostgreSQL requires them to be unique together.
    """
    seen: set[Column[Any]] = set()
    while column.foreign_keys and column not in seen:
        seen.add(column)
        foreign_key = min(column.foreign_keys, key=_own_table_last)
        column = foreign_key.column
        if column is target:
            constraint = foreign_key.constraint
            return {e.column for e in constraint.elements} if constraint else {target}
    return set()


def _own_table_last(foreign_key: Any) -> bool:
    """Sort foreign keys to the column's own table last: they do not lead to another table."""
    return bool(foreign_key.column.table is foreign_key.parent.table)


def is_unique(column: Column[Any]) -> bool:
    """Return whether a column alone is unique."""
    constraints = [c for c in column.table.constraints if isinstance(c, UniqueConstraint)]
    return bool(column.unique) or any({*c.columns} == {column} for c in constraints)


def column_named(table: Table, declared: str) -> Column[Any] | None:
    """Return the column of a table that `"table.column"` names, or `None`."""
    return table.columns.get(declared.rpartition(".")[2])


def names_other_column(column: Column[Any]) -> bool:
    """Return whether a column references, or is declared to hold, a column that is not a key."""
    declared = column.info.get("ref")
    if isinstance(declared, str):
        table = column.table.metadata.tables.get(declared.rpartition(".")[0])
        named = None if table is None else column_named(table, declared)
        return named is not None and not is_in_primary_key(named)
    try:
        return declared is None and any(
            not is_in_primary_key(f.column) for f in column.foreign_keys
        )
    except NoReferenceError:
        return False


class KeyColumns:
    """The key columns of an application's tables under one policy, derived at first use.

    Args:
        policy: which keys become refs.
        names: the names of the entities.

    Attributes:
        alternates: the alternate keys seen so far, by their `space`.
    """

    def __init__(self, policy: RefPolicy, names: EntityNames) -> None:
        self.alternates: dict[str, AlternateKey] = {}
        self._policy = policy
        self._names = names
        self._cache: WeakKeyDictionary[Column[Any], KeyColumn | None] = WeakKeyDictionary()

    def __contains__(self, column: Column[Any]) -> bool:
        return column in self._cache

    def __iter__(self) -> Iterator[Column[Any]]:
        return iter(list(self._cache))

    def of(self, column: Column[Any]) -> KeyColumn | None:
        """Return the key column for a column of a table, `None` for data.

        Raises:
            KeyColumnError: the metadata does not determine it.
        """
        try:
            return self._cache[column]
        except KeyError:
            key_column = self._cache[column] = self._derive(column)
            return key_column

    def may_hold(self, column: Column[Any]) -> bool:
        """Return whether a column may hold keys, without naming the entity of its table.

        Text counts only if the policy makes refs of strings: otherwise every text column would.
        """
        key_type = key_type_of(item_type(column.type))
        if isinstance(column.type, JSON):
            return False
        if "ref" in column.info:
            declared = column.info["ref"] is not None
            return declared and (key_type != "string" or "string" in self._policy.key_types)
        is_key = column.primary_key or bool(column.foreign_keys)
        is_excluded = self._is_excluded(column, column)
        return is_key and key_type in self._policy.key_types and not is_excluded

    def _derive(self, column: Column[Any]) -> KeyColumn | None:
        if "ref" in column.info:
            return self._derive_declared(column)
        target = referenced_column(column)
        key_type = key_type_of(column.type)
        is_unclear = key_type is None and is_ambiguous(column.type)
        is_key = target is not column or is_in_primary_key(target)
        if is_unclear and is_key and not self._is_excluded(column, target):
            raise KeyColumnError(
                f"key column {column} has the type {type(column.type).__name__}, which does not "
                "declare the Python type of its values",
                'give the type a python_type, or the column info={"ref": None}',
            )
        if key_type not in self._policy.key_types or self._is_excluded(column, target):
            return None
        alternate = None
        if target is not column and not is_in_primary_key(target):
            referenced = _referenced_together(column, target)
            if referenced.issuperset(primary_key(target.table)):
                return None  # the row is named without this column, which is data there too
            unique = referenced == {target}
            alternate = self._alternate_key(column, target, key_type, unique)
        elif not self._is_key(target, key_type):
            return None
        entity = self._names.of_table(target.table) if alternate is None else alternate.rows.entity
        as_text = is_text_uuid(column.type)
        return KeyColumn(str(column), entity, key_type, as_text, alternate=alternate)

    def _is_key(self, target: Column[Any], key_type: KeyType) -> bool:
        """Return whether a column, alone or as a UUID in a composite key, identifies rows.

        An integer in a composite primary key, such as the number of an order line, is data.
        """
        is_single = len(primary_key(target.table)) == 1
        return is_in_primary_key(target) and (is_single or key_type == "uuid")

    def _alternate_key(
        self, column: Column[Any], target: Column[Any], key_type: KeyType | None, unique: bool
    ) -> AlternateKey:
        """Return the alternate key whose values a column holds.

        Raises:
            KeyColumnError: its values do not each identify one row that has a ref.
        """
        primary = primary_key(target.table)
        rows = self.of(primary[0]) if len(primary) == 1 else None  # type: ignore[arg-type]
        same_type = key_type_of(target.type) == key_type
        if rows is None or rows.alternate is not None or rows.array or not (unique and same_type):
            raise KeyColumnError(
                f"foreign key {column} references {target}, which is not the primary key, and its "
                "values do not each identify one row that has a ref",
                'declare the column with info={"ref": None} to leave its values as they are',
            )
        values = KeyColumn(
            str(target), rows.entity, cast(KeyType, key_type), is_text_uuid(target.type)
        )
        space = f"{rows.entity} by {target}"  # cannot be the name of an entity: it has spaces
        known = self.alternates.get(space)
        if known is None or not known.is_alive:
            columns = ref(target), ref(cast("Column[Any]", primary[0]))
            known = self.alternates[space] = AlternateKey(space, values, rows, columns)
        return known

    def _derive_declared(self, column: Column[Any]) -> KeyColumn | None:
        """Read `info={"ref": ...}`: `None`, a mapped class, or `"table.column"`."""
        declared = column.info["ref"]
        if declared is None or isinstance(column.type, JSON):
            return None
        type_ = item_type(column.type)
        key_type = key_type_of(type_)
        if key_type is None:
            raise KeyColumnError(
                f"column {column} is declared to hold keys and has the type {column.type!r}",
                "give it a UUID, integer or string type, or an array of one",
            )
        table = self._declared_table(column, declared)
        target = column_named(table, declared) if isinstance(declared, str) else None
        alternate = None
        if target is not None and not is_in_primary_key(target):
            alternate = self._alternate_key(column, target, key_type, is_unique(target))
        entity = self._names.of_table(table) if alternate is None else alternate.rows.entity
        array = isinstance(column.type, ARRAY)
        return KeyColumn(str(column), entity, key_type, is_text_uuid(type_), array, alternate)

    def _declared_table(self, column: Column[Any], declared: Any) -> Table:
        if not isinstance(declared, str):
            return cast(Table, key_table(inspect(declared).mapper))
        table = column.table.metadata.tables.get(declared.rpartition(".")[0])
        if table is None:
            raise KeyColumnError(
                f"column {column} declares keys of {declared!r}, which is not a column of its "
                "metadata",
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
