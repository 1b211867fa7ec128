"""Blocking code on synchronous and asynchronous engines: one implementation, two interfaces.

All I/O of this package is written once, as blocking functions. On an asynchronous engine such a
function must run inside a greenlet that the asyncio extension has spawned, where SQLAlchemy's
dialects await their drivers. This module names the steps:

- `can_wait` returns whether that is the case here, `wait_for` awaits from such a function;
- `AsyncFacade` is the base class of the asynchronous interface of a synchronous object;
  `async_method` and `async_list_method` make its methods out of those of the object.

Example:
    >>> class Counter:
    ...     count = 0
    ...
    ...     def increment(self, by: int = 1) -> int:
    ...         self.count += by
    ...         return self.count
    >>> class AsyncCounter(AsyncFacade[Counter]):
    ...     increment = async_method(Counter.increment)
    >>> asyncio.run(AsyncCounter(Counter(), is_async=False).increment(by=2))
    2

The facade does not serialise calls: an object that is not thread-safe must not be shared between
concurrent tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Engine
from sqlalchemy.util.concurrency import await_only, greenlet_spawn, in_greenlet as in_greenlet

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S")
_S_co = TypeVar("_S_co", covariant=True)


def can_wait(engine: Engine) -> bool:
    """Return whether a blocking call may use a connection of the engine here.

    Always for a synchronous engine; for an asynchronous one only inside `greenlet_spawn()`.
    """
    return not engine.dialect.is_async or in_greenlet()


def wait_for(awaitable: Awaitable[_R]) -> _R:
    """Return the result of an awaitable, from a blocking call inside `greenlet_spawn()`.

    SQLAlchemy's dialects call asynchronous drivers in the same way.
    """
    return await_only(awaitable)


class AsyncFacade(Generic[_S_co]):
    """The asynchronous interface of a synchronous object.

    Attributes:
        sync: the object.
        is_async: whether the object uses an asynchronous engine, so that its methods run in a
            greenlet; otherwise they run in a thread.
    """

    def __init__(self, sync: _S_co, *, is_async: bool) -> None:
        self.sync = sync
        self.is_async = is_async

    async def run(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Await a blocking function, as `AsyncSession.run_sync` does; the event loop goes on."""
        if self.is_async:
            return await greenlet_spawn(partial(function, *args, **kwargs))
        return await asyncio.to_thread(function, *args, **kwargs)


def async_method(
    method: Callable[Concatenate[_S, _P], _R],
) -> Callable[Concatenate[AsyncFacade[_S], _P], Coroutine[Any, Any, _R]]:
    """Return the coroutine method of a facade that calls a method of its object."""

    @wraps(method)
    async def run(self: AsyncFacade[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self.run(method, self.sync, *args, **kwargs)

    return run


def async_list_method(
    method: Callable[Concatenate[_S, _P], Iterable[_R]],
) -> Callable[Concatenate[AsyncFacade[_S], _P], Coroutine[Any, Any, list[_R]]]:
    """Return the coroutine method of a facade that returns all items of an iterator as a list."""

    @wraps(method)
    async def run(self: AsyncFacade[_S], /, *args: _P.args, **kwargs: _P.kwargs) -> list[_R]:
        return await self.run(lambda: list(method(self.sync, *args, **kwargs)))

    return run
