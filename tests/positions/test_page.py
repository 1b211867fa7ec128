"""The programs of the page on list edits print what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests import readme

PAGE = Path(__file__).parents[2] / "docs" / "positions.md"


@pytest.mark.slow
def test_the_programs_print_what_the_page_says(engine: Engine) -> None:
    """Run from top to bottom, as a reader would."""
    names: dict[str, Any] = {"engine": engine, "__name__": "page"}
    printed, expected = readme.page(PAGE, names)
    names["session"].close()

    assert printed == expected
    assert len([text for text in printed if text]) == 4
