"""Rebuilt statements give the rows that their text gives on an owner's views.

`python -m tests.tools.sql --queries 20000` makes more of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from sqlalchemy import Select
from sqlglot import exp

from alfred_refs.tools.sql import selects
from alfred_refs.tools.sql.parsing import parts
from tests.profiles import examples
from tests.tools.sql.campaign import run
from tests.tools.sql.judge import judge
from tests.tools.sql.world import World

pytestmark = pytest.mark.slow

QUERIES = """
import random
from tests.tools.sql.generator import Generator

for number in range(100):
    print(Generator(random.Random(number)).query())
"""


def test_queries_at_random_give_the_rows_of_their_text(world: World) -> None:
    """Nearly all are answered, none otherwise than PostgreSQL answers it."""
    queries = examples(300)

    found = run(world, queries, seed=7)

    assert found.wrong == []
    assert found.outcomes["same"] > 0.9 * queries
    assert found.outcomes["refused"] < 0.05 * queries
    assert len(found.made) > 60


def test_the_judge_finds_a_statement_of_another_meaning(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A left join that is an inner one, or rows that are not the owner's."""
    sql = "select c.id, p.name from categories c left join products p on p.id = 'product_1'"
    assert judge(world, sql).outcome == "same"

    def without_side(node: exp.Expression, *names: str) -> list[Any]:
        return [
            None if n == "side" else part
            for n, part in zip(names, parts(node, *names), strict=True)
        ]

    monkeypatch.setattr(selects, "parts", without_side)
    sql += " and p.category_id = c.id"

    assert judge(world, sql).outcome == "different"


def test_only_the_fence_keeps_errors_from_telling_of_other_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it PostgreSQL tries what a model wrote on rows of others first."""
    sql = "select count(*) from lines where 1 / (quantity - 99) = 0"  # which only bob's can have
    assert world.ask(sql)["count"] == 1

    monkeypatch.setattr(Select, "offset", lambda rows, _: rows)

    # another shape, whose plan is made anew
    assert "division by zero" in world.ask(sql + " and true")["error"]["message"]


def test_a_seed_makes_the_same_queries_in_every_process() -> None:
    """Whatever order the process gives to sets of texts, a finding can be run again."""
    made = {
        subprocess.check_output(
            [sys.executable, "-c", QUERIES], env={**os.environ, "PYTHONHASHSEED": order}
        )
        for order in ("0", "1")
    }

    assert len(made) == 1
