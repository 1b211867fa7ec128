"""Key columns: which column holds keys of which entity; entity names, foreign keys, labels.

A column that holds keys: the SQL types that can, and what may stand in one attribute of it.

A `KeyColumn` is what all translation goes by: the entity whose keys the column holds, and what
becomes of one value on its way in and out. An attribute holds a key, a list of keys in an array
column, text that waits for its key, or an expression. Pure.

What entities are called: one name for each table whose keys become refs.

A table comes in, the name of its entity goes out: the snake_case name of the class mapped to it,
or what the class or the policy says instead; for a table that no class maps, the table's name in
the singular. Two tables with one name are refused when either is first used.

What each column of a table holds: keys of which entity, or plain data.

    product.id                        primary key             KeyColumn of "product"
    order_line.product_id             foreign key to it       KeyColumn of "product"
    order_line.sku                    references no key       an alternate key of "product"
    event.subject, info={"ref": ...}  declared                KeyColumn of what it says
    product.price                     none of these           None

A declaration comes before the foreign key, and that before the primary key. What the policy
excludes, or has another type than its entity's keys, is data. Each column is read once. Pure.

What people call a row: a line of text beside its ref, such as `Butter Chicken`.

Where it is, the class says (`__ref_label__`), or the policy (`RefPolicy.labels`): the name of an
attribute, or a function of the instance. Attributes as they are loaded come in; a short line of
text goes out, without keys and without control characters, or `None` where it is not known.

Nothing is loaded for a label: a function is given, in place of the instance, a view of what is
loaded already, which has neither keys nor methods. Labels are text of the application's users,
hence to be shown, never to be obeyed.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeGuard, cast
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from sqlalchemy import (
    ARRAY,
    JSON,
    Column,
    ColumnElement,
    Integer,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
    inspect,
)
from sqlalchemy.exc import NoReferenceError
from sqlalchemy.orm import ColumnProperty, Mapper, QueryableAttribute
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.errors import EntityNameError, KeyColumnError, LabelError
from alfred_refs.mapping.keys import (
    KEY,
    EntityKey,
    Key,
    KeyType,
    RefPolicy,
    head,
    is_entity_name,
    scrub,
)

# values of JSON that are neither UUIDs nor texts
_NO_KEYS = frozenset((bool, int, float, Decimal, list, dict))


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that holds keys.

    Attributes:
        name: `table.column`, for messages.
        entity: the entity that its values name.
        key_type: what its values are underneath.
        as_text: whether the application sees its UUIDs as text (`Uuid(as_uuid=False)`).
        array: whether each value is a list of keys.
        by: the unique column whose values it has in place of primary keys; `None` for those.
    """

    name: str
    entity: str
    key_type: KeyType
    as_text: bool = False
    array: bool = False
    by: AlternateKey | None = None

    @property
    def space(self) -> str:
        """What its keys are told apart by: an entity, or an alternate key of one."""
        return self.entity if self.by is None else self.by.space

    @property
    def has_uuids(self) -> bool:
        """Whether each value is a `uuid.UUID`, and the primary key of a row."""
        plain = not self.as_text and not self.array and self.by is None
        return self.key_type == "uuid" and plain

    def holds(self, value: Any) -> bool:
        """Tell whether a value is a key as this column has them."""
        if self.as_text or self.key_type == "string":
            return isinstance(value, str)
        return isinstance(value, uuid.UUID if self.key_type == "uuid" else int)

    def text_of(self, value: Any) -> str | None:
        """Return the text that is to be a ref, `None` of what is none.

        What a model may write where no key can be meant, such as the number of a ref, is such a
        text too: it names nothing, and that is told as of any other.
        """
        if isinstance(value, str):
            return value
        return str(value) if type(value) in _NO_KEYS and self.key_type != "integer" else None

    def token(self, value: Any) -> Any:
        """Return what a `RefCache` looks the value's key up by."""
        if self.key_type == "uuid":
            return uuid.UUID(value).int if self.as_text else value.int
        return value

    def to_key(self, value: Any) -> Key:
        """Return the key that a value of this column stands for."""
        return uuid.UUID(value) if self.as_text else value

    def from_key(self, key: Key) -> Any:
        """Return the key as this column's own Python type."""
        return str(key) if self.as_text else key


@dataclass(frozen=True, slots=True, eq=False)
class AlternateKey:
    """A unique column that foreign keys reference in place of the primary key.

    Attributes:
        space: what its values are told apart by; no entity has such a name.
        values: what it holds, as a key column of its own would.
        rows: what the primary key's column holds.
        columns: the unique column and the primary key's, which are not kept alive by this.
    """

    space: str
    values: KeyColumn
    rows: KeyColumn
    columns: tuple[ref[Column[Any]], ref[Column[Any]]]

    @property
    def is_there(self) -> bool:
        """Whether the application has not dropped the table."""
        return self.columns[0]() is not None

    @property
    def column(self) -> Column[Any]:
        """The unique column."""
        return cast("Column[Any]", self.columns[0]())

    @property
    def primary(self) -> Column[Any]:
        """The primary key's column."""
        return cast("Column[Any]", self.columns[1]())


def key_type_of(type_: TypeEngine[Any]) -> KeyType | None:
    """Return the type of key that a column of this SQL type can hold, `None` for no key at all."""
    type_ = undecorated_type(type_)
    if isinstance(type_, Uuid) or python_type_of(type_) is uuid.UUID:
        return "uuid"
    if isinstance(type_, Integer) or python_type_of(type_) is int:
        return "integer"
    if isinstance(type_, String) or python_type_of(type_) is str:
        return "string"
    return None


def python_type_of(type_: TypeEngine[Any]) -> type[Any] | None:
    """Return the type of a column's values in Python, `None` where its SQL type does not say."""
    try:
        return type_.python_type
    except NotImplementedError:  # SQLAlchemy's answer for a type without one
        return None


def item_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the SQL type of an array's items; any other type stands for itself."""
    return type_.item_type if isinstance(type_, ARRAY) else type_


def is_ambiguous(type_: TypeEngine[Any]) -> bool:
    """Tell whether a custom type changes values without saying what they are in Python.

    A `TypeDecorator` has the `python_type` of what it decorates unless it has one of its own.
    """
    if not isinstance(type_, TypeDecorator):
        return False
    defined = {name for class_ in _own_classes(type_) for name in vars(class_)}
    return "process_result_value" in defined and "python_type" not in defined


def _own_classes(type_: TypeDecorator[Any]) -> list[type[Any]]:
    classes = list(type(type_).__mro__)
    return classes[: classes.index(TypeDecorator)]


def is_text_uuid(type_: TypeEngine[Any]) -> bool:
    """Tell whether a column of this SQL type shows its UUIDs as text."""
    type_ = undecorated_type(type_)
    return isinstance(type_, Uuid) and not type_.as_uuid


def undecorated_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return what a custom type decorates, where it changes nothing of the values."""
    while isinstance(type_, TypeDecorator):
        defined = {name for class_ in _own_classes(type_) for name in vars(class_)}
        if not defined.isdisjoint(("process_result_value", "python_type")):
            break
        type_ = type_.impl_instance
    return type_


def items_of(value: Any) -> Iterator[Any]:
    """Yield the elements of an array, which may have several dimensions."""
    for item in value:
        if isinstance(item, list | tuple):
            yield from items_of(item)
        else:
            yield item


def _values_in(column: KeyColumn, value: Any) -> Iterable[Any]:
    if not column.array:
        return (value,)
    return items_of(value) if isinstance(value, list | tuple | set) else ()


def texts_in(column: KeyColumn, value: Any) -> list[str]:
    """Return the texts in a value: refs, where the program has set it."""
    items = _values_in(column, value)
    return [text for item in items if (text := column.text_of(item)) is not None]


def keys_in(column: KeyColumn, value: Any) -> list[EntityKey]:
    """Return the keys in a value: none in NULL, or in an expression that the flush will send."""
    items = filter(column.holds, _values_in(column, value))
    return [(column.space, column.to_key(item)) for item in items]


def with_keys(column: KeyColumn, value: Any, keys: Mapping[tuple[str, str | None], Key]) -> Any:
    """Return a value with keys, as the column has them, in place of its texts.

    Args:
        column: what holds the value.
        value: anything that a key attribute may be set to.
        keys: what the texts resolve to, by text and the column's `space`.
    """
    if not texts_in(column, value):
        return value

    def swapped(item: Any) -> Any:
        if column.array and isinstance(item, list | tuple | set):
            return [swapped(inner) for inner in item]
        text = column.text_of(item)
        return item if text is None else column.from_key(keys[text, column.space])

    return swapped(value)


_MALFORMED = "is not lower-case snake_case, starts with 'gen_' or ends in '_' and digits"
_NAME_REMEDY = "set __ref_name__ on the class, or RefPolicy(names={...})"


class EntityNames:
    """The names of the entities of one application, under one policy.

    A class is met with all classes of its declarative base, so that a clash is found at the first
    use of any of them and does not depend on which comes first.
    """

    def __init__(self, policy: RefPolicy) -> None:
        self._given = policy.names
        # a table that the application drops is forgotten, and its name is free
        self._names: WeakKeyDictionary[Table, str] = WeakKeyDictionary()
        self._tables: WeakValueDictionary[str, Table] = WeakValueDictionary()
        self._lock = threading.RLock()

    def check_name(self, name: str) -> str:
        """Return a name that refs can be made of.

        Raises:
            EntityNameError: refs of this name could not be told from others.
        """
        if (wrong := _name_fault(name)) is not None:
            raise EntityNameError(f"{name!r} {wrong}", _NAME_REMEDY)
        return name

    def of_table(self, table: Table) -> str:
        """Return the name of a table's entity.

        Raises:
            EntityNameError: two tables have the name, it is malformed, or there is none.
        """
        known = self._names.get(table)
        if known is None:
            with self._lock:
                self._meet_all(table)
                known = self._names[table]
        return known

    def has(self, table: Table) -> bool:
        """Tell whether a table's entity has a name that need not be made from the table's."""
        said = self._given_to(table.fullname) is not None
        return said or table in self._names or sqla.mapper_of_table(table) is not None

    def table_of(self, name: str) -> Table | None:
        """Return a table of the entity, if one has been met."""
        return self._tables.get(name)

    def found_table_of(self, name: str) -> Table | None:
        """Return a table of the entity: that of a class of this process, met or not.

        Raises:
            EntityNameError: none has been met, and classes of several bases may be meant.
        """
        if name not in self._tables:
            found = [
                mapper.local_table
                for mapper in sqla.mappers()
                if isinstance(mapper.local_table, Table)
                and self._name_of_class(mapper, mapper.local_table) == name
            ]
            described = {_key_space(table): _describe_table(table) for table in found}
            if len(described) > 1:
                one, other, *_ = sorted(described.values())
                raise _clash(one, other, name)
            if found:
                with suppress(EntityNameError):  # whoever uses the class is told
                    self.of_table(found[0])
        return self._tables.get(name)

    def _meet_all(self, table: Table) -> None:
        mapper = sqla.mapper_of_table(table)
        if mapper is None:
            given = self._given_to(table.fullname)
            self._take(table, singular(table.name) if given is None else given)
            return
        before = WeakKeyDictionary(self._names), WeakValueDictionary(self._tables)
        try:
            for other in sorted(sqla.mappers_of(mapper.registry), key=_class_name):
                if isinstance(other.local_table, Table):
                    self._take(other.local_table, self._name_of_class(other, other.local_table))
        except EntityNameError:  # and so it is the next time
            self._names, self._tables = before
            raise

    def _name_of_class(self, mapper: Mapper[Any], table: Table) -> str:
        from pydantic.alias_generators import to_snake  # noqa: PLC0415  # slow to import

        class_ = root_of(mapper).class_
        given = self._given_to(class_, table.fullname)
        said = class_.__dict__.get("__ref_name__", to_snake(class_.__name__))
        return said if given is None else given

    def _given_to(self, *items: type[Any] | str) -> str | None:
        return next((self._given[item] for item in items if item in self._given), None)

    def _take(self, table: Table, name: str) -> None:
        if self._names.get(table, name) != name:
            raise EntityNameError(
                f"table {table.fullname!r} is mapped by classes of two entity names, "
                f"{self._names[table]!r} and {name!r}",
                _NAME_REMEDY,
            )
        if (wrong := _name_fault(name)) is not None:
            raise EntityNameError(
                f"the entity name {name!r} of {_describe_table(table)} {wrong}", _NAME_REMEDY
            )
        taken = self._tables.setdefault(name, table)
        if _key_space(taken) is not _key_space(table) and not _is_reflection(taken, table):
            raise _clash(_describe_table(taken), _describe_table(table), name)
        self._names[table] = name


def _name_fault(name: str) -> str | None:
    """Return why no entity of the application can have a name; `None` if one can."""
    if name == KEY:
        return "is that of keys in texts"
    return None if is_entity_name(name) else _MALFORMED


def root_of(mapper: Mapper[Any]) -> Mapper[Any]:
    """Return the mapper whose keys identify the rows: the base, or a concrete class itself."""
    while mapper.inherits is not None and not mapper.concrete:
        mapper = mapper.inherits
    return mapper


def _clash(one: str, other: str, name: str) -> EntityNameError:
    return EntityNameError(f"{one} and {other} both have the entity name {name!r}", _NAME_REMEDY)


def _key_space(table: Table) -> object:
    """Return what the keys of a table are keys of: joined tables share the key of their base."""
    mapper = sqla.mapper_of_table(table)
    return table if mapper is None else root_of(mapper)


def _is_reflection(one: Table, other: Table) -> bool:
    """Tell whether two objects stand for one table of the database, at most one of them mapped."""
    mapped = [sqla.mapper_of_table(table) for table in (one, other)]
    return one.fullname == other.fullname and None in mapped


def _describe_table(table: Table) -> str:
    mapper = sqla.mapper_of_table(table)
    if mapper is None:
        return f"table {table.fullname!r}"
    return f"class {_class_name(root_of(mapper))!r}"


def _class_name(mapper: Mapper[Any]) -> str:
    return f"{mapper.class_.__module__}.{mapper.class_.__qualname__}"


def singular(name: str) -> str:
    """Return what one of several is called, by the `inflect` library.

    Raises:
        EntityNameError: the library is not installed.
    """
    try:
        import inflect  # noqa: PLC0415  # of an extra, and slow to import
    except ImportError:
        raise EntityNameError(
            f"table {name!r} has no mapped class to be named by",
            "install alfred-refs[tables], or name it by RefPolicy(names={...})",
        ) from None
    return inflect.engine().singular_noun(name) or name


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


def referenced_column(column: Column[Any]) -> Column[Any]:
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
            known = self._known[column] = self._derive_column(column)
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

    def _derive_column(self, column: Column[Any]) -> KeyColumn | None:
        if "ref" in column.info:
            return self._declared_source(column)
        target = referenced_column(column)
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

    def _declared_source(self, column: Column[Any]) -> KeyColumn | None:
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


LONGEST = 200
"""Characters of a label: more is no name."""

_LOOKED_AT = 10 * LONGEST  # an attribute may be a long text: of the rest nothing is shown

_LABEL_REMEDY = (
    "name an attribute with a plain column, or give a function of loaded attributes that returns "
    "text, in __ref_label__ or RefPolicy(labels={...})"
)


@dataclass(frozen=True, slots=True)
class Label:
    """Where the label of a class's rows is.

    Attributes:
        read: gives the value from attributes as they are loaded.
        attribute: the name of the one attribute that it is; `None` where a function makes it.
    """

    read: Callable[[Mapping[str, Any]], Any]
    attribute: str | None = None

    def of(self, loaded: Mapping[str, Any]) -> str | None:
        """Return the label of an instance, from its attributes by their names.

        Raises:
            LabelError: the class's function cannot be used.
        """
        text = self._text(loaded)
        return None if text is None else clean(text)

    def reads(self, loaded: Mapping[str, Any], label: str) -> bool:
        """Tell, without making it, that the label of an instance is this one."""
        return self.attribute is not None and loaded.get(self.attribute) == label

    def line(self, loaded: Mapping[str, Any]) -> str | None:
        """Return the same with the keys that are in it, for those who have names for them.

        Raises:
            LabelError: the class's function cannot be used.
        """
        text = self._text(loaded)
        return None if text is None else _short(_line(text))

    def _text(self, loaded: Mapping[str, Any]) -> str | None:
        value = self.read(loaded)
        return value if value is None or type(value) is str else str(value)


def clean(text: str) -> str | None:
    """Return a text as one short line without keys and control characters; nothing is `None`."""
    return _short(scrub(_line(text)))


def _line(text: str) -> str:
    line = " ".join(head(text, _LOOKED_AT).split())
    return line if line.isprintable() else "".join(filter(str.isprintable, line))


def _short(line: str) -> str | None:
    return (line if len(line) <= LONGEST else head(line, LONGEST - 1) + "…") or None


def label_of(mapper: Mapper[Any], given: Any) -> Label:
    """Return the label that a class or the policy gives.

    Raises:
        LabelError: it names no attribute, or one that may hold a key, or is no function.
    """
    if callable(given):
        return Label(partial(_call_label, given, mapper))
    if not isinstance(given, str):
        raise _label_error(mapper, f"is a {type(given).__name__}")
    attribute = mapper.column_attrs.get(given)
    if attribute is None:
        raise _label_error(mapper, f"is {given!r}, which is no attribute with a column")
    if _may_hold_keys(attribute):
        raise _label_error(mapper, f"is {given!r}, which may hold keys")
    return Label(lambda loaded: loaded.get(given), given)


def _call_label(
    function: Callable[[Any], Any], mapper: Mapper[Any], loaded: Mapping[str, Any]
) -> str | None:
    try:
        label = function(LoadedAttributes(mapper, loaded))
    except _NotLoadedError:
        return None
    except LabelError:
        raise
    except Exception as error:
        raise _label_error(mapper, f"is a function that raised {type(error).__name__}") from error
    if label is None or isinstance(label, str):
        return label
    raise _label_error(mapper, f"is a function that returned a {type(label).__name__}")


class _NotLoadedError(Exception):
    """What a label is made of is not loaded, so that the label is not known."""


class LoadedAttributes:
    """An instance as the function of a label sees it: attributes that are loaded, and no key.

    What a relationship has loaded is seen in the same way.
    """

    __slots__ = ("_loaded", "_mapper")

    def __init__(self, mapper: Mapper[Any], loaded: Mapping[str, Any]) -> None:
        self._mapper = mapper
        self._loaded = loaded

    def __getattr__(self, name: str) -> Any:
        attribute = self._mapper.attrs.get(name)
        if attribute is None:
            raise _label_error(
                self._mapper, f"is a function of {name!r}, which is no mapped attribute"
            )
        if isinstance(attribute, ColumnProperty) and _may_hold_keys(attribute):
            raise _label_error(self._mapper, f"is a function of {name!r}, which may hold keys")
        if name not in self._loaded:
            raise _NotLoadedError
        return _without_instances(self._loaded[name])


def _without_instances(value: Any) -> Any:
    """Return what a function may see of an attribute's value: no instance, which could load."""
    if isinstance(value, (list, tuple, set)):
        return [_without_instances(each) for each in value]
    if isinstance(value, LoadedAttributes):
        return value
    if sqla.is_instance(value):
        state = sqla.state_of(value)
        return LoadedAttributes(state.mapper, state.dict)
    if isinstance(value, Mapping) and any(map(sqla.is_instance, value.values())):
        raise _NotLoadedError
    return value


def _may_hold_keys(attribute: ColumnProperty[Any]) -> bool:
    return any(
        column.primary_key
        or bool(column.foreign_keys)
        or "ref" in getattr(column, "info", ())
        or key_type_of(column.type) == "uuid"
        for column in attribute.columns
    )


def _label_error(mapper: Mapper[Any], fact: str) -> LabelError:
    return LabelError(f"the label of class {mapper.class_.__qualname__!r} {fact}", _LABEL_REMEDY)
