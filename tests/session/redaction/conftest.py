"""A kitchen's rows, a conversation that knows some of them, and work done with each driver."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from alfred_refs import Conversation, RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from tests.fix_postgres import DatabasePool, connected, database_pool
from tests.session.redaction.kitchen import (
    CHEF,
    KNOWN,
    REFUSE,
    TRIGGER,
    Base,
    Chef,
    Platter,
    Raised,
    Work,
)


@pytest.fixture(scope="session")
def kitchens(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with these tables."""

    def prepare(url: str) -> None:
        with connected(url) as connection:
            Base.metadata.create_all(connection)
            for statement in (REFUSE, TRIGGER):
                connection.execute(text(statement))

    with database_pool(administration, prepare) as databases:
        yield databases


@pytest.fixture
def kitchen(kitchens: DatabasePool) -> Iterator[Engine]:
    """An engine on a database with these tables, a chef and two platters of theirs."""
    with kitchens.engine() as engine:
        with Session(engine) as plain:
            plain.add(Chef(id=CHEF))
            plain.flush()
            plain.add_all([Platter(id=KNOWN, chef_id=CHEF, grade=1), Platter(name="B", grade=2)])
            plain.commit()
        yield engine


@pytest.fixture
def conversation() -> Conversation:
    """A conversation that knows the chef and the first dish."""
    conversation = RefRegistry(store=MemoryStore()).conversation("chat-7")
    conversation.refer(Platter, KNOWN)
    conversation.refer(Chef, CHEF)
    return conversation


def run_sync(engine: Engine, conversation: Conversation, work: Work) -> None:
    """Do work in a session of a synchronous driver."""
    with RefSession(engine, conversation=conversation) as session:
        work(session)


async def run_async(url: Any, conversation: Conversation, work: Work, **options: Any) -> None:
    """Do work in a session under an asynchronous one."""
    engine = create_async_engine(url, poolclass=NullPool, **options)
    session = AsyncSession(engine, sync_session_class=RefSession, conversation=conversation)
    try:
        await session.run_sync(work)
    finally:
        await session.close()
        await engine.dispose()


@pytest.fixture(params=["psycopg", "psycopg with hidden parameters", "psycopg2", "asyncpg"])
def raised(request: pytest.FixtureRequest, kitchen: Engine, conversation: Conversation) -> Raised:
    """Does work in a session of each driver and returns what it raises.

    SQLAlchemy hides parameters in the same way with all drivers.
    """
    driver, *hidden = request.param.split(" with ")
    url = kitchen.url.set(drivername=f"postgresql+{driver}")
    options = {"hide_parameters": bool(hidden)}

    def raised(work: Work) -> Exception:
        try:
            if driver == "asyncpg":
                asyncio.run(run_async(url, conversation, work, **options))
            else:
                other = create_engine(url, poolclass=NullPool, **options)
                run_sync(other, conversation, work)
        except Exception as error:  # noqa: BLE001  # what it is the test asserts
            return error
        pytest.fail("nothing was raised")

    return raised


@pytest.fixture
def session(kitchen: Engine, conversation: Conversation) -> Iterator[RefSession]:
    """A session in the conversation."""
    with RefSession(kitchen, conversation=conversation) as session:
        yield session
