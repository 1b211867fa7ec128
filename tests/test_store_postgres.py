"""What the Postgres store promises beside the contract: isolation from the application."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import traceback
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine, create_engine, event, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import (
    RefRegistry,
    RefSession,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
)
from alfred_refs.refs import Ref
from alfred_refs.store import Address, PostgresStore
from alfred_refs.store.tables import mappings
from tests.models import Base, Recipe

CHAT = Address("chat-7")


@pytest.fixture
def narrow(database_url: str) -> Iterator[Engine]:
    """An engine with a pool of one connection, on the tests' tables with a hundred recipes."""
    engine = create_engine(database_url, pool_size=1, max_overflow=0, pool_timeout=20)
    Base.metadata.create_all(engine)
    with Session(engine) as plain:
        plain.add_all([Recipe(name=f"{n:03}") for n in range(100)])
        plain.commit()
    RefRegistry(engine).create_tables()
    yield engine
    engine.dispose()


def numbers(engine: Engine) -> list[int]:
    """Return the numbers that were given, in order."""
    with engine.connect() as connection:
        return list(connection.scalars(select(mappings.c.number).order_by(mappings.c.number)))


def test_eight_threads_share_a_pool_of_one_connection(narrow: Engine) -> None:
    """Minting never waits for the application's pool: no deadlock, and the numbers are dense."""
    registry = RefRegistry(narrow)
    sessions = sessionmaker(narrow, class_=RefSession)
    failures: list[BaseException] = []

    def read(start: int) -> None:
        try:
            for offset in range(0, 100, 20):
                with sessions(conversation=registry.conversation("chat-7")) as session:
                    chosen = (start + offset) % 100
                    names = [f"{n:03}" for n in range(chosen, chosen + 25)]
                    found = session.scalars(select(Recipe).where(Recipe.name.in_(names))).all()
                    assert {type(recipe.id) for recipe in found} == {str}
        except BaseException as error:  # noqa: BLE001  # shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=read, args=(number * 13,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert numbers(narrow) == list(range(1, len(numbers(narrow)) + 1))


def test_a_ref_is_durable_though_the_reader_never_commits(narrow: Engine) -> None:
    """A session only reads and is closed; another process resolves what it showed."""
    with RefSession(narrow, conversation=RefRegistry(narrow).conversation("chat-7")) as session:
        first = session.scalars(select(Recipe).order_by(Recipe.name)).all()[0]
        assert first.id == "recipe_1"
        key = first.__dict__["id"]
    program = (
        "import sys; from sqlalchemy import create_engine; from alfred_refs import RefRegistry\n"
        "registry = RefRegistry(create_engine(sys.argv[1]))\n"
        "print(registry.conversation('chat-7').resolve('recipe_1'))"
    )
    url = narrow.url.render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == str(key)


def test_numbers_are_not_reused_after_a_rollback(narrow: Engine) -> None:
    """What a model has seen cannot be rolled back, so its number stays taken."""
    with RefSession(narrow, conversation=RefRegistry(narrow).conversation("chat-7")) as session:
        lost, kept = Recipe(name="lost"), Recipe(name="kept")
        session.add(lost)
        session.flush()
        assert lost.id == "recipe_1"
        session.rollback()
        session.add(kept)
        session.commit()
        assert kept.id == "recipe_2"


def test_minting_works_in_a_transaction_that_failed(narrow: Engine) -> None:
    """The application's transaction may be aborted: its rows already read still get refs."""
    with RefSession(narrow, conversation=RefRegistry(narrow).conversation("chat-7")) as session:
        found = session.scalars(select(Recipe).order_by(Recipe.name)).all()
        with session.raw_keys(), pytest.raises(DBAPIError):
            session.execute(text("select 1/0"))

        assert found[0].id == "recipe_1"


@pytest.mark.parametrize(
    "options",
    [
        {"isolation_level": "SERIALIZABLE"},
        {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
        {"isolation_level": "AUTOCOMMIT"},
    ],
)
def test_the_applications_isolation_is_its_own(narrow: Engine, options: dict[str, Any]) -> None:
    """Whatever isolation the application works in, minting writes and commits."""
    engine = narrow.execution_options(**options)
    with RefSession(engine, conversation=RefRegistry(engine).conversation("chat-7")) as session:
        found = session.scalars(select(Recipe).order_by(Recipe.name)).all()

        assert [recipe.id for recipe in found[:2]] == ["recipe_1", "recipe_2"]
        assert session.get(Recipe, "recipe_2") is found[1]


def test_minting_is_one_round_trip_with_psycopg(narrow: Engine, tmp_path: Path) -> None:
    """Two statements travel together, without BEGIN and COMMIT: the server is heard once."""
    store = PostgresStore(narrow)
    store.refer(CHAT, [("recipe", uuid.uuid4())])
    trace = tmp_path / "trace"

    connection = store._engine().raw_connection()
    protocol = cast(Any, connection.driver_connection).pgconn
    connection.close()
    with trace.open("w") as file:
        protocol.trace(file.fileno())
        store.refer(CHAT, [("recipe", uuid.uuid4()) for _ in range(50)])
        protocol.untrace()

    assert trace.read_text().count("ReadyForQuery") == 1


def test_a_connection_that_was_cut_is_replaced(narrow: Engine) -> None:
    """After the server has closed our connection one call fails as unreachable, the next works."""
    store = PostgresStore(narrow)
    store.refer(CHAT, [("recipe", 1)])
    with narrow.connect() as connection:
        connection.execute(
            text(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
        )

    with pytest.raises(RegistryUnreachableError):
        store.refer(CHAT, [("recipe", 2)])
    assert store.refer(CHAT, [("recipe", 2)])[0].ref.number == 2


def test_known_keys_are_read_without_writing(narrow: Engine) -> None:
    """Referring to keys that all have refs locks nothing and leaves no new row version."""
    store = PostgresStore(narrow)
    keys = [("recipe", uuid.uuid4()) for _ in range(3)]
    store.refer(CHAT, keys)
    with narrow.connect() as holder:
        holder.execute(text("select * from alfred_refs_conversation for update"))

        assert [entry.ref.number for entry in store.refer(CHAT, keys)] == [1, 2, 3]


def test_connect_hooks_and_credentials_are_the_applications_own(database_url: str) -> None:
    """What the application does to each new connection is done to the registry's as well."""
    engine = create_engine(database_url)

    @event.listens_for(engine, "connect")
    def use_schema(connection: Any, _: Any) -> None:
        connection.execute("create schema if not exists tenant")
        connection.execute("set search_path to tenant")
        connection.commit()

    RefRegistry(engine).create_tables()
    with engine.connect() as connection:
        found = connection.scalar(text("select to_regclass('tenant.alfred_refs_mapping')::text"))
    engine.dispose()

    assert found == "alfred_refs_mapping"


def test_disposing_the_applications_engine_closes_the_registrys_connections(
    narrow: Engine, database_url: str
) -> None:
    """Nothing is left open after `engine.dispose()`, and the registry connects anew if used."""
    store = PostgresStore(narrow)
    store.refer(CHAT, [("recipe", 1)])
    narrow.dispose()
    watcher = create_engine(database_url)
    with watcher.connect() as connection:
        here = text("select count(*) from pg_stat_activity where datname = current_database()")
        assert connection.scalar(here) == 1
    watcher.dispose()

    assert store.turn(CHAT) == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(narrow: Engine) -> None:
    """Parent and child can both go on after a fork: they do not share a socket."""
    store = PostgresStore(narrow)
    store.refer(CHAT, [("recipe", 1)])
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        number = store.refer(CHAT, [("recipe", 2)])[0].ref.number
        os.write(writer, str(number).encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reader, 10) == b"2"
    assert store.refer(CHAT, [("recipe", 3)])[0].ref.number == 3
    os.close(reader)
    os.close(writer)


def mint_for_ever(url: str, seed: int) -> None:
    """Mint until killed, some keys the same as in other processes."""
    store = PostgresStore(create_engine(url))
    step = 0
    while True:
        step += 1
        shared = uuid.uuid5(uuid.NAMESPACE_OID, str(step))
        own = uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}-{step}")
        store.refer(CHAT, [("recipe", shared), ("recipe", own)])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_processes_killed_while_minting_leave_no_gap_and_no_lock(
    narrow: Engine, database_url: str
) -> None:
    """Three processes are killed in the middle of their work: numbers are dense, others go on."""
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=mint_for_ever, args=(database_url, n)) for n in range(3)]
    for worker in workers:
        worker.start()
    while len(numbers(narrow)) < 300:
        pass
    for worker in workers:
        worker.kill()
        worker.join()

    [entry] = PostgresStore(narrow).refer(CHAT, [("recipe", uuid.uuid4())])
    given = numbers(narrow)
    assert given == list(range(1, len(given) + 1))
    assert entry.ref == Ref("recipe", len(given))
    with narrow.connect() as connection:
        distinct = connection.scalar(select(func.count(mappings.c.key.distinct())))
    assert distinct == len(given)


def test_a_database_without_the_tables_is_told_how_to_get_them(engine: Engine) -> None:
    """Every use of the registry names the command, and the message shows no SQL."""
    store = PostgresStore(engine)
    for use in (
        lambda: store.refer(CHAT, [("recipe", 1)]),
        lambda: store.resolve(CHAT, [Ref("recipe", 1)]),
        lambda: store.begin_turn(CHAT),
    ):
        with pytest.raises(RegistryTablesError) as caught:
            use()
        assert str(caught.value) == (
            f"the registry's tables are missing or out of date in database "
            f"{engine.url.database!r}; "
            "run `alfred-refs migrate URL`, or call RefRegistry.create_tables()"
        )


def test_an_unreachable_database_is_told_by_name(database_url: str) -> None:
    """The error names the database and not the password."""
    url = create_engine(database_url).url.set(host="127.0.0.1", port=1, query={}, password="pw")  # noqa: S106
    store = PostgresStore(create_engine(url))

    with pytest.raises(RegistryUnreachableError) as caught:
        store.refer(CHAT, [("recipe", 1)])
    assert "cannot be reached" in str(caught.value)
    assert "pw" not in str(caught.value)


def test_an_error_of_the_registry_shows_no_key(narrow: Engine) -> None:
    """Statements of the registry carry keys: a failing one is reported without its values."""
    with narrow.begin() as connection:
        connection.execute(text("alter table alfred_refs_mapping add check (number < 2)"))
    store, key = PostgresStore(narrow), uuid.uuid4()
    store.refer(CHAT, [("recipe", 1)])

    with pytest.raises(RegistryFailedError, match="violates check constraint") as caught:
        store.refer(CHAT, [("recipe", key)])
    shown = "".join(traceback.format_exception(caught.value))
    assert key.hex not in shown.replace("-", "")
    assert caught.value.sqlstate == "23514"
