"""Rules of the application and of the database: constraints in words, hooks.

`rules_of` describes the CHECK constraints, unique constraints and unique indexes that a model must
know to write a row, as far as they are about columns that it sees. `rules_named` finds the rule
that the database names in an error. Both read SQLAlchemy's metadata and send no SQL.

>>> from sqlalchemy import CheckConstraint, MetaData
>>> condition = condition_of("servings BETWEEN 1 AND 12", {"servings": "servings"})
>>> condition.limits(numeric=True)
'1 to 12'
>>> condition_of("lower(name) <> 'none'", {"name": "name"}).text
"lower(name) <> 'none'"

A condition is split into names, literals and signs; there is no SQL parser. Two forms become
words: one column that has one of some values, and one column that is compared with values. Any
other condition is shown as its SQL, without casts.

Hidden columns are never named: a check that also has hidden columns is not described, and of a
unique constraint only the visible columns are, because the rows of one owner are compared.

`Hooks` are what the application adds around the verbs on one class. A hook receives a `Reading` or
a `Writing`: the checked arguments and the session, and changes it in place. Hooks are trusted:
they see what the session shows, in refs, and may run SQLAlchemy on the class. They are plain
functions with asynchronous sessions too, where they run inside the awaited call. They raise
`ToolError` to refuse a call.

Limits: constraints that exist only in the database, not in the metadata, are not described.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Final, Literal

from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
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
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs import sqla
from alfred_refs.mapping.key_columns import clean
from alfred_refs.mapping.keys import scrub
from alfred_refs.session.session import RefSession
from alfred_refs.tools.arguments import (
    DbCreate,
    DbDelete,
    DbEditList,
    DbRead,
    DbUpdate,
    FilterClause,
    clauses_of,
)
from alfred_refs.tools.tables import ToolColumn, ToolTable

_TOKEN = re.compile(
    r"""
    (?P<odd>[eE]'(?:[^'\\]|''|\\.)*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<literal>'(?:[^']|'')*'|-?\d+(?:\.\d+)?)
    |(?P<cast>::\s*(?:\w+\.)?(?:"[^"]*"|\w+)(?:\s(?:varying|precision|with(?:out)?\stime\szone))?
        (?:\(\d+(?:,\s*\d+)?\))?(?:\[\])*)
    |(?P<name>"(?:[^"]|"")+"|[^\W\d][\w$]*)
    |(?P<space>\s+)
    |(?P<bracket>[()\[\]])
    |(?P<sign><=|>=|<>|!=|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_AROUND_A_NAME = re.compile(r'(?<![\w"])\((\w+)\)')

# sign of a comparison -> how it is said before the value
_COMPARED: Final = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "<>": "not", "!=": "not"}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a condition says.

    Attributes:
        columns: the attributes that it names, each once.
        is_hidden: whether it names columns that a model does not know.
        text: its SQL in one short line, with the names that a model knows.
        words: its names, literals and signs, in order; keywords in capitals.
    """

    columns: tuple[str, ...]
    is_hidden: bool
    text: str
    words: tuple[str, ...]

    @property
    def has_literals(self) -> bool:
        """Whether there are values in it."""
        return any(re.match(r"[eE]?'|[$\d-]", word) for word in self.words)

    def choices(self, *, numeric: bool) -> list[str] | None:
        """Return the values of which the one column has one, as JSON; `None` if it says else."""
        match self._compared():
            case [_, "IN", *listed] | [_, "=", "ANY", "ARRAY", *listed]:
                literals = listed[::2]
                is_list = all(each == "," for each in listed[1::2]) and len(listed) % 2
                shown = [_literal_to_json(each, numeric=numeric) for each in literals]
                return None if not is_list or None in shown else [each or "" for each in shown]
        return None

    def limits(self, *, numeric: bool) -> str | None:
        """Return what the one column is compared with, in words; `None` if it says else."""
        words = self._compared()
        match words:
            case [name, "BETWEEN", least, "AND", most]:
                words = [name, ">=", least, "AND", name, "<=", most]
        told = [
            _comparison([*part], words[0], numeric=numeric)
            for is_and, part in groupby(words, lambda word: word == "AND")
            if not is_and
        ]
        match told:
            case [(">=", least), ("<=", most)]:
                return f"{least} to {most}"
        known = [f"{each[0]} {each[1]}" for each in told if each is not None]
        return " and ".join(known) if len(known) == len(told) else None

    def _compared(self) -> list[str]:
        """Return the words without 'IS NULL OR', which every condition means by itself."""
        words = list(self.words)
        if self.is_hidden or words[:1] != [*self.columns]:
            return [""]
        return words[4:] if words[1:4] == ["IS", "NULL", "OR"] else words


def condition_of(sql: str, names: Mapping[str, str | None]) -> Condition:
    """Return what a condition says.

    Args:
        sql: the condition.
        names: what the columns are called in it, in small letters -> what a model calls them;
            `None` for what it does not know.
    """
    columns: dict[str, None] = {}
    is_hidden, text, words = False, "", []
    for found in _TOKEN.finditer(sql):
        kind, token = found.lastgroup, found.group()
        said, column = token, token.strip('"').lower()
        if kind == "name" and column in names:
            name = names[column]
            is_hidden |= name is None
            said = name or ""
            columns |= {} if name is None else {name: None}
        elif kind == "name":
            said = token.upper() if token.upper() in _KEYWORDS else token
        text += "" if kind == "cast" else said
        words += [] if kind in ("cast", "space", "bracket") else [said]
    return Condition(tuple(columns), is_hidden, _line(text), tuple(words))


_KEYWORDS = frozenset(["AND", "OR", "NOT", "IN", "ANY", "ARRAY", "BETWEEN", "IS", "NULL"])


def _line(text: str) -> str:
    """Return SQL as one line, without brackets that say nothing."""
    before = None
    while text != before:
        before, text = text, _AROUND_A_NAME.sub(r"\1", text)
    return clean(text) or ""


def _comparison(words: Sequence[str], column: str, *, numeric: bool) -> tuple[str, str] | None:
    match words:
        case [name, sign, literal] if name == column and sign in _COMPARED:
            shown = _literal_to_json(literal, numeric=numeric)
            return None if shown is None else (_COMPARED[sign], shown)
    return None


def _literal_to_json(literal: str, *, numeric: bool) -> str | None:
    """Return a literal of SQL as JSON; `None` if it is none."""
    if re.fullmatch(r"-?\d+(\.\d+)?", literal):
        return literal if numeric else None
    if not literal.startswith("'"):
        return None
    value = literal[1:-1].replace("''", "'")
    if scrub(value) != value:
        return None  # there is a key in it
    return value if numeric else quote_text(value)


def quote_text(value: str) -> str:
    """Return a text in quotes, as JSON, that stays in its line."""
    return json.dumps(value, ensure_ascii=not value.isprintable())


Row = dict[str, Any]
"""One row as the model sees it: JSON values by column."""


@dataclass
class Reading:
    """A read that is about to be executed, or was.

    Attributes:
        session: that answers.
        model: the mapped class.
        arguments: what the model asked for; may be replaced, and is checked anew then.
        semantic: the text of a search by meaning; a hook that answers it sets `keys`.
        keys: only rows of these primary keys or refs, in this order.
        options: loader options of the statement.
        include: paths of relationships whose rows are shown inside each row.
        conditions: that rows must meet besides the filters.
        or_conditions: rows that meet one of these are read though they do not meet the filters.
        notes: what the model is told beside the rows.
        empty: whether the answer is to be empty, without a statement.
        totals: whether rows are only counted or added up; `after_read` is not asked then, and
            what is said of loading and including rows is not needed.

    Example:
        >>> class Small(Hooks):
        ...     def before_read(self, read: Reading):
        ...         read.conditions.append(read.model.servings < 2)
        ...         read.notes.append("for one person")
        >>> toolset = Toolset([Recipe], hooks={Recipe: [Small()]})
        >>> toolset.call(session, "db_read", {"table": "recipes", "columns": ["name"]})
        {'table': 'recipes', 'rows': [{'id': 'recipe_2', 'name': 'Toast'}], 'count': 1, 'more':
        False, 'notes': ['for one person']}
    """

    session: RefSession
    model: type[Any]
    arguments: DbRead
    semantic: str | None = None
    keys: Sequence[Any] | None = None
    options: list[ExecutableOption] = field(default_factory=list)
    include: list[str] = field(default_factory=list)
    conditions: list[ColumnElement[bool]] = field(default_factory=list)
    or_conditions: list[ColumnElement[bool]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    empty: bool = False
    totals: bool = False

    def clauses(self) -> Iterator[FilterClause]:
        """Yield all conditions of the arguments, those inside groups too."""
        return clauses_of([*self.arguments.filters, *self.arguments.or_filters])

    def answer_empty(self, note: str) -> None:
        """Answer with no rows, and say why."""
        self.empty = True
        self.notes.append(note)


@dataclass
class Writing:
    """A write that is about to be executed, or was.

    Attributes:
        session: that executes it.
        model: the mapped class.
        verb: what is done.
        arguments: what the model asked for.
        records: the new rows (create), the one set of changes (update) or nothing (delete):
            values as their columns have them, refs as the model gave them; may be changed. New
            rows inside drafts are a write of their own, in which what they are inside of has no
            ref.
        notes: what the model is told beside the rows.
        drafts: what those drafts hold that the call saves, by their refs: records may name them,
            and no row is there yet.
        refs: of the rows, where these are written because of others and no filter says which: what
            goes along with rows that are deleted (delete), loses its reference to them (update),
            is given a new value of what it refers to (update), is moved to a draft that is saved
            (update), is of a subclass, or is in a list that is edited by position. Then positions
            are the list's: the records of an update do not have them.

    Example:
        >>> class Tidy(Hooks):
        ...     def before_write(self, write: Writing):
        ...         for record in write.records:
        ...             record["name"] = record["name"].strip().capitalize()
        >>> toolset = Toolset([Recipe], hooks={Recipe: [Tidy()]})
        >>> asked = {"table": "recipes", "data": {"name": " curry "}}
        >>> toolset.call(session, "db_create", asked)["rows"][0]["name"]
        'Curry'
    """

    session: RefSession
    model: type[Any]
    verb: Literal["create", "update", "delete"]
    arguments: DbCreate | DbUpdate | DbDelete | DbEditList
    records: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    drafts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    refs: Sequence[str] = ()


class Hooks:
    """What is done around the verbs on one mapped class; each method does nothing by itself.

    Attributes:
        totals: whether a model may count rows and add up their columns. A hook that has an
            `after_read`, which may hide something of rows, has to say so: `totals = True`.
        sql: whether a model may ask for rows by SQL, of which no hook is told. One that has a
            `before_read` or an `after_read` has to say so: `sql = True`.

    Example:
        >>> class Vegan(Hooks):
        ...     def after_read(self, read, rows):
        ...         for row in rows:
        ...             row["name"] += " (vegan)"
        >>> toolset = Toolset([Recipe], hooks={Recipe: [Vegan()]}, hidden=[Recipe.user_id])
        >>> toolset.call(session, "db_read", {"table": "recipes", "columns": ["name"]})["rows"][0]
        {'id': 'recipe_1', 'name': 'Soup (vegan)'}
    """

    totals: ClassVar[bool | None] = None
    sql: ClassVar[bool | None] = None

    def allows_totals(self) -> bool:
        """Tell whether a model may count rows and add up their columns."""
        is_silent = type(self).after_read is Hooks.after_read
        return is_silent if self.totals is None else self.totals

    def allows_sql(self) -> bool:
        """Tell whether a model may ask for rows by SQL."""
        own = type(self)
        is_silent = (own.before_read, own.after_read) == (Hooks.before_read, Hooks.after_read)
        return is_silent if self.sql is None else self.sql

    def before_read(self, read: Reading) -> None:
        """Look at a read before it is executed, and change it."""

    def after_read(self, read: Reading, rows: list[Row]) -> None:
        """Look at the rows that were read, and change or enrich them."""

    def before_write(self, write: Writing) -> None:
        """Look at a write before it is executed, and change or enrich its records."""

    def after_write(self, write: Writing, rows: list[Row]) -> None:
        """Look at the rows that were written, inside the same transaction."""


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
