"""Try the installed wheel: `python -I tests/smoke_wheel.py`, in an environment with nothing else.

`python3 run.py wheel` makes that environment, and gives an empty database in `DATABASE_URL`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import os
import subprocess
import sys
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import Engine, ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

import alfred_refs
from alfred_refs import RefRegistry, RefSession


class Base(DeclarativeBase):
    """The application's tables."""


class Recipe(Base):
    """What is cooked."""

    __tablename__ = "recipes"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    title: Mapped[str]


class MealPlan(Base):
    """What is cooked when."""

    __tablename__ = "meal_plans"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    recipe_id: Mapped[UUID] = mapped_column(ForeignKey("recipes.id"))
    day: Mapped[date]


def main(url: str) -> None:
    """Check that the wheel holds what its users need and that it works, and say so."""
    check_files()
    check_command(url)
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    with sessionmaker(engine).begin() as session:
        session.add_all([Recipe(title="Soup"), Recipe(title="Salad")])
    check_session(engine)
    engine.dispose()
    version = importlib.metadata.version("alfred-refs")
    sys.stdout.write(f"the wheel of alfred-refs {version} works\n")


def check_files() -> None:
    """Check what the wheel has put beside the modules."""
    package = importlib.resources.files(alfred_refs)
    assert str(package).startswith(sys.prefix), f"{package} is not what was installed"
    assert (package / "py.typed").is_file(), "type checkers will not see the annotations"
    assert (package / "migrations" / "env.py").is_file(), "nothing to migrate with"
    assert not (package / "migrations" / "__init__.py").is_file(), (
        "they are scripts, not a package"
    )


def check_command(url: str) -> None:
    """Check that `alfred-refs` makes the tables in an empty database."""
    assert _alfred_refs("current", url) == "none\n"
    assert _alfred_refs("migrate", url) == "the registry's tables are at revision 0001\n"
    assert _alfred_refs("current", url) == "0001\n"


def check_session(engine: Engine) -> None:
    """Check a newcomer's first lines."""
    registry = RefRegistry(engine)
    sessions = sessionmaker(engine, class_=RefSession)
    today = datetime.now(UTC).date()

    with sessions(conversation=registry.conversation("chat-7")) as session:
        recipes = session.scalars(select(Recipe)).all()
        assert [recipe.id for recipe in recipes] == ["recipe_1", "recipe_2"]
        assert session.get(Recipe, "recipe_1") is recipes[0]
        planned = select(MealPlan).where(MealPlan.recipe_id.in_(["recipe_1", "recipe_2"]))
        assert session.scalars(planned).all() == []
        session.add(MealPlan(recipe_id="recipe_1", day=today))
        session.commit()

    # another process would continue the conversation so
    with sessions(conversation=RefRegistry(engine).conversation("chat-7")) as session:
        plan = session.scalars(planned).one()
        assert [plan.id, plan.recipe_id] == ["meal_plan_1", "recipe_1"]
        assert plan.day == today

    with sessions() as session:
        assert {type(key) for key in session.scalars(select(Recipe.id))} == {UUID}


def _alfred_refs(command: str, url: str) -> str:
    script = Path(sys.executable).with_name("alfred-refs")
    # in a directory where there is no checkout to be found
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [script, command, url], cwd=elsewhere, stdout=subprocess.PIPE, text=True, check=True
        )
    return done.stdout


if __name__ == "__main__":
    main(os.environ["DATABASE_URL"])
