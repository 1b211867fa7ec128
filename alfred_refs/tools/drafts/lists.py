"""Edit a list in a draft by position: in its content, by the same executor as lists of rows.

    {"table": "recipes", "row": "gen_recipe_1", "list": "steps",
     "edits": [{"action": "remove", "path": [3]}, {"action": "remove", "path": [5]}]}

What comes out is checked as a whole, as what `db_update` changes in drafts is. Positions that rows
in a draft have are numbered anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from alfred_refs.conversation.entries import Draft
from alfred_refs.errors import DriftError
from alfred_refs.positions.documents import read, written
from alfred_refs.positions.editing import instead_of
from alfred_refs.positions.edits import Add, Edit, Modify
from alfred_refs.positions.executor import execute
from alfred_refs.positions.lists import DocumentLevel, Level, RowLevel, unfit
from alfred_refs.positions.resolving import Item, Rules, UnfitError
from alfred_refs.tools.answers.numbering import numbered
from alfred_refs.tools.answers.results import shape_of
from alfred_refs.tools.call import Call
from alfred_refs.tools.tables.lists import ToolList
from alfred_refs.tools.wire.arguments import DbEditList

from .rows import DraftRows, draft_records
from .writing import changed_content, check_own

_TOKEN_BYTES = 9


class DraftLists:
    """A list in one draft, edited for one call."""

    def __init__(self, call: Call, listed: ToolList, draft: Draft) -> None:
        self._call = call
        self._list = listed
        self._draft = draft
        self._names = listed.name.split(".")

    def edit(self, arguments: DbEditList, edits: Sequence[Edit]) -> dict[str, Any]:
        """Edit the list, and return it as it is then; or as it would be, for a preview."""
        table, draft, name = self._list.tables[0], self._draft, self._names[0]
        last = self._list.levels[-1]
        within = len(last.names) if isinstance(last, DocumentLevel) else 0
        root = read(draft.content, self._names, within)
        if arguments.token is not None and arguments.token != self._token(draft):
            raise DriftError(arguments.name, None)
        outcome = execute(root, edits, arguments.name, _Rules(self._list.levels))
        if edits:
            check_own(self._call, table, [draft], "update")
            content = written(root, outcome.modified)
            value = _numbered_anew(content.get(name), self._list.levels)
            draft = replace(draft, content=changed_content(draft, {name: value}, table))
        if edits and not arguments.preview:
            given = {draft.ref: draft.content}
            [draft] = self._call.conversation.edit_drafts(
                given, versions={draft.ref: draft.version}
            )
        found = draft_records(self._call, [draft], table)
        rendering = self._call.rendering([], shape := shape_of(table, None))
        rows = DraftRows(self._call, rendering, found.labels, whole=True)
        [shown] = [rows.row(record, shape) for record in found.records]
        kept = self._draft if arguments.preview else draft
        answer = {
            "table": arguments.table,
            "row": arguments.row,
            "list": arguments.name,
            "items": numbered(shown.get(name), self._names[1:]),
            "count": len(root.items or ()),
            **({"preview": True} if arguments.preview else {}),
            "token": self._token(kept),
        }
        return self._call.finished(answer, [], rendering, rows.foreign())

    def _token(self, draft: Draft) -> str:
        """Return a digest of which list it is, and of all that is in it."""
        given = [draft.ref, self._list.name, draft.content.get(self._names[0])]
        text = json.dumps(given, sort_keys=True)
        return hashlib.blake2s(text.encode(), digest_size=_TOKEN_BYTES).hexdigest()


def _numbered_anew(value: Any, levels: Sequence[Level]) -> Any:
    """Return a list of objects that are to be rows with the positions that they have by now."""
    level, *rest = levels
    if not isinstance(value, list) or isinstance(level, DocumentLevel):
        return value
    with_position = [
        each for each in value if isinstance(each, Mapping) and level.position in each
    ]
    first = 0 if any(each[level.position] == 0 for each in with_position) else 1
    items = []
    for number, each in enumerate(value, start=first):
        item = each
        if isinstance(each, Mapping) and with_position:
            item = {**each, level.position: number}
        if isinstance(item, Mapping) and rest and isinstance(rest[0], RowLevel):
            inside = _numbered_anew(item.get(rest[0].name), rest)
            item = item if inside is None else {**item, rest[0].name: inside}
        items.append(item)
    return items


class _Rules(Rules):
    """What a model may do to items of a draft: the whole is checked once it is edited."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = levels

    def unexpected(self, item: Item, depth: int, expect: Any) -> str | None:  # noqa: ARG002
        # not what: it is as the draft keeps it, with the keys in documents
        return None if instead_of(item, expect) is None else "another item"

    def fitted(self, edit: Modify | Add, depth: int) -> Any:
        level = self._levels[min(depth, len(self._levels) - 1)]
        if depth < len(self._levels) and isinstance(level, RowLevel):
            is_row = isinstance(edit.value, Mapping) or (
                isinstance(edit, Add) and isinstance(edit.value, str)
            )
            if not is_row:
                raise UnfitError("is a row: give an object of its fields")
            if isinstance(edit.value, Mapping) and level.position in edit.value:
                raise UnfitError(f"has {level.position!r} by its place: move it")
            return edit.value
        why = unfit(self._levels, depth, edit)
        if why is not None:
            raise UnfitError(why)
        return edit.value
