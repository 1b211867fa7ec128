"""The set-ups of `docs/poolers.md`, behind PgBouncer in transaction mode, with each driver.

The guard against waiting for ever is tested in `test_time_limits.py` too, without PgBouncer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from threading import Barrier
from typing import Any, TypeVar

import pytest
from sqlalchemy import Engine, make_url, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.util import greenlet_spawn

from alfred_refs import RefRegistry, RegistryBusyError, RegistryFailedError
from alfred_refs.mapping.keys import EntityKey
from alfred_refs.store import Address
from alfred_refs.tools import Toolset
from tests.fix_store import applied
from tests.forks import together
from tests.pooler import DRIVERS, pgbouncer, run_program
from tests.store.test_postgres import numbers
from tests.threads import at_once

pytestmark = [pytest.mark.tables, pytest.mark.slow]

CHAT = Address("chat-7")

T = TypeVar("T")


class Base(DeclarativeBase):
    """The class of this module."""


class Dish(Base):
    """A row with a key."""

    __tablename__ = "pooled_dishes"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]


class Shop:
    """The names of a program of the page, used as an application with that driver uses them."""

    def __init__(self, driver: str, address: str) -> None:
        names = run_program(driver, address)
        self.engine, self.registry = names["engine"], names["registry"]
        self.sessions = names["sessions"]
        self.is_async = hasattr(self.engine, "sync_engine")
        self._runner = asyncio.Runner()

    def run(self, work: Callable[..., T], *given: Any) -> T:
        """Call a function of the synchronous side."""
        if self.is_async:
            return self._runner.run(greenlet_spawn(work, *given))
        return work(*given)

    def await_(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine."""
        return self._runner.run(work)

    def read(self, conversation: Any) -> list[Any]:
        """Return the refs of all dishes, in a session of its own."""
        statement = select(Dish.id).order_by(Dish.name)
        if not self.is_async:
            with self.sessions(conversation=conversation) as session:
                return list(session.scalars(statement))

        async def read() -> list[Any]:
            async with self.sessions(conversation=conversation) as session:
                return list(await session.scalars(statement))

        return self._runner.run(read())

    def close(self) -> None:
        """Close all connections."""
        for engine in (self.registry._store._application, self.engine):
            self.run(getattr(engine, "sync_engine", engine).dispose)
        self._runner.close()


@pytest.fixture
def dishes(engine: Engine) -> Engine:
    """The engine of a database with two dishes."""
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add_all([Dish(name="a"), Dish(name="b")])
    return engine


@pytest.fixture(params=DRIVERS)
def shop(request: pytest.FixtureRequest, dishes: Engine) -> Iterator[Shop]:
    """An application as the page sets it up, with its driver."""
    with pgbouncer(dishes.url, {"shop": 3, "shop_refs": 2}) as address:
        shop = Shop(request.param, address)
        yield shop
        shop.close()


def test_the_set_up_of_the_page_mints_and_resolves(shop: Shop) -> None:
    """Often enough to meet each connection of the pooler; all kinds of operations."""
    store = shop.registry._store
    for _ in range(12):
        assert shop.read(shop.registry.conversation("chat-1")) == ["dish_1", "dish_2"]
        # another process: nothing is cached
        other = RefRegistry(shop.registry._store._application)
        key = shop.run(other.conversation("chat-1").resolve, "dish_2")
        assert isinstance(key, uuid.UUID)
    shop.run(store.check_tables)
    shop.run(store.fork, Address("chat-1"), "chat-2")
    assert shop.run(store.begin_turn, Address("chat-2")) == 1
    assert shop.run(store.turn, Address("chat-2")) == 1
    exported = shop.run(store.export, Address("chat-2"))
    assert [str(entry.ref) for entry in exported.entries] == ["dish_1", "dish_2"]
    shop.run(store.forget, Address("chat-2"))


def mint(begin: Barrier, driver: str, address: str, first: int) -> None:
    """Mint forty keys in a process, ten at a time, and resolve their refs."""
    names = run_program(driver, address)
    store = names["registry"]._store

    def use() -> None:
        for start in range(first, first + 40, 10):
            keys: list[EntityKey] = [("recipe", start + number) for number in range(10)]
            entries = store.refer(CHAT, keys)
            found = store.resolve(CHAT, [entry.ref for entry in entries])
            assert [("recipe", found[entry.ref].key) for entry in entries] == keys

    begin.wait()
    if hasattr(names["engine"], "sync_engine"):
        asyncio.run(greenlet_spawn(use))
    else:
        use()


@pytest.mark.parametrize("driver", DRIVERS)
def test_processes_share_a_conversation_behind_a_pooler(driver: str, dishes: Engine) -> None:
    """Four processes mint the same and other keys: each key has one ref, no number is missing."""
    with pgbouncer(dishes.url, {"shop": 3, "shop_refs": 2}) as address:
        ended = together(mint, [(driver, address, first) for first in (0, 20, 40, 60)])

    assert [each.code for each in ended] == [0, 0, 0, 0]
    assert numbers(dishes) == list(range(1, 101))


def many(sessions: Any, registry: RefRegistry, count: int) -> list[BaseException | list[Any]]:
    """Read all dishes in sessions whose transactions are open at the same time."""
    barrier = threading.Barrier(count)

    def read(number: int) -> list[Any]:
        with sessions(conversation=registry.conversation(f"chat-{number}")) as session:
            session.execute(select(Dish.name)).all()
            barrier.wait()
            return list(session.scalars(select(Dish.id)))

    return at_once(*(partial(read, number) for number in range(count)))


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_sessions_that_hold_all_connections_are_told_so_in_time(
    driver: str, dishes: Engine
) -> None:
    """With one pool of three for both; with the page's two entries they have their refs."""
    with pgbouncer(dishes.url, {"shop": 3, "shop_refs": 1}) as address:
        shop = Shop(driver, address)
        shared = RefRegistry(shop.engine, timeout=0.5)
        shared.count_conversations()
        before = time.monotonic()
        outcomes = many(shop.sessions, shared, 3)
        took = time.monotonic() - before
        apart = many(shop.sessions, shop.registry, 3)
        shop.close()

    busy = [each for each in outcomes if isinstance(each, RegistryBusyError)]
    # the first that gives up lets the others through
    assert busy
    assert len(outcomes) == 3
    assert [sorted(each) for each in outcomes if isinstance(each, list)] == [
        ["dish_1", "dish_2"]
    ] * (3 - len(busy))
    assert "behind a pooler such as PgBouncer" in str(busy[0])
    assert 0.4 < took < 5
    assert [sorted(each) for each in apart if isinstance(each, list)] == [["dish_1", "dish_2"]] * 3


@pytest.mark.parametrize("driver", ["psycopg", "psycopg, asynchronous"])
def test_calls_on_one_pool_end_one_after_another(
    driver: str, dishes: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Eight calls on a pool of three wait for each other once; then they take turns."""
    with pgbouncer(dishes.url, {"shop": 3}) as address:
        shop = Shop(driver, address)
        shared = RefRegistry(shop.engine, timeout=0.5)
        desk = Toolset([Dish], expect="optional").bind(shop.sessions, registry=shared)
        answers: list[Any] = []

        async def use(number: int) -> None:
            for turn in range(4):
                name = f"{number} {turn}"
                table = {"table": "pooled_dishes"}
                read = await desk.call_async(name, None, "db_read", table | {"limit": 2})
                data = table | {"data": {"name": name}}
                made = await desk.call_async(name, None, "db_create", data)
                answers.append((read.value["count"], made.failed))

        async def use_all() -> None:
            await asyncio.gather(*(use(number) for number in range(8)))

        with caplog.at_level(logging.WARNING, "alfred_refs"):
            shop.await_(use_all())
        shop.close()

    assert answers == [(2, False)] * 32
    with Session(dishes) as session:  # none was made twice
        names = session.scalars(select(Dish.name)).all()
    assert len(names) == len(set(names)) == 34
    assert "calls run one after another" in caplog.text


def test_statements_that_psycopg_prepares_are_refused_with_its_remedy(dishes: Engine) -> None:
    """The names of two clients collide on the pooler's connection."""
    with pgbouncer(dishes.url, {"shop": 1}) as address:
        url = make_url(f"postgresql://shop@{address}/shop")

        def use_both() -> None:
            with applied(url, "psycopg") as one, applied(url, "psycopg") as other:
                for number in range(20):
                    one.mint(number)
                    other.mint(number)

        with pytest.raises(RegistryFailedError, match="'prepare_threshold': None"):
            use_both()
