"""`python -m tests.isolation`: run random programs on a server of its own; print the outcomes."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine

from tests.isolation import world
from tests.isolation.campaign import Campaign, Found
from tests.postgres.server import embedded_server


def main(arguments: Sequence[str]) -> int:
    """Run programs; return 1 if an owned session differs from the policies."""
    options = _parser().parse_args(arguments)
    logging.disable()
    warnings.simplefilter("ignore")
    console = Console(width=None if sys.stdout.isatty() else 160)
    with embedded_server() as url:
        engine = create_engine(url)
        world.make(engine)
        campaign = Campaign(engine, options.seed)
        found = campaign.run(1 if options.only is not None else options.calls, options.only or 0)
        engine.dispose()
    _show(console, found)
    return int(bool(found.wrong))


def _show(console: Console, found: Found) -> None:
    table = Table("what", "count")
    for counts in (found.done, found.kinds, found.ways):
        for what, count in sorted(counts.items(), key=lambda pair: -pair[1])[:60]:
            table.add_row(what, f"{count:,}")
        table.add_section()
    table.add_row("differences", f"{len(found.wrong):,}")
    console.print(table)
    for wrong in found.wrong[:300]:
        console.print(wrong, style="red", soft_wrap=True, markup=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.isolation", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help="number of programs")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices")
    parser.add_argument("--only", type=int, help="run only the program of this number")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
