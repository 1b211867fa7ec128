"""Find recipes and ingredients by people's own words: by meaning, by nearly the name, by a line.

In go texts; out come ordinary statements, to be executed in any session, and for ingredient lines
the catalogue's rows with a confidence from 0 to 1. Nothing is written.

Meaning is the nearness of vectors (pgvector), nearly a name that of their letters (pg_trgm).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from sqlalchemy import ARRAY, Select, Text, any_, case, cast, column, func, select, true
from sqlalchemy.orm import Session

from examples.kitchen.embedding import embed
from examples.kitchen.ingredients import catalogue_name, parse_ingredient
from examples.kitchen.models import Ingredient, Recipe

LEAST_MEANING: Final = 0.3  # cosine of two vectors; below it words agree by chance
LEAST_NAME: Final = 0.4  # trigrams in common; "Shepards Pie" and "Shepherd's Pie" have 0.42
SURE: Final = 0.55  # confidence from which a line means a row; of "oyster" for "mystery sauce" 0.5
MOST: Final = 10  # rows of an answer


class Found(NamedTuple):
    """The catalogue's row that a line is most likely to mean."""

    id: uuid.UUID
    name: str
    confidence: float


def by_meaning(text: str, most: int = MOST) -> Select[Any] | None:
    """Return a statement for the recipes nearest in meaning, nearest first; without words none."""
    if (vector := embed(text)) is None:
        return None
    distance = Recipe.embedding.cosine_distance(vector)
    near = select(Recipe.id).where(distance <= 1 - LEAST_MEANING)
    return near.order_by(distance, Recipe.name).limit(most)


def by_name(name: str, most: int = MOST) -> Select[Any]:
    """Return a statement for names of recipes that are nearly this one, most alike first."""
    # alone, the first misses "risotto", and the second takes any "hamburger" for "hamburger patty"
    whole = func.similarity(Recipe.name, name)
    part = func.strict_word_similarity(name, Recipe.name)
    likeness = (whole + part) / 2
    near = select(Recipe.name).where(likeness >= LEAST_NAME).group_by(Recipe.name)
    return near.order_by(likeness.desc(), Recipe.name).limit(most)


def look_up(session: Session, lines: Iterable[str]) -> list[Found | None]:
    """Return for each ingredient line the likeliest row of the catalogue, in one statement.

    Args:
        session: reads the catalogue.
        lines: free text, `"2 cups chopped Onions"`.
    """
    names = [catalogue_name(parse_ingredient(line).name) for line in lines]
    asked = sorted({name for name in names if name is not None})
    if not asked:
        return [None] * len(names)
    found = {name: Found(*row) for name, *row in session.execute(_likeliest(asked))}
    return [found.get(name or "") for name in names]


def _likeliest(names: list[str]) -> Select[Any]:
    """Return a statement for names, each with the row that is most like it."""
    unnested = func.unnest(cast(names, ARRAY(Text)))
    asked = unnested.table_valued(column("name", Text)).render_derived("asked")
    likeness = case(
        (Ingredient.name == asked.c.name, 1.0),
        (asked.c.name == any_(Ingredient.aliases), 1.0),
        else_=func.similarity(Ingredient.name, asked.c.name),
    )
    best = (
        select(Ingredient.id, Ingredient.name, likeness.label("confidence"))
        .order_by(likeness.desc(), Ingredient.name)
        .limit(1)
        .lateral("best")
    )
    return select(asked, best).join_from(asked, best, true())
