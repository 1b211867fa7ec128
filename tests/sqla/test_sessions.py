"""What SQLAlchemy's sessions execute by themselves, pinned on both series."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import (
    Engine,
    NullPool,
    Result,
    Uuid,
    bindparam,
    create_engine,
    event,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import DataError
from sqlalchemy.orm import (
    ORMExecuteState,
    Session,
    joinedload,
    lazyload,
    selectinload,
    subqueryload,
)

from alfred_refs import sqla
from tests.models import MealPlan, Recipe


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_transaction_is_aborted_by_an_error_until_that_is_rolled_back(
    database_url: str, driver: str
) -> None:
    """As the driver knows it: nothing is sent."""
    engine = create_engine(make_url(database_url).set(drivername=f"postgresql+{driver}"))
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        before = sqla.is_aborted(connection)
        savepoint = connection.begin_nested()
        with pytest.raises(DataError):
            connection.execute(text("SELECT 1 / 0"))
        after = sqla.is_aborted(connection)
        assert not sqla.is_intact(connection)
        savepoint.rollback()
        assert (before, after, sqla.is_aborted(connection)) == (False, True, False)
        assert sqla.is_intact(connection)
        connection.invalidate()
        assert not sqla.is_aborted(connection)
    assert not sqla.is_aborted(connection)
    engine.dispose()
    lite = create_engine("sqlite://")
    with lite.connect() as connection:
        assert not sqla.is_aborted(connection)
    lite.dispose()


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize("loader", [joinedload, selectinload, subqueryload, lazyload, None])
def test_the_statements_of_the_orm_itself_are_told_from_the_programs(
    tables: Engine, loader: Any
) -> None:
    """By one look at what `is_column_load` and `is_relationship_load` look at."""
    told: list[tuple[bool, bool]] = []
    with Session(tables) as session:
        session.add(MealPlan(recipe=session.scalars(select(Recipe)).first()))
        session.commit()
        event.listen(session, "do_orm_execute", lambda each: told.append(_both_ways(each)))
        options = [] if loader is None else [loader(MealPlan.recipe).defer(Recipe.name)]
        [plan] = session.scalars(select(MealPlan).options(*options))
        _ = plan.recipe.name
        session.refresh(plan)
        session.execute(update(Recipe).values(name="x"))
        session.execute(text("select 1"))

    assert [ours for ours, _ in told] == [theirs for _, theirs in told]
    assert [theirs for _, theirs in told].count(False) == 3
    assert len(told) > 4


def _both_ways(execution: ORMExecuteState) -> tuple[bool, bool]:
    theirs = execution.is_column_load or execution.is_relationship_load
    return sqla.is_internal_load(execution), theirs


@pytest.mark.parametrize("within", [False, True])
def test_an_eager_loader_loads_the_whole_for_a_chunk_of_rows(tables: Engine, within: bool) -> None:
    """Also where a listener invokes its statement, to which the size of chunks leaks."""

    def invoke(execution: ORMExecuteState) -> Result[Any]:
        sqla.drop_loader_yield_per(execution)
        return execution.invoke_statement()

    loader = selectinload(Recipe.plans)
    if within:  # a collection of one row each: the loader asks that rows be unique
        loader = loader.joinedload(MealPlan.recipe).joinedload(Recipe.plans)
    with Session(tables) as session:
        session.add_all([Recipe(name="Soup", plans=[MealPlan(), MealPlan()]) for _ in range(3)])
        session.commit()
        session.expunge_all()
        event.listen(session, "do_orm_execute", invoke, retval=True)
        chunks = select(Recipe).where(Recipe.name == "Soup").options(loader)
        read = session.scalars(chunks.execution_options(yield_per=2))

        assert [len(recipe.plans) for recipe in read] == [2, 2, 2]


@pytest.mark.tables
@pytest.mark.filterwarnings("ignore:The Query.get")
def test_what_the_orm_looks_up_for_itself_is_told(engine: Engine) -> None:
    """The row of an identity, and the rows that a write is about to change; nothing else."""
    by_itself: list[bool] = []
    # of no keys of its own, but by the parameter's name and the class the same
    alike = select(Recipe).where(Recipe.id == bindparam("pk_1", type_=Uuid()))
    renamed = update(Recipe).values(name="B").execution_options(synchronize_session="fetch")
    with Session(engine) as session:

        @event.listens_for(session, "do_orm_execute")
        def note(execution: ORMExecuteState) -> None:
            by_itself.append(sqla.is_internal_load(execution))

        key = uuid.uuid4()
        session.get(Recipe, key)
        session.query(Recipe).get(key)
        session.scalars(alike, {"pk_1": key})
        assert by_itself == [True, True, False]
        by_itself.clear()
        session.execute(renamed)
        session.execute(renamed.where(Recipe.id == key))
        session.scalars(select(Recipe.id))
        assert by_itself == [False, True, False, True, False]


@pytest.mark.tables
def test_what_a_listener_invokes_gets_no_argument_more(engine: Engine) -> None:
    """A `get_bind` as in SQLAlchemy's documentation takes no others than it has without."""

    class Routing(Session):
        def get_bind(self, mapper: Any = None, clause: Any = None) -> Engine:  # type: ignore[override]
            assert (mapper, clause) != (None, None)
            return engine

    seen: list[Any] = []

    def invoke(execution: ORMExecuteState) -> Any:
        return sqla.invoke_statement(execution)

    with Routing() as session:
        event.listen(session, "do_orm_execute", invoke)
        event.listen(session, "do_orm_execute", lambda each: seen.append(each.bind_arguments))
        assert session.scalars(select(Recipe.name)).all() == []
        assert [sorted(each) for each in seen] == [["clause", "mapper"]]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_texts_are_the_same_in_all_sessions(engine: Engine, driver: str) -> None:
    """Libpq knows the settings of a session, so that only another one costs statements."""
    other = create_engine(engine.url.set(drivername=f"postgresql+{driver}"), poolclass=NullPool)
    sent: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        sent.append(statement)

    event.listen(other, "before_cursor_execute", note)
    moment = "SELECT CAST(timestamptz '2026-05-01 12:00+02' AS TEXT)"
    with other.connect() as connection:
        texts = []
        for zone in ("UTC", "America/New_York"):
            connection.exec_driver_sql(f"SET TIME ZONE '{zone}'")
            sent.clear()
            with sqla.portable_texts(connection):
                texts.append(connection.exec_driver_sql(moment).scalar_one())
            assert len(sent) == (1 if zone == "UTC" else 3)
        assert connection.exec_driver_sql(moment).scalar_one() == "2026-05-01 06:00:00-04"
    assert texts == ["2026-05-01 10:00:00+00"] * 2
