"""What an owner changes in a session: connections, refs, transactions, and asynchronous work."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, delete, event, insert, select, text, update
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import ORMExecuteState, Session, selectinload, sessionmaker

from alfred_refs import (
    AsyncRefSession,
    BadRefError,
    Conversation,
    ForeignRowError,
    GoneRefError,
    Ownership,
    OwnershipError,
    RefRegistry,
    RefSession,
    UnconfinedError,
    UnknownConversationError,
)
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset
from tests import owned
from tests.fix_owned import World
from tests.owned import Animal, Ingredient, Line, Plan, Recipe, Secret, Shelf, User


@pytest.fixture
def registry() -> RefRegistry:
    """A registry in memory."""
    return RefRegistry(store=MemoryStore())


@pytest.fixture
def talk(registry: RefRegistry, world: World) -> Conversation:
    """A conversation of ann's."""
    return registry.conversation("chat-7", owner=world.users["ann"])


@pytest.fixture
def talking(
    owned_engine: Engine, world: World, ownership: Ownership, talk: Conversation
) -> Iterator[RefSession]:
    """A session on behalf of ann, which shows refs."""
    owner = ownership.of(world.users["ann"])
    with RefSession(owned_engine, conversation=talk, owner=owner) as session:
        yield session


# Connections


def test_the_connection_is_not_handed_out(ann: RefSession, world: World) -> None:
    """What is executed on it directly would not be confined; trusted code asks for it."""
    with pytest.raises(UnconfinedError, match=r"session\.connection\(\)"):
        ann.connection()
    with ann.unconfined():
        assert ann.connection().scalar(text("select count(*) from recipes")) == 3
    assert ann.get(Recipe, world.recipes["bob"]) is None


def test_blocks_may_be_left_in_any_order(ann: RefSession) -> None:
    """As long as one of them is open, the walls are down, and no longer; within a call, too."""
    seen: list[int] = []

    def look() -> None:
        seen.append(len(ann.scalars(select(Recipe.id)).all()))

    def leave_out_of_order() -> None:
        first, second = ann.unconfined(), ann.unconfined()
        for block in (first, second):
            block.__enter__()
        for block in (first, second):
            look()
            block.__exit__(None, None, None)

    def listen(execution: ORMExecuteState) -> None:
        if execution.execution_options.get("asked"):
            leave_out_of_order()

    event.listen(ann, "do_orm_execute", listen)
    asked = {"asked": True}
    assert len(ann.scalars(select(Recipe.id), execution_options=asked).all()) == 2
    leave_out_of_order()
    look()
    assert seen == [3, 3, 3, 3, 2]


def test_another_session_on_the_connection_is_not_confined(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """A connection that is the program's own is confined while the owned session is at work."""
    with owned_engine.connect() as connection:
        own, plain = connection.dialect, Session(connection)
        owner = ownership.of(world.users["ann"])
        with RefSession(connection, owner=owner) as session:
            assert len(session.scalars(select(Recipe)).all()) == 2
            assert len(plain.scalars(select(Recipe)).all()) == 3
            assert connection.scalar(text("select count(*) from recipes")) == 3
            assert connection.dialect is own
            assert len(session.scalars(select(Line)).all()) == 2
            with session.begin_nested():
                session.add(Recipe(name="new"))
            assert len(session.scalars(select(Recipe)).all()) == 3
        assert connection.dialect is own
        plain.close()


def test_an_error_leaves_the_connection_as_it_was(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """A statement that fails, or is refused, takes the walls down behind it."""
    with owned_engine.connect() as connection:
        with RefSession(connection, owner=ownership.of(world.users["ann"])) as session:
            for statement in (select(Secret), update(Plan).values(day=2**40)):
                with pytest.raises(Exception, match=r"confined|out of range"):
                    session.execute(statement)
                session.rollback()
        assert len(Session(connection).scalars(select(Recipe)).all()) == 3


def test_savepoints_and_two_phases_go_as_ever(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """What SQLAlchemy sends for a transaction is its own."""
    owner = ownership.of(world.users["ann"])
    with RefSession(owned_engine, owner=owner) as session:
        session.get(Recipe, world.recipes["ann"])
        with session.begin_nested() as savepoint:
            session.execute(update(Recipe).values(minutes=1))
            savepoint.rollback()
        assert set(session.scalars(select(Recipe.minutes))) == {0}


def test_listeners_of_the_session_are_confined_too(ann: RefSession) -> None:
    """A statement that a `do_orm_execute` of the application's puts in place is confined."""

    @event.listens_for(ann, "do_orm_execute")
    def replace(execution: Any) -> None:
        execution.statement = select(Recipe.name).order_by(Recipe.name)

    assert ann.scalars(select(Plan.code)).all() == ["all", "ann"]


def test_binds_of_classes_are_confined_each(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """A session with several engines confines all of them."""
    other = create_engine(owned_engine.url)
    owner = ownership.of(world.users["ann"])
    with RefSession(binds={Recipe: owned_engine, Plan: other}, owner=owner) as session:
        assert len(session.scalars(select(Recipe)).all()) == 2
        assert len(session.scalars(select(Plan)).all()) == 1
    other.dispose()


# Refs


@pytest.mark.usefixtures("world")
def test_refs_and_owners_go_together(talking: RefSession) -> None:
    """Refs go in and out as ever; the owner is a key, and never taken for a ref."""
    recipes = talking.scalars(select(Recipe).order_by(Recipe.name)).all()
    assert [recipe.id for recipe in recipes] == ["recipe_1", "recipe_2"]
    assert recipes[1].user_id == "user_1"
    assert talking.get(Recipe, "recipe_2") is recipes[1]
    plan = Plan(recipe_id="recipe_1")
    talking.add(plan)
    talking.execute(insert(Plan).values(recipe_id="recipe_2", code="new"))
    talking.commit()
    assert (plan.recipe_id, plan.user_id) == ("recipe_1", "user_1")
    assert talking.scalars(select(Plan.user_id).distinct()).all() == ["user_1"]


def test_a_ref_of_a_foreign_row_names_nothing_here(
    talking: RefSession, talk: Conversation, world: World
) -> None:
    """It stays what it was, and is not called gone, as one of a row that is not there is."""
    foreign = talk.refer(Recipe, world.recipes["bob"])
    nothing = talk.refer(Recipe, uuid.uuid4())
    assert talking.get(Recipe, foreign) is None
    assert talking.scalars(select(Recipe).where(Recipe.id == foreign)).all() == []
    for ref in (foreign, nothing):
        talking.add(Plan(recipe_id=ref))
        with pytest.raises(ForeignRowError) as caught:
            talking.flush()
        assert caught.value.ref == ref
        assert str(caught.value) == (
            f"{ref!r} in Plan.recipe_id cannot be used here; read the rows that can, and use one"
        )
        talking.rollback()
    talking.execute(delete(Recipe).where(Recipe.id == foreign))
    talking.execute(update(Recipe).where(Recipe.id == foreign).values(name="x"))
    talking.commit()
    assert talk.resolve(foreign) == world.recipes["bob"]
    with pytest.raises(GoneRefError, match=f"{nothing!r} was deleted and cannot be used"):
        talking.get(Recipe, nothing)


def test_a_foreign_row_that_was_loaded_is_not_called_gone(
    talking: RefSession, talk: Conversation, world: World
) -> None:
    """That the owner cannot refresh an instance does not tell that its row was deleted."""
    with talking.unconfined():
        foreign = talking.get(Recipe, talk.refer(Recipe, world.recipes["bob"]))
    assert foreign.id == "recipe_1"
    talking.expire(foreign)

    assert talking.get(Recipe, "recipe_1") is None
    talking.commit()

    assert talk.resolve("recipe_1") == world.recipes["bob"]


@pytest.mark.usefixtures("world")
def test_own_rows_are_gone_when_they_are_deleted(talking: RefSession, talk: Conversation) -> None:
    """As in a session without owner, by flush and by statement."""
    for way in ("flush", "statement"):
        recipe = Recipe(name="new")
        talking.add(recipe)
        talking.commit()
        ref = recipe.id
        if way == "flush":
            talking.delete(recipe)
        else:
            talking.execute(delete(Recipe).where(Recipe.id == ref))
        talking.commit()
        with pytest.raises(GoneRefError):
            talk.resolve(ref)


def test_errors_of_an_owned_session_show_no_key(talking: RefSession, world: World) -> None:
    """Neither the owner's, which each statement has as a parameter, nor those that it names."""
    with pytest.raises(Exception, match="out of range") as caught:
        talking.execute(update(Plan).values(day=2**40))
    assert str(world.users["ann"]) not in str(caught.value)
    assert str(world.users["ann"]) not in repr(vars(caught.value))


def test_a_conversation_of_another_owner_is_refused(
    owned_engine: Engine, world: World, ownership: Ownership, registry: RefRegistry
) -> None:
    """The owner of the session must be the one whose conversation it is."""
    owner = ownership.of(world.users["ann"])
    theirs = registry.conversation("chat-8", owner=world.users["ann"])
    with RefSession(owned_engine, conversation=theirs, owner=owner) as session:
        assert session.owner is owner
    others = registry.conversation("chat-9", owner=world.users["bob"])
    with pytest.raises(OwnershipError, match="belongs to another owner; pass its id"):
        RefSession(owned_engine, conversation=others, owner=owner)
    with pytest.raises(OwnershipError, match="belongs to no owner; pass its id"):
        RefSession(owned_engine, conversation=registry.conversation("chat-7"), owner=owner)


def test_errors_offer_what_the_owner_sees(
    talking: RefSession, talk: Conversation, world: World, owned_engine: Engine
) -> None:
    """Not what trusted code has loaded, nor what a foreign key names, though these have refs."""
    with Session(owned_engine) as plain, plain.begin():
        plain.get_one(Plan, world.plans["ann"]).recipe_id = world.recipes["bob"]
    assert talking.scalars(select(Plan)).one().recipe_id == "recipe_1"
    with talking.unconfined():
        seen = {each.name: each.id for each in talking.scalars(select(Recipe))}
        shelves = talking.scalars(select(Shelf).order_by(Shelf.place)).all()
        refs = talk.refer_all(Shelf, [(each.room, each.place) for each in shelves])
        talk.refer_pairs([("shelf", shelves[0].room)])  # a part of a key, and no row
    assert seen["bob"] == "recipe_1"
    assert talking.own_view is not None

    for bad in ("recipe_99", "bob", "plan_1", "recipe 1"):
        with pytest.raises(BadRefError) as caught:
            talking.get(Recipe, bad)
        assert {*caught.value.known} == {seen["ann"], seen["all"]}
        assert (caught.value.near, "bob" in caught.value.labels.values()) == (None, False)
    with pytest.raises(BadRefError) as caught:
        talking.own_view.resolve("shelf_99")
    assert caught.value.known == (refs[0],)
    with pytest.raises(DBAPIError):
        talking.execute(update(Plan).values(day=2**40))
    with pytest.raises(BadRefError) as caught:  # where nothing can be asked any more
        talking.get(Recipe, "recipe_99")
    assert caught.value.known == ()


def test_a_conversation_named_by_its_id_is_the_owners(
    owned_engine: Engine, world: World, ownership: Ownership, registry: RefRegistry
) -> None:
    """The owner is given once; nobody else, nor anybody without one, learns what was said."""
    sessions = sessionmaker(owned_engine, class_=RefSession, registry=registry)
    with sessions(conversation="chat-7", owner=ownership.of(world.users["ann"])) as session:
        assert {each.id for each in session.scalars(select(Plan))} == {"plan_1"}

    for owner in (ownership.of(world.users["bob"]), None):
        with sessions(conversation="chat-7", owner=owner) as session:
            with pytest.raises(UnknownConversationError):
                session.scalars(select(Plan.id)).all()
            with pytest.raises(UnknownConversationError):
                session.get(Plan, "plan_2")


def test_errors_survive_pickling() -> None:
    """As all errors of the package do."""
    for error in (ForeignRowError("Plan", "plan_1", named=True), UnconfinedError("text()")):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
        assert (str(again), vars(again)) == (str(error), vars(error))


# Ownership


def test_an_ownership_tells_what_it_knows(ownership: Ownership, world: World) -> None:
    """Which attribute is stamped, which classes are known, and which rows may be read."""
    assert ownership.attribute(Recipe) == "user_id"
    assert ownership.attribute(User) == "id"
    assert ownership.attribute(Line) is None
    assert ownership.attribute(Ingredient) is None
    assert [ownership.knows(each) for each in (Line, Ingredient, Animal, Secret)] == [
        *(True, True, True),
        False,
    ]
    owner = ownership.of(str(world.users["ann"]))
    assert owner.value == str(world.users["ann"])


def test_an_owners_criteria_serve_a_plain_session(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """What may be read and written of a class, for statements of the program's own."""
    owner = ownership.of(str(world.users["ann"]))
    with Session(owned_engine) as plain:
        for class_, column, readable in (
            (Recipe, Recipe.name, {"all", "ann"}),
            (Line, Line.text, {"all", "ann"}),
            (Plan, Plan.code, {"ann"}),
        ):
            kind: Any = class_
            read = select(column).where(owner.readable(kind))
            assert set(plain.scalars(read)) == readable
            assert set(plain.scalars(select(column).where(owner.writable(kind)))) == {"ann"}
        assert plain.scalars(select(Ingredient.name).where(owner.readable(Ingredient))).all() == [
            "salt"
        ]


@pytest.mark.parametrize(
    ("owned_by", "options", "said"),
    [
        ({Recipe: "nothing"}, {}, "Recipe has no column or relationship 'nothing'"),
        ({Recipe: "nothing", Line: "recipe"}, {}, "Recipe has no column or relationship"),
        ({Recipe: "__tablename__"}, {}, "Recipe has no column or relationship '__tablename__'"),
        ({int: "nothing"}, {}, "<class 'int'> is owned, and it is not mapped"),
        (
            {Line: "recipe"},
            {},
            "rows of 'lines' belong to the owner of their row of 'recipes', which is not owned",
        ),
        ({Recipe: "lines"}, {}, "is not many-to-one"),
        ({Recipe: "parent"}, {}, "belong to each other in a circle"),
    ],
)
def test_an_ownership_that_cannot_work_is_refused(owned_by: Any, options: Any, said: str) -> None:
    """When it is first used, because classes need not be mapped when it is made."""
    ownership = Ownership(owned_by, **options)
    with pytest.raises(OwnershipError, match=said):
        ownership.of(uuid.uuid4())


@pytest.mark.parametrize("value", ["not-a-uuid", 712, "7", b"bytes"])
def test_an_owner_has_a_key_that_its_columns_can_have(ownership: Ownership, value: Any) -> None:
    """Another is refused where it is given, and the error does not repeat it."""
    with pytest.raises(OwnershipError) as caught:
        ownership.of(value)
    assert str(caught.value).startswith("the owner has a value that users.id cannot have; give ")
    assert repr(value) not in str(caught.value)


def test_an_attribute_has_a_name() -> None:
    """Anything else is refused as the ownership is made."""
    wrong: Any = {Recipe: 5}
    with pytest.raises(OwnershipError, match="is owned by 5, which is not an attribute"):
        Ownership(wrong)


@pytest.mark.parametrize("owned_by", [{Recipe: "nothing"}, {Line: "nothing", Recipe: "user_id"}])
def test_a_toolset_is_not_made_of_an_ownership_that_cannot_work(owned_by: Any) -> None:
    """Though none of its own classes is the one with the mistake."""
    with pytest.raises(OwnershipError, match="has no column or relationship 'nothing'"):
        Toolset([Recipe], owner=Ownership(owned_by))


def test_an_owner_is_somebody(ownership: Ownership) -> None:
    """No owner at all would be a session without walls, and is asked for by leaving it out."""
    with pytest.raises(OwnershipError, match="the owner is None"):
        ownership.of(None)


# Asynchronous sessions


@pytest.fixture(params=["psycopg", "asyncpg"])
async def aio_ann(
    request: pytest.FixtureRequest,
    owned_engine: Engine,
    world: World,
    ownership: Ownership,
    talk: Conversation,
) -> AsyncIterator[AsyncRefSession]:
    """An asynchronous session on behalf of ann, which shows refs, with each driver."""
    url = owned_engine.url.set(drivername=f"postgresql+{request.param}")
    engine = create_async_engine(url)
    owner = ownership.of(world.users["ann"])
    async with AsyncRefSession(engine, conversation=talk, owner=owner) as session:
        assert session.owner is owner
        yield session
    await engine.dispose()


async def test_an_asynchronous_session_reads_the_owners_rows(aio_ann: AsyncRefSession) -> None:
    """With what is loaded beside them, and in streams."""
    statement = select(Recipe).options(selectinload(Recipe.lines)).order_by(Recipe.name)
    found = (await aio_ann.scalars(statement)).all()
    streamed = await aio_ann.stream_scalars(select(Plan.code))

    assert [[line.text for line in recipe.lines] for recipe in found] == [["all"], ["ann"]]
    assert [code async for code in streamed] == ["ann"]


async def test_an_asynchronous_session_writes_the_owners_rows(
    aio_ann: AsyncRefSession, plainly: Any
) -> None:
    """By flush and by statement; foreign keys may be refs."""
    [recipe] = await aio_ann.scalars(select(Recipe).where(Recipe.name == "ann"))
    aio_ann.add(Plan(recipe_id=recipe.id, code="new"))
    await aio_ann.execute(insert(Plan), [{"code": "a"}, {"code": "b"}])
    await aio_ann.execute(update(Recipe).values(minutes=3))
    await aio_ann.commit()

    assert sorted(plainly(select(Recipe.minutes))) == [0, 0, 3]
    assert len(set(plainly(select(Plan.user_id).where(Plan.code != "bob")))) == 1


async def test_an_asynchronous_session_refuses_foreign_rows(
    aio_ann: AsyncRefSession, world: World, talk: Conversation
) -> None:
    """In foreign keys, in `get()`, and once they were loaded unconfined."""
    foreign = await aio_ann.run_sync(lambda _: talk.refer(Recipe, world.recipes["bob"]))
    assert await aio_ann.get(Recipe, foreign) is None
    aio_ann.add(Plan(recipe_id=foreign))
    with pytest.raises(ForeignRowError):
        await aio_ann.flush()
    await aio_ann.rollback()
    for refused in (aio_ann.connection(), aio_ann.execute(text("select 1"))):
        with pytest.raises(UnconfinedError):
            await refused
    with aio_ann.unconfined():
        assert (await aio_ann.scalars(select(Secret))).all() == []
        row: Any = await aio_ann.get(Recipe, foreign)
    row.name = "changed"
    with pytest.raises(ForeignRowError):
        await aio_ann.flush()


def test_a_closed_session_may_be_used_again(ann: RefSession, world: World) -> None:
    """Each transaction has its walls."""
    for _ in range(2):
        assert len(ann.scalars(select(Recipe)).all()) == 2
        ann.close()
    assert ann.get(Recipe, world.recipes["bob"]) is None
    with pytest.raises(InvalidRequestError):
        ann.refresh(Recipe())
    assert owned.ownership().setting is None


def test_an_owner_may_be_required(
    owned_engine: Engine, world: World, ownership: Ownership, registry: RefRegistry
) -> None:
    """A sessionmaker with an ownership opens no session without an owner, and takes keys."""
    sessions = sessionmaker(
        owned_engine, class_=RefSession, registry=registry, ownership=ownership
    )
    for given in ({}, {"conversation": "chat-7"}, {"owner": None}):
        with pytest.raises(OwnershipError, match="without owner="):
            sessions(**given)
    ann = world.users["ann"]
    for owner in (ann, str(ann), ownership.of(ann)):
        with sessions(conversation=f"chat of {owner!r}", owner=owner) as session:
            assert sorted(session.scalars(select(Recipe.name))) == ["all", "ann"]


def test_tools_and_prompts_use_sessions_that_require_an_owner(
    owned_engine: Engine, world: World, ownership: Ownership, registry: RefRegistry
) -> None:
    """They pass the owner of the call; without an `Ownership` of their own they are refused."""
    sessions = sessionmaker(owned_engine, class_=RefSession, ownership=ownership)
    models = [Recipe, Line]
    desk = Toolset(models, owner=ownership).bind(sessions, registry=registry)
    answer = desk.call("chat-7", world.users["ann"], "db_read", {"table": "recipes"})
    assert answer.value["count"] == 2
    assert "ann" in desk.context("chat-7", world.users["ann"]).render()
    with pytest.raises(OwnershipError, match="without owner="):
        Toolset(models).bind(sessions, registry=registry).call(
            "c", None, "db_read", {"table": "recipes"}
        )


async def test_an_owner_may_be_required_of_asynchronous_sessions(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """As of others."""
    engine = create_async_engine(owned_engine.url)
    with pytest.raises(OwnershipError, match="without owner="):
        AsyncRefSession(engine, ownership=ownership)
    async with AsyncRefSession(engine, ownership=ownership, owner=world.users["bob"]) as session:
        assert sorted(await session.scalars(select(Recipe.name))) == ["all", "bob"]
    await engine.dispose()
