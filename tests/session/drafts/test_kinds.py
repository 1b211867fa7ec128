"""Drafts of all kinds of keys and classes, asynchronous sessions, and ways that save none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, delete, func, insert, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation, DraftRefError, RefSession
from tests.fix_asyncio import AsyncSessions
from tests.models import Box, Cook, Order, OrderLine, Person, Recipe
from tests.session.drafts.rows_and_drafts import names, pending

pytestmark = pytest.mark.usefixtures("one_base")


def test_integer_keys_come_from_the_tables_sequence(
    session: RefSession, conversation: Conversation, tables: Engine
) -> None:
    """And numbers that were inserted beside it are not taken for the draft's row."""
    with tables.begin() as connection:
        connection.execute(insert(Order), [{"id": 1, "number": 7}, {"id": 3, "number": 7}])
    refs = [conversation.draft(Order, {"number": n}).ref for n in (1, 2)]
    orders = [session.get_one(Order, ref) for ref in refs]
    session.add_all([OrderLine(order_id=refs[0], position=1), *orders])
    session.commit()

    with Session(tables) as plain:
        saved = {order.id: order.number for order in plain.scalars(select(Order))}
        assert saved == {1: 7, 3: 7, 2: 1, 4: 2}
        assert plain.scalars(select(OrderLine.order_id)).all() == [2]
    assert pending(conversation) == []


def test_a_joined_subclass_is_saved_with_its_base(
    session: RefSession, conversation: Conversation
) -> None:
    """As the class that was drafted, whichever class it is asked for by."""
    ref = conversation.draft(Cook, {"stars": 2}).ref
    cook = session.get_one(Person, ref)
    apprentice = Person(kind="person", mentor_id=ref)
    session.add_all([apprentice, cook])
    session.commit()

    assert isinstance(cook, Cook)
    assert (cook.id, cook.stars, cook.kind) == ("person_1", 2, "cook")
    assert apprentice.mentor_id == "person_1"


def test_keys_that_the_program_makes_are_asked_for(
    session: RefSession, conversation: Conversation
) -> None:
    """By the column's default, with the type that it has."""
    ref = conversation.draft(Box, {"label": "x"}).ref
    session.add(Box(inside=ref, label="y"))
    session.add(session.get(Box, ref))
    session.commit()

    assert {box.label: box.inside for box in session.scalars(select(Box))} == {
        "x": None,
        "y": session.get_one(Box, ref).id,
    }


@pytest.mark.parametrize(
    "way",
    [
        lambda s, ref: s.bulk_save_objects([Recipe(id=ref, name="x")]),
        lambda s, ref: s.bulk_insert_mappings(Recipe, [{"id": ref, "name": "x"}]),
        lambda s, ref: s.execute(insert(Recipe).values(id=ref, name="x")),
        lambda s, ref: s.execute(insert(Recipe), [{"id": ref, "name": "x"}]),
        lambda s, ref: s.merge(Recipe(id=ref, name="x")),
        lambda s, ref: s.execute(delete(Recipe).where(Recipe.id == ref)),
        lambda s, ref: s.scalar(select(func.count()).where(Recipe.parent_recipe_id == ref)),
    ],
)
def test_session_api_that_save_no_drafts_refuse_them(
    session: RefSession,
    conversation: Conversation,
    soup: str,
    tables: Engine,
    way: Callable[[RefSession, str], object],
) -> None:
    """The unit of work saves drafts, and nothing else does."""
    with pytest.raises(DraftRefError, match="save the draft and use the ref it gets"):
        way(session, soup)
    session.rollback()

    assert (names(tables), pending(conversation)) == ([], [soup])


async def test_drafts_in_an_asynchronous_session(
    async_sessions: AsyncSessions, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """Each step is done inside an awaited call."""
    async with async_sessions(conversation=conversation) as session:
        recipe = await session.get_one(Recipe, soup)
        child = Recipe(name="Child", parent_recipe_id=soup)
        session.add_all([child, recipe])
        await session.flush()
        await session.rollback()
        assert recipe.id == soup
        session.add_all([child, recipe])
        await session.commit()
        await session.refresh(child)
        found = await session.get_one(Recipe, soup)
        assert (found.name, child.parent_recipe_id) == ("Soup", found.id)

    assert names(tables) == ["Child", "Soup"]
