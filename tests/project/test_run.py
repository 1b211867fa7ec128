"""`run.py` keeps environments up to date, and selects tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import run
from tests.conftest import ON_BOTH, few

PROJECT = """
[project]
name = "soup"
optional-dependencies = { bench = ["soup[dev]", "spoon>=1"], dev = [] }
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with environments in a temporary directory."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "ENVIRONMENTS", {"2.0": tmp_path / "venv"})
    return tmp_path


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps done to the environment, recorded instead of executed."""
    steps: list[str] = []

    def make(directory: Path) -> Path:
        directory.mkdir(exist_ok=True)
        (directory / "stamp").unlink(missing_ok=True)
        steps.append("make")
        return directory

    monkeypatch.setattr(run, "make_environment", make)
    monkeypatch.setattr(run, "install", lambda _python, *what: steps.append(_installed(*what)))
    return steps


def _installed(*what: str) -> str:
    return "install" if what[0] == "--editable" else f"install {' '.join(what)}"


def test_environment_is_made_once(done: list[str]) -> None:
    """An environment that is up to date is used unchanged."""
    run.environment("2.0")
    run.environment("2.0")
    assert done == ["make", "install"]


def test_changed_project_is_installed_again(project: Path, done: list[str]) -> None:
    """A change of pyproject.toml updates the environment without recreating it."""
    run.environment("2.0")
    (project / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    run.environment("2.0")
    assert done == ["make", "install", "install"]


def test_other_interpreter_means_other_environment(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment of another Python is recreated."""
    run.environment("2.0")
    monkeypatch.setattr(sys, "executable", "/elsewhere/python3")
    run.environment("2.0")
    assert done == ["make", "install", "make", "install"]


@pytest.mark.parametrize("installed_before", [False, True])
def test_interrupted_installation_is_repeated(
    project: Path, done: list[str], monkeypatch: pytest.MonkeyPatch, *, installed_before: bool
) -> None:
    """An environment with an incomplete installation is recreated."""
    if installed_before:
        run.environment("2.0")
        (project / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    with monkeypatch.context() as interrupted:
        interrupted.setattr(run, "install", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.environment("2.0")
    done.clear()
    run.environment("2.0")
    assert done == ["make", "install"]


def test_extra_is_installed_once_for_each_state_of_the_project(
    project: Path, done: list[str]
) -> None:
    """The extra `bench` is installed when benchmarks run, and the project not again."""
    for _ in range(2):
        python = run.environment("2.0")
        run.add_extra(python, "bench")
    assert done == ["make", "install", "install spoon>=1"]

    (project / "pyproject.toml").write_text(PROJECT.replace("spoon>=1", "spoon>=2"))
    run.environment("2.0")
    run.add_extra(python, "bench")
    assert done[3:] == ["install", "install spoon>=2"]


@pytest.mark.parametrize(
    ("version", "given", "called"),
    [
        ("2.2.0b1", [], [["tests/sqla", "tests/statements"]]),
        ("2.2.0b1", ["-x", "tests/a.py::test_it"], [["-x", "tests/a.py::test_it"]]),
        ("2.1.12", [], []),
        ("2.1.12rc1", ["-x"], [["tests/sqla", "tests/statements", "-x"]]),
        ("2.2.0", ["-x"], [["tests/sqla", "tests/statements", "-x"]]),
    ],
)
def test_a_prerelease_is_tested_where_there_is_one(
    version: str,
    given: list[str],
    called: list[list[str]],
    *,
    project: Path,
    done: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pre-release runs the pinned tests, or the given ones; without one, nothing runs."""
    monkeypatch.setattr(run, "ENVIRONMENTS", {"pre": project / "venv"})
    monkeypatch.setattr(run, "newest_sqlalchemy", lambda _python: version)
    jobs: list[list[str]] = []

    def run_job(_python: Path, arguments: list[str]) -> int:
        jobs.append(arguments)
        return 0

    monkeypatch.setitem(run.JOBS, "test", run_job)
    (project / "tests").mkdir()
    (project / "tests" / "a.py").touch()
    monkeypatch.chdir(project)

    assert run.main(["test", "--sqlalchemy", "pre", *given]) == 0

    assert (jobs, done) == (called, ["make", "install"])


ALL_CORES = ["-n", "auto", "--dist", "worksteal"]
SMALL = [*ALL_CORES, "-m", "not slow", "--cells", "2", "--hypothesis-profile", "small"]


@pytest.mark.parametrize(
    ("given", "called", "announced"),
    [
        ([], SMALL, True),
        (["-x", "--cov"], [*SMALL, "-x", "--cov"], True),
        (["--all"], ALL_CORES, False),
        (["--all", "-m", "not once"], [*ALL_CORES, "-m", "not once"], False),
        (["-k", "launcher", "-x"], ["-k", "launcher", "-x"], False),
        (["-m", "slow"], ["-m", "slow"], False),
        (["--lf"], ["--lf"], False),
        (["tests/a.py::test_it"], ["tests/a.py::test_it"], False),
    ],
)
def test_the_small_run_is_the_default(
    given: list[str],
    called: list[str],
    *,
    announced: bool,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is announced first; selected tests run whole, as with `--all`; all write bytecode."""
    (project / "tests").mkdir()
    (project / "tests" / "a.py").touch()
    commands: list[tuple[list[str], dict[str, str]]] = []

    def start(
        command: list[str], *, env: dict[str, str], check: bool
    ) -> subprocess.CompletedProcess[str]:
        assert not check
        commands.append((command, env))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", start)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    run.test(Path("python"), given)

    [(command, environ)] = commands
    assert command[3:] == called
    assert environ == {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    assert ("python3 run.py test --all" in capsys.readouterr().err) == announced


def _interrupt(*_what: object) -> None:
    raise KeyboardInterrupt


def test_a_long_job_reports_progress(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A long job prints its last line to standard error repeatedly; a short one does not."""
    program = f"import sys, time; print({'one' * 99!r}, flush=True); time.sleep(1); sys.exit(3)"
    monkeypatch.setattr(run, "SILENCE", 0.1)
    assert run._watched([sys.executable, "-c", program], {}) == 3
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1].partition(" s: ")[2] == ("one" * 99)[: run.LONGEST]

    monkeypatch.setattr(run, "SILENCE", 99)
    assert (run._watched([sys.executable, "-c", "print(1)"], {}), capfd.readouterr()) == (
        0,
        ("", ""),
    )


def test_pip_keeps_settings_of_indexes_but_not_of_targets() -> None:
    """Variables that would redirect an installation are removed."""
    environ = {"PATH": "/bin", "PIP_NO_INDEX": "1", "PIP_TARGET": "/t", "PIP_USER": "1"}
    expected = {"PATH": "/bin", "PIP_NO_INDEX": "1", "PIP_USER": "0"}
    assert run.pip_environ(environ) == expected


def test_needs_nothing_but_python() -> None:
    """`run.py` imports the standard library only, as it runs before any installation."""
    tree = ast.parse(Path(run.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = [
        node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in imports
    ]
    assert {module.split(".")[0] for module in modules} <= sys.stdlib_module_names


def test_the_cells_of_a_seed_are_always_the_same() -> None:
    """All cells of a test run sooner or later, each time for the same seeds."""
    names = [f"tests/test_soup.py::test_soup[{letter}]" for letter in "abcdefgh"]
    items: Any = [_item(name, marks=()) for name in names]
    seeds = [sha256(bytes([n])).hexdigest() for n in range(100)]
    chosen = [[item.nodeid for item in few(items, 2, seed)] for seed in seeds]
    assert chosen == [[item.nodeid for item in few(items[::-1], 2, seed)][::-1] for seed in seeds]
    assert {len(names) for names in chosen} == {2}
    assert {*chain(*chosen)} == {*names}

    whole: Any = [_item(f"tests/test_page.py::test_page[{n}]", marks=("whole",)) for n in range(9)]
    assert few([*whole, *items], 2, "")[:9] == whole


def test_the_modules_that_run_on_both_series_exist() -> None:
    """One that was renamed would run on 2.1 only."""
    assert [name for name in ON_BOTH if not (Path(run.__file__).parent / name).is_file()] == []


def _item(name: str, marks: Sequence[str]) -> SimpleNamespace:
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda mark: mark in marks)
