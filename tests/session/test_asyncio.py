"""`AsyncRefSession`: what `RefSession` does, awaited, and no I/O outside of it."""

from __future__ import annotations

import asyncio
from inspect import signature
from typing import Any

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import joinedload, selectinload

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    GoneRefError,
    RefRegistry,
    RefSession,
    SetupError,
    UnknownRefError,
)
from tests.fix_asyncio import AsyncSessions
from tests.fix_session import TravelLog
from tests.models import MealPlan, Person, Preference, Recipe

pytestmark = pytest.mark.usefixtures("recipes")


async def by_name(session: AsyncSession) -> list[Recipe]:
    """Read all recipes in the order of their names."""
    return list((await session.scalars(select(Recipe).order_by(Recipe.name))).all())


async def test_attributes_of_what_was_fetched_do_no_io(
    aio: AsyncRefSession, log: TravelLog
) -> None:
    """All keys of a result are minted in one round trip, inside the awaited call."""
    found = await by_name(aio)
    assert log.trips == ["refer"]

    assert [recipe.id for recipe in found] == [f"recipe_{n}" for n in range(1, 6)]
    await by_name(aio)
    assert log.trips == ["refer"]


async def test_setting_a_ref_does_no_io(aio: AsyncRefSession, chat: Conversation) -> None:
    """A ref that this process has not met waits for the flush; one that it has does not."""
    await by_name(aio)
    plan = MealPlan(recipe_id="recipe_1")
    aio.add(plan)
    await aio.commit()
    elsewhere = RefRegistry(store=chat._store).conversation("chat-7")
    async with AsyncRefSession(aio.bind, conversation=elsewhere, expire_on_commit=False) as other:
        met = await other.get_one(MealPlan, "meal_plan_1")
        met.instead_of = "recipe_2"
        assert met.instead_of == "recipe_2"
        met.recipe_id = "recipe_1"
        await other.commit()
        assert (met.recipe_id, met.instead_of) == ("recipe_1", "recipe_2")
        met.instead_of = "recipe_77"
        with pytest.raises(UnknownRefError):
            await other.flush()
    rows = await aio.execute(select(MealPlan.recipe_id, MealPlan.instead_of))
    assert rows.all() == [("recipe_1", "recipe_2")]


async def test_text_keys_that_were_set_twice_are_resolved_once(aio: AsyncRefSession) -> None:
    """A key that the program sees as text is not taken for a ref at the flush."""
    first, second = Person(), Person()
    aio.add_all([first, second])
    await aio.flush()
    assert {first.id, second.id} == {"person_1", "person_2"}
    third = Person(mentor_id="person_1")
    aio.add(third)
    third.mentor_id = "person_2"
    await aio.flush()

    assert (third.id, third.mentor_id) == ("person_3", "person_2")


async def test_related_rows_are_minted_with_their_parents(
    aio: AsyncRefSession, log: TravelLog
) -> None:
    """Eager loads of every kind cost one round trip, and number the parents first."""
    await by_name(aio)
    aio.add_all([MealPlan(recipe_id=f"recipe_{n}") for n in (1, 2, 3)])
    await aio.commit()
    for option in (selectinload(Recipe.plans), joinedload(Recipe.plans)):
        fresh = RefRegistry(store=log).conversation(f"another-{len(log.trips)}")
        log.trips.clear()
        async with AsyncRefSession(aio.bind, conversation=fresh) as session:
            statement = select(Recipe).order_by(Recipe.name).options(option)
            found = (await session.scalars(statement)).unique().all()
            assert [r.id for r in found] == [f"recipe_{n}" for n in range(1, 6)]
            assert [p.id for r in found for p in r.plans] == [f"meal_plan_{n}" for n in (1, 2, 3)]
        assert log.trips == ["refer"]


async def test_rows_and_instances_of_one_result_cost_one_round_trip(
    aio: AsyncRefSession, log: TravelLog
) -> None:
    """A result may have both, of different entities."""
    await by_name(aio)
    aio.add(MealPlan(recipe_id="recipe_1"))
    await aio.commit()
    fresh = RefRegistry(store=log).conversation("another")
    log.trips.clear()
    async with AsyncRefSession(aio.bind, conversation=fresh) as session:
        statement = select(Recipe, MealPlan.id).join(MealPlan.recipe)
        [(recipe, plan)] = (await session.execute(statement)).all()
        assert (recipe.id, plan) == ("recipe_1", "meal_plan_1")
    assert log.trips == ["refer"]


async def test_awaitable_loads_are_minted_too(aio: AsyncRefSession) -> None:
    """`refresh`, a lazy load in `run_sync` and an expired attribute leave nothing to be minted."""
    await by_name(aio)
    aio.add(MealPlan(recipe_id="recipe_1"))
    await aio.commit()
    aio.expunge_all()
    recipe = await aio.get_one(Recipe, "recipe_1")
    plans = await aio.run_sync(lambda _: recipe.plans)
    assert [plan.id for plan in plans] == ["meal_plan_1"]
    aio.expire(recipe)
    await aio.refresh(recipe, ["id", "parent_recipe_id"])
    assert (recipe.id, recipe.parent_recipe_id) == ("recipe_1", None)
    await aio.refresh(recipe, ["plans"])
    assert [plan.recipe_id for plan in recipe.plans] == ["recipe_1"]


async def test_keys_that_others_wrote_are_minted_when_refreshed(
    aio: AsyncRefSession, async_engine: AsyncEngine, recipes: list[Recipe]
) -> None:
    """An instance that was there already shows what a later fetch put into it."""
    first = await aio.scalar(select(Recipe).where(Recipe.name == "A"))
    assert first is not None
    await aio.commit()
    async with AsyncSession(async_engine) as plain:
        await plain.execute(update(Recipe).values(parent_recipe_id=recipes[4].id))
        await plain.commit()
    aio.expire(first)

    await aio.scalars(select(Recipe).where(Recipe.name == "A"))

    assert (first.id, first.parent_recipe_id) == ("recipe_1", "recipe_2")


async def test_a_stream_is_minted_chunk_by_chunk(aio: AsyncRefSession, log: TravelLog) -> None:
    """Instances and rows of a stream cost one round trip a chunk."""
    statement = select(Recipe).order_by(Recipe.name).execution_options(yield_per=2)
    seen = [recipe.id async for recipe in await aio.stream_scalars(statement)]
    assert seen == [f"recipe_{n}" for n in range(1, 6)]
    assert log.trips == ["refer"] * 3

    rows = await aio.stream(select(Recipe.__table__.c.id).execution_options(yield_per=2))
    assert sorted([row.id async for row in rows]) == seen
    parts = (await aio.stream(select(Recipe.id).order_by(Recipe.name))).scalars().partitions(2)
    assert [list(part) async for part in parts] == [seen[:2], seen[2:4], seen[4:]]
    assert log.trips == ["refer"] * 3


async def test_deletions_and_rollbacks_are_noted(aio: AsyncRefSession) -> None:
    """What became of a row is told inside the awaited commit or rollback."""
    lost = Recipe(name="lost")
    aio.add(lost)
    await aio.flush()
    assert lost.id == "recipe_1"
    await aio.rollback()
    with pytest.raises(GoneRefError, match="'recipe_1' was never saved"):
        await aio.get(Recipe, "recipe_1")
    [first, *_] = await by_name(aio)
    await aio.delete(first)
    await aio.commit()
    with pytest.raises(GoneRefError, match="'recipe_2' was deleted"):
        await aio.get(Recipe, "recipe_2")


async def test_arrays_wait_for_the_flush_too(aio: AsyncRefSession) -> None:
    """A list of refs is resolved element by element, in the flush."""
    await by_name(aio)
    preference = Preference(favourites=["recipe_2"])
    aio.add(preference)
    await aio.commit()
    preference.favourites = ["recipe_1", *preference.favourites]
    await aio.commit()

    assert preference.favourites == ["recipe_1", "recipe_2"]


async def test_two_tasks_in_two_conversations_do_not_mix(
    async_sessions: AsyncSessions, log: TravelLog
) -> None:
    """Two sessions of two conversations take turns, and each shows its own refs."""
    registry = RefRegistry(store=log)

    async def read(conversation: str, names: str) -> dict[str, Any]:
        shown = {}
        async with async_sessions(conversation=registry.conversation(conversation)) as session:
            for name in names:
                recipe = await session.scalar(select(Recipe).where(Recipe.name == name))
                assert recipe is not None
                shown[name] = recipe.id
                await asyncio.sleep(0)
                assert await session.get(Recipe, recipe.id) is recipe
        return shown

    one, two = await asyncio.gather(read("one", "ABCDE"), read("two", "EDCBA"))

    assert one == {name: f"recipe_{n}" for n, name in enumerate("ABCDE", start=1)}
    assert two == {name: f"recipe_{n}" for n, name in enumerate("EDCBA", start=1)}


async def test_many_tasks_mint_in_one_conversation(
    async_sessions: AsyncSessions, chat: Conversation
) -> None:
    """A task waits for another's lock without blocking the loop: no deadlock, the same refs."""

    async def read() -> list[str]:
        async with async_sessions(conversation=chat) as session:
            return [recipe.id for recipe in await by_name(session)]

    assert (
        await asyncio.gather(*(read() for _ in range(8)))
        == [[f"recipe_{n}" for n in range(1, 6)]] * 8
    )


async def test_raw_keys_are_there_for_trusted_code(
    aio: AsyncRefSession, recipes: list[Recipe]
) -> None:
    """Inside the `with` keys are shown; what was loaded there shows refs outside."""
    with aio.raw_keys():
        found = await by_name(aio)
        assert [recipe.id for recipe in found] == [recipe.id for recipe in recipes]
    assert [recipe.id for recipe in found] == [f"recipe_{n}" for n in range(1, 6)]
    raw = await aio.scalars(select(Recipe.id), execution_options={"raw_keys": True})
    assert set(raw) == {recipe.id for recipe in recipes}


async def test_conversations_work_inside_an_awaited_call(
    aio: AsyncRefSession, chat: Conversation, recipes: list[Recipe]
) -> None:
    """Outside of one there is no I/O to be had, and the error says what to do."""
    with pytest.raises(SetupError, match=r"run_sync\(\)"):
        chat.refer(Recipe, recipes[0].id)
    assert await aio.run_sync(lambda _: chat.refer(Recipe, recipes[0].id)) == "recipe_1"
    assert aio.conversation is chat


async def test_tables_are_made_by_metadata(async_engine: AsyncEngine, tables: Engine) -> None:
    """`run_sync` on a connection makes the registry's tables."""
    registry = RefRegistry(async_engine)
    registry.metadata.drop_all(tables)
    async with async_engine.begin() as connection:
        await connection.run_sync(registry.metadata.create_all)
    async with AsyncRefSession(async_engine, conversation="chat-7", registry=registry) as session:
        assert (await by_name(session))[0].id == "recipe_1"


async def test_without_conversation_it_is_a_plain_session(
    async_sessions: AsyncSessions, recipes: list[Recipe]
) -> None:
    """No conversation, no translation."""
    async with async_sessions() as session:
        with session.raw_keys():
            assert (await by_name(session))[0].id == recipes[0].id
        assert session.conversation is None
    with pytest.raises(SetupError, match="registry="):
        async_sessions(conversation="chat-7")


@pytest.mark.once
def test_it_is_made_as_the_other_is() -> None:
    """With the same arguments, which the reference tells."""
    assert signature(AsyncRefSession).parameters == signature(RefSession).parameters
