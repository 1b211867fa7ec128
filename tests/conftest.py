"""Load the fixtures, which `fix_*.py` split by theme, and Hypothesis' profiles."""

from __future__ import annotations

import gc

from tests import profiles

pytest_plugins = [
    "tests.fix_postgres",
    "tests.fix_session",
    "tests.fix_asyncio",
    "tests.fix_owned",
    "tests.fix_store",
]

profiles.register()


def pytest_collection_finish() -> None:
    """Exempt all imported modules from garbage collection: tests that call it took seconds.

    Collections are rarer too: they took a tenth of the tests' time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
