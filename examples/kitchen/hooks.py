"""What a kitchen adds to the tools: hooks for reading by people's words and for enriching writes.

Each class is one idea, put to use in `tools`. Hooks are trusted: they get what a model asked for,
already checked, with the session that answers; what they find and change is in refs, like all that
the session shows. They tell the model what they did, in notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final

from sqlalchemy import any_, exists, func, select

from alfred_refs.tools import (
    DbCreate,
    DbEditList,
    DbRead,
    Filter,
    FilterClause,
    Hooks,
    Reading,
    ToolError,
    Writing,
)
from examples.kitchen.models import Ingredient, Recipe, RecipeIngredient, ShoppingItem
from examples.kitchen.search import SURE, Found, by_meaning, by_name, look_up

Row = dict[str, Any]

MOST_NEAR: Final = 3  # names that a name may stand for


class Meaning(Hooks):
    """Answer a search by meaning: the nearest recipes, nearest first."""

    sql = True  # nothing is hidden

    def before_read(self, read: Reading) -> None:
        """Give the keys of what is near to the text."""
        if read.semantic is None:
            return
        if (near := by_meaning(read.semantic)) is not None:
            # keys, not refs: of those that are near, only what is shown is to be numbered
            read.keys = read.session.scalars(near.execution_options(raw_keys=True)).all()
        if not read.keys:
            read.answer_empty("no recipe is near to that in meaning; filter by name or tags")


class NearlyTheName(Hooks):
    """Take a recipe's name that no recipe has for those that are nearly so."""

    sql = True  # nothing is hidden

    def before_read(self, read: Reading) -> None:
        """Put near names in place of a name without a match."""
        read.arguments = _with_filters(
            read.arguments, [self._matched(each, read) for each in read.arguments.filters]
        )

    def _matched(self, clause: Filter, read: Reading) -> Filter:
        name = _asked(clause, "name")
        if name is None or read.session.scalar(select(exists().where(Recipe.name == name))):
            return clause
        near = read.session.scalars(by_name(name, MOST_NEAR)).all()
        if not near:
            return clause
        read.notes.append(f"no recipe is named {name!r}; these are nearly: {_listed(near)}")
        return FilterClause(field="name", op="in", value=list(near))


class WithChildren(Hooks):
    """Show related rows inside a row that is read by itself.

    Args:
        relationship: to them.
    """

    sql = True

    def __init__(self, relationship: str) -> None:
        self._relationship = relationship

    def before_read(self, read: Reading) -> None:
        """Include them where one row is asked for, and not which columns."""
        one = any(_asked(each, "id") is not None for each in read.arguments.filters)
        if one and read.arguments.columns is None:
            read.include.append(self._relationship)


class TotalTime(Hooks):
    """Add up the minutes of a recipe, which models do badly."""

    totals = sql = True  # nothing is hidden

    def after_read(self, read: Reading, rows: list[Row]) -> None:  # noqa: ARG002
        """Put the sum beside its parts, where both are shown."""
        for row in rows:
            minutes = [row.get("prep_minutes"), row.get("cook_minutes")]
            if None not in minutes:
                row["total_minutes"] = sum(minutes)


class Weekday(Hooks):
    """Say on which day of the week a meal is planned, which models do badly."""

    totals = sql = True

    def after_read(self, read: Reading, rows: list[Row]) -> None:  # noqa: ARG002
        """Put the day beside its date."""
        self._add(rows)

    def after_write(self, write: Writing, rows: list[Row]) -> None:  # noqa: ARG002
        """Put it there in what was written too."""
        self._add(rows)

    def _add(self, rows: list[Row]) -> None:
        for row in rows:
            if row.get("date") is not None:
                row["weekday"] = date.fromisoformat(row["date"]).strftime("%A")


class CatalogueWords(Hooks):
    """Take what people call an ingredient for the catalogue's word: "Onions" for "onion".

    Args:
        field: where a filter names an ingredient, seen from the class that is read.
    """

    sql = True

    def __init__(self, field: str) -> None:
        self._field = field

    def before_read(self, read: Reading) -> None:
        """Put the catalogue's word in place of another one that means it for sure."""
        read.arguments = _with_filters(
            read.arguments, [self._meant(each, read) for each in read.arguments.filters]
        )

    def _meant(self, clause: Filter, read: Reading) -> Filter:
        if (said := _asked(clause, self._field)) is None:
            return clause
        with read.session.raw_keys():  # its name is wanted, and no ref
            [found] = look_up(read.session, [said])
        if found is None or found.name == said or found.confidence < SURE:
            return clause
        read.notes.append(f"{said!r} is {found.name!r} in the catalogue")
        return FilterClause(field=self._field, op="=", value=found.name)


class Aliases(Hooks):
    """Answer a question for an ingredient by another of its names with that ingredient too."""

    sql = True  # nothing is hidden

    def before_read(self, read: Reading) -> None:
        """Let rows be read that have the name among their aliases."""
        if read.arguments.or_filters or len(read.arguments.filters) != 1:
            return  # what is let in need not meet the others
        if (name := _asked(read.arguments.filters[0], "name")) is not None:
            read.or_conditions.append(any_(Ingredient.aliases) == name.casefold())


class StillToBuy(Hooks):
    """Leave out of the shopping list what is bought, unless a model asks for that."""

    sql = True  # a model may see all of it, and says in SQL itself what it wants

    def before_read(self, read: Reading) -> None:
        """Read the rest only, where no filter is on it."""
        if all(clause.field != "bought" for clause in read.clauses()):
            read.conditions.append(ShoppingItem.bought.is_(False))
            read.notes.append("what is bought is left out; filter by bought to see it")


class InCatalogue(Hooks):
    """Point a written line to the ingredient that its free text means, if that is sure."""

    def before_write(self, write: Writing) -> None:
        """Give records with a name, and without an ingredient, the ingredient of that name."""
        named = [each for each in write.records if _lacks(each, "ingredient_id", "name")]
        found = look_up(write.session, [record["name"] for record in named])
        for record, likeliest in zip(named, found, strict=True):
            if likeliest is not None and likeliest.confidence >= SURE:
                record["ingredient_id"] = likeliest.id  # a ref, as the session shows it
            else:
                write.notes.append(_not_sure(record["name"], likeliest))


class AtTheEnd(Hooks):
    """Put new lines of a recipe after those it has, where a model does not say the place."""

    def before_write(self, write: Writing) -> None:
        """Give them the next numbers, in their own order."""
        placeless = [each for each in write.records if _lacks(each, "position", "recipe_id")]
        if write.verb != "create" or not placeless:
            return
        recipes = {record["recipe_id"] for record in placeless} - write.drafts.keys()
        line = RecipeIngredient
        last = select(line.recipe_id, func.max(line.position)).group_by(line.recipe_id)
        rows = write.session.execute(last.where(line.recipe_id.in_(recipes)))
        places = Counter({str(recipe): place + 1 for recipe, place in rows})
        # of recipes that are saved in the same call: after the lines inside them
        places.update({ref: _places_in(content) for ref, content in write.drafts.items()})
        for record in placeless:
            record["position"] = places[record["recipe_id"]]
            places[record["recipe_id"]] += 1


class SharedIsForAll(Hooks):
    """Refuse to change or delete a recipe that all share, and say what can be done instead."""

    def before_write(self, write: Writing) -> None:
        """Look whether a row that is named by its ref is shared."""
        if isinstance(write.arguments, DbCreate | DbEditList):
            return  # of a list that is not the user's the tool itself says that it cannot change
        named = [ref for each in write.arguments.filters for ref in _asked_all(each, "id")]
        shared = select(Recipe.id).where(Recipe.id.in_(named), Recipe.user_id.is_(None))
        if named and (ref := write.session.scalar(shared.order_by(Recipe.name))):
            raise ToolError(
                "shared_recipe",
                f"{ref!r} is shared by all and cannot be changed; create a recipe of the user's "
                f"own with parent_recipe_id {ref!r}, and change that",
                ref=ref,
                create={"parent_recipe_id": ref},
            )


class StillEmpty(Hooks):
    """Remind of the lines of a recipe that was just created."""

    def after_write(self, write: Writing, rows: list[Row]) -> None:
        """Say where they go, if the call has brought none."""
        if write.verb != "create":
            return
        of_rows = Recipe.id.in_([row["id"] for row in rows])
        empty = write.session.scalars(select(Recipe.id).where(of_rows, ~Recipe.ingredients.any()))
        if refs := sorted(map(str, empty), key=[row["id"] for row in rows].index):
            note = f"no ingredients yet: create recipe_ingredients for {_listed(refs)}"
            write.notes.append(note)


def _asked(clause: Filter, field: str) -> str | None:
    """Return the text that a filter wants a field to be, if it is such a filter."""
    if not isinstance(clause, FilterClause) or (clause.field, clause.op) != (field, "="):
        return None
    return clause.value if isinstance(clause.value, str) else None


def _asked_all(clause: Filter, field: str) -> list[str]:
    """Return the texts of which a filter wants a field to be one."""
    if isinstance(clause, FilterClause) and (clause.field, clause.op) == (field, "in"):
        return [each for each in clause.value if isinstance(each, str)]
    one = _asked(clause, field)
    return [] if one is None else [one]


def _with_filters(arguments: DbRead, filters: Sequence[Filter]) -> DbRead:
    return arguments.model_copy(update={"filters": filters})


def _lacks(record: Row, wanted: str, given: str) -> bool:
    return record.get(wanted) is None and record.get(given) is not None


def _places_in(recipe: Mapping[str, Any]) -> int:
    """Return the first place after the lines inside a draft of a recipe."""
    lines = recipe.get("ingredients") or []
    given = [line.get("position") for line in lines if isinstance(line, Mapping)]
    places: list[int] = [place + 1 for place in given if place is not None]
    return max([len(lines), *places])


def _not_sure(name: str, likeliest: Found | None) -> str:
    if likeliest is None:
        return f"{name!r} names no ingredient of the catalogue"
    return (
        f"{name!r} is not for sure in the catalogue; if {likeliest.name!r} is meant, "
        f"update ingredient_id to {str(likeliest.id)!r}"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
