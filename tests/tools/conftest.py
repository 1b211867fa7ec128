"""Fixtures: tables of dishes, and a toolset on them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import RefSession
from alfred_refs.tools import Toolset
from alfred_refs.tools.arguments import Repair, arguments_type
from tests.tools.models import Cuisine, Dish, Part, Serving

MODELS = [Dish, Part, Cuisine, Serving]

Call = Callable[..., dict[str, Any]]


def counted(
    toolset: Toolset, session: RefSession, tool: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Call a tool; a write by criteria gives the number of its rows once it is asked for it."""
    answer = toolset.call(session, tool, arguments)
    if answer.get("error", {}).get("code") == "unconfirmed_count":
        expect = {"count": answer["error"]["count"]}
        answer = toolset.call(session, tool, {**arguments, "expect": expect})
    return answer


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
