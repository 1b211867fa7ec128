"""Random statements of owned sessions, compared with PostgreSQL's row-level security.

`python -m tests.isolation --calls 10000` runs more of them.
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
from tests.isolation import world
from tests.isolation.campaign import Campaign, owned
from tests.isolation.judge import Outcome, verdict
from tests.isolation.models import Recipe
from tests.isolation.programs import Program
from tests.profiles import examples

PROGRAMS = """
import random
from tests.isolation.campaign import program_of

for number in range(100):
    print(program_of(random.Random(number)))
"""

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@pytest.fixture
def isolated(engine: Engine) -> Iterator[Engine]:
    """An engine on a database with the tables, rows and policies."""
    world.make(engine)
    yield engine
    world.drop(engine)


@pytest.mark.slow
def test_an_owned_session_reads_and_writes_the_rows_that_policies_allow(isolated: Engine) -> None:
    """Random programs have the same outcome, or raise a typed error before they write."""
    programs = examples(400)

    found = Campaign(isolated, seed=11).run(programs)

    assert found.wrong == []
    assert found.done["the same, read"] > 0.35 * programs
    assert found.done["the same, written"] > 0.1 * programs
    assert len(found.kinds) > 40


@pytest.mark.once
@pytest.mark.slow
def test_the_judge_finds_a_session_without_isolation(isolated: Engine) -> None:
    """A plain session reads and writes rows of other owners."""
    found = Campaign(isolated, 11, lambda engine, *_: Session(engine)).run(50)

    ways = {wrong.split(": ")[1] for wrong in found.wrong}
    assert {"other rows", "other contents"} <= ways
    assert len(found.wrong) > 15


@pytest.mark.once
@pytest.mark.slow
def test_the_judge_finds_a_session_of_another_owner(isolated: Engine) -> None:
    """A session that is isolated for the wrong owner differs too."""
    found = Campaign(isolated, 11, lambda engine, who, _: owned(engine, who % 3 + 1, None)).run(50)

    assert len(found.wrong) > 10


@pytest.mark.once
@pytest.mark.slow
def test_a_seed_makes_the_same_programs_in_every_process() -> None:
    """Hash randomization does not change them, so that a difference can be reproduced."""
    made = {
        subprocess.check_output(
            [sys.executable, "-c", PROGRAMS], env={**os.environ, "PYTHONHASHSEED": order}
        )
        for order in ("0", "1")
    }

    assert len(made) == 1


@pytest.mark.once
@pytest.mark.slow
def test_a_seed_has_the_same_outcomes_again(isolated: Engine) -> None:
    """The same outcomes, of the same features."""
    once, twice = Campaign(isolated, 5).run(20), Campaign(isolated, 5).run(20)

    assert (once.done, once.kinds) == (twice.done, twice.kinds)
    assert once.kinds != Campaign(isolated, 6).run(20).kinds


READ = Program([], ["one line"])
WRITE = Program([], ["one line"], writes=True)
OURS = ForeignRowError("Plan.recipe_id", named=True)
THEIRS = ValueError("x")


@pytest.mark.parametrize(
    ("program", "ours", "expected", "difference"),
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
def test_differences_are_found(
    program: Program, ours: Outcome, expected: Outcome, difference: str | None
) -> None:
    """In rows, in their order where it is defined, in what was written, and in errors."""
    _, found = verdict(program, ours, expected, before=[("a", "0")])

    assert (found is None) == (difference is None)
    assert difference is None or (found is not None and found.startswith(difference))


def test_the_policies_apply(isolated: Engine) -> None:
    """The role sees an owner's rows and shared ones; a superuser sees all."""
    parent: Any = aliased(Recipe)
    asked = select(Recipe.name).outerjoin(parent, Recipe.parent).order_by(Recipe.id)
    with Session(isolated) as session:
        world.become(session, world.OWNERS["ann"])
        seen = session.scalars(asked).all()
        session.rollback()
        assert seen == ["ann 1", "all 4", "ann 0", "all 3", "ann 4", "all 2"]
        assert len(session.scalars(asked).all()) == 12
