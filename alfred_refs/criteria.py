"""Refs in: which values of a statement stand for keys, and the same statement with keys in place.

`inputs_of` reads a statement once and tells by *column* where a ref may stand; `texts` lists the
refs that one execution brings, and `with_keys` puts keys in their place. Pure: resolving is the
caller's part. A value is never dropped and a criterion never changed: what cannot be translated
raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Executable, Table
from sqlalchemy.sql import operators
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import (
    BinaryExpression,
    ClauseElement,
    ClauseList,
    CollectionAggregate,
    Grouping,
    Label,
    TypeCoerce,
)
from sqlalchemy.sql.selectable import ScalarSelect

from . import sqla
from .columns import KeyColumn
from .entities import Entities
from .errors import UntranslatableError

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""What is given to `Session.execute` beside the statement."""

Swap = Callable[[str, KeyColumn], Any]
"""Gives the value that a column takes in place of a ref."""

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
        named: the column of each parameter that comes with the execution, by name.
        refused: the columns of parameters that stand where a ref makes no sense, such as LIKE, by
            place.
    """

    positions: Mapping[int, KeyColumn]
    named: Mapping[str, KeyColumn]
    refused: Mapping[int, KeyColumn]


def inputs_of(
    statement: Executable, parameters: Sequence[BindParameter[Any]], entities: Entities
) -> Inputs:
    """Tell where refs may stand in a statement.

    Args:
        statement: any; one without key columns has no inputs.
        parameters: its parameters, as `sqla.shape_of` lists them.
        entities: which columns hold keys.
    """
    compared, refused = _compared(statement, entities)
    targets = _target_columns(statement, entities)
    stored = {
        id(value): column
        for name, value in sqla.values_of(statement)
        if (column := _stored_in(name, targets, entities)) is not None
    }
    columns = compared | stored
    named = {p.key: columns[id(p)] for p in parameters if not p.unique and id(p) in columns}
    return Inputs(
        {i: columns[id(p)] for i, p in enumerate(parameters) if id(p) in columns},
        targets | named,
        {i: refused[id(p)] for i, p in enumerate(parameters) if id(p) in refused},
    )


def _compared(
    statement: Executable, entities: Entities
) -> tuple[dict[int, KeyColumn], dict[int, KeyColumn]]:
    """Return the key columns that parameters are compared with, by the parameter's `id()`.

    The second dictionary has those that are combined with one in any other way.
    """
    compared: dict[int, KeyColumn] = {}
    refused: dict[int, KeyColumn] = {}
    for element in sqla.elements_of(statement):
        if not isinstance(element, BinaryExpression):
            continue
        places = compared if element.operator in _COMPARISONS else refused
        for one, other in ((element.left, element.right), (element.right, element.left)):
            column = key_column(one, entities)
            if column is not None:
                places.update((id(parameter), column) for parameter in _parameters_in(other))
    return compared, refused


def key_column(element: ClauseElement, entities: Entities) -> KeyColumn | None:
    """Return what keys an operand holds: a column, also as label, `any_()` or scalar subquery."""
    inner = _unwrapped(element)
    if isinstance(inner, ScalarSelect):
        return key_column(inner.element.selected_columns[0], entities)
    return entities.of_column(inner) if isinstance(inner, ColumnElement) else None


def _unwrapped(element: Any) -> Any:
    while isinstance(element, Grouping | Label | CollectionAggregate | TypeCoerce):
        element = element.clause if isinstance(element, TypeCoerce) else element.element
    return element


def _parameters_in(element: Any) -> Iterator[BindParameter[Any]]:
    inner = _unwrapped(element)
    if isinstance(inner, BindParameter):
        yield inner
    elif isinstance(inner, ClauseList):
        for clause in inner.clauses:
            yield from _parameters_in(clause)


def _target_columns(statement: Executable, entities: Entities) -> dict[str, KeyColumn]:
    """Return the key columns that an insert or update can write, by the names it may use."""
    if not isinstance(statement, UpdateBase):
        return {}
    class_ = statement.entity_description.get("entity")
    table = statement.entity_description["table"]
    columns = {
        column.key: key
        for column in (table.c if isinstance(table, Table) else ())
        if (key := entities.of_column(column)) is not None
    }
    return columns if class_ is None else {**columns, **entities.of_class(class_).all}


def _stored_in(
    name: Any, targets: Mapping[str, KeyColumn], entities: Entities
) -> KeyColumn | None:
    if isinstance(name, str):
        return targets.get(name)
    element = name.__clause_element__() if hasattr(name, "__clause_element__") else name
    return entities.of_column(element)


def texts(
    inputs: Inputs,
    statement: Executable,
    values: Sequence[BindParameter[Any]],
    parameters: Parameters,
) -> list[tuple[str, KeyColumn]]:
    """Return the texts that stand for keys in one execution, each with its column.

    Raises:
        UntranslatableError: a text is combined with a key column other than by comparison.
    """
    found: list[tuple[str, KeyColumn]] = []

    def note(text: str, column: KeyColumn) -> str:
        found.append((text, column))
        return text

    for position, column in inputs.refused.items():
        if isinstance(sqla.parameter_value(values[position]), str):
            raise UntranslatableError(
                f"a text is combined with key column {column.name} other than by comparison",
                "compare the column with refs by ==, != or in_(), or use session.raw_keys()",
            )
    for position, column in inputs.positions.items():
        _swapped(sqla.parameter_value(values[position]), column, note)
    for record in _records(statement, parameters):
        _swapped_record(record, inputs.named, note)
    return found


def with_keys(
    inputs: Inputs,
    statement: Executable,
    values: Sequence[BindParameter[Any]],
    parameters: Parameters,
    swap: Swap,
) -> tuple[Executable, Parameters]:
    """Return the statement and its parameters with keys in place of the texts found in them."""
    replaced = {
        values[position].key: _swapped(sqla.parameter_value(values[position]), column, swap)
        for position, column in inputs.positions.items()
    }
    if replaced:
        statement = sqla.with_values(statement, replaced)
    many = sqla.many_values_of(statement)
    if many:
        lists = tuple([_swapped_record(r, inputs.named, swap) for r in each] for each in many)
        statement = sqla.with_many_values(statement, lists)
    if isinstance(parameters, Mapping):
        return statement, _swapped_record(parameters, inputs.named, swap)
    if parameters:
        return statement, [_swapped_record(p, inputs.named, swap) for p in parameters]
    return statement, parameters


def _records(statement: Executable, parameters: Parameters) -> Iterator[Any]:
    for each in sqla.many_values_of(statement):
        yield from each
    if isinstance(parameters, Mapping):
        yield parameters
    elif parameters:
        yield from parameters


def _swapped_record(record: Any, columns: Mapping[str, KeyColumn], swap: Swap) -> Any:
    """Return a record of values by name or column with keys in place of its texts."""
    if not isinstance(record, Mapping):
        return record
    return {
        name: value if column is None else _swapped(value, column, swap)
        for name, value in record.items()
        for column in [columns.get(_name(name))]
    }


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(key.key)


def _swapped(value: Any, column: KeyColumn, swap: Swap) -> Any:
    """Return a value with what `swap` gives in place of every text, in lists of any kind too."""
    if isinstance(value, str):
        return swap(value, column)
    if isinstance(value, list | tuple | set | frozenset):
        return [_swapped(item, column, swap) for item in value]
    return value
