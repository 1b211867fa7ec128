"""Data flow of bind parameters: which columns the value of each is compared with or stored in.

From the target of a parameter follows whether a string in it is a ref:

    Recipe.id == :x                     a key of recipes.id
    coalesce(Recipe.id, :x) == ...      the same: one of them is the value
    Recipe.id.concat(:x) == ...         a mixture: a string in it is refused
    insert(Recipe).values(id=:x)        a key of recipes.id
    Line.position == :x                 a raw column: a ref in it is refused
    Recipe.name == :x                   no target: any string

`Flows` computes the `Flow` of one expression: the key columns and parameters whose values it
passes on, unchanged or inside an array, and those that it derives something else from.
`ParameterTargets` reads the elements of a statement, one by one, and relates the flows of the
operands of each comparison, the choices of each CASE and so on. Where all of them are keys of one
entity, the parameters among them are keys too; where some are derived, the parameters are
mixtures.

Example:
    >>> key = KeyColumn("recipes.id", "recipe", "uuid")
    >>> flows = Flows(lambda column: {"id": key}.get(column.name))
    >>> statement = select(Recipe).where(Recipe.id == "recipe_1", Recipe.name == "Soup")
    >>> targets = ParameterTargets(flows, statement)
    >>> for element in sqla.elements_of(statement):
    ...     targets.read(element)
    >>> [target.name for target in targets.targets.values()]
    ['recipes.id']

All is decided by the statement, never by values: it is computed once for each cache key. The
results of a statement are the subject of `mapping.lineage`, which is stricter: it must know of
every value whether it is a key. It has the tables of SQL functions, for both. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from alfred_refs.mapping.lineage import (
    ARRAY_ARGUMENTS,
    ARRAYS,
    arguments_of,
    choices_of,
    function_name,
    is_declared_data,
    is_document,
)

# Targets


@dataclass(frozen=True, slots=True)
class RawColumn:
    """A column of UUIDs or integers that has no refs: it holds no keys, or is left raw.

    Attributes:
        name: `table.column`, for messages.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Mixture:
    """An expression that derives something from keys and from the value: strings are refused.

    Attributes:
        column: the column of the keys.
    """

    column: KeyColumn


InputTarget = KeyColumn | RawColumn | Mixture | tuple["InputTarget | None", ...]
"""What a value is compared with or stored in; of a list of rows, the target of each position.

`None` is the target of a value that may be any string.
"""


def has_text(value: Any) -> bool:
    """Return whether a value is a string, or a collection with a string in it."""
    if isinstance(value, Mapping):
        return any(map(has_text, value.values()))
    return isinstance(value, str) or (is_collection(value) and any(map(has_text, value)))


def is_collection(value: Any) -> bool:
    """Return whether a value is a collection of values, and no mapping.

    Raises:
        UntranslatableError: it is an iterator, which would be exhausted by looking for refs.
    """
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | ClauseElement):
        return False
    if isinstance(value, Iterable) and not isinstance(value, Collection):
        raise UntranslatableError(
            f"values are given as a {type(value).__name__}, which can be read only once",
            "give a list",
        )
    return isinstance(value, Collection)


def mixture_error(column: KeyColumn) -> UntranslatableError:
    """Return the error for a string that is used with a key column other than in a comparison."""
    return UntranslatableError(
        f"a string is combined with key column {column.name} other than by comparison",
        "compare the column itself with refs, by ==, != or in_(), or use session.raw_keys() or "
        "execution_options(raw_keys=True) in trusted code",
    )


# Flows


@dataclass(frozen=True, slots=True)
class KeySource:
    """A key column whose keys an expression passes on.

    Attributes:
        column: the column.
        type: the SQL type of one key.
        depth: 0 for a key, 1 for an array of keys.
    """

    column: KeyColumn
    type: TypeEngine[Any]
    depth: int = 0

    def is_like(self, other: KeySource) -> bool:
        """Return whether two expressions pass on keys of the same entity and form."""
        one, two = (replace(key.column, name="", array=False) for key in (self, other))
        return one == two and self.depth == other.depth


@dataclass(frozen=True, slots=True)
class ParameterSource:
    """A bind parameter whose value an expression passes on.

    Attributes:
        parameter: the parameter; its value may come with the execution.
        depth: how many arrays deeper its value is than the expression's.
        casts: the SQL types that it is cast to on the way.
        coerced: the type of a `type_coerce()` around it, which it is sent as; `None` for its own.
    """

    parameter: BindParameter[Any]
    depth: int = 0
    casts: tuple[TypeEngine[Any], ...] = ()
    coerced: TypeEngine[Any] | None = None

    def fits(self, key: KeySource) -> bool:
        """Return whether a key in its place has the type and depth of those it is related to."""
        return (
            key.depth + self.depth in (0, 1)
            and all(is_sent_alike(item_type(cast), key.type) for cast in self.casts)
            and (self.coerced is None or repr(item_type(self.coerced)) == repr(key.type))
        )


@dataclass(frozen=True, slots=True)
class Flow:
    """Where the value of an expression comes from.

    Attributes:
        keys: key columns that it may come from, unchanged.
        parameters: parameters that it may come from, unchanged.
        data: plain columns that it may come from; `None` for a computed value.
        derived_keys: key columns that it is computed from.
        derived_parameters: parameters that it is computed from.
    """

    keys: tuple[KeySource, ...] = ()
    parameters: tuple[ParameterSource, ...] = ()
    data: tuple[ColumnClause[Any] | None, ...] = ()
    derived_keys: tuple[KeyColumn, ...] = ()
    derived_parameters: tuple[BindParameter[Any], ...] = ()

    def derived(self) -> Flow:
        """Return the flow of a value that is computed from this one."""
        return Flow(
            data=(None,),
            derived_keys=(*(key.column for key in self.keys), *self.derived_keys),
            derived_parameters=(
                *(source.parameter for source in self.parameters),
                *self.derived_parameters,
            ),
        )

    def unnested(self, levels: int = 1) -> Flow:
        """Return the flow of an array's items; with `levels=-1`, of an array of the values."""
        return replace(
            self,
            keys=tuple(replace(key, depth=key.depth - levels) for key in self.keys),
            parameters=tuple(
                replace(source, depth=source.depth + levels) for source in self.parameters
            ),
        )


def merge_flows(flows: Iterable[Flow]) -> Flow:
    """Return the flow of a value that comes from any of several expressions.

    Each source is in it once, however many ways lead to it: their number may double with each
    level of subqueries. A parameter keeps the casts of all ways, since its value must fit each.
    """
    keys: dict[Any, KeySource] = {}
    parameters: dict[Any, ParameterSource] = {}
    data: dict[int, ColumnClause[Any] | None] = {}
    derived_keys: dict[KeyColumn, None] = {}
    derived_parameters: dict[int, BindParameter[Any]] = {}
    for flow in flows:
        keys |= {(key.column, id(key.type), key.depth): key for key in flow.keys}
        for source in flow.parameters:
            way = (id(source.parameter), source.depth, id(source.coerced))
            casts = (*parameters[way].casts, *source.casts) if way in parameters else source.casts
            distinct = {id(cast): cast for cast in casts}
            parameters[way] = replace(source, casts=tuple(distinct.values()))
        data |= {id(column): column for column in flow.data}
        derived_keys |= dict.fromkeys(flow.derived_keys)
        derived_parameters |= {id(parameter): parameter for parameter in flow.derived_parameters}
    return Flow(
        tuple(keys.values()),
        tuple(parameters.values()),
        tuple(data.values()),
        tuple(derived_keys),
        tuple(derived_parameters.values()),
    )


class Flows:
    """The flows of the expressions of one statement.

    Args:
        key_column: returns the keys that a column of a table holds, or `None`.
    """

    def __init__(self, key_column: Callable[[Column[Any]], KeyColumn | None]) -> None:
        self._key_column = key_column
        self._known: dict[int, tuple[Any, Flow]] = {}  # by id; elements are kept alive

    def of(self, element: Any) -> Flow:  # noqa: C901, PLR0912  # one case a construct
        """Return the flow of one expression; it is derived once, not once for each use."""
        if id(element) in self._known:
            return self._known[id(element)][1]
        flow: Flow
        match element:
            case BindParameter():
                flow = Flow(parameters=(ParameterSource(element),))
            case _ if is_declared_data(element):
                flow = Flow(data=(None,))
            case ColumnClause():
                flow = self._of_column(element)
            case _ if choices := choices_of(element):
                flow = merge_flows(map(self.of, choices))
            case CollectionAggregate():
                flow = self._of_any_or_all(element.element)
            case ScalarSelect() | SelectBase() | ScalarValues():
                flow = merge_flows(
                    map(merge_flows, ([self.of(e) for e in s] for s in positions(element)))
                )
            case TypeCoerce():
                flow = self._of_type_coerce(element)
            case Cast():
                flow = self._of_cast(element)
            case FunctionElement():
                flow = self._of_function(element)
            case array():
                flow = merge_flows(map(self.of, element.clauses)).unnested(-1)
            case BinaryExpression(operator=operators.getitem) if has_array_type(element.left):
                flow = self.of(element.left).unnested(0 if has_array_type(element) else 1)
            case BinaryExpression(operator=operators.concat_op) if has_array_type(element):
                flow = merge_flows(map(self.of, (element.left, element.right)))
            case TableValuedColumn():
                flow = self._of_set_returning(element.scalar_alias)
            case _ if sqla.is_opaque(element):
                flow = merge_flows(map(self.of, sqla.opaque_parts(element))).derived()
            case None | Null() | ColumnElement(type=Boolean()):
                flow = Flow()  # a condition; `read` relates its operands
            case ClauseElement():
                flow = merge_flows(map(self.of, element.get_children())).derived()
            case _:
                flow = Flow()
        self._known[id(element)] = (element, flow)
        return flow

    def _of_any_or_all(self, operand: Any) -> Flow:
        """Return the flow of the items of an array, or of the rows of a subquery."""
        inner = operand.element if isinstance(operand, Grouping) else operand
        is_query = isinstance(inner, ScalarSelect | SelectBase | ScalarValues)
        return self.of(inner) if is_query else self.of(inner).unnested()

    def _of_column(self, element: ColumnClause[Any]) -> Flow:
        """Follow a column through subqueries and aliases to its base columns."""
        return merge_flows(
            self._of_base_column(base) if isinstance(base, ColumnClause) else self.of(base)
            for base in sqla.polymorphic_column(element).base_columns
        )

    def _of_base_column(self, column: ColumnClause[Any]) -> Flow:
        if isinstance(column, Column) and isinstance(column.table, Table):
            key = self._key_column(column)
            if key is not None:
                return Flow(keys=(KeySource(key, item_type(column.type), int(key.array)),))
        if isinstance(column.table, Values):
            position = [c.name for c in column.table.c].index(column.name)
            expressions = sqla.expressions_by_position(column.table)[position]
            return merge_flows(map(self.of, expressions))
        if isinstance(column.table, TableValuedAlias):
            return self._of_set_returning(column.table)
        return Flow(data=(column,))

    def _of_set_returning(self, alias: Any) -> Flow:
        """Return the flow of the rows of a function: `unnest()` returns the items of its array."""
        function = alias.element
        function = getattr(function, "element", function)
        if getattr(function, "name", None) != "unnest" or len(function.clauses) != 1:
            return self.of(function).derived()
        return self.of(function)

    def _of_type_coerce(self, element: TypeCoerce[Any]) -> Flow:
        inner = self.of(element.clause)
        if not isinstance(element.clause, BindParameter):
            return inner
        return replace(
            inner,
            parameters=tuple(replace(each, coerced=element.type) for each in inner.parameters),
        )

    def _of_cast(self, element: Cast[Any]) -> Flow:
        """Return the flow of a cast: keys stay keys under a type that represents them alike."""
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
            parameters=tuple(replace(p, casts=(*p.casts, element.type)) for p in inner.parameters),
        )

    def _of_function(self, element: FunctionElement[Any]) -> Flow:
        name, arguments = function_name(element), arguments_of(element)
        if name == "unnest":
            return merge_flows(map(self.of, arguments)).unnested()
        if name == "array_agg":
            return merge_flows(map(self.of, arguments)).unnested(-1)
        if name in ARRAYS:
            return merge_flows(self.of_items(element)).unnested(-1)
        return merge_flows(map(self.of, arguments)).derived()

    def of_items(self, function: FunctionElement[Any]) -> Iterator[Flow]:
        """Yield the flows of the items that an array function takes, for each argument."""
        depths = ARRAY_ARGUMENTS[function_name(function)]
        for argument, depth in zip(function.clauses, depths, strict=False):
            if depth is not None:
                yield self.of(argument).unnested(depth)


def positions(element: Any) -> list[list[Any]]:
    """Return the expressions at each position of a row: several in a union."""
    match element:
        case Tuple():
            return [[clause] for clause in element.clauses]
        case Grouping() | ScalarSelect() | SelectStatementGrouping():
            return positions(element.element)
        case CompoundSelect():
            return _positions_of_union([positions(each) for each in element.selects])
        case SelectBase():
            return [[column] for column in element.selected_columns]
        case ScalarValues():
            return sqla.expressions_by_position(element)
        case _:
            return [[element]]


def _positions_of_union(selects: Sequence[list[list[Any]]]) -> list[list[Any]]:
    """Return the expressions at each position of a union; all in one if the numbers differ.

    They may for entities that are selected as a whole, such as a joined subclass and its alias.
    """
    if len({*map(len, selects)}) > 1:
        return [[element for select in selects for at in select for element in at]]
    return [[element for each in at for element in each] for at in zip(*selects, strict=True)]


def has_array_type(element: Any) -> bool:
    """Return whether the values of an expression are arrays."""
    return isinstance(element.type, ARRAY)


def is_sent_alike(one: TypeEngine[Any], two: TypeEngine[Any]) -> bool:
    """Return whether the database compares a key as the same under either of two SQL types.

    Strings may be truncated or padded under any type but their column's.
    """
    if isinstance(one, Uuid) and isinstance(two, Uuid):
        return one.native_uuid == two.native_uuid
    return repr(one) == repr(two) or (isinstance(one, Integer) and isinstance(two, Integer))


# Targets of the parameters of a statement

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

# PostgreSQL's operators of arrays, and of SQLAlchemy's own ARRAY comparator
_ARRAY_OPERATORS = {"@>", "<@", "&&"}

# functions that make a string of their arguments, or a list of GROUP BY, and compare none of them
_COMPOSING = {
    *("concat", "concat_ws", "format", "string_agg", "array_to_string", "to_char"),
    *("cube", "grouping_sets", "rollup"),
}


class ParameterTargets:
    """The targets of the parameters of one statement, by the `key` of each.

    Several parameters may have one key: SQLAlchemy sends one value for all of them.
    """

    def __init__(self, flows: Flows, statement: Executable) -> None:
        self._flows = flows
        self._statement = statement
        self._targets: dict[str, dict[InputTarget, None]] = {}
        self._mixtures: dict[str, Mixture] = {}
        self._types: dict[str, TypeEngine[Any]] = {}
        self._related_to_data: set[str] = set()
        self._parameters: dict[int, BindParameter[Any]] = {}  # by id: those with a target

    @property
    def targets(self) -> dict[str, InputTarget]:
        """The target of each parameter that is compared with columns or stored in them."""
        return {name: next(iter(each)) for name, each in self._targets.items()} | self._mixtures

    @property
    def types(self) -> dict[str, TypeEngine[Any]]:
        """The SQL types of parameters that must be sent as another type than their own."""
        return {name: t for name, t in self._types.items() if name not in self._mixtures}

    def read(self, element: Any) -> None:
        """Read one element of the statement, without its children."""
        match element:
            case BinaryExpression():
                self._read_operation(element)
            case Case():
                self._read_case(element)
            case FunctionElement():
                self._read_function(element)
            case CompoundSelect():
                for expressions in positions(element):
                    self._relate(map(self._flows.of, expressions))
            case array():
                self._relate(map(self._flows.of, element.clauses))
            case UpdateBase():
                self._read_write(element)
        if sqla.is_opaque(element):
            # traversal does not reach its parts, so no string in them can be replaced
            self._relate([self._flows.of(element)])

    def refuse_in(self, part: ClauseElement) -> None:
        """Read a part of the statement that is out of reach: its parameters become mixtures."""
        elements = list(sqla.elements_of(part))
        for element in elements:
            self.read(element)
        for parameter in (e for e in elements if isinstance(e, BindParameter)):
            self.refuse(parameter)

    def refuse(self, parameter: BindParameter[Any]) -> None:
        """Make a parameter with a target a mixture: its value cannot be replaced."""
        targets = self._targets.get(parameter.key, ())
        for column in itertools.chain.from_iterable(map(_columns_in, targets)):
            self._add_mixture(parameter, column)

    def check(self, parameters: Sequence[BindParameter[Any]]) -> None:
        """Make the checks that do not need the values of an execution.

        Args:
            parameters: of the cache key, whose values can be replaced.

        Raises:
            UntranslatableError: a name is used for keys of one entity and for anything else, or a
                string is not among the parameters of the cache key.
        """
        replaceable = {parameter.key for parameter in parameters}
        anonymous = {parameter.key for parameter in parameters if parameter.unique}
        for parameter in self._parameters.values():
            is_replaceable = parameter.key in replaceable
            if not is_replaceable and has_text(sqla.parameter_value(parameter)):
                raise mixture_error(next(_columns_in(self.targets[parameter.key])))
        for name, targets in self._targets.items():
            meanings = {_without_names(target) for target in targets}
            meanings |= {""} if name in self._related_to_data else set()
            if len(meanings) > 1 and name not in self._mixtures:
                which = "a parameter" if name in anonymous else f"parameter {name!r}"
                raise UntranslatableError(
                    f"{which} is used for a key and for something else",
                    "give each its own parameter",
                )

    # Elements

    def _read_operation(self, element: BinaryExpression[Any]) -> None:
        operator, operands = element.operator, (element.left, element.right)
        if operator in _COMPARISONS:
            self._compare(*operands)
        elif operator is operators.getitem:
            return
        elif has_array_type(element.left) and (
            operator in (operators.contains_op, operators.concat_op)
            or getattr(operator, "opstring", None) in _ARRAY_OPERATORS
        ):
            self._relate(map(self._flows.of, operands))
        else:
            self._relate([merge_flows(map(self._flows.of, operands)).derived()])

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
            return  # its arguments are side by side, and not compared
        elif name in ARRAY_ARGUMENTS:
            self._relate(self._flows.of_items(element))
        elif choices := choices_of(element):
            self._relate(map(flow_of, choices))
        else:
            self._relate([merge_flows(map(flow_of, arguments_of(element))).derived()])

    def _read_write(self, statement: UpdateBase) -> None:
        for column, value in assignments_of(statement):
            # The records of the executed statement are replaced by name. In a CTE they are out of
            # reach: `check` finds them as parameters that are not in the cache key.
            is_in_cte = not isinstance(value, ClauseElement) and statement is not self._statement
            expression = sqla.literal_parameter(value) if is_in_cte else value
            if isinstance(expression, ClauseElement):
                self._relate([self._flows.of(column), self._flows.of(expression)])

    # Relations

    def _compare(self, left: Any, right: Any) -> None:
        """Relate the operands of a comparison, position by position."""
        inner = right.element if isinstance(right, Grouping) else right
        if isinstance(inner, ClauseList | ExpressionClauseList) and not isinstance(
            inner, array | Tuple
        ):
            for each in inner.clauses:  # the expressions of an IN, the two ends of a BETWEEN
                self._compare(left, each)
            return
        lefts, rights = positions(left), positions(right)
        if len(lefts) == len(rights):
            for pair in zip(lefts, rights, strict=True):
                expressions = list(itertools.chain.from_iterable(pair))
                if not any(isinstance(each, Null) for each in expressions):
                    self._relate(map(self._flows.of, expressions))
        elif isinstance(right, BindParameter):
            self._add_row_target(right, [merge_flows(map(self._flows.of, each)) for each in lefts])
        else:
            self._relate([merge_flows(map(self._flows.of, [left, right])).derived()])

    def _relate(self, flows: Iterable[Flow]) -> None:
        """Give the parameters in flows a target: their values are compared or interchangeable."""
        flow = merge_flows(flows)
        columns = [*(key.column for key in flow.keys), *flow.derived_keys]
        if not columns:
            self._relate_to_data(flow)
            return
        key = _common_key(flow)
        for source in flow.parameters:
            if key is not None and source.fits(key):
                self._add_key_target(source, key)
            else:
                self._add_mixture(source.parameter, columns[0])
        for parameter in flow.derived_parameters:
            self._add_mixture(parameter, columns[0])

    def _relate_to_data(self, flow: Flow) -> None:
        """Record parameters that are related to plain data: they must not be keys elsewhere."""
        if not flow.data:
            return
        self._related_to_data.update(source.parameter.key for source in flow.parameters)
        self._related_to_data.update(parameter.key for parameter in flow.derived_parameters)
        raw = raw_column(flow.data)
        if raw is not None:
            for source in flow.parameters:
                self._targets.setdefault(source.parameter.key, {})[raw] = None

    def _add_key_target(self, source: ParameterSource, key: KeySource) -> None:
        parameter, depth = source.parameter, key.depth + source.depth
        self._parameters[id(parameter)] = parameter
        column = replace(key.column, array=depth > 0)
        self._targets.setdefault(parameter.key, {})[column] = None
        self._set_type(parameter, ARRAY(key.type) if depth > 0 else key.type)

    def _add_row_target(self, parameter: BindParameter[Any], flows: Sequence[Flow]) -> None:
        """Give the parameter of `tuple_(...).in_(rows)` a target for each position."""
        targets = tuple(map(target_of, flows))
        columns = [key.column for flow in flows for key in flow.keys]
        derived_keys = [column for flow in flows for column in flow.derived_keys]
        if derived_keys or any(
            flow.parameters or flow.derived_parameters for flow in flows if flow.keys
        ):
            self._add_mixture(parameter, [*derived_keys, *columns][0])
        elif any(targets):
            self._parameters[id(parameter)] = parameter
            self._targets.setdefault(parameter.key, {})[targets] = None
            types = getattr(parameter.type, "types", [parameter.type] * len(targets))
            self._set_type(
                parameter,
                TupleType(
                    *(
                        flow.keys[0].type if isinstance(target, KeyColumn) else type_
                        for target, flow, type_ in zip(targets, flows, types, strict=True)
                    )
                ),
            )

    def _set_type(self, parameter: BindParameter[Any], type_: TypeEngine[Any]) -> None:
        """Record the type of the keys, if the parameter has another, such as that of a string."""
        if repr(parameter.type) != repr(type_):
            self._types[parameter.key] = type_

    def _add_mixture(self, parameter: BindParameter[Any], column: KeyColumn) -> None:
        self._parameters[id(parameter)] = parameter
        self._mixtures.setdefault(parameter.key, Mixture(column))


def target_of(flow: Flow) -> InputTarget | None:
    """Return the target of a value that is related to a flow."""
    key = _common_key(flow)
    if key is not None:
        return replace(key.column, array=key.depth > 0)
    return None if flow.keys or flow.derived_keys else raw_column(flow.data)


def _common_key(flow: Flow) -> KeySource | None:
    """Return the key source that all values of a flow are like, or `None` if there are others."""
    first = flow.keys[0] if flow.keys else None
    if first is None or flow.derived_keys or flow.data:
        return None
    return first if all(key.is_like(first) for key in flow.keys) else None


def raw_column(data: Iterable[ColumnClause[Any] | None]) -> RawColumn | None:
    """Return a column of plain data whose values are never strings, if there is one."""
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


def _without_names(target: InputTarget) -> Any:
    """Return a target without the names of columns: equal for keys of one entity."""
    if isinstance(target, KeyColumn):
        return replace(target, name="")
    return tuple(t and _without_names(t) for t in target) if isinstance(target, tuple) else ""


# Assignments of INSERT and UPDATE


def assignments_of(statement: UpdateBase) -> Iterator[tuple[Any, Any]]:
    """Yield each column that a statement sets, with an expression or a value."""
    columns, ordered = writable_columns(statement)
    pairs = [*sqla.values_of(statement), *sqla.conflict_values_of(statement)]
    for record in itertools.chain.from_iterable(sqla.many_values_of(statement)):
        by_name = isinstance(record, Mapping)
        pairs += record.items() if by_name else zip(ordered, record, strict=False)
    for name, value in [*pairs, *sqla.from_select_pairs(statement)]:
        column = columns.get(name) if isinstance(name, str) else _expression(name)
        if column is not None:
            yield column, _expression(value)


def _expression(value: Any) -> Any:
    return value.__clause_element__() if hasattr(value, "__clause_element__") else value


def writable_columns(statement: Executable) -> tuple[dict[str, Any], list[Any]]:
    """Return the columns that a write can set: by column and attribute name, and in order."""
    if not isinstance(statement, UpdateBase):
        return {}, []
    table, mapper = sqla.write_target(statement)
    ordered = list(table.c) if isinstance(table, FromClause) else []  # an alias has them too
    attributes = () if mapper is None else mapper.column_attrs
    return {
        **(dict(table.c.items()) if ordered else {}),
        **{attribute.key: attribute.columns[0] for attribute in attributes},
    }, ordered
