"""The plot: each ratio with the middle half of its repetitions, and its bound.

Drawn by matplotlib, which the extra `bench` brings; without it there is a table and no plot.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from benchmarks.table import Row

_LABEL = 60  # characters in a line of a row's label
_INCHES = 0.62  # for each row

# what would else differ from run to run: ids of elements, and the time
STEADY = {"svg.hashsalt": "alfred_refs", "svg.fonttype": "none"}


def draw(measured: Sequence[tuple[Row, Figure]], path: Path) -> bool:
    """Draw the rows that are ratios; tell whether there was anything to draw, and with what."""
    ratios = [(row, figure) for row, figure in measured if figure.spread is not None]
    if not ratios or find_spec("matplotlib") is None:
        return False
    with import_module("matplotlib").rc_context(STEADY):
        canvas = import_module("matplotlib.figure").Figure(
            figsize=(9, 1 + _INCHES * len(ratios)), layout="constrained"
        )
        axes = canvas.subplots()
        for place, (row, figure) in enumerate(ratios):
            _draw_row(axes, place, row, figure)
        axes.axvline(1, color="0.8", zorder=0)
        axes.set_yticks(
            range(len(ratios)), ["\n".join(textwrap.wrap(row.what, _LABEL)) for row, _ in ratios]
        )
        axes.invert_yaxis()
        axes.set_xlabel("times what it is compared with; bar: middle half; red: at most")
        canvas.savefig(path, metadata={"Date": None})
    return True


def _draw_row(axes: Any, place: int, row: Row, figure: Figure) -> None:
    low, high = figure.spread or (figure.value, figure.value)
    axes.hlines(place, low, high, color="tab:blue", linewidth=6, alpha=0.35)
    axes.plot(figure.value, place, "o", color="tab:blue")
    if row.at_most is not None:
        axes.vlines(row.at_most, place - 0.35, place + 0.35, color="tab:red", linewidth=2)
