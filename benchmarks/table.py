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
        at_most: what its value should be; `None` where nothing is promised.
        measure: measures it.
        unit: of both.
    """

    what: str
    at_most: float | None
    measure: Callable[[Setting], Figure]
    unit: str = "x"

    def is_over(self, figure: Figure) -> bool:
        """Tell whether a figure is above the bound."""
        return self.at_most is not None and figure.value > self.at_most
