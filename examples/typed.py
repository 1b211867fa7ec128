import uuid
from typing import Annotated, assert_type, cast

from sqlalchemy import ForeignKey, Uuid, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import RefSession
from alfred_refs.tools import Ref

Key = Annotated[str, mapped_column(Uuid, primary_key=True, default=uuid.uuid4)]


class Base(DeclarativeBase):
    pass


class Recipe(Base):
    __tablename__ = "recipes"

    id: Mapped[Key]
    name: Mapped[str]


class MealPlan(Base):
    __tablename__ = "meal_plans"

    id: Mapped[Key]
    recipe_id: Mapped[Ref[Recipe]] = mapped_column(Uuid, ForeignKey("recipes.id"))


class Menu(Base):
    __tablename__ = "menus"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    recipe_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("recipes.id"))


def plan(session: RefSession, ref: str) -> str:
    recipe = session.get_one(Recipe, ref)
    assert_type(recipe.id, str)
    planned = MealPlan(recipe_id=recipe.id)
    session.add(planned)
    session.flush()
    assert_type(planned.recipe_id, Ref[Recipe])
    session.scalars(select(MealPlan).where(MealPlan.recipe_id == ref)).one()
    with session.raw_keys():
        key = cast(uuid.UUID, session.get_one(Recipe, recipe.id).id)
    return planned.id


def keep(session: RefSession, ref: str) -> str:
    menu = Menu(recipe_id=ref)
    session.add(menu)
    session.flush()
    menu.recipe_id = ref  # type: ignore[assignment]
    return str(menu.id)
