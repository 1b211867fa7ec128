"""What a call may have written, told from the classes, what is listed of them, and the schema.

All rows before a call and after it come in, with the answer; what must not have become of them
goes out. Nothing is asked of the package but what refs name.

A row is of the nearest class that is listed: an admin is an account to a model, though it can make
none. Rows of tables that are not listed go, or lose their reference, as the mapping and the schema
say of rows that refer to some that are deleted: those are not counted, and never named; of links
that go with a plan, the label is told. Links may be made and deleted, also alone, and are told by
the refs of both rows. What may only be read never changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Any

from sqlalchemy import Table
from sqlalchemy.orm import MANYTOONE

from tests.tools.fuzz.forbidden import LISTED, READ_ONLY, Base, labels_of_plans

Values = Mapping[str, Any]
"""What a row has, by column."""

Place = tuple[str, str]
"""A table, and the key of one of its rows."""

Rows = Mapping[Place, Values]
"""All rows."""

_MAPPERS = [*Base.registry.mappers]

# table and discriminator -> class
_CLASSES = {
    (each.class_.__tablename__, each.polymorphic_identity): each.class_ for each in _MAPPERS
}

_USABLE = {each.__tablename__ for each in LISTED.values()}

# table -> columns that no model sees
_UNSEEN: Mapping[str, Sequence[str]] = {
    "f_plans": ("budget",),
    "f_accounts": ("level", "kind"),
    "f_tickets": ("plan_id",),
    "f_steps": ("trace_id",),
}

# what of them is null in a new row
_UNSET = ("budget", "level", "trace_id")

# tool -> what it may do to rows
_DOES: Mapping[str, Sequence[str]] = {
    "db_create": ("inserted", "changed"),
    "db_update": ("changed",),
    "db_delete": ("changed", "deleted"),
    "db_edit_list": ("inserted", "changed", "deleted"),
}

# list -> the table of its rows, and the column that says whose they are
_LISTS: Mapping[str, tuple[str, str]] = {
    each.key: (str(each.mapper.local_table), each.local_remote_pairs[0][1].name)
    for mapper in _MAPPERS
    for each in mapper.relationships
    if each.order_by
}


def wrongs(
    tool: str, answer: Any, before: Rows, after: Rows, *, named: Mapping[str, Place], most: int
) -> Iterator[str]:
    """Yield what must not have become of rows by a call.

    Args:
        tool: that was called.
        answer: what the model was told.
        before: all rows before it.
        after: and after it.
        named: what refs name.
        most: how many rows a call may change.
    """
    changed = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    if changed and (tool == "db_read" or "error" in answer):
        yield f"rows changed by a read or an error: {_of(changed)}"
    along = _gone_along(before, after)
    ours, parted = changed - along, _parted(along, before, after)
    links = _told_links(answer, named)
    permitted = {
        place
        for place in ours
        if place in links or _is_permitted(place[0], before.get(place), after.get(place))
    }
    for place in sorted(ours - permitted):
        did = _did(place, before, after)
        yield f"a row was {did} that may only be read, or not even that: {place[0]}"
    placed = _LISTS[answer["list"].split(".")[-1]] if "list" in answer else None
    for place in sorted(permitted):
        for column in _written_unseen(place[0], before.get(place), after.get(place)):
            if (place[0], column) != placed:
                yield f"a hidden column was written: {place[0]}.{column}"
    # what only makes room for others is not what a model has asked to be written
    counted = {p for p in ours if placed is None or not _is_moved(before.get(p), after.get(p))}
    if len(counted | parted) > most:
        yield f"more rows than may be written: {_of(counted | parted)}"
    done = {place: _did(place, before, after) for place in permitted}
    if "preview" in answer and changed:
        yield f"rows changed by a preview: {_of(changed)}"
    had = {*_listed(answer, before, named)}
    yield from _untold(tool, answer, done | dict.fromkeys(parted, "changed"), named, had)


def _is_moved(row: Values | None, now: Values | None) -> bool:
    """Tell whether nothing of a row is another but its position."""
    return bool(row and now and {**row, "position": None} == {**now, "position": None})


def _listed(answer: Any, before: Rows, named: Mapping[str, Place]) -> Iterator[Place]:
    """Yield the rows that a list had that was edited, and the lists inside of it."""
    owners = {named[answer["row"]][1]} if answer.get("row") in named else set()
    for name in answer["list"].split(".") if owners else ():
        table, column = _LISTS[name]
        rows = {p for p, row in before.items() if p[0] == table and row[column] in owners}
        yield from rows
        owners = {key for _, key in rows}


def _untold(
    tool: str,
    answer: Any,
    done: Mapping[Place, str],
    named: Mapping[str, Place],
    had: AbstractSet[Place] = frozenset(),
) -> Iterator[str]:
    """Yield where an answer does not tell what was done to rows, or tells what was not.

    What a list `had` may have been done anything to that is not said: that is what was asked.
    """
    # which row has the list is no word on that row
    told = _told({n: each for n, each in answer.items() if n != "row"}, named)
    links = _told_links(answer, named)
    if unusable := {place for place in told if place[0] not in _USABLE}:
        yield f"rows are named that no model may use: {_of(unusable)}"
    if tool == "db_read" or "error" in answer:
        return
    if others := {place for place in done if done[place] not in _DOES[tool]}:
        yield f"a write did more than that: {_of(others)}"
    if tool != "db_create" and (untold := done.keys() - told - links - had):
        yield f"rows were written of which nothing is told: {_of(untold)}"
    if tool in ("db_delete", "db_edit_list"):
        gone = links or _told([answer.get("deleted"), answer.get("deleted_with")], named)
        unlinked = _told(answer.get("unlinked"), named)
        said = dict.fromkeys(gone, "deleted") | dict.fromkeys(unlinked, "changed")
        if others := {place for place in said if said[place] != done.get(place)}:
            yield f"a delete tells what was not done: {_of(others)}"


def _gone_along(before: Rows, after: Rows) -> set[Place]:
    """Return the rows of tables that are not listed that are as they must be, and no other."""
    left = _left(before, after)
    plans = {key for table, key in after.keys() - before.keys() if table == "f_plans"}
    links = {
        place
        for place, row in after.items()
        if place[0] == labels_of_plans.name and place not in before and row["plan_id"] in plans
    }
    return links | {place for place, row in left.items() if row == after.get(place)}


def _parted(along: set[Place], before: Rows, after: Rows) -> set[Place]:
    """Return the labels of plans that are gone: they are told and counted, though not written."""
    gone = (before[place] for place in along - after.keys() if place[0] == labels_of_plans.name)
    return {("f_labels", row["label_id"]) for row in gone}


def _left(before: Rows, after: Rows) -> Mapping[Place, Values | None]:
    """Return what becomes of rows of tables that are not listed, by what is gone of the others."""
    left: dict[Place, Values | None] = {}
    gone = [place for place in before.keys() - after.keys() if place[0] in _USABLE]
    while gone:
        table, key = gone.pop()
        for place, row in before.items():
            for column, referred, rule in _RULES.get(place[0], ()):
                if referred != table or row[column] != key or left.get(place, row) is None:
                    continue
                if rule == "CASCADE":
                    gone.append(place)
                    left[place] = None
                elif rule == "SET NULL":
                    left[place] = {**(left.get(place) or row), column: None}
    return left


def _rules(table: Table) -> Iterator[tuple[str, str, str | None]]:
    """Yield the columns of a table that refer to rows, to which, and what comes of their going."""
    for key in table.foreign_keys:
        is_deleted = any(
            key.parent in {theirs for _, theirs in each.synchronize_pairs}
            for mapper in _MAPPERS
            for each in mapper.relationships
            if each.direction is not MANYTOONE
            and (each.secondary is not None or each.cascade.delete)
        )
        rule = "CASCADE" if is_deleted else key.ondelete
        yield key.parent.name, key.column.table.name, rule


# table that is not listed -> its rules
_RULES = {
    each.name: [*_rules(each)]
    for each in Base.metadata.tables.values()
    if each.name not in _USABLE
}


def _did(place: Place, before: Rows, after: Rows) -> str:
    return "inserted" if place not in before else "changed" if place in after else "deleted"


def _is_permitted(table: str, row: Values | None, now: Values | None) -> bool:
    """Tell whether a model may write a row that was so, and is so now."""
    models = [_CLASSES.get((table, each.get("kind"))) for each in (row, now) if each is not None]
    if row is None and models[0] not in LISTED.values():
        return False
    known = [_known_as(model) for model in models]
    return None not in known and not any(each in READ_ONLY for each in known)


def _known_as(model: type[Any] | None) -> type[Any] | None:
    """Return the nearest class that is listed."""
    ways = () if model is None else model.__mro__
    return next((each for each in ways if each in LISTED.values()), None)


def _written_unseen(table: str, row: Values | None, now: Values | None) -> Iterator[str]:
    """Yield the hidden columns of a row that were written; a new one may be of another row."""
    for column in _UNSEEN.get(table, ()):
        if now is None or (row is None and column not in _UNSET):
            continue
        if now[column] != (None if row is None else row[column]):
            yield column


def _told(value: Any, named: Mapping[str, Place]) -> set[Place]:
    """Return the rows whose refs stand anywhere in a JSON value, alone or in a text."""
    words = json.dumps(value).replace('"', " ").replace("'", " ").split()
    refs = (word.strip(".,:;()[]{}") for word in words)
    return {named[ref] for ref in refs if ref in named}


def _told_links(answer: Any, named: Mapping[str, Place]) -> set[Place]:
    """Return the rows of the table between plans and labels that an answer tells of."""
    if answer.get("table") != labels_of_plans.name:
        return set()
    told = [*answer.get("rows", ()), *answer.get("deleted", ())]
    keys = (named[each["plan_id"]][1] + named[each["label_id"]][1] for each in told)
    return {(labels_of_plans.name, key) for key in keys}


def _of(places: set[Place]) -> str:
    """Return of which tables rows are, each once."""
    return ", ".join(sorted({table for table, _ in places}))
