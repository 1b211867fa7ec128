"""What a call costs: the time that this process works or waits for the server, and its memory."""

from __future__ import annotations

import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import Engine, event


class LateError(BaseException):
    """A call has not come back. No `Exception`, so that nobody on its way takes it for theirs."""


class Clock:
    """Goes while this process works, and while it waits for the server.

    Attributes:
        seconds: how long that was.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began: float | None = None

    def begin(self, *_: Any) -> None:
        """Wait for the server from now on."""
        self._began = _idle()

    def end(self, *_: Any) -> None:
        """Wait no longer."""
        if self._began is not None:
            self.seconds += _idle() - self._began
        self._began = None


@contextmanager
def timed(engine: Engine) -> Iterator[Clock]:
    """Return a clock that goes inside the `with`.

    Args:
        engine: whose statements are waited for.
    """
    clock, began = Clock(), time.process_time()
    listeners = [
        ("before_cursor_execute", clock.begin),
        ("after_cursor_execute", clock.end),
        ("handle_error", clock.end),
    ]
    for name, listener in listeners:
        event.listen(engine, name, listener)
    try:
        yield clock
    finally:
        clock.end()  # of a statement that was given up
        clock.seconds += time.process_time() - began
        for name, listener in listeners:
            event.remove(engine, name, listener)


def _idle() -> float:
    """Return for how long this process has not worked, since some time or other."""
    return time.perf_counter() - time.process_time()


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Have what is done inside the `with` given up after some time.

    Raises:
        LateError: it took longer.
    """

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise LateError

    before = signal.signal(signal.SIGALRM, give_up)
    # again and again: what is raised in a callback of the collector's goes nowhere
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def reset_peak() -> int:
    """Have the kernel forget how large this process has been, and return how large it is."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """Return how many bytes of memory this process had at most, since that was forgotten."""
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        [high] = [line for line in lines if line.startswith("VmHWM")]
        return int(high.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
