"""What the examples of the reference have at hand: a kitchen, and a conversation about it.

Each of them begins with the same rows, and with the names that `world` returns:

```python
create_tables(engine)
names = world(engine)
names["session"].get(Recipe, "recipe_1").name  # 'Soup'
```
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Engine, ForeignKey, NullPool, func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    load_only,
    mapped_column,
    relationship,
    sessionmaker,
)

from alfred_refs import AsyncRefSession, RefRegistry, RefSession
from alfred_refs.tools import Toolset


class Base(DeclarativeBase):
    """The declarative base."""


class User(Base):
    """Somebody who has recipes."""

    __tablename__ = "users"

    id: Mapped[int] = mapped_column(primary_key=True)


class Recipe(Base):
    """A recipe of one user's, with its lines in order."""

    __tablename__ = "recipes"
    __ref_label__ = "name"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, server_default=func.gen_random_uuid())
    name: Mapped[str]
    servings: Mapped[int | None]
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id"))

    lines: Mapped[list[Line]] = relationship(
        back_populates="recipe", order_by="Line.position", cascade="all, delete-orphan"
    )


class Line(Base):
    """One line of a recipe."""

    __tablename__ = "lines"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, server_default=func.gen_random_uuid())
    recipe_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("recipes.id"))
    position: Mapped[int]
    text: Mapped[str]

    recipe: Mapped[Recipe] = relationship(back_populates="lines")


def create_tables(engine: Engine) -> None:
    """Create the kitchen's tables, and the registry's."""
    Base.metadata.create_all(engine)
    RefRegistry(engine).create_tables()


def world(engine: Engine) -> dict[str, Any]:
    """Fill the kitchen's tables, and return what examples have at hand, by name."""
    ann, ben = User(), User()
    one, two, three, four = sorted(uuid.uuid4() for _ in range(4))  # rows are shown in this order
    with Session(engine, expire_on_commit=False) as plain:
        plain.add_all([ann, ben])
        plain.flush()
        plain.add(Recipe(id=one, name="Soup", servings=2, user_id=ann.id))
        plain.add(Recipe(id=two, name="Toast", servings=1, user_id=ben.id))
        plain.add(Line(id=three, recipe_id=one, position=1, text="4 tomatoes"))
        plain.add(Line(id=four, recipe_id=one, position=2, text="1 onion"))
        plain.commit()

    registry = RefRegistry(engine)
    sessions = sessionmaker(engine, class_=RefSession, registry=registry)
    async_engine = create_async_engine(engine.url, poolclass=NullPool)
    async_sessions = async_sessionmaker(async_engine, class_=AsyncRefSession, registry=registry)
    chat = registry.conversation("chat-7")
    with sessions(conversation=chat) as session:  # recipe_1 is Soup, recipe_2 is Toast
        for recipe in session.scalars(select(Recipe).options(load_only(Recipe.name))):
            _ = [recipe.id, *(line.id for line in recipe.lines)]

    @contextmanager
    def revision() -> Iterator[None]:
        """Have what Alembic has at hand while it runs a revision of the application's."""
        with (
            engine.begin() as connection,
            Operations.context(MigrationContext.configure(connection)),
        ):
            yield

    toolset = Toolset([Recipe, Line], hidden=[Recipe.user_id])
    return {
        "User": User,
        "Recipe": Recipe,
        "Line": Line,
        "select": select,
        "engine": engine,
        "registry": registry,
        "sessions": sessions,
        "chat": chat,
        "session": sessions(conversation=chat),
        "async_sessions": async_sessions,
        "toolset": toolset,
        "desk": toolset.bind(sessions, registry=registry),
        "ann": ann.id,
        "revision": revision,
    }
