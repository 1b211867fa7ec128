"""What a conversation tells of its rows, for an agent's instructions.

    rows = await prompt_block(desk, "chat-7", user.id)
    await Runner.run(agent, question, context=Visit("chat-7", user.id, rows))

It is for the beginning of a run: what the run itself reads and writes, the model sees by the
results of its calls. Rows stay in it when a framework shortens its history, and results with it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from alfred_refs import sqla
from alfred_refs.context import Context, Window
from alfred_refs.tools import BoundToolset


async def prompt_block(
    desk: BoundToolset, conversation: str, owner: Any, window: Window | None = None
) -> str:
    """Return the rows at hand as Markdown, without blocking the event loop: two round trips.

    Args:
        desk: whose sessions say how to wait.
        conversation: the id of the conversation.
        owner: on whose behalf it is held; `None` where the toolset has no `Ownership`.
        window: how far back.
    """
    render = Context(desk.conversation(conversation, owner), window).render
    return await (sqla.spawned(render) if desk.is_async else asyncio.to_thread(render))
