"""The registry fails in the middle of the application's transaction, which it must not harm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    RefRegistry,
    RefSession,
    RegistryFailedError,
    RegistryUnreachableError,
)
from tests.fix_asyncio import AsyncSessions
from tests.fix_postgres import database_like
from tests.fix_session import TravelLog
from tests.models import MealPlan, Recipe
from tests.store.test_faults import FAIL, run

pytestmark = pytest.mark.tables

ISOLATIONS: list[dict[str, Any]] = [{}, {"isolation_level": "SERIALIZABLE"}]


@pytest.fixture(params=["the same database", "another database"])
def elsewhere(
    request: pytest.FixtureRequest, tables: Engine, administration: Engine
) -> Iterator[Engine]:
    """An engine on the registry's database: the application's, or one of its own."""
    if request.param == "the same database":
        yield tables
        return
    with database_like(administration) as url:
        engine = create_engine(url)
        RefRegistry(engine).create_tables()
        yield engine
        engine.dispose()


@pytest.fixture
def away(elsewhere: Engine) -> Conversation:
    """A conversation in that registry, in which one row has a ref."""
    conversation = RefRegistry(elsewhere).conversation("chat-7")
    conversation.begin_turn()
    return conversation


@contextmanager
def failing(registry: Engine) -> Iterator[None]:
    """Let no key be minted meanwhile."""
    administrator = registry.execution_options(isolation_level="AUTOCOMMIT")
    run(administrator, FAIL, "insert into fault values ('53100', 10000)")
    try:
        yield
    finally:
        run(administrator, "delete from fault")


def saved(engine: Engine) -> list[str]:
    """Return the names of the recipes that are there."""
    with engine.connect() as connection:
        return list(connection.scalars(select(Recipe.name).order_by(Recipe.name)))


@pytest.mark.parametrize("options", ISOLATIONS, ids=str)
@pytest.mark.parametrize("is_saved", [True, False])
def test_a_transaction_goes_on_when_its_key_could_not_be_shown(
    tables: Engine, elsewhere: Engine, away: Conversation, options: dict[str, Any], is_saved: bool
) -> None:
    """It works on, and commits or rolls back all that it did; the ref is there when it can be."""
    engine = tables.execution_options(**options)
    with RefSession(engine, conversation=away, expire_on_commit=False) as session:
        first, second = Recipe(name="first"), Recipe(name="second")
        with failing(elsewhere):
            session.add(first)
            session.flush()
            with pytest.raises(RegistryFailedError, match="make room"):
                _ = first.id
            session.add(MealPlan(recipe=first))
            session.add(second)
            first.name = "renamed"
            (session.commit if is_saved else session.rollback)()
        if is_saved:
            assert (first.id, second.id) == ("recipe_1", "recipe_2")
            assert session.get(Recipe, "recipe_1") is first

    assert saved(tables) == (["renamed", "second"] if is_saved else [])
    with Session(tables) as plain:
        assert plain.scalar(select(func.count(MealPlan.id))) == is_saved


def test_rows_whose_keys_could_not_be_minted_are_minted_together(
    sessions: sessionmaker[RefSession],
    conversation: Conversation,
    store: TravelLog,
    recipes: list[Recipe],
) -> None:
    """The next that is looked at takes all others along, numbered in the order of loading."""
    with sessions(conversation=conversation) as session:
        found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
        with failing(store._application):
            for recipe in found[:2]:
                with pytest.raises(RegistryFailedError):
                    _ = recipe.id
        store.trips.clear()

        assert found[3].id == "recipe_4"
        assert [recipe.id for recipe in found] == [f"recipe_{n}" for n in range(1, 6)]
        assert (store.trips, len(recipes)) == (["refer"], 5)


def test_a_read_only_transaction_reads_on(
    tables: Engine, elsewhere: Engine, away: Conversation, recipes: list[Recipe]
) -> None:
    """Rows that cannot be shown are read again in the same transaction, once they can."""
    engine = tables.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    query = select(Recipe.id).order_by(Recipe.name)
    with RefSession(engine, conversation=away) as session:
        began = session.scalar(select(func.pg_current_snapshot().cast(Recipe.name.type)))
        with failing(elsewhere), pytest.raises(RegistryFailedError):
            session.scalars(query).all()

        assert session.scalars(query).all() == [f"recipe_{n}" for n in range(1, 6)]
        now = session.scalar(select(func.pg_current_snapshot().cast(Recipe.name.type)))
    assert (began, len(recipes)) == (now, 5)


def test_what_became_of_rows_is_only_a_note(
    tables: Engine,
    elsewhere: Engine,
    away: Conversation,
    recipes: list[Recipe],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A delete commits though the registry cannot be told, and a warning says so without a key."""
    key = recipes[0].id
    with RefSession(tables, conversation=away) as session:
        found = session.scalars(select(Recipe).where(Recipe.name == "A")).one()
        assert found.id == "recipe_1"
        session.delete(found)
        with failing(elsewhere):
            session.commit()

    assert saved(tables) == list("BCDE")
    assert "could not record whether the rows of 1 refs exist" in caplog.text
    assert str(key) not in caplog.text


def test_a_registry_that_cannot_be_reached_harms_no_transaction(
    tables: Engine, recipes: list[Recipe]
) -> None:
    """Nothing listens where the registry should be: what needs no ref is done and committed."""
    nowhere = create_engine(tables.url.set(host="127.0.0.1", port=1, query={}))
    with RefSession(tables, conversation=RefRegistry(nowhere).conversation("chat-7")) as session:
        found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
        with pytest.raises(RegistryUnreachableError):
            _ = found[0].id
        with pytest.raises(RegistryUnreachableError):
            session.get(Recipe, "recipe_1")
        found[0].name = "renamed"
        session.commit()

    assert saved(tables) == ["B", "C", "D", "E", "renamed"]
    assert len(recipes) == 5


def test_the_applications_failure_stays_its_own(
    tables: Engine, elsewhere: Engine, away: Conversation
) -> None:
    """Its transaction fails first, then the registry: it is told of both, and rolls back."""
    with RefSession(tables, conversation=away) as session, failing(elsewhere):
        recipe = Recipe(name="lost")
        session.add(recipe)
        session.flush()
        with session.raw_keys(), pytest.raises(DBAPIError):
            session.execute(text("select 1/0"))
        with pytest.raises(RegistryFailedError):
            _ = recipe.id
        session.rollback()
        session.add(Recipe(name="kept"))
        session.commit()

    assert saved(tables) == ["kept"]


async def test_an_awaited_flush_that_cannot_mint_is_undone(
    tables: Engine, async_sessions: AsyncSessions, chat: Conversation
) -> None:
    """Keys are minted inside the flush: it fails with all that it did, and the next one works."""
    async with async_sessions(conversation=chat) as session:
        first = Recipe(name="first")
        session.add(first)
        with failing(tables):
            with pytest.raises(RegistryFailedError, match="make room"):
                await session.commit()
            await session.rollback()
        assert saved(tables) == []

        session.add(again := Recipe(name="again"))
        await session.commit()
        # what was undone was never shown, and has no ref
        assert again.id == "recipe_1"
    assert (saved(tables), first.name) == (["again"], "first")


async def test_an_awaited_read_that_cannot_mint_leaves_the_transaction(
    tables: Engine, aio: AsyncRefSession, recipes: list[Recipe]
) -> None:
    """The fetch fails and the transaction does not: what it wrote is committed."""
    with failing(tables):
        found = (await aio.scalars(select(Recipe.name).order_by(Recipe.name))).all()
        assert found == list("ABCDE")
        with pytest.raises(RegistryFailedError):
            await aio.scalars(select(Recipe))
        await aio.execute(text("update recipes set name = 'renamed' where name = 'A'"))
        await aio.commit()

    assert saved(tables) == ["B", "C", "D", "E", "renamed"]
    assert len(recipes) == 5
