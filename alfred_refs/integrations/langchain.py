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
`artifact` of the message, which is hidden from models, is the answer as a dict. Any other
exception ends the run. Agents with synchronous sessions may be invoked or awaited, those with
asynchronous ones only awaited.

LangGraph runs the calls of one turn concurrently; writes in one conversation wait for each other.
They run in the model's order with `ainvoke`. With `invoke`, each call has a thread and the order
is undefined; `agent.with_config(max_concurrency=1)` restores it.

A call that needs a person (`Toolset(consent=...)`) returns a pending answer and waits at the desk.
With `approved_by` it interrupts the agent, which needs a checkpointer, and the agent is resumed
with the decision:

    state = agent.invoke(question, thread)
    [asked] = state["__interrupt__"]     # asked.value: {"call": 3, "plan": ..., "token": ...}
    decision = {"type": "approve", "token": asked.value["token"]}
    agent.invoke(Command(resume={asked.id: decision}), thread)

`{"type": "reject", "message": ...}` rejects it. An approved call is executed once, and only if its
effect equals the plan with the token; otherwise the new plan is the next interrupt.
"""

from __future__ import annotations

from typing import Any

from alfred_refs.integrations.adapters import require

require("langchain", "1.4", extra="langchain")

from langchain.messages import ToolMessage
from langchain.tools import BaseTool, ToolRuntime
from langchain_core.tools import StructuredTool
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from alfred_refs.errors import SetupError
from alfred_refs.integrations.adapters import (
    ApprovedBy,
    Caller,
    Whose,
    approve,
    caller_of,
    reject,
    shown,
    waiting_call,
)
from alfred_refs.tools import BoundToolset, ToolAnswer

__all__ = ["tools_of"]


_Runtime = ToolRuntime[Any, Any]


def tools_of(
    desk: BoundToolset,
    whose: Whose[_Runtime],
    *,
    approved_by: ApprovedBy[_Runtime] | None = None,
) -> list[BaseTool]:
    """Return the tools of a bound toolset, for `create_agent` or a `ToolNode`.

    Args:
        desk: the bound toolset.
        whose: returns the conversation and the owner of a call, and optionally the acting user,
            from the runtime of the agent.
        approved_by: returns the person who decided the calls, from the runtime of the resumed
            agent. With it, calls that need a person interrupt the agent.

    Example:
        >>> tools = tools_of(desk, lambda runtime: (runtime.context.chat_id, None))
        >>> [tool.name for tool in tools]
        ['db_read', 'db_create', 'db_update', 'db_delete', 'db_edit_list']
    """
    return [_tool(desk, whose, approved_by, each) for each in desk.schemas("mcp")]


def _tool(
    desk: BoundToolset,
    whose: Whose[_Runtime],
    approved_by: ApprovedBy[_Runtime] | None,
    definition: dict[str, Any],
) -> BaseTool:
    name = definition["name"]

    # LangGraph injects the runtime into the parameter that is annotated with its type
    def call(agent_runtime: ToolRuntime[Any, Any], arguments: dict[str, Any]) -> ToolMessage:
        caller = caller_of(whose, agent_runtime)
        answer = desk.call(
            *(caller.conversation, caller.owner, name, arguments),
            user=caller.user,
            call_id=agent_runtime.tool_call_id,
        )
        if answer.pending is not None and approved_by is not None:
            answer = _wait(desk, caller, answer.pending, approved_by, agent_runtime)
        return message(agent_runtime, answer)

    async def acall(
        agent_runtime: ToolRuntime[Any, Any], arguments: dict[str, Any]
    ) -> ToolMessage:
        caller = caller_of(whose, agent_runtime)
        answer = await desk.call_async(
            *(caller.conversation, caller.owner, name, arguments),
            user=caller.user,
            call_id=agent_runtime.tool_call_id,
        )
        if answer.pending is not None and approved_by is not None:
            given = (desk, caller, answer.pending, approved_by, agent_runtime)
            answer = await desk.aio.run(_wait, *given)
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


def _wait(
    desk: BoundToolset,
    caller: Caller,
    call: int,
    approved_by: ApprovedBy[_Runtime],
    runtime: _Runtime,
) -> ToolAnswer:
    """Interrupt the agent until a person has decided a call, and return its answer.

    When the agent is resumed, LangGraph calls the tool again, and each interrupt returns its
    decision in turn. A value that is none is kept, too, so the next one is asked for after it.

    Raises:
        SetupError: the agent was resumed with a value that is not a decision.
    """
    wrong: SetupError | None = None
    while waiting := waiting_call(desk, caller, call):
        try:
            decision, answer = interrupt(shown(waiting)), None
        except GraphInterrupt:
            if wrong is not None:
                raise wrong from None
            raise
        wrong = None
        match decision:
            case {"type": "approve", "token": str(token)}:
                answer = approve(desk, caller, waiting, approved_by(runtime), token)
            case {"type": "reject"} if isinstance(decision.get("message"), str | None):
                reason = decision.get("message")
                reject(desk, caller, [waiting], approved_by(runtime), reason)
            case _:
                wrong = SetupError(
                    f"the agent was resumed with {decision!r} for a call that waits for a person",
                    'give {"type": "approve", "token": ...}, with the token of the interrupt, '
                    'or {"type": "reject", "message": ...}',
                )
        if answer is not None:
            return answer
    return desk.answer(caller.conversation, caller.owner, call)


class _RefTool(StructuredTool):
    """Passes the model's arguments as one dict, because keywords could override the runtime."""

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
