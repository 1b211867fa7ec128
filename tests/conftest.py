"""Load the fixtures, which `fix_*.py` split by theme, and Hypothesis' profiles."""

from __future__ import annotations

import gc
import itertools
import re
from pathlib import Path

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

_MODULE_ONCE = re.compile(r"^pytestmark = .*\bmark\.once\b", re.MULTILINE)

_TESTS_BETWEEN, _COUNT = 50, itertools.count(1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m "not once"`, leave out modules whose tests are all marked so.

    Importing them takes longer than all others: some import the frameworks of each adapter.
    """
    if config.option.markexpr != "not once" or collection_path.is_dir():
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return _is_once(name) or bool(_MODULE_ONCE.search(collection_path.read_text("utf-8"))) or None


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of whole folders with `once`."""
    for item in items:
        if _is_once(item.nodeid):
            item.add_marker("once")


def _is_once(path: str) -> bool:
    return path.startswith(ONCE)


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
