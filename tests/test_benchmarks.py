"""Tests for `python -m benchmarks`: that it measures and reports, never what it finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import __main__ as program


def test_every_row_is_measured_and_written_with_its_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has a figure and a bound in each row, on the console and in the file."""
    written = tmp_path / "results" / "table.md"

    code = program.main(["--rows", "20", "--repetitions", "2", "--write", str(written)])

    lines = [line for line in written.read_text("utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert code == 0
    assert [cell[0] for cell in cells] == [row.what for row in program.ROWS]
    assert all(
        re.fullmatch(r"\d+(\.\d+)?( x)?", value) for cell in cells for value in (cell[1], cell[3])
    )
    assert "PostgreSQL" in capsys.readouterr().out


def test_a_row_can_be_measured_alone(tmp_path: Path) -> None:
    """While one works on a row, the others need not be waited for."""
    written = tmp_path / "table.md"

    program.main(
        ["--only", "not_cached", "--rows", "2", "--repetitions", "2", "--write", str(written)]
    )

    assert written.read_text("utf-8").count("\n| ") == 3
