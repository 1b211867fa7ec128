"""The rows that the shapes work on, with recognisable keys.

`fill` inserts them, `KEYS` has the key of each ref, and `shown` converts values of a plain session
to those that a `RefSession` should return.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Engine, Row, inspect
from sqlalchemy.orm import Session

from alfred_refs import Conversation
from tests.models import (
    Box,
    Cook,
    Guest,
    MealPlan,
    Order,
    OrderLine,
    Person,
    Preference,
    Recipe,
    RecipeNote,
    recipe_tags,
)

DAY = dt.date(2026, 5, 1)


def _uuid(table: int, row: int) -> uuid.UUID:
    """Return a UUID with a recognisable first group."""
    return uuid.UUID(f"fe{table}d0{row:03}-0000-4000-8000-{table:06}{row:06}")


# ref -> key, as the column's type returns it
KEYS: Mapping[str, Any] = (
    {f"recipe_{n}": _uuid(1, n) for n in range(1, 6)}
    | {f"meal_plan_{n}": _uuid(2, n) for n in range(1, 4)}
    | {f"preference_{n}": _uuid(3, n) for n in range(1, 3)}
    | {f"person_{n}": str(_uuid(4, n)) for n in range(1, 4)}
    | {f"box_{n}": _uuid(5, n) for n in range(1, 4)}
    | {f"order_{n}": 770_000_100 + n for n in range(1, 4)}
)

NEW = _uuid(2, 4)
"""The key of a meal plan that a shape inserts: `meal_plan_4`."""

CLASSES = {
    "recipe": Recipe,
    "meal_plan": MealPlan,
    "preference": Preference,
    "person": Person,
    "box": Box,
    "order": Order,
}

DEVICE = uuid.UUID("dea1ce00-0000-4000-8000-000000000001")
"""A UUID that is not a key."""


def fill(engine: Engine) -> None:
    """Insert the rows into empty tables."""
    key = KEYS.__getitem__
    with Session(engine) as session:
        session.add_all(
            [
                Recipe(id=key("recipe_1"), name="A"),
                Recipe(id=key("recipe_2"), name="B", parent_recipe_id=key("recipe_1")),
                Recipe(id=key("recipe_3"), name="recipe_1", parent_recipe_id=key("recipe_1")),
                Recipe(id=key("recipe_4"), name="D", parent_recipe_id=key("recipe_2")),
                Recipe(id=key("recipe_5"), name="E"),
                Box(id=key("box_1"), label="outer"),
                Order(id=key("order_1"), number=1),
                Order(id=key("order_2"), number=2),
                Order(id=key("order_3"), number=3),
                Cook(id=key("person_1"), stars=2),
                Guest(id=key("person_2")),
            ]
        )
        session.flush()
        session.add_all(
            [
                MealPlan(id=key("meal_plan_1"), recipe_id=key("recipe_1"), day=DAY),
                MealPlan(
                    id=key("meal_plan_2"), recipe_id=key("recipe_2"), instead_of=key("recipe_1")
                ),
                MealPlan(
                    id=key("meal_plan_3"), recipe_id=key("recipe_1"), instead_of=key("recipe_5")
                ),
                Preference(
                    id=key("preference_1"),
                    favourites=[key("recipe_1"), key("recipe_2")],
                    device=DEVICE,
                    last_seen=key("recipe_3"),
                ),
                Preference(id=key("preference_2"), favourites=[]),
                Person(id=key("person_3"), kind="person", mentor_id=key("person_1")),
                Box(id=key("box_2"), inside=key("box_1"), label="inner"),
                Box(id=key("box_3"), inside=key("box_1"), label="box_1"),
                OrderLine(order_id=key("order_1"), position=1, note="one"),
                OrderLine(order_id=key("order_1"), position=2, note="two"),
                OrderLine(order_id=key("order_2"), position=1, note="order_1"),
                RecipeNote(recipe_id=key("recipe_1"), note="salt"),
            ]
        )
        session.execute(
            recipe_tags.insert(),
            [
                {"recipe_id": key("recipe_1"), "tag": "quick"},
                {"recipe_id": key("recipe_2"), "tag": "recipe_1"},
            ],
        )
        session.commit()


def mint(conversation: Conversation) -> None:
    """Mint the refs of `KEYS`."""
    for entity, class_ in CLASSES.items():
        named = [ref for ref in KEYS if ref.rpartition("_")[0] == entity]
        given = conversation.refer_all(class_, [KEYS[ref] for ref in named])
        assert given == named


_BY_REF = {**KEYS, "meal_plan_4": NEW}
_REFS = {form(key): ref for ref, key in _BY_REF.items() for form in (lambda key: key, str)}


def shown(value: Any, refer: Callable[[Any], Any] = lambda key: _REFS.get(key, key)) -> Any:
    """Return a value of a plain session as a `RefSession` should return it.

    Instances become dictionaries of their attributes.
    """
    if isinstance(value, list | set | frozenset):
        return [shown(item, refer) for item in value]
    if isinstance(value, tuple | Row):
        return tuple(shown(item, refer) for item in value)
    if isinstance(value, dict):
        return {shown(name, refer): shown(item, refer) for name, item in value.items()}
    state = inspect(value, raiseerr=False)
    if state is not None and hasattr(state, "mapper"):
        names = [attribute.key for attribute in state.mapper.column_attrs]
        return {name: shown(getattr(value, name), refer) for name in names} | {
            "class": type(value).__name__
        }
    return refer(value)


def as_it_is(value: Any) -> Any:
    """Return a value of a `RefSession` in the form of `shown`, with nothing replaced."""
    return shown(value, lambda item: item)
