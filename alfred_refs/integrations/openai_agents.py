"""Tools for agents of the OpenAI Agents SDK.

    from agents import Agent, Runner
    from alfred_refs.integrations.openai_agents import tools_of

    desk = toolset.bind(sessions, registry=registry)
    tools = tools_of(desk, lambda ctx: (ctx.context.chat_id, ctx.context.user_id))
    agent = Agent[Visit](name="shop", tools=tools)
    await Runner.run(agent, "What did I order?", context=Visit("chat-7", user.id))

>>> [tool.name for tool in tools_of(desk, lambda ctx: (ctx.context.chat_id, None))][:2]
['db_read', 'db_create']

The model gets the answer as JSON text, also if it made a mistake. Any other exception ends the
run. The SDK runs the calls of one turn concurrently; writes in one conversation wait for each
other.

A call that needs a person (`Toolset(consent=...)`) returns a pending answer and waits at the desk.
With `approved_by` it interrupts the run, and waits at the desk under the id of the interruption:

    run = await Runner.run(agent, ...)
    state = run.to_state()                                  # or RunState.from_json(...), later
    plans = {each.call_id: each for each in desk.approvals("chat-7", user.id)}
    for item in run.interruptions:
        print(plans[item.call_id].plan.text)
        state.approve(item)
    await Runner.run(agent, state)

To reject a call, call `desk.reject` and pass the text of its answer to `state.reject`, because the
SDK does not call the tool then. An approved call is executed once, even if the state is resumed
several times. If rows have changed since, it is rejected, and the model calls again. The SDK does
not interrupt for a tool with `always_approve=True`; its calls wait at the desk.
"""

from __future__ import annotations

from typing import Any

from alfred_refs.integrations.adapters import require

require("openai-agents", "0.24", extra="openai-agents")

from agents import FunctionTool, RunContextWrapper
from agents.tool_context import ToolContext

from alfred_refs.integrations.adapters import (
    ApprovedBy,
    Caller,
    Whose,
    approve,
    caller_of,
    reject,
    waiting_calls,
)
from alfred_refs.tools import Approval, BoundToolset, ToolAnswer

__all__ = ["tools_of"]


_Context = RunContextWrapper[Any]


def tools_of(
    desk: BoundToolset,
    whose: Whose[ToolContext[Any]],
    *,
    approved_by: ApprovedBy[ToolContext[Any]] | None = None,
) -> list[FunctionTool]:
    """Return the tools of a bound toolset, for `Agent(tools=...)`.

    Args:
        desk: the bound toolset.
        whose: returns the conversation and the owner of a call, and optionally the acting user,
            from the context of the run.
        approved_by: returns the person who approved the calls of a run, from its context. With it,
            calls that need a person interrupt the run. Both functions may use `ctx.context` only.

    Example:
        >>> tools = tools_of(desk, lambda ctx: (ctx.context.chat_id, None))
        >>> [tool.name for tool in tools]
        ['db_read', 'db_create', 'db_update', 'db_delete', 'db_edit_list']
    """
    return [_Tool(desk, whose, approved_by, each).tool for each in desk.schemas("mcp")]


class _Tool:
    """The callbacks of the SDK for one tool.

    Attributes:
        tool: the tool.
    """

    def __init__(
        self,
        desk: BoundToolset,
        whose: Whose[ToolContext[Any]],
        approved_by: ApprovedBy[ToolContext[Any]] | None,
        definition: dict[str, Any],
    ) -> None:
        self._desk = desk
        self._whose: Whose[Any] = whose
        self._approved_by = approved_by
        self._name = definition["name"]
        asks = approved_by is not None and not desk.reads(self._name)
        self.tool = FunctionTool(
            name=self._name,
            description=definition["description"],
            params_json_schema=definition["inputSchema"],
            on_invoke_tool=self._invoke,
            # strict mode forbids open objects, but the keys of `data` are the table's columns
            strict_json_schema=False,
            needs_approval=self._needs_approval if asks else False,
        )

    async def _needs_approval(
        self, ctx: _Context, arguments: dict[str, Any], call_id: str
    ) -> bool:
        """Return whether a call needs a person; if so, it waits at the desk."""
        conversation, owner, user = caller_of(self._whose, ctx)
        answer = await self._desk.aio.ask(
            *(conversation, owner, self._name, arguments), user=user, call_id=call_id
        )
        return answer is not None and answer.pending is not None

    async def _invoke(self, ctx: ToolContext[Any], arguments: str) -> str:
        caller = caller_of(self._whose, ctx)
        conversation, owner, user = caller
        asked: list[Approval] = []
        if self._approved_by is not None and not self._desk.reads(self._name):
            asked = await self._desk.aio.run(waiting_calls, self._desk, caller, ctx.tool_call_id)
        answer = await self._desk.call_async(
            *(conversation, owner, self._name, arguments), user=user, call_id=ctx.tool_call_id
        )
        # an interrupted call arrives here after its approval
        approved = [each for each in asked if each.call == answer.pending]
        if approved and self._approved_by is not None:
            by = self._approved_by(ctx)
            answer = await self._desk.aio.run(_approve, self._desk, caller, approved[0], by)
        return answer.text


def _approve(desk: BoundToolset, caller: Caller, waiting: Approval, by: str) -> ToolAnswer:
    """Execute a call; if its effect has changed, reject it, so that the model calls again."""
    answer = approve(desk, caller, waiting, by, waiting.plan.token)
    if answer is not None:
        return answer
    again = waiting_calls(desk, caller, waiting.call_id)
    reject(desk, caller, again, by, "the rows have changed since it was planned")
    would = again[0].plan.summary if again else ""
    message = f"the rows have changed since the call was planned; call again: {would}"
    return ToolAnswer({"error": {"code": "plan_changed", "message": message}})
