"""What a call changes beside the rows that were asked for: told by refs, once hooks were asked.

A `Reach` comes in; the refs of what a model may know go out, by what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import FetchedValue, inspect, select

from alfred_refs import sqla
from alfred_refs.tools.call import Call
from alfred_refs.tools.changes import Changes, put
from alfred_refs.tools.errors import still_referenced
from alfred_refs.tools.tables.table import ToolTable

from .search import AffectedRow, Reach, Searcher, grouped

_NAMED = 10  # rows that an error names


class ReachReport:
    """Rows that one call reaches."""

    def __init__(self, call: Call, changes: Changes) -> None:
        self._call = call
        self._changes = changes

    def changed(
        self, groups: Mapping[ToolTable, tuple[Sequence[Any], Mapping[str, Any]]]
    ) -> dict[str, list[str]]:
        """Return what is changed with rows that get other values, before they do.

        Args:
            groups: by the table that a model knows them by, the rows and their new values.

        Raises:
            ToolError: it is not for the model to change.
        """
        searcher = Searcher(self._call, "db_update")
        for table, (instances, values) in groups.items():
            reach = searcher.search_changed(instances, values)
            found = [*reach.unlinked.values(), *reach.followed.values()]
            refused = [each for each in found if not may_be_written(each)]
            self.refuse(refused, table, "changed in")
        return self.told(searcher.reach)

    def told(self, reach: Reach) -> dict[str, list[str]]:
        """Return what a model is told of rows, once hooks were asked of those that are changed."""
        along = reach.along()
        unlinked = [
            each
            for each in reach.left(reach.unlinked)
            if _is_beside(each, reach) and each.identity not in reach.followed
        ]
        followed = [each for each in reach.left(reach.followed) if _is_beside(each, reach)]
        links = reach.left(reach.linked)
        for table, same in grouped(along, lambda each: each.tool_table).items():
            if table is not None:
                self._changes.ask(table, "delete", [], refs=self.refs(same))
        groups = grouped([*unlinked, *followed], lambda each: (each.tool_table, *each.names))
        for (table, *names), same in groups.items():
            if table is not None and self._call.setting.hooks_of(table):
                self._ask(table, names, same)
        told = {
            "deleted_with": self.refs(along),
            "updated_with": self.refs(followed),
            "unlinked": self.refs([*unlinked, *links]),
        }
        return {name: refs for name, refs in told.items() if refs}

    def refs(self, found: Iterable[AffectedRow]) -> list[str]:
        """Return the refs of those rows that a model may know: at most one round trip."""
        pairs = [
            (each.tool_table.entity, each.tool_table.keys.key_of(each.key))
            for each in found
            if each.tool_table is not None
        ]
        return [*dict.fromkeys(self._call.conversation.refer_pairs(pairs))] if pairs else []

    def refuse(self, found: Sequence[AffectedRow], table: ToolTable, done: str) -> None:
        """Refuse what would change rows, if there are any, and name those of one class.

        Args:
            found: the rows.
            table: in which something is done that would change them.
            done: what that is.
        """
        if not found:
            return
        named = [each for each in found if each.tool_table is not None and each.is_writable]
        if not named or (referring := named[0].tool_table) is None:
            raise still_referenced(table.name, None, verbs=(), done=done)
        same = [each for each in named if each.tool_table is referring]
        without = set() if all(map(_may_be_changed, same)) else {"update"}
        labels = self._labels(referring, same[:_NAMED])
        known = {ref: label for ref, label in labels.items() if label is not None}
        verbs = referring.verbs - without
        raise still_referenced(
            table.name, referring.name, [*labels], known, verbs=verbs, done=done
        )

    def _labels(self, table: ToolTable, found: Iterable[AffectedRow]) -> dict[str, str | None]:
        """Return the refs of rows that the session may see, with their labels."""
        instances = self._loaded(table, found)
        label = table.keys.label
        refs = self._call.refs_of(instances, table)
        states = [sqla.state_of(each).dict for each in instances]
        return {
            ref: None if label is None else label.of(state)
            for ref, state in zip(refs, states, strict=True)
        }

    def _ask(self, table: ToolTable, names: Sequence[str], found: Sequence[AffectedRow]) -> None:
        """Ask hooks of rows that are changed in some attributes, and do what else they say."""
        values = zip(names, found[0].written.values(), strict=True)
        record = {name: value for name, value in values if not isinstance(value, FetchedValue)}
        instances = self._loaded(table, found)
        writing = self._changes.ask(table, "update", instances, [record])
        put(instances, {n: v for n, v in writing.records[0].items() if n not in names})

    def _loaded(self, table: ToolTable, found: Iterable[AffectedRow]) -> list[Any]:
        """Return the instances of rows: one statement."""
        primary = inspect(table.model).mapper.primary_key
        among = sqla.among(primary, [each.key for each in found])
        statement = select(table.model).where(among).execution_options(raw_keys=True)
        with self._call.session.no_autoflush:
            return [*self._call.session.scalars(statement)]


def may_be_written(found: AffectedRow) -> bool:
    """Tell whether a call may have the reference of a row changed."""
    if found.tool_table is None or not found.is_writable:
        return found.is_writable and found.said
    return _may_be_changed(found)


def _may_be_changed(found: AffectedRow) -> bool:
    """Tell whether a model may change the reference of a row itself."""
    table = found.tool_table
    if table is None or "update" not in table.verbs:
        return False
    columns = [table.columns.get(name) for name in found.names]
    return all(column is not None and column.updatable for column in columns)


def _is_beside(found: AffectedRow, reach: Reach) -> bool:
    return found.identity not in reach.roots
