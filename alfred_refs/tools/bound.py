"""A toolset with sessions of its own: one call, one session, for one conversation and its owner.

    desk = toolset.bind(sessionmaker(engine, class_=RefSession), registry=registry)
    answer = desk.call("chat-7", user.id, "db_read", {"table": "orders", "limit": 1})
    answer.text    # '{"table":"orders","rows":[{"id":"order_1",...}],"count":1,"more":true,...}'

What calls for a model stands above: an agent's framework, a server. It says who asks, in which
conversation, and what the model wants; nothing else is its business, and no session is ever in two
hands. Calls may be made side by side, from threads or from tasks. Those that write in one
conversation follow each other in the order in which they were made, because a model means them so.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from alfred_refs.conversation.conversation import Conversation
from alfred_refs.conversation.registry import RefRegistry
from alfred_refs.errors import SetupError
from alfred_refs.session.session import RefSession
from alfred_refs.sqla import connections_of, said
from alfred_refs.store import Actor

from .schemas import Form

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import async_sessionmaker

    from alfred_refs.session.asyncio import AsyncRefSession

    from .toolset import Answer, Toolset

    Sessions = sessionmaker[RefSession] | async_sessionmaker[AsyncRefSession]

_Lock = TypeVar("_Lock")

# what PostgreSQL undoes as a whole to let another transaction go first: it may be done again
_UNDONE = ("40001", "40P01")

_KEPT = 256
_KEPT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a model is told.

    Attributes:
        value: JSON values: `{"error": {"code", "message", ...}}` for a mistake of the model's.
    """

    value: Answer

    @property
    def text(self) -> str:
        """The same as text, compact and every letter as it is."""
        return json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))

    @property
    def failed(self) -> bool:
        """Whether nothing was done, because of a mistake that the model can correct."""
        error = self.value.get("error")
        return isinstance(error, dict) and "code" in error


class BoundToolset:
    """A toolset that opens a session for each call; made by `Toolset.bind`.

    Attributes:
        toolset: whose tools are called.
        tool: adds a function of the application to them; see `Toolset.tool`.
        registry: that opens the conversations.
        is_async: whether the sessions are asynchronous.
        connections: how many calls may have one at a time; `None`: that is not known.
    """

    def __init__(
        self,
        toolset: Toolset,
        sessions: Sessions,
        registry: RefRegistry,
        *,
        by: Actor | None = "model",
    ) -> None:
        self.is_async = _is_async(sessions)
        if not isinstance(registry, RefRegistry):
            raise SetupError(
                f"a toolset was bound to the registry {type(registry).__name__}",
                "give the application's RefRegistry: toolset.bind(sessions, registry=registry)",
            )
        self.toolset = toolset
        self.tool = toolset.tool
        self.registry = registry
        self.connections = connections_of(getattr(sessions, "kw", {}).get("bind"))
        self._sessions: Any = sessions
        self._by = by
        self._kept = _Kept(registry)
        self._threads = _Locks(threading.Lock)
        self._tasks = _Locks(asyncio.Lock)

    def call(self, conversation: str, owner: Any, tool: str, arguments: Any) -> ToolAnswer:
        """Do what a model asks for, in a session of its own, and return what it is told.

        A call that PostgreSQL undid to let another transaction go first (SQLSTATE 40001, 40P01) is
        made once more.

        Args:
            conversation: the id of the conversation.
            owner: on whose behalf it is held, as `Ownership.of` takes it; `None` where the toolset
                has no `Ownership`.
            tool: the name of the tool.
            arguments: JSON values, or their text; `None` is none.

        Raises:
            SetupError: the sessions are asynchronous, or an owner is missing or not expected.
        """
        if self.is_async:
            raise SetupError(
                "call() was used on a toolset that is bound to asynchronous sessions",
                "await call_async()",
            )
        given = self._given(conversation, owner)

        def attempt() -> Answer:
            with self._sessions(**given) as session:
                return self.toolset.call(session, tool, _object(arguments))

        with self._in_order(self._threads, tool, conversation, owner):
            try:
                answer = attempt()
            except DBAPIError as error:
                if not _is_undone(error):
                    raise
                answer = attempt()
        return ToolAnswer(answer)

    async def call_async(
        self, conversation: str, owner: Any, tool: str, arguments: Any
    ) -> ToolAnswer:
        """Do what `call` does without blocking the event loop.

        Asynchronous sessions are awaited: a call that is cancelled is rolled back. Others work in
        a thread: a call that is cancelled goes on there, and what it has done is committed.
        """
        order = self._in_order(self._tasks, tool, conversation, owner, asyncio.get_running_loop())
        async with order:
            if not self.is_async:
                return await asyncio.to_thread(self.call, conversation, owner, tool, arguments)
            given = self._given(conversation, owner)

            async def attempt() -> Answer:
                async with self._sessions(**given) as session:
                    return await self.toolset.call_async(session, tool, _object(arguments))

            try:
                answer = await attempt()
            except DBAPIError as error:
                if not _is_undone(error):
                    raise
                answer = await attempt()
            return ToolAnswer(answer)

    def schemas(self, form: Form, *, describe: bool = True) -> list[dict[str, Any]]:
        """Return the definitions of the tools; see `Toolset.schemas`."""
        return self.toolset.schemas(form, describe=describe)

    def describe(self, tables: Iterable[str] | None = None) -> str:
        """Return what a model needs to know of tables; see `Toolset.describe`."""
        return self.toolset.describe(tables)

    def reads(self, tool: str) -> bool:
        """Tell whether a tool changes nothing."""
        return self.toolset.reads(tool)

    def conversation(self, conversation: str, owner: Any) -> Conversation:
        """Return a conversation, opened for its owner.

        Raises:
            SetupError: an owner is missing, or not expected.
        """
        opened: Conversation = self._given(conversation, owner)["conversation"]
        return opened

    def cover(self, conversation: str, owner: Any, value: Any) -> Any:
        """Return what comes from elsewhere without keys; see `Conversation.scrub`.

        desk.cover("chat-7", user.id, search.find("invoice"))   # keys of rows are refs in it
        """
        return self.conversation(conversation, owner).scrub(value)

    async def cover_async(self, conversation: str, owner: Any, value: Any) -> Any:
        """Do what `cover` does without blocking the event loop."""
        return await self.conversation(conversation, owner).aio.scrub(value)

    def _given(self, conversation: str, owner: Any) -> dict[str, Any]:
        """Return what a session is made with."""
        ownership = self.toolset.ownership
        if (owner is None) is not (ownership is None):
            raise SetupError(
                f"an owner {'is missing' if owner is None else 'was given'} in a call of tools "
                f"that have {'no' if ownership is None else 'an'} Ownership",
                "give Toolset(..., owner=Ownership(...)) and the owner with each call, or neither",
            )
        whose = None if ownership is None else ownership.of(owner)
        held_for = None if whose is None else str(whose.value)
        opened = self._kept.conversation(conversation, held_for)
        return {"conversation": opened, "owner": whose, "by": self._by}

    def _in_order(self, locks: _Locks[Any], tool: str, *of: Hashable) -> Any:
        """Return what is entered to wait for writes of the same conversation."""
        return _Free() if self.reads(tool) else locks.of(of)


def _is_async(sessions: Any) -> bool:
    """Tell whether what makes sessions makes asynchronous ones.

    Raises:
        SetupError: it makes none that a call could have for itself.
    """
    if isinstance(sessions, scoped_session):
        raise SetupError(
            "a toolset was bound to a scoped_session, which calls of one thread would share",
            "give what it makes sessions with: scoped.session_factory",
        )
    if isinstance(sessions, Session) or hasattr(sessions, "sync_session"):
        raise SetupError(
            f"a toolset was bound to a {type(sessions).__name__}, and each call needs its own",
            "give what makes sessions: sessionmaker(engine, class_=RefSession)",
        )
    made = getattr(sessions, "class_", None)
    if isinstance(made, type):
        if issubclass(made, RefSession):
            return False
        if issubclass(getattr(made, "sync_session_class", type), RefSession):
            return True
    raise SetupError(
        f"a toolset was bound to {type(sessions).__name__}, which makes no RefSession",
        "give sessionmaker(engine, class_=RefSession) or "
        "async_sessionmaker(engine, class_=AsyncRefSession)",
    )


def _object(arguments: Any) -> Any:
    return {} if arguments is None else arguments


def _is_undone(error: DBAPIError) -> bool:
    return said(error)["sqlstate"] in _UNDONE


class _Free(AbstractContextManager["_Free"]):
    """Waits for nobody, in threads and in tasks."""

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass


class _Locks(Generic[_Lock]):
    """A lock for each conversation, for as long as somebody holds it or waits for it."""

    def __init__(self, make: Callable[[], _Lock]) -> None:
        self._make = make
        self._locks: WeakValueDictionary[Hashable, _Lock] = WeakValueDictionary()
        self._guard = threading.Lock()

    def of(self, key: Hashable) -> _Lock:
        """Return the lock of a conversation."""
        with self._guard:
            return self._locks.setdefault(key, self._make())


class _Kept:
    """Conversations of the last minutes: what has been met in one is not asked for again."""

    def __init__(self, registry: RefRegistry) -> None:
        self._registry = registry
        self._used: OrderedDict[tuple[str, str | None], tuple[float, Conversation]] = OrderedDict()
        self._guard = threading.Lock()

    def conversation(self, id_: str, owner: str | None) -> Conversation:
        """Open a conversation, which shares what others of its id have met."""
        opened = self._registry.conversation(id_, owner=owner)
        now = monotonic()
        with self._guard:
            self._used[id_, owner] = now, opened
            self._used.move_to_end((id_, owner))
            for key, (used, _) in list(self._used.items()):
                if len(self._used) <= _KEPT and now - used <= _KEPT_SECONDS:
                    break
                del self._used[key]
        return opened
