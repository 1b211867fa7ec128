"""The fixture that fails a test which shows a key."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import readme

pytest_plugins = ["pytester"]

TESTS = """
import logging

KEY = "a508000d-9b55-40f0-8886-dbdd88bd2de2"

def test_clean(no_keys):
    no_keys.check("recipe_1", {"rows": [1, None, {"id": "recipe_2"}]})

def test_shown(no_keys):
    no_keys.check({"rows": [{"id": KEY}]})

def test_logged(no_keys):
    logging.getLogger("app").warning("prompt: %s", KEY)
"""


@pytest.mark.slow
def test_a_test_that_shows_or_logs_a_key_fails(pytester: pytest.Pytester) -> None:
    """And says what was shown, masked."""
    pytester.makepyfile(TESTS)
    found = ["-p", "no:alfred_refs"]  # by its entry point, where the package was installed with it
    result = pytester.runpytest_subprocess(*found, "-p", "alfred_refs.context.pytest_plugin")
    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*1 keys would reach a model: a508… (whole)*"])


@pytest.mark.slow
def test_the_tests_of_the_page_pass(pytester: pytest.Pytester) -> None:
    """Those of `docs/testing.md`, on SQLite, and pytest prints what the page shows."""
    page = Path(__file__).parents[2] / "docs" / "testing.md"
    [(program, _)] = readme.page_programs(page)
    pytester.makepyfile(test_notes=program)
    found = ["-p", "no:alfred_refs"]
    result = pytester.runpytest_subprocess(
        *found, "-p", "alfred_refs.context.pytest_plugin", "-q", "test_notes.py"
    )
    printed = [re.sub(r" in .*", "", line) for line in result.outlines if line.strip()]
    assert [f"{line} in" in page.read_text("utf-8") for line in printed[1:]] == [True]
    result.assert_outcomes(passed=1)


def test_pytest_imports_little_for_it() -> None:
    """Every run of every application's tests does."""
    program = (
        "import sys, alfred_refs.context.pytest_plugin; "
        "print({'sqlalchemy', 'pydantic', 'jinja2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout.decode().strip() == "set()"
