"""Fixtures: a week with lists of all kinds, and sessions with refs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alfred_refs import RefRegistry, RefSession
from tests.fix_postgres import DatabasePool, pool_with
from tests.positions.models import Base, Exercise, Note, Week, Workout


@pytest.fixture(scope="session")
def gym_databases(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with the tables of these tests and the registry's."""
    with pool_with(Base.metadata, administration) as databases:
        yield databases


@pytest.fixture
def gym(gym_databases: DatabasePool) -> Iterator[Engine]:
    """An engine on a database with the tables, which are empty."""
    with gym_databases.engine() as engine:
        yield engine


@pytest.fixture
def week(gym: Engine) -> uuid.UUID:
    """The key of a week with three sessions of two exercises, five notes, tags and meals."""
    with Session(gym) as plain:
        week = Week(title="first", tags=[*"abcde"], meals={"days": [{"meals": ["soup", "rice"]}]})
        week.notes = [Note(body=each) for each in "abcde"]
        for n, name in enumerate(("push", "pull", "legs"), start=1):
            sets = [{"reps": 5}, {"reps": 8}]
            exercises = [Exercise(name=f"{name} {m}", position=m, sets=sets) for m in (1, 2)]
            week.sessions.append(Workout(name=name, position=n, exercises=exercises))
        plain.add(week)
        plain.commit()
        return uuid.UUID(str(week.id))


@pytest.fixture
def session(gym: Engine) -> Iterator[RefSession]:
    """A session in a conversation of a registry in the same database."""
    with RefSession(gym, conversation=RefRegistry(gym).conversation("gym")) as session:
        yield session
