"""What became of rows and drafts, asked before anything is read: reading a row calls it back."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, delete, insert, select
from sqlalchemy.orm import Session

from alfred_refs import (
    Conversation,
    GoneRefError,
    Ownership,
    RefRegistry,
    RefSession,
    StaleDraftError,
)
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset
from tests import owned
from tests.fix_owned import World
from tests.models import Cook, Guest, MealPlan, Order, Person, Recipe, RecipeNote
from tests.row_status import elsewhere

pytestmark = pytest.mark.usefixtures("one_base")

THERE, DELETED, UNSAVED = "is there", "was deleted", "was never saved"


def fate(conversation: Conversation, ref: str) -> str:
    """Return what the registry knows of a row, without a look at its table."""
    try:
        conversation.resolve(ref)
    except GoneRefError as error:
        return error.reason
    return THERE


# Savepoints

POSITIONS = ("before", "outer", "inner", "then")


@contextmanager
def savepoint(session: RefSession, *, released: bool) -> Iterator[None]:
    """Have what is done inside the `with` released, or undone."""
    with session.begin_nested() as begun:
        yield
        if not released:
            begun.rollback()


class Changing:
    """One row that is inserted and deleted by turns, and what is to become of it.

    Args:
        session: that changes it.
        key: of the row.
        there: whether it is there.
    """

    def __init__(self, session: RefSession, key: uuid.UUID, *, there: bool) -> None:
        self.session = session
        self.key = key
        self.there = there
        self.inserted = False

    def change(self) -> None:
        """Delete the row if it is there, or else insert it."""
        if self.there:
            self.session.delete(self.session.get_one(Recipe, self.key))
        else:
            self.session.add(Recipe(id=self.key, name="x"))
            self.inserted = True
        self.session.flush()
        self.there = not self.there


def done(
    row: Changing, places: set[str], *, inner: bool, outer: bool, committed: bool
) -> tuple[bool, bool]:
    """Change a row at these places, and return whether it is there, and was changed, then."""
    first, changed = row.there, "before" in places

    def at(place: str) -> None:
        if place in places:
            row.change()

    at("before")
    before_outer = row.there
    with savepoint(row.session, released=outer):
        at("outer")
        before_inner, inside = row.there, "outer" in places
        with savepoint(row.session, released=inner):
            at("inner")
        inside |= inner and "inner" in places
        row.there = row.there if inner else before_inner
        at("then")
        inside |= "then" in places
    changed |= outer and inside
    row.there = row.there if outer else before_outer
    (row.session.commit if committed else row.session.rollback)()
    return (row.there, changed) if committed else (first, False)


@pytest.mark.parametrize("released", list(itertools.product([True, False], repeat=3)))
def test_savepoints_decide_what_became_of_a_row(
    session: RefSession, conversation: Conversation, released: tuple[bool, bool, bool]
) -> None:
    """Wherever it is inserted and deleted: its ref says what the table would, here and there."""
    keys = [uuid.uuid4() for _ in range(2 * 2 ** len(POSITIONS))]
    refs = conversation.refer_all(Recipe, keys)
    session.add_all(Recipe(id=key, name="x") for key in keys[::2])
    session.commit()
    expected = []
    inner, outer, committed = released
    for number, key in enumerate(keys):
        places = {each for n, each in enumerate(POSITIONS) if number >> 1 & 1 << n}
        row = Changing(session, key, there=number % 2 == 0)
        there, changed = done(row, places, inner=inner, outer=outer, committed=committed)
        with Session(session.get_bind()) as plain:
            assert (plain.get(Recipe, key) is not None) is there
        gone = DELETED if changed else UNSAVED
        expected.append(THERE if there or not (row.inserted or changed) else gone)
        session.expunge_all()

    assert [fate(conversation, ref) for ref in refs] == expected
    other = elsewhere(conversation)
    assert [fate(other, ref) for ref in refs] == expected


# Subclasses


@pytest.fixture
def people(session: RefSession) -> list[Any]:
    """A person, a cook and a guest, saved and shown as `person_1` to `person_3`."""
    people = [Person(), Cook(stars=1), Guest()]
    for each in people:
        session.add(each)
        session.commit()
        assert each.id.startswith("person_")
    return people


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_subclasses_row_goes_with_the_ref_of_its_root(
    session: RefSession, conversation: Conversation, people: list[Any], place: int
) -> None:
    """Joined or of a single table: what was deleted is the person."""
    session.delete(people[place])
    session.commit()
    fates = [DELETED if n == place else THERE for n in range(3)]

    refs = ["person_1", "person_2", "person_3"]
    assert [fate(conversation, ref) for ref in refs] == fates
    assert [fate(elsewhere(conversation), ref) for ref in refs] == fates


@pytest.mark.parametrize("end", [Session.rollback, Session.close])
@pytest.mark.parametrize("class_", [Cook, Guest, Person])
def test_a_subclasses_row_that_is_rolled_back_was_never_saved(
    session: RefSession,
    conversation: Conversation,
    class_: type[Any],
    end: Callable[[Session], None],
) -> None:
    """By the ref that it had."""
    lost = class_()
    session.add(lost)
    session.flush()
    assert lost.id == "person_1"
    end(session)

    assert fate(conversation, "person_1") == UNSAVED
    assert fate(elsewhere(conversation), "person_1") == UNSAVED


def _delete(table: Any) -> Callable[[str], Any]:
    column = table.c.id
    return lambda ref: delete(table).where(column == ref)


@pytest.mark.parametrize(
    ("statement", "place", "expected"),
    [
        (_delete(Person.__table__), 0, DELETED),
        (lambda ref: delete(Person).where(Person.id == ref), 2, DELETED),
        (lambda ref: delete(Guest).where(Guest.id == ref), 2, DELETED),
        (lambda ref: delete(Guest).where(Guest.id == ref), 0, THERE),
        (_delete(Cook.__table__), 1, THERE),
        (lambda ref: delete(Cook).where(Cook.__table__.c.id == ref), 1, THERE),
    ],
)
@pytest.mark.usefixtures("people")
def test_a_statement_takes_rows_out_of_the_root_or_leaves_them(
    session: RefSession,
    conversation: Conversation,
    statement: Callable[[str], Any],
    place: int,
    expected: str,
) -> None:
    """The table of a joined subclass is not where the person is; the root's is."""
    refs = ["person_1", "person_2", "person_3"]
    session.expunge_all()
    options = {"synchronize_session": False}
    session.execute(statement(refs[place]), execution_options=options)
    session.commit()

    fates = [expected if n == place else THERE for n in range(3)]
    assert [fate(conversation, ref) for ref in refs] == fates
    assert [fate(elsewhere(conversation), ref) for ref in refs] == fates
    with Session(session.get_bind()) as plain:
        left = {*plain.scalars(select(Person.__table__.c.id))}
    assert len(left) == fates.count(THERE)


def test_deleting_a_row_whose_key_is_anothers_leaves_the_other(
    session: RefSession, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """A note's primary key is its recipe's: deleting the note does not make the recipe gone."""
    ref = conversation.refer(Recipe, recipes[0].id)
    by_statement = delete(RecipeNote).where(RecipeNote.recipe_id == ref)
    for delete_it in (session.delete, lambda _: session.execute(by_statement)):
        session.add(note := RecipeNote(recipe_id=ref, note="salt"))
        session.commit()
        delete_it(note)
        session.commit()

        assert session.scalars(select(RecipeNote)).all() == []
        assert fate(conversation, ref) == THERE


# What a statement leaves


def test_rows_that_a_statement_names_and_leaves_are_there(
    session: RefSession, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """Those that do not meet the rest of its criteria, in a savepoint too."""
    refs = conversation.refer_all(Recipe, [recipe.id for recipe in recipes])
    session.execute(delete(Recipe).where(Recipe.id.in_(refs), Recipe.name < "C"))
    with session.begin_nested():
        session.execute(delete(Recipe).where(Recipe.id.in_(refs), Recipe.name == "D"))
    with savepoint(session, released=False):
        session.execute(delete(Recipe).where(Recipe.id.in_(refs)))
    session.commit()

    expected = [DELETED, DELETED, THERE, DELETED, THERE]
    assert [fate(conversation, ref) for ref in refs] == expected
    assert [fate(elsewhere(conversation), ref) for ref in refs] == expected


def test_what_an_owner_cannot_delete_is_there(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """The statement is confined; the look at what is left is not."""
    store = MemoryStore()
    conversation = RefRegistry(store=store).conversation("chat-7", owner=world.users["ann"])
    whose = ("ann", "bob")
    refs = conversation.refer_all(owned.Plan, [world.plans[who] for who in whose])
    owner = ownership.of(world.users["ann"])
    with RefSession(owned_engine, conversation=conversation, owner=owner) as session:
        session.execute(delete(owned.Plan).where(owned.Plan.id.in_(refs)))
        session.commit()

    assert [fate(conversation, ref) for ref in refs] == [DELETED, THERE]
    other = RefRegistry(store=store).conversation("chat-7", owner=world.users["ann"])
    assert [fate(other, ref) for ref in refs] == [DELETED, THERE]


# A draft whose saver told nobody

SOUP = {"name": "Soup", "plans": [{"day": "2026-05-01"}]}
DRAFT = "gen_recipe_1"
BY_REF = [{"field": "id", "op": "=", "value": DRAFT}]


def dies_after_the_commit(engine: Engine, model: type[Any], draft: str, key: Any) -> None:
    """Do what a process does that dies between the commit of a draft's row and the note of it."""
    chat = RefRegistry(engine).conversation("chat-7")
    [reserved] = chat.reserve_keys({draft: key}).values()
    assert reserved.key == key
    with engine.begin() as connection:
        values = {"name": "Soup"} if model is Recipe else {"number": 7}
        connection.execute(insert(model).values(id=key, **values))


@pytest.fixture
def untold(tables: Engine, conversation: Conversation) -> uuid.UUID:
    """The key of a row that is there, and whose draft nobody has called saved."""
    conversation.draft(Recipe, SOUP)
    key = uuid.uuid4()
    dies_after_the_commit(tables, Recipe, DRAFT, key)
    return key


@pytest.fixture
def other(tables: Engine, untold: uuid.UUID) -> Iterator[RefSession]:
    """A session of another process, which has met nothing."""
    assert isinstance(untold, uuid.UUID)
    conversation = RefRegistry(tables).conversation("chat-7")
    with RefSession(tables, conversation=conversation) as session:
        yield session


def _tool(tool: str, **asked: Any) -> Callable[[RefSession], Any]:
    def call(session: RefSession) -> Any:
        answer = Toolset([Recipe, MealPlan]).call(session, tool, {"table": "recipes", **asked})
        if tool == "db_delete":
            return answer["deleted"][0]
        [row] = answer["rows"]
        return row.get("recipe_id", row["id"])

    return call


@pytest.mark.parametrize(
    "find",
    [
        lambda session: session.get_one(Recipe, DRAFT).id,
        lambda session: session.scalars(select(Recipe).where(Recipe.id == DRAFT)).one().id,
        lambda session: session.scalars(select(Recipe.id).where(Recipe.id.in_([DRAFT]))).one(),
        lambda session: session.query(Recipe.id).filter_by(id=DRAFT).one()[0],
        lambda session: (
            (session.merge(MealPlan(recipe_id=DRAFT)) and session.commit())
            or session.scalars(select(MealPlan.recipe_id)).one()
        ),
        _tool("db_read", filters=BY_REF),
        _tool("db_read", filters=[{"field": "id", "op": "in", "value": [DRAFT]}]),
        _tool("db_update", filters=BY_REF, data={"name": "Stew"}),
        _tool("db_delete", filters=BY_REF),
        _tool("db_create", from_draft=DRAFT),
        _tool("db_create", from_draft=DRAFT, data={"name": "Stew"}),
        _tool("db_create", table="meal_plans", data={"recipe_id": DRAFT}),
    ],
)
def test_a_draft_whose_saver_told_nobody_names_its_row(
    other: RefSession, tables: Engine, untold: uuid.UUID, find: Callable[[RefSession], Any]
) -> None:
    """To whoever meets it first, and from then on to all: one row, and no draft any more."""
    assert find(other) == "recipe_1"

    other.commit()
    third = RefRegistry(tables).conversation("chat-7")
    assert [draft.ref for draft in third.drafts()] == []
    [draft] = third.drafts(states=["saved"], keys=True)
    assert (draft.saved, draft.key) == ("recipe_1", untold)
    with Session(tables) as plain:
        assert len(plain.scalars(select(Recipe.id)).all()) <= 1


def test_an_integer_that_a_saver_told_nobody_of_is_found_by_a_session(
    tables: Engine, conversation: Conversation
) -> None:
    """Which knows where its rows are; it tells the registry, and so the others."""
    conversation.draft(Order, {"number": 7})
    dies_after_the_commit(tables, Order, "gen_order_1", 41)
    chat = RefRegistry(tables).conversation("chat-7")
    with RefSession(tables, conversation=chat) as session:
        found = session.scalars(select(Order).where(Order.id == "gen_order_1")).one()
        assert (found.id, found.number) == ("order_1", 7)

    assert RefRegistry(tables).conversation("chat-7").resolve("gen_order_1") == 41


def test_whoever_reserves_a_key_for_it_is_told_of_the_row(
    tables: Engine, untold: uuid.UUID
) -> None:
    """There is nothing left to insert: the key is that of the row, and the registry knows it."""
    chat = RefRegistry(tables).conversation("chat-7")
    [draft] = chat.reserve_keys({DRAFT: uuid.uuid4()}).values()

    assert (draft.state, draft.saved, draft.key) == ("saved", "recipe_1", untold)


@pytest.mark.parametrize("whole", [True, False])
def test_a_row_that_was_there_names_no_draft_after_a_rollback(
    session: RefSession, conversation: Conversation, recipes: list[Recipe], whole: bool
) -> None:
    """It is loaded anew, as the table has it: only what is new has the draft's ref again."""
    draft = conversation.draft(Recipe, SOUP).ref
    there = session.scalars(select(Recipe).where(Recipe.name == recipes[0].name)).one()
    new = Recipe(name="new", parent_recipe_id=draft)
    undone = session if whole else session.begin_nested()
    there.parent_recipe_id = draft
    session.add_all([session.get_one(Recipe, draft), new])
    session.flush()
    assert there.parent_recipe_id == new.parent_recipe_id != draft
    undone.rollback()

    shown: list[Any] = [there.parent_recipe_id, new.parent_recipe_id]
    assert shown == [None, draft]
    session.commit()
    assert session.scalars(select(Recipe.parent_recipe_id).distinct()).all() == [None]


# Turns


def test_an_edit_is_of_the_turn_of_the_process_that_makes_it(
    tables: Engine, conversation: Conversation
) -> None:
    """However many have begun meanwhile: by itself, and in a session by the tools."""
    conversation.begin_turn()
    drafts = [conversation.draft(Recipe, SOUP).ref for _ in range(3)]
    later = RefRegistry(tables).conversation("chat-7")
    later.begin_turn()
    toolset = Toolset([Recipe, MealPlan])

    def by_tool(chat: Conversation, ref: str) -> None:
        by_ref = [{"field": "id", "op": "=", "value": ref}]
        asked = {"table": "recipes", "filters": by_ref, "data": {"name": "Stew"}}
        with RefSession(tables, conversation=chat) as session:
            assert toolset.call(session, "db_update", asked)["count"] == 1

    later.edit_draft(drafts[0], {"name": "Stew"})
    by_tool(later, drafts[1])
    edited = [(each.turn, each.edited) for each in conversation.read_drafts(drafts)]
    assert edited == [(1, 2), (1, 2), (1, 1)]

    conversation.edit_draft(drafts[0], {"name": "Dal"})
    by_tool(conversation, drafts[1])
    later.begin_turn()
    by_tool(later, drafts[2])
    edited = [(each.turn, each.edited) for each in later.read_drafts(drafts)]
    assert edited == [(1, 1), (1, 1), (1, 3)]
    assert (conversation.draft(Recipe, {}).turn, later.draft(Recipe, {}).turn) == (1, 3)


def test_a_session_works_in_the_turn_of_its_conversation(
    session: RefSession, tables: Engine, conversation: Conversation
) -> None:
    """As it stands when the work is done, and not when the session was made."""
    view = session.own_view
    assert view is not None
    conversation.begin_turn()
    RefRegistry(tables).conversation("chat-7").begin_turn()

    assert (view.turn, view.draft(Recipe, {}).turn) == (1, 1)
    assert view.begin_turn() == 3
    assert (conversation.turn, conversation.draft(Recipe, {}).turn) == (3, 3)


def test_the_draft_that_somebody_has_edited_is_named(conversation: Conversation) -> None:
    """Of several that were to be edited, and of which none is."""
    refs = [conversation.draft(Recipe, {"name": name}).ref for name in "ABC"]
    conversation.edit_draft(refs[1], {"name": "other"})
    contents = {ref: {"name": "mine"} for ref in refs}
    with pytest.raises(StaleDraftError) as caught:
        conversation.edit_drafts(contents, versions=dict.fromkeys(refs, 1))

    assert (caught.value.ref, caught.value.version, caught.value.newest) == (refs[1], 1, 2)
    assert [each.content["name"] for each in conversation.drafts()] == ["A", "other", "C"]
