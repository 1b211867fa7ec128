"""Fixtures: a shop with one order, and desks with and without consent and journal."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import BoundToolset, Toolset
from tests.fix_postgres import DatabasePool, pool_with
from tests.tools.conftest import by
from tests.tools.shop.models import (
    Base,
    StallLabel,
    StallLine,
    StallOrder,
    StallParcel,
    StallPhoto,
    StallRemark,
)

MODELS = [StallOrder, StallLine, StallLabel, StallParcel]

Rows = dict[str, list[str]]

CHAT = ("chat-7", None)


@pytest.fixture(scope="session")
def shops(administration: Engine) -> Iterator[DatabasePool]:
    """Databases with the tables of the shop and of the registry."""
    with pool_with(Base.metadata, administration) as databases:
        yield databases


@pytest.fixture
def databases(shops: DatabasePool) -> DatabasePool:
    """The pool of the test's own database."""
    return shops


@pytest.fixture
def shop(engine: Engine) -> Engine:
    """An engine on a database with one order, and all that belongs to it."""
    with Session(engine) as session, session.begin():
        order = StallOrder(
            title="Desk", status="open", total="1.50", marks=[{"a": 1}], details={"x": [1, 2.50]}
        )
        order.lines = [StallLine(text="top"), StallLine(text="leg")]
        order.labels = [StallLabel(id=10, name="red")]
        session.add(order)
        session.flush()
        session.add(StallRemark(order_id=order.id, number=1, text="soon"))
        session.add(StallParcel(id=uuid.uuid4(), code="P1", order_id=order.id))
    return engine


@pytest.fixture
def photo(shop: Engine) -> None:
    """The order has a photo, whose bytes are not kept."""
    with Session(shop) as session, session.begin():
        order = session.scalars(select(StallOrder)).one()
        session.add(StallPhoto(order_id=order.id, content=b"\x00\x01"))


@pytest.fixture
def stored(shop: Engine) -> Callable[[], Rows]:
    """Return all rows of the shop, as PostgreSQL writes them."""

    def read() -> Rows:
        with shop.connect() as connection:
            return {
                table.name: sorted(
                    connection.exec_driver_sql(f"SELECT t::text FROM {table.name} t").scalars()
                )
                for table in Base.metadata.sorted_tables
            }

    return read


@pytest.fixture
def registry(shop: Engine) -> RefRegistry:
    """A registry in the same database."""
    return RefRegistry(shop)


@pytest.fixture
def desk_of(shop: Engine, registry: RefRegistry) -> Callable[..., BoundToolset]:
    """Make a desk; the order has the ref `stall_order_1` in conversation `chat-7`."""

    def make(models: Any = MODELS, journal: Any = True, **options: Any) -> BoundToolset:
        sessions = sessionmaker(shop, class_=RefSession)
        toolset = Toolset(models, expect="optional", **options)
        desk = toolset.bind(sessions, registry=registry, journal=journal)
        desk.call(*CHAT, "db_read", {"table": "stall_orders"})
        return desk

    return make


DELETE = {"table": "stall_orders", "filters": by("id", "stall_order_1")}
UPDATE = {**DELETE, "data": {"status": "paid", "total": 3.45}}
CREATE = {"table": "stall_orders", "data": {"title": "Chair", "lines": [{"text": "seat"}]}}

WRITES = pytest.mark.parametrize(
    ("tool", "given"), [("db_delete", DELETE), ("db_update", UPDATE), ("db_create", CREATE)]
)


def execute(shop: Engine, sql: str) -> None:
    """Change rows as another client does."""
    with shop.begin() as connection:
        connection.exec_driver_sql(sql)


@contextmanager
def lost_commits(shop: Engine) -> Iterator[None]:
    """Have the process end where it would commit."""

    def lose(_: object) -> None:
        raise KeyboardInterrupt

    event.listen(shop, "commit", lose)
    with pytest.raises(KeyboardInterrupt):
        yield
    event.remove(shop, "commit", lose)


def refusal_of(desk: BoundToolset, **which: Any) -> dict[str, Any]:
    """Return why a call of the conversation, or a turn, is not undone."""
    refusal = desk.undo("chat-7", by="ann", **which).refusal
    assert refusal is not None
    return refusal
