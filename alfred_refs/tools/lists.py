"""`db_edit_list`: lists edited by position.

>>> edits = [{"action": "remove", "path": [1], "expect": "4 tomatoes"}]
>>> given = {"table": "recipes", "row": "recipe_1", "expect": "Soup", "list": "lines"}
>>> answer = toolset.call(session, "db_edit_list", {**given, "edits": edits})
>>> answer["items"], answer["count"]
({'1': {'id': 'line_2', 'text': '1 onion'}}, 1)

1. `ListEditor` reads the list as a snapshot (`positions`), locks its rows, and compares the token,
   if the model passes one from an earlier answer.
2. The executor of `positions` applies all edits or none. `ItemRules` finds the items that refs
   name, compares items with `expect`, and checks values.
3. The resulting plan passes the checks of any write: verbs and columns, ownership, hooks,
   cascades.
4. `ListAnswers` shows the list: each item under its position, with the length and a token.

Positions, and the foreign key to the row with the list, are written if a model may update the
rows, even if these columns are hidden.

`DraftLists` edits a list inside a draft with the same executor: the complete content is checked
after the edits, and positions stored in nested rows are renumbered.

Limits: rows without a usable order can be edited only after a preview has shown the list to the
model. An item cannot be moved to another row if the model may not change the foreign key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import select

from alfred_refs.conversation import Draft, NewRow
from alfred_refs.errors import DriftError, ListError, SetupError
from alfred_refs.positions.editing import (
    RowAddition,
    RowChange,
    RowPlan,
    Snapshot,
    column_value,
    plan_of,
    write,
)
from alfred_refs.positions.edits import (
    Add,
    Edit,
    InvalidValueError,
    Item,
    Modify,
    Move,
    Remove,
    Rules,
    execute,
    read_item,
    write_item,
)
from alfred_refs.positions.lists import DocumentLevel, Level, RowLevel, move_refusal, value_refusal
from alfred_refs.tools.answers import (
    Paths,
    Rendering,
    Shape,
    ShownRow,
    cut_depth,
    number_items,
    paths_inside,
    shape_of,
    size_of,
)
from alfred_refs.tools.arguments import DbEditList, ListEdit
from alfred_refs.tools.call import Call
from alfred_refs.tools.cascades import (
    CascadeReport,
    Changes,
    check_create,
    check_update,
    restored_values,
)
from alfred_refs.tools.drafts import (
    DraftRows,
    apply_changes,
    check_draft_permissions,
    draft_records,
)
from alfred_refs.tools.errors import (
    ToolError,
    fixed_item,
    foreign_row,
    hidden_items,
    unordered_list,
)
from alfred_refs.tools.faults import refusing_values
from alfred_refs.tools.filters import BoundFilters, filter_by_refs
from alfred_refs.tools.payload import check_complete, new_records, refs_of_records, update_record
from alfred_refs.tools.preconditions import differences, item_mismatch
from alfred_refs.tools.serialization import as_shown
from alfred_refs.tools.tables import ToolColumn, ToolList, ToolTable, list_by_name
from alfred_refs.tools.visibility import rows_outside
from alfred_refs.tools.writing import Deleter


class ItemRules(Rules):
    """The rules for items of a list, from the rules for rows and columns."""

    def __init__(self, call: Call, listed: ToolList, snapshot: Snapshot) -> None:
        self._call = call
        self._list = listed
        self._snapshot = snapshot

    def path_of(self, ref: str) -> Sequence[int] | None:
        """See `Rules.path_of`; also finds rows with composite keys by their refs."""
        found = self._snapshot.path_of_ref(ref)
        tables = [] if found else [each for each in self._list.tables[1:] if each.own is None]
        for table in tables:
            depth = [*self._list.tables].index(table) - 1
            items = [i for i, place in self._snapshot.places.items() if place.depth == depth]
            refs = self._call.refs_of([item.value for item in items], table)
            if ref in refs:
                return self._snapshot.path_of(items[refs.index(ref)])
        return found

    def mismatch(self, item: Item, depth: int, expect: Any) -> str | None:
        """See `Rules.mismatch`; the returned text contains no keys."""
        table = self._list.rows_at(depth)
        if table is not None:
            if not isinstance(expect, str | Mapping):
                return "a row"
            if isinstance(expect, str) and self._has_text(item.value, table, expect):
                return None
            if isinstance(expect, str) and table.keys.label is None:
                return "another row"
            found = differences(table, item.value, expect, self._call.exact.of)
            other = {name: actual for name, _, actual in found}
            is_shown = not self._call.visibility.hooks.may_mask(table)
            return (repr(other) if is_shown else "another row") if other else None
        if item_mismatch(item, expect) is None:
            return None
        shown = self._item_to_json(item, depth)
        shown = as_shown(shown)
        return None if shown == as_shown(expect) else repr(shown)

    def _item_to_json(self, item: Item, depth: int) -> Any:
        """Return an item of an array or a document as JSON."""
        level, column = self._list.levels[-1], self._list.column
        inside: list[int] = []
        while depth >= len(self._list.levels) - 1:
            place = self._snapshot.places[item]
            inside.insert(0, place.number)
            item, depth = place.parent, place.depth - 1
        if column is None or not isinstance(level, DocumentLevel):
            return None
        shown = read_item(column.show(getattr(item.value, column.name)), level.names)
        for number in inside:
            shown = (shown.items or [])[number - 1]
        return shown.value.value

    def move_refusal(self, depth: int) -> str | None:
        """See `Rules.move_refusal`."""
        return move_refusal(self._list.levels, depth)

    def _has_text(self, row: Any, table: ToolTable, text: str) -> bool:
        """Return whether a text is a value of a row, not only its label; refs do not count."""
        columns = table.columns.values()
        shown = [column.name for column in columns if column.shown and column.key is None]
        return any(getattr(row, name) == text for name in shown)

    def check_value(self, edit: Modify | Add, depth: int) -> Any:
        """See `Rules.check_value`; checks values like `db_update` and `db_create`."""
        table = self._list.rows_at(depth)
        try:
            if table is None:
                return self._fitted_item(edit, depth)
            return _fitted_row(edit, table, self._list.levels[depth])
        except ToolError as error:
            raise InvalidValueError(f"cannot be given this: {error.message}") from None

    def _fitted_item(self, edit: Modify | Add, depth: int) -> Any:
        """Return the value of an item of an array or a document."""
        why, column = value_refusal(self._list.levels, depth, edit), self._list.column
        if why is not None or column is None:
            raise InvalidValueError(why)
        # wrapped in lists, because the column only accepts values of its own dimensions
        around = depth + 2 - len(self._list.levels) if column.values.item is not None else 0
        given = edit.value
        for _ in range(around):
            given = [given]
        given = column.accept(given, new=True)
        for _ in range(around):
            [given] = given
        return given


def _fitted_row(edit: Modify | Add, table: ToolTable, level: Level) -> Mapping[str, Any]:
    """Return the values of a row by attribute."""
    if not isinstance(edit.value, Mapping):
        raise InvalidValueError("is a row: give an object of its fields")
    placed = [level.position, *level.foreign_key] if isinstance(level, RowLevel) else []
    for name in edit.value:
        if name in placed:
            raise InvalidValueError(f"has {name!r} by its place: move it")
    if isinstance(edit, Modify):
        return update_record(table, edit.value)
    return new_records(table, [edit.value])[0]


class ListAnswers:
    """Makes the answer of a list: each item under its position.

    Args:
        call: the call.
        listed: the list.
        paths: the paths of the items to show; `None` shows all.
        modified: new values of items, not in the database.
    """

    def __init__(
        self,
        call: Call,
        listed: ToolList,
        paths: Paths | None,
        modified: Mapping[Item, Any] = MappingProxyType({}),
    ) -> None:
        self._call = call
        self._list = listed
        self._paths = paths
        self._modified = modified
        self._room = call.room()
        self._rendering: Rendering = call.rendering([], Shape(listed.tables[0], []))
        self._changed: list[ShownRow] = []  # by previewed edits
        self._shapes = [
            Shape(table, [*_columns(table, level)])
            for table, level in zip(listed.tables[1:], listed.levels, strict=False)
            if isinstance(level, RowLevel)
        ]

    def answer(
        self, arguments: DbEditList, snapshot: Snapshot, notes: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return the answer: items, the length of the list, its token, and notes of hooks."""
        root, level = snapshot.root, self._list.levels[0]
        if isinstance(level, DocumentLevel):
            items: Any = self._document(root, level, arguments.row, ())
        else:
            items = self._rows(root, arguments.name, ())
        answer = {
            "table": arguments.table,
            "row": arguments.row,
            "list": arguments.name,
            "items": items,
            "count": len(root.items or ()),
            **({"preview": True} if arguments.preview else {}),
            "token": snapshot.token,
        }
        self._call.mask_rows([*self._rendering.shown, *self._changed])
        return self._call.finish_answer(answer, notes, self._rendering)

    def _rows(self, parent: Item, path: str, around: tuple[int, ...]) -> dict[str, Any]:
        items, shown, depth = parent.items or [], dict[str, Any](), len(around)
        paths = paths_inside(self._paths, around)
        for number, item in enumerate(items, start=1):
            place = (*around, number)
            if paths is not None and place not in paths:
                continue
            if len(shown) >= self._call.setting.limits.rows or self._room.characters < 0:
                self._rendering.cut.append(f"{path}: items from {number} to {len(items)}")
                break
            row = self._row(item, depth)
            self._room.characters -= size_of(row)
            inside = self._list.levels[depth + 1 : depth + 2]
            for level in inside if item.items is not None else ():
                where = f"{path}[{number}]"
                if isinstance(level, DocumentLevel):
                    row[level.column] = self._document(item, level, where, place)
                else:
                    row[level.name] = self._rows(item, f"{where}.{level.name}", place)
            shown[str(number)] = row
        return shown

    def _row(self, item: Item, depth: int) -> dict[str, Any]:
        shape = self._shapes[depth]
        new_values = self._modified.get(item, {})
        row: dict[str, Any] = {}
        if isinstance(item.value, shape.table.model):
            row = self._rendering.row(item.value, shape)
            if new_values:
                # not labelled, because labels would belong to the values before the edit
                self._changed.append(self._rendering.shown.pop())
        else:
            new_values = item.value
        row.update(
            (name, shape.table.columns[name].show(value)) for name, value in new_values.items()
        )
        return row  # not a copy, because labels are added later

    def _document(
        self, item: Item, level: DocumentLevel, path: str, around: tuple[int, ...]
    ) -> Any:
        column, cut = self._list.tables[-1].columns[level.column], self._rendering.cut
        whole = cut_depth(column_value(item, level, self._modified), path, cut)
        shown = self._rendering.fit_value(column.show(whole), column, path)
        self._room.characters -= size_of(shown)
        paths = paths_inside(self._paths, around)
        return number_items(shown, level.names, column, paths, around)


def _columns(table: ToolTable, level: RowLevel) -> Iterator[ToolColumn]:
    """Yield the columns to show of a list's rows, without position and parent columns."""
    placed = {level.position, *level.foreign_key}
    for name, column in table.columns.items():
        if name == table.own or (column.shown and name not in placed):
            yield column


_MAX_NAMED = 10  # rows that an error names


class ListEditor:
    """Edits a list, for one call."""

    def __init__(self, call: Call, arguments: DbEditList) -> None:
        self._call = call
        self._arguments = arguments
        self._table = call.setting.tables.by_name(arguments.table)
        self._list = list_by_name(self._table, arguments.name)
        self._changes = Changes(call, arguments)
        # the lists are filled after the write, so that `after_write` gets the new rows
        self._added: list[tuple[list[Any], Sequence[RowAddition]]] = []

    def edit(self) -> dict[str, Any]:
        """Edit the list, and return the answer; a preview changes nothing."""
        arguments = self._arguments
        edits = [_edit_of(each) for each in arguments.edits]
        drafts = self._call.pending_drafts([arguments.row], self._table.entity)
        if drafts:
            return DraftLists(self._call, self._list, drafts[arguments.row]).edit(arguments, edits)
        row = self._row()
        snapshot = self._snapshot(row, lock=not arguments.preview)
        if arguments.token is not None:
            snapshot.check(self._list.name, arguments.token)
        outcome = execute(
            snapshot.root, edits, self._list.name, ItemRules(self._call, self._list, snapshot)
        )
        paths = outcome.shown_paths(snapshot.root) if edits else None
        plan = plan_of(snapshot, outcome)
        for each in plan.changed:
            each.values = restored_values(each.row, each.values)
        self._check(plan)
        if arguments.preview:
            preview = ListAnswers(self._call, self._list, paths, outcome.modified)
            return preview.answer(arguments, snapshot)
        others = self._prepare(plan)
        with refusing_values(self._list.tables[-1].name):
            write(self._call.session, plan)
        for made, new_rows in self._added:
            made += [new.row for new in new_rows]
        now = self._snapshot(row, lock=False)
        shown = ListAnswers(self._call, self._list, paths)
        return shown.answer(arguments, now, self._changes.finish_hooks()) | others

    def _row(self) -> Any:
        """Return the row that has the list.

        Raises:
            BadRefError: it does not exist.
            ToolError: the session may not change it.
        """
        table, ref = self._table, self._arguments.row
        keys = self._call.resolve([(ref, table.entity)])
        visible = self._call.visibility.conditions(table, table.model)
        statement = select(table.model).where(
            *self._call.conditions(keys).all_of(filter_by_refs(table, [ref])),
            *self._call.write_conditions(table),
            *visible,
        )
        row = self._call.session.scalars(statement).unique().one_or_none()
        if row is None:
            self._call.check_existence(keys)
            raise foreign_row(ref, None)
        return row

    def _snapshot(self, row: Any, *, lock: bool) -> Snapshot:
        """Read the list; rows without a usable order are renumbered if the model has seen them."""
        is_seen = self._arguments.preview or self._arguments.token is not None
        try:
            snapshot = Snapshot.read(
                self._call.session, row, self._list.levels, lock=lock, repair=is_seen
            )
        except ListError as error:
            raise unordered_list(self._list.name, error.fact, is_seen=is_seen) from None
        is_document = isinstance(self._list.levels[0], DocumentLevel)
        if is_document and self._call.visibility.hooks.may_mask(self._table):
            raise hidden_items(self._list.name)
        for depth, table in enumerate(self._list.tables[1:]):
            rows = [item.value for item, place in snapshot.places.items() if place.depth == depth]
            if self._call.visibility.hidden_among(table, rows):
                raise hidden_items(self._list.name)
        return snapshot

    def _prepare(self, plan: RowPlan) -> dict[str, list[str]]:
        """Call the hooks of all planned changes, and check cascades.

        Removed rows that must be deleted are deleted here.

        Returns:
            the refs of rows that are deleted or changed with others.
        """
        others: dict[str, list[str]] = {}
        for level, rows in _by_level(plan.removed):
            if level.deletes:
                target = self._target(level)
                for table, same in self._changes.by_table(rows):
                    if table is target:
                        self._changes.call_hooks(table, "delete", same)
                _add(others, Deleter(self._call, target, self._changes).delete(rows))
        plan.removed = [(row, level) for row, level in plan.removed if not level.deletes]
        self._prepare_changed(plan, others)
        for level, new_rows in _by_level((new, new.level) for new in plan.added):
            self._prepare_new(self._target(level), new_rows)
        return others

    def _check(self, plan: RowPlan) -> None:
        """Check permissions and refs, before hooks are called and anything is changed.

        Raises:
            ToolError: the model may not make an edit.
            BadRefError: a ref in the data is unknown.
        """
        self._check_owned(
            [*(row for row, _ in plan.removed), *(each.row for each in plan.changed)]
        )
        refs: list[tuple[str, str]] = []
        leaving: list[tuple[Any, Sequence[str]]] = [
            (row, level.foreign_key) for row, level in plan.removed if not level.deletes
        ]
        for row, level in plan.removed:
            for table, _ in self._changes.by_table([row] if level.deletes else ()):
                table.check("delete")
        for each in plan.changed:
            [(table, _)] = self._changes.by_table([each.row])
            check_update(table, each.values)
            refs += refs_of_records(table, [each.values])
            named = () if each.level is None else each.level.foreign_key
            leaving.append((each.row, [name for name in named if name in each.placement]))
        for row, parents in leaving:
            for table, _ in self._changes.by_table([row]):
                table.check("update")
                columns = [table.columns.get(name) for name in parents]
                if not all(column is not None and column.updatable for column in columns):
                    raise fixed_item(self._list.name)
        for new in plan.added:
            target = self._target(new.level)
            target.check("create")
            check_create(target, new.level.foreign_key)
            refs += refs_of_records(target, [new.values])
        self._call.resolve(refs)

    def _check_owned(self, rows: Iterable[Any]) -> None:
        """Check that the owner may write rows: one statement per table."""
        for table, same in self._changes.by_table(rows):
            rules = self._call.write_conditions(table)
            foreign = rows_outside(self._call.session, table, same, rules)
            if foreign:
                refs = self._call.refs_of(foreign[:_MAX_NAMED], table)
                raise foreign_row(refs[0], None, refs)

    def _prepare_changed(self, plan: RowPlan, others: dict[str, list[str]]) -> None:
        """Call the hooks of rows that stay: for each changed row, and once for all moved rows."""
        report = CascadeReport(self._call, self._changes)
        unlinked = [
            RowChange(row, None, placement=dict.fromkeys(level.foreign_key))
            for row, level in plan.removed
        ]
        moved: dict[ToolTable, list[RowChange]] = {}
        for each in [*plan.changed, *unlinked]:
            [(table, rows)] = self._changes.by_table([each.row])
            if each.values:
                each.values = self._changes.update(table, rows, dict(each.values), each.values)
            else:
                moved.setdefault(table, []).append(each)
        for table, same in moved.items():
            record = self._changes.update(table, [each.row for each in same], {}, ())
            for each in same:
                each.values = {**record}
        for each in [*plan.changed, *unlinked]:
            [(table, rows)] = self._changes.by_table([each.row])
            _add(others, report.changed({table: (rows, {**each.values, **each.placement})}))
        # their parents are reset when the removal is written
        plan.changed += [replace(each, placement={}) for each in unlinked if each.values]

    def _prepare_new(self, target: ToolTable, new_rows: Sequence[RowAddition]) -> None:
        """Call the hooks of new rows of one list.

        Raises:
            SetupError: a hook adds or removes records.
        """
        records = [{**new.values, **new.placement} for new in new_rows]
        made: list[Any] = []
        writing = self._changes.call_hooks(target, "create", made, records)
        if len(writing.records) != len(new_rows):
            raise SetupError(
                f"a hook of {target.model.__qualname__!r} changed how many records there are, "
                "and each has its position",
                "have it change the records, or refuse the call with a ToolError",
            )
        check_complete(target, [NewRow(target.model, each) for each in writing.records])
        self._call.resolve(refs_of_records(target, writing.records))
        for new, record in zip(new_rows, writing.records, strict=True):
            new.values = {n: value for n, value in record.items() if n not in new.placement}
        self._added.append((made, new_rows))

    def _target(self, level: RowLevel) -> ToolTable:
        return self._list.tables[1 + [*self._list.levels].index(level)]


def _edit_of(given: ListEdit) -> Edit:
    """Return an edit for the executor."""
    path: Any = given.ref if given.path is None else given.path
    to: Any = given.to
    match given.action:
        case "modify":
            return Modify(path, given.data, given.expect)
        case "remove":
            return Remove(path, given.expect)
        case "add":
            return Add(path, given.data)
        case "move":
            return Move(path, to, given.expect)


def _by_level(pairs: Iterable[tuple[Any, RowLevel]]) -> Iterator[tuple[RowLevel, list[Any]]]:
    groups: dict[RowLevel, list[Any]] = {}
    for each, level in pairs:
        groups.setdefault(level, []).append(each)
    yield from groups.items()


def _add(others: dict[str, list[str]], more: Mapping[str, Sequence[str]]) -> None:
    for name, refs in more.items():
        others[name] = [*dict.fromkeys([*others.get(name, ()), *refs])]


_TOKEN_BYTES = 9


class DraftLists:
    """Edits a list in one draft, for one call."""

    def __init__(self, call: Call, listed: ToolList, draft: Draft) -> None:
        self._call = call
        self._list = listed
        self._draft = draft
        self._names = listed.name.split(".")

    def edit(self, arguments: DbEditList, edits: Sequence[Edit]) -> dict[str, Any]:
        """Edit the list, and return the answer; a preview changes nothing."""
        table, draft, name = self._list.tables[0], self._draft, self._names[0]
        last = self._list.levels[-1]
        within = len(last.names) if isinstance(last, DocumentLevel) else 0
        root = read_item(draft.content, self._names, within)
        if arguments.token is not None and arguments.token != self._token(draft):
            raise DriftError(arguments.name, None)
        outcome = execute(root, edits, arguments.name, DraftItemRules(self._list.levels))
        paths = outcome.shown_paths(root) if edits else None
        if edits:
            check_draft_permissions(self._call, table, [draft], "update")
            content = write_item(root, outcome.modified)
            value = _renumber(content.get(name), self._list.levels)
            draft = replace(draft, content=apply_changes(draft, {name: value}, table))
        if edits and not arguments.preview:
            given = {draft.ref: draft.content}
            [draft] = self._call.conversation.edit_drafts(
                given, versions={draft.ref: draft.version}
            )
        found = draft_records(self._call, [draft], BoundFilters(table))
        rendering = self._call.rendering([], shape := shape_of(table, None))
        rows = DraftRows(self._call, rendering, found.labels, whole=True)
        [shown] = [rows.row(record, shape) for record in found.records]
        kept = self._draft if arguments.preview else draft
        answer = {
            "table": arguments.table,
            "row": arguments.row,
            "list": arguments.name,
            "items": number_items(shown.get(name), self._names[1:], self._list.column, paths),
            "count": len(root.items or ()),
            **({"preview": True} if arguments.preview else {}),
            "token": self._token(kept),
        }
        return self._call.finish_answer(answer, [], rendering, rows.foreign())

    def _token(self, draft: Draft) -> str:
        """Return the token: a digest of the list's name and content."""
        given = [draft.ref, self._list.name, draft.content.get(self._names[0])]
        text = json.dumps(given, sort_keys=True)
        return hashlib.blake2s(text.encode(), digest_size=_TOKEN_BYTES).hexdigest()


def _renumber(value: Any, levels: Sequence[Level]) -> Any:
    """Return a list of nested rows with their positions renumbered."""
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
            inside = _renumber(item.get(rest[0].name), rest)
            item = item if inside is None else {**item, rest[0].name: inside}
        items.append(item)
    return items


class DraftItemRules(Rules):
    """The rules for items of a draft; the complete content is checked after the edits."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = levels

    def mismatch(self, item: Item, depth: int, expect: Any) -> str | None:  # noqa: ARG002
        """Return "another item" if an item does not match what the model expects."""
        # the item is not shown: its documents may contain keys
        return None if item_mismatch(item, expect) is None else "another item"

    def check_value(self, edit: Modify | Add, depth: int) -> Any:
        """Return the value of an edit, if it fits the level."""
        level = self._levels[min(depth, len(self._levels) - 1)]
        if depth < len(self._levels) and isinstance(level, RowLevel):
            is_row = isinstance(edit.value, Mapping) or (
                isinstance(edit, Add) and isinstance(edit.value, str)
            )
            if not is_row:
                raise InvalidValueError("is a row: give an object of its fields")
            if isinstance(edit.value, Mapping) and level.position in edit.value:
                raise InvalidValueError(f"has {level.position!r} by its place: move it")
            return edit.value
        why = value_refusal(self._levels, depth, edit)
        if why is not None:
            raise InvalidValueError(why)
        return edit.value
