"""Shared by the adapters: the check of a framework's version, and the caller of a tool.

An adapter calls `require` before it imports its framework, so that a missing or old package is
reported with the command that installs it:

>>> require("no-such-framework", "2.0", extra="openai-agents")
Traceback (most recent call last):
    ...
ImportError: no-such-framework 2.0 or newer is required, but none is installed; run `pip install
'alfred-refs[openai-agents]'`

The *caller* of a tool is the conversation that the call belongs to and the owner of its rows. The
application passes each adapter a function, `whose`, that returns both from the context object
that the framework passes to tools. The arguments of a model are not in it, so no model can choose
whose rows it sees.

>>> caller_of(lambda ctx: (ctx["chat"], ctx["user"]), {"chat": "chat-7", "user": 7})
('chat-7', 7)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from alfred_refs.errors import SetupError


def require(package: str, minimum: str, *, extra: str) -> None:
    """Check that a package is installed in a version that the adapter was tested with.

    Args:
        package: its name on PyPI.
        minimum: the oldest version.
        extra: the extra of alfred-refs that installs it.

    Raises:
        ImportError: it is missing or too old.
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


Caller = tuple[str, Any]
"""The id of a conversation and its owner, which is `None` for a toolset without `Ownership`."""

_ContextT = TypeVar("_ContextT")

Whose = Callable[[_ContextT], Caller]
"""Returns the caller from the context that a framework passes to its tools."""


def caller_of(whose: Whose[_ContextT], context: _ContextT) -> Caller:
    """Call `whose` and check what it returns.

    Raises:
        SetupError: it is not a pair of a `str` and an owner.
    """
    caller: object = whose(context)
    if not isinstance(caller, tuple) or len(caller) != 2:  # noqa: PLR2004  # a pair
        raise SetupError(
            f"the function that returns the caller of a tool returned a {type(caller).__name__} "
            "that is not a pair",
            "return the conversation's id and its owner: (ctx.deps.chat_id, ctx.deps.user_id), "
            "or None for the owner where the toolset has no Ownership",
        )
    conversation, owner = caller
    if not isinstance(conversation, str):
        raise SetupError(
            "the function that returns the caller of a tool returned a conversation id of the "
            f"type {type(conversation).__name__!r}",
            "return its id as a str first, and the owner second",
        )
    return conversation, owner
