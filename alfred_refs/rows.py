"""Refs out: which columns of a result hold keys, and the same rows with refs in place.

`outputs_of` reads a statement once; `with_refs` is applied to each chunk of rows and asks for the
refs of a whole chunk at once. A value of unknown origin that may be a key is refused: silently
raw is not an outcome.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sqlalchemy import BindParameter, Executable, Null, Select
from sqlalchemy.orm import FromStatement
from sqlalchemy.schema import DefaultGenerator
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import (
    CompoundSelect,
    ReturnsRows,
    SelectStatementGrouping,
    TextualSelect,
)

from . import sqla
from .columns import KeyColumn, is_text_uuid, key_type_of
from .entities import Entities
from .errors import UntranslatableError
from .exposure import UNKNOWN, UNTYPED, Exposure, Shown
from .keys import spells_uuid
from .store import EntityKey
from .values import items_of


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
        untyped: positions with what a function of unknown type returns.
        width: the number of positions; `None` where the statement tells of none.
    """

    columns: Mapping[int, KeyColumn]
    unknown: Collection[int] = ()
    untyped: Collection[int] = ()
    width: int | None = None

    def __bool__(self) -> bool:
        return bool(self.columns or self.unknown or self.untyped or self.width is None)


def outputs_of(
    statement: Executable, entities: Entities, given: Mapping[str, KeyColumn] | None = None
) -> Outputs:
    """Tell which positions of a statement's rows hold keys.

    Args:
        statement: any.
        entities: which columns hold keys.
        given: the parameters that stand for keys.

    Raises:
        UntranslatableError: a result would show keys inside an expression.
    """
    if isinstance(statement, DefaultGenerator):  # a sequence's next value is nobody's key yet
        return Outputs({}, width=1)
    if not isinstance(statement, ReturnsRows | FromStatement):
        return Outputs({})
    exposure = Exposure(entities.of_column, given or {})
    at = list(_elements(statement))
    shown = {position: exposure.of_any(elements) for position, elements in enumerate(at)}
    if given:
        _check_types(zip(at, shown.values(), strict=True))
    return Outputs(
        {position: column for position, column in shown.items() if isinstance(column, KeyColumn)},
        [position for position, column in shown.items() if column == UNKNOWN],
        [position for position, column in shown.items() if column == UNTYPED],
        len(shown),
    )


def _check_types(results: Iterable[tuple[Sequence[Any], Shown]]) -> None:
    """Refuse results that are keys because a parameter is, and would be read as something else."""
    for elements, column in results:
        if isinstance(column, KeyColumn) and not all(_reads_as(e, column) for e in elements):
            raise UntranslatableError(
                f"a result shows keys of {column.name} and is declared as another type",
                "put the key column before the refs in the expression, or select it by itself",
            )


def _reads_as(element: Any, column: KeyColumn) -> bool:
    """Tell whether the values of an expression are read as those of a key column are."""
    if isinstance(element, BindParameter | Null):  # sent as the column's type
        return True
    type_ = getattr(element.type, "item_type", element.type)
    return key_type_of(type_) == column.key_type and is_text_uuid(type_) == column.as_text


def _elements(statement: Any) -> Iterator[Sequence[Any]]:
    """Yield the expressions at each position of a row: none for an entity, several in a union."""
    match statement:
        case CompoundSelect():
            for several in zip(*map(_elements_of_one, statement.selects), strict=True):
                yield list(itertools.chain(*several))
        case Select() | FromStatement() | UpdateBase():
            yield from sqla.returned_by(statement)
        case TextualSelect():
            yield from ([column] for column in statement.selected_columns)
        case _:
            yield from ([column] for column in statement.exported_columns)


def _elements_of_one(select: Any) -> Iterator[Sequence[Any]]:
    """Yield what one select of a union has at each position; it may be a union itself."""
    inner = select.element if isinstance(select, SelectStatementGrouping) else select
    if isinstance(inner, CompoundSelect):
        return _elements(inner)
    return iter([column] for column in inner.selected_columns)


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
        values = items_of(value or () for value in values)
    return (value for value in values if value is not None and token(value) not in refs)


def shower(
    column: KeyColumn, conversation: Referring, listed: type[list[Any]] = list
) -> Callable[[Any], Any]:
    """Return the function that gives a ref for a value of the column whose key has been met.

    Args:
        column: what holds the value.
        conversation: in which the key has been met.
        listed: the kind of list that an array becomes.
    """
    refs = conversation.refs_of(column.entity)
    if column.array:
        return partial(_shown_items, refs=refs, token=column.token, listed=listed)
    if column.as_text:
        return lambda value: refs[uuid.UUID(value).int]
    if column.key_type == "uuid":
        return lambda value: refs[value.int]
    return refs.__getitem__


def _shown_items(
    values: Sequence[Any],
    refs: Mapping[Any, str],
    token: Callable[[Any], Any],
    listed: type[list[Any]],
) -> list[Any]:
    """Return an array with refs in place of keys, whatever its dimensions."""

    def shown(item: Any) -> Any:
        if isinstance(item, list | tuple):
            return listed(map(shown, item))
        return None if item is None else refs[token(item)]

    return listed(map(shown, values))


def _refuse_unknown(rows: Sequence[Any], outputs: Outputs) -> None:
    """Refuse rows with a value of unknown origin that may be a key, or that the columns misfit."""
    if not outputs.unknown and not outputs.untyped and outputs.width is not None:
        return
    for row in rows:
        unknown = row if outputs.width is None else [row[i] for i in outputs.unknown]
        if (
            (outputs.width is not None and len(row) != outputs.width)
            or any(map(_may_be_key, unknown))
            or any(_may_be_key(row[i], uuids_only=True) for i in outputs.untyped)
        ):
            raise UntranslatableError(
                "a statement without column information returns a value that may be a key",
                "give text() its columns by .columns(...), or use session.raw_keys() or "
                "execution_options(raw_keys=True) in trusted code",
            )


def _may_be_key(value: Any, *, uuids_only: bool = False) -> bool:
    match value:
        case list() | tuple():
            return any(_may_be_key(item, uuids_only=uuids_only) for item in value)
        case dict():
            return _may_be_key([*value, *value.values()], uuids_only=uuids_only)
        case str():
            return spells_uuid(value)
        case uuid.UUID():
            return True
        case _:
            return isinstance(value, int) and not isinstance(value, bool) and not uuids_only
