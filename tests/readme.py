"""Run the programs of the README and of pages, and return what they print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"


def first_lines() -> tuple[str, str]:
    """Return the README's first program and its expected output."""
    return programs()[0]


def programs() -> list[tuple[str, str]]:
    """Return the README's programs, in order, with their expected outputs."""
    text = README.read_text("utf-8")
    return re.findall(r"```python\n(.*?)```\s+```\n(.*?)```", text, re.DOTALL)


def run(program: str, names: dict[str, Any]) -> str:
    """Run a program and return its output, including the last line of a traceback.

    Its definitions are added to `names`, for the next program.
    """
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            # dont_inherit: a reader's program does not have our `from __future__` import
            code = compile(program, "<page>", "exec", dont_inherit=True)
            exec(code, names)  # noqa: S102  # our own text
        except Exception as error:  # noqa: BLE001  # the README shows one
            output.write(f"{type(error).__name__}: {error}\n")
    return output.getvalue()


_SHARED = re.compile(r"\]\((\w+\.md)#set-up\)")
_PROGRAM = re.compile(r"```python\n(.*?)```(?:\s+```text\n(.*?)```)?", re.DOTALL)


def page_programs(path: Path) -> list[tuple[str, str]]:
    """Return the programs of a page, the set-up first, with their expected outputs or "".

    The set-up can be that of another page: the page then has a link to it.
    """
    text = set_up_first(path.read_text("utf-8"))
    if shared := _SHARED.search(text):
        other = path.with_name(shared[1]).read_text("utf-8")
        text = other.partition("\n## Set-up\n")[2] + text
    return _PROGRAM.findall(text)


def page(path: Path, names: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Run the programs of a page from top to bottom, as a reader would.

    Returns:
        the output of each program, and the expected output.
    """
    found = page_programs(path)
    return [run(program, names) for program, _ in found], [text for _, text in found]


def set_up_first(text: str) -> str:
    """Return a page with its last section, if that is the set-up, at the beginning."""
    page, _, set_up = text.partition("\n## Set-up\n")
    return f"{set_up}\n{page}"
