"""What is kept of what sessions do that say by whom: `RefSession(by=...)`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest
from sqlalchemy import Engine, Table, delete, func, insert, inspect, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import AsyncRefSession, Conversation, GoneRefError, RefSession, SetupError
from alfred_refs.session import transactions
from alfred_refs.store import Actor
from alfred_refs.tools import Toolset
from tests.fix_session import TravelLog
from tests.models import (
    Cook,
    Guest,
    MealPlan,
    Order,
    OrderLine,
    Person,
    Recipe,
    RecipeNote,
    devices,
)

Sessions = sessionmaker[RefSession]
Known = dict[str, tuple[str, str]]


@pytest.fixture
def user(sessions: Sessions, conversation: Conversation) -> Callable[[], RefSession]:
    """Open a session that works for the user, as an application's screens do."""
    return lambda: sessions(conversation=conversation, by="user")


def known(conversation: Conversation) -> Known:
    """Return the last action with each row, and who did it."""
    entries = conversation.activity(10).entries
    return {str(each.ref): (each.action, each.actor) for each in entries}


REFS = ["recipe_1", "recipe_2"]
User = Callable[[], RefSession]


def test_what_is_committed_is_kept_with_who_did_it(user: User, conversation: Conversation) -> None:
    """Created, changed, deleted; each row by its last action."""
    with user() as session:
        a, b, c = (Recipe(name=name) for name in "abc")
        session.add_all([a, b, c])
        session.commit()
        b.name = "B"
        refs = a.id, b.id, c.id
        session.delete(c)
        session.commit()
    actions = [known(conversation)[ref] for ref in refs]
    assert actions == [("created", "user"), ("updated", "user"), ("deleted", "user")]


@pytest.mark.parametrize("by", ["model", "user"])
def test_either_can_be_said(
    sessions: Sessions, conversation: Conversation, by: Actor, recipes: list[Recipe]
) -> None:
    """And nobody else."""
    with sessions(conversation=conversation, by=by) as session:
        session.get_one(Recipe, conversation.refer(Recipe, recipes[0].id)).name = "x"
        session.commit()
    assert known(conversation) == {"recipe_1": ("updated", by)}
    with pytest.raises(SetupError, match="'model', 'user' or nothing"):
        sessions(conversation=conversation, by="nobody")


def test_a_session_that_says_nothing_keeps_nothing(
    session: RefSession, conversation: Conversation, store: TravelLog
) -> None:
    """And asks the store for nothing more."""
    session.add(Recipe(name="a"))
    session.commit()
    assert known(conversation) == {}
    assert store.trips == []


def test_a_row_that_came_and_went_is_not_told(user: User, conversation: Conversation) -> None:
    """It has no ref, and gets none."""
    with user() as session:
        recipe = Recipe(name="a")
        session.add(recipe)
        session.flush()
        session.delete(recipe)
        session.commit()
    assert known(conversation) == {}


def test_an_object_that_is_set_to_what_it_was_is_not_changed(
    user: User, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """As SQLAlchemy sees it: nothing was sent."""
    with user() as session:
        session.get_one(Recipe, conversation.refer(Recipe, recipes[0].id)).name = "A"
        session.commit()
    assert known(conversation) == {}


def test_cascades_are_kept(user: User, conversation: Conversation) -> None:
    """Rows that the ORM deletes with another."""
    with user() as session:
        recipe = Recipe(name="a", plans=[MealPlan()])
        session.add(recipe)
        session.commit()
        session.delete(recipe)
        session.commit()
    assert known(conversation) == {
        "meal_plan_1": ("deleted", "user"),
        "recipe_1": ("deleted", "user"),
    }


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (update(Recipe).where(Recipe.name < "C").values(name="x"), "updated"),
        (delete(Recipe).where(Recipe.name < "C"), "deleted"),
        (update(Recipe).where(Recipe.id.in_(REFS)).values(name="x"), "updated"),
        (delete(Recipe).where(Recipe.id.in_(REFS)), "deleted"),
    ],
)  # fmt: skip
def test_statements_are_kept_row_by_row(
    user: User, conversation: Conversation, recipes: list[Recipe], statement: Any, expected: str
) -> None:
    """By whatever criteria they find their rows."""
    conversation.refer_all(Recipe, [each.id for each in recipes])
    with user() as session:
        session.execute(statement)
        session.commit()
    told = dict.fromkeys(REFS, (expected, "user"))
    assert known(conversation) == told


def test_rows_changed_by_a_list_of_records_are_kept(
    user: User, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """They are named by primary key."""
    ref = conversation.refer(Recipe, recipes[0].id)
    with user() as session:
        session.execute(update(Recipe), [{"id": ref, "name": "x"}])
        session.commit()
    assert known(conversation) == {ref: ("updated", "user")}


def test_of_very_many_rows_the_first_are_kept(
    user: User,
    conversation: Conversation,
    recipes: list[Recipe],  # noqa: ARG001  # there are some
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A statement that changes a million rows is not written down row by row."""
    monkeypatch.setattr(transactions, "MOST", 2)
    with user() as session:
        result = session.execute(update(Recipe).values(name="x"))
        session.commit()
        assert (len(known(conversation)), result.rowcount) == (2, 5)  # type: ignore[attr-defined]
        session.add_all([Recipe(name=str(n)) for n in range(5)])
        session.commit()
    assert len(known(conversation)) == 4


def test_a_row_that_others_have_deleted_is_told_as_soon_as_it_is_known(
    user: User, conversation: Conversation, recipes: list[Recipe], tables: Any
) -> None:
    """A model that was told of it is told that it is gone."""
    ref = conversation.refer(Recipe, recipes[0].id)
    with user() as session:
        session.get_one(Recipe, ref).name = "x"
        session.commit()
    with Session(tables) as plain:
        plain.execute(delete(Recipe).where(Recipe.name == "x"))
        plain.commit()
    with user() as session, pytest.raises(GoneRefError):
        session.get_one(Recipe, ref)
    [entry] = conversation.activity(3).entries
    assert entry.gone == "was deleted"


def test_a_commit_costs_one_round_trip_more(user: User, store: TravelLog) -> None:
    """However many rows it has, and whether they had refs before."""
    trips: list[str] = []
    note = store.note

    def noted(*arguments: Any, **more: Any) -> None:
        trips.append("note")
        note(*arguments, **more)

    store.note = noted  # type: ignore[method-assign]
    with user() as session:
        session.add_all([Recipe(name=str(n)) for n in range(20)])
        session.commit()
    assert (store.trips, trips) == ([], ["note"])


def test_a_note_that_cannot_be_made_is_in_nobodys_way(
    user: User, store: TravelLog, tables: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit is done; it is logged, without a key."""

    def refused(*_: Any, **__: Any) -> None:
        raise SetupError("the registry is away", "wait")

    store.note = refused  # type: ignore[method-assign]
    with user() as session:
        session.add(Recipe(name="a"))
        session.commit()
    with Session(tables) as plain:
        assert plain.scalar(select(func.count()).select_from(Recipe)) == 1
    assert "could not record the activity" in caplog.text


@pytest.mark.parametrize("key", [{}, {"id": uuid.uuid4()}])
def test_an_insert_by_statement_is_kept(
    user: User, conversation: Conversation, key: dict[str, Any]
) -> None:
    """With a key that is given, or returned by the database."""
    with user() as session:
        session.execute(insert(Recipe).values(name="a", **key))
        session.commit()
    assert known(conversation) == {"recipe_1": ("created", "user")}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (update(Guest).values(mentor_id=None), {"person_2": ("updated", "user")}),
        (update(Cook).where(Cook.stars == 3).values(stars=4), {"person_3": ("updated", "user")}),
        (delete(Cook).where(Cook.stars == 3), {"person_3": ("updated", "user")}),
        (update(cast(Table, Person.__table__)).values(kind="person"), "all"),
    ],
)
def test_of_a_class_with_subclasses_its_own_rows_are_kept(
    user: User, conversation: Conversation, tables: Any, statement: Any, expected: Any
) -> None:
    """A statement on one of them reaches no others, and one on the table reaches them all."""
    with Session(tables) as plain:
        people = [Person(), Guest(), Cook(stars=3)]
        plain.add_all(people)
        plain.commit()
        keys = [uuid.UUID(str(each.id)) for each in people]
    refs = conversation.refer_all(Person, keys)
    with user() as session:
        session.execute(statement)
        session.commit()
    everyone = dict.fromkeys(refs, ("updated", "user"))
    assert known(conversation) == (everyone if expected == "all" else expected)


def test_rows_without_refs_of_their_own_are_kept_where_they_were_shown(
    user: User, conversation: Conversation
) -> None:
    """By objects and by statements; what no tool has shown has no ref, and gets none."""
    with user() as session:
        session.add(Order(id=7, number=1))
        session.flush()
        session.add_all([OrderLine(order_id=7, position=n) for n in range(1, 5)])
        session.commit()
    assert known(conversation) == {"order_1": ("created", "user")}

    refs = conversation.refer_all(OrderLine, [(7, n) for n in range(1, 4)])
    with user() as session:
        first, second, _, fourth = session.scalars(select(OrderLine).order_by(OrderLine.position))
        first.note = fourth.note = "x"
        session.delete(second)
        session.commit()
        session.execute(update(OrderLine).where(OrderLine.position == 3).values(note="y"))
        session.execute(delete(OrderLine).where(OrderLine.position == 4))
        session.commit()
    assert known(conversation) == {
        "order_1": ("created", "user"),
        refs[0]: ("updated", "user"),
        refs[1]: ("deleted", "user"),
        refs[2]: ("updated", "user"),
    }


def test_rows_whose_key_is_that_of_another_are_kept_where_they_were_shown(
    user: User, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """They have refs as those of several key columns have."""
    recipe = conversation.refer(Recipe, recipes[0].id)
    with user() as session:
        session.add(RecipeNote(recipe_id=recipe, note="a"))
        session.commit()
        assert known(conversation) == {}
        [ref] = conversation.refer_all(RecipeNote, [recipes[0].id])
        session.execute(update(RecipeNote).where(RecipeNote.recipe_id == recipe).values(note="b"))
        session.commit()
        assert known(conversation) == {ref: ("updated", "user")}
        session.delete(session.get_one(RecipeNote, recipe))
        session.commit()
    assert known(conversation) == {ref: ("deleted", "user")}


@pytest.mark.parametrize(
    "bind_arguments",
    [{}, {"mapper": Recipe}, {"mapper": inspect(Recipe)}],
    ids=["none", "class", "mapper"],
)
def test_rows_of_tables_are_kept_as_those_of_classes(
    user: User, conversation: Conversation, tables: Any, bind_arguments: dict[str, Any]
) -> None:
    """Whether a class is mapped to the table or not, and whichever class names the database."""
    lines = cast(Table, OrderLine.__table__)
    with Session(tables) as plain:
        plain.add(Order(id=7, number=1))
        plain.flush()
        plain.add_all([OrderLine(order_id=7, position=n) for n in (1, 2)])
        plain.commit()
    first, second = conversation.refer_all(OrderLine, [(7, 1), (7, 2)])
    a, b = uuid.uuid4(), uuid.uuid4()
    with user() as session:
        execute = partial(session.execute, bind_arguments=bind_arguments)
        assert execute(text("select 'a'")).scalar() == "a"
        execute(update(lines).where(lines.c.position == 1).values(note="x"))
        execute(delete(lines).where(lines.c.position == 2))
        execute(insert(devices).values(id=a))
        execute(insert(devices), [{"id": b}])
        session.commit()
        execute(delete(devices).where(devices.c.id == b))
        session.commit()
    one, other = conversation.refer_all("device", [a, b])
    assert known(conversation) == {
        one: ("created", "user"),
        other: ("deleted", "user"),
        first: ("updated", "user"),
        second: ("deleted", "user"),
    }


def test_an_insert_of_several_records_is_kept_as_far_as_it_tells_the_keys(
    user: User, conversation: Conversation
) -> None:
    """They are given, or returned; of an upsert nobody tells which records have met rows."""
    keys = [uuid.uuid4(), uuid.uuid4()]
    records: list[dict[str, Any]] = [{"name": "a", "id": keys[0]}, {"name": "b", "id": keys[1]}]
    upsert = postgresql.insert(Recipe).on_conflict_do_nothing()
    with user() as session:
        session.execute(insert(Recipe), records)
        session.execute(insert(Recipe), [{"name": "unknown"}])
        session.execute(insert(Recipe).returning(Recipe.id), [{"name": "c"}, {"name": "d"}])
        session.commit()
    refs = [f"recipe_{n}" for n in range(1, 5)]
    assert known(conversation) == dict.fromkeys(refs, ("created", "user"))
    conversation.drop(refs)
    with user() as session:
        session.execute(upsert, records)
        session.commit()
    assert known(conversation) == {}


@pytest.mark.parametrize(
    ("returned", "fetch", "is_kept"),
    [
        ([Recipe], lambda result: [each.name for each in result.scalars()], True),
        ([Recipe.name, Recipe.id], lambda result: [name for name, _ in result], True),
        (
            [Recipe.id.label("key"), Recipe.name],
            lambda result: [row.name for row in result],
            False,
        ),
        ([Recipe.name], lambda result: [*result.scalars()], False),
    ],
)
@pytest.mark.parametrize("form", ["values", "rows", "parameters"])
def test_an_insert_is_kept_where_it_returns_the_key(
    user: User,
    conversation: Conversation,
    returned: list[Any],
    fetch: Callable[[Any], list[str]],
    form: str,
    *,
    is_kept: bool,
) -> None:
    """By its own name, in whatever form values are given; a program gets all that is returned."""
    statement = insert(Recipe).returning(*returned)
    parameters = {"name": "a"} if form == "parameters" else None
    if form != "parameters":
        statement = statement.values([{"name": "a"}] if form == "rows" else {"name": "a"})
    with user() as session:
        assert fetch(session.execute(statement, parameters)) == ["a"]
        session.commit()
    if form == "parameters" or is_kept:  # SQLAlchemy has parameters returned with their keys
        assert known(conversation) == {"recipe_1": ("created", "user")}
    else:
        assert known(conversation) == {}


def _commits_inside(session: RefSession) -> None:
    session.begin_nested().commit()
    session.rollback()


def _fails_to_flush(session: RefSession) -> None:
    session.add(MealPlan())
    with pytest.raises(IntegrityError):
        session.commit()
    session.rollback()


def _fails_to_commit(session: RefSession) -> None:
    """Write what a constraint refuses that is looked at no sooner."""
    session.execute(text("INSERT INTO late VALUES (gen_random_uuid())"))
    with pytest.raises(IntegrityError):
        session.commit()
    session.rollback()


def _commits_what_is_aborted(session: RefSession) -> None:
    """Go on after an error as if nothing were: PostgreSQL rolls back, and does not say so."""
    with pytest.raises(DataError):
        session.execute(text("SELECT 1 / 0"))
    session.commit()


LATE = text("CREATE TABLE late (id uuid REFERENCES recipes DEFERRABLE INITIALLY DEFERRED)")
UNDONE = [
    *(RefSession.rollback, RefSession.close, _commits_inside, _fails_to_flush, _fails_to_commit),
    _commits_what_is_aborted,
]


@pytest.mark.parametrize("finds", [True, False])
@pytest.mark.parametrize("undo", UNDONE)
def test_what_is_undone_was_never_done(
    user: User,
    conversation: Conversation,
    recipes: list[Recipe],
    tables: Engine,
    *,
    undo: Callable[[RefSession], None],
    finds: bool,
) -> None:
    """By objects and by statements, though the session has not found the row meanwhile."""
    with tables.begin() as connection:
        connection.execute(LATE)
    first, second = conversation.refer_all(Recipe, [each.id for each in recipes[:2]])
    with user() as session:
        session.get_one(Recipe, second).name = "x"
        session.add(Recipe(name="new"))
        session.execute(delete(Recipe).where(Recipe.id == first))
        if finds:
            with pytest.raises(GoneRefError):
                session.get_one(Recipe, first)
        undo(session)
    assert known(conversation) == {}
    assert conversation.resolve(first) == recipes[0].id
    with user() as session:
        assert [session.get_one(Recipe, ref).name for ref in (first, second)] == ["A", "B"]


@pytest.mark.parametrize("raises", [True, False])
def test_what_a_savepoint_undoes_was_never_done(
    user: User, conversation: Conversation, recipes: list[Recipe], raises: bool
) -> None:
    """What the transaction around it does is kept."""
    first, second = conversation.refer_all(Recipe, [each.id for each in recipes[:2]])
    with user() as session:
        with suppress(ZeroDivisionError), session.begin_nested() as inner:
            session.execute(delete(Recipe).where(Recipe.id == first))
            with pytest.raises(GoneRefError):
                session.get_one(Recipe, first)
            session.add(Recipe(name="lost"))
            session.flush()
            if raises:
                raise ZeroDivisionError
            inner.rollback()
        session.get_one(Recipe, second).name = "x"
        session.commit()
    assert known(conversation) == {second: ("updated", "user")}
    assert conversation.resolve(first) == recipes[0].id


def test_what_a_savepoint_fails_at_leaves_the_transaction_as_it_was(
    user: User, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """An error that a savepoint has undone aborts nothing."""
    ref = conversation.refer(Recipe, recipes[0].id)
    with user() as session:
        session.get_one(Recipe, ref).name = "x"
        with suppress(DataError), session.begin_nested():
            session.execute(text("SELECT 1 / 0"))
        session.commit()
    assert known(conversation) == {ref: ("updated", "user")}


READ = {"table": "recipes", "columns": ["name"]}


def _with_keys(session: RefSession) -> None:
    with session.raw_keys():
        session.execute(update(Recipe).where(Recipe.name == "A").values(name="x"))


def _saved_in_bulk(session: RefSession) -> None:
    recipe = session.get_one(Recipe, "recipe_1")
    recipe.name = "x"
    session.bulk_save_objects([recipe])


def _in_a_savepoint(session: RefSession) -> None:
    with session.begin_nested():
        session.bulk_update_mappings(Recipe, [RENAMED])


RENAMED = {"id": "recipe_1", "name": "x"}
WRITES: dict[str, Callable[[RefSession], object]] = {
    "an object": lambda session: setattr(session.get_one(Recipe, "recipe_1"), "name", "x"),
    "a statement": lambda session: session.execute(
        update(Recipe).where(Recipe.id == "recipe_1").values(name="x")
    ),
    "in bulk": lambda session: session.bulk_update_mappings(Recipe, [RENAMED]),
    "with keys": _with_keys,
    "saved in bulk": _saved_in_bulk,
    "in a savepoint": _in_a_savepoint,
}


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_a_call_in_a_transaction_that_has_written_is_kept_if_that_is_committed(
    sessions: Sessions,
    conversation: Conversation,
    recipes: list[Recipe],
    *,
    write: Callable[[RefSession], object],
    commits: bool,
) -> None:
    """What was shown may never have been; what is told then is what was committed."""
    conversation.refer_all(Recipe, [each.id for each in recipes])
    with sessions(conversation=conversation, by="model") as session:
        write(session)
        toolset = Toolset([Recipe])
        answer = toolset.call(session, "db_read", READ)
        assert "x" in [row["name"] for row in answer["rows"]]
        toolset.call(session, "db_read", {"table": "recipes", "columns": ["id"]})
        assert known(conversation) == {}
        if commits:
            session.commit()
    shown = [each.fields for each in conversation.activity().entries if each.fields]
    assert shown == [["id", "name"]] * (5 if commits else 0)


def test_a_call_in_a_transaction_that_has_read_is_kept_at_once(
    sessions: Sessions, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """It shows what is there, however the transaction ends; so it does when a savepoint undid."""
    toolset = Toolset([Recipe])
    with sessions(conversation=conversation, by="model") as session:
        session.scalars(select(Recipe)).all()
        with session.begin_nested() as inner:
            session.execute(update(Recipe).values(name="x"))
            inner.rollback()
        assert "error" not in toolset.call(session, "db_read", READ)
        session.rollback()
    assert [action for action, _ in known(conversation).values()] == ["read"] * len(recipes)


def test_calls_that_are_undone_with_the_transaction_around_them_were_never_made(
    sessions: Sessions, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """Rows that tools create, change and delete."""
    first, second = conversation.refer_all(Recipe, [each.id for each in recipes[:2]])
    toolset = Toolset([Recipe, MealPlan, RecipeNote])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("db_create", {"data": {"name": "new"}}),
        ("db_update", {"filters": _is(first), "data": {"name": "x"}}),
        ("db_delete", {"filters": _is(second)}),
        ("db_read", {}),
    ]
    with sessions(conversation=conversation, by="model") as session, session.begin() as begun:
        for tool, arguments in calls:
            assert "error" not in toolset.call(session, tool, {"table": "recipes", **arguments})
        begun.rollback()
    assert known(conversation) == {}
    assert conversation.resolve(second) == recipes[1].id


def _is(ref: str) -> list[dict[str, Any]]:
    return [{"field": "id", "op": "=", "value": ref}]


@pytest.mark.asyncio
@pytest.mark.parametrize("commits", [True, False])
async def test_asynchronous_calls_are_kept_as_others_are(
    async_engine: AsyncEngine, chat: Conversation, commits: bool
) -> None:
    """At once where they are transactions of their own, or else when that is committed."""
    toolset = Toolset([Recipe])
    made = {"table": "recipes", "data": {"name": "a"}}
    own = {"recipe_1": ("created", "model")}
    async with AsyncRefSession(async_engine, conversation=chat, by="model") as session:

        async def told() -> Known:
            return await session.run_sync(lambda _: known(chat))

        assert "error" not in await toolset.call_async(session, "db_create", made)
        assert await told() == own
        _ = await session.begin()
        assert "error" not in await toolset.call_async(session, "db_create", made)
        assert await told() == own
        await (session.commit() if commits else session.rollback())
        assert await told() == own | ({"recipe_2": ("created", "model")} if commits else {})
