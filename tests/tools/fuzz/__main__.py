"""`python -m tests.tools.fuzz`: many calls on a server of its own, and what came of them."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine

from tests.postgres.server import embedded_server
from tests.tools.fuzz.found import Found
from tests.tools.fuzz.kinds import KINDS, Place, place_in


def main(arguments: Sequence[str]) -> int:
    """Make calls, and return 1 if something came of one that must not."""
    options = _parser().parse_args(arguments)
    logging.disable()  # it tells of each bad ref
    console = Console(width=None if sys.stdout.isatty() else 120)
    with embedded_server() as url:
        engine = create_engine(url)
        place = place_in(engine, options.seed)
        kinds = [options.kind] if options.kind else [*KINDS]
        if options.round is not None:
            kinds = kinds[:1]
        speeds = {
            kind: _speed(place, kind, options.calls, options.round, alone=bool(options.kind))
            for kind in kinds
        }
        engine.dispose()
    _show(console, place.found, speeds)
    return int(bool(place.found.wrong))


def _speed(place: Place, name: str, calls: int, only: int | None, *, alone: bool) -> float:
    """Make the calls of one kind, and return how many it made in a second."""
    kind, before, began = KINDS[name], place.found.done.total(), time.perf_counter()
    numbers = kind.rounds(int(calls / kind.share) if alone else calls)
    for number in numbers if only is None else [only]:
        kind.run(place, number, kind.size)
    return (place.found.done.total() - before) / (time.perf_counter() - began)


def _show(console: Console, found: Found, speeds: Mapping[str, float]) -> None:
    table = Table("what", "count")
    for what, count in sorted(found.done.items()):
        table.add_row(what, f"{count:,}")
    table.add_section()
    for kind, speed in speeds.items():
        table.add_row(f"{kind} in a second", f"{speed:,.0f}")
    table.add_section()
    table.add_row("must not have been", f"{len(found.wrong):,}")
    for way, count in found.ways.most_common(50):
        table.add_row(way, f"{count:,}", style="red")
    console.print(table)
    for wrong in found.wrong[:2000]:
        console.print(wrong, style="red", soft_wrap=True, markup=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000, help="of all kinds, about")
    parser.add_argument("--seed", type=int, default=0, help="of all choices")
    parser.add_argument("--kind", choices=list(KINDS), help="only calls of this kind")
    parser.add_argument("--round", type=int, help="only the calls of this round, of one kind")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
