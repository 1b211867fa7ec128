"""Questions about the kitchen: their SQL is accepted, and gives what it gives by itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Limits, Toolset
from examples.kitchen import DEMO_USER
from examples.kitchen.models import (
    Ingredient,
    MealPlan,
    Preferences,
    Recipe,
    RecipeIngredient,
    ShoppingItem,
    User,
)
from examples.kitchen.tools import HOOKS, OWNERSHIP, POLICY
from tests.tools.sql.judge import in_json, refs_by_key

pytest_plugins = ["tests.fix_kitchen"]

QUESTIONS = Path(__file__).with_name("questions.sql").read_text("utf-8")
FEWEST = 40

# what the owner may see, as the database itself says it
VIEWS = """
create schema seen;
create view seen.ingredients as select * from public.ingredients;
create view seen.recipes as select id, parent_recipe_id, name, description, cuisine, prep_minutes,
    cook_minutes, servings, instructions, tags
    from public.recipes where user_id = '{owner}' or user_id is null;
create view seen.recipe_ingredients as select * from public.recipe_ingredients
    where recipe_id in (select id from seen.recipes);
create view seen.meal_plans as select id, recipe_id, date, meal_type, notes
    from public.meal_plans where user_id = '{owner}';
create view seen.shopping_list as select id, ingredient_id, name, quantity, unit, bought
    from public.shopping_list where user_id = '{owner}';
create view seen.preferences as select id, assumed_staples, settings
    from public.preferences where user_id = '{owner}';
"""


def _questions() -> list[str]:
    lines = [line for line in QUESTIONS.splitlines() if line and not line.startswith("--")]
    return [re.sub(r";$", "", line) for line in lines]


@pytest.mark.slow
def test_questions_about_the_kitchen_are_answered(loaded_kitchen: Engine) -> None:
    """All of them, with the rows that the text gives on views of what the owner may see."""
    toolset = Toolset(
        [Recipe, RecipeIngredient, Ingredient, MealPlan, ShoppingItem, Preferences],
        owner=OWNERSHIP,
        policy=POLICY,
        hooks=HOOKS,
        hidden=[Recipe.embedding],
        limits=Limits(rows=10_000, characters=10_000_000),
        labels="none",
        sql=True,
    )
    registry = RefRegistry(loaded_kitchen, policy=POLICY)
    sessions = sessionmaker(loaded_kitchen, class_=RefSession, registry=registry)
    with Session(loaded_kitchen) as plain:
        user = plain.scalars(select(User.id).filter_by(name=DEMO_USER)).one()
        plain.execute(text(VIEWS.format(owner=user)))
        plain.commit()
    wrong: list[Any] = []
    with sessions(conversation="chat-7", owner=OWNERSHIP.of(user)) as session:
        for sql in _questions():
            told = toolset.call(session, "db_query", {"sql": sql})
            with loaded_kitchen.connect() as connection:
                connection.exec_driver_sql("set search_path = seen")
                result = connection.exec_driver_sql(sql.replace("%", "%%"))
                names, rows = list(result.keys()), [list(row) for row in result.all()]
                connection.rollback()
            refs = refs_by_key(session.conversation, told.get("rows", []))
            expected = {"columns": names, "rows": in_json(rows, refs)}
            if {name: told.get(name) for name in expected} != expected:
                wrong.append((sql, told, expected))

    assert wrong == []
    assert len(_questions()) >= FEWEST
