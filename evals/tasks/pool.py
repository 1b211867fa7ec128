"""What tasks are made of: rows of the kitchen, chosen by chance."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evals.clerk import Clerk
from evals.ends import End
from evals.kitchen import DAYS, MONDAY, Kitchen, Values
from evals.steps import GivesUp, Program, Row

_AFTER: Final = MONDAY + dt.timedelta(days=DAYS)  # nothing is planned from then on

Found = tuple[uuid.UUID, Values]
"""A row with its key."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a family makes of chance.

    Attributes:
        turns: what the user says.
        program: how the scripted model does it.
        end: how it must leave the kitchen.
        drafts: contents of recipes that are there as drafts when it begins.
    """

    turns: Sequence[str]
    program: Callable[[Clerk], Program]
    end: End
    drafts: Sequence[Values] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to be done.

    Attributes:
        family: of which it is.
        number: by which it is made, in that family.
        turns: what the user says.
        program: how the scripted model does it.
        end: how it must leave the kitchen.
        drafts: contents of recipes that are there as drafts when it begins.
    """

    family: str
    number: int
    turns: Sequence[str]
    program: Callable[[Clerk], Program]
    end: End
    drafts: Sequence[Values] = ()

    @property
    def name(self) -> str:
        """What it is called in results."""
        return f"{self.family}-{self.number}"


@dataclass(frozen=True, slots=True)
class Pool:
    """Chooses for one task.

    Attributes:
        kitchen: whose rows there are.
        chance: decides.
    """

    kitchen: Kitchen
    chance: random.Random

    @property
    def user(self) -> str:
        """The key of the user, as rows have it."""
        return str(self.kitchen.user)

    def recipes(self, count: int, *, twins: bool = False) -> list[Found]:
        """Return recipes of the user's that have a name alone, or share it with others."""
        recipes = self.kitchen.rows["recipes"]
        counts = Counter(row["name"] for row in recipes.values())
        own = [
            (key, row)
            for key, row in recipes.items()
            if row["user_id"] == self.user and (counts[row["name"]] > 1) is twins
        ]
        return self.chance.sample(own, count)

    def items(self, count: int) -> list[Found]:
        """Return items of the user's shopping list."""
        rows = self.kitchen.rows["shopping_list"].items()
        own = [each for each in rows if each[1]["user_id"] == self.user]
        return self.chance.sample(own, count)

    def planned(self) -> Found:
        """Return a planned meal."""
        return self.chance.choice([*self.kitchen.rows["meal_plans"].items()])

    def planned_alike(self) -> tuple[str, list[uuid.UUID]]:
        """Return the name of a planned recipe that has it alone, and all plans of it."""
        recipes = [*self.kitchen.rows["recipes"].values()]
        names = Counter(row["name"] for row in recipes)
        plans = self.kitchen.rows["meal_plans"].items()
        alone = sorted({name for _, plan in plans if names[name := self.name_of(plan)] == 1})
        chosen = self.chance.choice(alone)
        return chosen, [key for key, plan in plans if self.name_of(plan) == chosen]

    def ingredients(self, count: int) -> list[tuple[uuid.UUID, str]]:
        """Return keys and names of ingredients."""
        return self.chance.sample([*self.kitchen.names.items()], count)

    def free_days(self, count: int) -> list[str]:
        """Return days on which nothing is planned."""
        days = self.chance.sample(range(60), count)
        return [(_AFTER + dt.timedelta(days=day)).isoformat() for day in days]

    def plan(self, recipe: uuid.UUID | str, day: str, meal: str) -> tuple[str, Values]:
        """Return a new planned meal, with its table."""
        values = {"user_id": self.user, "recipe_id": str(recipe), "date": day, "meal_type": meal}
        return "meal_plans", values

    def name_of(self, plan: Values) -> str:
        """Return the name of what is planned."""
        return str(self.kitchen.rows["recipes"][uuid.UUID(plan["recipe_id"])]["name"])

    def is_alone(self, plan: uuid.UUID) -> bool:
        """Tell whether what is planned there has another name than all else on that day."""
        plans = self.kitchen.rows["meal_plans"]
        same = [each for each in plans.values() if each["date"] == plans[plan]["date"]]
        return [*map(self.name_of, same)].count(self.name_of(plans[plan])) == 1


def only(rows: Sequence[Row], **values: Any) -> Row:
    """Return the row with these values among those that were read.

    Raises:
        GivesUp: there is none.
    """
    for row in rows:
        if all(row.values.get(name) == value for name, value in values.items()):
            return row
    raise GivesUp
