"""The table for people: on a console, and as a Markdown file.

Figures come in; the same cells go out in both forms, with what they were measured on in words
that say nothing of whose machine it was.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

import psycopg
import sqlalchemy
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine

from benchmarks.measure import Figure
from benchmarks.table import Row

_HEAD = ("what", "measured", "middle half", "at most", "medians: ours / theirs")

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
    table = Table(*_HEAD)
    for row, figure in measured:
        style = "" if figure.value <= row.at_most else "bold red"
        table.add_row(*_cells(row, figure), style=style)
    console.print(table)
    console.print(on)


def markdown(measured: Measured, on: str) -> str:
    """Return the table as Markdown."""
    lines = [_HEAD, ["---"] * len(_HEAD), *(_cells(row, figure) for row, figure in measured)]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"# Benchmarks\n\nMeasured by `python3 run.py benchmarks` on {on}.\n\n{rows}\n"


def _cells(row: Row, figure: Figure) -> list[str]:
    spread = figure.spread and " to ".join(f"{value:.2f}" for value in figure.spread)
    bound, unit = f"{row.at_most:g}", f" {row.unit}".rstrip()
    value = f"{figure.value:.2f}" if spread else f"{figure.value:g}"
    return [row.what, value + unit, spread or "", bound + unit, figure.detail]
