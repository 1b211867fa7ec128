"""The evals: that they measure what they say, and find what is wrong; never what is found."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from sqlalchemy import Engine, create_engine

from evals import __main__ as command, report
from evals.arms import arm
from evals.channel import KINDS, RATES, Channel, Id, Ids, rates
from evals.doing import Doing, Noise
from evals.kitchen import Kitchen, made_kitchen
from evals.running import Run
from evals.scores import scores, share
from evals.tasks import FAMILIES, task_of, tasks_of
from evals.trials import Trial, TrialFile
from tests.fix_postgres import database_like

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.fix_kitchen"]

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
REF = re.compile(r"(?:recipe|recipe_ingredient|ingredient|meal_plan|shopping_list)_[0-9]+")

ONE_UUID = "0f5c2a9e-77d1-4c3b-a1de-5b2f9c3d4e5f"


@pytest.fixture(scope="module")
def kitchen(administration: Engine, extensions: None) -> Iterator[Kitchen]:  # noqa: ARG001
    """A kitchen for all tests: a task leaves it as it was."""
    with database_like(administration) as url:
        engine = create_engine(url)
        yield made_kitchen(engine)
        engine.dispose()


def chance(seed: int) -> random.Random:
    """Return what decides, the same each time."""
    return random.Random(seed)  # noqa: S311  # no secret


def done(
    kitchen: Kitchen, arms: Sequence[str], count: int, noise: Noise | None = None
) -> list[tuple[Trial, Sequence[ModelMessage]]]:
    """Do the first tasks in some arms."""
    doing = Doing(kitchen, noise or Noise())

    async def all_() -> list[tuple[Trial, Sequence[ModelMessage]]]:
        return [
            await doing.trial(task, arm(name), 0)
            for name in arms
            for task in tasks_of(count, 1, kitchen)
        ]

    return asyncio.run(all_())


def test_tasks_name_no_id_and_differ(kitchen: Kitchen) -> None:
    """There are 120 and more, the same for the same seed, with something to change in each."""
    made = tasks_of(240, 1, kitchen)
    assert {task.family for task in made} == {*FAMILIES}
    assert len({tuple(task.turns) for task in made}) >= 220
    for task in made:
        said = " ".join(task.turns)
        assert not UUID.search(said)
        assert not REF.search(said)
        assert not task.end.is_met(kitchen.rows, {})
    again = task_of("long", 100_003, kitchen)
    assert (again.turns, again.end) == (made[23].turns, made[23].end)


def test_each_arm_shows_its_ids_alone(kitchen: Kitchen) -> None:
    """The same is asked of the same tools and told by them, and all tasks can be done."""
    shown = {}
    for name in ("keys", "integers", "refs", "refs+labels", "refs+labels+required"):
        trials = done(kitchen, [name], 12)
        assert [(trial.met, trial.strays) for trial, _ in trials] == [(True, [])] * 12
        # rows of one name are told apart by more than their labels, where labels are asked for
        refused = {trial.family for trial, _ in trials if trial.refused}
        assert refused <= ({"like names"} if "required" in name else set())
        shown[name] = "\n".join(text for _, messages in trials for text in texts_in(messages))
    assert UUID.search(shown["keys"])
    assert not REF.search(shown["keys"])
    assert not UUID.search(shown["integers"])
    assert not REF.search(shown["integers"])
    assert re.search(r'"recipe_id":[0-9]+', shown["integers"])
    assert REF.search(shown["refs"])
    assert not UUID.search(shown["refs"])
    assert "_recipe_id_label" not in shown["refs"]
    assert "_recipe_id_label" in shown["refs+labels"]
    assert "expect" not in shown["refs+labels"]
    assert "expect" in shown["refs+labels+required"]


def test_a_broken_arm_is_found(kitchen: Kitchen) -> None:
    """Refs that are resolved to the next row: no task is met, and rows are written silently."""
    [found] = scores([trial for trial, _ in done(kitchen, ["next"], 12)], ["next"])
    assert found.met.part == 0
    assert found.silent.part > 6


def test_one_wrong_character_is_silent_in_refs_unless_labels_are_asked_for(
    kitchen: Kitchen,
) -> None:
    """With labels it is as rarely silent as in UUIDs: never."""
    arms = ["keys", "refs", "refs+labels+required"]
    trials = [trial for trial, _ in done(kitchen, arms, 9, Noise(rates("edit=0.3")))]
    keys, refs, labels = scores(trials, arms)
    assert (keys.silent.part, labels.silent.part) == (0, 0)
    assert refs.silent.part > 4
    assert min(each.of_kind["edit"].whole for each in (keys, refs, labels)) > 10


def test_a_run_is_the_same_again_and_goes_on(kitchen: Kitchen, tmp_path: Path) -> None:
    """To the digit, whether it is made at once or in two parts, and no other run's is taken."""
    noise, tasks = Noise(RATES, seed=3), tasks_of(6, 3, kitchen)
    arms = [arm("refs"), arm("keys")]
    setting = {"model": "noisy", "rates": dict(RATES)}
    texts = []
    for name, parts in (("once", [6]), ("parts", [2, 6])):
        kept = TrialFile(tmp_path / f"{name}.jsonl", setting)
        for count in parts:
            judged = Run(
                tasks[:count], arms, trials=2, workers=[Doing(kitchen, noise)], kept=kept
            ).make()
        trials = [*kept]
        assert len({trial.place for trial in trials}) == len(trials) == 24
        texts.append(report.markdown(trials, ["refs", "keys"], setting, None))
    assert texts[0] == texts[1]
    assert judged is not None
    assert [*judged.failures] == []
    assert Run(tasks, arms, trials=2, workers=[], kept=kept).make() is None
    with pytest.raises(ValueError, match="another setting"):
        TrialFile(tmp_path / "once.jsonl", {**setting, "model": "scripted"})


def test_no_trial_is_begun_beyond_a_cost(kitchen: Kitchen, tmp_path: Path) -> None:
    """Those that are left out are counted, and can be made later."""
    kept = TrialFile(tmp_path / "cost.jsonl", {})
    [(trial, _)] = done(kitchen, ["refs"], 1)
    kept.add(replace(trial, task="another", cost=1.5))
    run = Run(
        tasks_of(2, 1, kitchen),
        [arm("refs")],
        trials=1,
        workers=[Doing(kitchen, Noise())],
        kept=kept,
        most_cost=1.0,
    )
    run.make()
    assert (run.left_out, len([*kept])) == (2, 1)


@pytest.mark.parametrize("given", [ONE_UUID, "recipe_12", 12, "gen_recipe_7", 4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_slip_is_of_its_kind(kind: str, given: Id) -> None:
    """What is written is never what was meant, and of the ids that were shown where it is one."""
    shown = Ids(alike=[given, "recipe_3"], earlier=["recipe_9"], others=["meal_plan_1"])
    channel = Channel(rates(f"{kind}=1"), chance(1))
    among = {"swap": ["recipe_3"], "stale": ["recipe_9"], "kind": ["meal_plan_1"]}
    for _ in range(50):
        slip = channel.copy(given, shown)
        assert slip is not None
        assert (slip.kind, slip.given != given) == (kind, True)
        assert type(slip.given) is type(given) or kind in among
        if kind in among:
            assert slip.given in among[kind]
        elif kind == "edit":
            assert abs(len(str(slip.given)) - len(str(given))) <= 1
        if isinstance(given, str) and not UUID.fullmatch(given) and kind in ("edit", "invent"):
            assert str(slip.given).startswith(given.rstrip("0123456789"))


def test_without_rates_nothing_slips() -> None:
    """And rates that are none are refused."""
    channel = Channel(rates(""), chance(1))
    assert {channel.copy(12, Ids([3], [], [])) for _ in range(99)} == {None}
    for text in ("edits=0.1", "edit=2", "edit", "edit=0.7,swap=0.7"):
        with pytest.raises(ValueError, match=r"rate"):
            rates(text)


def test_intervals_and_chances_are_those_of_the_books() -> None:
    """Wilson's interval of 3 in 200, and pass^2 of tasks met 4, 2 and 0 times of 4."""
    found = share(3, 200)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0051, 0.0432)
    assert str(share(0, 0)) == "-"
    trial = Trial("t", "long", "refs", 0, True, [], {}, 0, 1, 1, 1, 1, 1)
    trials = [
        replace(trial, task=f"t{met}", number=number, met=number < met)
        for met in (4, 2, 0)
        for number in range(4)
    ]
    [of_arm] = scores(trials, ["refs"])
    assert [round(each, 4) for each in of_arm.passed] == [0.5, 0.3889, 0.3333, 0.3333]


def test_a_label_slips_along_as_often_as_is_said(kitchen: Kitchen) -> None:
    """Then what is expected is what the wrong row is, and nobody can tell."""
    arms = ["refs+labels+required"]
    swaps = rates("swap=0.3")
    never, always = (
        scores([t for t, _ in done(kitchen, arms, 9, Noise(swaps, along=along))], arms)[0]
        for along in (0.0, 1.0)
    )
    assert never.silent.part < always.silent.part


def test_a_model_that_looks_puts_right_what_it_did(kitchen: Kitchen) -> None:
    """From the answers to its writes, which show what was written."""
    slips = rates("swap=0.3")
    blind, seeing = (
        scores([t for t, _ in done(kitchen, ["refs"], 9, Noise(slips, notices=each))], ["refs"])[0]
        for each in (0.0, 1.0)
    )
    assert blind.met.part < seeing.met.part


def test_the_command_writes_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the setting in it, and the trials beside it."""
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "run.md"
    options = ["--model", "scripted", "--tasks", "2", "--arms", "refs", "--write", str(path)]
    assert command.main(options) == 0
    written = path.read_text("utf-8")
    assert "model: scripted; tasks: 2; trials: 1; seed: 1" in written
    assert "| refs | 100.0 % [34.2, 100.0] (2/2) |" in written
    assert len(path.with_suffix(".jsonl").read_text().splitlines()) == 3
    assert "refs" in capsys.readouterr().out


def texts_in(messages: Sequence[ModelMessage]) -> Iterator[str]:
    """Yield what was said, asked of tools and told by them."""
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolReturnPart):
            yield part.model_response_str()
        elif isinstance(part, ToolCallPart):
            yield part.args_as_json_str()
        elif isinstance(part, UserPromptPart | TextPart):
            yield str(part.content)


def calls_in(messages: Sequence[ModelMessage]) -> list[dict[str, object]]:
    """Return the arguments of all calls."""
    return [
        json.loads(part.args_as_json_str())
        for message in messages
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]


def test_a_model_that_is_asked_says_what_rows_are(kitchen: Kitchen) -> None:
    """Once it was refused: the next call has the label."""
    trials = done(kitchen, ["refs+labels+asked"], 12)
    assert all(trial.met for trial, _ in trials)
    assert {trial.refused for trial, _ in trials if trial.family != "like names"} == {1}
    assert all(
        "expect" in json.dumps(calls_in(messages)[-1])
        or "_label" in json.dumps(calls_in(messages)[-1])
        for _, messages in trials
    )


def test_the_page_has_the_figures_of_the_runs() -> None:
    """Each line of its tables that begins with an arm is in a table of `evals/results`."""
    made = "".join(path.read_text("utf-8") for path in command.RESULTS.glob("*.md"))
    page = Path("docs/evals.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if re.match(r"\| (keys|refs|integers)\b", line)]
    assert len(lines) == 6  # arms of the page
    assert [line for line in lines if line not in made] == []
