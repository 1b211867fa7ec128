"""`python -m benchmarks`: measure every row, print the table, and write it to `results/`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import sqlalchemy
from rich.console import Console
from sqlalchemy import create_engine

from benchmarks import (
    alternatives,
    asking,
    calling,
    journaling,
    keeping,
    minting,
    opening,
    ordering,
    plot,
    querying,
    reading,
    report,
    telling,
)
from benchmarks.population import Populated
from benchmarks.setting import SERVER, set_up
from tests.postgres.server import embedded_server

ROWS = (
    *reading.ROWS,
    *asking.ROWS,
    *calling.ROWS,
    *querying.ROWS,
    *telling.ROWS,
    *ordering.ROWS,
    *minting.ROWS,
    *opening.FULL_ROWS,
    *minting.FULL_ROWS,
    *keeping.ROWS,
    *journaling.ROWS,
)


def main(arguments: Sequence[str]) -> int:
    """Measure what `arguments` ask for, on a server of our own."""
    options = _parser().parse_args(arguments)
    begun = _load()
    with embedded_server(durable=True, settings=SERVER) as url:
        engine, bare = create_engine(url), create_engine(url)
        populated = Populated(engine, options.mappings, Console(stderr=True))
        setting = set_up(
            engine, bare, populated, rows=options.rows, repetitions=options.repetitions
        )
        measured = [
            (row, row.measure(setting)) for row in ROWS if options.only in row.measure.__name__
        ]
        found = report.Report(measured, [], report.described(engine), (begun, _load()))
        # what was measured stays, should another package fail
        _write(options.write, found)
        if options.only in alternatives.__name__:
            beside = alternatives.lines(engine, options.rows)
            found = replace(found, beside=beside, load=(begun, _load()))
        for each in (populated, engine, bare):
            each.dispose()
    report.show(Console(width=None if sys.stdout.isatty() else 160), found)
    _write(options.write, found)
    return 0


def _load() -> float:
    """Return how many programs wanted to run, on average over the last minute."""
    return os.getloadavg()[0]


def _write(path: Path, found: report.Report) -> None:
    """Write the tables, and the plot beside them."""
    path.parent.mkdir(exist_ok=True)
    drawn = plot.draw(found.measured, path.with_suffix(".svg"))
    path.write_text(
        report.markdown(found, path.with_suffix(".svg").name if drawn else None), "utf-8"
    )


def _parser() -> argparse.ArgumentParser:
    series = ".".join(sqlalchemy.__version__.split(".")[:2])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000, help="in each table")
    parser.add_argument("--repetitions", type=int, default=80, help="of each side, at least 2")
    parser.add_argument("--mappings", type=int, default=10_000_000, help="in the full registry")
    parser.add_argument("--only", default="", help="rows whose function has this in its name")
    parser.add_argument("--write", type=Path, default=report.RESULTS / f"sqlalchemy-{series}.md")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
