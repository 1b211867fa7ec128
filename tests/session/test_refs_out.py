"""Refs out: instances and rows show refs where keys are, whatever the statement."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import Engine, Sequence, select
from sqlalchemy.orm import Session, joinedload, selectinload, sessionmaker

from alfred_refs import Conversation, RefSession
from tests.fix_session import TravelLog
from tests.models import (
    Cook,
    Guest,
    MealPlan,
    Order,
    OrderLine,
    Person,
    Preference,
    Recipe,
)
from tests.session.conftest import by_name

pytestmark = pytest.mark.usefixtures("recipes")


def test_the_rows_own_keys_are_numbered_before_those_they_point_to(
    session: RefSession, tables: Engine, recipes: list[Recipe]
) -> None:
    """A list of rows reads 1, 2, 3 even where each row points to another of its kind."""
    with Session(tables) as plain:
        for recipe in plain.scalars(select(Recipe)):
            recipe.parent_recipe_id = recipes[-1].id
        plain.commit()

    found = list(by_name(session).values())

    assert [r.parent_recipe_id for r in found] == ["recipe_5"] * 5
    assert [r.id for r in found] == [f"recipe_{n}" for n in range(1, 6)]


def test_a_foreign_key_shows_a_ref_though_its_target_was_never_read(
    session: RefSession, tables: Engine, recipes: list[Recipe]
) -> None:
    """A child can be read before its parent, and the parent is found by that ref."""
    with Session(tables) as plain:
        plain.add(MealPlan(recipe_id=recipes[2].id))
        plain.commit()

    plan = session.scalars(select(MealPlan)).one()

    assert (plan.id, plan.recipe_id, plan.instead_of) == ("meal_plan_1", "recipe_1", None)
    assert session.get_one(Recipe, "recipe_1").name == "C"


def test_an_instance_keeps_its_key_underneath(
    session: RefSession, known: dict[str, Recipe], recipes: list[Recipe]
) -> None:
    """Identity map, flush and lazy loading work on the key that SQLAlchemy put there."""
    key = recipes[0].id

    assert known["A"].__dict__["id"] == key
    assert session.get(Recipe, "recipe_1") is known["A"]
    assert session.identity_map[(Recipe, (key,), None)] is known["A"]


def test_relationships_load_and_show_refs(plan: MealPlan, session: RefSession) -> None:
    """Lazy, joined and select-in loading never meet a ref, and what they load shows refs."""
    assert plan.recipe.name == "A"
    session.expunge_all()
    [joined] = session.scalars(select(MealPlan).options(joinedload(MealPlan.recipe)))
    session.expunge_all()
    [parent] = session.scalars(
        select(Recipe).where(Recipe.id == "recipe_1").options(selectinload(Recipe.plans))
    )

    assert (joined.recipe.id, joined.recipe_id) == ("recipe_1", "recipe_1")
    assert [(p.id, p.recipe_id) for p in parent.plans] == [("meal_plan_1", "recipe_1")]


def test_after_close_the_attributes_still_read_as_refs(
    sessions: sessionmaker[RefSession], conversation: Conversation
) -> None:
    """A detached instance shows refs, also of keys that were not looked at before."""
    with sessions(conversation=conversation) as session:
        found = list(by_name(session).values())

    assert [recipe.id for recipe in found] == [f"recipe_{n}" for n in range(1, 6)]


def test_inherited_and_text_keys_show_refs(session: RefSession) -> None:
    """Joined and single-table subclasses share their base's entity, text UUIDs included."""
    session.add_all([Person(), Cook(stars=2), Guest()])
    session.commit()

    people = session.scalars(select(Person).order_by(Person.kind)).all()

    assert {(type(p).__name__, p.id) for p in people} == {
        *(("Cook", "person_1"), ("Guest", "person_2"), ("Person", "person_3"))
    }
    cook = session.scalars(select(Cook).where(Cook.id == "person_1")).one()
    assert cook is session.get(Cook, "person_1")


def test_what_the_orm_loads_by_itself_goes_by_keys(session: RefSession) -> None:
    """Where keys are text, the key of a refresh is not taken for a ref."""
    person, cook = Person(), Cook(stars=1)
    session.add_all([person, cook])
    session.commit()

    assert person.id == "person_1"
    session.refresh(person)
    session.expire(cook, ["stars"])
    assert (person.id, cook.id, cook.stars) == ("person_1", "person_2", 1)
    assert session.merge(Person(id="person_1")) is person
    session.expunge_all()
    merged = session.merge(Person(id="person_1", mentor_id="person_2"))
    session.commit()
    assert (merged.id, merged.mentor_id) == ("person_1", "person_2")
    session.expunge_all()
    loaded = session.get_one(Person, "person_1")
    assert session.get(Person, loaded.id) is loaded


def test_integer_and_composite_keys_show_refs(session: RefSession) -> None:
    """Of a composite key the foreign part is a ref and the number is a number."""
    order = Order(number=7)
    session.add(order)
    session.flush()
    assert order.id == "order_1"
    session.add(OrderLine(order_id="order_1", position=2, note="two"))
    session.commit()

    line = session.get_one(OrderLine, ("order_1", 2))

    assert (line.order_id, line.position, line.note) == ("order_1", 2, "two")
    assert session.get(OrderLine, {"order_id": "order_1", "position": 2}) is line


def test_uuids_that_are_no_keys_and_columns_left_raw_are_data(
    session: RefSession, recipes: list[Recipe]
) -> None:
    """Translation goes by column: a UUID is not a key because it looks like one."""
    device = uuid.uuid4()
    session.add(Preference(device=device, legacy_recipe_id=recipes[0].id))
    session.commit()

    [preference] = session.scalars(select(Preference))

    assert (preference.device, preference.legacy_recipe_id) == (device, recipes[0].id)
    assert session.execute(select(Preference.device)).scalar_one() == device


def test_a_sequence_gives_its_next_value(session: RefSession) -> None:
    """A new number is nobody's key yet."""
    assert session.scalar(Sequence("orders_id_seq")) == 1
    assert session.scalar(select(Sequence("orders_id_seq").next_value())) == 2


def test_keys_are_minted_once_a_result_and_never_when_not_looked_at(
    session: RefSession, store: TravelLog
) -> None:
    """Reading asks nothing of the store, looking at one key asks once for all."""
    found = by_name(session)
    assert store.trips == []
    for recipe in found.values():
        assert recipe.id is not None
        assert recipe.parent_recipe_id is None
    assert store.trips == ["refer"]
    assert session.execute(select(Recipe.id, Recipe.parent_recipe_id)).all()
    assert store.trips == ["refer"]
