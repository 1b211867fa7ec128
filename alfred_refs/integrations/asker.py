"""Who asks: the conversation that a call of a tool is in, and the owner on whose behalf it is.

An application tells it by one function of what its framework hands to tools. No model has a hand
in that: its arguments are not among what the function is given.

>>> asker_from(lambda ctx: (ctx.deps.chat, ctx.deps.user_id), ctx)
('chat-7', UUID('…'))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from alfred_refs.errors import SetupError

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
