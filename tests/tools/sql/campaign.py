"""Many queries, each judged by its own text, and what came of them by construct."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field

from tests.tools.sql.generator import Generator
from tests.tools.sql.judge import judge
from tests.tools.sql.world import ANN, BOB, SECRET, World

_HIDDEN = re.compile(rf"{SECRET} \d")  # what the hidden column has


@dataclass(slots=True)
class Found:
    """What came of queries.

    Attributes:
        outcomes: how often each.
        refused: by construct, how many of its queries were refused that the text answers.
        made: by construct, how many there were.
        reasons: by what the model is told, how many were refused.
        wrong: what must not have been.
        examples: a query for each of the reasons.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    examples: dict[str, str] = field(default_factory=dict)


def run(world: World, queries: int, seed: int, only: int | None = None) -> Found:
    """Judge so many queries, or the one of a number."""
    found = Found()
    for number in range(queries) if only is None else [only]:
        generator = Generator(random.Random(f"{seed}-{number}"))  # noqa: S311
        sql, in_order = generator.query()
        verdict = judge(world, sql, (ANN, BOB)[number % 2], in_order=in_order)
        found.outcomes[verdict.outcome] += 1
        found.made.update(generator.used)
        if verdict.outcome == "refused":
            found.refused.update(generator.used)
            reason = verdict.told["error"]["message"]
            found.reasons[reason[:160]] += 1
            found.examples.setdefault(reason, sql)
        if verdict.outcome == "different" or _HIDDEN.search(str(verdict.told)):
            rows = f"told {verdict.told.get('rows')!s:.300} not {verdict.expected!s:.300}"
            found.wrong.append(f"{seed}-{number}: {sql}\n    {rows}")
        elif verdict.outcome == "taken":
            found.reasons[f"taken, though: {verdict.expected!s:.90}"] += 1
    return found
