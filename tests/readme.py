"""The README's first lines, as a program to be run: by the tests, and by the installed wheel."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"


def first_lines() -> tuple[str, str]:
    """Return the README's first program and the output it promises."""
    return programs()[0]


def programs() -> list[tuple[str, str]]:
    """Return the README's programs, in order, each with the output it promises."""
    text = README.read_text("utf-8")
    return re.findall(r"```python\n(.*?)```\s+```\n(.*?)```", text, re.DOTALL)


def run(program: str, names: dict[str, Any]) -> str:
    """Run a program and return what it prints, the last line of a traceback included.

    What it defines is put into `names`, for the next.
    """
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            # dont_inherit: a reader's program has no `from __future__` of ours
            code = compile(program, "<page>", "exec", dont_inherit=True)
            exec(code, names)  # noqa: S102  # our own text
        except Exception as error:  # noqa: BLE001  # the README shows one
            output.write(f"{type(error).__name__}: {error}\n")
    return output.getvalue()


_PROGRAM = re.compile(r"```python\n(.*?)```(?:\s+```text\n(.*?)```)?", re.DOTALL)


def page(path: Path, names: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Run the programs of a page from top to bottom, as a reader would.

    Returns:
        what each prints, and what the page says that it prints.
    """
    found = _PROGRAM.findall(path.read_text("utf-8"))
    return [run(program, names) for program, _ in found], [text for _, text in found]
