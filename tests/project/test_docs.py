"""The site says what is so: programs run, other code is well formed, names are there."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlalchemy import Engine, create_engine, event, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Toolset
from examples import typed
from examples.picture import picture
from tests import readme, reference
from tests.project import shop_chat

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TEST = re.compile(r"`(test_\w+)`")


# pages whose programs run from top to bottom, with the imports and the registry of `start.md`
CONTINUED = ["approval", "history", "labels", "listeners", "many-to-many", "operations", "users"]


@pytest.mark.whole
@pytest.mark.parametrize("name", CONTINUED)
def test_a_page_prints_what_it_says(name: str, engine: Engine) -> None:
    """Run from top to bottom, as a reader would."""
    names = {"engine": engine, "__name__": "page"}
    exec(_beginning_of_start(), names)  # noqa: S102  # our own text
    printed, expected = readme.page(DOCS / f"{name}.md", names)

    assert [text for text in printed if text] == [text for text in expected if text]


# pages that make their own registry and session -> how many of their programs print
BY_THEMSELVES = {"context": 5, "drafts": 4, "positions": 4, "sql": 2}


@pytest.mark.whole
@pytest.mark.parametrize(("name", "outputs"), BY_THEMSELVES.items())
def test_a_page_by_itself_prints_what_it_says(name: str, outputs: int, engine: Engine) -> None:
    """It makes its own registry and session."""
    names: dict[str, Any] = {"engine": engine, "uuid": uuid, "__name__": "page"}
    printed, expected = readme.page(DOCS / f"{name}.md", names)
    names["session"].close()

    assert printed == expected
    assert len([text for text in printed if text]) == outputs


def test_the_first_page_prints_what_it_says(engine: Engine) -> None:
    """It needs an engine, and nothing else."""
    printed, expected = readme.page(DOCS / "start.md", {"engine": engine, "__name__": "page"})

    assert printed == expected


def _beginning_of_start() -> str:
    """Return imports, `Base`, `registry` and `sessions` of the first page, without its classes."""
    text = "\n".join(program for program, _ in readme.page_programs(DOCS / "start.md"))
    kept = [each for each in ast.parse(text).body if _is_set_up(ast.unparse(each))]
    return ast.unparse(ast.Module(kept, type_ignores=[]))


def _is_set_up(statement: str) -> bool:
    return statement.startswith(("from ", "import ", "class Base", "registry", "sessions"))


def test_the_first_program_of_the_registry_prints_what_the_page_says(engine: Engine) -> None:
    """The others on that page are Alembic's environments and revisions."""
    program, expected = readme.page_programs(DOCS / "registry.md")[0]

    assert readme.run(program, {"engine": engine}) == expected != ""


class PlateBase(DeclarativeBase):
    """The class of the section on replicas."""


class Plate(PlateBase):
    """A row to read from a replica."""

    __tablename__ = "plates"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


def test_replicas_are_read_and_nothing_else(engine: Engine) -> None:
    """By the last program of the page on poolers; a connection that only reads is the replica."""
    PlateBase.metadata.create_all(engine)
    RefRegistry(engine).create_tables()
    replica = create_engine(engine.url, execution_options={"postgresql_readonly": True})
    sent: list[str] = []
    event.listen(replica, "before_cursor_execute", lambda *given: sent.append(given[2]))
    names = {"primary": engine, "replica": replica, "toolset": Toolset([Plate])}
    program, expected = readme.page_programs(DOCS / "poolers.md")[-1]

    assert readme.run(program, names) == expected != ""
    assert len(sent) > 1
    replica.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_the_agent_loop_prints_what_it_says(driver: str, engine: Engine) -> None:
    """A FastAPI application with a scripted model, two turns long, and a stranger's request."""
    names: dict[str, Any] = {
        "engine": create_async_engine(engine.url.set(drivername=f"postgresql+{driver}")),
        "__name__": "page",
    }
    page = DOCS / "agent-loop.md"
    printed, _ = readme.page(page, names)
    [shown] = [text for kind, text in _blocks(page) if kind == "text"]

    assert not any(printed)
    assert asyncio.run(shop_chat.talk(names)) == (shown, [(307, True), (404, False)])


def test_the_program_on_types_is_the_one_that_the_linters_check() -> None:
    """Which mypy does, with an error where it is said to be one; `test_typed` runs it."""
    [program] = [text for kind, text in _blocks(DOCS / "typing.md") if kind == "python"]

    assert program == Path(typed.__file__).read_text("utf-8")


def test_what_is_declared_as_text_is_a_key_in_the_database(engine: Engine) -> None:
    """Keys that are typed as refs have the columns that they had, and show refs."""
    registry = RefRegistry(engine)
    registry.create_tables()
    typed.Base.metadata.create_all(engine)
    with Session(engine) as plain, plain.begin():
        plain.add(typed.Recipe(name="Soup"))

    with RefSession(engine, conversation=registry.conversation("chat-7")) as session:
        refs = [recipe.id for recipe in session.scalars(select(typed.Recipe))]
        planned = typed.plan(session, "recipe_1")
        kept = typed.keep(session, "recipe_1")
    assert (refs, planned, kept) == (["recipe_1"], "meal_plan_1", "menu_1")


# pages that have a test of their own in this module
SINGLE = ["agent-loop", "start", "typing"]

# other pages -> what runs their programs
RUNNERS = {
    "README": "project/test_readme.py",
    "cli": "cli/test_page.py",
    "inspector": "inspector/test_page.py",
    "integrations": "integrations/test_page.py",
    "mcp": "integrations/test_mcp_page.py",
    "neighbours": "neighbours/test_docs.py",
    "owner": "owners/test_page.py",
    "poolers": "store/test_poolers.py",
    "registry": "application.py",
    "telemetry": "neighbours/test_docs.py",
    "hooks": "tools/test_page.py",
    "reading": "tools/test_page.py",
    "tool-errors": "tools/test_page.py",
    "testing": "context/test_pytest_plugin.py",
    "tools": "tools/test_page.py",
    "writing": "tools/test_page.py",
}


def test_each_page_with_programs_is_run() -> None:
    """By this module, or by one that names it."""
    pages = {page.stem for page in PAGES if "```python\n" in page.read_text("utf-8")}

    assert pages <= {*CONTINUED, *BY_THEMSELVES, *SINGLE, *RUNNERS}
    assert [
        page
        for page, runner in RUNNERS.items()
        if page.lower() not in (ROOT / "tests" / runner).read_text("utf-8").lower()
    ] == []


# what is no program


def _blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text("utf-8"))


def _of(*kinds: str) -> Iterator[Any]:
    for page in PAGES:
        for number, (kind, text) in enumerate(_blocks(page), start=1):
            if kind in kinds:
                yield pytest.param(kind, text, id=f"{page.stem} {number}: {kind}")


@pytest.mark.parametrize(("kind", "text"), list(_of("json", "toml", "sql", "bash", "console")))
def test_other_code_is_well_formed(kind: str, text: str) -> None:
    """JSON, TOML and SQL are such; each command is of a program that there is."""
    match kind:
        case "json":
            json.loads(text)
        case "toml":
            tomllib.loads(text)
        case "sql":
            assert sqlglot.parse(text.replace(":owner", "1"), dialect="postgres")
        case _:
            assert {line.split()[0] for line in _commands(kind, text)} <= PROGRAMS


PROGRAMS = {"alfred-refs", "pip", "python3", "pytest", "uv", "claude", "psql"}


def _commands(kind: str, text: str) -> Iterator[str]:
    lines = text.replace("\\\n", " ").splitlines()
    if kind == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        if words := shlex.split(line, comments=True):
            yield " ".join(words)


def test_no_other_kind_of_code_is_there() -> None:
    """One that nothing looks at would be believed."""
    kinds = {kind for page in PAGES for kind, _ in _blocks(page)}

    known = {"", "bash", "console", "ini", "json", "python", "sql", "text", "toml", "eval-rst"}
    assert kinds <= known


# names


def test_each_public_name_has_one_entry_in_the_reference() -> None:
    """And there is no entry of any other."""
    assert sorted(reference.entries()) == sorted(reference.public())


def test_security_names_tests_that_there_are() -> None:
    """Each threat names at least one."""
    text = (DOCS / "security.md").read_text("utf-8")
    threats = text.partition("| --- | --- | --- |\n")[2].partition("\n\n")[0].splitlines()
    named = TEST.findall(text)

    assert [row for row in threats if not TEST.search(row)] == []
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in tests] == []
    assert len(named) > 20


# the first page


def test_the_picture_is_of_what_happens(engine: Engine) -> None:
    """`python -m examples.picture` draws it again, the same to the letter."""
    assert picture(engine) == (DOCS / "picture.svg").read_text("utf-8")


def test_the_readme_is_short() -> None:
    """At most 120 lines."""
    assert len(readme.README.read_text("utf-8").splitlines()) <= 120


def test_the_readmes_figures_were_measured() -> None:
    """Each is in the file that it is from, where tokens are to the last digit."""
    forms = ("keys ", "refs ", "refs, labels inline ")
    exact = [_measured("json-size.md", f"meal plans | {form}", 4) for form in forms]
    tokens = [f"{round(int(each.replace(',', '')), -2):,}" for each in exact]
    read = _measured("sqlalchemy-2.1.md", "ORM read of rows with two keys each", 2)
    by_hand = _measured("sqlalchemy-2.1.md", "refs shown, against a dict remap", 2)
    figures = [
        "{} tokens with keys, {} with refs, {} with labels".format(*tokens),
        f"{read.replace(' x', '')} times a plain session's; ",
        f"{by_hand.replace(' x', '')} times one with a map by hand",
    ]
    text = readme.README.read_text("utf-8")

    assert [figure for figure in figures if figure not in text] == []


def _measured(results: str, row: str, column: int) -> str:
    """Return a figure of the benchmarks, by the beginning of its row."""
    text = (ROOT / "benchmarks" / "results" / results).read_text("utf-8")
    [line] = [line for line in text.splitlines() if line.startswith(f"| {row}")]
    return line.split("|")[column].strip()
