"""The tasks: six families, each task made from a seed, in words that name no id.

>>> task_of("writing", 7, kitchen).turns
["'Beef Goulash' serves 8. Please put that right."]

A task has what the user says, turn by turn, a program by which the scripted model does it, and how
the kitchen must be at its end. `pool` has what they are made of.

| family | what is done |
| --- | --- |
| `lookup` | something is looked up in two turns, and used in the third |
| `writing` | one row is changed or deleted |
| `batch` | several rows are written in one call |
| `drafts` | a draft is saved, then given rows of its own |
| `like names` | rows that have one name are told apart |
| `long` | rows are used turns after they were shown, with 200 ids and more at hand |
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from evals.kitchen import Kitchen
from evals.tasks.few import like_names, lookup, writing
from evals.tasks.many import batch, drafts, long
from evals.tasks.pool import Made as Made, Pool as Pool, Task as Task

FAMILIES: Final[Mapping[str, Callable[[Pool], Made]]] = {
    "lookup": lookup,
    "writing": writing,
    "batch": batch,
    "drafts": drafts,
    "like names": like_names,
    "long": long,
}
"""What makes a task of each."""

_MOST: Final = 100_000  # tasks of a family, of one seed


def task_of(family: str, number: int, kitchen: Kitchen) -> Task:
    """Return a task: the same for the same number."""
    chance = random.Random(f"{family} {number}")  # noqa: S311  # no secret
    made = FAMILIES[family](Pool(kitchen, chance))
    return Task(family, number, made.turns, made.program, made.end, made.drafts)


def tasks_of(count: int, seed: int, kitchen: Kitchen) -> list[Task]:
    """Return so many tasks, of all families in turn."""
    names = [*FAMILIES]
    return [
        task_of(names[n % len(names)], seed * _MOST + n // len(names), kitchen)
        for n in range(count)
    ]
