"""Tests for the demo: `python -m examples.kitchen`, what it starts, shows and checks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry
from examples.kitchen import CONVERSATION, DEMO_USER, demo
from examples.kitchen.checks import keys_by_ref, keys_in, showing_keys, with_keys
from examples.kitchen.demo import ROOT, prepare, verdict
from examples.kitchen.load import RECIPES
from examples.kitchen.models import Base, MealPlan, Preferences, Recipe, User
from examples.kitchen.person import NAMES
from examples.kitchen.show import WIDTH, show_turn
from examples.kitchen.transcript import Exchange, Turn
from examples.kitchen.turns import SCRIPT, TUESDAY, WEDNESDAY
from tests.fix_postgres import database_like
from tests.forks import printed
from tests.readme import README

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.fix_kitchen"]

KEY = uuid.UUID("a508000d-9b55-40f0-8886-dbdd88bd2de2")
OTHER_KEY = uuid.UUID("c69607bb-2f0e-4d53-9a55-1f0b7c1f2a3d")


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of the demo in full: its turns, what it printed, its exit code, its database."""

    engine: Engine
    turns: Sequence[Turn]
    printed: str
    code: int


@pytest.fixture(scope="module")
def taken(administration: Engine, extensions: None) -> Iterator[Taken]:  # noqa: ARG001
    """The demo, run once for all tests, none of which writes."""
    turns: list[Turn] = []

    def kept(url: str, number: int) -> Turn:
        reported = printed("examples.kitchen.turns", [str(number)], url)
        turns.append(Turn.model_validate_json(reported))
        return turns[-1]

    with database_like(administration) as url, pytest.MonkeyPatch.context() as patched:
        patched.setattr(demo, "start_turn", kept)
        console, engine = _console(), create_engine(url)
        code = demo.run(url, console, full=True)
        yield Taken(engine, turns, _printed(console), code)
        engine.dispose()


def _console(width: int = WIDTH) -> Console:
    return Console(file=StringIO(), width=width)


def _printed(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def _turn(seen: str, held: str = str(KEY), **answer: Any) -> Turn:
    """Give a turn in which the model saw one text where the database holds another."""
    exchange = Exchange(asked="read", model=[{"id": seen}], database=[{"id": held}], answer=answer)
    return Turn(number=1, process=1, point="", user="What is there?", exchanges=[exchange])


def test_the_demo_in_full_ends_well(taken: Taken) -> None:
    """It exits with 0, shows all parties, and has looked for every key left."""
    printed = taken.printed
    looked_for = re.search(r"checked [0-9]+ strings .* against ([0-9]+) keys: none found", printed)
    assert taken.code == 0
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert len(set(re.findall(r"process ([0-9]+)", printed))) == len(SCRIPT)
    assert re.search(r"^meal_plan_1 .* was deleted$", printed, re.MULTILINE)  # the operator's
    assert re.search(r"^gen_recipe_1 .* saved as recipe_8$", printed, re.MULTILINE)
    assert "checked the new recipes (1) for others than saved drafts: none found" in printed
    assert looked_for is not None
    assert int(looked_for[1]) == len(keys_in(taken.engine)) + 1  # the cancelled plan's


@pytest.mark.usefixtures("extensions")
def test_the_demo_is_a_screenful(database_url: str) -> None:
    """In a pipe: a turn in keys, the same in refs, six by their points, a person, and figures."""
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "examples.kitchen"],
        cwd=ROOT,
        env={**environ, "DATABASE_URL": database_url},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    lines = done.stdout.splitlines()
    headings = [line.split(":")[0].rstrip(" ─") for line in lines if line.endswith("──")]
    assert done.returncode == 0, done.stderr
    assert (len(lines) <= 80, max(map(len, lines)) <= WIDTH) == (True, True), done.stdout
    assert headings == [
        "without it",
        "with it",
        "6 turns of a chat, each in a process of its own",
        "a person in the loop",
        "figures",
    ]
    same = (
        r"^the same turn: [0-9,]+ (characters|tokens) with keys, [0-9,]+ with refs: [0-9]+% more"
    )
    assert re.search(same, done.stdout, re.MULTILINE)
    assert "  error: 'meal_plan_11' is not a known meal_plan; known: 'meal_plan_1'" in lines
    processes = re.findall(r"^turn [0-9], process ([0-9]+)", done.stdout, re.MULTILINE)
    assert len(set(processes)) == len(SCRIPT)
    assert lines[-1].endswith("python3 run.py demo --full")


def test_the_readme_says_what_the_demo_has() -> None:
    """As many recipes and turns, and by which command."""
    [said] = re.findall(r"^python3 run.py demo +# (.*)$", README.read_text("utf-8"), re.MULTILINE)
    recipes = len(RECIPES.read_text("utf-8").splitlines())
    assert said == (
        f"one turn with keys and with refs, on {recipes} recipes, and six turns of a chat"
    )
    assert len(SCRIPT) == 6


def test_each_turn_is_a_process_that_keeps_the_refs(taken: Taken) -> None:
    """Processes number their turns on, and a ref of the first is the same in the third."""
    first, _, third, *_ = (keys_by_ref([turn]) for turn in taken.turns)
    assert [turn.number for turn in taken.turns] == [1, 2, 3, 4, 5, 6]
    assert len({os.getpid(), *(turn.process for turn in taken.turns)}) == 7
    assert first["recipe_3"] == third["recipe_3"]
    with Session(taken.engine) as session:
        plan = session.scalars(select(MealPlan).filter_by(date=TUESDAY)).one()
        assert {str(plan.recipe_id)} == first["recipe_3"]


def test_a_child_names_a_parent_that_was_never_read(taken: Taken) -> None:
    """The ref that a child's foreign key shows is the recipe's, and can be planned."""
    child, planned, _ = taken.turns[1].exchanges
    assert child.model[0]["recipe_id"] == planned.model[1]["recipe_id"] == "recipe_6"
    with Session(taken.engine) as session:
        recipe = session.get_one(Recipe, uuid.UUID(child.database[0]["recipe_id"]))
        assert recipe.name == "Paneer Tikka Masala"


def test_each_mistake_is_answered_by_an_error(taken: Taken) -> None:
    """A misspelt, an unknown, a wrong and a deleted ref each get the fact and a remedy."""
    answers = [exchange.model[0] for exchange in taken.turns[2].exchanges[:-1]]
    facts = [answer["error"].partition("; ")[0] for answer in answers if "error" in answer]
    assert facts == [
        "'recpie_3' is not a known recipe",
        "'recipe_33' is not a known recipe",
        "'meal_plan_1' names entity 'meal_plan' where 'recipe' is needed",
        "'meal_plan_1' was deleted and cannot be used",
    ]
    assert "did you mean 'recipe_3' (" in answers[1]["error"]
    assert [answers[0], answers[-1]] == [
        {"answer": "meal_plan_1 is cancelled"},
        {"answer": "meal_plan_2 is now recipe_3"},
    ]


def _answers(taken: Taken, number: int) -> list[dict[str, Any]]:
    """Return what tools answered in a turn, as the model was told."""
    return [each.answer for each in taken.turns[number - 1].exchanges if each.answer]


def test_drafts_have_refs_and_no_rows(taken: Taken) -> None:
    """One has rows inside, one names a row by its ref; no table has got any of it."""
    quick, lighter = taken.turns[3].exchanges
    assert [each.model[0]["id"] for each in (quick, lighter)] == ["gen_recipe_1", "gen_recipe_2"]
    assert "paneer" in quick.model[0]["ingredients"]
    assert lighter.model[0]["parent_recipe_id"] == "recipe_6"
    held = {text for each in (quick, lighter) for text in each.database[0].values() if text}
    assert held == {"no row; rows in recipes: 404"}


def test_drafts_are_read_and_changed_in_another_process(taken: Taken) -> None:
    """The model sees both of them as pending, and the one as it has changed it."""
    read, changed, *_ = _answers(taken, 5)
    assert taken.turns[4].process != taken.turns[3].process
    assert read["rows"] == [
        {"id": "gen_recipe_1", "name": "Paneer Wraps", "_draft": "pending"},
        {"id": "gen_recipe_2", "name": "Light Tikka Masala", "_draft": "pending"},
    ]
    [row] = changed["rows"]
    assert (row["id"], row["servings"], row["_draft"]) == ("gen_recipe_1", 4, "pending")


def test_a_draft_is_saved_once_with_its_lines(taken: Taken) -> None:
    """Those inside it and one that names it, enriched as all lines are; a repetition adds none."""
    _, _, created, repeated, *_ = _answers(taken, 5)
    assert created["saved"] == repeated["saved"] == {"gen_recipe_1": "recipe_8"}
    assert [len(each["also"][0]["rows"]) for each in (created, repeated)] == [1, 0]
    with Session(taken.engine) as session:
        recipe = session.scalars(select(Recipe).filter_by(name="Paneer Wraps")).one()
        assert (recipe.servings, recipe.user and recipe.user.name) == (4, DEMO_USER)
        assert recipe.embedding is not None
        assert [
            (line.position, line.name, line.ingredient and line.ingredient.name)
            for line in recipe.ingredients
        ] == [
            (0, "paneer", "paneer"),
            (1, "flour tortillas", "tortilla"),
            (2, "mint", "mint"),
        ]
        of_the_person = Recipe.name.in_(NAMES)
        assert session.scalar(select(func.count()).where(~of_the_person)) == 405


def test_the_other_draft_is_discarded(taken: Taken) -> None:
    """The model is told so, and the registry has neither any more to be saved."""
    *_, discarded, _ = _answers(taken, 5)
    assert discarded["deleted"] == ["gen_recipe_2"]
    with Session(taken.engine) as session:
        guest = session.scalars(select(User.id).filter_by(name=DEMO_USER)).one()
    conversation = RefRegistry(taken.engine).conversation(CONVERSATION, owner=guest)
    assert {
        draft.ref: (draft.state, draft.saved)
        for draft in conversation.drafts(states=["pending", "saved", "discarded"])
    } == {"gen_recipe_1": ("saved", "recipe_8"), "gen_recipe_2": ("discarded", None)}


def test_a_saved_draft_is_named_by_its_ref(taken: Taken) -> None:
    """In a filter and in a plan, and it shows as the row that it is, with the rows inside it."""
    read, planned = taken.turns[4].exchanges[-2:]
    [row] = read.answer["rows"]
    assert [line["name"] for line in row["ingredients"]] == ["paneer", "flour tortillas", "mint"]
    assert "gen_recipe_1" in planned.asked
    assert row["id"] == planned.model[0]["recipe_id"] == "recipe_8"
    with Session(taken.engine) as session:
        plan = session.scalars(select(MealPlan).filter_by(date=WEDNESDAY)).one()
        assert plan.recipe is not None
        assert (plan.recipe.name, plan.user.name) == ("Paneer Wraps", DEMO_USER)
        assert str(plan.recipe_id) == planned.database[0]["recipe_id"] == read.database[0]["id"]


def test_steps_are_dropped_and_moved_by_position(taken: Taken) -> None:
    """The preview changes nothing, the call with its token does it once, and again is refused."""
    preview, done, again = taken.turns[5].exchanges
    steps = ["Warm the tortillas.", "Cube the paneer.", "Fry it until it is golden."]
    steps.append("Stir in the yogurt.")
    assert [*preview.model[0].values()] == [*done.model[0].values()] == steps
    assert [*done.database[0].values()] == steps
    assert [preview.database[0][place] for place in ("3", "5")] == [
        "Toast the cumin.",
        "Chill for an hour.",
    ]
    assert again.answer["error"]["code"] == "list_changed"
    with Session(taken.engine) as session:
        recipe = session.scalars(select(Recipe).filter_by(name="Paneer Wraps")).one()
        assert recipe.instructions == steps


@pytest.mark.parametrize(
    "planted",
    [
        f"the id is {KEY}, as you asked",
        str(KEY).upper(),
        KEY.hex,
        "a508000d",
        "..a508000d.. or so",
        str(OTHER_KEY),
    ],
)
def test_a_planted_key_fails_the_demo(planted: str) -> None:
    """A key on the model's side, in any spelling or abbreviated, is printed, and the exit is 1."""
    console = _console()
    assert verdict([_turn("recipe_1"), _turn(planted)], {KEY}, 0, console) == 1
    assert f"FOUND\n  {planted}" in _printed(console)


def test_a_key_is_found_wherever_a_model_looks() -> None:
    """The user's words, what the model asks, names of fields, values and whole answers."""
    exchange = Exchange(
        asked="2", model=[{"3": "4"}], database=[{"3": str(KEY)}], answer={"5": ["6"]}
    )
    turn = Turn(number=1, process=1, point="", user="1", exchanges=[exchange])
    assert list(turn.model_side()) == ["1", "2", "3", "4", '{"5": ["6"]}']


def test_a_ref_of_two_keys_fails_the_demo() -> None:
    """A ref that names another key in another process is printed, and the exit is 1."""
    console = _console()
    turns = [_turn("recipe_1"), _turn("recipe_1", str(OTHER_KEY))]
    assert verdict(turns, {KEY, OTHER_KEY}, 0, console) == 1
    assert "FOUND\n  recipe_1" in _printed(console)


@pytest.mark.parametrize(
    ("saved", "new", "code"),
    [
        ([{"gen_recipe_1": "recipe_8"}] * 2, 1, 0),
        ([{}], 0, 0),
        ([{"gen_recipe_1": "recipe_8"}], 2, 1),
        ([{"gen_recipe_1": "recipe_8"}], 0, 1),
        ([{"gen_recipe_1": "recipe_8"}, {"gen_recipe_1": "recipe_9"}], 1, 1),
        ([{}], 1, 1),
    ],
)
def test_each_saved_draft_is_one_new_row(saved: list[Any], new: int, code: int) -> None:
    """Two rows for one draft, none at all, or one that was no draft fail the demo."""
    console = _console()
    turns = [_turn("recipe_1", saved=each) for each in saved]
    assert verdict(turns, {KEY}, new, console) == code
    assert ("FOUND\n  new rows: " in _printed(console)) == bool(code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("recipe_1, recipe_2", f"{KEY}, recipe_2"),
        ("gen_recipe_1 recipe_11 my_recipe_1", "gen_recipe_1 recipe_11 my_recipe_1"),
    ],
)
def test_sizes_are_compared_with_the_keys_themselves(text: str, expected: str) -> None:
    """Each whole ref of a row is put back to its key; a draft has none."""
    assert with_keys([text], {"recipe_1": {str(KEY)}}) == [expected]


def test_refs_and_data_are_not_taken_for_keys() -> None:
    """Refs, dates, numbers and words pass."""
    texts = [
        "gen_recipe_12345678",
        "2026-03-02",
        "12345678",
        "defaced beef",
        "recipe_ingredient_1",
    ]
    assert showing_keys(texts, [KEY]) == []


@pytest.mark.usefixtures("extensions")
def test_keys_are_found_in_every_column(engine: Engine) -> None:
    """Primary keys, foreign keys and the elements of arrays of keys are all looked for."""
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        preferences = Preferences(user=User(name="Ada"), assumed_staples=[KEY])
        session.add(preferences)
        session.flush()
        expected = {preferences.id, preferences.user_id, KEY}
    assert keys_in(engine) == expected


@pytest.mark.usefixtures("extensions")
def test_the_demo_wants_an_empty_database(engine: Engine) -> None:
    """A database with tables in it is left alone."""
    Base.metadata.create_all(engine)
    with pytest.raises(SystemExit, match="needs an empty database"):
        prepare(engine, _console())


@pytest.mark.usefixtures("extensions")
def test_the_demo_says_what_the_server_lacks(database_url: str) -> None:
    """A user who cannot have an extension is told its name, and nothing is made."""
    # pgvector is for superusers to install, unlike pg_trgm
    engine = create_engine(database_url, connect_args={"options": "-c role=pg_monitor"})
    with pytest.raises(SystemExit, match=r"no extension vector \(pgvector\)$"):
        prepare(engine, _console())
    engine.dispose()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_both_sides_fit_the_console(width: int) -> None:
    """Nothing is cut off, and no line is longer than the console is wide."""
    console = _console(width)
    show_turn(console, _turn("recipe_ingredient_1"))
    lines = _printed(console).splitlines()
    cells = [line.split("│")[2:4] for line in lines if line.count("│") == 4]
    model, database = ("".join(side[n].strip() for side in cells) for n in (0, 1))
    assert max(map(len, lines)) <= width
    assert "recipe_ingredient_1" in model
    assert str(KEY) in database
