"""`python -m tests.tools.sql`: many queries on a server of its own, and what came of them."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine

from tests.postgres.server import embedded_server
from tests.tools.sql.campaign import Found, run
from tests.tools.sql.costs import Cost, costs_of
from tests.tools.sql.world import World


def main(arguments: Sequence[str]) -> int:
    """Run queries, and return 1 if one gave other rows than its text."""
    options = _parser().parse_args(arguments)
    warnings.simplefilter("ignore")
    console = Console(width=None if sys.stdout.isatty() else 160)
    with embedded_server() as url:
        engine = create_engine(url)
        if options.costs:
            costs = costs_of(World(engine), options.costs, options.seed)
            _show_costs(console, costs)
            return int(any(each.is_too_much for each in costs))
        found = run(World(engine), options.queries, options.seed, options.only)
        engine.dispose()
    _show(console, found)
    return int(bool(found.wrong))


def _show_costs(console: Console, costs: Sequence[Cost]) -> None:
    table = Table("seconds", "MB", "text", "answer")
    largest = max(costs, key=lambda cost: cost.size)
    for each in [*costs[:10], largest, *(cost for cost in costs[10:] if cost.is_too_much)]:
        size = f"{each.size / 1e6:.0f}"
        table.add_row(f"{each.seconds:.3f}", size, f"{len(each.sql)}: {each.sql:.120}", each.told)
    console.print(table)


def _show(console: Console, found: Found) -> None:
    table = Table("what", "count", "refused")
    for outcome, count in sorted(found.outcomes.items()):
        table.add_row(outcome, f"{count:,}", "")
    table.add_section()
    for construct, count in sorted(found.made.items()):
        share = found.refused[construct] / count
        table.add_row(construct, f"{count:,}", f"{share:.1%}" if share else "")
    table.add_section()
    for reason, count in found.reasons.most_common(30):
        table.add_row(reason, f"{count:,}", "")
    console.print(table)
    for sql in list(found.examples.values())[:30]:
        console.print(sql, soft_wrap=True, markup=False)
    for wrong in found.wrong[:50]:
        console.print(wrong, style="red", soft_wrap=True, markup=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.sql", description=__doc__)
    parser.add_argument("--queries", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of all choices")
    parser.add_argument("--costs", type=int, help="time and weigh so many texts instead")
    parser.add_argument("--only", type=int, help="the one of this number")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
