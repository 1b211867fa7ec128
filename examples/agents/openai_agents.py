"""An agent of the OpenAI Agents SDK that looks after the orders of one customer."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from agents import Agent, Model, RunContextWrapper

from alfred_refs.context import Context
from alfred_refs.integrations.openai_agents import tools_of
from alfred_refs.tools import BoundToolset


@dataclass
class Visit:
    """The context of a run."""

    chat_id: str
    user_id: uuid.UUID
    rows: str  # the conversation's rows as the run begins


async def visit(desk: BoundToolset, chat_id: str, user_id: uuid.UUID) -> Visit:
    """Return the context of a run."""
    chat = desk.conversation(chat_id, user_id)
    return Visit(chat_id, user_id, await Context(chat).aio.render())


def instructions(ctx: RunContextWrapper[Visit], _: Agent[Visit]) -> str:
    """Return the system prompt."""
    return f"Look after the customer's orders.\n\n{ctx.context.rows}"


def shop_agent(desk: BoundToolset, model: Model | str) -> Agent[Visit]:
    """Return an agent for the visitor in its context."""
    tools = tools_of(desk, lambda ctx: (ctx.context.chat_id, ctx.context.user_id))
    return Agent[Visit](name="shop", model=model, instructions=instructions, tools=[*tools])
