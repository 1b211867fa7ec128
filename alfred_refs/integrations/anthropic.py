"""Tools for the tool runner of Anthropic's SDK.

    from anthropic import Anthropic
    from alfred_refs.integrations.anthropic import tools_of

    desk = toolset.bind(sessions, registry=registry)
    runner = Anthropic().beta.messages.tool_runner(
        model="claude-sonnet-4-5", max_tokens=1024, messages=messages,
        tools=tools_of(desk, "chat-7", user.id),
    )
    reply = runner.until_done()

>>> import json
>>> tools = tools_of(desk, "chat-7", None)
>>> json.loads(tools[0].call({"table": "recipes", "columns": ["name"], "limit": 1}))["rows"]
[{'id': 'recipe_1', 'name': 'Soup'}]

A runner passes no context to its tools. So make tools for one conversation and its owner, for each
runner; that sends no query.

The runner shows the model the `repr()` of any exception and goes on. These tools raise a
`ToolError` with the answer as JSON text for a mistake of the model. Any other exception is
replaced by a fixed text, because it may contain keys; the application gets it from the log and by
`on_failure`. The runner executes the calls of one turn one after the other.

A call that needs a person (`Toolset(consent=...)`) returns a pending answer and waits at the desk:
the conversation continues, and the application passes the answer of `desk.approve` or
`desk.reject` in a later message. The runner does not pass the id of a `tool_use` to its tools, so
a repeated call in other messages is another call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, overload

from alfred_refs.integrations.adapters import require

require("anthropic", "2.12", extra="anthropic")

from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool, ToolError
from anthropic.types.beta import BetaToolUnionParam

from alfred_refs.errors import SetupError
from alfred_refs.integrations.adapters import Caller, caller_of
from alfred_refs.tools import BoundToolset, ToolAnswer

__all__ = ["tools_of"]

FAILED = "the tool failed, and not because of how it was called; do not call it again, say so"
"""The text that replaces an exception that is not the model's mistake."""

OnFailure = Callable[[Exception], object]

_log = logging.getLogger(__name__)


@overload
def tools_of(
    desk: BoundToolset,
    conversation: str,
    owner: Any,
    *,
    is_async: Literal[False] = False,
    user: Any = None,
    on_failure: OnFailure | None = None,
) -> list[BetaBuiltinFunctionTool]: ...


@overload
def tools_of(
    desk: BoundToolset,
    conversation: str,
    owner: Any,
    *,
    is_async: Literal[True],
    user: Any = None,
    on_failure: OnFailure | None = None,
) -> list[BetaAsyncBuiltinFunctionTool]: ...


def tools_of(
    desk: BoundToolset,
    conversation: str,
    owner: Any,
    *,
    is_async: bool = False,
    user: Any = None,
    on_failure: OnFailure | None = None,
) -> list[Any]:
    """Return the tools of a bound toolset, for a `tool_runner` in one conversation.

    Args:
        desk: the bound toolset.
        conversation: the id of the runner's conversation.
        owner: the owner of the conversation; `None` for a toolset without `Ownership`.
        is_async: whether the client is an `AsyncAnthropic`, which needs other tools.
        user: the acting user, if different from the owner.
        on_failure: called with each exception that is not the model's mistake, after logging.

    Raises:
        SetupError: the conversation is not a str, an owner is missing or not expected, or the
            sessions are asynchronous and the client is not.

    Example:
        >>> import json
        >>> tools = tools_of(desk, "chat-7", None)
        >>> [tool.name for tool in tools]
        ['db_read', 'db_create', 'db_update', 'db_delete', 'db_edit_list']
        >>> json.loads(tools[0].call({"table": "recipes", "columns": ["name"]}))["rows"]
        [{'id': 'recipe_1', 'name': 'Soup'}, {'id': 'recipe_2', 'name': 'Toast'}]
    """
    caller = caller_of(lambda _: (conversation, owner, user), None)
    desk.conversation(conversation, owner)  # raises here, because errors in tool calls are hidden
    if desk.is_async and not is_async:
        raise SetupError(
            "tools for a synchronous Anthropic client were requested with asynchronous sessions",
            "use an AsyncAnthropic, and pass is_async=True",
        )
    definitions = desk.schemas("anthropic")
    if is_async:
        return [_AsyncRefTool(each, desk, caller, on_failure) for each in definitions]
    return [_RefTool(each, desk, caller, on_failure) for each in definitions]


class _Tool:
    """The common base of the runner's two kinds of tools."""

    def __init__(
        self,
        definition: dict[str, Any],
        desk: BoundToolset,
        caller: Caller,
        on_failure: OnFailure | None,
    ) -> None:
        self._definition: Any = definition
        self._desk = desk
        self._call = (caller.conversation, caller.owner, definition["name"])
        self._user = caller.user
        self._on_failure = on_failure

    def to_dict(self) -> BetaToolUnionParam:
        """Return the definition that the client sends."""
        definition: BetaToolUnionParam = self._definition
        return definition

    @contextmanager
    def _hide_errors(self) -> Iterator[None]:
        """Replace exceptions that a model must not see by a `ToolError` with a fixed text."""
        try:
            yield
        except ToolError:
            raise
        except Exception as error:  # noqa: BLE001  # the runner would show it
            self._report(error)
            raise ToolError(FAILED) from None

    def _report(self, error: Exception) -> None:
        name = self._definition["name"]
        _log.error("the tool %r failed", name, exc_info=error)
        try:
            if self._on_failure is not None:
                self._on_failure(error)
        except Exception:  # noqa: BLE001  # the runner would show it
            _log.exception("on_failure raised an exception for the tool %r", name)


class _RefTool(_Tool, BetaBuiltinFunctionTool):
    def call(self, input: object) -> str:  # noqa: A002  # the name in the base class
        """Call the tool and return the answer as JSON text."""
        with self._hide_errors():
            return _text_or_error(self._desk.call(*self._call, input, user=self._user))


class _AsyncRefTool(_Tool, BetaAsyncBuiltinFunctionTool):
    async def call(self, input: object) -> str:  # noqa: A002  # the name in the base class
        """Call the tool and return the answer as JSON text."""
        with self._hide_errors():
            return _text_or_error(await self._desk.call_async(*self._call, input, user=self._user))


def _text_or_error(answer: ToolAnswer) -> str:
    if answer.failed:
        raise ToolError(answer.text)
    return answer.text
