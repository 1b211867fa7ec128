"""Drafts whose saving came to nothing: their objects are as they were before it."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from alfred_refs import Conversation, RefSession
from tests.models import Cook, Person, Recipe


@pytest.fixture
def soup(conversation: Conversation) -> str:
    """A draft of a recipe."""
    return conversation.draft(Recipe, {"name": "Soup"}).ref


def test_keys_that_are_text_are_not_taken_for_refs(
    session: RefSession, conversation: Conversation
) -> None:
    """Nor refs for keys: what is rolled back reads as before, and can be added again."""
    ref = conversation.draft(Cook, {"stars": 1}).ref
    cook = session.get_one(Cook, ref)
    apprentice = Person(kind="person", mentor_id=ref)
    session.add_all([cook, apprentice])
    session.flush()
    session.rollback()

    assert (cook.id, apprentice.mentor_id) == (ref, ref)
    session.add_all([apprentice, cook])
    session.commit()
    assert (cook.id, apprentice.mentor_id) == ("person_1", "person_1")


def test_an_object_with_a_key_that_is_text_is_added_again(session: RefSession) -> None:
    """After a rollback, without any draft: the key that it was given then is none of its refs."""
    mentor, person = Person(kind="person"), Person(kind="person")
    session.add_all([mentor, person])
    session.flush()
    session.rollback()
    person.mentor_id = mentor.mentor_id
    session.add_all([mentor, person])
    session.commit()

    assert (mentor.id, person.id) == ("person_1", "person_2")


def test_what_a_later_flush_named_the_draft_by_is_its_ref_again(
    session: RefSession, soup: str
) -> None:
    """In the whole transaction, and in a savepoint that the draft outlives."""
    recipe, child, other = session.get_one(Recipe, soup), *(Recipe(name=n) for n in "AB")
    session.add(recipe)
    session.flush()
    child.parent_recipe_id = soup
    session.add(child)
    session.flush()
    savepoint = session.begin_nested()
    other.parent_recipe_id = soup
    session.add(other)
    session.flush()
    savepoint.rollback()

    assert (recipe.id, child.parent_recipe_id) == ("recipe_1", "recipe_1")
    assert other.parent_recipe_id == soup
    session.rollback()
    assert (recipe.id, child.parent_recipe_id, other.parent_recipe_id) == (soup, soup, soup)


def test_what_the_program_has_set_since_stays(
    session: RefSession, recipes: list[Recipe], soup: str
) -> None:
    """As in any object that is rolled back."""
    parent = session.scalars(select(Recipe.id).filter_by(name=recipes[0].name)).one()
    child = Recipe(name="Child", parent_recipe_id=soup)
    session.add_all([session.get(Recipe, soup), child])
    session.flush()
    child.parent_recipe_id = parent
    session.rollback()

    assert child.parent_recipe_id == parent
