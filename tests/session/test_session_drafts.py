"""Drafts in a session: objects that become rows, once, or drafts again."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import Engine, create_engine, delete, event, func, insert, select
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import (
    BadRefError,
    CircularDraftsError,
    Conversation,
    DiscardedDraftError,
    DraftContentError,
    DraftRefError,
    DraftTwiceError,
    ForeignRowError,
    GoneRefError,
    RefRegistry,
    RefSession,
    SavedDraftError,
    UnknownDraftError,
    WrongEntityError,
)
from alfred_refs.store import NewDraft
from tests import owned
from tests.fix_asyncio import AsyncSessions
from tests.fix_owned import World
from tests.fix_session import TravelLog
from tests.models import Box, Cook, MealPlan, Order, OrderLine, Person, Recipe

pytestmark = pytest.mark.usefixtures("one_base")

Sessions = sessionmaker[RefSession]


@pytest.fixture
def soup(conversation: Conversation) -> str:
    """A draft of a recipe with one plan."""
    return conversation.draft(Recipe, {"name": "Soup", "plans": [{"day": "2026-05-01"}]}).ref


def pending(conversation: Conversation) -> list[str]:
    """Return the drafts that are not saved."""
    return [draft.ref for draft in conversation.drafts()]


def names(engine: Engine) -> list[str]:
    """Return the names of all recipes, as a plain session reads them."""
    with Session(engine) as plain:
        return list(plain.scalars(select(Recipe.name).order_by(Recipe.name)))


# Objects


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

    with pytest.raises(DraftContentError, match="'old' is no field of a draft of 'Recipe'"):
        session.get(Recipe, "gen_recipe_1")


# Saving


def test_adding_the_object_saves_the_draft(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """Its row shows the ref of a row, the draft's ref names the same row for ever."""
    recipe = session.get_one(Recipe, soup)
    recipe.name = "Lentil soup"
    session.add(recipe)
    session.commit()

    assert recipe.id == "recipe_1"
    assert recipe.plans[0].recipe_id == "recipe_1"
    assert names(tables) == ["Lentil soup"]
    assert pending(conversation) == []
    [draft] = conversation.drafts(states=["saved"])
    assert (draft.ref, draft.saved) == (soup, "recipe_1")
    assert conversation.resolve(soup) == conversation.resolve("recipe_1")
    assert session.get(Recipe, soup) is recipe
    assert session.scalars(select(MealPlan.recipe_id).filter_by(recipe_id=soup)).all() == [
        "recipe_1"
    ]


def test_saving_is_two_round_trips(
    session: RefSession, registry: RefRegistry, conversation: Conversation
) -> None:
    """One to reserve keys, one to say that the rows are there, however many drafts there are."""
    for name in ("Soup", "Dal"):
        conversation.draft(Recipe, {"name": name})
    objects = [session.get_one(Recipe, ref) for ref in pending(conversation)]
    session.add_all(objects)
    before = registry.counts.round_trips
    session.commit()

    assert registry.counts.round_trips == before + 2


def test_drafts_of_one_name_are_two_rows(
    session: RefSession, conversation: Conversation, tables: Engine
) -> None:
    """A draft is known by its ref: not by its name, nor by where it stands in a list."""
    with Session(tables) as plain:
        plain.add(Recipe(name="Soup"))
        plain.commit()
    refs = [conversation.draft(Recipe, {"name": "Soup"}).ref for _ in range(3)]

    first, second = (session.get_one(Recipe, ref) for ref in refs[:2])
    session.add_all([second, first])
    session.commit()

    assert names(tables) == 3 * ["Soup"]
    assert first.id != second.id
    assert session.get(Recipe, refs[0]) is first
    assert session.get(Recipe, refs[1]) is second
    assert pending(conversation) == refs[2:]


def test_an_object_of_the_programs_own_may_save_a_draft(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """It names the draft by its key; what the draft holds is not asked for."""
    session.add(Recipe(id=soup, name="Other"))
    session.commit()

    assert (names(tables), pending(conversation)) == (["Other"], [])


def test_rows_name_drafts_in_any_order(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """By foreign key, without a relationship between the objects, and in one table."""
    child = conversation.draft(Recipe, {"name": "Child", "parent": soup}).ref
    plan = MealPlan(recipe_id=child, instead_of=soup)
    grandchild = Recipe(name="Grandchild", parent_recipe_id=child)

    session.add_all([plan, grandchild, session.get_one(Recipe, child)])
    session.add(session.get_one(Recipe, soup))
    session.commit()

    assert names(tables) == ["Child", "Grandchild", "Soup"]
    one, two = session.get_one(Recipe, soup).id, session.get_one(Recipe, child).id
    assert (plan.recipe_id, plan.instead_of) == (two, one)
    assert session.get_one(Recipe, child).parent_recipe_id == one
    assert grandchild.parent_recipe_id == two


def test_a_row_that_is_there_may_name_a_draft(
    session: RefSession, recipes: list[Recipe], soup: str
) -> None:
    """The attribute shows the draft's ref until both are flushed."""
    recipe = session.scalars(select(Recipe).filter_by(name=recipes[0].name)).one()
    recipe.parent_recipe_id = soup
    assert recipe.parent_recipe_id == soup
    session.add(session.get_one(Recipe, soup))
    session.commit()

    assert recipe.parent_recipe_id == session.get_one(Recipe, soup).id


def test_a_draft_that_is_not_saved_cannot_be_named(
    session: RefSession, soup: str, tables: Engine
) -> None:
    """Nothing is sent then, and adding its object is what helps."""
    session.add(Recipe(name="Child", parent_recipe_id=soup))
    with pytest.raises(DraftRefError, match="a draft's ref where a saved recipe is needed; save"):
        session.flush()
    assert names(tables) == []
    session.add(session.get_one(Recipe, soup))
    session.commit()

    assert names(tables) == ["Child", "Soup"]


def test_one_bad_ref_leaves_all_as_it_was(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """Objects and drafts; what is mended is saved."""
    recipe = session.get_one(Recipe, soup)
    child = Recipe(name="Child", parent_recipe_id="recipe_9")
    session.add_all([recipe, child])
    with pytest.raises(BadRefError):
        session.flush()

    assert (recipe.id, pending(conversation)) == (soup, [soup])
    assert session.get(Recipe, soup) is recipe
    child.parent_recipe_id = soup
    session.commit()
    assert child.parent_recipe_id == recipe.id


def test_a_draft_of_the_flush_is_found_by_a_query(session: RefSession, soup: str) -> None:
    """What waits is flushed first, as before any query."""
    recipe = session.get_one(Recipe, soup)
    session.add(recipe)

    assert session.scalars(select(Recipe).where(Recipe.id == soup)).one() is recipe
    assert session.scalars(select(Recipe).where(Recipe.id.in_([soup]))).one() is recipe
    assert session.get(Recipe, soup) is recipe
    session.rollback()
    session.add(session.get_one(Recipe, soup))
    with session.no_autoflush, pytest.raises(DraftRefError):
        session.scalars(select(Recipe).where(Recipe.id == soup))
    with pytest.raises(DraftRefError):
        session.scalars(
            select(Recipe).where(Recipe.id == soup), execution_options={"autoflush": False}
        )


def test_two_objects_of_one_draft_are_refused(
    session: RefSession, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """In one flush, and in two of one transaction."""
    first = Recipe(id=soup, name="One")
    session.add_all([first, Recipe(id=soup, name="Two")])
    with pytest.raises(DraftTwiceError, match="'gen_recipe_1' is to be saved by two objects"):
        session.flush()
    session.rollback()
    session.add(first)
    session.flush()
    session.add(Recipe(id=soup, name="Two"))
    with pytest.raises(DraftTwiceError):
        session.flush()
    session.rollback()

    assert (names(tables), pending(conversation)) == ([], [soup])


def test_drafts_that_name_each_other_are_refused(
    session: RefSession, conversation: Conversation, soup: str
) -> None:
    """None could be inserted first; one that names itself can."""
    other = conversation.draft(Recipe, {"name": "Other", "parent_recipe_id": soup}).ref
    conversation.edit_draft(soup, {"name": "Soup", "parent_recipe_id": other})
    session.add_all([session.get(Recipe, soup), session.get(Recipe, other)])
    with pytest.raises(CircularDraftsError, match="name each other") as caught:
        session.flush()
    assert set(caught.value.refs) == {soup, other}
    session.rollback()

    conversation.edit_draft(soup, {"name": "Soup", "parent_recipe_id": soup})
    recipe = session.get_one(Recipe, soup)
    session.add(recipe)
    session.commit()
    assert recipe.parent_recipe_id == recipe.id
    assert pending(conversation) == [other]


# Back to drafts


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
    assert (recipe.id, child.parent_recipe_id, pending(conversation)) == (
        "recipe_1",
        "recipe_1",
        [],
    )


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


# Others


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


SAVE = """
import os, signal, sys
from sqlalchemy import create_engine, event
from alfred_refs import RefRegistry, RefSession, SavedDraftError
from tests.models import Recipe

url, die = sys.argv[1:]
engine = create_engine(url)
registry = RefRegistry(engine)
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with RefSession(engine, registry=registry, conversation="chat-7") as session:
    recipe = session.get(Recipe, "gen_recipe_1")
    sys.stdin.readline()
    match die:
        case "reserved":
            event.listen(engine, "before_cursor_execute", kill)
        case "inserted":
            event.listen(session, "after_flush", kill)
        case "flushed":
            event.listen(session, "before_commit", lambda s: (s.flush(), kill()))
        case "committed":
            event.listen(session, "after_commit", kill)
    if recipe not in session:
        session.add(recipe)
    try:
        session.commit()
    except SavedDraftError:
        session.rollback()
    if die == "confirmed":
        kill()
    print(session.get(Recipe, "gen_recipe_1").id)
"""


def saving(engine: Engine, *dying: str) -> list[str]:
    """Save a draft in processes that start together, some dying; return what they say."""
    url = engine.url.render_as_string(hide_password=False)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SAVE, url, die],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for die in dying
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate()[0] for process in processes]
    expected = [-signal.SIGKILL if die else 0 for die in dying]
    assert [process.returncode for process in processes] == expected
    return [line.strip() for line in said if line]


@pytest.mark.usefixtures("soup")
@pytest.mark.once
def test_eight_processes_save_one_draft_as_one_row(
    tables: Engine, conversation: Conversation
) -> None:
    """All are told of the same row."""
    assert saving(tables, *8 * [""]) == 8 * ["recipe_1"]
    assert (names(tables), pending(conversation)) == (["Soup"], [])


@pytest.mark.parametrize(
    ("died", "there"),
    [("reserved", 0), ("inserted", 0), ("flushed", 0), ("committed", 1), ("confirmed", 1)],
)
@pytest.mark.once
def test_a_process_that_is_killed_leaves_a_draft_or_a_row(
    tables: Engine, soup: str, died: str, there: int
) -> None:
    """At whatever step: a row that is there is not offered again, and none is made twice."""
    assert saving(tables, died) == []
    left = RefRegistry(tables).conversation("chat-7")

    assert names(tables) == there * ["Soup"]
    assert [draft.ref for draft in left.drafts()] == ([] if there else [soup])
    assert [draft.ref for draft in left.drafts(states=["saved"])] == ([soup] if there else [])
    assert saving(tables, "") == ["recipe_1"]
    assert (names(tables), [*left.drafts()]) == (["Soup"], [])


# Keys of every kind


def test_integer_keys_come_from_the_tables_sequence(
    session: RefSession, conversation: Conversation, tables: Engine
) -> None:
    """And numbers that were inserted beside it are not taken for the draft's row."""
    with tables.begin() as connection:
        connection.execute(insert(Order), [{"id": 1, "number": 7}, {"id": 3, "number": 7}])
    refs = [conversation.draft(Order, {"number": n}).ref for n in (1, 2)]
    orders = [session.get_one(Order, ref) for ref in refs]
    session.add_all([OrderLine(order_id=refs[0], position=1), *orders])
    session.commit()

    with Session(tables) as plain:
        assert {order.id: order.number for order in plain.scalars(select(Order))} == {
            1: 7,
            3: 7,
            2: 1,
            4: 2,
        }
        assert plain.scalars(select(OrderLine.order_id)).all() == [2]
    assert pending(conversation) == []


def test_a_joined_subclass_is_saved_with_its_base(
    session: RefSession, conversation: Conversation
) -> None:
    """As the class that was drafted, whichever class it is asked for by."""
    ref = conversation.draft(Cook, {"stars": 2}).ref
    cook = session.get_one(Person, ref)
    apprentice = Person(kind="person", mentor_id=ref)
    session.add_all([apprentice, cook])
    session.commit()

    assert isinstance(cook, Cook)
    assert (cook.id, cook.stars, cook.kind) == ("person_1", 2, "cook")
    assert apprentice.mentor_id == "person_1"


def test_keys_that_the_program_makes_are_asked_for(
    session: RefSession, conversation: Conversation
) -> None:
    """By the column's default, with the type that it has."""
    ref = conversation.draft(Box, {"label": "x"}).ref
    session.add(Box(inside=ref, label="y"))
    session.add(session.get(Box, ref))
    session.commit()

    assert {box.label: box.inside for box in session.scalars(select(Box))} == {
        "x": None,
        "y": session.get_one(Box, ref).id,
    }


# Ways around, and other sessions


@pytest.mark.parametrize(
    "way",
    [
        lambda s, ref: s.bulk_save_objects([Recipe(id=ref, name="x")]),
        lambda s, ref: s.bulk_insert_mappings(Recipe, [{"id": ref, "name": "x"}]),
        lambda s, ref: s.execute(insert(Recipe).values(id=ref, name="x")),
        lambda s, ref: s.execute(insert(Recipe), [{"id": ref, "name": "x"}]),
        lambda s, ref: s.merge(Recipe(id=ref, name="x")),
        lambda s, ref: s.execute(delete(Recipe).where(Recipe.id == ref)),
        lambda s, ref: s.scalar(select(func.count()).where(Recipe.parent_recipe_id == ref)),
    ],
)
def test_ways_that_save_no_drafts_refuse_them(
    session: RefSession,
    conversation: Conversation,
    soup: str,
    tables: Engine,
    way: Callable[[RefSession, str], object],
) -> None:
    """The unit of work saves drafts, and nothing else does."""
    with pytest.raises(DraftRefError, match="save the draft and use the ref it gets"):
        way(session, soup)
    session.rollback()

    assert (names(tables), pending(conversation)) == ([], [soup])


def test_with_raw_keys_the_text_is_no_ref(session: RefSession, soup: str) -> None:
    """Trusted code means what it says."""
    with session.raw_keys(), pytest.raises(StatementError):
        session.get(Recipe, soup)


async def test_drafts_in_an_asynchronous_session(
    async_sessions: AsyncSessions, conversation: Conversation, soup: str, tables: Engine
) -> None:
    """Each step is done inside an awaited call."""
    async with async_sessions(conversation=conversation) as session:
        recipe = await session.get_one(Recipe, soup)
        child = Recipe(name="Child", parent_recipe_id=soup)
        session.add_all([child, recipe])
        await session.flush()
        await session.rollback()
        assert recipe.id == soup
        session.add_all([child, recipe])
        await session.commit()
        await session.refresh(child)
        found = await session.get_one(Recipe, soup)
        assert (found.name, child.parent_recipe_id) == ("Soup", found.id)

    assert names(tables) == ["Child", "Soup"]


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
