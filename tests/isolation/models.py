"""Models with every kind of ownership and mapping."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ForeignKey, ForeignKeyConstraint, Table, func, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    column_property,
    mapped_column,
    query_expression,
    relationship,
)

from alfred_refs import Ownership


class Base(DeclarativeBase):
    """Declarative base of these tables."""


class User(Base):
    """An owner, who owns their own row."""

    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]


class Tag(Base):
    """Without an owner: open to all."""

    __tablename__ = "tags"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]


recipe_tags = Table(
    "recipe_tags",
    Base.metadata,
    Column("recipe_id", ForeignKey("recipes.id"), primary_key=True),
    Column("tag_id", ForeignKey("tags.id"), primary_key=True),
)

recipe_links = Table(
    "recipe_links",
    Base.metadata,
    Column("from_id", ForeignKey("recipes.id"), primary_key=True),
    Column("to_id", ForeignKey("recipes.id"), primary_key=True),
)


class Recipe(Base):
    """Owned by a column, shared where it is null; with parent, lines and links."""

    __tablename__ = "recipes"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("recipes.id"))
    name: Mapped[str]
    minutes: Mapped[int] = mapped_column(server_default="0")
    extra: Mapped[int | None] = query_expression()

    user: Mapped[User | None] = relationship()
    parent: Mapped[Recipe | None] = relationship(
        remote_side="Recipe.id", back_populates="children"
    )
    children: Mapped[list[Recipe]] = relationship(back_populates="parent", order_by="Recipe.id")
    lines: Mapped[list[Line]] = relationship(
        back_populates="recipe", cascade="all, delete-orphan", order_by="Line.id"
    )
    plans: Mapped[list[Plan]] = relationship(back_populates="recipe", order_by="Plan.id")
    tags: Mapped[list[Tag]] = relationship(secondary=recipe_tags, order_by="Tag.id")
    links: Mapped[list[Recipe]] = relationship(
        secondary=recipe_links,
        primaryjoin="Recipe.id == recipe_links.c.from_id",
        secondaryjoin="Recipe.id == recipe_links.c.to_id",
        order_by="Recipe.id",
    )


class Line(Base):
    """Owned through its recipe."""

    __tablename__ = "lines"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    recipe_id: Mapped[int | None] = mapped_column(ForeignKey("recipes.id"))
    tag_id: Mapped[int | None] = mapped_column(ForeignKey("tags.id"))
    position: Mapped[int] = mapped_column(server_default="0")
    text: Mapped[str]

    recipe: Mapped[Recipe | None] = relationship(back_populates="lines")
    tag: Mapped[Tag | None] = relationship()
    remarks: Mapped[list[Remark]] = relationship(back_populates="line", order_by="Remark.id")


class Remark(Base):
    """Owned through its line's recipe."""

    __tablename__ = "remarks"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    line_id: Mapped[int] = mapped_column(ForeignKey("lines.id"))
    text: Mapped[str]

    line: Mapped[Line] = relationship(back_populates="remarks")


class Plan(Base):
    """Owned by a column, never shared; its recipe may belong to another owner."""

    __tablename__ = "plans"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))
    recipe_id: Mapped[int | None] = mapped_column(ForeignKey("recipes.id"))
    day: Mapped[int] = mapped_column(server_default="1")
    code: Mapped[str | None] = mapped_column(unique=True)

    recipe: Mapped[Recipe | None] = relationship(back_populates="plans")


class OldPlan(Base):
    """In another schema with the same table name; owned by a column with another name."""

    __tablename__ = "plans"
    __table_args__ = {"schema": "other"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    whose: Mapped[int] = mapped_column(ForeignKey("users.id"))
    plan_id: Mapped[int | None] = mapped_column(ForeignKey("plans.id"))
    code: Mapped[str]

    plan: Mapped[Plan | None] = relationship()
    lines: Mapped[list[OldLine]] = relationship(back_populates="old", order_by="OldLine.id")


class OldLine(Base):
    """In another schema with the same table name; owned through its plan."""

    __tablename__ = "lines"
    __table_args__ = {"schema": "other"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    old_id: Mapped[int] = mapped_column(ForeignKey("other.plans.id"))
    text: Mapped[str]

    old: Mapped[OldPlan] = relationship(back_populates="lines")


class Animal(Base):
    """The base of joined and single-table inheritance."""

    __tablename__ = "animals"
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    name: Mapped[str]


class Dog(Animal):
    """A joined subclass."""

    __tablename__ = "dogs"
    __mapper_args__ = {"polymorphic_identity": "dog"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(ForeignKey("animals.id"), primary_key=True)
    tricks: Mapped[int] = mapped_column(server_default="0")
    recipe_id: Mapped[int | None] = mapped_column(ForeignKey("recipes.id"))

    recipe: Mapped[Recipe | None] = relationship()


class Cat(Animal):
    """A single-table subclass."""

    __mapper_args__ = {"polymorphic_identity": "cat"}  # noqa: RUF012


class Shelf(Base):
    """Owned, with a key of two columns."""

    __tablename__ = "shelves"

    room: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    label: Mapped[str]


class Jar(Base):
    """With a composite foreign key to a shelf."""

    __tablename__ = "jars"
    __table_args__ = (ForeignKeyConstraint(["room", "place"], ["shelves.room", "shelves.place"]),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    room: Mapped[int | None]
    place: Mapped[int | None]
    label: Mapped[str]

    shelf: Mapped[Shelf | None] = relationship()


class Secret(Base):
    """Not listed in the ownership; the role has no privilege on it."""

    __tablename__ = "secrets"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    text: Mapped[str]


_lines: Any = Line.__table__.alias("counted")
Recipe.line_count = column_property(
    select(func.count(_lines.c.id))
    .where(_lines.c.recipe_id == Recipe.id)
    .correlate_except(_lines)
    .scalar_subquery()
)


def ownership() -> Ownership:
    """Return the ownership of these tables, as the policies of `world` state it."""
    return Ownership(
        {
            User: "id",
            Recipe: "user_id",
            Line: "recipe",
            Remark: "line",
            Plan: "user_id",
            OldPlan: "whose",
            OldLine: "old",
            Animal: "user_id",
            Shelf: "user_id",
            Jar: "user_id",
        },
        shared=[Recipe],
        open=[Tag, recipe_tags, recipe_links],
    )
