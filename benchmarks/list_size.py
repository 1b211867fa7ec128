"""A list in a prompt, with positions, refs or keys beside its items, and the call that edits it.

    list_forms(engine)["ingredients"]["keys"]     # the items, and a call that drops two of them

The lists are a recipe's steps, an array, and its ingredient lines, which are rows, as
`db_edit_list` shows them. Items of an array have no ids: they are given some, to be compared. An
array of which items are named by nothing is written anew as a whole. Rows are shown with both,
their positions and their refs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Toolset
from examples.kitchen.models import Recipe, RecipeIngredient
from examples.kitchen.tools import POLICY

ITEMS: Final = 30

_SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835  # digits as of a key that is made by chance

_DROPPED, _MOVED = ("3", "5"), "12"

Form = tuple[Any, Mapping[str, Any]]
"""What is shown of a list, and the call that edits it."""


def list_forms(engine: Engine) -> dict[str, dict[str, Form]]:
    """Return each list in each form.

    Args:
        engine: of a loaded kitchen, in which a recipe is added.
    """
    toolset = Toolset(
        [Recipe, RecipeIngredient],
        hidden=[RecipeIngredient.ingredient_id],
        policy=POLICY,
        labels="none",
    )
    conversation = RefRegistry(engine, policy=POLICY).conversation("json-size of lists")
    row = conversation.refer(Recipe, _add_recipe(engine))
    found = {}
    for name in ("instructions", "ingredients"):
        asked = {"table": "recipes", "row": row, "list": name}
        with RefSession(engine, conversation=conversation) as session:
            answer = toolset.call(session, "db_edit_list", {**asked, "preview": True})
        found[name] = _forms(asked, answer["items"])
    return found


def _forms(asked: Mapping[str, Any], items: Mapping[str, Any]) -> dict[str, Form]:
    bare, beside, more = items, items, dict[str, Form]()
    by_position = _call(asked, {n: {"path": [int(n)]} for n in items})
    if asked["list"] == "instructions":
        beside = {n: {"id": f"step_{n}", "text": text} for n, text in items.items()}
        more["nothing"] = [*items.values()], _anew(asked, items)
    else:
        bare = {n: {k: v for k, v in item.items() if k != "id"} for n, item in items.items()}
        more["positions and refs"] = items, by_position
    refs = {n: item["id"] for n, item in beside.items()}
    keys = {ref: str(UUID(int=int(n) * _SPREAD % 2**128)) for n, ref in refs.items()}
    keys[asked["row"]] = str(UUID(int=_SPREAD))
    by_ref = [*beside.values()], _call(asked, {n: {"ref": ref} for n, ref in refs.items()})
    return {
        "positions": (bare, by_position),
        "refs": by_ref,
        "keys": _replaced(by_ref, keys),
        **more,
    }


def _call(asked: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a call that drops two items and moves a third to the front."""
    edits = [{"action": "remove", **named[each]} for each in _DROPPED]
    return {**asked, "edits": [*edits, {"action": "move", **named[_MOVED], "to": 1}]}


def _anew(asked: Mapping[str, Any], items: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a call that writes the list as it is then."""
    left = [text for n, text in items.items() if n not in (*_DROPPED, _MOVED)]
    return {
        "table": asked["table"],
        "filters": [{"field": "id", "op": "=", "value": asked["row"]}],
        "data": {asked["list"]: [items[_MOVED], *left]},
    }


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a JSON value with other texts in the place of some."""
    if isinstance(value, dict):
        return {name: _replaced(each, texts) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replaced(each, texts) for each in value)
    return texts.get(value, value) if isinstance(value, str) else value


def _add_recipe(engine: Engine) -> UUID:
    """Add a recipe of as many steps and lines of others, and return its key."""
    line = RecipeIngredient
    with Session(engine) as plain, plain.begin():
        steps = plain.scalars(select(Recipe.instructions).order_by(Recipe.name)).all()
        of_lines = select(line.name, line.quantity, line.unit).where(line.quantity.is_not(None))
        found = plain.execute(of_lines.distinct().order_by(line.name, line.quantity, line.unit))
        lines = found.mappings().all()
        recipe = Recipe(name="Of thirty", instructions=[*chain(*steps)][:ITEMS])
        recipe.ingredients = [line(**each) for each in lines[:: len(lines) // ITEMS][:ITEMS]]
        plain.add(recipe)
        plain.flush()
        key: UUID = recipe.id
        return key
