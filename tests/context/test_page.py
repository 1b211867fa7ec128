"""The page on context promises only what happens."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from tests import readme

PAGE = Path(__file__).parents[2] / "docs" / "context.md"


def test_the_programs_print_what_the_page_says(engine: Engine) -> None:
    """Run from top to bottom, as a reader would."""
    names: dict[str, Any] = {"engine": engine, "uuid": uuid, "__name__": "page"}
    printed, expected = readme.page(PAGE, names)
    names["session"].close()

    assert printed == expected
    assert len([text for text in printed if text]) == 5
