"""An agent by the tool runner of Anthropic's SDK that looks after the orders of one customer."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from anthropic import Anthropic
from anthropic.lib.tools import BetaToolRunner
from anthropic.types.beta import BetaMessageParam

from alfred_refs.context import Context
from alfred_refs.integrations.anthropic import tools_of
from alfred_refs.tools import BoundToolset


@dataclass
class Visit:
    """Who is answered."""

    chat_id: str
    user_id: uuid.UUID


def shop_runner(
    desk: BoundToolset,
    client: Anthropic,
    model: str,
    visit: Visit,
    messages: Iterable[BetaMessageParam],
) -> BetaToolRunner[None]:
    """Return what answers a visitor of the shop: a runner is for one conversation."""
    rows = Context(desk.conversation(visit.chat_id, visit.user_id)).render()
    return client.beta.messages.tool_runner(
        model=model,
        max_tokens=2048,
        system=[
            {"type": "text", "text": "Look after the customer's orders."},
            {"type": "text", "text": rows},  # last: what stands before it stays cached
        ],
        messages=messages,
        tools=tools_of(desk, visit.chat_id, visit.user_id),
    )
