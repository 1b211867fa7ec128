"""The tests' models, with every kind of key."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Annotated, Any

from sqlalchemy import ARRAY, Column, ForeignKey, Integer, MetaData, Table, Text, Uuid, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

# Any: a key in plain sessions, a ref in a conversation
Key = Annotated[
    Any, mapped_column(Uuid, primary_key=True, server_default=text("gen_random_uuid()"))
]


class Base(DeclarativeBase):
    """Declarative base of the tests."""

    metadata = MetaData()


class Recipe(Base):
    """With a self-reference, and a text column whose values may look like refs."""

    __tablename__ = "recipes"

    id: Mapped[Key]
    name: Mapped[str]
    parent_recipe_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("recipes.id"), nullable=True)

    parent: Mapped[Recipe | None] = relationship(remote_side="Recipe.id")
    plans: Mapped[list[MealPlan]] = relationship(
        back_populates="recipe", cascade="all", foreign_keys="MealPlan.recipe_id"
    )


class MealPlan(Base):
    """With two foreign keys to one table, one of them under another name."""

    __tablename__ = "meal_plans"

    id: Mapped[Key]
    recipe_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("recipes.id"), nullable=False)
    instead_of: Mapped[Any] = mapped_column(Uuid, ForeignKey("recipes.id"), nullable=True)
    day: Mapped[dt.date | None]

    recipe: Mapped[Recipe] = relationship(back_populates="plans", foreign_keys=[recipe_id])


class Preference(Base):
    """With an array of keys, UUIDs that are not keys, and keys that stay raw."""

    __tablename__ = "preferences"

    id: Mapped[Key]
    favourites: Mapped[Any] = mapped_column(
        ARRAY(Uuid), server_default=text("'{}'"), info={"ref": Recipe}
    )
    device: Mapped[Any] = mapped_column(Uuid, nullable=True)
    legacy_recipe_id: Mapped[Any] = mapped_column(
        Uuid, ForeignKey("recipes.id"), info={"ref": None}, nullable=True
    )
    last_seen: Mapped[Any] = mapped_column(Uuid, info={"ref": "recipes.id"}, nullable=True)


class Order(Base):
    """With integer keys."""

    __tablename__ = "orders"

    id: Mapped[Any] = mapped_column(Integer, primary_key=True)
    number: Mapped[int]


class OrderLine(Base):
    """With a composite key: an order's key and a number."""

    __tablename__ = "order_lines"

    order_id: Mapped[Any] = mapped_column(Integer, ForeignKey("orders.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str | None]


class RecipeNote(Base):
    """With another entity's key as its primary key."""

    __tablename__ = "recipe_notes"

    recipe_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("recipes.id"), primary_key=True)
    note: Mapped[str]


class Person(Base):
    """The base of joined and single-table inheritance, with keys of Python type str."""

    __tablename__ = "people"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "person"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(
        Uuid(as_uuid=False), primary_key=True, server_default=text("gen_random_uuid()")
    )
    kind: Mapped[str]
    mentor_id: Mapped[Any] = mapped_column(
        Uuid(as_uuid=False), ForeignKey("people.id"), nullable=True
    )


class Cook(Person):
    """A joined subclass: its table's primary key is a foreign key to the base's."""

    __tablename__ = "cooks"
    __mapper_args__ = {"polymorphic_identity": "cook"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(Uuid(as_uuid=False), ForeignKey("people.id"), primary_key=True)
    stars: Mapped[int | None]


class Guest(Person):
    """A single-table subclass."""

    __mapper_args__ = {"polymorphic_identity": "guest"}  # noqa: RUF012


class Box(Base):
    """With UUID keys in a text column."""

    __tablename__ = "boxes"

    id: Mapped[Any] = mapped_column(Uuid(native_uuid=False), primary_key=True, default=uuid.uuid4)
    inside: Mapped[Any] = mapped_column(
        Uuid(native_uuid=False), ForeignKey("boxes.id"), nullable=True
    )
    label: Mapped[str | None]


recipe_tags = Table(
    "recipe_tags",
    Base.metadata,
    Column("recipe_id", Uuid, ForeignKey("recipes.id"), primary_key=True),
    Column("tag", Text, primary_key=True),
)

devices = Table("devices", Base.metadata, Column("id", Uuid, primary_key=True))
