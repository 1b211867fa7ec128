"""A draft is read as an object, which is made anew once the draft is edited."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import StatementError

from alfred_refs import (
    Conversation,
    DiscardedDraftError,
    DraftContentError,
    DraftRefError,
    RefRegistry,
    RefSession,
    SetupError,
    UnknownDraftError,
    WrongEntityError,
)
from alfred_refs.store import NewDraft
from tests.models import MealPlan, Order, Recipe
from tests.session.drafts.rows_and_drafts import pending

pytestmark = pytest.mark.usefixtures("one_base")


def test_a_draft_is_read_as_an_object(session: RefSession, soup: str, sent: list[str]) -> None:
    """With what it holds, in no session yet; nothing is sent to its table."""
    recipe = session.get(Recipe, soup)

    assert isinstance(recipe, Recipe)
    assert (recipe.id, recipe.name) == ("gen_recipe_1", "Soup")
    assert [str(plan.day) for plan in recipe.plans] == ["2026-05-01"]
    assert recipe not in session
    assert not session.new
    for ident in ((soup,), [soup], {"id": soup}):
        assert session.get(Recipe, ident) is recipe
    assert session.get_one(Recipe, soup) is recipe
    assert sent == []


def test_an_object_is_made_anew_once_its_draft_is_edited(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """But not while it waits to be saved: what the program does to it comes first."""
    recipe = session.get_one(Recipe, soup)
    conversation.edit_draft(soup, {"name": "Dal"})
    edited = session.get_one(Recipe, soup)

    assert (recipe.name, edited.name) == ("Soup", "Dal")
    assert session.get(Recipe, soup, populate_existing=True) is not edited
    session.add(edited)
    conversation.edit_draft(soup, {"name": "Stew"})
    assert session.get(Recipe, soup) is edited


@pytest.mark.slow
def test_an_object_that_is_dropped_is_not_kept(session: RefSession, soup: str) -> None:
    """As in the identity map."""
    session.get_one(Recipe, soup).name = "Dal"
    gc.collect()

    assert session.get_one(Recipe, soup).name == "Soup"


def test_a_draft_has_no_row_to_lock(session: RefSession, soup: str) -> None:
    """So that is refused, and not passed over."""
    with pytest.raises(DraftRefError):
        session.get(Recipe, soup, with_for_update=True)


@pytest.mark.parametrize(
    ("entity", "ref", "error"),
    [
        (Recipe, "gen_recipe_9", UnknownDraftError),
        (Recipe, "gen_recipe_2", DiscardedDraftError),
        (Order, "gen_recipe_1", WrongEntityError),
        (MealPlan, "gen_recipe_1", WrongEntityError),
    ],
)
def test_what_is_no_such_draft_is_told(
    session: RefSession, conversation: Conversation, entity: Any, ref: str, error: Any
) -> None:
    """When it is read, and when an object of it is flushed; the others stay as they are."""
    for _ in range(2):
        conversation.draft(Recipe, {})
    conversation.discard_drafts(["gen_recipe_2"])

    with pytest.raises(error):
        session.get(entity, ref)
    session.add(entity(id=ref))
    with pytest.raises((error, DraftRefError)):
        session.flush()
    assert pending(conversation) == ["gen_recipe_1"]


def test_content_that_fits_no_more_is_told(
    session: RefSession, conversation: Conversation
) -> None:
    """The class has changed since: the field is named, and the draft stays."""
    conversation._store.draft(conversation._address, [NewDraft("recipe", '{"old": 1}', None)])

    with pytest.raises(DraftContentError, match="'old' is not a field of a draft of 'Recipe'"):
        session.get(Recipe, "gen_recipe_1")


@pytest.mark.parametrize("pickled", [False, True])
def test_an_object_does_not_save_a_draft_of_another_conversation(
    session: RefSession, tables: Engine, registry: RefRegistry, soup: str, *, pickled: bool
) -> None:
    """That has the same number: both stay as they are, and the object can be saved where it is."""
    recipe = session.get_one(Recipe, soup)
    if pickled:
        recipe = pickle.loads(pickle.dumps(recipe))  # noqa: S301  # we wrote it
    other = registry.conversation("chat-8")
    assert other.draft(Recipe, {"name": "Dal"}).ref == soup
    with RefSession(tables, conversation=other) as elsewhere:
        elsewhere.add(recipe)
        with pytest.raises(
            SetupError, match="an object of 'gen_recipe_1' of another conversation"
        ):
            elsewhere.flush()
        elsewhere.expunge(recipe)
    assert pending(other) == [soup]

    session.add(recipe)
    session.commit()
    assert session.get_one(Recipe, soup).name == "Soup"


def test_with_raw_keys_the_text_is_no_ref(session: RefSession, soup: str) -> None:
    """Trusted code means what it says."""
    with session.raw_keys(), pytest.raises(StatementError):
        session.get(Recipe, soup)
