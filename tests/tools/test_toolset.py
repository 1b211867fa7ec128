"""The four verbs, end to end."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import RefSession
from alfred_refs.tools import Hooks, ToolError, Toolset
from alfred_refs.tools.hooks import Reading
from tests.fix_session import TravelLog
from tests.tools.conftest import Call, by
from tests.tools.models import Dish


@pytest.mark.usefixtures("dishes")
def test_a_read_shows_refs_and_labels(call: Call) -> None:
    """Keys are refs, and what they refer to comes with its label."""
    answer = call("db_read", table="dishes", columns=["name", "cuisine_id"], order_by="name")

    assert answer == {
        "table": "dishes",
        "rows": [
            {
                "id": "dish_1",
                "name": "Curry",
                "cuisine_id": "cuisine_1",
                "_cuisine_id_label": "Thai",
            },
            {
                "id": "dish_2",
                "name": "Korma",
                "cuisine_id": "cuisine_2",
                "_cuisine_id_label": "Indian",
            },
            {"id": "dish_3", "name": "Soup", "cuisine_id": None},
        ],
        "count": 3,
        "more": False,
    }


@pytest.mark.usefixtures("dishes")
def test_what_was_read_is_named_by_its_ref(call: Call) -> None:
    """In filters, in new values, and in the answer."""
    call("db_read", table="dishes", order_by="name")
    call("db_read", table="cuisines", order_by="name")

    answer = call(
        "db_update",
        table="dishes",
        filters=by("id", "dish_3"),
        data={"cuisine_id": "cuisine_1", "servings": 3},
        expect="Soup",
    )

    [row] = answer["rows"]
    assert (row["id"], row["servings"], row["_cuisine_id_label"]) == ("dish_3", 3, "Thai")


def test_new_rows_come_back_with_refs(call: Call, tables: Engine) -> None:
    """One or many, with what the database filled in."""
    answer = call("db_create", table="dishes", data=[{"name": "A"}, {"name": "B"}])
    assert [(row["id"], row["name"]) for row in answer["rows"]] == [
        ("dish_1", "A"),
        ("dish_2", "B"),
    ]
    part = call("db_create", table="parts", data={"dish_id": "dish_2", "note": "x"})
    assert part["rows"] == [
        {
            "id": "part_1",
            "dish_id": "dish_2",
            "_dish_id_label": "B",
            "position": 0,
            "note": "x",
            "cuisine_id": None,
        }
    ]
    with Session(tables) as plain:
        assert plain.scalars(select(Dish.name).order_by(Dish.name)).all() == ["A", "B"]


def test_deleted_rows_are_named(call: Call, dishes: dict[str, uuid.UUID], tables: Engine) -> None:
    """And gone, with what belongs to them; a second time nothing is said to have been done."""
    call("db_read", table="dishes", order_by="name")
    by_id = by("id", ["dish_3"], "in")

    assert call("db_delete", table="dishes", filters=by_id) == {
        "table": "dishes",
        "deleted": ["dish_3"],
        "count": 1,
        "_deleted_labels": ["Soup"],
    }
    again = call("db_delete", table="dishes", filters=by_id)
    assert again["error"]["code"] == "gone_ref"
    with Session(tables) as plain:
        assert plain.get(Dish, dishes["Soup"]) is None


@pytest.mark.usefixtures("dishes")
def test_a_read_costs_little(
    toolset: Toolset, session: RefSession, sent: list[str], store: TravelLog
) -> None:
    """One statement, and one for each table that is referred to, after the limit of time.

    One round trip mints the refs, and one stores the labels that the registry did not have.
    """
    answer = toolset.call(session, "db_read", {"table": "dishes", "order_by": "name"})

    limit, *statements = sent
    assert "statement_timeout" in limit
    assert len(statements) == 3
    assert store.trips == ["refer", "label"]
    toolset.call(session, "db_read", {"table": "dishes", "order_by": "name"})
    assert store.trips == ["refer", "label"]
    assert {name for row in answer["rows"] for name in row if name.endswith("_label")} == {
        "_cuisine_id_label",
        "_parent_id_label",
    }


def test_what_a_hook_raises_shows_no_key(
    session: RefSession, dishes: dict[str, uuid.UUID]
) -> None:
    """As what is raised by the session's own listeners."""
    key = dishes["Soup"]

    class Raising(Hooks):
        def before_read(self, read: Reading) -> None:
            del read
            raise LookupError(f"no stock for {key}", key)

    ref = session.scalar(select(Dish.id).where(Dish.name == "Soup"))
    toolset = Toolset([Dish], hooks={Dish: [Raising()]})
    with pytest.raises(LookupError) as raised:
        toolset.call(session, "db_read", {"table": "dishes"})
    assert raised.value.args == (f"no stock for {ref}", ref)


def test_an_error_of_a_hook_reads_as_its_message() -> None:
    """SQLAlchemy's errors end in a link to where their `code` is explained; there is no such."""
    assert str(ToolError("closed", "the kitchen is closed; come tomorrow")) == (
        "the kitchen is closed; come tomorrow"
    )
