"""Shared by the adapters: framework versions, callers of tools, calls that wait.

An adapter calls `require` before it imports its framework, so that a missing or old package is
reported with the command that installs it:

>>> require("no-such-framework", "2.0", extra="openai-agents")
Traceback (most recent call last):
    ...
ImportError: no-such-framework 2.0 or newer is required, but none is installed; run `pip install
'alfred-refs[openai-agents]'`

The *caller* of a tool is the conversation that the call belongs to, the owner of its rows, and the
user who acts. The application passes each adapter a function, `whose`, that returns them from the
context object that the framework passes to tools. This object does not contain the model's
arguments, so no model can choose the owner of the rows that it sees.

>>> caller_of(lambda ctx: (ctx["chat"], ctx["user"]), {"chat": "chat-7", "user": 7})
Caller(conversation='chat-7', owner=7, user=None)

A call that needs a person waits at the toolset, under the framework's id of the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, TypeVar

from alfred_refs.errors import SetupError
from alfred_refs.tools import Approval, BoundToolset, ToolAnswer


def require(package: str, minimum: str, *, extra: str) -> None:
    """Check that a package is installed in a version that the adapter was tested with.

    Args:
        package: its name on PyPI.
        minimum: the oldest version.
        extra: the extra of alfred-refs that installs it.

    Raises:
        ImportError: the package is missing or too old.
    """
    try:
        installed = version(package)
    except PackageNotFoundError:
        installed = ""
    if _release(installed) < _release(minimum):
        raise ImportError(
            f"{package} {minimum} or newer is required, but {installed or 'none'} is installed; "
            f"run `pip install 'alfred-refs[{extra}]'`",
            name=package,
        )


def _release(version_: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (2, 60, 0) for 2.60.0rc1."""
    match = re.match(r"\d+(?:\.\d+)*", version_)
    return tuple(map(int, match[0].split("."))) if match else ()


class Caller(NamedTuple):
    """The conversation, owner and user of a call.

    Attributes:
        conversation: the id of the conversation.
        owner: its owner; `None` for a toolset without `Ownership`.
        user: the acting user; `None` if unknown.
    """

    conversation: str
    owner: Any
    user: Any = None


_ContextT = TypeVar("_ContextT")

Whose = Callable[[_ContextT], tuple[str, Any] | tuple[str, Any, Any]]
"""Returns the conversation, the owner and optionally the user from a framework's context."""

ApprovedBy = Callable[[_ContextT], str]
"""Returns the person who decided a call, from the context of the run with the decision."""


def caller_of(whose: Whose[_ContextT], context: _ContextT) -> Caller:
    """Call `whose` and check what it returns.

    Raises:
        SetupError: the result is not a tuple of a `str`, an owner, and optionally a user.
    """
    return check_caller(whose(context))


def check_caller(caller: object) -> Caller:
    """Check the result of a `whose` function; see `caller_of`."""
    if not isinstance(caller, tuple) or len(caller) not in (2, 3):
        raise SetupError(
            f"the function that returns the caller of a tool returned a {type(caller).__name__} "
            "that is not a pair",
            "return the conversation's id and its owner: (ctx.deps.chat_id, ctx.deps.user_id), "
            "or None for the owner where the toolset has no Ownership; who acts may be the third",
        )
    if not isinstance(caller[0], str):
        raise SetupError(
            "the function that returns the caller of a tool returned a conversation id of the "
            f"type {type(caller[0]).__name__!r}",
            "return its id as a str first, and the owner second",
        )
    return Caller(*caller)


# Calls that wait for a person


def waiting_calls(desk: BoundToolset, caller: Caller, call_id: str | None) -> list[Approval]:
    """Return the calls that wait under a framework's id, including those with edited arguments."""
    waiting = () if call_id is None else desk.approvals(caller.conversation, caller.owner)
    return [each for each in waiting if each.call_id == call_id]


def waiting_call(desk: BoundToolset, caller: Caller, call: int | None) -> Approval | None:
    """Return the waiting call with a number, or None."""
    waiting = () if call is None else desk.approvals(caller.conversation, caller.owner)
    return next((each for each in waiting if each.call == call), None)


def shown(waiting: Approval) -> dict[str, Any]:
    """Return a waiting call as JSON values, for the person who decides it."""
    return {
        "call": waiting.call,
        "tool": waiting.tool,
        "arguments": waiting.arguments,
        "plan": waiting.plan.text,
        "token": waiting.plan.token,
    }


def approve(
    desk: BoundToolset, caller: Caller, waiting: Approval, by: str, token: str | None
) -> ToolAnswer | None:
    """Execute a waiting call and return its answer, or None if it now waits with a new plan.

    A failed call stops waiting, and so do calls with the same id and other arguments.
    """
    conversation, owner, _ = caller
    answer = desk.approve(conversation, owner, waiting.call, by=by, plan=token)
    if answer.failed and answer.value["error"]["code"] == "plan_changed":
        return None
    others = waiting_calls(desk, caller, waiting.call_id)
    reject(desk, caller, others, by, "it could not be done")
    return answer


def reject(
    desk: BoundToolset, caller: Caller, waiting: Iterable[Approval], by: str, reason: str | None
) -> None:
    """Reject waiting calls."""
    for each in waiting:
        desk.reject(caller.conversation, caller.owner, each.call, by=by, reason=reason)
