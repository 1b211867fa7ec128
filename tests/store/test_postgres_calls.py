"""Calls in PostgreSQL: in the application's transaction, and while others add calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from alfred_refs import (
    PostgresStore,
    RegistryFailedError,
    RegistryTablesError,
    UnknownConversationError,
)
from alfred_refs.store import Activity, Address, ChangeEntry, NewCall, NewDraft
from tests.fix_postgres import database_like
from tests.fix_store import Application, applied
from tests.forks import together
from tests.store.test_postgres import by_default

T = TypeVar("T")


CHAT, OTHER = Address("chat-7", "ann"), Address("chat-8")
TAKEN = Address("chat-7", "bob")
CALL = NewCall("db_update", {"ids": ["recipe_1"]}, "done", "model")
CHANGE = ChangeEntry(0, 1, "recipes", "recipe_1", "Soup", "updated", {"id": "7"}, {}, {"a": None})

pytestmark = pytest.mark.tables


@pytest.fixture(params=["psycopg", "psycopg2", "asyncpg", "psycopg_async", "partitioned"])
def application(request: pytest.FixtureRequest) -> Iterator[Application]:
    """A store and an application's engine with each driver, and on partitioned tables.

    Whoever waits for a lock for long has waited for itself.
    """
    is_partitioned = request.param == "partitioned"
    engine: Engine = request.getfixturevalue("partitioned_engine" if is_partitioned else "engine")
    by_default(engine, "lock_timeout = '5s'")
    with applied(engine.url, "psycopg" if is_partitioned else request.param) as application:
        yield application


@pytest.fixture
def store(engine: Engine) -> PostgresStore:
    """A store on the database."""
    return PostgresStore(engine)


def in_transaction(store: PostgresStore, work: Callable[[Connection], T]) -> T:
    """Call a function with a connection of the application's, and commit."""
    with store._application.begin() as connection:
        return work(connection)


def numbers(store: PostgresStore, address: Address = CHAT) -> list[int]:
    """Return the numbers of a conversation's calls."""
    return [call.number for call in store.calls(address)]


def wait_for_waiting(engine: Engine, future: Future[Any] | None = None) -> None:
    """Return as soon as a transaction of the database waits for a lock."""
    sql = (
        "select count(*) from pg_stat_activity where datname = :name and wait_event_type = 'Lock'"
    )
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        for _ in range(500):
            if connection.scalar(text(sql), {"name": engine.url.database}):
                return
            assert future is None or not future.done(), "it did not wait"
            time.sleep(0.01)
    raise AssertionError("nobody waits")


def test_a_call_is_there_when_the_transaction_of_its_changes_commits(
    application: Application,
) -> None:
    """Before that nobody else sees it; it is sent with its changes in one statement."""

    def use(store: PostgresStore) -> None:
        store.begin_turn(CHAT)
        assert store.calls(CHAT) == []
        statements: list[str] = []

        def work(connection: Connection) -> None:
            assert store.is_on(connection)
            event.listen(
                connection, "before_cursor_execute", lambda *given: statements.append(given[2])
            )
            call = store.add_call(CHAT, CALL, [CHANGE, replace(CHANGE, place=2)], None, connection)
            assert (call.number, call.turn) == (1, 1)
            assert len(statements) == 1
            assert (store.calls(CHAT), store.changes(CHAT, [1])) == ([], [])
            assert store.lock_call(CHAT, 1, connection) == call
            done = store.update_call(
                *(CHAT, 1),
                expected="done",
                changes=[replace(CHANGE, place=3)],
                connection=connection,
                answer={"ok": True},
            )
            assert done == replace(call, answer={"ok": True})

        in_transaction(store, work)

        [call] = store.calls(CHAT)
        assert call.answer == {"ok": True}
        assert [change.place for change in store.changes(CHAT, [1])] == [1, 2, 3]

    application.use(use)


def test_a_call_of_a_transaction_that_is_rolled_back_is_not_there(
    application: Application,
) -> None:
    """Neither are its changes, and its number is the next one's: there is no gap."""

    def use(store: PostgresStore) -> None:
        with store._application.connect() as connection:
            assert store.add_call(CHAT, CALL, [CHANGE], None, connection).number == 1
            connection.rollback()
            assert store.add_call(CHAT, CALL, [CHANGE], 3, connection).number == 1
            with connection.begin_nested() as savepoint:
                store.add_call(CHAT, CALL, [CHANGE], None, connection)
                store.update_call(CHAT, 1, expected="done", connection=connection, turn=9)
                savepoint.rollback()
            assert store.add_call(CHAT, CALL, [], None, connection).number == 2
            connection.commit()

        assert numbers(store) == [1, 2]
        assert [(change.call, change.place) for change in store.changes(CHAT, [1, 2])] == [(1, 1)]
        assert store.calls(CHAT)[0].turn == 3

    application.use(use)


def test_a_transaction_with_a_call_does_not_wait_for_what_the_registry_does_meanwhile(
    application: Application,
) -> None:
    """Refs are minted by other connections in the conversation, whether it was begun or not."""

    def use(store: PostgresStore) -> None:
        for address in (CHAT, OTHER):
            if address is OTHER:
                store.begin_turn(OTHER)

            def work(connection: Connection, address: Address = address) -> None:
                store.add_call(address, replace(CALL, call_id="a"), [CHANGE], None, connection)
                store.refer(address, [("recipe", 7)])
                store.note(address, [Activity(("recipe", 8), "read")], "model")
                store.mark(address, [("recipe", 7)], "was deleted")
                store.label(address, {("recipe", 8): "Stew"})
                [draft] = store.draft(address, [NewDraft("recipe", "{}")])
                store.reserve_keys(address, {draft.ref: 9})
                store.confirm_drafts(address, [draft.ref])
                store.begin_turn(address)
                store.add_step(address, "{}")
                store.touch(address)
                store.fork(address, f"{address.id}-fork")
                store.add_call(address, CALL, [CHANGE], None, connection)
                assert store.add_call(Address("another"), CALL).number > 0
                assert list(store.prune(timedelta(), 9)) == [2 if address is CHAT else 3]

            in_transaction(store, work)
            assert numbers(store, address) == [1, 2]

    application.use(use)


def test_a_call_that_is_added_twice_at_once_is_there_once(application: Application) -> None:
    """A framework repeats it while the first transaction is not committed: it waits for it."""

    def add(answer: str) -> Callable[[PostgresStore], Any]:
        new = replace(CALL, call_id="call_1", answer=answer)
        return lambda store: in_transaction(
            store, lambda connection: store.add_call(CHAT, new, [CHANGE], None, connection)
        )

    application.use(lambda store: store.begin_turn(CHAT))
    added = application.use_at_once(*map(add, "abcd"), meanwhile=lambda: None)

    assert [call.number for call in added] == [1, 1, 1, 1]
    assert len({call.answer for call in added}) == 1
    assert application.use(lambda store: store.changes(CHAT, [1])) == [replace(CHANGE, call=1)]


def test_one_of_those_who_decide_at_once_decides(application: Application) -> None:
    """The others find the call decided, on connections of either side."""
    application.use(lambda store: store.add_call(CHAT, replace(CALL, state="waiting")))

    def decide(by: str) -> Callable[[PostgresStore], Any]:
        def own(store: PostgresStore) -> Any:
            return store.update_call(CHAT, 1, expected="waiting", state="done", decided_by=by)

        def locked(store: PostgresStore) -> Any:
            def work(connection: Connection) -> Any:
                call = store.lock_call(CHAT, 1, connection)
                if call is None or call.state != "waiting":
                    return None
                return store.update_call(
                    *(CHAT, 1),
                    expected="waiting",
                    connection=connection,
                    state="done",
                    decided_by=by,
                    changes=[CHANGE],
                )

            return in_transaction(store, work)

        return own if by in "ab" else locked

    decided = application.use_at_once(*map(decide, "abcd"), meanwhile=lambda: None)

    [call] = [call for call in decided if call is not None]
    assert application.use(lambda store: store.calls(CHAT)) == [call]


def add_calls(begin: Barrier, name: str, url: str) -> list[int]:
    """Add forty calls in a process, and return the numbers of those that are not rolled back."""
    engine = create_engine(url)
    store, given = PostgresStore(engine), []
    begin.wait()
    for step in range(40):
        new = NewCall("db_update", {}, "done", "model", name, call_id=f"{name}-{step}")
        if step % 4 == 0:
            given.append(store.add_call(CHAT, new).number)
            continue
        with engine.connect() as connection:
            number = store.add_call(CHAT, new, connection=connection).number
            if step % 4 == 3:
                connection.rollback()
            else:
                connection.commit()
                given.append(number)
    return given


@pytest.mark.slow
def test_processes_that_add_calls_at_once_number_them_without_gap(
    store: PostgresStore, engine: Engine
) -> None:
    """By connections of either side, some of them rolled back; no number is given twice."""
    url = engine.url.render_as_string(hide_password=False)
    ended = together(add_calls, [(name, url) for name in ("one", "two", "three")])
    given = [each.result for each in ended]

    assert [each.code for each in ended] == [0, 0, 0]
    assert [len(each) for each in given] == [30, 30, 30]
    assert (
        sorted(number for each in given for number in each) == numbers(store) == list(range(1, 91))
    )
    by_process = {call.number: call.user for call in store.calls(CHAT)}
    for name, each in zip(("one", "two", "three"), given, strict=True):
        assert {by_process[number] for number in each} == {name}


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_call_waits_for_the_one_before_it(
    store: PostgresStore, engine: Engine, end: str
) -> None:
    """What becomes of that decides its number."""
    store.begin_turn(CHAT)
    with ThreadPoolExecutor() as threads, engine.connect() as first:
        store.add_call(CHAT, CALL, connection=first)
        second = threads.submit(store.add_call, CHAT, CALL)
        wait_for_waiting(engine, second)
        store.refer(CHAT, [("recipe", 1)])  # minting does not wait for either
        getattr(first, end)()
        assert second.result(9).number == (2 if end == "commit" else 1)


@pytest.mark.parametrize("limit", ["the application's", "the registry's"])
def test_a_transaction_that_waits_for_itself_is_told_so(
    store: PostgresStore, engine: Engine, limit: str
) -> None:
    """The registry's connection gives up, and nothing is stored twice."""
    if limit == "the application's":
        by_default(engine, "lock_timeout = '200ms'")
    else:
        store._WAIT = text(str(store._WAIT).replace("'30s'", "'200ms'"))
    with engine.connect() as connection:
        store.add_call(CHAT, CALL, connection=connection)
        began = time.monotonic()
        with pytest.raises(RegistryFailedError, match="lock timeout") as caught:
            store.add_call(CHAT, CALL)
        assert time.monotonic() - began < 20
        assert caught.value.sqlstate == "55P03"
        connection.commit()
    assert numbers(store) == [1]
    assert store.add_call(CHAT, CALL).number == 2


def test_forgetting_waits_for_transactions_with_calls_and_leaves_nothing_of_them(
    store: PostgresStore, engine: Engine
) -> None:
    """Else whoever begins the conversation again would have another owner's calls."""
    store.refer(CHAT, [("recipe", 1)])
    store.add_call(CHAT, replace(CALL, state="waiting"))
    with ThreadPoolExecutor() as threads, engine.connect() as connection:
        store.lock_call(CHAT, 1, connection)
        store.add_call(CHAT, CALL, [CHANGE], None, connection)
        assert list(store.prune(timedelta(), 9)) == []
        forgetting = threads.submit(store.forget, CHAT)
        wait_for_waiting(engine, forgetting)
        store.update_call(CHAT, 1, expected="waiting", changes=[CHANGE], connection=connection)
        connection.commit()
        forgetting.result(9)

    for table in ("call", "change", "conversation"):
        with engine.connect() as connection:
            assert connection.scalar(text(f"select count(*) from alfred_refs_{table}")) == 0
    assert store.add_call(TAKEN, CALL).number == 1


@pytest.mark.parametrize("way", ["lock", "update"])
def test_a_transaction_that_decides_a_call_and_forgetting_do_not_deadlock(
    store: PostgresStore, engine: Engine, way: str
) -> None:
    """Both lock the conversation before its calls: forgetting waits, and the other one goes on."""
    by_default(engine, "deadlock_timeout = '10ms'")
    store.add_call(CHAT, replace(CALL, state="waiting"))
    with ThreadPoolExecutor() as threads, engine.connect() as connection:
        if way == "lock":
            store.lock_call(CHAT, 1, connection)
        else:
            store.update_call(CHAT, 1, expected="waiting", connection=connection, state="doing")
        forgetting = threads.submit(store.forget, CHAT)
        wait_for_waiting(engine, forgetting)
        time.sleep(0.1)  # it has looked for deadlocks: the next one to look would give way
        assert store.add_call(CHAT, CALL, connection=connection).number == 2
        connection.commit()
        forgetting.result(9)
    assert store.calls(CHAT) == []


def test_a_call_of_a_conversation_that_is_being_forgotten_begins_it_anew(
    store: PostgresStore, engine: Engine
) -> None:
    """It waits for the end of that, and is then the first one of another conversation."""
    store.add_call(CHAT, CALL)
    with ThreadPoolExecutor() as threads, engine.connect() as other:
        other.execute(text("delete from alfred_refs_conversation"))
        other.execute(text("delete from alfred_refs_call"))
        adding = threads.submit(store.add_call, replace(CHAT, owner="eve"), CALL)
        wait_for_waiting(engine, adding)
        other.commit()
        assert adding.result(9).number == 1
    assert store.describe("chat-7").owner == "eve"


def test_erasing_waits_for_transactions_with_calls(store: PostgresStore, engine: Engine) -> None:
    """Values that are committed after it are erased too."""
    store.refer(CHAT, [("recipe", 7)])
    with ThreadPoolExecutor() as threads, engine.connect() as connection:
        store.add_call(CHAT, CALL, [CHANGE], None, connection)
        erasing = threads.submit(lambda: sum(store.erase(("recipe", 7), None, 9)))
        wait_for_waiting(engine, erasing)
        connection.commit()
        assert erasing.result(9) == 1

    assert store.changes(CHAT, [1]) == [
        replace(CHANGE, call=1, label=None, before=None, after=None)
    ]
    assert store.calls(CHAT)[0].arguments is None


def test_pruning_skips_calls_that_are_locked(store: PostgresStore, engine: Engine) -> None:
    """The next run has them."""
    for _ in range(3):
        store.add_call(CHAT, replace(CALL, expires_in=timedelta()))
        store.add_call(CHAT, replace(CALL, state="waiting", expires_in=timedelta()))
    with engine.connect() as connection:
        store.lock_call(CHAT, 3, connection)
        store.lock_call(CHAT, 4, connection)
        assert list(store.expire_calls(1)) == [1, 1]
        assert list(store.prune_changes(timedelta(), 3)) == [3, 1]
    assert list(store.expire_calls(1)) == [1]
    assert list(store.prune_changes(timedelta(), 3)) == [2]


def test_another_owner_adds_nothing_by_a_connection_of_the_application(
    store: PostgresStore, engine: Engine
) -> None:
    """The conversation is unknown, and the transaction can go on."""
    store.add_call(CHAT, replace(CALL, call_id="a"))
    with engine.connect() as connection:
        for new in (CALL, replace(CALL, call_id="a")):
            with pytest.raises(UnknownConversationError):
                store.add_call(TAKEN, new, [CHANGE], None, connection)
        assert store.lock_call(TAKEN, 1, connection) is None
        assert store.update_call(TAKEN, 1, expected="done", connection=connection, turn=9) is None
        store.add_call(CHAT, CALL, connection=connection)
        connection.commit()
    assert [(call.number, call.turn) for call in store.calls(CHAT)] == [(1, 0), (2, 0)]


def test_a_transaction_of_repeatable_read_adds_calls(store: PostgresStore, engine: Engine) -> None:
    """In a conversation that it does not see yet, too; one that was preceded is to be repeated."""
    strict = engine.execution_options(isolation_level="REPEATABLE READ")
    with strict.connect() as connection:
        connection.execute(text("select 1"))
        store.begin_turn(OTHER)
        assert store.add_call(OTHER, CALL, connection=connection).turn == 1
        assert store.add_call(CHAT, CALL, connection=connection).number == 1
        with pytest.raises(UnknownConversationError):
            store.add_call(replace(OTHER, owner="bob"), CALL, connection=connection)
        connection.commit()
    with strict.connect() as connection:
        assert connection.scalar(text("select max(number) from alfred_refs_call")) == 1
        store.add_call(CHAT, CALL)
        with pytest.raises(DBAPIError) as caught:
            store.add_call(CHAT, CALL, connection=connection)
        assert caught.value.orig is not None
        assert getattr(caught.value.orig, "sqlstate", None) == "40001"
    assert numbers(store) == [1, 2]


@pytest.mark.parametrize("schema", ["refs", 'Odd "refs": 100%'])
def test_a_call_is_stored_whatever_the_search_path_of_the_application(
    engine: Engine, schema: str
) -> None:
    """The registry's tables may be in a schema of their own, and the application's elsewhere."""
    quoted = '"' + schema.replace('"', '""') + '"'
    with engine.begin() as connection:
        connection.exec_driver_sql(f"create schema {quoted}".replace("%", "%%"))
        connection.execute(text("create schema tenant"))
    registrys = create_engine(engine.url)

    @event.listens_for(registrys, "connect")
    def set_path(connection: Any, _: object) -> None:
        connection.execute(f"set search_path to {quoted}")
        connection.commit()

    store = PostgresStore(registrys)
    store.create_tables()
    theirs = engine.execution_options(schema_translate_map={None: "tenant"})
    with theirs.connect() as connection:
        connection.execute(text("set search_path to tenant"))
        assert store.is_on(connection)
        store.add_call(CHAT, CALL, [CHANGE], None, connection)
        assert store.lock_call(CHAT, 1, connection) is not None
        store.update_call(CHAT, 1, expected="done", connection=connection, turn=4)
        connection.commit()

    assert [call.turn for call in store.calls(CHAT)] == [4]
    assert len(store.changes(CHAT, [1])) == 1
    assert PostgresStore(engine).calls(CHAT) == []  # those of the schema "public"
    registrys.dispose()


def test_it_is_known_which_connections_are_to_the_database_of_the_registry(
    store: PostgresStore, engine: Engine, administration: Engine
) -> None:
    """By what server and database say of themselves, which is read once for each engine."""
    url = engine.url.set(drivername="postgresql+psycopg2")
    same, statements = create_engine(url), []
    with database_like(administration) as other_url:
        other, none = create_engine(other_url), create_engine("sqlite://")
        for their, is_on in ((same, True), (other, False), (none, False)):
            event.listen(
                their, "before_cursor_execute", lambda *given: statements.append(given[2])
            )
            for options in ({}, {"logging_token": "t"}, {}):
                with their.execution_options(**options).connect() as connection:
                    assert store.is_on(connection) is is_on
            their.dispose()
    assert len(statements) == 2


def test_without_the_tables_it_is_said_how_to_get_them(
    store: PostgresStore, engine: Engine
) -> None:
    """On a connection of the application's too."""
    with engine.begin() as connection:
        store.add_call(CHAT, CALL, connection=connection)
        connection.execute(text("drop table alfred_refs_change"))
        with pytest.raises(RegistryTablesError, match="run `alfred-refs migrate URL`"):
            store.add_call(CHAT, CALL, connection=connection)
        connection.rollback()
    with engine.begin() as connection:
        connection.execute(text("drop table alfred_refs_conversation, alfred_refs_call"))
    with engine.begin() as connection:
        assert PostgresStore(engine).is_on(connection)
        with pytest.raises(RegistryTablesError, match="run `alfred-refs migrate URL`"):
            PostgresStore(engine).add_call(CHAT, CALL, connection=connection)


def test_a_use_is_recorded_with_a_call(store: PostgresStore, engine: Engine) -> None:
    """A conversation in which calls are made, and nothing else, is not pruned."""
    store.add_call(CHAT, CALL)
    for connection in (None, engine.connect()):
        with engine.begin() as other:
            other.execute(text("update alfred_refs_conversation set used_at = '2001-01-01'"))
        store.add_call(CHAT, CALL, connection=connection)
        assert list(store.prune(timedelta(days=1), 9)) == []
        if connection is not None:
            connection.close()
