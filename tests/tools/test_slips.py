"""Slips of applications and of models: what hooks add, what was shown, what does not fit."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import AsyncRefSession, Ownership, OwnershipError, RefSession, SetupError
from alfred_refs.tools import Hooks, Reading, ToolError, Toolset, Writing
from tests.tools.conftest import MODELS, Call, by
from tests.tools.models import Dish, Part, Serving

SOUP = by("name", "Soup")


class Chatty(Hooks):
    """Puts keys wherever a hook can put something."""

    def __init__(self, key: uuid.UUID) -> None:
        self.key = key

    def said(self) -> dict[str, Any]:
        """Return keys in every form."""
        return {str(self.key): [self.key, {"a": f"x {self.key}"}], "b": {self.key.hex: self.key}}

    def after_read(self, read: Reading, rows: list[dict[str, Any]]) -> None:
        """Add them to rows, nested ones included, and to notes."""
        read.notes += [f"see {self.key}", self.key]  # type: ignore[list-item]
        for row in rows:
            row |= {"said": self.said(), "when": dt.date(2026, 5, 1), "odd": float("nan")}
            for part in row["parts"]:
                part["of"] = self.key

    def before_write(self, _: Writing) -> None:
        """Refuse, with keys in the data."""
        raise ToolError("closed", f"not {self.key}", key=self.key, more=self.said())


def test_what_hooks_add_has_no_key(session: RefSession, dishes: dict[str, uuid.UUID]) -> None:
    """In rows, nested rows, notes and errors: a ref where it is known, and JSON in any case."""
    toolset = Toolset(MODELS, hooks={Dish: [Chatty(dishes["Korma"])]})
    read = {"table": "dishes", "columns": ["name", "parts.note"], "order_by": "name"}
    for tool, arguments in (("db_read", read), ("db_create", {"table": "dishes", "data": {}})):
        answer = toolset.call(session, tool, arguments)
        text = json.dumps(answer, allow_nan=False)
        assert dishes["Korma"].hex not in text.replace("-", "")
        assert "dish_2" in text
    row = toolset.call(session, "db_read", read)["rows"][1]
    assert row["said"] == {
        "<dish_2>": ["dish_2", {"a": "x <dish_2>"}],
        "b": {"<dish_2:hex>": "dish_2"},
    }
    assert (row["parts"][0]["of"], row["when"]) == ("dish_2", "2026-05-01")


def test_texts_of_keys_will_do_for_a_hook(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """As a store of vectors gives them."""

    class Found(Hooks):
        def before_read(self, read: Reading) -> None:
            read.keys = [str(dishes["Soup"]), dishes["Korma"].hex]

    similar = {"field": "_semantic", "op": "similar", "value": "warm"}
    answer = Toolset(MODELS, hooks={Dish: [Found()]}).call(
        session, "db_read", {"table": "dishes", "filters": [similar], "columns": ["name"]}
    )
    assert [row["name"] for row in answer["rows"]] == ["Soup", "Korma"]


@pytest.mark.parametrize(
    ("data", "field"),
    [("x", "data"), ([{"name": "a"}, 1], "data.1"), ([], "data"), (5, "data"), ([[]], "data.0")],
)
def test_rows_of_no_shape_are_told_by_their_place(call: Call, data: Any, field: str) -> None:
    """Not by the names of types inside of pydantic."""
    error = call("db_create", table="dishes", data=data)["error"]

    assert (error["code"], error["field"]) == ("invalid_arguments", field)
    assert "[" not in error["message"]


def test_an_unknown_field_is_told_by_its_name(call: Call) -> None:
    """Though it may look like the name of a type."""
    assert call("db_read", table="dishes", **{"a[b": 1})["error"]["field"] == "a[b"


async def test_a_session_of_the_other_kind_is_refused(
    session: RefSession, aio: AsyncRefSession, tables: Engine, toolset: Toolset
) -> None:
    """With the method that takes it."""
    with pytest.raises(SetupError, match=r"call_async\(\)"):
        toolset.call(aio, "db_read", {"table": "dishes"})  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="a Session; give a RefSession"):
        toolset.call(Session(tables), "db_read", {"table": "dishes"})  # type: ignore[arg-type]
    with pytest.raises(SetupError, match=r"use call\(\)"):
        await toolset.call_async(session, "db_read", {"table": "dishes"})  # type: ignore[arg-type]


def test_what_is_put_together_wrongly_is_refused_at_once(tables: Engine) -> None:
    """By what it is, and what it should be."""
    not_hooks: Any = Hooks()
    cases: list[Callable[[], object]] = [
        lambda: Toolset([Dish], hooks={Dish: not_hooks}),
        lambda: Toolset([Dish], hooks={Dish: [Hooks]}),  # type: ignore[list-item]
        lambda: Toolset([int]),
        lambda: Toolset({"dishes": int}),
    ]
    for wrong in cases:
        with pytest.raises(SetupError):
            wrong()
    owners: list[Callable[[], object]] = [
        lambda: Ownership({}, shared=[Dish]),
        lambda: Ownership({Dish: "parent"}, open=[Dish]),
        lambda: RefSession(tables, owner=uuid.uuid4()),
        lambda: Ownership({Dish: "device", Part: "dish", Serving: "dish_id"}).of("ann"),
    ]
    for wrong_owner in owners:
        with pytest.raises(OwnershipError):
            wrong_owner()


def test_a_star_has_no_columns_that_are_shown_if_named(
    session: RefSession,
    dishes: dict[str, uuid.UUID],  # noqa: ARG001
) -> None:
    """In `db_query` as in `db_read`: neither by itself, nor of one table, nor of a subquery."""
    toolset = Toolset(MODELS, sql=True)
    [table] = [each for each in toolset.tables if each.name == "dishes"]
    shown = [each.name for each in table.columns.values() if each.shown]
    assert "photo" not in shown
    for text in ("select * from dishes", "select d.* from dishes d"):
        columns = toolset.call(session, "db_query", {"sql": text})["columns"]
        assert sorted(columns) == sorted(shown)
    inner = "select s.* from (select * from dishes) s"
    assert "photo" not in toolset.call(session, "db_query", {"sql": inner})["columns"]
