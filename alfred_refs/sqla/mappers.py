"""Mapper and unit-of-work introspection.

What is mapped to what, and how instances and their collections know it.

What the ORM fills the attributes of instances with, where that is no column of their table.

Values that a column gets where a statement gives none.

In which order a flush saves instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from sqlalchemy import Column, ColumnDefault, Executable, Table, TextClause
from sqlalchemy.exc import CircularDependencyError
from sqlalchemy.orm import (
    MANYTOONE,
    FromStatement,
    InstanceState,
    Mapper,
    RelationshipProperty,
    UOWTransaction,
    registry,
    unitofwork,
)
from sqlalchemy.orm.base import (
    DEFAULT_STATE_ATTR,
    NO_VALUE,
    PASSIVE_NO_INITIALIZE,
    LoaderCallableStatus,
    PassiveFlag,
    instance_state,
    manager_of_class,
)
from sqlalchemy.orm.collections import collection_adapter
from sqlalchemy.orm.mapped_collection import _AttrGetter, _PlainColumnGetter
from sqlalchemy.orm.mapper import _all_registries
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BinaryExpression
from sqlalchemy.sql.selectable import Alias, AliasedReturnsRows, FromClause
from sqlalchemy.util.langhelpers import Missing

from alfred_refs.sqla.statements import options_of

STATE = DEFAULT_STATE_ATTR
"""The attribute of an instance that has its state."""

BOUNDARY = "alfred_refs"
"""What an instance belongs to is called so in its SQLAlchemy state, and in its pickle."""

State = InstanceState[Any]
"""What SQLAlchemy knows of an instance."""


def class_cache(class_: type[Any], keeper: object) -> dict[str, Any]:
    """Return what somebody keeps of a mapped class: it goes when the class goes, or who keeps it.

    It may refer to the class, which a `WeakKeyDictionary` would never let go of for that: it is
    on the class itself, out of sight, and weak is who keeps it. Leans on the class manager, which
    SQLAlchemy makes anew for a class that is mapped anew.
    """
    manager: Any = manager_of_class(class_)
    try:
        kept = manager.alfred_refs
    except AttributeError:
        # one of two threads that come at once is the first
        kept = vars(manager).setdefault("alfred_refs", WeakKeyDictionary())
    try:
        return cast("dict[str, Any]", kept[keeper])
    except KeyError:
        return cast("dict[str, Any]", kept.setdefault(keeper, {}))


def mappers_of(base: registry) -> list[Mapper[Any]]:
    """Return the mappers of a declarative base that are there.

    Its own `mappers` fails, in 2.1, for a class that is mapped when all mappers are configured,
    as that of an `AbstractConcreteBase` is.
    """
    return [manager.mapper for manager in base._managers if manager.is_mapped]


def mappers() -> Iterator[Mapper[Any]]:
    """Yield the mappers of all declarative bases of the process."""
    for base in _all_registries():
        yield from mappers_of(base)


def mapper_of_table(table: Table) -> Mapper[Any] | None:
    """Return the mapper of the class that is declared on the table, whatever its base.

    Leans on `_all_registries`, which lists the declarative bases of the process: a Core statement
    names a table and not a class. Of several classes on one table, the one none of them inherits
    from.
    """
    declared = [mapper for mapper in mappers() if mapper.local_table is table]
    return min(declared, key=lambda mapper: len(list(mapper.iterate_to_root())), default=None)


def is_type_bound(constraint: Any) -> bool:
    """Tell whether a constraint was made by the type of its column, an `Enum` or a `Boolean`.

    Leans on `_type_bound` of constraints: PostgreSQL has no such constraint of a boolean.
    """
    return bool(getattr(constraint, "_type_bound", False))


def equalities_in(condition: Any, table: Table) -> list[tuple[Any, Any]]:
    """Return the columns of a table that a condition compares, each with what it is equal to."""
    equal = [e for e in visitors.iterate(condition) if isinstance(e, BinaryExpression)]
    sides = [pair for e in equal for pair in ((e.left, e.right), (e.right, e.left))]
    return [(ours, theirs) for ours, theirs in sides if ours.table is table]


def tables() -> Iterator[Table]:
    """Yield the tables of all declarative bases of the process."""
    seen = {id(registry.metadata): registry.metadata for registry in _all_registries()}
    for metadata in seen.values():
        yield from metadata.tables.values()


def classes_at_path(path: str) -> list[type[Any]]:
    """Return the mapped classes of the process that `repr()` shows as `<class 'path'>`."""
    classes = (mapper.class_ for mapper in mappers())
    return [c for c in classes if path == f"{c.__module__}.{c.__qualname__}"]


def is_instance(value: object) -> bool:
    """Tell an instance of a mapped class, by the attribute that has its state."""
    return hasattr(value, STATE)


def state_of(instance: object) -> InstanceState[Any]:
    """Return the state of an instance of a mapped class: `inspect()` without its dispatch."""
    return instance_state(instance)


def committed_values(state: InstanceState[Any]) -> dict[str, Any]:
    """Return what an instance had loaded before it was changed, until a flush is over.

    Leans on `committed_state`, which has what `attributes.get_history()` would look up one by one.
    """
    before = {**state.dict, **state.committed_state}
    return {
        name: value
        for name, value in before.items()
        if not isinstance(value, LoaderCallableStatus)
    }


def deannotated_table(table: Table) -> Table:
    """Return a table as it was declared: in a statement of the ORM it has annotations."""
    return table._deannotate()


def underlying_table(from_: Any) -> Table | None:
    """Return the table that a statement means, though by an alias; `None`: it means no table."""
    while isinstance(from_, AliasedReturnsRows):
        from_ = from_.element
    return deannotated_table(from_) if isinstance(from_, Table) else None


def attributes_of(mapper: Mapper[Any], columns: Iterable[Any]) -> dict[Any, str]:
    """Return the names of the attributes that have columns, as far as there are any."""
    return {
        column: mapper._columntoproperty[column].key
        for column in columns
        if column in mapper._columntoproperty
    }


def flushed_states(
    flush: UOWTransaction,
) -> tuple[list[InstanceState[Any]], list[InstanceState[Any]]]:
    """Return the states of the instances that a flush has saved, and those it has deleted.

    Leans on `UOWTransaction.states`, which has those that cascades and other listeners added.
    """
    states = [(state, deleted) for state, (deleted, listed) in flush.states.items() if not listed]
    saved = [state for state, deleted in states if not deleted]
    return saved, [state for state, deleted in states if deleted]


def added_states(state: InstanceState[Any], relationship: str) -> list[InstanceState[Any]]:
    """Return the states of the instances that a relationship has new, without loading any."""
    history = state.get_history(relationship, PASSIVE_NO_INITIALIZE)
    return [instance_state(each) for each in history.added or () if each is not None]


# with which `UOWTransaction.get_attribute_history` loads
_AS_FLUSHED = PassiveFlag.PASSIVE_OFF | PassiveFlag.LOAD_AGAINST_COMMITTED | PassiveFlag.NO_RAISE


def related_states(state: InstanceState[Any], relationship: str) -> list[InstanceState[Any]]:
    """Return the states of what a relationship leads to, loaded as a flush that deletes does."""
    impl = cast(Any, state.manager[relationship]).impl
    history = impl.get_history(state, state.dict, _AS_FLUSHED)
    return [instance_state(each) for each in history.sum() if each is not None]


def orphans_of(state: InstanceState[Any]) -> Iterator[Any]:
    """Yield the instances that a flush of another one deletes, because that has let go of them."""
    for each in state.mapper.relationships:
        if each.cascade.delete_orphan and not each.viewonly:
            impl = cast(Any, state.manager[each.key]).impl
            # such a flush loads what was referred to, and no collection
            is_one = each.direction is MANYTOONE
            flags = _AS_FLUSHED if is_one else PASSIVE_NO_INITIALIZE
            history = impl.get_history(state, state.dict, flags)
            for other in history.deleted or ():
                if other is not None and not impl.hasparent(instance_state(other)):
                    yield other


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


def reverse_of(relationship: RelationshipProperty[Any]) -> list[str]:
    """Return the relationships of the other class that change along with one.

    Leans on `_reverse_property`, which has those of `backref` and `back_populates` alike.
    """
    return [each.key for each in relationship._reverse_property]


def set_related(instance: Any, relationship: str, other: Any) -> None:
    """Relate an instance to another one, whatever kind of collection that is kept in."""
    prop = instance_state(instance).mapper.relationships[relationship]
    if not prop.uselist:
        setattr(instance, relationship, other)
    elif prop.lazy in ("dynamic", "write_only"):
        getattr(instance, relationship).add(other)
    else:
        adapter = collection_adapter(getattr(instance, relationship))
        cast(Any, adapter).append_with_event(other)


Filled = tuple[Mapper[Any], str, Any]
"""A mapper, the name of one of its attributes, and the expression that it is filled with."""


def populated_attributes(statement: Executable) -> Iterator[Filled]:
    """Yield what attributes are filled with by `from_statement()`, and by aliases of subqueries.

    Both go by names, too: an expression called as a column fills its attribute.
    """
    if isinstance(statement, FromStatement):
        yield from _by_name(statement)
    elements = getattr(statement, "_raw_columns", ())
    entities = [each for each in elements if isinstance(each, FromClause)]
    found = [each._annotations.get("parententity") for each in entities]
    for option in options_of(statement):
        for load in getattr(option, "context", ()):
            found += load.path.path
    for alias in dict.fromkeys(each for each in found if isinstance(each, AliasedInsp)):
        yield from _by_alias(alias)


def is_from_text(statement: Executable) -> bool:
    """Tell whether instances are loaded by text that does not say what its columns are."""
    return isinstance(statement, FromStatement) and isinstance(statement.element, TextClause)


def names_of_attributes(statement: Executable) -> Iterator[tuple[Mapper[Any], str, set[str]]]:
    """Yield the attributes that `from_statement()` fills, with the names that it goes by."""
    for entity in cast(Any, statement)._raw_columns:
        inspected: Any = entity._annotations.get("parententity")
        if inspected is None:
            continue
        for mapper in inspected.mapper.self_and_descendants:
            for attribute in mapper.column_attrs:
                names = {name for c in attribute.columns for name in (c.key, c.name)}
                yield mapper, attribute.key, names


def _by_name(statement: FromStatement[Any]) -> Iterator[Filled]:
    element: Any = statement.element
    columns = list(getattr(element, "exported_columns", ()))
    for mapper, key, names in names_of_attributes(statement):
        for column in columns:
            if not names.isdisjoint((column.key, column.name)):
                yield mapper, key, column


def _by_alias(alias: AliasedInsp[Any]) -> Iterator[Filled]:
    selectable: Any = alias.selectable
    if isinstance(selectable, Alias) and isinstance(selectable.element, Table):
        return
    for attribute in alias.mapper.column_attrs:
        column = attribute.columns[0]
        filled = selectable.corresponding_column(column)
        if filled is None and alias._adapt_on_names:
            filled = selectable.exported_columns.get(column.key)
        if filled is not None:
            yield alias.mapper, attribute.key, filled


def set_default(column: Column[Any], make: Callable[[], Any]) -> None:
    """Have new rows get what a function makes, of a column that is made already.

    Leans on `SchemaItem._set_parent_with_dispatch`, by which `Column` takes its `default`.
    """
    ColumnDefault(make)._set_parent_with_dispatch(column)


# 2.1 has underscores before the names of 2.0
_names: Any = unitofwork
_SaveAll = getattr(_names, "_SaveUpdateAll", None) or _names.SaveUpdateAll
_SaveOne = getattr(_names, "_SaveUpdateState", None) or _names.SaveUpdateState


class _InOrder:
    """An action that a flush executes before it sorts its work, once all instances are known."""

    def __init__(self, pairs: Iterable[tuple[State, State]]) -> None:
        self._pairs = list(pairs)

    def execute(self, flush: UOWTransaction) -> bool:
        """Add what the work depends on; tell that no more instances are to be looked at."""
        saved = (False, False)  # neither deleted nor only listed
        for first, then in self._pairs:
            if flush.states.get(first) == flush.states.get(then) == saved:
                before, after = (_SaveAll(flush, s.mapper.base_mapper) for s in (first, then))
                # what depends on itself is a circle, and so is saved one by one
                flush.dependencies.update({(before, before), (after, after), (before, after)})
                flush.dependencies.add((_SaveOne(flush, first), _SaveOne(flush, then)))
        return False


def save_in_order(flush: UOWTransaction, pairs: Iterable[tuple[State, State]]) -> None:
    """Have instances saved before others that name them by value, without a relationship.

    The unit of work sorts what relationships connect, and nothing else. Leans on its
    `presort_actions` and `dependencies`, which relationships add to in the same way.

    Args:
        flush: which has not begun to sort.
        pairs: what is to be saved first, and what after it; no circle.
    """
    flush.presort_actions["alfred_refs", "order"] = _InOrder(pairs)


def states_in_cycle(error: CircularDependencyError) -> list[State]:
    """Return the instances of which a flush has found none to be saved first.

    Each is in an action of the unit of work, which has its state.
    """
    found = (getattr(action, "state", None) for action in error.cycles)
    return [state for state in found if state is not None]
