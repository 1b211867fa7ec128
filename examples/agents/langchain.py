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
    """The context of a run."""

    chat_id: str
    user_id: uuid.UUID
    rows: str  # the conversation's rows as the run begins


def visit(desk: BoundToolset, chat_id: str, user_id: uuid.UUID) -> Visit:
    """Return the context of a run."""
    return Visit(chat_id, user_id, Context(desk.conversation(chat_id, user_id)).render())


@dynamic_prompt
def instructions(request: ModelRequest[Visit]) -> str:
    """Return the system prompt."""
    return f"Look after the customer's orders.\n\n{request.runtime.context.rows}"


def shop_agent(desk: BoundToolset, model: BaseChatModel | str) -> Any:
    """Return an agent for the visitor in its context."""
    tools = tools_of(desk, lambda runtime: (runtime.context.chat_id, runtime.context.user_id))
    agent = create_agent(model, tools, middleware=[instructions], context_schema=Visit)
    # invoke() would run the calls of a turn in threads, so writes in no certain order
    return agent.with_config(max_concurrency=1)
