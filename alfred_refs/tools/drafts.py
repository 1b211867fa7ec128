"""Drafts in tools: reading, changing and discarding them.

A draft is a row that was generated and is not saved, with a ref such as `gen_recipe_1`. It is
stored in the conversation and in no table. The database evaluates filters on drafts (`matching`),
and `writing` saves a draft as a row.

>>> given = {"table": "recipes", "data": {"name": "Stew", "servings": 3}, "draft": True}
>>> toolset.call(session, "db_create", given)["rows"]
[{'id': 'gen_recipe_1', 'name': 'Stew', 'servings': 3, '_draft': 'pending'}]
>>> named = {"field": "id", "op": "in", "value": ["recipe_1", "gen_recipe_1"]}
>>> large = {"field": "servings", "op": ">", "value": 2}
>>> given = {"table": "recipes", "filters": [named, large], "columns": ["name"]}
>>> toolset.call(session, "db_read", given)["rows"]
[{'id': 'gen_recipe_1', 'name': 'Stew', '_draft': 'pending'}]

- `draft_records` reads the drafts of a call from the registry; `DraftRows` makes their JSON. Refs
  of drafts that have been saved are shown as refs of their rows. `matching` applies filters.
- `DraftMaker` and `DraftWriter` create, change and discard drafts: all drafts of a call, or none.
  No table is written, so no hook for writes is called. Changes are checked like values of rows,
  and stored as the model passed them.
- `lists` edits the lists inside drafts.

Limits: a filter that would need a row of the database is refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlalchemy import and_, true

from alfred_refs import sqla
from alfred_refs.conversation import Draft, check_draftable, class_of
from alfred_refs.errors import BadRefError, SetupError
from alfred_refs.mapping import HIDDEN, clean_label, parse_draft_ref, parse_ref, spells_uuid
from alfred_refs.tools.answers import Rendering, Room, Shape, combine_answers, cut_depth, shape_of
from alfred_refs.tools.arguments import DbDelete, DbUpdate, NewRows
from alfred_refs.tools.call import Call
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.errors import (
    invalid_arguments,
    invalid_content,
    mixed_drafts,
    too_many_rows,
    unexpected_row,
)
from alfred_refs.tools.filters import BoundFilters
from alfred_refs.tools.hooks import Row
from alfred_refs.tools.labels import (
    ForeignRef,
    key_in,
    labelled_refs,
    limit_refs,
    ref_columns,
    ref_positions,
)
from alfred_refs.tools.matching import DraftRecord, matching_records
from alfred_refs.tools.payload import draft_changes, new_contents, table_of_content
from alfred_refs.tools.preconditions import Expected, differing_values, split_reach
from alfred_refs.tools.serialization import restore
from alfred_refs.tools.tables import ROW_REF, ToolColumn, ToolTable, Verb

STATE = "_draft"
"""The field of a row with the state of a draft."""

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class DraftRecords:
    """The drafts that a call reads.

    Attributes:
        records: the drafts, in the order of their numbers.
        labels: labels of the other drafts that they refer to, by ref.
    """

    records: Sequence[DraftRecord] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


def draft_records(call: Call, drafts: Iterable[Draft], bound: BoundFilters) -> DraftRecords:
    """Return the records of pending drafts: at most one round trip for all they refer to.

    Args:
        call: the call that reads them.
        drafts: drafts of the entity of the filters' table; drafts of other classes are left out.
        bound: the filters; their refs are compared with refs in drafts.
    """
    table = bound.table
    of_table = (draft for draft in drafts if is_draft_of(table, draft))
    own = sorted(of_table, key=lambda draft: draft_number(draft.ref))
    drafts_by_ref = {draft.ref: draft for draft in own}
    texts = [text for clause in bound.clauses if not clause.is_own for text in clause.refs]
    texts += (text for draft in own for text in _refs_in(table, draft.content))
    missing = [
        text
        for text in dict.fromkeys(texts)
        if parse_draft_ref(text) and text not in drafts_by_ref
    ]
    drafts_by_ref |= _fetch_usable(call.conversation.read_drafts, missing, lambda text: text)
    saved_refs = {
        text: draft.saved for text, draft in drafts_by_ref.items() if draft.saved is not None
    }
    records = [DraftRecord(table, each.content, each.ref, each.ref, saved_refs) for each in own]
    labels = {
        text: draft.label for text, draft in drafts_by_ref.items() if draft.label is not None
    }
    return DraftRecords(records, labels)


def check_draft_class(table: ToolTable, drafts: Iterable[Draft], tables: ToolTables) -> None:
    """Check that drafts of an entity become rows of a table.

    Raises:
        ToolError: a draft is of another class.
    """
    for draft in drafts:
        if not is_draft_of(table, draft):
            own = tables.of_model(class_of(table.model, draft.content))
            raise invalid_content(
                f"{draft.ref!r} is not a draft of a row of {table.name!r}; nothing was changed",
                "leave it as it is" if own is None else f"save it as a row of {own.name!r}",
            )


def is_draft_of(table: ToolTable, draft: Draft) -> bool:
    """Return whether a draft becomes a row of a table, and not of another class of the entity."""
    return issubclass(class_of(table.model, draft.content), table.model)


def visible_content(
    table: ToolTable, content: Mapping[str, Any], tables: ToolTables
) -> dict[str, Any]:
    """Return the content of a draft, or of a row nested in one, without hidden columns."""
    table = tables.of_model(class_of(table.model, content)) or table
    visible: dict[str, Any] = {}
    for name, value in content.items():
        target = table.targets.get(name)
        if name in table.columns:
            visible[name] = table.columns[name].document(value)
        elif target is not None:
            rows = value if isinstance(value, list) else [value]
            inside = [
                visible_content(target, each, tables) if isinstance(each, Mapping) else each
                for each in rows
            ]
            visible[name] = inside if isinstance(value, list) else inside[0]
    return visible


def draft_number(ref: str) -> int:
    """Return the number of a ref."""
    parsed = parse_ref(ref)
    return 0 if parsed is None else parsed.number


def _refs_in(table: ToolTable, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in ref columns and relationships, including those in nested rows."""
    for name, value in content.items():
        column, target = table.columns.get(name), table.targets.get(name)
        values = value if isinstance(value, list) else [value]
        if target is not None or (column is not None and column.key is not None):
            yield from (each for each in values if isinstance(each, str))
        if target is not None:
            for each in values:
                yield from _refs_in(target, each) if isinstance(each, dict) else ()


class DraftRows:
    """Makes the JSON of drafts for one answer.

    Args:
        call: the call that reads them.
        rendering: the rendering of the rows in the same answer, with the same limits.
        labels: labels of the other drafts that these refer to, by ref.
        whole: whether to show all nested content, not only named relationships.
    """

    def __init__(
        self, call: Call, rendering: Rendering, labels: Mapping[str, str], *, whole: bool
    ) -> None:
        self._call = call
        self._rendering = rendering
        self._labels = labels
        self._whole = whole
        self.shown: list[tuple[Row, Shape]] = []

    def row(self, record: DraftRecord, shape: Shape) -> Row:
        """Return the row of a draft, or of a row nested in one."""
        row: Row = {} if shape.table.own is not None else {ROW_REF: record.ref}
        for column in shape.columns:
            row[column.name] = self._value(record, column)
        if record.ref is not None:
            row[STATE] = "pending"
        self.shown.append((row, shape))
        for name, child in self._children(record, shape).items():
            related = record.related_records(name)
            if related is not None:  # otherwise it is an existing row
                row[name] = self._related(record, name, related, child)
        return row

    def _value(self, record: DraftRecord, column: ToolColumn) -> Any:
        value = record.json_value(column)
        if column.key is not None:
            return self._refs(value)
        where = f"{record.name}.{column.name}"
        value = cut_depth(value, where, self._rendering.cut)
        value = column.document(value)
        return self._rendering.fit_value(value, column, where)

    def _refs(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._refs(each) for each in value]
        if isinstance(value, str):
            return uuid.UUID(value) if spells_uuid(value) else value or None
        return None if value is None else HIDDEN

    def _children(self, record: DraftRecord, shape: Shape) -> Mapping[str, Shape]:
        if not self._whole:
            return shape.children
        targets = shape.table.targets
        nested = (name for name in targets if name in record.content)
        return {**{name: shape_of(targets[name], None) for name in nested}, **shape.children}

    def _related(
        self, record: DraftRecord, name: str, related: Sequence[DraftRecord | str], shape: Shape
    ) -> Row | str | list[Row | str] | None:
        rendering, rows = self._rendering, list[Row | str]()
        for each in related[: rendering.limits.rows]:
            if rendering.related >= rendering.limits.related:
                break
            rendering.related += 1
            rows.append(self._refs(each) if isinstance(each, str) else self.row(each, shape))
        if not record.table.relationship(name).uselist:
            return next(iter(rows), None)
        if len(rows) < len(related):
            more = len(related) - len(rows)
            rendering.cut.append(f"{record.name}.{name}: {more} more rows")
        return rows

    def foreign(self) -> list[ForeignRef]:
        """Return the refs in these rows: one round trip, and one more for each unusable ref."""
        if self._call.setting.labels == "none":
            return []
        every = (each for entry in self.shown for each in self._foreign(*entry))
        limited = list(limit_refs(every, self._rendering.limits.related))
        pairs = {(each.ref, each.target.entity) for each in limited}
        rows = sorted(
            each for each in pairs if parse_ref(each[0]) and not parse_draft_ref(each[0])
        )
        keys = _fetch_usable(self._call.conversation.resolve_pairs, rows, lambda pair: pair[0])
        foreign = []
        for each in limited:
            label, key = self._labels.get(each.ref), keys.get((each.ref, each.target.entity))
            if label is not None:
                foreign.append(replace(each, label=label))
            elif key is not None:
                foreign.append(replace(each, key=key_in(each.target, key)))
        return foreign

    def _foreign(self, row: Row, shape: Shape) -> Iterator[ForeignRef]:
        for column, _, target in ref_columns(shape, self._call.setting.tables):
            value = row[column.name]
            if isinstance(value, str):
                yield ForeignRef(row, column.name, target)
            for place in ref_positions(value) if isinstance(value, list) else ():
                yield ForeignRef(row, column.name, target, place=place)


def _fetch_usable(
    fetch: Callable[[list[P]], Sequence[T]], refs: Sequence[P], text_of: Callable[[P], str]
) -> dict[P, T]:
    """Call `fetch` with refs, and again without each ref that cannot be used any more."""
    remaining = list(refs)
    while remaining:
        try:
            return dict(zip(remaining, fetch(remaining), strict=True))
        except BadRefError as error:
            usable = [each for each in remaining if text_of(each) != error.ref]
            if len(usable) == len(remaining):
                raise
            remaining = usable
    return {}


_NOTHING = "no draft matches the filters; nothing was changed"


class DraftMaker:
    """Keeps new rows as drafts, for one call: all of them or none."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def create(self, requests: Sequence[tuple[NewRows, ToolTable]]) -> dict[str, Any]:
        """Create drafts, and return the answer."""
        conversation, new = self._call.conversation, list[tuple[ToolTable, dict[str, Any]]]()
        for each, table in requests:
            if each.from_draft is not None:
                raise invalid_arguments(
                    "it names drafts, and 'draft' keeps new rows as drafts",
                    "from_draft",
                    "give one of the two",
                )
            self._check(table)
            new += [(table, content) for content in new_contents(table, each.rows)]
        drafts = iter(conversation.draft_all((table.model, content) for table, content in new))
        room = self._call.room()
        answers = [
            draft_answer(self._call, table, [next(drafts) for _ in each.rows], room)
            for each, table in requests
        ]
        return combine_answers(answers, {}, [])

    def _check(self, table: ToolTable) -> None:
        try:
            check_draftable(table.model, self._call.conversation.entities)
        except SetupError:
            raise invalid_content(
                f"rows of {table.name!r} cannot be drafts of their own",
                "give them inside what they belong to, or create them without 'draft'",
            ) from None


def draft_answer(
    call: Call, table: ToolTable, drafts: Sequence[Draft], room: Room, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the answer of a write of drafts."""
    records = draft_records(call, drafts, BoundFilters(table))
    rendering = call.rendering([], shape := shape_of(table, None))
    rows = DraftRows(call, rendering, records.labels, whole=True)
    rows_json = room.fill(
        records.records,
        lambda record: rows.row(record, shape),
        lambda record: {table.ref_field: record.ref},
        (rows.shown, rendering.cut),
    )
    answer = {"table": table.name, "rows": rows_json, "count": len(rows_json)}
    return call.finish_answer(answer, notes, rendering, rows.foreign())


class DraftWriter:
    """Changes and discards drafts, for one call.

    Args:
        call: the call.
        bound: its filters.
        named: the pending drafts that the filters name, by ref.
    """

    def __init__(self, call: Call, bound: BoundFilters, named: Mapping[str, Draft]) -> None:
        self._call = call
        self._bound = bound
        self._table = bound.table
        self._drafts = named

    def update(self, arguments: DbUpdate) -> dict[str, Any]:
        """Change drafts, and return the answer."""
        drafts = self._matching_drafts("db_update", arguments)
        check_draft_permissions(self._call, self._table, drafts, "update")
        if not drafts:
            draft_changes(
                self._table, arguments.data
            )  # invalid data is refused even if no draft matches
        contents = {
            draft.ref: apply_changes(draft, arguments.data, self._table) for draft in drafts
        }
        versions = {draft.ref: draft.version for draft in drafts}
        kept = self._call.conversation.edit_drafts(contents, versions=versions)
        return draft_answer(
            self._call, self._table, kept, self._call.room(), [] if drafts else [_NOTHING]
        )

    def delete(self, arguments: DbDelete) -> dict[str, Any]:
        """Discard drafts, and return the answer."""
        drafts = self._matching_drafts("db_delete", arguments)
        check_draft_permissions(self._call, self._table, drafts, "delete")
        refs = [draft.ref for draft in drafts]
        self._call.conversation.discard_drafts(refs)
        answer = {"table": self._table.name, "deleted": refs, "count": len(refs)}
        labels = labelled_refs(answer, "deleted", self._table, [draft.label for draft in drafts])
        return self._call.finish_answer(answer, [] if refs else [_NOTHING], foreign=labels)

    def _matching_drafts(self, tool: str, arguments: DbUpdate | DbDelete) -> list[Draft]:
        """Return the drafts that match all filters, and verify `expect` for them.

        Raises:
            ToolError: rows may match too, or a filter cannot be evaluated on drafts.
        """
        bound = self._bound
        keys = self._call.resolve(bound.refs(self._drafts))
        conditions = self._call.conditions(keys, self._drafts).all_of(bound)
        if not sqla.is_false(and_(true(), *conditions)):
            raise mixed_drafts(tool, list(self._drafts))
        records = draft_records(self._call, self._drafts.values(), bound).records
        matching = matching_records(self._call.session, records, bound)
        most = self._call.setting.max_written
        if len(matching) > most:
            raise too_many_rows(tool, most)
        reach, expect = split_reach(arguments, bound, self._call.setting.expect)
        for record in matching:
            for column, expected, actual in self._differences(record, expect):
                raise unexpected_row(record.name, column, actual, expected)
        reach.check(len(matching))
        return [self._drafts[record.name] for record in matching]

    def _differences(
        self, record: DraftRecord, expect: Expected
    ) -> Iterator[tuple[str, Any, Any]]:
        if isinstance(expect, Mapping):
            yield from differing_values(self._table, expect, record.value)
        elif isinstance(expect, str):
            label = self._drafts[record.name].label
            if label is None and self._table.keys.label is None:
                raise invalid_arguments(
                    f"{record.name!r} has no label: give values by column", "expect"
                )
            if label not in (
                expect,
                clean_label(expect),
            ):  # labels of drafts are stored without keys
                yield "label", expect, label


def check_draft_permissions(
    call: Call, table: ToolTable, drafts: Iterable[Draft], verb: Verb
) -> None:
    """Check that a model may use a verb on the classes of drafts.

    Raises:
        ToolError: it may not, even if it may on a base class.
    """
    for draft in drafts:
        own = call.setting.tables.of_model(class_of(table.model, draft.content))
        if own is not None:
            own.check(verb)


def apply_changes(draft: Draft, data: Mapping[str, Any], table: ToolTable) -> dict[str, Any]:
    """Apply a model's changes to a draft's content, and check it for its resulting class.

    Raises:
        ToolError: the content could not be saved.
        DraftContentError: it is of a class that the model may not use.
    """
    table_of_content(
        table, draft.content, stored=True
    )  # the stored class is checked too: a new discriminator must not bypass it
    content = {**draft.content, **data}
    own_table = table_of_content(table, content)
    changes = draft_changes(own_table, data, whole=content_with_ref(draft, content, own_table))
    for name, value in changes.items():
        column = own_table.columns.get(name)
        if column is not None and column.values.family == "json":
            changes[name] = restore(value, draft.content.get(name))
    return _merge_changes(draft.content, changes, own_table)


def content_with_ref(draft: Draft, content: Mapping[str, Any], table: ToolTable) -> dict[str, Any]:
    """Add the draft's ref to its content, as its own key."""
    return {**content, **{each.name: draft.ref for each in table.columns.values() if each.own}}


def _merge_changes(
    content: Mapping[str, Any], changes: Mapping[str, Any], table: ToolTable
) -> dict[str, Any]:
    """Merge changes into content; a reference is either in its column or its relationship."""
    outdated = set[str]()
    for name, columns in table.references().items():
        if name in changes:
            outdated |= {*columns} - changes.keys()
        elif changes.keys() & columns:
            outdated.add(name)
    return {**{n: value for n, value in content.items() if n not in outdated}, **changes}
