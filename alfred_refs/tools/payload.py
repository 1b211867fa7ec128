"""Values of new and changed rows: their types, and NUL characters.

- `notes_of` reports NUL characters that `arguments` removed. If the value was not plain text (a
  ref or a choice), the rest may mean another row, so the call is refused.
- `new_records`, `update_record` and `draft_changes` check values by column and return Python
  values, with refs as the model passed them. Unknown and read-only columns are refused.

>>> recipes = toolset.tables.by_name("recipes")
>>> update_record(recipes, {"name": "Broth", "servings": 4})
{'name': 'Broth', 'servings': 4}
>>> update_record(recipes, {"servings": "four"})
Traceback (most recent call last):
    ...
alfred_refs.tools.errors.ToolError: the value given for 'servings' does not fit; it takes ...

Limits: no SQL is sent here. Marks of keys were replaced before (`decoding`); refs are resolved
later, by the verbs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from alfred_refs.conversation import NewRow, explicit_class, parse_content, unknown_class_error
from alfred_refs.errors import DraftContentError
from alfred_refs.mapping import Entities, parse_draft_ref
from alfred_refs.tools.arguments import Arguments, DbCreate, Path, misplaced_nul
from alfred_refs.tools.catalog import ToolTables
from alfred_refs.tools.errors import (
    ToolError,
    invalid_content,
    invalid_value,
    missing_value,
    unknown_column,
)
from alfred_refs.tools.tables import ToolColumn, ToolTable


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
