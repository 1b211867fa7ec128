"""Calls that a person must approve, by each framework that can wait for one.

A run is stopped, stored as text, and resumed at another desk, as another process would do it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from agents import Agent as OpenAIAgent, RunConfig, Runner, RunState
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelResponse,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import sessionmaker

from alfred_refs import AsyncRefSession, RefRegistry, RefSession, SetupError
from alfred_refs.context import Window
from alfred_refs.integrations import langchain, openai_agents
from alfred_refs.integrations.pydantic_ai import RefToolset
from alfred_refs.tools import BoundToolset, Toolset
from tests.integrations import shop
from tests.integrations.contract import READ_ORDERS, Turn, Visit
from tests.integrations.test_langchain import FakeModel

Desks = Callable[..., BoundToolset]

CHAT = ("chat-7", shop.ADA)
VISIT = Visit(*CHAT)
ONE = [{"field": "id", "op": "=", "value": "order_1"}]
DELETE = ("db_delete", {"table": "orders", "filters": ONE})
CREATE = ("db_create", {"table": "orders", "data": {"placed": "2026-11-25", "note": "new"}})
PLAN = "Delete 1 order. With it: 1 order line deleted."
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture
def desk_of(shop_engine: Engine) -> Iterator[Desks]:
    """Make a desk with connections of its own, as another process would."""
    with ExitStack() as made:

        def desk_of(expires: timedelta | None = None) -> BoundToolset:
            engine = create_engine(shop_engine.url)
            made.callback(engine.dispose)
            toolset = Toolset(
                shop.MODELS,
                owner=shop.ownership(),
                expect="optional",
                consent=lambda plan: plan.tool in ("db_delete", "db_create"),
                consent_expires=expires,
            )
            sessions = sessionmaker(engine, class_=RefSession)
            return toolset.bind(sessions, registry=RefRegistry(engine))

        yield desk_of


@dataclass
class Stopped:
    """A run that has stopped.

    Attributes:
        state: all that the next process has, as text; empty for a run that has ended.
        plans: of the calls that wait, as the framework or the desk shows them.
        told: what the model was told, by the id of the call.
    """

    state: str = ""
    plans: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)


class ConsentContract:
    """What each framework does with calls that need a person.

    Attributes:
        asks_again: whether a plan that has changed is asked in the same run.
    """

    asks_again = True

    async def run(self, desk: BoundToolset, turn: Turn, *, waits: bool = True) -> Stopped:
        """Run an agent whose model makes the calls of one turn: call_0, call_1 ..."""
        raise NotImplementedError

    async def resume(self, desk: BoundToolset, state: str, reject: str | None = None) -> Stopped:
        """Approve all calls of a run that has stopped, or reject them for a reason."""
        raise NotImplementedError

    async def test_one_call_waits_and_the_other_does_not(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """The plan reaches the person; approved elsewhere, the call is executed once."""
        desk_of().call(*CHAT, *READ_ORDERS)
        first = await self.run(desk_of(), [READ_ORDERS, DELETE])
        assert [plan.splitlines()[0] for plan in first.plans] == [PLAN]
        assert notes() == ["for Ada", "for Bob"]
        [waiting] = desk_of().approvals(*CHAT)
        assert (waiting.call_id, waiting.user) == ("call_1", "bob")

        for _ in range(2):
            second = await self.resume(desk_of(), first.state)
            assert not second.state
            assert '"order_1"' in second.told["call_1"]
            assert notes() == ["for Bob"]
        [record] = desk_of().history(*CHAT)
        assert (record.state, record.decided_by) == ("done", "ann")

    async def test_a_run_that_is_resumed_twice_creates_once(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """Also at the same moment."""
        first = await self.run(desk_of(), [CREATE])
        again = (self.resume(desk_of(), first.state) for _ in range(2))
        one, two = await asyncio.gather(*again)
        assert one.told == two.told
        assert '"note":"new"' in one.told["call_0"]
        assert notes() == ["for Ada", "for Bob", "new"]

    async def test_a_person_rejects(self, desk_of: Desks, notes: Callable[[], list[str]]) -> None:
        """The model reads the reason, and the call waits no longer."""
        desk_of().call(*CHAT, *READ_ORDERS)
        first = await self.run(desk_of(), [DELETE])
        second = await self.resume(desk_of(), first.state, "it is paid")
        assert "it is paid" in second.told["call_0"]
        assert notes() == ["for Ada", "for Bob"]
        [record] = desk_of().history(*CHAT)
        assert (record.state, record.decided_by) == ("rejected", "ann")
        assert "it is paid" in str(record.reason)

    async def test_nobody_decides_in_time(
        self, desk_of: Desks, notes: Callable[[], list[str]], shop_engine: Engine
    ) -> None:
        """An approval that comes too late does nothing."""
        desk_of().call(*CHAT, *READ_ORDERS)
        first = await self.run(desk_of(timedelta(hours=1)), [DELETE])
        with shop_engine.begin() as connection:
            past = "UPDATE alfred_refs_call SET expires_at = now() - interval '1 s'"
            connection.execute(text(past))
        second = await self.resume(desk_of(), first.state)
        assert "in time" in second.told["call_0"]
        assert notes() == ["for Ada", "for Bob"]

    async def test_rows_change_meanwhile(
        self, desk_of: Desks, notes: Callable[[], list[str]], shop_engine: Engine
    ) -> None:
        """Nothing is done before a person has seen the new plan."""
        desk_of().call(*CHAT, *READ_ORDERS)
        first = await self.run(desk_of(), [DELETE])
        with shop_engine.begin() as connection:
            connection.execute(text(shop.ANOTHER_LINE))
        second = await self.resume(desk_of(), first.state)
        assert notes() == ["for Ada", "for Bob"]
        if not self.asks_again:
            assert "the rows have changed" in second.told["call_0"]
            assert "call again" in second.told["call_0"]
            assert desk_of().approvals(*CHAT) == []
            return
        assert "2 order lines deleted" in second.plans[0]
        stale = await self.resume(desk_of(), first.state)  # the first approval once more
        assert "2 order lines deleted" in stale.plans[0]
        assert notes() == ["for Ada", "for Bob"]
        third = await self.resume(desk_of(), stale.state)
        assert '"order_1"' in third.told["call_0"]
        assert notes() == ["for Bob"]

    async def test_it_was_decided_at_the_desk(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """The run gets the answer that is stored, whatever it says itself."""
        desk_of().call(*CHAT, *READ_ORDERS)
        first = await self.run(desk_of(), [DELETE])
        [waiting] = desk_of().approvals(*CHAT)
        desk_of().reject(*CHAT, waiting.call, by="eve", reason="wait for Ada")
        second = await self.resume(desk_of(), first.state)
        assert "wait for Ada" in second.told["call_0"]
        assert notes() == ["for Ada", "for Bob"]

    async def test_a_call_that_cannot_be_done_asks_nobody(self, desk_of: Desks) -> None:
        """The model reads its mistake in the same run."""
        ended = await self.run(desk_of(), [DELETE])
        assert not ended.state
        assert "order_1" in ended.told["call_0"]
        assert desk_of().approvals(*CHAT) == []

    async def test_asynchronous_sessions(
        self, shop_async_engine: AsyncEngine, notes: Callable[[], list[str]]
    ) -> None:
        """The same, in a greenlet."""
        sessions = async_sessionmaker(shop_async_engine, class_=AsyncRefSession)
        toolset = Toolset(shop.MODELS, owner=shop.ownership(), consent={shop.Order: ["create"]})
        desk = toolset.bind(sessions, registry=RefRegistry(shop_async_engine))
        first = await self.run(desk, [CREATE, READ_ORDERS])
        second = await self.resume(desk, first.state)
        assert '"note":"new"' in second.told["call_0"]
        assert notes() == ["for Ada", "for Bob", "new"]

    async def test_without_it_the_model_is_told(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """A call that is pending does not stop a run."""
        desk_of().call(*CHAT, *READ_ORDERS)
        ended = await self.run(desk_of(), [DELETE], waits=False)
        assert not ended.state
        assert "a person must approve this call" in ended.told["call_0"]
        assert notes() == ["for Ada", "for Bob"]


class TestPydanticAI(ConsentContract):
    """Deferred tools of pydantic-ai."""

    def agent(self, desk: BoundToolset, turns: Sequence[Turn], *, waits: bool = True) -> Any:
        """Return an agent whose model makes calls."""
        script = iter([*turns, []])

        def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
            calls = [
                ToolCallPart(tool, arguments, tool_call_id=f"call_{n}")
                for n, (tool, arguments) in enumerate(next(script))
            ]
            return ModelResponse(parts=[*calls] if calls else [TextPart("done")])

        refs = RefToolset[Visit](
            desk,
            lambda ctx: (ctx.deps.chat_id, ctx.deps.user_id, "bob"),
            approved_by=(lambda _: "ann") if waits else None,
        )
        return Agent(
            FunctionModel(answer),
            deps_type=Visit,
            toolsets=[refs],
            output_type=[str, DeferredToolRequests] if waits else str,
        )

    def stopped(self, result: Any) -> Stopped:
        """Return how a run has stopped."""
        stopped = Stopped()
        for message in result.all_messages():
            for part in message.parts if isinstance(message, ModelRequest) else ():
                if isinstance(part, ToolReturnPart):
                    stopped.told[part.tool_call_id] = part.model_response_str()
        if isinstance(result.output, DeferredToolRequests):
            asked = result.output.metadata
            stopped.plans = [each["plan"] for each in asked.values()]
            messages = ModelMessagesTypeAdapter.dump_json(result.all_messages()).decode()
            stopped.state = json.dumps([messages, asked])
        return stopped

    async def run(self, desk: BoundToolset, turn: Turn, *, waits: bool = True) -> Stopped:
        """Run an agent until it has deferred calls."""
        return self.stopped(await self.agent(desk, [turn], waits=waits).run("Hi", deps=VISIT))

    async def resume(self, desk: BoundToolset, state: str, reject: str | None = None) -> Stopped:
        """Run it with the results of all."""
        decision: Any = True if reject is None else ToolDenied(reject)
        return await self.resume_with(desk, state, decision)

    async def resume_with(
        self, desk: BoundToolset, state: str, decision: Any, *, metadata: bool = True
    ) -> Stopped:
        """Run it with a decision on all, and perhaps what was asked."""
        messages, asked = json.loads(state)
        results = DeferredToolResults(
            approvals=dict.fromkeys(asked, decision), metadata=asked if metadata else {}
        )
        run = self.agent(desk, []).run(
            message_history=ModelMessagesTypeAdapter.validate_json(messages),
            deferred_tool_results=results,
            deps=VISIT,
        )
        return self.stopped(await run)

    @pytest.mark.parametrize("decision", [True, ToolDenied("we keep it")])
    async def test_rows_are_read_again_after_a_decision(
        self, desk_of: Desks, decision: Any
    ) -> None:
        """A resumed run shows what the person decided, and the rows after it."""
        seen: list[str] = []
        calls: Iterator[Any] = iter(
            [[ToolCallPart(*DELETE, tool_call_id="call_0")], [TextPart("done")]]
        )

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            last = messages[-1]
            parts = last.parts if isinstance(last, ModelRequest) else ()
            texts = [str(getattr(part, "content", "")) for part in parts]
            seen.append("\n".join([info.instructions or "", *texts]))
            return ModelResponse(parts=next(calls))

        refs = RefToolset[Visit](
            desk_of(),
            lambda ctx: (ctx.deps.chat_id, ctx.deps.user_id, "bob"),
            window=Window(),
            approved_by=lambda _: "ann",
        )
        output: Any = [str, DeferredToolRequests]
        agent = Agent(FunctionModel(answer), deps_type=Visit, toolsets=[refs], output_type=output)
        desk_of().call(*CHAT, *READ_ORDERS)
        first = await agent.run("Hi", deps=VISIT)
        asked = first.output.metadata
        results = DeferredToolResults(approvals=dict.fromkeys(asked, decision), metadata=asked)
        history = first.all_messages()
        await agent.run(message_history=history, deferred_tool_results=results, deps=VISIT)
        [line] = [each for each in seen[-1].splitlines() if "- call 1," in each]
        assert line.endswith("approved and done" if decision is True else '"we keep it"')
        assert ("(deleted in turn" in seen[-1]) is (decision is True)

    async def test_edited_arguments_are_planned_anew(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """They are approved once their own plan was shown; the first call does not wait on."""
        first = await self.run(desk_of(), [CREATE])
        edited = {"table": "orders", "data": {"placed": "2026-11-25", "note": "edited"}}
        approved = ToolApproved(override_args=edited)
        second = await self.resume_with(desk_of(), first.state, approved, metadata=False)
        assert notes() == ["for Ada", "for Bob"]
        assert '"edited"' in second.plans[0]
        third = await self.resume_with(desk_of(), second.state, approved)
        assert '"edited"' in third.told["call_0"]
        assert notes() == ["edited", "for Ada", "for Bob"]
        assert desk_of().approvals(*CHAT) == []

    async def test_edited_arguments_that_are_refused_end_the_call(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """The model gets the error; the call that was planned first does not wait on."""
        first = await self.run(desk_of(), [CREATE])
        edited = {"table": "orders", "data": {"placed": "soon"}}
        approved = ToolApproved(override_args=edited)
        second = await self.resume_with(desk_of(), first.state, approved)
        assert second.plans == []
        assert "'placed'" in second.told["call_0"]
        assert notes() == ["for Ada", "for Bob"]
        assert desk_of().approvals(*CHAT) == []
        error = desk_of().answer(*CHAT, 1).value["error"]
        assert error["code"] == "rejected"
        assert "other arguments were approved in its place" in error["message"]

    async def test_metadata_may_be_forgotten(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """The call is found by its id, and does what the desk has as its plan."""
        first = await self.run(desk_of(), [CREATE])
        await self.resume_with(desk_of(), first.state, decision=True, metadata=False)
        assert notes() == ["for Ada", "for Bob", "new"]


class TestOpenAIAgents(ConsentContract):
    """Interruptions of the OpenAI Agents SDK."""

    asks_again = False  # a call that is approved cannot interrupt the run once more

    def agent(self, desk: BoundToolset, turns: Sequence[Turn], *, waits: bool = True) -> Any:
        """Return an agent whose model makes calls."""
        calls = [
            [
                function_call(tool, arguments, call_id=f"call_{n}")
                for n, (tool, arguments) in enumerate(turn)
            ]
            for turn in turns
        ]
        tools = openai_agents.tools_of(
            desk,
            lambda ctx: (ctx.context.chat_id, ctx.context.user_id, "bob"),
            approved_by=(lambda _: "ann") if waits else None,
        )
        model = ScriptedModel([*calls, [assistant_message("done")]])
        return OpenAIAgent(name="shop", model=model, tools=[*tools])

    async def stopped(self, desk: BoundToolset, result: Any) -> Stopped:
        """Return how a run has stopped."""
        stopped = Stopped()
        for each in result.to_input_list():
            if each.get("type") == "function_call_output":
                stopped.told[each["call_id"]] = each["output"]
        if result.interruptions:
            waiting = await desk.aio.approvals(*CHAT)
            plans = {each.call_id: each.plan.text for each in waiting}
            stopped.plans = [plans[each.call_id] for each in result.interruptions]
            stopped.state = result.to_state().to_string(
                context_serializer=lambda _: {"chat_id": "chat-7"}
            )
        return stopped

    async def run(self, desk: BoundToolset, turn: Turn, *, waits: bool = True) -> Stopped:
        """Run an agent until it is interrupted."""
        agent = self.agent(desk, [turn], waits=waits)
        return await self.stopped(
            desk, await Runner.run(agent, "Hi", context=VISIT, run_config=QUIET)
        )

    async def resume(self, desk: BoundToolset, state: str, reject: str | None = None) -> Stopped:
        """Run it with decisions on all interruptions."""
        return await self.resume_with(self.agent(desk, []), desk, state, reject)

    async def resume_with(
        self, agent: Any, desk: BoundToolset, state: str, reject: str | None, **options: Any
    ) -> Stopped:
        """Run an agent with decisions."""
        stored: Any = await RunState.from_string(
            agent, state, context_deserializer=lambda _: VISIT
        )
        for item in stored.get_interruptions():
            if reject is None:
                stored.approve(item, **options)
                continue
            [waiting] = (e for e in desk.approvals(*CHAT) if e.call_id == item.call_id)
            answer = desk.reject(*CHAT, waiting.call, by="ann", reason=reject)
            stored.reject(item, rejection_message=answer.text)
        return await self.stopped(desk, await Runner.run(agent, stored, run_config=QUIET))

    async def test_a_tool_that_is_always_approved_waits_at_the_desk(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """Later calls have plans that nobody has seen."""
        first = await self.run(desk_of(), [CREATE])
        desk = desk_of()
        other = {"table": "orders", "data": {"placed": "2026-11-25", "note": "other"}}
        agent = self.agent(desk, [[]])
        call = function_call("db_create", other, call_id="call_9")
        agent.model = ScriptedModel([[call], [assistant_message("done")]])
        second = await self.resume_with(agent, desk, first.state, None, always_approve=True)
        assert "a person must approve this call" in second.told["call_9"]
        assert notes() == ["for Ada", "for Bob", "new"]


class TestLangChain(ConsentContract):
    """Interrupts of LangGraph."""

    @pytest.fixture(autouse=True)
    def saver(self) -> InMemorySaver:
        """What a database would keep."""
        self.saver_ = InMemorySaver()
        return self.saver_

    def agent(self, desk: BoundToolset, turns: Sequence[Turn], *, waits: bool = True) -> Any:
        """Return an agent whose model makes calls."""
        calls = [
            AIMessage(
                "",
                tool_calls=[
                    {"name": tool, "args": arguments, "id": f"call_{n}"}
                    for n, (tool, arguments) in enumerate(turn)
                ],
            )
            for turn in turns
        ]
        tools = langchain.tools_of(
            desk,
            lambda runtime: (runtime.context.chat_id, runtime.context.user_id, "bob"),
            approved_by=(lambda _: "ann") if waits else None,
        )
        model = FakeModel(messages=iter([*calls, AIMessage("done")]))
        return create_agent(model, tools, context_schema=Visit, checkpointer=self.saver_)

    def stopped(self, thread: Any, state: Any) -> Stopped:
        """Return how a run has stopped."""
        stopped = Stopped()
        for message in state["messages"]:
            if isinstance(message, ToolMessage):
                stopped.told[message.tool_call_id] = str(message.content)
        if asked := state.get("__interrupt__"):
            stopped.plans = [each.value["plan"] for each in asked]
            tokens = {each.id: each.value["token"] for each in asked}
            stored: Any = self.saver_.get_tuple(thread)
            checkpoint = stored.config["configurable"]
            stopped.state = json.dumps([checkpoint, tokens])
        return stopped

    async def run(self, desk: BoundToolset, turn: Turn, *, waits: bool = True) -> Stopped:
        """Run an agent until it is interrupted."""
        thread = {"configurable": {"thread_id": "chat-7"}}
        question = {"messages": [{"role": "user", "content": "Hi"}]}
        agent = self.agent(desk, [turn], waits=waits)
        return self.stopped(thread, await agent.ainvoke(question, thread, context=VISIT))

    async def resume(self, desk: BoundToolset, state: str, reject: str | None = None) -> Stopped:
        """Run it with the decisions on all interrupts."""
        tokens = json.loads(state)[1]
        decisions: Any = {
            id_: {"type": "approve", "token": token}
            if reject is None
            else {"type": "reject", "message": reject}
            for id_, token in tokens.items()
        }
        return await self.resume_with(desk, state, decisions)

    async def resume_with(self, desk: BoundToolset, state: str, decisions: Any) -> Stopped:
        """Run it from its checkpoint."""
        thread = {"configurable": json.loads(state)[0]}
        command: Any = Command(resume=decisions)
        agent = self.agent(desk, [])
        return self.stopped(thread, await agent.ainvoke(command, thread, context=VISIT))

    @pytest.mark.parametrize(
        "value",
        [
            True,
            {"type": "approve"},
            {"type": "edit", "token": "x"},
            {"type": "reject", "message": ["it is paid"]},
        ],
    )
    async def test_other_values_are_no_decision(
        self, desk_of: Desks, notes: Callable[[], list[str]], value: Any
    ) -> None:
        """An approval without the token of what was seen is none; the next value may be one."""
        first = await self.run(desk_of(), [CREATE])
        with pytest.raises(SetupError, match="was resumed with"):
            await self.resume_with(desk_of(), first.state, value)
        assert notes() == ["for Ada", "for Bob"]
        second = await self.resume(desk_of(), first.state)
        assert '"note":"new"' in second.told["call_0"]

    def test_agents_that_are_invoked_are_interrupted_too(
        self, desk_of: Desks, notes: Callable[[], list[str]]
    ) -> None:
        """By the same steps, in a thread."""
        thread = {"configurable": {"thread_id": "chat-7"}}
        question = {"messages": [{"role": "user", "content": "Hi"}]}
        state = self.agent(desk_of(), [[CREATE]]).invoke(question, thread, context=VISIT)
        [asked] = state["__interrupt__"]
        decision = {"type": "approve", "token": asked.value["token"]}
        command: Any = Command(resume={asked.id: decision})
        self.agent(desk_of(), []).invoke(command, thread, context=VISIT)
        assert notes() == ["for Ada", "for Bob", "new"]

    async def test_the_middleware_can_show_the_schemas(self, desk_of: Desks) -> None:
        """It puts them into those of decisions, where references would find nothing."""
        desk = desk_of()
        calls = [AIMessage("", tool_calls=[{"name": "db_read", "args": {}, "id": "1"}])]
        agent: Any = create_agent(
            FakeModel(messages=iter(calls)),
            langchain.tools_of(desk, lambda _: CHAT),
            middleware=[HumanInTheLoopMiddleware({"db_read": True}, interrupt_mode="per_call")],
            checkpointer=self.saver_,
        )
        thread = {"configurable": {"thread_id": "chat-8"}}
        question = {"messages": [{"role": "user", "content": "Hi"}]}
        state = await agent.ainvoke(question, thread)
        assert len(state["__interrupt__"]) == 1
