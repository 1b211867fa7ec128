"""An agent of LangChain that looks after the orders of one customer."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, dynamic_prompt
from langchain.chat_models import BaseChatModel

from alfred_refs.context import Context
from alfred_refs.integrations.langchain import tools_of
from alfred_refs.tools import BoundToolset


@dataclass
class Visit:
    """What an agent is given with each run."""

    chat_id: str
    user_id: uuid.UUID
    rows: str  # what the conversation tells of them as the run begins


def visit(desk: BoundToolset, chat_id: str, user_id: uuid.UUID) -> Visit:
    """Return what a run is given."""
    return Visit(chat_id, user_id, Context(desk.conversation(chat_id, user_id)).render())


@dynamic_prompt
def instructions(request: ModelRequest[Visit]) -> str:
    """Return what the agent is told before anything else."""
    return f"Look after the customer's orders.\n\n{request.runtime.context.rows}"


def shop_agent(desk: BoundToolset, model: BaseChatModel | str) -> Any:
    """Return an agent that works for whoever visits the shop."""
    tools = tools_of(desk, lambda runtime: (runtime.context.chat_id, runtime.context.user_id))
    agent = create_agent(model, tools, middleware=[instructions], context_schema=Visit)
    # invoke() would make the calls of a turn at once, in threads: writes in no certain order
    return agent.with_config(max_concurrency=1)
