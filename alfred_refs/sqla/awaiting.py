"""Methods that do I/O, for those who await: one line a method, and nothing written twice.

    class AsyncCounter(Awaited[Counter]):
        next = awaited(Counter.next)

    await AsyncCounter(counter, is_async=True).next()

On an asynchronous engine a method runs inside what SQLAlchemy's asyncio extension awaits, as that
of an `AsyncSession` does; on any other in a thread, so that the event loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy.util.concurrency import greenlet_spawn

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")
_S_co = TypeVar("_S_co", covariant=True)


class Awaited(Generic[_S_co]):
    """The asynchronous side of an object.

    Attributes:
        sync: the object.
        is_async: whether what it does is to be awaited; otherwise it is done in a thread.
    """

    def __init__(self, sync: _S_co, *, is_async: bool) -> None:
        self.sync = sync
        self.is_async = is_async

    async def run(self, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Do work that waits for the database, without blocking the event loop.

        Leans on `greenlet_spawn`, by which `AsyncSession.run_sync` does it.
        """
        if self.is_async:
            return await greenlet_spawn(partial(work, *args, **kwargs))
        return await asyncio.to_thread(work, *args, **kwargs)


def awaited(
    method: Callable[Concatenate[_S, _P], _R],
) -> Callable[Concatenate[Awaited[_S], _P], Coroutine[Any, Any, _R]]:
    """Return a method of the asynchronous side that does the same."""

    @wraps(method)
    async def run(self: Awaited[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self.run(method, self.sync, *args, **kwargs)

    return run


def listed(
    method: Callable[Concatenate[_S, _P], Iterable[_R]],
) -> Callable[Concatenate[Awaited[_S], _P], Coroutine[Any, Any, list[_R]]]:
    """Return a method of the asynchronous side that gives all of what the other iterates over."""

    @wraps(method)
    async def run(self: Awaited[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> list[_R]:
        return await self.run(lambda: list(method(self.sync, *args, **kwargs)))

    return run
