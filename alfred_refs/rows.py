"""Refs out: which columns of a result hold keys, and the same rows with refs in place.

`outputs_of` reads a statement once; `with_refs` is applied to each chunk of rows and asks for the
refs of a whole chunk at once. A value of unknown origin that may be a key is refused: silently
raw is not an outcome.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Executable, Select
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import CompoundSelect, ReturnsRows, TextualSelect

from . import sqla
from .columns import KeyColumn
from .entities import Entities
from .errors import UntranslatableError
from .exposure import UNKNOWN, Exposure
from .keys import spells_uuid
from .store import EntityKey


class Referring(Protocol):
    """The part of a conversation that rows need."""

    def meet(self, pairs: Collection[EntityKey]) -> None:
        """Make sure that all these keys have refs."""
        ...

    def refs_of(self, entity: str) -> Mapping[Any, str]:
        """Return refs by the token of their key."""
        ...


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where keys stand in the rows of all statements of one shape.

    Attributes:
        columns: what each position holds; plain data and entities are left out.
        unknown: positions whose origin the statement does not tell.
        opaque: the statement tells of no position where its values come from.
    """

    columns: Mapping[int, KeyColumn]
    unknown: Collection[int] = ()
    opaque: bool = False

    def __bool__(self) -> bool:
        return bool(self.columns or self.unknown or self.opaque)


def outputs_of(statement: Executable, entities: Entities) -> Outputs:
    """Tell which positions of a statement's rows hold keys.

    Raises:
        UntranslatableError: a result would show keys inside an expression.
    """
    if not isinstance(statement, ReturnsRows):
        return Outputs({}, opaque=True)
    exposure = Exposure(entities.of_column)
    shown = {
        position: exposure.of_any(elements)
        for position, elements in enumerate(_elements(statement))
    }
    return Outputs(
        {position: column for position, column in shown.items() if isinstance(column, KeyColumn)},
        [position for position, column in shown.items() if column == UNKNOWN],
    )


def _elements(statement: Any) -> Iterator[Sequence[Any]]:
    """Yield the expressions at each position of a row: none for an entity, several in a union."""
    match statement:
        case CompoundSelect():
            yield from zip(*(select.selected_columns for select in statement.selects), strict=True)
        case Select():
            yield from map(_described, statement.column_descriptions)
        case UpdateBase():
            yield from sqla.returned_by(statement)
        case TextualSelect():
            yield from ([column] for column in statement.selected_columns)
        case _:
            yield from ([column] for column in statement.exported_columns)


def _described(description: Mapping[str, Any]) -> Sequence[Any]:
    expression = description["expr"]
    if expression is description.get("entity"):
        return []
    return [getattr(expression, "__clause_element__", lambda: expression)()]


def with_refs(
    rows: Sequence[Any], outputs: Outputs, conversation: Referring
) -> Sequence[Sequence[Any]]:
    """Return the rows with refs in place of keys, minting those that are new in one round trip.

    Raises:
        UntranslatableError: a value of unknown origin may be a key.
    """
    _refuse_unknown(rows, outputs)
    new = {
        (column.entity, column.to_key(value)): None
        for position, column in outputs.columns.items()
        for value in _new_values(rows, position, column, conversation)
    }
    conversation.meet(new)
    show = [(position, shower(c, conversation)) for position, c in outputs.columns.items()]
    return [_shown(row, show) for row in rows]


def _shown(row: Any, show: Sequence[tuple[int, Callable[[Any], Any]]]) -> tuple[Any, ...]:
    values = list(row)
    for position, as_ref in show:
        if values[position] is not None:
            values[position] = as_ref(values[position])
    return tuple(values)


def _new_values(
    rows: Sequence[Any], position: int, column: KeyColumn, conversation: Referring
) -> Iterator[Any]:
    refs, token = conversation.refs_of(column.entity), column.token
    values: Iterator[Any] = (row[position] for row in rows)
    if column.array:
        values = (item for value in values for item in value or ())
    return (value for value in values if value is not None and token(value) not in refs)


def shower(column: KeyColumn, conversation: Referring) -> Callable[[Any], Any]:
    """Return the function that gives a ref for a value of the column whose key has been met."""
    refs = conversation.refs_of(column.entity)
    if column.array:
        token = column.token
        return lambda values: [None if v is None else refs[token(v)] for v in values]
    if column.as_text:
        return lambda value: refs[uuid.UUID(value).int]
    if column.key_type == "uuid":
        return lambda value: refs[value.int]
    return refs.__getitem__


def _refuse_unknown(rows: Sequence[Any], outputs: Outputs) -> None:
    if not outputs.unknown and not outputs.opaque:
        return
    for row in rows:
        values = row if outputs.opaque else [row[position] for position in outputs.unknown]
        if any(map(_may_be_key, values)):
            raise UntranslatableError(
                "a statement without column information returns a value that may be a key",
                "give text() its columns by .columns(...), or use session.raw_keys() or "
                "execution_options(raw_keys=True) in trusted code",
            )


def _may_be_key(value: Any) -> bool:
    match value:
        case list() | tuple():
            return any(map(_may_be_key, value))
        case dict():
            return any(map(_may_be_key, [*value, *value.values()]))
        case str():
            return spells_uuid(value)
        case _:
            return isinstance(value, uuid.UUID | int) and not isinstance(value, bool)
