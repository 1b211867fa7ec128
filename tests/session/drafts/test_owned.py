"""Drafts of owned classes: rows are the owner's, and content names rows that are there."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alfred_refs import Conversation, ForeignRowError, GoneRefError, RefRegistry, RefSession
from tests import owned
from tests.fix_owned import World

pytestmark = pytest.mark.usefixtures("one_base")


@pytest.fixture
def owned_chat(owned_engine: Engine, world: World) -> Conversation:
    """A conversation of ann's, in a registry beside the owned tables."""
    registry = RefRegistry(owned_engine)
    registry.create_tables()
    return registry.conversation("chat-7", owner=str(world.users["ann"]))


def test_a_saved_draft_is_its_owners(
    owned_engine: Engine, owned_chat: Conversation, world: World
) -> None:
    """New rows are stamped, those inside too, and others' rows cannot be named."""
    owner = owned.ownership().of(world.users["ann"])
    recipe = owned_chat.draft(owned.Recipe, {"name": "Soup", "lines": [{"text": "x"}]}).ref
    theirs = owned_chat.refer(owned.Recipe, world.recipes["bob"])
    copy = owned_chat.draft(owned.Recipe, {"name": "Copy", "parent_id": theirs}).ref
    with RefSession(owned_engine, conversation=owned_chat, owner=owner) as session:
        session.add(session.get(owned.Recipe, recipe))
        session.commit()
        session.add(session.get(owned.Recipe, copy))
        with pytest.raises(ForeignRowError):
            session.commit()

    with Session(owned_engine) as plain:
        saved = plain.scalars(select(owned.Recipe).filter_by(name="Soup")).one()
        assert saved.user_id == world.users["ann"]
        assert len(saved.lines) == 1
    assert [draft.ref for draft in owned_chat.drafts()] == [copy]


def test_related_rows_are_named_in_content(
    owned_engine: Engine, owned_chat: Conversation, world: World
) -> None:
    """Rows that are there, and other drafts, which are saved with it."""
    salt = owned_chat.refer(owned.Ingredient, world.salt)
    pepper = owned_chat.draft(owned.Ingredient, {"name": "Pepper"}).ref
    linked = owned_chat.draft(owned.Recipe, {"name": "Dal"}).ref
    recipe = owned_chat.draft(
        owned.Recipe, {"name": "Soup", "tags": [salt, pepper], "links": [linked]}
    ).ref
    owned_chat.edit_draft(linked, {"name": "Dal", "links": [recipe]})
    with RefSession(owned_engine, conversation=owned_chat) as session:
        soup = session.get_one(owned.Recipe, recipe)
        assert [tag.name for tag in soup.tags] == ["salt", "Pepper"]
        assert soup.links[0].links == [soup]
        session.add(soup)
        session.commit()

        assert sorted(tag.name for tag in soup.tags) == ["Pepper", "salt"]
        assert (soup.links[0].name, soup.links[0].links) == ("Dal", [soup])
    assert list(owned_chat.drafts()) == []


def test_a_row_named_in_content_must_be_there(
    owned_engine: Engine, owned_chat: Conversation
) -> None:
    """Each time that the draft is read as an object: it may have been deleted since."""
    gone = owned_chat.refer(owned.Ingredient, uuid.uuid4())
    ref = owned_chat.draft(owned.Recipe, {"name": "Soup", "tags": [gone]}).ref
    said = []
    with RefSession(owned_engine, conversation=owned_chat) as session:
        for _ in range(2):
            with pytest.raises(GoneRefError, match="'ingredient_1' was deleted") as caught:
                session.get(owned.Recipe, ref)
            said.append(caught)  # whose traceback has what was made of the draft

    assert len(said) == 2
