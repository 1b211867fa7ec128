"""The tool runner of Anthropic's SDK."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError

from alfred_refs import SetupError
from alfred_refs.integrations.anthropic import FAILED, tools_of
from alfred_refs.tools import BoundToolset, Toolset
from examples.agents.anthropic import shop_runner
from tests.integrations import shop
from tests.integrations.contract import (
    NO_OBJECT,
    NO_TABLE_GIVEN,
    NOT_JSON,
    ORDERS,
    READ_ORDERS,
    AdapterContract,
    Play,
    Played,
    Turn,
    Visit,
)

MODEL = "claude-of-tests"
HELLO: Any = [{"role": "user", "content": "Hello"}]
CRASH = ("db_create", {"table": "orders", "data": {"placed": "2026-11-25", "note": shop.CRASH}})


class Server:
    """What answers in the place of the API: what it is sent is what a model would read."""

    def __init__(self, script: Sequence[Turn]) -> None:
        self.turns = iter([*script, []])
        self.played = Played()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """Make the calls of the next turn."""
        body = json.loads(request.content)
        self.played.received += request.content.decode() + "\n"
        for each in body.get("tools", ()):  # the API remembers them, and messages
            self.played.tools[each["name"]] = each["input_schema"]
            assert "strict" not in each
        if isinstance(body["messages"][-1]["content"], list):
            results = body["messages"][-1]["content"]
            told = [(each["content"], each.get("is_error", False)) for each in results]
            self.played.told.append(told)
        calls = [
            {"type": "tool_use", "id": f"toolu_{n}", "name": tool, "input": arguments}
            for n, (tool, arguments) in enumerate(next(self.turns))
        ]
        answer = {
            "id": f"msg_{len(self.played.told)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": calls or [{"type": "text", "text": "done"}],
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return httpx2.Response(200, json=answer)

    def client(self) -> Anthropic:
        """Return a client of this server."""
        http = httpx2.Client(transport=httpx2.MockTransport(self))
        return Anthropic(api_key="none", http_client=http)

    def async_client(self) -> AsyncAnthropic:
        """Return an asynchronous one."""
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return AsyncAnthropic(api_key="none", http_client=http)


class TestAnthropic(AdapterContract):
    """All that an adapter must do."""

    side_by_side = False

    async def played(
        self, desk: BoundToolset, script: Sequence[Turn], visit: Visit, whose: Any = None
    ) -> Played:
        """Play a runner: that of the example, if the sessions are synchronous."""
        server = Server(script)
        given = (visit.chat_id, visit.user_id)
        try:
            if whose:
                tools_of(desk, *whose(None), is_async=True)
            elif desk.is_async:
                async with server.async_client() as client:
                    tools = tools_of(desk, *given, is_async=True)
                    runner = client.beta.messages.tool_runner(
                        model=MODEL, max_tokens=9, messages=HELLO, tools=tools
                    )
                    await runner.until_done()
            else:
                with server.client() as client:
                    shop_runner(desk, client, MODEL, given, HELLO).until_done()
        except Exception as error:  # noqa: BLE001  # is looked at
            server.played.raised = error
        return server.played

    def on_end(self, played: Played) -> None:
        """Check that the model was told that there was a failure, and went on."""
        assert played.told == [[(FAILED, True)], [(ORDERS, False)]]
        assert played.raised is None

    async def test_whose_a_call_is_must_be_a_pair(self, play: Play) -> None:
        """The conversation is named by a text, which is looked at when the tools are made."""
        played = await play([], whose=lambda _: (7, None), fails=True)
        assert isinstance(played.raised, SetupError)
        assert "return its id as a str" in str(played.raised)


def test_arguments_are_taken_as_they_are(shop_desk: BoundToolset) -> None:
    """As the SDK parsed them, or as a server may send them instead."""
    [read, *_] = tools_of(shop_desk, "chat-7", shop.ADA)
    for arguments in ({"table": "orders"}, '{"table":"orders"}'):
        assert read.call(arguments) == ORDERS
    for wrong, error in (('{"table":', NOT_JSON), ([], NO_OBJECT), (None, NO_TABLE_GIVEN)):
        with pytest.raises(ToolError) as raised:
            read.call(wrong)
        assert json.loads(str(raised.value.content)) == {"error": error}


def test_the_application_hears_of_a_failure(
    shop_desk: BoundToolset, caplog: pytest.LogCaptureFixture
) -> None:
    """By the log and by a function of its own, though that fails, too."""
    heard: list[Exception] = []

    def hear(error: Exception) -> None:
        heard.append(error)
        raise ValueError(error)

    server = Server([[CRASH]])
    with server.client() as client, caplog.at_level(logging.ERROR, "alfred_refs"):
        tools = tools_of(shop_desk, "chat-7", shop.ADA, on_failure=hear)
        client.beta.messages.tool_runner(
            model=MODEL, max_tokens=9, messages=HELLO, tools=tools
        ).until_done()
    assert server.played.told == [[(FAILED, True)]]
    assert [type(each) for each in heard] == [RuntimeError]
    messages = [each.message for each in caplog.records if each.name.startswith("alfred_refs")]
    assert messages == [
        "the tool 'db_create' failed",
        "on_failure raised an exception for the tool 'db_create'",
    ]


def test_a_client_that_waits_needs_sessions_that_wait(shop_async_desk: BoundToolset) -> None:
    """Asynchronous sessions have nobody to await them in a synchronous runner."""
    with pytest.raises(SetupError, match="pass is_async=True"):
        tools_of(shop_async_desk, "chat-7", shop.ADA)


def test_an_owner_that_is_missing_is_told_at_once(shop_desk: BoundToolset) -> None:
    """And not by a tool that fails with each call."""
    with pytest.raises(SetupError, match="an owner is missing"):
        tools_of(shop_desk, "chat-7", None)


def test_instructions_tell_of_rows(shop_desk: BoundToolset) -> None:
    """Those that the conversation knows as a runner is made; last, so that the rest is cached."""
    visit = ("chat-7", shop.ADA)
    for calls in ([[READ_ORDERS]], []):
        server = Server(calls)
        with server.client() as client:
            shop_runner(shop_desk, client, MODEL, visit, HELLO).until_done()
    assert server.played.received.count("\n") == 1
    first, rows = json.loads(server.played.received)["system"]
    assert first["text"] == "Look after the customer's orders."
    assert '- order_1 "for Ada" (read in turn 0)\n  {"placed": "2026-11-24"}' in rows["text"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_call_that_needs_a_person_is_pending(
    shop_desk: BoundToolset, shop_async_desk: BoundToolset, is_async: bool
) -> None:
    """The runner goes on; who acts is known to whom decides it."""
    bound = shop_async_desk if is_async else shop_desk
    toolset = Toolset(shop.MODELS, owner=shop.ownership(), consent={shop.Order: "all"})
    desk = toolset.bind(bound.sessions, registry=bound.registry)
    create = {"table": "orders", "data": {"placed": "2026-11-25", "note": "new"}}
    server = Server([[("db_create", create)]])
    if is_async:
        async with server.async_client() as client:
            tools = tools_of(desk, "chat-7", shop.ADA, user="bob", is_async=True)
            await client.beta.messages.tool_runner(
                model=MODEL, max_tokens=9, messages=HELLO, tools=tools
            ).until_done()
    else:
        with server.client() as sync:
            mine = tools_of(desk, "chat-7", shop.ADA, user="bob")
            sync.beta.messages.tool_runner(
                model=MODEL, max_tokens=9, messages=HELLO, tools=mine
            ).until_done()
    [[(told, failed)]] = server.played.told
    assert ("a person must approve this call" in told, failed) == (True, False)
    [waiting] = await desk.aio.approvals("chat-7", shop.ADA)
    assert waiting.user == "bob"
    answer = await desk.aio.approve("chat-7", shop.ADA, waiting.call, by="ann")
    assert answer.value["rows"][0]["note"] == "new"
