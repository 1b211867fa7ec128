"""Where commands find their database, and how they say that they cannot use it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from alfred_refs.cli.commands import alfred_refs
from alfred_refs.store.schema import migrate
from tests.cli import seed

# every command, with what it needs
COMMANDS = {
    "migrate": [],
    "current": [],
    "list": [],
    "show": ["chat-7"],
    "activity": ["chat-7"],
    "history": ["chat-7"],
    "resolve": ["chat-7", "recipe_1"],
    "stats": [],
    "export": ["chat-7"],
    "import": [],
    "fork": ["chat-7", "chat-8"],
    "forget": ["chat-7", "--yes"],
    "prune": ["--older-than", "90d"],
}

EXPORT = {"format": "alfred_refs.conversation", "version": 1, "id": "new", "owner": None}
EXPORT |= {"turn": 0, "begun_at": "2026-11-22T10:00:00+00:00", "last": {}, "refs": []}


def run(command: str, *arguments: str, environment: str | None = None) -> Result:
    """Run a command with all that it needs but a URL."""
    environ = {"ALFRED_REFS_DATABASE_URL": environment}
    given = [command, *COMMANDS[command], *arguments]
    return CliRunner().invoke(alfred_refs, given, env=environ, input=json.dumps(EXPORT))


def test_every_command_is_in_these_tests() -> None:
    """`audit`, `doctor`, `inspect` and `mcp` do not open a registry by its URL."""
    others = {"audit", "doctor", "inspect", "mcp"}
    assert COMMANDS.keys() == alfred_refs.commands.keys() - others


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_database_is_misuse(command: str) -> None:
    """The error names both ways to pass the URL."""
    result = run(command)

    assert result.exit_code == 2
    assert "by --url, or set ALFRED_REFS_DATABASE_URL" in result.stderr


UNUSABLE_URLS = {
    "mysql://me:hunter2@db/app": "the registry needs PostgreSQL, but the URL is for",
    "postgresql://me:hunter2": "the database's URL cannot be read; write postgresql://",
    "postgresql+nonesuch://me:hunter2@db/app": "the driver of 'postgresql+nonesuch' cannot",
    "postgresql://me:hunter2@127.0.0.1:1/app": "the registry's database 'app' cannot be",
    "postgresql://me:hunter2@db..example/app": "the registry's database 'app' cannot be",
    "postgresql://me:hunter2@db/app?nonesuch=hunter2": "the registry's database 'app' cannot",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unusable_url_is_one_line(command: str) -> None:
    """Exit code 1 and one line, as text or as JSON, without the password.

    Commands get their database by one of two decorators: `migrate` and `list` try all URLs.
    """
    urls = UNUSABLE_URLS if command in ("migrate", "list") else [*UNUSABLE_URLS][3:4]
    for url in urls:
        text_, json_ = run(command, "--url", url), run(command, "--json", environment=url)

        assert (text_.exit_code, text_.stdout, json_.exit_code, json_.stdout) == (1, "", 1, "")
        assert text_.stderr.startswith(f"Error: {UNUSABLE_URLS[url]}")
        assert (text_.stderr.count("\n"), json_.stderr.count("\n")) == (1, 1)
        assert json.loads(json_.stderr)["error"]["message"].startswith(UNUSABLE_URLS[url])
        assert "hunter2" not in text_.output + json_.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@127.0.0.1:1/app",
        "postgresql://me:hun ter2')@hunter2@127.0.0.1:1/app?password=hunter2&user=me",
    ],
)
def test_a_url_in_the_wrong_place_is_misuse_without_its_password(command: str, url: str) -> None:
    """Some commands take a URL as an argument, so users try it with others."""
    for words in (
        [command, *COMMANDS[command], url, url],
        [url, command],
        [command, "--older-than", url],
        [command, f"--{url}"],
    ):
        result = CliRunner().invoke(alfred_refs, words)

        assert (result.exit_code, result.stdout) == (2, "")
        assert "ter2" not in result.output


@pytest.mark.tables
@pytest.mark.parametrize("words", [["show"], ["resolve", "chat-7"], ["fork"], ["export"]])
def test_a_url_as_an_id_is_printed_without_its_password(engine: Engine, words: list[str]) -> None:
    """There is no such conversation."""
    seed.seed(engine)
    more = ["new"] if words == ["fork"] else []

    for form in ([], ["--json"]):
        result = seed.run(engine, *words, "postgresql://me:hunter2@db/app", *more, *form)

        assert (result.exit_code, result.stdout) == (1, "")
        assert "postgresql://" in result.stderr
        assert "hunter2" not in result.output


def test_a_database_without_tables_is_refused_with_the_remedy(database_url: str) -> None:
    """No command creates them on the way."""
    for command in COMMANDS.keys() - {"migrate", "current"}:
        result = run(command, "--json", environment=database_url)

        error = json.loads(result.stderr)["error"]
        assert (command, result.exit_code, error["code"]) == (command, 1, "RegistryTablesError")
        assert "run `alfred-refs migrate URL`" in error["message"]


@pytest.mark.parametrize("revision", ["0001", "0003", "0005"])
def test_tables_of_an_older_version_are_refused(revision: str, database_url: str) -> None:
    """Also by a command that reads nothing that they lack."""
    migrate(database_url, revision)
    for command in ("list", "stats"):
        result = run(command, "--json", environment=database_url)

        assert (command, result.exit_code, result.stdout) == (command, 1, "")
        assert json.loads(result.stderr)["error"]["code"] == "RegistryTablesError"


@pytest.mark.parametrize("command", ["migrate", "current"])
def test_migrate_and_current_take_the_url_as_an_argument(command: str, database_url: str) -> None:
    """It precedes the environment; passing both is misuse."""
    assert run(command, database_url, environment="mysql://nowhere").exit_code == 0
    assert run(command, "--url", database_url, environment="mysql://nowhere").exit_code == 0
    twice = run(command, database_url, "--url", database_url)
    assert (twice.exit_code, "The URL is given twice" in twice.stderr) == (2, True)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_the_url_may_name_any_driver(driver: str, engine: Engine) -> None:
    """Psycopg replaces one that is for asyncio only."""
    url = engine.url.set(drivername=f"postgresql+{driver}").render_as_string(hide_password=False)
    assert run("migrate", url).exit_code == 0

    for command in ("list", "import", "stats"):
        result = run(command, "--url", url, "--json")
        assert (command, result.exit_code, result.stderr) == (command, 0, "")
        assert json.loads(result.stdout)
