"""Whose a request of MCP is, how many are answered at a time, and one that is cancelled."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
import uuid
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.exceptions import MCPError
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from alfred_refs import AsyncRefSession, RefRegistry, RefSession
from alfred_refs.errors import SetupError
from alfred_refs.integrations.mcp import CONVERSATION, server_of
from alfred_refs.tools import BoundToolset, Hooks, Toolset, Writing
from tests.integrations import shop
from tests.integrations.test_mcp import ERAS, ORDER, read, served, text_of

ORDERS = {"table": "orders"}


class Slow(Hooks):
    """Takes its time over each write, and counts how many are at it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._guard = threading.Lock()
        self.begun = threading.Event()
        self.now = self.most = 0

    def before_write(self, _: Writing) -> None:
        """Sleep."""
        with self._guard:
            self.now += 1
            self.most = max(self.now, self.most)
        self.begun.set()
        time.sleep(self._seconds)
        with self._guard:
            self.now -= 1


class SlowInDatabase(Hooks):
    """Has the database take its time over each write."""

    def before_write(self, write: Writing) -> None:
        """Sleep there."""
        write.session.execute(select(func.pg_sleep(5)))


def named(name: Any) -> Any:
    """Return the `_meta` of a request in a conversation that the client names."""
    return {CONVERSATION: name}


IN_CHAT = named("chat-7")


def slow(hooks: Hooks) -> Toolset:
    """Return tools on the shop's orders, and nobody's, whose writes are slow."""
    return Toolset(shop.MODELS, hooks={shop.Order: [hooks]}, expect="optional")


def new_order(note: str, customer: str = "customer_1") -> dict[str, Any]:
    """Return the arguments that make an order."""
    data = {"placed": "2026-11-25", "note": note, "customer_id": customer}
    return {"table": "orders", "data": data}


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_names_its_conversation(
    desk: BoundToolset, shop_registry: RefRegistry, era: ConnectMode
) -> None:
    """Refs are valid there; where it names none, there is another one for each owner."""
    async with Client(served(desk), mode=era) as client:
        await client.call_tool("db_read", ORDERS, meta=IN_CHAT)
        there = json.loads(await read(client, "refs://row/order_1", meta=IN_CHAT))
        with pytest.raises(MCPError):
            await client.read_resource("refs://row/order_1")
        await client.call_tool("db_read", ORDERS)

    assert [row["note"] for row in there["rows"]] == ["for Ada"]
    ids = {info.id: info.owner for info in shop_registry.conversations()}
    assert set(ids.values()) == {str(shop.ADA)}
    assert sorted(id_.partition(":")[0] for id_ in ids) == ["chat-7", "mcp"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_cannot_name_anothers_conversation(
    desk: BoundToolset, shop_registry: RefRegistry, era: ConnectMode
) -> None:
    """It is told as much of an impossible name, and can go on in another one."""
    async with Client(served(desk), mode=era) as ada:
        await ada.call_tool("db_read", ORDERS, meta=IN_CHAT)
    shop_registry.conversation("nobody's").begin_turn()
    async with Client(served(desk, shop.BOB), mode=era) as bob:
        names: list[Any] = ["chat-7", "nobody's", "", "x" * 300, 7, None, "chat-8"]
        told = [await bob.call_tool("db_read", ORDERS, meta=named(name)) for name in names]
        for uri in ("refs://conversation", "refs://row/order_1"):
            for name in names[:5]:
                with pytest.raises(MCPError, match="there is no such resource"):
                    await bob.read_resource(uri, meta=named(name))

    assert [each.is_error for each in told] == [True] * 5 + [False] * 2
    assert len({text_of(each) for each in told[:5]}) == 1
    assert json.loads(text_of(told[0]))["error"]["code"] == "unknown_conversation"
    assert "chat-7" not in text_of(told[0])
    assert "for Bob" in text_of(told[6])


async def test_nobody_can_claim_the_conversation_of_another_principal(
    desk: BoundToolset, shop_registry: RefRegistry
) -> None:
    """Though its id is known: a client cannot name it, be it the first to try, or its own."""
    async with Client(served(desk, shop.BOB)) as bob:
        await bob.call_tool("db_read", ORDERS)
    [known] = [info.id for info in shop_registry.conversations()]
    shop_registry.conversation(known, owner=shop.BOB).forget()
    names = [known, "mcp", "mcp:", "mcp:mine"]
    async with Client(served(desk)) as ada:
        told = [await ada.call_tool("db_read", ORDERS, meta=named(name)) for name in names]
        other = await ada.call_tool("db_read", ORDERS, meta=named("mcp-7"))
    async with Client(served(desk, shop.BOB)) as bob:
        own = await bob.call_tool("db_read", ORDERS)
        told += [await bob.call_tool("db_read", ORDERS, meta=named(known))]

    assert "for Bob" in text_of(own)
    assert not other.is_error
    assert [json.loads(text_of(each))["error"]["code"] for each in told] == [
        "unknown_conversation"
    ] * 5


@pytest.mark.parametrize("is_async", [False, True])
async def test_each_call_of_a_client_without_turns_is_one(
    shop_engine: Engine, shop_registry: RefRegistry, *, is_async: bool
) -> None:
    """So that what was done can be told apart; a failed call is one too, a resource is none."""
    engine = create_async_engine(shop_engine.url)
    sessions: Any = (
        async_sessionmaker(engine, class_=AsyncRefSession)
        if is_async
        else sessionmaker(shop_engine, class_=RefSession)
    )
    desk = shop.toolset(None).bind(sessions, registry=shop_registry)
    async with Client(server_of(desk, name="shop")) as client:
        await client.call_tool("db_read", {"table": "customers"})
        await client.call_tool("db_read", {"table": "nothing"})
        await read(client, "refs://conversation")
        await client.call_tool("db_create", new_order("new"))
    await engine.dispose()

    chat = shop_registry.conversation("mcp")
    turns = {str(each.ref): (each.first_turn, each.last_turn) for each in chat.activity().entries}
    assert (chat.turn, turns["customer_2"], turns["order_1"]) == (3, (1, 1), (3, 3))


@pytest.mark.parametrize("begin_turns", [None, True])
async def test_a_conversation_of_the_application_has_its_own_turns(
    desk: BoundToolset, shop_registry: RefRegistry, *, begin_turns: bool | None
) -> None:
    """Unless the server is to begin them."""
    server = server_of(desk, lambda _: ("desk-1", shop.BOB), name="shop", begin_turns=begin_turns)
    async with Client(server) as client:
        await client.call_tool("db_read", ORDERS)

    assert shop_registry.conversation("desk-1", owner=shop.BOB).turn == (1 if begin_turns else 0)


async def test_the_application_says_whose_a_request_is(
    desk: BoundToolset, shop_registry: RefRegistry
) -> None:
    """Awaited if need be; what the client names is not looked at."""

    async def whose(_: Any) -> tuple[str, uuid.UUID]:
        await asyncio.sleep(0)
        return "desk-1", shop.BOB

    async with Client(server_of(desk, whose, name="shop")) as client:
        answer = await client.call_tool("db_read", ORDERS, meta=IN_CHAT)

    assert "for Bob" in text_of(answer)
    assert [info.id for info in shop_registry.conversations()] == ["desk-1"]


async def test_rows_of_nobody_have_one_conversation(
    shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry
) -> None:
    """Without owners and tokens all clients are one, unless they name a conversation."""
    desk = shop.toolset(None).bind(shop_sessions, registry=shop_registry)
    async with Client(server_of(desk, name="shop")) as client:
        await client.call_tool("db_read", ORDERS)
        await client.call_tool("db_read", ORDERS, meta=IN_CHAT)

    assert {info.id for info in shop_registry.conversations()} == {"mcp", "chat-7"}


async def test_names_are_each_principals_own_where_rows_have_no_owners(
    shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry
) -> None:
    """Tokens that name one conversation have two; clients of one subject are two principals."""
    desk = shop.toolset(None).bind(shop_sessions, registry=shop_registry)
    principals = [
        ("host", "ada"),
        ("host", "bob"),
        ("other", "ada"),
        ("hosta", "da"),
        ("host", None),
    ]
    for client_id, subject in principals:
        token = AccessToken(token="t", client_id=client_id, scopes=[], subject=subject)
        known = auth_context_var.set(AuthenticatedUser(token))
        async with Client(server_of(desk, name="shop")) as client:
            await client.call_tool("db_read", ORDERS)
            await client.call_tool("db_read", ORDERS, meta=IN_CHAT)
        auth_context_var.reset(known)

    ids = [info.id for info in shop_registry.conversations()]
    own = [id_ for id_ in ids if re.fullmatch("mcp:[0-9a-f]{24}", id_)]
    assert len(own) == 5
    assert sorted(ids) == sorted([*own, *(f"{id_}:chat-7" for id_ in own)])


def test_what_does_not_go_together_is_refused(
    desk: BoundToolset, shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry
) -> None:
    """Two that say the owner, an owner of nobody's rows, and what is no bound toolset."""
    nobodys = shop.toolset(None).bind(shop_sessions, registry=shop_registry)
    unbound: Any = shop.toolset(None)
    with pytest.raises(SetupError, match="owner_of was passed with whose"):
        server_of(desk, lambda _: ("c", 1), name="shop", owner_of=lambda _: 1)
    with pytest.raises(SetupError, match="owner_of was passed for a toolset without owners"):
        server_of(nobodys, name="shop", owner_of=lambda _: 1)
    with pytest.raises(
        SetupError, match=r"called with a Toolset and not a BoundToolset; pass the result of Tool"
    ):
        server_of(unbound, name="shop")


@pytest.mark.parametrize("era", ERAS)
async def test_twenty_calls_at_a_time_are_answered(desk: BoundToolset, era: ConnectMode) -> None:
    """Reads and writes: each row has one ref, each write its own."""
    async with Client(served(desk), mode=era) as client:
        reads = [client.call_tool("db_read", {"table": "products"}) for _ in range(14)]
        data = [{**ORDER, "note": f"note {n}"} for n in range(6)]
        writes = [client.call_tool("db_create", {"table": "orders", "data": d}) for d in data]
        answers = await asyncio.gather(*reads, *writes)

    assert len({text_of(each) for each in answers[:14]}) == 1
    made = [json.loads(text_of(each))["rows"][0] for each in answers[14:]]
    assert [(row["id"], row["note"]) for row in made] == [
        (f"order_{n + 1}", f"note {n}") for n in range(6)
    ]


async def test_no_more_work_is_begun_than_there_are_connections(
    shop_engine: Engine, shop_registry: RefRegistry
) -> None:
    """Others wait for their turn, and not for the pool, which would give up."""
    pool = {"pool_size": 2, "max_overflow": 0, "pool_timeout": 0.05}
    engine = create_engine(shop_engine.url, **pool)
    hooks = Slow(0.2)
    desk = slow(hooks).bind(sessionmaker(engine, class_=RefSession), registry=shop_registry)

    async def write(number: int) -> types.CallToolResult:
        meta = named(f"chat-{number}")
        await client.call_tool("db_read", {"table": "customers"}, meta=meta)
        return await client.call_tool("db_create", new_order("x"), meta=meta)

    async with Client(server_of(desk, name="shop")) as client:
        answers = await asyncio.gather(*map(write, range(6)))
    engine.dispose()

    assert [each.is_error for each in answers] == [False] * 6
    assert (desk.connections, hooks.most) == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_write_in_a_thread_is_finished(
    shop_engine: Engine,
    shop_sessions: sessionmaker[RefSession],
    shop_registry: RefRegistry,
    era: ConnectMode,
) -> None:
    """The row is there in the end; a client that is a task of its own does not wait for it."""
    hooks = Slow(1)
    desk = slow(hooks).bind(shop_sessions, registry=shop_registry)
    async with Client(server_of(desk, name="shop"), mode=era) as client:
        await client.call_tool("db_read", {"table": "customers"})
        with anyio.move_on_after(0.5) as scope:
            await client.call_tool("db_create", new_order("slow"))
        assert hooks.begun.is_set()
        await client.call_tool("db_create", new_order("next"))

    assert scope.cancelled_caught is (era == "legacy")
    with Session(shop_engine) as session:
        notes = session.scalars(select(shop.Order.note).order_by(shop.Order.note)).all()
    assert notes == ["for Ada", "for Bob", "next", "slow"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_write_that_is_awaited_is_rolled_back(
    shop_engine: Engine, era: ConnectMode
) -> None:
    """The connection is free at once; all else works as with synchronous sessions."""
    engine = create_async_engine(shop_engine.url, pool_size=1, max_overflow=0)
    sessions = async_sessionmaker(engine, class_=AsyncRefSession)
    desk = slow(SlowInDatabase()).bind(sessions, registry=RefRegistry(engine))
    async with Client(server_of(desk, name="shop"), mode=era) as client:
        await client.call_tool("db_read", {"table": "customers"})
        with anyio.move_on_after(0.5) as scope:
            await client.call_tool("db_create", new_order("slow"))
        before = time.monotonic()
        answer = await client.call_tool("db_read", {"table": "orders", "columns": ["note"]})
        assert time.monotonic() - before < 2
        row = json.loads(await read(client, "refs://row/customer_1"))
        known = json.loads(await read(client, "refs://conversation"))
    await engine.dispose()

    assert scope.cancelled_caught
    notes = [row["note"] for row in json.loads(text_of(answer))["rows"]]
    assert sorted(notes) == ["for Ada", "for Bob"]
    assert [each["name"] for each in row["rows"]] == ["Ada"]
    assert {"ref": "customer_1", "label": "Ada", "gone": None} in known["entries"]


@pytest.mark.parametrize("era", ERAS)
async def test_no_key_is_in_anything_that_a_client_reads(
    desk: BoundToolset, shop_engine: Engine, era: ConnectMode
) -> None:
    """Results, errors, crashes, resources, prompts and lists; of UUIDs and of integers."""
    heard: list[str] = []

    async def listen(ask: Any) -> None:
        try:
            heard.append((await ask).model_dump_json())
        except MCPError as error:
            heard.append(error.error.model_dump_json())

    line = {"order_id": "order_1", "product_id": "product_99", "position": 1, "quantity": 1}
    async with Client(served(desk), mode=era) as client:
        for table in ("customers", "addresses", "categories", "products", "orders", "order_lines"):
            await listen(client.call_tool("db_read", {"table": table}))
        for data in (ORDER, {**ORDER, "note": shop.CRASH}):
            await listen(client.call_tool("db_create", {"table": "orders", "data": data}))
        await listen(client.call_tool("db_create", {"table": "order_lines", "data": line}))
        for value in ("order_9", "product_1", "no ref"):
            wanted = {"filters": [{"field": "id", "op": "=", "value": value}], **ORDERS}
            await listen(client.call_tool("db_read", wanted))
            await listen(client.call_tool("db_delete", wanted))
        for uri in ("tables", "conversation", "row/product_1", "row/order_1", "row/order_9"):
            await listen(client.read_resource(f"refs://{uri}"))
        for ask in (client.list_tools(), client.list_resources(), client.get_prompt("tables")):
            await listen(ask)

    with Session(shop_engine) as session:
        assert shop.keys_in(session, *heard) == []
        assert shop.keys_in(session, f"{shop.ADA} {shop.FIRST_KEY + 11}") != []
    assert sum("product_1" in each for each in heard) >= 3
