"""The tables that a model may use: verbs, columns, lists, names.

`ToolTables` has a `ToolTable` for each listed class and a `ToolColumn` for each attribute that is
not hidden. They are read from the mapping once, when a toolset is made. A hidden or unlisted table
or column is refused with the same message as a missing one.

>>> recipes = toolset.tables.by_name("recipes")
>>> [column.name for column in recipes.columns.values() if column.creatable]
['name', 'servings']
>>> recipes.columns["servings"].accept("four")
Traceback (most recent call last):
    ...
alfred_refs.tools.errors.ToolError: the value given for 'servings' does not fit; it takes ...
>>> lists_of(recipes)
['lines']
>>> list_by_name(recipes, "lines").levels[0].position
'position'

`permissions_of` reads the application's restrictions: verbs by class, and read-only attributes. If
a reference is read-only, so are its foreign key columns and the other relationships that write the
same secondary table.

A list can be edited by position (`lists_of`) if its table is listed and may be updated, and its
position is not read-only; the position may be hidden. Arrays and JSON can be edited where their
column can be updated.

Limits: rows whose primary key has lists, documents or values of the application's own classes
cannot be listed, nor can rows that are read from a union of tables and may be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, cast

from sqlalchemy import Column, ColumnElement, Select, Table, inspect, literal, select
from sqlalchemy.orm import MANYTOONE, ONETOMANY, ColumnProperty, Mapper, RelationshipProperty
from sqlalchemy.sql.selectable import AliasedReturnsRows

from alfred_refs import sqla
from alfred_refs.errors import ListError, SetupError
from alfred_refs.mapping import (
    ClassKeys,
    Entities,
    Key,
    KeyColumn,
    is_key_part,
    python_type_of,
    root_of,
    undecorated_type,
)
from alfred_refs.mapping.columns import UnfitValueError, Values, spells_document, values_of
from alfred_refs.owners import Ownership
from alfred_refs.positions.lists import DocumentLevel, Level, RowLevel, levels_of, list_names
from alfred_refs.session import Identity, check_init, refuse_pydantic_without_mixin
from alfred_refs.tools.errors import (
    ToolError,
    invalid_value,
    linked_elsewhere,
    read_only_table,
    unknown_column,
    unknown_list,
    unknown_table,
)
from alfred_refs.tools.serialization import (
    Places,
    QuotedText,
    key_number,
    map_document,
    places_in,
)

Verb = Literal["create", "update", "delete"]

VERBS: tuple[Verb, ...] = ("create", "update", "delete")
"""The verbs of a model, except reading."""

Attributes = set[tuple[Mapper[Any], str]]
"""Mapped attributes: the mapper that has each, and its name."""


def permissions_of(
    models: Collection[type[Any]],
    read_only: Iterable[Any],
    verbs: Mapping[type[Any], Iterable[Verb]],
) -> tuple[Mapping[type[Any], frozenset[Verb]], Attributes]:
    """Return the verbs that a model may use on each class, and the read-only attributes.

    Args:
        models: the classes that it may use.
        read_only: classes and attributes that it may only read.
        verbs: the verbs by class.

    Returns:
        the verbs by class, for restricted classes, and the attributes that are not writable.

    Raises:
        SetupError: an entry does not belong to the models, or a class is restricted in two ways.
    """
    listed = list(read_only)
    classes = [each for each in listed if isinstance(each, type)]
    for said, given in (("read_only", classes), ("verbs", verbs)):
        for other in given:
            if other not in models:
                raise SetupError(
                    f"{said} lists {other!r}, which is not among the models", "add it to models"
                )
    permitted = {model: _check_verbs(model, each) for model, each in verbs.items()}
    for model in classes:
        if permitted.setdefault(model, frozenset()):
            raise SetupError(
                f"class {model.__qualname__!r} is in read_only, and verbs gives it some",
                "say it in one of the two",
            )
    attributes = [attribute_of(e, "read_only") for e in listed if not isinstance(e, type)]
    for mapper, name in attributes:
        if not any(inspect(model).mapper.isa(mapper) for model in models):
            raise SetupError(
                f"read_only lists {name!r} of {mapper.class_.__qualname__!r}, which is not among "
                "the models",
                "add it to models",
            )
    return permitted, {each for one in attributes for each in _with_foreign_keys(*one)}


def attribute_of(attribute: Any, said: str) -> tuple[Mapper[Any], str]:
    """Return the mapper of an attribute, and the attribute's name.

    Args:
        attribute: a mapped attribute.
        said: the option that lists it, for the error.

    Raises:
        SetupError: it is not a mapped attribute.
    """
    try:
        return attribute.parent.mapper, attribute.key
    except AttributeError:
        raise SetupError(
            f"{said} lists {attribute!r}, which is not a mapped attribute",
            f"give attributes of the models: Toolset({said}=[Order.note])",
        ) from None


def is_listed(mapper: Mapper[Any], name: str, attributes: Attributes) -> bool:
    """Return whether an attribute is listed, on its class or on a base class."""
    return any((each, name) in attributes for each in mapper.iterate_to_root())


def sharing_secondary(mapper: Mapper[Any], name: str) -> Iterator[tuple[Mapper[Any], str]]:
    """Yield the relationships that share a relationship's secondary table."""
    relationship = mapper.relationships.get(name)
    if relationship is not None and relationship.secondary is not None:
        for other in mapper.registry.mappers:
            for each in other.relationships:
                if each.secondary is relationship.secondary:
                    yield other, each.key


def _check_verbs(model: type[Any], values: Iterable[Verb]) -> frozenset[Verb]:
    verbs = frozenset(values)
    if isinstance(values, str) or not verbs <= {*VERBS}:
        raise SetupError(
            f"verbs gives {values!r} to {model.__qualname__!r}",
            f"give a list of some of {', '.join(map(repr, VERBS))}",
        )
    return verbs


def _with_foreign_keys(mapper: Mapper[Any], name: str) -> Iterable[tuple[Mapper[Any], str]]:
    """Yield an attribute and the others that write the same values.

    For a many-to-one relationship these are its foreign key columns; for one with a secondary
    table, all relationships with that table.
    """
    yield mapper, name
    relationship = mapper.relationships.get(name)
    if relationship is not None and relationship.direction is MANYTOONE:
        for column in relationship.local_columns:
            yield mapper, mapper.get_property_by_column(column).key
    yield from sharing_secondary(mapper, name)


_ROWS = ("rows", "data", "totals")  # parts of answers and arguments that contain rows

ROW_REF = "_ref"
"""The field with the ref of a row whose primary key has several columns."""


# loader strategies that never load a relationship completely
_UNLOADED_STRATEGIES = ("dynamic", "write_only", "noload")

_MAX_STATEMENTS = 100  # cached for one table


@dataclass(frozen=True, eq=False)
class ToolColumn:
    """One attribute of a class that a model may use.

    Attributes:
        name: the name of the mapped attribute.
        values: the type of the values that it accepts and returns.
        key: the keys that it contains; `None` for data.
        shown: whether reads show it by default.
        creatable: whether a new row may have a value for it.
        updatable: whether it may be changed in an existing row.
        required: whether a new row must have a value for it.
        nullable: whether it may be null.
        own: whether it contains the row's own key, also as the key of a subclass's table.
        doc: its `doc`, or the column's comment.
        places: which integers in its documents are keys.
    """

    name: str
    values: Values
    key: KeyColumn | None
    shown: bool
    creatable: bool
    updatable: bool
    required: bool
    nullable: bool
    own: bool
    doc: str | None
    places: Places = field(default_factory=dict)

    def show(self, value: Any) -> Any:
        """Return a value of the column as JSON; see `document`."""
        json_value = None if value is None else self.values.show_one(value)
        return self.document(json_value) if self.values.family == "json" else json_value

    def document(self, value: Any) -> Any:
        """Return JSON of a column of documents, with `KeyNumber` for keys and `QuotedText`."""
        if self.places:
            value = map_document(value, self.places, key_number)
        return self.quoted(value)

    def quoted(self, value: Any) -> Any:
        """Return a document or an item of one, with a text that looks like one as `QuotedText`."""
        is_quoted = self.values.family == "json" and isinstance(value, str)
        return QuotedText(value) if is_quoted and spells_document(value) else value

    @cached_property
    def entity(self) -> str | None:
        """The entity of its refs; `None` for data and for alternate keys."""
        return None if self.key is None or self.key.alternate is not None else self.key.entity

    def accept(self, value: Any, *, new: bool = False) -> Any:
        """Return a JSON value as the column's Python value; refs stay text.

        Args:
            value: the model's value.
            new: whether it will be stored, not only compared.

        Raises:
            ToolError: the value does not fit.
        """
        return accept_value(
            self.values.accept_new if new else self.values.accept, self.name, value
        )


@dataclass(frozen=True, eq=False)
class LinkEnd:
    """One of the two rows that a row of an association table links.

    Attributes:
        table: the table of the row.
        columns: the attributes of the association table -> the referenced attributes.
        names: the relationships that contain the links, with their tables.
        is_writable: whether the model may change one of these.
    """

    table: ToolTable
    columns: Mapping[str, str]
    names: tuple[tuple[ToolTable, str], ...]
    is_writable: bool

    def exists(self, link: Any, *conditions: Any) -> ColumnElement[bool]:
        """Return the condition that the row exists and matches conditions on its class.

        Args:
            link: the class of the association table.
            conditions: conditions on the class of the row.
        """
        model = self.table.model
        pairs = (
            getattr(model, there) == getattr(link, here) for here, there in self.columns.items()
        )
        row = select(literal(1)).select_from(model).where(*pairs, *conditions)
        return row.correlate(inspect(link).local_table).exists()


@dataclass(frozen=True, eq=False)
class ToolTable:
    """One mapped class that a model may use.

    Attributes:
        name: the model's name for it.
        model: the class.
        keys: its key attributes.
        columns: the columns by name; primary key columns come first.
        identity: the names of the primary key's attributes.
        entity: the prefix of its refs; empty for an association table.
        verbs: the allowed verbs, except reading.
        fixed: the read-only attributes, including relationships.
        targets: the tables of related rows, by relationship.
        kinds: the table itself and the tables of its subclasses, by class.
        statements: cached statements, shared by all calls.
        ends: the two ends of an association table, whose rows have no refs of their own.
        links: the association tables of relationships, by name.
        own_parts: the UUIDs in a composite key that reference no row; they are hidden.
        generated: the `own_parts` without a default; new rows get random values.
    """

    name: str
    model: type[Any]
    keys: ClassKeys
    columns: Mapping[str, ToolColumn]
    identity: tuple[str, ...]
    entity: str
    verbs: frozenset[Verb]
    fixed: set[str] = field(default_factory=set)
    targets: dict[str, ToolTable] = field(default_factory=dict)
    kinds: dict[type[Any], ToolTable] = field(default_factory=dict)
    statements: dict[Hashable, Select[Any]] = field(default_factory=dict)
    ends: tuple[LinkEnd, ...] = ()
    links: dict[str, ToolTable] = field(default_factory=dict)
    own_parts: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()

    def has_own_part(self, columns: Iterable[Column[Any]]) -> bool:
        """Return whether one of the columns is among `own_parts`."""
        attributes = inspect(self.model).mapper.column_attrs
        parts = [column for name in self.own_parts for column in attributes[name].columns]
        return any(column is part for column in columns for part in parts)

    @property
    def read_only(self) -> bool:
        """Whether a model may only read it."""
        return not self.verbs

    def check(self, verb: Verb) -> None:
        """Check that a model may create, update or delete rows.

        Raises:
            ToolError: the verb is not allowed.
        """
        if verb not in self.verbs:
            raise read_only_table(self.name, [each for each in VERBS if each in self.verbs])

    @cached_property
    def own(self) -> str | None:
        """The column with each row's own ref; `None` if that is `ROW_REF`."""
        return self.identity[0] if self.keys.own_entity is not None else None

    @cached_property
    def row_ref(self) -> str | None:
        """`ROW_REF`, if that is the field with each row's own ref."""
        return ROW_REF if self.own is None and not self.ends else None

    def visible(self) -> list[ColumnElement[bool]]:
        """Return the conditions for visible rows: both ends of a link must be visible."""
        return [end.exists(self.model) for end in self.ends]

    @cached_property
    def ref_field(self) -> str:
        """The field by which a filter names rows of this table."""
        return self.own or ROW_REF

    @cached_property
    def database_names(self) -> list[str]:
        """The names of the database tables that hold the rows."""
        return [str(cast(Table, each).name) for each in inspect(self.model).mapper.tables]

    @cached_property
    def discriminator(self) -> str | None:
        """The discriminator attribute; `None` if there is only one class."""
        mapper: Mapper[Any] = inspect(self.model).mapper
        column = mapper.polymorphic_on
        if not isinstance(column, Column):
            return None
        return mapper.get_property_by_column(column).key

    @cached_property
    def fields(self) -> list[str]:
        """The names that a filter or a list of columns may use."""
        own = [] if self.row_ref is None else [self.row_ref]
        return [*own, *self.columns, *self.targets]

    @cached_property
    def includable(self) -> list[str]:
        """The relationships that may be nested in a row, without dynamic and write-only ones."""
        return [
            name
            for name in self.targets
            if self.relationship(name).lazy not in _UNLOADED_STRATEGIES
        ]

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The hidden attributes, including those of subclasses, and their label fields."""
        kinds = [self, *self.kinds.values()]
        names = {each.key for kind in kinds for each in inspect(kind.model).mapper.attrs}
        names.difference_update(*(kind.fields for kind in kinds))
        return frozenset(names | {f"_{each}_label{end}" for each in names for end in ("", "s")})

    def column(self, name: str) -> ToolColumn:
        """Return a column.

        Raises:
            ToolError: the column does not exist, or the model may not use it.
        """
        column = self.columns.get(name)
        if column is None:
            raise unknown_column(self.name, name, list(self.columns))
        return column

    def unwritable_column(self, name: str, writable: Iterable[str]) -> ToolError:
        """Return the error for a column that a model may not write, or that does not exist."""
        if name in self.links and self.links[name].verbs:
            return linked_elsewhere(self.name, name, self.links[name].name)
        return unknown_column(self.name, name, [*writable], is_read=name in self.fields)

    def key_parts(self, key: Key) -> list[Any]:
        """Return the key of a row as bound parameters, one for each primary key column.

        Empty if the key is incomplete, for example one column of several.
        """
        columns = cast("Sequence[Column[Any]]", inspect(self.model).mapper.primary_key)
        identity = Identity(columns, self.keys.identity)
        if not identity.fits(key):
            return []
        pairs = zip(columns, identity.values_of(key), strict=True)
        return [sqla.key_parameter(value, column.type) for column, value in pairs]

    def statement(self, name: Hashable, make: Callable[[], Select[Any]]) -> Select[Any]:
        """Return a cached statement, because building one is slow.

        Args:
            name: identifies it among the statements of the table.
            make: the function that builds it.
        """
        statement = self.statements.get(name)
        if statement is None:
            statement = make()
            # models choose columns freely, so the number of statements would be unbounded
            if len(self.statements) < _MAX_STATEMENTS:
                self.statements[name] = statement
        return statement

    def relationship(self, name: str) -> RelationshipProperty[Any]:
        """Return a relationship of the class."""
        relationship: RelationshipProperty[Any] = inspect(self.model).mapper.relationships[name]
        return relationship

    def is_list(self, name: str) -> bool:
        """Return whether a relationship is a collection."""
        return bool(self.relationship(name).uselist)

    def references(self) -> dict[str, list[str]]:
        """Return the foreign key attributes of each many-to-one relationship, by its name."""
        mapper = inspect(self.model).mapper
        return {
            each.key: [mapper.get_property_by_column(column).key for column in each.local_columns]
            for each in mapper.relationships
            if each.direction is MANYTOONE
        }

    def child_columns(self, name: str) -> dict[str, str]:
        """Return the columns of related rows that a one-to-many relationship writes.

        Relating an existing row changes these columns and so moves the row to another parent.
        Empty for other directions and for secondary tables.

        Returns:
            the attributes of the related class -> the attributes of this class that they copy.
        """
        relationship = self.relationship(name)
        if relationship.direction is not ONETOMANY:
            return {}
        theirs = sqla.attributes_of(relationship.mapper, relationship.remote_side)
        own = sqla.attributes_of(relationship.parent, relationship.local_columns)
        return {
            theirs.get(remote, ""): own.get(local, "")
            for local, remote in relationship.local_remote_pairs or ()
        }


def path_of(field: str, table: ToolTable | None) -> list[str]:
    """Split a path at its dots, except for dots in the names of columns and relationships.

    Args:
        field: names of relationships and of a column, with dots.
        table: the table where the path starts.
    """
    names, path = field.split("."), list[str]()
    while names:
        known = () if table is None else (*table.columns, *table.targets)
        lengths = range(len(names), 1, -1)
        length = next((n for n in lengths if ".".join(names[:n]) in known), 1)
        path.append(".".join(names[:length]))
        names = names[length:]
        table = None if table is None else table.targets.get(path[-1])
    return path


def accept_value(accept: Callable[[Any], Any], field: str, value: Any) -> Any:
    """Return a JSON value as a Python value, by the `accept` of its `Values`.

    Raises:
        ToolError: the value does not fit; the error names the field.
    """
    try:
        return accept(value)
    except UnfitValueError as error:
        raise invalid_value(field, error.expected) from None


@dataclass(frozen=True, slots=True)
class ToolList:
    """A list that a model may edit by position.

    Attributes:
        name: the attribute, or the path to an inner list, with dots.
        levels: the nested lists, the outermost first.
        tables: for each level, the table of the rows that contain the list; finally the table of
            the rows in the last level, if it contains rows.
    """

    name: str
    levels: Sequence[Level]
    tables: Sequence[ToolTable]

    def rows_at(self, depth: int) -> ToolTable | None:
        """Return the table of the rows in the list at a depth, from 0; `None` for other items."""
        within = depth < len(self.levels) and isinstance(self.levels[depth], RowLevel)
        return self.tables[depth + 1] if within else None

    @property
    def column(self) -> ToolColumn | None:
        """The column that contains the innermost lists; `None` for lists of rows."""
        last = self.levels[-1]
        return self.tables[-1].columns[last.column] if isinstance(last, DocumentLevel) else None

    @property
    def entity(self) -> str | None:
        """The entity of the integers in the innermost lists, if they are keys."""
        last, column = self.levels[-1], self.column
        if column is None or not isinstance(last, DocumentLevel):
            return None
        return column.places.get(last.names[-1] if last.names else None)


def lists_of(table: ToolTable) -> list[str]:
    """Return the attributes of a table that are editable lists."""
    names = []
    for name in list_names(inspect(table.model).mapper):
        try:
            if _tables(table, levels_of(table.model, name)) is not None:
                names.append(name)
        except ListError:  # many-to-many, or a position that is not an integer
            continue
    return names


def list_by_name(table: ToolTable, name: str) -> ToolList:
    """Return a list.

    Raises:
        ToolError: the list does not exist, or a model may not edit it.
    """
    try:
        levels = levels_of(table.model, name)
    except ListError:
        levels = ()
    tables = _tables(table, levels)
    if not levels or tables is None:
        raise unknown_list(table.name, name, lists_of(table))
    return ToolList(name, levels, tables)


def _tables(table: ToolTable, levels: Sequence[Level]) -> Sequence[ToolTable] | None:
    """Return the tables of a list's levels; `None` if one may not be edited."""
    tables = [table]
    for level in levels:
        if isinstance(level, DocumentLevel):
            column = table.columns.get(level.column)
            return tables if column is not None and _is_updated(table, column) else None
        target = table.targets.get(level.name)
        if target is None or target.model is not level.model or level.name in table.fixed:
            return None
        is_fixed = any(_is_read_only(each, level.position) for each in target.kinds.values())
        if is_fixed or "update" not in target.verbs:
            return None
        table = target
        tables.append(table)
    return tables


def _is_read_only(table: ToolTable, name: str) -> bool:
    """Return whether a column is visible but not writable."""
    column = table.columns.get(name)
    return name in table.fixed or not (column is None or column.updatable)


def _is_updated(table: ToolTable, column: ToolColumn) -> bool:
    return column.updatable and "update" in table.verbs


class ToolTables:
    """The tables of one toolset, by name.

    Args:
        models: mapped classes, or a mapping of names to classes.
        entities: the keys of the application's classes.
        read_only: classes and attributes that a model may only read.
        verbs: the verbs that a model may use, by class; all by default.
        hidden: mapped attributes that a model never sees.
        ownership: the owners of rows; their attributes are hidden too.
        watched: classes with read hooks. Association tables with such an end are left out, because
            their rows would show hidden rows.

    Attributes:
        has_documents: whether a table has a column of JSON.
        has_key_numbers: whether integers in documents are keys.

    Raises:
        SetupError: two classes have the same name, an entry is not a class or attribute of the
            models, or the ownership does not know a class.
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
        watched: Collection[type[Any]] = (),
    ) -> None:
        self._tables: dict[str, ToolTable] = {}
        self._of_tables: dict[Table, ToolTable | None] = {}
        pairs = _models_by_name(models)
        hidden_names = {attribute_of(each, "hidden") for each in hidden}
        permissions, fixed = permissions_of([model for _, model in pairs], read_only, verbs or {})
        fixed.update(other for each in hidden_names for other in sharing_secondary(*each))
        if ownership is not None:
            hidden_names |= _owner_attributes([model for _, model in pairs], entities, ownership)
        refused: list[SetupError] = []
        for name, model in pairs:
            if name in self._tables:
                raise SetupError(
                    f"classes {self._tables[name].model.__qualname__!r} and "
                    f"{model.__qualname__!r} are both table {name!r} to a model",
                    "give models by name: Toolset(models={'guests': Guest, ...})",
                )
            try:
                self._tables[name] = _table(
                    name,
                    model,
                    entities,
                    verbs=permissions.get(model, frozenset(VERBS)),
                    fixed=fixed,
                    hidden=hidden_names,
                )
            except SetupError as error:
                refused.append(error)
        _raise_all([*refused, *_shared_entities(self._tables.values())])
        self._by_model = {table.model: table for table in self._tables.values()}
        for table in self._tables.values():
            _check_lockable(table)
            self._connect(table, hidden_names)
        columns = [column for table in self for column in table.columns.values()]
        self.has_documents = any(column.values.family == "json" for column in columns)
        self.has_key_numbers = any(column.places for column in columns)
        for table in _association_tables(self, entities, ownership, watched):
            if table.name in self._tables:
                raise SetupError(
                    f"the association table {table.name!r} has the name of "
                    f"{self._tables[table.name].model.__qualname__!r}",
                    "give models by name: Toolset(models={'guests': Guest, ...})",
                )
            self._tables[table.name] = self._by_model[table.model] = table
            for of, name in (each for end in table.ends for each in end.names):
                of.links[name] = table

    def __iter__(self) -> Any:
        return iter(self._tables.values())

    @property
    def names(self) -> list[str]:
        """The names of the tables."""
        return list(self._tables)

    @property
    def entities(self) -> set[str]:
        """The entities whose refs only name rows of listed classes.

        If the base class of a hierarchy is not listed, a ref of its entity may name a row of any
        class.
        """
        roots = ((each, root_of(inspect(each.model).mapper).class_) for each in self)
        return {each.entity for each, root in roots if root in self._by_model and each.entity}

    def without_hidden(self, value: Any, table: ToolTable | None = None) -> Any:
        """Remove hidden attributes from JSON, such as an answer of another toolset.

        Args:
            value: JSON that may contain answers or arguments of tools: objects that name a table.
            table: the table of the rows, if known.
        """
        if isinstance(value, list | tuple):
            return [self.without_hidden(each, table) for each in value]
        if not isinstance(value, Mapping):
            return value
        if table is not None:
            return {
                name: self.without_hidden(each, table.targets.get(name))
                for name, each in value.items()
                if name not in table.hidden
            }
        named = value.get("table")
        table = self._tables.get(named) if isinstance(named, str) else None
        return {
            name: self.without_hidden(each, table if name in _ROWS else None)
            for name, each in value.items()
        }

    @cached_property
    def shown(self) -> frozenset[str]:
        """The entities whose refs a model may see: of listed classes, or of keys in columns."""
        columns = [column for table in self for column in table.columns.values()]
        keys = {column.key.entity for column in columns if column.key is not None}
        places = {entity for column in columns for entity in column.places.values()}
        return frozenset({table.entity for table in self if table.entity} | keys | places)

    def by_name(self, name: str, verb: Verb | None = None) -> ToolTable:
        """Return a table, and check that a verb may be used on it.

        Raises:
            ToolError: the table does not exist, or the verb is not allowed.
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

    def of_table(self, table: Table) -> ToolTable | None:
        """Return the tool table for a table of the database.

        A table of an unlisted base class has the tool table of the first listed subclass.
        """
        if table not in self._of_tables:
            mapped = {inspect(each.model).local_table: each for each in self}
            mapper = None if table in mapped else sqla.mapper_of_table(table)
            found = None if mapper is None else self.of_model(mapper.class_)
            below = (each for each in self if table in inspect(each.model).mapper.tables)
            self._of_tables[table] = mapped.get(table, found or next(below, None))
        return self._of_tables[table]

    @cached_property
    def database_tables(self) -> Mapping[str, Table]:
        """The database tables of the application, by name with schema."""
        tables = [table for each in self for table in inspect(each.model).mapper.tables]
        metadata = {id(t.metadata): t.metadata for t in tables if isinstance(t, Table)}
        return {t.fullname: t for each in metadata.values() for t in each.tables.values()}

    def of_entity(self, entity: str) -> ToolTable | None:
        """Return the table of an entity."""
        return next((table for table in self if table.entity == entity), None)

    def _connect(self, table: ToolTable, hidden: Attributes) -> None:
        """Fill in the target tables of a table's relationships, and its subclasses' tables."""
        mapper: Mapper[Any] = inspect(table.model).mapper
        listed_tables = {inspect(each.model).local_table for each in self}
        for relationship in mapper.relationships:
            target = self.of_model(relationship.mapper.class_)
            if target is not None and not is_listed(mapper, relationship.key, hidden):
                table.targets[relationship.key] = target
            if (
                relationship.secondary in listed_tables
            ):  # a listed secondary table is written directly
                table.fixed.add(relationship.key)
        for each in mapper.self_and_descendants:
            if each.class_ in self._by_model:
                table.kinds[each.class_] = self._by_model[each.class_]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a relationship with a secondary table.

    Attributes:
        table: the table of the rows at that side.
        name: the relationship, if the class at that side has it.
        columns: columns of the secondary table -> the referenced columns.
        is_writable: whether the model may change the relationship.
    """

    table: ToolTable
    name: str | None
    columns: Mapping[Any, Any]
    is_writable: bool


def _is_related(one: type[Any], other: type[Any]) -> bool:
    """Return whether two classes are equal, or one inherits from the other."""
    return issubclass(one, other) or issubclass(other, one)


_ENDS = 2


def _sides(table: ToolTable, name: str) -> Iterator[_Side]:
    relationship = table.relationship(name)
    is_writable = "update" in table.verbs and name not in table.fixed
    near = {there: here for here, there in relationship.synchronize_pairs}
    far = {there: here for here, there in relationship.secondary_synchronize_pairs or ()}
    yield _Side(table, name, near, is_writable)
    yield _Side(table.targets[name], None, far, is_writable=False)


def _association_tables(
    tables: ToolTables,
    entities: Entities,
    ownership: Ownership | None,
    watched: Collection[type[Any]],
) -> list[ToolTable]:
    """Return the tables of many-to-many relationships between listed classes.

    A table with a mapped class is left out, because the application may list the class. So is a
    table that a session with an owner cannot read.
    """
    sides: dict[Table, dict[frozenset[Any], list[_Side]]] = {}
    for table in tables:
        for name in table.targets:
            relationship = table.relationship(name)
            secondary = relationship.secondary
            if isinstance(secondary, Table) and not relationship.viewonly:
                for side in _sides(table, name):
                    of_table = sides.setdefault(secondary, {})
                    of_table.setdefault(frozenset(side.columns), []).append(side)
    found = []
    for secondary, of_table in sides.items():
        every = [side for same in of_table.values() for side in same]
        is_offered = (
            len(of_table) == _ENDS  # otherwise several relationships share parts of the table
            and sqla.mapper_of_table(secondary) is None
            and (ownership is None or ownership.knows_table(secondary))
            and not any(_is_related(side.table.model, each) for side in every for each in watched)
            and all(entities.of_column(column) for side in every for column in side.columns)
        )
        if is_offered:
            found.append(_association_table(secondary, [*of_table.values()], entities))
    return found


def _association_table(
    secondary: Table, sides: Sequence[Sequence[_Side]], entities: Entities
) -> ToolTable:
    key = [column for same in sides for column in same[0].columns]
    model = sqla.association_class(secondary, key)
    is_writable = any(side.is_writable for same in sides for side in same)
    verbs: frozenset[Verb] = frozenset({"create", "delete"} if is_writable else ())
    table = _table(str(secondary.name), model, entities, verbs=verbs, fixed=set(), hidden=set())
    ends = tuple(_end(same, inspect(model).mapper) for same in sides)
    return replace(table, ends=ends)


def _end(sides: Sequence[_Side], mapper: Mapper[Any]) -> LinkEnd:
    """Return the end of links that several relationships share."""
    # the base class, if subclasses have such relationships too
    side = min(sides, key=lambda each: len([*inspect(each.table.model).mapper.iterate_to_root()]))
    here = sqla.attributes_of(mapper, side.columns)
    there = sqla.attributes_of(inspect(side.table.model).mapper, side.columns.values())
    return LinkEnd(
        side.table,
        {here[column]: there[other] for column, other in side.columns.items()},
        tuple((each.table, each.name) for each in sides if each.name is not None),
        any(each.is_writable for each in sides),
    )


def _raise_all(errors: Sequence[SetupError]) -> None:
    """Raise the errors of several classes as one error.

    Raises:
        SetupError: `errors` is not empty; a single error is raised unchanged.
    """
    texts = dict.fromkeys(map(str, errors))  # a duplicate name is an error of both classes
    if len(texts) == 1:
        raise errors[0]
    if errors:
        lines = "".join(f"\n- {text}" for text in texts)
        raise SetupError(f"{len(texts)} classes cannot be used:{lines}\n", "correct each")


def _models_by_name(
    models: Iterable[type[Any]] | Mapping[str, type[Any]],
) -> list[tuple[str, type[Any]]]:
    pairs = []
    for name, model in (
        models.items() if isinstance(models, Mapping) else ((None, each) for each in models)
    ):
        mapper: Any = inspect(model, raiseerr=False)
        if not isinstance(mapper, Mapper):
            raise SetupError(f"models lists {model!r}, which is not mapped", "give mapped classes")
        of_table = getattr(mapper.local_table, "name", None)
        if not (name or of_table):
            raise SetupError(
                f"class {model.__qualname__!r} is mapped to a join, which has no name",
                "name it: Toolset(models={'name': Class, ...})",
            )
        pairs.append((name or str(of_table), model))
    return pairs


def _shared_entities(tables: Iterable[ToolTable]) -> Iterator[SetupError]:
    """Yield an error for each class on a join or SELECT that has refs of another class."""
    by_entity: dict[str, list[Mapper[Any]]] = {}
    for table in tables:
        by_entity.setdefault(table.entity, []).append(root_of(inspect(table.model).mapper))
    for entity, mappers in by_entity.items():
        others = [each for each in mappers if isinstance(each.local_table, Table)]
        for mapper in dict.fromkeys(mappers):
            if entity and others and mapper not in others:
                yield SetupError(
                    f"class {mapper.class_.__qualname__!r} is mapped to a join or a SELECT and "
                    f"shares refs such as '{entity}_1' with {others[0].class_.__qualname__!r}, so "
                    "that a ref does not name the table of its row",
                    "list one of them, or create a view and map it as a Table of its own",
                )


def _owner_attributes(
    models: Iterable[type[Any]], entities: Entities, ownership: Ownership
) -> set[tuple[Mapper[Any], str]]:
    """Return the attributes that contain the owner, except keys that name the rows."""
    attributes = set()
    for model in models:
        if not ownership.knows(model):
            raise SetupError(
                f"class {model.__qualname__!r} is in the toolset and unknown to its owner's rules",
                "say in the Ownership how its rows are owned, or list it in open=",
            )
        name = ownership.attribute(model)
        keys = entities.of_class(model)
        if name is not None and (name not in keys.primary or keys.own_entity is None):
            attributes.add((inspect(model).mapper, name))
    return attributes


def _check_lockable(table: ToolTable) -> None:
    """Check that rows that may be changed can be locked, unlike rows of a UNION.

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
    """Check that refs can name the rows of a class, by the types of its primary key.

    Raises:
        SetupError: they cannot.
    """
    for column in mapper.primary_key:
        kind = python_type_of(undecorated_type(column.type))
        if kind is None:  # the type does not declare one
            continue
        if not is_key_part(kind):
            raise SetupError(
                f"rows of {mapper.class_.__qualname__!r} are told apart by {column.key!r}, a "
                f"{kind.__name__}, by which refs cannot name rows",
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
    if "create" in verbs and not sqla.is_association(mapper):
        check_init(model)
    keys = entities.of_class(model)
    refuse_pydantic_without_mixin(model, keys.all)
    identity = tuple(mapper.get_property_by_column(column).key for column in mapper.primary_key)
    repeated = {n: c for n, c in _inherited_attributes(mapper).items() if n not in identity}
    attributes = sorted(keys.attributes.values(), key=lambda each: each.key not in identity)
    parts = _own_parts(mapper, keys, repeated)
    hidden = {*hidden, *((mapper, name) for name in parts)}
    columns = {
        attribute.key: _column(
            attribute,
            mapper,
            entities,
            is_identity=attribute.key in identity,
            is_repeated=attribute.key in repeated,
            is_fixed=is_listed(mapper, attribute.key, fixed),
        )
        for attribute in attributes
        if not is_listed(mapper, attribute.key, hidden)
    }
    named_by = set() if keys.label is None else keys.label.attributes(mapper)
    kept_back = sorted(name for name in named_by if is_listed(mapper, name, hidden))
    if kept_back:
        raise SetupError(
            f"hidden lists {kept_back[0]!r} of {model.__qualname__!r}, of which the label of its "
            "rows is made",
            "show it, or choose another label: __ref_label__ or RefPolicy(labels={...})",
        )
    related = named_by & {*mapper.relationships.keys()}
    if related:
        raise SetupError(
            f"the label of {model.__qualname__!r} reads the relationship {min(related)!r}, and "
            "tools read only the columns of a row for its label",
            "read a column_property(select(...).scalar_subquery()) in place of it",
        )
    return ToolTable(
        name,
        model,
        keys,
        columns,
        identity,
        "" if sqla.is_association(mapper) else entities.name_of(model),
        verbs,
        {each.key for each in mapper.attrs if is_listed(mapper, each.key, fixed)},
        own_parts=(*parts,),
        generated=tuple(name for name in parts if not _has_default(parts[name])),
    )


def _own_parts(
    mapper: Mapper[Any], keys: ClassKeys, repeated: Mapping[str, Column[Any]]
) -> dict[str, Column[Any]]:
    """Return the UUIDs in a composite key that reference no row, by attribute.

    A ref names a row by its whole key. A ref of such a part would look like another row of the
    same table.

    Args:
        mapper: the mapper of the class.
        keys: the keys of the class.
        repeated: the attributes of joined inheritance that repeat a key, with the base's columns.
    """
    if keys.own_entity is not None or sqla.is_association(mapper):
        return {}
    columns = {mapper.get_property_by_column(each).key: each for each in mapper.primary_key}
    return {
        name: column
        for name, column in {**columns, **repeated}.items()
        if name in keys.all
        and isinstance(column, Column)
        and not column.foreign_keys
        and "ref" not in column.info
    }


def _inherited_attributes(mapper: Mapper[Any]) -> dict[str, Column[Any]]:
    """Return the attributes whose values joined inheritance copies, with the columns of the base.

    These are keys of subclass tables. A flush writes them; setting another value would move half
    of the row.
    """
    equal = {
        column: other
        for each in mapper.iterate_to_root()
        if each.inherit_condition is not None
        for column, other in sqla.equalities_in(
            each.inherit_condition, cast(Table, each.local_table)
        )
    }
    names = sqla.attributes_of(mapper, equal)
    return {names[column]: _last(column, equal) for column in names}


def _last(column: Column[Any], equal: Mapping[Column[Any], Column[Any]]) -> Column[Any]:
    """Follow `equal` from a column to the base-most column that has the same value."""
    remaining = {**equal}
    while column in remaining:
        column = remaining.pop(column)
    return column


def _column(
    attribute: ColumnProperty[Any],
    mapper: Mapper[Any],
    entities: Entities,
    *,
    is_identity: bool,
    is_repeated: bool,
    is_fixed: bool,
) -> ToolColumn:
    keys = entities.of_class(mapper.class_)
    column, key = attribute.columns[0], keys.all.get(attribute.key)
    values = values_of(column.type, key)
    is_own = (is_identity or is_repeated) and keys.own_entity is not None
    # the model must not see generated values
    is_writable = not (is_own or is_repeated or is_fixed) and _is_application_value(column, mapper)
    is_writable = is_writable and values.family != "opaque"
    nullable = not isinstance(column, Column) or bool(column.nullable)
    if is_identity and sqla.is_association(mapper):
        nullable = False  # a link has two ends even if its table has no primary key
    return ToolColumn(
        attribute.key,
        values,
        key,
        shown=values.family != "opaque" and not attribute.deferred,
        creatable=is_writable,
        updatable=is_writable and not is_identity,
        required=is_writable and not nullable and not _has_default(column),
        nullable=nullable,
        own=is_own,
        doc=attribute.doc or (column.comment if isinstance(column, Column) else None),
        places=places_in(column, entities),
    )


def _is_application_value(column: Any, mapper: Mapper[Any]) -> bool:
    """Return whether the application, not the database or the mapper, writes a column."""
    if not isinstance(column, Column) or column.computed is not None:
        return False
    if column.identity is not None and column.identity.always:
        return False
    # the discriminator and the version counter
    return all(column is not each for each in (mapper.polymorphic_on, mapper.version_id_col))


def _has_default(column: Any) -> bool:
    """Return whether a column has a default for new rows."""
    defaults: Sequence[Any] = (column.default, column.server_default, column.identity)
    return any(each is not None for each in defaults) or (
        column.primary_key and column.autoincrement is True
    )
