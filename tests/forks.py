"""Processes that begin with the package imported already, ten times as fast as new interpreters.

A server, which is started once, has imported the modules of `PRELOADED`; each process is a fork of
it. It has the environment variables that the server started with.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from multiprocessing.connection import Connection
from threading import Barrier
from typing import Any, NamedTuple

# the server imports what the first test asks for, hence one list for all tests; no models, because
# those of two tests may have one name
PRELOADED = (
    *("alfred_refs.context", "alfred_refs.positions", "alfred_refs.tools"),
    *("psycopg", "pytest", "rich.console", "sqlalchemy.dialects.postgresql.psycopg"),
    "tests.postgres.provider",
)

PATIENCE = 120


class Ended(NamedTuple):
    """A process that has ended.

    Attributes:
        code: its exit code; negative for the signal that has ended it.
        result: of its function; None if it was killed.
    """

    code: int | None
    result: Any


def fork_context() -> Any:
    """Return the context of `multiprocessing` that makes the processes."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([*PRELOADED])
    return made


def together(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Ended]:
    """Call a function in as many processes as there are tuples of arguments, all at once.

    Args:
        function: its first argument is a barrier, at which they can wait for each other.
        calls: the other arguments of each process.
    """
    made = fork_context()
    barrier = made.Barrier(len(calls), timeout=PATIENCE)
    running = []
    for arguments in calls:
        receiving, sending = made.Pipe(duplex=False)
        process = made.Process(
            target=_send, args=(sending, function, barrier, *arguments), daemon=True
        )
        process.start()
        sending.close()
        running.append((process, receiving))
    return [_ended(*each) for each in running]


def forked(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own, and return its result."""
    [ended] = together(_alone, [(function, *arguments)])
    assert ended.code == 0
    return ended.result


def printed(module: str, arguments: list[str], database_url: str) -> str:
    """Run a module on a database in a process, as `python -m` does, and return its output."""
    return str(forked(_printed, module, arguments, database_url))


def _printed(module: str, arguments: list[str], database_url: str) -> str:
    os.environ["DATABASE_URL"] = database_url
    sys.argv = [module, *arguments]
    written = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(written, "utf-8", write_through=True)):
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
        return written.getvalue().decode()


def _alone(_: Barrier, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _send(sending: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    sending.send(function(*arguments))


def _ended(process: Any, receiving: Connection) -> Ended:
    with receiving:
        if not receiving.poll(PATIENCE):
            process.kill()
        try:
            result = receiving.recv()
        except EOFError:  # it was killed, or has raised an error
            result = None
    process.join(PATIENCE)
    return Ended(process.exitcode, result)
