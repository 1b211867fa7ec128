"""The `alfred-refs` command: what it does, and what it says when it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, make_url

from alfred_refs import RefRegistry
from alfred_refs.cli.commands import alfred_refs
from alfred_refs.store import schema
from tests.readme import README

SCRIPT = Path(sys.executable).with_name("alfred-refs")

# runs the script in its own interpreter, as one that lacks a package
WITHOUT = """
import runpy, sys

sys.modules[sys.argv[1]] = None
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

# runs a program as on a machine without libpq, where psycopg has no binary of its own
WITHOUT_LIBPQ = """
import ctypes.util, runpy, sys

ctypes.util.find_library = lambda name: None
sys.modules.update(dict.fromkeys(["psycopg_binary", "psycopg_c"]))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

# what an application on asyncpg does
MINT = """
import asyncio, sys
from sqlalchemy.ext.asyncio import create_async_engine
from alfred_refs import RefRegistry

async def mint():
    engine = create_async_engine(sys.argv[1])
    chat = RefRegistry(engine).conversation("chat-7")
    async with engine.connect() as connection:
        print(await connection.run_sync(lambda _: chat.refer("recipe", 1)))
    await engine.dispose()

asyncio.run(mint())
"""


def test_migrate_creates_the_tables(database_url: str) -> None:
    """`migrate` and then `current` print the same revision."""
    runner = CliRunner()
    assert runner.invoke(alfred_refs, ["current", database_url]).output == "none\n"
    migrated = runner.invoke(alfred_refs, ["migrate", database_url])
    assert migrated.output == "the registry's tables are at revision 0008\n"
    assert runner.invoke(alfred_refs, ["current", database_url]).output == "0008\n"


def test_tables_of_the_applications_alembic_are_not_migrated(engine: Engine) -> None:
    """`current` names the environment, and `migrate` has the remedy on one line."""
    url = engine.url.render_as_string(hide_password=False)
    RefRegistry(engine).metadata.create_all(engine)
    revision, runner = schema.revisions()[-1].revision, CliRunner()

    current = runner.invoke(alfred_refs, ["current", url])
    assert current.output == f"{revision}, by the application's own Alembic environment\n"
    current = runner.invoke(alfred_refs, ["current", url, "--json"])
    assert json.loads(current.output) == {"revision": revision, "migrated_by": "application"}
    migrated = runner.invoke(alfred_refs, ["migrate", url])
    assert migrated.exit_code == 1
    assert migrated.output == (
        "Error: `alfred-refs migrate` did not make the registry's tables, which leaves them to "
        "the application's own Alembic environment; upgrade that; or hand them over, by a "
        f"revision of yours that calls alfred_refs.store.alembic.hand_over('{revision}')\n"
    )


def test_current_without_tables_has_the_same_json_names(database_url: str) -> None:
    """With null as values."""
    result = CliRunner().invoke(alfred_refs, ["current", database_url, "--json"])
    assert json.loads(result.output) == {"revision": None, "migrated_by": None}


@pytest.mark.parametrize(
    "arguments", [["migrate"], ["current"], ["nonesuch"], ["migrate", "a", "b"]]
)
def test_misuse_is_exit_code_2(arguments: list[str]) -> None:
    """A missing URL, an unknown command or a superfluous argument prints the usage."""
    result = CliRunner().invoke(alfred_refs, arguments, env={"ALFRED_REFS_DATABASE_URL": None})
    assert result.exit_code == 2
    assert result.output.startswith("Usage: ")


def test_an_error_of_the_database_is_one_line(database_url: str) -> None:
    """It is the first line of the server's message."""
    read_only = {"options": "-c default_transaction_read_only=on"}
    url = make_url(database_url).update_query_dict(read_only)
    given = url.render_as_string(hide_password=False)
    result = CliRunner().invoke(alfred_refs, ["migrate", given])
    assert result.exit_code == 1
    assert result.output == "Error: cannot execute CREATE TABLE in a read-only transaction\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [[str(SCRIPT)], [sys.executable, "-m", "alfred_refs.cli"]], ids=["script", "module"]
)
def test_installed_command_migrates(command: list[str], database_url: str, tmp_path: Path) -> None:
    """The console script and `python -m alfred_refs.cli` work from any directory."""
    done = _run([*command, "migrate", database_url], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "the registry's tables are at revision 0008\n",
        "",
    )


@pytest.mark.slow
def test_installed_command_prints_errors_on_standard_error(
    database_url: str, tmp_path: Path
) -> None:
    """One line, without traceback and password."""
    url = make_url(database_url).set(database="nonesuch", password="hunter2")
    done = _run([str(SCRIPT), "current", url.render_as_string(hide_password=False)], tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("Error: the registry's database 'nonesuch' cannot be reached; ")
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_its_extra_the_command_names_it(package: str, tmp_path: Path) -> None:
    """Exit code 2, whichever package is missing."""
    done = _run([sys.executable, "-c", WITHOUT, package, str(SCRIPT), "migrate"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"alfred-refs needs {package}; run `pip install alfred-refs[cli]`\n",
    )


@pytest.mark.slow
def test_without_libpq_the_command_names_what_the_readme_does(
    database_url: str, tmp_path: Path
) -> None:
    """The command tells where to get one; psycopg2 has its own, and asyncpg needs none."""
    program = tmp_path / "mint.py"
    program.write_text(MINT)
    url = make_url(database_url)

    def run(driver: str, *command: str) -> subprocess.CompletedProcess[str]:
        given = url.set(drivername=driver).render_as_string(hide_password=False)
        return _run([sys.executable, "-c", WITHOUT_LIBPQ, *command, given], tmp_path)

    failed = run("postgresql", str(SCRIPT), "migrate")
    migrated = run("postgresql+psycopg2", str(SCRIPT), "migrate")
    minted = run("postgresql+asyncpg", str(program))

    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == (
        "Error: the driver of 'postgresql+psycopg' cannot be loaded; pip install "
        "'psycopg[binary]', and let the URL start with postgresql://\n"
    )
    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert (minted.returncode, minted.stdout, minted.stderr) == (0, "recipe_1\n", "")
    installed = 'pip install "psycopg[binary]"           # if libpq is not installed\n'
    assert installed in README.read_text("utf-8")


@pytest.mark.slow
def test_log_messages_are_not_on_standard_error(engine: Engine, tmp_path: Path) -> None:
    """If logging is not configured, an error is the only line."""
    url = engine.url.render_as_string(hide_password=False)
    RefRegistry(engine).create_tables()
    RefRegistry(engine).conversation("chat-7").refer("recipe", 1)
    key = "a508000d-9b55-40f0-8886-dbdd88bd2de2"
    done = _run([str(SCRIPT), "resolve", "--url", url, "chat-7", key], tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("Error: a raw key was given")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["table", "json"])
def test_a_closed_pipe_is_no_error(options: list[str], engine: Engine, tmp_path: Path) -> None:
    """`alfred-refs show | head` prints nothing about it."""
    url = engine.url.render_as_string(hide_password=False)
    RefRegistry(engine).create_tables()
    RefRegistry(engine).conversation("chat-7").refer_all("recipe", range(20_000))
    command = [str(SCRIPT), "show", "--url", url, "chat-7", *options]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        first = running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read()
    assert said == ""
    assert "chat-7" in first


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
