"""Trials, and the file that keeps them: one JSON object a line, the run's setting first.

A run that was cut short goes on where it stopped: trials that are in the file are not made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one task in one arm.

    Attributes:
        task: its name.
        family: of the task.
        arm: its name.
        number: which trial of several it is.
        met: whether the kitchen was left as it must be.
        strays: the slips by which rows were written that were not meant, by kind; `later` for a
            call without slips that followed from one, `other` where none is known.
        slips: how many there were, by kind.
        refused: calls that were refused.
        calls: of tools.
        requests: to the model.
        tokens_in: that the model read, in all requests.
        tokens_out: that it wrote.
        tokens_new: of what it read, each text once.
        cost: in US dollars, of a model with a price.
        stopped: whether the model went round in circles, or failed.
    """

    task: str
    family: str
    arm: str
    number: int
    met: bool
    strays: Sequence[str]
    slips: Mapping[str, int]
    refused: int
    calls: int
    requests: int
    tokens_in: int
    tokens_out: int
    tokens_new: int
    cost: float = 0.0
    stopped: bool = False

    @property
    def place(self) -> tuple[str, str, int]:
        """What tells it from others of a run."""
        return self.task, self.arm, self.number


class TrialFile:
    """The trials of one run.

    Args:
        path: of the file, made if it is not there.
        setting: what the run was asked for: all that its figures depend on.

    Raises:
        ValueError: it has the trials of another run.
    """

    def __init__(self, path: Path, setting: Mapping[str, Any]) -> None:
        self._path = path
        line = json.dumps({"setting": setting}, sort_keys=True)
        if not path.exists():
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(f"{line}\n", "utf-8")
        with path.open(encoding="utf-8") as file:
            if file.readline().rstrip("\n") != line:
                raise ValueError(
                    f"{path} has the trials of a run with another setting; remove it, or give "
                    "another --write"
                )

    def __iter__(self) -> Iterator[Trial]:
        with self._path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                # one that was cut short is made again
                if line.endswith("\n"):
                    yield Trial(**json.loads(line))

    def add(self, trial: Trial) -> None:
        """Keep a trial."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(trial)) + "\n")
