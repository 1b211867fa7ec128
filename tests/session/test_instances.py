"""The attribute boundary: keys below, refs above."""

from __future__ import annotations

import gc
import json
import pickle
import traceback
import uuid
import weakref
from typing import Any

import pytest
from sqlalchemy import Engine, ScalarSelect, func, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, RefError, RefRegistry, RefSession, UnknownRefError, sqla
from alfred_refs.session import instances
from alfred_refs.session.attributes import RefAttribute, boundary_of
from alfred_refs.store.schema import metadata
from tests.fix_session import TravelLog
from tests.models import MealPlan, Person, Preference, Recipe


@pytest.fixture
def known(session: RefSession, recipes: list[Recipe]) -> list[Recipe]:
    """Five recipes of the session, shown as `recipe_1` to `recipe_5`."""
    found = list(session.scalars(select(Recipe).order_by(Recipe.name)))
    assert [r.id for r in found] == [f"recipe_{n}" for n, _ in enumerate(recipes, start=1)]
    return found


@pytest.mark.usefixtures("known")
def test_the_class_attribute_is_still_sqlalchemys() -> None:
    """Queries are built from it as before; only reading and setting an instance differ."""
    assert isinstance(Recipe.__dict__["id"], RefAttribute)
    assert str(Recipe.id == Recipe.parent_recipe_id) == "recipes.id = recipes.parent_recipe_id"
    assert Recipe.id.property.columns[0] is Recipe.__table__.c.id


def test_an_instance_of_a_plain_session_belongs_to_nobody(
    tables: Engine, known: list[Recipe]
) -> None:
    """The classes are the same, the instances are told apart."""
    with Session(tables) as plain:
        recipe = plain.scalars(select(Recipe)).first()
        assert recipe is not None
        assert boundary_of(recipe) is None
        assert isinstance(recipe.id, uuid.UUID)
    assert boundary_of(known[0]) is not None


def test_an_object_without_session_keeps_what_it_was_given() -> None:
    """Before it joins a session a ref is just text."""
    plan = MealPlan(recipe_id="recipe_1")

    assert plan.recipe_id == "recipe_1"
    assert plan.__dict__["recipe_id"] == "recipe_1"


@pytest.mark.usefixtures("known")
def test_an_object_that_joins_again_gets_its_ref_with_others(
    session: RefSession, store: TravelLog
) -> None:
    """One round trip for all that is new: it is of a row, though it was rolled back before."""
    first, second = Recipe(name="F"), Recipe(name="G")
    session.add(first)
    session.rollback()
    session.add_all([first, second])
    session.flush()
    store.trips.clear()

    assert {second.id, first.id} == {"recipe_6", "recipe_7"}
    assert store.trips == ["refer"]


@pytest.mark.usefixtures("known")
def test_an_object_changed_before_it_joins_is_translated_when_it_does(
    session: RefSession, tables: Engine, recipes: list[Recipe]
) -> None:
    """A ref set on an object that a plain session has loaded is resolved at the flush."""
    with Session(tables) as plain:
        loaded = plain.get_one(Recipe, recipes[0].id)
    loaded.parent_recipe_id = "recipe_2"
    session.expunge_all()
    session.add(loaded)
    session.commit()

    assert (loaded.id, loaded.parent_recipe_id) == ("recipe_1", "recipe_2")


@pytest.mark.usefixtures("known")
def test_a_value_taken_back_before_the_flush_is_not_resolved(session: RefSession) -> None:
    """Deleting or replacing a ref on a new object leaves nothing to be resolved."""
    one = MealPlan(recipe_id="recipe_1", instead_of="recipe_99")
    two = MealPlan(recipe_id="recipe_1", instead_of="recipe_99")
    session.add_all([one, two])
    del one.instead_of
    two.instead_of = None
    session.commit()

    assert (one.instead_of, two.instead_of) == (None, None)


@pytest.mark.usefixtures("known")
def test_arrays_take_refs_beside_keys_and_nulls(
    session: RefSession, recipes: list[Recipe]
) -> None:
    """Each element is translated by itself, on new and on loaded objects."""
    preference = Preference(favourites=["recipe_2", recipes[0].id])
    session.add(preference)
    session.commit()
    assert preference.favourites == ["recipe_2", "recipe_1"]

    preference.favourites = [recipes[2].id, "recipe_1", None]
    session.commit()
    assert preference.favourites == ["recipe_3", "recipe_1", None]
    with pytest.raises(UnknownRefError):
        preference.favourites = ["recipe_1", "recipe_99"]
    assert session.scalars(select(Preference.favourites)).one() == preference.favourites


@pytest.mark.usefixtures("known")
def test_a_list_of_refs_is_replaced_and_not_changed(session: RefSession) -> None:
    """A change in place would be lost without a word, so it is refused with the remedy."""
    preference = Preference(favourites=["recipe_1"])
    session.add(preference)
    session.commit()
    favourites: Any = preference.favourites
    changes: list[tuple[str, list[Any]]] = [
        ("append", ["recipe_2"]),
        ("sort", []),
        ("__setitem__", [0, "recipe_2"]),
        ("clear", []),
    ]
    for name, arguments in changes:
        with pytest.raises(TypeError, match="assign a new list to the attribute"):
            getattr(favourites, name)(*arguments)
    preference.favourites += ["recipe_2"]
    session.commit()

    assert preference.favourites == ["recipe_1", "recipe_2"]
    assert json.dumps(preference.favourites) == '["recipe_1", "recipe_2"]'
    assert type(pickle.loads(pickle.dumps(preference.favourites))) is list  # noqa: S301


def test_raw_text_keys_can_be_added_by_trusted_code(session: RefSession) -> None:
    """Inside `raw_keys` a text is a key, where keys are text."""
    key = str(uuid.uuid4())
    with session.raw_keys():
        person = Person(id=key)
        session.add(person)
        session.commit()
        assert person.id == key
    assert person.id == "person_1"


def test_instances_are_not_kept_alive(session: RefSession, recipes: list[Recipe]) -> None:
    """A session that reads a million rows holds on to none of them."""
    [recipe] = session.scalars(select(Recipe).where(Recipe.name == recipes[0].name)).all()
    watch = weakref.ref(recipe)
    del recipe
    gc.collect()

    assert watch() is None


@pytest.mark.usefixtures("recipes")
def test_what_a_session_read_leaves_nothing_to_the_collector(
    sessions: sessionmaker[RefSession], conversation: Conversation
) -> None:
    """Rows that were dropped without a look at them are freed at once, as in a plain session."""
    gc.disable()
    try:
        with sessions(conversation=conversation) as session:
            states = [weakref.ref(sqla.state_of(r)) for r in session.scalars(select(Recipe))]
        left = [state() for state in states if state() is not None]
    finally:
        gc.enable()

    assert (len(states), left) == (5, [])


def test_what_is_remembered_of_rows_not_looked_at_is_bounded(
    sessions: sessionmaker[RefSession],
    conversation: Conversation,
    recipes: list[Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading on and on without looking at a key does not fill the memory."""
    monkeypatch.setattr(instances, "_FEW", 10)
    session = sessions(conversation=conversation)
    for _ in range(20):
        names = [recipe.name for recipe in session.scalars(select(Recipe))]
        assert len(names) == len(recipes)

    session.close()
    assert session._boundary is not None
    assert len(session._boundary.loaded) <= 11


def test_a_session_that_was_emptied_goes_on_in_the_order_of_loading(
    session: RefSession, recipes: list[Recipe]
) -> None:
    """What was loaded before `expunge_all()` is numbered first, then what is loaded after it."""
    before = session.scalars(select(Recipe).order_by(Recipe.name).limit(2)).all()
    session.expunge_all()
    after = session.scalars(select(Recipe).order_by(Recipe.name.desc()).limit(3)).all()

    assert after[1].id == "recipe_4"
    assert [recipe.id for recipe in [*before, *after]] == [f"recipe_{n}" for n in range(1, 6)]
    assert len(recipes) == 5


def test_only_rows_still_there_are_minted_together(
    session: RefSession, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """Numbers are given to what can still be shown."""
    first = session.scalars(select(Recipe).where(Recipe.name == "A")).one()
    session.scalars(select(Recipe).where(Recipe.name == "B")).one()
    gc.collect()
    third = session.scalars(select(Recipe).where(Recipe.name == "C")).one()

    assert (third.id, first.id) == ("recipe_2", "recipe_1")
    assert conversation.refer(Recipe, recipes[1].id) == "recipe_3"


def test_a_failing_registry_does_not_show_the_key_in_its_traceback(
    sessions: sessionmaker[RefSession], tables: Engine, recipes: list[Recipe]
) -> None:
    """What is looked up is the key's number: no error may have it as its context."""
    metadata.drop_all(tables)
    with sessions(conversation=RefRegistry(tables).conversation("chat-7")) as session:
        recipe = session.scalars(select(Recipe)).first()
        with pytest.raises(RefError) as caught:
            _ = recipe.id  # type: ignore[union-attr]
    shown = "".join(traceback.format_exception(caught.value))

    for key in (recipe.id for recipe in recipes):
        assert str(key) not in shown
        assert str(key.int) not in shown


def test_an_expression_set_on_a_key_attribute_is_left_to_the_flush(
    session: RefSession, known: list[Recipe], recipes: list[Recipe]
) -> None:
    """SQL in place of a value is read as it is, disturbs no other row, and is executed."""
    plan: Any = MealPlan(recipe_id=select(Recipe.id).where(Recipe.name == "B").scalar_subquery())
    other = Recipe(name="F")
    with session.no_autoflush:
        session.add_all([plan, other])
        assert type(plan.recipe_id) is ScalarSelect
        assert [recipe.id for recipe in known][:2] == ["recipe_1", "recipe_2"]
    preference = Preference(favourites=["recipe_1"])
    session.add(preference)
    session.commit()
    preference.favourites = func.array_append(Preference.favourites, recipes[1].id)
    session.commit()

    assert plan.recipe_id == "recipe_2"
    assert preference.favourites == ["recipe_1", "recipe_2"]


@pytest.mark.usefixtures("known")
def test_a_new_object_may_change_its_session(
    session: RefSession, sessions: sessionmaker[RefSession], conversation: Conversation
) -> None:
    """An object taken out of one session and saved by another is no business of the first."""
    plan = MealPlan(recipe_id="recipe_1")
    session.add(plan)
    session.expunge(plan)
    with sessions(conversation=conversation) as second:
        second.add(plan)
        second.commit()
        assert plan.recipe_id == "recipe_1"
    session.add(MealPlan(recipe_id="recipe_2"))
    session.commit()


def test_text_that_a_rollback_took_back_is_a_key_again(
    session: RefSession, tables: Engine
) -> None:
    """Where keys are text, a bad ref set before the object joined is forgotten by a rollback."""
    mentor, person = Person(), Person()
    session.add_all([mentor, person])
    session.flush()
    person.mentor_id = mentor.id
    session.commit()
    assert (mentor.id, person.id) == ("person_1", "person_2")
    with Session(tables) as plain, session.raw_keys():
        loaded = plain.get_one(Person, person.id)
    session.expunge_all()
    loaded.mentor_id = "person_99"
    session.add(loaded)
    with pytest.raises(UnknownRefError):
        session.commit()
    session.rollback()
    assert loaded.mentor_id == "person_1"
    loaded.kind = "person"
    session.add(Recipe(name="x"))
    session.commit()

    assert (loaded.id, loaded.mentor_id) == ("person_2", "person_1")


@pytest.mark.usefixtures("known")
def test_an_object_without_state_is_read_as_before() -> None:
    """What SQLAlchemy's own attribute does for an object that was never initialised stays so."""
    recipe = Recipe.__new__(Recipe)
    recipe.__dict__["id"] = 5

    assert recipe.id == 5
