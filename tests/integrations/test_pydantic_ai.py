"""Agents of pydantic-ai."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelRequest,
    ModelResponse,
)
from pydantic_ai.messages import (
    InstructionDeltaPart,
    ModelMessagesTypeAdapter,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from alfred_refs.context import Window
from alfred_refs.integrations.pydantic_ai import RefToolset
from alfred_refs.tools import BoundToolset
from examples.agents.pydantic_ai import Visit as ExampleVisit, shop_agent
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


class Script:
    """A model that makes the calls of a script, and writes down what it is sent."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = iter([*turns, []])
        self.played = Played()

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Answer as the model would."""
        results = [each for each in messages[-1].parts if isinstance(each, ToolReturnPart)]
        if results:
            told = [
                (each.model_response_str(wrap_if_error=False), each.outcome != "success")
                for each in results
            ]
            self.played.told.append(told)
        self.played.tools = {
            each.name: each.parameters_json_schema for each in info.function_tools
        }
        assert {each.strict for each in info.function_tools} == {False}
        sent = ModelMessagesTypeAdapter.dump_json(messages).decode()
        self.played.received += f"{sent}\n{info.function_tools}\n{info.instructions}\n"
        calls = [ToolCallPart(tool, arguments) for tool, arguments in next(self.turns)]
        return ModelResponse(parts=[*calls] if calls else [TextPart("done")])


class TestPydanticAI(AdapterContract):
    """All that an adapter must do."""

    async def played(
        self, desk: BoundToolset, script: Sequence[Turn], visit: Visit, whose: Any = None
    ) -> Played:
        """Play an agent."""
        model = Script(script)
        agent: Agent[Any, str] = shop_agent(desk, FunctionModel(model))
        if desk.is_async or whose:
            refs = RefToolset[Visit](desk, whose or (lambda c: (c.deps.chat_id, c.deps.user_id)))
            agent = Agent(FunctionModel(model), deps_type=Visit, toolsets=[refs])
        try:
            await agent.run("Hello", deps=visit)
        except Exception as error:  # noqa: BLE001  # is looked at
            model.played.raised = error
        return model.played

    def error(self, error: dict[str, Any]) -> str:
        """Return the message: pydantic-ai makes JSON of it for models without marks of failure."""
        return str(error["message"])

    async def test_a_write_holds_up_what_comes_after_it(self, play: Play) -> None:
        """A read of the same turn sees what was written before it, and another has not yet."""
        one = [{"field": "note", "op": "=", "value": "for Ada"}]
        change = {"filters": one, "data": {"note": "gift"}, "expect": {"count": 1}}
        write = ("db_update", {"table": "orders", **change})
        played = await play([[READ_ORDERS, write, READ_ORDERS]])
        [[before, _, after]] = played.texts()
        assert before == ORDERS
        assert after == ORDERS.replace("for Ada", "gift")

    async def test_arguments_are_taken_as_they_are(self, play: Play) -> None:
        """As a dict or as text; a run continues after mistakes, which do not count as retries."""
        valid: list[Any] = ['{"table":"orders"}', {"table": "orders"}]
        mistakes: list[tuple[Any, dict[str, Any]]] = [
            ('{"table":"orders"', NOT_JSON),
            ('["orders"]', NO_OBJECT),
            ("", NO_TABLE_GIVEN),
            (None, NO_TABLE_GIVEN),
        ]
        calls = [*valid, *(arguments for arguments, _ in mistakes for _ in range(3))]
        played = await play([*([("db_read", each)] for each in calls), [READ_ORDERS]])
        errors = [[(self.error(error), True)] for _, error in mistakes for _ in range(3)]
        assert played.told == [*[[(ORDERS, False)]] * 2, *errors, [(ORDERS, False)]]


async def test_arguments_of_any_text_are_a_dict_for_the_framework(shop_desk: BoundToolset) -> None:
    """Its own code and that of other toolsets may look into it."""
    refs: RefToolset[Any] = RefToolset(shop_desk, lambda ctx: ctx.deps)
    ctx: Any = SimpleNamespace(max_retries=1)
    validator = (await refs.get_tools(ctx))["db_read"].args_validator
    texts: list[Any] = ['{"table": "orders"}', "[1]", "7", "x", b"[", "[" * 100_000]
    assert {isinstance(validator.validate_json(each), dict) for each in texts} == {True}


async def test_instructions_tell_of_rows(shop_desk: BoundToolset) -> None:
    """As a run begins; what has changed since stands at the end, and the rest is as it was."""
    model, visit = Script([[READ_ORDERS]]), ExampleVisit("chat-7", shop.ADA)
    agent = shop_agent(shop_desk, FunctionModel(model))
    first = await agent.run("What is there?", deps=visit)
    model.turns = iter([[]])
    second = await agent.run("And now?", deps=visit, message_history=first.all_messages())

    requests = [each for each in second.all_messages() if isinstance(each, ModelRequest)]
    [instructions] = {each.instructions for each in requests}
    assert instructions == "Look after the customer's orders.\n\nNothing yet."
    told = requests[-1].parts[-1]
    assert isinstance(told, InstructionDeltaPart)
    assert '- order_1 "for Ada" (read in turn 0)\n  {"placed": "2026-11-24"}' in str(told.content)


async def test_runs_at_the_same_time_show_rows_of_their_own_conversations(
    shop_desk: BoundToolset,
) -> None:
    """Those of its window; one toolset serves both, and a run keeps what it began with."""
    window = Window(active=1)
    refs: RefToolset[Any] = RefToolset(shop_desk, lambda ctx: ctx.deps, window=window)
    runs = []
    for chat, owner in (("chat-1", shop.ADA), ("chat-2", shop.BOB)):
        await shop_desk.call_async(chat, owner, "db_read", {"table": "products"})
        shop_desk.conversation(chat, owner).begin_turn()
        await shop_desk.call_async(chat, owner, "db_read", {"table": "orders"})
        ctx: Any = SimpleNamespace(deps=(chat, owner))
        runs.append((await refs.for_run(ctx), ctx))
    shown = [str(await run.get_instructions(ctx)) for run, ctx in runs]
    assert [("for Ada" in text, "for Bob" in text) for text in shown] == [
        (True, False),
        (False, True),
    ]
    assert "Gyokuro" not in shown[0]
    assert refs.rows is None


async def test_it_is_a_toolset_as_any_other(shop_desk: BoundToolset) -> None:
    """Its tools can be given other names, and be made to wait for somebody's consent."""
    data = {"table": "orders", "data": {"placed": "2026-11-25", "note": "new"}}
    model, visit = Script([[("shop_db_create", data)]]), Visit("chat-7", shop.ADA)
    refs = RefToolset[Visit](shop_desk, lambda ctx: (ctx.deps.chat_id, ctx.deps.user_id))
    asked = refs.approval_required(lambda _, tool, __: tool.name != "db_read")
    agent = Agent(
        FunctionModel(model),
        deps_type=Visit,
        toolsets=[asked.prefixed("shop")],
        output_type=[str, DeferredToolRequests],
    )
    first = await agent.run("Order tea", deps=visit)
    assert isinstance(first.output, DeferredToolRequests)
    assert model.played.told == []

    [call] = first.output.approvals
    consent = DeferredToolResults(approvals={call.tool_call_id: True})
    await agent.run(
        message_history=first.all_messages(), deferred_tool_results=consent, deps=visit
    )
    [[(text, failed)]] = model.played.told
    assert ('"id":"order_1","placed":"2026-11-25","note":"new"' in text, failed) == (True, False)


async def test_a_conversation_goes_on_by_its_id_or_its_messages() -> None:
    """Otherwise each run is another one, for pydantic-ai."""
    agent = Agent(FunctionModel(lambda *_: ModelResponse(parts=[TextPart("done")])))
    first, second = await agent.run("Hello"), await agent.run("Hello")
    third = await agent.run("Hello", message_history=second.all_messages())
    fourth = await agent.run("Hello", conversation_id="chat-7")
    assert first.conversation_id != second.conversation_id == third.conversation_id
    assert fourth.conversation_id == "chat-7"
