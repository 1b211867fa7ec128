"""The table: its rows, each with what it measures, the bound that it is held against, and how.

To add a row, write a function from a `Setting` to a `Figure` and list it in `__main__`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.measure import Figure
from benchmarks.setting import Setting


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Attributes:
        what: is measured.
        at_most: what its value should be.
        measure: measures it.
        unit: of both.
    """

    what: str
    at_most: float
    measure: Callable[[Setting], Figure]
    unit: str = "x"
