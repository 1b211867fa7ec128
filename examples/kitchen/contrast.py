"""One turn twice: as the tools answer it, in refs, and what becomes of it in keys.

In goes an engine on a loaded kitchen; out comes what the model said and was told, and what a
plain session does with a key of which one digit is wrong. All of it is rolled back, and its refs
are kept in memory: nothing is left to the turns that come after it.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, cast

from sqlalchemy import CursorResult, Engine, func, select, update
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from examples.kitchen import DEMO_USER
from examples.kitchen.models import Ingredient, MealPlan, Preferences, User
from examples.kitchen.tools import OWNERSHIP, POLICY, kitchen_tools

Answer = Mapping[str, Any]

USER: Final = "Plan the third Indian dish for Monday. No, Tuesday."
MONDAY: Final = dt.date(2026, 3, 2)
TUESDAY: Final = dt.date(2026, 3, 3)
TOOLS: Final = kitchen_tools()


@dataclass(frozen=True, slots=True)
class Call:
    """What the model called, and what it was answered."""

    tool: str
    arguments: Mapping[str, Any]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Contrast:
    """A turn in refs and in keys.

    Attributes:
        calls: what the model called, in refs, and what it was answered.
        keys: by ref, of all that it saw.
        size: of the calls that were done, with their answers.
        size_with_keys: the same with keys in place of the refs.
        unit: what the sizes count.
        mistyped: the key of the plan with one digit wrong.
        moved: how many plans a plain session moved by that.
        day: on which the plan was left.
        staples: how many rows took a mistyped key of an ingredient, for which there is no
            constraint.
        named: how many ingredients that key names.
    """

    calls: Sequence[Call]
    keys: Mapping[str, str]
    size: int
    size_with_keys: int
    unit: str
    mistyped: str
    moved: int
    day: dt.date
    staples: int
    named: int

    def texts(self) -> list[str]:
        """Return what the model wrote and was told, in refs."""
        said = [json.dumps(call.arguments) for call in self.calls]
        return [*said, *(json.dumps(_shown(call.answer)) for call in self.calls)]


def answer(
    sessions: Callable[..., RefSession],
    conversation: Conversation,
    owner: uuid.UUID,
    tool: str,
    arguments: Mapping[str, Any],
) -> Answer:
    """Answer a call of the model: all that an application ships for it."""
    with sessions(conversation=conversation, owner=OWNERSHIP.of(owner)) as session:
        return TOOLS.call(session, tool, arguments)


def contrasted(engine: Engine) -> Contrast:
    """Take the turn both ways, and leave nothing behind."""
    with engine.connect() as connection, connection.begin() as transaction:
        with Session(connection) as plain:
            owner = plain.scalars(select(User.id).filter_by(name=DEMO_USER)).one()
        chat = RefRegistry(store=MemoryStore(), policy=POLICY).conversation("plan", owner=owner)
        sessions = sessionmaker(
            connection, class_=RefSession, join_transaction_mode="create_savepoint"
        )
        made = (
            Call(tool, arguments, answer(sessions, chat, owner, tool, arguments))
            for tool, arguments in SAID
        )
        calls = [next(made), next(made)]
        keys = {ref: str(chat.resolve(ref)) for call in calls for ref in _refs(call.answer)}
        with Session(connection, join_transaction_mode="create_savepoint") as plain:
            found = _in_plain_session(plain, keys["meal_plan_1"])  # before it is moved by its ref
        calls += made
        transaction.rollback()
    measure, unit = measured()
    done = json.dumps([[c.arguments, _shown(c.answer)] for c in calls if "error" not in c.answer])
    with_keys = done
    for ref, key in keys.items():
        with_keys = with_keys.replace(f'"{ref}"', f'"{key}"')
    return Contrast(calls, keys, measure(done), measure(with_keys), unit, *found)


def one_digit_wrong(key: str) -> str:
    """Return a key as models mistype it."""
    return key[:-1] + ("0" if key[-1] != "0" else "1")


def measured() -> tuple[Callable[[str], int], str]:
    """Return what measures a text, and in what: tokens, where there is something to count them."""
    if find_spec("bpe_openai") is None:
        return len, "characters"
    from bpe_openai import get_encoding  # noqa: PLC0415  # of the extra `dev`

    encode = get_encoding("o200k_base").encode_ordinary
    return lambda text: len(encode(text)), "tokens"


def _in_plain_session(plain: Session, plan: str) -> tuple[str, int, dt.date, int, int]:
    """Move a plan and note a staple by mistyped keys; tell what came of it."""
    mistyped = one_digit_wrong(plan)
    move = update(MealPlan).where(MealPlan.id == mistyped).values(date=TUESDAY)
    moved = cast("CursorResult[Any]", plain.execute(move)).rowcount
    day = plain.get_one(MealPlan, uuid.UUID(plan)).date
    wrong = uuid.UUID(one_digit_wrong(str(plain.scalars(select(Ingredient.id).limit(1)).one())))
    note = update(Preferences).values(assumed_staples=[wrong])
    staples = cast("CursorResult[Any]", plain.execute(note)).rowcount
    named = plain.scalars(select(func.count()).where(Ingredient.id == wrong)).one()
    return mistyped, moved, day, staples, named


def _refs(found: Answer) -> list[str]:
    """Return the refs in the rows of an answer."""
    rows = found.get("rows", ())
    return [row[name] for row in rows for name in ("id", "recipe_id") if name in row]


def _shown(found: Answer) -> Answer:
    """Return an answer without what would be the same with keys, and as long."""
    return {name: value for name, value in found.items() if name != "cursor"}


def _plan(ref: str) -> list[Mapping[str, Any]]:
    return [{"field": "id", "op": "=", "value": ref}]


# what the model calls; the third has a digit too many
SAID: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    (
        "db_read",
        {
            "table": "recipes",
            "filters": [{"field": "tags", "op": "contains", "value": ["indian"]}],
            "columns": ["name"],
            "order_by": "name",
            "limit": 3,
        },
    ),
    (
        "db_create",
        {
            "table": "meal_plans",
            "data": {
                "recipe_id": "recipe_3",
                "_recipe_id_label": "Coriander Chicken",
                "date": MONDAY.isoformat(),
                "meal_type": "dinner",
            },
        },
    ),
    *(
        (
            "db_update",
            {"table": "meal_plans", "filters": _plan(ref), "data": {"date": TUESDAY.isoformat()}},
        )
        for ref in ("meal_plan_11", "meal_plan_1")
    ),
)
