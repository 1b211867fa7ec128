"""What the adapters share: versions, who asks.

Which version of somebody else's package a module needs: said before anything of it is imported.

>>> needs("pydantic-ai-slim", "2.60", extra="pydantic-ai")
ImportError: pydantic-ai-slim 2.60 or newer is needed, and 2.41.0 is installed; run `pip install …`

Who asks: the conversation that a call of a tool is in, and the owner on whose behalf it is.

An application tells it by one function of what its framework hands to tools. No model has a hand
in that: its arguments are not among what the function is given.

>>> asker_from(lambda ctx: (ctx.deps.chat, ctx.deps.user_id), ctx)
('chat-7', UUID('…'))
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from alfred_refs.errors import SetupError


def needs(package: str, floor: str, *, extra: str) -> None:
    """Check that a package is installed, and not older than what its adapter was tried with.

    Args:
        package: the name that pip knows.
        floor: the oldest version that will do.
        extra: of ours, which brings it.

    Raises:
        ImportError: it is not there, or too old.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        found = ""
    if _numbers(found) < _numbers(floor):
        raise ImportError(
            f"{package} {floor} or newer is needed, and {found or 'none'} is installed; "
            f"run `pip install 'alfred-refs[{extra}]'`",
            name=package,
        )


def _numbers(text: str) -> tuple[int, ...]:
    """Return what a version begins with: of 2.60.0rc1 that is 2, 60, 0."""
    begins = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, begins[0].split("."))) if begins else ()


Given = TypeVar("Given")

Asker = tuple[str, Any]
"""The id of a conversation, and its owner: `None` where the toolset has no `Ownership`."""

Whose = Callable[[Given], Asker]
"""Tells who asks, from what a framework hands to its tools."""


def asker_from(whose: Whose[Given], given: Given) -> Asker:
    """Return who asks.

    Raises:
        SetupError: the function tells something else.
    """
    told: object = whose(given)
    if not isinstance(told, tuple) or len(told) != 2:  # noqa: PLR2004  # a pair
        raise SetupError(
            f"what tells whose a call is returned a {type(told).__name__} that is no pair",
            "return the conversation's id and its owner: (ctx.deps.chat_id, ctx.deps.user_id), "
            "or None for the owner where the toolset has no Ownership",
        )
    conversation, owner = told
    if not isinstance(conversation, str):
        raise SetupError(
            f"what tells whose a call is named a conversation by the type "
            f"{type(conversation).__name__!r}",
            "return its id as a str first, and the owner second",
        )
    return conversation, owner
