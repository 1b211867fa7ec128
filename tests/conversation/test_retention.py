"""Conversations as a whole, as an application and its operators handle them."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from alfred_refs import (
    AsyncRefSession,
    Conversation,
    ConversationExistsError,
    ConversationIdError,
    EntityNameError,
    ExportFormatError,
    GoneRefError,
    KeyTypeError,
    RefEntry,
    RefRegistry,
    RegistryUnreachableError,
    RetentionError,
    SetupError,
    UnknownConversationError,
    UnknownRefError,
)
from alfred_refs.conversation import refs
from alfred_refs.store import Address, NewCall
from alfred_refs.store.memory import MemoryStore
from tests.conversation.conftest import elsewhere
from tests.models import Recipe

KEYS = [uuid.UUID(int=n) for n in range(1, 21)]


@pytest.fixture
def chat(memory: RefRegistry) -> Conversation:
    """A conversation of ann's, in its first turn, that knows three recipes."""
    chat = memory.conversation("chat-7", owner="ann")
    chat.begin_turn()
    chat.refer_all(Recipe, KEYS[:3])
    return chat


def test_refs_that_are_at_hand_are_used_too(
    memory: RefRegistry, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that asks the store for nothing tells it once an hour, and not more often."""
    asked: list[str] = []
    monkeypatch.setattr(memory._store, "touch", lambda address: asked.append(address.id))
    clock = time.monotonic()

    for minutes in (59, 61, 90, 119, 122):
        monkeypatch.setattr(refs, "monotonic", lambda at=clock + minutes * 60: at)
        assert chat.resolve("recipe_1") == KEYS[0]
        asked.append(str(minutes))

    assert asked == ["59", "chat-7", "61", "90", "119", "chat-7", "122"]


def test_what_cannot_be_noted_does_no_harm(
    chat: Conversation, memory: RefRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refs are there, whether the store can be reached or not."""

    def fail(_: object) -> None:
        raise RegistryUnreachableError("kitchen")

    monkeypatch.setattr(memory._store, "touch", fail)
    chat._touch_at = 0

    assert chat.resolve("recipe_1") == KEYS[0]


def test_a_branch_of_a_chat_continues_with_the_same_refs(
    memory: RefRegistry, chat: Conversation
) -> None:
    """The fork is an ordinary conversation, of the same owner, wherever it is opened."""
    branch = chat.fork("chat-7-b")

    assert (branch.id, branch.owner, branch.turn) == ("chat-7-b", "ann", 1)
    assert branch.resolve_all(["recipe_1", "recipe_3"], Recipe) == [KEYS[0], KEYS[2]]
    assert (branch.refer(Recipe, KEYS[5]), chat.refer(Recipe, KEYS[6])) == 2 * ("recipe_4",)
    opened = elsewhere(memory).conversation("chat-7-b", owner="ann")
    assert opened.resolve("recipe_4", Recipe) == KEYS[5]


def test_a_fork_shares_what_it_has_met_with_its_other_openings(
    memory: RefRegistry, chat: Conversation
) -> None:
    """The registry opened it, so that forgetting it reaches them all."""
    branch = chat.fork("chat-8")
    other = memory.conversation("chat-8", owner="ann")
    assert other.resolve("recipe_1") == KEYS[0]

    branch.forget()

    with pytest.raises(UnknownRefError):
        other.resolve("recipe_1")
    assert chat.resolve("recipe_1") == KEYS[0]


def test_fork_and_export_say_which_rows_are_gone(chat: Conversation) -> None:
    """As the store has it: rows that are back are so once somebody has used their refs."""
    chat.note_gone([("recipe", KEYS[0])], "was deleted")
    assert chat.export()["refs"][0]["gone"] == next(chat.entries()).gone == "was deleted"
    with pytest.raises(GoneRefError, match="'recipe_1' was deleted"):
        chat.fork("chat-8").resolve("recipe_1")

    chat._store.mark(chat._address, [("recipe", KEYS[0])], None)
    assert (chat.export()["refs"][0].get("gone"), next(chat.entries()).gone) == (None, None)
    assert chat.fork("chat-9").resolve("recipe_1") == KEYS[0]


def test_what_was_forgotten_is_not_resolved_from_memory(
    memory: RefRegistry, chat: Conversation
) -> None:
    """Neither by this object, nor by others of the process; another process finds nothing."""
    other = memory.conversation("chat-7", owner="ann")

    chat.forget()

    for each in (chat, other, elsewhere(memory).conversation("chat-7", owner="ann")):
        with pytest.raises(UnknownRefError, match="'recipe_1' is not a known ref; none is known"):
            each.resolve("recipe_1")
        assert each.refs_by_entity(KEYS[0]) == {}
    assert chat.turn == 0
    assert chat.refer(Recipe, KEYS[0]) == "recipe_4"
    with pytest.raises(UnknownConversationError):
        memory.conversation("chat-8").forget()


def test_an_export_goes_into_another_registry_as_json(chat: Conversation) -> None:
    """Text is all that has to be carried; a conversation comes back as it was."""
    chat.note_gone([("recipe", KEYS[1])], "was deleted")
    chat.refer_all("cup", [7, "7", (KEYS[0], 7)])
    text = json.dumps(chat.export())

    copy = RefRegistry(store=MemoryStore()).import_conversation(json.loads(text))

    assert (copy.id, copy.owner, copy.turn) == ("chat-7", "ann", 1)
    assert json.dumps(copy.export()) == text
    assert copy.resolve_all(["cup_1", "cup_2", "cup_3"]) == [7, "7", (KEYS[0], 7)]
    with pytest.raises(GoneRefError):
        copy.resolve("recipe_2")


@pytest.mark.parametrize(
    ("choice", "id_", "owner"),
    [
        ({"id": "chat-8"}, "chat-8", "ann"),
        ({"id": "chat-8", "owner": 7}, "chat-8", "7"),
        ({"id": "chat-8", "owner": None}, "chat-8", None),
    ],
)
def test_an_import_may_choose_id_and_owner(
    memory: RefRegistry, chat: Conversation, choice: dict[str, Any], id_: str, owner: str | None
) -> None:
    """What is not chosen is as it was exported."""
    copy = memory.import_conversation(chat.export(), **choice)

    assert (copy.id, copy.owner) == (id_, owner)
    assert copy.resolve("recipe_1") == KEYS[0]


def test_a_bad_import_writes_nothing(memory: RefRegistry, chat: Conversation) -> None:
    """Not what is malformed, nor onto a conversation, nor under an id that cannot be."""
    data = chat.export()
    with pytest.raises(ConversationExistsError, match="'chat-7' cannot be created"):
        memory.import_conversation(data)
    with pytest.raises(ConversationIdError):
        memory.import_conversation(data, id="")
    with pytest.raises(ConversationIdError, match="owner"):
        memory.import_conversation(data, id="chat-8", owner="")
    with pytest.raises(ExportFormatError):
        memory.import_conversation({**data, "more": 1}, id="chat-8")

    assert [info.id for info in memory.conversations()] == ["chat-7"]


def test_entries_hold_keys_only_where_they_are_asked_for(chat: Conversation) -> None:
    """And print them in no case."""
    chat.refer("meal_plan", 1)
    chat.note_gone([("recipe", KEYS[1])], "was deleted")

    assert list(chat.entries()) == [
        RefEntry("meal_plan_1", "meal_plan", 1, None),
        RefEntry("recipe_1", "recipe", 1, None),
        RefEntry("recipe_2", "recipe", 2, "was deleted"),
        RefEntry("recipe_3", "recipe", 3, None),
    ]
    trusted = list(chat.entries(Recipe, keys=True))
    assert [entry.key for entry in trusted] == KEYS[:3]
    assert str(KEYS[0]) not in repr(trusted)
    with pytest.raises(EntityNameError):
        next(chat.entries("Foo Bar"))


def test_operators_see_every_owners_conversations(memory: RefRegistry, chat: Conversation) -> None:
    """They list, describe and count them without knowing the owners."""
    memory.conversation("chat-8", owner="bob").begin_turn()

    infos = {info.id: info for info in memory.conversations()}

    assert [(info.owner, info.turn, info.refs) for info in infos.values()] == [
        ("bob", 1, {}),
        ("ann", 1, {"recipe": 3}),
    ]
    assert [info.id for info in memory.conversations(owner="ann", limit=1)] == ["chat-7"]
    assert memory.count_conversations(owner="ann") == 1
    assert memory.describe("chat-7") == infos[chat.id]
    assert memory.stats().conversations == 2
    with pytest.raises(UnknownConversationError):
        memory.describe("chat-9")
    with pytest.raises(ConversationIdError):
        memory.describe("x" * 10_000)


def test_pruning_tells_its_progress(memory: RefRegistry) -> None:
    """Batch by batch, and how many there were in the end."""
    for number in range(5):
        memory.conversation(f"chat-{number}").begin_turn()
    seen: list[int] = []

    assert memory.prune(timedelta(days=1), progress=seen.append) == 0
    assert memory.prune(timedelta(), batch=2, progress=seen.append) == 5
    assert seen == [2, 2, 1]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda registry: registry.prune(timedelta(seconds=-1)), "unused_for is negative"),
        (lambda registry: registry.conversations(unused_for=timedelta(-1)), "unused_for is neg"),
        (lambda r: r.count_conversations(unused_for=timedelta(-1)), "unused_for is negative"),
        (lambda registry: registry.conversations(limit=-1), "a limit of -1 conversations; give"),
        (lambda registry: registry.prune(timedelta(), batch=0), "a batch of 0 conversations"),
        (lambda registry: registry.erase("recipe", 1, batch=0), "a batch of 0 conversations"),
        (lambda r: r.prune_history(timedelta(seconds=-1)), "older_than is negative: .*; give"),
        (lambda r: r.prune_history(timedelta(), batch=0), "a batch of 0 calls; give at least 1"),
    ],
)
def test_no_time_is_less_than_none(memory: RefRegistry, use: Any, message: str) -> None:
    """A negative age would take conversations that are being used; it is refused at once."""
    with pytest.raises(RetentionError, match=message):
        use(memory)


def test_a_row_is_erased_by_its_key_in_conversations_that_are_open_too(
    memory: RefRegistry, chat: Conversation
) -> None:
    """By its class, the key as text or not; its ref stays, and nobody here has the label left."""
    pair = ("recipe", KEYS[0])
    memory._store.label(chat._address, {pair: "Ann's soup"})
    registry = elsewhere(memory)
    opened = registry.conversation("chat-7", owner="ann")
    assert opened.resolve("recipe_1") == KEYS[0]
    assert opened._cache.label_of(*pair) == "Ann's soup"

    assert registry.erase(Recipe, str(KEYS[0])) == 1
    assert [entry.label for entry in opened.entries()] == [None, None, None]
    assert opened._cache.label_of(*pair) is None
    assert opened.resolve("recipe_1") == KEYS[0]
    with pytest.raises(KeyTypeError, match="UUID"):
        registry.erase(Recipe, 7)


async def test_outside_of_run_sync_an_asynchronous_engine_says_where_to_go(
    async_engine: AsyncEngine,
) -> None:
    """What waits for the database can only be done where it is awaited."""
    chat = RefRegistry(async_engine).conversation("chat-7")

    for use in (lambda: chat.fork("chat-8"), chat.forget, chat.export, lambda: [*chat.entries()]):
        with pytest.raises(SetupError, match=r"inside await session.run_sync\(\)"):
            use()


async def test_asynchronous_engines_work_inside_run_sync(
    async_engine: AsyncEngine, chat: Conversation, aio: AsyncRefSession
) -> None:
    """Whatever a conversation or registry does by itself."""
    registry = RefRegistry(async_engine)

    def use(_: object) -> list[object]:
        first = registry.import_conversation(chat.export())
        branch = first.fork("chat-8")
        first.forget()
        entries = [entry.ref for entry in branch.entries()]
        described = registry.describe("chat-8").refs
        listed = [info.id for info in registry.conversations()]
        pruned = registry.prune(timedelta())
        return [entries, described, listed, pruned, registry.stats().left_counters]

    done = await aio.run_sync(use)

    assert done == [["recipe_1", "recipe_2", "recipe_3"], {"recipe": 3}, ["chat-8"], 1, 0]


ADDRESS = Address("chat-7", "ann")
ASKED = NewCall("db_delete", {"ids": ["recipe_1"]}, "waiting", "model")


def test_the_history_is_pruned_by_age(memory: RefRegistry, chat: Conversation) -> None:
    """What has waited for too long is marked first; what waits or is recent stays."""
    store = memory._store
    for expires_in in (None, timedelta(), timedelta()):
        store.add_call(ADDRESS, replace(ASKED, expires_in=expires_in))
    sizes: list[int] = []

    assert memory.prune_history(timedelta(days=1)) == 0
    assert [call.decided_at is None for call in store.calls(ADDRESS)] == [True, False, False]
    assert memory.prune_history(timedelta(), batch=2, progress=sizes.append) == 2
    assert sum(sizes) == 2
    assert [call.arguments for call in store.calls(ADDRESS)] == [ASKED.arguments, None, None]
    assert chat.resolve("recipe_1") == KEYS[0]


def test_a_call_that_waits_is_not_decided_twice_in_a_copy(
    memory: RefRegistry, chat: Conversation
) -> None:
    """An import under another id has it as expired; the conversation itself goes on waiting."""
    store = memory._store
    store.add_call(ADDRESS, ASKED)
    data = chat.export()

    memory.import_conversation(data, id="copy")
    chat.forget()
    memory.import_conversation(data)

    assert [call.state for call in store.calls(replace(ADDRESS, id="copy"))] == ["expired"]
    assert [call.state for call in store.calls(ADDRESS)] == ["waiting"]
