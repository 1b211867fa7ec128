"""What is decided of a statement, and how often."""

from __future__ import annotations

import gc
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
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    aliased,
    column_property,
    mapped_column,
    query_expression,
    with_expression,
)

from alfred_refs import RefPolicy, UntranslatableError, sqla
from alfred_refs.mapping.entities import Entities
from alfred_refs.statements.plans import _CAPACITY, StatementPlans
from tests.models import Cook, MealPlan, OrderLine, Preference, Recipe
from tests.sqla.statements import declared


@pytest.fixture
def plans() -> StatementPlans:
    """No plans yet."""
    return StatementPlans(Entities(RefPolicy()))


def test_a_plan_is_made_once_for_all_statements_of_a_shape(plans: StatementPlans) -> None:
    """Other values have the same plan, another column another."""
    _, one, _ = plans.of(select(Recipe.id).where(Recipe.id == "recipe_1"))
    _, same, [parameter] = plans.of(select(Recipe.id).where(Recipe.id == "recipe_2"))
    _, different, _ = plans.of(select(Recipe.id).where(Recipe.name == "recipe_2"))

    assert one is same
    assert parameter.value == "recipe_2"
    assert different is not one


def test_a_plan_tells_where_refs_go_in_and_come_out(plans: StatementPlans) -> None:
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


ONE_PLACE = {
    "select": select(Recipe).where(Recipe.name == "x", Recipe.id == "recipe_1"),
    "list": select(Recipe).where(Recipe.id.in_(["recipe_1"])),
    "update": update(Recipe).where(Recipe.id == "recipe_1").values(name="x"),
    "delete": delete(MealPlan).where(MealPlan.recipe_id == "recipe_1"),
}
OTHER_PLACES = {
    "none": select(Recipe).where(Recipe.name == "x"),
    "two": select(MealPlan).where(MealPlan.id == "meal_plan_1", MealPlan.recipe_id == "recipe_1"),
    "subquery": select(Recipe).where(Recipe.plans.any(MealPlan.id == "meal_plan_1")),
    "array": select(Preference).where(Preference.favourites == ["recipe_1"]),
    "values": update(MealPlan).where(MealPlan.day.is_(None)).values(recipe_id="recipe_1"),
    "insert": insert(MealPlan).values(recipe_id="recipe_1"),
    "mixed": select(Recipe).where(func.lower(cast(Recipe.id, String)) == "recipe_1"),
}


@pytest.mark.parametrize("name", ONE_PLACE)
def test_a_plan_knows_that_one_parameter_is_all_there_is(plans: StatementPlans, name: str) -> None:
    """It is compared with a key column in the WHERE, and nothing else may be a ref."""
    _, plan, values = plans.of(ONE_PLACE[name])

    assert plan.single is not None
    assert values[plan.single.position].effective_value in ("recipe_1", ["recipe_1"])
    assert plan.single.column.entity == "recipe"


@pytest.mark.parametrize("name", OTHER_PLACES)
def test_a_plan_knows_that_there_is_more_to_look_at(plans: StatementPlans, name: str) -> None:
    """Or less; the quick way is only for what it does completely."""
    _, plan, _ = plans.of(OTHER_PLACES[name])

    assert plan.single is None


def test_the_only_text_is_left_to_another_where_it_is_not_the_statements_own(
    plans: StatementPlans,
) -> None:
    """A list has several, a function is asked late, and `params()` of 2.1 has the last word."""
    given: Any = bindparam("given", "recipe_1", Uuid())
    late: Any = bindparam(None, type_=Uuid(), callable_=lambda: "recipe_1")
    statements = [
        select(Recipe).where(Recipe.id == "recipe_1"),
        select(Recipe).where(Recipe.id.in_(["recipe_1"])),
        select(Recipe).where(Recipe.id == late),
        select(Recipe).where(Recipe.id == given).params(given="recipe_2"),
    ]
    told: list[Any] = []
    for statement, plan, values in map(plans.of, statements):
        assert plan.single is not None
        told.append(plan.single.text_in(statement, values))

    assert told[:3] == ["recipe_1", None, None]
    assert told[3] in ("recipe_2", None)  # 2.0 puts it into the statement


def test_what_has_no_keys_has_nothing_to_do(plans: StatementPlans) -> None:
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
def test_what_the_statement_does_not_tell_is_unknown(
    plans: StatementPlans, statement: object
) -> None:
    """Values of unknown origin are looked at one by one."""
    _, plan, _ = plans.of(statement)  # type: ignore[arg-type]

    assert plan.outputs
    assert not plan.outputs.columns


def test_a_refusal_is_not_kept_as_a_plan(plans: StatementPlans) -> None:
    """A statement that is refused is refused again."""
    statement = select(cast(Recipe.id, Integer))
    for _ in range(2):
        with pytest.raises(UntranslatableError, match=r"shows keys of recipes\.id inside"):
            plans.of(statement)


def test_plans_are_bounded(plans: StatementPlans) -> None:
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
    plans: StatementPlans, expression: Any
) -> None:
    """`with_expression()` of a key, or of what is not known, is refused; of data it is not."""
    option = with_expression(Counted.extra, expression)

    with pytest.raises(UntranslatableError, match=r"with_expression.*raw_keys\(\)"):
        plans.of(select(Counted).options(option))
    with pytest.raises(UntranslatableError):
        plans.check([option])
    plans.of(select(Counted).options(with_expression(Counted.extra, Counted.name)))


def test_an_attribute_that_is_always_an_expression_shows_a_key_or_is_left_raw(
    plans: StatementPlans,
) -> None:
    """A `column_property()` of the key itself is a key; another is raw if it says so."""
    held = plans.entities.of_class(Counted).all

    assert {name: column.entity for name, column in held.items()} == {
        "key": "counted",
        "same": "counted",
    }


def test_a_union_whose_columns_cannot_be_told_is_refused(plans: StatementPlans) -> None:
    """A joined subclass and its alias tell the same columns in two ways: five, and four."""
    union = union_all(select(Cook), select(aliased(Cook)))

    with pytest.raises(UntranslatableError, match=r"keys of .*people\.id"):
        plans.of(union)


@pytest.mark.slow
def test_a_class_in_the_place_of_one_that_is_gone_has_plans_of_its_own(
    plans: StatementPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept cannot be told from what it was, and is made anew."""
    # as if all were made in one place of the memory
    monkeypatch.setattr(sqla.WeakCacheKey, "__hash__", lambda _: 0)
    monkeypatch.setattr(sqla, "cache_key_of", _in_one_place(sqla.cache_key_of))
    for _ in range(3):
        thing = declared()
        _, plan, _ = plans.of(select(thing).where(thing.id == "thing_1"))
        assert plans.of(select(thing).where(thing.id == "thing_2"))[1] is plan
        assert plan.single is not None
        assert plan.single.column.entity == "thing"
        del thing, plan
        gc.collect()


def _in_one_place(shape_of: Any) -> Any:
    class Shape(tuple[Any, ...]):
        __slots__ = ()

        def __hash__(self) -> int:
            return 0

    def found(statement: Any) -> Any:
        shape, parameters = shape_of(statement)
        return Shape(shape), parameters

    return found
