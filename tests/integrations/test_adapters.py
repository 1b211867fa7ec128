"""The caller of a tool, from the function that an application passes."""

from __future__ import annotations

from typing import Any

import pytest

from alfred_refs import SetupError
from alfred_refs.integrations.adapters import Caller, caller_of


def test_it_is_a_conversation_and_an_owner() -> None:
    """An owner of any type, and perhaps a user; the function is called with the context."""
    assert caller_of(lambda context: (context, None), "chat-7") == Caller("chat-7", None)
    assert caller_of(lambda context: ("chat-7", context), 7) == Caller("chat-7", 7)
    assert caller_of(lambda _: ("chat-7", 7, "bob"), None) == Caller("chat-7", 7, "bob")


@pytest.mark.parametrize(
    ("caller", "message"),
    [
        (
            None,
            "returned a NoneType that is not a pair; return the conversation's id and its owner",
        ),
        ("ab", "returned a str that is not a pair"),
        (("chat-7",), "returned a tuple that is not a pair"),
        (("chat-7", 7, 8, 9), "returned a tuple that is not a pair"),
        (["chat-7", 7], "returned a list that is not a pair"),
        (
            (7, "chat-7"),
            "returned a conversation id of the type 'int'; return its id as a str first",
        ),
    ],
)
def test_anything_else_is_refused(caller: Any, message: str) -> None:
    """The error says what to return."""
    with pytest.raises(SetupError) as raised:
        caller_of(lambda _: caller, None)
    assert str(raised.value).startswith(
        f"the function that returns the caller of a tool {message}"
    )
