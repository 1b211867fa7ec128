"""The pages on the tools show what happens, and list each argument and each code of an error."""

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
from tests.readme import set_up_first

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("tools", "reading", "writing", "hooks", "tool-errors")  # each continues the one before
BLOCK = re.compile(r"```(python|json|text)\n(.*?)```", re.DOTALL)

# it calls a server of OpenAI
NOT_RUN = "from openai import"


def _blocks() -> list[tuple[str, str]]:
    found = [block for page in PAGES for block in BLOCK.findall(set_up_first(_text(page)))]
    return [(kind, text) for kind, text in found if not text.startswith(NOT_RUN)]


def _text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text("utf-8")


def _run(program: str, names: dict[str, Any]) -> tuple[Any, str]:
    """Run a program; return the value of its last expression, and its output."""
    tree = ast.parse(program)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    output = io.StringIO()
    value = None
    with contextlib.redirect_stdout(output):
        # a reader's program does not have our `from __future__` import
        exec(compile(tree, "<page>", "exec", dont_inherit=True), names)  # noqa: S102  # our own
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)  # noqa: S307
    return value, output.getvalue()


def test_the_programs_return_what_the_pages_show(engine: Engine) -> None:
    """Run from top to bottom, they return the answers and print the texts below them."""
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


@pytest.mark.whole
@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("reading", [*tools.DbRead.model_fields]),
        ("writing", [*tools.DbCreate.model_fields, *tools.DbUpdate.model_fields]),
    ],
)
def test_the_pages_have_a_row_for_each_argument(page: str, names: list[str]) -> None:
    """Of a read, and of writes."""
    rows = re.findall(r"^\| (`.*?`) \|", _text(page), re.MULTILINE)

    assert {*names} <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_page_names_each_option_of_a_toolset() -> None:
    """By the reader's aim; the reference describes them."""
    options = {*inspect.signature(tools.Toolset).parameters} - {"models"}
    named = set(re.findall(r"`(\w+)[`=]", _text("tools").split("## Definitions")[0]))

    assert options - named == set()


# the codes of errors


def test_the_page_lists_each_code_once() -> None:
    """Each that the tools raise, and no other."""
    text = _text("tool-errors").split("## Codes")[1]
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)

    of_bad_refs: Mapping[type[BadRefError], str] = faults._REF_CODES
    assert sorted(listed) == sorted({*_written(), *of_bad_refs.values()})


def _written() -> Iterator[str]:
    """Yield the codes in the source, where an error is created."""
    for path in Path(errors.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            match call:
                case ast.Call(ast.Name("ToolError"), [ast.Constant(str(code)), *_]):
                    yield code


def test_each_code_has_a_function_of_its_name() -> None:
    """So the search for codes misses none; an overlap is a conflict."""
    functions = {name: each for name, each in vars(errors).items() if inspect.isfunction(each)}
    made = {
        n for n, each in functions.items() if each.__annotations__.get("return") == "ToolError"
    }
    own = {name for name in made if not name.startswith("_")}

    assert own == {*_written(), "overlap"}
