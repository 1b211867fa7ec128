"""Whose rows are whose: an `Ownership` says how each table's rows belong to an owner.

    ownership = Ownership(
        {User: "id", Recipe: "user_id", RecipeIngredient: "recipe", MealPlan: "user_id"},
        shared=[Recipe],
        open=[Ingredient],
    )
    sessions(conversation=..., owner=ownership.of(user_id))

A row belongs to the owner whom its column names, or to whom the row belongs that it references.
Classes come in; criteria on their tables go out, for reading and for writing. Subclasses belong
as their base does. What is not named here cannot be touched in an owned session. No I/O.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Table,
    exists,
    inspect,
    or_,
    true,
)
from sqlalchemy.orm import (
    ColumnProperty,
    Mapper,
    QueryableAttribute,
    RelationshipDirection,
    RelationshipProperty,
)
from sqlalchemy.sql.selectable import FromClause

from alfred_refs import sqla
from alfred_refs.errors import OwnershipError, UnconfinedError

Model = type[Any]
Attribute = str | QueryableAttribute[Any]

# Functions of PostgreSQL and its own extensions that execute what they are given as text, read
# whole tables by their name, or change the setting that row-level security goes by.
_EXECUTING = {
    *("query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema"),
    *("table_to_xml", "table_to_xmlschema", "table_to_xml_and_xmlschema"),
    *("schema_to_xml", "schema_to_xmlschema", "schema_to_xml_and_xmlschema"),
    *("database_to_xml", "database_to_xmlschema", "database_to_xml_and_xmlschema"),
    *("cursor_to_xml", "cursor_to_xmlschema", "ts_stat", "ts_rewrite", "set_config"),
    "xpath_table",
    *("crosstab", "crosstab2", "crosstab3", "crosstab4", "crosstab_hash", "connectby"),
    *("pg_read_file", "pg_read_binary_file", "lo_import", "lo_export", "lo_get", "loread"),
}


@dataclass(frozen=True, slots=True)
class Belonging:
    """How the rows of one table belong to an owner.

    Attributes:
        table: theirs.
        parameter: what the owner's column is compared with; `None` where another row decides.
        column: the owner's column.
        parent: the table of the row that decides, where there is no column.
        pairs: the columns that reference it, with what they reference.
        shared: whether rows without an owner may be read by all.
    """

    table: Table
    parameter: BindParameter[Any] | None = None
    column: Column[Any] | None = None
    parent: Table | None = None
    pairs: tuple[tuple[Column[Any], Column[Any]], ...] = ()
    shared: bool = False


class Ownership:
    """How the rows of an application's tables belong to their owners; one for each application.

    Args:
        owned: by class, the attribute that has the owner, or a many-to-one relationship to the
            class whose row decides.
        shared: classes whose rows without an owner may be read by all, and written by none; what
            belongs to such rows likewise.
        open: classes and tables of no owner, which are not confined.
        setting: where row-level security finds the owner: a parameter of PostgreSQL, set for each
            transaction.
    """

    def __init__(
        self,
        owned: Mapping[Model, Attribute],
        *,
        shared: Collection[Model] = (),
        open: Collection[Model | Table] = (),  # noqa: A002  # what the rows are
        setting: str | None = None,
    ) -> None:
        self._owned = {class_: _name_of(attribute) for class_, attribute in owned.items()}
        self._shared = frozenset(shared)
        self._open = tuple(open)
        self.setting = setting
        self._dialects: dict[int, tuple[Any, Any]] = {}
        self._lock = threading.RLock()

    def of(self, value: Any) -> Owner:
        """Return one owner: what a session is given.

        Args:
            value: as the owner's columns have it; the text of a UUID or an integer does too.

        Raises:
            OwnershipError: there is none.
        """
        return Owner(self, value)

    def attribute(self, model: Model) -> str | None:
        """Return the name of the attribute that has the owner: stamped, and never written.

        It is `None` where another row decides, or where rows have no owner.
        """
        mapper = inspect(model).mapper
        found = (self.belongings.get(cast(Table, table)) for table in mapper.tables)
        columns = [each.column for each in found if each is not None and each.column is not None]
        return sqla.attributes_of(mapper, columns)[columns[0]] if columns else None

    def knows(self, model: Model) -> bool:
        """Tell whether an owned session may touch the rows of a class at all."""
        table = cast(Table, inspect(model).local_table)
        return table in self.belongings or table in self.open_tables

    # What is worked out, when all classes are mapped

    @cached_property
    def belongings(self) -> Mapping[Table, Belonging]:
        """How the rows of owned tables belong."""
        with self._lock:
            found: dict[Table, Belonging] = {}
            for class_, name in self._owned.items():
                for mapper in inspect(class_).mapper.self_and_descendants:
                    self._read(mapper, class_, name, found)
            self._check(found)
            return found

    @cached_property
    def open_tables(self) -> frozenset[Table]:
        """Tables that are not confined."""
        return frozenset(
            table
            for each in self._open
            for table in ([each] if isinstance(each, Table) else inspect(each).mapper.tables)
        )

    def _read(
        self, mapper: Mapper[Any], class_: Model, name: str, found: dict[Table, Belonging]
    ) -> None:
        attribute = mapper.attrs.get(name)
        for table in mapper.tables:
            if not isinstance(table, Table):
                raise OwnershipError(
                    f"{mapper.class_.__name__} is mapped to more than tables",
                    "own the classes of the tables that it is made of",
                )
            if table in found:
                continue
            if isinstance(attribute, ColumnProperty):
                columns = cast("list[Column[Any]]", attribute.columns)
                column = next((c for c in columns if c.table is table), None)
                found[table] = (
                    _inherited(mapper, table)
                    if column is None
                    else _by_column(table, column, len(found), shared=class_ in self._shared)
                )
            elif isinstance(attribute, RelationshipProperty):
                found[table] = _by_relationship(table, mapper, attribute)
            else:
                raise OwnershipError(
                    f"{class_.__name__} has no column or relationship {name!r}",
                    "name the attribute that has the owner, or leads to the row that decides",
                )

    def _check(self, found: Mapping[Table, Belonging]) -> None:
        for belonging in found.values():
            seen = belonging
            for _ in range(len(found) + 1):
                if seen.parent is None:
                    break
                if seen.parent not in found:
                    raise OwnershipError(
                        f"rows of {seen.table.name!r} belong as those of {seen.parent.name!r}, "
                        "which is not owned",
                        "name the owner's attribute of that class too",
                    )
                seen = found[seen.parent]
            else:
                raise OwnershipError(
                    f"rows of {belonging.table.name!r} belong to each other in a circle",
                    "name a column that has the owner",
                )

    def belonging_of(self, table: Any) -> Belonging | None:
        """Return how rows of a table belong, `None` for an open one.

        Raises:
            UnconfinedError: the table is unknown.
        """
        table = sqla.plain(table)
        if table in self.belongings:
            return self.belongings[table]
        if table in self.open_tables:
            return None
        raise UnconfinedError(
            f"table {getattr(table, 'name', None)!r}",
            "list its class in Ownership(open=...) if its rows are of no owner, or say how they "
            "are owned",
        )

    # Criteria

    def readable(self, table: FromClause) -> ColumnElement[bool] | None:
        """Return which rows of a table, or of an alias of one, may be read; `None`: all."""
        return self.criterion(table, writing=False)

    def writable(self, table: FromClause) -> ColumnElement[bool] | None:
        """Return which rows of a table may be updated and deleted; `None`: all."""
        return self.criterion(table, writing=True)

    def criterion(
        self, from_: FromClause, *, writing: bool, owner: Any = None
    ) -> ColumnElement[bool] | None:
        """Return which rows of a table, or of an alias of one, may be read or written.

        Args:
            from_: the table or alias.
            writing: whether they are to be written.
            owner: whose they are; without one, a parameter by the name of `parameters()`.
        """
        belonging = self.belonging_of(_element_of(from_))
        if belonging is None:
            return None
        if belonging.column is not None:
            column = _column_in(from_, belonging.column)
            compared: Any = belonging.parameter
            if owner is not None:  # a key, though it may be text
                compared = sqla.key_parameter(as_column_has(column, owner), column.type)
            is_shared = belonging.shared and not writing
            return or_(column == compared, column.is_(None)) if is_shared else column == compared
        parent = sqla.settled(cast(Table, belonging.parent))
        decides = self.criterion(parent, writing=writing, owner=owner)
        pairs = [
            _column_in(parent, theirs) == _column_in(from_, ours)
            for ours, theirs in belonging.pairs
        ]
        found = exists().select_from(parent).where(*pairs, cast(Any, decides))
        return found.correlate(from_)

    def parameters(self, value: Any) -> dict[str, Any]:
        """Return what the criteria's parameters are for one owner, by their names."""
        return {
            belonging.parameter.key: as_column_has(belonging.column, value)
            for belonging in self.belongings.values()
            if belonging.parameter is not None and belonging.column is not None
        }

    def dialect_like(self, dialect: Any) -> Any:
        """Return the dialect that confines, for one that does not: always the same."""
        known = self._dialects.get(id(dialect))
        if known is None:
            with self._lock:
                # with the other: as long as that is kept, its id() is no other's
                known = self._dialects[id(dialect)] = (
                    dialect,
                    sqla.confined_dialect(dialect, self),
                )
        return known[1]

    # What a confined statement may do

    def refuse(self, what: str) -> Exception:
        """Return the error that refuses what cannot be confined."""
        return UnconfinedError(what)

    def check_function(self, name: str) -> None:
        """Refuse a function that executes SQL."""
        if name.lower() in _EXECUTING or name.lower().startswith("dblink"):
            raise UnconfinedError(f"function {name!r}")

    def check_update(self, table: FromClause, names: Collection[str]) -> None:
        """Refuse an update of the owner's column."""
        belonging = self.belonging_of(_element_of(table))
        column = None if belonging is None else belonging.column
        if column is not None and column.key in names:
            raise UnconfinedError(f"an UPDATE of the owner's column {column}")

    def check_insert(self, statement: Any, *, nested: bool) -> None:
        """Refuse an insert whose rows cannot be checked."""
        table = _element_of(statement.table)
        belonging = self.belonging_of(table)
        if nested:
            raise UnconfinedError("an INSERT inside another statement")
        if statement.select is not None and (belonging is not None or self._names_owned(table)):
            raise UnconfinedError("an INSERT from a SELECT", "select the rows, then insert them")
        conflict = getattr(statement, "_post_values_clause", None)
        if belonging is None or not hasattr(conflict, "update_values_to_set"):
            return
        if belonging.column is None:
            raise UnconfinedError(f"an upsert into {belonging.table.name!r}")
        names = {getattr(pair[0], "key", pair[0]) for pair in sqla.conflict_values_of(statement)}
        self.check_update(belonging.table, names)

    def _names_owned(self, table: Table) -> bool:
        """Tell whether a table has foreign keys to tables that are not open."""
        named = {element.column.table for element in table.foreign_keys}
        return not named <= self.open_tables

    def check_inserted(
        self, table: FromClause, rows: Iterable[Mapping[str, Any]], owner: Mapping[str, Any]
    ) -> None:
        """Refuse rows of another owner, or of none: the last look before they are sent."""
        belonging = self.belonging_of(_element_of(table))
        if belonging is None or belonging.column is None or belonging.parameter is None:
            return
        column, wanted = belonging.column, owner.get(belonging.parameter.key)
        names = re.compile(rf"{re.escape(column.key)}(_m\d+)?")
        for row in rows:
            given = [value for name, value in row.items() if names.fullmatch(name)]
            if not given or any(as_column_has(column, each) != wanted for each in given):
                table_name = belonging.table.name
                raise UnconfinedError(f"an INSERT of another's rows into {table_name!r}")


def _name_of(attribute: Attribute) -> str:
    return attribute if isinstance(attribute, str) else attribute.key


def _element_of(from_: Any) -> Any:
    """Return the table that an alias is of, or the table itself."""
    while hasattr(from_, "element") and not isinstance(from_, Table):
        from_ = from_.element
    return from_


def _column_in(from_: FromClause, column: Column[Any]) -> ColumnElement[Any]:
    """Return the column of an alias of its table, or of the table itself."""
    return from_.c[column.key]


def as_column_has(column: ColumnElement[Any], value: Any) -> Any:
    """Return an owner as a column has it."""
    kind = column.type.python_type
    if value is None or isinstance(value, kind):
        return value
    return kind(str(value)) if kind in (uuid.UUID, int, str) else value


def _by_column(table: Table, column: Column[Any], place: int, *, shared: bool) -> Belonging:
    name = f"alfred_owner_{place}_{table.name}"
    parameter = BindParameter(name, None, type_=column.type)
    return Belonging(table, parameter, column, shared=shared)


def _by_relationship(
    table: Table, mapper: Mapper[Any], relationship: RelationshipProperty[Any]
) -> Belonging:
    if relationship.direction is not RelationshipDirection.MANYTOONE:
        raise OwnershipError(
            f"{relationship} leads to many rows, or away from them",
            "name the relationship to the one row that decides",
        )
    pairs = [
        (cast("Column[Any]", ours), cast("Column[Any]", theirs))
        for ours, theirs in relationship.local_remote_pairs
    ]
    if any(ours.table is not table for ours, _ in pairs):
        return _inherited(mapper, table)
    return Belonging(table, parent=pairs[0][1].table, pairs=tuple(pairs))


def _inherited(mapper: Mapper[Any], table: Table) -> Belonging:
    """Return how rows of a joined subclass belong: as those of the base."""
    own = next(each for each in mapper.iterate_to_root() if each.local_table is table)
    if own.inherits is None or own.inherit_condition is None:
        raise OwnershipError(
            f"table {table.name!r} has no owner's column", "name the attribute of its own"
        )
    pairs = sqla.pairs_in(own.inherit_condition, table)
    return Belonging(table, parent=pairs[0][1].table, pairs=tuple(pairs))


@dataclass(frozen=True, slots=True)
class Owner:
    """On whose behalf a session works.

    Attributes:
        ownership: which rows are whose.
        value: what the owner's columns have.
    """

    ownership: Ownership
    value: Any

    def __post_init__(self) -> None:
        if self.value is None:
            raise OwnershipError("the owner is None", "give the owner's key, or no owner at all")

    def readable(self, model: Model) -> ColumnElement[bool]:
        """Return which rows of a class the owner may read, as a criterion on the class."""
        return self._criterion(model, writing=False)

    def writable(self, model: Model) -> ColumnElement[bool]:
        """Return which rows of a class the owner may update and delete."""
        return self._criterion(model, writing=True)

    def _criterion(self, model: Model, *, writing: bool) -> ColumnElement[bool]:
        table = cast(Table, inspect(model).local_table)
        found = self.ownership.criterion(table, writing=writing, owner=self.value)
        return true() if found is None else found
