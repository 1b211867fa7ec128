"""What the Postgres store promises beside the contract: isolation from the application."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import traceback
import uuid
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from psycopg.adapt import PyFormat
from psycopg.pq import Format
from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.util import greenlet_spawn

from alfred_refs import (
    PostgresStore,
    RefRegistry,
    RefSession,
    RegistryFailedError,
    RegistryTablesError,
    RegistryUnreachableError,
)
from alfred_refs.mapping.keys import EntityKey, Ref
from alfred_refs.store import Address, DraftEdit, NewDraft
from alfred_refs.store.schema import conversations, counters, mappings, metadata
from tests.fix_postgres import connected
from tests.forks import fork_context
from tests.models import Recipe
from tests.postgres.backends import BETWEEN_TESTS
from tests.threads import failures

pytestmark = pytest.mark.tables

CHAT = Address("chat-7")


def connections_beside_one_of(engine: Engine) -> int:
    """Count the connections of a database, once the server has noticed what was closed."""
    others = text(
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid() "
        f"and application_name <> '{BETWEEN_TESTS}'"
    )
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        for _ in range(50):
            if connection.scalar(others) == 0:
                break
            time.sleep(0.1)
        return cast(int, connection.scalar(others))


@pytest.fixture
def narrow(database_url: str) -> Iterator[Engine]:
    """An engine with a pool of one connection, on the tests' tables with a hundred recipes."""
    engine = create_engine(database_url, pool_size=1, max_overflow=0, pool_timeout=20)
    with Session(engine) as plain, plain.begin():
        plain.add_all([Recipe(name=f"{n:03}") for n in range(100)])
    yield engine
    engine.dispose()


@pytest.fixture(params=["psycopg", "psycopg2"])
def pooled(request: pytest.FixtureRequest, narrow: Engine) -> Iterator[Engine]:
    """An engine whose pool does not reset connections, with and without pipelines."""
    url = narrow.url.set(drivername=f"postgresql+{request.param}")
    options = {"options": "-c lock_timeout=200"}
    engine = create_engine(url, pool_reset_on_return=None, connect_args=options)
    yield engine
    engine.dispose()


CUT_OTHERS = text(
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid()"
)


def by_default(engine: Engine, setting: str) -> None:
    """Make a setting the default of every later connection to the database."""
    engine.dispose()
    with connected(engine.url.render_as_string(hide_password=False)) as connection:
        connection.execute(text(f"alter database {engine.url.database} set {setting}"))
        connection.execute(CUT_OTHERS)  # a process that is used again has the old default


def cut_others(engine: Engine) -> None:
    """Close every other connection to the database on the server's side."""
    with engine.connect() as connection:
        connection.execute(CUT_OTHERS)


def numbers(engine: Engine) -> list[int]:
    """Return the numbers that were given, in order."""
    with engine.connect() as connection:
        return list(connection.scalars(select(mappings.c.number).order_by(mappings.c.number)))


def test_eight_threads_share_a_pool_of_one_connection(narrow: Engine) -> None:
    """Minting never waits for the application's pool: no deadlock, and the numbers are dense."""
    registry = RefRegistry(narrow)
    sessions = sessionmaker(narrow, class_=RefSession)

    def read(start: int) -> None:
        for offset in range(0, 100, 20):
            with sessions(conversation=registry.conversation("chat-7")) as session:
                chosen = (start + offset) % 100
                names = [f"{n:03}" for n in range(chosen, chosen + 25)]
                found = session.scalars(select(Recipe).where(Recipe.name.in_(names))).all()
                assert all(isinstance(recipe.id, str) for recipe in found)

    assert failures(*(partial(read, number * 13) for number in range(8))) == []
    assert numbers(narrow) == list(range(1, len(numbers(narrow)) + 1))


def test_entities_that_are_new_at_once_are_told_apart(narrow: Engine) -> None:
    """Stores that meet the same ones, and others, first: no error, dense kinds and numbers."""
    stores = [PostgresStore(narrow) for _ in range(6)]
    start = threading.Barrier(len(stores))

    def mint(store: PostgresStore, mine: str) -> None:
        for round_ in range(10):
            start.wait()
            shared, own = f"shared_{round_}x", f"{mine}_{round_}x"
            store.refer(CHAT, [(shared, uuid.uuid4()), (own, 7), (shared, 7)])

    works = [partial(mint, store, f"own_{n}x") for n, store in enumerate(stores)]
    assert failures(*works) == []

    with narrow.connect() as connection:
        kinds = connection.scalars(select(counters.c.kind).order_by(counters.c.kind)).all()
        given = select(func.max(mappings.c.number), func.count()).group_by(mappings.c.kind)
        numbered = connection.execute(given).all()
    assert kinds == [*range(1, 10 * 7 + 1)]
    assert sorted(map(tuple, numbered)) == [(1, 1)] * 60 + [(7, 7)] * 10
    assert stores[0].entities(CHAT)["shared_9x"] == 7


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "use",
    [
        lambda store, _: store.refer(CHAT, [("recipe", uuid.uuid4()) for _ in range(50)]),
        lambda store, _: store.draft(CHAT, 20 * [NewDraft("recipe", "{}")]),
        lambda store, ref: store.read_drafts(CHAT, [ref]),
        lambda store, _: list(store.drafts(CHAT, None, ["pending"])),
        lambda store, ref: store.edit_drafts(CHAT, [DraftEdit(ref, "{}", version=1)]),
        lambda store, ref: store.reserve_keys(CHAT, {ref: uuid.uuid4()}),
        lambda store, ref: store.confirm_drafts(CHAT, [ref]),
        lambda store, ref: store.discard_drafts(CHAT, [ref]),
    ],
)
def test_minting_and_each_use_of_drafts_is_one_round_trip_with_psycopg(
    narrow: Engine, tmp_path: Path, use: Callable[[PostgresStore, Ref], object]
) -> None:
    """Statements travel together, without BEGIN and COMMIT: the server is heard once."""
    store = PostgresStore(narrow)
    store.refer(CHAT, [("recipe", uuid.uuid4())])
    [draft] = store.draft(CHAT, [NewDraft("recipe", "{}")])
    trace = tmp_path / "trace"

    connection = store._own.get().raw_connection()
    protocol = cast(Any, connection.driver_connection).pgconn
    connection.close()
    with trace.open("w") as file:
        protocol.trace(file.fileno())
        use(store, draft.ref)
        protocol.untrace()

    assert trace.read_text().count("ReadyForQuery") == 1


def test_arrays_are_written_in_binary_on_connections_of_our_own_only(narrow: Engine) -> None:
    """As text each key is escaped by a pattern; what the application's connection does stays."""
    store, forms = PostgresStore(narrow), []
    for engine in (store._own.get(), narrow):
        connection = engine.raw_connection()
        adapters = cast(Any, connection.driver_connection).adapters
        forms.append(adapters.get_dumper(list, PyFormat.AUTO).format)
        connection.close()

    assert forms == [Format.BINARY, Format.TEXT]


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("application_first", [True, False])
def test_the_first_use_can_be_beside_the_applications_first_connection(
    database_url: str, application_first: bool
) -> None:
    """Whoever connects first initialises the dialect, and the other waits until that is done."""
    engine = create_engine(database_url, pool_size=1, max_overflow=0, pool_timeout=5)
    initialize, begun = engine.dialect.initialize, threading.Event()

    def slowly(connection: Connection) -> None:
        begun.set()
        time.sleep(0.1)
        initialize(connection)

    engine.dialect.initialize = slowly  # type: ignore[method-assign]
    store = PostgresStore(engine)
    use: list[Callable[[], object]] = [
        lambda: store.refer(CHAT, [("recipe", 1)]),
        lambda: numbers(engine.execution_options(isolation_level="SERIALIZABLE")),
    ]
    first, second = use[application_first], use[not application_first]

    assert failures(first, lambda: begun.wait() and second()) == []
    assert failures(*use, *use) == []
    engine.dispose()


def test_threads_that_come_first_together_share_one_pool(
    narrow: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many make it at once, one is kept: the number of connections stays limited."""
    recreate, together, made = narrow.pool.recreate, threading.Barrier(4), []
    store = PostgresStore(narrow)

    def wait_for_others() -> Any:
        together.wait()
        return recreate()

    monkeypatch.setattr(narrow.pool, "recreate", wait_for_others)
    assert failures(*4 * [lambda: made.append(store._own.get())]) == []

    assert len({id(engine) for engine in made}) == 1


def test_processes_that_start_together_can_all_create_the_tables(database_url: str) -> None:
    """They take turns: the first makes the tables and the others find them."""
    engines = [create_engine(database_url) for _ in range(6)]
    stores = [PostgresStore(engine) for engine in engines]
    for engine in engines:
        engine.connect().close()

    assert failures(*(store.create_tables for store in stores)) == []
    for engine in engines:
        engine.dispose()


@pytest.mark.slow
def test_a_mint_that_timed_out_spoils_no_later_one(pooled: Engine, narrow: Engine) -> None:
    """A transaction fails where its statements begin to be prepared: its connection is left."""
    store = PostgresStore(pooled)
    for number in range(3):
        store.refer(CHAT, [("recipe", number)])
    with narrow.connect() as holder:
        holder.execute(text("select * from alfred_refs_conversation for update"))
        for _ in range(5):
            with pytest.raises(RegistryFailedError, match="lock timeout"):
                store.refer(CHAT, [("recipe", 3)])

    for number in range(3, 12):
        assert store.refer(CHAT, [("recipe", number)])[0].ref.number == number + 1


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.refer(CHAT, [("recipe", 2)])[0].ref.number == 2,
        lambda store: store.resolve(CHAT, [Ref("recipe", 1)])[Ref("recipe", 1)].key == 1,
        lambda store: store.known(CHAT, Ref("recipe", 9), 5) == {Ref("recipe", 1): None},
        lambda store: store.entities(CHAT) == {"recipe": 1},
        lambda store: store.mark(CHAT, [("recipe", 1)], "was deleted") is None,
        lambda store: store.turn(CHAT) == 0,
        lambda store: store.create_tables() is None,
    ],
)
def test_a_connection_that_was_cut_is_replaced_unnoticed(
    pooled: Engine, narrow: Engine, use: Callable[[PostgresStore], bool]
) -> None:
    """What may be done twice is done again on a fresh connection: a restart fails no call."""
    store = PostgresStore(pooled)
    store.refer(CHAT, [("recipe", 1)])
    cut_others(narrow)

    assert use(store)


def test_a_turn_that_may_have_begun_is_not_begun_again(pooled: Engine, narrow: Engine) -> None:
    """Only that call fails when the connection was cut, and only once for the whole pool."""
    store = PostgresStore(pooled)
    together = threading.Barrier(3)

    def hold() -> None:
        with store._own.get().connect():
            together.wait()

    assert failures(hold, hold, hold) == []
    cut_others(narrow)

    with pytest.raises(RegistryUnreachableError):
        store.begin_turn(CHAT)
    assert [store.begin_turn(CHAT) for _ in range(3)] == [1, 2, 3]
    holders = [store._own.get().connect() for _ in range(3)]
    assert [holder.scalar(text("select 1")) for holder in holders] == [1, 1, 1]
    for holder in holders:
        holder.close()


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
def test_minting_is_read_committed_whatever_the_default(
    pooled: Engine, narrow: Engine, isolation: str
) -> None:
    """A stricter default of the database costs no serialization errors, and turns are counted."""
    by_default(narrow, f"default_transaction_isolation = '{isolation}'")
    store = PostgresStore(pooled)

    def mint() -> None:
        for _ in range(15):
            store.refer(CHAT, [("recipe", uuid.uuid4())])
            store.begin_turn(CHAT)

    assert failures(*6 * [mint]) == []
    assert numbers(narrow) == list(range(1, 91))
    assert store.turn(CHAT) == 90


def use_all(store: PostgresStore) -> list[object]:
    """Use the store in each way that writes."""
    store.create_tables()
    [entry] = store.refer(CHAT, [("recipe", 1)])
    store.mark(CHAT, [("recipe", 1)], "was deleted")
    gone = store.resolve(CHAT, [entry.ref])[entry.ref].gone
    return [entry.ref.number, gone, store.begin_turn(CHAT), store.begin_turn(CHAT)]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_minting_writes_where_transactions_are_read_only_by_default(
    engine: Engine, driver: str
) -> None:
    """The registry says that it writes; the application's default stays its own."""
    by_default(engine, "default_transaction_read_only = on")
    application = create_engine(engine.url.set(drivername=f"postgresql+{driver}"))

    assert use_all(PostgresStore(application)) == [1, "was deleted", 1, 2]
    with application.connect() as connection:
        assert connection.scalar(text("show transaction_read_only")) == "on"
    application.dispose()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg_async"])
def test_drivers_of_asyncio_mint_too(engine: Engine, driver: str) -> None:
    """In tasks that connect at once, under defaults that forbid it, and after a cut."""
    by_default(engine, "default_transaction_isolation = 'serializable'")
    by_default(engine, "default_transaction_read_only = on")

    async def use() -> list[object]:
        application = create_async_engine(engine.url.set(drivername=f"postgresql+{driver}"))
        store = PostgresStore(application.sync_engine)

        async def mint(task: int) -> None:
            for number in range(10):
                keys: list[EntityKey] = [("recipe", number), ("recipe", f"{task}-{number}")]
                await greenlet_spawn(store.refer, CHAT, keys)

        async def connect() -> None:
            async with application.connect():
                pass

        _, done = await asyncio.gather(connect(), greenlet_spawn(use_all, store))
        await asyncio.gather(*map(mint, range(4)))
        cut_others(engine)
        await greenlet_spawn(store.refer, CHAT, [("recipe", 1)])
        await application.dispose()
        return done

    assert asyncio.run(use()) == [1, "was deleted", 1, 2]
    assert numbers(engine) == list(range(1, 51))


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
    assert connections_beside_one_of(watcher) == 0
    watcher.dispose()

    assert store.turn(CHAT) == 0


def test_a_store_that_is_dropped_leaves_nothing_behind(narrow: Engine) -> None:
    """The engine does not keep it, and neither its connections nor its listener stay."""
    before = len(narrow.dispatch.engine_disposed)
    store = PostgresStore(narrow)
    store.refer(CHAT, [("recipe", 1)])
    dropped = weakref.ref(store)
    del store

    assert dropped() is None
    assert len(narrow.dispatch.engine_disposed) == before
    assert connections_beside_one_of(narrow) == 0


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


@pytest.mark.slow
def test_processes_killed_while_minting_leave_no_gap_and_no_lock(
    narrow: Engine, database_url: str
) -> None:
    """Three processes are killed in the middle of their work: numbers are dense, others go on."""
    start = fork_context().Process
    workers = [start(target=mint_for_ever, args=(database_url, n), daemon=True) for n in range(3)]
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
    """The message names the command, and shows no SQL."""
    metadata.drop_all(engine)
    with pytest.raises(RegistryTablesError) as caught:
        PostgresStore(engine).refer(CHAT, [("recipe", 1)])
    assert str(caught.value) == (
        f"the registry's tables are missing or out of date in database {engine.url.database!r}; "
        "run `alfred-refs migrate URL`, or upgrade the application's own Alembic environment "
        "if that has registry.metadata; RefRegistry.create_tables() creates them where none "
        "exist yet; if they exist, the role needs USAGE on their schema, which must be in its "
        "search_path"
    )


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_an_unreachable_database_is_told_by_name(database_url: str, driver: str) -> None:
    """The error names the database and not the password; the driver's own is its cause."""
    url = make_url(database_url).set(drivername=f"postgresql+{driver}", host="127.0.0.1", port=1)
    url = url.set(query={}, password="pw")
    store = PostgresStore(create_engine(url))

    with pytest.raises(RegistryUnreachableError) as caught:
        store.refer(CHAT, [("recipe", 1)])
    assert "cannot be reached" in str(caught.value)
    assert "refused" in str(caught.value.__cause__)
    assert "pw" not in str(caught.value) + str(caught.value.__cause__)


def test_an_unreachable_database_is_told_by_name_with_asyncpg(database_url: str) -> None:
    """Where the driver raises the operating system's error, it is the cause as well."""
    url = make_url(database_url).set(drivername="postgresql+asyncpg", host="127.0.0.1", port=1)
    store = PostgresStore(create_async_engine(url.set(query={})).sync_engine)

    with pytest.raises(RegistryUnreachableError) as caught:
        asyncio.run(greenlet_spawn(store.refer, CHAT, [("recipe", 1)]))
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


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
    assert caught.value.__cause__ is None


def test_a_conversation_is_used_by_each_turn_and_by_minting(narrow: Engine) -> None:
    """The time of the last use is kept with the conversation, beside that of the first."""
    store, times = PostgresStore(narrow), select(conversations.c.begun_at, conversations.c.used_at)
    uses: list[Callable[[], object]] = [
        lambda: store.begin_turn(CHAT),
        lambda: store.begin_turn(CHAT),
        lambda: store.refer(CHAT, [("recipe", 1)]),
    ]
    used = []
    for use in uses:
        use()
        with narrow.connect() as connection:
            used.append(connection.execute(times).one())

    assert [begun_at for begun_at, _ in used] == 3 * [used[0].begun_at]
    assert [used_at for _, used_at in used] == sorted({used_at for _, used_at in used})
