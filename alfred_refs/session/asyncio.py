"""`AsyncRefSession`: an `AsyncSession` whose `sync_session_class` is `RefSession`.

>>> import asyncio
>>> async def lines_of(ref):
...     async with async_sessions(conversation="chat-7") as session:
...         lines = await session.scalars(select(Line).where(Line.recipe_id == ref))
...         return sorted(line.id for line in lines)
>>> asyncio.run(lines_of("recipe_1"))
['line_1', 'line_2']

Attributes are read outside any `await`, where no I/O is possible. So refs are minted in the
awaited call that fetches or flushes their keys, even if no attribute is read. A ref that is
assigned and not cached in this process waits as a string for the next flush.

`registry.aio` and `conversation.aio` have the asynchronous methods of a registry and a
conversation: `await registry.aio.create_tables()`, `await conversation.aio.resolve("recipe_1")`.

Limits: needs greenlet, as `AsyncSession` does.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.registry import RefRegistry
from alfred_refs.owners import Owner, Ownership
from alfred_refs.session.session import RefSession
from alfred_refs.store import Actor


class AsyncRefSession(AsyncSession):
    """An `AsyncSession` that accepts and shows short refs in place of keys.

    Attributes of instances do no I/O: their refs are minted when rows are fetched or flushed.

    Args:
        bind: as for `AsyncSession`.
        conversation: as for `RefSession`.
        registry: as for `RefSession`.
        owner: as for `RefSession`.
        ownership: as for `RefSession`.
        by: as for `RefSession`.
        session_arguments: as for `AsyncSession`.

    Raises:
        SetupError: as for `RefSession`.
        OwnershipError: as for `RefSession`.

    Example:
        >>> import asyncio
        >>> async def name_of(ref):
        ...     async with async_sessions(conversation="chat-7") as session:
        ...         return (await session.get(Recipe, ref)).name
        >>> asyncio.run(name_of("recipe_1"))
        'Soup'
    """

    sync_session_class = RefSession
    sync_session: RefSession

    def __init__(
        self,
        bind: Any = None,
        *,
        conversation: Conversation | str | None = None,
        registry: RefRegistry | None = None,
        owner: Owner | Any = None,
        ownership: Ownership | None = None,
        by: Actor | None = None,
        **session_arguments: Any,
    ) -> None:
        super().__init__(
            bind,
            conversation=conversation,
            registry=registry,
            owner=owner,
            ownership=ownership,
            by=by,
            **session_arguments,
        )
        self.sync_session.mint_when_fetched = True

    @property
    def conversation(self) -> Conversation | None:
        """See `RefSession.conversation`."""
        return self.sync_session.conversation

    @property
    def owner(self) -> Owner | None:
        """See `RefSession.owner`."""
        return self.sync_session.owner

    def unconfined(self) -> AbstractContextManager[None]:
        """See `RefSession.unconfined`."""
        return self.sync_session.unconfined()

    def raw_keys(self) -> AbstractContextManager[None]:
        """See `RefSession.raw_keys`."""
        return self.sync_session.raw_keys()
