"""`python -m evals`: do the tasks in every arm, print the table, and write it to `results/`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic_ai.models import Model
from rich.console import Console
from rich.markdown import Markdown
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

from alfred_refs import RefSession
from evals import plot, report
from evals.arms import DEFAULT, arm
from evals.channel import NONE, RATES, rates
from evals.doing import Doing, Noise
from evals.kitchen import Kitchen, made_kitchen
from evals.running import Run
from evals.scores import scores
from evals.tasks import tasks_of
from evals.trials import TrialFile
from tests.postgres.server import embedded_server

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str]) -> int:
    """Make the trials that `arguments` ask for, on a server of our own."""
    options = _parser().parse_args(arguments)
    if options.tau2 is not None:
        return _replay(options.tau2)
    arms = [arm(name) for name in options.arms.split(",")]
    setting = _setting(options)
    kept = TrialFile(options.write.with_suffix(".jsonl"), setting)
    noise = Noise(setting["rates"], options.along, options.notices, options.seed)
    model = _model(options)
    with kitchens(options.parallel) as kitchen_of:
        run = Run(
            tasks_of(options.tasks, options.seed, kitchen_of[0]),
            arms,
            trials=options.trials,
            workers=[Doing(each, noise, model, options.prices) for each in kitchen_of],
            kept=kept,
            most_cost=options.most_cost,
        )
        judged = run.make()
    for failure in () if judged is None else judged.failures:
        print(f"{failure.name}: {failure.error_message}", file=sys.stderr)
    if run.left_out:
        print(
            f"{run.left_out} trials are left out: ${options.most_cost} are spent", file=sys.stderr
        )
    _write(kept, [each.name for each in arms], setting, options.write)
    return int(judged is not None and bool(judged.failures))


def _write(kept: TrialFile, arms: Sequence[str], setting: dict[str, Any], path: Path) -> None:
    trials = [*kept]
    drawn = path.with_suffix(".svg")
    is_drawn = plot.draw(scores(trials, arms), drawn)
    written = report.markdown(trials, arms, setting, drawn.name if is_drawn else None)
    path.write_text(written, "utf-8")
    Console(width=None if sys.stdout.isatty() else 200).print(Markdown(written))


@contextmanager
def kitchens(count: int) -> Iterator[list[Kitchen]]:
    """Yield so many kitchens that are the same, each in a database of its own."""
    with embedded_server() as url:
        first = made_kitchen(create_engine(url))
        all_ = [first]
        first.engine.dispose()
        administration = create_engine(url.set(database="template1"), isolation_level="AUTOCOMMIT")
        for number in range(1, count):
            name = f"kitchen_{number}"
            with administration.connect() as connection:
                connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {url.database}"))
            sessions = sessionmaker(class_=RefSession, join_transaction_mode="create_savepoint")
            engine = create_engine(url.set(database=name))
            all_.append(replace(first, engine=engine, sessions=sessions))
        administration.dispose()
        yield all_
        for each in all_:
            each.engine.dispose()


def _replay(checkout: Path) -> int:
    """Replay tau2's retail tasks, and say what came of it."""
    from evals.tau2.replay import lines, replayed  # noqa: PLC0415  # of no other run

    with embedded_server() as url:
        engine = create_engine(url)
        made = replayed(checkout, engine)
        engine.dispose()
    print(*lines(made), sep="\n")
    return int(not all(each.is_same for each in made))


def _setting(options: argparse.Namespace) -> dict[str, Any]:
    """Return all that the figures depend on."""
    given = {"scripted": NONE, "noisy": RATES}.get(options.model, NONE)
    if options.rates is not None:
        given = options.rates
    return {
        "model": options.model,
        "tasks": options.tasks,
        "trials": options.trials,
        "seed": options.seed,
        "rates": dict(given),
        "along": options.along,
        "notices": options.notices,
    }


def _model(options: argparse.Namespace) -> Model | None:
    """Return a real model, if one is asked for."""
    if options.model in ("scripted", "noisy"):
        return None
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415  # of real runs alone
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    key = os.environ.get(options.key, "none")
    return OpenAIChatModel(
        options.model, provider=OpenAIProvider(base_url=options.base_url, api_key=key)
    )


def _prices(given: str) -> tuple[float, float]:
    read, written = map(float, given.split(","))
    return read, written


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    add = parser.add_argument
    add("--model", default="noisy", help="scripted, noisy (scripted, and errs), or a real one")
    add("--base-url", help="of a server that speaks as OpenAI's")
    add("--key", default="OPENAI_API_KEY", help="the variable that has the server's key")
    add("--arms", default=",".join(DEFAULT), help="by comma: such as keys,refs+labels+required")
    add("--tasks", type=int, default=120, help="of all six families in turn")
    add("--trials", type=int, default=1, help="of each task in each arm")
    add("--seed", type=int, default=1, help="of tasks and slips")
    add("--rates", type=rates, help="of slips an id: such as edit=0.03,swap=0.04")
    add("--along", type=float, default=0.0, help="how often a label slips along with an id")
    add("--notices", type=float, default=0.0, help="how often the scripted model sees its slip")
    add("--parallel", type=int, default=1, help="trials at a time; for models that are far away")
    add("--most-cost", type=float, help="US dollars after which no trial is begun")
    add("--prices", type=_prices, default=(0.0, 0.0), help="US dollars a million tokens: in,out")
    add("--tau2", type=Path, help="a checkout of tau2-bench: replay its retail tasks by refs")
    add("--write", type=Path, default=RESULTS / "latest.md", help="the table; .jsonl beside it")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
