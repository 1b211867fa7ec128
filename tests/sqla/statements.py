"""A statement of each kind with a key in it, to pin what becomes of it."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Executable, delete, insert, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, aliased, mapped_column

from alfred_refs import sqla
from tests.models import MealPlan, Recipe

ONE, TWO = uuid.uuid4(), uuid.uuid4()

other = aliased(Recipe)
STATEMENTS = {
    "select": lambda key: select(Recipe).where(Recipe.id == key, Recipe.name == "x"),
    "in": lambda key: select(Recipe).where(Recipe.id.in_([key])),
    "join": lambda key: select(Recipe).join(other, other.id == key),
    "cte": lambda key: select(select(Recipe.id).where(Recipe.id == key).cte()),
    "exists": lambda key: select(Recipe).where(Recipe.plans.any(MealPlan.recipe_id == key)),
    "update": lambda key: update(Recipe).where(Recipe.id == key).values(parent_recipe_id=key),
    "delete": lambda key: delete(Recipe).where(Recipe.id == key),
    "insert": lambda key: insert(MealPlan).values(recipe_id=key),
    "from select": lambda key: insert(MealPlan).from_select(
        ["recipe_id"], select(Recipe.id).where(Recipe.id == key)
    ),
}


def values(statement: Executable) -> list[Any]:
    """Return the values of a statement's parameters."""
    return [sqla.parameter_value(p) for p in sqla.cache_key_of(statement)[1]]


def declared() -> type[Any]:
    """Map a class of which nobody else knows."""

    class Own(DeclarativeBase):
        pass

    class Thing(Own):
        __tablename__ = "things"

        id: Mapped[uuid.UUID] = mapped_column(primary_key=True)

    return Thing
