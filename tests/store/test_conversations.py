"""Whole conversations in PostgreSQL, while other connections work in them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, insert, text

from alfred_refs import (
    ConversationExistsError,
    PostgresStore,
    RefRegistry,
    RegistryFailedError,
    RegistryTablesError,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import EntityKey, Ref, decode
from alfred_refs.store import Address
from alfred_refs.store.postgres_refs import key_parameters
from alfred_refs.store.schema import conversations, metadata
from alfred_refs.store.sql import address_parameters
from tests.threads import failures

pytestmark = pytest.mark.tables

CHAT = Address("chat-7")
FORK = Address("chat-8")
KEYS: list[EntityKey] = [("recipe", number) for number in range(1, 6)]
DAY = timedelta(days=1)


@pytest.fixture
def store(engine: Engine) -> PostgresStore:
    """A store that sends a batch in one trip."""
    return PostgresStore(engine)


@pytest.fixture
def slow(engine: Engine) -> Iterator[PostgresStore]:
    """A store that waits for each statement, so that something can happen in between."""
    application = create_engine(engine.url.set(drivername="postgresql+psycopg2"))
    yield PostgresStore(application)
    application.dispose()


@contextmanager
def before(store: PostgresStore, words: str, do: Callable[[], object]) -> Iterator[None]:
    """Do something, once, just before a store sends a statement that has these words."""
    done: list[object] = []

    def look(*arguments: Any) -> None:
        if words in arguments[2] and not done:
            done.append(True)
            do()

    engine = store._own.get()
    event.listen(engine, "before_cursor_execute", look)
    yield
    event.remove(engine, "before_cursor_execute", look)
    assert done, words


@contextmanager
def sent(store: PostgresStore) -> Iterator[list[str]]:
    """Collect the statements that a store sends, by their first word."""
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        statements.append(arguments[2].split()[0])

    engine = store._own.get()
    event.listen(engine, "before_cursor_execute", note)
    yield statements
    event.remove(engine, "before_cursor_execute", note)


def age(engine: Engine, by: str, *ids: str) -> None:
    """Make it look as if conversations were last used, or left, so long ago."""
    with engine.begin() as connection:
        for id_ in ids:
            values = {"by": by, "digest": Address(id_).digest}
            for change in (
                "alfred_refs_conversation set used_at = now()",
                "alfred_refs_counter set left_at = now()",
            ):
                connection.execute(
                    text(f"update {change} - cast(:by as interval) where conversation = :digest"),
                    values,
                )


def let_wait(thread: threading.Thread, engine: Engine) -> None:
    """Start a thread, and go on when the server lets what it does wait for a lock."""
    thread.start()
    waiting = text(
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'"
    )
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        while not connection.scalar(waiting):
            time.sleep(0.01)


def rows(engine: Engine) -> list[tuple[str, int, object]]:
    """Return (entity, number, key) of all mappings, of whatever conversation."""
    query = (
        "select entity, number, key from alfred_refs_mapping "
        "join alfred_refs_counter using (conversation, kind) order by 1, 2"
    )
    with engine.connect() as connection:
        return [
            (entity, number, decode(key))
            for entity, number, key in connection.execute(text(query))
        ]


def forget_until(store: PostgresStore, done: threading.Event) -> None:
    """Forget the conversation again and again, whether it is there or not."""
    while not done.wait(0.003):
        with suppress(UnknownConversationError):
            store.forget(CHAT)


def test_keys_that_are_forgotten_between_two_statements_are_minted_anew(
    store: PostgresStore, slow: PostgresStore
) -> None:
    """`lock` finds all keys known, and then they are gone: the caller does not notice."""
    store.refer(CHAT, KEYS[:2])

    with before(slow, "UNION ALL", lambda: store.forget(CHAT)):
        entries = slow.refer(CHAT, KEYS[:2])

    assert [entry.ref.number for entry in entries] == [3, 4]
    assert store.resolve(CHAT, [entry.ref for entry in entries]).keys() == {
        Ref("recipe", 3),
        Ref("recipe", 4),
    }


def test_nothing_is_minted_without_the_lock(
    store: PostgresStore, slow: PostgresStore, engine: Engine
) -> None:
    """Forgotten and begun again in between: who mints at that time would take the same number."""
    store.refer(CHAT, KEYS[:2])

    def begin_again() -> None:
        store.forget(CHAT)
        store.refer(CHAT, KEYS[2:3])

    with before(slow, "UNION ALL", begin_again):
        entries = slow.refer(CHAT, KEYS[:2])

    assert [entry.ref.number for entry in entries] == [4, 5]
    assert [number for _, number, _ in rows(engine)] == [3, 4, 5]


def test_a_mint_without_the_lock_is_left_out_where_another_has_it(
    slow: PostgresStore, engine: Engine
) -> None:
    """The statement that numbers looks at the lock itself; it does not wait for it."""
    slow.refer(CHAT, KEYS[:1])
    with engine.connect() as other:
        other.execute(text("select * from alfred_refs_conversation for update"))

        values = address_parameters(CHAT) | key_parameters(CHAT, KEYS[:3])
        found = slow._write([PostgresStore._REFER], values)

    assert [(row[0], row[1]) for row in found] == [(1, 1)]
    assert slow.entities(CHAT) == {"recipe": 1}


def test_known_keys_do_not_even_lock(store: PostgresStore, engine: Engine) -> None:
    """The conversation's row is as it was, to its last system column."""
    store.refer(CHAT, KEYS)
    row = text("select xmin, xmax, ctid, used_at from alfred_refs_conversation")
    with engine.connect() as connection:
        before = connection.execute(row).one()
    store.refer(CHAT, KEYS)
    with engine.connect() as connection:
        assert connection.execute(row).one() == before


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_number_that_was_taken_without_the_lock_is_not_taken_again(
    engine: Engine, driver: str
) -> None:
    """Who meets it under the lock tries once more, and gets the next one."""
    application = create_engine(engine.url.set(drivername=f"postgresql+{driver}"))
    store = PostgresStore(application)
    store.refer(CHAT, KEYS[:1])
    minted: list[int] = []
    minting = threading.Thread(
        target=lambda: minted.extend(e.ref.number for e in store.refer(CHAT, KEYS[1:3]))
    )
    with engine.begin() as other:
        other.execute(
            text(
                "insert into alfred_refs_mapping (conversation, kind, number, key) "
                "select conversation, kind, 2, 'other' from alfred_refs_mapping"
            )
        )
        other.execute(text("update alfred_refs_counter set last = 2"))
        let_wait(minting, engine)
    minting.join()

    assert minted == [3, 4]
    application.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_forgetting_while_others_mint_gives_no_number_twice(engine: Engine, driver: str) -> None:
    """Six threads mint the same and other keys, one forgets all the time: no error, no repeat."""
    application = create_engine(engine.url.set(drivername=f"postgresql+{driver}"), pool_size=8)
    store = PostgresStore(application)
    given: list[tuple[int, object]] = []
    forgetting = threading.Thread(target=forget_until, args=(store, done := threading.Event()))

    def mint(seed: int) -> None:
        for step in range(40):
            keys: list[EntityKey] = [("recipe", step % 7), ("recipe", f"{seed}-{step}")]
            given.extend((entry.ref.number, entry.key) for entry in store.refer(CHAT, keys))

    forgetting.start()
    failed = failures(*(lambda seed=seed: mint(seed) for seed in range(6)))
    done.set()
    forgetting.join()

    assert failed == []
    names: dict[int, set[object]] = {}
    for number, key in given:
        names.setdefault(number, set()).add(key)
    assert {len(keys) for keys in names.values()} == {1}
    assert sorted(names) == list(range(1, len(names) + 1))
    assert len(names) > 7 + 6 * 40
    application.dispose()


def test_a_fork_agrees_with_its_counters_while_others_mint(store: PostgresStore) -> None:
    """Every fork is dense and goes on with the next number, and minting waits for it."""
    done = threading.Event()

    def mint() -> None:
        while not done.is_set():
            store.refer(CHAT, [("recipe", uuid.uuid4()), ("order", uuid.uuid4())])

    def fork() -> None:
        for number in range(10):
            store.fork(CHAT, f"fork-{number}")
        done.set()

    store.refer(CHAT, KEYS)
    assert failures(mint, mint, fork) == []

    for number in range(10):
        address = Address(f"fork-{number}")
        refs = [entry.ref.number for entry in store.entries(address, "recipe")]
        assert refs == list(range(1, len(refs) + 1))
        assert store.entities(address)["recipe"] == len(refs)
        assert store.refer(address, [("recipe", 99)])[0].ref.number == len(refs) + 1


def test_of_processes_that_fork_to_one_id_one_wins(store: PostgresStore) -> None:
    """The others are told, and leave nothing: the fork is the winner's, whole."""
    sources = [Address(f"chat-{number}") for number in range(6)]
    for number, source in enumerate(sources):
        store.refer(source, [("recipe", key) for key in range(number + 1)])

    failed = failures(*(lambda source=source: store.fork(source, "fork") for source in sources))

    assert [type(failure) for failure in failed] == 5 * [ConversationExistsError]
    keys = [entry.key for entry in store.entries(Address("fork"))]
    assert keys == list(range(len(keys)))
    assert store.entities(Address("fork")) == {"recipe": len(keys)}
    assert store.refer(Address("new"), KEYS[:1])[0].ref.number == 1


def test_conversations_that_are_forked_onto_each_other_do_not_deadlock(
    store: PostgresStore,
) -> None:
    """Both ids are taken, and both are told so."""
    store.refer(CHAT, KEYS[:1])
    store.refer(FORK, KEYS[:1])

    for _ in range(5):
        failed = failures(lambda: store.fork(CHAT, FORK.id), lambda: store.fork(FORK, CHAT.id))
        assert [type(failure) for failure in failed] == 2 * [ConversationExistsError]


def test_who_mints_into_the_id_of_a_fork_waits_for_it(
    store: PostgresStore, slow: PostgresStore, engine: Engine
) -> None:
    """The id is begun by one of them: it has the refs of the fork, and then its own."""
    store.refer(CHAT, KEYS[:2])
    minted: list[int] = []
    minting = threading.Thread(
        target=lambda: minted.append(store.refer(FORK, [("recipe", 99)])[0].ref.number)
    )

    with before(slow, "INSERT INTO alfred_refs_mapping", lambda: let_wait(minting, engine)):
        slow.fork(CHAT, FORK.id)
    minting.join()

    assert minted == [3]


def test_a_conversation_that_is_in_use_is_left_out_by_pruning(
    store: PostgresStore, engine: Engine
) -> None:
    """It is neither waited for nor removed, and afterwards it is not old any more."""
    for address in (CHAT, FORK):
        store.refer(address, KEYS)
    age(engine, "3 days", CHAT.id, FORK.id)
    with engine.connect() as other:
        other.execute(
            text("update alfred_refs_conversation set used_at = now() where id = 'chat-7'")
        )
        assert list(store.prune(DAY, 10)) == [1]
        other.commit()

    assert list(store.prune(DAY, 10)) == []
    assert [info.id for info in store.conversations()] == [CHAT.id]


def test_pruning_looks_at_the_age_under_the_lock(
    store: PostgresStore, slow: PostgresStore, engine: Engine
) -> None:
    """What was used after the batch before was chosen is not in the next one."""
    for number in range(4):
        store.refer(Address(f"chat-{number}"), KEYS)
    age(engine, "3 days", *(f"chat-{number}" for number in range(4)))
    pruning = slow.prune(DAY, 1)
    assert next(pruning) == 1
    [*kept] = [info.id for info in store.conversations()]
    for id_ in kept:
        store.begin_turn(Address(id_))

    assert list(pruning) == []
    assert {info.id for info in store.conversations()} == set(kept)


def test_a_batch_of_pruning_blocks_nobody_else(
    store: PostgresStore, slow: PostgresStore, engine: Engine
) -> None:
    """In the middle of its transaction another prune and a live conversation go on."""
    ids = [f"chat-{number}" for number in range(9)]
    for id_ in ids:
        store.refer(Address(id_), KEYS)
    age(engine, "3 days", *ids[1:])
    between: list[object] = []

    def others() -> None:
        between.append(list(store.prune(DAY, 100)))
        between.append(store.refer(Address("chat-0"), [("recipe", 99)])[0].ref.number)

    with before(slow, "DELETE FROM alfred_refs_conversation", others):
        batches = list(slow.prune(DAY, 3))

    assert (batches, between) == ([3], [[5], 6])
    assert [info.id for info in store.conversations()] == ["chat-0"]


def test_who_mints_in_a_conversation_that_is_being_pruned_begins_it_anew(
    store: PostgresStore, slow: PostgresStore, engine: Engine
) -> None:
    """They wait for the short transaction, and their numbers go on."""
    store.refer(CHAT, KEYS)
    age(engine, "3 days", CHAT.id)
    minted: list[int] = []
    minting = threading.Thread(
        target=lambda: minted.append(store.refer(CHAT, [("recipe", 99)])[0].ref.number)
    )

    with before(slow, "DELETE FROM alfred_refs_mapping", lambda: let_wait(minting, engine)):
        assert list(slow.prune(DAY, 10)) == [1]
    minting.join()

    assert minted == [6]
    assert rows(engine) == [("recipe", 6, 99)]


def test_who_erases_a_row_waits_for_who_works_and_is_waited_for(
    store: PostgresStore, slow: PostgresStore, engine: Engine
) -> None:
    """It skips no conversation that is in use, and holds no lock that could make a circle."""
    chats = [Address(f"chat-{number}") for number in range(3)]
    for chat in chats:
        store.refer(chat, KEYS, {KEYS[0]: "Soup"})
    done: list[int] = []
    erasing = threading.Thread(target=lambda: done.extend(store.erase(KEYS[0], None, 10)))
    with engine.begin() as other:
        other.execute(PostgresStore._LOCK_BEGUN, address_parameters(chats[1]))
        let_wait(erasing, engine)
    erasing.join()
    assert done == [3]
    assert {entry.label for chat in chats for entry in store.entries(chat)} == {None}

    store.label(chats[2], {KEYS[0]: "Soup"})
    labelling = threading.Thread(target=store.label, args=(chats[2], {KEYS[0]: "Stew"}))
    with before(slow, "UPDATE alfred_refs_mapping", lambda: let_wait(labelling, engine)):
        assert list(slow.erase(KEYS[0], None, 10)) == [3]
    labelling.join()
    assert next(iter(store.entries(chats[2]))).label == "Stew"


def test_pruning_removes_counters_that_were_left_long_ago(
    store: PostgresStore, engine: Engine
) -> None:
    """Not those left of late, nor those of a conversation that was begun again."""
    ids = [f"chat-{number}" for number in range(6)]
    for id_ in ids:
        store.refer(Address(id_), [*KEYS, ("order", 1)])
        store.forget(Address(id_))
    age(engine, "3 days", *ids[1:])
    store.begin_turn(Address("chat-1"))
    store.refer(Address("chat-2"), KEYS[:1])

    assert list(store.prune(DAY, 2)) == []

    numbers = {id_: store.refer(Address(id_), KEYS[4:])[0].ref.number for id_ in ids}
    assert numbers == {"chat-0": 6, "chat-1": 6, "chat-2": 7} | dict.fromkeys(ids[3:], 1)
    assert store.refer(Address("chat-2"), [("order", 1)])[0].ref.number == 2


def test_a_counter_that_is_taken_up_again_is_not_removed(
    store: PostgresStore, engine: Engine
) -> None:
    """Pruning found it left long ago, and waits for who has just begun to count again."""
    store.refer(CHAT, KEYS)
    store.forget(CHAT)
    age(engine, "3 days", CHAT.id)
    pruned: list[list[int]] = []
    pruning = threading.Thread(target=lambda: pruned.append(list(store.prune(DAY, 10))))
    with engine.begin() as other:
        for statement in (PostgresStore._LOCK, PostgresStore._REFER):
            other.execute(statement, address_parameters(CHAT) | key_parameters(CHAT, KEYS[:1]))
        let_wait(pruning, engine)
    pruning.join()

    assert pruned == [[]]
    assert store.refer(CHAT, KEYS[:2])[1].ref.number == 7


@pytest.mark.parametrize(
    ("aged", "noted"),
    [("59 minutes", []), ("61 minutes", ["BEGIN", "SELECT", "UPDATE", "COMMIT"])],
)
def test_resolving_notes_once_an_hour_that_a_conversation_is_used(
    slow: PostgresStore, engine: Engine, aged: str, noted: list[str]
) -> None:
    """One statement as a rule; one short transaction more when it was not noted of late."""
    slow.refer(CHAT, KEYS)
    age(engine, aged, CHAT.id)

    with sent(slow) as first:
        assert slow.resolve(CHAT, [Ref("recipe", 1)])[Ref("recipe", 1)].key == 1
    with sent(slow) as second:
        slow.resolve(CHAT, [Ref("recipe", 1), Ref("recipe", 9)])

    assert (first, second) == (["SELECT", *noted], ["SELECT"])


def test_referring_to_known_keys_notes_it_too(store: PostgresStore, engine: Engine) -> None:
    """In the same round trip; and what was noted of late is not written again."""
    store.refer(CHAT, KEYS)
    used = store.describe(CHAT.id).used_at
    store.refer(CHAT, KEYS)
    assert store.describe(CHAT.id).used_at == used

    age(engine, "2 hours", CHAT.id)
    store.refer(CHAT, KEYS)
    assert store.describe(CHAT.id).used_at > used


def test_a_conversation_that_is_only_resolved_is_not_pruned(
    store: PostgresStore, engine: Engine
) -> None:
    """It is used. What is merely looked at by operators is not."""
    for address in (CHAT, FORK):
        store.refer(address, KEYS)
    age(engine, "3 days", CHAT.id, FORK.id)
    store.resolve(CHAT, [Ref("recipe", 1)])
    store.export(FORK)
    assert len(list(store.entries(FORK))) == 5
    store.describe(FORK.id)
    store.turn(FORK)
    assert store.resolve(Address(FORK.id, "bob"), []) == {}

    assert list(store.prune(DAY, 10)) == [1]
    assert [info.id for info in store.conversations()] == [CHAT.id]


def test_another_owner_does_not_keep_a_conversation_from_being_pruned(
    store: PostgresStore, engine: Engine
) -> None:
    """Asking for somebody else's is no use of it."""
    store.refer(CHAT, KEYS)
    age(engine, "3 days", CHAT.id)
    bob = Address(CHAT.id, "bob")

    with pytest.raises(UnknownConversationError):
        store.resolve(bob, [Ref("recipe", 1)])
    with pytest.raises(UnknownConversationError):
        store.refer(bob, KEYS)
    store.touch(bob)

    assert list(store.prune(DAY, 10)) == [1]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_role_that_may_only_read_resolves(engine: Engine, driver: str) -> None:
    """That it cannot note the use is no error, and is tried once an hour, not every time."""
    PostgresStore(engine).refer(CHAT, KEYS)
    age(engine, "3 days", CHAT.id)
    role = f"reader_{uuid.uuid4().hex[:12]}"
    with engine.begin() as connection:
        connection.execute(text(f"create role {role}"))
        connection.execute(text(f"grant select on {', '.join(metadata.tables)} to {role}"))
    application = create_engine(engine.url.set(drivername=f"postgresql+{driver}"))

    @event.listens_for(application, "connect")
    def only_read(connection: Any, _: object) -> None:
        connection.cursor().execute(f"set role {role}")
        connection.commit()

    reader = PostgresStore(application)
    for _ in range(3):
        assert reader.resolve(CHAT, [Ref("recipe", 1)])[Ref("recipe", 1)].key == 1
    with sent(reader) as statements:
        reader.touch(CHAT)
    assert statements == []
    assert len(list(reader.entries(CHAT))) == 5
    assert len(reader.export(CHAT).entries) == 5
    with pytest.raises(RegistryFailedError, match="permission denied"):
        reader.forget(CHAT)
    application.dispose()
    with engine.begin() as connection:
        connection.execute(text(f"drop owned by {role}"))
        connection.execute(text(f"drop role {role}"))


def test_more_conversations_than_a_page_are_all_listed(
    store: PostgresStore, engine: Engine
) -> None:
    """Each once, in as many statements as there are pages."""
    ids = [f"chat-{number}" for number in range(2100)]
    with engine.begin() as connection:
        values = [{"conversation": Address(id_).digest, "id": id_} for id_ in ids]
        connection.execute(insert(conversations), values)

    with sent(store) as statements:
        listed = [info.id for info in store.conversations()]

    assert sorted(listed) == sorted(ids)
    assert statements == 4 * ["SELECT"]  # which they are, and then three pages


def test_what_is_used_or_forgotten_meanwhile_is_listed_once_at_most(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which conversations are listed, and in what order, is decided before the first page."""
    monkeypatch.setattr("alfred_refs.store.postgres._PAGE", 2)
    for number in range(6):
        store.begin_turn(Address(f"chat-{number}"))

    listing = store.conversations()
    first = [next(listing).id for _ in range(2)]
    store.begin_turn(Address("chat-0"))
    store.begin_turn(Address("chat-6"))
    store.forget(Address("chat-2"))

    assert [*first, *(info.id for info in listing)] == [f"chat-{n}" for n in (5, 4, 3, 1, 0)]


def test_an_export_is_of_one_moment(store: PostgresStore, slow: PostgresStore) -> None:
    """What is minted, marked or forgotten while it is read is not in it."""
    store.refer(CHAT, KEYS)

    def meanwhile() -> None:
        store.refer(CHAT, [("recipe", 99)])
        store.mark(CHAT, KEYS, "was deleted")
        store.forget(CHAT)

    with before(slow, "alfred_refs_mapping", meanwhile):
        exported = slow.export(CHAT)

    assert [(e.ref.number, e.key, e.gone) for e in exported.entries] == [
        (number, number, None) for number in range(1, 6)
    ]
    assert exported.last == {"recipe": 5}


def test_a_restore_that_fails_leaves_nothing(store: PostgresStore, engine: Engine) -> None:
    """All of it or none: the id stays free."""
    store.refer(CHAT, KEYS)
    exported = store.export(CHAT)
    with engine.begin() as connection:
        connection.execute(
            text("alter table alfred_refs_mapping add check (number < 5) not valid")
        )

    with pytest.raises(RegistryFailedError, match="violates check constraint"):
        store.restore(FORK, exported)

    assert [info.id for info in store.conversations()] == [CHAT.id]
    assert store.stats().left_counters == 0
    assert store.refer(FORK, KEYS[:1])[0].ref.number == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.refer(CHAT, KEYS),
        lambda store: store.resolve(CHAT, [Ref("recipe", 1)]),
        lambda store: store.begin_turn(CHAT),
        lambda store: store.fork(CHAT, FORK.id),
        lambda store: store.forget(CHAT),
        lambda store: store.export(CHAT),
        lambda store: list(store.entries(CHAT)),
        lambda store: list(store.conversations()),
        lambda store: store.count_conversations(),
        lambda store: list(store.prune(DAY, 10)),
        lambda store: store.describe(CHAT.id),
        lambda store: store.stats(),
        lambda store: store.touch(CHAT),
    ],
)
def test_without_the_tables_it_is_said_how_to_get_them(
    store: PostgresStore, engine: Engine, use: Callable[[PostgresStore], object]
) -> None:
    """As it is for what a session does."""
    RefRegistry(engine).metadata.drop_all(engine)

    with pytest.raises(RegistryTablesError, match="alfred-refs migrate"):
        use(store)
