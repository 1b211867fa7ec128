"""Texts in arguments that stand for other values: marks of keys, and JSON.

- `decode_arguments` replaces marks (`<recipe_1>`) in texts and documents by their keys, with one
  lookup for the call; `serialization` makes these marks in answers. Columns of refs contain no
  marks. The mark of a deleted row is still decoded, so that a text can be stored as it was shown.
  A text that was cut is refused.
- `bare_refs` notes refs that documents would have as plain text.
- `read_documents` parses documents, lists and nested rows that are passed as JSON text.

Which values of a call may have them depends on its table: `_ArgumentWalker` visits the values of
all columns, with the columns, wherever a verb may have them.

>>> named = FilterClause(field="name", op="=", value="like <recipe_1>")
>>> read = DbRead(table="recipes", filters=[named])
>>> decoded = decode_arguments(read, toolset.tables, session.own_view)
>>> with session.raw_keys():
...     key = session.scalar(select(Recipe.id).where(Recipe.name == "Soup"))
>>> decoded.filters[0].value == f"like {key}"
True

Limits: no SQL is sent here except the lookup of marks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from alfred_refs.conversation import SessionConversation
from alfred_refs.errors import UnknownDraftError
from alfred_refs.mapping import (
    KEY,
    CutTextError,
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
    parse_document,
)
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.errors import ToolError, invalid_value
from alfred_refs.tools.serialization import Places, SameNameError, map_document
from alfred_refs.tools.tables import ToolColumn, ToolList, ToolTable, list_by_name, path_of

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
        target = listed.item_table(edit.path, edit.ref)
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
        target, changed = listed.item_table(edit.path, edit.ref), dict[str, Any]()
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
