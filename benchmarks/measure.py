"""Two sides in one process, timed alternately.

Two functions come in, each doing the same work in its way; a `Comparison` of many repetitions
goes out. A machine's moods last longer than a repetition, so they meet both sides, and medians
leave out the rest.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

_WARM_UP = 3  # repetitions that are not counted

Side = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Figure:
    """What a row of the table says.

    Attributes:
        value: is held against the row's bound.
        by: what it was measured with: a clock, tracemalloc, the server.
        detail: what the value was made of, in a few words.
        spread: between which values the middle half of the repetitions is; none if there is one.
    """

    value: float
    by: str
    detail: str
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """What one side took in each repetition, in seconds for each time its work was done."""

    ours: Sequence[float]
    theirs: Sequence[float]

    @property
    def ratio(self) -> float:
        """How many times theirs ours takes, by the medians."""
        return median(self.ours) / median(self.theirs)

    @property
    def spread(self) -> tuple[float, float]:
        """Between which ratios the middle half of the repetitions is, pair by pair."""
        pairs = zip(self.ours, self.theirs, strict=True)
        low, _, high = quantiles([ours / theirs for ours, theirs in pairs], n=4)
        return low, high

    def __str__(self) -> str:
        """Return the medians of both sides, in milliseconds."""
        return f"{median(self.ours) * 1e3:.3f} / {median(self.theirs) * 1e3:.3f} ms"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides that did the same work.

    Attributes:
        cpu: of this process: there is no waiting in it, for the server or for other programs.
        wall: on the clock, the server's work included.
    """

    cpu: Times
    wall: Times

    def by_cpu(self) -> Figure:
        """Return how many times the other side's CPU time ours takes: work is done in Python."""
        detail = f"{self.cpu}; clock {self.wall}, {self.wall.ratio:.2f} x"
        return Figure(self.cpu.ratio, "CPU", detail, self.cpu.spread)

    def by_clock(self) -> Figure:
        """Return how many times the other side's time ours takes: work is done by the server."""
        detail = f"{self.wall}; CPU {self.cpu}, {self.cpu.ratio:.2f} x"
        return Figure(self.wall.ratio, "clock", detail, self.wall.spread)


def times_called(repetitions: int) -> int:
    """Return how often `side_by_side` calls each side: as much work is to be laid out for it."""
    return _WARM_UP + repetitions


def side_by_side(ours: Side, theirs: Side, *, repetitions: int, calls: int = 1) -> Comparison:
    """Time two sides alternately.

    Args:
        ours: does the work with the package.
        theirs: does the same work without it.
        repetitions: how often each side is timed; at least 2.
        calls: how often a side does its work while it is timed once.
    """
    for _ in range(_WARM_UP):
        ours()
        theirs()
    taken: dict[Side, list[tuple[float, float]]] = {ours: [], theirs: []}
    # what is there already is of no interest to the collector, whichever side makes it run
    gc.collect()
    gc.freeze()
    try:
        for repetition in range(repetitions):
            for side in (ours, theirs) if repetition % 2 else (theirs, ours):
                taken[side].append(_timed(side, calls))
    finally:
        gc.unfreeze()
    cpu, wall = (
        Times(*([each[clock] for each in taken[side]] for side in (ours, theirs)))
        for clock in (0, 1)
    )
    return Comparison(cpu, wall)


def _timed(side: Side, calls: int) -> tuple[float, float]:
    """Return CPU and clock seconds of a call; the collector stays on, as in an application."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        side()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu / calls, wall / calls
