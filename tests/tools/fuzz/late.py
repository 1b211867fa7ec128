"""Calls that are refused late: when rows were looked at, flushed, or sent to the database."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from alfred_refs import Conversation
from tests.tools.fuzz.calls import Arguments
from tests.tools.models import Cuisine, Dish

Call = tuple[str, Arguments]


class Late:
    """Makes calls that are refused late, and calls that save drafts.

    Args:
        chance: what all choices are made by.
        conversation: that keeps the drafts.
        engine: of the application's tables.
        refs: gives the refs of an entity that are living.

    Attributes:
        saved: drafts that are known to be saved.
    """

    def __init__(
        self,
        chance: random.Random,
        conversation: Conversation,
        engine: Engine,
        refs: Callable[[str], Sequence[str]],
    ) -> None:
        self._chance = chance
        self._conversation = conversation
        self._engine = engine
        self._refs = refs
        self.saved: set[str] = set()

    def call(self) -> Call:
        """Return the name of a tool, and arguments."""
        ways = [self._good, self._good, self._again, self._gone_child, self._gone_child]
        ways += [self._draft_conflict, self._check, self._second, self._also, self._expect]
        ways += [self._conflict, self._delete, self._statement]
        return self._chance.choice(ways)()

    def _draft(self, content: Arguments) -> str:
        return self._conversation.draft(Dish, content).ref

    def _save(self, content: Arguments, **more: Any) -> Call:
        return "db_create", {"table": "dishes", "from_draft": self._draft(content), **more}

    def _good(self) -> Call:
        parts = [{"note": "x"}, {"note": "rice", "position": 2}]
        return self._save({"name": "drafted", "parts": parts[: self._chance.randrange(3)]})

    def _again(self) -> Call:
        """Save a draft that is saved already, if there is one."""
        if not self.saved:
            return self._good()
        ref = self._chance.choice(sorted(self.saved))
        return "db_create", {"table": "dishes", "from_draft": ref}

    def _gone_child(self) -> Call:
        """Save a draft with a row inside that refers to one which is gone meanwhile."""
        with Session(self._engine) as plain:
            cuisine = Cuisine(name=f"gone {self._chance.random()}")
            plain.add(cuisine)
            plain.flush()
            key = cuisine.id
            plain.commit()
            gone = self._conversation.refer(Cuisine, key)
            ref = self._draft({"name": "x", "parts": [{"note": "x", "cuisine_id": gone}]})
            plain.execute(delete(Cuisine).where(Cuisine.id == key))
            plain.commit()
        return "db_create", {"table": "dishes", "from_draft": ref}

    def _draft_conflict(self) -> Call:
        return self._save({"name": "x", "code": f"c{self._chance.randrange(8)}"})

    def _check(self) -> Call:
        return self._save({"name": "x", "servings": -1})

    def _second(self) -> Call:
        """Create rows of which the last is refused."""
        wrong: list[Arguments] = [{"servings": -1}, {"code": "c1"}, {"cuisine_id": "cuisine_99"}]
        bad = self._chance.choice(wrong)
        rows = [{"name": "first"}, {"name": "second", **bad}]
        return "db_create", {"table": "dishes", "data": rows}

    def _also(self) -> Call:
        """Save a draft with rows beside it of which one is refused."""
        cuisines = [{"name": "new"}, {"name": self._chance.choice(["Thai", "other"])}]
        also = [{"table": "cuisines", "data": cuisines[: self._chance.randrange(1, 3)]}]
        return self._save({"name": "with others"}, also=also)

    def _expect(self) -> Call:
        expect = self._chance.choice(["nobody", {"name": "nobody"}, {"servings": 99}])
        return "db_update", {**self._some(2), "data": {"name": "other"}, "expect": expect}

    def _conflict(self) -> Call:
        return "db_update", {**self._some(2), "data": {"code": "same"}}

    def _delete(self) -> Call:
        return "db_delete", self._some(3)

    def _statement(self) -> Call:
        """Change a row so that the database refuses the statement itself."""
        long = "".join(self._chance.choices("abcdefghijklmnop0123456789", k=9_000))
        data = self._chance.choice([{"price": 10**7}, {"price": 1e300}, {"servings": -5}])
        if self._chance.random() < 0.2:  # too long for its index
            return "db_create", {"table": "cuisines", "data": {"name": long}}
        return "db_update", {**self._some(1), "data": data}

    def _some(self, count: int) -> Arguments:
        living = list(self._refs("dish")) or ["dish_1"]
        refs = self._chance.sample(living, min(count, len(living)))
        return {"table": "dishes", "filters": [{"field": "id", "op": "in", "value": refs}]}
