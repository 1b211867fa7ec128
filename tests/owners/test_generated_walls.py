"""Statements of owned sessions, and row-level security as their judge.

`python -m tests.walls --calls 10000` makes more of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, aliased

from alfred_refs import ForeignRowError
from tests.walls import world
from tests.walls.campaign import Campaign, owned
from tests.walls.judge import Outcome, verdict
from tests.walls.models import Recipe
from tests.walls.script import Program

PROGRAMS = """
import random
from tests.walls.campaign import program_of

for number in range(500):
    print(program_of(random.Random(number)))
"""

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture
def walled(engine: Engine) -> Iterator[Engine]:
    """An engine on the tables, the rows and the policies."""
    world.make(engine)
    yield engine
    world.drop(engine)


@pytest.mark.slow
def test_an_owned_session_does_as_policies_do(walled: Engine) -> None:
    """The same rows read, the same rows written, or a typed error before anything is."""
    found = Campaign(walled, seed=11).run(200)

    assert found.wrong == []
    assert found.done["the same, read"] > 70
    assert found.done["the same, written"] > 20
    assert len(found.kinds) > 40


@pytest.mark.slow
def test_the_judge_finds_a_session_without_walls(walled: Engine) -> None:
    """A plain one in the place of the owned: rows of others are read and written."""
    found = Campaign(walled, 11, lambda engine, *_: Session(engine)).run(100)

    ways = {wrong.split(": ")[1] for wrong in found.wrong}
    assert {"other rows", "other contents"} <= ways
    assert len(found.wrong) > 30


@pytest.mark.slow
def test_the_judge_finds_a_session_of_another_owner(walled: Engine) -> None:
    """It has walls, round another's rows."""
    found = Campaign(walled, 11, lambda engine, who, _: owned(engine, who % 3 + 1, None)).run(100)

    assert len(found.wrong) > 20


@pytest.mark.slow
def test_a_seed_makes_the_same_programs_in_every_process() -> None:
    """Whatever order the process gives to sets of texts, a finding can be run again."""
    made = {
        subprocess.check_output(
            [sys.executable, "-c", PROGRAMS], env={**os.environ, "PYTHONHASHSEED": order}
        )
        for order in ("0", "1", "2")
    }

    assert len(made) == 1


@pytest.mark.slow
def test_a_seed_has_the_same_outcomes_again(walled: Engine) -> None:
    """What happened, and what the programs made use of."""
    once, twice = Campaign(walled, 5).run(20), Campaign(walled, 5).run(20)

    assert (once.done, once.kinds) == (twice.done, twice.kinds)
    assert once.kinds != Campaign(walled, 6).run(20).kinds


READ = Program([], ["one line"])
WRITE = Program([], ["one line"], writes=True)
OURS = ForeignRowError("Plan.recipe_id", named=True)
THEIRS = ValueError("x")


@pytest.mark.parametrize(
    ("program", "walled", "judged", "wrong"),
    [
        (READ, Outcome((1, 2)), Outcome((2, 1)), None),
        (READ, Outcome((1, 2)), Outcome((1, 2, 2)), "other rows"),
        (Program([], [], ordered=True), Outcome((1, 2)), Outcome((2, 1)), "other rows"),
        (WRITE, Outcome(affected=1), Outcome(affected=2), "1 rows written"),
        (WRITE, Outcome(tables=[("a", "1")]), Outcome(tables=[("a", "2")]), "other contents"),
        (WRITE, Outcome(error=OURS), Outcome(), None),
        (WRITE, Outcome(error=OURS, sent=["SELECT 1"]), Outcome(), None),
        (WRITE, Outcome(error=OURS, sent=["UPDATE x"]), Outcome(), "refused after"),
        (READ, Outcome(error=THEIRS), Outcome(error=ValueError()), None),
        (READ, Outcome(error=THEIRS), Outcome(), "ValueError: x where policies have none"),
        (READ, Outcome(error=THEIRS), Outcome(error=TypeError()), "ValueError where policies"),
        (WRITE, Outcome(tables=[]), Outcome(error=THEIRS), "went through where policies have"),
    ],
)
def test_what_differs_is_told(
    program: Program, walled: Outcome, judged: Outcome, wrong: str | None
) -> None:
    """Rows, their order where they have one, what was written, and errors."""
    _, told = verdict(program, walled, judged, before=[("a", "0")])

    assert (told is None) == (wrong is None)
    assert wrong is None or (told is not None and told.startswith(wrong))


def test_the_policies_are_policies(walled: Engine) -> None:
    """The role sees an owner's rows and shared ones, and a superuser sees all."""
    parent: Any = aliased(Recipe)
    asked = select(Recipe.name).outerjoin(parent, Recipe.parent).order_by(Recipe.id)
    with Session(walled) as session:
        world.become(session, world.OWNERS["ann"])
        seen = session.scalars(asked).all()
        session.rollback()
        assert seen == ["ann 1", "all 4", "ann 0", "all 3", "ann 4", "all 2"]
        assert len(session.scalars(asked).all()) == 12
