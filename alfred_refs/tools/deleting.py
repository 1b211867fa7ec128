"""Delete rows for a model, with what the mapping and the schema take along or unlink.

Rows come in that filters hit; what went with them and what was unlinked goes out, by refs. Nothing
is done if a row is in the way, or if one would be changed that is not for the model to change:
that is refused before anything is sent, with the refs of such rows. What no model may use goes
where the mapping or the schema says so, and is not named; what the ORM would unlink there by
default stays, for nobody has said that it may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.exc import CircularDependencyError
from sqlalchemy.util import IdentitySet

from alfred_refs import sqla
from alfred_refs.tools.reach.search import AffectedRow, Reach, Searcher
from alfred_refs.tools.reach.telling import ReachReport, may_be_written
from alfred_refs.tools.tables.table import ToolTable

from .call import Call
from .changes import Changes
from .errors import circular_reference


class Deleter:
    """Deletes for one call."""

    def __init__(self, call: Call, table: ToolTable, changes: Changes) -> None:
        self._call = call
        self._table = table
        self._changes = changes
        self._report = ReachReport(call, changes)

    def delete(self, instances: Sequence[Any]) -> dict[str, list[str]]:
        """Delete rows, all in one flush, and return the refs of others, by what became of them.

        Raises:
            ToolError: rows that refer to these are in the way, or not for the model to change.
        """
        for table, rows in self._changes.by_table(instances):
            if table is not self._table:
                table.check("delete")
                self._changes.ask(table, "delete", rows)
        searcher = Searcher(self._call, "db_delete")
        self._hold(searcher.search(instances))
        session = self._call.session
        before = session.deleted
        # what cascades is loaded: each time, that would flush what is marked so far
        with session.no_autoflush:
            for instance in instances:
                session.delete(instance)
            cascaded = [each for each in session.deleted if each not in before]
            self._hold(searcher.search(cascaded, along=True))
            told = self._report.told(searcher.reach)
        try:
            session.flush()
        except CircularDependencyError:
            raise circular_reference(self._table.name) from None
        return told

    def orphans(self, instances: Sequence[Any]) -> dict[str, list[str]]:
        """Return what a flush changes that deletes rows because others let go of them.

        Raises:
            ToolError: it is not for the model to change.
        """
        session, searcher = self._call.session, Searcher(self._call, "db_create")
        with session.no_autoflush:  # nothing is sent before it is held
            reach = searcher.search(instances, along=True)
            let_go = IdentitySet(instances)
            for state in map(sqla.state_of, session.dirty):
                if any(each in let_go for each in sqla.orphaned_by(state)):
                    # it refers to something else by now
                    for found in (reach.unlinked, reach.followed, reach.staying):
                        found.pop(state.key and state.key[:2], None)
            self._hold(reach)
            return self._report.told(reach)

    def _hold(self, reach: Reach) -> None:
        """Check that all that is reached is for the model to change."""
        refused = reach.left(reach.staying)
        refused += [found for found in reach.along() if not _may_go(found)]
        changed = [*reach.left(reach.unlinked), *reach.left(reach.followed)]
        refused += [found for found in changed if not may_be_written(found)]
        self._report.refuse(refused, self._table, "deleted from")


def _may_go(found: AffectedRow) -> bool:
    if found.tool_table is None or not found.is_writable:
        return found.is_writable
    return "delete" in found.tool_table.verbs
