"""Where refs may stand in a statement: read once for all statements of its shape.

A statement comes in; which of its parameters are compared with key columns or stored in them goes
out, and which are mixed with key columns in a way that cannot be translated: those are refused if
they turn out to be text, because the database might compare a ref as if it were data, and find
more rows than were meant. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Boolean,
    Case,
    ColumnClause,
    ColumnElement,
    Executable,
    FunctionElement,
    Label,
    Table,
    TypeCoerce,
)
from sqlalchemy.sql import operators
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import (
    BinaryExpression,
    ClauseElement,
    ClauseList,
    CollectionAggregate,
    ExpressionClauseList,
    Grouping,
)
from sqlalchemy.sql.selectable import ScalarSelect, SelectBase
from sqlalchemy.types import NullType

from . import sqla
from .columns import KeyColumn, key_type_of
from .entities import Entities
from .errors import UntranslatableError

_COMPARISONS = {
    operators.eq,
    operators.ne,
    operators.lt,
    operators.le,
    operators.gt,
    operators.ge,
    operators.in_op,
    operators.not_in_op,
    operators.is_,
    operators.is_not,
    operators.is_distinct_from,
    operators.is_not_distinct_from,
    operators.between_op,
    operators.not_between_op,
    operators.contains_op,
}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where refs may stand in all statements of one shape.

    Attributes:
        positions: the column that each parameter of the statement is compared with or stored
            in, by the parameter's place in `sqla.shape_of`.
        named: the column of each value that comes by name: with the execution, or in a record.
        ordered: the columns of values that come in order, in an insert's lists of tuples.
        refused: the columns that other parameters are mixed with, by place.
    """

    positions: Mapping[int, KeyColumn]
    named: Mapping[str, KeyColumn]
    ordered: Sequence[KeyColumn | None]
    refused: Mapping[int, KeyColumn]


def inputs_of(
    statement: Executable, parameters: Sequence[BindParameter[Any]], entities: Entities
) -> Inputs:
    """Tell where refs may stand in a statement.

    Args:
        statement: any; one without key columns has no inputs.
        parameters: its parameters, as `sqla.shape_of` lists them.
        entities: which columns hold keys.

    Raises:
        UntranslatableError: one parameter stands for a key and for something else.
    """
    places = _Places(entities)
    for element in sqla.elements_of(statement):
        places.read(element)
    for criterion in sqla.criteria_of_options(statement):
        places.refuse_in(criterion)
    places.check(parameters)
    translated = places.translated
    targets, ordered = _targets(statement, entities)
    named = {p.key: translated[id(p)] for p in parameters if not p.unique and id(p) in translated}
    return Inputs(
        {i: translated[id(p)] for i, p in enumerate(parameters) if id(p) in translated},
        targets | named,
        ordered,
        {i: places.refused[id(p)] for i, p in enumerate(parameters) if id(p) in places.refused},
    )


def has_text(value: Any) -> bool:
    """Tell whether a value is text, or a list with text in it."""
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(has_text, value))
    return isinstance(value, str)


def mixed_with(column: KeyColumn) -> UntranslatableError:
    """Return the error for text that meets a key column other than by comparison."""
    return UntranslatableError(
        f"a text is combined with key column {column.name} other than by comparison",
        "compare the column itself with refs, by ==, != or in_(), or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )


class _Places:
    """What the parameters of a statement meet, by the `id()` of each."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._compared: dict[int, KeyColumn] = {}
        self._plain: set[int] = set()
        self._met: list[BindParameter[Any]] = []
        self.refused: dict[int, KeyColumn] = {}

    @property
    def translated(self) -> dict[int, KeyColumn]:
        """The parameters that stand for keys of a column."""
        return {i: column for i, column in self._compared.items() if i not in self.refused}

    def read(self, element: Any) -> None:
        """Take in one element of the statement; its parts come by themselves."""
        match element:
            case BinaryExpression():
                self._read_comparison(element)
                self._mix([element.left, element.right])
            case Case():
                self._mix([element.value, *(condition for condition, _ in element.whens)])
                self._mix([*(result for _, result in element.whens), element.else_])
            case FunctionElement():
                self._mix(element.clauses)
            case UpdateBase():
                self._read_write(element)

    def refuse_in(self, criterion: ClauseElement) -> None:
        """Take in criteria that are out of reach: no parameter in them can be translated."""
        inside = _Places(self._entities)
        for element in sqla.elements_of(criterion):
            inside.read(element)
        self.refused |= inside.refused | inside._compared

    def check(self, parameters: Sequence[BindParameter[Any]]) -> None:
        """Refuse what can be told without the values of an execution.

        That is a name which stands for keys of one entity and for anything else, and text that
        the shape does not list: in SQLAlchemy 2.0 it does not reach into the SET of an upsert.
        """
        listed = {id(parameter) for parameter in parameters}
        for parameter in self._met:
            if id(parameter) not in listed and has_text(sqla.parameter_value(parameter)):
                raise mixed_with(self.refused[id(parameter)])
        meanings: dict[str, set[str]] = {}
        for parameter in parameters:
            column = self._compared.get(id(parameter))
            if column is not None:
                meanings.setdefault(parameter.key, set()).add(column.entity)
            elif id(parameter) in self._plain:
                meanings.setdefault(parameter.key, set()).add("")
        for name, several in meanings.items():
            if len(several) > 1:
                raise UntranslatableError(
                    f"parameter {name!r} stands for a key and for something else",
                    "give each its own parameter",
                )

    def _read_comparison(self, element: BinaryExpression[Any]) -> None:
        if element.operator not in _COMPARISONS:
            return
        for one, other in ((element.left, element.right), (element.right, element.left)):
            column = self._key_column(one)
            for parameter in _parameters_in(other):
                if column is not None:
                    self._take(parameter, column)
                elif isinstance(_unwrapped(one), ColumnClause):
                    self._plain.add(id(parameter))

    def _take(self, parameter: BindParameter[Any], column: KeyColumn) -> None:
        """Note a parameter that stands for a key, if the database will be sent it as one.

        `literal("recipe_1")` is sent as text whatever its value: a key in its place would be
        compared as text.
        """
        type_ = parameter.type.item_type if isinstance(parameter.type, ARRAY) else parameter.type
        if isinstance(type_, NullType) or key_type_of(type_) == column.key_type:
            self._compared[id(parameter)] = column
        else:
            self._refuse(column, [parameter])

    def _read_write(self, statement: UpdateBase) -> None:
        targets, _ = _targets(statement, self._entities)
        for name, value in [*sqla.values_of(statement), *sqla.conflict_values_of(statement)]:
            column = _stored_in(name, targets, self._entities)
            if column is not None and isinstance(value, BindParameter):
                self._take(value, column)
            elif column is not None:
                self._refuse(column, self._flow(value)[1])
        for name, value in sqla.selected_into(statement):
            column = _stored_in(name, targets, self._entities)
            if column is not None:
                self._refuse(column, self._flow(value)[1])

    def _mix(self, parts: Iterable[Any]) -> None:
        """Note that the values of these expressions meet."""
        flows = [self._flow(part) for part in parts]
        columns = [column for these, _ in flows for column in these]
        if columns:
            mixed = [parameter for _, these in flows for parameter in these]
            self._refuse(columns[0], [p for p in mixed if id(p) not in self._compared])

    def _refuse(self, column: KeyColumn, parameters: Iterable[BindParameter[Any]]) -> None:
        for parameter in parameters:
            self.refused[id(parameter)] = column
            self._met.append(parameter)

    def _flow(self, element: Any) -> tuple[list[KeyColumn], list[BindParameter[Any]]]:
        """Return the key columns and the parameters that the value of an expression is made of."""
        if isinstance(element, BindParameter):
            return [], [element]
        if isinstance(element, ColumnClause):
            column = self._key_column(element)
            if column is not None:
                return [column], []
            bases = sqla.selected_from_union(element).base_columns - {element}
            return [c for base in bases for c in self._flow(base)[0]], []
        flows = [self._flow(part) for part in _value_parts(element)]
        return [c for columns, _ in flows for c in columns], [p for _, ps in flows for p in ps]

    def _key_column(self, element: Any) -> KeyColumn | None:
        """Return what keys an operand holds: a column, a label, `any_()`, a scalar subquery."""
        inner = _unwrapped(element)
        if isinstance(inner, ScalarSelect):
            return self._key_column(inner.element.selected_columns[0])
        return self._entities.of_column(inner) if isinstance(inner, ColumnElement) else None


def _value_parts(element: Any) -> Iterable[Any]:  # noqa: PLR0911  # one case a construct
    """Return what an expression's value is made of: a condition inside it decides, no more."""
    match element:
        case ColumnElement(type=Boolean()) if not isinstance(element, Case | FunctionElement):
            return ()
        case Case():
            return [*(result for _, result in element.whens), element.else_]
        case ScalarSelect():
            return [element.element.selected_columns[0]]
        case SelectBase():
            return element.selected_columns
        case TypeCoerce():
            return [element.clause]
        case ClauseElement():
            return element.get_children()
        case _:
            return ()


def _unwrapped(element: Any) -> Any:
    while isinstance(element, Grouping | Label | CollectionAggregate | TypeCoerce):
        element = element.clause if isinstance(element, TypeCoerce) else element.element
    return element


def _parameters_in(element: Any) -> Iterator[BindParameter[Any]]:
    inner = _unwrapped(element)
    if isinstance(inner, BindParameter):
        yield inner
    elif isinstance(inner, ClauseList | ExpressionClauseList):
        for clause in inner.clauses:
            yield from _parameters_in(clause)


def _targets(
    statement: Executable, entities: Entities
) -> tuple[dict[str, KeyColumn], list[KeyColumn | None]]:
    """Return the key columns that a write can fill, by the names it may use, and in order."""
    if not isinstance(statement, UpdateBase):
        return {}, []
    table = statement.entity_description["table"]
    ordered = [entities.of_column(c) for c in (table.c if isinstance(table, Table) else ())]
    by_key = dict(zip(table.c.keys(), ordered, strict=True)) if ordered else {}
    class_ = statement.entity_description.get("entity")
    attributes = {} if class_ is None else entities.of_class(class_).all
    return {n: c for n, c in (by_key | dict(attributes)).items() if c is not None}, ordered


def _stored_in(
    name: Any, targets: Mapping[str, KeyColumn], entities: Entities
) -> KeyColumn | None:
    if isinstance(name, str):
        return targets.get(name)
    element = name.__clause_element__() if hasattr(name, "__clause_element__") else name
    return entities.of_column(element)
