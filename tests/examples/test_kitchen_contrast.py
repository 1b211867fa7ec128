"""Tests for the demo's first turn: what a mistyped key does, and what a mistyped ref does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry
from examples.kitchen import contrast
from examples.kitchen.contrast import Contrast, contrasted, one_digit_wrong
from examples.kitchen.demo import verdict
from examples.kitchen.models import Ingredient, MealPlan, Preferences
from examples.kitchen.show import WIDTH, show_in_keys
from examples.kitchen.transcript import Turn
from tests.fix_postgres import database_like

pytest_plugins = ["tests.fix_kitchen"]


@pytest.fixture(scope="module")
def kitchen(administration: Engine, kitchen_template: str) -> Iterator[Engine]:
    """A loaded kitchen for all tests, none of which leaves anything."""
    with database_like(administration, kitchen_template) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


@pytest.fixture(scope="module")
def turn(kitchen: Engine) -> Contrast:
    """The turn, taken both ways."""
    return contrasted(kitchen)


@pytest.mark.slow
def test_a_mistyped_key_is_no_error(turn: Contrast) -> None:
    """The plan stays where it is, and the staple is stored, which is nobody's key."""
    assert turn.mistyped != turn.keys["meal_plan_1"]
    assert turn.mistyped[:-1] == turn.keys["meal_plan_1"][:-1]
    assert (turn.moved, turn.day, turn.staples, turn.named) == (0, date(2026, 3, 2), 1, 0)


@pytest.mark.slow
def test_a_mistyped_ref_is_an_error_with_its_remedy(turn: Contrast) -> None:
    """The model follows the remedy, and does what it wanted."""
    read, created, refused, done = (call.answer for call in turn.calls)
    assert [row["id"] for row in read["rows"]] == ["recipe_1", "recipe_2", "recipe_3"]
    assert [row["date"] for row in created["rows"]] == ["2026-03-02"]
    assert refused["error"]["message"] == (
        "'meal_plan_11' is not a known meal_plan; known: 'meal_plan_1'"
    )
    assert [row["date"] for row in done["rows"]] == ["2026-03-03"]


def test_the_sizes_are_of_texts_that_differ_in_keys_alone(
    kitchen: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ref of the calls that were done is a key on the other side, and nothing else is."""
    measured: list[str] = []

    def measure(text: str) -> int:
        measured.append(text)
        return len(text)

    monkeypatch.setattr(contrast, "measured", lambda: (measure, "letters"))
    other = contrasted(kitchen)
    in_refs, in_keys = measured
    for ref, key in other.keys.items():
        assert key not in in_refs
        in_keys = in_keys.replace(f'"{key}"', f'"{ref}"')
    assert in_keys == in_refs
    assert (other.size, other.size_with_keys, other.unit) == (
        len(measured[0]),
        len(measured[1]),
        "letters",
    )


def test_nothing_is_left_of_it(turn: Contrast, kitchen: Engine) -> None:
    """Neither rows nor refs: the turns that follow begin in an empty registry."""
    with Session(kitchen) as plain:
        assert plain.scalars(select(MealPlan)).all() == []
        staples = plain.scalars(select(Preferences.assumed_staples)).one()
        found = plain.scalars(select(func.count()).where(Ingredient.id.in_(staples))).one()
        assert found == len(staples) > 1
    assert list(RefRegistry(kitchen).conversations()) == []
    assert sorted(turn.keys) == ["meal_plan_1", "recipe_1", "recipe_2", "recipe_3"]


@pytest.mark.parametrize(("last", "wrong"), [("0", "1"), ("1", "0"), ("f", "0")])
def test_one_digit_is_wrong(last: str, wrong: str) -> None:
    """It is never the digit that was there."""
    assert one_digit_wrong(f"a508{last}") == f"a508{wrong}"


def test_what_is_printed_is_what_was_found(turn: Contrast) -> None:
    """Other findings make other lines."""
    found = replace(turn, moved=1, day=date(2020, 2, 2), staples=2, named=3, size=10)
    console = Console(file=StringIO(), width=WIDTH)
    show_in_keys(console, replace(found, size_with_keys=15, unit="tokens"))
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue().splitlines()
    assert "    1 row changed, no error: the meal is still on 2020-02-02" in printed
    assert "    2 rows changed, no error: it names 3 ingredients" in printed
    assert "the same turn: 15 tokens with keys, 10 with refs: 50% more with keys" in printed
    assert f"  UPDATE meal_plans … WHERE id = {turn.mistyped}" in printed


@pytest.mark.parametrize(
    ("more", "code"), [({}, 0), ({"id": "a508000d-9b55-40f0-8886-dbdd88bd2de2"}, 1)]
)
def test_a_key_in_an_answer_of_it_fails_the_demo(
    turn: Contrast, more: Mapping[str, Any], code: int
) -> None:
    """The answers of the first turn are searched for keys with all else."""
    calls = [replace(call, answer={**call.answer, **more}) for call in turn.calls]
    console = Console(file=StringIO(), width=WIDTH)
    after = Turn(number=1, process=1, point="", user="Thanks.", exchanges=[])
    said = replace(turn, calls=calls).texts()
    assert verdict([after], set(), 0, console, said) == code
