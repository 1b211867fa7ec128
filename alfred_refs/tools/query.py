"""Statements of `db_read`: order, cursors, totals.

- `order_of` returns the ORDER BY of a read: the columns that the model names, then the primary
  key, so that the order is total. Rows without a value come last in either direction.
- A `Cursor` is the place where a read stopped, as text that the model passes back. It contains the
  values of the last row and its ref, never a key, and a digest of the read, so that it cannot be
  used with another read. It is not secret and is validated like any other argument.
- `totals_of` reads functions from `columns`; columns next to totals are groups.
  `TotalsReader` runs the statement:

>>> asked = {"table": "lines", "columns": ["recipe_id", "count(*)", "max(position)"]}
>>> toolset.call(session, "db_read", asked)
{'table': 'lines', 'totals': [{'recipe_id': 'recipe_1', 'count(*)': 2, 'max(position)': 2,
'_recipe_id_label': 'Soup'}], 'more': False}
>>> totals = totals_of(DbRead(**asked), toolset.tables.by_name("lines"))
>>> [group.name for group in totals.groups], [total.function for total in totals.totals]
(['recipe_id'], ['count', 'max'])

Totals have the same conditions as rows, including those from hooks. Null is handled as in SQL:
null is a group of its own, and aggregates ignore it.

Limits: keys cannot be added up or ordered by. If a value of the last row cannot be repeated
exactly (a long text, an infinite date), the cursor looks the row up; it is invalid once that row
has changed or is deleted.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import (
    ColumnElement,
    Date,
    DateTime,
    Double,
    Float,
    Integer,
    Interval,
    Numeric,
    Select,
    Time,
    TypeDecorator,
    and_,
    case,
    cast,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.orm import aliased

from alfred_refs.mapping import Key, Verbatim, undecorated_type, whole_keys
from alfred_refs.mapping.columns import (
    UnfitValueError,
    Values,
    is_interval,
    shown_number,
    stored_type,
)
from alfred_refs.tools.answers import Rendering, Shape, applies_everywhere
from alfred_refs.tools.arguments import DbRead, repair_arguments
from alfred_refs.tools.call import Call
from alfred_refs.tools.errors import (
    ToolError,
    invalid_arguments,
    invalid_cursor,
    invalid_order,
    invalid_total,
    unknown_column,
)
from alfred_refs.tools.exact import is_text_needed
from alfred_refs.tools.filters import BoundFilters, Condition, Keys, comparable, operand
from alfred_refs.tools.hooks import Reading, Row
from alfred_refs.tools.labels import ForeignRef, key_in, ref_columns
from alfred_refs.tools.tables import ToolColumn, ToolTable

_MAX_VALUE_LENGTH = 200  # characters of one value: a model repeats the cursor letter by letter


class Cursor(BaseModel):
    """The place where a read stopped. The field names are part of the cursor's text.

    Attributes:
        question: a digest of the arguments of the read.
        after: the last row's values in the columns of the order, as JSON; `None` if a value is not
            `is_portable`; the row is looked up then.
        seen: a digest of these values, if the row is looked up.
        ref: the last row's ref.
        ends: for a row of an association table, the values that identify it.
        shown: the number of rows shown, if a hook returned the order.
        draft: the number of the last draft, if no row was shown yet.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    after: list[Any] | None = []
    seen: str | None = None
    ref: str | None = None
    ends: list[str | int] | None = None
    shown: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    draft: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    version: Literal[1] = 1

    def __str__(self) -> str:
        text = self.model_dump_json(exclude_defaults=True)
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def is_portable(values: Values, value: Any) -> bool:
    """Return whether a cursor can store a value exactly.

    The value must be short and must not contain a key. Dates at the ends of the calendar are not
    portable: some drivers return them for infinity, they are out of range in another time zone,
    and psycopg cannot load an infinite interval.
    """
    json_value = values.show(value)
    if isinstance(json_value, str) and len(json_value) > _MAX_VALUE_LENGTH:
        return False
    is_text = isinstance(json_value, str) and not isinstance(json_value, Verbatim)
    if is_text and whole_keys(json_value):
        return False
    if not values.exact or getattr(value, "year", None) in (dt.MINYEAR, dt.MAXYEAR):
        return value is None
    if value == dt.timedelta():
        return False
    try:
        return bool(values.accept(json_value) == value)
    except UnfitValueError:  # infinity and NaN, for example
        return False


def question_of(read: DbRead) -> str:
    """Return a digest of the arguments, without those that only limit the answer."""
    display_only = {"cursor", "limit", "columns"} | (set() if read.drafts else {"drafts"})
    return _digest_of(read.model_dump(exclude=display_only, mode="json"))


def _digest_of(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()


def cursor_of(read: DbRead) -> Cursor | None:
    """Return the cursor that a read continues from.

    Raises:
        ToolError: it is invalid, or belongs to another read.
    """
    if read.cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(read.cursor + "=" * (-len(read.cursor) % 4))
        cursor = Cursor.model_validate(repair_arguments(json.loads(text)))
    except (ValueError, RecursionError, ToolError):
        raise invalid_cursor() from None
    if cursor.question != question_of(read):
        raise invalid_cursor()
    return cursor


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a read: columns, then the primary key, so that it is total.

    Attributes:
        table: the table.
        columns: each column -> whether it is descending; nulls come last either way.
        descending: whether the primary key is descending.
    """

    table: ToolTable
    columns: Mapping[ToolColumn, bool]
    descending: bool

    def by(self) -> list[ColumnElement[Any]]:
        """Return the ORDER BY expressions."""
        model = self.table.model
        given = [
            _with_direction(
                comparable(getattr(model, column.name)), descending=descending
            ).nulls_last()
            for column, descending in self.columns.items()
        ]
        own = (getattr(model, name) for name in self.table.identity)
        return [*given, *(_with_direction(each, descending=self.descending) for each in own)]

    def beyond(self, cursor: Cursor, key: Key) -> Condition:
        """Return the condition that continues a read after its cursor.

        Raises:
            ToolError: the cursor lacks values of this order.
        """
        parts = self.table.key_parts(key)
        if not parts:
            raise invalid_cursor()
        model = self.table.model
        beyond = self._after_all(self.table.primary_key(model), parts)
        order = reversed([*self.columns.items()])
        if cursor.after is None:
            for column, descending in order:
                last = self._last_value(column, parts)
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

    def exact_columns(self) -> list[ToolColumn]:
        """Return the columns whose values are read as texts."""
        model = self.table.model
        return [each for each in self.columns if is_text_needed(getattr(model, each.name).type)]

    def place(self, key: Key) -> Select[Any]:
        """Return the SELECT of the row at a cursor, with the values of its order columns."""
        model = self.table.model
        columns = (getattr(model, column.name) for column in self.columns)
        is_row = self._is_row(model, self.table.key_parts(key))
        return select(literal(1), *columns).select_from(model).where(*is_row)

    def seen(self, values: Iterable[Any]) -> str:
        """Return a digest of a row's values in the columns of the order."""
        return _digest_of(
            [column.values.show(each) for column, each in zip(self.columns, values, strict=True)]
        )

    def _last_value(self, column: ToolColumn, parts: Sequence[Any]) -> Any:
        """Return a scalar subquery of the last row's current value in a column."""
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


def _with_direction(attribute: Any, *, descending: bool) -> Any:
    return attribute.desc() if descending else attribute.asc()


def _after(attribute: Any, value: Any, rest: Condition, *, descending: bool) -> Condition:
    if value is None:
        return and_(attribute.is_(null()), rest)
    # SQLAlchemy does not compare `true()` with `<`
    last = operand(attribute, literal(value, attribute.type))
    further = attribute < last if descending else attribute > last
    return or_(further, attribute.is_(null()), and_(attribute == last, rest))


@dataclass(frozen=True, slots=True)
class GivenOrder:
    """The order of keys or refs from a hook; the database sorts and limits."""

    table: ToolTable
    keys: Sequence[Any]

    def by(self) -> list[ColumnElement[Any]]:
        """Return the ORDER BY expressions."""
        own = getattr(self.table.model, self.table.own or "")
        return [case(*((own == key, place) for place, key in enumerate(self.keys)))]


def directions_of(read: DbRead) -> list[tuple[str, bool]]:
    """Return the columns to order by, each with whether it is descending."""
    order_by, directions = read.order_by or [], read.order_dir
    names = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(directions, list):
        directions = [directions] * len(names)
    elif len(directions) != len(names):
        raise invalid_arguments("it has not one direction for each of order_by", "order_dir")
    return [(name, each == "desc") for name, each in zip(names, directions, strict=True)]


def order_of(read: Reading, table: ToolTable) -> Order:
    """Return the order of a read.

    Columns after the row's own ref are ignored: refs are unique.
    """
    columns: dict[ToolColumn, bool] = {}
    descending = read.arguments.order_dir == "desc"
    for name, descending in directions_of(read.arguments):
        if name == table.own:
            return Order(table, columns, descending)
        columns.setdefault(_orderable_column(name, table), descending)
    return Order(table, columns, descending)


def _orderable_column(name: str, table: ToolTable) -> ToolColumn:
    usable = [each.name for each in table.columns.values() if each.values.ordered]
    column = table.columns.get(name)
    if column is None:
        raise unknown_column(table.name, name, usable)
    if not column.values.ordered:
        fact = "holds refs" if column.values.family == "ref" else "has values without an order"
        raise invalid_order(name, fact, usable)
    return column


_CALL = re.compile(r"\s*+(\w++)\s*+\((.*)\)\s*+", re.DOTALL)
_COUNT = "count"
_ORDERED = ("min", "max")
_FUNCTIONS = ("sum", "avg", *_ORDERED)
_KNOWN_TOTALS = "use 'count(*)', or 'sum', 'avg', 'min' or 'max' of a column"

# how drivers load a year and a month of an interval
_DAYS = {"year": 365, "month": 30}

# value families that can be grouped by
_GROUPED = ("ref", "text", "number", "boolean", "time", "choice", "uuid")


@dataclass(frozen=True, slots=True)
class Total:
    """One aggregate of the rows of a group.

    Attributes:
        name: its name in the answer, such as `"sum(price)"`.
        function: its name in SQL.
        column: its argument; `None` for `count(*)`.
    """

    name: str
    function: str
    column: ToolColumn | None

    def expression(self, model: type[Any]) -> ColumnElement[Any]:
        """Return the SQL expression, without loss of precision."""
        if self.column is None:
            return func.count()
        attribute = summable(getattr(model, self.column.name))
        function = getattr(func, self.function)
        if self.function in _ORDERED or is_interval(attribute.type):
            return type_coerce(function(attribute), attribute.type)
        if isinstance(stored_type(attribute.type), Float):
            # REAL values would be added up in single precision
            return cast(function(cast(attribute, Double())), Double())
        return cast(function(attribute), Numeric())

    def show(self, value: Any) -> Any:
        """Return its value as JSON; an average becomes the nearest JSON number."""
        if value is None or self.column is None:
            return value
        if self.function == "avg" and isinstance(value, Decimal) and math.isfinite(float(value)):
            value = float(value)
        is_made = isinstance(value, float) and self.function not in _ORDERED
        return shown_number(value) if is_made else self.column.show(value)


@dataclass(frozen=True, slots=True)
class Totals:
    """The aggregates of a read.

    Attributes:
        table: the table.
        groups: the columns to group by; empty if all rows are one group.
        totals: the aggregates of each group, at least one.
    """

    table: ToolTable
    groups: Sequence[ToolColumn]
    totals: Sequence[Total]

    def statement(self, read: DbRead, conditions: Sequence[Condition]) -> Select[Any]:
        """Return the SELECT of groups, aggregates, and the number of rows in each group."""
        model = self.table.model
        groups = [summable(getattr(model, column.name)) for column in self.groups]
        asked = [total.expression(model) for total in self.totals]
        # count(*) alone would not tell SQLAlchemy to read a concrete class from its union
        rows = func.count(self.table.primary_key(model)[0])
        statement = select(*groups, *asked, rows).select_from(model).where(*conditions)
        # by position, because PostgreSQL treats expressions with equal parameters as different
        places = [_column_number(n) for n in range(1, len(groups) + 1)]
        return statement.group_by(*places).order_by(*self._order(read), *places)

    def _order(self, read: DbRead) -> Iterator[ColumnElement[Any]]:
        """Yield the ORDER BY expressions; the default is the first total, descending."""
        names = [*(column.name for column in self.groups), *(each.name for each in self.totals)]
        refs = [each.name for each in self.groups if each.values.family == "ref"]
        usable = [name for name in names if name not in refs]
        directions = directions_of(read)
        if not directions and "order_dir" not in read.model_fields_set:
            directions = [(self.totals[0].name, True)]
        for asked, descending in directions or [(self.totals[0].name, read.order_dir == "desc")]:
            name = asked if asked in self.table.columns else _normalized(asked)
            if name in refs:
                raise invalid_order(name, "holds refs", usable)
            if name not in names:
                raise invalid_order(name, "is not among the columns that are asked for", usable)
            place = _column_number(names.index(name) + 1)
            yield (place.desc() if descending else place.asc()).nulls_last()

    def check(self, read: DbRead) -> None:
        """Refuse arguments that apply only to reads of rows."""
        if read.drafts:
            raise invalid_arguments(
                "drafts are not counted", "drafts", "leave it out, or read them"
            )
        if read.cursor is not None:
            raise invalid_arguments(
                "groups have no cursor", "cursor", "leave it out; order and limit say which"
            )
        for _ in self._order(read):
            pass


def totals_of(read: DbRead, table: ToolTable) -> Totals | None:
    """Return the aggregates of a read; `None` for a read of rows.

    Raises:
        ToolError: an aggregate is unknown, or a column cannot be grouped by.
    """
    names = dict.fromkeys(read.columns or ())
    calls = {name: call for name in names if (call := _parse_total(name, table)) is not None}
    if not calls:
        return None
    totals = {}
    for name, (function, argument) in calls.items():
        total = _total(name, function, argument, table)
        totals[total.name] = total
    groups = [_group(name, table) for name in names if name not in calls]
    found = Totals(table, groups, list(totals.values()))
    found.check(read)
    return found


def summable(attribute: Any) -> Any:
    """Return an expression whose sum equals the sum of the values that drivers load.

    Drivers load a year of an interval as 365 days and a month as 30, so intervals are converted to
    days.
    """
    if not is_interval(attribute.type):
        return attribute
    parts = {each: func.extract(each, attribute) for each in ("year", "month", "day")}
    days = parts["year"] * _DAYS["year"] + parts["month"] * _DAYS["month"] + parts["day"]
    zero: ColumnElement[Any] = literal_column("0")
    time = (func.extract(each, attribute) for each in ("hour", "minute"))
    integers = (cast(each, Integer) for each in (days, *time))
    seconds: ColumnElement[Any] = cast(func.extract("second", attribute), Double())
    finite = func.make_interval(zero, zero, zero, *integers, seconds)
    chosen = case((func.isfinite(attribute), finite), else_=attribute)
    return type_coerce(chosen, attribute.type)


def _column_number(number: int) -> ColumnElement[Any]:
    return literal_column(str(number))


def _parse_total(name: str, table: ToolTable) -> tuple[str, str] | None:
    """Return the function and its argument; `None` for the name of a column."""
    found = None if name in table.columns else _CALL.fullmatch(name)
    return None if found is None else (found[1].lower(), found[2].strip())


def _normalized(name: str) -> str:
    found = _CALL.fullmatch(name)
    return name if found is None else f"{found[1].lower()}({found[2].strip()})"


def _total(name: str, function: str, argument: str, table: ToolTable) -> Total:
    """Return one aggregate.

    Raises:
        ToolError: the function is unknown, or does not apply to the column.
    """
    if function == _COUNT and argument in ("*", ""):
        return Total("count(*)", function, None)
    if function == _COUNT:
        remedy = "use 'count(*)', with a filter 'is_not_null' if rows without one do not count"
        raise invalid_total(name, "counts values, and rows are counted", remedy)
    if function not in _FUNCTIONS:
        raise invalid_total(name, "is not a total", _KNOWN_TOTALS)
    reasons = {each.name: _unfit_reason(function, each, table) for each in table.columns.values()}
    usable = [each for each, reason in reasons.items() if reason is None]
    if argument not in reasons:
        raise unknown_column(table.name, argument, usable)
    reason = reasons[argument]
    if reason is not None:
        remedy = f"use one of {_list_columns(usable)}" if usable else "use 'count(*)'"
        raise invalid_total(name, f"is of {reason}", remedy)
    return Total(f"{function}({argument})", function, table.columns[argument])


def _unfit_reason(function: str, column: ToolColumn, table: ToolTable) -> str | None:
    """Return the reason why a function does not apply to a column; `None` if it does."""
    if column.key is not None:
        return "refs, which are names"
    type_, family = getattr(table.model, column.name).type, column.values.family
    stored = stored_type(type_)
    is_number = family == "number" and isinstance(stored, Integer | Numeric | Float)
    if family == "time" and not is_interval(type_):
        is_time = isinstance(stored, Date | DateTime | Time)
        return None if function in _ORDERED and is_time else "dates or times, not numbers"
    if not is_number and family != "time":
        return "values that are not numbers"
    decorated = undecorated_type(type_)
    is_own = isinstance(decorated, TypeDecorator) and not isinstance(decorated, Interval)
    return "values that only the application adds" if is_own and function not in _ORDERED else None


def _group(name: str, table: ToolTable) -> ToolColumn:
    """Return a column to group by.

    Raises:
        ToolError: the column does not exist, or cannot be grouped by.
    """
    if name == table.ref_field:
        raise invalid_total(
            name, "is each row's own, so that every group is one row", "leave it out, or read rows"
        )
    usable = [
        each.name
        for each in table.columns.values()
        if each.name != table.own and _is_grouped(each)
    ]
    first = name.partition(".")[0]
    if first in table.targets:
        own = [each for each in table.references().get(first, ()) if each in usable]
        elsewhere = table.links.get(first, table.targets[first]).name
        there = "" if own else f"count in table {elsewhere!r}, or "
        raise invalid_total(
            name, "leads to other rows", f"{there}group by {_list_columns(own or usable)}"
        )
    column = table.columns.get(name)
    if column is None:
        raise unknown_column(table.name, name, usable)
    if not _is_grouped(column):
        raise invalid_total(
            name,
            "has more than one value a row, or none that are compared",
            f"group by {_list_columns(usable)}",
        )
    return column


def _is_grouped(column: ToolColumn) -> bool:
    return column.values.family in _GROUPED and "=" in column.values.operators


def _list_columns(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "no column"


_MORE = "there are more groups: order them, filter the rows, or raise limit"


class TotalsReader:
    """Answers reads of totals, for one call."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def answer(
        self, reading: Reading, bound: BoundFilters, totals: Totals, keys: Keys
    ) -> dict[str, Any]:
        """Return the answer to a read of totals.

        Args:
            reading: the reading, after hooks.
            bound: its filters.
            totals: the aggregates.
            keys: the keys of the refs in the filters.
        """
        most, asked = self._call.setting.limits.rows, reading.arguments.limit
        limit = most if asked is None else min(asked, most)
        groups = self._read_groups(reading, bound, totals, keys, limit)
        if keys and not any(count for *_, count in groups):
            reading.notes += self._call.check_existence(keys)
        rendering = self._call.rendering([], shape := Shape(totals.table, totals.groups))
        places = iter(range(1, len(groups) + 1))

        def render(entry: Sequence[Any]) -> Row:
            return _row(entry, totals, rendering, f"totals[{next(places)}]")

        rows = self._call.room().take(groups[:limit], render, [rendering.cut])
        more = len(rows) < len(groups)
        if more and asked is None:
            reading.notes.append(_MORE)
        answer = {"table": totals.table.name, "totals": rows, "more": more}
        return self._call.finish_answer(
            answer, reading.notes, rendering, [*self._foreign(rows, shape)]
        )

    def _read_groups(
        self, reading: Reading, bound: BoundFilters, totals: Totals, keys: Keys, limit: int
    ) -> list[Sequence[Any]]:
        """Return groups with their numbers of rows: at most one more than the limit."""
        if reading.empty or (reading.keys is not None and not reading.keys):
            nothing = [0 if each.column is None else None for each in totals.totals]
            return [] if totals.groups else [[*nothing, 0]]
        conditions = self._call.read_conditions(reading, bound, keys)
        if reading.keys is not None:
            given = self._call.statement_keys(reading.keys, totals.table)
            conditions.append(getattr(totals.table.model, totals.table.ref_field).in_(given))
        statement = totals.statement(reading.arguments, conditions).limit(limit + 1)
        options = (each for each in reading.options if applies_everywhere(each))
        return self._call.read_values(statement, totals.table.model, options)

    def _foreign(self, rows: Sequence[Row], shape: Shape) -> Iterator[ForeignRef]:
        """Yield the refs in groups that can have labels; their keys are cached."""
        tables = self._call.setting.tables
        refs = [
            ForeignRef(row, column.name, target)
            for column, _, target in ref_columns(shape, tables)
            for row in rows
            if row[column.name] is not None
        ]
        keys = self._call.conversation.known_keys({each.ref for each in refs}) if refs else {}
        for each in refs:
            if each.ref in keys:
                each.key = key_in(each.target, keys[each.ref])
                yield each


def _row(entry: Sequence[Any], totals: Totals, rendering: Rendering, path: str) -> Row:
    groups = zip(totals.groups, entry, strict=False)
    row = {c.name: None if v is None else rendering.value(c, v, path) for c, v in groups}
    asked = zip(totals.totals, entry[len(totals.groups) :], strict=False)
    return {**row, **{total.name: total.show(value) for total, value in asked}}
