"""Statement introspection and copying: clauses, bind parameters, cache keys.

What a statement is made of: its shape, parameters, values, results and options.

What a parameter of a statement has for a value, and what it is called.

Shapes of statements as keys of a cache that keeps nothing alive.

A shape names mappers, tables and types of the application. Whoever keeps it keeps them, and with
them all that is mapped beside them; SQLAlchemy's own compiled cache does until it is cleared. A
copy of the shape goes out that is equal to it, and to no other, for as long as they are there.

Copies of a statement in which something else stands; the statement stays as it is.
"""

from __future__ import annotations

import itertools
import re
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
from sqlalchemy.sql.cache_key import HasCacheKey
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList, ClauseElement, Grouping
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import AliasedReturnsRows, FromClause, ScalarValues, TableClause
from sqlalchemy.types import NullType, TypeEngine
from sqlalchemy.util import immutabledict

from alfred_refs.errors import UntranslatableError


def cache_key_of(statement: Executable) -> tuple[Hashable | None, Sequence[BindParameter[Any]]]:
    """Return what is the same for all statements of one shape, and the values that are not.

    Leans on `_generate_cache_key`, which the statement memoizes and execution uses again, so
    asking costs nothing. Two statements of one shape list their parameters in the same order.
    The shape is `None` for a statement that SQLAlchemy does not cache: then all parameters are
    listed that `with_values` and its kin can replace.
    """
    if not isinstance(statement, ClauseElement):  # a Sequence, DDL
        return None, []
    cache_key = cast(Any, statement)._generate_cache_key()
    if cache_key is None:
        own = (statement, getattr(statement, "_post_values_clause", None))
        passed_over = itertools.chain.from_iterable(map(_passed_over_in, own))
        elements = itertools.chain(
            visitors.iterate(statement), *(elements_of(expression) for expression in passed_over)
        )
        return None, [e for e in elements if isinstance(e, BindParameter)]
    return cache_key.key, cache_key.bindparams


def elements_of(statement: Executable | ClauseElement) -> Iterator[Any]:
    """Yield every element of a statement, those of its subqueries and CTEs included.

    SQLAlchemy's own traversal does not look into lists of records, in 2.0 not into the end of an
    upsert, and in writes not into what they read from by a column alone.
    """
    if not isinstance(statement, ClauseElement):
        return
    seen: dict[int, Any] = {}
    waiting: list[ClauseElement] = [statement]
    while waiting:
        for element in visitors.iterate(waiting.pop()):
            yield element
            seen[id(element)] = element
            waiting += _passed_over_in(element)
            table = getattr(element, "table", None)
            if isinstance(table, FromClause) and not isinstance(table, TableClause):
                waiting.append(table)
        waiting = [each for each in waiting if id(each) not in seen]


def is_opaque(element: Any) -> bool:
    """Tell whether an element is of the program's own making and does not tell its parts."""
    if not isinstance(element, ClauseElement) or type(element).__module__.startswith(
        "sqlalchemy."
    ):
        return False
    return not list(element.get_children())


def opaque_parts(element: Any) -> list[ClauseElement]:
    """Return the expressions that an opaque element has in its attributes, its texts included."""
    found: list[ClauseElement] = []
    for name, value in vars(element).items() if is_opaque(element) else ():
        if not name.startswith("_"):
            for each in value if isinstance(value, list | tuple) else [value]:
                part = each.__clause_element__() if hasattr(each, "__clause_element__") else each
                if isinstance(part, ClauseElement) and part is not element:
                    found.append(part)
                elif isinstance(part, str):
                    found.append(literal_parameter(part))
    return found


def _passed_over_in(element: Any) -> Iterator[ClauseElement]:
    """Yield the expressions in an element that its `get_children()` leaves out."""
    if isinstance(element, Values | ScalarValues):
        items = itertools.chain.from_iterable(records_of(element))
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


def has_lambdas(statement: Executable) -> bool:
    """Tell whether a statement, or any part of it, is given as a lambda."""
    return any(isinstance(element, LambdaElement) for element in elements_of(statement))


def write_target(statement: UpdateBase) -> tuple[Any, Mapper[Any] | None]:
    """Return the table that a write is to, and the mapper of the class that it names, if any.

    The public `entity_description` fails for a table where criteria name a class.
    """
    table = statement.table
    return table, table._annotations.get("parentmapper")


def values_of(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, value) pairs of an insert's or update's `values()`.

    A column is as it was given: an attribute, a `Column` or a name.
    """
    single = getattr(statement, "_values", None) or {}
    ordered = getattr(statement, "_ordered_values", None) or ()
    return itertools.chain(single.items(), ordered)


def many_values_of(statement: Executable) -> tuple[Sequence[Any], ...]:
    """Return the lists of records given to an insert's `values([...])`, as they were given."""
    return cast("tuple[Sequence[Any], ...]", getattr(statement, "_multi_values", ()))


def records_of(values: Values | ScalarValues) -> list[Sequence[Any]]:
    """Return the rows of a `values()` construct, or of one that stands in an IN."""
    return list(itertools.chain.from_iterable(values._data))


def expressions_by_position(values: Values | ScalarValues) -> list[list[Any]]:
    """Return the expressions at each position of the rows of a `values()` construct."""
    places = [
        [record[i] for record in records_of(values)] for i in range(len(values._column_args))
    ]
    return [
        [
            value if isinstance(value, ClauseElement) else literal_parameter(value)
            for value in place
        ]
        for place in places
    ]


def literal_parameter(value: Any) -> BindParameter[Any]:
    """Return a parameter for a value that becomes one only when its statement is compiled."""
    return BindParameter(None, value, unique=True)


def update_on_conflict(statement: Executable) -> Any:
    """Return what an upsert does to rows that are there; `None` where it does nothing to them."""
    clause = getattr(statement, "_post_values_clause", None)
    return clause if hasattr(clause, "update_values_to_set") else None


def conflict_values_of(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, value) pairs of an upsert's `set_`: a list in 2.0, a mapping in 2.1."""
    pairs = getattr(update_on_conflict(statement), "update_values_to_set", ())
    return iter(pairs.items() if isinstance(pairs, Mapping) else pairs)


def from_select_pairs(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, expression) pairs of an insert from a select."""
    names = getattr(statement, "_select_names", None)
    if not names:
        return iter(())
    return zip(names, cast(Any, statement).select.selected_columns, strict=True)


def unreachable_parts(statement: Executable) -> Iterator[ClauseElement]:
    """Yield the parts of a statement in which `with_values` replaces nothing.

    That is the criteria that loader options carry (`with_loader_criteria()`, `.and_()`), those of
    a relationship that is joined along (`.and_()`), and the subquery that an alias of a class
    stands for: the ORM takes it from the alias, which is no part of the statement.
    """
    yield from _criteria_of_options(statement)
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


def _criteria_of_options(statement: Executable) -> Iterator[ClauseElement]:
    for option in options_of(statement):
        if isinstance(option, LoaderCriteriaOption):
            criterion = option.where_criteria
            yield criterion._resolved if isinstance(criterion, LambdaElement) else criterion
        for load in getattr(option, "context", ()):
            yield from getattr(load, "_extra_criteria", ())


def params_of(statement: Executable) -> Mapping[str, Any]:
    """Return what SQLAlchemy 2.1 keeps of a statement's `params()`; 2.0 puts it in at once."""
    return getattr(statement, "_params", {})


def query_expressions(options: Iterable[Any]) -> Iterator[Any]:
    """Yield the expressions that loader options put into attributes: `with_expression()`."""
    for option in options:
        for load in getattr(option, "context", ()):
            if ("query_expression", True) in (getattr(load, "strategy", None) or ()):
                yield from load._extra_criteria


def options_of(statement: Executable) -> Iterable[Any]:
    """Return the options of a statement."""
    return cast("Iterable[Any]", getattr(statement, "_with_options", ()))


def result_expressions(statement: Executable) -> Iterator[Sequence[Any]]:
    """Yield what stands at each position of the rows: a list of one column, empty for an entity.

    The statement is a select or an insert, update or delete. Its public descriptions cannot be
    asked: they fail where RETURNING names an entity, or a select is of text alone.
    """
    elements = getattr(statement, "_raw_columns", None)
    for element in cast(Any, statement)._returning if elements is None else elements:
        if isinstance(element, ColumnElement) or not isinstance(element, FromClause):
            yield [element]
        elif "parententity" in element._annotations:
            yield []
        else:
            yield from ([column] for column in element.c)


def polymorphic_column(element: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the column that an attribute of a class stands for in a statement.

    It is the attribute's own column, but for a base class of concrete inheritance: its rows come
    from a union of several tables, and the ORM puts the union's column in the place of the
    attribute's, which it tells by an annotation.
    """
    mapper = element._annotations.get("parententity")
    if not isinstance(mapper, Mapper):
        return element
    mapper.registry.configure(cascade=True)  # which is when the union is put together
    selectable = mapper.selectable
    if not isinstance(selectable, AliasedReturnsRows):
        return element
    column = selectable.corresponding_column(cast("Column[Any]", element._deannotate()))
    return element if column is None else column


def ordered_aggregate(element: Any) -> Any:
    """Return the aggregate inside SQLAlchemy 2.1's `aggregate_order_by()`, `None` for another.

    `within_group()` is a subclass of it, whose value comes from its ORDER BY.
    """
    kind = getattr(elements, "AggregateOrderBy", None)
    return element.element if type(element) is kind else None


def bundle_of(element: Any) -> Bundle[Any] | None:
    """Return the bundle that an element of a select stands for, `None` for another."""
    if isinstance(element, Bundle):
        return element
    return cast("Bundle[Any] | None", getattr(element, "_annotations", {}).get("bundle"))


def is_unnamed(column: ColumnElement[Any]) -> bool:
    """Tell whether a column gets its name only when the statement is compiled."""
    return isinstance(cast(Any, column).name, elements._anonymous_label)


def is_false(condition: ColumnElement[bool]) -> bool:
    """Tell whether no row meets a condition because of how it is made.

    Leans on `and_` and `or_`, which keep nothing but `false()`, in an `AsBoolean`, where that is
    what decides.
    """
    element: Any = condition
    return isinstance(getattr(element, "element", element), elements.False_)


def distinct_on(statement: Select[Any], elements: Sequence[ColumnElement[Any]]) -> Select[Any]:
    """Return a SELECT DISTINCT ON; 2.1 has an extension for it, and deprecates the old way."""
    make = getattr(postgresql, "distinct_on", None)
    return statement.distinct(*elements) if make is None else statement.ext(make(*elements))


def in_keys(columns: Sequence[Any], keys: Iterable[Sequence[Any]]) -> ColumnElement[bool]:
    """Return the condition that the columns of a key have one of some keys."""
    met: ColumnElement[bool]
    if len(columns) == 1:
        met = columns[0].in_([key[0] for key in keys])
    else:
        met = tuple_(*columns).in_([tuple(key) for key in keys])
    return met


_MADE_KEY = re.compile(r"%\(\d+ (.*)\)s", re.DOTALL)  # of what the program did not name
_MADE_NAME = re.compile(r"(.*)_[0-9a-f]+", re.DOTALL)  # the same, compiled


def check_parameters(given: Any) -> None:
    """Check what an execution is given for parameters, before it is looked through.

    Leans on the function by which a connection checks them.

    Raises:
        ArgumentError: they are neither a mapping nor a list of mappings.
    """
    cast(Any, base)._distill_params_20(given)


def parameter_value(parameter: BindParameter[Any]) -> Any:
    """Return the value of a parameter, or `None` where it comes with the execution.

    Also where it cannot be read: SQLAlchemy reads it again, and tells of it with the statement.
    """
    try:
        return parameter.effective_value
    except Exception:  # noqa: BLE001  # whatever a callable of the program's raises
        return None


def takes_list(parameter: BindParameter[Any]) -> bool:
    """Tell whether a parameter may stand for several values: in IN, or in an array."""
    return parameter.expanding or isinstance(parameter.type, ARRAY | NullType)


def instance_attribute_of(parameter: BindParameter[Any]) -> tuple[InstanceState[Any], str] | None:
    """Return which attribute of which instance a parameter reads when it is executed, if any.

    An instance that is compared with a relationship stands in the statement as such parameters.
    They alone have a callable of SQLAlchemy's own: leans on that being a function inside another,
    `RelationshipProperty._get_attr_w_warn_on_none`, one of whose variables is the instance's
    state, and one the attribute, whatever they are called.

    Raises:
        UntranslatableError: a callable of SQLAlchemy's does not tell: what it returns is a key,
            and must not pass for a ref.
    """
    read: Any = parameter.callable
    if read is None:
        return None
    while isinstance(read, partial):
        read = read.func
    if not str(getattr(read, "__module__", None)).startswith("sqlalchemy."):
        return None
    known = [cell.cell_contents for cell in getattr(read, "__closure__", None) or ()]
    match (
        [each for each in known if isinstance(each, InstanceState)],
        [each for each in known if isinstance(each, ColumnProperty)],
    ):
        case [state], [attribute]:
            return state, attribute.key
    raise UntranslatableError(
        "this version of SQLAlchemy compares a relationship with an instance in a way that is not "
        "known",
        "compare the foreign key's columns instead",
    )


class KeyReader:
    """Gives a parameter a key for its value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self) -> Any:  # noqa: D102  # what the class says
        return self._value


class LateKey(KeyReader):
    """Gives a parameter a key, of what the program's own callable gives: read as late as that.

    Args:
        read: the program's callable.
        as_key: puts keys in place of the refs in what it gives.
    """

    def __init__(self, read: Callable[[], Any], as_key: Callable[[Any], Any]) -> None:
        self._read = read
        self._as_key = as_key

    def __call__(self) -> Any:  # noqa: D102  # what the class says
        return self._as_key(self._read())


def put_value(parameter: BindParameter[Any], value: Any) -> dict[str, Any]:
    """Return the attributes by which a parameter has another value."""
    if isinstance(value, LateKey):
        return {"value": None, "callable": value}
    return {"value": value, "callable": parameter.callable and KeyReader(value)}


class _KeyParameter(BindParameter[Any]):
    """A class of its own, which is a part of cache keys.

    What SQLAlchemy has compiled for a parameter without callable asks all that share its cache key
    for their plain values, and a key has none.
    """

    inherit_cache = True


def key_parameter(value: Any, type_: TypeEngine[Any]) -> BindParameter[Any]:
    """Return a parameter whose value is a key, though it may be text."""
    return _KeyParameter(None, callable_=KeyReader(value), type_=type_, unique=True)


def is_key_parameter(parameter: BindParameter[Any]) -> bool:
    """Tell whether `key_parameter` made a parameter, or one that a copy was made of."""
    return isinstance(parameter.callable, KeyReader)


def anonymous_stem(parameter: BindParameter[Any]) -> str | None:
    """Return what a parameter is called for that the program did not name: `id`.

    In the statement that is part of its key, `%(140736 id)s`, of which compiling makes `id_1`.
    """
    found = _MADE_KEY.fullmatch(parameter.key)
    return None if found is None else found[1]


def may_set_anonymous(name: str, stem: str) -> bool:
    """Tell whether a name that comes with an execution may mean a parameter of this stem.

    Leans on `Compiled.construct_params()`, which takes a parameter's key, or the name that it
    compiles to: the stem and a number, cut short and numbered once more where that is too long.
    """
    key, compiled = _MADE_KEY.fullmatch(name), _MADE_NAME.fullmatch(name)
    if key is not None or compiled is None:
        return key is not None and key[1] == stem
    start = compiled[1]
    return stem.startswith(start) or re.fullmatch(r"_\d*", start.removeprefix(stem)) is not None


_VALUES = (str, bytes, int, float, Enum, BuiltinFunctionType, type(None))


class WeakCacheKey(tuple[Any, ...]):  # noqa: SLOT001  # a tuple has no room for the hash
    """A shape with weak proxies of the application's objects: equal to it while they are there.

    A proxy is compared as what it stands for, and that in C: a look-up calls nothing of ours. It
    has no hash, so that of the shape is kept, also when an object is gone.

    Raises:
        ReferenceError: when it is compared with another of the same hash, and an object is gone:
            one has been made since in the same place of the memory.
    """

    _hash: int

    def __new__(cls, shape: Hashable) -> WeakCacheKey:
        """Make it of a shape, which is a tuple."""
        weak = super().__new__(cls, map(_weakly, cast("tuple[Hashable, ...]", shape)))
        weak._hash = hash(shape)
        return weak

    def __hash__(self) -> int:
        return self._hash


def _weakly(shape: Hashable) -> Hashable:
    """Return a part of a shape that keeps nothing of the application's alive.

    Leans on a shape being made of tuples: the objects in it are compared by what they are, but for
    values and for types of the program's own that compare their values.
    """
    if isinstance(shape, tuple):
        return tuple(map(_weakly, shape))
    if isinstance(shape, _VALUES) or _is_library(shape):
        return shape
    if isinstance(shape, Annotated):
        return _weakly(cast(Hashable, shape._deannotate()))
    if type(shape).__eq__ is not object.__eq__:
        return shape
    with suppress(TypeError):  # it takes no weak references
        shape = cast(Hashable, proxy(shape))
    return shape


def _is_library(item: object) -> bool:
    """Tell a class or a function of SQLAlchemy's from one of the application's."""
    return isinstance(item, type | FunctionType) and item.__module__.startswith("sqlalchemy.")


_TRIED = object()  # a value that no parameter has


def all_in_where(statement: Executable, parameters: Iterable[BindParameter[Any]]) -> bool:
    """Tell whether `with_values_in_where` serves a statement, and so all others of its shape.

    It does if the copy generates the very cache key that it is given: a parameter that stands
    anywhere else as well would be met there as it was.
    """
    if not getattr(statement, "_where_criteria", ()) or cache_key_of(statement)[0] is None:
        return False
    copy = cast(Any, with_values_in_where(statement, {p.key: None for p in parameters}))
    given, generated = copy._generate_cache_key(), HasCacheKey._generate_cache_key(copy)
    return (
        generated is not None
        and given.key == generated.key
        and list(map(id, given.bindparams)) == list(map(id, generated.bindparams))
    )


def with_values_in_where(statement: Executable, values: Mapping[str, Any]) -> Executable:
    """Return a copy as `with_values` does, where `all_in_where`, in a fraction of the time.

    All but the comparisons is shared with the statement, as in a copy that `where()` makes, and
    the copy has its cache key already: the statement's, with its own parameters in their places.
    """
    # What SQLAlchemy compiles for a parameter without a callable asks all of the same cache key
    # for their plain values, which those that have one lack: it gives way to one with the key.
    made: Any = statement  # by no call of cast(): each counts here
    key = made._generate_cache_key()
    replaced = {
        id(p): _with(p, **put_value(p, values[p.key])) for p in key.bindparams if p.key in values
    }
    # a named tuple: in 2.1 it has a third part, which stays
    parameters = [replaced.get(id(p), p) for p in key.bindparams]
    own = key._make((key.key, parameters, *key[2:]))
    # `_memoized_keys` has the name of it: what is made from the copy generates its own
    return _with(  # type: ignore[no-any-return]
        made,
        _where_criteria=tuple([_with_parameters(c, replaced) for c in made._where_criteria]),
        _generate_cache_key=lambda: own,
    )


def _with(element: Any, /, **attributes: Any) -> Any:
    """Return a shallow copy of an element with other attributes.

    That is what `_generate()` and `_clone()` do, faster; without note of what it is a copy of:
    only parameters are looked for by that, and one that keeps its name is found by its name.
    """
    copy = element.__class__.__new__(element.__class__)
    held = copy.__dict__ = element.__dict__.copy()
    for name in element._memoized_keys:
        held.pop(name, None)
    held.update(attributes)
    return copy


def _with_parameters(criterion: Any, replaced: Mapping[int, BindParameter[Any]]) -> Any:
    """Return a criterion with other parameters, by `id()`, in comparisons and lists of them."""
    if type(criterion) is BinaryExpression:
        left, right = criterion.left, criterion.right
        return _with(
            criterion,
            left=replaced.get(id(left), left),
            right=replaced.get(id(right), right),
        )
    if type(criterion) is BooleanClauseList:
        clauses = tuple([_with_parameters(clause, replaced) for clause in criterion.clauses])
        return _with(criterion, clauses=clauses)
    if type(criterion) is Grouping:
        return _with(criterion, element=_with_parameters(criterion.element, replaced))
    return criterion


def with_values(
    statement: Executable,
    values: Mapping[str, Any],
    types: Mapping[str, TypeEngine[Any]] | None = None,
) -> Executable:
    """Return a copy of the statement in which parameters have other values.

    Args:
        statement: stays as it is.
        values: the new values by the parameter's `key`.
        types: the SQL types of those that are to be sent as another than their own.

    Parameters keep their names (`maintain_key`), as in SQLAlchemy's own `params()`, so the copy
    has the same cache key and finds the same compiled form; with other types it has another cache
    key, the same for all statements of a shape. Unlike `params()` it serves inserts, updates and
    deletes too.

    A subquery without any of the parameters stays as it is: the ORM does not know the copy of one
    that a class or an alias is mapped to, and would select from both, unjoined.
    """
    types = types or {}

    def set_value(parameter: Any) -> None:
        if parameter.key in values:
            vars(parameter).update(put_value(parameter, values[parameter.key]))
            parameter.type = types.get(parameter.key, parameter.type)

    copy = visitors.cloned_traverse(
        cast(Any, statement),
        {
            "maintain_key": True,
            "detect_subquery_cols": True,
            # a traversal cannot copy options: that of `with_loader_criteria()` has no `__dict__`
            "stop_on": [*options_of(statement), *_aliases_without(statement, values)],
        },
        {"bindparam": set_value},
    )
    return cast(Executable, copy)


def _aliases_without(statement: Executable, values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the aliases and subqueries in a statement that have none of the parameters."""
    for element in elements_of(statement):
        if isinstance(element, AliasedReturnsRows):
            parts = visitors.iterate(cast(Any, element))
            if not any(getattr(part, "key", None) in values for part in parts):
                yield element


def unreachable_parameters(
    statement: Executable, parameters: Sequence[BindParameter[Any]]
) -> Iterator[BindParameter[Any]]:
    """Yield the parameters that `with_values` does not reach, as a trial shows.

    They are in a CTE that an UPDATE or DELETE reads from, and does not list.
    """
    if isinstance(statement, Update | Delete):
        copy = with_values(statement, {p.key: _TRIED for p in parameters})
        left = {p.key for p in cache_key_of(copy)[1] if parameter_value(p) is not _TRIED}
        yield from (parameter for parameter in parameters if parameter.key in left)


def with_value(statement: Executable, name: Any, value: Any) -> Executable:
    """Return a copy of an insert with one value more, or another, in its `values()`.

    Its own `values()` does not take a statement in which keys stand for refs: a traversal leaves
    it an ordinary dictionary.
    """
    copy = cast(Any, statement)._generate()
    copy._values = immutabledict(copy._values or {})
    return cast(Executable, copy.values({name: value}))


def with_many_values(statement: Executable, records: tuple[Sequence[Any], ...]) -> Executable:
    """Return a copy of an insert with other records in place of its `values([...])`."""
    copy = cast(Any, statement)._generate()
    copy._multi_values = records
    return cast(Executable, copy)


def with_conflict_values(
    statement: Executable, values: Mapping[Any, Any], rewrite: Callable[[Any], Any]
) -> Executable:
    """Return a copy of an upsert with other values in its `set_`, and its criteria rewritten."""
    copy = cast(Any, statement)._generate()
    copy._post_values_clause = clause = copy._post_values_clause._clone()
    kind = type(clause.update_values_to_set)
    clause.update_values_to_set = kind(values.items()) if kind is list else kind(values)
    for name in ("update_whereclause", "inferred_target_whereclause"):
        criterion = getattr(clause, name)
        setattr(clause, name, criterion if criterion is None else rewrite(criterion))
    return cast(Executable, copy)


def with_params(statement: Executable, params: Mapping[str, Any]) -> Executable:
    """Return a copy of a statement with other values in place of those of its `params()`."""
    copy = cast(Any, statement)._generate()
    copy._params = immutabledict(params)
    return cast(Executable, copy)


def without_lambdas(statement: Executable) -> Executable:
    """Return a statement with what its lambdas stand for in their place, values included."""
    if isinstance(statement, LambdaElement):
        statement = statement._resolved

    def resolve(element: Any, **_: Any) -> Any:
        return element._resolved if isinstance(element, LambdaElement) else None

    kept = {"stop_on": options_of(statement)}
    return cast(Executable, visitors.replacement_traverse(cast(Any, statement), kept, resolve))
