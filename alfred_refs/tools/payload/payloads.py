"""What a model wants to store: checked by column, as Python values, with refs as it gave them.

Payloads come in; records go out, by attribute. A column that is not there, or is not for the model
to write, refuses the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from alfred_refs.conversation.draft_fields import (
    Record as NewRow,
    no_such_class,
    record_of,
    said_class,
)
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.refs import draft_named
from alfred_refs.tools.errors import (
    ToolError,
    invalid_content,
    invalid_value,
    missing_value,
)
from alfred_refs.tools.tables.table import ToolColumn, ToolTable

T = TypeVar("T")
R = TypeVar("R")

Record = dict[str, Any]
"""Values of a row by attribute; refs are text."""


def new_records(table: ToolTable, payloads: Sequence[Mapping[str, Any]]) -> list[Record]:
    """Return the records of new rows."""
    usable = {column.name: column for column in table.columns.values() if column.creatable}
    return _each(payloads, lambda payload: _record(table, payload, usable))


def new_rows(
    table: ToolTable, payloads: Sequence[Mapping[str, Any]], entities: Entities
) -> list[NewRow]:
    """Return new rows, those inside of them by relationship too."""
    usable = {column.name: column for column in table.columns.values() if column.creatable}

    def row(payload: Mapping[str, Any]) -> NewRow:
        if table.targets.keys().isdisjoint(payload):
            return NewRow(table.model, _record(table, payload, usable))
        return record_of(table.model, draft_changes(table, payload), entities)

    return _each(payloads, row)


def new_contents(table: ToolTable, payloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what new drafts are to hold."""
    return _each(payloads, lambda payload: draft_changes(table, payload))


def check_complete(table: ToolTable, records: Sequence[Record]) -> None:
    """Check that new rows have what they must have, once hooks have enriched them."""
    required = [column for column in table.columns.values() if column.required]

    def check(record: Record) -> None:
        missing = [column for column in required if record.get(column.name) is None]
        if missing:
            is_given = all(column.creatable for column in missing)
            raise missing_value(table.name, [c.name for c in missing], is_given=is_given)

    _each(records, check)


def _each(rows: Sequence[T], do: Callable[[T], R]) -> list[R]:
    """Return what is made of each of several rows; an error says of which it is."""
    made = []
    for number, row in enumerate(rows, start=1):
        try:
            made.append(do(row))
        except ToolError as error:
            raise (error.in_row(number) if len(rows) > 1 else error) from None
    return made


def changes(table: ToolTable, payload: Mapping[str, Any]) -> Record:
    """Return the record of what is to be changed."""
    usable = {column.name: column for column in table.columns.values() if column.updatable}
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
    """Return what is to be changed of a draft's content, in JSON as it was given.

    It may have what a new row may be given, and by relationship what is nested in it: objects for
    new rows, and refs of those that are there.

    Args:
        table: of whose rows the draft is.
        payload: the changes, or all of the content.
        stored: whether it is content that the registry has: an application may have said in it
            which class it is of, though that is not for a model to say.
        whole: what the draft holds then, and its ref as its key; `None` if that is the payload.

    Raises:
        ToolError: it is nothing that could be saved.
        DraftContentError: it says that it is of a class that a model may not use.
    """
    table = table_said(table, payload, stored=stored)
    whole = payload if whole is None else whole
    usable = {column.name: column for column in table.columns.values() if column.creatable}
    related = _relationships(table, usable)
    may_be_said = table.discriminator in table.columns and table.discriminator not in table.fixed
    kind = [table.discriminator] if stored or may_be_said else []
    for name in payload:  # before anything is told of those that are not for the model to know
        if stored and name not in (*table.fields, *kind):
            raise _not_to_write(table, "holds something")
        if name not in (*usable, *related, *kind):
            raise table.not_written(name, [*usable, *related])
    _check_said_once(table, payload)
    changed: dict[str, Any] = {}
    for name, value in payload.items():
        if name in related:
            changed[name] = _related(table, name, value, stored=stored)
            _check_belonging(table, name, value, whole)
        elif name in kind:
            changed |= {} if value is None else {name: value}
        else:
            accepted = _record(table, {name: value}, usable)[name]
            changed[name] = None if accepted is None else value  # no ref may be given as ""
            if accepted is None and not usable[name].nullable:
                raise missing_value(table.name, [name])
    return changed


def table_said(table: ToolTable, content: Mapping[str, Any], *, stored: bool = False) -> ToolTable:
    """Return the table of the class that content says it is of: one that a model may create.

    Raises:
        DraftContentError: there is no such class.
        ToolError: it was stored so, and is none that the model may use.
        ToolError: rows of it are not for the model to create.
    """
    class_ = said_class(table.model, content)
    if class_ is None:
        return table
    if class_ not in table.kinds:
        raise _not_to_write(table, "is of a kind") if stored else no_such_class(table.model)
    table.kinds[class_].check("create")
    return table.kinds[class_]


def _check_said_once(table: ToolTable, payload: Mapping[str, Any]) -> None:
    """Check that a reference that is said by a relationship and in its column is the same.

    A new row has no ref yet: no value in the column agrees with it.
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
            said, column = payload[name] or None, payload[columns[0]] or None
            if said != column and not (isinstance(said, dict) and column is None):
                raise invalid_value(
                    columns[0], f"what {name!r} says: give one of the two, without the other"
                )


def _not_to_write(table: ToolTable, fact: str) -> ToolError:
    """Return the error for what an application has stored, and a model may not know."""
    return invalid_content(
        f"a draft of {table.name!r} {fact} that is not for you to write; nothing was changed",
        "leave it as it is, or create a row with values of your own",
    )


def _relationships(table: ToolTable, usable: Collection[str]) -> list[str]:
    """Return the relationships by which a model may relate new rows to others."""
    references = table.references()
    return [
        name
        for name in table.targets
        if not (table.relationship(name).viewonly or name in table.fixed)
        # what no model may write is not written by its relationship
        and {*usable} >= {*references.get(name, ())}
    ]


def _related(table: ToolTable, name: str, given: Any, *, stored: bool) -> Any:
    """Return what is to be nested in a draft, checked by the table that it is of."""
    is_list = bool(table.relationship(name).uselist)
    if given is not None and isinstance(given, list) is not is_list:
        wanted = "a list of objects or refs" if is_list else "an object, or a ref"
        raise invalid_value(name, wanted)
    if isinstance(given, list):
        return [_nested(table, name, each, stored=stored) for each in given]
    return None if given is None else _nested(table, name, given, stored=stored)


def _nested(table: ToolTable, name: str, given: Any, *, stored: bool) -> Any:
    target = table.targets[name]
    taken = [target.columns.get(column) for column in table.taking(name)]
    if isinstance(given, str):
        is_draft = draft_named(given) is not None
        if taken and not is_draft:  # the row is changed
            target.check("update")
        if not all(c and (c.creatable if is_draft else c.updatable) for c in taken):
            raise invalid_value(name, "objects for new rows: others cannot be moved there")
        return given
    if not isinstance(given, dict):
        raise invalid_value(name, "objects with values by column, or refs")
    target.check("create")
    return draft_changes(target, given, stored=stored)


def _check_belonging(table: ToolTable, name: str, given: Any, whole: Mapping[str, Any]) -> None:
    """Check that rows nested by a relationship do not say that they belong to another row.

    The relationship says it, whatever they say.

    Args:
        table: of the row that they are nested in.
        name: of the relationship.
        given: what is nested.
        whole: what the row that they are nested in holds.
    """
    taking = table.taking(name)
    allowed: dict[str, tuple[Any, ...]] = {
        theirs: (None, "", whole.get(own)) for theirs, own in taking.items()
    }
    for back, columns in table.targets[name].references().items() if taking else ():
        if taking.keys() & columns:
            allowed[back] = (None, whole.get(table.own or ""))
    for row in given if isinstance(given, list) else [given]:
        for field in allowed.keys() & row.keys() if isinstance(row, dict) else ():
            if row[field] not in allowed[field]:
                wanted = f"no value in {name!r}: rows there belong to the row that they are in"
                raise invalid_value(field, wanted)


def _record(
    table: ToolTable, payload: Mapping[str, Any], usable: Mapping[str, ToolColumn]
) -> Record:
    record: Record = {}
    for name, value in payload.items():
        column = usable.get(name)
        if column is None:
            raise table.not_written(name, usable)
        record[name] = column.accept(value, new=True)
    return record


def refs_of_records(table: ToolTable, records: Iterable[Record]) -> Iterator[tuple[str, str]]:
    """Yield the refs in records, each with the entity that is needed."""
    for record in records:
        for name, value in record.items():
            column = table.columns.get(name)
            if column is not None and column.entity is not None:
                texts = value if isinstance(value, list) else [value]
                yield from ((text, column.entity) for text in texts if isinstance(text, str))


def deduplicated(
    records: Sequence[Record], names: Sequence[str]
) -> tuple[list[Record], list[list[int]]]:
    """Return records without those that a later one repeats: the last wins, where the first stood.

    As in a unique constraint, no value is the same as no value: such records are all kept.

    Args:
        records: of new rows.
        names: of the attributes that tell rows apart.

    Returns:
        the records, and which of the given ones became one, counted from 1.
    """
    places: dict[str, list[int]] = {}
    for n, record in enumerate(records, start=1):
        values = [record.get(name) for name in names]
        places.setdefault(str(n) if None in values else repr(values), []).append(n)
    kept = [records[numbers[-1] - 1] for numbers in places.values()]
    return kept, [numbers for numbers in places.values() if len(numbers) > 1]
