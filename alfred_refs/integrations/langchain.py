"""Tools for agents of LangChain and LangGraph.

    from langchain.agents import create_agent
    from alfred_refs.integrations.langchain import tools_of

    desk = toolset.bind(sessions, registry=registry)
    tools = tools_of(desk, lambda runtime: (runtime.context.chat_id, runtime.context.user_id))
    agent = create_agent("anthropic:claude-sonnet-4-5", tools, context_schema=Visit)
    agent.invoke({"messages": [...]}, context=Visit("chat-7", user.id))

>>> [tool.name for tool in tools_of(desk, lambda runtime: (runtime.context.chat_id, None))][:2]
['db_read', 'db_create']

The model gets the answer as JSON text, with the status "error" if it made a mistake. The
`artifact` of the message, which models do not see, is the answer as a dict. Any other exception
ends the run. Agents with synchronous sessions may be invoked or awaited, those with asynchronous
ones only awaited.

LangGraph runs the calls of one turn concurrently; writes in one conversation wait for each other.
They run in the model's order if the agent is awaited. If it is invoked, each call has a thread and
the order is undefined; `agent.with_config(max_concurrency=1)` restores it.
"""

from __future__ import annotations

from typing import Any

from alfred_refs.integrations.adapters import require

require("langchain", "1.4", extra="langchain")

from langchain.messages import ToolMessage
from langchain.tools import BaseTool, ToolRuntime
from langchain_core.tools import StructuredTool

from alfred_refs.errors import SetupError
from alfred_refs.integrations.adapters import Whose, caller_of
from alfred_refs.tools import BoundToolset, ToolAnswer

__all__ = ["tools_of"]


def tools_of(desk: BoundToolset, whose: Whose[ToolRuntime[Any, Any]]) -> list[BaseTool]:
    """Return the tools of a bound toolset, for `create_agent` or a `ToolNode`.

    Args:
        desk: the bound toolset.
        whose: returns the conversation and the owner of a call from the runtime of the agent.

    Example:
        >>> tools = tools_of(desk, lambda runtime: (runtime.context.chat_id, None))
        >>> [tool.name for tool in tools]
        ['db_read', 'db_create', 'db_update', 'db_delete', 'db_edit_list']
    """
    return [_tool(desk, whose, each) for each in desk.schemas("mcp")]


def _tool(
    desk: BoundToolset, whose: Whose[ToolRuntime[Any, Any]], definition: dict[str, Any]
) -> BaseTool:
    name = definition["name"]

    # LangGraph injects the runtime into the parameter that is annotated with its type
    def call(agent_runtime: ToolRuntime[Any, Any], arguments: dict[str, Any]) -> ToolMessage:
        conversation, owner = caller_of(whose, agent_runtime)
        return message(agent_runtime, desk.call(conversation, owner, name, arguments))

    async def acall(
        agent_runtime: ToolRuntime[Any, Any], arguments: dict[str, Any]
    ) -> ToolMessage:
        conversation, owner = caller_of(whose, agent_runtime)
        answer = await desk.call_async(conversation, owner, name, arguments)
        return message(agent_runtime, answer)

    def message(runtime: ToolRuntime[Any, Any], answer: ToolAnswer) -> ToolMessage:
        return ToolMessage(
            answer.text,
            tool_call_id=runtime.tool_call_id,
            name=name,
            status="error" if answer.failed else "success",
            artifact=answer.value,
        )

    return _RefTool(
        name=name,
        description=definition["description"],
        args_schema=definition["inputSchema"],
        func=None if desk.is_async else call,
        coroutine=acall,
    )


class _RefTool(StructuredTool):
    """Passes the model's arguments as one dict: as keywords they could override the runtime."""

    def _to_args_and_kwargs(
        self,
        tool_input: str | dict[str, Any],
        tool_call_id: str | None,  # noqa: ARG002  # the runtime has it
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = dict(tool_input) if isinstance(tool_input, dict) else {}
        runtime = arguments.pop("agent_runtime", None)
        if not isinstance(runtime, ToolRuntime):
            raise SetupError(
                f"the tool {self.name!r} was called outside an agent",
                "call it by create_agent or a ToolNode, which pass the runtime",
            )
        return (runtime, arguments), {}
