"""Each adapter needs its own framework, which is new enough, and none of the others."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from alfred_refs import integrations
from alfred_refs.integrations.adapters import require

pytestmark = pytest.mark.slow

# extra, which is the module's name too -> what it brings that others may not be there without
BRINGS = {
    "anthropic": {"anthropic"},
    "langchain": {"langchain", "langchain_core", "langgraph"},
    "mcp": {"mcp"},
    "openai-agents": {"agents", "mcp", "openai"},
    "opentelemetry": set[str](),  # others use it if it is there
    "pydantic-ai": {"pydantic_ai"},
}
# of extras that are no adapter's
OTHERS = {"click", "greenlet", "inflect", "jinja2", "rich"}


@pytest.mark.parametrize("extra", BRINGS)
def test_an_extra_is_enough_by_itself(extra: str) -> None:
    """Its module imports where none of what other extras bring can be."""
    absent = set().union(OTHERS, *BRINGS.values()) - BRINGS[extra]
    program = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(absent)}))\n"
        f"import alfred_refs.integrations.{extra.replace('-', '_')}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_no_framework_is_loaded_before_it_is_asked_for() -> None:
    """By the package, its tools and its prompts, nor by what the adapters share."""
    program = (
        "import sys, alfred_refs.tools, alfred_refs.context\n"
        "from alfred_refs import RefRegistry, RefSession, integrations\n"
        "from alfred_refs.integrations import adapters\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert set().union(*BRINGS.values()).isdisjoint(done.stdout.split())


@pytest.mark.parametrize("extra", sorted(BRINGS.keys() - {"mcp"}))
def test_floors_are_those_of_the_extras(extra: str) -> None:
    """What a module asks for is what pip installs for it."""
    module = Path(integrations.__path__[0], f"{extra.replace('-', '_')}.py").read_text("utf-8")
    [(package, floor, named)] = re.findall(
        r'^require\("(.+?)", "(.+?)", extra="(.+?)"\)$', module, re.MULTILINE
    )
    with Path(integrations.__path__[0]).parents[1].joinpath("pyproject.toml").open("rb") as file:
        [asked] = tomllib.load(file)["project"]["optional-dependencies"][extra]
    assert named == extra
    assert re.fullmatch(rf"{package}>={floor},<\d+", asked)


@pytest.mark.parametrize(
    ("package", "floor", "told"),
    [
        (
            "pytest",
            "99",
            rf"pytest 99 or newer is required, but {pytest.__version__} is installed",
        ),
        ("no-such-package", "1", "no-such-package 1 or newer is required, but none is installed"),
    ],
)
def test_what_is_too_old_is_told_with_a_remedy(package: str, floor: str, told: str) -> None:
    """Before something that it has not got is missed."""
    with pytest.raises(ImportError, match=rf"^{told}; run `pip install 'alfred-refs\[some\]'`$"):
        require(package, floor, extra="some")


def test_versions_are_compared_as_numbers() -> None:
    """Of two that begin alike, the longer text may be the older one."""
    newest = ".".join(pytest.__version__.split(".")[:2])
    require("pytest", newest, extra="some")
    with pytest.raises(ImportError):
        require("pytest", f"{pytest.__version__.split('.')[0]}.1000", extra="some")
