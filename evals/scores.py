"""What trials come to, arm by arm: shares with their intervals, and means.

>>> share(3, 200)
Share(part=3, whole=200, low=0.0051, high=0.0431)

Intervals are Wilson's, of 95 %. A share says of how many it is; no more than that is claimed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import mean
from typing import Final

from evals.channel import KINDS
from evals.trials import Trial

_Z: Final = 1.959964  # of 95 %


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many, and between what the true share may well be."""

    part: int
    whole: int
    low: float
    high: float

    def __str__(self) -> str:
        if not self.whole:
            return "-"
        return (
            f"{100 * self.part / self.whole:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}] "
            f"({self.part}/{self.whole})"
        )


@dataclass(frozen=True, slots=True)
class Score:
    """What the trials of one arm come to.

    Attributes:
        arm: its name.
        met: trials that left the kitchen as they must.
        passed: pass^k for k from 1: the chance that k trials of a task are all met.
        silent: trials in which a row was written that was not meant, and nothing said so.
        of_kind: by kind of slip, those that wrote so, of all such slips.
        later: calls that wrote so without a slip of their own.
        recovered: trials that were met though calls were refused, of those where some were.
        refused: calls a trial.
        calls: a trial.
        requests: a trial.
        read: tokens a trial, in all requests.
        written: tokens a trial.
        new: tokens a trial that were read, each text once.
    """

    arm: str
    met: Share
    passed: Sequence[float]
    silent: Share
    of_kind: dict[str, Share]
    later: int
    recovered: Share
    refused: float
    calls: float
    requests: float
    read: float
    written: float
    new: float


def share(part: int, whole: int) -> Share:
    """Return a share with Wilson's interval of 95 %."""
    if not whole:
        return Share(part, whole, 0, 1)
    p, z2 = part / whole, _Z**2 / whole
    middle = (p + z2 / 2) / (1 + z2)
    half = _Z * sqrt(p * (1 - p) / whole + z2 / (4 * whole)) / (1 + z2)
    return Share(part, whole, max(0.0, middle - half), min(1.0, middle + half))


def passed(trials: Sequence[Trial], k: int) -> float:
    """Return pass^k: the mean over tasks of C(met, k) / C(made, k)."""
    made = Counter(each.task for each in trials)
    met = Counter(each.task for each in trials if each.met)
    return mean(comb(met[task], k) / comb(count, k) for task, count in made.items())


def score(arm: str, trials: Sequence[Trial]) -> Score:
    """Return what the trials of an arm come to."""
    # tasks of a run that was cut short may have fewer
    least = min(Counter(each.task for each in trials).values())
    slips, strays = Counter[str](), Counter[str]()
    for each in trials:
        slips.update(each.slips)
        strays.update(each.strays)
    with_refusals = [each for each in trials if each.refused]
    return Score(
        arm,
        met=share(sum(each.met for each in trials), len(trials)),
        passed=[passed(trials, k) for k in range(1, least + 1)],
        silent=share(sum(bool(each.strays) for each in trials), len(trials)),
        of_kind={kind: share(strays[kind], slips[kind]) for kind in KINDS if slips[kind]},
        later=sum(count for kind, count in strays.items() if kind not in slips),
        recovered=share(sum(each.met for each in with_refusals), len(with_refusals)),
        refused=mean(each.refused for each in trials),
        calls=mean(each.calls for each in trials),
        requests=mean(each.requests for each in trials),
        read=mean(each.tokens_in for each in trials),
        written=mean(each.tokens_out for each in trials),
        new=mean(each.tokens_new for each in trials),
    )


def scores(trials: Iterable[Trial], arms: Iterable[str]) -> list[Score]:
    """Return what trials come to, by arms, as far as there are some of each."""
    of_arm: dict[str, list[Trial]] = defaultdict(list)
    for each in trials:
        of_arm[each.arm].append(each)
    return [score(arm, of_arm[arm]) for arm in arms if of_arm[arm]]
