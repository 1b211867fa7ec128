"""The table for people: on a console, and as a Markdown file.

Figures come in; the same cells go out in both forms, with what they were measured on in words
that say nothing of whose machine it was.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import sqlalchemy
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine

from benchmarks import alternatives
from benchmarks.measure import Figure
from benchmarks.table import Row

RESULTS = Path(__file__).parent / "results"

_CORES = os.cpu_count() or 1

_HEAD = ("what", "measured", "middle half", "at most", "by", "medians: ours / theirs")

Cells = Sequence[str]
"""The text of a line's cells."""


def described(engine: Engine) -> str:
    """Return what the figures were measured on."""
    with engine.connect() as connection:
        server = connection.exec_driver_sql("show server_version").scalar_one().split()[0]
        buffers = connection.exec_driver_sql("show shared_buffers").scalar_one()
    return (
        f"{_CORES} cores ({platform.machine()}), {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"SQLAlchemy {sqlalchemy.__version__}, psycopg {psycopg.__version__}, "
        f"PostgreSQL {server} on the same machine, fsync on, "
        f"shared_buffers {buffers}"
    )


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found.

    Attributes:
        measured: the rows of the table, each with its figure.
        beside: the lines of the table of other packages, if they were measured.
        on: what all was measured on.
        load: the load average when the run began and when it ended.
    """

    measured: Sequence[tuple[Row, Figure]]
    beside: Sequence[Cells]
    on: str
    load: tuple[float, float]

    @property
    def warning(self) -> str:
        """What to say if other programs were at work: the run itself keeps all cores busy."""
        begun, ended = self.load
        if begun <= _CORES / 2 and ended <= _CORES * 1.5:
            return ""
        return "Warning: other programs were at work; what went by the clock may be off."

    @property
    def surroundings(self) -> str:
        """Where and when the figures were true."""
        begun, ended = self.load
        return f"{self.on}; load average {begun:.1f} at the start, {ended:.1f} at the end"


def show(console: Console, found: Report) -> None:
    """Print the tables and what was measured on."""
    if found.measured:
        lines = [_cells(*each) for each in found.measured]
        over = {n for n, (row, figure) in enumerate(found.measured) if row.is_over(figure)}
        console.print(console_table(_HEAD, lines, over))
    if found.beside:
        console.print(console_table(alternatives.HEAD, found.beside))
    console.print(found.surroundings)
    if found.warning:
        console.print(found.warning, style="bold red")


def markdown(found: Report, plot: str | None) -> str:
    """Return all as Markdown, with a plot if there is a file of that name."""
    parts = [
        "# Benchmarks",
        f"Measured by `python3 run.py benchmarks` on {found.surroundings}.",
        f"**{found.warning}**" if found.warning else "",
        markdown_table(_HEAD, [_cells(*each) for each in found.measured]),
        f"![ratios, the middle half of the repetitions, and bounds]({plot})" if plot else "",
    ]
    if found.beside:
        parts += [
            "## Beside other packages",
            markdown_table(alternatives.HEAD, found.beside),
            alternatives.LEGEND,
        ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def console_table(head: Cells, lines: Sequence[Cells], over: Collection[int] = ()) -> Table:
    """Return a table for a console, with the lines in red that are over their bound."""
    table = Table(*head)
    for number, line in enumerate(lines):
        table.add_row(*line, style="bold red" if number in over else "")
    return table


def markdown_table(head: Cells, lines: Sequence[Cells]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *lines))


def _cells(row: Row, figure: Figure) -> list[str]:
    spread = figure.spread and " to ".join(f"{value:.2f}" for value in figure.spread)
    unit = f" {row.unit}".rstrip()
    bound = "" if row.at_most is None else f"{row.at_most:g}{unit}"
    value = f"{figure.value:.2f}" if spread else f"{figure.value:.0f}"
    return [row.what, value + unit, spread or "", bound, figure.by, figure.detail]
