"""Rows that a session deletes, or adds in vain: their refs say what became of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Delete, delete, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import GoneRefError, RefSession
from tests.models import MealPlan, Recipe, RecipeNote
from tests.session.conftest import DAY, by_name

pytestmark = pytest.mark.usefixtures("recipes")


def test_a_deleted_row_is_gone_once_the_deletion_is_committed(
    session: RefSession, plan: MealPlan
) -> None:
    """Before the commit the ref can still be used; afterwards it says what happened."""
    assert plan.id == "meal_plan_1"
    session.delete(plan)
    session.rollback()
    assert session.get(MealPlan, "meal_plan_1") is plan

    session.delete(plan)
    session.commit()
    with pytest.raises(GoneRefError, match="'meal_plan_1' was deleted"):
        session.get(MealPlan, "meal_plan_1")


def test_rows_deleted_by_a_statement_are_gone(session: RefSession, plan: MealPlan) -> None:
    """A DELETE that names rows by ref notes which of them it deleted, not those it spared."""
    session.add(MealPlan(recipe_id="recipe_1"))
    session.flush()
    assert session.scalars(select(MealPlan.id).order_by(MealPlan.day)).all() == [
        *("meal_plan_1", "meal_plan_2"),
    ]
    session.commit()
    session.execute(
        delete(MealPlan).where(MealPlan.id.in_([plan.id, "meal_plan_2"]), MealPlan.day == DAY)
    )
    session.commit()

    with pytest.raises(GoneRefError, match="'meal_plan_1' was deleted"):
        session.get(MealPlan, "meal_plan_1")
    assert session.get(MealPlan, "meal_plan_2") is not None


def test_a_statements_deletion_that_is_rolled_back_is_forgotten(
    session: RefSession, plan: MealPlan
) -> None:
    """A savepoint or the whole rolled back: the row is there, and its ref works."""
    statement: Delete = delete(MealPlan).where(MealPlan.id == plan.id)
    with session.begin_nested() as savepoint:
        session.execute(statement)
        savepoint.rollback()
    session.commit()
    session.execute(statement)
    session.rollback()

    assert session.get(MealPlan, "meal_plan_1") is not None


@pytest.mark.parametrize("end", [Session.rollback, Session.close])
def test_a_row_that_was_rolled_back_was_never_saved(
    session: RefSession, sessions: sessionmaker[RefSession], end: Callable[[Session], None]
) -> None:
    """Its number stays taken, and its ref resolves to what happened."""
    lost = Recipe(name="lost")
    session.add(lost)
    session.flush()
    assert lost.id == "recipe_1"
    end(session)

    with sessions(conversation=session.conversation) as again:
        with pytest.raises(GoneRefError, match="'recipe_1' was never saved"):
            again.get(Recipe, "recipe_1")
        assert next(iter(by_name(again).values())).id == "recipe_2"


def test_a_row_rolled_back_to_a_savepoint_was_never_saved(session: RefSession) -> None:
    """What was flushed before the savepoint is saved, what came after it was not."""
    kept, lost = Recipe(name="kept"), Recipe(name="lost")
    session.add(kept)
    session.flush()
    with session.begin_nested() as savepoint:
        session.add(lost)
        session.flush()
        assert (kept.id, lost.id) == ("recipe_1", "recipe_2")
        savepoint.rollback()
    session.commit()

    assert session.get(Recipe, "recipe_1") is kept
    with pytest.raises(GoneRefError, match="'recipe_2' was never saved"):
        session.get(Recipe, "recipe_2")


def test_deleting_a_row_whose_key_is_anothers_leaves_the_other(
    session: RefSession, known: dict[str, Recipe]
) -> None:
    """A note's primary key is its recipe's: deleting the note does not make the recipe gone."""
    note = RecipeNote(recipe_id="recipe_1", note="salt")
    session.add(note)
    session.commit()
    assert session.get(RecipeNote, "recipe_1") is note
    session.delete(note)
    session.commit()
    session.execute(delete(RecipeNote).where(RecipeNote.recipe_id == "recipe_1"))
    session.commit()

    assert session.get(Recipe, "recipe_1") is known["A"]
