"""Tests for `python -m examples.agent`: an agent of ten turns, by its prompts alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from examples import agent
from examples.agent import SAID
from examples.kitchen.show import WIDTH
from tests.forks import printed

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.fix_kitchen"]

FIRST = "1"


@pytest.mark.usefixtures("extensions")
def test_the_agent_ends_well(
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each turn is a process; no prompt has a key, and each tells what it must."""

    def start(program: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the first turn as a program, and fork the others, which is faster."""
        assert program[:3] == [sys.executable, "-m", agent.__name__]
        if FIRST in program:
            return subprocess.run(program, **options)  # noqa: PLW1510  # it is among the options
        output = printed(agent.__name__, program[3:], database_url)
        return subprocess.CompletedProcess(program, 0, output)

    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setattr(agent, "subprocess", SimpleNamespace(run=start, PIPE=subprocess.PIPE))
    code = agent.main(["--prompts", str(tmp_path)])
    shown = capsys.readouterr().out
    assert code == 0, shown
    assert shown.count("none found") == 4
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert "Done: change Lentil soup." in shown
    turns = {file.name.partition("-")[0] for file in tmp_path.glob("*.md")}
    planned = {file.name for file in tmp_path.glob("*-think.md")}
    assert planned == {f"{number}-think.md" for number in (1, 2, 4, 5, 7, 8, 9, 10)}
    assert turns == {str(number) for number in range(1, len(SAID) + 1)}
