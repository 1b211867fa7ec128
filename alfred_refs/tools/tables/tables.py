"""What a model may use: tables, their columns, and the relationships between them.

Mapped classes come in, with what is hidden or not to be written; `ToolTables` go out, by the
names that models use. What is not listed is refused in the words for what does not exist. Read
once, when the toolset is made.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from sqlalchemy import Column, Table, inspect
from sqlalchemy.orm import ColumnProperty, Mapper
from sqlalchemy.sql.selectable import AliasedReturnsRows

from alfred_refs.errors import SetupError
from alfred_refs.mapping.column_types import values_of
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.naming import root_of
from alfred_refs.owners import Ownership
from alfred_refs.tools.errors import unknown_table
from alfred_refs.tools.wire.documents import places_in

from .permits import (
    VERBS,
    Attributes,
    Verb,
    attribute_of,
    is_among,
    linked_with,
    permits_of,
)
from .table import ToolColumn, ToolTable


class ToolTables:
    """The tables of one toolset, by name.

    Args:
        models: mapped classes, or such by the name that models are to use.
        entities: what is known of the application's tables.
        read_only: classes that a model may only read, and attributes that it does not write.
        verbs: by class, what a model may do to rows; all of it where nothing is said.
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
        read_only: Iterable[Any] = (),
        verbs: Mapping[type[Any], Iterable[Verb]] | None = None,
        hidden: Iterable[Any] = (),
        ownership: Ownership | None = None,
    ) -> None:
        self._tables: dict[str, ToolTable] = {}
        named = _named(models)
        hidden_names = {attribute_of(each, "hidden") for each in hidden}
        permitted, fixed = permits_of([model for _, model in named], read_only, verbs or {})
        fixed.update(other for each in hidden_names for other in linked_with(*each))
        if ownership is not None:
            hidden_names |= _owners([model for _, model in named], entities, ownership)
        for name, model in named:
            if name in self._tables:
                raise SetupError(
                    f"classes {self._tables[name].model.__qualname__!r} and "
                    f"{model.__qualname__!r} are both table {name!r} to a model",
                    "give models by name: Toolset(models={'guests': Guest, ...})",
                )
            self._tables[name] = _table(
                name,
                model,
                entities,
                verbs=permitted.get(model, frozenset(VERBS)),
                fixed=fixed,
                hidden=hidden_names,
            )
        self._by_model = {table.model: table for table in self._tables.values()}
        for table in self._tables.values():
            _check_locked(table)
            self._connect(table, hidden_names)

    def __iter__(self) -> Any:
        return iter(self._tables.values())

    @property
    def names(self) -> list[str]:
        """What the tables are called."""
        return list(self._tables)

    @property
    def entities(self) -> set[str]:
        """What refs begin with that name rows of listed classes alone.

        Where the class at the root is not listed, a ref of its entity may name a row of any class.
        """
        roots = ((each, root_of(inspect(each.model).mapper).class_) for each in self)
        return {each.entity for each, root in roots if root in self._by_model}

    @cached_property
    def shown(self) -> frozenset[str]:
        """Entities whose refs a model may be shown: of listed classes, or of keys in columns."""
        columns = [column for table in self for column in table.columns.values()]
        keys = {column.key.entity for column in columns if column.key is not None}
        places = {entity for column in columns for entity in column.places.values()}
        return frozenset({table.entity for table in self} | keys | places)

    def named(self, name: str, verb: Verb | None = None) -> ToolTable:
        """Return the table of a name, whose rows are read, or have something else done to them.

        Raises:
            ToolError: there is none that a model may use, or that may not be done.
        """
        table = self._tables.get(name)
        if table is None:
            raise unknown_table(name, self.names)
        if verb is not None:
            table.check(verb)
        return table

    def of_model(self, model: type[Any]) -> ToolTable | None:
        """Return the table of a class, or of the nearest class it inherits from."""
        return next((self._by_model[c] for c in model.__mro__ if c in self._by_model), None)

    def of_entity(self, entity: str) -> ToolTable | None:
        """Return the table whose rows an entity's refs name."""
        return next((table for table in self if table.entity == entity), None)

    def _connect(self, table: ToolTable, hidden: Attributes) -> None:
        """Tell a table of those that its relationships lead to, and of those of its subclasses."""
        mapper: Mapper[Any] = inspect(table.model).mapper
        listed = {inspect(each.model).local_table for each in self}
        for relationship in mapper.relationships:
            target = self.of_model(relationship.mapper.class_)
            if target is not None and not is_among(mapper, relationship.key, hidden):
                table.targets[relationship.key] = target
            if relationship.secondary in listed:  # rows are written there
                table.fixed.add(relationship.key)
        for each in mapper.self_and_descendants:
            if each.class_ in self._by_model:
                table.kinds[each.class_] = self._by_model[each.class_]


def _named(
    models: Iterable[type[Any]] | Mapping[str, type[Any]],
) -> list[tuple[str, type[Any]]]:
    named = []
    for name, model in (
        models.items() if isinstance(models, Mapping) else ((None, each) for each in models)
    ):
        mapper: Any = inspect(model, raiseerr=False)
        if not isinstance(mapper, Mapper):
            raise SetupError(f"models lists {model!r}, which is not mapped", "give mapped classes")
        named.append((name or str(cast(Table, mapper.local_table).name), model))
    return named


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


def _check_locked(table: ToolTable) -> None:
    """Check that rows which may be changed can be locked: a union of tables cannot be.

    Raises:
        SetupError: they cannot.
    """
    changing = table.verbs & {"update", "delete"}
    if changing and isinstance(inspect(table.model).mapper.selectable, AliasedReturnsRows):
        raise SetupError(
            f"rows of {table.model.__qualname__!r} are read from several tables together, and "
            "cannot be locked to be changed",
            "map it by AbstractConcreteBase, or let a model read and create such rows only: "
            "verbs={...: ['create']}",
        )


def _check_identity(mapper: Mapper[Any]) -> None:
    """Check that refs can name the rows of a class, as far as the types of its key tell.

    Raises:
        SetupError: they cannot.
    """
    for column in mapper.primary_key:
        try:
            kind = column.type.python_type
        except NotImplementedError:  # the type does not say
            continue
        if not issubclass(kind, uuid.UUID | int | str) or kind is bool:
            raise SetupError(
                f"rows of {mapper.class_.__qualname__!r} are told apart by {column.key!r}, a "
                f"{kind.__name__}, and refs name rows by UUIDs, integers and texts",
                "leave the class out of models, or map it by another primary key",
            )


def _table(
    name: str,
    model: type[Any],
    entities: Entities,
    *,
    verbs: frozenset[Verb],
    fixed: Attributes,
    hidden: Attributes,
) -> ToolTable:
    mapper: Mapper[Any] = inspect(model).mapper
    _check_identity(mapper)
    keys = entities.of_class(model)
    identity = tuple(mapper.get_property_by_column(column).key for column in mapper.primary_key)
    attributes = sorted(mapper.column_attrs, key=lambda attribute: attribute.key not in identity)
    columns = {
        attribute.key: _column(
            attribute,
            mapper,
            entities,
            is_identity=attribute.key in identity,
            is_fixed=is_among(mapper, attribute.key, fixed),
        )
        for attribute in attributes
        if not is_among(mapper, attribute.key, hidden)
    }
    label = None if keys.label is None else keys.label.attribute
    if label is not None and is_among(mapper, label, hidden):
        raise SetupError(
            f"hidden lists {label!r} of {model.__qualname__!r}, by which its rows are called "
            "in answers and errors",
            "show it, or let the label be another: __ref_label__ or RefPolicy(labels={...})",
        )
    return ToolTable(
        name,
        model,
        keys,
        columns,
        identity,
        entities.name_of(model),
        verbs,
        {each.key for each in mapper.attrs if is_among(mapper, each.key, fixed)},
    )


def _column(
    attribute: ColumnProperty[Any],
    mapper: Mapper[Any],
    entities: Entities,
    *,
    is_identity: bool,
    is_fixed: bool,
) -> ToolColumn:
    keys = entities.of_class(mapper.class_)
    column, key = attribute.columns[0], keys.all.get(attribute.key)
    values = values_of(column.type, key)
    # what the database or the mapping makes is not for a model to give
    is_own = is_identity and keys.own is not None
    takes = not is_own and not is_fixed and _is_given(column, mapper)
    takes = takes and values.family != "opaque"
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
        places=places_in(column, entities),
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
