"""Agents of LangChain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.messages import AIMessage, ToolMessage
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.json_schema import dereference_refs
from pydantic import Field
from sqlalchemy import Engine

from alfred_refs import SetupError
from alfred_refs.integrations.langchain import tools_of
from alfred_refs.tools import BoundToolset
from examples.agents import langchain as example
from tests.integrations import shop
from tests.integrations.contract import (
    ORDERS,
    PRODUCTS,
    READ_ORDERS,
    READ_PRODUCTS,
    AdapterContract,
    Play,
    Played,
    Turn,
    Visit,
    let_two_reads_meet,
)


class FakeModel(GenericFakeChatModel):
    """The framework's own fake, which keeps what it is sent."""

    sent: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[Any] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, AIMessage]:
        """Take tools as clients do."""
        self.tools[:] = [convert_to_openai_tool(each)["function"] for each in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.sent.append(messages)
        return super()._generate(messages, *args, **options)


def answers(script: Sequence[Turn]) -> Iterator[AIMessage]:
    """Yield what a model answers."""
    for n, calls in enumerate(script):
        yield AIMessage(
            "",
            tool_calls=[
                {"name": tool, "args": arguments, "id": f"call_{n}_{m}"}
                for m, (tool, arguments) in enumerate(calls)
            ],
        )
    yield AIMessage("done")


def sent_to(model: FakeModel) -> Played:
    """Return what a model was sent."""
    played = Played(tools={each["name"]: each["parameters"] for each in model.tools})
    sent = [each.model_dump(exclude={"artifact"}) for sent in model.sent for each in sent]
    played.received = f"{sent}\n{model.tools}"
    for message in model.sent[-1]:
        if isinstance(message, ToolMessage):
            turn = int(message.tool_call_id.split("_")[1])
            played.told += [[]] * (turn + 1 - len(played.told))
            told = (str(message.content), message.status == "error")
            played.told[turn] = [*played.told[turn], told]
    return played


class TestLangChain(AdapterContract):
    """All that an adapter must do."""

    side_by_side = False  # the example's: invoked otherwise, writes would be made in any order

    async def played(
        self, desk: BoundToolset, script: Sequence[Turn], visit: Visit, whose: Any = None
    ) -> Played:
        """Play an agent: that of the example is invoked, the other one awaited."""
        model, raised = FakeModel(messages=answers(script)), None
        question: Any = {"messages": [{"role": "user", "content": "Hello"}]}
        try:
            if desk.is_async or whose:
                tools = tools_of(desk, whose or (lambda c: (c.context.chat_id, c.context.user_id)))
                agent: Any = create_agent(model, tools, context_schema=Visit)
                await agent.ainvoke(question, context=visit)
            else:
                agent = example.shop_agent(desk, model)
                given = example.visit(desk, visit.chat_id, visit.user_id)
                agent.invoke(question, context=given)
        except Exception as error:  # noqa: BLE001  # is looked at
            raised = error
        played = sent_to(model)
        played.raised = raised
        return played

    def schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema with what it refers to in the place of references."""
        return {k: v for k, v in dereference_refs(schema).items() if k != "$defs"}

    async def test_no_argument_is_taken_for_a_parameter(self, play: Play) -> None:
        """Whatever a model calls it: it is told that there is none, and no context is its own."""
        forged = dict.fromkeys(["self", "config", "run_manager", "callbacks", "agent_runtime"], 1)
        played = await play([[("db_read", {"table": "orders", **forged})], [READ_ORDERS]])
        [[(told, failed)], right] = played.told
        assert failed
        assert "'self'" in told
        assert right == [(ORDERS, False)]


def test_an_agent_that_may_makes_reads_at_once(
    shop_desk: BoundToolset, shop_engine: Engine
) -> None:
    """In threads, without a limit to their number."""
    met = let_two_reads_meet(shop_engine)
    model = FakeModel(messages=answers([[READ_PRODUCTS, READ_PRODUCTS]]))
    agent: Any = create_agent(model, tools_of(shop_desk, lambda _: ("chat-7", shop.ADA)))
    agent.invoke({"messages": [{"role": "user", "content": "Hello"}]})
    assert sent_to(model).told == [[(PRODUCTS, False)] * 2]
    assert len(met) == 2


def test_a_call_outside_of_an_agent_is_refused(shop_desk: BoundToolset) -> None:
    """Nobody but the agent says whose it is; a model's own word for that is not listened to."""
    [read, *_] = tools_of(shop_desk, lambda _: ("chat-7", shop.ADA))
    for given in ({"table": "orders"}, {"table": "orders", "agent_runtime": {}}):
        with pytest.raises(SetupError, match="called outside an agent"):
            read.invoke({"type": "tool_call", "id": "1", "name": "db_read", "args": given})


def test_asynchronous_sessions_are_awaited(shop_async_desk: BoundToolset) -> None:
    """An agent that is invoked is told so by LangChain."""
    tools = tools_of(shop_async_desk, lambda _: ("chat-7", shop.ADA))
    agent: Any = create_agent(FakeModel(messages=answers([[READ_ORDERS]])), tools)
    with pytest.raises(NotImplementedError, match="does not support sync invocation"):
        agent.invoke({"messages": [{"role": "user", "content": "Hello"}]})


def test_the_artifact_is_for_the_application(shop_desk: BoundToolset) -> None:
    """The answer as values, which LangChain sends to no model."""
    model = FakeModel(messages=answers([[READ_ORDERS]]))
    agent = example.shop_agent(shop_desk, model)
    question: Any = {"messages": [{"role": "user", "content": "Hello"}]}
    state = agent.invoke(question, context=example.visit(shop_desk, "chat-7", shop.ADA))
    [message] = [each for each in state["messages"] if isinstance(each, ToolMessage)]
    assert message.artifact["rows"][0]["id"] == "order_1"


def test_instructions_tell_of_rows(shop_desk: BoundToolset) -> None:
    """Those that the conversation knows as a run begins."""
    question: Any = {"messages": [{"role": "user", "content": "Hello"}]}
    for calls in ([[READ_ORDERS]], []):
        model = FakeModel(messages=answers(calls))
        visit = example.visit(shop_desk, "chat-7", shop.ADA)
        example.shop_agent(shop_desk, model).invoke(question, context=visit)
    told = str(model.sent[0][0].content)
    assert told.startswith("Look after the customer's orders.\n\nThese values are current")
    assert '- order_1 "for Ada" (read in turn 0)\n  {"placed": "2026-11-24"}' in told
