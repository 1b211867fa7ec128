"""Where refs may stand in a statement: read once for all statements of its shape.

A statement comes in; which of its parameters are compared with key columns or stored in them goes
out, and which are mixed with key columns in a way that cannot be translated: those are refused if
they turn out to be text, because the database might compare a ref as if it were data, and find
more rows than were meant. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    BindParameter,
    Executable,
)
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_column import KeyColumn

from .comparisons import Comparisons, columns_of, target_of
from .dataflow import Flows
from .targets import InputTarget


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where refs may stand in all statements of one shape.

    Attributes:
        positions: what each parameter of the statement is compared with or stored in, by the
            parameter's place in `sqla.shape_of`.
        types: the SQL types of the parameters that are not sent as what they meet.
        named: what each value is stored in or compared with that comes by name: with the
            execution, or in a record.
        ordered: the same of values that come in order, in an insert's lists of tuples.
        keys: the parameters that stand for keys, by name: what they show is a key as well.
        unnamed: the same as `positions` of those parameters that the program gave no name, by
            what SQLAlchemy makes their names of: their values may come with the execution too.
        names: those that the program gave itself: of parameters, and of columns that are written.
        single: those of parameters that stand for one value, and no list of such.
    """

    positions: Mapping[int, InputTarget]
    types: Mapping[int, TypeEngine[Any]]
    named: Mapping[str, InputTarget]
    ordered: Sequence[InputTarget | None]
    keys: Mapping[str, KeyColumn]
    unnamed: Sequence[tuple[str, InputTarget]]
    names: Collection[str]
    single: Collection[str] = frozenset()

    def without(self, places: Collection[int]) -> Inputs:
        """Return the inputs of one execution: in these places of the statement are no refs."""
        if not places:
            return self
        left = {i: target for i, target in self.positions.items() if i not in places}
        return replace(self, positions=left)


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
    flows = Flows(entities.of_column)
    comparisons = Comparisons(flows, statement)
    for element in sqla.elements_of(statement):
        comparisons.read(element)
        comparisons.read_opaque(element)
    for part in sqla.out_of_reach(statement):
        comparisons.refuse_in(part)
    for parameter in sqla.not_replaced(statement, parameters):
        comparisons.refuse(parameter)
    comparisons.check(parameters)
    targets, types = comparisons.targets, comparisons.types
    columns, ordered = columns_of(statement)
    by_name = {name: target for name, c in columns.items() if (target := target_of(flows.of(c)))}
    named = [p.key for p in parameters if not p.unique]
    stems = [(stem, p.key) for p in parameters if (stem := sqla.stem_of(p)) is not None]
    return Inputs(
        {i: targets[p.key] for i, p in enumerate(parameters) if p.key in targets},
        {i: types[p.key] for i, p in enumerate(parameters) if p.key in types},
        by_name | {name: targets[name] for name in named if name in targets},
        [target_of(flows.of(column)) for column in ordered],
        {p.key: target for p in parameters if isinstance(target := targets.get(p.key), KeyColumn)},
        [(stem, targets[key]) for stem, key in stems if key in targets],
        frozenset(named).union(columns),
        frozenset(p.key for p in parameters if not p.unique and not sqla.takes_list(p)),
    )
