"""Links: writes of association tables, and what they change at both ends.

The association table of a many-to-many relationship is a table of its own to a model, unless it
has a mapped class. Its rows link two rows, by whose refs they are named:

    {"table": "task_labels", "data": {"task_id": "task_1", "label_id": "label_2", ...}}
    {"table": "task_labels", "filters": [task_id = task_1, label_id = label_2], ...}

The class of the table (`sqla.association_class`) is the toolset's own, so the unit of work writes
its rows like any others. This module does the rest of what a change of the relationship is: the
owner may change a row at one end, its hooks are called, and lists that are loaded are expired.

>>> [table.name for table in toolset.tables if table.ends]  # here none has such a relationship
[]

Limits: a link is created or deleted, not updated. Links are not drafts, and have no hooks of their
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import inspect, select

from alfred_refs import sqla
from alfred_refs.tools.call import Call
from alfred_refs.tools.cascades import Changes, assign_changes
from alfred_refs.tools.errors import foreign_row
from alfred_refs.tools.tables import LinkEnd, ToolTable, sharing_secondary


class LinkWriter:
    """Does what a write of links changes at their ends, for one call.

    Args:
        call: the call.
        changes: of the call.
        table: an association table.
    """

    def __init__(self, call: Call, changes: Changes, table: ToolTable) -> None:
        self._call = call
        self._changes = changes
        self._table = table

    def check_created(self, links: Sequence[Any], new: Iterable[Any]) -> None:
        """Check that the model may create links, and call the hooks of the rows at their ends.

        Args:
            links: flushed.
            new: the rows that the call has created, whose hooks were called.

        Raises:
            ToolError: it may not.
        """
        model = self._table.model
        keys = [inspect(model).mapper.primary_key_from_instance(link) for link in links]
        columns = [getattr(model, name) for name in self._table.identity]
        allowed = select(*columns).where(
            sqla.in_keys(columns, keys),
            *self._call.visibility.conditions(self._table, model),
            *self._call.write_conditions(self._table),
        )
        found = self._call.session.execute(allowed, execution_options={"raw_keys": True})
        may_write = {*map(tuple, found)}
        for link, key in zip(links, keys, strict=True):
            if tuple(key) not in may_write:
                names = [name for end in self._table.ends for name in end.columns]
                refs = [str(getattr(link, name)) for name in names]
                raise foreign_row(refs[0], None, refs)
        self.call_hooks(links, new)

    def call_hooks(self, links: Sequence[Any], new: Iterable[Any] = ()) -> None:
        """Call the hooks for an update of the rows whose relationships change.

        Raises:
            ToolError: the model may not update one, because of its subclass, or a hook refuses it.
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
        """Expire what the session has loaded of the relationships: it is read again when used."""
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
