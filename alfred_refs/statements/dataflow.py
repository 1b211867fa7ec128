"""Data flow of bind parameters: what each is compared with or assigned to, and the input targets.

What a value in a statement is compared with or stored in, and how refs in it become keys.

    a key column                 "recipe_1"                   ->  UUID("a508…")
                                 ["recipe_1", "recipe_2"]     ->  both, as IN takes them
    columns of a row             [("recipe_1", "soup")]       ->  [(UUID("a508…"), "soup")]
    a column without keys        "recipe_1"                   ->  raises: no ref fits
    a mixture with a key         any text                     ->  raises

A value and its target come in, the value with keys goes out. Pure.

Data flow: the columns and bind parameters that an expression hands on, and whether unchanged.

    coalesce(recipes.id, :x)     recipes.id and :x, unchanged
    lower(:x)                    :x, but what comes out is derived from it
    array([:x])                  :x, one list deeper

Pure.

What the bind parameters of a statement are compared with, chosen with, or stored in.

    Recipe.id == "recipe_1"                 a key of recipes.id
    coalesce(Recipe.id, "recipe_1")         the same
    Recipe.id.concat("recipe_1")            recipes.id, in a way that cannot be translated
    insert(Recipe).values(id="recipe_1")    a key of recipes.id

The elements of a statement come in, one by one; by the `key` of each parameter goes out the target
of its value, and the SQL type that it is to be sent as. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Boolean,
    Case,
    Cast,
    ClauseElement,
    Column,
    ColumnClause,
    ColumnElement,
    Executable,
    FromClause,
    FunctionElement,
    Integer,
    Null,
    Table,
    Tuple,
    TypeCoerce,
    Uuid,
    Values,
)
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.sql import operators
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import (
    BinaryExpression,
    ClauseList,
    CollectionAggregate,
    ExpressionClauseList,
    Grouping,
    TableValuedColumn,
)
from sqlalchemy.sql.selectable import (
    CompoundSelect,
    ScalarSelect,
    ScalarValues,
    SelectBase,
    SelectStatementGrouping,
    TableValuedAlias,
)
from sqlalchemy.sql.sqltypes import TupleType
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.errors import UntranslatableError
from alfred_refs.mapping.key_columns import KeyColumn, is_text_uuid, item_type, key_type_of
from alfred_refs.mapping.keys import parse_ref
from alfred_refs.mapping.lineage import (
    ARRAY_ARGUMENTS,
    ARRAYS,
    arguments_of,
    choices_of,
    function_name,
    is_document,
)


@dataclass(frozen=True, slots=True)
class RawColumn:
    """A column of UUIDs or integers that are no keys, or are left raw: no ref is among them.

    Attributes:
        name: `table.column`, for messages.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Mixture:
    """What is made from keys of a column, or from the value itself: any text in it is refused.

    Attributes:
        column: what the keys are of.
    """

    column: KeyColumn


InputTarget = KeyColumn | RawColumn | Mixture | tuple["InputTarget | None", ...]
"""What a value meets; for a row, what each position meets: `None` for what may be any text."""

Swap = Callable[[str, KeyColumn], Any]
"""Gives the value that a column takes in place of a ref."""


def takes_keys(target: InputTarget) -> bool:
    """Tell whether keys take the place of what is compared with a target."""
    return isinstance(target, KeyColumn | tuple)


def has_text(value: Any) -> bool:
    """Tell whether a value is text, or has text in it."""
    if isinstance(value, Mapping):
        return any(map(has_text, value.values()))
    return isinstance(value, str) or (_is_listed(value) and any(map(has_text, value)))


def swap_refs(value: Any, target: InputTarget | None, swap: Swap) -> Any:
    """Return a value with what `swap` gives in place of every ref.

    Raises:
        UntranslatableError: the value has another form than the target needs.
    """
    if value is None or target is None:
        return value
    if type(value) is str and type(target) is KeyColumn and not target.array:
        return swap(value, target)  # the common way, written out
    match target:
        case KeyColumn(array=True):
            return _swapped_lists(value, target, swap)
        case KeyColumn():
            return _swapped_ones(value, target, swap)
        case RawColumn() | Mixture():
            _check(value, target)
            return value
        case tuple():
            return [_swapped_row(row, target, swap) for row in value]


def check_one(value: Any, target: InputTarget | None) -> None:
    """Check what is compared with one key.

    A list of texts would be sent as one text, which is the key of no row: what is not it is all.

    Raises:
        UntranslatableError: it is a list.
    """
    if not isinstance(target, KeyColumn) or target.key_type != "string" or target.array:
        return
    if _is_listed(value):
        raise _misfit(target, "a list stands where one ref is needed")


def _swapped_lists(value: Any, column: KeyColumn, swap: Swap) -> Any:
    """Return a list of keys, or a list of such lists as IN takes it."""
    if isinstance(value, str):
        raise _misfit(column, "a text stands where a list of refs is needed")
    return _swapped_list(value, column, swap) if _is_listed(value) else value


def _swapped_ones(value: Any, column: KeyColumn, swap: Swap) -> Any:
    """Return a key, or a list of keys as IN takes it."""
    if not _is_listed(value):
        return _swapped_one(value, column, swap)
    if any(map(_is_listed, value)):
        raise _misfit(column, "a list stands where one ref is needed")
    return [_swapped_one(item, column, swap) for item in value]


def _swapped_list(value: Any, column: KeyColumn, swap: Swap) -> Any:
    return [
        _swapped_list(item, column, swap) if _is_listed(item) else _swapped_one(item, column, swap)
        for item in value
    ]


def _swapped_one(value: Any, column: KeyColumn, swap: Swap) -> Any:
    text = column.ref_text(value)
    if text is not None and not isinstance(value, Mapping):
        return swap(text, column)
    if isinstance(value, bytes | bytearray | memoryview | Enum | Mapping):
        raise _misfit(column, f"a value of type {type(value).__name__} stands for a key")
    return value


def _swapped_row(row: Any, targets: tuple[InputTarget | None, ...], swap: Swap) -> tuple[Any, ...]:
    if not _is_listed(row) or len(row) != len(targets):
        raise UntranslatableError(
            f"a row of {len(targets)} columns is compared with something else",
            "give a list of tuples with one value for each column",
        )
    return tuple(
        swap_refs(value, target, swap) for value, target in zip(row, targets, strict=True)
    )


def _is_listed(value: Any) -> bool:
    """Tell whether a value consists of others.

    Raises:
        UntranslatableError: it can be gone through once only.
    """
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | ClauseElement):
        return False
    if isinstance(value, Iterable) and not isinstance(value, Collection):
        raise UntranslatableError(
            f"values are given as a {type(value).__name__}, which can be read only once",
            "give a list",
        )
    return isinstance(value, Collection)


def _check(value: Any, target: RawColumn | Mixture) -> None:
    if isinstance(target, RawColumn):
        _check_raw(value, target)
    elif has_text(value):
        raise mixed_with(target.column)


def _check_raw(value: Any, column: RawColumn) -> None:
    if _is_listed(value):
        for item in value:
            _check_raw(item, column)
    elif isinstance(value, str) and parse_ref(value) is not None:
        raise UntranslatableError(
            f"{value!r} meets column {column.name}, whose values are not shown as refs",
            'give a value as the column has it, or declare what it holds by info={"ref": ...}',
        )


def _misfit(column: KeyColumn, fact: str) -> UntranslatableError:
    return UntranslatableError(
        f"{fact} in key column {column.name}",
        "give one ref for one key, and a list of refs to in_() or to a column of lists",
    )


def mixed_with(column: KeyColumn) -> UntranslatableError:
    """Return the error for text that meets a key column other than by comparison."""
    return UntranslatableError(
        f"a text is combined with key column {column.name} other than by comparison",
        "compare the column itself with refs, by ==, != or in_(), or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )


@dataclass(frozen=True, slots=True)
class KeySource:
    """Keys that an expression hands on.

    Attributes:
        column: the column that they come from.
        type: the SQL type of one key.
        depth: 0 for a key, 1 for a list of keys.
    """

    column: KeyColumn
    type: TypeEngine[Any]
    depth: int = 0

    def is_like(self, other: KeySource) -> bool:
        """Tell whether two expressions hand on the same kind of keys."""
        one, two = (replace(key.column, name="", array=False) for key in (self, other))
        return one == two and self.depth == other.depth


@dataclass(frozen=True, slots=True)
class ParameterSource:
    """A parameter whose value an expression hands on.

    Attributes:
        parameter: may be given at execution.
        depth: how many lists deeper its value is than the expression's.
        casts: the SQL types that it is cast to on the way.
        coerced: the SQL type that it is sent as, whatever its own; `None` for its own.
    """

    parameter: BindParameter[Any]
    depth: int = 0
    casts: tuple[TypeEngine[Any], ...] = ()
    coerced: TypeEngine[Any] | None = None

    def fits(self, key: KeySource) -> bool:
        """Tell whether a key in its place arrives as the keys it meets are."""
        return (
            key.depth + self.depth in (0, 1)
            and all(is_sent_alike(item_type(cast), key.type) for cast in self.casts)
            and (self.coerced is None or repr(item_type(self.coerced)) == repr(key.type))
        )


@dataclass(frozen=True, slots=True)
class Flow:
    """What the value of an expression is one of, and what it is made from.

    Attributes:
        keys: key columns, handed on unchanged.
        parameters: bind parameters, handed on unchanged.
        data: anything else that is handed on: a plain column, or `None` for what is made.
        derived_keys: key columns that something else is made from.
        derived_parameters: parameters that something else is made from.
    """

    keys: tuple[KeySource, ...] = ()
    parameters: tuple[ParameterSource, ...] = ()
    data: tuple[ColumnClause[Any] | None, ...] = ()
    derived_keys: tuple[KeyColumn, ...] = ()
    derived_parameters: tuple[BindParameter[Any], ...] = ()

    def __add__(self, other: Flow) -> Flow:
        return Flow(
            self.keys + other.keys,
            self.parameters + other.parameters,
            self.data + other.data,
            self.derived_keys + other.derived_keys,
            self.derived_parameters + other.derived_parameters,
        )

    def derived(self) -> Flow:
        """Return the flow of what is made from these values."""
        return Flow(
            data=(None,),
            derived_keys=(*(key.column for key in self.keys), *self.derived_keys),
            derived_parameters=(
                *(source.parameter for source in self.parameters),
                *self.derived_parameters,
            ),
        )

    def within(self, lists: int = 1) -> Flow:
        """Return the flow of the elements of these lists; of lists of these, if -1."""
        return replace(
            self,
            keys=tuple(replace(key, depth=key.depth - lists) for key in self.keys),
            parameters=tuple(
                replace(source, depth=source.depth + lists) for source in self.parameters
            ),
        )


def merge_flows(flows: Iterable[Flow]) -> Flow:
    """Return the flow of a value that comes from one of several expressions."""
    return sum(flows, Flow())


class Flows:
    """The flows of expressions, given which columns hold keys.

    Args:
        key_column: tells what keys a column of a table holds.
    """

    def __init__(self, key_column: Callable[[Column[Any]], KeyColumn | None]) -> None:
        self._key_column = key_column

    def of(self, element: Any) -> Flow:  # noqa: C901, PLR0911, PLR0912  # one case a construct
        """Return what flows through one expression."""
        match element:
            case BindParameter():
                return Flow(parameters=(ParameterSource(element),))
            case ColumnClause():
                return self._of_column(element)
            case _ if choices := choices_of(element):
                return merge_flows(map(self.of, choices))
            case CollectionAggregate():
                return self._of_each(element.element)
            case ScalarSelect() | SelectBase() | ScalarValues():
                return merge_flows(
                    map(merge_flows, ([self.of(e) for e in s] for s in positions(element)))
                )
            case TypeCoerce():
                return self._of_coerced(element)
            case Cast():
                return self._of_cast(element)
            case FunctionElement():
                return self._of_function(element)
            case array():
                return merge_flows(map(self.of, element.clauses)).within(-1)
            case BinaryExpression(operator=operators.getitem) if is_array(element.left):
                return self.of(element.left).within(0 if is_array(element) else 1)
            case BinaryExpression(operator=operators.concat_op) if is_array(element):
                return self.of(element.left) + self.of(element.right)
            case TableValuedColumn():
                return self._of_row_of(element.scalar_alias)
            case _ if sqla.is_opaque(element):
                return merge_flows(map(self.of, sqla.opaque_parts(element))).derived()
            case None | Null() | ColumnElement(type=Boolean()):
                return Flow()  # a condition decides, no more
            case ClauseElement():
                return merge_flows(map(self.of, element.get_children())).derived()
            case _:
                return Flow()

    def _of_each(self, element: Any) -> Flow:
        """Follow `any_()` and `all_()` into an array, or into the rows of a subquery."""
        inner = element.element if isinstance(element, Grouping) else element
        is_query = isinstance(inner, ScalarSelect | SelectBase | ScalarValues)
        return self.of(inner) if is_query else self.of(inner).within()

    def _of_column(self, element: ColumnClause[Any]) -> Flow:
        """Follow a column through subqueries and aliases to where its values come from."""
        return merge_flows(
            self._of_base(base) if isinstance(base, ColumnClause) else self.of(base)
            for base in sqla.polymorphic_column(element).base_columns
        )

    def _of_base(self, column: ColumnClause[Any]) -> Flow:
        key = self.key_source_of(column)
        if key is not None:
            return Flow(keys=(key,))
        if isinstance(column.table, Values):
            place = [c.name for c in column.table.c].index(column.name)
            return merge_flows(map(self.of, sqla.expressions_by_position(column.table)[place]))
        if isinstance(column.table, TableValuedAlias):
            return self._of_row_of(column.table)
        return Flow(data=(column,))

    def key_source_of(self, column: Any) -> KeySource | None:
        """Return the keys that a column of a table holds."""
        if not isinstance(column, Column) or not isinstance(column.table, Table):
            return None
        key = self._key_column(column)
        return None if key is None else KeySource(key, item_type(column.type), int(key.array))

    def _of_row_of(self, function: Any) -> Flow:
        """Follow a set-returning function: `unnest()` returns the elements of its list."""
        inner = function.element
        inner = getattr(inner, "element", inner)
        if getattr(inner, "name", None) != "unnest" or len(inner.clauses) != 1:
            return self.of(inner).derived()
        return self.of(inner)

    def _of_coerced(self, element: TypeCoerce[Any]) -> Flow:
        inner = self.of(element.clause)
        if not isinstance(element.clause, BindParameter):
            return inner
        return replace(
            inner,
            parameters=tuple(replace(each, coerced=element.type) for each in inner.parameters),
        )

    def _of_cast(self, element: Cast[Any]) -> Flow:
        """Follow a cast that leaves keys as they are; any other makes something of them."""
        inner, to = self.of(element.clause), item_type(element.type)
        is_kept = all(is_sent_alike(to, key.type) for key in inner.keys)
        if inner.derived_keys or not is_kept or key_type_of(to) is None:
            return inner.derived()
        as_text = is_text_uuid(to)
        return replace(
            inner,
            keys=tuple(
                replace(key, column=replace(key.column, as_text=as_text), type=to)
                for key in inner.keys
            ),
            parameters=tuple(replace(g, casts=(*g.casts, element.type)) for g in inner.parameters),
        )

    def _of_function(self, element: FunctionElement[Any]) -> Flow:
        name, arguments = function_name(element), arguments_of(element)
        if name == "unnest":
            return merge_flows(map(self.of, arguments)).within()
        if name == "array_agg":
            return merge_flows(map(self.of, arguments)).within(-1)
        if name in ARRAYS:
            return merge_flows(self.elements_of(element)).within(-1)
        return merge_flows(map(self.of, arguments)).derived()

    def elements_of(self, function: FunctionElement[Any]) -> Iterator[Flow]:
        """Yield the flows of the elements that a function of lists works with."""
        depths = ARRAY_ARGUMENTS[function_name(function)]
        for argument, depth in zip(function.clauses, depths, strict=False):
            if depth is not None:
                yield self.of(argument).within(depth)


def positions(element: Any) -> list[list[Any]]:
    """Return what stands at each position of a row: several expressions in a union."""
    match element:
        case Tuple():
            return [[clause] for clause in element.clauses]
        case Grouping() | ScalarSelect() | SelectStatementGrouping():
            return positions(element.element)
        case CompoundSelect():
            return _together([positions(each) for each in element.selects])
        case SelectBase():
            return [[column] for column in element.selected_columns]
        case ScalarValues():
            return sqla.expressions_by_position(element)
        case _:
            return [[element]]


def _together(several: Sequence[list[list[Any]]]) -> list[list[Any]]:
    """Return what stands at each position of a union: all at one where they do not tell which.

    A joined subclass and its alias tell the same columns of theirs in two ways.
    """
    if len({*map(len, several)}) > 1:
        return [[element for each in several for at in each for element in at]]
    return [[element for each in at for element in each] for at in zip(*several, strict=True)]


def is_array(element: Any) -> bool:
    """Tell whether the values of an expression are lists."""
    return isinstance(element.type, ARRAY)


def is_sent_alike(one: TypeEngine[Any], two: TypeEngine[Any]) -> bool:
    """Tell whether a key is the same in the database under either of two SQL types.

    Text may be cut or padded under any but the type of its column.
    """
    if isinstance(one, Uuid) and isinstance(two, Uuid):
        return one.native_uuid == two.native_uuid
    return repr(one) == repr(two) or (isinstance(one, Integer) and isinstance(two, Integer))


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
            self._relate([merge_flows(map(self._flows.of, parts)).derived()])

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
            self._relate([merge_flows(map(flow_of, arguments_of(element))).derived()])

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
            self._take_row(right, [merge_flows(map(self._flows.of, each)) for each in lefts])
        else:
            self._relate([merge_flows(map(self._flows.of, [left, right])).derived()])

    def _relate(self, flows: Iterable[Flow]) -> None:
        """Note that values of these flows are compared, chosen from or stored with each other."""
        flow = merge_flows(flows)
        columns = [*(key.column for key in flow.keys), *flow.derived_keys]
        if not columns:
            self._relate_data(flow)
            return
        key = _common_source(flow)
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
            stored = sqla.literal_parameter(value) if is_inner else value
            if isinstance(stored, ClauseElement):
                self._relate([self._flows.of(column), self._flows.of(stored)])


def _common_source(flow: Flow) -> KeySource | None:
    """Return the keys that all values of a flow are like, `None` if others are among them."""
    first = flow.keys[0] if flow.keys else None
    if first is None or flow.derived_keys or flow.data:
        return None
    return first if all(key.is_like(first) for key in flow.keys) else None


def target_of(flow: Flow) -> InputTarget | None:
    """Return what a value stands for that meets these, `None` for anything."""
    key = _common_source(flow)
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
    for name, value in [*pairs, *sqla.from_select_pairs(statement)]:
        column = columns.get(name) if isinstance(name, str) else _element(name)
        if column is not None:
            yield column, _element(value)


def columns_of(statement: Executable) -> tuple[dict[str, Any], list[Any]]:
    """Return the columns that a write can fill, by the names it may use, and in order."""
    if not isinstance(statement, UpdateBase):
        return {}, []
    table, mapper = sqla.write_target(statement)
    ordered = list(table.c) if isinstance(table, FromClause) else []  # of an alias, too
    attributes = () if mapper is None else mapper.column_attrs
    return {
        **(dict(table.c.items()) if ordered else {}),
        **{attribute.key: attribute.columns[0] for attribute in attributes},
    }, ordered
