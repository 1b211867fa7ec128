"""One PostgreSQL server in one directory: initialise, start, stop.

In: the directory of the binaries (`initdb` and `postgres`, version 12 or newer), an empty
directory, an account. Out: a server that listens on a Unix socket in that directory. It never
listens on the network: no port can clash, and other users of the machine cannot reach a server
with `trust`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.postgres.account import Account

PORT = 5432
START_SECONDS = 60.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.02

# for every server: connections for threads, and two-phase commits
TEST_SETTINGS: Mapping[str, str] = {"max_connections": "200", "max_prepared_transactions": "20"}

# faster, and unsafe in a crash: for tests, not for benchmarks
HASTY_SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


class ClusterError(Exception):
    """A server that did not start, with its log."""

    def __init__(self, program: str, said: str) -> None:
        """Name the program, and quote the end of its log."""
        self.program = program
        self.said = said[-2000:].strip()
        super().__init__(f"{program} failed: {self.said}")


class Cluster:
    """A server whose data, log and socket are in `directory`.

    Args:
        binaries: the directory of `initdb` and `postgres`.
        directory: an empty directory, which the server takes over.
        account: runs the server.
        settings: server settings, by name.
    """

    def __init__(
        self, binaries: Path, directory: Path, account: Account, settings: Mapping[str, str]
    ) -> None:
        """Store the settings, without starting anything."""
        self._binaries = binaries
        self._directory = directory
        self._account = account
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def start(self) -> None:
        """Initialise the data directory, start the server, return when it accepts connections.

        Raises:
            ClusterError: it did not start.
        """
        self._account.own(self._directory)
        if not self._account.can_run(self._binaries / "initdb"):
            self._binaries = copy_installation(self._binaries, self._directory / "installation")
            self._account.own(self._directory)
        if self._start("initdb", *self._initdb_options()).wait():
            raise ClusterError("initdb", self._log.read_text())
        self.start_again()

    def start_again(self) -> None:
        """Start the server on its existing data.

        Raises:
            ClusterError: it did not start.
        """
        self._process = self._start("postgres", *self._server_options())
        self._wait_until_ready(self._process)

    def crash(self) -> None:
        """Stop the server without a checkpoint, so that the next start has to recover."""
        if self._process is not None:
            # as `pg_ctl stop -m immediate` does
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(STOP_SECONDS)
            # a stale file would make the next start look ready
            (self._data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop the server by SIGINT, then SIGQUIT, then SIGKILL."""
        if self._process is None:
            return
        for step in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            self._process.send_signal(step)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return

    def _start(self, program: str, *options: str | Path) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return self._account.start(
                [self._binaries / program, "-D", self._data, *options],
                cwd=self._directory,
                env=_environ(),
                stdout=log,
                stderr=log,
            )

    def _initdb_options(self) -> list[str]:
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        if server_version(self._binaries) >= 17:
            options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        return options

    def _server_options(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self._directory),
            **self._settings,
        }
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not _is_ready(self._data / "postmaster.pid"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ClusterError("postgres", self._log.read_text())
            time.sleep(POLL_SECONDS)


def server_version(binaries: Path) -> int:
    """Return the major version of the server in `binaries`.

    Raises:
        ClusterError: `postgres --version` has no such output.
    """
    command: list[str | Path] = [binaries / "postgres", "--version"]
    run = subprocess.run(command, capture_output=True, check=False, text=True)
    match = re.match(r"postgres \(PostgreSQL\) (\d+)", run.stdout)
    if match is None:
        raise ClusterError("postgres", run.stdout + run.stderr)
    return int(match[1])


def copy_installation(binaries: Path, directory: Path) -> Path:
    """Copy the installation of `binaries`, and return the copied directory of binaries.

    An installation finds its files relative to `bin`. Wheels have bundled libraries in
    `<package>.libs` next to the package (auditwheel's convention).
    """
    prefix = binaries.parent
    package = prefix.parent
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(prefix, directory / package.name / prefix.name, symlinks=True)
    if libraries.exists():
        shutil.copytree(libraries, directory / libraries.name)
    return directory / package.name / prefix.name / binaries.name


def _environ() -> dict[str, str]:
    # the developer's PGDATA, PGPORT and so on are for another server
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _is_ready(pid_file: Path) -> bool:
    # line 8 is the server's status: src/include/utils/pidfile.h, LOCK_FILE_LINE_PM_STATUS
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[7].strip() in {"ready", "standby"}
