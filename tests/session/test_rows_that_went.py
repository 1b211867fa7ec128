"""Rows that went without a word: a session says so where a ref of theirs is used first."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    StaticPool,
    Table,
    Text,
    Uuid,
    create_engine,
    delete,
    event,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    sessionmaker,
    with_loader_criteria,
)

from alfred_refs import Conversation, GoneRefError, RefRegistry, RefSession
from alfred_refs.session.asyncio import AsyncRefSession
from alfred_refs.store.memory import MemoryStore
from tests.models import MealPlan, Order, OrderLine, Recipe, RecipeNote
from tests.row_status import hiding, status_of

pytestmark = pytest.mark.tables

GONE = r"'recipe_1' was deleted and cannot be used; known: 'recipe_2'"

Use = Callable[[Any], Any]
USES: dict[str, Use] = {
    "get": lambda session: session.get(Recipe, "recipe_1"),
    "get by name": lambda session: session.get(Recipe, {"id": "recipe_1"}),
    "get in a tuple": lambda session: session.get(Recipe, ("recipe_1",)),
    "get_one": lambda session: session.get_one(Recipe, "recipe_1"),
    "select": lambda session: session.scalars(select(Recipe).where(Recipe.id == "recipe_1")),
    "select a column": lambda session: session.scalar(
        select(Recipe.name).where(Recipe.id.in_(["recipe_1"]))
    ),
    "select from a table": lambda session: session.execute(
        select(Recipe.__table__.c.name).where(Recipe.__table__.c.id == "recipe_1")
    ),
    "query": lambda session: session.query(Recipe).filter_by(id="recipe_1").first(),
    "update": lambda session: session.execute(
        update(Recipe).where(Recipe.id == "recipe_1").values(name="X")
    ),
    "delete": lambda session: session.execute(delete(Recipe).where(Recipe.id == "recipe_1")),
}


@pytest.fixture
def refs(session: RefSession, recipes: list[Recipe]) -> list[str]:
    """The refs of the recipes, which this process and the model have met."""
    found = list(session.scalars(select(Recipe.id).order_by(Recipe.name)).all())
    session.rollback()
    assert found[:2] == ["recipe_1", "recipe_2"]
    del recipes
    return found


def drop(tables: Engine, name: str = "A") -> None:
    """Delete a recipe as another client does."""
    with tables.begin() as connection:
        connection.execute(text("delete from recipes where name = :name"), {"name": name})


def soft_delete(execution: Any) -> None:
    """Leave a recipe out of what a session selects, as a listener of an application does."""
    hidden = with_loader_criteria(Recipe, Recipe.name != "A")
    execution.statement = execution.statement.options(hidden)


def added(session: RefSession, name: str) -> str:
    """Insert a recipe, and return its ref."""
    session.add(recipe := Recipe(name=name))
    session.flush()
    return str(recipe.id)


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_it_is_said_at_the_first_use(
    session: RefSession, refs: list[str], tables: Engine, conversation: Conversation, use: Use
) -> None:
    """However the row is asked for, and to every process from then on."""
    drop(tables)

    with pytest.raises(GoneRefError, match=GONE):
        use(session)

    assert status_of(conversation, "recipe_1") == "was deleted"
    assert session.get_one(Recipe, refs[1]).name == "B"


def run_async(
    tables: Engine,
    conversation: Conversation,
    driver: str,
    work: Callable[[AsyncRefSession], Awaitable[Any]],
) -> Any:
    """Return what work in an asynchronous session returns."""

    async def run() -> Any:
        engine = create_async_engine(tables.url.set(drivername=f"postgresql+{driver}"))
        try:
            async with AsyncRefSession(engine, conversation=conversation) as session:
                return await work(session)
        finally:
            await engine.dispose()

    return asyncio.run(run())


# one for each place where a missing row is noticed: `get`, the rows of a result, its rowcount
AWAITED = pytest.mark.parametrize("use", [USES["get"], USES["select"], USES["update"]])
DRIVERS = pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])


@DRIVERS
@AWAITED
@pytest.mark.usefixtures("refs")
def test_it_is_said_where_sessions_are_awaited(
    tables: Engine, conversation: Conversation, use: Use, driver: str
) -> None:
    """Inside the call that has found nothing."""
    drop(tables)

    with pytest.raises(GoneRefError, match=GONE):
        run_async(tables, conversation, driver, lambda session: session.run_sync(use))

    assert status_of(conversation, "recipe_1") == "was deleted"


@pytest.fixture
def returned(session: RefSession, refs: list[str], tables: Engine) -> uuid.UUID:
    """The key of a row that was noted gone, and that another client has inserted again."""
    with session.raw_keys():
        key = session.scalars(select(Recipe.id).where(Recipe.name == "A")).one()
    drop(tables)
    with pytest.raises(GoneRefError):
        session.get(Recipe, refs[0])
    session.rollback()
    insert_again(tables, key)
    return cast(uuid.UUID, key)


def insert_again(tables: Engine, key: uuid.UUID) -> None:
    """Insert a recipe with a key that is known."""
    with Session(tables) as plain:
        plain.add(Recipe(id=key, name="A"))
        plain.commit()


@pytest.mark.usefixtures("returned")
@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_a_row_that_is_back_can_be_used(
    session: RefSession, conversation: Conversation, use: Use
) -> None:
    """However it is asked for, and by every process from then on."""
    use(session)

    assert status_of(conversation, "recipe_1") is None
    assert conversation.resolve("recipe_1") is not None


@DRIVERS
@AWAITED
@pytest.mark.usefixtures("returned")
def test_a_row_that_is_back_can_be_used_where_sessions_are_awaited(
    tables: Engine, conversation: Conversation, use: Use, driver: str
) -> None:
    """Its table is queried inside the call."""
    run_async(tables, conversation, driver, lambda session: session.run_sync(use))

    assert status_of(conversation, "recipe_1") is None


@DRIVERS
def test_an_attribute_of_an_awaited_session_waits_with_a_ref_that_was_gone(
    tables: Engine, conversation: Conversation, returned: uuid.UUID, driver: str
) -> None:
    """Setting it asks nobody; the flush does."""

    async def work(session: AsyncRefSession) -> Any:
        session.add(plan := MealPlan(recipe_id="recipe_2"))
        await session.flush()
        plan.recipe_id = "recipe_1"
        await session.commit()
        await session.refresh(plan)
        return plan.__dict__["recipe_id"], plan.recipe_id

    assert run_async(tables, conversation, driver, work) == (returned, "recipe_1")


@pytest.mark.usefixtures("returned")
def test_a_row_that_is_back_may_be_hidden(session: RefSession, conversation: Conversation) -> None:
    """Its key alone tells that it is there: a soft delete makes it none that has gone."""
    event.listen(session, "do_orm_execute", soft_delete)

    assert session.get(Recipe, "recipe_1") is None
    assert status_of(conversation, "recipe_1") is None


def test_a_row_that_may_be_undone_is_not_noted_as_back(
    session: RefSession, refs: list[str], tables: Engine, conversation: Conversation
) -> None:
    """The session itself has inserted it: it is there to the session, until it is rolled back."""
    with session.raw_keys():
        key = session.scalars(select(Recipe.id).where(Recipe.name == "A")).one()
    session.rollback()
    drop(tables)
    for end in (session.rollback, session.commit):
        with pytest.raises(GoneRefError, match=GONE):
            session.get(Recipe, refs[0])
        session.execute(
            insert(Recipe), [{"id": key, "name": "A"}], execution_options={"raw_keys": True}
        )
        assert session.get_one(Recipe, refs[0]).name == "A"
        assert status_of(conversation, refs[0]) == "was deleted"
        end()

    assert session.get_one(Recipe, refs[0]).name == "A"
    assert status_of(conversation, refs[0]) is None


def test_a_row_that_goes_and_comes_is_told_each_time(
    session: RefSession, refs: list[str], tables: Engine, returned: uuid.UUID
) -> None:
    """What is found when a ref is used is said, and nothing is for ever."""
    for _ in range(2):
        assert session.get_one(Recipe, refs[0]).name == "A"
        session.rollback()
        session.expunge_all()
        drop(tables)
        with pytest.raises(GoneRefError, match=GONE):
            session.get(Recipe, refs[0])
        session.rollback()
        insert_again(tables, returned)


def test_one_of_many_is_not_looked_for(
    session: RefSession, refs: list[str], tables: Engine, conversation: Conversation
) -> None:
    """A statement that finds some of its rows is not asked which it did not find."""
    drop(tables)

    found = session.scalars(select(Recipe.name).where(Recipe.id.in_(refs[:2])))

    assert found.all() == ["B"]
    assert status_of(conversation, "recipe_1") is None


def test_streamed_rows_are_not_looked_for(
    session: RefSession, refs: list[str], tables: Engine, conversation: Conversation
) -> None:
    """Whether there are any is not known when the statement has been executed."""
    drop(tables)
    asked = select(Recipe).where(Recipe.id == refs[0])

    assert session.scalars(asked.execution_options(yield_per=10)).all() == []
    assert session.scalars(asked.execution_options(stream_results=True)).all() == []
    assert status_of(conversation, "recipe_1") is None


def test_what_finds_its_row_is_sent_alone(
    session: RefSession, refs: list[str], sent: list[str]
) -> None:
    """It costs nothing where rows are there, and one statement where something hides one."""
    for use in USES.values():
        sent.clear()
        use(session)
        if use is not USES["delete"]:  # which notes what it has deleted
            assert len([each for each in sent if "FROM recipes" in each or "UPDATE" in each]) == 1
        session.rollback()
    sent.clear()
    by_both = select(Recipe).where(Recipe.id == refs[0], Recipe.name == "X")
    assert session.scalars(by_both).all() == []
    assert len(sent) == 2


def test_what_others_refer_to_is_not_looked_for(
    session: RefSession, refs: list[str], sent: list[str]
) -> None:
    """No rows of a row are no sign of anything."""
    sent.clear()

    assert session.scalars(select(MealPlan).where(MealPlan.recipe_id == refs[0])).all() == []
    assert len(sent) == 1


def test_a_mark_of_the_applications_is_no_end(
    session: RefSession, refs: list[str], conversation: Conversation
) -> None:
    """A soft delete hides the row: what names it finds nothing, as without refs."""
    event.listen(session, "do_orm_execute", soft_delete)

    assert session.get(Recipe, refs[0]) is None
    assert session.scalars(select(Recipe).where(Recipe.id == refs[0])).all() == []
    assert status_of(conversation, "recipe_1") is None


@pytest.mark.usefixtures("refs")
def test_what_the_database_hides_is_not_known(tables: Engine, conversation: Conversation) -> None:
    """By row-level security: nothing is found, and nothing is noted."""
    with (
        hiding(tables, "recipes", "name <> 'A'") as engine,
        RefSession(engine, conversation=conversation) as session,
    ):
        assert session.get(Recipe, "recipe_1") is None
        assert session.scalars(select(Recipe).where(Recipe.id == "recipe_1")).all() == []
    assert status_of(conversation, "recipe_1") is None


def test_what_may_come_back_is_not_noted(
    session: RefSession, refs: list[str], conversation: Conversation
) -> None:
    """The session itself has deleted it, and may be rolled back."""
    session.execute(text("delete from recipes where name = 'A'"))
    with pytest.raises(GoneRefError, match=GONE):
        session.get(Recipe, refs[0])
    session.rollback()

    assert status_of(conversation, "recipe_1") is None
    assert session.get_one(Recipe, refs[0]).name == "A"


@pytest.mark.usefixtures("recipes")
def test_what_is_not_committed_yet_is_not_noted(
    sessions: sessionmaker[RefSession], conversation: Conversation
) -> None:
    """Somebody shows the model a row before its commit: whoever asks for it too early is told."""
    with sessions(conversation=conversation) as early, sessions(conversation=conversation) as late:
        ref = added(early, "new")
        with pytest.raises(GoneRefError):
            late.get(Recipe, ref)
        late.rollback()
        early.commit()

        assert status_of(conversation, ref) is None
        assert late.get_one(Recipe, ref).name == "new"


def test_what_a_snapshot_does_not_have_is_not_noted(
    sessions: sessionmaker[RefSession], conversation: Conversation, tables: Engine
) -> None:
    """It may have come since."""
    engine = tables.execution_options(isolation_level="REPEATABLE READ")
    with RefSession(engine, conversation=conversation) as before:
        before.scalars(select(Recipe)).all()
        with sessions(conversation=conversation) as session:
            ref = added(session, "new")
            session.commit()
        with pytest.raises(GoneRefError):
            before.get(Recipe, ref)
        before.rollback()

        assert status_of(conversation, ref) is None
        assert before.get_one(Recipe, ref).name == "new"


@pytest.mark.parametrize("after", [1, 2])
def test_a_commit_between_two_statements_is_not_missed(
    sessions: sessionmaker[RefSession], conversation: Conversation, tables: Engine, after: int
) -> None:
    """Whether the row is there and whether somebody writes is asked in one of them."""
    with sessions(conversation=conversation) as early, sessions(conversation=conversation) as late:
        ref = added(early, "new")
        executed: list[str] = []

        def commit(*arguments: Any) -> None:
            executed.append(arguments[2])
            if len(executed) == after:
                early.commit()

        event.listen(tables, "after_cursor_execute", commit)
        try:
            # the second one looks for the row, which comes too late after it
            with nullcontext() if after == 1 else pytest.raises(GoneRefError):
                late.get(Recipe, ref)
        finally:
            event.remove(tables, "after_cursor_execute", commit)

        assert len(executed) >= after
        assert status_of(conversation, ref) is None


def test_what_a_lost_commit_has_done_is_not_known(
    sessions: sessionmaker[RefSession], conversation: Conversation, tables: Engine
) -> None:
    """The server has committed, and its answer was lost: the rows are there."""
    with sessions(conversation=conversation) as session:
        ref = added(session, "kept")

        def lose(connection: Any) -> None:
            cursor = connection.connection.dbapi_connection
            cursor.commit()
            cursor.close()

        event.listen(tables, "commit", lose)
        try:
            with pytest.raises(OperationalError):
                session.commit()
        finally:
            event.remove(tables, "commit", lose)
        session.rollback()
        assert status_of(conversation, ref) is None
        assert session.get_one(Recipe, ref).name == "kept"


def test_what_the_session_does_not_end_is_not_known(
    conversation: Conversation, tables: Engine
) -> None:
    """A transaction of the program's goes on, and with AUTOCOMMIT there is none."""
    with (
        tables.begin() as connection,
        RefSession(connection, conversation=conversation) as session,
    ):
        refs = [added(session, "joined")]
    engine = tables.execution_options(isolation_level="AUTOCOMMIT")
    for end in (RefSession.close, RefSession.rollback):
        with RefSession(engine, conversation=conversation) as session:
            refs.append(added(session, "at once"))
            end(session)

    assert [status_of(conversation, ref) for ref in refs] == [None] * 3
    with RefSession(tables, conversation=conversation) as session:
        assert [session.get_one(Recipe, ref).name for ref in refs] == ["joined", *["at once"] * 2]


def test_other_databases_tell_it_too() -> None:
    """The application's tables may be anywhere; what is final, PostgreSQL alone tells."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    notes = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("n", Text))

    class Plain(DeclarativeBase):
        metadata = notes.metadata

    class Note(Plain):
        __table__ = notes
        id: Mapped[Any]
        n: Mapped[str]

    notes.create(engine)
    conversation = RefRegistry(store=MemoryStore()).conversation("chat-7")
    with RefSession(engine, conversation=conversation) as session:
        session.add_all([Note(id=1, n="a"), Note(id=2, n="b")])
        session.commit()
        refs = session.scalars(select(Note.id)).all()
        session.rollback()
        session.expunge_all()
        with engine.begin() as connection:
            connection.execute(delete(notes).where(notes.c.id == 1))
        for _ in range(2):
            with pytest.raises(GoneRefError, match=f"'{refs[0]}' was deleted and cannot be used"):
                session.get(Note, refs[0])
        assert session.get_one(Note, refs[1]).n == "b"
    engine.dispose()


RECIPES = cast(Table, Recipe.__table__)
DELETES: dict[str, Use] = {
    "by ref": lambda session: session.execute(
        delete(Recipe).where(Recipe.id == "recipe_1", Recipe.name == "A")
    ),
    "by ref, fetched": lambda session: session.execute(
        delete(Recipe).where(Recipe.id == "recipe_1", Recipe.name == "A"),
        execution_options={"synchronize_session": "fetch"},
    ),
    "by a column": lambda session: session.execute(delete(Recipe).where(Recipe.name == "A")),
    "by a query": lambda session: session.query(Recipe).filter_by(name="A").delete(),
    "by the table": lambda session: session.execute(
        delete(RECIPES).where(RECIPES.c.id == "recipe_1", RECIPES.c.name == "A")
    ),
}


@pytest.mark.parametrize("use", DELETES.values(), ids=list(DELETES))
def test_what_a_delete_does_not_delete_is_there(
    session: RefSession, refs: list[str], tables: Engine, conversation: Conversation, use: Use
) -> None:
    """Though the instance in the session, which another client has changed, meets its criteria."""
    loaded = session.get_one(Recipe, refs[0])
    assert loaded.name == "A"
    with tables.begin() as connection:
        connection.execute(text("update recipes set name = 'Z' where name = 'A'"))

    use(session)
    session.commit()

    assert status_of(conversation, refs[0]) is None
    assert session.get_one(Recipe, refs[0]).name == "Z"


def test_what_a_policy_hides_from_a_delete_is_there(
    refs: list[str], tables: Engine, conversation: Conversation
) -> None:
    """A statement that deletes some of its rows does not tell what became of the others."""
    with (
        hiding(tables, "recipes", "name <> 'A'") as engine,
        RefSession(engine, conversation=conversation) as session,
    ):
        session.execute(delete(Recipe).where(Recipe.id.in_(refs[:2])))
        session.commit()

    assert status_of(conversation, refs[0]) is None


def test_what_a_delete_does_not_see_yet_is_there(
    sessions: sessionmaker[RefSession], conversation: Conversation, refs: list[str]
) -> None:
    """Somebody has inserted it, and commits later."""
    with sessions(conversation=conversation) as early, sessions(conversation=conversation) as late:
        ref = added(early, "new")
        late.execute(delete(Recipe).where(Recipe.id.in_([ref, refs[0]])))
        late.commit()
        early.commit()

        assert status_of(conversation, ref) is None
        assert late.get_one(Recipe, ref).name == "new"


def test_a_partitioned_table_hides_none(tables: Engine, conversation: Conversation) -> None:
    """A row that it does not have is gone."""
    with tables.begin() as connection:
        connection.exec_driver_sql(
            "create table parts_of (id uuid primary key) partition by hash (id);"
            "create table parts_of_all partition of parts_of "
            "for values with (modulus 1, remainder 0)"
        )

    class Plain(DeclarativeBase):
        """Of this test."""

    class PartOf(Plain):
        __tablename__ = "parts_of"
        id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)

    with RefSession(tables, conversation=conversation) as session:
        session.add(made := PartOf())
        session.commit()
        ref = str(made.id)
        session.rollback()
        with tables.begin() as connection:
            connection.exec_driver_sql("delete from parts_of")
        with pytest.raises(GoneRefError):
            session.get(PartOf, ref, populate_existing=True)
    assert status_of(conversation, ref) == "was deleted"


def test_a_view_may_hide_rows(
    tables: Engine, conversation: Conversation, recipes: list[Recipe]
) -> None:
    """By what it selects, or by row-level security of what it selects from."""
    with tables.begin() as connection:
        connection.execute(text("create view shown_recipes as select id, name from recipes"))

    class Plain(DeclarativeBase):
        """Of this test."""

    class ShownRecipe(Plain):
        __tablename__ = "shown_recipes"
        id: Mapped[Any] = mapped_column(Uuid, primary_key=True)
        name: Mapped[str]

    with RefSession(tables, conversation=conversation) as session:
        [ref, *_] = session.scalars(select(ShownRecipe.id).order_by(ShownRecipe.name)).all()
        session.rollback()
        with tables.begin() as connection:
            connection.execute(
                text(
                    "create or replace view shown_recipes as select id, name from recipes "
                    "where name <> 'A'"
                )
            )
        assert session.get(ShownRecipe, ref) is None
    assert status_of(conversation, str(ref)) is None
    del recipes


def test_rows_of_several_keys_go_too(session: RefSession, tables: Engine) -> None:
    """Their one ref names them whole."""
    with Session(tables) as plain:
        plain.add(Order(id=1, number=1))
        plain.flush()
        plain.add(OrderLine(order_id=1, position=1))
        plain.commit()
    assert session.own_view is not None
    ref = session.own_view.refer(OrderLine, (1, 1))
    assert session.get(OrderLine, ref) is not None
    session.rollback()
    with tables.begin() as connection:
        connection.execute(text("delete from order_lines"))

    with pytest.raises(GoneRefError, match=f"'{ref}' was deleted and cannot be used"):
        session.get(OrderLine, ref)
    session.rollback()
    with Session(tables) as plain:
        plain.add(OrderLine(order_id=1, position=1))
        plain.commit()

    assert session.get(OrderLine, ref) is not None


def test_what_is_not_where_a_ref_leads_is_no_end(session: RefSession, refs: list[str]) -> None:
    """The row of another table that has its key may never have been."""
    assert session.get(RecipeNote, refs[0]) is None


def test_it_is_looked_for_where_the_statement_was_sent(
    refs: list[str], tables: Engine, conversation: Conversation
) -> None:
    """The session may have no bind of its own."""
    drop(tables)
    where = {"bind": tables}

    with RefSession(conversation=conversation) as session:
        assert session.get_one(Recipe, refs[1], bind_arguments=where).name == "B"
        with pytest.raises(GoneRefError, match=GONE):
            session.get(Recipe, refs[0], bind_arguments=where)


def test_a_row_that_goes_meanwhile_is_found_by_each_thread(
    sessions: sessionmaker[RefSession], refs: list[str], tables: Engine, conversation: Conversation
) -> None:
    """Whoever comes second is told by the registry, or looks for itself."""
    drop(tables)
    told: list[BaseException] = []

    def use() -> None:
        with sessions(conversation=conversation) as session:
            try:
                session.get(Recipe, refs[0])
            except GoneRefError as error:
                told.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 4
