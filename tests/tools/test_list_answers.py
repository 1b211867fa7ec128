"""What an edited list is answered with: the items that changed, and those next to them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import Conversation
from alfred_refs.tools import Toolset
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Dish, Part

NOTES = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
LIST = {"table": "dishes", "row": "dish_1"}


def at(action: str, *path: int, **more: Any) -> dict[str, Any]:
    """Return an edit."""
    return {"action": action, "path": [*path], **more}


CASES: list[tuple[list[dict[str, Any]], list[int]]] = [
    ([at("modify", 4, data="D")], [3, 4, 5]),
    ([at("modify", 1, data="A")], [1, 2]),
    ([at("modify", 9, data="I")], [8, 9]),
    ([at("remove", 5)], [4, 5]),
    ([at("remove", 1)], [1]),
    ([at("remove", 9)], [8]),
    ([at("add", 4, data="new")], [3, 4, 5]),
    ([at("move", 8, to=2)], [1, 2, 3, 8, 9]),
    ([at("modify", 2, data="B"), at("remove", 8)], [1, 2, 3, 7, 8]),
]


@pytest.fixture
def listed(tables: Engine) -> None:
    """A dish with nine parts, tags, and items of a document with lists inside."""
    with Session(tables) as plain, plain.begin():
        extra = [{"days": [*NOTES]}, {"days": [*NOTES]}, {"days": ["x"]}, {"days": ["y"]}]
        parts = [Part(position=n, note=note) for n, note in enumerate(NOTES, start=1)]
        plain.add(Dish(name="Dal", tags=[*NOTES], extra=extra, parts=parts))


def texts(items: dict[str, Any]) -> dict[str, str]:
    """Return items by position, rows by their notes."""
    return {n: each["note"] if isinstance(each, dict) else each for n, each in items.items()}


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(("edits", "shown"), CASES)
@pytest.mark.parametrize("name", ["tags", "parts"])
def test_changed_items_are_shown_with_their_neighbours(
    call: Call, edits: list[dict[str, Any]], shown: list[int], name: str
) -> None:
    """Each under its position as it is then; the length and the token are of the whole list."""
    call("db_read", table="dishes")
    if name == "parts":
        edits = [{**e, "data": {"note": e["data"]}} if "data" in e else e for e in edits]
    preview, answer = (
        call("db_edit_list", **LIST, list=name, edits=edits, preview=each)
        for each in (True, False)
    )
    whole = call("db_edit_list", **LIST, list=name, preview=True)
    assert [*preview["items"]] == [*answer["items"]] == [str(n) for n in shown]
    assert (len(whole["items"]), whole["token"]) == (answer["count"], answer["token"])
    assert texts(answer["items"]).items() <= texts(whole["items"]).items()


@pytest.mark.usefixtures("listed")
def test_a_list_inside_of_an_item_is_shown_with_what_it_is_in(
    call: Call, conversation: Conversation
) -> None:
    """Of what is around it the one item; also in a draft."""
    call("db_read", table="dishes")
    edits = [at("modify", 2, 5, data="E")]
    [(number, item)] = call("db_edit_list", **LIST, list="extra.days", edits=edits)[
        "items"
    ].items()
    assert (number, item["days"]) == ("2", {"4": "d", "5": "E", "6": "f"})

    edits = [at("remove", 3, 1)]
    assert call("db_edit_list", **LIST, list="extra.days", edits=edits)["items"] == {
        "3": {"days": {}}
    }

    conversation.draft(Dish, {"name": "Dal", "tags": NOTES, "parts": [{"note": n} for n in NOTES]})
    draft = {"table": "dishes", "row": "gen_dish_1"}
    removed = call("db_edit_list", **draft, list="tags", edits=[at("remove", 5)])
    assert removed["items"] == {"4": "d", "5": "f"}
    parts = call("db_edit_list", **draft, list="parts", edits=[at("remove", 5)])
    assert texts(parts["items"]) == {"4": "d", "5": "f"}


@pytest.mark.usefixtures("listed")
def test_without_edits_the_whole_list_is_shown(call: Call) -> None:
    """That is what a preview without edits is for."""
    call("db_read", table="dishes")
    assert texts(call("db_edit_list", **LIST, list="parts", preview=True)["items"]) == {
        str(n): note for n, note in enumerate(NOTES, start=1)
    }


@pytest.mark.usefixtures("listed")
def test_a_stricter_toolset_hides_columns_in_answers(call: Call) -> None:
    """Of items under their positions, of a list that is hidden itself, and in totals."""
    tables = Toolset(MODELS, hidden=[Part.note, Part.position, Dish.tags]).tables
    call("db_read", table="dishes")
    parts, tags = (
        call("db_edit_list", **LIST, list=name, preview=True) for name in ("parts", "tags")
    )
    totals = call("db_read", table="parts", columns=["dish_id", "max(position)"])

    assert parts["items"]["1"]["note"] == "a"
    assert "note" not in tables.without_hidden(parts)["items"]["1"]
    assert tables.without_hidden(tags) == {n: v for n, v in tags.items() if n != "items"}
    assert {*tables.without_hidden(totals)["totals"][0]} == {"dish_id", "_dish_id_label"}
