"""Refs out: which columns of a result hold keys, and the same rows with refs in place.

`outputs_of` reads a statement once; `with_refs` is applied to each chunk of rows and asks for the
refs of a whole chunk at once. A value of unknown origin that may be a key is refused: silently
raw is not an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import BindParameter, Executable, Null, Select
from sqlalchemy.orm import FromStatement
from sqlalchemy.schema import DefaultGenerator
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import (
    CompoundSelect,
    ReturnsRows,
    TextualSelect,
)

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn, is_text_uuid, key_type_of
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.mapping.lineage import Lineage
from alfred_refs.mapping.policy import KeyType
from alfred_refs.mapping.shapes import (
    UNKNOWN,
    KeyShape,
    ParameterName,
    as_json,
    names_in,
    unknowns_in,
)

from .dataflow import positions
from .rendering import Referring, collect_keys, limited, named, shower


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where keys stand in the rows of all statements of one shape.

    Attributes:
        columns: the positions that hold one key each, as its column has it.
        made: the positions that hold keys in another way, or values of unknown origin.
        width: the number of positions; `None` where the statement tells of none.
        other: what every position of rows of another width shows.
    """

    columns: Mapping[int, KeyColumn]
    made: Mapping[int, KeyShape] = field(default_factory=dict)
    width: int | None = None
    other: KeyShape = UNKNOWN

    def __bool__(self) -> bool:
        return bool(self.columns or self.made or self.width is None)

    @property
    def unknown(self) -> bool:
        """Whether there may be values of unknown origin."""
        return self.width is None or any(
            True for shape in self.made.values() for _ in unknowns_in(shape)
        )

    def named(self, parameters: Sequence[BindParameter[Any]]) -> Outputs:
        """Return the outputs of one execution: names in JSON may be parameters.

        Raises:
            UntranslatableError: such a name is not text.
        """
        if not any(isinstance(n, ParameterName) for s in self.made.values() for n in names_in(s)):
            return self
        made = {
            position: named(shape, lambda place: sqla.parameter_value(parameters[place]))
            for position, shape in self.made.items()
        }
        return replace(self, made=made)

    def limited(self, key_types: Collection[KeyType]) -> Outputs:
        """Return the same where all keys of unknown origin are of these types."""
        made = {position: limited(shape, key_types) for position, shape in self.made.items()}
        made = {position: shape for position, shape in made.items() if shape is not None}
        return replace(self, made=made, other=limited(self.other, key_types))

    def fitted(self, rows: Sequence[Any]) -> Outputs:
        """Return the outputs of these rows: all is unknown if the statement does not fit them."""
        if not rows or len(rows[0]) == self.width:
            return self
        return outputs_from([self.other] * len(rows[0]))


def outputs_of(
    statement: Executable,
    parameters: Sequence[BindParameter[Any]],
    entities: Entities,
    key_parameters: Mapping[str, KeyColumn] | None = None,
) -> Outputs:
    """Tell which positions of a statement's rows hold keys.

    Args:
        statement: any; one that returns no rows has no outputs.
        parameters: its parameters, as `sqla.shape_of` lists them.
        entities: which columns hold keys.
        key_parameters: those that stand for keys, by name.

    Raises:
        UntranslatableError: a result would show keys inside an expression.
    """
    if isinstance(statement, DefaultGenerator):  # a sequence's next value is nobody's key yet
        return Outputs({}, width=1)
    if not isinstance(statement, ReturnsRows | FromStatement):
        return Outputs({})
    lineage = Lineage(entities.of_column, key_parameters, [p.key for p in parameters])
    at = list(_elements(statement))
    shapes = [lineage.of_any(elements) for elements in at]
    if key_parameters:
        _check_types(zip(at, shapes, strict=True))
    return outputs_from(shapes)


def outputs_from(shapes: Sequence[KeyShape]) -> Outputs:
    """Return the outputs of rows whose positions show this."""
    plain = {i: s for i, s in enumerate(shapes) if isinstance(s, KeyColumn) and not s.array}
    made = {i: as_json(s) for i, s in enumerate(shapes) if s is not None and i not in plain}
    return Outputs(plain, made, len(shapes))


def _check_types(results: Iterable[tuple[Sequence[Any], KeyShape]]) -> None:
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
            yield from positions(statement)
        case Select() | FromStatement() | UpdateBase():
            yield from sqla.returned_by(statement)
        case TextualSelect():
            yield from ([column] for column in statement.selected_columns)
        case _:
            yield from ([column] for column in statement.exported_columns)


def with_refs(
    rows: Sequence[Any], outputs: Outputs, conversation: Referring
) -> Sequence[Sequence[Any]]:
    """Return the rows with refs in place of keys, minting those that are new in one round trip.

    Raises:
        UntranslatableError: a value of unknown origin may be a key.
    """
    conversation.make_room()
    outputs = outputs.fitted(rows)
    shapes: dict[int, KeyShape] = {**outputs.columns, **outputs.made}
    positions = sorted(shapes)
    new = {
        pair: None
        for position in positions
        for pair in _new_keys(rows, position, shapes[position], conversation)
    }
    conversation.meet(new)
    show = [(position, shower(shapes[position], conversation)) for position in positions]
    return [_shown(row, show) for row in rows]


def _shown(row: Any, show: Sequence[tuple[int, Callable[[Any], Any]]]) -> tuple[Any, ...]:
    values = list(row)
    for position, as_ref in show:
        if values[position] is not None:
            values[position] = as_ref(values[position])
    return tuple(values)


def _new_keys(
    rows: Sequence[Any], position: int, shape: KeyShape, conversation: Referring
) -> Iterable[EntityKey]:
    values = [row[position] for row in rows]
    if not isinstance(shape, KeyColumn):
        return collect_keys(shape, values)
    refs, token = conversation.refs_of(shape.space), shape.token
    new = (value for value in values if value is not None and token(value) not in refs)
    return ((shape.space, shape.to_key(value)) for value in new)
