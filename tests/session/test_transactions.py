"""What becomes of rows: gone, back again, and when the registry cannot be told."""

from __future__ import annotations

import gc
import logging
import uuid
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select, text
from sqlalchemy.orm import Session, make_transient, sessionmaker

from alfred_refs import Conversation, GoneRefError, RefRegistry, RefSession
from tests.fix_session import TravelLog
from tests.models import MealPlan, Preference, Recipe

Read = Callable[[RefSession], Any]


@pytest.fixture
def recipe(session: RefSession) -> Recipe:
    """A saved recipe, shown as `recipe_1`."""
    recipe = Recipe(name="x")
    session.add(recipe)
    session.commit()
    assert recipe.id == "recipe_1"
    return recipe


@pytest.fixture
def deleted(session: RefSession, recipe: Recipe) -> Recipe:
    """The recipe as the program still has it when its row is gone."""
    session.delete(recipe)
    session.commit()
    return recipe


def put_back(engine: Engine, *recipes: Recipe) -> None:
    """Insert the rows of deleted recipes once more, with their keys, as another program does."""
    with Session(engine) as plain:
        plain.add_all([Recipe(id=r.__dict__["id"], name=r.__dict__["name"]) for r in recipes])
        plain.commit()


def is_refused(session: RefSession, ref: str, reason: str = "was deleted") -> bool:
    """Tell whether the ref names a row that is gone for this reason."""
    with pytest.raises(GoneRefError) as caught:
        session.conversation.resolve(ref)  # type: ignore[union-attr]
    return caught.value.reason == reason


def elsewhere(store: TravelLog) -> Conversation:
    """Return the conversation as another process has it."""
    return RefRegistry(store=store).conversation("chat-7")


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

    assert [r.getMessage() for r in caplog.records if r.name == "alfred_refs"] == [
        "could not record whether the rows of 1 refs exist"
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


# Back again


@pytest.mark.parametrize(
    "read",
    [
        lambda session: session.scalars(select(Recipe)).one().id,
        lambda session: session.scalars(select(Recipe.id)).one(),
    ],
)
def test_a_row_that_is_read_again_can_be_used(
    session: RefSession, deleted: Recipe, tables: Engine, store: TravelLog, read: Read
) -> None:
    """Its key came back, so its ref works again, here and elsewhere: the first use looks, once."""
    put_back(tables, deleted)
    assert is_refused(session, "recipe_1")
    store.trips.clear()

    assert read(session) == "recipe_1"
    assert store.trips == []
    assert session.get(Recipe, "recipe_1") is not None
    assert store.trips == ["resolve", "mark"]
    assert session.scalar(select(Recipe.name).where(Recipe.id == "recipe_1")) == "x"
    assert store.trips == ["resolve", "mark"]
    assert elsewhere(store).resolve("recipe_1") == deleted.__dict__["id"]


def test_a_row_that_is_gone_is_looked_for_each_time(
    session: RefSession, deleted: Recipe, sent: list[str]
) -> None:
    """It may be back whenever it is used; nothing but that is asked."""
    sent.clear()
    for _ in range(2):
        with pytest.raises(GoneRefError, match="'recipe_1' was deleted"):
            session.get(Recipe, "recipe_1")

    assert (len(sent), deleted.id) == (2, "recipe_1")


def test_rows_that_are_back_are_looked_for_together(
    session: RefSession, tables: Engine, store: TravelLog, sent: list[str], recipes: list[Recipe]
) -> None:
    """Five refs that are used at once cost one query, and one word to the registry."""
    gone = session.scalars(select(Recipe).order_by(Recipe.name)).all()
    refs = [recipe.id for recipe in gone]
    for recipe in gone:
        session.delete(recipe)
    session.commit()
    put_back(tables, *gone)
    store.trips.clear()
    sent.clear()

    again = session.scalars(select(Recipe).where(Recipe.id.in_(refs)).order_by(Recipe.name)).all()
    assert ([recipe.id for recipe in again], len(recipes)) == (refs, 5)
    assert (store.trips, len(sent)) == (["resolve", "mark"], 2)


def test_a_foreign_key_shows_the_ref_of_a_row_that_is_back(
    session: RefSession, deleted: Recipe, tables: Engine
) -> None:
    """The ref that a child shows can be used."""
    put_back(tables, deleted)
    with Session(tables) as plain:
        plain.add(MealPlan(recipe_id=deleted.__dict__["id"]))
        plain.commit()

    assert session.scalars(select(MealPlan)).one().recipe_id == "recipe_1"
    assert session.get(Recipe, "recipe_1") is not None


@pytest.mark.parametrize(
    "read",
    [
        lambda session: session.scalars(select(Preference)).one().favourites,
        lambda session: session.scalars(select(Preference.favourites)).one(),
    ],
)
def test_an_array_may_name_rows_that_are_gone(
    session: RefSession, deleted: Recipe, tables: Engine, read: Read
) -> None:
    """No foreign key guards its elements: reading one shows its ref and calls nothing back."""
    key = deleted.__dict__["id"]
    with Session(tables) as plain:
        plain.add(Preference(favourites=[key, uuid.uuid4()]))
        plain.commit()

    assert read(session) == ["recipe_1", "recipe_2"]
    assert is_refused(session, "recipe_1")


def test_showing_what_the_program_still_has_calls_nothing_back(
    session: RefSession, deleted: Recipe, store: TravelLog
) -> None:
    """A deleted object shows its ref without a round trip, also beside rows that are new."""
    store.trips.clear()
    assert deleted.id == "recipe_1"
    assert store.trips == []

    session.add(Recipe(name="y"))
    session.commit()
    assert session.scalars(select(Recipe)).one().id == "recipe_2"
    assert (deleted.id, is_refused(session, "recipe_1")) == ("recipe_1", True)


def test_a_deleted_object_among_those_just_loaded_stays_gone(session: RefSession) -> None:
    """Rows deleted in a loop that keeps them do not come back with the next ref that is minted."""
    session.add_all([Recipe(name="a"), Recipe(name="b")])
    session.commit()
    assert session.scalars(select(Recipe.id)).all() == ["recipe_1", "recipe_2"]
    gone = session.scalars(select(Recipe)).all()
    for recipe in gone:
        session.delete(recipe)
    session.commit()
    new = Recipe(name="c")
    session.add(new)
    session.commit()

    assert (new.id, len(gone)) == ("recipe_3", 2)
    assert [is_refused(session, ref) for ref in ("recipe_1", "recipe_2")] == [True, True]


def test_a_row_that_is_saved_again_is_back(
    session: RefSession, deleted: Recipe, store: TravelLog
) -> None:
    """The same object, made transient and added: its key is the same, so is its ref."""
    make_transient(deleted)
    session.add(deleted)
    session.flush()
    assert session.get(Recipe, "recipe_1") is deleted
    session.commit()

    assert deleted.id == "recipe_1"
    assert session.get(Recipe, "recipe_1") is deleted
    assert elsewhere(store).resolve("recipe_1") == deleted.__dict__["id"]


def test_a_row_whose_saving_again_is_rolled_back_is_gone(
    session: RefSession, deleted: Recipe, store: TravelLog
) -> None:
    """It was deleted before and is not there now, whoever asks."""
    make_transient(deleted)
    session.add(deleted)
    session.flush()
    session.rollback()

    assert deleted.id == "recipe_1"
    assert is_refused(session, "recipe_1")
    with pytest.raises(GoneRefError, match="was deleted"):
        elsewhere(store).resolve("recipe_1")


def test_a_deletion_that_an_outer_transaction_takes_back_is_taken_back_when_used(
    conversation: Conversation, sessions: sessionmaker[RefSession], tables: Engine
) -> None:
    """A session on a connection cannot know what becomes of it; its table tells."""
    with Session(tables) as plain:
        plain.add(Recipe(name="x"))
        plain.commit()

    def join(connection: Any) -> RefSession:
        return sessions(
            bind=connection, conversation=conversation, join_transaction_mode="create_savepoint"
        )

    with tables.connect() as connection:
        outer = connection.begin()
        with join(connection) as session:
            recipe = session.scalars(select(Recipe)).one()
            assert recipe.id == "recipe_1"
            session.delete(recipe)
            session.commit()
            assert is_refused(session, "recipe_1")
        outer.rollback()
        with join(connection) as session:
            assert session.scalars(select(Recipe)).one().id == "recipe_1"
            assert session.get(Recipe, "recipe_1") is not None


def test_nothing_gone_costs_nothing(session: RefSession, recipe: Recipe, store: TravelLog) -> None:
    """Reading, saving, deleting and rolling back send nothing while all rows are there."""
    store.trips.clear()
    session.delete(recipe)
    session.rollback()
    assert session.scalars(select(Recipe)).one().id == "recipe_1"
    assert session.scalars(select(Recipe.id)).one() == "recipe_1"
    session.commit()

    assert store.trips == []


# Never shown before they went


def test_a_row_rolled_back_before_it_was_shown_was_never_saved(
    session: RefSession, store: TravelLog
) -> None:
    """The object still has its key and shows a ref, which says what happened to the row."""
    lost = Recipe(name="lost")
    session.add(lost)
    session.flush()
    session.rollback()

    assert lost.id == "recipe_1"
    assert is_refused(session, "recipe_1", "was never saved")
    with pytest.raises(GoneRefError):
        elsewhere(store).resolve("recipe_1")
    session.add(lost)
    session.commit()
    assert (lost.id, session.get(Recipe, "recipe_1")) == ("recipe_1", lost)


def test_a_row_deleted_before_it_was_shown_was_deleted(
    session: RefSession, tables: Engine
) -> None:
    """Its ref is refused as soon as it is given, until the row is there again."""
    gone = Recipe(name="gone")
    session.add(gone)
    session.commit()
    session.delete(gone)
    session.commit()
    assert gone.id == "recipe_1"
    assert is_refused(session, "recipe_1")

    put_back(tables, gone)
    assert session.scalars(select(Recipe.id)).one() == "recipe_1"
    assert session.get(Recipe, "recipe_1") is not None


@pytest.mark.parametrize(
    "read",
    [
        lambda session: session.scalars(select(Recipe)).one().id,
        lambda session: session.scalars(select(Recipe.id)).one(),
    ],
)
def test_a_row_that_others_saved_is_there_though_it_was_rolled_back_here(
    session: RefSession, tables: Engine, read: Read
) -> None:
    """What was read is there, whatever became of the object that has its key."""
    lost = Recipe(name="lost")
    session.add(lost)
    session.flush()
    session.rollback()
    put_back(tables, lost)

    assert (read(session), lost.id) == ("recipe_1", "recipe_1")
    assert session.get(Recipe, "recipe_1") is not None


def test_a_deletion_that_is_rolled_back_before_the_row_is_shown_is_none(
    session: RefSession, store: TravelLog
) -> None:
    """Its ref is given as if nothing had happened."""
    recipe = Recipe(name="x")
    session.add(recipe)
    session.commit()
    session.delete(recipe)
    session.flush()
    session.rollback()

    assert recipe.id == "recipe_1"
    assert "mark" not in store.trips
    assert elsewhere(store).resolve("recipe_1") == recipe.__dict__["id"]


# What was deleted


@pytest.mark.slow
def test_a_dropped_object_rolled_back_to_a_savepoint_was_never_saved(session: RefSession) -> None:
    """Nobody has the object any more, and its ref says what became of its row."""
    session.connection()
    with session.begin_nested() as savepoint:
        session.add(Recipe(name="x"))
        session.flush()
        assert session.scalars(select(Recipe.id)).one() == "recipe_1"
        session.expunge_all()
        gc.collect()
        savepoint.rollback()
    session.commit()

    assert is_refused(session, "recipe_1", "was never saved")


# Cost


@pytest.mark.slow
def test_flushed_objects_that_are_dropped_are_collected(session: RefSession) -> None:
    """An open transaction keeps the keys of what it inserted and deleted, not the objects."""
    added = [Recipe(name="x") for _ in range(200)]
    there = [weakref.ref(recipe) for recipe in added]
    session.add_all(added)
    session.flush()
    for recipe in session.scalars(select(Recipe).limit(100)).all():
        session.delete(recipe)
    session.flush()
    del recipe, added
    session._boundary.loaded.clear()  # type: ignore[union-attr]  # bounded, and not our subject
    gc.collect()

    assert sum(recipe() is not None for recipe in there) < 10


def test_a_row_inserted_by_a_statement_is_back_when_it_is_read(
    session: RefSession, deleted: Recipe
) -> None:
    """An INSERT of Core gives no event; the SELECT after it does."""
    session.execute(insert(Recipe), [{"id": deleted.__dict__["id"], "name": "x"}])

    assert session.scalars(select(Recipe.id)).one() == "recipe_1"
    session.commit()
    assert session.get(Recipe, "recipe_1") is not None
