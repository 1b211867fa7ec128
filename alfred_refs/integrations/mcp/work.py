"""What requests ask for, done for whoever they are of: so many at a time as there are connections.

    answer = await work.call(request, "db_read", {"table": "orders"})

A conversation that cannot be used is a mistake like others, and reads the same whether it is
somebody else's or has an impossible name.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any, TypeVar

import anyio

from alfred_refs.conversation.conversation import Conversation
from alfred_refs.errors import ConversationIdError, UnknownConversationError
from alfred_refs.tools import BoundToolset, ToolAnswer

from .principals import CONVERSATION, Caller, Request, Whose

_T = TypeVar("_T")

_MOST = 40  # threads, where it is not known how many connections there are

_UNKNOWN = {
    "code": "unknown_conversation",
    "message": "the conversation that this request is in cannot be used; have the client name "
    f"another one in _meta, as {CONVERSATION!r}, or none",
}


class Work:
    """Does what requests ask for.

    Attributes:
        desk: the tools, and what makes their sessions.
    """

    def __init__(self, desk: BoundToolset, whose: Whose) -> None:
        self.desk = desk
        self._whose = whose
        self._limiter = anyio.CapacityLimiter(desk.connections or _MOST)

    async def call(self, request: Request, tool: str, arguments: Any) -> ToolAnswer:
        """Call a tool, and return what the model is told."""
        try:
            conversation, owner = await self._caller(request)
            async with self._limiter:
                # a thread goes on whoever waits for it: until it is done it counts
                with anyio.CancelScope(shield=not self.desk.is_async):
                    answer = await self.desk.call_async(conversation, owner, tool, arguments)
        except (UnknownConversationError, ConversationIdError):
            return ToolAnswer({"error": _UNKNOWN})
        return answer

    async def read(self, request: Request, look: Callable[[Conversation], _T]) -> _T | None:
        """Return what is to be seen in the conversation; `None` if that cannot be used."""
        try:
            chat = self.desk.conversation(*await self._caller(request))
            async with self._limiter:
                return await chat.aio.run(look, chat)
        except (UnknownConversationError, ConversationIdError):
            return None

    async def _caller(self, request: Request) -> Caller:
        found = self._whose(request)
        return await found if isawaitable(found) else found
