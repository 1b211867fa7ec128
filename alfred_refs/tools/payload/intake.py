"""The way in: texts of a call's arguments as they are to be stored, before anybody looks at them.

Checked arguments come in, with marks where a model was shown keys; the same arguments go out, with
the keys, in all that columns of text and documents are given or compared with, in the data of
drafts too. Columns of refs and of UUIDs have no marks. What marks stand for is asked once for the
whole call; that a row is gone does not matter, because what was shown can be stored. What was cut,
and what stands for no key that a text can have, is refused. `texts` is the way out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from alfred_refs.conversation.view import SessionConversation
from alfred_refs.errors import UnknownDraftError
from alfred_refs.mapping.guard import find_keys
from alfred_refs.mapping.keys import Key
from alfred_refs.mapping.marks import CutTextError, Mark, decode, has_marks, marks_in
from alfred_refs.mapping.refs import KEY, draft_named, parse_ref
from alfred_refs.tools.errors import ToolError, invalid_value
from alfred_refs.tools.tables.lists import ToolList, list_named
from alfred_refs.tools.tables.table import ToolColumn, ToolTable
from alfred_refs.tools.tables.tables import ToolTables
from alfred_refs.tools.wire.arguments import (
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
)
from alfred_refs.tools.wire.documents import Places, SameNameError, mapped

_LITERALLY = "; a backslash after '<' means these letters themselves"

_Rows = TypeVar("_Rows", bound=NewRows)

Leaf = Callable[[str, Any, str | None], Any]
"""Is given the name of a field, a value in it, and the entity of whose keys it is if a number."""


def decoded(
    arguments: Arguments,
    tables: ToolTables,
    conversation: SessionConversation,
    *,
    drafts: bool = True,
) -> Arguments:
    """Return arguments with what marks stand for in their place: at most one round trip.

    Args:
        arguments: checked.
        tables: that a model may use.
        conversation: in which marks mean something.
        drafts: whether there are drafts.

    Raises:
        ToolError: a text was cut, or has a mark that stands for nothing.
        BadRefError: a mark names a draft, which has no key.
    """
    found = _Found({}, [])
    _Arguments(tables, found.note).walked(arguments)
    if not found.differs:
        return arguments
    for ref, field in found.marks.items() if not drafts else ():
        if draft_named(ref):
            raise _unknown(field, ref)
    keys = _keys_of(found.marks, conversation)
    return _Arguments(tables, partial(_stored, keys)).walked(arguments)


def decoded_values(values: Mapping[str, Any], conversation: SessionConversation) -> dict[str, Any]:
    """Return values of an application's tool, by name, with what marks stand for; see `decoded`.

    Raises:
        ToolError: a text was cut, or has a mark that stands for nothing.
        BadRefError: a mark names a draft, which has no key.
    """
    found = _Found({}, [])
    _values(values, found.note)
    if not found.differs:
        return {**values}
    return _values(values, partial(_stored, _keys_of(found.marks, conversation)))


def _values(values: Mapping[str, Any], leaf: Leaf) -> dict[str, Any]:
    return {name: _document(name, value, {}, leaf) for name, value in values.items()}


def _document(
    field: str, value: Any, places: Places, leaf: Leaf, entity: str | None = None
) -> Any:
    """Return what `leaf` makes of a document, which is in a field."""
    try:
        return mapped(
            value, places, partial(leaf, field), lambda name: leaf(field, name, None), entity
        )
    except SameNameError:
        raise invalid_value(field, "objects that have each name once") from None


@dataclass(slots=True)
class _Found:
    """The marks in a call, each with the field where it was first seen."""

    marks: dict[str, str]
    differs: list[str]

    def note(self, field: str, value: Any, entity: str | None) -> Any:
        if isinstance(value, str) and has_marks(value):
            self.differs.append(field)
            try:
                for mark in marks_in(value):
                    self.marks.setdefault(mark.ref, field)
            except CutTextError:
                raise _cut(field) from None
        if entity is not None and isinstance(value, int) and not isinstance(value, bool):
            wanted = f"a ref of {entity!r} in angle brackets, as rows show it, and no number"
            raise invalid_value(field, wanted)
        return value


def _keys_of(marks: Mapping[str, str], conversation: SessionConversation) -> dict[str, Key]:
    """Return what marks stand for, given with the fields that they stand in."""
    keys = conversation.keys_held(marks)
    for ref, field in marks.items():
        if draft_named(ref):
            keys[ref] = _key_of_draft(ref, field, conversation)
        if ref not in keys:
            raise _unknown(field, ref)
    return keys


def _key_of_draft(ref: str, field: str, conversation: SessionConversation) -> Key:
    """Return the key of a draft that is a row by now."""
    try:
        return conversation.resolve(ref)
    except UnknownDraftError:
        raise _unknown(field, ref) from None


def _stored(keys: Mapping[str, Key], field: str, value: Any, entity: str | None) -> Any:
    """Return a text as it is to be stored, or the number that it stands for in a document."""
    if not isinstance(value, str) or not has_marks(value):
        return value
    marks = marks_in(value)
    is_one = [str(mark) for mark in marks] == [value] and not marks[0].spelling
    if entity is not None and is_one and isinstance(key := keys[marks[0].ref], int):
        if marks[0].ref.rpartition("_")[0] != entity:
            raise _unknown(field, marks[0].ref)
        return key
    return decode(value, partial(_text_of, keys, field))


def _text_of(keys: Mapping[str, Key], field: str, mark: Mark) -> str:
    key = keys[mark.ref]
    if isinstance(key, uuid.UUID):
        return mark.spelt(key)
    # a key that would be shown as it is must not come in
    is_hidden = mark.ref.startswith(f"{KEY}_") or find_keys(str(key)) == [key]
    if isinstance(key, str) and is_hidden and not mark.spelling:
        return key
    raise _unknown(field, mark.ref)


def _cut(field: str) -> ToolError:
    return invalid_value(
        field,
        "no text with the mark of a cut, which is not all that is stored: leave it out, or give a "
        f"text of your own{_LITERALLY}",
    )


def _unknown(field: str, ref: str) -> ToolError:
    return invalid_value(
        field,
        f"no {ref!r} in angle brackets, which stands for no key that it can have: take one that "
        f"texts are shown with, or leave the brackets out{_LITERALLY}",
    )


class _Arguments:
    """Goes through the arguments of a call.

    Args:
        leaf: is given each value that is no list or object, and each name in a document.
    """

    def __init__(self, tables: ToolTables, leaf: Leaf) -> None:
        self._tables = {table.name: table for table in tables}
        self._leaf = leaf

    def walked(self, arguments: Arguments) -> Arguments:
        """Return arguments with what `leaf` makes of their values."""
        table = self._tables.get(arguments.table)
        if isinstance(arguments, DbCreate):
            also = [self._new_rows(each) for each in arguments.also]
            return self._new_rows(arguments).model_copy(update={"also": also})
        if table is None:
            return arguments
        if isinstance(arguments, DbEditList):
            listed = list_named(table, arguments.name)
            edits = [self._edit(each, listed) for each in arguments.edits]
            return arguments.model_copy(update={"edits": edits})
        changed: dict[str, Any] = {"filters": self._filters(arguments.filters, table)}
        if isinstance(arguments, DbRead):
            changed["or_filters"] = self._filters(arguments.or_filters, table)
            return arguments.model_copy(update=changed)
        expect = arguments.expect
        if isinstance(expect, str):
            changed["expect"] = self._leaf("expect", expect, None)
        elif expect is not None:
            changed["expect"] = self._row(expect, table)
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
        """Return an edit of a list; which of its levels it is in, a path or a ref tells."""
        ref = None if edit.ref is None else parse_ref(edit.ref)
        entities = [table.entity for table in listed.tables[1:]]
        if edit.path is not None:
            depth = len(edit.path) - 1
        else:
            depth = entities.index(ref.entity) if ref and ref.entity in entities else 0
        changed: dict[str, Any] = {}
        for name in {"data", "expect"} & edit.model_fields_set:
            value, target = getattr(edit, name), listed.rows_at(depth)
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
        """Return the value of a column, or related rows inside of a draft."""
        column, target = table.columns.get(name), table.targets.get(name)
        if column is not None:
            return self._value(name, value, column)
        if target is None:
            return value
        if isinstance(value, list):
            return [self._row(e, target) if isinstance(e, dict) else e for e in value]
        return self._row(value, target) if isinstance(value, dict) else value

    def _value(self, field: str, value: Any, column: ToolColumn, entity: str | None = None) -> Any:
        if column.key is not None or column.values.family == "uuid":
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
                value = self._compared(given, given.field.split("."), table)
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
