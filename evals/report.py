"""The tables of a run, as Markdown: by arm, by kind of slip, and tokens by family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.report import markdown_table
from evals.channel import KINDS
from evals.scores import Score, scores
from evals.tasks import FAMILIES
from evals.trials import Trial

_SAID = (
    "Made by `python3 run.py evals` ({}). In brackets: Wilson intervals of 95 %. A silent wrong "
    "write is one to a row that the task does not mean, or that refers to such a row, and that "
    "was not refused. Tokens are those of o200k_base, a task: read in all requests, read once "
    "each, written."
)

_LATER = (
    "`later` are calls that wrote so without a slip of their own, such as lines of a draft that "
    "was not meant."
)


def markdown(
    trials: Sequence[Trial], arms: Sequence[str], setting: Mapping[str, Any], plot: str | None
) -> str:
    """Return the tables of a run, with a plot if there is a file of that name."""
    found = scores(trials, arms)
    most = max(len(each.passed) for each in found)
    kinds = [kind for kind in KINDS if any(kind in each.of_kind for each in found)]
    parts = [
        "# Evals",
        _SAID.format(_listed(setting)),
        markdown_table(_head(most), [_line(each, most) for each in found]),
        f"![silent wrong writes and tokens, by arm]({plot})" if plot else "",
        "## Calls and tokens, a task",
        markdown_table(_WORK, [_work(each) for each in found]),
    ]
    if kinds:
        parts += [
            "## Silent wrong writes, of slips of a kind",
            _LATER,
            markdown_table(("arm", *kinds, "later"), [_by_kind(each, kinds) for each in found]),
        ]
    parts += [
        "## Tokens by family, a task",
        markdown_table(*_by_family(trials, arms)),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _listed(setting: Mapping[str, Any]) -> str:
    said = {name: value for name, value in setting.items() if name != "rates"}
    rates = [f"{kind} {rate}" for kind, rate in setting["rates"].items() if rate]
    said["slips an id"] = ", ".join(rates) or "none"
    return "; ".join(f"{name}: {value}" for name, value in said.items())


def _head(most: int) -> list[str]:
    return [
        "arm",
        "end state met",
        *(f"pass^{k}" for k in range(2, most + 1)),
        "with silent wrong writes",
        "met after a refusal",
    ]


def _line(each: Score, most: int) -> list[str]:
    passed = [f"{100 * value:.1f} %" for value in each.passed[1:]]
    return [
        each.arm,
        str(each.met),
        *passed,
        *["-"] * (most - len(each.passed)),
        str(each.silent),
        str(each.recovered),
    ]


_WORK = ("arm", "refused", "calls", "requests", "tokens read", "once each", "written")


def _work(each: Score) -> list[str]:
    return [
        each.arm,
        f"{each.refused:.3f}",
        f"{each.calls:.2f}",
        f"{each.requests:.2f}",
        f"{each.read:,.0f}",
        f"{each.new:,.0f}",
        f"{each.written:,.0f}",
    ]


def _by_kind(each: Score, kinds: Sequence[str]) -> list[str]:
    cells = [str(each.of_kind[kind]) if kind in each.of_kind else "-" for kind in kinds]
    return [each.arm, *cells, str(each.later)]


def _by_family(
    trials: Sequence[Trial], arms: Sequence[str]
) -> tuple[Sequence[str], list[Sequence[str]]]:
    there = {each.family for each in trials}
    families = [family for family in FAMILIES if family in there]
    lines: list[Sequence[str]] = []
    for arm in arms:
        cells = [arm]
        for family in families:
            these = [each for each in trials if (each.arm, each.family) == (arm, family)]
            if these:
                read = mean(each.tokens_in for each in these)
                new = mean(each.tokens_new for each in these)
                written = mean(each.tokens_out for each in these)
                cells.append(f"{read:,.0f} / {new:,.0f} / {written:,.0f}")
            else:
                cells.append("-")
        lines.append(cells)
    return ["arm: read / once / written", *families], lines
