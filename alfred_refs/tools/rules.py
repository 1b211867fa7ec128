"""Rules of the database: descriptions of constraints for a model.

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

Limits: constraints that exist only in the database, not in the metadata, are not described.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

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
from alfred_refs.mapping import clean_label, redact_keys
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
class CheckCondition:
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


def condition_of(sql: str, names: Mapping[str, str | None]) -> CheckCondition:
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
    return CheckCondition(tuple(columns), is_hidden, _one_line(text), tuple(words))


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


def _condition(sql: Any, of: Table, table: ToolTable) -> CheckCondition:
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


def _check(condition: CheckCondition, table: ToolTable) -> Rule:
    names = condition.columns
    columns = [table.columns[name] for name in names]
    if condition.is_hidden or not columns:
        return Rule(names, is_hidden=condition.is_hidden)
    if condition.has_literals and any(column.key is not None for column in columns):
        return Rule(names)  # the values may be keys
    if len(columns) == 1 and _is_plain(columns[0], table):
        return _column_rule(condition, columns[0])
    return Rule(names, words=condition.text)


def _column_rule(condition: CheckCondition, column: ToolColumn) -> Rule:
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
