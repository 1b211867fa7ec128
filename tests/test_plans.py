"""What is decided of a statement, and how often."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import Integer, bindparam, cast, column, literal_column, select, text

from alfred_refs import RefPolicy, UntranslatableError
from alfred_refs.entities import Entities
from alfred_refs.plans import _CAPACITY, Plans
from tests.models import MealPlan, OrderLine, Recipe


@pytest.fixture
def plans() -> Plans:
    """No plans yet."""
    return Plans(Entities(RefPolicy()))


def test_a_plan_is_made_once_for_all_statements_of_a_shape(plans: Plans) -> None:
    """Other values have the same plan, another column another."""
    _, one, _ = plans.of(select(Recipe.id).where(Recipe.id == "recipe_1"))
    _, same, [parameter] = plans.of(select(Recipe.id).where(Recipe.id == "recipe_2"))
    _, different, _ = plans.of(select(Recipe.id).where(Recipe.name == "recipe_2"))

    assert one is same
    assert parameter.value == "recipe_2"
    assert different is not one


def test_a_plan_tells_where_refs_go_in_and_come_out(plans: Plans) -> None:
    """Parameters by their place or name, columns of the result by their position."""
    statement = select(MealPlan.day, MealPlan.recipe_id).where(
        MealPlan.day == bindparam("day"),
        MealPlan.id == bindparam("plan"),
        MealPlan.instead_of.in_(["recipe_1"]),
    )

    _, plan, parameters = plans.of(statement)

    assert [parameters[place].key for place in plan.inputs.positions][:1] == ["plan"]
    assert [c.entity for c in plan.inputs.keys.values()] == ["meal_plan", "recipe"]
    assert plan.inputs.named == {"plan": plan.inputs.keys["plan"]}
    assert {p: c.name for p, c in plan.outputs.columns.items()} == {1: "meal_plans.recipe_id"}


def test_what_has_no_keys_has_nothing_to_do(plans: Plans) -> None:
    """Entities and plain columns need no work on the rows."""
    _, plan, _ = plans.of(select(Recipe, MealPlan.day, OrderLine.position))

    assert not plan.outputs


@pytest.mark.parametrize(
    "statement",
    [
        text("select 1"),
        select(literal_column("id")),
        select(column("id", Integer)).select_from(text("recipes")),
    ],
)
def test_what_the_statement_does_not_tell_is_unknown(plans: Plans, statement: object) -> None:
    """Values of unknown origin are looked at one by one."""
    _, plan, _ = plans.of(statement)  # type: ignore[arg-type]

    assert plan.outputs
    assert not plan.outputs.columns


def test_a_refusal_is_not_kept_as_a_plan(plans: Plans) -> None:
    """A statement that is refused is refused again."""
    statement = select(cast(Recipe.id, Integer))
    for _ in range(2):
        with pytest.raises(UntranslatableError, match=r"shows keys of recipes\.id inside"):
            plans.of(statement)


def test_plans_are_bounded(plans: Plans) -> None:
    """An application that writes ever new statements does not fill the memory."""
    for _ in range(_CAPACITY + 20):
        plans.of(select(Recipe.name.label(f"x{uuid.uuid4().hex}")))

    assert len(plans._plans) == _CAPACITY
