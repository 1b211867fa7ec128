"""The embedded server starts for whoever asks, and is gone however they leave."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.postgres.account import maps, server_account
from tests.postgres.cluster import TEST_SETTINGS, copy_installation
from tests.postgres.server import (
    ROOT,
    NoBinariesError,
    ServerStartError,
    crashing_server,
    embedded_server,
    socket_url,
    wheel_binaries,
)

pytestmark = pytest.mark.slow

# a process that holds a server and never lets go of it
HOLDER = """
import time
from tests.postgres.server import embedded_server
with embedded_server() as url:
    print(url.query["host"], flush=True)
    time.sleep(600)
"""

# a supervisor that gives up the rights it was started with, if any, before it does anything
ORDINARY_SUPERVISOR = """
import os, sys
from tests.postgres import supervisor
user, group, argument = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))
supervisor.main(argument)
"""

ASK_VERSION = """
import os, sqlalchemy
with sqlalchemy.create_engine(os.environ["DATABASE_URL"]).connect() as connection:
    print(connection.scalar(sqlalchemy.text("select version()")))
"""

GONE_SECONDS = 30.0


def ask(url: sqlalchemy.URL, question: str) -> object:
    """Return the one value that the server at `url` answers."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        return connection.scalar(text(question))


def process_id(directory: Path) -> int:
    """Return the process id of the server in `directory`."""
    return int((directory / "data" / "postmaster.pid").read_text().split()[0])


def is_running(process: int) -> bool:
    """Tell whether there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(directory: Path, server: int) -> bool:
    """Tell whether the directory and the server are gone before patience is."""
    deadline = time.monotonic() + GONE_SECONDS
    while directory.exists() or is_running(server):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def readable_binaries() -> Iterator[Path]:
    """Yield a copy of the binaries that the server's account owns, where it can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        binaries = copy_installation(wheel_binaries(), Path(directory))
        server_account().own(Path(directory))
        yield binaries


@contextmanager
def ordinary_supervisor(binaries: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a supervisor that is not root, and wait for it at the end."""
    account = server_account()
    argument = json.dumps({"binaries": str(binaries), "settings": dict(TEST_SETTINGS)})
    code = [sys.executable, "-c", ORDINARY_SUPERVISOR, str(account.user), str(account.group)]
    with subprocess.Popen(
        [*account.prefix, *code, argument], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as supervisor:
        yield supervisor


def announced_directory(process: subprocess.Popen[bytes]) -> Path:
    """Return the directory that a supervisor says its server is in."""
    assert process.stdout is not None
    announced = json.loads(process.stdout.readline())
    return Path(announced["directory"])


@pytest.fixture(scope="module")
def url() -> Iterator[sqlalchemy.URL]:
    """The URL of a server that was started where a developer has settings of another one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PGPORT", "1")
        patched.setenv("PGDATA", "/nowhere")
        with embedded_server() as url:
            yield url


def switches(url: sqlalchemy.URL) -> set[object]:
    """Return the values of the settings that make a server durable."""
    names = ("fsync", "synchronous_commit", "full_page_writes")
    return {ask(url, f"show {name}") for name in names}


def test_killed_parent_leaves_nothing() -> None:
    """A parent that is killed takes the server and its directory with it."""
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        directory = Path(holder.stdout.readline().strip())
        server = process_id(directory)
        holder.kill()
    assert wait_until_gone(directory, server)


def test_server_never_runs_as_root(url: sqlalchemy.URL) -> None:
    """The server runs as whoever starts it, and as another if that is root."""
    server = process_id(Path(str(url.query["host"])))
    owner = Path(f"/proc/{server}").stat().st_uid
    assert owner == (server_account().user or os.geteuid())
    assert owner != 0


def test_ordinary_user_can_start_a_server() -> None:
    """A supervisor that is not root runs the server as itself.

    If it is told to terminate, it stops the server and removes the directory first.
    """
    with readable_binaries() as binaries, ordinary_supervisor(binaries) as supervisor:
        directory = announced_directory(supervisor)
        server = process_id(directory)
        assert ask(socket_url(str(directory)), "select 1") == 1
        owner = Path(f"/proc/{supervisor.pid}").stat().st_uid
        assert (directory / "data").stat().st_uid == owner != 0

        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait(GONE_SECONDS)
        assert not directory.exists()
        assert not is_running(server)


def test_binaries_may_be_where_only_their_owner_can_enter(tmp_path: Path) -> None:
    """Binaries in a private directory, such as root's home, serve all the same."""
    tmp_path.chmod(0o700)
    binaries = copy_installation(wheel_binaries(), tmp_path)
    with embedded_server(binaries) as url:
        assert ask(url, "select 1") == 1


def has_user_namespaces() -> bool:
    """Tell whether the kernel lets us make a user namespace."""
    command = ["unshare", "--user", "--map-root-user", "true"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not has_user_namespaces(), reason="no user namespaces here to be root in")
def test_server_starts_where_root_is_the_only_user() -> None:
    """In a user namespace without any user but root, the server starts all the same."""
    namespace = ["unshare", "--user", "--map-root-user"]
    asking = ["-m", "tests.postgres", sys.executable, "-c", ASK_VERSION]
    run = subprocess.run(
        [*namespace, sys.executable, *asking], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("PostgreSQL")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["         0          0 4294967295"], True),
        (["         0       1000          1"], False),
        (["0 1000 1", "1 100000 65535"], True),
        ([], False),
    ],
)
def test_namespace_maps_a_user(lines: list[str], *, expected: bool) -> None:
    """A user exists in a namespace if one of the mapped ranges holds its id."""
    assert maps(lines, 65534) is expected


def test_every_driver_takes_the_url(url: sqlalchemy.URL) -> None:
    """The URL of a Unix socket works with psycopg, psycopg2 and asyncpg."""

    async def ask_asynchronously(url: sqlalchemy.URL) -> object:
        engine = create_async_engine(url)
        async with engine.connect() as connection:
            answer = await connection.scalar(text("select 1"))
        await engine.dispose()
        return answer

    assert ask(url, "select 1") == 1
    assert ask(url.set(drivername="postgresql+psycopg2"), "select 1") == 1
    asynchronous = url.set(drivername="postgresql+asyncpg")
    assert asyncio.run(ask_asynchronously(asynchronous)) == 1


def test_missing_binaries_are_named(tmp_path: Path) -> None:
    """A directory without server binaries is an error that names it."""
    with pytest.raises(NoBinariesError, match=re.escape(str(tmp_path))), embedded_server(tmp_path):
        pytest.fail("there is nothing to start")


def test_error_quotes_the_server(tmp_path: Path) -> None:
    """A server that does not start makes an error that quotes it."""
    failing = tmp_path / "bin"
    failing.mkdir()
    for name in ("initdb", "postgres"):
        program = failing / name
        program.write_text("#!/bin/sh\necho 'postgres 18, out of order'\nexit 3\n")
        program.chmod(0o755)
    with pytest.raises(ServerStartError, match="out of order"), embedded_server(failing):
        pytest.fail("it exits at once")


def test_command_gets_a_server_and_gives_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command finds its server's URL, not one that was there, and its exit code is ours."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/")
    run = subprocess.run(
        [sys.executable, "-m", "tests.postgres", "sh", "-c", 'echo "$DATABASE_URL"; exit 7'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    url = sqlalchemy.make_url(run.stdout.strip())
    assert run.returncode == 7
    assert url.drivername == "postgresql+psycopg"
    assert not Path(str(url.query["host"])).exists()


def test_a_server_comes_back_from_a_crash_with_what_was_committed(url: sqlalchemy.URL) -> None:
    """A durable server keeps its commits, and refuses connections until it is started again.

    With `standby.signal` it starts in recovery. Closed, it leaves no process and no directory.
    """
    with crashing_server(durable=True) as server:
        assert (switches(url), switches(server.url)) == ({"off"}, {"on"})
        engine = sqlalchemy.create_engine(server.url, poolclass=sqlalchemy.NullPool)
        with engine.begin() as connection:
            connection.execute(text("create table kept as select 7 as number"))
        server.crash()
        with pytest.raises(sqlalchemy.exc.OperationalError):
            ask(server.url, "select 1")
        server.start()
        assert ask(server.url, "select number from kept") == 7

        server.crash()
        (server.directory / "data" / "standby.signal").touch()
        server.start()
        assert ask(server.url, "select pg_is_in_recovery()") is True
        process = process_id(server.directory)
    assert not server.directory.exists()
    assert not is_running(process)
