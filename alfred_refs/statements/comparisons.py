"""What the bind parameters of a statement are compared with, chosen with, or stored in.

    Recipe.id == "recipe_1"                 a key of recipes.id
    coalesce(Recipe.id, "recipe_1")         the same
    Recipe.id.concat("recipe_1")            recipes.id, in a way that cannot be translated
    insert(Recipe).values(id="recipe_1")    a key of recipes.id

The elements of a statement come in, one by one; by the `key` of each parameter goes out the target
of its value, and the SQL type that it is to be sent as. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Case,
    ClauseElement,
    Column,
    ColumnClause,
    Executable,
    FromClause,
    FunctionElement,
    Null,
    Tuple,
)
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.sql import operators
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import BinaryExpression, ClauseList, ExpressionClauseList, Grouping
from sqlalchemy.sql.selectable import CompoundSelect
from sqlalchemy.sql.sqltypes import TupleType
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.expressions import (
    arguments_of,
    choices_of,
    function_name,
    is_document,
)
from alfred_refs.mapping.functions import ARRAY_ARGUMENTS
from alfred_refs.mapping.key_column import KeyColumn, key_type_of

from .dataflow import (
    Flow,
    Flows,
    KeySource,
    ParameterSource,
    is_array,
    merged,
    positions,
)
from .targets import InputTarget, Mixture, RawColumn, has_text, mixed_with

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
}

# Operators of lists: of PostgreSQL's ARRAY, or of SQLAlchemy's own.
_ARRAY_OPERATORS = {"@>", "<@", "&&"}

# Functions that make a text of their arguments, and compare none of them.
_COMPOSING = {
    *("concat", "concat_ws", "format", "string_agg", "array_to_string", "to_char"),
}


class Comparisons:
    """What the parameters of a statement are compared with, by the `key` of each."""

    def __init__(self, flows: Flows, statement: Executable) -> None:
        self._flows = flows
        self._statement = statement
        self._taken: dict[str, dict[InputTarget, None]] = {}
        self._plain: set[str] = set()
        self._met: dict[int, BindParameter[Any]] = {}
        self._types: dict[str, TypeEngine[Any]] = {}
        self._refused: dict[str, Mixture] = {}

    @property
    def targets(self) -> dict[str, InputTarget]:
        """What the parameters stand for that are compared with columns or stored in them."""
        return {name: next(iter(targets)) for name, targets in self._taken.items()} | self._refused

    @property
    def types(self) -> dict[str, TypeEngine[Any]]:
        """What the parameters are to be sent as that would be sent as something else."""
        return {name: t for name, t in self._types.items() if name not in self._refused}

    def read(self, element: Any) -> None:
        """Take in one element of the statement; its parts come by themselves."""
        match element:
            case BinaryExpression():
                self._read_operation(element)
            case Case():
                self._read_case(element)
            case FunctionElement():
                self._read_function(element)
            case CompoundSelect():
                for together in positions(element):
                    self._relate(map(self._flows.of, together))
            case array():
                self._relate(map(self._flows.of, element.clauses))
            case UpdateBase():
                self._read_write(element)

    def read_opaque(self, element: Any) -> None:
        """Take in an element of the program's own making: what it does with its parts is unknown.

        SQLAlchemy does not look into it, so that no text in it can be replaced.
        """
        if sqla.is_opaque(element):
            self._relate([self._flows.of(element)])

    def refuse_in(self, part: ClauseElement) -> None:
        """Take in a part that is out of reach: no parameter in it can be translated."""
        elements = list(sqla.elements_of(part))
        for element in elements:
            self.read(element)
            self.read_opaque(element)
        for parameter in (e for e in elements if isinstance(e, BindParameter)):
            self.refuse(parameter)

    def refuse(self, parameter: BindParameter[Any]) -> None:
        """Take in that a parameter cannot be translated."""
        targets = self._taken.get(parameter.key, ())
        for column in itertools.chain.from_iterable(map(_columns_in, targets)):
            self._refuse(parameter, column)

    def check(self, parameters: Sequence[BindParameter[Any]]) -> None:
        """Refuse what can be told without the values of an execution.

        That is a name which stands for keys of one entity and for anything else, and text that
        the statement's shape does not list: it could not be replaced.
        """
        listed = {parameter.key for parameter in parameters}
        unnamed = {parameter.key for parameter in parameters if parameter.unique}
        for parameter in self._met.values():
            if parameter.key not in listed and has_text(sqla.parameter_value(parameter)):
                raise mixed_with(next(_columns_in(self.targets[parameter.key])))
        for name, targets in self._taken.items():
            meanings = {_meaning(target) for target in targets} | {
                "" for _ in {name} & self._plain
            }
            if len(meanings) > 1 and name not in self._refused:
                named = "a parameter" if name in unnamed else f"parameter {name!r}"
                raise UntranslatableError(
                    f"{named} stands for a key and for something else",
                    "give each its own parameter",
                )

    def _read_operation(self, element: BinaryExpression[Any]) -> None:
        operator, parts = element.operator, (element.left, element.right)
        if operator in _COMPARISONS:
            self._compare(*parts)
        elif operator is operators.getitem:
            return
        elif is_array(element.left) and (
            operator in (operators.contains_op, operators.concat_op)
            or getattr(operator, "opstring", None) in _ARRAY_OPERATORS
        ):
            self._relate(map(self._flows.of, parts))
        else:
            self._relate([merged(map(self._flows.of, parts)).derived()])

    def _read_case(self, element: Case[Any]) -> None:
        if element.value is not None:
            for condition, _ in element.whens:
                self._compare(element.value, condition)
        if not is_document(element):
            self._relate(map(self._flows.of, choices_of(element)))

    def _read_function(self, element: FunctionElement[Any]) -> None:
        name, flow_of = function_name(element), self._flows.of
        if name == "nullif":
            self._relate(map(flow_of, arguments_of(element)))
        elif is_document(element) or name in _COMPOSING:
            return  # its parts stand side by side, and are not compared
        elif name in ARRAY_ARGUMENTS:
            self._relate(self._flows.elements_of(element))
        elif choices := choices_of(element):
            self._relate(map(flow_of, choices))
        else:
            self._relate([merged(map(flow_of, arguments_of(element))).derived()])

    def _compare(self, left: Any, right: Any) -> None:
        """Note what two operands of a comparison mean for each other, position by position."""
        inner = right.element if isinstance(right, Grouping) else right
        if isinstance(inner, ClauseList | ExpressionClauseList) and not isinstance(
            inner, array | Tuple
        ):
            for one in inner.clauses:  # a list of expressions in IN, the two ends of BETWEEN
                self._compare(left, one)
            return
        lefts, rights = positions(left), positions(right)
        if len(lefts) == len(rights):
            for these in zip(lefts, rights, strict=True):
                together = list(itertools.chain.from_iterable(these))
                if not any(isinstance(each, Null) for each in together):
                    self._relate(map(self._flows.of, together))
        elif isinstance(right, BindParameter):
            self._take_row(right, [merged(map(self._flows.of, each)) for each in lefts])
        else:
            self._relate([merged(map(self._flows.of, [left, right])).derived()])

    def _relate(self, flows: Iterable[Flow]) -> None:
        """Note that values of these flows are compared, chosen from or stored with each other."""
        flow = merged(flows)
        columns = [*(key.column for key in flow.keys), *flow.derived_keys]
        if not columns:
            self._relate_data(flow)
            return
        key = _agreed(flow)
        for source in flow.parameters:
            if key is not None and source.fits(key):
                self._take(source, key)
            else:
                self._refuse(source.parameter, columns[0])
        for parameter in flow.derived_parameters:
            self._refuse(parameter, columns[0])

    def _relate_data(self, flow: Flow) -> None:
        """Note parameters beside plain data: they must not stand for a key elsewhere."""
        if not flow.data:
            return
        self._plain.update(source.parameter.key for source in flow.parameters)
        self._plain.update(parameter.key for parameter in flow.derived_parameters)
        raw = _raw_column(flow.data)
        if raw is not None:
            for source in flow.parameters:
                self._taken.setdefault(source.parameter.key, {})[raw] = None

    def _take(self, source: ParameterSource, key: KeySource) -> None:
        """Note a parameter that stands for a key, and the SQL type that it is to be sent as.

        Text is sent as text, and a key in its place would be compared as text.
        """
        parameter, depth = source.parameter, key.depth + source.depth
        column = replace(key.column, array=depth > 0)
        self._met[id(parameter)] = parameter
        self._taken.setdefault(parameter.key, {})[column] = None
        self._send_as(parameter, ARRAY(key.type) if depth > 0 else key.type)

    def _take_row(self, parameter: BindParameter[Any], flows: Sequence[Flow]) -> None:
        """Note a list of rows: the values at each position meet what stands there."""
        targets = tuple(map(target_of, flows))
        columns = [key.column for flow in flows for key in flow.keys]
        derived_keys = [column for flow in flows for column in flow.derived_keys]
        if derived_keys or any(
            flow.parameters or flow.derived_parameters for flow in flows if flow.keys
        ):
            self._refuse(parameter, [*derived_keys, *columns][0])
        elif any(targets):
            self._met[id(parameter)] = parameter
            self._taken.setdefault(parameter.key, {})[targets] = None
            types = getattr(parameter.type, "types", [parameter.type] * len(targets))
            self._send_as(
                parameter,
                TupleType(
                    *(
                        flow.keys[0].type if isinstance(target, KeyColumn) else type_
                        for target, flow, type_ in zip(targets, flows, types, strict=True)
                    )
                ),
            )

    def _send_as(self, parameter: BindParameter[Any], type_: TypeEngine[Any]) -> None:
        if repr(parameter.type) != repr(type_):
            self._types[parameter.key] = type_

    def _refuse(self, parameter: BindParameter[Any], column: KeyColumn) -> None:
        self._met[id(parameter)] = parameter
        self._refused.setdefault(parameter.key, Mixture(column))

    def _read_write(self, statement: UpdateBase) -> None:
        for column, value in stored_by(statement):
            # a record may be out of reach, in a CTE
            is_inner = not isinstance(value, ClauseElement) and statement is not self._statement
            stored = sqla.unlisted(value) if is_inner else value
            if isinstance(stored, ClauseElement):
                self._relate([self._flows.of(column), self._flows.of(stored)])


def _agreed(flow: Flow) -> KeySource | None:
    """Return the keys that all values of a flow are like, `None` if others are among them."""
    first = flow.keys[0] if flow.keys else None
    if first is None or flow.derived_keys or flow.data:
        return None
    return first if all(key.is_like(first) for key in flow.keys) else None


def target_of(flow: Flow) -> InputTarget | None:
    """Return what a value stands for that meets these, `None` for anything."""
    key = _agreed(flow)
    if key is not None:
        return replace(key.column, array=key.depth > 0)
    return None if flow.keys or flow.derived_keys else _raw_column(flow.data)


def _raw_column(data: Iterable[ColumnClause[Any] | None]) -> RawColumn | None:
    """Return a column among plain data that no ref fits, whose values are never text."""
    for column in data:
        if isinstance(column, Column) and key_type_of(column.type) in ("uuid", "integer"):
            return RawColumn(str(column))
    return None


def _columns_in(target: InputTarget | None) -> Iterator[KeyColumn]:
    for each in target if isinstance(target, tuple) else (target,):
        if isinstance(each, KeyColumn):
            yield each
        elif isinstance(each, Mixture):
            yield each.column


def _meaning(target: InputTarget) -> Any:
    if isinstance(target, KeyColumn):
        return replace(target, name="")
    return tuple(s and _meaning(s) for s in target) if isinstance(target, tuple) else ""


def _element(value: Any) -> Any:
    return value.__clause_element__() if hasattr(value, "__clause_element__") else value


def stored_by(statement: UpdateBase) -> Iterator[tuple[Any, Any]]:
    """Yield the columns that a write fills, and what each is given: an expression or a value."""
    columns, ordered = columns_of(statement)
    pairs = [*sqla.values_of(statement), *sqla.conflict_values_of(statement)]
    for record in itertools.chain.from_iterable(sqla.many_values_of(statement)):
        named = isinstance(record, Mapping)
        pairs += record.items() if named else zip(ordered, record, strict=False)
    for name, value in [*pairs, *sqla.selected_into(statement)]:
        column = columns.get(name) if isinstance(name, str) else _element(name)
        if column is not None:
            yield column, _element(value)


def columns_of(statement: Executable) -> tuple[dict[str, Any], list[Any]]:
    """Return the columns that a write can fill, by the names it may use, and in order."""
    if not isinstance(statement, UpdateBase):
        return {}, []
    table, mapper = sqla.written_by(statement)
    ordered = list(table.c) if isinstance(table, FromClause) else []  # of an alias, too
    attributes = () if mapper is None else mapper.column_attrs
    return {
        **(dict(table.c.items()) if ordered else {}),
        **{attribute.key: attribute.columns[0] for attribute in attributes},
    }, ordered
