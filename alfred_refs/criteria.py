"""Refs in: the values of one execution that are refs, and the same statement with keys in place.

`texts` lists the refs that an execution brings, and `with_keys` puts keys in their place; where to
look is read once by `inputs`. Pure: resolving is the caller's part. A value is never dropped and a
criterion never changed: what cannot be translated raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, Executable, Insert

from . import sqla
from .columns import KeyColumn
from .inputs import Inputs, has_text, mixed_with

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""What is given to `Session.execute` beside the statement."""

Swap = Callable[[str, KeyColumn], Any]
"""Gives the value that a column takes in place of a ref."""


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
        if has_text(sqla.parameter_value(values[position])):
            raise mixed_with(column)
    for position, column in inputs.positions.items():
        _swapped(sqla.parameter_value(values[position]), column, note)
    for record in _records(statement, parameters):
        _swapped_record(record, inputs, note)
    return found


def with_keys(
    inputs: Inputs,
    statement: Executable,
    values: Sequence[BindParameter[Any]],
    parameters: Parameters,
    swap: Swap,
    *,
    in_where: bool = False,
) -> tuple[Executable, Parameters]:
    """Return the statement and its parameters with keys in place of the texts found in them.

    That is quick where all that is replaced stands `in_where`, as `sqla.stand_in_where` tells.
    """
    replaced = {
        values[position].key: _swapped(sqla.parameter_value(values[position]), column, swap)
        for position, column in inputs.positions.items()
    }
    if replaced:
        swapped = sqla.with_values_in_where if in_where else sqla.with_values
        statement = swapped(statement, replaced)
    if isinstance(statement, Insert):
        statement = _with_keys_in_records(inputs, statement, swap)
    if isinstance(parameters, Mapping):
        return statement, _swapped_record(parameters, inputs, swap)
    if parameters:
        return statement, [_swapped_record(p, inputs, swap) for p in parameters]
    return statement, parameters


def _with_keys_in_records(inputs: Inputs, statement: Executable, swap: Swap) -> Executable:
    conflict = dict(sqla.conflict_values_of(statement))
    if conflict:
        statement = sqla.with_conflict_values(statement, _swapped_record(conflict, inputs, swap))
    many = sqla.many_values_of(statement)
    if many:
        lists = tuple([_swapped_record(r, inputs, swap) for r in each] for each in many)
        statement = sqla.with_many_values(statement, lists)
    return statement


def _records(statement: Executable, parameters: Parameters) -> Iterator[Any]:
    if isinstance(statement, Insert):
        for each in sqla.many_values_of(statement):
            yield from each
        yield dict(sqla.conflict_values_of(statement))
    if isinstance(parameters, Mapping):
        yield parameters
    elif parameters:
        yield from parameters


def _swapped_record(record: Any, inputs: Inputs, swap: Swap) -> Any:
    """Return a record, by name or column or in order, with keys in place of its texts."""
    if isinstance(record, Mapping):
        return {
            name: value if column is None else _swapped(value, column, swap)
            for name, value in record.items()
            for column in [inputs.named.get(_name(name))]
        }
    return [
        value if column is None else _swapped(value, column, swap)
        for value, column in zip(record, inputs.ordered, strict=True)
    ]


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(key.key)


def _swapped(value: Any, column: KeyColumn, swap: Swap) -> Any:
    """Return a value with what `swap` gives in place of every text, in lists of any kind too."""
    if isinstance(value, str):
        return swap(value, column)
    if isinstance(value, list | tuple | set | frozenset):
        return [_swapped(item, column, swap) for item in value]
    return value
