"""The page on edits by position promises only what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests import readme

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "positions.md"


@pytest.mark.slow
def test_the_programs_print_what_the_page_says(engine: Engine) -> None:
    """Run from top to bottom, as a reader would."""
    names: dict[str, Any] = {"engine": engine, "__name__": "page"}
    printed, expected = readme.page(PAGE, names)
    names["session"].close()

    assert printed == expected
    assert len([text for text in printed if text]) == 8


def test_the_tests_that_the_page_names_are_there() -> None:
    """Each line of what is so has some."""
    page = PAGE.read_text("utf-8")
    told = page[page.index("## What is so") :]
    lines = re.findall(r"^\| .* \| (.*) \|$", told, re.MULTILINE)[2:]
    sources = [path.read_text("utf-8") for path in TESTS.rglob("test_*.py")]
    there = {name for each in sources for name in re.findall(r"def (test_\w+)", each)}
    named = [{*re.findall(r"`(test_\w+)`", shown)} for shown in lines]

    assert len(lines) == 27
    assert all(named)
    assert set().union(*named) - there == set()
    bold = {*re.findall(r"^(?:## |\*\*)(.*?)\.?(?:\*\*|$)", page, re.MULTILINE)}
    examples = {each for shown in lines for each in re.findall('"(.*?)"', shown)}
    assert all(any(each in heading for heading in bold) for each in examples)
