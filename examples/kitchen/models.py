"""The kitchen's tables, as declarative models with keys made by Postgres.

Ordinary SQLAlchemy, with what breaks naive ref translation: a self-reference
(``recipes.parent_recipe_id``), two foreign keys to different parents (``recipe_ingredients``,
``tasks``), a foreign key not named after its table (``cooking_log.from_meal_plan_id``), an array
of keys without a constraint (``preferences.assumed_staples``), jsonb that may hold keys
(``preferences.settings``), a vector (``recipes.embedding``), shared rows among owned ones
(``recipes.user_id`` null) and a table that only a trigger writes (``flavor_preferences``).
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pgvector.sqlalchemy import Vector
from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    ForeignKey,
    MetaData,
    Text,
    UniqueConstraint,
    Uuid,
    event,
    func,
    inspect,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.orderinglist import ordering_list
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from examples.kitchen import server
from examples.kitchen.embedding import DIMENSIONS, embed

_RANDOM_KEY = text("gen_random_uuid()")
Key = Annotated[uuid.UUID, mapped_column(primary_key=True, server_default=_RANDOM_KEY)]
Texts = Annotated[list[str], mapped_column(ARRAY(Text), server_default=text("'{}'"))]
# what happens to a row when the one it points to is deleted: it goes too, or it forgets
OwnedBy = Annotated[
    uuid.UUID, mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
]
SomeIngredient = Annotated[
    uuid.UUID | None,
    mapped_column(ForeignKey("ingredients.id", ondelete="SET NULL"), index=True),
]
SomeRecipe = Annotated[
    uuid.UUID | None, mapped_column(ForeignKey("recipes.id", ondelete="SET NULL"), index=True)
]
SomeMealPlan = Annotated[
    uuid.UUID | None,
    mapped_column(ForeignKey("meal_plans.id", ondelete="SET NULL"), index=True),
]

# what a recipe's vector is made of
EMBEDDED: Final = ("name", "description", "tags")


class Base(DeclarativeBase):
    """Declarative base of the kitchen: text without a length, constraints with stable names."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {str: Text, dict[str, Any]: JSONB}  # noqa: RUF012  # SQLAlchemy's name


class User(Base):
    """A person who cooks, and owns rows of the other tables."""

    __tablename__ = "users"

    id: Mapped[Key]
    name: Mapped[str] = mapped_column(unique=True)

    # "all": the database deletes them; emptying user_id would share a private recipe
    recipes: Mapped[list[Recipe]] = relationship(back_populates="user", passive_deletes="all")
    preferences: Mapped[Preferences | None] = relationship(
        back_populates="user", passive_deletes="all"
    )


class Ingredient(Base):
    """A catalogue entry that all users share, under one name in the singular."""

    __tablename__ = "ingredients"

    id: Mapped[Key]
    name: Mapped[str] = mapped_column(unique=True)
    aliases: Mapped[Texts]
    category: Mapped[str | None]


def _embedding(recipe: Mapping[str, Any]) -> list[float] | None:
    """Return the vector of what a recipe says of itself."""
    tags = recipe.get("tags") or []
    return embed(recipe["name"], recipe.get("description"), " ".join(tags))


def _embedding_of_new(context: Any) -> list[float] | None:
    """Return the vector of a row that is inserted, by the ORM or in bulk."""
    return _embedding(context.get_current_parameters())


class Recipe(Base):
    """A recipe, shared with everyone where it has no user, and perhaps a variant of another."""

    __tablename__ = "recipes"

    id: Mapped[Key]
    user_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), index=True
    )
    parent_recipe_id: Mapped[SomeRecipe]
    name: Mapped[str]
    description: Mapped[str | None]
    cuisine: Mapped[str | None]
    prep_minutes: Mapped[int | None]
    cook_minutes: Mapped[int | None]
    servings: Mapped[int | None]
    instructions: Mapped[Texts]
    tags: Mapped[Texts]
    # without an index: of a few hundred rows the exact search is faster, and misses none
    embedding: Mapped[list[float] | None] = mapped_column(
        Vector(DIMENSIONS), default=_embedding_of_new, deferred=True
    )

    user: Mapped[User | None] = relationship(back_populates="recipes")
    parent: Mapped[Recipe | None] = relationship(
        back_populates="variants", remote_side="Recipe.id"
    )
    variants: Mapped[list[Recipe]] = relationship(back_populates="parent", passive_deletes=True)
    ingredients: Mapped[list[RecipeIngredient]] = relationship(
        back_populates="recipe",
        order_by="RecipeIngredient.position",
        collection_class=ordering_list("position"),
        cascade="all, delete-orphan",
        passive_deletes=True,
    )


class RecipeIngredient(Base):
    """One ingredient line of a recipe, in its place, pointing into the catalogue if it can."""

    __tablename__ = "recipe_ingredients"

    id: Mapped[Key]
    recipe_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("recipes.id", ondelete="CASCADE"), index=True
    )
    ingredient_id: Mapped[SomeIngredient]
    name: Mapped[str]
    quantity: Mapped[str | None]
    unit: Mapped[str | None]
    position: Mapped[int]

    recipe: Mapped[Recipe] = relationship(back_populates="ingredients")
    ingredient: Mapped[Ingredient | None] = relationship()


class InventoryItem(Base):
    """Something a user has at home."""

    __tablename__ = "inventory"

    id: Mapped[Key]
    user_id: Mapped[OwnedBy]
    ingredient_id: Mapped[SomeIngredient]
    name: Mapped[str]
    quantity: Mapped[str | None]
    unit: Mapped[str | None]
    location: Mapped[str | None]
    expires_on: Mapped[dt.date | None]

    user: Mapped[User] = relationship()
    ingredient: Mapped[Ingredient | None] = relationship()


class ShoppingItem(Base):
    """Something a user wants to buy."""

    __tablename__ = "shopping_list"

    id: Mapped[Key]
    user_id: Mapped[OwnedBy]
    ingredient_id: Mapped[SomeIngredient]
    name: Mapped[str]
    quantity: Mapped[str | None]
    unit: Mapped[str | None]
    bought: Mapped[bool] = mapped_column(server_default=text("false"))

    user: Mapped[User] = relationship()
    ingredient: Mapped[Ingredient | None] = relationship()


class MealPlan(Base):
    """A meal a user intends to cook on a day, of a recipe or of none yet."""

    __tablename__ = "meal_plans"

    id: Mapped[Key]
    user_id: Mapped[OwnedBy]
    recipe_id: Mapped[SomeRecipe]
    date: Mapped[dt.date]
    meal_type: Mapped[str]
    notes: Mapped[str | None]

    user: Mapped[User] = relationship()
    recipe: Mapped[Recipe | None] = relationship()
    tasks: Mapped[list[Task]] = relationship(back_populates="meal_plan", passive_deletes=True)


class Task(Base):
    """Something to do in time for a meal, such as to soak beans."""

    __tablename__ = "tasks"

    id: Mapped[Key]
    user_id: Mapped[OwnedBy]
    recipe_id: Mapped[SomeRecipe]
    meal_plan_id: Mapped[SomeMealPlan]
    description: Mapped[str]
    due_on: Mapped[dt.date | None]
    done: Mapped[bool] = mapped_column(server_default=text("false"))

    user: Mapped[User] = relationship()
    recipe: Mapped[Recipe | None] = relationship()
    meal_plan: Mapped[MealPlan | None] = relationship(back_populates="tasks")


class CookingLog(Base):
    """A meal that was cooked, and how it was liked, from 1 to 5."""

    __tablename__ = "cooking_log"
    __table_args__ = (CheckConstraint("rating BETWEEN 1 AND 5", name="rating"),)

    id: Mapped[Key]
    user_id: Mapped[OwnedBy]
    recipe_id: Mapped[SomeRecipe]
    from_meal_plan_id: Mapped[SomeMealPlan]
    cooked_on: Mapped[dt.date] = mapped_column(server_default=func.current_date())
    rating: Mapped[int | None]
    notes: Mapped[str | None]

    user: Mapped[User] = relationship()
    recipe: Mapped[Recipe | None] = relationship()
    meal_plan: Mapped[MealPlan | None] = relationship()


class Preferences(Base):
    """How one user cooks and eats; the staples are always at home and need no shopping."""

    __tablename__ = "preferences"

    id: Mapped[Key]
    user_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), unique=True
    )
    # Postgres has no foreign keys from array elements, so the column says what it holds
    assumed_staples: Mapped[list[uuid.UUID]] = mapped_column(
        ARRAY(Uuid), server_default=text("'{}'"), info={"ref": "ingredients.id"}
    )
    settings: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))

    user: Mapped[User] = relationship(back_populates="preferences")


class FlavorPreference(Base):
    """How many meals with an ingredient a user has cooked, as counted by the database."""

    __tablename__ = "flavor_preferences"
    __table_args__ = (UniqueConstraint("user_id", "ingredient_id"),)

    id: Mapped[Key]
    user_id: Mapped[OwnedBy]
    ingredient_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("ingredients.id", ondelete="CASCADE"), index=True
    )
    times_cooked: Mapped[int] = mapped_column(server_default=text("0"))

    user: Mapped[User] = relationship()
    ingredient: Mapped[Ingredient] = relationship()


@event.listens_for(Recipe, "before_update")
def _embed_again(_mapper: object, _connection: object, recipe: Recipe) -> None:
    """Keep the vector in step with what it is made of; an `update()` statement does not."""
    attributes = inspect(recipe).attrs
    if any(attributes[name].history.has_changes() for name in EMBEDDED):
        recipe.embedding = _embedding({name: getattr(recipe, name) for name in EMBEDDED})


server.add_to(Base.metadata)
