"""What goes wrong in the registry's database, one thing at a time, with each driver."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from sqlalchemy import URL, Connection, Engine, create_engine, text

from alfred_refs import (
    PostgresStore,
    RegistryBusyError,
    RegistryFailedError,
    RegistryUnreachableError,
)
from alfred_refs.mapping.keys import EntityKey, Ref
from alfred_refs.store import Address, DraftEdit, DraftEntry, DraftState, Gone, NewDraft
from alfred_refs.store.connections import OwnEngine
from alfred_refs.store.schema import metadata
from tests.faults.proxy import proxy_to
from tests.fix_store import Application, applied
from tests.postgres.server import crashing_server
from tests.store.test_postgres import numbers
from tests.threads import failures

pytestmark = pytest.mark.tables

CHAT = Address("chat-7")
DRIVERS = ["psycopg", "psycopg2", "psycopg_async", "asyncpg"]

NOWHERE = {"host": "127.0.0.1", "port": 1, "query": {}}

WAITING = "from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"

# fails as a table says, and shows the key where servers do: in the details
FAIL = """
create table fault (sqlstate text, times integer);
create sequence failed;
create function fail() returns trigger language plpgsql as $$
declare
    wanted record;
begin
    select * into wanted from fault;
    if found and nextval('failed') <= wanted.times then
        raise exception 'it went wrong' using
            errcode = wanted.sqlstate, detail = 'Key (key)=(' || new.key::text || ')';
    end if;
    return new;
end $$;
create trigger fail before insert or update on alfred_refs_mapping
    for each row execute function fail();
create function refuse() returns trigger language plpgsql as $$ begin
    raise exception 'it went wrong' using errcode = (select sqlstate from fault);
end $$;
"""


@pytest.fixture(params=DRIVERS)
def application(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Application]:
    """A store on an engine of each driver."""
    with applied(engine.url, request.param) as application:
        yield application


@pytest.fixture
def administrator(engine: Engine) -> Engine:
    """An engine whose statements are transactions of their own."""
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def run(administrator: Engine, *statements: str) -> None:
    """Execute statements."""
    with administrator.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def wait_for_none(administrator: Engine, rows: str) -> None:
    """Wait until there are no such rows."""
    with administrator.connect() as connection:
        while connection.scalar(text(f"select count(*) {rows}")):
            time.sleep(0.01)


def chained(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all that it hangs on, whether or not a traceback shows them."""
    while error is not None:
        yield error
        if error.__cause__ is not None:
            yield from chained(error.__cause__)
        error = error.__context__


def told(error: BaseException) -> str:
    """Return whatever the chain of an error can tell, without the dashes of UUIDs."""
    parts = [
        f"{link} {link!r} {vars(link)} {getattr(getattr(link, 'diag', None), 'message_detail', 0)}"
        for link in chained(error)
    ]
    return "".join(parts).replace("-", "")


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

    assert failures(*(lambda seed=seed: mark(seed) for seed in range(4))) == []
    hasty.dispose()
    assert deadlocks(engine) == before


REFUSALS = [
    ("0A000", "give RefRegistry the primary's engine"),
    ("25006", "give RefRegistry the primary's engine"),
    ("26000", "behind a pooler such as PgBouncer, "),
    ("40001", "try again"),
    ("40P01", "try again"),
    ("42501", "grant the engine's user all rights"),
    ("53100", "make room on the server's disk"),
    ("53200", "give the server more of the resource"),
    ("55P03", "lock_timeout: try again"),
    ("57014", "statement_timeout: try again"),
    ("23514", "correct what the message names"),
    ("P0001", "correct what the message names"),
]


def test_a_refusal_says_what_to_do_and_shows_no_key(
    application: Application, administrator: Engine
) -> None:
    """By its SQLSTATE, nowhere in its chain a key; and the next mint takes the same number."""
    run(administrator, FAIL)
    for number, (sqlstate, remedy) in enumerate(REFUSALS, start=1):
        run(administrator, f"insert into fault values ('{sqlstate}', 10000)")
        key = uuid.uuid4()
        with pytest.raises(RegistryFailedError, match=remedy) as caught:
            application.mint(key)
        assert (caught.value.sqlstate, caught.value.reason) == (sqlstate, "it went wrong")
        assert key.hex not in told(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None

        run(administrator, "delete from fault")
        assert application.mint(key) == [number]


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_what_the_server_undid_for_another_is_done_again(
    application: Application, administrator: Engine, sqlstate: str
) -> None:
    """Once: nothing of the first time is left, of a turn neither, so nobody has to know."""
    run(administrator, FAIL, f"insert into fault values ('{sqlstate}', 1)")
    turned = "create trigger fail before insert on alfred_refs_conversation "
    assert application.mint(1, 2) == [1, 2]

    run(
        administrator,
        "create or replace function key_of_none() returns trigger language plpgsql as $$ begin "
        f"if nextval('failed') <= 3 then raise exception 'no' using errcode = '{sqlstate}'; "
        "end if; return new; end $$",
        f"{turned} for each row execute function key_of_none()",
    )
    assert application.use(lambda store: store.begin_turn(CHAT)) == 1


REMEDIES = {
    "psycopg": "connect_args={'prepare_threshold': None}",
    "psycopg2": "use no prepared statements",
    "psycopg_async": "connect_args={'prepare_threshold': None}",
    "asyncpg": "'statement_cache_size': 0, 'prepared_statement_cache_size': 0",
}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_remedy_is_for_the_driver_in_use(
    driver: str, engine: Engine, administrator: Engine
) -> None:
    """Where a pooler has lost a prepared statement, or has one of the same name."""
    run(administrator, FAIL)
    with applied(engine.url, driver) as application:
        for sqlstate in ("26000", "42P05"):
            run(administrator, "delete from fault")
            run(administrator, f"insert into fault values ('{sqlstate}', 10000)")
            with pytest.raises(RegistryFailedError, match="PgBouncer") as caught:
                application.mint(1)
            assert REMEDIES[driver] in str(caught.value)


def test_a_statement_that_takes_too_long_is_told_and_not_repeated(engine: Engine) -> None:
    """Whoever limits the time wants to be told in time; the conversation is free afterwards."""
    hasty = {"connect_args": {"options": "-c statement_timeout=200"}}
    with applied(engine.url, "psycopg", **hasty) as application:
        application.mint(1)
        with engine.connect() as holder:
            holder.execute(text("select * from alfred_refs_conversation for update"))
            with pytest.raises(RegistryFailedError, match="statement_timeout") as caught:
                application.mint(2)

        assert caught.value.sqlstate == "57014"
        assert application.mint(2) == [2]


@pytest.fixture
def role(administrator: Engine) -> Iterator[URL]:
    """The URL of a role that may only read the registry."""
    name = f"role_{uuid.uuid4().hex}"
    run(administrator, f"create role {name} login password 'pw' connection limit 1")
    run(administrator, f"grant select on {', '.join(metadata.tables)} to {name}")
    yield administrator.url.set(username=name, password="pw")
    run(administrator, f"drop owned by {name}", f"drop role {name}")


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_role_that_may_not_write_is_told_so_and_reads(
    engine: Engine, administrator: Engine, role: URL, driver: str
) -> None:
    """It resolves what others minted; it mints once it is granted what the error names."""
    PostgresStore(engine).refer(CHAT, [("recipe", 1)])
    with applied(role, driver) as application:
        found = application.use(lambda store: store.resolve(CHAT, [Ref("recipe", 1)]))
        assert [entry.key for entry in found.values()] == [1]
        with pytest.raises(RegistryFailedError, match="grant the engine's user all rights"):
            application.mint(2)

        run(administrator, f"grant all on {', '.join(metadata.tables)} to {role.username}")
        # its only connection was closed, which the server may notice later
        wait_for_none(administrator, f"from pg_stat_activity where usename = '{role.username}'")
        assert application.mint(2) == [2]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_server_without_a_free_connection_is_told_as_unreachable(
    administrator: Engine, role: URL, driver: str
) -> None:
    """The role's only connection is taken: the cause says so, and later there is one."""
    other = create_engine(role)
    with applied(role, driver) as application:
        with other.connect(), pytest.raises(RegistryUnreachableError) as caught:
            application.use(lambda store: store.turn(CHAT))
        assert "accepts connections" in str(caught.value)
        assert "too many connections" in str(caught.value.__cause__)

        other.dispose()
        wait_for_none(administrator, f"from pg_stat_activity where usename = '{role.username}'")
        assert application.use(lambda store: store.turn(CHAT)) == 0


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"database": "no_such_database"},
        {"username": "no_such_role"},
        NOWHERE,
        {"host": "db..example", "query": {}},
        {"host": "x" * 64, "query": {}},
        {"host": "a\x00b", "query": {}},
    ],
)
def test_a_wrong_url_is_told_as_unreachable(
    engine: Engine, driver: str, wrong: dict[str, Any]
) -> None:
    """The database, the role or the server is not there: whatever the driver raises is typed."""
    with (
        applied(engine.url.set(**wrong), driver) as application,
        pytest.raises(RegistryUnreachableError, match="URL and credentials are right"),
    ):
        application.mint(1)


def test_an_error_of_the_work_itself_is_not_one_of_connecting(engine: Engine) -> None:
    """It is raised as it is: a fault of ours must not look like one of the URL."""
    own = OwnEngine(engine, 5.0)

    def work(_: Connection) -> NoReturn:
        raise UnicodeError("not of a host")

    with pytest.raises(UnicodeError, match="not of a host"):
        own.run(work)
    own.release()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_pool_that_is_used_up_is_told_with_its_settings(engine: Engine, driver: str) -> None:
    """One connection waits for a lock, the next caller for that connection, but not for ever."""
    narrow = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 0.2}
    with applied(engine.url, driver, **narrow) as application:
        application.mint(1)
        with engine.connect() as holder:
            holder.execute(text("select * from alfred_refs_conversation for update"))

            def let_go() -> None:
                time.sleep(0.5)
                holder.rollback()

            both = application.use_at_once(
                lambda store: store.refer(CHAT, [("recipe", 2)]),
                lambda store: store.refer(CHAT, [("recipe", 2)]),
                meanwhile=let_go,
            )
        [busy] = [outcome for outcome in both if isinstance(outcome, BaseException)]

        assert isinstance(busy, RegistryBusyError)
        assert "raise the engine's pool_size or pool_timeout" in str(busy)
        assert application.mint(4) == [3]


def test_a_transaction_cut_before_its_commit_is_begun_again(
    application: Application, engine: Engine, administrator: Engine
) -> None:
    """It waited for a lock when its connection was cut: nothing was written, and it mints once."""
    application.mint(1)
    holder = engine.connect()
    holder.execute(text("select * from alfred_refs_conversation for update"))

    def cut() -> None:
        wait_for_none(administrator, f"where not exists (select {WAITING})")
        run(administrator, f"select pg_terminate_backend(pid, 5000) {WAITING}")
        holder.close()

    [minted] = application.use_at_once(
        lambda store: store.refer(CHAT, [("recipe", 2)]), meanwhile=cut
    )

    assert [entry.ref.number for entry in minted] == [2]
    assert numbers(engine) == [1, 2]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_commit_whose_answer_was_lost_is_found_to_be_made(engine: Engine, driver: str) -> None:
    """The server committed and nobody was told: the next attempt meets the refs of the first."""
    with proxy_to(engine.url) as proxy, applied(proxy.url, driver) as application:
        application.mint(1)
        proxy.loses = 1
        assert application.mint(2, 3) == [2, 3]

        assert (proxy.loses, numbers(engine)) == (0, [1, 2, 3])
        proxy.loses, key = 2, uuid.uuid4()
        with pytest.raises(RegistryUnreachableError) as caught:
            application.mint(key)
        assert key.hex not in told(caught.value)
        assert application.mint(key) == [4]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_turn_whose_answer_was_lost_has_begun(engine: Engine, driver: str) -> None:
    """The caller is told that nobody knows; the next turn has a number of its own."""
    with proxy_to(engine.url) as proxy, applied(proxy.url, driver) as application:
        application.use(lambda store: store.begin_turn(CHAT))
        proxy.loses = 1
        with pytest.raises(RegistryUnreachableError):
            application.use(lambda store: store.begin_turn(CHAT))

        assert application.use(lambda store: store.turn(CHAT)) == 2
        assert application.use(lambda store: store.begin_turn(CHAT)) == 3


DRAFT = Ref("recipe", 1, draft=True)


def drafts_of(application: Application) -> list[DraftEntry]:
    """Return all drafts of the conversation."""
    states: Sequence[DraftState] = ("pending", "saved", "discarded")
    return application.use(lambda store: list(store.drafts(CHAT, None, states)))


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_was_done_to_a_draft_is_done_once_though_nobody_was_told(
    engine: Engine, driver: str
) -> None:
    """An edit and a reservation are asked for again; a new draft is not, and keeps its number."""
    with proxy_to(engine.url) as proxy, applied(proxy.url, driver) as application:
        draft = application.use(lambda store: store.draft(CHAT, [NewDraft("recipe", "{}")]))[0]
        proxy.loses = 1
        edit = [DraftEdit(DRAFT, "[]", version=1)]
        [edited] = application.use(lambda store: store.edit_drafts(CHAT, edit)).values()
        proxy.loses = 1
        keys = {DRAFT: uuid.UUID(int=7)}
        [reserved] = application.use(lambda store: store.reserve_keys(CHAT, keys)).values()
        proxy.loses = 1
        with pytest.raises(RegistryUnreachableError):
            application.use(lambda store: store.draft(CHAT, [NewDraft("recipe", "{}")]))

        assert edited == replace(draft, content="[]", version=2)
        assert [each.ref.number for each in drafts_of(application)] == [1, 2]
        assert drafts_of(application)[0] == reserved == replace(edited, key=keys[DRAFT])


@pytest.mark.slow
def test_a_standby_is_told_as_one_and_resolves() -> None:
    """It cannot even begin a transaction that writes; the remedy names the primary."""
    with crashing_server() as server, applied(server.url, "psycopg") as application:
        application.store.create_tables()
        application.mint(1)
        server.crash()
        (server.directory / "data" / "standby.signal").touch()
        server.start()

        with pytest.raises(RegistryFailedError, match="give RefRegistry the primary's engine"):
            application.mint(2)
        assert application.store.resolve(CHAT, [Ref("recipe", 1)])[Ref("recipe", 1)].key == 1


LONG_AGO = "update alfred_refs_conversation set used_at = now() - interval '30 days'"


def test_resolving_waits_for_nobody(application: Application, engine: Engine) -> None:
    """That a conversation is used is noted when it is free; a lock on it delays no answer."""
    application.mint(1)
    with engine.begin() as holder:
        holder.execute(text(LONG_AGO))
    with engine.connect() as holder:
        holder.execute(text("select * from alfred_refs_conversation for update"))
        [found] = application.use_at_once(
            lambda store: store.resolve(CHAT, [Ref("recipe", 1)]), meanwhile=lambda: None
        )

    assert found[Ref("recipe", 1)].key == 1


def test_resolving_does_not_fail_for_a_note(
    application: Application, administrator: Engine
) -> None:
    """The disk is full when the use of a conversation is noted: what was found is found."""
    application.mint(1)
    run(
        administrator,
        LONG_AGO,
        FAIL,
        "insert into fault values ('53100', 10000)",
        "create trigger refuse before update on alfred_refs_conversation "
        "for each statement execute function refuse()",
    )
    found = application.use(lambda store: store.resolve(CHAT, [Ref("recipe", 1)]))

    assert found[Ref("recipe", 1)].key == 1
    with pytest.raises(RegistryFailedError, match="make room"):
        application.use(lambda store: store.touch(CHAT))
