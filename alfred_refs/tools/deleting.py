"""Delete rows for a model, with what the mapping and the schema take along or unlink.

Rows come in that filters hit; what went with them and what was unlinked goes out, by refs. Nothing
is done if a row is in the way, or if one would be changed that is not for the model to change:
that is refused before anything is sent, with the refs of such rows. What no model may use goes
where the mapping or the schema says so, and is not named; what the ORM would unlink there by
default stays, for nobody has said that it may.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import inspect, select
from sqlalchemy.exc import CircularDependencyError

from alfred_refs import sqla

from .calls import Call, key_in
from .changes import Changes, put
from .errors import CircularReferenceError, ForeignRowToolError, StillReferencedError
from .reach import Found, Reach, Searcher
from .table import ToolTable

_NAMED = 10  # rows that an error names


class Deleter:
    """Deletes for one call.

    Args:
        call: that is done.
        table: from which rows are deleted.
        changes: of the call.
    """

    def __init__(self, call: Call, table: ToolTable, changes: Changes) -> None:
        self._call = call
        self._table = table
        self._changes = changes

    def delete(self, instances: Sequence[Any]) -> dict[str, list[str]]:
        """Delete rows, all in one flush, and return the refs of others, by what became of them.

        Raises:
            ToolError: rows that refer to these are in the way, or not for the model to change.
        """
        for table, rows in self._changes.by_table(instances):
            if table is not self._table:
                table.check("delete")
                self._changes.ask(table, "delete", rows)
        searcher = Searcher(self._call)
        self._hold(searcher.search(instances))
        session = self._call.session
        before = session.deleted
        # what cascades is loaded: each time, that would flush what is marked so far
        with session.no_autoflush:
            for instance in instances:
                session.delete(instance)
            cascaded = [each for each in session.deleted if each not in before]
            self._hold(searcher.search(cascaded, along=True))
            told = self._told(searcher.reach)
        try:
            session.flush()
        except CircularDependencyError:
            raise CircularReferenceError(self._table.name) from None
        return told

    def _hold(self, reach: Reach) -> None:
        """Check that all that is reached is for the model to change.

        Raises:
            StillReferencedError: it is not.
        """
        along, unlinked, staying = reach.others()
        refused = [*staying]
        refused += [found for found in along if not _may_go(found)]
        refused += [found for found in unlinked if not _may_be_unlinked(found)]
        if not refused:
            return
        named = [found for found in refused if found.tool_table is not None and found.is_writable]
        if not named or (table := named[0].tool_table) is None:
            raise StillReferencedError(self._table.name, None, verbs=())
        same = [found for found in named if found.tool_table is table]
        verbs = table.verbs - {"update"} if not all(map(_may_be_changed, same)) else table.verbs
        labels = self._shown(table, same[:_NAMED])
        known = {ref: label for ref, label in labels.items() if label is not None}
        raise StillReferencedError(self._table.name, table.name, [*labels], known, verbs=verbs)

    def _shown(self, table: ToolTable, found: Iterable[Found]) -> dict[str, str | None]:
        """Return the refs of rows that the session may see, with their labels."""
        instances = self._loaded(table, found)
        label = table.keys.label
        refs = self._call.refs_of(instances, table)
        states = [sqla.state_of(each).dict for each in instances]
        return {
            ref: None if label is None else label.of(state)
            for ref, state in zip(refs, states, strict=True)
        }

    def _loaded(self, table: ToolTable, found: Iterable[Found]) -> list[Any]:
        """Return the instances of rows: one statement."""
        primary = inspect(table.model).mapper.primary_key
        among = sqla.among(primary, [each.key for each in found])
        statement = select(table.model).where(among).execution_options(raw_keys=True)
        with self._call.session.no_autoflush:
            return [*self._call.session.scalars(statement)]

    def _told(self, reach: Reach) -> dict[str, list[str]]:
        """Return what a model is told of the rows that are reached, once hooks were asked."""
        along, unlinked, _ = reach.others()
        told = {"deleted_with": self._refs(along), "unlinked": self._refs(unlinked)}
        for table, same in _by_table(along):
            self._changes.ask(table, "delete", [], refs=self._refs(same))
        for table, same in _by_table(unlinked):
            if self._call.setting.hooks_of(table):
                self._ask_unlinked(table, same)
        return {name: refs for name, refs in told.items() if refs}

    def _ask_unlinked(self, table: ToolTable, found: Sequence[Found]) -> None:
        """Ask hooks of rows that lose their reference, and change in those what they change."""
        instances = self._loaded(table, found)
        columns = dict.fromkeys(name for each in found for name in _columns(each))
        writing = self._changes.ask(table, "update", instances, dict.fromkeys(columns))
        put(instances, {n: v for n, v in writing.records[0].items() if n not in columns})

    def _refs(self, found: Iterable[Found]) -> list[str]:
        """Return the refs of those rows that a model may know: at most one round trip."""
        pairs = [
            (each.tool_table.entity, key_in(each.key, each.tool_table))
            for each in found
            if each.tool_table is not None
        ]
        return self._call.conversation.refer_pairs(pairs) if pairs else []


def check_changed(found: Found, table: ToolTable) -> None:
    """Check that a row is for the model to change that the database changes with one of a table.

    Raises:
        ToolError: it is not.
    """
    if not found.is_writable:
        raise ForeignRowToolError(None, None)
    if found.tool_table is not None and not _may_be_changed(found):
        verbs = found.tool_table.verbs - {"update"}
        name = found.tool_table.name
        raise StillReferencedError(table.name, name, verbs=verbs, done="changed in")


def _may_go(found: Found) -> bool:
    if found.tool_table is None or not found.is_writable:
        return found.is_writable
    return "delete" in found.tool_table.verbs


def _may_be_unlinked(found: Found) -> bool:
    if found.tool_table is None or not found.is_writable:
        return found.is_writable and found.edge is not None and found.edge.said
    return _may_be_changed(found)


def _may_be_changed(found: Found) -> bool:
    """Tell whether a model may take the reference out of a row."""
    table = found.tool_table
    if table is None or "update" not in table.verbs:
        return False
    columns = [table.columns.get(name) for name in _columns(found)]
    return all(column is not None and column.updatable for column in columns)


def _columns(found: Found) -> list[str]:
    """Return the attributes in which a row refers to what goes; empty text for none."""
    if found.edge is None or found.mapper is None:
        return []
    names = sqla.attributes_of(found.mapper, found.edge.columns)
    return [names.get(column, "") for column in found.edge.columns]


def _by_table(found: Iterable[Found]) -> list[tuple[ToolTable, list[Found]]]:
    groups: dict[ToolTable, list[Found]] = {}
    for each in found:
        if each.tool_table is not None:
            groups.setdefault(each.tool_table, []).append(each)
    return [*groups.items()]
