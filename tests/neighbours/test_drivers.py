"""psycopg2 and psycopg as the application's drivers, with pools and options of all kinds."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, StaticPool, create_engine, delete, insert, select, text

from alfred_refs import GoneRefError, RefRegistry, RefSession, UnknownRefError
from tests.models import MealPlan, Recipe

pytestmark = [pytest.mark.tables, pytest.mark.usefixtures("recipes")]

OPTIONS: list[dict[str, Any]] = [
    {"poolclass": NullPool},
    {"poolclass": StaticPool},
    {"pool_size": 1, "max_overflow": 0},
    {"isolation_level": "AUTOCOMMIT"},
    {"isolation_level": "SERIALIZABLE"},
    {"query_cache_size": 0},
    {"execution_options": {"schema_translate_map": {None: "public"}}},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_the_whole_way_works(driver: str, options: dict[str, Any], tables: Engine) -> None:
    """Reading, saving, bulk statements and refusals, with the registry on the same engine."""
    engine = create_engine(tables.url.set(drivername=f"postgresql+{driver}"), **options)
    conversation = RefRegistry(engine).conversation("chat-7")
    with RefSession(engine, conversation=conversation) as session:
        recipes = session.scalars(select(Recipe).order_by(Recipe.name)).all()
        assert [recipe.id for recipe in recipes[:2]] == ["recipe_1", "recipe_2"]
        plan = MealPlan(recipe_id="recipe_1")
        session.add(plan)
        session.commit()
        assert plan.id == "meal_plan_1"
        more = insert(MealPlan).returning(MealPlan.recipe_id, sort_by_parameter_order=True)
        new = [{"recipe_id": "recipe_2"}, {"recipe_id": "recipe_1"}]
        assert session.scalars(more, new).all() == ["recipe_2", "recipe_1"]
        with pytest.raises(UnknownRefError):
            session.scalars(select(MealPlan).where(MealPlan.recipe_id == "recipe_9"))
        by_text = session.scalars(text("select id from recipes order by name")).all()
        assert by_text[:2] == ["recipe_1", "recipe_2"]
        assert session.get(MealPlan, "meal_plan_1") is plan
        session.execute(delete(MealPlan).where(MealPlan.id == "meal_plan_1"))
        session.commit()
        with pytest.raises(GoneRefError):
            session.get(MealPlan, "meal_plan_1")
    engine.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_rows_are_streamed_with_refs(driver: str, tables: Engine) -> None:
    """A server-side cursor gives them in chunks; the registry has its own connection."""
    engine = create_engine(
        tables.url.set(drivername=f"postgresql+{driver}"), pool_size=1, max_overflow=0
    )
    conversation = RefRegistry(engine).conversation("chat-7")
    with RefSession(engine, conversation=conversation) as session:
        streamed = select(Recipe).order_by(Recipe.name).execution_options(yield_per=2)
        columns = select(Recipe.id).order_by(Recipe.name).execution_options(stream_results=True)

        assert [recipe.id for recipe in session.scalars(streamed)] == [
            f"recipe_{n}" for n in range(1, 6)
        ]
        assert [len(chunk) for chunk in session.scalars(columns).partitions(2)] == [2, 2, 1]
        assert session.scalars(columns).all()[-1] == "recipe_5"
    engine.dispose()


def test_statements_need_not_be_prepared(tables: Engine) -> None:
    """As behind a pooler such as PgBouncer."""
    engine = create_engine(tables.url, connect_args={"prepare_threshold": None})
    with RefSession(engine, conversation=RefRegistry(engine).conversation("chat-7")) as session:
        for _ in range(7):
            named = session.scalars(select(Recipe.id).order_by(Recipe.name)).first()
            assert session.scalars(select(Recipe.name).where(Recipe.id == named)).one() == "A"
            session.rollback()
    engine.dispose()
