#!/usr/bin/env python3
"""Run the project's jobs from a fresh checkout, with nothing but Python.

    python3 run.py demo [--full]               the kitchen, on a PostgreSQL of its own
    python3 run.py agent [--prompts DIRECTORY] an agent of ten turns there, by its prompts
    python3 run.py mistakes                    a model that errs there, and goes on
    python3 run.py test [pytest arguments]     the tests; all of them with --all
    python3 run.py lint                        ruff, mypy, import-linter
    python3 run.py wheel                       build sdist and wheel, try it by itself
    python3 run.py docs                        the site of docs/, in build/site
    python3 run.py extras                      the same for each adapter, with its extra alone
    python3 run.py benchmarks                  what the package costs, side by side
    python3 run.py evals                       what models do with refs, and with other ids
    python3 run.py faults --minutes 10         processes that share a registry while things fail
    python3 run.py fuzz --calls 100000         calls of the tools, right and wrong

`--sqlalchemy 2.0` or `2.1` (the default) before the other arguments picks the SQLAlchemy series;
each has an environment of its own beside this file: `.venv` for the default, `.venv-2.0`. One is
made, or brought up to date, when `pyproject.toml` or the Python that runs this file has changed.
`--sqlalchemy pre` picks what is to come: the newest pre-release, in `.venv-pre`, if there is one.
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

# SQLAlchemy series -> where its environment is
ENVIRONMENTS = {
    DEFAULT_SERIES: ROOT / ".venv",
    "2.0": ROOT / ".venv-2.0",
    PRE: ROOT / ".venv-pre",
}

ON_ALL_CORES = ("-n", "auto")

# without these, `test` makes the small run; what they select is run whole, in one process
SELECTING = ("-k", "-m", "--lf", "--last-failed", "--sw", "--stepwise")

SMALL_RUN = """\
small run: about five minutes on two cores. Left out are the tests marked `slow`, and four fifths
of Hypothesis' examples.
Run everything with `python3 run.py test --all`, or name tests by path or -k."""

# the tests of what we lean on in SQLAlchemy, by which a pre-release is judged
PINNED = ("tests/sqla", "tests/statements")

LINTERS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy",),
    ("lint-imports", "--no-logo"),
)

# the extras that have a module of `alfred_refs.integrations` each
ADAPTERS = ("anthropic", "langchain", "mcp", "openai-agents", "pydantic-ai")

# seconds after which an installation says what it is at, and how many characters of that
SILENCE: float = 5
LONGEST = 80

# what would make pip install elsewhere, or less, than it is told; where pip finds packages
# (indexes, proxies, certificates) is the user's to say
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
    """Run the job that `arguments` name, and return its exit code."""
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
    """Run the kitchen against a server that lives as long as it does."""
    _say("starting a PostgreSQL of its own ...")
    return _run([python, "-m", "tests.postgres", python, "-m", "examples.kitchen", *arguments])


def mistakes(python: Path, arguments: Sequence[str]) -> int:
    """Have a scripted model call the kitchen's tools, against a server of its own."""
    _say("starting a PostgreSQL of its own ...")
    return _run([python, "-m", "tests.postgres", python, "-m", "examples.mistakes", *arguments])


def agent(python: Path, arguments: Sequence[str]) -> int:
    """Have a scripted model cook for ten turns by its prompts, against a server of its own."""
    _say("starting a PostgreSQL of its own ...")
    return _run([python, "-m", "tests.postgres", python, "-m", "examples.agent", *arguments])


def test(python: Path, arguments: Sequence[str]) -> int:
    """Run the tests that the arguments select, all of them with `--all`, or the small run."""
    pytest: list[str | Path] = [python, "-m", "pytest"]
    if "--all" in arguments:
        rest = [argument for argument in arguments if argument != "--all"]
        return _run([*pytest, *ON_ALL_CORES, *rest])
    if any(_is_path(each) or each.startswith(SELECTING) for each in arguments):
        return _run([*pytest, *arguments])
    _say(SMALL_RUN)
    small = ("-m", "not slow", "--hypothesis-profile", "small")
    return _run([*pytest, *ON_ALL_CORES, *small, *arguments])


def lint(python: Path, _arguments: Sequence[str]) -> int:
    """Run every linter, whether or not the one before it was content."""
    codes = [_run([python.with_name(name), *options]) for name, *options in LINTERS]
    return int(any(codes))


def wheel(python: Path, arguments: Sequence[str]) -> int:
    """Build sdist and wheel, look into both, and run `tests/smoke_wheel.py` on the wheel alone."""
    with tempfile.TemporaryDirectory() as directory:
        built, empty = Path(directory, "dist"), Path(directory, "venv")
        # of the sdist: what that lacks, the wheel would lack
        if code := _run([python, "-m", "build", "--outdir", built, *arguments]):
            return code
        check: list[str | Path] = [python, "-m", "twine", "check", "--strict", *built.iterdir()]
        if code := _run(check) or _run([python, "-m", "tests.distributions", built]):
            return code
        bare = make_environment(empty)
        install(bare, *(f"{found}[cli]" for found in built.glob("*.whl")), "psycopg[binary]")
        # -I: the checkout must not be importable, or it would be what is tried
        return _run([python, "-m", "tests.postgres", bare, "-I", "tests/smoke_wheel.py"])


def docs(python: Path, arguments: Sequence[str]) -> int:
    """Make the site, with warnings as errors, and look whether it holds together."""
    add_extra(python, "docs")
    site = Path("build", "site")
    shutil.rmtree(site, ignore_errors=True)
    # all of it anew: pages that have not changed may link to what has
    options = ("-q", "-E", "-W", "--keep-going", "-j", "2", "-d", "build/doctrees")
    code = _run([python, "-m", "sphinx", *options, *arguments, "docs", site])
    return code or _run([python, "-m", "tests.site", site])


def extras(python: Path, arguments: Sequence[str]) -> int:
    """Build the wheel, and import each adapter where it and its extra alone are installed."""
    with tempfile.TemporaryDirectory() as directory:
        built = Path(directory, "dist")
        if code := _run([python, "-m", "build", "--wheel", "--outdir", built, *arguments]):
            return code
        [found] = built.glob("*.whl")
        for extra in ADAPTERS:
            bare = make_environment(Path(directory, extra))
            install(bare, f"{found}[{extra}]")
            module = f"alfred_refs.integrations.{extra.replace('-', '_')}"
            # -I: the checkout must not be importable, or it would be what is tried
            if code := _run([bare, "-I", "-c", f"import {module}"]):
                return code
            _say(f"{module} needs the extra {extra} alone")
    return 0


def benchmarks(python: Path, arguments: Sequence[str]) -> int:
    """Measure what the package costs, on a server of its own, beside packages that do the like."""
    add_extra(python, "bench")
    return _run([python, "-m", "benchmarks", *arguments])


def evals(python: Path, arguments: Sequence[str]) -> int:
    """Have a model, or a scripted one that errs, do tasks with refs and with other ids."""
    add_extra(python, "eval")
    return _run([python, "-m", "evals", *arguments])


def faults(python: Path, arguments: Sequence[str]) -> int:
    """Kill, cut and crash what uses the registry, on a server of its own, and judge it."""
    return _run([python, "-m", "tests.faults", *arguments])


def fuzz(python: Path, arguments: Sequence[str]) -> int:
    """Call the tools as models may, and look what comes of it, on a server of its own."""
    return _run([python, "-m", "tests.tools.fuzz", *arguments])


# what the first argument says -> what is done
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
    """Return the interpreter of `series`' environment, brought up to date."""
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
    # last, so that an interrupted installation is begun anew
    stamp.write_text(f"{interpreter}\n{requirements}\n")
    return python


def newest_sqlalchemy(python: Path) -> str:
    """Install the newest SQLAlchemy there is, a pre-release too, and return its version.

    It goes without its dependencies, which the supported version has brought, and beside what the
    project asks for: pip would not install both together.
    """
    install(python, "--pre", "--upgrade", "--no-deps", "sqlalchemy")
    show = [str(python), "-c", "import sqlalchemy; print(sqlalchemy.__version__)"]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip()


def add_extra(python: Path, extra: str) -> None:
    """Install an extra of the project into its environment, again when that has changed."""
    directory = python.parents[1]
    environment_stamp, stamp = directory / "stamp", directory / f"stamp-{extra}"
    if not stamp.exists() or stamp.read_text() != environment_stamp.read_text():
        install(python, "--editable", f".[{extra}]")
        stamp.write_text(environment_stamp.read_text())


def make_environment(directory: Path) -> Path:
    """Make an empty environment in `directory`, and return its interpreter."""
    # Debian ships ensurepip in a package of its own
    has_ensurepip = importlib.util.find_spec("ensurepip") is not None
    venv.create(directory, clear=True, with_pip=has_ensurepip, symlinks=os.name != "nt")
    return _python(directory)


def install(python: Path, *what: str | Path) -> None:
    """Install `what` for `python`, by its own pip or, if it has none, by ours.

    Raises:
        SystemExit: it could not be installed; pip has said why.
    """
    own = [str(python), "-m", "pip"]
    ours = [sys.executable, "-m", "pip", "--python", str(python)]
    has_own = subprocess.run([python, "-c", "import pip"], capture_output=True, check=False)
    if has_own.returncode and importlib.util.find_spec("pip") is None:
        sys.exit("neither ensurepip nor pip is there: install python3-venv or python3-pip")
    pip = ours if has_own.returncode else own
    command = [*pip, "install", "--disable-pip-version-check", "--progress-bar", "off", *what]
    _say(
        f"installing into {python.parents[1].name}; the first time this takes a minute or two ..."
    )
    if code := _watched(command, pip_environ(os.environ)):
        sys.exit(code)


def pip_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what of `environ` pip should see: all but what would lead it elsewhere."""
    kept = {name: value for name, value in environ.items() if name not in MISLEADING}
    # not only left out: a configuration file may ask for user installs too
    return kept | {"PIP_USER": "0"}


def _watched(command: Sequence[str | Path], environ: Mapping[str, str]) -> int:
    """Run a command, and say every few seconds what it has printed last."""
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


def _run(command: Sequence[str | Path], environ: Mapping[str, str] | None = None) -> int:
    # one stream for us and for the job
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
        # what it does not know is for the job
        allow_abbrev=False,
    )
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("--sqlalchemy", choices=list(ENVIRONMENTS), default=DEFAULT_SERIES)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
