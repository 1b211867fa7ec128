"""Read hooks for rows that a call reaches through other rows.

A read of a table calls the table's hooks (`reading`). The same rows also appear inside other rows,
as items of a list, in answers of writes, as labels of refs, and through a base class or a
subclass; and a filter by a path tests them. `Visibility` calls their hooks there:

- `before_read` is called once per call and table, with a `Reading` whose `nested` is true and
  whose arguments name only the table. Its conditions are added to every statement that reaches
  such rows (`conditions`), including writes: a model can only write rows that it could read.
- `after_read` is called with the rows that an answer shows (`mask`). A row that it removes is
  removed from its outer row; a row that is not nested keeps its ref.
- Labels of hidden rows are not shown. If a table has an `after_read`, which may hide values, the
  hook is applied to labels too (`mask_refs`); a label from a function is shown only if the hook
  does not change the row. A hook whose `totals` is true hides nothing and is not called.

>>> from alfred_refs.tools import Toolset
>>> class Public(Hooks):
...     def before_read(self, read: Reading):
...         read.conditions.append(Line.text.not_ilike("%onion%"))
>>> toolset = Toolset([Recipe, Line], hooks={Line: [Public()]})
>>> asked = {"table": "recipes", "columns": ["name", "lines.text"], "limit": 1}
>>> toolset.call(session, "db_read", asked)["rows"]
[{'id': 'recipe_1', 'name': 'Soup', 'lines': [{'id': 'line_1', 'text': '4 tomatoes'}]}]

A row has the hooks of every listed class that it is a row of. Conditions name the hook's
class, so they become a subquery of primary keys, and the outer row can be of any class or alias.

Limits: filters and `expect` compare stored values, not those that an `after_read` returns. Hide a
column whose values a model must not learn (`Toolset(hidden=...)`). A list is not edited by
position if hooks hide one of its rows, or may hide values of the row whose document has the list.
`options` and `include` of a nested `Reading` have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, FromClause, and_, false, func, inspect, literal, not_, select
from sqlalchemy.orm import undefer

from alfred_refs import sqla
from alfred_refs.session import RefSession, with_keys
from alfred_refs.tools.answers import Limits, RelatedRows, Rendering, Shape, ShownRow, shape_of
from alfred_refs.tools.arguments import DbRead
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.errors import ToolError
from alfred_refs.tools.exact import ExactValues, is_exact_on
from alfred_refs.tools.filters import Condition, Conditions, Keys, bind_filters, read_conditions
from alfred_refs.tools.hooks import Hooks, Reading
from alfred_refs.tools.labels import ForeignRef, key_attribute
from alfred_refs.tools.tables import ToolTable


@dataclass(frozen=True, slots=True)
class ReadHooks:
    """The read hooks of a toolset, by table."""

    by_table: Mapping[ToolTable, Sequence[Hooks]]

    @classmethod
    def of(cls, tables: ToolTables, hooks: Mapping[type[Any], Sequence[Hooks]]) -> ReadHooks:
        """Select the hooks that override `before_read` or `after_read`."""
        by_table = {
            table: [each for each in hooks.get(table.model, ()) if each.looks_at_reads()]
            for table in tables
        }
        return cls({table: own for table, own in by_table.items() if own})

    def over(self, table: ToolTable) -> list[ToolTable]:
        """Return the tables with hooks for rows of a table: itself, its bases and subclasses.

        A link has the hooks of both rows that it links.
        """
        if not self.by_table:
            return []
        if table.ends:
            return [each for end in table.ends for each in self.over(end.table)]
        mapper = inspect(table.model).mapper
        others = ((each, inspect(each.model).mapper) for each in self.by_table)
        return [
            each
            for each, other in others
            if sqla.is_kind_of(other, mapper) or sqla.is_kind_of(mapper, other)
        ]

    def all_over(self, table: ToolTable) -> list[Hooks]:
        """Return the hooks that may apply to rows of a table."""
        return [hooks for each in self.over(table) for hooks in self.by_table[each]]

    def may_mask(self, table: ToolTable) -> bool:
        """Return whether an `after_read` may hide values of a table's rows."""
        return not all(each.allows_totals() for each in self.all_over(table))


@dataclass(slots=True)
class Visibility:
    """Applies read hooks to the rows of one call.

    Attributes:
        hooks: the read hooks of the toolset.
        session: the session of the call.
        resolve: returns the keys of refs, for filters that a hook sets.
        statement_keys: converts keys from a hook for statements.
        notes: the notes of the hooks, for the model.
    """

    hooks: ReadHooks
    session: RefSession
    resolve: Callable[[Iterable[tuple[str, str]]], Keys]
    statement_keys: Callable[[Iterable[Any], ToolTable], list[Any]]
    notes: list[str] = field(default_factory=list)
    _readings: dict[ToolTable, Reading] = field(default_factory=dict)
    _hidden: dict[ToolTable, FromClause | None] = field(default_factory=dict)

    def conditions(
        self, table: ToolTable, entity: Any, asked: ToolTable | None = None
    ) -> list[Condition]:
        """Return the conditions for rows that hooks do not hide.

        Args:
            table: the table of the rows.
            entity: its class, or an alias of it.
            asked: a table whose hooks the call itself has called.

        Raises:
            ToolError: a hook refuses the read.
        """
        if table.ends:  # a link is visible if both of its rows are
            pairs = ((end, self.conditions(end.table, end.table.model)) for end in table.ends)
            return [end.exists(entity, *conditions) for end, conditions in pairs]
        over = (each for each in self.hooks.over(table) if each is not asked)
        hidden = [rows for rows in map(self._hidden_rows, over) if rows is not None]
        own = table.primary_key(entity)
        return [not_(_has_row(rows, own)) for rows in hidden]

    def restricts(self, table: ToolTable) -> bool:
        """Return whether hooks may hide rows of a table from this call, or change their labels."""
        try:
            return self.hooks.may_mask(table) or bool(self.conditions(table, table.model))
        except ToolError:  # a hook refuses the read
            return True

    def hidden_among(self, table: ToolTable, instances: Collection[Any]) -> list[Any]:
        """Return the rows that hooks hide: at most one statement."""
        conditions = self.conditions(table, table.model) if instances else []
        return rows_outside(self.session, table, instances, conditions)

    def mask(self, shown: Sequence[ShownRow], asked: Shape | None = None) -> set[int]:
        """Call `after_read` for the rows of an answer, and remove nested rows that hooks remove.

        Args:
            shown: the rows, including nested ones.
            asked: the shape whose rows the call itself passes to the hooks of its table.

        Returns:
            the `id()` of each row that a hook has removed.
        """
        removed: set[int] = set()
        for table in self.hooks.by_table:
            mapper = inspect(table.model).mapper
            mappers = {sqla.state_of(instance).mapper for _, instance, _ in shown}
            kinds = {each for each in mappers if sqla.is_kind_of(each, mapper)}
            rows = [
                row
                for row, instance, shape in shown
                if sqla.state_of(instance).mapper in kinds
                and not (shape is asked and shape.table is table)
            ]
            left = [*rows]
            for hooks in self.hooks.by_table[table] if rows else ():
                hooks.after_read(self._reading(table), left)
            removed |= {*map(id, rows)} - {*map(id, left)}
        if removed:
            for row, _, shape in shown:
                for name in shape.children:
                    row[name] = _without(row.get(name), removed)
        return removed

    def mask_refs(self, refs: Sequence[ForeignRef]) -> list[ForeignRef]:
        """Return the refs whose labels may be shown: one statement for each table with hooks.

        An `after_read` that may hide values receives the rows, and labels are the values that it
        returns.
        """
        shown: list[ForeignRef] = []
        for (table, by), same in _by_target(refs).items():
            if table is None or not self.hooks.over(table):
                shown += same
                continue
            keys = [*dict.fromkeys(each.key for each in same)]
            if self.hooks.may_mask(table):
                labels = self._masked_labels(table, by, keys)
                for each in same:
                    each.label = labels.get(each.key)
                shown += [each for each in same if each.label is not None]
            else:
                visible = self._visible_keys(table, by, keys)
                shown += [each for each in same if each.key in visible]
        return shown

    def _masked_labels(
        self, table: ToolTable, by: Column[Any] | None, keys: Sequence[Any]
    ) -> dict[Any, str]:
        """Return the labels of rows after the table's `after_read`, by key."""
        label, column = table.keys.label, key_attribute(table, by)
        if label is None:
            return {}
        shape = shape_of(table, None)
        names = [column.key, *([] if label.attribute is None else [label.attribute])]
        exactly = is_exact_on(self.session, table.model)
        types = shape.exact_types() if exactly else {}
        statement = (
            shape.statement(exactly=exactly)
            .where(column.in_(keys), *self.conditions(table, table.model))
            .options(*(undefer(getattr(table.model, name)) for name in names if name not in types))
            .execution_options(raw_keys=True)
        )
        exact = ExactValues()
        instances = exact.instances(self.session.execute(statement), types)
        rendering = Rendering(Limits(), lambda *_: "", lambda *_: RelatedRows(), exact)
        rows = [rendering.row(each, shape) for each in instances]
        before = deepcopy(rows)
        removed = self.mask(rendering.shown)
        labels, name = {}, label.attribute
        for instance, row, original in zip(instances, rows, before, strict=True):
            values = sqla.state_of(instance).dict
            text = label.of_unredacted(values)
            if name is None:
                text = text if row == original else None
            elif row.get(name) != original.get(name):
                text = label.of_shown(row)
            if text is not None and id(row) not in removed:
                labels[values[column.key]] = text
        return labels

    def _visible_keys(
        self, table: ToolTable, by: Column[Any] | None, keys: Sequence[Any]
    ) -> Collection[Any]:
        conditions = self.conditions(table, table.model)
        if not conditions:
            return keys
        column = key_attribute(table, by)
        statement = select(column).where(column.in_([*dict.fromkeys(keys)]), *conditions)
        return {*self.session.scalars(statement, execution_options={"raw_keys": True})}

    def _reading(self, table: ToolTable) -> Reading:
        """Return the `Reading` for nested rows, after the table's hooks, which are called once."""
        reading = self._readings.get(table)
        if reading is None:
            arguments = DbRead(table=table.name)
            reading = Reading(self.session, table.model, arguments, nested=True)
            for hooks in self.hooks.by_table[table]:
                hooks.before_read(reading)
            self._readings[table] = reading
            self.notes += reading.notes
        return reading

    def _hidden_rows(self, table: ToolTable) -> FromClause | None:
        """Return the keys of the rows that a table's hooks hide; `None` if they hide no rows."""
        if table not in self._hidden:
            wanted, hidden = self._wanted(table), None
            if wanted:
                keys = table.primary_key()
                rows = select(*keys).where(not_(func.coalesce(and_(*wanted), false())))
                hidden = with_keys(self.session, rows).correlate(None).subquery()
            self._hidden[table] = hidden
        return self._hidden[table]

    def _wanted(self, table: ToolTable) -> list[Condition]:
        reading = self._reading(table)
        if reading.empty:
            return [false()]
        bound = bind_filters(reading.arguments, table, is_limited=False)
        keys = self.resolve(bound.refs())
        wanted = read_conditions(reading, bound, Conditions(keys, visible=self.conditions))
        wanted += sqla.loader_criteria(reading.options, inspect(table.model).mapper)
        if reading.keys is not None:
            given = self.statement_keys(reading.keys, table)
            wanted.append(getattr(table.model, table.ref_field).in_(given))
        return wanted


def rows_outside(
    session: RefSession,
    table: ToolTable,
    instances: Iterable[Any],
    conditions: Sequence[Condition],
) -> list[Any]:
    """Return the instances whose rows do not match conditions: at most one statement."""
    mapper = inspect(table.model).mapper
    keys = {tuple(mapper.primary_key_from_instance(each)): each for each in instances}
    if not (keys and conditions):
        return []
    own = table.primary_key()
    statement = select(*own).where(sqla.in_keys(own, keys), *conditions)
    for found in session.execute(statement, execution_options={"raw_keys": True}):
        keys.pop(tuple(found), None)
    return [*keys.values()]


def _by_target(
    refs: Iterable[ForeignRef],
) -> dict[tuple[ToolTable | None, Column[Any] | None], list[ForeignRef]]:
    """Group refs by table and key column; refs that already have a label are under `None`."""
    by_target: dict[tuple[ToolTable | None, Column[Any] | None], list[ForeignRef]] = {}
    for each in refs:
        place = (each.target, each.by) if each.label is None else (None, None)
        by_target.setdefault(place, []).append(each)
    return by_target


def _has_row(rows: FromClause, own: Sequence[Any]) -> Condition:
    """Return the condition that a row's primary key is in a list."""
    same = (mine == theirs for mine, theirs in zip(own, rows.c, strict=True))
    return select(literal(1)).select_from(rows).where(*same).exists()


def _without(related: Any, removed: Collection[int]) -> Any:
    """Return the shown value of a relationship without removed rows."""
    if isinstance(related, list):
        return [each for each in related if id(each) not in removed]
    return None if id(related) in removed else related
