"""`db_read`: checked arguments to rows, with refs and labels.

>>> asked = {"table": "recipes", "columns": ["name"], "order_by": "name", "limit": 1}
>>> answer = toolset.call(session, "db_read", asked)
>>> answer["rows"], answer["more"]
([{'id': 'recipe_1', 'name': 'Soup'}], True)
>>> toolset.call(session, "db_read", {**asked, "cursor": answer["cursor"]})["rows"]
[{'id': 'recipe_2', 'name': 'Toast'}]

`Reader.read` does the following:

1. The refs in the filters are resolved: at most one round trip for rows that this process has not
   cached, one for drafts.
2. Hooks (`before_read`) may change the arguments, which are validated again if they are replaced.
3. `query.TotalsReader` reads totals; the following steps read rows.
4. Drafts that the filters name come first, in the order of their numbers.
5. One statement, with keys in place of refs, reads the rows, and one row more than is shown, to
   know whether more exist.
6. Related rows are loaded, rows become JSON (`answers`), hooks see them (`after_read`), and labels
   are read.

If a named row is not found, `Call.check_existence` finds out whether it was deleted or is not
visible to the session.

`RowReader` rereads rows for prompts (`Toolset.reread`). It uses the same steps 2, 5 and 6, for the
fields of each row that were shown before; a missing row is not an error there, nor is a value that
cannot be read.

Limits: semantic search (`_semantic`) needs a hook that implements it. The number of rows and
characters is limited by `Limits`; the cursor continues after the last row shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, starmap
from time import monotonic
from typing import Any

from sqlalchemy import and_, inspect, true

from alfred_refs import sqla
from alfred_refs.conversation import Draft
from alfred_refs.mapping import Key, Verbatim, parse_ref
from alfred_refs.session import Identity, MissingRows
from alfred_refs.tools.answers import Rendering, Room, Shape, shape_of
from alfred_refs.tools.arguments import SEMANTIC, DbRead, FilterClause
from alfred_refs.tools.call import Call
from alfred_refs.tools.drafts import (
    DraftRecords,
    DraftRows,
    draft_number,
    draft_records,
    is_draft_of,
)
from alfred_refs.tools.errors import (
    ToolError,
    invalid_cursor,
    invalid_filter,
    no_semantic_search,
    no_totals,
)
from alfred_refs.tools.filters import (
    BoundFilters,
    Condition,
    Keys,
    bind_filters,
    check_budget,
    is_semantic,
)
from alfred_refs.tools.hooks import Reading, Row
from alfred_refs.tools.labels import ForeignRef
from alfred_refs.tools.matching import DraftRecord, matching_records
from alfred_refs.tools.query import (
    Cursor,
    GivenOrder,
    Order,
    Totals,
    TotalsReader,
    cursor_of,
    is_portable,
    order_of,
    question_of,
    totals_of,
)
from alfred_refs.tools.serialization import replace_keys
from alfred_refs.tools.tables import ToolTable

# Rows of prompts


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """A row as `db_read` would show it now.

    Attributes:
        ref: its ref.
        label: its label; `None` if it has none.
        data: its values by column name, including values that hooks have added.
        related: the rows of its relationships: a list, one, or none.
    """

    ref: str
    label: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    related: Mapping[str, CurrentRow | Sequence[CurrentRow] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CurrentRows:
    """The current values of rows that were used before.

    Attributes:
        rows: the rows by ref.
        deleted: the refs of deleted rows.
        cut: the paths of cut values, as in an answer.
        unreadable: the refs of rows of tables that could not be read. Rows in none of these are
            hidden from the session: by the owner, the database, or a hook.
        masked: the entities of rows that were not read, if hooks may hide such rows: their stored
            labels must not be shown.
    """

    rows: Mapping[str, CurrentRow]
    deleted: frozenset[str] = frozenset()
    cut: Sequence[str] = ()
    unreadable: frozenset[str] = frozenset()
    masked: frozenset[str] = frozenset()


Fields = Sequence[str] | None
"""Names of columns and relationships; `None` for the columns that are shown by default."""

_MAX_LEVELS = 3  # levels of nested rows
_MAX_FAILURES = 2  # of the values, and of the keys

_PATH = re.compile(r"(\w+)\.(\w+)")  # the beginning of the path of a cut value


class RowReader:
    """Rereads rows for a prompt: one statement per table, plus statements for labels.

    Hooks, limits, hidden columns and refs work as in `db_read`. A table whose hook refuses the
    read is skipped.

    An error ends the transaction, so it ends the read; `reading` is the table then. The caller
    counts it as a failure and reads again: after one failure of a table this looks only for the
    keys of its rows, and after two for nothing of it.

    Args:
        call: the call; its session reads the rows.
        wanted: the fields of each row, by ref.
        nested: the fields of nested rows to show, by ref; rows that are not listed, or have no
            fields, show all fields in `nested` for their entity.
        failures: the number of failed reads, by table.

    Attributes:
        reading: the table that is being read; `None` outside of its statements.
        started_at: the time at which that began, by the clock `monotonic`.
    """

    def __init__(
        self,
        call: Call,
        wanted: Mapping[str, Fields],
        nested: Mapping[str, Fields],
        failures: Mapping[ToolTable, int],
    ) -> None:
        self.reading: ToolTable | None = None
        self.started_at = 0.0
        self._failures = failures
        self._call = call
        self._tables = call.setting.tables
        self._wanted = wanted
        self._nested = nested
        self._nested_columns: dict[str, set[str]] = {}  # by entity: of all its rows
        for ref, fields in nested.items():
            self._nested_columns.setdefault(_entity(ref), set()).update(fields or ())
        self._room = call.room()
        self._included: dict[ToolTable, Sequence[str]] = {}  # added by hooks
        self._labels: dict[str, str | None] = {}
        self._unreadable: set[str] = set()
        self._cut: list[str] = []

    def read(self) -> CurrentRows:
        """Return the rows, without keys."""
        found: dict[str, tuple[ToolTable, Row]] = {}
        deleted: list[str] = []
        keys = self._call.conversation.known_keys(self._wanted)
        tables = {ref: self._tables_of(ref, key) for ref, key in keys.items()}
        while tables := {ref: each for ref, each in tables.items() if each and ref not in found}:
            by_table: dict[ToolTable, dict[str, Key]] = {}
            for ref, (table, *_) in tables.items():
                by_table.setdefault(table, {})[ref] = keys[ref]
            tables = {ref: each[1:] for ref, each in tables.items()}
            for table, of_table in by_table.items():
                rows = self._try_table(table, of_table)
                if rows is None:
                    continue
                found |= {ref: (table, row) for ref, row in rows.items()}
                missing = {r: of_table[r] for r in of_table if not (r in found or tables[r])}
                if missing and self._failures.get(table, 0) < _MAX_FAILURES:
                    deleted += self._deleted(table, missing)
        self.reading = None
        answer = {
            "rows": [row for _, row in found.values()],
            "labels": self._labels,
            "cut": self._cut,
        }
        plain = replace_keys(answer, self._call.conversation, self._tables.shown)
        self._labels = plain["labels"]
        rows_by_ref = zip(found.items(), plain["rows"], strict=True)
        return CurrentRows(
            {
                ref: self._current(row, table, self._wanted[ref], self._included[table])
                for (ref, (table, _)), row in rows_by_ref
            },
            frozenset(deleted),
            [each for each in plain["cut"] if self._is_shown(each)],
            frozenset(self._unreadable.difference(found, deleted)),
            frozenset(self._masked(ref for ref in self._wanted if ref not in found)),
        )

    def _try_table(self, table: ToolTable, keys: Mapping[str, Key]) -> dict[str, Row] | None:
        """Return rows by ref: none after a failed read, `None` if a hook refuses the read."""
        self.reading, self.started_at = table, monotonic()
        if self._failures.get(table, 0):
            self._unreadable |= keys.keys()
            return {}
        try:
            return self._read_table(table, keys)
        except ToolError:
            return None

    def _masked(self, missing: Iterable[str]) -> Iterator[str]:
        """Yield the entities of rows that were not found, if hooks may hide such rows."""
        for entity in {*map(_entity, missing)}:
            tables = [table for table in self._tables if table.entity == entity]
            if any(map(self._call.visibility.restricts, tables)):
                yield entity

    def _tables_of(self, ref: str, key: Key) -> Sequence[ToolTable]:
        """Return the tables that a row may be in: classes and subclasses share an entity.

        The table with most of its fields comes first.
        """
        entity, fields = _entity(ref), {*(self._wanted[ref] or ())}
        tables = [t for t in self._tables if t.entity == entity and t.key_parts(key)]
        return sorted(tables, key=lambda table: -len(fields.intersection(table.fields)))

    def _read_table(self, table: ToolTable, keys: Mapping[str, Key]) -> dict[str, Row]:
        """Return rows by ref, each with the fields of all of them."""
        refs = list(keys)
        arguments = DbRead(
            table=table.name,
            filters=[FilterClause(field=table.ref_field, op="in", value=refs)],
            columns=self._columns(table, refs),
        )
        reading, rows, rendering = Reader(self._call).reread(arguments, keys, self._room)
        self._included[table] = [path.partition(".")[0] for path in reading.include]
        entities = self._call.conversation.entities
        unread: list[ForeignRef] = []
        for row, instance, shape in rendering.shown:
            label, ref = entities.of_class(type(instance)).label, row.get(shape.table.ref_field)
            if label is None or not isinstance(ref, str):
                continue
            text = label.of_unredacted(sqla.state_of(instance).dict)
            if self._call.visibility.hooks.may_mask(shape.table):  # its values after hooks
                text = label.of_shown(row)
            elif text is None and label.attribute is None and shape.table.own is not None:
                # a function of columns that are not read here
                [key] = inspect(instance).identity
                unread.append(ForeignRef({"": ref}, "", shape.table, key))
            self._labels[ref] = text
        self._labels |= self._call.put_labels(unread, "legend")
        self._cut += rendering.cut
        named: Iterator[tuple[Any, Row]] = ((row.get(table.ref_field), row) for row in rows)
        return {ref: row for ref, row in named if ref in keys}  # a hook may rename

    def _columns(self, table: ToolTable, refs: Sequence[str]) -> list[str]:
        """Return the fields of all given rows, with paths of related rows, and the label."""
        names = {table.ref_field: None}
        is_masked = self._call.visibility.hooks.may_mask(table)  # a hook may decide by any column
        for ref in refs:
            fields = self._wanted[ref]
            names |= dict.fromkeys(_defaults(table) if fields is None or is_masked else ())
            names |= dict.fromkeys(fields or ())
        label = table.keys.label
        if label is not None and label.attribute is not None:
            names[label.attribute] = None
        own = [table.ref_field] if table.own is None else []
        columns = [name for name in table.columns if name in names]
        return [*own, *columns, *self._paths(table, names)]

    def _paths(self, table: ToolTable, names: Iterable[str], level: int = 1) -> Iterator[str]:
        """Yield the relationships among fields, with the columns to show of their rows."""
        for name in names:
            if name in table.columns or name not in table.includable:
                continue
            target = table.targets[name]
            fields = self._nested_columns.get(target.entity, set())
            yield from [f"{name}.{each}" for each in target.columns if each in fields] or [name]
            if level < _MAX_LEVELS:
                yield from (f"{name}.{path}" for path in self._paths(target, fields, level + 1))

    def _deleted(self, table: ToolTable, missing: Mapping[str, Key]) -> list[str]:
        identity = Identity(inspect(table.model).mapper.primary_key, table.keys.identity)
        rows = MissingRows(self._call.session, self._call.conversation)
        return rows.split(table.entity, identity, missing)[0]

    def _current(
        self, row: Row, table: ToolTable, fields: Fields, included: Sequence[str] = ()
    ) -> CurrentRow:
        """Return a row with its own fields, without fields of other rows of its table."""
        if fields is not None and not fields:  # by name alone, without what hooks have added
            ref = row[table.ref_field]
            return CurrentRow(ref, self._labels.get(ref), {table.ref_field: ref})
        own = {*(_defaults(table) if fields is None else fields), *included, table.ref_field}
        others = {*table.columns, *table.includable} - own
        others |= {f"_{name}_label" for name in others}
        data: dict[str, Any] = {}
        related: dict[str, CurrentRow | Sequence[CurrentRow] | None] = {}
        for name, value in row.items():
            target = table.targets.get(name) if name in table.includable else None
            if name in others:
                continue
            if target is None or not _are_rows(value, target):  # a hook may have replaced the rows
                data[name] = value
            elif isinstance(value, list):
                related[name] = [self._nested_row(each, target) for each in value]
            else:
                related[name] = None if value is None else self._nested_row(value, target)
        ref = row[table.ref_field]
        return CurrentRow(ref, self._labels.get(ref), data, related)

    def _nested_row(self, row: Row, table: ToolTable) -> CurrentRow:
        return self._current(row, table, self._nested.get(row[table.ref_field]) or [*row])

    def _is_shown(self, cut: str) -> bool:
        """Return whether a cut value belongs to one of a row's own fields."""
        path = _PATH.match(cut)
        fields = None if path is None else self._wanted.get(path[1])
        return path is None or fields is None or path[2] in fields


def _entity(ref: str) -> str:
    parsed = parse_ref(ref)
    return "" if parsed is None else parsed.entity


def _are_rows(value: Any, table: ToolTable) -> bool:
    """Return whether a value is null, one row or several rows of a table, each with its ref."""
    rows = value if isinstance(value, list) else [] if value is None else [value]
    return all(isinstance(each, dict) and table.ref_field in each for each in rows)


def _defaults(table: ToolTable) -> list[str]:
    return [name for name, column in table.columns.items() if column.shown]


_ORDER_OF_DRAFTS = "drafts come first, by their numbers: 'order_by' is for rows"


class Reader:
    """Answers `db_read`, for one call."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._setting = call.setting

    def read(self, arguments: DbRead, bound: BoundFilters) -> dict[str, Any]:
        """Return the answer to a read.

        Args:
            arguments: its arguments.
            bound: its filters.
        """
        table = bound.table
        asked, semantic = _split_semantic(arguments)
        totals = self._totals(asked, table)
        cursor = None if totals else cursor_of(arguments)
        refs = self._resolve_filters(asked, bound, totals, cursor)
        reading = Reading(self._call.session, table.model, asked, semantic)
        reading.totals = totals is not None
        bound = self._ask_hooks(reading, bound)
        if semantic is not None and reading.keys is None and not reading.empty:
            raise no_semantic_search(table.name)
        if reading.arguments is not asked:
            check_budget(reading.arguments, table, self._setting.max_written)
            totals = self._totals(reading.arguments, table)
        if reading.arguments is not asked or bound != refs.bound:
            refs = self._resolve_filters(reading.arguments, bound, totals, cursor)
        if totals is not None:
            return TotalsReader(self._call).answer(reading, bound, totals, refs.keys)
        return self._answer(reading, arguments, cursor, refs)

    def reread(
        self, arguments: DbRead, keys: Mapping[str, Key], room: Room
    ) -> tuple[Reading, list[Row], Rendering]:
        """Read rows for a prompt: like `read`, but missing rows are not an error.

        Args:
            arguments: the arguments of the read.
            keys: the keys of the refs in its filter; some rows may be deleted.
            room: the space for their text.
        """
        table = self._setting.tables.by_name(arguments.table)
        reading = Reading(self._call.session, table.model, arguments)
        bound = bind_filters(arguments, table, is_limited=False)  # a prompt may have many rows
        bound = self._ask_hooks(reading, bound, is_limited=False)
        pairs = {(ref, entity): keys.get(ref) for ref, entity in bound.refs()}
        by_hooks = self._call.resolve(pair for pair, key in pairs.items() if key is None)
        known = {pair: key for pair, key in pairs.items() if key is not None}
        refs = _FilterRefs(bound, keys={**known, **by_hooks})
        shape = shape_of(table, reading.arguments.columns, reading.include)
        instances, _ = self._instances(reading, _Page(shape, len(keys), None, refs))
        rendering = self._call.rendering(instances, shape, reading.options)
        rows = rendering.rows(instances, shape, room)
        self._show_hooks(reading, rows, shape, rendering)
        self._call.finish_answer({}, (), rendering)
        return reading, rows, rendering

    def _ask_hooks(
        self, reading: Reading, bound: BoundFilters, *, is_limited: bool = True
    ) -> BoundFilters:
        """Call the hooks before a read, and return the filters that they leave."""
        table, has_search = bound.table, self._setting.has_search(bound.table)
        for hooks in self._setting.hooks_of(table):
            hooks.before_read(reading)
            bound = bind_filters(
                reading.arguments, table, has_search=has_search, is_limited=is_limited
            )
        return bound

    def _show_hooks(
        self, reading: Reading, rows: list[Row], shape: Shape, rendering: Rendering
    ) -> None:
        """Pass the rows to hooks: nested rows first, so that outer hooks see the rest."""
        removed = self._call.visibility.mask(rendering.shown, asked=shape)
        rows[:] = [each for each in rows if id(each) not in removed]
        for hooks in self._setting.hooks_of(shape.table):
            hooks.after_read(reading, rows)
        self._call.limit_hook_depth(rows, shape, rendering.cut)

    def _totals(self, asked: DbRead, table: ToolTable) -> Totals | None:
        """Return the aggregates of a read; `None` for a read of rows."""
        totals = totals_of(asked, table)
        if totals and self._call.visibility.hooks.may_mask(table):
            raise no_totals(table.name)
        return totals

    def _answer(
        self,
        reading: Reading,
        question: DbRead,
        cursor: Cursor | None,
        refs: _FilterRefs,
    ) -> dict[str, Any]:
        asked, table = reading.arguments, refs.bound.table
        max_rows = self._setting.limits.rows
        limit = max_rows if asked.limit is None else min(asked.limit, max_rows)
        page = _Page(shape_of(table, asked.columns, reading.include), limit, cursor, refs)
        drafts_found = self._drafts(reading, page) if refs.drafts else DraftRecords()
        drafts = drafts_found.records[:limit]
        page = replace(page, limit=limit - len(drafts))
        more = len(drafts) < len(drafts_found.records)
        instances: list[Any] = []
        if not more:
            instances, more = self._instances(reading, page)
        if page.refs.keys and not (more or reading.empty):
            self._check_missing(reading, page, instances)
        rendering = self._call.rendering(instances, page.shape, reading.options)
        draft_rows = DraftRows(
            self._call, rendering, drafts_found.labels, whole=reading.arguments.columns is None
        )
        if len(drafts) > 1 and asked.order_by is not None:
            reading.notes.append(_ORDER_OF_DRAFTS)
        shown = self._rows([*drafts, *instances], page.shape, rendering, draft_rows)
        saved = shown[len(drafts) :]
        self._show_hooks(reading, saved, page.shape, rendering)
        rows = [*shown[: len(drafts)], *saved]
        more = more or len(shown) < len(drafts) + len(instances)
        answer: dict[str, Any] = {"table": table.name, "rows": rows, "count": len(rows)}
        answer["more"] = more
        if more and shown:
            last, read = [*drafts, *instances][len(shown) - 1], len(shown) - len(drafts)
            answer["cursor"] = Verbatim(self._cursor_after(reading, question, page, last, read))
        return self._call.finish_answer(answer, reading.notes, rendering, draft_rows.foreign())

    def _rows(
        self, entries: Sequence[Any], shape: Shape, rendering: Rendering, drafts: DraftRows
    ) -> list[Row]:
        """Return rows until the space is used, at least one."""

        def render(entry: Any) -> Row:
            return (drafts if isinstance(entry, DraftRecord) else rendering).row(entry, shape)

        noted = (rendering.shown, drafts.shown, rendering.cut)
        return self._call.room().take(entries, render, noted)

    def _resolve_filters(
        self, asked: DbRead, bound: BoundFilters, totals: Totals | None, cursor: Cursor | None
    ) -> _FilterRefs:
        """Resolve the refs in filters: at most one round trip for drafts, one for rows.

        Drafts are refused in totals, which only count rows.
        """
        if asked.drafts:
            drafts = self._pending(bound, cursor)
        else:
            chosen = [] if totals else bound.row_refs()
            drafts = self._call.pending_drafts(chosen, bound.table.entity)
        return _FilterRefs(bound, drafts, self._call.resolve(bound.refs(drafts)))

    def _pending(self, bound: BoundFilters, cursor: Cursor | None) -> dict[str, Draft]:
        """Return the pending drafts of a table; without filters, only as many as can be shown."""
        table = bound.table
        last = 0 if cursor is None else cursor.draft or 0
        drafts = (
            draft
            for draft in ([] if table.ends else self._call.conversation.drafts(table.entity))
            if draft_number(draft.ref) > last and is_draft_of(table, draft)
        )
        most = None if bound.clauses else self._setting.limits.rows + 1
        return {draft.ref: draft for draft in islice(drafts, most)}

    def _drafts(self, reading: Reading, page: _Page) -> DraftRecords:
        """Return the matching drafts that no earlier page has shown."""
        if reading.semantic is not None:
            raise invalid_filter(SEMANTIC, "has no answer for drafts", "leave it out")
        if reading.empty or reading.keys is not None or page.has_rows_before:
            return DraftRecords()
        bound = page.refs.bound
        drafts = draft_records(self._call, page.refs.drafts.values(), bound)
        matching = matching_records(self._call.session, drafts.records, bound)
        remaining = [each for each in matching if draft_number(each.name) > page.last_draft]
        return DraftRecords(remaining, drafts.labels)

    def _instances(self, reading: Reading, page: _Page) -> tuple[list[Any], bool]:
        """Return the rows to show, and whether more rows exist."""
        if reading.empty or reading.arguments.drafts:
            return [], False
        table, cursor, drafts = page.shape.table, page.cursor, page.refs.drafts
        conditions = self._call.read_conditions(reading, page.refs.bound, page.refs.keys, drafts)
        if reading.keys is not None:
            return self._find_in_given_order(reading, page, conditions)
        order = order_of(reading, table)
        if drafts and sqla.is_false(and_(true(), *conditions)):  # the filters name only drafts
            return [], False
        if cursor is not None and cursor.draft is None:
            conditions.append(self._after_cursor(cursor, order))
        shape = replace(page.shape, also=order.exact_columns())  # for the cursor
        page = replace(page, shape=shape)
        return self._find_rows(reading, page, conditions, order)

    def _check_missing(self, reading: Reading, page: _Page, instances: Sequence[Any]) -> None:
        """Raise an error if named rows were not found because they do not exist."""
        table, keys = page.shape.table, page.refs.keys
        if instances:
            if page.cursor is not None or reading.keys is not None:
                return  # they may be on another page
            missing = {*page.refs.bound.row_refs()}
            if not missing:
                return
            missing.difference_update(self._call.refs_of(instances, table))
            keys = {wanted: key for wanted, key in keys.items() if wanted[0] in missing}
        if keys and (reading.keys is None or reading.keys):
            reading.notes += self._call.check_existence(keys)

    def _find_in_given_order(
        self, reading: Reading, page: _Page, conditions: Sequence[Condition]
    ) -> tuple[list[Any], bool]:
        table = page.shape.table
        keys = self._call.statement_keys(reading.keys or (), table)
        if not keys:
            return [], False
        among = getattr(table.model, table.own or "").in_(keys)
        order = GivenOrder(table, keys)
        return self._find_rows(reading, page, [*conditions, among], order, offset=page.start)

    def _find_rows(
        self,
        reading: Reading,
        page: _Page,
        conditions: Sequence[Condition],
        order: Order | GivenOrder,
        *,
        offset: int | None = None,
    ) -> tuple[list[Any], bool]:
        """Return the rows of a page, and whether more rows exist: it selects one row more."""
        statement = (
            self._call.select_rows(page.shape)
            .where(*conditions)
            .order_by(*order.by())
            .limit(page.limit + 1)
            .offset(offset)
            .options(*reading.options)
        )
        found = self._call.read_rows(statement, page.shape)
        return found[: page.limit], len(found) > page.limit

    def _after_cursor(self, cursor: Cursor, order: Order) -> Condition:
        """Return the condition that continues a read after its cursor.

        The row at the cursor may be deleted by now.

        Raises:
            ToolError: the cursor belongs to another read, or the values of its row cannot be
                looked up.
        """
        key, name = self._key_of_cursor(cursor, order.table)
        beyond = order.beyond(cursor, key)
        if cursor.after is None:
            rows = self._call.read_values(order.place(key), order.table.model)
            if not rows:
                raise invalid_cursor(gone=name)
            if order.seen(rows[0][1:]) != cursor.seen:
                raise invalid_cursor(changed=name)
        return beyond

    def _key_of_cursor(self, cursor: Cursor, table: ToolTable) -> tuple[Key, str]:
        """Return the key of the row at a cursor, and the row's name in errors.

        Raises:
            ToolError: the cursor belongs to another table.
        """
        named = [cursor.ref or ""] if not table.ends else cursor.ends or []
        columns = table.keys.identity if table.ends else (None,)
        entities = [table.entity if column is None else column.entity for column in columns]
        if len(named) != len(columns):
            raise invalid_cursor()
        keys = self._call.conversation.known_keys(str(each) for each in named)
        parts: list[Any] = []
        for text, column, entity in zip(named, columns, entities, strict=True):
            ref = parse_ref(str(text))
            if table.ends and column is None:
                parts.append(text)
            elif ref is None or ref.entity != entity or str(ref) not in keys:
                raise invalid_cursor()
            else:
                parts.append(keys[str(ref)])
        return (tuple(parts) if table.ends else parts[0]), " + ".join(map(str, named))

    def _cursor_after(
        self, reading: Reading, question: DbRead, page: _Page, last: Any, rows: int
    ) -> Cursor:
        """Return the cursor after the last draft or row."""
        asked, table = question_of(question), page.shape.table
        if reading.keys is not None:
            return Cursor(question=asked, shown=page.start + rows)
        if isinstance(last, DraftRecord):
            return Cursor(question=asked, draft=draft_number(last.name))
        order = order_of(reading, table)
        exact = self._call.exact
        values = [(column.values, exact.of(last, column.name)) for column in order.columns]
        row: dict[str, Any] = {"ends": [getattr(last, name) for name in table.identity]}
        if not table.ends:
            [row["ref"]], row["ends"] = self._call.refs_of([last], table), None
        if all(starmap(is_portable, values)):
            after = [of.show(value) for of, value in values]
            return Cursor(question=asked, after=after, **row)
        seen = order.seen(value for _, value in values)
        return Cursor(question=asked, after=None, seen=seen, **row)


@dataclass(frozen=True, slots=True)
class _FilterRefs:
    """The rows and drafts that refs in the filters of a read name.

    Attributes:
        bound: the filters.
        drafts: the drafts that are named as rows of the table, by ref.
        keys: the keys of all other rows.
    """

    bound: BoundFilters
    drafts: Mapping[str, Draft] = field(default_factory=dict)
    keys: Keys = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Page:
    """One page of a read.

    Attributes:
        shape: the columns of each row.
        limit: the maximum number of rows.
        cursor: the end of the previous page.
        refs: the rows and drafts that refs in the filters name.
    """

    shape: Shape
    limit: int
    cursor: Cursor | None
    refs: _FilterRefs

    @property
    def start(self) -> int:
        """The number of rows on earlier pages, if a hook returned the order."""
        return 0 if self.cursor is None else self.cursor.shown or 0

    @property
    def last_draft(self) -> int:
        """The number of the last draft on earlier pages."""
        return 0 if self.cursor is None else self.cursor.draft or 0

    @property
    def has_rows_before(self) -> bool:
        """Whether earlier pages have shown rows, and therefore all drafts."""
        return self.cursor is not None and self.cursor.draft is None


def _split_semantic(arguments: DbRead) -> tuple[DbRead, str | None]:
    """Split the filters into the text of the semantic search and the others."""
    found = [each for each in arguments.filters if is_semantic(each)]
    if not found:
        return arguments, None
    [clause, *others] = found
    text = clause.value if isinstance(clause, FilterClause) else None
    if others or not isinstance(text, str) or not text.strip():
        raise invalid_filter(
            SEMANTIC, "needs one text to be similar to", "give it once, with the text as value"
        )
    rest = [each for each in arguments.filters if not is_semantic(each)]
    return arguments.model_copy(update={"filters": rest}), text
