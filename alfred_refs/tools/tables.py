"""A table as a model sees it: verbs, columns, lists, names.

A `ToolTable` has a `ToolColumn` for each attribute that is not hidden, and the relationships to
other listed tables. `catalog` reads them from the mapping.

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

A list can be edited by position (`lists_of`) if its table is listed and may be updated, and its
position is not read-only; the position may be hidden. Arrays and JSON can be edited where their
column can be updated.

Limits: `accept` checks the type of a value, not the database's constraints; see `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from sqlalchemy import Column, ColumnElement, Select, Table, inspect, literal, select
from sqlalchemy.orm import MANYTOONE, ONETOMANY, Mapper, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.errors import ListError, SetupError
from alfred_refs.mapping import ClassKeys, Key, KeyColumn, parse_ref
from alfred_refs.mapping.columns import UnfitValueError, Values, spells_document
from alfred_refs.positions.lists import DocumentLevel, Level, RowLevel, levels_of, list_names
from alfred_refs.session import Identity
from alfred_refs.tools.errors import (
    ToolError,
    invalid_value,
    linked_elsewhere,
    read_only_table,
    unknown_column,
    unknown_list,
)
from alfred_refs.tools.serialization import Places, QuotedText, key_number, map_document

Verb = Literal["create", "update", "delete"]

VERBS: tuple[Verb, ...] = ("create", "update", "delete")
"""The verbs of a model, except reading."""

Attributes = set[tuple[Mapper[Any], str]]
"""Mapped attributes: the mapper that has each, and its name."""


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
    def creatable(self) -> dict[str, ToolColumn]:
        """The columns that a model may set in new rows, by name."""
        return {column.name: column for column in self.columns.values() if column.creatable}

    @cached_property
    def updatable(self) -> dict[str, ToolColumn]:
        """The columns that a model may change, by name."""
        return {column.name: column for column in self.columns.values() if column.updatable}

    def primary_key(self, entity: Any = None) -> list[Any]:
        """Return the attributes of the primary key, of the class or of an alias of it."""
        model = self.model if entity is None else entity
        return [getattr(model, name) for name in self.identity]

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

    def item_table(self, path: Sequence[int] | None, ref: str | None) -> ToolTable | None:
        """Return the table of an item that an edit names, if it is a row.

        The level follows from the length of its path, or the entity of its ref.
        """
        if path is not None:
            return self.rows_at(len(path) - 1)
        parsed = None if ref is None else parse_ref(ref)
        entities = [table.entity for table in self.tables[1:]]
        if parsed is None or parsed.entity not in entities:
            return self.rows_at(0)
        return self.rows_at(entities.index(parsed.entity))

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
