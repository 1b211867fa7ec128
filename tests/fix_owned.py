"""Fixtures: tables with rows of two owners and shared rows, and sessions on them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

from alfred_refs import Ownership, RefSession
from tests import owned
from tests.fix_postgres import DatabasePool, connected, database_pool
from tests.owned import Cat, Dog, Ingredient, Line, Plan, Recipe, Remark, Shelf, User

WHO = ("ann", "bob", "all")


@dataclass(frozen=True)
class World:
    """The keys of all rows, by owner: ann, bob, or all for shared rows."""

    users: dict[str, uuid.UUID]
    recipes: dict[str, uuid.UUID]
    lines: dict[str, uuid.UUID]
    remarks: dict[str, uuid.UUID]
    plans: dict[str, uuid.UUID]
    dogs: dict[str, uuid.UUID]
    cats: dict[str, uuid.UUID]
    salt: uuid.UUID


@pytest.fixture(scope="session")
def owned_databases(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with the owned tables."""

    def prepare(url: str) -> None:
        with connected(url) as connection:
            owned.Base.metadata.create_all(connection)

    with database_pool(administration, prepare) as databases:
        yield databases


@pytest.fixture
def owned_engine(owned_databases: DatabasePool) -> Iterator[Engine]:
    """An engine on a database with the owned tables."""
    with owned_databases.engine() as engine:
        yield engine


@pytest.fixture
def world(owned_engine: Engine) -> World:
    """Rows of ann, bob and shared ones: each a recipe with a line and a remark, and more."""
    made = {name: {who: uuid.uuid4() for who in WHO} for name in World.__annotations__}
    salt = uuid.uuid4()
    with Session(owned_engine) as session:
        session.add_all(User(id=made["users"][who], name=who) for who in ("ann", "bob"))
        session.add(Ingredient(id=salt, name="salt"))
        session.flush()
        for who in WHO:
            _add_rows(session, made, who)
        session.commit()
    keys: Any = {name: {**of} for name, of in made.items() if name != "salt"}
    return World(**keys, salt=salt)


def _add_rows(session: Session, made: dict[str, dict[str, uuid.UUID]], who: str) -> None:
    user = made["users"][who] if who != "all" else None
    recipe = Recipe(id=made["recipes"][who], user_id=user, name=who)
    line = Line(id=made["lines"][who], recipe=recipe, text=who, position=1)
    session.add_all([recipe, Remark(id=made["remarks"][who], line=line, text=who)])
    session.flush()
    if user is not None:
        place = WHO.index(who)
        session.add(Plan(id=made["plans"][who], user_id=user, recipe=recipe, code=who))
        session.add(Dog(id=made["dogs"][who], user_id=user, name=f"{who}'s dog"))
        session.add(Cat(id=made["cats"][who], user_id=user, name=f"{who}'s cat"))
        session.add(Shelf(room=1, place=place, user_id=user))
    session.flush()


@pytest.fixture
def ownership() -> Ownership:
    """The ownership of the tables."""
    return owned.ownership()


@pytest.fixture
def ann(owned_engine: Engine, world: World, ownership: Ownership) -> Iterator[RefSession]:
    """A session of ann without a conversation, which shows keys."""
    with RefSession(owned_engine, owner=ownership.of(world.users["ann"])) as session:
        yield session


@pytest.fixture
def plainly(owned_engine: Engine) -> Callable[[Any], list[Any]]:
    """Return all scalars of a statement, whoever owns the rows."""

    def scalars(statement: Any) -> list[Any]:
        with Session(owned_engine) as session:
            return list(session.scalars(statement).all())

    return scalars


@pytest.fixture
def sent_owned(owned_engine: Engine, world: World) -> list[str]:
    """The statements sent through the engine, as they are sent."""
    del world
    statements: list[str] = []

    @event.listens_for(owned_engine, "before_cursor_execute")
    def note(*arguments: Any) -> None:
        statements.append(str(arguments[2]))

    return statements
