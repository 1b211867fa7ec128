"""A person in the loop: the model deletes three recipes, and a person has the last word.

In goes an engine on a kitchen; out comes what the person was shown and what was done. The deletes
wait for approval: one is rejected, two are approved, and then they are undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Journal, ToolAnswer
from examples.kitchen import DEMO_USER
from examples.kitchen.models import Recipe, User
from examples.kitchen.tools import POLICY, kitchen_tools

CHAT: Final = "clean-up"
NAMES: Final = ("Toast", "Porridge", "Pancakes")
PERSON: Final = "ann"


@dataclass(frozen=True, slots=True)
class Review:
    """What a person was shown, decided and undid.

    Attributes:
        asked: what the model was answered for each delete.
        plans: what the person was shown of each.
        decided: what the model was told then.
        changes: what was changed in the turn, line by line.
        undone: what the undo did.
        left: the names of the recipes at the end.
    """

    asked: Sequence[ToolAnswer]
    plans: Sequence[str]
    decided: Sequence[ToolAnswer]
    changes: Sequence[str]
    undone: str
    left: Sequence[str]

    def texts(self) -> list[str]:
        """Return what the model and the person were told."""
        answers = [each.text for each in (*self.asked, *self.decided)]
        return [*answers, *self.plans, *self.changes, self.undone]


def review(engine: Engine) -> Review:
    """Let a model delete three recipes of its user, and a person decide."""
    with Session(engine) as plain:
        owner = plain.scalars(select(User.id).filter_by(name=DEMO_USER)).one()
    registry = RefRegistry(engine, policy=POLICY)
    desk = kitchen_tools(consent={Recipe: ["delete"]}).bind(
        sessionmaker(engine, class_=RefSession), registry=registry, journal=Journal()
    )
    chat = desk.conversation(CHAT, owner)
    chat.begin_turn()
    refs = [*_created(desk, owner)]
    turn = chat.begin_turn()
    asked = [
        desk.call(CHAT, owner, "db_delete", _delete(ref, name), user="bob")
        for ref, name in zip(refs, NAMES, strict=True)
    ]
    first, *others = desk.approvals(CHAT, owner)
    decided = [desk.reject(CHAT, owner, first.call, by=PERSON, reason="that one is for Sunday")]
    decided += [
        desk.approve(CHAT, owner, each.call, by=PERSON, plan=each.plan.token) for each in others
    ]
    changes = [row.line for row in desk.changes(CHAT, owner, turn=turn)]
    undone = desk.undo(CHAT, owner, turn=turn, by=PERSON)
    with Session(engine) as plain:
        left = plain.scalars(
            select(Recipe.name).where(Recipe.name.in_(NAMES), Recipe.user_id == owner)
        ).all()
    plans = [each.plan.text for each in (first, *others)]
    return Review(asked, plans, decided, changes, undone.summary, sorted(left))


def _created(desk: BoundToolset, owner: Any) -> Iterator[str]:
    for name in NAMES:
        data = {"name": name, "instructions": [f"make {name.lower()}"]}
        created = desk.call(CHAT, owner, "db_create", {"table": "recipes", "data": data})
        yield created.value["rows"][0]["id"]


def _delete(ref: str, name: str) -> dict[str, Any]:
    only = [{"field": "id", "op": "=", "value": ref}]
    return {"table": "recipes", "filters": only, "expect": name}
