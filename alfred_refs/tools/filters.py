"""Filter language: conditions of a model, bound to tables and turned into SQL.

A model's filters pass through two steps, the same for reading, updating and deleting:

1. `bind_filters` walks them once: each path leads to a column, each value becomes a Python value,
   and refs are noted. A condition that cannot be evaluated is refused: an unknown column, a path
   that ends at a relationship, an operator or a value that does not fit the column. So is a call
   that would take the database too long. Conditions are never ignored.
2. `Conditions` makes SQLAlchemy expressions of the result, once the refs are resolved:

>>> recipes = toolset.tables.by_name("recipes")
>>> only = FilterClause(field="servings", op=">", value=2)
>>> bound = bind_filters(DbRead(table="recipes", filters=[only]), recipes)
>>> [condition] = Conditions(keys={}).all_of(bound)
>>> print(condition)
recipes.servings > :servings_1
>>> related = FilterClause(field="lines.recipe_id", op="=", value="recipe_1")
>>> bound = bind_filters(DbRead(table="recipes", filters=[related]), recipes)
>>> list(bound.refs())
[('recipe_1', 'recipe')]
>>> import uuid
>>> [condition] = Conditions(keys={("recipe_1", "recipe"): uuid.UUID(int=1)}).all_of(bound)
>>> str(condition).startswith("EXISTS (SELECT 1")
True

A condition on related rows is an EXISTS, so that no row is returned twice. `=` null, or null in a
list, is IS NULL. As in SQL, other comparisons with a null column are not true, and neither are
their negations.

Limits: drafts are not rows; `matching` applies the same filters to them. Conditions that hooks
add are not counted.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast

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
    DbEditList,
    DbRead,
    Filter,
    FilterClause,
    NotGroup,
    Operator,
    OrGroup,
    over_budget,
)
from alfred_refs.tools.errors import ToolError, invalid_filter, too_many_rows, unknown_column
from alfred_refs.tools.hooks import Reading
from alfred_refs.tools.serialization import has_integer_text, text_as_integers
from alfred_refs.tools.tables import ToolColumn, ToolTable, accept_value, path_of

NULLS = ("is_null", "is_not_null")
"""The operators without a value."""

_EQUALITIES = ("=", "!=", "neq")  # null may be compared
_REF_OPERATORS = (*_EQUALITIES, "in", "not_in")  # for refs of rows with a composite key
_TEXT = values_of(Text(), None)


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition whose column and value are known.

    Attributes:
        field: the path to the column, as the model wrote it.
        op: the operator.
        relationships: the relationships on the path.
        table: the table at the end of the path.
        column: the column; `None` for the refs of rows with a composite key.
        value: for `is_null` and `is_not_null`, whether null matches; for `in` and `not_in` a list,
            with `None` in it if null was; for `contains` a list or a JSON document; for `ilike` a
            pattern; otherwise a value, which is `None` only for equality operators. Refs are text.
        refs: the refs in the value.
        is_own: whether it compares the refs of the rows that are filtered.
        negated: whether it excludes what it names: by its operator, or by an odd number of `not`.
    """

    field: str
    op: Operator
    relationships: tuple[str, ...]
    table: ToolTable
    column: ToolColumn | None
    value: Any
    refs: tuple[str, ...]
    is_own: bool
    negated: bool

    @property
    def entity(self) -> str:
        """The required entity of its refs."""
        column = self.column
        return self.table.entity if column is None or column.entity is None else column.entity

    @property
    def values(self) -> Sequence[Any]:
        """Its value as a list."""
        return self.value if isinstance(self.value, list) else [self.value]


@dataclass(frozen=True, slots=True)
class Group:
    """Several conditions combined, or one negated.

    Attributes:
        by: how they are combined.
        parts: the conditions; one for `"not"`.
    """

    by: Literal["and", "or", "not"]
    parts: tuple[Clause | Group, ...]


Bound = Clause | Group


@dataclass(frozen=True, slots=True)
class BoundFilters:
    """The filters of a call.

    Attributes:
        table: the table whose rows are filtered.
        filters: all of these must hold.
        or_filters: and at least one of these, if any.
        clauses: their conditions, including those in groups.
    """

    table: ToolTable
    filters: tuple[Bound, ...] = ()
    or_filters: tuple[Bound, ...] = ()
    clauses: tuple[Clause, ...] = ()

    def refs(self, drafts: Collection[str] = ()) -> Iterator[tuple[str, str]]:
        """Yield the refs of rows, each with the required entity.

        Args:
            drafts: refs of drafts. They are skipped where they select rows of the table; elsewhere
                only rows can be named.
        """
        for clause in self.clauses:
            skipped = drafts if clause.is_own and not clause.negated else ()
            yield from ((ref, clause.entity) for ref in clause.refs if ref not in skipped)

    def row_refs(self) -> list[str]:
        """Return the refs that select rows of the table itself."""
        return [
            ref for each in self.clauses if each.is_own and not each.negated for ref in each.refs
        ]

    def names_rows(self) -> bool:
        """Return whether only rows that refs name, or that refer to named rows, can match."""
        return any(_names_rows(each, negated=False) for each in self.filters)


def _names_rows(bound: Bound, *, negated: bool) -> bool:
    if isinstance(bound, Clause):
        return bool(bound.refs) and not bound.negated and not {*bound.values} - {*bound.refs}
    if bound.by == "not":
        return _names_rows(bound.parts[0], negated=not negated)
    named = (_names_rows(each, negated=negated) for each in bound.parts)
    return any(named) if (bound.by == "and") is not negated else all(named)  # as De Morgan says


def bind_filters(
    arguments: Arguments,
    table: ToolTable,
    *,
    has_search: bool = True,
    can_contain: Callable[[], bool] = lambda: True,
    is_limited: bool = True,
) -> BoundFilters:
    """Bind the filters of a call to a table.

    Args:
        arguments: the arguments of the call. A semantic search of a read is left out: a hook
            answers it.
        table: the table whose rows are filtered.
        has_search: whether a hook of the table implements semantic search; otherwise its operator
            and field are unknown.
        can_contain: returns whether the database supports `contains`; only PostgreSQL does.
        is_limited: whether to enforce the limits; false for filters that this package makes.

    Raises:
        ToolError: a condition cannot be evaluated, or there are too many.
    """
    if isinstance(arguments, DbCreate | DbEditList):
        return BoundFilters(table)
    filters, or_filters = arguments.filters, list[Filter]()
    if isinstance(arguments, DbRead):
        filters = [each for each in filters if not is_semantic(each)]
        or_filters = arguments.or_filters
    binder = _Binder(table, has_search, can_contain, is_limited)
    all_of, any_of = (tuple(map(binder.bind, each)) for each in (filters, or_filters))
    return BoundFilters(table, all_of, any_of, tuple(binder.clauses))


def filter_by_refs(table: ToolTable, refs: Iterable[str]) -> BoundFilters:
    """Return a filter that selects rows of a table by their refs."""
    only = FilterClause(field=table.ref_field, op="in", value=[*refs])
    return bind_filters(DbRead(table=table.name, filters=[only]), table, is_limited=False)


def is_semantic(given: object) -> bool:
    """Return whether a filter is a semantic search."""
    return isinstance(given, FilterClause) and given.field == SEMANTIC and given.op == "similar"


class _Binder:
    """Binds the filters of one call, and counts them; see `bind_filters`."""

    def __init__(
        self,
        table: ToolTable,
        has_search: bool,
        can_contain: Callable[[], bool],
        is_limited: bool,
    ) -> None:
        self.clauses: list[Clause] = []
        self._table = table
        self._has_search = has_search
        self._can_contain = can_contain
        self._is_limited = is_limited
        self._conditions = 0
        self._steps = 0
        self._drafts: set[str] = set()

    def bind(self, given: Filter, depth: int = 0, *, negated: bool = False) -> Bound:
        """Return a filter bound to the table.

        Args:
            given: the filter.
            depth: the number of groups around it.
            negated: whether the number of `not` around it is odd.
        """
        if isinstance(given, FilterClause):
            texts = texts_in(given)
            if self._is_limited:
                self._count(given, texts)
            clause = self._clause(given, texts, negated=negated)
            self.clauses.append(clause)
            return clause
        _GROUPS.check(depth + 1)
        match given:
            case AndGroup():
                parts = [self.bind(each, depth + 1, negated=negated) for each in given.all_of]
                return Group("and", tuple(parts))
            case OrGroup():
                parts = [self.bind(each, depth + 1, negated=negated) for each in given.any_of]
                return Group("or", tuple(parts))
            case NotGroup():
                part = self.bind(given.negated, depth + 1, negated=not negated)
                return Group("not", (part,))

    def _count(self, clause: FilterClause, texts: Iterable[str]) -> None:
        """Count a condition before it is looked at.

        Raises:
            ToolError: the call has too many.
        """
        steps = clause.field.count(".")
        self._conditions += 1 + _values(clause.value)
        self._steps += steps
        self._drafts.update(filter(parse_draft_ref, texts))
        _CONDITIONS.check(self._conditions)
        _PATH.check(steps + 1)
        _STEPS.check(self._steps)
        _DRAFTS.check(len(self._drafts))

    def _clause(self, clause: FilterClause, texts: Sequence[str], *, negated: bool) -> Clause:
        table = self._table
        *path, name = path_of(clause.field, table)
        for at, step in enumerate(path, start=1):
            table = _target(clause, table, step, path[:at])
        if self._has_search and (name == SEMANTIC or clause.op == "similar"):
            raise _misplaced_search(clause)
        if name == table.row_ref:
            column = None
            value = _row_refs(clause, table)
        else:
            column = table.columns.get(name)
            if column is None:
                raise _no_column(clause, table, name)
            value = _operand(clause, column)
        if clause.op == "contains" and not self._can_contain():
            raise invalid_filter(
                clause.field,
                "cannot be 'contains' in this database",
                "read the rows and compare them",
            )
        negated = negated is not (clause.op in NEGATIONS)
        # "" is read as null, so excluding it would match every row that has a value
        is_ref = column is not None and column.key is not None and not column.key.array
        if negated and is_ref and "" in texts:
            raise invalid_filter(
                clause.field, "excludes a row by an empty string", "give a ref, or null"
            )
        takes_refs = column is None or column.entity is not None
        refs = tuple(filter(None, texts)) if takes_refs else ()
        is_own = not path and name == table.ref_field
        return Clause(
            clause.field, clause.op, tuple(path), table, column, value, refs, is_own, negated
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
        "is inside a group or a path, or in a write, where search by meaning is not possible",
        "give it once, directly in the filters of db_read",
    )


def _row_refs(clause: FilterClause, table: ToolTable) -> list[str]:
    """Return the refs in a filter on rows with a composite key; there is at least one."""
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
    return [*values]


def _operand(clause: FilterClause, column: ToolColumn) -> Any:
    """Return the value of a clause as a Python value; see `Clause`.

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


def texts_in(clause: FilterClause) -> list[str]:
    """Return the texts in a clause's value."""
    values = clause.value if isinstance(clause.value, list) else [clause.value]
    return [each for each in values if isinstance(each, str)]


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

    def check(self, count: int) -> None:
        """Check a count.

        Raises:
            ToolError: it exceeds the maximum.
        """
        if count > self.most:
            raise over_budget(*self)


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
_GROUPS = Budget("groups of filters inside each other", 10, "nest them less")
# one statement each, with as many rows as `Limits` allows
_RELATED = Budget("relationships in its columns", 16, "read their rows from their own tables")
_NAMES = Budget("names in its columns", 200, "name each column once, or leave columns out")
_ORDER = Budget("columns in its order", 16, "order by the first few")
_DRAFTS = Budget("drafts that it names", 100, "do it in several calls")


def check_budget(arguments: Arguments, table: ToolTable, most_written: int) -> None:
    """Check how much a call asks for, except its filters, which `bind_filters` counts.

    Raises:
        ToolError: it is too much.
    """
    if isinstance(arguments, DbCreate):
        rows = [row for each in (arguments, *arguments.also) for row in (*each.rows, *each.drafts)]
        if len(rows) > most_written:
            raise too_many_rows("db_create", most_written)
    elif isinstance(arguments, DbEditList):
        if len(arguments.edits) > most_written:
            raise too_many_rows("db_edit_list", most_written)
    elif isinstance(arguments, DbRead):
        columns, order = arguments.columns or [], arguments.order_by or []
        _NAMES.check(len(columns))
        _PATH.check(max((name.count(".") + 1 for name in columns), default=0))
        _RELATED.check(len({path for name in columns for path in _relationships(name, table)}))
        _ORDER.check(1 if isinstance(order, str) else len(order))


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


_YEAR_DIFFERENCE = dt.timedelta(5)  # between drivers' and PostgreSQL's years

Condition = ColumnElement[bool]

Keys = Mapping[tuple[str, str], Key]
"""The keys that refs name, by ref and required entity."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "neq": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "ilike": lambda attribute, pattern: attribute.ilike(pattern),
    # `contains()` exists only on the PostgreSQL dialect's ARRAY
    "contains": lambda attribute, part: attribute.bool_op("@>")(
        part if isinstance(part, ColumnElement) else literal(part, attribute.type)
    ),
}


Visible = Callable[[ToolTable, Any], Sequence[Condition]]
"""Returns the conditions for rows of a table, by its class or an alias, that hooks do not hide."""


def combine(bound: BoundFilters, condition_of: Callable[[Clause], Condition]) -> list[Condition]:
    """Return conditions that must all hold, given the condition of each clause."""

    def condition(each: Bound) -> Condition:
        if isinstance(each, Clause):
            return condition_of(each)
        parts = list(map(condition, each.parts))
        if each.by == "not":
            return not_(parts[0])
        return and_(*parts) if each.by == "and" else any_of(parts)

    def any_of(parts: Iterable[Condition]) -> Condition:
        either = or_(*parts)
        return false() if sqla.is_false(either) else either  # which decides an `and_()` around it

    conditions = list(map(condition, bound.filters))
    if bound.or_filters:
        conditions.append(any_of(map(condition, bound.or_filters)))
    return conditions


def compare(clause: Clause, attribute: Any, value: Any, *, of_keys: bool = False) -> Condition:
    """Return the condition that compares a column.

    Args:
        clause: the condition on it.
        attribute: the column, as an SQL expression.
        value: the value to compare with.
        of_keys: whether the value is a key or keys.
    """
    if clause.column is not None and clause.column.values.family == "json":
        return _json_condition(clause.op, attribute, value, negated=clause.negated)
    attribute = comparable(attribute)
    if clause.op in NULLS:
        return _is_null(attribute, wanted=value)
    if clause.op in ("in", "not_in"):
        return _is_in(attribute, value, negated=clause.op == "not_in", of_keys=of_keys)
    if value is None:
        return _is_null(attribute, wanted=clause.op == "=")
    # a text key must not be taken for a ref
    value = sqla.key_parameter(value, attribute.type) if of_keys else operand(attribute, value)
    condition: Condition = _COMPARISONS[clause.op](attribute, value)
    return condition


class Conditions:
    """Makes SQL conditions of filters.

    Args:
        keys: the keys of the refs in the filters.
        drafts: the drafts that filters name in the column of a row's own ref; they match no row.
        visible: limits related rows to those that read hooks do not hide.
    """

    def __init__(
        self,
        keys: Keys,
        drafts: Collection[str] = (),
        *,
        visible: Visible = lambda _table, _entity: (),
    ) -> None:
        self._keys = keys
        self._drafts = drafts
        self._visible = visible

    def all_of(self, bound: BoundFilters) -> list[Condition]:
        """Return conditions that must all hold."""
        return combine(
            bound,
            lambda each: self._clause(each, each.relationships, bound.table, bound.table.model),
        )

    def _clause(
        self, clause: Clause, path: Sequence[str], table: ToolTable, entity: Any
    ) -> Condition:
        """Return the condition on rows of a table, on its class or on an alias."""
        if path:
            return self._exists_related(clause, path, table, entity)
        if clause.is_own:
            of_rows = _without_drafts(self._drafts, clause)
            if isinstance(of_rows, bool):
                return true() if of_rows else false()
            clause = of_rows
        if clause.column is None:
            return self._is_row(clause, entity)
        value, of_keys = clause.value, clause.column.entity is not None
        if of_keys and clause.op not in NULLS:
            value = self._keys_of(value, clause.column)
        return compare(clause, getattr(entity, clause.column.name), value, of_keys=of_keys)

    def _keys_of(self, refs: Any, column: ToolColumn) -> Any:
        """Return the keys of one ref or several, as the column stores them."""
        if isinstance(refs, list):
            return [self._keys_of(each, column) for each in refs]
        if refs is None or column.key is None:
            return refs
        return column.key.from_key(self._keys[refs, column.key.entity])

    def _exists_related(
        self, clause: Clause, path: Sequence[str], table: ToolTable, entity: Any
    ) -> Condition:
        """Return an EXISTS of related rows that match the rest of a path."""
        name, *rest = path
        target = table.targets[name]
        other = aliased(target.model)
        condition = and_(self._clause(clause, rest, target, other), *self._visible(target, other))
        if inspect(target.model).mapper.single:
            return _exists_in_shared_table(table, name, entity, other, condition)
        relationship = getattr(entity, name).of_type(other)
        many = table.relationship(name).uselist
        exists: Condition = relationship.any(condition) if many else relationship.has(condition)
        return exists

    def _is_row(self, clause: Clause, entity: Any) -> Condition:
        """Return the condition for rows with composite keys that refs name."""
        table = clause.table
        keys = [table.key_parts(self._keys[ref, table.entity]) for ref in clause.value]
        if not all(keys):  # a ref for only one column of the key
            raise invalid_filter(
                clause.field,
                "names something else than rows",
                f"give the _ref of a row, such as '{table.entity}_1'",
            )
        columns = table.primary_key(entity)
        condition = or_(
            *(and_(*(c == part for c, part in zip(columns, key, strict=True))) for key in keys)
        )
        return not_(condition) if clause.op in NEGATIONS else condition


def read_conditions(read: Reading, bound: BoundFilters, conditions: Conditions) -> list[Condition]:
    """Return the conditions of a read: its filters, and those from hooks."""
    asked = conditions.all_of(bound)
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


def _without_drafts(drafts: Collection[str], clause: Clause) -> Clause | bool:
    """Return a clause on row refs without drafts; a boolean if no row ref is left."""
    rows = [each for each in clause.values if each not in drafts]
    if len(rows) == len(clause.values):
        return clause
    return replace(clause, value=rows) if rows else clause.op in NEGATIONS


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


def _is_in(attribute: Any, values: Sequence[Any], *, negated: bool, of_keys: bool) -> Condition:
    not_null = [value for value in values if value is not None]
    operands: Any = [operand(attribute, value) for value in not_null]
    if of_keys:  # one expanding parameter for all keys
        operands = sqla.key_parameter(not_null, attribute.type)
    # NOT IN matches no row if the list has a NULL
    conditions = (
        [attribute.not_in(operands) if negated else attribute.in_(operands)] if not_null else []
    )
    if len(not_null) < len(values):
        conditions.append(_is_null(attribute, wanted=not negated))
    return and_(*conditions) if negated else or_(*conditions)
