#!/usr/bin/env python3
"""Run the project's jobs from a fresh checkout, with nothing but Python.

    python3 run.py demo [--full]               the example application, on its own PostgreSQL
    python3 run.py agent [--prompts DIRECTORY] a scripted agent of ten turns on it
    python3 run.py mistakes                    a scripted model that makes mistakes and recovers
    python3 run.py test [pytest arguments]     the tests; all of them with --all
    python3 run.py lint                        ruff, mypy, import-linter
    python3 run.py wheel                       build sdist and wheel, and test the wheel alone
    python3 run.py docs                        build docs/ as a site, in build/site
    python3 run.py extras                      import each adapter with its extra alone
    python3 run.py benchmarks                  the package's cost, compared with plain SQLAlchemy
    python3 run.py evals                       models' error rates with refs and with other ids
    python3 run.py faults --minutes 10         fault injection into processes with one registry
    python3 run.py fuzz --calls 100000         random calls of the tools, valid and invalid

`--sqlalchemy 2.0` or `2.1` (the default) selects the SQLAlchemy series. Each has its own
environment next to this file: `.venv` for the default, `.venv-2.0`. It is created, or updated,
when `pyproject.toml` or the running Python has changed. `--sqlalchemy pre` selects the newest
pre-release, if there is one, in `.venv-pre`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OLDEST_PYTHON = (3, 11)
DEFAULT_SERIES = "2.1"
PRE = "pre"

# SQLAlchemy series -> its environment
ENVIRONMENTS = {
    DEFAULT_SERIES: ROOT / ".venv",
    "2.0": ROOT / ".venv-2.0",
    PRE: ROOT / ".venv-pre",
}

# contiguous halves, so that most fixtures of a module are made once
ON_ALL_CORES = ("-n", "auto", "--dist", "worksteal")
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"

SMALL = ("-m", "not slow", "--cells", "2", "--hypothesis-profile", "small")

# without these, `test` is the small run; with them, the selected tests run whole, in one process
SELECTING = ("-k", "-m", "--lf", "--last-failed", "--sw", "--stepwise")

SMALL_RUN = """\
small run: about five minutes on two cores. Left out are the tests marked `slow`, what a test has
of parameters beyond two sets, and four fifths of Hypothesis' examples.
Run everything with `python3 run.py test --all`, or name tests by path or -k."""

# the tests that pin SQLAlchemy's behaviour, for pre-releases
PINNED = ("tests/sqla", "tests/statements")

LINTERS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy",),
    ("lint-imports", "--no-logo"),
)

# extras with a module in `alfred_refs.integrations`
ADAPTERS = ("anthropic", "langchain", "mcp", "openai-agents", "pydantic-ai")

# seconds between two progress messages of an installation, and their length
SILENCE: float = 5
LONGEST = 80

# variables that would make pip install elsewhere, or less; those about indexes, proxies and
# certificates stay the user's
MISLEADING = frozenset(
    {
        "PIP_DRY_RUN",
        "PIP_NO_DEPS",
        "PIP_PREFIX",
        "PIP_PYTHON",
        "PIP_REQUIRE_VIRTUALENV",
        "PIP_ROOT",
        "PIP_TARGET",
        "PYTHONHOME",
        "PYTHONPATH",
    }
)


def main(arguments: Sequence[str]) -> int:
    """Run the job named in `arguments`, and return its exit code."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed")
    options, rest = _parser().parse_known_args(arguments)
    os.chdir(ROOT)
    python = environment(options.sqlalchemy)
    if options.sqlalchemy == PRE:
        version = newest_sqlalchemy(python)
        if version.startswith(f"{DEFAULT_SERIES}.") and version.replace(".", "").isdecimal():
            _say(f"there is no pre-release of SQLAlchemy: the newest version is {version}")
            return 0
        _say(f"SQLAlchemy {version}")
        if options.job == "test" and not any(_is_path(argument) for argument in rest):
            rest = [*PINNED, *rest]
    return JOBS[options.job](python, rest)


def demo(python: Path, arguments: Sequence[str]) -> int:
    """Run the example application on its own server."""
    _say("starting PostgreSQL ...")
    return _run([python, "-m", "tests.postgres", python, "-m", "examples.kitchen", *arguments])


def mistakes(python: Path, arguments: Sequence[str]) -> int:
    """Run the scripted model that makes mistakes, on its own server."""
    _say("starting PostgreSQL ...")
    return _run([python, "-m", "tests.postgres", python, "-m", "examples.mistakes", *arguments])


def agent(python: Path, arguments: Sequence[str]) -> int:
    """Run the scripted agent of ten turns, on its own server."""
    _say("starting PostgreSQL ...")
    return _run([python, "-m", "tests.postgres", python, "-m", "examples.agent", *arguments])


def test(python: Path, arguments: Sequence[str]) -> int:
    """Run the selected tests, all tests with `--all`, or else the small run."""
    options = [argument for argument in arguments if argument != "--all"]
    if "--all" in arguments:
        options = [*ON_ALL_CORES, *options]
    elif not any(_is_path(each) or each.startswith(SELECTING) for each in arguments):
        _say(SMALL_RUN)
        options = [*ON_ALL_CORES, *SMALL, *options]
    return _run([python, "-m", "pytest", *options])


def lint(python: Path, _arguments: Sequence[str]) -> int:
    """Run every linter, even if one has failed."""
    codes = [_run([python.with_name(name), *options]) for name, *options in LINTERS]
    return int(any(codes))


def wheel(python: Path, arguments: Sequence[str]) -> int:
    """Build sdist and wheel, check their contents, and run `tests/smoke_wheel.py` on the wheel."""
    with tempfile.TemporaryDirectory() as directory:
        built, empty = Path(directory, "dist"), Path(directory, "venv")
        # the wheel is built from the sdist, so a file missing there is missing in both
        if code := _run([python, "-m", "build", "--outdir", built, *arguments]):
            return code
        check: list[str | Path] = [python, "-m", "twine", "check", "--strict", *built.iterdir()]
        if code := _run(check) or _run([python, "-m", "tests.distributions", built]):
            return code
        bare = make_environment(empty)
        install(bare, *(f"{found}[cli]" for found in built.glob("*.whl")), "psycopg[binary]")
        # -I: without it, the checkout would be imported instead of the wheel
        return _run([python, "-m", "tests.postgres", bare, "-I", "tests/smoke_wheel.py"])


def docs(python: Path, arguments: Sequence[str]) -> int:
    """Build the site, with warnings as errors, and check its links and search."""
    add_extra(python, "docs")
    site = Path("build", "site")
    shutil.rmtree(site, ignore_errors=True)
    # a full build: unchanged pages may link to changed ones
    options = ("-q", "-E", "-W", "--keep-going", "-j", "2", "-d", "build/doctrees")
    code = _run([python, "-m", "sphinx", *options, *arguments, "docs", site])
    return code or _run([python, "-m", "tests.site", site])


def extras(python: Path, arguments: Sequence[str]) -> int:
    """Build the wheel, and import each adapter in an environment with its extra alone."""
    with tempfile.TemporaryDirectory() as directory:
        built = Path(directory, "dist")
        if code := _run([python, "-m", "build", "--wheel", "--outdir", built, *arguments]):
            return code
        [found] = built.glob("*.whl")
        for extra in ADAPTERS:
            bare = make_environment(Path(directory, extra))
            install(bare, f"{found}[{extra}]")
            module = f"alfred_refs.integrations.{extra.replace('-', '_')}"
            # -I: without it, the checkout would be imported instead of the wheel
            if code := _run([bare, "-I", "-c", f"import {module}"]):
                return code
            _say(f"{module} needs the extra {extra} alone")
    return 0


def benchmarks(python: Path, arguments: Sequence[str]) -> int:
    """Run the benchmarks on their own server."""
    add_extra(python, "bench")
    return _run([python, "-m", "benchmarks", *arguments])


def evals(python: Path, arguments: Sequence[str]) -> int:
    """Run the evals: tasks for a model, or a scripted one, with refs and other ids."""
    add_extra(python, "eval")
    return _run([python, "-m", "evals", *arguments])


def faults(python: Path, arguments: Sequence[str]) -> int:
    """Run fault injection on its own server."""
    return _run([python, "-m", "tests.faults", *arguments])


def fuzz(python: Path, arguments: Sequence[str]) -> int:
    """Run random calls of the tools on their own server, and check the outcomes."""
    return _run([python, "-m", "tests.tools.fuzz", *arguments])


# first argument -> job
JOBS = {
    "agent": agent,
    "benchmarks": benchmarks,
    "demo": demo,
    "docs": docs,
    "evals": evals,
    "extras": extras,
    "faults": faults,
    "fuzz": fuzz,
    "lint": lint,
    "mistakes": mistakes,
    "test": test,
    "wheel": wheel,
}


def environment(series: str) -> Path:
    """Return the interpreter of `series`' environment, after an update if needed."""
    directory = ENVIRONMENTS[series]
    stamp = directory / "stamp"
    interpreter, requirements = _interpreter(), _requirements(series)
    written = stamp.read_text().splitlines() if stamp.exists() else []
    python = _python(directory)
    if written == [interpreter, requirements]:
        return python
    if written[:1] == [interpreter]:
        stamp.unlink()
    else:
        make_environment(directory)
    supported = DEFAULT_SERIES if series == PRE else series
    install(python, "--editable", ".[dev]", f"sqlalchemy=={supported}.*")
    # last, so that an interrupted installation starts over
    stamp.write_text(f"{interpreter}\n{requirements}\n")
    return python


def newest_sqlalchemy(python: Path) -> str:
    """Install the newest SQLAlchemy, pre-releases included, and return its version.

    Its dependencies are there already. It is installed separately because it contradicts the
    project's requirements.
    """
    install(python, "--pre", "--upgrade", "--no-deps", "sqlalchemy")
    show = [str(python), "-c", "import sqlalchemy; print(sqlalchemy.__version__)"]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip()


def add_extra(python: Path, extra: str) -> None:
    """Install an extra into the environment, unless it is up to date.

    The project itself stays as it is: tests may run in the environment.
    """
    directory = python.parents[1]
    environment_stamp, stamp = directory / "stamp", directory / f"stamp-{extra}"
    if not stamp.exists() or stamp.read_text() != environment_stamp.read_text():
        import tomllib  # noqa: PLC0415  # an older Python must get as far as its error

        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        requirements: list[str] = project["optional-dependencies"][extra]
        install(python, *(each for each in requirements if not each.startswith(project["name"])))
        stamp.write_text(environment_stamp.read_text())


def make_environment(directory: Path) -> Path:
    """Create an empty environment in `directory`, and return its interpreter."""
    # Debian has ensurepip in a separate package
    has_ensurepip = importlib.util.find_spec("ensurepip") is not None
    venv.create(directory, clear=True, with_pip=has_ensurepip, symlinks=os.name != "nt")
    return _python(directory)


def install(python: Path, *what: str | Path) -> None:
    """Install `what` for `python`, by its own pip or else by ours.

    Raises:
        SystemExit: the installation failed; pip has printed the reason.
    """
    own = [str(python), "-m", "pip"]
    ours = [sys.executable, "-m", "pip", "--python", str(python)]
    has_own = subprocess.run([python, "-c", "import pip"], capture_output=True, check=False)
    if has_own.returncode and importlib.util.find_spec("pip") is None:
        sys.exit("neither ensurepip nor pip is there: install python3-venv or python3-pip")
    pip = ours if has_own.returncode else own
    # most modules are never imported: compiling them all takes a third of the time
    options = ("--no-compile", "--disable-pip-version-check", "--progress-bar", "off")
    command = [*pip, "install", *options, *what]
    _say(
        f"installing into {python.parents[1].name}; the first time this takes a minute or two ..."
    )
    if code := _watched(command, pip_environ(os.environ)):
        sys.exit(code)


def pip_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without the variables in `MISLEADING`."""
    kept = {name: value for name, value in environ.items() if name not in MISLEADING}
    # a configuration file may ask for user installs too
    return kept | {"PIP_USER": "0"}


def _watched(command: Sequence[str | Path], environ: Mapping[str, str]) -> int:
    """Run a command, and print its last line of output every few seconds."""
    last = [""]
    began = time.monotonic()
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as running:

        def read() -> None:
            for line in running.stdout or ():
                last[0] = line.strip()

        reader = threading.Thread(target=read)
        reader.start()
        while True:
            try:
                code = running.wait(SILENCE)
                break
            except subprocess.TimeoutExpired:
                _say(f"  {time.monotonic() - began:.0f} s: {last[0][:LONGEST]}")
        reader.join()
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run(command: Sequence[str | Path]) -> int:
    # without bytecode, each of a job's many processes would compile what it imports
    environ = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    # keep our output before that of the job
    sys.stdout.flush()
    return subprocess.run(command, env=environ, check=False).returncode


def _python(directory: Path) -> Path:
    return directory / "bin" / "python"


def _is_path(argument: str) -> bool:
    # pytest takes tests/test_x.py::test_y too
    return (ROOT / argument.partition("::")[0]).exists()


def _interpreter() -> str:
    # an environment cannot be moved, hence the root
    return f"{sys.version_info[:3]} {Path(sys.executable).resolve()} {ROOT}"


def _requirements(series: str) -> str:
    return f"{series} {hashlib.sha256((ROOT / 'pyproject.toml').read_bytes()).hexdigest()}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # unknown arguments are for the job
        allow_abbrev=False,
    )
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("--sqlalchemy", choices=list(ENVIRONMENTS), default=DEFAULT_SERIES)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
