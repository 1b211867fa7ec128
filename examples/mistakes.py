"""A model that calls the kitchen's tools, makes mistakes, and goes on by what errors tell it.

`python -m examples.mistakes`, on the empty database in `DATABASE_URL`. The model is a script of
what it wants and how it first says so (`SCRIPT`); after an error it goes on by `recovery`, which
sees the error and not the script. Toolset, sessions and rows are what an application with a real
model has. At the end all that the model saw is searched for every key; the exit code tells if one
was found, or if the model ever did not know how to go on.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from typing import Any, Final, NamedTuple

from rich.console import Console
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry, RefSession
from examples.kitchen import DEMO_USER
from examples.kitchen.checks import keys_in, showing_keys
from examples.kitchen.demo import prepare
from examples.kitchen.models import MealPlan, Recipe, User
from examples.kitchen.show import show_call, show_check, show_heading, show_learnt, wide_console
from examples.kitchen.tools import OWNERSHIP, POLICY, kitchen_tools
from examples.recovery import Answer, Call, Mind, next_call

ATTEMPTS: Final = 4  # after so many errors a model should ask its user


class Wish(NamedTuple):
    """What the model wants, and how it says so at first."""

    call: Call
    means: str = ""
    knows: Mapping[str, Any] = {}


class Part(NamedTuple):
    """What the user says in a turn, what the model does, and what others do meanwhile."""

    user: str
    wishes: Sequence[Wish]
    meanwhile: Callable[[Session], None] | None = None


class ScriptedModel:
    """A model in one conversation: it makes calls, remembers answers, and recovers from errors.

    Args:
        use: calls a tool.
        console: where it is shown.
    """

    def __init__(self, use: Callable[[Call], Answer], console: Console) -> None:
        self._use = use
        self._console = console
        self._seen: dict[str, str] = {}
        self._questions: dict[str, Call] = {}
        self.texts: list[str] = []
        self.errors: list[str] = []
        self.failed: list[str] = []

    def pursue(self, wish: Wish) -> Answer:
        """Make a call, and others until one is done; a wish that fails is noted."""
        call = wish.call
        mind = Mind(
            lambda other: self.pursue(Wish(other, wish.means, wish.knows)),
            wish.means,
            wish.knows,
            self._seen,
            self._questions,
        )
        for _ in range(ATTEMPTS):
            answer = self._made(call)
            if "error" not in answer:
                return answer
            self.errors.append(answer["error"]["code"])
            following = next_call(call, answer["error"], mind)
            if following is None:
                break
            show_learnt(self._console, following.learnt)
            call = following.call
        self.failed.append(json.dumps(wish.call))
        return {"rows": []}

    def _made(self, call: Call) -> Answer:
        answer = self._use(call)
        self.texts += [
            json.dumps(call, ensure_ascii=False),
            json.dumps(answer, ensure_ascii=False),
        ]
        show_call(self._console, call.tool, call.arguments, answer)
        for row in answer.get("rows", ()):
            self._seen[row["id"]] = str(row)
            self._questions.setdefault(row["id"], call)
        return answer


def run(engine: Engine, console: Console) -> int:
    """Play the conversation on an empty database, and return its exit code."""
    prepare(engine, console)
    model, keys = converse(engine, console)
    return verdict(model, keys, console)


def verdict(model: ScriptedModel, keys: AbstractSet[uuid.UUID], console: Console) -> int:
    """Check what the model saw and did, print what was found, and return the exit code."""
    leaks = showing_keys(model.texts, keys)
    show_heading(console, "checks")
    strings = f"{len(model.texts)} strings on the model's side against {len(keys)} keys"
    show_check(console, f"checked {strings}", leaks)
    errors = f"{len(model.errors)} errors of {len(set(model.errors))} kinds"
    show_check(console, f"checked {errors} for one without a way on", model.failed)
    return int(bool(leaks or model.failed))


def converse(engine: Engine, console: Console) -> tuple[ScriptedModel, set[uuid.UUID]]:
    """Play all turns, and return the model and all keys that there were."""
    with Session(engine) as trusted:
        owner = trusted.scalars(select(User.id).filter_by(name=DEMO_USER)).one()
    tools = kitchen_tools(expect="optional")  # the mistakes here are others than a missing label
    conversation = RefRegistry(engine, policy=POLICY).conversation("agent", owner=owner)

    def use(call: Call) -> Answer:
        with RefSession(engine, conversation=conversation, owner=OWNERSHIP.of(owner)) as session:
            return tools.call(session, call.tool, call.arguments)

    model = ScriptedModel(use, console)
    keys: set[uuid.UUID] = set()
    for part in SCRIPT:
        turn = conversation.begin_turn()
        show_heading(console, f"turn {turn}: {part.user}")
        model.texts.append(part.user)
        for wish in part.wishes:
            model.pursue(wish)
        keys |= keys_in(engine)  # after each turn: the next may delete rows
        if part.meanwhile is not None:
            with Session(engine) as plain, plain.begin():
                part.meanwhile(plain)
    return model, keys


def _move_tuesday(session: Session) -> None:
    """Plan another soup for Tuesday, as the user does in the application's own pages."""
    plan = session.scalars(select(MealPlan).order_by(MealPlan.date).limit(1)).one()
    plan.recipe = session.scalars(select(Recipe).filter_by(name="Ham and Lentil Soup")).one()


def _take_back(session: Session) -> None:
    """Make a shared recipe somebody's own, so that nobody else sees it any more."""
    recipe = session.scalars(select(Recipe).filter_by(name="Lebanese Lentil Soup")).one()
    recipe.user = User(name="Its author")


def _read(table: str, *filters: dict[str, Any], **more: Any) -> Call:
    return Call("db_read", {"table": table, "filters": list(filters), **more})


def _is(field: str, value: Any, op: str = "=") -> dict[str, Any]:
    return {"field": field, "op": op, "value": value}


SCRIPT: Final[Sequence[Part]] = (
    Part(
        "I have lentils. Which soups could I make, and what goes into the Turkish one?",
        [
            Wish(
                _read(
                    "recipe",
                    _is("_semantic", "lentil soup", "similar"),
                    columns=["name", "cuisines"],
                    limit=3,
                )
            ),
            Wish(_read("recipes", _is("id", "recpie_2"))),
        ],
    ),
    Part(
        "Plan that for dinner on Tuesday, and Chiken Paprikash on Wednesday.",
        [
            Wish(
                _read("recipes", {"field": "name", "value": "Chiken Paprikash"}, columns=["name"])
            ),
            Wish(
                Call(
                    "db_create",
                    {
                        "table": "meal_plans",
                        "data": [
                            {"recipe_id": "recipe_2", "date": "2026-03-03"},
                            {"recipe_id": "ingredient_4", "date": "2026-03-04"},
                        ],
                    },
                ),
                means="Chicken Paprikash",
                knows={"meal_type": "dinner"},
            ),
        ],
    ),
    Part(
        "I cook the soup for eight, with tomatoes and a secret spice. Note it as my lentil soup.",
        [
            Wish(
                Call(
                    "db_update",
                    {
                        "table": "recipes",
                        "filters": [_is("id", "recipe_2")],
                        "data": {"servings": 8},
                    },
                ),
                knows={"name": "My lentil soup"},
            ),
            Wish(
                Call(
                    "db_create",
                    {
                        "table": "recipe_ingredients",
                        "data": [
                            {"recipe_id": "recipe_5", "name": "Red lentils", "quantity": "4"},
                            {"recipe_id": "recipe_5", "name": "tomatos", "quantity": "5"},
                            {"recipe_id": "recipe_5", "name": "secret spice"},
                            {"recipe_id": "recipe_5", "name": "Tomatoes", "quantity": "6"},
                        ],
                    },
                )
            ),
        ],
        meanwhile=_move_tuesday,
    ),
    Part(
        "Let us have my soup on Tuesday then. And no dinner on Wednesday, we are out.",
        [
            Wish(
                Call(
                    "db_update",
                    {
                        "table": "meal_plans",
                        "filters": [_is("id", "meal_plan_1")],
                        "data": {"recipe_id": "recipe_5"},
                        "expect": {"recipe_id": "recipe_2"},
                    },
                )
            ),
            Wish(
                Call("db_delete", {"table": "meal_plans", "filters": []}),
                means="dinner on Wednesday",
            ),
        ],
        meanwhile=_take_back,
    ),
    Part(
        "On Friday the Lebanese soup, or else the Turkish one. What is the plan now?",
        [
            Wish(
                Call(
                    "db_create",
                    {
                        "table": "meal_plans",
                        "data": {
                            "recipe_id": "recipe_3",
                            "date": "2026-03-06",
                            "meal_type": "dinner",
                        },
                    },
                ),
                means="the Lebanese soup, or else the Turkish one",
            ),
            Wish(_read("meal_plans", columns=["date", "recipe_id"], order_by="date")),
        ],
    ),
)

if __name__ == "__main__":
    if "DATABASE_URL" not in os.environ:
        sys.exit("DATABASE_URL names no database; `python3 run.py mistakes` provides one")
    sys.exit(run(create_engine(os.environ["DATABASE_URL"]), wide_console()))
