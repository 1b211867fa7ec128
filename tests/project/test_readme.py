"""The README's programs print what it shows."""

from __future__ import annotations

from datetime import date

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, sessionmaker

from tests import readme
from tests.models import MealPlan, Recipe


def test_the_programs_print_what_they_say(tables: Engine) -> None:
    """Run one after the other, on two recipes."""
    with Session(tables) as plain, plain.begin():
        plain.add_all([Recipe(name="Salad"), Recipe(name="Soup")])
    names = {
        "engine": tables,
        "sessionmaker": sessionmaker,
        "select": select,
        "date": date,
        "Recipe": Recipe,
        "MealPlan": MealPlan,
    }
    programs = readme.programs()

    assert [readme.run(program, names) for program, _ in programs] == [
        promised for _, promised in programs
    ]
    assert len(programs) == 1
