"""What a registry tells of its work: counts, events and log lines, and no key in any of them."""

from __future__ import annotations

import gc
import inspect
import logging
import re
import threading
import time
import uuid
import weakref
from dataclasses import FrozenInstanceError, asdict
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import sessionmaker

from alfred_refs import (
    AsyncRefSession,
    BadRefError,
    RefRegistry,
    RefSession,
    Store,
    UnknownConversationError,
)
from alfred_refs.mapping.keys import Ref
from alfred_refs.store import Address, Entry
from alfred_refs.store.memory import MemoryStore
from alfred_refs.store.telemetry import (
    Counts,
    EventSource,
    ObservedStore,
    Refusal,
    RoundTrip,
    Telemetry,
    observe,
)
from tests.fix_session import TravelLog
from tests.models import MealPlan, Recipe
from tests.threads import failures

CHAT = Address("chat-7")
KEY = uuid.UUID("5eed1ce0-0000-4000-8000-000000000001")
NOTHING = Counts(**dict.fromkeys(Counts.__annotations__, 0))


@pytest.fixture
def memory() -> RefRegistry:
    """A registry in memory."""
    return RefRegistry(store=MemoryStore())


class Broken(MemoryStore):
    """A store whose database says something with a key in it."""

    def refer(self, address: Address, keys: Any, *_: object) -> list[Entry]:
        """Fail."""
        raise ConnectionError(f"no answer about {keys} in {address}")


def counted(registry: RefRegistry) -> dict[str, float]:
    """Return what was counted at all, but for the time, which differs."""
    return {name: n for name, n in asdict(registry.counts).items() if n and name != "seconds"}


def heard_by(registry: Any) -> list[Any]:
    """Return a list of what a registry tells of, growing as it does."""
    heard: list[Any] = []
    event.listen(registry, "round_trip", heard.append)
    event.listen(registry, "refusal", heard.append)
    return heard


# Counts


def test_a_new_registry_has_counted_nothing(memory: RefRegistry) -> None:
    """Opening a conversation is nothing yet."""
    memory.conversation("chat-7")

    assert memory.counts == NOTHING


@pytest.mark.usefixtures("recipes")
def test_what_a_session_does_is_counted(
    sessions: sessionmaker[RefSession], registry: RefRegistry, store: TravelLog
) -> None:
    """Keys minted, refs used and round trips made are counted, and nothing else."""
    with sessions(conversation=registry.conversation("chat-7")) as session:
        assert [recipe.id for recipe in session.scalars(select(Recipe))][-1] == "recipe_5"
        session.scalars(select(Recipe).where(Recipe.id.in_(["recipe_1", "recipe_2"]))).all()
        session.add(MealPlan(recipe_id="recipe_3"))
        session.commit()

    assert counted(registry) == {"minted": 5, "resolved": 3, "round_trips": len(store.trips)}
    assert registry.counts.seconds > 0


def test_refs_are_counted_as_resolved_whether_or_not_they_were_met(memory: RefRegistry) -> None:
    """Only what had to be fetched is a round trip; both are refs that were used."""
    memory.conversation("chat-7").refer_all("recipe", [1, 2])
    elsewhere = RefRegistry(store=memory._store)
    chat = elsewhere.conversation("chat-7")

    chat.resolve_all(["recipe_1", "recipe_2"])
    chat.resolve("recipe_1")

    assert counted(elsewhere) == {"resolved": 3, "round_trips": 1}


def test_only_the_registry_that_numbers_a_key_counts_it_as_minted(memory: RefRegistry) -> None:
    """Another process, which meets the key later, does not."""
    memory.conversation("chat-7").refer("recipe", 1)
    elsewhere = RefRegistry(store=memory._store)
    elsewhere.conversation("chat-7").refer_all("recipe", [1, 2])

    assert (memory.counts.minted, elsewhere.counts.minted) == (1, 1)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("recipe_9", "unknown"),
        ("order_1", "wrong_entity"),
        ("recipe_2", "gone"),
        ("gen_recipe_1", "draft"),
        (str(KEY), "raw_key"),
    ],
)
def test_each_refusal_is_counted_by_its_reason(
    memory: RefRegistry, given: str, reason: str
) -> None:
    """A ref that cannot be used is counted once, is told of, and is not resolved."""
    chat = memory.conversation("chat-7")
    chat.refer_all("recipe", [KEY, 2])
    chat.refer("order", 1)
    chat.note_gone([("recipe", 2)], "was deleted")
    heard = heard_by(memory)

    with pytest.raises(BadRefError) as caught:
        chat.resolve_all(["recipe_1", given], "recipe")

    counts = asdict(memory.counts)
    reasons = ("unknown", "wrong_entity", "gone", "draft", "raw_key", "unknown_conversation")
    assert {name: counts[name] for name in reasons} == dict.fromkeys(reasons, 0) | {reason: 1}
    assert counts["resolved"] == 0
    refused = [each for each in heard if isinstance(each, Refusal)]
    assert refused == [Refusal(reason, "chat-7", caught.value.ref, "recipe")]


def test_a_row_that_is_looked_for_and_gone_is_counted(memory: RefRegistry) -> None:
    """A session that finds no row says so to the registry too."""
    error = memory.conversation("chat-7").gone_error("recipe_1", "recipe")

    assert error.reason == "was deleted"
    assert memory.counts.gone == 1


def test_another_owners_conversation_is_counted_and_is_no_failure(memory: RefRegistry) -> None:
    """The database answered: it is the caller who is refused."""
    memory.conversation("chat-7", owner="ann").refer("recipe", 1)
    heard = heard_by(memory)

    with pytest.raises(UnknownConversationError):
        memory.conversation("chat-7", owner="bob").refer("recipe", 2)

    assert counted(memory) == {"minted": 1, "round_trips": 2, "unknown_conversation": 1}
    assert [each.error for each in heard if isinstance(each, RoundTrip)] == [
        "UnknownConversationError"
    ]
    assert heard[-1] == Refusal("unknown_conversation", "chat-7")


def test_a_store_that_fails_is_counted_and_its_error_goes_on() -> None:
    """Whatever a store raises is a failure, and comes out as it is."""
    registry = RefRegistry(store=Broken())
    heard = heard_by(registry)

    with pytest.raises(ConnectionError, match="no answer about"):
        registry.conversation("chat-7").refer("recipe", KEY)

    assert counted(registry) == {"round_trips": 1, "failures": 1}
    assert [(trip.error, trip.minted) for trip in heard] == [("ConnectionError", 0)]


class Slow(int):
    """A number that others are added to while it is."""

    def __radd__(self, other: int) -> int:
        """Let other threads go on in the middle of it."""
        time.sleep(0.001)
        return int(other) + int(self)


def test_threads_lose_no_count() -> None:
    """What eight threads count at the same time adds up, wherever they interrupt each other."""
    telemetry = Telemetry(EventSource().dispatch)

    def count() -> None:
        for _ in range(20):
            telemetry.count("resolved", Slow(2))

    assert failures(*8 * [count]) == []
    assert telemetry.counts.resolved == 320


def test_counts_cannot_be_changed(memory: RefRegistry) -> None:
    """They are what was, and asking again tells what is."""
    before = memory.counts
    memory.conversation("chat-7").refer("recipe", 1)

    assert (before.minted, memory.counts.minted) == (0, 1)
    with pytest.raises(FrozenInstanceError):
        before.minted = 7  # type: ignore[misc]


@pytest.mark.usefixtures("tables")
async def test_what_an_asynchronous_session_does_is_counted(
    log: TravelLog, aio: AsyncRefSession
) -> None:
    """The same work awaited has the same counts."""
    registry = RefRegistry(store=log)
    aio.sync_session.add(Recipe(name="Soup"))
    await aio.commit()
    async with AsyncRefSession(aio.bind, conversation=registry.conversation("chat-8")) as session:
        found = (await session.scalars(select(Recipe))).one()
        await session.get(Recipe, found.id)

    assert counted(registry) == {"minted": 1, "resolved": 1, "round_trips": 1}


# The store in between


@pytest.mark.usefixtures("tables")
async def test_a_ref_that_is_set_in_an_asynchronous_session_is_resolved_once(
    aio: AsyncRefSession, memory: RefRegistry
) -> None:
    """Whether it is at hand is looked up before; that counts as no use."""
    chat = memory.conversation("chat-8")
    async with AsyncRefSession(aio.bind, conversation=chat) as session:
        recipe, plan = Recipe(name="Soup"), MealPlan()
        session.add(recipe)
        await session.commit()
        session.add(plan)
        assert memory.counts.resolved == 0

        plan.recipe_id = "recipe_1"

        assert memory.counts.resolved == 1


def test_every_promise_of_a_store_is_kept_by_the_one_in_between() -> None:
    """It has each method of `Store`, with the same parameters."""
    promised = {n: m for n, m in vars(Store).items() if inspect.isfunction(m) and n[0] != "_"}

    assert promised
    for name, method in promised.items():
        assert inspect.signature(vars(ObservedStore)[name]) == inspect.signature(method), name


@pytest.mark.parametrize(
    ("operation", "arguments", "refs", "minted"),
    [
        ("refer", [[("recipe", 1), ("recipe", 2), ("order", 5)]], {"recipe": 2, "order": 1}, 2),
        ("resolve", [[Ref("order", 1), Ref("order", 7)]], {"order": 2}, 0),
        ("mark", [[("order", 5)], "was deleted"], {"order": 1}, 0),
        ("known", [Ref("order", 1), 10], {}, 0),
        ("entities", [], {}, 0),
        ("begin_turn", [], {}, 0),
        ("turn", [], {}, 0),
        ("touch", [], {}, 0),
        ("fork", ["chat-8"], {}, 0),
        ("forget", [], {}, 0),
    ],
)
def test_a_round_trip_says_what_it_was_about(
    operation: str, arguments: list[Any], refs: dict[str, int], minted: int
) -> None:
    """The answer is the store's; the event has operation, conversation, entities and time."""
    stores = [MemoryStore(), MemoryStore()]
    for each in stores:
        each.refer(CHAT, [("order", 5)])
    observed = EventSource()
    heard = heard_by(observed)
    store = observe(stores[0], Telemetry(observed.dispatch))

    answer = getattr(store, operation)(CHAT, *arguments)

    [trip] = heard
    assert answer == getattr(stores[1], operation)(CHAT, *arguments)
    assert trip == RoundTrip(operation, "chat-7", refs, minted, trip.seconds, None)
    assert 0 < trip.seconds < 10


# Listeners


def test_a_listener_of_the_class_hears_all_registries() -> None:
    """`event.listen(RefRegistry, ...)` is for all, as SQLAlchemy users expect."""
    heard: list[RoundTrip] = []
    listener = heard.append
    event.listen(RefRegistry, "round_trip", listener)
    for id_ in ("a", "b"):
        RefRegistry(store=MemoryStore()).conversation(id_).refer("recipe", 1)
    event.remove(RefRegistry, "round_trip", listener)
    RefRegistry(store=MemoryStore()).conversation("c").refer("recipe", 1)

    assert [trip.conversation for trip in heard] == ["a", "b"]


def test_a_listener_hears_its_own_registry_until_it_is_removed(memory: RefRegistry) -> None:
    """`once`, `named` and `remove` work, for they are SQLAlchemy's."""
    heard: list[Any] = []

    @event.listens_for(memory, "round_trip")
    def always(trip: RoundTrip) -> None:
        heard.append(trip.operation)

    @event.listens_for(memory, "round_trip", once=True, named=True)
    def once(**given: RoundTrip) -> None:
        heard.append(list(given))

    memory.conversation("chat-7").refer("recipe", 1)
    memory.conversation("chat-7").refer("recipe", 2)
    event.remove(memory, "round_trip", always)
    memory.conversation("chat-7").refer("recipe", 3)
    RefRegistry(store=MemoryStore()).conversation("chat-7").refer("recipe", 3)

    assert heard == ["refer", ["trip"], "refer"]


def test_a_listener_may_let_others_listen(memory: RefRegistry) -> None:
    """Whoever comes while others are told hears from the next event on."""
    heard: list[str] = []

    @event.listens_for(memory, "round_trip", once=True)
    def begin(_: RoundTrip) -> None:
        event.listen(memory, "round_trip", lambda trip: heard.append(trip.operation))

    memory.conversation("chat-7").begin_turn()
    memory.conversation("chat-7").refer("recipe", 1)

    assert heard == ["refer"]
    assert memory.counts.listener_failures == 0


def test_what_a_listener_is_given_cannot_be_changed(memory: RefRegistry) -> None:
    """Several may get the same."""
    heard = heard_by(memory)
    memory.conversation("chat-7").refer("recipe", 1)

    [trip] = heard
    with pytest.raises(FrozenInstanceError):
        trip.operation = "none"
    assert asdict(trip)["refs"] == {"recipe": 1}


def test_a_name_that_nothing_happens_by_is_refused(memory: RefRegistry) -> None:
    """A misspelt name is SQLAlchemy's usual error."""
    with pytest.raises(InvalidRequestError, match="No such event 'round_trips'"):
        event.listen(memory, "round_trips", print)


@pytest.mark.parametrize("of", ["round_trip", "refusal"])
def test_a_listener_that_raises_does_not_harm_the_work(
    memory: RefRegistry, caplog: pytest.LogCaptureFixture, of: str
) -> None:
    """It is logged and counted, what it says is left out, and the others still hear."""

    def fail(_: object) -> None:
        raise ValueError(f"something with {KEY}")

    event.listen(memory, of, fail)
    heard = heard_by(memory)
    chat = memory.conversation("chat-7")

    assert chat.refer("recipe", KEY) == "recipe_1"
    with pytest.raises(BadRefError, match="'recipe_9' is not a known recipe; known: 'recipe_1'"):
        chat.resolve("recipe_9", "recipe")

    failed = [each for each in heard if isinstance(each, RoundTrip if of[1] == "o" else Refusal)]
    assert memory.counts.listener_failures == len(failed) > 0
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [text.partition("\n")[0] for text in said] == len(failed) * [
        f"a listener to {of!r} raised builtins.ValueError; the work goes on"
    ]
    assert "in fail" in said[0]
    assert "5eed1ce0" not in caplog.text


def test_a_listener_can_wait_for_others_that_use_the_registry(memory: RefRegistry) -> None:
    """It runs outside of all locks."""
    chat = memory.conversation("chat-7")
    seen: list[str] = []

    @event.listens_for(memory, "round_trip", once=True)
    def wait(_: RoundTrip) -> None:
        other = threading.Thread(target=lambda: seen.append(chat.refer("recipe", 2)))
        other.start()
        other.join(10)

    chat.refer("recipe", 1)

    assert seen == ["recipe_2"]


def test_a_registry_with_listeners_can_be_collected() -> None:
    """Listening does not keep it, nor the store and its connections."""
    store = MemoryStore()
    registry = RefRegistry(store=store)
    heard_by(registry)
    registry.conversation("chat-7").refer("recipe", 1)
    left = weakref.ref(registry), weakref.ref(store)

    del registry, store
    gc.collect()

    assert [each() for each in left] == [None, None]


# Log lines


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_each_round_trip_is_a_line_of_debug(
    memory: RefRegistry, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    """What, where, how many and how long; nothing above DEBUG."""
    caplog.set_level(level, logger="alfred_refs")
    chat = memory.conversation("chat-7")
    chat.refer_all("recipe", [KEY, 4711])
    with pytest.raises(BadRefError):
        chat.resolve("order_4711", "order")

    lines = [re.sub(r"[\d.]+ ms", "_ ms", record.getMessage()) for record in caplog.records]
    assert lines == (level == logging.DEBUG) * [
        "refer in 'chat-7': 2 refs, 2 new, _ ms, done",
        "resolve in 'chat-7': 1 refs, 0 new, _ ms, done",
        "entities in 'chat-7': 0 refs, 0 new, _ ms, done",
        "known in 'chat-7': 0 refs, 0 new, _ ms, done",
        "a ref was refused in 'chat-7': unknown",
    ]


def test_what_smells_of_an_attack_is_a_warning_without_the_key(
    memory: RefRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """A raw key given, and another owner's conversation asked for; neither key nor owner shows."""
    caplog.set_level(logging.INFO, logger="alfred_refs")
    owner = uuid.uuid4()
    chat = memory.conversation("chat-7", owner=owner)
    chat.refer("recipe", KEY)

    with pytest.raises(BadRefError):
        chat.resolve(str(KEY), "recipe")
    with pytest.raises(UnknownConversationError):
        memory.conversation("chat-7", owner=KEY).resolve("recipe_1")

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "a raw key was given where a ref is needed, in 'chat-7'"),
        ("WARNING", "conversation 'chat-7' was requested by another owner"),
    ]


def test_what_ends_and_begins_whole_conversations_is_a_line_of_info(
    memory: RefRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """To forget, to import and to prune is told, without keys and owners."""
    caplog.set_level(logging.INFO, logger="alfred_refs")
    chat = memory.conversation("chat-7", owner=KEY)
    chat.refer("recipe", KEY)
    exported = chat.export()

    memory.import_conversation(exported, id="chat-8")
    chat.forget()
    memory.prune(timedelta())

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "conversation 'chat-8' was imported"),
        ("INFO", "conversation 'chat-7' was forgotten"),
        ("INFO", "1 unused conversations were forgotten"),
    ]


def test_a_failure_is_logged_by_its_class_alone(caplog: pytest.LogCaptureFixture) -> None:
    """What a store's error says may be a key."""
    caplog.set_level(logging.DEBUG, logger="alfred_refs")
    with pytest.raises(ConnectionError):
        RefRegistry(store=Broken()).conversation("chat-7").refer("recipe", KEY)

    assert re.sub(r"[\d.]+ ms", "_ ms", caplog.messages[0]) == (
        "refer in 'chat-7': 1 refs, 0 new, _ ms, ConnectionError"
    )
    assert "5eed1ce0" not in caplog.text


def test_nothing_is_printed_where_logging_is_not_configured(
    memory: RefRegistry, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python prints a warning that no logger on the way up handles."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with pytest.raises(BadRefError):
        memory.conversation("chat-7").resolve(str(KEY))

    assert capsys.readouterr().err == ""
