"""What a call does to rows: the stored values of each row before and after it.

`Recorder` listens to the statements of a transaction, whoever sends them: the unit of work, a
hook, or the application's own tool. It reads the rows that an UPDATE or DELETE is about to change,
with those that foreign keys change along, and the same rows again at the end. So it knows what
triggers, defaults and rounding have made of a value.

>>> with Recorder(session) as recorder:
...     session.get(Recipe, "recipe_1").servings = 8
...     session.flush()
...     [change] = recorder.changes()
>>> change.action, change.changed
('updated', {'servings': ('2', '8')})

Values are the text that the database makes of them (`CAST(value AS TEXT)`), because every type of
PostgreSQL reads its own text back, and a custom type of the application would not.

Limits: rows that only triggers change, foreign keys that the metadata does not have, and SQL as
text are not seen; `Recorder.unseen` says which statements may have changed more. Bytes, and types
named in `LEFT_OUT`, are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, Final, Literal, Self
from weakref import WeakKeyDictionary

from sqlalchemy import (
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
    cast,
    event,
    select,
    true,
    tuple_,
)
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import SessionTransaction
from sqlalchemy.schema import sort_tables_and_constraints
from sqlalchemy.sql.operators import and_, eq

from alfred_refs import sqla
from alfred_refs.mapping import undecorated_type
from alfred_refs.session import RefSession

Image = Mapping[str, str | None]
"""The stored values of a row, as text, by the name of the column."""

Identity = tuple[Any, ...]
"""The values of a row's primary key, as Python has them."""

LEFT_OUT: Final = ("VECTOR", "HALFVEC", "SPARSEVEC", "BIT")
"""Types whose values are long and are no text, besides bytes: those of pgvector."""

_WRITES: Final = re.compile(
    r"\b(insert|update|delete|merge|truncate|call|copy|do)\b", re.IGNORECASE
)
_MOST_SETS: Final = 1_000  # parameter sets of a statement, each of which needs a query


@dataclass(frozen=True, slots=True)
class RowChange:
    """What was done to one row of a table.

    Attributes:
        table: of the row.
        identity: its primary key; all columns, where the table has none.
        before: its values before; `None` if it is new.
        after: its values after; `None` if it is gone.
    """

    table: Table
    identity: Identity = field(repr=False)
    before: Image | None = field(repr=False)
    after: Image | None = field(repr=False)

    @property
    def action(self) -> Literal["created", "updated", "deleted"]:
        """What was done."""
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "updated"

    @property
    def changed(self) -> dict[str, tuple[str | None, str | None]]:
        """The columns of an updated row whose values differ: those before and after."""
        before, after = self.before or {}, self.after or {}
        return {
            name: (before[name], after[name])
            for name in before
            if name in after and before[name] != after[name]
        }

    @property
    def key(self) -> dict[str, str | None]:
        """The text of the primary key, by column."""
        image = self.before or self.after or {}
        return {each.name: image.get(each.name) for each in images_of(self.table).key}

    @property
    def left_out(self) -> Sequence[str]:
        """The columns whose values are not kept."""
        return images_of(self.table).left_out


@dataclass(frozen=True, slots=True)
class _Edge:
    """A foreign key whose rows the database changes along.

    Attributes:
        table: of the referring rows.
        constraint: the foreign key.
        deletes: whether they are deleted.
    """

    table: Table
    constraint: ForeignKeyConstraint
    deletes: bool

    def rows_of(self, referred: ColumnElement[bool]) -> ColumnElement[bool]:
        """Return the criterion of the rows that refer to those that meet another."""
        elements = self.constraint.elements
        target = select(*(each.column for each in elements)).where(referred)
        ours = [each.parent for each in elements]
        return (ours[0] if len(ours) == 1 else tuple_(*ours)).in_(target)


class _Images:
    """How the rows of a table are read: made once for each."""

    def __init__(self, table: Table) -> None:
        self.key: Sequence[Column[Any]] = [*table.primary_key] or [*table.columns]
        self.columns = [column for column in table.columns if not is_left_out(column)]
        self.left_out = [c.name for c in table.columns if is_left_out(c)]
        self.statement: Select[Any] = select(
            *self.key, *(cast(each, Text) for each in self.columns)
        )
        self._table = table

    @cached_property
    def edges(self) -> list[_Edge]:
        """The foreign keys with ON DELETE or ON UPDATE that refer to the table."""
        return [
            _Edge(table, constraint, _rule(constraint.ondelete) == "CASCADE")
            for table in self._table.metadata.tables.values()
            for constraint in table.foreign_key_constraints
            if constraint.referred_table is self._table
            and (_acts(constraint.ondelete) or _acts(constraint.onupdate))
        ]

    def image(self, row: Sequence[Any]) -> tuple[Identity, Image]:
        """Return the primary key and the values of a row of `statement`."""
        size = len(self.key)
        names = (column.name for column in self.columns)
        return tuple(row[:size]), dict(zip(names, row[size:], strict=True))


def _rule(rule: str | None) -> str:
    return (rule or "").upper().partition("(")[0].strip()


def _acts(rule: str | None) -> bool:
    return _rule(rule) in ("CASCADE", "SET NULL", "SET DEFAULT")


_IMAGES: WeakKeyDictionary[Table, _Images] = WeakKeyDictionary()


def images_of(table: Table) -> _Images:
    """Return how the rows of a table are read."""
    images = _IMAGES.get(table)
    if images is None:
        images = _IMAGES[table] = _Images(table)
    return images


def is_left_out(column: Column[Any]) -> bool:
    """Return whether the values of a column are not kept: bytes and vectors."""
    type_ = undecorated_type(column.type)
    return isinstance(type_, LargeBinary) or type(type_).__visit_name__.upper() in LEFT_OUT


def ordered(tables: Iterable[Table]) -> list[Table]:
    """Return tables so that those come first that others refer to."""
    by_name = sorted(tables, key=lambda table: table.fullname)
    found = sort_tables_and_constraints(by_name)  # type: ignore[no-untyped-call]
    return [table for table, _ in found if table is not None]


class Recorder:
    """Records what a transaction does to rows, as long as its `with` is open.

    Args:
        session: its transactions and savepoints are listened to from their beginning; one that
            has begun already is not.

    Attributes:
        connections: those of the transaction.
        unseen: what may have changed rows that are not recorded, in words.
    """

    def __init__(self, session: RefSession) -> None:
        self._session = session
        self.connections: dict[Connection, None] = {}
        self._connection_of: dict[Table, Connection] = {}
        self._before: dict[Table, dict[Identity, Image]] = {}
        self._created: dict[Table, dict[Identity, None]] = {}
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

    def changes(self) -> list[RowChange]:
        """Return what was done so far: one statement for each table.

        Rows that are as they were before are left out; rows that others refer to come first.
        """
        found = []
        for table in ordered({*self._before, *self._created}):
            before, created = self._before.get(table, {}), self._created.get(table, {})
            identities = [*before, *(each for each in created if each not in before)]
            images, after = images_of(table), dict[Identity, Image]()
            for start in range(0, len(identities), _MOST_SETS):
                part = identities[start : start + _MOST_SETS]
                after |= self._read(table, sqla.in_keys(images.key, part))
            for identity in identities:
                was, is_ = before.get(identity), after.get(identity)
                if was != is_:
                    found.append(RowChange(table, identity, was, is_))
        return found

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Listen to nothing inside the `with`: the caller notes what it changes."""
        before, self._is_reading = self._is_reading, True
        try:
            yield
        finally:
            self._is_reading = before

    def note(
        self,
        connection: Connection,
        table: Table,
        rows: Mapping[Identity, Image],
        *,
        new: bool = False,
    ) -> None:
        """Record rows that the caller is about to change, or, with `new`, has inserted."""
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
        if isinstance(element, Update | Delete):
            table = self._table_of(element, connection)
            if table is not None:
                criteria = _criteria(element, table, [*many] or [one or {}])
                for criterion, parameters in criteria:
                    self._look(table, criterion, parameters, deletes=isinstance(element, Delete))
        elif not isinstance(element, Insert):
            text = element if isinstance(element, str) else getattr(element, "text", "")
            is_text = isinstance(element, str | TextClause)
            if is_text and _WRITES.search(text) and "alfred_refs_" not in text:
                self.unseen["SQL as text"] = None

    def _after_execute(
        self, connection: Connection, element: Any, many: Any, one: Any, _: object, result: Any
    ) -> None:
        if self._is_reading or not isinstance(element, Insert):
            return
        table = self._table_of(element, connection)
        if table is None:
            return
        identities = _inserted(table, element, [*many] or [one or {}], result)
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
        self, table: Table, criterion: ColumnElement[bool], parameters: Any, *, deletes: bool
    ) -> None:
        """Read rows that a statement is about to change, and those that change along.

        It may be more rows than are changed: `changes` leaves out those that stay as they were.
        """
        images, known = images_of(table), self._before.setdefault(table, {})
        created = self._created.get(table, {})
        read = self._read(table, criterion, parameters)
        fresh = {i: each for i, each in read.items() if i not in known and i not in created}
        known.update(fresh)
        if not read:
            return
        of_these = sqla.in_keys(images.key, [*read])
        for edge in images.edges:
            self._connection_of.setdefault(edge.table, self._connection_of[table])
            if edge.table is not table or fresh:
                self._look(
                    edge.table, edge.rows_of(of_these), {}, deletes=deletes and edge.deletes
                )

    def _read(
        self, table: Table, criterion: ColumnElement[bool], parameters: Any = None
    ) -> dict[Identity, Image]:
        images = images_of(table)
        with self.paused(), sqla.unconfined_lookup(self._session):
            rows = self._connection_of[table].execute(
                images.statement.where(criterion), parameters or {}
            )
            return dict(map(images.image, rows))


def _criteria(
    statement: Any, table: Table, sets: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[ColumnElement[bool], Mapping[str, Any]]]:
    """Yield the criteria of the rows that a statement changes, with their parameters.

    The statements of a flush name rows by their primary keys, so that one query reads them all.
    """
    criterion = statement.whereclause
    if criterion is None:
        criterion = true()
    key, names = images_of(table).key, dict[Any, str]()
    if getattr(criterion, "operator", None) in (and_, eq):
        pairs = sqla.equalities_in(criterion, table)
        names = {column: other.key for column, other in pairs if hasattr(other, "key")}
    if all(names.get(column) in each for column in key for each in sets):
        yield sqla.in_keys(key, [[each[names[c]] for c in key] for each in sets]), {}
        return
    for each in sets:
        yield criterion, each


def _inserted(
    table: Table, statement: Insert, sets: Sequence[Mapping[str, Any]], result: CursorResult[Any]
) -> list[Identity] | None:
    """Return the primary keys of inserted rows; `None` if they are not known."""
    if sqla.update_on_conflict(statement) is not None:
        return None
    key = images_of(table).key
    rows: list[Sequence[Any]] = []
    if table.primary_key:
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
