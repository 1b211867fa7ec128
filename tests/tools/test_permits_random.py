"""Random calls on random mappings write what a model may write, and tell all of it.

Each seed is a schema of some classes that refer to each other, with rows and with rights; deletes
and drafts that take rows come after one another, judged by all rows before and after.
"""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest
from sqlalchemy import Column, Engine, ForeignKey, Integer, Table, Text, select
from sqlalchemy.orm import DeclarativeBase, Session, declarative_base, relationship

from alfred_refs import RefRegistry, RefSession
from alfred_refs.errors import RefError
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset
from alfred_refs.tools.tables import VERBS
from tests.tools.conftest import by

MODELS = 4
ROWS = 4
MOST = 7
RELATIONSHIPS: list[dict[str, Any] | None] = [
    None,
    {},
    {"cascade": "all, delete-orphan"},
    {"cascade": "all, delete", "passive_deletes": True},
    {"passive_deletes": True},
    {"passive_deletes": "all"},
]
RULES = [None, "CASCADE", "CASCADE", "SET NULL", "RESTRICT"]


class Play:
    """One schema with its rows, and what a model may do there."""

    def __init__(self, seed: int, engine: Engine) -> None:
        self.random = Random(seed)  # noqa: S311  # no secret
        self.engine = engine
        self.base: type[DeclarativeBase] = declarative_base()
        self.models: list[Any] = []
        self.names: dict[Any, list[tuple[str, Any]]] = {}
        for place in range(MODELS):
            self._declare(f"s{seed}n{place}")
        self.base.metadata.create_all(engine)
        self._fill()
        count = self.random.randint(2, MODELS)
        self.listed = self.random.sample(self.models, count)
        self.verbs = {m: [v for v in VERBS if self.random.random() < 0.85] for m in self.listed}
        self.toolset = Toolset(self.listed, verbs=self.verbs, max_written=MOST)

    def _declare(self, name: str) -> None:
        """Declare a class that refers to some of those before, and to itself at times."""
        fields: dict[str, Any] = {
            "__tablename__": name,
            "id": Column(Integer, primary_key=True),
            "note": Column(Text),
        }
        named = []
        count = min(len(self.models), self.random.choice([1, 1, 2]))
        for other in self.random.sample(self.models, count):
            key, rule = f"{other.__tablename__}_id", self.random.choice(RULES)
            nullable = self.random.random() < 0.6
            target = ForeignKey(other.id, ondelete=rule)
            fields[key] = Column(Integer, target, nullable=nullable)
            named.append((key, other))
        model = type(name.title(), (self.base,), fields)
        for key, other in named:
            options = self.random.choice(RELATIONSHIPS)
            if options is not None:
                children = relationship(model, foreign_keys=[getattr(model, key)], **options)
                setattr(other, f"all_{name}", children)
        self.models.append(model)
        self.names[model] = named

    def _fill(self) -> None:
        with Session(self.engine) as plain:
            for model in self.models:
                for _ in range(ROWS):
                    given = {key: self.random.randint(1, ROWS) for key, _ in self.names[model]}
                    row = model(**given)
                    plain.add(row)
                    plain.flush()
                    row.note = f"row {row.id}"
            plain.commit()

    def rows(self) -> dict[Any, dict[int, tuple[Any, ...]]]:
        """Return all rows by class and key, as a plain session reads them."""
        with Session(self.engine) as plain:
            tables = {model: cast(Table, model.__table__) for model in self.models}
            return {
                model: {row[0]: tuple(row) for row in plain.execute(select(table))}
                for model, table in tables.items()
            }

    def ask(self, session: RefSession) -> tuple[str, dict[str, Any]]:
        """Return the answer to a random call, and what it was."""
        model = self.random.choice(self.listed)
        if self.random.random() < 0.6:
            with Session(self.engine) as plain:
                note = self.random.choice([*plain.scalars(select(model.note)), "none"])
            filters = by("note", note)
            asked: dict[str, Any] = {"table": model.__tablename__, "filters": filters}
            return "delete", self.toolset.call(session, "db_delete", asked)
        assert session.conversation is not None
        try:
            ref = session.conversation.draft(model, self._content(session, model, 2)).ref
        except RefError:  # of a row that is gone
            return "none", {"error": {}}
        asked = {"table": model.__tablename__, "from_draft": ref}
        return "create", self.toolset.call(session, "db_create", asked)

    def _content(self, session: RefSession, model: Any, depth: int) -> dict[str, Any]:
        assert session.conversation is not None
        content: dict[str, Any] = {"note": "new"}
        for key, other in self.names[model]:
            if self.random.random() < 0.6:
                number = self.random.randint(1, ROWS)
                content[key] = session.conversation.refer(other, number)
        for relation in model.__mapper__.relationships:
            child = relation.mapper.class_
            taken = [self.random.randint(1, ROWS) for _ in range(self.random.randint(0, 2))]
            refs = session.conversation.refer_all(child, {*taken})
            nested = [self._content(session, child, depth - 1)] if depth else []
            content[relation.key] = [*refs, *nested]
        return content


@pytest.mark.parametrize("seed", range(16))
def test_a_call_writes_what_a_model_may_and_tells_it(tables: Engine, seed: int) -> None:
    """Nothing of what it may not; all rows of listed classes that it deletes or unlinks."""
    play = Play(seed, tables)
    conversation = RefRegistry(store=MemoryStore()).conversation("chat-7")
    for model in play.models:
        conversation.refer_all(model, range(1, ROWS + 1))
    for _ in range(10):
        before = play.rows()
        with RefSession(tables, conversation=conversation) as session:
            verb, answer = play.ask(session)
        after = play.rows()
        if "error" in answer:
            assert before == after
            continue
        gone, changed, count = set[str](), set[str](), 0
        for model in play.listed:
            there = before[model].keys() & after[model].keys()
            lost, made = before[model].keys() - there, after[model].keys() - there
            other = {key for key in there if before[model][key] != after[model][key]}
            done = {"delete": lost, "create": made, "update": other}
            assert {each for each in done if done[each]} <= {*play.verbs[model]}
            gone |= {*conversation.refer_all(model, lost)}
            changed |= {*conversation.refer_all(model, other)}
            count += sum(map(len, done.values()))
        assert count <= MOST
        if verb == "delete":
            assert {*answer["deleted"], *answer.get("deleted_with", [])} == gone
            assert {*answer.get("unlinked", [])} == changed
