"""An agent by the tool runner of Anthropic's SDK that looks after the orders of one customer."""

from __future__ import annotations

import uuid

from anthropic import Anthropic
from anthropic.lib.tools import BetaToolRunner
from anthropic.types.beta import BetaMessageParam

from alfred_refs.context import Context
from alfred_refs.integrations.anthropic import tools_of
from alfred_refs.tools import BoundToolset


def shop_runner(
    desk: BoundToolset,
    client: Anthropic,
    model: str,
    visit: tuple[str, uuid.UUID],
    messages: list[BetaMessageParam],
) -> BetaToolRunner[None]:
    """Return a runner for one conversation and its owner."""
    rules = "Look after the customer's orders."
    rows = Context(desk.conversation(*visit)).render()
    return client.beta.messages.tool_runner(
        model=model,
        max_tokens=2048,
        # rows last, so that the text before them stays cached
        system=[{"type": "text", "text": text} for text in (rules, rows)],
        messages=messages,
        tools=tools_of(desk, *visit),
    )
