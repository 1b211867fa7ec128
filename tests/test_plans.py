"""What is decided of a statement, and how often."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import (
    Integer,
    String,
    Uuid,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    column_property,
    mapped_column,
    query_expression,
    with_expression,
)

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


class Local(DeclarativeBase):
    """Has attributes that are filled by expressions."""


class Counted(Local):
    """One is filled by each statement, others always."""

    __tablename__ = "counted"

    key: Mapped[Any] = mapped_column(Uuid, primary_key=True)
    name: Mapped[str]
    extra: Mapped[Any] = query_expression()
    same: Mapped[Any] = column_property(func.coalesce(key, key))
    raw: Mapped[Any] = column_property(cast(key, String), info={"ref": None})


@pytest.mark.parametrize(
    "expression", [Counted.key, cast(Counted.key, String), literal_column("id")]
)
def test_an_attribute_filled_by_a_statement_must_not_show_keys(
    plans: Plans, expression: Any
) -> None:
    """`with_expression()` of a key, or of what is not known, is refused; of data it is not."""
    option = with_expression(Counted.extra, expression)

    with pytest.raises(UntranslatableError, match=r"with_expression.*raw_keys\(\)"):
        plans.of(select(Counted).options(option))
    with pytest.raises(UntranslatableError):
        plans.check([option])
    plans.of(select(Counted).options(with_expression(Counted.extra, Counted.name)))


def test_an_attribute_that_is_always_an_expression_shows_a_key_or_is_left_raw(
    plans: Plans,
) -> None:
    """A `column_property()` of the key itself is a key; another is raw if it says so."""
    held = plans.entities.of_class(Counted).all

    assert {name: column.entity for name, column in held.items()} == {
        "key": "counted",
        "same": "counted",
    }
