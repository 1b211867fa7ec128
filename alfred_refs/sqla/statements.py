"""Statements: their cache keys, clauses and bind parameters, and copies with other values.

Reading: `cache_key_of` returns what SQLAlchemy's compiled cache uses, and the bind parameters that
it leaves out; `elements_of` traverses more than SQLAlchemy's own `iterate()`. Further functions
read the columns of a SELECT, the values of an INSERT, UPDATE or DELETE, and options.

Copying: a statement is immutable, so each function whose name begins with `with_` returns a copy.
A copy by `with_values` keeps the keys of the bind parameters, so it has the cache key of the
original and executes by the same compiled form. `with_values_in_where` does the same at a fraction
of the cost, for statements that have all their values in the WHERE (`all_in_where`).

`WeakCacheKey` is a cache key that can be kept without keeping the application's classes alive.

Example:
    >>> soup, toast = (select(Recipe.servings).where(Recipe.name == name) for name in "ab")
    >>> key, [parameter] = cache_key_of(soup)
    >>> key == cache_key_of(toast)[0]
    True
    >>> copy = with_values(soup, {parameter.key: "Soup"})
    >>> cache_key_of(copy)[0] == key, session.scalar(copy)
    (True, 2)

`with_values` does not reach `unreachable_parts` and `unreachable_parameters` of a statement.
Nothing here executes or compiles.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast
from weakref import proxy

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Column,
    ColumnElement,
    Delete,
    Executable,
    Insert,
    Join,
    Select,
    Update,
    Values,
    tuple_,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import base
from sqlalchemy.orm import Bundle, ColumnProperty, InstanceState, Mapper
from sqlalchemy.orm.util import AliasedInsp, LoaderCriteriaOption
from sqlalchemy.sql import elements, visitors
from sqlalchemy.sql.annotation import Annotated
from sqlalchemy.sql.base import CompileState
from sqlalchemy.sql.cache_key import HasCacheKey
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList, ClauseElement, Grouping
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import AliasedReturnsRows, FromClause, ScalarValues, TableClause
from sqlalchemy.types import NullType, TypeEngine
from sqlalchemy.util import immutabledict

from alfred_refs.errors import UntranslatableError

# Cache keys


def cache_key_of(statement: Executable) -> tuple[Hashable | None, Sequence[BindParameter[Any]]]:
    """Return the cache key of a statement, and the bind parameters whose values it leaves out.

    Statements of one cache key have their parameters in the same order. The key is `None` for a
    statement that SQLAlchemy does not cache; then the parameters are all those that `with_values`,
    `with_many_values` and `with_conflict_values` can replace.
    """
    if not isinstance(statement, ClauseElement):  # a Sequence, DDL
        return None, []
    # Private: `_generate_cache_key`. The statement memoizes it and execution uses it again, so it
    # costs nothing here. Pinned by `test_statements_that_differ_in_values_have_one_shape`.
    cache_key = cast(Any, statement)._generate_cache_key()
    if cache_key is None:
        own = (statement, getattr(statement, "_post_values_clause", None))
        skipped = itertools.chain.from_iterable(map(_skipped_children, own))
        traversed = itertools.chain(
            visitors.iterate(statement), *(elements_of(expression) for expression in skipped)
        )
        return None, [e for e in traversed if isinstance(e, BindParameter)]
    return cache_key.key, cache_key.bindparams


# values that a cache key may contain
_VALUES = (str, bytes, int, float, Enum, BuiltinFunctionType, type(None))


class WeakCacheKey(tuple[Any, ...]):  # noqa: SLOT001  # a tuple has no room for the hash
    """A copy of a cache key with weak proxies of the application's objects.

    A cache key refers to mappers, tables and types, and SQLAlchemy's compiled cache keeps those
    alive until it is cleared. This copy is equal to the cache key, and to no other, as long as
    they exist. Looking it up calls no Python code of ours: a proxy compares as its object, in C.
    A proxy has no hash, so the hash of the cache key is kept.

    Raises:
        ReferenceError: on comparison with another key of the same hash, if an object has been
            deleted: a new object has its address.
    """

    _hash: int

    def __new__(cls, cache_key: Hashable) -> WeakCacheKey:
        """Make a copy of a cache key, which is a tuple."""
        weak = super().__new__(cls, map(_weak, cast("tuple[Hashable, ...]", cache_key)))
        weak._hash = hash(cache_key)
        return weak

    def __hash__(self) -> int:
        return self._hash


def _weak(part: Hashable) -> Hashable:
    """Return a part of a cache key without strong references to the application's objects."""
    # A cache key consists of tuples, values, and objects that are compared by identity. Pinned by
    # `test_a_weak_shape_is_equal_to_the_shape_until_its_classes_are_gone`.
    if isinstance(part, tuple):
        return tuple(map(_weak, part))
    is_library = isinstance(part, type | FunctionType) and part.__module__.startswith(
        "sqlalchemy."
    )
    if isinstance(part, _VALUES) or is_library:
        return part
    if isinstance(part, Annotated):
        return _weak(cast(Hashable, part._deannotate()))
    if type(part).__eq__ is not object.__eq__:  # a type of the application that compares values
        return part
    with suppress(TypeError):  # cannot be referenced weakly
        part = cast(Hashable, proxy(part))
    return part


# Traversal


def elements_of(statement: Executable | ClauseElement) -> Iterator[Any]:
    """Yield every element of a statement once, including subqueries and CTEs.

    A CTE that two others refer to is walked once: with SQLAlchemy's `iterate()` each level of
    such CTEs doubles the elements. `iterate()` also skips lists of records; in 2.0 the ON CONFLICT
    of an upsert; and in writes, a CTE or subquery that only a column refers to.
    """
    if not isinstance(statement, ClauseElement):
        return
    waiting: deque[Any] = deque([statement])
    seen = {id(statement): statement}  # the values keep elements alive: no id is used again
    while waiting:
        element = waiting.popleft()
        yield element
        table = getattr(element, "table", None)
        is_derived = isinstance(table, FromClause) and not isinstance(table, TableClause)
        children = itertools.chain(
            element.get_children(), _skipped_children(element), [table] if is_derived else ()
        )
        for child in children:
            if id(child) not in seen:
                seen[id(child)] = child
                waiting.append(child)


def _skipped_children(element: Any) -> Iterator[ClauseElement]:
    """Yield the expressions in an element that its `get_children()` leaves out."""
    # Pinned by `test_what_a_traversal_passes_over_is_found`.
    if isinstance(element, Values | ScalarValues):
        items = itertools.chain.from_iterable(_records_of(element))
    elif isinstance(element, Insert):
        records = itertools.chain.from_iterable(many_values_of(element))
        items = itertools.chain.from_iterable(
            record.values() if isinstance(record, Mapping) else record for record in records
        )
    elif type(element).__name__ == "OnConflictDoUpdate" and not list(element.get_children()):
        sets = (value for _, value in element.update_values_to_set)
        criteria = (element.update_whereclause, element.inferred_target_whereclause)
        items = itertools.chain(sets, criteria)
    else:
        return
    yield from (item for item in items if isinstance(item, ClauseElement))


def is_opaque(element: Any) -> bool:
    """Return whether an element is of a custom class without `get_children()`."""
    if not isinstance(element, ClauseElement) or type(element).__module__.startswith(
        "sqlalchemy."
    ):
        return False
    return not list(element.get_children())


def opaque_parts(element: Any) -> list[ClauseElement]:
    """Return the expressions in the attributes of an opaque element; strings as parameters."""
    parts: list[ClauseElement] = []
    for name, value in vars(element).items() if is_opaque(element) else ():
        if not name.startswith("_"):
            for each in value if isinstance(value, list | tuple) else [value]:
                part = each.__clause_element__() if hasattr(each, "__clause_element__") else each
                if isinstance(part, ClauseElement) and part is not element:
                    parts.append(part)
                elif isinstance(part, str):
                    parts.append(literal_parameter(part))
    return parts


def has_lambdas(statement: Executable) -> bool:
    """Return whether a statement, or any part of it, is a `lambda_stmt()` or lambda element."""
    return any(isinstance(element, LambdaElement) for element in elements_of(statement))


# The columns of a SELECT or RETURNING


def result_expressions(statement: Executable) -> Iterator[Sequence[Any]]:
    """Yield the expression at each position of the rows, in a list that is empty for an entity.

    Args:
        statement: a SELECT, or an INSERT, UPDATE or DELETE. Their public descriptions raise for
            a RETURNING of an entity, and for a SELECT of text alone.
    """
    # Private: `_raw_columns` and `_returning`.
    # Pinned by `test_returning_tells_entities_from_columns`.
    columns = getattr(statement, "_raw_columns", None)
    for element in cast(Any, statement)._returning if columns is None else columns:
        if isinstance(element, ColumnElement) or not isinstance(element, FromClause):
            yield [element]
        elif "parententity" in element._annotations:
            yield []
        else:
            yield from ([column] for column in element.c)


def polymorphic_column(element: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the column that a statement selects for a column of a mapped class.

    That is the column itself, but for the base class of concrete inheritance: its rows come from a
    `polymorphic_union()`, and the ORM replaces the column by one of the union.
    """
    # Private: the annotation "parententity".
    # Pinned by `test_an_attribute_of_a_concrete_base_stands_for_a_column_of_the_union`.
    mapper = element._annotations.get("parententity")
    if not isinstance(mapper, Mapper):
        return element
    mapper.registry.configure(cascade=True)  # which makes the union
    selectable = mapper.selectable
    if not isinstance(selectable, AliasedReturnsRows):
        return element
    column = selectable.corresponding_column(cast("Column[Any]", element._deannotate()))
    return element if column is None else column


def info_of(element: Any) -> Mapping[Any, Any]:
    """Return the `info` of the mapped attribute that an expression was made of, or nothing."""
    # Private: the annotations "parentmapper" and "proxy_key".
    # Pinned by `test_an_expression_leads_to_the_info_of_its_attribute`.
    annotations = getattr(element, "_annotations", {})
    mapper, name = annotations.get("parentmapper"), annotations.get("proxy_key")
    attribute = None if mapper is None or name is None else mapper.column_attrs.get(name)
    return {} if attribute is None else cast("Mapping[Any, Any]", attribute.info)


def bundle_of(element: Any) -> Bundle[Any] | None:
    """Return the bundle that an element of a SELECT was made of, or `None`."""
    # Private: the annotation "bundle".
    # Pinned by `test_a_bundle_is_known_behind_the_element_that_stands_for_it`.
    if isinstance(element, Bundle):
        return element
    return cast("Bundle[Any] | None", getattr(element, "_annotations", {}).get("bundle"))


def ordered_aggregate(element: Any) -> Any:
    """Return the aggregate function inside SQLAlchemy 2.1's `aggregate_order_by()`, or `None`.

    Not for its subclass `within_group()`, whose value comes from the ORDER BY.
    """
    class_ = getattr(elements, "AggregateOrderBy", None)
    return element.element if type(element) is class_ else None


def is_unnamed(column: ColumnElement[Any]) -> bool:
    """Return whether a column gets its name only when its statement is compiled."""
    return isinstance(cast(Any, column).name, elements._anonymous_label)


def expressions_by_position(values: Values | ScalarValues) -> list[list[Any]]:
    """Return the expressions in each column of a `values()` construct; values as parameters."""
    columns = [
        [record[i] for record in _records_of(values)] for i in range(len(values._column_args))
    ]
    return [
        [
            value if isinstance(value, ClauseElement) else literal_parameter(value)
            for value in column
        ]
        for column in columns
    ]


def _records_of(values: Values | ScalarValues) -> list[Sequence[Any]]:
    return list(itertools.chain.from_iterable(values._data))


# The values of an INSERT, UPDATE or DELETE


def write_target(statement: UpdateBase) -> tuple[Any, Mapper[Any] | None]:
    """Return the table that a statement writes, and the mapper of the class that it names.

    The public `entity_description` raises for a table whose criteria name a class.
    """
    # Pinned by `test_a_write_tells_its_table_and_its_class`.
    table = statement.table
    mapper = table._annotations.get("parentmapper")
    # a class with `with_polymorphic` is selected from a join; the ORM writes its own table
    if mapper is not None and isinstance(table, Join):
        table = mapper.local_table
    return table, mapper


def values_of(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, value) pairs of an INSERT's or UPDATE's `values()`.

    A column is as it was passed: an attribute, a `Column` or a name.
    """
    # Private: `_values`, `_ordered_values` here, `_multi_values` and `_select_names` below. Pinned
    # by `test_values_of_a_write_are_listed_as_given`.
    single = getattr(statement, "_values", None) or {}
    ordered = getattr(statement, "_ordered_values", None) or ()
    return itertools.chain(single.items(), ordered)


def many_values_of(statement: Executable) -> tuple[Sequence[Any], ...]:
    """Return the lists of records of an INSERT's `values([...])`, one for each call."""
    return cast("tuple[Sequence[Any], ...]", getattr(statement, "_multi_values", ()))


def from_select_pairs(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, expression) pairs of an INSERT's `from_select()`."""
    names = getattr(statement, "_select_names", None)
    if not names:
        return iter(())
    return zip(names, cast(Any, statement).select.selected_columns, strict=True)


def update_on_conflict(statement: Executable) -> Any:
    """Return the ON CONFLICT DO UPDATE clause of an INSERT, or `None`."""
    # Private: `_post_values_clause`.
    # Pinned by `test_the_end_of_an_upsert_can_be_replaced_in_a_copy`.
    clause = getattr(statement, "_post_values_clause", None)
    return clause if hasattr(clause, "update_values_to_set") else None


def conflict_values_of(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, value) pairs of an upsert's `set_`: a list in 2.0, a mapping in 2.1."""
    pairs = getattr(update_on_conflict(statement), "update_values_to_set", ())
    return iter(pairs.items() if isinstance(pairs, Mapping) else pairs)


# Options, and parts out of reach of `with_values`


def with_compile_options(statement: Select[Any]) -> Select[Any]:
    """Set the ORM's compile options of a SELECT, so that compiling it leaves its cache key alone.

    The ORM sets them in place while it compiles, also in a subquery, and they are in the cache
    key: a copy that is made after the first execution would be compiled once more.
    """
    # Private: `_compile_options`. Pinned by `test_a_plan_is_compiled_once`.
    state: Any = CompileState.get_plugin_class(cast(Any, statement))
    if hasattr(state, "default_compile_options"):
        private = cast(Any, statement)
        private._compile_options = state.default_compile_options.safe_merge(
            private._compile_options
        )
    return statement


def options_of(statement: Executable) -> Iterable[Any]:
    """Return the options of a statement."""
    return cast("Iterable[Any]", getattr(statement, "_with_options", ()))


def query_expressions(options: Iterable[Any]) -> Iterator[Any]:
    """Yield the expressions with which `with_expression()` populates attributes."""
    # Private: a loader option's `context`, and its strategy and criteria.
    # Pinned by `test_the_expression_of_an_option_is_found`.
    for option in options:
        for load in getattr(option, "context", ()):
            if ("query_expression", True) in (getattr(load, "strategy", None) or ()):
                yield from load._extra_criteria


def params_of(statement: Executable) -> Mapping[str, Any]:
    """Return the values of a statement's `params()`, which SQLAlchemy 2.0 puts in at once."""
    return getattr(statement, "_params", {})


def unreachable_parts(statement: Executable) -> Iterator[ClauseElement]:
    """Yield the parts of a statement in which `with_values` replaces nothing.

    - the criteria of loader options (`with_loader_criteria()`, `Class.attribute.and_()`);
    - the criteria of a relationship in `join()` (`.and_()`);
    - the subquery of an `aliased()` class: the ORM takes it from the alias, not the statement;
    - the attributes of opaque elements.
    """
    # Pinned by `test_what_a_copy_leaves_as_it_was_is_known`.
    for option in options_of(statement):
        if isinstance(option, LoaderCriteriaOption):
            criterion = option.where_criteria
            yield criterion._resolved if isinstance(criterion, LambdaElement) else criterion
        for load in getattr(option, "context", ()):
            yield from getattr(load, "_extra_criteria", ())
    selectables: dict[int, ClauseElement] = {}
    for element in elements_of(statement):
        yield from opaque_parts(element)
        for target, on, *_ in getattr(element, "_setup_joins", ()):
            for joined in (target, on):
                yield from getattr(joined, "_extra_criteria", ())
        entity = getattr(element, "_annotations", {}).get("parententity")
        if isinstance(entity, AliasedInsp):
            selectables[id(entity.selectable)] = entity.selectable
    yield from selectables.values()


_TRIED = object()  # a value that no parameter has


def unreachable_parameters(
    statement: Executable, parameters: Sequence[BindParameter[Any]]
) -> Iterator[BindParameter[Any]]:
    """Yield the parameters that `with_values` does not replace, found by a trial.

    They are in a CTE that an UPDATE or DELETE refers to without `add_cte()`.
    """
    if isinstance(statement, Update | Delete):
        copy = with_values(statement, {p.key: _TRIED for p in parameters})
        kept = {p.key for p in cache_key_of(copy)[1] if parameter_value(p) is not _TRIED}
        yield from (parameter for parameter in parameters if parameter.key in kept)


# Criteria


def loader_criteria(options: Iterable[Any], mapper: Mapper[Any]) -> Iterator[ColumnElement[bool]]:
    """Yield the criteria of `with_loader_criteria()` options for the rows of a class."""
    for option in options:
        # Private: the criteria of an option. Pinned by
        # `test_criteria_of_loader_options_are_those_of_a_class`.
        if isinstance(option, LoaderCriteriaOption) and mapper in option._all_mappers():
            yield option._resolve_where_criteria(mapper)


def in_keys(columns: Sequence[Any], keys: Iterable[Sequence[Any]]) -> ColumnElement[bool]:
    """Return the criterion that the columns of a key have the values of one of some keys."""
    criterion: ColumnElement[bool]
    if len(columns) == 1:
        criterion = columns[0].in_([key[0] for key in keys])
    else:
        criterion = tuple_(*columns).in_([tuple(key) for key in keys])
    return criterion


def is_false(criterion: ColumnElement[bool]) -> bool:
    """Return whether a criterion is false for every row because of how it was made.

    `and_()` and `or_()` leave only `false()`, in an `AsBoolean`, if that decides.
    """
    element: Any = criterion
    return isinstance(getattr(element, "element", element), elements.False_)


def distinct_on(statement: Select[Any], columns: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """Return a SELECT DISTINCT ON: an extension in 2.1, which deprecates `distinct(*columns)`."""
    make = getattr(postgresql, "distinct_on", None)
    return statement.distinct(*columns) if make is None else statement.ext(make(*columns))


# Bind parameters


def check_parameters(parameters: Any) -> None:
    """Check that the parameters of an execution are a mapping or a list of mappings.

    Raises:
        ArgumentError: they are something else.
    """
    # Private: `_distill_params_20`, by which a connection checks them
    cast(Any, base)._distill_params_20(parameters)


def literal_parameter(value: Any) -> BindParameter[Any]:
    """Return the parameter that compiling a statement would make of a value."""
    return BindParameter(None, value, unique=True)


def parameter_value(parameter: BindParameter[Any]) -> Any:
    """Return the value of a parameter, or `None` if it comes with the execution.

    It is `None` too if the application's callable raises: execution calls it again, and raises.
    """
    try:
        return parameter.effective_value
    except Exception:  # noqa: BLE001  # the application's callable may raise anything
        return None


def takes_list(parameter: BindParameter[Any]) -> bool:
    """Return whether a parameter may have several values: in IN, or as an array."""
    return parameter.expanding or isinstance(parameter.type, ARRAY | NullType)


def instance_attribute_of(parameter: BindParameter[Any]) -> tuple[InstanceState[Any], str] | None:
    """Return the state and the attribute name that a parameter reads at execution, or `None`.

    Such are the parameters of `MealPlan.recipe == recipe`: SQLAlchemy compares the foreign key
    with a callable that reads the attribute of the instance.

    Raises:
        UntranslatableError: a callable of SQLAlchemy's cannot be read. Its value is a key and must
            not be taken for a ref.
    """
    # Private: the callable is a closure of `RelationshipProperty._get_attr_w_warn_on_none`. One of
    # its variables, of any name, is a state and one a ColumnProperty. Pinned by
    # `test_each_way_to_compare_an_instance_tells_the_attribute`.
    function: Any = parameter.callable
    if function is None:
        return None
    while isinstance(function, partial):
        function = function.func
    if not str(getattr(function, "__module__", None)).startswith("sqlalchemy."):
        return None
    variables = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    match (
        [each for each in variables if isinstance(each, InstanceState)],
        [each for each in variables if isinstance(each, ColumnProperty)],
    ):
        case [state], [attribute]:
            return state, attribute.key
    raise UntranslatableError(
        "this version of SQLAlchemy compares a relationship with an instance in an unknown way",
        "compare the foreign key's columns instead",
    )


class KeyReader:
    """The callable of a parameter whose value is a key."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self) -> Any:  # noqa: D102  # see the class
        return self._value


class LateKey(KeyReader):
    """The callable of a parameter that gets its key at execution.

    Args:
        function: the application's callable.
        as_key: replaces the refs in its result by keys.
    """

    def __init__(self, function: Callable[[], Any], as_key: Callable[[Any], Any]) -> None:
        self._function = function
        self._as_key = as_key

    def __call__(self) -> Any:  # noqa: D102  # see the class
        return self._as_key(self._function())


def _value_attributes(parameter: BindParameter[Any], value: Any) -> dict[str, Any]:
    """Return the attributes that give a parameter another value.

    A parameter with a callable gets another callable, because the compiled form is shared by all
    statements of its cache key. It calls the callables of their parameters if the first statement
    had callables there, and otherwise reads their `value`.
    """
    if isinstance(value, LateKey):
        return {"value": None, "callable": value}
    return {"value": value, "callable": parameter.callable and KeyReader(value)}


class _KeyParameter(BindParameter[Any]):
    """A class of its own, so that its cache key differs from a parameter's with a value.

    See `_value_attributes`. Pinned by
    `test_a_key_parameter_has_its_value_whatever_was_compiled_before`.
    """

    inherit_cache = True


def key_parameter(value: Any, type_: TypeEngine[Any]) -> BindParameter[Any]:
    """Return a parameter whose value is a key, never a ref, though it may be a string."""
    return _KeyParameter(None, callable_=KeyReader(value), type_=type_, unique=True)


def is_key_parameter(parameter: BindParameter[Any]) -> bool:
    """Return whether a parameter was made by `key_parameter`, or copied with a key."""
    return isinstance(parameter.callable, KeyReader)


# Anonymous names: as a parameter's key, and as compiled
_ANONYMOUS_KEY = re.compile(r"%\(\d+ (.*)\)s", re.DOTALL)
_COMPILED_NAME = re.compile(r"(.*)_[0-9a-f]+", re.DOTALL)


def anonymous_stem(parameter: BindParameter[Any]) -> str | None:
    """Return the stem of an anonymous parameter's name, or `None` if the program has named it.

    `Recipe.id == value` makes a parameter with the key `%(140736 id)s`, compiled to `id_1`; its
    stem is `id`.
    """
    match = _ANONYMOUS_KEY.fullmatch(parameter.key)
    return None if match is None else match[1]


def may_set_anonymous(name: str, stem: str) -> bool:
    """Return whether a name in the parameters of an execution may set an anonymous parameter.

    `Compiled.construct_params()` accepts the parameter's key, and the name that it compiles to:
    the stem and a number, truncated and numbered again if it is too long.
    """
    # Pinned by `test_a_made_name_is_known_by_what_it_is_made_of`.
    key, compiled = _ANONYMOUS_KEY.fullmatch(name), _COMPILED_NAME.fullmatch(name)
    if key is not None or compiled is None:
        return key is not None and key[1] == stem
    start = compiled[1]
    return stem.startswith(start) or re.fullmatch(r"_\d*", start.removeprefix(stem)) is not None


# Copies


def with_values(
    statement: Executable,
    values: Mapping[str, Any],
    types: Mapping[str, TypeEngine[Any]] | None = None,
) -> Executable:
    """Return a copy of a statement in which parameters have other values.

    Parameters keep their keys (`maintain_key`), as in SQLAlchemy's `params()`, so the copy has the
    same cache key. With other types it has another cache key, the same for all such copies. Unlike
    `params()` this works for INSERT, UPDATE and DELETE too.

    Args:
        statement: is not changed.
        values: the new values by the key of the parameter; a `LateKey` is called at execution.
        types: the SQL types of parameters that are to be sent as another type than their own.
    """
    types = types or {}

    def set_value(parameter: Any) -> None:
        if parameter.key in values:
            vars(parameter).update(_value_attributes(parameter, values[parameter.key]))
            parameter.type = types.get(parameter.key, parameter.type)

    copy = visitors.cloned_traverse(
        cast(Any, statement),
        {
            "maintain_key": True,
            "detect_subquery_cols": True,
            # A traversal cannot copy options: `with_loader_criteria()` has no `__dict__`. And if
            # it copied a subquery that a class or alias is mapped to, the ORM would add the
            # original to the FROM list as well, unjoined. Pinned by
            # `test_a_subquery_that_a_class_is_mapped_to_is_not_copied_without_need`.
            "stop_on": [*options_of(statement), *_aliases_without(statement, values)],
        },
        {"bindparam": set_value},
    )
    return cast(Executable, copy)


def _aliases_without(statement: Executable, values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the aliases and subqueries of a statement that contain none of the parameters."""
    elements = list(elements_of(statement))
    aliases = [each for each in elements if isinstance(each, AliasedReturnsRows)]
    if not aliases:
        return
    parents: dict[int, list[Any]] = {}
    for element in elements:
        for child in element.get_children():
            parents.setdefault(id(child), []).append(element)
    holding: set[int] = set()
    waiting = [each for each in elements if getattr(each, "key", None) in values]
    while waiting:
        element = waiting.pop()
        if id(element) not in holding:
            holding.add(id(element))
            waiting += parents.get(id(element), ())
    yield from (each for each in aliases if id(each) not in holding)


def all_in_where(statement: Executable, parameters: Iterable[BindParameter[Any]]) -> bool:
    """Return whether `with_values_in_where` replaces all of these parameters.

    True for all statements of a cache key, or for none.
    """
    # The copy claims to have the cache key and parameters that it would generate. A parameter that
    # is used anywhere else as well has its old value there, and so is generated again.
    if not getattr(statement, "_where_criteria", ()) or cache_key_of(statement)[0] is None:
        return False
    copy = cast(Any, with_values_in_where(statement, {p.key: None for p in parameters}))
    claimed, generated = copy._generate_cache_key(), HasCacheKey._generate_cache_key(copy)
    return (
        generated is not None
        and claimed.key == generated.key
        and list(map(id, claimed.bindparams)) == list(map(id, generated.bindparams))
    )


def with_values_in_where(statement: Executable, values: Mapping[str, Any]) -> Executable:
    """Return the same copy as `with_values`, for a statement that is `all_in_where`.

    Only the comparisons of the WHERE are copied, and the copy has its cache key already: the
    statement's, with the new parameters in their places. This runs for each execution.
    """
    original: Any = statement  # no `cast()`: a call would be noticed here
    key = original._generate_cache_key()
    replacements = {
        id(p): _copy_of(p, **_value_attributes(p, values[p.key]))
        for p in key.bindparams
        if p.key in values
    }
    parameters = [replacements.get(id(p), p) for p in key.bindparams]
    own = key._make((key.key, parameters, *key[2:]))  # a named tuple, of three items in 2.1
    # Private: `_generate_cache_key` is memoized, so `_memoized_keys` has its name, and a statement
    # made from the copy generates its own. Pinned by `test_a_quick_copy_is_sent_as_a_whole_one`.
    return _copy_of(  # type: ignore[no-any-return]
        original,
        _where_criteria=tuple(
            [_with_parameters(c, replacements) for c in original._where_criteria]
        ),
        _generate_cache_key=lambda: own,
    )


def _copy_of(element: Any, /, **attributes: Any) -> Any:
    """Return a shallow copy of an element with other attributes.

    `_generate()` and `_clone()` do the same, slower, and record the original of the copy. Only
    parameters are looked up by that record, and also by their key, which the copy keeps.
    """
    copy = element.__class__.__new__(element.__class__)
    state = copy.__dict__ = element.__dict__.copy()
    for name in element._memoized_keys:
        state.pop(name, None)
    state.update(attributes)
    return copy


def _with_parameters(criterion: Any, replacements: Mapping[int, BindParameter[Any]]) -> Any:
    """Return a criterion with other parameters, by `id()`, in comparisons joined by AND or OR."""
    if type(criterion) is BinaryExpression:
        left, right = criterion.left, criterion.right
        return _copy_of(
            criterion,
            left=replacements.get(id(left), left),
            right=replacements.get(id(right), right),
        )
    if type(criterion) is BooleanClauseList:
        clauses = tuple([_with_parameters(clause, replacements) for clause in criterion.clauses])
        return _copy_of(criterion, clauses=clauses)
    if type(criterion) is Grouping:
        return _copy_of(criterion, element=_with_parameters(criterion.element, replacements))
    return criterion


def with_value(statement: Executable, name: Any, value: Any) -> Executable:
    """Return a copy of an INSERT with one value added to, or replaced in, its `values()`."""
    copy = cast(Any, statement)._generate()
    # a traversal, as by `with_values`, leaves an ordinary dictionary, which `values()` refuses
    copy._values = immutabledict(copy._values or {})
    return cast(Executable, copy.values({name: value}))


def with_many_values(statement: Executable, records: tuple[Sequence[Any], ...]) -> Executable:
    """Return a copy of an INSERT with other lists of records (see `many_values_of`)."""
    copy = cast(Any, statement)._generate()
    copy._multi_values = records
    return cast(Executable, copy)


def with_conflict_values(
    statement: Executable, values: Mapping[Any, Any], rewrite: Callable[[Any], Any]
) -> Executable:
    """Return a copy of an upsert with other values in its `set_`, and its criteria rewritten."""
    copy = cast(Any, statement)._generate()
    copy._post_values_clause = clause = copy._post_values_clause._clone()
    class_ = type(clause.update_values_to_set)
    clause.update_values_to_set = class_(values.items()) if class_ is list else class_(values)
    for name in ("update_whereclause", "inferred_target_whereclause"):
        criterion = getattr(clause, name)
        setattr(clause, name, criterion if criterion is None else rewrite(criterion))
    return cast(Executable, copy)


def with_params(statement: Executable, params: Mapping[str, Any]) -> Executable:
    """Return a copy of a statement with other values of its `params()` (see `params_of`)."""
    copy = cast(Any, statement)._generate()
    copy._params = immutabledict(params)
    return cast(Executable, copy)


def without_lambdas(statement: Executable) -> Executable:
    """Return a statement with the expressions of its lambdas, values included, in their place."""
    if isinstance(statement, LambdaElement):
        statement = statement._resolved

    def resolve(element: Any, **_: Any) -> Any:
        return element._resolved if isinstance(element, LambdaElement) else None

    options = {"stop_on": options_of(statement)}
    return cast(Executable, visitors.replacement_traverse(cast(Any, statement), options, resolve))
