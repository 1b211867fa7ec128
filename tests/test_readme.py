"""The README promises only what happens."""

from __future__ import annotations

from datetime import date

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, sessionmaker

from tests import readme
from tests.models import MealPlan, Recipe


def test_the_first_lines_print_what_they_say(tables: Engine) -> None:
    """The program of the README, run on two recipes, prints the README's output."""
    with Session(tables) as plain:
        plain.add_all([Recipe(name="Salad"), Recipe(name="Soup")])
        plain.commit()
    program, promised = readme.first_lines()

    printed = readme.run(
        program,
        {
            "engine": tables,
            "sessionmaker": sessionmaker,
            "select": select,
            "date": date,
            "Recipe": Recipe,
            "MealPlan": MealPlan,
        },
    )

    assert printed == promised
