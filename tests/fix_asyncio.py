"""Fixtures: those of `fix_session` for asynchronous sessions, with each asynchronous driver."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine

from alfred_refs import AsyncRefSession, Conversation, RefRegistry
from tests.fix_session import TravelLog

AsyncSessions = async_sessionmaker[AsyncRefSession]


@pytest.fixture(params=["psycopg", "asyncpg"])
async def async_engine(
    request: pytest.FixtureRequest, tables: Engine
) -> AsyncIterator[AsyncEngine]:
    """An asynchronous engine on the test's database, with each driver."""
    engine = create_async_engine(tables.url.set(drivername=f"postgresql+{request.param}"))
    yield engine
    await engine.dispose()


@pytest.fixture
def log(async_engine: AsyncEngine) -> TravelLog:
    """A store that records its round trips, on the asynchronous engine."""
    return TravelLog(async_engine.sync_engine)


@pytest.fixture
def chat(log: TravelLog) -> Conversation:
    """The conversation that the sessions work in."""
    return RefRegistry(store=log).conversation("chat-7")


@pytest.fixture
def async_sessions(async_engine: AsyncEngine) -> AsyncSessions:
    """A factory of asynchronous sessions."""
    return async_sessionmaker(async_engine, class_=AsyncRefSession, expire_on_commit=False)


@pytest.fixture
async def aio(async_sessions: AsyncSessions, chat: Conversation) -> AsyncIterator[AsyncRefSession]:
    """An asynchronous session in the conversation."""
    async with async_sessions(conversation=chat) as session:
        yield session
