"""The caches of a conversation: bounded, shared, and never taken from under a reader."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import tracemalloc
import uuid
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Engine

from alfred_refs import (
    Conversation,
    GoneRefError,
    PostgresStore,
    RefRegistry,
    RefSession,
    UnknownRefError,
)
from alfred_refs.conversation.caches import Caches, RefCache
from alfred_refs.mapping.keys import Ref
from alfred_refs.store import Address, Entry
from tests.fix_session import TravelLog

CAPACITY = 20
KEYS = [uuid.UUID(int=n) for n in range(1, 201)]
REFS = [f"recipe_{n}" for n in range(1, 201)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of twenty mappings."""
    monkeypatch.setattr("alfred_refs.conversation.registry.CAPACITY", CAPACITY)


@pytest.fixture
def chat(memory: RefRegistry) -> Conversation:
    """A conversation with many more refs than a cache has room for."""
    chat = memory.conversation("chat-7")
    chat.refer_all("recipe", KEYS)
    return chat


def put_back(chat: Conversation, *keys: uuid.UUID) -> None:
    """Tell the store that rows are there again, as a session of another process does."""
    chat._store.mark(chat._address, [("recipe", key) for key in keys], None)


def take(chat: Conversation, *keys: uuid.UUID) -> None:
    """Note that rows were deleted."""
    chat.note_gone([("recipe", key) for key in keys], "was deleted")


def kept(caches: Caches) -> int:
    """Return how many mappings the caches of a conversation have, all together."""
    return sum(map(len, caches._in_use()))


@pytest.mark.slow
def test_a_mapping_takes_less_than_320_bytes() -> None:
    """A UUID, its number, its ref and their places in two dictionaries: all that is kept."""
    gc.collect()
    tracemalloc.start()
    cache = RefCache()
    for number in range(1, 12_001):
        cache.keep(Entry(Ref("recipe", number), uuid.uuid4()))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(cache) == 12_000
    assert taken / len(cache) < 320


def test_a_row_that_goes_is_shown_and_not_resolved() -> None:
    """Its mapping stays where it is, so whoever shows its key finds its ref at every step."""
    gone: set[str] = set()
    cache = RefCache(gone)
    cache.put("recipe", KEYS[6], "recipe_1")
    refs = cache.refs_of("recipe")
    for is_gone in (False, True, False):
        (gone.add if is_gone else gone.discard)("recipe_1")

        assert (refs[KEYS[6].int], cache.refs_by_entity(KEYS[6])) == (
            "recipe_1",
            {"recipe": "recipe_1"},
        )
        keys, missing = cache.look_up([("recipe_1", "recipe")])
        assert [*keys.values(), *missing] == [("recipe_1", "recipe") if is_gone else KEYS[6]]


def test_what_is_shared_is_bounded(chat: Conversation) -> None:
    """However many keys are referred to or resolved, one by one or at once, and all are right."""
    for key, ref in zip(KEYS, REFS, strict=True):
        assert (chat.refer("recipe", key), chat.resolve(ref)) == (ref, key)
        assert len(chat._cache) <= CAPACITY
    assert chat.resolve_all(REFS) == KEYS
    assert chat.refer_all("recipe", KEYS) == REFS

    assert kept(chat._caches) <= CAPACITY


def test_what_fits_costs_no_round_trip(store: TravelLog) -> None:
    """As many as the capacity are asked for once, by whoever works in the conversation."""
    registry = RefRegistry(store=store)
    chat = registry.conversation("chat-7")
    chat.refer_all("recipe", KEYS[:CAPACITY])
    store.trips.clear()

    assert registry.conversation("chat-7").resolve_all(REFS[:CAPACITY]) == KEYS[:CAPACITY]
    assert chat.refer_all("recipe", KEYS[:CAPACITY]) == REFS[:CAPACITY]
    assert store.trips == []
    chat.refer("recipe", KEYS[CAPACITY])
    assert store.trips == ["refer"]


def test_a_cache_that_is_full_goes_with_its_last_reader(chat: Conversation) -> None:
    """Who reads it goes on reading it; nobody else gets it."""
    cache = chat._cache
    chat.refer_all("recipe", KEYS[:CAPACITY])
    refs = cache.refs_of("recipe")
    chat.refer("recipe", KEYS[CAPACITY])
    reader = weakref.ref(cache)

    assert chat._cache is not cache
    assert [refs[key.int] for key in KEYS[:CAPACITY]] == REFS[:CAPACITY]
    del cache, refs
    gc.collect()
    assert reader() is None


@pytest.mark.parametrize("show", [Conversation.refer_all, lambda *_: None])
def test_a_row_that_is_gone_stays_gone_when_its_cache_is_full(
    chat: Conversation, show: Callable[..., object]
) -> None:
    """Its mark is kept, or made when it goes: to show its ref once more calls nothing back."""
    chat.refer_all("recipe", KEYS[:2])
    chat.note_gone([("recipe", KEYS[0])], "was deleted")
    for key in KEYS[2:]:
        chat.refer("recipe", key)
    chat.note_gone([("recipe", KEYS[1])], "was never saved")

    show(chat, "recipe", KEYS[:2])
    assert chat.refer_all("recipe", KEYS[:2]) == REFS[:2]
    with pytest.raises(GoneRefError, match="'recipe_1' was deleted"):
        chat.resolve("recipe_1")
    with pytest.raises(GoneRefError, match="'recipe_2' was never saved"):
        chat.resolve("recipe_2")


def test_a_gone_row_that_is_back_is_so_in_every_cache(chat: Conversation) -> None:
    """Whoever reads a cache of before shows its ref all along; who has the newest resolves it."""
    chat.refer("recipe", KEYS[0])
    cache = chat._cache
    refs = cache.refs_of("recipe")
    for key in KEYS[1 : CAPACITY + 1]:
        chat.refer("recipe", key)
    chat.note_gone([("recipe", KEYS[0])], "was deleted")
    assert refs[KEYS[0].int] == "recipe_1"
    assert (cache.look_up([("recipe_1", None)])[0], cache is chat._cache) == ({}, False)

    put_back(chat, KEYS[0])
    assert chat.resolve("recipe_1") == KEYS[0]
    assert refs[KEYS[0].int] == "recipe_1"
    assert cache.look_up([("recipe_1", None)])[0] == {("recipe_1", None): KEYS[0]}


def test_a_row_that_another_process_found_again_is_there(store: TravelLog) -> None:
    """The store says so where it is asked next, and is not asked again."""
    here = RefRegistry(store=store).conversation("chat-7")
    here.refer("recipe", KEYS[0])
    here.note_gone([("recipe", KEYS[0])], "was deleted")
    put_back(here, KEYS[0])
    store.trips.clear()

    assert [here.resolve("recipe_1"), here.resolve("recipe_1")] == [KEYS[0]] * 2
    assert store.trips == ["resolve"]


def test_a_row_that_goes_while_the_store_is_asked_for_its_ref_is_gone(
    chat: Conversation, memory: RefRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store calls it gone, and it was not read since: another thread has just said so."""
    chat.refer("recipe", KEYS[0])
    cache = chat._cache
    for key in KEYS[1 : CAPACITY + 1]:
        chat.refer("recipe", key)
    assert cache is not chat._cache
    refer = memory._store.refer

    def refer_late(*asked: Any) -> Any:
        chat.note_gone([("recipe", KEYS[0])], "was deleted")
        return refer(*asked)

    monkeypatch.setattr(memory._store, "refer", refer_late)
    assert chat.refer("recipe", KEYS[0]) == "recipe_1"
    with pytest.raises(GoneRefError):
        chat.resolve("recipe_1")


def test_a_row_that_goes_again_is_gone(chat: Conversation) -> None:
    """Though this process has not heard that it was back, and has it as gone already."""
    chat.refer("recipe", KEYS[0])
    chat.note_gone([("recipe", KEYS[0])], "was deleted")
    put_back(chat, KEYS[0])
    chat.note_gone([("recipe", KEYS[0])], "was deleted")

    with pytest.raises(GoneRefError):
        chat.resolve("recipe_1")


def test_what_was_let_go_is_not_named_in_errors(chat: Conversation) -> None:
    """Names are those of the keys that are in a cache, or gone."""
    chat.refer_all("recipe", KEYS[:3])
    chat.note_gone([("recipe", KEYS[0])], "was deleted")
    cache = chat._cache
    for key in KEYS[3:]:
        chat.refer("recipe", key)

    assert chat.refs_by_entity(KEYS[0]) == {"recipe": "recipe_1"}
    assert chat.refs_by_entity(KEYS[1]) == {"recipe": "recipe_2"}
    del cache
    gc.collect()
    assert chat.refs_by_entity(KEYS[1]) == {}


def test_a_forgotten_conversation_resolves_nothing_here(memory: RefRegistry) -> None:
    """Whoever has opened it, at once; who is reading shows what it showed."""
    chat, other = memory.conversation("chat-7"), memory.conversation("chat-7")
    chat.refer_all("recipe", KEYS[:3])
    chat.note_gone([("recipe", KEYS[1])], "was deleted")
    chat.note_gone([("recipe", KEYS[2])], "was deleted")
    put_back(chat, KEYS[2])
    refs = other._cache.refs_of("recipe")
    chat.forget()

    for ref in REFS[:3]:
        with pytest.raises(UnknownRefError):
            other.resolve(ref)
    assert [refs[key.int] for key in KEYS[:3]] == REFS[:3]
    assert (chat.refs_by_entity(KEYS[0]), chat._caches.gone) == ({}, set())
    assert other.refer("recipe", KEYS[2]) == "recipe_4"


@pytest.mark.slow
def test_threads_that_share_a_conversation_see_the_right_refs(tables: Engine) -> None:
    """Eight of them refer, resolve, lose and put back at random while caches come and go."""
    registry = RefRegistry(tables)
    chat = registry.conversation("chat-7")
    chat.refer_all("recipe", KEYS)
    until = time.monotonic() + 3

    def work(seed: int) -> int:
        chance = random.Random(seed)  # noqa: S311
        mine: Any = chat if seed % 2 else registry.conversation("chat-7")
        rounds = 0
        while time.monotonic() < until:
            some = chance.sample(range(len(KEYS)), chance.choice([1, 3, 30]))
            assert mine.refer_all("recipe", [KEYS[n] for n in some]) == [REFS[n] for n in some]
            with suppress(GoneRefError):
                keys = mine.resolve_all([REFS[n] for n in some], "recipe")
                assert keys == [KEYS[n] for n in some]
            chance.choice([put_back, take])(mine, *[KEYS[n] for n in some[:2]])
            rounds += 1
        return rounds

    with ThreadPoolExecutor(8) as threads:
        assert min(threads.map(work, range(8))) > 0

    chat.refer("recipe", uuid.UUID(int=999))
    assert kept(chat._caches) <= CAPACITY
    again = RefRegistry(tables).conversation("chat-7")
    assert again.refer_all("recipe", KEYS) == REFS
    put_back(chat, *KEYS)
    assert chat.resolve_all(REFS) == again.resolve_all(REFS) == KEYS


def test_conversations_opened_at_once_share_their_caches(memory: RefRegistry) -> None:
    """A mark that one of them makes is seen by all."""
    together = threading.Barrier(8)

    def open_at_once(number: int) -> Conversation:
        together.wait()
        return memory.conversation(f"chat-{number}")

    def open_(_: int) -> list[Conversation]:
        return [open_at_once(number) for number in range(300)]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            opened = list(threads.map(open_, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert [len({id(each._caches) for each in same}) for same in zip(*opened, strict=True)] == (
        [1] * 300
    )


def test_opening_costs_the_same_however_many_refs_there_are(
    tables: Engine, sent: list[str]
) -> None:
    """Nothing is sent to open, and one ref is found by one row of an index."""
    RefRegistry(tables).conversation("chat-7").refer_all("recipe", range(20_000))
    sent.clear()
    chat = RefRegistry(tables).conversation("chat-7")
    with RefSession(tables, conversation=chat):
        assert (sent, len(chat._cache)) == ([], 0)

    assert chat.resolve("recipe_17000") == 16_999
    assert len(chat._cache) == 1
    assert rows_read(tables, "recipe", 17_000) == {"alfred_refs_mapping": 1}


def rows_read(engine: Engine, entity: str, number: int) -> dict[str, int]:
    """Return how many rows PostgreSQL reads of each big table to resolve a ref, by an index."""
    query = PostgresStore._RESOLVE.compile(dialect=engine.dialect)
    given = {
        "p_conversation": Address("chat-7").digest,
        "p_owner": None,
        "p_entities": [entity],
        "p_numbers": [number],
    }
    with engine.connect() as connection:
        connection.exec_driver_sql("analyze alfred_refs_mapping")
        parameters = query.construct_params(given)
        explain = f"explain (analyze, format json) {query}"
        [plan] = connection.exec_driver_sql(explain, parameters).scalar_one()
    return dict(_scans(plan["Plan"]))


def _scans(node: dict[str, Any]) -> Iterator[tuple[str, int]]:
    if node.get("Relation Name") == "alfred_refs_mapping":
        is_by_index = node["Node Type"] in ("Index Scan", "Index Only Scan")
        discarded = node.get("Rows Removed by Filter", 0)
        rows = int(node["Actual Rows"] * node["Actual Loops"]) + discarded
        yield node["Relation Name"], rows if is_by_index else -1
    for inner in node.get("Plans", ()):
        yield from _scans(inner)
