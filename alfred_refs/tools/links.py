"""Links: writes of association tables, and their effects on the rows at both ends.

The association table of a many-to-many relationship is a table of its own to a model, unless it
has a mapped class. Each of its rows links two rows, and is named by their refs:

    {"table": "task_labels", "data": {"task_id": "task_1", "label_id": "label_2", ...}}
    {"table": "task_labels", "filters": [task_id = task_1, label_id = label_2], ...}

The class of the table (`sqla.association_class`) is the toolset's own, so the unit of work writes
its rows like any others. This module treats the write as a change of the relationship: it checks
that the owner may change a row at one end, calls its hooks, and expires loaded lists.

>>> [table.name for table in toolset.tables if table.ends]  # here none has such a relationship
[]

Limits: a link is created or deleted, not updated. Links are not drafts, and have no hooks of their
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import func, inspect, select

from alfred_refs import sqla
from alfred_refs.tools.call import Call
from alfred_refs.tools.cascades import Changes, assign_changes
from alfred_refs.tools.catalog import sharing_secondary
from alfred_refs.tools.errors import ToolError, conflict, foreign_row
from alfred_refs.tools.tables import LinkEnd, ToolTable
from alfred_refs.tools.visibility import rows_outside


class LinkWriter:
    """Updates the rows at both ends of written links, for one call.

    Args:
        call: the call.
        changes: the changes of the call.
        table: an association table.
    """

    def __init__(self, call: Call, changes: Changes, table: ToolTable) -> None:
        self._call = call
        self._changes = changes
        self._table = table

    def check_once(self, links: Iterable[Any]) -> None:
        """Check that no two of the new links are equal, before the flush.

        Raises:
            ToolError: two are.
        """
        keys = [
            tuple(sqla.state_of(link).dict.get(name) for name in self._table.identity)
            for link in links
        ]
        if len(set(keys)) < len(keys):
            raise conflict(self._table.name, self._table.identity)

    def check_created(self, links: Sequence[Any], new: Iterable[Any]) -> None:
        """Check that the model may create links, and call the hooks of the rows at their ends.

        Args:
            links: the links, after the flush.
            new: the rows that the call has created; their hooks were called already.

        Raises:
            ToolError: the model may not create them.
        """
        conditions = [
            *self._call.visibility.conditions(self._table, self._table.model),
            *self._call.write_conditions(self._table),
        ]
        for link in rows_outside(self._call.session, self._table, links, conditions):
            names = [name for end in self._table.ends for name in end.columns]
            refs = [str(getattr(link, name)) for name in names]
            raise foreign_row(refs[0], None, refs)
        if not inspect(self._table.model).local_table.primary_key:
            self._check_new(links)
        self.call_hooks(links, new)

    def _check_new(self, links: Iterable[Any]) -> None:
        """Check that no link existed before, which no primary key ensures.

        The unit of work cannot delete the rows at the ends of two equal links: it expects one.
        """
        mapper, own = inspect(self._table.model), self._table.primary_key()
        keys = map(mapper.primary_key_from_instance, links)
        twice = select(*own).where(sqla.in_keys(own, keys)).group_by(*own).having(func.count() > 1)
        if self._call.session.execute(twice, execution_options={"raw_keys": True}).first():
            raise conflict(self._table.name, self._table.identity)

    def call_hooks(self, links: Sequence[Any], new: Iterable[Any] = ()) -> None:
        """Call the hooks for an update of the rows whose relationships change.

        Raises:
            ToolError: the model may not update a row, because of its subclass, or a hook refuses
                the update.
        """
        known = {id(each) for each in new}
        for end in self._table.ends:
            if end.is_writable and any(map(self._is_watched, end.table.kinds.values())):
                rows = [each for each in self._rows_at(end, links) if id(each) not in known]
                for table, same in self._changes.by_table(rows):
                    record = self._changes.update(table, same, {}, ())
                    assign_changes(same, record)

    def _is_watched(self, table: ToolTable) -> bool:
        return bool(self._call.setting.hooks_of(table)) or "update" not in table.verbs

    def _rows_at(self, end: LinkEnd, links: Sequence[Any]) -> list[Any]:
        model = end.table.model
        columns = [getattr(model, there) for there in end.columns.values()]
        loaded = [sqla.state_of(link).dict for link in links]
        keys = [tuple(values[here] for here in end.columns) for values in loaded]
        statement = select(model).where(sqla.in_keys(columns, keys))
        options = {"raw_keys": True}
        return [*self._call.session.scalars(statement, execution_options=options).unique()]

    def expire(self) -> None:
        """Expire the loaded relationships, so that the next access reads them again."""
        names = {
            pair
            for end in self._table.ends
            for of, name in end.names
            for pair in sharing_secondary(inspect(of.model).mapper, name)
        }
        for instance in self._call.session.identity_map.values():
            state = sqla.state_of(instance)
            loaded = [
                name for mapper, name in names if state.mapper.isa(mapper) and name in state.dict
            ]
            if loaded:
                self._call.session.expire(instance, loaded)


def repeated_link(table: str, links: str | None) -> ToolError:
    """Report that a row cannot be deleted because one of its links is in the database twice.

    Args:
        table: the table of the row.
        links: the association table, if the model may delete its rows.
    """
    fact = "a link" if links is None else f"a link in {links!r}"
    remedy = "this cannot be repaired here, so leave the row as it is"
    if links is not None:
        remedy = f"delete the links of the row in table {links!r} first"
    return ToolError(
        "still_referenced",
        f"{fact} of what would be deleted from {table!r}, or would go with it, is there twice; "
        f"nothing was changed; {remedy}",
        table=table,
        referring=links,
        refs=[],
    )
