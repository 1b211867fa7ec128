"""Refs of rows that were deleted elsewhere are reported at their first use, unlike hidden rows."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import Conversation, RefSession
from alfred_refs.tools import Hooks, Toolset
from alfred_refs.tools.hooks import Reading, Writing
from tests.models import Order, OrderLine
from tests.row_status import hiding, status_of
from tests.tools.conftest import MODELS, Call, by, save
from tests.tools.models import Dish

Named = dict[str, uuid.UUID]


def refs_of(call: Call) -> dict[str, str]:
    """Read all dishes, and return their refs by name."""
    return {row["name"]: row["id"] for row in call("db_read", table="dishes")["rows"]}


def delete(tables: Engine, *keys: uuid.UUID) -> None:
    """Delete dishes as another client does."""
    with tables.begin() as connection:
        for key in keys:
            connection.execute(text("delete from parts where dish_id = :key"), {"key": key})
            connection.execute(text("delete from dishes where id = :key"), {"key": key})


USES: dict[str, Any] = {
    "read": ("db_read", lambda ref: {"filters": by("id", ref)}),
    "read among others": ("db_read", lambda ref: {"filters": by("id", [ref, "dish_1"], "in")}),
    "read by or": ("db_read", lambda ref: {"or_filters": [*by("id", ref), *by("name", "Korma")]}),
    "read by another": ("db_read", lambda ref: {"filters": by("parent_id", ref)}),
    "read by a path": ("db_read", lambda ref: {"filters": by("parent.parent_id", ref)}),
    "update": ("db_update", lambda ref: {"filters": by("id", ref), "data": {"servings": 1}}),
    "update by another": (
        "db_update",
        lambda ref: {"filters": by("parent_id", ref), "data": {"servings": 1}},
    ),
    "delete": ("db_delete", lambda ref: {"filters": by("id", ref)}),
}


@pytest.mark.parametrize("use", USES)
def test_a_row_that_went_says_so_at_its_first_use(
    call: Call, dishes: Named, tables: Engine, conversation: Conversation, use: str
) -> None:
    """However the row is asked for, and to every process from then on."""
    refs = refs_of(call)
    delete(tables, dishes["Soup"])
    tool, arguments = USES[use]
    error = call(tool, table="dishes", **arguments(refs["Soup"]))["error"]

    assert (error["code"], error["ref"]) == ("gone_ref", refs["Soup"])
    assert error["message"].startswith(f"{refs['Soup']!r} was deleted and cannot be used")
    assert refs["Soup"] not in error["known"]
    assert status_of(conversation, refs["Soup"]) == "was deleted"
    unknown = call("db_read", table="dishes", filters=by("id", "dish_99"))["error"]
    assert refs["Soup"] not in json.dumps(unknown)


def test_a_row_that_is_there_is_not_gone_for_a_filter(
    call: Call, dishes: Named, sent: list[str]
) -> None:
    """It is looked for by its key alone, once, by a call that finds nothing.

    What a call sends has keys by then, so its session has no refs to look for.
    """
    refs = refs_of(call)
    both = [*by("id", refs["Soup"]), *by("name", "Korma")]
    for tool, asked in (
        ("db_read", {"filters": both}),
        ("db_update", {"filters": both, "data": {"servings": 3}}),
        ("db_delete", {"filters": both}),
        ("db_read", {"filters": by("parent_id", refs["Soup"])}),
        ("db_read", {"filters": [{"not": by("id", refs["Soup"])[0]}, *by("name", "x")]}),
    ):
        sent.clear()
        answer = call(tool, table="dishes", **asked)
        assert answer["count"] == 0
        assert len([each for each in sent if " dishes" in each]) == 2
    sent.clear()
    assert call("db_read", table="dishes", filters=by("id", refs["Soup"]))["count"] == 1
    assert len([each for each in sent if "FROM dishes" in each]) == 1
    del dishes


def test_what_an_application_hides_is_not_gone(
    session: RefSession, dishes: Named, conversation: Conversation
) -> None:
    """As with rows that are deleted by a mark."""

    class Hiding(Hooks):
        def before_read(self, read: Reading) -> None:
            read.conditions.append(Dish.name != "Soup")

        def before_write(self, write: Writing) -> None:
            del write

    seen = Toolset(MODELS).call(session, "db_read", {"table": "dishes"})["rows"]
    [soup] = [row["id"] for row in seen if row["name"] == "Soup"]
    toolset = Toolset(MODELS, hooks={Dish: [Hiding()]})
    answer = toolset.call(session, "db_read", {"table": "dishes", "filters": by("id", soup)})
    assert (answer["rows"], answer["count"]) == ([], 0)
    assert conversation.resolve(soup) == dishes["Soup"]


def test_what_the_database_hides_is_not_known(
    call: Call, dishes: Named, tables: Engine, conversation: Conversation
) -> None:
    """By row-level security: nothing is recorded, and the model is told that it may be so."""
    refs = refs_of(call)
    with (
        hiding(tables, "dishes", "name <> 'Soup'") as engine,
        RefSession(engine, conversation=conversation) as session,
    ):
        arguments = {"table": "dishes", "filters": by("id", refs["Soup"])}
        for tool in ("db_read", "db_delete"):
            answer = Toolset(MODELS).call(session, tool, arguments)
            assert answer["count"] == 0
            assert f"'{refs['Soup']}': the database may hide" in answer["notes"][0]
    assert conversation.resolve(refs["Soup"]) == dishes["Soup"]


def test_what_a_view_hides_is_not_known(
    session: RefSession, dishes: Named, tables: Engine, conversation: Conversation
) -> None:
    """By what it selects; the model is told so."""

    class Plain(DeclarativeBase):
        """Of this test."""

    class ShownDish(Plain):
        __tablename__ = "shown_dishes"
        id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
        name: Mapped[str]

    with tables.begin() as connection:
        connection.execute(text("create view shown_dishes as select id, name from dishes"))
    toolset = Toolset([ShownDish])
    seen = toolset.call(session, "db_read", {"table": "shown_dishes"})["rows"]
    [soup] = [row["id"] for row in seen if row["name"] == "Soup"]
    with tables.begin() as connection:
        connection.execute(
            text(
                "create or replace view shown_dishes as select id, name from dishes "
                "where name <> 'Soup'"
            )
        )

    answer = toolset.call(session, "db_read", {"table": "shown_dishes", "filters": by("id", soup)})

    assert answer["notes"] == [f"'{soup}': the database may hide what these name"]
    assert conversation.resolve(soup) == dishes["Soup"]


def test_what_the_program_has_not_committed_is_not_recorded(
    call: Call, dishes: Named, session: RefSession, conversation: Conversation
) -> None:
    """The model is told what is so in the transaction; undone, the row is there."""
    refs = refs_of(call)
    session.begin()
    session.execute(text("delete from dishes where name = 'Soup'"))
    error = call("db_read", table="dishes", filters=by("id", refs["Soup"]))["error"]
    assert error["code"] == "gone_ref"
    session.rollback()
    assert conversation.resolve(refs["Soup"]) == dishes["Soup"]
    assert call("db_read", table="dishes", filters=by("id", refs["Soup"]))["count"] == 1


def test_a_row_of_several_keys_that_went_says_so(session: RefSession, tables: Engine) -> None:
    """Its ref is in `_ref`."""
    save(tables, Order(id=1, number=1), *(OrderLine(order_id=1, position=n) for n in (1, 2)))
    toolset = Toolset([Order, OrderLine])
    rows = toolset.call(session, "db_read", {"table": "order_lines"})["rows"]
    with tables.begin() as connection:
        connection.execute(text("delete from order_lines where position = 2"))
    asked = {"table": "order_lines", "filters": by("_ref", rows[1]["_ref"])}
    for tool in ("db_read", "db_delete"):
        error = toolset.call(session, tool, asked)["error"]
        assert (error["code"], error["ref"]) == ("gone_ref", rows[1]["_ref"])
    assert toolset.call(session, "db_read", {"table": "order_lines"})["count"] == 1


def test_a_row_that_came_back_is_shown(call: Call, dishes: Named, tables: Engine) -> None:
    """By the ref that it had."""
    refs = refs_of(call)
    delete(tables, dishes["Soup"])
    assert "error" in call("db_read", table="dishes", filters=by("id", refs["Soup"]))
    save(tables, Dish(id=dishes["Soup"], name="Soup"))
    assert refs_of(call) == refs
    assert call("db_read", table="dishes", filters=by("id", refs["Soup"]))["count"] == 1
