"""Mappers, instance states and the unit of work, beyond SQLAlchemy's public functions.

| about | functions |
| --- | --- |
| all mappers of the process | `mappers`, `mapper_of_table`, `tables`, `classes_at_path` |
| a class or table | `class_cache`, `attributes_of`, `underlying_table`, `is_type_bound` |
| an instance | `state_of`, `is_instance`, `committed_values` |
| a relationship | `reverse_of`, `set_related`, `new_collection`, `columns_of_keys` |
| a SELECT of entities | `populated_attributes`, `names_of_attributes`, `is_from_text` |
| a flush | `flushed_states`, `added_states`, `related_states`, `orphans_of`, `save_in_order` |

The unit of work sorts mappers by their relationships only. `save_in_order` adds instances that
refer to each other by foreign key values alone.

Example:
    >>> mapper_of_table(Recipe.__table__) is Recipe.__mapper__
    True
    >>> soup = session.get(Recipe, "recipe_1")
    >>> soup.name = "Broth"
    >>> committed_values(state_of(soup))["name"]
    'Soup'
    >>> reverse_of(Recipe.lines.property)
    ['recipe']

No function emits SQL, except `related_states` and `orphans_of`, which load relationships as a
flush does. A class that is mapped imperatively is found like any other; one whose mapper is only
configured later (`AbstractConcreteBase`) is not, until then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from sqlalchemy import (
    Column,
    ColumnDefault,
    Executable,
    ForeignKeyConstraint,
    Table,
    TextClause,
    TextualSelect,
)
from sqlalchemy.exc import CircularDependencyError
from sqlalchemy.ext.mutable import Mutable
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
from sqlalchemy.orm.attributes import set_attribute
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
from sqlalchemy.orm.exc import StaleDataError
from sqlalchemy.orm.mapped_collection import KeyFuncDict, _AttrGetter, _PlainColumnGetter
from sqlalchemy.orm.mapper import _all_registries
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import BinaryExpression
from sqlalchemy.sql.selectable import Alias, AliasedReturnsRows, FromClause
from sqlalchemy.util.langhelpers import Missing

from alfred_refs.sqla.statements import options_of

# All mappers of the process


def mappers_of(base: registry) -> list[Mapper[Any]]:
    """Return the mappers of a declarative base, without classes that are not mapped yet."""
    # Private: `registry._managers`. In 2.1, `registry.mappers` raises for a class that is mapped
    # when all mappers are configured. Pinned by `test_a_class_that_is_mapped_later_is_left_out`.
    return [manager.mapper for manager in base._managers if manager.is_mapped]


def mappers() -> Iterator[Mapper[Any]]:
    """Yield the mappers of all declarative bases of the process."""
    # Private: `_all_registries`. A Core statement names a table, and nothing public leads from
    # there to a class. Pinned by `test_the_class_of_a_table_is_found_whatever_its_base`.
    for base in _all_registries():
        if not isinstance(base, _AssociationRegistry):
            yield from mappers_of(base)


class _AssociationRegistry(registry):
    """Holds the class of an association table: to the application, the table has no class."""


def association_class(table: Table, key: Sequence[Column[Any]]) -> type[Any]:
    """Return a new class that is mapped to an association table, without relationships.

    It is in a registry of its own, which is collected with the class; `mappers` leaves it out.
    SQLAlchemy allows a table to be mapped as well as `secondary`, and warns only of relationships
    that write the same columns. Pinned by `test_an_association_table_is_mapped_without_a_warning`.

    Args:
        table: the `secondary` of relationships.
        key: the columns that identify a row, if the table has no primary key.
    """
    base = _AssociationRegistry()
    class_ = type(table.name, (), {"__init__": base.constructor, "__module__": __name__})
    # equal rows of a table without a primary key are one instance, and deleted together
    base.map_imperatively(
        class_, table, primary_key=[*(table.primary_key or key)], confirm_deleted_rows=False
    )
    return class_


def is_association(mapper: Mapper[Any]) -> bool:
    """Return whether a mapper was made by `association_class`."""
    return isinstance(mapper.registry, _AssociationRegistry)


def mapper_of_table(table: Table) -> Mapper[Any] | None:
    """Return the mapper of the class that is declared on a table, or `None`.

    With single-table inheritance that is the mapper of the topmost class.
    """
    declared = [mapper for mapper in mappers() if mapper.local_table is table]
    return min(declared, key=lambda mapper: len(list(mapper.iterate_to_root())), default=None)


def root_of(mapper: Mapper[Any]) -> Mapper[Any]:
    """Return the mapper whose primary key identifies the rows: the base, or a concrete class."""
    while mapper.inherits is not None and not mapper.concrete:
        mapper = mapper.inherits
    return mapper


def is_kind_of(mapper: Mapper[Any], base: Mapper[Any]) -> bool:
    """Return whether the rows of a class are rows of another: of itself, or of a base class.

    The rows of a concrete subclass are so only if the base class selects from a union with them.
    """
    is_same = root_of(mapper) is root_of(base) or mapper in base.with_polymorphic_mappers
    return is_same and mapper.isa(base)


def tables() -> Iterator[Table]:
    """Yield the tables of all declarative bases of the process, unmapped ones included."""
    unique = {id(registry.metadata): registry.metadata for registry in _all_registries()}
    for metadata in unique.values():
        yield from metadata.tables.values()


def classes_at_path(path: str) -> list[type[Any]]:
    """Return the mapped classes whose `repr()` is `<class 'path'>`, as errors show them."""
    classes = (mapper.class_ for mapper in mappers())
    return [c for c in classes if path == f"{c.__module__}.{c.__qualname__}"]


# One class, table or column


def class_cache(class_: type[Any], user: object) -> dict[str, Any]:
    """Return a dictionary of one user for one mapped class, deleted with either.

    Its values may refer to the class, which a `WeakKeyDictionary` of classes would then keep
    alive. So the dictionary is kept with the class, weakly by user.
    """
    # Private: an attribute of the class manager; a class that is mapped again gets a new one.
    # Pinned by `test_what_is_kept_with_a_class_goes_with_it_or_with_who_keeps_it`.
    manager: Any = manager_of_class(class_)
    try:
        caches = manager.alfred_refs
    except AttributeError:
        # atomic: of two threads, both get the dictionary of the first
        caches = vars(manager).setdefault("alfred_refs", WeakKeyDictionary())
    try:
        return cast("dict[str, Any]", caches[user])
    except KeyError:
        return cast("dict[str, Any]", caches.setdefault(user, {}))


def attributes_of(mapper: Mapper[Any], columns: Iterable[Any]) -> dict[Any, str]:
    """Return the names of the attributes that columns are mapped to, by column.

    A column that is not mapped is left out.
    """
    # Private: `_columntoproperty`. The public `get_property_by_column` raises instead of returning
    # nothing for such a column.
    return {
        column: mapper._columntoproperty[column].key
        for column in columns
        if column in mapper._columntoproperty
    }


def deannotated_table(table: Table) -> Table:
    """Return a table as it was declared: ORM statements contain annotated copies."""
    return table._deannotate()


def underlying_table(from_: Any) -> Table | None:
    """Return the table that a FROM element is, or is an alias of; otherwise `None`."""
    while isinstance(from_, AliasedReturnsRows):
        from_ = from_.element
    return deannotated_table(from_) if isinstance(from_, Table) else None


def is_type_bound(constraint: Any) -> bool:
    """Return whether the type of a column made a constraint: an `Enum` or a `Boolean`."""
    # Private: `_type_bound`. PostgreSQL creates no CHECK for a `Boolean`.
    # Pinned by `test_constraints_of_types_are_known`.
    return bool(getattr(constraint, "_type_bound", False))


def equalities_in(condition: Any, table: Table) -> list[tuple[Any, Any]]:
    """Return the comparisons in a join condition with columns of a table, as (column, operand)."""
    comparisons = [e for e in visitors.iterate(condition) if isinstance(e, BinaryExpression)]
    sides = [pair for c in comparisons for pair in ((c.left, c.right), (c.right, c.left))]
    return [
        (column, operand) for column, operand in sides if getattr(column, "table", None) is table
    ]


def set_default(column: Column[Any], function: Callable[[], Any]) -> None:
    """Set the Python-side default of a column that belongs to a table already."""
    # Private: `SchemaItem._set_parent_with_dispatch`, by which `Column(default=...)` does it.
    ColumnDefault(function)._set_parent_with_dispatch(column)


def drop_foreign_key(constraint: ForeignKeyConstraint) -> None:
    """Remove a foreign key from the table that has it."""
    constraint.table.constraints.discard(constraint)
    for element in constraint.elements:
        constraint.table.foreign_keys.discard(element)
        element.parent.foreign_keys.discard(element)


# Instances

STATE = DEFAULT_STATE_ATTR
"""The attribute of an instance that has its state."""

BOUNDARY = "alfred_refs"
"""The attribute of a state for the boundary of its instance; also its key in pickles."""

State = InstanceState[Any]
"""The `InstanceState` of any mapped class."""


def is_instance(value: object) -> bool:
    """Return whether a value is an instance of a mapped class."""
    return hasattr(value, STATE)


state_of: Callable[[object], State] = instance_state
"""Returns the state of an instance of a mapped class: `inspect()` without its dispatch."""


def replace_value(state: State, name: str, value: Any) -> None:
    """Replace the value of an attribute that a flush is about to send.

    Nothing changes for the unit of work, unless the attribute tracks changes in place: it gets
    another object to track then.
    """
    if isinstance(state.dict.get(name), Mutable):
        set_attribute(state.obj(), name, value)
    else:
        state.dict[name] = value


def committed_values(state: InstanceState[Any]) -> dict[str, Any]:
    """Return the loaded values of an instance as they were before they were changed.

    For all attributes at once: `attributes.get_history()` takes one. After a flush these are the
    values that it has saved.
    """
    values = {**state.dict, **state.committed_state}
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, LoaderCallableStatus)  # no value was loaded
    }


# Relationships and their collections


def reverse_of(relationship: RelationshipProperty[Any]) -> list[str]:
    """Return the names of the relationships on the other class that change with this one."""
    # Private: `_reverse_property`; public attributes have either `backref` or `back_populates`.
    # Pinned by `test_a_relationship_knows_what_changes_along`.
    return [each.key for each in relationship._reverse_property]


def set_related(instance: Any, relationship: str, other: Any) -> None:
    """Set a relationship to an instance, or add the instance to its collection of any class."""
    prop = instance_state(instance).mapper.relationships[relationship]
    if not prop.uselist:
        setattr(instance, relationship, other)
    elif prop.lazy in ("dynamic", "write_only"):
        getattr(instance, relationship).add(other)
    else:
        adapter = collection_adapter(getattr(instance, relationship))
        cast(Any, adapter).append_with_event(other)


def new_collection(attribute: Any) -> Any:
    """Return an empty collection of the class that a relationship uses, without any event.

    `None` if its attribute has no collection: "dynamic" and "write_only" relationships, and
    `Mapped[list[X]]` with `uselist=False`, have a `collection_class` nonetheless.
    """
    factory = getattr(attribute.impl, "collection_factory", None)
    return None if factory is None else factory()


def is_unpopulated(key: Any) -> bool:
    """Return whether a key function of a dictionary collection found no value for the key."""
    return key is NO_VALUE or key is Missing


def keeps_unpopulated(collection: KeyFuncDict[Any, Any], child: object) -> bool:
    """Return whether a collection keeps a loaded child that has no value for its key.

    SQLAlchemy warns of one that it keeps.
    """
    # Private: the warning and its text.
    # Pinned by `test_a_loaded_child_without_a_key_is_handled_as_by_sqlalchemy`.
    if collection.ignore_unpopulated_attribute:
        return False
    collection._raise_for_unpopulated(child, warn_only=True)
    return True


def columns_by_getter(keyfunc: Any, mapper: Mapper[Any]) -> Sequence[Any] | None:
    """Return the key columns of a `column_keyed_dict()`, or `None` for other key functions."""
    # Private: the class of its key function.
    # Pinned by `test_a_dictionary_collection_tells_what_its_keys_are_made_of`.
    return keyfunc._cols(mapper) if isinstance(keyfunc, _PlainColumnGetter) else None


def columns_of_keys(keyfunc: Any, mapper: Mapper[Any]) -> Sequence[Any] | None:
    """Return the columns from which a dictionary collection makes keys, or `None` if unknown.

    They are known for `column_keyed_dict()` and `attribute_keyed_dict()`.
    """
    if isinstance(keyfunc, _AttrGetter):
        attribute = mapper.column_attrs.get(keyfunc.attr_name)
        return None if attribute is None else attribute.columns
    return columns_by_getter(keyfunc, mapper)


# Attributes that a statement populates from something else than their own columns

Populated = tuple[Mapper[Any], str, Any]
"""A mapper, the name of one of its attributes, and the expression that populates it."""


def populated_attributes(statement: Executable) -> Iterator[Populated]:
    """Yield the attributes that `from_statement()` or an alias of a subquery populates.

    Both match columns to attributes by name, among others: any expression that is labelled like a
    column populates its attribute.
    """
    if isinstance(statement, FromStatement):
        columns = list(getattr(statement.element, "exported_columns", ()))
        for mapper, key, names in names_of_attributes(statement):
            for column in columns:
                if not names.isdisjoint((column.key, column.name)):
                    yield mapper, key, column
    # Private: `_raw_columns` and annotations, from the statement; paths, from loader options.
    elements = getattr(statement, "_raw_columns", ())
    entities = [each for each in elements if isinstance(each, FromClause)]
    inspected = [each._annotations.get("parententity") for each in entities]
    for option in options_of(statement):
        for load in getattr(option, "context", ()):
            inspected += load.path.path
    for alias in dict.fromkeys(each for each in inspected if isinstance(each, AliasedInsp)):
        yield from _populated_by_alias(alias)


def _populated_by_alias(alias: AliasedInsp[Any]) -> Iterator[Populated]:
    selectable: Any = alias.selectable
    if isinstance(selectable, Alias) and isinstance(selectable.element, Table):
        return
    for attribute in alias.mapper.column_attrs:
        column = attribute.columns[0]
        expression = selectable.corresponding_column(column)
        if expression is None and alias._adapt_on_names:
            expression = selectable.exported_columns.get(column.key)
        if expression is not None:
            yield alias.mapper, attribute.key, expression


def names_of_attributes(statement: Executable) -> Iterator[tuple[Mapper[Any], str, set[str]]]:
    """Yield the attributes that `from_statement()` may populate, with the names it matches."""
    for entity in cast(Any, statement)._raw_columns:
        inspected: Any = entity._annotations.get("parententity")
        if inspected is None:
            continue
        for mapper in inspected.mapper.self_and_descendants:
            for attribute in mapper.column_attrs:
                names = {name for c in attribute.columns for name in (c.key, c.name)}
                yield mapper, attribute.key, names


def is_from_text(statement: Executable) -> bool:
    """Return whether `from_statement()` loads instances by a `text()`."""
    is_text = isinstance(getattr(statement, "element", None), TextClause | TextualSelect)
    return is_text and isinstance(statement, FromStatement)


# The unit of work


def flushed_states(
    flush: UOWTransaction,
) -> tuple[list[InstanceState[Any]], list[InstanceState[Any]]]:
    """Return the states that a flush has saved, and those that it has deleted.

    They include states that cascades and listeners have added, which `Session.new`, `dirty` and
    `deleted` do not list.
    """
    # A state that is "listonly" takes part in the sort, and has no row to write.
    states = [
        (state, deleted) for state, (deleted, listonly) in flush.states.items() if not listonly
    ]
    saved = [state for state, deleted in states if not deleted]
    return saved, [state for state, deleted in states if deleted]


def added_states(state: InstanceState[Any], relationship: str) -> list[InstanceState[Any]]:
    """Return the states of the instances that were added to a relationship; loads nothing."""
    history = state.get_history(relationship, PASSIVE_NO_INITIALIZE)
    return [instance_state(each) for each in history.added or () if each is not None]


# the flags of `UOWTransaction.get_attribute_history`
_AS_FLUSHED = PassiveFlag.PASSIVE_OFF | PassiveFlag.LOAD_AGAINST_COMMITTED | PassiveFlag.NO_RAISE


def related_states(state: InstanceState[Any], relationship: str) -> list[InstanceState[Any]]:
    """Return the states of all instances in a relationship, loaded as for a delete cascade."""
    impl = cast(Any, state.manager[relationship]).impl
    history = impl.get_history(state, state.dict, _AS_FLUSHED)
    return [instance_state(each) for each in history.sum() if each is not None]


def orphans_of(state: InstanceState[Any]) -> Iterator[Any]:
    """Yield the instances that "delete-orphan" cascades of an instance will delete."""
    for each in state.mapper.relationships:
        if each.cascade.delete_orphan and not each.viewonly:
            impl = cast(Any, state.manager[each.key]).impl
            # a flush loads the previous value of a many-to-one, and no collection
            flags = _AS_FLUSHED if each.direction is MANYTOONE else PASSIVE_NO_INITIALIZE
            history = impl.get_history(state, state.dict, flags)
            for other in history.deleted or ():
                if other is not None and not impl.hasparent(instance_state(other)):
                    yield other


# without underscores in 2.0
_unitofwork: Any = unitofwork
_SaveUpdateAll = getattr(_unitofwork, "_SaveUpdateAll", None) or _unitofwork.SaveUpdateAll
_SaveUpdateState = getattr(_unitofwork, "_SaveUpdateState", None) or _unitofwork.SaveUpdateState


class _SaveInOrder:
    """A presort action: runs in a flush once all its states are known, before it sorts them."""

    def __init__(self, pairs: Iterable[tuple[State, State]]) -> None:
        self._pairs = list(pairs)

    def execute(self, flush: UOWTransaction) -> bool:
        """Add the dependencies; return that no states were added, which would be sorted again."""
        saved = (False, False)  # neither deleted nor listonly
        for first, second in self._pairs:
            if flush.states.get(first) == flush.states.get(second) == saved:
                before, after = (
                    _SaveUpdateAll(flush, s.mapper.base_mapper) for s in (first, second)
                )
                # a dependency on itself is a cycle, and a cycle is saved state by state
                flush.dependencies.update({(before, before), (after, after), (before, after)})
                flush.dependencies.add(
                    (_SaveUpdateState(flush, first), _SaveUpdateState(flush, second))
                )
        return False


def save_in_order(flush: UOWTransaction, pairs: Iterable[tuple[State, State]]) -> None:
    """Save instances before others that refer to them by value, without a relationship.

    Args:
        flush: not sorted yet, as in `before_flush`.
        pairs: the state to save first, and the state to save after it; without a cycle.
    """
    # Private: `presort_actions` and `dependencies`, which relationships use in the same way.
    # Pinned by `test_rows_that_name_others_by_value_can_be_saved_after_them`.
    flush.presort_actions["alfred_refs", "order"] = _SaveInOrder(pairs)


def states_in_cycle(error: CircularDependencyError) -> list[State]:
    """Return the states that depend on each other in a circle, which no flush can save."""
    states = (getattr(action, "state", None) for action in error.cycles)
    return [state for state in states if state is not None]


# Pinned by `test_a_link_that_is_there_twice_is_deleted_before_the_rows_at_its_ends`
_STALE_LINKS = re.compile(
    r"DELETE statement on table '(.+)' expected to delete (\d+) row\(s\); Only (\d+) were matched"
)


def repeated_links_in(error: StaleDataError) -> str | None:
    """Return the name of the secondary table of which a flush deleted more rows than it has read.

    Without a primary key a table may have a row twice. `None` for other errors.
    """
    found = _STALE_LINKS.match(str(error))
    return found[1] if found is not None and int(found[3]) > int(found[2]) else None
