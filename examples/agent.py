"""The kitchen as an agent: it understands, plans, acts and replies, turn by turn.

`python -m examples.agent`, on the empty database in `DATABASE_URL`. Each turn is a process of its
own: what the agent knows of the turns before, it knows by its prompts alone, and they are made of
what the conversation keeps. The model is a script that reads nothing else (`Model`); in its place
stands any chat model. `--prompts DIRECTORY` keeps all prompts, to be read. At the end each is
searched for every key, and for what it had to tell; the exit code says if something was wrong.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.context import Called, Context, Exchange, Step
from examples.kitchen import DEMO_USER
from examples.kitchen.checks import keys_in, showing_keys
from examples.kitchen.demo import ROOT, prepare
from examples.kitchen.models import Recipe, User
from examples.kitchen.show import show_check, show_heading, wide_console
from examples.kitchen.tools import OWNERSHIP, POLICY, kitchen_tools

MOST_CALLS: Final = 5  # of a step

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
TOLD: Final[Sequence[str]] = (
    "## Task\n\ninvent",
    '- gen_recipe_1 "Lentil soup" (pending in turn 1)',
    '- recipe_1 "Lentil soup" (created in turn 2)',
    "meal_plans",
    '- recipe_1 "Lentil soup" (updated by the user in turn 4)',
    '- recipe_2 "Tomato soup" (mentioned by the user in turn 6)',
    "- meal_plan_1 (read in turn 7)",
    "- meal_plan_1 (deleted in turn 7)",
    '- gen_recipe_3 "Pumpkin soup" (pending in turn 8)',
    '- recipe_3 "Pumpkin soup" (created in turn 9)',
)


class Model:
    """A model that reads its prompts, and nothing else: rules in the place of a language model."""

    def understand(self, prompt: str) -> list[str]:
        """Return the refs of the rows that the user means: by their names, or by what was done."""
        rows = re.findall(r'^- (\S+)(?: "([^"]*)")? \((\w+)', prompt, re.MULTILINE)
        there = {ref: label.lower() for ref, label, done in rows if done != "deleted"}
        said = prompt.rpartition("User: ")[2].lower()
        if "all of" in said:  # of which there may be older ones
            return []
        pointed = re.findall(r"\brecipe_\d+\b", said)
        kind = "gen_recipe" if "save" in said else "meal_plan" if "that plan" in said else "recipe"
        meant = [ref for ref in there if re.fullmatch(rf"{kind}_\d+", ref)]
        named = [ref for ref in meant if there[ref] and there[ref] in said]
        return pointed or named or (meant[-1:] if " it " in said else meant)

    def think(self, prompt: str, refs: Sequence[str]) -> list[tuple[str, str]]:
        """Return the steps of a plan, each with its type and what is to be reached, in refs."""
        said = prompt.rpartition("User: ")[2].lower()
        for word, steps in self._plans(said, ", ".join(refs)):
            if word in said:
                return steps
        return [("read", f"find {', '.join(refs) or 'the recipes of the user'}")]

    def _plans(self, said: str, refs: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        yield "invent", [("generate", f"invent: {said}")]
        yield "save", [("write", f"save {refs}")]
        found = refs or f"the {'plans' if 'plan' in said else 'recipes'} of the user"
        yield "delete", [("read", f"find {found}"), ("write", "delete what was found")]
        yield "plan the", [("write", f"plan {refs} for dinner on 2026-12-07")]
        yield "make it", [("write", f"change {refs} to servings 8")]

    def act(self, prompt: str) -> str:
        """Return the decision of a step, as JSON."""
        task = re.findall(r"## Task\n\n(.*)", prompt)[0]
        if "## Data" in prompt and re.search(r"^- db_\w+ ", prompt, re.MULTILINE):
            answer = re.findall(r"^  answered (.*)", prompt, re.MULTILINE)[-1]
            done = re.findall(r'"(?:rows|deleted)": (\[.*?\])', answer)
            return _ended(f"done: {task}", data=json.loads(done[0]) if done else None)
        if task.startswith("invent"):
            names = [f"{name.capitalize()} soup" for name in re.findall(r"(\w+) soup", task)]
            drafts = [
                {
                    "table": "recipes",
                    "label": name,
                    "data": {
                        "name": name,
                        "servings": 4,
                        "cook_minutes": 30,
                        "ingredients": [{"name": name.split()[0].lower(), "position": 0}],
                    },
                }
                for name in names
            ]
            return _ended(f"made {' and '.join(names)}", drafts=drafts)
        return json.dumps({"action": "tool_call", **self._call(task, prompt)})

    def _call(self, task: str, prompt: str) -> dict[str, Any]:
        refs = re.findall(r"\b(?:gen_)?[a-z_]+_\d+\b", task)
        if "what was found" in task:  # by the step before
            refs = json.loads(re.findall(r"^  (\[.*\])$", prompt, re.MULTILINE)[-1])
        is_plan = "plans" in task or any(ref.startswith("meal_plan") for ref in refs)
        table = "meal_plans" if is_plan else "recipes"
        named = [{"field": "id", "op": "in", "value": refs}] if refs else []
        match task.split(maxsplit=1)[0]:
            case "save":
                return _called("db_create", table="recipes", from_draft=refs)
            case "plan":
                row = {"recipe_id": refs[0], "date": "2026-12-07", "meal_type": "dinner"}
                return _called("db_create", table="meal_plans", data=row)
            case "change":
                return _called("db_update", table=table, filters=named, data={"servings": 8})
            case "delete":
                return _called("db_delete", table=table, filters=named)
        mine = [
            {"field": "name", "op": "in", "value": ["Lentil soup", "Tomato soup", "Pumpkin soup"]}
        ]
        return _called("db_read", table=table, filters=named or ([] if is_plan else mine))

    def reply(self, prompt: str) -> str:
        """Return what the user is told; refs in it become names on the way."""
        results = re.findall(r'complete\): "(.*?)"', prompt)
        return f"{results[-1].capitalize()}." if results else "There was nothing to do."


def _ended(summary: str, **fields: Any) -> str:
    return json.dumps({"action": "step_complete", "result_summary": summary, **fields})


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
        self._context = Context(self._chat, toolset=self._tools)
        self._kept, self._model = kept, model

    def turn(self, text: str) -> str:
        """Take one turn, and return the reply."""
        number = self._chat.begin_turn()
        with self._sessions() as session:
            said = self._context.heard(session, text)
        exchanges = self._exchanges()
        model, context = self._model, self._context

        def asked(phase: str, told: str) -> str:
            return self._keep(f"{number}-{phase}", f"{told}\n\nUser: {said}")

        refs = model.understand(asked("understand", context.render("understand")))
        plan = model.think(asked("think", context.render("think")), refs)
        for at, (type_, goal) in enumerate(plan, start=1):
            step: Any = Step(type_, goal, number=at, of=len(plan))  # type: ignore[arg-type]
            self._take(step, [*exchanges, Exchange(said)], f"{number}-act-{at}")
        results = context.prompt(Step("analyze", "reply")).parts["data"]
        reply = model.reply(asked("reply", f"{context.render('reply')}\n\n{results}"))
        chunks = [reply[start : start + 5] for start in range(0, len(reply), 5)]
        shown = "".join(context.with_names(chunks))
        self._say(exchanges, Exchange(said, reply))
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
            told = self._keep(f"{name}-{attempt}", f"{prompt.system}\n\n{prompt.user}")
            decision = prompt.decision.model_validate_json(self._model.act(told))
            made: Any = decision.root
            if made.action != "tool_call":
                self._context.done(step, decision)
                return
            arguments = made.params.model_dump(mode="json", by_alias=True, exclude_unset=True)
            with self._sessions(by="model") as session:
                answer = self._tools.call(session, made.tool, arguments)
            calls.append(Called(made.tool, made.params, answer))

    def _keep(self, name: str, prompt: str) -> str:
        (self._kept / f"{name}.md").write_text(prompt, "utf-8")
        return prompt

    def _exchanges(self) -> list[Exchange]:
        """Return what was said before: the chat is the application's own to keep."""
        said = self._kept / "said.json"
        return [Exchange(*each) for each in json.loads(said.read_text())] if said.exists() else []

    def _say(self, before: Sequence[Exchange], new: Exchange) -> None:
        said = [[each.user, each.assistant] for each in (*before, new)]
        (self._kept / "said.json").write_text(json.dumps(said))


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
        for number, told in enumerate(TOLD, start=1)
        if not any(told in text for name, text in prompts.items() if _turn_of(name) == number)
    ]
    show_heading(console, "checks")
    several = f"{len(prompts)} prompts of {len(SAID)} processes"
    show_check(
        console, f"checked {several} for {len(keys)} keys", showing_keys(prompts.values(), keys)
    )
    show_check(console, f"checked {several} for what they must tell", untold)
    with Session(engine) as trusted:
        left = trusted.scalars(select(Recipe.name).where(Recipe.user_id.is_not(None))).all()
    show_check(console, "checked the tables for soups that are left", list(left))
    return int(bool(untold or left or showing_keys(prompts.values(), keys)))


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

        return play(engine, kept, console, start)


if __name__ == "__main__":
    if "DATABASE_URL" not in os.environ:
        sys.exit("DATABASE_URL names no database; `python3 run.py agent` provides one")
    sys.exit(main(sys.argv[1:]))
