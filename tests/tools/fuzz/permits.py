"""Calls that would write what a model may not: by rows, by drafts, and by what goes with rows.

Rows are read by a plain session before and after each call, and `rights` tells whether a model may
have written what has come, gone or changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, insert, inspect, select, text
from sqlalchemy.orm import MANYTOONE, Session

from alfred_refs import Conversation, RefError, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset
from tests.tools.fuzz.calls import Arguments, Caller
from tests.tools.fuzz.forbidden import (
    HIDDEN,
    LISTED,
    READ_ONLY,
    Account,
    Admin,
    Auditor,
    Base,
    GoneWith,
    Label,
    Plan,
    Seal,
    Step,
    Trace,
    labels_of_plans,
)
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.mutations import Mutator
from tests.tools.fuzz.rights import Place, Rows, wrongs

_ROWS = text(
    " UNION ALL ".join(
        f"SELECT '{table.name}', {'::text || '.join(table.primary_key.columns.keys())}::text, "
        f"to_jsonb(t) FROM {table.name} AS t"
        for table in Base.metadata.sorted_tables
    )
)

# what becomes the rows of a plan -> their class
_OF_PLAN: Mapping[str, type[Any]] = {
    each.key: each.mapper.class_
    for each in inspect(Plan).relationships
    if each.direction is not MANYTOONE
}


class PermitRound:
    """Calls on one filling of the tables.

    Args:
        engine: of the database; the tables are there.
        name: of the round; all choices follow from it.
        found: what calls came to; grows.
    """

    def __init__(self, engine: Engine, name: str, found: Found) -> None:
        self._name = f"permits {name}"
        self._chance = random.Random(self._name)  # noqa: S311  # choices, not secrets
        self._engine = engine
        self._found = found
        self._fill()
        self._conversation = RefRegistry(store=MemoryStore()).conversation(self._name)
        self._most = self._chance.choice([100, 4])
        self._toolset = Toolset(
            LISTED, read_only=READ_ONLY, hidden=HIDDEN, max_written=self._most, expect="optional"
        )
        tables = [each for each in self._toolset.tables if not each.read_only]
        self._meet()
        self._caller = Caller(self._chance, tables, self._refs)
        self._mutator = Mutator(self._chance, lambda: ["plan_1", "account_1", "mark_1", "admin"])
        self._drafter = Drafter(self._chance, self._conversation, self._refs)
        self._rows = self._read()

    def run(self, calls: int) -> None:
        """Make calls."""
        for number in range(calls):
            tool, arguments = self._next()
            for wrong in self._wrongs(tool, arguments):
                self._found.tell(f"{self._name} #{number}", wrong, tool, arguments)

    def _next(self) -> tuple[str, Arguments]:
        kind = self._chance.random()
        if kind < 0.5:
            return self._drafter.call()
        if kind < 0.6:
            return self._caller.edit_list()
        if kind < 0.8:
            return self._by_ref()
        tool, arguments = self._caller.call()
        return tool, self._mutator.mutated(arguments) if kind > 0.9 else arguments

    def _by_ref(self) -> tuple[str, Arguments]:
        """Return a call on one row: most delete a plan."""
        deleted = [("db_delete", "plan")] * 6
        tool, entity = self._chance.choice(
            [*deleted, ("db_delete", "account"), ("db_update", "account")]
        )
        ref = self._chance.choice([*self._refs(entity)] or [f"{entity}_1"])
        by_ref = {"field": "id", "op": "=", "value": ref}
        made: Arguments = {"table": f"{entity}s", "filters": [by_ref]}
        return tool, made | ({"data": {"name": "by ref"}} if tool == "db_update" else {})

    def _wrongs(self, tool: str, arguments: Any) -> Iterator[str]:
        with RefSession(self._engine, conversation=self._conversation) as session:
            try:
                answer = self._toolset.call(session, tool, arguments)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is a find
                session.rollback()
                answer = {"error": {"code": "raised"}}
                yield f"raised {type(error).__name__}: {str(error)[:300]}"
        self._found.count("permits", tool, answer)
        self._caller.see(tool, answer)
        before, self._rows = self._rows, self._read()
        named = self._named(before, self._rows)
        yield from wrongs(tool, answer, before, self._rows, named=named, most=self._most)
        self._meet()

    def _named(self, *read: Rows) -> Mapping[str, Place]:
        """Return what refs name, of rows that were read."""
        places = {place[1]: place for rows in read for place in rows}  # no two have one key
        entries = self._conversation.entries(keys=True)
        return {e.ref: places[str(e.key)] for e in entries if str(e.key) in places}

    def _read(self) -> Rows:
        with Session(self._engine) as plain:
            return {(name, key): values for name, key, values in plain.execute(_ROWS).all()}

    def _fill(self) -> None:
        names = ", ".join(table.name for table in Base.metadata.sorted_tables)
        with Session(self._engine) as plain:
            plain.execute(text(f"TRUNCATE {names}"))
            plain.execute(text("ALTER SEQUENCE f_keys RESTART"))
            accounts = [Account(name="a"), Admin(name="root", level=9), Auditor(name="eve")]
            plain.add_all([*accounts, label := Label(text="red")])
            plain.flush()
            for n in range(9):
                plan = Plan(name=f"p{n}", budget=n, account=self._chance.choice([*accounts, None]))
                plain.add(plan)
                plain.flush()
                # some with all that there is, more of them with one thing
                for name, model in self._chance.sample(
                    [*_OF_PLAN.items()], self._chance.choice([0, 1, 1, 3])
                ):
                    if model is Label:
                        link = {"plan_id": plan.id, "label_id": label.id}
                        plain.execute(insert(labels_of_plans), link)
                        continue
                    count = self._chance.choice([1, 2, 3, 6])
                    rows = [model(text=f"{name} {n}") for _ in range(count)]
                    for row in rows:
                        row.plan_id = plan.id
                    plain.add_all(rows)
                    if model is Trace:
                        self._follow(plain, rows)
                plain.flush()
            plain.commit()

    def _follow(self, plain: Session, traces: Sequence[Any]) -> None:
        """Add rows that are of traces."""
        plain.flush()
        some: Sequence[type[Any]] = self._chance.choice([[], [Step], [Step, Step, Seal]])
        for model in some:
            plain.add(model(text="follows", trace_id=self._chance.choice(traces).id))
            plain.flush()

    def _meet(self) -> None:
        """Mint a ref for every row that a model could be shown."""
        with Session(self._engine) as plain:
            for model in LISTED.values():
                keys = plain.scalars(select(model.id).order_by(model.id)).all()
                self._conversation.refer_all(model, keys)

    def _refs(self, entity: str) -> Sequence[str]:
        found = self._conversation.entries(entity) if entity else []  # links have no refs
        return [entry.ref for entry in found if entry.gone is None]


class Drafter:
    """Makes, edits and saves drafts of plans and accounts, with all that a draft may reach.

    Args:
        chance: what all choices are made by.
        conversation: that keeps the drafts.
        refs: gives the refs of an entity that are living.
    """

    def __init__(
        self,
        chance: random.Random,
        conversation: Conversation,
        refs: Callable[[str], Sequence[str]],
    ) -> None:
        self._chance = chance
        self._conversation = conversation
        self._refs = refs

    def call(self) -> tuple[str, Arguments]:
        """Return a tool and arguments: a draft is edited or saved, and made before if need be."""
        name, model = self._chance.choice(
            [("plans", Plan), ("plans", Plan), ("accounts", Account)]
        )
        pending = [*self._conversation.drafts(model)]
        ref = self._chance.choice(pending).ref if pending and self._maybe() else self._made(model)
        content = self._content(model)
        if self._maybe():
            given = {"from_draft": ref, **({"data": content} if self._maybe() else {})}
            also = [{"table": "tasks", "data": {"plan_id": ref, "text": "also"}}]
            return "db_create", {
                "table": name,
                **given,
                **({"also": also} if model is Plan and self._seldom() else {}),
            }
        by_ref = {"field": "id", "op": "=", "value": ref}
        return "db_update", {"table": name, "filters": [by_ref], "data": content}

    def _made(self, model: type[Any]) -> str:
        """Make a draft as the application does, which may write what a model may not."""
        content = {"name": "drafted"}
        if self._maybe():
            content |= self._content(model)
        try:
            return self._conversation.draft(model, content).ref
        except RefError:
            return self._conversation.draft(model, {"name": "drafted"}).ref

    def _content(self, model: type[Any]) -> Arguments:
        made: Arguments = {"name": self._chance.choice(["x", "y"])}
        if model is Account:
            made |= self._account()
            if self._seldom():
                made["plans"] = self._some("plan", self._plan)
            return made
        for name, child in self._chance.sample(
            [*_OF_PLAN.items()], self._chance.choice([0, 1, 1, 2])
        ):
            entity = "gone_with" if child is GoneWith else child.__name__.lower()
            made[name] = self._some(entity, lambda: {"text": "inside"})
        if self._seldom():
            made["account"] = self._chance.choice([self._account(), *self._refs("account")[:3]])
        if self._seldom() and self._seldom():
            made["budget"] = 1_000_000
        return made

    def _account(self) -> Arguments:
        made: Arguments = {"name": "inside"}
        if self._maybe():
            made["kind"] = self._chance.choice(["admin", "auditor", "account"])
        if self._seldom() and self._seldom():
            made["level"] = 10
        return made

    def _plan(self) -> Arguments:
        return {"name": "inside", "tasks": [{"text": "deep"}]}

    def _some(self, entity: str, make: Callable[[], Arguments]) -> list[Any]:
        """Return objects for new rows, or refs of those that are there."""
        refs = list(self._refs(entity))
        if refs and self._maybe():
            return self._chance.sample(refs, min(len(refs), self._chance.randrange(1, 4)))
        return [make() for _ in range(self._chance.randrange(1, 4))]

    def _maybe(self) -> bool:
        return self._chance.random() < 0.5

    def _seldom(self) -> bool:
        return self._chance.random() < 0.3
