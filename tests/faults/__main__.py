"""`python -m tests.faults`: run a campaign on a durable server, and print the verdict."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.broken import STORES
from tests.faults.campaign import Campaign
from tests.faults.verdict import Verdict
from tests.postgres.server import crashing_server


def main(arguments: Sequence[str]) -> int:
    """Run a campaign; return 1 if the registry broke a promise."""
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    with crashing_server(durable=True) as server, tempfile.TemporaryDirectory() as directory:
        campaign = Campaign(
            server,
            Path(directory),
            workers=options.workers,
            seed=options.seed,
            store=options.store,
        )
        with console.status(f"injecting faults for {options.minutes:g} minutes"):
            verdict = campaign.run(options.minutes * 60)
    _show(console, verdict)
    return int(not verdict.is_good)


def _show(console: Console, verdict: Verdict) -> None:
    """Print the counts of events, errors and broken promises."""
    table = Table("what", "count", "must be")
    for what, count in verdict.done.items():
        table.add_row(what, f"{count:,}", "")
    table.add_section()
    for what, count in sorted(verdict.errors.items()):
        table.add_row(f"error: {what}", f"{count:,}", "")
    table.add_section()
    for what, count in verdict.wrong.items():
        table.add_row(what, f"{count:,}", "0", style="bold red" if count else "green")
    console.print(table)
    for example in verdict.examples:
        console.print(example, style="red", soft_wrap=True, markup=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--workers", type=int, default=6, help="number of processes")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults")
    parser.add_argument("--store", choices=list(STORES), default="", help="use a broken store")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
