"""Writes that read from a subquery or a CTE, and writes to aliases: refs in them are keys too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Text, case, cast, delete, func, select, union, update
from sqlalchemy.orm import aliased

from alfred_refs import RefSession, UntranslatableError
from tests.models import Cook, MealPlan, Person, Recipe

pytestmark = pytest.mark.tables

PLANS: Any = MealPlan.__table__


def others() -> Any:
    """Select the keys and names of all recipes but the first, by its ref."""
    return select(Recipe.id.label("key"), Recipe.name.label("name")).where(Recipe.id != "recipe_1")


@pytest.fixture(autouse=True)
def plans(session: RefSession, recipes: list[Recipe]) -> None:
    """A meal plan for each of five recipes; both have refs in the same order."""
    keys = session.scalars(select(Recipe.id).order_by(Recipe.name)).all()
    session.add_all([MealPlan(recipe_id=key) for key in keys])
    session.commit()
    assert len(recipes) == len(keys)


WRITES: dict[str, Callable[[Any], Any]] = {
    "delete": lambda sub: delete(MealPlan).where(MealPlan.recipe_id == sub.c.key),
    "delete from a table": lambda sub: delete(PLANS).where(PLANS.c.recipe_id == sub.c.key),
    "update": lambda sub: update(MealPlan).where(MealPlan.recipe_id == sub.c.key).values(day=None),
    "update to it": lambda sub: (
        update(Recipe).where(Recipe.name == sub.c.name).values(name=sub.c.name)
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_refs_in_a_subquery_that_a_write_reads_from_are_keys(
    session: RefSession, write: Callable[[Any], Any]
) -> None:
    """It is in the statement by a column alone, where SQLAlchemy's traversal does not go."""
    result: Any = session.execute(write(others().subquery()))

    assert result.rowcount == 4


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_refs_in_a_cte_that_a_write_does_not_list_are_refused(
    session: RefSession, write: Callable[[Any], Any], sent: list[str]
) -> None:
    """No values can be put into it; a subquery in a condition gets its values."""
    with pytest.raises(UntranslatableError, match=r"recipes\.id other than by comparison"):
        session.execute(write(others().cte()))
    assert sent == []

    among = select(MealPlan.recipe_id).where(MealPlan.recipe_id != "recipe_1")
    deleted: Any = session.execute(delete(MealPlan).where(MealPlan.recipe_id.in_(among)))
    assert deleted.rowcount == 4


@pytest.mark.parametrize(
    "alias", [PLANS.alias("m"), aliased(MealPlan), aliased(MealPlan, name="n")]
)
def test_refs_that_are_written_to_an_alias_are_keys(session: RefSession, alias: Any) -> None:
    """Of a table as of a class."""
    result: Any = session.execute(update(alias).values(recipe_id="recipe_3"))

    assert result.rowcount == 5
    assert set(session.scalars(select(MealPlan.recipe_id))) == {"recipe_3"}


def test_refs_in_an_expression_that_is_assigned_are_keys(session: RefSession) -> None:
    """As in an UPDATE of the same: in a subquery, a CASE, and where it is a key itself."""
    plan, other = session.scalars(select(MealPlan)).all()[:2]
    third = select(Recipe.id).where(Recipe.id == "recipe_3").scalar_subquery()
    plan.recipe_id = third
    other.recipe_id = case((Recipe.id == "recipe_1", "recipe_2"), else_="recipe_4")
    other.recipe_id = case((MealPlan.id == other.id, "recipe_4"), else_="recipe_5")
    new = MealPlan(recipe_id=third)
    session.add(new)
    session.commit()

    assert [each.recipe_id for each in (plan, other, new)] == ["recipe_3", "recipe_4", "recipe_3"]


@pytest.mark.parametrize(
    "expression",
    [
        lambda: cast(Recipe.id, Text),
        lambda: func.concat(Recipe.id, "-"),
        lambda: select(func.json_agg(Recipe.id)).scalar_subquery(),
        lambda: Recipe.id,
    ],
)
@pytest.mark.parametrize("is_new", [True, False])
def test_an_expression_that_stores_a_key_as_data_is_refused(
    session: RefSession, expression: Callable[[], Any], is_new: bool, sent: list[str]
) -> None:
    """As in an UPDATE: whoever reads it later sees the key."""
    recipe = Recipe(name="new") if is_new else session.get_one(Recipe, "recipe_1")
    session.add(recipe)
    recipe.name = expression()
    sent.clear()

    with pytest.raises(UntranslatableError):
        session.flush()
    assert sent == []


def test_a_joined_subclass_may_be_loaded_from_a_union_with_its_alias(session: RefSession) -> None:
    """Their columns are found in two ways."""
    session.add(Cook(stars=3))
    session.commit()

    several = union(select(Cook), select(aliased(Cook)))
    found = session.scalars(select(Cook).from_statement(several)).all()

    assert [(each.id, each.stars) for each in found] == [("person_1", 3)]
    assert session.scalars(select(Person.id)).all() == ["person_1"]
