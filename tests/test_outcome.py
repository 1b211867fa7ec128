"""What becomes of rows, when the registry cannot be told."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy import Engine, text

from alfred_refs import Conversation, RefSession
from tests.models import Recipe


def test_a_registry_that_fails_does_not_fail_the_commit(
    session: RefSession,
    conversation: Conversation,
    tables: Engine,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The row is deleted whether or not the registry can note it; a warning says how many."""
    recipe = Recipe(name="x")
    session.add(recipe)
    session.commit()
    assert recipe.id == "recipe_1"
    key = str(recipe.__dict__["id"])
    with tables.begin() as connection:
        connection.execute(text("alter table alfred_refs_mapping rename column gone to lost"))
    session.delete(recipe)
    with caplog.at_level(logging.INFO):
        session.commit()

    assert [record.getMessage() for record in caplog.records] == [
        "could not note that 1 refs have no row any more"
    ]
    assert key not in caplog.text
    assert conversation.refer(Recipe, recipe.__dict__["id"]) == "recipe_1"


def test_rows_that_were_never_shown_cost_nothing(session: RefSession, store: object) -> None:
    """Without a ref there is nothing to note: no trip to the store."""
    recipe = Recipe(name="x")
    session.add(recipe)
    session.commit()
    session.delete(recipe)
    session.commit()

    assert vars(store)["trips"] == []
