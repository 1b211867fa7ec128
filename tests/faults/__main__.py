"""`python -m tests.faults`: a campaign on a durable server of its own, and its verdict."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.faults import report
from tests.faults.broken import STORES
from tests.faults.campaign import Campaign
from tests.postgres.server import crashing_server


def main(arguments: Sequence[str]) -> int:
    """Run a campaign, and return 1 if the registry broke a promise."""
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
        with console.status(f"things fail for {options.minutes:g} minutes"):
            verdict = campaign.run(options.minutes * 60)
    report.show(console, verdict)
    return int(not verdict.is_good)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--workers", type=int, default=6, help="at one time")
    parser.add_argument("--seed", type=int, default=0, help="of the order of things")
    parser.add_argument("--store", choices=list(STORES), default="", help="a broken one")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
