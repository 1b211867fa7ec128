"""Data flow: the columns and bind parameters that an expression hands on, and whether unchanged.

    coalesce(recipes.id, :x)     recipes.id and :x, unchanged
    lower(:x)                    :x, but what comes out is derived from it
    array([:x])                  :x, one list deeper

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Boolean,
    Cast,
    Column,
    ColumnClause,
    ColumnElement,
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
from sqlalchemy.sql.elements import (
    BinaryExpression,
    ClauseElement,
    CollectionAggregate,
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
from sqlalchemy.types import TypeEngine

from alfred_refs import sqla
from alfred_refs.mapping.expressions import arguments_of, choices_of, function_name
from alfred_refs.mapping.functions import ARRAY_ARGUMENTS, ARRAYS
from alfred_refs.mapping.key_column import KeyColumn, is_text_uuid, item_type, key_type_of


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


def merged(flows: Iterable[Flow]) -> Flow:
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
                return merged(map(self.of, choices))
            case CollectionAggregate():
                return self._of_each(element.element)
            case ScalarSelect() | SelectBase() | ScalarValues():
                return merged(map(merged, ([self.of(e) for e in s] for s in positions(element))))
            case TypeCoerce():
                return self._of_coerced(element)
            case Cast():
                return self._of_cast(element)
            case FunctionElement():
                return self._of_function(element)
            case array():
                return merged(map(self.of, element.clauses)).within(-1)
            case BinaryExpression(operator=operators.getitem) if is_array(element.left):
                return self.of(element.left).within(0 if is_array(element) else 1)
            case BinaryExpression(operator=operators.concat_op) if is_array(element):
                return self.of(element.left) + self.of(element.right)
            case TableValuedColumn():
                return self._of_row_of(element.scalar_alias)
            case _ if sqla.is_opaque(element):
                return merged(map(self.of, sqla.hidden_in(element))).derived()
            case None | Null() | ColumnElement(type=Boolean()):
                return Flow()  # a condition decides, no more
            case ClauseElement():
                return merged(map(self.of, element.get_children())).derived()
            case _:
                return Flow()

    def _of_each(self, element: Any) -> Flow:
        """Follow `any_()` and `all_()` into an array, or into the rows of a subquery."""
        inner = element.element if isinstance(element, Grouping) else element
        is_query = isinstance(inner, ScalarSelect | SelectBase | ScalarValues)
        return self.of(inner) if is_query else self.of(inner).within()

    def _of_column(self, element: ColumnClause[Any]) -> Flow:
        """Follow a column through subqueries and aliases to where its values come from."""
        return merged(
            self._of_base(base) if isinstance(base, ColumnClause) else self.of(base)
            for base in sqla.selected_from_union(element).base_columns
        )

    def _of_base(self, column: ColumnClause[Any]) -> Flow:
        key = self.key_source_of(column)
        if key is not None:
            return Flow(keys=(key,))
        if isinstance(column.table, Values):
            place = [c.name for c in column.table.c].index(column.name)
            return merged(map(self.of, sqla.places_of(column.table)[place]))
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
            return merged(map(self.of, arguments)).within()
        if name == "array_agg":
            return merged(map(self.of, arguments)).within(-1)
        if name in ARRAYS:
            return merged(self.elements_of(element)).within(-1)
        return merged(map(self.of, arguments)).derived()

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
            return sqla.places_of(element)
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
