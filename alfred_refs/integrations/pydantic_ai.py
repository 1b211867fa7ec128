"""A toolset for agents of pydantic-ai.

    from pydantic_ai import Agent
    from alfred_refs.integrations.pydantic_ai import RefToolset

    desk = toolset.bind(sessions, registry=registry)
    refs = RefToolset(desk, lambda ctx: (ctx.conversation_id, ctx.deps.user_id))
    agent = Agent("anthropic:claude-sonnet-4-5", deps_type=Deps, toolsets=[refs])
    await agent.run("What did I order?", deps=Deps(user.id), conversation_id="chat-7")

>>> import asyncio
>>> from pydantic_ai import Agent
>>> from pydantic_ai.models.test import TestModel
>>> refs = RefToolset(desk, lambda ctx: (ctx.conversation_id, None), window=Window())
>>> agent = Agent(TestModel(call_tools=["db_read"]), toolsets=[refs])
>>> "recipe_1" in asyncio.run(agent.run("Hello", conversation_id="chat-7")).output
True

A mistake of the model is returned as a failed result of the call; it does not count as a retry.
Any other exception ends the run. The framework runs the calls of one turn concurrently, except
writes, which wait for the calls before them and delay those after them.

A call that needs a person (`Toolset(consent=...)`) returns a pending answer and waits at the desk.
With `approved_by` it ends the run, if the run's `output_type` has `DeferredToolRequests`: the plan
is in the `metadata` of the requests, and the next run receives the person's decision:

    run = await agent.run(..., output_type=[str, DeferredToolRequests])
    asked = run.output.metadata["call_1"]    # {"call": 3, "plan": "Delete 1 order. ...", ...}
    results = run.output.build_results(approve_all=True, metadata=run.output.metadata)
    await agent.run(message_history=run.all_messages(), deferred_tool_results=results, ...)

An approved call is executed once, even if several runs receive the decision, and only if its
effect equals its plan. With the metadata this is the plan that was shown, otherwise the plan at
the desk. If rows have changed, or the person has edited arguments, the new plan needs approval. A
`ToolDenied` also rejects the call at the desk.

With a `window`, the agent's instructions contain the rows of the conversation. They are read once,
when a run begins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

from alfred_refs.integrations.adapters import require

require("pydantic-ai-slim", "2.60", extra="pydantic-ai")

from pydantic_ai import ApprovalRequired, RunContext, ToolDefinition, ToolFailed
from pydantic_ai.messages import InstructionPart, ModelRequest, ToolReturnPart
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from alfred_refs.context import Context, Window
from alfred_refs.integrations.adapters import (
    ApprovedBy,
    Caller,
    Whose,
    approve,
    caller_of,
    reject,
    shown,
    waiting_call,
    waiting_calls,
)
from alfred_refs.tools import BoundToolset, ToolAnswer

__all__ = ["RefToolset"]


class RefToolset(AbstractToolset[AgentDepsT]):
    """The tools of a bound toolset, for agents of pydantic-ai.

    Args:
        desk: the bound toolset.
        whose: returns the conversation and the owner of a call, and optionally the acting user,
            from the context of the run. The context has a new `conversation_id` in each run,
            unless the run receives one, or the messages of the previous run.
        window: selects the rows in the agent's instructions when a run begins; by default, no
            rows.
        approved_by: returns the person who decided the calls of a run, from its context. With it,
            calls that need a person end the run with `DeferredToolRequests`, which its
            `output_type` must have.
        id: distinguishes the toolset from others of the same agent.

    Attributes:
        rows: the instructions of one run.

    Example:
        >>> import asyncio
        >>> from pydantic_ai import Agent
        >>> from pydantic_ai.models.test import TestModel
        >>> refs = RefToolset(desk, lambda ctx: (ctx.conversation_id, None))
        >>> agent = Agent(TestModel(call_tools=["db_read"]), toolsets=[refs])
        >>> run = agent.run("What is for dinner?", conversation_id="chat-7")
        >>> "recipe_1" in asyncio.run(run).output
        True
    """

    def __init__(
        self,
        desk: BoundToolset,
        whose: Whose[RunContext[AgentDepsT]],
        *,
        window: Window | None = None,
        approved_by: ApprovedBy[RunContext[AgentDepsT]] | None = None,
        id: str = "alfred_refs",  # noqa: A002  # the name in the base class
    ) -> None:
        self._desk = desk
        self._whose = whose
        self._window = window
        self._approved_by = approved_by
        self._id = id
        self.rows: InstructionPart | None = None
        self._is_decided = False  # a person has decided a call since the rows were read

    @property
    def id(self) -> str:
        """Distinguishes the toolset from others of the same agent."""
        return self._id

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> RefToolset[AgentDepsT]:
        """Return a copy for one run, with the rows of its instructions if there is a window."""
        if self._window is None:
            return self
        of_run = copy(self)
        of_run.rows = await self._read_rows(ctx)
        return of_run

    async def _read_rows(self, ctx: RunContext[AgentDepsT]) -> InstructionPart:
        """Return the rows of the conversation as they are now."""
        chat = self._desk.conversation(*caller_of(self._whose, ctx)[:2])
        text = await Context(chat, self._window).aio.render()
        return InstructionPart(text, name="rows", dynamic=True, on_change="append")

    async def get_instructions(self, ctx: RunContext[AgentDepsT]) -> InstructionPart | None:
        """Return the rows of the conversation as text, or None without a window.

        Changes since the previous run are appended to the messages, so that the prompt before them
        stays in the provider's cache. The rows are read once in a run, and again after a decision.
        """
        if self._is_decided and self.rows is not None:
            self.rows, self._is_decided = await self._read_rows(ctx), False
        return self.rows

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return all tools, in each step, after rejecting calls that a person has denied."""
        await self._reject_denied(ctx)
        return {
            each.name: ToolsetTool(
                toolset=self,
                tool_def=each,
                max_retries=ctx.max_retries,
                args_validator=_Unvalidated(),
            )
            for each in self._definitions
        }

    @cached_property
    def _definitions(self) -> Sequence[ToolDefinition]:
        return [
            ToolDefinition(
                name=each["name"],
                description=each["description"],
                parameters_json_schema=each["inputSchema"],
                # strict mode forbids open objects, but the keys of `data` are columns
                strict=False,
                sequential=not self._desk.reads(each["name"]),
                metadata=each["annotations"],
            )
            for each in self._desk.schemas("mcp")
        ]

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],  # noqa: ARG002  # `name` is enough
    ) -> dict[str, Any]:
        """Call a tool and return its answer.

        Raises:
            ToolFailed: the model made a mistake; the message is for the model.
        """
        caller = caller_of(self._whose, ctx)
        conversation, owner, user = caller
        arguments = tool_args.text if isinstance(tool_args, _InvalidArguments) else tool_args
        answer = await self._desk.call_async(
            *(conversation, owner, name, arguments), user=user, call_id=ctx.tool_call_id
        )
        if answer.pending is not None and self._approved_by is not None:
            decide = self._approve_or_ask
            answer = await self._desk.aio.run(decide, caller, answer, ctx, self._approved_by)
            self._is_decided = True
        elif ctx.tool_call_approved:
            # edited arguments were refused, or need no person: nothing else decides the first call
            reason = "other arguments were approved in its place"
            await self._reject_waiting(ctx, ctx.tool_call_id, reason)
        if answer.failed:
            # the message contains everything a model needs; JSON would be quoted twice
            raise ToolFailed(answer.value["error"]["message"])
        return answer.value

    def _approve_or_ask(
        self,
        caller: Caller,
        answer: ToolAnswer,
        ctx: RunContext[AgentDepsT],
        approved_by: ApprovedBy[RunContext[AgentDepsT]],
    ) -> ToolAnswer:
        """Return the answer of a waiting call, if the run has a person's approval of its plan.

        Raises:
            ApprovalRequired: the run has no approval, or the plan has changed.
        """
        known = ctx.tool_call_metadata or {}
        waiting = waiting_call(self._desk, caller, answer.pending)
        if waiting is not None and ctx.tool_call_approved:
            # the person has seen the plan of edited arguments only if it is in the metadata
            if known["call"] == waiting.call if "call" in known else not waiting.is_edited:
                by, token = approved_by(ctx), known.get("token")
                done = approve(self._desk, caller, waiting, by, token)
                if done is not None:
                    return done
            waiting = waiting_call(self._desk, caller, waiting.call)
        if waiting is None:  # it was decided at the desk
            return self._desk.answer(caller.conversation, caller.owner, answer.pending or 0)
        raise ApprovalRequired(shown(waiting))

    async def _reject_denied(self, ctx: RunContext[AgentDepsT]) -> None:
        """Reject the calls at the desk that are denied in the last request of the run."""
        if self._approved_by is None or not ctx.messages:
            return
        last = ctx.messages[-1]
        if not isinstance(last, ModelRequest):
            return
        for part in last.parts:
            if isinstance(part, ToolReturnPart) and part.outcome == "denied":
                await self._reject_waiting(ctx, part.tool_call_id, part.model_response_str())

    async def _reject_waiting(
        self, ctx: RunContext[AgentDepsT], call_id: str | None, reason: str
    ) -> None:
        """Reject the calls that wait under a framework's id; none without `approved_by`."""
        if self._approved_by is None:
            return
        caller = caller_of(self._whose, ctx)
        waiting = await self._desk.aio.run(waiting_calls, self._desk, caller, call_id)
        if waiting:
            by = self._approved_by(ctx)
            await self._desk.aio.run(reject, self._desk, caller, waiting, by, reason)
            self._is_decided = True


class _InvalidArguments(dict[str, Any]):
    """An empty dict in place of arguments that are not a JSON object.

    The framework requires a dict here; the toolset gets the text and returns the error.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class _Unvalidated:
    """An `args_validator` that accepts everything, because the tools validate arguments."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:  # noqa: A002  # pydantic's name
        """Parse a JSON object; keep anything else as text."""
        text = input if isinstance(input, str) else input.decode()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return _InvalidArguments(text)
        return value if isinstance(value, dict) else _InvalidArguments(text)

    def validate_python(self, input: Any, **_: Any) -> Any:  # noqa: A002  # pydantic's name
        """Return the arguments unchanged."""
        return input
