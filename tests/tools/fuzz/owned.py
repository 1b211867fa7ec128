"""Calls on behalf of one owner, whose model knows the refs of another's rows: none is touched."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Engine, inspect, select, text
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset
from tests import owned
from tests.owned import Cat, Dog, Ingredient, Line, Plan, Recipe, Remark, Shelf, User
from tests.tools.fuzz.calls import Caller
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.mutations import Mutator

MODELS = {
    "recipes": Recipe,
    "lines": Line,
    "remarks": Remark,
    "plans": Plan,
    "ingredients": Ingredient,
    "users": User,
    "dogs": Dog,
    "cats": Cat,
    "shelves": Shelf,
}

OTHER = "bob"
"""In every text of the other owner's."""

# all rows that are not the owner's to write, and what of the owner's refers to what is not to see
_OTHERS = text("""
    SELECT 'recipe', r::text FROM recipes r WHERE user_id IS DISTINCT FROM :me
    UNION ALL SELECT 'line', l::text FROM lines l LEFT JOIN recipes r ON r.id = l.recipe_id
        WHERE r.user_id IS DISTINCT FROM :me
    UNION ALL SELECT 'remark', m::text FROM remarks m JOIN lines l ON l.id = m.line_id
        LEFT JOIN recipes r ON r.id = l.recipe_id WHERE r.user_id IS DISTINCT FROM :me
    UNION ALL SELECT 'plan', p::text FROM plans p WHERE user_id IS DISTINCT FROM :me
    UNION ALL SELECT 'animal', a::text FROM animals a WHERE user_id <> :me
    UNION ALL SELECT 'dog', d::text FROM dogs d JOIN animals a USING (id) WHERE user_id <> :me
    UNION ALL SELECT 'shelf', s::text FROM shelves s WHERE user_id <> :me
    UNION ALL SELECT 'user', u::text FROM users u WHERE id <> :me
    UNION ALL SELECT 'plan of ', p::text FROM plans p JOIN recipes r ON r.id = p.recipe_id
        WHERE p.user_id = :me AND r.user_id <> :me
    UNION ALL SELECT 'child of', c::text FROM recipes c JOIN recipes r ON r.id = c.parent_id
        WHERE c.user_id = :me AND r.user_id <> :me
    ORDER BY 1, 2
""")


class OwnedRound:
    """Calls of one owner's model.

    Args:
        engine: of a database with the owned tables, empty.
        seed: of all choices.
        found: what calls came to; grows.
    """

    def __init__(self, engine: Engine, seed: int, found: Found) -> None:
        self._engine = engine
        self._name = f"owned {seed}"
        self._found = found
        self._chance = random.Random(self._name)  # noqa: S311  # choices, not secrets
        self._keys = {who: uuid.UUID(int=self._chance.getrandbits(128)) for who in ("ann", OTHER)}
        with Session(engine) as plain:
            self._fill(plain)
            plain.commit()
        registry = RefRegistry(store=MemoryStore())
        self._conversation = registry.conversation(self._name, owner=self._keys["ann"])
        rules = owned.ownership()
        self._owner = rules.of(self._keys["ann"])
        self._toolset = Toolset(MODELS, owner=rules, expect="optional")
        self._caller = Caller(self._chance, list(self._toolset.tables), self._refs)
        self._meet()
        self._before = self._others()

    def run(self, calls: int) -> None:
        """Make calls."""
        mutator = Mutator(self._chance, self._bad)
        session = RefSession(self._engine, conversation=self._conversation, owner=self._owner)
        for number in range(calls):
            tool, arguments = self._caller.call()
            if self._chance.random() < 0.4:
                arguments = mutator.mutated(arguments)
            for wrong in self._wrongs(session, tool, arguments):
                self._found.tell(f"{self._name} #{number}", wrong, tool, arguments)
        session.close()

    def _wrongs(self, session: RefSession, tool: str, arguments: Any) -> Iterator[str]:
        try:
            answer = self._toolset.call(session, tool, arguments)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a find
            session.rollback()
            yield f"raised {type(error).__name__}: {str(error)[:300]}"
            return
        self._found.count("owned", tool, answer)
        self._caller.see(tool, answer)
        if OTHER in json.dumps(answer, allow_nan=False):
            yield "a row of another owner's is shown"
        if "error" not in answer and "user_id" in json.dumps(answer):
            yield "the owner is shown"
        others = self._others()
        if others != self._before:
            self._before = others
            yield "rows of another owner's have changed"

    def _fill(self, plain: Session) -> None:
        plain.add_all([User(id=key, name=who) for who, key in self._keys.items()])
        salt = Ingredient(id=self._key(), name="salt")
        plain.add(salt)
        plain.flush()
        for place, (who, key) in enumerate([*self._keys.items(), ("all", None)]):
            for n in range(3):
                recipe = Recipe(id=self._key(), user_id=key, name=f"{who} {n}", tags=[salt])
                line = Line(id=self._key(), recipe=recipe, text=f"{who} line {n}", ingredient=salt)
                remark = Remark(id=self._key(), line=line, text=f"{who} remark {n}")
                plain.add_all([recipe, remark])
                if key is not None:
                    plan = Plan(id=self._key(), user_id=key, recipe=recipe, code=f"{who} {n}")
                    dog = Dog(id=self._key(), user_id=key, name=f"{who}'s dog {n}")
                    cat = Cat(id=self._key(), user_id=key, name=f"{who}'s cat {n}")
                    plain.add_all([plan, dog, cat, Shelf(room=place, place=n, user_id=key)])
                plain.flush()

    def _key(self) -> uuid.UUID:
        return uuid.UUID(int=self._chance.getrandbits(128))

    def _meet(self) -> None:
        """Mint a ref for every row, whosever it is."""
        for model in MODELS.values():
            primary = inspect(model).mapper.primary_key
            with Session(self._engine) as plain:
                keys = plain.execute(select(*primary).order_by(*primary)).all()
            self._conversation.refer_all(model, [tuple(k) if len(k) > 1 else k[0] for k in keys])

    def _others(self) -> list[Any]:
        with self._engine.connect() as connection:
            return list(connection.execute(_OTHERS, {"me": self._keys["ann"]}))

    def _refs(self, entity: str) -> Sequence[str]:
        entries = self._conversation.entries(entity) if entity else []  # links have no refs
        return [entry.ref for entry in entries if entry.gone is None]

    def _bad(self) -> Sequence[str]:
        return [*self._refs("recipe"), *self._refs("line"), str(self._keys[OTHER]), "user_1"]
