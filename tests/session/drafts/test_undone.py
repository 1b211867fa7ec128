"""Drafts whose saving came to nothing: their objects are as they were before it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Engine, MetaData, Table, Uuid, event, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from alfred_refs import Conversation, RefRegistry, RefSession, SavedDraftError, WrongEntityError
from alfred_refs.store import Address
from tests import owned
from tests.fix_owned import World
from tests.fix_session import TravelLog
from tests.models import Cook, MealPlan, Order, Person, Recipe


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


def test_what_another_process_saves_then_is_there(
    tables: Engine, session: RefSession, conversation: Conversation, soup: str
) -> None:
    """Though its key had a ref in the first, of a row that was never saved."""
    recipe = session.get_one(Recipe, soup)
    session.add(recipe)
    session.flush()
    assert recipe.id == "recipe_1"
    session.rollback()
    others = [RefRegistry(tables).conversation(conversation.id) for _ in range(2)]
    with RefSession(tables, conversation=others[0]) as other:
        other.add(other.get(Recipe, soup))
        other.commit()

    assert others[1].resolve(soup) == others[1].resolve("recipe_1")
    assert session.get_one(Recipe, soup).id == "recipe_1"


class Routed(RefSession):
    """Chooses where to send its statements by itself."""

    connection_of_all: Connection

    def get_bind(self, *_: Any, **__: Any) -> Connection:
        """See `Session.get_bind`."""
        return self.connection_of_all


@pytest.mark.parametrize("routed", [False, True])
def test_a_session_that_joins_a_transaction_for_some_classes_has_no_last_word(
    tables: Engine, conversation: Conversation, soup: str, routed: bool
) -> None:
    """Wherever it has the connection from: its commit leaves the rows to somebody else."""
    with tables.connect() as connection, connection.begin() as outer:
        Routed.connection_of_all = connection
        binds = {Recipe: connection, MealPlan: connection}
        with (
            Routed(conversation=conversation)
            if routed
            else RefSession(binds=binds, conversation=conversation)
        ) as session:
            session.add(session.get(Recipe, soup))
            session.commit()
            assert session.get_one(Recipe, soup).name == "Soup"
        outer.rollback()

    assert [draft.ref for draft in conversation.drafts()] == [soup]


def test_a_table_that_only_has_the_name_has_no_rows_of_drafts(store: TravelLog) -> None:
    """As where the registry is in another database than the application's tables."""
    other = Table("orders", MetaData(), Column("id", Uuid, primary_key=True))

    assert store.values_there(Address("chat-7"), other.c.id, [uuid.uuid4()]) == ()


def test_what_a_listener_adds_names_the_draft_again(session: RefSession, soup: str) -> None:
    """An object that a `before_flush` of the application's brings, which is resolved at once."""
    child = Recipe(name="Child", parent_recipe_id=soup)
    recipe = session.get_one(Recipe, soup)

    @event.listens_for(session, "before_flush")
    def bring(*_: object) -> None:
        session.add(child)

    session.add(recipe)
    session.flush()
    assert child.parent_recipe_id == recipe.id == "recipe_1"
    session.rollback()

    assert (recipe.id, child.parent_recipe_id) == (soup, soup)


@pytest.mark.parametrize(
    "change",
    [
        lambda chat, ref: chat.edit_draft(ref, {"name": "Other"}),
        lambda chat, ref: chat.discard_drafts([ref]),
    ],
)
def test_what_a_transaction_saves_is_no_draft_to_its_session(
    session: RefSession, conversation: Conversation, soup: str, change: Callable[..., object]
) -> None:
    """It is refused before anything is changed: once rolled back, it is what it was."""
    session.add(session.get(Recipe, soup))
    session.flush()
    with pytest.raises(SavedDraftError, match="saved as 'recipe_1'"):
        change(session.own_view, soup)
    session.rollback()

    [draft] = conversation.drafts()
    assert (draft.content, draft.version) == ({"name": "Soup"}, 1)


class Own(DeclarativeBase):
    """Declarative base of a class with an `__init__` of its own."""


class Sealed(Own):
    """Makes its keys when it is made."""

    __tablename__ = "sealed"

    id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
    name: Mapped[str]

    def __init__(self, **values: Any) -> None:
        """Have a key at once, and a length of nothing."""
        super().__init__(**values | {"id": uuid.uuid4()})

    def __len__(self) -> int:
        return 0


def test_an_object_that_makes_its_key_has_that_of_its_draft(
    tables: Engine, session: RefSession, conversation: Conversation
) -> None:
    """It would be saved beside its draft; and one that counts as false is an object too."""
    Own.metadata.create_all(tables)
    try:
        ref = conversation.draft(Sealed, {"name": "x"}).ref
        made = session.get_one(Sealed, ref)
        assert made.id == ref
        session.add(made)
        assert session.get(Sealed, ref) is made
        session.commit()
        assert list(conversation.drafts()) == []
        assert session.get(Sealed, ref) is made
    finally:
        session.close()
        Own.metadata.drop_all(tables)


def test_a_savepoint_gives_the_draft_back_at_once(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """To the transaction around it, which may save it after all."""
    savepoint = session.begin_nested()
    session.add(session.get(Recipe, soup))
    session.flush()
    savepoint.rollback()
    again = session.get_one(Recipe, soup)
    assert again.id == soup
    session.add(again)
    session.commit()

    assert list(conversation.drafts()) == []


def test_what_was_expired_before_the_rollback_has_the_ref(session: RefSession, soup: str) -> None:
    """Its attributes had nothing in them that the program could have set."""
    recipe = session.get_one(Recipe, soup)
    session.add(recipe)
    session.flush()
    session.expire(recipe)
    session.rollback()

    assert recipe.id == soup


def test_a_session_that_was_closed_makes_another_object(session: RefSession, soup: str) -> None:
    """The first one is detached, as a row's would be, and saves nothing."""
    recipe = session.get_one(Recipe, soup)
    session.add(recipe)
    session.flush()
    session.close()
    again = session.get_one(Recipe, soup)

    assert (again is recipe, again.id) == (False, soup)


def test_what_a_released_savepoint_saved_is_told_with_the_transaction(
    session: RefSession, conversation: Conversation
) -> None:
    """An integer key is looked for by sessions alone, so the list knows what it was told."""
    ref = conversation.draft(Order, {"number": 1}).ref
    with session.begin_nested():
        session.add(session.get(Order, ref))
    assert [draft.ref for draft in conversation.drafts()] == [ref]
    session.commit()

    assert list(conversation.drafts()) == []


def test_a_draft_that_the_transaction_saves_is_of_its_own_entity(
    session: RefSession, soup: str
) -> None:
    """Its key is given for no other, as that of any row."""
    session.add(session.get(Recipe, soup))
    session.flush()

    with pytest.raises(WrongEntityError):
        session.get(Order, soup)
    with pytest.raises(WrongEntityError):
        session.scalars(select(Order).where(Order.id == soup))


def test_an_integer_that_is_found_outside_of_a_session_proves_nothing(
    session: RefSession, conversation: Conversation, tables: Engine
) -> None:
    """It may be that of a row in a copy of the database: only a session knows where rows are."""
    ref = conversation.draft(Order, {"number": 1}).ref
    conversation.reserve_keys({ref: 7})
    with tables.begin() as connection:
        connection.execute(insert(Order).values(id=7, number=1))

    assert [draft.ref for draft in conversation.drafts()] == [ref]
    assert session.get_one(Order, ref).id == "order_1"
    assert list(conversation.drafts()) == []


def test_a_row_is_looked_for_whoever_it_belongs_to(owned_engine: Engine, world: World) -> None:
    """A row that the session's owner may not see is there all the same: it is not made again."""
    registry = RefRegistry(owned_engine)
    registry.create_tables()
    chat = registry.conversation("chat-7", owner=str(world.users["ann"]))
    ref = chat.draft(owned.Recipe, {"name": "Soup"}).ref
    chat.reserve_keys({ref: world.recipes["bob"]})
    owner = owned.ownership().of(world.users["ann"])
    with RefSession(owned_engine, conversation=chat, owner=owner) as session:
        assert session.get(owned.Recipe, ref) is None
        session.add(owned.Recipe(id=ref, name="Soup"))
        with pytest.raises(SavedDraftError):
            session.flush()
