"""What every store promises: the same tests for each."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, create_engine

from alfred_refs import UnknownConversationError
from alfred_refs.observed import ObservedStore
from alfred_refs.refs import Ref
from alfred_refs.store import Address, EntityKey, MemoryStore, PostgresStore, Store
from alfred_refs.telemetry import Observed, Telemetry

CHAT = Address("chat-7", "ann")
TAKEN = Address("chat-7", "bob")


pytestmark = pytest.mark.tables


def new_keys(entity: str, count: int) -> list[EntityKey]:
    """Make keys that nobody has met."""
    return [(entity, uuid.uuid4()) for _ in range(count)]


def memory(_: Engine) -> Store:
    """Make a store in memory."""
    return MemoryStore()


def psycopg(engine: Engine) -> Store:
    """Make a store on psycopg, which sends a batch in one trip."""
    return PostgresStore(engine)


def psycopg2(engine: Engine) -> Store:
    """Make a store on a driver without pipelines."""
    return PostgresStore(create_engine(engine.url.set(drivername="postgresql+psycopg2")))


def observed(_: Engine) -> Store:
    """Make a store that counts what another does."""
    return ObservedStore(MemoryStore(), Telemetry(Observed().dispatch))


@pytest.fixture(params=[memory, psycopg, psycopg2, observed], ids=lambda make: str(make.__name__))
def store(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Store]:
    """An empty store of each kind."""
    make: Callable[[Engine], Store] = request.param
    store = make(engine)
    yield store
    if isinstance(store, PostgresStore):
        store._application.dispose()


def test_refs_are_numbered_from_one_in_the_order_of_the_keys(store: Store) -> None:
    """Each entity has numbers of its own, dense and in order."""
    recipes, orders = new_keys("recipe", 3), [("order", 5), ("order", 4)]

    entries = store.refer(CHAT, [recipes[0], *orders, *recipes[1:]])

    assert [str(entry.ref) for entry in entries] == [
        *("recipe_1", "order_1", "order_2"),
        *("recipe_2", "recipe_3"),
    ]
    assert [entry.key for entry in entries] == [recipes[0][1], 5, 4, recipes[1][1], recipes[2][1]]


def test_a_key_keeps_its_ref(store: Store) -> None:
    """The same key has the same ref, and only new ones take numbers."""
    first, second, third = new_keys("recipe", 3)
    store.refer(CHAT, [first, second])

    entries = store.refer(CHAT, [third, second, first])

    assert [entry.ref.number for entry in entries] == [3, 2, 1]


def test_an_entry_tells_whether_it_was_minted_just_now(store: Store) -> None:
    """It says so once, to the call that gave the number; entries are equal all the same."""
    first, second = new_keys("recipe", 2)
    minted = store.refer(CHAT, [first])

    entries = store.refer(CHAT, [first, second])

    assert [entry.minted for entry in [*minted, *entries]] == [True, False, True]
    assert entries[0] == minted[0]
    assert not store.resolve(CHAT, [minted[0].ref])[minted[0].ref].minted


def test_equal_keys_of_two_entities_are_two_refs(store: Store) -> None:
    """A key is a key of its entity."""
    entries = store.refer(CHAT, [("recipe", 7), ("order", 7)])

    assert [str(entry.ref) for entry in entries] == ["recipe_1", "order_1"]


@pytest.mark.parametrize(
    "key", [uuid.UUID(int=7), 7, -(2**62), "7", "", "ключ", (uuid.UUID(int=7), 7)]
)
def test_a_key_comes_back_as_it_was(store: Store, key: object) -> None:
    """Keys of every type are stored without loss."""
    [entry] = store.refer(CHAT, [("thing", key)])  # type: ignore[list-item]

    found = store.resolve(CHAT, [entry.ref])

    assert found[entry.ref].key == key
    assert type(found[entry.ref].key) is type(key)


def test_what_is_not_known_is_left_out(store: Store) -> None:
    """Resolving returns the refs that exist, and no others."""
    store.refer(CHAT, new_keys("recipe", 2))
    refs = [Ref("recipe", 2), Ref("recipe", 3), Ref("meal_plan", 1)]

    assert list(store.resolve(CHAT, refs)) == [Ref("recipe", 2)]


def test_nothing_is_known_of_a_conversation_that_was_not_begun(store: Store) -> None:
    """Asking does not begin a conversation."""
    assert store.resolve(CHAT, [Ref("recipe", 1)]) == {}
    assert (store.entities(CHAT), store.turn(CHAT)) == ({}, 0)
    assert store.known(CHAT, Ref("recipe", 1), 5) == []
    assert store.refer(TAKEN, [("recipe", 1)])[0].ref.number == 1


def test_conversations_do_not_know_each_other(store: Store) -> None:
    """The same key has a ref of its own in each conversation."""
    keys = new_keys("recipe", 2)
    store.refer(CHAT, keys)

    [entry] = store.refer(Address("chat-8", "ann"), keys[1:])

    assert str(entry.ref) == "recipe_1"
    assert store.entities(Address("chat-8", "ann")) == {"recipe": 1}


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.refer(TAKEN, [("recipe", 1)]),
        lambda store: store.refer(TAKEN, [("recipe", 2)]),
        lambda store: store.resolve(TAKEN, [Ref("recipe", 1)]),
        lambda store: store.resolve(TAKEN, [Ref("recipe", 9)]),
        lambda store: store.entities(TAKEN),
        lambda store: store.begin_turn(TAKEN),
        lambda store: store.turn(TAKEN),
        lambda store: store.turn(Address("chat-7")),
    ],
)
def test_a_conversation_of_another_owner_is_not_known(
    store: Store, use: Callable[[Store], object]
) -> None:
    """Whatever another owner tries, it reads as unknown, and nothing is changed."""
    store.refer(CHAT, [("recipe", 1)])

    with pytest.raises(UnknownConversationError, match="'chat-7' is not known for this owner"):
        use(store)
    assert (store.entities(CHAT), store.turn(CHAT)) == ({"recipe": 1}, 0)


def test_another_owner_can_neither_list_nor_mark(store: Store) -> None:
    """Known refs are not offered to another owner, and rows are not called gone by one."""
    store.refer(CHAT, [("recipe", 1)])

    store.mark(TAKEN, [("recipe", 1)], "was deleted")

    assert store.known(TAKEN, Ref("recipe", 1), 5) == []
    assert store.resolve(CHAT, [Ref("recipe", 1)])[Ref("recipe", 1)].gone is None


def test_turns_are_counted_from_one(store: Store) -> None:
    """Beginning a turn begins the conversation, and never counts twice."""
    assert [store.begin_turn(CHAT), store.begin_turn(CHAT), store.turn(CHAT)] == [1, 2, 2]


def test_known_refs_are_the_nearest_in_number(store: Store) -> None:
    """An error can offer what a model most likely meant, and nothing that is gone."""
    keys = new_keys("recipe", 9)
    store.refer(CHAT, keys)
    store.mark(CHAT, [keys[4]], "was deleted")

    known = store.known(CHAT, Ref("recipe", 5), 4)

    assert [ref.number for ref in known] == [4, 6, 3, 7]


def test_a_row_that_is_gone_can_be_there_again(store: Store) -> None:
    """A mark says why there is no row, can be taken back, and never touches the mapping."""
    [key] = new_keys("recipe", 1)
    [entry] = store.refer(CHAT, [key])

    store.mark(CHAT, [key, ("recipe", 99)], "was never saved")
    gone = store.refer(CHAT, [key])
    store.mark(CHAT, [key], None)

    assert [(e.ref, e.gone) for e in gone] == [(entry.ref, "was never saved")]
    assert store.resolve(CHAT, [entry.ref])[entry.ref] == entry


def test_numbers_are_not_given_twice_after_rows_are_gone(store: Store) -> None:
    """A number once taken stays taken."""
    keys = new_keys("recipe", 2)
    store.refer(CHAT, keys)
    store.mark(CHAT, keys, "was deleted")

    assert store.refer(CHAT, new_keys("recipe", 1))[0].ref.number == 3


def test_threads_minting_the_same_and_other_keys_leave_no_gap_and_no_duplicate(
    store: Store,
) -> None:
    """Eight threads mint overlapping batches of two entities: dense, one ref a key, no error."""
    pool = new_keys("recipe", 60) + new_keys("meal_plan", 40)
    failures: list[BaseException] = []
    seen: dict[EntityKey, set[str]] = {key: set() for key in pool}

    def mint(offset: int) -> None:
        for step in range(12):
            batch = [pool[(offset * 7 + step * 11 + i) % len(pool)] for i in range(10)]
            try:
                for key, entry in zip(batch, store.refer(CHAT, batch), strict=True):
                    seen[key].add(str(entry.ref))
            except BaseException as error:  # noqa: BLE001  # shown by the assertion
                failures.append(error)

    threads = [threading.Thread(target=mint, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.refer(CHAT, pool)

    assert failures == []
    assert {len(refs) for refs in seen.values()} == {1}
    assert store.entities(CHAT) == {"recipe": 60, "meal_plan": 40}
    assert sorted(ref for refs in seen.values() for ref in refs) == sorted(
        [f"recipe_{n}" for n in range(1, 61)] + [f"meal_plan_{n}" for n in range(1, 41)]
    )


def test_nothing_to_do_is_done(store: Store) -> None:
    """Empty lists are answered without a conversation."""
    assert store.refer(CHAT, []) == []
    assert store.resolve(CHAT, []) == {}
    store.mark(CHAT, [], "was deleted")
