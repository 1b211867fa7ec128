"""What the result of a write tells beside its rows shows refs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, insert, select, text, update
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from alfred_refs import AsyncRefSession, RefRegistry, RefSession, UntranslatableError
from alfred_refs.store.memory import MemoryStore
from tests.fix_session import TravelLog
from tests.models import Base, Box, MealPlan, Order, OrderLine, Recipe

recipes: Any = Recipe.__table__
plans: Any = MealPlan.__table__
boxes: Any = Box.__table__


@pytest.fixture
def known(session: RefSession, recipes: list[Recipe]) -> Iterator[str]:
    """The recipe A is known as `recipe_1`."""
    yield session.scalars(select(Recipe.id).where(Recipe.name == "A")).one()
    assert recipes


@pytest.mark.parametrize("into", [plans, MealPlan])
@pytest.mark.usefixtures("known")
def test_the_primary_key_of_an_inserted_row_is_a_ref(
    session: RefSession, store: TravelLog, into: Any
) -> None:
    """The row that SQLAlchemy returns keeps its names; a ref is minted when it is looked at."""
    store.trips.clear()
    result: Any = session.execute(insert(into).values(recipe_id="recipe_1"))

    assert store.trips == []
    assert result.inserted_primary_key == ("meal_plan_1",)
    assert result.inserted_primary_key.id == "meal_plan_1"
    assert result.inserted_primary_key_rows == [("meal_plan_1",)]
    assert result.last_inserted_params() == {"recipe_id": "recipe_1"}
    assert store.trips == ["refer"]
    assert session.get(MealPlan, "meal_plan_1") is not None


@pytest.mark.usefixtures("known")
def test_defaults_and_returned_rows_show_refs(session: RefSession) -> None:
    """`return_defaults()` and the exits beside RETURNING are covered alike."""
    filled: Any = session.execute(insert(plans).values(recipe_id="recipe_1").return_defaults())
    assert filled.returned_defaults.id == "meal_plan_1"
    assert [row.id for row in filled.returned_defaults_rows] == ["meal_plan_1"]
    made: Any = session.execute(insert(boxes).values(label="x").returning(boxes.c.label))
    assert made.last_inserted_params()["id"] == "box_1"


@pytest.mark.usefixtures("known")
def test_parameters_that_were_sent_are_shown_as_they_were_given(session: RefSession) -> None:
    """Those of values and those of criteria, of one record or of many."""
    session.execute(insert(plans), [{"recipe_id": "recipe_1"}, {"recipe_id": "recipe_1"}])
    statement = update(plans).where(plans.c.recipe_id == "recipe_1").values(instead_of="recipe_1")
    result: Any = session.execute(statement)
    assert set(result.last_updated_params().values()) == {"recipe_1"}
    many: Any = session.execute(insert(plans), [{"recipe_id": "recipe_1"}] * 2)
    assert [p["recipe_id"] for p in many.last_inserted_params()] == ["recipe_1"] * 2


def test_a_key_of_unknown_origin_among_the_parameters_is_refused(session: RefSession) -> None:
    """A raw key that trusted code compared with another thing is not handed on."""
    statement = update(boxes).where(boxes.c.label == str(uuid.uuid4())).values(label="x")
    result: Any = session.execute(statement)

    with pytest.raises(UntranslatableError):
        result.last_updated_params()


def test_composite_and_integer_keys_show_refs(session: RefSession) -> None:
    """A number that is no key stays a number."""
    order: Any = session.execute(insert(Order.__table__).values(number=1))  # type: ignore[arg-type]
    [ref] = order.inserted_primary_key
    line: Any = session.execute(
        insert(OrderLine.__table__).values(order_id=ref, position=3)  # type: ignore[arg-type]
    )

    assert (ref, tuple(line.inserted_primary_key)) == ("order_1", ("order_1", 3))


def test_the_last_row_id_is_a_ref_or_refused() -> None:
    """Of a text nothing tells whose it is."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    Base.metadata.tables["orders"].create(engine)
    registry = RefRegistry(store=MemoryStore())
    with RefSession(engine, conversation=registry.conversation("chat-7")) as session:
        result: Any = session.execute(insert(Order.__table__).values(number=1))  # type: ignore[arg-type]
        assert result.lastrowid == "order_1"
        written: Any = session.execute(text("insert into orders (number) values (2)"))
        with pytest.raises(UntranslatableError):
            _ = written.lastrowid
    engine.dispose()


def test_raw_keys_and_plain_sessions_are_told_keys(session: RefSession) -> None:
    """Trusted code gets what SQLAlchemy gives."""
    with session.raw_keys():
        result: Any = session.execute(insert(recipes).values(name="x"))
        assert type(result.inserted_primary_key[0]) is uuid.UUID
    session.commit()
    with Session(session.get_bind()) as plain:
        result = plain.execute(insert(recipes).values(name="y"))
        assert type(result.inserted_primary_key[0]) is uuid.UUID


async def test_an_async_session_mints_before_the_result_is_there(
    aio: AsyncRefSession, log: TravelLog
) -> None:
    """Asking for the primary key does no I/O."""
    result: Any = await aio.execute(insert(recipes).values(name="x"))

    log.trips.clear()
    assert result.inserted_primary_key == ("recipe_1",)
    assert log.trips == []
