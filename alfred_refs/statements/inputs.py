"""Refs in: which values of an execution are refs, and the statement with keys in their place.

`inputs_of` computes once for each cache key where refs may be (`Inputs`): by the position of the
bind parameter in the cache key, and by name for values that come with the execution or in records.
Each execution takes two steps, so that all of its refs are resolved in one round trip:

1. `Inputs.texts` returns the strings that must be refs, each with its column;
2. `Inputs.with_keys` returns copies of the statement and its parameters, with keys in their place.

By the target of a value:

    a key column            "recipe_1"                ->  UUID("a508...")
                            ["recipe_1", "recipe_2"]  ->  both, as in_() takes them
    columns of a row        [("recipe_1", "soup")]    ->  [(UUID("a508..."), "soup")]
    a raw column            "recipe_1"                ->  raises: its values have no refs
    a mixture with a key    any string                ->  raises

Example:
    >>> from alfred_refs import RefPolicy
    >>> statement = select(Recipe).where(Recipe.id.in_(["recipe_1", "recipe_2"]))
    >>> _, values = sqla.cache_key_of(statement)
    >>> inputs = inputs_of(statement, values, Entities(RefPolicy()))
    >>> [(ref, column.entity) for ref, column in inputs.texts(statement, values, None)]
    [('recipe_1', 'recipe'), ('recipe_2', 'recipe')]
    >>> numbers = {"recipe_1": 41, "recipe_2": 42}
    >>> copy, _ = inputs.with_keys(statement, values, None, lambda ref, _: numbers[ref])
    >>> [parameter.value for parameter in sqla.cache_key_of(copy)[1]]
    [[41, 42]]

A value is never dropped and a criterion never changed: what cannot be translated raises. Whether a
string is a ref that exists is for the caller to decide. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, NoReturn

from sqlalchemy import BindParameter, ClauseElement, Executable, Insert
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn, holds_texts
from alfred_refs.mapping.keys import Key, ShownRef, parse_ref, shown_refs_in, with_shown_keys
from alfred_refs.statements.dataflow import (
    Flows,
    InputTarget,
    Mixture,
    ParameterTargets,
    RawColumn,
    assignments_of,
    has_text,
    is_collection,
    mixture_error,
    raw_column,
    target_of,
    writable_columns,
)

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""The parameters that `Session.execute` takes in addition to the statement."""

Swap = Callable[[str, KeyColumn], Any]
"""Returns the value that replaces a ref in a column."""

_NO_LATE_KEYS: Mapping[str, sqla.LateKey] = {}


# One cache key


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where refs may be in all statements of one cache key.

    Attributes:
        positions: the targets of bind parameters, by their position in the cache key.
        types: the SQL types of those that must be sent as another type than their own.
        named: the targets of values that come by name: with the execution, or in a record.
        ordered: the targets of values that come in order, in an INSERT's lists of tuples.
        keys: the parameters that are keys, by name: a result that shows them shows a key.
        anonymous: the targets of anonymous parameters, by the stem of their name, under which
            values may come with the execution too.
        names: the names that the application chose, for parameters and for columns.
        single: the names of parameters that take one value, not a list.
    """

    positions: Mapping[int, InputTarget]
    types: Mapping[int, TypeEngine[Any]]
    named: Mapping[str, InputTarget]
    ordered: Sequence[InputTarget | None]
    keys: Mapping[str, KeyColumn]
    anonymous: Sequence[tuple[str, InputTarget]]
    names: Collection[str]
    single: Collection[str] = frozenset()

    def without(self, positions: Collection[int]) -> Inputs:
        """Return the inputs of an execution whose parameters at some positions are not refs."""
        if not positions:
            return self
        rest = {i: target for i, target in self.positions.items() if i not in positions}
        return replace(self, positions=rest)

    def texts(
        self,
        statement: Executable,
        values: Sequence[BindParameter[Any]],
        parameters: Parameters,
    ) -> list[tuple[str, KeyColumn]]:
        """Return the strings that must be refs in one execution, each with its column.

        Args:
            statement: one of the cache key.
            values: its parameters, as `sqla.cache_key_of` returns them.
            parameters: the parameters of the execution.

        Raises:
            UntranslatableError: a string is combined with a key column other than by comparison,
                or is passed under an anonymous name.
        """
        refs: list[tuple[str, KeyColumn]] = []

        def collect(text: str, column: KeyColumn) -> None:
            refs.append((text, column))

        for position, target in self.positions.items():
            refs += parameter_texts(
                values[position], sqla.parameter_value(values[position]), target
            )
        for record in _records(statement, parameters):
            if isinstance(record, Mapping):
                for name, value in record.items():
                    target_by_name = self.named.get(_name(name))
                    if _name(name) in self.single:
                        check_single(value, target_by_name)
                    swap_refs(value, target_by_name, collect)
            else:
                for value, target_in_order in zip(record, self.ordered, strict=True):
                    swap_refs(value, target_in_order, collect)
        if self.anonymous:
            for record in _parameters_of(statement, parameters):
                _check_anonymous_names(record, self, values)
        return refs

    def with_keys(
        self,
        statement: Executable,
        values: Sequence[BindParameter[Any]],
        parameters: Parameters,
        swap: Swap,
        *,
        late: Mapping[str, sqla.LateKey] = _NO_LATE_KEYS,
        in_where: bool = False,
    ) -> tuple[Executable, Parameters]:
        """Return a copy of a statement and its parameters with keys in place of refs.

        Args:
            statement: one of the cache key; is not changed.
            values: its parameters, as `sqla.cache_key_of` returns them.
            parameters: the parameters of the execution.
            swap: returns the key of a ref.
            late: the callables of parameters that get their keys at execution, by their `key`.
            in_where: whether `sqla.all_in_where` holds for the parameters: a faster copy.
        """
        replacements: dict[str, Any] = {
            values[position].key: swap_refs(sqla.parameter_value(values[position]), target, swap)
            for position, target in self.positions.items()
            if takes_keys(target)
        }
        replacements |= late
        params = sqla.params_of(statement)
        if in_where and replacements:
            statement = sqla.with_values_in_where(statement, replacements)
            if not params and not parameters:
                return statement, parameters
        types = {values[position].key: type_ for position, type_ in self.types.items()}
        replacement = _Replacement(self, swap, replacements, types)
        if not in_where:
            statement = replacement.in_expression(statement)
        if isinstance(statement, Insert):
            statement = replacement.in_records(statement)
        if params:
            statement = sqla.with_params(statement, replacement.in_record(params))
        if not parameters:
            return statement, parameters
        if isinstance(parameters, Mapping):
            return statement, replacement.in_record(parameters)
        return statement, list(map(replacement.in_record, parameters))


def inputs_of(
    statement: Executable, parameters: Sequence[BindParameter[Any]], entities: Entities
) -> Inputs:
    """Return where refs may be in a statement.

    Args:
        statement: any; one without key columns has no inputs.
        parameters: its parameters, as `sqla.cache_key_of` returns them.
        entities: the application's entities, for the keys of a column.

    Raises:
        UntranslatableError: one parameter is used for a key and for something else.
    """
    flows = Flows(entities.of_column)
    read = ParameterTargets(flows, statement)
    for element in sqla.elements_of(statement):
        read.read(element)
    for part in sqla.unreachable_parts(statement):
        read.refuse_in(part)
    for parameter in sqla.unreachable_parameters(statement, parameters):
        read.refuse(parameter)
    read.check(parameters)
    targets, types = read.targets, read.types
    columns, ordered = writable_columns(statement)
    by_name = {name: target for name, c in columns.items() if (target := target_of(flows.of(c)))}
    named = [p.key for p in parameters if not p.unique]
    stems = [(stem, p.key) for p in parameters if (stem := sqla.anonymous_stem(p)) is not None]
    return Inputs(
        positions={i: targets[p.key] for i, p in enumerate(parameters) if p.key in targets},
        types={i: types[p.key] for i, p in enumerate(parameters) if p.key in types},
        named=by_name | {name: targets[name] for name in named if name in targets},
        ordered=[target_of(flows.of(column)) for column in ordered],
        keys={
            p.key: target
            for p in parameters
            if isinstance(target := targets.get(p.key), KeyColumn)
        },
        anonymous=[(stem, targets[key]) for stem, key in stems if key in targets],
        names=frozenset(named).union(columns),
        single=frozenset(p.key for p in parameters if not p.unique and not sqla.takes_list(p)),
    )


@dataclass(frozen=True, slots=True)
class Single:
    """The only place for a ref, in statements such as `select(Recipe).where(Recipe.id == ref)`.

    Most executions are of such statements; the session translates them on a shorter path.

    Attributes:
        position: of the parameter in the cache key.
        column: the column it is compared with.
    """

    position: int
    column: KeyColumn

    def text_in(self, statement: Executable, values: Sequence[BindParameter[Any]]) -> str | None:
        """Return the value of an execution without parameters, if it is a string."""
        # `value` is None for a parameter with a callable, such as the key of an instance
        value = values[self.position].value
        return value if isinstance(value, str) and not sqla.params_of(statement) else None


def single_of(inputs: Inputs) -> Single | None:
    """Return the only place for a ref, of inputs that are all in the WHERE of a statement."""
    if len(inputs.positions) != 1:
        return None
    [(position, target)] = inputs.positions.items()
    is_own_key = isinstance(target, KeyColumn) and not target.array and target.alternate is None
    return Single(position, target) if is_own_key else None  # type: ignore[arg-type]


# One execution


def parameter_texts(
    parameter: BindParameter[Any], value: Any, target: InputTarget
) -> list[tuple[str, KeyColumn]]:
    """Return the strings that must be refs in the value of a parameter, each with its column.

    Raises:
        UntranslatableError: see `Inputs.texts`.
    """
    refs: list[tuple[str, KeyColumn]] = []
    if not sqla.takes_list(parameter):
        check_single(value, target)
    swap_refs(value, target, lambda *ref: refs.append(ref))
    return refs


def _records(statement: Executable, parameters: Parameters) -> Iterator[Any]:
    """Yield the records of an INSERT, and the parameters of the execution."""
    if isinstance(statement, Insert):
        for records in sqla.many_values_of(statement):
            yield from records
        yield dict(sqla.conflict_values_of(statement))
    yield from _parameters_of(statement, parameters)


def _parameters_of(statement: Executable, parameters: Parameters) -> Iterator[Mapping[str, Any]]:
    """Yield the values by name of a statement's `params()` and of the execution."""
    params = sqla.params_of(statement)
    if params:
        yield params
    if parameters:
        yield from [parameters] if isinstance(parameters, Mapping) else parameters


def _check_anonymous_names(
    record: Mapping[str, Any], inputs: Inputs, values: Sequence[BindParameter[Any]]
) -> None:
    """Refuse a string that would replace an anonymous parameter, by a name such as `id_1`.

    Which of several parameters it would replace is decided when the statement is compiled. The
    stems of names are not in the cache key, so the statement may have others than the first one of
    the cache key, whose compiled form may be executed.
    """
    stems = [
        (stem, target)
        for position, target in inputs.positions.items()
        if (stem := sqla.anonymous_stem(values[position])) is not None
    ]

    def refuse(name: str, *_: object) -> NoReturn:
        raise UntranslatableError(
            f"a string is passed as parameter {name!r}, whose name SQLAlchemy generated",
            "put the value into the statement, or give the parameter a name by bindparam()",
        )

    for name in map(_name, record):
        for stem, target in () if name in inputs.names else (*inputs.anonymous, *stems):
            if sqla.may_set_anonymous(name, stem):
                swap_refs(record[name], target, partial(refuse, name))


@dataclass(frozen=True, slots=True)
class _Replacement:
    """Replaces the refs of one execution.

    Attributes:
        inputs: of the statement's cache key.
        swap: returns the key of a ref.
        values: the new values of parameters, by their `key`.
        types: the new types of parameters, by their `key`.
    """

    inputs: Inputs
    swap: Swap
    values: Mapping[str, Any]
    types: Mapping[str, TypeEngine[Any]]

    def in_expression(self, expression: Any) -> Any:
        """Return a copy of a statement, or of an expression in a record."""
        if not self.values:
            return expression
        return sqla.with_values(expression, self.values, self.types)

    def in_records(self, statement: Executable) -> Executable:
        """Return a copy of an INSERT with keys in its lists of records and its ON CONFLICT."""
        conflict = dict(sqla.conflict_values_of(statement))
        if conflict:
            statement = sqla.with_conflict_values(
                statement, self.in_record(conflict), self.in_expression
            )
        lists = sqla.many_values_of(statement)
        if lists:
            copies = tuple(list(map(self.in_record, records)) for records in lists)
            statement = sqla.with_many_values(statement, copies)
        return statement

    def in_record(self, record: Any) -> Any:
        """Return a copy of a record: a mapping by name or column, or a sequence in order."""
        if isinstance(record, Mapping):
            targets = [self.inputs.named.get(_name(name)) for name in record]
            return dict(zip(record, self._values_in(record.values(), targets), strict=True))
        return list(self._values_in(record, self.inputs.ordered))

    def _values_in(
        self, values: Iterable[Any], targets: Sequence[InputTarget | None]
    ) -> Iterator[Any]:
        for value, target in zip(values, targets, strict=True):
            if isinstance(value, ClauseElement):
                yield self.in_expression(value)
            else:
                yield swap_refs(value, target, self.swap)


def _name(column: Any) -> str:
    return column if isinstance(column, str) else str(column.key)


# Refs in data

_MAY_HOLD = (str, Mapping, list, tuple, set, frozenset)  # types of values that may have refs


@dataclass(frozen=True, slots=True)
class DataRefs:
    """The refs that a program has copied into columns of data, in one execution.

    Refs for key columns are replaced before, so the others are for columns of data.

    Attributes:
        values: the values of the statement's parameters that are not for key columns, by name.
        records: lists of records of an INSERT, as `sqla.many_values_of` returns them.
        conflict: the `set_` of an upsert.
        parameters: the parameters of the execution.
        refs: the refs in all of these.
        texts: the names of parameters and columns that have lists or mappings of texts.
    """

    values: Mapping[str, Any]
    records: tuple[Sequence[Any], ...]
    conflict: Mapping[Any, Any]
    parameters: Parameters
    refs: Sequence[ShownRef]
    texts: frozenset[str]

    @classmethod
    def of(
        cls,
        statement: Executable,
        own_parameters: Sequence[BindParameter[Any]],
        inputs: Inputs,
        parameters: Parameters,
    ) -> DataRefs:
        """Find the refs of one execution.

        Args:
            statement: with keys in place of the refs for key columns.
            own_parameters: its parameters before that, as `sqla.cache_key_of` returns them.
            inputs: where refs for key columns are among them.
            parameters: the parameters of the execution, with keys.
        """
        values = {
            each.key: each.value
            for position, each in enumerate(own_parameters)
            if position not in inputs.positions and isinstance(each.value, _MAY_HOLD)
        }
        records: tuple[Sequence[Any], ...] = ()
        conflict: Mapping[Any, Any] = {}
        if isinstance(statement, Insert):
            records = sqla.many_values_of(statement)
            conflict = dict(sqla.conflict_values_of(statement))
        refs = [*shown_refs_in([values, records, [*conflict.values()], parameters])]
        texts = _names_of_texts(statement, own_parameters) if refs else frozenset()
        return cls(values, records, conflict, parameters, refs, texts)

    def with_keys(
        self, statement: Executable, keys: Mapping[str, Key]
    ) -> tuple[Executable, Parameters]:
        """Return the statement and the parameters of the execution with keys in place of refs."""
        changed = {
            name: with_shown_keys(value, keys, of_texts=name in self.texts)
            for name, value in self.values.items()
            if any(shown_refs_in(value))
        }
        if changed:
            statement = sqla.with_values(statement, changed)
        if any(shown_refs_in(self.records)):
            copies = tuple(
                [self._record(each, keys) for each in records] for records in self.records
            )
            statement = sqla.with_many_values(statement, copies)
        if any(shown_refs_in([*self.conflict.values()])):
            values = self._record(self.conflict, keys)
            statement = sqla.with_conflict_values(statement, values, lambda criterion: criterion)
        if not self.parameters:
            return statement, self.parameters
        if isinstance(self.parameters, Mapping):
            return statement, self._record(self.parameters, keys)
        return statement, [self._record(each, keys) for each in self.parameters]

    def _record(self, record: Any, keys: Mapping[str, Key]) -> Any:
        """Return a record, by name or in order, with keys in place of the refs in its values."""
        if not isinstance(record, Mapping):
            return [with_shown_keys(each, keys) for each in record]
        return {
            name: with_shown_keys(each, keys, of_texts=getattr(name, "key", name) in self.texts)
            for name, each in record.items()
        }


def _names_of_texts(statement: Executable, values: Sequence[BindParameter[Any]]) -> frozenset[str]:
    columns, _ = writable_columns(statement)
    names = {name for name, column in columns.items() if holds_texts(column.type)}
    names |= {each.key for each in values if holds_texts(each.type)}
    if isinstance(statement, UpdateBase):
        names |= {
            value.key
            for column, value in assignments_of(statement)
            if isinstance(value, BindParameter) and holds_texts(column.type)
        }
    return frozenset(names)


# One value


def takes_keys(target: InputTarget) -> bool:
    """Return whether refs with this target are replaced by keys, not refused."""
    return isinstance(target, KeyColumn | tuple)


def swap_refs(value: Any, target: InputTarget | None, swap: Swap) -> Any:
    """Return a value with every ref in it replaced.

    Args:
        value: the value of a parameter, or of a column in a record.
        target: its target; `None` for a value that may be any string.
        swap: called for each string that must be a ref.

    Raises:
        UntranslatableError: the value is of another form than the target takes.
    """
    if value is None or target is None:
        return value
    if isinstance(value, str) and type(target) is KeyColumn and not target.array:
        return swap(value, target)  # the most frequent case first
    match target:
        case KeyColumn(array=True):
            return _swap_in_arrays(value, target, swap)
        case KeyColumn():
            return _swap_in_keys(value, target, swap)
        case RawColumn():
            _check_raw(value, target)
        case Mixture():
            if has_text(value):
                raise mixture_error(target.column)
        case tuple():
            return [_swap_in_row(row, target, swap) for row in value]
    return value


def check_single(value: Any, target: InputTarget | None) -> None:
    """Check a value that is compared with one key.

    A list would be sent as one string to a key column of strings. That matches no row, so `!=`
    would match every row.

    Raises:
        UntranslatableError: it is a list.
    """
    if not isinstance(target, KeyColumn) or target.key_type != "string" or target.array:
        return
    if is_collection(value):
        raise _wrong_form(target, "a list is given where one ref is needed")


def _swap_in_keys(value: Any, column: KeyColumn, swap: Swap) -> Any:
    """Return a parameter's value with keys in place of refs: one key, or a list for `in_()`."""
    if not is_collection(value):
        return _swap_key(value, column, swap)
    if any(map(is_collection, value)):
        raise _wrong_form(column, "a list is given where one ref is needed")
    return [_swap_key(item, column, swap) for item in value]


def _swap_in_arrays(value: Any, column: KeyColumn, swap: Swap) -> Any:
    """Return an array of keys of any dimensions, or a list of arrays as in_() takes it."""
    if isinstance(value, str):
        raise _wrong_form(column, "a string is given where a list of refs is needed")
    return _swap_in_array(value, column, swap) if is_collection(value) else value


def _swap_in_array(value: Any, column: KeyColumn, swap: Swap) -> Any:
    return [
        _swap_in_array(item, column, swap)
        if is_collection(item)
        else _swap_key(item, column, swap)
        for item in value
    ]


def _swap_key(value: Any, column: KeyColumn, swap: Swap) -> Any:
    text = column.ref_text(value)
    if text is not None and not isinstance(value, Mapping):
        return swap(text, column)
    # a driver might convert these to a string that is a key
    if isinstance(value, bytes | bytearray | memoryview | Enum | Mapping):
        raise _wrong_form(column, f"a value of type {type(value).__name__} is given for a key")
    return value


def _swap_in_row(row: Any, targets: tuple[InputTarget | None, ...], swap: Swap) -> tuple[Any, ...]:
    if not is_collection(row) or len(row) != len(targets):
        raise UntranslatableError(
            f"a row of {len(targets)} columns is compared with something else",
            "give a list of tuples with one value for each column",
        )
    return tuple(
        swap_refs(value, target, swap) for value, target in zip(row, targets, strict=True)
    )


def check_data(value: Any, column: Any) -> None:
    """Refuse a ref for a column of plain UUIDs or integers.

    Raises:
        UntranslatableError: one is.
    """
    raw = raw_column([column])
    if raw is not None:
        _check_raw(value, raw)


def _check_raw(value: Any, column: RawColumn) -> None:
    """Refuse a ref for a column of plain data.

    Raises:
        UntranslatableError: one is.
    """
    if is_collection(value):
        for item in value:
            _check_raw(item, column)
    elif isinstance(value, str) and parse_ref(value) is not None:
        raise UntranslatableError(
            f"{value!r} is given for column {column.name}, whose values have no refs",
            'give a value as the column has it, or declare what it holds by info={"ref": ...}',
        )


def _wrong_form(column: KeyColumn, fact: str) -> UntranslatableError:
    return UntranslatableError(
        f"{fact} in key column {column.name}",
        "pass one ref, or for in_() or an array column a list of refs",
    )
