"""Documents that are nested too deep: shown as far as they can be written back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Reading, Toolset, Writing
from alfred_refs.tools.serialization import DEPTH_MARK, MAX_DEPTH_SHOWN, limit_depth
from tests.tools.conftest import MODELS, Call
from tests.tools.models import Dish

SOUP = [{"field": "name", "op": "=", "value": "Soup"}]


def nested(levels: int, inner: Any = 1) -> Any:
    """Return a document of lists and objects in turn, so many levels deep."""
    for n in range(levels):
        inner = [inner] if n % 2 else {"in": inner}
    return inner


def depth_of(value: Any) -> int:
    """Return how many levels a document has."""
    levels = 0
    while isinstance(value, list | dict):
        value = value[0] if isinstance(value, list) else next(iter(value.values()))
        levels += 1
    return levels


@pytest.fixture(params=[MAX_DEPTH_SHOWN + 1, 260, 900])
def deep(tables: Engine, dishes: dict[str, Any], request: pytest.FixtureRequest) -> int:
    """A document in a row, saved by a plain session: how many levels it has."""
    levels: int = request.param
    document = '{"in":' * levels + "1" + "}" * levels
    with Session(tables) as plain:
        given = {"it": document, "id": dishes["Soup"]}
        plain.execute(text("update dishes set extra = cast(:it as jsonb) where id = :id"), given)
        plain.commit()
    return levels


@pytest.mark.usefixtures("deep")
def test_a_document_is_cut_where_it_is_nested_too_deep(call: Call) -> None:
    """By every verb, and beside rows that are whole: it is said where."""
    read = call("db_read", table="dishes", order_by="name")
    changed = call("db_update", table="dishes", filters=SOUP, data={"servings": 3})

    shown = {row["name"]: row["extra"] for row in read["rows"]}
    assert (shown["Curry"], depth_of(shown["Soup"])) == (None, MAX_DEPTH_SHOWN)
    assert json.dumps(shown["Soup"], ensure_ascii=False).count(DEPTH_MARK) == 1
    assert read["cut"] == [f"dish_3.extra: more than {MAX_DEPTH_SHOWN} levels"]
    assert (changed["count"], len(changed["cut"])) == (1, 1)


def test_what_is_expected_of_it_is_not_there(call: Call, deep: int) -> None:
    """A deep document is not what a model can give, and nothing is raised."""
    expect = {"extra": nested(40)}
    answer = call("db_delete", table="dishes", filters=SOUP, expect=expect)

    assert answer["error"]["code"] == "unexpected_row"
    assert depth_of(answer["error"]["actual"]) <= deep


@pytest.mark.usefixtures("dishes")
def test_what_is_shown_whole_can_be_written_back(call: Call) -> None:
    """The deepest too, in a list of new rows."""
    document = nested(MAX_DEPTH_SHOWN)
    created = call("db_create", table="dishes", data=[{"name": "deep", "extra": document}])
    [row] = created["rows"]

    assert row["extra"] == document
    assert "cut" not in created
    assert call("db_create", table="dishes", data=[{"extra": row["extra"]}])["count"] == 1


def test_a_document_of_a_draft_is_cut_too(conversation: Conversation, call: Call) -> None:
    """As those of rows are."""
    conversation.draft(Dish, {"name": "Dal", "extra": nested(MAX_DEPTH_SHOWN + 1)})
    this = [{"field": "id", "op": "=", "value": "gen_dish_1"}]
    answer = call("db_read", table="dishes", filters=this)

    assert depth_of(answer["rows"][0]["extra"]) == MAX_DEPTH_SHOWN
    assert answer["cut"] == [f"gen_dish_1.extra: more than {MAX_DEPTH_SHOWN} levels"]


class Deep(Hooks):
    """Adds to rows what is nested too deep."""

    def after_read(self, _: Reading, rows: list[dict[str, Any]]) -> None:
        """Add it."""
        for row in rows:
            row["more"] = nested(5_000)
            row["parts"] = nested(5_000)

    def after_write(self, write: Writing, rows: list[dict[str, Any]]) -> None:
        """Add it, and say so at length."""
        self.after_read(Reading(write.session, write.model, arguments=None), rows)  # type: ignore[arg-type]
        write.notes.append(nested(5_000))


@pytest.mark.usefixtures("dishes")
def test_what_a_hook_adds_is_cut_too(session: RefSession) -> None:
    """In rows, in place of related ones, and in notes."""
    toolset = Toolset(MODELS, hooks={Dish: [Deep()]})
    asked: dict[str, Any] = {"table": "dishes", "filters": SOUP, "columns": ["name", "parts"]}
    read = toolset.call(session, "db_read", asked)
    asked |= {"data": {"servings": 3}, "expect": {"count": 1}}
    del asked["columns"]
    changed = toolset.call(session, "db_update", asked)

    [row] = read["rows"]
    assert (depth_of(row["more"]), depth_of(row["parts"])) == (
        MAX_DEPTH_SHOWN,
        MAX_DEPTH_SHOWN + 2,
    )
    levels = f"more than {MAX_DEPTH_SHOWN} levels"
    assert read["cut"] == [f"dish_1.parts.in: {levels}", f"dish_1.more: {levels}"]
    assert depth_of(changed["rows"][0]["more"]) == MAX_DEPTH_SHOWN
    assert depth_of(changed["notes"]) == MAX_DEPTH_SHOWN


VALUES: list[Any] = [1, "x", nested(5), [nested(5), (1,)], {}, [[], {}]]


@pytest.mark.parametrize("value", VALUES)
def test_what_is_not_too_deep_is_left_as_it_is(value: Any) -> None:
    """The very same object."""
    rest, is_cut = limit_depth(value, 7)

    assert rest is value
    assert not is_cut
