"""From a model's filters to one SQL condition: the same for reading, updating and deleting.

Filters come in, checked against a table; a SQLAlchemy expression goes out, in which refs stand as
the model gave them: the session puts keys in their place. A filter that cannot be decided raises;
none is left out, and none is widened. A draft that a filter names is no row. Pure.

A condition on related rows is an EXISTS, so that no row is found twice. Null is asked for by
`is_null`, or as a value: `=` null, or null in a list, is the same. As in SQL, no other comparison
holds where the column is null, nor does its negation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Float, and_, cast, false, literal, not_, null, or_, true
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import aliased

from alfred_refs.keys import Key

from .arguments import SEMANTIC, AndGroup, Filter, FilterClause, NotGroup, OrGroup, clauses_of
from .clauses import COMPARISONS, checked
from .errors import InvalidFilterError, UnknownColumnError
from .table import ROW_REF, ToolColumn, ToolTable

Condition = ColumnElement[bool]

Keys = Mapping[tuple[str, str], Key]
"""The keys that refs name, by ref and the entity that was needed."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    **COMPARISONS,
    "ilike": lambda attribute, pattern: attribute.ilike(pattern),
    # every ARRAY has the operator, though only the dialect's has the method
    "contains": lambda attribute, part: attribute.bool_op("@>")(literal(part, attribute.type)),
}


class Conditions:
    """Makes conditions of filters.

    Args:
        keys: what the refs of rows with several key columns name.
        drafts: what names drafts in the column of a row's own ref, and so no row.
    """

    def __init__(self, keys: Keys, drafts: Collection[str] = ()) -> None:
        self._keys = keys
        self._drafts = drafts

    def all_of(self, filters: Iterable[Filter], table: ToolTable) -> list[Condition]:
        """Return one condition for each filter on rows of a table.

        Raises:
            ToolError: a filter cannot be decided.
        """
        return [self._condition(each, table, table.model) for each in filters]

    def _condition(self, given: Filter, table: ToolTable, entity: Any) -> Condition:
        match given:
            case AndGroup():
                return and_(*(self._condition(each, table, entity) for each in given.all_of))
            case OrGroup():
                return or_(*(self._condition(each, table, entity) for each in given.any_of))
            case NotGroup():
                return not_(self._condition(given.negated, table, entity))
            case FilterClause():
                return self._clause(given, given.field.split("."), table, entity)

    def _clause(
        self, clause: FilterClause, path: Sequence[str], table: ToolTable, entity: Any
    ) -> Condition:
        name, *rest = path
        if rest:
            return self._related(clause, name, rest, table, entity)
        if name == SEMANTIC or clause.op == "similar":
            raise _misplaced(clause)
        if entity is table.model and name == table.ref_field:
            of_rows = _without(self._drafts, clause)
            if isinstance(of_rows, bool):
                return true() if of_rows else false()
            clause = of_rows
        if name == ROW_REF and table.own is None:
            return self._is_row(clause, table, entity)
        return compared(clause, table.column(name), getattr(entity, name))

    def _related(
        self, clause: FilterClause, name: str, rest: Sequence[str], table: ToolTable, entity: Any
    ) -> Condition:
        """Return that there is a related row which meets the rest of the path."""
        target = table.targets.get(name)
        if target is None:
            raise UnknownColumnError(table.name, name, table.fields)
        other = aliased(target.model)
        met = self._clause(clause, rest, target, other)
        relationship = getattr(entity, name).of_type(other)
        many = table.relationship(name).uselist
        exists: Condition = relationship.any(met) if many else relationship.has(met)
        return exists

    def _is_row(self, clause: FilterClause, table: ToolTable, entity: Any) -> Condition:
        """Return that a row with several key columns is, or is not, one of those named."""
        if clause.op not in ("=", "!=", "neq", "in", "not_in"):
            raise InvalidFilterError(clause.field, f"cannot be {clause.op!r}", "use '=' or 'in'")
        refs = _rows_named(clause, table)
        named = [table.parts_of(self._keys[ref, table.entity]) for ref in refs]
        if not all(named):  # a ref of the same entity, in a column of the key
            raise _names_no_row(clause, table)
        columns = [getattr(entity, name) for name in table.identity]
        met = or_(
            *(and_(*(c == part for c, part in zip(columns, key, strict=True))) for key in named)
        )
        return not_(met) if clause.op in ("!=", "neq", "not_in") else met


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


def _rows_named(clause: FilterClause, table: ToolTable) -> list[str]:
    """Return the refs of rows that a clause names: one, or a list of them, and nothing else."""
    given = clause.value if clause.op in ("in", "not_in") else [clause.value]
    texts = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    if not all(texts) or not texts or len(texts) != len(given):
        raise _names_no_row(clause, table)
    return texts


def _names_no_row(clause: FilterClause, table: ToolTable) -> InvalidFilterError:
    return InvalidFilterError(
        clause.field,
        "names something else than rows",
        f"give the _ref of a row, such as '{table.entity}_1', or a list of them for 'in'",
    )


def refs_of(
    filters: Iterable[Filter], table: ToolTable, drafts: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the refs that filters name, each with the entity that is needed.

    What is wrong with a filter is for `Conditions` to say.

    Args:
        filters: on rows of a table.
        table: the table.
        drafts: what names drafts in the column of a row's own ref: that is left out.
    """
    for clause in clauses_of(filters):
        entity = _entity_at(clause.field.split("."), table)
        left_out = drafts if clause.field == table.ref_field else ()
        texts = (text for text in texts_in(clause) if text not in left_out)
        yield from ((text, entity) for text in texts if entity is not None)


def own_refs(filters: Iterable[Filter], table: ToolTable, *, chosen: bool = False) -> list[str]:
    """Return what filters say of a row's own ref.

    Args:
        filters: on rows of a table.
        table: the table.
        chosen: without what they say that it is not.
    """
    operators = ("=", "in") if chosen else ("=", "in", "!=", "neq", "not_in")
    clauses = (each for each in clauses_of(filters) if each.field == table.ref_field)
    return [text for each in clauses if each.op in operators for text in texts_in(each)]


def texts_in(clause: FilterClause) -> list[str]:
    """Return the texts that a clause gives, as one value or in a list."""
    given = clause.value if isinstance(clause.value, list) else [clause.value]
    return [each for each in given if isinstance(each, str) and each]


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


def compared(clause: FilterClause, column: ToolColumn, attribute: Any) -> Condition:
    """Return that a column's value is as a clause says.

    Raises:
        ToolError: the clause cannot be decided of such values.
    """
    wanted = checked(clause, column)
    match clause.op:
        case "is_null" | "is_not_null":
            return _is_null(attribute, wanted=wanted)
        case "in" | "not_in":
            return _is_in(attribute, wanted, negated=clause.op == "not_in")
    if wanted is None:
        return _is_null(attribute, wanted=clause.op == "=")
    met: Condition = _COMPARISONS[clause.op](
        _comparable(column, attribute), operand(attribute, wanted)
    )
    return met


def operand(attribute: Any, value: Any) -> Any:
    """Return a value as an attribute is compared with it.

    A number is sent in double precision: one that a column has in single precision would be
    another.
    """
    return cast(value, attribute.type) if isinstance(attribute.type, Float) else value


def _comparable(column: ToolColumn, attribute: Any) -> Any:
    """Return what has the operators of a column: JSON has none, JSONB has."""
    return cast(attribute, JSONB) if column.values.family == "json" else attribute


def _is_null(attribute: Any, *, wanted: bool) -> Condition:
    met: Condition = attribute.is_(null()) if wanted else attribute.is_not(null())
    return met


def _is_in(attribute: Any, values: Sequence[Any], *, negated: bool) -> Condition:
    given = [operand(attribute, value) for value in values if value is not None]
    has_null = len(given) < len(values)
    if not negated:
        choices = [attribute.in_(given)] if given else []
        return or_(*choices, *([attribute.is_(null())] if has_null else []))
    # SQL's NOT IN holds for no row at all if there is a null in the list
    others = [attribute.not_in(given)] if given else []
    return and_(*others, *([attribute.is_not(null())] if has_null else []))


def _misplaced(clause: FilterClause) -> InvalidFilterError:
    if clause.field == SEMANTIC and clause.op == "similar":
        return InvalidFilterError(
            clause.field,
            "stands inside a group or a path, where it cannot be answered",
            "give it once, directly in filters",
        )
    if clause.field == SEMANTIC:
        return InvalidFilterError(
            clause.field, f"cannot be {clause.op!r}", "use 'similar' with a text"
        )
    return InvalidFilterError(
        clause.field, "cannot be 'similar'", f"use field {SEMANTIC!r}, or 'ilike' on a text column"
    )
