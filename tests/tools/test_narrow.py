"""Narrow places: what is refused before anything is asked, and what is just enough."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Engine

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Toolset
from tests.tools.conftest import MODELS, Watcher, by, counted
from tests.tools.models import Dish, Part
from tests.tools.test_mappings import Base, Piece, Whole

Named = dict[str, Any]


def test_a_draft_of_the_call_in_the_place_of_another_entity_is_refused_first(
    session: RefSession, conversation: Conversation
) -> None:
    """Before hooks are asked: it is saved in the same call, and is no cuisine for that."""
    hooks = Watcher()
    toolset = Toolset(MODELS, hooks={Dish: [hooks]}, expect="optional")
    dish = conversation.draft(Dish, {"name": "Dal"}).ref
    part = conversation.draft(Part, {"dish_id": dish}).ref
    also = [{"table": "parts", "from_draft": part, "data": {"cuisine_id": dish}}]
    asked = {"table": "dishes", "from_draft": dish, "also": also}
    error = toolset.call(session, "db_create", asked)["error"]

    assert error["code"] in ("draft_ref", "wrong_entity")
    assert (error["ref"], error["expected"]) == (dish, "cuisine")
    assert hooks.asked == []
    assert [draft.ref for draft in conversation.drafts()] == [dish, part]


def test_a_row_that_is_no_row_yet_is_not_saved_by_being_named(
    session: RefSession, conversation: Conversation
) -> None:
    """A draft that the call does not save stays one, though another is related to it."""
    parent, part = conversation.draft(Dish, {}).ref, conversation.draft(Part, {}).ref
    dish = conversation.draft(Dish, {"parent": parent, "parts": [{"note": "x"}]}).ref
    for data in ({}, {"parent_id": parent}, {"parent": None, "parts": [part]}):
        asked = {"table": "dishes", "from_draft": dish, "data": data}
        error = Toolset(MODELS, expect="optional").call(session, "db_create", asked)["error"]
        assert (error["code"], error["ref"] in (parent, part)) == ("draft_ref", True)
    assert [draft.ref for draft in conversation.drafts()] == [parent, dish, part]


def test_rows_are_answered_in_the_order_in_which_they_were_asked_for(
    session: RefSession, conversation: Conversation
) -> None:
    """And not in that which they have in the table."""
    refs = [conversation.draft(Dish, {"name": name}).ref for name in "ABC"]
    for asked in (refs, refs[::-1], [refs[1], refs[2], refs[0]]):
        given = {"table": "dishes", "from_draft": asked}
        answer = Toolset(MODELS, expect="optional").call(session, "db_create", given)
        names = ["ABC"[refs.index(ref)] for ref in asked]
        assert [row["name"] for row in answer["rows"]] == names


def test_a_relationship_that_writes_nothing_is_no_part_of_a_draft(
    session: RefSession, conversation: Conversation, tables: Engine
) -> None:
    """It is told with what can be written, in which it is not."""
    Base.metadata.create_all(tables)
    toolset = Toolset([Whole, Piece], expect="optional")
    draft = conversation.draft(Whole, {}).ref
    by_ref = by("id", draft)
    for tool, asked in (
        ("db_update", {"filters": by_ref, "data": {"asked": []}}),
        ("db_create", {"from_draft": draft, "data": {"asked": []}}),
    ):
        error = counted(toolset, session, tool, {"table": "wholes", **asked})["error"]
        assert (error["code"], error["columns"]) == ("unknown_column", ["pieces"])


def test_it_is_not_told_which_table_that_no_model_may_use_is_in_the_way(
    session: RefSession, dishes: Named
) -> None:
    """That there is something must be told, and nothing more."""
    assert "Korma" in dishes
    curry, korma = (by("name", name) for name in ("Curry", "Korma"))
    toolset = Toolset([Dish, Part], expect="optional")
    counted(toolset, session, "db_delete", {"table": "dishes", "filters": curry})
    error = counted(toolset, session, "db_delete", {"table": "dishes", "filters": korma})["error"]

    assert (error["code"], error["referring"]) == ("still_referenced", None)
    assert "serving" not in json.dumps(error)


def test_what_is_restricted_is_still_referenced(session: RefSession, tables: Engine) -> None:
    """By a table that only the database knows; such a constraint has an SQLSTATE of its own."""
    Base.metadata.create_all(tables)
    toolset = Toolset([Whole], expect="optional")
    [row] = toolset.call(session, "db_create", {"table": "wholes", "data": {}})["rows"]
    with tables.begin() as connection:
        connection.exec_driver_sql(
            "create table guards as select id from wholes; "
            "alter table guards add foreign key (id) references wholes on delete restrict"
        )
    asked = {"table": "wholes", "filters": by("id", row["id"])}
    error = counted(toolset, session, "db_delete", asked)["error"]

    assert (error["code"], error["table"]) == ("still_referenced", "wholes")
    assert error["referring"] is None
