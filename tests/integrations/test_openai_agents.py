"""Agents of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents import Agent, FunctionTool, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call

from alfred_refs.integrations.openai_agents import tools_of
from alfred_refs.tools import BoundToolset
from examples.agents import openai_agents as example
from tests.integrations import shop
from tests.integrations.contract import (
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

QUIET = RunConfig(tracing_disabled=True)  # traces go to a server


def scripted(script: Sequence[Turn]) -> ScriptedModel:
    """Return a model that makes the calls of a script."""
    turns = [
        [function_call(tool, arguments, call_id=f"call_{n}_{m}") for m, (tool, arguments) in calls]
        for n, calls in enumerate(enumerate(turn) for turn in script)
    ]
    return ScriptedModel([*turns, [assistant_message("done")]])


def sent_to(model: ScriptedModel) -> Played:
    """Return what a model was sent."""
    played = Played()
    for call in model.calls:
        played.tools = {
            each.name: each.params_json_schema
            for each in call.tools
            if isinstance(each, FunctionTool) and not each.strict_json_schema
        }
        played.received += f"{call.system_instructions}\n{call.input}\n{call.tools}\n"
    items = [each for each in model.calls[-1].input if isinstance(each, dict)]
    results = {
        each["call_id"]: each["output"]
        for each in items
        if each.get("type") == "function_call_output"
    }
    for name, text in results.items():
        turn = int(name.split("_")[1])
        played.told += [[]] * (turn + 1 - len(played.told))
        # it has no mark for what failed but what the text says
        played.told[turn] = [*played.told[turn], (text, text.startswith('{"error":'))]
    return played


class TestOpenAIAgents(AdapterContract):
    """All that an adapter must do."""

    async def played(
        self, desk: BoundToolset, script: Sequence[Turn], visit: Visit, whose: Any = None
    ) -> Played:
        """Play an agent."""
        model, raised = scripted(script), None
        agent: Agent[Any] = example.shop_agent(desk, model)
        given: Any = await example.visit(desk, visit.chat_id, visit.user_id)
        if whose:
            agent = Agent(name="shop", model=model, tools=[*tools_of(desk, whose)])
        try:
            await Runner.run(agent, "Hello", context=given, run_config=QUIET)
        except Exception as error:  # noqa: BLE001  # is looked at
            raised = error
        played = sent_to(model)
        played.raised = raised
        return played

    async def test_arguments_are_taken_as_they_are(self, play: Play) -> None:
        """As text; a run continues after mistakes."""
        texts = ['{"table":"orders"}', '{"table":"orders"', "", "{}"]
        played = await play([*([("db_read", text)] for text in texts), [READ_ORDERS]])
        given = (NOT_JSON, NO_TABLE_GIVEN, NO_TABLE_GIVEN)  # "" is no arguments
        errors = [[(self.error(each), True)] for each in given]
        assert played.told == [[(ORDERS, False)], *errors, [(ORDERS, False)]]


def test_a_strict_schema_would_have_no_room_for_data(shop_desk: BoundToolset) -> None:
    """Which is why ours are not: objects would have no fields, and all others be required."""
    tools = {each.name: each for each in tools_of(shop_desk, lambda _: ("", None))}
    create = tools["db_create"]
    assert create.strict_json_schema is False
    assert create.params_json_schema["properties"]["data"]["anyOf"][0] == {"type": "object"}

    strict = FunctionTool("db_create", "", create.params_json_schema, create.on_invoke_tool)
    data = strict.params_json_schema["properties"]["data"]["anyOf"][0]
    assert data == {"type": "object", "additionalProperties": False}
    assert create.params_json_schema["required"] == ["table"]
    assert strict.params_json_schema["required"] == [*strict.params_json_schema["properties"]]


async def test_instructions_tell_of_rows(shop_desk: BoundToolset) -> None:
    """Those that the conversation knows as a run begins."""
    for calls in ([[READ_ORDERS]], []):
        model = scripted(calls)
        visit = await example.visit(shop_desk, "chat-7", shop.ADA)
        agent = example.shop_agent(shop_desk, model)
        await Runner.run(agent, "Hello", context=visit, run_config=QUIET)
    told = str(model.calls[0].system_instructions)
    assert told.startswith("Look after the customer's orders.\n\nThese values are current")
    assert '- order_1 "for Ada" (read in turn 0)\n  {"placed": "2026-11-24"}' in told
