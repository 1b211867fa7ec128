"""Fixtures: tables of dishes, and a toolset on them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Ownership, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import BoundToolset, Hooks, ToolError, Toolset, Writing
from alfred_refs.tools.arguments import Repair, arguments_type
from tests import owned
from tests.fix_owned import World
from tests.tools.models import Cuisine, Dish, Part, Serving

MODELS = [Dish, Part, Cuisine, Serving]

Call = Callable[..., dict[str, Any]]


def by(field: str, value: Any, op: str = "=") -> list[dict[str, Any]]:
    """Return the filters of a call that have one condition."""
    return [{"field": field, "op": op, "value": value}]


def save(engine: Engine, *rows: object) -> None:
    """Save rows, one after the other, by a plain session."""
    with Session(engine, expire_on_commit=False) as plain:
        for row in rows:
            plain.add(row)
            plain.flush()
        plain.commit()


def counted(
    toolset: Toolset, session: RefSession, tool: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Call a tool; a write by criteria gives the number of its rows once it is asked for it."""
    answer = toolset.call(session, tool, arguments)
    if answer.get("error", {}).get("code") == "unconfirmed_count":
        expect = {"count": answer["error"]["count"]}
        answer = toolset.call(session, tool, {**arguments, "expect": expect})
    return answer


def servings(session: RefSession) -> list[int | None]:
    """Return the servings of all dishes, by name."""
    with Session(session.get_bind()) as plain:
        return list(plain.scalars(select(Dish.servings).order_by(Dish.name)))


def bound(toolset: Toolset, engine: Engine) -> BoundToolset:
    """Bind a toolset to plain sessions, and to a registry in memory."""
    registry = RefRegistry(store=MemoryStore())
    return toolset.bind(sessionmaker(engine, class_=RefSession), registry=registry)


def anns(world: World, ownership: Ownership) -> dict[str, Any]:
    """Return what makes a session ann's, in a conversation that knows her plan as plan_1."""
    ann = world.users["ann"]
    conversation = RefRegistry(store=MemoryStore()).conversation("chat-7", owner=ann)
    conversation.refer(owned.Plan, world.plans["ann"])
    return {"conversation": conversation, "owner": ownership.of(ann)}


class Watcher(Hooks):
    """Notes what it is asked of and told, may refuse a verb, and puts values into records."""

    def __init__(self, refuses: str = "", **values: Any) -> None:
        self.asked: list[tuple[str, list[str], list[dict[str, Any]]]] = []
        self.told: list[tuple[str, list[dict[str, Any]]]] = []
        self._refuses, self._values = refuses, values

    def before_write(self, write: Writing) -> None:
        """Note the verb, the refs, and the records as they are given."""
        self.asked.append((write.verb, sorted(write.refs), [dict(r) for r in write.records]))
        if write.verb == self._refuses:
            raise ToolError("locked", "these rows are locked; leave them")
        for record in write.records:
            record.update(self._values)
        write.notes.append("asked")

    def after_write(self, write: Writing, rows: list[dict[str, Any]]) -> None:
        """Note the verb and the rows."""
        self.told.append((write.verb, rows))
        write.notes.append("told")


@lru_cache(maxsize=1)
def _validators(toolset: Toolset) -> dict[str, Draft202012Validator]:
    """Return what checks arguments, by tool; many tests use one toolset, one after another."""
    return {each["title"]: Draft202012Validator(each) for each in toolset.schemas("json_schema")}


@pytest.fixture(scope="session")
def toolset() -> Toolset:
    """A toolset on all tables but the secret one; its writes need not give labels."""
    return Toolset(MODELS, expect="optional")


@pytest.fixture
def call(toolset: Toolset, session: RefSession) -> Call:
    """Call a tool with its arguments by name; those that are taken are such as its schema says."""

    def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer = counted(toolset, session, tool, arguments)
        if "error" not in answer:
            taken = Repair().arguments(arguments, arguments_type(tool))
            for edit in taken.get("edits", ()):  # what an edit does not take may be null
                for name in [n for n, each in edit.items() if each is None]:
                    del edit[name]
            _validators(toolset)[tool].validate(taken)
        return answer

    return call


@pytest.fixture
def shown(session: RefSession, dishes: dict[str, uuid.UUID]) -> None:
    """Curry is dish_1, Korma dish_2, Soup dish_3; Indian cuisine_1, Thai cuisine_2."""
    assert dishes
    for table in ("dishes", "cuisines"):
        asked = {"table": table, "columns": ["name"], "order_by": "name"}
        Toolset(MODELS).call(session, "db_read", asked)


@pytest.fixture
def dishes(tables: Engine) -> dict[str, uuid.UUID]:
    """Three dishes and two cuisines with their keys by name, saved by a plain session."""
    with Session(tables, expire_on_commit=False) as plain:
        indian, thai = Cuisine(name="Indian"), Cuisine(name="Thai")
        plain.add_all([indian, thai])
        plain.flush()
        korma = Dish(name="Korma", cuisine=indian, servings=4, tags=["mild", "hot"])
        curry = Dish(name="Curry", cuisine=thai, servings=2, tags=["hot"], parent=korma)
        soup = Dish(name="Soup", servings=None, extra={"kcal": 100})
        plain.add_all([korma, curry, soup])
        plain.flush()
        korma.parts = [Part(position=1, note="rice"), Part(position=2, note="sauce")]
        plain.add(Serving(dish_id=korma.id, place=1, note="first"))
        plain.commit()
        return {row.name or "": row.id for row in (indian, thai, korma, curry, soup)}
