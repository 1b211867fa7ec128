"""Tests for `python -m examples.mistakes`: a model that errs, and goes on by what it is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import Session

from examples.kitchen.demo import ROOT
from examples.kitchen.models import MealPlan, Recipe, RecipeIngredient
from examples.kitchen.show import WIDTH
from examples.mistakes import ScriptedModel, Wish, converse, verdict
from examples.recovery import RULES, Call, Mind, next_call
from tests.fix_postgres import database_like

pytest_plugins = ["tests.fix_kitchen"]

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")


@dataclass(frozen=True, slots=True)
class Played:
    """The model after its conversation, the database that it left, and what was printed."""

    model: ScriptedModel
    engine: Engine
    printed: str


@pytest.fixture(scope="module")
def played(administration: Engine, kitchen_template: str) -> Iterator[Played]:
    """The conversation, played once for all tests, none of which writes."""
    with database_like(administration, kitchen_template) as url:
        engine, console = create_engine(url), Console(file=StringIO(), width=WIDTH)
        model, _ = converse(engine, console)
        assert isinstance(console.file, StringIO)
        yield Played(model, engine, console.file.getvalue())
        engine.dispose()


@pytest.mark.slow
@pytest.mark.usefixtures("extensions")
def test_the_model_ends_well_in_a_pipe(database_url: str) -> None:
    """It exits with 0, fits a page, and has looked for keys and for errors without a way on."""
    agent = subprocess.run(
        [sys.executable, "-m", "examples.mistakes"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert agent.returncode == 0, agent.stderr
    assert max(map(len, agent.stdout.splitlines())) <= WIDTH
    assert re.search(r"^checked [0-9]+ strings .* keys: none found$", agent.stdout, re.MULTILINE)
    assert "errors of 10 kinds for one without a way on: none found" in agent.stdout


def test_every_mistake_is_made_good(played: Played) -> None:
    """The errors come in this order, and after each the model goes on to what it wanted."""
    assert played.model.errors == [
        "unknown_table",
        "unknown_column",
        "unknown_ref",
        "invalid_arguments",
        "wrong_entity",
        "missing_value",
        "shared_recipe",
        "missing_value",
        "unexpected_row",
        "missing_filter",
        "foreign_row",
    ]
    assert played.model.failed == []
    assert set(played.model.errors) == set(RULES)


def test_the_plan_is_what_the_user_said(played: Played) -> None:
    """The user's own soup on Tuesday, nothing on Wednesday, the Turkish soup on Friday."""
    with Session(played.engine) as session:
        plans = session.scalars(select(MealPlan).order_by(MealPlan.date)).all()
        assert [
            (plan.date.isoformat(), plan.meal_type, plan.recipe and plan.recipe.name)
            for plan in plans
        ] == [
            ("2026-03-03", "dinner", "My lentil soup"),
            ("2026-03-06", "dinner", "Turkish Red Lentil Soup"),
        ]
        assert {plan.user.name for plan in plans} == {"Alfred's guest"}


def test_the_recipe_is_the_users_own(played: Played) -> None:
    """A variant with its own servings and lines; the shared recipe is as it was."""
    with Session(played.engine) as session:
        recipe = session.scalars(select(Recipe).filter_by(name="My lentil soup")).one()
        assert recipe.user is not None
        assert recipe.parent is not None
        assert (recipe.user.name, recipe.servings) == ("Alfred's guest", 8)
        assert (recipe.parent.user, recipe.parent.servings) == (None, 6)
        assert [_line(line) for line in recipe.ingredients] == [
            ("Red lentils", "4", "red lentil"),
            ("secret spice", None, None),
            ("Tomatoes", "6", "tomato"),
        ]


def _line(line: RecipeIngredient) -> tuple[str, str | None, str | None]:
    return line.name, line.quantity, None if line.ingredient is None else line.ingredient.name


def test_a_row_of_somebody_else_is_not_seen(played: Played) -> None:
    """Once its author has taken a recipe back, neither its name nor its ref is answered."""
    before, after = played.printed.split("turn 5")
    assert "Lebanese Lentil Soup" in before
    assert '"Lebanese Lentil Soup"' not in after


def test_the_transcript_tells_what_was_learnt(played: Played) -> None:
    """Beside each error stands what the model took from it."""
    assert "so: not recpie_2 but recipe_2" in played.printed
    assert "so: recipe_2 is not ours to change, recipe_5 is" in played.printed


def test_an_error_without_a_rule_ends_the_attempt() -> None:
    """The model gives up, which is noted, and does not call again."""
    asked: list[Call] = []

    def use(call: Call) -> dict[str, Any]:
        asked.append(call)
        return {"error": {"code": "read_only_table", "message": "it can be read only"}}

    model = ScriptedModel(use, Console(file=StringIO()))
    model.pursue(Wish(Call("db_create", {"table": "ingredients", "data": {"name": "quokka"}})))
    assert (len(asked), len(model.failed)) == (1, 1)


def test_an_error_that_comes_again_and_again_ends_too() -> None:
    """After a few attempts the model stops, where each of them fails."""
    error = {"code": "unknown_table", "message": "", "table": "x", "tables": ["recipes"]}
    model = ScriptedModel(lambda _: {"error": error}, Console(file=StringIO()))
    model.pursue(Wish(Call("db_read", {"table": "x"})))
    assert (len(model.errors), len(model.failed)) == (4, 1)


@pytest.mark.parametrize(
    ("text", "failed", "code"),
    [("recipe_1", [], 0), (f"the id is {KEY}", [], 1), ("recipe_1", ["db_read"], 1)],
)
def test_a_key_and_a_failure_have_an_exit_code(text: str, failed: list[str], code: int) -> None:
    """It is 1 if a key was seen or the model did not know how to go on, and 0 otherwise."""
    model = ScriptedModel(lambda _: {}, Console(file=StringIO()))
    model.texts, model.failed = [text], failed
    assert verdict(model, {KEY}, Console(file=StringIO())) == code


CREATE = Call("db_create", {"table": "meal_plans", "data": {"recipe_id": "recpie_1"}})
UNKNOWN = {"code": "unknown_ref", "ref": "recpie_1", "message": ""}


@pytest.mark.parametrize(
    ("error", "ref"),
    [
        ({"near": "recipe_7", "known": ["recipe_1", "recipe_7"]}, "recipe_7"),
        (
            {"known": ["recipe_1", "recipe_2"], "labels": {"recipe_2": "Lentil Soup"}},
            "recipe_2",
        ),
        ({"known": ["recipe_1", "recipe_2"]}, "recipe_1"),
        ({"known": []}, None),
    ],
)
def test_the_next_ref_is_the_errors(error: Mapping[str, Any], ref: str | None) -> None:
    """It is the near one, or the one whose label is meant: with another error it is another."""
    mind = Mind(ask=lambda _: {}, means="the lentil soup")
    following = next_call(CREATE, {**UNKNOWN, **error}, mind)
    found = None if following is None else following.call.arguments["data"]["recipe_id"]
    assert found == ref
    assert CREATE.arguments["data"] == {"recipe_id": "recpie_1"}


def test_what_the_user_did_not_say_is_not_made_up() -> None:
    """A value that is missing, and that nobody knows, ends the attempt."""
    error = {"code": "missing_value", "columns": ["date"], "message": ""}
    assert next_call(CREATE, error, Mind(ask=lambda _: {})) is None
