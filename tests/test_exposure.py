"""What an expression shows of the key columns in it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Uuid,
    bindparam,
    case,
    cast,
    column,
    exists,
    func,
    literal,
    literal_column,
    null,
    select,
    table,
    text,
    type_coerce,
    union,
)
from sqlalchemy.orm import Bundle, aliased

from alfred_refs import RefPolicy, UntranslatableError
from alfred_refs.columns import KeyColumn
from alfred_refs.entities import Entities
from alfred_refs.exposure import UNKNOWN, UNTYPED, Exposure
from tests.models import MealPlan, Order, OrderLine, Person, Preference, Recipe, RecipeNote

countries = Table("countries", MetaData(), Column("code", String(2), primary_key=True))
recipes: Any = Recipe.__table__
other = aliased(Recipe)
by_count = select(func.count(MealPlan.id)).where(MealPlan.recipe_id == Recipe.id).scalar_subquery()
computed = select((Order.id + 1).label("next"), func.max(Order.id).label("last")).subquery()
either = union(select(Recipe.id), select(MealPlan.recipe_id)).subquery()


@pytest.fixture(scope="module")
def entities() -> Entities:
    """All types of key become refs."""
    return Entities(RefPolicy(key_types=("uuid", "integer", "string")))


def shown(element: Any, entities: Entities) -> str | None:
    """Return the entity whose keys an expression shows."""
    column = getattr(element, "__clause_element__", lambda: element)()
    found = Exposure(entities.of_column).of_any([column])
    return found.entity if isinstance(found, KeyColumn) else found


@pytest.mark.parametrize(
    ("element", "entity"),
    [
        (Recipe.id, "recipe"),
        (other.parent_recipe_id.label("x"), "recipe"),
        (Recipe.name, None),
        (Preference.favourites, "recipe"),
        (Preference.device, None),
        (OrderLine.position, None),
        (countries.c.code, "country"),
        (func.max(Recipe.id), "recipe"),
        (func.max(Order.id), "order"),
        (func.coalesce(Recipe.parent_recipe_id, Recipe.id), "recipe"),
        (func.first_value(Order.id).over(order_by=Order.number), "order"),
        (func.max(Order.id).filter(Order.number > 1), "order"),
        (func.count(Recipe.id), None),
        (func.count(), None),
        (func.count(Recipe.id.distinct()), None),
        (func.row_number().over(partition_by=Order.id, order_by=Order.id), UNTYPED),
        (func.length(Recipe.name), UNTYPED),
        (func.gen_random_uuid(type_=Uuid), UNTYPED),
        (text("id"), UNKNOWN),
        (func.lower(text("id")), UNKNOWN),
        (func.row_to_json(OrderLine.__table__.c.note), UNTYPED),
        (func.now(), None),
        (Recipe.id == Recipe.parent_recipe_id, None),
        (Recipe.id.is_(None), None),
        (exists().where(Recipe.id == MealPlan.recipe_id), None),
        (by_count, None),
        (select(func.max(Order.id)).scalar_subquery(), "order"),
        (select(MealPlan.recipe_id).scalar_subquery().label("r"), "recipe"),
        (computed.c.last, "order"),
        (either.c.id, "recipe"),
        (case((Recipe.name == "x", Recipe.id), else_=None), "recipe"),
        (case((Order.number == 1, Order.id)), "order"),
        (case((Recipe.id.is_(None), Recipe.name)), None),
        (type_coerce(Recipe.id, Uuid), "recipe"),
        (cast(Recipe.id, Uuid), "recipe"),
        (func.any_value(Person.id), "person"),
        (func.nullif(Recipe.id, bindparam("x")), "recipe"),
        (func.lag(Order.id, 1).over(order_by=Order.number), "order"),
        (func.lag(Order.id, 1, null()).over(order_by=Order.number), "order"),
        (func.coalesce(Order.id, null()), "order"),
        (func.max(Recipe.id.distinct()), "recipe"),
        (literal("x"), None),
        (null(), None),
        (bindparam("x"), None),
        (literal_column("id"), UNKNOWN),
        (column("id"), UNKNOWN),
        (table("recipes", column("id")).c.id, UNKNOWN),
        (func.coalesce(literal_column("id"), Recipe.id), UNKNOWN),
    ],
)
def test_a_value_is_a_key_of_the_column_it_comes_from(
    element: Any, entity: str | None, entities: Entities
) -> None:
    """Functions that choose among keys show keys, conditions and counts do not."""
    assert shown(element, entities) == entity


@pytest.mark.parametrize(
    "element",
    [
        cast(Recipe.id, String),
        func.lower(cast(Recipe.id, String)),
        cast(Recipe.id, String) + "!",
        func.concat("x", Recipe.id),
        func.json_build_object("id", Recipe.id),
        func.array_agg(Recipe.id),
        func.row_to_json(recipes.table_valued()),
        func.json_agg(select(Recipe).subquery().table_valued()),
        recipes.table_valued(),
        func.array_agg(Order.id, type_=ARRAY(Integer)),
        func.string_agg(cast(Recipe.id, String), ","),
        func.coalesce(Recipe.id, MealPlan.id),
        func.coalesce(Order.id, 0),
        func.coalesce(Recipe.id, Preference.device),
        case((Order.number == 1, Order.id), else_=Order.number),
        func.lag(Order.id, 1, 0).over(order_by=Order.number),
        func.sum(Order.id),
        func.avg(Order.id),
        Order.id + 1,
        -Order.id,
        Order.id % 10,
        computed.c.next,
        func.lower(countries.c.code),
        countries.c.code + "!",
        func.unnest(Preference.favourites),
        func.array_to_string(Preference.favourites, ","),
        Preference.favourites[1],
        case((Order.number == 1, cast(Order.id, String)), else_="none"),
        func.row_to_json(literal(1), Recipe.id),
        select(cast(Recipe.id, String)).scalar_subquery(),
        Bundle("keys", Recipe.id, MealPlan.id),
        func.percentile_disc(0.5).within_group(Order.id),
    ],
)
def test_what_is_made_from_a_key_is_refused_by_the_columns_name(
    element: Any, entities: Entities
) -> None:
    """A value that is not a key any more, but tells one, cannot be shown."""
    with pytest.raises(UntranslatableError, match=r"shows keys of \w+\.\w+.*raw_keys\(\)"):
        shown(element, entities)


def test_a_union_shows_keys_of_one_entity_or_is_refused(entities: Entities) -> None:
    """The selects of a union are taken together, position by position."""
    alike = [Recipe.__table__.c.id, MealPlan.__table__.c.recipe_id]
    found = Exposure(entities.of_column).of_any(alike)

    assert isinstance(found, KeyColumn)
    assert found.entity == "recipe"
    with pytest.raises(UntranslatableError):
        Exposure(entities.of_column).of_any([Recipe.__table__.c.id, MealPlan.__table__.c.id])
    assert Exposure(entities.of_column).of_any([RecipeNote.__table__.c.note, null()]) is None


def test_a_union_of_keys_and_data_is_refused(entities: Entities) -> None:
    """A position that holds keys in one select and other UUIDs in the next is neither."""
    mixed = [Recipe.__table__.c.id, Preference.__table__.c.device]

    with pytest.raises(UntranslatableError):
        Exposure(entities.of_column).of_any(mixed)
