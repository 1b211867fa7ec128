"""Load the fixtures, which `fix_*.py` split by theme, and Hypothesis' profiles."""

from __future__ import annotations

import gc
import itertools
import re
import zlib
from collections import defaultdict
from collections.abc import Sequence
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


# what is built on the plugin uses sessions as applications do, or sends SQL of its own; redaction
# works on texts
ONCE = (
    *("tests/cli/", "tests/context/", "tests/conversation/", "tests/examples/"),
    *("tests/inspector/", "tests/integrations/", "tests/positions/", "tests/project/"),
    *("tests/session/redaction/", "tests/store/", "tests/tools/"),
)

# but these run on both series: each kind of statement, unit of work and driver that it uses
ON_BOTH = (
    *("tests/conversation/test_aio.py", "tests/conversation/test_view.py"),
    *("tests/positions/test_editing.py", "tests/positions/test_mappings.py"),
    *("tests/project/test_public.py", "tests/session/redaction/test_sqlalchemy_errors.py"),
    *("tests/store/test_connections.py", "tests/store/test_protocol.py"),
    "tests/store/test_variants.py",
    *("tests/tools/shop/test_history.py", "tests/tools/shop/test_other_registry.py"),
    "tests/tools/shop/test_plans.py",
    *("tests/tools/sql/test_answers.py", "tests/tools/sql/test_differential.py"),
    *("tests/tools/test_custom_types.py", "tests/tools/test_deleting.py"),
    *("tests/tools/test_draft_saving.py", "tests/tools/test_filters.py"),
    *("tests/tools/test_links.py", "tests/tools/test_lists.py", "tests/tools/test_mappings.py"),
    *("tests/tools/test_order.py", "tests/tools/test_reading.py"),
    *("tests/tools/test_relatives.py", "tests/tools/test_totals.py"),
    "tests/tools/test_writing.py",
)

_MODULE_ONCE = re.compile(r"^pytestmark = .*\bmark\.once\b", re.MULTILINE)

_TESTS_BETWEEN, _COUNT = 50, itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--cells` and `--seed`, for the small run and for `.ci/run`."""
    parser.addoption(
        "--cells", type=int, metavar="N", help="run at most N cells of each parametrized test"
    )
    parser.addoption("--seed", default="", metavar="TEXT", help="other cells for each text")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m "not once"`, leave out modules whose tests are all marked so.

    Importing them takes longer than all others: some import the frameworks of each adapter.
    """
    if config.option.markexpr != "not once" or collection_path.is_dir():
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return _is_once(name) or bool(_MODULE_ONCE.search(collection_path.read_text("utf-8"))) or None


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of whole folders with `once`, except those of `ON_BOTH`; apply `--cells`."""
    for item in items:
        if _is_once(item.nodeid):
            item.add_marker("once")
    if (cells := config.getoption("cells")) is not None:
        kept = few(items, cells, config.getoption("seed"))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def few(items: Sequence[pytest.Item], cells: int, seed: str) -> list[pytest.Item]:
    """Return some cells of each test, in order: for a seed, the same in all processes.

    Tests marked `whole` keep all of theirs.
    """
    by_test = defaultdict(list)
    kept = set()
    for item in items:
        if item.get_closest_marker("whole"):
            kept.add(item.nodeid)
        else:
            by_test[item.nodeid.partition("[")[0]].append(item.nodeid)
    for each in by_test.values():
        kept |= {*sorted(each, key=lambda nodeid: zlib.crc32((seed + nodeid).encode()))[:cells]}
    return [item for item in items if item.nodeid in kept]


def _is_once(path: str) -> bool:
    return path.startswith(ONCE) and not path.startswith(ON_BOTH)


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
