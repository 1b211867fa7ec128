"""The kitchen as an agent: it understands, plans, acts and replies, turn by turn.

`python -m examples.agent`, on the empty database in `DATABASE_URL`. Each turn is a process of its
own: what the agent knows of the turns before, it knows by its prompts alone, and they are made of
what the conversation keeps. A turn understands the message, plans, acts and replies; a question
that one read answers needs no plan. The model is a script that reads nothing else (`Model`); in
its place stands any chat model. `--prompts DIRECTORY` keeps all prompts, to be read. At the end
each is searched for every key, and for what it had to tell, and the answers of tools for refusals;
the exit code says if something was wrong.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from rich.console import Console
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.context import Called, Context, Exchange, Prompt, Step
from examples.kitchen import DEMO_USER
from examples.kitchen.checks import keys_in, showing_keys
from examples.kitchen.demo import ROOT, prepare
from examples.kitchen.models import Recipe, User
from examples.kitchen.show import show_check, show_heading, wide_console
from examples.kitchen.tools import OWNERSHIP, POLICY, kitchen_tools

Decision = TypeVar("Decision", bound=BaseModel)

MOST_CALLS: Final = 5  # of a step
SAID_BEFORE: Final = "said.json"
CALLS: Final = "calls.jsonl"  # the answers of tools, beside the prompts

# what the user says; `{mention}` is what a user interface makes of a recipe that is picked
SAID: Final[Sequence[str]] = (
    "Invent a lentil soup and a tomato soup for me.",
    "Save them both.",
    "Which recipes have I got?",
    "Plan the lentil soup for dinner on 2026-12-07.",
    "Make it for eight.",
    "How long does {mention} take?",
    "Delete that plan.",
    "Invent a pumpkin soup as well.",
    "Save it.",
    "And delete all of my soups.",
)

# what a prompt of a turn must have told, whatever else it tells
TOLD: Final[Sequence[tuple[int, str]]] = (
    (1, "## Task\n\n> invent"),
    (2, '- gen_recipe_1 "Lentil soup" (pending since turn 1)'),
    (3, '- recipe_1 "Lentil soup" (created in turn 2)'),
    (4, "meal_plans"),
    (5, '- recipe_1 "Lentil soup" (updated by the user in turn 4)'),
    (5, 'The user requires:\n- "servings: 8"'),
    (6, '- recipe_2 "Tomato soup" (mentioned by the user in turn 6)'),
    (7, "- meal_plan_1 (read in turn 7)"),
    (8, "- meal_plan_1 (deleted in turn 7)"),
    (8, '- recipe_1 "Lentil soup" (updated in turn 5), kept because "it is planned"'),
    (9, '- gen_recipe_3 "Pumpkin soup" (pending since turn 8)'),
    (10, '- recipe_3 "Pumpkin soup" (created in turn 9)'),
)

MINE: Final = ("Lentil soup", "Tomato soup", "Pumpkin soup")


class Model:
    """A model that reads its prompts, and nothing else: rules in the place of a language model.

    It does to the letter what they say, so it gives the labels that writes need, and no call of it
    is refused.
    """

    def answer(self, system: str, user: str) -> str:
        """Return the answer to a prompt, as JSON."""
        prompt = f"{system}\n\n{user}"
        if "# Understand the message" in user:
            return json.dumps(self._understand(prompt))
        if "# Plan the turn" in user:
            return json.dumps({"steps": [*self._think(prompt)]})
        return json.dumps(self._act(prompt))

    def _understand(self, prompt: str) -> dict[str, Any]:
        """Return what the user means: rows by their names, or by what was done with them."""
        said, rows = _said(prompt), _rows(prompt)
        refs = self._meant(
            said, {ref: label for ref, (label, done) in rows.items() if done != "deleted"}
        )
        found: dict[str, Any] = {"referenced": refs}
        if said.startswith("plan the"):
            found["retain"] = [{"ref": ref, "reason": "it is planned"} for ref in refs]
        if said == "make it for eight.":
            found["constraints"] = ["servings: 8"]
        if said.endswith("?"):
            goal = f"find {', '.join(refs) or 'the recipes of the user'}"
            found["quick"] = {"table": "recipes", "goal": goal, **QUICK}
        return found

    def _meant(self, said: str, there: Mapping[str, str]) -> list[str]:
        if "all of" in said or "have i got" in said:  # of which there may be older ones
            return []
        pointed = re.findall(r"\brecipe_\d+\b", said)
        kind = "gen_recipe" if "save" in said else "meal_plan" if "that plan" in said else "recipe"
        meant = [ref for ref in there if re.fullmatch(rf"{kind}_\d+", ref)]
        named = [ref for ref in meant if there[ref] and there[ref].lower() in said]
        return pointed or named or (meant[-1:] if " it " in said else meant)

    def _think(self, prompt: str) -> Iterator[dict[str, Any]]:
        """Yield the steps of a plan."""
        said = _said(prompt)
        refs = [
            ref
            for line in re.findall(r"^About: (.*)", prompt, re.MULTILINE)
            for ref in line.split(", ")
        ]
        names, table = ", ".join(refs), "meal_plans" if "plan" in said else "recipes"
        if "invent" in said:
            yield {"type": "generate", "goal": f"invent: {said}"}
        elif "save" in said:
            yield {"type": "write", "goal": f"save {names}", "refs": refs}
        elif "delete" in said:
            found = names or f"the {'plans' if 'plan' in said else 'recipes'} of the user"
            yield {"type": "read", "goal": f"find {found}", "tables": [table], "refs": refs}
            yield {"type": "write", "goal": "delete what was found", "tables": [table]}
        elif "plan the" in said:
            goal = f"plan {names} for dinner on 2026-12-07"
            yield {"type": "write", "goal": goal, "refs": refs}
        else:
            yield {"type": "write", "goal": f"change {names}", "tables": [table], "refs": refs}

    def _act(self, prompt: str) -> dict[str, Any]:
        """Return the decision of a step."""
        task = re.findall(r"## Task\n\n> (.*)", prompt)[0]
        if re.search(r"^- db_\w+ ", prompt.partition("## Data")[2], re.MULTILINE):
            answer = re.findall(r"^  answered (.*)", prompt, re.MULTILINE)[-1]
            done = re.findall(r'"(?:rows|deleted)": (\[.*?\])', answer)
            return _ended(f"done: {task}", data=json.loads(done[0]) if done else None)
        if task.startswith("invent"):
            names = [f"{name.capitalize()} soup" for name in re.findall(r"(\w+) soup", task)]
            return _ended(f"made {' and '.join(names)}", drafts=[_soup(name) for name in names])
        return {"action": "tool_call", **self._call(task, prompt)}

    def _call(self, task: str, prompt: str) -> dict[str, Any]:
        refs = re.findall(r"\b(?:gen_)?[a-z_]+_\d+\b", task)
        if "what was found" in task:  # by the step before
            refs = json.loads(re.findall(r"^  (\[.*\])$", prompt, re.MULTILINE)[-1])
        labels = {ref: label for ref, (label, _) in _rows(prompt).items() if label}
        is_plan = "plans" in task or any(ref.startswith("meal_plan") for ref in refs)
        table = "meal_plans" if is_plan else "recipes"
        named = [{"field": "id", "op": "in", "value": refs}]
        expect = {"expect": [labels[ref] for ref in refs]} if labels.keys() >= {*refs} else {}
        match task.split(maxsplit=1)[0]:
            case "save":
                return _called("db_create", table="recipes", from_draft=refs, **expect)
            case "plan":
                recipe = {"recipe_id": refs[0], "_recipe_id_label": labels[refs[0]]}
                row = {**recipe, "date": "2026-12-07", "meal_type": "dinner"}
                return _called("db_create", table="meal_plans", data=row)
            case "change":
                required = re.findall(r'^- "servings: (\d+)"', prompt, re.MULTILINE)
                data = {"servings": int(required[0])}
                return _called("db_update", table=table, filters=named, data=data, **expect)
            case "delete":
                return _called("db_delete", table=table, filters=named, **expect)
        mine = [{"field": "name", "op": "in", "value": MINE}]
        return _called("db_read", table=table, filters=named if refs else [] if is_plan else mine)

    def reply(self, prompt: str) -> str:
        """Return what the user is told; refs in it become names on the way."""
        results = re.findall(r'complete\): "(.*?)"', prompt)
        return f"{results[-1].capitalize()}." if results else "There was nothing to do."


QUICK: Final = {"read_only": True, "in_database": True}


def _said(prompt: str) -> str:
    """Return the user's last message."""
    messages: list[str] = re.findall(r"^User:\n> (.*)", prompt, re.MULTILINE)
    return messages[-1].lower()


def _rows(prompt: str) -> dict[str, tuple[str, str]]:
    """Return the label of each row and draft that is listed, and what was done with it."""
    rows = re.findall(r'^- (\w+_\d+)(?: "([^"]*)")? \((\w+)', prompt, re.MULTILINE)
    return {ref: (label, done) for ref, label, done in rows}


def _soup(name: str) -> dict[str, Any]:
    ingredients = [{"name": name.split(maxsplit=1)[0].lower(), "position": 0}]
    data = {"name": name, "servings": 4, "cook_minutes": 30, "ingredients": ingredients}
    return {"table": "recipes", "label": name, "data": data}


def _ended(summary: str, **fields: Any) -> dict[str, Any]:
    return {"action": "step_complete", "result_summary": summary, **fields}


def _called(tool: str, **params: Any) -> dict[str, Any]:
    return {"tool": tool, "params": params}


class Kitchen:
    """The application: one turn of the agent's loop.

    Args:
        engine: of the kitchen's database.
        kept: the directory of prompts, and of what was said.
        model: whatever answers them.
    """

    def __init__(self, engine: Engine, kept: Path, model: Model) -> None:
        with Session(engine) as trusted:
            owner = trusted.scalars(select(User.id).filter_by(name=DEMO_USER)).one()
        self._tools = kitchen_tools()
        self._chat = RefRegistry(engine, policy=POLICY).conversation("agent", owner=owner)
        self._sessions = sessionmaker(
            engine, class_=RefSession, conversation=self._chat, owner=OWNERSHIP.of(owner)
        )
        self._context = Context(self._chat, toolset=self._tools, sessions=self._sessions)
        self._kept, self._model = kept, model

    def turn(self, text: str) -> str:
        """Take one turn, and return the reply."""
        number, context = self._chat.begin_turn(), self._context
        with self._sessions() as session:
            said = context.heard(session, text)
        before = self._exchanges()
        exchanges = [*before, Exchange(said)]
        understood = self._asked(context.understand(exchanges), f"{number}-understand")
        context.curate(understood)
        quick = Step.quick(understood)
        if quick is None:
            plan = self._asked(context.think(exchanges, understood), f"{number}-think")
        for step in Step.planned(plan, understood) if quick is None else [quick]:
            self._take(step, exchanges, f"{number}-act-{step.number}")
        results = context.prompt(Step("analyze", "reply")).parts["data"]
        told = f"{context.render('reply')}\n\n{results}\n\nUser: {said}"
        reply = self._model.reply(self._keep(f"{number}-reply", told))
        chunks = [reply[start : start + 5] for start in range(0, len(reply), 5)]
        shown = "".join(context.with_names(chunks))
        self._say(before, Exchange(said, reply))
        return shown

    def change(self, name: str, **values: Any) -> None:
        """Change a recipe as a screen of the application's own does."""
        with self._sessions(by="user") as session:
            recipe = session.scalars(select(Recipe).filter_by(name=name)).one()
            for field, value in values.items():
                setattr(recipe, field, value)
            session.commit()

    def _take(self, step: Step, exchanges: Sequence[Exchange], name: str) -> None:
        """Take a step: the model decides, tools are called, until it is over."""
        calls: list[Called] = []
        for attempt in range(1, MOST_CALLS + 1):
            prompt = self._context.prompt(step, exchanges=exchanges, calls=calls)
            decision = self._asked(prompt, f"{name}-{attempt}")
            made = decision.root
            if made.action != "tool_call":
                self._context.done(step, decision)
                return
            with self._sessions(by="model") as session:
                answer = self._tools.call(session, made.tool, made.arguments)
            with (self._kept / CALLS).open("a", encoding="utf-8") as calls_made:
                calls_made.write(f"{json.dumps(answer)}\n")
            calls.append(Called(made.tool, made.arguments, answer))

    def _asked(self, prompt: Prompt[Decision], name: str) -> Decision:
        """Have the model answer a prompt, and return the answer, checked."""
        self._keep(name, f"{prompt.system}\n\n{prompt.user}")
        return prompt.decision.model_validate_json(self._model.answer(prompt.system, prompt.user))

    def _keep(self, name: str, prompt: str) -> str:
        (self._kept / f"{name}.md").write_text(prompt, "utf-8")
        return prompt

    def _exchanges(self) -> list[Exchange]:
        """Return what was said before: the chat is the application's own to keep."""
        said = self._kept / SAID_BEFORE
        return [Exchange(*each) for each in json.loads(said.read_text())] if said.exists() else []

    def _say(self, before: Sequence[Exchange], new: Exchange) -> None:
        said = [[each.user, each.assistant] for each in (*before, new)]
        (self._kept / SAID_BEFORE).write_text(json.dumps(said))


def take(engine: Engine, kept: Path, number: int) -> str:
    """Take a turn by its number, in this process, and return the reply."""
    kitchen = Kitchen(engine, kept, Model())
    with Session(engine) as trusted:
        key = trusted.scalar(select(Recipe.id).filter_by(name="Tomato soup"))
    reply = kitchen.turn(SAID[number - 1].format(mention=f"@[Tomato soup](recipe:{key})"))
    if number == 4:  # noqa: PLR2004  # while the agent rests
        kitchen.change("Lentil soup", description="Grandmother's own.")
    return reply


def play(engine: Engine, kept: Path, console: Console, start: Callable[[int], str]) -> int:
    """Play all turns on a kitchen that is prepared, and return the exit code."""
    keys = keys_in(engine)
    for number, said in enumerate(SAID, start=1):
        show_heading(console, f"turn {number}: {said.format(mention='@Tomato soup')}")
        console.print(start(number), markup=False)
        keys |= keys_in(engine)
    prompts = {file.name: file.read_text("utf-8") for file in sorted(kept.glob("*.md"))}
    untold = [
        f"turn {number}: {told}"
        for number, told in TOLD
        if not any(told in text for name, text in prompts.items() if _turn_of(name) == number)
    ]
    show_heading(console, "checks")
    several = f"{len(prompts)} prompts of {len(SAID)} processes"
    show_check(
        console, f"checked {several} for {len(keys)} keys", showing_keys(prompts.values(), keys)
    )
    show_check(console, f"checked {several} for what they must tell", untold)
    answers = (kept / CALLS).read_text("utf-8").splitlines()
    refused = [answer for answer in answers if "error" in json.loads(answer)]
    show_check(console, f"checked {len(answers)} calls for refused ones", refused)
    with Session(engine) as trusted:
        left = trusted.scalars(select(Recipe.name).where(Recipe.user_id.is_not(None))).all()
    show_check(console, "checked the tables for soups that are left", list(left))
    return int(bool(untold or refused or left or showing_keys(prompts.values(), keys)))


def _turn_of(name: str) -> int:
    return int(name.partition("-")[0])


def main(arguments: Sequence[str]) -> int:
    """Play the conversation, or take one turn of it."""
    engine = create_engine(os.environ["DATABASE_URL"])
    if "--turn" in arguments:
        kept = Path(arguments[arguments.index("--prompts") + 1])
        sys.stdout.write(take(engine, kept, int(arguments[arguments.index("--turn") + 1])))
        return 0
    console = wide_console()
    prepare(engine, console)
    with tempfile.TemporaryDirectory() as temporary:
        given = arguments[1] if arguments[:1] == ["--prompts"] else temporary
        kept = Path(given)
        kept.mkdir(parents=True, exist_ok=True)
        for left in (SAID_BEFORE, CALLS):  # by another run
            (kept / left).unlink(missing_ok=True)

        def start(number: int) -> str:
            program = [sys.executable, "-m", "examples.agent", "--turn", str(number)]
            done = subprocess.run(
                [*program, "--prompts", str(kept.absolute())],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                check=True,
            )
            return done.stdout

        code = play(engine, kept, console, start)
    engine.dispose()
    return code


if __name__ == "__main__":
    if "DATABASE_URL" not in os.environ:
        sys.exit("DATABASE_URL names no database; `python3 run.py agent` provides one")
    sys.exit(main(sys.argv[1:]))
