"""The page on context promises only what happens."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from tests import readme

PAGE = Path(__file__).parents[2] / "docs" / "context.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\s+```text\n(.*?)```)?", re.DOTALL)


def test_the_programs_print_what_the_page_says(engine: Engine) -> None:
    """Run from top to bottom, as a reader would."""
    names: dict[str, Any] = {"engine": engine, "uuid": uuid, "__name__": "page"}
    programs = BLOCK.findall(PAGE.read_text("utf-8"))

    printed = [readme.run(program, names) for program, _ in programs]
    names["session"].close()

    assert printed == [text for _, text in programs]
    assert len([text for text in printed if text]) == 5
