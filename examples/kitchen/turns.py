"""The demo's conversation: what an agent does for its user in six turns, in refs.

Each turn runs in a process of its own, `python -m examples.kitchen.turns N`, which reports it as
JSON. All that one leaves to the next is in the database: the rows, and the map between refs and
keys. The model's part is scripted; the sessions, statements and errors are what an application
with a real one would have.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import Engine, any_, create_engine, select, update
from sqlalchemy.orm import Session, contains_eager, sessionmaker

from alfred_refs import BadRefError, Conversation, RefRegistry, RefSession
from examples.kitchen import CONVERSATION, DEMO_USER
from examples.kitchen.models import MealPlan, Recipe, RecipeIngredient, User
from examples.kitchen.tools import OWNERSHIP, POLICY, kitchen_tools
from examples.kitchen.transcript import Transcript, Turn

MONDAY: Final = dt.date(2026, 3, 2)
TUESDAY: Final = dt.date(2026, 3, 3)
WEDNESDAY: Final = dt.date(2026, 3, 4)

# what the model makes up, as its application hands it on
IDEAS: Final[Sequence[Mapping[str, Any]]] = (
    {
        "name": "Paneer Wraps",
        "servings": 2,
        "ingredients": [
            {"name": "paneer", "quantity": "200", "unit": "g"},
            {"name": "flour tortillas", "quantity": "4"},
        ],
        "instructions": [
            "Cube the paneer.",
            "Fry it until it is golden.",
            "Toast the cumin.",
            "Stir in the yogurt.",
            "Chill for an hour.",
            "Warm the tortillas.",
        ],
    },
    {"name": "Light Tikka Masala", "servings": 2, "parent_recipe_id": "recipe_6"},
)


def take_turn(engine: Engine, number: int) -> Turn:
    """Carry the conversation on by one turn.

    Args:
        engine: The kitchen's database, with the tables of the registry.
        number: Which part of the script this is, from 1.
    """
    with Session(engine) as trusted:
        owner = trusted.scalars(select(User.id).filter_by(name=DEMO_USER)).one()
    conversation = RefRegistry(engine, policy=POLICY).conversation(CONVERSATION, owner=owner)
    sessions = sessionmaker(engine, class_=RefSession)

    script = SCRIPT[number - 1]
    transcript = Transcript(engine, conversation)
    turn = conversation.begin_turn()
    with sessions(conversation=conversation, owner=OWNERSHIP.of(owner)) as session:
        script.work(session, transcript)
    return Turn(
        number=turn,
        process=os.getpid(),
        point=script.point,
        user=script.user,
        exchanges=transcript.exchanges,
    )


def find_recipes(session: RefSession, transcript: Transcript) -> None:
    """Read recipes, and the ingredients of one of them."""
    indian = session.scalars(
        select(Recipe).where(any_(Recipe.tags) == "indian").order_by(Recipe.name).limit(5)
    )
    transcript.rows("read five recipes tagged 'indian'", indian, "id", "name")

    lines = session.scalars(
        select(RecipeIngredient)
        .where(RecipeIngredient.recipe_id == "recipe_3")
        .order_by(RecipeIngredient.position)
        .limit(3)
    )
    transcript.rows(
        "read the first ingredients of recipe_3", lines, "id", "recipe_id", "ingredient_id", "name"
    )


def plan_dinners(session: RefSession, transcript: Transcript) -> None:
    """Read children whose parents nobody has read, and plan by the refs they name."""
    lines = session.scalars(
        select(RecipeIngredient)
        .join(RecipeIngredient.recipe)
        .where(RecipeIngredient.name.icontains("paneer"))
        .order_by(Recipe.name)
    )
    transcript.rows("read ingredients with paneer in them", lines, "id", "recipe_id", "name")

    plans = [  # whose they are, is the session's to say
        MealPlan(recipe_id="recipe_3", date=MONDAY, meal_type="dinner"),
        MealPlan(recipe_id="recipe_6", date=TUESDAY, meal_type="dinner"),
    ]
    session.add_all(plans)
    session.commit()
    transcript.rows(
        "plan recipe_3 on Monday and recipe_6 on Tuesday", plans, "id", "user_id", "recipe_id"
    )
    _read_plan(session, transcript)


def change_plan(session: RefSession, transcript: Transcript) -> None:
    """Call tools by ref, some of them with the mistakes that models make."""
    for name, *refs in (
        ("cancel", "meal_plan_1"),
        ("cook", "meal_plan_2", "recpie_3"),
        ("cook", "meal_plan_2", "recipe_33"),
        ("cook", "meal_plan_2", "meal_plan_1"),
        ("cook", "meal_plan_1", "recipe_3"),
        ("cook", "meal_plan_2", "recipe_3"),
    ):
        try:
            with session.begin():
                answer = {"answer": TOOLS[name](session, *refs)}
        except BadRefError as error:
            answer = {"error": str(error)}
        transcript.answer(f"{name}({', '.join(refs)})", answer, MealPlan)
    _read_plan(session, transcript)


def cancel(session: RefSession, plan: str) -> str:
    """Take a meal off the plan."""
    session.delete(session.get_one(MealPlan, plan))
    return f"{plan} is cancelled"


def cook(session: RefSession, plan: str, recipe: str) -> str:
    """Cook another recipe at a planned meal."""
    session.execute(update(MealPlan).where(MealPlan.id == plan).values(recipe_id=recipe))
    return f"{plan} is now {recipe}"


# what the model calls a tool -> what it does
TOOLS: Final[Mapping[str, Callable[..., str]]] = {"cancel": cancel, "cook": cook}


def draft_dinners(session: RefSession, transcript: Transcript) -> None:
    """Keep what the model proposes, by refs, and in no table of the kitchen."""
    conversation = cast(Conversation, session.conversation)
    for content in IDEAS:
        draft = conversation.draft(Recipe, content)
        row = {"id": draft.ref, "_draft": draft.state, **draft.content}
        transcript.call("propose a recipe", {"table": "recipes", "rows": [row]}, "id", *content)


def save_dinner(session: RefSession, transcript: Transcript) -> None:
    """Change a draft, save it with a line that names it, discard another, and plan by its ref."""
    toolset = kitchen_tools()

    def call(tool: str, *fields: str, **arguments: Any) -> None:
        arguments = {"table": "recipes", **arguments}
        answer = toolset.call(session, tool, arguments)
        transcript.call(f"{tool} {json.dumps(arguments)}", answer, "id", *fields)

    wraps = [{"field": "id", "op": "=", "value": "gen_recipe_1"}]
    other = [{"field": "id", "op": "=", "value": "gen_recipe_2"}]
    both = [{"field": "id", "op": "in", "value": ["gen_recipe_1", "gen_recipe_2"]}]
    named = {"recipe_id": "gen_recipe_1", "_recipe_id_label": "Paneer Wraps"}
    mint = {**named, "name": "mint", "quantity": "1", "unit": "bunch"}
    is_wraps = {"expect": "Paneer Wraps"}
    also = [{"table": "recipe_ingredients", "data": mint}]

    call("db_read", "_draft", "name", filters=both, columns=["name"])
    call("db_update", "_draft", "servings", filters=wraps, data={"servings": 4}, **is_wraps)
    for _ in range(2):  # the second is sent as if the first had timed out
        call("db_create", "recipe_id", "name", from_draft="gen_recipe_1", also=also, **is_wraps)
    call("db_delete", filters=other, expect="Light Tikka Masala")
    call(
        "db_read",
        "servings",
        "ingredients",
        filters=wraps,
        columns=["servings", "ingredients.name"],
    )

    plan = MealPlan(recipe_id="gen_recipe_1", date=WEDNESDAY, meal_type="dinner")
    session.add(plan)
    session.commit()
    transcript.rows("plan gen_recipe_1 on Wednesday", [plan], "id", "recipe_id", "recipe.name")


def edit_steps(session: RefSession, transcript: Transcript) -> None:
    """Drop two steps of the saved recipe and move one: look at it first, then do it, once."""
    edits = [
        {"action": "remove", "path": [3], "expect": "Toast the cumin."},
        {"action": "remove", "path": [5]},
        {"action": "move", "path": [6], "to": 1},
    ]
    asked: dict[str, Any] = {"table": "recipes", "row": "gen_recipe_1", "list": "instructions"}
    asked["edits"] = edits
    more: dict[str, Any] = {"preview": True}
    for _ in range(3):  # the last is sent as if the second had timed out
        arguments = {**asked, **more}
        answer = kitchen_tools().call(session, "db_edit_list", arguments)
        transcript.call(f"db_edit_list {json.dumps(arguments)}", {"table": "recipes", **answer})
        more = {"token": more.get("token") or answer["token"]}


def _read_plan(session: RefSession, transcript: Transcript) -> None:
    plans = session.scalars(
        select(MealPlan)
        .join(MealPlan.recipe)
        .options(contains_eager(MealPlan.recipe))
        .order_by(MealPlan.date)
    )
    transcript.rows("read the meal plan", plans, "id", "date", "recipe_id", "recipe.name")


class Part(NamedTuple):
    """What the user says in a turn, the work it causes, and what that work is to show."""

    user: str
    work: Callable[[RefSession, Transcript], None]
    point: str


SCRIPT: Final[Sequence[Part]] = (
    Part(
        "What Indian dishes do we have, and what goes into the third?",
        find_recipes,
        "a ref stands wherever there is a key",
    ),
    Part(
        "Take that one on Monday, and something with paneer on Tuesday.",
        plan_dinners,
        "a child names a parent that was never read",
    ),
    Part(
        "We are out on Monday after all. Move that one to Tuesday.",
        change_plan,
        "a mistake gets an answer that helps, and changes nothing",
    ),
    Part(
        "Think of two new dinners with paneer: a quick one, and that masala but lighter.",
        draft_dinners,
        "what is not saved has a ref too, and no row",
    ),
    Part(
        "The wraps on Wednesday, for four and with mint. Forget the other.",
        save_dinner,
        "a draft becomes one row, whose name its ref is from then on",
    ),
    Part(
        "In the wraps drop steps 3 and 5, and move the last one to the front.",
        edit_steps,
        "edits by position are of the list as it was seen, and done as a whole",
    ),
)

if __name__ == "__main__":
    turn = take_turn(create_engine(os.environ["DATABASE_URL"]), int(sys.argv[1]))
    sys.stdout.buffer.write(turn.model_dump_json().encode())
