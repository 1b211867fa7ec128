"""Calls one after the other on one session, refused ones among them: what is told is there then.

An application may have begun a transaction, may have read in it, or set a savepoint; a call leaves
all of that as it was. When the session is closed, or its transaction committed, another connection
sees the rows that the answers told, and no other row has changed.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import select

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Toolset
from alfred_refs.tools.tables import ROW_REF, ToolTable, list_by_name
from tests.tools.fuzz import lists
from tests.tools.fuzz.calls import Arguments, Caller
from tests.tools.fuzz.found import Found, brief
from tests.tools.fuzz.judge import CASCADES, Judge
from tests.tools.fuzz.late import Late
from tests.tools.fuzz.mutations import Mutator
from tests.tools.fuzz.world import MODELS, Place, Rows, World, spelt
from tests.tools.models import Cuisine

Way = Literal["nothing", "begun", "queried", "nested"]
"""What the application has done with the session before the calls."""

_WAYS: tuple[Way, ...] = ("nothing", "nothing", "begun", "queried", "nested")

# table of a subclass -> the one that has a part of each of its rows
_BASES: Mapping[str, str] = {"cooks": "people"}


@dataclass(slots=True)
class Told:
    """What answers have told, the last word on each row.

    Attributes:
        rows: what a row has, by table and ref.
        deleted: the rows that are gone.
        saved: drafts that are rows now, with the refs of these.
        loose: tables whose rows come and go with others, of which they may not tell.
        lists: what lists were answered to be, where nothing else was written since.
        edited: the rows that have lists which were edited.
        past: rows of which something else was told before a list was edited.
    """

    rows: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    deleted: set[tuple[str, str]] = field(default_factory=set)
    saved: dict[str, str] = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)
    lists: dict[tuple[str, str, str], Mapping[str, Any]] = field(default_factory=dict)
    edited: set[tuple[str, str]] = field(default_factory=set)
    past: set[tuple[str, str]] = field(default_factory=set)

    def take(self, tool: str, answer: Mapping[str, Any], tables: Mapping[str, ToolTable]) -> None:
        """Take in what an answer tells."""
        if "error" in answer or tool == "db_read" or answer.get("preview"):
            return
        self.lists.clear()
        if tool == "db_edit_list":
            self._take_list(answer, tables)
            return
        if "saved" in answer:
            self.saved.update(answer["saved"])
            self.loose.add("parts")
        for each in (answer, *answer.get("also", ())):
            table = tables[each["table"]]
            for row in each.get("rows", ()):
                self._take_row(table, row)
            for ref in each.get("deleted", ()):
                self.rows.pop((table.name, ref), None)
                self.deleted.add((table.name, ref))
                self.loose |= CASCADES.get(table.name, frozenset())
            for ref in each.get("deleted_with", ()):
                [name] = (n for n, other in tables.items() if ref.startswith(f"{other.entity}_"))
                self.rows.pop((name, ref), None)
                self.deleted.add((name, ref))

    def _take_list(self, answer: Mapping[str, Any], tables: Mapping[str, ToolTable]) -> None:
        """Take in a list: what was told before of its rows, or of its column, is the past."""
        table = tables[answer["table"]]
        self.lists[table.name, answer["row"], answer["list"]] = answer
        self.edited.add((table.name, answer["row"]))
        listed = list_by_name(table, answer["list"]).rows_at(0)
        changed = {
            (name, ref)
            for name, ref in self.rows
            if (name, ref) == (table.name, answer["row"]) or (listed and name == listed.name)
        }
        self.past |= changed
        for each in changed:
            del self.rows[each]

    def _take_row(self, table: ToolTable, row: dict[str, Any]) -> None:
        ref = row[table.own or ROW_REF]
        if ref.startswith("gen_"):
            return
        # a row of a subclass may have been told of by that before
        for (name, other), told in self.rows.items():
            if other == ref and name != table.name:
                self.rows[name, other] = told | {n: row[n] for n in told.keys() & row.keys()}
        self.rows[table.name, ref] = row


class SequenceRound:
    """Sequences of calls on one filling of the tables.

    Args:
        world: the tables.
        registry: what refs are kept in.
        name: of the round; all choices follow from it.
        found: what calls came to; grows.
        toolset: that is called, if not one of no options.
    """

    def __init__(
        self,
        world: World,
        registry: RefRegistry,
        name: str,
        found: Found,
        toolset: Toolset | None = None,
    ) -> None:
        self._name = f"sequences {name}"
        self._chance = random.Random(self._name)  # noqa: S311  # choices, not secrets
        self._world = world
        self._found = found
        world.fill(self._name)
        self._conversation = registry.conversation(f"{self._name} {uuid.uuid4()}")
        self._toolset = toolset or Toolset(MODELS, expect="optional")
        self._tables = {table.name: table for table in self._toolset.tables}
        self._caller = Caller(self._chance, [*self._toolset.tables], self._living)
        self._mutator = Mutator(self._chance, lambda: ["dish_1", "cuisine_1", "gen_dish_1"])
        self._judge = Judge(self._conversation, world.keys)
        self._late = Late(self._chance, self._conversation, world.engine, self._living)
        self._refs: dict[str, list[str]] = {}
        self._number = 0
        with self._session() as session:
            for table in self._toolset.tables:
                by = [c.name for c in table.columns.values() if c.values.ordered]
                self._toolset.call(session, "db_read", {"table": table.name, "order_by": by})

    def run(self, calls: int) -> None:
        """Make about so many calls."""
        while self._number < calls:
            self._sequence()

    def _session(self) -> RefSession:
        return RefSession(self._world.engine, conversation=self._conversation)

    def _sequence(self) -> None:
        """Make one sequence, and look what is there then."""
        self._look()
        before, told = self._world.rows(), Told()
        instances = self._world.instances()
        self._late.saved = self._saved()
        way, keep = self._chance.choice(_WAYS), self._chance.random() < 0.7
        made: list[str] = []
        session = self._session()
        try:
            inner = _prepared(session, way)
            for _ in range(self._chance.randrange(5, 21)):
                told = self._made(session, told, made)
            if way != "nothing":
                _ended(session, inner, keep=keep)
            session.close()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a find
            session.rollback()
            session.close()
            self._tell(f"raised {type(error).__name__}: {str(error)[:300]}", way, made)
            return
        told = told if keep or way == "nothing" else Told()
        for wrong in (*self._wrongs(before, told, instances), *self._lists(told)):
            self._tell(wrong, f"{way}, {'kept' if keep else 'undone'}", made)

    def _tell(self, wrong: str, way: str, made: list[str]) -> None:
        self._found.tell(f"{self._name} #{self._number}", wrong, f"after {way}:", made)

    def _made(self, session: RefSession, told: Told, made: list[str]) -> Told:
        """Make a call, and return what is told since the beginning.

        Where there is no transaction, the application makes one for some calls, and undoes it.
        """
        undo = self._chance.random() < 0.1 and not session.in_transaction()
        tool, arguments = self._next()
        self._number += 1
        made.append(f"{tool} {brief(arguments, 300)}")
        if undo:
            session.begin()
        state = _state(session)
        answer = self._toolset.call(session, tool, arguments)
        made[-1] = f"{tool}: {answer.get('error', {}).get('code', 'answered')}"
        if _state(session) != state:
            call = f"{self._name} #{self._number}"
            self._found.tell(call, "the transaction is not as it was", tool, arguments)
        self._found.count("sequence", tool, answer)
        self._caller.see(tool, answer)
        if undo:
            session.rollback()
            return told
        told.take(tool, answer, self._tables)
        return told

    def _next(self) -> tuple[str, Arguments]:
        kind = self._chance.random()
        if kind < 0.4:
            return self._late.call()
        tool, arguments = self._caller.call()
        return tool, self._mutator.mutated(arguments) if kind < 0.6 else arguments

    # What is there then

    def _wrongs(self, before: Rows, told: Told, instances: Mapping[Place, Any]) -> Iterator[str]:
        after = self._world.rows()
        places = {_place(self._judge.place(ref, self._tables[name])) for name, ref in told.rows}
        gone = {_place(self._judge.place(ref, self._tables[name])) for name, ref in told.deleted}
        there = {*map(_place, after)}
        if places - there:
            yield "rows are not there that were told"
        if (gone - places) & there:
            yield "rows are there that were told to be deleted"
        changed = {each for each in before.keys() | after.keys() if _of(before, after, each)}
        others = {each for each in map(_place, changed) if each[0] not in told.loose}
        others -= places | gone | {*self._edited(told, instances)}
        if others:
            yield f"rows have changed that no answer told of: {sorted(others)[:3]}"
        yield from self._values(told, places & there)
        yield from self._drafts(told)

    def _values(self, told: Told, there: set[Place]) -> Iterator[str]:
        """Read the rows on a new connection, and compare what they have with what was told."""
        with self._session() as session:
            for (name, ref), row in told.rows.items():
                table = self._tables[name]
                if _place(self._judge.place(ref, table)) not in there:
                    continue
                by_ref = {"field": table.own or ROW_REF, "op": "=", "value": ref}
                asked = {"table": name, "filters": [by_ref]}
                rows = self._toolset.call(session, "db_read", asked).get("rows")
                if [*map(_values, rows or ())] != [_values(row)]:
                    yield f"a row has other values than it was told to have: {ref}"

    def _edited(self, told: Told, instances: Mapping[Place, Any]) -> Iterator[Place]:
        """Yield the rows that edits of lists may have changed."""
        for name, ref in told.past:
            yield _place(self._judge.place(ref, self._tables[name]))
        now = self._world.instances() if told.edited else {}
        for name, ref in told.edited:
            place = self._judge.place(ref, self._tables[name])
            yield place
            rows = [each[place] for each in (instances, now) if place in each]
            parts = [part for row in rows for part in getattr(row, "parts", ())]
            yield from (("parts", spelt(part._ref)) for part in parts)

    def _lists(self, told: Told) -> Iterator[str]:
        """Read the lists on a new connection, and compare them with what was told."""
        with self._session() as session:
            for (table, row, name), answer in told.lists.items():
                asked = {"table": table, "row": row, "list": name, "preview": True}
                seen = self._toolset.call(session, "db_edit_list", asked)
                if not lists.is_part(answer, seen):
                    yield f"a list is another than it was told to be: {row}.{name}"

    def _drafts(self, told: Told) -> Iterator[str]:
        saved = self._saved()
        gone = {ref for _, ref in told.deleted}
        # one whose row went in the same transaction never was a row
        if {draft for draft, ref in told.saved.items() if ref not in gone} - saved:
            yield "drafts are not saved that were told to be"
        if saved - self._late.saved - told.saved.keys():
            yield "drafts are saved of which no answer told"

    def _saved(self) -> set[str]:
        return {draft.ref for draft in self._conversation.drafts(states=["saved"])}

    # What there is to be named

    def _look(self) -> None:
        self._refs = {}
        for entry in self._conversation.entries(keys=True):
            if entry.gone is None:
                self._refs.setdefault(entry.entity, []).append(entry.ref)

    def _living(self, entity: str) -> list[str]:
        return self._refs.get(entity, [])


def _prepared(session: RefSession, way: Way) -> Any:
    """Do what the application has done before; return the savepoint, if there is one."""
    if way in ("begun", "nested"):
        session.begin()
    elif way == "queried":
        session.scalars(select(Cuisine.id)).all()
    return session.begin_nested() if way == "nested" else None


def _ended(session: RefSession, inner: Any, *, keep: bool) -> None:
    """End what the application has begun."""
    if inner is not None:
        inner.commit() if keep else inner.rollback()
    if keep or inner is not None:
        session.commit()
    else:
        session.rollback()


def _state(session: RefSession) -> tuple[bool, Any, Any]:
    transaction = session.get_transaction()
    return session.in_transaction(), transaction, session.get_nested_transaction()


def _place(place: Place) -> Place:
    return (_BASES.get(place[0], place[0]), place[1])


def _of(before: Rows, after: Rows, place: Place) -> bool:
    return before.get(place) != after.get(place)


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row has, without the labels of what it refers to."""
    return {name: value for name, value in row.items() if name == ROW_REF or name[0] != "_"}
