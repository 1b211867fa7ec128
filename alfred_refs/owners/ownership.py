"""`Ownership`: which rows belong to which owner.

An application declares its tenants once, as a table from classes to attributes:

| attribute | meaning |
| --- | --- |
| a column | it has the owner's key |
| a many-to-one relationship | rows belong to the owner of the row that it leads to |

Classes in `shared` may also have rows without an owner, which everybody may read and nobody may
write. Classes in `open` have no owners and are not confined; association tables in it have the
links between rows that the owner may read. A session with an owner cannot touch any other table.
Subclasses belong as their base does.

>>> ownership = Ownership({Recipe: "user_id", Line: "recipe"}, open=[User])
>>> owner = ownership.of(ann)
>>> print(owner.readable(Recipe))
recipes.user_id = :param_1
>>> session.scalars(select(Line.text).where(owner.readable(Line)).order_by(Line.position)).all()
['4 tomatoes', '1 onion']

How it is used: the first half of the module reads a `Belonging` for each table from the mappings.
`Ownership` turns these into WHERE criteria, and checks the constructs of a confined statement: the
compiler calls it for each table, function and CTE that it renders (`sqla.compiler`).

Limits:

- A relationship must lead to one row: its remote columns must be unique.
- Ownership is checked against mappings, not against the database: triggers and views are not seen.
- Raw SQL cannot be confined and raises `UnconfinedError`; so do functions that execute SQL given
  as text. Row-level security (`setting`) is a second line of defence.
- Nothing here does I/O.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    and_,
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
Pairs = tuple[tuple[Column[Any], Column[Any]], ...]
"""The columns of a table, each with the column of another table that it references."""


@dataclass(frozen=True, slots=True)
class Belonging:
    """How the rows of one table belong to an owner: by a column, or as a parent row does.

    Attributes:
        table: the table.
        parameter: the bind parameter that `column` is compared with.
        column: the column that has the owner.
        parent: otherwise, the table whose rows decide.
        pairs: the columns that reference `parent`, each with the column that it references.
        shared: whether everybody may read the rows without an owner.
    """

    table: Table
    parameter: BindParameter[Any] | None = None
    column: Column[Any] | None = None
    parent: Table | None = None
    pairs: Pairs = ()
    shared: bool = False


def belongings_of(
    owned: Mapping[Model, str], shared: Collection[Model]
) -> Mapping[Table, Belonging]:
    """Return a `Belonging` for each table of owned classes and their subclasses.

    Args:
        owned: by class, the attribute that has the owner or leads to the row that decides.
        shared: classes whose rows without an owner may be read by all.

    Raises:
        OwnershipError: an attribute does not decide the owner of each row.
    """
    found: dict[Table, Belonging] = {}
    for class_, name in owned.items():
        found_mapper = inspect(class_, raiseerr=False)
        if not isinstance(found_mapper, Mapper):
            raise OwnershipError(
                f"{class_!r} is owned, and it is not mapped", "give mapped classes"
            )
        for mapper in found_mapper.self_and_descendants:
            _read_mapper(mapper, class_, name, found, shared)
    _check_parents(found)
    return found


def _read_mapper(
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
                f"{mapper.class_.__name__} is mapped to a join or a subquery",
                "own the classes of the tables in it",
            )
        if table in found:
            continue
        if isinstance(attribute, ColumnProperty):
            columns = cast("list[Column[Any]]", attribute.columns)
            column = next((c for c in columns if c.table is table), None)
            if column is None:
                found[table] = _inherited_belonging(mapper, table)
                continue
            name_of_parameter = f"alfred_owner_{len(found)}_{table.name}"
            parameter = BindParameter(name_of_parameter, None, type_=column.type)
            found[table] = Belonging(table, parameter, column, shared=class_ in shared)
        elif isinstance(attribute, RelationshipProperty):
            found[table] = _by_relationship(table, mapper, attribute)
        else:
            raise OwnershipError(
                f"{class_.__name__} has no column or relationship {name!r}",
                "name a column that holds the owner, or a relationship to an owned row",
            )


def _check_parents(found: Mapping[Table, Belonging]) -> None:
    for belonging in found.values():
        seen = belonging
        for _ in range(len(found) + 1):
            if seen.parent is None:
                break
            if seen.parent not in found:
                raise OwnershipError(
                    f"rows of {seen.table.name!r} belong to the owner of their row of "
                    f"{seen.parent.name!r}, which is not owned",
                    "name the owner's attribute of that class too",
                )
            seen = found[seen.parent]
        else:
            raise OwnershipError(
                f"rows of {belonging.table.name!r} belong to each other in a circle",
                "name a column that has the owner",
            )


def to_column_type(column: ColumnElement[Any], value: Any) -> Any:
    """Return an owner's key in the Python type of a column."""
    kind = column.type.python_type
    if value is None or isinstance(value, kind):
        return value
    return kind(str(value)) if kind in (uuid.UUID, int, str) else value


def _by_relationship(
    table: Table, mapper: Mapper[Any], relationship: RelationshipProperty[Any]
) -> Belonging:
    if relationship.direction is not RelationshipDirection.MANYTOONE:
        raise OwnershipError(
            f"{relationship} is not many-to-one",
            "name a many-to-one relationship to the row that has the owner",
        )
    pairs = [
        (cast("Column[Any]", ours), cast("Column[Any]", theirs))
        for ours, theirs in relationship.local_remote_pairs
    ]
    if any(ours.table is not table for ours, _ in pairs):
        return _inherited_belonging(mapper, table)
    if not _is_one_row([theirs for _, theirs in pairs]):
        raise OwnershipError(
            f"{relationship} may lead to several rows: its remote columns are not unique",
            "make it unique, or name a column that has the owner",
        )
    return Belonging(table, parent=pairs[0][1].table, pairs=tuple(pairs))


def _is_one_row(columns: Collection[Column[Any]]) -> bool:
    """Return whether values of these columns identify one row of their table at most."""
    table = next(iter(columns)).table
    keys = (PrimaryKeyConstraint, UniqueConstraint)
    unique = [set(each.columns) for each in table.constraints if isinstance(each, keys)]
    unique += [
        set(index.columns)
        for index in table.indexes
        # neither on expressions nor partial
        if index.unique
        and all(isinstance(each, Column) for each in index.expressions)
        and index.dialect_options["postgresql"]["where"] is None
    ]
    unique += [{column} for column in table.columns if column.unique]
    return any(each and each <= set(columns) for each in unique)


def _inherited_belonging(mapper: Mapper[Any], table: Table) -> Belonging:
    """Return the rule of a joined subclass's table: a row has the owner of its row in the base."""
    own = next(each for each in mapper.iterate_to_root() if each.local_table is table)
    if own.inherits is None or own.inherit_condition is None:
        raise OwnershipError(
            f"table {table.name!r} has no owner's column", "name the attribute of its own"
        )
    pairs = sqla.equalities_in(own.inherit_condition, table)
    return Belonging(table, parent=pairs[0][1].table, pairs=tuple(pairs))


# Functions of PostgreSQL and its own extensions that execute SQL given as text, read whole tables
# by name, or change the setting that row-level security uses.
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
# prefixes of such functions
_EXECUTING_PREFIXES = ("dblink", "crosstab")
# The server's own functions read other sessions' activity and the server's files, except these.
_SERVER_FUNCTION = r"pg_\w*$"
_HARMLESS_PREFIXES = (
    *("pg_typeof", "pg_column_size", "pg_size_pretty"),
    *("pg_sleep", "pg_advisory_", "pg_try_"),
)


def _name_of(model: Model, attribute: str | QueryableAttribute[Any]) -> str:
    name: object = attribute if isinstance(attribute, str) else getattr(attribute, "key", None)
    if not isinstance(name, str):
        raise OwnershipError(
            f"{model!r} is owned by {attribute!r}, which is not an attribute",
            "give its name, or the attribute of the class",
        )
    return name


class Ownership:
    """The tenants of an application: which rows belong to which owner. One for each application.

    Args:
        owned: by class, the attribute that has the owner, or a many-to-one relationship to the
            class whose row decides.
        shared: owned classes whose rows without an owner may be read by all, and written by
            nobody. The same applies to rows that belong to such rows.
        open: classes without owners, which are not confined, and association tables, of which
            the owner reads the links between readable rows.
        setting: the PostgreSQL parameter in which row-level security finds the owner; it is set
            for each transaction.

    Raises:
        OwnershipError: a shared class is not owned, or an open one is.

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
        open: Collection[Model | Table] = (),  # noqa: A002  # as in "open data"
        setting: str | None = None,
    ) -> None:
        for model in shared:
            if model not in owned:
                raise OwnershipError(
                    f"{model!r} is shared, and it is not owned",
                    "add the attribute that has the owner of its other rows, or list it in open=",
                )
        for model in owned:
            if model in open:
                raise OwnershipError(f"{model!r} is both owned and open", "choose one of the two")
        self._owned = {model: _name_of(model, each) for model, each in owned.items()}
        self._shared = frozenset(shared)
        self._open = tuple(open)
        self.setting = setting
        self._dialects: dict[int, tuple[Any, Any]] = {}
        self._lock = threading.RLock()

    def of(self, value: Any) -> Owner:
        """Return one owner, for `sessions(owner=...)`.

        Args:
            value: the owner's key, as its columns have it, or as the text of a UUID or integer.

        Raises:
            OwnershipError: the value is `None`, or one that the columns cannot have.
        """
        self.parameters(value)  # raises here, not at the first statement
        return Owner(self, value)

    @cached_property
    def belongings(self) -> Mapping[Table, Belonging]:
        """How the rows of owned tables belong; read at first use, when all classes are mapped."""
        with self._lock:
            return belongings_of(self._owned, self._shared)

    @cached_property
    def open_tables(self) -> frozenset[Table]:
        """The tables without owners; of these, only association tables are confined."""
        return frozenset(
            table
            for each in self._open
            for table in ([each] if isinstance(each, Table) else inspect(each).mapper.tables)
        )

    @cached_property
    def _links(self) -> Mapping[Table, Sequence[tuple[Table, Pairs]]]:
        """The open association tables, with the owned tables that each references."""
        found: dict[Table, list[tuple[Table, Pairs]]] = {}
        for table in self.open_tables:
            keys = table.foreign_key_constraints if sqla.mapper_of_table(table) is None else ()
            for key in sorted(keys, key=lambda key: key.column_keys):
                if key.referred_table in self.belongings:
                    pairs = tuple((each.parent, each.column) for each in key.elements)
                    found.setdefault(table, []).append((key.referred_table, pairs))
        return found

    def belonging_of(self, table: Any) -> Belonging | None:
        """Return how rows of a table belong to an owner; `None` for an open table.

        Raises:
            UnconfinedError: the ownership does not know the table.
        """
        table = sqla.deannotated_table(table)
        if table in self.belongings:
            return self.belongings[table]
        if table in self.open_tables:
            return None
        raise UnconfinedError(
            f"table {getattr(table, 'name', None)!r}",
            "list its class in Ownership(open=...) if its rows have no owner, or else in owned",
        )

    def is_shared(self, table: Any) -> bool:
        """Return whether a table may have rows that everybody may read and nobody may write."""
        belonging = self.belonging_of(table)
        while belonging is not None and belonging.parent is not None:
            belonging = self.belonging_of(belonging.parent)
        return belonging is not None and belonging.shared

    def attribute(self, model: Model) -> str | None:
        """Return the name of the attribute that has the owner, which sessions fill in.

        It is `None` where another row decides, or where rows have no owner.
        """
        mapper = inspect(model).mapper
        found = (self.belongings.get(cast(Table, table)) for table in mapper.tables)
        columns = [each.column for each in found if each is not None and each.column is not None]
        return sqla.attributes_of(mapper, columns)[columns[0]] if columns else None

    def knows(self, model: Model) -> bool:
        """Return whether a session with an owner may touch the rows of a class at all."""
        return self.knows_table(cast(Table, inspect(model).local_table))

    def knows_table(self, table: Table) -> bool:
        """Return whether a session with an owner may use a table at all.

        Args:
            table: of mapped classes, or an association table.
        """
        return table in self.belongings or table in self.open_tables

    # Criteria

    def readable(self, table: FromClause) -> ColumnElement[bool] | None:
        """Return the criterion for reading rows; `None` if the table is not confined.

        Args:
            table: a table, or an alias of one.
        """
        return self.criterion(table, writing=False)

    def writable(self, table: FromClause) -> ColumnElement[bool] | None:
        """Return the criterion for updating and deleting rows; `None` if it is not confined.

        Args:
            table: a table, or an alias of one.
        """
        return self.criterion(table, writing=True)

    def criterion(
        self, from_: FromClause, *, writing: bool, owner: Any = None
    ) -> ColumnElement[bool] | None:
        """Return the criterion for reading or writing a table, or an alias of one.

        Without `owner`, it compares with bind parameters, whose values `parameters()` returns: so
        the compiled statement is cached for all owners.
        """
        belonging = self.belonging_of(_element_of(from_))
        if belonging is None:
            return self._linking(from_, writing=writing, owner=owner)
        if belonging.column is not None:
            column = _column_in(from_, belonging.column)
            compared: Any = belonging.parameter
            if owner is not None:  # a key, though it may be text
                compared = sqla.key_parameter(to_column_type(column, owner), column.type)
            is_shared = belonging.shared and not writing
            return or_(column == compared, column.is_(None)) if is_shared else column == compared
        parent = cast(Table, belonging.parent)
        return self._by_parent(from_, parent, belonging.pairs, writing=writing, owner=owner)

    def _by_parent(
        self, from_: FromClause, table: Table, pairs: Pairs, *, writing: bool, owner: Any
    ) -> ColumnElement[bool]:
        """Return the criterion that the row of another table may be read or written."""
        parent = sqla.criterion_alias(table)
        of_parent = self.criterion(parent, writing=writing, owner=owner)
        same = [_column_in(parent, theirs) == _column_in(from_, ours) for ours, theirs in pairs]
        return exists().select_from(parent).where(*same, cast(Any, of_parent)).correlate(from_)

    def _linking(
        self, from_: FromClause, *, writing: bool, owner: Any
    ) -> ColumnElement[bool] | None:
        """Return the criterion for an association table; `None` for other open tables.

        A link is readable if the rows at all ends are, and none is null. It is writable if one of
        them is writable too, so a link between two shared rows is not.
        """
        ends = self._links.get(sqla.deannotated_table(_element_of(from_)), ())
        if not ends:
            return None
        readable = [self._by_parent(from_, *end, writing=False, owner=owner) for end in ends]
        if not writing:
            return and_(*readable)
        writable = [self._by_parent(from_, *end, writing=True, owner=owner) for end in ends]
        return and_(or_(*writable), *readable)

    def parameters(self, value: Any) -> dict[str, Any]:
        """Return the values of the criteria's bind parameters for one owner, by name."""
        found = {}
        for belonging in self.belongings.values():
            if belonging.parameter is not None and belonging.column is not None:
                try:
                    found[belonging.parameter.key] = to_column_type(belonging.column, value)
                except ValueError:
                    raise OwnershipError(
                        f"the owner has a value that {belonging.column} cannot have",
                        "give the owner's key: ownership.of(user.id)",
                    ) from None
        return found

    def dialect_like(self, dialect: Any) -> Any:
        """Return the confining dialect for another one: the same each time, with its caches."""
        known = self._dialects.get(id(dialect))
        if known is None:
            with self._lock:
                # the dialect is kept too, so that its id() is not used again
                known = self._dialects[id(dialect)] = (
                    dialect,
                    sqla.confined_dialect(dialect, self),
                )
        return known[1]

    # Checks of confined statements

    def refuse(self, what: str) -> Exception:
        """Return the error for SQL that cannot be confined."""
        return UnconfinedError(what)

    def check_function(self, name: str) -> None:
        """Raise for a function that executes SQL or reads tables by name."""
        folded = name.lower()
        executes = folded in _EXECUTING or folded.startswith(_EXECUTING_PREFIXES)
        is_of_server = re.match(_SERVER_FUNCTION, folded) and not folded.startswith(
            _HARMLESS_PREFIXES
        )
        if executes or is_of_server:
            raise UnconfinedError(f"function {name!r}")

    def check_cte(self, name: str) -> None:
        """Raise for a CTE with the name of an owned table, which criteria would read instead."""
        folded = name.lower()  # PostgreSQL folds names without quotes
        if any(t.name.lower() == folded and t.schema is None for t in self.belongings):
            raise UnconfinedError(f"a CTE with the name of table {name!r}", "give it another name")

    def check_update(self, table: FromClause, names: Collection[str]) -> None:
        """Raise for an UPDATE of the owner's column."""
        belonging = self.belonging_of(_element_of(table))
        column = None if belonging is None else belonging.column
        if column is not None and column.key in names:
            raise UnconfinedError(f"an UPDATE of the owner's column {column}")

    def check_insert(self, table: FromClause, statement: Any, *, nested: bool) -> None:
        """Raise for an INSERT whose rows cannot be checked."""
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
        if not names <= {*target.c.keys()}:  # SQLAlchemy renders them as they are
            raise UnconfinedError(
                f"an upsert into {target.name!r} that sets names which are not keys of columns",
                "give the columns themselves in set_=",
            )
        is_linking = sqla.deannotated_table(target) in self._links
        if is_linking or (belonging is not None and belonging.column is None):
            # other rows decide: a subquery in ON CONFLICT is not correlated to the existing row
            raise UnconfinedError(
                f"an upsert into {target.name!r}",
                "select the rows that are there, update these, and insert the others",
            )
        self.check_update(table, names)

    def check_written(
        self,
        table: FromClause,
        rows: Iterable[Mapping[str, Any]],
        owner: Mapping[str, Any],
        *,
        is_new: bool,
    ) -> None:
        """Raise for rows of another owner, and for new rows of none, just before they are sent.

        Args:
            table: the table that is written.
            rows: the parameters of each row, by name.
            owner: the values of the criteria's parameters, by name.
            is_new: whether the rows are inserted.
        """
        belonging = self.belonging_of(_element_of(table))
        if belonging is None or belonging.column is None or belonging.parameter is None:
            return
        column, expected = belonging.column, owner.get(belonging.parameter.key)
        names = re.compile(rf"{re.escape(column.key)}(_m\d+)?")
        for row in rows:
            given = [value for name, value in row.items() if names.fullmatch(name)]
            if (is_new and not given) or any(to_column_type(column, v) != expected for v in given):
                what = (
                    "an INSERT of another owner's rows into" if is_new else "a change of owner in"
                )
                raise UnconfinedError(f"{what} {belonging.table.name!r}")


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner on whose behalf a session works.

    Attributes:
        ownership: which rows belong to whom.
        value: the owner's key, as the owner's columns have it.

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
        """Return the criterion for the rows of a class that the owner may read.

        Args:
            model: the mapped class.

        Raises:
            UnconfinedError: the ownership does not know the class.
        """
        return self._criterion(model, writing=False)

    def writable(self, model: Model) -> ColumnElement[bool]:
        """Return the criterion for the rows of a class that the owner may update and delete.

        Args:
            model: the mapped class.

        Raises:
            UnconfinedError: the ownership does not know the class.
        """
        return self._criterion(model, writing=True)

    def _criterion(self, model: Model, *, writing: bool) -> ColumnElement[bool]:
        table = cast(Table, inspect(model).local_table)
        found = self.ownership.criterion(table, writing=writing, owner=self.value)
        return true() if found is None else found


def _element_of(from_: Any) -> Any:
    """Return the table behind an alias, or the table itself."""
    while hasattr(from_, "element") and not isinstance(from_, Table):
        from_ = from_.element
    return from_


def _column_in(from_: FromClause, column: Column[Any]) -> ColumnElement[Any]:
    """Return the column in an alias of its table, or in the table itself."""
    return from_.c[column.key]
