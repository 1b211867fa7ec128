"""What the benchmarks work on: tables with rows, a conversation, and how much is to be done.

The same tables are mapped twice. A `RefSession` changes the attributes of the classes that it
loads; those of the twins are as SQLAlchemy made them, as in a process without the package.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, ForeignKey, MetaData, Uuid, insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import Conversation, RefRegistry, RefSession
from benchmarks.population import Populated

# PostgreSQL's manual has a quarter of a server's memory; by default it is 128 MB, and of a full
# registry less would be in it than a conversation of a million has
SERVER: Mapping[str, str] = {"shared_buffers": "2GB"}

_DAY = dt.date(2026, 5, 1)


@dataclass(frozen=True, slots=True)
class Tables:
    """Recipes, and meal plans: two keys and two plain columns each."""

    metadata: MetaData
    recipe: type[Any]
    meal_plan: type[Any]


def mapped_tables() -> Tables:
    """Return classes mapped anew, known to no other."""

    class Base(DeclarativeBase):
        metadata = MetaData()

    class Recipe(Base):
        __tablename__ = "recipes"

        id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
        name: Mapped[str]

    class MealPlan(Base):
        __tablename__ = "meal_plans"

        id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
        recipe_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("recipes.id"))
        day: Mapped[dt.date]
        meal: Mapped[str]

    return Tables(Base.metadata, Recipe, MealPlan)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where all rows of the table are measured.

    Attributes:
        engine: the database's.
        bare: another on the same database, which no registry knows.
        registry: in the same database.
        conversation: in which every key has a ref, and this process knows it.
        ours: the classes that a `RefSession` has loaded.
        twins: the same tables for a plain session, never loaded by a `RefSession`.
        recipes: the keys of the recipes, in the order of their refs.
        meal_plans: the keys of the meal plans, one a recipe, in the order of their refs.
        repetitions: how often each side is timed.
        populated: another database, with a very full registry.
    """

    engine: Engine
    bare: Engine
    registry: RefRegistry
    conversation: Conversation
    ours: Tables
    twins: Tables
    recipes: Sequence[uuid.UUID]
    meal_plans: Sequence[uuid.UUID]
    repetitions: int
    populated: Populated


def set_up(
    engine: Engine, bare: Engine, populated: Populated, *, rows: int, repetitions: int
) -> Setting:
    """Fill an empty database, and show every key once.

    Args:
        engine: the database's.
        bare: another on the same database.
        populated: another database, with a very full registry.
        rows: how many recipes there are, and how many meal plans.
        repetitions: how often each side is to be timed.
    """
    ours, twins = mapped_tables(), mapped_tables()
    recipes, meal_plans = ([uuid.uuid4() for _ in range(rows)] for _ in range(2))
    fill(bare, twins, recipes, meal_plans)
    registry = RefRegistry(engine)
    registry.create_tables()
    conversation = registry.conversation("benchmark")
    conversation.refer_all(ours.recipe, recipes)
    conversation.refer_all(ours.meal_plan, meal_plans)
    with RefSession(engine, conversation=conversation) as session:
        session.get_one(ours.recipe, "recipe_1")
        session.get_one(ours.meal_plan, "meal_plan_1")
    return Setting(
        engine=engine,
        bare=bare,
        registry=registry,
        conversation=conversation,
        ours=ours,
        twins=twins,
        recipes=recipes,
        meal_plans=meal_plans,
        repetitions=repetitions,
        populated=populated,
    )


def fill(
    engine: Engine,
    tables: Tables,
    recipes: Sequence[uuid.UUID],
    meal_plans: Sequence[uuid.UUID],
) -> None:
    """Make the tables, and rows with these keys."""
    tables.metadata.create_all(engine)
    with Session(engine) as session:
        session.execute(
            insert(tables.recipe),
            [{"id": key, "name": f"recipe {n}"} for n, key in enumerate(recipes)],
        )
        session.execute(
            insert(tables.meal_plan),
            [
                {"id": plan, "recipe_id": recipe, "day": _DAY, "meal": "dinner"}
                for plan, recipe in zip(meal_plans, recipes, strict=True)
            ],
        )
        session.commit()
