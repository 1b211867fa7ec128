"""Effects of a call on rows: the stored values of each row before and after it.

`Recorder` listens to all statements of a transaction, from the unit of work, from hooks, and from
the application's own tools. It reads the rows that an UPDATE or DELETE is about to change, and
other rows that foreign keys change with them, and the same rows again at the end. So it includes
the effects of triggers, defaults and rounding.

>>> with Recorder(session) as recorder:
...     session.get(Recipe, "recipe_1").servings = 8
...     session.flush()
...     [change] = recorder.changes()
>>> change.action, change.changed
('updated', {'servings': ('2', '8')})

Values are the text that the database makes of them (`CAST(value AS TEXT)`), because every type of
PostgreSQL reads its own text back, and a custom type of the application would not. For bytes and
the types in `LEFT_OUT`, only a digest is kept, which shows that they have changed.

Limits: rows that only triggers change, foreign keys that the metadata does not have, SQL as text
and writes in WITH queries are not seen; `Recorder.unseen` lists the statements that may have
changed more. A row that gets another primary key counts as one deleted and one created row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import TracebackType
from typing import Any, Final, Literal, Self

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Delete,
    ForeignKeyConstraint,
    Insert,
    LargeBinary,
    Select,
    Table,
    Text,
    TextClause,
    Update,
    UpdateBase,
    and_,
    bindparam,
    cast,
    event,
    false,
    func,
    literal,
    null,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import SessionTransaction
from sqlalchemy.schema import sort_tables_and_constraints
from sqlalchemy.sql import operators

from alfred_refs import sqla
from alfred_refs.mapping.columns import stored_type
from alfred_refs.session import RefSession
from alfred_refs.tools.edges import rule_of

Image = Mapping[str, str | None]
"""The stored values of a row, as text, by column name."""

KeyValues = tuple[Any, ...]
"""The Python values of a row's primary key."""

LEFT_OUT: Final = ("VECTOR", "HALFVEC", "SPARSEVEC", "BIT")
"""Types with long values that are not text, in addition to bytes: the types of pgvector."""

_WRITES: Final = re.compile(
    r"\b(insert|update|delete|merge|truncate|call|copy|do)\b", re.IGNORECASE
)
_Criterion = tuple[ColumnElement[bool], Mapping[str, Any]]

_UNKNOWN: Final = object()
_NO_VALUES: Final[Mapping[Column[Any], Any]] = {}
_MOST_SETS: Final = 1_000  # parameter sets of a statement; each takes a query


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """The change of one row of a table.

    Attributes:
        table: the table of the row.
        identity: its primary key; all columns, if the table has no primary key.
        before: its values before; `None` if it is new.
        after: its values after; `None` if it was deleted.
    """

    table: Table
    identity: KeyValues = field(repr=False)
    before: Image | None = field(repr=False)
    after: Image | None = field(repr=False)

    @property
    def action(self) -> Literal["created", "updated", "deleted"]:
        """`"created"`, `"updated"` or `"deleted"`."""
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "updated"

    @property
    def changed(self) -> dict[str, tuple[str | None, str | None]]:
        """The changed columns of an updated row, each with its values before and after."""
        before, after = self.before or {}, self.after or {}
        return {
            name: (before[name], after[name])
            for name in before
            if name in after and before[name] != after[name]
        }

    @property
    def key(self) -> dict[str, str | None]:
        """The primary key as text, by column."""
        image = self.before or self.after or {}
        return {each.name: image.get(each.name) for each in images_of(self.table).key}

    @property
    def left_out(self) -> Sequence[str]:
        """The columns whose values are not kept."""
        return images_of(self.table).left_out


@dataclass(frozen=True, slots=True)
class _Edge:
    """A foreign key by which the database changes referring rows.

    Attributes:
        table: the table of the referring rows.
        constraint: the foreign key.
        deletes: whether the database deletes them.
    """

    table: Table
    constraint: ForeignKeyConstraint
    deletes: bool

    def values(
        self, values: Mapping[Column[Any], Any], *, deletes: bool
    ) -> Mapping[Column[Any], Any]:
        """Return the values that the columns of the foreign key get.

        Args:
            values: the new values of the referenced columns.
            deletes: whether the referenced rows are deleted.
        """
        rule = rule_of(self.constraint.ondelete if deletes else self.constraint.onupdate)
        found: dict[Column[Any], Any] = {}
        for element in self.constraint.elements:
            if deletes or element.column in values:
                if rule == "CASCADE" and not deletes:
                    found[element.parent] = values[element.column]
                elif rule in ("SET NULL", "SET DEFAULT"):
                    is_null = rule == "SET NULL" or element.parent.server_default is None
                    found[element.parent] = None if is_null else _UNKNOWN
        return found

    def rows_of(self, referred: ColumnElement[bool]) -> ColumnElement[bool]:
        """Return the criterion for rows that refer to rows that match a criterion."""
        elements = self.constraint.elements
        target = select(*(each.column for each in elements)).where(referred)
        ours = [each.parent for each in elements]
        return (ours[0] if len(ours) == 1 else tuple_(*ours)).in_(target)


class _Images:
    """The statements that read the rows of a table; one object per table."""

    def __init__(self, table: Table) -> None:
        self.key: Sequence[Column[Any]] = [*table.primary_key] or [*table.columns]
        self.left_out = [c.name for c in table.columns if is_left_out(c)]
        self._table = table
        self._has_key = bool(table.primary_key)
        self._names = [column.name for column in table.columns]
        # rows without a key are identified by their columns as text, as not all types have an `=`
        # operator
        self._keys: Sequence[ColumnElement[Any]] = (
            self.key if self._has_key else [cast(each, Text) for each in self.key]
        )
        self.statement: Select[Any] = select(*self._keys, *map(_kept, table.columns))

    @cached_property
    def vital(self) -> list[Column[Any]]:
        """The columns of the primary key, and others that foreign keys in `edges` refer to."""
        referred = [each.column for edge in self.edges for each in edge.constraint.elements]
        return list(dict.fromkeys([*self.key, *referred]))

    @cached_property
    def edges(self) -> list[_Edge]:
        """The foreign keys with ON DELETE or ON UPDATE that refer to the table."""
        return [
            _Edge(table, constraint, rule_of(constraint.ondelete) == "CASCADE")
            for table in self._table.metadata.tables.values()
            for constraint in table.foreign_key_constraints
            if constraint.referred_table is self._table
            and (_acts(constraint.ondelete) or _acts(constraint.onupdate))
        ]

    @cached_property
    def of_keys(self) -> ColumnElement[bool]:
        """The criterion for rows with a primary key in the parameter `keys`."""
        keys: BindParameter[Any] = bindparam("keys", expanding=True)
        return (self.key[0] if len(self.key) == 1 else tuple_(*self.key)).in_(keys)

    @cached_property
    def statement_of_keys(self) -> Select[Any]:
        """The SELECT with that criterion, kept so that SQLAlchemy computes its cache key once."""
        return self.statement.where(self.of_keys)

    def criterion(self, identities: Iterable[KeyValues]) -> _Criterion:
        """Return the criterion for rows with these primary keys, and its parameters."""
        if not self._has_key:
            return or_(false(), *map(self._is, identities)), {}
        is_one = len(self.key) == 1
        return self.of_keys, {"keys": [each[0] if is_one else each for each in identities]}

    def where(self, criterion: ColumnElement[bool]) -> Select[Any]:
        """Return the SELECT with a criterion."""
        is_kept = self._has_key and criterion is self.of_keys
        return self.statement_of_keys if is_kept else self.statement.where(criterion)

    def alike(self, given: Mapping[str, Any]) -> ColumnElement[bool] | None:
        """Return the criterion for rows without a key that equal inserted values.

        `None` if the database computes some of the values.
        """
        values = []
        for column in self.key:
            is_set = column.default is not None or column.server_default is not None
            if column.key not in given and (is_set or column.computed is not None):
                return None
            value = given.get(column.key)
            values.append(self._text(column, value))
        return self._is(values)

    def moved(
        self, identities: Iterable[KeyValues], values: Mapping[Column[Any], Any]
    ) -> ColumnElement[bool]:
        """Return the criterion for rows without a key after an update of some columns."""
        new = {column: self._text(column, value) for column, value in values.items()}
        rows = ([new.get(c, old) for c, old in zip(self.key, i, strict=False)] for i in identities)
        return or_(false(), *map(self._is, rows))

    @staticmethod
    def _text(column: Column[Any], value: Any) -> ColumnElement[Any]:
        return null() if value is None else cast(literal(value, column.type), Text)

    def _is(self, values: Sequence[Any]) -> ColumnElement[bool]:
        pairs = zip(self._keys, values, strict=False)
        return and_(*(column.is_not_distinct_from(value) for column, value in pairs))

    def images(self, rows: Iterable[Sequence[Any]]) -> dict[KeyValues, Image]:
        """Return rows of `statement`, by primary key.

        Equal rows without a key are numbered.
        """
        found, size = dict[KeyValues, Image](), len(self.key)
        for row in rows:
            identity, image = tuple(row[:size]), dict(zip(self._names, row[size:], strict=True))
            number = 1
            while not self._has_key and (*identity, number) in found:
                number += 1
            found[identity if self._has_key else (*identity, number)] = image
        return found


def _kept(column: Column[Any]) -> ColumnElement[Any]:
    text = cast(column, Text)
    return func.md5(text) if is_left_out(column) else text


def _acts(rule: str | None) -> bool:
    return rule_of(rule) in ("CASCADE", "SET NULL", "SET DEFAULT")


@lru_cache(1_000)
def images_of(table: Table) -> _Images:
    """Return the `_Images` of a table, whose statements SQLAlchemy caches."""
    return _Images(table)


def is_left_out(column: Column[Any]) -> bool:
    """Return whether only a digest of a column's values is kept: bytes and vectors."""
    type_ = stored_type(column.type)
    return isinstance(type_, LargeBinary) or type(type_).__visit_name__.upper() in LEFT_OUT


def ordered(tables: Iterable[Table]) -> list[Table]:
    """Sort tables so that referenced tables come first."""
    by_name = sorted(tables, key=lambda table: table.fullname)
    found = sort_tables_and_constraints(by_name)  # type: ignore[no-untyped-call]
    return [table for table, _ in found if table is not None]


class Recorder:
    """Records the changes of a transaction to rows, inside its `with` block.

    Args:
        session: the session; transactions and savepoints are recorded if they begin inside the
            block.

    Attributes:
        connections: the connections of the transaction.
        unseen: descriptions of statements that may have changed rows that are not recorded.
    """

    def __init__(self, session: RefSession) -> None:
        self._session = session
        self.connections: dict[Connection, None] = {}
        self._connection_of: dict[Table, Connection] = {}
        self._before: dict[Table, dict[KeyValues, Image]] = {}
        self._created: dict[Table, dict[KeyValues, None]] = {}
        # criteria of inserted rows without a key
        self._added: list[tuple[Table, ColumnElement[bool]]] = []
        self._is_reading = False
        self.unseen: dict[str, None] = {}

    def __enter__(self) -> Self:
        event.listen(self._session, "after_begin", self._join)
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        __: BaseException | None,
        ___: TracebackType | None,
    ) -> None:
        event.remove(self._session, "after_begin", self._join)
        for connection in self.connections:
            event.remove(connection, "before_execute", self._before_execute)
            event.remove(connection, "after_execute", self._after_execute)
        self.connections.clear()

    def changes(self) -> list[RecordedChange]:
        """Return the changes so far: one statement for each table.

        Unchanged rows are left out; referenced rows come first.
        """
        found = []
        for table, criterion in self._added:
            self._created.setdefault(table, {}).update(dict.fromkeys(self._read(table, criterion)))
        for table in ordered({*self._before, *self._created}):
            before, created = self._before.get(table, {}), self._created.get(table, {})
            identities = [*before, *(each for each in created if each not in before)]
            images, after = images_of(table), dict[KeyValues, Image]()
            for start in range(0, len(identities), _MOST_SETS):
                part = identities[start : start + _MOST_SETS]
                after |= self._read(table, *images.criterion(part))
            for identity in identities:
                was, is_ = before.get(identity), after.get(identity)
                if was != is_:
                    found.append(RecordedChange(table, identity, was, is_))
        return found

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not listen inside the `with`; the caller calls `note` for its changes."""
        before, self._is_reading = self._is_reading, True
        try:
            yield
        finally:
            self._is_reading = before

    def note(
        self,
        connection: Connection,
        table: Table,
        rows: Mapping[KeyValues, Image],
        *,
        new: bool = False,
    ) -> None:
        """Record rows that the caller is about to change or, with `new`, has inserted."""
        self._connection_of[table] = connection
        if new:
            self._created.setdefault(table, {}).update(dict.fromkeys(rows))
        else:
            self._before.setdefault(table, {}).update(rows)

    # Listening

    def _join(self, _: object, __: SessionTransaction, connection: Connection) -> None:
        if connection not in self.connections:
            self.connections[connection] = None
            event.listen(connection, "before_execute", self._before_execute)
            event.listen(connection, "after_execute", self._after_execute)

    def _before_execute(
        self, connection: Connection, element: Any, many: Any, one: Any, _: object
    ) -> None:
        if self._is_reading:
            return
        if isinstance(element, UpdateBase):
            table, sets = self._table_of(element, connection), [*many] or [one or {}]
            if table is None:
                return
            if isinstance(element, Insert):
                self._before_insert(table, sets)
            elif isinstance(element, Update | Delete):
                self._before_change(table, element, sets)
            return
        text = element if isinstance(element, str) else getattr(element, "text", "")
        is_text = isinstance(element, str | TextClause)
        if is_text and _WRITES.search(text) and "alfred_refs_" not in text:
            self.unseen["SQL as text"] = None

    def _before_change(
        self, table: Table, statement: Update | Delete, sets: Sequence[Mapping[str, Any]]
    ) -> None:
        deletes = isinstance(statement, Delete)
        vital = {} if deletes else _vital_values(statement, table, sets)
        if not vital:
            for criterion, parameters in _criteria(statement, table, sets):
                self._look(table, criterion, parameters, deletes=deletes)
        for each, values in vital.items():
            for criterion, parameters in _criteria(statement, table, [sets[each]]):
                self._look(table, criterion, parameters, values, deletes=False)

    def _before_insert(self, table: Table, sets: Sequence[Mapping[str, Any]]) -> None:
        """Read the existing rows that equal new rows without a key."""
        for each in () if table.primary_key else sets:
            alike = images_of(table).alike(each)
            if alike is not None:
                self._look(table, alike, {}, deletes=False)
                self._added.append((table, alike))

    def _after_execute(
        self, connection: Connection, element: Any, many: Any, one: Any, _: object, result: Any
    ) -> None:
        if self._is_reading:
            return
        # a compiled statement lists all its WITH queries, at any depth
        queries = getattr(getattr(result.context, "compiled", None), "ctes", None) or ()
        if any(isinstance(each.element, UpdateBase) for each in queries):
            self.unseen["a write in a WITH query"] = None
        if not isinstance(element, Insert):
            return
        table = self._table_of(element, connection)
        if table is None:
            return
        sets = [*many] or [one or {}]
        identities = _inserted(table, element, sets, result) if table.primary_key else []
        if not table.primary_key and any(images_of(table).alike(each) is None for each in sets):
            identities = None
        if identities is None:
            self.unseen[f"an INSERT into {table.name}"] = None
        else:
            self._created.setdefault(table, {}).update(dict.fromkeys(identities))

    def _table_of(self, statement: Any, connection: Connection) -> Table | None:
        table = sqla.underlying_table(sqla.write_target(statement)[0])
        if table is None or table.name.startswith("alfred_refs_"):
            return None
        self._connection_of[table] = connection
        return table

    def _look(
        self,
        table: Table,
        criterion: ColumnElement[bool],
        parameters: Any,
        values: Mapping[Column[Any], Any] = _NO_VALUES,
        *,
        deletes: bool,
    ) -> None:
        """Read the rows that a statement, and foreign keys with it, may change.

        These may be too many: `changes` leaves out unchanged rows.

        Args:
            table: the table of the rows.
            criterion: selects the rows.
            parameters: the parameters of the criterion.
            values: the new values of key columns.
            deletes: whether the rows are deleted.
        """
        images, known = images_of(table), self._before.setdefault(table, {})
        created = self._created.setdefault(table, {})
        read = self._read(table, criterion, parameters)
        fresh = {i: each for i, each in read.items() if i not in known and i not in created}
        known.update(fresh)
        if not read:
            return
        if any(column in values for column in images.key):
            if _UNKNOWN in values.values():
                self.unseen[f"new keys in {table.name}"] = None
            elif table.primary_key:
                created.update(
                    (tuple(values.get(c, old) for c, old in zip(images.key, i, strict=True)), None)
                    for i in read
                )
            else:
                self._added.append((table, images.moved(read, values)))
        of_these, keys = images.criterion(read)
        for edge in images.edges:
            self._connection_of.setdefault(edge.table, self._connection_of[table])
            if edge.table is not table or fresh:
                self._look(
                    edge.table,
                    edge.rows_of(of_these),
                    keys,
                    edge.values(values, deletes=deletes),
                    deletes=deletes and edge.deletes,
                )

    def _read(
        self, table: Table, criterion: ColumnElement[bool], parameters: Any = None
    ) -> dict[KeyValues, Image]:
        images = images_of(table)
        connection = self._connection_of[table]
        with (
            self.paused(),
            sqla.unconfined_lookup(self._session),
            sqla.portable_texts(connection),
        ):
            rows = connection.execute(images.where(criterion), parameters or {})
            return images.images(rows)


def _criteria(
    statement: Any, table: Table, sets: Sequence[Mapping[str, Any]]
) -> Iterator[_Criterion]:
    """Yield criteria for the rows that a statement changes, with their parameters.

    The statements of a flush select rows by equality, so one query reads all of them.
    """
    criterion = statement.whereclause
    if criterion is None:
        criterion = true()
    key, names = images_of(table).key, dict[Any, str]()
    if getattr(criterion, "operator", None) in (operators.and_, operators.eq):
        pairs = sqla.equalities_in(criterion, table)
        names = {column: other.key for column, other in pairs if hasattr(other, "key")}
    columns = key if table.primary_key else [*names]
    if columns and all(names.get(c) in each for c in columns for each in sets):
        values = [tuple(each[names[c]] for c in columns) for each in sets]
        if table.primary_key:
            yield images_of(table).criterion(values)
        else:
            yield sqla.in_keys(columns, values), {}
        return
    for each in sets:
        yield criterion, each


def _vital_values(
    statement: Any, table: Table, sets: Sequence[Mapping[str, Any]]
) -> dict[int, dict[Column[Any], Any]]:
    """Return the values that an UPDATE sets in vital columns, by index of the parameter set."""
    vital = images_of(table).vital
    fixed = {
        getattr(getattr(column, "expression", column), "name", column): value
        for column, value in sqla.values_of(statement)
    }
    found: dict[int, dict[Column[Any], Any]] = {}
    for number, each in enumerate(sets):
        for column in vital:
            value = fixed.get(column.name)
            if column.key in each:
                found.setdefault(number, {})[column] = each[column.key]
            elif isinstance(value, BindParameter):
                found.setdefault(number, {})[column] = each.get(value.key, value.value)
            elif value is not None:
                found.setdefault(number, {})[column] = _UNKNOWN
    return found if not found else {n: found.get(n, {}) for n in range(len(sets))}


def _inserted(
    table: Table, statement: Insert, sets: Sequence[Mapping[str, Any]], result: CursorResult[Any]
) -> list[KeyValues] | None:
    """Return the primary keys of inserted rows; `None` if they are unknown."""
    if sqla.update_on_conflict(statement) is not None:
        return None
    key = images_of(table).key
    rows: list[Sequence[Any]] = []
    with suppress(InvalidRequestError):  # raised for an explicit RETURNING
        rows = [tuple(each or ()) for each in result.inserted_primary_key_rows]
    if not rows or any(None in each for each in rows):
        rows = [*sqla.returned_identities(result, [*table.primary_key])]
    if not rows:
        rows = [
            [each[column.key] for column in key]
            for each in sets
            if all(column.key in each for column in key)
        ]
        if len(rows) < len(sets):
            return None
    return [tuple(each) for each in rows]
