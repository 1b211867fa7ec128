"""The order of rows: by several columns, each in its own direction, told again in Python."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation
from alfred_refs.tools import Toolset
from tests.tools.conftest import Call, by
from tests.tools.models import Dish
from tests.tools.test_draft_reading import pages
from tests.tools.test_filters import EACH_TIME, Kitchen, kitchen

__all__ = ["kitchen"]

SORTED = ["code", "servings", "spice", "price", "rating", "is_vegan", "course", "cooked_on"]

DIRECTIONS = st.sampled_from(["asc", "desc"])
ORDERS = st.lists(st.tuples(st.sampled_from([*SORTED, "id"]), DIRECTIONS), max_size=4)


def keys_of(engine: Engine) -> Mapping[str, uuid.UUID]:
    """Return the keys of all dishes by their codes."""
    with Session(engine) as plain:
        return {code or "": key for code, key in plain.execute(select(Dish.code, Dish.id))}


def in_order(
    rows: Sequence[Any], order: Sequence[tuple[str, str]], keys: Mapping[str, Any]
) -> list[Any]:
    """Return rows as they are to be read: nulls last, then by key, as the last column is."""
    found = sorted(rows, key=lambda row: keys[row["code"]], reverse=order[-1][1] == "desc")
    for name, direction in reversed(order):
        if name == "id":
            found.sort(key=lambda row: keys[row["code"]], reverse=direction == "desc")
            continue
        there = [row for row in found if row[name] is not None]
        there.sort(key=lambda row: row[name], reverse=direction == "desc")
        found = [*there, *(row for row in found if row[name] is None)]
    return found


@pytest.mark.slow
@EACH_TIME
@given(order=ORDERS, size=st.integers(1, 25))
def test_rows_are_in_the_order_of_each_column(
    kitchen: Kitchen, order: list[tuple[str, str]], size: int
) -> None:
    """Each column in its direction, those without value last, on pages of every size."""
    directions = [direction for _, direction in order]
    asked = {
        "table": "dishes",
        "order_by": [name for name, _ in order],
        "order_dir": directions[0] if len({*directions}) == 1 else directions or "desc",
        "columns": SORTED,
    }
    whole = kitchen.call("db_read", **asked)["rows"]

    assert whole == in_order(whole, order or [("id", "desc")], keys_of(kitchen.engine))
    assert pages(kitchen, size, **asked) == whole
    assert len(whole) == 24


@pytest.mark.usefixtures("dishes")
@pytest.mark.parametrize(
    ("by", "directions"),
    [
        (["name", "code"], ["asc"]),
        (["name", "code"], ["asc", "asc", "desc"]),
        (["name", "code"], []),
        ("name", ["asc", "desc"]),
        (None, ["desc"]),
        ([], ["desc"]),
    ],
)
def test_there_is_one_direction_for_each_column(
    call: Call, by: Any, directions: list[str]
) -> None:
    """Or one for all: a list of another length is refused."""
    error = call("db_read", table="dishes", order_by=by, order_dir=directions)["error"]

    assert (error["code"], error["field"]) == ("invalid_arguments", "order_dir")
    assert "it has not one direction for each of order_by" in error["message"]


@pytest.mark.usefixtures("dishes")
def test_a_column_that_is_named_twice_orders_once(call: Call) -> None:
    """As the first time."""
    asked = {"order_by": ["name", "servings", "name"], "order_dir": ["desc", "asc", "asc"]}
    rows = call("db_read", table="dishes", **asked)["rows"]

    assert [row["name"] for row in rows] == ["Soup", "Korma", "Curry"]


@pytest.mark.parametrize("form", ["openai", "anthropic", "mcp", "json_schema"])
def test_each_form_offers_both(toolset: Toolset, form: Any) -> None:
    """One direction, or a list of them."""
    read = toolset.schemas(form)[0]
    found = read.get("function", read)
    found = found.get("parameters") or found.get("input_schema") or found.get("inputSchema")
    offered = (found or read)["properties"]["order_dir"]

    assert offered == {"description": "'asc' or 'desc', or a list with one for each of order_by"}


def test_a_draft_by_itself_needs_no_order(call: Call, conversation: Conversation) -> None:
    """Directions are looked at all the same."""
    conversation.draft(Dish, {"name": "Dal"})
    named = by("id", "gen_dish_1")
    asked = {"table": "dishes", "filters": named, "order_by": ["name", "code"]}

    assert call("db_read", **asked, order_dir=["desc", "asc"])["count"] == 1
    assert call("db_read", **asked, order_dir=["desc"])["error"]["code"] == "invalid_arguments"
