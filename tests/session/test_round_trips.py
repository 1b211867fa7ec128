"""How often the store is asked: once for all that a statement or a flush needs, or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, insert, or_, select, true, union_all, update
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import AsyncRefSession, Conversation, RefRegistry, RefSession, UnknownRefError
from tests.fix_asyncio import AsyncSessions
from tests.fix_session import TravelLog
from tests.models import MealPlan, Order, OrderLine, Person, Preference, Recipe

Work = Callable[[Session], Any]

RECIPES = [uuid.UUID(int=n) for n in range(1, 41)]
PEOPLE = [uuid.UUID(int=n) for n in range(1001, 1041)]
ORDERS = list(range(101, 141))


@pytest.fixture(autouse=True)
def rows(tables: Engine, conversation: Conversation) -> None:
    """Forty rows each of three classes, all with refs."""
    with Session(tables) as plain:
        plain.execute(insert(Recipe), [{"id": key, "name": f"{key.int}"} for key in RECIPES])
        plain.execute(insert(Person), [{"id": str(key), "kind": "person"} for key in PEOPLE])
        plain.execute(insert(Order), [{"id": key, "number": key} for key in ORDERS])
        plain.commit()
    for entity, keys in [("recipe", RECIPES), ("person", PEOPLE), ("order", ORDERS)]:
        conversation.refer_all(entity, keys)  # type: ignore[arg-type]


@pytest.fixture
def elsewhere(store: TravelLog) -> Conversation:
    """The conversation in a process that has met nothing of it; trips count from here."""
    store.trips.clear()
    return RefRegistry(store=store).conversation("chat-7")


def of_three_entities(session: Session) -> Any:
    """Select by refs in criteria, a subquery, a list, a row, a union and a parameter."""
    orders = select(OrderLine.order_id).where(OrderLine.order_id.in_(["order_1", "order_2"]))
    recipes = select(Recipe.name).where(
        or_(Recipe.id == "recipe_1", Recipe.parent_recipe_id.in_(["recipe_2", "recipe_3"])),
        ~select(Person.id).where(Person.mentor_id == "person_1").exists(),
        orders.where(OrderLine.order_id != "order_3").exists() | (Recipe.id == "recipe_4"),
    )
    people = select(Person.kind).where(Person.id == "person_2")
    return session.execute(union_all(recipes, people)).all()


def children_of_many_parents(session: Session) -> Any:
    """Insert a row for each of many parents."""
    records = [{"recipe_id": f"recipe_{n}", "instead_of": f"recipe_{n + 1}"} for n in range(1, 40)]
    session.execute(insert(MealPlan), records)


def values_of_many_parents(session: Session) -> Any:
    """Insert the same by one statement."""
    values = [{"order_id": f"order_{n}", "position": 1} for n in range(1, 41)]
    session.execute(pg_insert(OrderLine).values(values).on_conflict_do_nothing())


def update_of_many(session: Session) -> Any:
    """Update rows by their primary keys, given with other refs."""
    records = [{"id": f"person_{n}", "mentor_id": f"person_{n + 1}"} for n in range(1, 40)]
    session.execute(update(Person), records)


def hundred_new_objects(session: Session) -> Any:
    """Flush objects of three classes with refs in foreign keys and lists."""
    new = [
        *(MealPlan(recipe_id=f"recipe_{n}") for n in range(1, 41)),
        *(Person(mentor_id=f"person_{n}") for n in range(1, 41)),
        *(OrderLine(order_id=f"order_{n}", position=2) for n in range(1, 20)),
        Preference(favourites=["recipe_40", "recipe_39"], last_seen="recipe_38"),
    ]
    session.add_all(new)
    session.flush()
    return new


def bulk_of_many(session: Session) -> Any:
    """Insert mappings by the legacy method."""
    session.bulk_insert_mappings(MealPlan, [{"recipe_id": f"recipe_{n}"} for n in range(1, 41)])


@pytest.mark.parametrize(
    "work",
    [
        of_three_entities,
        children_of_many_parents,
        values_of_many_parents,
        update_of_many,
        hundred_new_objects,
        bulk_of_many,
    ],
)
def test_all_refs_of_a_statement_are_resolved_in_one_trip(
    sessions: sessionmaker[RefSession], elsewhere: Conversation, store: TravelLog, work: Work
) -> None:
    """Whatever entities they are of and wherever they stand; and in none where all are known."""
    with sessions(conversation=elsewhere) as session:
        work(session)
        assert store.trips == ["resolve"]
        session.rollback()
        store.trips.clear()
        work(session)
        assert [trip for trip in store.trips if trip != "mark"] == []


async def test_a_flush_in_an_async_session_takes_a_trip_in_and_one_out(
    async_sessions: AsyncSessions, log: TravelLog
) -> None:
    """All refs of the new objects are resolved together, and all their keys minted together."""
    session: AsyncRefSession
    async with async_sessions(
        conversation=RefRegistry(store=log).conversation("chat-7")
    ) as session:
        new = await session.run_sync(hundred_new_objects)
        assert log.trips == ["resolve", "refer"]
        assert [each.id for each in new[:2]] == ["meal_plan_1", "meal_plan_2"]


def test_one_bad_ref_among_many_asks_no_oftener(
    sessions: sessionmaker[RefSession], elsewhere: Conversation, store: TravelLog, sent: list[str]
) -> None:
    """Beside the trip that finds it out, nothing is resolved, and nothing executed."""
    records = [{"recipe_id": f"recipe_{n}"} for n in range(30, 50)]
    with (
        sessions(conversation=elsewhere) as session,
        pytest.raises(UnknownRefError, match="'recipe_41' is not a known recipe"),
    ):
        session.execute(insert(MealPlan), records)

    assert (store.trips, sent) == (["resolve"], [])


def test_all_keys_of_a_result_are_met_in_one_trip(
    sessions: sessionmaker[RefSession], elsewhere: Conversation, store: TravelLog
) -> None:
    """Of three entities, in columns and instances, old and new."""
    with sessions(conversation=elsewhere) as session:
        every = select(Recipe.id, Order.id, Person, Person.id).select_from(Recipe)
        joined = every.join(Order, Order.number == 101).join(Person, true())
        rows = session.execute(joined).all()
        assert len(rows) == 1_600
        assert store.trips == ["refer"]
        assert {row.Person.id for row in rows} == {f"person_{n}" for n in range(1, 41)}
        assert store.trips == ["refer"]
