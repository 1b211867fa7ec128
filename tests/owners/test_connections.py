"""The connection that a program gets hold of is confined while an owned session works on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, insert, select, text, update

from alfred_refs import ForeignRowError, Ownership, RefSession, UnconfinedError
from tests.fix_owned import World
from tests.owned import Line, Recipe

RAW = text("SELECT name FROM recipes")


@pytest.mark.parametrize(
    "connection_of",
    [
        lambda s: s.get_transaction().connection(Recipe),
        lambda s: s.execute(select(Recipe.__table__)).connection,
    ],
    ids=["transaction", "result"],
)
@pytest.mark.usefixtures("world")
def test_a_connection_of_the_session_is_confined(
    ann: RefSession, connection_of: Callable[[RefSession], Any]
) -> None:
    """Whoever gets hold of it, for as long as the session has it."""
    ann.scalars(select(Recipe)).all()
    connection = connection_of(ann)
    with pytest.raises(UnconfinedError, match="text"):
        connection.execute(RAW)
    with pytest.raises(UnconfinedError):
        connection.exec_driver_sql("SELECT name FROM recipes")
    assert sorted(connection.scalars(select(Recipe.__table__.c.name))) == ["all", "ann"]
    with ann.unconfined():
        assert len(connection.execute(RAW).all()) == 3
    with pytest.raises(UnconfinedError):
        connection.execute(RAW)
    with ann.begin_nested(), pytest.raises(UnconfinedError):
        connection.execute(RAW)


def test_a_connection_is_as_it_was_when_the_session_is_done(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """The next who takes it from the pool is nobody's."""
    engine = create_engine(owned_engine.url, pool_size=1, max_overflow=0)
    for end in (RefSession.commit, RefSession.rollback, RefSession.close):
        session = RefSession(engine, owner=ownership.of(world.users["ann"]))
        session.scalars(select(Recipe)).all()
        end(session)
        with engine.connect() as connection:
            assert len(connection.execute(RAW).all()) == 3
    engine.dispose()


def test_a_connection_of_the_program_is_its_own_again_after_a_rollback_in_between(
    owned_engine: Engine, world: World, ownership: Ownership
) -> None:
    """A listener ends the transaction while the session works."""
    with owned_engine.connect() as connection:
        session = RefSession(connection, owner=ownership.of(world.users["ann"]))
        session.scalars(select(Recipe)).all()

        @event.listens_for(session, "do_orm_execute")
        def end(execution: Any) -> None:
            execution.session.rollback()

        assert len(session.scalars(select(Recipe)).all()) == 2
        session.close()
        assert len(connection.execute(RAW).all()) == 3


@pytest.fixture
def listening() -> Iterator[Callable[[Callable[[Any], None]], None]]:
    """Have something done on the connection of each flush that inserts a recipe."""
    listeners = list[Any]()

    def listen(do: Callable[[Any], None]) -> None:
        def before_insert(_: Any, connection: Any, __: Any) -> None:
            do(connection)

        listeners.append(before_insert)
        event.listen(Recipe, "before_insert", before_insert)

    yield listen
    for each in listeners:
        event.remove(Recipe, "before_insert", each)


WAYS = ["values", "many", "class", "update"]


def line_of(world: World, who: str, way: str) -> Any:
    """Return a statement that has a line name a recipe."""
    recipe = world.recipes[who]
    row = {"id": uuid.uuid4(), "recipe_id": recipe, "text": "x"}
    found = select(Recipe.id).where(Recipe.id == recipe).scalar_subquery()
    table: Any = Line.__table__
    match way:
        case "values":
            return insert(table).values(**row)
        case "many":
            return insert(table).values([row, {**row, "id": uuid.uuid4()}])
        case "class":
            return insert(Line).values(**row)
        case "select":
            return insert(table).values(**{**row, "recipe_id": found})
        case _:
            mine = table.c.id == world.lines["ann"]
            return update(table).where(mine).values(recipe_id=recipe)


@pytest.mark.parametrize("way", WAYS)
def test_what_a_listener_writes_names_what_the_owner_sees(
    ann: RefSession,
    world: World,
    listening: Callable[[Callable[[Any], None]], None],
    plainly: Callable[[Any], list[Any]],
    way: str,
) -> None:
    """On the connection that it is given, as SQLAlchemy has it done in events of mappers."""
    whose = ["ann"]
    listening(lambda connection: connection.execute(line_of(world, whose[0], way)))
    ann.add(Recipe(name="mine"))
    ann.commit()
    before = plainly(select(Line.recipe_id))
    for whose[0] in ("bob", "all"):
        ann.add(Recipe(name="other"))
        with pytest.raises(ForeignRowError):
            ann.flush()
        ann.rollback()
    assert sorted(plainly(select(Line.recipe_id))) == sorted(before)


def test_what_is_written_on_the_connection_names_what_the_owner_sees(
    ann: RefSession, world: World
) -> None:
    """Outside of a flush, too."""
    ann.scalars(select(Recipe)).all()
    connection = ann.get_transaction().connection(None)  # type: ignore[union-attr]
    for way in WAYS:
        connection.execute(line_of(world, "ann", way))
        with pytest.raises(ForeignRowError):
            connection.execute(line_of(world, "bob", way))


def test_what_is_no_plain_value_is_refused_of_a_listener(
    ann: RefSession, world: World, listening: Callable[[Callable[[Any], None]], None]
) -> None:
    """It cannot be looked at before it is written."""
    listening(lambda connection: connection.execute(line_of(world, "bob", "select")))
    ann.add(Recipe(name="mine"))
    with pytest.raises(UnconfinedError, match=r"lines\.recipe_id"):
        ann.flush()
