"""How the registry's transactions travel, and what becomes of its connections."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import socket
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import greenlet_spawn

from alfred_refs import PostgresStore
from alfred_refs.errors import RegistryFailedError, RegistryUnreachableError
from alfred_refs.store import Activity, Address
from tests.fix_store import applied
from tests.store.test_postgres import by_default, connections_beside_one_of, cut_others

pytestmark = pytest.mark.tables

CHAT = Address("chat-7")


def driver_connection(store: PostgresStore) -> Any:
    """Return what the driver has for the connection that the store will use next."""
    connection = store._own.get().raw_connection()
    found = cast(Any, connection.driver_connection)
    connection.close()
    return found


def awaited(engine: Engine, driver: str) -> AsyncEngine:
    """Return an asynchronous engine on the same database."""
    return create_async_engine(engine.url.set(drivername=f"postgresql+{driver}"))


@pytest.mark.parametrize("driver", ["psycopg", "psycopg_async"])
def test_a_pipeline_ends_with_one_sync_and_no_flush(
    engine: Engine, tmp_path: Path, driver: str
) -> None:
    """The whole transaction is one round trip.

    PgBouncer would keep a connection to the server for a Flush that comes after the commit.
    """
    trace = tmp_path / "trace"
    with applied(engine.url, driver) as application, trace.open("w") as file:
        application.mint(1)
        connection = application.use(driver_connection)
        connection.pgconn.trace(file.fileno())
        application.mint(*range(2, 50))
        connection.pgconn.untrace()

    assert trace.read_text().count("ReadyForQuery") == 1
    assert len(re.findall(r"\tF\t4\tSync$", trace.read_text(), re.MULTILINE)) == 1
    assert "Flush" not in trace.read_text()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg_async"])
def test_a_pipeline_sends_all_of_what_does_not_fit_at_once(engine: Engine, driver: str) -> None:
    """Else the client would wait for results, and the server for the rest of a statement."""
    with applied(engine.url, driver) as application:
        application.mint(0)
        connection = application.use(driver_connection)
        with socket.socket(fileno=os.dup(connection.fileno())) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

        assert len(application.mint(*range(1, 10_000))) == 9_999


@pytest.mark.parametrize("driver", ["psycopg", "psycopg_async"])
def test_a_connection_lost_in_a_pipeline_is_logged_by_no_driver(
    engine: Engine, driver: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The error says it: psycopg would warn of what it cannot send any more."""
    with engine.begin() as connection:
        connection.exec_driver_sql(DIE)

    with applied(engine.url, driver) as application, pytest.raises(RegistryUnreachableError):
        application.mint(1)

    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("driver", ["psycopg", "psycopg_async"])
async def test_a_libpq_without_pipelines_does(
    engine: Engine, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before libpq 14 statements travel one by one, and mint all the same."""
    monkeypatch.setattr(psycopg.Pipeline, "is_supported", lambda: False)
    monkeypatch.setattr(psycopg.Connection, "pipeline", None)
    monkeypatch.setattr(psycopg.AsyncConnection, "pipeline", None)
    application = awaited(engine, "psycopg")
    store = PostgresStore(engine if driver == "psycopg" else application.sync_engine)

    for number in range(1, 4):
        [entry] = await greenlet_spawn(store.refer, CHAT, [("recipe", number)])
        assert entry.ref.number == number
    await application.dispose()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg_async"])
async def test_a_mint_that_is_cancelled_holds_nothing(engine: Engine, driver: str) -> None:
    """A task is given up while it waits for a lock: the store goes on, with the next number."""
    application = awaited(engine, driver)
    store = PostgresStore(application.sync_engine)
    await greenlet_spawn(store.refer, CHAT, [("recipe", 1)])
    with engine.connect() as holder:
        holder.execute(text("select * from alfred_refs_conversation for update"))
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await greenlet_spawn(store.refer, CHAT, [("recipe", 2)])

    [entry] = await greenlet_spawn(store.refer, CHAT, [("recipe", 2)])
    assert entry.ref.number == 2
    await application.dispose()
    assert connections_beside_one_of(engine) == 0


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg_async"])
async def test_disposing_an_asynchronous_engine_closes_the_registrys_connections(
    engine: Engine, driver: str
) -> None:
    """Those of several tasks, those that were cut and a store's that was dropped: none warns."""
    application = awaited(engine, driver)
    stores = [PostgresStore(application.sync_engine) for _ in range(2)]
    for store in stores:
        tasks = [greenlet_spawn(store.refer, CHAT, [("recipe", n)]) for n in range(4)]
        await asyncio.gather(*tasks)
    del store, stores
    gc.collect()
    await application.dispose()
    gc.collect()

    assert connections_beside_one_of(engine) == 0


DIE = """
create function die() returns trigger language plpgsql as $$ begin
    perform pg_terminate_backend(pg_backend_pid());
    return new;
end $$;
create trigger die before insert on alfred_refs_mapping for each row execute function die();
"""

NOTE = """
create table noted (setting text);
create function note() returns trigger language plpgsql as $$ begin
    insert into noted values (current_setting('synchronous_commit'));
    return new;
end $$;
create trigger note after insert on alfred_refs_mapping for each row execute function note();
"""


@pytest.mark.parametrize(("default", "used"), [("off", "on"), ("remote_apply", "remote_apply")])
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_a_mint_is_written_before_it_is_handed_out(
    engine: Engine, driver: str, default: str, used: str
) -> None:
    """A default that lets a crash undo commits is the application's; a stricter one counts."""
    by_default(engine, f"synchronous_commit = {default}")
    with engine.begin() as connection:
        connection.exec_driver_sql(NOTE)

    with applied(engine.url, driver) as application:
        application.mint(1)

    with engine.connect() as connection:
        assert connection.scalar(text("select setting from noted")) == used
        assert connection.scalar(text("show synchronous_commit")) == default


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_activity_does_not_wait_for_the_disk(engine: Engine, driver: str) -> None:
    """Unless it mints refs: a crash may undo what was read, and no ref."""
    by_default(engine, "synchronous_commit = on")
    with engine.begin() as connection:
        connection.exec_driver_sql(NOTE.replace("_mapping", "_activity"))
    created = [Activity(("recipe", 1), "created")]
    read = [Activity(("recipe", 2), "read", ["name"], shown=True)]

    with applied(engine.url, driver) as application:
        application.use(lambda store: store.note(CHAT, created, "user"))
        application.mint(2)
        application.use(lambda store: store.note(CHAT, read, "model"))

    with engine.connect() as connection:
        settings = connection.scalars(text("select setting from noted")).all()
    assert settings == ["on", "off"]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg", "psycopg_async"])
def test_work_that_is_done_is_done_though_its_connection_is_cut(
    engine: Engine, driver: str
) -> None:
    """Between the answer and the return to the pool: the answer counts, and no place is lost."""

    def answer_and_cut(connection: Connection) -> object:
        answer = connection.scalar(text("select 7"))
        cut_others(engine)
        return answer

    narrow = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 1}
    with applied(engine.url, driver, **narrow) as application:
        for _ in range(3):
            for _ in range(3):  # psycopg2 says less on a connection's first return
                assert application.use(lambda store: store.turn(CHAT)) == 0
            assert application.use(lambda store: store._own.run(answer_and_cut)) == 7


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg", "psycopg_async"])
@pytest.mark.parametrize("text", ["soup\0", "soup\ud800"])
def test_text_that_cannot_be_stored_is_a_typed_error(
    engine: Engine, driver: str, text: str
) -> None:
    """The driver refuses it or the server does: the remedy is the same."""
    with applied(engine.url, driver) as application:
        with pytest.raises(RegistryFailedError, match="without NUL and without half") as raised:
            application.use(lambda store: list(store.conversations(search=text)))
        assert "soup" not in str(raised.value)
        assert application.use(lambda store: list(store.conversations(search="soup"))) == []
