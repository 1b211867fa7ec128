"""AsyncRefSession (needs greenlet).

`AsyncRefSession`: an `AsyncSession` that accepts refs wherever it accepts keys, and shows refs.

Everything is `RefSession`'s, by `sync_session_class`; what is different is when. Attributes are
read outside of any `await`, where no I/O can be done: so keys are minted inside the awaited call
that fetches or flushes them, looked at or not, and a ref that is set before this process has met
it waits as text for the next flush.

    sessions = async_sessionmaker(engine, class_=AsyncRefSession)
    async with sessions(conversation=registry.conversation("chat-7")) as session:
        await session.get(Recipe, "recipe_1")

What a conversation or a registry does by itself has an asynchronous side, `aio`:
`await registry.aio.create_tables()`, `await conversation.aio.resolve("recipe_1")`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.registry import RefRegistry
from alfred_refs.owners import Owner
from alfred_refs.session.session import RefSession
from alfred_refs.store import Actor


class AsyncRefSession(AsyncSession):
    """An `AsyncSession` in which a language model's refs stand for keys.

    Attributes of instances do no I/O: what was fetched shows its refs without being awaited.

    Args:
        bind: as for `AsyncSession`.
        conversation: as for `RefSession`.
        registry: as for `RefSession`.
        owner: as for `RefSession`.
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
        owner: Owner | None = None,
        by: Actor | None = None,
        **session_arguments: Any,
    ) -> None:
        ours = {"conversation": conversation, "registry": registry, "owner": owner, "by": by}
        super().__init__(bind, **{**session_arguments, **ours})
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
