"""The MCP server, by the SDK's own client: in memory, in both eras of the protocol."""

from __future__ import annotations

import json
import logging
import sys
import uuid
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from sqlalchemy import select
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.integrations.mcp import server_of
from alfred_refs.tools import BoundToolset, Hooks, Reading, Ref, Toolset
from tests.integrations import shop

ERAS: list[ConnectMode] = ["auto", "legacy"]

ORDER = {"placed": "2026-11-25", "note": "Grüße, 玉露"}


def served(desk: BoundToolset, who: uuid.UUID = shop.ADA, **options: Any) -> Server[Any]:
    """Return a server for one customer, who has one conversation unless the client names one."""
    return server_of(desk, name="shop", owner_of=lambda _: who, **options)


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result, which is its only content."""
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def read(client: Client, uri: str, **options: Any) -> str:
    """Return the text of a resource."""
    (contents,) = (await client.read_resource(uri, **options)).contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.text


@pytest.mark.parametrize("era", ERAS)
async def test_tools_are_listed_as_the_toolset_tells_of_them(
    desk: BoundToolset, era: ConnectMode
) -> None:
    """Name, text, schema and hints; what an answer has is told, and nothing of it required."""
    async with Client(served(desk), mode=era) as client:
        listed = (await client.list_tools()).tools

    told = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed]
    schemas = [each.pop("outputSchema") for each in told]
    assert told == desk.schemas("mcp")
    assert all(
        each["type"] == "object" and "rows" in each["properties"] and "required" not in each
        for each in schemas
    )


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_is_the_same_json_twice(desk: BoundToolset, era: ConnectMode) -> None:
    """As compact text and as structured content; dates, decimals and every letter as they are."""
    async with Client(served(desk), mode=era) as client:
        made = await client.call_tool("db_create", {"table": "orders", "data": ORDER})
        goods = await client.call_tool("db_read", {"table": "products", "order_by": "name"})

    assert (made.is_error, made.structured_content) == (
        False,
        {"table": "orders", "rows": [{"id": "order_1", **ORDER}], "count": 1},
    )
    assert '"placed":"2026-11-25","note":"Grüße, 玉露"' in text_of(made)
    assert goods.structured_content == json.loads(text_of(goods))
    assert [row["price"] for row in json.loads(text_of(goods))["rows"]] == [8, 24.9]


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_model_can_mend_is_a_result(desk: BoundToolset, era: ConnectMode) -> None:
    """It says what was wrong, in the same two ways; also where there are no arguments at all."""
    async with Client(served(desk), mode=era) as client:
        unknown = await client.call_tool("db_read", {"table": "recipes"})
        nothing = await client.call_tool("db_read")

    assert (unknown.is_error, nothing.is_error) == (True, True)
    assert unknown.structured_content == json.loads(text_of(unknown))
    assert json.loads(text_of(unknown))["error"]["code"] == "unknown_table"


@pytest.mark.parametrize("era", ERAS)
async def test_of_a_crash_the_client_reads_nothing(
    desk: BoundToolset, era: ConnectMode, caplog: pytest.LogCaptureFixture
) -> None:
    """It is an internal error, of whose text nothing is sent; the log has it."""
    caplog.set_level(logging.ERROR)
    data = {**ORDER, "note": shop.CRASH}
    async with Client(served(desk), mode=era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("db_create", {"table": "orders", "data": data})

    assert caught.value.error == types.ErrorData(
        code=types.INTERNAL_ERROR, message="Internal server error"
    )
    assert [record.name for record in caplog.records] == ["alfred_refs.mcp"]
    assert "could not reach the warehouse" in caplog.text


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_not_there_is_a_wrong_parameter(
    desk: BoundToolset, era: ConnectMode
) -> None:
    """Tools, resources and prompts; refs that name no row of a table that is listed among them."""
    async with Client(served(desk), mode=era) as client:
        asked: list[Callable[[], Any]] = [
            lambda: client.call_tool("db_drop", {}),
            lambda: client.read_resource("refs://nothing"),
            lambda: client.read_resource("refs://row/order_9"),
            lambda: client.read_resource("refs://row/recipe_1"),
            lambda: client.read_resource("refs://row/" + str(shop.ADA)),
            lambda: client.get_prompt("nothing"),
        ]
        codes = []
        for ask in asked:
            with pytest.raises(MCPError) as caught:
                await ask()
            codes.append(caught.value.error.code)

    assert codes == [types.INVALID_PARAMS] * len(asked)


@pytest.mark.parametrize("era", ERAS)
async def test_read_only_has_no_other_tools(desk: BoundToolset, era: ConnectMode) -> None:
    """Neither listed nor called: a tool that writes is as unknown as one that never was."""
    async with Client(served(desk, read_only=True), mode=era) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["db_read"]
        with pytest.raises(MCPError, match="there is no tool 'db_create'; known: 'db_read'"):
            await client.call_tool("db_create", {"table": "orders", "data": ORDER})
        answer = await client.call_tool("db_read", {"table": "orders"})

    assert answer.structured_content is not None
    assert [row["note"] for row in answer.structured_content["rows"]] == ["for Ada"]


@pytest.mark.parametrize("era", ERAS)
async def test_resources_are_tables_rows_and_the_conversation(
    desk: BoundToolset, shop_registry: RefRegistry, era: ConnectMode
) -> None:
    """A row as it is read, entries of listed tables with labels, without keys; and a prompt."""
    chat = shop_registry.conversation("chat-7", owner=shop.ADA)
    chat.refer("voucher", 5)
    chat.draft("voucher", {})
    server = server_of(desk, lambda _: ("chat-7", shop.ADA), name="shop")
    async with Client(server, mode=era) as client:
        nothing = json.loads(await read(client, "refs://conversation"))
        await client.call_tool("db_read", {"table": "orders"})
        chat.draft(shop.Address, {"street": "Ring ..88bd2de2"})
        row = json.loads(await read(client, "refs://row/order_1"))
        known = json.loads(await read(client, "refs://conversation"))
        tables = await read(client, "refs://tables")
        prompt = (await client.get_prompt("tables")).messages[0].content
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        templates = (await client.list_resource_templates()).resource_templates

    assert nothing == {"entries": [], "more": False}
    assert [each["note"] for each in row["rows"]] == ["for Ada"]
    assert known["entries"] == [
        {"ref": "gen_address_1", "label": "Ring <key>"},
        {"ref": "order_1", "label": "for Ada", "gone": None},
    ]
    assert tables == desk.describe()
    assert isinstance(prompt, types.TextContent)
    assert prompt.text.endswith(tables)
    assert listed == ["refs://tables", "refs://conversation"]
    assert [each.uri_template for each in templates] == ["refs://row/{ref}"]


async def test_resources_hide_what_the_tools_hide(
    shop_sessions: sessionmaker[RefSession], shop_registry: RefRegistry
) -> None:
    """Labels of rows that a hook masks, and drafts where the toolset has none."""

    class Masked(Hooks):
        def after_read(self, reading: Reading, rows: list[dict[str, Any]]) -> None:  # noqa: ARG002
            for row in rows:
                row["note"] = "***"

    options: dict[str, Any] = {"hooks": {shop.Order: [Masked()]}, "drafts": False}
    toolset = Toolset([shop.Order], owner=shop.ownership(), **options)
    desk = toolset.bind(shop_sessions, registry=shop_registry)
    chat = shop_registry.conversation("chat-7", owner=shop.ADA)
    chat.draft(shop.Order, {"note": "a draft"})
    with shop_sessions(conversation=chat, owner=shop.ownership().of(shop.ADA)) as session:
        assert [order.id for order in session.scalars(select(shop.Order))] == ["order_1"]
    async with Client(server_of(desk, lambda _: ("chat-7", shop.ADA), name="shop")) as client:
        known = json.loads(await read(client, "refs://conversation"))
        [template] = (await client.list_resource_templates()).resource_templates
    assert known["entries"] == [{"ref": "order_1", "label": None, "gone": None}]
    assert template.description == "One row of this conversation, by its ref."


async def test_entries_are_limited_and_rows_that_are_gone_are_marked(
    desk: BoundToolset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason; a client learns that there are more."""
    own = [{"field": "id", "op": "=", "value": "order_1"}]
    async with Client(served(desk)) as client:
        await client.call_tool("db_read", {"table": "orders"})
        await client.call_tool("db_delete", {"table": "orders", "filters": own})
        known = json.loads(await read(client, "refs://conversation"))
        limit = len(known["entries"]) - 1
        monkeypatch.setattr(sys.modules[server_of.__module__], "_MAX_ENTRIES", limit)
        limited = json.loads(await read(client, "refs://conversation"))

    entry = {"ref": "order_1", "label": "for Ada", "gone": "was deleted"}
    assert (entry in known["entries"], known["more"]) == (True, False)
    assert limited == {"entries": known["entries"][:-1], "more": True}


async def test_owners_without_tokens_have_conversations_of_their_own(desk: BoundToolset) -> None:
    """In one registry, which would refuse the second one in a conversation of the first."""
    answers = []
    for who in (shop.ADA, shop.BOB):
        async with Client(served(desk, who)) as client:
            answers.append(text_of(await client.call_tool("db_read", {"table": "orders"})))
    assert [("for Ada" in each, "for Bob" in each) for each in answers] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize("era", ERAS)
async def test_functions_of_the_application_are_tools_too(
    desk: BoundToolset, era: ConnectMode
) -> None:
    """They may answer anything; of a server that is read only, those that say so are left."""

    @desk.tool(read_only=True)
    def weigh(order: Ref[shop.Order]) -> dict[str, str]:
        """Weigh an order."""
        return {"count": "two", "order": order}

    @desk.tool
    def ship(order: Ref[shop.Order]) -> str:
        """Ship an order."""
        return f"shipped {order}"

    arguments = {"order": "order_1"}
    async with Client(served(desk), mode=era) as client:
        await client.call_tool("db_read", {"table": "orders"})
        weighed = await client.call_tool("weigh", arguments)
        shipped = await client.call_tool("ship", arguments)
        refused = await client.call_tool("ship", {"order": "product_1"})
    async with Client(served(desk, read_only=True), mode=era) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]

    assert weighed.structured_content == {"count": "two", "order": "order_1"}
    assert shipped.structured_content == {"result": "shipped order_1"}
    assert (refused.is_error, listed) == (True, ["db_read", "weigh"])
