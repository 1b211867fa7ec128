"""Which rows a read is about, in which order, and how it goes on after the last one shown.

Checked arguments and what hooks added come in; conditions and the order of a statement go out, in
refs. Where a read stopped is a `Cursor`: a text that the model gives back, and that has no key. It
belongs to one question: a digest tells whether it comes with another one. It is no secret, and is
checked like any other value of a model's. Pure.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    case,
    literal,
    null,
    or_,
    select,
)
from sqlalchemy.orm import aliased

from alfred_refs.mapping.column_types import UnfitValueError, Values
from alfred_refs.mapping.guard import find_keys
from alfred_refs.mapping.keys import Key
from alfred_refs.tools.errors import (
    ToolError,
    invalid_arguments,
    invalid_cursor,
    invalid_order,
    unknown_column,
)
from alfred_refs.tools.tables.hooks import Reading
from alfred_refs.tools.tables.table import ToolColumn, ToolTable
from alfred_refs.tools.wire.arguments import DbRead
from alfred_refs.tools.wire.repair import repaired

from .filters import Condition, Conditions, comparable, operand

_LONGEST = 200  # characters of one value: a model repeats the cursor letter by letter


class Cursor(BaseModel):
    """Where a read stopped.

    Attributes:
        question: a digest of what was asked.
        after: what the last row had in the columns of the order, as JSON; `None` where one of
            these is not to be `may_carry`: they are looked up then.
        seen: a digest of what the last row had, where that is looked up.
        ref: the last row's ref.
        shown: how many rows were shown, where a hook gave the order.
        draft: the number of the last draft, where no row was shown yet.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    after: list[Any] | None = []
    seen: str | None = None
    ref: str | None = None
    shown: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    draft: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    version: Literal[1] = 1

    def __str__(self) -> str:
        text = self.model_dump_json(exclude_defaults=True)
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def may_carry(values: Values, value: Any) -> bool:
    """Tell whether a cursor may have a value, and gives it back as the database has it.

    It may be short, and have no key in it. Of days at the ends of the calendar nobody knows: some
    drivers have infinity there, and in another time zone they are none; and psycopg has no time at
    all for an infinite one.
    """
    shown = values.show(value)
    if isinstance(shown, str) and (len(shown) > _LONGEST or find_keys(shown)):
        return False
    if not values.exact or getattr(value, "year", None) in (dt.MINYEAR, dt.MAXYEAR):
        return value is None
    if value == dt.timedelta():
        return False
    try:
        return bool(values.accept(shown) == value)
    except UnfitValueError:  # as infinity, and what is not a number
        return False


def question_of(read: DbRead) -> str:
    """Return a digest of what a cursor belongs to: all but how much is shown of it."""
    shown = {"cursor", "limit", "columns"} | (set() if read.drafts else {"drafts"})
    return _digest_of(read.model_dump(exclude=shown, mode="json"))


def _digest_of(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()


def cursor_of(read: DbRead) -> Cursor | None:
    """Return the cursor that a read goes on from.

    Raises:
        ToolError: it is none, or belongs to another question.
    """
    if read.cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(read.cursor + "=" * (-len(read.cursor) % 4))
        cursor = Cursor.model_validate(repaired(json.loads(text)))
    except (ValueError, RecursionError, ToolError):
        raise invalid_cursor() from None
    if cursor.question != question_of(read):
        raise invalid_cursor()
    return cursor


@dataclass(frozen=True, slots=True)
class Order:
    """In which order rows are read: by columns, then by primary key, so that no two are equal.

    Attributes:
        columns: the first of the order -> whether the greatest of it comes first; rows without a
            value come last either way.
        descending: the same of the key.
    """

    table: ToolTable
    columns: Mapping[ToolColumn, bool]
    descending: bool

    def by(self) -> list[ColumnElement[Any]]:
        """Return what a statement is ordered by."""
        model = self.table.model
        given = [
            _directed(comparable(getattr(model, column.name)), descending=descending).nulls_last()
            for column, descending in self.columns.items()
        ]
        own = (getattr(model, name) for name in self.table.identity)
        return [*given, *(_directed(each, descending=self.descending) for each in own)]

    def beyond(self, cursor: Cursor, key: Key) -> Condition:
        """Return that a row comes after the one where a read stopped.

        Raises:
            ToolError: the cursor has not what this order needs.
        """
        parts = self.table.parts_of(key)
        if not parts:
            raise invalid_cursor()
        model = self.table.model
        beyond = self._after_all([getattr(model, name) for name in self.table.identity], parts)
        order = reversed([*self.columns.items()])
        if cursor.after is None:
            for column, descending in order:
                last = self._looked_up(column, parts)
                attribute = comparable(getattr(model, column.name))
                further = attribute < last if descending else attribute > last
                without = and_(attribute.is_(null()), last.is_not(null()))
                same = and_(attribute.is_not_distinct_from(last), beyond)
                beyond = or_(further, without, same)
            return beyond
        values = reversed(self._values(cursor.after))
        for (column, descending), value in zip(order, values, strict=True):
            attribute = comparable(getattr(model, column.name))
            beyond = _after(attribute, value, beyond, descending=descending)
        return beyond

    def place(self, key: Key) -> Select[Any]:
        """Return a statement of what orders the row where a read stopped, if it is there."""
        model = self.table.model
        columns = (getattr(model, column.name) for column in self.columns)
        is_row = self._is_row(model, self.table.parts_of(key))
        return select(literal(1), *columns).select_from(model).where(*is_row)

    def seen(self, values: Iterable[Any]) -> str:
        """Return a digest of what a row has in the columns of the order."""
        return _digest_of(
            [column.values.show(each) for column, each in zip(self.columns, values, strict=True)]
        )

    def _looked_up(self, column: ToolColumn, parts: Sequence[Any]) -> Any:
        """Return what the last row has in a column now."""
        row = aliased(self.table.model)
        last = select(comparable(getattr(row, column.name))).where(*self._is_row(row, parts))
        return last.scalar_subquery()

    def _is_row(self, entity: Any, parts: Sequence[Any]) -> list[Condition]:
        identity = zip(self.table.identity, parts, strict=True)
        return [getattr(entity, name) == part for name, part in identity]

    def _values(self, after: Sequence[Any]) -> list[Any]:
        if len(after) != len(self.columns):
            raise invalid_cursor()
        try:
            return [
                column.accept(value) for column, value in zip(self.columns, after, strict=True)
            ]
        except ToolError:
            raise invalid_cursor() from None

    def _after_all(self, attributes: Sequence[Any], parts: Sequence[Any]) -> Condition:
        first, *others = attributes
        value, *rest = parts
        further: Condition = first < value if self.descending else first > value
        if not others:
            return further
        return or_(further, and_(first == value, self._after_all(others, rest)))


def _directed(attribute: Any, *, descending: bool) -> Any:
    return attribute.desc() if descending else attribute.asc()


def _after(attribute: Any, value: Any, rest: Condition, *, descending: bool) -> Condition:
    if value is None:
        return and_(attribute.is_(null()), rest)
    # a boolean by itself has no order to SQLAlchemy
    last = operand(attribute, literal(value, attribute.type))
    further = attribute < last if descending else attribute > last
    return or_(further, attribute.is_(null()), and_(attribute == last, rest))


@dataclass(frozen=True, slots=True)
class GivenOrder:
    """The order of keys or refs that a hook gave; decided by the database, as is what is shown."""

    table: ToolTable
    keys: Sequence[Any]

    def by(self) -> list[ColumnElement[Any]]:
        """Return what a statement is ordered by."""
        own = getattr(self.table.model, self.table.own or "")
        return [case(*((own == key, place) for place, key in enumerate(self.keys)))]


def directions_of(read: DbRead) -> list[tuple[str, bool]]:
    """Return what is to be ordered by, each with whether the greatest comes first."""
    asked, directions = read.order_by or [], read.order_dir
    names = [asked] if isinstance(asked, str) else asked
    if not isinstance(directions, list):
        directions = [directions] * len(names)
    elif len(directions) != len(names):
        raise invalid_arguments("it has not one direction for each of order_by", "order_dir")
    return [(name, each == "desc") for name, each in zip(names, directions, strict=True)]


def order_of(read: Reading, table: ToolTable) -> Order:
    """Return the order that a model asked for.

    What comes after a row's own ref orders nothing: no two rows have the same.
    """
    columns: dict[ToolColumn, bool] = {}
    descending = read.arguments.order_dir == "desc"
    for name, descending in directions_of(read.arguments):
        if name == table.own:
            return Order(table, columns, descending)
        columns.setdefault(_orderable(name, table), descending)
    return Order(table, columns, descending)


def _orderable(name: str, table: ToolTable) -> ToolColumn:
    usable = [each.name for each in table.columns.values() if each.values.ordered]
    column = table.columns.get(name)
    if column is None:
        raise unknown_column(table.name, name, usable)
    if not column.values.ordered:
        fact = "holds refs" if column.values.family == "ref" else "has values without an order"
        raise invalid_order(name, fact, usable)
    return column


def rows_asked_for(read: Reading, table: ToolTable, conditions: Conditions) -> list[Condition]:
    """Return what rows must meet: filters, or-filters, and what hooks added."""
    arguments = read.arguments
    asked = conditions.all_of(arguments.filters, table)
    if arguments.or_filters:
        asked.append(or_(*conditions.all_of(arguments.or_filters, table)))
    if read.or_conditions and asked:
        asked = [or_(and_(*asked), *read.or_conditions)]
    return [*asked, *read.conditions]
