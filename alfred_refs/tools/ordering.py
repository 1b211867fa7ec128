"""Order of calls: locks by conversation, and repeated attempts at a call.

Writes of one conversation wait for each other (`Locks`). A call is attempted again if other calls
have blocked it from the registry (`Attempt`); no other call runs during the new attempt.

>>> locks = Locks(threading.Lock)
>>> with locks.of("chat-7"):
...     locks.of("chat-7").locked(), locks.of("chat-8").locked()
(True, False)

Limits: the order is kept within one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

Lock = TypeVar("Lock")


class Counter:
    """A number that threads change."""

    def __init__(self) -> None:
        self.value = 0
        self._guard = threading.Lock()

    def add(self, number: int) -> None:
        """Add a number."""
        with self._guard:
            self.value += number


class Attempt:
    """A context manager for one attempt at a call, in threads and in tasks.

    Attributes:
        number: the number of the attempt at the same call, from 1.
        was_alone: whether no other call of this process was running when it began.
    """

    def __init__(self, number: int, parallel: Counter, lock: Any) -> None:
        self.number = number
        self.was_alone = False
        self._parallel = parallel
        self._lock = lock  # None for a call that does not wait for others

    def _begin(self) -> None:
        if self._lock is None:
            self._parallel.add(1)
        else:
            self.was_alone = self._parallel.value == 0

    def __enter__(self) -> None:
        if self._lock is not None:
            self._lock.acquire()
        self._begin()

    async def __aenter__(self) -> None:
        if self._lock is not None:
            await self._lock.acquire()
        self._begin()

    def __exit__(self, *_: object) -> None:
        if self._lock is None:
            self._parallel.add(-1)
        else:
            self._lock.release()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


class Locks(Generic[Lock]):
    """One lock per conversation, kept while a caller holds it or waits for it."""

    def __init__(self, make: Callable[[], Lock]) -> None:
        self._make = make
        self._locks: WeakValueDictionary[Hashable, Lock] = WeakValueDictionary()
        self._guard = threading.Lock()

    def of(self, key: Hashable) -> Lock:
        """Return the lock of a conversation."""
        with self._guard:
            return self._locks.setdefault(key, self._make())
