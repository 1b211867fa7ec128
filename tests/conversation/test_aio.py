"""Conversations, their registry and their context, awaited: on each asynchronous driver."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from inspect import isgeneratorfunction, signature
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from alfred_refs import AsyncRefSession, Conversation, RefRegistry, UnknownRefError
from alfred_refs.context import Context
from alfred_refs.store.memory import MemoryStore
from tests.models import Recipe

KEYS = [uuid.UUID(int=n) for n in (1, 2)]

# methods that the package calls, on the caller's side of `run_sync`; the docs do not list them
PACKAGE_LEVEL = {
    *("resolve_pairs", "refer_pairs", "known_refs", "known_keys", "cached_keys", "has_cached"),
    *(
        "cached_refs",
        "refs_of_pairs",
        "refs_by_entity",
        "text_keys",
        "make_room",
        "gone_error",
        "unknown_error",
    ),
    *("note_gone", "note_activity", "draft_all", "reserve_keys", "confirm_drafts"),
    "for_bind",  # does no I/O
}


async def test_a_conversation_is_awaited(async_engine: AsyncEngine) -> None:
    """What it does by itself, without `run_sync` in anybody's code."""
    registry = RefRegistry(async_engine)
    await registry.aio.create_tables()
    chat = registry.conversation("chat-7")
    assert await chat.aio.turn() == 0
    assert await chat.aio.begin_turn() == 1
    assert await chat.aio.refer_all(Recipe, KEYS) == ["recipe_1", "recipe_2"]
    assert await chat.aio.resolve("recipe_2") == KEYS[1]
    with pytest.raises(UnknownRefError, match="'recipe_9' is not a known ref"):
        await chat.aio.resolve("recipe_9")
    draft = await chat.aio.draft(Recipe, {"name": "Soup"}, label="Soup")
    assert [each.ref for each in await chat.aio.drafts()] == [draft.ref] == ["gen_recipe_1"]
    edited = await chat.aio.edit_draft(draft.ref, {"name": "Stew"}, version=draft.version)
    assert edited.content == {"name": "Stew"}
    assert [each.ref for each in await chat.aio.entries()] == ["recipe_1", "recipe_2"]
    assert await chat.aio.scrub([str(KEYS[0])]) == ["recipe_1"]
    await chat.aio.retain(["recipe_1"], "wanted")
    assert [str(e.ref) for e in (await chat.aio.activity()).entries] == ["recipe_1"]


async def test_conversations_come_and_go(async_engine: AsyncEngine) -> None:
    """Branches, exports and lists too."""
    registry = RefRegistry(async_engine)
    await registry.aio.create_tables()
    chat = registry.conversation("chat-7")
    await chat.aio.begin_turn()
    await chat.aio.refer_all(Recipe, KEYS)
    branch = await chat.aio.fork("chat-8")
    assert await branch.aio.resolve("recipe_1") == KEYS[0]
    data = await chat.aio.export()
    await chat.aio.forget()
    moved = await registry.aio.import_conversation(data, id="chat-9")
    assert await moved.aio.turn() == 1
    assert [each.id for each in await registry.aio.conversations(limit=5)] == ["chat-9", "chat-8"]
    assert await registry.aio.count_conversations() == 2
    assert await registry.aio.erase(Recipe, KEYS[0]) == 2


async def test_replies_are_given_names_as_they_come(async_engine: AsyncEngine) -> None:
    """From an asynchronous stream, cut anywhere; prompts and views are awaited too."""
    registry = RefRegistry(async_engine)
    await registry.aio.create_tables()
    chat = registry.conversation("chat-7")
    draft = await chat.aio.draft(Recipe, {"name": "Soup"}, label="Leek Soup")
    context = Context(chat)
    text = f"I made {draft.ref}'s list."

    async def model() -> AsyncIterator[str]:
        for letter in text:
            await asyncio.sleep(0)
            yield letter

    reply = [chunk async for chunk in context.aio.with_names(model())]
    assert reply == ["I ", "made ", "Leek Soup'", "s ", "list."]
    assert "gen_recipe_1" in await context.aio.render("act")


async def test_other_engines_work_in_a_thread(tables: Engine) -> None:
    """So that the event loop goes on meanwhile."""
    threads = []

    class Watched(MemoryStore):
        def turn(self, *given: Any) -> int:
            threads.append(threading.current_thread())
            return super().turn(*given)

    chat = RefRegistry(store=Watched()).conversation("chat-7")
    assert await chat.aio.turn() == 0
    assert threading.current_thread() not in threads
    assert await RefRegistry(tables).conversation("chat-7").aio.turn() == 0


async def test_what_a_user_points_at_is_heard(async_engine: AsyncEngine) -> None:
    """In a session that is awaited."""
    registry = RefRegistry(async_engine)
    await registry.aio.create_tables()
    async with async_engine.begin() as connection:
        await connection.run_sync(Recipe.metadata.create_all)
    async with AsyncSession(async_engine) as plain:
        plain.add(Recipe(id=KEYS[0], name="Soup"))
        await plain.commit()
    chat = registry.conversation("chat-7")
    await chat.aio.refer(Recipe, KEYS[0])  # other tests have another class of this name
    async with AsyncRefSession(async_engine, conversation=chat) as session:
        said = f"cook @[Soup](recipe:{KEYS[0]})"
        assert await Context(chat).aio.heard(session, said) == "cook recipe_1"


@pytest.mark.once
@pytest.mark.parametrize(
    ("sync", "internal"),
    [
        (RefRegistry(store=MemoryStore()).conversation("x"), PACKAGE_LEVEL),
        (Context(RefRegistry(store=MemoryStore()).conversation("x")), {"names"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_does_io_has_an_asynchronous_side(
    sync: Conversation | Context, internal: set[str]
) -> None:
    """All public methods that are in the docs, with their own signatures."""
    mine, aio = type(sync), type(sync.aio)
    public = {
        name
        for name in dir(mine)
        if not name.startswith("_") and callable(getattr(mine, name)) and name not in internal
    }
    assert public == {each for each in vars(aio) if not each.startswith("_")} - {"turn"}
    for name in public:
        there, here = getattr(mine, name), getattr(aio, name)
        assert signature(there).parameters.keys() == signature(here).parameters.keys()
        assert not isgeneratorfunction(here)
