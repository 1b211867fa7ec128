"""Calls that a person must approve, by the MCP server: asked by the client, or pending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.server import Server
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import MCPError
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import sessionmaker

from alfred_refs import AsyncRefSession, RefRegistry, RefSession, SetupError
from alfred_refs.integrations.mcp import server_of
from alfred_refs.tools import BoundToolset, Toolset
from tests.integrations import shop

ERAS: list[ConnectMode] = ["auto", "legacy"]
KEY = "a secret of thirty-two letters or more"
CHAT = ("chat-7", shop.ADA)
READ = {"table": "orders"}
DELETE = {"table": "orders", "filters": [{"field": "id", "op": "=", "value": "order_1"}]}
CREATE = {"table": "orders", "data": {"placed": "2026-11-25", "note": "new"}}


def toolset() -> Toolset:
    """Return tools of which some need a person."""
    return Toolset(
        shop.MODELS,
        owner=shop.ownership(),
        expect="optional",
        consent=lambda plan: plan.tool in ("db_delete", "db_create"),
    )


@pytest.fixture
def desk(shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry) -> BoundToolset:
    """The shop's tools."""
    return toolset().bind(shop_sessions, registry=shop_registry)


def served(desk: BoundToolset, *, elicits: bool = True) -> Server[Any]:
    """Return a server for Ada, where bob acts."""
    elicit = RequestStateSecurity(keys=[KEY]) if elicits else None
    return server_of(desk, lambda _: (*CHAT, "bob"), name="shop", elicit=elicit)


class User:
    """Who sits before a client: answers each question in turn, and remembers it."""

    def __init__(self, *answers: Any, before: Callable[[], object] | None = None) -> None:
        self.answers = [*answers]
        self.asked: list[str] = []
        self.before = before

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG002  # the protocol's
        """Answer a question."""
        self.asked.append(params.message)
        if self.before is not None and len(self.asked) == 1:
            self.before()
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return types.ElicitResult.model_validate({"action": answer})
        return types.ElicitResult(action="accept", content=answer)


async def calls(
    server: Server[Any], era: ConnectMode, user: User | None, tool: str, arguments: Any
) -> types.CallToolResult:
    """Return the result of a call, after the orders were read."""
    async with Client(server, mode=era, elicitation_callback=user) as client:
        await client.call_tool("db_read", READ)
        return await client.call_tool(tool, arguments)


def content(result: types.CallToolResult) -> dict[str, Any]:
    """Return the answer."""
    value: dict[str, Any] = result.structured_content
    return value


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_approves(
    desk: BoundToolset, notes: Callable[[], list[str]], era: ConnectMode
) -> None:
    """The client shows the plan; the history says that it was the client's answer."""
    user = User({"approve": True})
    result = await calls(served(desk), era, user, "db_delete", DELETE)
    assert user.asked[0].startswith("Delete 1 order. With it: 1 order line deleted.")
    assert content(result)["deleted"] == ["order_1"]
    assert notes() == ["for Bob"]
    [record] = desk.history(*CHAT)
    assert (record.user, record.decided_by) == ("bob", "mcp:bob")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "answered",
    [
        ({"approve": False, "reason": "it is paid"}, "it is paid", 0),
        ({}, "rejected", 0),
        ("decline", "rejected", 0),
        ("cancel", "pending", 1),
    ],
)
async def test_a_person_does_not(
    desk: BoundToolset,
    notes: Callable[[], list[str]],
    era: ConnectMode,
    answered: tuple[Any, str, int],
) -> None:
    """The model reads why; only a question that was put away waits on."""
    answer, code, waits = answered
    result = await calls(served(desk), era, User(answer), "db_delete", DELETE)
    assert code in str(result.structured_content)
    assert len(desk.approvals(*CHAT)) == waits
    assert notes() == ["for Ada", "for Bob"]


@pytest.mark.parametrize("era", ERAS)
async def test_rows_change_meanwhile(
    desk: BoundToolset, notes: Callable[[], list[str]], era: ConnectMode, shop_engine: Engine
) -> None:
    """The client is asked once more, with the new plan."""

    def change() -> None:
        with shop_engine.begin() as connection:
            connection.execute(text(shop.ANOTHER_LINE))

    user = User({"approve": True}, {"approve": False}, before=change)
    await calls(served(desk), era, user, "db_delete", DELETE)
    assert ["1 order line deleted" in user.asked[0], "2 order lines deleted" in user.asked[1]] == [
        True,
        True,
    ]
    assert notes() == ["for Ada", "for Bob"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("elicits", [False, True])
async def test_nobody_can_be_asked(
    desk: BoundToolset, notes: Callable[[], list[str]], era: ConnectMode, elicits: bool
) -> None:
    """A client that shows no forms, or a server that was not told to trust it: the call waits."""
    user = None if elicits else User()
    result = await calls(served(desk, elicits=elicits), era, user, "db_delete", DELETE)
    assert content(result)["pending"]["call"] == 1
    assert not result.is_error
    assert notes() == ["for Ada", "for Bob"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_shows_web_pages_only(
    desk: BoundToolset, era: ConnectMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the mode of elicitations that it knows; the call waits."""
    only = types.ElicitationCapability(url=types.UrlElicitationCapability())
    monkeypatch.setattr(types, "ElicitationCapability", lambda **_: only)
    user = User({"approve": True})
    result = await calls(served(desk), era, user, "db_delete", DELETE)
    assert content(result)["pending"]["call"] == 1
    assert user.asked == []


async def test_a_client_fails_to_ask(desk: BoundToolset, notes: Callable[[], list[str]]) -> None:
    """The call waits, and the model reads that in the place of the client's error."""

    async def fail(*_: Any) -> types.ErrorData:
        return types.ErrorData(code=types.INTERNAL_ERROR, message="there is no screen")

    user: Any = fail
    async with Client(served(desk), mode="legacy", elicitation_callback=user) as client:
        await client.call_tool("db_read", READ)
        result = await client.call_tool("db_delete", DELETE)
    assert content(result)["pending"]["call"] == 1
    assert not result.is_error
    assert notes() == ["for Ada", "for Bob"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_without_forms_learns_the_decision(
    desk: BoundToolset, notes: Callable[[], list[str]], era: ConnectMode
) -> None:
    """A repeated call waits once, and is answered with the answer of the approved call."""
    async with Client(served(desk, elicits=False), mode=era) as client:
        await client.call_tool("db_read", READ)
        for _ in range(2):
            result = await client.call_tool("db_delete", DELETE)
            assert content(result)["pending"]["call"] == 1
        desk.approve(*CHAT, 1, by="ann")
        result = await client.call_tool("db_call_status", {"call": 1})
    assert content(result)["deleted"] == ["order_1"]
    assert notes() == ["for Bob"]


async def test_an_answer_that_is_repeated_creates_once(
    desk: BoundToolset, notes: Callable[[], list[str]], shop_async_engine: AsyncEngine
) -> None:
    """By another server with the same key; with other arguments or another text it is refused."""
    sessions = async_sessionmaker(shop_async_engine, class_=AsyncRefSession)
    other = toolset().bind(sessions, registry=RefRegistry(shop_async_engine))
    yes: Any = {"consent": types.ElicitResult(action="accept", content={"approve": True})}
    async with Client(served(desk), elicitation_callback=User()) as client:
        asked: Any = await client.session.call_tool("db_create", CREATE, allow_input_required=True)
    assert isinstance(asked, types.InputRequiredResult)
    assert "chat-7" not in str(asked)
    answers = []
    async with Client(served(other), elicitation_callback=User()) as client:
        for state, arguments in (
            ("forged", CREATE),
            (asked.request_state, {**CREATE, "data": {"note": "other"}}),
        ):
            with pytest.raises(MCPError, match="requestState"):
                await client.call_tool(
                    "db_create", arguments, input_responses=yes, request_state=state
                )
        for _ in range(2):
            result = await client.call_tool(
                "db_create", CREATE, input_responses=yes, request_state=asked.request_state
            )
            answers.append(content(result))
    assert answers[0] == answers[1]
    assert answers[0]["rows"][0]["note"] == "new"
    assert notes() == ["for Ada", "for Bob", "new"]


async def test_without_elicit_a_state_means_nothing(
    desk: BoundToolset, notes: Callable[[], list[str]]
) -> None:
    """A client cannot approve by making one up."""
    states: Sequence[str] = ['{"conversation": "chat-7", "call": 1, "token": ""}']
    yes: Any = {"consent": types.ElicitResult(action="accept", content={"approve": True})}
    async with Client(served(desk, elicits=False)) as client:
        for state in states:
            result = await client.call_tool(
                "db_create", CREATE, input_responses=yes, request_state=state
            )
            assert "pending" in content(result)
    assert notes() == ["for Ada", "for Bob"]


async def test_who_acts_in_all_requests(desk: BoundToolset) -> None:
    """Where the application passes no function."""
    server = server_of(desk, name="shop", owner_of=lambda _: shop.ADA, user="bob")
    async with Client(server) as client:
        await client.call_tool("db_create", CREATE)
    [waiting] = desk.approvals()
    assert waiting.user == "bob"
    with pytest.raises(SetupError, match="user was passed with whose"):
        server_of(desk, lambda _: CHAT, name="shop", user="bob")
