"""What a read asks of many rows at once: how many there are, and what their columns come to.

Names in `columns` come in, as SQL has them; `Totals` go out, and the statement that answers them:

    ["cuisine_id", "count(*)", "avg(servings)"]     one row of answers for each cuisine
    ["count(*)"]                                    one for all rows

Columns beside totals are groups. Null is as in SQL: it is a group of its own, and what is no value
is in no total. Keys are names, of which nothing is made. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

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
    cast,
    func,
    literal_column,
    select,
    type_coerce,
)

from alfred_refs.mapping.column_types import shown_number
from alfred_refs.mapping.key_column import undecorated
from alfred_refs.mapping.stored_values import is_interval, stored_type
from alfred_refs.tools.errors import (
    invalid_arguments,
    invalid_order,
    invalid_total,
    unknown_column,
)
from alfred_refs.tools.tables.table import ToolColumn, ToolTable
from alfred_refs.tools.wire.arguments import DbRead

from .filters import Condition
from .statement import directions_of

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_COUNT = "count"
_ORDERED = ("min", "max")
_FUNCTIONS = ("sum", "avg", *_ORDERED)
_KNOWN = "use 'count(*)', or 'sum', 'avg', 'min' or 'max' of a column"

# what drivers take a year or a month of a duration for
_DAYS = {"year": 365, "month": 30}

# families of values of which there are groups: one value a row, which the database compares
_GROUPED = ("ref", "text", "number", "boolean", "time", "choice", "uuid")


@dataclass(frozen=True, slots=True)
class Total:
    """One thing that is asked of the rows of a group.

    Attributes:
        name: as it stands in the answer: `"sum(price)"`.
        function: its name in SQL.
        column: of what; `None` where rows are counted.
    """

    name: str
    function: str
    column: ToolColumn | None

    def expression(self, model: type[Any]) -> ColumnElement[Any]:
        """Return what answers it, as exact as the database has it."""
        if self.column is None:
            return func.count()
        attribute = as_told(getattr(model, self.column.name))
        function = getattr(func, self.function)
        if self.function in _ORDERED or is_interval(attribute.type):
            return type_coerce(function(attribute), attribute.type)
        if isinstance(stored_type(attribute.type), Float):
            # what is of single precision would be added up in single precision
            return cast(function(cast(attribute, Double())), Double())
        return cast(function(attribute), Numeric())

    def show(self, value: Any) -> Any:
        """Return a value of it as JSON: an average is the nearest number that JSON has."""
        if value is None or self.column is None:
            return value
        if self.function == "avg" and isinstance(value, Decimal) and math.isfinite(float(value)):
            value = float(value)
        is_made = isinstance(value, float) and self.function not in _ORDERED
        return shown_number(value) if is_made else self.column.show(value)


@dataclass(frozen=True, slots=True)
class Totals:
    """What is asked of rows together.

    Attributes:
        table: whose rows.
        groups: the columns whose values rows of a group have in common; none where all rows are
            one group.
        totals: what is asked of each group, one at least.
    """

    table: ToolTable
    groups: Sequence[ToolColumn]
    totals: Sequence[Total]

    def statement(self, read: DbRead, conditions: Sequence[Condition]) -> Select[Any]:
        """Return the statement that answers: groups, totals, and how many rows there are."""
        model = self.table.model
        groups = [as_told(getattr(model, column.name)) for column in self.groups]
        asked = [total.expression(model) for total in self.totals]
        statement = select(*groups, *asked, func.count()).select_from(model).where(*conditions)
        # by their places: what a driver sends twice is not the same to PostgreSQL
        places = [_place(n) for n in range(1, len(groups) + 1)]
        return statement.group_by(*places).order_by(*self._order(read), *places)

    def _order(self, read: DbRead) -> Iterator[ColumnElement[Any]]:
        """Yield what groups are ordered by: unless that is said, most of the first total first."""
        names = [*(column.name for column in self.groups), *(each.name for each in self.totals)]
        refs = [each.name for each in self.groups if each.values.family == "ref"]
        usable = [name for name in names if name not in refs]
        given = directions_of(read)
        if not given and "order_dir" not in read.model_fields_set:
            given = [(self.totals[0].name, True)]
        for asked, descending in given or [(self.totals[0].name, read.order_dir == "desc")]:
            name = asked if asked in self.table.columns else _canonical(asked)
            if name in refs:
                raise invalid_order(name, "holds refs", usable)
            if name not in names:
                raise invalid_order(name, "is not among the columns that are asked for", usable)
            place = _place(names.index(name) + 1)
            yield (place.desc() if descending else place.asc()).nulls_last()

    def check(self, read: DbRead) -> None:
        """Check that nothing else is asked for that is of rows alone."""
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
    """Return what a read asks of rows together; `None` if it asks for rows.

    Raises:
        ToolError: there is no such total, or no groups by such a column.
    """
    names = dict.fromkeys(read.columns or ())
    calls = {name: call for name in names if (call := _call_in(name, table)) is not None}
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


def as_told(attribute: Any) -> Any:
    """Return an attribute as its values add up the way that drivers load them.

    Of a duration that is a year of 365 days and a month of 30, so that it has days alone.
    """
    if not is_interval(attribute.type):
        return attribute
    parts = {each: func.extract(each, attribute) for each in ("year", "month", "day")}
    days = parts["year"] * _DAYS["year"] + parts["month"] * _DAYS["month"] + parts["day"]
    nothing: ColumnElement[Any] = literal_column("0")
    time = (func.extract(each, attribute) for each in ("hour", "minute"))
    whole = (cast(each, Integer) for each in (days, *time))
    seconds: ColumnElement[Any] = cast(func.extract("second", attribute), Double())
    return type_coerce(
        func.make_interval(nothing, nothing, nothing, *whole, seconds), attribute.type
    )


def _place(number: int) -> ColumnElement[Any]:
    return literal_column(str(number))


def _call_in(name: str, table: ToolTable) -> tuple[str, str] | None:
    """Return the function and its argument, where a name is not a column's."""
    found = None if name in table.columns else _CALL.fullmatch(name)
    return None if found is None else (found[1].lower(), found[2])


def _canonical(name: str) -> str:
    found = _CALL.fullmatch(name)
    return name if found is None else f"{found[1].lower()}({found[2]})"


def _total(name: str, function: str, argument: str, table: ToolTable) -> Total:
    """Return one total, from the function and its argument."""
    if function == _COUNT and argument in ("*", ""):
        return Total("count(*)", function, None)
    if function == _COUNT:
        remedy = "use 'count(*)', with a filter 'is_not_null' if rows without one do not count"
        raise invalid_total(name, "counts values, and rows are counted", remedy)
    if function not in _FUNCTIONS:
        raise invalid_total(name, "is no total", _KNOWN)
    of_each = {each.name: _why_not(function, each, table) for each in table.columns.values()}
    usable = [each for each, why in of_each.items() if why is None]
    if argument not in of_each:
        raise unknown_column(table.name, argument, usable)
    why = of_each[argument]
    if why is not None:
        remedy = f"use one of {_listed(usable)}" if usable else "use 'count(*)'"
        raise invalid_total(name, f"is of {why}", remedy)
    return Total(f"{function}({argument})", function, table.columns[argument])


def _why_not(function: str, column: ToolColumn, table: ToolTable) -> str | None:
    """Return what a column has instead of values that a function takes; `None` if it has these."""
    if column.key is not None:
        return "refs, which are names"
    type_, family = getattr(table.model, column.name).type, column.values.family
    stored = stored_type(type_)
    is_number = family == "number" and isinstance(stored, Integer | Numeric | Float)
    if family == "time" and not is_interval(type_):
        is_time = isinstance(stored, Date | DateTime | Time)
        return None if function in _ORDERED and is_time else "dates or times, and no numbers"
    if not is_number and family != "time":
        return "values that are no numbers"
    decorated = undecorated(type_)
    is_own = isinstance(decorated, TypeDecorator) and not isinstance(decorated, Interval)
    return "values that only the application adds" if is_own and function not in _ORDERED else None


def _group(name: str, table: ToolTable) -> ToolColumn:
    """Return a column whose values make groups."""
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
        there = "" if own else f"count in table {table.targets[first].name!r}, or "
        raise invalid_total(
            name, "leads to other rows", f"{there}group by {_listed(own or usable)}"
        )
    column = table.columns.get(name)
    if column is None:
        raise unknown_column(table.name, name, usable)
    if not _is_grouped(column):
        raise invalid_total(
            name,
            "has more than one value a row, or none that are compared",
            f"group by {_listed(usable)}",
        )
    return column


def _is_grouped(column: ToolColumn) -> bool:
    return column.values.family in _GROUPED and "=" in column.values.operators


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "no column"
