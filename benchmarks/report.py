"""The table for people: on a console, and as a Markdown file.

Figures come in; the same cells go out in both forms, with what they were measured on in words
that say nothing of whose machine it was.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Sequence
from pathlib import Path

import psycopg
import sqlalchemy
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine

from benchmarks.measure import Figure
from benchmarks.table import Row

RESULTS = Path(__file__).parent / "results"

_HEAD = ("what", "measured", "middle half", "at most", "by", "medians: ours / theirs")

Cells = Sequence[str]
"""The text of a line's cells."""

Measured = Sequence[tuple[Row, Figure]]


def described(engine: Engine) -> str:
    """Return what the figures were measured on."""
    with engine.connect() as connection:
        server = connection.exec_driver_sql("show server_version").scalar_one().split()[0]
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"SQLAlchemy {sqlalchemy.__version__}, psycopg {psycopg.__version__}, "
        f"PostgreSQL {server} on the same machine, fsync on"
    )


def show(console: Console, measured: Measured, on: str) -> None:
    """Print the table and what it was measured on."""
    over = {n for n, (row, figure) in enumerate(measured) if row.is_over(figure)}
    console.print(console_table(_HEAD, [_cells(*each) for each in measured], over), on)


def markdown(measured: Measured, on: str) -> str:
    """Return the table as Markdown."""
    table = markdown_table(_HEAD, [_cells(*each) for each in measured])
    return f"# Benchmarks\n\nMeasured by `python3 run.py benchmarks` on {on}.\n\n{table}"


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
