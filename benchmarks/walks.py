"""`python -m benchmarks.walks [TREE]`: how large the package is, and how far a call goes in it.

The structure is read from the source. Five calls are walked under a profile hook, warm, on SQLite
with a registry in memory: so what is counted are our own functions, and no driver's. A tree of
another commit is measured by its own modules:

    git worktree add /tmp/before 5e481e2
    PYTHONPATH=/tmp/before python benchmarks/walks.py /tmp/before

`calls` are of our functions, without comprehensions and lambdas; a generator counts once.
`returns` are calls into a module that the walk had left before.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tokenize
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from statistics import median, quantiles
from types import FrameType
from typing import Any

from sqlalchemy import ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

from alfred_refs import RefRegistry, RefSession
from alfred_refs.store.memory import MemoryStore
from alfred_refs.tools import Toolset

_GENERATOR = 0x20  # `inspect.CO_GENERATOR`


class Base(DeclarativeBase):
    """The tables that are walked on."""


class Recipe(Base):
    """What others refer to."""

    __tablename__ = "recipes"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]


class MealPlan(Base):
    """What refers to a recipe."""

    __tablename__ = "meal_plans"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    recipe_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("recipes.id"))


class Walk:
    """Counts the calls of a package's functions inside the `with`."""

    def __init__(self, package: Path) -> None:
        self._package = str(package)
        self._generators: set[FrameType] = set()
        self.calls: list[tuple[str, str]] = []

    def __enter__(self) -> Walk:
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _hear(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        ours = code.co_filename.startswith(self._package) and not code.co_name.startswith("<")
        if event != "call" or not ours or frame in self._generators:
            return
        if code.co_flags & _GENERATOR:
            self._generators.add(frame)
        module = code.co_filename[len(self._package) + 1 : -len(".py")]
        self.calls.append((module, code.co_qualname))

    def __str__(self) -> str:
        modules = [module for module, _ in self.calls]
        seen: set[str] = set()
        returns, last = 0, ""
        for module in modules:
            returns += module != last and module in seen
            seen.add(module)
            last = module
        return f"{len(modules):5} calls {len(seen):4} modules {returns:4} returns"


class World:
    """A recipe, three drafts of others, and what is done with them in a session of its own."""

    def __init__(self) -> None:
        engine = create_engine("sqlite://")
        Base.metadata.create_all(engine)
        conversation = RefRegistry(store=MemoryStore()).conversation("walks")
        self.sessions = sessionmaker(engine, class_=RefSession, conversation=conversation)
        self.toolset = Toolset([Recipe, MealPlan])
        with self.sessions() as session:
            session.add(Recipe(name="Soup"))
            session.commit()
            self.known = [recipe.id for recipe in session.scalars(select(Recipe))]
        self.drafts = [conversation.draft(Recipe, {"name": "Stew"}).ref for _ in range(3)]

    def read(self, session: RefSession) -> Recipe:
        """Read the recipe by its ref."""
        return session.scalars(select(Recipe).where(Recipe.id == "recipe_1")).one()

    def ask(self, session: RefSession) -> Any:
        """Read the recipe by a tool."""
        filters = [{"field": "id", "op": "=", "value": "recipe_1"}]
        return self.toolset.call(session, "db_read", {"table": "recipes", "filters": filters})

    def save(self, session: RefSession) -> None:
        """Make a row of a draft."""
        session.add(session.get(Recipe, self.drafts.pop()))
        session.commit()

    def refer(self, session: RefSession) -> None:
        """Insert what refers to the recipe."""
        session.add(MealPlan(recipe_id="recipe_1"))
        session.commit()


def walks(package: Path) -> Iterator[tuple[str, Walk]]:
    """Yield the five walks, each with its name."""
    world = World()

    def walked(name: str, work: Callable[[], object]) -> tuple[str, Walk]:
        with Walk(package) as walk:
            work()
        return name, walk

    for work in (world.read, world.ask, world.save, world.refer) * 2:  # the third is warm
        with world.sessions() as session:
            work(session)
    with world.sessions() as session:
        yield walked("(a) select by ref", lambda: world.read(session))
        recipe = world.read(session)
        yield walked("(b) recipe.id, first", lambda: recipe.id)
        yield walked("    and again", lambda: recipe.id)
    for name, work in (
        ("(c) add and commit", world.refer),
        ("(d) db_read by ref", world.ask),
        ("(e) get and save a draft", world.save),
    ):
        with world.sessions() as session:
            yield walked(name, lambda: work(session))  # noqa: B023  # called at once


def structure(package: Path) -> Iterator[tuple[str, str]]:
    """Yield figures of the package's source: files, lines, functions, comments."""
    sources = [path.read_text("utf-8") for path in sorted(package.rglob("*.py"))]
    lines = sum(len(source.splitlines()) for source in sources)
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    deciles = quantiles(map(_length, functions), n=10)
    top = [p for p in package.iterdir() if p.suffix == ".py" or list(p.glob("*.py"))]
    tokens = [found for source in sources for found in _tokens(source)]
    comments = sum(token.type == tokenize.COMMENT for token in tokens)
    yield "entries at the top", str(len(top))
    yield "files, lines, lines of code", f"{len(sources)}, {lines:,}, {sum(map(_code, sources)):,}"
    yield "functions per 1,000 lines", f"{len(functions) / lines * 1_000:.0f}"
    yield "lines of a body, median and 9th decile", f"{deciles[4]:.0f}, {deciles[8]:.0f}"
    yield "private functions that are used once", f"{_used_once(functions, nodes):.0%}"
    yield "comments", f"{comments / lines:.1%} of lines"


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function's body, without its docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]


def _used_once(
    functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef], nodes: Iterable[ast.AST]
) -> float:
    """Return the share of private functions and methods that one expression refers to."""
    uses = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    )
    private = {f.name for f in functions if f.name.startswith("_") and f.name[-2:] != "__"}
    return sum(uses[name] == 1 for name in private) / len(private)


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(StringIO(source).readline)


def _code(source: str) -> int:
    """Return the number of lines that have code, so neither blank, comment nor docstring."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    starts = True  # of a statement: a string that begins one is a docstring
    for token in _tokens(source):
        if token.type == tokenize.STRING and starts:
            continue
        starts = token.type in skipped
        if not starts and token.type != tokenize.ENDMARKER:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    return len(lines)


def import_time(repeats: int = 7) -> str:
    """Return the CPU time of importing the package beside what it builds on, as medians in ms."""
    base = "import sqlalchemy.orm, psycopg"
    times = {
        program: median(_cpu_time(program) for _ in range(repeats))
        for program in ("", base, f"{base}; from alfred_refs import RefRegistry, RefSession")
    }
    nothing, below, ours = times.values()
    return f"{ours - below:.0f} ms more than {below - nothing:.0f} ms of SQLAlchemy and psycopg"


def _cpu_time(program: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", program], check=True)
    after = os.times()
    used = after.children_user - before.children_user
    return 1_000 * (used + after.children_system - before.children_system)


def main(arguments: list[str]) -> None:
    """Print the structure of a tree's package, and the walks of the package that is imported."""
    tree = Path(arguments[0] if arguments else Path(__file__).parents[1]).resolve()
    package = tree / "alfred_refs"
    for name, found in structure(package):
        print(f"{name:45}{found}")  # noqa: T201
    print(f"{'CPU time of the import':45}{import_time()}")  # noqa: T201
    for name, walk in walks(package):
        print(f"{name:28}{walk}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
