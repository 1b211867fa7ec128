"""Preconditions of a write: `expect`, labels, new rows that contradict themselves.

A ref is short, and one wrong digit may make it the ref of another row. So a write repeats the
labels of the rows that it names, in `expect` and in its data next to refs, as rows show them:

    {"table": "meal_plans", "data": {"recipe_id": "recipe_7", "_recipe_id_label": "Soup", ...}}
    {"table": "recipes", "filters": [id in recipe_7, recipe_9], "expect": ["Soup", "Dal"], ...}
    {"table": "lines", "filters": [recipe_id = recipe_7], "expect": {"recipe_7": "Soup"}, ...}

`check_expectations` verifies these against the database and returns the arguments without them. A
row that is named without a label is refused, with its label, unless the toolset was made with
`expect="optional"`. Rows without labels need none. If another row that the conversation knows has
the same label, the model must give values by column that distinguish the two.

>>> only = {"field": "id", "op": "=", "value": "recipe_1"}
>>> given = {"table": "recipes", "filters": [only], "data": {"servings": 4}, "expect": "Toast"}
>>> toolset.call(session, "db_update", given)["error"]["message"]
"'recipe_1' was expected to have label 'Toast' and has 'Soup'; nothing was changed; read the row
again and call with what it has now"

`differences` compares the values of `expect` with a row that was read for the change. Values are
compared as the column stores them: a timestamp is the same in every zone.

`check_new_rows` compares what new rows say of each other with their instances before the flush.
The ORM would keep the last of two contradicting values without an error: one row cannot have two
parents by one foreign key, and a keyed collection has room for one row of a key.

Limits: `expect` is not required for rows that filters match without naming a ref.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import inspect
from sqlalchemy.orm import MANYTOONE, ONETOMANY, undefer
from sqlalchemy.sql.base import ExecutableOption

from alfred_refs import sqla
from alfred_refs.conversation.draft_content import NewRow
from alfred_refs.mapping.entities import Entities
from alfred_refs.mapping.key_columns import KeyColumn, clean
from alfred_refs.mapping.keys import Key, draft_named, parse_ref
from alfred_refs.session.drafts import Builder, Link
from alfred_refs.tools.answers import Foreign, put_labels
from alfred_refs.tools.arguments import (
    Arguments,
    DbCreate,
    DbDelete,
    DbEditList,
    DbUpdate,
    NewRows,
)
from alfred_refs.tools.call import Call
from alfred_refs.tools.errors import (
    ToolError,
    ambiguous_label,
    invalid_arguments,
    invalid_content,
    invalid_value,
    unconfirmed_ref,
    unexpected_row,
)
from alfred_refs.tools.filters import chosen_refs, refs_of
from alfred_refs.tools.payload import table_of
from alfred_refs.tools.serialization import limit_depth, replace_keys
from alfred_refs.tools.tables import ToolColumn, ToolTable, ToolTables, list_named

Expected = str | Sequence[Any] | Mapping[str, Any] | None
"""A label, or values by column; a list of labels, one for each ref, `beliefs` has looked at."""


def expected_loaders(table: ToolTable, expect: Expected) -> list[ExecutableOption]:
    """Return the loader options that load what rows are expected to have, and their labels.

    Raises:
        ToolError: a column is none that a model may use.
    """
    label = table.keys.label
    names = [] if label is None or label.attribute is None else [label.attribute]
    if isinstance(expect, Mapping):
        names += [table.column(name).name for name in expect]
    return [undefer(getattr(table.model, name)) for name in names]


def label_of(table: ToolTable, instance: Any) -> str | None:
    """Return the label of a row, as far as that is loaded."""
    label = table.keys.label
    return None if label is None else label.line(sqla.state_of(instance).dict)


def differences(
    table: ToolTable, instance: Any, expect: Expected
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what a row has otherwise: the column, what was expected and what there is, as JSON.

    Raises:
        ToolError: what is expected cannot be told of such rows.
    """
    if isinstance(expect, Mapping):

        def value_of(column: ToolColumn) -> Any:
            return getattr(instance, column.name)

        yield from values_otherwise(table, expect, value_of)
    elif isinstance(expect, str):
        if table.keys.label is None:
            raise invalid_arguments(
                f"rows of {table.name!r} have no label: give values by column", "expect"
            )
        loaded = sqla.state_of(instance).dict
        label = table.keys.label
        # beside refs in rows, in columns, and beside refs in errors
        if expect not in (label.line(loaded), label.read(loaded), label.of(loaded)):
            yield "label", expect, label.line(loaded)


def values_otherwise(
    table: ToolTable,
    expect: Mapping[str, Any],
    value_of: Callable[[ToolColumn], Any],
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the columns that have other values than expected, with both as JSON."""
    for name, given in expect.items():
        column = table.column(name)
        expected, (actual, _) = column.accept(given), limit_depth(value_of(column))
        shown = column.show(expected), column.show(actual)
        if expected != actual and shown[0] != shown[1]:
            yield name, *shown


_LOST = "nothing was changed"


Claims = Mapping[int, Mapping[str, Sequence[Any]]]
"""By the `id()` of new rows, what each column was said to have: a ref, and the key it names."""


def check_claims(builder: Builder, rows: Iterable[tuple[str, NewRow]], claims: Claims) -> None:
    """Check that what is said of new rows is what will be saved.

    Args:
        builder: has made and related their instances.
        rows: the new rows, with what each is called.
        claims: what a model or a draft says of them, before hooks.

    Raises:
        ToolError: two things that are said cannot both be, or one will not be.
    """
    places = {
        id(builder.made_of(record)): place
        for name, row in rows
        for place, record in _inside(name, row)
    }
    for link in builder.links:
        _check_class(link, places)
    _check_once(builder.links, places)
    _check_parents(builder.links, places)
    _check_columns(builder, places, claims)
    for link in builder.links:
        if not any(each is link.other for each in _new_children(link)):
            raise _row_taken(link, builder.links, places)
    for record, instance in builder.made:
        if sqla.state_of(instance).session is None:
            raise invalid_content(
                f"{places[id(instance)]!r} would not be saved with what it is in; {_LOST}",
                f"save it as a row of {record.model.__name__!r} by itself",
            )


def claims_of(rows: Iterable[NewRow], entities: Entities, keys: Mapping[Any, Key]) -> Claims:
    """Return what new rows and those inside them have.

    Args:
        rows: the new rows.
        entities: say which columns have refs.
        keys: that refs name, by these and the entity that is needed.
    """
    every = [each for row in rows for each in (row, *row.inside())]
    return {
        id(each): dict(_columns(each, entities.of_class(each.model).all, keys)) for each in every
    }


def _columns(
    record: NewRow, held: Mapping[str, KeyColumn], keys: Mapping[Any, Key]
) -> Iterator[tuple[str, list[Any]]]:
    for name, value in record.values.items():
        column = held.get(name)
        key = None if column is None or column.array else keys.get((value, column.entity))
        yield name, [value] if column is None or key is None else [value, column.from_key(key)]


def _inside(place: str, record: NewRow) -> Iterator[tuple[str, NewRow]]:
    """Yield a new row and those inside it, with where they stand."""
    yield place, record
    relationships = inspect(record.model).mapper.relationships
    for name, others in record.related.items():
        for at, other in enumerate(others, start=1):
            if isinstance(other, NewRow):
                number = f".{at}" if relationships[name].uselist else ""
                yield from _inside(f"{place}.{name}{number}", other)


def _check_class(link: Link, places: Mapping[int, str]) -> None:
    """Check that a relationship leads to a row of its class, and not of one beside it."""
    relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
    if not isinstance(link.other, relationship.mapper.class_):
        raise invalid_content(
            f"{_place(link, places)} is a row of another kind than belongs there; {_LOST}",
            "leave it out there",
        )


def _check_once(links: Iterable[Link], places: Mapping[int, str]) -> None:
    """Check that no relationship is said to have one row twice: nobody says what to store."""
    known = set[tuple[int, str, int]]()
    for link in links:
        pair = id(link.instance), link.name, id(link.other)
        if pair in known:
            raise invalid_content(
                f"{_place(link, places)} is said twice; {_LOST}", "leave one of the two out"
            )
        known.add(pair)


def _check_columns(builder: Builder, places: Mapping[int, str], claims: Claims) -> None:
    """Check that the columns of a reference say what its relationship says, which is stored."""
    records = {id(instance): record for record, instance in builder.made}
    for link in builder.links:
        columns = claims.get(id(records[id(link.instance)]), {})
        for name, has in _referring(link):
            if has not in columns.get(name, [has]):
                raise invalid_content(
                    f"'{places[id(link.instance)]}.{name}' says otherwise than "
                    f"{_place(link, places)}; {_LOST}",
                    "leave one of the two out",
                )


def _referring(link: Link) -> Iterator[tuple[str, Any]]:
    """Yield the columns that a link gives a value to in its own instance, and these values."""
    relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
    if relationship.direction is MANYTOONE:
        own = sqla.attributes_of(relationship.parent, relationship.local_columns)
        theirs = sqla.attributes_of(relationship.mapper, relationship.remote_side)
        there = sqla.state_of(link.other).dict
        for local, remote in relationship.local_remote_pairs or ():
            yield own.get(local, ""), there.get(theirs.get(remote, ""))


def _check_parents(links: Sequence[Link], places: Mapping[int, str]) -> None:
    """Check that no row is said to have two parents by the same columns."""
    parents: dict[Any, tuple[Any, Link]] = {}
    for link in links:
        relationship = sqla.state_of(link.instance).mapper.relationships[link.name]
        if relationship.direction is ONETOMANY:
            child, parent, columns = link.other, link.instance, relationship.remote_side
        elif relationship.direction is MANYTOONE:
            child, parent, columns = link.instance, link.other, relationship.local_columns
        else:
            continue
        known, first = parents.setdefault((id(child), frozenset(columns)), (parent, link))
        if known is not parent:
            raise invalid_content(
                f"{_place(first, places)} and {_place(link, places)} say two different rows "
                f"that one row belongs to, and it can belong to one; {_LOST}",
                "say it in one of the two places",
            )


def _new_children(link: Link) -> Sequence[Any]:
    """Return what a relationship of a new row has, however it is loaded."""
    history = sqla.state_of(link.instance).attrs[link.name].history
    return [*(history.added or ()), *(history.unchanged or ())]


def _row_taken(link: Link, links: Sequence[Link], places: Mapping[int, str]) -> ToolError:
    """Return the error for a row that its place has lost to another one."""
    collection = sqla.state_of(link.instance).dict.get(link.name)
    same = getattr(collection, "keyfunc", None)
    holder = None if same is None or collection is None else collection.get(same(link.other))
    other = next((each for each in links if each.other is holder), None)
    if other is None:
        return invalid_content(
            f"a row would not be saved in {_place(link, places)}; {_LOST}",
            "leave it out there, or relate it in another way",
        )
    return invalid_content(
        f"{_place(link, places)} and {_place(other, places)} have the same value by which rows "
        f"are told apart there, and one of them would be lost; {_LOST}",
        "give one of them another value, or leave it out",
    )


def _place(link: Link, places: Mapping[int, str]) -> str:
    """Return where a row is related, and which it is if it was named."""
    where = f"'{places[id(link.instance)]}.{link.name}'"
    if link.ref is not None:
        return f"{link.ref!r} in {where}"
    return f"{places[id(link.other)]!r}"


_Rows = TypeVar("_Rows", bound=NewRows)


@dataclass(frozen=True, slots=True)
class Belief:
    """A row that a write names, and what the model takes it to be.

    Attributes:
        ref: of the row.
        table: of which it is.
        field: where the model says what it is.
        said: the label, or values by column; `None` where it says nothing.
    """

    ref: str
    table: ToolTable
    field: str
    said: str | Mapping[str, Any] | None


def check_expectations(call: Call, arguments: Arguments) -> Arguments:
    """Return a write without what it says of the rows that it names, once that holds.

    Raises:
        BadRefError: it names no row.
        ToolError: a row is another than the model thinks, or it does not say what it thinks.
    """
    beliefs: list[Belief] = []
    plain = _ExpectationReader(call.setting.tables, beliefs).plain(arguments)
    is_asked = call.setting.expect == "required"
    if not is_asked:
        beliefs = [each for each in beliefs if each.said is not None]
    labels = _labels(call, beliefs) if beliefs else {}
    for each in beliefs:
        if each.said is not None:
            _check_said(call, each, each.said, labels.get(each.ref))
    unsaid = {
        each.ref: (labels[each.ref], each.field)
        for each in beliefs
        if each.said is None and each.ref in labels
    }
    if unsaid:
        raise unconfirmed_ref(unsaid)
    if is_asked:
        _check_apart(call, [each for each in beliefs if isinstance(each.said, str)], labels)
    return plain


def _check_said(
    call: Call, belief: Belief, said: str | Mapping[str, Any], label: str | None
) -> None:
    """Check that a row has the label that a model says, or the values."""
    if isinstance(said, str) and label is not None:
        if not _is_said(label, said, call):
            raise unexpected_row(belief.ref, "label", label, said)
        return
    if draft_named(belief.ref):
        if isinstance(said, str):  # it may be saved by now, and be called otherwise as a row
            return
        raise invalid_value(belief.field, "the label of a draft")
    row = call.session.get(belief.table.model, belief.ref)
    # one that is not to be seen, the verbs refuse
    for column, expected, actual in () if row is None else differences(belief.table, row, said):
        raise unexpected_row(belief.ref, column, actual, expected)


def _check_apart(call: Call, beliefs: Iterable[Belief], labels: Mapping[str, str]) -> None:
    """Check that labels tell rows from all others that the conversation knows."""
    rows = {
        each: (each.table.entity, label)
        for each in beliefs
        if not draft_named(each.ref) and (label := clean(labels.get(each.ref, ""))) is not None
    }
    namesakes = call.conversation.namesakes({*rows.values()}) if rows else {}
    for each, pair in rows.items():
        others = [ref for ref in namesakes.get(pair, ()) if ref != each.ref]
        if others:
            raise ambiguous_label(each.ref, others[0], pair[1], each.field)


def _labels(call: Call, beliefs: Iterable[Belief]) -> dict[str, str]:
    """Return the labels of rows and pending drafts, by ref, as far as the session sees them."""
    by_table: dict[ToolTable, list[str]] = {}
    for each in beliefs:
        by_table.setdefault(each.table, []).append(each.ref)
    labels: dict[str, str] = {}
    found: list[Foreign] = []
    for table, refs in by_table.items():
        drafts = call.drafts_named(refs, table.entity)
        labels |= {ref: draft.label for ref, draft in drafts.items() if draft.label is not None}
        # a draft that is saved may be called otherwise as a row, and its call be made again
        rows = [ref for ref in refs if draft_named(ref) is None]
        keys = call.resolved((ref, table.entity) for ref in rows)
        if table.keys.label is not None:
            found += [Foreign({"": ref}, "", table, key) for (ref, _), key in keys.items()]
    return labels | put_labels(call.session, found, "legend")


def _is_said(label: str, said: str, call: Call) -> bool:
    """Tell whether a text is a label: as it is, without keys, or as rows show it."""
    spelt = (
        label,
        clean(label),
        replace_keys(label, call.conversation, call.setting.tables.shown),
    )
    return said in spelt or clean(said) in spelt


def _split_expectations(
    given: Any, table: ToolTable, refs: Collection[str]
) -> tuple[Mapping[str, Any], Any]:
    """Return what `expect` says by ref, and what else it says."""
    if not isinstance(given, Mapping):
        return {}, given
    by_ref = {name: said for name, said in given.items() if name in refs}
    for name in given.keys() - by_ref.keys() - table.columns.keys():
        if parse_ref(name) is not None:
            raise invalid_value(f"expect.{name}", "about a ref that filters name")
    return by_ref, {name: each for name, each in given.items() if name not in by_ref} or None


class _ExpectationReader:
    """Takes out of arguments what they say of rows.

    Args:
        tables: that a model may use.
        beliefs: is added to.
    """

    def __init__(self, tables: ToolTables, beliefs: list[Belief]) -> None:
        self._tables = tables
        self._beliefs = beliefs

    def plain(self, arguments: Arguments) -> Arguments:
        """Return arguments as they are without labels."""
        table = self._tables.named(arguments.table)
        match arguments:
            case DbCreate():
                also = [self._new_rows(each) for each in arguments.also]
                return self._new_rows(arguments).model_copy(update={"also": also})
            case DbUpdate() | DbDelete():
                return self._written(table, arguments)
            case DbEditList():
                return self._edited(table, arguments)
        return arguments

    def _new_rows(self, given: _Rows) -> _Rows:
        table = self._tables.named(given.table)
        self._say(table, given.drafts, given.expect)
        return given.model_copy(update={"data": self._rows(table, given.data)})

    def _written(self, table: ToolTable, given: DbUpdate | DbDelete) -> DbUpdate | DbDelete:
        plain = {"expect": self._chosen(table, given)}
        if isinstance(given, DbUpdate):
            plain["data"] = self._rows(table, given.data)
        return given.model_copy(update=plain)

    def _chosen(self, table: ToolTable, given: DbUpdate | DbDelete) -> Any:
        """Note what is said of the rows that filters name; return what is said by column."""
        chosen = chosen_refs(given.filters, table)
        others = {
            ref: entity for ref, entity in refs_of(given.filters, table) if ref not in chosen
        }
        by_ref, expect = _split_expectations(given.expect, table, {*chosen, *others})
        if by_ref or others:
            for ref, entity in {**dict.fromkeys(chosen, table.entity), **others}.items():
                if (target := self._tables.of_entity(entity)) is not None:
                    self._say(target, [ref], by_ref.get(ref), f"expect.{ref}")
        elif not isinstance(expect, Mapping):
            self._say(table, chosen, expect)
        return expect

    def _edited(self, table: ToolTable, given: DbEditList) -> DbEditList:
        # a token was shown with the list, and is of no other row's
        if given.edits and not given.preview and given.token is None:
            self._say(table, [given.row], given.expect)
        listed, edits = list_named(table, given.name), []
        for edit in given.edits:
            target, data = table_of(edit, listed), edit.data
            if target is not None:
                data = self._rows(target, data)
                if edit.ref is not None and edit.expect is None:
                    self._say(target, [edit.ref], None)
            edits.append(edit.model_copy(update={"data": data}))
        return given.model_copy(update={"edits": edits})

    def _say(
        self, table: ToolTable, refs: Sequence[Any], given: Any, field: str = "expect"
    ) -> None:
        """Note what is said of rows: nothing, the same of all, or something of each."""
        said = given if isinstance(given, list) else [given] * len(refs)
        are_words = all(each is None or isinstance(each, str | dict) for each in said)
        if len(said) != len(refs) or not are_words:
            raise invalid_value(field, f"labels as rows show them, of {len(refs)} refs")
        for ref, each in zip(refs, said, strict=True):
            if isinstance(ref, str) and ref:  # what else it is, is refused as a value
                self._beliefs.append(Belief(ref, table, field, each))

    def _rows(self, table: ToolTable, given: Any) -> Any:
        """Return values by column, of a row or of several, without the labels of refs."""
        if isinstance(given, list):
            return [self._rows(table, each) for each in given]
        if not isinstance(given, dict):
            return given
        row = dict(given)
        for name, value in given.items():
            if name in table.targets:
                self._take(table, table.targets[name], name, row)
                row[name] = self._rows(table.targets[name], value)
            elif name in table.columns and (entity := table.columns[name].entity) is not None:
                self._take(table, self._tables.of_entity(entity), name, row)
        return row

    def _take(
        self, table: ToolTable, target: ToolTable | None, name: str, row: dict[str, Any]
    ) -> None:
        """Take out of a row what it says of those that one of its fields names by refs."""
        is_list = isinstance(row[name], list)
        field = f"_{name}_label{'s' * is_list}"
        if target is not None and field not in table.columns:
            refs = row[name] if is_list else [row[name]]
            self._say(target, refs, row.pop(field, None), field)
