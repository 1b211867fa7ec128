"""Values of new and changed rows: NUL characters, marks, types.

- `notes_of` reports NUL characters that `arguments` removed. If the value was not plain text (a
  ref or a choice), the rest may mean another row, so the call is refused.
- `read_documents` parses documents, lists and nested rows that are passed as JSON text.
- `decode_arguments` replaces marks (`<recipe_1>`) in texts and documents by their keys, with one
  lookup for the call; `serialization` makes these marks in answers. Columns of refs contain no
  marks. The mark of a deleted row is still decoded, so that a text can be stored as it was shown.
  A text that was cut is refused.
- `new_records`, `update_record` and `draft_changes` check values by column and return Python
  values, with refs as the model passed them. Unknown and read-only columns are refused.

>>> recipes = toolset.tables.by_name("recipes")
>>> update_record(recipes, {"name": "Broth", "servings": 4})
{'name': 'Broth', 'servings': 4}
>>> update_record(recipes, {"servings": "four"})
Traceback (most recent call last):
    ...
alfred_refs.tools.errors.ToolError: the value given for 'servings' does not fit; it takes ...

Limits: no SQL is sent here except the lookup of marks. Refs are resolved later, by the verbs.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from alfred_refs.conversation import (
    NewRow,
    SessionConversation,
    explicit_class,
    parse_content,
    unknown_class_error,
)
from alfred_refs.errors import DraftContentError, UnknownDraftError
from alfred_refs.mapping import (
    KEY,
    CutTextError,
    Entities,
    Key,
    Mark,
    decode_marks,
    has_marks,
    marks_in,
    parse_draft_ref,
    parse_ref,
    whole_keys,
)
from alfred_refs.tools.arguments import (
    SEMANTIC,
    AndGroup,
    Arguments,
    DbCreate,
    DbEditList,
    DbRead,
    Filter,
    FilterClause,
    ListEdit,
    NewRows,
    NotGroup,
    OrGroup,
    Path,
    misplaced_nul,
    parse_document,
)
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.errors import (
    ToolError,
    invalid_content,
    invalid_value,
    missing_value,
    unknown_column,
)
from alfred_refs.tools.serialization import Places, SameNameError, map_document
from alfred_refs.tools.tables import ToolColumn, ToolList, ToolTable, list_by_name, path_of


def notes_of(removed: Mapping[Path, int], arguments: Arguments, tables: ToolTables) -> list[str]:
    """Return notes on NUL characters that were removed from data.

    Raises:
        ToolError: a NUL character was in a value that is not text, or the table or column does not
            exist.
    """
    counts = Counter[str]()
    for path, count in removed.items():
        counts[_column_path(path, arguments, tables)] += count
    return [
        f"{count} NUL character{' was' if count == 1 else 's were'} left out of {field!r}"
        for field, count in counts.items()
    ]


def _column_path(path: Path, arguments: Arguments, tables: ToolTables) -> str:
    """Return the path of a text column, as errors show it."""
    name, rest = arguments.table, path
    if isinstance(arguments, DbCreate) and path[0] == "also":
        name, rest = arguments.also[int(path[1])].table, path[2:]
    names = [each for each in rest[1:] if isinstance(each, str)]
    column = _path_in_row(names, tables.by_name(name))
    if column is None:  # the NUL character was in a name
        raise misplaced_nul(path)
    return column if name == arguments.table else f"{name}.{column}"


def _path_in_row(names: Sequence[str], table: ToolTable) -> str | None:
    """Return the path to a column through nested rows; `None` if it ends before a column.

    Raises:
        ToolError: the column does not exist, or does not take texts.
    """
    for n, name in enumerate(names, start=1):
        if name in table.columns:
            values = table.columns[name].values
            family = values.family if values.item is None else values.item.family
            if family not in ("text", "json") or name == table.discriminator:
                raise invalid_value(name, f"{values.expected}, without NUL characters")
            return ".".join(names[:n])
        if name not in table.targets:
            raise unknown_column(table.name, name, table.fields)
        table = table.targets[name]
    return None


T = TypeVar("T")
R = TypeVar("R")

Record = dict[str, Any]
"""The values of a row by attribute; refs are text."""


def new_records(table: ToolTable, payloads: Sequence[Mapping[str, Any]]) -> list[Record]:
    """Return the records of new rows."""
    usable = table.creatable
    return _map_rows(payloads, lambda payload: _record(table, payload, usable))


def new_rows(
    table: ToolTable, payloads: Sequence[Mapping[str, Any]], entities: Entities
) -> list[NewRow]:
    """Return new rows with their nested rows."""
    usable = table.creatable

    def row(payload: Mapping[str, Any]) -> NewRow:
        if table.targets.keys().isdisjoint(payload):
            return NewRow(table.model, _record(table, payload, usable))
        return parse_content(table.model, draft_changes(table, payload), entities)

    return _map_rows(payloads, row)


def new_contents(table: ToolTable, payloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the content of new drafts."""
    return _map_rows(payloads, lambda payload: draft_changes(table, payload))


def check_content(
    table: ToolTable,
    content: Mapping[str, Any],
    filled: Callable[[ToolTable], Collection[str]],
) -> None:
    """Check that the content of a draft has all required values except refs.

    Refs may be missing, because a draft may be saved together with the rows that it refers to.

    Args:
        table: the table of the row.
        content: values by column, with new rows inside.
        filled: returns the columns of a table that hooks set in new rows.

    Raises:
        ToolError: a value is missing.
    """
    with suppress(DraftContentError):  # of a class that does not exist, which is refused later
        table = table_of_content(table, content)
    missing = [
        column.name
        for column in table.columns.values()
        if column.required and column.creatable and column.key is None
        if column.name not in filled(table) and content.get(column.name) is None
    ]
    if missing:
        raise missing_value(table.name, missing)
    for name in content.keys() & table.targets.keys():
        inside = content[name] if isinstance(content[name], list) else [content[name]]
        for each in inside:
            if isinstance(each, dict):
                check_content(table.targets[name], each, filled)


def check_complete(table: ToolTable, rows: Sequence[NewRow]) -> None:
    """Check that new rows have their required values, after hooks.

    Raises:
        ToolError: a new row lacks a value.
    """
    required = [column for column in table.columns.values() if column.required]

    def check(row: NewRow) -> None:
        missing = [column for column in required if row.values.get(column.name) is None]
        if missing:  # a row inside gives its key to the foreign key
            inside = {name for name, others in row.related.items() if others}
            filled = {c for name in inside for c in table.references().get(name, ())}
            missing = [column for column in missing if column.name not in filled]
        if missing:
            is_given = all(column.creatable for column in missing)
            raise missing_value(table.name, [c.name for c in missing], is_given=is_given)

    _map_rows(rows, check)


def _map_rows(rows: Sequence[T], do: Callable[[T], R]) -> list[R]:
    """Apply a function to each row; errors get the row's number."""
    made = []
    for number, row in enumerate(rows, start=1):
        try:
            made.append(do(row))
        except ToolError as error:
            raise (error.in_row(number) if len(rows) > 1 else error) from None
    return made


def update_record(table: ToolTable, payload: Mapping[str, Any]) -> Record:
    """Return the values of an update.

    Raises:
        ToolError: a column is not writable, or a value does not fit.
    """
    usable = table.updatable
    record = _record(table, payload, usable)
    emptied = [n for n, value in record.items() if value is None and not usable[n].nullable]
    if emptied:
        raise missing_value(table.name, emptied)
    return record


def draft_changes(
    table: ToolTable,
    payload: Mapping[str, Any],
    *,
    stored: bool = False,
    whole: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return changes to a draft's content as JSON.

    The content may contain every value of a new row, and nested rows by relationship: objects for
    new rows, refs for existing ones.

    Args:
        table: the table of the draft.
        payload: the changes, or the complete content.
        stored: whether the content comes from the registry. An application may have set the
            discriminator there; a model may not.
        whole: the content after the changes, with the draft's own ref; `None` if `payload` is
            complete already.

    Raises:
        ToolError: the content could not be saved.
        DraftContentError: it is of a class that a model may not use.
    """
    table = table_of_content(table, payload, stored=stored)
    whole = payload if whole is None else whole
    usable = table.creatable
    relationships = nestable(table)
    is_discriminator_writable = (
        table.discriminator in table.columns and table.discriminator not in table.fixed
    )
    discriminator = [table.discriminator] if stored or is_discriminator_writable else []
    for name in payload:  # all names first: errors below may be about hidden columns
        if stored and name not in (*table.fields, *discriminator):
            raise _unwritable_content(table, "holds something")
        if name not in (*usable, *relationships, *discriminator):
            raise table.unwritable_column(name, [*usable, *relationships])
    _check_references(table, payload)
    changed: dict[str, Any] = {}
    for name, value in payload.items():
        if name in relationships:
            changed[name] = _nested_content(table, name, value, stored=stored)
            _check_nested_references(table, name, value, whole)
        elif name in discriminator:
            changed |= {} if value is None else {name: value}
        else:
            value_in_row = _record(table, {name: value}, usable)[name]
            changed[name] = None if value_in_row is None else value  # an empty text means null
            if value_in_row is None and not usable[name].nullable:
                raise missing_value(table.name, [name])
    return changed


def table_of_content(
    table: ToolTable, content: Mapping[str, Any], *, stored: bool = False
) -> ToolTable:
    """Return the table for the discriminator in content, if a model may create its rows.

    Raises:
        DraftContentError: the class does not exist.
        ToolError: the model may not use the stored class, or not create its rows.
    """
    class_ = explicit_class(table.model, content)
    if class_ is None:
        return table
    if class_ not in table.kinds:
        raise (
            _unwritable_content(table, "is of a kind")
            if stored
            else unknown_class_error(table.model)
        )
    table.kinds[class_].check("create")
    return table.kinds[class_]


def _check_references(table: ToolTable, payload: Mapping[str, Any]) -> None:
    """Check that a reference has the same value in its column and its relationship.

    The column must be empty if the relationship contains a nested new row, which has no ref yet.

    Raises:
        ToolError: they differ.
    """
    by_columns: dict[tuple[str, ...], str] = {}
    for name, columns in table.references().items():
        if payload.get(name) is not None:
            other = by_columns.setdefault(tuple(columns), name)
            if payload[other] != payload[name]:
                raise invalid_value(
                    name, f"what {other!r} says: give one of the two, without the other"
                )
        if name in payload and len(columns) == 1 and columns[0] in payload:
            related, column = payload[name] or None, payload[columns[0]] or None
            if related != column and not (isinstance(related, dict) and column is None):
                raise invalid_value(
                    columns[0], f"what {name!r} says: give one of the two, without the other"
                )


def _unwritable_content(table: ToolTable, fact: str) -> ToolError:
    """Return the error for stored content that must not be shown to the model."""
    return invalid_content(
        f"a draft of {table.name!r} {fact} that is not for you to write; nothing was changed",
        "leave it as it is, or create a row with values of your own",
    )


def nestable(table: ToolTable) -> list[str]:
    """Return the relationships that a model may use in new rows."""
    usable = {*table.creatable}
    references = table.references()
    return [
        name
        for name in table.targets
        if not (table.relationship(name).viewonly or name in table.fixed)
        # a relationship must not write columns that are read-only for the model
        and usable.issuperset(references.get(name, ()))
    ]


def _nested_content(table: ToolTable, name: str, value: Any, *, stored: bool) -> Any:
    """Check the content of one relationship of a draft, and return it normalized."""
    is_list = bool(table.relationship(name).uselist)
    if value is not None and isinstance(value, list) is not is_list:
        expected = "a list of objects or refs" if is_list else "an object, or a ref"
        raise invalid_value(name, expected)
    if isinstance(value, list):
        return [_nested_value(table, name, each, stored=stored) for each in value]
    return None if value is None else _nested_value(table, name, value, stored=stored)


def _nested_value(table: ToolTable, name: str, value: Any, *, stored: bool) -> Any:
    target = table.targets[name]
    moved_columns = [target.columns.get(column) for column in table.child_columns(name)]
    if isinstance(value, str):
        is_draft = parse_draft_ref(value) is not None
        if moved_columns and not is_draft:  # relating it updates the existing row
            target.check("update")
        if not all(c and (c.creatable if is_draft else c.updatable) for c in moved_columns):
            raise invalid_value(name, "objects for new rows: others cannot be moved there")
        return value
    if not isinstance(value, dict):
        raise invalid_value(name, "objects with values by column, or refs")
    target.check("create")
    return draft_changes(target, value, stored=stored)


def _check_nested_references(
    table: ToolTable, name: str, nested: Any, whole: Mapping[str, Any]
) -> None:
    """Check that nested rows do not refer to another row than their outer row.

    Args:
        table: the table of the outer row.
        name: the relationship.
        nested: the nested rows.
        whole: the content of the outer row.

    Raises:
        ToolError: a nested row refers to another row.
    """
    child_columns = table.child_columns(name)
    allowed: dict[str, tuple[Any, ...]] = {
        theirs: (None, "", whole.get(own)) for theirs, own in child_columns.items()
    }
    for back, columns in table.targets[name].references().items() if child_columns else ():
        if child_columns.keys() & columns:
            allowed[back] = (None, whole.get(table.own or ""))
    for row in nested if isinstance(nested, list) else [nested]:
        for field in allowed.keys() & row.keys() if isinstance(row, dict) else ():
            if row[field] not in allowed[field]:
                expected = f"no value in {name!r}: rows there belong to the row that they are in"
                raise invalid_value(field, expected)


def _record(
    table: ToolTable, payload: Mapping[str, Any], usable: Mapping[str, ToolColumn]
) -> Record:
    record: Record = {}
    for name, value in payload.items():
        column = usable.get(name)
        if column is None:
            raise table.unwritable_column(name, usable)
        record[name] = column.accept(value, new=True)
    return record


def refs_of_records(table: ToolTable, records: Iterable[Record]) -> Iterator[tuple[str, str]]:
    """Yield the refs in records, each with the required entity."""
    for record in records:
        for name, value in record.items():
            column = table.columns.get(name)
            if column is not None and column.entity is not None:
                texts = value if isinstance(value, list) else [value]
                yield from ((text, column.entity) for text in texts if isinstance(text, str))


_LITERALLY = "; a backslash after '<' means these letters themselves"

_Rows = TypeVar("_Rows", bound=NewRows)

Leaf = Callable[[str, Any, str | None], Any]
"""Takes a field, a value in it, and the entity of keys if it is an integer."""


def decode_arguments(
    arguments: Arguments,
    tables: ToolTables,
    conversation: SessionConversation,
    *,
    drafts: bool = True,
) -> Arguments:
    """Replace marks in arguments by their keys: at most one round trip.

    Args:
        arguments: the validated arguments.
        tables: the tables that a model may use.
        conversation: resolves the marks.
        drafts: whether drafts are enabled.

    Raises:
        ToolError: a text was cut, or has an unknown mark.
        BadRefError: a mark names a draft, which has no key.
    """
    collector = _MarkCollector({}, [])
    _ArgumentWalker(tables, collector.collect).walk(arguments)
    if not collector.fields:
        return arguments
    for ref, field in collector.marks.items() if not drafts else ():
        if parse_draft_ref(ref):
            raise _unknown_mark(field, ref)
    keys = _resolve_marks(collector.marks, conversation, tables.shown)
    return _ArgumentWalker(tables, partial(_decode_text, keys)).walk(arguments)


def decode_values(
    values: Mapping[str, Any], tables: ToolTables, conversation: SessionConversation
) -> dict[str, Any]:
    """Replace marks in the arguments of a function tool; see `decode_arguments`.

    Raises:
        ToolError: a text was cut, or has an unknown mark.
        BadRefError: a mark names a draft, which has no key.
    """
    collector = _MarkCollector({}, [])
    _values(values, collector.collect)
    if not collector.fields:
        return {**values}
    return _values(
        values, partial(_decode_text, _resolve_marks(collector.marks, conversation, tables.shown))
    )


def _values(values: Mapping[str, Any], leaf: Leaf) -> dict[str, Any]:
    return {name: _document(name, value, {}, leaf) for name, value in values.items()}


def _document(
    field: str, value: Any, places: Places, leaf: Leaf, entity: str | None = None
) -> Any:
    """Return a document with its leaves replaced."""
    try:
        return map_document(
            value, places, partial(leaf, field), lambda name: leaf(field, name, None), entity
        )
    except SameNameError:
        raise invalid_value(field, "objects that have each name once") from None


@dataclass(slots=True)
class _MarkCollector:
    """Collects the marks in a call, each with the first field that has it."""

    marks: dict[str, str]
    fields: list[str]

    def collect(self, field: str, value: Any, entity: str | None) -> Any:
        if isinstance(value, str) and has_marks(value):
            self.fields.append(field)
            try:
                for mark in marks_in(value):
                    self.marks.setdefault(mark.ref, field)
            except CutTextError:
                raise _cut_text_error(field) from None
        if entity is not None and isinstance(value, int) and not isinstance(value, bool):
            expected = f"a ref of {entity!r} in angle brackets, as rows show it, and no number"
            raise invalid_value(field, expected)
        return value


def _resolve_marks(
    marks: Mapping[str, str], conversation: SessionConversation, entities: Container[str]
) -> dict[str, Key]:
    """Return the keys of marks.

    Marks of other entities are refused: the model was never shown them.
    """
    keys = conversation.known_keys(marks)
    for ref, field in marks.items():
        parsed = parse_ref(ref)
        if parsed is None or not (parsed.entity == KEY or parsed.entity in entities):
            raise _unknown_mark(field, ref)
        if parse_draft_ref(ref):
            keys[ref] = _key_of_draft(ref, field, conversation)
        if ref not in keys:
            raise _unknown_mark(field, ref)
    return keys


def _key_of_draft(ref: str, field: str, conversation: SessionConversation) -> Key:
    """Return the key of a saved draft."""
    try:
        return conversation.resolve(ref)
    except UnknownDraftError:
        raise _unknown_mark(field, ref) from None


def _decode_text(keys: Mapping[str, Key], field: str, value: Any, entity: str | None) -> Any:
    """Decode the marks in a text; return an integer if it is an integer key in a document."""
    if not isinstance(value, str) or not has_marks(value):
        return value
    marks = marks_in(value)
    is_single_mark = [str(mark) for mark in marks] == [value] and not marks[0].spelling
    if entity is not None and is_single_mark and isinstance(key := keys[marks[0].ref], int):
        if marks[0].ref.rpartition("_")[0] != entity:
            raise _unknown_mark(field, marks[0].ref)
        return key
    return decode_marks(value, partial(_decode_mark, keys, field))


def _decode_mark(keys: Mapping[str, Key], field: str, mark: Mark) -> str:
    key = keys[mark.ref]
    if isinstance(key, uuid.UUID):
        return mark.spelling_of(key)
    # refuse keys for which answers would not show this mark
    is_hidden = mark.ref.startswith(f"{KEY}_") or whole_keys(str(key)) == [key]
    if isinstance(key, str) and is_hidden and not mark.spelling:
        return key
    raise _unknown_mark(field, mark.ref)


def _cut_text_error(field: str) -> ToolError:
    return invalid_value(
        field,
        "no text with the mark of a cut, as more is stored: leave the field out, or "
        f"give a complete text{_LITERALLY}",
    )


def _unknown_mark(field: str, ref: str) -> ToolError:
    return invalid_value(
        field,
        f"no {ref!r} in angle brackets, which stands for no key that it can have: take one that "
        f"texts are shown with, or leave the brackets out{_LITERALLY}",
    )


def bare_refs(
    arguments: Arguments, tables: ToolTables, conversation: SessionConversation
) -> list[str]:
    """Return notes on refs that documents would have as plain text, where keys are possible."""
    found: dict[str, tuple[str, bool]] = {}

    def collect(field: str, value: Any, entity: str | None) -> Any:
        ref = parse_ref(value) if isinstance(value, str) else None
        if ref is not None and ref.entity in tables.shown:
            found.setdefault(value, (field, entity == ref.entity))
        return value

    _DataWalker(tables, collect).walk(arguments)
    keys = conversation.known_keys(found) if found else {}
    return [
        f"{ref!r} in {field!r} is stored as text; in angle brackets it stands for the row's key"
        for ref, (field, is_declared) in found.items()
        if is_declared or isinstance(keys.get(ref), uuid.UUID)
    ]


def item_table(edit: ListEdit, listed: ToolList) -> ToolTable | None:
    """Return the table of the items of an edit, if they are rows.

    The level of the list follows from the length of its path, or the entity of its ref.
    """
    ref = None if edit.ref is None else parse_ref(edit.ref)
    entities = [table.entity for table in listed.tables[1:]]
    if edit.path is not None:
        depth = len(edit.path) - 1
    else:
        depth = entities.index(ref.entity) if ref and ref.entity in entities else 0
    return listed.rows_at(depth)


class _ArgumentWalker:
    """Applies a function to the values in the arguments of a call.

    Args:
        tables: the tables that a model may use.
        leaf: the function.
    """

    def __init__(self, tables: ToolTables, leaf: Leaf) -> None:
        self._tables = {table.name: table for table in tables}
        self._leaf = leaf

    def walk(self, arguments: Arguments) -> Arguments:
        """Return arguments with their values replaced."""
        table = self._tables.get(arguments.table)
        if isinstance(arguments, DbCreate):
            also = [self._new_rows(each) for each in arguments.also]
            return self._new_rows(arguments).model_copy(update={"also": also})
        if table is None:
            return arguments
        if isinstance(arguments, DbEditList):
            listed = list_by_name(table, arguments.name)
            edits = [self._edit(each, listed) for each in arguments.edits]
            expect: Any = arguments.expect
            if isinstance(expect, dict):
                expect = self._row(expect, table)
            return arguments.model_copy(update={"edits": edits, "expect": expect})
        changed: dict[str, Any] = {"filters": self._filters(arguments.filters, table)}
        if isinstance(arguments, DbRead):
            changed["or_filters"] = self._filters(arguments.or_filters, table)
            return arguments.model_copy(update=changed)
        if isinstance(arguments.expect, dict):
            changed["expect"] = self._row(arguments.expect, table)
        elif isinstance(arguments.expect, str):  # labels in a list keep their marks
            changed["expect"] = self._leaf("expect", arguments.expect, None)
        data = getattr(arguments, "data", None)
        changed |= {} if data is None else {"data": self._row(data, table)}
        return arguments.model_copy(update=changed)

    def _new_rows(self, given: _Rows) -> _Rows:
        table = self._tables.get(given.table)
        if table is None or given.data is None:
            return given
        if isinstance(given.data, dict):
            data: Any = self._row(given.data, table)
        else:
            data = [self._row(row, table) for row in given.data]
        return given.model_copy(update={"data": data})

    def _edit(self, edit: ListEdit, listed: ToolList) -> ListEdit:
        """Return an edit of a list."""
        target = item_table(edit, listed)
        changed: dict[str, Any] = {}
        for name in {"data", "expect"} & edit.model_fields_set:
            value = getattr(edit, name)
            if isinstance(value, dict) and target is not None:
                changed[name] = self._row(value, target)
            elif target is None and listed.column is not None:
                changed[name] = self._value(name, value, listed.column, listed.entity)
            else:
                changed[name] = self._leaf(name, value, None)
        return edit.model_copy(update=changed)

    def _row(self, row: Mapping[str, Any], table: ToolTable) -> dict[str, Any]:
        return {name: self._field(name, value, table) for name, value in row.items()}

    def _field(self, name: str, value: Any, table: ToolTable) -> Any:
        """Return the value of a column, or the related rows nested in a draft."""
        column, target = table.columns.get(name), table.targets.get(name)
        if column is not None:
            return self._value(name, value, column)
        if target is None:
            return value
        if isinstance(value, list):
            return [self._row(e, target) if isinstance(e, dict) else e for e in value]
        return self._row(value, target) if isinstance(value, dict) else value

    def _value(self, field: str, value: Any, column: ToolColumn, entity: str | None = None) -> Any:
        if column.key is not None:
            return value
        return _document(field, value, column.places, self._leaf, entity)

    def _filters(self, filters: Iterable[Filter], table: ToolTable) -> list[Filter]:
        return [self._filter(each, table) for each in filters]

    def _filter(self, given: Filter, table: ToolTable) -> Filter:
        match given:
            case AndGroup():
                return given.model_copy(update={"all_of": self._filters(given.all_of, table)})
            case OrGroup():
                return given.model_copy(update={"any_of": self._filters(given.any_of, table)})
            case NotGroup():
                return given.model_copy(update={"negated": self._filter(given.negated, table)})
            case FilterClause():
                value = self._compared(given, path_of(given.field, table), table)
                return given.model_copy(update={"value": value})

    def _compared(self, clause: FilterClause, path: Sequence[str], table: ToolTable) -> Any:
        name, *rest = path
        if rest:
            target = table.targets.get(name)
            return clause.value if target is None else self._compared(clause, rest, target)
        if name == SEMANTIC:
            return self._leaf(clause.field, clause.value, None)
        column = table.columns.get(name)
        return clause.value if column is None else self._value(clause.field, clause.value, column)


class _DataWalker(_ArgumentWalker):
    """Visits the documents in the data of a write, and nothing that is only compared."""

    def _value(self, field: str, value: Any, column: ToolColumn, entity: str | None = None) -> Any:
        is_document = column.values.family == "json" and not isinstance(value, str)
        return super()._value(field, value, column, entity) if is_document else value

    def _filters(self, filters: Iterable[Filter], table: ToolTable) -> list[Filter]:  # noqa: ARG002  # as in the base class
        return [*filters]


def read_documents(arguments: Arguments, tables: ToolTables) -> Arguments:
    """Parse JSON text in arguments where a document, list or nested row is required.

    Some clients send objects and lists as JSON text, which a JSON column would store as one
    string.

    Raises:
        ToolError: the JSON is not allowed in arguments.
    """
    return _DocumentReader(tables, lambda _, value, __: value).walk(arguments)


class _DocumentReader(_ArgumentWalker):
    """Parses JSON text in the values of arguments, depending on the column or relationship."""

    def _edit(self, edit: ListEdit, listed: ToolList) -> ListEdit:
        target, changed = item_table(edit, listed), dict[str, Any]()
        column = listed.column
        for name in {"data", "expect"} & edit.model_fields_set:
            value = getattr(edit, name)
            if target is not None:
                value = _parsed_as(dict, value)
                changed[name] = self._row(value, target) if isinstance(value, dict) else value
            elif column is not None and column.values.family == "json":
                changed[name] = self._value(name, value, column)
        return edit.model_copy(update=changed)

    def _field(self, name: str, value: Any, table: ToolTable) -> Any:
        if name not in table.columns and name in table.targets:
            value = _parsed_as((list, dict), value)
        return super()._field(name, value, table)

    def _value(self, field: str, value: Any, column: ToolColumn, entity: str | None = None) -> Any:  # noqa: ARG002  # as in the base class
        if column.values.family == "json":
            return parse_document(value) if isinstance(value, str) else value
        return _parsed_as(list, value) if column.values.family == "list" else value

    def _compared(self, clause: FilterClause, path: Sequence[str], table: ToolTable) -> Any:
        if clause.op in ("in", "not_in"):
            return _parsed_as(list, clause.value)
        return super()._compared(clause, path, table)


def _parsed_as(types: type[Any] | tuple[type[Any], ...], value: Any) -> Any:
    """Parse JSON text if its value has one of some types."""
    parsed = parse_document(value) if isinstance(value, str) else value
    return parsed if isinstance(parsed, types) else value
