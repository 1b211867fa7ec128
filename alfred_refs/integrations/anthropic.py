"""The tools for the tool runner of Anthropic's SDK.

    from anthropic import Anthropic
    from alfred_refs.integrations.anthropic import tools_of

    desk = toolset.bind(sessions, registry=registry)
    runner = Anthropic().beta.messages.tool_runner(
        model="claude-sonnet-4-5", max_tokens=1024, messages=messages,
        tools=tools_of(desk, "chat-7", user.id),
    )
    reply = runner.until_done()

A runner hands nothing of its run to a tool. So the tools are made for one conversation and its
owner: anew for each runner, which costs no query.

The runner gives a model the `repr()` of whatever a tool raises, and goes on. Here a mistake of
the model's is its JSON text with `is_error`; of anything else the model is told that the tool
failed, and no more. The application is told by the log, and by `on_failure`. The runner does the
calls of a turn one after the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, overload

from alfred_refs.integrations.adapters import needs

needs("anthropic", "2.12", extra="anthropic")

from anthropic.lib.tools import (
    BetaAsyncBuiltinFunctionTool,
    BetaBuiltinFunctionTool,
    ToolError,
)
from anthropic.types.beta import BetaToolUnionParam

from alfred_refs.errors import SetupError
from alfred_refs.integrations.adapters import Asker, asker_from
from alfred_refs.tools import BoundToolset, ToolAnswer

__all__ = ["tools_of"]

FAILED = "the tool failed, and not because of how it was called; do not call it again, say so"
"""What a model is told of a failure that is none of its own."""

OnFailure = Callable[[Exception], object]

_log = logging.getLogger(__name__)


@overload
def tools_of(
    desk: BoundToolset,
    conversation: str,
    owner: Any,
    *,
    is_async: Literal[False] = False,
    on_failure: OnFailure | None = None,
) -> list[BetaBuiltinFunctionTool]: ...


@overload
def tools_of(
    desk: BoundToolset,
    conversation: str,
    owner: Any,
    *,
    is_async: Literal[True],
    on_failure: OnFailure | None = None,
) -> list[BetaAsyncBuiltinFunctionTool]: ...


def tools_of(
    desk: BoundToolset,
    conversation: str,
    owner: Any,
    *,
    is_async: bool = False,
    on_failure: OnFailure | None = None,
) -> list[Any]:
    """Return the tools of a bound toolset, for a `tool_runner` in one conversation.

    Args:
        desk: the tools, with what makes their sessions.
        conversation: the id of the conversation that the runner is for.
        owner: on whose behalf it is held; `None` where the toolset has no `Ownership`.
        is_async: whether the client is an `AsyncAnthropic`, whose runner takes others.
        on_failure: is called with what a tool has raised, after it was logged.

    Raises:
        SetupError: the conversation is no text, an owner is missing or not expected, or the
            sessions are asynchronous and the client is not.

    Example:
        >>> import json
        >>> tools = tools_of(desk, "chat-7", None)
        >>> [tool.name for tool in tools]
        ['db_read', 'db_create', 'db_update', 'db_delete', 'db_edit_list']
        >>> json.loads(tools[0].call({"table": "recipes", "columns": ["name"]}))["rows"]
        [{'id': 'recipe_1', 'name': 'Soup'}, {'id': 'recipe_2', 'name': 'Toast'}]
    """
    asker = asker_from(lambda _: (conversation, owner), None)
    desk.conversation(*asker)  # what is wrong with it would not be told from inside of a tool
    if desk.is_async and not is_async:
        raise SetupError(
            "tools for an Anthropic client were asked of a toolset with asynchronous sessions",
            "use an AsyncAnthropic, and give is_async=True",
        )
    definitions = desk.schemas("anthropic")
    if is_async:
        return [_AsyncRefTool(each, desk, asker, on_failure) for each in definitions]
    return [_RefTool(each, desk, asker, on_failure) for each in definitions]


class _Calls:
    """What both kinds of tools do around a call."""

    def __init__(
        self,
        definition: dict[str, Any],
        desk: BoundToolset,
        asker: Asker,
        on_failure: OnFailure | None,
    ) -> None:
        self._definition: Any = definition
        self._desk = desk
        self._call = (*asker, definition["name"])
        self._on_failure = on_failure

    def to_dict(self) -> BetaToolUnionParam:
        """Return what the model's client is told of the tool."""
        definition: BetaToolUnionParam = self._definition
        return definition

    @contextmanager
    def _hide_errors(self) -> Iterator[None]:
        """Let out what the model is to be told, and nothing else: the runner would show it that.

        Raises:
            ToolError: the model made a mistake, or something failed.
        """
        try:
            yield
        except ToolError:
            raise
        except Exception as error:  # noqa: BLE001  # all that a program may raise
            self._tell(error)
            raise ToolError(FAILED) from None

    def _tell(self, error: Exception) -> None:
        name = self._definition["name"]
        _log.error("the tool %r failed", name, exc_info=error)
        try:
            if self._on_failure is not None:
                self._on_failure(error)
        except Exception:  # noqa: BLE001  # the runner would show that one
            _log.exception("on_failure failed, too, when it was told that the tool %r had", name)


class _RefTool(_Calls, BetaBuiltinFunctionTool):
    def call(self, input: object) -> str:  # noqa: A002  # the runner's word
        """Do what the model asks for."""
        with self._hide_errors():
            return _text_or_error(self._desk.call(*self._call, input))


class _AsyncRefTool(_Calls, BetaAsyncBuiltinFunctionTool):
    async def call(self, input: object) -> str:  # noqa: A002  # the runner's word
        """Do what the model asks for."""
        with self._hide_errors():
            return _text_or_error(await self._desk.call_async(*self._call, input))


def _text_or_error(answer: ToolAnswer) -> str:
    if answer.failed:
        raise ToolError(answer.text)
    return answer.text
