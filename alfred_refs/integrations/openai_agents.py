"""The tools for agents of the OpenAI Agents SDK.

    from agents import Agent, Runner
    from alfred_refs.integrations.openai_agents import tools_of

    desk = toolset.bind(sessions, registry=registry)
    tools = tools_of(desk, lambda ctx: (ctx.context.chat_id, ctx.context.user_id))
    agent = Agent[Visit](name="shop", tools=tools)
    await Runner.run(agent, "What did I order?", context=Visit("chat-7", user.id))

What goes to the model is JSON text, mistakes of its own too. What is no mistake of the model's
ends the run. Calls of one turn run side by side; those that write in one conversation follow each
other.
"""

from __future__ import annotations

from typing import Any

from alfred_refs.integrations.adapters import needs

needs("openai-agents", "0.24", extra="openai-agents")

from agents import FunctionTool
from agents.tool_context import ToolContext

from alfred_refs.integrations.adapters import Whose, asker_from
from alfred_refs.tools import BoundToolset

__all__ = ["tools_of"]


def tools_of(desk: BoundToolset, whose: Whose[ToolContext[Any]]) -> list[FunctionTool]:
    """Return the tools of a bound toolset, for `Agent(tools=...)`.

    Args:
        desk: the tools, with what makes their sessions.
        whose: tells the conversation and the owner of a call from the context of the run.

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
        conversation, owner = asker_from(whose, ctx)
        return (await desk.call_async(conversation, owner, name, arguments)).text

    return FunctionTool(
        name=name,
        description=definition["description"],
        params_json_schema=definition["inputSchema"],
        on_invoke_tool=invoke,
        # a schema that is made strict has no room for data, whose columns are the table's
        strict_json_schema=False,
    )
