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
"""

from __future__ import annotations

from typing import Any

from alfred_refs.integrations.adapters import require

require("openai-agents", "0.24", extra="openai-agents")

from agents import FunctionTool
from agents.tool_context import ToolContext

from alfred_refs.integrations.adapters import Whose, caller_of
from alfred_refs.tools import BoundToolset

__all__ = ["tools_of"]


def tools_of(desk: BoundToolset, whose: Whose[ToolContext[Any]]) -> list[FunctionTool]:
    """Return the tools of a bound toolset, for `Agent(tools=...)`.

    Args:
        desk: the bound toolset.
        whose: returns the conversation and the owner of a call from the context of the run.

    Example:
        >>> tools = tools_of(desk, lambda ctx: (ctx.context.chat_id, None))
        >>> [tool.name for tool in tools]
        ['db_read', 'db_create', 'db_update', 'db_delete', 'db_edit_list']
    """
    return [_tool(desk, whose, each) for each in desk.schemas("mcp")]


def _tool(
    desk: BoundToolset, whose: Whose[ToolContext[Any]], definition: dict[str, Any]
) -> FunctionTool:
    name = definition["name"]

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        conversation, owner = caller_of(whose, ctx)
        return (await desk.call_async(conversation, owner, name, arguments)).text

    return FunctionTool(
        name=name,
        description=definition["description"],
        params_json_schema=definition["inputSchema"],
        on_invoke_tool=invoke,
        # strict mode forbids open objects, but the keys of `data` are the columns of the table
        strict_json_schema=False,
    )
