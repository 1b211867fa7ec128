"""Rounds of calls: each on tables filled anew, in a conversation and a setting of its own."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import event, select

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Hooks, Limits, Reading, ToolError, Toolset
from alfred_refs.tools.arguments import Repair, arguments_type
from alfred_refs.tools.tables import ToolTable
from tests.tools.fuzz import lists
from tests.tools.fuzz.calls import Caller
from tests.tools.fuzz.drafts import Drafts, Held, is_touched, meant, told_drafts, wrongs
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.judge import WITHOUT_FILTERS, Done, Judge, UnsureError
from tests.tools.fuzz.mutations import Mutator
from tests.tools.fuzz.world import MODELS, Place, World
from tests.tools.models import Cuisine, Dish

ROUND = 150
"""Calls on one filling of the tables."""


class OneLess(Hooks):
    """A hook that leaves out one dish."""

    def before_read(self, read: Reading) -> None:
        """Read all but one dish."""
        read.conditions.append(Dish.code != "c1")
        read.notes.append("all but one")


class Transactions:
    """Counts what is sent of transactions through an engine, and keeps the statements."""

    def __init__(self, engine: Any) -> None:
        self.seen: Counter[str] = Counter()
        self.statements: list[str] = []
        event.listen(engine, "before_cursor_execute", self._note_statement)
        for name in ("begin", "commit", "rollback", "savepoint", "rollback_savepoint"):
            event.listen(engine, name, self._noting(name))

    def _note_statement(self, *arguments: Any) -> None:
        self.statements.append(str(arguments[2]))

    def _noting(self, name: str) -> Any:
        def note(*_: Any) -> None:
            self.seen[name] += 1

        return note


class Campaign:
    """A number of rounds.

    Args:
        world: the tables.
        registry: what refs are kept in.
        seed: of all choices.
        found: what calls came to; grows.
    """

    def __init__(
        self, world: World, registry: RefRegistry, seed: int, found: Found | None = None
    ) -> None:
        self.found = Found() if found is None else found
        self._world = world
        self._registry = registry
        self._seed = seed
        self._engine = world.engine.execution_options()  # whose events are ours alone
        self._transactions = Transactions(self._engine)

    def run(self, calls: int, only: int | None = None) -> Found:
        """Make a number of calls, or those of one round."""
        rounds = range(-(-calls // ROUND)) if only is None else [only]
        for number in rounds:
            Round(self, number).run(min(ROUND, calls - number * ROUND) if only is None else calls)
        return self.found


class Round:
    """Calls on one filling of the tables, in one setting."""

    def __init__(self, campaign: Campaign, number: int) -> None:
        self._name = f"{campaign._seed}-{number}"
        self._chance = random.Random(self._name)  # noqa: S311  # choices, not secrets
        self._found = campaign.found
        self._transactions = campaign._transactions
        self._world = campaign._world
        self._engine = campaign._engine
        self._world.fill(self._name)
        self._conversation = campaign._registry.conversation(f"{self._name} {uuid.uuid4()}")
        self._has_hook = self._chance.random() < 0.3
        self._toolset = Toolset(
            MODELS,
            labels=self._chance.choice(["inline", "legend", "none"]),
            hooks={Dish: [OneLess()]} if self._has_hook else {},
            limits=self._chance.choice([Limits(), Limits(rows=3, characters=300, text=40)]),
            hidden=self._chance.choice([[], [Dish.photo, Dish.price]]),
            max_written=self._chance.choice([100, 3]),
            expect="optional",
        )
        self._options: dict[str, Any] = {
            "autoflush": self._chance.random() < 0.8,
            "expire_on_commit": self._chance.random() < 0.5,
        }
        self._drafts = Drafts(self._conversation, self._chance)
        tables = list(self._toolset.tables)
        self._caller = Caller(self._chance, tables, self._living, self._drafts.refs)
        self._mutator = Mutator(self._chance, self._bad)
        self._judge = Judge(self._conversation, self._world.keys, self._is_hidden)
        self._rows = self._world.rows()
        self._instances = self._world.instances()
        self._gone: list[str] = []
        self._refs: dict[str, list[str]] = {}
        self._cursors: list[tuple[Any, str]] = []
        self._held: Held = {}

    def run(self, calls: int) -> None:
        """Make the calls."""
        session = self._session()
        for table in self._toolset.tables:
            by = [c.name for c in table.columns.values() if c.values.ordered]
            self._toolset.call(session, "db_read", {"table": table.name, "order_by": by})
        for number in range(calls):
            if number % 10 == 0:
                self._look()
            if number % 30 == 0:
                self._drafts.make(self._keys_of_dishes())
                self._held = self._drafts.held()
            if self._chance.random() < 0.05:
                session.close()
                session = self._session()
            tool, arguments = self._next()
            for wrong in self._made(session, tool, arguments):
                self._found.tell(f"calls {self._name} #{number}", wrong, tool, arguments)
        session.close()

    def _session(self) -> RefSession:
        return RefSession(self._engine, conversation=self._conversation, **self._options)

    def _next(self) -> tuple[str, Any]:
        if self._cursors and self._chance.random() < 0.1:
            asked, cursor = self._chance.choice(self._cursors)
            if self._chance.random() < 0.3:
                place = self._chance.randrange(len(cursor))
                cursor = cursor[:place] + self._chance.choice(["", "A", "é"]) + cursor[place + 1 :]
            return "db_read", {**asked, "cursor": cursor}
        tool, arguments = self._caller.call()
        if self._chance.random() < 0.6:
            arguments = self._mutator.mutated(arguments)
        return tool, arguments

    def _made(self, session: RefSession, tool: str, arguments: Any) -> Iterator[str]:
        """Make a call, and yield what is wrong with what came of it."""
        inside = self._chance.random() < 0.2
        keep = self._chance.random() < 0.5
        before = Counter(self._transactions.seen)
        self._transactions.statements.clear()
        sent: list[str] = []
        try:
            if inside:
                session.begin()
            answer = self._toolset.call(session, tool, arguments)
            sent = [*self._transactions.statements]
            yield from self._usable(session, inside=inside)
            if inside:
                session.commit() if keep else session.rollback()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a find
            session.rollback()
            session.close()
            yield f"raised {type(error).__name__}: {str(error)[:300]}"
            answer = {"error": {"code": "raised"}}
        # what is done to them is done, whatever the caller undoes
        yield from self._judged_drafts(tool, arguments, answer, sent)
        if inside and not keep and "error" not in answer:
            answer = {"error": {"code": "undone by the caller"}}
        yield from self._one_transaction(answer, before, inside=inside)
        yield from self._judged(tool, arguments, answer)

    def _usable(self, session: RefSession, *, inside: bool) -> Iterator[str]:
        if session.in_transaction() != inside:
            yield "a transaction is left open, or ended"
        if inside and not session.scalars(select(Cuisine.id)).all():
            yield "the session cannot be used"

    def _one_transaction(
        self, answer: Any, before: Counter[str], *, inside: bool
    ) -> Iterator[str]:
        if inside:
            return
        seen = Counter(self._transactions.seen) - before
        # a call that is refused may read afterwards which names the error may show
        times = max(seen["rollback"], 1) if "error" in answer else 1
        ended = {"begin": times, "rollback" if "error" in answer else "commit": times}
        if seen not in (Counter(ended), Counter()):
            yield f"transactions: {dict(seen)}"

    def _judged_drafts(
        self, tool: str, arguments: Any, answer: Any, sent: Sequence[str]
    ) -> Iterator[str]:
        held = self._held if self._world.is_same() else self._drafts.held()
        try:
            arguments = Repair().arguments(arguments, arguments_type(tool))
        except ToolError:
            arguments = {}
        name = arguments.get("table") if isinstance(arguments, dict) else None
        table = next((each for each in self._toolset.tables if each.name == name), None)
        yield from wrongs(tool, answer, self._held, held)
        if "error" not in answer and table is not None and tool not in WITHOUT_FILTERS:
            self._found.done[f"{tool}: drafts"] += bool(told_drafts(answer))
            if tool != "db_read" and is_touched(table, answer, held, sent):
                yield "a write of drafts has touched their table"
            yield from self._meant_drafts(arguments, answer, table)
        self._held = held

    def _meant_drafts(self, arguments: Any, answer: Any, table: ToolTable) -> Iterator[str]:
        try:
            drafts, told = meant(self._judge, table, arguments, self._held), told_drafts(answer)
        except UnsureError:
            self._found.done["(drafts not judged)"] += 1
            return
        if told - drafts:
            yield "drafts were hit that the filters do not mean"
        is_part = answer.get("more") or arguments.get("cursor")
        if drafts - told and not is_part:
            yield "drafts were left out that the filters mean"

    def _judged(self, tool: str, arguments: Any, answer: Any) -> Iterator[str]:
        after = self._rows if self._world.is_same() else self._world.rows()
        try:
            given = Repair().arguments(arguments, arguments_type(tool))
        except ToolError:
            given = {}
        name = given.get("table") if isinstance(given, dict) else None
        table = next((each for each in self._toolset.tables if each.name == name), None)
        cut = isinstance(given, dict) and given.get("cursor") is not None
        done = Done(tool, given, table, answer, self._rows, after, self._instances, cut)
        self._count(done)
        yield from self._judge.wrongs(done)
        try:
            yield from self._judge.meant(done)
        except UnsureError:
            self._found.done["(filters not judged)"] += 1
        now = self._instances if after == self._rows else self._world.instances()
        if tool == "db_edit_list" and "error" not in answer:
            yield from self._judged_list(done, now)
        self._rows, self._instances = after, now

    def _judged_list(self, done: Done, now: Mapping[Place, Any]) -> Iterator[str]:
        """Hold an edit to what it comes to, and its answer to what another session sees."""
        self._caller.see(done.tool, done.answer)
        try:
            yield from lists.wrongs(done, self._judge, now)
        except UnsureError:
            self._found.done["(edits not judged)"] += 1
        if not done.answer.get("preview"):
            asked = {name: done.answer[name] for name in ("table", "row", "list")}
            with self._session() as session:
                seen = self._toolset.call(session, done.tool, {**asked, "preview": True})
            if not lists.is_part(done.answer, seen):
                yield f"another session sees another list: {seen}"

    def _count(self, done: Done) -> None:
        self._found.count("", done.tool, done.answer)
        if "cursor" in done.answer:
            self._cursors = [*self._cursors[-20:], (done.arguments, done.answer["cursor"])]

    def _is_hidden(self, row: Any) -> bool:
        """Tell whether the hook leaves a row out; it is not asked of drafts."""
        is_dish = hasattr(row, "_ref") and hasattr(row, "servings")
        # in SQL, no code is not unlike "c1"
        return self._has_hook and is_dish and row.code in (None, "c1")

    def _look(self) -> None:
        """Look up which refs there are now."""
        self._refs, self._gone = {}, []
        for entry in self._conversation.entries(keys=True):
            if entry.gone is not None:
                self._gone.append(entry.ref)
            else:
                self._refs.setdefault(entry.entity, []).append(entry.ref)

    def _keys_of_dishes(self) -> dict[str, Any]:
        entries = self._conversation.entries("dish", keys=True)
        return {entry.ref: entry.key for entry in entries if entry.gone is None}

    def _living(self, entity: str) -> Sequence[str]:
        return self._refs.get(entity, [])

    def _bad(self) -> Sequence[str]:
        keys = sorted(self._world.keys)
        some = self._chance.sample(keys, 3)
        spelt = [each for key in some for each in _spellings(key)]
        living = [ref for refs in self._refs.values() for ref in refs[:2]]
        return [*spelt, *living, *self._gone[-5:], "gen_dish_1"]


def _spellings(key: str) -> list[str]:
    """Return ways to write a UUID; a number is not told from data."""
    if key.isdigit():
        return []
    dashed = f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}"
    ways = [dashed, key, dashed.upper(), f"{{{dashed}}}", f"urn:uuid:{dashed}", f" {dashed}"]
    return [*ways, f"UUID('{dashed}')", f"see {dashed}.", dashed[:13], dashed[:35], "x" + dashed]
