"""A conversation as a whole: its id, its owner and its turns."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from alfred_refs import ConversationIdError, RefRegistry, UnknownConversationError
from tests.models import Recipe


def test_turns_are_counted(memory: RefRegistry) -> None:
    """The number is the same for all who open the conversation in the turn, until the next."""
    chat = memory.conversation("chat-7")

    assert chat.turn == 0
    assert (chat.begin_turn(), chat.begin_turn(), chat.turn) == (1, 2, 2)
    assert memory.conversation("chat-7").turn == 2


@pytest.mark.parametrize("bad", ["", "x" * 256, "a\nb", "a\x00b", "\ud800"])
def test_a_conversation_needs_an_id_that_can_be_kept_and_printed(
    memory: RefRegistry, bad: str
) -> None:
    """An empty, long or unprintable id is refused before anything is stored."""
    with pytest.raises(ConversationIdError, match="use 1 to 255 printable characters"):
        memory.conversation(bad)


@pytest.mark.parametrize(
    ("bad", "name"), [(uuid.UUID(int=1), "UUID"), (7, "int"), (None, "NoneType")]
)
def test_a_conversation_is_identified_by_text(memory: RefRegistry, bad: Any, name: str) -> None:
    """Anything else is refused before it is hashed, stored or compared."""
    with pytest.raises(ConversationIdError, match=f"id is a {name}; give text, such as str"):
        memory.conversation(bad)


def test_an_owner_of_any_simple_type_is_the_same_as_its_text(memory: RefRegistry) -> None:
    """The owner is compared as text; another one does not know the conversation."""
    owner, key = uuid.uuid4(), uuid.UUID(int=1)
    memory.conversation("chat-7", owner=owner).refer(Recipe, key)

    assert memory.conversation("chat-7", owner=str(owner)).resolve("recipe_1") == key
    with pytest.raises(UnknownConversationError):
        memory.conversation("chat-7", owner=7).resolve("recipe_1")
    with pytest.raises(UnknownConversationError):
        memory.conversation("chat-7").refer(Recipe, key)


def test_its_repr_shows_the_id_only(memory: RefRegistry) -> None:
    """A conversation in a log or traceback shows no owner and no key."""
    assert repr(memory.conversation("chat-7", owner="ann")) == "Conversation('chat-7')"
