"""The recipes A to E, as a session has read them."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alfred_refs import RefSession
from tests.models import MealPlan, Recipe

DAY = dt.date(2026, 5, 1)


def by_name(session: Session) -> dict[str, Recipe]:
    """Read all recipes in the order of their names."""
    found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
    return {recipe.name: recipe for recipe in found}


@pytest.fixture
def known(session: RefSession, recipes: list[Recipe]) -> dict[str, Recipe]:
    """The recipes A to E, read and shown: they are `recipe_1` to `recipe_5`."""
    found = by_name(session)
    assert list(found) == [recipe.name for recipe in recipes]
    assert [r.id for r in found.values()] == [f"recipe_{n}" for n in range(1, 6)]
    return found


@pytest.fixture
def plan(
    session: RefSession,
    known: dict[str, Recipe],  # noqa: ARG001  # they take the first numbers
) -> MealPlan:
    """A saved meal plan of recipe A."""
    plan = MealPlan(recipe_id="recipe_1", instead_of="recipe_2", day=DAY)
    session.add(plan)
    session.commit()
    assert plan.id == "meal_plan_1"
    return plan
