"""Refs in: new objects, attributes, merges and bulk methods take refs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session

from alfred_refs import RefSession, UnknownRefError, UntranslatableError
from tests.fix_session import TravelLog
from tests.models import MealPlan, Order, OrderLine, Preference, Recipe

pytestmark = pytest.mark.usefixtures("recipes")


@pytest.mark.usefixtures("known")
def test_constructors_take_refs(session: RefSession, store: TravelLog) -> None:
    """Refs in a new object are resolved at the flush, and read as refs before and after."""
    plan = MealPlan(recipe_id="recipe_2", instead_of="recipe_3")
    session.add(plan)
    assert (plan.recipe_id, plan.instead_of) == ("recipe_2", "recipe_3")
    session.commit()

    assert (plan.recipe_id, plan.recipe.name, plan.instead_of) == ("recipe_2", "B", "recipe_3")
    assert "resolve" not in store.trips


def test_attributes_take_refs(session: RefSession, plan: MealPlan) -> None:
    """Setting a ref on a loaded object changes its row, and its relationship follows."""
    plan.recipe_id = "recipe_4"

    assert plan.recipe_id == "recipe_4"
    session.commit()
    assert (plan.recipe_id, plan.recipe.name) == ("recipe_4", "D")
    plan.instead_of = None
    session.commit()
    assert plan.instead_of is None


def test_a_bad_ref_on_an_attribute_changes_nothing(session: RefSession, plan: MealPlan) -> None:
    """The object keeps what it had, and the session goes on."""
    with pytest.raises(UnknownRefError):
        plan.recipe_id = "recipe_9"

    assert plan.recipe_id == "recipe_1"
    assert plan not in session.dirty


@pytest.mark.usefixtures("known")
def test_a_bad_ref_in_a_new_object_stops_the_flush_and_loses_nothing(
    session: RefSession, sent: list[str]
) -> None:
    """Nothing is sent, the other objects stay pending, and a corrected ref is saved."""
    good, bad = MealPlan(recipe_id="recipe_1"), MealPlan(recipe_id="recipe_9")
    session.add_all([good, bad])
    sent.clear()
    with pytest.raises(UnknownRefError, match="'recipe_9' is not a known recipe"):
        session.commit()
    assert (sent, bad.recipe_id, good in session.new) == ([], "recipe_9", True)

    bad.recipe_id = "recipe_2"
    session.commit()
    assert (good.recipe_id, bad.recipe_id) == ("recipe_1", "recipe_2")


@pytest.mark.parametrize("end", [Session.rollback, Session.expunge_all])
@pytest.mark.usefixtures("known")
def test_a_new_object_that_was_given_up_does_not_trouble_the_next(
    session: RefSession, end: Callable[[Session], None]
) -> None:
    """After a refused flush and a rollback the session saves other objects, and later this one."""
    bad = MealPlan(recipe_id="recpie_1")
    session.add(bad)
    with pytest.raises(UnknownRefError):
        session.commit()
    end(session)
    good = MealPlan(recipe_id="recipe_1")
    session.add(good)
    session.commit()

    assert (good.recipe_id, bad.recipe_id) == ("recipe_1", "recpie_1")
    bad.recipe_id = "recipe_2"
    session.add(bad)
    session.commit()
    assert bad.recipe_id == "recipe_2"


@pytest.mark.parametrize(
    ("instance", "column"),
    [
        (lambda: Preference(device="recipe_1"), "preferences.device"),
        (lambda: Preference(legacy_recipe_id="recipe_1"), "preferences.legacy_recipe_id"),
        (lambda: Order(number="recipe_1"), "orders.number"),
    ],
)
def test_a_ref_is_refused_where_an_attribute_has_no_keys(
    session: RefSession, instance: Callable[[], Any], column: str
) -> None:
    """Before anything is sent, as in a statement; the error names the column."""
    session.add(instance())
    with pytest.raises(UntranslatableError, match=f"'recipe_1' is given for column {column}"):
        session.flush()
    session.rollback()
    assert session.scalars(select(Preference)).all() == []


@pytest.mark.usefixtures("known")
def test_a_changed_attribute_without_keys_is_checked_too(session: RefSession) -> None:
    """A text column takes any text."""
    preference, recipe = Preference(), session.get_one(Recipe, "recipe_1")
    session.add(preference)
    recipe.name = "recipe_2"
    session.commit()
    assert recipe.name == "recipe_2"

    preference.device = recipe.id
    with pytest.raises(UntranslatableError, match=r"preferences\.device"):
        session.commit()


def test_merge_leaves_the_given_object_as_it_was(
    session: RefSession, known: dict[str, Recipe], tables: Engine, recipes: list[Recipe]
) -> None:
    """An object of another session goes on showing what it showed there."""
    with Session(tables) as plain:
        theirs = plain.get_one(Recipe, recipes[0].id)
        assert session.merge(theirs) is known["A"]
        assert theirs.id == recipes[0].id
    given = Recipe(id="recipe_2", parent_recipe_id="recipe_1")
    merged = session.merge(given)
    assert (given.id, given.parent_recipe_id) == ("recipe_2", "recipe_1")
    if hasattr(Session, "merge_all"):  # since SQLAlchemy 2.1
        assert session.merge_all([given, merged]) == [merged, merged]


@pytest.mark.usefixtures("known")
def test_an_identity_is_counted_by_sqlalchemy(session: RefSession) -> None:
    """Too many parts are an error as in any session; a row is as good as a tuple."""
    session.add(Order(id=1, number=7))
    session.flush()
    session.add(OrderLine(order_id=1, position=2))
    session.commit()
    [row] = session.execute(select(OrderLine.order_id, OrderLine.position)).all()

    assert session.get_one(OrderLine, row).position == 2
    assert session.get_one(OrderLine, ["order_1", 2]).position == 2
    for identity in (("recipe_1", "recipe_2"), ("recipe_1", None)):
        with pytest.raises(InvalidRequestError, match="Incorrect number of values"):
            session.get(Recipe, identity)


@pytest.mark.parametrize("type_", [float, Decimal])
def test_a_key_of_another_type_of_number_is_shown_as_a_ref(
    session: RefSession, type_: Callable[[int], Any]
) -> None:
    """Data frames have their own integers, and floats where a column has gaps."""
    session.add(order := Order(number=7))
    session.flush()
    with session.raw_keys():
        key = order.id
    line = OrderLine(order_id=type_(key), position=1)
    session.add(line)

    before = line.order_id
    session.commit()

    assert (before, line.order_id) == (order.id, order.id)
    assert session.scalars(select(OrderLine.order_id)).one() == order.id
