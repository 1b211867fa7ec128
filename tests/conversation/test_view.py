"""What a session has met: readable for its instances as long as they live, let go otherwise."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, Select, insert, select
from sqlalchemy.orm import Session, selectinload, sessionmaker

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    GoneRefError,
    RefRegistry,
    RefSession,
    UnknownRefError,
)
from alfred_refs.conversation import alternates
from alfred_refs.session.instances import Boundary
from alfred_refs.store.memory import MemoryStore
from tests.fix_asyncio import AsyncSessions
from tests.fix_session import TravelLog
from tests.models import MealPlan, Preference, Recipe

CAPACITY = 20
MANY = 400

BY_NAME = select(Recipe).order_by(Recipe.name)
CHUNKS = BY_NAME.execution_options(yield_per=10)
PAIRS = (
    select(MealPlan.id, MealPlan.recipe_id, Recipe.name)
    .join(MealPlan.recipe)
    .order_by(Recipe.name)
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of twenty mappings, and few instances remembered before looking who lives."""
    monkeypatch.setattr("alfred_refs.conversation.registry.CAPACITY", CAPACITY)
    monkeypatch.setattr("alfred_refs.session.instances._FEW", 10)


@pytest.fixture(autouse=True)
def keys(tables: Engine) -> list[uuid.UUID]:
    """The keys of many recipes, named by their numbers, each with a meal plan."""
    keys = [uuid.UUID(int=number) for number in range(1, MANY + 1)]
    with Session(tables) as plain, plain.begin():
        plain.execute(
            insert(Recipe), [{"id": key, "name": f"{n:03}"} for n, key in enumerate(keys, 1)]
        )
        plain.execute(insert(MealPlan), [{"recipe_id": key} for key in keys])
    return keys


def ref(recipe: Recipe) -> str:
    """Return the ref of a recipe if they are numbered in the order of their names."""
    return f"recipe_{int(recipe.name)}"


def kept(conversation: Conversation | None) -> int:
    """Return how many mappings this process has of a conversation."""
    assert conversation is not None
    return sum(map(len, conversation._caches._in_use()))


def boundary(session: RefSession) -> Boundary:
    """Return what the instances of a session belong to."""
    assert session._boundary is not None
    return session._boundary


# A session reads on and on


def test_a_stream_of_instances_leaves_nothing_behind(
    session: RefSession, store: TravelLog
) -> None:
    """The right refs, one round trip a chunk, and no more kept than caches have room for."""
    for recipe in session.scalars(CHUNKS):
        assert recipe.id == ref(recipe)
        assert kept(session.conversation) <= 2 * CAPACITY

    assert len(boundary(session)._instances._known) <= CAPACITY
    assert store.trips == ["refer"] * (MANY // 10)


def test_a_stream_of_rows_leaves_nothing_behind(session: RefSession, store: TravelLog) -> None:
    """Two keys a row: a chunk is met in one round trip, also one that changes caches."""
    for n, row in enumerate(session.execute(PAIRS.execution_options(yield_per=7)), start=1):
        assert row == (f"meal_plan_{n}", f"recipe_{n}", f"{n:03}")
        assert kept(session.conversation) <= 2 * (CAPACITY + 14)

    assert store.trips == ["refer"] * (MANY // 7 + 1)


async def test_an_async_stream_leaves_nothing_behind(aio: AsyncRefSession, log: TravelLog) -> None:
    """One round trip a chunk, in the awaited fetch."""
    async for recipe in await aio.stream_scalars(CHUNKS):
        assert recipe.id == ref(recipe)
        assert kept(aio.conversation) <= 2 * (CAPACITY + 10)

    assert log.trips == ["refer"] * (MANY // 10)


async def test_caches_do_not_change_in_the_midst_of_a_fetch(
    aio: AsyncRefSession, log: TravelLog
) -> None:
    """What `selectinload()` reads for a chunk is met with it, in the one trip of the chunk."""
    chunks = CHUNKS.options(selectinload(Recipe.plans))
    async for recipe in await aio.stream_scalars(chunks):
        assert [plan.recipe_id for plan in recipe.plans] == [ref(recipe)]

    assert log.trips == ["refer"] * (MANY // 10)


def test_a_session_that_holds_little_goes_on_in_the_cache_that_all_share(
    session: RefSession, sessions: sessionmaker[RefSession], store: TravelLog
) -> None:
    """What it has met last costs others no round trip."""
    streamed = session.scalars(BY_NAME.with_only_columns(Recipe.id).execution_options(yield_per=7))
    last = list(streamed)[-1]
    store.trips.clear()

    with sessions(conversation=session.conversation) as other:
        assert other.scalars(select(Recipe.id).where(Recipe.name == f"{MANY}")).one() == last
    assert store.trips == []


@pytest.mark.slow
def test_refs_that_go_in_leave_nothing_behind(session: RefSession, keys: list[uuid.UUID]) -> None:
    """In criteria, in `get()`, and in objects that are added and flushed."""
    conversation = session.conversation
    assert conversation is not None
    conversation.refer_all(Recipe, keys)
    for n in range(1, MANY - 2, 3):
        found = session.scalars(select(Recipe.name).where(Recipe.id == f"recipe_{n}")).one()
        assert found == f"{n:03}"
        assert session.get_one(Recipe, f"recipe_{n + 1}").name == f"{n + 1:03}"
        session.add(MealPlan(recipe_id=f"recipe_{n + 2}"))
        session.flush()
        session.expunge_all()

        assert kept(conversation) <= 2 * (CAPACITY + 3)


def test_values_of_alternate_keys_are_let_go_too(
    session: RefSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked up for one chunk is not kept for ever in a transaction that goes on."""
    monkeypatch.setattr(alternates, "_CAPACITY", 10)
    looked_up = boundary(session).conversation.alternates
    looked_up.rows["value of a column"] = dict.fromkeys(range(10), 1)
    boundary(session).make_room()
    assert looked_up.rows
    looked_up.rows["value of a column"][10] = 1
    boundary(session).make_room()
    assert not looked_up.rows


# Its instances


def test_what_instances_show_stays_readable(session: RefSession, store: TravelLog) -> None:
    """All that live, in the session or out of it, while caches come and go; after it closed."""
    stream = iter(session.scalars(CHUNKS))
    first = next(stream)
    held = [(first, first.id)]
    session.expunge(first)
    held += [(each, each.id) for n, each in enumerate(stream) if n % 20 == 0]
    store.trips.clear()

    assert [recipe.id for recipe, _ in held] == [shown for _, shown in held]
    session.close()
    assert [recipe.id for recipe, _ in held] == [shown for _, shown in held]
    assert store.trips == []
    assert kept(session.conversation) <= 2 * (CAPACITY + len(held))


async def test_attributes_in_an_async_session_do_no_io_though_caches_change(
    async_sessions: AsyncSessions, chat: Conversation, tables: Engine, keys: list[uuid.UUID]
) -> None:
    """Primary, foreign and listed keys, of what lives and of what was deleted."""
    with Session(tables) as plain, plain.begin():
        plain.add(Preference(favourites=keys[:3], last_seen=keys[3]))
    async with async_sessions(conversation=chat) as session:
        preference = (await session.scalars(select(Preference))).one()
        plan = (await session.scalars(select(MealPlan).where(MealPlan.recipe_id == keys[4]))).one()
        await session.delete(await session.get_one(MealPlan, plan.id))
        await session.commit()
        before = (preference.id, preference.favourites, preference.last_seen, plan.recipe_id)
        async for recipe in await session.stream_scalars(CHUNKS):
            assert recipe.id.startswith("recipe_")
            shown = preference.id, preference.favourites, preference.last_seen, plan.recipe_id
            assert (shown, plan.id) == (before, "meal_plan_1")
    assert preference.favourites == ["recipe_1", "recipe_2", "recipe_3"]
    async with async_sessions(conversation=chat) as session:
        with pytest.raises(GoneRefError):
            await session.get(MealPlan, "meal_plan_1")


def test_much_that_lives_is_not_taken_along_at_every_turn(
    session: RefSession, store: TravelLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that keeps all it reads changes caches each time that it has twice as much."""
    moves = []
    move = boundary(session).keys_of_instances

    def counted() -> Any:
        moves.append(1)
        return move()

    monkeypatch.setattr(boundary(session), "keys_of_instances", counted)
    held = [(recipe, recipe.id) for recipe in session.scalars(CHUNKS)]
    assert len(moves) <= 5

    store.trips.clear()
    assert [recipe.id for recipe, _ in held] == [shown for _, shown in held]
    assert (store.trips, len(held)) == ([], MANY)


def test_a_large_result_is_asked_for_once(session: RefSession, store: TravelLog) -> None:
    """What is read at one go is kept, however large, until something else is read."""
    for _ in range(3):
        assert len(session.execute(PAIRS).all()) == MANY
    assert store.trips == ["refer"]
    conversation = session.conversation
    assert conversation is not None
    assert len(conversation._cache) == 0


def test_other_sessions_do_not_take_away_what_one_shows(
    session: RefSession, sessions: sessionmaker[RefSession], store: TravelLog
) -> None:
    """Each goes on with another cache at a time of its own."""
    held = session.scalars(BY_NAME.limit(15)).all()
    assert [recipe.id for recipe in held] == list(map(ref, held))
    with sessions(conversation=session.conversation) as other:
        for recipe in other.scalars(CHUNKS):
            assert recipe.id == ref(recipe)
    store.trips.clear()

    assert [recipe.id for recipe in held] == list(map(ref, held))
    assert store.trips == []


def test_a_view_of_an_instance_that_left_for_another_session_is_not_taken_along(
    session: RefSession, sessions: sessionmaker[RefSession]
) -> None:
    """It shows the refs of the session that it joined last."""
    recipe = session.scalars(BY_NAME.limit(1)).one()
    assert recipe.id == "recipe_1"
    session.expunge(recipe)
    with sessions(conversation=session.conversation) as other:
        other.add(recipe)
        assert boundary(session).keys_of_instances() == []
        assert len(boundary(other).keys_of_instances()) == 1


async def test_reading_the_same_over_and_over_remembers_it_once(aio: AsyncRefSession) -> None:
    """Instances that are known already, and those that the program drops, do not add up."""
    held = (await aio.scalars(BY_NAME.limit(3))).all()
    for _ in range(30):
        assert len((await aio.scalars(BY_NAME.limit(10))).all()) == 10

    assert len(boundary(aio.sync_session)._instances._known) <= 2 * CAPACITY
    assert [recipe.id for recipe in held] == list(map(ref, held))


# Rows that go, and conversations


def test_a_row_that_was_let_go_and_is_rolled_back_was_never_saved(
    session: RefSession, store: TravelLog
) -> None:
    """Its ref was shown, though this process does not know it any more when the row goes."""
    new = [Recipe(name="new") for _ in range(3)]
    session.add_all(new)
    session.flush()
    refs = [recipe.id for recipe in new]
    del new
    for recipe in session.scalars(CHUNKS):
        assert recipe.id not in refs[:0]
    session.rollback()

    for each in refs:
        with pytest.raises(GoneRefError, match="was never saved"):
            RefRegistry(store=store).conversation("chat-7").resolve(each)


@pytest.mark.parametrize("read", [select(Recipe), select(Recipe.name), select(Recipe.id)])
def test_a_session_goes_on_when_its_conversation_was_forgotten(
    sessions: sessionmaker[RefSession], store: TravelLog, read: Select[Any]
) -> None:
    """What it had shown is not resolved, and has new refs once a statement was sent: together."""
    registry = RefRegistry(store=store)
    with sessions(conversation=registry.conversation("chat-7")) as session:
        held = session.scalars(BY_NAME.limit(3)).all()
        assert [recipe.id for recipe in held] == ["recipe_1", "recipe_2", "recipe_3"]
        registry.conversation("chat-7").forget()
        with pytest.raises(UnknownRefError):
            session.get(Recipe, "recipe_3")
        store.trips.clear()

        session.execute(read.where(Recipe.name == "003")).all()
        assert {recipe.id for recipe in held} == {"recipe_4", "recipe_5", "recipe_6"}
        assert len(store.trips) <= 2


async def test_an_async_session_goes_on_when_its_conversation_was_forgotten(
    async_sessions: AsyncSessions,
) -> None:
    """What lives has new refs when the next statement has been awaited, and old ones before."""
    registry = RefRegistry(store=MemoryStore())
    async with async_sessions(conversation=registry.conversation("chat-7")) as session:
        held = (await session.scalars(BY_NAME.limit(3))).all()
        registry.conversation("chat-7").forget()
        assert [recipe.id for recipe in held] == ["recipe_1", "recipe_2", "recipe_3"]
        await session.scalars(BY_NAME.offset(2).limit(2))

        assert [recipe.id for recipe in held] == ["recipe_4", "recipe_5", "recipe_6"]
        assert await session.scalar(select(Recipe.id).where(Recipe.name == "004")) == "recipe_7"


def test_the_turn_of_a_session_is_its_conversations(session: RefSession) -> None:
    """Whoever begins one, and whenever."""
    conversation = session.conversation
    assert conversation is not None
    assert conversation.begin_turn() == 1
    assert boundary(session).conversation.turn == 1
    assert boundary(session).conversation.begin_turn() == 2
    assert conversation.turn == 2


# Many at once


@pytest.mark.slow
def test_threads_with_sessions_of_their_own_see_the_right_refs(
    tables: Engine, keys: list[uuid.UUID]
) -> None:
    """Eight of them share a conversation, read and use refs, and look at what they read before."""
    chat = RefRegistry(tables).conversation("chat-7")
    chat.refer_all(Recipe, keys)
    until = time.monotonic() + 3

    def work(seed: int) -> int:
        chance = random.Random(seed)  # noqa: S311
        rounds = 0
        with RefSession(tables, conversation=chat) as session:
            held: list[Recipe] = []
            while time.monotonic() < until:
                read(session, chance, held)
                rounds += 1
        return rounds

    with ThreadPoolExecutor(8) as threads:
        assert min(threads.map(work, range(8))) > 0


def read(session: Session, chance: random.Random, held: list[Recipe]) -> None:
    """Read recipes at random, by their refs; keep some, and look at those kept before."""
    some = chance.sample(range(1, MANY + 1), chance.choice([1, 5, 30]))
    refs = [f"recipe_{n}" for n in some]
    rows = session.execute(select(Recipe.id, Recipe.name).where(Recipe.id.in_(refs))).all()
    assert {(row.id, int(row.name)) for row in rows} == set(zip(refs, some, strict=True))
    found = session.scalars(select(Recipe).where(Recipe.id.in_(refs))).all()
    held[:] = [*held[-20:], *found[:3]]
    assert [recipe.id for recipe in held] == list(map(ref, held))


@pytest.mark.slow
async def test_tasks_with_sessions_of_their_own_see_the_right_refs(
    async_sessions: AsyncSessions, chat: Conversation, aio: AsyncRefSession, keys: list[uuid.UUID]
) -> None:
    """The same with eight tasks, and not one attribute does I/O."""
    await aio.run_sync(lambda _: chat.refer_all(Recipe, keys))
    until = time.monotonic() + 3

    async def work(seed: int) -> int:
        chance = random.Random(seed)  # noqa: S311
        rounds = 0
        async with async_sessions(conversation=chat) as session:
            held: list[Recipe] = []
            while time.monotonic() < until:
                await session.run_sync(read, chance, held)
                await asyncio.sleep(0)
                assert [recipe.id for recipe in held] == list(map(ref, held))
                rounds += 1
        return rounds

    assert min(await asyncio.gather(*map(work, range(8)))) > 0
