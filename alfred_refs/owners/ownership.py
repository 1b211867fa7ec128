"""Ownership rules: which rows are whose.

How the rows of each table belong to an owner, read from what the mappers know.

Classes come in, each with the attribute that has the owner or leads to the row that decides; a
`Belonging` for each of their tables goes out, those of subclasses included. No I/O.

Whose rows are whose: an `Ownership` says how each table's rows belong to an owner.

    ownership = Ownership(
        {User: "id", Recipe: "user_id", RecipeIngredient: "recipe", MealPlan: "user_id"},
        shared=[Recipe],
        open=[Ingredient],
    )
    sessions(conversation=..., owner=ownership.of(user_id))

A row belongs to the owner whom its column names, or to whom the row belongs that it references.
Subclasses belong as their base does. What is not named here cannot be touched in an owned session.
The compiler asks as it comes upon tables, texts and functions (`sqla.confining.Rules`): criteria
on tables go out, for reading and for writing, or the error that refuses what cannot be confined.
No I/O.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
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


@dataclass(frozen=True, slots=True)
class Belonging:
    """How the rows of one table belong to an owner.

    By the owner's `column`, which is compared with `parameter`; or as the row of the table
    `parent` does, which `pairs` reference: columns, each with what it references.
    """

    table: Table
    parameter: BindParameter[Any] | None = None
    column: Column[Any] | None = None
    parent: Table | None = None
    pairs: tuple[tuple[Column[Any], Column[Any]], ...] = ()
    shared: bool = False  # rows without an owner may be read by all


def belongings_of(
    owned: Mapping[Model, str], shared: Collection[Model]
) -> Mapping[Table, Belonging]:
    """Return how the rows of all tables of owned classes belong.

    Args:
        owned: by class, the name of the attribute that says it.
        shared: classes whose rows without an owner may be read by all.

    Raises:
        OwnershipError: it cannot be told of a class.
    """
    found: dict[Table, Belonging] = {}
    for class_, name in owned.items():
        for mapper in inspect(class_).mapper.self_and_descendants:
            _read_rule(mapper, class_, name, found, shared)
    _check(found)
    return found


def _read_rule(
    mapper: Mapper[Any],
    class_: Model,
    name: str,
    found: dict[Table, Belonging],
    shared: Collection[Model],
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
            if column is None:
                found[table] = _inherit_rules(mapper, table)
                continue
            name_of_parameter = f"alfred_owner_{len(found)}_{table.name}"
            parameter = BindParameter(name_of_parameter, None, type_=column.type)
            found[table] = Belonging(table, parameter, column, shared=class_ in shared)
        elif isinstance(attribute, RelationshipProperty):
            found[table] = _by_relationship(table, mapper, attribute)
        else:
            raise OwnershipError(
                f"{class_.__name__} has no column or relationship {name!r}",
                "name the attribute that has the owner, or leads to the row that decides",
            )


def _check(found: Mapping[Table, Belonging]) -> None:
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


def as_column_has(column: ColumnElement[Any], value: Any) -> Any:
    """Return an owner as a column has it."""
    kind = column.type.python_type
    if value is None or isinstance(value, kind):
        return value
    return kind(str(value)) if kind in (uuid.UUID, int, str) else value


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
        return _inherit_rules(mapper, table)
    if not _is_one_row([theirs for _, theirs in pairs]):
        raise OwnershipError(
            f"{relationship} may lead to several rows: what it goes by is not unique there",
            "make it unique, or name a column that has the owner",
        )
    return Belonging(table, parent=pairs[0][1].table, pairs=tuple(pairs))


def _is_one_row(columns: Collection[Column[Any]]) -> bool:
    """Tell whether values of these columns name one row of their table at most."""
    table = next(iter(columns)).table
    keys = (PrimaryKeyConstraint, UniqueConstraint)
    unique = [set(each.columns) for each in table.constraints if isinstance(each, keys)]
    unique += [
        set(index.columns)
        for index in table.indexes
        # on columns as they are, and on all rows
        if index.unique
        and all(isinstance(each, Column) for each in index.expressions)
        and index.dialect_options["postgresql"]["where"] is None
    ]
    unique += [{column} for column in table.columns if column.unique]
    return any(each and each <= set(columns) for each in unique)


def _inherit_rules(mapper: Mapper[Any], table: Table) -> Belonging:
    """Return how rows of a joined subclass belong: as those of the base."""
    own = next(each for each in mapper.iterate_to_root() if each.local_table is table)
    if own.inherits is None or own.inherit_condition is None:
        raise OwnershipError(
            f"table {table.name!r} has no owner's column", "name the attribute of its own"
        )
    pairs = sqla.equalities_in(own.inherit_condition, table)
    return Belonging(table, parent=pairs[0][1].table, pairs=tuple(pairs))


# Functions of PostgreSQL and its own extensions that execute what they are given as text, read
# whole tables by their name, or change the setting that row-level security goes by.
_EXECUTING = {
    *("query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema"),
    *("table_to_xml", "table_to_xmlschema", "table_to_xml_and_xmlschema"),
    *("schema_to_xml", "schema_to_xmlschema", "schema_to_xml_and_xmlschema"),
    *("database_to_xml", "database_to_xmlschema", "database_to_xml_and_xmlschema"),
    *("cursor_to_xml", "cursor_to_xmlschema", "ts_stat", "ts_rewrite", "set_config"),
    "xpath_table",
    *("connectby", "get_raw_page", "bt_page_items", "heap_page_items", "tuple_data_split"),
    *("lo_import", "lo_export", "lo_get", "loread"),
}
# and those whose names begin so
_EXECUTING_ALL = ("dblink", "crosstab")
# The server's own functions look at what others do, and at its files: all but these.
_OF_SERVER = r"pg_\w*$"
_HARMLESS = (
    *("pg_typeof", "pg_column_size", "pg_size_pretty"),
    *("pg_sleep", "pg_advisory_", "pg_try_"),
)


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

    Raises:
        OwnershipError: a shared class has no owners, or an open one has.

    Example:
        >>> ownership = Ownership({Recipe: "user_id", Line: "recipe"})
        >>> with sessions(conversation="chat-8", owner=ownership.of(ann)) as session:
        ...     session.scalars(select(Recipe.name)).all()
        ['Soup']
    """

    def __init__(
        self,
        owned: Mapping[Model, str | QueryableAttribute[Any]],
        *,
        shared: Collection[Model] = (),
        open: Collection[Model | Table] = (),  # noqa: A002  # what the rows are
        setting: str | None = None,
    ) -> None:
        for model in shared:
            if model not in owned:
                raise OwnershipError(
                    f"{model!r} is shared, and nothing says whose its other rows are",
                    "say in the mapping how its rows are owned, or list it in open=",
                )
        for model in owned:
            if model in open:
                raise OwnershipError(f"{model!r} is both owned and open", "choose one of the two")
        self._owned = {
            model: attribute if isinstance(attribute, str) else attribute.key
            for model, attribute in owned.items()
        }
        self._shared = frozenset(shared)
        self._open = tuple(open)
        self.setting = setting
        self._dialects: dict[int, tuple[Any, Any]] = {}
        self._lock = threading.RLock()

    def of(self, value: Any) -> Owner:
        """Return one owner: what a session is given.

        Args:
            value: as the owner's columns have it; the text of a UUID or an integer does too.
        """
        return Owner(self, value)

    @cached_property
    def belongings(self) -> Mapping[Table, Belonging]:
        """How the rows of owned tables belong; worked out when all classes are mapped."""
        with self._lock:
            return belongings_of(self._owned, self._shared)

    @cached_property
    def open_tables(self) -> frozenset[Table]:
        """Tables that are not confined."""
        return frozenset(
            table
            for each in self._open
            for table in ([each] if isinstance(each, Table) else inspect(each).mapper.tables)
        )

    def belonging_of(self, table: Any) -> Belonging | None:
        """Return how rows of a table belong, `None` for an open one.

        Raises:
            UnconfinedError: the table is unknown.
        """
        table = sqla.deannotated_table(table)
        if table in self.belongings:
            return self.belongings[table]
        if table in self.open_tables:
            return None
        raise UnconfinedError(
            f"table {getattr(table, 'name', None)!r}",
            "list its class in Ownership(open=...) if its rows are of no owner, or say how they "
            "are owned",
        )

    def is_shared(self, table: Any) -> bool:
        """Tell whether there may be rows of a table that may be read and not written."""
        belonging = self.belonging_of(table)
        while belonging is not None and belonging.parent is not None:
            belonging = self.belonging_of(belonging.parent)
        return belonging is not None and belonging.shared

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

        Without an owner they are compared with a parameter by the name of `parameters()`.
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
        parent = sqla.criterion_alias(cast(Table, belonging.parent))
        decides = self.criterion(parent, writing=writing, owner=owner)
        pairs = [
            _column_in(parent, theirs) == _column_in(from_, ours)
            for ours, theirs in belonging.pairs
        ]
        found = exists().select_from(parent).where(*pairs, cast(Any, decides))
        return found.correlate(from_)

    def parameters(self, value: Any) -> dict[str, Any]:
        """Return what the criteria's parameters are for one owner, by their names."""
        found = {}
        for belonging in self.belongings.values():
            if belonging.parameter is not None and belonging.column is not None:
                try:
                    found[belonging.parameter.key] = as_column_has(belonging.column, value)
                except ValueError:
                    raise OwnershipError(
                        f"the owner is given as a value that {belonging.column} cannot have",
                        "give the owner's key: ownership.of(user.id)",
                    ) from None
        return found

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
        folded = name.lower()
        executes = folded in _EXECUTING or folded.startswith(_EXECUTING_ALL)
        is_of_server = re.match(_OF_SERVER, folded) and not folded.startswith(_HARMLESS)
        if executes or is_of_server:
            raise UnconfinedError(f"function {name!r}")

    def check_cte(self, name: str) -> None:
        """Refuse a CTE by the name of an owned table: criteria would read it for the table."""
        folded = name.lower()  # as PostgreSQL reads a name without quotes
        if any(t.name.lower() == folded and t.schema is None for t in self.belongings):
            raise UnconfinedError(f"a CTE by the name of table {name!r}", "give it another name")

    def check_update(self, table: FromClause, names: Collection[str]) -> None:
        """Refuse an update of the owner's column."""
        belonging = self.belonging_of(_element_of(table))
        column = None if belonging is None else belonging.column
        if column is not None and column.key in names:
            raise UnconfinedError(f"an UPDATE of the owner's column {column}")

    def check_insert(self, table: FromClause, statement: Any, *, nested: bool) -> None:
        """Refuse an insert whose rows cannot be checked."""
        target: Table = _element_of(table)
        belonging = self.belonging_of(target)
        if nested:
            raise UnconfinedError("an INSERT inside another statement")
        if statement.select is not None and (
            belonging is not None
            or any(key.column.table not in self.open_tables for key in target.foreign_keys)
        ):
            raise UnconfinedError("an INSERT from a SELECT", "select the rows, then insert them")
        if sqla.update_on_conflict(statement) is None:
            return
        names = {getattr(pair[0], "key", pair[0]) for pair in sqla.conflict_values_of(statement)}
        if not names <= {*target.c.keys()}:  # rendered as they are, whatever column that may be
            raise UnconfinedError(
                f"what an upsert into {target.name!r} sets by names that are no keys of columns",
                "give the columns themselves in set_=",
            )
        if belonging is not None and belonging.column is None:
            raise UnconfinedError(f"an upsert into {target.name!r}")
        self.check_update(table, names)

    def check_written(
        self,
        table: FromClause,
        rows: Iterable[Mapping[str, Any]],
        owner: Mapping[str, Any],
        *,
        is_new: bool,
    ) -> None:
        """Refuse rows of another owner, or new ones of none: the last look before they are sent.

        Args:
            table: to which they are written.
            rows: what each is given, by the names of parameters.
            owner: what the criteria compare with, by the names of parameters.
            is_new: whether they are inserted.
        """
        belonging = self.belonging_of(_element_of(table))
        if belonging is None or belonging.column is None or belonging.parameter is None:
            return
        column, wanted = belonging.column, owner.get(belonging.parameter.key)
        names = re.compile(rf"{re.escape(column.key)}(_m\d+)?")
        for row in rows:
            given = [value for name, value in row.items() if names.fullmatch(name)]
            if (is_new and not given) or any(as_column_has(column, v) != wanted for v in given):
                what = "an INSERT of another's rows into" if is_new else "to give away rows of"
                raise UnconfinedError(f"{what} {belonging.table.name!r}")


@dataclass(frozen=True, slots=True)
class Owner:
    """On whose behalf a session works.

    Attributes:
        ownership: which rows are whose.
        value: the owner's key, as the columns that name an owner have it.

    Raises:
        OwnershipError: the value is `None`.

    Example:
        >>> ownership = Ownership({Recipe: "user_id", Line: "recipe"})
        >>> owner = ownership.of(ann)
        >>> session.scalars(select(Recipe.name).where(owner.readable(Recipe))).all()
        ['Soup']
    """

    ownership: Ownership
    value: Any = field(repr=False)

    def __post_init__(self) -> None:
        if self.value is None:
            raise OwnershipError("the owner is None", "give the owner's key, or no owner at all")

    def readable(self, model: Model) -> ColumnElement[bool]:
        """Return which rows of a class the owner may read, as a criterion on the class.

        Args:
            model: the mapped class.

        Raises:
            UnconfinedError: nothing is said of whose its rows are.
        """
        return self._criterion(model, writing=False)

    def writable(self, model: Model) -> ColumnElement[bool]:
        """Return which rows of a class the owner may update and delete, as `readable` does."""
        return self._criterion(model, writing=True)

    def _criterion(self, model: Model, *, writing: bool) -> ColumnElement[bool]:
        table = cast(Table, inspect(model).local_table)
        found = self.ownership.criterion(table, writing=writing, owner=self.value)
        return true() if found is None else found


def _element_of(from_: Any) -> Any:
    """Return the table that an alias is of, or the table itself."""
    while hasattr(from_, "element") and not isinstance(from_, Table):
        from_ = from_.element
    return from_


def _column_in(from_: FromClause, column: Column[Any]) -> ColumnElement[Any]:
    """Return the column of an alias of its table, or of the table itself."""
    return from_.c[column.key]
