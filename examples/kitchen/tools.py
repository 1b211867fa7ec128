"""The kitchen's tools: what a model may call, on which tables, for whom.

`kitchen_tools()` makes the toolset, once for an application. The catalogue of ingredients is read
only; recipes without a user are read by all, and changed by nobody. By position are edited
a recipe's steps (`instructions`), its `ingredients`, and a week of meals in the preferences of the
user (`settings.week.meals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from alfred_refs import Ownership, RefPolicy
from alfred_refs.tools import Hooks, Toolset
from examples.kitchen import hooks
from examples.kitchen.models import (
    Ingredient,
    MealPlan,
    Preferences,
    Recipe,
    RecipeIngredient,
    ShoppingItem,
    User,
)

# what people call a row; the models do not know of refs
POLICY: Final = RefPolicy(
    labels=dict.fromkeys([User, Recipe, Ingredient, RecipeIngredient, ShoppingItem], "name")
)

Verb = Literal["create", "update", "delete"]

# whose rows are whose
OWNERSHIP: Final = Ownership(
    {
        User: "id",
        Recipe: "user_id",
        RecipeIngredient: "recipe",
        MealPlan: "user_id",
        ShoppingItem: "user_id",
        Preferences: "user_id",
    },
    shared=[Recipe],
    open=[Ingredient],
)

# what the kitchen adds to the verbs
HOOKS: Final[Mapping[type[Any], Sequence[Hooks]]] = {
    Recipe: [
        hooks.Meaning(),
        hooks.NearlyTheName(),
        hooks.CatalogueWords("ingredients.ingredient.name"),
        hooks.WithChildren("ingredients"),
        hooks.TotalTime(),
        hooks.SharedIsForAll(),
        hooks.StillEmpty(),
    ],
    RecipeIngredient: [
        hooks.CatalogueWords("ingredient.name"),
        hooks.InCatalogue(),
        hooks.AtTheEnd(),
    ],
    Ingredient: [hooks.Aliases()],
    MealPlan: [hooks.Weekday()],
    ShoppingItem: [hooks.StillToBuy(), hooks.InCatalogue()],
}


def kitchen_tools(
    expect: Literal["required", "optional"] = "required",
    consent: Mapping[type[Any], Sequence[Verb]] | None = None,
) -> Toolset:
    """Return the toolset of the kitchen.

    Args:
        expect: whether writes must give the labels of the rows that they name.
        consent: which writes a person must approve, by class; none without it.
    """
    return Toolset(
        models=[Recipe, RecipeIngredient, Ingredient, MealPlan, ShoppingItem, Preferences],
        owner=OWNERSHIP,
        policy=POLICY,
        read_only=[Ingredient],
        verbs={Preferences: ["update"]},
        hidden=[Recipe.embedding],
        hooks=HOOKS,
        deduplicate={RecipeIngredient: ("recipe_id", "ingredient_id")},
        expect=expect,
        consent=consent,
    )
