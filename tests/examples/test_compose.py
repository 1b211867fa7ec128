"""The example in containers: its files, its application behind PgBouncer, and all of it running.

Containers need an engine and Compose; without, they are skipped, unless `ALFRED_REFS_TEST_COMPOSE`
is set. `POSTGRES_IMAGE`, `PYTHON_IMAGE` and `DEBIAN_IMAGE` may name other images, and
`COMPOSE_FILE` more files.
"""

from __future__ import annotations

import base64
import configparser
import importlib
import itertools
import json
import os
import re
import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
import yaml
from sqlalchemy import Engine
from starlette.testclient import TestClient

from tests.inspector.conftest import hidden_values
from tests.pooler import free_port, page_ini, pgbouncer
from tests.postgres.container import why_no_docker

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "examples" / "compose"

REQUIRED = "ALFRED_REFS_TEST_COMPOSE"

SERVICES = ["postgres", "pgbouncer", "app", "inspector"]
IMAGES = {
    "POSTGRES_IMAGE": "postgres:17",
    "PYTHON_IMAGE": "python:3.13-slim",
    "DEBIAN_IMAGE": "debian:bookworm-slim",
}
PASSWORDS = {"POSTGRES_PASSWORD": "a-secret", "INSPECTOR_PASSWORD": "look"}

CALLS = 8  # at a time
READ = {"table": "recipes", "order_by": "name", "columns": ["name"]}
DELETE = {"table": "recipes", "filters": [{"field": "id", "op": "=", "value": "recipe_1"}]}
BY_ANN = "Basic " + base64.b64encode(b"ann:look").decode()

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of `compose.yaml`."""
    found: dict[str, Any] = yaml.safe_load((PLACE / "compose.yaml").read_text())["services"]
    return found


@pytest.fixture(scope="module")
def ini() -> configparser.ConfigParser:
    """The example's `pgbouncer.ini`."""
    ini = configparser.ConfigParser()
    ini.read(PLACE / "pgbouncer.ini")
    return ini


def sizes(ini: configparser.ConfigParser) -> dict[str, int]:
    """Return the sizes of the pools."""
    return {
        name: int(re.findall(r"pool_size=(\d+)", entry)[0])
        for name, entry in ini["databases"].items()
    }


def test_the_configuration_of_pgbouncer_is_that_of_the_page(
    ini: configparser.ConfigParser,
) -> None:
    """But for the hosts and sizes."""
    page = page_ini()
    page["pgbouncer"]["listen_addr"] = "*"
    for name, entry in page["databases"].items():
        there = entry.replace("127.0.0.1", "postgres")
        page["databases"][name] = re.sub(r"size=\d+", f"size={sizes(ini)[name]}", there)

    assert ini == page
    assert sizes(ini) == {"shop": CALLS // 2, "shop_refs": 2}


def test_services_start_in_order_and_are_checked(services: Mapping[str, Any]) -> None:
    """Each waits until the one before is healthy, and is published on this machine only."""
    assert list(services) == SERVICES
    for before, name in itertools.pairwise(SERVICES):
        assert services[name]["depends_on"] == {before: {"condition": "service_healthy"}}
    assert all(each["healthcheck"]["test"] for each in services.values())
    ports = [port for each in services.values() for port in each.get("ports", ())]
    assert [port.partition(":")[0] for port in ports] == ["127.0.0.1"] * 2


def test_the_files_are_there_and_the_commands_can_be_read(services: Mapping[str, Any]) -> None:
    """All that is built, copied and run; images and packages are from public addresses."""
    written = dict[str, str]()
    for service in (services["pgbouncer"], services["app"]):
        context = PLACE / service["build"]["context"]
        text = (context / service["build"]["dockerfile"]).read_text()
        for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
            assert all((context / each).exists() for each in sources.split())
        written |= re.findall(r"^ARG (\w+)=(.*)$", text, re.MULTILINE)
        for command in re.findall(r"^CMD (.*)$", text, re.MULTILINE):
            assert json.loads(command)[:2] == ["sh", "-c"]
            assert is_done("sh", "-n", "-c", json.loads(command)[2])
    text = (PLACE / "compose.yaml").read_text()
    assert dict(re.findall(r"\$\{(\w+_IMAGE):-(.*?)\}", text)) == IMAGES
    assert written == {name: IMAGES[name] for name in written}
    for service in services.values():
        test = service["healthcheck"]["test"]
        if isinstance(test, str):
            assert shlex.split(test)[0] == "pg_isready"
        elif "python" in test:
            compile(test[-1], "healthcheck", "exec")
        else:
            assert is_done("bash", "-n", *test[2:])


# Behind PgBouncer, without containers


@pytest.fixture
def app(
    engine: Engine, ini: configparser.ConfigParser, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The application, behind a PgBouncer with the example's pools."""
    monkeypatch.setenv("INSPECTOR_PASSWORD", PASSWORDS["INSPECTOR_PASSWORD"])
    with pgbouncer(engine.url, sizes(ini)) as address:
        monkeypatch.setenv("DATABASE_URL", f"postgresql+psycopg://shop@{address}/shop")
        module = importlib.reload(importlib.import_module("examples.compose.app"))
        module.Base.metadata.create_all(module.engine)
        module.registry.create_tables()
        yield module
        module.engine.dispose()
        module.refs_engine.dispose()


def test_the_application_works_behind_the_pooler(app: ModuleType) -> None:
    """Eight calls at a time end on four connections; a person approves in the inspector."""
    assert (app.engine.url.database, app.refs_engine.url.database) == ("shop", "shop_refs")
    client = TestClient(app.app)
    assert client.get("/health").status_code == 204
    operator = TestClient(app.inspector, "http://localhost")

    def call(chat: str, tool: str, arguments: Any) -> Any:
        asked = {"conversation": chat, "tool": tool, "arguments": arguments}
        return client.post("/call", json=asked).json()

    def visit(address: str, values: Any = None, authorization: str = BY_ANN) -> tuple[int, str]:
        headers = {"authorization": authorization, "origin": "http://localhost"}
        if values is None:
            page = operator.get(address, headers=headers)
        else:
            page = operator.post(address, headers=headers, data=values)
        return page.status_code, page.text

    check_calls(call)
    check_inspector(call, visit)


def check_calls(call: Call) -> None:
    """Each of eight conversations gets refs of its own."""
    for name in "ABCD":
        data = {"name": name, "ingredients": [{"name": "salt"}]}
        assert call("first", "db_create", {"table": "recipes", "data": data})["count"] == 1
    with ThreadPoolExecutor(CALLS) as threads:
        chats = [f"chat-{number}" for number in range(CALLS)]
        answers = threads.map(lambda chat: call(chat, "db_read", READ), chats)
    rows = [{"id": f"recipe_{place}", "name": name} for place, name in enumerate("ABCD", 1)]
    assert [answer.get("rows") for answer in answers] == [rows] * CALLS


def check_inspector(call: Call, visit: Callable[..., tuple[int, str]]) -> None:
    """Nobody sees it without the password; with it, a call that waits is approved."""
    assert call("chat-7", "db_delete", DELETE)["pending"]["call"] == 1
    for wrong in ("", "Basic", "Basic ?", "Basic " + base64.b64encode(b"ann:no").decode()):
        assert visit("/", authorization=wrong)[0] == 401
    assert "chat-7" in visit("/")[1]
    status, page = visit("/call?id=chat-7&call=1")
    assert (status, "Delete 1 recipe." in page) == (200, True)
    assert "The call was approved." in visit("/approve", hidden_values(page, "approve"))[1]
    rows = call("chat-7", "db_read", READ)["rows"]
    assert [(row["id"], row["name"]) for row in rows] == [
        ("recipe_2", "B"),
        ("recipe_3", "C"),
        ("recipe_4", "D"),
    ]


# In containers


class Containers:
    """The services, running.

    Args:
        command: of Compose.
        environment: the passwords, ports and images.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment

    def run(self, *arguments: str) -> str:
        """Run a command of Compose; return its output."""
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=PLACE,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
        return done.stdout

    def wait(self) -> None:
        """Wait until all services are healthy."""
        state = "{{.State.Status}} {{.State.Health.Status}}"
        for _ in range(240):
            inspect = ["docker", "inspect", "--format", state, *self.run("ps", "-q").split()]
            states = subprocess.run(inspect, capture_output=True, text=True, check=True).stdout
            if states.splitlines() == ["running healthy"] * len(SERVICES):
                return
            time.sleep(0.5)
        raise AssertionError(states + self.run("logs", "--tail", "20"))

    def call(self, chat: str, tool: str, arguments: Any) -> Any:
        """Call a tool by HTTP."""
        asked = {"conversation": chat, "tool": tool, "arguments": arguments}
        address = f"http://127.0.0.1:{self._environment['APP_PORT']}/call"
        with urlopen(Request(address, json.dumps(asked).encode()), timeout=60) as answer:
            return json.load(answer)

    def visit(
        self, address: str, values: Any = None, authorization: str = BY_ANN
    ) -> tuple[int, str]:
        """Request a page of the inspector, or send a form."""
        origin = f"http://127.0.0.1:{self._environment['INSPECTOR_PORT']}"
        headers = {"authorization": authorization, "origin": origin}
        body = None if values is None else urlencode(values).encode()
        try:
            with urlopen(Request(origin + address, body, headers), timeout=60) as page:  # noqa: S310
                return page.status, page.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


def why_not() -> str | None:
    """Return why there are no containers, if there are none."""
    if (reason := why_no_docker()) is not None:
        return f"no container engine: {reason}"
    if compose_command() is None:
        return "neither `docker compose` nor docker-compose"
    for image in (os.environ.get(name, image) for name, image in IMAGES.items()):
        if not (is_done("docker", "image", "inspect", image) or is_done("docker", "pull", image)):
            return f"no image {image}"
    return None


def compose_command() -> list[str] | None:
    """Return the command of Compose, in one of its two forms."""
    forms = (["docker", "compose"], ["docker-compose"])
    return next((form for form in forms if is_done(*form, "version")), None)


def is_done(*command: str) -> bool:
    """Return whether a command ends well."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def containers() -> Iterator[Containers]:
    """The services, healthy; removed afterwards."""
    if (reason := why_not()) is not None:
        if REQUIRED in os.environ:
            pytest.fail(f"{REQUIRED} is set, and there is {reason}")
        pytest.skip(f"there is {reason}")
    ports = {"APP_PORT": str(free_port()), "INSPECTOR_PORT": str(free_port())}
    project = f"alfred-refs-{uuid.uuid4().hex[:8]}"
    command = [*(compose_command() or ()), "-p", project]
    running = Containers(command, {**os.environ, **PASSWORDS, **ports})
    try:
        running.run("up", "--build", "--detach")
        running.wait()
        yield running
    finally:
        running.run("down", "--volumes")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.timeout(900)
def test_the_services_work_in_containers(containers: Containers) -> None:
    """As without; the pools have their size, and refs are kept while the application is killed."""
    check_calls(containers.call)
    connections = (
        "SELECT count(DISTINCT client_addr), count(*) <= 6 FROM pg_stat_activity"
        " WHERE usename = 'shop' AND client_addr <> '127.0.0.1'"
    )
    psql = ("exec", "-T", "postgres", "psql", "-U", "shop", "-Atc", connections)
    assert containers.run(*psql).strip() == "1|t"
    check_inspector(containers.call, containers.visit)

    before = containers.call("chat-7", "db_read", READ)
    containers.run("kill", "app")
    containers.run("start", "app")
    containers.wait()
    assert containers.call("chat-7", "db_read", READ) == before
