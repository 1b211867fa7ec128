"""Fill the kitchen's tables with the recipes of a JSON Lines file.

In go an ordinary SQLAlchemy session and a path, out comes how many rows of each kind were
written. Rows go in by bulk insert and the keys come back from Postgres. It never commits: that
is the caller's.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from sqlalchemy import insert
from sqlalchemy.orm import Session

from examples.kitchen import DEMO_USER
from examples.kitchen.ingredients import IngredientLine, catalogue_name, parse_ingredient
from examples.kitchen.models import Ingredient, Preferences, Recipe, RecipeIngredient, User

RECIPES: Final = Path(__file__).parent.parent / "data" / "recipes.jsonl"
ASSUMED_STAPLES: Final = ("salt", "black pepper", "water", "olive oil", "sugar", "flour")
BATCH: Final = 50  # recipes an insert; few enough for the progress bar to move

# the tags of the data that name a cuisine; a recipe's cuisine is the first of its tags in here
CUISINES: Final = (
    """
american, argentinian, asian, australian, austrian, belgian, brazilian, cajun, chinese, danish,
dominican, dutch, english, filipino, finnish, french, galician, german, greek, hungarian, indian,
indonesian, irish, israeli, italian, japanese, lebanese, lithuanian, mediterranean, mexican,
middle eastern, new zealand, palestinian, peruvian, polish, portuguese, romanian, russian,
spanish, swedish, swiss, thai, tunisian, turkish, ukrainian, uzbek, venezuelan, vietnamese
""".replace(",\n", ", ")
    .strip()
    .split(", ")
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """How many rows were written."""

    recipes: int
    ingredients: int
    lines: int


@dataclass(frozen=True, slots=True)
class _Source:
    """A recipe of the file, with its ingredient lines read."""

    recipe: Mapping[str, Any]
    lines: Sequence[IngredientLine]


def load(session: Session, path: Path = RECIPES) -> Loaded:
    """Write all recipes as shared rows, their catalogue of ingredients, and one demo user.

    Args:
        session: Any session on the kitchen's tables, which must be empty.
        path: A file of recipes, one JSON object a line.

    Returns:
        The number of recipes, of catalogue entries and of ingredient lines.
    """
    with path.open(encoding="utf-8") as file:
        sources = [_read(json.loads(line)) for line in file]
    keys = _add_catalogue(session, _spellings(sources))
    _add_demo_user(session, keys)
    starts = range(0, len(sources), BATCH)
    for start in track(starts, "Loading recipes", console=Console(stderr=True)):
        _add_recipes(session, sources[start : start + BATCH], keys)
    return Loaded(len(sources), len(keys), sum(len(source.lines) for source in sources))


def cuisine(tags: Iterable[str]) -> str | None:
    """Return the first tag that names a cuisine."""
    return next((tag for tag in tags if tag in CUISINES), None)


def _read(record: Mapping[str, Any]) -> _Source:
    tags = list(dict.fromkeys(tag.casefold() for tag in record["tags"]))
    recipe = {
        "name": record["name"],
        "description": record["description"],
        "cuisine": cuisine(tags),
        "prep_minutes": record["prep_minutes"],
        "cook_minutes": record["cook_minutes"],
        "servings": record["servings"],
        "instructions": record["directions"],
        "tags": tags,
    }
    return _Source(recipe, [parse_ingredient(line) for line in record["ingredients"]])


def _spellings(sources: Iterable[_Source]) -> dict[str, set[str]]:
    """Collect the catalogue: each name, and how else the recipes spell it."""
    spellings: dict[str, set[str]] = {}
    for line in (line for source in sources for line in source.lines):
        if (name := catalogue_name(line.name)) is not None:
            spellings.setdefault(name, set()).update({line.name.casefold()} - {name})
    return spellings


def _add_catalogue(
    session: Session, spellings: Mapping[str, Iterable[str]]
) -> dict[str, uuid.UUID]:
    """Write the catalogue and return its keys by name."""
    names = session.execute(
        insert(Ingredient).returning(Ingredient.name, Ingredient.id),
        [{"name": name, "aliases": sorted(others)} for name, others in spellings.items()],
    )
    return {name: key for name, key in names}  # noqa: C416  # dict() loses the types


def _add_demo_user(session: Session, keys: Mapping[str, uuid.UUID]) -> None:
    staples = [keys[name] for name in ASSUMED_STAPLES if name in keys]
    session.add(User(name=DEMO_USER, preferences=Preferences(assumed_staples=staples)))
    session.flush()


def _add_recipes(
    session: Session, sources: Sequence[_Source], keys: Mapping[str, uuid.UUID]
) -> None:
    # names repeat, so the keys are matched to the recipes by their order
    written = session.scalars(
        insert(Recipe).returning(Recipe.id, sort_by_parameter_order=True),
        [source.recipe for source in sources],
    )
    rows = [
        _line_row(line, recipe_id, position, keys)
        for recipe_id, source in zip(written, sources, strict=True)
        for position, line in enumerate(source.lines)
    ]
    session.execute(insert(RecipeIngredient), rows)


def _line_row(
    line: IngredientLine, recipe_id: uuid.UUID, position: int, keys: Mapping[str, uuid.UUID]
) -> dict[str, Any]:
    name = catalogue_name(line.name)
    return {
        "recipe_id": recipe_id,
        "ingredient_id": None if name is None else keys[name],
        "name": line.name,
        "quantity": line.quantity,
        "unit": line.unit,
        "position": position,
    }
