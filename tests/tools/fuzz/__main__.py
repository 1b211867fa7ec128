"""`python -m tests.tools.fuzz`: many calls on a server of its own, and what came of them."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine, create_engine

from alfred_refs import RefRegistry
from tests import owned
from tests.models import Base
from tests.postgres.server import embedded_server
from tests.tools.fuzz.campaign import ROUND, Campaign
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.owned import OwnedRound
from tests.tools.fuzz.world import World


def main(arguments: Sequence[str]) -> int:
    """Make calls, and return 1 if something came of one that must not."""
    options = _parser().parse_args(arguments)
    logging.disable()  # it tells of each bad ref
    console = Console(width=None if sys.stdout.isatty() else 120)
    with embedded_server() as url:
        engine = create_engine(url)
        Base.metadata.create_all(engine)
        registry = RefRegistry(engine)
        registry.create_tables()
        campaign = Campaign(World(engine), registry, options.seed)
        with console.status(f"{options.calls:,} calls"):
            found = campaign.run(options.calls, options.round)
            if options.round is None:
                _run_owned(engine, options.calls // 5, options.seed, found)
        engine.dispose()
    _show(console, found)
    return int(bool(found.wrong))


def _run_owned(engine: Engine, calls: int, seed: int, found: Found) -> None:
    """Make calls on behalf of one of two owners, whose tables are in the place of the others."""
    for number in range(-(-calls // ROUND)):
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
        owned.Base.metadata.create_all(engine)
        OwnedRound(engine, 1_000 * seed + number, found).run(ROUND)


def _show(console: Console, found: Found) -> None:
    table = Table("what", "count")
    for what, count in sorted(found.done.items()):
        table.add_row(what, f"{count:,}")
    table.add_section()
    table.add_row("must not have been", f"{len(found.wrong):,}")
    console.print(table)
    for wrong in found.wrong[:2000]:
        console.print(wrong, style="red", soft_wrap=True, markup=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of all choices")
    parser.add_argument("--round", type=int, help="only the calls of this round")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
