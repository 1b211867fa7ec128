"""Smoke test of the installed wheel: `python -I tests/smoke_wheel.py`, in its own environment.

`python3 run.py wheel` creates the environment, and sets `DATABASE_URL` to an empty database.
"""

from __future__ import annotations

import importlib.resources
import json
import os
import runpy
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import Engine, ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

import alfred_refs
from alfred_refs import RefRegistry, RefSession
from alfred_refs.store import schema


class Base(DeclarativeBase):
    """The application's tables."""


class Recipe(Base):
    """A recipe."""

    __tablename__ = "recipes"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str]


class MealPlan(Base):
    """A recipe planned for a day."""

    __tablename__ = "meal_plans"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    recipe_id: Mapped[UUID] = mapped_column(ForeignKey("recipes.id"))
    day: Mapped[date]


def main(url: str) -> None:
    """Run all checks, and report success."""
    check_files()
    check_command(url)
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    with sessionmaker(engine).begin() as session:
        session.add_all([Recipe(name="Soup"), Recipe(name="Salad")])
    check_session(engine)
    check_operators_commands()
    engine.dispose()
    version = importlib.metadata.version("alfred-refs")
    sys.stdout.write(f"the wheel of alfred-refs {version} works\n")


def check_files() -> None:
    """Check the files that are not modules."""
    package = importlib.resources.files(alfred_refs)
    assert str(package).startswith(sys.prefix), f"{package} is not what was installed"
    assert (package / "py.typed").is_file(), "type checkers will not see the annotations"
    assert (package / "store" / "migrations" / "env.py").is_file(), "nothing to migrate with"
    templates = package / "context" / "templates"
    assert (templates / "base.md").is_file(), "no text to make prompts of"
    assert not (package / "store" / "migrations" / "__init__.py").is_file(), (
        "they are scripts, not a package"
    )


def check_command(url: str) -> None:
    """Check that `alfred-refs` creates the tables in an empty database, at the last revision."""
    last = schema.revisions()[-1].revision
    assert _alfred_refs("current", url) == "none\n"
    assert _alfred_refs("migrate", url) == f"the registry's tables are at revision {last}\n"
    assert _alfred_refs("current", url) == f"{last}\n"


def check_session(engine: Engine) -> None:
    """Check the README's first lines, and that another process continues their numbering."""
    names = {"engine": engine, "Recipe": Recipe, "MealPlan": MealPlan, "date": date}
    # loaded by path: with -I, `tests` cannot be imported
    readme = runpy.run_path(str(Path(__file__).with_name("readme.py")))
    program, promised = readme["first_lines"]()
    printed = readme["run"](program, names | {"select": select, "sessionmaker": sessionmaker})
    assert printed == promised, printed

    sessions = sessionmaker(engine, class_=RefSession)
    with sessions(conversation=RefRegistry(engine).conversation("chat-7")) as session:
        plan = session.scalars(select(MealPlan)).one()
        assert [plan.id, plan.recipe_id] == ["meal_plan_1", "recipe_2"]
    with sessions() as session:
        assert {type(key) for key in session.scalars(select(Recipe.id))} == {UUID}


def check_operators_commands() -> None:
    """Check that the command shows the conversation of the README's lines."""
    # the URL is in the environment
    environment = {"ALFRED_REFS_DATABASE_URL": os.environ["DATABASE_URL"]}
    shown = json.loads(_alfred_refs("show", "chat-7", "--json", **environment))
    refs = ["meal_plan_1", "recipe_1", "recipe_2"]
    assert [each["ref"] for each in shown["entries"]] == refs
    assert "chat-7" in _alfred_refs("list", **environment)


def _alfred_refs(*arguments: str, **environment: str) -> str:
    script = Path(sys.executable).with_name("alfred-refs")
    # outside of the checkout
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [script, *arguments],
            cwd=elsewhere,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return done.stdout


if __name__ == "__main__":
    main(os.environ["DATABASE_URL"])
