"""`docs/cli.md`: each command on the page is run, in order, and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from sqlalchemy import Engine

from alfred_refs.cli.commands import alfred_refs
from alfred_refs.store import schema
from tests.cli.seed import run, seed

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCKS = re.compile(r"```console\n(.*?)```", re.DOTALL)
MODULE = re.compile(r"With this `(\w+\.py)`:\n\n```python\n(.*?)```", re.DOTALL)

# what differs from one time, one server and one version of the tables to another
DIFFERS = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+"), "<moment>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"), "<moment>"),
    (re.compile(r"[\d.]+ kB"), "<size>"),
    (re.compile(r'(_bytes": )\d+'), r"\1<size>"),
    (re.compile(r'(revision(?:": ")? ?)\d{4}'), r"\1<revision>"),
]


def without_differences(text: str) -> str:
    """Return text with a word in place of each moment, size and revision."""
    for pattern, word in DIFFERS:
        text = pattern.sub(word, text)
    return text


def commands() -> list[str]:
    """Return the commands of the page."""
    blocks = "".join(BLOCKS.findall(PAGE.read_text("utf-8")))
    return [line.removeprefix("$ ") for line in blocks.splitlines() if line.startswith("$ ")]


def printed(engine: Engine, command: str) -> str:
    """Return what a line of the page prints, on a terminal or not."""
    name, *arguments = shlex.split(command)
    assert name == "alfred-refs"
    result = run(engine, *arguments)
    assert result.exit_code == (1 if result.stderr else 0), result.output
    return f"$ {command}\n{result.output}"


@pytest.mark.slow
def test_the_examples_of_the_page_run(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks in order, on one registry."""
    monkeypatch.chdir(tmp_path)
    [(name, module)] = MODULE.findall(PAGE.read_text("utf-8"))
    (tmp_path / name).write_text(module)
    schema.migrate(engine.url)
    seed(engine)

    actual = "".join(printed(engine, command) for command in commands())

    promised = "".join(BLOCKS.findall(PAGE.read_text("utf-8")))
    assert without_differences(actual) == without_differences(promised)


def test_the_page_has_every_command() -> None:
    """Each is in the table and in an example, but those that need logs or a client."""
    shown = {shlex.split(command)[1] for command in commands()}
    listed = set(re.findall(r"^\| `([a-z]+)", PAGE.read_text("utf-8"), re.MULTILINE))

    assert shown | {"audit", "inspect", "mcp"} == listed == set(alfred_refs.commands)
