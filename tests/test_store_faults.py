"""What goes wrong in the registry's database, one thing at a time."""

from __future__ import annotations

import random
import uuid

import pytest
from sqlalchemy import Engine, create_engine, text

from alfred_refs.store import Address, EntityKey, Gone, PostgresStore
from tests.test_store_postgres import in_threads

pytestmark = pytest.mark.tables

CHAT = Address("chat-7")


def deadlocks(engine: Engine) -> int:
    """Return how many deadlocks the server has found in the database."""
    found = text("select deadlocks from pg_stat_database where datname = current_database()")
    with engine.connect() as connection:
        return int(connection.scalar(found) or 0)


def test_marking_the_same_rows_in_any_order_is_no_deadlock(engine: Engine) -> None:
    """Four threads mark a hundred rows, each in orders of its own: nobody waits in a circle."""
    hasty = create_engine(engine.url, connect_args={"options": "-c deadlock_timeout=10ms"})
    store = PostgresStore(hasty)
    keys: list[EntityKey] = [("recipe", uuid.uuid4()) for _ in range(100)]
    store.refer(CHAT, keys)
    before = deadlocks(engine)

    def mark(seed: int) -> None:
        order = random.Random(seed)  # noqa: S311  # orders, not secrets
        for turn in range(10):
            gone: Gone | None = "was deleted" if (turn + seed) % 2 else None
            store.mark(CHAT, order.sample(keys, len(keys)), gone)

    assert in_threads(*(lambda seed=seed: mark(seed) for seed in range(4))) == []
    hasty.dispose()
    assert deadlocks(engine) == before
