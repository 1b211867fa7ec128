"""Works that threads begin at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def at_once(*works: Callable[[], object]) -> list[Any]:
    """Do works in threads that start together; return the result of each, or its exception."""
    together = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        together.wait()
        try:
            return work()
        except BaseException as error:  # noqa: BLE001  # returned
            return error

    with ThreadPoolExecutor(len(works)) as threads:
        return [*threads.map(run, works)]


def failures(*works: Callable[[], object]) -> list[BaseException]:
    """Do works in threads that start together; return the exceptions."""
    return [each for each in at_once(*works) if isinstance(each, BaseException)]
