"""Models of several tenants, with every kind of ownership."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Column, ForeignKey, ForeignKeyConstraint, Table, Text, Uuid, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from alfred_refs import Ownership


class Base(DeclarativeBase):
    """Declarative base of the owned models."""


def key() -> Any:
    """Return a primary key with a default in Python."""
    return mapped_column(Uuid, primary_key=True, default=uuid.uuid4)


class User(Base):
    """An owner, who owns their own row."""

    __tablename__ = "users"

    id: Mapped[Any] = key()
    name: Mapped[str]


class Ingredient(Base):
    """Without an owner: open to all."""

    __tablename__ = "ingredients"

    id: Mapped[Any] = key()
    name: Mapped[str]


recipe_tags = Table(
    "recipe_tags",
    Base.metadata,
    Column("recipe_id", Uuid, ForeignKey("recipes.id"), primary_key=True),
    Column("ingredient_id", Uuid, ForeignKey("ingredients.id"), primary_key=True),
)

recipe_links = Table(
    "recipe_links",
    Base.metadata,
    Column("from_id", Uuid, ForeignKey("recipes.id"), primary_key=True),
    Column("to_id", Uuid, ForeignKey("recipes.id"), primary_key=True),
)


class Recipe(Base):
    """Owned by a column, shared where it is null; with parent, lines and links."""

    __tablename__ = "recipes"

    id: Mapped[Any] = key()
    user_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("users.id"), nullable=True)
    parent_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("recipes.id"), nullable=True)
    name: Mapped[str]
    minutes: Mapped[int] = mapped_column(server_default=text("0"))

    user: Mapped[User | None] = relationship()
    parent: Mapped[Recipe | None] = relationship(remote_side="Recipe.id")
    lines: Mapped[list[Line]] = relationship(
        back_populates="recipe", cascade="all, delete-orphan", order_by="Line.position"
    )
    tags: Mapped[list[Ingredient]] = relationship(secondary=recipe_tags)
    links: Mapped[list[Recipe]] = relationship(
        secondary=recipe_links,
        primaryjoin="Recipe.id == recipe_links.c.from_id",
        secondaryjoin="Recipe.id == recipe_links.c.to_id",
    )


class Line(Base):
    """Owned through its recipe."""

    __tablename__ = "lines"

    id: Mapped[Any] = key()
    recipe_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("recipes.id"), nullable=True)
    ingredient_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("ingredients.id"), nullable=True)
    position: Mapped[int] = mapped_column(server_default=text("0"))
    text: Mapped[str] = mapped_column(Text)

    recipe: Mapped[Recipe | None] = relationship(back_populates="lines")
    ingredient: Mapped[Ingredient | None] = relationship()


class Remark(Base):
    """Owned through its line's recipe."""

    __tablename__ = "remarks"

    id: Mapped[Any] = key()
    line_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("lines.id"))
    text: Mapped[str]

    line: Mapped[Line] = relationship()


class Plan(Base):
    """Owned by a column, never shared; with a foreign key to a recipe."""

    __tablename__ = "plans"

    id: Mapped[Any] = key()
    user_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("users.id"), nullable=True)
    recipe_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("recipes.id"), nullable=True)
    day: Mapped[int] = mapped_column(server_default=text("1"))
    code: Mapped[str | None] = mapped_column(unique=True)

    recipe: Mapped[Recipe | None] = relationship()


class Animal(Base):
    """The base of joined and single-table inheritance."""

    __tablename__ = "animals"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}  # noqa: RUF012

    id: Mapped[Any] = key()
    kind: Mapped[str]
    user_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("users.id"))
    name: Mapped[str]


class Dog(Animal):
    """A joined subclass."""

    __tablename__ = "dogs"
    __mapper_args__ = {"polymorphic_identity": "dog"}  # noqa: RUF012

    id: Mapped[Any] = mapped_column(Uuid, ForeignKey("animals.id"), primary_key=True)
    tricks: Mapped[int] = mapped_column(server_default=text("0"))


class Cat(Animal):
    """A single-table subclass."""

    __mapper_args__ = {"polymorphic_identity": "cat"}  # noqa: RUF012


class Shelf(Base):
    """Owned, with a key of two columns."""

    __tablename__ = "shelves"

    room: Mapped[int] = mapped_column(primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("users.id"))


class Jar(Base):
    """With a composite foreign key to a shelf."""

    __tablename__ = "jars"
    __table_args__ = (ForeignKeyConstraint(["room", "place"], ["shelves.room", "shelves.place"]),)

    id: Mapped[Any] = key()
    user_id: Mapped[Any] = mapped_column(Uuid, ForeignKey("users.id"))
    room: Mapped[int | None]
    place: Mapped[int | None]


class Secret(Base):
    """Not listed in the ownership."""

    __tablename__ = "secrets"

    id: Mapped[Any] = key()
    text: Mapped[str]


def ownership(setting: str | None = None) -> Ownership:
    """Return the ownership of these models."""
    return Ownership(
        {
            User: "id",
            Recipe: "user_id",
            Line: Line.recipe,
            Remark: "line",
            Plan: Plan.user_id,
            Animal: "user_id",
            Shelf: "user_id",
            Jar: "user_id",
        },
        shared=[Recipe],
        open=[Ingredient, recipe_tags, recipe_links],
        setting=setting,
    )
