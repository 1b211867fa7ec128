"""Filter language: patterns, checks, limits, SQL conditions.

A model's filters pass through three steps, the same for reading, updating and deleting:

1. `check_budget` refuses a call that would take the database too long: too many conditions, paths,
   columns or drafts.
2. `check_filters` refuses a condition that cannot be evaluated: an unknown column, a path that
   ends at a relationship, an operator or a value that does not fit the column. This happens before
   refs are resolved and hooks are called. Conditions are never ignored.
3. `Conditions` makes SQLAlchemy expressions:

>>> recipes = toolset.tables.by_name("recipes")
>>> only = [FilterClause(field="servings", op=">", value=2)]
>>> [condition] = Conditions(keys={}).all_of(only, recipes)
>>> print(condition)
recipes.servings > :servings_1
>>> related = [FilterClause(field="lines.text", op="ilike", value="%onion%")]
>>> [condition] = Conditions(keys={}).all_of(related, recipes)
>>> str(condition).startswith("EXISTS (SELECT 1")
True

A condition on related rows is an EXISTS, so that no row is returned twice. `=` null, or null in a
list, is IS NULL. As in SQL, other comparisons with a null column are not true, and neither are
their negations.

`Pattern` evaluates ILIKE patterns on the content of drafts, in time linear in the text.

Limits: drafts are not rows; `drafts` evaluates the same filters on them. Conditions that hooks add
are not counted.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Double,
    Float,
    Numeric,
    Text,
    and_,
    cast as sqlalchemy_cast,
    false,
    func,
    inspect,
    literal,
    not_,
    null,
    or_,
    select,
    true,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import INTERVAL, JSONB
from sqlalchemy.orm import aliased

from alfred_refs import sqla
from alfred_refs.mapping import Key, parse_draft_ref
from alfred_refs.mapping.columns import Values, is_interval, values_of
from alfred_refs.tools.arguments import (
    NEGATIONS,
    SEMANTIC,
    AndGroup,
    Arguments,
    DbCreate,
    DbDelete,
    DbEditList,
    DbRead,
    DbUpdate,
    Filter,
    FilterClause,
    NotGroup,
    OrGroup,
    clauses_of,
    over_budget,
    signed_clauses,
)
from alfred_refs.tools.errors import ToolError, invalid_filter, too_many_rows, unknown_column
from alfred_refs.tools.rules import Reading
from alfred_refs.tools.serialization import has_integer_text, text_as_integers
from alfred_refs.tools.tables import ToolColumn, ToolTable, accept_value, path_of

_ANY_CHARACTER = None

# how many fit into one step: the time that comparing two JSON values takes
_LETTERS_PER_STEP = 3  # compared in Python
_FAST_LETTERS_PER_STEP = 50  # compared in C
_PIECES_PER_STEP = 3


class Pattern:
    """An ILIKE pattern, parsed once for all texts.

    The pieces between its `%` are searched from left to right, each after the end of the previous
    piece. The first match of a piece suffices, so there is no backtracking.

    Args:
        pattern: the pattern; it must not end in a single backslash.
    """

    def __init__(self, pattern: str) -> None:
        self._length = len(pattern)
        self._first, *others = pieces = _pieces(_lower_case(pattern))
        self._count = len(pieces)
        self._is_plain = all(each.letters is not None for each in pieces)
        self._last = others.pop() if others else None
        self._between = others

    def matches(self, text: str) -> bool:
        """Return whether a text matches the pattern, ignoring case."""
        text, first, last = _lower_case(text), self._first, self._last
        if last is None:
            return len(text) == len(first) and first.matches_at(text, 0)
        at, end = len(first), len(text) - len(last)
        if at > end or not first.matches_at(text, 0) or not last.matches_at(text, end):
            return False
        for piece in self._between:
            place = piece.find(text, at, end)
            if place is None:
                return False
            at = place + len(piece)
        return True

    def cost(self, text: str) -> int:
        """Return the cost of matching a text, in comparisons of JSON values."""
        if text.isascii() and self._is_plain:
            return (
                len(text) // _FAST_LETTERS_PER_STEP
                + min(self._count, len(text)) // _PIECES_PER_STEP
            )
        wide = 1 + self._length // 1_000  # masks are long integers
        return len(text) * wide // _LETTERS_PER_STEP


class Piece:
    """The part of a pattern between two `%`.

    Args:
        characters: the characters in lower case; `None` for any character.

    Attributes:
        letters: the piece as text; `None` if it has a wildcard.
    """

    def __init__(self, characters: Sequence[str | None]) -> None:
        self._characters = characters
        letters = [char for char in characters if char is not _ANY_CHARACTER]
        self.letters = "".join(letters) if len(letters) == len(characters) else None
        self._anywhere, self._places = (
            (0, {}) if self.letters is not None else _bit_masks(characters)
        )

    def __len__(self) -> int:
        return len(self._characters)

    def matches_at(self, text: str, at: int) -> bool:
        """Return whether the piece matches a text at a position."""
        if self.letters is not None:
            return text.startswith(self.letters, at)
        return all(
            char in (_ANY_CHARACTER, text[n]) for n, char in enumerate(self._characters, start=at)
        )

    def find(self, text: str, start: int, end: int) -> int | None:
        """Return the first position of the piece in a part of a text."""
        if self.letters is not None:
            place = text.find(self.letters, start, end)
            return None if place < 0 else place
        anywhere, places = self._anywhere, self._places
        reached, whole = 0, 1 << (len(self) - 1)
        for at in range(start, end):
            reached = (reached << 1 | 1) & places.get(text[at], anywhere)
            if reached & whole:
                return at - len(self) + 1
        return None


def _lower_case(text: str) -> str:
    """Return a text in lower case, without characters whose lower case is longer."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def _pieces(pattern: str) -> list[Piece]:
    pieces: list[list[str | None]] = [[]]
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        if part == "%":
            pieces.append([])
        else:
            pieces[-1].append(_ANY_CHARACTER if part == "_" else part[-1])
    return [Piece(each) for each in [pieces[0], *filter(None, pieces[1:-1]), *pieces[1:][-1:]]]


def _bit_masks(characters: Sequence[str | None]) -> tuple[int, Mapping[str, int]]:
    """Return the bits of wildcards, and of each character, by position in the piece.

    The search keeps its states in one integer and shifts it for each character (Shift-And
    algorithm).
    """
    anywhere = sum(1 << n for n, char in enumerate(characters) if char is _ANY_CHARACTER)
    places = dict.fromkeys(filter(None, characters), anywhere)
    for n, char in enumerate(characters):
        if char is not _ANY_CHARACTER:
            places[char] |= 1 << n
    return anywhere, places


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "neq": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
"""The operators as Python functions, for values and for SQL expressions."""

NULLS = ("is_null", "is_not_null")
"""The operators without a value."""

_EQUALITIES = ("=", "!=", "neq")  # null may be compared
_REF_OPERATORS = (*_EQUALITIES, "in", "not_in")  # for refs of rows with a composite key
_TEXT = values_of(Text(), None)


def check_filters(arguments: Arguments, table: ToolTable, *, has_search: bool = True) -> None:
    """Check every condition of a call.

    Args:
        arguments: the arguments of the call.
        table: the table of the call.
        has_search: whether a hook of the table implements semantic search; otherwise its operator
            and field are unknown.

    Raises:
        ToolError: a condition cannot be evaluated.
    """
    if isinstance(arguments, DbCreate | DbEditList):
        return
    filters: Sequence[Filter] = arguments.filters
    if isinstance(arguments, DbRead):
        # semantic searches are for hooks, and are checked separately
        plain = (each for each in arguments.filters if not is_semantic(each))
        filters = [*plain, *arguments.or_filters]
    for clause, negated in signed_clauses(filters):
        check_clause(clause, table, negated=negated, has_search=has_search)


def check_dialect(arguments: Arguments, dialect: str) -> None:
    """Check that the database supports the operators of a call's filters; only PostgreSQL has all.

    Raises:
        ToolError: it does not.
    """
    if dialect == "postgresql" or isinstance(arguments, DbCreate | DbEditList):
        return
    others = arguments.or_filters if isinstance(arguments, DbRead) else []
    for clause in clauses_of([*arguments.filters, *others]):
        if clause.op == "contains":
            raise invalid_filter(
                clause.field,
                "cannot be 'contains' in this database",
                "read the rows and compare them",
            )


def is_semantic(given: object) -> bool:
    """Return whether a filter is a semantic search."""
    return isinstance(given, FilterClause) and given.field == SEMANTIC and given.op == "similar"


def check_clause(
    clause: FilterClause, table: ToolTable, *, negated: bool, has_search: bool = True
) -> None:
    """Check one condition on rows of a table.

    Args:
        clause: the condition.
        table: the table.
        negated: whether it excludes the rows that it names.
        has_search: as for `check_filters`.

    Raises:
        ToolError: it cannot be evaluated.
    """
    *path, name = path_of(clause.field, table)
    for at, step in enumerate(path, start=1):
        table = _target(clause, table, step, path[:at])
    if has_search and (name == SEMANTIC or clause.op == "similar"):
        raise _misplaced_search(clause)
    if name == table.row_ref:
        _check_row_ref(clause, table)
        return
    column = table.columns.get(name)
    if column is None:
        raise _no_column(clause, table, name)
    check_operand(clause, column)
    is_ref = column.key is not None and not column.key.array
    # "" is read as null, so excluding it would match every row that has a value
    if negated and is_ref and "" in texts_in(clause, empty=True):
        raise invalid_filter(
            clause.field, "says which row it is not by an empty text", "give a ref, or null"
        )


def _target(clause: FilterClause, table: ToolTable, name: str, path: Sequence[str]) -> ToolTable:
    """Return the target table of a relationship in a path."""
    target = table.targets.get(name)
    if target is None and name in table.columns:
        raise invalid_filter(
            clause.field,
            f"goes on after {'.'.join(path)!r}, a column, which leads to no other rows",
            "end the path with it",
        )
    if target is None:
        raise unknown_column(table.name, name, table.fields)
    return target


def _no_column(clause: FilterClause, table: ToolTable, name: str) -> ToolError:
    target = table.targets.get(name)
    if target is None:
        return unknown_column(table.name, name, table.fields)
    plain = (each.name for each in target.columns.values() if each.key is None)
    column = next(plain, target.ref_field)
    return invalid_filter(
        clause.field,
        f"leads to rows of {target.name!r} and to none of their columns",
        f"name a column of theirs, such as '{clause.field}.{column}'",
    )


def _misplaced_search(clause: FilterClause) -> ToolError:
    if clause.op != "similar":
        return invalid_filter(
            clause.field, f"cannot be {clause.op!r}", "use 'similar' with a text"
        )
    if clause.field != SEMANTIC:
        return invalid_filter(
            clause.field,
            "cannot be 'similar'",
            f"use field {SEMANTIC!r}, or 'ilike' on a text column",
        )
    return invalid_filter(
        clause.field,
        "stands inside a group or a path, or in a write, where it cannot be answered",
        "give it once, directly in the filters of db_read",
    )


def _check_row_ref(clause: FilterClause, table: ToolTable) -> None:
    """Check a condition on refs of rows with a composite key: it must name rows."""
    if clause.op not in _REF_OPERATORS:
        raise invalid_filter(clause.field, f"cannot be {clause.op!r}", "use '=' or 'in'")
    _check_value(clause)
    values = clause.value if clause.op in ("in", "not_in") else [clause.value]
    are_refs = isinstance(values, list) and all(isinstance(e, str) and e for e in values)
    if not (values and are_refs):
        raise invalid_filter(
            clause.field,
            "names something else than rows",
            f"give the _ref of a row, such as '{table.entity}_1', or a list of them for 'in'",
        )


def check_operand(clause: FilterClause, column: ToolColumn) -> Any:
    """Return the operand of a clause as a Python value.

    Returns:
        for `is_null` and `is_not_null`, whether null matches; for `in` and `not_in` a list, with
        `None` in it if null was; for `contains` a list or a JSON document; for `ilike` a pattern;
        otherwise a value, which is `None` only for equality operators.

    Raises:
        ToolError: the operator or the value does not fit the column.
    """
    values = column.values
    if clause.op not in values.operators:
        raise invalid_filter(
            clause.field,
            f"cannot be {clause.op!r}: the column has {values.expected}",
            f"use one of {', '.join(map(repr, values.operators))}",
        )
    if clause.op in NULLS:
        return _is_null_wanted(clause)
    _check_value(clause)
    match clause.op:
        case "in" | "not_in":
            value: Any = _list_value(clause, clause.value, values)
        case "contains":
            value = _contained_value(clause, values)
        case "ilike":
            value = _pattern(clause)
        case _:
            value = _single_value(clause, values)
    if values.family in ("list", "time"):
        # values that binding would change are refused, such as a list with another dimension
        for each in value if isinstance(value, list) and values.item is None else [value]:
            accept_value(values.check_room, clause.field, each)
    return value


def texts_in(clause: FilterClause, *, empty: bool = False) -> list[str]:
    """Return the texts in a clause's value."""
    values = clause.value if isinstance(clause.value, list) else [clause.value]
    return [each for each in values if isinstance(each, str) and (each or empty)]


def _check_value(clause: FilterClause) -> None:
    """Check that a clause has a value, which may be null."""
    if "value" not in clause.model_fields_set:
        raise invalid_filter(
            clause.field, f"has no value for {clause.op!r}", "give one, or use 'is_null'"
        )


def _is_null_wanted(clause: FilterClause) -> bool:
    if clause.value is not None and not isinstance(clause.value, bool):
        raise invalid_filter(
            clause.field,
            f"has a value beside {clause.op!r}",
            "leave it out, or give true or false",
        )
    return (clause.op == "is_null") == (clause.value is not False)


def _list_value(clause: FilterClause, elements: Any, values: Values) -> list[Any]:
    if not isinstance(elements, list) or not elements:
        raise invalid_filter(
            clause.field,
            f"needs a list with at least one value for {clause.op!r}",
            "give the values as a list",
        )
    return [accept_value(values.accept, clause.field, each) for each in elements]


def _contained_value(clause: FilterClause, values: Values) -> Any:
    """Return the document, or the elements of a list, for `contains`."""
    if values.family == "json":
        if clause.value is None:
            raise invalid_filter(clause.field, "contains nothing", "give a value")
        return clause.value
    elements = clause.value if isinstance(clause.value, list) else [clause.value]
    accepted = _list_value(clause, elements, cast(Values, values.item))
    if None in accepted:
        raise invalid_filter(clause.field, "contains null", "give values only")
    return accepted


def _pattern(clause: FilterClause) -> str:
    # unchanged, because the column's own type may pad values
    pattern: str | None = accept_value(_TEXT.accept, clause.field, clause.value)
    if pattern is None:
        raise invalid_filter(clause.field, "has no pattern", "give one: '%' is any text")
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise invalid_filter(
            clause.field,
            "has a pattern that ends in one backslash",
            "write two for a backslash itself",
        )
    return pattern


def _single_value(clause: FilterClause, values: Values) -> Any:
    value = accept_value(values.accept, clause.field, clause.value)
    if value is None and clause.op not in _EQUALITIES:
        raise invalid_filter(
            clause.field,
            f"compares by {clause.op!r} with nothing",
            "give a value, or use 'is_null'",
        )
    return value


class Budget(NamedTuple):
    """A limit of one call: the counted things, the maximum, and the remedy for the error."""

    what: str
    most: int
    remedy: str


_CONDITIONS = Budget(
    "conditions and values in its filters", 1_000, "ask for less, in several calls if need be"
)
# one subquery each; planning many of them takes PostgreSQL long
_STEPS = Budget(
    "steps to related rows in its filters",
    32,
    "filter by columns of the table itself, or first read the related rows and filter by their "
    "refs",
)
_PATH = Budget("names in a path", 5, "begin at a table that is nearer")
_GROUPS = Budget("groups of filters inside of each other", 10, "nest them less")
# one statement each, with as many rows as `Limits` allows
_RELATED = Budget("relationships in its columns", 16, "read their rows from their own tables")
_NAMES = Budget("names in its columns", 200, "name each column once, or leave columns out")
_ORDER = Budget("columns in its order", 16, "order by the first few")
_DRAFTS = Budget("drafts that it names", 100, "do it in several calls")
# compared in Python
_DECISIONS = Budget(
    "conditions, counted anew for each draft", 20_000, "name fewer drafts, or filter less"
)


def check_budget(arguments: Arguments, table: ToolTable, most_written: int) -> None:
    """Check that a call stays within its budgets.

    Raises:
        ToolError: the call exceeds one.
    """
    if isinstance(arguments, DbCreate):
        rows = [row for each in (arguments, *arguments.also) for row in (*each.rows, *each.drafts)]
        if len(rows) > most_written:
            raise too_many_rows("db_create", most_written)
        return
    if isinstance(arguments, DbEditList):
        if len(arguments.edits) > most_written:
            raise too_many_rows("db_edit_list", most_written)
        return
    for budget, count in _count_all(arguments, table):
        if count > budget.most:
            raise over_budget(*budget)


def _count_all(
    arguments: DbRead | DbUpdate | DbDelete, table: ToolTable
) -> Iterator[tuple[Budget, int]]:
    """Yield the counts of a read or write; counting stops when a limit is exceeded."""
    filters = arguments.filters
    if isinstance(arguments, DbRead):
        filters = [*filters, *arguments.or_filters]
        yield from _count_columns(arguments, table)
    yield from _count_filters(filters)


def _count_columns(arguments: DbRead, table: ToolTable) -> Iterator[tuple[Budget, int]]:
    columns, order = arguments.columns or [], arguments.order_by or []
    yield _NAMES, len(columns)
    yield _PATH, max((name.count(".") + 1 for name in columns), default=0)
    yield _RELATED, len({path for name in columns for path in _relationships(name, table)})
    yield _ORDER, 1 if isinstance(order, str) else len(order)


def _count_filters(filters: Sequence[Filter]) -> Iterator[tuple[Budget, int]]:
    clauses = list(clauses_of(filters))
    steps = [clause.field.count(".") for clause in clauses]
    conditions = len(clauses) + sum(_values(clause.value) for clause in clauses)
    drafts = {text for clause in clauses for text in texts_in(clause) if parse_draft_ref(text)}
    yield _CONDITIONS, conditions
    yield _PATH, max(steps, default=-1) + 1
    yield _STEPS, sum(steps)
    yield _GROUPS, max(map(_depth, filters), default=0)
    yield _DRAFTS, len(drafts)
    yield _DECISIONS, conditions * len(drafts)


def _relationships(name: str, table: ToolTable) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the relationships that a name in `columns` shows."""
    path = path_of(name, table)
    target: ToolTable | None = table
    for n, each in enumerate(path, start=1):
        target = None if target is None else target.targets.get(each)
        if target is not None:
            yield tuple(path[:n])


def _values(value: Any) -> int:
    """Return the number of values in a list or document, at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(1 + _values(each) for each in value) if isinstance(value, list) else 0


def _depth(given: Filter) -> int:
    match given:
        case AndGroup(all_of=filters) | OrGroup(any_of=filters):
            return 1 + max(map(_depth, filters))
        case NotGroup():
            return 1 + _depth(given.negated)
        case FilterClause():
            return 0


_YEAR_DIFFERENCE = dt.timedelta(5)  # between drivers' and PostgreSQL's years

Condition = ColumnElement[bool]

Keys = Mapping[tuple[str, str], Key]
"""The keys that refs name, by ref and required entity."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    **COMPARISONS,
    "ilike": lambda attribute, pattern: attribute.ilike(pattern),
    # `contains()` exists only on the PostgreSQL dialect's ARRAY
    "contains": lambda attribute, part: attribute.bool_op("@>")(
        part if isinstance(part, ColumnElement) else literal(part, attribute.type)
    ),
}


Visible = Callable[[ToolTable, Any], Sequence[Condition]]
"""Returns the conditions for rows of a table, by its class or an alias, that hooks do not hide."""


class Conditions:
    """Makes SQL conditions of filters.

    Args:
        keys: the keys of the refs in the filters.
        drafts: the drafts that filters name in the column of a row's own ref; they match no row.
        visible: limits related rows to those that read hooks do not hide.
        negated: whether the filters are inside a `not`.
    """

    def __init__(
        self,
        keys: Keys,
        drafts: Collection[str] = (),
        *,
        visible: Visible = lambda _table, _entity: (),
        negated: bool = False,
    ) -> None:
        self._keys = keys
        self._drafts = drafts
        self._visible = visible
        self._negated = negated

    def all_of(self, filters: Iterable[Filter], table: ToolTable) -> list[Condition]:
        """Return one condition for each filter on rows of a table."""
        return [self._condition(each, table, table.model) for each in filters]

    def _condition(self, given: Filter, table: ToolTable, entity: Any) -> Condition:
        match given:
            case AndGroup():
                return and_(*(self._condition(each, table, entity) for each in given.all_of))
            case OrGroup():
                return or_(*(self._condition(each, table, entity) for each in given.any_of))
            case NotGroup():
                other = Conditions(
                    self._keys,
                    self._drafts,
                    visible=self._visible,
                    negated=not self._negated,
                )
                return not_(other._condition(given.negated, table, entity))
            case FilterClause():
                return self._clause(given, path_of(given.field, table), table, entity)

    def _clause(
        self, clause: FilterClause, path: Sequence[str], table: ToolTable, entity: Any
    ) -> Condition:
        name, *rest = path
        if rest:
            return self._exists_related(clause, name, rest, table, entity)
        if entity is table.model and name == table.ref_field:
            of_rows = _without_drafts(self._drafts, clause)
            if isinstance(of_rows, bool):
                return true() if of_rows else false()
            clause = of_rows
        if name == table.row_ref:
            return self._is_row(clause, table, entity)
        return self._comparison(clause, table.column(name), getattr(entity, name))

    def _comparison(self, clause: FilterClause, column: ToolColumn, attribute: Any) -> Condition:
        """Return the comparison of a column, on the class or on an alias."""
        value = check_operand(clause, column)
        if column.values.family == "json":
            return _json_condition(clause.op, attribute, value, negated=self._negated)
        attribute = comparable(attribute)
        if clause.op in NULLS:
            return _is_null(attribute, wanted=value)
        if column.entity is not None:
            value = self._keys_of(value, column)
        if clause.op in ("in", "not_in"):
            return _is_in(attribute, value, column, negated=clause.op == "not_in")
        if value is None:
            return _is_null(attribute, wanted=clause.op == "=")
        if column.entity is None:
            value = operand(attribute, value)
        else:  # a text key must not be taken for a ref
            value = sqla.key_parameter(value, attribute.type)
        condition: Condition = _COMPARISONS[clause.op](attribute, value)
        return condition

    def _keys_of(self, refs: Any, column: ToolColumn) -> Any:
        """Return the keys of one ref or several, as the column stores them."""
        if isinstance(refs, list):
            return [self._keys_of(each, column) for each in refs]
        if refs is None or column.key is None:
            return refs
        return column.key.from_key(self._keys[refs, column.key.entity])

    def _exists_related(
        self, clause: FilterClause, name: str, rest: Sequence[str], table: ToolTable, entity: Any
    ) -> Condition:
        """Return an EXISTS of related rows that match the rest of a path."""
        target = table.targets[name]
        other = aliased(target.model)
        condition = and_(self._clause(clause, rest, target, other), *self._visible(target, other))
        if inspect(target.model).mapper.single:
            return _exists_in_shared_table(table, name, entity, other, condition)
        relationship = getattr(entity, name).of_type(other)
        many = table.relationship(name).uselist
        exists: Condition = relationship.any(condition) if many else relationship.has(condition)
        return exists

    def _is_row(self, clause: FilterClause, table: ToolTable, entity: Any) -> Condition:
        """Return the condition for rows with composite keys that refs name."""
        keys = [table.key_parts(self._keys[ref, table.entity]) for ref in texts_in(clause)]
        if not all(keys):  # a ref for only one column of the key
            raise invalid_filter(
                clause.field,
                "names something else than rows",
                f"give the _ref of a row, such as '{table.entity}_1'",
            )
        columns = [getattr(entity, name) for name in table.identity]
        condition = or_(
            *(and_(*(c == part for c, part in zip(columns, key, strict=True))) for key in keys)
        )
        return not_(condition) if clause.op in NEGATIONS else condition


def read_conditions(read: Reading, table: ToolTable, conditions: Conditions) -> list[Condition]:
    """Return the conditions of a read: filters, or-filters, and conditions from hooks."""
    arguments = read.arguments
    asked = conditions.all_of(arguments.filters, table)
    if arguments.or_filters:
        asked.append(or_(*conditions.all_of(arguments.or_filters, table)))
    if read.or_conditions and asked:
        asked = [or_(and_(*asked), *read.or_conditions)]
    return [*asked, *read.conditions]


def _exists_in_shared_table(
    table: ToolTable, name: str, entity: Any, other: Any, condition: Condition
) -> Condition:
    """Return an EXISTS of related rows of a class with single-table inheritance.

    SQLAlchemy's `any()` and `has()` compare the discriminator of the outer table, which may be the
    same table; a join compares the discriminator of the alias.
    """
    row = aliased(table.model)
    is_same = (getattr(row, each) == getattr(entity, each) for each in table.identity)
    related = select(literal(1)).select_from(row).join(getattr(row, name).of_type(other))
    return related.where(*is_same, condition).exists()


def _without_drafts(drafts: Collection[str], clause: FilterClause) -> FilterClause | bool:
    """Return a clause on row refs without drafts; a boolean if no row ref is left."""
    value = clause.value
    match clause.op:
        case "=" | "!=" | "neq" if isinstance(value, str) and value in drafts:
            return clause.op != "="
        case "in" | "not_in" if isinstance(value, list):
            rows = [each for each in value if not (isinstance(each, str) and each in drafts)]
            if value and not rows:
                return clause.op == "not_in"
            return clause.model_copy(update={"value": rows})
    return clause


def refs_in(
    filters: Iterable[Filter], table: ToolTable, drafts: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the refs of rows in filters, each with the required entity.

    Args:
        filters: checked filters on rows of a table.
        table: the table.
        drafts: refs of drafts. They are skipped in conditions on a row's own ref; elsewhere only
            rows can be named.
    """
    for clause, negated in signed_clauses(filters):
        entity = _entity_at(path_of(clause.field, table), table)
        skipped = drafts if clause.field == table.ref_field and not negated else ()
        texts = (text for text in texts_in(clause) if text not in skipped)
        yield from ((text, entity) for text in texts if entity is not None)


def row_refs(filters: Iterable[Filter], table: ToolTable) -> list[str]:
    """Return the refs by which filters select rows of the table itself."""
    return [
        text
        for clause, negated in signed_clauses(filters)
        if clause.field == table.ref_field and not negated
        for text in texts_in(clause)
    ]


def names_rows(filters: Iterable[Filter], table: ToolTable) -> bool:
    """Return whether filters match only rows that refs name, or rows that refer to named rows."""
    return any(_names_rows(each, table, negated=False) for each in filters)


def _names_rows(given: Filter, table: ToolTable, *, negated: bool) -> bool:
    match given:
        case AndGroup() | OrGroup():
            parts = given.all_of if isinstance(given, AndGroup) else given.any_of
            named = (_names_rows(each, table, negated=negated) for each in parts)
            # a negated "or" is an "and"
            return any(named) if isinstance(given, AndGroup) is not negated else all(named)
        case NotGroup():
            return _names_rows(given.negated, table, negated=not negated)
        case FilterClause():
            values = given.value if isinstance(given.value, list) else [given.value]
            return (
                negated is (given.op in NEGATIONS)
                and given.op not in NULLS
                and _entity_at(path_of(given.field, table), table) is not None
                and all(isinstance(each, str) and each for each in values)
            )


def _entity_at(path: Sequence[str], table: ToolTable) -> str | None:
    """Return the entity of the refs in a column; `None` for a column without refs."""
    *relationships, name = path
    target: ToolTable | None = table
    for each in relationships:
        target = None if target is None else target.targets.get(each)
    if target is None:
        return None
    if name == target.row_ref:
        return target.entity
    column = target.columns.get(name)
    return column.entity if column is not None else None


# PostgreSQL's `json` has no equality; in other databases documents are text
_COMPARED_DOCUMENT = Text().with_variant(JSONB(), "postgresql")


def _json_condition(op: str, attribute: Any, operand: Any, *, negated: bool) -> Condition:
    """Return the condition on a JSON column; a JSON null counts as NULL, as in rows."""
    json_null = sqlalchemy_cast(literal("null", Text), _COMPARED_DOCUMENT)
    if op != "contains":
        document = sqlalchemy_cast(attribute, _COMPARED_DOCUMENT)
        return _is_null(func.nullif(document, json_null), wanted=operand)
    document = sqlalchemy_cast(attribute, JSONB)
    # without nullif() an index can be used; false or NULL makes no difference here
    searched = func.nullif(document, json_null, type_=JSONB) if negated else document
    condition: Condition = _COMPARISONS[op](searched, operand)
    if has_integer_text(operand):  # an integer, or a text as it is
        return or_(condition, _COMPARISONS[op](searched, text_as_integers(operand)))
    return condition


def operand(attribute: Any, value: Any) -> Any:
    """Return a value for a comparison with an attribute.

    A float is cast to the column's type, because a single-precision column would not equal a
    double. A decimal is bound as NUMERIC without a scale, because casts of some drivers would
    round it.
    """
    if isinstance(attribute.type, Float):
        return sqlalchemy_cast(value, attribute.type)
    if isinstance(attribute.type, Numeric) and not isinstance(value, ColumnElement):
        return literal(value, Numeric())
    return value


def comparable(attribute: Any) -> Any:
    """Return an attribute for a comparison.

    PostgreSQL compares a year of an interval as 360 days, and drivers load it as 365.
    """
    if not is_interval(attribute.type):
        return attribute
    years = sqlalchemy_cast(func.extract("year", attribute), Double)
    return type_coerce(attribute + years * literal(_YEAR_DIFFERENCE, INTERVAL), attribute.type)


def _is_null(attribute: Any, *, wanted: bool) -> Condition:
    condition: Condition = attribute.is_(null()) if wanted else attribute.is_not(null())
    return condition


def _is_in(
    attribute: Any, values: Sequence[Any], column: ToolColumn, *, negated: bool
) -> Condition:
    not_null = [value for value in values if value is not None]
    operands: Any = [operand(attribute, value) for value in not_null]
    if column.entity is not None:  # one expanding parameter for all keys
        operands = sqla.key_parameter(not_null, attribute.type)
    # NOT IN matches no row if the list has a NULL
    conditions = (
        [attribute.not_in(operands) if negated else attribute.in_(operands)] if not_null else []
    )
    if len(not_null) < len(values):
        conditions.append(_is_null(attribute, wanted=not negated))
    return and_(*conditions) if negated else or_(*conditions)
