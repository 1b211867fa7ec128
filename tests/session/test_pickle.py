"""Pickled and copied instances: the refs travel with them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, joinedload, sessionmaker

from alfred_refs import Conversation, RefNotCarriedError, RefSession
from alfred_refs.session.attributes import boundary_of
from tests.fix_session import TravelLog
from tests.models import MealPlan, Person, Preference, Recipe

PROGRAM = """
import pickle, sys
plan = pickle.load(sys.stdin.buffer)
from alfred_refs import RefNotCarriedError
print(plan.id, plan.recipe_id, plan.instead_of, plan.recipe.id, plan.recipe.parent_recipe_id)
plan.__dict__["recipe_id"] = plan.__dict__["id"]
try:
    print(plan.recipe_id)
except RefNotCarriedError as error:
    print(error)
"""


@pytest.fixture
def plan(session: RefSession, recipes: list[Recipe]) -> MealPlan:
    """A meal plan that was read and never looked at, its recipe loaded with it."""
    with session.raw_keys():
        session.add(MealPlan(recipe_id=recipes[0].id))
        session.commit()
    session.expunge_all()
    statement = select(MealPlan).options(joinedload(MealPlan.recipe))
    return session.scalars(statement).one()


def unpickled(instance: Any) -> Any:
    """Send an instance through a pickle."""
    return pickle.loads(pickle.dumps(instance))  # noqa: S301


@pytest.mark.slow
def test_an_unpickled_instance_shows_refs_in_a_process_that_has_no_session(plan: MealPlan) -> None:
    """Nothing has to be set up there, and what is related shows its refs too."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        input=pickle.dumps(plan),
        capture_output=True,
        check=True,
    )

    assert done.stdout.decode().splitlines() == [
        "meal_plan_1 recipe_1 None recipe_1 None",
        str(RefNotCarriedError("MealPlan.recipe_id")),
    ]


def test_keys_not_shown_yet_are_minted_for_the_pickle_together(
    session: RefSession, recipes: list[Recipe], store: TravelLog
) -> None:
    """One round trip for all that were loaded, in the order they were loaded."""
    found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
    store.trips.clear()

    sent = unpickled(list(reversed(found)))

    assert store.trips == ["refer"]
    assert [recipe.id for recipe in sent] == [f"recipe_{n}" for n in range(len(recipes), 0, -1)]
    assert [recipe.name for recipe in sent] == list("EDCBA")


def test_an_unpickled_instance_is_a_sessions_again_when_it_joins_one(
    plan: MealPlan, sessions: sessionmaker[RefSession], conversation: Conversation
) -> None:
    """Added or merged, it shows and accepts refs of that session's conversation."""
    added, merged = unpickled(plan), unpickled(plan)
    with sessions(conversation=conversation) as session:
        session.add(added)
        added.instead_of = "recipe_1"
        session.commit()
        assert (added.id, added.instead_of) == ("meal_plan_1", "recipe_1")
    with sessions(conversation=conversation) as session:
        again = session.merge(merged)
        assert (again.id, again.recipe_id) == ("meal_plan_1", "recipe_1")


def test_a_ref_set_on_an_unpickled_instance_waits_for_a_session(
    plan: MealPlan, sessions: sessionmaker[RefSession], conversation: Conversation
) -> None:
    """It reads as it was set, and is resolved at the flush; a key set there is refused."""
    sent = unpickled(plan)
    sent.instead_of = "recipe_1"
    assert unpickled(sent).instead_of == "recipe_1"
    with sessions(conversation=conversation) as session:
        session.add(sent)
        session.commit()
        assert (sent.instead_of, sent.recipe_id) == ("recipe_1", "recipe_1")

    sent = unpickled(plan)
    sent.recipe_id = uuid.uuid4()
    with pytest.raises(RefNotCarriedError, match=r"MealPlan\.recipe_id") as caught:
        _ = sent.recipe_id
    assert str(sent.__dict__["recipe_id"]) not in str(caught.value)


def test_copies_show_what_the_instance_shows(plan: MealPlan) -> None:
    """`copy.deepcopy` goes the way of a pickle, `copy.copy` shares the instance's state."""
    deep, shallow = copy.deepcopy(plan), copy.copy(plan)

    for each in (deep, unpickled(deep)):
        assert (each.id, each.recipe_id, each.recipe.id) == ("meal_plan_1", "recipe_1", "recipe_1")
    assert (shallow.id, shallow.recipe_id) == ("meal_plan_1", "recipe_1")


def test_text_keys_and_arrays_travel(
    session: RefSession, recipes: list[Recipe], store: TravelLog
) -> None:
    """A text that was loaded is a key, and a list of keys shows a list of refs."""
    person = Person()
    session.add_all([person, Preference(favourites=[recipes[0].id, None])])
    session.commit()
    person = session.scalars(select(Person)).one()
    preference = session.scalars(select(Preference)).one()

    sent, liked = unpickled((person, preference))
    store.trips.clear()

    assert (sent.id, sent.mentor_id) == ("person_1", None)
    assert liked.favourites == ["recipe_1", None]
    assert store.trips == []


def test_a_new_object_travels_with_the_refs_it_was_made_with(
    session: RefSession,
    sessions: sessionmaker[RefSession],
    conversation: Conversation,
    plan: MealPlan,
) -> None:
    """They are resolved by the session that saves it."""
    assert plan.recipe_id == "recipe_1"
    new = MealPlan(recipe_id="recipe_1")
    session.add(new)
    session.expunge(new)
    sent = unpickled(new)
    with sessions(conversation=conversation) as other:
        other.add(sent)
        other.commit()
        assert (sent.id, sent.recipe_id) == ("meal_plan_2", "recipe_1")


def test_instances_of_plain_sessions_are_pickled_as_ever(
    plan: MealPlan, recipes: list[Recipe], tables: Engine
) -> None:
    """The class is the same, the instance belongs to nobody and shows its key."""
    with Session(tables) as plain:
        loaded = plain.get_one(Recipe, recipes[0].id)
        sent = unpickled(loaded)

    assert plan.recipe.name == sent.name
    assert boundary_of(sent) is None
    assert sent.id == recipes[0].id
