"""The tools for agents of LangChain and LangGraph.

    from langchain.agents import create_agent
    from alfred_refs.integrations.langchain import tools_of

    desk = toolset.bind(sessions, registry=registry)
    tools = tools_of(desk, lambda runtime: (runtime.context.chat_id, runtime.context.user_id))
    agent = create_agent("anthropic:claude-sonnet-4-5", tools, context_schema=Visit)
    agent.invoke({"messages": [...]}, context=Visit("chat-7", user.id))

What goes to the model is JSON text; a mistake of its own has the status "error". The answer as a
dict is the message's `artifact`, which no model sees. What is no mistake of the model's ends the
run. With synchronous sessions agents may be invoked and awaited, with asynchronous ones awaited.

Calls of one turn run side by side. Those that write in one conversation follow each other: in the
model's order where an agent is awaited, in any order where it is invoked, because LangGraph starts
a thread for each. `agent.with_config(max_concurrency=1)` makes the calls of a turn in order there.
"""

from __future__ import annotations

from typing import Any

from alfred_refs.integrations.adapters import needs

needs("langchain", "1.4", extra="langchain")

from langchain.messages import ToolMessage
from langchain.tools import BaseTool, ToolRuntime
from langchain_core.tools import StructuredTool

from alfred_refs.errors import SetupError
from alfred_refs.integrations.adapters import Whose, asker_from
from alfred_refs.tools import BoundToolset, ToolAnswer

__all__ = ["tools_of"]


def tools_of(desk: BoundToolset, whose: Whose[ToolRuntime[Any, Any]]) -> list[BaseTool]:
    """Return the tools of a bound toolset, for `create_agent` or a `ToolNode`.

    Args:
        desk: the tools, with what makes their sessions.
        whose: tells the conversation and the owner of a call from the runtime of the agent.

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

    # LangGraph finds by the annotation which parameter is to have the runtime
    def call(agent_runtime: ToolRuntime[Any, Any], arguments: dict[str, Any]) -> ToolMessage:
        conversation, owner = asker_from(whose, agent_runtime)
        return message(agent_runtime, desk.call(conversation, owner, name, arguments))

    async def acall(
        agent_runtime: ToolRuntime[Any, Any], arguments: dict[str, Any]
    ) -> ToolMessage:
        conversation, owner = asker_from(whose, agent_runtime)
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
    """Hands on what a model gave as one value: as keywords it could name parameters of others."""

    def _to_args_and_kwargs(
        self,
        tool_input: str | dict[str, Any],
        tool_call_id: str | None,  # noqa: ARG002  # the runtime has it
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = dict(tool_input) if isinstance(tool_input, dict) else {}
        runtime = arguments.pop("agent_runtime", None)
        if not isinstance(runtime, ToolRuntime):
            raise SetupError(
                f"the tool {self.name!r} was called outside of an agent",
                "call it by create_agent or a ToolNode, which say whose the call is",
            )
        return (runtime, arguments), {}
