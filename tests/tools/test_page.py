"""The page on the tools promises only what happens, and lists each code of an error."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from alfred_refs import tools
from alfred_refs.errors import BadRefError
from alfred_refs.tools import errors, faults

pytestmark = pytest.mark.once

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"
BLOCK = re.compile(r"```(python|json|text)\n(.*?)```", re.DOTALL)

# it speaks to a server of OpenAI's
NOT_RUN = "from openai import"


def _blocks() -> list[tuple[str, str]]:
    found = BLOCK.findall(PAGE.read_text("utf-8"))
    return [(kind, text) for kind, text in found if not text.startswith(NOT_RUN)]


def _run(program: str, names: dict[str, Any]) -> tuple[Any, str]:
    """Run a program; return what its last expression is, and what it prints."""
    tree = ast.parse(program)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    output = io.StringIO()
    value = None
    with contextlib.redirect_stdout(output):
        # a reader's program has no `from __future__` of ours
        exec(compile(tree, "<page>", "exec", dont_inherit=True), names)  # noqa: S102  # our own
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)  # noqa: S307
    return value, output.getvalue()


def test_what_the_page_shows_is_what_happens(engine: Engine) -> None:
    """Its programs, run from top to bottom, give the answers and print the texts under them."""
    names: dict[str, Any] = {"engine": engine, "__name__": "page"}
    value, printed, compared = None, "", 0

    for kind, text in _blocks():
        match kind:
            case "python":
                value, printed = _run(text, names)
            case "json":
                assert value == json.loads(text)
                compared += 1
            case "text":
                assert printed == text
                compared += 1

    names["session"].close()
    assert compared > 10


def test_the_page_tells_of_all_arguments() -> None:
    """Those of a read, as the tool has them, and those of a toolset."""
    text = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert set(tools.DbRead.model_fields) <= told
    assert set(_parameters(tools.Toolset.__init__)) <= told


def _parameters(function: Any) -> Iterator[str]:
    return (name for name in function.__annotations__ if name != "return")


# the codes of errors


def test_the_page_lists_each_code_once() -> None:
    """All that the tools raise, and no other."""
    text = PAGE.read_text("utf-8").split("## Errors")[1]
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)

    assert sorted(listed) == sorted(_codes())


def _codes() -> set[str]:
    """The codes of all errors: those with classes of their own, and of bad refs."""
    return set(_written()) | set(_of_bad_refs())


def _written() -> Iterator[str]:
    """Yield the codes that stand in the source, where an error is made."""
    for path in Path(errors.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            match call:
                case ast.Call(ast.Name("ToolError"), [ast.Constant(str(code)), *_]):
                    yield code


def _of_bad_refs() -> Iterator[str]:
    of_classes: Mapping[type[BadRefError], str] = faults._REF_CODES
    yield from of_classes.values()


def test_each_code_has_a_function_of_its_name() -> None:
    """One that the search for codes does not see would be missed; an overlap is a conflict."""
    functions = {name: each for name, each in vars(errors).items() if inspect.isfunction(each)}
    made = {
        n for n, each in functions.items() if each.__annotations__.get("return") == "ToolError"
    }
    own = {name for name in made if not name.startswith("_")}

    assert own == {*_written(), "overlap"}
