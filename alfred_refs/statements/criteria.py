"""Refs in: the values of one execution that are refs, and the same statement with keys in place.

`texts` lists the refs that an execution brings, and `with_keys` puts keys in their place; where to
look is read once by `inputs`. Pure: resolving is the caller's part. A value is never dropped and a
criterion never changed: what cannot be translated raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from sqlalchemy import BindParameter, ClauseElement, Executable, Insert
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.key_column import KeyColumn

from .inputs import Inputs
from .targets import InputTarget, Swap, check_one, swapped, takes_keys

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""What is given to `Session.execute` beside the statement."""


_NONE: Mapping[str, sqla.LateKey] = {}


@dataclass(frozen=True, slots=True)
class Single:
    """The one place for a ref in statements such as `select(Recipe).where(Recipe.id == ref)`.

    Attributes:
        place: of the parameter.
        column: what it is compared with.
    """

    place: int
    column: KeyColumn

    def text_in(self, statement: Executable, values: Sequence[BindParameter[Any]]) -> str | None:
        """Return the ref of one execution that brings no parameters, if its value is text."""
        # none where it is read when the statement is executed, which an instance's own key is
        value = values[self.place].value
        return value if type(value) is str and not sqla.params_of(statement) else None


def single_of(inputs: Inputs) -> Single | None:
    """Return the one place for a ref, of inputs that all stand in the WHERE of a statement."""
    if len(inputs.positions) != 1:
        return None
    [(place, target)] = inputs.positions.items()
    is_plain = isinstance(target, KeyColumn) and not target.array and target.by is None
    return Single(place, target) if is_plain else None  # type: ignore[arg-type]


def texts(
    inputs: Inputs,
    statement: Executable,
    values: Sequence[BindParameter[Any]],
    parameters: Parameters,
) -> list[tuple[str, KeyColumn]]:
    """Return the texts that stand for keys in one execution, each with its column.

    Raises:
        UntranslatableError: a text is combined with a key column other than by comparison, or
            given by a name that SQLAlchemy made.
    """
    found: list[tuple[str, KeyColumn]] = []
    for place, target in inputs.positions.items():
        found += texts_in(values[place], sqla.parameter_value(values[place]), target)
    for record in _records(statement, parameters):
        _note_record(record, inputs, lambda *text: found.append(text))
    if inputs.unnamed:
        for record in _given(statement, parameters):
            _refuse_made_names(record, inputs)
    return found


def texts_in(
    parameter: BindParameter[Any], value: Any, target: InputTarget
) -> list[tuple[str, KeyColumn]]:
    """Return the texts that stand for keys in the value of a parameter, each with its column.

    Raises:
        UntranslatableError: see `texts`.
    """
    found: list[tuple[str, KeyColumn]] = []
    if not sqla.takes_list(parameter):
        check_one(value, target)
    swapped(value, target, lambda *text: found.append(text))
    return found


def with_keys(
    inputs: Inputs,
    statement: Executable,
    values: Sequence[BindParameter[Any]],
    parameters: Parameters,
    swap: Swap,
    *,
    late: Mapping[str, sqla.LateKey] = _NONE,
    in_where: bool = False,
) -> tuple[Executable, Parameters]:
    """Return the statement and its parameters with keys in place of the texts found in them.

    That is quick where all that is replaced stands `in_where`, as `sqla.stand_in_where` tells.

    Args:
        inputs: where texts may be.
        statement: stays as it is.
        values: its parameters.
        parameters: what comes with the execution.
        swap: gives the key for a text.
        late: what gives the values of parameters that are not read yet, by their keys.
        in_where: see above.
    """
    replaced: dict[str, Any] = {
        values[place].key: swapped(sqla.parameter_value(values[place]), target, swap)
        for place, target in inputs.positions.items()
        if takes_keys(target)
    }
    replaced |= late
    params = sqla.params_of(statement)
    if in_where and replaced:
        statement = sqla.with_values_in_where(statement, replaced)
        if not params and not parameters:
            return statement, parameters
    types = {values[place].key: type_ for place, type_ in inputs.types.items()}
    swapping = _Swapping(inputs, swap, replaced, types)
    if not in_where:
        statement = swapping.expression(statement)
    if isinstance(statement, Insert):
        statement = swapping.records_of(statement)
    if params:
        statement = sqla.with_params(statement, swapping.record(params))
    if not parameters:
        return statement, parameters
    if isinstance(parameters, Mapping):
        return statement, swapping.record(parameters)
    return statement, list(map(swapping.record, parameters))


@dataclass(frozen=True, slots=True)
class _Swapping:
    """What takes the place of the refs of one execution: values and SQL types, by parameter."""

    inputs: Inputs
    swap: Swap
    values: Mapping[str, Any]
    types: Mapping[str, TypeEngine[Any]]

    def expression(self, expression: Any) -> Any:
        """Return a statement, or an expression in a record, with keys in place of refs."""
        if not self.values:
            return expression
        return sqla.with_values(expression, self.values, self.types)

    def records_of(self, statement: Executable) -> Executable:
        """Return an insert with keys in place of the refs in its lists and in its upsert."""
        conflict = dict(sqla.conflict_values_of(statement))
        if conflict:
            conflict = self.record(conflict)
            statement = sqla.with_conflict_values(statement, conflict, self.expression)
        many = sqla.many_values_of(statement)
        if many:
            lists = tuple(list(map(self.record, each)) for each in many)
            statement = sqla.with_many_values(statement, lists)
        return statement

    def record(self, record: Any) -> Any:
        """Return a record, by name or column or in order, with keys in place of its refs."""
        if isinstance(record, Mapping):
            targets = [self.inputs.named.get(_name(name)) for name in record]
            return dict(zip(record, self._values(record.values(), targets), strict=True))
        return list(self._values(record, self.inputs.ordered))

    def _values(
        self, values: Iterable[Any], targets: Sequence[InputTarget | None]
    ) -> Iterator[Any]:
        for value, target in zip(values, targets, strict=True):
            if isinstance(value, ClauseElement):
                yield self.expression(value)
            else:
                yield swapped(value, target, self.swap)


def _note_record(record: Any, inputs: Inputs, note: Swap) -> None:
    if isinstance(record, Mapping):
        for name, value in record.items():
            target = inputs.named.get(_name(name))
            if _name(name) in inputs.single:
                check_one(value, target)
            swapped(value, target, note)
    else:
        for value, target in zip(record, inputs.ordered, strict=True):
            swapped(value, target, note)


def _records(statement: Executable, parameters: Parameters) -> Iterator[Any]:
    if isinstance(statement, Insert):
        for each in sqla.many_values_of(statement):
            yield from each
        yield dict(sqla.conflict_values_of(statement))
    yield from _given(statement, parameters)


def _given(statement: Executable, parameters: Parameters) -> Iterator[Mapping[str, Any]]:
    """Yield what values are given beside the statement, by the names of parameters."""
    params = sqla.params_of(statement)
    if params:
        yield params
    if parameters:
        yield from [parameters] if isinstance(parameters, Mapping) else parameters


def _refuse_made_names(record: Mapping[str, Any], inputs: Inputs) -> None:
    """Refuse a text that would take the place of one in the statement, by a name such as `id_1`.

    Which of several is the first is decided when the statement is compiled.
    """
    for name in map(_name, record):
        for stem, target in () if name in inputs.names else inputs.unnamed:
            if sqla.may_be_named(name, stem):
                swapped(record[name], target, partial(_refuse_name, name))


def _refuse_name(name: str, *_: object) -> NoReturn:
    raise UntranslatableError(
        f"a text is given as parameter {name!r}, a name that SQLAlchemy makes",
        "put the value into the statement, or give the parameter a name by bindparam()",
    )


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(key.key)
