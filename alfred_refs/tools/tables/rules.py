"""The rules of the database that a model must know to write a row, in words.

A table that a model may use comes in; what its CHECK constraints, unique constraints and unique
indexes say goes out, as far as it is about columns that the model sees. What is hidden is never
named: a check that has hidden columns too is not told, and of a unique constraint the others are,
because rows of one owner are what is to be told apart. Also told is which rule has a name, as the
database tells it when one is broken. Read from SQLAlchemy's metadata. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Constraint,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    TextClause,
    TypeDecorator,
    UniqueConstraint,
    inspect,
)
from sqlalchemy.dialects.postgresql import ExcludeConstraint
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.exc import IdentifierError
from sqlalchemy.orm.exc import UnmappedColumnError

from alfred_refs import sqla

from .conditions import Condition, condition_of
from .table import ToolColumn, ToolTable

_LONGEST_NAME = 63  # bytes of a name that PostgreSQL keeps

# as PostgreSQL writes it, where '%' needs not be doubled
_DIALECT = PGDialect(paramstyle="named")  # type: ignore[no-untyped-call]  # SQLAlchemy's

# what is there -> how PostgreSQL ends the name of one that was given none
_ENDINGS: Mapping[type[Any], str] = {
    PrimaryKeyConstraint: "pkey",
    UniqueConstraint: "key",
    ForeignKeyConstraint: "fkey",
    CheckConstraint: "check",
    ExcludeConstraint: "excl",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that rows must keep to.

    Attributes:
        columns: that it is about, of those that a model may use.
        is_hidden: whether it is about others too.
        words: what it says; empty if that cannot be told.
        choices: the values, as JSON, of which its column has one.
        is_beside: whether the words are about one column, and need not name it.
    """

    columns: tuple[str, ...]
    is_hidden: bool = False
    words: str = ""
    choices: Sequence[str] = ()
    is_beside: bool = False

    @property
    def is_simple(self) -> bool:
        """Whether it says of its columns that no two rows have the same, and nothing else."""
        return self.words in ("", "unique", f"unique together: {', '.join(self.columns)}")

    @property
    def line(self) -> str:
        """What a description says of it, where it is about more than one column."""
        return self.words if self.words.startswith("unique") else f"rule: {self.words}"

    def __str__(self) -> str:
        words = " | ".join(self.choices) or self.words
        return f"{self.columns[0]}: {words}" if self.is_beside and words else words


def rules_of(table: ToolTable) -> list[Rule]:
    """Return what a model must know to write rows of a table."""
    found = {}
    for constraint, of in _constraints(table):
        # what a type says by itself is not said twice
        rule = None if sqla.is_type_bound(constraint) else _rule(constraint, of, table)
        columns = [] if rule is None else [table.columns[name] for name in rule.columns]
        if rule is not None and str(rule) and any(c.creatable or c.updatable for c in columns):
            found[str(rule)] = rule
    places = {name: place for place, name in enumerate(table.columns)}
    return sorted(found.values(), key=lambda r: ([places[n] for n in r.columns], str(r)))


def rules_named(name: str | None, table: ToolTable) -> list[Rule]:
    """Return the rules that the database may mean by a name: several where it made that up."""
    if name is None:
        return []
    every = list(_constraints(table))
    called = [(each, of) for each, of in every if _name_of(each) == name]
    if not called:
        number = name[len(name.rstrip("0123456789")) :]
        unnamed = ((each, of) for each, of in every if _name_of(each) is None)
        called = [(each, of) for each, of in unnamed if _made_name(each, of, number) == name]
    rules = [_rule(each, of, table) or _about(each, of, table) for each, of in called]
    return sorted(rules, key=str)


def _constraints(table: ToolTable) -> Iterator[tuple[Any, Table]]:
    """Yield constraints, those written beside a column too, and unique indexes."""
    for of in (each for each in inspect(table.model).mapper.tables if isinstance(each, Table)):
        beside = (each for column in of.columns for each in column.constraints)
        for each in (*of.constraints, *beside, *(index for index in of.indexes if index.unique)):
            yield each, of


def _attribute(column: Column[Any], table: ToolTable) -> str | None:
    """Return what a model calls a column, `None` if it does not know it."""
    try:
        name = inspect(table.model).mapper.get_property_by_column(column).key
    except UnmappedColumnError:
        return None
    return name if name in table.columns else None


def _rule(constraint: Any, of: Table, table: ToolTable) -> Rule | None:
    """Return what a constraint says; `None` for one that is no rule for values."""
    match constraint:
        case CheckConstraint():
            return _check(_condition(constraint.sqltext, of, table), table)
        case UniqueConstraint() | PrimaryKeyConstraint():
            return _unique([*constraint.columns], None, of, table)
        case Index():
            where = constraint.dialect_options["postgresql"]["where"]
            return _unique([*constraint.expressions], where, of, table)
    return None


def _about(constraint: Any, of: Table, table: ToolTable) -> Rule:
    """Return which columns a constraint is about, and not what it says."""
    # those of an exclusion constraint may be given by their names alone
    columns = (of.columns.get(each.name) for each in getattr(constraint, "columns", ()))
    names = [_attribute(column, table) for column in columns if column is not None]
    return Rule(tuple(name for name in names if name is not None), is_hidden=None in names)


def _condition(sql: Any, of: Table, table: ToolTable) -> Condition:
    names = {column.name.lower(): _attribute(column, table) for column in of.columns}
    return condition_of(_sql(sql), names)


def _sql(given: Any) -> str:
    if isinstance(given, TextClause):
        # what looks like a parameter is none in a constraint
        return given.text.replace("\\:", ":")
    if isinstance(given, str):
        return given
    how = {"literal_binds": True, "include_table": False}
    return str(given.compile(dialect=_DIALECT, compile_kwargs=how))


def _check(condition: Condition, table: ToolTable) -> Rule:
    names = condition.columns
    columns = [table.columns[name] for name in names]
    if condition.is_hidden or not columns:
        return Rule(names, is_hidden=condition.is_hidden)
    if condition.has_literals and any(column.key is not None for column in columns):
        return Rule(names)  # they may be keys
    if len(columns) == 1 and _is_plain(columns[0], table):
        return _of_one(condition, columns[0])
    return Rule(names, words=condition.text)


def _of_one(condition: Condition, column: ToolColumn) -> Rule:
    numeric = column.values.family == "number"
    choices = condition.choices(numeric=numeric)
    if choices is not None:
        return Rule((column.name,), choices=choices, is_beside=True)
    limits = condition.limits(numeric=numeric)
    if limits is not None:
        return Rule((column.name,), words=limits, is_beside=True)
    return Rule((column.name,), words=condition.text)


def _is_plain(column: ToolColumn, table: ToolTable) -> bool:
    """Tell whether a model gives a column's values as the database has them."""
    held: Any = inspect(table.model).mapper.column_attrs[column.name].columns[0]
    is_compared = column.values.family in ("text", "number", "time", "choice")
    return is_compared and not isinstance(held.type, TypeDecorator)


def _unique(given: Sequence[Any], where: Any, of: Table, table: ToolTable) -> Rule:
    condition = None if where is None else _condition(where, of, table)
    told: list[str | None] = [
        _attribute(each, table) if isinstance(each, Column) else None for each in given
    ]
    columns = dict.fromkeys(name for name in told if name is not None)
    for place, each in enumerate(given):
        if not isinstance(each, Column):
            expression = _condition(each, of, table)
            columns |= dict.fromkeys(expression.columns)
            told[place] = None if expression.is_hidden else expression.text
    shown = [each for each in told if each is not None]
    is_hidden = len(shown) < len(told) or (condition is not None and condition.is_hidden)
    if not shown or (condition is not None and condition.is_hidden):
        return Rule((*columns,), is_hidden=is_hidden)
    if condition is None and shown == [*columns] and len(shown) == 1:
        return Rule((*columns,), is_hidden=is_hidden, words="unique", is_beside=True)
    together = "unique together: " if len(shown) > 1 else "unique: "
    only = "" if condition is None else f" where {condition.text}"
    return Rule((*columns,), is_hidden=is_hidden, words=f"{together}{', '.join(shown)}{only}")


def _name_of(constraint: Constraint | Index) -> str | None:
    """Return what a constraint is called in the database; `None` if PostgreSQL made the name."""
    if constraint.name is None:
        return None
    preparer = _DIALECT.identifier_preparer
    try:
        name = (
            preparer.format_index(constraint)
            if isinstance(constraint, Index)
            else preparer.format_constraint(constraint)
        )
    except IdentifierError:
        return str(constraint.name)[:_LONGEST_NAME]
    return None if name is None else name.strip('"')


def _made_name(constraint: Constraint | Index, of: Table, number: str) -> str | None:
    """Return what PostgreSQL calls a constraint that was given no name, the first or another."""
    ending = next((end for kind, end in _ENDINGS.items() if isinstance(constraint, kind)), None)
    if ending is None:
        return None
    ending += number
    columns = [column.name for column in getattr(constraint, "columns", ())]
    if isinstance(constraint, CheckConstraint):
        names = {column.name.lower(): column.name for column in of.columns}
        columns = [*condition_of(_sql(constraint.sqltext), names).columns]
        columns = columns if len(columns) == 1 else []
    elif isinstance(constraint, PrimaryKeyConstraint):
        columns = []
    table, between = of.name, "_".join(columns)
    # the longer of both is cut until all has room: `makeObjectName()` of PostgreSQL
    while len(table) + len(between) > _LONGEST_NAME - len(ending) - (2 if between else 1):
        table, between = (
            (table[:-1], between) if len(table) > len(between) else (table, between[:-1])
        )
    return "_".join(filter(None, [table, between, ending]))
