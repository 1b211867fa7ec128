"""Fixtures: the shop in a database of its own, and sessions on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import AsyncRefSession, Ownership, RefRegistry, RefSession
from alfred_refs.tools import BoundToolset
from tests.fix_postgres import DatabasePool, pool_with
from tests.integrations import shop

# what it finds to be different is shown as in modules of tests
pytest.register_assert_rewrite("tests.integrations.contract")


@pytest.fixture(scope="session")
def shop_databases(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with the shop's and the registry's tables."""
    with pool_with(shop.Base.metadata, administration) as databases:
        yield databases


@pytest.fixture
def shop_engine(shop_databases: DatabasePool) -> Iterator[Engine]:
    """An engine on a shop with its rows."""
    with shop_databases.engine() as engine:
        with Session(engine) as session, session.begin():
            shop.stock(session)
        yield engine


@pytest.fixture
def shop_registry(shop_engine: Engine) -> RefRegistry:
    """A registry beside the shop's tables."""
    return RefRegistry(shop_engine)


@pytest.fixture
def shop_sessions(shop_engine: Engine) -> sessionmaker[RefSession]:
    """A factory of sessions on the shop."""
    return sessionmaker(shop_engine, class_=RefSession)


@pytest.fixture
def shop_ownership() -> Ownership:
    """Whose rows are whose."""
    return shop.ownership()


@pytest.fixture
async def shop_async_engine(shop_engine: Engine) -> AsyncIterator[AsyncEngine]:
    """An asynchronous engine on the same shop."""
    engine = create_async_engine(shop_engine.url)
    yield engine
    await engine.dispose()


@pytest.fixture
def shop_desk(
    shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry, shop_ownership: Ownership
) -> BoundToolset:
    """The shop's tools, with synchronous sessions."""
    return shop.toolset(shop_ownership).bind(shop_sessions, registry=shop_registry)


@pytest.fixture
def desk(shop_desk: BoundToolset) -> BoundToolset:
    """The shop's tools, where a module does not make its own."""
    return shop_desk


@pytest.fixture
def notes(shop_engine: Engine) -> Callable[[], list[str]]:
    """Return the notes of all orders."""

    def notes() -> list[str]:
        with Session(shop_engine) as session:
            return [*session.scalars(select(shop.Order.note).order_by(shop.Order.note))]

    return notes


@pytest.fixture
def shop_async_desk(shop_async_engine: AsyncEngine, shop_ownership: Ownership) -> BoundToolset:
    """The same, with asynchronous ones."""
    sessions = async_sessionmaker(shop_async_engine, class_=AsyncRefSession)
    return shop.toolset(shop_ownership).bind(sessions, registry=RefRegistry(shop_async_engine))
