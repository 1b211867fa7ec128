"""Other rows that a delete or an update changes.

`CascadeSearch` follows the `edges` from the rows of a call, to any depth, before the write: one
statement for each foreign key or relationship to a class. `CascadeReport` refuses the call if it
would change a row that the model may not change, calls the hooks of the other rows, and returns
their refs:

>>> only = {"field": "id", "op": "=", "value": "recipe_1"}
>>> given = {"table": "recipes", "filters": [only], "expect": "Soup"}
>>> toolset.call(session, "db_delete", given)
{'table': 'recipes', 'deleted': ['recipe_1'], 'count': 1, 'deleted_with': ['line_1', 'line_2'],
'_deleted_labels': ['Soup']}

`Changes` collects the writes of one call, so that hooks see every row that a call changes: rows of
a subclass that filters match, rows that a draft moves, rows that are deleted or unlinked.

Limits: changes that the application's hooks, events and triggers make are not searched. Rows of
tables that the model may not use follow the mapping and the schema, and are not named in answers.
If only the ORM's default would unlink such a row, the call is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from sqlalchemy import Column, FetchedValue, Select, Table, func, inspect, select, true, tuple_
from sqlalchemy.orm import MANYTOONE, ONETOMANY, Mapper, RelationshipProperty, selectinload

from alfred_refs import sqla
from alfred_refs.errors import UnconfinedError
from alfred_refs.mapping import EntityKey
from alfred_refs.positions.editing import set_values
from alfred_refs.session import note_deleted
from alfred_refs.tools.answers import shape_of
from alfred_refs.tools.arguments import DbCreate, DbDelete, DbEditList, DbUpdate
from alfred_refs.tools.call import Call
from alfred_refs.tools.edges import Edge, edges_by_update, edges_to, links_of
from alfred_refs.tools.errors import foreign_row, still_referenced, too_many_rows
from alfred_refs.tools.hooks import Row, Writing
from alfred_refs.tools.payload import Record
from alfred_refs.tools.serialization import may_be_restored, restore
from alfred_refs.tools.tables import ToolTable, Verb

WriteArguments = DbCreate | DbUpdate | DbDelete | DbEditList


class Changes:
    """The writes of one call to rows that its arguments do not name."""

    def __init__(self, call: Call, arguments: WriteArguments) -> None:
        self._call = call
        self._arguments = arguments
        # writes whose hooks were called, except the write in the arguments
        self._writes: list[tuple[ToolTable, Writing, Sequence[Any]]] = []

    def by_table(self, instances: Iterable[Any]) -> Iterator[tuple[ToolTable, list[Any]]]:
        """Group rows by the table of their class, or of the nearest listed base class."""
        groups: dict[ToolTable, list[Any]] = {}
        for instance in instances:
            table = self._call.setting.tables.of_model(type(instance))
            if table is None:
                raise foreign_row(None, None)
            groups.setdefault(table, []).append(instance)
        yield from groups.items()

    def update(
        self, table: ToolTable, instances: Sequence[Any], record: Record, fixed: Iterable[str]
    ) -> Record:
        """Check that a model may change rows of a table, call the hooks, and return the record.

        `fixed` has the names of the columns that the model or the mapping sets; hooks may add
        others.
        """
        check_update(table, fixed)
        return self.call_hooks(table, "update", instances, [record]).records[0]

    def call_hooks(
        self,
        table: ToolTable,
        verb: Verb,
        instances: Sequence[Any],
        records: Iterable[Record] = (),
        refs: Sequence[str] | None = None,
    ) -> Writing:
        """Call the hooks of a table before the call writes rows that its arguments do not name.

        Args:
            table: the table.
            verb: what the call does to the rows.
            instances: the loaded rows; for new rows, a list that is filled later.
            records: the values to write.
            refs: the refs of the rows, if they are known.
        """
        records = [*records]
        writing = Writing(self._call.session, table.model, verb, self._arguments, records)
        hooks = self._call.setting.hooks_of(table)
        if hooks:
            writing.refs = self._call.refs_of(instances, table) if refs is None else refs
            with self._call.session.no_autoflush:  # unchecked changes must not be flushed
                for each in hooks:
                    each.before_write(writing)
            self.add(table, writing, instances)
        return writing

    def add(self, table: ToolTable, writing: Writing, instances: Sequence[Any]) -> None:
        """Add a write whose hooks were called before it, for `finish_hooks`."""
        self._writes.append((table, writing, instances))

    def finish_hooks(self) -> list[str]:
        """Call `after_write` for all rows of these writes, and return the hooks' notes."""
        notes: list[str] = []
        for table, writing, instances in self._writes:
            rows: list[Row] = []
            if writing.verb != "delete":
                shape = shape_of(table, None)
                rows, _ = self._call.reload_rows(instances, shape, self._call.room())
            for hooks in self._call.setting.hooks_of(table):
                hooks.after_write(writing, rows)
            notes += writing.notes
        return notes


def check_update(table: ToolTable, names: Iterable[str]) -> None:
    """Check that a model may change some columns of existing rows."""
    table.check("update")
    for name in names:
        if name not in table.updatable:
            raise table.unwritable_column(name, table.updatable)


def check_create(table: ToolTable, names: Iterable[str]) -> None:
    """Check that a model may create rows whose position or parent columns are filled in.

    Hidden columns are always filled in.
    """
    for name in names:
        if name in table.columns and name not in table.creatable:
            raise table.unwritable_column(name, table.creatable)


def assign_changes(instances: Iterable[Any], record: Mapping[str, Any]) -> None:
    """Assign values to attributes of instances; documents keep stored values shown as text."""
    for instance in instances:
        set_values(instance, restored_values(instance, record))


def restored_values(instance: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the values in documents that are shown as text; see `restore`."""
    return {
        name: restore(value, getattr(instance, name)) if may_be_restored(value) else value
        for name, value in values.items()
    }


def replaced_rows(instance: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield the rows that an instance no longer refers to, with their nulled foreign keys.

    Setting a one-to-one relationship unlinks the previous row.
    """
    state = sqla.state_of(instance)
    for each in state.mapper.relationships:
        if each.direction is ONETOMANY and not each.viewonly:
            names = sqla.attributes_of(each.mapper, each.remote_side)
            columns = [names.get(column, "") for column in each.remote_side]
            for other in state.attrs[each.key].history.deleted or ():
                yield other, columns


MAX_UNLISTED = 10_000
"""The maximum number of rows in unlisted tables that one call may search."""

_CHUNK = 1_000  # keys in one statement
_FEW = 2  # up to this number, rows are loaded one by one
_LOADED = ("select", "selectin", "subquery", "joined", "immediate", True, False)


def _is_loaded_by_delete(relationship: RelationshipProperty[Any]) -> bool:
    """Return whether the unit of work loads the related rows of a row that it deletes."""
    if relationship.viewonly or relationship.passive_deletes or relationship.lazy not in _LOADED:
        return False
    return relationship.direction is not MANYTOONE or relationship.cascade.delete


@dataclass(frozen=True, slots=True)
class AffectedRow:
    """A row that would change.

    Attributes:
        mapper: the mapper of its class; `None` if no class is mapped to its table.
        table: its table.
        key: its primary key.
        tool_table: the model's table for it; `None` if the model may not use the class.
        is_writable: whether the session's owner may write it.
        is_declared: whether the mapping or the schema declares the change.
        by_orm: whether the unit of work, not the database, deletes it.
        values: the new values of its referring columns.
    """

    mapper: Mapper[Any] | None
    table: Table
    key: tuple[Any, ...]
    tool_table: ToolTable | None
    is_writable: bool = True
    is_declared: bool = True
    by_orm: bool = True
    values: dict[Column[Any], Any] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The base class and primary key; without a class, the table and primary key."""
        if self.mapper is None:
            return self.table, self.key
        return self.mapper.identity_key_from_primary_key(self.key)[:2]

    @property
    def names(self) -> list[str]:
        """The attributes of its new values; `""` for a column without an attribute."""
        if self.mapper is None:
            return []
        names = sqla.attributes_of(self.mapper, self.values)
        return [names.get(column, "") for column in self.values]


@dataclass(slots=True)
class CascadeResult:
    """The rows that change together with others, by identity.

    Attributes:
        deleted: rows that would be deleted, including the requested ones.
        unlinked: rows whose reference would become null.
        followed: rows whose reference would get the new value, or its default.
        linked: rows related by a secondary table; their own values do not change.
        blocking: rows that prevent the change.
        roots: the requested rows.
    """

    deleted: dict[Any, AffectedRow] = field(default_factory=dict)
    unlinked: dict[Any, AffectedRow] = field(default_factory=dict)
    followed: dict[Any, AffectedRow] = field(default_factory=dict)
    linked: dict[Any, AffectedRow] = field(default_factory=dict)
    blocking: dict[Any, AffectedRow] = field(default_factory=dict)
    roots: dict[Any, AffectedRow] = field(default_factory=dict)

    def also_deleted(self) -> list[AffectedRow]:
        """Return the deleted rows, except the requested ones."""
        return [found for key, found in self.deleted.items() if key not in self.roots]

    def surviving(self, found: Mapping[Any, AffectedRow]) -> list[AffectedRow]:
        """Return the rows that are not deleted."""
        return [each for key, each in found.items() if key not in self.deleted]


class CascadeSearch:
    """Finds the other rows that a delete or an update changes.

    No instance is changed or loaded. Rows of other owners, and rows that the application's loader
    criteria hide, are found too.
    """

    def __init__(self, call: Call, tool: Literal["db_create", "db_delete", "db_update"]) -> None:
        self._call = call
        self._tool = tool
        self._tables = call.setting.tables
        self._listed_rows = set[Any]()  # identities of changed rows
        self._unlisted_rows = set[Any]()
        self.result = CascadeResult()

    def search(self, instances: Iterable[Any], *, cascaded: bool = False) -> CascadeResult:
        """Add the rows that are deleted or changed when some rows are deleted.

        Args:
            instances: the rows.
            cascaded: whether a cascade of the mapping, not the request, deletes them.
        """
        waiting = deque[AffectedRow]()
        for instance in instances:
            row = self._affected_row(instance)
            if not cascaded:
                self.result.roots[row.identity] = row
            waiting += self._add_deleted(row)
        by_database = deque[AffectedRow]()
        while waiting or by_database:
            # the ORM's deletes first: the rules of the database apply after them
            batch, by_orm = waiting or by_database, bool(waiting)
            popped = [batch.popleft() for _ in range(len(batch))]
            latest = [each for each in popped if self.result.deleted[each.identity] is each]
            for (of, table), group in group_rows(latest, lambda e: (e.mapper, e.table)).items():
                if by_orm:
                    self._load_related(group)
                self._record_linked(group)
                for edge in edges_to(of, table, by_orm=by_orm):
                    for each in self._referring_rows(edge, group):
                        (waiting if each.by_orm else by_database).append(each)
        return self.result

    def _load_related(self, group: Sequence[AffectedRow]) -> None:
        """Load at once the relationships that the unit of work would load row by row."""
        mapper, identity_map = group[0].mapper, self._call.session.identity_map
        if mapper is None or len(group) <= _FEW:
            return
        names = [each.key for each in mapper.relationships if _is_loaded_by_delete(each)]
        identities = (mapper.identity_key_from_primary_key(each.key) for each in group)
        found = [each for each in map(identity_map.get, identities) if each is not None]
        states = [sqla.state_of(each) for each in found]
        states = [state for state in states if state.unloaded.intersection(names)]
        if len(states) <= _FEW:
            return
        options = [selectinload(mapper.relationships[name].class_attribute) for name in names]
        for start in range(0, len(states), _CHUNK):
            keys = [state.key[1] for state in states[start : start + _CHUNK] if state.key]
            matches = sqla.in_keys(mapper.primary_key, keys)
            statement = select(mapper).where(matches).options(*options)
            with self._call.session.no_autoflush:
                loaded = self._call.session.scalars(
                    statement, execution_options={"raw_keys": True}
                )
                loaded.unique().all()  # `lazy="joined"` repeats rows

    def search_changed(self, instances: Sequence[Any], values: Mapping[str, Any]) -> CascadeResult:
        """Add the rows that change when some rows get new values; mostly without a statement."""
        waiting = deque([self._affected_row(instance) for instance in instances])
        for row, instance in zip(waiting, instances, strict=True):
            row.values.update(_new_values(row, instance, values))
            self._add_changed(row, self.result.roots)
        while waiting:
            batch = [waiting.popleft() for _ in range(len(waiting))]
            groups = group_rows(batch, lambda each: (each.mapper, each.table, *each.values))
            for (of, table, *columns), group in groups.items():
                for edge in edges_by_update(of, table, columns):
                    waiting += self._referring_rows(edge, group)
        return self.result

    def _affected_row(self, instance: Any) -> AffectedRow:
        state = sqla.state_of(instance)
        key = cast(tuple[Any, ...], state.key and state.key[1])
        table = cast(Table, state.mapper.local_table)
        return AffectedRow(state.mapper, table, key, self._tables.of_model(state.class_))

    def _referring_rows(self, edge: Edge, group: Sequence[AffectedRow]) -> Iterator[AffectedRow]:
        """Record the rows that refer to rows of one class, and yield those to search further."""
        mapper = sqla.mapper_of_table(edge.table)
        if self._can_skip(edge, mapper):
            return
        for start in range(0, len(group), _CHUNK):
            keys = [each.key for each in group[start : start + _CHUNK]]
            rows = [*self._read_referring(edge, mapper, group[0], keys)]
            loaded = self._found_by_orm(edge, group[start : start + _CHUNK]) if rows else None
            for row in rows:
                edge_of_row = edge if loaded is None or row.identity in loaded else edge.fallback
                if edge_of_row is not None:
                    yield from self._record(
                        replace(
                            row, is_declared=edge_of_row.is_declared, by_orm=edge_of_row.by_orm
                        ),
                        edge_of_row,
                    )

    def _found_by_orm(self, edge: Edge, group: Sequence[AffectedRow]) -> set[Any] | None:
        """Return the rows that the unit of work finds when it deletes others; `None` for all.

        It loads them by relationships. Relationships with a custom join, or to a subclass, may
        miss referring rows, and so do loader criteria of the application. The flush would
        otherwise load them.
        """
        if not edge.names:
            return None
        identities, identity_map = set[Any](), self._call.session.identity_map
        for each in group:
            mapper = cast("Mapper[Any]", each.mapper)
            instance = identity_map.get(mapper.identity_key_from_primary_key(each.key))
            if instance is None:  # not loaded yet, so the ORM cannot have deleted it
                return None
            with self._call.session.no_autoflush:
                for name in edge.names:
                    related = sqla.related_states(sqla.state_of(instance), name)
                    identities.update(state.key[:2] for state in related if state.key is not None)
        return identities

    def _can_skip(self, edge: Edge, mapper: Mapper[Any] | None) -> bool:
        """Return whether the rows of an edge need not be read.

        Rows of unlisted tables are deleted or changed as the mapping and the schema declare, and
        not named. They are read only if some may belong to another owner.
        """
        fallback = edge.fallback
        if (
            fallback is not None
            and fallback.effect != "block"
            and not self._can_skip(fallback, mapper)
        ):
            return False
        is_visible = self._is_listed(edge.table) or self._is_owned(edge.table)
        if is_visible or not edge.is_declared or edge.effect == "block":
            return False
        if edge.effect == "delete":
            return not any(edges_to(mapper, edge.table, by_orm=edge.by_orm))
        columns = {*edge.columns}
        return edge.effect in ("unlink", "reset") or not any(
            edges_by_update(mapper, edge.table, columns)
        )

    def _is_owned(self, table: Table) -> bool:
        """Return whether the session has an owner and the rows of a table belong to owners."""
        owner = self._call.session.owner
        try:
            return owner is not None and owner.ownership.belonging_of(table) is not None
        except UnconfinedError:  # the table's class is unknown to the ownership
            return False

    def _is_listed(self, table: Table) -> bool:
        mapper = sqla.mapper_of_table(table)
        if mapper is not None and self._tables.of_model(mapper.class_) is not None:
            return True
        listed = (each for each in self._tables if not each.ends)
        return any(table in inspect(each.model).mapper.tables for each in listed)

    def _record(self, row: AffectedRow, edge: Edge) -> Iterator[AffectedRow]:
        if edge.effect == "delete":
            yield from self._add_deleted(row)
        elif edge.effect == "follow":
            is_nulled = None in row.values.values()
            if self._add_changed(row, self.result.unlinked if is_nulled else self.result.followed):
                yield row
        elif edge.effect == "reset":
            self._add_changed(row, self.result.followed)
        elif edge.effect == "unlink":
            self._add_changed(row, self.result.unlinked)
        else:
            self.result.blocking.setdefault(row.identity, row)

    def _add_deleted(self, row: AffectedRow) -> Iterator[AffectedRow]:
        """Record a deleted row; yield it if it, or its deletion by the ORM, was unknown."""
        if self._add_changed(row, self.result.deleted):
            yield row
        elif row.by_orm and not self.result.deleted[row.identity].by_orm:
            self.result.deleted[row.identity] = row
            yield row

    def _record_linked(self, group: Sequence[AffectedRow]) -> None:
        """Record the rows that rows of one class are linked to by a secondary table."""
        mapper = group[0].mapper
        if mapper is None:
            return
        keys = [each.key for each in group]
        for link in links_of(mapper, self._tables):
            for start in range(0, len(keys), _CHUNK):
                statement = link.statement(keys[start : start + _CHUNK])
                limited = statement.limit(self._call.setting.max_written + 1)
                options = {"raw_keys": True}  # limited to rows that the session sees
                far_mapper = inspect(link.far.model).mapper
                for key in self._call.session.execute(limited, execution_options=options):
                    row = AffectedRow(
                        far_mapper, cast(Table, far_mapper.local_table), tuple(key), link.far
                    )
                    self._add_changed(row, self.result.linked)

    def _add_changed(self, row: AffectedRow, rows: dict[Any, AffectedRow]) -> bool:
        """Record a changed row, count it, and return whether it was added."""
        known = rows.setdefault(row.identity, row)
        known.values.update(row.values)
        if known is not row:
            return False
        (self._unlisted_rows if row.tool_table is None else self._listed_rows).add(row.identity)
        most = self._call.setting.max_written
        if len(self._listed_rows) > most or len(self._unlisted_rows) > MAX_UNLISTED:
            raise too_many_rows(self._tool, most, along=True)
        return True

    def _read_referring(
        self,
        edge: Edge,
        mapper: Mapper[Any] | None,
        referred: AffectedRow,
        keys: Sequence[tuple[Any, ...]],
    ) -> Iterator[AffectedRow]:
        """Yield the rows that refer to other rows, by the keys of the latter: one statement."""
        is_followed = edge.effect == "follow"
        referred_values = referred.values if is_followed else dict.fromkeys(edge.referred)
        pairs = zip(edge.columns, edge.referred, strict=True)
        new_values = {
            theirs: referred_values[ours] for theirs, ours in pairs if ours in referred_values
        }
        if edge.effect == "reset":
            new_values = {theirs: theirs.server_default for theirs in edge.columns}
        most = self._call.setting.max_written if self._is_listed(edge.table) else MAX_UNLISTED
        statement = _statement(edge, mapper, referred, keys)
        discriminator_column = None if mapper is None else _discriminator(mapper)
        statement = statement.add_columns(
            true() if discriminator_column is None else discriminator_column,
            self._writable(mapper).label("alfred_writable"),
        ).limit(most + 1)
        rows = self._call.session.execute(
            statement,
            # not limited to the owner, because rows that it cannot see would be changed too
            execution_options={"raw_keys": True, "unconfined": True},
            bind_arguments={} if mapper is None else {"mapper": mapper},
        )
        for *key, discriminator, is_writable in rows:
            of_class = mapper
            if mapper is not None and discriminator_column is not None:
                of_class = mapper.polymorphic_map.get(discriminator, mapper)
            tool_table, by_orm = self._tool_table(of_class, edge), edge.by_orm
            yield AffectedRow(
                of_class,
                edge.table,
                tuple(key),
                tool_table,
                is_writable,
                edge.is_declared,
                by_orm,
                {**new_values},
            )

    def _writable(self, mapper: Mapper[Any] | None) -> Any:
        owner = self._call.session.owner
        if owner is None or mapper is None:
            return true()
        try:
            return func.coalesce(owner.writable(mapper.class_), False)  # NULL counts as false
        except UnconfinedError:  # unknown to the ownership; listed classes are known
            return true()

    def _tool_table(self, mapper: Mapper[Any] | None, edge: Edge) -> ToolTable | None:
        """Return the tool table for rows, by their class or another class on the same table."""
        own = None if mapper is None else self._tables.of_model(mapper.class_)
        roots = (t for t in self._tables if _is_root(inspect(t.model).mapper))
        on_table = (t for t in roots if inspect(t.model).local_table is edge.table)
        return next(on_table, None) if own is None and _is_root(mapper) else own


def group_rows(
    rows: Iterable[AffectedRow], key_of: Callable[[AffectedRow], Any]
) -> dict[Any, list[AffectedRow]]:
    """Group rows by a key."""
    groups: dict[Any, list[AffectedRow]] = {}
    for each in rows:
        groups.setdefault(key_of(each), []).append(each)
    return groups


def _new_values(
    row: AffectedRow, instance: Any, values: Mapping[str, Any]
) -> Iterator[tuple[Column[Any], Any]]:
    """Yield the referenced columns whose values change, with the new values."""
    mapper = cast("Mapper[Any]", row.mapper)
    changed = (each for each in mapper.column_attrs if each.key in values)
    names = {c: each.key for each in changed for c in each.columns if isinstance(c, Column)}
    for edge in edges_by_update(mapper, row.table, names.keys()):
        for column in edge.referred:
            if column in names and getattr(instance, names[column]) != values[names[column]]:
                yield column, values[names[column]]


def _is_root(mapper: Mapper[Any] | None) -> bool:
    return mapper is None or sqla.root_of(mapper) is mapper


def _discriminator(mapper: Mapper[Any]) -> Column[Any] | None:
    column = mapper.polymorphic_on
    return column if isinstance(column, Column) else None


def _statement(
    edge: Edge, mapper: Mapper[Any] | None, row: AffectedRow, keys: Sequence[tuple[Any, ...]]
) -> Select[Any]:
    """Return the SELECT of the primary keys of referring rows."""
    source = edge.table if mapper is None else mapper.persist_selectable
    primary: Sequence[Any] = [*edge.table.primary_key] if mapper is None else [*mapper.primary_key]
    source_of_row: Any = row.table if row.mapper is None else row.mapper.persist_selectable
    identity = [*row.table.primary_key] if row.mapper is None else [*row.mapper.primary_key]
    # a table may refer to itself, so the subquery must not be correlated
    referred = (
        select(*edge.referred)
        .select_from(source_of_row)
        .where(sqla.in_keys(identity, keys))
        .correlate(None)
    )
    columns: Any = tuple_(*edge.columns) if len(edge.columns) > 1 else edge.columns[0]
    return select(*primary).select_from(source).where(columns.in_(referred)).order_by(*primary)


_MAX_NAMED = 10  # rows that an error names


class CascadeReport:
    """Reports the rows of a cascade search; refuses the call if the model may not change one."""

    def __init__(self, call: Call, changes: Changes) -> None:
        self._call = call
        self._changes = changes

    def changed(
        self, groups: Mapping[ToolTable, tuple[Sequence[Any], Mapping[str, Any]]]
    ) -> dict[str, list[str]]:
        """Return the refs of rows that change together with rows that get new values.

        Args:
            groups: the rows and their new values, by table.

        Raises:
            ToolError: the model may not change one of them.
        """
        searcher = CascadeSearch(self._call, "db_update")
        for table, (instances, values) in groups.items():
            result = searcher.search_changed(instances, values)
            found = [*result.unlinked.values(), *result.followed.values()]
            refused = [each for each in found if not is_reference_writable(each)]
            self.refuse(refused, table, "changed in")
        return self.report(searcher.result)

    def report(self, result: CascadeResult) -> dict[str, list[str]]:
        """Call the hooks of the rows found, and return their refs by effect."""
        also_deleted = result.also_deleted()
        unlinked = [
            each
            for each in result.surviving(result.unlinked)
            if each.identity not in result.roots and each.identity not in result.followed
        ]
        followed = [
            each for each in result.surviving(result.followed) if each.identity not in result.roots
        ]
        links = result.surviving(result.linked)
        for table, same in group_rows(also_deleted, lambda each: each.tool_table).items():
            if table is not None:
                self._changes.call_hooks(table, "delete", [], refs=self.refs(same))
        groups = group_rows([*unlinked, *followed], lambda each: (each.tool_table, *each.names))
        for (table, *names), same in groups.items():
            if table is not None and self._call.setting.hooks_of(table):
                self._call_hooks(table, names, same)
        # the session does not see what the database deletes
        note_deleted(self._call.session, self._pairs(also_deleted))
        report = {
            "deleted_with": self.refs(also_deleted),
            "updated_with": self.refs(followed),
            "unlinked": self.refs([*unlinked, *links]),
        }
        return {name: refs for name, refs in report.items() if refs}

    def refs(self, rows: Iterable[AffectedRow]) -> list[str]:
        """Return the refs of the rows in tables that the model may use: at most one round trip."""
        pairs = self._pairs(rows)
        return [*dict.fromkeys(self._call.conversation.refer_pairs(pairs))] if pairs else []

    def _pairs(self, rows: Iterable[AffectedRow]) -> list[EntityKey]:
        return [
            (each.tool_table.entity, each.tool_table.keys.key_of(each.key))
            for each in rows
            if each.tool_table is not None
        ]

    def refuse(self, rows: Sequence[AffectedRow], table: ToolTable, change: str) -> None:
        """Raise an error if rows prevent a change; the error names the rows of one class.

        Args:
            rows: the rows.
            table: the table in which rows are changed.
            change: the change, for the message, such as "deleted from".

        Raises:
            ToolError: `rows` is not empty.
        """
        if not rows:
            return
        visible = [each for each in rows if each.tool_table is not None and each.is_writable]
        if not visible or (referring := visible[0].tool_table) is None:
            raise still_referenced(table.name, None, verbs=(), change=change)
        same_table = [each for each in visible if each.tool_table is referring]
        missing = set() if all(map(_may_model_change, same_table)) else {"update"}
        labels = self._labels(referring, same_table[:_MAX_NAMED])
        labelled = {ref: label for ref, label in labels.items() if label is not None}
        verbs = referring.verbs - missing
        raise still_referenced(
            table.name, referring.name, [*labels], labelled, verbs=verbs, change=change
        )

    def _labels(self, table: ToolTable, rows: Iterable[AffectedRow]) -> dict[str, str | None]:
        """Return the refs of rows that the session may see, with their labels."""
        instances = self._load_instances(table, rows)
        label = table.keys.label
        refs = self._call.refs_of(instances, table)
        states = [sqla.state_of(each).dict for each in instances]
        return {
            ref: None if label is None else label.of(state)
            for ref, state in zip(refs, states, strict=True)
        }

    def _call_hooks(
        self, table: ToolTable, names: Sequence[str], rows: Sequence[AffectedRow]
    ) -> None:
        """Call the hooks of rows with changed attributes, and assign the values that hooks add."""
        values = zip(names, rows[0].values.values(), strict=True)
        record = {name: value for name, value in values if not isinstance(value, FetchedValue)}
        instances = self._load_instances(table, rows)
        writing = self._changes.call_hooks(table, "update", instances, [record])
        assign_changes(instances, {n: v for n, v in writing.records[0].items() if n not in names})

    def _load_instances(self, table: ToolTable, rows: Iterable[AffectedRow]) -> list[Any]:
        """Return the instances of rows, without rows of keyless tables: one statement."""
        primary = inspect(table.model).mapper.primary_key
        keys = [each.key for each in rows if each.key]
        if not keys:
            return []
        matches = sqla.in_keys(primary, keys)
        statement = select(table.model).where(matches).execution_options(raw_keys=True)
        with self._call.session.no_autoflush:
            return [*self._call.session.scalars(statement).unique()]


def is_reference_writable(row: AffectedRow) -> bool:
    """Return whether a call may change the reference of a row by a cascade."""
    if row.tool_table is None or not row.is_writable:
        return row.is_writable and row.is_declared
    return _may_model_change(row)


def _may_model_change(row: AffectedRow) -> bool:
    """Return whether a model may change the reference of a row itself."""
    table = row.tool_table
    if table is None or "update" not in table.verbs:
        return False
    columns = [table.columns.get(name) for name in row.names]
    return all(column is not None and column.updatable for column in columns)
