"""Drafts that calls may name, some discarded or saved, and what must not become of them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from alfred_refs import Conversation
from alfred_refs.mapping.keys import parse_ref
from alfred_refs.tools.tables import ToolTable
from tests.models import Recipe
from tests.tools.fuzz.judge import Judge, UnsureError, filters_of
from tests.tools.models import Cuisine, Dish, Part

Held = Mapping[str, tuple[str, str]]
"""What drafts hold, by ref: the state, and the content as text."""

_CONTENTS: Sequence[tuple[type[Any], Mapping[str, Any]]] = [
    (Dish, {"name": "Korma", "servings": 2, "tags": ["hot"], "extra": {"kcal": 1}}),
    (Dish, {"parts": [{"note": "rice"}, {"note": "x", "position": 2}], "is_vegan": True}),
    (Dish, {"name": "50%_off", "spice": -1, "course": "MAIN", "price": "2.25"}),
    (Cuisine, {"name": "Korma"}),
    (Part, {"note": "rice", "position": 1}),
    (Recipe, {"name": "A"}),
]


class Drafts:
    """The drafts of one round.

    Args:
        conversation: that keeps them.
        chance: what all choices are made by.
    """

    def __init__(self, conversation: Conversation, chance: random.Random) -> None:
        self._conversation = conversation
        self._chance = chance
        self._refs: dict[str, list[str]] = {}
        self._taken: list[Any] = []  # keys of what drafts are saved as

    def make(self, dishes: Mapping[str, Any]) -> None:
        """Make drafts: some more, one that is discarded, and one that is saved as a dish.

        Args:
            dishes: keys of dishes that may be one, by their refs.
        """
        for model, content in _CONTENTS:
            more: dict[str, Any] = {}
            if model is Dish and dishes:
                ref = self._chance.choice([*dishes])
                more = {"code": f"like {dishes[ref]}"[:5], "parent_id": ref}
                more |= {"extra": {"of": str(dishes[ref])}} if self._chance.random() < 0.5 else {}
            self._keep(self._conversation.draft(model, {**content, **more}).ref)
        self._conversation.discard_drafts([self._keep(self._conversation.draft(Dish, {}).ref)])
        free = [key for key in dishes.values() if key not in self._taken]
        if free:
            saved = self._keep(self._conversation.draft(Dish, {"name": "saved"}).ref)
            self._taken.append(self._chance.choice(free))
            self._conversation.reserve_keys({saved: self._taken[-1]})
            self._conversation.confirm_drafts([saved])

    def _keep(self, ref: str) -> str:
        parsed = parse_ref(ref)
        assert parsed is not None
        self._refs.setdefault(parsed.entity, []).append(ref)
        return ref

    def refs(self, entity: str) -> Sequence[str]:
        """Return the refs of an entity's drafts, whatever became of them."""
        return self._refs.get(entity, [])[-6:]

    def held(self) -> Held:
        """Return what all drafts hold."""
        found = self._conversation.drafts(states=["pending", "saved", "discarded"])
        return {each.ref: (each.state, json.dumps(each.content)) for each in found}


def wrongs(tool: str, answer: Any, before: Held, after: Held) -> Iterator[str]:
    """Yield what must not have become of drafts by a call.

    Args:
        tool: that was called.
        answer: what the model was told.
        before: what drafts held before it.
        after: and after it.
    """
    changed = {ref for ref in before.keys() | after.keys() if before.get(ref) != after.get(ref)}
    is_read = tool in ("db_read", "db_create") or "preview" in answer
    if is_read or "error" in answer:
        if changed:
            yield "drafts changed by a read or an error"
        return
    told = told_drafts(answer)
    if not changed <= told or (tool == "db_delete" and changed != told):
        yield "a write tells of other drafts"
    wanted = "discarded" if tool == "db_delete" else "pending"
    if any(after[ref][0] != wanted for ref in changed):
        yield "a draft has become something else"
    if told and len(told) < answer["count"] and tool != "db_edit_list":
        yield "a write hit drafts and rows"


def meant(judge: Judge, table: ToolTable, arguments: Any, held: Held) -> set[str]:
    """Return the drafts that filters mean, told anew from what they hold.

    Raises:
        UnsureError: what the filters mean cannot be told.
    """
    filters = filters_of(arguments)
    chosen = {ref for each in filters for ref in _chosen(each, table.ref_field)}
    found = set()
    for ref in chosen & held.keys():
        state, content = held[ref]
        if state == "pending":
            row = _row(judge, table, {**json.loads(content), "id": ref})
            if all(judge.holds(each, row) for each in filters):
                found.add(ref)
    return found


def _chosen(given: Any, own: str, *, negated: bool = False) -> Iterator[str]:
    """Yield what a filter says that a row may be, also by not being otherwise."""
    for group in ("and", "or"):
        for each in given.get(group, ()):
            yield from _chosen(each, own, negated=negated)
    if "not" in given:
        yield from _chosen(given["not"], own, negated=not negated)
    operators = ("!=", "neq", "not_in") if negated else ("=", "in")
    if given.get("field") == own and given.get("op") in operators:
        value = given.get("value")
        values = value if isinstance(value, list) else [value]
        yield from (each for each in values if isinstance(each, str))


def _row(judge: Judge, table: ToolTable, content: Mapping[str, Any]) -> SimpleNamespace:
    """Return content as a row that filters are told of; without what it refers to."""
    row = SimpleNamespace()
    for name in table.columns:
        setattr(row, name, judge.value_of(name, content.get(name)))
    for name, target in table.targets.items():
        nested, is_list = content.get(name), table.relationship(name).uselist
        if isinstance(nested, str) or any(isinstance(each, str) for each in nested or ()):
            raise UnsureError
        if is_list:
            setattr(row, name, [_row(judge, target, each) for each in nested or ()])
        elif isinstance(nested, dict):
            setattr(row, name, _row(judge, target, nested))
    return row


def told_drafts(answer: Mapping[str, Any]) -> set[str]:
    """Return the drafts that an answer tells of."""
    # where there is no room for a row, it is told by its ref alone
    rows = [row for row in answer.get("rows", []) if "_draft" in row or len(row) == 1]
    refs = [row.get("id") for row in rows] + [*answer.get("deleted", []), answer.get("row")]
    return {ref for ref in refs if isinstance(ref, str) and ref.startswith("gen_")}


def is_touched(
    table: ToolTable, answer: Mapping[str, Any], held: Held, statements: Sequence[str]
) -> bool:
    """Tell whether an answer of drafts alone has asked their table for more than labels.

    Args:
        table: of whose rows the drafts are.
        answer: what the model was told.
        held: what the drafts hold.
        statements: that were sent to the application's tables.
    """
    told = told_drafts(answer)
    referring = any(f"{table.entity}_" in held[ref][1] or "gen_" in held[ref][1] for ref in told)
    if not told or len(told) < answer["count"] or referring:
        return False
    name = re.compile(rf"\b{re.escape(table.name)}\b")
    return any(name.search(statement) for statement in statements)
