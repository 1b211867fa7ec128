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

A mistake of the model is the result of its call, marked as failed; it does not count as a retry.
Any other exception ends the run. The framework runs the calls of one turn concurrently, except
writes, which wait for the calls before them and delay those after them.

With a `window`, the agent's instructions contain the rows that the conversation is about. They are
read once, when a run begins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

from alfred_refs.integrations.adapters import require

require("pydantic-ai-slim", "2.60", extra="pydantic-ai")

from pydantic_ai import RunContext, ToolDefinition, ToolFailed
from pydantic_ai.messages import InstructionPart
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from alfred_refs.context import Context, Window
from alfred_refs.integrations.adapters import Whose, caller_of
from alfred_refs.tools import BoundToolset

__all__ = ["RefToolset"]


class RefToolset(AbstractToolset[AgentDepsT]):
    """The tools of a bound toolset, for agents of pydantic-ai.

    Args:
        desk: the bound toolset.
        whose: returns the conversation and the owner of a call from the context of the run. The
            context has a new `conversation_id` in each run, unless the run is given one or the
            messages of the previous run.
        window: which rows the agent's instructions show when a run begins; none without it.
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
        id: str = "alfred_refs",  # noqa: A002  # the name in the base class
    ) -> None:
        self._desk = desk
        self._whose = whose
        self._window = window
        self._id = id
        self.rows: InstructionPart | None = None

    @property
    def id(self) -> str:
        """Distinguishes the toolset from others of the same agent."""
        return self._id

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> RefToolset[AgentDepsT]:
        """Return a copy for one run, with the rows of its instructions if there is a window."""
        if self._window is None:
            return self
        chat = self._desk.conversation(*caller_of(self._whose, ctx))
        text = await Context(chat, self._window).aio.render()
        of_run = copy(self)
        of_run.rows = InstructionPart(text, name="rows", dynamic=True, on_change="append")
        return of_run

    async def get_instructions(
        self,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002  # `for_run` used it
    ) -> InstructionPart | None:
        """Return the rows that the conversation is about, or None without a window.

        Changes since the previous run are appended to the messages, so that the prompt before them
        stays in the provider's cache.
        """
        return self.rows

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return all tools, in each step."""
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
        conversation, owner = caller_of(self._whose, ctx)
        arguments = tool_args.text if isinstance(tool_args, _InvalidArguments) else tool_args
        answer = await self._desk.call_async(conversation, owner, name, arguments)
        if answer.failed:
            # the message has all that a model needs; as JSON it would be quoted twice
            raise ToolFailed(answer.value["error"]["message"])
        return answer.value


class _InvalidArguments(dict[str, Any]):
    """An empty dict in place of arguments that are not a JSON object.

    The framework requires a dict here; the toolset gets the text and explains what is wrong.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class _Unvalidated:
    """An `args_validator` that accepts everything: the tools validate and word the errors."""

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
