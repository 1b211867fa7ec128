"""Tests for `python -m examples.agent`: an agent of ten turns, by its prompts alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.agent import SAID
from examples.kitchen.demo import ROOT
from examples.kitchen.show import WIDTH

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.fix_kitchen"]


@pytest.mark.usefixtures("extensions")
def test_the_agent_ends_well(database_url: str, tmp_path: Path) -> None:
    """Each turn is a process; no prompt has a key, and each tells what it must."""
    agent = subprocess.run(
        [sys.executable, "-m", "examples.agent", "--prompts", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert agent.returncode == 0, agent.stdout + agent.stderr
    assert agent.stdout.count("none found") == 4
    assert max(map(len, agent.stdout.splitlines())) <= WIDTH
    assert "Done: change Lentil soup." in agent.stdout
    turns = {file.name.partition("-")[0] for file in tmp_path.glob("*.md")}
    planned = {file.name for file in tmp_path.glob("*-think.md")}
    assert planned == {f"{number}-think.md" for number in (1, 2, 4, 5, 7, 8, 9, 10)}
    assert turns == {str(number) for number in range(1, len(SAID) + 1)}
