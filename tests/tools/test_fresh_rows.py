"""Rows are what the database has, though the program holds them as they once were."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text, update
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import AsyncRefSession, Conversation, Ownership, RefSession
from alfred_refs.tools import Toolset
from tests import owned
from tests.fix_owned import World
from tests.tools.conftest import Call, anns
from tests.tools.models import Dish, Part

Named = dict[str, Any]

KORMA = [{"field": "id", "op": "=", "value": "dish_1"}]
STALE: list[Named] = [{"expect": "Korma"}, {"expect": {"name": "Korma"}}, {"expect": {"spice": 1}}]
TRUE: list[Named] = [{"expect": "Dal"}, {"expect": {"name": "Dal", "spice": 2}}]
WRITES: list[tuple[str, Named]] = [("db_update", {"data": {"servings": 9}}), ("db_delete", {})]


def asked_for(expected: list[Named]) -> list[tuple[str, Named]]:
    """Return each write with each of what may be expected."""
    return [(tool, {**asked, **expect}) for tool, asked in WRITES for expect in expected]


def elsewhere(engine: Engine, statement: Any) -> None:
    """Execute a statement on another connection, and commit it."""
    with engine.begin() as connection:
        connection.execute(statement)


@pytest.fixture
def held(session: RefSession, dishes: Named, tables: Engine) -> Dish:
    """A dish that the program holds, and that somebody else has given another name and spice."""
    elsewhere(tables, update(Dish).where(Dish.name == "Korma").values(spice=1))
    held = session.scalars(select(Dish).where(Dish.name == "Korma")).one()
    assert (held.id, held.spice, len(dishes)) == ("dish_1", 1, 5)
    elsewhere(tables, update(Dish).where(Dish.name == "Korma").values(name="Dal", spice=2))
    assert held.name == "Korma"
    return held


@pytest.mark.parametrize(("tool", "asked"), asked_for(STALE))
def test_what_is_expected_is_held_against_the_row_and_not_the_object(
    call: Call, held: Dish, tables: Engine, tool: str, asked: Named
) -> None:
    """Otherwise a row would be changed, or go, that the model takes for another."""
    error = call(tool, table="dishes", filters=KORMA, **asked)["error"]

    assert (error["code"], error["ref"]) == ("unexpected_row", "dish_1")
    assert error["actual"] == (2 if error["column"] == "spice" else "Dal")
    with Session(tables) as plain:
        assert plain.scalars(select(Dish.servings).where(Dish.name == "Dal")).one() == 4
    assert held is not None


@pytest.mark.parametrize(("tool", "asked"), asked_for(TRUE))
def test_what_the_row_has_now_may_be_expected(
    call: Call, held: Dish, tables: Engine, tool: str, asked: Named
) -> None:
    """Though the object of the program says something else."""
    elsewhere(tables, text("delete from servings"))  # what refers to the dish
    elsewhere(tables, text("update dishes set parent_id = null"))

    assert call(tool, table="dishes", filters=KORMA, **asked)["count"] == 1
    assert held is not None


def test_a_session_that_keeps_its_objects_after_a_commit_looks_anew(
    sessions: sessionmaker[RefSession],
    conversation: Conversation,
    toolset: Toolset,
    dishes: Named,
    tables: Engine,
) -> None:
    """`expire_on_commit=False` leaves them as they were read, without a transaction."""
    with sessions(conversation=conversation, expire_on_commit=False) as session:
        held = session.scalars(select(Dish).where(Dish.name == "Korma")).one()
        assert (held.id, len(dishes)) == ("dish_1", 5)
        session.commit()
        elsewhere(tables, update(Dish).where(Dish.name == "Korma").values(name="Dal"))
        for tool, arguments in WRITES:
            held.__dict__["name"] = "Korma"  # as it was read
            asked = {"table": "dishes", "filters": KORMA, **arguments, "expect": "Korma"}
            assert toolset.call(session, tool, asked)["error"]["actual"] == "Dal"
        held.__dict__["name"] = "Korma"
        [row] = toolset.call(session, "db_read", {"table": "dishes", "filters": KORMA})["rows"]
        assert row["name"] == "Dal"


@pytest.mark.parametrize("columns", [None, ["name"], ["name", "parts.note"]])
def test_a_read_shows_the_row_and_not_the_object(
    session: RefSession, toolset: Toolset, tables: Engine, columns: list[str] | None, held: Dish
) -> None:
    """Nor objects of related rows."""
    parts = [part.note for part in held.parts]
    elsewhere(tables, update(Part).values(note="new"))
    asked = {"table": "dishes", "filters": KORMA, "columns": columns}
    [row] = toolset.call(session, "db_read", asked)["rows"]

    assert (row["name"], parts) == ("Dal", ["rice", "sauce"])
    if columns is not None and len(columns) > 1:
        assert [part["note"] for part in row["parts"]] == ["new", "new"]


def test_the_next_page_begins_after_the_row_as_it_is(
    session: RefSession, toolset: Toolset, held: Dish
) -> None:
    """The cursor says what the row has, by which it was put in order."""
    question = {"table": "dishes", "order_by": "name", "columns": ["name"]}
    first = toolset.call(session, "db_read", {**question, "limit": 2})
    rest = toolset.call(session, "db_read", {**question, "cursor": first["cursor"]})

    names = [row["name"] for row in [*first["rows"], *rest["rows"]]]
    assert (names, held.id) == (["Curry", "Dal", "Soup"], "dish_1")


def test_drafts_stand_before_rows_as_they_are(
    session: RefSession, conversation: Conversation, toolset: Toolset, held: Dish
) -> None:
    """Which are read anew, where the object would be at hand."""
    draft = conversation.draft(Dish, {"name": "Ghee"}).ref
    named = {"field": "id", "op": "in", "value": ["dish_1", draft]}
    asked = {"table": "dishes", "filters": [named], "order_by": "name", "columns": ["name"]}
    rows = toolset.call(session, "db_read", asked)["rows"]

    assert ([row["name"] for row in rows], held.id) == (["Ghee", "Dal"], "dish_1")


SHOUT = """
create function shout() returns trigger language plpgsql as
'begin new.name := upper(new.name); return new; end';
create trigger shout before insert or update on dishes for each row execute function shout()
"""


def test_what_was_written_is_shown_as_the_database_has_it(
    session: RefSession, conversation: Conversation, toolset: Toolset, tables: Engine
) -> None:
    """Where a trigger has the last word, it differs from what the objects have."""
    elsewhere(tables, text(SHOUT))
    new = toolset.call(session, "db_create", {"table": "dishes", "data": {"name": "dal"}})
    data = {"table": "dishes", "filters": KORMA, "data": {"name": "dahl"}}
    changed = toolset.call(session, "db_update", data)
    draft = conversation.draft(Dish, {"name": "raita"}).ref
    saved = toolset.call(session, "db_create", {"table": "dishes", "from_draft": draft})

    assert [each["rows"][0]["name"] for each in (new, changed, saved)] == ["DAL", "DAHL", "RAITA"]


def test_a_draft_that_was_saved_before_is_answered_with_its_row_as_it_is(
    session: RefSession, conversation: Conversation, toolset: Toolset, tables: Engine
) -> None:
    """A call that is repeated tells what became of the row meanwhile."""
    draft = conversation.draft(Dish, {"name": "Raita"}).ref
    toolset.call(session, "db_create", {"table": "dishes", "from_draft": draft})
    held = session.get_one(Dish, draft)
    assert held.name == "Raita"
    elsewhere(tables, update(Dish).values(name="Dal"))
    again = toolset.call(session, "db_create", {"table": "dishes", "from_draft": draft})

    assert (again["rows"][0]["name"], again["saved"]) == ("Dal", {draft: "dish_1"})


def test_a_write_locks_what_it_was_told_to_expect(
    session: RefSession, toolset: Toolset, held: Dish, tables: Engine
) -> None:
    """Nobody changes the row between the look at it and the end of the transaction."""
    asked = {"table": "dishes", "filters": KORMA, "data": {"servings": 9}, "expect": "Dal"}
    looked: list[str] = []

    def look(*_: object) -> None:
        with tables.connect() as other:
            free = text("select name from dishes where name = 'Dal' for update skip locked")
            looked.extend(other.scalars(free))

    event.listen(session, "before_flush", look)
    assert toolset.call(session, "db_update", asked)["count"] == 1
    assert (looked, held.id) == ([], "dish_1")


# Asynchronous sessions, and those that have an owner


async def test_an_asynchronous_session_looks_anew(
    aio: AsyncRefSession, toolset: Toolset, dishes: Named, tables: Engine
) -> None:
    """In a transaction of the program's and outside of one."""
    held = (await aio.scalars(select(Dish).where(Dish.name == "Korma"))).one()
    for in_transaction, name in ((True, "Dal"), (False, "Dahl")):
        if not in_transaction:
            await aio.commit()
        elsewhere(tables, update(Dish).where(Dish.id == dishes["Korma"]).values(name=name))
        for tool, arguments in WRITES:
            held.__dict__["name"] = "Korma"  # as it was read
            asked = {"table": "dishes", "filters": KORMA, **arguments, "expect": "Korma"}
            answer = await toolset.call_async(aio, tool, asked)
            assert (answer["error"]["code"], answer["error"]["actual"]) == ("unexpected_row", name)
        held.__dict__["name"] = "Korma"
        read = await toolset.call_async(aio, "db_read", {"table": "dishes", "filters": KORMA})
        assert read["rows"][0]["name"] == name


PLAN = [{"field": "id", "op": "=", "value": "plan_1"}]
OWNED_WRITES: list[tuple[str, Named]] = [("db_update", {"data": {"day": 9}}), ("db_delete", {})]


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_session_with_an_owner_looks_anew(
    owned_engine: Engine, world: World, ownership: Ownership, in_transaction: bool
) -> None:
    """Its statements are confined, and the rows are the database's all the same."""
    tools = Toolset([owned.Recipe, owned.Plan], owner=ownership)
    given = anns(world, ownership)
    with RefSession(owned_engine, expire_on_commit=False, **given) as session:
        held = session.scalars(select(owned.Plan)).one()
        if not in_transaction:
            session.commit()
        elsewhere(owned_engine, update(owned.Plan).values(day=5))
        for tool, arguments in OWNED_WRITES:
            held.__dict__["day"] = 1  # as it was read
            asked = {"table": "plans", "filters": PLAN, **arguments, "expect": {"day": 1}}
            error = tools.call(session, tool, asked)["error"]
            assert (error["code"], error["actual"]) == ("unexpected_row", 5)
        held.__dict__["day"] = 1
        [row] = tools.call(session, "db_read", {"table": "plans"})["rows"]
        assert (row["day"], held.code) == (5, "ann")


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_an_asynchronous_session_with_an_owner_looks_anew(
    owned_engine: Engine, world: World, ownership: Ownership, driver: str
) -> None:
    """By each driver."""
    tools = Toolset([owned.Recipe, owned.Plan], owner=ownership)
    engine = create_async_engine(owned_engine.url.set(drivername=f"postgresql+{driver}"))
    given = anns(world, ownership)
    async with AsyncRefSession(engine, expire_on_commit=False, **given) as session:
        held = (await session.scalars(select(owned.Plan))).one()
        elsewhere(owned_engine, update(owned.Plan).values(day=5))
        for tool, arguments in OWNED_WRITES:
            held.__dict__["day"] = 1  # as it was read
            asked = {"table": "plans", "filters": PLAN, **arguments, "expect": {"day": 1}}
            error = (await tools.call_async(session, tool, asked))["error"]
            assert (error["code"], error["actual"]) == ("unexpected_row", 5)
        held.__dict__["day"] = 1
        [row] = (await tools.call_async(session, "db_read", {"table": "plans"}))["rows"]
        assert (row["day"], held.code) == (5, "ann")
    await engine.dispose()
