"""Tokens of what a model reads and writes, by `o200k_base` (OpenAI's of 2024 and later).

>>> counted(messages, tools=1_200, count=tokenizer())
Tokens(read=5_310, written=96, new=1_420)

What a model reads it reads again with each request: the tools, the rules and all messages before.
`new` has each text once. What providers put around messages is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Tokens:
    """How many there were.

    Attributes:
        read: in all requests.
        written: by the model.
        new: of what was read, each text once, without the tools.
    """

    read: int
    written: int
    new: int


@cache
def tokenizer() -> Count:
    """Return what counts the tokens of a text."""
    from bpe_openai import get_encoding  # noqa: PLC0415  # half a second

    encode = get_encoding("o200k_base").encode_ordinary
    return lambda text: len(encode(text))


def counted(messages: Sequence[ModelMessage], tools: int, count: Count) -> Tokens:
    """Return the tokens of a conversation.

    Args:
        messages: all of it.
        tools: tokens of the definitions, and of rules, that go with each request.
        count: counts those of a text.
    """
    read = written = new = 0
    so_far = tools
    for message in messages:
        if isinstance(message, ModelRequest):
            size = sum(count(text) for text in map(_text_read, message.parts) if text)
            new += size
            so_far += size
        else:
            read += so_far
            size = sum(count(text) for text in map(_text_written, message.parts) if text)
            written += size
            so_far += size
    return Tokens(read, written, new)


def _text_read(part: object) -> str:
    if isinstance(part, ToolReturnPart):
        return part.model_response_str()
    if isinstance(part, UserPromptPart | SystemPromptPart):
        return str(part.content)
    return ""


def _text_written(part: object) -> str:
    if isinstance(part, ToolCallPart):
        return f"{part.tool_name} {part.args_as_json_str()}"
    return part.content if isinstance(part, TextPart) else ""
