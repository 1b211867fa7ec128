"""Who asks, as an application tells it."""

from __future__ import annotations

from typing import Any

import pytest

from alfred_refs import SetupError
from alfred_refs.integrations.adapters import asker_from

pytestmark = pytest.mark.once


def test_a_pair_is_taken() -> None:
    """The id of a conversation and its owner, of any type; the function is given the context."""
    assert asker_from(lambda given: (given, None), "chat-7") == ("chat-7", None)
    assert asker_from(lambda given: ("chat-7", given), 7) == ("chat-7", 7)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (None, "returned a NoneType that is no pair; return the conversation's id and its owner"),
        ("ab", "returned a str that is no pair"),
        (("chat-7",), "returned a tuple that is no pair"),
        (["chat-7", 7], "returned a list that is no pair"),
        ((7, "chat-7"), "named a conversation by the type 'int'; return its id as a str first"),
    ],
)
def test_anything_else_is_refused(told: Any, message: str) -> None:
    """With what to return in its place."""
    with pytest.raises(SetupError) as raised:
        asker_from(lambda _: told, None)
    assert str(raised.value).startswith(f"what tells whose a call is {message}")
