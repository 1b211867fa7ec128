"""What was shown is written back: nothing changes, whatever keys stand in texts and documents.

Rows and drafts have texts with keys in every spelling, of rows that have refs and of such that
have none, and texts that look like what the tools put in place of keys. Another process writes
than the one that has read.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.tools import Limits, Toolset
from alfred_refs.tools.tables import ROW_REF, ToolTable, list_by_name, lists_of
from tests.models import Box, RecipeNote
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.world import MODELS, World
from tests.tools.models import Dish, Part, Serving

_LIST = "db_edit_list"

LOOK_ALIKES: Sequence[str] = [
    *["<dish_1>", "<dish_2>", "<key_1>", "<key_99>", "<key>", "<dish_99>", "<gen_dish_1>"],
    *["\\<dish_1>", "\\\\<dish_1>", "<<dish_1>>", "&lt;dish_1&gt;", "<\\dish_1>", "<dish_1\\>"],
    *["< dish_1 >", "<DISH_1>", "<dish_01>", "<product_2>", "<dish_1", "dish_1>", "dish_1"],
    *["key_1", "<b>bold</b>", "a < b > c", "<", "\\", "<<", "<key_1>>", "<<key_1>"],
]
"""Texts like those that stand for keys."""


class EchoRound:
    """Reads and writes of what they have shown, on one filling of the tables.

    Args:
        world: the tables.
        name: of the round; all choices follow from it.
        found: what calls came to; grows.
        toolset: that is called, if not one of limits at random.
    """

    def __init__(
        self, world: World, name: str, found: Found, toolset: Toolset | None = None
    ) -> None:
        self._name = f"echoes {name}"
        self._chance = random.Random(self._name)  # noqa: S311  # choices, not secrets
        self._world = world
        self._found = found
        self._number = 0
        world.fill(self._name)
        address = f"{self._name} {uuid.uuid4()}"
        self._reading = _conversation(world.engine, address)
        self._writing = _conversation(world.engine, address)
        limits = self._chance.choice([Limits(), Limits(), Limits(text=40)])
        self._toolset = toolset or Toolset(MODELS, limits=limits, expect="optional")
        with Session(world.engine) as plain:
            self._keys = list(plain.scalars(select(Dish.id).order_by(Dish.code)))
            self._fill(plain)
            plain.commit()

    def run(self, calls: int) -> None:
        """Read, and write back, until about so many calls were made."""
        tables = [*self._toolset.tables]
        while self._number < calls:
            table = self._chance.choice(tables[:4] if self._chance.random() < 0.7 else tables)
            rows, cut = self._read(table)
            for row in rows:
                self._write_back(table, row, cut)
            if table.model is Dish and rows:
                self._move(table, rows, cut)
                self._draft(table)
            for row in rows if table.own is not None else ():
                self._list_back(table, row[table.own])

    def _call(self, conversation: Conversation, tool: str, arguments: Any) -> dict[str, Any]:
        """Make a call in a session of its own; what it raises is a find, and an error."""
        self._number += 1
        with RefSession(self._world.engine, conversation=conversation) as session:
            try:
                answer = self._toolset.call(session, tool, arguments)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is a find
                session.rollback()
                self._tell(f"raised {type(error).__name__}: {str(error)[:300]}", tool, arguments)
                answer = {"error": {"code": "raised"}}
        self._found.count("echo", tool, answer)
        return answer

    def _tell(self, wrong: str, tool: str, arguments: Any) -> None:
        self._found.tell(f"{self._name} #{self._number}", wrong, tool, arguments)

    def _read(self, table: ToolTable) -> tuple[list[dict[str, Any]], Sequence[str]]:
        answer = self._call(self._reading, "db_read", {"table": table.name})
        return answer.get("rows", []), answer.get("cut", ())

    # Rows

    def _write_back(self, table: ToolTable, row: Mapping[str, Any], cut: Sequence[str]) -> None:
        ref = row[table.own or ROW_REF]
        by_ref = {"field": table.own or ROW_REF, "op": "=", "value": ref}
        data = {c.name: row[c.name] for c in table.columns.values() if c.updatable and c.shown}
        if not data:
            return
        before = self._world.rows()
        arguments = {"table": table.name, "filters": [by_ref], "data": data}
        answer = self._call(self._writing, "db_update", arguments)
        after = self._world.rows()
        is_cut = any(each.startswith(f"{ref}.") for each in cut)
        if after != before:
            self._tell("what was shown and written back is another", "db_update", arguments)
        if is_cut is not ("error" in answer):
            wrong = "what was cut is taken" if is_cut else f"it is refused: {answer['error']}"
            self._tell(wrong, "db_update", arguments)

    def _move(
        self, table: ToolTable, rows: Sequence[Mapping[str, Any]], cut: Sequence[str]
    ) -> None:
        """Write what one row has into another: both have the same then."""
        one, other = self._chance.choice(rows), self._chance.choice(rows)
        column = self._chance.choice(["name", "extra", "tags"])
        if any(each.startswith(f"{one['id']}.{column}") for each in cut):
            return
        by_ref = {"field": "id", "op": "=", "value": other["id"]}
        arguments = {"table": "dishes", "filters": [by_ref], "data": {column: one[column]}}
        answer = self._call(self._writing, "db_update", arguments)
        with Session(self._world.engine) as plain:
            keys = self._reading.resolve_all([one["id"], other["id"]], table.entity)
            values = [getattr(plain.get_one(Dish, key), column) for key in keys]
        if "error" in answer:
            self._tell(f"what was shown is refused: {answer['error']}", "db_update", arguments)
        elif values[0] != values[1]:
            self._tell("what was moved is another", "db_update", arguments)

    # Lists

    def _list_back(self, table: ToolTable, ref: str) -> None:
        """Give each item of a list what it is shown to be, or take all out and put them in."""
        name = self._chance.choice([*lists_of(table), None])
        asked = {"table": table.name, "row": ref, "list": name}
        shown = (
            {} if name is None else self._call(self._reading, _LIST, {**asked, "preview": True})
        )
        items = shown.get("items")
        if not isinstance(items, dict) or not items:
            return
        target, before = list_by_name(table, str(name)).rows_at(0), self._world.rows()
        data = [_given(target, item) for item in items.values()]
        numbers = range(1, len(data) + 1)
        edits = [{"action": "modify", "path": [n]} for n in numbers]
        if target is None and self._chance.random() < 0.5:
            edits = [{"action": "remove", "path": [n]} for n in numbers]
            edits += [{"action": "add", "path": [n]} for n in numbers]
            data *= 2
        edits = [
            {**edit, "expect" if edit["action"] == "remove" else "data": given}
            for edit, given in zip(edits, data, strict=True)
        ]
        arguments = {**asked, "edits": edits, "token": shown["token"]}
        answer = self._call(self._writing, _LIST, arguments)
        if self._world.rows() != before:
            self._tell("a list that was written back is another", _LIST, arguments)
        if bool(shown.get("cut")) is not ("error" in answer):
            self._tell(f"a list's answer is {answer}", _LIST, arguments)

    def _stored(self, table: ToolTable, ref: str, name: str) -> Sequence[Any]:
        """Return what a list has in the database."""
        with Session(self._world.engine) as plain:
            row = plain.get_one(table.model, self._reading.resolve(ref))
            return list(getattr(row, name) or ())

    # Drafts

    def _draft(self, table: ToolTable) -> None:
        """Write back what a draft was shown to have, and save it."""
        content = {"name": self._text(), "extra": self._document(), "tags": [self._text()]}
        if len(content["name"]) > 1_000:  # cut
            content["name"] = "short"
        ref = self._reading.draft(Dish, content).ref
        held = self._held(ref)
        if self._chance.random() < 0.3:
            self._save(ref, content)
            return
        by_ref = {"field": "id", "op": "=", "value": ref}
        asked = {"table": "dishes", "filters": [by_ref]}
        answer = self._call(self._reading, "db_read", asked)
        for row in answer.get("rows", []):
            data = {c.name: row[c.name] for c in table.columns.values() if c.creatable}
            data = {name: value for name, value in data.items() if value is not None}
            arguments = {**asked, "data": data}
            written = self._call(self._writing, "db_update", arguments)
            if self._held(ref) != held:
                self._tell("a draft that was written back is another", "db_update", arguments)
            if bool(answer.get("cut")) is not ("error" in written):
                self._tell(f"a draft's answer is {written}", "db_update", arguments)

    def _held(self, ref: str) -> dict[str, Any]:
        [draft] = self._reading.read_drafts([ref])
        return {name: value for name, value in draft.content.items() if value is not None}

    def _save(self, ref: str, content: Mapping[str, Any]) -> None:
        """Save a draft, and look whether its row has what the application gave."""
        arguments = {"table": "dishes", "from_draft": ref}
        answer = self._call(self._writing, "db_create", arguments)
        if "error" in answer:
            self._tell(f"a draft is refused: {answer['error']}", "db_create", arguments)
            return
        with Session(self._world.engine) as plain:
            row = plain.get_one(Dish, self._reading.resolve(answer["saved"][ref]))
            has = {name: getattr(row, name) for name in content}
        if has != content:
            self._tell(f"a draft of {content} is saved as {has}", "db_create", arguments)

    # What there is

    def _fill(self, plain: Session) -> None:
        for dish in plain.scalars(select(Dish).order_by(Dish.code)):
            dish.name = self._text()
            dish.extra = self._document()
            dish.tags = [self._text() for _ in range(self._chance.randrange(3))]
            dish.seen_at = dt.datetime(2026, 1, 1, microsecond=1, tzinfo=dt.UTC)
        if self._chance.random() < 0.3:
            dish.name = f"{self._text()} {'long ' * 5_000}"
        for part in plain.scalars(select(Part)):
            part.note = self._text()
        for n, serving in enumerate(plain.scalars(select(Serving).order_by(Serving.place))):
            serving.note = f"{n} {self._text()}"
        for box in plain.scalars(select(Box)):
            box.label = self._text()
        for note in plain.scalars(select(RecipeNote)):
            note.note = self._text()

    def _key(self) -> str:
        """Return a key in any spelling: of a dish, or of nothing that has a ref."""
        unknown = uuid.UUID(int=self._chance.getrandbits(128))
        key = self._chance.choice([*self._keys[:3], unknown])
        ways: list[str] = [
            str(key),
            str(key),
            str(key).upper(),
            key.hex,
            key.hex.upper(),
            f"{{{key}}}",
        ]
        ways += [f"urn:uuid:{key}", f"UUID('{key}')", f"https://x.y/dishes/{key}/edit?of={key}"]
        ways += [f"{key.hex[:4]}-{key.hex[4:20]}-{key.hex[20:]}", f"<{key}>", f"\\{key}"]
        return self._chance.choice(ways)

    def _text(self) -> str:
        parts = [self._chance.choice(["see", "é", "", "  ", "\n", "a,b"])]
        for _ in range(self._chance.randrange(4)):
            is_key = self._chance.random() < 0.5
            parts.append(self._key() if is_key else self._chance.choice(LOOK_ALIKES))
        self._chance.shuffle(parts)
        return self._chance.choice([" ", "", "/"]).join(parts)

    def _document(self, depth: int = 0) -> Any:
        kind = self._chance.randrange(6 if depth < 3 else 3)
        if kind < 2:
            return self._text()
        if kind == 2:
            return self._chance.choice([1, 2.5, True, None if depth else {}, 7_700_001])
        if kind == 3:
            return [self._document(depth + 1) for _ in range(self._chance.randrange(4))]
        return dict(self._entries(depth))

    def _entries(self, depth: int) -> Iterator[tuple[str, Any]]:
        for _ in range(self._chance.randrange(4)):
            yield self._chance.choice([self._text(), "order", "url"]), self._document(depth + 1)


def _given(target: ToolTable | None, item: Any) -> Any:
    """Return what of an item may be given."""
    if target is None:
        return item
    return {n: item[n] for n in item if n in target.columns and target.columns[n].updatable}


def _conversation(engine: Engine, address: str) -> Conversation:
    """Return a conversation as a process of its own has it."""
    return RefRegistry(engine).conversation(address)
