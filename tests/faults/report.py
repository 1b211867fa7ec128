"""A verdict as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from tests.faults.verdict import Verdict


def show(console: Console, verdict: Verdict) -> None:
    """Print what happened, what workers were told, and what must not have happened."""
    table = Table("what", "count", "must be")
    for what, count in verdict.done.items():
        table.add_row(what, f"{count:,}", "")
    table.add_section()
    for what, count in sorted(verdict.errors.items()):
        table.add_row(f"told: {what}", f"{count:,}", "")
    table.add_section()
    for what, count in verdict.wrong.items():
        table.add_row(what, f"{count:,}", "0", style="bold red" if count else "green")
    console.print(table)
    for example in verdict.examples:
        console.print(example, style="red", soft_wrap=True, markup=False)
