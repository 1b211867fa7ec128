"""The demo from an empty database to a verdict.

In go the URL of an empty PostgreSQL database and a console; out come a turn in keys and in refs,
five more in refs, figures, and an exit code: 0 if no key reached the model's side, each ref named
one key in all processes, and each saved draft is one row. That is a screenful; in full, what the
model sees stands beside what the database holds, exchange by exchange, and what an operator sees
comes after it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import uuid
from collections import Counter
from collections.abc import Sequence, Set as AbstractSet
from pathlib import Path
from typing import Final

from rich.console import Console
from sqlalchemy import Engine, create_engine, func, inspect, select
from sqlalchemy.orm import Session

from examples.kitchen import CONVERSATION
from examples.kitchen.checks import keys_by_ref, keys_in, showing_keys, with_keys, wrongly_saved
from examples.kitchen.contrast import contrasted, measured
from examples.kitchen.load import load
from examples.kitchen.models import Base, Recipe
from examples.kitchen.person import review
from examples.kitchen.server import missing_extensions
from examples.kitchen.show import (
    show_check,
    show_command,
    show_heading,
    show_in_keys,
    show_in_refs,
    show_review,
    show_size,
    show_turn,
    show_turn_briefly,
)
from examples.kitchen.transcript import Turn
from examples.kitchen.turns import SCRIPT

ROOT: Final = Path(__file__).parents[2]

# what whoever runs the application may ask about its conversations
ASKED: Final = (["show", CONVERSATION], ["resolve", CONVERSATION, "recipe_3"], ["stats"])


def run(url: str, console: Console, *, full: bool = False) -> int:
    """Run the demo on an empty database, and return its exit code.

    Args:
        url: of the database.
        console: where it is shown.
        full: with each exchange of each turn, and the operator's commands.
    """
    engine = create_engine(url)
    prepare(engine, console)
    contrast = contrasted(engine)
    show_in_keys(console, contrast)
    show_in_refs(console, contrast)
    loaded = _recipes(engine)
    turns, keys = _taken(url, engine, console, full=full)
    new = _recipes(engine) - loaded
    if full:
        show_heading(console, "the operator: alfred-refs, on the same database")
        for arguments in ASKED:
            show_command(console, arguments, alfred_refs(url, *arguments))
    reviewed = review(engine)
    show_review(console, reviewed)
    keys |= keys_in(engine)
    engine.dispose()
    code = verdict(turns, keys, new, console, [*contrast.texts(), *reviewed.texts()])
    if not full:
        console.print("each exchange beside what the database holds: python3 run.py demo --full")
    return code


def _taken(
    url: str, engine: Engine, console: Console, *, full: bool
) -> tuple[list[Turn], set[uuid.UUID]]:
    """Take and show all turns; return them, and all keys that there were."""
    turns: list[Turn] = []
    keys: set[uuid.UUID] = set()
    show_heading(console, f"{len(SCRIPT)} turns of a chat, each in a process of its own")
    for number in range(1, len(SCRIPT) + 1):
        with Console(stderr=True).status(f"turn {number}"):  # on a terminal, until it is done
            turns.append(start_turn(url, number))
        (show_turn if full else show_turn_briefly)(console, turns[-1])
        keys |= keys_in(engine)  # after each turn: the next may delete rows
    return turns, keys


def prepare(engine: Engine, console: Console) -> None:
    """Make the kitchen's tables and the registry's, and load the recipes.

    Raises:
        SystemExit: the database is not empty, or its server lacks an extension.
    """
    if inspect(engine).get_table_names():
        sys.exit("the demo needs an empty database, and the one in DATABASE_URL has tables")
    with engine.connect() as connection:
        if missing := missing_extensions(connection):
            sys.exit(f"the demo searches by meaning and by nearly the name: {missing}")
    Base.metadata.create_all(engine)
    console.print(alfred_refs(engine.url.render_as_string(hide_password=False), "migrate"))
    with Session(engine) as session, session.begin():
        loaded = load(session)
    console.print(
        f"{loaded.recipes} recipes, {loaded.ingredients} ingredients, "
        f"{loaded.lines} ingredient lines, each row with a UUID for its key."
    )


def _recipes(engine: Engine) -> int:
    with Session(engine) as session:
        return session.scalars(select(func.count()).select_from(Recipe)).one()


def alfred_refs(url: str, *arguments: str) -> str:
    """Run the command as an operator would, and return what it says."""
    done = subprocess.run(
        [Path(sysconfig.get_path("scripts"), "alfred-refs"), *arguments],
        env={**os.environ, "ALFRED_REFS_DATABASE_URL": url},  # an argument could be seen by others
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.strip()


def start_turn(url: str, number: int) -> Turn:
    """Take a turn in a process of its own, and return what it reports."""
    reported = subprocess.run(
        [sys.executable, "-m", "examples.kitchen.turns", str(number)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Turn.model_validate_json(reported.stdout)


def verdict(
    turns: Sequence[Turn],
    keys: AbstractSet[uuid.UUID],
    new: int,
    console: Console,
    also: Sequence[str] = (),
) -> int:
    """Check what the model saw, print what was found, and return the exit code.

    Args:
        turns: all of them.
        keys: that there were in the database at any time.
        new: how many recipes there are now that were not there before the first turn.
        console: where it is printed.
        also: what else was said and seen.
    """
    texts = [text for turn in turns for text in turn.model_side()]
    seen = [*texts, *also]
    leaks = showing_keys(seen, keys)
    named = keys_by_ref(turns)
    several = [ref for ref, keys_of_ref in named.items() if len(keys_of_ref) > 1]
    processes = Counter(ref for turn in turns for ref in keys_by_ref([turn]))
    shared = sum(count > 1 for count in processes.values())

    show_heading(console, "figures")
    measure, unit = measured()
    size, in_keys = (sum(map(measure, side)) for side in (texts, with_keys(texts, named)))
    show_size(console, f"what was said and seen in {len(turns)} turns", size, in_keys, unit)
    if unit != "tokens":
        console.print(f"sizes are in {unit}: bpe-openai, which counts tokens, is not installed")
    strings = f"{len(seen)} strings on the model's side against {len(keys)} keys"
    show_check(console, f"checked {strings}", leaks)
    refs = f"{len(named)} refs, {shared} of them met by several processes, for a second key"
    show_check(console, f"checked {refs}", several)
    wrong = wrongly_saved(turns, new)
    show_check(console, f"checked the new recipes ({new}) for others than saved drafts", wrong)
    return int(bool(leaks or several or wrong))
