"""Filters on drafts: which drafts match, decided by the database without reading a table.

`DraftRecord` is the content of a draft, or of a row nested in one, by column. `matching_records`
sends the values that the filters name as a list of rows (VALUES) and applies the conditions of
`filters` to it, so that texts, times and documents are compared as in a table:

>>> from alfred_refs.tools import DbRead, FilterClause
>>> from alfred_refs.tools.filters import bind_filters
>>> recipes = toolset.tables.by_name("recipes")
>>> soup = DraftRecord(recipes, {"name": "Onion soup"}, "gen_recipe_1", "gen_recipe_1")
>>> only = FilterClause(field="name", op="ilike", value="%SOUP%")
>>> bound = bind_filters(DbRead(table="recipes", filters=[only]), recipes)
>>> [record.name for record in matching_records(session, [soup], bound)]
['gen_recipe_1']

Rows nested in drafts are a second list, which an EXISTS searches. Filters that only name drafts
by their refs need no statement.

Limits: a path through rows that are not part of the draft cannot be followed, and is refused. Refs
are compared as text, because drafts have no keys yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from sqlalchemy import (
    ARRAY,
    CTE,
    FromClause,
    Integer,
    Text,
    cast,
    column as sqlalchemy_column,
    exists,
    false,
    literal,
    not_,
    select,
    values,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.session import RefSession
from alfred_refs.tools.arguments import NEGATIONS
from alfred_refs.tools.errors import invalid_filter, invalid_value
from alfred_refs.tools.filters import NULLS, BoundFilters, Clause, Condition, combine, compare
from alfred_refs.tools.tables import ROW_REF, ToolColumn, ToolTable, accept_value

_MAX_VALUES = 20_000  # one statement has up to 65,535 parameters
_REFUSED_VALUES = ("22", "0A")  # classes of SQLSTATE


@dataclass(frozen=True, slots=True)
class DraftRecord:
    """The content of a draft, or of a row nested in one.

    Attributes:
        table: the table of the row that it will become.
        content: JSON values by attribute; by relationship, nested objects or refs of rows.
        name: its name in errors: the draft's ref, or a path from it.
        ref: the draft's ref; `None` for nested rows.
        saved_refs: refs of drafts that have been saved -> the refs of their rows.
    """

    table: ToolTable
    content: Mapping[str, Any]
    name: str
    ref: str | None = None
    saved_refs: Mapping[str, str] = field(default_factory=dict)

    def json_value(self, column: ToolColumn) -> Any:
        """Return the content of a column as JSON, with current refs of saved drafts."""
        if column.own and self.ref is not None:
            return self.ref
        value = self.content.get(column.name)
        if value is None and column.key is not None:
            value = self._related_ref(column.name)
        return current_refs(value, self.saved_refs) if column.key is not None else value

    def value(self, column: ToolColumn) -> Any:
        """Return the Python value of a column.

        Raises:
            ToolError: the content does not fit the column, for example after a migration.
        """
        json_value = self.json_value(column)
        if column.values.family == "opaque":
            return json_value
        return accept_value(column.values.accept, f"{self.name}.{column.name}", json_value)

    def _related_ref(self, name: str) -> str | None:
        """Return the ref for a foreign key column, from the relationship that will write it."""
        names = (n for n, columns in self.table.references().items() if columns == [name])
        values = (self.content.get(each) for each in names)
        return next((each for each in values if isinstance(each, str)), None)

    def related_records(self, name: str) -> list[DraftRecord | str] | None:
        """Return related rows as records or refs; `None` if the content lacks the relationship."""
        if name not in self.content:
            return None if self._has_reference(name) else []
        content = self.content[name]
        items = content if isinstance(content, list) else [] if content is None else [content]
        path, target = f"{self.name}.{name}", self.table.targets[name]
        if not all(isinstance(each, dict | str) for each in items):
            raise invalid_value(path, "objects: values by column")
        return [
            current_refs(each, self.saved_refs)
            if isinstance(each, str)
            else DraftRecord(target, each, f"{path}[{n}]", saved_refs=self.saved_refs)
            for n, each in enumerate(items, start=1)
        ]

    def _has_reference(self, name: str) -> bool:
        """Return whether a many-to-one relationship is set, by its foreign key or directly.

        A nested row counts as referring to its outer row, although its content does not contain
        it.
        """
        names = self.table.references().get(name, ())
        nothing = None if self.ref is not None else ""
        return any(self.content.get(each, nothing) is not None for each in names)


def current_refs(refs: Any, saved_refs: Mapping[str, str]) -> Any:
    """Replace the refs of saved drafts by the refs of their rows."""
    if isinstance(refs, list):
        return [current_refs(each, saved_refs) for each in refs]
    return saved_refs.get(refs, refs) if isinstance(refs, str) else refs


def matching_records(
    session: RefSession, records: Sequence[DraftRecord], bound: BoundFilters
) -> list[DraftRecord]:
    """Return the records that match all filters: at most one statement.

    Raises:
        ToolError: a filter cannot be evaluated on a record, or there are too many values.
    """
    named = [each for each in bound.filters if isinstance(each, Clause) and _names_drafts(each)]
    for clause in named:
        records = [each for each in records if each.ref in clause.values]
    decided = {id(each) for each in named}
    others = [each for each in bound.filters if id(each) not in decided]
    clauses = [each for each in bound.clauses if id(each) not in decided]
    if not (records and clauses):
        return list(records)
    model = bound.table.model
    lists = _Lists(is_postgresql=session.get_bind(model).dialect.name == "postgresql")
    paths = [(each, each.relationships) for each in clauses]
    level = lists.level(bound.table, [(0, each) for each in records], paths)
    saved_refs = records[0].saved_refs

    def condition(clause: Clause) -> Condition:
        return _condition(clause, clause.relationships, level, level.rows, saved_refs)

    conditions = combine(replace(bound, filters=tuple(others)), condition)
    matching = select(level.rows.c.place).where(*conditions)
    try:
        with sqla.unconfined_lookup(session):  # reads no rows
            connection = session.connection(bind_arguments={"mapper": model})
            places = {*connection.execute(matching).scalars()}
    except DBAPIError as error:
        if str(sqla.driver_error_fields(error)["sqlstate"])[:2] not in _REFUSED_VALUES:
            raise
        # some types are checked by the database alone, when the draft is saved
        raise invalid_filter(
            clauses[0].field,
            "compares drafts, and one of them has a value that its column cannot have",
            "name fewer drafts, or change the draft",
        ) from None
    return [each for place, each in enumerate(records, start=1) if place in places]


def _names_drafts(clause: Clause) -> bool:
    return clause.is_own and clause.op in ("=", "in") and bool(clause.refs)


_Path = tuple[Clause, Sequence[str]]
"""A condition with the rest of its path."""

_Places = Sequence[tuple[int, DraftRecord]]
"""Records, each with the place of the row around it."""


@dataclass(frozen=True, slots=True)
class _Level:
    """Drafts, or the rows nested in them by one relationship.

    Attributes:
        rows: their values, with their places and those of the rows around them.
        columns: the columns that filters name, with their names in `rows`.
        nested: the rows nested in these, by relationship; `None` if there are none.
    """

    rows: CTE
    columns: Mapping[str, str]
    nested: Mapping[str, _Level | None]


class _Lists:
    """Makes lists of rows from drafts.

    Args:
        is_postgresql: whether to cast the first row, from which PostgreSQL takes the types.
    """

    def __init__(self, *, is_postgresql: bool) -> None:
        self._is_postgresql = is_postgresql
        self._remaining = _MAX_VALUES
        self._numbers = count(1)

    def level(self, table: ToolTable, records: _Places, paths: Sequence[_Path]) -> _Level:
        """Return records of a table as rows, with what filters name of them.

        Raises:
            ToolError: a record has no such value, or there are too many.
        """
        columns: dict[str, ToolColumn | None] = {}
        with_values = set[str]()
        beyond: dict[str, list[_Path]] = {}
        for clause, path in paths:
            name = _name_of(clause)
            if path:
                beyond.setdefault(path[0], []).append((clause, path[1:]))
                continue
            columns[name] = clause.column
            if clause.op not in NULLS or _is_document(clause.column):  # null is null in any type
                with_values.add(name)
        self._spend(len(records) * (2 + len(columns)), paths[0][0])
        rows = [
            [place, around, *(_value(record, columns[n], n in with_values) for n in columns)]
            for place, (around, record) in enumerate(records, start=1)
        ]
        types: list[TypeEngine[Any]] = [Integer(), Integer()]
        types += [_type_of(table, columns[n] if n in with_values else None) for n in columns]
        names = ["place", "around", *(f"value_{n}" for n in range(len(columns)))]
        if self._is_postgresql:
            rows[0] = [cast(literal(v, t), t) for v, t in zip(rows[0], types, strict=True)]
        listed = values(
            *(sqlalchemy_column(name, type_) for name, type_ in zip(names, types, strict=True))
        ).data([tuple(row) for row in rows])
        return _Level(
            listed.cte(f"drafts_{next(self._numbers)}"),
            dict(zip(columns, names[2:], strict=True)),
            {name: self._nested(table, records, name, each) for name, each in beyond.items()},
        )

    def _nested(
        self, table: ToolTable, records: _Places, name: str, paths: Sequence[_Path]
    ) -> _Level | None:
        """Return the rows that are nested in others by a relationship."""
        nested: list[tuple[int, DraftRecord]] = []
        for place, (_, record) in enumerate(records, start=1):
            related = record.related_records(name)
            rows = [(place, each) for each in related or () if isinstance(each, DraftRecord)]
            if related is None or len(rows) < len(related):
                raise invalid_filter(
                    paths[0][0].field,
                    f"asks for {name!r}, which is not all part of the draft {record.name!r}",
                    "leave it out, or read the draft by its ref alone",
                )
            nested += rows
        return self.level(table.targets[name], nested, paths) if nested else None

    def _spend(self, amount: int, clause: Clause) -> None:
        self._remaining -= amount
        if self._remaining < 0:
            raise invalid_filter(
                clause.field,
                f"compares more than {_MAX_VALUES:,} values of drafts",
                "name fewer drafts, or filter by fewer columns",
            )


def _name_of(clause: Clause) -> str:
    return ROW_REF if clause.column is None else clause.column.name


def _is_document(column: ToolColumn | None) -> bool:
    """Return whether a column holds JSON, which has a null of its own."""
    return column is not None and column.values.family == "json"


def _value(record: DraftRecord, column: ToolColumn | None, is_needed: bool) -> Any:
    """Return a value of a draft; any text for one that is only tested for null."""
    value = record.ref if column is None else record.value(column)
    return value if is_needed or value is None else ""


def _type_of(table: ToolTable, column: ToolColumn | None) -> TypeEngine[Any]:
    """Return the type of a column in a list of drafts, where refs are text."""
    if column is None:
        return Text()
    if column.entity is not None:
        return ARRAY(Text()) if column.key is not None and column.key.array else Text()
    type_: TypeEngine[Any] = getattr(table.model, column.name).type
    return type_


def _condition(
    clause: Clause,
    path: Sequence[str],
    level: _Level,
    rows: FromClause,
    saved_refs: Mapping[str, str],
) -> Condition:
    """Return the condition on a list of drafts.

    Args:
        clause: the condition.
        path: the rest of its path.
        level: the drafts.
        rows: their rows, or an alias of them.
        saved_refs: refs of drafts that have been saved -> the refs of their rows.
    """
    if path:
        nested = level.nested[path[0]]
        if nested is None:
            return false()
        inner = nested.rows.alias()
        condition = _condition(clause, path[1:], nested, inner, saved_refs)
        return exists().where(inner.c.around == rows.c.place, condition)
    attribute = rows.c[level.columns[_name_of(clause)]]
    if clause.column is None:
        is_named = attribute.in_(clause.value)
        return not_(is_named) if clause.op in NEGATIONS else is_named
    value = clause.value if clause.column.key is None else current_refs(clause.value, saved_refs)
    return compare(clause, attribute, value)
