"""Whether a draft was saved is what the transaction says: rollbacks, conflicts, failures."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from sqlalchemy import Engine, create_engine, event, insert
from sqlalchemy.exc import IntegrityError

from alfred_refs import Conversation, DraftRefError, GoneRefError, RefSession, SavedDraftError
from tests.fix_session import TravelLog
from tests.models import MealPlan, Recipe
from tests.session.drafts.rows_and_drafts import Sessions, names, pending

pytestmark = pytest.mark.usefixtures("one_base")


def test_what_is_rolled_back_is_a_draft_again(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """With its content; the objects have the refs of drafts again, and can be saved as before."""
    recipe = session.get_one(Recipe, soup)
    child = Recipe(name="Child", parent_recipe_id=soup)
    session.add_all([recipe, child])
    session.flush()
    assert (recipe.id, child.parent_recipe_id) == ("recipe_1", "recipe_1")
    session.rollback()

    assert (recipe.id, child.parent_recipe_id) == (soup, soup)
    [draft] = conversation.drafts()
    assert draft.content == {"name": "Soup", "plans": [{"day": "2026-05-01"}]}
    with pytest.raises(GoneRefError, match="was never saved"):
        conversation.resolve("recipe_1")
    session.add_all([recipe, child])
    session.commit()
    assert names(tables) == ["Child", "Soup"]
    assert recipe.id == child.parent_recipe_id == "recipe_1"
    assert pending(conversation) == []


def test_a_savepoint_decides_for_itself(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """What is rolled back to one is a draft again; what is released goes with the transaction."""
    other = conversation.draft(Recipe, {"name": "Other"}).ref
    lost, kept = session.get_one(Recipe, soup), session.get_one(Recipe, other)
    savepoint = session.begin_nested()
    session.add(lost)
    session.flush()
    savepoint.rollback()
    with session.begin_nested():
        session.add(kept)

    assert lost.id == soup
    assert session.get_one(Recipe, other) is kept
    session.commit()
    assert (names(tables), pending(conversation)) == (["Other"], [soup])

    with session.begin_nested():
        session.add(lost)
    assert lost.id == "recipe_1"
    session.rollback()
    assert (names(tables), pending(conversation), lost.id) == (["Other"], [soup], soup)


def test_a_child_that_is_refused_takes_all_with_it(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """No row is there, drafts are as they were, and the error shows no key."""
    before = [*conversation.drafts()]
    recipe = session.get_one(Recipe, soup)
    session.add_all([recipe, MealPlan(instead_of=soup)])
    with pytest.raises(IntegrityError, match="recipe_id") as caught:
        session.commit()
    key = next(conversation.drafts(keys=True)).key
    session.rollback()

    assert str(key) not in str(caught.value)
    assert (names(tables), recipe.id) == ([], soup)
    [draft] = conversation.drafts()
    assert (draft.content, draft.version) == (before[0].content, before[0].version)
    session.add(recipe)
    session.commit()
    assert names(tables) == ["Soup"]


def test_a_row_that_is_deleted_again_was_never_saved(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """In one transaction: the draft stays one."""
    recipe = session.get_one(Recipe, soup)
    session.add(recipe)
    session.flush()
    session.delete(recipe)
    session.commit()

    assert pending(conversation) == [soup]


def test_a_listener_that_refuses_a_flush_loses_nothing(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """After the key was decided, and before the row was sent: the next flush goes on."""
    refused = [True]

    @event.listens_for(session, "before_flush")
    def refuse(*_: object) -> None:
        if refused:
            refused.clear()
            raise RuntimeError

    session.add(session.get(Recipe, soup))
    with pytest.raises(RuntimeError):
        session.flush()
    session.commit()

    assert (names(tables), pending(conversation)) == (["Soup"], [])


def test_a_transaction_of_somebody_elses_has_the_last_word(
    tables: Engine, conversation: Conversation, soup: str
) -> None:
    """A session that joins one saves for as long as that lasts; the registry is not told."""
    with tables.connect() as connection, connection.begin() as outer:
        with RefSession(connection, conversation=conversation) as session:
            session.add(session.get(Recipe, soup))
            session.commit()
        with RefSession(connection, conversation=conversation) as session:
            assert session.get_one(Recipe, soup).name == "Soup"
        outer.rollback()

    assert (names(tables), pending(conversation)) == ([], [soup])
    with RefSession(tables, conversation=conversation) as session:
        session.add(session.get(Recipe, soup))
        session.commit()
    assert (names(tables), pending(conversation)) == (["Soup"], [])


def test_a_draft_that_was_saved_elsewhere_is_not_saved_again(
    session: RefSession, sessions: Sessions, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """By an object made before that; the error says which row it is."""
    late = session.get_one(Recipe, soup)
    with sessions(conversation=conversation) as first:
        first.add(first.get(Recipe, soup))
        first.commit()
    session.add(late)
    with pytest.raises(SavedDraftError, match="saved as 'recipe_1'") as caught:
        session.flush()
    session.rollback()

    assert caught.value.saved == "recipe_1"
    assert session.get_one(Recipe, soup).id == "recipe_1"
    assert names(tables) == ["Soup"]


def test_a_draft_that_is_saved_meanwhile_is_not_saved_again(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """Between the reservation and the insert: the table refuses the second row."""

    def save(*_: object) -> None:
        [draft] = conversation.drafts(keys=True)
        with other.begin() as connection:
            connection.execute(insert(Recipe).values(id=draft.key, name="First"))

    other = create_engine(tables.url)
    session.add(session.get(Recipe, soup))
    event.listen(tables, "before_cursor_execute", save, once=True)
    with pytest.raises(SavedDraftError, match="saved as 'recipe_1'"):
        session.commit()
    session.rollback()

    assert session.get_one(Recipe, soup).name == "First"
    assert (names(tables), pending(conversation)) == (["First"], [])


def test_another_conflict_is_told_as_it_is(
    session: RefSession, conversation: Conversation, soup: str, recipes: list[Recipe]
) -> None:
    """A row beside the draft has a key that is taken: that is nobody's saving the draft."""
    with session.raw_keys():
        session.add(Recipe(id=recipes[0].id, name="Twin"))
    session.add(session.get(Recipe, soup))
    with pytest.raises(IntegrityError):
        session.flush()
    session.rollback()

    assert pending(conversation) == [soup]


def test_a_registry_that_cannot_be_told_fails_no_commit(
    session: RefSession, conversation: Conversation, store: TravelLog, soup: str
) -> None:
    """The row is there, and whoever looks next finds it."""
    session.add(session.get(Recipe, soup))
    session.flush()
    with patch.object(store, "confirm_drafts", side_effect=DraftRefError(None)) as failing:
        session.commit()

    failing.assert_called_once()
    assert session.get_one(Recipe, soup).name == "Soup"
    assert pending(conversation) == []
