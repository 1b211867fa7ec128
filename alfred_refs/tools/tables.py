"""What a model may use: tables, their columns, and the relationships between them.

Mapped classes come in, with what is hidden or read-only; `ToolTables` go out, by the names that
models use. What is not listed is refused in the words for what does not exist. Read once, when the
toolset is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import Column, Table, inspect
from sqlalchemy.orm import MANYTOONE, ColumnProperty, Mapper, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.columns import KeyColumn
from alfred_refs.entities import ClassKeys, Entities
from alfred_refs.errors import SetupError
from alfred_refs.json_values import UnfitValueError, Values, values_of
from alfred_refs.keys import Key
from alfred_refs.owners import Ownership

from .errors import (
    InvalidValueError,
    ReadOnlyTableError,
    UnknownColumnError,
    UnknownTableError,
)

ROW_REF = "_ref"
"""The field that has the ref of a row whose primary key is of several columns."""


# strategies of relationships that are never loaded as a whole
_UNLOADED = ("dynamic", "write_only", "noload")


@dataclass(frozen=True, slots=True, eq=False)
class ToolColumn:
    """One attribute of a class that a model may use.

    Attributes:
        name: of the mapped attribute.
        values: what it takes and gives.
        key: the keys it holds, `None` for data.
        shown: whether it is shown unless it is named.
        creatable: whether a new row may be given it.
        updatable: whether a row that is there may be given another one.
        required: whether a new row must be given it.
        nullable: whether it may be null.
        doc: what the mapping says of it.
    """

    name: str
    values: Values
    key: KeyColumn | None
    shown: bool
    creatable: bool
    updatable: bool
    required: bool
    nullable: bool
    doc: str | None

    @property
    def entity(self) -> str | None:
        """The entity of the refs that it takes; `None` for data and for alternate keys."""
        return None if self.key is None or self.key.by is not None else self.key.entity

    def accept(self, given: Any, *, new: bool = False) -> Any:
        """Return what a model gave as the column has it in Python; refs stay text.

        Args:
            given: a JSON value.
            new: whether it is to be stored, and not only compared.

        Raises:
            InvalidValueError: it does not fit.
        """
        return accepted(self.values.accept_new if new else self.values.accept, self.name, given)


@dataclass(frozen=True, slots=True, eq=False)
class ToolTable:
    """One mapped class that a model may use.

    Attributes:
        name: what the model calls it.
        model: the class.
        keys: its key attributes.
        columns: by name, those of the primary key first.
        identity: the names of the primary key's attributes.
        read_only: whether a model may read it only.
        targets: by the name of a relationship, the table of the related rows.
        entity: what the refs of its rows begin with.
    """

    name: str
    model: type[Any]
    keys: ClassKeys
    columns: Mapping[str, ToolColumn]
    identity: tuple[str, ...]
    entity: str
    read_only: bool
    targets: dict[str, ToolTable] = field(default_factory=dict)

    @property
    def own(self) -> str | None:
        """The column that has each row's own ref; `None` where that is `ROW_REF`."""
        return self.identity[0] if self.keys.own is not None else None

    @property
    def ref_field(self) -> str:
        """The field by which a filter names rows of this table."""
        return self.own or ROW_REF

    @property
    def database_names(self) -> list[str]:
        """What the database calls the tables that the rows are in."""
        return [str(cast(Table, each).name) for each in inspect(self.model).mapper.tables]

    @property
    def discriminator(self) -> str | None:
        """The attribute that says which class a row is of; `None` where there is one class."""
        mapper: Mapper[Any] = inspect(self.model).mapper
        column = mapper.polymorphic_on
        if not isinstance(column, Column):
            return None
        return mapper.get_property_by_column(column).key

    @property
    def fields(self) -> list[str]:
        """What a filter or a list of columns may name."""
        own = [] if self.own is not None else [ROW_REF]
        return [*own, *self.columns, *self.targets]

    @property
    def included(self) -> list[str]:
        """The relationships whose rows may be shown inside a row: not those too large to load."""
        return [name for name in self.targets if self.relationship(name).lazy not in _UNLOADED]

    def column(self, name: str) -> ToolColumn:
        """Return a column.

        Raises:
            UnknownColumnError: there is none that a model may use.
        """
        found = self.columns.get(name)
        if found is None:
            raise UnknownColumnError(self.name, name, self.fields)
        return found

    def parts_of(self, key: Key) -> list[Any]:
        """Return the key of a row as a statement takes it, column by column.

        Empty if it is a key of less than a row, such as one column of several.
        """
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != len(self.identity):
            return []
        columns = inspect(self.model).mapper.primary_key
        values = [
            part if held is None else held.from_key(part)
            for held, part in zip(self.keys.identity, parts, strict=True)
        ]
        return [sqla.key_parameter(v, c.type) for v, c in zip(values, columns, strict=True)]

    def relationship(self, name: str) -> RelationshipProperty[Any]:
        """Return a relationship that leads to a table which a model may use."""
        found: RelationshipProperty[Any] = inspect(self.model).mapper.relationships[name]
        return found

    def references(self) -> dict[str, list[str]]:
        """Return the columns in which a row refers to others, by the relationships to those."""
        mapper = inspect(self.model).mapper
        return {
            each.key: [mapper.get_property_by_column(column).key for column in each.local_columns]
            for each in mapper.relationships
            if each.direction is MANYTOONE
        }


def accepted(accept: Callable[[Any], Any], field: str, given: Any) -> Any:
    """Return what a model gave for a field, as `accept` of its `Values` returns it.

    Raises:
        InvalidValueError: it does not fit.
    """
    try:
        return accept(given)
    except UnfitValueError as error:
        raise InvalidValueError(field, error.wanted) from None


class ToolTables:
    """The tables of one toolset, by name.

    Args:
        models: mapped classes, or such by the name that models are to use.
        entities: what is known of the application's tables.
        read_only: classes that a model may only read.
        hidden: mapped attributes that a model never sees.
        ownership: whose rows are whose: the owner's attributes are hidden too.

    Raises:
        SetupError: two classes have one name, what is listed is no class or attribute of these, or
            the ownership does not know a class.
    """

    def __init__(
        self,
        models: Iterable[type[Any]] | Mapping[str, type[Any]],
        entities: Entities,
        *,
        read_only: Collection[type[Any]] = (),
        hidden: Iterable[Any] = (),
        ownership: Ownership | None = None,
    ) -> None:
        self._tables: dict[str, ToolTable] = {}
        named = _named(models)
        hidden_names = {_attribute_of(each) for each in hidden}
        if ownership is not None:
            hidden_names |= _owners([model for _, model in named], entities, ownership)
        for name, model in named:
            if name in self._tables:
                raise SetupError(
                    f"classes {self._tables[name].model.__qualname__!r} and "
                    f"{model.__qualname__!r} are both table {name!r} to a model",
                    "give models by name: Toolset(models={'guests': Guest, ...})",
                )
            self._tables[name] = _table(name, model, entities, model in read_only, hidden_names)
        self._by_model = {table.model: table for table in self._tables.values()}
        unknown = [model for model in read_only if model not in self._by_model]
        if unknown:
            raise SetupError(
                f"read_only lists {unknown[0]!r}, which is not among the models",
                "add it to models",
            )
        for table in self._tables.values():
            table.targets.update(self._targets(table, hidden_names))

    def __iter__(self) -> Any:
        return iter(self._tables.values())

    @property
    def names(self) -> list[str]:
        """What the tables are called."""
        return list(self._tables)

    def named(self, name: str, *, write: bool = False) -> ToolTable:
        """Return the table of a name.

        Raises:
            UnknownTableError: there is none that a model may use.
            ReadOnlyTableError: it is to be written, and may only be read.
        """
        table = self._tables.get(name)
        if table is None:
            raise UnknownTableError(name, self.names)
        if write and table.read_only:
            raise ReadOnlyTableError(name)
        return table

    def of_model(self, model: type[Any]) -> ToolTable | None:
        """Return the table of a class, or of the nearest class it inherits from."""
        return next((self._by_model[c] for c in model.__mro__ if c in self._by_model), None)

    def of_entity(self, entity: str) -> ToolTable | None:
        """Return the table whose rows an entity's refs name."""
        found = (table for table in self if table.entity == entity)
        return next(found, None)

    def _targets(
        self, table: ToolTable, hidden: Collection[tuple[Mapper[Any], str]]
    ) -> Mapping[str, ToolTable]:
        mapper: Mapper[Any] = inspect(table.model).mapper
        return {
            relationship.key: target
            for relationship in mapper.relationships
            if not _is_hidden(mapper, relationship.key, hidden)
            and (target := self.of_model(relationship.mapper.class_)) is not None
        }


def _named(
    models: Iterable[type[Any]] | Mapping[str, type[Any]],
) -> list[tuple[str, type[Any]]]:
    given = models.items() if isinstance(models, Mapping) else ((None, m) for m in models)
    mapped = ((name, model, _mapper_of(model)) for name, model in given)
    return [
        (name or str(cast(Table, mapper.local_table).name), model)
        for name, model, mapper in mapped
    ]


def _mapper_of(model: Any) -> Mapper[Any]:
    mapper = inspect(model, raiseerr=False)
    if not isinstance(mapper, Mapper):
        raise SetupError(f"models lists {model!r}, which is not mapped", "give mapped classes")
    return mapper


def _owners(
    models: Iterable[type[Any]], entities: Entities, ownership: Ownership
) -> set[tuple[Mapper[Any], str]]:
    """Return the attributes that have the owner, but for keys by which rows are named."""
    found = set()
    for model in models:
        if not ownership.knows(model):
            raise SetupError(
                f"class {model.__qualname__!r} is in the toolset and unknown to its owner's rules",
                "say in the Ownership how its rows are owned, or list it in open=",
            )
        name = ownership.attribute(model)
        keys = entities.of_class(model)
        if name is not None and (name not in keys.primary or keys.own is None):
            found.add((inspect(model).mapper, name))
    return found


def _attribute_of(attribute: Any) -> tuple[Mapper[Any], str]:
    try:
        return attribute.parent.mapper, attribute.key
    except AttributeError:
        raise SetupError(
            f"hidden lists {attribute!r}, which is no mapped attribute",
            "give attributes of the models: Toolset(hidden=[Recipe.embedding])",
        ) from None


def _is_hidden(
    mapper: Mapper[Any], name: str, hidden: Collection[tuple[Mapper[Any], str]]
) -> bool:
    """Tell whether an attribute is hidden, of the class or of one that it inherits from."""
    return any((each, name) in hidden for each in mapper.iterate_to_root())


def _table(
    name: str,
    model: type[Any],
    entities: Entities,
    read_only: bool,
    hidden: Collection[tuple[Mapper[Any], str]],
) -> ToolTable:
    mapper: Mapper[Any] = inspect(model).mapper
    keys = entities.of_class(model)
    identity = tuple(mapper.get_property_by_column(column).key for column in mapper.primary_key)
    attributes = sorted(mapper.column_attrs, key=lambda attribute: attribute.key not in identity)
    columns = {
        attribute.key: _column(attribute, mapper, keys, attribute.key in identity)
        for attribute in attributes
        if not _is_hidden(mapper, attribute.key, hidden)
    }
    label = None if keys.label is None else keys.label.attribute
    if label is not None and _is_hidden(mapper, label, hidden):
        raise SetupError(
            f"hidden lists {label!r} of {model.__qualname__!r}, by which its rows are called "
            "in answers and errors",
            "show it, or let the label be another: __ref_label__ or RefPolicy(labels={...})",
        )
    return ToolTable(
        name, model, keys, columns, identity, entities.name_of(model), read_only=read_only
    )


def _column(
    attribute: ColumnProperty[Any], mapper: Mapper[Any], keys: ClassKeys, is_identity: bool
) -> ToolColumn:
    column, key = attribute.columns[0], keys.all.get(attribute.key)
    values = values_of(column.type, key)
    # what the database or the mapping makes is not for a model to give
    is_own = is_identity and keys.own is not None
    takes = not is_own and _is_given(column, mapper) and values.family != "opaque"
    nullable = not isinstance(column, Column) or bool(column.nullable)
    return ToolColumn(
        attribute.key,
        values,
        key,
        shown=values.family != "opaque" and not attribute.deferred,
        creatable=takes,
        updatable=takes and not is_identity,
        required=takes and not nullable and not _is_made(column),
        nullable=nullable,
        doc=attribute.doc or (column.comment if isinstance(column, Column) else None),
    )


def _is_given(column: Any, mapper: Mapper[Any]) -> bool:
    """Tell whether a column's values are the application's to give."""
    if not isinstance(column, Column) or column.computed is not None:
        return False
    if column.identity is not None and column.identity.always:
        return False
    # what tells the class of a row, or its version
    return all(column is not each for each in (mapper.polymorphic_on, mapper.version_id_col))


def _is_made(column: Any) -> bool:
    """Tell whether a column has a value though a new row is given none."""
    made: Sequence[Any] = (column.default, column.server_default, column.identity)
    return any(each is not None for each in made) or (
        column.primary_key and column.autoincrement is True
    )
