"""What a delete takes along or unlinks, and what an update changes too, before anything is sent.

Rows that are to be deleted or changed come in; a `Reach` goes out: rows that would go too, rows
that would lose their reference or follow it, and rows that are in the way, through the unit of
work and through the rules of the database, at any depth. One statement for each way in which a
class is referred to, none where nothing refers. Nothing is changed, and no instance is loaded: the
rows of other owners, and those that the application hides, are found too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from sqlalchemy import Column, Select, Table, func, inspect, select, true, tuple_
from sqlalchemy.orm import Mapper

from alfred_refs import sqla
from alfred_refs.errors import UnconfinedError
from alfred_refs.tools.call import Call
from alfred_refs.tools.errors import too_many_rows
from alfred_refs.tools.tables.table import ToolTable

from .edges import Edge, edges_by_update, edges_to
from .links import links_of

MOST_UNSEEN = 10_000
"""Rows of tables that no model may use which one call looks at: they belong to what it deletes."""

_CHUNK = 1_000  # keys in one statement


@dataclass(frozen=True, slots=True)
class AffectedRow:
    """A row that would be changed.

    Attributes:
        mapper: of its class; `None` where no class is mapped to its table.
        table: in which it is.
        key: its primary key, as the database has it.
        tool_table: what the model knows it by, `None` if it may not use the class.
        is_writable: whether the session's owner may write it.
        said: whether the mapping or the schema says what becomes of it.
        by_orm: whether the unit of work deletes it, and not the database.
        written: what it is given in the columns by which it refers to another.
    """

    mapper: Mapper[Any] | None
    table: Table
    key: tuple[Any, ...]
    tool_table: ToolTable | None
    is_writable: bool = True
    said: bool = True
    by_orm: bool = True
    written: dict[Column[Any], Any] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells it from all other rows."""
        if self.mapper is None:
            return self.table, self.key
        return self.mapper.identity_key_from_primary_key(self.key)[:2]

    @property
    def names(self) -> list[str]:
        """The attributes of what it is given; empty text for none."""
        if self.mapper is None:
            return []
        names = sqla.attributes_of(self.mapper, self.written)
        return [names.get(column, "") for column in self.written]


@dataclass(slots=True)
class Reach:
    """What goes along with rows that are deleted or changed.

    Attributes:
        deleted: what would go, by identity; the rows that were asked for too.
        unlinked: what would lose its reference.
        followed: what would refer to the new values, or to something else by default.
        linked: what would be seen no more by way of a table between, and is not changed itself.
        staying: what is in the way.
        roots: the rows that were asked for.
    """

    deleted: dict[Any, AffectedRow] = field(default_factory=dict)
    unlinked: dict[Any, AffectedRow] = field(default_factory=dict)
    followed: dict[Any, AffectedRow] = field(default_factory=dict)
    linked: dict[Any, AffectedRow] = field(default_factory=dict)
    staying: dict[Any, AffectedRow] = field(default_factory=dict)
    roots: dict[Any, AffectedRow] = field(default_factory=dict)

    def along(self) -> list[AffectedRow]:
        """Return what is deleted beside the rows that were asked for."""
        return [found for key, found in self.deleted.items() if key not in self.roots]

    def left(self, found: Mapping[Any, AffectedRow]) -> list[AffectedRow]:
        """Return some of the rows without those that go."""
        return [each for key, each in found.items() if key not in self.deleted]


class Searcher:
    """Finds what a delete or an update reaches."""

    def __init__(self, call: Call, tool: Literal["db_create", "db_delete", "db_update"]) -> None:
        self._call = call
        self._tool = tool
        self._tables = call.setting.tables
        self._seen = set[Any]()  # what is changed, of listed classes
        self._unseen = set[Any]()
        self.reach = Reach()

    def search(self, instances: Iterable[Any], *, along: bool = False) -> Reach:
        """Return what goes with rows that are to be deleted, beside what was found before.

        Args:
            instances: the rows.
            along: whether they go because of others, as the mapping says, and were not asked for.
        """
        waiting = deque[AffectedRow]()
        for instance in instances:
            found = self._of(instance)
            if not along:
                self.reach.roots[found.identity] = found
            waiting += self._deleted(found)
        late = deque[AffectedRow]()
        while waiting or late:
            # what the unit of work deletes is known first: what the database does comes after
            batch, by_orm = waiting or late, bool(waiting)
            popped = [batch.popleft() for _ in range(len(batch))]
            latest = [each for each in popped if self.reach.deleted[each.identity] is each]
            for (of, table), group in grouped(latest, lambda e: (e.mapper, e.table)).items():
                self._note_linked(group)
                for edge in edges_to(of, table, by_orm=by_orm):
                    for each in self._referring(edge, group):
                        (waiting if each.by_orm else late).append(each)
        return self.reach

    def search_changed(self, instances: Sequence[Any], values: Mapping[str, Any]) -> Reach:
        """Return what is changed with rows that get other values: no statement mostly."""
        waiting = deque([self._of(instance) for instance in instances])
        for found, instance in zip(waiting, instances, strict=True):
            found.written.update(_new_values(found, instance, values))
            self._entered(found, self.reach.roots)
        while waiting:
            batch = [waiting.popleft() for _ in range(len(waiting))]
            groups = grouped(batch, lambda each: (each.mapper, each.table, *each.written))
            for (of, table, *columns), group in groups.items():
                for edge in edges_by_update(of, table, columns):
                    waiting += self._referring(edge, group)
        return self.reach

    def _of(self, instance: Any) -> AffectedRow:
        state = sqla.state_of(instance)
        key = cast(tuple[Any, ...], state.key and state.key[1])
        table = cast(Table, state.mapper.local_table)
        return AffectedRow(state.mapper, table, key, self._tables.of_model(state.class_))

    def _referring(self, edge: Edge, group: Sequence[AffectedRow]) -> Iterator[AffectedRow]:
        """Note what refers to some rows of one class in one way, and yield what leads further."""
        mapper = sqla.mapper_of_table(edge.table)
        if self._is_needless(edge, mapper):
            return
        for start in range(0, len(group), _CHUNK):
            keys = [each.key for each in group[start : start + _CHUNK]]
            rows = [*self._rows(edge, mapper, group[0], keys)]
            there = self._found_by_orm(edge, group[start : start + _CHUNK]) if rows else None
            for found in rows:
                of = edge if there is None or found.identity in there else edge.unseen
                if of is not None:
                    yield from self._note(replace(found, said=of.said, by_orm=of.by_orm), of)

    def _found_by_orm(self, edge: Edge, group: Sequence[AffectedRow]) -> set[Any] | None:
        """Return the rows that the unit of work finds as it deletes others; `None` for all.

        It loads them by relationships: such as have criteria, or lead to a subclass, find fewer
        rows than refer, and so may what the application adds to each of its statements. They
        would be loaded by the flush, if not here.
        """
        if not edge.names:
            return None
        found, identity_map = set[Any](), self._call.session.identity_map
        for each in group:
            mapper = cast("Mapper[Any]", each.mapper)
            instance = identity_map.get(mapper.identity_key_from_primary_key(each.key))
            if instance is None:  # it is not there to be deleted yet
                return None
            with self._call.session.no_autoflush:
                for name in edge.names:
                    related = sqla.related_to(sqla.state_of(instance), name)
                    found.update(state.key[:2] for state in related if state.key is not None)
        return found

    def _is_needless(self, edge: Edge, mapper: Mapper[Any] | None) -> bool:
        """Tell whether it makes no difference which rows refer in one way.

        What no model may use goes or is changed as the mapping and the schema say, unnamed, unless
        some of it may be somebody else's.
        """
        rest = edge.unseen
        if rest is not None and rest.effect != "stay" and not self._is_needless(rest, mapper):
            return False
        is_known = self._is_listed(edge.table) or self._is_owned(edge.table)
        if is_known or not edge.said or edge.effect == "stay":
            return False
        if edge.effect == "delete":
            return not any(edges_to(mapper, edge.table, by_orm=edge.by_orm))
        columns = {*edge.columns}
        return edge.effect in ("unlink", "reset") or not any(
            edges_by_update(mapper, edge.table, columns)
        )

    def _is_owned(self, table: Table) -> bool:
        """Tell whether rows of a table are one owner's or another's, in a session that has one."""
        owner = self._call.session.owner
        try:
            return owner is not None and owner.ownership.belonging_of(table) is not None
        except UnconfinedError:  # it is of no class that the ownership knows
            return False

    def _is_listed(self, table: Table) -> bool:
        mapper = sqla.mapper_of_table(table)
        if mapper is not None and self._tables.of_model(mapper.class_) is not None:
            return True
        return any(table in inspect(each.model).mapper.tables for each in self._tables)

    def _note(self, found: AffectedRow, edge: Edge) -> Iterator[AffectedRow]:
        if edge.effect == "delete":
            yield from self._deleted(found)
        elif edge.effect == "follow":
            is_nulled = None in found.written.values()
            if self._entered(found, self.reach.unlinked if is_nulled else self.reach.followed):
                yield found
        elif edge.effect == "reset":
            self._entered(found, self.reach.followed)
        elif edge.effect == "unlink":
            self._entered(found, self.reach.unlinked)
        else:
            self.reach.staying.setdefault(found.identity, found)

    def _deleted(self, found: AffectedRow) -> Iterator[AffectedRow]:
        """Note a row that goes, and yield it if that is new, or new that the ORM deletes it."""
        if self._entered(found, self.reach.deleted):
            yield found
        elif found.by_orm and not self.reach.deleted[found.identity].by_orm:
            self.reach.deleted[found.identity] = found
            yield found

    def _note_linked(self, group: Sequence[AffectedRow]) -> None:
        """Note what a model sees beside some rows of one class by way of a table."""
        mapper = group[0].mapper
        if mapper is None:
            return
        keys = [each.key for each in group]
        for link in links_of(mapper, self._tables):
            for start in range(0, len(keys), _CHUNK):
                statement = link.statement(keys[start : start + _CHUNK])
                limited = statement.limit(self._call.setting.max_written + 1)
                options = {"raw_keys": True}  # and only what the session sees
                far = inspect(link.far.model).mapper
                for key in self._call.session.execute(limited, execution_options=options):
                    found = AffectedRow(far, cast(Table, far.local_table), tuple(key), link.far)
                    self._entered(found, self.reach.linked)

    def _entered(self, found: AffectedRow, among: dict[Any, AffectedRow]) -> bool:
        """Note a row that is changed, count it, and tell whether it is new there."""
        known = among.setdefault(found.identity, found)
        known.written.update(found.written)
        if known is not found:
            return False
        (self._unseen if found.tool_table is None else self._seen).add(found.identity)
        most = self._call.setting.max_written
        if len(self._seen) > most or len(self._unseen) > MOST_UNSEEN:
            raise too_many_rows(self._tool, most, along=True)
        return True

    def _rows(
        self,
        edge: Edge,
        mapper: Mapper[Any] | None,
        to: AffectedRow,
        keys: Sequence[tuple[Any, ...]],
    ) -> Iterator[AffectedRow]:
        """Yield the rows that refer to others, by the keys of those: one statement."""
        is_followed = edge.effect == "follow"
        new = to.written if is_followed else dict.fromkeys(edge.referred)
        pairs = zip(edge.columns, edge.referred, strict=True)
        written = {theirs: new[ours] for theirs, ours in pairs if ours in new}
        if edge.effect == "reset":
            written = {theirs: theirs.server_default for theirs in edge.columns}
        most = self._call.setting.max_written if self._is_listed(edge.table) else MOST_UNSEEN
        statement = _statement(edge, mapper, to, keys)
        kind = None if mapper is None else _discriminator(mapper)
        statement = statement.add_columns(
            true() if kind is None else kind, self._writable(mapper).label("alfred_writable")
        ).limit(most + 1)
        rows = self._call.session.execute(
            statement,
            # keys, and all that there is: what the owner cannot see would be changed too
            execution_options={"raw_keys": True, "unconfined": True},
            bind_arguments={} if mapper is None else {"mapper": mapper},
        )
        for *key, said, is_writable in rows:
            of = mapper
            if mapper is not None and kind is not None:
                of = mapper.polymorphic_map.get(said, mapper)
            listed, by_orm = self._listed(of, edge), edge.by_orm
            yield AffectedRow(
                of, edge.table, tuple(key), listed, is_writable, edge.said, by_orm, {**written}
            )

    def _writable(self, mapper: Mapper[Any] | None) -> Any:
        owner = self._call.session.owner
        if owner is None or mapper is None:
            return true()
        try:
            return func.coalesce(owner.writable(mapper.class_), False)  # to SQL
        except UnconfinedError:  # of no owner's, as no listed class is
            return true()

    def _listed(self, mapper: Mapper[Any] | None, edge: Edge) -> ToolTable | None:
        """Return what the model knows rows by: their class, or another one on their table."""
        found = None if mapper is None else self._tables.of_model(mapper.class_)
        roots = (t for t in self._tables if inspect(t.model).mapper.inherits is None)
        same = (t for t in roots if inspect(t.model).local_table is edge.table)
        return next(same, None) if found is None and _is_root(mapper) else found


def grouped(
    found: Iterable[AffectedRow], by: Callable[[AffectedRow], Any]
) -> dict[Any, list[AffectedRow]]:
    """Return rows by something of them."""
    groups: dict[Any, list[AffectedRow]] = {}
    for each in found:
        groups.setdefault(by(each), []).append(each)
    return groups


def _new_values(
    found: AffectedRow, instance: Any, values: Mapping[str, Any]
) -> Iterator[tuple[Column[Any], Any]]:
    """Yield the columns that others refer to in which a row gets another value, with that."""
    mapper = cast("Mapper[Any]", found.mapper)
    given = (each for each in mapper.column_attrs if each.key in values)
    names = {c: each.key for each in given for c in each.columns if isinstance(c, Column)}
    for edge in edges_by_update(mapper, found.table, names.keys()):
        for column in edge.referred:
            if column in names and getattr(instance, names[column]) != values[names[column]]:
                yield column, values[names[column]]


def _is_root(mapper: Mapper[Any] | None) -> bool:
    return mapper is None or mapper.inherits is None


def _discriminator(mapper: Mapper[Any]) -> Column[Any] | None:
    column = mapper.polymorphic_on
    return column if isinstance(column, Column) else None


def _statement(
    edge: Edge, mapper: Mapper[Any] | None, to: AffectedRow, keys: Sequence[tuple[Any, ...]]
) -> Select[Any]:
    """Return what reads the primary keys of referring rows."""
    source = edge.table if mapper is None else mapper.persist_selectable
    primary: Sequence[Any] = [*edge.table.primary_key] if mapper is None else [*mapper.primary_key]
    there: Any = to.table if to.mapper is None else to.mapper.persist_selectable
    identity = [*to.table.primary_key] if to.mapper is None else [*to.mapper.primary_key]
    # a table may refer to itself: what is inside is a query of its own
    referred = (
        select(*edge.referred).select_from(there).where(sqla.among(identity, keys)).correlate(None)
    )
    columns: Any = tuple_(*edge.columns) if len(edge.columns) > 1 else edge.columns[0]
    return select(*primary).select_from(source).where(columns.in_(referred)).order_by(*primary)
