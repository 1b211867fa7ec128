"""The one door to SQLAlchemy's internals: every private name we lean on is used here only.

Each function says which behaviour it leans on; `tests/test_sqla.py` pins them on both supported
series.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import getclosurevars
from typing import Any, cast

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Engine,
    Executable,
    Insert,
    Pool,
    Result,
    Row,
    Table,
    Values,
    event,
)
from sqlalchemy.engine import ChunkedIteratorResult, ExceptionContext
from sqlalchemy.event.api import _event_key
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Bundle, InstanceState, Mapper, RelationshipProperty, Session, registry
from sqlalchemy.orm.base import NO_VALUE, instance_state
from sqlalchemy.orm.mapped_collection import _AttrGetter, _PlainColumnGetter
from sqlalchemy.orm.mapper import _all_registries
from sqlalchemy.orm.util import AliasedInsp, LoaderCriteriaOption
from sqlalchemy.sql import elements, visitors
from sqlalchemy.sql.cache_key import HasCacheKey
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList, ClauseElement, Grouping
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import AliasedReturnsRows, FromClause, ScalarValues
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import immutabledict
from sqlalchemy.util.concurrency import in_greenlet
from sqlalchemy.util.langhelpers import Missing

from .errors import UntranslatableError

Rows = Sequence[Any]
"""A chunk of rows: tuples of one value per result element."""


def shape_of(statement: Executable) -> tuple[Hashable | None, Sequence[BindParameter[Any]]]:
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

    SQLAlchemy's own traversal does not look into lists of records, and in 2.0 not into the end
    of an upsert.
    """
    if not isinstance(statement, ClauseElement):
        return
    for element in visitors.iterate(statement):
        yield element
        for expression in _passed_over_in(element):
            yield from elements_of(expression)


def is_opaque(element: Any) -> bool:
    """Tell whether an element is of the program's own making and does not tell its parts."""
    if not isinstance(element, ClauseElement) or type(element).__module__.startswith(
        "sqlalchemy."
    ):
        return False
    return not list(element.get_children())


def hidden_in(element: Any) -> list[ClauseElement]:
    """Return the expressions that an opaque element has in its attributes, its texts included."""
    found: list[ClauseElement] = []
    for name, value in vars(element).items() if is_opaque(element) else ():
        if not name.startswith("_"):
            for each in value if isinstance(value, list | tuple) else [value]:
                part = each.__clause_element__() if hasattr(each, "__clause_element__") else each
                if isinstance(part, ClauseElement) and part is not element:
                    found.append(part)
                elif isinstance(part, str):
                    found.append(unlisted(part))
    return found


def _passed_over_in(element: Any) -> Iterator[ClauseElement]:
    """Yield the expressions in an element that its `get_children()` leaves out."""
    if isinstance(element, Values | ScalarValues):
        items = itertools.chain.from_iterable(records_of(element))
    elif isinstance(element, Insert):
        records = itertools.chain.from_iterable(many_values_of(element))
        items = itertools.chain.from_iterable(map(_values_in, records))
    elif type(element).__name__ == "OnConflictDoUpdate" and not list(element.get_children()):
        sets = (value for _, value in element.update_values_to_set)
        items = itertools.chain(sets, _where_of(element))
    else:
        return
    yield from (item for item in items if isinstance(item, ClauseElement))


def _values_in(record: Any) -> Any:
    return record.values() if isinstance(record, Mapping) else record


def _where_of(conflict: Any) -> list[Any]:
    return [conflict.update_whereclause, conflict.inferred_target_whereclause]


def has_lambdas(statement: Executable) -> bool:
    """Tell whether a statement, or any part of it, is given as a lambda."""
    return any(isinstance(element, LambdaElement) for element in elements_of(statement))


def stand_in_where(statement: Executable, parameters: Iterable[BindParameter[Any]]) -> bool:
    """Tell whether `with_values_in_where` serves a statement, and so all others of its shape.

    It does if the copy generates the very cache key that it is given: a parameter that stands
    anywhere else as well would be met there as it was.
    """
    if not getattr(statement, "_where_criteria", ()) or shape_of(statement)[0] is None:
        return False
    copy = cast(Any, with_values_in_where(statement, {p.key: None for p in parameters}))
    given, generated = copy._generate_cache_key(), HasCacheKey._generate_cache_key(copy)
    return (
        generated is not None
        and given.key == generated.key
        and list(map(id, given.bindparams)) == list(map(id, generated.bindparams))
    )


def with_values_in_where(statement: Executable, values: Mapping[str, Any]) -> Executable:
    """Return a copy as `with_values` does, where `stand_in_where`, in a fraction of the time.

    All but the comparisons is shared with the statement, as in a copy that `where()` makes, and
    the copy has its cache key already: the statement's, with its own parameters in their places.
    """
    made: Any = statement  # by no call of cast(): each counts here
    key = made._generate_cache_key()
    replaced = {id(p): _with_value(p, values[p.key]) for p in key.bindparams if p.key in values}
    copy = made._generate()
    copy._where_criteria = tuple([_with_parameters(c, replaced) for c in copy._where_criteria])
    # a named tuple: in 2.1 it has a third part, which stays
    own = type(key)(key.key, [replaced.get(id(p), p) for p in key.bindparams], *key[2:])
    copy._generate_cache_key = lambda: own
    # what is made from the copy generates its own
    copy._memoized_keys |= {"_generate_cache_key"}
    return copy  # type: ignore[no-any-return]


def _with_value(parameter: BindParameter[Any], value: Any) -> BindParameter[Any]:
    """Return a copy of a parameter, of the same name, with another value."""
    # without the set of all its clones: a copy that keeps its name is found by that
    copy = ClauseElement._clone(parameter)
    copy.value, copy.callable = value, None
    return copy


def _with_parameters(criterion: Any, replaced: Mapping[int, BindParameter[Any]]) -> Any:
    """Return a criterion with other parameters, by `id()`, in comparisons and lists of them."""
    copy: Any
    if type(criterion) is BinaryExpression:
        copy = criterion._clone()
        copy.left = replaced.get(id(criterion.left), criterion.left)
        copy.right = replaced.get(id(criterion.right), criterion.right)
        return copy
    if type(criterion) is BooleanClauseList:
        copy = criterion._clone()
        copy.clauses = tuple(_with_parameters(clause, replaced) for clause in criterion.clauses)
        return copy
    if type(criterion) is Grouping:
        copy = criterion._clone()
        copy.element = _with_parameters(criterion.element, replaced)
        return copy
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
            parameter.value, parameter.callable = values[parameter.key], None
            parameter.type = types.get(parameter.key, parameter.type)

    copy = visitors.cloned_traverse(
        cast(Any, statement),
        {
            "maintain_key": True,
            "detect_subquery_cols": True,
            "stop_on": [*_options_of(statement), *_aliases_without(statement, values)],
        },
        {"bindparam": set_value},
    )
    return cast(Executable, copy)


def _options_of(statement: Executable) -> Sequence[Any]:
    """Return the loader options of a statement, which a traversal cannot copy.

    `LoaderCriteriaOption` has no `__dict__`, and its `_clone()` asks for one.
    """
    return getattr(statement, "_with_options", ())


def _aliases_without(statement: Executable, values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the aliases and subqueries in a statement that have none of the parameters."""
    for element in elements_of(statement):
        if isinstance(element, AliasedReturnsRows) and not _has_any(element, values):
            yield element


def _has_any(element: Any, values: Mapping[str, Any]) -> bool:
    return any(getattr(part, "key", None) in values for part in visitors.iterate(element))


def written_by(statement: UpdateBase) -> tuple[Any, Mapper[Any] | None]:
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


def with_many_values(statement: Executable, records: tuple[Sequence[Any], ...]) -> Executable:
    """Return a copy of an insert with other records in place of its `values([...])`."""
    copy = cast(Any, statement)._generate()
    copy._multi_values = records
    return cast(Executable, copy)


def records_of(values: Values | ScalarValues) -> list[Sequence[Any]]:
    """Return the rows of a `values()` construct, or of one that stands in an IN."""
    return list(itertools.chain.from_iterable(values._data))


def places_of(values: Values | ScalarValues) -> list[list[Any]]:
    """Return the expressions at each position of the rows of a `values()` construct."""
    places = [
        [record[i] for record in records_of(values)] for i in range(len(values._column_args))
    ]
    return [
        [value if isinstance(value, ClauseElement) else unlisted(value) for value in place]
        for place in places
    ]


def unlisted(value: Any) -> BindParameter[Any]:
    """Return a parameter for a value that becomes one only when its statement is compiled."""
    return BindParameter(None, value, unique=True)


def conflict_values_of(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, value) pairs of an upsert's `set_`: a list in 2.0, a mapping in 2.1."""
    clause = getattr(statement, "_post_values_clause", None)
    pairs = getattr(clause, "update_values_to_set", None) or ()
    return iter(pairs.items() if isinstance(pairs, Mapping) else pairs)


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


def selected_into(statement: Executable) -> Iterator[tuple[Any, Any]]:
    """Yield the (column, expression) pairs of an insert from a select."""
    names = getattr(statement, "_select_names", None)
    if not names:
        return iter(())
    return zip(names, cast(Any, statement).select.selected_columns, strict=True)


def out_of_reach(statement: Executable) -> Iterator[ClauseElement]:
    """Yield the parts of a statement in which `with_values` replaces nothing.

    That is the criteria that loader options carry (`with_loader_criteria()`, `.and_()`), those of
    a relationship that is joined along (`.and_()`), and the subquery that an alias of a class
    stands for: the ORM takes it from the alias, which is no part of the statement.
    """
    yield from _criteria_of_options(statement)
    selectables: dict[int, ClauseElement] = {}
    for element in elements_of(statement):
        yield from hidden_in(element)
        for target, on, *_ in getattr(element, "_setup_joins", ()):
            for joined in (target, on):
                yield from getattr(joined, "_extra_criteria", ())
        entity = getattr(element, "_annotations", {}).get("parententity")
        if isinstance(entity, AliasedInsp):
            selectables[id(entity.selectable)] = entity.selectable
    yield from selectables.values()


def _criteria_of_options(statement: Executable) -> Iterator[ClauseElement]:
    for option in getattr(statement, "_with_options", ()):
        if isinstance(option, LoaderCriteriaOption):
            criterion = option.where_criteria
            yield criterion._resolved if isinstance(criterion, LambdaElement) else criterion
        for load in getattr(option, "context", ()):
            yield from getattr(load, "_extra_criteria", ())


def params_of(statement: Executable) -> Mapping[str, Any]:
    """Return what SQLAlchemy 2.1 keeps of a statement's `params()`; 2.0 puts it in at once."""
    return getattr(statement, "_params", {})


def with_params(statement: Executable, params: Mapping[str, Any]) -> Executable:
    """Return a copy of a statement with other values in place of those of its `params()`."""
    copy = cast(Any, statement)._generate()
    copy._params = immutabledict(params)
    return cast(Executable, copy)


def expressions_of(options: Iterable[Any]) -> Iterator[Any]:
    """Yield the expressions that loader options put into attributes: `with_expression()`."""
    for option in options:
        for load in getattr(option, "context", ()):
            if ("query_expression", True) in (getattr(load, "strategy", None) or ()):
                yield from load._extra_criteria


def options_of(statement: Executable) -> Iterable[Any]:
    """Return the options of a statement."""
    return cast("Iterable[Any]", getattr(statement, "_with_options", ()))


def without_lambdas(statement: Executable) -> Executable:
    """Return a statement with what its lambdas stand for in their place, values included."""
    if isinstance(statement, LambdaElement):
        statement = statement._resolved

    def resolve(element: Any, **_: Any) -> Any:
        return element._resolved if isinstance(element, LambdaElement) else None

    kept = {"stop_on": _options_of(statement)}
    return cast(Executable, visitors.replacement_traverse(cast(Any, statement), kept, resolve))


def returned_by(statement: Executable) -> Iterator[Sequence[Any]]:
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


def selected_from_union(element: ColumnElement[Any]) -> ColumnElement[Any]:
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


def row_like(row: Row[Any], values: Sequence[Any]) -> Row[Any]:
    """Return a row with other values: one inside a row, as a `Bundle` makes it."""
    inner = cast(Any, row)
    return type(row)(inner._parent, None, inner._key_to_index, values)


def parameter_value(parameter: BindParameter[Any]) -> Any:
    """Return the value of a parameter, or `None` where it comes with the execution."""
    return parameter.effective_value


def attribute_behind(parameter: BindParameter[Any]) -> tuple[InstanceState[Any], str] | None:
    """Return which attribute of which instance a parameter reads when it is executed, if any.

    An instance that is compared with a relationship stands in the statement as such parameters:
    leans on the function that `_get_attr_w_warn_on_none` makes for them.
    """
    read = parameter.callable
    if read is None or getattr(read, "__qualname__", "") != _READS_ATTRIBUTE:
        return None
    names = getclosurevars(read).nonlocals
    return names["state"], names["prop"].key


_READS_ATTRIBUTE = f"{RelationshipProperty._get_attr_w_warn_on_none.__qualname__}.<locals>._go"


def mappers_of(base: registry) -> list[Mapper[Any]]:
    """Return the mappers of a declarative base that are there.

    Its own `mappers` fails, in 2.1, for a class that is mapped when all mappers are configured,
    as that of an `AbstractConcreteBase` is.
    """
    return [manager.mapper for manager in base._managers if manager.is_mapped]


def mapper_of_table(table: Table) -> Mapper[Any] | None:
    """Return the mapper of the class that is declared on the table, whatever its base.

    Leans on `_all_registries`, which lists the declarative bases of the process: a Core statement
    names a table and not a class. Of several classes on one table, the one none of them inherits
    from.
    """
    mappers = [
        mapper
        for base in _all_registries()
        for mapper in mappers_of(base)
        if mapper.local_table is table
    ]
    return min(mappers, key=lambda mapper: len(list(mapper.iterate_to_root())), default=None)


class _Covered(CursorResult[Any]):
    """A cursor's result whose exits beside its rows go through a function first.

    `inserted_primary_key` takes its row from `inserted_primary_key_rows`.
    """

    __slots__ = ()

    def _exit(self, name: str) -> Any:
        return self.__dict__[_SHOW](name, getattr(super(), name))

    inserted_primary_key_rows = property(lambda self: self._exit("inserted_primary_key_rows"))
    returned_defaults = property(lambda self: self._exit("returned_defaults"))
    returned_defaults_rows = property(lambda self: self._exit("returned_defaults_rows"))
    lastrowid = property(lambda self: self._exit("lastrowid"))

    def last_inserted_params(self) -> Any:
        """See `CursorResult.last_inserted_params`."""
        return self.__dict__[_SHOW]("last_inserted_params", super().last_inserted_params())

    def last_updated_params(self) -> Any:
        """See `CursorResult.last_updated_params`."""
        return self.__dict__[_SHOW]("last_updated_params", super().last_updated_params())


_SHOW = "alfred_refs"  # the function, in the dictionary of a covered result


def cover_exits(result: CursorResult[Any], show: Callable[[str, Any], Any]) -> None:
    """Have what a result tells beside its rows go through a function, by the exit's name.

    It stays the same object, of a subclass: others may hold it, as a rewritten result does.
    """
    if type(result) is CursorResult:
        result.__class__ = _Covered
        result.__dict__[_SHOW] = show


def new_primary_keys(result: CursorResult[Any]) -> None:
    """Ask a result for the primary keys of the rows that it inserted, if it can tell."""
    with suppress(InvalidRequestError):
        _ = result.inserted_primary_key_rows


def tables() -> Iterator[Table]:
    """Yield the tables of all declarative bases of the process."""
    seen = {id(registry.metadata): registry.metadata for registry in _all_registries()}
    for metadata in seen.values():
        yield from metadata.tables.values()


def cursor_result_of(result: Result[Any]) -> CursorResult[Any] | None:
    """Return the result of the cursor that a result is made from, `None` if there is none."""
    raw = getattr(result, "raw", None) if isinstance(result, ChunkedIteratorResult) else result
    return raw if isinstance(raw, CursorResult) else None


def origins_of(result: CursorResult[Any]) -> list[tuple[int, int]]:
    """Return from which table and column, by their numbers, each value of a row is read.

    That is what PostgreSQL sends with the rows: psycopg keeps it in the result of libpq, psycopg2
    in the description. Zeros stand for what no column holds, and for all columns where the driver
    does not tell. SQLAlchemy's adapted cursors have that of the driver in `_cursor`.
    """
    cursor = getattr(result.context, "cursor", None)
    cursor = getattr(cursor, "_cursor", cursor)
    described = getattr(cursor, "pgresult", None)
    if described is not None:
        numbers = range(described.nfields)
        return [(described.ftable(i), described.ftablecol(i)) for i in numbers]
    return [
        (getattr(column, "table_oid", None) or 0, getattr(column, "table_column", None) or 0)
        for column in getattr(cursor, "description", None) or ()
    ]


def classes_called(path: str) -> list[type[Any]]:
    """Return the mapped classes of the process that `repr()` shows as `<class 'path'>`."""
    classes = [mapper.class_ for base in _all_registries() for mapper in mappers_of(base)]
    return [c for c in classes if path == f"{c.__module__}.{c.__qualname__}"]


def root_of(engine: Engine) -> Engine:
    """Return the engine that owns the pool: `execution_options()` makes another on top of it."""
    return cast(Engine, getattr(engine, "_proxied", engine))


def can_wait(engine: Engine) -> bool:
    """Tell whether a connection of the engine can be used here: an asynchronous one is awaited.

    Leans on `in_greenlet`, which is true inside whatever the asyncio extension awaits.
    """
    return not engine.dialect.is_async or in_greenlet()


def on_disposal(engine: Engine, disposed: Callable[[Engine], None]) -> None:
    """Have a function called when an engine is disposed of; `event.remove` undoes it.

    Any listener sets `_has_events`, which makes every statement on the engine ask for listeners
    of its execution, those of plain sessions too. Disposal does not look at it.
    """
    had_events = "_has_events" in vars(engine)
    event.listen(engine, "engine_disposed", disposed)
    if not had_events:
        # and not False: what all engines have must still be seen
        vars(engine).pop("_has_events", None)


def state_of(instance: object) -> InstanceState[Any]:
    """Return the state of an instance of a mapped class: `inspect()` without its dispatch."""
    return instance_state(instance)


See = Callable[[Exception], None]
"""Is given an exception before the program is."""


def watch_adding(session: Session, see: See) -> None:
    """Have a function see why an instance that has a key is refused: SQLAlchemy names the key.

    It is added by way of a relationship too, which no method of the session sees. Leans on what
    `watch_loading` leans on.
    """
    identity_map = cast(Any, session.identity_map)
    add_to, reference = type(identity_map).add, identity_map._wr

    def add(state: Any) -> bool:
        try:
            return cast(bool, add_to(reference(), state))
        except Exception as error:
            see(error)
            raise

    identity_map.add = add


def autoflush(session: Session) -> None:
    """Send what waits for a flush, as SQLAlchemy does before a statement of the ORM.

    Leans on `Session._autoflush`, which looks whether the session wants that.
    """
    session._autoflush()


def is_flushing(session: Session | None) -> bool:
    """Tell whether a session is in a flush, of which `before_flush` is the first thing."""
    return session is not None and session._flushing


def watch_loading(session: Session, loaded: Callable[[InstanceState[Any]], None]) -> None:
    """Have a function called with each instance that a load makes, before its row is put in.

    The event `loaded_as_persistent` tells of the same instances at three times the price. Leans
    on `_add_unpresent` of the identity map, which SQLAlchemy sets on the map itself too; it is
    written out here because a bound method would keep the map alive. A session that is emptied
    makes another map.
    """
    identity_map = cast(Any, session.identity_map)
    states, reference = identity_map._dict, identity_map._wr

    def add(state: Any, key: Any) -> None:
        # first, because it may refuse: what is in the map is found by the next load
        loaded(state)
        states[key] = state
        state._instance_dict = reference

    identity_map._add_unpresent = add


class RewrittenResult(ChunkedIteratorResult[Any]):
    """The rewritten rows of a Core result, which answers for everything but its rows."""

    def __getattr__(self, name: str) -> Any:
        if name in ("splice_horizontally", "splice_vertically"):
            raise UntranslatableError(
                f"{name}() would put together rows with their keys",
                "put together what all() returns, or use session.raw_keys() or "
                "execution_options(raw_keys=True) in trusted code",
            )
        return getattr(self.raw, name)


def yields_chunks(result: Result[Any]) -> bool:
    """Tell whether a result is the ORM's own, or one that `rewrite_rows` made of a Core result."""
    return isinstance(result, ChunkedIteratorResult)


def rewrite_rows(
    result: Result[Any], rewrite: Callable[[Iterator[Rows]], Iterator[Rows]], *, now: bool = False
) -> Result[Any]:
    """Make the chunks of rows that the result yields go through a function first.

    An ORM result keeps its identity, its metadata and its uniqueness rules; a Core result is
    continued by one with the same keys (as `Result.freeze()` does).

    Args:
        result: not consumed yet.
        rewrite: takes chunks, as they are fetched, and yields as many.
        now: fetch and rewrite all rows before returning, as SQLAlchemy's own `prebuffer_rows`.
    """
    if not isinstance(result, ChunkedIteratorResult):
        result = _of_chunks(cast("CursorResult[Any]", result))
    chunks = result.chunks
    if result._source_supports_scalars:  # the rows are values, such as a Bundle, without a tuple
        rewrite = partial(_rewrite_values, rewrite)
    fetched = list(rewrite(chunks(None))) if now else None
    result.chunks = lambda size: rewrite(chunks(size)) if fetched is None else iter(fetched)
    result.iterator = itertools.chain.from_iterable(result.chunks(result._yield_per))
    return result


def _of_chunks(cursor: CursorResult[Any]) -> ChunkedIteratorResult[Any]:
    rewritten = RewrittenResult(
        cursor._metadata._for_freeze(),
        lambda size: _chunks(cursor, size),
        raw=cursor,
        dynamic_yield_per=True,
    )
    rewritten._yield_per = cursor._yield_per
    return rewritten


def _rewrite_values(
    rewrite: Callable[[Iterator[Rows]], Iterator[Rows]], chunks: Iterator[Rows]
) -> Iterator[Rows]:
    for rows in rewrite([(value,) for value in chunk] for chunk in chunks):
        yield [value for (value,) in rows]


def _chunks(cursor: CursorResult[Any], size: int | None) -> Iterator[Rows]:
    if size is None:
        yield cursor.fetchall()
        return
    while chunk := cursor.fetchmany(size):
        yield chunk


def listen_first(connection: Connection, hear: Callable[[ExceptionContext], None]) -> None:
    """Have a function told of every error of an engine, before anybody else is.

    `event.listen` does not put listeners of this event first, though it takes `insert=True`; and
    `event.contains` goes by the `id()` of an engine, which may have been another's.
    """
    dialect = cast(Any, connection.dialect)
    if hear not in dialect.dispatch.handle_error:
        dialect._has_events = True
        _event_key(dialect, "handle_error", hear).base_listen(insert=True)


class WatchedSession(Session):
    """A `Session` whose exceptions are seen before the program sees them.

    All that executes, lazy loading included, goes through `_execute_internal`; what is raised
    while the ORM makes rows comes out of the result. Errors at commit come out of the connection.
    """

    _see: See | None = None

    def flush(self, objects: Sequence[Any] | None = None) -> None:
        """See `Session.flush`."""
        try:
            super().flush(objects)
        except Exception as error:
            if self._see is not None:
                self._see(error)
            raise

    def _execute_internal(self, *args: Any, **options: Any) -> Any:
        if self._see is None:
            return super()._execute_internal(*args, **options)
        try:
            return _watched_rows(super()._execute_internal(*args, **options), self._see)
        except Exception as error:
            self._see(error)
            raise


def _watched_rows(result: Any, see: See) -> Any:
    """Have seen what is raised while the ORM makes rows of a result: chunk by chunk."""
    if type(result) is ChunkedIteratorResult:
        chunks = result.chunks

        def watched(size: int | None) -> Iterator[Rows]:
            try:
                yield from chunks(size)
            except Exception as error:
                see(error)
                raise

        result.chunks = watched
        result.iterator = itertools.chain.from_iterable(watched(result._yield_per))
    return result


def pool_beside(pool: Pool) -> Pool:
    """Return a new pool with the settings and hooks of another, that may connect beside it.

    Both connect by one dialect, which is initialised in the first connection that any of them
    makes. The others of a pool wait for that on the lock of its `connect` event
    (`_exec_once_mutex`); `recreate()` copies the hooks and not the lock, so here it is shared.
    """
    beside = pool.recreate()
    theirs, ours = (cast(Any, p.dispatch).connect.for_modify(p.dispatch) for p in (pool, beside))
    ours._exec_once_mutex = theirs._get_exec_once_mutex()
    return beside


def invalidate_pool(connection: Connection, error: BaseException) -> None:
    """Have the pool replace this connection and all that are as old, each when it is next used.

    Leans on `Pool._invalidate`: SQLAlchemy does the same when a statement of its own finds the
    connection cut.
    """
    connection.engine.pool._invalidate(connection.connection, error)
    connection.invalidate(error)


def new_collection(attribute: Any) -> Any:
    """Return an empty collection as a relationship makes them; nobody is told of it."""
    return attribute.impl.collection_factory()


def is_unpopulated(key: Any) -> bool:
    """Tell whether a child of a dictionary collection has nothing to make its key of."""
    return key is NO_VALUE or key is Missing


def columns_by_getter(keyfunc: Any, mapper: Mapper[Any]) -> Sequence[Any] | None:
    """Return the columns that `column_keyed_dict()` makes keys of, `None` for other functions."""
    return keyfunc._cols(mapper) if isinstance(keyfunc, _PlainColumnGetter) else None


def columns_of_keys(keyfunc: Any, mapper: Mapper[Any]) -> Sequence[Any] | None:
    """Return the columns that keys of a dictionary collection are made of, if that can be told."""
    if isinstance(keyfunc, _AttrGetter):
        attribute = mapper.column_attrs.get(keyfunc.attr_name)
        return None if attribute is None else attribute.columns
    return columns_by_getter(keyfunc, mapper)
