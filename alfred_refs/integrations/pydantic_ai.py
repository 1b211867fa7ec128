"""The tools as a toolset of pydantic-ai.

    from pydantic_ai import Agent
    from alfred_refs.integrations.pydantic_ai import RefToolset

    desk = toolset.bind(sessions, registry=registry)
    refs = RefToolset(desk, lambda ctx: (ctx.conversation_id, ctx.deps.user_id))
    agent = Agent("anthropic:claude-sonnet-4-5", deps_type=Deps, toolsets=[refs])
    await agent.run("What did I order?", deps=Deps(user.id), conversation_id="chat-7")

A mistake of the model's is the result of its call, marked as failed, and takes nothing of the
budget for retries. What is no mistake of the model's ends the run. Calls of one turn run side by
side, but for writes, which wait for those before them and hold up those after.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

from alfred_refs.integrations.adapters import needs

needs("pydantic-ai-slim", "2.60", extra="pydantic-ai")

from pydantic_ai import RunContext, ToolDefinition, ToolFailed
from pydantic_ai.messages import InstructionPart
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from alfred_refs.context import Context, Window
from alfred_refs.integrations.adapters import Whose, asker_from
from alfred_refs.tools import BoundToolset

__all__ = ["RefToolset"]


class RefToolset(AbstractToolset[AgentDepsT]):
    """The tools of a bound toolset, for agents of pydantic-ai.

    Args:
        desk: the tools, with what makes their sessions.
        whose: tells the conversation and the owner of a call from the context of the run. The
            `conversation_id` of the context is another in each run, unless the run is given one or
            the messages of the run before.
        window: how far back the agent's instructions tell of rows, as a run begins; without one
            they tell nothing.
        id: what tells the toolset from others of the same agent.

    Attributes:
        rows: what a run is told of them as it begins.

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
        id: str = "alfred_refs",  # noqa: A002  # as all toolsets call it
    ) -> None:
        self._desk = desk
        self._whose = whose
        self._window = window
        self._id = id
        self.rows: InstructionPart | None = None

    @property
    def id(self) -> str:
        """What tells it from other toolsets."""
        return self._id

    @cached_property
    def _definitions(self) -> Sequence[ToolDefinition]:
        return [
            ToolDefinition(
                name=each["name"],
                description=each["description"],
                parameters_json_schema=each["inputSchema"],
                # a schema that is made strict has no room for data, whose columns are the table's
                strict=False,
                sequential=not self._desk.reads(each["name"]),
                metadata=each["annotations"],
            )
            for each in self._desk.schemas("mcp")
        ]

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools: all of them in each step."""
        return {
            each.name: ToolsetTool(
                toolset=self,
                tool_def=each,
                max_retries=ctx.max_retries,
                args_validator=_AsGiven(),
            )
            for each in self._definitions
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],  # noqa: ARG002  # the name says which
    ) -> dict[str, Any]:
        """Do what the model asks for.

        Raises:
            ToolFailed: it made a mistake, and is told so.
        """
        conversation, owner = asker_from(self._whose, ctx)
        arguments = tool_args.text if isinstance(tool_args, _Unread) else tool_args
        answer = await self._desk.call_async(conversation, owner, name, arguments)
        if answer.failed:
            # the message has all that a model needs; as JSON it would be put into JSON once more
            raise ToolFailed(answer.value["error"]["message"])
        return answer.value

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> RefToolset[AgentDepsT]:
        """Return what a run works with, which tells of the rows that there are as it begins."""
        if self._window is None:
            return self
        chat = self._desk.conversation(*asker_from(self._whose, ctx))
        told = await Context(chat, self._window).aio.render()
        of_run = copy(self)
        of_run.rows = InstructionPart(told, name="rows", dynamic=True, on_change="append")
        return of_run

    async def get_instructions(
        self,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002  # `for_run` has looked at it
    ) -> InstructionPart | None:
        """Return what the conversation tells of its rows, where there is a window to look through.

        What has changed since the run before goes to the end of the messages, so that what stands
        before it stays cached.
        """
        return self.rows


class _Unread(dict[str, Any]):
    """No arguments, because their text is no JSON object: the tools say what is wrong with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class _AsGiven:
    """Takes arguments as they are: the tools check them, and word what is wrong."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:  # noqa: A002  # pydantic's word
        """Return an object of JSON, or the text of something else."""
        text = input if isinstance(input, str) else input.decode()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return _Unread(text)
        return value if isinstance(value, dict) else _Unread(text)

    def validate_python(self, input: Any, **_: Any) -> Any:  # noqa: A002  # pydantic's word
        """Return values as they are."""
        return input
