"""The demo's conversation: what an agent does for its user in three turns, in refs.

Each turn runs in a process of its own, `python -m examples.kitchen.turns N`, which reports it as
JSON. All that one leaves to the next is in the database: the rows, and the map between refs and
keys. The model's part is scripted; the sessions, statements and errors are what an application
with a real one would have.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Engine, any_, create_engine, select, update
from sqlalchemy.orm import Session, contains_eager, sessionmaker

from alfred_refs import BadRefError, RefRegistry, RefSession
from examples.kitchen import CONVERSATION, DEMO_USER
from examples.kitchen.models import MealPlan, Recipe, RecipeIngredient, User
from examples.kitchen.tools import POLICY
from examples.kitchen.transcript import Transcript, Turn

MONDAY: Final = dt.date(2026, 3, 2)
TUESDAY: Final = dt.date(2026, 3, 3)


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
    transcript = Transcript(engine)
    turn = conversation.begin_turn()
    with sessions(conversation=conversation) as session:
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

    with session.raw_keys():  # trusted code: whose plan it is, is not for the model to say
        guest = session.scalars(select(User.id).filter_by(name=DEMO_USER)).one()
    plans = [
        MealPlan(user_id=guest, recipe_id="recipe_3", date=MONDAY, meal_type="dinner"),
        MealPlan(user_id=guest, recipe_id="recipe_6", date=TUESDAY, meal_type="dinner"),
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
)

if __name__ == "__main__":
    turn = take_turn(create_engine(os.environ["DATABASE_URL"]), int(sys.argv[1]))
    sys.stdout.buffer.write(turn.model_dump_json().encode())
