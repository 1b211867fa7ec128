"""Rules of the application and of the database: descriptions of constraints, and hooks.

`rules_of` describes the CHECK constraints, unique constraints and unique indexes that a model must
know to write a row, as far as they concern columns that it sees. `rules_named` finds the rule that
the database names in an error. Both read SQLAlchemy's metadata and send no SQL.

>>> from sqlalchemy import CheckConstraint, MetaData
>>> condition = condition_of("servings BETWEEN 1 AND 12", {"servings": "servings"})
>>> condition.limits(numeric=True)
'1 to 12'
>>> condition_of("lower(name) <> 'none'", {"name": "name"}).text
"lower(name) <> 'none'"

A condition is split into names, literals and operators, without a SQL parser. Two forms are
described in words: a column with a choice of values, and a column that is compared with values.
Any other condition is shown as its SQL, without casts.

Hidden columns are never named: a check with hidden columns is not described, and a unique
constraint is described by its visible columns, because it compares the rows of one owner.

`Hooks` contain the application's code around the verbs on one class. A hook receives a `Reading`
or a `Writing`: the checked arguments and the session, and changes it in place. Hooks are trusted:
they see everything that the session shows, in refs, and may run SQLAlchemy on the class. They are
synchronous functions even with asynchronous sessions, where they run inside the awaited call. They
raise `ToolError` to refuse a call.

Limits: constraints that exist only in the database, not in the metadata, are not described.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from alfred_refs.mapping import clean_label, redact_keys
from alfred_refs.session import RefSession
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

# comparison operator -> its words before the value
_SIGNS: Final = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "<>": "not", "!=": "not"}


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition.

    Attributes:
        columns: the attributes that it names, without duplicates.
        is_hidden: whether it names columns that are hidden from the model.
        text: its SQL on one line, with the model's names.
        words: its names, literals and operators, in order; keywords in capitals.
    """

    columns: tuple[str, ...]
    is_hidden: bool
    text: str
    words: tuple[str, ...]

    @property
    def has_literals(self) -> bool:
        """Whether it contains values."""
        return any(re.match(r"[eE]?'|[$\d-]", word) for word in self.words)

    def choices(self, *, numeric: bool) -> list[str] | None:
        """Return the values that its column may have, as JSON; `None` if it does not list them."""
        match self._comparison_words():
            case [_, "IN", *values] | [_, "=", "ANY", "ARRAY", *values]:
                literals = values[::2]
                is_list = all(each == "," for each in values[1::2]) and len(values) % 2
                json_values = [_literal_to_json(each, numeric=numeric) for each in literals]
                return (
                    None
                    if not is_list or None in json_values
                    else [each or "" for each in json_values]
                )
        return None

    def limits(self, *, numeric: bool) -> str | None:
        """Describe the limits of its only column; `None` if it is not a comparison."""
        words = self._comparison_words()
        match words:
            case [name, "BETWEEN", least, "AND", most]:
                words = [name, ">=", least, "AND", name, "<=", most]
        comparisons = [
            _comparison([*part], words[0], numeric=numeric)
            for is_and, part in groupby(words, lambda word: word == "AND")
            if not is_and
        ]
        match comparisons:
            case [(">=", least), ("<=", most)]:
                return f"{least} to {most}"
        known = [f"{each[0]} {each[1]}" for each in comparisons if each is not None]
        return " and ".join(known) if len(known) == len(comparisons) else None

    def _comparison_words(self) -> list[str]:
        """Return the words without 'IS NULL OR', which every CHECK constraint implies."""
        words = list(self.words)
        if self.is_hidden or words[:1] != [*self.columns]:
            return [""]
        return words[4:] if words[1:4] == ["IS", "NULL", "OR"] else words


def condition_of(sql: str, names: Mapping[str, str | None]) -> Condition:
    """Parse a condition.

    Args:
        sql: the condition.
        names: the column names in it, in lower case -> the model's names; `None` for a hidden
            column.
    """
    columns: dict[str, None] = {}
    is_hidden, text, words = False, "", []
    for match in _TOKEN.finditer(sql):
        kind, token = match.lastgroup, match.group()
        word, column = token, token.strip('"').lower()
        if kind == "name" and column in names:
            name = names[column]
            is_hidden |= name is None
            word = name or ""
            columns |= {} if name is None else {name: None}
        elif kind == "name":
            word = token.upper() if token.upper() in _KEYWORDS else token
        text += "" if kind == "cast" else word
        words += [] if kind in ("cast", "space", "bracket") else [word]
    return Condition(tuple(columns), is_hidden, _one_line(text), tuple(words))


_KEYWORDS = frozenset(["AND", "OR", "NOT", "IN", "ANY", "ARRAY", "BETWEEN", "IS", "NULL"])


def _one_line(text: str) -> str:
    """Return SQL as one line, without redundant parentheses."""
    before = None
    while text != before:
        before, text = text, _AROUND_A_NAME.sub(r"\1", text)
    return clean_label(text) or ""


def _comparison(words: Sequence[str], column: str, *, numeric: bool) -> tuple[str, str] | None:
    match words:
        case [name, sign, literal] if name == column and sign in _SIGNS:
            shown = _literal_to_json(literal, numeric=numeric)
            return None if shown is None else (_SIGNS[sign], shown)
    return None


def _literal_to_json(literal: str, *, numeric: bool) -> str | None:
    """Return a SQL literal as JSON; `None` if it is not a literal, or contains a key."""
    if re.fullmatch(r"-?\d+(\.\d+)?", literal):
        return literal if numeric else None
    if not literal.startswith("'"):
        return None
    value = literal[1:-1].replace("''", "'")
    if redact_keys(value) != value:
        return None  # it contains a key
    return value if numeric else quote_text(value)


def quote_text(value: str) -> str:
    """Return a text in JSON quotes, without line breaks."""
    return json.dumps(value, ensure_ascii=not value.isprintable())


PLANNED = "alfred_refs.planned"
"""The entry of `Session.info` that is true while a call is planned."""

Row = dict[str, Any]
"""One row as the model sees it: JSON values by column."""


@dataclass
class Reading:
    """A read, before or after it is executed.

    Attributes:
        session: the session that executes it.
        model: the mapped class.
        arguments: the model's arguments; if a hook replaces them, they are validated again.
        semantic: the text of a semantic search; a hook that implements it sets `keys`.
        keys: only rows with these primary keys or refs, in this order.
        options: loader options of the statement.
        include: paths of relationships whose rows are nested in each row.
        conditions: conditions on the rows, in addition to the filters.
        or_conditions: rows that match one of these are read even if they do not match the filters.
        notes: texts for the model, next to the rows.
        empty: whether to return no rows, without a statement.
        totals: whether rows are only counted or added up; `after_read` is not called then, and
            `options` and `include` have no effect.
        nested: whether the rows are reached through other rows: nested in them, named by them, in
            a list, shown after a write, or tested by a filter. `arguments` then names only the
            table, and `options` and `include` have no effect.

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
    nested: bool = False

    @property
    def user(self) -> Any:
        """The `user` of `BoundToolset.call`, or `None`."""
        return self.session.info.get("user")

    def clauses(self) -> Iterator[FilterClause]:
        """Yield all conditions of the arguments, including those inside groups."""
        return clauses_of([*self.arguments.filters, *self.arguments.or_filters])

    def answer_empty(self, note: str) -> None:
        """Return no rows to the model, with a note instead.

        Args:
            note: the reason, for the model.
        """
        self.empty = True
        self.notes.append(note)


@dataclass
class Writing:
    """A write, before or after it is executed.

    Attributes:
        session: the session that executes it.
        model: the mapped class.
        verb: `"create"`, `"update"` or `"delete"`.
        arguments: the model's arguments.
        records: the new rows (create), the one set of changes (update) or nothing (delete): Python
            values, and refs as the model passed them; hooks may change them. New rows nested in
            drafts are a separate write, in which the outer row has no ref.
        notes: texts for the model, next to the rows.
        drafts: the content of the drafts that the call saves, by ref; records may name them
            although they are not rows yet.
        refs: the rows, if no filter names them: rows that are deleted with others (delete), lose
            their reference (update), get the new value of a referenced column (update), are moved
            to a draft that is saved (update), belong to a subclass, or are in a list that is
            edited by position. The records of a list edit do not contain positions.
        undoes: the number of the call that a person undoes; `refs` are then the rows, and records
            are not used.

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
    undoes: int | None = None

    @property
    def user(self) -> Any:
        """The `user` of `BoundToolset.call`, or `None`."""
        return self.session.info.get("user")

    @property
    def planned(self) -> bool:
        """Whether the write will be rolled back (a plan), so hooks must not send anything."""
        return bool(self.session.info.get(PLANNED))


class Hooks:
    """Base class of hooks around the verbs on one mapped class; the methods here do nothing.

    Attributes:
        totals: whether a model may count rows and add up columns. A hook with an `after_read`,
            which may hide values, must set `totals = True` to allow it; it then does not see
            labels of the rows either.
        sql: whether a model may read the rows by SQL, which calls no hook. A hook with a
            `before_read` or an `after_read` must set `sql = True` to allow it.
        fills: the attributes that `before_write` sets in new rows that lack them. Descriptions for
            models do not list them as required.

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
    fills: ClassVar[Collection[str]] = ()

    def allows_totals(self) -> bool:
        """Return whether a model may count rows and add up columns: no value is hidden."""
        is_silent = type(self).after_read is Hooks.after_read
        return is_silent if self.totals is None else self.totals

    def allows_sql(self) -> bool:
        """Return whether a model may read the rows by SQL."""
        return not self.looks_at_reads() if self.sql is None else self.sql

    def looks_at_reads(self) -> bool:
        """Return whether the hook overrides `before_read` or `after_read`."""
        own = type(self)
        return (own.before_read, own.after_read) != (Hooks.before_read, Hooks.after_read)

    def may_search(self) -> bool:
        """Return whether the hook may implement semantic search."""
        return type(self).before_read is not Hooks.before_read

    def before_read(self, read: Reading) -> None:
        """Inspect or change a read before it is executed.

        It is also called, once per call, if other reads and writes reach the rows
        (`Reading.nested`), and hides rows there too.

        Args:
            read: the read, which the hook may change.
        """

    def after_read(self, read: Reading, rows: list[Row]) -> None:
        """Inspect or change rows that an answer shows, or remove some.

        Args:
            read: the read.
            rows: the rows of the answer: JSON values by column.
        """

    def before_write(self, write: Writing) -> None:
        """Inspect or change a write and its records before it is executed.

        Args:
            write: the write, which the hook may change.
        """

    def after_write(self, write: Writing, rows: list[Row]) -> None:
        """Inspect the rows that were written, in the same transaction.

        Args:
            write: the write.
            rows: the rows after the write: JSON values by column; empty for a delete.
        """


_MAX_NAME_BYTES = 63  # PostgreSQL truncates longer names

# compiled with a paramstyle that does not double '%'
_DIALECT = PGDialect(paramstyle="named")  # type: ignore[no-untyped-call]  # SQLAlchemy's

# constraint class -> the suffix of names that PostgreSQL generates
_NAME_SUFFIXES: Mapping[type[Any], str] = {
    PrimaryKeyConstraint: "pkey",
    UniqueConstraint: "key",
    ForeignKeyConstraint: "fkey",
    CheckConstraint: "check",
    ExcludeConstraint: "excl",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint on the rows of a table.

    Attributes:
        columns: the columns, by the model's names.
        is_hidden: whether it has hidden columns too.
        words: its description; empty if there is none.
        choices: the values that its column may have, as JSON.
        is_inline: whether the words describe one column without naming it.
    """

    columns: tuple[str, ...]
    is_hidden: bool = False
    words: str = ""
    choices: Sequence[str] = ()
    is_inline: bool = False

    @property
    def is_simple(self) -> bool:
        """Whether it only makes its columns unique."""
        return self.words in ("", "unique", f"unique together: {', '.join(self.columns)}")

    @property
    def line(self) -> str:
        """Its line in a description, if it has several columns."""
        return self.words if self.words.startswith("unique") else f"rule: {self.words}"

    def __str__(self) -> str:
        words = " | ".join(self.choices) or self.words
        return f"{self.columns[0]}: {words}" if self.is_inline and words else words


def rules_of(table: ToolTable) -> list[Rule]:
    """Return the rules that a model must know to write rows of a table."""
    rules = {}
    for constraint, of in _constraints(table):
        # constraints of types (Enum, Boolean) are described by the type
        rule = None if sqla.is_type_bound(constraint) else _rule(constraint, of, table)
        columns = [] if rule is None else [table.columns[name] for name in rule.columns]
        if rule is not None and str(rule) and any(c.creatable or c.updatable for c in columns):
            rules[str(rule)] = rule
    places = {name: place for place, name in enumerate(table.columns)}
    return sorted(rules.values(), key=lambda r: ([places[n] for n in r.columns], str(r)))


def rules_named(name: str | None, table: ToolTable) -> list[Rule]:
    """Return the rules that may have a constraint name.

    Several if PostgreSQL generated the name.
    """
    if name is None:
        return []
    constraints = list(_constraints(table))
    matches = [(each, of) for each, of in constraints if _name_of(each) == name]
    if not matches:
        number = name[len(name.rstrip("0123456789")) :]
        unnamed = ((each, of) for each, of in constraints if _name_of(each) is None)
        matches = [(each, of) for each, of in unnamed if _generated_name(each, of, number) == name]
    rules = [_rule(each, of, table) or _columns_of(each, of, table) for each, of in matches]
    return sorted(rules, key=str)


def _constraints(table: ToolTable) -> Iterator[tuple[Any, Table]]:
    """Yield table constraints, column constraints and unique indexes."""
    for of in (each for each in inspect(table.model).mapper.tables if isinstance(each, Table)):
        beside = (each for column in of.columns for each in column.constraints)
        for each in (*of.constraints, *beside, *(index for index in of.indexes if index.unique)):
            yield each, of


def _attribute(column: Column[Any], table: ToolTable) -> str | None:
    """Return the model's name for a column; `None` if it is hidden."""
    try:
        name = inspect(table.model).mapper.get_property_by_column(column).key
    except UnmappedColumnError:
        return None
    return name if name in table.columns else None


def _rule(constraint: Any, of: Table, table: ToolTable) -> Rule | None:
    """Return the rule of a constraint; `None` for one that does not restrict values."""
    match constraint:
        case CheckConstraint():
            return _check(_condition(constraint.sqltext, of, table), table)
        case UniqueConstraint() | PrimaryKeyConstraint():
            return _unique([*constraint.columns], None, of, table)
        case Index():
            where = constraint.dialect_options["postgresql"]["where"]
            return _unique([*constraint.expressions], where, of, table)
    return None


def _columns_of(constraint: Any, of: Table, table: ToolTable) -> Rule:
    """Return the columns of a constraint, without its words."""
    # an ExcludeConstraint may have column names only
    columns = (of.columns.get(each.name) for each in getattr(constraint, "columns", ()))
    names = [_attribute(column, table) for column in columns if column is not None]
    return Rule(tuple(name for name in names if name is not None), is_hidden=None in names)


def _condition(sql: Any, of: Table, table: ToolTable) -> Condition:
    names = {column.name.lower(): _attribute(column, table) for column in of.columns}
    return condition_of(_sql(sql), names)


def _sql(given: Any) -> str:
    if isinstance(given, TextClause):
        # text() escapes colons, which are not parameters in a constraint
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
        return Rule(names)  # the values may be keys
    if len(columns) == 1 and _is_plain(columns[0], table):
        return _column_rule(condition, columns[0])
    return Rule(names, words=condition.text)


def _column_rule(condition: Condition, column: ToolColumn) -> Rule:
    numeric = column.values.family == "number"
    choices = condition.choices(numeric=numeric)
    if choices is not None:
        return Rule((column.name,), choices=choices, is_inline=True)
    limits = condition.limits(numeric=numeric)
    if limits is not None:
        return Rule((column.name,), words=limits, is_inline=True)
    return Rule((column.name,), words=condition.text)


def _is_plain(column: ToolColumn, table: ToolTable) -> bool:
    """Return whether a column has the same values in JSON and in the database."""
    held: Any = inspect(table.model).mapper.column_attrs[column.name].columns[0]
    is_compared = column.values.family in ("text", "number", "time", "choice")
    return is_compared and not isinstance(held.type, TypeDecorator)


def _unique(expressions: Sequence[Any], where: Any, of: Table, table: ToolTable) -> Rule:
    condition = None if where is None else _condition(where, of, table)
    parts: list[str | None] = [
        _attribute(each, table) if isinstance(each, Column) else None for each in expressions
    ]
    columns = dict.fromkeys(name for name in parts if name is not None)
    for place, each in enumerate(expressions):
        if not isinstance(each, Column):
            expression = _condition(each, of, table)
            columns |= dict.fromkeys(expression.columns)
            parts[place] = None if expression.is_hidden else expression.text
    visible = [each for each in parts if each is not None]
    is_hidden = len(visible) < len(parts) or (condition is not None and condition.is_hidden)
    if table.has_own_part(each for each in expressions if isinstance(each, Column)):
        return Rule((*columns,), is_hidden=True)  # a part of the key always differs
    if not visible or (condition is not None and condition.is_hidden):
        return Rule((*columns,), is_hidden=is_hidden)
    if condition is None and visible == [*columns] and len(visible) == 1:
        return Rule((*columns,), is_hidden=is_hidden, words="unique", is_inline=True)
    together = "unique together: " if len(visible) > 1 else "unique: "
    only = "" if condition is None else f" where {condition.text}"
    return Rule((*columns,), is_hidden=is_hidden, words=f"{together}{', '.join(visible)}{only}")


def _name_of(constraint: Constraint | Index) -> str | None:
    """Return the name of a constraint in the database; `None` if PostgreSQL generated it."""
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
        return str(constraint.name)[:_MAX_NAME_BYTES]
    return None if name is None else name.strip('"')


def _generated_name(constraint: Constraint | Index, of: Table, number: str) -> str | None:
    """Return the name that PostgreSQL generates for an unnamed constraint.

    Args:
        constraint: a constraint without a name.
        of: its table.
        number: the number that PostgreSQL appends if the name is taken.
    """
    suffix = next(
        (end for kind, end in _NAME_SUFFIXES.items() if isinstance(constraint, kind)), None
    )
    if suffix is None:
        return None
    suffix += number
    columns = [column.name for column in getattr(constraint, "columns", ())]
    if isinstance(constraint, CheckConstraint):
        names = {column.name.lower(): column.name for column in of.columns}
        columns = [*condition_of(_sql(constraint.sqltext), names).columns]
        columns = columns if len(columns) == 1 else []
    elif isinstance(constraint, PrimaryKeyConstraint):
        columns = []
    table, middle = of.name, "_".join(columns)
    # the longer part is cut first: PostgreSQL's `makeObjectName()`
    while len(table) + len(middle) > _MAX_NAME_BYTES - len(suffix) - (2 if middle else 1):
        table, middle = (table[:-1], middle) if len(table) > len(middle) else (table, middle[:-1])
    return "_".join(filter(None, [table, middle, suffix]))
