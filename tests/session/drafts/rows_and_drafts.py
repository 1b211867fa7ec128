"""What is saved and what is not, as it is read beside a session."""

from __future__ import annotations

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import Conversation, RefSession
from tests.models import Recipe

Sessions = sessionmaker[RefSession]


def pending(conversation: Conversation) -> list[str]:
    """Return the drafts that are not saved."""
    return [draft.ref for draft in conversation.drafts()]


def names(engine: Engine) -> list[str]:
    """Return the names of all recipes, as a plain session reads them."""
    with Session(engine) as plain:
        return list(plain.scalars(select(Recipe.name).order_by(Recipe.name)))
