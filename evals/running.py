"""A run: every task in every arm, so many times, side by side if the model is far away.

    kept = TrialFile(path, setting)
    Run(tasks, arms, trials=4, workers=[Doing(kitchen, noise)], kept=kept).make()

The cases are those of a `pydantic_evals.Dataset`, and its evaluators judge them; each trial is
kept as soon as it is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext
from pydantic_evals.reporting import EvaluationReport
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evals.arms import Arm
from evals.doing import Doing
from evals.tasks import Task
from evals.trials import Trial, TrialFile


@dataclass(frozen=True, slots=True)
class Wanted:
    """A trial that is to be made."""

    task: Task
    arm: Arm
    number: int

    @property
    def place(self) -> tuple[str, str, int]:
        """What tells it from others of a run."""
        return self.task.name, self.arm.name, self.number


@dataclass
class EndState(Evaluator[Wanted, Trial | None, None]):
    """Whether the kitchen was left as it must be."""

    def evaluate(self, ctx: EvaluatorContext[Wanted, Trial | None, None]) -> bool:
        """Judge a trial."""
        return ctx.output is not None and ctx.output.met


@dataclass
class SilentWrites(Evaluator[Wanted, Trial | None, None]):
    """How many calls wrote rows that were not meant."""

    def evaluate(self, ctx: EvaluatorContext[Wanted, Trial | None, None]) -> int:
        """Judge a trial."""
        return 0 if ctx.output is None else len(ctx.output.strays)


class Run:
    """Makes the trials of a run that are not made yet.

    Args:
        tasks: to be done.
        arms: to do them in.
        trials: of each.
        workers: do them, each in a kitchen of its own.
        kept: the trials that are made.
        most_cost: in US dollars; no trial is begun beyond.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        arms: Sequence[Arm],
        *,
        trials: int,
        workers: Sequence[Doing],
        kept: TrialFile,
        most_cost: float | None = None,
    ) -> None:
        made = [*kept]
        self._cost = sum(each.cost for each in made)
        self._most = most_cost
        self._workers = workers
        self._kept = kept
        there = {each.place for each in made}
        wanted = [
            Wanted(task, arm, number) for task in tasks for number in range(trials) for arm in arms
        ]
        self._made = len(wanted)
        self._wanted = [each for each in wanted if each.place not in there]
        self.left_out = 0

    def make(self) -> EvaluationReport[Wanted, Trial | None, None] | None:
        """Make them, and return how they are judged; nothing if all are made."""
        if not self._wanted:
            return None
        dataset = Dataset[Wanted, Trial | None, None](
            name="alfred_refs",
            cases=[
                Case(name=" ".join(map(str, each.place)), inputs=each) for each in self._wanted
            ],
            evaluators=[EndState(), SilentWrites()],
        )
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task(
                "trials", total=self._made, completed=self._made - len(self._wanted)
            )
            free: asyncio.Queue[Doing] = asyncio.Queue()
            for each in self._workers:
                free.put_nowait(each)

            async def make(wanted: Wanted) -> Trial | None:
                if self._most is not None and self._cost >= self._most:
                    self.left_out += 1
                    return None
                worker = await free.get()
                try:
                    trial, _ = await worker.trial(wanted.task, wanted.arm, wanted.number)
                finally:
                    free.put_nowait(worker)
                self._kept.add(trial)
                self._cost += trial.cost
                progress.update(bar, advance=1, description=self._said())
                return trial

            made = dataset.evaluate(make, max_concurrency=len(self._workers), progress=False)
            return asyncio.run(made)

    def _said(self) -> str:
        return f"trials, ${self._cost:.2f}" if self._cost else "trials"
