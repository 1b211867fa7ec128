"""One table that a model may use, and its columns: what they take, and what they are called.

Read from a mapped class by `tables`; the same for all calls, so that what follows from it is
looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from sqlalchemy import Column, Select, Table, inspect
from sqlalchemy.orm import MANYTOONE, ONETOMANY, Mapper, RelationshipProperty

from alfred_refs import sqla
from alfred_refs.mapping.column_types import UnfitValueError, Values
from alfred_refs.mapping.entities import ClassKeys
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import Key
from alfred_refs.tools.errors import ToolError, invalid_value, read_only_table, unknown_column
from alfred_refs.tools.wire.documents import Places, mapped
from alfred_refs.tools.wire.texts import key_number

from .permits import VERBS, Verb

ROW_REF = "_ref"
"""The field that has the ref of a row whose primary key is of several columns."""


# strategies of relationships that are never loaded as a whole
_UNLOADED = ("dynamic", "write_only", "noload")

_MOST_STATEMENTS = 100  # of one table that are kept


@dataclass(frozen=True, eq=False)
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
    doc: str | None
    places: Places = field(default_factory=dict)

    def show(self, value: Any) -> Any:
        """Return a value of the column as JSON, in which integers that are keys are told apart."""
        shown = None if value is None else self.values.show_one(value)
        return mapped(shown, self.places, key_number) if self.places else shown

    @cached_property
    def entity(self) -> str | None:
        """The entity of the refs that it takes; `None` for data and for alternate keys."""
        return None if self.key is None or self.key.by is not None else self.key.entity

    def accept(self, given: Any, *, new: bool = False) -> Any:
        """Return what a model gave as the column has it in Python; refs stay text.

        Args:
            given: a JSON value.
            new: whether it is to be stored, and not only compared.
        """
        return accepted(self.values.accept_new if new else self.values.accept, self.name, given)


@dataclass(frozen=True, eq=False)
class ToolTable:
    """One mapped class that a model may use.

    Attributes:
        name: what the model calls it.
        model: the class.
        keys: its key attributes.
        columns: by name, those of the primary key first.
        identity: the names of the primary key's attributes.
        entity: what the refs of its rows begin with.
        verbs: what a model may do to its rows, beside reading them.
        fixed: the attributes that are shown and not written, relationships among them.
        targets: by the name of a relationship, the table of the related rows.
        kinds: the table itself and those of its subclasses, by their classes.
        statements: that calls have in common, made once.
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

    @property
    def read_only(self) -> bool:
        """Whether a model may read it only."""
        return not self.verbs

    def check(self, verb: Verb) -> None:
        """Check that a model may do something to rows."""
        if verb not in self.verbs:
            raise read_only_table(self.name, [each for each in VERBS if each in self.verbs])

    @cached_property
    def own(self) -> str | None:
        """The column that has each row's own ref; `None` where that is `ROW_REF`."""
        return self.identity[0] if self.keys.own is not None else None

    @cached_property
    def ref_field(self) -> str:
        """The field by which a filter names rows of this table."""
        return self.own or ROW_REF

    @cached_property
    def database_names(self) -> list[str]:
        """What the database calls the tables that the rows are in."""
        return [str(cast(Table, each).name) for each in inspect(self.model).mapper.tables]

    @cached_property
    def discriminator(self) -> str | None:
        """The attribute that says which class a row is of; `None` where there is one class."""
        mapper: Mapper[Any] = inspect(self.model).mapper
        column = mapper.polymorphic_on
        if not isinstance(column, Column):
            return None
        return mapper.get_property_by_column(column).key

    @cached_property
    def fields(self) -> list[str]:
        """What a filter or a list of columns may name."""
        own = [] if self.own is not None else [ROW_REF]
        return [*own, *self.columns, *self.targets]

    @cached_property
    def included(self) -> list[str]:
        """The relationships whose rows may be shown inside a row: not those too large to load."""
        return [name for name in self.targets if self.relationship(name).lazy not in _UNLOADED]

    def column(self, name: str) -> ToolColumn:
        """Return a column.

        Raises:
            ToolError: there is none that a model may use.
        """
        found = self.columns.get(name)
        if found is None:
            raise unknown_column(self.name, name, list(self.columns))
        return found

    def not_written(self, name: str, writable: Iterable[str]) -> ToolError:
        """Return what a model is told of a column that it may not write, or that is not there."""
        return unknown_column(self.name, name, [*writable], is_read=name in self.fields)

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

    def statement(self, name: Hashable, make: Callable[[], Select[Any]]) -> Select[Any]:
        """Return a statement that calls have in common: SQLAlchemy takes long to make one.

        Args:
            name: tells it from the others of the table.
            make: makes it.
        """
        found = self.statements.get(name)
        if found is None:
            found = make()
            if len(self.statements) < _MOST_STATEMENTS:  # a model may name columns as it likes
                self.statements[name] = found
        return found

    def relationship(self, name: str) -> RelationshipProperty[Any]:
        """Return a relationship that leads to a table which a model may use."""
        found: RelationshipProperty[Any] = inspect(self.model).mapper.relationships[name]
        return found

    def is_list(self, name: str) -> bool:
        """Tell whether a relationship leads to several rows."""
        return bool(self.relationship(name).uselist)

    def references(self) -> dict[str, list[str]]:
        """Return the columns in which a row refers to others, by the relationships to those."""
        mapper = inspect(self.model).mapper
        return {
            each.key: [mapper.get_property_by_column(column).key for column in each.local_columns]
            for each in mapper.relationships
            if each.direction is MANYTOONE
        }

    def taking(self, name: str) -> dict[str, str]:
        """Return the columns of related rows that say to which row of this table they belong.

        Those are changed by the relationship, so that a row that is there is moved. Empty where
        it leads the other way, or by a table between the two.

        Returns:
            their attributes, with that of this table whose value each is given.
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


def accepted(accept: Callable[[Any], Any], field: str, given: Any) -> Any:
    """Return what a model gave for a field, as `accept` of its `Values` returns it."""
    try:
        return accept(given)
    except UnfitValueError as error:
        raise invalid_value(field, error.wanted) from None
