"""What errors offer in place of a bad ref: of this conversation, and of listed classes alone."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import Call, by
from tests.tools.models import Cuisine, Dish, Part

FIRST = "gen_dish_1"


def reading(field: str, value: Any) -> tuple[str, dict[str, Any]]:
    """Return a call that reads by a ref."""
    return "db_read", {"filters": by(field, value)}


# calls that name something wrong, with the code that a model is told
CALLS: list[tuple[tuple[str, dict[str, Any]], str]] = [
    (reading("cuisine_id", "cuisine_9"), "unknown_ref"),
    (reading("cuisine_id", "Indian"), "unknown_ref"),
    (reading("cuisine_id", "gen_cuisine_1"), "draft_ref"),
    (reading("cuisine_id", "gen_cuisine_9"), "unknown_draft"),
    (reading("cuisine_id", "gen_cuisine_2"), "discarded_draft"),
    (reading("id", "cuisine_1"), "unknown_ref"),
    (reading("id", "gen_cuisine_1"), "unknown_draft"),
    (reading("id", "gen_cuisine_2"), "unknown_draft"),
    (reading("id", "gen_part_1"), "unknown_draft"),
    (reading("parent_id", "cuisine_1"), "unknown_ref"),
    (("db_create", {"data": {"cuisine_id": "cuisine_9"}}), "unknown_ref"),
    (("db_create", {"data": {"parent_id": "gen_cuisine_1"}}), "unknown_draft"),
    (("db_create", {"from_draft": "gen_cuisine_1"}), "unknown_draft"),
    (("db_create", {"from_draft": "gen_cuisine_2"}), "unknown_draft"),
    (("db_update", {"filters": by("id", "dish_1"), "data": {"cuisine_id": "x"}}), "unknown_ref"),
    (("db_delete", {"filters": by("id", "gen_cuisine_1")}), "unknown_draft"),
]


@pytest.mark.usefixtures("dishes")
def test_nothing_of_classes_that_are_not_listed_is_offered(
    call: Call, session: RefSession, conversation: Conversation
) -> None:
    """No ref or label of their rows or drafts; where another is needed theirs are unknown."""
    call("db_read", table="cuisines")
    call("db_read", table="dishes")
    call("db_read", table="parts")
    conversation.draft(Cuisine, {"name": "Persian"})
    conversation.draft(Cuisine, {"name": "Polish"})
    conversation.draft(Part, {"note": "saffron"})
    conversation.discard_drafts(["gen_cuisine_2"])
    toolset = Toolset([Dish], labels="none", expect="optional")
    for (tool, arguments), code in CALLS:
        error = toolset.call(session, tool, {"table": "dishes", **arguments})["error"]

        told = json.dumps({**error, "ref": None}).replace(json.dumps(error["ref"])[1:-1], "")
        assert error["code"] == code, arguments
        for each in ("cuisine_1", "cuisine_2", "part_1", "Indian", "Thai", "Persian", "saffron"):
            assert each not in told.replace("'Indian' is not", "")
        listed = [ref for ref in error["known"] if "dish" in ref]
        named = [ref for ref in listed if f"'{ref}'" in error["message"]]
        assert error["known"] == listed == named


@pytest.mark.usefixtures("dishes")
def test_a_draft_of_another_entity_is_not_offered_for_itself(
    call: Call, conversation: Conversation
) -> None:
    """What could be used are drafts and rows of the entity that is needed, if there are any."""
    conversation.draft(Cuisine, {"name": "Thai"})
    asked = {"table": "dishes", "filters": by("id", "gen_cuisine_1")}
    error = call("db_read", **asked)["error"]

    assert (error["code"], error["known"]) == ("wrong_entity", [])
    assert error["message"].endswith(
        "is needed; none is known in this conversation; read some first"
    )
    conversation.draft(Dish, {"name": "Dal"})
    assert call("db_read", **asked)["error"]["known"] == [FIRST]
    call("db_read", table="dishes", limit=2, columns=["name"])  # a parent would get a ref, too
    assert call("db_read", **asked)["error"]["known"] == [FIRST, "dish_1", "dish_2"]


@pytest.mark.usefixtures("dishes")
def test_a_ref_among_other_words_is_probably_meant(call: Call) -> None:
    """Where the one that is known stands in a text with its label, in quotes or brackets."""
    cases: list[str] = [
        "dish_2 (Korma)",
        "Korma (dish_2)",
        "'dish_2'",
        '"dish_2"',
        "`dish_2`",
        "<dish_2>",
        "[dish_2](#)",
        "**dish_2**",
        "dish_2.",
        " dish_2 ",
        "dish_2,",
        "the dish dish_2, as read",
        "dish_2 and cuisine_1",
        "dish_2 of dish_99",
    ]
    for text in cases:
        call("db_read", table="dishes", order_by="name")
        call("db_read", table="cuisines")
        error = call("db_read", table="dishes", filters=by("id", text))["error"]

        assert (error["code"], error["near"]) == ("unknown_ref", "dish_2")
        assert "did you mean 'dish_2' (\"Korma\")?" in error["message"]


@pytest.mark.parametrize(
    "text",
    [
        "dish_1 or dish_2",
        "dish_99 (x)",
        "my x_dish_2 of today",
        "see dish_2-b below",
        "cuisine_1 (x)",
    ],
)
@pytest.mark.usefixtures("dishes")
def test_of_several_refs_none_is_meant(call: Call, text: str) -> None:
    """Nor is one that is not known, of another entity, or a part of another word."""
    call("db_read", table="dishes", order_by="name")
    call("db_read", table="cuisines")
    error = call("db_read", table="dishes", filters=by("id", text, "!="))["error"]

    assert error["code"] == "unknown_ref"
    assert "near" not in error


def test_a_draft_among_other_words_is_probably_meant(
    call: Call, conversation: Conversation
) -> None:
    """Where a draft is wanted."""
    for name in ("Dal", "Naan"):
        conversation.draft(Dish, {"name": name})
    error = call("db_create", table="dishes", from_draft="gen_dish_1 (Dal)")["error"]

    assert (error["code"], error["near"]) == ("unknown_draft", FIRST)
    both = call("db_create", table="dishes", from_draft="gen_dish_1, gen_dish_2")["error"]
    assert "near" not in both


@pytest.mark.parametrize("text", ["GEN_DISH_1", "Gen_dish_1", "gen_dish_01", "gen_dish_1 "])
@pytest.mark.usefixtures("dishes")
def test_a_draft_spelt_wrong_is_no_row(call: Call, conversation: Conversation, text: str) -> None:
    """The row of the same number is something else."""
    call("db_read", table="dishes")
    conversation.draft(Dish, {"name": "Dal"})
    for tool, asked in (
        ("db_read", {"filters": by("id", text)}),
        ("db_delete", {"filters": by("parent_id", text)}),
        ("db_create", {"from_draft": text}),
        ("db_create", {"data": {"parent_id": text}}),
    ):
        error = call(tool, table="dishes", **asked)["error"]
        assert (error["code"], error["near"], error["known"]) == ("unknown_draft", FIRST, [FIRST])


def test_a_draft_that_is_renamed_as_it_is_saved_has_its_new_label(
    call: Call, session: RefSession, conversation: Conversation
) -> None:
    """In errors and lists, at once, whoever saves it and whenever it is renamed."""
    for name in ("Dal", "Naan", "Raita", "Roti"):
        conversation.draft(Dish, {"name": name})
    call("db_create", table="dishes", from_draft=FIRST, data={"name": "Dal makhani"})
    for ref, before, after in (
        ("gen_dish_2", "Garlic naan", None),
        ("gen_dish_3", None, "Mint raita"),
        ("gen_dish_4", None, None),
    ):
        dish = session.get(Dish, ref)
        dish.name = before or dish.name
        session.add(dish)
        session.flush()
        dish.name = after or dish.name
        session.commit()

    names = ["Dal makhani", "Garlic naan", "Mint raita", "Roti"]
    assert [draft.label for draft in conversation.drafts(states=["saved"])] == names
    assert [entry.label for entry in conversation.entries(Dish)][:3] == names[:3]
    error = call("db_read", table="dishes", filters=by("id", "dish_9"))["error"]
    assert [error["labels"][ref] for ref in ("dish_1", "dish_2", "dish_3")] == names[:3]


def test_a_label_that_was_undone_is_none(session: RefSession, conversation: Conversation) -> None:
    """A draft whose saving is rolled back is called what it was."""
    conversation.draft(Dish, {"name": "Dal"})
    dish = session.get(Dish, FIRST)
    dish.name = "Dal makhani"
    session.add(dish)
    session.flush()
    session.rollback()

    assert [draft.label for draft in conversation.drafts()] == ["Dal"]
    assert list(conversation.entries(Dish)) == []


def test_a_row_that_was_a_draft_is_called_by_its_label(
    call: Call, conversation: Conversation, dishes: dict[str, uuid.UUID]
) -> None:
    """Where another draft refers to it by the ref that it had."""
    del dishes
    conversation.draft(Dish, {"name": "Dal"})
    conversation.draft(Dish, {"name": "Tarka", "parent_id": FIRST})
    call("db_create", table="dishes", from_draft=FIRST, data={"name": "Dal makhani"})
    [row] = call("db_read", table="dishes", filters=by("id", "gen_dish_2"))["rows"]

    assert row["_parent_id_label"] == "Dal makhani"
