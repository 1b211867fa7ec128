"""From a model's filters to one SQL condition: the same for reading, updating and deleting.

Filters come in, checked by `grammar`; a SQLAlchemy expression goes out, in which refs stand as the
model gave them: the session puts keys in their place. None is left out, and none is widened. A
draft that a filter names is no row. Pure.

A condition on related rows is an EXISTS, so that no row is found twice. Null is asked for by
`is_null`, or as a value: `=` null, or null in a list, is the same. As in SQL, no other comparison
holds where the column is null, nor does its negation.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Float,
    Numeric,
    Text,
    and_,
    cast,
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
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.stored_values import is_interval
from alfred_refs.tools.errors import invalid_filter
from alfred_refs.tools.tables.table import ROW_REF, ToolColumn, ToolTable
from alfred_refs.tools.wire.arguments import (
    NEGATIONS,
    AndGroup,
    Filter,
    FilterClause,
    NotGroup,
    OrGroup,
    signed_clauses,
)

from .grammar import COMPARISONS, NULLS, checked, texts_in

_MORE_DAYS = dt.timedelta(5)  # of a year

Condition = ColumnElement[bool]

Keys = Mapping[tuple[str, str], Key]
"""The keys that refs name, by ref and the entity that was needed."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    **COMPARISONS,
    "ilike": lambda attribute, pattern: attribute.ilike(pattern),
    # every ARRAY has the operator, though only the dialect's has the method
    "contains": lambda attribute, part: attribute.bool_op("@>")(
        part if isinstance(part, ColumnElement) else literal(part, attribute.type)
    ),
}


class Conditions:
    """Makes conditions of filters.

    Args:
        keys: what the refs of rows with several key columns name.
        drafts: what names drafts in the column of a row's own ref, and so no row.
        negated: whether rows are wanted that do not meet them.
    """

    def __init__(self, keys: Keys, drafts: Collection[str] = (), *, negated: bool = False) -> None:
        self._keys = keys
        self._drafts = drafts
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
                other = Conditions(self._keys, self._drafts, negated=not self._negated)
                return not_(other._condition(given.negated, table, entity))
            case FilterClause():
                return self._clause(given, given.field.split("."), table, entity)

    def _clause(
        self, clause: FilterClause, path: Sequence[str], table: ToolTable, entity: Any
    ) -> Condition:
        name, *rest = path
        if rest:
            return self._related(clause, name, rest, table, entity)
        if entity is table.model and name == table.ref_field:
            of_rows = _without(self._drafts, clause)
            if isinstance(of_rows, bool):
                return true() if of_rows else false()
            clause = of_rows
        if name == ROW_REF and table.own is None:
            return self._is_row(clause, table, entity)
        return self._compared(clause, table.column(name), getattr(entity, name))

    def _compared(self, clause: FilterClause, column: ToolColumn, attribute: Any) -> Condition:
        """Return that a column's value is as a clause says: of the class, or of an alias."""
        wanted = checked(clause, column)
        if column.values.family == "json":
            document = cast(attribute, JSONB)
            return _of_document(clause.op, document, wanted, negated=self._negated)
        attribute = comparable(attribute)
        if clause.op in NULLS:
            return _is_null(attribute, wanted=wanted)
        if column.entity is not None:
            wanted = self._keys_of(wanted, column)
        if clause.op in ("in", "not_in"):
            return _is_in(attribute, wanted, column, negated=clause.op == "not_in")
        if wanted is None:
            return _is_null(attribute, wanted=clause.op == "=")
        if column.entity is None:
            wanted = operand(attribute, wanted)
        else:  # no key is to be taken for a ref
            wanted = sqla.key_parameter(wanted, attribute.type)
        met: Condition = _COMPARISONS[clause.op](attribute, wanted)
        return met

    def _keys_of(self, refs: Any, column: ToolColumn) -> Any:
        """Return the keys that refs name, or one does, as a column has them."""
        if isinstance(refs, list):
            return [self._keys_of(each, column) for each in refs]
        if refs is None or column.key is None:
            return refs
        return column.key.from_key(self._keys[refs, column.key.entity])

    def _related(
        self, clause: FilterClause, name: str, rest: Sequence[str], table: ToolTable, entity: Any
    ) -> Condition:
        """Return that there is a related row which meets the rest of the path."""
        target = table.targets[name]
        other = aliased(target.model)
        met = self._clause(clause, rest, target, other)
        if inspect(target.model).mapper.single:
            return _joined(table, name, entity, other, met)
        relationship = getattr(entity, name).of_type(other)
        many = table.relationship(name).uselist
        exists: Condition = relationship.any(met) if many else relationship.has(met)
        return exists

    def _is_row(self, clause: FilterClause, table: ToolTable, entity: Any) -> Condition:
        """Return that a row with several key columns is, or is not, one of those named."""
        named = [table.parts_of(self._keys[ref, table.entity]) for ref in texts_in(clause)]
        if not all(named):  # a ref of the same entity, in a column of the key
            raise invalid_filter(
                clause.field,
                "names something else than rows",
                f"give the _ref of a row, such as '{table.entity}_1'",
            )
        columns = [getattr(entity, name) for name in table.identity]
        met = or_(
            *(and_(*(c == part for c, part in zip(columns, key, strict=True))) for key in named)
        )
        return not_(met) if clause.op in NEGATIONS else met


def _joined(table: ToolTable, name: str, entity: Any, other: Any, met: Condition) -> Condition:
    """Return that there is a related row of a class that shares its table with others.

    SQLAlchemy's `any()` and `has()` ask for its discriminator in the table around them, which may
    be the same; a join asks for it in the alias.
    """
    row = aliased(table.model)
    is_same = (getattr(row, each) == getattr(entity, each) for each in table.identity)
    related = select(literal(1)).select_from(row).join(getattr(row, name).of_type(other))
    return related.where(*is_same, met).exists()


def _without(drafts: Collection[str], clause: FilterClause) -> FilterClause | bool:
    """Return a clause on refs of rows without drafts, or whether all rows meet it, or none."""
    given = clause.value
    match clause.op:
        case "=" | "!=" | "neq" if isinstance(given, str) and given in drafts:
            return clause.op != "="
        case "in" | "not_in" if isinstance(given, list):
            rest = [each for each in given if not (isinstance(each, str) and each in drafts)]
            if given and not rest:
                return clause.op == "not_in"
            return clause.model_copy(update={"value": rest})
    return clause


def refs_of(
    filters: Iterable[Filter], table: ToolTable, drafts: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the refs of rows that filters name, each with the entity that is needed.

    Args:
        filters: on rows of a table, checked.
        table: the table.
        drafts: what names drafts where rows are chosen by their own ref: that is left out there.
            Anywhere else only a row will do.
    """
    for clause, negated in signed_clauses(filters):
        entity = _entity_at(clause.field.split("."), table)
        left_out = drafts if clause.field == table.ref_field and not negated else ()
        texts = (text for text in texts_in(clause) if text not in left_out)
        yield from ((text, entity) for text in texts if entity is not None)


def chosen_refs(filters: Iterable[Filter], table: ToolTable) -> list[str]:
    """Return the refs that filters say a row's own is, and not those that it is not."""
    return [
        text
        for clause, negated in signed_clauses(filters)
        if clause.field == table.ref_field and not negated
        for text in texts_in(clause)
    ]


def _entity_at(path: Sequence[str], table: ToolTable) -> str | None:
    """Return the entity of the refs in a column, `None` if that has none."""
    *relationships, name = path
    found: ToolTable | None = table
    for each in relationships:
        found = None if found is None else found.targets.get(each)
    if found is None:
        return None
    if name == ROW_REF and found.own is None:
        return found.entity
    column = found.columns.get(name)
    return column.entity if column is not None else None


def _of_document(op: str, document: Any, wanted: Any, *, negated: bool) -> Condition:
    """Return what is asked of JSON, in which null is no value, as rows show it."""
    value = func.nullif(document, cast(literal("null", Text), JSONB), type_=JSONB)
    if op != "contains":
        return _is_null(value, wanted=wanted)
    # without nullif() an index serves; to which of "no" and "unknown" it comes is all the same
    met: Condition = _COMPARISONS[op](value if negated else document, wanted)
    return met


def operand(attribute: Any, value: Any) -> Any:
    """Return a value as an attribute is compared with it.

    A number is sent in double precision: one that a column has in single precision would be
    another. A decimal is sent with all its digits, which some drivers' casts would round.
    """
    if isinstance(attribute.type, Float):
        return cast(value, attribute.type)
    if isinstance(attribute.type, Numeric) and not isinstance(value, ColumnElement):
        return literal(value, Numeric())
    return value


def comparable(attribute: Any) -> Any:
    """Return an attribute as its values are compared: as rows show them.

    A year of an interval is 360 days where PostgreSQL compares, and 365 where drivers load it.
    """
    if not is_interval(attribute.type):
        return attribute
    years = cast(func.extract("year", attribute), Double)
    return type_coerce(attribute + years * literal(_MORE_DAYS, INTERVAL), attribute.type)


def _is_null(attribute: Any, *, wanted: bool) -> Condition:
    met: Condition = attribute.is_(null()) if wanted else attribute.is_not(null())
    return met


def _is_in(
    attribute: Any, values: Sequence[Any], column: ToolColumn, *, negated: bool
) -> Condition:
    found = [value for value in values if value is not None]
    listed: Any = [operand(attribute, value) for value in found]
    if column.entity is not None:  # one parameter stands for all of them
        listed = sqla.key_parameter(found, attribute.type)
    # SQL's NOT IN holds for no row at all if there is a null in the list
    conditions = [attribute.not_in(listed) if negated else attribute.in_(listed)] if found else []
    if len(found) < len(values):
        conditions.append(_is_null(attribute, wanted=not negated))
    return and_(*conditions) if negated else or_(*conditions)
