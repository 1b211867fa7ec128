"""Every way SQLAlchemy has of making a session, and of beginning and ending its work."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, delete, select
from sqlalchemy.orm import scoped_session, sessionmaker

from alfred_refs import Conversation, GoneRefError, RefPolicy, RefRegistry, RefSession
from tests.fix_postgres import database_like
from tests.models import Base, MealPlan, Order, Recipe

pytestmark = pytest.mark.tables

REFS = ["recipe_1", "recipe_2", "recipe_3", "recipe_4", "recipe_5"]
BY_NAME = select(Recipe).order_by(Recipe.name)


def refs(session: Any) -> list[Any]:
    """Return what the recipes show for their keys, by name."""
    return [recipe.id for recipe in session.scalars(BY_NAME)]


@pytest.mark.usefixtures("recipes")
def test_a_scoped_session_has_the_conversation_it_was_begun_with(
    tables: Engine, registry: RefRegistry
) -> None:
    """A request begins it in its conversation and removes it; the next one has its own."""
    sessions = scoped_session(sessionmaker(tables, class_=RefSession, registry=registry))

    sessions(conversation="chat-1")
    assert sessions.get_one(Recipe, refs(sessions)[1]).name == "B"
    sessions.add(MealPlan(recipe_id="recipe_2"))
    sessions.commit()
    sessions.remove()
    sessions(conversation="chat-2")
    plan = sessions.scalars(select(MealPlan)).one()
    assert (plan.id, plan.recipe_id) == ("meal_plan_1", "recipe_1")
    with sessions().raw_keys():
        assert isinstance(plan.recipe_id, uuid.UUID)
    sessions.remove()


@pytest.mark.usefixtures("recipes")
def test_a_scoped_session_is_each_threads_own(tables: Engine, registry: RefRegistry) -> None:
    """Two threads, two conversations, one scoped session."""
    sessions = scoped_session(sessionmaker(tables, class_=RefSession, registry=registry))
    both, found = threading.Barrier(2), dict[str, list[Any]]()

    def work(name: str, first: str) -> None:
        sessions(conversation=name)
        both.wait(20)
        read = select(Recipe.id).where(Recipe.name == first)
        found[name] = [sessions.scalars(read).one(), *refs(sessions)]
        sessions.remove()

    threads = [threading.Thread(target=work, args=pair) for pair in [("a", "A"), ("b", "E")]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {"a": ["recipe_1", *REFS], "b": ["recipe_1", *REFS[1:], "recipe_1"]}


def test_two_phases_end_as_one(tables: Engine, conversation: Conversation) -> None:
    """Prepared and committed, or prepared and rolled back: the refs know which."""
    with RefSession(tables, conversation=conversation, twophase=True) as session:
        saved, unsaved = Recipe(name="saved"), Recipe(name="unsaved")
        session.add(saved)
        session.prepare()
        session.commit()
        assert saved.id == "recipe_1"
        session.add(unsaved)
        session.flush()
        assert unsaved.id == "recipe_2"
        session.prepare()
        session.rollback()
        assert session.get(Recipe, "recipe_1") is saved
        with pytest.raises(GoneRefError, match="'recipe_2' was never saved"):
            session.get(Recipe, "recipe_2")


def test_classes_may_be_bound_to_databases_of_their_own(
    tables: Engine, administration: Engine
) -> None:
    """Recipes here, orders there, and the registry in a third database."""
    with (
        database_like(administration) as orders_url,
        database_like(administration) as registry_url,
    ):
        orders, own = create_engine(orders_url), create_engine(registry_url)
        Base.metadata.create_all(orders)
        registry = RefRegistry(own)
        registry.create_tables()
        with RefSession(
            binds={Recipe: tables, Order: orders}, registry=registry, conversation="chat-7"
        ) as session:
            session.add_all([Recipe(name="Soup"), Order(id=5, number=3)])
            session.commit()
            assert refs(session) == ["recipe_1"]
            order = session.scalars(select(Order)).one()
            assert (order.id, session.get(Order, "order_1")) == ("order_1", order)
            session.execute(delete(Order).where(Order.id == "order_1"))
            session.commit()
            with pytest.raises(GoneRefError, match="was deleted"):
                session.get(Order, "order_1")
        orders.dispose()
        own.dispose()


@pytest.mark.parametrize("mode", ["create_savepoint", "conditional_savepoint", "rollback_only"])
def test_a_session_may_join_a_transaction_that_is_rolled_back(
    mode: Any, tables: Engine, conversation: Conversation
) -> None:
    """As tests do it: refs are minted though nothing is committed, and stay taken.

    The session was told that its own commit stood, and knows nothing of the end of the
    transaction around it: the row is found gone, as one that others deleted.
    """
    with tables.connect() as connection, connection.begin() as outer:
        with RefSession(
            connection, conversation=conversation, join_transaction_mode=mode
        ) as session:
            session.add(Recipe(name="Soup"))
            session.commit()
            assert refs(session) == ["recipe_1"]
        outer.rollback()

    with RefSession(tables, conversation=conversation) as session:
        for _ in range(2):  # found out, and known
            with pytest.raises(GoneRefError, match="'recipe_1' was deleted and cannot be used"):
                session.get(Recipe, "recipe_1")
        session.add(Recipe(name="Salad"))
        session.commit()
        assert refs(session) == ["recipe_2"]


def test_what_a_joined_session_rolls_back_itself_was_never_saved(
    tables: Engine, conversation: Conversation
) -> None:
    """Its own savepoint in somebody else's transaction is its own to know about."""
    with (
        tables.connect() as connection,
        connection.begin() as outer,
        RefSession(
            connection, conversation=conversation, join_transaction_mode="create_savepoint"
        ) as session,
    ):
        soup = Recipe(name="Soup")
        session.add(soup)
        session.flush()
        assert soup.id == "recipe_1"
        session.rollback()
        with pytest.raises(GoneRefError, match="'recipe_1' was never saved"):
            session.get(Recipe, "recipe_1")
        outer.rollback()


def test_policies_of_two_registries_do_not_mix(
    tables: Engine, registry: RefRegistry, recipes: list[Recipe]
) -> None:
    """Each conversation goes by its registry's policy, on instances of the same classes."""
    assert recipes
    policies = [RefPolicy(names={Recipe: "meal"}), RefPolicy(exclude=(Recipe.id, Recipe))]
    meals, raw = (RefRegistry(tables, policy=policy).conversation("d") for policy in policies)
    plain = registry.conversation("chat-7")
    sessions = [RefSession(tables, conversation=each) for each in (plain, meals, raw)]
    found = [session.scalars(BY_NAME).first() for session in sessions]

    assert [recipe and recipe.id for recipe in found] == ["recipe_1", "meal_1", recipes[0].id]
    assert sessions[2].get(Recipe, recipes[0].id) is found[2]
    for session in sessions:
        session.close()
