"""Tests for examples.kitchen.load and examples.kitchen.models, on Postgres."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, any_, func, inspect, select, text
from sqlalchemy.orm import Session

from examples.kitchen import DEMO_USER
from examples.kitchen.load import ASSUMED_STAPLES, Loaded, cuisine, load
from examples.kitchen.models import (
    Base,
    CookingLog,
    FlavorPreference,
    Ingredient,
    MealPlan,
    Preferences,
    Recipe,
    RecipeIngredient,
    Task,
    User,
)

pytest_plugins = ["tests.fix_kitchen"]


@pytest.fixture
def kitchen(engine: Engine, extensions: None) -> Engine:  # noqa: ARG001
    """Give an engine on empty kitchen tables."""
    Base.metadata.create_all(engine)
    return engine


@pytest.fixture
def session(kitchen: Engine) -> Iterator[Session]:
    """Give a session on empty kitchen tables."""
    with Session(kitchen) as session:
        yield session


@pytest.fixture
def loaded(loaded_kitchen: Engine) -> Iterator[Session]:
    """Give a session on a loaded kitchen."""
    with Session(loaded_kitchen) as session:
        yield session


@pytest.fixture
def user(session: Session) -> User:
    """Give a saved user."""
    user = User(name="Ada")
    session.add(user)
    session.flush()
    return user


def _recipe(*ingredients: Ingredient, user: User | None = None) -> Recipe:
    lines = [RecipeIngredient(name=each.name, ingredient=each) for each in ingredients]
    return Recipe(name="Soup", ingredients=lines, user=user)


@pytest.mark.slow
def test_load_writes_every_recipe_and_line(session: Session) -> None:
    """All recipes, catalogue entries and lines that load counts; the commit is the caller's."""
    loaded = load(session)
    written = [
        session.scalar(select(func.count()).select_from(model))
        for model in (Recipe, Ingredient, RecipeIngredient)
    ]
    assert loaded == Loaded(404, 1173, 3305)
    assert written == [404, 1173, 3305]

    session.rollback()
    assert session.scalars(select(Recipe)).all() == []


def test_load_fills_the_kitchen(loaded: Session) -> None:
    """Recipes are shared, lines are in order and catalogued, and the demo user has staples."""
    recipe = loaded.scalars(select(Recipe).filter_by(name="Spaghetti aglio e olio")).one()
    staples = (
        select(Ingredient.name)
        .join(Preferences, Ingredient.id == any_(Preferences.assumed_staples))
        .join(Preferences.user)
        .where(User.name == DEMO_USER)
    )
    assert (recipe.user_id, recipe.cuisine, recipe.cook_minutes) == (None, "italian", 15)
    assert len(recipe.instructions) == 7
    assert [
        (line.position, line.quantity, line.unit, line.ingredient and line.ingredient.name)
        for line in recipe.ingredients
    ] == [
        (0, "1", "lb", "spaghetti"),
        (1, "1/2", "cup", "extra virgin olive oil"),
        (2, "5-6", "clove", "garlic"),
        (3, "1/4", "tsp", "red pepper flake"),
        (4, "1", "bunch", "parsley"),
    ]
    assert sorted(loaded.scalars(staples)) == sorted(ASSUMED_STAPLES)


def test_spellings_share_a_row(loaded: Session) -> None:
    """Lines that say onion, Onions and small onions point to one row, which lists them."""
    onion = loaded.scalars(select(Ingredient).filter_by(name="onion")).one()
    names = select(RecipeIngredient.name).filter_by(ingredient_id=onion.id)
    assert {"onion", "Onions", "small onion"} <= set(loaded.scalars(names))
    assert {"onions", "small onion"} <= set(onion.aliases)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [(["pasta", "italian"], "italian"), (["quick", "new zealand"], "new zealand"), ([], None)],
)
def test_cuisine_is_a_known_tag(tags: list[str], expected: str | None) -> None:
    """The first tag that names a cuisine is the cuisine, and none is none."""
    assert cuisine(tags) == expected


def test_every_key_is_made_by_postgres(session: Session) -> None:
    """Each table has one uuid key, with a default in the database."""
    inspector = inspect(session.connection())
    defaults = {
        name: [
            column["default"] for column in inspector.get_columns(name) if column["name"] == "id"
        ]
        for name in Base.metadata.tables
    }
    assert defaults == {name: ["gen_random_uuid()"] for name in Base.metadata.tables}


def test_lines_are_renumbered_when_one_is_moved(session: Session) -> None:
    """Positions follow the order of the list, and a removed line is deleted."""
    recipe = _recipe(*(Ingredient(name=name) for name in ("salt", "leek", "milk")))
    session.add(recipe)
    session.flush()
    recipe.ingredients.insert(0, recipe.ingredients.pop())
    del recipe.ingredients[1]
    session.flush()
    session.expire(recipe)
    assert [(line.position, line.name) for line in recipe.ingredients] == [
        (0, "milk"),
        (1, "leek"),
    ]


def test_a_deleted_recipe_takes_its_lines_and_is_forgotten(session: Session, user: User) -> None:
    """Its lines go; variants, meal plans, tasks and log entries stay without it."""
    recipe = _recipe(Ingredient(name="leek"))
    referring = [
        Recipe(name="Cold soup", parent=recipe),
        MealPlan(user=user, recipe=recipe, date=dt.date(2024, 2, 29), meal_type="dinner"),
        Task(user=user, recipe=recipe, description="wash the leek"),
        CookingLog(user=user, recipe=recipe),
    ]
    session.add_all(referring)
    session.flush()
    session.delete(recipe)
    session.flush()
    session.expire_all()
    assert session.scalars(select(RecipeIngredient)).all() == []
    assert [getattr(row, "recipe_id", None) for row in referring] == [None] * 4
    assert session.scalars(select(Recipe)).one().parent_recipe_id is None


def test_a_deleted_meal_plan_is_forgotten(session: Session, user: User) -> None:
    """Its tasks and log entries stay without it."""
    plan = MealPlan(user=user, date=dt.date(2024, 2, 29), meal_type="dinner")
    task = Task(user=user, meal_plan=plan, description="shop")
    log = CookingLog(user=user, meal_plan=plan)
    session.add_all([task, log])
    session.flush()
    session.delete(plan)
    session.flush()
    session.expire_all()
    assert (task.meal_plan_id, log.from_meal_plan_id) == (None, None)


def test_a_deleted_user_takes_their_rows_only(session: Session, user: User) -> None:
    """Their recipes and preferences go, and shared recipes stay."""
    session.add_all([_recipe(user=user), Preferences(user=user), shared := _recipe()])
    session.flush()
    session.delete(user)
    session.flush()
    session.expire_all()
    assert session.scalars(select(Recipe)).all() == [shared]
    assert session.scalars(select(Preferences)).all() == []


def test_the_trigger_counts_flavors(session: Session, user: User) -> None:
    """Each meal cooked counts each of its ingredients once, however often a line names it."""
    leek, milk = Ingredient(name="leek"), Ingredient(name="milk")
    recipes = [_recipe(leek, milk, leek), _recipe(leek)]
    session.add_all(recipes)
    session.flush()
    session.add_all(CookingLog(user=user, recipe=recipe) for recipe in recipes)
    session.flush()
    counts = select(Ingredient.name, FlavorPreference.times_cooked).join_from(
        FlavorPreference, Ingredient
    )
    assert sorted(map(tuple, session.execute(counts))) == [("leek", 2), ("milk", 1)]


def test_drop_all_leaves_nothing(kitchen: Engine) -> None:
    """Dropping the tables drops the trigger's function too, so that they can be made again."""
    Base.metadata.drop_all(kitchen)
    with kitchen.connect() as connection:
        function = connection.scalar(text("SELECT to_regproc('count_flavors')"))
    assert function is None
