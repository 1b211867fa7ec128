"""What every test has: the fixtures, split by theme into `fix_*.py`."""

from __future__ import annotations

import gc

pytest_plugins = [
    "tests.fix_postgres",
    "tests.fix_session",
    "tests.fix_asyncio",
    "tests.fix_owned",
    "tests.fix_store",
]


def pytest_collection_finish() -> None:
    """Have the collector pass over what is imported by now: tests that call it took seconds.

    By itself it comes more rarely: a tenth of the tests' time went by it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
