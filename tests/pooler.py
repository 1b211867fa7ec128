"""Run Debian's PgBouncer with the configuration of `docs/poolers.md`, in front of a server.

`page_ini` and `page_programs` return what the page has. `pgbouncer` starts the process with the
page's file; changed are only addresses, authentication and, if a test wants that, sizes of pools.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

PAGE = Path(__file__).parents[1] / "docs" / "poolers.md"

REQUIRED = "ALFRED_REFS_TEST_PGBOUNCER"

_PROGRAM = re.compile(r"^## ([^\n]+)\n.*?```python\n(.*?)```", re.DOTALL | re.MULTILINE)
_OPTIONS = re.compile(r"^options = \{(?:.*\}\n|\n.*?^\}\n)", re.DOTALL | re.MULTILINE)

DRIVERS = ["psycopg", "psycopg, asynchronous", "psycopg2", "asyncpg"]


def page_programs() -> dict[str, str]:
    """Return the page's programs by driver: two with headings, two made as its table says."""
    programs = dict(_PROGRAM.findall(PAGE.read_text("utf-8")))
    psycopg, asyncpg = programs["psycopg"], programs["asyncpg"]
    [options], [longer] = _OPTIONS.findall(psycopg), _OPTIONS.findall(asyncpg)
    other = psycopg.replace("+psycopg:", "+psycopg2:").replace(options, "options = {}\n")
    awaited = asyncpg.replace("+asyncpg:", "+psycopg:").replace(longer, options)
    return programs | {"psycopg2": other, "psycopg, asynchronous": awaited}


def page_ini() -> configparser.ConfigParser:
    """Return the page's `pgbouncer.ini`."""
    [text] = re.findall(r"```ini\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    ini = configparser.ConfigParser()
    ini.read_string(text)
    return ini


def run_program(driver: str, address: str) -> dict[str, Any]:
    """Run the page's program of a driver with the address of a PgBouncer; return its names."""
    names: dict[str, Any] = {}
    program = page_programs()[driver].replace("127.0.0.1:6432", address)
    exec(program, names)  # noqa: S102  # the page's
    return names


@contextmanager
def pgbouncer(server: URL, sizes: Mapping[str, int] | None = None) -> Iterator[str]:
    """Start PgBouncer in front of a database; yield its address.

    Args:
        server: the URL of the database.
        sizes: by entry of the page's file, how many connections to the server its pool has.
    """
    _check_installed()
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as directory:
        port = free_port()
        (Path(directory) / "users.txt").write_text('"shop" ""\n')
        (Path(directory) / "pgbouncer.ini").write_text(_ini(server, directory, port, sizes or {}))
        command = ["pgbouncer", f"{directory}/pgbouncer.ini"]
        if os.geteuid() == 0:  # it refuses to run as root
            for path in (directory, *map(str, Path(directory).iterdir())):
                shutil.chown(path, "nobody")
            command[1:1] = ["-u", "nobody"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, process, Path(directory) / "log")
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def _check_installed() -> None:
    """Skip a test where there is no PgBouncer, unless it is required."""
    if shutil.which("pgbouncer") is None:
        if REQUIRED in os.environ:
            pytest.fail(f"{REQUIRED} is set, and pgbouncer is not on the PATH")
        pytest.skip("pgbouncer is not on the PATH: apt-get install pgbouncer")


def _ini(server: URL, directory: str, port: int, sizes: Mapping[str, int]) -> str:
    """Return the page's file for a server of the tests."""
    ini = page_ini()
    host = server.query.get("host", server.host)
    at = {"host": host, "port": server.query.get("port", server.port or 5432)}
    at |= {"dbname": server.database, "user": server.username, "password": server.password}
    for name, entry in ini["databases"].items():
        given = dict(part.split("=") for part in entry.split())
        changed = given | {key: value for key, value in at.items() if value is not None}
        changed["pool_size"] = sizes.get(name, given["pool_size"])
        ini["databases"][name] = " ".join(f"{key}={value}" for key, value in changed.items())
    ini["pgbouncer"].update(
        {
            "listen_port": str(port),
            "unix_socket_dir": "",
            "auth_type": "any",
            "auth_file": f"{directory}/users.txt",
            "logfile": f"{directory}/log",
        }
    )
    text = StringIO()
    ini.write(text)
    return text.getvalue()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the process accepts connections."""
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(log.read_text() if log.exists() else "pgbouncer has ended")
