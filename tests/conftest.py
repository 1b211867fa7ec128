"""Load the fixtures, which `fix_*.py` split by theme, and Hypothesis' profiles."""

from __future__ import annotations

import gc
import itertools

import pytest

from tests import profiles

pytest_plugins = [
    "tests.fix_postgres",
    "tests.fix_session",
    "tests.fix_asyncio",
    "tests.fix_owned",
    "tests.fix_store",
]

profiles.register()


# they use sessions as applications do, and send no statements of their own
ONCE = ("tests/cli/", "tests/context/", "tests/examples/", "tests/integrations/")

_TESTS_BETWEEN, _COUNT = 50, itertools.count(1)


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of whole folders with `once`."""
    for item in items:
        if item.nodeid.startswith(ONCE):
            item.add_marker("once")


def pytest_collection_finish() -> None:
    """Exempt all imported modules from garbage collection, and make collections rarer."""
    _exempt()
    gc.set_threshold(10_000)


def pytest_runtest_logstart() -> None:
    """Exempt now and then what earlier tests have left, such as mapped classes and their caches.

    At the end of a run, `gc.collect()` took four seconds without it.
    """
    if next(_COUNT) % _TESTS_BETWEEN == 0:
        _exempt()


def _exempt() -> None:
    gc.collect()
    gc.freeze()
