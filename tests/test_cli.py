"""The `alfred-refs` command: what it does, and what it says when it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

from alfred_refs.commands import alfred_refs

SCRIPT = Path(sys.executable).with_name("alfred-refs")

# runs the script in its own interpreter, as one that has no click
WITHOUT_CLICK = """
import runpy, sys

sys.modules["click"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_migrate_makes_the_tables(database_url: str) -> None:
    """`migrate` says which revision the tables are at, and `current` then says the same."""
    runner = CliRunner()
    assert runner.invoke(alfred_refs, ["current", database_url]).output == "none\n"
    migrated = runner.invoke(alfred_refs, ["migrate", database_url])
    assert migrated.output == "the registry's tables are at revision 0003\n"
    assert runner.invoke(alfred_refs, ["current", database_url]).output == "0003\n"


def test_url_may_come_from_the_environment(database_url: str) -> None:
    """`ALFRED_REFS_DATABASE_URL` stands in for a URL that is left out."""
    environ = {"ALFRED_REFS_DATABASE_URL": database_url}
    result = CliRunner().invoke(alfred_refs, ["migrate"], env=environ)
    assert (result.exit_code, result.output) == (0, "the registry's tables are at revision 0003\n")


@pytest.mark.parametrize(
    "arguments", [["migrate"], ["current"], ["nonesuch"], ["migrate", "a", "b"]]
)
def test_misuse_is_exit_code_2(arguments: list[str]) -> None:
    """A missing URL, an unknown command or one word too many shows how it is used."""
    result = CliRunner().invoke(alfred_refs, arguments, env={"ALFRED_REFS_DATABASE_URL": None})
    assert result.exit_code == 2
    assert result.output.startswith("Usage: ")


@pytest.mark.parametrize("command", ["migrate", "current"])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://me:hunter2@db/app", "the registry is kept in PostgreSQL, and the URL is one of"),
        ("postgresql://me:hunter2", "the database's URL cannot be read; write postgresql://"),
        ("postgresql+nonesuch://me:hunter2@db/app", "the driver of 'postgresql+nonesuch' cannot"),
        ("postgresql://me:hunter2@127.0.0.1:1/app", "the registry's database 'app' cannot be"),
    ],
)
def test_url_that_cannot_be_used_is_one_line(command: str, url: str, said: str) -> None:
    """A URL that cannot be used is exit code 1 and one line, which has no password."""
    result = CliRunner().invoke(alfred_refs, [command, url])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {said}")
    assert result.output.count("\n") == 1
    assert "hunter2" not in result.output


def test_refused_statement_is_one_line(database_url: str) -> None:
    """Where the database does not let tables be made, the command says what the database said."""
    read_only = {"options": "-c default_transaction_read_only=on"}
    url = make_url(database_url).update_query_dict(read_only)
    given = url.render_as_string(hide_password=False)
    result = CliRunner().invoke(alfred_refs, ["migrate", given])
    assert result.exit_code == 1
    assert result.output == "Error: cannot execute CREATE TABLE in a read-only transaction\n"


@pytest.mark.parametrize(
    "command", [[str(SCRIPT)], [sys.executable, "-m", "alfred_refs"]], ids=["script", "module"]
)
def test_installed_command_migrates(command: list[str], database_url: str, tmp_path: Path) -> None:
    """The console script and `python -m alfred_refs` work from any directory."""
    done = _run([*command, "migrate", database_url], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "the registry's tables are at revision 0003\n",
        "",
    )


def test_installed_command_tells_errors_on_standard_error(
    database_url: str, tmp_path: Path
) -> None:
    """An error is one line on standard error: no traceback, and no password."""
    url = make_url(database_url).set(database="nonesuch", password="hunter2")  # noqa: S106
    done = _run([str(SCRIPT), "current", url.render_as_string(hide_password=False)], tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("Error: the registry's database 'nonesuch' cannot be reached; ")
    assert "hunter2" not in done.stderr


def test_without_click_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    """Without the extra `cli` the command names it, and is exit code 2."""
    done = _run([sys.executable, "-c", WITHOUT_CLICK, str(SCRIPT), "migrate"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "alfred-refs needs click; run `pip install alfred-refs[cli]`\n",
    )


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
