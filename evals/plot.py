"""The plot of a run: silent wrong writes with their intervals, and tokens, by arm.

Drawn by matplotlib, which the extra `eval` brings; without it there are tables and no plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchmarks.plot import STEADY
from evals.scores import Score


def draw(found: Sequence[Score], path: Path) -> bool:
    """Draw the scores of arms; tell whether there was something to draw with."""
    if find_spec("matplotlib") is None:
        return False
    with import_module("matplotlib").rc_context(STEADY):
        canvas = import_module("matplotlib.figure").Figure(
            figsize=(10, 1.2 + 0.45 * len(found)), layout="constrained"
        )
        silent, tokens = canvas.subplots(1, 2, sharey=True)
        for place, each in enumerate(found):
            shown = each.silent
            silent.hlines(
                place, 100 * shown.low, 100 * shown.high, color="tab:red", linewidth=6, alpha=0.35
            )
            silent.plot(100 * shown.part / shown.whole, place, "o", color="tab:red")
            tokens.barh(place, each.read, color="tab:blue", height=0.5)
        silent.set_yticks(range(len(found)), [each.arm for each in found])
        silent.invert_yaxis()
        silent.set_xlim(left=0)
        silent.set_xlabel("tasks with silent wrong writes, %; bar: 95 % interval")
        tokens.set_xlabel("tokens read, a task")
        canvas.savefig(path, metadata={"Date": None})
    return True
