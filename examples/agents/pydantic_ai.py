"""An agent of pydantic-ai that looks after the orders of one customer."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from pydantic_ai import Agent
from pydantic_ai.models import Model

from alfred_refs.context import Window
from alfred_refs.integrations.pydantic_ai import RefToolset
from alfred_refs.tools import BoundToolset


@dataclass
class Visit:
    """The context of a run."""

    chat_id: str
    user_id: uuid.UUID


def shop_agent(desk: BoundToolset, model: Model | str) -> Agent[Visit, str]:
    """Return an agent for the visitor in its context."""
    refs = RefToolset[Visit](
        desk,
        lambda ctx: (ctx.deps.chat_id, ctx.deps.user_id),
        window=Window(),  # adds the conversation's rows to the instructions
    )
    return Agent(
        model,
        deps_type=Visit,
        toolsets=[refs],
        instructions="Look after the customer's orders.",
    )
