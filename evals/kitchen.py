"""The kitchen that the tasks are done in: a few hundred rows, the same in every run.

    kitchen = made_kitchen(engine)
    desk = toolset.bind(kitchen.sessions, registry=registry)
    with kitchen.day() as day:        # a transaction, rolled back at the end
        desk.call("chat-7", kitchen.user, "db_read", {"table": "recipes"})
        day.changes()                       # every row that is another than before

Names are those of the example's recipes, some of them twice and more, as people have it; keys are
UUIDs made from a seed, so that a run can be repeated to the letter.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Engine, insert, text
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefPolicy, RefSession
from examples.kitchen.ingredients import catalogue_name, parse_ingredient
from examples.kitchen.load import RECIPES
from examples.kitchen.models import (
    Base,
    Ingredient,
    MealPlan,
    Recipe,
    RecipeIngredient,
    ShoppingItem,
    User,
)
from examples.kitchen.tools import OWNERSHIP as OWNERSHIP, POLICY as KITCHEN_POLICY

MODELS: Final = (Recipe, RecipeIngredient, Ingredient, MealPlan, ShoppingItem)

# a meal plan has no name; people say when it is
POLICY: Final = RefPolicy(
    labels={**KITCHEN_POLICY.labels, MealPlan: lambda plan: f"{plan.date} {plan.meal_type}"}
)

MONDAY: Final = dt.date(2026, 11, 30)
MEALS: Final = ("breakfast", "lunch", "dinner")
DAYS: Final = 20

OWN: Final = 60  # recipes of the user's
SHARED: Final = 16
OTHERS: Final = 8  # of another user's
TWINS: Final = 3  # recipes that have one name
TWIN_NAMES: Final = 8
LINES: Final = 5  # of each recipe
ITEMS: Final = 60  # on the shopping list

Values = dict[str, Any]
"""A row, by column: as JSON."""

Rows = Mapping[str, Mapping[uuid.UUID, Values]]
"""Rows by table and key."""

Changes = Mapping[tuple[str, uuid.UUID], Values | None]
"""Rows that are new or changed, by table and key; `None` for one that is gone."""

_LONGEST = 25  # characters of an ingredient's name
_EACH_OTHER = 6  # item of a shopping list is another user's

WRITABLE: Final = tuple(each.__tablename__ for each in MODELS if each is not Ingredient)

# a row as JSON; the vectors follow from the rest
_ROW = "to_jsonb(each) - 'embedding' - 'id'"

_ALL = text(" UNION ALL ".join(f"SELECT '{t}', id, {_ROW} FROM {t} AS each" for t in WRITABLE))

# rows that were written by another transaction than the one that filled the kitchen, and the keys
# of those that are gone
_CHANGES = text(
    " UNION ALL ".join(
        f"SELECT '{t}', id, {_ROW} FROM {t} AS each WHERE xmin <> CAST(:filled AS xid) "
        f"UNION ALL SELECT '{t}', key, NULL FROM kept "
        f"WHERE of = '{t}' AND NOT EXISTS (SELECT FROM {t} WHERE id = key)"
        for t in WRITABLE
    )
)


@dataclass(frozen=True, slots=True)
class Day:
    """The kitchen while one task is done: what is written is gone afterwards.

    Attributes:
        connection: in whose transaction it is.
        before: the rows as they were when it began.
        filled: the transaction that wrote those.
    """

    connection: Connection
    before: Rows
    filled: str

    def changes(self) -> Changes:
        """Return every row that is another than when the day began, and those that are gone."""
        found: dict[tuple[str, uuid.UUID], Values | None] = {
            (table, key): values
            for table, key, values in self.connection.execute(_CHANGES, {"filled": self.filled})
        }
        return {at: row for at, row in found.items() if self.before[at[0]].get(at[1]) != row}


@dataclass(frozen=True, slots=True)
class Kitchen:
    """The rows of a fresh kitchen.

    Attributes:
        engine: of its database.
        user: whose kitchen it is.
        rows: all that there is, by table and key, in the order in which it was written.
        names: of ingredients, by key.
        keys: of each table, in the same order.
        filled: the transaction that wrote them.
        sessions: make sessions in the transaction of the day.
    """

    engine: Engine
    user: uuid.UUID
    rows: Rows
    names: Mapping[uuid.UUID, str]
    keys: Mapping[str, Sequence[uuid.UUID]]
    filled: str
    sessions: sessionmaker[RefSession]

    @contextmanager
    def day(self) -> Iterator[Day]:
        """Open a transaction that ends as if nothing had been."""
        with self.engine.connect() as connection:
            transaction = connection.begin()
            self.sessions.configure(bind=connection)
            yield Day(connection, self.rows, self.filled)
            transaction.rollback()


def made_kitchen(engine: Engine, seed: int = 2026) -> Kitchen:
    """Make the tables in an empty database and fill them."""
    chance = random.Random(seed)  # noqa: S311  # no secret
    Base.metadata.create_all(engine)
    written = _written(chance)
    with engine.begin() as connection:
        for model, rows in written.items():
            connection.execute(insert(model), rows)
        connection.execute(text("ANALYZE"))
        keys = {
            model.__tablename__: [row["id"] for row in rows] for model, rows in written.items()
        }
        connection.execute(text("CREATE TABLE kept (of text, key uuid)"))
        kept = [{"of": table, "key": key} for table in WRITABLE for key in keys[table]]
        connection.execute(text("INSERT INTO kept VALUES (:of, :key)"), kept)
        connection.execute(text("ANALYZE"))
        found = {(table, key): values for table, key, values in connection.execute(_ALL)}
        filled = connection.scalar(text("SELECT CAST(xmin AS text) FROM recipes LIMIT 1"))
    return Kitchen(
        engine,
        user=written[User][0]["id"],
        rows={table: {key: found[table, key] for key in keys[table]} for table in WRITABLE},
        names={row["id"]: row["name"] for row in written[Ingredient]},
        keys=keys,
        filled=str(filled),
        sessions=sessionmaker(class_=RefSession, join_transaction_mode="create_savepoint"),
    )


def _key(chance: random.Random) -> uuid.UUID:
    return uuid.UUID(int=chance.getrandbits(128), version=4)


def _written(chance: random.Random) -> dict[type[Any], list[Values]]:
    """Return the rows of each table, those first that others refer to."""
    users: list[Values] = [{"id": _key(chance), "name": name} for name in ("Ada", "Ben")]
    sources = _sources(OWN + SHARED + OTHERS)
    catalogue = _catalogue(chance, sources)
    recipes = _recipes(chance, sources, users)
    chance.shuffle(recipes)
    lines = [line for recipe in recipes for line in _lines(chance, recipe, sources, catalogue)]
    own = [each["id"] for each in recipes if each["user_id"] == users[0]["id"]]
    for recipe in recipes:
        del recipe["source"]
    return {
        User: users,
        Ingredient: [{"id": key, "name": name} for name, key in catalogue.items()],
        Recipe: recipes,
        RecipeIngredient: lines,
        MealPlan: _plans(chance, users[0]["id"], own),
        ShoppingItem: _items(chance, users, catalogue),
    }


def _sources(count: int) -> list[Values]:
    with RECIPES.open(encoding="utf-8") as file:
        return [json.loads(line) for line in islice(file, count)]


def _catalogue(chance: random.Random, sources: Sequence[Values]) -> dict[str, uuid.UUID]:
    names = [
        catalogue_name(parse_ingredient(line).name)
        for source in sources
        for line in source["ingredients"][:LINES]
    ]
    short = sorted({name for name in names if name and name.isascii() and len(name) < _LONGEST})
    chance.shuffle(short)
    return {name: _key(chance) for name in short}


def _recipes(
    chance: random.Random, sources: Sequence[Values], users: Sequence[Values]
) -> list[Values]:
    ada, ben = (user["id"] for user in users)
    owners = [ada] * OWN + [None] * SHARED + [ben] * OTHERS
    return [
        {
            "id": _key(chance),
            "user_id": owner,
            "name": source["name"].strip(),
            "cook_minutes": 10 + 5 * chance.randrange(20),
            "servings": 2 + 2 * nth,
            "tags": source["tags"][:3],
            "source": place,
        }
        for place, (source, owner) in enumerate(zip(sources, owners, strict=True))
        for nth in range(TWINS if place < TWIN_NAMES else 1)
    ]


def _lines(
    chance: random.Random,
    recipe: Values,
    sources: Sequence[Values],
    catalogue: Mapping[str, uuid.UUID],
) -> Iterator[Values]:
    for position, line in enumerate(sources[recipe["source"]]["ingredients"][:LINES]):
        parsed = parse_ingredient(line)
        yield {
            "id": _key(chance),
            "recipe_id": recipe["id"],
            "ingredient_id": catalogue.get(catalogue_name(parsed.name) or ""),
            "name": parsed.name[:40],
            "quantity": parsed.quantity,
            "unit": parsed.unit,
            "position": position,
        }


def _plans(chance: random.Random, user: uuid.UUID, recipes: Sequence[uuid.UUID]) -> list[Values]:
    plans = [
        {
            "id": _key(chance),
            "user_id": user,
            "recipe_id": chance.choice(recipes),
            "date": MONDAY + dt.timedelta(days=day),
            "meal_type": meal,
        }
        for day in range(DAYS)
        for meal in MEALS
    ]
    chance.shuffle(plans)
    return plans


def _items(
    chance: random.Random, users: Sequence[Values], catalogue: Mapping[str, uuid.UUID]
) -> list[Values]:
    names = chance.sample(sorted(catalogue), ITEMS)
    items = [
        {
            "id": _key(chance),
            "user_id": users[int(place % _EACH_OTHER == 0)]["id"],
            "ingredient_id": catalogue[name],
            "name": name,
            "quantity": str(chance.randint(1, 9)),
        }
        for place, name in enumerate(names)
    ]
    chance.shuffle(items)
    return items
